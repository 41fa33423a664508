// SPDX-License-Identifier: Apache-2.0
// Expression: what an architecture file computes from the sizes of a model:
// `heads * head_dim`, `(i + 1) % period == 0`, `not tied`.
//
// Operators, loosest first: or; and; not; in == != < <= > >=; + -; * / // %;
// unary -; list[i], counted from 0. Functions: floor(a), ceil(a), min(a, b),
// max(a, b), sqrt(a), length(list), count(list, item, n), which is how often
// the item is among the first n, and if(condition, a, b), of which only the
// branch taken is computed. `a / b` of integers must leave no rest, but within
// ceil;
// `//` rounds down. Texts are in single or double quotes. The language is
// described in docs/formats/architecture.md. Statements (statement.h) have the
// same operators.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/source.h"
#include "core/work.h"

namespace shardplan {

// What a name stands for.
struct ConfigValue {
  enum class Kind : uint8_t { Integer, Real, Flag, Text, Integers };
  Kind kind = Kind::Integer;
  int64_t integer = 0;  // Flag: 0 or 1
  double real = 0;
  std::string text;
  // Of Integers, never null: a copy of a value shares the list.
  std::shared_ptr<const std::vector<int64_t>> integers;

  bool operator==(const ConfigValue& other) const;

  static ConfigValue of(int64_t integer) {
    return {Kind::Integer, integer, 0, {}, {}};
  }
  static ConfigValue flag(bool value) {
    return {Kind::Flag, value ? 1 : 0, 0, {}, {}};
  }
  static ConfigValue of(double real) { return {Kind::Real, 0, real, {}, {}}; }
  static ConfigValue of(std::string text) {
    return {Kind::Text, 0, 0, std::move(text), {}};
  }
  static ConfigValue of(std::vector<int64_t> integers) {
    return {Kind::Integers,
            0,
            0,
            {},
            std::make_shared<const std::vector<int64_t>>(std::move(integers))};
  }

  bool is_number() const { return kind <= Kind::Real; }
  double as_real() const {
    return kind == Kind::Real ? real : static_cast<double>(integer);
  }
};
std::string_view value_kind_name(
    ConfigValue::Kind kind);  // "an integer", "a string"

struct ExpressionNode {
  enum class Kind : uint8_t {
    Constant,
    Name,
    Or,
    And,
    Not,
    In,
    Equal,
    Unequal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Remainder,
    Negate,
    Ceil,
    Floor,
    Min,
    Max,
    Root,
    Logarithm,
    Length,
    Item,
    Count,
    If,
    Call,  // of a statement alone: `reshape(x, [batch, length])`
    List,  // of a statement alone: `[batch, length]`
  };
  Kind kind = Kind::Constant;
  // Numbers of nodes, -1 for none.
  int first = -1;
  int second = -1;
  int third = -1;
  ConfigValue constant;
  std::string name;  // of a name or a call
  // Of a call or a list; those of a call that have a name stand in `named`.
  std::vector<int> arguments;
  std::vector<std::pair<std::string, int>> named;
  // Its text within that of the expression or statement, with brackets around.
  size_t begin = 0;
  size_t end = 0;
};

struct Expression {
  std::string text;
  Span where;
  std::vector<ExpressionNode> nodes;  // the root is the last

  // Every name in it, each time it occurs.
  std::vector<std::string_view> names() const;
  bool mentions(std::string_view name) const;
  // The name that stands first in a product: `heads` of `heads * head_dim`,
  // `mlp` of `2 * mlp`; empty where there is none. It is the dimension's label.
  std::string_view leading_name() const;
};

// The longest text in an expression, or of a config where it is a value:
// values are copied.
inline constexpr size_t kMaxTextValue = 4096;

// Empty, and the reason in `why`, where the text is no expression.
std::optional<Expression> parse_expression(std::string_view text, Span where,
                                           std::string& why);
// The expression that is this value.
Expression constant_expression(ConfigValue value, Span where);

// The value of a name; null, with or without a reason, where it has none.
using FindValue =
    std::function<const ConfigValue*(std::string_view name, std::string& why)>;

// Empty, and the reason in `why`, where it has no value: a name that has none,
// operands of the wrong kind, a division that leaves a rest, a result beyond 63
// bits, references that nest too deep, no work left. An empty reason means that
// it has been reported already.
std::optional<ConfigValue> evaluate(const Expression& expression,
                                    const FindValue& find, Work& work,
                                    std::string& why);

}  // namespace shardplan
