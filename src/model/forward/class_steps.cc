// SPDX-License-Identifier: Apache-2.0
#include "model/forward/class_steps.h"

#include <string>

#include "base/text.h"
#include "model/architecture/scope.h"
#include "model/forward/modules.h"

namespace shardplan {

const ModuleBlock* computed_block(const Architecture& architecture,
                                  const ModuleStep& step) {
  if (step.kind != ModuleStep::Kind::Block) return nullptr;
  const auto found = architecture.blocks.find(step.what);
  const bool computes =
      found != architecture.blocks.end() && found->second.forward;
  return computes ? &found->second : nullptr;
}

std::vector<const ModuleStep*> class_steps(const ForwardDefinition& model,
                                           ConfigValues& values,
                                           const ForwardWriter& out,
                                           Diagnostics& diags) {
  const ArchitectureClass& model_class = *model.model_class;
  const ValueScope root{&values, false, {}};
  std::vector<const ModuleStep*> steps;
  for (const ModuleStep& each : model_class.steps) {
    const auto used = root.flag(each.when);
    if (!used) return {};
    if (*used) steps.push_back(&each);
  }
  size_t count = 0;
  while (count < steps.size() &&
         computed_block(*model.architecture, *steps[count]) != nullptr) {
    ++count;
  }
  if (count == 0) {
    auto problem = diags.error(Code::UnsupportedConfig, model.where(),
                               "class " + in_backticks(model_class.class_name) +
                                   " has no forward pass");
    if (model_class.where) problem.label(model_class.where, "here");
    return {};
  }
  std::string missing;
  if (count > 1) {
    const ModuleStep& head = *steps[count - 1];
    const ModuleBlock& block = *computed_block(*model.architecture, head);
    const auto scope = root.within(block.takes, block.shared, head.arguments);
    // If an argument has no value, that is reported.
    if (scope) {
      missing = missing_weight(out, *model.architecture, block.steps, *scope,
                               head.name);
    }
  }
  if (!missing.empty()) --count;
  const bool has_head = count == steps.size();
  const bool is_main = &model_class == &model.architecture->classes.front();
  steps.resize(count);
  if (has_head && (is_main || count > 1)) return steps;
  const std::string class_name = in_backticks(model_class.class_name);
  diags
      .report(Code::UnsupportedConfig, Severity::Note, model.where(),
              "the model has no head: its output is `last_hidden_state`, not "
              "logits")
      .fact(!missing.empty() ? "there is no " + in_backticks(missing) +
                                   ", and `tie_word_embeddings` is not true"
            : !has_head ? "the head of " + class_name + " is not supported"
                        : "the config's architecture is " + class_name);
  return steps;
}

}  // namespace shardplan
