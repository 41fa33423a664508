// SPDX-License-Identifier: Apache-2.0
#include "memory/divisions.h"

#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "base/checked.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

using D = Divided;
using P = Degree;

struct Asked {
  D what;
  int64_t count;
  std::vector<std::pair<P, int64_t>> degrees;
};

Divisions divisions_of(const Asked& asked) {
  Divisions of;
  of.count(asked.what) = asked.count;
  for (const auto& [degree, size] : asked.degrees) of.degree(degree) = size;
  return of;
}

TEST_CASE("what must divide, by framework") {
  struct Row {
    std::string_view framework;
    Asked asked;
    bool runs;
  };
  const std::vector<Row> rows = {
      // A batch over data-parallel devices times micro-batches.
      {"any", {D::Batch, 24, {{P::Data, 8}, {P::Microbatches, 3}}}, true},
      {"any", {D::Batch, 24, {{P::Data, 8}, {P::Microbatches, 2}}}, false},
      {"jax", {D::Batch, 4, {{P::Data, 8}}}, false},
      {"torch", {D::Batch, 7, {{P::Microbatches, 7}}}, true},
      // Tokens over whatever cuts them.
      {"any", {D::Tokens, 8191, {{P::Context, 2}}}, false},
      {"any", {D::Tokens, 12, {{P::Context, 4}}}, true},
      {"jax", {D::Tokens, 12, {{P::Context, 4}}}, true},
      {"any", {D::Tokens, 12, {{P::Context, 4}, {P::Sequence, 2}}}, false},
      {"any", {D::Tokens, 12, {{P::Ulysses, 8}}}, false},
      // A piece from the front and one from the back.
      {"megatron", {D::Tokens, 12, {{P::Context, 4}}}, false},
      {"megatron", {D::Tokens, 16, {{P::Context, 4}}}, true},
      {"megatron", {D::Tokens, 8, {{P::Context, 4}, {P::Sequence, 2}}}, true},
      {"megatron", {D::Tokens, 24, {{P::Context, 4}, {P::Sequence, 4}}}, false},
      {"megatron", {D::Tokens, 12, {{P::Sequence, 4}}}, true},
      {"torch", {D::Tokens, 24, {{P::Context, 4}, {P::Sequence, 2}}}, false},
      {"torch", {D::Tokens, 32, {{P::Context, 4}, {P::Sequence, 2}}}, true},
      // Ulysses; tensor parallelism alone is another check's (SP206).
      {"any", {D::Heads, 32, {{P::Ulysses, 3}}}, false},
      {"any", {D::Heads, 32, {{P::Ulysses, 8}, {P::Tensor, 4}}}, true},
      {"any", {D::Heads, 32, {{P::Ulysses, 8}, {P::Tensor, 8}}}, false},
      {"any", {D::Heads, 30, {{P::Tensor, 4}}}, true},
      {"any", {D::KvHeads, 4, {{P::Ulysses, 8}}}, true},
      {"any", {D::KvHeads, 6, {{P::Ulysses, 4}}}, false},
      // Mamba 2.
      {"megatron", {D::StateGroups, 8, {{P::Tensor, 16}}}, false},
      {"megatron", {D::StateGroups, 1, {{P::Tensor, 2}}}, false},
      {"megatron",
       {D::StateGroups, 8, {{P::Tensor, 4}, {P::Context, 4}}},
       true},
      {"megatron",
       {D::StateGroups, 6, {{P::Tensor, 2}, {P::Context, 2}}},
       false},
      {"megatron",
       {D::StateHeads, 64, {{P::Tensor, 8}, {P::Context, 16}}},
       false},
      {"any", {D::StateGroups, 8, {{P::Tensor, 16}}}, true},
      {"vllm", {D::StateGroups, 8, {{P::Tensor, 16}}}, false},
      {"vllm", {D::StateGroups, 1, {{P::Tensor, 16}}}, true},
      {"sglang", {D::StateGroups, 2, {{P::Tensor, 4}}}, false},
      {"sglang", {D::StateGroups, 8, {{P::Tensor, 4}}}, true},
      // Interleaved pipelines.
      {"megatron",
       {D::Microbatches, 8, {{P::Group, 4}, {P::Stages, 4}, {P::Chunks, 2}}},
       true},
      {"any",
       {D::Microbatches, 10, {{P::Group, 4}, {P::Stages, 4}, {P::Chunks, 2}}},
       false},
      {"jax",
       {D::Microbatches, 2, {{P::Group, 4}, {P::Stages, 4}, {P::Chunks, 2}}},
       false},
      {"any",
       {D::Microbatches, 10, {{P::Group, 6}, {P::Stages, 4}, {P::Chunks, 2}}},
       true},
      {"any",
       {D::Microbatches, 5, {{P::Group, 6}, {P::Stages, 4}, {P::Chunks, 2}}},
       false},
      {"any", {D::Microbatches, 10, {{P::Group, 4}, {P::Stages, 4}}}, true},
      {"any", {D::Group, 2, {{P::Stages, 4}, {P::Chunks, 2}}}, false},
      {"any", {D::Group, 6, {{P::Stages, 4}, {P::Chunks, 2}}}, true},
      {"any", {D::StageLayers, 7, {{P::Chunks, 2}}}, false},
      // Rounds of 7, of 4 and 5, of 5.
      {"torch", {D::Microbatches, 7, {{P::Stages, 4}, {P::Chunks, 2}}}, true},
      {"torch", {D::Microbatches, 9, {{P::Stages, 4}, {P::Chunks, 2}}}, false},
      {"torch", {D::Microbatches, 10, {{P::Stages, 4}, {P::Chunks, 2}}}, true},
      {"torch", {D::StageLayers, 7, {{P::Chunks, 2}}}, true},
      // Not known.
      {"any", {D::Heads, 0, {{P::Ulysses, 3}}}, true},
  };
  for (const Row& row : rows) {
    CAPTURE(row.framework);
    CAPTURE(static_cast<int>(row.asked.what));
    CAPTURE(row.asked.count);
    const auto found =
        division_problems(divisions_of(row.asked), row.framework);
    CHECK(found.empty() == row.runs);
    for (const DivisionProblem& refusal : found) CHECK(!refusal.source.empty());
  }
}

TEST_CASE("chunks share the layers of a stage, and what is beside them") {
  const auto counted = [](const std::vector<int64_t>& layers, int64_t chunks,
                          bool named) {
    Divisions of;
    count_stage_layers(layers, chunks, named, of);
    return of.count(D::StageLayers);
  };
  CHECK(counted({8, 8, 8, 8}, 2, false) == 0);
  CHECK(counted({8, 8, 7, 7}, 2, false) == 7);
  // The embedding and the head are as a layer each.
  CHECK(counted({7, 8, 8, 7}, 2, false) == 0);
  CHECK(counted({3, 4, 4, 3}, 4, true) == 0);
  // Whoever names the layers of stages may name those of chunks.
  CHECK(counted({6, 8, 8, 10}, 4, true) == 0);
  CHECK(counted({2, 4, 4, 4}, 4, true) == 2);
  CHECK(counted({5, 5, 5, 1}, 5, true) == 1);
}

TEST_CASE("a refusal says the counts, and what divides next") {
  const auto found = division_problems(
      divisions_of({D::Batch, 12, {{P::Data, 8}, {P::Microbatches, 2}}}),
      "any");
  REQUIRE(found.size() == 1);
  CHECK(found[0].text ==
        "12 sequences are not divisible by 16 (data-parallel 8 x micro-batches "
        "2)");
  CHECK(found[0].nearest == 16);
  const auto balanced = division_problems(
      divisions_of({D::Tokens, 12, {{P::Context, 4}}}), "megatron");
  REQUIRE(balanced.size() == 1);
  CHECK(balanced[0].text ==
        "12 tokens of a sequence are not divisible by 8 (2 x context-parallel "
        "4)");
}

TEST_CASE("what divides next is not refused") {
  CHECK(holds("", [] {
    Divisions of;
    of.count(D::Batch) = draw_in<int64_t>(1, 5000);
    of.count(D::Tokens) = draw_in<int64_t>(1, 5000);
    for (const P degree :
         {P::Data, P::Microbatches, P::Context, P::Sequence, P::Ulysses}) {
      of.degree(degree) = draw_in<int64_t>(1, 12);
    }
    const std::string framework =
        draw_of({std::string("any"), std::string("megatron"),
                 std::string("torch"), std::string("jax")});
    for (const DivisionProblem& refusal : division_problems(of, framework)) {
      ENSURE(refusal.nearest > of.count(refusal.what));
      of.count(refusal.what) = refusal.nearest;
    }
    // Of several rules about one number the largest may come second.
    for (const DivisionProblem& refusal : division_problems(of, framework)) {
      ENSURE(refusal.what == D::Tokens);
    }
  }));
  Divisions large;
  large.count(D::Batch) = 5;
  large.degree(P::Data) = int64_t{1} << 40;
  large.degree(P::Microbatches) = int64_t{1} << 40;
  CHECK(division_problems(large, "any").size() == 1);
}

}  // namespace
}  // namespace shardplan
