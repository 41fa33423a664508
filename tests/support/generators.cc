// SPDX-License-Identifier: Apache-2.0
#include "tests/support/generators.h"

#include <cstdint>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <rapidcheck.h>

// How RapidCheck shows a counterexample.
namespace shardplan {

static void showValue(const Mesh& mesh, std::ostream& out) {  // NOLINT
  out << mesh_text(mesh);
}
static void showValue(const PartitionSpec& spec, std::ostream& out) {  // NOLINT
  out << spec_text(spec);
}
static void showValue(const TensorType& type, std::ostream& out) {  // NOLINT
  out << type_text(type);
}
static void showValue(const Manifest& manifest, std::ostream& out) {  // NOLINT
  for (size_t i = 0; i < manifest.size(); ++i) {
    out << manifest.name(i) << ": " << type_text(manifest.type(i)) << "\n";
  }
}

}  // namespace shardplan

namespace shardplan::testing {
namespace {

PartitionSpec any_spec() {
  PartitionSpec spec;
  spec.dims.resize(draw_in<size_t>(0, 5));
  for (AxisNames& names : spec.dims) {
    const auto count = draw_in<size_t>(0, 3);
    for (size_t i = 0; i < count; ++i) {
      names.push_back(
          draw_of<std::string>({"dp", "fsdp", "tp", "sp", "ep", "unknown"}));
    }
  }
  return spec;
}

PartitionSpec legal_spec(std::vector<Axis> axes, size_t rank) {
  PartitionSpec spec;
  spec.dims.resize(draw_in<size_t>(0, rank + 1));
  while (!axes.empty() && !spec.dims.empty()) {
    const auto pick = draw_in<size_t>(0, axes.size());
    // One past the end: the axis is not used.
    const auto dim = draw_in<size_t>(0, spec.dims.size() + 1);
    if (dim < spec.dims.size()) spec.dims[dim].push_back(axes[pick].name);
    axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(pick));
  }
  return spec;
}

Shape any_shape(size_t max_rank) {
  Shape shape(draw_in<size_t>(0, max_rank + 1));
  for (int64_t& size : shape) {
    size = *rc::gen::oneOf(
        rc::gen::inRange<int64_t>(0, 25),
        rc::gen::element<int64_t>(1, 2, 4, 6, 8, 12, 16, 20, 24));
  }
  return shape;
}

DType any_dtype() { return static_cast<DType>(draw_in(0, kDTypeCount)); }

Manifest any_manifest() {
  Manifest manifest;
  const auto count = draw_in<size_t>(0, 13);
  for (size_t i = 0; i < count; ++i) {
    const auto leaf = draw_of<std::string>(
        {"q_proj/kernel", "up_proj/kernel", "norm/scale", "bias"});
    const std::string name = "layers/" + std::to_string(i) + "/" + leaf;
    ENSURE(manifest.add(name, draw_tensor_type(), {}));
  }
  return manifest;
}

}  // namespace

Mesh draw_mesh() {
  return *rc::gen::exec([] {
    const auto count = draw_in<size_t>(1, 5);
    std::vector<Axis> axes;
    for (size_t i = 0; i < count; ++i) {
      axes.push_back({kAxisNames[i], draw_in<int64_t>(1, 6)});
    }
    return Mesh(std::move(axes));
  });
}

PartitionSpec draw_legal_spec(const Mesh& mesh, size_t rank) {
  return *rc::gen::exec(
      [axes = mesh.axes(), rank] { return legal_spec(axes, rank); });
}

PartitionSpec draw_any_spec() { return *rc::gen::exec(&any_spec); }

Shape draw_shape(size_t max_rank) {
  return *rc::gen::exec([max_rank] { return any_shape(max_rank); });
}

DType draw_dtype() { return *rc::gen::exec(&any_dtype); }

TensorType draw_tensor_type(size_t max_rank) {
  return *rc::gen::exec([max_rank] {
    return TensorType{draw_dtype(), draw_shape(max_rank)};
  });
}

Manifest draw_manifest() { return draw_manifest(&any_manifest); }

Manifest draw_manifest(Manifest (*draw)()) {
  return *rc::gen::exec([draw] { return draw(); });
}

}  // namespace shardplan::testing
