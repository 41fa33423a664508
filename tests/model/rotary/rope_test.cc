// SPDX-License-Identifier: Apache-2.0
// Rotary positions as configs say them, and what of a config's other keys only
// a forward pass reads.
#include "model/rotary/rope.h"

#include <string>

#include <doctest/doctest.h>

#include "model/forward/recognise.h"
#include "tests/support/messages.h"
#include "tests/support/whole_model.h"

namespace shardplan {
namespace {

using testing::changed;
using testing::Json;
using testing::small_config;

struct Read {
  RopeConfig rope;
  Diagnostics diags;
};

Read read(const Json& config) {
  Read result;
  const auto document = testing::parsed_config(config);
  ConfigReader reader(document->root(), "", result.diags);
  result.rope = read_rope(reader, "", false, result.diags);
  return result;
}

RopeConfig good(const Json& config) {
  const Read all = read(config);
  CAPTURE(testing::messages(all.diags));
  REQUIRE_FALSE(all.diags.has_errors());
  return all.rope;
}

// "SP009 message", of the first error.
std::string refusal(const Json& config) {
  const Read all = read(config);
  for (const Diagnostic& each : all.diags.all()) {
    if (each.severity == Severity::Note) continue;
    return code_id(each.code) + " " + each.message;
  }
  return "";
}

// The messages of a config that is read.
std::string remarks(const Json& config) {
  const Read read_config = read(config);
  std::string all;
  for (const Diagnostic& note : read_config.diags.all()) {
    CHECK(note.severity == Severity::Note);
    all += note.message + "\n";
  }
  return all;
}

TEST_CASE("rope as every version of transformers spells it") {
  const Json llama = small_config("llama");
  const auto rope = [&](const Json& changes) {
    return good(changed(llama, changes));
  };
  CHECK(rope({{"rope_theta", 5e5}, {"rope_scaling", nullptr}}).theta == 5e5);
  const RopeConfig linear =
      rope({{"rope_scaling", {{"type", "linear"}, {"factor", 2.5}}}});
  CHECK(linear.scaling == "linear");
  CHECK(linear.factor == 2.5);
  const RopeConfig fifth = rope({{"rope_parameters",
                                  {{"rope_type", "default"},
                                   {"rope_theta", 1e6},
                                   {"partial_rotary_factor", 0.5}}}});
  CHECK(fifth.scaling.empty());
  CHECK(fifth.theta == 1e6);
}

TEST_CASE("what transformers does not look at is left out, and said") {
  const Json llama = small_config("llama");
  for (const char* family :
       {"llama", "mistral", "qwen2", "qwen3", "qwen3_moe", "mixtral"}) {
    CHECK(remarks(changed(small_config(family),
                          {{"partial_rotary_factor", 0.5}})) ==
          "`partial_rotary_factor` is not used: a `" + std::string(family) +
              "` rotates whole heads\n");
  }
  CHECK(refusal(changed(
            llama, {{"partial_rotary_factor", 0.5},
                    {"rope_scaling", {{"type", "linear"}, {"factor", 2}}}})) ==
        "SP009 a `llama` with `partial_rotary_factor` and rope scaling does "
        "not run in transformers");
  CHECK(remarks(changed(llama, {{"partial_rotary_factor", 1.0}})).empty());
}

TEST_CASE("of two kinds of rope scaling the newer key counts, which is said") {
  const Json llama = small_config("llama");
  const Json both = changed(
      llama,
      {{"rope_scaling",
        {{"type", "linear"}, {"rope_type", "default"}, {"factor", 4.0}}}});
  CHECK(good(both).scaling.empty());
  CHECK(remarks(both) ==
        "`rope_type` is `default`, `type` is `linear`: the former is used\n");
  CHECK(remarks(changed(llama, {{"rope_scaling",
                                 {{"type", "linear"},
                                  {"rope_type", "linear"},
                                  {"factor", 4.0}}}}))
            .empty());
  const Json two = changed(
      llama,
      {{"rope_theta", 300.0},
       {"rope_scaling", {{"rope_type", "linear"}, {"factor", 4.0}}},
       {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 500.0}}}});
  CHECK(good(two).scaling == "linear");
  CHECK(good(two).theta == 300.0);
  CHECK(remarks(two) ==
        "`rope_parameters` is not used, since there is a `rope_scaling`\n");
}

TEST_CASE("rope that is not known is refused") {
  const Json llama = small_config("llama");
  const auto scaling = [&](const Json& value) {
    return refusal(changed(llama, {{"rope_scaling", value}}));
  };
  CHECK(scaling({{"rope_type", "mrope"}, {"factor", 2.0}}) ==
        "SP009 rope scaling `mrope` is not supported");
  for (const char* kind : {"linear", "llama3", "dynamic", "yarn"}) {
    CHECK(scaling({{"rope_type", kind}}) ==
          "SP009 `rope_scaling.factor` is missing");
  }
  const Json longrope = {{"rope_type", "longrope"},
                         {"short_factor", {1, 2, 3, 4}},
                         {"long_factor", {1, 2, 3, 4}}};
  CHECK(scaling(longrope).empty());
  CHECK(scaling({{"rope_type", "longrope"}, {"long_factor", {1, 2}}}) ==
        "SP009 `rope_scaling.short_factor` is missing");
  CHECK(scaling(changed(longrope, {{"long_factor", 2}})) ==
        "SP002 `rope_scaling.long_factor` must be a list, not an integer");
  CHECK(scaling(changed(longrope, {{"short_factor", {1, 0}}})) ==
        "SP009 `rope_scaling.short_factor` must hold only numbers above 0");
  CHECK(refusal(changed(
            llama, {{"original_max_position_embeddings", 16},
                    {"rope_scaling",
                     changed(longrope,
                             {{"original_max_position_embeddings", 32}})}})) ==
        "SP009 `original_max_position_embeddings` and "
        "`rope_scaling.original_max_position_embeddings` differ: which one "
        "applies depends on the version of transformers");
  CHECK(scaling({{"type", "linear"}}) ==
        "SP009 `rope_scaling.factor` is missing");
  CHECK(scaling({{"rope_type", "llama3"},
                 {"factor", 8},
                 {"low_freq_factor", 1},
                 {"high_freq_factor", 4}}) ==
        "SP009 `rope_scaling.original_max_position_embeddings` is missing");
  CHECK(scaling({{"rope_type", "llama3"},
                 {"factor", 8},
                 {"low_freq_factor", 4},
                 {"high_freq_factor", 4},
                 {"original_max_position_embeddings", 64}}) ==
        "SP009 `high_freq_factor` must exceed `low_freq_factor`");
  CHECK(scaling({{"full_attention", {{"rope_type", "default"}}},
                 {"sliding_attention", {{"rope_type", "default"}}}}) ==
        "SP009 `rope_scaling` differs between kinds of attention, which is not "
        "supported");
  CHECK(scaling({{"rope_type", "yarn"}, {"factor", 2}, {"truncate", 1}}) ==
        "SP002 `rope_scaling.truncate` must be true or false, not an integer");
  CHECK(scaling("linear") ==
        "SP002 `rope_scaling` must be a map, not a string");
  CHECK(refusal(changed(llama, {{"partial_rotary_factor", 2}})) ==
        "SP009 `partial_rotary_factor` is more than 1");
}

std::string message_of(const Json& config) {
  const auto made = testing::synthesize(config);
  if (!made->manifest) return made->problem();
  const auto model = testing::whole_model(*made->manifest, config);
  for (const Diagnostic& each : model->diags.all()) {
    return code_id(each.code) + " " + each.message;
  }
  return "";
}

TEST_CASE("what only a forward pass reads is ill-typed or out of range") {
  const Json llama = small_config("llama");
  const auto with = [&](const std::string& key, const Json& value) {
    return message_of(changed(llama, {{key, value}}));
  };
  CHECK(with("rms_norm_eps", -1) == "SP009 `rms_norm_eps` is -1");
  CHECK(with("rms_norm_eps", "1e-6") ==
        "SP002 `rms_norm_eps` must be a number, not a string");
  CHECK(with("hidden_act", 3) ==
        "SP002 `hidden_act` must be a string, not an integer");
  CHECK(with("hidden_act", "quick_gelu") ==
        "SP009 activation function `quick_gelu` is not supported");
}

TEST_CASE("switches that no forward pass follows are refused") {
  const Json gpt2 = small_config("gpt2");
  CHECK(message_of(changed(gpt2, {{"scale_attn_weights", false}})) ==
        "SP009 `scale_attn_weights: false` is not supported");
  CHECK(
      message_of(changed(gpt2, {{"scale_attn_by_inverse_layer_idx", true}})) ==
      "SP009 `scale_attn_by_inverse_layer_idx: true` is not supported");
  CHECK(message_of(changed(testing::tiny_model("bert").config,
                           {{"position_embedding_type", "relative_key"}})) ==
        "SP009 `position_embedding_type` is not supported but changes the "
        "tensors of the model");
}

TEST_CASE("of a model with parts, the text's") {
  const testing::TinyModel llama = testing::tiny_model("llama");
  Json text = llama.config;
  const Json config = {{"model_type", "llava"},
                       {"architectures", {"LlavaForConditionalGeneration"}},
                       {"hidden_size", 7},
                       {"text_config", text}};
  const auto model = testing::whole_model(llama.manifest, config);
  REQUIRE_MESSAGE(model->model, model->messages);
  CHECK(model->model->architecture->name == "llama");
  CHECK(model_size(*model->model, "hidden") == 16);
  CHECK(model->messages.find(
            "only the text model of this `llava` is simulated, as a `llama`") !=
        std::string::npos);
  CHECK(model->graph);
}

}  // namespace
}  // namespace shardplan
