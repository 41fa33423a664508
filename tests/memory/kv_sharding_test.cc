// SPDX-License-Identifier: Apache-2.0
#include "memory/kv_sharding.h"

#include <doctest/doctest.h>

#include "resolve/resolve.h"
#include "tests/support/builders.h"

namespace shardplan {
namespace {

Manifest two_layers() {
  Manifest manifest = testing::manifest({
      {"layers.0.self_attn.q_proj.weight", "bf16[64, 32]"},
      {"layers.0.self_attn.k_proj.weight", "bf16[32, 32]"},
      {"layers.0.self_attn.k_proj.bias", "bf16[32]"},
      {"layers.1.self_attn.k_proj.weight", "bf16[32, 32]"},
      {"layers.1.mlp.up_proj.weight", "bf16[64, 32]"},
  });
  manifest.facts.from = FactsFrom::Manifest;
  manifest.facts.layers = 2;
  manifest.facts.heads = 8;
  manifest.facts.kv_heads = 4;
  manifest.facts.head_dim = 8;
  return manifest;
}

struct Case {
  Manifest manifest;
  Plan plan;
};

Case planned(Manifest manifest, const RuleSet& rules, const char* mesh) {
  Diagnostics diags;
  auto plan =
      resolve(manifest, rules, testing::mesh(mesh), ResolveOptions(), diags);
  REQUIRE(plan);
  return {std::move(manifest), *std::move(plan)};
}

KvAxes axes_of(const Case& c, const KvAxesAsked& asked = {}) {
  Diagnostics diags;
  auto axes =
      kv_axes(c.manifest, key_projections(c.manifest), c.plan, asked, diags);
  REQUIRE(axes);
  CHECK(diags.all().empty());
  return *std::move(axes);
}

const RuleSet kTensorParallel =
    testing::rules({{"[qk]_proj.weight", "tp, fsdp"}, {".", ""}}, {"sp"});

TEST_CASE("keys are found by name, and which dimension has their heads") {
  CHECK(key_projections(two_layers()) ==
        std::vector<KeyProjection>{{1, 0}, {3, 0}});
  Manifest split = testing::manifest(
      {{"decoder/attention/key/kernel", "bf16[2, 32, 4, 8]"}});
  split.facts = two_layers().facts;
  CHECK(key_projections(split) == std::vector<KeyProjection>{{0, 2}});
  // Without facts, or with others, nothing is known.
  split.facts = {};
  CHECK(key_projections(split).empty());
}

TEST_CASE("heads follow the keys, and the batch its usual axes") {
  const KvAxes axes =
      axes_of(planned(two_layers(), kTensorParallel, "dp=2,fsdp=4,tp=2,pp=1"));
  CHECK(axes.heads == AxisNames{"tp"});
  CHECK(axes.batch == AxisNames{"dp", "fsdp"});
  CHECK(axes.sequence.empty());
  CHECK(axes.heads_from == "as `layers.0.self_attn.k_proj.weight` is sharded");
  CHECK(kv_sharding(testing::mesh("dp=2,fsdp=4,tp=2"), axes) ==
        KvSharding{2, 8, 1});
}

TEST_CASE("axes that gather a weight do not cut its heads") {
  const RuleSet rules =
      testing::rules({{"[qk]_proj.weight", "(fsdp, tp)"}, {".", ""}});
  const KvAxes axes = axes_of(planned(two_layers(), rules, "fsdp=2,tp=2"));
  CHECK(axes.heads == AxisNames{"tp"});
  CHECK(axes.batch == AxisNames{"fsdp"});
}

TEST_CASE("where keys are whole the cache is, whatever the queries are") {
  const RuleSet rules = testing::rules({{"q_proj.weight", "tp"}, {".", ""}});
  const KvAxes axes = axes_of(planned(two_layers(), rules, "tp=2"));
  CHECK(axes.heads.empty());
  CHECK(axes.heads_from == "as `layers.0.self_attn.k_proj.weight` is whole");
}

TEST_CASE("of layers that differ, the one that is cut least decides") {
  const RuleSet rules = testing::rules(
      {{"0.*k_proj.weight", "(tp, ep)"}, {"k_proj.weight", "tp"}, {".", ""}});
  const KvAxes axes = axes_of(planned(two_layers(), rules, "tp=2,ep=2"));
  CHECK(axes.heads == AxisNames{"tp"});
  CHECK(axes.heads_from ==
        "as `layers.1.self_attn.k_proj.weight` is sharded, the least of all "
        "key projections");
}

TEST_CASE("latents, and names that nobody knows, are cut over no axis") {
  Manifest latent = two_layers();
  latent.facts.kv_latent = 16;
  CHECK(axes_of(planned(latent, kTensorParallel, "tp=2")).heads.empty());
  Manifest other = testing::manifest({{"blocks.0.keys", "bf16[32, 32]"}});
  other.facts = two_layers().facts;
  const KvAxes axes = axes_of(planned(other, kTensorParallel, "tp=2"));
  CHECK(axes.heads.empty());
  CHECK(axes.heads_from == "no key projection is known by name");
}

TEST_CASE("axes that are asked for win over those that are guessed") {
  const Case c = planned(two_layers(), kTensorParallel, "dp=2,fsdp=4,tp=2");
  KvAxes axes = axes_of(c, {.heads = {"fsdp"}});
  CHECK(axes.heads == AxisNames{"fsdp"});
  CHECK(axes.batch == AxisNames{"dp"});
  CHECK(axes.heads_from == "as `--kv-axes` says");
  axes = axes_of(c, {.batch = {"tp"}});
  CHECK(axes.heads.empty());
  CHECK(axes.batch == AxisNames{"tp"});
  CHECK(axes.heads_from ==
        "as `layers.0.self_attn.k_proj.weight` is sharded, without what batch "
        "and context were given");
  axes = axes_of(c, {.sequence = {"dp", "sp"}});  // `sp` is declared
  CHECK(axes.sequence == AxisNames{"dp"});
  CHECK(axes.batch == AxisNames{"fsdp"});
}

TEST_CASE("unknown axes, and axes asked for twice, are told with help") {
  const Case c = planned(two_layers(), kTensorParallel, "fsdp=4,tp=2");
  Diagnostics diags;
  CHECK_FALSE(kv_sharding(c.manifest, c.plan, {"tq"}, {"pod"}, {}, diags));
  REQUIRE(diags.all().size() == 2);
  CHECK(diags.all()[0].message ==
        "the mesh has no axis `tq`, which `--kv-axes` names");
  CHECK(diags.all()[0].help.front() ==
        "name an axis of the mesh, perhaps `tp`");
  CHECK(diags.all()[1].help.front() ==
        "name axes of the mesh, separated by commas");
  CHECK(diags.cannot_run());
  Diagnostics twice;
  CHECK_FALSE(kv_sharding(c.manifest, c.plan, {"tp"}, {}, {"tp"}, twice));
  REQUIRE(twice.all().size() == 1);
  CHECK(twice.all()[0].message ==
        "axis `tp` is asked to cut the KV cache twice");
  CHECK(twice.all()[0].facts.front() ==
        "in `--kv-axes` and in `--sequence-axes`");
}

TEST_CASE("what the facts lack for a KV cache is told with help") {
  Manifest manifest = two_layers();
  Diagnostics diags;
  CHECK(kv_layers(manifest, diags) ==
        std::vector<KvLayer>(2, KvLayer{4, 16, 0, 0}));
  manifest.facts.head_dim = std::nullopt;
  CHECK_FALSE(kv_layers(manifest, diags));
  REQUIRE(diags.all().size() == 1);
  CHECK(diags.all()[0].facts.front() == "missing: `head_dim`");
  CHECK(diags.cannot_run());
}

}  // namespace
}  // namespace shardplan
