// SPDX-License-Identifier: Apache-2.0
// `analyze` and `check` of a training step: what is refused, and what findings
// say.
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "cli/commands.h"
#include "tests/support/hf_config.h"
#include "tests/support/memory_host.h"
#include "tests/support/source_dir.h"
#include "tests/support/thinned.h"
#include "tests/support/tiny_llama.h"
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

const Json kSmall = testing::tiny_llama();

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

TEST_CASE("workload: other meshes are the same for any number of threads") {
  const Words kPlan = {"analyze", "--memory", "512KiB"};
  const Words kStep = {"analyze", "--memory", "1200KiB", "--batch",
                       "8",       "--seq",    "32"};
  for (const Words& words : {kPlan, kStep}) {
    std::vector<std::string> texts;
    for (const char* jobs : {"1", "2", "5"}) {
      Words all = words;
      all.insert(all.end(), {"--jobs", jobs});
      texts.push_back(ran(all).text);
    }
    CHECK(has_text(texts[0], "--mesh fsdp="));
    CHECK(texts[1] == texts[0]);
    CHECK(texts[2] == texts[0]);
  }
}

// Threads share the forward passes that they write, of which the last few are
// kept: here there are more.
TEST_CASE("workload: a sweep of steps is the same for any number of threads") {
  std::vector<std::string> texts;
  for (const char* jobs : {"1", "2", "5"}) {
    MemoryHost host = host_with(kSmall);
    CHECK(run({"sweep",
               "config.json",
               "-r",
               "@all_models",
               "--devices",
               "8",
               "--over",
               "fsdp,tp",
               "--optimizer",
               "adamw",
               "--batch",
               "64",
               "--seq",
               "32,48",
               "--microbatches",
               "1,2,4,8,16,32,64",
               "--remat",
               "none,full",
               "--json",
               "--jobs",
               jobs},
              host) <= 1);
    texts.push_back(host.out + host.err);
  }
  const Json report = Json::parse(texts[0]);
  CHECK(report.at("tables").at("points").size() == size_t{4} * 2 * 7 * 2);
  CHECK(texts[1] == texts[0]);
  CHECK(texts[2] == texts[0]);
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
  const Json config = {{"architectures", {"BioGptForCausalLM"}},
                       {"model_type", "biogpt"},
                       {"vocab_size", 128},
                       {"hidden_size", 64},
                       {"intermediate_size", 128},
                       {"num_hidden_layers", 2},
                       {"num_attention_heads", 4}};
  const Ran result = ran({"check", "--batch", "2", "--seq", "8"}, config);
  CHECK(result.exit == 0);
  CHECK(has_text(result.text, "estimated from weight shapes"));
  const Json scored = {{"architectures", {"MPNetForMaskedLM"}},
                       {"model_type", "mpnet"},
                       {"vocab_size", 128},
                       {"hidden_size", 64},
                       {"intermediate_size", 128},
                       {"num_hidden_layers", 2},
                       {"num_attention_heads", 4}};
  CHECK(has_text(ran({"analyze", "--batch", "2", "--seq", "8"}, scored).text,
                 "positions are added to attention scores"));
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
  CHECK(has_text(refused.text, "3 layers share the weights of 1"));
}

// tests/data/xla_memory.jsonl: what XLA plans for whole train steps on CPUs and
// GPUs (record_xla_memory.py). Arguments are the state, temporaries the rest.
// Unrolled layers are another matter, since XLA for CPU undoes their
// rematerialisation.
TEST_CASE("workload: train steps as XLA plans them lie in the bracket") {
  std::ifstream lines(source_dir() / "tests/data/xla_memory.jsonl");
  size_t count = 0;
  testing::Thinned rows{4};
  for (std::string line; std::getline(lines, line);) {
    const Json recorded = Json::parse(line);
    const std::string name = recorded.at("name");
    if (recorded.at("stacked") != true || rows.skips()) continue;
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
    const auto dtype_of = [&](const char* key) {
      return recorded.at(key) == "float32" ? "f32" : "bf16";
    };
    std::string batch_axes;
    for (const Json& axis : recorded.at("batch_axes")) {
      batch_axes += (batch_axes.empty() ? "" : ",") + axis.get<std::string>();
    }
    Words words = {
        "analyze",
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
        recorded.value("attention", "") == "cudnn" ? "flash" : "scores",
        "--hardware",
        recorded.value("target", "cpu"),
        "--param-dtype",
        dtype_of("dtype"),
        "--compute-dtype",
        dtype_of("compute"),
        "--moment-dtype",
        "f32",
        "--master-dtype",
        "none",
        "--exit-zero",
        "--json"};
    if (!batch_axes.empty()) {
      words.insert(words.end(), {"--batch-axes", batch_axes});
    }
    const int64_t arguments = recorded.at("bytes").at("arguments");
    const int64_t temporaries = recorded.at("bytes").at("temporaries");
    Json report;
    for (const char* framework : {"jax", "any"}) {
      CAPTURE(framework);
      host.out.clear();
      Words asked = words;
      asked.insert(asked.end(), {"--framework", framework, "--memory", "1TiB"});
      REQUIRE(run(asked, host) == 0);
      report = Json::parse(host.out);
      const Json& bracket = report.at("summary").at("memory_bracket");
      CHECK(bracket.at("lower").get<int64_t>() <= arguments + temporaries);
      CHECK(arguments + temporaries <= bracket.at("upper").get<int64_t>());
    }
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
  CHECK(count > rows.of(25));
}

// tests/data/torch_steps.jsonl: what whole train steps of PyTorch have at their
// peak, as its own trackers count (record_torch_steps.py). They run on the CPU,
// so workspaces of a GPU are not there, and count tables of positions.
TEST_CASE("workload: train steps of PyTorch lie in the bracket") {
  std::ifstream lines(source_dir() / "tests/data/torch_steps.jsonl");
  size_t count = 0;
  testing::Thinned rows{4};
  for (std::string line; std::getline(lines, line);) {
    if (rows.skips()) continue;
    const Json recorded = Json::parse(line);
    CAPTURE(recorded.at("name").get<std::string>());
    MemoryHost host = host_with(recorded.at("config"));
    host.files["rules.json"] =
        R"({"axes": ["fsdp"], "rules": [[".*", ["fsdp"]]]})";
    const int64_t ranks = recorded.at("ranks");
    const std::string dtype =
        recorded.at("dtype") == "float32" ? "f32" : "bf16";
    Words words = {"analyze",
                   "config.json",
                   "-r",
                   "rules.json",
                   "-m",
                   "fsdp=" + std::to_string(ranks),
                   "--optimizer",
                   recorded.value("update", "adamw"),
                   "--batch",
                   std::to_string(ranks * recorded.at("batch").get<int64_t>() *
                                  recorded.value("microbatches", 1)),
                   "--microbatches",
                   std::to_string(recorded.value("microbatches", 1)),
                   "--seq",
                   recorded.at("seq").dump(),
                   "--param-dtype",
                   dtype,
                   "--moment-dtype",
                   dtype,
                   "--master-dtype",
                   "none",
                   "--attention",
                   recorded.at("attention") == "eager" ? "scores" : "flash",
                   "--remat",
                   recorded.at("checkpointing").get<bool>() ? "full" : "none",
                   "--exit-zero",
                   "--json"};
    if (!recorded.at("compute").is_null()) {
      words.insert(words.end(),
                   {"--compute-dtype", "bf16", "--grad-dtype", "f32"});
    }
    const Json& peak = recorded.at("peak");
    const int64_t found =
        peak.at("Total").get<int64_t>() - peak.at("BUFFER").get<int64_t>();
    // Without a framework nothing is dropped out unless that is asked for.
    const bool drops = recorded.at("name").get<std::string>().find("dropout") !=
                       std::string::npos;
    for (const char* framework : {"any", "torch"}) {
      if (drops && framework == std::string("any")) continue;
      CAPTURE(framework);
      host.out.clear();
      Words asked = words;
      asked.insert(asked.end(), {"--framework", framework});
      if (framework == std::string("torch")) {
        asked.insert(asked.end(),
                     {"--hardware", "cpu", "--memory", "1TiB",
                      "--optimizer-impl", recorded.at("optimizer")});
      }
      REQUIRE(run(asked, host) == 0);
      const Json report = Json::parse(host.out);
      const Json& bracket = report.at("summary").at("memory_bracket");
      Json workspaces = {{"lower", 0}, {"upper", 0}};
      for (const Json& row : report.at("tables").at("memory_bracket")) {
        if (row.at("category") == "workspaces") workspaces = row;
      }
      const auto end = [&](const char* name) {
        return bracket.at(name).get<int64_t>() -
               workspaces.at(name).get<int64_t>();
      };
      CHECK(end("lower") <= found);
      CHECK(found <= end("upper"));
    }
    ++count;
  }
  CHECK(count > rows.of(30));
}

int64_t median_of(std::vector<int64_t> numbers, size_t percent) {
  REQUIRE(!numbers.empty());
  std::ranges::sort(numbers);
  return numbers[std::min(numbers.size() * percent / 100, numbers.size() - 1)];
}

// tests/data/torch_gpu_steps.jsonl: what PyTorch allocates and reserves on a
// GPU in steps of models in their published sizes
// (tests/judges/torch_memory.py).
TEST_CASE("workload: train steps of PyTorch on a GPU lie in narrow brackets") {
  std::ifstream lines(source_dir() / "tests/data/torch_gpu_steps.jsonl");
  std::vector<int64_t> widths;  // in thousandths of the least
  std::vector<int64_t> errors;  // of the estimate, in thousandths
  testing::Thinned rows{4};
  for (std::string line; std::getline(lines, line);) {
    if (rows.skips()) continue;
    const Json recorded = Json::parse(line);
    CAPTURE(recorded.at("name").get<std::string>());
    MemoryHost host = host_with(recorded.at("config"));
    const Words words = {
        "analyze",
        "config.json",
        "--pattern",
        ".*->None",
        "-m",
        "dp=1",
        "--optimizer",
        recorded.value("optimizer", "adamw"),
        "--optimizer-impl",
        recorded.value("implementation", "foreach"),
        "--precision",
        recorded.at("precision").get<std::string>(),
        "--remat",
        recorded.value("checkpointing", false) ? "full" : "none",
        "--microbatches",
        std::to_string(recorded.value("microbatches", 1)),
        "--batch",
        recorded.at("batch").dump(),
        "--seq",
        recorded.at("seq").dump(),
        "--framework",
        "torch",
        "--exit-zero",
        "--json"};
    REQUIRE(run(words, host) == 0);
    const Json report = Json::parse(host.out);
    const auto ends = report.at("summary").at("memory_bracket");
    const auto lower = ends.at("lower").get<int64_t>();
    const auto estimate = ends.at("estimate").get<int64_t>();
    const auto upper = ends.at("upper").get<int64_t>();
    const auto peak = recorded.at("answer").at("peak").get<int64_t>();
    CHECK(lower <= peak);
    CHECK(peak <= upper);
    widths.push_back(upper * 1000 / lower);
    errors.push_back(std::abs(estimate - peak) * 1000 / peak);
    int64_t most = 0;
    for (const Json& row : report.at("tables").at("memory_reserved")) {
      if (row.at("category") == "allocated" ||
          row.at("category") == "allocator") {
        most += row.at("upper").get<int64_t>();
      }
    }
    CHECK(recorded.at("answer").at("reserved") <= most);
  }
  CHECK(widths.size() > rows.of(60));
  if (rows.of(60) < 60) return;  // medians are of all
  CHECK(median_of(widths, 50) <= 1250);
  CHECK(median_of(widths, 90) <= 1600);
  CHECK(median_of(errors, 50) <= 40);
  CHECK(median_of(errors, 90) <= 120);
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

// What `words` give as JSON, on the mesh that `ran` does not have.
Json report_on(const std::string& mesh, Words words) {
  MemoryHost host = host_with(kSmall);
  Words all = {words.front(), "config.json", "-r",    "@all_models", "-m",
               mesh,          "--optimizer", "adamw", "--json"};
  all.insert(all.end(), words.begin() + 1, words.end());
  run(all, host);
  CAPTURE(host.err);
  return Json::parse(host.out);
}

TEST_CASE("workload: a sweep has the bracket of each mesh, policy and part") {
  const Json swept = report_on(
      "fsdp=4;fsdp=2,tp=2", {"sweep", "--batch", "8", "--seq", "32,64",
                             "--microbatches", "1,2", "--remat", "none,full"});
  const Json& points = swept.at("tables").at("points");
  REQUIRE(points.size() == 2 * 2 * 2 * 2);
  CHECK(swept.at("summary").at("memory_bracket_from") == "forward_pass");
  for (const Json& point : points) {
    std::string mesh;
    for (const auto& [axis, size] : point.at("mesh").items()) {
      mesh += (mesh.empty() ? "" : ",") + axis + "=" +
              std::to_string(size.get<int>());
    }
    const Json alone = report_on(
        mesh, {"analyze", "--batch", "8", "--seq",
               std::to_string(point.at("seq").get<int>()), "--microbatches",
               std::to_string(point.at("microbatches").get<int>()), "--remat",
               point.at("remat").get<std::string>()});
    const Json& bracket = alone.at("summary").at("memory_bracket");
    CAPTURE(point.dump());
    for (const char* end : {"lower", "estimate", "upper"}) {
      CHECK(point.at(end) == bracket.at(end));
    }
    CHECK(point.at("bytes_per_device") == bracket.at("estimate"));
    CHECK(point.at("fits").is_null());
    int64_t sum = 0;
    for (const Json& row : alone.at("tables").at("memory_bracket")) {
      CHECK(point.at(row.at("category").get<std::string>()) ==
            row.at("estimate"));
      sum += row.at("estimate").get<int64_t>();
    }
    CHECK(sum == point.at("bytes_per_device"));
  }
}

TEST_CASE("workload: a point fits, may fit or does not") {
  const Json alone = report_on(
      "fsdp=2", {"analyze", "--batch", "4", "--seq", "64", "--kernels", "any"});
  const Json& bracket = alone.at("summary").at("memory_bracket");
  const struct {
    int64_t limit;
    const char* fit;
    Json fits;
    int exit;
  } rows[] = {{bracket.at("upper").get<int64_t>(), "yes", true, 0},
              {bracket.at("upper").get<int64_t>() - 1, "perhaps", nullptr, 0},
              {bracket.at("lower").get<int64_t>() - 1, "no", false, 1}};
  for (const auto& row : rows) {
    CAPTURE(row.fit);
    MemoryHost host = host_with(kSmall);
    CHECK(run(Words{"sweep", "config.json", "-r", "@all_models", "-m", "fsdp=2",
                    "--optimizer", "adamw", "--batch", "4", "--seq", "64",
                    "--memory", std::to_string(row.limit) + "B", "--json"},
              host) == row.exit);
    const Json report = Json::parse(host.out);
    const Json& point = report.at("tables").at("points").at(0);
    CHECK(point.at("fit") == row.fit);
    CHECK(point.at("fits") == row.fits);
    CHECK(report.at("summary").at("may_fit") ==
          (std::string(row.fit) == "perhaps" ? 1 : 0));
  }
}

TEST_CASE("workload: lists of a step are for sweep, and fit one another") {
  CHECK(ran({"analyze", "--batch", "4", "--seq", "8", "--remat", "none,full"})
            .exit == 2);
  CHECK(ran({"sweep", "--batch", "4", "--seq", "8", "--remat", "none,ful"})
            .exit == 2);
  const Ran fewer =
      ran({"sweep", "--batch", "2,8", "--seq", "8", "--microbatches", "1,4"});
  CHECK(fewer.exit == 2);
  CHECK(has_text(fewer.text, "fewer sequences than micro-batches"));
  CHECK(ran({"sweep", "--batch", "4"}).exit == 2);
  CHECK(ran({"sweep", "--remat", "full"}).exit == 2);
}

// The flags of every help of a finding, "`--zero 1 ..` would need ..".
std::vector<std::pair<std::string, std::string>> suggestions_of(
    const Json& report, const std::string& code) {
  std::vector<std::pair<std::string, std::string>> suggestions;
  for (const Json& each : report.at("diagnostics")) {
    if (each.at("code") != code) continue;
    for (const Json& help : each.at("help")) {
      const std::string text = help;
      const size_t begin = text.find("`--");
      const size_t end = text.find('`', begin + 1);
      if (begin == std::string::npos) continue;
      suggestions.emplace_back(text.substr(begin + 1, end - begin - 1), text);
    }
  }
  return suggestions;
}

Words words_of(const std::string& flags) {
  Words words;
  std::istringstream stream(flags);
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

TEST_CASE("workload: what is said to fit does, when it is asked for") {
  const struct {
    std::string memory;
    std::string code;
  } rows[] = {{"9MiB", "SP306"},
              {"5MiB", "SP301"},
              {"2500KiB", "SP301"},
              {"1300KiB", "SP301"}};
  for (const auto& row : rows) {
    CAPTURE(row.memory);
    const Words step = {"--batch", "32", "--seq", "64", "--memory", row.memory};
    Words asked = {"check", "--json"};
    asked.insert(asked.end(), step.begin(), step.end());
    const Json report = Json::parse(ran(asked).text);
    int fitting = 0;
    for (const auto& suggestion : suggestions_of(report, row.code)) {
      const std::string& flags = suggestion.first;
      const std::string& text = suggestion.second;
      const bool fits = has_text(text, "it fits");
      // Of state alone, where it is that which does not fit.
      const bool of_state = has_text(text, "per device");
      if (!fits || of_state) continue;
      CAPTURE(text);
      ++fitting;
      MemoryHost host = host_with(kSmall);
      Words again = {"check",       "config.json", "-r",
                     "@all_models", "--optimizer", "adamw"};
      again.insert(again.end(), step.begin(), step.end());
      if (!has_text(flags, "--mesh")) {
        again.insert(again.end(), {"-m", "fsdp=2"});
      }
      const Words change = words_of(flags);
      again.insert(again.end(), change.begin(), change.end());
      CHECK(run(again, host) == 0);
      CHECK_FALSE(has_text(host.out, "SP306"));
      CHECK_FALSE(has_text(host.out, "SP301"));
    }
    CHECK(fitting > 0);
  }
}

TEST_CASE("workload: a change of rules shows state and step by category") {
  MemoryHost host = host_with(kSmall);
  host.files["old.yaml"] =
      "rules:\n  - ['proj', [fsdp, null]]\n  - ['.*', []]\n";
  host.files["new.yaml"] = "rules:\n  - ['.*', []]\n";
  const auto diffed = [&](Words more) {
    Words words = {"diff",    "config.json", "--before", "old.yaml",
                   "--after", "new.yaml",    "-m",       "fsdp=2",
                   "--json",  "--optimizer", "adamw"};
    words.insert(words.end(), more.begin(), more.end());
    host.out.clear();
    run(words, host);
    CAPTURE(host.err);
    return Json::parse(host.out);
  };
  const auto row_of = [](const Json& report, const std::string& category) {
    for (const Json& row : report.at("tables").at("memory_changes")) {
      if (row.at("category") == category) return row;
    }
    return Json();
  };
  const Json state = diffed({});
  CHECK(row_of(state, "optimizer_state").at("estimate_before") <
        row_of(state, "optimizer_state").at("estimate_after"));
  CHECK(row_of(state, "activations").is_null());
  CHECK(state.at("summary").at("memory_bracket_after").is_null());

  const Json step = diffed({"--batch", "4", "--seq", "32"});
  const Json& bracket = step.at("summary").at("memory_bracket_after");
  CHECK(row_of(step, "total").at("upper_after") == bracket.at("upper"));
  CHECK(row_of(step, "total").at("lower_before") ==
        step.at("summary").at("memory_bracket_before").at("lower"));
  bool found = false;
  for (const Json& change : step.at("tables").at("gate_changes")) {
    if (change.at("what") != "fullest device") continue;
    found = true;
    CHECK(change.at("after") == bracket.at("estimate"));
    CHECK(has_text(change.at("why").get<std::string>(), "optimizer state +"));
  }
  CHECK(found);
}

TEST_CASE("workload: a gate on memory is about the estimate of the step") {
  MemoryHost host = host_with(kSmall);
  for (const char* side : {"old/", "new/"}) {
    host.files[std::string(side) + "config.json"] = kSmall.dump(1);
  }
  const std::string target =
      "targets:\n  small:\n    model: config.json\n    rules: "
      "['@all_models']\n    mesh: fsdp=2\n    optimizer: adamw\n    batch: 8\n"
      "    seq: 64\n";
  host.files["old/shardplan.yaml"] =
      target + "    remat: full\nfail-on: memory>1%\n";
  host.files["new/shardplan.yaml"] =
      target + "    remat: none\nfail-on: memory>1%\n";
  CHECK(run(Words{"gate", "old/", "new/"}, host) == 1);
  CHECK(has_text(host.out + host.err, "activations +"));
  host.out.clear();
  host.err.clear();
  // A step that is asked for on one side alone is no growth.
  host.files["old/shardplan.yaml"] =
      "targets:\n  small:\n    model: config.json\n    rules: "
      "['@all_models']\n    mesh: fsdp=2\n    optimizer: adamw\nfail-on: "
      "memory>1%\n";
  CHECK(run(Words{"gate", "old/", "new/"}, host) == 0);
}

}  // namespace
}  // namespace shardplan::cli
