// SPDX-License-Identifier: Apache-2.0
#include "io/graph_dims.h"

#include <charconv>
#include <vector>

#include "base/checked.h"
#include "base/text.h"

namespace shardplan {
namespace {

constexpr int64_t kMaxErrors = 20;

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::vector<std::string> names_of(const DimSizes& dims) {
  std::vector<std::string> names;
  for (const auto& [name, size] : dims) names.push_back(name);
  return names;
}

std::optional<int64_t> term(std::string_view text, const DimSizes& dims,
                            std::string& why) {
  int64_t number = 0;
  if (!text.empty() && is_digit(text.front())) {
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (stop == end && error == std::errc()) return number;
  }
  const auto found = dims.find(text);
  if (found != dims.end()) return found->second;
  why = "`" + printable(text) + "` is neither a number nor a name in `dims`";
  if (const auto near = nearest(text, names_of(dims))) {
    why += "; `" + *near + "` is";
  }
  return std::nullopt;
}

std::optional<int64_t> combined(int64_t left, char sign, int64_t right,
                                std::string& why) {
  if (sign == '*') {
    const auto product = checked_mul(left, right);
    if (product && *product <= kMaxDimSize) return product;
    why = "the product exceeds 2^53";
    return std::nullopt;
  }
  if (right > 0 && left % right == 0) return left / right;
  why = std::to_string(right) + " does not divide " + std::to_string(left);
  return std::nullopt;
}

void report_size(const Node& node, const std::string& why, Diagnostics& diags) {
  diags
      .error(Code::InvalidGraph, node.span(),
             "`" + printable(node.text()) + "` is no size: " + why)
      .help(
          "a size is a number, a name in `dims`, or several joined by `*` "
          "and `/`");
}

}  // namespace

bool is_dim_name(std::string_view text) {
  if (text.empty() || !is_letter(text.front())) return false;
  for (const char c : text) {
    if (!is_letter(c) && !is_digit(c)) return false;
  }
  return true;
}

std::optional<int64_t> evaluate_size(std::string_view text,
                                     const DimSizes& dims, std::string& why) {
  std::optional<int64_t> value;
  char sign = '*';
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find_first_of("*/", begin), text.size());
    const auto next = term(trimmed(text.substr(begin, end - begin)), dims, why);
    if (!next) return std::nullopt;
    value = combined(value.value_or(1), sign, *next, why);
    if (!value) return std::nullopt;
    if (end < text.size()) sign = text[end];
    begin = end + 1;
  }
  return value;
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
                 "`" + printable(name) + "` is no name of a size")
          .help("names have letters, digits and `_`, no digit first");
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
    if (dims.count(name) == 0) {
      auto problem =
          diags.error(Code::InvalidGraph, {},
                      "the graph has no size named `" + printable(name) + "`");
      if (const auto near = nearest(name, names_of(dims))) {
        problem.help("one with a similar name is `" + *near + "`");
      }
    } else if (size < 0 || size > kMaxDimSize) {
      diags.error(Code::InvalidGraph, {},
                  "`" + name + "` must be from 0 to 2^53");
    }
  }
  return errors() == 0;
}

}  // namespace shardplan
