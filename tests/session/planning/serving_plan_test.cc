// SPDX-License-Identifier: Apache-2.0
// The plan to serve with, beside a look at every number of requests.
#include "session/planning/serving_plan.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>

#include <doctest/doctest.h>

#include "base/allocation.h"
#include "tests/support/memory_host.h"
#include "tests/support/quiet_progress.h"
#include "tests/support/thinned.h"
#include "tests/support/tiny_llama.h"

namespace shardplan {
namespace {

ServingPlanRequest request_of(int64_t devices, const char* engine) {
  ServingPlanRequest request;
  request.planning.model = "config.json";
  request.planning.devices = devices;
  request.planning.mode = Mode::Decode;
  request.memory.hardware = "h100-sxm";
  request.engine.name = engine;
  request.engine.input_tokens = 48;
  request.engine.output_tokens = 16;
  return request;
}

std::optional<PlannedServing> planned(const ServingPlanRequest& request) {
  testing::MemoryHost host;
  host.files["config.json"] = testing::tiny_llama().dump();
  Diagnostics diags;
  testing::QuietProgress progress;
  return plan_serving(request, host, diags, progress);
}

TEST_CASE("serving plan: as good as a look at every number of requests") {
  ServingPlanRequest request = request_of(2, "vllm");
  request.engine.sequences = 40;
  const auto next_token = [&](int64_t requests) {
    ServingPlanRequest own = request;
    own.engine.concurrency = requests;
    return planned(own)->layouts.front().next_token.estimate;
  };
  // A limit that is met by few requests, and not by many.
  const double between = (next_token(1) + next_token(60)) / 2;
  for (const std::optional<double> most :
       {std::optional<double>(), std::optional<double>(between)}) {
    request.engine.concurrency.reset();
    request.max_next_token = most;
    const auto found = planned(request);
    REQUIRE(found.has_value());
    REQUIRE(!found->layouts.empty());
    double best = 0;
    testing::Thinned rows{8};
    for (int64_t requests = 1; requests <= 80; ++requests) {
      if (rows.skips()) continue;
      request.engine.concurrency = requests;
      const auto at = planned(request);
      for (const ServingPlan& plan : at->layouts) {
        if (plan.is_good() && requests <= 40 * plan.mesh.dp) {
          best = std::max(best, plan.tokens_per_second);
        }
      }
    }
    REQUIRE(found->layouts.front().is_good());
    CHECK(found->layouts.front().tokens_per_second >= best);
    if (kCountsAllocations) {
      CHECK(found->layouts.front().tokens_per_second == best);
    }
  }
}

TEST_CASE("serving plan: no more tokens at a time than there are requests") {
  ServingPlanRequest request = request_of(4, "vllm");
  for (const int64_t requests : {1, 3, 6}) {
    request.engine.concurrency = requests;
    const auto found = planned(request);
    REQUIRE(found.has_value());
    for (const ServingPlan& plan : found->layouts) {
      REQUIRE(plan.is_good());
      const double at_once = plan.tokens_per_second * plan.next_token.estimate;
      CHECK(at_once <= static_cast<double>(requests) * (1 + 1e-9));
    }
  }
}

TEST_CASE("serving plan: every layout once, on all devices") {
  for (const char* engine : {"vllm", "sglang"}) {
    const auto found = planned(request_of(4, engine));
    REQUIRE(found.has_value());
    std::set<std::tuple<int64_t, int64_t, int64_t, bool, bool>> layouts;
    for (const ServingPlan& plan : found->layouts) {
      const EngineMesh& mesh = plan.mesh;
      CHECK(mesh.pp * mesh.dp * mesh.tp == 4);
      CHECK(layouts
                .emplace(mesh.pp, mesh.dp, mesh.tp, mesh.expert_parallel,
                         mesh.dp_attention)
                .second);
    }
    // Six products of three; SGLang shares what is not attention in those with
    // groups.
    const bool shares = std::string_view(engine) == "sglang";
    CHECK(layouts.size() == (shares ? 9 : 6));
  }
}

TEST_CASE("serving plan: a limit that nothing meets") {
  ServingPlanRequest request = request_of(2, "vllm");
  request.max_first_token = 1e-9;
  const auto found = planned(request);
  REQUIRE(found.has_value());
  for (const ServingPlan& plan : found->layouts) CHECK(!plan.is_good());
}

}  // namespace
}  // namespace shardplan
