// SPDX-License-Identifier: Apache-2.0
#include "serve/serving.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <tuple>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "serve/draft.h"

namespace shardplan {
namespace {

// vLLM schedules the next step while one runs.
constexpr int64_t kStepsInFlight = 2;

Bracket sum_of(const std::vector<Overhead>& rows, MemoryPart part) {
  Bracket sum;
  for (const Overhead& row : rows) {
    if (row.part == part) sum = sum + row.bytes;
  }
  return sum;
}

int64_t fraction_of(double share, int64_t bytes) {
  return static_cast<int64_t>(std::ceil(share * static_cast<double>(bytes)));
}

// Returns the share: the upper end of `outside` leaves its lower end.
Bracket share_of(const Engine& engine, double share, int64_t device,
                 const Bracket& outside) {
  if (engine.share == MemoryShare::OfTotal) {
    const int64_t bytes = fraction_of(share, device);
    return {bytes, bytes, bytes};
  }
  const auto left = [&](int64_t taken) {
    return fraction_of(share, std::max<int64_t>(device - taken, 0));
  };
  return {left(outside.upper), left(outside.estimate), left(outside.lower)};
}

struct StageRange {
  std::string label;
  std::vector<bool> held;  // per group
  int64_t begin = 0;       // of its layers
  int64_t end = 0;
};

std::optional<std::vector<StageRange>> ranges_of(const ServedWeights& model,
                                                 const ServingInput& input,
                                                 Diagnostics& diags) {
  const size_t groups = model.groups.groups.size();
  const int64_t layers = model.manifest->facts.layers.value_or(0);
  if (!input.stages || input.devices == nullptr) {
    return std::vector<StageRange>{
        {"", std::vector<bool>(groups, true), 0, layers}};
  }
  const std::vector<bool> uncut(model.folding->classes.size(), false);
  const auto plan = plan_stages(*model.manifest, *input.devices, model.groups,
                                uncut, *input.stages, diags);
  if (!plan) return std::nullopt;
  std::vector<StageRange> ranges;
  for (int64_t stage = 0; stage < plan->stages; ++stage) {
    StageRange& range = ranges.emplace_back();
    range.label = stage_label(*plan, model.groups, stage);
    std::tie(range.begin, range.end) = nth(plan->ranges, stage);
    for (size_t g = 0; g < groups; ++g) {
      range.held.push_back(contains(plan->stages_of[g], stage));
    }
  }
  return ranges;
}

// Returns the part of the cache that is not modelled for engines; "" if none.
std::string_view uncounted(const Facts& facts) {
  const auto layers = kv_layers(facts);
  if (!layers) return "";
  for (const KvLayer& layer : *layers) {
    if (layer.source != 0) return "the decoder's cache of encoder tokens";
    if (layer.every > 1)
      return "the cache of layers that merge several tokens into one";
  }
  return "";
}

std::optional<std::vector<CacheLayer>> layers_of(const Manifest& manifest,
                                                 const StageRange& range,
                                                 const ServingInput& input,
                                                 Diagnostics& diags) {
  if (!uncounted(manifest.facts).empty()) return std::vector<CacheLayer>{};
  auto layers = cache_layers(manifest.facts, range.begin, range.end,
                             input.mesh.tp, input.kv_dtype);
  if (layers) return layers;
  const std::string missing = kv_missing(manifest.facts);
  if (missing.empty()) {
    return diags.error(Code::InvalidMesh, {},
                       "bytes of the cache exceed 63 bits");
  }
  return diags
      .error(Code::MissingFacts, {},
             "the facts do not determine the cache; missing: " + missing)
      .help("give the model's config.json, or `facts` in the manifest");
}

Bracket left_of(const Bracket& share, int64_t weights, const Bracket& inside) {
  return {share.lower - weights - inside.upper,
          share.estimate - weights - inside.estimate,
          share.upper - weights - inside.lower};
}

int64_t available_at(const ServedStage& stage, size_t end) {
  const Bracket& bytes = stage.available;
  return end == 0 ? bytes.lower : end == 1 ? bytes.estimate : bytes.upper;
}

// Returns the sequences of one group. A stage whose weights do not fit runs
// none, even if its layers have no cache.
double stage_sequences(const Serving& serving, const ServedStage& stage,
                       size_t end) {
  if (available_at(stage, end) < 0) return 0;
  if (!serving.uncounted.empty() && end < 2) return 0;
  const auto& pool = stage.pools.at(end);
  return pool ? pool->sequences : INFINITY;
}

// Adds what kernels change in the weights of all stages.
void add_kernel_remarks(const ServedWeights& model, const ServingInput& input,
                        Serving& answer) {
  std::vector<RankWeights::KernelUse> uses;
  for (const ServedStage& stage : answer.stages) {
    for (const RankWeights::KernelUse& use : stage.weights.kernels) {
      const auto found =
          std::ranges::find(uses, use.row, &RankWeights::KernelUse::row);
      if (found == uses.end()) {
        uses.push_back(use);
      } else if (std::abs(use.bytes) > std::abs(found->bytes)) {
        found->bytes = use.bytes;
      }
    }
  }
  for (const RankWeights::KernelUse& use : uses) {
    const std::string of = std::string(packing_title(use.packing)) +
                           (use.experts ? " experts" : " layers");
    if (is_refused(*use.row)) {
      const std::string problem = "it has no kernel for " + of + " on " +
                                  in_backticks(input.device.name);
      answer.problems.push_back(problem);
      refuse_degrees(answer.verdicts, input.mesh,
                     [&](const EngineMesh&) { return std::vector{problem}; });
      continue;
    }
    if (use.bytes == 0) continue;
    answer.remarks.push_back(std::string(kernel_name(*use.row)) + " holds " +
                             of + " in " + bytes_text(std::abs(use.bytes)) +
                             (use.bytes < 0 ? " less" : " more") +
                             " per device than they take as stored");
  }
  if (input.device.generation == CardGeneration::Unknown &&
      kernels_may_change(model, *input.engine)) {
    answer.remarks.push_back(
        "kernels on " + in_backticks(input.device.name) +
        " are unknown: quantised weights are counted as stored");
  }
}

}  // namespace

double Serving::group_sequences(size_t end) const {
  double least = INFINITY;
  for (const ServedStage& each : stages) {
    least = std::min(least, stage_sequences(*this, each, end));
  }
  return least;
}

double Serving::sequences(size_t end) const {
  const double of_group = group_sequences(end);
  if (mesh.dp == 1) return of_group;
  return std::floor(of_group) * static_cast<double>(mesh.dp);
}

int64_t Serving::headroom(size_t end) const {
  int64_t least = INT64_MAX;
  for (const ServedStage& stage : stages) {
    least = std::min(least, available_at(stage, end) - stage.cache_needed);
  }
  return least;
}

std::optional<ServedWeights> known_weights(const Model& of,
                                           const Engine& engine,
                                           Diagnostics& diags) {
  const Manifest& manifest = of.manifest;
  auto model = served_weights(of);
  if (!model) {
    return diags
        .error(Code::MissingFacts, {},
               std::string(engine.title) +
                   " shards dimensions by architecture labels, but the "
                   "parameters of " +
                   in_backticks(manifest.title) + " have none")
        .help("give the model's config.json");
  }
  if (!manifest.facts.layers) {
    return diags.error(Code::MissingFacts, {},
                       "the number of layers of " +
                           in_backticks(manifest.title) + " is unknown");
  }
  return model;
}

std::optional<Serving> serve(const ServedWeights& model,
                             const ServingInput& input, Diagnostics& diags) {
  const Manifest& manifest = *model.manifest;
  const Engine& engine = *input.engine;
  Serving answer;
  answer.engine = input.engine;
  answer.mesh = input.mesh;
  answer.layout = layout_of(engine, input.mesh);
  answer.device = input.device;
  answer.seq = input.seq;
  answer.batch = input.batch;
  answer.kv_dtype = input.kv_dtype;
  answer.uncounted = uncounted(manifest.facts);
  answer.settings =
      engine.defaults({.device = input.device.name,
                       .device_bytes = input.device.nominal,
                       .mesh = input.mesh,
                       .latent = manifest.facts.kv_latent.has_value(),
                       .batched_tokens = input.batched_tokens,
                       .sequences = input.sequences});
  answer.share_is_default = !input.share;
  if (input.share) answer.settings.share = *input.share;
  answer.overheads = overheads(engine, step_widths(model, answer.layout),
                               answer.settings, answer.layout.devices());
  const Bracket outside = sum_of(answer.overheads, MemoryPart::Before);
  const Bracket inside = sum_of(answer.overheads, MemoryPart::InShare);
  answer.share_bytes =
      share_of(engine, answer.settings.share, input.device.usable, outside);
  if (engine.share == MemoryShare::OfTotal) {
    answer.missing_at_start = std::max<int64_t>(
        answer.share_bytes.lower + outside.lower - input.device.usable, 0);
  } else {
    const int64_t rest =
        input.device.usable - outside.lower - answer.share_bytes.upper;
    answer.missing_for_steps = std::max<int64_t>(
        sum_of(answer.overheads, MemoryPart::Rest).lower - rest, 0);
  }

  const auto ranges = ranges_of(model, input, diags);
  if (!ranges) return std::nullopt;
  const WeightsInput weights_input = {
      .engine = &engine,
      .card = input.device.generation,
      .slots = input.slots,
      .layout = answer.layout,
      .vocab_multiple = engine.vocab_multiple,
      .whole_embedding = input.mesh.dp_attention && input.mesh.dp > 1,
      .dtype = input.weight_dtype,
      .whole_tower_heads = engine.whole_tower_heads};
  const PoolRequest request = {
      .seq = input.seq,
      .block = input.block.value_or(engine.block),
      .tokens_in_flight = kStepsInFlight * answer.settings.batched_tokens};
  std::optional<ServedDraft> draft;
  if (input.draft != nullptr) {
    draft = served_draft(model, input, diags);
    if (!draft) return std::nullopt;
    answer.draft = input.draft->manifest->title;
    answer.remarks = draft->remarks;
  }
  for (const StageRange& range : *ranges) {
    ServedStage stage;
    stage.label = range.label;
    const auto weights = rank_weights(model, range.held, weights_input);
    if (!weights) {
      return diags.error(Code::InvalidMesh, {},
                         "bytes of the weights exceed 63 bits");
    }
    stage.weights = *weights;
    auto layers = layers_of(manifest, range, input, diags);
    if (!layers) return std::nullopt;
    stage.layers = *std::move(layers);
    // The last stage, which computes logits, runs the draft.
    if (draft && &range == &ranges->back()) add_draft(*draft, stage);
    stage.available = left_of(answer.share_bytes, stage.weights.total, inside);
    for (size_t end = 0; end < stage.pools.size(); ++end) {
      stage.pools[end] = cache_pool(engine.pool, stage.layers, request,
                                    available_at(stage, end));
    }
    if (stage.pools[1]) {
      stage.cache_needed = bytes_for_sequences(
          engine.pool, stage.layers, request, answer.sequences_of_group());
    }
    answer.stages.push_back(std::move(stage));
  }
  // The estimate decides; between stages that hold equally many, the bytes
  // left.
  const auto order_of = [&](const ServedStage& stage) {
    return std::pair(stage_sequences(answer, stage, 1), available_at(stage, 1));
  };
  answer.decides =
      to_size(std::ranges::min_element(answer.stages, {}, order_of) -
              answer.stages.begin());
  answer.without_cache =
      answer.uncounted.empty() &&
      std::ranges::none_of(answer.stages, [](const ServedStage& stage) {
        return stage.pools[1].has_value();
      });
  answer.problems = cut_problems(model, engine, input.mesh);
  const auto slots_at = [&](const EngineMesh& mesh) {
    return slot_problems(input.slots, engine, mesh,
                         manifest.facts.experts.value_or(0) > 0);
  };
  std::ranges::move(slots_at(input.mesh), std::back_inserter(answer.problems));
  std::ranges::move(cut_remarks(model, engine, input.mesh),
                    std::back_inserter(answer.remarks));
  if (input.all_degrees) {
    answer.verdicts = degree_verdicts(model, engine, input.mesh);
  }
  refuse_degrees(answer.verdicts, input.mesh, slots_at);
  add_kernel_remarks(model, input, answer);
  if (input.slots.count > 0) {
    answer.remarks.push_back(
        "room for " + plural(input.slots.count, "adapter") + " of rank " +
        count_text(input.slots.rank) + "; their matmuls are not timed");
  }
  if (input.draft != nullptr) add_draft_problems(model, input, answer);
  return answer;
}

}  // namespace shardplan
