// SPDX-License-Identifier: Apache-2.0
#include "activations/shapes.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "activations/saved_values.h"
#include "activations/token_weights.h"
#include "base/checked.h"
#include "base/words.h"
#include "core/fold.h"

namespace shardplan {
namespace {

// Kernels of recurrent layers save one state per this many tokens.
constexpr int64_t kChunk = 64;

constexpr Int128 kMost = Int128{1} << 96U;

// Elements on a device.
struct LayerShapes {
  Int128 input = 0;    // the input of the layer
  Int128 least = 0;    // each kind of dimension once
  Int128 trained = 0;  // the most that one trained matrix surely reads
  Int128 inner = 0;    // widths of all weights, except the residual stream
  Int128 outer = 0;    // both widths of all weights
  Int128 largest = 0;  // both widths of one weight
  Int128 heads = 0;
  Int128 routed = 0;  // rows of experts, as wide as the residual stream
  Int128 scores = 0;
  Int128 states = 0;    // of recurrent layers
  Int128 chunked = 0;   // `outer`, for whole chunks of tokens
  Int128 rows = 0;      // tokens
  Int128 gathered = 0;  // the largest weight that is gathered for use
  int64_t norms = 0;
};

// For dimensions with the same name, in experts or not: the fewest elements of
// one, and how many there are.
using LabelCounts =
    std::map<std::pair<std::string_view, bool>, std::pair<Int128, int64_t>>;

// Adds a saved value, which is in host memory if `offloaded`.
void add_part(SegmentMemory& memory, const std::string& name, Int128 bytes,
              bool offloaded = false) {
  if (bytes <= 0) return;
  if (offloaded) {
    memory.offloaded += bytes;
    return;
  }
  memory.saved += bytes;
  memory.saved_by[name] += bytes;
}

// Derives the other fields from saved values and from what backward needs
// besides.
void finish(SegmentMemory& memory, Int128 alive, const std::string& name,
            Int128 more) {
  memory.sliced = memory.saved;
  memory.forward = alive;
  memory.backward = alive + more;
  memory.backward_by = memory.saved_by;
  if (alive > memory.saved) {
    memory.backward_by["recomputed activations"] += alive - memory.saved;
  }
  if (more > 0) memory.backward_by[name] += more;
}

// Returns the bytes that a layer saves if nothing is recomputed.
std::array<SegmentMemory, kSavingModes> plain_memory(const LayerShapes& of,
                                                     const SegmentOptions& how,
                                                     bool scores) {
  std::array<SegmentMemory, kSavingModes> memory;
  auto& [least, fused, eager] = memory;
  const Int128 own = how.element_bytes;
  add_part(least, "layers.*.input", of.input * own);
  add_part(least, "layers.*.weights", of.least * own);

  const int64_t norms = std::max<int64_t>(of.norms, 2);
  add_part(fused, "layers.*.input", of.input * own);
  add_part(fused, "layers.*.weights", of.inner * own);
  add_part(fused, "layers.*.norms",
           of.input * own * (2 * norms - 1) + of.rows * norms * kFloatBytes);
  add_part(fused, "layers.*.routed", of.routed * own);
  add_part(fused, "layers.*.states", of.states * kFloatBytes);
  if (scores) add_part(fused, "layers.*.scores", of.scores * own * 2);
  if (how.dropout.any()) {
    add_part(fused, "layers.*.dropout",
             of.input * 2 + (scores ? of.scores : Int128{0}));
  }

  // A recurrent layer does more between its weights.
  const bool recurs = of.states > 0;
  add_part(eager, "layers.*.input", of.input * own);
  add_part(eager, "layers.*.weights",
           recurs ? of.chunked * kFloatBytes * 3 : of.outer * own * 7 / 4);
  add_part(eager, "layers.*.heads", of.heads * (2 * own + 2 * kFloatBytes));
  add_part(eager, "layers.*.norms",
           of.input * (norms * (2 * kFloatBytes + 2 * own)) +
               of.rows * norms * 4 * kFloatBytes);
  add_part(eager, "layers.*.routed", of.routed * (6 * own + 2 * kFloatBytes));
  add_part(eager, "layers.*.states", of.states * kFloatBytes * 3);
  if (scores) {
    add_part(eager, "layers.*.scores", of.scores * (3 * own + 2 * kFloatBytes));
  }
  if (how.dropout.any()) {
    add_part(eager, "layers.*.dropout",
             of.input * (4 + 2 * own) +
                 (scores ? of.scores * (2 + own) : Int128{0}));
  }
  return memory;
}

class ShapeReader {
 public:
  ShapeReader(const Manifest& manifest, const Plan& plan,
              const ShapedWorkload& workload, const StepOptions& options)
      : manifest_(manifest),
        plan_(plan),
        workload_(workload),
        options_(options),
        model_(token_weights(manifest, plan, workload.gathered,
                             workload.experts_per_token.has_value())) {
    for (size_t i = 0; i < workload.frozen.size(); ++i) {
      if (!workload.frozen[i]) trained_.insert(manifest.name(i));
    }
  }

  ShapedLayers read() {
    ShapedLayers result;
    result.unknown = std::move(model_.unknown);
    if (!result.unknown.empty()) return result;
    StepLayers& layers = result.layers;
    layers.saves_inputs = true;
    const auto add = [&](Segment plain, Segment recomputed) {
      layers.plain.push_back(std::move(plain));
      layers.recomputed.push_back(std::move(recomputed));
    };
    add(around(true), around(true));
    for (size_t s = 0; s < model_.stacks.size(); ++s) {
      if (s > 0) {
        Segment between;
        between.label = "between layers";
        add(between, between);
      }
      for (const auto& [number, weights] : model_.stacks[s].layers) {
        const LayerShapes shapes = shapes_of(model_.stacks[s], number, weights);
        if (holds_scores() && shapes.heads > 0 && shapes.scores == 0) {
          result = {};
          result.unknown =
              "the number of heads with attention scores is unknown";
          return result;
        }
        const std::string label = "layers." + std::to_string(number);
        Segment plain = segment(shapes, label, nullptr);
        Segment recomputed = segment(shapes, label, &options_.remat);
        if (!model_.pair && number >= *manifest_.facts.layers) {
          // This layer is for multi-token prediction, which not everyone
          // trains.
          plain.memory[0] = {};
          recomputed.memory[0] = {};
        }
        add(std::move(plain), std::move(recomputed));
        ++layers.layers;
      }
    }
    add(around(false), around(false));
    layers.layer_of = std::move(model_.layer_of);
    result.left_out = std::move(model_.left_out);
    result.holds_scores = model_.holds_scores;
    return result;
  }

 private:
  // Returns the elements on a device, for all tokens, of a dimension that
  // `axes` shard.
  Int128 numbers(int64_t length, Int128 size, const AxisNames& axes,
                 bool routed = false, const AxisNames& expert_axes = {}) const {
    Int128 tokens = Int128{workload_.sequences} * length;
    AxisNames cutting = workload_.sequence;
    for (const AxisNames* more : {&axes, &expert_axes}) {
      for (const AxisName& axis : *more) {
        if (!contains(cutting, axis) && !contains(workload_.batch, axis)) {
          cutting.push_back(axis);
        }
      }
    }
    if (routed) {
      const double factor = static_cast<double>(*workload_.experts_per_token) *
                            options_.segments.expert_factor;
      tokens = static_cast<Int128>(static_cast<double>(tokens) * factor + 0.5);
    }
    // This is far beyond 63 bits, which is reported in the end.
    if (tokens > kMost / std::max<Int128>(size, 1)) return kMost;
    const Int128 shards = shard_count(plan_.mesh, cutting);
    return (tokens * size + shards - 1) / shards;
  }

  int64_t length_of(const TokenStack& stack) const {
    return stack.encodes ? workload_.source_length : workload_.length;
  }

  LayerShapes shapes_of(const TokenStack& stack, int64_t number,
                        const std::vector<TokenWeight>& weights) const {
    LayerShapes shapes;
    const int64_t own = length_of(stack);
    // Shapes do not show which weights of a decoder read the encoder's output.
    const int64_t most =
        stack.decodes ? std::max(own, workload_.source_length) : own;
    const int64_t least =
        stack.decodes ? std::min(own, workload_.source_length) : own;
    shapes.input = numbers(own, model_.hidden, {});
    shapes.rows = numbers(own, 1, {});
    LabelCounts kinds;
    std::set<std::string> routed_seen;
    for (const TokenWeight& weight : weights) {
      shapes.gathered = std::max(shapes.gathered, weight.gathered);
      if (weight.is_norm && weight.widths.size() == 1) {
        ++shapes.norms;
        continue;
      }
      // One expert stands for all, because they share the tokens.
      const bool is_counted =
          weight.routed && !routed_seen.insert(folded_name(weight.name)).second;
      if (is_counted || weight.widths.size() < 2) continue;
      add_weight(weight, most, least, shapes, kinds);
    }
    for (const auto& [kind, of] : kinds) {
      // If scores are held, the output of attention is recomputed from them.
      const bool heads = kind.first == kKvHeadsDim ||
                         (kind.first == kHeadsDim &&
                          options_.segments.attention == AttentionKind::Flash);
      shapes.least +=
          of.first * (heads ? of.second : std::max<int64_t>(of.second - 1, 1));
    }
    add_attention(stack, number, weights, shapes);
    // Tokens are rounded up to whole chunks.
    shapes.chunked = own < kChunk
                         ? shapes.outer * kChunk / std::max<int64_t>(own, 1)
                         : shapes.outer + shapes.outer * kChunk / own;
    return shapes;
  }

  void add_weight(const TokenWeight& weight, int64_t most, int64_t least,
                  LayerShapes& shapes, LabelCounts& kinds) const {
    Int128 inner = 0;
    Int128 both = 0;
    Int128 narrower = kMost;
    bool through_hidden = false;
    const auto numbers_of = [&](int64_t length, int64_t size,
                                const AxisNames& axes) {
      return numbers(length, size, axes, weight.routed, weight.expert_axes);
    };
    for (const Width& width : weight.widths) {
      const Int128 count = numbers_of(most, width.size, width.axes);
      both += count;
      narrower = std::min(narrower, numbers_of(least, width.size, width.axes));
      const bool stream = width.hidden && width.size == model_.hidden;
      if (!stream) inner += count;
      through_hidden = through_hidden || stream;
    }
    if (inner == 0) inner = both / 2;
    if (weight.widths.size() == 2 && !weight.routed &&
        trained_.contains(weight.name)) {
      shapes.trained = std::max(shapes.trained, narrower);
    }
    shapes.inner += inner;
    shapes.outer += both;
    shapes.largest = std::max(shapes.largest, both);
    if (weight.routed) {
      shapes.routed =
          std::max(shapes.routed, numbers_of(most, model_.hidden, {}));
    }
    for (const Width& width : weight.widths) {
      for (const auto& [label, size] : width.labels) {
        if (label == kHeadsDim) {
          shapes.heads =
              std::max(shapes.heads, numbers(most, size, width.axes));
        }
        // Nothing is assumed about convolutions and the like.
        if (!through_hidden || weight.widths.size() != 2 || width.hidden) {
          continue;
        }
        const Int128 count = numbers_of(least, size, width.axes);
        const auto [entry, is_new] = kinds.try_emplace(
            {label, weight.routed}, std::pair<Int128, int64_t>(count, 0));
        auto& [fewest, times] = entry->second;
        fewest = std::min(fewest, count);
        ++times;
      }
    }
  }

  void add_attention(const TokenStack& stack, int64_t number,
                     const std::vector<TokenWeight>& weights,
                     LayerShapes& shapes) const {
    const Facts& facts = manifest_.facts;
    const int64_t length = length_of(stack);
    if (shapes.heads > 0 && facts.heads) {
      AxisNames axes;
      for (const TokenWeight& weight : weights) {
        if (weight.widths.size() < 2) continue;
        for (const Width& width : weight.widths) {
          if (!width.labels.empty() && width.labels[0].first == kHeadsDim) {
            axes = width.axes;
          }
        }
      }
      const int64_t seen =
          stack.decodes ? length + workload_.source_length : length;
      shapes.scores = numbers(length, Int128{*facts.heads} * seen, axes);
    }
    const LayerStates& state = facts.state;
    if (stack.encodes || number >= static_cast<int64_t>(state.layers.size())) {
      return;
    }
    for (const CachedTensor& cached :
         state.kinds[nth(state.layers, number)].cached) {
      if (cached.per != CachedTensor::Per::Sequence) continue;
      const Int128 elements =
          Int128{std::max<int64_t>(cached.heads, 1)} * cached.width;
      shapes.states +=
          elements * workload_.sequences * ceil_div(length, kChunk);
    }
  }

  bool holds_scores() const {
    return model_.holds_scores ||
           options_.segments.attention == AttentionKind::Scores;
  }

  // Returns what a layer holds.
  Segment segment(const LayerShapes& of, const std::string& label,
                  const Remat* remat) const {
    const SegmentOptions& how = options_.segments;
    const Int128 own = how.element_bytes;
    Segment segment;
    segment.label = label;
    segment.is_layer = true;
    segment.memory = plain_memory(of, how, holds_scores());
    auto& [least, fused, eager] = segment.memory;
    const bool partly = !workload_.frozen.empty();
    if (partly) {
      least = {};
      add_part(least, "layers.*.weights", of.trained * own);
    }
    const Int128 alive_least = least.saved;
    const Int128 alive_fused = fused.saved;
    const Int128 alive_eager = eager.saved;
    if (remat != nullptr && !remat->is_none()) {
      const RematPolicy& policy = *remat->policy;
      const bool input_alone = !policy.weight_products &&
                               !policy.other_products && !policy.attention &&
                               policy.saved.empty() && !policy.by_modules() &&
                               !policy.every_second_product;
      const bool input_away = policy.offloads_input;
      least = {};
      if (!partly || of.trained > 0) {
        add_part(least, "layers.*.input", of.input * own, input_away);
      }
      // Shapes do not show modules.
      if (!policy.by_modules()) {
        fused = {};
        add_part(fused, "layers.*.input", of.input * own, input_away);
        if (policy.attention) {
          add_part(fused, "layers.*.heads", of.heads * own,
                   policy.offloads_attention);
        }
        if (policy.weight_products) {
          add_part(fused, "layers.*.weights",
                   of.inner * own / (policy.every_second_product ? 2 : 1),
                   policy.offloads_products);
        } else if (!policy.saved.empty()) {
          // Shapes do not show which widths these are.
          add_part(fused, "layers.*.weights", of.inner * own / 2,
                   policy.offloaded.size() == policy.saved.size());
        }
        eager = {};
        add_part(eager, "layers.*.input", of.input * own, input_away);
        if (!input_alone) {
          if (offloads(policy)) eager.offloaded += of.outer * own;
          add_part(eager, "layers.*.weights", of.outer * own);
          add_part(eager, "layers.*.heads", of.heads * (own + kFloatBytes));
        }
        if (policy.other_products && holds_scores()) {
          add_part(eager, "layers.*.scores", of.scores * own * 2);
        }
      }
    } else if (remat != nullptr && !remat->is_plain()) {
      for (SegmentMemory& memory : segment.memory) {
        memory.offloaded = memory.saved;
        memory.saved = 0;
        memory.saved_by.clear();
      }
    }
    for (SegmentMemory& memory : segment.memory) {
      memory.input = memory.handed_on = of.input * own;
    }
    finish(least, alive_least, "gradient of layers.*.input",
           partly ? Int128{0} : of.input * own);
    finish(fused, alive_fused, "gradients in layers.*",
           (of.largest + 2 * of.input + of.gathered) * own);
    finish(
        eager, alive_eager, "gradients in layers.*",
        (of.states > 0 ? of.chunked * kFloatBytes * 2 : of.outer * own) +
            2 * of.gathered * own + of.input * (4 * own + 2 * kFloatBytes) +
            (holds_scores() ? of.scores * (2 * own + kFloatBytes) : Int128{0}));
    return segment;
  }

  // Returns what precedes or follows layers; the loss follows them.
  Segment around(bool before) const {
    const SegmentOptions& how = options_.segments;
    const Int128 own = how.element_bytes;
    Segment segment;
    segment.label = before ? "before layers" : "behind layers";
    const int64_t most =
        std::max(workload_.length,
                 model_.pair ? workload_.source_length : workload_.length);
    const Int128 stream = numbers(most, model_.hidden, {});
    Int128 outer = 0;
    Int128 logits = 0;
    bool has_head = false;
    int tables = 0;
    Int128 gathered = 0;
    for (const TokenWeight& weight : model_.outside) {
      // The largest counts, whether it is an embedding or follows layers.
      gathered = std::max(gathered, weight.gathered);
      if (weight.widths.size() < 2) continue;
      if (weight.vocab) {
        ++tables;
        has_head = has_head || !weight.embeds;
        for (const Width& width : weight.widths) {
          if (!width.labels.empty() && width.labels[0].first == kVocabDim) {
            logits = std::max(
                logits, numbers(workload_.length, width.size, width.axes));
          }
        }
        continue;
      }
      for (size_t w = weight.embeds ? 1 : 0; w < weight.widths.size(); ++w) {
        outer += numbers(most, weight.widths[w].size, weight.widths[w].axes);
      }
    }
    has_head = has_head || tables > 1;
    auto& [least, fused, eager] = segment.memory;
    if (before) {
      add_part(fused, "embedding", how.dropout.any() ? stream : Int128{0});
      add_part(eager, "embedding",
               stream * (3 * own + kFloatBytes) +
                   (how.dropout.any() ? stream * (2 + own) : Int128{0}));
      add_part(eager, "outside layers", outer * own * 3);
    } else {
      add_part(fused, "norm after layers", stream * own * 2);
      add_part(fused, "outside layers", outer * own / 2);
      add_part(eager, "norm after layers",
               stream * (3 * kFloatBytes + 3 * own));
      add_part(eager, "outside layers", outer * own * 3);
    }
    const std::string gradients = "gradients outside layers";
    finish(least, least.saved, gradients, 0);
    finish(fused, fused.saved, gradients, (gathered + stream) * own);
    finish(eager, eager.saved, gradients,
           (2 * gathered + 3 * stream + 2 * outer) * own);
    if (!before && logits > 0) {
      for (const SavingMode figure : kFigures) {
        if (figure == SavingMode::Least && !has_head) continue;
        SegmentMemory& memory = nth(segment.memory, figure);
        const Int128 bytes = loss_bytes(how, logits, figure);
        memory.forward += bytes;
        memory.backward += bytes;
        memory.loss += bytes;
        memory.backward_by[std::string(kLogits)] += bytes;
      }
    }
    return segment;
  }

  const Manifest& manifest_;
  const Plan& plan_;
  const ShapedWorkload& workload_;
  const StepOptions& options_;
  TokenWeights model_;
  std::set<std::string_view> trained_;  // names, if some parameters are frozen
};

}  // namespace

ShapedLayers layers_by_shapes(const Manifest& manifest, const Plan& plan,
                              const ShapedWorkload& workload,
                              const StepOptions& options) {
  ShapedLayers model = ShapeReader(manifest, plan, workload, options).read();
  if (!model.unknown.empty() || !options.segments.is_widened()) return model;
  StepOptions widened = options;
  widened.segments = options.segments.widened();
  ShapedLayers wide = ShapeReader(manifest, plan, workload, widened).read();
  model.layers.wide_plain = std::move(wide.layers.plain);
  model.layers.wide_recomputed = std::move(wide.layers.recomputed);
  return model;
}

}  // namespace shardplan
