// SPDX-License-Identifier: Apache-2.0
// What the statements of a Python module make of the tables in it.
//
// A module is run as far as that can be done without knowing more than it says:
// assignments, sums, `append`, `extend`, `insert` and `+=`, and conditions that
// an answer settles. Whatever else might change a list (a loop, `try`, a
// function that is called, another name for it, code made at run time) makes
// the list unknown, with the reason and the place, so that no change is passed
// over. Nothing is executed.
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

// What settles a condition's name; empty where nobody says.
using PythonAnswers = std::function<std::optional<bool>(const std::string&)>;

// Names with `not`, `and`, `or` and brackets, as answers settle them.
struct PythonCondition {
  bool is_understood = false;
  std::optional<bool> value;  // empty: an answer is lacking
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

// A name, or the result of a function, when everything has run.
struct PythonBinding {
  std::string name;  // "RULES", "Config.rules", "Config.get_rules"
  const PythonObject* value = nullptr;
  // Which of the literals asked about are in it, by their first byte.
  std::set<size_t> literals = {};
};

// Calls that only read what they are given, or keep it as it is.
bool is_python_reader(std::string_view callee);
// Readers whose result holds the items in another order or form.
bool is_python_maker(std::string_view callee);
// Whether a variable or function says by its name that it is rules.
bool says_rules(std::string_view name);

class PythonProgram {
 public:
  // `literals`: first tokens of tables. `forced`: one of them that is to be
  // reached, whatever conditions say.
  PythonProgram(std::span<const PythonToken> tokens,
                const std::vector<size_t>& literals,
                const PythonAnswers& answers,
                std::optional<size_t> forced = {});
  PythonProgram(const PythonProgram&) = delete;
  PythonProgram& operator=(const PythonProgram&) = delete;

  // Names and results that hold a literal, in order, one per object.
  // Empty, too, where there is more than can be followed.
  std::vector<PythonBinding> bindings() const;
  // The literal that begins at a token as an object of its own; null where it
  // cannot be parsed.
  const PythonObject* literal(size_t token);
  // Whether the literal stands where something is run.
  bool reaches(size_t token) const;
  // Calls that are given a list of the table and are not read; warnings where
  // nothing else can be what they are for.
  std::vector<PythonProblem> remarks(const PythonObject& table) const;
  // What a name stands for where a literal stands; null where it has no value.
  const PythonObject* value_beside(size_t token, const std::string& name) const;
  // The same where a scope around it has the name.
  const PythonObject* meaning_beside(size_t token, const std::string& name);

 private:
  struct Scope {
    enum class Kind : uint8_t { Module, Class, Function } kind = Kind::Module;
    Scope* outer = nullptr;
    std::string name;  // "Config.get_rules", "" for the module
    std::map<std::string, PythonObject*> names = {};
    std::vector<std::string> order = {};     // names, as they were first bound
    std::set<std::string> outer_names = {};  // global, nonlocal
    std::set<std::string> tables = {};       // names that stood for a sequence
    std::vector<PythonObject*> parameters = {};
    PythonObject* result = nullptr;
    PythonObject* maybe = nullptr;  // what a doubtful `return` may give
    bool is_finished = false;
    // The last `from .. import *`, and when it was.
    std::optional<PythonProblem> star = {};
    int64_t star_moment = 0;
  };
  // What makes a statement doubtful: "in a loop", or a question that has no
  // answer.
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
  // A call that is given an object.
  struct Given {
    std::string callee;
    PythonObject* object = nullptr;
    Span where;
    bool is_used = true;      // what the call gives back
    bool is_by_name = false;  // the function is given beside it: `map(f, [R])`
  };
  // A call of a function, whose result a value is, or is made of.
  struct Used {
    std::string callee;
    const PythonObject* value = nullptr;  // that is the result as it is
    Span where;
  };
  using Statements = std::vector<PythonStatement>;

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
  void give_back(const PythonStatement& statement, Scope& scope,
                 const Doubt* doubt);
  bool is_forced(const PythonStatement& statement) const;

  // Values.
  PythonObject* evaluate(size_t begin, size_t end, Scope& scope);
  PythonObject* converted(const PythonValue& value, Scope& scope);
  PythonObject* copied(PythonObject* object, int depth);
  void settle_callee(PythonObject& call, Scope& scope);
  // What stands at `tables["llama"]`, and how one finds it again.
  std::vector<PythonObject*> entries_at(size_t at, size_t end) const;
  std::string key_at(size_t bracket) const;
  PythonObject* unknown(size_t begin, size_t end, Scope& scope,
                        std::optional<PythonProblem> problem);
  PythonObject* marker(Span where);
  void collect(size_t begin, size_t end, Scope& scope, PythonObject& into);

  // Names.
  PythonObject* find(Scope& scope, const std::string& name,
                     Scope** owner = nullptr) const;
  void bind(Scope& scope, const std::string& name, PythonObject* object,
            const Doubt* doubt, Span where);
  // The longest dotted name at a token that stands for something; `after` is
  // behind it. Null where none does: then `after` is behind the first word.
  PythonObject* named_at(size_t at, size_t end, Scope& scope, size_t& after,
                         std::string& name, Scope** owner) const;

  // Effects: what an expression may do to objects that it names.
  void look(size_t begin, size_t end, Scope& scope, const Doubt* doubt);
  void look_inside(const PythonToken& token, Scope& scope, const Doubt* doubt);
  void look_at_strings(size_t begin, size_t end);
  bool changes(size_t first, size_t after, size_t end,
               const PythonObject* object) const;
  bool changes_attribute(size_t after, size_t end) const;
  void spoil(PythonObject* object, const PythonProblem& problem);
  // The name of an object may stand for another one, wherever it is read.
  void rebind(PythonObject* object, const PythonProblem& problem);
  void spoil_named(size_t begin, size_t end, Scope& scope,
                   const PythonProblem& problem);
  // Of whatever has it, besides the value that it is given.
  void spoil_attribute(const std::string& name, const PythonProblem& problem,
                       const PythonObject* besides);
  PythonProblem problem_of(const std::string& name, Span where,
                           const Doubt* doubt) const;
  void settle_calls();
  void note_calls(size_t begin, size_t end, const PythonObject* value,
                  bool is_rules);
  void settle_results();
  Span span_of(size_t begin, size_t end) const;
  std::string line_of(size_t token) const;

  std::span<const PythonToken> tokens_;
  std::vector<size_t> past_;   // brackets
  std::set<size_t> literals_;  // first bytes
  PythonAnswers answers_;
  std::optional<size_t> forced_;
  PythonObjects objects_;
  std::vector<std::unique_ptr<Scope>> scopes_;
  std::vector<Function> functions_;
  std::multimap<std::string, Scope*> run_functions_;  // by their last name
  std::vector<Given> given_;
  // Calls, and what the names that they call stand for.
  std::vector<std::pair<PythonObject*, PythonObject*>> called_;
  bool uses_result_ = true;  // of calls in the statement that is looked at
  std::vector<Used> used_;
  std::vector<const PythonStatement*> decorators_;
  // Of `tables["llama"] = VALUE`, by the first word.
  struct Entry {
    std::string key;  // empty: it is not a literal
    PythonObject* value = nullptr;
  };
  std::multimap<std::string, Entry> entries_;
  std::map<size_t, PythonObject*> literal_objects_;
  std::map<size_t, Scope*> literal_scopes_;
  Statements statements_;
  // Attributes that are changed where it is not known whose they are.
  struct Attribute {
    PythonProblem problem;
    const PythonObject* besides = nullptr;
  };
  std::map<std::string, std::vector<Attribute>> attributes_;
  // Names that were bound to something, by their last part.
  std::map<std::string, std::set<std::pair<Scope*, std::string>>, std::less<>>
      named_;
  // Code made at run time that may change whatever there is by then.
  std::optional<PythonProblem> code_;
  int64_t code_moment_ = 0;
};

// How statements change one of these dictionaries, or give its name to another
// value; empty where none does.
std::optional<PythonProblem> python_dict_change(
    std::span<const PythonToken> tokens,
    const std::vector<const PythonDict*>& dicts);

}  // namespace shardplan
