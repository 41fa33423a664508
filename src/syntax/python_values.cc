// SPDX-License-Identifier: Apache-2.0
// Values and names, for syntax/python_program.h.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "syntax/python_program.h"

namespace shardplan {
namespace {

constexpr int kMaxCopyDepth = 64;

std::string_view final_word(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

bool is_class_name(std::string_view callee) {
  const std::string_view last = final_word(callee);
  return !last.empty() && last.front() >= 'A' && last.front() <= 'Z';
}

bool has_word(std::string_view name, std::string_view word) {
  std::string lower;
  for (const char c : name) {
    lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return lower.find(word) != std::string::npos;
}

}  // namespace

bool is_python_reader(std::string_view callee) {
  static constexpr std::array<std::string_view, 47> kReaders = {
      "match_partition_rules",
      "make_shard_and_gather_fns",
      "named_tree_map",
      "logical_axis_rules",
      "axis_rules",
      "set_logical_axis_rules",
      "logical_to_mesh",
      "logical_to_mesh_axes",
      "logical_to_mesh_sharding",
      "get_partition_spec",
      "get_partition_specs",
      "with_logical_constraint",
      "len",
      "print",
      "enumerate",
      "zip",
      "isinstance",
      "str",
      "repr",
      "type",
      "id",
      "hash",
      "iter",
      "sorted",
      "reversed",
      "sum",
      "any",
      "all",
      "min",
      "max",
      "map",
      "filter",
      "range",
      "bool",
      "set",
      "frozenset",
      "dumps",
      "pprint",
      "info",
      "debug",
      "warning",
      "freeze",
      "dict",
      "partial",
      "asdict",
      "copy",
      "deepcopy"};
  const std::string_view last = final_word(callee);
  return std::find(kReaders.begin(), kReaders.end(), last) != kReaders.end();
}

// Values.

PythonObject* PythonProgram::marker(Span where) {
  PythonObject* object = objects_.make(PythonKind::Name, "", where);
  object->is_opaque = true;
  return object;
}

PythonObject* PythonProgram::evaluate(size_t begin, size_t end, Scope& scope) {
  if (begin >= end) {
    return objects_.make(PythonKind::None, "None", tokens_[begin].where);
  }
  Diagnostics quiet;
  size_t at = begin;
  const auto value = parse_python_value(tokens_, at, quiet, PythonParts::All);
  if (value && at == end) return converted(*value, scope);
  PythonProblem problem{tokens_[std::min(at, end - 1)].where,
                        in_backticks(tokens_[std::min(at, end - 1)].text) +
                            " makes this an expression, which is not evaluated",
                        {},
                        "write its value"};
  if (!value && quiet.has_errors()) {
    const Diagnostic& first = quiet.all().front();
    problem.message = first.message;
    if (!first.labels.empty()) problem.where = first.labels.front().where;
    if (!first.help.empty()) problem.help = first.help.front();
  }
  return unknown(begin, end, scope, std::move(problem));
}

PythonObject* PythonProgram::unknown(size_t begin, size_t end, Scope& scope,
                                     std::optional<PythonProblem> problem) {
  PythonObject* object = marker(span_of(begin, end));
  object->problem = std::move(problem);
  object->text = tokens_[begin].text;
  collect(begin, end, scope, *object);
  size_t after = begin;
  std::string name;
  const bool is_table =
      named_at(begin, end, scope, after, name, nullptr) != nullptr &&
      after < end && !tokens_[after].is("(") && !tokens_[after].is(".");
  object->is_derived =
      is_table || tokens_[begin].is("[") || tokens_[begin].is("(");
  object->is_literal = literals_.contains(object->where.begin);
  if (object->is_literal) {
    literal_objects_.emplace(object->where.begin, object);
  }
  return object;
}

// What the tokens name or write out.
void PythonProgram::collect(size_t begin, size_t end, Scope& scope,
                            PythonObject& into) {
  for (size_t i = begin; i < end; ++i) {
    const size_t place = tokens_[i].where.begin;
    if (i > begin && literals_.contains(place)) {
      Diagnostics quiet;
      size_t at = i;
      const auto value =
          parse_python_value(tokens_, at, quiet, PythonParts::All);
      if (value && at <= end) {
        into.items.push_back({converted(*value, scope), ""});
      }
    }
    if (tokens_[i].kind != PythonTokenKind::Name ||
        (i > begin && tokens_[i - 1].is("."))) {
      continue;
    }
    size_t after = i;
    std::string name;
    PythonObject* object = named_at(i, end, scope, after, name, nullptr);
    if (object != nullptr && object->is_tracked()) {
      into.items.push_back({object, ""});
    }
  }
}

PythonObject* PythonProgram::copied(PythonObject* object, int depth) {
  const bool is_made =
      object->is_sequence() ||
      (!object->is_opaque &&
       (object->kind == PythonKind::Choice || object->kind == PythonKind::Sum));
  if (!is_made || depth > kMaxCopyDepth ||
      !objects_.spend(object->items.size())) {
    return object;
  }
  PythonObject* copy = objects_.make(object->kind, object->text, object->where);
  copy->items = object->items;
  copy->condition_begin = object->condition_begin;
  copy->condition_end = object->condition_end;
  copy->problem = object->problem;
  copy->change = object->change;
  copy->absorbed = object->absorbed;
  if (!object->is_sequence()) {
    for (PythonItem& item : copy->items) {
      item.value = copied(item.value, depth + 1);
    }
  }
  return copy;
}

PythonObject* PythonProgram::converted(const PythonValue& value, Scope& scope) {
  if (value.kind == PythonKind::Name) {
    PythonObject* known = find(scope, value.text);
    const bool is_marker =
        known != nullptr && known->is_opaque && !known->problem;
    // What an instance has may be set elsewhere; only tables are looked for.
    const bool is_instance =
        value.text.starts_with("self.") || value.text.starts_with("cls.");
    if (known != nullptr && !is_marker &&
        (!is_instance || known->is_tracked())) {
      return known;
    }
  }
  if (value.kind == PythonKind::Choice && forced_) {
    const size_t place = tokens_[*forced_].where.begin;
    for (const PythonValue& item : value.items) {
      if (item.where.begin <= place && place < item.where.end) {
        return converted(item, scope);
      }
    }
  }
  PythonObject* object = objects_.make(value.kind, value.text, value.where);
  object->condition_begin = value.condition_begin;
  object->condition_end = value.condition_end;
  const bool is_copied =
      value.kind == PythonKind::Starred || value.kind == PythonKind::Sum;
  if (!objects_.spend(value.items.size())) {
    object->problem =
        PythonProblem{value.where,
                      "the values of this module are too many to follow",
                      {},
                      "write the rules out in one table"};
    return object;
  }
  for (const PythonValue& item : value.items) {
    PythonObject* inner = converted(item, scope);
    object->items.push_back(
        {is_copied ? copied(inner, 0) : inner, item.keyword});
  }
  if (literals_.contains(value.where.begin)) {
    literal_objects_.emplace(value.where.begin, object);
  }
  if (value.kind != PythonKind::Call) return object;
  // Copies: tuple(RULES), RULES.copy().
  const bool is_kind = value.text == "tuple" || value.text == "list";
  PythonObject* from = nullptr;
  if (object->items.size() == 1 && object->items[0].keyword.empty() &&
      (is_kind || final_word(value.text) == "deepcopy" ||
       value.text == "copy.copy")) {
    from = object->items[0].value;
  }
  if (value.text.ends_with(".copy") && object->items.empty()) {
    from = find(scope, value.text.substr(0, value.text.size() - 5));
  }
  if (from == nullptr) return object;
  PythonObject* copy = copied(from, 0);
  if (copy == from) return object;
  if (is_kind && copy->is_sequence()) {
    copy->kind = value.text == "tuple" ? PythonKind::Tuple : PythonKind::List;
  }
  return copy;
}

// Names.

PythonObject* PythonProgram::find(Scope& scope, const std::string& name,
                                  Scope** owner) const {
  for (Scope* at = &scope; at != nullptr; at = at->outer) {
    // The names of a class are those of its body alone.
    if (at != &scope && at->kind == Scope::Kind::Class) continue;
    const auto found = at->names.find(name);
    if (found == at->names.end()) continue;
    if (owner != nullptr) *owner = at;
    return found->second;
  }
  const size_t dot = name.find('.');
  const std::string_view first = std::string_view(name).substr(0, dot);
  if (dot == std::string::npos || (first != "self" && first != "cls")) {
    return nullptr;
  }
  Scope* type = &scope;
  while (type != nullptr && type->kind != Scope::Kind::Class) {
    type = type->outer;
  }
  if (type == nullptr) return nullptr;
  const auto found = type->names.find(name.substr(dot + 1));
  if (found == type->names.end()) return nullptr;
  if (owner != nullptr) *owner = type;
  return found->second;
}

PythonObject* PythonProgram::named_at(size_t at, size_t end, Scope& scope,
                                      size_t& after, std::string& name,
                                      Scope** owner) const {
  after = at + 1;
  name = at < end ? tokens_[at].text : "";
  if (at >= end || tokens_[at].kind != PythonTokenKind::Name) return nullptr;
  PythonObject* object = find(scope, name, owner);
  std::string longer = name;
  // Longer names than `self.a.b` are of no table.
  constexpr size_t kParts = 4;
  for (size_t i = at + 1;
       i + 1 < std::min(end, at + 2 * kParts) && tokens_[i].is(".") &&
       tokens_[i + 1].kind == PythonTokenKind::Name;
       i += 2) {
    longer += "." + tokens_[i + 1].text;
    PythonObject* deeper = find(scope, longer, owner);
    if (deeper == nullptr) continue;
    object = deeper;
    name = longer;
    after = i + 2;
  }
  return object;
}

void PythonProgram::bind(Scope& scope, const std::string& name,
                         PythonObject* object, const Doubt* doubt, Span where) {
  const bool is_table =
      literals_.contains(object->where.begin) ||
      (!object->is_opaque &&
       (object->is_sequence() || object->kind == PythonKind::Choice ||
        object->kind == PythonKind::Sum));
  if (is_table) scope.tables.insert(name);
  Scope* home = &scope;
  PythonObject* old = nullptr;
  const bool is_outer = scope.outer_names.contains(name);
  if (is_outer) {
    old = find(scope, name, &home);
    if (old == nullptr) home = scopes_.front().get();
  } else if (scope.names.contains(name)) {
    old = scope.names[name];
  }
  if (is_outer || doubt != nullptr) {
    const Doubt here{"in " + in_backticks(scope.name)};
    PythonObject* either = marker(where);
    either->problem = problem_of(name, where, doubt != nullptr ? doubt : &here);
    either->is_derived = true;
    either->items.push_back({object, ""});
    if (old != nullptr) either->items.push_back({old, ""});
    object = either;
  }
  if (!home->names.contains(name)) home->order.push_back(name);
  home->names[name] = object;
  if (object->is_tracked()) {
    named_[name.substr(name.rfind('.') + 1)].insert({home, name});
  }
  // A class has its attributes under its own name, too.
  if (home->kind == Scope::Kind::Class && home->outer != nullptr) {
    home->outer->names[home->name + "." + name] = object;
  }
}

// Answers.

bool PythonProgram::reaches(size_t token) const {
  return literal_scopes_.contains(tokens_[token].where.begin);
}

const PythonObject* PythonProgram::literal(size_t token) {
  const size_t place = tokens_[token].where.begin;
  const auto found = literal_objects_.find(place);
  if (found != literal_objects_.end()) return found->second;
  // In the default of a parameter, or where it is never reached.
  const auto scope = literal_scopes_.find(place);
  Diagnostics quiet;
  const auto value =
      parse_python_value(tokens_, token, quiet, PythonParts::All);
  return value ? converted(*value, scope == literal_scopes_.end()
                                       ? *scopes_.front()
                                       : *scope->second)
               : nullptr;
}

const PythonObject* PythonProgram::value_beside(size_t token,
                                                const std::string& name) const {
  const auto scope = literal_scopes_.find(tokens_[token].where.begin);
  if (scope == literal_scopes_.end()) return nullptr;
  const auto found = scope->second->names.find(name);
  return found == scope->second->names.end() ? nullptr : found->second;
}

namespace {

// The literals in what an object is made of.
void add_literals(const PythonObject& object, const std::set<size_t>& known,
                  int64_t& budget, std::set<size_t>& found) {
  std::set<const PythonObject*> seen;
  std::vector<const PythonObject*> open = {&object};
  while (!open.empty()) {
    const PythonObject* at = open.back();
    open.pop_back();
    if (!seen.insert(at).second || --budget < 0) continue;
    if (known.contains(at->where.begin) &&
        (at->is_opaque || at->is_sequence() || at->kind == PythonKind::Choice ||
         at->kind == PythonKind::Sum)) {
      found.insert(at->where.begin);
    }
    for (const size_t place : at->absorbed) {
      if (known.contains(place)) found.insert(place);
    }
    const bool is_call = at->kind == PythonKind::Call && !at->is_opaque;
    const bool is_made =
        is_call ? !is_python_reader(at->text) && !is_class_name(at->text)
                : !at->is_opaque || at->is_derived;
    if (!is_made) continue;
    for (const PythonItem& item : at->items) open.push_back(item.value);
  }
}

}  // namespace

std::vector<PythonBinding> PythonProgram::bindings() const {
  std::vector<PythonBinding> all;
  std::set<const PythonObject*> listed;
  int64_t budget = int64_t{1} << 24U;  // objects that are looked at
  const auto add = [&](const std::string& name, const PythonObject* value,
                       const Scope& scope) {
    PythonBinding binding{name, value};
    // What is called with a table, or made of it item by item, is another one
    // where its name says so.
    const bool is_result = value == scope.result;
    const bool is_own = is_result || has_word(name, "rule") ||
                        scope.tables.contains(name.substr(name.rfind('.') + 1));
    const bool is_made = value->is_opaque || value->kind == PythonKind::Call;
    if (is_made && !is_own) return;
    if (listed.contains(value)) return;
    add_literals(*value, literals_, budget, binding.literals);
    if (is_made && is_result && !has_word(name, "rule")) {
      std::erase_if(binding.literals, [&](size_t literal) {
        const auto home = literal_scopes_.find(literal);
        return home == literal_scopes_.end() || home->second != &scope;
      });
    }
    if (!binding.literals.empty() && listed.insert(value).second) {
      all.push_back(std::move(binding));
    }
  };
  for (const auto& scope : scopes_) {
    const bool is_class = scope->kind == Scope::Kind::Class;
    for (const std::string& name : scope->order) {
      add(is_class ? scope->name + "." + name : name, scope->names.at(name),
          *scope);
    }
    if (scope->result != nullptr) add(scope->name, scope->result, *scope);
  }
  if (budget < 0) all.clear();
  return all;
}

std::optional<PythonProblem> python_dict_change(
    std::span<const PythonToken> tokens,
    const std::vector<const PythonDict*>& dicts) {
  std::map<size_t, size_t> places;  // first bytes, and tokens
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
    const PythonObject* now =
        program.value_beside(places.at(dict->where.begin), dict->name);
    // Another of them may have the name.
    const bool is_plan =
        now == nullptr || places.contains(now->where.begin) ||
        (now->is_opaque && now->text.empty() &&
         std::any_of(now->items.begin(), now->items.end(),
                     [&](const PythonItem& item) {
                       return places.contains(item.value->where.begin);
                     }));
    if (is_plan) continue;
    return PythonProblem{now->where,
                         in_backticks(dict->name) +
                             " is given another value here, which is not "
                             "followed",
                         {},
                         ""};
  }
  return std::nullopt;
}

}  // namespace shardplan
