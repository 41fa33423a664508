// SPDX-License-Identifier: Apache-2.0
// The dialect `python`: Python source with a table of rules; see
// docs/formats/python.md.
#include "io/python/rules.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/words.h"
#include "io/dialects.h"
#include "io/python/padding.h"
#include "io/python/path_patterns.h"
#include "io/python/tables.h"
#include "syntax/python.h"

namespace shardplan {
namespace {

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
    if (!is_python_sequence(item) || item.items.size() != 2) continue;
    const PythonValue& name = item.items[0];
    const PythonValue& axes = item.items[1];
    if (name.kind == PythonKind::String) {
      names_parameter = names_parameter || is_parameter_name(name.text);
      repeats = !names.insert(name.text).second || repeats;
    }
    if (!is_python_sequence(axes)) continue;
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
      if (!is_python_sequence(item) || item.items.size() < 2) continue;
      const PythonValue& first = item.items[0];
      const bool is_text = first.kind == PythonKind::String;
      any_call_ = any_call_ || is_python_spec(item.items[1]);
      any_spec = any_spec || is_python_sequence(first) ||
                 (is_text && is_python_pattern(first.text));
      keystr_ = keystr_ || (is_text && is_keystr_pattern(first.text));
    }
    any_spec = any_spec || any_call_;
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
    return (is_python_sequence(value) && value.items.size() == 2) ||
           refuse(value.where, what, help);
  }

  bool rule(const PythonValue& value) {
    if (!is_pair(value, "a rule is a pattern and a PartitionSpec",
                 "write (\"pattern\", PartitionSpec(..))")) {
      return false;
    }
    Rule rule;
    rule.where = value.items[0].where;
    std::vector<std::string> parts;
    const bool has_pattern = pattern(value.items[0], rule, parts);
    // Rules with segment patterns write None for a replicated parameter.
    const bool is_replicated = is_python_sequence(value.items[0]) &&
                               value.items[1].kind == PythonKind::None;
    rule.spec_where = value.items[1].where;
    const bool good =
        is_replicated || (!any_call_ && is_python_sequence(value.items[1])
                              ? spec_of_tuple(value.items[1], rule)
                              : read_python_spec(value.items[1], rule, diags_));
    if (!good || !has_pattern) return false;
    rules_.rules.push_back(std::move(rule));
    segments_.push_back(std::move(parts));
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

  bool pattern(const PythonValue& value, Rule& rule,
               std::vector<std::string>& parts) {
    if (is_python_sequence(value)) return segments(value, rule, parts);
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

  bool segments(const PythonValue& value, Rule& rule,
                std::vector<std::string>& parts) {
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
    std::optional<std::string> label;
    if (name.kind == PythonKind::String) label = name.text;
    rules_.logical_rules.push_back(
        {std::move(label), *std::move(axes), name.where, value.items[1].where});
    return true;
  }

  RuleSet& rules_;
  Diagnostics& diags_;
  bool keystr_ = false;
  bool any_call_ = false;  // some spec is a PartitionSpec, not a tuple
  std::vector<std::vector<std::string>> segments_;
};

bool uses_semantic_axes(const RuleSet& rules) {
  return std::ranges::any_of(rules.rules, [](const Rule& rule) {
    return std::ranges::any_of(axes_in(rule.spec), [](const AxisName& name) {
      return find_semantic_token(name, false).has_value();
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

bool pad_specs(std::span<const PythonToken> tokens,
               const PythonChoices& choices,
               std::span<const std::vector<std::string>> segments,
               RuleSet& rules, Diagnostics& diags) {
  if (rules.rules.empty()) return true;
  std::vector<size_t> tables;
  for (const PythonTable& table : find_python_tables(tokens)) {
    tables.push_back(table.at);
  }
  std::optional<PythonPadding> padding;
  return find_python_padding(tokens, tables, python_answers(choices), padding,
                             diags) &&
         (!padding || add_padded_rules(*padding, segments, rules.rules, diags));
}

// Advice for the dialect.

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
    const size_t begin = name.rfind('/') + 1;  // 0 without a slash
    const std::string_view last = name.substr(begin);
    if (last == "*") break;
    parts.insert(parts.begin(), escape_pattern(last));
    name = name.substr(0, begin == 0 ? 0 : begin - 1);
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

bool read_python_rules(SourcePtr source, const RuleReading& reading,
                       RuleSet& rules, Diagnostics& diags) {
  diags.add_source(source);
  const PythonChoices choices{reading, rules.questions};
  const auto value = read_python_table(*source, choices, diags);
  RuleReader reader(rules, diags);
  if (!value || !reader.read(*value)) return false;
  const std::vector<PythonToken> tokens = python_tokens(*source);
  rules.sources.push_back(std::move(source));
  if (!pad_specs(tokens, choices, reader.segments(), rules, diags)) {
    return false;
  }
  if (!uses_semantic_axes(rules)) return true;
  if (!read_partition_axis(tokens, rules, diags)) return false;
  declare_axes(rules);
  return true;
}

const RuleDialect kPythonRules = {
    "python", "tuples in Python source: EasyDeL, EasyLM, JAXSeq, grok-1, flax",
    looks_like_python_rules, read_python_rules, &kPythonForm};

}  // namespace shardplan
