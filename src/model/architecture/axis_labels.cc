// SPDX-License-Identifier: Apache-2.0
#include "model/architecture/axis_labels.h"

#include <string>
#include <utility>

#include "core/fold.h"

namespace shardplan {
namespace {

constexpr std::string_view kHidden = "hidden";
constexpr std::string_view kHiddenVector = "hidden_vector";
constexpr std::string_view kPacked = "packed";
constexpr std::string_view kNorm = "norm";
constexpr std::string_view kRouter = "router";

// Of a part of the model, `vision.hidden`, without the part.
std::string_view own_label(std::string_view label) {
  return label.substr(label.rfind('.') + 1);
}

// Queries, keys and values side by side consist of heads.
std::string_view common_label(std::string_view label) {
  label = own_label(label);
  return label == "kv_heads" ? "heads" : label;
}

bool is_norm(const ModuleStep& step) {
  return step.kind == ModuleStep::Kind::RmsNorm ||
         step.kind == ModuleStep::Kind::LayerNorm;
}

bool is_router(const ModuleStep& step) {
  return step.kind == ModuleStep::Kind::Linear &&
         (step.role == LinearRole::Router || step.role == LinearRole::Gate);
}

}  // namespace

std::string axis_label(const DimKind& dim) {
  if (!dim.label.empty() || dim.parts.empty()) {
    return std::string(own_label(dim.label));
  }
  const std::string_view first = common_label(dim.parts.front().label);
  for (const DimPart& part : dim.parts) {
    if (part.label.empty() || common_label(part.label) != first) {
      return std::string(kPacked);
    }
  }
  return std::string(first);
}

void label_weight(const ModuleStep& step, DimKind& out, DimKind& in) {
  if (is_router(step)) {
    out.axis = kRouter;
    in.axis.clear();
    return;
  }
  out.axis = axis_label(out);
  in.axis = axis_label(in);
  if (out.axis == in.axis && !in.axis.empty()) out.axis += "_out";
}

void label_vector(const ModuleStep& step, DimKind& dim) {
  if (is_norm(step)) {
    dim.axis = kNorm;
  } else if (is_router(step)) {
    dim.axis = kRouter;
  } else {
    dim.axis = axis_label(dim);
    if (dim.axis == kHidden) dim.axis = kHiddenVector;
  }
}

void label_parameter(const ModuleStep& step, ParameterKind& dims) {
  if (dims.size() == 1) return label_vector(step, dims.front());
  for (size_t i = 0; i < dims.size(); ++i) {
    dims[i].axis = axis_label(dims[i]);
    // No label is of two dimensions.
    for (size_t j = 0; j < i && !dims[i].axis.empty(); ++j) {
      if (dims[j].axis == dims[i].axis) dims[j].axis += "_out";
    }
  }
}

bool label_parameters(Manifest& manifest) {
  if (manifest.kinds == nullptr) return false;
  for (size_t i = 0; i < manifest.size(); ++i) {
    const auto found = manifest.kinds->find(
        {folded_name(manifest.name(i)), manifest.type(i).shape});
    if (found == manifest.kinds->end()) return false;
    AxisLabels labels;
    for (const DimKind& dim : found->second) {
      labels.push_back(dim.axis.empty() ? std::nullopt
                                        : std::optional(dim.axis));
    }
    manifest.set_axes(i, std::move(labels));
  }
  return manifest.size() > 0;
}

}  // namespace shardplan
