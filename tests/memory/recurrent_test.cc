// SPDX-License-Identifier: Apache-2.0
// What layers keep beside keys and values of all tokens: states per sequence,
// and what an encoder gave.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "memory/budget.h"
#include "memory/kv_cache.h"
#include "tests/support/builders.h"
#include "tests/support/placed.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

CachedTensor kv(int64_t heads, int64_t width, int64_t window = 0) {
  CachedTensor cached;
  cached.name = "kv";
  cached.heads = heads;
  cached.width = width;
  cached.tokens = window;
  return cached;
}

CachedTensor recurrent_state(const std::string& name, int64_t heads,
                             int64_t width, DType dtype) {
  CachedTensor cached = kv(heads, width);
  cached.name = name;
  cached.per = CachedTensor::Per::Sequence;
  cached.dtype = dtype;
  return cached;
}

CachedTensor cross(int64_t heads, int64_t width, int64_t tokens = 0) {
  CachedTensor cached = kv(heads, width, tokens);
  cached.name = "cross";
  cached.per = CachedTensor::Per::Source;
  return cached;
}

// A state of 4 heads, keys and values of 2 heads, and a layer without any.
Facts mixed_facts() {
  Facts facts;
  facts.from = FactsFrom::Config;
  facts.layers = 4;
  facts.state.kinds = {
      {true, {recurrent_state("ssm", 4, 6, DType::F32)}},
      {true, {kv(2, 16, 8)}},
      {true, {}},
  };
  facts.state.layers = {0, 1, 0, 2};
  return facts;
}

int64_t kept_bytes(const Facts& facts, const KvSharding& sharding,
                   const KvRequest& request) {
  const auto layers = kv_layers(facts);
  REQUIRE(layers);
  return kv_bytes_per_device(*layers, sharding, request).value();
}

TEST_CASE("states are counted per sequence, caches per token") {
  const Facts facts = mixed_facts();
  CHECK(kv_missing(facts).empty());
  const auto layers = *kv_layers(facts);
  REQUIRE(layers.size() == 3);
  CHECK(layers[0].recurrent);
  CHECK(layers[0].name == "ssm");
  CHECK(layers[1] == KvLayer{2, 16, 0, 8});
  // 2 layers x 4 heads x 6 x 4 bytes, and 2 heads x 16 x 2 bytes a token.
  CHECK(kept_bytes(facts, {}, {.batch = 3, .seq = 5}) == 3 * (192 + 5 * 64));
  CHECK(kept_bytes(facts, {}, {.batch = 3, .seq = 50}) == 3 * (192 + 8 * 64));
  // The cache is in the dtype that was asked for, the state in its own.
  CHECK(kept_bytes(facts, {}, {.seq = 5, .dtype = DType::F8E4M3}) ==
        192 + 5 * 32);
  CHECK(kept_bytes(facts, {.heads = 2}, {.seq = 5}) == 192 + 5 * 32);
  CHECK(kept_bytes(facts, {.states = 2}, {.seq = 5}) == 96 + 5 * 64);
  // Neither context parallelism nor pages change a state.
  CHECK(kept_bytes(facts, {.sequence = 4}, {.seq = 8, .block = 4}) ==
        192 + 4 * 64);
  // A part is never cut; devices beyond their number hold copies.
  const KvShare share = kv_share(layers[0], {.states = 16}, {.seq = 5});
  CHECK(share.heads == 1);
  CHECK(share.tokens == 1);
  CHECK(share.copies == 4);
}

TEST_CASE("a range of layers keeps what these do") {
  const Facts facts = mixed_facts();
  CHECK(kv_layers(facts, 0, 1)->size() == 1);
  CHECK(kv_layers(facts, 1, 2)->front() == KvLayer{2, 16, 0, 8});
  CHECK(kv_layers(facts, 3, 4)->empty());
  CHECK(kv_layers(facts, 3, 100)->empty());
  CHECK(kv_layers(facts, 9, 100)->empty());
  Facts plain;
  plain.layers = 3;
  plain.kv_heads = 2;
  plain.head_dim = 4;
  plain.windows = {1, 2, 3};
  CHECK(*kv_layers(plain, 1, 3) ==
        std::vector<KvLayer>{{2, 8, 0, 2}, {2, 8, 0, 3}});
  CHECK(kv_layers(plain, 3, 9)->empty());
}

TEST_CASE("a layer that is not known makes all unknown") {
  Facts facts = mixed_facts();
  facts.state.kinds[0].known = false;
  CHECK(kv_missing(facts) == "the state of 2 layers");
  CHECK_FALSE(kv_layers(facts));
  facts.state.layers = {1, 0};
  CHECK(kv_missing(facts) == "the state of 1 layer");
}

TEST_CASE("an encoder's tokens are kept as many as there are") {
  Facts facts;
  facts.state.kinds = {{true, {kv(2, 8), cross(2, 8)}}};
  facts.state.layers = {0, 0};
  CHECK(needs_source(*kv_layers(facts)));
  CHECK(kept_bytes(facts, {}, {.seq = 5, .source = 7}) == 2 * (5 + 7) * 32);
  CHECK(kept_bytes(facts, {.sequence = 2}, {.seq = 5, .source = 7}) ==
        2 * (3 + 4) * 32);
  facts.state.kinds = {{true, {cross(2, 8, 1500)}}};
  CHECK_FALSE(needs_source(*kv_layers(facts)));
  CHECK(kept_bytes(facts, {}, {.seq = 5, .source = 7}) == 2 * 1500 * 32);
}

TEST_CASE("property: totals are those of every device, one by one") {
  const auto draw_sharding = [] {
    return KvSharding{
        testing::draw_in<int64_t>(1, 5), testing::draw_in<int64_t>(1, 3),
        testing::draw_in<int64_t>(1, 3), testing::draw_in<int64_t>(1, 5)};
  };
  CHECK(testing::holds("totals are those of every device", [&] {
    Facts facts;
    const auto kinds = testing::draw_in<int64_t>(1, 4);
    for (int64_t i = 0; i < kinds; ++i) {
      LayerState layer;
      const auto parts = testing::draw_in<int64_t>(0, 4);
      for (int64_t j = 0; j < parts; ++j) {
        const auto heads = testing::draw_in<int64_t>(0, 5);
        const auto width = testing::draw_in<int64_t>(1, 9);
        switch (testing::draw_in(0, 3)) {
          case 0:
            layer.cached.push_back(
                kv(heads, width, testing::draw_in<int64_t>(0, 9)));
            break;
          case 1:
            layer.cached.push_back(
                cross(heads, width, testing::draw_in<int64_t>(0, 3)));
            break;
          default:
            layer.cached.push_back(
                recurrent_state("s", heads, width, DType::F32));
        }
      }
      facts.state.kinds.push_back(std::move(layer));
    }
    const auto layers = testing::draw_in<int64_t>(1, 6);
    for (int64_t i = 0; i < layers; ++i) {
      facts.state.layers.push_back(
          static_cast<uint32_t>(testing::draw_in<int64_t>(0, kinds)));
    }
    const KvSharding sharding = draw_sharding();
    const KvRequest request{.batch = testing::draw_in<int64_t>(1, 7),
                            .seq = testing::draw_in<int64_t>(1, 20),
                            .source = testing::draw_in<int64_t>(1, 9)};
    // One device after another: the first of each row of axes has most.
    Int128 expected = 0;
    for (const uint32_t kind : facts.state.layers) {
      for (const CachedTensor& each : facts.state.kinds[kind].cached) {
        const bool state = each.per == CachedTensor::Per::Sequence;
        const int64_t over = state ? sharding.states : sharding.heads;
        int64_t heads = 0;  // of the first device
        for (int64_t h = 0; h < std::max<int64_t>(each.heads, 1); h += over) {
          ++heads;
        }
        int64_t sequences = 0;
        for (int64_t b = 0; b < request.batch; b += sharding.batch) {
          ++sequences;
        }
        int64_t tokens = 1;
        if (!state) {
          const bool source = each.per == CachedTensor::Per::Source;
          int64_t all = request.seq;
          if (source) all = each.tokens > 0 ? each.tokens : request.source;
          tokens = ceil_div(all, sharding.sequence);
          if (!source && each.tokens > 0) {
            tokens = std::min(tokens, ceil_div(each.tokens, sharding.sequence));
          }
        }
        expected += static_cast<Int128>(heads) * each.width * sequences *
                    tokens * (state ? 4 : 2);
      }
    }
    const auto all = kv_layers(facts);
    ENSURE(all);
    const auto bytes = kv_bytes_per_device(*all, sharding, request);
    ENSURE(bytes);
    ENSURE(*bytes == expected);
    const int64_t devices =
        sharding.heads * sharding.batch * sharding.sequence * sharding.states;
    const auto with_replicas =
        kv_bytes_with_replicas(*all, sharding, request, devices);
    ENSURE(with_replicas);
    ENSURE(static_cast<Int128>(*bytes) * devices >= *with_replicas);
  }));
}

// Two layers of state spaces as an architecture names their parts.
Manifest state_model() {
  Manifest manifest = testing::manifest({
      {"layers.0.mixer.A_log", "f32[4]"},
      {"layers.0.mixer.out_proj.weight", "bf16[8, 24]"},
      {"layers.1.mixer.A_log", "f32[4]"},
      {"layers.1.mixer.out_proj.weight", "bf16[8, 24]"},
      {"lm_head.weight", "bf16[8, 24]"},
  });
  ParameterKinds kinds;
  kinds[{"layers.*.mixer.A_log", {4}}] = {{"heads", 0, {}}};
  kinds[{"layers.*.mixer.out_proj.weight", {8, 24}}] = {{"hidden", 0, {}},
                                                        {"heads", 4, {}}};
  kinds[{"lm_head.weight", {8, 24}}] = {{"vocab", 0, {}}, {"heads", 0, {}}};
  manifest.kinds = std::make_shared<const ParameterKinds>(std::move(kinds));
  CachedTensor cached = recurrent_state("ssm", 4, 6, DType::F32);
  cached.label = "heads";
  cached.module = "layers.*.mixer";
  manifest.facts.layers = 2;
  manifest.facts.from = FactsFrom::Config;
  manifest.facts.state = {{{true, {cached}}}, {0, 0}};
  return manifest;
}

KvAxes axes_of_states(const Manifest& manifest, const Plan& plan,
                      const RequestedKvAxes& asked = {}) {
  Diagnostics diags;
  const auto axes = kv_axes(manifest, key_projections(manifest),
                            state_projections(manifest), plan, asked, diags);
  REQUIRE_MESSAGE(axes, testing::first_message(diags));
  return *axes;
}

TEST_CASE("states are cut as the matrices of their module are") {
  const Manifest manifest = state_model();
  CHECK(state_projections(manifest) ==
        std::vector<KeyProjection>{{1, 1}, {3, 1}});
  const auto placed = [&](const std::vector<testing::PatternAndSpec>& rules) {
    return testing::placed(manifest, testing::rules(rules), "fsdp=2,tp=4");
  };
  const Plan cut = placed({{"out_proj", ", (fsdp, tp)"}, {".", ""}});
  KvAxes axes = axes_of_states(manifest, cut);
  CHECK(axes.states == AxisNames{"tp"});
  CHECK(axes.heads.empty());
  CHECK(axes.batch == AxisNames{"fsdp"});
  CHECK(axes.states_from == "as `layers.0.mixer.out_proj.weight` is sharded");
  CHECK(kv_sharding(cut.mesh, axes).states == 4);
  const Plan differ =
      placed({{"1.*out_proj", ""}, {"out_proj", ", tp"}, {".", ""}});
  axes = axes_of_states(manifest, differ);
  CHECK(axes.states.empty());
  CHECK(axes.states_from ==
        "as `layers.1.mixer.out_proj.weight` is replicated, the least sharded "
        "of the matrices of these layers");
  axes = axes_of_states(manifest, differ, {.heads = {"tp"}});
  CHECK(axes.states == AxisNames{"tp"});
  CHECK(axes.states_from == "as `--kv-axes` says");
  Manifest unnamed = manifest;
  unnamed.kinds = nullptr;
  axes = axes_of_states(unnamed, cut);
  CHECK(axes.states.empty());
  CHECK(axes.states_from == "no parameter is known to be sharded like them");
}

TEST_CASE("a budget has states of their own, and every stage its layers'") {
  const Manifest manifest = state_model();
  const Plan plan = testing::placed(
      manifest, testing::rules({{"out_proj", ", tp"}, {".", ""}}), "pp=2,tp=4");
  BudgetOptions options;
  options.kv = KvRequest{.batch = 3, .seq = 100};
  options.kv_sharding = kv_sharding(plan.mesh, axes_of_states(manifest, plan));
  Diagnostics diags;
  const auto bytes = [&](const Budget& budget, Category category) {
    return budget.classes.front().bytes[static_cast<size_t>(category)];
  };
  auto budget = make_budget(manifest, plan, options, diags);
  REQUIRE(budget);
  CHECK(bytes(*budget, Category::KvCache) == 0);
  CHECK(bytes(*budget, Category::RecurrentState) == 2 * 3 * 6 * 4);
  const CategoryTotal& total =
      budget->totals[static_cast<size_t>(Category::RecurrentState)];
  CHECK(total.on_devices == 8 * 2 * 3 * 6 * 4);
  CHECK(total.with_replicas == total.on_devices);
  options.stages = Stages{"pp", {}};
  budget = make_budget(manifest, plan, options, diags);
  REQUIRE_MESSAGE(budget, testing::first_message(diags));
  CHECK(bytes(*budget, Category::RecurrentState) == 3 * 6 * 4);
}

TEST_CASE("how many tokens an encoder gives must be said") {
  Manifest manifest = state_model();
  manifest.facts.state = {{{true, {kv(2, 8), cross(2, 8)}}}, {0, 0}};
  const Plan plan =
      testing::placed(manifest, testing::rules({{".", ""}}), "tp=2");
  BudgetOptions options;
  options.kv = KvRequest{.seq = 100};
  Diagnostics diags;
  CHECK_FALSE(make_budget(manifest, plan, options, diags));
  REQUIRE(diags.all().size() == 1);
  CHECK(diags.all()[0].code == Code::Usage);
  CHECK(diags.all()[0].help.front() ==
        "add `--source-seq`, e.g. `--source-seq 512`");
  options.kv->source = 10;
  Diagnostics good;
  const auto budget = make_budget(manifest, plan, options, good);
  REQUIRE(budget);
  CHECK(budget->classes.front().bytes[static_cast<size_t>(Category::KvCache)] ==
        2 * 110 * 32);
}

// GPT-NeoX: keys of every head, fused with queries and values by heads.
TEST_CASE("keys by no known name are cut as the architecture labels them") {
  Manifest manifest = testing::manifest({
      {"layers.0.attention.query_key_value.weight", "bf16[24, 8]"},
      {"layers.0.attention.query_key_value.bias", "bf16[24]"},
      {"layers.0.mlp.up.weight", "bf16[32, 8]"},
  });
  ParameterKinds kinds;
  kinds[{"layers.*.attention.query_key_value.weight", {24, 8}}] = {
      {"heads", 4, {{"q", "head_dim", 2}, {"k", "head_dim", 2}}},
      {"hidden", 0, {}}};
  kinds[{"layers.*.mlp.up.weight", {32, 8}}] = {{"mlp", 0, {}},
                                                {"hidden", 0, {}}};
  manifest.kinds = std::make_shared<const ParameterKinds>(kinds);
  CachedTensor cached = kv(4, 4);
  cached.label = "kv_heads";
  cached.module = "layers.*.attention";
  manifest.facts.layers = 1;
  manifest.facts.from = FactsFrom::Config;
  manifest.facts.state = {{{true, {cached}}}, {0}};
  CHECK(key_projections(manifest) == std::vector<KeyProjection>{{0, 0}});
  const Plan plan = testing::placed(
      manifest, testing::rules({{"query_key_value.weight", "tp"}, {".", ""}}),
      "tp=4");
  Diagnostics diags;
  const auto axes =
      kv_axes(manifest, key_projections(manifest), {}, plan, {}, diags);
  REQUIRE(axes);
  CHECK(axes->heads == AxisNames{"tp"});
  // Side by side, the parts have the labels.
  kinds[{"layers.*.attention.query_key_value.weight", {24, 8}}] = {
      {"", 0, {{"q", "heads", 8, 4}, {"k", "kv_heads", 8, 4}}},
      {"hidden", 0, {}}};
  manifest.kinds = std::make_shared<const ParameterKinds>(kinds);
  CHECK(key_projections(manifest) == std::vector<KeyProjection>{{0, 0}});
  // Without labels nothing is known.
  manifest.kinds = nullptr;
  CHECK(key_projections(manifest).empty());
}

}  // namespace
}  // namespace shardplan
