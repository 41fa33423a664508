// SPDX-License-Identifier: Apache-2.0
// What a device has taken from it in a training step, beyond what is allocated:
// what the framework's allocator reserves, and what a process has outside of
// it. This is what nvidia-smi shows; the bracket (activations/bracket.h) is
// what is allocated.
//
//   TorchCaching  PyTorch's CUDACachingAllocator: tensors take multiples of 512
//                 bytes, out of segments of 2 MiB (tensors up to 1 MiB), 20 MiB
//                 (up to 10) or multiples of 2 MiB. At least, all is full but
//                 the last segment; that is also the estimate, as segments that
//                 grow (expandable_segments) and sizes that come again every
//                 step have it. At most 43 % of what is reserved is not
//                 allocated, the worst that STAlloc's authors measured
//                 (arXiv:2507.16274; GMLake's, 33 %, arXiv:2401.08156). No
//                 bound is proved: a best fit without moving may need as many
//                 times what is alive as tensors differ in size (Robson, 1977).
//   XlaArena      JAX takes 0.75 of a GPU's memory when it starts, whatever the
//                 step needs, and none later (XLA_CLIENT_MEM_FRACTION;
//                 docs.jax.dev, GPU memory allocation).
//
// On TPUs neither holds: what is usable of them is in their profiles.
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
  std::array<int64_t, kKeepings> bytes{};
  std::string source;  // "" of what is computed
};

struct ReservedMemory {
  std::vector<ReservedRow> rows;
  std::array<int64_t, kKeepings> total{};  // sums of the rows
  // What the step has to fit into, where that is taken at the start.
  std::optional<int64_t> arena;
};

// Empty where nothing is known: of no framework, of devices that are no GPUs,
// of an arena of a memory that nothing states, beyond 63 bits. A group of
// devices exchanges over each axis of the mesh; with experts one of them sends
// from all to all.
std::optional<ReservedMemory> reserved_memory(
    const MemoryBracket& bracket, const FrameworkDef& framework,
    const Mesh& mesh, bool has_experts,
    const std::optional<DeviceLimit>& limit);

}  // namespace shardplan
