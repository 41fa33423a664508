// SPDX-License-Identifier: Apache-2.0
#include "activations/segment_uses.h"

#include <algorithm>
#include <optional>

#include "activations/remat.h"
#include "activations/segments.h"
#include "core/fold.h"
#include "memory/budget.h"

namespace shardplan {
namespace {

// Lists all uses.
std::vector<SegmentUse> list_uses(const StepLayers& layers,
                                  const LayerWeights& weights) {
  const std::vector<Segment>& plain = layers.plain;
  std::vector<SegmentUse> steps;
  const auto& cycle = layers.cycle;
  int64_t stack_begin = 0;
  const auto add_layer = [&](size_t segment, int64_t layer) {
    SegmentUse& step = steps.emplace_back();
    step.segment = segment;
    step.layer = layer;
    const auto found = weights.layers.find(layer - stack_begin);
    if (found == weights.layers.end()) return;
    step.weights = found->second.trained;
    step.matrices = found->second.matrices;
  };
  int64_t layer = 0;
  for (size_t s = 0; s < plain.size(); ++s) {
    if (!plain[s].is_layer) {
      stack_begin = layer;
      steps.push_back({.segment = s});
    } else if (!cycle) {
      add_layer(s, layer++);
    } else if (layer == 0) {
      // Segments of layers are adjacent, in the layers' order.
      for (; layer < layers.layers; ++layer) {
        add_layer(s + to_size(layer_for(*cycle, layer)), layer);
      }
    }
  }
  return steps;
}

int64_t stage_of(const std::optional<StagePlan>& stages, const SegmentUse& step,
                 bool after_layers) {
  if (!stages) return 0;
  if (step.layer < 0) return after_layers ? stages->stages - 1 : 0;
  const auto& ranges = stages->ranges;
  const auto found = std::ranges::upper_bound(
      ranges, step.layer, {}, [](const auto& range) { return range.second; });
  return found == ranges.end() ? stages->stages - 1 : found - ranges.begin();
}

// Returns which segment a use is: "layer 31", "head and loss", "the embedding";
// "" between layers.
std::string segment_text(const SegmentUse& use,
                         const std::vector<Segment>& segments) {
  if (use.layer >= 0) return "layer " + std::to_string(use.layer);
  const std::string& label = segments[use.segment].label;
  return label == "behind layers"   ? "head and loss"
         : label == "before layers" ? "the embedding"
                                    : "";
}

}  // namespace

std::vector<std::vector<SegmentUse>> uses_of_stages(
    const StepInput& input, const LayerWeights& weights,
    const StepOptions& options) {
  const auto& stages = input.budget.stages;
  std::vector<std::vector<SegmentUse>> uses(stages ? to_size(stages->stages)
                                                   : 1);
  int64_t last_layer = -1;
  for (const SegmentUse& each : list_uses(input.layers, weights)) {
    if (each.layer >= 0) last_layer = each.layer;
    nth(uses, stage_of(stages, each, last_layer >= 0)).push_back(each);
  }
  for (size_t s = 0; s < uses.size(); ++s) {
    std::vector<SegmentUse>& own = uses[s];
    const Remat& remat = options.remat;
    int64_t number = 0;  // of layers on this stage so far
    for (SegmentUse& step : own) {
      // The input of the first layer may be in host memory.
      step.recomputed = remat.policy != nullptr && offloads(*remat.policy);
      if (step.layer >= 0) {
        step.recomputed = !remat.is_plain() && number % remat.every == 0 &&
                          (!remat.first || number < *remat.first);
        if (step.recomputed && remat.together > 1) {
          step.saves = number % remat.together == remat.together - 1;
          step.more_layers = remat.together - 1;
        }
        const size_t layer = to_size(step.layer);
        if (layer < input.saved_dequantised.size()) {
          step.saved_dequantised =
              input.saved_dequantised[layer] * (1 + step.more_layers);
        }
        ++number;
      }
      step.chunk =  // before, in or behind layers
          step.layer >= 0 ? number - 1 : number;
    }
    const int64_t chunks =
        in_flight(options, stages ? stages->stages : 0, static_cast<int64_t>(s))
            .chunks;
    for (SegmentUse& step : own) {
      step.chunk = std::min(step.chunk * chunks / std::max<int64_t>(number, 1),
                            chunks - 1);
    }
  }
  return uses;
}

bool Earlier::operator()(int64_t a, int64_t b) const {
  // Backward runs from the last use to the first.
  const auto when = [](int64_t moment) {
    return moment <= kForward      ? std::pair(0, kForward - moment)
           : moment == kForwardEnd ? std::pair(1, int64_t{0})
           : moment == kUpdateStep ? std::pair(3, int64_t{0})
                                   : std::pair(2, -moment);
  };
  return when(a) < when(b);
}

std::string moment_text(int64_t moment, const std::vector<SegmentUse>& uses,
                        const std::vector<Segment>& segments) {
  if (moment == kForwardEnd) return "the end of forward";
  if (moment < 0) return "the optimizer's step";
  const std::string segment = segment_text(nth(uses, moment), segments);
  return segment.empty() ? "backward between layers" : "backward of " + segment;
}

std::string moment_label(int64_t moment, const std::vector<SegmentUse>& uses,
                         const std::vector<Segment>& segments) {
  if (moment == kForwardEnd) return "end of forward";
  if (moment == kUpdateStep) return "optimizer";
  const bool is_forward = moment <= kForward;
  std::string text = segment_text(
      nth(uses, is_forward ? kForward - moment : moment), segments);
  if (text.starts_with("the ")) text.erase(0, 4);
  return is_forward ? "forward " + text : text;
}

Int128 matrices_of(const std::vector<SegmentUse>& uses) {
  Int128 numbers = 0;
  for (const SegmentUse& use : uses) numbers += use.matrices;
  return numbers;
}

Int128 gathered_together(const std::vector<SegmentUse>& uses,
                         const GatheredSizes& gathered) {
  Int128 layers = 0;
  Int128 others = 0;
  for (const SegmentUse& use : uses) {
    if (use.layer >= 0) {
      layers += gathered.most_of_layer;
    } else {
      others = gathered.most_of_others;
    }
  }
  return layers + others;
}

}  // namespace shardplan
