// SPDX-License-Identifier: Apache-2.0
#include "model/architecture/axis_labels.h"

#include <algorithm>
#include <string>
#include <utility>

namespace shardplan {
namespace {

constexpr std::string_view kHidden = "hidden";
constexpr std::string_view kVector = "vector";
constexpr std::string_view kPacked = "packed";
constexpr std::string_view kPackedInputs = "packed_inputs";
constexpr std::string_view kLatent = "_rank";
constexpr std::string_view kNorm = "norm";
constexpr std::string_view kRouter = "router";

// Removes the name of the part from a label: `vision.hidden` becomes `hidden`.
std::string_view own_label(std::string_view label) {
  return label.substr(label.rfind('.') + 1);
}

bool is_norm(const ModuleStep& step) {
  return step.kind == ModuleStep::Kind::RmsNorm ||
         step.kind == ModuleStep::Kind::LayerNorm;
}

// Returns whether the step computes a number per expert, or is a small gate.
bool is_router(const ModuleStep& step, const DimKind& out) {
  return step.kind == ModuleStep::Kind::Linear &&
         (step.role == LinearRole::Router || step.role == LinearRole::Gate ||
          out.label == kExpertsLabel);
}

}  // namespace

std::string axis_label(const DimKind& dim) {
  const bool packed = dim.label.empty() && !dim.parts.empty();
  return std::string(packed ? kPacked : own_label(dim.label));
}

void label_weight(const ModuleStep& step, DimKind& out, DimKind& in,
                  DimKind& bias) {
  label_vector(step, bias);
  if (is_router(step, out)) {
    out.axis = kRouter;
    in.axis.clear();
    return;
  }
  out.axis = axis_label(out);
  in.axis = axis_label(in);
  // Two parts of the residual stream side by side are still `hidden`.
  const bool of_hidden = !in.parts.empty() &&
                         std::ranges::all_of(in.parts, [](const DimPart& part) {
                           return own_label(part.label) == kHidden;
                         });
  if (of_hidden && in.label.empty()) in.axis = kHidden;
  if (out.axis == kPacked &&
      !own_label(out.parts.front().label).ends_with(kLatent)) {
    in.axis = kPackedInputs;
  }
  if (out.axis != in.axis || in.axis.empty()) return;
  out.axis += "_out";
  bias.axis = out.axis;
}

void label_vector(const ModuleStep& step, DimKind& dim) {
  if (is_norm(step)) {
    dim.axis = kNorm;
  } else if (is_router(step, dim)) {
    dim.axis = kRouter;
  } else {
    dim.axis = axis_label(dim);
    if (dim.axis == kHidden || dim.axis.ends_with(kLatent)) dim.axis = kVector;
  }
}

void label_parameter(const ModuleStep& step, ParameterKind& dims) {
  if (dims.size() == 1) return label_vector(step, dims.front());
  for (size_t i = 0; i < dims.size(); ++i) {
    dims[i].axis = axis_label(dims[i]);
    // A parameter has each label at most once.
    for (size_t j = 0; j < i; ++j) {
      if (dims[j].axis == dims[i].axis) dims[i].axis.clear();
    }
  }
}

void label_joined(ParameterKind& dims, size_t at) {
  dims[at].axis = axis_label(dims[at]);
  for (DimKind& dim : dims) {
    if (dim.axis == kHidden) dim.axis = kPackedInputs;
  }
}

}  // namespace shardplan
