// SPDX-License-Identifier: Apache-2.0
// Rule edits: rule changes (evaluate/candidate.h) as edits of the text of a
// rules file.
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
#include "evaluate/candidate.h"

namespace shardplan {

// Returns whether the rule is in a file of the user's own that can be edited.
bool is_editable(const Rule& rule);

// Returns the place for new rules that must come before `rule`: the last one up
// to it that has an editable rule on either side. Without one, `rule` itself,
// or the first rule of the shipped set that it belongs to.
int insertion_place(const RuleSet& rules, int rule);

// Layout: the position of a rule in its file, as needed to add, remove and move
// whole rules.

// The layout of one rule in a list of rules. In a block list (`- [..]`) a rule
// owns its lines, including a comment at the end of the last one. In a flow
// list (`[.., ..]` and JSON) it is between commas.
struct ItemLayout {
  bool block = true;
  Span item;                  // the rule itself
  Span lines;                 // block: its lines, with the last line end
  std::string indent;         // the text before it on its line, up to `-`
  std::string_view line_end;  // "\n" or "\r\n"
  // Flow: its neighbours in the same file, if any.
  std::optional<Span> previous;
  std::optional<Span> next;
  bool alone = false;  // whether it is the only rule of its file
};

// The places of all rules of a set, computed once, since there may be as many
// changes as rules. The rules must outlive it.
class RulePlaces {
 public:
  explicit RulePlaces(const RuleSet& rules);

  // Returns no value if the rule shares its lines with others in a block list,
  // its text with others through aliases, or similar.
  std::optional<ItemLayout> layout_of(const Rule& rule) const;

 private:
  struct File {
    std::vector<Span> items;            // ascending
    std::vector<uint64_t> line_starts;  // ascending; the first is 0
    std::string_view line_end;
  };
  bool is_shared(const Rule& rule) const;

  std::map<const SourceFile*, File> files_;
  // The number of rules that have their pattern, or their spec, at a place.
  using Place = std::pair<const SourceFile*, uint64_t>;
  std::map<Place, int> patterns_at_;
  std::map<Place, int> specs_at_;
};

// Returns whether the first character of the file opens a JSON value.
bool is_json(const SourceFile& file);

// Returns the edit that adds rules before or after a rule.
TextEdit insertion_before(const ItemLayout& item,
                          std::span<const std::string> rules);
TextEdit insertion_behind(const ItemLayout& item,
                          std::span<const std::string> rules);
// Returns the edit that removes the rule. No value if it is the only one, or if
// text that is not a rule would be removed with it.
std::optional<TextEdit> removal_of(const ItemLayout& item);

// Rule changes as edits of a rules file in YAML or JSON.
//
// Only changed text is replaced: comments and layout of everything else remain.
// Rules are written as `["pattern", [axis, null]]`, which both syntaxes read.

// Returns "[tp, null, [fsdp, sp]]"; `quoted` writes axes as JSON strings.
std::string spec_source(const PartitionSpec& spec, bool quoted);
// Returns "[\"q_proj\", [fsdp, tp]]".
std::string rule_source(std::string_view pattern, const PartitionSpec& spec,
                        bool quoted);

// Returns the edits of a change, in one file, ascending and disjoint. Empty if
// the change is not within one file of the user's own, or if the layout
// (aliases, several rules in a line, comments between entries) does not allow
// it safely.
std::vector<TextEdit> edits_of(const RuleSet& rules, const RulePlaces& places,
                               const RuleChange& change);

// Returns the text after the edits. REQUIRES: they are ascending and disjoint.
std::string edited(std::string_view text, std::span<const TextEdit> edits);

// Unified diffs, as `diff -u` writes them and `patch -p0` reads them.

// Returns the diff, with three lines of context; empty for equal texts. A last
// line without a line end is marked as in diff's output.
std::string unified_diff(std::string_view path, std::string_view before,
                         std::string_view after);

}  // namespace shardplan
