// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/words.h"
#include "model/architecture/reading.h"
#include "syntax/document.h"

namespace shardplan {
namespace {

using Known = std::set<std::string, std::less<>>;

class ForwardCheck {
 public:
  ForwardCheck(const Architecture& all, Diagnostics& diags)
      : all_(all), diags_(diags) {}

  void run() {
    for (const ValueRule& rule : all_.values) {
      if (rule.kind == ValueRule::Kind::Table) {
        tables_.insert(rule.name);
      } else {
        global_.insert(rule.name);
      }
    }
    global_.insert(std::string(kSavedBy));
    for (const Requirement& each : all_.forward_requirements) {
      check(each.that, global_);
    }
    for (const auto& [name, block] : all_.blocks) {
      if (block.forward) check_block(block);
    }
    for (const ArchitectureClass& each : all_.classes) check_inputs(each);
  }

 private:
  Diagnostics::Builder refuse(Span where, std::string message) {
    return diags_.error(Code::InvalidArchitecture, where, std::move(message));
  }

  // Checks that the values which the first block of a class takes are inputs of
  // the model. If the block's name depends on a condition, the class has
  // several steps for the same block.
  void check_inputs(const ArchitectureClass& model) {
    if (model.steps.empty()) return;
    const ModuleStep& first = model.steps.front();
    const auto block = all_.blocks.find(first.what);
    if (first.kind != ModuleStep::Kind::Block || block == all_.blocks.end() ||
        !block->second.forward) {
      return;
    }
    for (const std::string& name : block->second.forward->takes) {
      const InputRule* const input = all_.find_input(name);
      if (input == nullptr) {
        refuse(block->second.forward->where,
               in_backticks(name) + " is not a model input");
        continue;
      }
      Known names = global_;
      names.insert(std::begin(kPassSizes), std::end(kPassSizes));
      for (const Expression& size : input->shape) check(size, names);
      if (input->below) check(*input->below, names);
    }
  }

  void unknown(std::string_view name, Span where, const Known& known) {
    suggest(refuse(where, in_backticks(name) + " is not defined here"), name,
            std::vector<std::string>(known.begin(), known.end()));
  }

  void check(const Expression& expression, const Known& known) {
    for (const std::string_view name : expression.names()) {
      if (!known.contains(name)) unknown(name, expression.where, known);
    }
  }

  void check_block(const ModuleBlock& block) {
    const BlockForward& forward = *block.forward;
    Known names = block.shared ? Known() : global_;
    for (const BlockArgument& argument : block.takes) {
      names.insert(argument.name);
    }
    for (const BlockArgument& argument : forward.arguments) {
      if (argument.otherwise) check(*argument.otherwise, names);
      names.insert(argument.name);
    }
    names.insert(std::begin(kPassSizes), std::end(kPassSizes));
    names.insert(std::string(kPaddingToken));
    Known values(forward.takes.begin(), forward.takes.end());
    check_steps(forward.steps, block.steps, block, names, values);
    for (const std::string& name : forward.gives) {
      if (!values.contains(name)) unknown(name, forward.where, values);
    }
  }

  // Checks steps. `values` contains the values that exist before them; the
  // values that they make are added.
  void check_steps(const std::vector<ForwardStep>& steps,
                   const std::vector<ModuleStep>& modules,
                   const ModuleBlock& block, const Known& names,
                   Known& values) {
    for (const ForwardStep& step : steps) {
      if (step.when) check(*step.when, names);
      for (const std::string& name : step.in) {
        if (!values.contains(name)) unknown(name, step.where, values);
      }
      for (const ForwardAttribute& each : step.attributes) {
        for (const Expression& value : each.values) check(value, names);
      }
      for (const auto& [key, value] : step.arguments) check(value, names);
      using Kind = ForwardStep::Kind;
      if (step.kind == Kind::Apply || step.kind == Kind::Weight) {
        check_module(step, modules, names);
      }
      if (step.kind == Kind::Heads) {
        for (const char* size : {"heads", "head_dim"}) {
          if (step.argument(size) == nullptr && !names.contains(size)) {
            unknown(size, step.where, names);
          }
        }
      }
      if (step.kind == Kind::Experts && !global_.contains("hidden")) {
        unknown("hidden", step.where, global_);
      }
      if (!step.mix.empty()) check_mix(step, names);
      if (step.kind == Kind::Repeat) {
        check_repeat(step, modules, block, names, values);
      }
      if (step.kind == Kind::Switch) {
        // A value exists after the switch only if every case makes it.
        Known made;
        for (size_t i = 0; i < step.cases.size(); ++i) {
          const ForwardCase& one = step.cases[i];
          if (one.when) check(*one.when, names);
          Known own = values;
          check_steps(one.steps, modules, block, names, own);
          Known both;
          std::set_intersection(made.begin(), made.end(), own.begin(),
                                own.end(), std::inserter(both, both.end()));
          made = i == 0 ? own : both;
        }
        values.insert(made.begin(), made.end());
      }
      values.insert(step.out.begin(), step.out.end());
    }
  }

  void check_repeat(const ForwardStep& step,
                    const std::vector<ModuleStep>& modules,
                    const ModuleBlock& block, const Known& names,
                    Known& values) {
    const auto repeated =
        std::ranges::find_if(modules, [&](const ModuleStep& each) {
          return each.kind == ModuleStep::Kind::Repeat &&
                 each.name == step.what && !each.stacked;
        });
    if (repeated == modules.end()) {
      refuse(step.where,
             "the block has no repeated module " + in_backticks(step.what));
      return;
    }
    Known inner = names;
    inner.insert(repeated->index);
    if (!block.shared) inner.insert(tables_.begin(), tables_.end());
    if (!values.contains(step.first)) unknown(step.first, step.where, values);
    Known own = values;
    own.insert(step.carried);
    check_steps(step.steps, repeated->steps, block, inner, own);
    values.insert(step.carried);
  }

  // Finds the modules of that name, including those in the cases of switches;
  // there may be one in each case.
  void find_modules(const std::vector<ModuleStep>& modules,
                    std::string_view name,
                    std::vector<const ModuleStep*>& found) const {
    for (const ModuleStep& each : modules) {
      if (each.kind == ModuleStep::Kind::Switch) {
        for (const ModuleCase& one : each.cases) {
          find_modules(one.steps, name, found);
        }
        continue;
      }
      const bool is_block = each.kind == ModuleStep::Kind::Block;
      if (each.name == name ||
          (is_block && each.name.empty() && each.what == name)) {
        found.push_back(&each);
      }
    }
  }

  // Returns whether the step reads a parameter of repeated modules, such as
  // "norms.{h}.weight".
  static bool is_repeated(const ForwardStep& step,
                          const std::vector<ModuleStep>& modules) {
    for (const ModuleStep& each : modules) {
      if (each.kind != ModuleStep::Kind::Repeat || each.stacked) continue;
      for (const ModuleStep& inner : each.steps) {
        if (step.what == each.name + "." + inner.name) return true;
      }
    }
    return false;
  }

  void check_module(const ForwardStep& step,
                    const std::vector<ModuleStep>& modules,
                    const Known& names) {
    std::vector<const ModuleStep*> found;
    find_modules(modules, step.what, found);
    for (const ModuleStep* each : found) check_use(step, *each, 0);
    for (const std::string& other : step.otherwise) {
      std::vector<const ModuleStep*> others;
      find_modules(modules, other, others);
      if (others.empty()) {
        refuse(step.where, "the block has no module " + in_backticks(other));
      }
    }
    if (!found.empty()) return;
    if (step.kind == ForwardStep::Kind::Weight && is_repeated(step, modules)) {
      return;
    }
    const auto block = all_.blocks.find(step.what);
    const bool is_function = step.kind == ForwardStep::Kind::Apply &&
                             block != all_.blocks.end() &&
                             block->second.steps.empty();
    if (!is_function) {
      no_call(step, modules);
      return;
    }
    check_function(step, block->second, names);
  }

  // Reports a call of something that is neither a module, a block nor an
  // operation.
  void no_call(const ForwardStep& step,
               const std::vector<ModuleStep>& modules) {
    std::vector<std::string> known = all_names(modules);
    if (step.kind == ForwardStep::Kind::Apply) {
      known.insert(known.end(), statement_operations().begin(),
                   statement_operations().end());
      for (const auto& [name, block] : all_.blocks) {
        if (block.steps.empty()) known.push_back(name);
      }
    }
    suggest(refuse(step.where,
                   step.kind == ForwardStep::Kind::Weight
                       ? "the block has no module " + in_backticks(step.what)
                       : in_backticks(step.what) +
                             " is no module of the block, no block without "
                             "modules and no operation"),
            step.what, known);
  }

  // Checks a call of a block without modules. Arguments that the call does not
  // give have defaults, which are evaluated at the call.
  void check_function(const ForwardStep& step, const ModuleBlock& block,
                      Known names) {
    check_arguments(step, block, true);
    check_counts(step, *block.forward);
    for (const BlockArgument& each : block.takes) {
      if (each.otherwise && step.argument(each.name) == nullptr) {
        for (const std::string_view name : each.otherwise->names()) {
          if (!names.contains(name)) unknown(name, step.where, names);
        }
      }
      names.insert(each.name);
    }
  }

  // Checks the block that combines gate and up of experts: a function of two
  // values.
  void check_mix(const ForwardStep& step, const Known& names) {
    const auto block = all_.blocks.find(step.mix);
    if (block == all_.blocks.end() || !block->second.forward ||
        !block->second.steps.empty()) {
      refuse(step.where, "there is no block " + in_backticks(step.mix) +
                             " without modules");
      return;
    }
    ForwardStep function;
    function.what = step.mix;
    function.where = step.where;
    function.in.resize(2);
    function.out.resize(1);
    check_function(function, block->second, names);
  }

  void check_use(const ForwardStep& step, const ModuleStep& module, int depth) {
    if (module.kind != ModuleStep::Kind::Block) {
      if (step.in.size() > 1 || step.out.size() > 1) {
        refuse(step.where, "a module reads and returns exactly one value");
      }
      return;
    }
    const auto block = all_.blocks.find(module.what);
    if (block == all_.blocks.end() ||
        depth > static_cast<int>(kMaxArchitectureDepth)) {
      return;
    }
    if (block->second.forward) {
      check_arguments(step, block->second, false);
      check_counts(step, *block->second.forward);
    } else if (block->second.steps.size() == 1 &&
               !block->second.steps.front().when) {
      check_use(step, block->second.steps.front(), depth + 1);
    } else {
      refuse(step.where,
             "block " + in_backticks(module.what) + " has no forward pass");
    }
  }

  void check_counts(const ForwardStep& step, const BlockForward& forward) {
    if (step.in.size() == forward.takes.size() &&
        step.out.size() == forward.gives.size()) {
      return;
    }
    refuse(step.where, in_backticks(step.what) + " reads " +
                           plural(std::ssize(forward.takes), "value") +
                           " and gives " +
                           std::to_string(forward.gives.size()));
  }

  void check_arguments(const ForwardStep& step, const ModuleBlock& block,
                       bool with_modules) {
    std::vector<BlockArgument> arguments = block.forward->arguments;
    if (with_modules) {
      arguments.insert(arguments.end(), block.takes.begin(), block.takes.end());
    }
    for (const auto& [name, value] : step.arguments) {
      if (find_named(arguments, name) == nullptr) {
        report_unknown_key(name, value.where, all_names(arguments), diags_);
      }
    }
    for (const BlockArgument& each : arguments) {
      if (!each.otherwise && step.argument(each.name) == nullptr) {
        refuse(step.where, "block " + in_backticks(block.name) + " needs " +
                               in_backticks(each.name));
      }
    }
  }

  const Architecture& all_;
  Diagnostics& diags_;
  Known global_;
  Known tables_;
};

}  // namespace

void check_forward(const Architecture& architecture, Diagnostics& diags) {
  ForwardCheck(architecture, diags).run();
}

}  // namespace shardplan
