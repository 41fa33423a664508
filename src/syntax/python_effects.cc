// SPDX-License-Identifier: Apache-2.0
// What an expression may do to the objects that it names, for
// syntax/python_program.h. In case of doubt it changes them.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/words.h"
#include "syntax/python_program.h"
#include "syntax/tokens.h"

namespace shardplan {
namespace {

// Returns whether the method changes a list or a dict.
bool is_changing_method(std::string_view name) {
  static constexpr std::string_view kMethods =
      "append extend insert remove pop clear sort reverse update setdefault "
      "popitem add discard __iadd__ __imul__ __setitem__ __delitem__ "
      "__setattr__ __init__ __ior__ move_to_end";
  return has_word(kMethods, name);
}

// Returns whether the function changes its arguments.
bool is_changing_function(std::string_view name) {
  static constexpr std::string_view kFunctions =
      "setattr delattr shuffle insort insort_left heappush heappop "
      "insort_right heapify heapreplace iadd iconcat setitem delitem imul";
  return has_word(kFunctions, name);
}

// Returns whether the call creates a dict or an instance. Other calls may
// return a table.
bool makes_holder(std::string_view callee) {
  return has_word("dict defaultdict", last_word(callee)) ||
         is_python_class(callee);
}

// Returns whether the name accesses other names by their text.
bool is_reflection(std::string_view name) {
  static constexpr std::string_view kWords =
      "globals vars locals exec eval setattr delattr __dict__ modules "
      "__setattr__ getattr import_module";
  return has_word(kWords, name);
}

// Returns whether the token is called by the bracket after it; `in (..)` is not
// a call.
bool is_callee(const PythonToken& token) {
  static constexpr std::string_view kWords =
      "in not and or is if elif else return yield await for while assert del "
      "lambda";
  return token.kind == PythonTokenKind::Name && !has_word(kWords, token.text);
}

bool is_text_token(const PythonToken& token) {
  return token.kind == PythonTokenKind::String ||
         token.kind == PythonTokenKind::Formatted;
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (is_letter(c) || c == '_' || is_digit(c)) {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  return words;
}

}  // namespace

bool is_in_place(const PythonToken& token) {
  static constexpr std::string_view kUpdates =
      "+= -= *= /= %= |= &= **= //= >>= <<=";
  return token.kind == PythonTokenKind::Operator &&
         has_word(kUpdates, token.text);
}

PythonProblem PythonProgram::problem_of(const std::string& name, Span where,
                                        const Doubt* doubt) const {
  if (doubt != nullptr && doubt->question) {
    PythonProblem problem = *doubt->question;
    problem.facts.push_back("line " + line_of(where) + " changes " +
                            in_backticks(name));
    return problem;
  }
  return {where,
          in_backticks(name) + " is modified " +
              (doubt == nullptr ? "here in a way that cannot be traced"
                                : doubt->why + ", which cannot be traced"),
          "write all rules of the table in one place"};
}

void PythonProgram::invalidate(PythonObject* object,
                               const PythonProblem& problem) {
  if (object->change) return;
  std::vector<PythonObject*> open = {object};
  std::set<PythonObject*> seen;
  while (!open.empty()) {
    PythonObject* at = open.back();
    open.pop_back();
    if (!seen.insert(at).second) continue;
    if (at->is_tracked() && !at->change) at->change = problem;
    for (const PythonItem& item : at->items) {
      if (item.value->is_tracked()) open.push_back(item.value);
    }
  }
}

void PythonProgram::rebind(PythonObject* object, const PythonProblem& problem) {
  invalidate(object, problem);
  if (!object->change && (!object->is_opaque || object->is_import())) {
    object->change = problem;
  }
}

void PythonProgram::invalidate_named(size_t begin, size_t end, Scope& scope,
                                     const PythonProblem& problem) {
  PythonObject* all = marker(span_of(begin, end));
  collect(begin, end, scope, *all);
  invalidate(all, problem);
}

void PythonProgram::invalidate_attribute(const std::string& name,
                                         const PythonProblem& problem,
                                         const PythonObject* besides) {
  // Two changes with different `besides` affect every object.
  std::vector<Attribute>& changes = attributes_[name];
  const bool is_more = changes.empty() ||
                       (changes.size() == 1 && changes[0].besides != nullptr &&
                        changes[0].besides != besides);
  if (is_more) changes.push_back({problem, besides});
}

// Returns whether the tokens after a name, from `after` on, change its object.
bool PythonProgram::changes(size_t first, size_t after, size_t end,
                            const PythonObject* object) const {
  if (first > 0 && tokens_[first - 1].is("del")) return after < end;
  // A dict or instance that contains a table: its own entries are not rules.
  const bool is_holder =
      object->is_opaque
          ? object->text == "{" && !object->is_literal
          : object->kind == PythonKind::Call && makes_holder(object->text);
  size_t at = after;
  bool is_item = false;
  for (int depth = 0; at < end; ++depth) {
    if (tokens_[at].is(".") && at + 1 < end) {
      if (is_changing_method(tokens_[at + 1].text) &&
          !(is_holder && depth == 0)) {
        return true;
      }
      is_item = false;
      at += 2;
    } else if (tokens_[at].is("[")) {
      is_item = !(is_holder && depth == 0);
      at = std::min(end, past_[at]);
    } else if (tokens_[at].is("(")) {
      is_item = false;
      at = std::min(end, past_[at]);
    } else {
      break;
    }
  }
  if (at >= end || at == after) return false;
  return is_in_place(tokens_[at]) || (is_item && tokens_[at].is("="));
}

// Returns whether items of the attribute that ends here are assigned.
bool PythonProgram::changes_attribute(size_t after, size_t end) const {
  size_t at = after;
  while (at < end && tokens_[at].is("[")) at = std::min(end, past_[at]);
  if (at >= end) return false;
  return is_in_place(tokens_[at]) || (at > after && tokens_[at].is("=")) ||
         (at > after && tokens_[at].is(".") && at + 1 < end &&
          is_changing_method(tokens_[at + 1].text));
}

void PythonProgram::look(size_t begin, size_t end, Scope& scope,
                         const Doubt* doubt) {
  std::vector<std::string> calls;  // callees of the open brackets
  bool is_indirect = false;        // changes an object without a name
  bool is_unnamed = false;         // changes an unknown name
  bool is_static = false;          // list.append(RULES, ..)
  bool binds = false;
  bool reflects = false;
  std::set<std::string> handed_on;
  const Doubt elsewhere{"in " + in_backticks(scope.name)};
  for (size_t i = begin; i < end; ++i) {
    const PythonToken& token = tokens_[i];
    if (literals_.contains(token.where.begin)) {
      literal_scopes_.emplace(token.where.begin, &scope);
    }
    if (opens_python_bracket(token)) {
      const bool is_call = token.is("(") && i > 0 && is_callee(tokens_[i - 1]);
      const bool is_unnamed_call =
          token.is("(") && i > begin && closes_python_bracket(tokens_[i - 1]);
      std::string callee = is_call           ? tokens_[i - 1].text
                           : is_unnamed_call ? "this function"
                                             : "";
      if (callee.empty() && !calls.empty()) callee = calls.back();
      calls.push_back(std::move(callee));
    } else if (closes_python_bracket(token) && !calls.empty()) {
      calls.pop_back();
    }
    binds = binds || token.is_one_of("for lambda :=");
    if (token.kind == PythonTokenKind::Formatted) {
      look_inside(token, scope, doubt);
    }
    if (token.kind != PythonTokenKind::Name) continue;
    reflects = reflects || is_reflection(token.text);
    if (i > begin && tokens_[i - 1].is(".")) {
      is_indirect =
          is_indirect || (is_changing_method(token.text) && i >= begin + 2 &&
                          closes_python_bracket(tokens_[i - 2]));
      continue;
    }
    const bool is_keyword = !calls.empty() && i + 1 < end &&
                            tokens_[i + 1].is("=") && i > begin &&
                            tokens_[i - 1].is_one_of("( ,");
    if (is_keyword) continue;
    size_t after = i + 1;
    std::string name;
    Scope* owner = &scope;
    PythonObject* object = named_at(i, end, scope, after, name, &owner);
    for (PythonObject* entry : entries_at(i, end)) {
      if (!changes(i, past_[i + 1], end, entry)) continue;
      invalidate(entry, problem_of(std::string(span_of(i, past_[i + 1]).text()),
                                   span_of(i, past_[i + 1]), doubt));
    }
    // A function that is passed as an argument: `map(f, [RULES])`.
    if (object != nullptr && object->is_opaque && !object->is_tracked() &&
        !object->is_import() && !calls.empty() && after < end &&
        tokens_[after].is_one_of(", )")) {
      handed_on.insert(tokens_[after - 1].text);
    }
    const bool is_self = name == "self" || name == "cls";
    if (object == nullptr || !object->is_tracked() || is_self) {
      // `x.rules.append(..)` with an unknown x.
      size_t last = i;
      while (last + 2 < end && tokens_[last + 1].is(".")) {
        last += 2;
        const bool is_changed =
            is_changing_method(tokens_[last].text) ||
            (last + 1 < end &&
             (tokens_[last + 1].is("[") || is_in_place(tokens_[last + 1])));
        if (!is_changed) continue;
        is_static = is_static || token.is_one_of("list dict operator");
        is_unnamed = true;
        const bool is_method = is_changing_method(tokens_[last].text);
        const size_t attribute = is_method ? last - 2 : last;
        if (attribute > i && (is_method || changes_attribute(last + 1, end))) {
          const Span where = span_of(i, last + 1);
          invalidate_attribute(
              tokens_[attribute].text,
              problem_of(std::string(span_of(i, attribute + 1).text()), where,
                         doubt == nullptr && scope.outer != nullptr ? &elsewhere
                                                                    : doubt),
              nullptr);
        }
      }
      continue;
    }
    const Doubt* why = doubt;
    if (why == nullptr && owner != &scope) why = &elsewhere;
    const bool is_given = !calls.empty() && !calls.back().empty();
    if (changes(i, after, end, object) ||
        (is_given && is_changing_function(calls.back()))) {
      invalidate(object,
                 problem_of(name, span_of(i, std::min(end, after + 2)), why));
    } else if (is_given && after < end &&
               tokens_[after].is_one_of(", ) ] for")) {
      passed_.push_back({calls.back(), object, span_of(i, after),
                         uses_result_ || calls.size() > 1});
    }
  }
  if (is_static || is_indirect || (is_unnamed && binds)) {
    invalidate_named(begin, end, scope,
                     problem_of("the table", span_of(begin, end), doubt));
  }
  if (!handed_on.empty()) {
    PythonObject* all = marker(span_of(begin, end));
    collect(begin, end, scope, *all);
    for (const std::string& function : handed_on) {
      for (const PythonItem& item : all->items) {
        passed_.push_back(
            {function, item.value, span_of(begin, end), true, true});
      }
    }
  }
  PythonObject* walrus = nullptr;
  for (size_t i = begin + 1; binds && i < end; ++i) {
    if (!tokens_[i].is(":=") || tokens_[i - 1].kind != PythonTokenKind::Name) {
      continue;
    }
    const Span where = tokens_[i - 1].where;
    if (walrus == nullptr) {
      walrus = unknown(begin, end, scope,
                       problem_of(tokens_[i - 1].text, where, doubt));
    }
    bind(scope, tokens_[i - 1].text, walrus, doubt, where);
  }
  if (reflects) look_at_strings(begin, end);
}

std::string PythonProgram::key_at(size_t bracket) const {
  const bool is_literal = past_[bracket] == bracket + 3 &&
                          tokens_[bracket + 1].kind != PythonTokenKind::Name;
  return is_literal ? tokens_[bracket + 1].text : "";
}

std::vector<PythonObject*> PythonProgram::entries_at(size_t at,
                                                     size_t end) const {
  std::vector<PythonObject*> found;
  if (entries_.empty() || at + 1 >= end || !tokens_[at + 1].is("[")) {
    return found;
  }
  const std::string key = key_at(at + 1);
  const auto [first, last] = entries_.equal_range(tokens_[at].text);
  for (auto entry = first; entry != last; ++entry) {
    const std::string& own = entry->second.key;
    if (key.empty() || own.empty() || key == own) {
      found.push_back(entry->second.value);
    }
  }
  return found;
}

// Treats names in an f-string as changed if its braces may contain code that
// changes them.
void PythonProgram::look_inside(const PythonToken& token, Scope& scope,
                                const Doubt* doubt) {
  const std::vector<std::string> words = words_of(token.where.text());
  const bool is_change = contains(token.where.text(), ":=") ||
                         std::ranges::any_of(words, is_changing_method);
  for (const std::string& word : words) {
    PythonObject* object = is_change ? find(scope, word) : nullptr;
    if (object != nullptr && object->is_tracked()) {
      rebind(object, problem_of(word, token.where, doubt));
    }
  }
}

// Handles `globals()["RULES"]`, `exec("RULES.append(..)")` and `setattr(m,
// "RULES", ..)`.
void PythonProgram::look_at_strings(size_t begin, size_t end) {
  std::set<std::string> words;
  bool has_text = false;
  bool is_computed = false;
  bool runs_code = false;
  bool stores = false;
  for (size_t i = begin; i < end; ++i) {
    const PythonToken& token = tokens_[i];
    if (is_text_token(token)) {
      has_text = true;
      is_computed = is_computed || token.kind == PythonTokenKind::Formatted;
      for (std::string& word : words_of(token.text)) {
        words.insert(std::move(word));
      }
    }
    // For example `sys.modules[__name__].RULES`.
    if (i > begin && token.kind == PythonTokenKind::Name &&
        tokens_[i - 1].is(".")) {
      words.insert(token.text);
    }
    const bool is_called = i + 1 < end && tokens_[i + 1].is("(");
    if (is_called && token.is_one_of("exec eval")) {
      runs_code = true;
      // Anything but a single literal is computed at run time.
      is_computed = is_computed || i + 3 >= end ||
                    !is_text_token(tokens_[i + 2]) ||
                    !tokens_[i + 3].is_one_of(") ,");
    }
    const bool is_names = is_called && i + 3 < end && tokens_[i + 2].is(")") &&
                          token.is_one_of("globals vars locals");
    stores = stores || (is_names && tokens_[i + 3].is_one_of("[ ."));
  }
  const bool is_any =
      (runs_code && (!has_text || is_computed)) || (stores && !has_text);
  const Span where = span_of(begin, end);
  const Doubt doubt{"by generated code"};
  if (is_any) {
    code_ = problem_of("the table", where, &doubt);
    code_moment_ = objects_.now();
  }
  for (const std::string& word : words) {
    const auto named = named_.find(word);
    if (named == named_.end()) continue;
    for (const auto& [scope, name] : named->second) {
      PythonObject* object = scope->names.at(name);
      rebind(object, problem_of(name, where, &doubt));
    }
  }
}

// Marks the objects that were passed to functions of this file that change a
// parameter.
void PythonProgram::invalidate_changed_arguments() {
  bool is_changed = true;
  constexpr int kRounds = 16;
  for (int round = 0; is_changed && round < kRounds; ++round) {
    is_changed = false;
    // Functions that change a parameter, and classes whose constructors do.
    std::set<std::string> changing;
    for (const auto& [name, scope] : run_functions_) {
      const bool changes_one = std::ranges::any_of(
          scope->parameters,
          [](const PythonObject* each) { return each->change.has_value(); });
      if (!changes_one) continue;
      changing.insert(name);
      if (name.starts_with("__")) changing.insert(scope->outer->name);
    }
    for (const PassedArgument& passed : passed_) {
      if (passed.object->change || !changing.contains(passed.callee)) continue;
      const Doubt doubt{"by `" + passed.callee + "`"};
      invalidate(
          passed.object,
          problem_of(passed.is_by_name ? "the table"
                                       : std::string(passed.where.text()),
                     passed.where, &doubt));
      is_changed = true;
    }
  }
}

// Records the calls in the value of an assignment or a `return`. Which of these
// functions return a table is known only at the end.
void PythonProgram::record_calls(size_t begin, size_t end,
                                 const PythonObject* value, bool is_rules) {
  while (begin + 2 < end && tokens_[begin].is_one_of("tuple list deepcopy") &&
         tokens_[begin + 1].is("(") && past_[begin + 1] == end) {
    begin += 2;
    --end;
  }
  std::vector<bool> reads;  // per open bracket
  int reading = 0;
  bool is_plain = true;  // only names and calls so far
  for (size_t i = begin; i < end; ++i) {
    const PythonToken& token = tokens_[i];
    if (closes_python_bracket(token) && !reads.empty()) {
      reading -= reads.back() ? 1 : 0;
      reads.pop_back();
      continue;
    }
    const bool is_call = token.is("(") && i > begin &&
                         tokens_[i - 1].kind == PythonTokenKind::Name;
    if (reads.empty()) {
      is_plain = is_plain && (is_call || token.is(".") ||
                              token.kind == PythonTokenKind::Name);
    }
    if (!opens_python_bracket(token)) continue;
    const std::string callee = is_call ? tokens_[i - 1].text : "";
    const bool is_value = is_plain && reads.empty() && past_[i] == end;
    if (is_call && (is_value || (is_rules && reading == 0))) {
      used_.push_back({callee, is_value ? value : nullptr, span_of(i - 1, i)});
    }
    reads.push_back(is_python_reader(callee) && !is_python_converter(callee));
    reading += reads.back() ? 1 : 0;
  }
}

// Marks a table that a function returns if its result is changed elsewhere.
void PythonProgram::invalidate_changed_results() {
  for (const UsedCall& used : used_) {
    if (used.value != nullptr && !used.value->change) continue;
    const auto [first, last] = run_functions_.equal_range(used.callee);
    for (auto at = first; at != last; ++at) {
      if (at->second->result == nullptr) continue;
      invalidate(
          at->second->result,
          used.value != nullptr
              ? *used.value->change
              : PythonProblem{used.where,
                              "other rules are built here from the result of " +
                                  in_backticks(used.callee) +
                                  ", which cannot be traced",
                              "write all rules of the table in one place"});
    }
  }
}

std::vector<PythonProblem> PythonProgram::remarks(
    const PythonObject& table) const {
  std::set<const PythonObject*> parts;
  std::vector<const PythonObject*> open = {&table};
  while (!open.empty()) {
    const PythonObject* at = open.back();
    open.pop_back();
    if (!parts.insert(at).second) continue;
    for (const PythonItem& item : at->items) open.push_back(item.value);
  }
  std::vector<PythonProblem> all;
  std::set<std::string> callees;
  for (const PassedArgument& passed : passed_) {
    const bool is_known =
        passed.is_by_name || is_python_reader(passed.callee) ||
        passed.object->is_opaque || passed.object->kind != PythonKind::List ||
        run_functions_.contains(passed.callee);
    if (is_known || !parts.contains(passed.object) ||
        !callees.insert(passed.callee).second) {
      continue;
    }
    all.push_back(
        {passed.where,
         "`" + passed.callee + "` receives " +
             in_backticks(passed.where.text()) +
             (passed.is_used
                  ? "; assuming that it does not modify it"
                  : ", but its result is unused, so it may modify it"),
         "write the table as a tuple, which cannot be modified",
         {},
         !passed.is_used});
  }
  return all;
}

}  // namespace shardplan
