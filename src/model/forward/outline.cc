// SPDX-License-Identifier: Apache-2.0
#include "model/forward/outline.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <set>
#include <utility>

#include "base/checked.h"
#include "base/words.h"
#include "core/facts.h"
#include "model/architecture/scope.h"
#include "model/config_reader.h"
#include "model/forward/modules.h"

namespace shardplan {
namespace {

// The arguments of the block around an expression: expressions of its caller.
struct Environment {
  const Environment* caller = nullptr;
  bool shared = false;
  std::map<std::string, const Expression*, std::less<>> arguments;
};

// Returns the expression that an argument of the block has; null if the name is
// not an argument.
const Expression* argument_of(const Environment* around,
                              std::string_view name) {
  if (around == nullptr) return nullptr;
  const auto found = around->arguments.find(name);
  return found == around->arguments.end() ? nullptr : found->second;
}

// The values of names that are known so far.
using Known = std::map<std::string, ConfigValue, std::less<>>;
using FromConfig = std::function<std::optional<ConfigValue>(std::string_view)>;

class PartialValues {
 public:
  PartialValues(const Architecture& architecture, FromConfig from_config)
      : architecture_(architecture), from_config_(std::move(from_config)) {}

  std::optional<ConfigValue> evaluated(const Expression& expression,
                                       const Environment* around) {
    std::string why;
    if (++depth_ > kMaxBlockDepth) {
      --depth_;
      return std::nullopt;
    }
    auto result = evaluate(
        expression,
        [&](std::string_view name, std::string&) -> const ConfigValue* {
          auto found = value(name, around);
          if (!found) return nullptr;
          return &found_values_.emplace_back(*std::move(found));
        },
        work, why);
    --depth_;
    return result;
  }

  std::optional<int64_t> integer(const Expression& expression,
                                 const Environment* around) {
    const auto found = evaluated(expression, around);
    if (!found || found->kind != ConfigValue::Kind::Integer) {
      return std::nullopt;
    }
    return found->integer;
  }

  std::optional<ConfigValue> value(std::string_view name,
                                   const Environment* around) {
    if (const Expression* const argument = argument_of(around, name)) {
      return evaluated(*argument, around->caller);
    }
    if (around != nullptr && around->shared) return std::nullopt;
    const auto known = known_values.find(name);
    if (known != known_values.end()) return known->second;
    const ValueRule* const rule = architecture_.find_value(name);
    if (rule == nullptr || rule->kind == ValueRule::Kind::Table) {
      return std::nullopt;
    }
    if (rule->is) return evaluated(*rule->is, nullptr);
    return from_config_(name);
  }

  // The name that an expression consists of, and whether a `not` precedes it.
  struct SingleName {
    std::string name;
    bool negated = false;
  };
  // Looks through arguments. Returns "" if the expression is not just a name.
  SingleName single_name(const Expression& expression,
                         const Environment* around) const {
    const auto& nodes = expression.nodes;
    if (nodes.empty()) return {};
    const bool negated = nodes.back().kind == ExpressionNode::Kind::Not;
    const ExpressionNode& node =
        negated ? nth(nodes, nodes.back().first) : nodes.back();
    if (node.kind != ExpressionNode::Kind::Name) return {};
    const Expression* const argument = argument_of(around, node.name);
    if (argument == nullptr) return {node.name, negated};
    SingleName inner = single_name(*argument, around->caller);
    inner.negated = inner.negated != negated;
    return inner;
  }

  // Sets the value of a name, unless it is known or computed from others.
  bool add(const std::string& name, ConfigValue value) {
    const ValueRule* const rule = architecture_.find_value(name);
    if (rule == nullptr || rule->is || this->value(name, nullptr)) return false;
    known_values.emplace(name, std::move(value));
    return true;
  }

  // Solves `expression == size` for the one name in it that is not known.
  bool solve(const Expression& expression, const Environment* around,
             int64_t size) {
    const std::string name = single_name(expression, around).name;
    if (!name.empty()) return add(name, ConfigValue::of(size));
    if (expression.nodes.empty() ||
        expression.nodes.back().kind != ExpressionNode::Kind::Multiply) {
      return false;
    }
    const ExpressionNode& root = expression.nodes.back();
    for (const auto& [one, other] : {std::pair{root.first, root.second},
                                     std::pair{root.second, root.first}}) {
      const auto factor = integer(part(expression, one), around);
      if (factor && *factor > 0 && size % *factor == 0 &&
          solve(part(expression, other), around, size / *factor)) {
        return true;
      }
    }
    return false;
  }

  // The work for reading the outline. Once it is spent, expressions may have no
  // value although their names are known.
  Work work;

  Known known_values;

 private:
  static Expression part(const Expression& whole, int root) {
    Expression result{whole.text, whole.where, {}};
    result.nodes.assign(whole.nodes.begin(), whole.nodes.begin() + root + 1);
    return result;
  }

  const Architecture& architecture_;
  FromConfig from_config_;
  std::deque<ConfigValue> found_values_;
  int depth_ = 0;
};

// A tensor that a module may have.
struct OutlineTensor {
  std::string name;
  const ModuleStep* step = nullptr;
  const Environment* around = nullptr;
  bool is_bias = false;
  bool certain = false;
  // For repeated experts: the name of the tensor if all experts are one tensor.
  std::string stacked_name = {};
};

struct OutlineRepeat {
  const ModuleStep* step = nullptr;
  const Environment* around = nullptr;
  std::string name;  // "layers"
  // Its tensors are tensors[begin, end) of the outline.
  size_t begin = 0;
  size_t end = 0;
};

// A table that decides which case applies to a layer.
struct OutlineSwitch {
  std::string table;
  const OutlineRepeat* repeat = nullptr;
  std::string module;  // in the case of the table: "mlp.gate.weight"
};

class Outline {
 public:
  Outline(const Architecture& architecture, PartialValues& values)
      : architecture_(architecture), values_(values) {}

  // Adds the steps of a class. Their conditions do not matter: the names are
  // the same without outer modules (model/forward/parameter_names.h).
  void add(std::vector<ModuleStep> steps) {
    for (ModuleStep& step : steps) step.when.reset();
    added_.push_back(std::move(steps));
    collect(added_.back(), "", nullptr, {});
  }

  std::deque<OutlineTensor> tensors;
  std::deque<OutlineRepeat> repeats;
  std::vector<OutlineSwitch> switches;

 private:
  struct Place {
    bool certain = true;
    // In repeated experts: the prefix without the index of the expert.
    std::string stacked = {};
  };

  // Returns 1 if the condition holds, 0 if not, and -1 if that is unknown.
  int state(const std::optional<Expression>& condition,
            const Environment* around) {
    if (!condition) return 1;
    const auto found = values_.evaluated(*condition, around);
    if (!found || found->kind != ConfigValue::Kind::Flag) return -1;
    return static_cast<int>(found->integer);
  }

  void collect(const std::vector<ModuleStep>& steps, const std::string& prefix,
               const Environment* around, const Place& place) {
    if (depth_ == kMaxBlockDepth) return;
    ++depth_;
    for (const ModuleStep& one : steps) {
      if (!values_.work.spend()) break;  // blocks nest, so there are many
      const int used = state(one.when, around);
      if (used == 0) continue;
      Place inner = place;
      inner.certain = place.certain && used == 1;
      step(one, prefix, around, inner);
    }
    --depth_;
  }

  void step(const ModuleStep& one, const std::string& prefix,
            const Environment* around, Place place) {
    using Kind = ModuleStep::Kind;
    const std::string name = joined_name(prefix, one.name);
    if (!place.stacked.empty()) {
      place.stacked = joined_name(place.stacked, one.name);
    }
    switch (one.kind) {
      case Kind::Block:
        return block(one, name, around, place);
      case Kind::Section:
        return;
      case Kind::Repeat:
        return repeat(one, prefix, around, place);
      case Kind::Switch:
        place.certain = false;
        for (const ModuleCase& each : one.cases) {
          const int holds = state(each.when, around);
          if (holds == 0) continue;
          const auto before = std::ssize(tensors);
          collect(each.steps, prefix, around, place);
          note_switch(each, around, before);
          if (holds == 1) return;
        }
        return;
      default:
        module(one, name, around, place);
    }
  }

  // `before`: the number of tensors before those of the case.
  void note_switch(const ModuleCase& each, const Environment* around,
                   std::ptrdiff_t before) {
    if (!each.when || repeats.empty()) return;
    const auto [name, negated] = values_.single_name(*each.when, around);
    const ValueRule* const rule = architecture_.find_value(name);
    if (rule == nullptr || rule->kind != ValueRule::Kind::Table || negated) {
      return;
    }
    const auto first =
        std::find_if(tensors.begin() + before, tensors.end(),
                     [](const OutlineTensor& tensor) {
                       return tensor.step->kind == ModuleStep::Kind::Linear &&
                              tensor.stacked_name.empty();
                     });
    if (first == tensors.end()) return;
    switches.push_back({name, &repeats.back(), first->name});
  }

  void block(const ModuleStep& one, const std::string& name,
             const Environment* around, const Place& place) {
    const auto found = architecture_.blocks.find(one.what);
    if (found == architecture_.blocks.end()) return;
    const ModuleBlock& block = found->second;
    Environment& inner = environments_.emplace_back();
    inner.caller = around;
    inner.shared = block.shared;
    for (const BlockArgument& argument : block.takes) {
      const auto passed = std::ranges::find_if(
          one.arguments,
          [&](const auto& each) { return each.first == argument.name; });
      if (passed != one.arguments.end()) {
        inner.arguments[argument.name] = &passed->second;
      } else if (argument.otherwise) {
        inner.arguments[argument.name] = &*argument.otherwise;
      }
    }
    collect(block.steps, name, &inner, place);
  }

  void repeat(const ModuleStep& one, const std::string& prefix,
              const Environment* around, Place place) {
    if (one.stacked) {
      return collect(one.steps, joined_name(prefix, one.name), around, place);
    }
    const std::string mark = "{" + one.index + "}";
    std::string name = one.name;
    const size_t at = name.find(mark);
    if (at != name.npos) name.replace(at, mark.size(), "*");
    const bool of_layers = !contains(prefix, '*');
    const size_t begin = tensors.size();
    if (of_layers) {
      repeats.push_back({&one, around,
                         without_outer_modules(joined_name(
                             prefix, name.substr(0, name.find(".*"))))});
      // There may be no layers after the first ones.
      if (one.start) place.certain = false;
    } else {
      place.certain = false;
      place.stacked = joined_name(prefix, name.substr(0, name.find(".*")));
    }
    collect(one.steps, joined_name(prefix, name), around, place);
    if (!of_layers) return;
    repeats.back().begin = begin;
    repeats.back().end = tensors.size();
  }

  void module(const ModuleStep& one, const std::string& name,
              const Environment* around, const Place& place) {
    using Kind = ModuleStep::Kind;
    OutlineTensor tensor{.name = weight_name(one, name),
                         .step = &one,
                         .around = around,
                         .certain = place.certain && one.kind != Kind::Buffer,
                         .stacked_name = without_outer_modules(place.stacked)};
    tensors.push_back(tensor);
    if (one.kind == Kind::Parameter || one.kind == Kind::Buffer) return;
    if (!one.bias && one.kind != Kind::LayerNorm) return;
    const int biased = state(one.bias, around);
    if (biased == 0) return;
    tensor.name = without_outer_modules(name) + one.bias_name;
    tensor.is_bias = true;
    tensor.certain = tensor.certain && biased == 1;
    tensors.push_back(tensor);
  }

  const Architecture& architecture_;
  PartialValues& values_;
  std::deque<Environment> environments_;
  std::deque<std::vector<ModuleStep>> added_;  // steps point into it
  int depth_ = 0;
};

// The facts of a manifest for which architectures have names.
constexpr const char* kFactNames[] = {"layers",   "heads",   "kv_heads",
                                      "head_dim", "experts", "vocab"};

class ShapeReading {
 public:
  ShapeReading(ForwardDefinition& model, const Manifest& manifest)
      : model_(model),
        manifest_(manifest),
        names_(manifest, model.architecture->other_names),
        reader_(model.map(), "", quiet_),
        config_values_(*model.architecture, reader_, 0, model.place()),
        values_(*model.architecture,
                [this](std::string_view name) { return from_config(name); }),
        outline_(*model.architecture, values_) {}

  // Returns whether sizes that follow from some shapes agree with the other
  // shapes, whatever the facts say.
  bool fits() {
    if (!run(false)) return false;
    std::set<std::string> fitting;
    std::set<std::string> others;
    for (const OutlineTensor& each : outline_.tensors) {
      if (each.is_bias) continue;
      (has_its_shape(each) ? fitting : others).insert(each.name);
    }
    return std::ranges::includes(fitting, others);
  }

  // Returns the missing sizes; nothing if the outline is too much work.
  std::optional<std::vector<std::string>> run(bool with_facts = true) {
    if (with_facts) add_facts();
    outline_.add(model_.model_class->steps);
    found_ = names_.folded_tensors();
    for (const OutlineRepeat& each : outline_.repeats) count_layers(each);
    // A size that follows from one shape may be needed for another.
    bool more = true;
    while (more) {
      more = false;
      for (const OutlineTensor& each : outline_.tensors) {
        if (!values_.work.spend(10)) return std::nullopt;  // a look-up
        more |= each.is_bias ? read_bias(each) : read_tensor(each);
      }
    }
    std::vector<std::string> missing;
    if (!model_.has_config) {
      for (const OutlineSwitch& each : outline_.switches) read_table(each);
      missing = missing_values();
      for (const OutlineRepeat& each : outline_.repeats) {
        std::string name = uncounted(each);
        if (!name.empty()) missing.push_back(std::move(name));
      }
    }
    if (values_.work.is_spent()) return std::nullopt;
    // Values for which the config has a key are read from there, or refused.
    for (auto& [name, value] : values_.known_values) {
      if (!config_values_.has_key(name))
        model_.known_values.emplace(name, std::move(value));
    }
    return missing;
  }

 private:
  // Returns true if that is unknown or the checkpoint lacks the tensor.
  bool has_its_shape(const OutlineTensor& tensor) {
    const auto shape = shape_of(tensor);
    const auto& dims = tensor.step->dims;
    if (!shape || shape->size() != dims.size()) return true;
    for (size_t i = 0; i < dims.size(); ++i) {
      const auto size = size_of(dims[i], tensor.around);
      if (size && *size != (*shape)[i]) return false;
      // A product of unknown sizes still has only one value.
      if (!dims[i].parts.empty()) continue;
      const auto [known, is_new] = known_sizes_.try_emplace(
          std::pair(tensor.around, dims[i].size.text), (*shape)[i]);
      if (!is_new && known->second != (*shape)[i]) return false;
    }
    return true;
  }

  std::optional<int64_t> size_of(const DimTree& dim,
                                 const Environment* around) {
    if (dim.parts.empty()) return values_.integer(dim.size, around);
    std::optional<int64_t> sum = 0;
    for (const DimTreePart& part : dim.parts) {
      const auto size = size_of(part.dim, around);
      sum = sum && size ? checked_add(*sum, *size) : std::nullopt;
    }
    if (!dim.per) return sum;
    const auto times = values_.integer(*dim.per, around);
    return sum && times ? checked_mul(*sum, *times) : std::nullopt;
  }

  // Collects the sizes that an expression depends on, through arguments.
  void collect_names(const Expression& expression, const Environment* around,
                     std::vector<std::string>& used, int depth = 0) {
    if (depth > kMaxBlockDepth || !values_.work.spend()) return;
    for (const std::string_view name : expression.names()) {
      if (const Expression* const argument = argument_of(around, name)) {
        collect_names(*argument, around->caller, used, depth + 1);
        continue;
      }
      const ValueRule* const rule = model_.architecture->find_value(name);
      if (rule == nullptr || rule->kind != ValueRule::Kind::Size) continue;
      if (rule->is) {
        collect_names(*rule->is, nullptr, used, depth + 1);
      } else if (!contains(used, name)) {
        used.emplace_back(name);
      }
    }
  }
  void collect_names(const DimTree& dim, const Environment* around,
                     std::vector<std::string>& used) {
    if (dim.parts.empty()) collect_names(dim.size, around, used);
    if (dim.per) collect_names(*dim.per, around, used);
    for (const DimTreePart& part : dim.parts) {
      collect_names(part.dim, around, used);
    }
  }

  std::vector<std::string> missing_values() {
    std::vector<std::string> missing;
    std::vector<std::string> used;
    for (const OutlineTensor& each : outline_.tensors) {
      if (each.is_bias || !shape_of(each)) continue;
      for (const DimTree& dim : each.step->dims) {
        collect_names(dim, each.around, used);
      }
    }
    for (const std::string& name : used) {
      if (values_.value(name, nullptr)) continue;
      const ValueRule& rule = *model_.architecture->find_value(name);
      const auto& otherwise = rule.otherwise;
      auto derived =
          otherwise ? values_.evaluated(*otherwise, nullptr) : std::nullopt;
      if (derived && !otherwise->names().empty()) {
        values_.add(name, *std::move(derived));
      } else {
        missing.push_back(name);
      }
    }
    return missing;
  }

  std::optional<ConfigValue> from_config(std::string_view name) {
    const ConfigValue* const found =
        config_values_.has_key(name) ? config_values_.find(name) : nullptr;
    if (found == nullptr) return std::nullopt;
    return *found;
  }

  void add_facts() {
    for (const FactField& field : kFactFields) {
      const auto& fact = manifest_.facts.*field.member;
      if (!contains(kFactNames, field.name) || !fact) continue;
      values_.add(std::string(field.name), ConfigValue::of(*fact));
    }
  }

  // Returns the name that counts the layers after the first ones, if there are
  // any. Their tensors have the same names, so only a config counts them.
  std::string uncounted(const OutlineRepeat& each) {
    if (!each.step->start) return "";
    std::set<std::string> others;
    for (size_t i = 0; i < outline_.tensors.size(); ++i) {
      const bool is_own = i >= each.begin && i < each.end;
      if (!is_own) others.insert(outline_.tensors[i].name);
    }
    for (size_t i = each.begin; i < each.end; ++i) {
      const std::string& name = outline_.tensors[i].name;
      if (!others.contains(name) && found(name) != nullptr) {
        return values_.single_name(*each.step->count, each.around).name;
      }
    }
    return "";
  }

  void count_layers(const OutlineRepeat& each) {
    if (each.step->start) return;
    const std::string name =
        values_.single_name(*each.step->count, each.around).name;
    const int64_t count = names_.layer_count(each.name);
    if (!name.empty() && count > 0) values_.add(name, ConfigValue::of(count));
  }

  // Finds a tensor by its name in the outline. The names of `found_` have `*`
  // for every number, also for those of the architecture ("layer.1").
  const NamedParameter* found(const std::string& name) {
    const auto known = found_.find(name);
    if (known != found_.end()) return &known->second;
    if (!has_number(name) || absent_.contains(name)) return nullptr;
    const NamedParameter* const first = names_.find_first(name);
    if (first == nullptr) {
      absent_.insert(name);
      return nullptr;
    }
    return &found_.emplace(name, *first).first->second;
  }
  static bool has_number(std::string_view name) {
    constexpr std::string_view kDigits = "0123456789";
    for (size_t i = 1; i < name.size(); ++i) {
      if (name[i - 1] == '.' && contains(kDigits, name[i])) return true;
    }
    return false;
  }

  // Returns a tensor's shape as the architecture has it, without dimensions
  // that count layers and experts; nothing if the checkpoint lacks the tensor.
  std::optional<Shape> shape_of(const OutlineTensor& tensor) {
    const NamedParameter* parameter = found(tensor.name);
    bool stacked_experts = false;
    if (parameter == nullptr && !tensor.stacked_name.empty()) {
      stacked_experts = true;
      parameter = found(tensor.stacked_name + tensor.step->weight_name);
      if (parameter == nullptr) parameter = found(tensor.stacked_name);
    }
    if (parameter == nullptr) return std::nullopt;
    Shape shape = names_.shape_of(*parameter);
    const auto drop = [&] {
      if (!shape.empty()) shape.erase(shape.begin());
    };
    if (parameter->stacked) drop();
    if (stacked_experts) drop();
    const bool is_linear = tensor.step->kind == ModuleStep::Kind::Linear;
    const bool inputs_first =
        is_linear && parameter->inputs_first != tensor.step->inputs_first;
    if (inputs_first && shape.size() == 2) std::swap(shape[0], shape[1]);
    return shape;
  }

  bool read_tensor(const OutlineTensor& tensor) {
    const auto shape = shape_of(tensor);
    bool more = false;
    if (tensor.step->when) {
      more |= infer_flag(*tensor.step->when, tensor.around, shape.has_value());
    }
    const auto& dims = tensor.step->dims;
    if (!shape || shape->size() != dims.size()) return more;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (!dims[i].parts.empty()) continue;
      more |= values_.solve(dims[i].size, tensor.around, (*shape)[i]);
    }
    return more;
  }

  bool read_bias(const OutlineTensor& tensor) {
    if (!tensor.step->bias) return false;
    return infer_flag(*tensor.step->bias, tensor.around,
                      found(tensor.name) != nullptr);
  }

  bool infer_flag(const Expression& condition, const Environment* around,
                  bool holds) {
    const auto [name, negated] = values_.single_name(condition, around);
    const ValueRule* const rule = model_.architecture->find_value(name);
    if (rule == nullptr || rule->kind != ValueRule::Kind::Flag) return false;
    return values_.add(name, ConfigValue::flag(holds != negated));
  }

  void read_table(const OutlineSwitch& each) {
    const size_t star = each.module.find('*');
    const auto layers =
        values_.integer(*each.repeat->step->count, each.repeat->around);
    if (star == each.module.npos || !layers || *layers > kMaxModelLayers) {
      return;
    }
    std::vector<ConfigValue> table;
    for (int64_t i = 0; i < *layers; ++i) {
      std::string name = each.module;
      name.replace(star, 1, std::to_string(i));
      table.push_back(ConfigValue::flag(names_.find(name) != nullptr));
    }
    model_.known_tables.emplace(each.table, std::move(table));
  }

  ForwardDefinition& model_;
  const Manifest& manifest_;
  ParameterNames names_;
  Diagnostics quiet_;
  ConfigReader reader_;
  ConfigValues config_values_;
  PartialValues values_;
  Outline outline_;
  std::map<std::string, NamedParameter> found_;  // by folded name
  std::set<std::string> absent_;  // names with numbers that no tensor has
  // The values of expressions of a block in the first shape that has them.
  std::map<std::pair<const Environment*, std::string>, int64_t> known_sizes_;
};

}  // namespace

ArchitectureOutline outline_of(
    const std::shared_ptr<const Architecture>& architecture) {
  std::set<std::string> required;
  std::set<std::string> known;
  PartialValues values(*architecture,
                       [](std::string_view) { return std::nullopt; });
  Outline main(*architecture, values);
  const std::vector<ModuleStep>& first = architecture->classes.front().steps;
  if (!first.empty()) main.add({first.front()});
  for (const OutlineTensor& tensor : main.tensors) {
    if (tensor.certain) required.insert(tensor.name);
  }
  Outline all(*architecture, values);
  for (const auto& each : architecture->classes) all.add(each.steps);
  for (const OutlineTensor& tensor : all.tensors) {
    known.insert(tensor.name);
    if (tensor.stacked_name.empty()) continue;
    // The gate and up of all experts can be one tensor.
    const size_t last = tensor.stacked_name.rfind('.');
    const std::string fused =
        tensor.stacked_name.substr(0, last) + ".gate_up_proj";
    for (const std::string& name : {tensor.stacked_name, fused}) {
      known.insert(name);
      known.insert(name + ".weight");
    }
  }
  return {{required.begin(), required.end()}, {known.begin(), known.end()}};
}

bool shapes_fit(ForwardDefinition model, const Manifest& manifest) {
  return ShapeReading(model, manifest).fits();
}

std::optional<std::vector<std::string>> read_shapes(ForwardDefinition& model,
                                                    const Manifest& manifest) {
  return ShapeReading(model, manifest).run();
}

}  // namespace shardplan
