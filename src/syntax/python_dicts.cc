// SPDX-License-Identifier: Apache-2.0
// Dictionaries of Python modules: where they are, and whether the module's
// statements change them or make other plans from them.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/text.h"
#include "base/words.h"
#include "syntax/python_program.h"

namespace shardplan {
namespace {

using Tokens = std::span<const PythonToken>;

// Returns the token after the adjacent strings that begin at `at`.
size_t past_strings(Tokens tokens, size_t at) {
  while (at < tokens.size() && tokens[at].kind == PythonTokenKind::String) ++at;
  return at;
}

bool begins_dict(Tokens tokens, size_t at) {
  if (!tokens[at].is("{") || at + 1 >= tokens.size()) return false;
  if (tokens[at + 1].is("}")) return at > 0 && tokens[at - 1].is("=");
  const size_t colon = past_strings(tokens, at + 1);
  return colon > at + 1 && colon < tokens.size() && tokens[colon].is(":");
}

// Returns "a.b" for `a.b: T = {`.
std::string assigned_name(Tokens tokens, size_t brace) {
  if (brace == 0 || !tokens[brace - 1].is("=")) return "";
  size_t first = brace - 1;
  while (first > 0 && !tokens[first].starts_line) --first;
  std::string name;
  for (size_t i = first; i + 1 < brace && !tokens[i].is(":"); ++i) {
    name += tokens[i].text;
  }
  return name;
}

// Returns the end of a value: a comma, or the closing bracket of an enclosing
// expression.
size_t past_value(Tokens tokens, size_t at) {
  int depth = 0;
  for (; at < tokens.size(); ++at) {
    if (tokens[at].kind == PythonTokenKind::End) break;
    if (depth == 0 && tokens[at].is_one_of(", ) ] }")) break;
    depth += python_nesting(tokens[at]);
  }
  return at;
}

size_t read_entries(Tokens tokens, size_t at, PythonDict& dict) {
  while (at < tokens.size() && tokens[at].kind != PythonTokenKind::End) {
    if (tokens[at].is("}")) return at + 1;
    const size_t colon = past_strings(tokens, at);
    if (colon == at || colon >= tokens.size() || !tokens[colon].is(":")) {
      if (!dict.problem) dict.problem = tokens[at].where;
    } else {
      PythonEntry entry;
      for (size_t i = at; i < colon; ++i) entry.key += tokens[i].text;
      entry.where = tokens[at].where;
      entry.where.end = tokens[colon - 1].where.end;
      entry.begin = colon + 1;
      entry.end = past_value(tokens, colon + 1);
      dict.entries.push_back(std::move(entry));
    }
    at = past_value(tokens, at);
    if (at == tokens.size() || !tokens[at].is_one_of(", ) ]")) continue;
    if (!tokens[at].is(",") && !dict.problem) dict.problem = tokens[at].where;
    ++at;
  }
  if (!dict.problem && !tokens.empty()) dict.problem = tokens.back().where;
  return at;
}

// Returns whether a token next to a dictionary makes another value from it.
bool is_dict_operator(const PythonToken& token) {
  return token.is_one_of("| ** or and not if else [");
}

// Returns whether the value of an entry is a call of a plain name.
bool is_call(Tokens tokens, const PythonEntry& entry) {
  return entry.begin + 1 < entry.end &&
         tokens[entry.begin].kind == PythonTokenKind::Name &&
         tokens[entry.begin + 1].is("(");
}

// Returns whether an object is the class with this name, or None as its
// substitute.
bool is_class_or_none(const PythonObject& object, std::string_view name,
                      int depth) {
  if (object.kind == PythonKind::None) return true;
  if (!object.is_opaque || object.is_import()) {
    return object.kind == PythonKind::Name && !object.change &&
           last_word(object.text) == name;
  }
  constexpr int kMostAliases = 64;
  return !object.items.empty() && depth < kMostAliases &&
         std::ranges::all_of(object.items, [&](const PythonItem& item) {
           return is_class_or_none(*item.value, name, depth + 1);
         });
}

// Finds code that makes another plan from the dictionaries: an expression
// around one, `{**plan, ..}`, a copy.
std::optional<PythonProblem> remade_dict(
    Tokens tokens, const std::vector<const PythonDict*>& dicts) {
  const std::vector<size_t> past = past_python_brackets(tokens);
  std::set<size_t> places;
  std::set<std::string, std::less<>> names;
  std::set<std::string, std::less<>> classes;
  for (const PythonDict* dict : dicts) {
    places.insert(dict->where.begin);
    if (!dict->name.empty()) names.insert(dict->name);
    for (const PythonEntry& entry : dict->entries) {
      if (is_call(tokens, entry)) classes.insert(tokens[entry.begin].text);
    }
  }
  const auto is_plan = [&](size_t at) {
    return tokens[at].kind == PythonTokenKind::Name &&
           names.contains(tokens[at].text);
  };
  size_t looked_at = 0;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    const PythonToken& token = tokens[i];
    const PythonToken& next = tokens[i + 1];
    if (token.is("{")) {
      const size_t end = std::min(past[i], tokens.size() - 1);
      if (places.contains(token.where.begin) &&
          ((i > 0 && is_dict_operator(tokens[i - 1])) ||
           (!tokens[end].starts_line && is_dict_operator(tokens[end])))) {
        return PythonProblem{token.where,
                             "this dictionary is part of an expression, "
                             "which is not evaluated"};
      }
      if (!next.is("**") || i < looked_at) continue;
      looked_at = end;  // nested braces have been searched as well
      for (size_t inside = i; inside < end; ++inside) {
        if (!is_plan(inside) && !classes.contains(tokens[inside].text)) {
          continue;
        }
        return PythonProblem{token.where,
                             "another dictionary is built here by unpacking, "
                             "which is not evaluated"};
      }
    }
    const bool is_assigned =
        i > 0 && tokens[i - 1].is("=") && i + 2 < tokens.size();
    const bool is_copy =
        is_assigned &&
        ((is_plan(i) && next.is(".") && tokens[i + 2].is("copy")) ||
         (token.is_one_of("dict deepcopy copy") &&
          (next.is("(") ? is_plan(i + 2)
                        : i + 4 < tokens.size() && tokens[i + 3].is("(") &&
                              is_plan(i + 4))));
    if (is_copy) {
      return PythonProblem{
          token.where,
          "a plan is copied here; changes to the copy cannot be traced"};
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<PythonDict> python_dicts(Tokens tokens) {
  std::vector<PythonDict> dicts;
  for (size_t i = 0; i < tokens.size();) {
    if (!begins_dict(tokens, i)) {
      ++i;
      continue;
    }
    PythonDict dict{assigned_name(tokens, i), tokens[i].where, {}};
    i = read_entries(tokens, i + 1, dict);
    dicts.push_back(std::move(dict));
  }
  return dicts;
}

std::optional<PythonProblem> python_dict_change(
    Tokens tokens, const std::vector<const PythonDict*>& dicts) {
  if (auto remade = remade_dict(tokens, dicts)) return remade;
  std::map<size_t, size_t> places;  // first bytes to token indices
  for (const PythonDict* dict : dicts) places[dict->where.begin] = 0;
  std::vector<size_t> literals;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto place = places.find(tokens[i].where.begin);
    if (place == places.end()) continue;
    place->second = i;
    literals.push_back(i);
  }
  // Dictionaries of two branches both count; their readers compare them.
  PythonProgram program(tokens, literals,
                        [](const std::string&) { return std::nullopt; });
  for (const size_t literal : literals) {
    const PythonObject* object = program.literal(literal);
    if (object != nullptr && object->change) return object->change;
  }
  for (const PythonDict* dict : dicts) {
    const size_t literal = places.at(dict->where.begin);
    for (const PythonEntry& entry : dict->entries) {
      const std::string& name = tokens[entry.begin].text;
      const PythonObject* meant = is_call(tokens, entry)
                                      ? program.value_in_scopes(literal, name)
                                      : nullptr;
      if (meant == nullptr || is_class_or_none(*meant, name, 0)) continue;
      return PythonProblem{
          meant->where,
          in_backticks(name) + " is redefined here, which is not supported"};
    }
    const PythonObject* now = program.value_in_scope(literal, dict->name);
    // Another of these dictionaries may have the name.
    const bool is_plan =
        now == nullptr || places.contains(now->where.begin) ||
        (now->is_opaque && now->text.empty() &&
         std::ranges::any_of(now->items, [&](const PythonItem& item) {
           return places.contains(item.value->where.begin);
         }));
    if (is_plan) continue;
    return PythonProblem{now->where,
                         in_backticks(dict->name) +
                             " is reassigned here, which is not supported"};
  }
  return std::nullopt;
}

}  // namespace shardplan
