# SPDX-License-Identifier: Apache-2.0
"""Small configs for record_architectures.py: {model type: [(case, class, config)]}."""

CASES = {}


def add(kind, case, model_class, **config):
    CASES.setdefault(kind, []).append((case, model_class, config))


DENSE = dict(vocab_size=96, hidden_size=32, intermediate_size=48,
             num_hidden_layers=2, num_attention_heads=4)

# t5 and its kin
T5 = dict(vocab_size=96, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4)
for kind, name in ("t5", "T5"), ("mt5", "MT5"), ("umt5", "UMT5"):
    add(kind, "plain", f"{name}ForConditionalGeneration", **T5, feed_forward_proj="relu")
    add(kind, "gated-untied", f"{name}ForConditionalGeneration", **T5, feed_forward_proj="gated-gelu",
        tie_word_embeddings=False, num_decoder_layers=3, relative_attention_num_buckets=16)
    add(kind, "gated-tied", f"{name}ForConditionalGeneration", **{**T5, "d_kv": 10},
        feed_forward_proj="gated-silu", tie_word_embeddings=True)
    add(kind, "base", f"{name}Model", **T5, num_decoder_layers=1)
    add(kind, "encoder", f"{name}EncoderModel", **T5)

# qwen3_next
NEXT = dict(DENSE, num_key_value_heads=2, head_dim=10, num_experts=3, num_experts_per_tok=2,
            moe_intermediate_size=20, shared_expert_intermediate_size=28, linear_num_key_heads=2,
            linear_num_value_heads=4, linear_key_head_dim=6, linear_value_head_dim=5, num_hidden_layers=4)
add("qwen3_next", "plain", "Qwen3NextForCausalLM", **NEXT)
add("qwen3_next", "biased-tied", "Qwen3NextForCausalLM", **NEXT, attention_bias=True, tie_word_embeddings=True,
    layer_types=["full_attention", "linear_attention", "linear_attention", "full_attention"])
add("qwen3_next", "some-dense", "Qwen3NextForCausalLM", **{**NEXT, "num_hidden_layers": 6},
    decoder_sparse_step=2, mlp_only_layers=[3], linear_conv_kernel_dim=3)
add("qwen3_next", "no-experts-base", "Qwen3NextModel", **{**NEXT, "num_experts": 0})
for kind, name, more in (("qwen3_5_text", "Qwen3_5", {}), ("qwen3_5_moe_text", "Qwen3_5Moe", {})):
    dense = {k: v for k, v in NEXT.items() if not (kind == "qwen3_5_text" and "expert" in k)}
    if kind == "qwen3_5_text":
        dense.pop("moe_intermediate_size")
    else:
        dense.pop("intermediate_size")
    add(kind, "plain", f"{name}ForCausalLM", **dense)
    add(kind, "biased-tied", f"{name}ForCausalLM", **dense, attention_bias=True, tie_word_embeddings=True,
        layer_types=["full_attention", "linear_attention", "linear_attention", "full_attention"])
    add(kind, "kernel", f"{name}ForCausalLM", **{**dense, "num_hidden_layers": 6, "linear_num_value_heads": 2},
        linear_conv_kernel_dim=3)
    add(kind, "base", f"{name}TextModel", **dense)

# gemma3n
G3N = dict(vocab_size=96, vocab_size_per_layer_input=80, hidden_size=32, hidden_size_per_layer_input=6,
           intermediate_size=48, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=10,
           num_kv_shared_layers=2, laurel_rank=5, altup_num_inputs=3, pad_token_id=0)
SLIDE = ["sliding_attention", "full_attention"] * 2
add("gemma3n_text", "plain", "Gemma3nForCausalLM", **G3N, layer_types=SLIDE, activation_sparsity_pattern=[0.5, 0.0, 0.0, 0.0])
add("gemma3n_text", "untied", "Gemma3nForCausalLM", **{**G3N, "num_kv_shared_layers": 0}, layer_types=SLIDE,
    tie_word_embeddings=False, activation_sparsity_pattern=None)
add("gemma3n_text", "mlp-list", "Gemma3nForCausalLM", **{**G3N, "intermediate_size": [48, 40, 48, 64]},
    layer_types=SLIDE, activation_sparsity_pattern=[0.0] * 4, attention_bias=True)
add("gemma3n_text", "base", "Gemma3nTextModel", **{**G3N, "altup_num_inputs": 4}, layer_types=SLIDE,
    activation_sparsity_pattern=[0.0] * 4, altup_correct_scale=False)
G3NALL = dict(text_config=dict(G3N, layer_types=SLIDE, activation_sparsity_pattern=[0.0] * 4),
              audio_config=dict(hidden_size=24, conf_num_hidden_layers=2, conf_num_attention_heads=4, vocab_size=16, input_feat_size=32))
add("gemma3n", "plain", "Gemma3nForConditionalGeneration", **G3NALL)
add("gemma3n", "sound", "Gemma3nForConditionalGeneration", text_config={**G3NALL["text_config"], "num_kv_shared_layers": 0},
    audio_config={**G3NALL["audio_config"], "input_feat_size": 51, "conf_conv_kernel_size": 3, "sscp_conv_channel_size": [12, 8]})
add("gemma3n", "base", "Gemma3nModel", **G3NALL)

# encoders
ENC = dict(DENSE, max_position_embeddings=20)
for kind, name in ("roberta", "Roberta"), ("xlm-roberta", "XLMRoberta"):
    add(kind, "masked", f"{name}ForMaskedLM", **ENC)
    add(kind, "types", f"{name}ForMaskedLM", **ENC, type_vocab_size=1, tie_word_embeddings=True)
    add(kind, "untied", f"{name}ForMaskedLM", **ENC, type_vocab_size=1, tie_word_embeddings=False)
    add(kind, "base", f"{name}Model", **ENC, type_vocab_size=3)
    add(kind, "causal", f"{name}ForCausalLM", **ENC, is_decoder=True)
DB = dict(vocab_size=96, dim=32, hidden_dim=48, n_layers=2, n_heads=4, max_position_embeddings=20)
add("distilbert", "masked", "DistilBertForMaskedLM", **DB)
add("distilbert", "untied", "DistilBertForMaskedLM", **DB, tie_word_embeddings=False)
add("distilbert", "base", "DistilBertModel", **DB)
add("distilbert", "sinusoidal", "DistilBertForMaskedLM", **{**DB, "n_layers": 1}, sinusoidal_pos_embds=True)
for case, more in ("plain", {"embedding_size": 16}), ("same", {"embedding_size": 32}), ("types", {"type_vocab_size": 3, "embedding_size": 16}):
    add("electra", case + "-masked", "ElectraForMaskedLM", **ENC, **more)
    add("electra", case + "-pre", "ElectraForPreTraining", **ENC, **more)
    add("electra", case + "-base", "ElectraModel", **ENC, **more)
add("electra", "untied", "ElectraForMaskedLM", **ENC, embedding_size=16, tie_word_embeddings=False)
add("albert", "masked", "AlbertForMaskedLM", **ENC, embedding_size=16)
add("albert", "groups", "AlbertForMaskedLM", **{**ENC, "num_hidden_layers": 4}, embedding_size=16, num_hidden_groups=2, inner_group_num=2)
add("albert", "base", "AlbertModel", **ENC, embedding_size=12, type_vocab_size=3)
add("albert", "untied", "AlbertForMaskedLM", **ENC, embedding_size=16, tie_word_embeddings=False)
DEB = dict(ENC, relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8, norm_rel_ebd="layer_norm",
           share_att_key=True, position_biased_input=False, type_vocab_size=0)
add("deberta-v2", "v3-masked", "DebertaV2ForMaskedLM", **DEB)
add("deberta-v2", "v3-base", "DebertaV2Model", **DEB)
add("deberta-v2", "conv", "DebertaV2ForMaskedLM", **DEB, conv_kernel_size=3, conv_act="gelu")
add("deberta-v2", "unshared", "DebertaV2ForMaskedLM", **{**DEB, "share_att_key": False, "pos_att_type": ["c2p"]})
add("deberta-v2", "unshared-both", "DebertaV2ForMaskedLM", **{**DEB, "share_att_key": False, "position_buckets": -1, "max_relative_positions": -1})
add("deberta-v2", "defaults", "DebertaV2ForMaskedLM", **ENC, embedding_size=16)
add("deberta-v2", "types", "DebertaV2ForMaskedLM", **{**DEB, "type_vocab_size": 2, "position_biased_input": True})
MB = dict(DENSE, pad_token_id=0, num_hidden_layers=4)
add("modernbert", "masked", "ModernBertForMaskedLM", **MB)
add("modernbert", "biases", "ModernBertForMaskedLM", **MB, attention_bias=True, mlp_bias=True, norm_bias=True, decoder_bias=True, classifier_bias=True)
add("modernbert", "untied", "ModernBertForMaskedLM", **MB, tie_word_embeddings=False, decoder_bias=False)
add("modernbert", "base", "ModernBertModel", **MB)

# translation and speech
SEQ = dict(vocab_size=96, d_model=32, encoder_layers=2, decoder_layers=3, encoder_ffn_dim=48, decoder_ffn_dim=40,
           encoder_attention_heads=4, decoder_attention_heads=2, max_position_embeddings=20)
for kind, name in (("bart", "Bart"), ("mbart", "MBart"), ("pegasus", "Pegasus"), ("m2m_100", "M2M100")):
    add(kind, "plain", f"{name}ForConditionalGeneration", **SEQ)
    add(kind, "untied", f"{name}ForConditionalGeneration", **SEQ, tie_word_embeddings=False)
    add(kind, "scaled", f"{name}ForConditionalGeneration", **{**SEQ, "encoder_layers": 1}, scale_embedding=True)
    add(kind, "base", f"{name}Model", **SEQ)
MARIAN = dict(SEQ, pad_token_id=95, decoder_start_token_id=95)
add("marian", "plain", "MarianMTModel", **MARIAN)
add("marian", "untied", "MarianMTModel", **MARIAN, tie_word_embeddings=False)
add("marian", "two-vocabularies", "MarianMTModel", **MARIAN, share_encoder_decoder_embeddings=False, decoder_vocab_size=80)
add("marian", "unshared", "MarianMTModel", **MARIAN, share_encoder_decoder_embeddings=False)
add("marian", "base", "MarianModel", **MARIAN)
WH = dict(SEQ, num_mel_bins=10, max_source_positions=12, max_target_positions=14, pad_token_id=0)
WH.pop("max_position_embeddings")
add("whisper", "plain", "WhisperForConditionalGeneration", **WH)
add("whisper", "untied", "WhisperForConditionalGeneration", **WH, tie_word_embeddings=False)
add("whisper", "base", "WhisperModel", **WH)
add("whisper", "sizes", "WhisperForConditionalGeneration", **{**WH, "num_mel_bins": 16, "decoder_layers": 1}, scale_embedding=True)

# vision
VIT = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, image_size=28, patch_size=14)
add("vit", "base", "ViTModel", **VIT)
add("vit", "no-bias", "ViTModel", **VIT, qkv_bias=False, num_channels=1)
add("vit", "pooler", "ViTModel", **VIT, pooler_output_size=20)
add("vit", "masked", "ViTForMaskedImageModeling", **VIT, encoder_stride=14)
add("dinov2", "base", "Dinov2Model", **{k: v for k, v in VIT.items() if k != "intermediate_size"})
add("dinov2", "swiglu", "Dinov2Model", **{k: v for k, v in VIT.items() if k != "intermediate_size"}, use_swiglu_ffn=True, mlp_ratio=3)
add("dinov2", "no-bias", "Dinov2Model", **{k: v for k, v in VIT.items() if k != "intermediate_size"}, qkv_bias=False)
add("dinov2", "no-mask", "Dinov2Model", **{k: v for k, v in VIT.items() if k != "intermediate_size"}, use_mask_token=False, num_channels=1)
CT = dict(DENSE, max_position_embeddings=20, projection_dim=18)
CV = dict(VIT, projection_dim=18)
add("clip_text_model", "base", "CLIPTextModel", **CT)
add("clip_text_model", "projected", "CLIPTextModelWithProjection", **CT)
add("clip_text_model", "sizes", "CLIPTextModel", **{**CT, "hidden_size": 24, "num_hidden_layers": 3})
add("clip_vision_model", "base", "CLIPVisionModel", **CV)
add("clip_vision_model", "projected", "CLIPVisionModelWithProjection", **CV)
add("clip_vision_model", "sizes", "CLIPVisionModel", **{**CV, "image_size": 30, "patch_size": 7, "num_channels": 1})
for case, n in ("plain", 24), ("other", 12):
    add("clip", case, "CLIPModel", projection_dim=n, text_config=CT, vision_config={**CV, "hidden_size": 40})
add("clip", "sizes", "CLIPModel", projection_dim=10, text_config={**CT, "num_hidden_layers": 1}, vision_config={**CV, "patch_size": 7})
SV = {k: v for k, v in VIT.items()}
ST = dict(DENSE, max_position_embeddings=20, projection_size=18, pad_token_id=0, bos_token_id=1, eos_token_id=2)
add("siglip_vision_model", "head", "SiglipVisionModel", **SV)
add("siglip_vision_model", "no-head", "SiglipVisionModel", **SV, vision_use_head=False)
add("siglip_vision_model", "sizes", "SiglipVisionModel", **{**SV, "image_size": 30, "patch_size": 7, "num_channels": 1})
add("siglip_text_model", "base", "SiglipTextModel", **ST)
add("siglip_text_model", "no-size", "SiglipTextModel", **{k: v for k, v in ST.items() if k != "projection_size"})
add("siglip", "plain", "SiglipModel", text_config=ST, vision_config=SV)
add("siglip", "no-head", "SiglipModel", text_config=ST, vision_config=dict(SV, vision_use_head=False))
add("siglip", "sizes", "SiglipModel", text_config={**ST, "num_hidden_layers": 3}, vision_config=dict(SV, num_channels=1))

# images and text
LLAMA = dict(model_type="llama", **DENSE)
TEXT2 = dict(DENSE, num_key_value_heads=2)
MROPE = {"rope_type": "default", "mrope_section": [2, 1, 1], "rope_theta": 1e4}
QV = dict(depth=2, embed_dim=32, hidden_size=32, num_heads=4, mlp_ratio=2, patch_size=14, spatial_merge_size=2, temporal_patch_size=2)
for tie in False, True:
    add("qwen2_vl", "tied" if tie else "plain", "Qwen2VLForConditionalGeneration", tie_word_embeddings=tie,
        text_config=dict(TEXT2, tie_word_embeddings=tie, rope_scaling=MROPE), vision_config=QV)
add("qwen2_vl", "sizes", "Qwen2VLForConditionalGeneration", text_config=dict(TEXT2, hidden_size=40, rope_scaling=MROPE, tie_word_embeddings=False), tie_word_embeddings=False,
    vision_config=dict(QV, hidden_size=40, mlp_ratio=4, in_channels=1, in_chans=1))
add("qwen2_vl", "base", "Qwen2VLModel", text_config=dict(TEXT2, rope_scaling=MROPE), vision_config=QV)
Q25 = dict(depth=2, hidden_size=32, intermediate_size=44, num_heads=4, patch_size=14, spatial_merge_size=2, temporal_patch_size=2,
           out_hidden_size=32, fullatt_block_indexes=[1])
for tie in False, True:
    add("qwen2_5_vl", "tied" if tie else "plain", "Qwen2_5_VLForConditionalGeneration", tie_word_embeddings=tie,
        text_config=dict(TEXT2, tie_word_embeddings=tie, rope_scaling=MROPE), vision_config=Q25)
add("qwen2_5_vl", "sizes", "Qwen2_5_VLForConditionalGeneration", tie_word_embeddings=False,
    text_config=dict(TEXT2, hidden_size=40, rope_scaling=MROPE, tie_word_embeddings=False), vision_config=dict(Q25, out_hidden_size=40, depth=3))
add("qwen2_5_vl", "base", "Qwen2_5_VLModel", text_config=dict(TEXT2, rope_scaling=MROPE), vision_config=Q25)
Q3V = dict(depth=3, hidden_size=32, intermediate_size=44, num_heads=4, patch_size=16, spatial_merge_size=2, temporal_patch_size=2,
           out_hidden_size=32, num_position_embeddings=64, deepstack_visual_indexes=[8, 16, 24])
T3 = dict(TEXT2, head_dim=10, rope_scaling=MROPE)
T3M = dict(T3, num_experts=3, num_experts_per_tok=2, moe_intermediate_size=20)
T35 = {k: v for k, v in NEXT.items() if "expert" not in k and k != "moe_intermediate_size"}
T35M = {k: v for k, v in NEXT.items() if k != "intermediate_size"}
V35 = {k: v for k, v in Q3V.items() if k != "deepstack_visual_indexes"}
for kind, name, text, vision in (("qwen3_vl", "Qwen3VL", T3, Q3V), ("qwen3_vl_moe", "Qwen3VLMoe", T3M, Q3V),
                                 ("qwen3_5", "Qwen3_5", T35, V35), ("qwen3_5_moe", "Qwen3_5Moe", T35M, V35)):
    for tie in False, True:
        add(kind, "tied" if tie else "plain", f"{name}ForConditionalGeneration", tie_word_embeddings=tie,
            text_config=dict(text, tie_word_embeddings=tie), vision_config=vision)
    add(kind, "sizes", f"{name}ForConditionalGeneration", tie_word_embeddings=False,
        text_config=dict(text, hidden_size=40, attention_bias=True, tie_word_embeddings=False), vision_config=dict(vision, out_hidden_size=40, depth=4))
    add(kind, "base", f"{name}Model", text_config=text, vision_config=vision)
add("qwen3_vl_moe", "some-dense", "Qwen3VLMoeForConditionalGeneration", tie_word_embeddings=False,
    text_config=dict(T3M, num_hidden_layers=4, mlp_only_layers=[1], decoder_sparse_step=1, tie_word_embeddings=False), vision_config=Q3V)

CLIPV = dict(model_type="clip_vision_model", **VIT, projection_dim=18)
SIGV = dict(model_type="siglip_vision_model", **VIT, vision_use_head=False)
MISTRAL = dict(model_type="mistral", **TEXT2)
add("llava", "plain", "LlavaForConditionalGeneration", text_config=LLAMA, vision_config=dict(CLIPV, hidden_size=40))
add("llava", "tied", "LlavaForConditionalGeneration", text_config=dict(LLAMA, tie_word_embeddings=True), tie_word_embeddings=True, vision_config=CLIPV)
add("llava", "no-bias", "LlavaForConditionalGeneration", text_config=dict(LLAMA, num_key_value_heads=2), vision_config=CLIPV, multimodal_projector_bias=False)
add("llava", "two-layers", "LlavaForConditionalGeneration", text_config=LLAMA, vision_config=CLIPV, vision_feature_layer=[-2, -1])
add("llava", "base", "LlavaModel", text_config=LLAMA, vision_config=CLIPV)
add("llava_next", "plain", "LlavaNextForConditionalGeneration", text_config=LLAMA, vision_config=dict(CLIPV, hidden_size=40))
add("llava_next", "mistral", "LlavaNextForConditionalGeneration", text_config=MISTRAL, vision_config=CLIPV)
add("llava_next", "no-bias", "LlavaNextForConditionalGeneration", text_config=LLAMA, vision_config=CLIPV, multimodal_projector_bias=False)
add("llava_next", "base", "LlavaNextModel", text_config=LLAMA, vision_config=CLIPV)
G = dict(DENSE, num_key_value_heads=1, head_dim=10)
add("paligemma", "plain", "PaliGemmaForConditionalGeneration", text_config=dict(model_type="gemma", **G), vision_config=dict(SIGV, hidden_size=40), projection_dim=32)
add("paligemma", "gemma2", "PaliGemmaForConditionalGeneration", text_config=dict(model_type="gemma2", **G), vision_config=SIGV, projection_dim=32)
add("paligemma", "layers", "PaliGemmaForConditionalGeneration", text_config=dict(model_type="gemma", **{**G, "num_hidden_layers": 3}), vision_config=SIGV, projection_dim=32)
add("paligemma", "base", "PaliGemmaModel", text_config=dict(model_type="gemma", **G), vision_config=SIGV, projection_dim=32)
PIX = dict(hidden_size=32, intermediate_size=44, num_hidden_layers=2, num_attention_heads=4, image_size=28, patch_size=14)
add("pixtral", "base", "PixtralVisionModel", **PIX)
add("pixtral", "sizes", "PixtralVisionModel", **{**PIX, "patch_size": 7, "num_hidden_layers": 3, "num_channels": 1})
add("pixtral", "head-dim", "PixtralVisionModel", **{**PIX, "num_attention_heads": 2})
add("mistral3", "plain", "Mistral3ForConditionalGeneration", text_config=dict(MISTRAL, head_dim=10), vision_config=dict(model_type="pixtral", **PIX))
add("mistral3", "tied", "Mistral3ForConditionalGeneration", text_config=dict(MISTRAL, tie_word_embeddings=True), tie_word_embeddings=True, vision_config=dict(model_type="pixtral", **PIX))
add("mistral3", "biased", "Mistral3ForConditionalGeneration", text_config=MISTRAL, vision_config=dict(model_type="pixtral", **{**PIX, "hidden_size": 40}), multimodal_projector_bias=True, spatial_merge_size=3)
add("mistral3", "base", "Mistral3Model", text_config=MISTRAL, vision_config=dict(model_type="pixtral", **PIX))
IV = dict(hidden_size=32, intermediate_size=44, num_hidden_layers=2, num_attention_heads=4, image_size=[28, 28], patch_size=[14, 14])
QW2 = dict(model_type="qwen2", **TEXT2)
add("internvl", "plain", "InternVLForConditionalGeneration", text_config=QW2, vision_config=IV)
add("internvl", "qwen3", "InternVLForConditionalGeneration", text_config=dict(QW2, model_type="qwen3", head_dim=10), vision_config=dict(IV, attention_bias=True))
add("internvl", "norms", "InternVLForConditionalGeneration", text_config=QW2, vision_config=dict(IV, use_qk_norm=True, norm_type="rms_norm", use_mask_token=False, use_mean_pooling=False), downsample_ratio=0.25)
add("internvl", "bare", "InternVLForConditionalGeneration", text_config=QW2, vision_config=dict(IV, use_absolute_position_embeddings=False, hidden_size=40))
add("internvl", "base", "InternVLModel", text_config=QW2, vision_config=IV)
I3V = dict(hidden_size=32, intermediate_size=44, num_hidden_layers=2, num_attention_heads=4, image_size=28, patch_size=14)
for kind, name in ("idefics3", "Idefics3"), ("smolvlm", "SmolVLM"):
    add(kind, "plain", f"{name}ForConditionalGeneration", text_config=LLAMA, vision_config=I3V, tie_word_embeddings=False)
    add(kind, "tied", f"{name}ForConditionalGeneration", text_config=dict(LLAMA, tie_word_embeddings=True), vision_config=I3V, tie_word_embeddings=True)
    add(kind, "scale", f"{name}ForConditionalGeneration", text_config=dict(LLAMA, num_key_value_heads=2, head_dim=10), vision_config=dict(I3V, hidden_size=40), scale_factor=3, tie_word_embeddings=False)
    add(kind, "base", f"{name}Model", text_config=LLAMA, vision_config=I3V)
MV = dict(hidden_size=32, intermediate_size=44, num_hidden_layers=3, num_global_layers=2, attention_heads=4, image_size=28, patch_size=14,
          vision_output_dim=128, intermediate_layers_indices=[0, 1, 2], max_num_tiles=2, supported_aspect_ratios=[[1, 1], [1, 2], [2, 1]])
MT = dict(DENSE, num_key_value_heads=2, num_hidden_layers=4, cross_attention_layers=[1, 3], rope_scaling={"rope_type": "default"}, pad_token_id=0)
MT["hidden_size"] = 32
add("mllama", "plain", "MllamaForConditionalGeneration", text_config=MT, vision_config=MV)
add("mllama", "sizes", "MllamaForConditionalGeneration", text_config=dict(MT, cross_attention_layers=[0]), vision_config=dict(MV, intermediate_layers_indices=[1], vision_output_dim=64, max_num_tiles=4,
    supported_aspect_ratios=[[1, 1], [1, 2], [1, 3], [1, 4], [2, 1], [2, 2], [3, 1], [4, 1]]))
add("mllama", "base", "MllamaModel", text_config=MT, vision_config=MV)
L4V = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=28, patch_size=14, vision_output_dim=24,
           projector_input_dim=24, projector_output_dim=24)
L4V["intermediate_size"] = 128
L4 = dict(DENSE, num_key_value_heads=2, head_dim=10, intermediate_size_mlp=56, num_local_experts=3, num_experts_per_tok=1, num_hidden_layers=4, pad_token_id=0)
add("llama4", "plain", "Llama4ForConditionalGeneration", text_config=L4, vision_config=L4V)
add("llama4", "step", "Llama4ForConditionalGeneration", text_config=dict(L4, interleave_moe_layer_step=2, attention_bias=True), vision_config=L4V)
add("llama4", "listed", "Llama4ForConditionalGeneration", text_config=dict(L4, moe_layers=[1], tie_word_embeddings=True), tie_word_embeddings=True, vision_config=L4V)
add("llama4_text", "plain", "Llama4ForCausalLM", **L4)
add("llama4_text", "step", "Llama4ForCausalLM", **L4, interleave_moe_layer_step=2, attention_bias=True)
add("llama4_text", "tied", "Llama4ForCausalLM", **L4, tie_word_embeddings=True, moe_layers=[])
add("llama4_text", "base", "Llama4TextModel", **L4)
G4 = dict(vocab_size=96, vocab_size_per_layer_input=80, hidden_size=32, hidden_size_per_layer_input=6, intermediate_size=48, num_hidden_layers=4,
          num_attention_heads=4, num_key_value_heads=2, head_dim=10, global_head_dim=12, num_kv_shared_layers=2, layer_types=SLIDE, pad_token_id=0)
def gemma4(kind, wrap):
    wrap(kind, "plain", **G4)
    wrap(kind, "no-layer-inputs", **{**G4, "hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0})
    wrap(kind, "wide", **G4, use_double_wide_mlp=True, tie_word_embeddings=False)
    wrap(kind, "experts", **{**G4, "num_kv_shared_layers": 0, "hidden_size_per_layer_input": 0}, enable_moe_block=True, num_experts=3, top_k_experts=2, moe_intermediate_size=20)
    wrap(kind, "keys-as-values", **{**G4, "num_kv_shared_layers": 0}, attention_k_eq_v=True, num_global_key_value_heads=1, attention_bias=True)
gemma4("gemma4_text", lambda kind, case, **config: add(kind, case, "Gemma4ForCausalLM", **config))
add("gemma4_text", "base", "Gemma4TextModel", **G4)
G4V = dict(hidden_size=32, intermediate_size=44, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4, head_dim=8, patch_size=14, position_embedding_size=20)
gemma4("gemma4", lambda kind, case, **config: add(kind, case, "Gemma4ForConditionalGeneration", text_config=config, vision_config=G4V, audio_config=None,
                                                   tie_word_embeddings=config.get("tie_word_embeddings", True)))
add("gemma4", "audio", "Gemma4ForConditionalGeneration", text_config=G4, vision_config=G4V, audio_config=dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, output_proj_dims=24, subsampling_conv_channels=[8, 4]))

# state spaces
MAMBA = dict(vocab_size=96, hidden_size=32, num_hidden_layers=2, state_size=6)
for kind, name in ("mamba", "Mamba"), ("falcon_mamba", "FalconMamba"):
    add(kind, "plain", f"{name}ForCausalLM", **MAMBA)
    add(kind, "untied", f"{name}ForCausalLM", **MAMBA, tie_word_embeddings=False, use_bias=True, use_conv_bias=False, expand=3)
    add(kind, "rank", f"{name}ForCausalLM", **MAMBA, time_step_rank=5, conv_kernel=3, tie_word_embeddings=True)
    add(kind, "base", f"{name}Model", **MAMBA)
MAMBA2 = dict(MAMBA, num_heads=8, head_dim=8, n_groups=2)
add("mamba2", "plain", "Mamba2ForCausalLM", **MAMBA2)
add("mamba2", "tied", "Mamba2ForCausalLM", **MAMBA2, tie_word_embeddings=True, use_bias=True, use_conv_bias=False)
add("mamba2", "expand", "Mamba2ForCausalLM", **{**MAMBA2, "num_heads": 12}, expand=3, conv_kernel=3)
add("mamba2", "base", "Mamba2Model", **MAMBA2)
JAMBA = dict(DENSE, num_key_value_heads=2, num_hidden_layers=8, num_experts=3, num_experts_per_tok=2, mamba_d_state=6, attn_layer_period=4, attn_layer_offset=2, pad_token_id=0, use_mamba_kernels=False)
add("jamba", "plain", "JambaForCausalLM", **JAMBA)
add("jamba", "no-experts", "JambaForCausalLM", **{**JAMBA, "num_experts": 1})
add("jamba", "biased", "JambaForCausalLM", **JAMBA, mamba_proj_bias=True, mamba_conv_bias=False, mamba_dt_rank=5, mamba_d_conv=3, tie_word_embeddings=True, expert_layer_period=4, expert_layer_offset=0)
add("jamba", "base", "JambaModel", **JAMBA)
BAMBA = dict(DENSE, num_key_value_heads=2, num_hidden_layers=4, mamba_n_heads=8, mamba_d_head=8, mamba_d_state=6, mamba_n_groups=2, attn_layer_indices=[1], pad_token_id=0)
add("bamba", "plain", "BambaForCausalLM", **BAMBA)
add("bamba", "biased", "BambaForCausalLM", **BAMBA, attention_bias=True, mamba_proj_bias=True, mamba_conv_bias=False, mlp_bias=True, tie_word_embeddings=True)
add("bamba", "sizes", "BambaForCausalLM", **{**BAMBA, "mamba_n_heads": 12, "attn_layer_indices": [0, 3]}, mamba_expand=3, mamba_d_conv=3)
add("bamba", "base", "BambaModel", **BAMBA)
FH = dict(DENSE, num_key_value_heads=2, head_dim=10, mamba_n_heads=8, mamba_d_head=8, mamba_d_state=6, mamba_n_groups=2, pad_token_id=0)
add("falcon_h1", "plain", "FalconH1ForCausalLM", **FH, mamba_d_ssm=None)
add("falcon_h1", "ssm", "FalconH1ForCausalLM", **{**FH, "mamba_n_heads": 6}, mamba_d_ssm=48, mamba_rms_norm=True)
add("falcon_h1", "biased", "FalconH1ForCausalLM", **FH, mamba_d_ssm=64, attention_bias=True, mamba_proj_bias=True, projectors_bias=True, mamba_conv_bias=False, mlp_bias=True, tie_word_embeddings=True)
add("falcon_h1", "base", "FalconH1Model", **FH, mamba_d_ssm=64)
NH = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_attention_heads=4, num_key_value_heads=2, head_dim=10, mamba_num_heads=8, mamba_head_dim=8,
          ssm_state_size=6, n_groups=2, pad_token_id=0, conv_kernel=3)
add("nemotron_h", "plain", "NemotronHForCausalLM", **NH, hybrid_override_pattern="M-M*-", num_hidden_layers=5)
add("nemotron_h", "experts", "NemotronHForCausalLM", **NH, hybrid_override_pattern="MEM*E", num_hidden_layers=5, n_routed_experts=3, moe_intermediate_size=20,
    moe_shared_expert_intermediate_size=28, num_experts_per_tok=2, n_group=1, topk_group=1)
add("nemotron_h", "latent", "NemotronHForCausalLM", **NH, hybrid_override_pattern="MEM*E", num_hidden_layers=5, n_routed_experts=3, moe_intermediate_size=20,
    moe_shared_expert_intermediate_size=28, num_experts_per_tok=2, n_group=1, topk_group=1, moe_latent_size=14, attention_bias=True, mlp_bias=True, use_bias=True, use_conv_bias=False)
add("nemotron_h", "base", "NemotronHModel", **NH, hybrid_override_pattern="M-M*-", num_hidden_layers=5)
Z2 = dict(DENSE, num_key_value_heads=4, num_hidden_layers=6, mamba_d_state=6, n_mamba_heads=8, mamba_ngroups=1, mamba_expand=2, pad_token_id=0,
          layers_block_type=["mamba", "mamba", "hybrid"] * 2, num_mem_blocks=2, adapter_rank=5, use_mamba_kernels=False)
add("zamba2", "plain", "Zamba2ForCausalLM", **Z2)
add("zamba2", "adapters", "Zamba2ForCausalLM", **Z2, use_shared_attention_adapter=True, tie_word_embeddings=False)
add("zamba2", "one-block", "Zamba2ForCausalLM", **{**Z2, "num_mem_blocks": 1}, add_bias_linear=True)
add("zamba2", "base", "Zamba2Model", **Z2)
GH = dict(DENSE, num_key_value_heads=2, num_hidden_layers=4, layer_types=["mamba", "attention"] * 2, mamba_n_heads=8, mamba_d_head=8, mamba_d_state=6, mamba_n_groups=2, shared_intermediate_size=28, pad_token_id=0)
add("granitemoehybrid", "dense", "GraniteMoeHybridForCausalLM", **GH, num_local_experts=0, num_experts_per_tok=0)
add("granitemoehybrid", "experts", "GraniteMoeHybridForCausalLM", **GH, num_local_experts=3, num_experts_per_tok=2)
add("granitemoehybrid", "biased", "GraniteMoeHybridForCausalLM", **GH, num_local_experts=3, num_experts_per_tok=2, attention_bias=True, mamba_proj_bias=True, mamba_conv_bias=False, tie_word_embeddings=True)
add("granitemoehybrid", "base", "GraniteMoeHybridModel", **GH, num_local_experts=0, num_experts_per_tok=0)
LFM = dict(DENSE, num_key_value_heads=2, num_hidden_layers=4, layer_types=["conv", "full_attention", "conv", "conv"])
add("lfm2", "plain", "Lfm2ForCausalLM", **LFM)
add("lfm2", "fixed", "Lfm2ForCausalLM", **LFM, block_auto_adjust_ff_dim=False, conv_bias=True, tie_word_embeddings=False)
add("lfm2", "multiplied", "Lfm2ForCausalLM", **{**LFM, "intermediate_size": 600}, block_multiple_of=64, block_ffn_dim_multiplier=1.5, conv_L_cache=5)
add("lfm2", "base", "Lfm2Model", **LFM)
LM = dict(LFM, num_experts=3, num_experts_per_tok=2, moe_intermediate_size=20, num_dense_layers=1)
add("lfm2_moe", "plain", "Lfm2MoeForCausalLM", **LM)
add("lfm2_moe", "bias", "Lfm2MoeForCausalLM", **LM, use_expert_bias=True, conv_bias=True, tie_word_embeddings=False)
add("lfm2_moe", "no-bias", "Lfm2MoeForCausalLM", **{**LM, "num_dense_layers": 2}, use_expert_bias=False, conv_L_cache=5)
add("lfm2_moe", "base", "Lfm2MoeModel", **LM)
RG = dict(DENSE, num_key_value_heads=1, lru_width=40, num_hidden_layers=4, pad_token_id=0)
add("recurrent_gemma", "plain", "RecurrentGemmaForCausalLM", **RG)
add("recurrent_gemma", "untied", "RecurrentGemmaForCausalLM", **{**RG, "lru_width": None}, tie_word_embeddings=False, attention_bias=True)
add("recurrent_gemma", "blocks", "RecurrentGemmaForCausalLM", **{**RG, "num_key_value_heads": 2}, block_types=["attention", "recurrent"], conv1d_width=3)
add("recurrent_gemma", "base", "RecurrentGemmaModel", **RG)
RWKV = dict(vocab_size=96, hidden_size=32, num_hidden_layers=2, context_length=16)
add("rwkv", "plain", "RwkvForCausalLM", **RWKV)
add("rwkv", "sizes", "RwkvForCausalLM", **RWKV, attention_hidden_size=40, intermediate_size=48)
add("rwkv", "tied", "RwkvForCausalLM", **RWKV, tie_word_embeddings=True)
add("rwkv", "base", "RwkvModel", **RWKV)
XL = dict(vocab_size=96, hidden_size=64, num_blocks=2, num_hidden_layers=2, num_heads=4)
add("xlstm", "plain", "xLSTMForCausalLM", **XL)
add("xlstm", "biased", "xLSTMForCausalLM", **XL, use_bias=True, norm_reduction_force_float32=False)
add("xlstm", "sizes", "xLSTMForCausalLM", **XL, qk_dim_factor=0.25, v_dim_factor=2.0, ffn_proj_factor=2.0, ffn_round_up_to_multiple_of=32)
add("xlstm", "base", "xLSTMModel", **XL)
W2V = dict(vocab_size=96, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, conv_dim=[16, 20, 24], conv_stride=[5, 2, 2], conv_kernel=[10, 3, 3],
           num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=4, num_feat_extract_layers=3, num_codevector_groups=2, num_codevectors_per_group=10, codevector_dim=12, proj_codevector_dim=12)
add("wav2vec2", "ctc", "Wav2Vec2ForCTC", **W2V)
add("wav2vec2", "layer-norm", "Wav2Vec2ForCTC", **W2V, feat_extract_norm="layer", conv_bias=True, do_stable_layer_norm=True)
add("wav2vec2", "no-mask", "Wav2Vec2ForCTC", **W2V, mask_time_prob=0.0, mask_feature_prob=0.0)
add("wav2vec2", "pre", "Wav2Vec2ForPreTraining", **W2V)
add("wav2vec2", "base", "Wav2Vec2Model", **W2V)

add("mistral3", "ministral3", "Mistral3ForConditionalGeneration", text_config=dict(MISTRAL, model_type="ministral3", head_dim=10), vision_config=dict(model_type="pixtral", **PIX))
add("llava", "qwen2", "LlavaForConditionalGeneration", text_config=QW2, vision_config=CLIPV)
add("llava", "other-vision", "LlavaForConditionalGeneration", text_config=LLAMA, vision_config=dict(SIGV))
add("gemma4", "clipped", "Gemma4ForConditionalGeneration", text_config=G4, vision_config=dict(G4V, use_clipped_linears=True, standardize=True), audio_config=None)

add("qwen3_vl", "smaller", "Qwen3VLForConditionalGeneration", tie_word_embeddings=True, text_config=dict(T3, tie_word_embeddings=True), vision_config=dict(Q3V, deepstack_visual_indexes=[5, 11, 17]))
add("qwen3_vl", "other-mergers", "Qwen3VLForConditionalGeneration", tie_word_embeddings=False, text_config=T3, vision_config=dict(Q3V, deepstack_visual_indexes=[1]))

# of other decoders
KV2 = dict(DENSE, num_key_value_heads=2)
for kind, name, more in (("ministral3", "Ministral3", {"head_dim": 10}), ("cwm", "Cwm", {"head_dim": 10, "mlp_bias": True}),
                         ("jais2", "Jais2", {"head_dim": 10}), ("hyperclovax", "HyperCLOVAX", {"use_post_norm": False, "head_dim": 10}),
                         ("granite_swa", "GraniteSWA", {"attention_bias": True, "mlp_bias": True}),
                         ("doge", "Doge", {"attention_bias": True, "mlp_bias": True})):
    add(kind, "plain", f"{name}ForCausalLM", **KV2)
    add(kind, "more", f"{name}ForCausalLM", **KV2, **more)
    add(kind, "tied", f"{name}ForCausalLM", **DENSE, tie_word_embeddings=True)
    add(kind, "biased", f"{name}ForCausalLM", **KV2, attention_bias=True, mlp_bias=False)
    add(kind, "base", f"{name}Model", **KV2)
LATENT = dict(DENSE, kv_lora_rank=8, q_lora_rank=12, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5)
add("minicpm3", "plain", "MiniCPM3ForCausalLM", **LATENT)
add("minicpm3", "biased", "MiniCPM3ForCausalLM", **LATENT, attention_bias=True, mlp_bias=True, tie_word_embeddings=False)
add("minicpm3", "base", "MiniCPM3Model", **{**LATENT, "qk_rope_head_dim": 8})
V32 = dict(LATENT, moe_intermediate_size=20, n_routed_experts=4, num_experts_per_tok=2, index_head_dim=8, index_n_heads=4,
           num_hidden_layers=5, n_group=1, topk_group=1)
add("deepseek_v32", "plain", "DeepseekV32ForCausalLM", **V32)
add("deepseek_v32", "dense", "DeepseekV32ForCausalLM", **V32, first_k_dense_replace=1, n_shared_experts=2, attention_bias=True)
add("deepseek_v32", "tied", "DeepseekV32ForCausalLM", **V32, tie_word_embeddings=True)
add("deepseek_v32", "base", "DeepseekV32Model", **V32)
add("camembert", "masked", "CamembertForMaskedLM", **ENC)
add("camembert", "types", "CamembertForMaskedLM", **ENC, type_vocab_size=1)
add("camembert", "base", "CamembertModel", **ENC)
EXPERTS = dict(KV2, moe_intermediate_size=20, num_experts_per_tok=2, num_hidden_layers=3)
for kind, name, key, shared in (("exaone_moe", "ExaoneMoe", "num_experts", "num_shared_experts"), ("hy_v3", "HYV3", "num_experts", "num_shared_experts"),
                                ("mellum", "Mellum", "num_local_experts", None), ("solar_open", "SolarOpen", "n_routed_experts", "n_shared_experts"),
                                ("afmoe", "Afmoe", "num_experts", "num_shared_experts")):
    some = {key: 4, **({shared: 2} if shared else {})}
    add(kind, "plain", f"{name}ForCausalLM", **EXPERTS, **some)
    add(kind, "biased-tied", f"{name}ForCausalLM", **{**EXPERTS, "num_key_value_heads": 4}, **some, attention_bias=True, mlp_bias=True, head_dim=10, tie_word_embeddings=True)
    add(kind, "some-dense", f"{name}ForCausalLM", **EXPERTS, **some, mlp_layer_types=["sparse", "dense", "sparse"], first_k_dense_replace=2, num_dense_layers=2)
    add(kind, "base", f"{name}Model", **EXPERTS, **{key: 3})
LITE = dict(LATENT, moe_intermediate_size=20, n_routed_experts=4, num_experts_per_tok=2, num_hidden_layers=3)
add("glm4_moe_lite", "plain", "Glm4MoeLiteForCausalLM", **LITE)
add("glm4_moe_lite", "biased-tied", "Glm4MoeLiteForCausalLM", **LITE, attention_bias=True, n_shared_experts=2, tie_word_embeddings=True)
add("glm4_moe_lite", "listed", "Glm4MoeLiteForCausalLM", **LITE, mlp_layer_types=["sparse", "dense", "sparse"])
add("glm4_moe_lite", "base", "Glm4MoeLiteModel", **{**LITE, "q_lora_rank": None})
add("youtu", "plain", "YoutuForCausalLM", **LATENT)
add("youtu", "biased", "YoutuForCausalLM", **{**LATENT, "q_lora_rank": None}, attention_bias=True, mlp_bias=True, tie_word_embeddings=False)
add("youtu", "base", "YoutuModel", **LATENT)

# other encoders, and encoders with decoders
for kind, name in (("data2vec-text", "Data2VecText"), ("roberta-prelayernorm", "RobertaPreLayerNorm"), ("xlm-roberta-xl", "XLMRobertaXL"), ("megatron-bert", "MegatronBert"), ("mpnet", "MPNet")):
    add(kind, "masked", f"{name}ForMaskedLM", **ENC)
    add(kind, "base", f"{name}Model", **ENC)
    if kind != "mpnet":
        add(kind, "types", f"{name}ForMaskedLM", **ENC, type_vocab_size=3)
        add(kind, "causal", f"{name}ForCausalLM", **ENC, is_decoder=True)
for kind, name in (("mvp", "Mvp"), ("plbart", "PLBart"), ("blenderbot", "Blenderbot"), ("blenderbot-small", "BlenderbotSmall")):
    add(kind, "plain", f"{name}ForConditionalGeneration", **SEQ)
    add(kind, "scaled", f"{name}ForConditionalGeneration", **{**SEQ, "encoder_layers": 1}, scale_embedding=True)
    add(kind, "base", f"{name}Model", **SEQ)

add("mimo_v2_flash", "plain", "MiMoV2FlashForCausalLM", **{**EXPERTS, "num_hidden_layers": 7}, n_routed_experts=4, head_dim=10, v_head_dim=6)
add("mimo_v2_flash", "biased-tied", "MiMoV2FlashForCausalLM", **EXPERTS, n_routed_experts=4, head_dim=10, v_head_dim=6, attention_bias=True, tie_word_embeddings=True)
add("mimo_v2_flash", "listed", "MiMoV2FlashForCausalLM", **EXPERTS, n_routed_experts=4, layer_types=["sliding_attention", "full_attention", "full_attention"],
    mlp_layer_types=["sparse", "dense", "sparse"])
add("mimo_v2_flash", "base", "MiMoV2FlashModel", **EXPERTS, n_routed_experts=3)
JET = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_key_value_heads=2, kv_channels=10, num_local_experts=4, num_experts_per_tok=2, num_attention_heads=4)
add("jetmoe", "plain", "JetMoeForCausalLM", **JET)
add("jetmoe", "untied", "JetMoeForCausalLM", **{**JET, "num_experts_per_tok": 3, "num_attention_heads": 6}, tie_word_embeddings=False)
add("jetmoe", "base", "JetMoeModel", **JET)
add("jetmoe", "sequence", "JetMoeForSequenceClassification", **JET)

add("modernbert-decoder", "plain", "ModernBertDecoderForCausalLM", **MB)
add("modernbert-decoder", "biases", "ModernBertDecoderForCausalLM", **MB, attention_bias=True, mlp_bias=True, norm_bias=True, decoder_bias=False, classifier_bias=True)
add("modernbert-decoder", "untied", "ModernBertDecoderForCausalLM", **MB, tie_word_embeddings=False)
add("modernbert-decoder", "base", "ModernBertDecoderModel", **MB)
for kind, name, more in (("rembert", "RemBert", {"input_embedding_size": 16, "output_embedding_size": 40}), ("big_bird", "BigBird", {"use_bias": False}),
                         ("roformer", "RoFormer", {"embedding_size": 16})):
    add(kind, "masked", f"{name}ForMaskedLM", **ENC, **more)
    add(kind, "types", f"{name}ForMaskedLM", **ENC, type_vocab_size=3)
    add(kind, "causal", f"{name}ForCausalLM", **ENC, **more, is_decoder=True)
    add(kind, "base", f"{name}Model", **ENC)
    add(kind, "base-more", f"{name}Model", **ENC, **more)
add("granitemoe_swa", "plain", "GraniteMoeSWAForCausalLM", **KV2, num_local_experts=3)
add("granitemoe_swa", "shared", "GraniteMoeSWAForCausalLM", **KV2, num_local_experts=3, shared_intermediate_size=28, attention_bias=True, tie_word_embeddings=True)
add("granitemoe_swa", "base", "GraniteMoeSWAModel", **KV2, num_local_experts=3)
LONG = dict(ENC, attention_window=8)
add("longformer", "masked", "LongformerForMaskedLM", **LONG)
add("longformer", "types", "LongformerForMaskedLM", **LONG, type_vocab_size=3)
add("longformer", "base", "LongformerModel", **{**LONG, "attention_window": [4, 8]})

# Heads beside the first, of types that record_heads.py finds no case of.
for kind, name in ("bert", "Bert"), :
    for head in ("LMHeadModel", "ForNextSentencePrediction", "ForSequenceClassification", "ForMultipleChoice",
                 "ForTokenClassification", "ForQuestionAnswering"):
        add(kind, head, name + head, **ENC)
        add(kind, head + " of 5", name + head, **{**ENC, "num_hidden_layers": 1}, type_vocab_size=3, id2label={str(i): f"L{i}" for i in range(5)},
            label2id={f"L{i}": i for i in range(5)})
for head in "SequenceClassification", "TokenClassification", "QuestionAnswering", "MultipleChoice":
    add("modernbert", head, "ModernBertFor" + head, **MB)
    add("modernbert", head + " of 5", "ModernBertFor" + head, **MB, classifier_bias=True, norm_bias=True,
        id2label={str(i): f"L{i}" for i in range(5)}, label2id={f"L{i}": i for i in range(5)})
for bias in False, True:
    add("modernbert-decoder", f"sequence {bias}", "ModernBertDecoderForSequenceClassification", **MB, classifier_bias=bias, num_labels=3 + bias)
add("whisper", "causal", "WhisperForCausalLM", **WH)
add("whisper", "causal-untied", "WhisperForCausalLM", **WH, tie_word_embeddings=False)
add("whisper", "audio", "WhisperForAudioClassification", **WH, num_labels=5, classifier_proj_size=20)
add("whisper", "audio-weighted", "WhisperForAudioClassification", **WH, use_weighted_layer_sum=True)
add("marian", "causal", "MarianForCausalLM", **MARIAN)
for head in "SequenceClassification", "TokenClassification", "QuestionAnswering":
    add("gpt2", head, "GPT2For" + head, vocab_size=96, n_embd=32, n_layer=2, n_head=4, n_positions=20)
    add("gpt2", head + " of 5", "GPT2For" + head, vocab_size=96, n_embd=32, n_layer=2, n_head=4, n_positions=20, n_inner=40, num_labels=5)
SINK = dict(DENSE, num_key_value_heads=2, head_dim=8, num_local_experts=3, num_experts_per_tok=2)
V3 = dict(DENSE, num_key_value_heads=4, q_lora_rank=12, kv_lora_rank=8, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5,
          moe_intermediate_size=20, n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2, n_group=2, topk_group=1,
          first_k_dense_replace=1)
for kind, name, base in ("gpt_oss", "GptOss", SINK), ("deepseek_v3", "DeepseekV3", V3):
    add(kind, "base", name + "Model", **base)
    for head in "SequenceClassification", "TokenClassification":
        add(kind, head, f"{name}For{head}", **base)
        add(kind, head + " of 5", f"{name}For{head}", **base, num_labels=5, attention_bias=True)
G3 = dict(text_config=dict(TEXT2, head_dim=10, model_type="gemma3_text"), vision_config=dict(VIT, model_type="siglip_vision_model"), mm_tokens_per_image=4)
add("gemma3", "base", "Gemma3Model", **G3)
add("gemma3", "sequence", "Gemma3ForSequenceClassification", **G3, num_labels=5)

# Types of transformers 5 that releases came with or behind.
V4 = dict(vocab_size=96, hidden_size=32, moe_intermediate_size=20, num_hidden_layers=6, num_attention_heads=4, head_dim=8, q_lora_rank=12,
          num_experts_per_tok=2, n_routed_experts=4, o_groups=2, o_lora_rank=6, index_n_heads=2, index_head_dim=10, partial_rotary_factor=0.5)
V4_KINDS = ["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"]
add("deepseek_v4", "plain", "DeepseekV4ForCausalLM", **V4)
add("deepseek_v4", "kinds-tied", "DeepseekV4ForCausalLM", **{**V4, "hc_mult": 3}, layer_types=V4_KINDS * 2, tie_word_embeddings=True,
    mlp_layer_types=["moe", "hash_moe"] * 3, compress_rates={"compressed_sparse_attention": 3, "heavily_compressed_attention": 16})
add("deepseek_v4", "older-keys", "DeepseekV4ForCausalLM", **V4, compress_ratios=[0, 4, 128, 4, 128, 0], num_hash_layers=2, mlp_bias=True)
add("deepseek_v4", "base", "DeepseekV4Model", **V4, n_shared_experts=2)
LINEAR = dict(DENSE, pad_token_id=0, num_hidden_layers=5, num_key_value_heads=4, moe_intermediate_size=20, num_local_experts=3, num_experts_per_tok=2, kv_lora_rank=8,
              qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5, linear_head_dim=7, linear_num_heads=3, linear_conv_kernel_dim=3)
add("kimi_linear", "plain", "KimiLinearForCausalLM", **LINEAR)
add("kimi_linear", "listed-tied", "KimiLinearForCausalLM", **LINEAR, q_lora_rank=12, n_shared_experts=2, tie_word_embeddings=True, attention_bias=True,
    layer_types=["full_attention", "linear_attention"] * 2 + ["full_attention"], mlp_layer_types=["sparse", "dense"] * 2 + ["sparse"])
add("kimi_linear", "older-keys", "KimiLinearForCausalLM", **LINEAR, first_k_dense_replace=2,
    linear_attn_config=dict(head_dim=6, num_heads=2, short_conv_kernel_size=4, full_attn_layers=[2, 5], kda_layers=[1, 3, 4]))
add("kimi_linear", "base", "KimiLinearModel", **LINEAR)
add("olmo_hybrid", "plain", "OlmoHybridForCausalLM", pad_token_id=0, **{**DENSE, "num_hidden_layers": 5})
add("olmo_hybrid", "sizes-tied", "OlmoHybridForCausalLM", pad_token_id=0, **{**DENSE, "num_hidden_layers": 3}, num_key_value_heads=2, tie_word_embeddings=True, attention_bias=True,
    layer_types=["full_attention", "linear_attention", "linear_attention"], linear_num_key_heads=2, linear_num_value_heads=4,
    linear_key_head_dim=6, linear_value_head_dim=5, linear_conv_kernel_dim=3)
add("olmo_hybrid", "base", "OlmoHybridModel", pad_token_id=0, **{**DENSE, "num_hidden_layers": 2})
M3 = dict(vocab_size=96, hidden_size=32, intermediate_size=20, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=8, num_experts_per_tok=2,
          num_local_experts=3, dense_intermediate_size=48, shared_intermediate_size=28, index_n_heads=2, index_head_dim=10, rotary_dim=4)
M3_MORE = dict(layer_types=["full_attention", "minimax_m3_sparse"] * 2, mlp_layer_types=["dense", "sparse"] * 2)
M3_OLD = dict(moe_layer_freq=[0, 1, 1, 1], sparse_attention_config=dict(sparse_num_index_heads=3, sparse_index_dim=6, sparse_attention_freq=[0, 0, 1, 1]))
M3_VISION = dict(hidden_size=32, intermediate_size=44, num_hidden_layers=2, num_attention_heads=4, image_size=28, patch_size=14)
add("minimax_m3_vl_text", "plain", "MiniMaxM3VLForCausalLM", **M3)
add("minimax_m3_vl_text", "kinds-tied", "MiniMaxM3VLForCausalLM", **M3, **M3_MORE, tie_word_embeddings=True)
add("minimax_m3_vl_text", "older-keys", "MiniMaxM3VLForCausalLM", **M3, **M3_OLD)
add("minimax_m3_vl_text", "base", "MiniMaxM3VLTextModel", **M3, **M3_MORE)
add("minimax_m3_vl", "plain", "MiniMaxM3SparseForConditionalGeneration", text_config=dict(M3, **M3_MORE), vision_config=M3_VISION, projector_hidden_size=24)
add("minimax_m3_vl", "sizes", "MiniMaxM3SparseForConditionalGeneration", text_config=dict(M3, **M3_OLD), projector_hidden_size=28,
    vision_config=dict(M3_VISION, hidden_size=40, spatial_merge_size=3, temporal_patch_size=1, num_channels=1))
add("minimax_m3_vl", "base", "MiniMaxM3VLModel", text_config=M3, vision_config=M3_VISION, projector_hidden_size=24)
STEP = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=5, num_attention_heads=4, num_key_value_heads=2, head_dim=8, n_routed_experts=3,
            num_experts_per_tok=2, moe_intermediate_size=20, share_expert_dim=28, sliding_window=8)
STEP_VISION = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, image_size=56, patch_size=14, mlp_ratio=1.5)
add("step3p7", "plain", "Step3p7ForConditionalGeneration", text_config=STEP, vision_config=STEP_VISION)
add("step3p7", "sizes", "Step3p7ForConditionalGeneration", projector_bias=True, vision_config=dict(STEP_VISION, hidden_size=40, num_channels=1, mlp_ratio=2.0),
    text_config=dict(STEP, attention_bias=True, layer_types=["full_attention", "sliding_attention"] * 2 + ["full_attention"], num_sliding_attention_heads=6,
                     mlp_layer_types=["dense", "sparse"] * 2 + ["dense"]))
add("step3p7", "base", "Step3p7Model", text_config=STEP, vision_config=STEP_VISION)
K25_VISION = dict(patch_size=14, pos_emb_height=5, pos_emb_width=6, pos_emb_time=3, num_attention_heads=4, num_hidden_layers=2, hidden_size=32, intermediate_size=44)
for tie in False, True:
    add("kimi_k25", f"tied {tie}", "Kimi_K25ForConditionalGeneration", text_config=dict(V3, model_type="deepseek_v3", tie_word_embeddings=tie), vision_config=K25_VISION,
        projection_hidden_size=32, tie_word_embeddings=tie)
add("kimi_k25", "sizes", "Kimi_K25ForConditionalGeneration", text_config=dict(V3, model_type="deepseek_v3", hidden_size=40), projection_hidden_size=40, tie_word_embeddings=False,
    vision_config=dict(K25_VISION, hidden_size=40, merge_kernel_size=[2, 3]))
add("kimi_k25", "base", "Kimi_K25Model", text_config=dict(V3, model_type="deepseek_v3"), vision_config=K25_VISION, projection_hidden_size=32)

# Types of transformers 5.23
KV = dict(DENSE, num_key_value_heads=2)
LATENT = dict(DENSE, num_key_value_heads=4, kv_lora_rank=8, q_lora_rank=12, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5,
              moe_intermediate_size=20, n_routed_experts=4, num_experts_per_tok=2)
for kind in "internlm3", "iquestcoder":
    add(kind, "plain", "LlamaForCausalLM", **KV)
    add(kind, "biases, tied", "LlamaForCausalLM", **{**KV, "num_key_value_heads": 4}, head_dim=10, attention_bias=True, mlp_bias=True, tie_word_embeddings=True)
    add(kind, "base", "LlamaModel", **KV, head_dim=None)
add("mistral4", "plain", "Mistral4ForCausalLM", **LATENT)
add("mistral4", "dense before", "Mistral4ForCausalLM", **{**LATENT, "num_hidden_layers": 3}, first_k_dense_replace=1, n_shared_experts=2,
    attention_bias=True, tie_word_embeddings=True)
add("mistral4", "base", "Mistral4Model", **{**LATENT, "q_lora_rank": None})
add("mistral4", "labels", "Mistral4ForSequenceClassification", **LATENT, num_labels=5)
add("axk1", "plain", "AXK1ForCausalLM", **{**LATENT, "num_hidden_layers": 3})
add("axk1", "kinds", "AXK1ForCausalLM", **{**LATENT, "num_hidden_layers": 3}, mlp_layer_types=["sparse", "dense", "sparse"], attention_bias=True,
    n_shared_experts=2, tie_word_embeddings=True)
add("axk1", "old keys", "AXK1Model", **{**LATENT, "num_hidden_layers": 5}, first_k_dense_replace=2, moe_layer_freq=2)
COHERE = dict(KV, head_dim=10, num_experts=3, num_experts_per_tok=2)
add("cohere2_moe", "plain", "Cohere2MoeForCausalLM", **COHERE)
add("cohere2_moe", "dense before", "Cohere2MoeForCausalLM", **{**COHERE, "num_hidden_layers": 5}, first_k_dense_replace=2,
    prefix_dense_intermediate_size=72, num_shared_experts=2, attention_bias=True, tie_word_embeddings=False)
add("cohere2_moe", "kinds", "Cohere2MoeModel", **{**COHERE, "num_hidden_layers": 3, "num_key_value_heads": None}, mlp_layer_types=["sparse", "dense", "sparse"],
    rms_norm_eps=1e-6)
LAGUNA = dict(KV, head_dim=8, num_experts=3, num_experts_per_tok=2, moe_intermediate_size=20, shared_expert_intermediate_size=28, num_hidden_layers=3)
add("laguna", "plain", "LagunaForCausalLM", **LAGUNA)
add("laguna", "heads by layer", "LagunaForCausalLM", **LAGUNA, num_attention_heads_per_layer=[4, 6, 2], gating="per-element", attention_bias=True,
    layer_types=["full_attention", "sliding_attention", "sliding_attention"], tie_word_embeddings=True)
add("laguna", "kinds", "LagunaModel", **LAGUNA, mlp_layer_types=["sparse", "dense", "sparse"], gating="per-head")
LFM = dict(KV, head_dim=10, num_hidden_layers=6, pad_token_id=0, bos_token_id=1, eos_token_id=2)
add("lfm3", "plain", "Lfm3ForCausalLM", **LFM)
add("lfm3", "kinds", "Lfm3ForCausalLM", **{**LFM, "num_hidden_layers": 3}, layer_types=["sliding_attention", "conv", "full_attention"], conv_bias=True,
    attention_bias=True, conv_L_cache=3, tie_word_embeddings=False)
add("lfm3", "no gates", "Lfm3Model", **LFM, use_attention_gate=False, use_sandwich_norm=False)
GLMV = dict(hidden_size=24, out_hidden_size=32, intermediate_size=40, depth=2, num_heads=2, image_size=56)
GLMT = dict(KV, pad_token_id=0)
GLMM = dict(GLMT, moe_intermediate_size=20, n_routed_experts=4, n_shared_experts=2, num_experts_per_tok=2, num_hidden_layers=3)
for kind, name, text in ("glm4v", "Glm4v", GLMT), ("glm4v_moe", "Glm4vMoe", GLMM), ("glm46v", "Glm46V", GLMT):
    typed = [dict(model_type="glm4v_text"), dict(model_type="glm4v_vision")] if kind == "glm46v" else [{}, {}]
    add(kind, "plain", f"{name}ForConditionalGeneration", text_config={**text, **typed[0]}, vision_config={**GLMV, **typed[1]})
    add(kind, "biases, tied", f"{name}ForConditionalGeneration", text_config={**text, **typed[0], "num_key_value_heads": 4}, tie_word_embeddings=True,
        vision_config={**GLMV, **typed[1], "attention_bias": True, "spatial_merge_size": 3, "temporal_patch_size": 3, "patch_size": 8})
    add(kind, "base", f"{name}Model", text_config={**text, **typed[0]}, vision_config={**GLMV, **typed[1]})
add("glm4v_text", "plain", "Glm4vTextModel", **GLMT)
add("glm4v_moe_text", "plain", "Glm4vMoeTextModel", **GLMM)
add("glm4v_moe_text", "head_dim", "Glm4vMoeTextModel", **GLMM, head_dim=10, first_k_dense_replace=2, attention_bias=False)
PIXTRAL = dict(model_type="pixtral", hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=2, head_dim=12, image_size=28, patch_size=14)
add("mistral3", "with mistral4", "Mistral3ForConditionalGeneration", text_config=dict(LATENT, model_type="mistral4"), vision_config=PIXTRAL)
add("mistral3", "with mistral4, dense before", "Mistral3ForConditionalGeneration", vision_config=PIXTRAL, tie_word_embeddings=True,
    text_config=dict(LATENT, model_type="mistral4", first_k_dense_replace=1, n_shared_experts=2, num_hidden_layers=3), spatial_merge_size=3)
TOWER = dict(hidden_size=24, intermediate_size=40, depth=4, num_heads=2, out_hidden_size=32, num_position_embeddings=16)
for kind, name, text in ("qwen3_vl", "Qwen3VL", KV), ("qwen3_vl_moe", "Qwen3VLMoe", dict(KV, moe_intermediate_size=20, num_experts=3, num_experts_per_tok=2)):
    for inner in [0, 2], [3], []:
        add(kind, f"mergers behind {inner}", f"{name}ForConditionalGeneration",
            text_config=dict(text, head_dim=10, pad_token_id=0, rope_scaling=dict(rope_type="default", mrope_section=[2, 2, 1])),
            vision_config=dict(TOWER, deepstack_visual_indexes=inner))
GPT = dict(vocab_size=96, n_embd=32, n_layer=2, n_head=4, n_positions=20)
add("gpt2", "two heads", "GPT2DoubleHeadsModel", **GPT)
add("gpt2", "two heads, wide", "GPT2DoubleHeadsModel", **GPT, summary_proj_to_labels=False, tie_word_embeddings=False)
add("gpt2", "two heads, no matrix", "GPT2DoubleHeadsModel", **GPT, summary_use_proj=False)
add("kimi_k25_vision", "alone", "Kimi_K25VisionModel", **K25_VISION)

# Classes of one part, under the config of the whole.
for class_name in "Llama4ForCausalLM", "Llama4TextModel", "Llama4VisionModel":
    add("llama4", f"part-{class_name}", class_name, text_config=L4, vision_config=L4V)
for class_name in "MllamaForCausalLM", "MllamaTextModel", "MllamaVisionModel":
    add("mllama", f"part-{class_name}", class_name, text_config=MT, vision_config=MV)
add("mllama_text_model", "causal", "MllamaForCausalLM", **MT)
for class_name in "Gemma3ForCausalLM", "Gemma3TextModel":
    add("gemma3", f"part-{class_name}", class_name, **G3)
for kind, name, text in ("qwen3_5", "Qwen3_5", T35), ("qwen3_5_moe", "Qwen3_5Moe", T35M):
    for class_name in f"{name}ForCausalLM", f"{name}TextModel", f"{name}VisionModel":
        add(kind, f"part-{class_name}", class_name, text_config=text, vision_config=V35)
G4A = dict(hidden_size=48, num_hidden_layers=1, num_attention_heads=4, output_proj_dims=20, subsampling_conv_channels=[12, 4], conv_kernel_size=3)
add("gemma4", "text-alone", "Gemma4ForConditionalGeneration", text_config=G4)
add("gemma4", "sound", "Gemma4ForConditionalGeneration", text_config=G4, audio_config=dict(G4A, use_clipped_linears=False))
add("gemma4", "all", "Gemma4Model", text_config=G4, vision_config=G4V, audio_config=G4A)
add("gemma4", "sound-by-default", "Gemma4ForConditionalGeneration", text_config=G4, audio_config={})
for class_name in "Gemma4ForCausalLM", "Gemma4TextModel":
    add("gemma4", f"part-{class_name}", class_name, text_config=G4, vision_config=G4V)
add("gemma4_audio", "plain", "Gemma4AudioModel", **G4A)
add("openai-gpt", "double", "OpenAIGPTDoubleHeadsModel", vocab_size=96, n_positions=20, n_embd=32, n_layer=2, n_head=4)
add("openai-gpt", "double-unsummed", "OpenAIGPTDoubleHeadsModel", vocab_size=96, n_positions=20, n_embd=32, n_layer=2, n_head=4, summary_use_proj=False)
add("openai-gpt", "double-wide", "OpenAIGPTDoubleHeadsModel", vocab_size=96, n_positions=20, n_embd=32, n_layer=2, n_head=4, summary_proj_to_labels=False)
add("clip", "by-default", "CLIPModel", text_config=CT, vision_config=CV)
