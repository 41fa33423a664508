// SPDX-License-Identifier: Apache-2.0
#include "syntax/python_program.h"

#include <algorithm>

#include "base/text.h"
#include "base/words.h"

namespace shardplan {
namespace {

// Returns whether the decorator leaves the function's result unchanged.
bool is_plain_decorator(std::string_view name) {
  static constexpr std::string_view kPlain =
      "staticmethod classmethod property cached_property lru_cache cache "
      "abstractmethod override typechecked jaxtyped final overload deprecated "
      "wraps";
  return has_word(kPlain, last_word(name));
}

}  // namespace

PythonProgram::PythonProgram(std::span<const PythonToken> tokens,
                             const std::vector<size_t>& literals,
                             const PythonAnswers& answers,
                             std::optional<size_t> forced)
    : tokens_(tokens),
      past_(past_python_brackets(tokens)),
      answers_(answers),
      forced_(forced) {
  for (const size_t at : literals) literals_.insert(tokens[at].where.begin);
  statements_ = python_statements(tokens);
  scopes_.push_back(std::make_unique<Scope>());
  run(statements_, *scopes_.front(), nullptr);
  // Functions run after the module; some define others.
  for (size_t i = 0; i < functions_.size(); ++i) {
    run_function(Function(functions_[i]));
  }
  std::multimap<std::string_view, PythonObject*> attributes;
  for (const auto& scope : scopes_) {
    for (const auto& [name, object] : scope->names) {
      if (contains(name, '.')) attributes.emplace(last_word(name), object);
    }
  }
  for (const auto& [name, changes] : attributes_) {
    const auto [first, last] = attributes.equal_range(name);
    for (const Attribute& change : changes) {
      for (auto at = first; at != last; ++at) {
        if (at->second == change.besides) continue;
        invalidate(at->second, change.problem);
      }
    }
  }
  for (const auto& scope : scopes_) {
    for (const auto& [name, object] : scope->names) {
      // A class that is imported by name is assumed to be that class.
      if (scope->star && object->created <= scope->star_moment &&
          !object->is_import()) {
        rebind(object, *scope->star);
      }
      if (code_ && object->created <= code_moment_) rebind(object, *code_);
    }
  }
  for (const auto& [call, callee] : called_) {
    if (callee->change && !call->problem) call->problem = *callee->change;
  }
  invalidate_changed_arguments();
  invalidate_changed_results();
}

Span PythonProgram::span_of(size_t begin, size_t end) const {
  Span where = tokens_[begin].where;
  if (end > begin) where.end = tokens_[end - 1].where.end;
  return where;
}

PythonProgram::Scope& PythonProgram::add_scope(Scope::Kind kind, Scope& outer,
                                               std::string name) {
  return *scopes_.emplace_back(
      std::make_unique<Scope>(Scope{kind, &outer, std::move(name)}));
}

PythonProgram::Scope* PythonProgram::class_of(Scope& scope) {
  Scope* at = &scope;
  while (at != nullptr && at->kind != Scope::Kind::Class) at = at->outer;
  return at;
}

void PythonProgram::add_parameter(size_t token, Scope& function) {
  const Span where = tokens_[token].where;
  PythonObject* parameter = marker(where);
  parameter->items.push_back({marker(where), ""});
  function.parameters.push_back(parameter);
  bind(function, tokens_[token].text, parameter, nullptr, where);
}

// Statements.

bool PythonProgram::is_forced(const PythonStatement& statement) const {
  return forced_ && statement.begin <= *forced_ &&
         *forced_ < std::max(statement.end, statement.body_end);
}

void PythonProgram::run(const Statements& statements, Scope& scope,
                        const Doubt* doubt) {
  for (size_t i = 0; i < statements.size() && !scope.is_finished; ++i) {
    const PythonStatement& statement = statements[i];
    if (!statement.is_compound) {
      run_simple(statement, scope, doubt);
    } else if (tokens_[statement.begin].is("if")) {
      i = run_if(statements, i, scope, doubt);
    } else {
      run_compound(statement, scope, doubt);
    }
  }
}

// Runs an `if` with its `elif` and `else`. Returns the last statement of these.
size_t PythonProgram::run_if(const Statements& statements, size_t at,
                             Scope& scope, const Doubt* doubt) {
  size_t last = at;
  while (last + 1 < statements.size() && statements[last + 1].is_compound &&
         tokens_[statements[last + 1].begin].is_one_of("elif else")) {
    ++last;
  }
  for (size_t i = at; i <= last; ++i) {
    if (!is_forced(statements[i])) continue;
    look(statements[i].begin, statements[i].end, scope, doubt);
    run(statements[i].body, scope, nullptr);
    return last;
  }
  std::optional<Doubt> open;
  for (size_t i = at; i <= last; ++i) {
    const PythonStatement& arm = statements[i];
    const size_t begin = arm.begin + 1;
    look(begin, arm.end, scope, doubt);
    PythonCondition condition{true, true, {}};
    const bool is_else = tokens_[arm.begin].is("else");
    const bool is_script = begin < arm.end && tokens_[begin].is("__name__");
    const bool is_typing =
        begin < arm.end && tokens_[arm.end - 1].is("TYPE_CHECKING");
    if (is_script || is_typing) {
      condition.value = false;
    } else if (!is_else) {
      condition = read_python_condition(tokens_, begin, arm.end, answers_);
      if (!condition.is_understood) condition.value.reset();
    }
    // A branch that ends in `raise` yields no table.
    const bool raises = !arm.body.empty() && !arm.body.back().is_compound &&
                        tokens_[arm.body.back().begin].is("raise");
    if (condition.value == false || (raises && !is_else)) continue;
    if (open || !condition.value) {
      if (!open) {
        open = Doubt{"under a condition that cannot be evaluated (line " +
                     line_of(tokens_[arm.begin].where) + ")"};
        if (condition.is_understood) {
          const std::string& name = condition.open.front().name;
          open->question = PythonProblem{
              condition.open.front().where,
              "the table depends on " + in_backticks(name),
              "pass `--set " + name + "=true` or `--set " + name + "=false`"};
        }
      }
      run(arm.body, scope, &*open);
      if (condition.value == true) break;
      continue;
    }
    run(arm.body, scope, doubt);
    break;
  }
  return last;
}

void PythonProgram::run_compound(const PythonStatement& statement, Scope& scope,
                                 const Doubt* doubt) {
  size_t at = statement.begin;
  if (tokens_[at].is("async") && at + 1 < statement.end) ++at;
  const PythonToken& word = tokens_[at];
  if (word.is("def")) return define(statement, scope, doubt);
  look(statement.begin, statement.end, scope, doubt);
  if (word.is("class")) {
    decorators_.clear();
    Scope& body = add_scope(Scope::Kind::Class, scope,
                            at + 1 < statement.end ? tokens_[at + 1].text : "");
    run(statement.body, body, doubt);
    for (const std::string& name : body.order) {
      scope.names[body.name + "." + name] = body.names[name];
    }
    return bind(scope, body.name, marker(word.where), doubt, word.where);
  }
  // Names after `for` and `as` refer to an object of the header.
  const bool is_case = word.is("case");
  bool binds = word.is("for") || is_case;
  PythonObject* part = nullptr;
  for (size_t i = at + 1; i < statement.end; ++i) {
    const PythonToken& token = tokens_[i];
    if (token.is("in") && word.is("for")) break;
    // `case Point(x=left)` binds `left`; `case Color.RED` binds nothing.
    const bool is_value = is_case && (tokens_[i - 1].is(".") ||
                                      tokens_[i + 1].is_one_of("( . =") ||
                                      token.is_one_of("_ None True False"));
    if (is_case && token.is("if")) break;
    if (binds && !is_value && token.kind == PythonTokenKind::Name) {
      if (part == nullptr) {
        part = unknown(statement.begin, statement.end, scope,
                       PythonProblem{token.where,
                                     in_backticks(token.text) +
                                         " has a value that cannot be traced",
                                     "write the value itself"});
      }
      bind(scope, token.text, part, nullptr, token.where);
    }
    binds = word.is("for") || is_case || token.is("as");
  }
  if (is_forced(statement) || (word.is("with") && doubt == nullptr)) {
    return run(statement.body, scope, nullptr);
  }
  if (doubt != nullptr) return run(statement.body, scope, doubt);
  const Doubt mine{word.is_one_of("for while") ? "in a loop"
                   : word.is("match")          ? "in a `case` branch"
                                      : "in a `" + word.text + "` block"};
  run(statement.body, scope, &mine);
}

void PythonProgram::run_simple(const PythonStatement& statement, Scope& scope,
                               const Doubt* doubt) {
  const PythonToken& first = tokens_[statement.begin];
  if (first.is("@")) {
    look(statement.begin, statement.end, scope, doubt);
    decorators_.push_back(&statement);
    return;
  }
  if (first.is_one_of("global nonlocal")) {
    for (size_t i = statement.begin + 1; i < statement.end; ++i) {
      if (!tokens_[i].is(",")) scope.outer_names.insert(tokens_[i].text);
    }
    return;
  }
  if (first.is("return")) return run_return(statement, scope, doubt);
  if (first.is_one_of("import from")) return bind_imports(statement, scope);
  int depth = 0;
  for (size_t i = statement.begin; i < statement.end; ++i) {
    depth += python_nesting(tokens_[i]);
    if (tokens_[i].is("lambda")) break;
    if (depth > 0) continue;
    if (tokens_[i].kind == PythonTokenKind::Operator && tokens_[i].is("=")) {
      return assign(statement, i, scope, doubt);
    }
    if (is_in_place(tokens_[i])) {
      return assign_in_place(statement, i, scope, doubt);
    }
  }
  // A table that was pasted as a statement of its own.
  if (literals_.contains(first.where.begin)) {
    scope.result = evaluate(statement.begin, statement.end, scope);
  }
  if (doubt == nullptr && run_method(statement, scope)) return;
  uses_result_ = first.is_one_of("assert raise yield");
  look(statement.begin, statement.end, scope, doubt);
  uses_result_ = true;
  if (first.is("del")) {
    for (size_t i = statement.begin + 1; i < statement.end; ++i) {
      const bool is_whole = i + 1 == statement.end || tokens_[i + 1].is(",");
      if (tokens_[i].kind != PythonTokenKind::Name || !is_whole ||
          tokens_[i - 1].is(".") || find(scope, tokens_[i].text) == nullptr) {
        continue;
      }
      PythonObject* deleted = marker(tokens_[i].where);
      deleted->problem = problem_of(tokens_[i].text, tokens_[i].where, doubt);
      bind(scope, tokens_[i].text, deleted, doubt, tokens_[i].where);
    }
  }
  if (first.is("raise")) scope.is_finished = doubt == nullptr;
}

void PythonProgram::run_return(const PythonStatement& statement, Scope& scope,
                               const Doubt* doubt) {
  look(statement.begin + 1, statement.end, scope, doubt);
  PythonObject* value = evaluate(statement.begin + 1, statement.end, scope);
  record_calls(statement.begin + 1, statement.end, value,
               is_rules_name(scope.name));
  if (doubt == nullptr) {
    scope.result = value;
    scope.is_finished = true;
    return;
  }
  if (scope.maybe == nullptr) {
    scope.maybe = marker(value->where);
    scope.maybe->is_derived = true;
    scope.maybe->problem = doubt->question.value_or(PythonProblem{
        span_of(statement.begin, statement.end),
        "this is returned only " + doubt->why,
        "choose a table with `--table`, or remove the condition"});
  }
  if (doubt->question && scope.maybe->problem->facts.size() < 4) {
    scope.maybe->problem->facts.push_back(
        "line " + line_of(tokens_[statement.begin].where) +
        " returns another table");
  }
  scope.maybe->items.push_back({value, ""});
}

void PythonProgram::define(const PythonStatement& statement, Scope& scope,
                           const Doubt* doubt) {
  size_t at = statement.begin;
  while (at < statement.end && !tokens_[at].is("def")) ++at;
  look(at, statement.end, scope, doubt);
  Function function{&statement, &scope, "", {}};
  for (const PythonStatement* decorator : decorators_) {
    std::string name;
    for (size_t i = decorator->begin + 1;
         i < decorator->end && !tokens_[i].is("("); ++i) {
      name += tokens_[i].text;
    }
    if (is_plain_decorator(name)) continue;
    function.decorator = name;
    function.decorator_where = span_of(decorator->begin, decorator->end);
  }
  decorators_.clear();
  if (at + 1 >= statement.end) return;
  bind(scope, tokens_[at + 1].text, marker(tokens_[at + 1].where), doubt,
       tokens_[at + 1].where);
  functions_.push_back(std::move(function));
}

void PythonProgram::run_function(const Function& function) {
  size_t at = function.statement->begin;
  const size_t end = function.statement->end;
  while (!tokens_[at].is("def")) ++at;
  const Scope* type = class_of(*function.outer);
  const std::string& name = tokens_[at + 1].text;
  Scope& scope = add_scope(
      Scope::Kind::Function, *function.outer,
      type == nullptr || type->name.empty() ? name : type->name + "." + name);
  run_functions_.emplace(name, &scope);
  int depth = 0;
  for (size_t i = at + 2; i < end; ++i) {
    if (closes_python_bracket(tokens_[i]) && --depth == 0) break;
    if (opens_python_bracket(tokens_[i])) ++depth;
    const bool is_parameter = depth == 1 &&
                              tokens_[i].kind == PythonTokenKind::Name &&
                              tokens_[i - 1].is_one_of("( , * **");
    if (!is_parameter) continue;
    add_parameter(i, scope);
    if (is_python_class(tokens_[i].text) && i + 1 < end &&
        tokens_[i + 1].is("=")) {
      // A parameter with a class as default, such as P, has this value in all
      // calls.
      size_t last = i + 2;
      for (int open = 0; last < end; ++last) {
        open += python_nesting(tokens_[last]);
        if (open < 0 || (open == 0 && tokens_[last].is(","))) break;
      }
      bind(scope, tokens_[i].text, evaluate(i + 2, last, *function.outer),
           nullptr, tokens_[i].where);
    }
  }
  run(function.statement->body, scope, nullptr);
  if (scope.maybe != nullptr) {
    if (scope.result != nullptr) {
      scope.maybe->items.push_back({scope.result, ""});
    }
    scope.result = scope.maybe;
  }
  if (scope.result != nullptr && !function.decorator.empty()) {
    PythonObject* changed = marker(scope.result->where);
    changed->is_derived = true;
    changed->items.push_back({scope.result, ""});
    changed->problem =
        PythonProblem{function.decorator_where,
                      "the decorator " + in_backticks(function.decorator) +
                          " may change what " + in_backticks(name) +
                          " returns, and is not evaluated",
                      "write the table without the decorator"};
    scope.result = changed;
  }
}

// Runs a lambda: `f = lambda rules: rules.pop()`.
void PythonProgram::run_lambda(size_t begin, size_t end,
                               const std::string& name, Scope& outer) {
  Scope& scope = add_scope(Scope::Kind::Function, outer, name);
  run_functions_.emplace(name, &scope);
  size_t at = begin + 1;
  for (; at < end && !tokens_[at].is(":"); ++at) {
    if (tokens_[at].kind == PythonTokenKind::Name && !tokens_[at - 1].is("=")) {
      add_parameter(at, scope);
    }
  }
  if (at + 1 < end) look(at + 1, end, scope, nullptr);
}

// Binds imported names; an import replaces a value with the same name.
void PythonProgram::bind_imports(const PythonStatement& statement,
                                 Scope& scope) {
  const bool is_from = tokens_[statement.begin].is("from");
  std::string module;
  size_t first = statement.begin + 1;
  for (; is_from && first < statement.end && !tokens_[first].is("import");
       ++first) {
    module += tokens_[first].text;
  }
  for (size_t i = first; i < statement.end; ++i) {
    const PythonToken& token = tokens_[i];
    const bool is_name = token.kind == PythonTokenKind::Name &&
                         !token.is_one_of("import as") &&
                         !(i + 1 < statement.end && tokens_[i + 1].is("as"));
    if (token.is("*") && tokens_[i - 1].is("import")) {
      scope.star = PythonProblem{
          token.where,
          "names from another module, which is not read, may override this",
          "put this import before the rules"};
      scope.star_moment = objects_.now();
    }
    PythonObject* object = is_name ? find(scope, token.text) : nullptr;
    const bool is_class = is_from && is_name && is_python_class(token.text);
    if (object == nullptr && !is_class) continue;
    PythonObject* other = marker(token.where);
    if (is_class) {
      other->text =
          module + "." + tokens_[tokens_[i - 1].is("as") ? i - 2 : i].text;
    }
    const bool is_again = is_class && object != nullptr && object->is_opaque &&
                          !object->problem &&
                          (object->is_import() || object->text.empty());
    if (is_again) {
      // After `try` and `except` it may be either of the two.
      PythonObject* either = marker(token.where);
      either->items = {{object, ""}, {other, ""}};
      other = either;
    } else if (object != nullptr) {
      other->items.push_back({object, ""});
      other->problem = PythonProblem{
          token.where,
          in_backticks(token.text) +
              " is imported here from another module, which is not read",
          "remove the import, or pass that module with another `--rules`"};
    }
    bind(scope, token.text, other, nullptr, token.where);
  }
}

void PythonProgram::assign(const PythonStatement& statement,
                           size_t first_equals, Scope& scope,
                           const Doubt* doubt) {
  // A statement may have several targets: `a = b = VALUE`.
  std::vector<std::pair<size_t, size_t>> targets;
  size_t begin = statement.begin;
  size_t value_begin = first_equals + 1;
  int depth = 0;
  for (size_t i = statement.begin; i < statement.end; ++i) {
    depth += python_nesting(tokens_[i]);
    if (tokens_[i].is("lambda")) break;
    if (depth > 0 || !tokens_[i].is("=")) continue;
    targets.emplace_back(begin, i);
    begin = value_begin = i + 1;
  }
  look(value_begin, statement.end, scope, doubt);
  PythonObject* value = evaluate(value_begin, statement.end, scope);
  if (tokens_[value_begin].is("lambda")) {
    run_lambda(value_begin, statement.end, tokens_[first_equals - 1].text,
               scope);
  }
  const bool is_rules = std::ranges::any_of(targets, [&](const auto& target) {
    return is_rules_name(span_of(target.first, target.second).text());
  });
  record_calls(value_begin, statement.end, value, is_rules);
  for (auto [from, to] : targets) {
    int open = 0;
    for (size_t i = from; i < to; ++i) {
      open += python_nesting(tokens_[i]);
      if (open == 0 && tokens_[i].is(":")) to = i;  // an annotation
    }
    std::string name;
    bool is_name = from < to;
    for (size_t i = from; i < to; ++i) {
      const bool is_dot = (i - from) % 2 == 1;
      is_name = is_name && (is_dot ? tokens_[i].is(".")
                                   : tokens_[i].kind == PythonTokenKind::Name);
      name += tokens_[i].text;
    }
    const Span where = span_of(from, to);
    if (is_name && (to - from) % 2 == 1) {
      if (to - from > 1 && find(scope, name) == nullptr) {
        invalidate_attribute(tokens_[to - 1].text,
                             problem_of(name, where, doubt), value);
      }
      bind(scope, name, value, doubt, where);
      continue;
    }
    look(from, to + 1, scope, doubt);
    if (from + 1 < to && tokens_[from].kind == PythonTokenKind::Name &&
        tokens_[from + 1].is("[")) {
      // `tables["llama"] = VALUE` replaces the previous entry.
      for (PythonObject* was : entries_at(from, to)) {
        invalidate(was, problem_of(std::string(where.text()), where, doubt));
      }
      if (past_[from + 1] == to) {
        entries_.emplace(tokens_[from].text, Entry{key_at(from + 1), value});
      }
      continue;
    }
    // `a, (b, *c) = VALUE` binds several names.
    PythonObject* part = nullptr;
    for (size_t i = from; i < to; ++i) {
      const bool is_part = tokens_[i].kind == PythonTokenKind::Name &&
                           (i == from || tokens_[i - 1].is_one_of(", ( [ *")) &&
                           (i + 1 == to || tokens_[i + 1].is_one_of(", ) ]"));
      if (!is_part) continue;
      if (part == nullptr) {
        part = unknown(
            value_begin, statement.end, scope,
            PythonProblem{
                tokens_[i].where,
                "several values are assigned at once, which is not supported",
                "assign each value separately"});
      }
      bind(scope, tokens_[i].text, part, doubt, tokens_[i].where);
    }
  }
}

// Runs an augmented assignment: `RULES += [..]`.
void PythonProgram::assign_in_place(const PythonStatement& statement, size_t op,
                                    Scope& scope, const Doubt* doubt) {
  look(op + 1, statement.end, scope, doubt);
  size_t after = op;
  std::string name;
  Scope* owner = nullptr;
  PythonObject* object =
      named_at(statement.begin, op, scope, after, name, &owner);
  PythonObject* more = evaluate(op + 1, statement.end, scope);
  const bool is_plain = object != nullptr && after == op &&
                        tokens_[op].is("+=") && doubt == nullptr &&
                        owner == &scope && !object->problem &&
                        !object->change && !scope.outer_names.contains(name);
  if (is_plain && object->is_sequence() && more->is_sequence() &&
      (object->kind == PythonKind::List || more->kind == object->kind) &&
      objects_.spend(more->items.size())) {
    const std::vector<PythonItem> items = more->items;
    PythonObject* joined = object;
    if (object->kind == PythonKind::Tuple) {
      joined = copied(object, 0);
      bind(scope, name, joined, doubt, span_of(statement.begin, op));
    }
    joined->items.insert(joined->items.end(), items.begin(), items.end());
    joined->absorbed.push_back(more->where.begin);
    objects_.touch(*joined);
    return;
  }
  if (is_plain && object->kind == PythonKind::String &&
      more->kind == PythonKind::String) {
    PythonObject* joined =
        objects_.make(PythonKind::String, object->text + more->text,
                      span_of(statement.begin, statement.end));
    return bind(scope, name, joined, doubt, joined->where);
  }
  if (object == nullptr) {
    // The target is an attribute of an unknown object.
    if (op > statement.begin && tokens_[op - 1].kind == PythonTokenKind::Name) {
      const Span where = span_of(statement.begin, op);
      invalidate_attribute(tokens_[op - 1].text,
                           problem_of(std::string(where.text()), where, doubt),
                           nullptr);
    }
    look(statement.begin, statement.end, scope, doubt);
    return;
  }
  const PythonProblem problem =
      problem_of(name, span_of(statement.begin, statement.end), doubt);
  invalidate(object, problem);
  if (after != op) return;
  PythonObject* changed = marker(problem.where);
  changed->problem = problem;
  changed->is_derived = true;
  changed->items = {{object, ""}, {more, ""}};
  bind(scope, name, changed, doubt, problem.where);
}

// Runs statements such as `RULES.append(..)` on a list of this scope.
bool PythonProgram::run_method(const PythonStatement& statement, Scope& scope) {
  size_t after = statement.begin;
  std::string name;
  Scope* owner = nullptr;
  PythonObject* list =
      named_at(statement.begin, statement.end, scope, after, name, &owner);
  const bool is_list = list != nullptr && owner == &scope && !list->problem &&
                       !list->change && !list->is_opaque &&
                       list->kind == PythonKind::List &&
                       !scope.outer_names.contains(name);
  if (!is_list || after + 2 >= statement.end || !tokens_[after].is(".") ||
      !tokens_[after + 2].is("(")) {
    return false;
  }
  const PythonObject* call = evaluate(statement.begin, statement.end, scope);
  if (call->is_opaque || call->kind != PythonKind::Call) return false;
  const std::string& method = tokens_[after + 1].text;
  const size_t count = call->items.size();
  const bool is_plain =
      std::ranges::all_of(call->items, [](const PythonItem& item) {
        return item.keyword.empty() && item.value->kind != PythonKind::Starred;
      });
  if (!is_plain) return false;
  std::vector<PythonItem>& items = list->items;
  const size_t before = items.size();
  const auto changed = [&] {
    look(after + 3, statement.end, scope, nullptr);
    objects_.touch(*list);
    return objects_.spend(items.size() - std::min(before, items.size()) + 1);
  };
  if (method == "append" && count == 1) {
    items.push_back({call->items[0].value, ""});
    return changed();
  }
  if (method == "extend" && count == 1 && call->items[0].value->is_sequence()) {
    const std::vector<PythonItem> more = call->items[0].value->items;
    items.insert(items.end(), more.begin(), more.end());
    list->absorbed.push_back(call->items[0].value->where.begin);
    return changed();
  }
  if (method == "insert" && count == 2 &&
      call->items[0].value->kind == PythonKind::Number) {
    const std::string& text = call->items[0].value->text;
    const auto at = parse_integer(text);
    if (!at || text.size() >= 8) return false;
    items.insert(items.begin() + std::min(*at, std::ssize(items)),
                 {call->items[1].value, ""});
    return changed();
  }
  if (method == "clear" && count == 0) {
    items.clear();
    return changed();
  }
  if (method == "reverse" && count == 0) {
    std::ranges::reverse(items);
    return changed();
  }
  return false;
}

}  // namespace shardplan
