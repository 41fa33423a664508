// SPDX-License-Identifier: Apache-2.0
// Walk: lists the tensors of a model by walking through the steps of its
// architecture with the values of its config.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/manifest.h"
#include "core/types.h"
#include "model/architecture/quantisation.h"
#include "model/architecture/values.h"

namespace shardplan {

struct Lora;

// The maximum number of tensors. A config of a few bytes can request any number
// of them; real models have up to a few hundred thousand.
inline constexpr int64_t kMaxTensors = 2'000'000;

// The kind of module of each tensor, in the order of the manifest.
struct TensorSteps {
  std::vector<ModuleStep::Kind> parameters;
  std::vector<ModuleStep::Kind> buffers;
};

// Kinds of tensors by folded name (core/fold.h) and shape, since layers are
// alike.
struct ExplainedTensors {
  ParameterKinds kinds;
  std::set<std::pair<std::string, Shape>> buffers;
};

// Adds the tensors of a model class to the manifest, in the order of its steps.
// `dtype` is for tensors that do not specify one. Layers that are alike are
// computed once. Returns false, with the reason reported, if there are more
// than kMaxTensors, a size is invalid, or the bytes exceed 63 bits. REQUIRES:
// values.read_all() returned true.
//
// `lora`: the adapters to add, or null. The function also fails if they apply
// to no module or include unsupported ones. `steps`, if not null, receives the
// kinds of module of the tensors.
bool write_tensors(ConfigValues& values, const ArchitectureClass& model_class,
                   DType dtype, const Quantisation& quantisation,
                   const Lora* lora, Manifest& manifest,
                   TensorSteps* steps = nullptr);

// Describes each kind of these tensors without a manifest of all of them.
bool explain_tensors(ConfigValues& values, const ArchitectureClass& model_class,
                     DType dtype, const Quantisation& quantisation,
                     ExplainedTensors& explained);

}  // namespace shardplan
