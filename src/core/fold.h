// SPDX-License-Identifier: Apache-2.0
// Folding: parameters that differ only in a layer or expert number and are
// alike in everything else count as one class, shown as
// `model/layers/*/mlp/up_proj ×32`.
//
// A number is a whole path component of digits (`/` and `.` separate), so
// Mixtral's `w1`, `w2`, `w3` stay apart. What a name says apart from its
// numbers is the same for all of a class, so it is read once per class.
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

// "model.layers.12.mlp.w1" -> "model.layers.*.mlp.w1"
std::string folded_name(std::string_view name);
// The same with another mark in place of each number.
std::string marked_name(std::string_view name, char mark);
// Whether a component of the name is a number.
bool has_number(std::string_view name);

// The first component of digits, of at most nine: the layer, in a name.
struct NumberIn {
  size_t begin = 0;  // of its digits
  size_t end = 0;
  int64_t number = -1;  // -1: there is none
};
NumberIn first_number(std::string_view name);

struct ParameterClass {
  uint32_t folded = 0;  // number of its folded name
  uint32_t kind = 0;
  size_t first = 0;  // its first parameter
  int64_t count = 0;
};

struct Folding {
  std::vector<std::string> folded_names;
  std::vector<ParameterClass> classes;  // in order of their first parameter
  std::vector<uint32_t> class_of;       // per parameter
};

// REQUIRES: names are UTF-8. `kinds[i]` says what must be equal for two
// parameters to fold together: a plan's placement numbers, or a manifest's type
// numbers.
Folding fold(const std::vector<uint32_t>& kinds, const NameOf& name_of);
// The same for the parameters of a manifest, which knows their classes.
Folding fold(const std::vector<uint32_t>& kinds, const Manifest& manifest);
Folding fold_by_type(const Manifest& manifest);

// The members of each group, ascending, for a group number per parameter.
class Members {
 public:
  Members(const std::vector<uint32_t>& group_of, size_t groups);
  std::span<const uint32_t> of(size_t group) const;

 private:
  std::vector<uint64_t> begin_;
  std::vector<uint32_t> members_;
};

// What to call each class: a class of one has its full name, and where several
// classes share a folded name each says which numbers it stands for:
// `layers/{0-2}/mlp/w`, `layers/{3,5}/mlp/w`.
std::vector<std::string> class_labels(const Folding& folding,
                                      const NameOf& name_of);

// Keys of names in which numbers stand as `*`: `layers.*.mlp.down_proj`.
//
// Tensor-parallel plans of Hugging Face have them. A key is found in the name
// of a parameter, or of the module that it belongs to, so it becomes a pattern
// of one form, by which a rule shows that it came from such a table, in a saved
// plan too:
//
//   ^layers\.\d+\.mlp\.down_proj(?:\.[^.]+)?$    the module, its parameters
//   ^layers\.\d+\.mlp\.down_proj(?:\.bias)$      its bias alone
//
// A key of fused experts, `mlp.experts.gate_up_proj`, may also stand for those
// of checkpoints, which transformers fuses as it loads them:
// `mlp.experts.3.gate_proj.weight`, `block_sparse_moe.experts.3.w1.weight`.

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

// The pattern of a key; also behind any of the outer modules, given as
// `model|transformer`, unless that is empty; and for each of fused experts
// where their own dimensions are what is sharded.
enum class FusedKeys : uint8_t { AsWritten, AlsoEachExpert };
std::string key_pattern(std::string_view key, KeyPart part,
                        std::string_view outer,
                        FusedKeys fused = FusedKeys::AsWritten);
// The key of a pattern that key_pattern made; else nothing.
std::optional<std::string> key_of_pattern(std::string_view pattern);

// Layers: which parameters are of one numbered layer, by their names alone.
//
// What folding takes for alike, layers tell apart: a stack is what stands
// before the first number of a name, `model/layers/`, and that number is the
// layer's. Numbers of more than nine digits are no layer's.

struct LayerStack {
  std::string prefix;  // "model/layers/"
  int64_t layers = 0;  // distinct numbers
  int64_t last = -1;   // the largest of these
};

struct NumberedLayers {
  struct Place {
    int64_t stack = -1;  // -1: the name has no number
    int64_t number = -1;
    size_t end = 0;  // of the layer in the name
  };
  std::vector<LayerStack> stacks;  // in the order of their first names
  std::vector<Place> of;           // per parameter
};
NumberedLayers numbered_layers(const Manifest& manifest);

}  // namespace shardplan
