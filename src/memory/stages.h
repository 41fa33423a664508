// SPDX-License-Identifier: Apache-2.0
// Layers: which parameters belong together, known by their names.
//
// A group is what is gathered at once and lives on one pipeline stage: a layer
// (the name up to and including its first number, `model/layers/7`), or a
// module outside of layers (`lm_head`). Models that are scanned over layers
// have one tensor for all of them instead, stacked along its first or second
// dimension; those of one stack (`decoder/layers`) form one group.
// Names are read once: what costs as much as there are groups or forms is left
// for every budget.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/diagnostic.h"
#include "core/fold.h"
#include "core/manifest.h"
#include "core/mesh.h"
#include "core/plan.h"
#include "resolve/device_memory.h"

namespace shardplan {

// Groups of equal form hold equal kinds of parameters, equally often.
struct GroupForm {
  struct Member {
    uint32_t kind = 0;
    int64_t count = 0;

    bool operator==(const Member&) const = default;
  };
  std::string label;     // "model/layers/*"
  int stacked_dim = -1;  // of its tensors, along which layers are stacked
  int64_t layers = 1;    // in such a stack
  std::vector<Member> members;  // by kind
  int64_t groups = 0;

  bool is_stacked() const { return stacked_dim >= 0; }
};

// Where a group outside of layers stands, by its name.
enum class GroupPlace : uint8_t { Unknown, Embedding, Norm, Head };

struct LayerGroup {
  std::string name;  // "model/layers/7"
  uint32_t form = 0;
  int64_t stack = -1;   // which run of numbered layers; -1: none
  int64_t number = -1;  // in its stack
  GroupPlace place = GroupPlace::Unknown;
  // The table of token embeddings, which a model without a head uses as one.
  bool is_token_embedding = false;
  size_t first = 0;  // its first parameter
};

struct LayerGroups {
  std::vector<LayerGroup> groups;  // in order of first appearance
  std::vector<GroupForm> forms;
  std::vector<LayerStack> stacks;
  std::vector<uint32_t> group_of;  // per parameter of the manifest
  bool has_head = false;  // with a matrix of its own onto the vocabulary
  // Layers that predict further tokens embed these with the model's table.
  bool embeds_further_tokens = false;
};

// `kind_of` gives each parameter's kind: what must be equal for two to cost
// the same, such as a plan's placement numbers. O(parameters).
LayerGroups layer_groups(const Manifest& manifest,
                         std::span<const uint32_t> kind_of);

// Stages: which layers, and what stands before and after them, live where on a
// pipeline axis.
//
// Layers are split contiguously, as even as can be, the remainder to the first
// stages. The embedding is on the first stage, the final norm and the head on
// the last; a model without a matrix of its own onto the vocabulary uses the
// embedding as one, so it is on both. It is on both as well where layers that
// predict further tokens have no embedding of their own, since they embed these
// tokens (Megatron-core, GPTModel: `mtp_process`). Other tensors outside of
// layers go by their place in the manifest: those before the first layer to the
// first stage, the others to the last. Layers beyond the number that the facts
// say (multi-token prediction) are on the last stage, as in Megatron. A tensor
// whose spec names the pipeline axis is cut over it as planned, and so on every
// stage. Invariant: every parameter is on at least one stage.

// A pipeline over one mesh axis: whole layers, embedding first, head last.
struct Stages {
  AxisName axis;
  std::vector<int64_t> layers;  // per stage; empty: as even as can be
};

struct StagePlan {
  size_t axis = 0;  // of the mesh
  int64_t stages = 1;
  int64_t layers = 0;
  std::vector<std::pair<int64_t, int64_t>> ranges;  // of layers, [begin, end)
  // Per group of LayerGroups: its stages, one or (a tied embedding) two; none
  // for a group of stacked layers, which its spec must cut.
  std::vector<std::vector<int64_t>> stages_of;
  std::string tied;          // the group that is on two stages; "" if none
  bool has_head = false;     // then further tokens are what it is there for
  int64_t extra_layers = 0;  // beyond the facts, on the last stage
  bool uneven = false;       // layers do not divide by stages
  bool named = false;        // somebody said how many layers each has

  std::vector<int64_t> layers_of_stages() const;
};

// Empty, with the reason reported (SP010): no such axis, layers that are not
// known, a sum of layers that is not the model's, more stages than layers.
// `cut_by_axis[kind]`: its spec names the axis.
std::optional<StagePlan> plan_stages(const Manifest& manifest, const Mesh& mesh,
                                     const LayerGroups& groups,
                                     const std::vector<bool>& cut_by_axis,
                                     const Stages& stages, Diagnostics& diags);

// The same under a plan, whose layers are `groups`.
std::optional<StagePlan> stages_of_plan(const Manifest& manifest,
                                        const Plan& plan,
                                        const LayerGroups& groups,
                                        const Stages& stages,
                                        Diagnostics& diags);
// The stages that hold each parameter under such a plan.
// Null where plan_stages() refuses them.
std::shared_ptr<const ParameterStages> parameter_stages(
    const Manifest& manifest, const Plan& plan, const LayerGroups& groups,
    const Stages& stages);

// "stage 0: embedding, layers 0-7"
std::string stage_label(const StagePlan& plan, const LayerGroups& groups,
                        int64_t stage);

}  // namespace shardplan
