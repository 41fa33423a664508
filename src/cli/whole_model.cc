// SPDX-License-Identifier: Apache-2.0
#include "cli/whole_model.h"

#include <utility>

#include "base/text.h"
#include "graph/family.h"
#include "graph/shrink.h"
#include "io/load.h"
#include "io/model_config.h"

namespace shardplan::cli {
namespace {

constexpr int64_t kDefaultBatch = 2;
constexpr int64_t kDefaultLength = 16;

// Sizes of the run; empty when the flags contradict one another.
std::optional<ForwardPass> forward_pass(const SimulationFlags& flags,
                                        const InputIds& ids,
                                        Diagnostics& diags) {
  ForwardPass pass;
  pass.batch = flags.batch.value_or(kDefaultBatch);
  pass.length = flags.length.value_or(kDefaultLength);
  pass.layers = flags.layers;
  pass.capacity = flags.capacity;
  if (ids.empty()) return pass;
  const auto sequences = static_cast<int64_t>(ids.size());
  const auto tokens = static_cast<int64_t>(ids.front().size());
  const std::string given =
      std::to_string(sequences) + "x" + std::to_string(tokens);
  if (flags.batch && (pass.batch != sequences || pass.length != tokens)) {
    return diags.error(Code::Usage, {}, "--tokens and the input ids disagree")
        .fact("--tokens " + std::to_string(pass.batch) + "x" +
              std::to_string(pass.length) + ", and ids for " + given)
        .help("leave out --tokens: it follows from the ids");
  }
  pass.batch = sequences;
  pass.length = tokens;
  return pass;
}

// What a model is, before it is placed.
struct Recognised {
  Manifest manifest;
  ModelConfig config;
  const Family* family = nullptr;
  GraphDescription description;
};

std::optional<GraphDescription> describe(const Recognised& model,
                                         const ForwardPass& pass,
                                         Diagnostics& diags) {
  const ParameterNames names(model.manifest);
  return model.family->describe({model.manifest, names, model.config, pass},
                                diags);
}

// Recognises the family and describes its forward pass.
bool recognise(Recognised& model, const ForwardPass& pass, Diagnostics& diags) {
  const ParameterNames names(model.manifest);
  model.family = recognise_family(model.manifest, names, model.config, diags);
  if (model.family == nullptr) return false;
  auto description = describe(model, pass, diags);
  if (!description) return false;
  model.description = *std::move(description);
  return true;
}

// A smaller model in place of the one that was read.
bool make_smaller(Recognised& model, const Mesh& mesh, ForwardPass pass,
                  Diagnostics& diags) {
  const ParameterNames names(model.manifest);
  auto smaller = shrink(
      *model.family, {model.manifest, names, model.config, pass}, mesh, diags);
  if (!smaller) return false;
  model.manifest = std::move(smaller->manifest);
  model.config = std::move(smaller->config);
  auto description = describe(model, pass, diags);
  if (!description) return false;
  model.description = *std::move(description);
  return true;
}

// With --shrink the mesh is needed before the model is placed.
std::optional<Session> shrunk_session(Context& context, Recognised& model,
                                      const ForwardPass& pass) {
  if (context.options.plan) {
    return context.diags
        .error(Code::Usage, {}, "--shrink makes another model than the plan's")
        .help("give `--rules` and `--mesh` instead of `--plan`");
  }
  std::optional<Inputs> inputs = read_inputs(context);
  if (!inputs) return std::nullopt;
  std::optional<Mesh> mesh = context.options.simulation.shrink_mesh;
  if (!mesh) mesh = planned_mesh(context, *inputs);
  if (!mesh || !make_smaller(model, *mesh, pass, context.diags)) {
    return std::nullopt;
  }
  return open_session(context, std::move(model.manifest),
                      std::move(inputs->rules));
}

}  // namespace

std::optional<WholeModel> read_whole_model(Context& context,
                                           const InputIds& ids) {
  const Options& options = context.options;
  const SimulationFlags& flags = options.simulation;
  Diagnostics& diags = context.diags;
  const std::string& path = options.arguments.front();
  const auto pass = forward_pass(flags, ids, diags);
  if (!pass) return std::nullopt;
  context.progress.stage("reading the model");
  Recognised model;
  std::optional<Manifest> manifest = load_manifest(path, context.host, diags);
  if (!manifest) return std::nullopt;
  model.manifest = *std::move(manifest);
  std::optional<ModelConfig> config =
      find_model_config(path, context.host, diags);
  if (!config) return std::nullopt;
  model.config = *std::move(config);
  if (!recognise(model, *pass, diags)) return std::nullopt;
  ModelRun run;
  run.family = model.family->name;
  run.tied = model.config.tied;
  run.all_layers =
      model.config.layers.value_or(model.manifest.facts.layers.value_or(0));
  run.only_layers = pass->layers;
  run.batch = pass->batch;
  run.length = pass->length;
  run.shrunk = flags.shrink;
  std::optional<Session> session =
      flags.shrink ? shrunk_session(context, model, *pass)
                   : open_session(context, std::move(model.manifest));
  if (!session) return std::nullopt;
  return WholeModel{*std::move(session), std::move(model.description),
                    std::move(run)};
}

}  // namespace shardplan::cli
