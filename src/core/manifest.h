// SPDX-License-Identifier: Apache-2.0
// Manifest: the parameters of a model, by name, type and place in a file.
//
// A manifest may hold a million tensors, so it is kept in columns: all names
// in one arena, a type number per parameter, and the few distinct types once.
// Invariants: names are unique and valid UTF-8; every type's elements and
// bytes, and their totals over parameters and over buffers, fit 63 bits.
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

// ParameterKinds: what an architecture says of the dimensions of parameters.

// One of several tensors side by side in a dimension, or of a repeated part.
struct DimPart {
  std::string name;   // "k"
  std::string label;  // as of DimKind
  int64_t rows = 0;
  int64_t count = 0;  // as of DimKind
};
struct DimKind {
  // The size that stands first in it, as the architecture calls it: "heads" of
  // `heads * head_dim`; "" where none does.
  std::string label;
  // How many of these there are, none of which may be cut: 32 heads. 0: any cut
  // will do.
  int64_t count = 0;
  // Side by side; where there is a count, in each of these.
  std::vector<DimPart> parts = {};
  // Elements, as stored, that share a scale or belong to one word of packed
  // values: none is to be cut. 0: any cut will do, as the quantisation says; 1:
  // it says nothing.
  int64_t block = 1;
  // What logical axis rules call it (model/architecture/axis_labels.h); ""
  // where it is never cut.
  std::string axis = {};
  // Elements of the weight that each stored one stands for: of 231 scales of
  // groups of 128, 128.
  int64_t unit = 1;
};
// Per dimension, as stored.
using ParameterKind = std::vector<DimKind>;
// By folded name (core/fold.h) and shape: layers are alike.
using ParameterKinds = std::map<std::pair<std::string, Shape>, ParameterKind>;

using AxisLabels = std::vector<std::optional<std::string>>;  // logical names

// TensorView: how another program keeps a tensor of the checkpoint
// (`--scheme`): turned, with its heads in a dimension of their own, as a layer
// of a stack. Moves come first, then joining, then stacking.
struct TensorView {
  // One of a shape: `number`, or a dimension of the tensor before divided by
  // it.
  struct Dim {
    int from = -1;
    int64_t number = 1;
  };
  // An order (for every dimension of the result, the operand's), or a shape.
  struct Move {
    std::vector<size_t> order = {};
    std::vector<Dim> shape = {};
  };
  // A dimension that is put in at `at`, and where the tensor stands in it; -1:
  // it counts experts, and all of them are one tensor of the forward pass.
  struct Stacked {
    size_t at = 0;
    int64_t count = 1;
    int64_t index = 0;
  };
  // Others stand beside the tensor in dimension `at` of `size`.
  struct Joined {
    size_t at = 0;
    int64_t begin = 0;
    int64_t size = 0;
  };
  std::string of;  // a tensor of the manifest
  Shape shape;     // of the checkpoint's; experts first where they are stacked
  std::vector<Move> moves;
  std::optional<Joined> joined;
  std::vector<Stacked> stacked;
};
// By the checkpoint's name; that of stacked experts lacks the expert's number.
using TensorViews = std::map<std::string, TensorView, std::less<>>;

// A manifest without its tensors: everything else that was read of a model.
struct ManifestHead {
  std::string title;  // what to call the model in output: the path as given
  std::string model_name;  // the manifest's own "name", or empty
  // The `model_type` of a config.json, such as "llama"; empty without a config.
  std::string model_type;
  std::string format;  // "native", "safetensors", "hf-config", ...
  // The config.json that the model was made from, or the one beside its
  // weights; null if there is none, or if it cannot be read.
  std::shared_ptr<const Document> config;
  bool config_unread = false;  // there is one, and it cannot be read
  // The architecture that the user asked for; null: the one the config names.
  std::shared_ptr<const Architecture> architecture;
  Facts facts;
  // The parameters that an architecture explains; empty without one.
  std::shared_ptr<const ParameterKinds> kinds;
  // What a logical axis was called in older rules of the program that it is of,
  // newest first (settle_labels).
  std::map<std::string, std::vector<std::string>> earlier_labels;
  // How a forward pass reads tensors that another program keeps; null where the
  // tensors are those of the checkpoint.
  std::shared_ptr<const TensorViews> views;
  // The mesh that a dump of another program was made on; else empty.
  std::vector<AxisRequest> mesh;
  // What a reader should know though nothing is wrong: "the data of
  // `x.safetensors` is absent (header only)".
  std::vector<std::string> remarks;
  std::vector<SourcePtr> sources;  // keeps spans alive
};

class Manifest : public ManifestHead {
 public:
  Manifest() = default;
  // Without tensors.
  explicit Manifest(ManifestHead head) : ManifestHead(std::move(head)) {}
  const ManifestHead& head() const { return *this; }

  // Adds a tensor. `buffer` tensors are not parameters: they are kept apart
  // and never placed. `where` is the place of its name.
  // Returns false when the type, or a total, exceeds 63 bits; nothing is added
  // then. Names are not checked here; see find_duplicate.
  bool add(std::string_view name, const TensorType& type, Span where,
           bool buffer = false);
  // The same for a type that is there: `type` is its number.
  bool add_numbered(std::string_view name, uint32_t type, Span where);
  void set_axes(size_t index, AxisLabels axes) {
    axes_[index] = std::move(axes);
  }

  // Makes room for a text of that many bytes. Growing by doubling would hold
  // the columns of a million tensors two and a half times; room that is not
  // used costs address space only.
  void reserve_for(uint64_t text_bytes);

  size_t size() const { return type_of_.size(); }  // parameters, no buffers
  std::string_view name(size_t index) const {
    const uint64_t begin = index == 0 ? 0 : name_end_[index - 1];
    return std::string_view(names_).substr(begin, name_end_[index] - begin);
  }
  const TensorType& type(size_t index) const { return types_[type_of_[index]]; }
  // Equal numbers, equal types; dense from 0.
  uint32_t type_number(size_t index) const { return type_of_[index]; }
  const std::vector<TensorType>& types() const { return types_; }
  // Equal numbers: equal names apart from their numbers; dense from 0.
  uint32_t name_class(size_t index) const { return name_class_[index]; }
  const NameClasses& name_classes() const { return name_classes_; }
  Span where(size_t index) const;
  // Logical axes, where the manifest gives them; else null.
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
  // Every name consists of printable ASCII.
  bool names_are_plain() const { return plain_; }

  // Parameters, then buffers: the numbering that find_duplicate answers in.
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

  // Two tensors of the same name, the first such pair. O(n).
  struct Duplicate {
    size_t first = 0;
    size_t second = 0;
  };
  std::optional<Duplicate> find_duplicate() const;

  // Leaves only these tensors, each once, in this order; as buffers those that
  // are said to be.
  struct Kept {
    size_t index = 0;  // of any_name
    bool buffer = false;
  };
  // False, and nothing changes, where parameters that become buffers, or
  // buffers that become parameters, exceed 63 bits with the others.
  bool keep(std::span<const Kept> tensors);

 private:
  struct Size {
    int64_t elements = 0;
    int64_t bytes = 0;
  };
  // Empty when either exceeds 63 bits.
  static std::optional<Size> size_of(const TensorType& type);
  std::optional<uint32_t> find_type(const TensorType& type,
                                    uint64_t hash) const;
  // Counts a tensor. False, and nothing is counted, beyond 63 bits.
  bool count(const Size& size, bool buffer);
  void reserve(size_t name_bytes, size_t tensors);
  // One that is not there.
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
  // Places: 32-bit offsets would cap files at 4 GiB; the source changes rarely.
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

// The first parameter that no architecture explains (Manifest::kinds); empty
// where all are explained.
std::optional<size_t> find_unexplained(const Manifest& manifest);
// Gives the parameters that an architecture explains their labels as logical
// axes. False where it explains none.
bool label_parameters(Manifest& manifest);
// Labels that are not `known`, which rules have, become the first of their
// earlier names that is. Gives which became which.
std::map<std::string, std::string> settle_labels(
    const std::set<std::string, std::less<>>& known, Manifest& manifest);

// StoredTensor: numbers as a checkpoint holds them, in a mapped file.
//
// Nothing is read before it is looked at, and nothing is copied: a tensor of
// 100 GB costs address space.

struct StoredTensor {
  DType dtype = DType::F32;
  Shape shape;
  // Row-major, little endian, not aligned; null where there are no numbers.
  const std::byte* data = nullptr;
  std::shared_ptr<const void> owner = {};  // keeps the file mapped
};

// The numbers of a model: one tensor per parameter of its manifest.
using StoredTensors = std::vector<StoredTensor>;

// What reading it assumed or left out, as notes (SP019).
void report_remarks(const Manifest& manifest, Diagnostics& diags);

}  // namespace shardplan
