// SPDX-License-Identifier: Apache-2.0
// Manifest: the parameters of a model, each with its name, type and source
// location.
//
// A manifest may have a million tensors, so it is stored in columns: all names
// in one arena, one type number per parameter, and each of the few distinct
// types once. Invariants: names are unique and valid UTF-8; every type's
// elements and bytes, and their totals over parameters and over buffers, fit 63
// bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/diagnostic.h"
#include "base/source.h"
#include "core/facts.h"
#include "core/mesh.h"
#include "core/name_classes.h"
#include "core/types.h"

namespace shardplan {

class Document;
struct Architecture;

// ParameterKinds: what an architecture states about parameter dimensions.

// One of several tensors side by side in a dimension, or in each repeated part.
struct DimPart {
  std::string name;   // "k"
  std::string label;  // as DimKind::label
  int64_t rows = 0;
  int64_t count = 0;  // as DimKind::count
};
struct DimKind {
  // The architecture's name for the leading factor of the size: "heads" for
  // `heads * head_dim`; "" if it has none.
  std::string label;
  // The number of indivisible parts: 32 heads. 0: the dimension may be split
  // anywhere.
  int64_t count = 0;
  // Tensors side by side in the dimension or, if `count` > 0, in each part.
  std::vector<DimPart> parts = {};
  // The number of stored elements that share a scale or one word of packed
  // values, so no shard boundary may be between them. 0: the quantisation
  // allows any split; 1: the quantisation does not specify it.
  int64_t block = 1;
  // The dimension's name in logical axis rules
  // (model/architecture/axis_labels.h); "" if it is never sharded.
  std::string axis = {};
  // Weight elements per stored element: 128 for 231 scales of groups of 128.
  int64_t unit = 1;
};
// One entry per dimension, as stored.
using ParameterKind = std::vector<DimKind>;
// Keyed by folded name (core/fold.h) and shape, since layers are alike.
using ParameterKinds = std::map<std::pair<std::string, Shape>, ParameterKind>;

using AxisLabels = std::vector<std::optional<std::string>>;  // logical names

// TensorView: how another program stores a tensor of the checkpoint
// (`--scheme`): transposed, with a separate dimension for heads, or as one
// layer of a stack. Moves apply first, then the join, then the stacking.
struct TensorView {
  // One size of a shape: `number` if `from` is -1, else the size of dimension
  // `from` before the move divided by `number`.
  struct Dim {
    int from = -1;
    int64_t number = 1;
  };
  // A permutation (for each dimension of the result, that of the operand) or a
  // reshape.
  struct Move {
    std::vector<size_t> order = {};
    std::vector<Dim> shape = {};
  };
  // A new dimension at `at`, and the tensor's index in it; -1: the dimension
  // counts experts, all of which form one tensor of the forward pass.
  struct Stacked {
    size_t at = 0;
    int64_t count = 1;
    int64_t index = 0;
  };
  // Dimension `at`, of `size`, also contains other tensors; this one begins at
  // `begin`.
  struct Joined {
    size_t at = 0;
    int64_t begin = 0;
    int64_t size = 0;
  };
  std::string of;  // name of a tensor in the manifest
  Shape shape;     // in the checkpoint; experts first if they are stacked
  std::vector<Move> moves;
  std::optional<Joined> joined;
  std::vector<Stacked> stacked;
};
// Keyed by the checkpoint's name, without the expert's number for stacked
// experts.
using TensorViews = std::map<std::string, TensorView, std::less<>>;

// A manifest without its tensors: everything else that was read for a model.
struct ManifestHead {
  std::string title;       // the model's name in output: the path as given
  std::string model_name;  // the manifest's own "name", or empty
  // The `model_type` of a config.json, such as "llama"; empty without a config.
  std::string model_type;
  std::string format;  // "native", "safetensors", "hf-config", ...
  // The config.json that the model was made from, or the one next to its
  // weights; null if there is none or it cannot be read.
  std::shared_ptr<const Document> config;
  bool config_unread = false;  // a config.json exists but cannot be read
  // The architecture requested by the user; null: the one that the config
  // names.
  std::shared_ptr<const Architecture> architecture;
  Facts facts;
  // The parameters that the architecture explains; null without an
  // architecture.
  std::shared_ptr<const ParameterKinds> kinds;
  // Names that a logical axis had in older rules of the same program, newest
  // first (replace_old_labels).
  std::map<std::string, std::vector<std::string>> earlier_labels;
  // How a forward pass reads tensors that another program stores; null if the
  // tensors are those of the checkpoint.
  std::shared_ptr<const TensorViews> views;
  // The mesh recorded in another program's dump; else empty.
  std::vector<AxisRequest> mesh;
  // Remarks for the user that are not problems: "the data of `x.safetensors` is
  // absent (header only)".
  std::vector<std::string> remarks;
  std::vector<SourcePtr> sources;  // keeps spans alive
};

class Manifest : public ManifestHead {
 public:
  Manifest() = default;
  // Makes a manifest without tensors.
  explicit Manifest(ManifestHead head) : ManifestHead(std::move(head)) {}
  const ManifestHead& head() const { return *this; }

  // Adds a tensor. `buffer` tensors are not parameters: they are stored
  // separately and never placed. `where` is the location of the name. Returns
  // false, and adds nothing, if the type or a total exceeds 63 bits. Does not
  // check names; see find_duplicate.
  bool add(std::string_view name, const TensorType& type, Span where,
           bool buffer = false);
  // Adds a parameter whose type is already known; `type` is its number.
  bool add_numbered(std::string_view name, uint32_t type, Span where);
  void set_axes(size_t index, AxisLabels axes) {
    axes_[index] = std::move(axes);
  }

  // Reserves space for a text of that many bytes. Doubling would use two and a
  // half times the memory of a million tensors' columns; unused reserved space
  // only costs address space.
  void reserve_for(uint64_t text_bytes);

  size_t size() const { return type_of_.size(); }  // parameters only
  std::string_view name(size_t index) const {
    const uint64_t begin = index == 0 ? 0 : name_end_[index - 1];
    return std::string_view(names_).substr(begin, name_end_[index] - begin);
  }
  const TensorType& type(size_t index) const { return types_[type_of_[index]]; }
  // Equal types have equal numbers, dense from 0.
  uint32_t type_number(size_t index) const { return type_of_[index]; }
  const std::vector<TensorType>& types() const { return types_; }
  // Names that differ only in their numbers have the same class, dense from 0.
  uint32_t name_class(size_t index) const { return name_class_[index]; }
  const NameClasses& name_classes() const { return name_classes_; }
  Span where(size_t index) const;
  // The logical axes, if the manifest states them; else null.
  const AxisLabels* axes(size_t index) const;

  struct Buffer {
    std::string name;
    TensorType type;
    Span where;
  };
  const std::vector<Buffer>& buffers() const { return buffers_; }

  int64_t total_elements() const { return total_elements_; }
  int64_t total_bytes() const { return total_bytes_; }
  int64_t buffer_elements() const { return buffer_elements_; }
  int64_t buffer_bytes() const { return buffer_bytes_; }
  // Returns whether every name consists of printable ASCII.
  bool names_are_plain() const { return plain_; }

  // Parameters, then buffers: the numbering of find_duplicate's result.
  std::string_view any_name(size_t index) const {
    return index < size() ? name(index)
                          : std::string_view(buffers_[index - size()].name);
  }
  size_t any_size() const { return size() + buffers_.size(); }
  const TensorType& any_type(size_t index) const {
    return index < size() ? type(index) : buffers_[index - size()].type;
  }
  Span any_where(size_t index) const {
    return index < size() ? where(index) : buffers_[index - size()].where;
  }

  // The first pair of tensors with the same name. O(n).
  struct Duplicate {
    size_t first = 0;
    size_t second = 0;
  };
  std::optional<Duplicate> find_duplicate() const;

  // One of the tensors that remain. `buffer` says what it becomes.
  struct Selected {
    size_t index = 0;  // as in any_name
    bool buffer = false;
  };
  // Reduces the manifest to these tensors, each given once, in this order.
  // Returns false, and changes nothing, if a total exceeds 63 bits because
  // parameters become buffers or buffers become parameters.
  bool select(std::span<const Selected> tensors);

 private:
  struct Size {
    int64_t elements = 0;
    int64_t bytes = 0;
  };
  // Returns nothing if either exceeds 63 bits.
  static std::optional<Size> size_of(const TensorType& type);
  std::optional<uint32_t> find_type(const TensorType& type,
                                    uint64_t hash) const;
  // Adds to the totals. Returns false, and adds nothing, beyond 63 bits.
  bool count(const Size& size, bool buffer);
  void reserve(size_t name_bytes, size_t tensors);
  // Adds a type. REQUIRES: the type is new.
  uint32_t add_type(const TensorType& type, uint64_t hash, const Size& size);
  void append(std::string_view name, uint32_t type, uint32_t name_class,
              Span where);
  bool ascends() const;

  std::string names_;
  std::vector<uint64_t> name_end_;
  std::vector<uint32_t> type_of_;
  std::vector<uint32_t> name_class_;
  NameClasses name_classes_;
  std::vector<TensorType> types_;
  std::vector<Size> type_sizes_;
  std::unordered_multimap<uint64_t, uint32_t> types_by_hash_;
  // Source locations: 32-bit offsets would limit files to 4 GiB. The source
  // file rarely changes from one tensor to the next, so only changes are
  // stored.
  std::vector<uint64_t> where_begin_;
  std::vector<uint32_t> where_length_;
  std::vector<std::pair<size_t, const SourceFile*>> source_from_;
  std::map<size_t, AxisLabels> axes_;
  std::vector<Buffer> buffers_;
  int64_t total_elements_ = 0;
  int64_t total_bytes_ = 0;
  int64_t buffer_elements_ = 0;
  int64_t buffer_bytes_ = 0;
  bool plain_ = true;
};

// Returns the first parameter that the architecture does not explain
// (Manifest::kinds), or nothing if it explains all of them.
std::optional<size_t> find_unexplained(const Manifest& manifest);
// Sets the logical axes of the parameters that the architecture explains.
// Returns false if it explains none.
bool label_parameters(Manifest& manifest);
// Replaces each label that is not in `known`, the names that the rules have, by
// the first of its earlier names that is. Returns the replacements.
std::map<std::string, std::string> replace_old_labels(
    const std::set<std::string, std::less<>>& known, Manifest& manifest);

// StoredTensor: the values of a tensor in a mapped checkpoint file.
//
// Values are read only when used, and never copied, so a tensor of 100 GB only
// costs address space.

struct StoredTensor {
  DType dtype = DType::F32;
  Shape shape;
  // Row-major, little endian, unaligned; null if there are no values.
  const std::byte* data = nullptr;
  std::shared_ptr<const void> owner = {};  // keeps the file mapped
};

// The values of a model: one tensor per parameter of its manifest.
using StoredTensors = std::vector<StoredTensor>;

// Reports, as notes (SP019), what the reader assumed or left out.
void report_remarks(const Manifest& manifest, Diagnostics& diags);

}  // namespace shardplan
