// SPDX-License-Identifier: Apache-2.0

#include "core/plan.h"

#include <string>

#include <doctest/doctest.h>

#include "tests/support/builders.h"
#include "tests/support/messages.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

TEST_CASE("SHA-256 of a text is the one of its pieces") {
  Sha256 empty;
  CHECK(empty.hex() ==
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(holds([] {
    const auto first = draw_any<std::string>();
    const auto second = draw_any<std::string>();
    Sha256 whole;
    whole.update(first + second);
    Sha256 pieces;
    pieces.update(first);
    pieces.update(second);
    ENSURE(whole.hex() == pieces.hex());
  }));
}

using testing::mesh;
using testing::spec;
using testing::type;

Placement placed_in_plan(const std::string& tensor, const std::string& axes,
                         const Mesh& on, OnIndivisible policy) {
  Placement placement;
  placement.type = type(tensor);
  placement.spec = spec(axes);
  measure(placement, on, policy);
  return placement;
}

TEST_CASE("policies read as they print") {
  for (const std::string& name : on_indivisible_names()) {
    CAPTURE(name);
    const auto policy = find_policy(name);
    REQUIRE(policy.has_value());
    CHECK(policy_name(*policy) == name);
  }
  CHECK_FALSE(find_policy("Drop").has_value());
}

TEST_CASE("measure gives the largest shard, and how many there are") {
  const Mesh m = mesh("fsdp=4,tp=2");
  const Placement even =
      placed_in_plan("bf16[8, 6]", "fsdp, tp", m, OnIndivisible::Drop);
  CHECK(even.local_shape == Shape{2, 3});
  CHECK(even.bytes_per_device == 12);
  CHECK(even.shards == 8);
  CHECK(even.replicas == 1);
  const Placement scalar = placed_in_plan("f32[]", "", m, OnIndivisible::Drop);
  CHECK(scalar.local_shape.empty());
  CHECK(scalar.bytes_per_device == 4);
  CHECK(scalar.replicas == 8);
  // Per axis, major first: ceil(ceil(10 / 4) / 2); at once: ceil(10 / 8).
  CHECK(placed_in_plan("u8[10]", "(fsdp, tp)", m, OnIndivisible::Chunk)
            .local_shape == Shape{2});
  CHECK(placed_in_plan("u8[9]", "(fsdp, tp)", mesh("fsdp=2,tp=3"),
                       OnIndivisible::Pad)
            .local_shape == Shape{2});
  // Each shard of 3 elements of 4 bits takes 2 bytes.
  CHECK(
      placed_in_plan("i4[6]", "tp", m, OnIndivisible::Drop).bytes_per_device ==
      2);
  CHECK(placed_in_plan("f32[0, 4]", "fsdp", m, OnIndivisible::Drop)
            .bytes_per_device == 0);
}

TEST_CASE("a mesh of 2^40 devices is measured without overflow") {
  const Mesh m = mesh("a=1048576,b=1048576");
  const Placement p = placed_in_plan("u8[9223372036854775807]", "(a, b)", m,
                                     OnIndivisible::Pad);
  CHECK(p.shards == int64_t{1} << 40);
  CHECK(p.replicas == 1);
  CHECK(p.bytes_per_device == int64_t{1} << 23);
}

// The digests are Python's:
//   hashlib.sha256(json.dumps(x, separators=(",", ":"), ensure_ascii=False,
//                             sort_keys=True).encode()).hexdigest()
TEST_CASE("the fingerprint is the SHA-256 of the canonical JSON") {
  Plan plan{mesh("fsdp=4,tp=2"), {}, true, {}, {}, {}, {}};
  CHECK(fingerprint(Manifest(), plan) ==
        "e9299acfbc49b43484b58446aa14ab5227c5a52a77183017963fb6c36e0d8eb7");
  const Manifest manifest = testing::manifest({{"wq", "bf16[8, 6]"},
                                               {"b\n\"\\\x01\x7fé/😀", "f32[]"},
                                               {"wk", "bf16[8, 6]"},
                                               {"wo", "i4[8, 6]"}});
  plan.placements = {
      placed_in_plan("bf16[8, 6]", "(fsdp, tp), None", plan.mesh,
                     OnIndivisible::Drop),
      placed_in_plan("f32[]", "", plan.mesh, OnIndivisible::Drop),
      placed_in_plan("i4[8, 6]", "None, tp", plan.mesh, OnIndivisible::Drop)};
  plan.placement_of = {0, 1, 0, 2};
  CHECK(fingerprint(manifest, plan) ==
        "de7be74da4fdb211d428b822023f8220812cfb1ac7deb74e3e8e437564998bc4");
}

TEST_CASE("the fingerprint is that of what is placed, not of how it came") {
  const Manifest manifest = testing::manifest({{"a", "u8[4]"}});
  Plan plan{mesh("tp=2"), {}, true, {}, {}, {}, {0}};
  plan.placements = {
      placed_in_plan("u8[4]", "tp", plan.mesh, OnIndivisible::Drop)};
  const std::string before = fingerprint(manifest, plan);
  plan.on_indivisible = OnIndivisible::Chunk;
  plan.declared_axes = {"sp"};
  plan.placements[0].rule = 3;
  CHECK(fingerprint(manifest, plan) == before);
  plan.placements[0].spec = spec("None");
  const std::string null = fingerprint(manifest, plan);
  CHECK(null != before);
  plan.placements[0].spec = spec("");
  CHECK(fingerprint(manifest, plan) != null);
}

TEST_CASE("a stored dimension is measured instead of the logical one") {
  Placement placement;
  placement.type = type("bf16[10, 4]");
  placement.spec = spec("tp, None");
  placement.stored_dims = {{0, 16, "pad-vocab=16"}};
  CHECK(stored_shape(placement) == Shape{16, 4});
  measure(placement, mesh("dp=2,tp=4"), OnIndivisible::Drop);
  CHECK(placement.local_shape == Shape{4, 4});
  CHECK(placement.bytes_per_device == 32);
  CHECK(placement.shards == 4);
  CHECK(placement.replicas == 2);
}

TEST_CASE("the fingerprint holds stored shapes that are not the logical ones") {
  const Manifest manifest = testing::manifest(
      {{"a", "bf16[10, 4]"}, {"b", "bf16[10, 4]"}, {"c", "bf16[4]"}});
  Plan plan{mesh("tp=2"), {}, true, {}, {}, {}, {0, 1, 2}};
  for (const char* of : {"bf16[10, 4]", "bf16[10, 4]", "bf16[4]"}) {
    plan.placements.emplace_back().type = type(of);
  }
  const std::string plain = fingerprint(manifest, plan);
  plan.declarations.pad_vocab = 16;
  CHECK(fingerprint(manifest, plan) == plain);
  plan.placements[1].stored_dims = {{0, 10, "reordered"}};
  CHECK(fingerprint(manifest, plan) == plain);
  plan.placements[0].stored_dims = {{0, 16, "padded"}};
  // printf
  // '{"mesh":[["tp",2]],"parameters":[["a","bf16",[10,4],[]],["b","bf16",
  // [10,4],[]],["c","bf16",[4],[]]],"stored":[["a",[16,4]]]}' | sha256sum
  CHECK(fingerprint(manifest, plan) ==
        "553294cfebeb153598b834ecb63a6210a28e81622d6b7910f562515e57bb0c9b");
}

TEST_CASE("a view is in the fingerprint where a parameter is placed on it") {
  const Manifest manifest = testing::manifest({{"a", "bf16[8]"},
                                               {"experts.0.w", "bf16[4]"},
                                               {"experts.1.w", "bf16[4]"}});
  const Mesh plain = mesh("dp=2,tp=2");
  const MeshView experts = {"experts", {{"ep", 2}, {"etp", 2}}};
  const MeshView other = {"other", {{"x", 4}}};
  const auto fingerprint_on = [&](const Mesh& devices, bool deals) {
    Plan plan{devices, {}, true, {}, {}, {}, {0, 1, 1}};
    Placement& dense = plan.placements.emplace_back();
    dense.type = type("bf16[8]");
    dense.spec = spec("tp");
    Placement& expert = plan.placements.emplace_back();
    expert.type = type("bf16[4]");
    if (deals) {
      expert.spec = spec("etp");
      expert.dealt = ExpertPlacement{"ep", 2, 2, -1};
    }
    for (Placement& each : plan.placements) {
      measure(each, devices, OnIndivisible::Drop);
    }
    return fingerprint(manifest, plan);
  };
  const std::string without = fingerprint_on(plain, false);
  CHECK(fingerprint_on(Mesh(plain.axes(), {experts, other}), false) == without);
  // printf
  // '{"mesh":[["dp",2],["tp",2]],"parameters":[["a","bf16",[8],["tp"]],
  // ["experts.0.w","bf16",[4],["etp"]],["experts.1.w","bf16",[4],["etp"]]],
  // "views":[["experts",[["ep",2],["etp",2]]]],"dealt":[["experts.0.w","ep",2],
  // ["experts.1.w","ep",2]]}' | sha256sum
  const std::string used = fingerprint_on(Mesh(plain.axes(), {experts}), true);
  CHECK(used ==
        "6e1ea8b504da322edbadf14c61bb67391e53d1150cf9afd10640ac78600b99f7");
  CHECK(fingerprint_on(Mesh(plain.axes(), {other, experts}), true) == used);
  // The same sizes in another order are other devices.
  const MeshView turned = {"experts", {{"etp", 2}, {"ep", 2}}};
  CHECK(fingerprint_on(Mesh(plain.axes(), {turned}), true) != used);
}

}  // namespace

}  // namespace shardplan
