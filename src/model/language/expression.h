// SPDX-License-Identifier: Apache-2.0
// Expression: a formula over the sizes of a model in an architecture file:
// `heads * head_dim`, `(i + 1) % period == 0`, `not tied`.
//
// Operators, loosest first: or; and; not; in == != < <= > >=; + -; * / // %;
// unary -; list[i], counted from 0. Functions: floor(a), ceil(a), min(a, b),
// max(a, b), sqrt(a), log(a), length(list); count(list, item, n), the number of
// times the item occurs among the first n; and if(condition, a, b), which
// computes only the chosen branch. `a / b` of integers must leave no remainder,
// except directly inside ceil; `//` rounds down. Texts are in single or double
// quotes. docs/formats/architecture.md describes the language. Statements
// (statement.h) have the same operators.
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

// The value of a name or an expression.
struct ConfigValue {
  enum class Kind : uint8_t { Integer, Real, Flag, Text, Integers };
  Kind kind = Kind::Integer;
  int64_t integer = 0;  // 0 or 1 for a Flag
  double real = 0;
  std::string text = {};
  // Not null if the kind is Integers. Copies of a value share the list.
  std::shared_ptr<const std::vector<int64_t>> integers = {};

  bool operator==(const ConfigValue& other) const;

  static ConfigValue of(int64_t integer) { return {.integer = integer}; }
  static ConfigValue of(double real) {
    return {.kind = Kind::Real, .real = real};
  }
  static ConfigValue of(std::string text) {
    return {.kind = Kind::Text, .text = std::move(text)};
  }
  static ConfigValue of(std::vector<int64_t> list) {
    return {.kind = Kind::Integers,
            .integers =
                std::make_shared<const std::vector<int64_t>>(std::move(list))};
  }
  static ConfigValue flag(bool value) {
    return {.kind = Kind::Flag, .integer = value ? 1 : 0};
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
    Call,  // only in statements: `reshape(x, [batch, length])`
    List,  // only in statements: `[batch, length]`
  };
  Kind kind = Kind::Constant;
  // Indices of the operand nodes, -1 for none.
  int first = -1;
  int second = -1;
  int third = -1;
  ConfigValue constant = {};
  std::string name = {};  // for Name and Call
  // Indices of a List's items or a Call's positional arguments; `named` has a
  // Call's named arguments.
  std::vector<int> arguments = {};
  std::vector<std::pair<std::string, int>> named = {};
  // The node's bytes [begin, end) in the text of the expression or statement,
  // including parentheses around it.
  size_t begin = 0;
  size_t end = 0;
};

struct Expression {
  std::string text;
  Span where;
  std::vector<ExpressionNode> nodes;  // the last node is the root

  // Returns all names in the expression, including repetitions.
  std::vector<std::string_view> names() const;
  bool mentions(std::string_view name) const;
  // Returns the first name in a product, which labels the dimension: `heads`
  // for `heads * head_dim`, `mlp` for `2 * mlp`. Returns "" if there is none.
  std::string_view leading_name() const;
};

// Maximum length in bytes of a text in an expression, and of a text in a config
// that becomes a value. It is limited because values are copied.
inline constexpr size_t kMaxTextValue = 4096;

// Parses an expression. Returns nothing, and the reason in `why`, if the text
// is not one.
std::optional<Expression> parse_expression(std::string_view text, Span where,
                                           std::string& why);
// Returns the expression that consists of a constant.
Expression constant_expression(ConfigValue value, Span where);

// Looks up the value of a name. Returns null if it has none, with the reason in
// `why` or with an empty `why`.
using FindValue =
    std::function<const ConfigValue*(std::string_view name, std::string& why)>;

// Evaluates an expression. Returns nothing, and the reason in `why`, if it has
// no value: a name has none, an operand is of the wrong kind, a division leaves
// a remainder, a result exceeds 63 bits, references nest too deeply, or no work
// is left. An empty reason means that the error has already been reported.
std::optional<ConfigValue> evaluate(const Expression& expression,
                                    const FindValue& find, Work& work,
                                    std::string& why);

}  // namespace shardplan
