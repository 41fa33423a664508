// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/text.h"
#include "base/words.h"
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
    Known global;
    for (const ValueRule& rule : all_.values) {
      if (rule.kind != ValueRule::Kind::Table) global.insert(rule.name);
    }
    for (const ConfigSection& section : all_.sections) {
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
    for (const ValueRule& rule : all_.values) {
      if (rule.kind == ValueRule::Kind::Table) in_layers.insert(rule.name);
    }
    for (const ValueRule& rule : all_.values) {
      const bool table = rule.kind == ValueRule::Kind::Table;
      for (const auto* value : {&rule.absent, &rule.null, &rule.otherwise,
                                &rule.is, &rule.other_words}) {
        if (*value) check(**value, table ? in_layers : global);
      }
      for (const auto& [word, value] : rule.words) {
        check(value, table ? in_layers : global);
      }
    }
    for (const Requirement& requirement : all_.requirements) {
      check(requirement.that, global);
    }
    for (const ArchitectureNote& note : all_.notes) {
      if (note.when) check(*note.when, global);
    }
    for (const auto& [name, block] : all_.blocks) {
      auto names = block.shared ? Known() : global;
      for (const BlockArgument& argument : block.takes) {
        names.insert(argument.name);
      }
      check_steps(block, names);
    }
    for (const ArchitectureClass& model_class : all_.classes) {
      check_steps(model_class, global);
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
      suggest(
          refuse(expression.where, in_backticks(name) + " is not defined here"),
          name, std::vector<std::string>(known.begin(), known.end()));
    }
  }

  void check_dim(const DimTree& dim, const Known& known) {
    if (dim.parts.empty()) check(dim.size, known);
    if (dim.per) check(*dim.per, known);
    for (const auto& [name, part] : dim.parts) check_dim(part, known);
  }

  // Checks the steps of a block, class, repetition or case.
  void check_steps(const auto& of, const Known& known) {
    for (const ModuleStep& step : of.steps) {
      if (refused_ >= kMaxErrors) return;
      for (const auto* value :
           {&step.when, &step.bias, &step.offset, &step.count, &step.start}) {
        if (*value) check(**value, known);
      }
      for (const DimTree& dim : step.dims) check_dim(dim, known);
      for (const auto& [name, value] : step.arguments) check(value, known);
      if (step.kind == ModuleStep::Kind::Block) check_use(step, known);
      if (step.kind == ModuleStep::Kind::Section) check_section(step);
      if (step.kind == ModuleStep::Kind::Repeat) {
        auto inner = known;
        inner.insert(step.index);
        for (const ValueRule& rule : all_.values) {
          if (rule.kind == ValueRule::Kind::Table) inner.insert(rule.name);
        }
        check_steps(step, inner);
      }
      for (const ModuleCase& one : step.cases) {
        if (one.when) check(*one.when, known);
        check_steps(one, known);
      }
    }
    for (const StateStep& step : of.state_steps) {
      for (const auto* value :
           {&step.when, &step.window, &step.every, &step.tokens}) {
        if (*value) check(**value, known);
      }
      for (const DimTree& dim : step.dims) check_dim(dim, known);
    }
  }

  void check_use(const ModuleStep& step, const Known& known) {
    const auto block = all_.blocks.find(step.what);
    if (block == all_.blocks.end()) {
      std::vector<std::string> names;
      for (const auto& [name, of] : all_.blocks) names.push_back(name);
      for (const ModuleKind& kind : module_kinds()) {
        names.emplace_back(kind.name);
      }
      suggest(refuse(step.where,
                     "there is no module or block " + in_backticks(step.what)),
              step.what, names);
      return;
    }
    const auto& takes = block->second.takes;
    for (const auto& [name, value] : step.arguments) {
      if (find_named(takes, name) != nullptr) continue;
      ++refused_;
      report_unknown_key(name, value.where, all_names(takes), diags_);
    }
    Known visible = known;  // a default may refer to earlier arguments
    for (const BlockArgument& argument : takes) {
      const bool given = std::ranges::any_of(
          step.arguments,
          [&](const auto& a) { return a.first == argument.name; });
      const auto is_visible = [&](std::string_view name) {
        return visible.contains(name);
      };
      if (!given &&
          (!argument.otherwise ||
           !std::ranges::all_of(argument.otherwise->names(), is_visible))) {
        refuse(step.where, "block " + in_backticks(step.what) + " needs " +
                               in_backticks(argument.name));
      }
      visible.insert(argument.name);
    }
  }

  void check_section(const ModuleStep& step) {
    const ConfigSection* section = all_.find_section(step.what);
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
