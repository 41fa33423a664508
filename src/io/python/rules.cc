// SPDX-License-Identifier: Apache-2.0
#include "io/python/rules.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/words.h"
#include "io/dialects.h"
#include "io/python/padding.h"
#include "io/python/tables.h"
#include "io/spec_node.h"
#include "syntax/document.h"
#include "syntax/python.h"

namespace shardplan {
namespace {

// Rewrites the pattern of one path part so that nothing in it matches a `/`.
class SegmentWriter {
 public:
  explicit SegmentWriter(std::string_view pattern) : in_(pattern) {}

  // Returns nullopt if it fills in `why`.
  std::optional<std::string> run(std::string& why) {
    std::vector<std::string> branches;
    int depth = 0;
    bool anchored = false;
    const auto end_branch = [&](bool is_last) {
      // The appended `$` anchors only the last branch.
      if (!is_last && !anchored) out_ += "[^/]*";
      branches.push_back(std::exchange(out_, ""));
      anchored = false;
    };
    for (at_ = 0; at_ < in_.size(); ++at_) {
      const char c = in_[at_];
      if (c == '\\') {
        if (!escape(false)) break;
      } else if (c == '[') {
        if (!char_class()) break;
      } else if (c == '.') {
        out_ += "[^/]";
      } else if (c == '/') {
        why_ = "a path segment cannot contain `/`";
      } else if (c == '^' || c == '$') {
        anchor(c, depth, anchored);
      } else if (c == '|' && depth == 0) {
        end_branch(false);
      } else {
        depth += c == '(' ? 1 : c == ')' ? -1 : 0;
        out_ += c;
      }
      if (!why_.empty()) break;
    }
    end_branch(true);
    why = why_;
    if (!why_.empty()) return std::nullopt;
    if (branches.size() == 1) return branches.front();
    std::string all = "(?:";
    for (const std::string& branch : branches) {
      if (&branch != &branches.front()) all += '|';
      all += branch;
    }
    return all + ")";
  }

 private:
  // Drops `^` at the start of a branch and `$` at its end. Elsewhere they
  // cannot be expressed, because they apply to the part alone.
  void anchor(char c, int depth, bool& anchored) {
    const bool begins = out_.empty();
    const bool ends = at_ + 1 == in_.size() || in_[at_ + 1] == '|';
    if (depth == 0 && c == '^' && begins) return;
    if (depth == 0 && c == '$' && ends) {
      anchored = true;
      return;
    }
    why_ = "`" + std::string(1, c) +
           "` inside a path segment cannot be expressed for the whole name";
  }

  bool escape(bool in_class) {
    if (at_ + 1 >= in_.size()) {
      why_ = "the pattern ends with a backslash";
      return false;
    }
    const char c = in_[++at_];
    if (c == 'A' || c == 'Z') {
      why_ = "`\\" + std::string(1, c) +
             "` inside a path segment cannot be expressed for the whole name";
      return false;
    }
    if (c == 'W' || c == 'D' || c == 'S') {
      if (in_class) {
        why_ = "`\\" + std::string(1, c) + "` in a character class matches `/`";
        return false;
      }
      const char lower = static_cast<char>(c - 'A' + 'a');
      out_ += "[^/\\" + std::string(1, lower) + "]";
      return true;
    }
    out_ += '\\';
    out_ += c;
    return true;
  }

  bool char_class() {
    out_ += '[';
    ++at_;
    const bool is_negated = at_ < in_.size() && in_[at_] == '^';
    if (is_negated) {
      out_ += "^/";
      ++at_;
    }
    bool first = true;
    for (; at_ < in_.size(); ++at_, first = false) {
      if (in_[at_] == ']' && !first) {
        out_ += ']';
        return true;
      }
      if (!is_negated && holds_slash()) {
        why_ = "a character class matches `/`";
        return false;
      }
      if (in_[at_] == '\\') {
        if (!escape(true)) return false;
      } else {
        if (in_[at_] == ']' || in_[at_] == '[') out_ += '\\';
        out_ += in_[at_];
      }
    }
    why_ = "a character class is not closed";
    return false;
  }

  // Returns whether the class contains `/`, itself or within a range.
  bool holds_slash() const {
    if (in_[at_] == '/') return true;
    return in_[at_] == '-' && at_ > 0 && at_ + 1 < in_.size() &&
           in_[at_ - 1] != '[' && in_[at_ - 1] < '/' && in_[at_ + 1] > '/' &&
           in_[at_ + 1] != ']';
  }

  std::string_view in_;
  size_t at_ = 0;
  std::string out_;
  std::string why_;
};

void replace_all(std::string& text, std::string_view from,
                 std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

constexpr std::string_view kOpen = "\\['";
constexpr std::string_view kClose = "'\\]";

}  // namespace

std::optional<std::string> pattern_of_segments(
    std::span<const std::string> segments, SegmentProblem& problem) {
  std::string pattern = "(?:^|/)";
  for (size_t i = 0; i < segments.size(); ++i) {
    problem.segment = i;
    const auto part = SegmentWriter(segments[i]).run(problem.why);
    if (!part) return std::nullopt;
    if (i > 0) pattern += '/';
    pattern += *part;
  }
  return pattern + "(?:/|$)";
}

bool is_python_pattern(std::string_view text) {
  return text.find_first_of("\\./*+?()[]{}|^$") != std::string_view::npos;
}

bool is_keystr_pattern(std::string_view pattern) {
  return contains(pattern, kOpen);
}

std::optional<std::string> pattern_of_keystr(std::string_view pattern) {
  std::string path(pattern);
  // A leading or trailing `.*` does not change what a search finds.
  if (path.starts_with(".*\\['")) path.erase(0, 2);
  if (path.ends_with("'\\].*")) path.erase(path.size() - 2);
  replace_all(path, "'\\]\\['", "/");
  replace_all(path, "'\\].*\\['", "/(?:.*/)?");
  // `'\]$` marks the end of a name, `^\['` its beginning.
  replace_all(path, "'\\]$", "$");
  replace_all(path, "^\\['", "^");
  if (path.starts_with(kOpen)) {
    path.replace(0, kOpen.size(), "(?:^|/)");
  }
  if (path.ends_with(kClose)) {
    path.replace(path.size() - kClose.size(), kClose.size(), "(?:/|$)");
  }
  // A remaining bracket or quote would match itself, which no path has.
  if (contains(path, "\\[") || contains(path, "\\]") || contains(path, '\'')) {
    return std::nullopt;
  }
  return path;
}

namespace {

bool is_sequence(const PythonValue& value) {
  return value.kind == PythonKind::Tuple || value.kind == PythonKind::List;
}

// Returns whether this is a name of modules and parameters that no logical axis
// has. Names that both may have (`mlp`, `heads`, `embed`, `norm`) decide
// nothing.
bool is_parameter_name(std::string_view name) {
  static constexpr std::string_view kNames =
      "weight kernel bias embedding embeddings embed_tokens wte wpe lm_head "
      "wq wk wv c_fc c_attn attn self_attn layernorm ln_f";
  // MaxText has axes such as `q_lora_up_proj`.
  const bool is_module = (name.ends_with("_proj") && !contains(name, "lora")) ||
                         name.ends_with("_layernorm");
  return is_module || has_word(kNames, name);
}

// Returns whether pairs of plain names and several axes are patterns with
// specs, one axis per dimension, rather than logical axis rules. They are if a
// spec leaves a dimension unsharded (None), or if some name is a parameter's
// and no name repeats. Only a logical axis has several rules; later ones apply
// when the axes of the first are taken.
bool are_specs_of_names(const PythonValue& table) {
  bool names_parameter = false;
  bool has_axes = false;
  std::set<std::string_view> names;
  bool repeats = false;
  for (const PythonValue& item : table.items) {
    if (!is_sequence(item) || item.items.size() != 2) continue;
    const PythonValue& name = item.items[0];
    const PythonValue& axes = item.items[1];
    if (name.kind == PythonKind::String) {
      names_parameter = names_parameter || is_parameter_name(name.text);
      repeats = !names.insert(name.text).second || repeats;
    }
    if (!is_sequence(axes)) continue;
    has_axes = true;
    for (const PythonValue& axis : axes.items) {
      if (axis.kind != PythonKind::String) return true;
    }
  }
  return has_axes && names_parameter && !repeats;
}

class RuleReader {
 public:
  RuleReader(RuleSet& rules, Diagnostics& diags)
      : rules_(rules), diags_(diags) {}

  bool read(const PythonValue& table) {
    bool any_spec = are_specs_of_names(table);
    for (const PythonValue& item : table.items) {
      if (!is_sequence(item) || item.items.size() < 2) continue;
      const bool is_spec = is_python_spec(item.items[1]);
      const bool is_pattern = item.items[0].kind == PythonKind::String &&
                              is_python_pattern(item.items[0].text);
      any_call_ = any_call_ || is_spec;
      any_spec =
          any_spec || is_spec || is_pattern || is_sequence(item.items[0]);
      keystr_ = keystr_ || (item.items[0].kind == PythonKind::String &&
                            is_keystr_pattern(item.items[0].text));
    }
    bool good = true;
    for (const PythonValue& item : table.items) {
      good = (any_spec ? rule(item) : logical_rule(item)) && good;
    }
    return good;
  }

  // Per rule, the patterns of the path parts; empty for a pattern of the whole
  // name.
  const std::vector<std::vector<std::string>>& segments() const {
    return segments_;
  }

 private:
  bool refuse(Span where, std::string message, std::string help) {
    diags_.error(Code::MalformedDocument, where, std::move(message))
        .help(std::move(help));
    return false;
  }

  bool is_pair(const PythonValue& value, const char* what, const char* help) {
    return (is_sequence(value) && value.items.size() == 2) ||
           refuse(value.where, what, help);
  }

  bool rule(const PythonValue& value) {
    if (!is_pair(value, "a rule is a pattern and a PartitionSpec",
                 "write (\"pattern\", PartitionSpec(..))")) {
      return false;
    }
    Rule rule;
    rule.where = value.items[0].where;
    const bool has_pattern = pattern(value.items[0], rule);
    // Rules with segment patterns write None for a replicated parameter.
    const bool is_replicated =
        is_sequence(value.items[0]) && value.items[1].kind == PythonKind::None;
    rule.spec_where = value.items[1].where;
    const bool good =
        is_replicated || (!any_call_ && is_sequence(value.items[1])
                              ? spec_of_tuple(value.items[1], rule)
                              : read_python_spec(value.items[1], rule, diags_));
    if (!good || !has_pattern) return false;
    rules_.rules.push_back(std::move(rule));
    segments_.push_back(std::move(parts_));
    parts_.clear();
    return true;
  }

  // Reads ("fsdp", None, ("sp", "tp")) in place of a PartitionSpec.
  bool spec_of_tuple(const PythonValue& value, Rule& rule) {
    for (const PythonValue& item : value.items) {
      auto axes = read_python_axes(item, diags_);
      if (!axes) return false;
      rule.spec.dims.push_back(*std::move(axes));
      rule.dim_where.push_back(item.where);
    }
    return true;
  }

  bool pattern(const PythonValue& value, Rule& rule) {
    if (is_sequence(value)) return segments(value, rule);
    if (value.kind != PythonKind::String) {
      return refuse(value.where, "the rule's pattern is not a string",
                    "write the pattern as a string");
    }
    rule.pattern = value.text;
    if (!keystr_) return true;
    const auto path = pattern_of_keystr(value.text);
    if (!path) {
      return refuse(
          value.where,
          "this pattern needs brackets in a path, which paths here do not have",
          "write it for names such as `h/0/attn/kernel`");
    }
    rule.pattern = *path;
    return true;
  }

  bool segments(const PythonValue& value, Rule& rule) {
    std::vector<std::string> parts;
    for (const PythonValue& item : value.items) {
      if (item.kind != PythonKind::String) {
        return refuse(item.where, "a path segment is not a string",
                      "write its pattern as a string");
      }
      parts.push_back(item.text);
    }
    if (parts.empty()) {
      return refuse(value.where, "the rule has no pattern",
                    "write one pattern per path segment");
    }
    SegmentProblem problem;
    auto found = pattern_of_segments(parts, problem);
    if (!found) {
      return refuse(value.items[problem.segment].where, problem.why,
                    "write a pattern for the whole name instead");
    }
    rule.pattern = *std::move(found);
    parts_ = std::move(parts);
    return true;
  }

  bool logical_rule(const PythonValue& value) {
    if (!is_pair(
            value, "a logical axis rule is a name and its axes",
            "write (\"name\", \"axis\"); the axis may be None or a tuple")) {
      return false;
    }
    const PythonValue& name = value.items[0];
    if (name.kind != PythonKind::String && name.kind != PythonKind::None) {
      return refuse(name.where, "a logical axis is not a string",
                    "write its name as a string");
    }
    auto axes = read_python_axes(value.items[1], diags_);
    if (!axes) return false;
    LogicalRule rule;
    if (name.kind == PythonKind::String) rule.name = name.text;
    rule.axes = *std::move(axes);
    rule.where = name.where;
    rule.axes_where = value.items[1].where;
    rules_.logical_rules.push_back(std::move(rule));
    return true;
  }

  RuleSet& rules_;
  Diagnostics& diags_;
  bool keystr_ = false;
  bool any_call_ = false;           // some spec is a PartitionSpec, not a tuple
  std::vector<std::string> parts_;  // parts of the current rule
  std::vector<std::vector<std::string>> segments_;
};

bool uses_semantic_axes(const RuleSet& rules) {
  return std::ranges::any_of(rules.rules, [](const Rule& rule) {
    return std::ranges::any_of(rule.spec.dims, [](const AxisNames& axes) {
      return std::ranges::any_of(axes, [](const AxisName& name) {
        return find_semantic_token(name, false).has_value();
      });
    });
  });
}

// Reads the first call of `PartitionAxis(..)`.
bool read_partition_axis(std::span<const PythonToken> tokens, RuleSet& rules,
                         Diagnostics& diags) {
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    const bool is_definition = i > 0 && tokens[i - 1].is("class");
    if (!tokens[i].is("PartitionAxis") || !tokens[i + 1].is("(") ||
        is_definition) {
      continue;
    }
    const auto value = parse_python_value(tokens, i, diags);
    if (!value) return false;
    rules.partition_axis = read_python_partition_axis(*value, diags);
    rules.partition_axis_where = value->where;
    return rules.partition_axis.has_value();
  }
  return true;
}

// EasyDeL's meshes have all axes that semantic axes resolve to, some with size
// 1.
void declare_axes(RuleSet& rules) {
  const PartitionAxis axis =
      rules.partition_axis.value_or(default_partition_axis());
  constexpr size_t kMeshFields = 5;
  for (size_t i = 0; i < kMeshFields; ++i) {
    for (const AxisName& name : axis.at(i).value_or(AxisValue()).axes) {
      AxisNames& all = rules.declared_axes;
      if (!contains(all, name)) all.push_back(name);
    }
  }
}

}  // namespace

namespace {

bool pad_specs(const SourceFile& source, const PythonChoices& choices,
               std::span<const std::vector<std::string>> segments,
               RuleSet& rules, Diagnostics& diags) {
  if (rules.rules.empty()) return true;
  const std::vector<PythonToken> tokens = python_tokens(source);
  std::vector<size_t> tables;
  for (const PythonTable& table : find_python_tables(tokens)) {
    tables.push_back(table.at);
  }
  std::optional<PythonPadding> padding;
  return find_python_padding(tokens, tables, python_answers(choices), padding,
                             diags) &&
         (!padding || add_padded_rules(*padding, segments, rules.rules, diags));
}

}  // namespace

bool looks_like_python_rules(std::string_view text) {
  const SourceFile source("rules", std::string(text));
  const std::vector<PythonToken> tokens = python_tokens(source);
  const std::vector<PythonTable> tables = find_python_tables(tokens);
  if (tables.empty()) return is_python_module(tokens);
  const size_t at = tables.front().at;
  // A list of lists may also be JSON or YAML.
  return tokens[at].is("(") || tokens[at + 1].is("(") ||
         (at > 0 && (tokens[at - 1].is("=") || tokens[at - 1].is("return"))) ||
         is_python_module(tokens);
}

bool read_python_rules(const SourcePtr& source, const RuleReading& reading,
                       RuleSet& rules, Diagnostics& diags) {
  diags.add_source(source);
  const PythonChoices choices{reading, rules.questions};
  const auto value = read_python_table(*source, choices, diags);
  RuleReader reader(rules, diags);
  if (!value || !reader.read(*value)) return false;
  rules.sources.push_back(source);
  if (!pad_specs(*source, choices, reader.segments(), rules, diags)) {
    return false;
  }
  if (!uses_semantic_axes(rules)) return true;
  if (!read_partition_axis(python_tokens(*source), rules, diags)) return false;
  declare_axes(rules);
  return true;
}

// The dialect `python`: Python source with a table of rules; see
// docs/formats/python.md.

namespace {

bool read(SourcePtr source, const RuleReading& how, RuleSet& rules,
          Diagnostics& diags) {
  return read_python_rules(source, how, rules, diags);
}

// Returns the name that is called to make a spec: `PS` for `PS("tp", None)`.
std::string spec_maker(const RuleSet& rules) {
  for (const Rule& rule : rules.rules) {
    if (rule.shipped || rule.spec_where.file == nullptr) continue;
    const std::string_view text = rule.spec_where.text();
    if (text.starts_with("(") || text.starts_with("[")) return "";
    const std::string name(text.substr(0, text.find('(')));
    if (is_python_spec_name(name)) return name;
  }
  return "PartitionSpec";
}

// Writes the last parts of a path as a tuple of segment patterns.
std::string window_text(std::string_view name) {
  AxisNames parts;
  while (!name.empty() && parts.size() < 2) {
    const size_t slash = name.rfind('/');
    const std::string_view last =
        slash == std::string_view::npos ? name : name.substr(slash + 1);
    if (last == "*") break;
    parts.insert(parts.begin(), escape_pattern(last));
    name = slash == std::string_view::npos ? "" : name.substr(0, slash);
  }
  return parts.empty() ? "" : python_names(parts);
}

// Writes the rule as a pair, in the style of the table.
std::optional<std::string> written_pair(const RuleSet& rules,
                                        const WantedRule& wanted) {
  const auto sample = std::ranges::find_if(rules.rules, [](const Rule& rule) {
    return !rule.shipped && rule.where.file != nullptr;
  });
  if (sample == rules.rules.end()) return std::nullopt;
  std::string pattern = python_string(wanted.pattern);
  const std::string_view text = sample->where.text();
  if (text.starts_with("(") || text.starts_with("[")) {
    pattern = wanted.names.size() == 1 ? window_text(wanted.names[0]) : "";
  }
  if (pattern.empty() || is_keystr_pattern(text)) return std::nullopt;
  const std::string maker = spec_maker(rules);
  std::string spec = python_spec(wanted.spec);
  spec.erase(0, spec.find('('));
  if (maker.empty() && wanted.spec.dims.size() == 1) {
    spec.insert(spec.size() - 1, ",");
  }
  return "(" + pattern + ", " + maker + spec + ")";
}

constexpr RuleForm kPythonForm = {
    written_pair,
    [](std::string_view name) {
      return "add `(" + python_string(name) +
             ", None)` to the table, or name axes instead of `None`";
    },
    "", kNoPatterns};

}  // namespace

const RuleDialect kPythonRules = {
    "python", "tuples in Python source: EasyDeL, EasyLM, JAXSeq, grok-1, flax",
    looks_like_python_rules, read, &kPythonForm};

// The dialect `flax`: a bare list of logical axis rules, in JSON or YAML.
//
//   [["batch", "data"], ["embed", ["fsdp", "sp"]], ["mlp", null]]
//
// In Python, such a list is a table of the dialect `python`.

namespace {

// Returns whether this is a logical axis rule. Pattern rules are also pairs, so
// the second item must be something that cannot be a spec.
bool is_pair_of_axes(const Node& node) {
  if (!node.is_list() || node.size() != 2) return false;
  const Node second = node.item(1);
  const bool is_axis =
      second.is_string() && find_sharding_preset(second.text()) == nullptr;
  return second.is_null() || is_axis;
}

bool recognize(std::string_view head) {
  if (contains(head, "rules:")) return false;
  Diagnostics ignored;
  const auto document = parse_document(
      std::make_shared<SourceFile>("rules", std::string(head)), ignored);
  if (!document || !document->root().is_list()) return false;
  const Node root = document->root();
  for (size_t i = 0; i < root.size(); ++i) {
    if (is_pair_of_axes(root.item(i))) return true;
  }
  return false;
}

bool read_flax(SourcePtr source, const RuleReading& how, RuleSet& rules,
               Diagnostics& diags) {
  if (looks_like_python_rules(source->text())) {
    rules.form = kPythonRules.form;
    return read_python_rules(source, how, rules, diags);
  }
  const auto document = parse_document(source, diags);
  if (!document) return false;
  rules.sources.push_back(std::move(source));
  return read_logical_rules(document->root(), rules, diags);
}

constexpr RuleForm kFlaxForm = {
    nullptr,
    [](std::string_view name) {
      return "add a rule `[" + std::string(name) +
             ", null]`, or name axes instead of `null`";
    },
    "", kNoPatterns};

}  // namespace

const RuleDialect kFlax = {
    "flax", "a list of logical axis rules: [[embed, fsdp], [mlp, null]]",
    recognize, read_flax, &kFlaxForm};

}  // namespace shardplan
