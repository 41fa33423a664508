// SPDX-License-Identifier: Apache-2.0
// What frameworks hold beside state and activations.
#include "activations/buffers.h"

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/builders.h"
#include "tests/support/hf_config.h"
#include "tests/support/placed.h"

namespace shardplan {
namespace {

using testing::Json;

TEST_CASE("buffers: micro-batches in flight, chunk by chunk") {
  StepOptions step;
  step.microbatches = 8;
  CHECK(in_flight(step, 0, 0).flying == 1);
  CHECK(in_flight(step, 4, 0).flying == 4);
  CHECK(more_in_flight(in_flight(step, 4, 0), 0) == 3);
  CHECK(more_in_flight(in_flight(step, 4, 3), 0) == 0);
  step.schedule = PipelineSchedule::Interleaved;
  step.chunks = 4;
  // Seven passes of two stages' last one: two of each chunk, one of the last.
  const Flights last = in_flight(step, 2, 1);
  CHECK(last.flying == 7);
  CHECK(more_in_flight(last, 0) == 1);
  CHECK(more_in_flight(last, 2) == 1);
  CHECK(more_in_flight(last, 3) == 0);
  // Of the first stage a third of the first chunk.
  const Flights first = in_flight(step, 2, 0);
  CHECK(first.flying == 9);
  CHECK(more_in_flight(first, 0) == 2);
  CHECK(more_in_flight(first, 3) == 1);
  // All passes are those of the chunks together.
  for (int64_t stages = 1; stages <= 4; ++stages) {
    for (int64_t stage = 0; stage < stages; ++stage) {
      for (step.microbatches = 1; step.microbatches <= 9; ++step.microbatches) {
        for (step.group = 0; step.group <= 5; ++step.group) {
          const Flights flights = in_flight(step, stages, stage);
          int64_t sum = 0;
          for (int64_t chunk = 0; chunk < flights.chunks; ++chunk) {
            sum += more_in_flight(flights, chunk) + 1;
          }
          CHECK(sum >= flights.flying);
          if (flights.flying >= (flights.chunks - 1) * flights.group + 1) {
            CHECK(sum == flights.flying);
          }
        }
      }
    }
  }
}

TEST_CASE("buffers: one weight of each shape that tokens are multiplied with") {
  Manifest model = testing::manifest({{"embed.weight", "bf16[16, 8]"},
                                      {"positions.weight", "bf16[32, 8]"},
                                      {"layers.0.norm.weight", "bf16[8]"},
                                      {"layers.0.up.weight", "bf16[64, 8]"},
                                      {"layers.1.up.weight", "bf16[64, 8]"},
                                      {"layers.0.down.weight", "bf16[8, 64]"},
                                      {"layers.0.experts.up", "bf16[4, 64, 8]"},
                                      {"layers.0.router.weight", "bf16[4, 8]"},
                                      {"head.weight", "bf16[16, 8]"}});
  const auto kinds = std::make_shared<ParameterKinds>();
  for (const auto& [name, shape, axis] :
       std::vector<std::tuple<std::string, Shape, std::string>>{
           {"positions.weight", {32, 8}, "positions"},
           {"layers.*.router.weight", {4, 8}, "experts"}}) {
    DimKind first;
    first.axis = axis;
    (*kinds)[{name, shape}] = {first, {}};
  }
  model.kinds = kinds;
  const Plan plan = testing::placed(
      model, testing::rules({{"up|embed|head", "tp, None"}, {".", ""}}),
      "tp=2");
  const std::vector<int64_t> layers = {-1, -1, 0, 0, 1, 0, 0, 0, -1};
  const WeightShapes shapes = weight_shapes(model, plan, layers, {});
  // Rows are cut in two, of experts their number: up, down, an expert's up.
  CHECK(shapes.in_layers == 32 * 8 + 8 * 64 + 64 * 8);
  CHECK(shapes.outside == 8 * 8);
  const std::vector<bool> multiplied = find_multiplied(model, plan);
  CHECK_FALSE(multiplied[1]);
  CHECK_FALSE(multiplied[2]);
  CHECK(multiplied[6]);
  CHECK_FALSE(multiplied[7]);
  CHECK(local_numbers(plan, 6) == 2 * 64 * 8);
  // What is frozen has no gradient.
  CHECK(weight_shapes(model, plan, layers, std::vector<bool>(9, true))
            .in_layers == 0);
}

TEST_CASE("buffers: what frameworks hold by their own sizes") {
  ReductionInput in;
  in.layer = {100, 100, 200};
  in.planned = 100;
  in.all_gathered = 3'000'000'000;
  in.trained = 1'500'000'000;
  using K = SavingMode;
  in.style = ZeroStyle::Fsdp2;
  in.zero = 3;
  CHECK(gradient_buckets(in, K::Fused) == 300);
  CHECK(gathered_ahead(in, K::Eager) == 200);
  in.style = ZeroStyle::DeepSpeed;
  CHECK(gradient_buckets(in, K::Fused) == 1'000'000'000);
  CHECK(gradient_buckets(in, K::Eager) == 2'000'000'000);
  // All of a model that is smaller than what may stay.
  CHECK(gathered_ahead(in, K::Eager) == 2'100'000'000 - 100);
  in.trained = 1000;
  CHECK(gradient_buckets(in, K::Fused) == 2000);
  in.all_gathered = 1000;
  CHECK(gathered_ahead(in, K::Eager) == 900);
  CHECK(gathered_ahead(in, K::Least) == 0);
}

// tests/data/record_optimizers.py
TEST_CASE("buffers: optimizers hold for a moment what PyTorch's do") {
  const FrameworkDef& torch = *find_framework("torch");
  std::ifstream lines(testing::data_path("optimizers.jsonl"));
  int count = 0;
  for (std::string line; std::getline(lines, line);) {
    const Json recorded = Json::parse(line);
    const auto name = recorded.at("name").get<std::string>();
    const auto way = recorded.at("way").get<std::string>();
    CAPTURE(name);
    CAPTURE(recorded.at("dtype").get<std::string>());
    const int64_t unit = recorded.at("dtype") == "float32" ? 4 : 2;
    OptimizerInput input;
    input.optimizer =
        *find_optimizer(recorded.at("optimizer").get<std::string>());
    input.state = recorded.at("state").get<int64_t>();
    input.numbers = recorded.at("gradients").get<int64_t>() / unit;
    input.moment_bytes = unit;
    input.gradient_bytes = unit;
    for (const Json& each : recorded.at("shapes")) {
      const Shape shape = each.get<Shape>();
      const int64_t numbers = *element_count(shape);
      if (shape.size() == 2 && numbers > input.rows * input.columns) {
        input.rows = shape[0];
        input.columns = shape[1];
      }
      input.largest = std::max<Int128>(input.largest, numbers);
      input.elements += numbers;
      ++input.parameters;
    }
    const Int128 found = recorded.at("temporaries").get<int64_t>();
    CHECK(optimizer_temporaries(input, SavingMode::Least) == 0);
    CHECK(found <= optimizer_temporaries(input, SavingMode::Eager));
    const auto held = [&](SavingMode figure) {
      return update_temporaries(
          std::span(&input, 1), torch,
          way == "single" ? Update::Loop : find_update(way), input.state,
          input.numbers, unit, figure);
    };
    CHECK(found <= held(SavingMode::Eager));
    // Norms of clipped gradients are a number each.
    const bool clipped = recorded.at("clipped");
    if (way == "transformers") {
      CHECK(found > held(SavingMode::Fused));
    } else if (way == "fused") {
      CHECK(held(SavingMode::Fused) == 0);
    } else if (recorded.at("decay") == 0 || !name.starts_with("sgd")) {
      CHECK((clipped || held(SavingMode::Fused) <= found));
      // One that loops may hold what it made for the last parameter.
      if (way == "foreach" || input.optimizer == Optimizer::Muon) {
        CHECK(found <= held(SavingMode::Fused) + held(SavingMode::Fused) / 50);
      }
    }
    ++count;
  }
  CHECK(count >= 300);
}

TEST_CASE("buffers: gradients of a table wait for one another") {
  const ValueId table(1);
  const ValueId head(2);
  const auto at = [](std::vector<OutsideWeight> weights, size_t step,
                     Int128 freed) {
    const OutsideGradients found = outside_gradients(weights, step, freed);
    return std::pair(static_cast<int64_t>(found.done),
                     static_cast<int64_t>(found.moving));
  };
  // Embedding, two layers, head: 10 bytes are let go of before the head's.
  const std::vector<OutsideWeight> tied = {{0, table, 100}, {3, table, 100}};
  CHECK(at(tied, 3, 10) == std::pair<int64_t, int64_t>(0, 90));
  CHECK(at(tied, 3, 200) == std::pair<int64_t, int64_t>(0, 0));
  CHECK(at(tied, 1, 0) == std::pair<int64_t, int64_t>(0, 100));
  CHECK(at(tied, 0, 0) == std::pair<int64_t, int64_t>(0, 300));
  const std::vector<OutsideWeight> apart = {{0, table, 100}, {3, head, 70}};
  CHECK(at(apart, 3, 0) == std::pair<int64_t, int64_t>(0, 70));
  CHECK(at(apart, 1, 0) == std::pair<int64_t, int64_t>(70, 0));
  CHECK(at(apart, 0, 0) == std::pair<int64_t, int64_t>(70, 100));
}

TEST_CASE("buffers: optimizers of groups update one after the other") {
  std::vector<OptimizerInput> groups(2);
  groups[0].optimizer = Optimizer::Muon;
  groups[0].rows = 100;
  groups[0].columns = 50;
  groups[0].elements = 7500;
  groups[0].largest = 5000;
  groups[1].optimizer = Optimizer::AdamW;
  groups[1].elements = 2500;
  groups[1].largest = 2500;
  const FrameworkDef& any = *find_framework("any");
  const FrameworkDef& torch = *find_framework("torch");
  const auto held = [&](const FrameworkDef& framework, SavingMode figure) {
    return update_temporaries(groups, framework, {}, 80'000, 10'000, 4, figure);
  };
  const Int128 muon = optimizer_temporaries(groups[0], SavingMode::Fused);
  CHECK(muon > 0);
  CHECK(held(any, SavingMode::Least) == 0);
  CHECK(held(any, SavingMode::Fused) == muon);
  // A tree of all numbers; by the estimate of PyTorch of a group's.
  CHECK(held(any, SavingMode::Eager) >= 40'000);
  CHECK(held(torch, SavingMode::Fused) >= muon);
  CHECK(held(torch, SavingMode::Fused) <= held(any, SavingMode::Eager));
  // PyTorch's AdamW: roots of a list's second moments, of none, or of one
  // parameter and what these are divided into.
  const auto adamw = [&](Update update, int64_t moment_bytes) {
    OptimizerInput one = groups[1];
    one.moment_bytes = moment_bytes;
    return update_temporaries(std::span(&one, 1), torch, update, 80'000, 10'000,
                              4, SavingMode::Fused);
  };
  CHECK(adamw(Update::Foreach, 4) == 40'000);
  CHECK(adamw(Update::Foreach, 2) == 20'000);
  CHECK(adamw(Update::Fused, 4) == 0);
  CHECK(adamw(Update::Loop, 4) == 2 * 2500 * 4);
  // One group is as the optimizer alone.
  groups.pop_back();
  OptimizerInput alone = groups[0];
  alone.state = 80'000;
  alone.numbers = 10'000;
  for (const auto figure :
       {SavingMode::Least, SavingMode::Fused, SavingMode::Eager}) {
    CHECK(held(any, figure) == optimizer_temporaries(alone, figure));
  }
}

TEST_CASE(
    "buffers: a stage holds what it receives and lets go of what it sent") {
  using K = SavingMode;
  PipelineInput middle;
  middle.stream = 10;
  middle.microbatches = 8;
  middle.flying = 3;
  // Three are received; two of those that were sent are counted as saved.
  CHECK(pipeline_buffers(middle, K::Least) == 30 - 20);
  CHECK(pipeline_buffers(middle, K::Fused) == 30 - 20 + 20);
  // A buffer for each micro-batch, both ways, and what is sent back.
  CHECK(pipeline_buffers(middle, K::Eager) == 80 + 80 + 10);
  PipelineInput first = middle;
  first.first = true;
  CHECK(pipeline_buffers(first, K::Least) == -20);
  PipelineInput last = middle;
  last.last = true;
  last.flying = 1;
  CHECK(pipeline_buffers(last, K::Least) == 10);
  CHECK(pipeline_buffers(last, K::Eager) == 80 + 10);
  PipelineInput by_shapes = middle;
  by_shapes.saves_input = false;
  by_shapes.counts_output = false;
  CHECK(pipeline_buffers(by_shapes, K::Least) == 0);
}

}  // namespace
}  // namespace shardplan
