// SPDX-License-Identifier: Apache-2.0
#include "core/partition_axis.h"

#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"

namespace shardplan {
namespace {

enum Field : uint8_t {
  kDp,
  kFsdp,
  kTp,
  kSp,
  kEp,
  kBatch,
  kSequence,
  kQuerySequence,
  kHead,
  kKvHead,
  kKeySequence,
  kHiddenState,
  kMlp,
  kVocab,
  kExpert,
  kExpertGate,
  kAttentionDim,
  kAttentionKvDim,
  kBiasHeadSequence,
  kBiasKeySequence,
  kDecodeBatch,
  kDecodeQuerySequence,
  kDecodeHead,
  kDecodeKvHead,
  kDecodeKeySequence,
  kDecodeAttentionDim,
  kDecodeAttentionKvDim,
};

constexpr std::array<PartitionField, kPartitionFields> kFields = {{
    {"data_parallel_axis", "__DATA_PARALLEL__"},
    {"fully_sharded_data_parallel_axis", "__FULLY_SHARDED_DATA_PARALLEL__"},
    {"tensor_parallel_axis", "__TENSOR_PARALLEL__"},
    {"sequence_parallel_axis", "__SEQUENCE_PARALLEL__"},
    {"expert_parallel_axis", "__EXPERT_PARALLEL__"},
    {"batch_axis", "__BATCH__", kDecodeBatch},
    {"sequence_axis", "__LENGTH__"},
    {"query_sequence_axis", "__QUERY_LENGTH__", kDecodeQuerySequence},
    {"head_axis", "__HEAD__", kDecodeHead},
    {"kv_head_axis", "__KV_HEAD__", kDecodeKvHead},
    {"key_sequence_axis", "__KV_LENGTH__", kDecodeKeySequence},
    {"hidden_state_axis", "__EMBED__"},
    {"mlp_intermediate_axis", "__MLP_INTERMEDIATE__"},
    {"vocab_axis", "__VOCAB__"},
    {"expert_axis", "__EXPERT__"},
    {"expert_gate_axis", "__EXPERT_GATE__"},
    {"attention_dim_axis", "__HEAD_DIM__", kDecodeAttentionDim},
    {"attention_kv_dim_axis", "__KV_HEAD_DIM__", kDecodeAttentionKvDim},
    {"bias_head_sequence_axis", "__BIAS_HEAD_SEQ__"},
    {"bias_key_sequence_axis", "__BIAS_KV_SEQ__"},
    {"decode_batch_axis", ""},
    {"decode_query_sequence_axis", ""},
    {"decode_head_axis", ""},
    {"decode_kv_head_axis", ""},
    {"decode_key_sequence_axis", ""},
    {"decode_attention_dim_axis", ""},
    {"decode_attention_kv_dim_axis", ""},
}};

// Fields that default to another field.
constexpr std::array<std::pair<Field, Field>, 13> kFollows = {{
    {kSequence, kSp},
    {kQuerySequence, kSp},
    {kKeySequence, kSp},
    {kHead, kTp},
    {kKvHead, kTp},
    {kHiddenState, kTp},
    {kMlp, kTp},
    {kVocab, kTp},
    {kExpert, kEp},
    {kDecodeBatch, kBatch},
    {kDecodeHead, kHead},
    {kDecodeKvHead, kKvHead},
    {kDecodeKeySequence, kKeySequence},
}};

// eformer's short names for its mesh axes.
constexpr std::array<std::pair<std::string_view, Field>, 5> kAliases = {{
    {"DP", kDp},
    {"FSDP", kFsdp},
    {"TP", kTp},
    {"EP", kEp},
    {"SP", kSp},
}};

constexpr std::string_view kEmpty = "_";

bool is_generation(Mode mode) {
  return mode == Mode::Decode || mode == Mode::Insert;
}

// The empty tuple is not None, although it shards nothing either.
bool is_none(const AxisValue& value) {
  return value.axes.empty() && !value.is_tuple;
}

// Returns the value of a field in a mode.
AxisValue value_in(const PartitionAxis& axis, size_t field, Mode mode) {
  const int twin = kFields.at(field).decode;
  if (is_generation(mode) && twin >= 0) {
    const auto& value = nth(axis, twin);
    if (value && !is_none(*value)) return *value;
  }
  return axis.at(field).value_or(AxisValue());
}

Diagnostics::Builder report_unknown(const std::string& token,
                                    Diagnostics& diags) {
  std::vector<std::string> known;
  for (const PartitionField& field : kFields) {
    if (!field.token.empty()) known.emplace_back(field.token);
  }
  return suggest(diags.error(Code::UnknownAxis, {},
                             "unknown semantic axis " + in_backticks(token)),
                 token, known);
}

SemanticEntry one(std::string_view token) {
  return {{std::string(token)}, EntryKind::One};
}
SemanticEntry list(std::initializer_list<std::string_view> tokens) {
  return {{tokens.begin(), tokens.end()}, EntryKind::List};
}

}  // namespace

std::span<const PartitionField, kPartitionFields> partition_fields() {
  return kFields;
}

std::optional<size_t> find_partition_field(std::string_view name) {
  for (size_t i = 0; i < kFields.size(); ++i) {
    if (kFields.at(i).name == name) return i;
  }
  return std::nullopt;
}

PartitionAxis default_partition_axis() {
  PartitionAxis axis;
  axis[kDp] = AxisValue{{"dp"}};
  axis[kFsdp] = AxisValue{{"fsdp"}};
  axis[kTp] = AxisValue{{"tp"}};
  axis[kSp] = AxisValue{{"sp"}};
  axis[kEp] = AxisValue{{"ep"}};
  for (const Field none :
       {kExpertGate, kAttentionDim, kAttentionKvDim, kBiasHeadSequence,
        kBiasKeySequence, kDecodeQuerySequence, kDecodeAttentionDim,
        kDecodeAttentionKvDim}) {
    axis.at(none) = AxisValue();
  }
  return axis;
}

std::optional<PartitionAxis> resolve_partition_axis(PartitionAxis given,
                                                    Diagnostics& diags) {
  if (!given[kBatch] && given[kFsdp] && given[kDp]) {
    AxisValue batch{{}, true};
    for (const Field part : {kFsdp, kDp}) {
      const AxisNames& axes = given.at(part)->axes;
      batch.axes.insert(batch.axes.end(), axes.begin(), axes.end());
      // None within a tuple makes the whole dimension unsharded later.
      if (is_none(*given.at(part))) batch.axes.emplace_back();
    }
    given[kBatch] = batch;
  }
  for (const auto& [field, source] : kFollows) {
    if (!given.at(field)) given.at(field) = given.at(source);
  }
  for (size_t i = 0; i < kFields.size(); ++i) {
    if (given.at(i)) continue;
    return diags.error(
        Code::MalformedDocument, {},
        "`" + std::string(kFields.at(i).name) + "` has no value to inherit");
  }
  return given;
}

std::optional<size_t> find_semantic_token(std::string_view token,
                                          bool short_form) {
  for (size_t i = 0; i < kFields.size(); ++i) {
    const std::string_view full = kFields.at(i).token;
    if (full.empty()) continue;
    if (token == full) return i;
    if (short_form && token == full.substr(2, full.size() - 4)) return i;
  }
  for (const auto& [alias, field] : kAliases) {
    if (short_form && token == alias) return field;
  }
  return std::nullopt;
}

std::optional<std::vector<AxisValue>> resolve_entry(const PartitionAxis& axis,
                                                    const SemanticEntry& entry,
                                                    Mode mode,
                                                    EformerVersion version,
                                                    Diagnostics& diags) {
  const bool early = version == EformerVersion::January2026;
  if (early && entry.kind != EntryKind::One &&
      (entry.kind == EntryKind::Tuple || is_generation(mode))) {
    return diags.error(Code::UnknownAxis, {},
                       "this eFormer version does not support several semantic "
                       "axes per dimension");
  }
  std::vector<AxisValue> values;
  for (const std::string& token : entry.tokens) {
    if (token == kEmpty && !(early && entry.kind == EntryKind::List)) {
      values.emplace_back();
    } else if (const auto field = find_semantic_token(token, false)) {
      values.push_back(value_in(axis, *field, mode));
    } else if (const auto named = entry.kind == EntryKind::One
                                      ? std::nullopt
                                      : find_partition_field(token)) {
      values.push_back(value_in(axis, *named, mode));
    } else if (entry.kind == EntryKind::One || early) {
      return report_unknown(token, diags);
    } else {
      values.push_back({{token}, false});
    }
  }
  return values;
}

std::optional<PartitionSpec> resolve_semantic_spec(
    const PartitionAxis& axis, std::span<const SemanticEntry> entries,
    Mode mode, EformerVersion version, Diagnostics& diags) {
  // Reports an unknown name before a list that no spec can contain.
  std::vector<std::vector<AxisValue>> resolved;
  for (const SemanticEntry& entry : entries) {
    auto values = resolve_entry(axis, entry, mode, version, diags);
    if (!values) return std::nullopt;
    resolved.push_back(*std::move(values));
  }
  PartitionSpec spec;
  for (size_t i = 0; i < entries.size(); ++i) {
    AxisNames dim;
    for (const AxisValue& value : resolved[i]) {
      if (entries[i].kind == EntryKind::One) {
        dim = value.axes;
      } else if (value.is_tuple) {
        return diags.error(Code::MalformedDocument, {},
                           "a list of axes contains the tuple " +
                               axes_text(value.axes) +
                               ", which a spec cannot hold");
      } else {
        dim.push_back(value.axes.empty() ? "" : value.axes.front());
      }
    }
    if (dim == AxisNames{""}) dim.clear();
    spec.dims.push_back(std::move(dim));
  }
  return spec;
}

std::span<const ShardingPreset> sharding_presets() {
  constexpr std::string_view kDP = "__DATA_PARALLEL__";
  constexpr std::string_view kFSDP = "__FULLY_SHARDED_DATA_PARALLEL__";
  constexpr std::string_view kTP = "__TENSOR_PARALLEL__";
  constexpr std::string_view kSP = "__SEQUENCE_PARALLEL__";
  constexpr std::string_view kEP = "__EXPERT_PARALLEL__";
  static const std::vector<ShardingPreset> kPresets = {
      {"HiddenStateSharding",
       {one("__BATCH__"), one("__QUERY_LENGTH__"), one("__EMBED__")},
       1},
      {"AttnQSharding",
       {one("__BATCH__"), one("__QUERY_LENGTH__"), one("__HEAD__"),
        one("__HEAD_DIM__")},
       1},
      {"AttnKVSharding",
       {one("__BATCH__"), one("__KV_LENGTH__"), one("__KV_HEAD__"),
        one("__KV_HEAD_DIM__")},
       1},
      {"RowWise", {one(kTP), list({kFSDP, kSP})}, {}},
      {"SRowWise", {one(kTP)}, {}},
      {"ColumnWise", {list({kFSDP, kSP}), one(kTP)}, {}},
      {"SColumnWise", {list({kFSDP, kSP})}, {}},
      {"Replicated", {one(kEmpty)}, {}},
      {"ExpertColumnWise", {one(kEP), one(kFSDP), one(kTP)}, {}},
      {"ExpertRowWise", {one(kEP), one(kTP), one(kFSDP)}, {}},
      {"ExpertColumnWiseAlt", {one(kEP), list({kFSDP, kSP}), one(kTP)}, {}},
      {"ExpertRowWiseAlt", {one(kEP), one(kTP), list({kFSDP, kSP})}, {}},
      {"UnifiedExpertColumnWise",
       {list({kFSDP, kSP, kEP}), one(kEmpty), one(kTP)},
       {}},
      {"UnifiedExpertRowWise",
       {list({kFSDP, kSP, kEP}), one(kTP), one(kEmpty)},
       {}},
      {"ExpertActivations", {one(kDP), one(kSP), one(kEP), one(kTP)}, {}},
      {"ExpertActivationsAlt", {one(kDP), one(kSP), list({kTP, kFSDP})}, {}},
      {"ExpertTensorParallel", {one(kTP), one(kEmpty), one(kEmpty)}, {}},
  };
  return kPresets;
}

const ShardingPreset* find_sharding_preset(std::string_view name) {
  return find_named(sharding_presets(), name);
}

}  // namespace shardplan
