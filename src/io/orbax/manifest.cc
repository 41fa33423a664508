// SPDX-License-Identifier: Apache-2.0
// The format `orbax`: Orbax checkpoints. Names come from `_METADATA`, shapes
// and mesh from there and `_sharding`, or shapes and dtypes from the arrays'
// own `.zarray`.
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "io/fence.h"
#include "io/formats.h"
#include "io/orbax/checkpoint.h"
#include "io/orbax/written_shapes.h"
#include "io/paths.h"
#include "syntax/document.h"

namespace shardplan {
namespace {

// The known facts about an array.
struct Array {
  const OrbaxLeaf* leaf = nullptr;
  StatePart part = StatePart::Parameter;
  std::optional<DType> dtype;
  std::vector<Shape> shapes;  // possible shapes; empty: unknown
  int64_t replicas = 1;
  // If replicas share the writing, several of these are possible.
  std::vector<Shape> open = {};
  bool unsharded = false;  // a parameter without an entry in `_sharding`
};

// The arrays of one report.
using Group = std::vector<const Array*>;

std::string count_of(const Group& group) {
  return plural(std::ssize(group), "array");
}

std::vector<std::string> names_of(const Group& group) {
  std::vector<std::string> names;
  for (const Array* array : group) names.push_back(array->leaf->name);
  return names;
}

// Returns "`w` was written as [8, 4] by 2 replicas of a shard".
std::string written_text(const Array& array) {
  return in_backticks(array.leaf->name) + " was written as " +
         shape_text(*array.leaf->write_shape) + " by " +
         plural(array.replicas, "replica") + " of a shard";
}

// No tree of a checkpoint has this name.
constexpr std::string_view kAnywhere = "/";

class CheckpointReader {
 public:
  CheckpointReader(const ManifestSource& source, Host& host, Diagnostics& diags)
      : source_(source), host_(host), diags_(diags) {}

  std::optional<Manifest> read() {
    const auto tree = read_orbax_metadata(source_.file, diags_);
    if (!tree || !read_sharding()) return std::nullopt;
    manifest_.sources.push_back(source_.file);
    bool good = true;
    for (const OrbaxLeaf& leaf : tree->leaves) {
      good = note(leaf, tree->use_ocdbt) && good;
    }
    if (!good) return std::nullopt;
    keep_something();
    if (!add_all()) return std::nullopt;
    report();
    return std::move(manifest_);
  }

 private:
  bool read_sharding() {
    const std::string path =
        path_relative_to(source_.path, kOrbaxSharding, host_);
    if (source_.path == "-" || !host_.file_info(path)) return true;
    const SourcePtr file = read_source(path, kWholeFile, host_, diags_);
    if (file == nullptr) return false;
    auto shardings = read_orbax_sharding(file, diags_);
    if (!shardings) return false;
    shardings_ = *std::move(shardings);
    manifest_.sources.push_back(file);
    manifest_.mesh = common_mesh(shardings_, diags_).axes;
    for (const RecordedSharding& sharding : shardings_) {
      sharding_of_.emplace(sharding.name, &sharding);
    }
    return true;
  }

  // Returns false, with the reason reported, if a file of the array cannot be
  // read.
  bool note(const OrbaxLeaf& leaf, bool use_ocdbt) {
    if (leaf.empty) return true;
    if (leaf.value_type == "string") {
      ++texts_;
      return true;
    }
    Array array{&leaf, state_part(leaf.name), std::nullopt, {}, 1};
    if (leaf.value_type == "scalar") {
      // A Python number, not an array.
      array.part = StatePart::Counter;
      array.shapes = {Shape()};
    }
    if (!use_ocdbt && !read_zarr(array)) return false;
    if (array.shapes.empty() && leaf.write_shape) find_shapes(array);
    if (array.shapes.size() == 1) {
      sizes_.insert(array.shapes[0].begin(), array.shapes[0].end());
    }
    arrays_.push_back(std::move(array));
    return true;
  }

  bool read_zarr(Array& array) {
    const std::string& name = array.leaf->dotted;
    // Nothing outside the checkpoint is read, whatever the names are.
    if (source_.path == "-" || name == ".." || contains(name, '/')) return true;
    const std::string directory = path_relative_to(source_.path, name, host_);
    for (const std::string_view file : {".zarray", "zarr.json"}) {
      const std::string path = path_in(directory, file, host_);
      if (!host_.file_info(path)) continue;
      const SourcePtr source = read_source(path, kWholeFile, host_, diags_);
      if (source == nullptr) return false;
      const auto type = zarr_type(source);
      if (!type) continue;
      array.dtype = type->dtype;
      array.shapes = {type->shape};
      break;
    }
    return true;
  }

  void find_shapes(Array& array) {
    const Shape& written = *array.leaf->write_shape;
    const auto found = sharding_of_.find(array.leaf->dotted);
    if (found == sharding_of_.end()) {
      array.shapes = {written};
      array.unsharded = array.part == StatePart::Parameter;
      return;
    }
    const auto counts = shard_counts(*found->second, written.size());
    if (!counts) return;
    array.replicas = counts->replicas;
    array.shapes = possible_shapes(written, *counts);
    if (is_open(written, *counts)) array.open = shared_shapes(written, *counts);
  }

  // Records the sizes in the model that an array shows. They are certain if
  // replicas shared the writing, as they do by default. The later dimensions of
  // an open array are likely sizes: they are split only if the first one cannot
  // be.
  void note_sizes(const Array& array) {
    const std::string_view name = array.leaf->name;
    const auto note = [&](int64_t size, bool sure) {
      for (const std::string_view place : {parent_of(name), kAnywhere}) {
        auto& evidence = evidence_[{size, place}][sure ? 1 : 0];
        // Two different arrays suffice: at least one differs from any asker.
        const bool known =
            std::ranges::any_of(evidence, [&](const Array* other) {
              return other->leaf->write_shape == array.leaf->write_shape;
            });
        if (!known && evidence.size() < 2) evidence.push_back(&array);
      }
    };
    if (array.shapes.empty()) return;
    const std::vector<Shape> shapes =
        array.open.empty() ? std::vector<Shape>{array.shapes.front()}
                           : array.open;
    for (size_t dim = 0; dim < shapes[0].size(); ++dim) {
      const bool same = std::ranges::all_of(shapes, [&](const Shape& shape) {
        return shape[dim] == shapes[0][dim];
      });
      if (same) note(shapes[0][dim], true);
      if (!same && dim > 0) note(array.shapes.back()[dim], false);
    }
  }

  // Returns the tree that contains a leaf, such as the tree of a layer.
  static std::string_view parent_of(std::string_view name) {
    return name.substr(0, std::min(name.find_last_of('/'), name.size()));
  }

  // Returns how certain it is that arrays written differently have that size.
  int support(const Array& array, int64_t size) const {
    int most = 0;
    for (const bool same_parent : {false, true}) {
      const auto found = evidence_.find(
          {size, same_parent ? parent_of(array.leaf->name) : kAnywhere});
      if (found == evidence_.end()) continue;
      for (const int sure : {0, 1}) {
        const bool confirmed = std::ranges::any_of(
            nth(found->second, sure), [&](const Array* other) {
              return other->leaf->write_shape != array.leaf->write_shape;
            });
        const int weight = (sure + 1) * (same_parent ? 2 : 1);
        if (confirmed) most = std::max(most, weight);
      }
    }
    return most;
  }

  // Returns the shape to use; nullopt if nothing shows which one it is.
  std::optional<Shape> shape_of(const Array& array) const {
    if (array.open.size() < 2) return likeliest(array.shapes, sizes_);
    if (auto supported = best_supported(
            array.open, [&](int64_t size) { return support(array, size); })) {
      return supported;
    }
    // Counters are not parameters, and their size is negligible.
    if (array.part == StatePart::Counter) return array.shapes.back();
    return std::nullopt;
  }

  // Treats a tree of nothing but optimizer state as parameters to place.
  void keep_something() {
    if (std::ranges::count(arrays_, StatePart::Parameter, &Array::part) > 0) {
      return;
    }
    for (Array& array : arrays_) {
      if (array.part == StatePart::Optimizer) array.part = StatePart::Parameter;
    }
  }

  bool add_all() {
    for (const Array& array : arrays_) note_sizes(array);
    for (const Array& array : arrays_) {
      if (array.part == StatePart::Optimizer) {
        ++left_out_;
        continue;
      }
      auto shape = array.shapes.empty() ? std::nullopt : shape_of(array);
      if (!shape) {
        (array.shapes.empty() ? unknown_ : open_).push_back(&array);
        continue;
      }
      if (!array.dtype) assumed_.push_back(&array);
      if (array.shapes.size() > 1) inferred_.push_back(&array);
      const TensorType type{array.dtype.value_or(DType::F32),
                            *std::move(shape)};
      if (!manifest_.add(array.leaf->name, type, array.leaf->where,
                         array.part == StatePart::Counter)) {
        diags_.error(Code::MalformedDocument, array.leaf->where,
                     "with this array the checkpoint exceeds 2^63 bytes");
        return false;
      }
    }
    report_open();
    if (unknown_.empty()) return open_.empty();
    diags_
        .error(Code::MissingFacts, unknown_.front()->leaf->where,
               "the shapes of " + count_of(unknown_) +
                   " are not recorded: " + some_names(names_of(unknown_)))
        .fact(
            "`_METADATA` has a `write_shape` only for JAX arrays, and "
            "`_sharding` must give the number of shards")
        .help("give a native manifest instead: names, shapes and dtypes")
        .parameters(names_of(unknown_));
    return false;
  }

  void report() {
    if (!assumed_.empty()) {
      warn(assumed_,
           "this Orbax checkpoint does not record dtypes: assuming f32 for " +
               count_of(assumed_))
          .fact("all byte counts assume f32; in bf16 they would be half")
          .help("give a native manifest to set other dtypes");
    }
    if (!inferred_.empty()) report_inferred();
    Group unsharded;
    for (const Array& array : arrays_) {
      if (array.unsharded) unsharded.push_back(&array);
    }
    if (!unsharded.empty()) {
      warn(unsharded, "no `_sharding` entry for " + count_of(unsharded))
          .fact("assuming that one process wrote the whole array");
    }
    if (left_out_ > 0) {
      manifest_.remarks.push_back(
          plural(left_out_, "array") +
          " of optimizer state left out: `--optimizer` computes it");
    }
    if (texts_ > 0) {
      manifest_.remarks.push_back(plural(texts_, "string") +
                                  " in the checkpoint ignored");
    }
  }

  Diagnostics::Builder warn(const Group& group, std::string message) {
    return diags_.report(Code::MissingFacts, Severity::Warning,
                         group.front()->leaf->where, std::move(message));
  }

  // A guess would be indistinguishable from a known shape.
  void report_open() {
    if (open_.empty()) return;
    auto report =
        diags_.error(Code::MissingFacts, open_.front()->leaf->where,
                     "the shapes of " + count_of(open_) +
                         " are ambiguous: " + some_names(names_of(open_)));
    constexpr size_t kShown = 5;
    for (const Array* array :
         std::span(open_).first(std::min(open_.size(), kShown))) {
      report.fact(written_text(*array) + ": its shape is " +
                  joined_of(array->open, " or ", shape_text));
    }
    report
        .fact(
            "replicas split the first dimension that they divide; if they "
            "divide none, one replica writes it all; no other array shows "
            "which applies")
        .help("give a native manifest instead: names, shapes and dtypes")
        .parameters(names_of(open_));
  }

  void report_inferred() {
    const Array& first = *inferred_.front();
    const std::vector<std::string> names = names_of(inferred_);
    warn(inferred_, "the shapes of " + count_of(inferred_) +
                        " are inferred: " + some_names(names))
        .fact(written_text(first) + ", so its shape is " +
              joined_of(first.shapes, " or ", shape_text))
        .fact("using " + shape_text(*shape_of(first)) +
              (first.open.empty() ? ", as if replicas split the write"
                                  : ", a size that other arrays have"))
        .help("compare with the model's shapes, or give a native manifest")
        .parameters(names);
  }

  const ManifestSource& source_;
  Host& host_;
  Diagnostics& diags_;
  Manifest manifest_;
  std::vector<RecordedSharding> shardings_;
  std::map<std::string, const RecordedSharding*, std::less<>> sharding_of_;
  std::vector<Array> arrays_;
  std::set<int64_t> sizes_;  // sizes of arrays whose shape is certain
  // The arrays that show a size in a tree or anywhere: [0] likely, [1] certain.
  std::map<std::pair<int64_t, std::string_view>,
           std::array<std::vector<const Array*>, 2>>
      evidence_;
  Group assumed_;
  Group inferred_;
  Group open_;  // nothing shows which of several shapes they have
  Group unknown_;
  int64_t left_out_ = 0;
  int64_t texts_ = 0;
};

bool recognize(std::string_view head) {
  return is_orbax_metadata(head) || is_orbax_sharding(head);
}

std::optional<Manifest> read(const ManifestSource& source, Host& host,
                             Diagnostics& diags) {
  if (!is_orbax_metadata(source.file->text())) {
    return diags
        .error(Code::UnrecognizedFormat, {},
               "`" + source.path +
                   "` has a checkpoint's shardings, not its shapes")
        .help(
            "give the checkpoint directory or its `_METADATA`; pass the "
            "shardings to `--rules`");
  }
  return CheckpointReader(source, host, diags).read();
}

}  // namespace

const ManifestFormat kOrbax = {
    "orbax", "a JAX checkpoint's `_METADATA` and `_sharding`", recognize, read};

}  // namespace shardplan
