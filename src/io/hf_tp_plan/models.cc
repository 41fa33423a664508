// SPDX-License-Identifier: Apache-2.0
// The model types of transformers 4.57 and 5.23 whose configurations have a
// tensor-parallel plan, and the unusual names of some base models and heads.
// The resulting plans are recorded in tests/data/hf_tp_plan_models.json.
#include <algorithm>

#include "base/words.h"
#include "io/hf_tp_plan/python_file.h"

namespace shardplan {
namespace {

constexpr std::string_view kOuter = kUsualTpModules.outer;

// Model types with unusual module names.
constexpr TpModules kUnusual[] = {
    {"deepseek_ocr2_encoder", "model|vision_tower|vision_encoder", ""},
    {"dots3_note_vision_encoder", "model|vision_tower", ""},
    {"ernie4_5_vl_moe_vision", "model|vision_tower", ""},
    {"esmc", "esmc", ""},
    {"gemma4_vision", "model|vision_tower", ""},
    {"gpt_neox", "gpt_neox"},
    {"granite_docling_text", "model|text_model"},
    {"hrm_text", "model|L_module|H_module"},
    {"inkling2_text", kOuter, "lm_head", "rowwise_split_input"},
    {"inkling_text", kOuter, "lm_head", "rowwise_split_input"},
    {"llama4_vision_model", "vision_model", ""},
    {"muse_glimmer_vision", "model|vision_tower", ""},
    {"muse_spark", kOuter, ""},
    {"muse_spark_text", kOuter, ""},
    {"muse_spark_vision", "model|vision_tower", ""},
    {"nemotron_h", kOuter, ""},
    {"qwen2_5_omni_text", "thinker|model|language_model"},
    {"qwen3_omni_moe_talker_code_predictor", "talker|code_predictor|model"},
    {"qwen3_omni_moe_talker_text", "talker|model"},
    {"qwen3_omni_moe_text", "thinker|model|language_model"},
    {"t5_gemma_module", "model|encoder|decoder", "lm_head.out_proj"},
    {"t5gemma", "model|encoder|decoder", "lm_head.out_proj"},
    {"t5gemma2_decoder", "model|decoder", "lm_head.out_proj"},
    {"t5gemma2_text", "model|encoder|text_model", "lm_head.out_proj"},
};

// Model types with the usual module names.
constexpr std::string_view kUsual =
    "Glm4vMoe_text afmoe apertus arcee aria_text axk1 axk2 bailing_hybrid beam "
    "cohere cohere2 cohere2_moe cohere_compass_text cosmos3_edge_text cwm "
    "deepseek_ocr2_text deepseek_v2 deepseek_v3 deepseek_v32 deepseek_v4 "
    "diffusion_gemma_text doge dots1 dots3_note_text embedding_gemma2_text "
    "ernie4_5 ernie4_5_moe ernie4_5_vl_moe_text eurobert exaone4 exaone_moe "
    "flex_olmo flint gemma gemma2 gemma3_text gemma3n_text gemma4_text "
    "gemma4_unified_text glm glm4 glm4_moe glm4_moe_lite glm4v_moe_text "
    "glm4v_text glm5_next_text glm_image_text glm_moe_dsa glm_ocr_text gpt_oss "
    "granite granite4_vision_text granite_swa granitemoe granitemoe_swa "
    "granitemoehybrid granitemoeshared helium higgs_audio_v2 hunyuan_v1_moe "
    "hy_v3 hy_v4 hyperclovax internlm3 iquestcoder jais2 jamba kimi_linear "
    "kolibri1 laguna lfm2_moe llama llama4 llama4_text longcat_flash mellum "
    "mimo_v2_flash minicpm3 minimax minimax_m2 minimax_m3_vl_text ministral "
    "ministral3 mistral mistral4 mistral_large4_text mixtral muse_glimmer "
    "muse_glimmer_assistant muse_glimmer_text nanochat nemotron neomme olmo "
    "olmo2 olmo3 olmo_hybrid olmoe paddleocr_vl_text phi phi3 phi4_multimodal "
    "phimoe qwen2 qwen2_5_vl_text qwen2_moe qwen2_vl_text qwen3 "
    "qwen3_5_moe_text qwen3_5_text qwen3_moe qwen3_next qwen3_vl_moe_text "
    "qwen4_exp_text seed_oss smollm3 solar_open starcoder2 step3p5 ultrabert "
    "unlimited_ocr_text vaultgemma voxtral_realtime_text youtu";

}  // namespace

const TpModules* find_tp_modules(std::string_view type) {
  const TpModules* unusual =
      std::ranges::find(kUnusual, type, &TpModules::type);
  if (unusual != std::end(kUnusual)) return unusual;
  return has_word(kUsual, type) ? &kUsualTpModules : nullptr;
}

}  // namespace shardplan
