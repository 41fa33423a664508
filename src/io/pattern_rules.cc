// SPDX-License-Identifier: Apache-2.0
#include "io/pattern_rules.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/words.h"

namespace shardplan {
namespace {

// A range of the text.
struct Part {
  size_t begin = 0;
  size_t end = 0;
};

constexpr std::string_view kArrow = "->";

struct ParsedPattern {
  std::vector<Rule> rules;
  // Texts between commas that the original drops: those without an arrow.
  std::vector<Part> dropped;
  bool good = true;  // no error was reported
};

class PatternParser {
 public:
  PatternParser(SourcePtr source, PatternReading reading, Diagnostics& diags)
      : source_(std::move(source)), reading_(reading), diags_(diags) {}

  ParsedPattern parse() {
    const Part whole = {0, text().size()};
    if (is_strict() && text_of(trimmed(whole)).empty()) {
      fail(whole, "the pattern is empty",
           "write rules like `attention|mlp->fsdp.tp,norm->None`");
    }
    for (const Part& rule : split(whole, ',')) read_rule(rule);
    return std::move(parsed_);
  }

 private:
  bool is_strict() const { return reading_ == PatternReading::Strict; }
  std::string_view text() const { return source_->text(); }
  std::string_view text_of(Part part) const {
    return text().substr(part.begin, part.end - part.begin);
  }
  Span span(Part part) const { return {source_.get(), part.begin, part.end}; }

  Part trimmed(Part part) const {
    if (!is_strict()) return part;
    while (part.begin < part.end && text()[part.begin] == ' ') ++part.begin;
    while (part.begin < part.end && text()[part.end - 1] == ' ') --part.end;
    return part;
  }

  // Splits at a character: everywhere in the original reading, otherwise only
  // outside brackets and escapes.
  std::vector<Part> split(Part whole, char at) const {
    std::vector<Part> parts;
    size_t begin = whole.begin;
    int depth = 0;
    bool in_class = false;
    for (size_t i = whole.begin; i < whole.end; ++i) {
      const char c = text()[i];
      if (is_strict()) {
        if (c == '\\') {
          ++i;
          continue;
        }
        if (in_class) {
          in_class = c != ']';
          continue;
        }
        in_class = c == '[';
        if (c == '(' || c == '{') ++depth;
        if ((c == ')' || c == '}') && depth > 0) --depth;
        if (depth > 0 || in_class) continue;
      }
      if (c != at) continue;
      parts.push_back({begin, i});
      begin = i + 1;
    }
    parts.push_back({begin, whole.end});
    return parts;
  }

  void read_rule(Part whole) {
    const Part rule = trimmed(whole);
    const size_t arrow = text_of(rule).find(kArrow);
    if (arrow == std::string_view::npos) {
      if (!is_strict()) {
        parsed_.dropped.push_back(rule);
      } else if (rule.begin < rule.end) {
        fail(rule, in_backticks(text_of(rule)) + " has no arrow",
             "write a rule as `PATTERN->AXES`; separate patterns that share a "
             "spec with `|`");
      }
      return;
    }
    const Part left = {rule.begin, rule.begin + arrow};
    const Part right = {rule.begin + arrow + kArrow.size(), rule.end};
    if (contains(text_of(right), kArrow)) {
      fail(rule, in_backticks(text_of(rule)) + " has more than one arrow",
           "write a rule as `PATTERN->AXES`, ended by a comma");
      return;
    }
    Rule shared;
    shared.spec_where = span(right);
    for (const Part& entry : split(right, '.')) read_entry(entry, shared);
    for (const Part& alternative : split(left, '|')) {
      const Part pattern = trimmed(alternative);
      if (is_strict() && pattern.begin == pattern.end) {
        fail(rule, "an empty pattern matches every name",
             "write `.*` to match every name");
      }
      Rule one = shared;
      one.pattern = text_of(pattern);
      one.where = span(pattern);
      parsed_.rules.push_back(std::move(one));
    }
  }

  void read_entry(Part whole, Rule& rule) {
    const Part entry = trimmed(whole);
    const std::string_view name = text_of(entry);
    AxisNames axes;
    if (!is_strict()) {
      if (!name.empty()) axes.emplace_back(name);
    } else if (!name.empty() && name != "None") {
      for (const Part& part : split(entry, '+')) {
        const Part axis = trimmed(part);
        if (!is_axis_name(text_of(axis))) {
          fail(axis, in_backticks(text_of(axis)) + " is not an axis name",
               "entries are axes, `None`, or axes joined by `+`, separated by "
               "`.`");
        }
        axes.emplace_back(text_of(axis));
      }
    }
    rule.spec.dims.push_back(std::move(axes));
    rule.dim_where.push_back(span(entry));
  }

  void fail(Part part, std::string message, std::string help) {
    parsed_.good = false;
    diags_.error(Code::MalformedDocument, span(part), std::move(message))
        .help(std::move(help));
  }

  SourcePtr source_;
  PatternReading reading_;
  Diagnostics& diags_;
  ParsedPattern parsed_;
};

std::string rule_text(const Rule& rule) {
  return in_backticks(rule.pattern) + " -> " + spec_text(rule.spec);
}

bool is_same_rule(const Rule& a, const Rule& b) {
  return a.pattern == b.pattern && a.spec == b.spec;
}

// Reports SP109 when the original reading gives different rules.
void compare_readings(const SourcePtr& source, const std::vector<Rule>& ours,
                      Diagnostics& diags) {
  Diagnostics ignored;
  const auto [theirs, dropped, good] =
      PatternParser(source, PatternReading::Original, ignored).parse();
  if (good && std::ranges::equal(ours, theirs, is_same_rule)) return;
  const auto [our, their] = std::mismatch(
      ours.begin(), ours.end(), theirs.begin(), theirs.end(), is_same_rule);
  auto report = diags.report(Code::PatternReadingsDiffer,
                             our == ours.end()
                                 ? Span{source.get(), 0, source->text().size()}
                                 : our->where,
                             "eformer reads this pattern differently");
  if (our != ours.end()) report.fact("shardplan: " + rule_text(*our));
  report.fact("eformer: " + (!good                   ? "rejects it"
                             : their == theirs.end() ? "no such rule"
                                                     : rule_text(*their)));
  report.help(
      "eformer splits at every `,`, `|` and `.` and trims no spaces; "
      "`--parity` reads the pattern the same way");
}

}  // namespace

bool read_pattern(SourcePtr source, PatternReading reading, RuleSet& rules,
                  Diagnostics& diags) {
  ParsedPattern parsed = PatternParser(source, reading, diags).parse();
  diags.add_source(source);
  if (!parsed.good) return false;
  if (reading == PatternReading::Strict) {
    compare_readings(source, parsed.rules, diags);
  }
  for (const Part& part : parsed.dropped) {
    if (part.begin == part.end) continue;
    const Span where{source.get(), part.begin, part.end};
    diags
        .report(Code::PatternReadingsDiffer, where,
                in_backticks(where.text()) + " has no arrow and is dropped")
        .help("separate alternatives that share a spec with `|`");
  }
  std::ranges::move(parsed.rules, std::back_inserter(rules.rules));
  rules.sources.push_back(std::move(source));
  return true;
}

}  // namespace shardplan
