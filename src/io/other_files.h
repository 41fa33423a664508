// SPDX-License-Identifier: Apache-2.0
// Files that stand where models and rules do, and that no format reads: they
// are refused for what they are.
#pragma once

#include <string>
#include <string_view>

#include "base/diagnostic.h"
#include "base/source.h"

namespace shardplan {

inline constexpr std::string_view kTorchIndex = "pytorch_model.bin.index.json";
inline constexpr std::string_view kDiffusersPipeline = "model_index.json";

// What Git has in place of a large file that was not fetched, and a page that a
// server sent in place of one (SP001). False
// where it is none, with nothing reported.
bool refuse_lfs_pointer(const SourceFile& file, Diagnostics& diags);

// Python source, weights as PyTorch or Keras write them (SP006), a config or a
// pipeline of diffusers, a config of a training program (SP009). False where it
// is none of these, with nothing reported.
bool refuse_other_file(const std::string& path, const SourcePtr& file,
                       Diagnostics& diags);

// Whether these are arguments of Megatron-LM as YAML, `num_layers: 32`.
bool is_arguments(std::string_view head);

// What a file that was given as rules is instead, "a saved plan"; empty where
// it may be rules.
std::string_view other_than_rules(std::string_view head);
// Refuses configs of training programs that were given as rules (SP006). False
// where it is none, with nothing reported.
bool refuse_other_rules(const SourceFile& file, Diagnostics& diags);
// The same of what was given as a hardware profile, rules included.
bool refuse_other_hardware(const SourceFile& file, Diagnostics& diags);

}  // namespace shardplan
