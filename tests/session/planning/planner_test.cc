// SPDX-License-Identifier: Apache-2.0
// What `plan` finds is the best of its space, by the costs that every other
// command has, and no bound is above what it bounds.
#include "session/planning/planner.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/allocation.h"
#include "io/load.h"
#include "session/planning/pricing.h"
#include "tests/support/hf_config.h"
#include "tests/support/memory_host.h"
#include "tests/support/quiet_progress.h"
#include "tests/support/thinned.h"
#include "tests/support/tiny_llama.h"

namespace shardplan {
namespace {

using testing::Json;
using testing::MemoryHost;

Json small_moe() {
  return {{"architectures", {"Qwen3MoeForCausalLM"}},
          {"model_type", "qwen3_moe"},
          {"vocab_size", 512},
          {"hidden_size", 256},
          {"intermediate_size", 512},
          {"moe_intermediate_size", 128},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 8},
          {"num_key_value_heads", 4},
          {"head_dim", 32},
          {"num_experts", 4},
          {"num_experts_per_tok", 2},
          {"decoder_sparse_step", 1},
          {"mlp_only_layers", Json::array()},
          {"norm_topk_prob", true},
          {"rms_norm_eps", 1e-5},
          {"hidden_act", "silu"},
          {"torch_dtype", "bfloat16"}};
}

struct Case {
  std::string name;
  Json config;
  int64_t devices = 4;
  int64_t limit = int64_t{1} << 40U;
  std::string framework = "any";
};

PlannerRequest request_of(const Case& of) {
  PlannerRequest request;
  request.planning.model = "config.json";
  request.planning.devices = of.devices;
  request.memory.hardware = "h100-sxm";
  request.memory.limit = of.limit;
  request.memory.state.optimizer = Optimizer::AdamW;
  request.memory.batch = 8;
  request.memory.seq = 256;
  request.workload.step.framework = find_framework(of.framework);
  return request;
}

// A search that looks at everything that it may not leave out, beside a look at
// every point.
void check_case(const Case& of) {
  CAPTURE(of.name);
  MemoryHost host;
  host.files["config.json"] = of.config.dump();
  const PlannerRequest request = request_of(of);
  Diagnostics diags;
  testing::QuietProgress progress;
  const auto planned = plan_training(request, host, diags, progress);
  REQUIRE(planned.has_value());
  const auto question = plan_question(request, nullptr, host, diags, progress);
  REQUIRE(question != nullptr);
  const PlanSpace& space = question->space;
  const PlanCosts costs = question->pricing->costs();
  std::optional<double> best;
  int64_t points = 0;
  int64_t fitting = 0;
  testing::Thinned rows{6};
  for (const PlanPoint& shape : plan_shapes(space)) {
    const bool refused = costs.refused(shape).has_value();
    for (const PlanPoint& pass : plan_passes(space, shape)) {
      if (rows.skips()) continue;
      const PlanPoint first = plan_points(space, pass).front();
      const bool is_timed = costs.price(first).timed;
      for (const PlanPoint& point : plan_points(space, pass)) {
        const PlanCost cost = costs.price(point);
        ++points;
        if (refused) CHECK(cost.verdict != PlanVerdict::Fits);
        if (!cost.timed) continue;
        CAPTURE(flags_text(flags_of(space, point)));
        const LeastCost least = costs.least(point);
        CHECK(least.bytes <= static_cast<double>(cost.most_memory));
        if (least.bytes <= static_cast<double>(of.limit)) {
          CHECK(least.seconds <= cost.step.estimate * (1 + 1e-9));
        }
        for (const auto& closer : costs.closer) {
          const LeastCost bound = closer(pass);
          CHECK(bound.bytes <= static_cast<double>(cost.most_memory));
          CHECK(bound.seconds <= cost.step.estimate * (1 + 1e-9));
        }
        if (is_timed) {
          CHECK(costs.beside(first, point) <= cost.step.estimate * (1 + 1e-9));
        }
        if (cost.verdict != PlanVerdict::Fits) continue;
        ++fitting;
        best = std::min(best.value_or(cost.step.estimate), cost.step.estimate);
      }
    }
  }
  MESSAGE(of.name << ": " << points << " points, " << fitting << " fit");
  if (kCountsAllocations) {
    REQUIRE(planned->winner.has_value() == best.has_value());
  }
  if (!best) return;
  REQUIRE(planned->winner.has_value());
  const PlanAnswer& answer = planned->answer;
  const PlanCost& found = answer.priced[answer.best.front()].cost;
  CHECK(found.step.estimate <= *best * (1 + 1e-9));
  if (kCountsAllocations) {
    CHECK(found.step.estimate == doctest::Approx(*best).epsilon(1e-9));
  }
  if (answer.exhausted) CHECK(answer.lower_bound <= *best * (1 + 1e-9));
  CHECK(planned->answer.considered >= points);
}

Json wider_llama() {
  Json config = testing::tiny_llama();
  config["hidden_size"] = 512;
  config["intermediate_size"] = 1024;
  config["num_hidden_layers"] = 2;
  return config;
}

TEST_CASE("planner: a Llama on four devices, any framework") {
  check_case({"llama", wider_llama()});
}
TEST_CASE("planner: with hardly any memory") {
  check_case({"llama, little", wider_llama(), 4, int64_t{90} << 20U, "torch"});
  check_case({"llama, least", wider_llama(), 4, int64_t{50} << 20U, "jax"});
}
TEST_CASE("planner: experts") {
  check_case({"experts", small_moe(), 4, int64_t{1} << 40U, "jax"});
}
TEST_CASE("planner: Megatron has no FSDP") {
  check_case({"megatron", wider_llama(), 4, int64_t{1} << 40U, "megatron"});
}

TEST_CASE("planner: a parameter stands for all of its kind") {
  Manifest manifest;
  const TensorType type = {DType::F32, {8, 8}};
  for (const char* name :
       {"0/w12.kernel", "1/w12.kernel", "10/w12.kernel", "1/w1.kernel",
        "1/w12xkernel", "1/w12.kernel.scale"}) {
    REQUIRE(manifest.add(name, type, {}));
  }
  const auto found = [&](const char* text) {
    Diagnostics diags;
    const auto spec = read_flagged_spec(
        std::make_shared<SourceFile>("--forbid", text), manifest, diags);
    REQUIRE(spec.has_value());
    return spec->parameters;
  };
  CHECK(found("10/w12.kernel=P(tp, None)") == std::vector<size_t>{0, 1, 2});
  // What is no parameter is a pattern.
  CHECK(found("w12=P((fsdp, tp))") == std::vector<size_t>{0, 1, 2, 4, 5});
}

}  // namespace
}  // namespace shardplan
