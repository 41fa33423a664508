// SPDX-License-Identifier: Apache-2.0
// What a training step holds: by formulas for known layers, and by properties.
#include "activations/step_memory.h"

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "activations/segments.h"
#include "graph/op.h"
#include "tests/support/hf_config.h"
#include "tests/support/messages.h"
#include "tests/support/trained.h"

namespace shardplan {
namespace {

using testing::activations_in;
using testing::bracket_of;
using testing::Json;
using testing::kGpt2;
using testing::kLlama;
using testing::kTokens;
using testing::remat_policy;
using testing::row_of;
using testing::Trained;
using testing::trained;

Int128 saved_by_layer(const Trained& all, const SegmentOptions& options,
                      const Remat& remat, SavingMode mode) {
  const auto segments = segments_of(all.program->program, options, remat);
  for (size_t i = 0; i + 1 < segments.size(); ++i) {
    // The second: what the first reads is made before layers.
    if (segments[i].is_layer && i > 1) {
      return segments[i].memory.at(static_cast<size_t>(mode)).saved;
    }
  }
  return -1;
}

// Korthikanti et al. (2022), table 2, without dropout and with flash attention:
// 34 s b h less two masks, less the scores, more one number per query.
TEST_CASE("a layer of GPT-2 keeps 32 bytes per hidden number and its rows") {
  const auto all = trained(kGpt2, "fsdp=1", {4, 16, {}, {}});
  const int64_t rows = kTokens * (4 /*heads*/ + 2 * 2 /*norms*/) * 4;
  CHECK(saved_by_layer(*all, {}, {}, SavingMode::Fused) ==
        32 * 64 * kTokens + rows);
}

TEST_CASE("a layer of Llama keeps what its kernels read") {
  const auto all = trained(kLlama, "fsdp=1", {4, 16, {}, {}});
  const int64_t h = 64;
  const int64_t f = 160;
  const int64_t kv = 16;
  const int64_t rows = kTokens * (8 /*heads*/ + 2 /*norms*/) * 4;
  // Two norms, in and out; q, k, v; what attention gives; gate, up, product.
  CHECK(saved_by_layer(*all, {}, {}, SavingMode::Fused) ==
        2 * kTokens * (4 * h + (h + 2 * kv) + h + 3 * f) + rows);
  // Norms and the product are computed again from the products.
  CHECK(saved_by_layer(*all, {}, {}, SavingMode::Least) ==
        2 * kTokens * (2 * h + (h + 2 * kv) + h + 2 * f) + rows);
  CHECK(saved_by_layer(*all, {}, remat_policy("full"), SavingMode::Fused) ==
        2 * kTokens * h);
  CHECK(saved_by_layer(*all, {}, remat_policy("block"), SavingMode::Fused) ==
        2 * kTokens * 2 * h + kTokens * 8 * 4);
}

TEST_CASE("masks of dropout take a byte") {
  const auto all = trained(kGpt2, "fsdp=1", {4, 16, {}, {}});
  SegmentOptions masks;
  masks.dropout = {true, true, true, false, true};
  CHECK(saved_by_layer(*all, masks, {}, SavingMode::Fused) -
            saved_by_layer(*all, {}, {}, SavingMode::Fused) ==
        2 * 64 * kTokens);
  CHECK(saved_by_layer(*all, masks, {}, SavingMode::Least) ==
        saved_by_layer(*all, {}, {}, SavingMode::Least));
}

TEST_CASE("scores of attention are held where they are asked for") {
  const auto all = trained(kLlama, "fsdp=1", {4, 16, {}, {}});
  SegmentOptions scores;
  scores.attention = AttentionKind::Scores;
  const Int128 flash = saved_by_layer(*all, {}, {}, SavingMode::Fused);
  const Int128 held = saved_by_layer(*all, scores, {}, SavingMode::Fused);
  // Probabilities in place of one number per query.
  CHECK(held - flash == 2 * 4 * 8 * 16 * 16 - kTokens * 8 * 4);
  CHECK(saved_by_layer(*all, scores, remat_policy("selective"),
                       SavingMode::Fused) == flash);
}

// Korthikanti et al. (2022): 5 s b per score, of softmax, of the mask and of
// what is left of it.
TEST_CASE("scores that are dropped are held twice, with a mask") {
  const auto all = trained(kGpt2, "fsdp=1", {4, 16, {}, {}});
  SegmentOptions scores;
  scores.attention = AttentionKind::Scores;
  SegmentOptions masks = scores;
  masks.dropout = {true, true, true, false, true};
  CHECK(saved_by_layer(*all, masks, {}, SavingMode::Fused) -
            saved_by_layer(*all, scores, {}, SavingMode::Fused) ==
        2 * 64 * kTokens + 3 * 4 * 4 * 16 * 16);
}

TEST_CASE("few layers stand for all") {
  Json config = kLlama;
  config["num_hidden_layers"] = 12;
  StepOptions step;
  const auto few = trained(config, "fsdp=2,tp=2", {4, 16, {}, {}});
  const auto each =
      trained(config, "fsdp=2,tp=2", {4, 16, {}, {}}, EqualLayers::Each);
  REQUIRE(few->program->cycle);
  REQUIRE(!each->program->cycle);
  for (const char* name : {"none", "dots", "full"}) {
    CAPTURE(name);
    step.remat = remat_policy(name);
    CHECK(bracket_of(*few, step).total == bracket_of(*each, step).total);
  }
}

TEST_CASE("few layers stand for all, whatever is frozen") {
  Json config = kLlama;
  config["num_hidden_layers"] = 16;
  for (const std::string pattern :
       {"norm", "q_proj|v_proj", "layers[.](14|15)[.]", "layers[.]0[.]",
        "layers[.]1[.]mlp", "lm_head", "embed", "layers[.]15[.]mlp[.]down"}) {
    CAPTURE(pattern);
    const ForwardPass pass = {4, 16, {}, {}};
    const auto few =
        trained(config, "fsdp=2,tp=2", pass, EqualLayers::Once, pattern);
    const auto each =
        trained(config, "fsdp=2,tp=2", pass, EqualLayers::Each, pattern);
    REQUIRE(few->program->cycle);
    REQUIRE(!each->program->cycle);
    for (const std::string name : {"none", "dots", "full"}) {
      CAPTURE(name);
      StepOptions step;
      step.remat = remat_policy(name.c_str());
      const MemoryBracket once = bracket_of(*few, step);
      const MemoryBracket whole = bracket_of(*each, step);
      for (size_t k = 0; k < kSavingModes; ++k) {
        CHECK(once.total.at(k) == whole.total.at(k));
      }
    }
  }
}

Int128 saved_in_all(const Trained& all, const SegmentOptions& options,
                    const Remat& remat, size_t mode) {
  Int128 saved = 0;
  for (const Segment& segment :
       segments_of(all.program->program, options, remat)) {
    saved += segment.memory.at(mode).saved;
  }
  return saved;
}

TEST_CASE("a layer of frozen weights keeps no input of a product") {
  // All but the embedding: gradients flow through every layer.
  const auto all =
      trained(kLlama, "fsdp=1", {4, 16, {}, {}}, EqualLayers::Once, "embed");
  const int64_t h = 64;
  const int64_t f = 160;
  const int64_t kv = 16;
  const int64_t rows = kTokens * (8 /*heads*/ + 2 /*norms*/) * 4;
  // What two norms read; q, k, v and what attention gives; gate and up.
  CHECK(saved_by_layer(*all, {}, {}, SavingMode::Fused) ==
        2 * kTokens * (2 * h + (h + 2 * kv) + h + 2 * f) + rows);
  CHECK(saved_by_layer(*all, {}, remat_policy("full"), SavingMode::Fused) ==
        2 * kTokens * h);
}

TEST_CASE("below the first layer that is trained nothing is kept") {
  const auto all = trained(kLlama, "fsdp=1", {4, 16, {}, {}}, EqualLayers::Each,
                           "layers[.]4[.]");
  for (const char* name : {"none", "dots", "block", "full", "selective:op"}) {
    CAPTURE(name);
    const auto segments =
        segments_of(all->program->program, {}, remat_policy(name));
    for (size_t k = 0; k < kSavingModes; ++k) {
      for (const Segment& segment : segments) {
        CAPTURE(segment.label);
        const Int128 saved = segment.memory.at(k).saved;
        const bool below = segment.label == "before layers" ||
                           (segment.is_layer && segment.label < "layers.3");
        if (below) {
          CHECK(saved == 0);
          if (k < 2) CHECK(segment.memory.at(k).backward == 0);
        }
        if (segment.label == "layers.4") CHECK(saved > 0);
        if (segment.label == "layers.5") CHECK(saved > 0);
      }
    }
  }
}

TEST_CASE("the more is trained, the more is kept") {
  for (const Json& config : {kLlama, kGpt2}) {
    const bool is_llama = config.at("model_type") == "llama";
    const std::vector<std::string> patterns =
        is_llama
            ? std::vector<std::string>{"layers[.]5[.]mlp", "layers[.]5[.]",
                                       "layers[.]", "layers[.]|lm_head", "."}
            : std::vector<std::string>{"h[.]5[.]attn", "h[.]5[.]", "h[.]", "."};
    std::vector<std::unique_ptr<Trained>> of_pattern;
    of_pattern.reserve(patterns.size());
    for (const std::string& pattern : patterns) {
      of_pattern.push_back(trained(config, "fsdp=1", {4, 16, {}, {}},
                                   EqualLayers::Each, pattern));
    }
    const auto plain =
        trained(config, "fsdp=1", {4, 16, {}, {}}, EqualLayers::Each);
    for (const char* name : {"none", "dots", "block", "full"}) {
      for (const AttentionKind kind :
           {AttentionKind::Flash, AttentionKind::Scores}) {
        CAPTURE(name);
        SegmentOptions options;
        options.attention = kind;
        std::array<Int128, kSavingModes> before{};
        for (size_t i = 0; i < patterns.size(); ++i) {
          CAPTURE(patterns[i]);
          for (size_t k = 0; k < kSavingModes; ++k) {
            const Int128 saved =
                saved_in_all(*of_pattern[i], options, remat_policy(name), k);
            CHECK(saved >= before.at(k));
            before.at(k) = saved;
          }
        }
        // Of all that is trained as much as where nothing is said.
        for (size_t k = 0; k < kSavingModes; ++k) {
          CHECK(saved_in_all(*plain, options, remat_policy(name), k) ==
                before.at(k));
        }
      }
    }
  }
}

TEST_CASE("rows sum to the totals, and the bounds are in order") {
  StepOptions step;
  BudgetOptions how;
  how.state.optimizer = Optimizer::AdamW;
  for (const Json& config : {kLlama, kGpt2}) {
    for (const char* axes : {"fsdp=1", "fsdp=4", "fsdp=2,tp=2", "tp=4"}) {
      const auto all = trained(config, axes, {4, 16, {}, {}});
      for (const RematPolicy& each : remat_policies()) {
        CAPTURE(axes);
        CAPTURE(each.name);
        step.remat.policy = &each;
        const MemoryBracket bracket = bracket_of(*all, step, how);
        for (size_t k = 0; k < kSavingModes; ++k) {
          int64_t sum = 0;
          for (const BracketRow& row : bracket.rows) {
            CHECK(row.bytes[k] >= 0);
            sum += row.bytes[k];
          }
          CHECK(sum == bracket.total[k]);
        }
        CHECK(bracket.lower() <= bracket.estimate());
        CHECK(bracket.estimate() <= bracket.upper());
      }
    }
  }
}

TEST_CASE("micro-batches in flight are those of the schedule") {
  Json config = kLlama;
  config["num_hidden_layers"] = 8;
  const auto all = trained(config, "pp=4", {1, 16, {}, {}});
  BudgetOptions how;
  how.stages = Stages{"pp", {}};
  StepOptions step;
  const auto held = [&](PipelineSchedule schedule, int64_t microbatches) {
    step.schedule = schedule;
    step.microbatches = microbatches;
    return activations_in(bracket_of(*all, step, how), 0);
  };
  using S = PipelineSchedule;
  const int64_t one = held(S::OneForwardOneBackward, 1);
  CHECK(held(S::OneForwardOneBackward, 4) > one);
  // No more than stages.
  CHECK(held(S::OneForwardOneBackward, 16) ==
        held(S::OneForwardOneBackward, 4));
  CHECK(held(S::AllForward, 4) >= held(S::OneForwardOneBackward, 4));
  CHECK(held(S::AllForward, 16) > held(S::AllForward, 4));
}

TEST_CASE("so many micro-batches go through a chunk before the next") {
  Json config = kLlama;
  config["num_hidden_layers"] = 8;
  const auto all = trained(config, "pp=2", {1, 16, {}, {}});
  BudgetOptions how;
  how.stages = Stages{"pp", {}};
  StepOptions step;
  step.schedule = PipelineSchedule::Interleaved;
  step.chunks = 4;
  step.microbatches = 16;
  const auto held = [&](int64_t group) {
    step.group = group;
    return activations_in(bracket_of(*all, step, how), 0);
  };
  CHECK(held(2) == held(0));  // as many as stages
  CHECK(held(3) > held(2));
}

TEST_CASE("every class of devices sums to its total") {
  for (const Json& config : {kLlama, kGpt2}) {
    for (const char* axes : {"pp=2,tp=2", "pp=3,fsdp=2", "fsdp=4"}) {
      const auto all = trained(config, axes, {4, 16, {}, {}});
      BudgetOptions how;
      how.state.optimizer = Optimizer::AdamW;
      how.fragmentation = 0.05;
      how.reserve = 1000;
      if (axes[0] == 'p') how.stages = Stages{"pp", {}};
      const auto budget =
          make_budget(all->manifest(), *all->plan, how, all->diags);
      REQUIRE_MESSAGE(budget, testing::messages(all->diags));
      for (const BudgetClass& device : budget->classes) {
        CAPTURE(device.label);
        CHECK(std::accumulate(device.bytes.begin(), device.bytes.end(),
                              int64_t{0}) == device.total);
      }
    }
  }
}

TEST_CASE("the fullest stage is what the bracket says") {
  const auto all = trained(kGpt2, "pp=3,tp=2", {4, 16, {}, {}});
  BudgetOptions how;
  how.stages = Stages{"pp", {}};
  how.state.optimizer = Optimizer::AdamW;
  for (const FrameworkDef& each : frameworks()) {
    CAPTURE(each.name);
    StepOptions step;
    step.framework = &each;
    step.microbatches = 4;
    const MemoryBracket bracket = bracket_of(*all, step, how);
    REQUIRE(bracket.stages.size() == 3);
    for (size_t k = 0; k < kSavingModes; ++k) {
      int64_t most = 0;
      for (const StageBracket& stage : bracket.stages) {
        most = std::max(most, stage.total.at(k));
      }
      CHECK(most == bracket.total.at(k));
    }
    for (size_t s = 0; s < bracket.stages.size(); ++s) {
      CHECK(bracket.stages[s].stage == static_cast<int64_t>(s));
      CHECK(bracket.stages[s].total[0] <= bracket.stages[s].total[1]);
      CHECK(bracket.stages[s].total[1] <= bracket.stages[s].total[2]);
    }
  }
  // Without stages there is nothing to tell apart.
  CHECK(bracket_of(*all, {}).stages.empty());
}

TEST_CASE("what is known of a framework narrows the bracket") {
  const FrameworkDef* const megatron = find_framework("megatron");
  REQUIRE(megatron != nullptr);
  CHECK(find_framework("nobody") == nullptr);
  for (const Json& config : {kLlama, kGpt2}) {
    const auto all = trained(config, "fsdp=1", {64, 64, {}, {}});
    BudgetOptions how;
    how.state.optimizer = Optimizer::AdamW;
    StepOptions step;
    step.kernels = Kernels::Fused;
    step.segments.attention = AttentionKind::Scores;
    const MemoryBracket any = bracket_of(*all, step, how);
    step.framework = megatron;
    step.segments.loss = megatron->loss;
    step.segments.softmax_in_place = megatron->softmax_in_place;
    const MemoryBracket known = bracket_of(*all, step, how);
    const auto bytes = [](const MemoryBracket& bracket,
                          const std::string& category) {
      const auto row = std::find_if(
          bracket.rows.begin(), bracket.rows.end(),
          [&](const BracketRow& each) { return each.category == category; });
      return row == bracket.rows.end() ? std::array<int64_t, kSavingModes>{-1}
                                       : row->bytes;
    };
    CHECK(bytes(any, "workspaces")[0] == -1);
    CHECK(bytes(known, "workspaces") == megatron->workspaces);
    // Beside what libraries hold for themselves, and buffers of its own.
    const int64_t own = bytes(known, "buffers")[2];
    CHECK(own > 0);
    CHECK(known.upper() - megatron->workspaces[2] - own <= any.upper());
    CHECK(known.upper() - known.lower() - own -
              (megatron->workspaces[2] - megatron->workspaces[0]) <=
          any.upper() - any.lower());
  }
}

TEST_CASE("products in 8 bits: inputs of a byte, and copies of weights") {
  CHECK(find_fp8_recipe("nobody") == nullptr);
  const auto all = trained(kLlama, "fsdp=1", {64, 64, {}, {}});
  BudgetOptions how;
  how.state.optimizer = Optimizer::AdamW;
  StepOptions step;
  step.kernels = Kernels::Fused;
  step.segments.element_bytes = 2;
  const MemoryBracket plain = bracket_of(*all, step, how);
  for (const Fp8Recipe& each : fp8_recipes()) {
    CAPTURE(each.name);
    CHECK(find_fp8_recipe(each.name) == &each);
    step.segments.fp8 = &each;
    const MemoryBracket known = bracket_of(*all, step, how);
    Int128 numbers = 0;  // of matrices of layers alone
    const Manifest& manifest = all->manifest();
    for (size_t i = 0; i < manifest.size(); ++i) {
      if (manifest.name(i).find("layers.") == std::string_view::npos) continue;
      const TensorType& type = manifest.type(i);
      if (type.shape.size() == 2) numbers += type.elements();
    }
    const auto copies = [&](size_t k) {
      return (numbers * each.copies.at(k) * each.weight + Fp8Recipe::kUnit -
              1) /
             Fp8Recipe::kUnit;
    };
    for (size_t k = 0; k < kSavingModes; ++k) {
      CHECK(row_of(plain, "fp8_weights", k) == -1);
      CHECK(row_of(known, "fp8_weights", k) >= copies(k));
      const int64_t before = row_of(plain, "activations", k);
      const int64_t after = row_of(known, "activations", k);
      if (each.saves_inputs) {
        CHECK(after < before);
        CHECK(2 * after > before);  // a byte for each at least
        CHECK(row_of(known, "fp8_weights", k) == copies(k));
      } else {
        CHECK(after == before);
      }
    }
  }
}

// A layer of `kLlama` in its own numbers: attention and MLP, of which axes of
// the batch cut all but the norms.
constexpr int64_t kLayerNumbers = 2 * 64 * 64 + 2 * 16 * 64 + 3 * 160 * 64;
constexpr int64_t kNormNumbers = 2 * 64;

TEST_CASE("layers that are gathered hold buffers as their framework does") {
  const auto all = trained(kLlama, "fsdp=4", {4, 16, {}, {}});
  StepOptions step;
  BudgetOptions how;
  how.state.optimizer = Optimizer::AdamW;
  const int64_t layer = kLayerNumbers * 2;
  const auto buckets = [&](size_t k) {
    return row_of(bracket_of(*all, step, how), "gradient_buckets", k);
  };
  // At most with what is outside of layers, gathered as one: the embedding,
  // beside the head that is counted as gathered.
  const int64_t outside = 512 * 64 * 2;
  FrameworkDef without_arena = *step.framework;
  without_arena.copies_of_layer = {};
  without_arena.slices_saved = {};
  without_arena.holes = {};
  StepOptions gathering = step;
  gathering.framework = &without_arena;
  for (size_t k = 0; k < kSavingModes; ++k) {
    const int64_t gathered =
        static_cast<int64_t>(k) * layer + (k == 2 ? outside : 0);
    CHECK(row_of(bracket_of(*all, gathering, how), "buffers", k) == gathered);
    // At most beside what XLA's loop copies and its arena cannot pack.
    const int64_t buffers = row_of(bracket_of(*all, step, how), "buffers", k);
    CHECK((buffers > gathered) == (k == 2));
    CHECK(buffers >= gathered);
  }
  // Whole gradients, and the input of a reduce-scatter; norms are on every
  // replica, which add them up in buckets.
  const int64_t norms = (6 * kNormNumbers + 64) * 2;
  CHECK(buckets(0) == 0);
  CHECK(buckets(1) == 0);
  CHECK(buckets(2) == 2 * layer + norms);
  how.state.grad_dtype = DType::F32;
  CHECK(buckets(2) == 3 * layer + 2 * norms);
  // What is frozen is gathered, and has no gradient.
  how.state.grad_dtype.reset();
  const auto adapted =
      trained(kLlama, "fsdp=4", {4, 16, {}, {}}, EqualLayers::Once, "q_proj");
  const MemoryBracket part = bracket_of(*adapted, step, how);
  CHECK(row_of(part, "buffers", 1) == layer);
  CHECK(row_of(part, "gradient_buckets", 2) < layer);
}

TEST_CASE("replicas add gradients up in buckets") {
  const auto all = trained(kLlama, "dp=4", {4, 16, {}, {}});
  StepOptions step;
  BudgetOptions how;
  how.state.optimizer = Optimizer::AdamW;
  const MemoryBracket bracket = bracket_of(*all, step, how);
  CHECK(row_of(bracket, "buffers", 2) == 0);
  CHECK(row_of(bracket, "gradient_buckets", 1) == 0);
  CHECK(row_of(bracket, "gradient_buckets", 2) ==
        row_of(bracket, "gradients", 2));
}

TEST_CASE("a stage's input is the stream of its first layer") {
  const auto all = trained(kLlama, "pp=2", {1, 16, {}, {}});
  const auto segments = segments_of(all->program->program, {}, {});
  for (const Segment& segment : segments) {
    CAPTURE(segment.label);
    for (const SegmentMemory& memory : segment.memory) {
      CHECK(memory.input ==
            (segment.label == "before layers" ? 0 : 2 * 16 * 64));
    }
  }
  BudgetOptions how;
  how.stages = Stages{"pp", {}};
  StepOptions step;
  step.microbatches = 4;
  const MemoryBracket bracket = bracket_of(*all, step, how);
  CHECK(row_of(bracket, "pipeline_buffers", 2) > 0);
  for (size_t k = 0; k < kSavingModes; ++k) {
    CHECK(row_of(bracket, "activations", k) >= 0);
  }
}

}  // namespace
}  // namespace shardplan
