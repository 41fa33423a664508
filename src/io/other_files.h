// SPDX-License-Identifier: Apache-2.0
// Recognises files that are given as models, rules or hardware but that no
// reader supports, and refuses them with an error that names what they are.
#pragma once

#include <string>
#include <string_view>

#include "base/diagnostic.h"
#include "base/source.h"

namespace shardplan {

inline constexpr std::string_view kTorchIndex = "pytorch_model.bin.index.json";
inline constexpr std::string_view kDiffusersPipeline = "model_index.json";

// Refuses a Git LFS pointer, which Git leaves in place of a large file that was
// not fetched, and a web page that a server sent instead of the file (SP001).
// Returns false, with nothing reported, for any other file.
bool refuse_lfs_pointer(const SourceFile& file, Diagnostics& diags);

// Refuses Python source, weights in the formats of PyTorch, Keras or ONNX
// (SP006), and configs of diffusers, its pipelines and training programs
// (SP009). Returns false, with nothing reported, for any other file.
bool refuse_other_file(const std::string& path, const SourcePtr& file,
                       Diagnostics& diags);

// Returns whether the text has Megatron-LM arguments as YAML, `num_layers: 32`.
bool is_arguments(std::string_view head);

// Returns what a file given as rules is instead, such as "a saved plan"; empty
// if it may be rules.
std::string_view other_than_rules(std::string_view head);
// Refuses a config of a training program that was given as rules (SP006).
// Returns false, with nothing reported, for any other file.
bool refuse_other_rules(const SourceFile& file, Diagnostics& diags);
// Refuses the same files and also rules, when given as a hardware profile.
bool refuse_other_hardware(const SourceFile& file, Diagnostics& diags);

}  // namespace shardplan
