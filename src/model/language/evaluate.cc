// SPDX-License-Identifier: Apache-2.0
// Evaluates expressions: the implementation of evaluate() of expression.h.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "model/language/expression.h"

namespace shardplan {
namespace {

using Operator = ExpressionNode::Kind;

class Evaluator {
 public:
  Evaluator(const Expression& expression, const FindValue& find, Work& work,
            std::string& why)
      : nodes_(expression.nodes), find_(find), work_(work), why_(why) {}

  // Returns the value of a node, or null if it has none. A computed value is
  // stored in `hold`; constants and the values of names are not copied.
  const ConfigValue* value(int index, ConfigValue& hold) {
    const Nested level;
    if (level.is_too_deep()) {
      work_.stop_too_deep();
      return none("names and brackets nest too deeply");
    }
    if (!work_.spend()) return none("it takes too many steps to compute");
    const ExpressionNode& node = nth(nodes_, index);
    switch (node.kind) {
      case Operator::Constant:
        return &node.constant;
      case Operator::Name:
        return find_(node.name, why_);
      case Operator::If: {
        const auto condition = flag(node.first);
        if (!condition) return nullptr;
        return value(*condition ? node.second : node.third, hold);
      }
      default:
        if (auto result = computed(index)) {
          hold = *std::move(result);
          return &hold;
        }
        return nullptr;
    }
  }

 private:
  const ConfigValue* none(std::string why) {
    why_ = std::move(why);
    return nullptr;
  }
  std::nullopt_t fail(std::string why) {
    why_ = std::move(why);
    return std::nullopt;
  }

  std::optional<ConfigValue> computed(int index) {
    const ExpressionNode& node = nth(nodes_, index);
    switch (node.kind) {
      case Operator::Or:
      case Operator::And:
      case Operator::Not: {
        auto result = flag(node.first);
        if (!result) return std::nullopt;
        if (node.kind == Operator::Not) return ConfigValue::flag(!*result);
        // The second operand is evaluated only if the first does not decide.
        if (*result != (node.kind == Operator::Or)) result = flag(node.second);
        if (!result) return std::nullopt;
        return ConfigValue::flag(*result);
      }
      case Operator::Ceil:
        return ceiling(node.first);
      case Operator::Floor:
      case Operator::Root:
      case Operator::Logarithm:
      case Operator::Negate: {
        ConfigValue hold;
        const ConfigValue* const of = number(node.first, hold);
        return of != nullptr ? unary(node.kind, *of) : std::nullopt;
      }
      case Operator::Length: {
        ConfigValue hold;
        const auto* const of = list(node.first, hold);
        if (of == nullptr) return std::nullopt;
        return ConfigValue::of(std::ssize(*of));
      }
      case Operator::Item:
        return item(node);
      case Operator::Count:
        return count(node);
      default:
        return binary(node);
    }
  }

  std::optional<bool> flag(int index) {
    ConfigValue hold;
    const ConfigValue* const found = value(index, hold);
    if (found == nullptr) return std::nullopt;
    if (found->kind == ConfigValue::Kind::Flag) return found->integer != 0;
    return fail("a condition is " + std::string(value_kind_name(found->kind)) +
                ", not true or false");
  }

  const ConfigValue* number(int index, ConfigValue& hold) {
    const ConfigValue* const found = value(index, hold);
    if (found == nullptr || found->is_number()) return found;
    return none("expected a number, not " +
                std::string(value_kind_name(found->kind)));
  }

  const std::vector<int64_t>* list(int index, ConfigValue& hold) {
    const ConfigValue* const found = value(index, hold);
    if (found == nullptr) return nullptr;
    if (found->kind == ConfigValue::Kind::Integers) {
      return found->integers.get();
    }
    none("expected a list, not " + std::string(value_kind_name(found->kind)));
    return nullptr;
  }

  std::optional<int64_t> integer_of(int index) {
    ConfigValue hold;
    const ConfigValue* const found = number(index, hold);
    if (found == nullptr) return std::nullopt;
    if (found->kind == ConfigValue::Kind::Integer) return found->integer;
    return fail("expected an integer, not a number");
  }

  // Spends the work of reading that many list items. If the work runs out here,
  // the next call of value() fails.
  void look_at(int64_t items) { work_.spend(items / 16); }

  std::optional<ConfigValue> item(const ExpressionNode& node) {
    ConfigValue hold;
    const auto* const of = list(node.first, hold);
    const auto at = of != nullptr ? integer_of(node.second) : std::nullopt;
    if (!at) return std::nullopt;
    const auto size = std::ssize(*of);
    if (*at >= 0 && *at < size) {
      return ConfigValue::of(nth(*of, *at));
    }
    return fail("index " + std::to_string(*at) +
                " is out of range for a list of " + std::to_string(size));
  }

  // Counts how often an item occurs among the first items of a list.
  std::optional<ConfigValue> count(const ExpressionNode& node) {
    ConfigValue hold;
    const auto* const of = list(node.first, hold);
    const auto wanted = of != nullptr ? integer_of(node.second) : std::nullopt;
    const auto end = wanted ? integer_of(node.third) : std::nullopt;
    if (!end) return std::nullopt;
    if (*end < 0 || *end > std::ssize(*of)) {
      return fail("cannot take " + std::to_string(*end) +
                  " items of a list of " + std::to_string(of->size()));
    }
    look_at(*end);
    return ConfigValue::of(
        int64_t{std::count(of->begin(), of->begin() + *end, *wanted)});
  }

  // `rounded` is the value of a number without its fraction.
  std::optional<ConfigValue> whole(double rounded) {
    if (!(std::abs(rounded) < 9e18)) return fail("a number exceeds 63 bits");
    return ConfigValue::of(static_cast<int64_t>(rounded));
  }

  std::optional<ConfigValue> unary(Operator kind, const ConfigValue& of) {
    const bool is_integer = of.kind == ConfigValue::Kind::Integer;
    const double real = of.as_real();
    switch (kind) {
      case Operator::Root:
        if (real < 0) return fail("a negative number has no square root");
        return ConfigValue::of(std::sqrt(real));
      case Operator::Logarithm:
        if (!(real > 0)) return fail("only a number above 0 has a log");
        return ConfigValue::of(std::log(real));
      case Operator::Negate: {
        if (!is_integer) return ConfigValue::of(-real);
        const auto result = checked_mul(of.integer, -1);
        if (!result) return fail("a number exceeds 63 bits");
        return ConfigValue::of(*result);
      }
      case Operator::Floor:
        return is_integer ? of : whole(std::floor(real));
      default:
        return is_integer ? of : whole(std::ceil(real));
    }
  }

  // The operands of a binary node. A pointer is null if its operand has no
  // value.
  struct Operands {
    ConfigValue hold_a, hold_b;
    const ConfigValue* a = nullptr;
    const ConfigValue* b = nullptr;
    bool are_integers() const {
      return a->kind == ConfigValue::Kind::Integer && b->kind == a->kind;
    }
  };
  bool operands(const ExpressionNode& node, bool only_numbers, Operands& of) {
    const auto read = [&](int index, ConfigValue& hold) {
      return only_numbers ? number(index, hold) : value(index, hold);
    };
    of.a = read(node.first, of.hold_a);
    if (of.a != nullptr) of.b = read(node.second, of.hold_b);
    return of.b != nullptr;
  }

  // Rounds up. A quotient of integers is rounded up directly, because `/` would
  // refuse a remainder.
  std::optional<ConfigValue> ceiling(int index) {
    const ExpressionNode& node = nth(nodes_, index);
    Operands of;
    if (node.kind == Operator::Divide) {
      if (!operands(node, true, of)) return std::nullopt;
      if (of.are_integers()) {
        if (of.a->integer < 0 || of.b->integer < 1) {
          return fail("ceil needs a quotient of sizes");
        }
        return ConfigValue::of(ceil_div(of.a->integer, of.b->integer));
      }
    }
    of.a = number(index, of.hold_a);
    return of.a != nullptr ? unary(Operator::Ceil, *of.a) : std::nullopt;
  }

  std::optional<ConfigValue> binary(const ExpressionNode& node) {
    const bool of_any_kind = node.kind == Operator::Equal ||
                             node.kind == Operator::Unequal ||
                             node.kind == Operator::In;
    Operands of;
    if (!operands(node, !of_any_kind, of)) return std::nullopt;
    const ConfigValue& a = *of.a;
    const ConfigValue& b = *of.b;
    const double x = a.as_real();
    const double y = b.as_real();
    switch (node.kind) {
      case Operator::Equal:
      case Operator::Unequal:
        return equality(node.kind, a, b);
      case Operator::In:
        return membership(a, b);
      case Operator::Less:
        return ConfigValue::flag(x < y);
      case Operator::LessEqual:
        return ConfigValue::flag(x <= y);
      case Operator::Greater:
        return ConfigValue::flag(x > y);
      case Operator::GreaterEqual:
        return ConfigValue::flag(x >= y);
      case Operator::Min:
        return x < y ? a : b;
      case Operator::Max:
        return x < y ? b : a;
      default:
        return of.are_integers() ? integer(node.kind, a.integer, b.integer)
                                 : real(node.kind, x, y);
    }
  }

  std::optional<ConfigValue> equality(Operator kind, const ConfigValue& a,
                                      const ConfigValue& b) {
    const bool numbers = a.is_number() && b.is_number();
    if (!numbers && a.kind != b.kind) {
      return fail("cannot compare " + std::string(value_kind_name(a.kind)) +
                  " with " + std::string(value_kind_name(b.kind)));
    }
    if (a.kind == ConfigValue::Kind::Integers) look_at(std::ssize(*a.integers));
    const bool same = numbers ? a.as_real() == b.as_real() : a == b;
    return ConfigValue::flag(same == (kind == Operator::Equal));
  }

  std::optional<ConfigValue> membership(const ConfigValue& a,
                                        const ConfigValue& b) {
    if (a.kind != ConfigValue::Kind::Integer ||
        b.kind != ConfigValue::Kind::Integers) {
      return fail("`in` needs an integer and a list of integers");
    }
    const std::vector<int64_t>& list = *b.integers;
    const auto at = std::ranges::find(list, a.integer);
    look_at(at - list.begin());
    return ConfigValue::flag(at != list.end());
  }

  std::optional<ConfigValue> integer(Operator kind, int64_t a, int64_t b) {
    std::optional<int64_t> result;
    if (kind == Operator::Add) {
      result = checked_add(a, b);
    } else if (kind == Operator::Subtract) {
      int64_t difference = 0;
      if (!__builtin_sub_overflow(a, b, &difference)) result = difference;
    } else if (kind == Operator::Multiply) {
      result = checked_mul(a, b);
    } else {
      if (b < 1) return fail("division by " + std::to_string(b));
      const int64_t rest = (a % b + b) % b;
      if (kind == Operator::Remainder) {
        result = rest;
      } else if (kind == Operator::FloorDivide) {
        result = (a - rest) / b;
      } else if (rest != 0) {
        return fail(std::to_string(a) + " / " + std::to_string(b) +
                    " leaves a remainder");
      } else {
        result = a / b;
      }
    }
    if (!result) return fail("a number exceeds 63 bits");
    return ConfigValue::of(*result);
  }

  std::optional<ConfigValue> real(Operator kind, double a, double b) {
    switch (kind) {
      case Operator::Add:
        return ConfigValue::of(a + b);
      case Operator::Subtract:
        return ConfigValue::of(a - b);
      case Operator::Multiply:
        return ConfigValue::of(a * b);
      case Operator::Divide:
        if (b == 0) return fail("division by 0");
        return ConfigValue::of(a / b);
      default:
        return fail("`//` and `%` need integers");
    }
  }

  const std::vector<ExpressionNode>& nodes_;
  const FindValue& find_;
  Work& work_;
  std::string& why_;
};

}  // namespace

std::optional<ConfigValue> evaluate(const Expression& expression,
                                    const FindValue& find, Work& work,
                                    std::string& why) {
  ConfigValue hold;
  const ConfigValue* const found =
      Evaluator(expression, find, work, why)
          .value(static_cast<int>(expression.nodes.size()) - 1, hold);
  if (found == nullptr) return std::nullopt;
  return *found;
}

}  // namespace shardplan
