// SPDX-License-Identifier: Apache-2.0
// Findings that cost time: reported where a change was judged and is faster,
// and not where it is not.
#include <string>

#include <doctest/doctest.h>

#include "cli/commands.h"
#include "tests/support/hf_config.h"
#include "tests/support/memory_host.h"
#include "tests/support/words.h"

namespace shardplan::cli {
namespace {

using testing::Json;
using testing::MemoryHost;
using testing::Words;

Json wide_llama() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"vocab_size", 32000},
          {"hidden_size", 4096},
          {"intermediate_size", 11008},
          {"num_hidden_layers", 4},
          {"num_attention_heads", 32},
          {"num_key_value_heads", 8},
          {"rms_norm_eps", 1e-5},
          {"hidden_act", "silu"},
          {"torch_dtype", "bfloat16"}};
}

Json report_of(const Words& more) {
  MemoryHost host;
  host.files["config.json"] = wide_llama().dump();
  Words words = {"analyze", "config.json", "-r",       "@llama",
                 "--json",  "--hardware",  "h100-sxm", "--optimizer",
                 "adamw",   "--exit-zero"};
  words.insert(words.end(), more.begin(), more.end());
  CHECK(run(words, host) == 0);
  return Json::parse(host.out);
}

const Json* found(const Json& report, const std::string& code) {
  for (const Json& each : report.at("diagnostics")) {
    if (each.at("code") == code) return &each;
  }
  return nullptr;
}

double estimate(const Json& report) {
  return report.at("summary").at("step_time").at("estimate").get<double>();
}

TEST_CASE(
    "slow parts: an axis over a slow link, where another order is faster") {
  const Words workload = {"--batch", "32", "--seq", "2048", "--remat", "full"};
  Words slow = {"-m", "tp=8,fsdp=4,sp=1"};
  Words fast = {"-m", "fsdp=4,sp=1,tp=8"};
  slow.insert(slow.end(), workload.begin(), workload.end());
  fast.insert(fast.end(), workload.begin(), workload.end());
  const Json report = report_of(slow);
  const Json* finding = found(report, "SP310");
  REQUIRE(finding != nullptr);
  // The help names the mesh, and what it promises is what that mesh takes.
  const std::string help = finding->at("help").at(0).get<std::string>();
  CHECK(help.find("--mesh fsdp=4,sp=1,tp=8") != std::string::npos);
  const Json other = report_of(fast);
  CHECK(found(other, "SP310") == nullptr);
  CHECK(estimate(other) < 0.95 * estimate(report));
}

TEST_CASE("slow parts: no order is better where all devices share a link") {
  const Json report =
      report_of({"-m", "tp=4,fsdp=2,sp=1", "--batch", "32", "--seq", "2048"});
  CHECK(found(report, "SP310") == nullptr);
}

TEST_CASE("slow parts: weights are gathered with every micro-batch") {
  const Words flags = {
      "-m",   "fsdp=64,tp=1,sp=1", "--batch", "512",           "--seq",
      "1024", "--remat",           "full",    "--microbatches"};
  Words many = flags;
  many.emplace_back("8");
  const Json report = report_of(many);
  REQUIRE(found(report, "SP311") != nullptr);
  Words one = flags;
  one.emplace_back("1");
  const Json other = report_of(one);
  CHECK(found(other, "SP311") == nullptr);
  CHECK(estimate(other) < 0.95 * estimate(report));
  // Nothing is proposed if fewer do not fit.
  many.insert(many.end(), {"--memory", "3GiB"});
  CHECK(found(report_of(many), "SP311") == nullptr);
  // Weights that no axis of the batch cuts are not gathered.
  CHECK(found(report_of({"-m", "dp=8,tp=1,sp=1", "--batch", "64", "--seq",
                         "1024", "--microbatches", "8"}),
              "SP311") == nullptr);
}

}  // namespace
}  // namespace shardplan::cli
