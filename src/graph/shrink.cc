// SPDX-License-Identifier: Apache-2.0
// Finds the smaller sizes of a model, and makes its manifest from them.
#include "graph/shrink.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "core/fold.h"
#include "graph/build.h"

namespace shardplan {
namespace {

constexpr int64_t kLeastLayers = 2;
// Every expert has operations of its own on every device. If a layer has more
// than this many of them, only one layer is run, provided that all others are
// like it.
constexpr int64_t kManyExperts = 4096;
// Small enough to be quick, large enough for numbers to differ.
constexpr int64_t kMinWidth = 8;
constexpr int64_t kMinHead = 4;

using GivenValues = std::map<std::string, ConfigValue, std::less<>>;

class Shrinking {
 public:
  Shrinking(const ForwardDefinition& model, const ForwardPass& pass,
            const Mesh& mesh)
      : model_(model), pass_(pass), mesh_(mesh), devices_(mesh.devices()) {}

  GivenValues run() {
    const auto heads = model_size(model_, "heads");
    const auto head_dim = model_size(model_, "head_dim");
    const auto hidden = model_size(model_, "hidden");
    if (heads && head_dim) {
      const bool as_wide = hidden == *heads * *head_dim;
      const int64_t smaller = smaller_head(*heads, *head_dim);
      give("head_dim", smaller);
      if (as_wide) give("hidden", *heads * smaller);
      if (const auto rotated = model_size(model_, "rotary_dim")) {
        // The same share of the smaller head, in pairs.
        const int64_t pairs = *rotated * smaller / *head_dim / 2;
        give("rotary_dim", std::max<int64_t>(2, 2 * pairs));
      }
    }
    shrink_parts_of_heads();
    shrink_state_space();
    // Widths, and the vocabulary, which is the width of the logits.
    for (const char* name : {"hidden", "mlp", "expert_mlp", "vocab"}) {
      if (!given_.contains(name)) shrink_size(name, devices_, kMinWidth);
    }
    // The width of embeddings, which is the model's or smaller.
    if (const auto embedded = model_size(model_, "embedded")) {
      give("embedded", embedded == hidden
                           ? given_.at("hidden").integer
                           : shrunk_size(*embedded, devices_, kMinWidth));
    }
    shrink_size("positions", devices_, std::max<int64_t>(1, pass_.length));
    if (const auto layers = model_size(model_, "layers")) {
      give("layers", layers_run(pass_, *layers));
    }
    return std::move(given_);
  }

 private:
  void give(const char* name, int64_t size) {
    given_.insert_or_assign(name, ConfigValue::of(size));
  }
  // Gives a size that the model has a smaller value.
  void shrink_size(const char* name, int64_t modulus, int64_t minimum) {
    const auto size = model_size(model_, name);
    if (size) give(name, shrunk_size(*size, modulus, minimum));
  }

  // Shrinks heads whose parts have sizes of their own: those of latent
  // attention and those of a delta rule.
  void shrink_parts_of_heads() {
    if (model_size(model_, "kv_rank")) {
      for (const char* name : {"q_rank", "kv_rank"}) {
        shrink_size(name, devices_, kMinWidth);
      }
      give_part("heads", "key_dim");
      give_part("heads", "value_dim");
      // The rotated part is stored beside the latent, so its size must keep its
      // own remainder.
      shrink_size("rope_dim", std::lcm(devices_, int64_t{2}), kMinWidth);
      const auto query = model_size(model_, "said_query_dim");
      if (query) give("said_query_dim", size("key_dim") + size("rope_dim"));
    } else if (model_size(model_, "value_heads")) {
      give_part("key_heads", "key_dim");
      give_part("value_heads", "value_dim");
    }
  }

  void give_part(const char* heads, const char* part) {
    const auto count = model_size(model_, heads);
    const auto size = model_size(model_, part);
    if (count && size) give(part, smaller_head(*count, *size));
  }

  // Returns a size of the smaller model. REQUIRES: the size was given.
  int64_t size(const char* name) const { return given_.at(name).integer; }

  // Shrinks the heads of a state space, which together are `expand` times as
  // wide as the model.
  void shrink_state_space() {
    const auto hidden = model_size(model_, "hidden");
    const auto expand = model_size(model_, "expand");
    const auto heads = model_size(model_, "ssm_heads");
    const auto head_dim = model_size(model_, "ssm_head_dim");
    if (!hidden || !expand || !heads || !head_dim ||
        *heads * *head_dim != *expand * *hidden) {
      return;
    }
    const int64_t smaller = smaller_head(*heads, *head_dim);
    const int64_t width = *heads * smaller / *expand;
    const bool fits = width * *expand == *heads * smaller &&
                      width % devices_ == *hidden % devices_;
    give("ssm_head_dim", fits ? smaller : *head_dim);
    give("hidden", fits ? width : *hidden);
  }

  // Returns the smallest head size for which the total width of heads and that
  // of KV heads keep their remainders, and which keeps its own remainder modulo
  // every axis. Rotation pairs the two halves of a head, so an even size stays
  // even.
  int64_t smaller_head(int64_t heads, int64_t size) const {
    const int64_t least = std::max(kMinHead, ceil_div(kMinWidth, heads));
    const int64_t kv_heads = model_size(model_, "kv_heads").value_or(1);
    const auto part = model_value(model_, "rotary_part");
    // If only a part of a head is rotated, that part must consist of pairs as
    // well.
    const auto rotates = [&](int64_t head) {
      if (!part || !part->is_number() || part->as_real() <= 0) return true;
      const auto rotated =
          static_cast<int64_t>(static_cast<double>(head) * part->as_real());
      return rotated >= 2 && rotated % 2 == 0;
    };
    for (int64_t head = std::min(least, size); head < size; ++head) {
      const auto same_rest = [&](int64_t times, int64_t modulus) {
        // Both products are at most the large model's, which fit.
        return times * head % modulus == times * size % modulus;
      };
      bool same = same_rest(1, 2) && (rotates(head) || !rotates(size)) &&
                  same_rest(heads, devices_) && same_rest(kv_heads, devices_);
      for (const Axis& axis : mesh_.axes()) same &= same_rest(1, axis.size);
      if (same) return head;
    }
    return size;
  }

  const ForwardDefinition& model_;
  const ForwardPass& pass_;
  const Mesh& mesh_;
  int64_t devices_;
  GivenValues given_;
};

Facts facts_of(Facts facts, const ForwardDefinition& model) {
  const auto follow = [&](std::optional<int64_t>& fact, const char* name) {
    if (fact) fact = model_size(model, name);
  };
  follow(facts.layers, "layers");
  follow(facts.head_dim, "head_dim");
  follow(facts.value_dim, "head_dim");
  follow(facts.vocab, "vocab");
  const size_t kept = to_size(facts.layers.value_or(0));
  if (facts.windows.size() > kept) facts.windows.resize(kept);
  facts.state = {};  // it depends on sizes that have shrunk
  return facts;
}

// Returns the parameters and buffers that the small model's pass reads.
Manifest manifest_of(const Manifest& large, const GraphDescription& described,
                     const ForwardDefinition& model) {
  std::map<std::string_view, const Shape*> shapes;
  for (const DescribedValue& parameter : described.parameters) {
    shapes.emplace(parameter.parameter, &*parameter.shape);
  }
  Manifest small(large.head());
  small.facts = facts_of(large.facts, model);
  for (size_t i = 0; i < large.size(); ++i) {
    const auto found = shapes.find(large.name(i));
    if (found == shapes.end()) continue;
    const size_t index = small.size();
    // No size has grown, so totals still fit.
    small.add(large.name(i), {large.type(i).dtype, *found->second},
              large.where(i));
    if (const AxisLabels* axes = large.axes(i)) small.set_axes(index, *axes);
  }
  for (const Manifest::Buffer& buffer : large.buffers()) {
    const auto found = shapes.find(buffer.name);
    if (found == shapes.end()) continue;
    small.add(buffer.name, {buffer.type.dtype, *found->second}, buffer.where,
              true);
  }
  return small;
}

// Describes the forward pass without its notes, which are reported when the
// pass that runs is described.
std::optional<GraphDescription> write_quietly(const ForwardDefinition& model,
                                              const ForwardInput& input,
                                              Diagnostics& diags) {
  Diagnostics own = diags.fresh();
  auto described = write_forward(model, input, own);
  if (!described) diags.add_all(own);
  return described;
}

}  // namespace

int64_t shrunk_size(int64_t size, int64_t modulus, int64_t minimum) {
  const int64_t rest = size % modulus;
  if (size <= minimum) return size;
  const int64_t steps = rest >= minimum ? 0 : ceil_div(minimum - rest, modulus);
  // The sum is at most the next multiple above `minimum`; `size` stays if
  // smaller.
  const auto added = checked_mul(steps, modulus);
  const auto shrunk = added ? checked_add(rest, *added) : std::nullopt;
  return shrunk ? std::min(size, *shrunk) : size;
}

int64_t shrunk_layers(const ForwardDefinition& model, const Manifest& manifest,
                      const Mesh& mesh) {
  const int64_t layers = model_size(model, "layers").value_or(kLeastLayers);
  const Folding folding = fold_by_type(manifest);
  // The first layer that has a tensor of each class.
  std::vector<int64_t> first(folding.classes.size(), layers);
  for (size_t i = 0; i < manifest.size(); ++i) {
    const int64_t layer = first_number(manifest.name(i)).number;
    int64_t& known = first[folding.class_of[i]];
    if (layer >= 0) known = std::min(known, layer);
  }
  // Also the first layer of each stack in which another program stores layers.
  std::map<std::string_view, int64_t> first_of;
  if (manifest.views != nullptr) {
    for (const auto& [name, view] : *manifest.views) {
      const int64_t layer = first_number(name).number;
      if (layer < 0) continue;
      const auto [entry, is_new] = first_of.try_emplace(view.of, layer);
      if (!is_new) entry->second = std::min(entry->second, layer);
    }
  }
  for (const auto& [stack, layer] : first_of) first.push_back(layer);
  const bool many =
      model_size(model, "experts").value_or(0) > kManyExperts / mesh.devices();
  int64_t count = many ? 1 : kLeastLayers;
  for (const int64_t layer : first) {
    // Layers after the last one are not run.
    if (layer < layers) count = std::max(count, layer + 1);
  }
  return std::min(count, layers);
}

std::optional<Model> shrink(const ForwardDefinition& model,
                            const ForwardInput& input, const Mesh& mesh,
                            Diagnostics& diags) {
  ForwardInput large = input;
  if (!large.pass.layers) {
    large.pass.layers = shrunk_layers(model, large.manifest, mesh);
  }
  const auto described = write_quietly(model, large, diags);
  // The small model's shapes are derived from its sizes, so a contradiction in
  // the large model's shapes must be reported before.
  if (!described || !build_graph(*described, large.manifest, diags)) {
    return std::nullopt;
  }
  ForwardDefinition small = model;
  small.is_small = true;
  for (auto& [name, value] : Shrinking(model, large.pass, mesh).run()) {
    small.known_values.insert_or_assign(name, std::move(value));
  }
  const auto shrunk = write_quietly(small, large, diags);
  if (!shrunk) return std::nullopt;
  Manifest manifest = manifest_of(large.manifest, *shrunk, small);
  return Model(std::move(manifest), std::move(small));
}

}  // namespace shardplan
