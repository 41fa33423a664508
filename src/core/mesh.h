// SPDX-License-Identifier: Apache-2.0
// Mesh: devices as a grid with named axes, listed major to minor.
//
// Device ids are the row-major index of the coordinates: on `fsdp=4,tp=2`,
// device 3 is fsdp=1, tp=1. Invariant: at least one axis, unique names, sizes
// >= 1, at most 2^40 devices.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"

namespace shardplan {

using AxisName = std::string;
using AxisNames = std::vector<AxisName>;

struct Axis {
  AxisName name;
  int64_t size = 1;

  bool operator==(const Axis&) const = default;
};

inline constexpr int64_t kMaxDevices = int64_t{1} << 40;

// Matches [A-Za-z_][A-Za-z0-9_.-]*.
bool is_axis_name(std::string_view text);

class Mesh {
 public:
  // REQUIRES: the invariant above; make_mesh checks users' axes.
  explicit Mesh(std::vector<Axis> axes);

  const std::vector<Axis>& axes() const { return axes_; }
  int64_t devices() const { return devices_; }
  // Index of an axis by name, major to minor.
  std::optional<size_t> find(std::string_view name) const;
  // 1 for an axis that the mesh does not have.
  int64_t size_of(std::string_view name) const;
  // Coordinates of a device, one per axis. REQUIRES: 0 <= device < devices().
  std::vector<int64_t> coordinates(int64_t device) const;

  bool operator==(const Mesh&) const = default;

 private:
  std::vector<Axis> axes_;
  int64_t devices_ = 1;
};

// An axis as a user wrote it; size -1 means "the rest of the devices".
struct AxisRequest {
  AxisName name;
  int64_t size = 1;
  Span where;  // the whole entry
  Span name_where;
  Span size_where;
};

// Reads `fsdp=4,tp=2` (or `fsdp:4,tp:2`); `text` covers the whole source.
std::optional<std::vector<AxisRequest>> parse_mesh_text(
    const SourceFile& source, Diagnostics& diags);

// Checks names, sizes and their product, and resolves one -1 with `devices`
// (SP007). A full mesh with another number of devices is SP205.
std::optional<Mesh> make_mesh(const std::vector<AxisRequest>& axes,
                              std::optional<int64_t> devices, Span where,
                              Diagnostics& diags);

std::string mesh_text(const Mesh& mesh);  // "fsdp=4,tp=2"

}  // namespace shardplan
