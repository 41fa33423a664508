// SPDX-License-Identifier: Apache-2.0
#include "tests/support/trained.h"

#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "model/architectures.h"
#include "model/forward/recognise.h"
#include "resolve/resolve.h"
#include "tests/support/builders.h"
#include "tests/support/messages.h"
#include "tests/support/tiny_llama.h"
#include "tests/support/whole_model.h"

namespace shardplan::testing {

std::unique_ptr<Trained> trained(const Json& config, const char* axes,
                                 ForwardPass pass, EqualLayers equal_layers,
                                 const std::string& trainable) {
  auto result = std::make_unique<Trained>();
  Trained& all = *result;
  all.synthesis = synthesize(config);
  const Manifest& manifest = all.synthesis->good();
  REQUIRE(label_parameters(*all.synthesis->manifest));
  all.rules = loaded_rules(all.host, "@all_models");
  REQUIRE(all.rules->rules);
  all.plan = resolve(manifest, *all.rules->rules, mesh(axes), {}, all.diags);
  REQUIRE(all.plan);
  auto model =
      recognise_model(manifest, parsed_config(config), nullptr, all.diags);
  REQUIRE_MESSAGE(model, messages(all.diags));
  std::vector<bool> frozen;
  if (!trainable.empty()) {
    const auto found = find_trained({trainable}, manifest, all.diags);
    REQUIRE_MESSAGE(found, messages(all.diags));
    frozen = *found;
    frozen.flip();
  }
  all.model = forward_graphs(manifest, *std::move(model), pass, frozen);
  all.program = partition_layers(
      *all.model, {manifest, *all.plan, &*all.rules->rules, {}},
      [](const Program&, const LayerCycle&) { return true; }, equal_layers,
      all.diags);
  REQUIRE_MESSAGE(all.program, messages(all.diags));
  return result;
}

MemoryBracket bracket_of(Trained& all, const StepOptions& step,
                         const BudgetOptions& how) {
  const auto budget = make_budget(all.manifest(), *all.plan, how, all.diags);
  REQUIRE_MESSAGE(budget, messages(all.diags));
  const StepLayers layers =
      step_layers(*all.model, *all.program, step,
                  segments_of(all.program->program, step.segments, {}));
  const auto bracket = step_memory(
      {all.manifest(), *all.plan, *budget, how, layers}, step, all.diags);
  REQUIRE(bracket);
  return *bracket;
}

int64_t row_of(const MemoryBracket& bracket, const char* category, size_t k) {
  for (const BracketRow& row : bracket.rows) {
    if (row.category == category) return row.bytes[k];
  }
  return -1;
}

int64_t activations_in(const MemoryBracket& bracket, size_t k) {
  int64_t sum = 0;
  for (const BracketRow& row : bracket.rows) {
    if (row.category == "activations" || row.category == "logits") {
      sum += row.bytes[k];
    }
  }
  return sum;
}

Remat remat_policy(const char* text) {
  Diagnostics diags;
  const auto remat = read_remat(text, diags);
  REQUIRE_MESSAGE(remat, messages(diags));
  return *remat;
}

const Json kLlama = changed(tiny_llama(), {{"num_hidden_layers", 6}});
const Json kGpt2 = {{"architectures", {"GPT2LMHeadModel"}},
                    {"model_type", "gpt2"},
                    {"vocab_size", 512},
                    {"n_embd", 64},
                    {"n_layer", 6},
                    {"n_head", 4},
                    {"n_positions", 64},
                    {"torch_dtype", "bfloat16"}};

}  // namespace shardplan::testing
