// SPDX-License-Identifier: Apache-2.0
// Commands over meshes with views: rows of programs against arithmetic, sweeps,
// and what is suggested where memory runs out.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "tests/support/memory_host.h"
#include "tests/support/words.h"

namespace shardplan::cli {
namespace {

using shardplan::testing::MemoryHost;
using testing::has_text;
using testing::Words;
using ViewsJson = nlohmann::json;

constexpr int kExperts = 5;

// Attention of one layer, and five experts that are stored one by one.
MemoryHost host_of_views() {
  MemoryHost host;
  ViewsJson model = {
      {"layers.0.attn.q", {{"shape", {16, 16}}, {"dtype", "bf16"}}}};
  for (int expert = 0; expert < kExperts; ++expert) {
    model["layers.0.mlp.experts." + std::to_string(expert) + ".up"] = {
        {"shape", {32, 16}}, {"dtype", "bf16"}};
  }
  host.files["m.json"] = model.dump();
  host.files["r.yaml"] =
      "axes: [dp, tp, ep, etp, edp]\n"
      "rules:\n"
      "  - [\"attn\", [tp, null]]\n"
      "  - {pattern: \"experts\", view: experts, deal: ep, spec: [etp, "
      "null]}\n";
  return host;
}

ViewsJson json_of(Words words) {
  MemoryHost host = host_of_views();
  const Words rest(words.begin() + 1, words.end());
  Words all = {words.front(), "m.json", "-r",
               "r.yaml",      "--json", "--exit-zero"};
  all.insert(all.end(), rest.begin(), rest.end());
  const int code = run(all, host);
  CAPTURE(host.out);
  CAPTURE(host.err);
  REQUIRE((code == 0 || code == 1));
  return ViewsJson::parse(host.out);
}

TEST_CASE("rows of placements say the view, and the rank of each expert") {
  const ViewsJson report = json_of(
      {"resolve", "-m", "dp=2,tp=4", "--view", "experts:ep=2,edp=2,etp=2"});
  CHECK(report.at("summary").at("mesh") == ViewsJson{{"dp", 2}, {"tp", 4}});
  CHECK(report.at("summary").at("views") ==
        ViewsJson{{"experts", {{"ep", 2}, {"edp", 2}, {"etp", 2}}}});
  const auto& rows = report.at("tables").at("placements");
  REQUIRE(rows.size() == kExperts + 1);
  for (const auto& row : rows) {
    const auto name = row.at("parameter").get<std::string>();
    CAPTURE(name);
    if (name == "layers.0.attn.q") {
      CHECK(row.at("view").is_null());
      CHECK(row.at("dealt").is_null());
      CHECK(row.at("shards") == 4);
      CHECK(row.at("replicas") == 2);
      continue;
    }
    const int expert = name[std::string("layers.0.mlp.experts.").size()] - '0';
    CHECK(row.at("view") == "experts");
    CHECK(row.at("dealt") ==
          ViewsJson{{"axis", "ep"}, {"rank", expert * 2 / kExperts}});
    CHECK(row.at("shards") == 2);
    CHECK(row.at("replicas") == 8 / (2 * 2));
    CHECK(row.at("bytes_per_device") == 32 / 2 * 16 * 2);
  }
  // Rank 0 holds three experts, rank 1 two; attention is everywhere.
  const auto& memory = report.at("summary").at("memory_per_device");
  CHECK(memory.at("max") == 16 * 16 * 2 / 4 + 3 * 512);
  CHECK(memory.at("min") == 16 * 16 * 2 / 4 + 2 * 512);
}

TEST_CASE("inspect --shard has the devices of the expert's rank alone") {
  MemoryHost host = host_of_views();
  REQUIRE(run({"inspect", "m.json", "-r", "r.yaml", "-m", "dp=2,tp=4", "--view",
               "experts:ep=2,edp=2,etp=2", "--shard",
               "layers.0.mlp.experts.3.up", "--json", "--exit-zero"},
              host) == 0);
  const ViewsJson report = ViewsJson::parse(host.out);
  CHECK(report.at("summary").at("view") == "experts");
  CHECK(report.at("summary").at("dealt") ==
        ViewsJson{{"axis", "ep"}, {"rank", 1}});
  std::set<int> devices;
  for (const auto& row : report.at("tables").at("shards")) {
    const int device = row.at("device").get<int>();
    devices.insert(device);
    CHECK(row.at("coordinates") ==
          ViewsJson{device / 4, device / 2 % 2, device % 2});
    CHECK(row.at("begin") == ViewsJson{device % 2 * 16, 0});
  }
  CHECK(devices == std::set<int>{4, 5, 6, 7});
}

TEST_CASE("a sweep tries sizes of views, and counts those that do not fit") {
  const ViewsJson report = json_of(
      {"sweep", "-m", "dp=1,2,tp=4", "--view", "experts:ep=1,2,8,etp=-1"});
  // ep=8 has more devices than dp=1,tp=4.
  CHECK(report.at("summary").at("left_out") == 1);
  CHECK(report.at("summary").at("points") == 5);
  std::set<std::string> seen;
  for (const auto& row : report.at("tables").at("points")) {
    CHECK(row.at("views").contains("experts"));
    seen.insert(row.at("mesh").dump() + row.at("views").dump());
    const int ep = row.at("views").at("experts").at("ep").get<int>();
    const int etp = row.at("views").at("experts").at("etp").get<int>();
    CHECK(ep * etp == row.at("devices").get<int>());
    const int most = (kExperts + ep - 1) / ep;
    CHECK(row.at("bytes_per_device") == 128 + most * 1024 / etp);
  }
  CHECK(seen.size() == 5);
  // Two flags for one name are two choices, and so are lists behind `;`.
  for (const Words& views :
       {Words{"--view", "experts:ep=2,etp=4", "--view", "experts:ep=8,etp=1"},
        Words{"--view", "experts:ep=2,etp=4;ep=8,etp=1"}}) {
    Words words = {"sweep", "-m", "dp=2,tp=4"};
    words.insert(words.end(), views.begin(), views.end());
    const ViewsJson two = json_of(words);
    CHECK(two.at("summary").at("points") == 2);
    CHECK(two.at("summary").at("left_out") == 0);
  }
}

TEST_CASE("a sweep whose views fit no mesh says why") {
  MemoryHost host = host_of_views();
  CHECK(run({"sweep", "m.json", "-r", "r.yaml", "-m", "dp=2,4,tp=4", "--view",
             "experts:ep=3,etp=2"},
            host) == 2);
  CHECK(has_text(host.err, "view `experts` has 6 devices and the mesh has 8"));
  CHECK(has_text(host.err, "all 2 combinations of mesh and views"));
  MemoryHost other = host_of_views();
  CHECK(run({"sweep", "m.json", "-r", "r.yaml", "-m", "dp=2,tp=4", "--view",
             "experts"},
            other) == 2);
  CHECK(has_text(other.err, "is not a view"));
}

// The flags that a suggestion names, from `--mesh`, `--view` or `--zero` on.
std::vector<Words> suggested(const std::string& text) {
  std::vector<Words> all;
  size_t at = 0;
  while ((at = text.find('`', at)) != std::string::npos) {
    const size_t end = text.find('`', at + 1);
    if (end == std::string::npos) break;
    const std::string quoted = text.substr(at + 1, end - at - 1);
    at = end + 1;
    if (!quoted.starts_with("--mesh ") && !quoted.starts_with("--view ") &&
        !quoted.starts_with("--zero ")) {
      continue;
    }
    Words words;
    for (size_t begin = 0; begin < quoted.size();) {
      const size_t blank = std::min(quoted.find(' ', begin), quoted.size());
      words.push_back(quoted.substr(begin, blank - begin));
      begin = blank + 1;
    }
    all.push_back(words);
  }
  return all;
}

TEST_CASE("suggestions keep the views, and can be typed") {
  const Words asked = {"analyze",  "m.json",      "-r",
                       "r.yaml",   "--optimizer", "adamw",
                       "--memory", "14KiB",       "--exit-zero"};
  const std::map<std::string, std::string> given = {
      {"--mesh", "dp=2,tp=2"}, {"--view", "experts:ep=2,edp=2"}};
  const auto ran = [&](const std::map<std::string, std::string>& flags) {
    MemoryHost host = host_of_views();
    Words words = asked;
    for (const auto& [flag, value] : flags) {
      words.insert(words.end(), {flag, value});
    }
    const int code = run(words, host);
    return std::pair(code, host.out + host.err);
  };
  const std::pair<int, std::string> first = ran(given);
  const std::string& text = first.second;
  CAPTURE(text);
  REQUIRE(first.first == 0);
  const std::vector<Words> all = suggested(text);
  bool any_mesh = false;
  bool any_view = false;
  bool any_zero = false;
  for (const Words& words : all) {
    std::map<std::string, std::string> flags = given;
    for (size_t i = 0; i + 1 < words.size(); i += 2) {
      flags[words[i]] = words[i + 1];
      any_mesh = any_mesh || words[i] == "--mesh";
      any_view = any_view || words[i] == "--view";
      any_zero = any_zero || words[i] == "--zero-axes";
    }
    const std::pair<int, std::string> again = ran(flags);
    CAPTURE(again.second);
    CHECK(again.first == 0);
    CHECK(has_text(again.second, "experts ep="));
  }
  CHECK(any_mesh);
  CHECK(any_view);
  CHECK(any_zero);
}

}  // namespace
}  // namespace shardplan::cli
