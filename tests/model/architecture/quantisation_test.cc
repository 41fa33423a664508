// SPDX-License-Identifier: Apache-2.0
// Lists of modules, units of quantised tensors, and what is refused. What
// libraries store is in tests/io/hf_config/quantised_test.cc.
#include "model/architecture/quantisation.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "model/facts.h"
#include "model/units.h"
#include "tests/support/hf_config.h"

namespace shardplan {
namespace {

using testing::Json;

std::optional<ModulePatterns> read_list(
    const std::vector<std::string>& entries) {
  Diagnostics diags;
  const auto document =
      parse_document(std::make_shared<const SourceFile>(
                         "config.json", Json{{"list", entries}}.dump()),
                     diags);
  ConfigReader config(document->root(), "", diags);
  return ModulePatterns::read(config, "list", *config.find("list"));
}

bool list_matches(const std::string& entry, const std::string& name,
                  PatternStyle style) {
  const auto patterns = read_list({entry});
  return patterns && patterns->matches(name, style);
}

TEST_CASE("lists of modules are read as the libraries read them") {
  const std::string up = "model.layers.1.mlp.up_proj";
  struct Row {
    const char* entry;
    bool substring, prefix, modules, names, globs, suffix;
  };
  for (const Row& row : {
           Row{"model.layers.1.mlp.up_proj", true, true, true, true, true,
               true},
           Row{"up_proj", true, true, true, false, false, true},
           Row{"mlp", true, true, false, false, false, false},
           Row{"model.layers.1", true, true, true, false, true, false},
           Row{"model.layers", true, true, true, false, true, false},
           Row{"layers.1.mlp", true, true, false, false, false, false},
           Row{"up", true, false, false, false, false, false},
           Row{"model.layers.1.mlp.up", true, false, false, false, false,
               false},
           Row{"model.layers.11", false, false, false, false, false, false},
           Row{"model.layers.\\d+.mlp", false, false, true, false, false,
               false},
           Row{"model.layers.*.mlp", false, false, true, false, false, false},
           Row{"model.layers.1*", false, false, true, false, true, false},
           Row{"*.mlp.*", false, false, false, false, true, false},
           Row{"re:.*mlp", false, false, false, true, false, false},
           Row{"re:mlp", false, false, false, false, false, false},
           Row{"re:.*up_proj$", false, false, false, true, false, false},
           Row{"re:.*down_proj$", false, false, false, false, false, false},
       }) {
    CAPTURE(row.entry);
    CHECK(list_matches(row.entry, up, PatternStyle::Substring) ==
          row.substring);
    CHECK(list_matches(row.entry, up, PatternStyle::Prefix) == row.prefix);
    CHECK(list_matches(row.entry, up, PatternStyle::Modules) == row.modules);
    CHECK(list_matches(row.entry, up, PatternStyle::Names) == row.names);
    CHECK(list_matches(row.entry, up, PatternStyle::Globs) == row.globs);
    CHECK(list_matches(row.entry, up, PatternStyle::Suffix) == row.suffix);
  }
}

TEST_CASE("a long list of modules says what its entries say one by one") {
  const std::vector<std::string> parts = {
      "model", "layers", "1",    "12",  "mlp", "up_proj", "up",      "*",
      "?",     ".*",     "\\d+", "re:", ".",   "(",       "\xc3\xa9"};
  std::mt19937 random(20261125);
  const auto text_of = [&](size_t most, size_t kinds) {
    std::string text;
    for (size_t n = random() % most + 1; n > 0; --n) {
      text += parts[random() % kinds];
      if (n > 1 && random() % 3 > 0) text += '.';
    }
    return text;
  };
  constexpr std::array<PatternStyle, 6> kStyles = {
      PatternStyle::Substring, PatternStyle::Prefix, PatternStyle::Modules,
      PatternStyle::Names,     PatternStyle::Globs,  PatternStyle::Suffix};
  int meant = 0;
  for (int trial = 0; trial < 40; ++trial) {
    std::vector<std::string> entries;
    std::vector<ModulePatterns> alone;
    for (size_t n = 16 + random() % 16; n > 0; --n) {
      entries.push_back(text_of(5, parts.size()));
      // Behind the mark an expression is wanted.
      if (!read_list({entries.back()})) entries.back() = "re:.*mlp";
      alone.push_back(*read_list({entries.back()}));
    }
    const auto all = read_list(entries);
    REQUIRE(all);
    for (int i = 0; i < 20; ++i) {
      const std::string name = text_of(6, 7);
      for (const PatternStyle style : kStyles) {
        const bool one = std::any_of(
            alone.begin(), alone.end(),
            [&](const auto& entry) { return entry.matches(name, style); });
        CAPTURE(name);
        CAPTURE(static_cast<int>(style));
        CHECK(all->matches(name, style) == one);
        meant += one ? 1 : 0;
      }
    }
  }
  CHECK(meant > 200);
}

Json llama(const Json& quantisation, const Json& more = Json::object()) {
  Json config = {{"model_type", "llama"},
                 {"architectures", {"LlamaForCausalLM"}},
                 {"torch_dtype", "float16"},
                 {"hidden_size", 256},
                 {"intermediate_size", 768},
                 {"num_hidden_layers", 2},
                 {"num_attention_heads", 4},
                 {"vocab_size", 96},
                 {"transformers_version", "4.57.6"},
                 {"quantization_config", quantisation}};
  config.update(more);
  return config;
}

const Json kAwq = {{"quant_method", "awq"},
                   {"bits", 4},
                   {"group_size", 128},
                   {"zero_point", true},
                   {"version", "gemm"}};
const Json kGptq = {{"quant_method", "gptq"},
                    {"bits", 4},
                    {"group_size", 128},
                    {"desc_act", false},
                    {"checkpoint_format", "gptq"}};
const Json kBits4 = {{"quant_method", "bitsandbytes"}, {"load_in_4bit", true}};

// Quantisation blocks of a tensor: "0x6 1x2".
std::string blocks_of(const Manifest& manifest, const std::string& name) {
  std::string text;
  const auto type = testing::type_of(manifest, name);
  for (const Unit& unit :
       units_of(name, type, manifest.facts, layout_hints(manifest))) {
    if (unit.kind != UnitKind::QuantBlock) continue;
    if (!text.empty()) text += ' ';
    text += std::to_string(unit.dim) + "x" + std::to_string(unit.count);
  }
  return text;
}

TEST_CASE("groups and packed words are units") {
  const std::string down = "model.layers.0.mlp.down_proj.";  // [256, 768]
  const auto awq = testing::synthesize(llama(kAwq));
  CHECK(blocks_of(awq->good(), down + "qweight") == "0x6");
  CHECK(blocks_of(awq->good(), down + "qzeros") == "");
  CHECK(blocks_of(awq->good(), down + "scales") == "1x32");

  const auto gptq = testing::synthesize(llama(kGptq));
  CHECK(blocks_of(gptq->good(), down + "qweight") == "0x6");
  CHECK(blocks_of(gptq->good(), down + "scales") == "1x32");
  CHECK(blocks_of(gptq->good(), down + "g_idx") == "0x6");

  // Groups of inputs that stand anywhere: scales stay whole.
  Json reordered = kGptq;
  reordered["desc_act"] = true;
  const auto order = testing::synthesize(llama(reordered));
  CHECK(blocks_of(order->good(), down + "scales") == "0x1 1x32");
  CHECK(blocks_of(order->good(), down + "qzeros") == "0x1");

  // Rows of 768 are 12 blocks of 64 values, of 32 bytes.
  const auto bits = testing::synthesize(llama(kBits4));
  CHECK(blocks_of(bits->good(), down + "weight") == "0x256");
  CHECK(blocks_of(bits->good(), down + "weight.absmax") == "0x256");

  const auto mlx = testing::synthesize(testing::without(
      llama({}, {{"quantization", {{"bits", 4}, {"group_size", 64}}}}),
      "quantization_config"));
  CHECK(blocks_of(mlx->good(), down + "weight") == "1x12");
  CHECK(blocks_of(mlx->good(), down + "scales") == "");

  // Of packed rows, q, k and v keep their heads.
  const Unit head =
      units_of("model.layers.0.self_attn.q_proj.qweight",
               testing::type_of(awq->good(),
                                "model.layers.0.self_attn.q_proj.qweight"),
               awq->good().facts, layout_hints(awq->good()))
          .front();
  CHECK(head.kind == UnitKind::Head);
  CHECK(head.dim == 1);
  CHECK(head.count == 4);
}

TEST_CASE("what is not known of a quantisation is refused") {
  const auto problem = [](Json quantisation, const Json& changes,
                          const Json& more = Json::object()) {
    if (!changes.is_null()) quantisation.update(changes);
    return testing::synthesize(llama(quantisation, more))->problem();
  };
  CHECK(problem({{"quant_method", "hqq"}}, {}) ==
        "SP009 the config is quantised with `hqq`");
  CHECK(problem(kAwq, {{"version", "gemv"}}) ==
        "SP009 the packing `gemv` of AWQ is not supported");
  CHECK(problem(kAwq, {{"group_size", 96}}) ==
        "SP009 the weight of `model.layers.0.self_attn.q_proj` does not "
        "consist of whole groups of 96");
  CHECK(problem(kAwq, {{"new_key", 1}}) ==
        "SP009 `quantization_config.new_key` is not a supported quantisation "
        "setting");
  CHECK(problem(kAwq, {{"new_key", nullptr}}) == "");
  CHECK(problem(kGptq, {{"checkpoint_format", "marlin"}}) ==
        "SP009 the packing `marlin` of GPTQ is not supported");
  CHECK(problem(kGptq, {{"dynamic", {{"+:.*mlp.*", {{"bits", 8}}}}}}) ==
        "SP009 `+:.*mlp.*` has its own scheme, which is not supported");
  CHECK(problem(kGptq, {{"lm_head", true}}) ==
        "SP009 a GPTQ-quantised head is not supported");
  CHECK(problem(kGptq, {{"bits", 3}}) ==
        "SP009 GPTQ with 3 bits is not supported");
  CHECK(problem({{"quant_method", "mxfp4"}}, {}) ==
        "SP009 the config is quantised with `mxfp4`, but no layer of the model "
        "is");
  CHECK(problem({{"quant_method", "fp8"},
                 {"weight_block_size", {128, 128}},
                 {"scale_fmt", "ue4m3"}},
                {}) == "SP009 scales of `ue4m3` are not supported");
  // Version 4 reads it as a part of names, 5 as a name.
  const Json fp8 = {{"quant_method", "fp8"},
                    {"weight_block_size", {128, 128}},
                    {"modules_to_not_convert", {"up"}}};
  CHECK(problem(fp8, {}) == "");
  CHECK(
      problem(fp8, {}, {{"transformers_version", nullptr}}) ==
      "SP009 it is unknown whether `model.layers.0.mlp.up_proj` is quantised");
  CHECK(problem({{"quant_method", "compressed-tensors"},
                 {"quantization_status", "compressed"},
                 {"format", "marlin-24"},
                 {"config_groups",
                  {{"group_0",
                    {{"targets", {"Linear"}},
                     {"weights", {{"num_bits", 4}, {"type", "int"}}}}}}}},
                {}) ==
        "SP009 compressed-tensors format `marlin-24` is not supported");
  CHECK(problem({{"quant_method", "modelopt"}, {"quant_algo", "W4A8_AWQ"}},
                {}) == "SP009 ModelOpt algorithm `W4A8_AWQ` is not supported");
}

}  // namespace
}  // namespace shardplan
