// SPDX-License-Identifier: Apache-2.0
#include "io/python/tables.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/text.h"
#include "base/words.h"
#include "io/python/path_patterns.h"
#include "io/spec_node.h"
#include "syntax/python_program.h"
#include "syntax/python_statements.h"

namespace shardplan {
namespace {

using Table = PythonTable;

bool opens(const PythonToken& token) { return token.is_one_of("( ["); }
bool closes(const PythonToken& token) { return token.is_one_of(") ]"); }
int nesting(const PythonToken& token) { return opens(token) - closes(token); }
bool is_text(const PythonToken& token) {
  return token.kind == PythonTokenKind::String ||
         token.kind == PythonTokenKind::Formatted;
}

// Recognises `re.escape("..")`.
bool is_call_of_text(std::span<const PythonToken> tokens, size_t at) {
  return at + 4 < tokens.size() && tokens[at].is("re") &&
         tokens[at + 2].is("escape") && tokens[at + 3].is("(") &&
         is_text(tokens[at + 4]);
}

// Recognises `"".join((`.
bool is_join(std::span<const PythonToken> tokens, size_t at) {
  return at + 3 < tokens.size() && is_text(tokens[at]) &&
         tokens[at + 1].is(".") && tokens[at + 2].is("join");
}

// REQUIRES: a bracket begins here.
size_t past_bracket(std::span<const PythonToken> tokens, size_t at) {
  for (int depth = 0; at < tokens.size(); ++at) {
    depth += nesting(tokens[at]);
    if (depth == 0) return at + 1;
  }
  return tokens.size();
}

// Returns the kind of a table whose pairs have no call or name as their second
// part: Rules if some first part can only be a pattern.
Table::Kind kind_of_pairs(std::span<const PythonToken> tokens, size_t at) {
  bool has_pattern = false;
  int depth = 0;
  for (size_t i = at; i + 2 < tokens.size(); ++i) {
    depth += nesting(tokens[i]);
    if (depth == 0) break;
    if (depth != 2 || !opens(tokens[i]) || !is_text(tokens[i + 1])) continue;
    size_t second = i + 1;
    bool is_pattern = false;
    while (second < tokens.size() && is_text(tokens[second])) {
      is_pattern = is_pattern || is_python_pattern(tokens[second++].text);
    }
    if (second + 1 >= tokens.size() || !tokens[second].is(",")) continue;
    // big_vision has ('.*', 'fsdp(axis="data")').
    const PythonToken& value = tokens[second + 1];
    const bool is_call = contains(value.text, '(');
    if (is_text(value) && (is_pattern || is_call)) {
      return Table::Kind::Strategy;
    }
    has_pattern = has_pattern || is_pattern;
  }
  return has_pattern ? Table::Kind::Rules : Table::Kind::Logical;
}

// Returns the kind of the table that begins here, or nullopt. A table begins
// with `((`, `[(` and so on, then a string or a tuple of strings, and a comma.
std::optional<Table::Kind> table_at(std::span<const PythonToken> tokens,
                                    size_t at) {
  if (at + 3 >= tokens.size() || !opens(tokens[at]) || !opens(tokens[at + 1])) {
    return std::nullopt;
  }
  // `f((..` is a call.
  if (at > 0 && tokens[at].is("(") &&
      tokens[at - 1].kind == PythonTokenKind::Name &&
      !tokens[at - 1].is_one_of("return else tuple list")) {
    return std::nullopt;
  }
  size_t text = at + 2;
  if (opens(tokens[text]) && is_text(tokens[text + 1])) {
    // A tuple of patterns is followed by a spec; in a list of names, by a name.
    size_t end = text + 1;
    while (is_text(tokens[end]) || tokens[end].is(",")) ++end;
    const bool is_name = end + 2 < tokens.size() && closes(tokens[end]) &&
                         tokens[end + 1].is(",") && is_text(tokens[end + 2]);
    if (is_name) return std::nullopt;
    return Table::Kind::Rules;
  }
  if (is_call_of_text(tokens, text) || is_join(tokens, text)) {
    return Table::Kind::Rules;
  }
  if (tokens[text].is("None")) ++text;  // a logical rule for no name
  while (is_text(tokens[text])) ++text;
  if (text == at + 2 || !tokens[text].is(",")) return std::nullopt;
  const PythonToken& second = tokens[text + 1];
  if (second.kind == PythonTokenKind::Name && !second.is("None")) {
    return Table::Kind::Rules;
  }
  if (!second.is("None") && !is_text(second) && !opens(second)) {
    return std::nullopt;
  }
  return kind_of_pairs(tokens, at);
}

// Returns the name that a statement assigns to: "a.b" for `a.b: T = (`.
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

// A table that may be meant: a name, the result of a function, or a bare
// literal.
struct Candidate {
  std::string name;
  size_t literal = 0;  // first token
  const PythonObject* value = nullptr;
};

// Returns whether `name` means `full`; `LlamaConfig.rules` may be called
// `rules`.
bool is_called(std::string_view full, std::string_view name) {
  return full == name || full.ends_with("." + std::string(name));
}

// Reports a table that an operator joins to something that is not evaluated.
bool stands_alone(std::span<const PythonToken> tokens, size_t begin,
                  Diagnostics& diags) {
  const PythonToken& next =
      tokens[std::min(past_bracket(tokens, begin), tokens.size() - 1)];
  const PythonToken* problem = nullptr;
  if (!next.starts_line && next.is_one_of("+ * | [ .")) problem = &next;
  if (begin > 0 && tokens[begin - 1].is_one_of("+ * |")) {
    problem = &tokens[begin - 1];
  }
  if (problem == nullptr) return true;
  diags
      .error(Code::MalformedDocument, problem->where,
             "the table is part of an expression")
      .help("write all rules in one table");
  return false;
}

// Returns whether all rules of `part` are in `whole`, in the same order, as far
// as both are written out.
bool has_rules_of(const PythonObject& whole, const PythonObject& part) {
  if (!whole.is_sequence() || !part.is_sequence()) return true;
  size_t at = 0;
  for (const PythonItem& item : whole.items) {
    if (item.value->kind == PythonKind::Starred) return true;
    if (at == part.items.size()) break;
    if (item.value == part.items[at].value) ++at;
  }
  return at == part.items.size();
}

// Drops a binding if a later one, made after the last change of the first, has
// all of its rules and so stands for both.
std::vector<PythonBinding> without_parts(std::vector<PythonBinding> all) {
  constexpr size_t kMax = 2000;  // beyond this, all are shown
  if (all.size() > kMax) return all;
  std::vector<PythonBinding> kept;
  for (const PythonBinding& part : all) {
    const bool is_part =
        std::ranges::any_of(all, [&](const PythonBinding& whole) {
          return whole.value != part.value &&
                 whole.value->created > part.value->changed &&
                 has_rules_of(*whole.value, *part.value) &&
                 std::ranges::includes(whole.literals, part.literals);
        });
    if (!is_part) kept.push_back(part);
  }
  return kept;
}

class TableChooser {
 public:
  TableChooser(std::span<const PythonToken> tokens,
               const std::vector<Table>& tables, Diagnostics& diags)
      : tokens_(tokens), tables_(tables), diags_(diags) {
    for (const Table& table : tables) {
      tokens_at_[tokens[table.at].where.begin] = table.at;
    }
  }

  // Returns the final bindings of that name. If there are none, the caller
  // looks for a literal of that name, and reaches it whatever the conditions
  // are (`forced`).
  std::vector<Candidate> named(PythonProgram& program,
                               const std::string& name) const {
    std::vector<Candidate> found;
    for (const PythonBinding& binding : program.bindings()) {
      if (is_called(binding.name, name)) found.push_back(candidate(binding));
    }
    return found;
  }

  std::vector<const Table*> literals_named(
      const std::optional<std::string>& name) const {
    std::vector<const Table*> found;
    for (const Table& table : tables_) {
      if (!name || is_called(table.name, *name)) found.push_back(&table);
    }
    return found;
  }

  std::vector<Candidate> all(PythonProgram& program) const {
    const std::vector<PythonBinding> bindings = program.bindings();
    std::set<size_t> covered;
    std::set<const PythonObject*> values;
    for (const PythonBinding& binding : bindings) {
      covered.insert(binding.literals.begin(), binding.literals.end());
      values.insert(binding.value);
    }
    std::vector<Candidate> found;
    for (const PythonBinding& binding : without_parts(bindings)) {
      found.push_back(candidate(binding));
    }
    for (const Table& table : tables_) {
      if (covered.contains(tokens_[table.at].where.begin) ||
          !program.reaches(table.at)) {
        continue;
      }
      const PythonObject* value = alone(program, table);
      if (values.insert(value).second) {
        found.push_back({table.name, table.at, value});
      }
    }
    std::ranges::sort(found, {}, &Candidate::literal);
    name_by_literal(found);
    return found;
  }

  // Returns the table that contains a literal, however it is reached.
  Candidate of_literal(PythonProgram& forced, const Table& table) const {
    std::vector<PythonBinding> with;
    for (PythonBinding& binding : forced.bindings()) {
      if (binding.literals.contains(tokens_[table.at].where.begin)) {
        with.push_back(std::move(binding));
      }
    }
    with = without_parts(std::move(with));
    if (with.size() == 1) return {table.name, table.at, with.front().value};
    return {table.name, table.at, alone(forced, table)};
  }

  void report(const std::vector<Candidate>& found,
              const std::vector<Candidate>& all,
              const std::optional<std::string>& name) const {
    auto report = diags_.error(
        Code::MalformedDocument,
        tokens_[found.empty() ? tables_.front().at : found.front().literal]
            .where,
        name
            ? (found.empty()
                   ? "no table is named " + in_backticks(*name)
                   : "several tables are named " + in_backticks(*name))
            : "the file has " + plural(std::ssize(all), "table") + " of rules");
    constexpr size_t kMax = 20;
    std::vector<std::string> known;
    for (const Candidate& each : all) {
      known.push_back(each.name);
      if (known.size() > kMax) continue;
      report.fact("line " + line_of(tokens_[each.literal].where) + ": " +
                  in_backticks(each.name));
    }
    if (all.size() > kMax) {
      report.fact("and " +
                  plural(static_cast<int64_t>(all.size() - kMax), "other"));
    }
    if (!found.empty()) {
      report.help("choose one with `--table`, e.g. `--table " +
                  found.front().name + "`");
    } else if (const auto near = nearest(*name, known)) {
      report.help("did you mean `" + *near + "`?");
    }
  }

 private:
  Candidate candidate(const PythonBinding& binding) const {
    return {binding.name, tokens_at_.at(*binding.literals.begin()),
            binding.value};
  }

  // Returns the value that the name of a literal has now, or the literal itself
  // if no name refers to it.
  const PythonObject* alone(PythonProgram& program, const Table& table) const {
    const bool is_assigned = table.at > 0 && tokens_[table.at - 1].is("=");
    const std::string name = table.name.substr(0, table.name.find('#'));
    const PythonObject* now =
        is_assigned ? program.value_in_scope(table.at, name) : nullptr;
    return now != nullptr ? now : program.literal(table.at);
  }

  // Gives candidates of the same name the numbered names of their literals.
  void name_by_literal(std::vector<Candidate>& found) const {
    std::map<std::string, int> count;
    for (const Candidate& each : found) ++count[each.name];
    for (Candidate& each : found) {
      if (count[each.name] == 1) continue;
      each.name = std::ranges::find(tables_, each.literal, &Table::at)->name;
    }
  }

  std::span<const PythonToken> tokens_;
  const std::vector<Table>& tables_;
  Diagnostics& diags_;
  std::map<size_t, size_t> tokens_at_;
};

// Shows what functions with `rules` in their names return, one line each, so
// that a reader sees why none of it is a table.
std::vector<std::string> returned_texts(const SourceFile& source,
                                        std::span<const PythonToken> tokens) {
  std::vector<std::string> texts;
  std::string function;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    if (tokens[i].is("def") && tokens[i].starts_line) {
      function = tokens[i + 1].text;
    }
    if (!tokens[i].starts_line || !tokens[i].is("return") ||
        !contains(function, "rules")) {
      continue;
    }
    const size_t begin = tokens[i].where.begin;
    const size_t end = source.text().find('\n', begin);
    std::string line(source.text().substr(begin, end - begin));
    line.erase(line.find_last_not_of("\r ") + 1);
    texts.push_back("line " + line_of(tokens[i].where) + ": " +
                    in_backticks(function) + " has " + in_backticks(line));
  }
  return texts;
}

bool is_at_margin(const PythonToken& token) {
  return token.where.file->position(token.where.begin).column == 1;
}

// Returns the names that are assigned or defined in the first column.
std::vector<std::string> module_names(std::span<const PythonToken> tokens) {
  std::vector<std::string> names;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    if (!tokens[i].starts_line || !is_at_margin(tokens[i])) continue;
    if (tokens[i].is_one_of("class def")) {
      names.push_back(tokens[i + 1].text);
    } else if (tokens[i].kind == PythonTokenKind::Name &&
               tokens[i + 1].is("=")) {
      names.push_back(tokens[i].text);
    }
  }
  return names;
}

// Drops tables of names that are probably not logical axis rules, since a
// module may have lists of axes for other purposes. Pairs of names count as
// rules if their variable's name says so, if some name has None or several
// axes, or if the file has nothing else.
void leave_out_lists(std::span<const PythonToken> tokens,
                     std::vector<Table>& tables) {
  int64_t others = 0;
  for (const PythonStatement& statement : python_statements(tokens)) {
    const PythonToken& first = tokens[statement.begin];
    if (!first.is_one_of("import from") && !is_text(first)) ++others;
  }
  std::erase_if(tables, [&](const Table& table) {
    if (table.kind != Table::Kind::Logical || others <= 1) return false;
    const std::string name = lower_case(table.name);
    if (contains(name, "rule") || contains(name, "logical")) return false;
    const size_t end = past_bracket(tokens, table.at);
    int depth = 0;
    for (size_t i = table.at; i < end; ++i) {
      depth += nesting(tokens[i]);
      if (depth == 3 || tokens[i].is("None")) return false;
    }
    return true;
  });
}

// Refuses `config.sharding_strategy = [('.*', 'fsdp(axis="data")')]`.
bool refuse_strategy(std::span<const PythonToken> tokens,
                     const std::vector<Table>& tables,
                     const std::optional<std::string>& name,
                     Diagnostics& diags) {
  for (const Table& table : tables) {
    const bool is_meant = !name || is_called(table.name, *name);
    if (table.kind != Table::Kind::Strategy || !is_meant) continue;
    diags
        .error(Code::MalformedDocument, tokens[table.at].where,
               "these are big_vision sharding strategies, not specs")
        .fact(
            "a strategy such as `fsdp` picks each parameter's dimension by "
            "size, in code that is not evaluated")
        .help(
            "use `--unmatched auto` to shard unmatched parameters by size, or "
            "write (\"PATTERN\", PartitionSpec(..)) rules");
    return true;
  }
  return false;
}

std::optional<PythonValue> no_table(const SourceFile& source,
                                    std::span<const PythonToken> tokens,
                                    Diagnostics& diags) {
  const PythonToken& last = tokens[std::max<size_t>(tokens.size(), 2) - 2];
  const bool bad = tokens.size() > 1 && last.kind == PythonTokenKind::Bad;
  auto report = diags.error(
      Code::MalformedDocument, bad ? last.where : Span{&source, 0, 0},
      bad ? "this is " + last.text
          : "no table of rules found in this Python file");
  const std::vector<std::string> returned = returned_texts(source, tokens);
  constexpr size_t kMax = 3;
  for (size_t i = 0; i < std::min(returned.size(), kMax); ++i) {
    report.fact(returned[i]);
  }
  const std::vector<std::string> names = module_names(tokens);
  if (returned.empty() && !names.empty()) {
    report.fact("it defines " + some_names(names));
  }
  return report.help(
      "a table is ((\"pattern\", PartitionSpec(..)), ..); a single rule needs "
      "a trailing comma");
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
      // A function in the first column belongs to no class.
      if (is_at_margin(tokens[i])) type.clear();
      function = (type.empty() ? "" : type + ".") + tokens[i + 1].text;
    }
    const auto kind = table_at(tokens, i);
    if (!kind) {
      ++i;
      continue;
    }
    const bool is_assigned = i > 0 && tokens[i - 1].is("=");
    tables.push_back(
        {is_assigned ? assigned_name(tokens, i - 1) : function, i, *kind});
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
  std::vector<Table> tables = find_python_tables(tokens);
  const auto is_rules = [](const Table& table) {
    return table.kind == Table::Kind::Rules;
  };
  if (!name && std::ranges::any_of(tables, is_rules)) {
    std::erase_if(tables, std::not_fn(is_rules));
  }
  if (refuse_strategy(tokens, tables, name, diags)) return std::nullopt;
  if (!name) leave_out_lists(tokens, tables);
  if (tables.empty()) return no_table(source, tokens, diags);
  std::vector<size_t> literals;
  literals.reserve(tables.size());
  for (const PythonTable& table : tables) literals.push_back(table.at);
  const PythonAnswers answers = python_answers(choices);
  PythonProgram program(tokens, literals, answers);
  std::unique_ptr<PythonProgram> forced;
  const TableChooser chooser(tokens, tables, diags);
  std::vector<Candidate> found =
      name ? chooser.named(program, *name) : chooser.all(program);
  // Falls back to a literal of that name, or the only one, in a branch that is
  // not executed.
  if (found.size() != 1 && (name || found.empty())) {
    const auto by_name = chooser.literals_named(name);
    if (by_name.size() == 1) {
      forced = std::make_unique<PythonProgram>(tokens, literals, answers,
                                               by_name.front()->at);
      found = {chooser.of_literal(*forced, *by_name.front())};
    }
  }
  if (found.size() != 1) {
    std::vector<Candidate> all = chooser.all(program);
    if (all.empty()) {
      for (const Table& table : tables) all.push_back({table.name, table.at});
    }
    chooser.report(name ? found : all, all, name);
    return std::nullopt;
  }
  const Candidate& chosen = found.front();
  const PythonProgram& ran = forced != nullptr ? *forced : program;
  if (chosen.value == nullptr) {
    size_t at = chosen.literal;
    parse_python_value(tokens, at, diags, PythonParts::All);
    return std::nullopt;
  }
  if (chosen.value->is_sequence() &&
      chosen.value->where.begin == tokens[chosen.literal].where.begin &&
      !stands_alone(tokens, chosen.literal, diags)) {
    return std::nullopt;
  }
  auto settled = settle_python_value(*chosen.value, tokens, choices, diags);
  if (!settled) return std::nullopt;
  if (!is_python_sequence(*settled)) {
    const bool is_call = settled->kind == PythonKind::Call;
    diags
        .error(Code::MalformedDocument, settled->where,
               is_call ? "the call to " + in_backticks(settled->text) +
                             " builds another table, which is not evaluated"
                       : "this is not a table of rules")
        .help(is_call ? "write the table that it returns"
                      : "a table is a tuple or list of pairs");
    return std::nullopt;
  }
  for (const PythonProblem& remark : ran.remarks(*chosen.value)) {
    diags
        .report(Code::MalformedDocument,
                remark.is_warning ? Severity::Warning : Severity::Note,
                remark.where, remark.message)
        .help(remark.help);
  }
  return settled;
}

}  // namespace shardplan
