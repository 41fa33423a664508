// SPDX-License-Identifier: Apache-2.0
// Stages: the groups of parameters (layers and other modules) of a model, and
// the stages of a pipeline that hold them. Both are recognized by names.
//
// A group is gathered as one and is on one pipeline stage: a layer (the name up
// to and including its first number, `model/layers/7`), or a module outside the
// layers (`lm_head`). Models that are scanned over layers have one tensor for
// all layers instead, stacked along its first or second dimension; the tensors
// of one stack (`decoder/layers`) form one group.
//
// Names are read once, so that each budget only costs as much as there are
// groups or forms.
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

// The form of a group. Groups of equal form have equal kinds of parameters in
// equal numbers.
struct GroupForm {
  struct Member {
    uint32_t kind = 0;
    int64_t count = 0;

    bool operator==(const Member&) const = default;
  };
  std::string label;     // "model/layers/*"
  int stacked_dim = -1;  // dimension of its tensors that stacks layers; -1:
                         // none
  int64_t layers = 1;    // in such a stack
  std::vector<Member> members;  // by kind
  int64_t groups = 0;

  bool is_stacked() const { return stacked_dim >= 0; }
};

// The position of a group outside the layers, by its name.
enum class GroupPlace : uint8_t { Unknown, Embedding, Norm, Head };

struct LayerGroup {
  std::string name;  // "model/layers/7"
  uint32_t form = 0;
  int64_t stack = -1;   // index of its run of numbered layers; -1: none
  int64_t number = -1;  // in its stack
  GroupPlace place = GroupPlace::Unknown;
  // The token embedding, which a model without a head also uses as its head.
  bool is_token_embedding = false;
  size_t first = 0;  // its first parameter
};

struct LayerGroups {
  std::vector<LayerGroup> groups;  // in order of first appearance
  std::vector<GroupForm> forms;
  std::vector<LayerStack> stacks;
  std::vector<uint32_t> group_of;  // per parameter of the manifest
  bool has_head = false;  // with a matrix of its own onto the vocabulary
  // Whether layers that predict further tokens embed these with the model's
  // token embedding.
  bool embeds_further_tokens = false;
};

// Groups the parameters. `kind_of` gives each parameter's kind: parameters of
// equal kind have equal cost, as those of one placement of a plan.
// O(parameters).
LayerGroups layer_groups(const Manifest& manifest,
                         std::span<const uint32_t> kind_of);

// Placement on stages.
//
// Layers are split contiguously and as evenly as possible, with the remainder
// on the first stages. The embedding is on the first stage; the final norm and
// the head are on the last. A model without its own matrix onto the vocabulary
// uses the embedding as head, so the embedding is on both stages. It is also on
// both if layers that predict further tokens have no embedding of their own,
// since they embed these tokens (Megatron-core, GPTModel: `mtp_process`). The
// position in the manifest decides for other tensors outside the layers: those
// before the first layer are on the first stage, the others on the last. Layers
// beyond the number in the facts (multi-token prediction) are on the last
// stage, as in Megatron. A tensor whose spec names the pipeline axis is sharded
// over it as planned, so every stage has a part. Invariant: every parameter is
// on at least one stage.

// A pipeline over one mesh axis.
struct Stages {
  AxisName axis;
  std::vector<int64_t> layers;  // per stage; empty: as even as possible
};

struct StagePlan {
  size_t axis = 0;  // index in all_axes() of the mesh
  int64_t stages = 1;
  int64_t layers = 0;
  std::vector<std::pair<int64_t, int64_t>> ranges;  // layers of each stage,
                                                    // [begin, end)
  // Per group of LayerGroups, its stages: one, or two for a tied embedding;
  // none for a group of stacked layers, which its spec must shard over the
  // axis.
  std::vector<std::vector<int64_t>> stages_of;
  std::string tied;          // the group on two stages; "" if none
  bool has_head = false;     // then the embedding is on both for further tokens
  int64_t extra_layers = 0;  // beyond the facts' number; on the last stage
  bool uneven = false;       // not `named`, and layers are not divisible by
                             // stages
  bool named = false;        // the user named the layers of each stage

  std::vector<int64_t> layers_of_stages() const;
};

// Returns the stages. Returns no value, and reports the reason (SP010), if
// there is no such axis, the layers are unknown, the named layers do not add up
// to the model's, or there are more stages than layers. `cut_by_axis[kind]`:
// whether the spec of the kind names the axis.
std::optional<StagePlan> plan_stages(const Manifest& manifest, const Mesh& mesh,
                                     const LayerGroups& groups,
                                     const std::vector<bool>& cut_by_axis,
                                     const Stages& stages, Diagnostics& diags);

// The same for a plan, whose layer groups are `groups`.
std::optional<StagePlan> stages_of_plan(const Manifest& manifest,
                                        const Plan& plan,
                                        const LayerGroups& groups,
                                        const Stages& stages,
                                        Diagnostics& diags);
// Returns the stages that hold each parameter of a plan; null if plan_stages()
// fails.
std::shared_ptr<const ParameterStages> parameter_stages(
    const Manifest& manifest, const Plan& plan, const LayerGroups& groups,
    const Stages& stages);

// Returns "stage 0: embedding, layers 0-7".
std::string stage_label(const StagePlan& plan, const LayerGroups& groups,
                        int64_t stage);

}  // namespace shardplan
