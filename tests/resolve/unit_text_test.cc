// SPDX-License-Identifier: Apache-2.0
#include "resolve/unit_text.h"

#include <doctest/doctest.h>

#include "tests/support/units.h"

namespace shardplan {
namespace {

using testing::type;

SplitUnit split(Unit unit, const std::string& of, AxisNames axes,
                int64_t shards) {
  const TensorType tensor = type(of);
  const int64_t size = tensor.shape[static_cast<size_t>(unit.dim)];
  return {std::move(unit), std::move(axes), shards, tensor, size};
}

TEST_CASE("a finding says what a device would have") {
  const Mesh mesh = testing::mesh("tp=16,ep=2");
  const SplitUnit kv =
      split({0, UnitKind::KvHead, 8}, "f32[1024, 64]", {"tp"}, 16);
  CHECK(split_message(kv, mesh) == "tp=16 cuts the KV heads of");
  CHECK(split_fact(kv) ==
        "8 KV heads over 16 shards: half a KV head on each, though 1024 mod 16 "
        "= 0");
  const SplitUnit expert =
      split({0, UnitKind::Expert, 3}, "f32[6, 2, 2]", {"ep"}, 2);
  CHECK(split_fact(expert) ==
        "3 experts over 2 shards: 3/2 of an expert on each, though 6 mod 2 = "
        "0");
  CHECK(split_fact(
            split({2, UnitKind::Head, 1, true}, "f32[4, 2, 8]", {"tp"}, 2)) ==
        "dimension 2, of 8, lies within one head: any cut splits it");
  CHECK(split_fact(split({0, UnitKind::QuantBlock, 4}, "f8_e4m3fn[512, 128]",
                         {"tp"}, 8)) ==
        "dimension 0 is 512, in 4 quantisation blocks; 8 shards of 64 begin or "
        "end within a block");
  const SplitUnit layers =
      split({0, UnitKind::Layer, 24}, "f32[24, 64]", {"tp"}, 16);
  CHECK(split_message(layers, mesh) == "tp=16 spreads the stacked layers of");
}

TEST_CASE("of a packed tensor it says which rows the first device would have") {
  Unit unit;
  unit.kind = UnitKind::PackedGateUp;
  unit.parts = {{"gate", 8, 8, false}, {"up", 8, 8, false}};
  CHECK(split_fact(split(unit, "f32[16, 4]", {"tp"}, 4)) ==
        "gate and up are side by side in the 16 rows: device 0 would hold gate "
        "rows 0-3 of 8 and no up rows");
  unit.dim = 1;
  unit.kind = UnitKind::FusedQkv;
  unit.parts = {{"q", 8, 4, false}, {"k", 4, 2, true}, {"v", 4, 2, true}};
  CHECK(split_fact(split(unit, "f32[4, 16]", {"tp"}, 2)) ==
        "q, k and v are side by side in the 16 columns: device 0 would hold q "
        "columns 0-7 of 8 and no k columns, no v columns");
  unit.parts = {{"q", 4, 4, false}, {"k", 6, 2, true}, {"v", 6, 2, true}};
  CHECK(split_fact(split(unit, "f32[4, 16]", {"tp"}, 2)) ==
        "q, k and v are side by side in the 16 columns: device 0 would hold q "
        "columns 0-3 of 4, k columns 0-3 of 6 and no v columns");
}

TEST_CASE("every legal size of every axis is listed") {
  const Mesh mesh = testing::mesh("a=2,tp=32");
  const SplitUnit pairs =
      split({0, UnitKind::GateUpPair, 2880}, "f32[5760]", {"tp"}, 32);
  CHECK(legal_sizes(pairs, mesh, {}) ==
        "`tp` may be 1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 15, 16, 18, 20, 24, 30, "
        "32, 36, 40, 45, 48, 60, 64, 72, 80, 90, 96, 120, 144, 160, 180, 192, "
        "240, 288, 320, 360, 480, 576, 720, 960, 1440 or 2880");
  const SplitUnit two =
      split({0, UnitKind::Head, 12}, "f32[768]", {"a", "tp"}, 64);
  CHECK(legal_sizes(two, mesh, {}) == "`tp` may be 1, 2, 3 or 6");
  const SplitUnit none =
      split({0, UnitKind::Head, 3}, "f32[768]", {"a", "tp"}, 64);
  CHECK(legal_sizes(none, mesh, {}) ==
        "no size of a single axis keeps them whole while the others stay");
  SplitUnit kv = split({0, UnitKind::KvHead, 8}, "f32[1024]", {"tp"}, 32);
  kv.unit.queries = 32;
  CHECK(legal_sizes(kv, mesh, {}) == "`tp` may be 1, 2, 4 or 8");
  Declarations copies;
  copies.replicate_kv_heads = true;
  CHECK(legal_sizes(kv, mesh, copies) == "`tp` may be 1, 2, 4, 8, 16 or 32");
}

TEST_CASE("help names the declaration that would do, where one would") {
  const SplitUnit kv = split({0, UnitKind::KvHead, 8}, "f32[1024]", {"tp"}, 16);
  CHECK(split_help(kv, {}).size() == 2);
  CHECK(split_help(kv, {})[0] ==
        "use a size of the axis that divides 8, or leave the dimension "
        "unsharded to replicate the KV heads");
  CHECK(split_help(kv, {})[1].starts_with("`--declare replicate-kv-heads`"));
  const SplitUnit odd =
      split({0, UnitKind::KvHead, 8}, "f32[1024]", {"tp"}, 12);
  CHECK(split_help(odd, {}).size() == 1);
  Unit unit;
  unit.kind = UnitKind::PackedGateUp;
  unit.parts = {{"gate", 8, 8, false}, {"up", 8, 8, false}};
  const SplitUnit packed = split(unit, "f32[16]", {"tp"}, 2);
  CHECK(split_help(packed, {})
            .back()
            .starts_with("`--declare interleave-gate-up`"));
  CHECK(split_help(split({1, UnitKind::Layer, 4}, "f32[2, 4]", {"tp"}, 2), {})
            .front()
            .starts_with("write `null` for dimension 1"));
}

}  // namespace
}  // namespace shardplan
