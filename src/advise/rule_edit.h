// SPDX-License-Identifier: Apache-2.0
// Rules changed (evaluate/candidate.h) as edits of a file: where rules stand in
// it, and what of its text is replaced.
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
