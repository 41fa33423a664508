// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/model.h"

#include <array>
#include <string_view>

namespace shardplan::bench {
namespace {

constexpr std::array<std::string_view, 6> kPerLayer = {
    "self_attn.q_proj.weight", "self_attn.k_proj.weight",
    "self_attn.v_proj.weight", "self_attn.o_proj.weight",
    "input_layernorm.weight",  "post_attention_layernorm.weight"};
constexpr std::array<std::string_view, 3> kPerExpert = {
    "gate_proj.weight", "up_proj.weight", "down_proj.weight"};
constexpr size_t kExperts = 256;

}  // namespace

std::vector<std::string> model_names(size_t count) {
  std::vector<std::string> names = {"model.embed_tokens.weight",
                                    "lm_head.weight"};
  for (size_t layer = 0; names.size() < count; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    for (const std::string_view part : kPerLayer) {
      names.push_back(prefix + std::string(part));
    }
    for (size_t expert = 0; expert < kExperts; ++expert) {
      for (const std::string_view part : kPerExpert) {
        names.push_back(prefix + "mlp.experts." + std::to_string(expert) + "." +
                        std::string(part));
      }
    }
  }
  names.resize(count);
  return names;
}

std::string manifest_text(const std::vector<std::string>& names) {
  std::string text = "{\n";
  for (size_t i = 0; i < names.size(); ++i) {
    const bool down = names[i].find("down_proj") != std::string::npos;
    const bool vector = names[i].find("norm") != std::string::npos;
    text += "  \"" + names[i] + "\": {\"shape\": " +
            (vector ? "[7168]"
             : down ? "[7168, 2048]"
                    : "[2048, 7168]") +
            ", \"dtype\": \"bf16\"}";
    text += i + 1 < names.size() ? ",\n" : "\n";
  }
  return text + "}\n";
}

std::vector<std::string> patterns(size_t count) {
  std::vector<std::string> result = {
      "embed_tokens\\.weight$",
      "lm_head\\.weight$",
      "self_attn\\.(q|k|v)_proj\\.weight$",
      "self_attn\\.o_proj\\.weight$",
      "layernorm\\.weight$",
  };
  // What a large rules file is made of: rules for single layers and experts.
  for (size_t i = 0; result.size() + 3 < count; ++i) {
    const std::string number = std::to_string(i);
    switch (i % 3) {
      case 0:
        result.push_back("layers\\." + number + "\\.mlp\\.experts\\.\\d+\\.up");
        break;
      case 1:
        result.push_back("mlp\\.experts\\." + number +
                         "\\.(gate|down)_proj\\.weight$");
        break;
      default:
        result.push_back("layers/" + number + "/mlp/down_proj/kernel");
        break;
    }
  }
  result.emplace_back("experts\\.\\d+\\.(gate|up)_proj");
  result.emplace_back("experts\\.\\d+\\.down_proj");
  result.emplace_back(".*");
  return result;
}

std::string rules_text(const std::vector<std::string>& all) {
  std::string text = "rules:\n";
  for (const std::string& pattern : all) {
    text += "  - ['" + pattern + "', [fsdp, tp]]\n";
  }
  return text;
}

}  // namespace shardplan::bench
