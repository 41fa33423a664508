// SPDX-License-Identifier: Apache-2.0
// Links: what a collective over axes of the mesh crosses, and how long it takes
// there.
//
// Devices are numbered as the mesh numbers them, major to minor, and lie in
// that order: those of one domain of the fastest link (8 GPUs of a node) have
// consecutive numbers. So an axis that varies fast lies inside domains, a slow
// one between them. Units: bytes, seconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/collective.h"
#include "core/hardware.h"
#include "core/mesh.h"
#include "cost/kernels.h"

namespace shardplan {

// A line or ring of a torus.
struct TorusAxis {
  int64_t size = 1;
  bool closed = false;  // a ring

  bool operator==(const TorusAxis&) const = default;
};

// The ranks of one collective, as links see them.
struct RankPlaces {
  int64_t ranks = 1;
  // Per tier of the profile's links, how many of the ranks lie in one domain of
  // it, with the domains of the tiers before it counted as one: {4, 8} is four
  // ranks in each node and eight nodes. Their product is `ranks`.
  std::vector<int64_t> per_tier;
  // What the ranks of a torus tier lie along; empty where there is none.
  std::vector<TorusAxis> torus_axes;
  // Whether every domain has the same number of ranks, so that `per_tier` holds
  // for all of these collectives; else it is that of the most scattered one.
  bool even = true;
};

// Empty where the profile has no link that reaches so far. `slices` (of the
// mesh's own axes) are what the last but one tier connects, where they are
// known: each a torus of its own.
std::optional<RankPlaces> places_of(const HardwareProfile& card,
                                    const Mesh& mesh, const AxisNames& axes,
                                    const Slices* slices = nullptr);

// "nvlink inside 8 devices"; "8 domains over infiniband, 4 ranks each over
// nvlink"
std::string places_text(const HardwareProfile& card, const RankPlaces& places);

// `payload` in bytes, as comm/collective.h defines it for the kind. Lower: its
// bytes over every cut at full bandwidth, without start-up.
std::optional<PricedTime> collective_time(const HardwareProfile& card,
                                          CollectiveKind kind,
                                          const RankPlaces& places,
                                          double payload);

}  // namespace shardplan
