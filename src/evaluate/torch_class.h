// SPDX-License-Identifier: Apache-2.0
// What the classes of transformers run in a training step of PyTorch, operation
// by operation, where they differ in what backward keeps.
//
// Read in the sources of transformers 5.17 to 5.24: integrations/
// sdpa_attention.py, integrations/moe.py, loss/loss_utils.py and the models'
// own files. What follows from it is held against steps measured on H100 and
// H200, and against PyTorch on a GPU that is not there
// (tests/judges/torch_memory.py).
//
//   norms      those with a root alone are computed in float32 from a copy of
//              their input, and round before they multiply with their weight
//              (LlamaRMSNorm) or after (Gemma's, OLMo 2's, gpt-oss's)
//   attention  scaled_dot_product_attention takes grouped keys and values as
//              they are (enable_gqa) in 16 bits; in float32 no kernel of torch
//              2.11 does, so that its fallback repeats them and holds the
//              scores, and the efficient one of 2.15 does. A CPU repeats them.
//              Some classes compute scores themselves, some did up to 5.17,
//              some do since
//   softmax    of scores that are held: in float32, then rounded
//   dropout    in training, of what the class drops at rates of its config that
//              are not zero. A GPU keeps a byte per number (native_dropout), a
//              CPU a number; kernels of attention keep their seed alone
//   loss       ForCausalLM and LMHeadModel copy logits to float32
//              (ForCausalLMLoss), encoders with a masked head and models with
//              an encoder and a decoder compute it in the logits' dtype
//   compiled   torch.compile makes one kernel of softmax and loss: ten steps of
//              Llama, GPT-2 and Qwen 3 held two to three and a half copies of
//              the logits in their dtype
//   experts    grouped_mm, which autocast does not know; Llama 4's run every
//              token in every expert
//   gelu       `gelu_pytorch_tanh` is one kernel, other kinds with a tanh are
//              several operations
#pragma once

#include "activations/options.h"
#include "model/forward/definition.h"

namespace shardplan {

// Whether what each layer computes is known for any framework, operation by
// operation: not of experts, recurrences and capped scores.
bool runs_known_operations(const ForwardDefinition& model);

// Sets what the model's class decides, if a config names one. Where
// operations are not known the least stays what kernels would keep.
void run_torch_class(const ForwardDefinition& model, bool on_cpu,
                     StepOptions& step);

}  // namespace shardplan
