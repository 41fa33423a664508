// SPDX-License-Identifier: Apache-2.0
// The walk from an architecture and a config to the tensors of the model.
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

// A config of a few bytes may ask for any number of tensors; real models have
// up to a few hundred thousand.
inline constexpr int64_t kMaxTensors = 2'000'000;

struct TensorSteps {
  std::vector<ModuleStep::Kind> parameters;
  std::vector<ModuleStep::Kind> buffers;
};

// Tensors by folded names (core/fold.h) and shapes: layers are alike.
struct ExplainedTensors {
  ParameterKinds kinds;
  std::set<std::pair<std::string, Shape>> buffers;
};

// Adds the tensors of a model_class of the architecture to the manifest, in the
// order of its steps; `dtype` is what those have that say nothing else. Layers
// that are alike are computed once. False, with the reason reported, where
// there are more than kMaxTensors, a size is none, or bytes exceed 63 bits.
// REQUIRES: values.read_all().
//
// `lora`: adapters that are added, or null; false, too, where it adds none, or
// some that are not known. `steps`, where there are any wanted: what each is
// of, in the manifest's order.
bool write_tensors(ConfigValues& values, const ArchitectureClass& model_class,
                   DType dtype, const Quantisation& quantisation,
                   const Lora* lora, Manifest& manifest,
                   TensorSteps* steps = nullptr);

// What each kind of these tensors is, where nobody asks for all of them.
bool explain_tensors(ConfigValues& values, const ArchitectureClass& model_class,
                     DType dtype, const Quantisation& quantisation,
                     ExplainedTensors& explained);

}  // namespace shardplan
