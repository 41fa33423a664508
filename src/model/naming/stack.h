// SPDX-License-Identifier: Apache-2.0
// Several tensors of a checkpoint that become one of another program: layers
// and experts that are stacked, matrices that are joined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/manifest.h"
#include "core/types.h"
#include "model/naming/name_scheme.h"

namespace shardplan {

// A tensor while it is renamed.
struct Renamed {
  std::string name;
  TensorType type;
  ParameterKind kind;
  bool buffer = false;
  std::string plain = {};  // what the checkpoint calls it
  Shape plain_shape = {};
  std::vector<TensorView::Move> moves = {};
  bool in_parts = false;  // several are made of it: none is a view of it
};

// One of the tensors that become one.
struct StackMember {
  std::vector<int64_t> at;  // by rule.stack
  size_t part = 0;          // of a join
  std::string module;       // what it was called last: "gate_proj"
  Renamed tensor;
};

struct TensorStack {
  const NameRule* rule = nullptr;
  std::vector<StackMember> members;
};

// Why tensors do not become one.
struct StackMisfit {
  const Renamed* tensor = nullptr;  // one of the members'
  std::string why;
};

// Gives `result`, which has its name, its type and kind, and adds a view for
// every member. REQUIRES: there are members.
std::optional<StackMisfit> join_stack(const TensorStack& stack,
                                      const NameScheme& scheme, Renamed& result,
                                      TensorViews& views);

}  // namespace shardplan
