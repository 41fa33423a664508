// SPDX-License-Identifier: Apache-2.0
// PythonProgram: follows the statements of a Python module to find the values
// of the tables in it.
//
// A module is interpreted as far as its own text determines the result:
// assignments, sums, `append`, `extend`, `insert` and `+=`, and conditions that
// an answer decides. Anything else that might change a list (a loop, `try`, a
// function call, another name for it, generated code) makes the list unknown,
// with the reason and the location, so no change is missed. Nothing is
// executed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "syntax/python.h"
#include "syntax/python_objects.h"
#include "syntax/python_statements.h"

namespace shardplan {

// Returns the value of a name in a condition; empty if the user gave none.
using PythonAnswers = std::function<std::optional<bool>(const std::string&)>;

// A condition of names, `not`, `and`, `or` and brackets, evaluated with the
// answers.
struct PythonCondition {
  bool is_understood = false;
  std::optional<bool> value;  // empty: an answer is missing
  struct Open {
    std::string name;
    Span where;
    bool is_negated = false;
  };
  std::vector<Open> open = {};  // names without an answer
};
PythonCondition read_python_condition(std::span<const PythonToken> tokens,
                                      size_t begin, size_t end,
                                      const PythonAnswers& answers);

// A name, or the result of a function, at the end of the run.
struct PythonBinding {
  std::string name;  // "RULES", "Config.rules", "Config.get_rules"
  const PythonObject* value = nullptr;
  // The first bytes of the `literals` that it contains.
  std::set<size_t> literals = {};
};

// Returns whether the callee only reads its arguments, or stores them
// unchanged.
bool is_python_reader(std::string_view callee);
// Returns whether a reader's result contains the items in another order or
// form.
bool is_python_converter(std::string_view callee);
// Returns whether the name of a variable or function indicates rules.
bool is_rules_name(std::string_view name);
// Returns whether the last word of the name is a class's, by its capital.
bool is_python_class(std::string_view name);
// Returns whether the token is `+=` or the like.
bool is_in_place(const PythonToken& token);
// Returns the number of the line where a location begins.
std::string line_of(Span where);

class PythonProgram {
 public:
  // `literals`: the first tokens of tables. `forced`: one of these that counts
  // as reached regardless of conditions.
  PythonProgram(std::span<const PythonToken> tokens,
                const std::vector<size_t>& literals,
                const PythonAnswers& answers,
                std::optional<size_t> forced = {});
  PythonProgram(const PythonProgram&) = delete;
  PythonProgram& operator=(const PythonProgram&) = delete;

  // Returns the names and results that contain a literal, in order, one per
  // object. Also empty if the module is too large to trace.
  std::vector<PythonBinding> bindings() const;
  // Returns the literal that begins at a token as a separate object; null if it
  // cannot be parsed.
  const PythonObject* literal(size_t token);
  // Returns whether the literal is in code that may run.
  bool reaches(size_t token) const;
  // Returns the calls that receive a list of the table and that are not known.
  // They are warnings if the call can have no purpose but to change it.
  std::vector<PythonProblem> remarks(const PythonObject& table) const;
  // Returns the value of a name in the scope of a literal; null if it has none.
  const PythonObject* value_in_scope(size_t token,
                                     const std::string& name) const;
  // The same, but also searches the enclosing scopes.
  const PythonObject* value_in_scopes(size_t token, const std::string& name);

 private:
  struct Scope {
    enum class Kind : uint8_t { Module, Class, Function } kind = Kind::Module;
    Scope* outer = nullptr;
    std::string name;  // "Config.get_rules", "" for the module
    std::map<std::string, PythonObject*> names = {};
    std::vector<std::string> order = {};     // in the order of first binding
    std::set<std::string> outer_names = {};  // global, nonlocal
    std::set<std::string> tables = {};       // names ever bound to a sequence
    std::vector<PythonObject*> parameters = {};
    PythonObject* result = nullptr;
    PythonObject* maybe = nullptr;  // the result of a conditional `return`
    bool is_finished = false;
    // The last `from .. import *`, and its time.
    std::optional<PythonProblem> star = {};
    int64_t star_moment = 0;
  };
  // Why it is uncertain whether a statement runs: "in a loop", or a question
  // without an answer.
  struct Doubt {
    std::string why;
    std::optional<PythonProblem> question = {};
  };
  struct Function {
    const PythonStatement* statement = nullptr;
    Scope* outer = nullptr;
    std::string decorator;  // one that may change the result
    Span decorator_where;
  };
  // A call that receives an object.
  struct PassedArgument {
    std::string callee;
    PythonObject* object = nullptr;
    Span where;
    bool is_used = true;      // the call's result is used
    bool is_by_name = false;  // the call is to another function: `map(f, [R])`
  };
  // A function call that a value is, or is made of.
  struct UsedCall {
    std::string callee;
    const PythonObject* value = nullptr;  // if it is the unchanged result
    Span where;
  };
  using Statements = std::vector<PythonStatement>;

  // Adds a scope inside another one.
  Scope& add_scope(Scope::Kind kind, Scope& outer, std::string name);
  // Returns the innermost class around a scope; null if there is none.
  static Scope* class_of(Scope& scope);
  // Adds a parameter, which may be any list that a call passes.
  void add_parameter(size_t token, Scope& function);

  // Statements.
  void run(const Statements& statements, Scope& scope, const Doubt* doubt);
  void run_simple(const PythonStatement& statement, Scope& scope,
                  const Doubt* doubt);
  size_t run_if(const Statements& statements, size_t at, Scope& scope,
                const Doubt* doubt);
  void run_compound(const PythonStatement& statement, Scope& scope,
                    const Doubt* doubt);
  void run_function(const Function& function);
  void run_lambda(size_t begin, size_t end, const std::string& name,
                  Scope& outer);
  void define(const PythonStatement& statement, Scope& scope,
              const Doubt* doubt);
  void bind_imports(const PythonStatement& statement, Scope& scope);
  void assign(const PythonStatement& statement, size_t first_equals,
              Scope& scope, const Doubt* doubt);
  void assign_in_place(const PythonStatement& statement, size_t op,
                       Scope& scope, const Doubt* doubt);
  bool run_method(const PythonStatement& statement, Scope& scope);
  void run_return(const PythonStatement& statement, Scope& scope,
                  const Doubt* doubt);
  bool is_forced(const PythonStatement& statement) const;

  // Values.
  PythonObject* evaluate(size_t begin, size_t end, Scope& scope);
  PythonObject* converted(const PythonValue& value, Scope& scope);
  PythonObject* copied(PythonObject* object, int depth);
  void resolve_callee(PythonObject& call, Scope& scope);
  // Returns the entries that `tables["llama"]` may refer to. key_at() returns
  // the key in a bracket, or "" if it is not a literal.
  std::vector<PythonObject*> entries_at(size_t at, size_t end) const;
  std::string key_at(size_t bracket) const;
  // Returns the scope of the literal that begins at a token, else the module.
  Scope& scope_of(size_t token) const;
  PythonObject* unknown(size_t begin, size_t end, Scope& scope,
                        std::optional<PythonProblem> problem);
  PythonObject* marker(Span where);
  void collect(size_t begin, size_t end, Scope& scope, PythonObject& into);

  // Names.
  PythonObject* find(Scope& scope, const std::string& name,
                     Scope** owner = nullptr) const;
  void bind(Scope& scope, const std::string& name, PythonObject* object,
            const Doubt* doubt, Span where);
  // Returns the object of the longest dotted name at a token; `after` is the
  // token after it. Null if no such name is bound; then `after` is the token
  // after the first word.
  PythonObject* named_at(size_t at, size_t end, Scope& scope, size_t& after,
                         std::string& name, Scope** owner) const;

  // Effects: what an expression may do to the objects that it names.
  void look(size_t begin, size_t end, Scope& scope, const Doubt* doubt);
  void look_inside(const PythonToken& token, Scope& scope, const Doubt* doubt);
  void look_at_strings(size_t begin, size_t end);
  bool changes(size_t first, size_t after, size_t end,
               const PythonObject* object) const;
  bool changes_attribute(size_t after, size_t end) const;
  void invalidate(PythonObject* object, const PythonProblem& problem);
  // Marks that the name of an object may refer to another one wherever it is
  // read.
  void rebind(PythonObject* object, const PythonProblem& problem);
  void invalidate_named(size_t begin, size_t end, Scope& scope,
                        const PythonProblem& problem);
  // Marks every object with this attribute except `besides`, the new value.
  void invalidate_attribute(const std::string& name,
                            const PythonProblem& problem,
                            const PythonObject* besides);
  PythonProblem problem_of(const std::string& name, Span where,
                           const Doubt* doubt) const;
  void invalidate_changed_arguments();
  void record_calls(size_t begin, size_t end, const PythonObject* value,
                    bool is_rules);
  void invalidate_changed_results();
  Span span_of(size_t begin, size_t end) const;

  std::span<const PythonToken> tokens_;
  std::vector<size_t> past_;   // of each bracket, the token after its end
  std::set<size_t> literals_;  // first bytes
  PythonAnswers answers_;
  std::optional<size_t> forced_;
  PythonObjects objects_;
  std::vector<std::unique_ptr<Scope>> scopes_;
  std::vector<Function> functions_;
  std::multimap<std::string, Scope*> run_functions_;  // by last name part
  std::vector<PassedArgument> passed_;
  // Calls, and the objects that the callees' names refer to.
  std::vector<std::pair<PythonObject*, PythonObject*>> called_;
  bool uses_result_ = true;  // whether results of the current calls are used
  std::vector<UsedCall> used_;
  std::vector<const PythonStatement*> decorators_;
  // Entries stored by `tables["llama"] = VALUE`, keyed by the first word.
  struct Entry {
    std::string key;  // empty: not a literal
    PythonObject* value = nullptr;
  };
  std::multimap<std::string, Entry> entries_;
  std::map<size_t, PythonObject*> literal_objects_;
  std::map<size_t, Scope*> literal_scopes_;
  Statements statements_;
  // Attributes that are changed on an unknown object.
  struct Attribute {
    PythonProblem problem;
    const PythonObject* besides = nullptr;
  };
  std::map<std::string, std::vector<Attribute>> attributes_;
  // Names that have been bound, by their last part.
  std::map<std::string, std::set<std::pair<Scope*, std::string>>, std::less<>>
      named_;
  // Generated code that may change anything that exists at that time.
  std::optional<PythonProblem> code_;
  int64_t code_moment_ = 0;
};

// Returns how a statement changes one of these dictionaries, or binds its name
// to another value; empty if none does.
std::optional<PythonProblem> python_dict_change(
    std::span<const PythonToken> tokens,
    const std::vector<const PythonDict*>& dicts);

}  // namespace shardplan
