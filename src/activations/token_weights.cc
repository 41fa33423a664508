// SPDX-License-Identifier: Apache-2.0
#include "activations/token_weights.h"

#include <algorithm>
#include <functional>
#include <set>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "core/fold.h"
#include "graph/tensor.h"

namespace shardplan {
namespace {

constexpr std::string_view kHiddenDim = "hidden";
constexpr std::string_view kExpertsDim = "experts";
constexpr std::string_view kNormAxis = "norm";

// Returns the last component of a dimension's label: "hidden" of
// "vision.hidden".
std::string_view own_label(std::string_view label) {
  return label.substr(label.rfind('.') + 1);
}

struct TokenReader {
  const Manifest& manifest;
  const Plan& plan;
  const AxisNames& gathered;
  bool routes;
  TokenWeights model = {};
  std::string embedding = {};  // the parameter with a row per token
  size_t text_root = 0;        // length of its name up to the modules of text
  bool towers = false;
  NumberedLayers numbered = {};

  TokenWeights read() {
    if (find_embedding() && find_stacks() && read_weights()) {
      return std::move(model);
    }
    TokenWeights nothing;
    nothing.unknown = std::move(model.unknown);
    return nothing;
  }

  bool refuse(std::string why) {
    model.unknown = std::move(why);
    return false;
  }

  const ParameterKind* kind_of(size_t i) const {
    const auto found = manifest.kinds->find(
        {folded_name(manifest.name(i)), manifest.type(i).shape});
    return found == manifest.kinds->end() ? nullptr : &found->second;
  }

  // Checks that every parameter is explained and stored as it is computed with,
  // and finds one that has a row for every token of a vocabulary.
  bool find_embedding() {
    if (manifest.kinds == nullptr || manifest.kinds->empty()) {
      return refuse("the parameters match no known architecture");
    }
    for (size_t i = 0; i < manifest.size(); ++i) {
      const TensorType& type = manifest.type(i);
      const std::string name(manifest.name(i));
      if (type.shape.size() > 1 && !is_computable(type.dtype)) {
        return refuse("`" + name + "` is stored quantised, as " +
                      type_text(type));
      }
      const ParameterKind* kind = kind_of(i);
      if (kind == nullptr) {
        return refuse("the role of `" + name + "` is unknown");
      }
      if (embedding.empty() && kind->size() == 2 &&
          has_label(*kind, kVocabDim)) {
        embedding = name;
      }
    }
    return !embedding.empty() || refuse("no part of the model reads tokens");
  }

  static bool has_label(const ParameterKind& kind, std::string_view label) {
    return std::ranges::any_of(kind, [&](const DimKind& dim) {
      return own_label(dim.label) == label;
    });
  }

  // Returns the length in characters of the whole components that both begin
  // with.
  static size_t common_modules(std::string_view a, std::string_view b) {
    size_t common = 0;
    for (size_t i = 0; i < std::min(a.size(), b.size()) && a[i] == b[i]; ++i) {
      if (a[i] == '.' || a[i] == '/') common = i + 1;
    }
    return common;
  }

  std::string_view prefix_of(size_t stack) const {
    return numbered.stacks[stack].prefix;
  }

  // Finds layers of text: the numbered modules nearest to the embedding, and
  // the encoder of a decoder. Other numbered modules are towers.
  bool find_stacks() {
    numbered = numbered_layers(manifest);
    std::vector<std::set<int64_t>> numbers(numbered.stacks.size());
    std::vector<size_t> matrices(numbers.size());
    std::vector<size_t> order;
    for (size_t i = 0; i < manifest.size(); ++i) {
      const NumberedLayers::Place& place = numbered.of[i];
      if (place.stack < 0 || kind_of(i)->size() < 2) continue;
      const size_t s = to_size(place.stack);
      if (numbers[s].empty()) order.push_back(s);
      numbers[s].insert(place.number);
      ++matrices[s];
    }
    std::erase_if(
        order, [&](size_t s) { return matrices[s] < 2 * numbers[s].size(); });
    for (const size_t s : order) {
      text_root = std::max(text_root, common_modules(prefix_of(s), embedding));
    }
    for (const size_t s : order) {
      TokenStack stack;
      stack.number = s;
      stack.decodes = has_component(prefix_of(s), "decoder");
      stack.encodes = has_component(prefix_of(s), "encoder");
      const bool beside_decoder =
          stack.encodes && has_component(embedding, "decoder");
      if (common_modules(prefix_of(s), embedding) == text_root ||
          beside_decoder) {
        model.stacks.push_back(std::move(stack));
      } else {
        towers = true;
      }
    }
    const int64_t layers = manifest.facts.layers.value_or(0);
    model.pair = model.stacks.size() == 2 &&
                 model.stacks[0].encodes != model.stacks[1].encodes &&
                 model.stacks[0].decodes != model.stacks[1].decodes;
    if (layers == 0 || model.stacks.empty() ||
        (model.stacks.size() > 1 && !model.pair)) {
      return refuse("its layers are not numbered consecutively");
    }
    for (TokenStack& stack : model.stacks) {
      const auto count = static_cast<int64_t>(numbers[stack.number].size());
      if (!model.pair && count < layers) {
        return refuse(plural(layers, "layer") + " share the weights of " +
                      std::to_string(count));
      }
      stack.encodes = model.pair && stack.encodes;
      stack.decodes = model.pair && stack.decodes;
    }
    if (model.pair) {
      text_root = common_modules(prefix_of(model.stacks[0].number),
                                 prefix_of(model.stacks[1].number));
    }
    // An encoder runs first, wherever a file has it.
    std::ranges::stable_sort(model.stacks, std::greater<>(),
                             &TokenStack::encodes);
    return true;
  }

  static bool has_component(std::string_view prefix, std::string_view word) {
    for (size_t at = prefix.find(word); at != std::string_view::npos;
         at = prefix.find(word, at + 1)) {
      const size_t end = at + word.size();
      const auto separates = [&](size_t i) {
        return prefix[i] == '.' || prefix[i] == '/';
      };
      if ((at == 0 || separates(at - 1)) &&
          (end == prefix.size() || separates(end))) {
        return true;
      }
    }
    return false;
  }

  Width width_of(const DimKind& dim, int64_t size, AxisNames axes) const {
    Width width;
    width.size = size;
    erase_if(axes,
             [&](const AxisName& axis) { return contains(gathered, axis); });
    width.axes = std::move(axes);
    if (dim.label.empty()) {
      for (const DimPart& part : dim.parts) {
        if (part.label.empty()) continue;
        width.labels.emplace_back(own_label(part.label),
                                  part.rows * std::max<int64_t>(dim.count, 1));
      }
      width.hidden = !dim.parts.empty() &&
                     std::ranges::all_of(dim.parts, [](const DimPart& part) {
                       return own_label(part.label) == kHiddenDim;
                     });
    } else {
      width.labels.emplace_back(own_label(dim.label), size);
      width.hidden = own_label(dim.label) == kHiddenDim && dim.count <= 1;
    }
    return width;
  }

  // Returns whether it is in a numbered module of experts within a layer.
  bool is_expert(size_t i) const {
    const NumberedLayers::Place& layer = numbered.of[i];
    if (layer.stack < 0 || !manifest.facts.experts) return false;
    const std::string_view part = manifest.name(i).substr(layer.end);
    return first_number(part).number >= 0 && contains(part, "expert");
  }

  TokenWeight weight_of(size_t i) const {
    const ParameterKind& kind = *kind_of(i);
    const TensorType& type = manifest.type(i);
    const Placement& placement = plan.of(i);
    TokenWeight weight;
    weight.name = manifest.name(i);
    weight.routed = is_expert(i);
    Int128 shards = 1;
    for (const AxisNames& axes : placement.spec.dims) {
      for (const AxisName& axis : axes) {
        if (contains(gathered, axis)) {
          weight.gathered = type.elements();
        } else {
          shards *= plan.mesh.size_of(axis);
        }
      }
    }
    weight.gathered = (weight.gathered + shards - 1) / shards;
    for (size_t d = 0; d < kind.size(); ++d) {
      const AxisNames axes =
          d < placement.spec.dims.size() ? placement.spec.dims[d] : AxisNames{};
      Width width = width_of(kind[d], type.shape[d], axes);
      if (own_label(kind[d].label) == kVocabDim) weight.vocab = true;
      if (kind.size() > 1 && own_label(kind[d].label) == kExpertsDim &&
          (kind.size() > 2 || d == 0) && kind[d].axis == kExpertsDim) {
        weight.routed = true;
        weight.expert_axes = width.axes;
        continue;
      }
      weight.is_norm = weight.is_norm || kind[d].axis == kNormAxis;
      weight.widths.push_back(std::move(width));
    }
    weight.embeds = kind.size() == 2 && contains(weight.name, "embed");
    return weight;
  }

  bool read_weights() {
    model.layer_of.assign(manifest.size(), -1);
    // By the module other than text that they are in: "model.visual".
    std::map<std::string, int64_t> others;
    for (size_t i = 0; i < manifest.size(); ++i) {
      const std::string_view name = manifest.name(i);
      const NumberedLayers::Place& at = numbered.of[i];
      const auto stack =
          std::ranges::find_if(model.stacks, [&](const TokenStack& each) {
            return static_cast<int64_t>(each.number) == at.stack;
          });
      TokenWeight weight = weight_of(i);
      if (weight.routed && !routes) {
        return refuse("the number of experts per token is unknown");
      }
      if (stack != model.stacks.end()) {
        model.layer_of[i] = at.number;
        stack->layers[at.number].push_back(std::move(weight));
      } else if (const size_t common = common_modules(name, embedding);
                 towers && !weight.vocab && common < text_root) {
        ++others[std::string(name.substr(0, name.find_first_of("./", common)))];
      } else {
        model.outside.push_back(std::move(weight));
      }
      model.holds_scores =
          model.holds_scores || contains(name, "relative_attention_bias") ||
          contains(name, "rel_embeddings") || contains(name, "pos_key_proj");
    }
    for (const auto& [module, count] : others) {
      model.left_out.push_back(plural(count, "parameter") + " of `" + module +
                               "`");
    }
    return find_hidden() && check_shared();
  }

  // Finds the width of the residual stream: the size that most weights label
  // so.
  bool find_hidden() {
    std::map<int64_t, int64_t> votes;
    for (const TokenStack& stack : model.stacks) {
      for (const auto& [number, weights] : stack.layers) {
        for (const TokenWeight& weight : weights) {
          if (weight.widths.size() < 2) continue;
          for (const Width& width : weight.widths) {
            if (width.hidden) ++votes[width.size];
          }
        }
      }
    }
    if (votes.empty()) {
      return refuse("no weight has the hidden size as input or output");
    }
    const auto most = std::ranges::max_element(
        votes, {}, [](const auto& vote) { return vote.second; });
    model.hidden = most->first;
    return true;
  }

  // Refuses layers that cache keys and values but have no weight that computes
  // them: they use those of another layer.
  bool check_shared() {
    const LayerStates& state = manifest.facts.state;
    if (state.layers.empty()) return true;
    for (const TokenStack& stack : model.stacks) {
      if (stack.encodes) continue;
      for (const auto& [number, weights] : stack.layers) {
        if (number >= static_cast<int64_t>(state.layers.size())) break;
        const LayerState& layer = state.kinds[nth(state.layers, number)];
        const bool caches =
            std::ranges::any_of(layer.cached, [](const CachedTensor& cached) {
              return cached.per == CachedTensor::Per::Token && cached.heads > 0;
            });
        const auto is_of_heads = [](const Width& width) {
          return std::ranges::any_of(width.labels, [](const auto& label) {
            return label.first == kKvHeadsDim || label.first == kHeadsDim;
          });
        };
        const auto has_heads = [&](const TokenWeight& weight) {
          return std::ranges::any_of(weight.widths, is_of_heads);
        };
        if (caches && std::ranges::none_of(weights, has_heads)) {
          return refuse(
              "layer " + std::to_string(number) +
              " computes keys and values with another layer's weights");
        }
      }
    }
    return true;
  }
};

}  // namespace

TokenWeights token_weights(const Manifest& manifest, const Plan& plan,
                           const AxisNames& gathered, bool routes) {
  return TokenReader{manifest, plan, gathered, routes}.read();
}

}  // namespace shardplan
