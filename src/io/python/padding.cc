// SPDX-License-Identifier: Apache-2.0
#include "io/python/padding.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "base/words.h"
#include "io/python/path_patterns.h"
#include "syntax/python_statements.h"

namespace shardplan {
namespace {

bool is_spec_call(std::span<const PythonToken> tokens, size_t at) {
  return at + 1 < tokens.size() && tokens[at + 1].is("(") &&
         tokens[at].is_one_of("PartitionSpec PS P");
}

// Returns whether the arguments are `None, *v`, `*(None,) + v`, `*((None,) +
// tuple(v))` or `*[None] + list(v)`: one None in front of one value.
bool pads_left(std::span<const PythonToken> tokens, size_t begin, size_t end) {
  int nones = 0;
  int values = 0;
  for (size_t i = begin; i < end; ++i) {
    const PythonToken& token = tokens[i];
    if (token.is("None")) {
      if (values > 0) return false;
      ++nones;
    } else if (token.kind == PythonTokenKind::Name) {
      if (!token.is_one_of("tuple list") && !tokens[i - 1].is(".")) ++values;
    } else if (token.kind != PythonTokenKind::Operator || token.is("[") ||
               token.is("-")) {
      if (!token.is("[") || i + 1 >= end || !tokens[i + 1].is("None")) {
        return false;
      }
    }
  }
  return nones == 1 && values == 1;
}

// Returns whether a PartitionSpec call builds a spec with more dimensions out
// of another spec.
bool changes_rank(std::span<const PythonToken> tokens, size_t begin,
                  size_t end) {
  bool has_none = false;
  bool has_star = false;
  for (size_t i = begin; i < end; ++i) {
    has_none = has_none || tokens[i].is("None");
    has_star = has_star || (tokens[i].is("*") &&
                            (i == begin || tokens[i - 1].is_one_of(", ( [")));
  }
  return has_none && has_star;
}

// Finds the statements around a token, outermost first.
void find_around(const std::vector<PythonStatement>& statements, size_t at,
                 std::vector<const PythonStatement*>& around) {
  for (const PythonStatement& statement : statements) {
    if (at < statement.begin ||
        at >= std::max(statement.end, statement.body_end)) {
      continue;
    }
    around.push_back(&statement);
    find_around(statement.body, at, around);
    return;
  }
}

class PaddingFinder {
 public:
  PaddingFinder(std::span<const PythonToken> tokens,
                const PythonAnswers& answers, Diagnostics& diags)
      : tokens_(tokens),
        answers_(answers),
        diags_(diags),
        past_(past_python_brackets(tokens)) {}

  bool run(std::span<const size_t> tables,
           std::optional<PythonPadding>& padding) {
    const std::vector<PythonStatement> statements = python_statements(tokens_);
    size_t next = 0;
    for (size_t i = 0; i < tokens_.size(); ++i) {
      while (next < tables.size() && tables[next] < i) ++next;
      if (next < tables.size() && tables[next] == i) {
        i = past_[i] - 1;
        continue;
      }
      if (!is_spec_call(tokens_, i)) continue;
      const size_t end = past_[i + 1] - 1;
      if (!changes_rank(tokens_, i + 2, end)) continue;
      where_ = tokens_[i].where;
      where_.end = tokens_[std::min(end, tokens_.size() - 1)].where.end;
      if (padding || !pads_left(tokens_, i + 2, end)) return refuse();
      std::vector<const PythonStatement*> around;
      find_around(statements, i, around);
      parts_.clear();
      is_off_ = false;
      if (!conditions(around, i, end)) return false;
      if (!is_off_) padding = {parts_, where_};
    }
    return true;
  }

 private:
  bool refuse() {
    diags_
        .error(Code::MalformedDocument, where_,
               "specs are modified here after matching, in a way that cannot "
               "be traced")
        .help("write the final specs into the table and remove this code");
    return false;
  }

  // Reads the conditions of the padding: each `if` statement around the call,
  // and an `if` expression after it.
  bool conditions(const std::vector<const PythonStatement*>& around, size_t at,
                  size_t end) {
    for (const PythonStatement* statement : around) {
      const bool is_header = statement->is_compound && statement->end <= at;
      const PythonToken& word = tokens_[statement->begin];
      if (!is_header || word.is_one_of("def class for with async")) continue;
      if (!word.is("if")) return refuse();
      if (!condition(statement->begin + 1, statement->end)) return false;
    }
    if (around.empty()) return true;
    // This reads `P(..) if v is not None else None) if any(..) else v`.
    const size_t last = around.back()->end;
    for (size_t i = end + 1; i < last; ++i) {
      if (!tokens_[i].is("if")) continue;
      size_t stop = i + 1;
      for (int depth = 0; stop < last; ++stop) {
        depth += python_nesting(tokens_[stop]);
        if (depth < 0 || (depth == 0 && tokens_[stop].is("else"))) break;
      }
      if (!condition(i + 1, stop)) return false;
      i = stop;
    }
    return true;
  }

  // Recognises `_match(rule, key)` and `re.search(rule, name) is not None`,
  // which hold for every rule that matches.
  bool is_match(size_t begin, size_t end) const {
    size_t at = begin;
    while (at + 2 < end && tokens_[at + 1].is(".")) at += 2;
    if (at + 1 >= end || !tokens_[at + 1].is("(")) return false;
    const std::string& name = tokens_[at].text;
    const bool looks = contains(name, "match") || contains(name, "search");
    const size_t past = past_[at + 1];
    const bool is_there = past + 3 == end && tokens_[past].is("is") &&
                          tokens_[past + 1].is("not") &&
                          tokens_[past + 2].is("None");
    return looks && (past == end || is_there);
  }

  bool condition(size_t begin, size_t end) {
    const auto is = [&](size_t at, std::string_view text) {
      return at < end && tokens_[at].is(text);
    };
    const auto is_text = [&](size_t at) {
      return at < end && tokens_[at].kind == PythonTokenKind::String;
    };
    // Such a condition only excludes None, which is never padded.
    const bool is_kind = is(begin, "isinstance") && past_[begin + 1] == end;
    const bool is_there = end == begin + 4 && is(begin + 1, "is") &&
                          is(begin + 2, "not") && is(begin + 3, "None");
    if (is_kind || is_there || is_match(begin, end)) return true;
    if (is_text(begin) && is(begin + 1, "in") && end == begin + 3) {
      parts_.push_back(tokens_[begin].text);
      return true;
    }
    // any(x in k for x in [..])
    if (is(begin, "any") && is(begin + 3, "in") && is(begin + 5, "for") &&
        is(begin + 7, "in") && begin + 8 < end &&
        opens_python_bracket(tokens_[begin + 8]) &&
        is(begin + 2, tokens_[begin + 6].text)) {
      for (size_t i = begin + 9; i + 1 < past_[begin + 8]; ++i) {
        if (is_text(i)) {
          parts_.push_back(tokens_[i].text);
        } else if (!is(i, ",")) {
          return refuse();
        }
      }
      return true;
    }
    const PythonCondition read =
        read_python_condition(tokens_, begin, end, answers_);
    if (!read.is_understood) return refuse();
    if (read.value) {
      is_off_ = is_off_ || !*read.value;
      return true;
    }
    const PythonCondition::Open& open = read.open.front();
    diags_
        .error(Code::MalformedDocument, open.where,
               "the specs depend on " + in_backticks(open.name))
        .label(where_, "scanned layers get an extra dimension here")
        .help("pass `--set " + open.name + "=true` or `--set " + open.name +
              "=false`");
    return false;
  }

  std::span<const PythonToken> tokens_;
  const PythonAnswers& answers_;
  Diagnostics& diags_;
  std::vector<size_t> past_;
  // The call that pads, and what its conditions say so far.
  Span where_;
  std::vector<std::string> parts_;
  bool is_off_ = false;
};

// Returns whether a pattern of one part may match this text; true if unsure.
bool may_match(std::string_view pattern, std::string_view text) {
  constexpr std::string_view kSpecial = "\\.^$*+?{}[]()|";
  if (pattern.size() > 2 && pattern.front() == '(' && pattern.back() == ')') {
    const std::string_view inside = pattern.substr(1, pattern.size() - 2);
    if (inside.find_first_of("\\.^$*+?{}[]()") == std::string_view::npos) {
      for (size_t begin = 0; begin <= inside.size();) {
        const size_t end = std::min(inside.find('|', begin), inside.size());
        if (inside.substr(begin, end - begin) == text) return true;
        begin = end + 1;
      }
      return false;
    }
  }
  if (contains(pattern, '|')) return true;
  size_t special = pattern.find_first_of(kSpecial);
  if (special == std::string_view::npos) return pattern == text;
  // A character that `*`, `?` or `{` follows may be absent.
  if (special > 0 && contains("*?{", pattern[special])) --special;
  return text.starts_with(pattern.substr(0, special));
}

}  // namespace

bool find_python_padding(std::span<const PythonToken> tokens,
                         std::span<const size_t> tables,
                         const PythonAnswers& answers,
                         std::optional<PythonPadding>& padding,
                         Diagnostics& diags) {
  return PaddingFinder(tokens, answers, diags).run(tables, padding);
}

bool add_padded_rules(const PythonPadding& padding,
                      std::span<const std::vector<std::string>> segments,
                      std::vector<Rule>& rules, Diagnostics& diags) {
  const auto pattern_of = [](const std::string& name) {
    const std::string exact = exact_pattern(name);
    return exact.substr(1, exact.size() - 2);
  };
  const std::string part =
      "(?:" + joined_of(padding.parts, "|", pattern_of) + ")";
  std::vector<Rule> all;
  for (size_t i = 0; i < rules.size(); ++i) {
    // Rules with segment patterns write None for a spec that is not padded.
    if (rules[i].spec_where.text() == "None") {
      all.push_back(std::move(rules[i]));
      continue;
    }
    Rule padded = rules[i];
    padded.shipped = true;  // one of the two rules may match nothing
    padded.spec.dims.insert(padded.spec.dims.begin(), AxisNames());
    padded.dim_where.insert(padded.dim_where.begin(), padded.spec_where);
    if (padding.parts.empty()) {
      all.push_back(std::move(padded));
      continue;
    }
    const bool is_clear =
        !segments[i].empty() &&
        std::ranges::none_of(segments[i], [&](const std::string& pattern) {
          return std::ranges::any_of(padding.parts,
                                     [&](const std::string& name) {
                                       return may_match(pattern, name);
                                     });
        });
    SegmentProblem problem;
    const auto window = pattern_of_segments(segments[i], problem);
    if (!is_clear || !window) {
      diags
          .error(Code::MalformedDocument, rules[i].where,
                 "one pattern cannot show whether this rule's spec gets an "
                 "extra dimension")
          .label(padding.where, "specs get the dimension here")
          .help("write two rules, with and without the leading dimension");
      return false;
    }
    // Cuts `(?:^|/)` from the start of the window and `(?:/|$)` from its end.
    const std::string middle = window->substr(7, window->size() - 14);
    padded.pattern = "(?:^|/)" + part + "/(?:.*/)?" + middle +
                     "(?:/|$)|(?:^|/)" + middle + "/(?:.*/)?" + part +
                     "(?:/|$)";
    all.push_back(std::move(padded));
    all.push_back(std::move(rules[i]));
  }
  rules = std::move(all);
  return true;
}

}  // namespace shardplan
