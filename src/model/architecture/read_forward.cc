// SPDX-License-Identifier: Apache-2.0
// Reads what the blocks of an architecture file compute.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/words.h"
#include "model/architecture/layouts.h"
#include "model/architecture/reading.h"

namespace shardplan {

const Expression* ForwardStep::argument(std::string_view key) const {
  for (const auto& [name, value] : arguments) {
    if (name == key) return &value;
  }
  return nullptr;
}

namespace {

constexpr int kMaxForwardNesting = 16;

using Names = std::vector<std::string>;

class ForwardReader {
 public:
  ForwardReader(const std::vector<ModuleStep>& modules, StepReader& reader,
                Diagnostics& diags)
      : reader_(reader), diags_(diags) {
    add_modules(modules);
  }

  std::vector<ForwardStep> steps(const Node& list, ValueNames& values,
                                 int depth) {
    std::vector<ForwardStep> result;
    if (depth > kMaxForwardNesting) {
      reader_.refuse(list.span(), "steps nest too deeply");
      return result;
    }
    if (!require(list, NodeKind::List, "`steps`", diags_)) return result;
    for (size_t i = 0; i < list.size(); ++i) {
      const Node item = list.item(i);
      if (item.is_map()) {
        if (auto one = step(item, values, depth)) {
          result.push_back(*std::move(one));
        }
      } else if (const auto text = reader_.text(item, "a step")) {
        read_statement(*text, item.span(), reader_, modules_, values,
                       intermediate_, result);
      }
    }
    return result;
  }

 private:
  void add_modules(const std::vector<ModuleStep>& modules) {
    for (const ModuleStep& each : modules) {
      modules_.insert(each.name.empty() ? each.what : each.name);
      add_modules(each.steps);
      for (const ModuleCase& one : each.cases) add_modules(one.steps);
    }
  }

  // Reads a step that is not a statement: `repeat`, `switch`, `require` or
  // `note`.
  std::optional<ForwardStep> step(const Node& node, ValueNames& values,
                                  int depth) {
    if (node.size() == 0) return reader_.refuse(node.span(), "a step is empty");
    ForwardStep result;
    result.where = node.key_span(0);
    const std::string_view kind = node.key(0);
    if (!reader_.optional(node, "when", result.when)) return std::nullopt;
    bool good = false;
    if (kind == "require") {
      good = requirement(node, result);
    } else if (kind == "note") {
      result.kind = ForwardStep::Kind::Note;
      good = reader_.known_keys(node, {"note", "when"}) &&
             reader_.optional(node, "note", result.message);
    } else if (kind == "repeat") {
      good = repeat(node, result, values, depth);
    } else if (kind == "switch") {
      result.kind = ForwardStep::Kind::Switch;
      ValueNames made = values;
      good = reader_.known_keys(node, {"switch", "when"}) &&
             reader_.cases(node.item(0), result.cases,
                           [&](const Node& of, ForwardCase& one) {
                             ValueNames own = values;
                             one.steps = steps(of, own, depth + 1);
                             made.insert(own.begin(), own.end());
                           });
      if (good) values = std::move(made);
    } else {
      return no_step(node);
    }
    if (!good) return std::nullopt;
    return result;
  }

  std::nullopt_t no_step(const Node& node) {
    const std::string key(node.key(0));
    const std::string statement = as_statement(node);
    if (!statement.empty()) {
      return reader_
          .refuse(node.key_span(0),
                  "`{" + key +
                      ": ..}` is no longer a step: steps are written as "
                      "statements")
          .help("write " + in_backticks(statement));
    }
    const Names known = {"require", "note", "repeat", "switch"};
    report_unknown_key(key, node.key_span(0), known, diags_);
    return std::nullopt;
  }

  bool requirement(const Node& node, ForwardStep& step) {
    step.kind = ForwardStep::Kind::Require;
    if (!reader_.known_keys(node, {"require", "else", "when"})) return false;
    auto condition = reader_.expression(node.item(0));
    if (!condition) return false;
    step.arguments.emplace_back("require", *std::move(condition));
    if (!reader_.optional(node, "else", step.message)) return false;
    if (!step.message.empty()) return true;
    reader_.refuse(step.where, "`require` has no `else`");
    return false;
  }

  // Reads `repeat`. `carry: x = embedded` gives the name of the value that a
  // layer reads, and that of the value for the first layer.
  bool repeat(const Node& node, ForwardStep& step, ValueNames& values,
              int depth) {
    step.kind = ForwardStep::Kind::Repeat;
    std::string carry;
    if (!reader_.known_keys(
            node, {"repeat", "as", "carry", "last", "steps", "when"}) ||
        !reader_.optional(node, "repeat", step.what) ||
        !reader_.optional(node, "as", step.as) ||
        !reader_.optional(node, "carry", carry) ||
        !reader_.optional(node, "last", step.last)) {
      return false;
    }
    const auto inner = node.find("steps");
    const size_t equals = carry.find(" = ");
    if (!inner || equals == carry.npos) {
      reader_.refuse(step.where,
                     "`repeat` needs `carry: NAME = FIRST` and `steps`");
      return false;
    }
    step.carried = carry.substr(0, equals);
    step.first = carry.substr(equals + 3);
    if (step.as.empty()) step.as = step.what;
    values.insert(step.carried);
    ValueNames own = values;
    step.steps = steps(*inner, own, depth + 1);
    if (!step.steps.empty() && step.steps.back().out.size() == 1) return true;
    reader_.refuse(inner->span(),
                   "the last step of `repeat` must make the value that the "
                   "next layer reads");
    return false;
  }

  StepReader& reader_;
  Diagnostics& diags_;
  ValueNames modules_;
  NameCounts intermediate_;
};

// Returns the semantic axes of an input, given as a layout's name or a list.
std::optional<Names> axes_of(const Node& axes, StepReader& reader) {
  Names labels;
  if (axes.is_list()) {
    for (size_t i = 0; i < axes.size(); ++i) {
      const Node item = axes.item(i);
      labels.emplace_back(item.is_null() ? "" : item.text());
    }
    return labels;
  }
  const auto name = reader.text(axes, "`axes`");
  if (!name) return std::nullopt;
  const ValueLayout* const layout = find_layout(*name);
  if (layout != nullptr) return layout_axes(*layout, layout->rank, 0);
  return reader.refuse(axes.span(),
                       "there is no layout " + in_backticks(*name));
}

Expression known_expression(std::string_view text) {
  std::string why;
  return *parse_expression(text, {}, why);
}

}  // namespace

std::optional<BlockForward> StepReader::forward(
    const Node& node, const std::vector<ModuleStep>& modules) {
  BlockForward result;
  result.where = node.span();
  std::optional<Node> steps = node;
  if (!node.is_list()) {
    if (!require(node, NodeKind::Map, "`forward`", diags_) ||
        !known_keys(node, {"takes", "gives", "with", "steps"})) {
      return std::nullopt;
    }
    optional(node, "takes", result.takes);
    optional(node, "gives", result.gives);
    const auto with = node.find("with");
    if (with && !arguments(*with, result.arguments)) return std::nullopt;
    steps = node.find("steps");
    if (!steps) return refuse(node.span(), "`forward` needs `steps`");
  }
  if (result.takes.empty()) result.takes = {"x"};
  ValueNames values(result.takes.begin(), result.takes.end());
  result.steps = ForwardReader(modules, *this, diags_).steps(*steps, values, 0);
  if (result.gives.empty() && !result.steps.empty()) {
    result.gives = result.steps.back().out;
  }
  if (result.gives.empty()) {
    return refuse(node.span(),
                  "the last step of `forward` makes no value: `gives` must "
                  "name the result");
  }
  return result;
}

InputRule token_input() {
  return {"input_ids",
          {},
          {known_expression("batch"), known_expression("length")},
          {"BATCH", "LENGTH"},
          known_expression("vocab")};
}

const InputRule* Architecture::find_input(std::string_view wanted) const {
  return find_named(inputs, wanted);
}

void StepReader::inputs(const Node& map, std::vector<InputRule>& result) {
  if (!require(map, NodeKind::Map, "inputs", diags_)) return;
  for (size_t i = 0; i < map.size(); ++i) {
    const Node of = map.item(i);
    if (!require(of, NodeKind::Map, "an input", diags_) ||
        !known_keys(of, {"shape", "axes", "below"})) {
      continue;
    }
    InputRule input;
    input.name = std::string(map.key(i));
    input.where = map.key_span(i);
    const auto shape = of.find("shape");
    if (!shape || !shape->is_list()) {
      refuse(input.where, "an input needs a list `shape`");
      continue;
    }
    for (size_t dim = 0; dim < shape->size(); ++dim) {
      auto size = expression(shape->item(dim));
      if (size) input.shape.push_back(*std::move(size));
    }
    if (const auto axes = of.find("axes")) {
      auto labels = axes_of(*axes, *this);
      if (!labels) continue;
      input.axes = *std::move(labels);
    }
    if (!input.axes.empty() && input.axes.size() != shape->size()) {
      refuse(input.where, "an input needs one entry of `axes` per dimension");
    }
    if (const auto below = of.find("below")) input.below = expression(*below);
    std::erase_if(result, [&](const InputRule& other) {
      return other.name == input.name;
    });
    result.push_back(std::move(input));
  }
}

}  // namespace shardplan
