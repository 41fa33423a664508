// SPDX-License-Identifier: Apache-2.0
// Logical axis rules of flax, and the logical axes of the parameters. JAX
// refuses what does not divide, so such a plan cannot be said.
#include <algorithm>
#include <string>

#include "base/text.h"
#include "io/exporters/exporters.h"
#include "io/expressible.h"
#include "io/python_text.h"

namespace shardplan {
namespace {

constexpr std::string_view kName = "flax";

std::string label_text(const std::optional<std::string>& label) {
  return label ? python_string(*label) : "None";
}

// `("embed", None)`, `("embed",)`, `()`.
std::string labels_text(const AxisLabels& labels) {
  std::string text = "(";
  for (const auto& label : labels) {
    text += (text.size() == 1 ? "" : " ") + label_text(label) + ",";
  }
  if (labels.size() > 1) text.pop_back();
  return text + ")";
}

bool divides_everything(const ExportInput& input, Diagnostics& diags) {
  for (size_t i = 0; i < input.manifest.size(); ++i) {
    for (const Correction& c : input.plan.of(i).corrections) {
      if (c.code != Code::IndivisibleDimension) continue;
      diags
          .error(Code::Inexpressible, input.manifest.where(i),
                 "`flax` cannot leave dimension " + std::to_string(c.dim) +
                     " of `" + printable(input.manifest.name(i)) +
                     "` whole: its rules shard it, and JAX refuses that")
          .fact(c.reason)
          .help("change the rules or the size, or `--to jax`");
      return false;
    }
  }
  return true;
}

std::string axes_text_of(const ExportInput& input, int64_t& without) {
  std::string text;
  for (size_t i = 0; i < input.manifest.size(); ++i) {
    const AxisLabels* labels = input.manifest.axes(i);
    if (labels == nullptr) {
      ++without;
      continue;
    }
    text += "    " + python_string(input.manifest.name(i)) + ": " +
            labels_text(*labels) + ",\n";
  }
  return text;
}

std::optional<std::string> write(const ExportInput& input, Diagnostics& diags) {
  const RuleSet* rules = logical_rules_of(input, kName, diags);
  const bool good = specs_are_expressible(input, kName, diags);
  if (rules == nullptr || !good || !divides_everything(input, diags)) {
    return std::nullopt;
  }
  std::vector<std::string> lines =
      header_lines(input, "Logical axis rules, as given", kName);
  int64_t without = 0;
  const std::string axes = axes_text_of(input, without);
  if (without > 0) {
    lines.push_back(plural(without, "parameter") +
                    " without logical axes in the model: left out");
  }
  note_activations(input, kName, diags);
  note_slices(input, kName, diags);
  std::string text = comment_text(lines) + "LOGICAL_AXIS_RULES = (\n";
  for (const LogicalRule& rule : rules->logical_rules) {
    text += "    (" + label_text(rule.name) + ", " + python_axes(rule.axes) +
            "),\n";
  }
  return text + ")\n\nLOGICAL_AXES = {" + (axes.empty() ? "" : "\n") + axes +
         "}\n";
}

}  // namespace

const ExportTarget kFlaxTarget = {
    kName, "logical axis rules of flax, and the axes of the parameters", write};

}  // namespace shardplan
