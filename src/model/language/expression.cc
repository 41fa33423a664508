// SPDX-License-Identifier: Apache-2.0
#include "model/language/expression.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <tuple>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "model/language/statement.h"

namespace shardplan {
namespace {

using Operator = ExpressionNode::Kind;

constexpr int kMaxDepth = 50;
constexpr size_t kMaxNodes = 500;

struct BinaryOperator {
  std::string_view text;
  Operator kind;
};
// One table per level of precedence, loosest first. Within a table, an operator
// precedes those that are a prefix of it.
constexpr std::array<BinaryOperator, 1> kOr = {{{"or", Operator::Or}}};
constexpr std::array<BinaryOperator, 1> kAnd = {{{"and", Operator::And}}};
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
// In statements, module names may contain indices (`norms.{h}.weight`), and
// value names may contain a colon (`query:rope`).
bool continues_statement_name(char c) {
  return continues_name(c) || c == '{' || c == '}' || c == ':';
}

class Parser {
 public:
  Parser(std::string_view text, std::string& why)
      : text_(text), rest_(text), why_(why) {}

  std::optional<std::vector<ExpressionNode>> run() {
    const int root = disjunction();
    if (root < 0 || !ends()) return std::nullopt;
    return std::move(nodes_);
  }

  std::optional<Statement> run_statement() {
    in_statement_ = true;
    Statement result;
    do {
      skip_blanks();
      const std::string name = word();
      if (rest_.empty() || !begins_name(rest_.front())) {
        fail("the name of a result is missing");
        return std::nullopt;
      }
      rest_.remove_prefix(name.size());
      result.targets.push_back(name);
    } while (take(","));
    if (!take("=")) {
      fail("`=` is missing after the results");
      return std::nullopt;
    }
    result.value = disjunction();
    if (result.value >= 0 && take("as")) result.layout = layout();
    if (result.value >= 0 && take("if")) {
      skip_blanks();
      result.when = disjunction();
      if (result.when < 0) return std::nullopt;
    }
    if (result.value < 0 || !ends()) return std::nullopt;
    result.nodes = std::move(nodes_);
    return result;
  }

 private:
  bool ends() {
    skip_blanks();
    if (why_.empty() && !rest_.empty()) {
      fail("unexpected " + in_backticks(word()));
    }
    return why_.empty();
  }
  size_t at() const { return text_.size() - rest_.size(); }

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
    while (end < rest_.size() &&
           (in_statement_ ? continues_statement_name(rest_[end])
                          : continues_name(rest_[end]))) {
      ++end;
    }
    return std::string(rest_.substr(0, std::max<size_t>(end, 1)));
  }

  int add(ExpressionNode node) {
    if (nodes_.size() >= kMaxNodes) return fail("it is too long");
    if (node.end == 0) node.end = at();
    nodes_.push_back(std::move(node));
    return static_cast<int>(nodes_.size()) - 1;
  }
  int add(Operator kind, int first, int second = -1, int third = -1) {
    if (first < 0 || !why_.empty()) return -1;
    return add({.kind = kind,
                .first = first,
                .second = second,
                .third = third,
                .begin = nth(nodes_, first).begin});
  }
  // Sets the text of a node to what has been read since `begin`.
  int spanning(int node, size_t begin) {
    if (node < 0) return -1;
    nth(nodes_, node).begin = begin;
    nth(nodes_, node).end = at();
    return node;
  }

  int disjunction() {
    return chain(kOr, [this] { return conjunction(); });
  }
  int conjunction() {
    return chain(kAnd, [this] { return negation(); });
  }
  int negation() {
    skip_blanks();
    const size_t begin = at();
    if (!take("not")) return comparison();
    if (++depth_ > kMaxDepth) return fail("it nests too deeply");
    const int of = negation();
    --depth_;
    return spanning(add(Operator::Not, of), begin);
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
    const size_t begin = at();
    if (take("-")) return spanning(add(Operator::Negate, factor()), begin);
    if (take("(")) {
      const int inner = disjunction();
      if (inner >= 0 && !take(")")) return fail("a `)` is missing");
      return spanning(inner, begin);
    }
    if (in_statement_ && rest_.front() == '[') return list();
    const char c = rest_.front();
    if (is_digit(c)) return number();
    if (c == '\'' || c == '"') return text(c);
    if (begins_name(c)) return name();
    return fail("unexpected " + in_backticks(word()));
  }

  int number() {
    const char* const begin = rest_.data();
    const char* const end = begin + rest_.size();
    const size_t start = at();
    ConfigValue constant;
    const size_t digits =
        std::min(rest_.find_first_not_of("0123456789"), rest_.size());
    const char next = digits < rest_.size() ? rest_[digits] : ' ';
    std::from_chars_result read{};
    if (next == '.' || next == 'e' || next == 'E') {
      double real = 0;
      read = std::from_chars(begin, end, real);
      constant = ConfigValue::of(real);
    } else {
      int64_t integer = 0;
      read = std::from_chars(begin, end, integer);
      constant = ConfigValue::of(integer);
    }
    if (read.ec != std::errc()) return fail("a number is too large");
    rest_.remove_prefix(to_size(read.ptr - begin));
    return add({.constant = std::move(constant), .begin = start});
  }

  int text(char quote) {
    const size_t end = rest_.find(quote, 1);
    if (end == rest_.npos) return fail("a quote is not closed");
    if (end > kMaxTextValue) {
      return fail("a string is longer than " + count_text(kMaxTextValue) +
                  " bytes");
    }
    const size_t begin = at();
    auto constant = ConfigValue::of(std::string(rest_.substr(1, end - 1)));
    rest_.remove_prefix(end + 1);
    return add({.constant = std::move(constant), .begin = begin});
  }

  int name() {
    const size_t begin = at();
    const std::string found = word();
    rest_.remove_prefix(found.size());
    const size_t end = at();
    if (has_word("or and not in", found)) {
      return fail("unexpected " + in_backticks(found));
    }
    skip_blanks();
    if (rest_.starts_with('(')) {
      return spanning(in_statement_ ? any_call(found) : call(found), begin);
    }
    if (found == "true" || found == "false") {
      return add({.constant = ConfigValue::flag(found == "true"),
                  .begin = begin,
                  .end = end});
    }
    return add(
        {.kind = Operator::Name, .name = found, .begin = begin, .end = end});
  }

  int call(const std::string& name) {
    const Function* const function = find_named(kFunctions, name);
    if (function == nullptr) {
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
      nth(arguments, i) = argument;
    }
    if (!take(")")) return fail("a `)` is missing");
    return add(function->kind, arguments[0], arguments[1], arguments[2]);
  }

  // Parses a call in a statement, where any name can be called:
  // `f(x, [1, 2], window = w)`.
  int any_call(const std::string& name) {
    if (++depth_ > kMaxDepth) return fail("it nests too deeply");
    ExpressionNode node{.kind = Operator::Call, .name = name};
    take("(");
    if (!take(")")) {
      do {
        const std::string key = key_of_argument();
        const int argument = disjunction();
        if (argument < 0) return -1;
        if (key.empty()) {
          node.arguments.push_back(argument);
        } else {
          node.named.emplace_back(key, argument);
        }
      } while (take(","));
      if (!take(")")) return fail("a `)` is missing");
    }
    --depth_;
    return add(std::move(node));
  }
  // Reads the name and the `=` of a named argument and returns the name. Reads
  // neither and returns "" if the argument has no name.
  std::string key_of_argument() {
    skip_blanks();
    if (rest_.empty() || !begins_name(rest_.front())) return "";
    const std::string_view before = rest_;
    std::string key = word();
    rest_.remove_prefix(key.size());
    if (skip_blanks(); rest_.starts_with('=') && !rest_.starts_with("==")) {
      rest_.remove_prefix(1);
      return key;
    }
    rest_ = before;
    return "";
  }
  int list() {
    if (++depth_ > kMaxDepth) return fail("it nests too deeply");
    ExpressionNode node{.kind = Operator::List, .begin = at()};
    take("[");
    do {
      const int item = disjunction();
      if (item < 0) return -1;
      node.arguments.push_back(item);
    } while (take(","));
    if (!take("]")) return fail("a `]` is missing");
    --depth_;
    return add(std::move(node));
  }
  // Parses the layout after `as`: a name, or a list of names.
  int layout() {
    skip_blanks();
    const bool is_layout = rest_.starts_with('[') ||
                           (!rest_.empty() && begins_name(rest_.front()));
    return is_layout ? factor() : fail("a layout is missing after `as`");
  }

  std::string_view text_;
  std::string_view rest_;
  std::string& why_;
  bool in_statement_ = false;
  std::vector<ExpressionNode> nodes_;
  int depth_ = 0;
};

}  // namespace

bool ConfigValue::operator==(const ConfigValue& other) const {
  return std::tie(kind, integer, real, text) ==
             std::tie(other.kind, other.integer, other.real, other.text) &&
         (integers == other.integers ||
          (integers != nullptr && other.integers != nullptr &&
           *integers == *other.integers));
}

std::string_view value_kind_name(ConfigValue::Kind kind) {
  static constexpr std::array<std::string_view, 5> kNames = {
      "an integer", "a number", "true or false", "a string", "a list"};
  return nth(kNames, kind);
}

std::vector<std::string_view> Expression::names() const {
  std::vector<std::string_view> found;
  for (const ExpressionNode& node : nodes) {
    if (node.kind == Operator::Name) found.push_back(node.name);
  }
  return found;
}

bool Expression::mentions(std::string_view name) const {
  return contains(names(), name);
}

std::string_view Expression::leading_name() const {
  std::vector<int> open = {static_cast<int>(nodes.size()) - 1};
  while (!open.empty()) {
    const ExpressionNode& node = nth(nodes, open.back());
    open.pop_back();
    if (node.kind == Operator::Name) return node.name;
    if (node.kind == Operator::Multiply) {
      open.push_back(node.second);
      open.push_back(node.first);
    }
  }
  return "";
}

bool is_number_function(std::string_view name) {
  return find_named(kFunctions, name) != nullptr;
}

std::optional<Statement> parse_statement(std::string_view text,
                                         std::string& why) {
  why.clear();
  return Parser(text, why).run_statement();
}

std::optional<Expression> parse_expression(std::string_view text, Span where,
                                           std::string& why) {
  why.clear();
  auto nodes = Parser(text, why).run();
  if (!nodes) return std::nullopt;
  return Expression{std::string(text), where, *std::move(nodes)};
}

Expression constant_expression(ConfigValue value, Span where) {
  return {std::string(where.text()), where, {{.constant = std::move(value)}}};
}

}  // namespace shardplan
