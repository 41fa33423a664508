// SPDX-License-Identifier: Apache-2.0
// Folding: parameters that are equal except for a layer or expert number form
// one class, shown as `model/layers/*/mlp/up_proj ×32`.
//
// A number is a whole path component of digits, between `/` or `.`, so
// Mixtral's `w1`, `w2`, `w3` stay separate. The rest of the name is the same
// for all members of a class, so it is interpreted once per class.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardplan {

class Manifest;

using NameOf = std::function<std::string_view(size_t)>;

// Replaces each number by `*`: "model.layers.12.mlp.w1" ->
// "model.layers.*.mlp.w1".
std::string folded_name(std::string_view name);
// Replaces each number by `mark`.
std::string marked_name(std::string_view name, char mark);
// Returns whether a component of the name is a number.
bool has_number(std::string_view name);

// The first component of a name that consists of one to nine digits: the layer.
struct NumberIn {
  size_t begin = 0;  // range of the digits within the name
  size_t end = 0;
  int64_t number = -1;  // -1: the name has no number
};
NumberIn first_number(std::string_view name);

struct ParameterClass {
  uint32_t folded = 0;  // index into Folding::folded_names
  uint32_t kind = 0;
  size_t first = 0;  // index of its first parameter
  int64_t count = 0;
};

struct Folding {
  std::vector<std::string> folded_names;
  std::vector<ParameterClass> classes;  // in order of their first parameter
  std::vector<uint32_t> class_of;       // per parameter
};

// Folds names. Two parameters fold together only if their `kinds` are equal:
// the placement numbers of a plan, or the type numbers of a manifest. REQUIRES:
// names are UTF-8.
Folding fold(const std::vector<uint32_t>& kinds, const NameOf& name_of);
// Folds the parameters of a manifest, which already knows their name classes.
Folding fold(const std::vector<uint32_t>& kinds, const Manifest& manifest);
Folding fold_by_type(const Manifest& manifest);

// The members of each group, ascending, from one group number per parameter.
class Members {
 public:
  Members(const std::vector<uint32_t>& group_of, size_t groups);
  std::span<const uint32_t> of(size_t group) const;

 private:
  std::vector<uint64_t> begin_;
  std::vector<uint32_t> members_;
};

// Returns a label for each class. A class of one parameter has its full name.
// Classes that share a folded name list the numbers that they cover:
// `layers/{0-2}/mlp/w`, `layers/{3,5}/mlp/w`.
std::vector<std::string> class_labels(const Folding& folding,
                                      const NameOf& name_of);

// Folded keys: names with `*` in place of numbers, `layers.*.mlp.down_proj`.
//
// Hugging Face's tensor-parallel plans contain such keys. A key matches within
// the name of a parameter or of its module, so it is translated to a pattern of
// a fixed form. The form identifies rules that came from such a table, even in
// a saved plan:
//
//   ^layers\.\d+\.mlp\.down_proj(?:\.[^.]+)?$    the module, its parameters
//   ^layers\.\d+\.mlp\.down_proj(?:\.bias)$      its bias alone
//
// A key of fused experts, `mlp.experts.gate_up_proj`, can also match the
// unfused experts of a checkpoint, which transformers fuses on load:
// `mlp.experts.3.gate_proj.weight`, `block_sparse_moe.experts.3.w1.weight`.

// The digits of a name that become `*` before the name is looked up.
enum class DigitFolding : uint8_t {
  EveryRun,  // `experts.3.w1` -> `experts.*.w*` (transformers before 5.2)
  // Components between dots that are numbers, but only the first of two in a
  // row and never the first component (since 5.2): `experts.3.w1` ->
  // `experts.*.w1`.
  WholeParts,
};
std::string fold_digits(std::string_view name, DigitFolding folding);

// Returns whether some name folds to this key.
bool can_be_folded_name(std::string_view key, DigitFolding folding);

enum class KeyPart : uint8_t { Module, Bias };

// Returns the pattern of a key. With `outer`, such as `model|transformer`, the
// pattern also matches behind any of these outer modules. AlsoEachExpert also
// matches each unfused expert, for keys that shard the experts' own dimensions.
enum class FusedKeys : uint8_t { AsWritten, AlsoEachExpert };
std::string key_pattern(std::string_view key, KeyPart part,
                        std::string_view outer,
                        FusedKeys fused = FusedKeys::AsWritten);
// Returns the key that key_pattern made the pattern of, or nothing.
std::optional<std::string> key_of_pattern(std::string_view pattern);

// Layers: the numbered layer of each parameter, derived from names alone.
//
// Folding merges layers; this separates them. A stack is the part of a name
// before its first number, `model/layers/`, and the number is the layer's.
// Numbers of more than nine digits are not layers.

struct LayerStack {
  std::string prefix;  // "model/layers/"
  int64_t layers = 0;  // number of distinct layer numbers
  int64_t last = -1;   // the largest layer number
};

struct NumberedLayers {
  struct Place {
    int64_t stack = -1;  // -1: the name has no number
    int64_t number = -1;
    size_t end = 0;  // end of the layer number in the name
  };
  std::vector<LayerStack> stacks;  // in order of their first names
  std::vector<Place> of;           // per parameter
};
NumberedLayers numbered_layers(const Manifest& manifest);

}  // namespace shardplan
