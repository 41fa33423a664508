// SPDX-License-Identifier: Apache-2.0
#include "evaluate/reserved.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "memory/outside.h"

namespace shardplan {
namespace {

constexpr int64_t kSegment = int64_t{2} << 20;
// The smallest share of PyTorch's reserved memory that is allocated, in
// percent: of any program, and of single-device eager steps.
constexpr int64_t kLeastPercentUsed = 57;
constexpr int64_t kLeastPercentUsedAlone = 69;
// The reserve of such a step's allocator beyond its allocations, in percent, at
// the median: without recompute, and with it.
constexpr int64_t kPercentBeyond = 8;
constexpr int64_t kPercentBeyondRepeated = 24;
constexpr int64_t kArenaPercent = 75;

bool is_gpu(const FrameworkDef& framework,
            const std::optional<DeviceLimit>& limit) {
  if (limit && !limit->vendor.empty()) {
    return limit->vendor == "NVIDIA" || limit->vendor == "AMD";
  }
  // The vendor is unknown: PyTorch's caching allocator runs on GPUs.
  return framework.allocator == Allocator::TorchCaching;
}

// Returns the bytes that round `allocated` up to whole segments.
Int128 to_segments(int64_t allocated) {
  return (kSegment - allocated % kSegment) % kSegment;
}

class Rows {
 public:
  void add(std::string category, std::string title,
           const std::array<Int128, kSavingModes>& bytes, std::string source) {
    ReservedRow row{
        std::move(category), std::move(title), {}, std::move(source)};
    for (size_t k = 0; k < kSavingModes; ++k) {
      const Int128 total = made_.total[k] + bytes.at(k);
      fits_ = fits_ && total <= INT64_MAX;
      if (!fits_) return;
      row.bytes[k] = static_cast<int64_t>(bytes.at(k));
      made_.total[k] = static_cast<int64_t>(total);
    }
    made_.rows.push_back(std::move(row));
  }
  void add(std::string category, std::string title, OutsideRange range) {
    add(std::move(category), std::move(title),
        {range.lower, range.estimate, range.upper}, std::move(range.source));
  }
  void set_arena(int64_t bytes) { made_.arena = bytes; }

  std::optional<ReservedMemory> made() const {
    return fits_ ? std::optional(made_) : std::nullopt;
  }

 private:
  ReservedMemory made_;
  bool fits_ = true;
};

void add_torch(const MemoryBracket& bracket, bool is_alone, Rows& rows) {
  const auto& total = bracket.total;
  rows.add("allocated", "allocated", {total[0], total[1], total[2]}, "");
  const bool is_measured = is_alone && bracket.is_eager;
  const int64_t used = is_measured ? kLeastPercentUsedAlone : kLeastPercentUsed;
  const Int128 most = (Int128{total[2]} * 100 + used - 1) / used;
  const int64_t percent = !is_measured         ? 0
                          : bracket.recomputes ? kPercentBeyondRepeated
                                               : kPercentBeyond;
  rows.add("allocator", "allocator overhead",
           {std::min(to_segments(total[0]), to_segments(total[1])),
            to_segments(total[1]) + Int128{total[1]} * percent / 100,
            most - total[2] + kSegment},
           is_measured
               ? "PyTorch's allocator, replayed over training steps: up to 31 "
                 "% of its reserved memory"
               : "arXiv:2507.16274: up to 43 % of PyTorch's reserved memory");
}

void add_connections(const Mesh& mesh, bool has_experts, Rows& rows) {
  bool first = true;
  for (const Axis& axis : mesh.axes()) {
    if (axis.size == 1) continue;
    rows.add("connections", "connections over " + axis.name,
             first ? connections_range(axis.size)
                   : further_connections_range(axis.size, false));
    first = false;
  }
  if (!first && has_experts) {
    rows.add("connections", "connections for experts",
             further_connections_range(mesh.devices(), true));
  }
}

}  // namespace

std::optional<ReservedMemory> reserved_memory(
    const MemoryBracket& bracket, const FrameworkDef& framework,
    const Mesh& mesh, bool has_experts,
    const std::optional<DeviceLimit>& limit) {
  if (!is_gpu(framework, limit)) return std::nullopt;
  Rows rows;
  switch (framework.allocator) {
    case Allocator::Unknown:
      return std::nullopt;
    case Allocator::TorchCaching:
      add_torch(bracket, mesh.devices() == 1, rows);
      break;
    case Allocator::XlaArena: {
      const Int128 arena = Int128{limit->nominal} * kArenaPercent / 100;
      rows.add("arena", "arena, preallocated", {arena, arena, arena},
               "docs.jax.dev, GPU memory allocation: 75 % of the GPU's memory");
      rows.set_arena(static_cast<int64_t>(arena));
      break;
    }
  }
  rows.add("context", "context and libraries", context_range());
  add_connections(mesh, has_experts, rows);
  return rows.made();
}

}  // namespace shardplan
