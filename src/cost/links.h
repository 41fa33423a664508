// SPDX-License-Identifier: Apache-2.0
// Links: which links a collective over axes of the mesh crosses, and how long
// it takes there.
//
// Devices are numbered as the mesh numbers them, major to minor, and placed in
// that order: those of one domain of the fastest link (8 GPUs of a node) have
// consecutive numbers. So an axis that varies fast is inside domains, a slow
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

// The ranks of one collective, by the links between them.
struct RankPlaces {
  int64_t ranks = 1;
  // Per tier of the profile's links, how many of the ranks are in one domain of
  // it, with each domain of the tiers before it counted as one: {4, 8} is four
  // ranks in each node and eight nodes. Their product is `ranks`.
  std::vector<int64_t> per_tier;
  // The lines and rings that connect the ranks of a torus tier; empty if there
  // is none.
  std::vector<TorusAxis> torus_axes;
  // Every domain has the same number of ranks, so that `per_tier` describes all
  // of these collectives. Otherwise it describes the most scattered one.
  bool even = true;
};

// Returns where the ranks of a collective are, or nothing if the profile has no
// link that reaches that far. `slices` (of the mesh's own axes), if known, are
// the domains of the last tier but one, each a torus of its own.
std::optional<RankPlaces> places_of(const HardwareProfile& card,
                                    const Mesh& mesh, const AxisNames& axes,
                                    const Slices* slices = nullptr);

// Returns text such as "nvlink inside 8 devices" or "8 domains over infiniband,
// 4 ranks each over nvlink".
std::string places_text(const HardwareProfile& card, const RankPlaces& places);

// Returns the time of a collective. `payload` is in bytes, as comm/collective.h
// defines it for the kind. The lower end sends its bytes over every cut at full
// bandwidth, without start-up.
std::optional<PricedTime> collective_time(const HardwareProfile& card,
                                          CollectiveKind kind,
                                          const RankPlaces& places,
                                          double payload);

}  // namespace shardplan
