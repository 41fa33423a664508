// SPDX-License-Identifier: Apache-2.0
#include "core/folded_key.h"

#include <algorithm>

#include "core/rules.h"

namespace shardplan {
namespace {

constexpr std::string_view kBelow =
    "(?:(?:model|transformer|language_model)\\.)*";
constexpr std::string_view kModuleEnd = "(?:\\.[^.]+)?$";
constexpr std::string_view kBiasEnd = "(?:\\.bias)$";
constexpr std::string_view kDigits = "\\d+";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::string fold_digits(std::string_view name, DigitFolding folding) {
  std::string result;
  for (size_t i = 0; i < name.size();) {
    size_t end = i;
    while (end < name.size() && is_digit(name[end])) ++end;
    if (folding == DigitFolding::EveryRun && end > i) {
      result += '*';
      i = end;
      continue;
    }
    const bool behind_dot = end > i && i > 0 && name[i - 1] == '.';
    const bool before_dot = end == name.size() || name[end] == '.';
    if (folding == DigitFolding::WholeParts && behind_dot && before_dot) {
      result += '*';
      // The dot behind is used up: what follows is not looked at as a number.
      if (end < name.size()) result += name[end++];
      while (end < name.size() && is_digit(name[end])) result += name[end++];
      i = end;
      continue;
    }
    end = std::max(end, i + 1);
    result += name.substr(i, end - i);
    i = end;
  }
  return result;
}

bool can_be_folded_name(std::string_view key, DigitFolding folding) {
  std::string sample(key);
  std::replace(sample.begin(), sample.end(), '*', '7');
  return fold_digits(sample, folding) == key;
}

std::string key_pattern(std::string_view key, KeyPart part, bool below) {
  std::string pattern = "^";
  if (below) pattern += kBelow;
  for (size_t i = 0; i < key.size();) {
    const size_t star = std::min(key.find('*', i), key.size());
    const std::string exact = exact_pattern(key.substr(i, star - i));
    pattern += exact.substr(1, exact.size() - 2);
    if (star < key.size()) pattern += kDigits;
    i = star + 1;
  }
  return pattern += part == KeyPart::Bias ? kBiasEnd : kModuleEnd;
}

std::optional<std::string> key_of_pattern(std::string_view pattern) {
  const bool bias = pattern.ends_with(kBiasEnd);
  if (!pattern.starts_with('^') || (!bias && !pattern.ends_with(kModuleEnd))) {
    return std::nullopt;
  }
  const KeyPart part = bias ? KeyPart::Bias : KeyPart::Module;
  std::string_view inside = pattern.substr(1);
  inside.remove_suffix((bias ? kBiasEnd : kModuleEnd).size());
  const bool below = inside.starts_with(kBelow);
  if (below) inside.remove_prefix(kBelow.size());
  std::string key;
  for (size_t i = 0; i < inside.size(); ++i) {
    if (inside.substr(i).starts_with(kDigits)) {
      key += '*';
      i += kDigits.size() - 1;
    } else {
      if (inside[i] == '\\') ++i;
      if (i < inside.size()) key += inside[i];
    }
  }
  if (key_pattern(key, part, below) != pattern) return std::nullopt;
  return key;
}

}  // namespace shardplan
