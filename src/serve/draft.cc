// SPDX-License-Identifier: Apache-2.0
#include "serve/draft.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "serve/degrees.h"

namespace shardplan {
namespace {

std::string draft_text(const ServingInput& input) {
  return "draft " + in_backticks(input.draft->manifest->title);
}

EngineMesh draft_mesh(const ServingInput& input) {
  EngineMesh mesh = input.mesh;
  mesh.pp = 1;
  return mesh;
}

// Returns the bytes per token over all layers; empty if some layers have a
// state or a window.
std::optional<int64_t> plain_token_bytes(
    const std::vector<CacheLayer>& layers) {
  int64_t sum = 0;
  for (const CacheLayer& layer : layers) {
    if (layer.window > 0 || layer.state_bytes > 0) return std::nullopt;
    const auto more = checked_add(sum, layer.token_bytes);
    if (!more) return std::nullopt;
    sum = *more;
  }
  return sum;
}

std::optional<std::vector<CacheLayer>> all_layers(const ServedWeights& model,
                                                  const ServingInput& input) {
  const Facts& facts = model.manifest->facts;
  return cache_layers(facts, 0, facts.layers.value_or(0), input.mesh.tp,
                      input.kv_dtype);
}

// Sizes the cache as SGLang does: a layer of the draft like a layer of the
// model.
bool size_as_the_model(const ServedWeights& model, const ServingInput& input,
                       ServedDraft& draft, Diagnostics& diags) {
  const auto of_model = all_layers(model, input);
  const auto tokens =
      of_model ? plain_token_bytes(*of_model) : std::optional<int64_t>();
  const auto own = plain_token_bytes(draft.layers);
  if (!tokens || !own || of_model->empty()) {
    diags.error(Code::MissingFacts, {},
                "how SGLang sizes a draft's cache is unknown for models with "
                "windows or states");
    return false;
  }
  const auto count = std::ssize(draft.layers);
  const auto layers = std::ssize(*of_model);
  const auto sized = static_cast<int64_t>(Int128{*tokens} * count / layers);
  draft.layers = {{.token_bytes = sized, .latent = of_model->front().latent}};
  if (sized == *own) return true;
  draft.remarks.push_back(
      "the draft's cache is sized like the model's layers, at " +
      bytes_text(sized) + " per token, but takes " + bytes_text(*own) +
      (*own > sized ? ": the rest comes from outside the share" : ""));
  return true;
}

}  // namespace

std::optional<ServedDraft> served_draft(const ServedWeights& model,
                                        const ServingInput& input,
                                        Diagnostics& diags) {
  const bool blocks = input.engine->pool == PoolKind::Blocks;
  if (!blocks && input.mesh.pp > 1) {
    return diags
        .error(Code::Usage, {},
               "which stage runs a draft is unknown for " +
                   std::string(input.engine->title))
        .help("leave out `--stages`, or `--draft`");
  }
  ServedDraft draft;
  const WeightsInput how = {
      .engine = input.engine,
      .card = input.device.generation,
      .layout = layout_of(*input.engine, draft_mesh(input)),
      .vocab_multiple = input.engine->vocab_multiple};
  const std::vector<bool> all(input.draft->groups.groups.size(), true);
  const auto weights = rank_weights(*input.draft, all, how);
  if (!weights) {
    return diags.error(Code::InvalidMesh, {},
                       "bytes of the draft's weights exceed 63 bits");
  }
  draft.weights = *weights;
  auto layers = all_layers(*input.draft, input);
  if (!layers) {
    return diags.error(
        Code::MissingFacts, {},
        "what the layers of " + draft_text(input) + " cache is unknown");
  }
  draft.layers = *std::move(layers);
  if (!blocks && !size_as_the_model(model, input, draft, diags)) {
    return std::nullopt;
  }
  return draft;
}

void add_draft(const ServedDraft& draft, ServedStage& stage) {
  stage.weights.draft = draft.weights.total;
  stage.weights.total += draft.weights.total;
  stage.layers.insert(stage.layers.end(), draft.layers.begin(),
                      draft.layers.end());
}

void add_draft_problems(const ServedWeights& model, const ServingInput& input,
                        Serving& answer) {
  const auto cut_at = [&](const EngineMesh& mesh) {
    std::vector<std::string> found =
        cut_problems(*input.draft, *input.engine, mesh);
    for (std::string& problem : found) {
      problem = draft_text(input) + ": " + problem;
    }
    return found;
  };
  std::ranges::move(cut_at(draft_mesh(input)),
                    std::back_inserter(answer.problems));
  refuse_degrees(answer.verdicts, draft_mesh(input), cut_at);
  if (input.engine->pool == PoolKind::Blocks) {
    const Mesh layout = WeightsInput().layout;
    const int64_t own = step_widths(*input.draft, layout).vocab;
    const int64_t of_model = step_widths(model, layout).vocab;
    if (own != of_model) {
      answer.problems.push_back(draft_text(input) + " has a vocabulary of " +
                                count_text(own) + ", the model one of " +
                                count_text(of_model));
    }
  } else if (input.mesh.dp_attention && input.mesh.dp > 1) {
    answer.problems.emplace_back(
        "a separate draft model does not work with `--dp-attention`");
  }
}

}  // namespace shardplan
