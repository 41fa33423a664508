// SPDX-License-Identifier: Apache-2.0
#include "graph/shrink.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "base/checked.h"
#include "graph/build.h"
#include "graph/family.h"

namespace shardplan {
namespace {

constexpr int64_t kLayers = 2;
// Small enough to be quick, large enough for numbers to differ.
constexpr int64_t kMinWidth = 8;
constexpr int64_t kMinHead = 4;
// An all-reduce sends twice what is summed.
constexpr int64_t kWeightsOverActivations = 4;

class Shrinking {
 public:
  Shrinking(const ModelConfig& config, const ForwardPass& pass,
            const Mesh& mesh)
      : config_(config), pass_(pass), mesh_(mesh), devices_(mesh.devices()) {}

  ModelConfig run() {
    const int64_t width = *config_.heads * *config_.head_dim;
    const bool as_wide = config_.hidden == width;
    // A part that is rotated is a fraction of a head, which then stays.
    if (!config_.rope.partial) config_.head_dim = smaller_head();
    if (as_wide) {
      config_.hidden = *config_.heads * *config_.head_dim;
    } else {
      shrink(config_.hidden, least_width());
    }
    shrink(config_.intermediate, least_width());
    shrink(config_.expert_intermediate, least_width());
    shrink(config_.vocab, least_width());
    shrink(config_.max_positions, std::max<int64_t>(1, pass_.length));
    config_.layers = layers_run(pass_, config_);
    const auto kept = static_cast<size_t>(*config_.layers);
    if (config_.windows.size() > kept) config_.windows.resize(kept);
    return std::move(config_);
  }

 private:
  // Weights stay larger than activations where they were: else it would be
  // cheaper to send weights, and other collectives would be seen.
  int64_t least_width() const {
    const auto tokens = checked_mul(pass_.batch, pass_.length);
    const auto width =
        tokens ? checked_mul(*tokens, kWeightsOverActivations) : std::nullopt;
    return std::max(kMinWidth, width.value_or(kMinWidth));
  }

  // The smallest that keeps the rest of what heads and KV heads are wide
  // together, and its own by every axis. Half of a head is turned against the
  // other half, so it stays even where it was.
  int64_t smaller_head() const {
    const int64_t size = *config_.head_dim;
    const int64_t least =
        std::max(kMinHead, ceil_div(least_width(), *config_.heads));
    for (int64_t head = std::min(least, size); head < size; ++head) {
      const auto same_rest = [&](int64_t times, int64_t modulus) {
        // Both products are at most the large model's, which fit.
        return times * head % modulus == times * size % modulus;
      };
      bool same = same_rest(1, 2) && same_rest(*config_.heads, devices_) &&
                  same_rest(config_.kv_heads.value_or(1), devices_);
      for (const Axis& axis : mesh_.axes()) same &= same_rest(1, axis.size);
      if (same) return head;
    }
    return size;
  }

  void shrink(std::optional<int64_t>& size, int64_t minimum) const {
    if (size) size = shrunk_size(*size, devices_, minimum);
  }

  ModelConfig config_;
  const ForwardPass& pass_;
  const Mesh& mesh_;
  int64_t devices_;
};

// Parameters of a description with their shapes.
using Shapes = std::map<std::string_view, const Shape*>;
Shapes shapes_of(const GraphDescription& description) {
  Shapes shapes;
  for (const DescribedValue& parameter : description.parameters) {
    shapes.emplace(parameter.parameter, &*parameter.shape);
  }
  return shapes;
}

ModelFacts facts_of(ModelFacts facts, const ModelConfig& config) {
  const auto follow = [](std::optional<int64_t>& fact,
                         const std::optional<int64_t>& size) {
    if (fact) fact = size;
  };
  follow(facts.layers, config.layers);
  follow(facts.head_dim, config.head_dim);
  follow(facts.value_dim, config.head_dim);
  follow(facts.vocab, config.vocab);
  if (!facts.windows.empty()) facts.windows = config.windows;
  return facts;
}

Manifest manifest_of(const Manifest& large, const Shapes& shapes,
                     const ModelConfig& config) {
  Manifest small;
  for (size_t i = 0; i < large.size(); ++i) {
    const auto found = shapes.find(large.name(i));
    if (found == shapes.end()) continue;
    const size_t index = small.size();
    // No size has grown, so totals fit as before.
    small.add(large.name(i), {large.type(i).dtype, *found->second},
              large.where(i));
    if (const AxisLabels* axes = large.axes(i)) small.set_axes(index, *axes);
  }
  small.title = large.title;
  small.model_name = large.model_name;
  small.format = large.format;
  small.facts = facts_of(large.facts, config);
  small.mesh = large.mesh;
  small.remarks = large.remarks;
  small.sources = large.sources;
  return small;
}

}  // namespace

int64_t shrunk_size(int64_t size, int64_t modulus, int64_t minimum) {
  const int64_t rest = size % modulus;
  const int64_t wanted = std::max<int64_t>(minimum, 1);
  if (size <= wanted) return size;
  const int64_t steps = rest >= wanted ? 0 : ceil_div(wanted - rest, modulus);
  // At most the next multiple above `minimum`; a size below it stays.
  const auto added = checked_mul(steps, modulus);
  const auto shrunk = added ? checked_add(rest, *added) : std::nullopt;
  return shrunk ? std::min(size, *shrunk) : size;
}

std::optional<SmallModel> shrink(const Family& family, const FamilyInput& input,
                                 const Mesh& mesh, Diagnostics& diags) {
  FamilyInput large = input;
  if (!large.pass.layers) large.pass.layers = kLayers;
  const auto config = family.complete(large, diags);
  if (!config) return std::nullopt;
  const FamilyInput whole = {large.manifest, large.names, *config, large.pass};
  const auto described = family.describe(whole, diags);
  // The small model has the shapes that its config gives: what the large one's
  // contradict must be reported before.
  if (!described || !build_graph(*described, large.manifest, diags)) {
    return std::nullopt;
  }

  SmallModel small;
  small.config = Shrinking(*config, large.pass, mesh).run();
  const auto shrunk = family.describe(
      {large.manifest, large.names, small.config, large.pass}, diags);
  if (!shrunk) return std::nullopt;
  small.manifest =
      manifest_of(large.manifest, shapes_of(*shrunk), small.config);
  return small;
}

}  // namespace shardplan
