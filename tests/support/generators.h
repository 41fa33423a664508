// SPDX-License-Identifier: Apache-2.0
// RapidCheck generators for the nouns. Sizes are small, so that a property may
// visit every device, and often indivisible, since that is where mistakes are.
//
//   CHECK(rc::check("...", [] {
//     const Mesh mesh = *gen::mesh();
//     const PartitionSpec spec = *gen::legal_spec(mesh, 3);
//     ...
//   }));
#pragma once

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <rapidcheck.h>

#include "core/manifest.h"
#include "core/mesh.h"
#include "core/spec.h"
#include "core/types.h"

// How RapidCheck shows a counterexample.
namespace shardplan {

inline void showValue(const Mesh& mesh, std::ostream& out) {  // NOLINT
  out << mesh_text(mesh);
}
inline void showValue(const PartitionSpec& spec, std::ostream& out) {  // NOLINT
  out << spec_text(spec);
}
inline void showValue(const TensorType& type, std::ostream& out) {  // NOLINT
  out << type_text(type);
}
inline void showValue(const Manifest& manifest, std::ostream& out) {  // NOLINT
  for (size_t i = 0; i < manifest.size(); ++i) {
    out << manifest.name(i) << ": " << type_text(manifest.type(i)) << "\n";
  }
}

}  // namespace shardplan

namespace shardplan::testing::gen {

// Some of the elements, each at most once, in any order; it cannot give up, as
// rc::gen::unique does when it is asked for more than there are.
template <typename T>
rc::Gen<std::vector<T>> some_of(std::vector<T> elements) {
  return rc::gen::exec([elements = std::move(elements)] {
    std::vector<T> left = elements;
    std::vector<T> taken;
    const auto count = *rc::gen::inRange<size_t>(0, elements.size() + 1);
    while (taken.size() < count) {
      const auto pick = static_cast<std::ptrdiff_t>(
          *rc::gen::inRange<size_t>(0, left.size()));
      taken.push_back(left[static_cast<size_t>(pick)]);
      left.erase(left.begin() + pick);
    }
    return taken;
  });
}

inline constexpr const char* kAxisNames[] = {"dp", "fsdp", "tp", "sp", "ep"};

// One to four axes of one to five devices.
inline rc::Gen<Mesh> mesh() {
  return rc::gen::exec([] {
    const auto count = *rc::gen::inRange<size_t>(1, 5);
    std::vector<Axis> axes;
    for (size_t i = 0; i < count; ++i) {
      axes.push_back({kAxisNames[i], *rc::gen::inRange<int64_t>(1, 6)});
    }
    return Mesh(std::move(axes));
  });
}

// Names only axes of the mesh, each at most once; may be shorter than `rank`.
inline rc::Gen<PartitionSpec> legal_spec(const Mesh& mesh, size_t rank) {
  return rc::gen::exec([mesh, rank] {
    PartitionSpec spec;
    spec.dims.resize(*rc::gen::inRange<size_t>(0, rank + 1));
    std::vector<Axis> axes = mesh.axes();
    while (!axes.empty() && !spec.dims.empty()) {
      const auto pick = *rc::gen::inRange<size_t>(0, axes.size());
      // One past the end: the axis is not used.
      const auto dim = *rc::gen::inRange<size_t>(0, spec.dims.size() + 1);
      if (dim < spec.dims.size()) spec.dims[dim].push_back(axes[pick].name);
      axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(pick));
    }
    return spec;
  });
}

// As users write them: axes may repeat or be unknown, ranks may not fit.
inline rc::Gen<PartitionSpec> any_spec() {
  return rc::gen::exec([] {
    PartitionSpec spec;
    spec.dims.resize(*rc::gen::inRange<size_t>(0, 5));
    for (AxisNames& names : spec.dims) {
      const auto count = *rc::gen::inRange<size_t>(0, 3);
      for (size_t i = 0; i < count; ++i) {
        names.push_back(*rc::gen::element<std::string>("dp", "fsdp", "tp", "sp",
                                                       "ep", "unknown"));
      }
    }
    return spec;
  });
}

// Sizes 0 to 24, those that divide well among them more often.
inline rc::Gen<Shape> shape(size_t max_rank = 4) {
  return rc::gen::exec([max_rank] {
    Shape shape(*rc::gen::inRange<size_t>(0, max_rank + 1));
    for (int64_t& size : shape) {
      size = *rc::gen::oneOf(
          rc::gen::inRange<int64_t>(0, 25),
          rc::gen::element<int64_t>(1, 2, 4, 6, 8, 12, 16, 20, 24));
    }
    return shape;
  });
}

inline rc::Gen<DType> dtype() {
  return rc::gen::map(rc::gen::inRange(0, kDTypeCount),
                      [](int i) { return static_cast<DType>(i); });
}

inline rc::Gen<TensorType> tensor_type(size_t max_rank = 4) {
  return rc::gen::exec([max_rank] {
    return TensorType{*dtype(), *shape(max_rank)};
  });
}

// Up to twelve parameters named like a model's; names are unique.
inline rc::Gen<Manifest> manifest() {
  return rc::gen::exec([] {
    Manifest manifest;
    const auto count = *rc::gen::inRange<size_t>(0, 13);
    for (size_t i = 0; i < count; ++i) {
      const auto leaf = *rc::gen::element<std::string>(
          "q_proj/kernel", "up_proj/kernel", "norm/scale", "bias");
      const std::string name = "layers/" + std::to_string(i) + "/" + leaf;
      RC_ASSERT(manifest.add(name, *tensor_type(), {}));
    }
    return manifest;
  });
}

}  // namespace shardplan::testing::gen
