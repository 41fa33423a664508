// SPDX-License-Identifier: Apache-2.0
// ReservedMemory: all device memory that a training step takes, namely its
// allocations, what the framework's allocator reserves beyond them, and what
// the process uses outside the allocator. nvidia-smi shows this total; the
// bracket (activations/bracket.h) covers only the allocations.
//
//   TorchCaching  PyTorch's CUDACachingAllocator rounds tensors up to multiples
//                 of 512 bytes, and serves them from segments of 2 MiB (tensors
//                 up to 1 MiB), 20 MiB (up to 10 MiB) or multiples of 2 MiB. At
//                 least, every segment but the last is full. The estimate is
//                 the same, because expandable_segments and sizes that repeat
//                 every step achieve it; single-device eager steps add the
//                 median of replayed steps. At most, 43 % of the reserved
//                 memory is not allocated, the worst case that STAlloc's
//                 authors measured (arXiv:2507.16274; GMLake's, 33 %,
//                 arXiv:2401.08156), or 31 % in replayed single-device eager
//                 steps. No bound is proved: best fit without compaction may
//                 need n times the live bytes, where tensor sizes differ by a
//                 factor of n (Robson, 1977).
//   XlaArena      JAX takes 0.75 of a GPU's memory when it starts, whatever the
//                 step needs, and no more later (XLA_CLIENT_MEM_FRACTION;
//                 docs.jax.dev, GPU memory allocation).
//
// Neither applies to TPUs, whose profiles state the usable memory.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "activations/bracket.h"
#include "activations/framework.h"
#include "core/mesh.h"
#include "memory/budget.h"

namespace shardplan {

struct ReservedRow {
  std::string category;  // "allocated", "allocator", "arena", ..
  std::string title;
  std::array<int64_t, kSavingModes> bytes{};
  std::string source;  // "" if computed
};

struct ReservedMemory {
  std::vector<ReservedRow> rows;
  std::array<int64_t, kSavingModes> total{};  // sums of the rows
  // The arena that the step has to fit into, if the framework takes one at
  // start.
  std::optional<int64_t> arena;
};

// Adds up the reserved memory. Empty if nothing is known: the framework or the
// arena's memory size is unknown, the devices are no GPUs, or a total exceeds
// 63 bits. Each axis of the mesh adds connections for its collectives; with
// experts, a further all-to-all group spans all devices.
std::optional<ReservedMemory> reserved_memory(
    const MemoryBracket& bracket, const FrameworkDef& framework,
    const Mesh& mesh, bool has_experts,
    const std::optional<DeviceLimit>& limit);

}  // namespace shardplan
