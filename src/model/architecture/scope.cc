// SPDX-License-Identifier: Apache-2.0
#include "model/architecture/scope.h"

#include <algorithm>

#include "base/checked.h"
#include "base/text.h"

namespace shardplan {
namespace {

// Returns the value of a table in the current layer.
const ConfigValue* in_layer(const ValueScope& scope, std::string_view name,
                            std::string& why) {
  const auto own =
      std::find_if(scope.own.rbegin(), scope.own.rend(), [](const auto& each) {
        return each.first == "i" &&
               each.second.kind == ConfigValue::Kind::Integer;
      });
  if (own == scope.own.rend()) {
    why = in_backticks(name) + " is defined per layer";
    return nullptr;
  }
  const auto* const table = scope.values->find_table(name, why);
  if (table == nullptr) return nullptr;
  const int64_t layer = own->second.integer;
  if (layer >= 0 && layer < std::ssize(*table)) return &nth(*table, layer);
  why = in_backticks(name) + " has " + plural(std::ssize(*table), "item") +
        ", for layer " + std::to_string(layer);
  return nullptr;
}

// Returns "`heads / 2` of architecture `tiny`".
std::string shown(const Expression& expression, const ValueScope& scope) {
  return in_backticks(expression.text) + " of architecture " +
         in_backticks(scope.values->architecture().name);
}

// Appends what distinguishes a value, or the lack of one, from other values.
void append_value(std::string& key, const std::optional<ConfigValue>& value,
                  Work& work) {
  if (!value) {
    key += "?;";
    return;
  }
  key += std::to_string(static_cast<int>(value->kind)) + ":" +
         std::to_string(value->integer) + ":" + std::to_string(value->real) +
         ":" + std::to_string(value->text.size()) + ":" + value->text;
  if (value->integers != nullptr) {
    work.spend(std::ssize(*value->integers));
    for (const int64_t each : *value->integers) {
      key += "," + std::to_string(each);
    }
  }
  key += ';';
}

}  // namespace

const ConfigValue* ValueScope::find(std::string_view name,
                                    std::string& why) const {
  values->work().spend(std::ssize(own) / 16);
  for (auto each = own.rbegin(); each != own.rend(); ++each) {
    if (each->first == name) return &each->second;
  }
  if (shared) return nullptr;
  const ValueRule* const rule = values->architecture().find_value(name);
  if (rule != nullptr && rule->kind == ValueRule::Kind::Table) {
    return in_layer(*this, name, why);
  }
  return values->find(name, why);
}

std::string ValueScope::filled(const std::string& text) const {
  return filled_text(text, [this](std::string_view name) {
    std::string why;
    return find(name, why);
  });
}

std::optional<ConfigValue> ValueScope::quiet(const Expression& expression,
                                             std::string& why) const {
  return evaluate(
      expression,
      [&](std::string_view name, std::string& reason) {
        return find(name, reason);
      },
      values->work(), why);
}

std::optional<ConfigValue> ValueScope::value(
    const Expression& expression) const {
  std::string why;
  auto found = quiet(expression, why);
  if (!found && !why.empty() && values->work().is_spent()) {
    return values->refuse_spent_work();
  }
  if (!found && !why.empty()) {
    values->config()
        .refuse("", shown(expression, *this) + " has no value: " + why)
        .label(expression.where, "here");
  }
  return found;
}

std::optional<ConfigValue> ValueScope::of_kind(const Expression& expression,
                                               ConfigValue::Kind kind) const {
  auto found = value(expression);
  if (!found || found->kind == kind) return found;
  values->config()
      .refuse("", shown(expression, *this) + " is " +
                      std::string(value_kind_name(found->kind)) + ", not " +
                      std::string(value_kind_name(kind)))
      .label(expression.where, "here");
  return std::nullopt;
}

std::optional<bool> ValueScope::flag(const std::optional<Expression>& condition,
                                     bool otherwise) const {
  if (!condition) return otherwise;
  const auto found = of_kind(*condition, ConfigValue::Kind::Flag);
  if (!found) return std::nullopt;
  return found->integer != 0;
}

std::optional<int64_t> ValueScope::integer(const Expression& expression,
                                           int64_t least, int64_t most) const {
  const auto found = of_kind(expression, ConfigValue::Kind::Integer);
  if (!found) return std::nullopt;
  if (found->integer >= least && found->integer <= most) return found->integer;
  return values->config()
      .refuse("", shown(expression, *this) + " is " +
                      std::to_string(found->integer))
      .label(expression.where, "here")
      .fact("it must be " + count_text(least) + " to " + count_text(most));
}

std::optional<int64_t> ValueScope::size(const DimTree& dim) const {
  if (dim.parts.empty()) return integer(dim.size, 1, kMaxDim);
  int64_t sum = 0;
  for (const DimTreePart& part : dim.parts) {
    const auto rows = size(part.dim);
    if (!rows) return std::nullopt;
    sum += *rows;
  }
  if (!dim.per) return sum;
  const auto times = integer(*dim.per, 1, kMaxDim);
  const auto product = times ? checked_mul(*times, sum) : std::nullopt;
  if (product && *product <= kMaxDim) return product;
  if (times) {
    values->config()
        .refuse("", "a dimension is too large")
        .label(dim.where, "here");
  }
  return std::nullopt;
}

std::optional<DimKind> ValueScope::kind(const DimTree& dim) const {
  if (dim.parts.empty()) return size_kind(dim.size, *this);
  DimKind result;
  if (dim.per) {
    const auto count = integer(*dim.per, 1, kMaxDim);
    if (!count) return std::nullopt;
    result.label = std::string(dim.per->leading_name());
    result.count = *count;
  }
  for (const auto& [name, part] : dim.parts) {
    const auto rows = size(part);
    const auto inner = rows ? kind(part) : std::nullopt;
    if (!inner) return std::nullopt;
    result.parts.push_back({name, inner->label, *rows, inner->count});
  }
  return result;
}

bool ValueScope::varies(const Expression& expression,
                        const std::string& index) const {
  const Architecture& all = values->architecture();
  values->work().spend(std::ssize(expression.nodes));
  const auto names = expression.names();
  return std::ranges::any_of(names, [&](std::string_view name) {
    if (name == index) return true;
    const ValueRule* const rule = all.find_value(name);
    return rule != nullptr && rule->kind == ValueRule::Kind::Table;
  });
}

bool ValueScope::append_values(const std::vector<const Expression*>& varying,
                               int64_t layer, std::string& key) const {
  std::string why;
  for (const Expression* expression : varying) {
    const auto found = quiet(*expression, why);
    append_value(key, found, values->work());
    // The expression depends on another index, or is not needed here. The layer
    // then counts as different from all others.
    if (!found) key += std::to_string(layer);
  }
  if (!values->work().is_spent()) return true;
  values->refuse_spent_work();
  return false;
}

std::optional<ValueScope> ValueScope::within(
    const std::vector<BlockArgument>& takes, bool is_shared,
    const std::vector<std::pair<std::string, Expression>>& given) const {
  ValueScope inner{values, is_shared, {}};
  for (const BlockArgument& argument : takes) {
    values->work().spend(1 + std::ssize(given) / 8);
    const auto one = std::ranges::find_if(
        given, [&](const auto& a) { return a.first == argument.name; });
    std::optional<ConfigValue> found;
    if (one != given.end()) {
      found = value(one->second);
    } else {
      // A default may refer to an earlier argument.
      values->work().spend(static_cast<int64_t>(own.size() + inner.own.size()));
      ValueScope both = *this;
      both.own.insert(both.own.end(), inner.own.begin(), inner.own.end());
      found = both.value(*argument.otherwise);
    }
    if (!found) return std::nullopt;
    inner.own.emplace_back(argument.name, *std::move(found));
  }
  return inner;
}

std::string numbered_name(std::string name, const std::string& index,
                          int64_t value) {
  const std::string mark = "{" + index + "}";
  const size_t at = name.find(mark);
  return at == name.npos ? name
                         : name.replace(at, mark.size(), std::to_string(value));
}

std::string joined_name(const std::string& prefix, const std::string& name) {
  if (prefix.empty() || name.empty()) return prefix + name;
  return prefix + "." + name;
}

DimKind size_kind(const Expression& expression, const ValueScope& scope) {
  DimKind result;
  result.label = std::string(expression.leading_name());
  if (result.label.empty() || expression.nodes.size() == 1) return result;
  std::string why;
  const ConfigValue* const count = scope.find(result.label, why);
  if (count != nullptr && count->kind == ConfigValue::Kind::Integer) {
    result.count = count->integer;
  }
  return result;
}

}  // namespace shardplan
