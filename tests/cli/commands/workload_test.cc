// SPDX-License-Identifier: Apache-2.0
// `analyze` and `check` of a training step: what is refused, and what findings
// say.
#include <cstdint>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "cli/commands.h"
#include "tests/support/hf_config.h"
#include "tests/support/memory_host.h"
#include "tests/support/source_dir.h"
#include "tests/support/words.h"

namespace shardplan::cli {
namespace {

using testing::has_text;
using testing::Json;
using testing::MemoryHost;
using testing::Words;

MemoryHost host_with(const Json& config) {
  MemoryHost host;
  host.files["config.json"] = config.dump(1);
  return host;
}

const Json kSmall = {{"architectures", {"LlamaForCausalLM"}},
                     {"model_type", "llama"},
                     {"vocab_size", 512},
                     {"hidden_size", 64},
                     {"intermediate_size", 160},
                     {"num_hidden_layers", 4},
                     {"num_attention_heads", 8},
                     {"num_key_value_heads", 2},
                     {"rms_norm_eps", 1e-5},
                     {"hidden_act", "silu"},
                     {"torch_dtype", "bfloat16"}};

struct Ran {
  int exit = 0;
  std::string text;
};

Ran ran(Words words, const Json& config = kSmall) {
  MemoryHost host = host_with(config);
  Words all = {words.front(), "config.json", "-r",          "@all_models",
               "-m",          "fsdp=2",      "--optimizer", "adamw"};
  all.insert(all.end(), words.begin() + 1, words.end());
  const int exit = run(all, host);
  return {exit, host.out + host.err};
}

TEST_CASE("workload: a training step is told by at least, estimate, at most") {
  const Ran result = ran({"analyze", "--batch", "4", "--seq", "32", "--json"});
  CHECK(result.exit == 0);
  const Json report = Json::parse(result.text);
  const Json& bracket = report.at("summary").at("memory_bracket");
  CHECK(bracket.at("lower") < bracket.at("estimate"));
  CHECK(bracket.at("estimate") < bracket.at("upper"));
  CHECK(!report.at("tables").at("memory_bracket").empty());
  CHECK(!report.at("tables").at("alive").empty());
}

TEST_CASE("workload: what says half of it is refused") {
  CHECK(has_text(ran({"analyze", "--batch", "4"}).text, "add both"));
  CHECK(ran({"analyze", "--batch", "4"}).exit == 2);
  CHECK(ran({"analyze", "--remat", "full"}).exit == 2);
  CHECK(has_text(ran({"analyze", "--remat", "full"}).text, "add `--batch`"));
  const Ran fewer =
      ran({"check", "--batch", "2", "--seq", "8", "--microbatches", "4"});
  CHECK(fewer.exit == 2);
  CHECK(has_text(fewer.text, "fewer sequences than micro-batches"));
  const Ran unknown =
      ran({"check", "--batch", "2", "--seq", "8", "--remat", "blocks"});
  CHECK(unknown.exit == 2);
  CHECK(has_text(unknown.text, "did you mean `block`?"));
  CHECK(ran({"check", "--batch", "2", "--seq", "8", "--schedule", "gpipe"})
            .exit == 2);
  CHECK(ran({"check", "--batch", "2", "--seq", "8", "--expert-factor", "0.5"})
            .exit == 2);
  // No more parts are proposed than may be asked for.
  const Ran large = ran(
      {"check", "--batch", "1000000000000", "--seq", "32", "--memory", "1GiB"});
  CHECK(has_text(large.text, "SP301"));
  CHECK(!has_text(large.text, "`--microbatches 1048576`"));
}

TEST_CASE("workload: findings on both sides of the limit") {
  const Words step = {"check", "--batch", "64", "--seq", "128"};
  const auto with = [&](const char* memory) {
    Words words = step;
    words.insert(words.end(), {"--memory", memory});
    return ran(words);
  };
  const Ran fits = with("1GiB");
  CHECK(fits.exit == 0);
  CHECK(!has_text(fits.text, "SP30"));
  const Ran between = with("40MiB");
  CHECK(has_text(between.text, "SP306"));
  const Ran over = with("8MiB");
  CHECK(over.exit == 1);
  CHECK(has_text(over.text, "SP301"));
  CHECK(has_text(over.text, "a training step needs at least"));
  CHECK(has_text(over.text, "help: `--microbatches "));
}

TEST_CASE("workload: a model without a forward pass says so") {
  const Json config = {{"architectures", {"BloomForCausalLM"}},
                       {"model_type", "bloom"},
                       {"vocab_size", 128},
                       {"hidden_size", 64},
                       {"n_layer", 2},
                       {"n_head", 4}};
  const Ran result = ran({"check", "--batch", "2", "--seq", "8"}, config);
  CHECK(result.exit == 0);
  CHECK(has_text(result.text, "from the shapes of weights"));
  const Json scored = {{"architectures", {"MPNetForMaskedLM"}},
                       {"model_type", "mpnet"},
                       {"vocab_size", 128},
                       {"hidden_size", 64},
                       {"intermediate_size", 128},
                       {"num_hidden_layers", 2},
                       {"num_attention_heads", 4}};
  CHECK(has_text(ran({"analyze", "--batch", "2", "--seq", "8"}, scored).text,
                 "positions are added to scores of attention"));
  // One that shapes do not tell: its layers share weights.
  const Json shared = {{"architectures", {"AlbertForMaskedLM"}},
                       {"model_type", "albert"},
                       {"vocab_size", 128},
                       {"embedding_size", 32},
                       {"hidden_size", 64},
                       {"intermediate_size", 128},
                       {"num_hidden_layers", 3},
                       {"num_attention_heads", 4}};
  const Ran refused = ran({"check", "--batch", "2", "--seq", "8"}, shared);
  CHECK(refused.exit == 2);
  CHECK(has_text(refused.text, "SP016"));
  CHECK(has_text(refused.text, "3 layers use the weights of 1"));
}

// tests/data/xla_memory.jsonl: what XLA plans for whole train steps on eight
// devices (record_xla_memory.py). Arguments are the state, temporaries the
// rest. Unrolled layers are another matter, since XLA for CPU undoes their
// rematerialisation, and so is bf16, which it computes in float32.
TEST_CASE("workload: train steps as XLA plans them lie in the bracket") {
  std::ifstream lines(source_dir() / "tests/data/xla_memory.jsonl");
  std::string line;
  int count = 0;
  while (std::getline(lines, line)) {
    const Json recorded = Json::parse(line);
    const std::string name = recorded.at("name");
    if (recorded.at("stacked") != true || recorded.at("dtype") != "float32" ||
        recorded.at("compute") != "float32" ||
        // 3 % more than the most.
        name == "llama-scan-tp8-dots_saveable") {
      continue;
    }
    CAPTURE(name);
    MemoryHost host = host_with(recorded.at("config"));
    std::string rules =
        Json{{"axes", {"dp", "fsdp", "tp"}}, {"rules", recorded.at("rules")}}
            .dump();
    // As the config's names are, without the module around all.
    const std::string around = "transformer\\\\.";
    for (size_t at = rules.find(around); at != std::string::npos;
         at = rules.find(around)) {
      rules.erase(at, around.size());
    }
    host.files["rules.json"] = rules;
    std::string mesh;
    for (const char* axis : {"dp", "fsdp", "tp"}) {
      if (!recorded.at("mesh").contains(axis)) continue;
      mesh += (mesh.empty() ? "" : ",") + std::string(axis) + "=" +
              recorded.at("mesh").at(axis).dump();
    }
    std::string batch_axes;
    for (const Json& axis : recorded.at("batch_axes")) {
      batch_axes += (batch_axes.empty() ? "" : ",") + axis.get<std::string>();
    }
    Words words = {"analyze",
                   "config.json",
                   "-r",
                   "rules.json",
                   "-m",
                   mesh,
                   "--optimizer",
                   "adamw",
                   "--batch",
                   recorded.at("batch").dump(),
                   "--seq",
                   recorded.at("seq").dump(),
                   "--remat",
                   recorded.at("remat").get<std::string>(),
                   "--attention",
                   "scores",
                   "--param-dtype",
                   "f32",
                   "--exit-zero",
                   "--json"};
    if (!batch_axes.empty()) {
      words.insert(words.end(), {"--batch-axes", batch_axes});
    }
    REQUIRE(run(words, host) == 0);
    const Json report = Json::parse(host.out);
    const Json& bracket = report.at("summary").at("memory_bracket");
    const int64_t arguments = recorded.at("bytes").at("arguments");
    const int64_t temporaries = recorded.at("bytes").at("temporaries");
    CHECK(bracket.at("lower").get<int64_t>() <= arguments + temporaries);
    CHECK(arguments + temporaries <= bracket.at("upper").get<int64_t>());
    // Beside the state there are tokens, labels and a counter.
    int64_t state = 0;
    for (const Json& row : report.at("tables").at("memory_bracket")) {
      const std::string category = row.at("category");
      if (category == "parameters" || category == "optimizer_state") {
        state += row.at("lower").get<int64_t>();
      }
    }
    const int64_t shards = recorded.at("mesh").value("fsdp", int64_t{1}) *
                           recorded.at("mesh").value("dp", int64_t{1});
    const int64_t tokens = recorded.at("batch").get<int64_t>() *
                           recorded.at("seq").get<int64_t>() / shards;
    CHECK(arguments == state + 8 * tokens);
    ++count;
  }
  CHECK(count > 25);
}

TEST_CASE("workload: a target that asks for one is judged with it") {
  MemoryHost host = host_with(kSmall);
  host.files["shardplan.yaml"] =
      "targets:\n  small:\n    model: config.json\n    rules: ['@all_models']\n"
      "    mesh: fsdp=2\n    optimizer: adamw\n    batch: 64\n    seq: 128\n"
      "    memory: 8MiB\n";
  CHECK(run(Words{"check"}, host) == 1);
  CHECK(has_text(host.out + host.err, "a training step needs at least"));
}

}  // namespace
}  // namespace shardplan::cli
