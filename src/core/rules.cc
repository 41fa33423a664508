// SPDX-License-Identifier: Apache-2.0
#include "core/rules.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/text.h"
#include "base/words.h"

namespace shardplan {

void merge_logical_rules(std::vector<LogicalRule> later, LogicalMerge how,
                         std::vector<LogicalRule>& all) {
  if (how == LogicalMerge::ReplaceAll) all.clear();
  if (how == LogicalMerge::ReplaceNames) {
    std::erase_if(all, [&](const LogicalRule& rule) {
      return std::ranges::any_of(later, [&](const LogicalRule& other) {
        return other.name == rule.name;
      });
    });
  }
  std::move(later.begin(), later.end(), std::back_inserter(all));
}

void mark_inactive_views(RuleSet& rules, const Mesh& mesh) {
  for (Rule& rule : rules.rules) rule.inactive = !mesh.has_view(rule.view);
  for (LogicalRule& rule : rules.logical_rules) {
    rule.inactive = !mesh.has_view(rule.view);
  }
  for (const auto& [view, axes] : rules.view_axes) {
    if (!mesh.has_view(view)) continue;
    for (const AxisName& axis : axes) {
      if (contains(rules.declared_axes, axis)) continue;
      rules.declared_axes.push_back(axis);
    }
  }
}

void drop_shipped_views(RuleSet& rules) {
  const auto is_dropped = [](const auto& rule) {
    return rule.shipped && !rule.view.empty();
  };
  std::erase_if(rules.rules, is_dropped);
  std::erase_if(rules.logical_rules, is_dropped);
}

std::string exact_pattern(std::string_view name) {
  std::string pattern = "^";
  for (const char c : name) {
    if (std::string_view("\\^$.|?*+()[]{}").find(c) != std::string_view::npos) {
      pattern += '\\';
    }
    pattern += c;
  }
  return pattern + "$";
}

namespace {

constexpr std::string_view kPadVocab = "pad-vocab=";

// Declarations without a number.
constexpr std::array<std::pair<std::string_view, bool Declarations::*>, 3>
    kSwitches = {{
        {"replicate-kv-heads", &Declarations::replicate_kv_heads},
        {"interleave-gate-up", &Declarations::interleave_gate_up},
        {"interleave-qkv", &Declarations::interleave_qkv},
    }};

}  // namespace

bool add_declaration(std::string_view text, Declarations& declarations) {
  for (const auto& [name, member] : kSwitches) {
    if (text != name) continue;
    declarations.*member = true;
    return true;
  }
  if (!text.starts_with(kPadVocab)) return false;
  text.remove_prefix(kPadVocab.size());
  const auto multiple = parse_integer(text);
  if (!multiple || *multiple < 1 || *multiple > kMaxPadVocab) return false;
  declarations.pad_vocab = *multiple;
  return true;
}

std::vector<std::string> declaration_texts(const Declarations& declarations) {
  std::vector<std::string> texts;
  for (const auto& [name, member] : kSwitches) {
    if (declarations.*member) texts.emplace_back(name);
  }
  if (declarations.pad_vocab > 0) {
    texts.push_back(std::string(kPadVocab) +
                    std::to_string(declarations.pad_vocab));
  }
  return texts;
}

std::vector<std::string> declaration_forms() {
  std::vector<std::string> forms;
  for (const auto& [name, member] : kSwitches) forms.emplace_back(name);
  forms.push_back(std::string(kPadVocab) + "M");
  return forms;
}

}  // namespace shardplan
