// SPDX-License-Identifier: Apache-2.0
// Layout: how a rule stands in its file, as far as adding, removing and moving
// whole rules needs to know it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fix.h"
#include "core/rules.h"

namespace shardplan {

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

}  // namespace shardplan
