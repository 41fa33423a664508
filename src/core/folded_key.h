// SPDX-License-Identifier: Apache-2.0
// Keys of names in which numbers stand as `*`: `layers.*.mlp.down_proj`.
//
// Tensor-parallel plans of Hugging Face have them. A key is found in the name
// of a parameter, or of the module that it belongs to, so it becomes a pattern
// of one form, by which a rule shows that it came from such a table, in a saved
// plan too:
//
//   ^layers\.\d+\.mlp\.down_proj(?:\.[^.]+)?$    the module, its parameters
//   ^layers\.\d+\.mlp\.down_proj(?:\.bias)$      its bias alone
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shardplan {

// Which digits of a name are folded to `*` before it is looked up.
enum class DigitFolding : uint8_t {
  EveryRun,  // `experts.3.w1` -> `experts.*.w*` (transformers before 5.2)
  // Parts between dots that are numbers, but of two in a row only the first,
  // and never the first part (since 5.2): `experts.3.w1` -> `experts.*.w1`.
  WholeParts,
};
std::string fold_digits(std::string_view name, DigitFolding folding);

// Whether there are names that fold to this key.
bool can_be_folded_name(std::string_view key, DigitFolding folding);

enum class KeyPart : uint8_t { Module, Bias };

// The pattern of a key; with `below` also behind the names of outer modules,
// `model.`, `transformer.` or `language_model.`.
std::string key_pattern(std::string_view key, KeyPart part, bool below);
// The key of a pattern that key_pattern made; else nothing.
std::optional<std::string> key_of_pattern(std::string_view pattern);

}  // namespace shardplan
