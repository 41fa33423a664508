// SPDX-License-Identifier: Apache-2.0
#include "model/architecture/walk.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/text.h"
#include "core/fold.h"

namespace shardplan {
namespace {

// Blocks within blocks, and sections.
constexpr int kMaxBlockDepth = 64;
// Steps of one layer, with those of its blocks.
constexpr int64_t kMaxSteps = 1'000'000;
// Tensors of layers that differ from one another, which are held at once.
constexpr int64_t kMaxDifferent = 2'000'000;

// What is seen by an expression: the arguments of a block and the indices
// around it, then the names of the architecture.
struct Scope {
  ModelValues* values = nullptr;
  bool shared = false;  // a block of all architectures: its arguments only
  std::vector<std::pair<std::string, ConfigValue>> own;
};

// Dimensions in front of the tensors of a repeated part that is stacked.
struct Stack {
  Shape sizes;
  ParameterKind kinds;
};

class Walk {
 public:
  Walk(ModelValues& values, DType dtype, const Quantisation& quantisation,
       Manifest& manifest)
      : config_(values.config()),
        dtype_(dtype),
        quantisation_(quantisation),
        manifest_(manifest) {}

  bool run(ModelValues& values, const ModelClass& model_class) {
    if (!steps(model_class.steps, {&values, false, {}}, "", {})) return false;
    manifest_.kinds = std::make_shared<const ParameterKinds>(std::move(kinds_));
    return true;
  }

 private:
  using Tensors = std::vector<ModelTensor>;

  const ConfigValue* find(const Scope& scope, std::string_view name,
                          std::string& why) {
    for (auto own = scope.own.rbegin(); own != scope.own.rend(); ++own) {
      if (own->first == name) return &own->second;
    }
    if (scope.shared) return nullptr;
    const ValueRule* const rule = scope.values->architecture().find_value(name);
    if (rule != nullptr && rule->kind == ValueRule::Kind::Table) {
      return in_layer(scope, name, why);
    }
    return scope.values->find(name, why);
  }

  // A table means its value in this layer.
  static const ConfigValue* in_layer(const Scope& scope, std::string_view name,
                                     std::string& why) {
    const auto own = std::find_if(
        scope.own.rbegin(), scope.own.rend(), [](const auto& each) {
          return each.first == "i" &&
                 each.second.kind == ConfigValue::Kind::Integer;
        });
    if (own == scope.own.rend()) {
      why = in_backticks(name) + " is of layers";
      return nullptr;
    }
    const auto* const table = scope.values->find_table(name, why);
    if (table == nullptr) return nullptr;
    const int64_t layer = own->second.integer;
    if (layer >= 0 && layer < static_cast<int64_t>(table->size())) {
      return &(*table)[static_cast<size_t>(layer)];
    }
    why = in_backticks(name) + " has " +
          plural(static_cast<int64_t>(table->size()), "item") + ", for layer " +
          std::to_string(layer);
    return nullptr;
  }

  // Empty and reported where there is no value.
  std::optional<ConfigValue> value(const Expression& expression,
                                   const Scope& scope) {
    std::string why;
    auto found = quiet(expression, scope, why);
    if (!found && !why.empty()) {
      config_
          .refuse("", in_backticks(expression.text) + " of architecture " +
                          in_backticks(scope.values->architecture().name) +
                          " has no value: " + why)
          .label(expression.where, "here");
    }
    return found;
  }
  std::optional<ConfigValue> quiet(const Expression& expression,
                                   const Scope& scope, std::string& why) {
    return evaluate(
        expression,
        [&](std::string_view name, std::string& reason) {
          return find(scope, name, reason);
        },
        why);
  }

  template <typename Wanted>
  std::optional<ConfigValue> of_kind(const Expression& expression,
                                     const Scope& scope, Wanted kind) {
    auto found = value(expression, scope);
    if (!found || found->kind == kind) return found;
    config_
        .refuse("", in_backticks(expression.text) + " of architecture " +
                        in_backticks(scope.values->architecture().name) +
                        " is " + std::string(value_kind_name(found->kind)) +
                        ", not " + std::string(value_kind_name(kind)))
        .label(expression.where, "here");
    return std::nullopt;
  }

  // Without a condition it is true.
  std::optional<bool> flag(const std::optional<Expression>& condition,
                           const Scope& scope, bool otherwise = true) {
    if (!condition) return otherwise;
    const auto found = of_kind(*condition, scope, ConfigValue::Kind::Flag);
    if (!found) return std::nullopt;
    return found->integer != 0;
  }

  std::optional<int64_t> integer(const Expression& expression,
                                 const Scope& scope, int64_t least,
                                 int64_t most) {
    const auto found = of_kind(expression, scope, ConfigValue::Kind::Integer);
    if (!found) return std::nullopt;
    if (found->integer >= least && found->integer <= most) {
      return found->integer;
    }
    return config_
        .refuse("", in_backticks(expression.text) + " of architecture " +
                        in_backticks(scope.values->architecture().name) +
                        " is " + std::to_string(found->integer))
        .label(expression.where, "here")
        .fact("it may be " + count_text(least) + " to " + count_text(most));
  }

  // So that the product of two dimensions fits 63 bits.
  static constexpr int64_t kMaxDim = int64_t{1} << 40;

  std::optional<int64_t> size(const DimTree& dim, const Scope& scope) {
    if (dim.parts.empty()) return integer(dim.size, scope, 1, kMaxDim);
    int64_t sum = 0;
    for (const auto& [name, part] : dim.parts) {
      const auto rows = size(part, scope);
      if (!rows) return std::nullopt;
      sum += *rows;
    }
    if (!dim.per) return sum;
    const auto times = integer(*dim.per, scope, 1, kMaxDim);
    const auto product = times ? checked_mul(*times, sum) : std::nullopt;
    if (product && *product <= kMaxDim) return product;
    if (times) {
      config_.refuse("", "a dimension is too large").label(dim.where, "here");
    }
    return std::nullopt;
  }

  // What the tree says besides its size. REQUIRES: size(dim) has one.
  std::optional<DimKind> kind(const DimTree& dim, const Scope& scope) {
    if (dim.parts.empty()) return leaf_kind(dim.size, scope);
    DimKind result;
    if (dim.per) {
      const auto count = integer(*dim.per, scope, 1, kMaxDim);
      if (!count) return std::nullopt;
      result.label = std::string(dim.per->leading_name());
      result.count = *count;
    }
    for (const auto& [name, part] : dim.parts) {
      const auto rows = size(part, scope);
      const auto inner = rows ? kind(part, scope) : std::nullopt;
      if (!inner) return std::nullopt;
      result.parts.push_back({name, inner->label, *rows, inner->count});
    }
    return result;
  }
  // A size alone may be cut anywhere, a product between its first factors.
  std::optional<DimKind> leaf_kind(const Expression& expression,
                                   const Scope& scope) {
    DimKind result;
    result.label = std::string(expression.leading_name());
    if (result.label.empty() || expression.nodes.size() == 1) return result;
    std::string why;
    const ConfigValue* const count = find(scope, result.label, why);
    if (count != nullptr && count->kind == ConfigValue::Kind::Integer) {
      result.count = count->integer;
    }
    return result;
  }

  bool add(ModelTensor tensor) {
    if (into_ != nullptr) {
      into_->push_back(std::move(tensor));
      return within(static_cast<int64_t>(into_->size()));
    }
    return within(++written_) && put(tensor.name, tensor) &&
           keep(tensor.name, tensor);
  }

  bool within(int64_t tensors) {
    if (tensors <= kMaxTensors) return true;
    config_.refuse("", "the model would have too many tensors")
        .fact("the limit is " + count_text(kMaxTensors));
    return false;
  }

  bool put(std::string_view name, const ModelTensor& tensor) {
    const TensorType& type = tensor.type;
    if (manifest_.add(name, type, Span{}, tensor.buffer)) return true;
    config_.refuse("", "the model's size exceeds 63 bits")
        .fact("at " + in_backticks(name) + ", " + type_text(type));
    return false;
  }

  bool keep(std::string_view name, const ModelTensor& tensor) {
    if (tensor.buffer) return true;
    kinds_.try_emplace({folded_name(name), tensor.type.shape}, tensor.kind);
    return true;
  }

  static std::string joined_name(const std::string& prefix,
                                 const std::string& name) {
    if (prefix.empty() || name.empty()) return prefix + name;
    return prefix + "." + name;
  }

  bool steps(const std::vector<ModuleStep>& list, const Scope& scope,
             const std::string& prefix, const Stack& stack) {
    for (const ModuleStep& one : list) {
      if (++steps_ > kMaxSteps) {
        config_.refuse("", "the architecture has too many steps");
        return false;
      }
      const auto used = flag(one.when, scope);
      if (!used || (*used && !step(one, scope, prefix, stack))) return false;
    }
    return true;
  }

  bool step(const ModuleStep& one, const Scope& scope,
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
          const auto taken = flag(each.when, scope);
          if (!taken) return false;
          if (*taken) return steps(each.steps, scope, prefix, stack);
        }
        return true;
      default:
        return module(one, scope, joined_name(prefix, one.name), stack);
    }
  }

  bool module(const ModuleStep& one, const Scope& scope,
              const std::string& name, const Stack& stack) {
    Shape shape;
    ParameterKind kinds;
    for (const DimTree& dim : one.dims) {
      const auto found = size(dim, scope);
      auto found_kind = found ? kind(dim, scope) : std::nullopt;
      if (!found_kind) return false;
      shape.push_back(*found);
      kinds.push_back(*std::move(found_kind));
    }
    const DType dtype = one.dtype.value_or(dtype_);
    const bool is_norm_with_bias = one.kind == ModuleStep::Kind::LayerNorm;
    const auto biased = flag(one.bias, scope, is_norm_with_bias);
    if (!biased) return false;
    const auto tensor = [&](const std::string& suffix, const Shape& rest,
                            const ParameterKind& rest_kinds) {
      ModelTensor result{
          name + suffix, {dtype, stack.sizes}, false, stack.kinds};
      Shape& all = result.type.shape;
      all.insert(all.end(), rest.begin(), rest.end());
      result.kind.insert(result.kind.end(), rest_kinds.begin(),
                         rest_kinds.end());
      return result;
    };
    switch (one.kind) {
      case ModuleStep::Kind::Parameter:
      case ModuleStep::Kind::Buffer: {
        ModelTensor whole = tensor("", shape, kinds);
        whole.buffer = one.kind == ModuleStep::Kind::Buffer;
        return add(std::move(whole));
      }
      case ModuleStep::Kind::Linear: {
        const LinearWeight linear{name,     one.weight_name, stack.sizes,
                                  shape[0], shape[1],        one.inputs_first,
                                  dtype,    stack.kinds,     kinds[0],
                                  kinds[1]};
        const auto tensors = store_weight(
            linear, one.quantised ? quantisation_ : Quantisation(), config_);
        if (!tensors) return false;
        for (const ModelTensor& each : *tensors) {
          if (!add(each)) return false;
        }
        break;
      }
      default:
        if (!add(tensor(one.weight_name, shape, kinds))) return false;
    }
    return !*biased || add(tensor(one.bias_name, {shape[0]}, {kinds[0]}));
  }

  static Scope with_arguments(Scope scope, const Scope& inner) {
    scope.own.insert(scope.own.end(), inner.own.begin(), inner.own.end());
    return scope;
  }

  bool enter(Span where) {
    if (++depth_ <= kMaxBlockDepth) return true;
    config_.refuse("", "blocks of the architecture nest too deep")
        .label(where, "here");
    return false;
  }

  bool block(const ModuleStep& one, const Scope& scope,
             const std::string& prefix, const Stack& stack) {
    const Architecture& all = scope.values->architecture();
    const ModuleBlock& block = all.blocks.find(one.what)->second;
    Scope inner{scope.values, block.shared, {}};
    for (const BlockArgument& argument : block.takes) {
      const auto given =
          std::find_if(one.arguments.begin(), one.arguments.end(),
                       [&](const auto& a) { return a.first == argument.name; });
      const Expression& expression =
          given != one.arguments.end() ? given->second : *argument.otherwise;
      // A default may mean an argument before it.
      auto found = value(expression, given != one.arguments.end()
                                         ? scope
                                         : with_arguments(scope, inner));
      if (!found) return false;
      inner.own.emplace_back(argument.name, *std::move(found));
    }
    const bool good =
        enter(one.where) &&
        steps(block.steps, inner, joined_name(prefix, one.name), stack);
    --depth_;
    return good;
  }

  bool section(const ModuleStep& one, const Scope& scope,
               const std::string& prefix, const Stack& stack) {
    ModelValues* const values = scope.values->section(one.what);
    if (values == nullptr) return false;
    const auto found = values->architecture().blocks.find(one.part);
    if (found == values->architecture().blocks.end()) {
      values->config().refuse("", in_backticks(values->architecture().name) +
                                      " has no block " +
                                      in_backticks(one.part));
      return false;
    }
    const ModuleBlock& block = found->second;
    const bool good =
        enter(one.where) && steps(block.steps, {values, false, {}},
                                  joined_name(prefix, one.name), stack);
    --depth_;
    return good;
  }

  bool stacked(const ModuleStep& one, const Scope& scope,
               const std::string& prefix, Stack stack) {
    const auto count = integer(*one.count, scope, 0, kMaxCount);
    if (!count) return false;
    if (*count == 0) return true;
    stack.sizes.push_back(*count);
    stack.kinds.push_back({std::string(one.count->leading_name()), *count, {}});
    Scope inner = scope;
    return steps(one.steps, inner, joined_name(prefix, one.name), stack);
  }

  // Expressions of the steps themselves: those of blocks see no index.
  static void collect(const std::vector<ModuleStep>& list,
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
      collect(one.steps, found);
      for (const ModuleCase& each : one.cases) {
        if (each.when) found.push_back(&*each.when);
        collect(each.steps, found);
      }
    }
  }

  static void append_key(std::string& key,
                         const std::optional<ConfigValue>& value) {
    if (!value) {
      key += "?;";
      return;
    }
    key += std::to_string(static_cast<int>(value->kind)) + ":" +
           std::to_string(value->integer) + ":" + std::to_string(value->real) +
           ":" + std::to_string(value->text.size()) + ":" + value->text;
    for (const int64_t each : value->integers)
      key += "," + std::to_string(each);
    key += ';';
  }

  // Indices whose steps have the same values in all that mentions an index make
  // the same tensors, but for the names.
  bool repeat(const ModuleStep& one, const Scope& scope,
              const std::string& prefix, const Stack& stack) {
    const auto count = integer(*one.count, scope, 0, kMaxCount);
    if (!count) return false;
    int64_t start = 0;
    if (one.start) {
      const auto found = integer(*one.start, scope, 0, kMaxCount);
      if (!found) return false;
      start = *found;
    }
    std::vector<const Expression*> all;
    collect(one.steps, all);
    std::vector<const Expression*> varying;
    for (const Expression* expression : all) {
      if (varies(*expression, one.index, scope)) varying.push_back(expression);
    }
    Scope inner = scope;
    inner.own.emplace_back(one.index, ConfigValue());
    std::unordered_map<std::string, size_t> known;
    std::vector<Tensors> classes;
    std::vector<size_t> class_of;
    int64_t total =
        into_ == nullptr ? written_ : static_cast<int64_t>(into_->size());
    int64_t held = 0;
    std::string why;
    for (int64_t i = start; i < start + *count; ++i) {
      inner.own.back().second = ConfigValue::of(i);
      std::string key;
      for (const Expression* expression : varying) {
        const auto found = quiet(*expression, inner, why);
        append_key(key, found);
        // Of another index, too, or not needed here: not known to be alike.
        if (!found) key += std::to_string(i);
      }
      const auto [place, is_new] = known.try_emplace(key, classes.size());
      if (is_new) {
        Tensors tensors;
        Tensors* const outer = std::exchange(into_, &tensors);
        const bool good = steps(one.steps, inner, "", stack);
        into_ = outer;
        if (!good) return false;
        held += static_cast<int64_t>(tensors.size());
        classes.push_back(std::move(tensors));
      }
      class_of.push_back(place->second);
      total += static_cast<int64_t>(classes[place->second].size());
      if (total > kMaxTensors || held > kMaxDifferent) {
        return too_many(*count, classes[place->second]);
      }
    }
    std::vector<bool> seen(classes.size(), false);
    for (int64_t i = 0; i < *count; ++i) {
      const std::string name =
          joined_name(prefix, numbered(one.name, one.index, start + i));
      const size_t number = class_of[static_cast<size_t>(i)];
      const bool is_first = !seen[number];
      seen[number] = true;
      if (!stamp(name, classes[number], is_first)) return false;
    }
    return true;
  }

  bool too_many(int64_t count, const Tensors& each) {
    config_.refuse("", "the model would have too many tensors")
        .fact(count_text(count) + " layers with up to " +
              count_text(static_cast<int64_t>(each.size())) + " tensors each")
        .fact("the limit is " + count_text(kMaxTensors));
    return false;
  }

  // Whether it may differ between indices: it mentions this one, or a table.
  static bool varies(const Expression& expression, const std::string& index,
                     const Scope& scope) {
    const Architecture& all = scope.values->architecture();
    const auto names = expression.names();
    return std::any_of(names.begin(), names.end(), [&](std::string_view name) {
      if (name == index) return true;
      const ValueRule* const rule = all.find_value(name);
      return rule != nullptr && rule->kind == ValueRule::Kind::Table;
    });
  }

  static std::string numbered(std::string name, const std::string& index,
                              int64_t value) {
    const std::string mark = "{" + index + "}";
    const size_t at = name.find(mark);
    return at == name.npos
               ? name
               : name.replace(at, mark.size(), std::to_string(value));
  }

  bool stamp(const std::string& prefix, const Tensors& tensors, bool is_first) {
    std::string name;
    for (const ModelTensor& tensor : tensors) {
      name = prefix;
      if (!tensor.name.empty() && !prefix.empty()) name += '.';
      name += tensor.name;
      if (into_ != nullptr) {
        into_->push_back({name, tensor.type, tensor.buffer, tensor.kind});
      } else {
        ++written_;
        if (!put(name, tensor)) return false;
        if (is_first) keep(name, tensor);
      }
    }
    return true;
  }

  ConfigReader& config_;
  DType dtype_;
  const Quantisation& quantisation_;
  Manifest& manifest_;
  ParameterKinds kinds_;
  Tensors* into_ = nullptr;  // null: the manifest
  int64_t written_ = 0;
  int64_t steps_ = 0;
  int depth_ = 0;
};

}  // namespace

bool write_tensors(ModelValues& values, const ModelClass& model_class,
                   DType dtype, const Quantisation& quantisation,
                   Manifest& manifest) {
  return Walk(values, dtype, quantisation, manifest).run(values, model_class);
}

}  // namespace shardplan
