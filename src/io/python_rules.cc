// SPDX-License-Identifier: Apache-2.0
// Tables are found by their looks: a bracket, a bracket, and a string with a
// comma behind it. So a module may hold any Python around them.
#include "io/python_rules.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/text.h"
#include "io/python_literal.h"
#include "io/python_tokens.h"

namespace shardplan {
namespace {

struct Table {
  std::string name;  // "partition_rules", "LlamaConfig.get_partition_rules", ""
  size_t at = 0;     // its first token
};

bool opens(const PythonToken& token) { return token.is("(") || token.is("["); }
bool closes(const PythonToken& token) { return token.is(")") || token.is("]"); }
bool is_text(const PythonToken& token) {
  return token.kind == PythonTokenKind::String ||
         token.kind == PythonTokenKind::Formatted;
}

// `((` or `[(` and so on, then a string and a comma.
bool begins_table(std::span<const PythonToken> tokens, size_t at) {
  if (at + 3 >= tokens.size() || !opens(tokens[at]) || !opens(tokens[at + 1])) {
    return false;
  }
  // `f((..` is a call.
  if (at > 0 && tokens[at].is("(") &&
      tokens[at - 1].kind == PythonTokenKind::Name &&
      !tokens[at - 1].is("return") && !tokens[at - 1].is("else") &&
      !tokens[at - 1].is("tuple") && !tokens[at - 1].is("list")) {
    return false;
  }
  size_t text = at + 2;
  if (!is_text(tokens[text])) return false;
  while (text < tokens.size() && is_text(tokens[text])) ++text;
  return text < tokens.size() && tokens[text].is(",") &&
         !is_text(tokens[std::min(text + 1, tokens.size() - 1)]);
}

size_t past_bracket(std::span<const PythonToken> tokens, size_t at) {
  int depth = 0;
  for (; at < tokens.size(); ++at) {
    if (opens(tokens[at])) ++depth;
    if (closes(tokens[at]) && --depth == 0) return at + 1;
  }
  return tokens.size();
}

// The name that a statement assigns to: `a.b: T = (` gives "a.b".
std::string assigned_name(std::span<const PythonToken> tokens, size_t equals) {
  size_t first = equals;
  while (first > 0 && !tokens[first].starts_line) --first;
  std::string name;
  for (size_t i = first; i < equals && !tokens[i].is(":"); ++i) {
    name += tokens[i].text;
  }
  return name;
}

std::vector<Table> find_tables(std::span<const PythonToken> tokens) {
  std::vector<Table> tables;
  std::string function;
  std::string type;
  for (size_t i = 0; i < tokens.size();) {
    const bool has_name =
        i + 1 < tokens.size() && tokens[i + 1].kind == PythonTokenKind::Name;
    if (tokens[i].is("class") && has_name) type = tokens[i + 1].text;
    if (tokens[i].is("def") && has_name) {
      // A function at the margin belongs to no class.
      const bool at_margin =
          tokens[i].where.file->position(tokens[i].where.begin).column == 1;
      if (at_margin) type.clear();
      function = (type.empty() ? "" : type + ".") + tokens[i + 1].text;
    }
    if (!begins_table(tokens, i)) {
      ++i;
      continue;
    }
    Table table{function, i};
    if (i > 0 && tokens[i - 1].is("=")) {
      table.name = assigned_name(tokens, i - 1);
    }
    tables.push_back(std::move(table));
    i = past_bracket(tokens, i);
  }
  return tables;
}

// Tables of one name are numbered: `rules#1`, `rules#2`.
void number_names(std::vector<Table>& tables) {
  std::map<std::string, int> count;
  for (const Table& table : tables) ++count[table.name];
  std::map<std::string, int> seen;
  for (Table& table : tables) {
    if (count[table.name] == 1) continue;
    const int number = ++seen[table.name];
    table.name += "#" + std::to_string(number);
  }
}

std::string line_of(const PythonToken& token) {
  return std::to_string(token.where.file->position(token.where.begin).line);
}

// `LlamaConfig.rules` is also `rules`, where that is plain.
const Table* choose_table(std::span<const PythonToken> tokens,
                          const std::vector<Table>& tables,
                          const std::optional<std::string>& name,
                          Diagnostics& diags) {
  std::vector<const Table*> found;
  std::vector<std::string> known;
  for (const Table& table : tables) {
    known.push_back(table.name);
    if (!name || table.name == *name || table.name.ends_with("." + *name)) {
      found.push_back(&table);
    }
  }
  if (found.size() == 1) return found.front();
  auto report = diags.error(
      Code::MalformedDocument,
      found.empty() ? tokens[tables.front().at].where
                    : tokens[found.front()->at].where,
      name ? (found.empty()
                  ? "no table is named `" + printable(*name) + "`"
                  : "several tables are named `" + printable(*name) + "`")
           : "the file holds " +
                 plural(static_cast<int64_t>(tables.size()), "table") +
                 " of rules");
  for (const Table& table : tables) {
    report.fact("line " + line_of(tokens[table.at]) + ": `" +
                printable(table.name) + "`");
  }
  if (found.empty()) {
    if (const auto near = nearest(*name, known)) {
      report.help("a table with a similar name exists: `" + *near + "`");
    }
  } else {
    report.help("choose one with `--table`, e.g. `--table " +
                printable(found.front()->name) + "`");
  }
  return nullptr;
}

bool is_spec_name(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot != std::string_view::npos) name.remove_prefix(dot + 1);
  return name == "PartitionSpec" || name == "PS" || name == "P";
}

class RuleReader {
 public:
  explicit RuleReader(Diagnostics& diags) : diags_(diags) {}

  std::optional<Rule> rule(const PythonValue& value) {
    const bool pair =
        (value.kind == PythonKind::Tuple || value.kind == PythonKind::List) &&
        value.items.size() == 2;
    if (!pair) {
      return refuse(value.where, "a rule is a pattern and a PartitionSpec",
                    "write (\"pattern\", PartitionSpec(..))");
    }
    const PythonValue& pattern = value.items[0];
    if (pattern.kind != PythonKind::String) {
      return refuse(pattern.where, "the pattern of a rule is not a string",
                    "write the pattern itself");
    }
    Rule rule;
    rule.pattern = pattern.text;
    rule.where = pattern.where;
    if (!spec(value.items[1], rule)) return std::nullopt;
    return rule;
  }

 private:
  std::nullopt_t refuse(Span where, std::string message, std::string help) {
    return diags_.error(Code::MalformedDocument, where, std::move(message))
        .help(std::move(help));
  }

  bool spec(const PythonValue& value, Rule& rule) {
    if (value.kind != PythonKind::Call || !is_spec_name(value.text)) {
      refuse(value.where,
             value.kind == PythonKind::None ? "the rule has no spec"
                                            : "this is no PartitionSpec",
             "PartitionSpec, PS and P are read; PartitionSpec() replicates");
      return false;
    }
    rule.spec_where = value.where;
    bool good = true;
    for (const PythonValue& item : value.items) {
      const auto axes = entry(item);
      good = good && axes;
      rule.spec.dims.push_back(axes.value_or(AxisNames()));
      rule.dim_where.push_back(item.where);
    }
    return good;
  }

  std::optional<AxisNames> entry(const PythonValue& value) {
    switch (value.kind) {
      case PythonKind::None:
        return AxisNames();
      case PythonKind::String:
        if (value.text.empty()) return AxisNames();
        return axis(value);
      case PythonKind::Tuple:
      case PythonKind::List:
        break;
      default:
        if (value.text.ends_with(".UNCONSTRAINED")) {
          return AxisNames{std::string(kUnconstrained)};
        }
        return refuse_entry(value);
    }
    AxisNames axes;
    for (const PythonValue& item : value.items) {
      if (item.kind == PythonKind::None && value.items.size() == 1) continue;
      if (item.kind != PythonKind::String) return refuse_entry(item);
      const auto name = axis(item);
      if (!name) return std::nullopt;
      axes.push_back(name->front());
    }
    return axes;
  }

  std::optional<AxisNames> refuse_entry(const PythonValue& value) {
    return refuse(value.where,
                  value.kind == PythonKind::Name
                      ? "`" + printable(value.text) + "` is not known here"
                      : "this is no entry of a PartitionSpec",
                  "write None, the axis as a string, or a tuple of strings");
  }

  std::optional<AxisNames> axis(const PythonValue& value) {
    if (is_axis_name(value.text)) return AxisNames{value.text};
    return refuse(value.where,
                  "`" + printable(value.text) + "` is not an axis name",
                  "axis names start with a letter or `_` and go on with "
                  "letters, digits, `_`, `.` and `-`");
  }

  Diagnostics& diags_;
};

// A table that is only a part of an expression: joined to another one, or
// chosen by a condition, which `named` has settled.
bool stands_alone(std::span<const PythonToken> tokens, size_t begin, size_t end,
                  bool named, Diagnostics& diags) {
  const auto refuse = [&](const PythonToken& token, std::string message,
                          std::string help) {
    diags.error(Code::MalformedDocument, token.where, std::move(message))
        .help(std::move(help));
    return false;
  };
  const auto joins = [](const PythonToken& token) {
    return token.is("+") || token.is("*") || token.is("|");
  };
  if (begin > 0 && joins(tokens[begin - 1])) {
    return refuse(tokens[begin - 1], "the table is a part of an expression",
                  "write all rules into one table");
  }
  const PythonToken& next = tokens[end];
  if (next.kind == PythonTokenKind::End || next.starts_line) return true;
  if (joins(next)) {
    return refuse(next, "the table is a part of an expression",
                  "write all rules into one table");
  }
  if (next.is("if") && !named) {
    return refuse(next, "a condition chooses this table",
                  "remove the condition, or choose the table with `--table`");
  }
  return true;
}

}  // namespace

bool looks_like_python_rules(std::string_view text) {
  for (const std::string_view name : {"PartitionSpec(", "PS(", "P("}) {
    const size_t at = text.find(name);
    if (at == std::string_view::npos) continue;
    const size_t before =
        text.find_last_not_of(" \t\r\n.", at == 0 ? 0 : at - 1);
    if (before != std::string_view::npos && at > 0) return true;
  }
  return false;
}

bool read_python_rules(const SourcePtr& source,
                       const std::optional<std::string>& table, RuleSet& rules,
                       Diagnostics& diags) {
  diags.keep(source);
  const std::vector<PythonToken> tokens = python_tokens(*source);
  std::vector<Table> tables = find_tables(tokens);
  number_names(tables);
  if (tables.empty()) {
    const bool bad = tokens.size() > 1 &&
                     tokens[tokens.size() - 2].kind == PythonTokenKind::Bad;
    diags
        .error(Code::MalformedDocument,
               bad ? tokens[tokens.size() - 2].where : Span{source.get(), 0, 0},
               bad ? "here is " + tokens[tokens.size() - 2].text
                   : "no table of rules is found")
        .help(
            "a table is ((\"pattern\", PartitionSpec(..)), ..), with a comma "
            "behind its only rule");
    return false;
  }
  const Table* chosen = choose_table(tokens, tables, table, diags);
  if (chosen == nullptr) return false;
  size_t at = chosen->at;
  const auto value = parse_python_value(tokens, at, diags);
  if (!value ||
      !stands_alone(tokens, chosen->at, at, table.has_value(), diags)) {
    return false;
  }
  RuleReader reader(diags);
  bool good = true;
  for (const PythonValue& item : value->items) {
    auto rule = reader.rule(item);
    good = good && rule;
    if (rule) rules.rules.push_back(*std::move(rule));
  }
  rules.sources.push_back(source);
  return good;
}

}  // namespace shardplan
