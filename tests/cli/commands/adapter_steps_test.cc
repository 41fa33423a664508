// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "cli/commands.h"
#include "tests/support/hf_config.h"
#include "tests/support/memory_host.h"
#include "tests/support/source_dir.h"
#include "tests/support/thinned.h"
#include "tests/support/words.h"

namespace shardplan {
namespace {

using testing::Json;
using testing::MemoryHost;
using testing::Words;

MemoryHost host_of(const Json& config) {
  MemoryHost host;
  host.files["config.json"] = config.dump(1);
  return host;
}

// tests/data/lora_steps.jsonl: what train steps of adapters have at their peak,
// of experts that PEFT adds them to, and over torchao's weights
// (record_lora_steps.py).
TEST_CASE("workload: train steps of adapters lie in the bracket") {
  std::ifstream lines(source_dir() / "tests/data/lora_steps.jsonl");
  size_t count = 0;
  testing::Thinned rows{5};
  for (std::string line; std::getline(lines, line);) {
    if (rows.skips()) continue;
    const Json recorded = Json::parse(line);
    CAPTURE(recorded.at("name").get<std::string>());
    MemoryHost host = host_of(recorded.at("config"));
    Words words = {"analyze",
                   "config.json",
                   "--lora",
                   recorded.at("lora"),
                   "--mesh",
                   "dp=1",
                   "--framework",
                   "torch",
                   "--hardware",
                   "cpu",
                   "--memory",
                   "1TiB",
                   "--optimizer",
                   "adamw",
                   "--attention",
                   "flash",
                   "--batch",
                   recorded.at("batch").dump(),
                   "--seq",
                   recorded.at("seq").dump(),
                   "--remat",
                   recorded.at("checkpointing").get<bool>() ? "full" : "none",
                   "--exit-zero",
                   "--json"};
    REQUIRE(cli::run(words, host) == 0);
    const Json report = Json::parse(host.out);
    double lower = report.at("summary").at("memory_bracket").at("lower");
    double estimate = report.at("summary").at("memory_bracket").at("estimate");
    double upper = report.at("summary").at("memory_bracket").at("upper");
    for (const Json& row : report.at("tables").at("memory_bracket")) {
      if (row.at("category") != "workspaces") continue;  // of a GPU
      lower -= row.at("lower").get<double>();
      estimate -= row.at("estimate").get<double>();
      upper -= row.at("upper").get<double>();
    }
    const double peak = recorded.at("peak");
    CHECK(lower <= peak);
    CHECK(peak <= upper);
    CHECK(estimate > 0.9 * peak);
    CHECK(estimate < 1.05 * peak);
    ++count;
  }
  CHECK(count >= rows.of(28));
}

}  // namespace
}  // namespace shardplan
