// SPDX-License-Identifier: Apache-2.0
#include "io/python_rules.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/text.h"
#include "io/python_literal.h"
#include "io/python_specs.h"
#include "io/python_tables.h"
#include "io/python_tokens.h"
#include "io/segment_pattern.h"

namespace shardplan {
namespace {

bool is_sequence(const PythonValue& value) {
  return value.kind == PythonKind::Tuple || value.kind == PythonKind::List;
}

class RuleReader {
 public:
  RuleReader(RuleSet& rules, Diagnostics& diags)
      : rules_(rules), diags_(diags) {}

  bool read(const PythonValue& table) {
    bool any_spec = false;
    for (const PythonValue& item : table.items) {
      if (!is_sequence(item) || item.items.size() < 2) continue;
      any_spec = any_spec || is_python_spec(item.items[1]) ||
                 is_sequence(item.items[0]);
      keystr_ = keystr_ || (item.items[0].kind == PythonKind::String &&
                            is_keystr_pattern(item.items[0].text));
    }
    bool good = true;
    for (const PythonValue& item : table.items) {
      good = (any_spec ? rule(item) : logical_rule(item)) && good;
    }
    return good;
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
    // The rules of segments say None for what is replicated.
    const bool is_replicated =
        is_sequence(value.items[0]) && value.items[1].kind == PythonKind::None;
    rule.spec_where = value.items[1].where;
    if (!is_replicated && !read_python_spec(value.items[1], rule, diags_)) {
      return false;
    }
    if (has_pattern) rules_.rules.push_back(std::move(rule));
    return has_pattern;
  }

  bool pattern(const PythonValue& value, Rule& rule) {
    if (is_sequence(value)) return segments(value, rule);
    if (value.kind != PythonKind::String) {
      return refuse(value.where, "the pattern of a rule is not a string",
                    "write the pattern itself");
    }
    rule.pattern = value.text;
    if (!keystr_) return true;
    const auto path = pattern_of_keystr(value.text);
    if (!path) {
      return refuse(value.where,
                    "this pattern looks for brackets in a way that paths "
                    "without brackets cannot be searched for",
                    "write it for names such as `h/0/attn/kernel`");
    }
    rule.pattern = *path;
    return true;
  }

  bool segments(const PythonValue& value, Rule& rule) {
    std::vector<std::string> parts;
    for (const PythonValue& item : value.items) {
      if (item.kind != PythonKind::String) {
        return refuse(item.where, "a part of a path is not a string",
                      "write the pattern of the part itself");
      }
      parts.push_back(item.text);
    }
    if (parts.empty()) {
      return refuse(value.where, "there is no pattern",
                    "write one pattern per part of the path");
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
    if (!is_pair(value, "a logical axis rule is a name and its axes",
                 "write (\"name\", \"axis\"), with None or a tuple of axes")) {
      return false;
    }
    const PythonValue& name = value.items[0];
    if (name.kind != PythonKind::String && name.kind != PythonKind::None) {
      return refuse(name.where, "a logical axis is not a string",
                    "write its name");
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
};

bool uses_semantic_axes(const RuleSet& rules) {
  return std::any_of(
      rules.rules.begin(), rules.rules.end(), [](const Rule& rule) {
        return std::any_of(
            rule.spec.dims.begin(), rule.spec.dims.end(),
            [](const AxisNames& axes) {
              return std::any_of(
                  axes.begin(), axes.end(), [](const AxisName& name) {
                    return find_semantic_token(name, false).has_value();
                  });
            });
      });
}

// `PartitionAxis(..)`, the first that is called.
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

// EasyDeL's meshes have all the axes that semantic axes stand for, some of
// size 1.
void declare_axes(RuleSet& rules) {
  const PartitionAxis axis =
      rules.partition_axis.value_or(default_partition_axis());
  constexpr size_t kMeshFields = 5;
  for (size_t i = 0; i < kMeshFields; ++i) {
    for (const AxisName& name : axis.at(i).value_or(AxisValue()).axes) {
      AxisNames& all = rules.declared_axes;
      if (std::find(all.begin(), all.end(), name) == all.end()) {
        all.push_back(name);
      }
    }
  }
}

}  // namespace

bool looks_like_python_rules(std::string_view text) {
  const SourceFile source("rules", std::string(text));
  const std::vector<PythonToken> tokens = python_tokens(source);
  const std::vector<PythonTable> tables = find_python_tables(tokens);
  if (tables.empty()) return false;
  const size_t at = tables.front().at;
  // A list of lists may also be JSON or YAML.
  return tokens[at].is("(") || tokens[at + 1].is("(") ||
         (at > 0 && (tokens[at - 1].is("=") || tokens[at - 1].is("return")));
}

bool read_python_rules(const SourcePtr& source,
                       const std::optional<std::string>& table, RuleSet& rules,
                       Diagnostics& diags) {
  diags.keep(source);
  const auto value = read_python_table(*source, table, diags);
  if (!value || !RuleReader(rules, diags).read(*value)) return false;
  rules.sources.push_back(source);
  if (!uses_semantic_axes(rules)) return true;
  if (!read_partition_axis(python_tokens(*source), rules, diags)) return false;
  declare_axes(rules);
  return true;
}

}  // namespace shardplan
