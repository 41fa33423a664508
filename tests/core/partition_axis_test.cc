// SPDX-License-Identifier: Apache-2.0
#include "core/partition_axis.h"

#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/messages.h"

namespace shardplan {
namespace {

constexpr auto kNow = EformerVersion::Current;
constexpr auto kThen = EformerVersion::January2026;

size_t field(const char* name) {
  const auto found = find_partition_field(name);
  REQUIRE_MESSAGE(found.has_value(), name);
  return *found;
}

PartitionAxis resolved(PartitionAxis given = default_partition_axis()) {
  Diagnostics diags;
  const auto axis = resolve_partition_axis(std::move(given), diags);
  REQUIRE_MESSAGE(axis.has_value(), testing::messages(diags));
  return *axis;
}

// With one field set.
PartitionAxis with(const char* name, AxisValue value) {
  PartitionAxis given = default_partition_axis();
  given.at(field(name)) = std::move(value);
  return resolved(given);
}

std::string value_text(const AxisValue& value) {
  return value.is_tuple ? "tuple " + axes_text(value.axes)
                        : axes_text(value.axes);
}

std::string spec_of(const PartitionAxis& axis,
                    const std::vector<SemanticEntry>& entries,
                    Mode mode = Mode::Train, EformerVersion version = kNow) {
  Diagnostics diags;
  const auto spec = resolve_semantic_spec(axis, entries, mode, version, diags);
  return spec ? spec_text(*spec) : testing::messages(diags);
}

SemanticEntry one(const char* token) { return {{token}, EntryKind::One}; }
SemanticEntry list(std::vector<std::string> tokens) {
  return {std::move(tokens), EntryKind::List};
}

TEST_CASE("all 27 fields have the default of the original") {
  const std::vector<std::pair<const char*, const char*>> rows = {
      {"data_parallel_axis", "dp"},
      {"fully_sharded_data_parallel_axis", "fsdp"},
      {"tensor_parallel_axis", "tp"},
      {"sequence_parallel_axis", "sp"},
      {"expert_parallel_axis", "ep"},
      {"batch_axis", "tuple (fsdp, dp)"},
      {"sequence_axis", "sp"},
      {"query_sequence_axis", "sp"},
      {"head_axis", "tp"},
      {"kv_head_axis", "tp"},
      {"key_sequence_axis", "sp"},
      {"hidden_state_axis", "tp"},
      {"mlp_intermediate_axis", "tp"},
      {"vocab_axis", "tp"},
      {"expert_axis", "ep"},
      {"expert_gate_axis", "None"},
      {"attention_dim_axis", "None"},
      {"attention_kv_dim_axis", "None"},
      {"bias_head_sequence_axis", "None"},
      {"bias_key_sequence_axis", "None"},
      {"decode_batch_axis", "tuple (fsdp, dp)"},
      {"decode_query_sequence_axis", "None"},
      {"decode_head_axis", "tp"},
      {"decode_kv_head_axis", "tp"},
      {"decode_key_sequence_axis", "sp"},
      {"decode_attention_dim_axis", "None"},
      {"decode_attention_kv_dim_axis", "None"},
  };
  REQUIRE(rows.size() == kPartitionFields);
  const PartitionAxis axis = resolved();
  for (size_t i = 0; i < rows.size(); ++i) {
    CAPTURE(rows[i].first);
    CHECK(partition_fields()[i].name == rows[i].first);
    CHECK(value_text(*axis.at(i)) == rows[i].second);
  }
}

TEST_CASE("a field that is not given follows the one it follows") {
  const PartitionAxis axis = with("tensor_parallel_axis", {{"model"}});
  for (const char* name : {"head_axis", "kv_head_axis", "hidden_state_axis",
                           "mlp_intermediate_axis", "vocab_axis",
                           "decode_head_axis", "decode_kv_head_axis"}) {
    CAPTURE(name);
    CHECK(value_text(*axis.at(field(name))) == "model");
  }
  // What is given is inherited, None too.
  const PartitionAxis none = with("head_axis", {});
  CHECK(value_text(*none.at(field("decode_head_axis"))) == "None");
  const PartitionAxis aliased = with("data_parallel_axis", {{"fsdp"}});
  CHECK(value_text(*aliased.at(field("batch_axis"))) == "tuple (fsdp, fsdp)");
  const PartitionAxis half = with("data_parallel_axis", {});
  CHECK(half.at(field("batch_axis"))->axes == AxisNames{"fsdp", ""});
}

TEST_CASE("a field with nothing to follow is refused by name") {
  PartitionAxis given = default_partition_axis();
  given.at(field("decode_attention_dim_axis")).reset();
  given.at(field("expert_gate_axis")).reset();
  Diagnostics diags;
  CHECK_FALSE(resolve_partition_axis(given, diags).has_value());
  CHECK(testing::messages(diags) ==
        "SP002 `expert_gate_axis` has no value to inherit");
}

TEST_CASE("every token stands for its field, short or with underscores") {
  std::set<std::string> tokens;
  for (size_t i = 0; i < kPartitionFields; ++i) {
    const std::string token(partition_fields()[i].token);
    if (token.empty()) continue;
    CAPTURE(token);
    CHECK(tokens.insert(token).second);
    CHECK(find_semantic_token(token, false) == i);
    const std::string brief = token.substr(2, token.size() - 4);
    CHECK(find_semantic_token(brief, true) == i);
    CHECK_FALSE(find_semantic_token(brief, false).has_value());
  }
  CHECK(tokens.size() == 20);
  CHECK(find_semantic_token("TP", true) == field("tensor_parallel_axis"));
  CHECK(find_semantic_token("DP", true) == field("data_parallel_axis"));
  CHECK_FALSE(find_semantic_token("TP", false).has_value());
  CHECK_FALSE(find_semantic_token("", true).has_value());
  CHECK_FALSE(find_semantic_token("__HEAD", true).has_value());
}

TEST_CASE("generation takes a field's twin, unless that is None") {
  const PartitionAxis plain = resolved();
  const PartitionAxis twin = with("decode_query_sequence_axis", {{"x"}});
  const PartitionAxis empty = with("decode_query_sequence_axis", {{}, true});
  for (const Mode mode : {Mode::Decode, Mode::Insert}) {
    CHECK(spec_of(plain, {one("__QUERY_LENGTH__")}, mode) == "P(sp)");
    CHECK(spec_of(twin, {one("__QUERY_LENGTH__")}, mode) == "P(x)");
    CHECK(spec_of(empty, {one("__QUERY_LENGTH__")}, mode) == "P(None)");
    CHECK(spec_of(twin, {list({"query_sequence_axis", "tp"})}, mode) ==
          "P((x, tp))");
  }
  for (const Mode mode : {Mode::Train, Mode::Prefill}) {
    CHECK(spec_of(twin, {one("__QUERY_LENGTH__")}, mode) == "P(sp)");
  }
  // EMBED has no twin.
  CHECK(spec_of(twin, {one("__EMBED__")}, Mode::Decode) == "P(tp)");
}

TEST_CASE("None, blanks and lists make entries") {
  const PartitionAxis axis = resolved();
  CHECK(spec_of(axis, {}) == "P()");
  CHECK(spec_of(axis, {SemanticEntry{}, one("_")}) == "P(None, None)");
  CHECK(spec_of(axis, {list({}), list({"__HEAD__"})}) == "P(None, tp)");
  CHECK(spec_of(axis, {list({"_"})}) == "P(None)");
  CHECK(spec_of(axis, {list({"head_axis", "mesh_axis"})}) ==
        "P((tp, mesh_axis))");
  CHECK(spec_of(axis, {list({"__BATCH__", "__HEAD__"})}) ==
        "SP002 a list of axes contains the tuple (fsdp, dp), which a spec "
        "cannot hold");
}

TEST_CASE("an unknown name is refused, with the one that is like it") {
  Diagnostics diags;
  CHECK_FALSE(
      resolve_entry(resolved(), one("__HEDA__"), Mode::Train, kNow, diags));
  CHECK(testing::messages(diags) == "SP201 unknown semantic axis `__HEDA__`");
  CHECK(diags.all().front().help.front().find("`__HEAD__`") !=
        std::string::npos);
  for (const char* name : {"tp", "head_axis", "HEAD", ""}) {
    CAPTURE(name);
    CHECK(spec_of(resolved(), {one(name)}).starts_with("SP201"));
  }
}

TEST_CASE("eformer of January 2026 takes lists in training only") {
  const PartitionAxis axis = resolved();
  const SemanticEntry pair =
      list({"__FULLY_SHARDED_DATA_PARALLEL__", "__SEQUENCE_PARALLEL__"});
  SemanticEntry tuple = pair;
  tuple.kind = EntryKind::Tuple;
  for (const Mode mode : {Mode::Train, Mode::Decode}) {
    CHECK(spec_of(axis, {pair}, mode) == "P((fsdp, sp))");
    CHECK(spec_of(axis, {tuple}, mode) == "P((fsdp, sp))");
    CHECK(spec_of(axis, {tuple}, mode, kThen).starts_with("SP201"));
  }
  CHECK(spec_of(axis, {pair}, Mode::Train, kThen) == "P((fsdp, sp))");
  CHECK(spec_of(axis, {pair}, Mode::Decode, kThen).starts_with("SP201"));
  for (const char* name : {"_", "tp"}) {
    CHECK(
        spec_of(axis, {list({name})}, Mode::Train, kThen).starts_with("SP201"));
  }
}

TEST_CASE("the presets resolve as the original's do, in training") {
  const std::vector<std::pair<const char*, const char*>> rows = {
      {"HiddenStateSharding", "P((fsdp, dp), sp, tp)"},
      {"AttnQSharding", "P((fsdp, dp), sp, tp, None)"},
      {"AttnKVSharding", "P((fsdp, dp), sp, tp, None)"},
      {"RowWise", "P(tp, (fsdp, sp))"},
      {"SRowWise", "P(tp)"},
      {"ColumnWise", "P((fsdp, sp), tp)"},
      {"SColumnWise", "P((fsdp, sp))"},
      {"Replicated", "P(None)"},
      {"ExpertColumnWise", "P(ep, fsdp, tp)"},
      {"ExpertRowWise", "P(ep, tp, fsdp)"},
      {"ExpertColumnWiseAlt", "P(ep, (fsdp, sp), tp)"},
      {"ExpertRowWiseAlt", "P(ep, tp, (fsdp, sp))"},
      {"UnifiedExpertColumnWise", "P((fsdp, sp, ep), None, tp)"},
      {"UnifiedExpertRowWise", "P((fsdp, sp, ep), tp, None)"},
      {"ExpertActivations", "P(dp, sp, ep, tp)"},
      {"ExpertActivationsAlt", "P(dp, sp, (tp, fsdp))"},
      {"ExpertTensorParallel", "P(tp, None, None)"},
  };
  REQUIRE(sharding_presets().size() == rows.size());
  for (const auto& row : rows) {
    const char* name = row.first;
    const char* text = row.second;
    CAPTURE(name);
    const ShardingPreset* preset = find_sharding_preset(name);
    REQUIRE(preset != nullptr);
    CHECK(spec_of(resolved(), preset->entries) == text);
    const bool by_shape = preset->decode_dim.has_value();
    CHECK(by_shape == (preset->entries.front().tokens.front() == "__BATCH__"));
    if (by_shape) CHECK(preset->decode_dim == 1);
  }
  CHECK(find_sharding_preset("Diagonal") == nullptr);
}

}  // namespace

}  // namespace shardplan
