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
// described in docs/formats/architecture.md.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/source.h"

namespace shardplan {

// What a name stands for.
struct ConfigValue {
  enum class Kind : uint8_t { Integer, Real, Flag, Text, Integers };
  Kind kind = Kind::Integer;
  int64_t integer = 0;  // Flag: 0 or 1
  double real = 0;
  std::string text;
  std::vector<int64_t> integers;

  bool operator==(const ConfigValue&) const = default;

  static ConfigValue of(int64_t integer);
  static ConfigValue flag(bool value);
  static ConfigValue of(double real);
  static ConfigValue of(std::string text);
  static ConfigValue of(std::vector<int64_t> integers);

  bool is_number() const { return kind <= Kind::Real; }
  double as_real() const {
    return kind == Kind::Real ? real : static_cast<double>(integer);
  }
};
std::string_view value_kind_name(
    ConfigValue::Kind kind);  // "an integer", "text"

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
  };
  Kind kind = Kind::Constant;
  // Numbers of nodes, -1 for none.
  int first = -1;
  int second = -1;
  int third = -1;
  ConfigValue constant;
  std::string name;
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
// bits. An empty reason means that it has been reported already.
std::optional<ConfigValue> evaluate(const Expression& expression,
                                    const FindValue& find, std::string& why);

}  // namespace shardplan
