// SPDX-License-Identifier: Apache-2.0
// Mode: the phase of the model that is planned. It determines which semantic
// axis table applies, and whether there is training state or a KV cache.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/checked.h"
#include "base/diagnostic.h"
#include "core/mesh.h"
#include "core/spec.h"

namespace shardplan {

enum class Mode : uint8_t { Train, Prefill, Decode, Insert };

// In the order of Mode.
inline constexpr std::array<std::string_view, 4> kModeNames = {
    "train", "prefill", "decode", "insert"};

inline std::string_view mode_name(Mode mode) { return nth(kModeNames, mode); }

inline std::optional<Mode> find_mode(std::string_view name) {
  for (size_t i = 0; i < kModeNames.size(); ++i) {
    if (kModeNames.at(i) == name) return static_cast<Mode>(i);
  }
  return std::nullopt;
}

// PartitionAxis: the mesh axes of each semantic axis (`BATCH`, `HEAD`,
// `EMBED`), in training and in generation.
//
// Source: eformer's PartitionAxis. Absent fields default to other fields:
// head_axis to the tensor-parallel axis, decode_head_axis to head_axis. In
// generation (decode, insert) the decode_* twins of seven fields replace them,
// unless the twin is None: eformer cannot express "unsharded in decode".

inline constexpr size_t kPartitionFields = 27;

// None (no axes), one axis, or a tuple of axes. Python distinguishes `"dp"`
// from `("dp",)`, and so does a spec that contains one of them within a list.
struct AxisValue {
  AxisNames axes;
  bool is_tuple = false;

  bool operator==(const AxisValue&) const = default;
};

struct PartitionField {
  std::string_view name;   // "head_axis"
  std::string_view token;  // "__HEAD__"; "" for decode_* fields
  int decode = -1;         // index of its decode_* twin, or -1
};
std::span<const PartitionField, kPartitionFields> partition_fields();
std::optional<size_t> find_partition_field(std::string_view name);

// Values by field. An absent value is derived by resolve_partition_axis, whose
// result has no absent values.
using PartitionAxis = std::array<std::optional<AxisValue>, kPartitionFields>;

// Returns the literal defaults ("dp", "fsdp", "tp", "sp", "ep", None); all
// other fields are absent.
PartitionAxis default_partition_axis();
// Derives the absent values. Reports SP002 for the first field that has no
// default to derive.
std::optional<PartitionAxis> resolve_partition_axis(PartitionAxis given,
                                                    Diagnostics& diags);

// An entry of a semantic spec: None (no token), one token, or several.
enum class EntryKind : uint8_t { One, List, Tuple };
struct SemanticEntry {
  std::vector<std::string> tokens;  // "_" also means None
  EntryKind kind = EntryKind::One;
};

// eformer of January 2026 accepts lists but no tuples, no list in generation,
// and no mesh axis within a list; later versions accept all of them.
enum class EformerVersion : uint8_t { Current, January2026 };

// Returns the field of a token: "__HEAD__" or, if `short_form`, "HEAD" and, for
// "__TENSOR_PARALLEL__", "TP".
std::optional<size_t> find_semantic_token(std::string_view token,
                                          bool short_form);

// Resolves each item of an entry. Within a list, mesh axes stand for themselves
// and field names for their values; elsewhere an unknown name is an error
// (SP201).
std::optional<std::vector<AxisValue>> resolve_entry(const PartitionAxis& axis,
                                                    const SemanticEntry& entry,
                                                    Mode mode,
                                                    EformerVersion version,
                                                    Diagnostics& diags);
// Resolves a whole spec. A list that contains a tuple is an error (SP002), as
// in PartitionSpec. None within a list becomes the axis name "", as elsewhere.
std::optional<PartitionSpec> resolve_semantic_spec(
    const PartitionAxis& axis, std::span<const SemanticEntry> entries,
    Mode mode, EformerVersion version, Diagnostics& diags);

// A named list of semantic axes. Its mode follows from the size of dimension
// `decode_dim` of an array (1: decode); without `decode_dim` it is training.
struct ShardingPreset {
  std::string_view name;
  std::vector<SemanticEntry> entries;
  std::optional<int> decode_dim;
};
std::span<const ShardingPreset> sharding_presets();
const ShardingPreset* find_sharding_preset(std::string_view name);

}  // namespace shardplan
