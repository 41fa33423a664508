// SPDX-License-Identifier: Apache-2.0
// RuleChange: one step from a rule set to another, before it is text.
//
// The advisor tries changes on rules as data (advise/what_if.h) and only then
// spells those that help as edits of a file (advise/rule_edit.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/diagnostic.h"
#include "core/rules.h"

namespace shardplan {

struct NewRule {
  std::string pattern;
  PartitionSpec spec;
  std::vector<std::string> names = {};  // of its parameters, `*` for numbers
};

struct RuleChange {
  enum class Kind : uint8_t { SetSpec, SetPattern, Insert, Remove, Move };
  Kind kind = Kind::SetSpec;
  // 1-based: the rule that is changed. Insert: the rule that the new ones come
  // to stand before; one more than there are rules means the end.
  int rule = 1;
  int before = 1;              // Move: the rule that it comes to stand before
  PartitionSpec spec;          // SetSpec
  std::string pattern;         // SetPattern
  std::vector<NewRule> added;  // Insert
};

struct ChangedRules {
  RuleSet rules;
  // Per rule the 0-based number of the one it was; -1 where the pattern is new.
  std::vector<int> origin;
  // Per rule the number of the change that wrote or moved it; -1 for none.
  std::vector<int> by;
};
ChangedRules changed(const RuleSet& rules, const RuleChange& change);
// All changes at once, each of the rules as they were. REQUIRES: no two set,
// remove or move the same rule.
ChangedRules changed(const RuleSet& rules,
                     std::span<const RuleChange* const> changes);

// A rule whose file is the user's own and can be edited.
bool is_editable(const Rule& rule);

// Where new rules may be written that are to stand before `rule`: the last
// place up to it that has an editable rule on either side; `rule` itself where
// there is none.
int insertion_place(const RuleSet& rules, int rule);

// Layout: how a rule stands in its file, as far as adding, removing and moving
// whole rules needs to know it.

// One rule of a list of rules. In a block list (`- [..]`) a rule owns its
// lines, with the remark at the end of the last one; in a flow list (`[.., ..]`
// and JSON) it stands between commas.
struct ItemLayout {
  bool block = true;
  Span item;                  // the rule itself
  Span lines;                 // block: its lines, with the last line end
  std::string indent;         // what stands in front of it, up to `-`
  std::string_view line_end;  // "\n" or "\r\n"
  // Flow: its neighbours in the same file, if there are any.
  std::optional<Span> previous;
  std::optional<Span> next;
  bool alone = false;  // the only rule of its file
};

// Where all rules of a set stand, looked through once: there may be as many
// changes as rules. The rules must outlive it.
class RulePlaces {
 public:
  explicit RulePlaces(const RuleSet& rules);

  // Empty where the rule shares its lines with others in a block list, its text
  // with others through aliases, or the like.
  std::optional<ItemLayout> layout_of(const Rule& rule) const;

 private:
  struct File {
    std::vector<Span> items;            // ascending
    std::vector<uint64_t> line_starts;  // ascending; the first is 0
    std::string_view line_end;
  };
  bool is_shared(const Rule& rule) const;

  std::map<const SourceFile*, File> files_;
  // How many rules have their pattern, or their spec, at a place.
  using Place = std::pair<const SourceFile*, uint64_t>;
  std::map<Place, int> patterns_at_;
  std::map<Place, int> specs_at_;
};

// A file whose first character opens a JSON value.
bool is_json(const SourceFile& file);

// New rules in front of or behind one.
TextEdit insertion_before(const ItemLayout& item,
                          std::span<const std::string> rules);
TextEdit insertion_behind(const ItemLayout& item,
                          std::span<const std::string> rules);
// Without the rule. Empty where it is the last one left, or where text that is
// not a rule would go with it.
std::optional<TextEdit> removal_of(const ItemLayout& item);
// A copy of `item`, as it is written, in front of `target`.
std::optional<TextEdit> copy_before(const ItemLayout& target,
                                    const ItemLayout& item);

// Rule changes as edits of the bytes of a rules file, in YAML or JSON.
//
// Only what changes is replaced: comments and layout of everything else stay
// as they are. Rules are written as `["pattern", [axis, null]]`, which both
// syntaxes read.

// "[tp, null, [fsdp, sp]]"; `quoted` writes axes as JSON has them.
std::string spec_source(const PartitionSpec& spec, bool quoted);
// "[\"q_proj\", [fsdp, tp]]"
std::string rule_source(std::string_view pattern, const PartitionSpec& spec,
                        bool quoted);

// Ascending and apart; all in one file. Empty where the change is not of one
// file of the user's own, or where the layout (aliases, several rules in a
// line, comments between entries) does not allow it safely.
std::vector<TextEdit> edits_of(const RuleSet& rules, const RulePlaces& places,
                               const RuleChange& change);

// The text with its edits made. REQUIRES: ascending and apart.
std::string edited(std::string_view text, std::span<const TextEdit> edits);

// Unified diff, as `diff -u` writes it and `patch -p0` reads it.

// Empty for equal texts. Three lines of context; a last line without an end is
// marked as diff marks it.
std::string unified_diff(std::string_view path, std::string_view before,
                         std::string_view after);

}  // namespace shardplan
