// SPDX-License-Identifier: Apache-2.0
#include "model/generation_state.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/checked.h"
#include "base/words.h"
#include "core/fold.h"
#include "model/architecture/scope.h"

namespace shardplan {
namespace {

// Steps visited for layers that differ from one another.
constexpr int64_t kMaxStateSteps = 1'000'000;

// Returns whether steps declare `keeps: nothing` for every config, in which
// case their other declarations are ignored: vision towers, layers that predict
// further tokens.
bool declares_no_state(const std::vector<StateStep>& state_steps) {
  return std::ranges::any_of(state_steps, [](const StateStep& one) {
    return one.kind == StateStep::Kind::Nothing && !one.when;
  });
}

// Finds the steps that declare state, in `steps` and in the blocks and parts
// they use; each block once.
class StateSearch {
 public:
  void steps(const Architecture& all, const std::vector<ModuleStep>& list,
             const std::vector<StateStep>& state_steps) {
    if (declares_no_state(state_steps)) return;
    if (depth_ > kMaxBlockDepth) return;  // rejected when used
    for (const StateStep& one : state_steps) found.push_back(&one);
    for (const ModuleStep& one : list) {
      if (one.kind == ModuleStep::Kind::Block) block(all, one.what);
      if (const ConfigSection* const section =
              one.kind == ModuleStep::Kind::Section ? all.find_section(one.what)
                                                    : nullptr) {
        block(*section->architecture, one.part);
        for (const auto& other : section->others) block(*other, one.part);
      }
      steps(all, one.steps, one.state_steps);
      for (const ModuleCase& each : one.cases) {
        steps(all, each.steps, each.state_steps);
      }
    }
  }

  std::vector<const StateStep*> found;

 private:
  void block(const Architecture& all, std::string_view name) {
    const auto block = all.blocks.find(name);
    if (block == all.blocks.end() || contains(seen_, &block->second)) return;
    seen_.push_back(&block->second);
    ++depth_;
    steps(all, block->second.steps, block->second.state_steps);
    --depth_;
  }

  std::vector<const ModuleBlock*> seen_;
  int depth_ = 0;
};

// Returns a key that distinguishes the states of layers.
std::string state_key(const LayerState& state) {
  std::string key = state.known ? "" : "?";
  for (const CachedTensor& each : state.cached) {
    for (const std::string* text : {&each.name, &each.label, &each.module}) {
      key += std::to_string(text->size()) + ":" + *text;
    }
    const int64_t dtype = each.dtype ? static_cast<int64_t>(*each.dtype) : -1;
    for (const int64_t number :
         {static_cast<int64_t>(each.per), each.heads, each.width, each.columns,
          each.tokens, each.every, dtype}) {
      key += std::to_string(number) + ",";
    }
  }
  return key;
}

class StateWalk {
 public:
  StateWalk(const std::vector<int64_t>& windows, DType dtype)
      : windows_(windows), dtype_(dtype) {}

  std::optional<LayerStates> run(ConfigValues& values,
                                 const ArchitectureClass& model_class) {
    if (!steps(model_class.steps, model_class.state_steps, {&values, false, {}},
               "")) {
      return std::nullopt;
    }
    return std::move(state_);
  }

 private:
  // The layer that is being visited.
  struct Layer {
    int64_t index = 0;
    bool nothing = false;
    LayerState state;
  };

  bool steps(const std::vector<ModuleStep>& list,
             const std::vector<StateStep>& state_steps, const ValueScope& scope,
             const std::string& prefix) {
    // A part beside the layers, including the parts that it repeats.
    if (layer_ == nullptr && declares_no_state(state_steps)) return true;
    for (const StateStep& one : state_steps) {
      if (++steps_ > kMaxStateSteps) return false;
      const auto used = scope.flag(one.when);
      if (!used || (*used && !add_state(one, scope, prefix))) return false;
    }
    for (const ModuleStep& one : list) {
      if (!may_declare(one, scope.values->architecture())) continue;
      if (++steps_ > kMaxStateSteps) return false;
      const auto used = scope.flag(one.when);
      if (!used || (*used && !step(one, scope, prefix))) return false;
    }
    return true;
  }

  // Returns whether the step may contain a declaration of state.
  bool may_declare(const ModuleStep& one, const Architecture& all) {
    switch (one.kind) {
      case ModuleStep::Kind::Section:
        return true;  // the config may choose the part
      case ModuleStep::Kind::Block:
      case ModuleStep::Kind::Repeat:
      case ModuleStep::Kind::Switch:
        break;
      default:
        return false;
    }
    const auto [known, is_new] = may_declare_.try_emplace(&one, false);
    if (!is_new) return known->second;
    if (search_depth_ > kMaxBlockDepth) return true;  // the walk then fails
    bool good = false;
    if (one.kind == ModuleStep::Kind::Block) {
      const auto found = all.blocks.find(one.what);
      ++search_depth_;
      good =
          found != all.blocks.end() &&
          any_may_declare(found->second.steps, found->second.state_steps, all);
      --search_depth_;
    } else {
      good = any_may_declare(one.steps, one.state_steps, all);
      for (const ModuleCase& each : one.cases) {
        good = any_may_declare(each.steps, each.state_steps, all) || good;
      }
    }
    return may_declare_[&one] = good;
  }
  bool any_may_declare(const std::vector<ModuleStep>& list,
                       const std::vector<StateStep>& state_steps,
                       const Architecture& all) {
    return !state_steps.empty() ||
           std::ranges::any_of(list, [&](const ModuleStep& one) {
             return may_declare(one, all);
           });
  }

  bool step(const ModuleStep& one, const ValueScope& scope,
            const std::string& prefix) {
    switch (one.kind) {
      case ModuleStep::Kind::Block: {
        const auto& block =
            scope.values->architecture().blocks.find(one.what)->second;
        const auto inner =
            scope.within(block.takes, block.shared, one.arguments);
        return inner && enter(block, *inner, joined_name(prefix, one.name));
      }
      case ModuleStep::Kind::Section:
        return section(one, scope, prefix);
      case ModuleStep::Kind::Repeat:
        return repeat(one, scope, prefix);
      case ModuleStep::Kind::Switch:
        for (const ModuleCase& each : one.cases) {
          const auto chosen = scope.flag(each.when);
          if (!chosen) return false;
          if (*chosen)
            return steps(each.steps, each.state_steps, scope, prefix);
        }
        return true;
      default:
        return true;
    }
  }

  bool section(const ModuleStep& one, const ValueScope& scope,
               const std::string& prefix) {
    ConfigValues* const values = scope.values->section(one.what);
    if (values == nullptr) return false;
    const Architecture& all = values->architecture();
    const auto found = all.blocks.find(one.part);
    if (found == all.blocks.end()) return false;
    const ModuleBlock& block = found->second;
    return !any_may_declare(block.steps, block.state_steps, all) ||
           enter(block, {values, false, {}}, joined_name(prefix, one.name));
  }

  bool enter(const ModuleBlock& block, const ValueScope& scope,
             const std::string& prefix) {
    const bool good = ++depth_ <= kMaxBlockDepth &&
                      steps(block.steps, block.state_steps, scope, prefix);
    --depth_;
    return good;
  }

  // Collects the varying expressions that a layer's state depends on, except
  // those of its name.
  void collect(const std::vector<ModuleStep>& list,
               const std::vector<StateStep>& state_steps,
               const ValueScope& scope, const std::string& index,
               std::vector<const Expression*>& found) {
    const auto add = [&](const Expression& expression) {
      if (scope.varies(expression, index)) found.push_back(&expression);
    };
    const auto add_dim = [&](const auto& self, const DimTree& dim) -> void {
      if (dim.parts.empty()) add(dim.size);
      if (dim.per) add(*dim.per);
      for (const auto& [name, part] : dim.parts) self(self, part);
    };
    for (const StateStep& one : state_steps) {
      for (const auto* each :
           {&one.when, &one.window, &one.every, &one.tokens}) {
        if (*each) add(**each);
      }
      for (const DimTree& dim : one.dims) add_dim(add_dim, dim);
    }
    for (const ModuleStep& one : list) {
      if (!may_declare(one, scope.values->architecture())) continue;
      for (const auto* each : {&one.when, &one.count, &one.start}) {
        if (*each) add(**each);
      }
      for (const auto& [name, expression] : one.arguments) add(expression);
      collect(one.steps, one.state_steps, scope, index, found);
      for (const ModuleCase& each : one.cases) {
        if (each.when) add(*each.when);
        collect(each.steps, each.state_steps, scope, index, found);
      }
    }
  }

  // Visits repeated layers or, within a layer, its repeated parts.
  bool repeat(const ModuleStep& one, const ValueScope& scope,
              const std::string& prefix) {
    if (layer_ == nullptr && declares_no_state(one.state_steps)) return true;
    const auto count = scope.integer(*one.count, 0, kMaxCount);
    const auto start =
        one.start ? scope.integer(*one.start, 0, kMaxCount) : int64_t{0};
    if (!count || !start) return false;
    std::vector<const Expression*> varying;
    collect(one.steps, one.state_steps, scope, one.index, varying);
    ValueScope inner = scope;
    inner.own.emplace_back(one.index, ConfigValue());
    std::unordered_map<std::string, uint32_t> known;
    for (int64_t i = *start; i < *start + *count; ++i) {
      inner.own.back().second = ConfigValue::of(i);
      const std::string name =
          joined_name(prefix, numbered_name(one.name, one.index, i));
      if (layer_ != nullptr) {
        if (!steps(one.steps, one.state_steps, inner, name)) return false;
        continue;
      }
      std::string key = std::to_string(window(i)) + ";";
      if (!inner.append_values(varying, i, key)) return false;
      const auto [place, is_new] = known.try_emplace(key, 0);
      if (is_new) {
        Layer layer{i, false, {}};
        layer_ = &layer;
        const bool good = steps(one.steps, one.state_steps, inner, name);
        layer_ = nullptr;
        if (!good) return false;
        // The state of a layer without any declaration is unknown.
        if (layer.nothing || layer.state.cached.empty() || !layer.state.known) {
          layer.state = {layer.nothing, {}};
        }
        place->second = number_of(std::move(layer.state));
      }
      if (state_.layers.size() == kMaxStateLayers) return false;
      state_.layers.push_back(place->second);
    }
    return true;
  }

  uint32_t number_of(LayerState state) {
    const auto [entry, is_new] = numbers_.try_emplace(
        state_key(state), static_cast<uint32_t>(state_.kinds.size()));
    if (is_new) state_.kinds.push_back(std::move(state));
    return entry->second;
  }

  // Returns the window of the layer with that index.
  int64_t window(int64_t index) const {
    if (windows_.empty()) return 0;
    return index < std::ssize(windows_) ? nth(windows_, index) : kUnknownWindow;
  }

  bool add_state(const StateStep& one, const ValueScope& scope,
                 const std::string& prefix) {
    if (layer_ == nullptr) return false;  // the step is outside any layer
    if (one.kind == StateStep::Kind::Nothing) {
      layer_->nothing = true;
      return true;
    }
    CachedTensor tensor;
    tensor.name = one.name;
    tensor.module = folded_name(prefix);
    if (one.kind == StateStep::Kind::State) {
      return add_sequence_state(one, scope, std::move(tensor));
    }
    if (one.source) {
      tensor.per = CachedTensor::Per::Source;
      if (one.tokens) {
        const auto tokens = scope.integer(*one.tokens, 1, kMaxDim);
        if (!tokens) return false;
        tensor.tokens = *tokens;
      }
    } else if (one.every) {
      const auto every = scope.integer(*one.every, 1, kMaxDim);
      if (!every) return false;
      tensor.every = *every;
    } else {
      const auto tokens =
          one.window ? scope.integer(*one.window, kUnknownWindow, kMaxDim)
                     : window(layer_->index);
      if (!tokens) return false;
      if (*tokens < 0) layer_->state.known = false;
      tensor.tokens = *tokens;
    }
    const auto size = scope.size(one.dims.front());
    const auto kind = size ? scope.kind(one.dims.front()) : std::nullopt;
    if (!kind) return false;
    const bool shared_out = kind->count > 0 && *size % kind->count == 0;
    tensor.heads = shared_out ? kind->count : 0;
    tensor.width = shared_out ? *size / kind->count : *size;
    if (shared_out) tensor.label = kind->label;
    return put(std::move(tensor));
  }

  bool put(CachedTensor tensor) {
    layer_->state.cached.push_back(std::move(tensor));
    return layer_->state.cached.size() <= kMaxCachedTensors;
  }

  // Adds one tensor per part of the first dimension, since the parts are
  // sharded separately: channels and groups of a convolution.
  bool add_sequence_state(const StateStep& one, const ValueScope& scope,
                          CachedTensor tensor) {
    tensor.per = CachedTensor::Per::Sequence;
    tensor.dtype = one.dtype.value_or(dtype_);
    int64_t rest = 1;
    for (size_t i = 1; i < one.dims.size(); ++i) {
      const auto size = scope.size(one.dims[i]);
      const auto product = size ? checked_mul(rest, *size) : std::nullopt;
      if (!product) return false;
      rest = *product;
    }
    const auto size = scope.size(one.dims.front());
    const auto kind = size ? scope.kind(one.dims.front()) : std::nullopt;
    if (!kind) return false;
    tensor.columns = rest;
    std::vector<DimPart> parts = kind->parts;
    if (kind->count > 0 || parts.empty()) {
      parts = {{"", kind->label, *size, kind->count}};
    }
    for (const DimPart& part : parts) {
      tensor.heads = part.count > 0 && part.rows % part.count == 0 ? part.count
                     : part.count == 0 && !part.label.empty()      ? part.rows
                                                                   : 0;
      const auto width = checked_mul(
          tensor.heads > 0 ? part.rows / tensor.heads : part.rows, rest);
      if (!width) return false;
      tensor.width = *width;
      tensor.label = tensor.heads > 0 ? part.label : "";
      if (!put(tensor)) return false;
    }
    return true;
  }

  const std::vector<int64_t>& windows_;
  DType dtype_;
  LayerStates state_;
  std::map<std::string, uint32_t> numbers_;
  std::unordered_map<const ModuleStep*, bool> may_declare_;
  Layer* layer_ = nullptr;
  int64_t steps_ = 0;
  int depth_ = 0;
  int search_depth_ = 0;
};

}  // namespace

bool declares_state(const Architecture& architecture,
                    const ArchitectureClass& model_class) {
  StateSearch search;
  search.steps(architecture, model_class.steps, model_class.state_steps);
  return !search.found.empty();
}

std::vector<std::string> state_names(const Architecture& architecture,
                                     const ArchitectureClass& model_class) {
  StateSearch search;
  search.steps(architecture, model_class.steps, model_class.state_steps);
  std::vector<std::string> names;
  for (const StateStep* step : search.found) {
    if (step->kind != StateStep::Kind::Nothing &&
        !contains(names, step->name)) {
      names.push_back(step->name);
    }
  }
  return names;
}

std::optional<LayerStates> generation_state(
    ConfigValues& values, const ArchitectureClass& model_class,
    const std::vector<int64_t>& windows, DType dtype) {
  return StateWalk(windows, dtype).run(values, model_class);
}

}  // namespace shardplan
