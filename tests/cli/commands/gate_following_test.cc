// SPDX-License-Identifier: Apache-2.0
// A change that fails does not pass because what it breaks is no longer looked
// at: renamed, dropped, split, or asked something else.
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "tests/support/memory_host.h"
#include "tests/support/words.h"

namespace shardplan::cli {
namespace {

using testing::has_text;
using testing::MemoryHost;
using testing::Words;

constexpr const char* kFollowedModel = R"({
 "w": {"shape": [64, 64], "dtype": "bf16"},
 "v": {"shape": [64, 64], "dtype": "bf16"}})";
constexpr const char* kOther = R"({"u": {"shape": [8, 8], "dtype": "bf16"}})";
constexpr const char* kFollowedRules =
    "axes: [fsdp, tp]\nrules:\n  - [\".\", [fsdp]]\n";
constexpr const char* kFollowedLost =
    "axes: [fsdp, tp]\nrules:\n  - [\"w\", []]\n  - [\".\", [fsdp]]\n";
constexpr const char* kGained =
    "axes: [fsdp, tp]\nrules:\n  - [\".\", [fsdp, tp]]\n";

using Files = std::map<std::string, std::string>;

struct GateRow {
  std::string about;
  std::string base;  // shardplan.yaml
  std::string head;  // "" is none
  Files head_files;  // over those of the base
  int exit = 0;
  std::string code = "";  // of an error
};

std::string one(const std::string& name, const std::string& more = "",
                const std::string& mesh = "fsdp=8",
                const std::string& model = "m.json") {
  return "targets:\n  " + name + ": {model: " + model +
         ", rules: r.yaml, mesh: [" + mesh + "]" + more + "}\n";
}

const std::vector<GateRow>& rows() {
  const Files lost = {{"r.yaml", kFollowedLost}};
  const std::string two = "fsdp=8, \"fsdp=4,tp=2\"";
  static const std::vector<GateRow> kRows = {
      {"nothing", one("a"), one("a"), {}},
      {"lost axes", one("a"), one("a"), lost, 1, "SP601"},
      {"a new name", one("a"), one("b"), {}},
      {"a new name, axes gained", one("a"), one("b"), {{"r.yaml", kGained}}},
      {"a new name, lost axes", one("a"), one("b"), lost, 1, "SP601"},
      {"no shardplan.yaml any more", one("a"), "", {}, 1, "SP604"},
      {"no targets any more", one("a"), "mesh: fsdp=8\n", {}, 1, "SP604"},
      {"dropped, as the base allows",
       "allow: [SP604]\n" + one("a"),
       one("b", "", "fsdp=4"),
       {}},
      {"dropped, as the base allows for it",
       one("a", ", allow: [SP604]"),
       one("b", "", "fsdp=4"),
       {}},
      {"dropped, as the head allows",
       one("a"),
       "allow: [SP604]\n" + one("b", "", "fsdp=4"),
       {},
       1,
       "SP604"},
      {"a mesh less",
       one("a", "", two),
       one("a", "", "fsdp=8"),
       {},
       1,
       "SP604"},
      {"a mesh more", one("a"), one("a", "", two), {}},
      {"a mesh more, lost axes", one("a"), one("a", "", two), lost, 1, "SP601"},
      {"a smaller mesh", one("a"), one("a", "", "fsdp=4"), {}, 1, "SP602"},
      {"the model has another name",
       one("a"),
       one("a", "", "fsdp=8", "n.json"),
       {{"n.json", kFollowedModel}}},
      {"the model has another name, lost axes",
       one("a"),
       one("a", "", "fsdp=8", "n.json"),
       {{"n.json", kFollowedModel}, {"r.yaml", kFollowedLost}},
       1,
       "SP601"},
      {"another model",
       one("a"),
       one("a", "", "fsdp=8", "n.json"),
       {{"n.json", kOther}, {"m.json", ""}},
       1,
       "SP604"},
      {"another model, lost axes of the first",
       one("a"),
       one("a", "", "fsdp=8", "n.json"),
       {{"n.json", kOther}, {"r.yaml", kFollowedLost}},
       1,
       "SP601"},
      {"another model in its place",
       one("a"),
       one("a"),
       {{"m.json", kOther}},
       1,
       "SP604"},
      {"split in two",
       one("a"),
       one("b") + "  c: {model: m.json, rules: s.yaml, mesh: [fsdp=8]}\n",
       {{"s.yaml", kFollowedLost}},
       1,
       "SP601"},
      {"what fails is the base's", one("a"),
       "fail_on: new-warnings\n" + one("b"), lost, 1, "SP601"},
      {"more is asked", one("a"), one("a", ", optimizer: adamw"), {}},
      {"less is asked, and more is held",
       "fail_on: memory>10%\n" + one("a", ", optimizer: adamw"), one("a"), lost,
       1, "SP602"},
      {"more devices, and more is held", "fail_on: memory>10%\n" + one("a"),
       one("a", "", "fsdp=64"), lost, 1, "SP602"},
      {"more devices", one("a"), one("a", "", "fsdp=64"), {}},
      {"another mode, lost axes", one("a", ", optimizer: adamw"),
       one("a", ", mode: decode"), lost, 1, "SP601"},
      {"another axis and its rules",
       one("a"),
       one("a", "", "\"fsdp=8,tp=2\""),
       {{"r.yaml", kGained}}},
      {"a new target",
       one("a"),
       one("a") + "  b: {model: m.json, rules: r.yaml, mesh: [fsdp=4]}\n",
       {}},
  };
  return kRows;
}

TEST_CASE(
    "gate: what a change breaks is looked at, whatever its target is called") {
  for (const GateRow& row : rows()) {
    CAPTURE(row.about);
    MemoryHost host;
    for (const std::string side : {"old/", "new/"}) {
      host.files[side + "m.json"] = kFollowedModel;
      host.files[side + "r.yaml"] = kFollowedRules;
    }
    host.files["old/shardplan.yaml"] = row.base;
    if (!row.head.empty()) host.files["new/shardplan.yaml"] = row.head;
    for (const auto& [name, text] : row.head_files) {
      host.files["new/" + name] = text;
      if (text.empty()) host.files.erase("new/" + name);
    }
    const int exit = run(Words{"gate", "old", "new"}, host);
    CAPTURE(host.out + host.err);
    CHECK(exit == row.exit);
    if (!row.code.empty()) {
      CHECK(has_text(host.err, "error[" + row.code + "]"));
    }
    MemoryHost again;
    again.files = host.files;
    CHECK(run(Words{"gate", "old", "new", "--json"}, again) == row.exit);
    const auto report = nlohmann::json::parse(again.out);
    bool fails = false;
    for (const auto& change : report.at("tables").at("gate_changes")) {
      fails = fails || change.at("fails").get<bool>();
    }
    CHECK(fails == (row.exit == 1));
  }
}

}  // namespace
}  // namespace shardplan::cli
