// SPDX-License-Identifier: Apache-2.0
#include "model/architecture/expression.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/checked.h"
#include "base/text.h"

namespace shardplan {
namespace {

using Operator = ExpressionNode::Kind;

constexpr int kMaxDepth = 50;
constexpr size_t kMaxNodes = 500;

struct BinaryOperator {
  std::string_view text;
  Operator kind;
};
// By precedence, loosest first; of one level the longer spelling first.
constexpr std::array<BinaryOperator, 7> kComparisons = {{
    {"==", Operator::Equal},
    {"!=", Operator::Unequal},
    {"<=", Operator::LessEqual},
    {">=", Operator::GreaterEqual},
    {"<", Operator::Less},
    {">", Operator::Greater},
    {"in", Operator::In},
}};
constexpr std::array<BinaryOperator, 2> kSums = {
    {{"+", Operator::Add}, {"-", Operator::Subtract}}};
constexpr std::array<BinaryOperator, 4> kProducts = {
    {{"*", Operator::Multiply},
     {"//", Operator::FloorDivide},
     {"/", Operator::Divide},
     {"%", Operator::Remainder}}};

struct Function {
  std::string_view name;
  Operator kind;
  int arguments;
};
constexpr std::array<Function, 9> kFunctions = {
    {{"ceil", Operator::Ceil, 1},
     {"floor", Operator::Floor, 1},
     {"min", Operator::Min, 2},
     {"max", Operator::Max, 2},
     {"sqrt", Operator::Root, 1},
     {"log", Operator::Logarithm, 1},
     {"length", Operator::Length, 1},
     {"count", Operator::Count, 3},
     {"if", Operator::If, 3}}};

bool begins_name(char c) { return is_letter(c) || c == '_'; }
bool continues_name(char c) {
  return begins_name(c) || is_digit(c) || c == '.';
}

class Parser {
 public:
  Parser(std::string_view text, std::string& why) : rest_(text), why_(why) {}

  std::optional<std::vector<ExpressionNode>> run() {
    const int root = disjunction();
    skip_blanks();
    if (root >= 0 && !rest_.empty()) {
      fail("unexpected " + in_backticks(word()));
    }
    if (root < 0 || !why_.empty()) return std::nullopt;
    return std::move(nodes_);
  }

 private:
  int fail(std::string why) {
    if (why_.empty()) why_ = std::move(why);
    return -1;
  }

  void skip_blanks() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\n')) {
      rest_.remove_prefix(1);
    }
  }
  bool take(std::string_view token) {
    skip_blanks();
    if (!rest_.starts_with(token)) return false;
    const bool is_word = begins_name(token.front());
    if (is_word && rest_.size() > token.size() &&
        continues_name(rest_[token.size()])) {
      return false;
    }
    rest_.remove_prefix(token.size());
    return true;
  }
  std::string word() const {
    size_t end = 0;
    while (end < rest_.size() && continues_name(rest_[end])) ++end;
    return std::string(rest_.substr(0, std::max<size_t>(end, 1)));
  }

  int add(ExpressionNode node) {
    if (nodes_.size() >= kMaxNodes) return fail("it is too long");
    nodes_.push_back(std::move(node));
    return static_cast<int>(nodes_.size()) - 1;
  }
  int add(Operator kind, int first, int second = -1, int third = -1) {
    if (first < 0 || !why_.empty()) return -1;
    return add({kind, first, second, third, {}, {}});
  }

  int disjunction() {
    int left = conjunction();
    while (left >= 0 && take("or"))
      left = add(Operator::Or, left, conjunction());
    return left;
  }
  int conjunction() {
    int left = negation();
    while (left >= 0 && take("and"))
      left = add(Operator::And, left, negation());
    return left;
  }
  int negation() {
    if (!take("not")) return comparison();
    if (++depth_ > kMaxDepth) return fail("it nests too deeply");
    const int of = negation();
    --depth_;
    return add(Operator::Not, of);
  }
  int comparison() {
    const int left = sum();
    for (const auto& [text, kind] : kComparisons) {
      if (left >= 0 && take(text)) return add(kind, left, sum());
    }
    return left;
  }
  int sum() {
    return chain(kSums, [this] { return product(); });
  }
  int product() {
    return chain(kProducts, [this] { return factor(); });
  }
  template <size_t N, typename Next>
  int chain(const std::array<BinaryOperator, N>& operators, const Next& next) {
    int left = next();
    while (left >= 0) {
      const auto found = std::ranges::find_if(
          operators, [&](const BinaryOperator& o) { return take(o.text); });
      if (found == operators.end()) break;
      left = add(found->kind, left, next());
    }
    return left;
  }

  int factor() {
    if (++depth_ > kMaxDepth) return fail("it nests too deeply");
    int result = operand();
    while (result >= 0 && take("[")) {
      const int index = disjunction();
      if (index >= 0 && !take("]")) return fail("a `]` is missing");
      result = index < 0 ? -1 : add(Operator::Item, result, index);
    }
    --depth_;
    return result;
  }
  int operand() {
    skip_blanks();
    if (rest_.empty()) return fail("unexpected end");
    if (take("-")) return add(Operator::Negate, factor());
    if (take("(")) {
      const int inner = disjunction();
      if (inner >= 0 && !take(")")) return fail("a `)` is missing");
      return inner;
    }
    const char c = rest_.front();
    if (is_digit(c)) return number();
    if (c == '\'' || c == '"') return text(c);
    if (begins_name(c)) return name();
    return fail("unexpected " + in_backticks(word()));
  }

  int number() {
    const char* const begin = rest_.data();
    const char* const end = begin + rest_.size();
    ExpressionNode node;
    const size_t digits =
        std::min(rest_.find_first_not_of("0123456789"), rest_.size());
    const char next = digits < rest_.size() ? rest_[digits] : ' ';
    std::from_chars_result read{};
    if (next == '.' || next == 'e' || next == 'E') {
      double real = 0;
      read = std::from_chars(begin, end, real);
      node.constant = ConfigValue::of(real);
    } else {
      int64_t integer = 0;
      read = std::from_chars(begin, end, integer);
      node.constant = ConfigValue::of(integer);
    }
    if (read.ec != std::errc()) return fail("a number is too large");
    rest_.remove_prefix(static_cast<size_t>(read.ptr - begin));
    return add(std::move(node));
  }

  int text(char quote) {
    const size_t end = rest_.find(quote, 1);
    if (end == rest_.npos) return fail("a quote is not closed");
    if (end > kMaxTextValue) {
      return fail("a string is longer than " + count_text(kMaxTextValue) +
                  " bytes");
    }
    ExpressionNode node;
    node.constant = ConfigValue::of(std::string(rest_.substr(1, end - 1)));
    rest_.remove_prefix(end + 1);
    return add(std::move(node));
  }

  int name() {
    const std::string found = word();
    rest_.remove_prefix(found.size());
    for (const std::string_view reserved : {"or", "and", "not", "in"}) {
      if (found == reserved) return fail("unexpected " + in_backticks(found));
    }
    skip_blanks();
    if (rest_.starts_with('(')) return call(found);
    ExpressionNode node;
    if (found == "true" || found == "false") {
      node.constant = ConfigValue::flag(found == "true");
    } else {
      node.kind = Operator::Name;
      node.name = found;
    }
    return add(std::move(node));
  }

  int call(const std::string& name) {
    const auto function = std::ranges::find(kFunctions, name, &Function::name);
    if (function == kFunctions.end()) {
      return fail(
          "unknown function " + in_backticks(name) +
          ": use ceil, floor, min, max, sqrt, log, length, count or if");
    }
    take("(");
    std::array<int, 3> arguments = {-1, -1, -1};
    for (int i = 0; i < function->arguments; ++i) {
      if (i > 0 && !take(",")) {
        return fail(in_backticks(name) + " takes " +
                    plural(function->arguments, "argument"));
      }
      const int argument = disjunction();
      if (argument < 0) return -1;
      arguments.at(static_cast<size_t>(i)) = argument;
    }
    if (!take(")")) return fail("a `)` is missing");
    return add(function->kind, arguments[0], arguments[1], arguments[2]);
  }

  std::string_view rest_;
  std::string& why_;
  std::vector<ExpressionNode> nodes_;
  int depth_ = 0;
};

class Evaluator {
 public:
  Evaluator(const Expression& expression, const FindValue& find, Work& work,
            std::string& why)
      : nodes_(expression.nodes), find_(find), work_(work), why_(why) {}

  // The value of a node, in `hold` where it is nobody else's; null where it has
  // none.
  const ConfigValue* value(int index, ConfigValue& hold) {
    const Nested level;
    if (level.is_too_deep()) {
      work_.end_too_deep();
      return none("names and brackets nest too deeply");
    }
    if (!work_.spend()) return none("it takes too many steps to compute");
    const ExpressionNode& node = nodes_[static_cast<size_t>(index)];
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
    const ExpressionNode& node = nodes_[static_cast<size_t>(index)];
    switch (node.kind) {
      case Operator::Or:
      case Operator::And: {
        const auto left = flag(node.first);
        if (!left) return std::nullopt;
        if (*left == (node.kind == Operator::Or))
          return ConfigValue::flag(*left);
        const auto right = flag(node.second);
        return right ? std::optional(ConfigValue::flag(*right)) : std::nullopt;
      }
      case Operator::Not: {
        const auto of = flag(node.first);
        return of ? std::optional(ConfigValue::flag(!*of)) : std::nullopt;
      }
      case Operator::Ceil:
        return ceiling(node.first);
      case Operator::Floor:
        return whole(node.first, [](double a) { return std::floor(a); });
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
      case Operator::Root:
        return root(node.first);
      case Operator::Logarithm:
        return logarithm(node.first);
      case Operator::Negate:
        return negated(node.first);
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

  // To look at so many items of a list, or bytes of a text. A value that the
  // steps do not suffice for is missed by the next one.
  void look_at(size_t items) { work_.spend(static_cast<int64_t>(items / 16)); }

  std::optional<ConfigValue> item(const ExpressionNode& node) {
    ConfigValue hold;
    const auto* const of = list(node.first, hold);
    const auto at = of != nullptr ? integer_of(node.second) : std::nullopt;
    if (!at) return std::nullopt;
    const auto size = std::ssize(*of);
    if (*at >= 0 && *at < size) {
      return ConfigValue::of((*of)[static_cast<size_t>(*at)]);
    }
    return fail("index " + std::to_string(*at) +
                " is out of range for a list of " + std::to_string(size));
  }

  // How often an item is among the first of a list.
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
    look_at(static_cast<size_t>(*end));
    return ConfigValue::of(static_cast<int64_t>(
        std::count(of->begin(), of->begin() + *end, *wanted)));
  }

  template <typename Round>
  std::optional<ConfigValue> whole(int index, const Round& round) {
    ConfigValue hold;
    const ConfigValue* const of = number(index, hold);
    if (of == nullptr) return std::nullopt;
    if (of->kind == ConfigValue::Kind::Integer) return *of;
    const double rounded = round(of->real);
    if (!(std::abs(rounded) < 9e18)) return fail("a number exceeds 63 bits");
    return ConfigValue::of(static_cast<int64_t>(rounded));
  }

  // Both operands of a node; null where one has no value.
  struct Operands {
    ConfigValue hold_a, hold_b;
    const ConfigValue* a = nullptr;
    const ConfigValue* b = nullptr;
    bool are(ConfigValue::Kind of_a, ConfigValue::Kind of_b) const {
      return a->kind == of_a && b->kind == of_b;
    }
    bool are_integers() const {
      return are(ConfigValue::Kind::Integer, ConfigValue::Kind::Integer);
    }
  };
  bool values(const ExpressionNode& node, Operands& of) {
    of.a = value(node.first, of.hold_a);
    if (of.a != nullptr) of.b = value(node.second, of.hold_b);
    return of.b != nullptr;
  }
  bool numbers(const ExpressionNode& node, Operands& of) {
    of.a = number(node.first, of.hold_a);
    if (of.a != nullptr) of.b = number(node.second, of.hold_b);
    return of.b != nullptr;
  }

  // A quotient of integers is rounded without being one first.
  std::optional<ConfigValue> ceiling(int index) {
    const auto up = [](double a) { return std::ceil(a); };
    const ExpressionNode& node = nodes_[static_cast<size_t>(index)];
    if (node.kind != Operator::Divide) return whole(index, up);
    Operands of;
    if (!numbers(node, of)) return std::nullopt;
    if (!of.are_integers()) return whole(index, up);
    if (of.a->integer < 0 || of.b->integer < 1) {
      return fail("ceil needs a quotient of sizes");
    }
    return ConfigValue::of(ceil_div(of.a->integer, of.b->integer));
  }

  std::optional<ConfigValue> root(int index) {
    ConfigValue hold;
    const ConfigValue* const of = number(index, hold);
    if (of == nullptr) return std::nullopt;
    if (of->as_real() < 0) return fail("a negative number has no square root");
    return ConfigValue::of(std::sqrt(of->as_real()));
  }

  std::optional<ConfigValue> logarithm(int index) {
    ConfigValue hold;
    const ConfigValue* const of = number(index, hold);
    if (of == nullptr) return std::nullopt;
    if (!(of->as_real() > 0)) return fail("only a number above 0 has a log");
    return ConfigValue::of(std::log(of->as_real()));
  }

  std::optional<ConfigValue> negated(int index) {
    ConfigValue hold;
    const ConfigValue* const of = number(index, hold);
    if (of == nullptr) return std::nullopt;
    if (of->kind == ConfigValue::Kind::Real) return ConfigValue::of(-of->real);
    const auto result = checked_mul(of->integer, -1);
    if (!result) return fail("a number exceeds 63 bits");
    return ConfigValue::of(*result);
  }

  std::optional<ConfigValue> binary(const ExpressionNode& node) {
    Operands of;
    if (node.kind == Operator::Equal || node.kind == Operator::Unequal) {
      return values(node, of) ? equality(node.kind, *of.a, *of.b)
                              : std::nullopt;
    }
    if (node.kind == Operator::In) {
      return values(node, of) ? membership(of) : std::nullopt;
    }
    if (!numbers(node, of)) return std::nullopt;
    const ConfigValue& a = *of.a;
    const ConfigValue& b = *of.b;
    if (node.kind >= Operator::Less && node.kind <= Operator::GreaterEqual) {
      return comparison(node.kind, a, b);
    }
    if (node.kind == Operator::Min || node.kind == Operator::Max) {
      const bool first =
          (a.as_real() < b.as_real()) == (node.kind == Operator::Min);
      return first ? a : b;
    }
    return of.are_integers() ? integer(node.kind, a.integer, b.integer)
                             : real(node.kind, a.as_real(), b.as_real());
  }

  std::optional<ConfigValue> equality(Operator kind, const ConfigValue& a,
                                      const ConfigValue& b) {
    const bool numbers = a.is_number() && b.is_number();
    if (!numbers && a.kind != b.kind) {
      return fail("cannot compare " + std::string(value_kind_name(a.kind)) +
                  " with " + std::string(value_kind_name(b.kind)));
    }
    if (a.kind == ConfigValue::Kind::Integers) look_at(a.integers->size());
    const bool same = numbers ? a.as_real() == b.as_real() : a == b;
    return ConfigValue::flag(same == (kind == Operator::Equal));
  }

  std::optional<ConfigValue> membership(const Operands& of) {
    if (!of.are(ConfigValue::Kind::Integer, ConfigValue::Kind::Integers)) {
      return fail("`in` needs an integer and a list of integers");
    }
    const std::vector<int64_t>& list = *of.b->integers;
    const auto at = std::ranges::find(list, of.a->integer);
    look_at(static_cast<size_t>(at - list.begin()));
    return ConfigValue::flag(at != list.end());
  }

  static ConfigValue comparison(Operator kind, const ConfigValue& a,
                                const ConfigValue& b) {
    const double x = a.as_real();
    const double y = b.as_real();
    switch (kind) {
      case Operator::Less:
        return ConfigValue::flag(x < y);
      case Operator::LessEqual:
        return ConfigValue::flag(x <= y);
      case Operator::Greater:
        return ConfigValue::flag(x > y);
      default:
        return ConfigValue::flag(x >= y);
    }
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

bool ConfigValue::operator==(const ConfigValue& other) const {
  const bool same = kind == other.kind && integer == other.integer &&
                    real == other.real && text == other.text;
  return same && (integers == other.integers ||
                  (integers != nullptr && other.integers != nullptr &&
                   *integers == *other.integers));
}

std::string_view value_kind_name(ConfigValue::Kind kind) {
  static constexpr std::array<std::string_view, 5> kNames = {
      "an integer", "a number", "true or false", "a string", "a list"};
  return kNames.at(static_cast<size_t>(kind));
}

std::vector<std::string_view> Expression::names() const {
  std::vector<std::string_view> found;
  for (const ExpressionNode& node : nodes) {
    if (node.kind == Operator::Name) found.push_back(node.name);
  }
  return found;
}

bool Expression::mentions(std::string_view name) const {
  return std::ranges::any_of(nodes, [&](const ExpressionNode& node) {
    return node.kind == Operator::Name && node.name == name;
  });
}

std::string_view Expression::leading_name() const {
  std::vector<int> open = {static_cast<int>(nodes.size()) - 1};
  while (!open.empty()) {
    const ExpressionNode& node = nodes[static_cast<size_t>(open.back())];
    open.pop_back();
    if (node.kind == Operator::Name) return node.name;
    if (node.kind == Operator::Multiply) {
      open.push_back(node.second);
      open.push_back(node.first);
    }
  }
  return "";
}

std::optional<Expression> parse_expression(std::string_view text, Span where,
                                           std::string& why) {
  why.clear();
  auto nodes = Parser(text, why).run();
  if (!nodes) return std::nullopt;
  return Expression{std::string(text), where, *std::move(nodes)};
}

Expression constant_expression(ConfigValue value, Span where) {
  ExpressionNode node;
  node.constant = std::move(value);
  return {std::string(where.text()), where, {std::move(node)}};
}

std::optional<ConfigValue> evaluate(const Expression& expression,
                                    const FindValue& find, Work& work,
                                    std::string& why) {
  ConfigValue hold;
  const ConfigValue* const found =
      Evaluator(expression, find, work, why)
          .value(static_cast<int>(expression.nodes.size()) - 1, hold);
  if (found == nullptr) return std::nullopt;
  if (found == &hold) return hold;
  return *found;
}

}  // namespace shardplan
