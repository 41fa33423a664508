// SPDX-License-Identifier: Apache-2.0
// Reads the names of an architecture file and the rules for their values.
#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "base/words.h"
#include "model/architecture/reading.h"
#include "model/config_reader.h"
#include "syntax/document.h"

namespace shardplan {
namespace {

// Names are computed from other names, so evaluation nests as deep as there are
// names.
constexpr size_t kMaxValues = 300;

struct ValueSection {
  const char* name;
  ValueRule::Kind kind;
  int64_t most;
};
constexpr std::array<ValueSection, 7> kValueSections = {{
    {"sizes", ValueRule::Kind::Size, kMaxSize},
    {"counts", ValueRule::Kind::Size, kMaxCount},
    {"flags", ValueRule::Kind::Flag, 1},
    {"numbers", ValueRule::Kind::Number, 0},
    {"texts", ValueRule::Kind::Text, 0},
    {"lists", ValueRule::Kind::Integers, 0},
    {"tables", ValueRule::Kind::Table, 0},
}};

bool read_value(const Node& node, ValueRule& rule, StepReader& reader,
                Diagnostics& diags) {
  if (!node.is_map()) {
    rule.keys = reader.texts(node, "a key of the config");
    return !rule.keys.empty();
  }
  if (!reader.known_keys(
          node, {"key", "else", "if_absent", "if_null", "is", "given",
                 "count_of", "least", "most", "values", "other", "entry"})) {
    return false;
  }
  if (!reader.optional(node, "else", rule.otherwise) ||
      !reader.optional(node, "if_absent", rule.absent) ||
      !reader.optional(node, "if_null", rule.null) ||
      !reader.optional(node, "is", rule.is) ||
      !reader.optional(node, "other", rule.other_words) ||
      !reader.optional(node, "count_of", rule.counted) ||
      !reader.optional(node, "given", rule.given)) {
    return false;
  }
  if (const auto given = node.find("given")) {
    if (rule.kind != ValueRule::Kind::Flag || node.size() > 1) {
      reader.refuse(given->span(),
                    "`given` is only for a flag, as its only key");
      return false;
    }
    return true;
  }
  if (!reader.optional(node, "entry", rule.entry)) return false;
  const auto entry = node.find("entry");
  if (entry && (rule.kind != ValueRule::Kind::Table || !rule.otherwise)) {
    reader.refuse(entry->span(),
                  "`entry` is only for a table that gives `else` for layers "
                  "without an entry");
    return false;
  }
  if (const auto keys = node.find("key")) {
    rule.keys = reader.texts(*keys, "a key of the config");
  }
  for (const auto& [key, member] : {std::pair{"least", &ValueRule::least},
                                    std::pair{"most", &ValueRule::most}}) {
    const auto at = node.find(key);
    if (!at) continue;
    const auto number = at->integer();
    if (!number || *number < 0 || *number > kMaxSize) {
      reader.refuse(at->span(), in_backticks(key) + " must be 0 to " +
                                    count_text(kMaxSize));
      return false;
    }
    rule.*member = *number;
  }
  if (const auto words = node.find("values")) {
    if (!require(*words, NodeKind::Map, "`values`", diags)) return false;
    for (size_t i = 0; i < words->size(); ++i) {
      auto value = reader.expression(words->item(i));
      if (!value) return false;
      rule.words.emplace_back(words->key(i), *std::move(value));
    }
  }
  if (rule.keys.empty() != rule.is.has_value()) {
    reader.refuse(
        rule.where,
        in_backticks(rule.name) +
            " needs either `key` or `is`, or must be a flag with `given`");
    return false;
  }
  return true;
}

void read_section(const Node& map, const ValueSection& section, bool of_forward,
                  StepReader& reader, std::vector<ValueRule>& values,
                  Diagnostics& diags) {
  if (!require(map, NodeKind::Map, in_backticks(section.name), diags)) return;
  for (size_t i = 0; i < map.size(); ++i) {
    if (values.size() >= kMaxValues) {
      reader.refuse(map.key_span(i), "there are too many names");
      return;
    }
    ValueRule rule;
    rule.name = std::string(map.key(i));
    rule.where = map.key_span(i);
    rule.kind = section.kind;
    rule.most = section.most;
    rule.of_forward = of_forward;
    if (!read_value(map.item(i), rule, reader, diags)) continue;
    const auto known = std::ranges::find(values, rule.name, &ValueRule::name);
    if (known == values.end()) {
      values.push_back(std::move(rule));
    } else {
      *known = std::move(rule);  // inherited
    }
  }
}

}  // namespace

std::vector<std::string> value_section_keys() {
  return all_names(kValueSections);
}

void read_values(const Node& root, bool of_forward, StepReader& reader,
                 std::vector<ValueRule>& values, Diagnostics& diags) {
  for (const ValueSection& section : kValueSections) {
    if (const auto map = root.find(section.name)) {
      read_section(*map, section, of_forward, reader, values, diags);
    }
  }
}

}  // namespace shardplan
