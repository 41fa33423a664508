// SPDX-License-Identifier: Apache-2.0
// Tiny whole models: a manifest and a config of every architecture that
// computes, under any scheme of names, their graphs, and runs of these on
// simulated devices.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/manifest.h"
#include "graph/graph.h"
#include "graph/tensor.h"
#include "model/forward/forward.h"
#include "sim/simulate.h"
#include "sim/values.h"
#include "tests/support/hf_config.h"

namespace shardplan::testing {

// Two layers, widths that 4 divides, 4 heads, 2 KV heads where the family has
// them, 4 experts; as Hugging Face stores it. `variant`: "" or what the family
// may have besides ("biased", "tied", "head", "fused", ..).
struct TinyModel {
  Manifest manifest;
  Json config;
};
TinyModel tiny_model(std::string_view architecture,
                     std::string_view variant = "");

// The same parameters under Flax's names: kernels are transposed, and perhaps
// layers, or experts, are stacked.
enum class Stacking { None, Layers, Experts, LayersAndExperts };
struct FlaxNames {
  Manifest manifest;
  // Of every parameter: those of the first manifest that it is made of, along
  // the first dimensions.
  std::vector<std::vector<size_t>> parts;
  std::vector<bool> transposed;
};
FlaxNames flax_names(const Manifest& manifest, Stacking stacking);

// A parsed config; null for that of no model.
std::shared_ptr<const Document> parsed_config(const Json& config);

// A model's graph; on the heap, since the graph is pointed at.
struct WholeModel {
  Manifest manifest;
  Json config;  // null: none
  ForwardPass pass;
  Diagnostics diags;
  std::optional<ForwardDefinition> model;  // empty: not recognised
  std::optional<GraphDescription> description;
  std::optional<Graph> graph;  // empty: `messages` says why
  std::string messages;

  ValueId value(std::string_view name) const;  // or none
  std::string ops() const;                     // "embedding slice .."
};
std::unique_ptr<WholeModel> whole_model(Manifest manifest, Json config,
                                        ForwardPass pass = {4, 8, {}, {}});
// The same of a model that is recognised.
std::unique_ptr<WholeModel> whole_model_of(Manifest manifest,
                                           ForwardDefinition model,
                                           ForwardPass pass = {4, 8, {}, {}});

// Numbers of every parameter of a manifest, in float32.
std::vector<Tensor> random_parameters(const Manifest& manifest);
// The same numbers for the parameters of other names.
std::vector<Tensor> renamed_parameters(const FlaxNames& names,
                                       const std::vector<Tensor>& parameters);
// The first output of an unsharded run over them, the ids being always alike.
std::vector<double> outputs_of(const WholeModel& model,
                               const std::vector<Tensor>& parameters);

struct SimulatedModel {
  std::optional<Simulation> simulation;  // empty: `messages` says why
  std::string messages;                  // of placing values
  std::string moves;                     // tests/support/small_graph.h
};
// `rules`: "@llama", or the text of a rules file. `given`: the numbers, where
// they are not drawn.
SimulatedModel simulated(const WholeModel& model, const std::string& rules,
                         std::string_view mesh, ValueSource source,
                         const ReadValue& given = nullptr);

// On six meshes of four devices, in the field and in floating point: where a
// sharded run is another than the unsharded one, a line each.
std::string disagreements(const WholeModel& model, const std::string& rules);

// Of the outputs of the model under other names from those under its own,
// relative to the largest.
double largest_difference(const WholeModel& model, const FlaxNames& names);

}  // namespace shardplan::testing
