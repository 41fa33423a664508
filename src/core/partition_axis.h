// SPDX-License-Identifier: Apache-2.0
// Mode: what the model is run for. It decides which semantic axis table
// applies, and whether there is training state or a KV cache.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "core/mesh.h"
#include "core/spec.h"

namespace shardplan {

enum class Mode : uint8_t { Train, Prefill, Decode, Insert };

// In the order of Mode.
inline constexpr std::array<std::string_view, 4> kModeNames = {
    "train", "prefill", "decode", "insert"};

inline std::string_view mode_name(Mode mode) {
  return kModeNames.at(static_cast<size_t>(mode));
}

inline std::optional<Mode> find_mode(std::string_view name) {
  for (size_t i = 0; i < kModeNames.size(); ++i) {
    if (kModeNames.at(i) == name) return static_cast<Mode>(i);
  }
  return std::nullopt;
}

// PartitionAxis: which mesh axes a semantic axis (`BATCH`, `HEAD`, `EMBED`)
// means, in training and in generation.
//
// Source: eformer's PartitionAxis. Fields that are not given follow others:
// head_axis the tensor-parallel axis, decode_head_axis whatever head_axis is.
// In generation (decode, insert) seven fields are replaced by their decode_*
// twins, unless the twin is None: "unsharded in decode" cannot be said there.

inline constexpr size_t kPartitionFields = 27;

// None (no axes), one axis, or a tuple of axes. Python tells `"dp"` from
// `("dp",)`, and so does a spec that contains one within a list.
struct AxisValue {
  AxisNames axes;
  bool is_tuple = false;

  bool operator==(const AxisValue&) const = default;
};

struct PartitionField {
  std::string_view name;   // "head_axis"
  std::string_view token;  // "__HEAD__"; "" for decode_* fields
  int decode = -1;         // number of its decode_* twin, or -1
};
std::span<const PartitionField, kPartitionFields> partition_fields();
std::optional<size_t> find_partition_field(std::string_view name);

// Values by field. Before resolve_partition_axis, an absent one is still to be
// derived; afterwards none is absent.
using PartitionAxis = std::array<std::optional<AxisValue>, kPartitionFields>;

// Literal defaults ("dp", "fsdp", "tp", "sp", "ep", None) set, the others
// absent.
PartitionAxis default_partition_axis();
// Derives what is absent. Refusal (SP002) of a field that has no
// default to derive; the first in order is named.
std::optional<PartitionAxis> resolve_partition_axis(PartitionAxis given,
                                                    Diagnostics& diags);

// An entry of a semantic spec: None (no token), a token, or several of them.
enum class EntryKind : uint8_t { One, List, Tuple };
struct SemanticEntry {
  std::vector<std::string> tokens;  // "_" is None, too
  EntryKind kind = EntryKind::One;
};

// eformer of January 2026 takes lists but no tuples, no list in generation, and
// within a list no mesh axis; later versions do.
enum class EformerVersion : uint8_t { Current, January2026 };

// The field that a token stands for: "__HEAD__" or, when `short_form`, "HEAD",
// and "TP" for "__TENSOR_PARALLEL__".
std::optional<size_t> find_semantic_token(std::string_view token,
                                          bool short_form);

// What each item of an entry resolves to. Within a list, mesh axes and names of
// fields stand for themselves and their values; elsewhere an unknown name is
// refused (SP201).
std::optional<std::vector<AxisValue>> resolve_entry(const PartitionAxis& axis,
                                                    const SemanticEntry& entry,
                                                    Mode mode,
                                                    EformerVersion version,
                                                    Diagnostics& diags);
// The spec; a list that contains a tuple is refused (SP002), as PartitionSpec
// does. None within a list is the axis name "", as elsewhere.
std::optional<PartitionSpec> resolve_semantic_spec(
    const PartitionAxis& axis, std::span<const SemanticEntry> entries,
    Mode mode, EformerVersion version, Diagnostics& diags);

// Named lists of semantic axes; the mode follows from the size of dimension
// `decode_dim` of an array (1: decode), or is always training.
struct ShardingPreset {
  std::string_view name;
  std::vector<SemanticEntry> entries;
  std::optional<int> decode_dim;
};
std::span<const ShardingPreset> sharding_presets();
const ShardingPreset* find_sharding_preset(std::string_view name);

}  // namespace shardplan
