// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "io/graph/graph_reader.h"

namespace shardplan {
namespace {

constexpr int kMaxExpressionDepth = 50;

bool starts_name(char c) { return is_letter(c) || c == '_'; }

std::vector<std::string> names_of(const DimSizes& dims) {
  std::vector<std::string> names;
  for (const auto& [name, size] : dims) names.push_back(name);
  return names;
}

bool is_exponent(std::string_view text) {
  if (text.empty() || (text[0] != 'e' && text[0] != 'E')) return false;
  text.remove_prefix(1);
  if (!text.empty() && (text[0] == '+' || text[0] == '-')) {
    text.remove_prefix(1);
  }
  return !text.empty() && is_digit(text[0]);
}

// Evaluates an expression as a size and as a number at the same time.
class ExpressionReader {
 public:
  ExpressionReader(std::string_view text, const DimSizes& dims,
                   std::string& why)
      : rest_(text), dims_(dims), why_(why) {}

  std::optional<Amount> read() {
    auto amount = sum();
    skip_blanks();
    if (amount && !rest_.empty()) return fail("unexpected `" + word() + "`");
    return amount;
  }

 private:
  std::nullopt_t fail(std::string why) {
    why_ = std::move(why);
    return std::nullopt;
  }

  void skip_blanks() {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
  }
  bool take(char c) {
    skip_blanks();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  // Returns the text up to the next operator, including the current character.
  std::string word() const {
    size_t end = rest_.find_first_of("*/+-()", rest_.empty() ? 0 : 1);
    end = std::min(end, rest_.size());
    while (end > 0 && rest_[end - 1] == ' ') --end;
    return std::string(rest_.substr(0, end));
  }

  using Part = std::optional<Amount> (ExpressionReader::*)();

  // Reads parts with one of two operators between them.
  std::optional<Amount> chain(Part part, char one, char other) {
    auto left = (this->*part)();
    while (left) {
      const char sign = take(one) ? one : take(other) ? other : '\0';
      if (sign == '\0') return left;
      const auto right = (this->*part)();
      if (!right) return std::nullopt;
      left = combined(*left, sign, *right);
    }
    return left;
  }
  std::optional<Amount> sum() {
    return chain(&ExpressionReader::product, '+', '-');
  }
  std::optional<Amount> product() {
    return chain(&ExpressionReader::factor, '*', '/');
  }

  std::optional<Amount> factor() {
    skip_blanks();
    if (take('(')) return enclosed();
    if (!rest_.empty() && is_digit(rest_.front())) return number();
    const std::string name = word();
    const auto known = dims_.find(name);
    if (known != dims_.end()) {
      rest_.remove_prefix(name.size());
      return Amount{static_cast<double>(known->second), known->second, {}};
    }
    if (name == "sqrt" && rest_.substr(4).starts_with('(')) return root();
    return unknown(name);
  }

  std::nullopt_t unknown(const std::string& name) {
    std::string why =
        in_backticks(name) + " is neither a number nor a name in `dims`";
    if (const auto near = nearest(name, names_of(dims_))) {
      why += "; did you mean `" + *near + "`?";
    }
    return fail(std::move(why));
  }

  // Reads a sum and its closing parenthesis, after the opening one.
  std::optional<Amount> enclosed() {
    if (++depth_ > kMaxExpressionDepth) {
      return fail("parentheses are nested too deeply");
    }
    auto inner = sum();
    --depth_;
    if (inner && !take(')')) return fail("a `)` is missing");
    return inner;
  }

  std::optional<Amount> root() {
    rest_.remove_prefix(5);
    const auto of = enclosed();
    if (!of) return std::nullopt;
    if (of->real < 0) return fail("a negative number has no square root");
    return Amount{std::sqrt(of->real), std::nullopt,
                  "a square root is not a size"};
  }

  std::optional<Amount> number() {
    const size_t digits =
        std::min(rest_.find_first_not_of("0123456789"), rest_.size());
    const std::string_view behind = rest_.substr(digits);
    const bool is_real = behind.starts_with('.') || is_exponent(behind);
    const char* const end = rest_.data() + rest_.size();
    Amount amount;
    int64_t whole = 0;
    const auto read = is_real ? std::from_chars(rest_.data(), end, amount.real)
                              : std::from_chars(rest_.data(), end, whole);
    const size_t length = to_size(read.ptr - rest_.data());
    const bool ends =
        length == rest_.size() || contains("*/+-() ", rest_[length]);
    if (read.ec != std::errc() || !ends) return unknown(word());
    if (is_real) {
      amount.why = in_backticks(rest_.substr(0, length)) + " is not an integer";
    } else {
      amount.real = static_cast<double>(whole);
      if (whole <= kMaxDimSize) amount.whole = whole;
      if (!amount.whole) amount.why = "the number exceeds 2^53";
    }
    rest_.remove_prefix(length);
    return amount;
  }

  static double real_of(double left, char sign, double right) {
    if (sign == '+') return left + right;
    if (sign == '-') return left - right;
    return sign == '*' ? left * right : left / right;
  }

  // Combines two sizes; returns nullopt, with the reason, if the result is not
  // a size.
  static std::optional<int64_t> whole_of(int64_t left, char sign, int64_t right,
                                         std::string& why) {
    if (sign == '/') {
      if (right > 0 && left % right == 0) return left / right;
      why = std::to_string(left) + " is not divisible by " +
            std::to_string(right);
      return std::nullopt;
    }
    if (sign == '-') {
      if (left >= right) return left - right;
      why =
          std::to_string(left) + " - " + std::to_string(right) + " is negative";
      return std::nullopt;
    }
    const auto made =
        sign == '*' ? checked_mul(left, right) : checked_add(left, right);
    if (made && *made <= kMaxDimSize) return made;
    why = sign == '*' ? "the product exceeds 2^53" : "the sum exceeds 2^53";
    return std::nullopt;
  }

  std::optional<Amount> combined(const Amount& left, char sign,
                                 const Amount& right) {
    Amount made;
    made.real = real_of(left.real, sign, right.real);
    if (left.whole && right.whole) {
      made.whole = whole_of(*left.whole, sign, *right.whole, made.why);
    } else {
      made.why = left.whole ? right.why : left.why;
    }
    if (std::isfinite(made.real)) return made;
    return fail(made.why.empty() ? "it is not finite" : made.why);
  }

  std::string_view rest_;
  const DimSizes& dims_;
  std::string& why_;
  int depth_ = 0;
};

void report_size(const Node& node, const std::string& why, Diagnostics& diags) {
  diags
      .error(Code::InvalidGraph, node.span(),
             in_backticks(node.text()) + " is not a size: " + why)
      .help(
          "write a number, a name in `dims`, or an expression such as "
          "`2*heads*head_dim`");
}

}  // namespace

bool is_dim_name(std::string_view text) {
  return !text.empty() && starts_name(text.front()) &&
         std::ranges::all_of(
             text, [](char c) { return starts_name(c) || is_digit(c); });
}

std::optional<Amount> evaluate_amount(std::string_view text,
                                      const DimSizes& dims, std::string& why) {
  return ExpressionReader(text, dims, why).read();
}

std::optional<int64_t> evaluate_size(std::string_view text,
                                     const DimSizes& dims, std::string& why) {
  const auto amount = evaluate_amount(text, dims, why);
  if (!amount) return std::nullopt;
  if (!amount->whole) why = amount->why;
  return amount->whole;
}

std::optional<int64_t> read_size(const Node& node, const DimSizes& dims,
                                 Diagnostics& diags) {
  if (node.is_string()) {
    std::string why;
    const auto size = evaluate_size(node.text(), dims, why);
    if (!size) report_size(node, why, diags);
    return size;
  }
  if (!require(node, NodeKind::Integer, "a size", diags)) return std::nullopt;
  const auto number = node.integer();
  if (number && *number >= 0 && *number <= kMaxDimSize) return number;
  return diags.error(Code::MalformedDocument, node.span(),
                     "a size must be from 0 to 2^53");
}

bool read_dims(const std::optional<Node>& node, const DimSizes& chosen,
               DimSizes& dims, Diagnostics& diags) {
  const int64_t errors_before = diags.count(Severity::Error);
  const auto errors = [&] {
    return diags.count(Severity::Error) - errors_before;
  };
  if (node && !node->is_null() &&
      !require(*node, NodeKind::Map, "dims", diags)) {
    return false;
  }
  const size_t count = node ? node->size() : 0;
  for (size_t i = 0; i < count && errors() < kMaxErrors; ++i) {
    const std::string_view name = node->key(i);
    if (!is_dim_name(name)) {
      diags
          .error(Code::MalformedDocument, node->key_span(i),
                 in_backticks(name) + " is not a valid size name")
          .help("use letters, digits and `_`; do not start with a digit");
      continue;
    }
    const auto wish = chosen.find(name);
    const auto size = wish == chosen.end()
                          ? read_size(node->item(i), dims, diags)
                          : std::optional<int64_t>(wish->second);
    if (size) dims.emplace(name, *size);
  }
  if (errors() > 0) return false;
  for (const auto& [name, size] : chosen) {
    if (!dims.contains(name)) {
      suggest(diags.error(Code::InvalidGraph, {},
                          "the graph has no size named " + in_backticks(name)),
              name, names_of(dims));
    } else if (size < 0 || size > kMaxDimSize) {
      diags.error(Code::InvalidGraph, {},
                  "`" + name + "` must be from 0 to 2^53");
    }
  }
  return errors() == 0;
}

}  // namespace shardplan
