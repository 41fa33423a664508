// SPDX-License-Identifier: Apache-2.0
// What a forward pass sends, with few layers in place of all, is what all of
// them send; and what a run moves.
#include "sim/forward_collectives.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "base/allocation.h"
#include "base/checked.h"
#include "model/forward/recognise.h"
#include "resolve/resolve.h"
#include "tests/support/builders.h"
#include "tests/support/hf_config.h"
#include "tests/support/loaded_rules.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"
#include "tests/support/whole_model.h"

namespace shardplan {
namespace {

using testing::Json;
using testing::mesh;

// A model, its rules, and both answers.
struct Counted {
  std::unique_ptr<testing::Synthesis> synthesis;
  testing::MemoryHost host;
  std::unique_ptr<testing::LoadedRules> rules;
  Diagnostics diags;
  std::optional<ForwardGraphs> model;
  std::optional<ForwardCollectives> once;
  std::optional<ForwardCollectives> each;
};

std::unique_ptr<Counted> counted(const Json& config, const std::string& rules,
                                 const char* axes,
                                 ForwardPass pass = {4, 8, {}, {}}) {
  auto result = std::make_unique<Counted>();
  Counted& all = *result;
  all.synthesis = testing::synthesize(config);
  const Manifest& manifest = all.synthesis->good();
  all.host.files["rules.yaml"] = rules;
  all.rules = testing::loaded_rules(
      all.host, rules.front() == '@' ? rules.c_str() : "rules.yaml");
  REQUIRE(all.rules->rules);
  const auto plan =
      resolve(manifest, *all.rules->rules, mesh(axes), {}, all.diags);
  REQUIRE(plan);
  auto model = recognise_model(manifest, testing::parsed_config(config),
                               nullptr, all.diags);
  REQUIRE(model);
  all.model = forward_graphs(manifest, *std::move(model), pass);
  const ForwardPlan of{manifest, *plan, &*all.rules->rules, {}, Storage::F32};
  all.once = forward_collectives(*all.model, of, all.diags);
  all.each = forward_collectives(*all.model, of, all.diags, EqualLayers::Each);
  return result;
}

Json with_layers(const char* name, int64_t layers) {
  return testing::changed(
      testing::small_config(name),
      {{"num_hidden_layers", layers}, {"num_experts_per_tok", 2}});
}

std::string text_of(const ForwardCollectives& found) {
  std::string text;
  for (const CollectiveUse& use : found.uses) {
    text += std::string(collective_name(use.kind)) + " " +
            (use.axes.empty() ? "" : use.axes.front().text()) + " " + use.what +
            " x" + std::to_string(use.count) + " " +
            std::to_string(use.bytes_per_device) + "\n";
  }
  return text;
}

TEST_CASE("forward collectives: few layers send what all of them do") {
  const std::pair<const char*, const char*> models[] = {
      {"llama", "@llama"},
      {"mistral", "@llama"},
      {"qwen2-tied", "@qwen2"},
      {"qwen3", "@qwen3"},
      {"mixtral", "@mixtral"},
      {"qwen3_moe", "@qwen3_moe"},
      {"llama-tied-biased", "@llama"}};
  size_t uses = 0;
  for (const auto& model : models) {
    const char* const config = model.first;
    const char* const rules = model.second;
    for (const char* axes :
         {"dp=2,fsdp=2", "fsdp=2,tp=2", "tp=2", "tp=4", "fsdp=4", "fsdp=2,sp=2",
          "sp=2,tp=2", "ep=2,tp=2", "dp=2,fsdp=2,tp=2", "fsdp=3"}) {
      for (const int64_t layers : {4, 5, 9}) {
        CAPTURE(config);
        CAPTURE(axes);
        CAPTURE(layers);
        // The fewest layers of each model and mesh.
        if (!kCountsAllocations && layers > 4) continue;
        const auto both = counted(with_layers(config, layers), rules, axes);
        REQUIRE_MESSAGE(both->once, testing::messages(both->diags));
        REQUIRE(both->each);
        CHECK(text_of(*both->once) == text_of(*both->each));
        CHECK(both->once->uses == both->each->uses);
        CHECK(both->each->partitioned == layers);
        CHECK(both->once->partitioned == 3);
        uses += both->once->uses.size();
      }
    }
  }
  CHECK(uses > (kCountsAllocations ? 500U : 160U));
}

TEST_CASE("forward collectives: encoders and decoders are counted apart") {
  const auto sent = [](int64_t encoder, int64_t decoder) {
    const auto both = counted({{"model_type", "t5"},
                               {"architectures", {"T5Model"}},
                               {"d_model", 16},
                               {"d_kv", 4},
                               {"d_ff", 32},
                               {"num_heads", 4},
                               {"vocab_size", 64},
                               {"num_layers", encoder},
                               {"num_decoder_layers", decoder}},
                              "@all_models", "fsdp=2,tp=2");
    REQUIRE_MESSAGE(both->once, testing::messages(both->diags));
    REQUIRE(both->each);
    CHECK(text_of(*both->once) == text_of(*both->each));
    int64_t bytes = 0;
    for (const CollectiveUse& use : both->once->uses) {
      bytes += use.bytes_per_device;
    }
    return bytes;
  };
  const int64_t few = sent(5, 5);
  const int64_t encoder = sent(9, 5) - few;
  const int64_t decoder = sent(5, 9) - few;
  CHECK(encoder > 0);
  CHECK(decoder > encoder);  // it reads what the encoder gives, too
}

// Rules of a Llama, with one before them.
std::string rules_but(const std::string& first) {
  return "axes: [dp, fsdp, tp]\nrules:\n" + first +
         "  - ['(q|k|v|gate|up)_proj.weight$', [tp, fsdp]]\n"
         "  - ['(o|down)_proj.weight$', [fsdp, tp]]\n"
         "  - ['.*', []]\n";
}

TEST_CASE(
    "forward collectives: layers that are placed differently are counted") {
  struct Case {
    const char* first;
    int64_t partitioned;
  };
  const Case cases[] = {
      {"", 3},
      // The first layer alone, then all alike.
      {"  - ['layers.0.mlp.down_proj.weight$', []]\n", 4},
      // Every second one: a period of two layers, and one more at the end.
      {"  - ['layers.\\d*[13579].mlp.down_proj.weight$', []]\n", 7},
      // In the midst, and at the end: nothing repeats up to it.
      {"  - ['layers.7.mlp.down_proj.weight$', []]\n", 11},
      {"  - ['layers.10.mlp.down_proj.weight$', []]\n", 13}};
  for (const Case& each : cases) {
    const std::string first = each.first;
    CAPTURE(first);
    const auto both =
        counted(with_layers("llama", 13), rules_but(first), "fsdp=2,tp=2");
    REQUIRE_MESSAGE(both->once, testing::messages(both->diags));
    REQUIRE(both->each);
    CHECK(text_of(*both->once) == text_of(*both->each));
    CHECK(both->once->partitioned == each.partitioned);
  }
}

TEST_CASE("forward collectives: activation rules may name layers") {
  const std::pair<const char*, int64_t> cases[] = {
      {"mlp.hidden", 3},
      {"layers.1.mlp.hidden", 13},
      {"layers.[01].mlp.hidden", 13},
      {"layers.\\d.mlp.hidden", 13},
      {"layers.12.mlp.hidden", 13}};
  for (const auto& each : cases) {
    const std::string pattern = each.first;
    CAPTURE(pattern);
    const auto both =
        counted(with_layers("llama", 13),
                rules_but("") + "activations:\n  - ['" + pattern + "', []]\n",
                "fsdp=2,tp=2");
    REQUIRE_MESSAGE(both->once, testing::messages(both->diags));
    REQUIRE(both->each);
    CHECK(text_of(*both->once) == text_of(*both->each));
    CHECK(both->once->partitioned == each.second);
  }
}

TEST_CASE("forward collectives: layers with experts beside dense ones") {
  for (const int64_t layers : {6, 12, 15}) {
    CAPTURE(layers);
    const auto both = counted(with_layers("qwen3_moe-some-dense", layers),
                              "@qwen3_moe", "ep=3,tp=2", {6, 8, {}, {}});
    REQUIRE_MESSAGE(both->once, testing::messages(both->diags));
    REQUIRE(both->each);
    CHECK(text_of(*both->once) == text_of(*both->each));
  }
}

TEST_CASE("forward collectives: counts and bytes are those of a run") {
  for (const char* axes : {"fsdp=2,tp=2", "tp=4", "sp=2,tp=2"}) {
    CAPTURE(axes);
    testing::TinyModel tiny = testing::tiny_model("llama");
    const auto whole = testing::whole_model(tiny.manifest, tiny.config);
    REQUIRE(whole->model);
    const auto run =
        testing::simulated(*whole, "@llama", axes, ValueSource::Random);
    REQUIRE(run.simulation);
    testing::MemoryHost host;
    const auto rules = testing::loaded_rules(host, "@llama");
    Diagnostics diags;
    const auto plan =
        resolve(whole->manifest, *rules->rules, mesh(axes), {}, diags);
    REQUIRE(plan);
    auto model = forward_graphs(whole->manifest, *whole->model, whole->pass);
    const auto found = forward_collectives(
        model, {whole->manifest, *plan, &*rules->rules, {}, Storage::F32},
        diags);
    REQUIRE(found);
    int64_t count = 0;
    int64_t bytes = 0;
    for (const CollectiveUse& use : found->uses) {
      count += use.count;
      bytes += use.bytes_per_device;
    }
    int64_t moved = 0;
    for (const MovedBytes& each : run.simulation->collectives) {
      moved += each.bytes_per_device;
    }
    CHECK(count == static_cast<int64_t>(run.simulation->collectives.size()));
    CHECK(bytes == moved);
    CHECK(bytes > 0);
  }
}

TEST_CASE("forward collectives: what is sent is told by its parameter") {
  const auto both =
      counted(with_layers("llama", 9), rules_but(""), "fsdp=2,tp=2");
  REQUIRE(both->once);
  bool summed = false;
  bool gathered = false;
  for (const CollectiveUse& use : both->once->uses) {
    if (use.what == "model.layers.*.mlp.down_proj.weight" &&
        use.after_product) {
      summed = true;
      CHECK(use.cause == Cause::PartialSum);
      CHECK(use.axes == AxisNames{"tp"});
      CHECK(use.count == 9);
      CHECK(use.parameters.front() == "model.layers.0.mlp.down_proj.weight");
    }
    if (use.cause == Cause::WeightUse &&
        use.what == "model.layers.*.mlp.up_proj.weight") {
      gathered = true;
      CHECK(use.kind == CollectiveKind::AllGather);
      CHECK(use.axes == AxisNames{"fsdp"});
    }
  }
  CHECK(summed);
  CHECK(gathered);
}

TEST_CASE("forward collectives: a shape that does not fit is said") {
  Json config = with_layers("llama", 9);
  const auto synthesis = testing::synthesize(config);
  Manifest wrong;
  const Manifest& good = synthesis->good();
  for (size_t i = 0; i < good.size(); ++i) {
    TensorType type = good.type(i);
    if (good.name(i) == "model.layers.5.mlp.down_proj.weight") {
      type.shape = {3, 5};
    }
    wrong.add(std::string(good.name(i)), type, {});
  }
  wrong.facts = good.facts;
  Diagnostics diags;
  auto recognised =
      recognise_model(wrong, testing::parsed_config(config), nullptr, diags);
  REQUIRE(recognised);
  auto model = forward_graphs(wrong, *std::move(recognised), {4, 8, {}, {}});
  testing::MemoryHost host;
  const auto rules = testing::loaded_rules(host, "@llama");
  const auto plan = resolve(wrong, *rules->rules, mesh("tp=2"), {}, diags);
  REQUIRE(plan);
  CHECK_FALSE(forward_collectives(
      model, {wrong, *plan, &*rules->rules, {}, Storage::F32}, diags));
  CHECK(testing::messages(diags).find("down_proj") != std::string::npos);
}

}  // namespace
}  // namespace shardplan
