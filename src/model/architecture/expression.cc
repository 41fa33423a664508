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
      fail(in_backticks(word()) + " is not expected");
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
    if (++depth_ > kMaxDepth) return fail("it nests too deep");
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
      const auto found =
          std::find_if(operators.begin(), operators.end(),
                       [&](const BinaryOperator& o) { return take(o.text); });
      if (found == operators.end()) break;
      left = add(found->kind, left, next());
    }
    return left;
  }

  int factor() {
    if (++depth_ > kMaxDepth) return fail("it nests too deep");
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
    if (rest_.empty()) return fail("something is missing at its end");
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
    return fail(in_backticks(word()) + " is not expected");
  }

  int number() {
    const char* const begin = rest_.data();
    const char* const end = begin + rest_.size();
    ExpressionNode node;
    size_t digits =
        std::min(rest_.find_first_not_of("0123456789"), rest_.size());
    const char* stop = nullptr;
    std::errc error{};
    const bool is_real =
        digits < rest_.size() &&
        (rest_[digits] == '.' || rest_[digits] == 'e' || rest_[digits] == 'E');
    if (is_real) {
      double real = 0;
      const auto read = std::from_chars(begin, end, real);
      stop = read.ptr;
      error = read.ec;
      node.constant = ConfigValue::of(real);
    } else {
      int64_t integer = 0;
      const auto read = std::from_chars(begin, end, integer);
      stop = read.ptr;
      error = read.ec;
      node.constant = ConfigValue::of(integer);
    }
    if (error != std::errc()) return fail("a number is too large");
    rest_.remove_prefix(static_cast<size_t>(stop - begin));
    return add(std::move(node));
  }

  int text(char quote) {
    const size_t end = rest_.find(quote, 1);
    if (end == rest_.npos) return fail("a quote is not closed");
    ExpressionNode node;
    node.constant = ConfigValue::of(std::string(rest_.substr(1, end - 1)));
    rest_.remove_prefix(end + 1);
    return add(std::move(node));
  }

  int name() {
    const std::string found = word();
    rest_.remove_prefix(found.size());
    for (const std::string_view reserved : {"or", "and", "not", "in"}) {
      if (found == reserved)
        return fail(in_backticks(found) + " is not expected");
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
    const auto function =
        std::find_if(kFunctions.begin(), kFunctions.end(),
                     [&](const Function& f) { return f.name == name; });
    if (function == kFunctions.end()) {
      return fail(
          "there is no function " + in_backticks(name) +
          ": ceil, floor, min, max, sqrt, log, length, count and if are");
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
  Evaluator(const Expression& expression, const FindValue& find,
            std::string& why)
      : nodes_(expression.nodes), find_(find), why_(why) {}

  std::optional<ConfigValue> value(int index) {
    const ExpressionNode& node = nodes_[static_cast<size_t>(index)];
    switch (node.kind) {
      case Operator::Constant:
        return node.constant;
      case Operator::Name:
        if (const ConfigValue* found = find_(node.name, why_)) return *found;
        return std::nullopt;
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
      case Operator::If: {
        const auto condition = flag(node.first);
        if (!condition) return std::nullopt;
        return value(*condition ? node.second : node.third);
      }
      case Operator::Ceil:
        return ceiling(node.first);
      case Operator::Floor:
        return whole(node.first, [](double a) { return std::floor(a); });
      case Operator::Length: {
        const auto of = list(node.first);
        if (!of) return std::nullopt;
        return ConfigValue::of(static_cast<int64_t>(of->size()));
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

 private:
  std::nullopt_t fail(std::string why) {
    why_ = std::move(why);
    return std::nullopt;
  }

  std::optional<bool> flag(int index) {
    const auto found = value(index);
    if (!found) return std::nullopt;
    if (found->kind == ConfigValue::Kind::Flag) return found->integer != 0;
    return fail("a condition is " + std::string(value_kind_name(found->kind)) +
                ", not true or false");
  }

  std::optional<ConfigValue> number(int index) {
    auto found = value(index);
    if (!found || found->is_number()) return found;
    return fail(std::string(value_kind_name(found->kind)) +
                " stands where a number is expected");
  }

  std::optional<std::vector<int64_t>> list(int index) {
    auto found = value(index);
    if (!found) return std::nullopt;
    if (found->kind == ConfigValue::Kind::Integers) {
      return std::move(found->integers);
    }
    return fail(std::string(value_kind_name(found->kind)) +
                " stands where a list is expected");
  }

  std::optional<int64_t> integer_of(int index) {
    const auto found = number(index);
    if (!found) return std::nullopt;
    if (found->kind == ConfigValue::Kind::Integer) return found->integer;
    return fail("a number stands where an integer is expected");
  }

  std::optional<ConfigValue> item(const ExpressionNode& node) {
    const auto of = list(node.first);
    const auto at = of ? integer_of(node.second) : std::nullopt;
    if (!at) return std::nullopt;
    const auto size = static_cast<int64_t>(of->size());
    if (*at >= 0 && *at < size) {
      return ConfigValue::of((*of)[static_cast<size_t>(*at)]);
    }
    return fail("there is no item " + std::to_string(*at) + " of " +
                std::to_string(size));
  }

  // How often an item is among the first of a list.
  std::optional<ConfigValue> count(const ExpressionNode& node) {
    const auto of = list(node.first);
    const auto wanted = of ? integer_of(node.second) : std::nullopt;
    const auto end = wanted ? integer_of(node.third) : std::nullopt;
    if (!end) return std::nullopt;
    if (*end < 0 || *end > static_cast<int64_t>(of->size())) {
      return fail("there are no " + std::to_string(*end) + " items of " +
                  std::to_string(of->size()));
    }
    return ConfigValue::of(static_cast<int64_t>(
        std::count(of->begin(), of->begin() + *end, *wanted)));
  }

  template <typename Round>
  std::optional<ConfigValue> whole(int index, const Round& round) {
    auto of = number(index);
    if (!of || of->kind == ConfigValue::Kind::Integer) return of;
    const double rounded = round(of->real);
    if (!(std::abs(rounded) < 9e18)) return fail("a number exceeds 63 bits");
    return ConfigValue::of(static_cast<int64_t>(rounded));
  }

  // A quotient of integers is rounded without being one first.
  std::optional<ConfigValue> ceiling(int index) {
    const auto up = [](double a) { return std::ceil(a); };
    const ExpressionNode& node = nodes_[static_cast<size_t>(index)];
    if (node.kind != Operator::Divide) return whole(index, up);
    const auto a = number(node.first);
    const auto b = a ? number(node.second) : std::nullopt;
    if (!b) return std::nullopt;
    if (a->kind != ConfigValue::Kind::Integer ||
        b->kind != ConfigValue::Kind::Integer) {
      return whole(index, up);
    }
    if (a->integer < 0 || b->integer < 1) {
      return fail("ceil is of a quotient of sizes");
    }
    return ConfigValue::of(ceil_div(a->integer, b->integer));
  }

  std::optional<ConfigValue> root(int index) {
    const auto of = number(index);
    if (!of) return std::nullopt;
    if (of->as_real() < 0) return fail("a negative number has no square root");
    return ConfigValue::of(std::sqrt(of->as_real()));
  }

  std::optional<ConfigValue> logarithm(int index) {
    const auto of = number(index);
    if (!of) return std::nullopt;
    if (!(of->as_real() > 0)) return fail("only a number above 0 has a log");
    return ConfigValue::of(std::log(of->as_real()));
  }

  std::optional<ConfigValue> negated(int index) {
    const auto of = number(index);
    if (!of) return std::nullopt;
    if (of->kind == ConfigValue::Kind::Real) return ConfigValue::of(-of->real);
    const auto result = checked_mul(of->integer, -1);
    if (!result) return fail("a number exceeds 63 bits");
    return ConfigValue::of(*result);
  }

  std::optional<ConfigValue> binary(const ExpressionNode& node) {
    if (node.kind == Operator::Equal || node.kind == Operator::Unequal) {
      return equality(node);
    }
    if (node.kind == Operator::In) return membership(node);
    const auto a = number(node.first);
    const auto b = a ? number(node.second) : std::nullopt;
    if (!b) return std::nullopt;
    if (node.kind >= Operator::Less && node.kind <= Operator::GreaterEqual) {
      return comparison(node.kind, *a, *b);
    }
    if (node.kind == Operator::Min || node.kind == Operator::Max) {
      const bool first =
          (a->as_real() < b->as_real()) == (node.kind == Operator::Min);
      return first ? *a : *b;
    }
    if (a->kind == ConfigValue::Kind::Integer &&
        b->kind == ConfigValue::Kind::Integer) {
      return integer(node.kind, a->integer, b->integer);
    }
    return real(node.kind, a->as_real(), b->as_real());
  }

  std::optional<ConfigValue> equality(const ExpressionNode& node) {
    const auto a = value(node.first);
    const auto b = a ? value(node.second) : std::nullopt;
    if (!b) return std::nullopt;
    const bool numbers = a->is_number() && b->is_number();
    if (!numbers && a->kind != b->kind) {
      return fail(std::string(value_kind_name(a->kind)) + " is compared with " +
                  std::string(value_kind_name(b->kind)));
    }
    const bool same = numbers ? a->as_real() == b->as_real() : *a == *b;
    return ConfigValue::flag(same == (node.kind == Operator::Equal));
  }

  std::optional<ConfigValue> membership(const ExpressionNode& node) {
    const auto a = value(node.first);
    const auto b = a ? value(node.second) : std::nullopt;
    if (!b) return std::nullopt;
    if (a->kind != ConfigValue::Kind::Integer ||
        b->kind != ConfigValue::Kind::Integers) {
      return fail("`in` is of an integer and a list of integers");
    }
    return ConfigValue::flag(std::find(b->integers.begin(), b->integers.end(),
                                       a->integer) != b->integers.end());
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
      if (b < 1) return fail("a division by " + std::to_string(b));
      const int64_t rest = (a % b + b) % b;
      if (kind == Operator::Remainder) {
        result = rest;
      } else if (kind == Operator::FloorDivide) {
        result = (a - rest) / b;
      } else if (rest != 0) {
        return fail(std::to_string(a) + " / " + std::to_string(b) +
                    " leaves a rest");
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
        if (b == 0) return fail("a division by 0");
        return ConfigValue::of(a / b);
      default:
        return fail("`//` and `%` are of integers");
    }
  }

  const std::vector<ExpressionNode>& nodes_;
  const FindValue& find_;
  std::string& why_;
};

}  // namespace

ConfigValue ConfigValue::of(int64_t integer) {
  ConfigValue value;
  value.integer = integer;
  return value;
}

ConfigValue ConfigValue::flag(bool flag) {
  ConfigValue value;
  value.kind = Kind::Flag;
  value.integer = flag ? 1 : 0;
  return value;
}

ConfigValue ConfigValue::of(double real) {
  ConfigValue value;
  value.kind = Kind::Real;
  value.real = real;
  return value;
}

ConfigValue ConfigValue::of(std::string text) {
  ConfigValue value;
  value.kind = Kind::Text;
  value.text = std::move(text);
  return value;
}

ConfigValue ConfigValue::of(std::vector<int64_t> integers) {
  ConfigValue value;
  value.kind = Kind::Integers;
  value.integers = std::move(integers);
  return value;
}

std::string_view value_kind_name(ConfigValue::Kind kind) {
  static constexpr std::array<std::string_view, 5> kNames = {
      "an integer", "a number", "true or false", "text", "a list"};
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
  return std::any_of(nodes.begin(), nodes.end(),
                     [&](const ExpressionNode& node) {
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
                                    const FindValue& find, std::string& why) {
  return Evaluator(expression, find, why)
      .value(static_cast<int>(expression.nodes.size()) - 1);
}

}  // namespace shardplan
