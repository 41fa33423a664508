// SPDX-License-Identifier: Apache-2.0
#include "memory/divisions.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "base/text.h"

namespace shardplan {
namespace {

struct DividedNames {
  std::string_view one;
  std::string_view many;
};
// In the order of Divided.
constexpr std::array<DividedNames, kDivided> kDividedNames = {{
    {"sequence", "sequences"},
    {"token of a sequence", "tokens of a sequence"},
    {"attention head", "attention heads"},
    {"KV head", "KV heads"},
    {"Mamba head", "Mamba heads"},
    {"Mamba group", "Mamba groups"},
    {"micro-batch", "micro-batches"},
    {"micro-batch of a group", "micro-batches of a group"},
    {"layer of a stage", "layers of a stage"},
}};

// In the order of Degree.
constexpr std::array<std::string_view, kDegrees> kDegreeNames = {
    "data-parallel",   "micro-batches",     "context-parallel",
    "tensor-parallel", "sequence-parallel", "Ulysses",
    "stages",          "chunks per stage",  "groups of"};

// Returns whether a count that is not divisible by the product is accepted
// anyway.
using Enough = bool (*)(int64_t count, int64_t product,
                        const Divisions& divisions);

struct DivisionRule {
  std::string_view framework;  // "": every framework
  Divided what = Divided::Batch;
  std::vector<Degree> by;  // degrees whose product must divide the count
  std::string_view source;
  // The rule applies only if this degree exceeds 1; no value: always.
  std::optional<Degree> with = std::nullopt;
  Enough enough = nullptr;    // null: never
  std::string_view but = {};  // a framework to which it does not apply
  int64_t factor = 1;         // multiplies the product
};

// The code in which frameworks refuse a count that is not divisible.
constexpr const char* kBatch =
    "Megatron-core, num_microbatches_calculator.py; torchtitan, train.py; "
    "JAX, pjit_check_aval_sharding";
constexpr const char* kTokens =
    "Megatron-core, tensor_parallel/mappings.py; torchtitan, "
    "parallel_dims.py; JAX, pjit_check_aval_sharding";
constexpr const char* kUlysses =
    "DeepSpeed, runtime/sequence_parallel/ulysses_sp.py";
constexpr const char* kArguments = "Megatron-LM, training/arguments.py";
constexpr const char* kTitan = "torchtitan, parallel_dims.py: seq_len_divisor";
constexpr const char* kContext = "Megatron-core, ssm/mamba_context_parallel.py";
constexpr const char* kMixer = "Megatron-core, ssm/mamba_mixer.py";
constexpr const char* kVllm = "vLLM, mamba/mamba_mixer2.py";
constexpr const char* kSglang = "SGLang, mamba/mamba.py";

constexpr const char* kSchedules =
    "Megatron-core, pipeline_parallel/schedules.py; MaxText, pyconfig.py";
constexpr const char* kRounds =
    "PyTorch, distributed/pipelining/schedules.py: ScheduleInterleaved1F1B";
constexpr const char* kChunks =
    "Megatron-LM, training/arguments.py; MaxText, pyconfig.py";

// Several ranks hold a copy of each.
bool has_copies(int64_t count, int64_t product, const Divisions&) {
  return product % count == 0;
}

// Every rank holds a copy.
bool is_one(int64_t count, int64_t, const Divisions&) { return count == 1; }

// The last group may be smaller, but not smaller than the number of stages.
bool ends_in_group(int64_t count, int64_t product, const Divisions& divisions) {
  return count > product &&
         count % product >= nth(divisions.degrees, Degree::Stages);
}

// Rounds may have more micro-batches than there are stages if all are equal.
bool has_equal_rounds(int64_t count, int64_t product, const Divisions&) {
  return count % std::max<int64_t>(count / product, 1) == 0;
}

bool is_larger(int64_t count, int64_t product, const Divisions&) {
  return count > product;
}

const std::vector<DivisionRule>& division_rules() {
  using D = Divided;
  using P = Degree;
  static const std::vector<DivisionRule> kRules = {
      // These apply to every framework: arrays are sharded evenly over devices,
      // and every rank has the same number of micro-batches.
      {"", D::Batch, {P::Data, P::Microbatches}, kBatch},
      {"", D::Tokens, {P::Context, P::Ulysses, P::Sequence}, kTokens},
      {"", D::Heads, {P::Ulysses, P::Tensor}, kUlysses, P::Ulysses},
      {"",
       D::KvHeads,
       {P::Ulysses, P::Tensor},
       kUlysses,
       P::Ulysses,
       has_copies},
      {"",
       D::Microbatches,
       {P::Group},
       kSchedules,
       P::Chunks,
       ends_in_group,
       "torch"},
      {"torch",
       D::Microbatches,
       {P::Stages},
       kRounds,
       P::Chunks,
       has_equal_rounds},
      {"", D::Group, {P::Stages}, kSchedules, P::Chunks, is_larger, "torch"},
      {"", D::StageLayers, {P::Chunks}, kChunks, P::Chunks, {}, "torch"},
      // Causal attention is balanced: each rank of context parallelism has a
      // piece from the front of a sequence and one from its back.
      {"megatron", D::Tokens, {P::Context}, kArguments, P::Context, {}, {}, 2},
      {"torch",
       D::Tokens,
       {P::Context, P::Sequence},
       kTitan,
       P::Context,
       {},
       {},
       2},
      {"megatron", D::StateHeads, {P::Tensor, P::Context}, kContext},
      {"megatron", D::StateGroups, {P::Tensor}, kMixer},
      {"megatron",
       D::StateGroups,
       {P::Tensor, P::Context},
       kContext,
       P::Context,
       has_copies},
      {"vllm", D::StateGroups, {P::Tensor}, kVllm, {}, is_one},
      {"sglang", D::StateGroups, {P::Tensor}, kSglang, {}, is_one}};
  return kRules;
}

// Returns "data-parallel 8 x micro-batches 4" or "2 x context-parallel 4".
std::string product_text(const DivisionRule& rule, const Divisions& divisions) {
  std::string text = rule.factor > 1 ? count_text(rule.factor) : "";
  for (const Degree of : rule.by) {
    const int64_t degree = nth(divisions.degrees, of);
    if (degree == 1) continue;
    text += (text.empty() ? "" : " x ") + std::string(nth(kDegreeNames, of)) +
            " " + count_text(degree);
  }
  return text;
}

std::optional<DivisionProblem> problem_by_rule(const DivisionRule& rule,
                                               const Divisions& divisions) {
  const int64_t count = nth(divisions.counts, rule.what);
  const bool holds = !rule.with || nth(divisions.degrees, *rule.with) > 1;
  if (count == 0 || !holds) return std::nullopt;
  std::optional<int64_t> product = rule.factor;
  for (const Degree of : rule.by) {
    if (product) product = checked_mul(*product, nth(divisions.degrees, of));
  }
  if (product && count % *product == 0) return std::nullopt;
  if (product && rule.enough && rule.enough(count, *product, divisions)) {
    return std::nullopt;
  }
  const DividedNames& names = nth(kDividedNames, rule.what);
  DivisionProblem problem;
  problem.text = count_text(count) + " " +
                 std::string(count == 1 ? names.one : names.many) +
                 (count == 1 ? " is" : " are") + " not divisible by " +
                 (product ? count_text(*product) : "more than 63 bits") + " (" +
                 product_text(rule, divisions) + ")";
  problem.source = rule.source;
  if (product) {
    problem.nearest =
        checked_mul(ceil_div(count, *product), *product).value_or(0);
  }
  problem.what = rule.what;
  return problem;
}

}  // namespace

void count_states(const Manifest& manifest, Divisions& divisions) {
  if (manifest.kinds == nullptr) return;
  const auto least = [&](Divided what, int64_t count) {
    int64_t& known = divisions.count(what);
    known = known == 0 ? count : std::min(known, count);
  };
  for (const auto& [name, kind] : *manifest.kinds) {
    for (const DimKind& dim : kind) {
      if (std::ranges::count(dim.parts, kStateGroups, &DimPart::label) == 0) {
        continue;
      }
      for (const DimPart& part : dim.parts) {
        if (part.count == 0) continue;
        least(part.label == kStateGroups ? Divided::StateGroups
                                         : Divided::StateHeads,
              part.count);
      }
    }
  }
}

void count_stage_layers(const std::vector<int64_t>& layers, int64_t chunks,
                        bool named, Divisions& divisions) {
  for (size_t i = 0; i < layers.size(); ++i) {
    const int64_t ends = (i == 0 ? 1 : 0) + (i + 1 == layers.size() ? 1 : 0);
    const int64_t rest = layers[i] % chunks;
    if (rest == 0 || rest + ends >= chunks || (named && layers[i] > chunks)) {
      continue;
    }
    divisions.count(Divided::StageLayers) = layers[i];
    return;
  }
}

std::vector<DivisionProblem> division_problems(const Divisions& divisions,
                                               std::string_view framework) {
  std::vector<DivisionProblem> found;
  // A framework's own rules are more exact than the general ones.
  for (const bool own : {true, false}) {
    for (const DivisionRule& rule : division_rules()) {
      if (rule.framework.empty() == own) continue;
      if (own ? rule.framework != framework : rule.but == framework) continue;
      if (std::ranges::count(found, rule.what, &DivisionProblem::what) > 0) {
        continue;
      }
      if (auto problem = problem_by_rule(rule, divisions)) {
        found.push_back(*std::move(problem));
      }
    }
  }
  return found;
}

}  // namespace shardplan
