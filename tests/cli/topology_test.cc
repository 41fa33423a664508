// SPDX-License-Identifier: Apache-2.0
// --topology through the whole program.
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/config.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "io/topologies.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"
#include "tests/support/words.h"

namespace shardplan::cli {
namespace {

using nlohmann::json;
using testing::MemoryHost;
using testing::Words;

// One array, sharded over both axes.
MemoryHost two_axes() {
  MemoryHost host;
  host.files["m.json"] = R"({"w": {"shape": [64, 64], "dtype": "f32"}})";
  host.files["r.yaml"] = "rules:\n  - [w, [fsdp, tp]]\n";
  return host;
}

Words with_model(const std::string& command, Words more) {
  Words words = {command, "m.json", "-r", "r.yaml"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

json answer(const Words& words, MemoryHost& host, int expected) {
  Words all = words;
  all.emplace_back("--json");
  const int code = run(all, host);
  CAPTURE(host.err);
  CAPTURE(host.out);
  CHECK(code == expected);
  return json::parse(host.out);
}

// Of findings; how the topology was read is a note.
std::vector<std::string> codes_of(const json& report) {
  std::vector<std::string> codes;
  for (const json& diagnostic : report.at("diagnostics")) {
    if (diagnostic.at("severity") == "note") continue;
    codes.push_back(diagnostic.at("code"));
  }
  return codes;
}

Options options_given(
    const std::vector<std::pair<const char*, const char*>>& values,
    Diagnostics& diags, const char* command = "check") {
  std::vector<Setting> settings;
  for (const auto& [name, value] : values) {
    settings.push_back({find_flag(name), value, {}, ""});
  }
  Options options;
  options.command = command;
  apply_settings(settings, options, diags);
  return options;
}

TEST_CASE("a topology gives devices, slices and hardware") {
  Diagnostics diags;
  const Options options = options_given({{"topology", "2xv5e-16"}}, diags);
  CHECK(testing::messages(diags).empty());
  CHECK(options.planning.devices == 32);
  CHECK(options.planning.slices == 2);
  CHECK(options.memory.hardware == "tpu-v5e");
  CHECK(options.sweep.devices == std::vector<int64_t>{32});
  CHECK(options.sweep.hardware == std::vector<std::string>{"tpu-v5e"});
  // One slice, and machines, which no network of slices joins.
  CHECK_FALSE(options_given({{"topology", "v5e-16"}}, diags).planning.slices);
  CHECK_FALSE(
      options_given({{"topology", "4xa3-highgpu-8g"}}, diags).planning.slices);
  CHECK_FALSE(options_given({{"topology", "v3-32"}}, diags).memory.hardware);
  CHECK(diags.all().empty());
}

TEST_CASE("what is given beside a topology agrees with it") {
  const struct {
    std::vector<std::pair<const char*, const char*>> values;
    const char* messages;
  } rows[] = {
      {{{"topology", "v5p-128"}, {"devices", "64"}}, ""},
      {{{"devices", "64"}, {"topology", "v5p-128"}}, ""},
      {{{"topology", "v5p-128"}, {"devices", "128"}},
       "SP010 `--devices` gives 128 devices, but the topology `v5p-128` has "
       "64"},
      {{{"topology", "2xv5e-256"}, {"slices", "2"}}, ""},
      {{{"topology", "2xv5e-256"}, {"slices", "4"}},
       "SP010 `--slices` gives 4 slices, but the topology `2xv5e-256` has 2"},
      {{{"topology", "v5e-256"}, {"slices", "2"}},
       "SP010 `--slices` gives 2 slices, but the topology `v5e-256` has 1"},
      {{{"topology", "v5e-256"}, {"slices", "1"}}, ""},
      {{{"topology", "4xa3-highgpu-8g"}, {"slices", "2"}}, ""},
      {{{"topology", "v5p-128"}, {"hardware", "h200"}}, ""},
      {{{"topology", "v5p-4"}}, "SP010 unknown topology `v5p-4`"},
      {{{"topology", "v5p-4"}, {"devices", "0"}},
       "SP010 unknown topology `v5p-4`\n"
       "SP010 `--devices` must be an integer from 1 to 1,099,511,627,776, not "
       "`0`"},
  };
  for (const auto& row : rows) {
    Diagnostics diags;
    options_given(row.values, diags);
    CHECK(testing::messages(diags) == row.messages);
  }
  Diagnostics diags;
  options_given({{"topology", "8xH100"}, {"devices", "8,16"}}, diags, "sweep");
  CHECK(testing::messages(diags) ==
        "SP010 `--devices` gives 16 devices, but the topology `8xH100` has 8");
}

TEST_CASE("other hardware wins, and its memory is not said to be the slice's") {
  Diagnostics diags;
  const Options other =
      options_given({{"topology", "v5p-128"}, {"hardware", "h200"}}, diags);
  CHECK(other.memory.hardware == "h200");
  CHECK(topology_text(*other.planning.topology) ==
        "v5p-128: 64 devices (v5p counts cores, 2 per chip)");
  const Options limited =
      options_given({{"topology", "v5p-128"}, {"memory", "10GiB"}}, diags);
  CHECK_FALSE(limited.planning.topology->device_bytes);
  const Options same =
      options_given({{"topology", "v5p-128"}, {"hardware", "tpu-v5p"}}, diags);
  CHECK(same.planning.topology->device_bytes);
  const Options swept = options_given(
      {{"topology", "8xH100"}, {"hardware", "h100-sxm,h200"}}, diags, "sweep");
  CHECK(swept.sweep.hardware == std::vector<std::string>{"h100-sxm", "h200"});
  CHECK_FALSE(swept.planning.topology->device_bytes);
  CHECK(diags.all().empty());
}

TEST_CASE("the open size of a mesh takes the devices of the topology") {
  for (const char* command : {"check", "resolve", "analyze", "simulate"}) {
    CAPTURE(command);
    MemoryHost host = two_axes();
    Words words = with_model(
        command, {"-m", "fsdp=-1,tp=2", "--topology", "2xa3-highgpu-4g"});
    if (std::string(command) == "simulate") {
      words = {"simulate",    "@mlp",       "--pattern",
               ".*->",        "-m",         "fsdp=-1,tp=2",
               "--exit-zero", "--topology", "2xa3-highgpu-4g"};
    }
    const json summary = answer(words, host, 0).at("summary");
    CHECK(summary.at("topology") == "2xa3-highgpu-4g");
    CHECK(summary.at("mesh") == json{{"fsdp", 4}, {"tp", 2}});
  }
  MemoryHost host = two_axes();
  const json shard = answer(
      with_model("inspect",
                 {"-m", "fsdp=-1,tp=2", "--shard", "w", "--topology", "v4-16"}),
      host, 0);
  CHECK(shard.at("summary").at("topology") == "v4-16");
  CHECK(shard.at("summary").at("devices") == 8);
  MemoryHost other = two_axes();
  const json read =
      answer({"diff", "m.json", "-r", "r.yaml", "--semantics", "eformer,flax",
              "-m", "fsdp=-1,tp=2", "--topology", "v4-16"},
             other, 0);
  CHECK(read.at("summary").at("topology") == "v4-16");
}

TEST_CASE("without a topology the summary has none") {
  MemoryHost host = two_axes();
  CHECK(answer(with_model("check", {"-m", "fsdp=4,tp=2"}), host, 0)
            .at("summary")
            .count("topology") == 0);
}

TEST_CASE("slices cross an axis") {
  MemoryHost host = two_axes();
  const json report = answer(
      with_model("resolve", {"-m", "fsdp=-1,tp=4", "--topology", "2xv5e-8"}),
      host, 0);
  CHECK(report.at("summary").at("slices") == json{{"fsdp", 2}, {"tp", 1}});
  MemoryHost none = two_axes();
  CHECK(run(with_model("resolve", {"-m", "fsdp=3,tp=8", "--topology", "3xv5e-8",
                                   "--tolerance", "9"}),
            none) != 2);
  MemoryHost uncut = two_axes();
  CHECK(run(with_model("resolve",
                       {"-m", "fsdp=4,tp=4", "--topology", "16xv5e-1"}),
            uncut) == 2);
  CHECK(uncut.err.find("no mesh axis can span 16 slices") != std::string::npos);
}

TEST_CASE("a mesh of another size is a finding that names the topology") {
  MemoryHost host = two_axes();
  const json report = answer(
      with_model("check", {"-m", "fsdp=4,tp=4", "--topology", "v5p-128"}), host,
      1);
  CHECK(codes_of(report) == std::vector<std::string>{"SP205"});
  CHECK(report.at("diagnostics").at(0).at("facts").at(1) ==
        "`--topology v5p-128` has 64 devices");
  MemoryHost open = two_axes();
  CHECK(
      run(with_model("check", {"-m", "fsdp=3,tp=-1", "--topology", "v5p-128"}),
          open) == 2);
  CHECK(open.err.find("`--topology v5p-128` has 64 devices") != std::string::npos);
}

TEST_CASE("what does not fit the devices of the topology is SP301") {
  MemoryHost host;
  host.files["m.json"] = R"({"w": {"shape": [65536, 65536], "dtype": "f32"}})";
  host.files["r.yaml"] = "rules:\n  - [w, [fsdp, null]]\n";
  const json report = answer(
      with_model("check", {"-m", "fsdp=-1", "--topology", "v5e-1"}), host, 1);
  CHECK(codes_of(report) == std::vector<std::string>{"SP301"});
  MemoryHost larger;
  larger.files = host.files;
  CHECK(run(with_model("check", {"-m", "fsdp=-1", "--topology", "v4-8"}),
            larger) == 0);
}

TEST_CASE("people are told once what was understood") {
  for (const char* command : {"check", "resolve", "analyze", "sweep"}) {
    CAPTURE(command);
    MemoryHost host = two_axes();
    CHECK(
        run(with_model(command, {"-m", "fsdp=-1,tp=2", "--topology", "v5p-16"}),
            host) == 0);
    const std::string text = host.out + host.err;
    const std::string sentence =
        "v5p-16: 8 devices (v5p counts cores, 2 per chip), 95.7 GiB each";
    CHECK(text.find(sentence) != std::string::npos);
    CHECK(text.find(sentence) == text.rfind(sentence));
  }
}

TEST_CASE("a sweep cuts the devices of the topology") {
  MemoryHost host = two_axes();
  const json report = answer(
      with_model("sweep", {"--over", "fsdp,tp", "--topology", "2xv5e-4"}), host,
      0);
  CHECK(report.at("summary").at("topology") == "2xv5e-4");
  CHECK(report.at("summary").at("meshes") == 4);
  for (const json& point : report.at("tables").at("points")) {
    CHECK(point.at("hardware") == "tpu-v5e");
  }
}

TEST_CASE("a saved plan is held against the topology") {
  MemoryHost host = two_axes();
  REQUIRE(run(with_model("resolve", {"-m", "fsdp=4,tp=2", "-o", "p.plan.json"}),
              host) == 0);
  const auto checked = [&](const char* name, int expected) {
    MemoryHost again;
    again.files = host.files;
    return answer(
        {"check", "m.json", "--plan", "p.plan.json", "--topology", name}, again,
        expected);
  };
  CHECK(codes_of(checked("8xH100", 0)).empty());
  CHECK(codes_of(checked("v5p-8", 1)) == std::vector<std::string>{"SP205"});
  CHECK(checked("2xv5e-4", 0).at("summary").at("slices") ==
        json{{"fsdp", 2}, {"tp", 1}});
}

TEST_CASE("as a key it has a place, and a flag replaces what it says") {
  MemoryHost host = two_axes();
  host.files["shardplan.yaml"] =
      "mesh: {fsdp: -1, tp: 2}\n"
      "topology: v5p-16\n"
      "devices: 16\n";
  CHECK(run({"check", "m.json", "-r", "r.yaml"}, host) == 2);
  CHECK(host.err.find("shardplan.yaml:3:10") != std::string::npos);
  CHECK(host.err.find(
            "`devices` gives 16 devices, but the topology `v5p-16` has 8") !=
        std::string::npos);

  MemoryHost replaced = two_axes();
  replaced.files["shardplan.yaml"] =
      "mesh: {fsdp: -1, tp: 2}\n"
      "devices: 16\n"
      "slices: 4\n"
      "hardware: h200\n";
  const json report =
      answer(with_model("check", {"--topology", "v5e-8"}), replaced, 0);
  CHECK(report.at("summary").at("devices") == 8);
  CHECK(report.at("summary").count("slices") == 0);
  CHECK(report.at("summary").at("memory_limit") == 16'911'433'728);  // v5e's

  MemoryHost unknown = two_axes();
  unknown.files["shardplan.yaml"] = "topology: v5p-4\nmesh: {tp: 2}\n";
  CHECK(run({"check", "m.json", "-r", "r.yaml"}, unknown) == 2);
  CHECK(unknown.err.find("shardplan.yaml:1:11") != std::string::npos);
}

TEST_CASE("topologies are listed for programs with their sources") {
  MemoryHost host;
  const json tables = answer({"list", "topologies"}, host, 0).at("tables");
  CHECK(tables.at("tpu_families").size() == tpu_families().size());
  CHECK(tables.at("machines").size() == gpu_machines().size());
  CHECK(tables.at("accelerators").size() == plain_accelerators().size());
  CHECK(tables.at("sources").size() == topology_sources().size());
  CHECK(tables.count("machines_shown") == 0);
  MemoryHost one;
  const json said =
      answer({"list", "topologies", "4xv5p-128"}, one, 0).at("tables");
  CHECK(said.at("topology").at(0) == json{{"name", "4xv5p-128"},
                                          {"devices", 256},
                                          {"slices", 4},
                                          {"hosts", 64},
                                          {"hardware", "tpu-v5p"}});
  CHECK(said.at("numbers").size() == 3);
  MemoryHost plain;
  CHECK(answer({"list", "topologies", "8xH100"}, plain, 0)
            .at("tables")
            .at("topology")
            .at(0)
            .at("slices")
            .is_null());
  MemoryHost none;
  CHECK(run({"list", "topologies", "v5p-4"}, none) == 2);
}

TEST_CASE("shells complete names of topologies") {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    CAPTURE(shell);
    MemoryHost host;
    CHECK(run({"completion", shell}, host) == 0);
    CHECK(host.out.find("a3-highgpu-8g") != std::string::npos);
    CHECK(host.out.find("v5p-128") != std::string::npos);
    CHECK(host.out.find("topologies") != std::string::npos);
  }
}

}  // namespace
}  // namespace shardplan::cli
