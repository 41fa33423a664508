// SPDX-License-Identifier: Apache-2.0
#include "model/config_reader.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"

namespace shardplan {
namespace {

// Returns a member of a map, or an item of a list by its number.
std::optional<Node> member_of(const Node& node, std::string_view key) {
  if (node.is_map()) return node.find(key);
  const auto index = node.is_list() ? parse_integer(key) : std::nullopt;
  if (!index || *index < 0 || to_size(*index) >= node.size()) {
    return std::nullopt;
  }
  return node.item(to_size(*index));
}

}  // namespace

std::optional<Node> value_at(const Node& map, std::string_view key) {
  if (auto value = map.find(key)) return value;
  std::optional<Node> value = map;
  for (size_t dot = 0; value && dot != key.npos;) {
    dot = key.find('.');
    value = member_of(*value, key.substr(0, dot));
    key.remove_prefix(dot == key.npos ? key.size() : dot + 1);
  }
  if (!value || !value->is_map() || value->size() != 1) return value;
  const auto text = value->find("__float__");
  return text ? text : value;
}

ConfigReader::ConfigReader(const Node& map, std::string path,
                           Diagnostics& diags)
    : map_(map),
      path_(std::move(path)),
      diags_(diags),
      errors_before_(diags.count(Severity::Error)) {}

Span ConfigReader::place(std::string_view key) const {
  if (const auto value = at(key)) return value->span();
  const Span map = map_.span();
  return {map.file, map.begin, std::min(map.begin + 1, map.end)};
}

Diagnostics::Builder ConfigReader::refuse(std::string_view key,
                                          std::string message) {
  return diags_.error(Code::UnsupportedConfig, place(key), std::move(message));
}

Diagnostics::Builder ConfigReader::warn(std::string_view key,
                                        std::string message) {
  return diags_.report(Code::UnsupportedConfig, Severity::Warning, place(key),
                       std::move(message));
}

Diagnostics::Builder ConfigReader::ill_typed(std::string_view key,
                                             const Node& value,
                                             std::string_view wanted) {
  return diags_.error(Code::MalformedDocument, value.span(),
                      shown(key) + " must be " + std::string(wanted) +
                          ", not " + std::string(kind_name(value.kind())));
}

std::optional<Node> ConfigReader::at(std::string_view key) const {
  return value_at(map_, key);
}

std::optional<Node> ConfigReader::find(std::string_view key) const {
  const auto value = at(key);
  if (!value || value->is_null()) return std::nullopt;
  return value;
}

int64_t ConfigReader::bounded(std::string_view key, int64_t least, int64_t most,
                              const Fallback& fallback) {
  const auto value = at(key);
  if (!value) {
    if (!fallback.absent) refuse(key, shown(key) + " is missing");
    return fallback.absent.value_or(least);
  }
  if (value->is_null()) {
    if (!fallback.null) refuse(key, shown(key) + " is null");
    return fallback.null.value_or(least);
  }
  if (value->kind() != NodeKind::Integer) {
    ill_typed(key, *value, kind_name(NodeKind::Integer));
    return least;
  }
  const std::optional<int64_t> number = value->integer();
  if (!number || *number < least || *number > most) {
    refuse(key, shown(key) + " is " + std::string(value->text()))
        .fact("it must be " + count_text(least) + " to " + count_text(most));
    return least;
  }
  return *number;
}

int64_t ConfigReader::size(std::string_view key, const Fallback& fallback) {
  return bounded(key, 1, kMaxSize, fallback);
}

int64_t ConfigReader::count(std::string_view key, int64_t least,
                            const Fallback& fallback) {
  return bounded(key, least, kMaxCount, fallback);
}

bool ConfigReader::flag(std::string_view key, bool absent) {
  const auto value = at(key);
  if (!value) return absent;
  const std::optional<bool> flag = value->boolean();
  if (!flag) ill_typed(key, *value, kind_name(NodeKind::Bool));
  return flag.value_or(absent);
}

double ConfigReader::positive(std::string_view key, double absent) {
  const auto value = find(key);
  if (!value) return absent;
  const std::optional<double> number = value->number();
  if (!number) {
    ill_typed(key, *value, kind_name(NodeKind::Real));
    return absent;
  }
  if (!std::isfinite(*number) || *number <= 0) {
    refuse(key, shown(key) + " is " + std::string(value->text()))
        .fact("it must be more than 0");
    return absent;
  }
  return *number;
}

std::string ConfigReader::text(std::string_view key) {
  const auto value = find(key);
  if (!value) return "";
  if (!value->is_string()) {
    ill_typed(key, *value, kind_name(NodeKind::String));
    return "";
  }
  return std::string(value->text());
}

std::vector<int64_t> ConfigReader::integers(std::string_view key) {
  std::vector<int64_t> numbers;
  const auto list = find(key);
  if (!list) return numbers;
  if (!list->is_list()) ill_typed(key, *list, kind_name(NodeKind::List));
  for (size_t i = 0; i < list->size(); ++i) {
    const Node item = list->item(i);
    const std::optional<int64_t> number = item.integer();
    if (!number) {
      ill_typed(key, item, "a list of integers");
      break;
    }
    numbers.push_back(*number);
  }
  return numbers;
}

ConfigReader ConfigReader::empty_section(std::string_view key) const {
  static const Document none = [] {
    Diagnostics diags;
    auto document = parse_document(
        std::make_shared<SourceFile>("defaults", std::string("{}")), diags);
    SHARDPLAN_CHECK(document.has_value());
    return *std::move(document);
  }();
  return ConfigReader(none.root(), path_ + std::string(key) + ".", diags_);
}

std::optional<ConfigReader> ConfigReader::section(std::string_view key) {
  const auto value = find(key);
  if (!value) return refuse(key, shown(key) + " is missing");
  if (!value->is_map()) return ill_typed(key, *value, kind_name(NodeKind::Map));
  return ConfigReader(*value, path_ + std::string(key) + ".", diags_);
}

}  // namespace shardplan
