// SPDX-License-Identifier: Apache-2.0
// join_stack: combines several tensors of a checkpoint into one of another
// program, by stacking layers and experts and by joining matrices.
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

// A tensor that is being renamed.
struct Renamed {
  std::string name;
  TensorType type;
  ParameterKind kind;
  bool buffer = false;
  std::string plain = {};  // name in the checkpoint
  Shape plain_shape = {};
  std::vector<TensorView::Move> moves = {};
  bool in_parts = false;  // it is split into several, so it has no view
};

// One of the tensors that are combined.
struct StackMember {
  std::vector<int64_t> at;  // index per entry of rule.stack
  size_t part = 0;          // of a join
  std::string module;       // the last component of its old name: "gate_proj"
  Renamed tensor;
};

struct TensorStack {
  const NameRule* rule = nullptr;
  std::vector<StackMember> members;
};

// Why tensors cannot be combined.
struct StackMisfit {
  const Renamed* tensor = nullptr;  // one of the members
  std::string why;
};

// Sets type and kind of `result`, which already has its name, and adds a view
// for every member. REQUIRES: there are members.
std::optional<StackMisfit> join_stack(const TensorStack& stack,
                                      const NameScheme& scheme, Renamed& result,
                                      TensorViews& views);

}  // namespace shardplan
