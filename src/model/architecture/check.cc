// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/text.h"
#include "model/architecture/reading.h"
#include "syntax/document.h"

namespace shardplan {
namespace {

using Known = std::set<std::string, std::less<>>;

class NameCheck {
 public:
  NameCheck(const Architecture& all, Diagnostics& diags)
      : all_(all), diags_(diags) {}

  void run() {
    const Architecture& all = all_;
    Known global;
    for (const ValueRule& rule : all.values) {
      if (rule.kind != ValueRule::Kind::Table) global.insert(rule.name);
    }
    for (const ConfigSection& section : all.sections) {
      for (const ValueRule& rule : section.architecture->values) {
        const bool everywhere = std::ranges::all_of(
            section.others,
            [&](const auto& other) { return other->find_value(rule.name); });
        if (everywhere) global.insert(section.name + "." + rule.name);
      }
    }
    global.insert(std::string(kSavedBy));
    auto in_layers = global;  // names that the expressions of tables can use
    in_layers.insert("i");
    for (const ValueRule& rule : all.values) {
      if (rule.kind == ValueRule::Kind::Table) in_layers.insert(rule.name);
    }
    for (const ValueRule& rule : all.values) {
      const bool table = rule.kind == ValueRule::Kind::Table;
      for (const auto* value : {&rule.absent, &rule.null, &rule.otherwise,
                                &rule.is, &rule.other_words}) {
        if (*value) check(**value, table ? in_layers : global);
      }
      for (const auto& [word, value] : rule.words) {
        check(value, table ? in_layers : global);
      }
    }
    for (const Requirement& requirement : all.requirements) {
      check(requirement.that, global);
    }
    for (const ArchitectureNote& note : all.notes) {
      if (note.when) check(*note.when, global);
    }
    for (const auto& [name, block] : all.blocks) {
      auto names = block.shared ? Known() : global;
      for (const BlockArgument& argument : block.takes) {
        names.insert(argument.name);
      }
      check_steps(block.steps, all, names);
      check_state_steps(block.state_steps, names);
    }
    for (const ArchitectureClass& model_class : all.classes) {
      check_steps(model_class.steps, all, global);
      check_state_steps(model_class.state_steps, global);
    }
  }

 private:
  Diagnostics::Builder refuse(Span where, std::string message) {
    ++refused_;
    return diags_.error(Code::InvalidArchitecture, where, std::move(message));
  }

  void check(const Expression& expression, const Known& known) {
    for (const std::string_view name : expression.names()) {
      if (known.contains(name) || refused_ >= kMaxErrors) continue;
      auto problem =
          refuse(expression.where, in_backticks(name) + " is not defined here");
      const std::vector<std::string> names(known.begin(), known.end());
      if (const auto near = nearest(name, names)) {
        problem.help("did you mean " + in_backticks(*near) + "?");
      }
    }
  }

  void check_dim(const DimTree& dim, const Known& known) {
    if (dim.parts.empty()) check(dim.size, known);
    if (dim.per) check(*dim.per, known);
    for (const auto& [name, part] : dim.parts) check_dim(part, known);
  }

  void check_steps(const std::vector<ModuleStep>& steps,
                   const Architecture& all, const Known& known) {
    for (const ModuleStep& step : steps) {
      if (refused_ >= kMaxErrors) return;
      for (const auto* value :
           {&step.when, &step.bias, &step.offset, &step.count, &step.start}) {
        if (*value) check(**value, known);
      }
      for (const DimTree& dim : step.dims) check_dim(dim, known);
      for (const auto& [name, value] : step.arguments) check(value, known);
      if (step.kind == ModuleStep::Kind::Block) check_use(step, all, known);
      if (step.kind == ModuleStep::Kind::Section) check_section(step, all);
      if (step.kind == ModuleStep::Kind::Repeat) {
        auto inner = known;
        inner.insert(step.index);
        for (const ValueRule& rule : all.values) {
          if (rule.kind == ValueRule::Kind::Table) inner.insert(rule.name);
        }
        check_steps(step.steps, all, inner);
        check_state_steps(step.state_steps, inner);
      }
      for (const ModuleCase& one : step.cases) {
        if (one.when) check(*one.when, known);
        check_steps(one.steps, all, known);
        check_state_steps(one.state_steps, known);
      }
    }
  }

  void check_state_steps(const std::vector<StateStep>& steps,
                         const Known& known) {
    for (const StateStep& step : steps) {
      for (const auto* value :
           {&step.when, &step.window, &step.every, &step.tokens}) {
        if (*value) check(**value, known);
      }
      for (const DimTree& dim : step.dims) check_dim(dim, known);
    }
  }

  void check_use(const ModuleStep& step, const Architecture& all,
                 const Known& known) {
    const auto block = all.blocks.find(step.what);
    if (block == all.blocks.end()) {
      std::vector<std::string> names;
      for (const auto& [name, of] : all.blocks) names.push_back(name);
      for (const ModuleKind& kind : module_kinds()) {
        names.emplace_back(kind.name);
      }
      auto problem = refuse(
          step.where, "there is no module or block " + in_backticks(step.what));
      if (const auto near = nearest(step.what, names)) {
        problem.help("did you mean " + in_backticks(*near) + "?");
      }
      return;
    }
    const auto& takes = block->second.takes;
    for (const auto& given : step.arguments) {
      const bool is_taken = std::ranges::any_of(
          takes, [&](const BlockArgument& a) { return a.name == given.first; });
      if (is_taken) continue;
      std::vector<std::string> names;
      for (const BlockArgument& argument : takes) {
        names.push_back(argument.name);
      }
      ++refused_;
      report_unknown_key(given.first, given.second.where, names, diags_);
    }
    for (const BlockArgument& argument : takes) {
      const bool given = std::ranges::any_of(
          step.arguments,
          [&](const auto& a) { return a.first == argument.name; });
      if (given) continue;
      if (argument.otherwise) {
        const auto names = argument.otherwise->names();
        const bool known_all =
            std::ranges::all_of(names, [&](std::string_view name) {
              return known.contains(name) ||
                     std::ranges::any_of(takes, [&](const auto& a) {
                       return &a < &argument && a.name == name;
                     });
            });
        if (known_all) continue;
      }
      refuse(step.where, "block " + in_backticks(step.what) + " needs " +
                             in_backticks(argument.name));
    }
  }

  void check_section(const ModuleStep& step, const Architecture& all) {
    const ConfigSection* section = all.find_section(step.what);
    if (section == nullptr) {
      refuse(step.where, "there is no section " + in_backticks(step.what));
      return;
    }
    const auto check_one = [&](const Architecture& one) {
      if (one.blocks.contains(step.part)) return;
      refuse(step.where, in_backticks(one.name) + " has no block " +
                             in_backticks(step.part));
    };
    check_one(*section->architecture);
    for (const auto& other : section->others) check_one(*other);
  }

  const Architecture& all_;
  Diagnostics& diags_;
  int refused_ = 0;
};

}  // namespace

void check_names(const Architecture& architecture, Diagnostics& diags) {
  NameCheck(architecture, diags).run();
}

}  // namespace shardplan
