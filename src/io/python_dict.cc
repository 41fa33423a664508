// SPDX-License-Identifier: Apache-2.0
#include "io/python_dict.h"

#include <utility>

namespace shardplan {
namespace {

using Tokens = std::span<const PythonToken>;

bool opens(const PythonToken& token) {
  return token.is("(") || token.is("[") || token.is("{");
}
bool closes(const PythonToken& token) {
  return token.is(")") || token.is("]") || token.is("}");
}

// Behind the adjacent strings that begin at `at`.
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

// `a.b: T = {` gives "a.b".
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

// The end of a value: a comma or a closing bracket that is not its own.
size_t past_value(Tokens tokens, size_t at) {
  int depth = 0;
  for (; at < tokens.size(); ++at) {
    if (tokens[at].kind == PythonTokenKind::End) break;
    if (depth == 0 && (tokens[at].is(",") || closes(tokens[at]))) break;
    if (opens(tokens[at])) ++depth;
    if (closes(tokens[at])) --depth;
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
    if (at < tokens.size() && tokens[at].is(",")) {
      ++at;
    } else if (at < tokens.size() && closes(tokens[at]) &&
               !tokens[at].is("}")) {
      if (!dict.problem) dict.problem = tokens[at].where;
      ++at;
    }
  }
  if (!dict.problem && !tokens.empty()) dict.problem = tokens.back().where;
  return at;
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

}  // namespace shardplan
