// SPDX-License-Identifier: Apache-2.0
#include "memory/kv_cache.h"

#include <algorithm>
#include <limits>
#include <ostream>
#include <set>

#include <doctest/doctest.h>

#include "resolve/resolve.h"
#include "tests/support/builders.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

Facts heads_facts(int64_t layers, int64_t kv_heads, int64_t head_dim) {
  Facts facts;
  facts.from = FactsFrom::Config;
  facts.layers = layers;
  facts.kv_heads = kv_heads;
  facts.head_dim = head_dim;
  return facts;
}

std::vector<KvLayer> layers_of(const Facts& facts) {
  auto layers = kv_layers(facts);
  REQUIRE(layers);
  return *std::move(layers);
}

int64_t bytes_of(const std::vector<KvLayer>& layers, const KvSharding& sharding,
                 const KvRequest& request) {
  const auto bytes = kv_bytes_per_device(layers, sharding, request);
  REQUIRE(bytes);
  return *bytes;
}

TEST_CASE("a token of Llama 3.1 70B takes 320 KiB, and a head per rank") {
  // 80 layers x 8 heads x (128 + 128) elements x 2 bytes.
  const auto layers = layers_of(heads_facts(80, 8, 128));
  CHECK(bytes_of(layers, {}, {}) == 327'680);
  CHECK(bytes_of(layers, {.heads = 8}, {}) == 40'960);
  // Sixteen ranks share eight heads: each still holds a whole one.
  CHECK(bytes_of(layers, {.heads = 16}, {}) == 40'960);
  CHECK(kv_share(layers[0], {.heads = 16}, {}).copies == 2);
  CHECK(kv_share(layers[0], {.heads = 3}, {}).heads == 3);
  CHECK(bytes_of(layers, {.heads = 8}, {.batch = 4, .seq = 8192}) ==
        4 * 8192 * int64_t{40'960});
}

TEST_CASE("a latent has no heads, so every tensor-parallel rank holds it") {
  Facts facts = heads_facts(61, 128, 128);
  facts.kv_latent = 576;
  const auto layers = layers_of(facts);
  CHECK(layers[0] == KvLayer{0, 0, 576, 0});
  CHECK(bytes_of(layers, {}, {}) == 61 * 576 * 2);
  CHECK(bytes_of(layers, {.heads = 8}, {}) == 61 * 576 * 2);
  CHECK(kv_share(layers[0], {.heads = 8}, {}).copies == 8);
  CHECK(bytes_of(layers, {.batch = 4, .sequence = 2}, {.batch = 8, .seq = 9}) ==
        int64_t{2} * 5 * 61 * 576 * 2);
}

TEST_CASE("of every so many tokens one entry is kept, of the others none") {
  Facts facts;
  facts.state.kinds = {{true,
                        {{.name = "kv", .width = 8, .tokens = 4},
                         {.name = "compressed", .width = 8, .every = 4}}}};
  facts.state.layers = {0};
  const auto layers = layers_of(facts);
  REQUIRE(layers.size() == 2);
  CHECK(kv_kinds(layers).size() == 2);
  const std::vector<KvLayer> compressed = {layers[1]};
  for (const auto& pair :
       {std::pair{3, 0}, {4, 1}, {11, 2}, {12, 3}, {4000, 1000}}) {
    const int tokens = pair.first;
    const int entries = pair.second;
    CAPTURE(tokens);
    const KvRequest request{.seq = tokens, .dtype = DType::I8};
    CHECK(bytes_of(compressed, {}, request) == entries * 8);
    CHECK(bytes_of(layers, {}, request) == (entries + std::min(tokens, 4)) * 8);
  }
  // Whole pages, of as many entries as 16 tokens become; devices share entries.
  CHECK(bytes_of(compressed, {},
                 {.seq = 36, .dtype = DType::I8, .block = 16}) == 12 * 8);
  CHECK(bytes_of(compressed, {.sequence = 2},
                 {.seq = 14, .dtype = DType::I8}) == 2 * 8);
}

TEST_CASE("windows bound a layer's tokens, and values may be wider than keys") {
  Facts facts = heads_facts(2, 1, 3);
  facts.value_dim = 5;
  facts.windows = {4, 0};
  const auto layers = layers_of(facts);
  CHECK(layers[0] == KvLayer{1, 8, 0, 4});
  const KvRequest ten{.seq = 10, .dtype = DType::I8};
  CHECK(bytes_of(layers, {}, ten) == (4 + 10) * 8);
  CHECK(bytes_of(layers, {}, {.seq = 3, .dtype = DType::I8}) == (3 + 3) * 8);
  // While the prompt is processed the sliding layer holds all ten.
  const KvRequest prompt{.seq = 10, .dtype = DType::I8, .prefill = true};
  CHECK(bytes_of(layers, {}, prompt) == (10 + 10) * 8);
  CHECK(kv_prefill_bytes(layers, {}, prompt) == 6 * 8);
  CHECK(kv_prefill_bytes(layers, {}, ten) == 0);
}

TEST_CASE("only one sliding layer at a time holds a whole prompt") {
  Facts facts = heads_facts(3, 1, 1);
  facts.windows = {4, 2, 4};
  const auto layers = layers_of(facts);
  const KvRequest prompt{.seq = 10, .dtype = DType::I8, .prefill = true};
  // 4 + 2 + 4 tokens, and the other eight of the second layer.
  CHECK(bytes_of(layers, {}, prompt) == (10 + 8) * 2);
}

TEST_CASE("pages are whole, and a window may begin anywhere in one") {
  Facts facts = heads_facts(1, 1, 1);
  const auto all = layers_of(facts);
  const auto tokens = [](const KvLayer& layer, int64_t seq, int64_t block) {
    return kv_share(layer, {}, {.seq = seq, .block = block}).tokens;
  };
  CHECK(tokens(all[0], 17, 16) == 32);
  CHECK(tokens(all[0], 16, 16) == 16);
  facts.windows = {32};
  const auto sliding = layers_of(facts);
  // 32 tokens that begin at the last of a page touch three pages.
  CHECK(tokens(sliding[0], 1000, 16) == 48);
  CHECK(tokens(sliding[0], 1000, 1) == 32);
  CHECK(tokens(sliding[0], 20, 16) == 32);
  facts.windows = {1};
  CHECK(tokens(layers_of(facts)[0], 1000, 16) == 16);
}

TEST_CASE("four-bit elements are rounded to bytes per layer") {
  const auto layers = layers_of(heads_facts(2, 1, 1));
  CHECK(bytes_of(layers, {}, {.seq = 3, .dtype = DType::I4}) == 2 * 3);
  Facts odd = heads_facts(2, 1, 1);
  odd.value_dim = 2;
  CHECK(bytes_of(layers_of(odd), {}, {.seq = 3, .dtype = DType::I4}) == 2 * 5);
}

TEST_CASE("what facts lack is named") {
  CHECK(kv_missing({}) == "`layers`, `kv_heads` and `head_dim`");
  Facts facts = heads_facts(2, 1, 1);
  CHECK(kv_missing(facts).empty());
  facts.head_dim = std::nullopt;
  CHECK(kv_missing(facts) == "`head_dim`");
  CHECK_FALSE(kv_layers(facts));
  facts.kv_latent = 8;
  CHECK(kv_missing(facts).empty());
  facts.windows = {1};
  CHECK(kv_missing(facts) == "`windows` of all 2 layers (it has 1)");
  facts.windows = {kUnknownWindow, kUnknownWindow};
  CHECK(kv_missing(facts) == "the cache of 2 non-attention layers");
  facts = heads_facts(100'001, 1, 1);
  CHECK(kv_missing(facts) == "at most 100,000 `layers`");
  facts = heads_facts(1, 1, std::numeric_limits<int64_t>::max());
  CHECK(kv_missing(facts) == "a `head_dim` and a `value_dim` within 63 bits");
  CHECK_FALSE(kv_layers(facts));
}

TEST_CASE("sizes beyond 63 bits have no answer, and fit nothing") {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const auto layers = layers_of(heads_facts(1, kMax, kMax / 2));
  CHECK_FALSE(kv_bytes_per_device(layers, {}, {}));
  const KvRequest most{.batch = kMaxKvCount, .seq = kMaxKvCount};
  CHECK_FALSE(kv_bytes_per_device(layers, {}, most));
  CHECK_FALSE(kv_bytes_with_replicas(layers, {}, most, 1));
  CHECK(largest_that_fits(&KvRequest::batch, layers, {}, {}, kMax) == 0);
  // One by one they fit, together they do not.
  const auto many = layers_of(heads_facts(3, 1, int64_t{1} << 60));
  CHECK_FALSE(kv_bytes_per_device(many, {}, {}));
}

TEST_CASE("no limit is found where a window bounds every layer") {
  Facts facts = heads_facts(2, 1, 1);
  facts.windows = {4, 8};
  const auto layers = layers_of(facts);
  CHECK(largest_that_fits(&KvRequest::seq, layers, {}, {}, 12 * 4) ==
        std::nullopt);
  CHECK(largest_that_fits(&KvRequest::seq, layers, {}, {}, 12 * 4 - 1) == 7);
  CHECK(largest_that_fits(&KvRequest::seq, layers, {}, {}, 7) == 0);
  CHECK(largest_that_fits(&KvRequest::batch, layers, {}, {}, 23) == 2);
  CHECK(largest_that_fits(&KvRequest::batch, {}, {}, {}, 0) == std::nullopt);
}

TEST_CASE("copies and padding of a cache over all devices are told apart") {
  // 3 heads over 2 ranks: 2 x 2 stored; 2 groups of devices hold the same.
  const auto layers = layers_of(heads_facts(5, 3, 4));
  const KvSharding sharding{.heads = 2};
  const KvRequest request{.batch = 1, .seq = 10};
  CHECK(kv_bytes_per_device(layers, sharding, request) == 5 * 10 * 2 * 8 * 2);
  CHECK(kv_bytes_with_replicas(layers, sharding, request, 4) ==
        Int128{2 * 5 * 10 * 3 * 8 * 2});
}

struct Draw {
  Facts facts;
  KvSharding sharding;
  KvRequest request;
};

std::ostream& operator<<(std::ostream& out, const Draw& d) {
  out << "heads " << d.facts.kv_heads.value_or(0) << " width "
      << d.facts.head_dim.value_or(0) << " latent "
      << d.facts.kv_latent.value_or(0) << " windows";
  for (const int64_t window : d.facts.windows) out << ' ' << window;
  return out << "; over heads " << d.sharding.heads << " batch "
             << d.sharding.batch << " sequence " << d.sharding.sequence
             << "; batch " << d.request.batch << " seq " << d.request.seq
             << " bits " << dtype_block(d.request.dtype).bits << " block "
             << d.request.block << " prefill " << d.request.prefill;
}

Draw draw() {
  const auto small = [](int64_t end) { return draw_in<int64_t>(1, end); };
  Draw d{heads_facts(small(4), small(7), small(4)), {}, {}};
  if (draw_bool()) d.facts.value_dim = small(4);
  if (draw_in(0, 4) == 0) d.facts.kv_latent = small(6);
  if (draw_bool()) {
    for (int64_t i = 0; i < *d.facts.layers; ++i) {
      d.facts.windows.push_back(draw_in<int64_t>(0, 12));
    }
  }
  d.sharding = {small(9), small(4), small(4)};
  d.request = {small(6), small(30),
               draw_of({DType::BF16, DType::I8, DType::I4}), small(6),
               draw_bool()};
  return d;
}

// The smallest n with n x parts >= whole.
int64_t share_of(int64_t whole, int64_t parts) {
  int64_t n = 1;
  while (n * parts < whole) ++n;
  return n;
}

// Pages that a device needs for one sequence while it grows to `seq` tokens,
// which are dealt out in turn: counted token by token.
int64_t most_pages(int64_t seq, int64_t window, const Draw& d) {
  size_t most = 0;
  for (int64_t length = 1; length <= seq; ++length) {
    for (int64_t device = 0; device < d.sharding.sequence; ++device) {
      std::set<int64_t> pages;
      for (int64_t token = 0; token < length; ++token) {
        const bool seen = window == 0 || token >= length - window;
        if (!seen || token % d.sharding.sequence != device) continue;
        pages.insert(token / d.sharding.sequence / d.request.block);
      }
      most = std::max(most, pages.size());
    }
  }
  return static_cast<int64_t>(most);
}

int64_t bytes_by_counting(const Draw& d) {
  const auto layer_bytes = [&](int64_t window) {
    int64_t elements = 0;
    if (d.facts.kv_latent) {
      elements = *d.facts.kv_latent;
    } else {
      elements =
          share_of(*d.facts.kv_heads, d.sharding.heads) *
          (*d.facts.head_dim + d.facts.value_dim.value_or(*d.facts.head_dim));
    }
    const int64_t tokens =
        most_pages(d.request.seq, window, d) * d.request.block;
    const int64_t bits = elements * tokens *
                         share_of(d.request.batch, d.sharding.batch) *
                         dtype_block(d.request.dtype).bits;
    return (bits + 7) / 8;
  };
  int64_t total = 0;
  int64_t at_work = 0;
  for (int64_t i = 0; i < *d.facts.layers; ++i) {
    const int64_t window =
        d.facts.windows.empty() ? 0 : d.facts.windows[static_cast<size_t>(i)];
    total += layer_bytes(window);
    at_work = std::max(at_work, layer_bytes(0) - layer_bytes(window));
  }
  return total + (d.request.prefill ? at_work : 0);
}

TEST_CASE("the closed form is what counting tokens gives") {
  CHECK(holds("bytes", [] {
    const Draw d = draw();
    testing::case_log() << d;
    const auto layers = kv_layers(d.facts);
    ENSURE(layers);
    const auto bytes = kv_bytes_per_device(*layers, d.sharding, d.request);
    ENSURE(bytes == std::optional(bytes_by_counting(d)));
  }));
}

TEST_CASE("copies are at most what all devices store") {
  CHECK(holds("totals", [] {
    const Draw d = draw();
    testing::case_log() << d;
    const auto layers = *kv_layers(d.facts);
    const int64_t devices = draw_in<int64_t>(1, 4) * d.sharding.heads *
                            d.sharding.batch * d.sharding.sequence;
    const auto with_replicas =
        kv_bytes_with_replicas(layers, d.sharding, d.request, devices);
    ENSURE(with_replicas);
    const Int128 padding = *kv_bytes_per_device(layers, d.sharding, d.request) *
                               static_cast<Int128>(devices) -
                           *with_replicas;
    ENSURE(padding >= 0);
    // Without paging, padding is what rounding adds: none where all divides.
    const bool exact = d.request.block == 1 &&
                       d.request.batch % d.sharding.batch == 0 &&
                       d.sharding.sequence == 1 && d.sharding.heads == 1 &&
                       d.request.dtype == DType::BF16;
    if (exact) ENSURE(padding == 0);
  }));
}

TEST_CASE("the largest batch and context are found exactly") {
  CHECK(holds("limits", [] {
    Draw d = draw();
    testing::case_log() << d;
    const auto layers = *kv_layers(d.facts);
    const auto room = draw_in<int64_t>(0, 600);
    const auto fits = [&](const KvRequest& request) {
      return *kv_bytes_per_device(layers, d.sharding, request) <= room;
    };
    const auto agrees = [&](std::optional<int64_t> found,
                            int64_t KvRequest::*member) {
      KvRequest request = d.request;
      int64_t last = 0;
      for (request.*member = 1; request.*member <= 4000; ++(request.*member)) {
        if (fits(request)) last = request.*member;
      }
      return last == 4000 ? !found : found == last;
    };
    ENSURE(agrees(largest_that_fits(&KvRequest::batch, layers, d.sharding,
                                    d.request, room),
                  &KvRequest::batch));
    ENSURE(agrees(
        largest_that_fits(&KvRequest::seq, layers, d.sharding, d.request, room),
        &KvRequest::seq));
  }));
}

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

KvAxes axes_of(const Case& c, const RequestedKvAxes& asked = {}) {
  Diagnostics diags;
  auto axes = kv_axes(c.manifest, key_projections(c.manifest), {}, c.plan,
                      asked, diags);
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
  CHECK(axes.heads_from ==
        "as `layers.0.self_attn.k_proj.weight` is replicated");
}

TEST_CASE("of layers that differ, the one that is cut least decides") {
  const RuleSet rules = testing::rules(
      {{"0.*k_proj.weight", "(tp, ep)"}, {"k_proj.weight", "tp"}, {".", ""}});
  const KvAxes axes = axes_of(planned(two_layers(), rules, "tp=2,ep=2"));
  CHECK(axes.heads == AxisNames{"tp"});
  CHECK(axes.heads_from ==
        "as `layers.1.self_attn.k_proj.weight` is sharded, the least sharded "
        "of the key projections");
}

TEST_CASE("latents, and names that nobody knows, are cut over no axis") {
  Manifest latent = two_layers();
  latent.facts.kv_latent = 16;
  CHECK(axes_of(planned(latent, kTensorParallel, "tp=2")).heads.empty());
  Manifest other = testing::manifest({{"blocks.0.keys", "bf16[32, 32]"}});
  other.facts = two_layers().facts;
  const KvAxes axes = axes_of(planned(other, kTensorParallel, "tp=2"));
  CHECK(axes.heads.empty());
  CHECK(axes.heads_from == "no key projection is found by name");
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
        "as `layers.0.self_attn.k_proj.weight` is sharded, minus the axes of "
        "batch and context");
  axes = axes_of(c, {.sequence = {"dp", "sp"}});  // `sp` is declared
  CHECK(axes.sequence == AxisNames{"dp"});
  CHECK(axes.batch == AxisNames{"fsdp"});
}

TEST_CASE("unknown axes, and axes asked for twice, are reported with help") {
  const Case c = planned(two_layers(), kTensorParallel, "fsdp=4,tp=2");
  Diagnostics diags;
  CHECK_FALSE(
      kv_axes(c.manifest, {}, {}, c.plan, {{"tq"}, {"pod"}, {}}, diags));
  REQUIRE(diags.all().size() == 2);
  CHECK(diags.all()[0].message ==
        "`--kv-axes` names `tq`, which is not an axis of the mesh");
  CHECK(diags.all()[0].help.front() ==
        "name an axis of the mesh, such as `tp`");
  CHECK(diags.all()[1].help.front() ==
        "name axes of the mesh, separated by commas");
  CHECK(diags.cannot_run());
  Diagnostics twice;
  CHECK_FALSE(kv_axes(c.manifest, {}, {}, c.plan, {{"tp"}, {}, {"tp"}}, twice));
  REQUIRE(twice.all().size() == 1);
  CHECK(twice.all()[0].message == "axis `tp` would shard the KV cache twice");
  CHECK(twice.all()[0].facts.front() ==
        "in `--kv-axes` and in `--sequence-axes`");
}

TEST_CASE("what the facts lack for a KV cache is reported with help") {
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
