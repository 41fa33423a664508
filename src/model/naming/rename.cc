// SPDX-License-Identifier: Apache-2.0
#include "model/naming/rename.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/text.h"
#include "core/fold.h"
#include "model/architecture/axis_labels.h"
#include "model/architecture/scope.h"
#include "model/architecture/walk.h"
#include "model/naming/stack.h"

namespace shardplan {
namespace {

using PieceKind = NamePiece::Kind;

// The number of names that a message lists.
constexpr int64_t kShownNames = 8;

template <typename T>
std::vector<T> in_order(const std::vector<T>& all,
                        const std::vector<size_t>& order) {
  std::vector<T> result;
  for (const size_t at : order) result.push_back(all[at]);
  return result;
}

// Returns "gate_proj" for "mlp.gate_proj.weight".
std::string module_of(std::string_view name) {
  const std::string_view module = name.substr(0, name.find_last_of("./"));
  // If nothing is above the module, npos + 1 is 0.
  return std::string(module.substr(module.find_last_of("./") + 1));
}

class Renaming {
 public:
  Renaming(const NameScheme& scheme, ConfigValues& values,
           const ArchitectureClass& model_class, const Manifest& plain,
           Manifest& manifest)
      : scheme_(scheme),
        config_(values.config()),
        plain_(plain),
        manifest_(manifest),
        scope_{&values,
               false,
               {{"class", ConfigValue::of(model_class.class_name)}}} {
    const auto own = scheme.architectures.find(values.architecture().name);
    for (const NameRules* from : {&own->second, &scheme.all}) {
      for (const NameRule& rule : from->rules) rules_.push_back(&rule);
      for (const AddedTensor& each : from->added) added_.push_back(&each);
    }
  }

  bool run(const TensorSteps& steps) {
    for (size_t i = 0; i < plain_.any_size(); ++i) {
      const bool buffer = i >= plain_.size();
      const ModuleStep::Kind step =
          buffer ? steps.buffers[i - plain_.size()] : steps.parameters[i];
      if (!add_tensor(plain_.any_name(i), plain_.any_type(i), step, buffer)) {
        return false;
      }
    }
    return check_unnamed() && add_others() && write();
  }

 private:
  // Refuses the model because of the names of this scheme.
  Diagnostics::Builder refuse(const std::string& why) {
    return config_.refuse("",
                          "names of " + in_backticks(scheme_.name) + " " + why);
  }

  // --- which rule -----------------------------------------------------------

  // A rule, and the index of one of its `from` names.
  struct Candidate {
    const NameRule* rule = nullptr;
    size_t from = 0;
  };

  const std::vector<Candidate>& candidates(std::string_view name) {
    std::string folded = folded_name(name);
    const auto known = candidates_.find(folded);
    if (known != candidates_.end()) return known->second;
    std::vector<Candidate> found;
    scope_.values->work().spend(std::ssize(rules_));
    for (const NameRule* rule : rules_) {
      for (size_t i = 0; i < rule->from.size(); ++i) {
        if (may_match_folded(rule->from[i], folded)) found.push_back({rule, i});
      }
    }
    return candidates_.emplace(std::move(folded), std::move(found))
        .first->second;
  }

  bool add_tensor(std::string_view name, const TensorType& type,
                  ModuleStep::Kind step, bool buffer) {
    for (const Candidate& each : candidates(name)) {
      if (!scope_.values->work().spend()) {
        scope_.values->refuse_spent_work();
        return false;
      }
      const NameRule& rule = *each.rule;
      if (rule.of && *rule.of != step) continue;
      if (rule.dims && *rule.dims != type.shape.size()) continue;
      const auto match = match_name(rule.from[each.from], name);
      if (!match) continue;
      scope_.own.resize(1);
      for (const auto& [number, value] : match->numbers) {
        scope_.own.emplace_back(number, ConfigValue::of(value));
      }
      const auto holds = scope_.flag(rule.when);
      if (!holds) return false;
      if (!*holds) continue;
      return apply(each, *match, name, type, buffer);
    }
    ++unnamed_[folded_name(name)];
    return true;
  }

  bool apply(const Candidate& each, const NameMatch& match,
             std::string_view name, const TensorType& type, bool buffer) {
    const NameRule& rule = *each.rule;
    if (!rule.refused.empty()) {
      refuse("cannot be used: " + rule.refused)
          .fact("at " + in_backticks(name))
          .label(rule.where, "by this rule");
      return false;
    }
    if (!rule.dropped.empty()) {
      auto& [first, count] = dropped_[rule.dropped];
      if (count++ == 0) first = folded_name(name);
      return true;
    }
    Renamed tensor{std::string(name),           type,
                   kind_of(name, type, buffer), buffer,
                   std::string(name),           type.shape};
    if (!reorder(rule, rule.order, tensor) ||
        !reshape(rule, rule.shape, tensor) ||
        !reorder(rule, rule.then, tensor)) {
      return false;
    }
    if (rule.split) return split(rule, match, tensor);
    return put(each, match, rule.to.front(), std::move(tensor), name);
  }

  ParameterKind kind_of(std::string_view name, const TensorType& type,
                        bool buffer) const {
    ParameterKind none(type.shape.size());
    if (buffer || plain_.kinds == nullptr) return none;
    const auto found = plain_.kinds->find({folded_name(name), type.shape});
    return found == plain_.kinds->end() ? none : found->second;
  }

  // --- one tensor -----------------------------------------------------------

  bool misfit(const NameRule& rule, const Renamed& tensor,
              const std::string& why) {
    refuse("do not fit this model: " + why)
        .fact(in_backticks(tensor.name) + " is " + type_text(tensor.type))
        .label(rule.where, "by this rule");
    return false;
  }

  bool reorder(const NameRule& rule, const std::vector<size_t>& order,
               Renamed& tensor) {
    if (order.empty()) return true;
    if (order.size() != tensor.type.shape.size()) {
      return misfit(rule, tensor,
                    "an order has " + plural(std::ssize(order), "dimension"));
    }
    tensor.type.shape = in_order(tensor.type.shape, order);
    tensor.kind = in_order(tensor.kind, order);
    tensor.moves.push_back({.order = order});
    return true;
  }

  bool reshape(const NameRule& rule, const std::vector<Expression>& shape,
               Renamed& tensor) {
    if (shape.empty()) return true;
    const size_t before = scope_.own.size();
    const Shape old = tensor.type.shape;
    for (size_t i = 0; i < old.size(); ++i) {
      scope_.own.emplace_back("d" + std::to_string(i), ConfigValue::of(old[i]));
    }
    Shape sizes;
    ParameterKind kinds;
    std::vector<TensorView::Dim> dims;
    for (const Expression& each : shape) {
      const auto size = scope_.integer(each, 1, kMaxDim);
      if (!size) return false;
      sizes.push_back(*size);
      kinds.push_back(dimension_kind(each, old, tensor.kind));
      dims.push_back(dimension_of(each, old, *size));
    }
    scope_.own.resize(before);
    const auto is = element_count(sizes);
    if (!is || is != element_count(old)) {
      return misfit(rule, tensor,
                    "the shape " + shape_text(sizes) +
                        " has a different number of elements");
    }
    tensor.type.shape = std::move(sizes);
    tensor.kind = std::move(kinds);
    tensor.moves.push_back({.shape = std::move(dims)});
    return true;
  }

  // Returns a part of a previous dimension, or a size of the model.
  static TensorView::Dim dimension_of(const Expression& each, const Shape& old,
                                      int64_t size) {
    for (size_t i = 0; i < old.size(); ++i) {
      const std::string name = "d" + std::to_string(i);
      const bool is_part =
          each.text == name || each.text.starts_with(name + " /");
      if (!is_part || old[i] % size != 0) continue;
      return {static_cast<int>(i), old[i] / size};
    }
    return {-1, size};
  }

  // Returns the kind of a dimension; one that is unchanged has its previous
  // kind.
  DimKind dimension_kind(const Expression& each, const Shape& old,
                         const ParameterKind& kinds) const {
    for (size_t i = 0; i < old.size(); ++i) {
      const std::string name = "d" + std::to_string(i);
      if (each.text == name) return kinds[i];
      if (each.leading_name() == name) return {};
    }
    return labelled_kind(each);
  }

  DimKind labelled_kind(const Expression& size) const {
    DimKind kind = size_kind(size, scope_);
    kind.axis = axis_label(kind);
    return kind;
  }

  bool split(const NameRule& rule, const NameMatch& match,
             const Renamed& whole) {
    const size_t at = *rule.split;
    if (at >= whole.type.shape.size()) {
      return misfit(rule, whole, "there is no such dimension to split");
    }
    const DimKind& dim = whole.kind[at];
    const bool by_part = dim.count == 0 && dim.parts.size() == rule.to.size();
    int64_t left = whole.type.shape[at];
    for (size_t i = 0; i < rule.to.size(); ++i) {
      const NamedTarget& target = rule.to[i];
      const auto size = scope_.integer(*target.size, 1, kMaxDim);
      if (!size) return false;
      left -= *size;
      if (left < 0) break;
      Renamed part = whole;
      part.in_parts = true;
      part.type.shape[at] = *size;
      if (by_part) {
        part.kind[at] = {dim.parts[i].label, dim.parts[i].count};
        part.kind[at].axis = axis_label(part.kind[at]);
      } else {
        part.kind[at] = labelled_kind(*target.size);
      }
      if (!reorder(rule, target.order, part) ||
          !reshape(rule, target.shape, part) ||
          !put({&rule, 0}, match, target, std::move(part), whole.name)) {
        return false;
      }
    }
    return left == 0 ||
           misfit(rule, whole, "the parts of a split do not make up the whole");
  }

  std::optional<std::string> composed_name(const NamePattern& pattern,
                                           std::string_view any) {
    std::string name;
    for (const NamePiece& piece : pattern.pieces) {
      if (piece.kind == PieceKind::Value) {
        const auto value = scope_.integer(*piece.value, 0, kMaxDim);
        if (!value) return std::nullopt;
        name += std::to_string(*value);
      } else {
        name += piece.kind == PieceKind::Any ? any : piece.text;
      }
    }
    return name;
  }

  bool put(const Candidate& each, const NameMatch& match,
           const NamedTarget& target, Renamed tensor, std::string_view old) {
    const NameRule& rule = *each.rule;
    auto name = composed_name(target.name, match.any);
    if (!name) return false;
    if (rule.stack.empty() && !rule.join) {
      tensor.name = *std::move(name);
      set_dtype(rule.dtype, tensor);
      // A tensor with unchanged name and layout needs no view.
      const bool changes = tensor.plain != tensor.name || !tensor.moves.empty();
      if (changes && !tensor.in_parts) {
        TensorView& view = views_[std::move(tensor.plain)];
        view.of = tensor.name;
        view.shape = std::move(tensor.plain_shape);
        view.moves = std::move(tensor.moves);
      }
      return add(std::move(tensor));
    }
    StackMember member{{}, each.from, module_of(old), std::move(tensor)};
    for (const auto& [what, at] : rule.stack) {
      const auto value = scope_.integer(what, 0, kMaxDim);
      if (!value) return false;
      member.at.push_back(*value);
    }
    const auto [group, is_new] = group_of_.try_emplace(*name, results_.size());
    if (is_new) {
      if (!add({*std::move(name), {}, {}, false})) return false;
      groups_[results_.size() - 1].rule = &rule;
    }
    TensorStack& stack = groups_[group->second];
    if (stack.rule != &rule) {
      return misfit(rule, member.tensor,
                    "two rules produce " + in_backticks(group->first));
    }
    stack.members.push_back(std::move(member));
    return true;
  }

  // Adds a result. Splits and added tensors may produce any number of them.
  bool add(Renamed tensor) {
    results_.push_back(std::move(tensor));
    if (std::ssize(results_) <= kMaxTensors) return true;
    refuse("give too many tensors")
        .fact("the limit is " + count_text(kMaxTensors));
    return false;
  }

  void set_dtype(std::optional<DType> dtype, Renamed& tensor) const {
    if (dtype) {
      tensor.type.dtype = *dtype;
    } else if (scheme_.vectors && tensor.type.shape.size() == 1) {
      tensor.type.dtype = *scheme_.vectors;
    }
  }

  // --- the result -----------------------------------------------------------

  bool check_unnamed() {
    if (unnamed_.empty()) return true;
    auto report = refuse("are missing for " +
                         plural(std::ssize(unnamed_), "kind") + " of tensors");
    int64_t shown = 0;
    for (const auto& [name, count] : unnamed_) {
      if (shown++ == kShownNames) {
        report.fact(".. and " + count_text(std::ssize(unnamed_) - kShownNames) +
                    " more");
        break;
      }
      report.fact(in_backticks(name) +
                  (count > 1 ? " ×" + count_text(count) : std::string()));
    }
    return false;
  }

  bool add_others() {
    for (const AddedTensor* each : added_) {
      scope_.own.resize(1);
      int64_t count = 1;
      if (each->count) {
        const auto found = scope_.integer(*each->count, 0, kMaxCount);
        if (!found) return false;
        count = *found;
        scope_.own.emplace_back(each->index, ConfigValue());
      }
      for (int64_t i = 0; i < count; ++i) {
        if (each->count) scope_.own.back().second = ConfigValue::of(i);
        const auto used = scope_.flag(each->when);
        if (!used || (*used && !add_other(*each))) return false;
      }
    }
    return true;
  }

  bool add_other(const AddedTensor& added) {
    auto name = composed_name(added.name, "");
    if (!name) return false;
    Renamed tensor{*std::move(name), {}, {}, false};
    for (const Expression& dim : added.shape) {
      const auto size = scope_.integer(dim, 1, kMaxDim);
      if (!size) return false;
      tensor.type.shape.push_back(*size);
      tensor.kind.push_back(labelled_kind(dim));
    }
    if (plain_.size() > 0) tensor.type.dtype = plain_.type(0).dtype;
    set_dtype(added.dtype, tensor);
    return add(std::move(tensor));
  }

  bool write() {
    for (auto& [at, stack] : groups_) {
      const auto problem = join_stack(stack, scheme_, results_[at], views_);
      if (problem) return misfit(*stack.rule, *problem->tensor, problem->why);
      set_dtype(stack.rule->dtype, results_[at]);
      stack.members = {};
    }
    ParameterKinds kinds;
    for (Renamed& tensor : results_) {
      if (!manifest_.add(tensor.name, tensor.type, Span{}, tensor.buffer)) {
        config_.refuse("", "the model's size exceeds 63 bits")
            .fact("at " + in_backticks(tensor.name) + ", " +
                  type_text(tensor.type));
        return false;
      }
      if (tensor.buffer) continue;
      if (!scheme_.axes.empty() && !label(tensor)) return false;
      const auto [entry, is_new] = kinds.try_emplace(
          {folded_name(tensor.name), tensor.type.shape}, tensor.kind);
      if (is_new) continue;
      for (size_t i = 0; i < tensor.kind.size(); ++i) {
        int64_t& block = entry->second[i].block;
        block = std::max(block, tensor.kind[i].block);
      }
    }
    manifest_.kinds = std::make_shared<const ParameterKinds>(std::move(kinds));
    manifest_.earlier_labels = scheme_.earlier;
    manifest_.views = std::make_shared<const TensorViews>(std::move(views_));
    if (const auto twice = manifest_.find_duplicate()) {
      refuse("do not fit this model: two tensors become " +
             in_backticks(manifest_.any_name(twice->first)));
      return false;
    }
    add_remarks();
    return true;
  }

  // Labels the last parameter added with the program's logical axes.
  bool label(const Renamed& tensor) {
    const auto is_named = [&](const NamedAxes& each) {
      return matches_glob(each.name, tensor.name);
    };
    const auto stack = std::ranges::find_if(scheme_.stacked, is_named);
    for (const NamedAxes& each : scheme_.axes) {
      if (!is_named(each)) continue;
      AxisLabels labels;
      for (const auto& axis : each.axes) {
        if (axis != kStackedAxes) {
          labels.push_back(axis);
        } else if (stack != scheme_.stacked.end()) {
          labels.insert(labels.end(), stack->axes.begin(), stack->axes.end());
        }
      }
      if (labels.size() != tensor.type.shape.size()) continue;
      manifest_.set_axes(manifest_.size() - 1, std::move(labels));
      return true;
    }
    refuse("do not give the logical axes of " + in_backticks(tensor.name))
        .fact("it is " + type_text(tensor.type));
    return false;
  }

  void add_remarks() {
    manifest_.remarks.push_back(
        "using the names of " + in_backticks(scheme_.name) +
        (scheme_.summary.empty() ? "" : " (" + scheme_.summary + ")"));
    for (const auto& [why, what] : dropped_) {
      manifest_.remarks.push_back(
          plural(what.second, "tensor") + " of the checkpoint " +
          (what.second == 1 ? "is" : "are") + " left out, " +
          in_backticks(what.first) + ": " + why);
    }
  }

  const NameScheme& scheme_;
  ConfigReader& config_;
  const Manifest& plain_;
  Manifest& manifest_;
  ValueScope scope_;
  std::vector<const NameRule*> rules_;
  std::vector<const AddedTensor*> added_;
  std::unordered_map<std::string, std::vector<Candidate>> candidates_;
  std::map<std::string, int64_t> unnamed_;  // by folded name
  // Keyed by the reason: the first folded name and the number of tensors.
  std::map<std::string, std::pair<std::string, int64_t>> dropped_;
  TensorViews views_;
  std::vector<Renamed> results_;
  std::unordered_map<std::string, size_t> group_of_;  // by name of the result
  std::map<size_t, TensorStack> groups_;              // by index of the result
};

}  // namespace

std::shared_ptr<const Architecture> with_values_of(
    const NameScheme& scheme, const std::shared_ptr<const Architecture>& all,
    ConfigReader& config) {
  if (!scheme.architectures.contains(all->name)) {
    config
        .refuse("model_type", "names of " + in_backticks(scheme.name) +
                                  " are not available for architecture " +
                                  in_backticks(all->name))
        .help(
            "`shardplan list architectures` shows the schemes of each; "
            "`--scheme FILE` reads your own");
    return nullptr;
  }
  auto result = std::make_shared<Architecture>(*all);
  for (const ValueRule& value : scheme.values) {
    if (all->find_value(value.name) != nullptr) {
      config
          .refuse("", "both architecture " + in_backticks(all->name) +
                          " and names of " + in_backticks(scheme.name) +
                          " define a value " + in_backticks(value.name))
          .label(value.where, "here");
      return nullptr;
    }
    result->values.push_back(value);
  }
  return result;
}

bool rename_tensors(const NameScheme& scheme, ConfigValues& values,
                    const ArchitectureClass& model_class, const Manifest& plain,
                    const TensorSteps& steps, Manifest& manifest) {
  return Renaming(scheme, values, model_class, plain, manifest).run(steps);
}

}  // namespace shardplan
