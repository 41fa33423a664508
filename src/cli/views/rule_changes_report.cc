// SPDX-License-Identifier: Apache-2.0
#include "cli/views/rule_changes_report.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "base/words.h"
#include "cli/views/columns.h"
#include "core/spec.h"
#include "report/table_text.h"

namespace shardplan::cli {
namespace {

using From = RuleSetChange::From;
using How = ChangeHow;
using Kind = ChangeKind;

std::string place_text(Span where) {
  if (!where) return "";
  return where.file->name() + ":" + std::to_string(place_of(where).line);
}

std::string both_places(const RuleSetChange& change) {
  const std::string before = place_text(change.before_where);
  const std::string after = place_text(change.after_where);
  if (before.empty() || after.empty()) return before + after;
  return before + " → " + after;
}

// Returns "[data, fsdp]" for a label, "P(data, fsdp)" for a rule.
std::string placed_text(const RuleSetChange& change,
                        const PartitionSpec& spec) {
  if (change.kind != Kind::Label) return spec_text(spec);
  const AxisNames axes = axes_in(spec);
  return axes.empty() ? "None" : "[" + joined(texts_of(axes), ", ") + "]";
}

// Returns one side of the change: `text` if there is one, else the spec.
std::string side_text(const RuleSetChange& change,
                      const std::optional<PartitionSpec>& spec,
                      const std::string& text) {
  if (!text.empty()) return text;
  return spec ? placed_text(change, *spec) : "–";
}

std::string before_and_after(const RuleSetChange& change) {
  const std::string before =
      side_text(change, change.before, change.text_before);
  const std::string after = side_text(change, change.after, change.text_after);
  const bool is_text =
      change.kind == Kind::Axis || change.kind == Kind::Reading;
  return before == after && !is_text ? after : before + " → " + after;
}

// Returns "matters where `expert` > 1".
std::string matters_text(const RuleSetChange& change) {
  if (change.matters.empty()) return "";
  return "matters where " +
         quoted_names(texts_of(change.matters),
                      change.matters_together ? " and " : " or ") +
         " > 1";
}

// Returns "loses `a` and gains `b`"; "" if axes only moved.
std::string loses_and_gains(const RuleSetChange& change, bool several) {
  std::string text;
  if (!change.lost.empty()) {
    text = (several ? "lose " : "loses ") + quoted_names(texts_of(change.lost));
  }
  if (!change.gained.empty()) {
    text += (text.empty() ? "" : " and ") +
            std::string(several ? "gain " : "gains ") +
            quoted_names(texts_of(change.gained));
  }
  return text;
}

// Describes a change that neither lost nor gained an axis as a whole.
std::string rearranged(const RuleSetChange& change) {
  if (change.matters_together) return "has its axes in a different order";
  if (change.matters.empty()) return "is written differently";
  return "has " + quoted_names(texts_of(change.matters)) +
         " on a different dimension";
}

std::string subject(const RuleSetChange& change) {
  const std::string name = in_backticks(change.what);
  return change.of_values ? "for values: " + name : name;
}

std::string crossed_text(const RuleSetChange& change) {
  std::string text = in_backticks(change.by);
  if (change.crossed > 1) {
    text += " and " + plural(change.crossed - 1, "other rule");
  }
  return text;
}

// Returns why no name shows an effect of rules that swapped places.
std::string no_witness_text(const RuleSetChange& change) {
  if (change.is_untried) return "not all of them were checked for common names";
  return change.is_shadowed ? "every name tried that matches both is decided "
                              "by an earlier rule"
                            : "no name was found that matches both";
}

std::string whose_text(const RuleSetChange& change) {
  switch (change.from) {
    case From::Model:
      return "a name of " + in_backticks(change.witness_of);
    case From::Family:
      return "a name as in " + change.witness_of;
    case From::Patterns:
      return "a name made from the patterns";
    case From::Nowhere:
      break;
  }
  return "";
}

// Returns the arrays in which the two labels meet.
std::string array_text(const RuleSetChange& change) {
  switch (change.from) {
    case From::Model:
      return "in " + in_backticks(change.witness) + " of " +
             in_backticks(change.witness_of);
    case From::Patterns:
      return "in the spec of " + in_backticks(change.witness);
    case From::Family:
    case From::Nowhere:
      break;
  }
  return "in arrays that have both";
}

// Returns the axes that are in both lists.
AxisNames shared_axes(const AxisNames& a, const AxisNames& b) {
  AxisNames both;
  for (const AxisName& axis : a) {
    if (contains(b, axis)) both.push_back(axis);
  }
  return both;
}

// Describes the same contest between all `labels` and all `rivals`; one of the
// two lists has one element.
ChangeText contest_text(const RuleSetChange& change,
                        const std::vector<std::string>& labels,
                        const std::vector<std::string>& rivals) {
  const bool several = labels.size() > 1;
  const std::string who = some_names(labels, 4);
  const std::string rival = some_names(rivals, 4);
  ChangeText text;
  if (!change.lost.empty()) {
    text.what = who + " " + loses_and_gains(change, several) + " to " + rival;
  } else if (!change.gained.empty()) {
    // Either the rival no longer has the axis, or a later rule no longer needs
    // it.
    const bool is_freed =
        shared_axes(change.gained, change.contested) == change.gained;
    text.what = who + " " + loses_and_gains(change, several) +
                (is_freed ? ", which " : " alongside ") + rival +
                (is_freed ? " had" : "");
  } else {
    const AxisNames claimed = shared_axes(change.matters, change.contested);
    text.what =
        who + (several ? " claim " : " claims ") +
        quoted_names(texts_of(claimed.empty() ? change.contested : claimed)) +
        ", which " + rival + (rivals.size() > 1 ? " have" : " has");
  }
  text.places = place_text(change.by_where);
  const bool is_taken = change.gained.empty() || !change.lost.empty();
  if (is_taken) {
    text.places +=
        rivals.size() > 1 ? " and other earlier rules" : " (earlier rule)";
  }
  const bool is_one = !several && rivals.size() == 1;
  text.detail =
      (is_one ? before_and_after(change) + " " : "") + array_text(change);
  // A rule that names a taken axis is skipped as a whole, with all its axes.
  const bool is_whole = std::ranges::any_of(
      change.lost,
      [&](const AxisName& axis) { return !contains(change.contested, axis); });
  if (is_whole) {
    text.detail +=
        ", since its rule names " + quoted_names(texts_of(change.contested));
  }
  return text;
}

ChangeText single_text(const RuleSetChange& change) {
  ChangeText text;
  text.places = both_places(change);
  text.detail = before_and_after(change);
  const std::string who = subject(change);
  const std::string difference = loses_and_gains(change, false);
  switch (change.how) {
    case How::Added:
      text.what = who + " is new";
      text.detail = side_text(change, change.after, change.text_after);
      if (change.crossed > 0) {
        text.detail += "; placed before " + plural(change.crossed, "rule") +
                       " with other specs: " + no_witness_text(change);
      }
      break;
    case How::Removed:
      text.what = who + " is gone";
      text.detail =
          "was " + side_text(change, change.before, change.text_before);
      if (!change.witness.empty()) {
        text.detail += "; no rule now matches " + in_backticks(change.witness) +
                       ", " + whose_text(change);
      }
      break;
    case How::Changed:
      text.what =
          who + " " + (difference.empty() ? rearranged(change) : difference);
      break;
    case How::Fallback:
      text.what = "rule " + std::to_string(change.occurrence + 1) + " of " +
                  who + " " +
                  (!change.before        ? std::string("is new")
                   : !change.after       ? std::string("is gone")
                   : !difference.empty() ? difference
                                         : rearranged(change));
      if (!change.before) text.detail = placed_text(change, *change.after);
      if (!change.after) {
        text.detail = "was " + placed_text(change, *change.before);
      }
      break;
    case How::Takeover: {
      const std::string name = in_backticks(change.witness);
      if (change.by.empty()) {
        text.what = who + " now matches " + name + ", which no rule matched";
      } else {
        text.what =
            who + " takes over " + name + " from " + in_backticks(change.by);
      }
      text.detail += "; " + whose_text(change);
      break;
    }
    case How::Moved:
      if (change.kind == Kind::Axis) {
        text.what = "the axes of `mesh` are in a different order";
        break;
      }
      text.what = who + " is now " + (change.precedes ? "before " : "after ") +
                  crossed_text(change);
      text.detail = no_witness_text(change);
      break;
    case How::Contest:
      break;
  }
  if (change.kind == Kind::Axis && change.how != How::Moved) {
    text.what = "axis " + who +
                (change.how == How::Added     ? " is new"
                 : change.how == How::Removed ? " is gone"
                                              : " is declared differently");
  }
  if (change.kind == Kind::Reading) {
    text.what = "logical axes are read differently";
  }
  return text;
}

void add_ending(const RuleSetChange& change, const FailOn& fail_on,
                ChangeText& text) {
  const std::string matters = matters_text(change);
  if (!matters.empty()) text.detail += "; " + matters;
  if (fails(change, fail_on)) text.detail += "; fails";
}

// Returns what must be equal for contests to share a line, besides the rival or
// the label. Contests in a known array have a line of their own.
auto contest_key(const RuleSetChange& change, const std::string& whose) {
  return std::make_tuple(
      whose, change.lost, change.gained, change.contested, change.matters,
      change.from == From::Nowhere
          ? std::string()
          : change.what + '\n' + change.by + '\n' + change.witness);
}

// Returns "activation" for `activation_exp`.
std::string_view first_word(std::string_view label) {
  return label.substr(0, label.find('_'));
}

using ContestGroup = std::vector<const RuleSetChange*>;
using ContestGroups =
    std::map<decltype(contest_key(RuleSetChange(), "")), ContestGroup>;

// Returns the labels, first those with the same first word as `other`: they are
// likelier to be in one array with it.
std::vector<std::string> ordered_labels(const ContestGroup& group,
                                        const std::string RuleSetChange::*field,
                                        const std::string& other) {
  std::vector<std::string> labels;
  for (const RuleSetChange* change : group) labels.push_back(change->*field);
  const std::string_view word = first_word(other);
  std::stable_partition(
      labels.begin(), labels.end(),
      [&](const std::string& label) { return first_word(label) == word; });
  return labels;
}

struct ChangeRow {
  const RuleSetChange& change;
  bool fails = false;
};

Cell side_cell(const std::optional<PartitionSpec>& spec,
               const std::string& text) {
  return spec && text.empty() ? Cell(*spec) : text_cell(text);
}

Cell file_cell(Span where) { return where ? Cell(where.file->name()) : Cell(); }

Cell line_cell(Span where) {
  return where ? Cell(Count{place_of(where).line}) : Cell();
}

// Returns the line that caused the change: its place now, or else before.
Span cause_of(const RuleSetChange& change) {
  if (change.how == How::Contest && change.by_where) return change.by_where;
  return change.after_where ? change.after_where : change.before_where;
}

std::string_view from_name(From from) {
  switch (from) {
    case From::Model:
      return "model";
    case From::Family:
      return "family";
    case From::Patterns:
      return "patterns";
    case From::Nowhere:
      break;
  }
  return "";
}

}  // namespace

std::string change_sentence(const RuleSetChange& change) {
  ChangeText text = change.how == How::Contest
                        ? contest_text(change, {change.what}, {change.by})
                        : single_text(change);
  add_ending(change, {}, text);
  return text.what + (text.detail.empty() ? "" : "; " + text.detail);
}

std::vector<ChangeText> change_texts(const std::vector<RuleSetChange>& changes,
                                     const FailOn& fail_on, bool expand) {
  ContestGroups of_rival;
  ContestGroups of_label;
  for (const RuleSetChange& change : changes) {
    if (change.how != How::Contest) continue;
    of_rival[contest_key(change, change.by)].push_back(&change);
  }
  for (const RuleSetChange& change : changes) {
    if (change.how != How::Contest ||
        of_rival.at(contest_key(change, change.by)).size() > 1) {
      continue;
    }
    of_label[contest_key(change, change.what)].push_back(&change);
  }
  std::vector<ChangeText> texts;
  for (const RuleSetChange& change : changes) {
    if (change.how != How::Contest) {
      texts.push_back(single_text(change));
    } else if (expand) {
      texts.push_back(contest_text(change, {change.what}, {change.by}));
    } else {
      const auto& labels = of_rival.at(contest_key(change, change.by));
      const bool is_alone = labels.size() == 1;
      const auto& group =
          is_alone ? of_label.at(contest_key(change, change.what)) : labels;
      if (group.front() != &change) continue;
      texts.push_back(
          is_alone ? contest_text(
                         change, {change.what},
                         ordered_labels(group, &RuleSetChange::by, change.what))
                   : contest_text(
                         change,
                         ordered_labels(group, &RuleSetChange::what, change.by),
                         {change.by}));
    }
    add_ending(change, fail_on, texts.back());
  }
  return texts;
}

Table rule_changes_table(const std::vector<RuleSetChange>& changes,
                         const FailOn& fail_on) {
  std::vector<ChangeRow> rows;
  for (const RuleSetChange& change : changes) {
    rows.push_back({change, fails(change, fail_on)});
  }
  return table_of(
      "gate_changes", "", rows,
      {{left("target"), [](auto&) { return Cell(); }},
       {left("kind"),
        [](auto& r) { return text_cell(kind_name(r.change.kind)); }},
       {left("what"), [](auto& r) { return text_cell(r.change.what); }},
       {left("before"),
        [](auto& r) {
          return side_cell(r.change.before, r.change.text_before);
        }},
       {left("after"),
        [](auto& r) { return side_cell(r.change.after, r.change.text_after); }},
       {left("file"), [](auto& r) { return file_cell(cause_of(r.change)); }},
       {left("line"), [](auto& r) { return line_cell(cause_of(r.change)); }},
       {left("fails"), [](auto& r) { return YesNo{r.fails}; }},
       {left("change"),
        [](auto& r) { return text_cell(how_name(r.change.how)); }},
       {left("of_values"), [](auto& r) { return YesNo{r.change.of_values}; }},
       {left("occurrence"), [](auto& r) { return Count{r.change.occurrence}; }},
       {left("lost"), [](auto& r) { return Names{texts_of(r.change.lost)}; }},
       {left("gained"),
        [](auto& r) { return Names{texts_of(r.change.gained)}; }},
       {left("matters"),
        [](auto& r) { return Names{texts_of(r.change.matters)}; }},
       {left("by"), [](auto& r) { return text_cell(r.change.by); }},
       {left("crossed"), [](auto& r) { return Count{r.change.crossed}; }},
       {left("witness"), [](auto& r) { return text_cell(r.change.witness); }},
       {left("witness_from"),
        [](auto& r) { return text_cell(from_name(r.change.from)); }},
       {left("witness_of"),
        [](auto& r) { return text_cell(r.change.witness_of); }},
       {left("file_before"),
        [](auto& r) { return file_cell(r.change.before_where); }},
       {left("line_before"),
        [](auto& r) { return line_cell(r.change.before_where); }},
       {left("file_after"),
        [](auto& r) { return file_cell(r.change.after_where); }},
       {left("line_after"),
        [](auto& r) { return line_cell(r.change.after_where); }}},
      Audience::Programs);
}

GateChange gate_change(const RuleSetChange& found) {
  GateChange change;
  change.kind = found.kind == Kind::Rule ? GateKind::Rule : GateKind::Label;
  change.what = found.what;
  if (found.before) change.before = *found.before;
  if (found.after) change.after = *found.after;
  if (!found.text_before.empty()) change.before = found.text_before;
  if (!found.text_after.empty()) change.after = found.text_after;
  const Span where = found.after_where ? found.after_where : found.before_where;
  if (where) {
    change.line = {where.file->name(), place_of(where).line, !found.after_where,
                   where};
  }
  change.lost = found.lost;
  change.gained = found.gained;
  change.text = change_sentence(found);
  return change;
}

}  // namespace shardplan::cli
