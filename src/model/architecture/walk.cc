// SPDX-License-Identifier: Apache-2.0
#include "model/architecture/walk.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "core/fold.h"
#include "model/architecture/axis_labels.h"
#include "model/architecture/scope.h"
#include "model/naming/lora_targets.h"

namespace shardplan {
namespace {

// Maximum number of steps, including those of blocks.
constexpr int64_t kMaxSteps = 1'000'000;
// Maximum number of tensors of different layers that are in memory at once.
constexpr int64_t kMaxDifferent = 2'000'000;

// The additional first dimensions of the tensors in a stacked repetition.
struct Stack {
  Shape sizes;
  ParameterKind kinds;
};

class Walk {
 public:
  Walk(ConfigValues& values, DType dtype, const Quantisation& quantisation,
       const Lora* lora, Manifest* manifest, TensorSteps* written)
      : config_(values.config()),
        dtype_(dtype),
        quantisation_(quantisation),
        manifest_(manifest),
        steps_of_(written) {
    if (lora == nullptr) return;
    const auto type = config_.find("model_type");
    lora_.emplace(*lora, type ? type->text() : "");
  }

  ExplainedTensors& explained() { return explained_; }
  std::vector<std::string>& remarks() { return remarks_; }

  bool run(ConfigValues& values, const ArchitectureClass& model_class) {
    whole_ = &values;
    const auto& names = values.architecture().module_names;
    const auto found = names.find(model_class.class_name);
    if (found != names.end()) module_names_ = found->second;
    if (!steps(model_class.steps, {&values, false, {}}, "", {}) ||
        !check_layers(quantisation_, layers_, dtype_, remarks_) ||
        !check_adapted()) {
      return false;
    }
    for (const ConfigSection& part : values.architecture().sections) {
      const auto part_map = config_.find(part.key);
      if (!part_map || !part_map->is_map() || used_parts_.contains(part.key))
        continue;
      remarks_.push_back(config_.shown(part.key) + " is left out: " +
                         in_backticks(model_class.class_name) +
                         " does not have that part");
    }
    return true;
  }

 private:
  using Tensors = std::vector<CheckpointTensor>;

  bool add(CheckpointTensor tensor) {
    if (into_ != nullptr) {
      into_->push_back(std::move(tensor));
      return within(std::ssize(*into_));
    }
    if (tensor.only_explained) return record_kind(tensor.name, tensor);
    return within(++written_) && put(tensor.name, tensor) &&
           record_kind(tensor.name, tensor);
  }

  bool within(int64_t tensors) {
    if (tensors <= kMaxTensors) return true;
    config_.refuse("", "the model has too many tensors")
        .fact("the limit is " + count_text(kMaxTensors));
    return false;
  }

  // Returns the name with the common prefix of all names in an adapted model.
  // The result may refer to `own`.
  std::string_view full_name(std::string_view name, std::string& own) const {
    if (!lora_) return name;
    own = std::string(kLoraPrefix).append(name);
    return own;
  }

  bool put(std::string_view own_name, const CheckpointTensor& tensor) {
    if (manifest_ == nullptr) return true;
    std::string own;
    const std::string_view name = full_name(own_name, own);
    const TensorType& type = tensor.type;
    if (manifest_->add(name, type, Span{}, tensor.buffer)) {
      if (steps_of_ != nullptr) {
        (tensor.buffer ? steps_of_->buffers : steps_of_->parameters)
            .push_back(tensor.step);
      }
      return true;
    }
    config_.refuse("", "the model's size exceeds 63 bits")
        .fact("at " + in_backticks(name) + ", " + type_text(type));
    return false;
  }

  bool record_kind(std::string_view name, const CheckpointTensor& tensor) {
    if (tensor.buffer && manifest_ != nullptr) return true;
    std::string own;
    std::pair key(folded_name(full_name(name, own)), tensor.type.shape);
    if (tensor.buffer) {
      explained_.buffers.insert(std::move(key));
      return true;
    }
    const auto [entry, is_new] =
        explained_.kinds.try_emplace(std::move(key), tensor.kind);
    // If layers differ, the largest block applies to all of them.
    for (size_t i = 0; !is_new && i < tensor.kind.size(); ++i) {
      int64_t& block = entry->second[i].block;
      block = std::max(block, tensor.kind[i].block);
    }
    return true;
  }

  bool steps(const std::vector<ModuleStep>& list, const ValueScope& scope,
             const std::string& prefix, const Stack& stack) {
    for (const ModuleStep& one : list) {
      if (++steps_ > kMaxSteps) {
        config_.refuse("", "the architecture has too many steps");
        return false;
      }
      const auto used = scope.flag(one.when);
      if (!used || (*used && !step(one, scope, prefix, stack))) return false;
    }
    return true;
  }

  bool step(const ModuleStep& one, const ValueScope& scope,
            const std::string& prefix, const Stack& stack) {
    switch (one.kind) {
      case ModuleStep::Kind::Block:
        return block(one, scope, prefix, stack);
      case ModuleStep::Kind::Section:
        return section(one, scope, prefix, stack);
      case ModuleStep::Kind::Repeat:
        return one.stacked ? stacked(one, scope, prefix, stack)
                           : repeat(one, scope, prefix, stack);
      case ModuleStep::Kind::Switch:
        for (const ModuleCase& each : one.cases) {
          const auto chosen = scope.flag(each.when);
          if (!chosen) return false;
          if (*chosen) return steps(each.steps, scope, prefix, stack);
        }
        return true;
      default:
        return module(one, scope, joined_name(prefix, one.name), stack);
    }
  }

  bool module(const ModuleStep& one, const ValueScope& scope,
              const std::string& name, const Stack& stack) {
    Shape shape;
    ParameterKind kinds;
    for (const DimTree& dim : one.dims) {
      const auto found = scope.size(dim);
      auto found_kind = found ? scope.kind(dim) : std::nullopt;
      if (!found_kind) return false;
      shape.push_back(*found);
      kinds.push_back(*std::move(found_kind));
    }
    const DType dtype = one.dtype.value_or(dtype_);
    const bool is_norm_with_bias = one.kind == ModuleStep::Kind::LayerNorm;
    const auto biased = scope.flag(one.bias, is_norm_with_bias);
    if (!biased) return false;
    const auto tensor = [&](const std::string& suffix, const Shape& rest,
                            const ParameterKind& rest_kinds) {
      CheckpointTensor result{
          name + suffix, {dtype, stack.sizes}, stack.kinds, one.kind};
      Shape& all = result.type.shape;
      all.insert(all.end(), rest.begin(), rest.end());
      result.kind.insert(result.kind.end(), rest_kinds.begin(),
                         rest_kinds.end());
      return result;
    };
    if (lora_) note_module(one, name);
    switch (one.kind) {
      case ModuleStep::Kind::Parameter:
      case ModuleStep::Kind::Buffer: {
        label_parameter(one, kinds);
        CheckpointTensor whole = tensor("", shape, kinds);
        whole.buffer = one.kind == ModuleStep::Kind::Buffer;
        return add(std::move(whole));
      }
      case ModuleStep::Kind::Linear:
      case ModuleStep::Kind::Embedding: {
        DimKind bias_kind = kinds[0];
        label_weight(one, kinds[0], kinds[1], bias_kind);
        LinearPlace place = place_;
        place.path = joined_name(around_, name);
        place.in_memory = name_in_memory(module_names_, place.path);
        place.renames = &module_names_;
        place.role = one.role;
        place.embedding = one.kind == ModuleStep::Kind::Embedding;
        place.bias = *biased;
        LinearWeight linear{name,     one.weight_name, stack.sizes,
                            shape[0], shape[1],        one.inputs_first,
                            dtype,    stack.kinds,     kinds[0],
                            kinds[1]};
        const bool adapted = is_adapted(place, linear);
        if (adapted) linear.name += ".base_layer";
        const std::string& base = linear.name;
        const int64_t compared = quantisation_.compared();
        const auto scheme = scheme_of(quantisation_, place, linear, layers_);
        const int64_t patterns = quantisation_.compared() - compared;
        Work& work = scope.values->work();
        if (!work.spend(std::ssize(quantisation_.groups) + patterns)) {
          scope.values->refuse_spent_work();
          return false;
        }
        if (lora_ && scheme.value_or(nullptr) != nullptr &&
            is_of_expert(place, linear)) {
          lora_->meet_packed_expert({LoraSite::Kind::Expert, place.path, ""});
        }
        const auto tensors =
            scheme ? store_weight(linear, *scheme, place, quantisation_)
                   : std::nullopt;
        if (!tensors) return false;
        for (CheckpointTensor each : *tensors) {
          each.step = one.kind;
          if (!add(std::move(each))) return false;
        }
        const bool explained = *scheme != nullptr && (*scheme)->may_have_bias;
        if (*biased || explained) {
          CheckpointTensor bias =
              tensor(one.bias_name, {shape[0]}, {bias_kind});
          bias.name = base + one.bias_name;
          bias.only_explained = !*biased;
          bias.type.dtype = bias_dtype(*scheme).value_or(dtype);
          if (!add(std::move(bias))) return false;
        }
        return !adapted ||
               adapters(name, lora_->lora().rank,
                        {shape[0], shape[1], kinds[0], kinds[1]}, one.kind);
      }
      default:
        label_vector(one, kinds[0]);
        return add(tensor(one.weight_name, shape, kinds)) &&
               (!*biased || add(tensor(one.bias_name, {shape[0]}, {kinds[0]})));
    }
  }

  // Records a module that gets no adapters here, although PEFT may adapt it.
  void note_module(const ModuleStep& one, const std::string& name) {
    if (one.kind == ModuleStep::Kind::Linear) return;
    std::string path =
        name_in_memory(module_names_, joined_name(around_, name));
    const bool is_parameter = one.kind == ModuleStep::Kind::Parameter ||
                              one.kind == ModuleStep::Kind::Buffer;
    if (is_parameter) path.resize(std::min(path.rfind('.'), path.size()));
    lora_->pass_by(path);
  }

  static bool is_of_expert(const LinearPlace& place,
                           const LinearWeight& linear) {
    return !linear.stack.empty() || place.expert ||
           place.role == LinearRole::Experts;
  }
  bool is_adapted(const LinearPlace& place, const LinearWeight& linear) {
    if (!lora_ || place.embedding) return false;
    const bool is_expert = is_of_expert(place, linear);
    const bool is_output =
        place.role == LinearRole::Head || place.role == LinearRole::Last;
    using Kind = LoraSite::Kind;
    const LoraSite site = {is_expert                          ? Kind::Expert
                           : place.role == LinearRole::Router ? Kind::Router
                           : place.role == LinearRole::Parameter
                               ? Kind::Parameter
                           : is_output ? Kind::Output
                                       : Kind::Layer,
                           place.path, place.in_memory};
    if (is_expert) {
      lora_->meet_expert(
          site, {linear.out, linear.in, linear.out_kind, linear.in_kind});
    }
    return lora_->adapts(site);
  }

  bool adapters(const std::string& module, int64_t rank,
                const ExpertWeight& weight, ModuleStep::Kind kind) {
    const DType dtype = lora_->lora().dtype;
    return add({module + ".lora_A.default.weight",
                {dtype, {rank, weight.in}},
                {DimKind(), weight.in_kind},
                kind}) &&
           add({module + ".lora_B.default.weight",
                {dtype, {weight.out, rank}},
                {weight.out_kind, DimKind()},
                kind});
  }

  // Adds the adapters of the stacks of experts that were read. The name of the
  // repetition may end with the expert's index, which the stacks do not have.
  bool stack_adapters(const ModuleStep& one, const ValueScope& scope,
                      const std::string& prefix) {
    if (!lora_) return true;
    const auto count = scope.integer(*one.count, 0, kMaxCount);
    if (!count) return false;
    std::string name = joined_name(prefix, one.name);
    const std::string number = ".{" + one.index + "}";
    if (name.ends_with(number)) name.resize(name.size() - number.size());
    const std::string path =
        name_in_memory(module_names_, joined_name(around_, name));
    for (const StackAdapters& each : lora_->leave_experts(path, *count)) {
      if (!adapters(name + each.at, each.rank, each.weight,
                    ModuleStep::Kind::Linear)) {
        return false;
      }
    }
    return true;
  }

  bool check_adapted() {
    if (!lora_) return true;
    if (const auto problem = lora_->problem()) {
      auto report = config_.refuse(problem->key, problem->message);
      if (!problem->fact.empty()) report.fact(problem->fact);
      if (!problem->help.empty()) report.help(problem->help);
      return false;
    }
    std::ranges::move(lora_->remarks(), std::back_inserter(remarks_));
    return true;
  }

  bool enter(Span where) {
    if (++depth_ <= kMaxBlockDepth) return true;
    config_.refuse("", "blocks of the architecture nest too deeply")
        .label(where, "here");
    return false;
  }

  bool block(const ModuleStep& one, const ValueScope& scope,
             const std::string& prefix, const Stack& stack) {
    const Architecture& all = scope.values->architecture();
    const ModuleBlock& block = all.blocks.find(one.what)->second;
    const auto inner = scope.within(block.takes, block.shared, one.arguments);
    if (!inner) return false;
    const bool good =
        enter(one.where) &&
        steps(block.steps, *inner, joined_name(prefix, one.name), stack);
    --depth_;
    return good;
  }

  bool section(const ModuleStep& one, const ValueScope& scope,
               const std::string& prefix, const Stack& stack) {
    ConfigValues* const values = scope.values->section(one.what);
    if (values == nullptr) return false;
    if (scope.values == whole_) {
      used_parts_.insert(whole_->architecture().find_section(one.what)->key);
    }
    const auto found = values->architecture().blocks.find(one.part);
    if (found == values->architecture().blocks.end()) {
      values->config().refuse("", in_backticks(values->architecture().name) +
                                      " has no block " +
                                      in_backticks(one.part));
      return false;
    }
    const ModuleBlock& block = found->second;
    const LinearPlace outer = place_;
    place_.in_section = true;
    if (place_.part.empty()) {
      for (const ConfigSection& each : scope.values->architecture().sections) {
        if (each.name == one.what) place_.part = each.key;
      }
    }
    const bool good =
        enter(one.where) && steps(block.steps, {values, false, {}},
                                  joined_name(prefix, one.name), stack);
    place_ = outer;
    --depth_;
    return good;
  }

  bool stacked(const ModuleStep& one, const ValueScope& scope,
               const std::string& prefix, Stack stack) {
    const auto count = scope.integer(*one.count, 0, kMaxCount);
    if (!count) return false;
    if (*count == 0) return true;
    stack.sizes.push_back(*count);
    stack.kinds.push_back({std::string(one.count->leading_name()), *count, {}});
    stack.kinds.back().axis = stack.kinds.back().label;
    return steps(one.steps, scope, joined_name(prefix, one.name), stack) &&
           stack_adapters(one, scope, prefix);
  }

  // Collects the expressions of the steps themselves. Steps of blocks do not
  // see the index, except through the defaults of arguments that are not given.
  static void collect(const Architecture& all,
                      const std::vector<ModuleStep>& list,
                      std::vector<const Expression*>& found) {
    const auto add_dim = [&](const auto& self, const DimTree& dim) -> void {
      if (dim.parts.empty()) found.push_back(&dim.size);
      if (dim.per) found.push_back(&*dim.per);
      for (const auto& [name, part] : dim.parts) self(self, part);
    };
    for (const ModuleStep& one : list) {
      for (const auto* each : {&one.when, &one.bias, &one.count, &one.start}) {
        if (*each) found.push_back(&**each);
      }
      for (const DimTree& dim : one.dims) add_dim(add_dim, dim);
      for (const auto& [name, expression] : one.arguments) {
        found.push_back(&expression);
      }
      const auto block = one.kind == ModuleStep::Kind::Block
                             ? all.blocks.find(one.what)
                             : all.blocks.end();
      if (block != all.blocks.end()) {
        for (const BlockArgument& argument : block->second.takes) {
          if (argument.otherwise) found.push_back(&*argument.otherwise);
        }
      }
      collect(all, one.steps, found);
      for (const ModuleCase& each : one.cases) {
        if (each.when) found.push_back(&*each.when);
        collect(all, each.steps, found);
      }
    }
  }

  bool repeat(const ModuleStep& one, const ValueScope& scope,
              const std::string& prefix, const Stack& stack) {
    const LinearPlace outer = place_;
    const bool experts = one.count->leading_name() == kExpertsLabel;
    (experts ? place_.expert : place_.in_layer) = true;
    const bool by_name =
        quantisation_.by_name() || (lora_ && lora_->lora().names_layers());
    const bool good = by_name ? each_index(one, scope, prefix, stack)
                              : fold_indices(one, scope, prefix, stack);
    place_ = outer;
    return good && (!experts || stack_adapters(one, scope, prefix));
  }

  // Handles layers that are alike one by one, because each may be stored
  // differently.
  bool each_index(const ModuleStep& one, const ValueScope& scope,
                  const std::string& prefix, const Stack& stack) {
    const auto count = scope.integer(*one.count, 0, kMaxCount);
    const auto start =
        one.start ? scope.integer(*one.start, 0, kMaxCount) : int64_t{0};
    if (!count || !start) return false;
    ValueScope inner = scope;
    inner.own.emplace_back(one.index, ConfigValue());
    for (int64_t i = *start; i < *start + *count; ++i) {
      inner.own.back().second = ConfigValue::of(i);
      const std::string name =
          joined_name(prefix, numbered_name(one.name, one.index, i));
      if (!steps(one.steps, inner, name, stack)) return false;
    }
    return true;
  }

  // Handles layers that are alike together: if all expressions that mention the
  // index have the same values, the tensors differ only in their names.
  bool fold_indices(const ModuleStep& one, const ValueScope& scope,
                    const std::string& prefix, const Stack& stack) {
    const auto count = scope.integer(*one.count, 0, kMaxCount);
    if (!count) return false;
    const auto start =
        one.start ? scope.integer(*one.start, 0, kMaxCount) : int64_t{0};
    if (!start) return false;
    std::vector<const Expression*> varying;
    collect(scope.values->architecture(), one.steps, varying);
    std::erase_if(varying, [&](const Expression* expression) {
      return !scope.varies(*expression, one.index);
    });
    ValueScope inner = scope;
    inner.own.emplace_back(one.index, ConfigValue());
    std::unordered_map<std::string, size_t> known;
    std::vector<Tensors> classes;
    std::vector<size_t> class_of;
    int64_t total = into_ == nullptr ? written_ : std::ssize(*into_);
    int64_t held = 0;
    for (int64_t i = *start; i < *start + *count; ++i) {
      inner.own.back().second = ConfigValue::of(i);
      std::string key;
      if (!inner.append_values(varying, i, key)) return false;
      const auto [place, is_new] = known.try_emplace(key, classes.size());
      if (is_new) {
        Tensors tensors;
        Tensors* const outer = std::exchange(into_, &tensors);
        const std::string around = around_;
        around_ = joined_name(
            around_,
            joined_name(prefix, numbered_name(one.name, one.index, i)));
        const bool good = steps(one.steps, inner, "", stack);
        around_ = around;
        into_ = outer;
        if (!good) return false;
        held += std::ssize(tensors);
        classes.push_back(std::move(tensors));
      }
      class_of.push_back(place->second);
      total += std::ssize(classes[place->second]);
      if (total > kMaxTensors || held > kMaxDifferent) {
        return too_many(*count, classes[place->second]);
      }
    }
    std::vector<bool> seen(classes.size(), false);
    for (int64_t i = 0; i < *count; ++i) {
      const std::string name =
          joined_name(prefix, numbered_name(one.name, one.index, *start + i));
      const size_t number = nth(class_of, i);
      const bool is_first = !seen[number];
      seen[number] = true;
      if (!stamp(name, classes[number], is_first)) return false;
    }
    return true;
  }

  bool too_many(int64_t count, const Tensors& each) {
    config_.refuse("", "the model has too many tensors")
        .fact(count_text(count) + " layers with up to " +
              count_text(std::ssize(each)) + " tensors each")
        .fact("the limit is " + count_text(kMaxTensors));
    return false;
  }

  bool stamp(const std::string& prefix, const Tensors& tensors, bool is_first) {
    std::string name;
    for (const CheckpointTensor& tensor : tensors) {
      const bool is_written = into_ == nullptr && !tensor.only_explained;
      written_ += is_written ? 1 : 0;
      if (into_ == nullptr && manifest_ == nullptr && !is_first) continue;
      name = prefix;
      if (!tensor.name.empty() && !prefix.empty()) name += '.';
      name += tensor.name;
      if (into_ != nullptr) {
        into_->push_back(tensor);
        into_->back().name = name;
        continue;
      }
      if (is_written && !put(name, tensor)) return false;
      if (is_first) record_kind(name, tensor);
    }
    return true;
  }

  ConfigReader& config_;
  DType dtype_;
  const Quantisation& quantisation_;
  std::optional<LoraTargets> lora_;  // none: no adapters
  QuantisedLayers layers_;
  std::vector<ModuleName> module_names_;
  const ConfigValues* whole_ = nullptr;
  std::set<std::string> used_parts_;  // keys of the config's sections
  LinearPlace place_;         // that of the current step, without the layer
                              // itself
  std::string around_;        // prefix of the names in `into_`
  Manifest* const manifest_;  // null: only kinds are requested
  TensorSteps* const steps_of_;
  ExplainedTensors explained_;
  std::vector<std::string> remarks_;
  Tensors* into_ = nullptr;  // null: tensors go to the manifest
  int64_t written_ = 0;
  int64_t steps_ = 0;
  int depth_ = 0;
};

}  // namespace

bool write_tensors(ConfigValues& values, const ArchitectureClass& model_class,
                   DType dtype, const Quantisation& quantisation,
                   const Lora* lora, Manifest& manifest, TensorSteps* steps) {
  Walk walk(values, dtype, quantisation, lora, &manifest, steps);
  if (!walk.run(values, model_class)) return false;
  manifest.kinds =
      std::make_shared<const ParameterKinds>(std::move(walk.explained().kinds));
  std::ranges::move(walk.remarks(), std::back_inserter(manifest.remarks));
  return true;
}

bool explain_tensors(ConfigValues& values, const ArchitectureClass& model_class,
                     DType dtype, const Quantisation& quantisation,
                     ExplainedTensors& explained) {
  Walk walk(values, dtype, quantisation, nullptr, nullptr, nullptr);
  if (!walk.run(values, model_class)) return false;
  explained = std::move(walk.explained());
  return true;
}

}  // namespace shardplan
