// SPDX-License-Identifier: Apache-2.0
#include "activations/token_weights.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "base/words.h"
#include "core/fold.h"

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

class TokenReader {
 public:
  TokenReader(const Manifest& manifest, const Plan& plan,
              const AxisNames& gathered, bool routes)
      : manifest_(manifest),
        plan_(plan),
        gathered_(gathered),
        routes_(routes) {}

  TokenWeights read() {
    if (find_embedding() && find_stacks() && read_weights()) {
      return std::move(model_);
    }
    TokenWeights nothing;
    nothing.unknown = std::move(model_.unknown);
    return nothing;
  }

 private:
  bool refuse(std::string why) {
    model_.unknown = std::move(why);
    return false;
  }

  const ParameterKind* kind_of(size_t i) const {
    const auto found = manifest_.kinds->find(
        {folded_name(manifest_.name(i)), manifest_.type(i).shape});
    return found == manifest_.kinds->end() ? nullptr : &found->second;
  }

  // Checks that every parameter is explained and stored as it is computed with,
  // and finds one that has a row for every token of a vocabulary.
  bool find_embedding() {
    if (manifest_.kinds == nullptr || manifest_.kinds->empty()) {
      return refuse("the parameters match no known architecture");
    }
    for (size_t i = 0; i < manifest_.size(); ++i) {
      const TensorType& type = manifest_.type(i);
      const DType dtype = type.dtype;
      const std::string name(manifest_.name(i));
      const bool wide = dtype == DType::F64 || dtype == DType::F32 ||
                        dtype == DType::F16 || dtype == DType::BF16;
      if (type.shape.size() > 1 && !wide) {
        return refuse("`" + name + "` is stored quantised, as " +
                      type_text(type));
      }
      const ParameterKind* kind = kind_of(i);
      if (kind == nullptr)
        return refuse("the role of `" + name + "` is unknown");
      if (embedding_.empty() && kind->size() == 2 &&
          has_label(*kind, kVocabDim)) {
        embedding_ = name;
      }
    }
    return embedding_.empty() ? refuse("no part of the model reads tokens")
                              : true;
  }

  static bool has_label(const ParameterKind& kind, std::string_view label) {
    return std::any_of(kind.begin(), kind.end(), [&](const DimKind& dim) {
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
    return numbered_.stacks[stack].prefix;
  }

  // Finds layers of text: the numbered modules nearest to the embedding, and
  // the encoder of a decoder. Other numbered modules are towers.
  bool find_stacks() {
    numbered_ = numbered_layers(manifest_);
    std::vector<std::set<int64_t>> numbers(numbered_.stacks.size());
    std::vector<size_t> matrices(numbers.size());
    std::vector<size_t> order;
    for (size_t i = 0; i < manifest_.size(); ++i) {
      const NumberedLayers::Place& place = numbered_.of[i];
      if (place.stack < 0 || kind_of(i)->size() < 2) continue;
      const auto s = static_cast<size_t>(place.stack);
      if (numbers[s].empty()) order.push_back(s);
      numbers[s].insert(place.number);
      ++matrices[s];
    }
    std::erase_if(
        order, [&](size_t s) { return matrices[s] < 2 * numbers[s].size(); });
    for (const size_t s : order) {
      text_root_ =
          std::max(text_root_, common_modules(prefix_of(s), embedding_));
    }
    for (const size_t s : order) {
      TokenStack stack;
      stack.number = s;
      stack.decodes = has_component(prefix_of(s), "decoder");
      stack.encodes = has_component(prefix_of(s), "encoder");
      const bool beside_decoder =
          stack.encodes && has_component(embedding_, "decoder");
      if (common_modules(prefix_of(s), embedding_) == text_root_ ||
          beside_decoder) {
        model_.stacks.push_back(std::move(stack));
      } else {
        towers_ = true;
      }
    }
    const int64_t layers = manifest_.facts.layers.value_or(0);
    model_.pair = model_.stacks.size() == 2 &&
                  model_.stacks[0].encodes != model_.stacks[1].encodes &&
                  model_.stacks[0].decodes != model_.stacks[1].decodes;
    if (layers == 0 || model_.stacks.empty() ||
        (model_.stacks.size() > 1 && !model_.pair)) {
      return refuse("its layers are not numbered consecutively");
    }
    for (TokenStack& stack : model_.stacks) {
      const auto count = static_cast<int64_t>(numbers[stack.number].size());
      if (!model_.pair && count < layers) {
        return refuse(plural(layers, "layer") + " share the weights of " +
                      std::to_string(count));
      }
      stack.encodes = model_.pair && stack.encodes;
      stack.decodes = model_.pair && stack.decodes;
    }
    if (model_.pair)
      text_root_ = common_modules(prefix_of(model_.stacks[0].number),
                                  prefix_of(model_.stacks[1].number));
    // An encoder runs first, wherever a file has it.
    std::stable_sort(model_.stacks.begin(), model_.stacks.end(),
                     [](const TokenStack& a, const TokenStack& b) {
                       return a.encodes > b.encodes;
                     });
    return true;
  }

  // Returns the module other than text that a name is in: "model.visual".
  std::string tower_of(std::string_view name) const {
    const size_t common = common_modules(name, embedding_);
    return std::string(name.substr(0, name.find_first_of("./", common)));
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
    for (AxisName& axis : axes) {
      if (!contains(gathered_, axis)) {
        width.axes.push_back(std::move(axis));
      }
    }
    const int64_t groups = dim.count > 0 ? dim.count : 1;
    if (dim.label.empty()) {
      for (const DimPart& part : dim.parts) {
        if (part.label.empty()) continue;
        width.labels.emplace_back(own_label(part.label), part.rows * groups);
      }
      width.hidden = !dim.parts.empty() &&
                     std::all_of(dim.parts.begin(), dim.parts.end(),
                                 [](const DimPart& part) {
                                   return own_label(part.label) == kHiddenDim;
                                 });
    } else {
      width.labels.emplace_back(own_label(dim.label), size);
      width.hidden = own_label(dim.label) == kHiddenDim && dim.count <= 1;
    }
    return width;
  }

  static bool has_relative_positions(std::string_view name) {
    return contains_word(name, "relative_attention_bias") ||
           contains_word(name, "rel_embeddings") ||
           contains_word(name, "pos_key_proj");
  }

  // Returns whether it is in a numbered module of experts within a layer.
  bool is_expert(size_t i) const {
    const NumberedLayers::Place& layer = numbered_.of[i];
    if (layer.stack < 0 || !manifest_.facts.experts) return false;
    return first_number(manifest_.name(i).substr(layer.end)).number >= 0 &&
           contains_word(manifest_.name(i).substr(layer.end), "expert");
  }
  static bool contains_word(std::string_view text, std::string_view word) {
    return text.find(word) != std::string_view::npos;
  }

  TokenWeight weight_of(size_t i) const {
    const ParameterKind& kind = *kind_of(i);
    const TensorType& type = manifest_.type(i);
    const Placement& placement = plan_.of(i);
    TokenWeight weight;
    weight.name = manifest_.name(i);
    weight.routed = is_expert(i);
    Int128 shards = 1;
    for (const AxisNames& axes : placement.spec.dims) {
      for (const AxisName& axis : axes) {
        if (contains(gathered_, axis)) {
          weight.gathered = type.elements();
        } else {
          shards *= plan_.mesh.size_of(axis);
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
    weight.embeds = kind.size() == 2 && contains_word(weight.name, "embed");
    return weight;
  }

  bool read_weights() {
    model_.layer_of.assign(manifest_.size(), -1);
    std::map<std::string, int64_t> others;
    for (size_t i = 0; i < manifest_.size(); ++i) {
      const std::string_view name = manifest_.name(i);
      const NumberedLayers::Place& at = numbered_.of[i];
      const auto stack = std::find_if(
          model_.stacks.begin(), model_.stacks.end(), [&](const TokenStack& s) {
            return static_cast<int64_t>(s.number) == at.stack;
          });
      TokenWeight weight = weight_of(i);
      if (weight.routed && !routes_) {
        return refuse("the number of experts per token is unknown");
      }
      if (stack != model_.stacks.end()) {
        model_.layer_of[i] = at.number;
        stack->layers[at.number].push_back(std::move(weight));
      } else if (towers_ && !weight.vocab &&
                 common_modules(name, embedding_) < text_root_) {
        ++others[tower_of(name)];
      } else {
        model_.outside.push_back(std::move(weight));
      }
      model_.holds_scores = model_.holds_scores || has_relative_positions(name);
    }
    for (const auto& [module, count] : others) {
      model_.left_out.push_back(plural(count, "parameter") + " of `" + module +
                                "`");
    }
    return find_hidden() && check_shared();
  }

  // Finds the width of the residual stream: the size that most weights label
  // so.
  bool find_hidden() {
    std::map<int64_t, int64_t> votes;
    for (const TokenStack& stack : model_.stacks) {
      for (const auto& [number, weights] : stack.layers) {
        for (const TokenWeight& weight : weights) {
          if (weight.widths.size() < 2) continue;
          for (const Width& width : weight.widths) {
            if (width.hidden) ++votes[width.size];
          }
        }
      }
    }
    int64_t most = 0;
    for (const auto& [size, count] : votes) {
      if (count > most) {
        most = count;
        model_.hidden = size;
      }
    }
    if (most == 0)
      return refuse("no weight has the hidden size as input or output");
    return true;
  }

  // Refuses layers that cache keys and values but have no weight that computes
  // them: they use those of another layer.
  bool check_shared() {
    const LayerStates& state = manifest_.facts.state;
    if (state.layers.empty()) return true;
    for (const TokenStack& stack : model_.stacks) {
      if (stack.encodes) continue;
      for (const auto& [number, weights] : stack.layers) {
        if (number >= static_cast<int64_t>(state.layers.size())) break;
        const LayerState& layer =
            state.kinds[state.layers[static_cast<size_t>(number)]];
        const bool keeps = std::any_of(
            layer.cached.begin(), layer.cached.end(),
            [](const CachedTensor& cached) {
              return cached.per == CachedTensor::Per::Token && cached.heads > 0;
            });
        const bool has = std::any_of(
            weights.begin(), weights.end(), [](const TokenWeight& weight) {
              return std::any_of(weight.widths.begin(), weight.widths.end(),
                                 [](const Width& width) {
                                   return std::any_of(
                                       width.labels.begin(), width.labels.end(),
                                       [](const auto& label) {
                                         return label.first == kKvHeadsDim ||
                                                label.first == kHeadsDim;
                                       });
                                 });
            });
        if (keeps && !has) {
          return refuse(
              "layer " + std::to_string(number) +
              " computes keys and values with another layer's weights");
        }
      }
    }
    return true;
  }

  const Manifest& manifest_;
  const Plan& plan_;
  const AxisNames& gathered_;
  bool routes_;
  TokenWeights model_;
  std::string embedding_;  // the parameter with a row per token
  size_t text_root_ = 0;   // length of its name up to the modules of text
  bool towers_ = false;
  NumberedLayers numbered_;
};

}  // namespace

TokenWeights token_weights(const Manifest& manifest, const Plan& plan,
                           const AxisNames& gathered, bool routes) {
  return TokenReader(manifest, plan, gathered, routes).read();
}

}  // namespace shardplan
