// SPDX-License-Identifier: Apache-2.0
// Values and names of syntax/python_program.h.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/words.h"
#include "syntax/python_program.h"

namespace shardplan {
namespace {

constexpr int kMaxCopyDepth = 64;

// Returns whether the callee is evaluated: a class such as PartitionSpec, or a
// copy.
bool has_known_meaning(std::string_view callee) {
  static constexpr std::string_view kKnown =
      "tuple list dict deepcopy copy get_moe_partition_spec";
  return is_python_class(callee) || has_word(kKnown, last_word(callee));
}

// Returns the name that an object is an alias of, if it is the same on all
// paths: `P = PartitionSpec`.
std::optional<std::string> referenced_name(const PythonObject& object,
                                           int depth) {
  if (!object.is_opaque) {
    if (object.kind != PythonKind::Name || object.change) return std::nullopt;
    return object.text;
  }
  if (object.is_import()) {
    return object.change ? std::nullopt : std::optional(object.text);
  }
  std::optional<std::string> name;
  for (const PythonItem& item : object.items) {
    if (depth > kMaxCopyDepth) return std::nullopt;
    auto other = referenced_name(*item.value, depth + 1);
    if (!other || (name && last_word(*name) != last_word(*other))) {
      return std::nullopt;
    }
    name = std::move(other);
  }
  return name;
}

// Adds the literals that an object is made of.
void add_literals(const PythonObject& object, const std::set<size_t>& known,
                  int64_t& budget, std::set<size_t>& found) {
  std::set<const PythonObject*> seen;
  std::vector<const PythonObject*> open = {&object};
  while (!open.empty()) {
    const PythonObject* at = open.back();
    open.pop_back();
    if (!seen.insert(at).second || --budget < 0) continue;
    if (known.contains(at->where.begin) &&
        (at->is_opaque || at->is_made_of_items())) {
      found.insert(at->where.begin);
    }
    for (const size_t place : at->absorbed) {
      if (known.contains(place)) found.insert(place);
    }
    const bool is_call = at->kind == PythonKind::Call && !at->is_opaque;
    const bool is_made = is_call ? is_python_converter(at->text) ||
                                       (!is_python_reader(at->text) &&
                                        !is_python_class(at->text))
                                 : !at->is_opaque || at->is_derived;
    if (!is_made) continue;
    for (const PythonItem& item : at->items) open.push_back(item.value);
  }
}

}  // namespace

bool is_rules_name(std::string_view name) {
  return lower_case(name).find("rule") != std::string::npos;
}

bool is_python_class(std::string_view name) {
  const std::string_view last = last_word(name);
  return !last.empty() && last.front() >= 'A' && last.front() <= 'Z';
}

std::string line_of(Span where) {
  return std::to_string(where.file->position(where.begin).line);
}

bool is_python_converter(std::string_view callee) {
  static constexpr std::string_view kMakers =
      "sorted reversed map filter zip set dict frozenset enumerate";
  return has_word(kMakers, callee);
}

bool is_python_reader(std::string_view callee) {
  static constexpr std::string_view kReaders =
      "match_partition_rules make_shard_and_gather_fns named_tree_map "
      "logical_axis_rules axis_rules set_logical_axis_rules logical_to_mesh "
      "logical_to_mesh_axes logical_to_mesh_sharding get_partition_spec "
      "get_partition_specs with_logical_constraint len print enumerate zip "
      "isinstance str repr type id hash iter sorted reversed sum any all min "
      "max map filter range bool set frozenset dumps pprint info debug warning "
      "freeze dict partial asdict copy deepcopy";
  return has_word(kReaders, last_word(callee));
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
  if (end == begin + 1 && tokens_[begin].kind == PythonTokenKind::Name) {
    // An alias of a parameter.
    PythonObject* known = find(scope, tokens_[begin].text);
    const bool is_given = known != nullptr && known->is_opaque &&
                          !known->problem &&
                          (known->is_tracked() || known->is_import());
    if (is_given) return known;
  }
  Diagnostics quiet;
  size_t at = begin;
  const auto value = parse_python_value(tokens_, at, quiet, PythonParts::All);
  if (value && at == end) return converted(*value, scope);
  PythonProblem problem{tokens_[std::min(at, end - 1)].where,
                        "unsupported expression at " +
                            in_backticks(tokens_[std::min(at, end - 1)].text),
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
  object->is_derived = is_table || tokens_[begin].is_one_of("[ (");
  object->is_literal = literals_.contains(object->where.begin);
  if (object->is_literal) literal_objects_.emplace(object->where.begin, object);
  return object;
}

// Collects the objects that the tokens name, and the literals in them.
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
    for (PythonObject* entry : entries_at(i, end)) {
      if (entry->is_tracked()) into.items.push_back({entry, ""});
    }
  }
}

PythonObject* PythonProgram::copied(PythonObject* object, int depth) {
  if (!object->is_made_of_items() || depth > kMaxCopyDepth ||
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

// Checks whether a callee was redefined in this file, so that its usual meaning
// may not apply: `P = jax.sharding.PartitionSpec`, `def P(..)`.
void PythonProgram::resolve_callee(PythonObject& call, Scope& scope) {
  if (!has_known_meaning(call.text)) return;
  Scope* owner = nullptr;
  PythonObject* callee = find(scope, call.text, &owner);
  if (callee == nullptr) return;
  called_.emplace_back(&call, callee);
  if (const auto name = referenced_name(*callee, 0)) {
    // Readers compare functions by their original names.
    if (is_python_class(*name) || !callee->is_import()) call.text = *name;
    return;
  }
  call.problem = PythonProblem{
      call.where,
      "the call to " + in_backticks(call.text) +
          " is not evaluated: this file redefines the name on line " +
          line_of(callee->where),
      "write the value that it returns"};
}

PythonObject* PythonProgram::converted(const PythonValue& value, Scope& scope) {
  if (value.kind == PythonKind::Name) {
    PythonObject* known = find(scope, value.text);
    const bool is_marker =
        known != nullptr && known->is_opaque && !known->problem;
    // Attributes of an instance may be set elsewhere; only tables are followed.
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
        PythonProblem{value.where, "this module has too many values to trace",
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
  resolve_callee(*object, scope);
  // A copy: tuple(RULES), RULES.copy().
  const bool is_kind = value.text == "tuple" || value.text == "list";
  PythonObject* from = nullptr;
  if (object->items.size() == 1 && object->items[0].keyword.empty() &&
      (is_kind || last_word(value.text) == "deepcopy" ||
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
    // The names in a class body are visible only there.
    if (at != &scope && at->kind == Scope::Kind::Class) continue;
    const auto found = at->names.find(name);
    if (found == at->names.end()) continue;
    if (owner != nullptr) *owner = at;
    return found->second;
  }
  const bool is_attribute =
      name.starts_with("self.") || name.starts_with("cls.");
  Scope* type = is_attribute ? class_of(scope) : nullptr;
  if (type == nullptr) return nullptr;
  const auto found = type->names.find(name.substr(name.find('.') + 1));
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
  // Longer names than `self.a.b` do not refer to tables.
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
  if (literals_.contains(object->where.begin) || object->is_made_of_items()) {
    scope.tables.insert(name);
  }
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
    if (old != nullptr && is_outer) rebind(old, *either->problem);
    object = either;
  }
  if (!home->names.contains(name)) home->order.push_back(name);
  home->names[name] = object;
  if (object->is_tracked() || !object->is_opaque || object->is_import()) {
    named_[std::string(last_word(name))].insert({home, name});
  }
  // A class's attributes are also bound under the class's name.
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
  // The literal is the default of a parameter, or is never reached.
  Scope& scope = scope_of(token);
  Diagnostics quiet;
  const auto value =
      parse_python_value(tokens_, token, quiet, PythonParts::All);
  return value ? converted(*value, scope) : nullptr;
}

PythonProgram::Scope& PythonProgram::scope_of(size_t token) const {
  const auto scope = literal_scopes_.find(tokens_[token].where.begin);
  return scope == literal_scopes_.end() ? *scopes_.front() : *scope->second;
}

const PythonObject* PythonProgram::value_in_scopes(size_t token,
                                                   const std::string& name) {
  return find(scope_of(token), name);
}

const PythonObject* PythonProgram::value_in_scope(
    size_t token, const std::string& name) const {
  const auto scope = literal_scopes_.find(tokens_[token].where.begin);
  if (scope == literal_scopes_.end()) return nullptr;
  const auto found = scope->second->names.find(name);
  return found == scope->second->names.end() ? nullptr : found->second;
}

std::vector<PythonBinding> PythonProgram::bindings() const {
  std::vector<PythonBinding> all;
  std::set<const PythonObject*> listed;
  int64_t budget = int64_t{1} << 24U;  // objects that may still be visited
  const auto add = [&](const std::string& name, const PythonObject* value,
                       const Scope& scope) {
    PythonBinding binding{name, value};
    // The result of a call with a table, or an object made from a table item by
    // item, counts as another table only if its name says so.
    const bool is_result = value == scope.result;
    const bool is_own = is_result || is_rules_name(name) ||
                        scope.tables.contains(name.substr(name.rfind('.') + 1));
    const bool is_made = value->is_opaque || value->kind == PythonKind::Call;
    if (is_made && !is_own) return;
    if (listed.contains(value)) return;
    add_literals(*value, literals_, budget, binding.literals);
    if (is_made && is_result && !is_rules_name(name)) {
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

}  // namespace shardplan
