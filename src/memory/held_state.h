// SPDX-License-Identifier: Apache-2.0
// Held state: the leaves of all parameters of a plan, and the bytes of them
// that a device holds.
//
// Leaves are kept per kind of parameter (its placement, or what state rules
// make of it), so a sum over a device costs as much as there are kinds.
// A flat buffer gathers one role of all weights of a dtype over the same axes;
// under muon, matrices and others apart, as the groups of parameters are.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "base/checked.h"
#include "core/plan.h"
#include "memory/state.h"
#include "memory/state_rules.h"
#include "resolve/device_classes.h"

namespace shardplan {

// All leaves of one role and dtype.
struct LeafSum {
  StateKind kind = StateKind::Parameter;
  std::string_view role;
  DType dtype = DType::F32;
  int64_t tensors = 0;
  Int128 logical = 0;            // bytes, each once
  int64_t bytes_per_device = 0;  // on the fullest device
  Int128 padding = 0;            // bytes over all devices
  // Bytes on the fullest device that ZeRO should have sharded and could not.
  int64_t unsharded = 0;
};

// A leaf of all parameters of one kind.
struct KindLeaf {
  uint32_t kind = 0;
  StateLeaf leaf;
  size_t sum = 0;       // of HeldState::sums
  size_t buffer = 0;    // of HeldState::buffers, where its layout is Buffer
  bool uneven = false;  // its shards differ between devices
};

struct FlatBuffer {
  StateKind kind = StateKind::Parameter;
  std::string_view role;
  DType weights = DType::F32;  // whose buffer it goes with
  DType dtype = DType::F32;
  AxisNames axes;         // that share it, or could
  bool matrices = false;  // muon's group
  size_t sum = 0;         // of HeldState::sums
  int64_t ranks = 1;      // that its end is padded for
  int64_t shared_by = 1;
};

struct HeldState {
  std::vector<KindLeaf> leaves;  // by kind, the parameter first
  std::vector<FlatBuffer> buffers;
  std::vector<LeafSum> sums;  // roles and dtypes; the numbers are not filled
  // Coordinates at which shards change, under `chunk`.
  Breakpoints breakpoints;
};

// Kinds of a plan: `specs` where state rules were given, else its placements.
size_t kind_count(const Plan& plan, const StateSpecs* specs);
const Placement& kind_placement(const Plan& plan, const StateSpecs* specs,
                                size_t kind);

// REQUIRES: check_state_options.
HeldState hold_state(const Plan& plan, const StateOptions& options,
                     const StateSpecs* specs);

// Calls add(sum, kind, bytes) for all that the device at these coordinates
// holds, when it holds counts[kind] parameters of each kind.
void visit_held(const HeldState& held, const Mesh& mesh,
                const StateOptions& options, const std::vector<int64_t>& counts,
                const std::vector<int64_t>& coordinates,
                const std::function<void(size_t, StateKind, Int128)>& add);

}  // namespace shardplan
