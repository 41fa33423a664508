// SPDX-License-Identifier: Apache-2.0
// run_torch_class(): what the model classes of transformers run in a PyTorch
// training step, operation by operation, where they differ in what they save
// for backward.
//
// Derived from the sources of transformers 5.17 to 5.24: integrations/
// sdpa_attention.py, integrations/moe.py, loss/loss_utils.py and the models'
// own files. The results are checked against steps measured on H100 and H200,
// and against PyTorch on a null GPU (tests/judges/torch_memory.py).
//
//   norms      RMS norms are computed in float32 from a copy of their input.
//              They round before they multiply by their weight (LlamaRMSNorm)
//              or after it (Gemma's, OLMo 2's, gpt-oss's)
//   attention  scaled_dot_product_attention reads grouped keys and values
//              directly in 16 bits (enable_gqa). In float32 no kernel of torch
//              2.11 does, so its fallback repeats them and materialises the
//              scores; the efficient kernel of 2.15 does not. On a CPU they are
//              repeated. Some classes compute scores themselves, some did up to
//              5.17, some have done so since
//   softmax    materialised scores: computed in float32, then rounded
//   dropout    in training, wherever the class has a dropout rate in its config
//              that is not zero. The mask has one byte per element on a GPU
//              (native_dropout), one element per element on a CPU; attention
//              kernels save only their seed
//   loss       ForCausalLM and LMHeadModel copy logits to float32
//              (ForCausalLMLoss); encoders with a masked head and
//              encoder-decoder models compute it in the logits' dtype
//   compiled   torch.compile fuses softmax and loss into one kernel: ten steps
//              of Llama, GPT-2 and Qwen 3 held 2 to 3.5 copies of the logits in
//              their dtype
//   experts    grouped_mm, which autocast does not cover; Llama 4 runs every
//              token through every expert
//   gelu       `gelu_pytorch_tanh` is one kernel, other kinds with a tanh are
//              several operations
#pragma once

#include "activations/options.h"
#include "model/forward/definition.h"

namespace shardplan {

// Returns whether the operations of each layer are known for every framework.
// They are not known for experts, recurrences and capped scores.
bool runs_known_operations(const ForwardDefinition& model);

// Sets the options that the model's class determines, if a config names one. If
// the operations are unknown, the lower bound stays what fused kernels save.
void run_torch_class(const ForwardDefinition& model, bool on_cpu,
                     StepOptions& step);

}  // namespace shardplan
