// SPDX-License-Identifier: Apache-2.0
#include "io/python/tables.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "io/spec_node.h"

namespace shardplan {
namespace {

using Table = PythonTable;

bool opens(const PythonToken& token) { return token.is("(") || token.is("["); }
bool closes(const PythonToken& token) { return token.is(")") || token.is("]"); }
bool is_text(const PythonToken& token) {
  return token.kind == PythonTokenKind::String ||
         token.kind == PythonTokenKind::Formatted;
}

// `re.escape("..")`
bool is_call_of_text(std::span<const PythonToken> tokens, size_t at) {
  return at + 4 < tokens.size() && tokens[at].is("re") &&
         tokens[at + 2].is("escape") && tokens[at + 3].is("(") &&
         is_text(tokens[at + 4]);
}

// `"".join((`
bool is_join(std::span<const PythonToken> tokens, size_t at) {
  return at + 3 < tokens.size() && is_text(tokens[at]) &&
         tokens[at + 1].is(".") && tokens[at + 2].is("join");
}

// What begins here: `((` or `[(` and so on, then a string, or a tuple of
// strings, and a comma.
std::optional<PythonTable::Kind> table_at(std::span<const PythonToken> tokens,
                                          size_t at) {
  if (at + 3 >= tokens.size() || !opens(tokens[at]) || !opens(tokens[at + 1])) {
    return std::nullopt;
  }
  // `f((..` is a call.
  if (at > 0 && tokens[at].is("(") &&
      tokens[at - 1].kind == PythonTokenKind::Name &&
      !tokens[at - 1].is("return") && !tokens[at - 1].is("else") &&
      !tokens[at - 1].is("tuple") && !tokens[at - 1].is("list")) {
    return std::nullopt;
  }
  size_t text = at + 2;
  const bool is_segments = opens(tokens[text]) && is_text(tokens[text + 1]);
  if (is_segments || is_call_of_text(tokens, text) || is_join(tokens, text)) {
    return PythonTable::Kind::Rules;
  }
  if (tokens[text].is("None")) ++text;  // a logical rule for no name
  while (is_text(tokens[text])) ++text;
  if (text == at + 2 || !tokens[text].is(",")) return std::nullopt;
  const PythonToken& second = tokens[text + 1];
  if (second.kind == PythonTokenKind::Name && !second.is("None")) {
    return PythonTable::Kind::Rules;
  }
  if (second.is("None") || is_text(second) || opens(second)) {
    return PythonTable::Kind::Logical;
  }
  return std::nullopt;
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
      name ? (found.empty() ? "no table is named " + in_backticks(*name)
                            : "several tables are named " + in_backticks(*name))
           : "the file holds " +
                 plural(static_cast<int64_t>(tables.size()), "table") +
                 " of rules");
  for (const Table& table : tables) {
    report.fact("line " + line_of(tokens[table.at]) + ": " +
                in_backticks(table.name));
  }
  if (found.empty()) {
    if (const auto near = nearest(*name, known)) {
      report.help("did you mean `" + *near + "`?");
    }
  } else {
    report.help("choose one with `--table`, e.g. `--table " +
                found.front()->name + "`");
  }
  return nullptr;
}

// Not joined to another table.
bool stands_alone(std::span<const PythonToken> tokens, size_t begin, size_t end,
                  Diagnostics& diags) {
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
  return true;
}

// What functions with `rules` in their names return, as far as it fits a line,
// so that a reader sees why none of it is a table.
std::vector<std::string> returned_texts(const SourceFile& source,
                                        std::span<const PythonToken> tokens) {
  std::vector<std::string> texts;
  std::string function;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    if (tokens[i].is("def") && tokens[i].starts_line) {
      function = tokens[i + 1].text;
    }
    if (!tokens[i].starts_line || !tokens[i].is("return") ||
        function.find("rules") == std::string::npos) {
      continue;
    }
    const size_t begin = tokens[i].where.begin;
    const size_t end = source.text().find('\n', begin);
    std::string line(source.text().substr(begin, end - begin));
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) {
      line.pop_back();
    }
    texts.push_back("line " + line_of(tokens[i]) + ": " +
                    in_backticks(function) + " has " + in_backticks(line));
  }
  return texts;
}

// Names that are assigned to, or defined, at the margin.
std::vector<std::string> module_names(std::span<const PythonToken> tokens) {
  std::vector<std::string> names;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    const bool at_margin =
        tokens[i].starts_line &&
        tokens[i].where.file->position(tokens[i].where.begin).column == 1;
    if (!at_margin) continue;
    if (tokens[i].is("class") || tokens[i].is("def")) {
      names.push_back(tokens[i + 1].text);
    } else if (tokens[i].kind == PythonTokenKind::Name &&
               tokens[i + 1].is("=")) {
      names.push_back(tokens[i].text);
    }
  }
  return names;
}

std::optional<PythonValue> no_table(const SourceFile& source,
                                    std::span<const PythonToken> tokens,
                                    Diagnostics& diags) {
  const bool bad = tokens.size() > 1 &&
                   tokens[tokens.size() - 2].kind == PythonTokenKind::Bad;
  auto report =
      diags.error(Code::MalformedDocument,
                  bad ? tokens[tokens.size() - 2].where : Span{&source, 0, 0},
                  bad ? "here is " + tokens[tokens.size() - 2].text
                      : "no table of rules is found in this Python");
  const std::vector<std::string> returned = returned_texts(source, tokens);
  constexpr size_t kMost = 3;
  for (size_t i = 0; i < std::min(returned.size(), kMost); ++i) {
    report.fact(returned[i]);
  }
  const std::vector<std::string> names = module_names(tokens);
  if (returned.empty() && !names.empty()) {
    report.fact("it has " + some_names(names));
  }
  return report.help(
      "a table is ((\"pattern\", PartitionSpec(..)), ..), with a comma behind "
      "its only rule");
}

// Put into another table, as `*NAME`.
bool is_starred(std::span<const PythonToken> tokens, const Table& table) {
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    if (tokens[i].is("*") && tokens[i + 1].is(table.name)) return true;
  }
  return false;
}

// `(..) if x else (..)`: one table, of which a condition chooses a part.
bool is_one_choice(std::span<const PythonToken> tokens,
                   const std::vector<Table>& tables) {
  for (size_t i = 1; i < tables.size(); ++i) {
    const size_t at = tables[i].at;
    if (at == 0 || !tokens[at - 1].is("else")) return false;
  }
  return true;
}

}  // namespace

std::vector<PythonTable> find_python_tables(
    std::span<const PythonToken> tokens) {
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
    const auto kind = table_at(tokens, i);
    if (!kind) {
      ++i;
      continue;
    }
    Table table{function, i, *kind};
    if (i > 0 && tokens[i - 1].is("=")) {
      table.name = assigned_name(tokens, i - 1);
    }
    tables.push_back(std::move(table));
    i = past_bracket(tokens, i);
  }
  number_names(tables);
  return tables;
}

std::optional<PythonValue> read_python_table(const SourceFile& source,
                                             const PythonChoices& choices,
                                             Diagnostics& diags) {
  const std::optional<std::string>& name = choices.reading.table;
  const std::vector<PythonToken> tokens = python_tokens(source);
  std::vector<PythonTable> tables = find_python_tables(tokens);
  const auto is_rules = [](const PythonTable& table) {
    return table.kind == PythonTable::Kind::Rules;
  };
  if (!name && std::any_of(tables.begin(), tables.end(), is_rules)) {
    std::erase_if(tables, std::not_fn(is_rules));
  }
  if (!name && tables.size() > 1) {
    std::erase_if(tables, [&](const PythonTable& table) {
      return is_starred(tokens, table);
    });
  }
  if (tables.empty()) return no_table(source, tokens, diags);
  const PythonTable* chosen = !name && is_one_choice(tokens, tables)
                                  ? &tables.front()
                                  : choose_table(tokens, tables, name, diags);
  if (chosen == nullptr) return std::nullopt;
  size_t at = chosen->at;
  auto value = parse_python_value(tokens, at, diags, PythonParts::All);
  if (!value || !stands_alone(tokens, chosen->at, at, diags)) {
    return std::nullopt;
  }
  // A name with a number is one part of a choice.
  if (value->kind == PythonKind::Choice &&
      chosen->name.find('#') != std::string::npos && name) {
    value = PythonValue(value->items.front());
  }
  auto settled =
      settle_python_value(*value, tokens, chosen->at, choices, diags);
  const bool is_table = settled && (settled->kind == PythonKind::Tuple ||
                                    settled->kind == PythonKind::List);
  if (settled && !is_table) {
    diags
        .error(Code::MalformedDocument, settled->where,
               "this is not a table of rules")
        .help("a table is a tuple or list of pairs");
    return std::nullopt;
  }
  return settled;
}

namespace {

std::nullopt_t refuse(Span where, std::string message, std::string help,
                      Diagnostics& diags) {
  return diags.error(Code::MalformedDocument, where, std::move(message))
      .help(std::move(help));
}

// "PartitionSpec" for "jax.sharding.PartitionSpec".
std::string_view last_part(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

bool is_spec_name(std::string_view name) {
  const std::string_view last = last_part(name);
  return last == "PartitionSpec" || last == "PS" || last == "P";
}

// `pmag.resolve(ColumnWise)`
bool is_resolve(const PythonValue& value) {
  return value.kind == PythonKind::Call && value.text.ends_with(".resolve");
}

// A name that stands for a spec, alone or as the argument of `resolve`.
bool read_preset(const PythonValue& value, Rule& rule, Diagnostics& diags) {
  const ShardingPreset* preset =
      value.kind == PythonKind::Name
          ? find_sharding_preset(last_part(value.text))
          : nullptr;
  if (preset != nullptr) {
    rule.spec = preset_spec(*preset);
    rule.decode_dim = preset->decode_dim;
    return true;
  }
  auto report = diags.error(Code::MalformedDocument, value.where,
                            "this is no PartitionSpec");
  suggest_preset(last_part(value.text), report);
  report.help(
      "PartitionSpec, PS and P are read, and presets such as ColumnWise; "
      "PartitionSpec() replicates");
  return false;
}

std::optional<AxisName> read_axis(const PythonValue& value,
                                  Diagnostics& diags) {
  if (is_axis_name(value.text)) return value.text;
  return refuse(value.where, in_backticks(value.text) + " is not an axis name",
                "axis names start with a letter or `_` and go on with letters, "
                "digits, `_`, `.` and `-`",
                diags);
}

std::nullopt_t refuse_entry(const PythonValue& value, Diagnostics& diags) {
  return refuse(value.where,
                value.kind == PythonKind::Name
                    ? in_backticks(value.text) + " is not known here"
                    : "this is not an entry of a PartitionSpec",
                "write None, the axis as a string, or a tuple of strings",
                diags);
}

}  // namespace

bool is_python_spec(const PythonValue& value) {
  return value.kind == PythonKind::Call || value.kind == PythonKind::Name;
}

bool read_python_spec(const PythonValue& value, Rule& rule,
                      Diagnostics& diags) {
  rule.spec_where = value.where;
  if (value.kind == PythonKind::Name) return read_preset(value, rule, diags);
  if (is_resolve(value)) {
    if (value.items.size() == 1 && value.items[0].keyword.empty()) {
      return read_preset(value.items[0], rule, diags);
    }
    refuse(value.where, "only `resolve` of one preset is read",
           "write PartitionSpec(..) with the axes that it resolves to", diags);
    return false;
  }
  if (value.kind == PythonKind::Call && !is_spec_name(value.text)) {
    refuse(value.where,
           "the call of " + in_backticks(value.text) + " is not followed",
           "write the PartitionSpec that it returns; PartitionSpec, PS and P "
           "are read",
           diags);
    return false;
  }
  if (value.kind != PythonKind::Call) {
    refuse(value.where,
           value.kind == PythonKind::None ? "the rule has no spec"
                                          : "this is no PartitionSpec",
           "PartitionSpec, PS and P are read; PartitionSpec() replicates",
           diags);
    return false;
  }
  bool good = true;
  for (const PythonValue& item : value.items) {
    if (!item.keyword.empty()) {
      refuse(item.where, "arguments by name are not read",
             "give the axes by position", diags);
      return false;
    }
    const auto axes = read_python_axes(item, diags);
    good = good && axes;
    rule.spec.dims.push_back(axes.value_or(AxisNames()));
    rule.dim_where.push_back(item.where);
  }
  return good;
}

std::optional<AxisNames> read_python_axes(const PythonValue& value,
                                          Diagnostics& diags) {
  switch (value.kind) {
    case PythonKind::None:
      return AxisNames();
    case PythonKind::String: {
      if (value.text.empty()) return AxisNames();
      auto name = read_axis(value, diags);
      if (!name) return std::nullopt;
      return AxisNames{*std::move(name)};
    }
    case PythonKind::Tuple:
    case PythonKind::List:
      break;
    default:
      if (value.text.ends_with(".UNCONSTRAINED")) {
        return AxisNames{std::string(kUnconstrained)};
      }
      return refuse_entry(value, diags);
  }
  AxisNames axes;
  for (const PythonValue& item : value.items) {
    if (item.kind == PythonKind::None && value.items.size() == 1) continue;
    if (item.kind != PythonKind::String) return refuse_entry(item, diags);
    auto name = read_axis(item, diags);
    if (!name) return std::nullopt;
    axes.push_back(*std::move(name));
  }
  return axes;
}

std::optional<PartitionAxis> read_python_partition_axis(
    const PythonValue& value, Diagnostics& diags) {
  std::vector<std::string> known;
  for (const PartitionField& field : partition_fields()) {
    known.emplace_back(field.name);
  }
  PartitionAxis axis = default_partition_axis();
  for (const PythonValue& item : value.items) {
    const auto field = find_partition_field(item.keyword);
    if (!field) {
      auto report = diags.error(
          Code::UnknownKey, item.where,
          item.keyword.empty()
              ? "the fields of a PartitionAxis are given by name"
              : "PartitionAxis has no " + in_backticks(item.keyword));
      if (const auto near = nearest(item.keyword, known)) {
        report.help("did you mean `" + *near + "`?");
      }
      return std::nullopt;
    }
    auto axes = read_python_axes(item, diags);
    if (!axes) return std::nullopt;
    const bool is_tuple =
        item.kind == PythonKind::Tuple || item.kind == PythonKind::List;
    axis.at(*field) = AxisValue{*std::move(axes), is_tuple};
  }
  return resolve_partition_axis(axis, diags);
}

}  // namespace shardplan
