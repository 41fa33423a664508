// SPDX-License-Identifier: Apache-2.0
// No command opens a file of a model twice, whatever it is asked for.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cli/commands.h"
#include "tests/support/hf_config.h"
#include "tests/support/memory_host.h"
#include "tests/support/safetensors.h"
#include "tests/support/tiny_llama.h"

namespace shardplan {
namespace {

using testing::Json;
using testing::MemoryHost;

struct Asked {
  const char* what;
  std::vector<std::string> words;
};

// Every way in which a command asks for a forward pass, for units, for engines
// or for changes that were tried.
std::vector<Asked> asked_of(const std::string& model) {
  const std::vector<std::string> planned = {model, "--mesh", "fsdp=2,tp=2"};
  const auto with = [&](const std::string& command,
                        const std::vector<std::string>& more) {
    std::vector<std::string> words = planned;
    words.insert(words.begin(), command);
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  return {
      {"tensors", {"inspect", model}},
      {"a plan", with("analyze", {})},
      {"a step", with("analyze", {"--batch", "8", "--seq", "16"})},
      {"a step that does not fit",
       with("analyze", {"--batch", "8", "--seq", "16", "--memory", "1KiB",
                        "--optimizer", "adamw"})},
      {"a step of adapters",
       with("analyze", {"--batch", "8", "--seq", "16", "--optimizer", "adamw",
                        "--trainable", "norm"})},
      {"an engine",
       {"analyze", model, "--mesh", "tp=2", "--mode", "decode", "--engine",
        "vllm", "--seq", "16", "--memory", "80GiB"}},
      {"findings", with("check", {"--batch", "8", "--seq", "16"})},
      {"a run", with("simulate", {})},
      {"a smaller run", with("simulate", {"--shrink"})},
      {"a sweep", {"sweep", model, "--devices", "8", "--over", "fsdp,tp"}},
      {"a sweep of steps",
       {"sweep", model, "--devices", "8", "--over", "fsdp,tp", "--batch", "8",
        "--seq", "16"}},
      {"rules beside others",
       {"diff", model, "--mesh", "fsdp=2,tp=2", "--before", "@llama", "--after",
        "@all_models"}},
  };
}

void check_opens(MemoryHost host, const std::string& model) {
  for (const Asked& asked : asked_of(model)) {
    const std::string what = asked.what;
    CAPTURE(what);
    MemoryHost own = host;
    const int exit = cli::run(asked.words, own);
    CHECK_MESSAGE(exit != 2, own.out << own.err);
    CHECK(own.opens["d/config.json"] == 1);
    // How long its header is, the header, and the numbers of a run.
    const bool runs = asked.words.front() == "simulate";
    CHECK(own.opens["d/a.safetensors"] <= (runs ? 3 : 2));
  }
}

TEST_CASE("read once: a config.json is opened once by every command") {
  MemoryHost host;
  host.files["d/config.json"] = testing::small_config("llama").dump();
  check_opens(host, "d/config.json");
}

TEST_CASE("read once: a config beside weights is, too") {
  const Json config = testing::tiny_llama();
  const auto synthesis = testing::synthesize(config);
  std::vector<testing::StoredTensor> tensors;
  const Manifest& manifest = synthesis->good();
  for (size_t i = 0; i < manifest.size(); ++i) {
    tensors.push_back(
        {std::string(manifest.name(i)), "BF16", manifest.type(i).shape});
  }
  MemoryHost host;
  host.files["d/config.json"] = config.dump();
  host.files["d/a.safetensors"] = testing::safetensors(tensors);
  check_opens(host, "d");
}

// Of what is larger than a head, the head tells the format.
TEST_CASE("read once: of a large config the head is read, and all of it") {
  const std::string config = testing::small_config("llama").dump();
  MemoryHost host;
  host.files["d/config.json"] = config + std::string(100'000, '\n');
  for (const Asked& asked : asked_of("d/config.json")) {
    CAPTURE(asked.what);
    MemoryHost own = host;
    const int exit = cli::run(asked.words, own);
    CHECK_MESSAGE(exit != 2, own.out << own.err);
    CHECK(own.opens["d/config.json"] == 2);
  }
}

TEST_CASE("read once: a graph is opened once, a pipe, too") {
  MemoryHost host;
  host.files["g.yaml"] =
      "graph: x\ninputs: {x: {shape: [4, 4]}}\n"
      "ops: [{op: silu, in: x, out: y}]\n" +
      std::string(100'000, '\n');
  for (const bool piped : {false, true}) {
    MemoryHost own = host;
    if (piped) own.pipes.insert("g.yaml");
    const int exit = cli::run({"simulate", "g.yaml", "--mesh", "tp=2"}, own);
    CHECK_MESSAGE(exit == 0, own.out << own.err);
    CHECK(own.opens["g.yaml"] == (piped ? 1 : 2));
  }
}

TEST_CASE("read once: each side of a gate opens it once") {
  MemoryHost host;
  for (const std::string side : {"old/", "new/"}) {
    host.files[side + "config.json"] = testing::small_config("llama").dump();
    host.files[side + "shardplan.yaml"] =
        "targets:\n"
        "  a: {model: config.json, mesh: tp=2, batch: 8, seq: 16}\n"
        "  b: {model: config.json, rules: \"@llama\", mesh: fsdp=2}\n";
  }
  CHECK(cli::run({"gate", "old", "new"}, host) != 2);
  CHECK(host.opens["old/config.json"] == 1);
  CHECK(host.opens["new/config.json"] == 1);
}

TEST_CASE("read once: targets of one model open it once") {
  MemoryHost host;
  host.files["d/config.json"] = testing::small_config("llama").dump();
  host.files["shardplan.yaml"] =
      "targets:\n"
      "  a: {model: d/config.json, mesh: tp=2, batch: 8, seq: 16}\n"
      "  b: {model: d/config.json, mesh: fsdp=2}\n";
  CHECK(cli::run({"check"}, host) != 2);
  CHECK(host.opens["d/config.json"] == 1);
}

}  // namespace
}  // namespace shardplan
