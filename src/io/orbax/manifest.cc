// SPDX-License-Identifier: Apache-2.0
// The format `orbax`: Orbax checkpoints. Names come from `_METADATA`, shapes
// and mesh from there and `_sharding`, or shapes and dtypes from the arrays'
// own `.zarray`.
#include "io/orbax/manifest.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "io/fence.h"
#include "io/formats.h"
#include "io/orbax/checkpoint.h"
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
};

// The arrays of one report, and the first of them.
struct Group {
  std::vector<std::string> names;
  std::optional<Array> first;
  void add(const Array& array) {
    if (names.empty()) first = array;
    names.push_back(array.leaf->name);
  }
  int64_t count() const { return std::ssize(names); }
};

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
    for (const OrbaxLeaf& leaf : tree->leaves) note(leaf, tree->use_ocdbt);
    if (!all_read_) return std::nullopt;
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

  void note(const OrbaxLeaf& leaf, bool use_ocdbt) {
    if (leaf.empty) return;
    if (leaf.value_type == "string") {
      ++texts_;
      return;
    }
    Array array{&leaf, state_part(leaf.name), std::nullopt, {}, 1};
    if (leaf.value_type == "scalar") {
      // A Python number, not an array.
      array.part = StatePart::Counter;
      array.shapes = {Shape()};
    }
    if (!use_ocdbt) read_zarr(array);
    if (array.shapes.empty() && leaf.write_shape) find_shapes(array);
    if (array.shapes.size() == 1) {
      sizes_.insert(array.shapes[0].begin(), array.shapes[0].end());
    }
    arrays_.push_back(std::move(array));
  }

  void read_zarr(Array& array) {
    const std::string& name = array.leaf->dotted;
    // Nothing outside the checkpoint is read, whatever the names are.
    if (source_.path == "-" || name == ".." || contains(name, '/')) {
      return;
    }
    const std::string directory = path_relative_to(source_.path, name, host_);
    for (const std::string_view file : {".zarray", "zarr.json"}) {
      const std::string path = path_in(directory, file, host_);
      if (!host_.file_info(path)) continue;
      const SourcePtr source = read_source(path, kWholeFile, host_, diags_);
      if (source == nullptr) {
        all_read_ = false;
        return;
      }
      const auto type = zarr_type(source);
      if (!type) continue;
      array.dtype = type->dtype;
      array.shapes = {type->shape};
      return;
    }
  }

  void find_shapes(Array& array) {
    const Shape& written = *array.leaf->write_shape;
    const auto found = sharding_of_.find(array.leaf->dotted);
    if (found == sharding_of_.end()) {
      array.shapes = {written};
      if (array.part == StatePart::Parameter) unsharded_.add(array);
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
        const auto& evidence = found->second[static_cast<size_t>(sure)];
        const bool confirmed =
            std::ranges::any_of(evidence, [&](const Array* other) {
              return other->leaf->write_shape != array.leaf->write_shape;
            });
        if (confirmed)
          most = std::max(most, (sure + 1) * (same_parent ? 2 : 1));
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
    for (const Array& array : arrays_) {
      if (array.part == StatePart::Parameter) return;
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
      if (array.shapes.empty()) {
        unknown_.add(array);
        continue;
      }
      auto shape = shape_of(array);
      if (!shape) {
        open_.add(array);
        continue;
      }
      if (!array.dtype) assumed_.add(array);
      if (array.shapes.size() > 1) inferred_.add(array);
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
    if (unknown_.names.empty()) return open_.names.empty();
    diags_
        .error(Code::MissingFacts, unknown_.first->leaf->where,
               "the shapes of " + plural(unknown_.count(), "array") +
                   " are not recorded: " + some_names(unknown_.names))
        .fact(
            "`_METADATA` has a `write_shape` only for JAX arrays, and "
            "`_sharding` must give the number of shards")
        .help("give a native manifest instead: names, shapes and dtypes")
        .parameters(unknown_.names);
    return false;
  }

  void report() {
    if (!assumed_.names.empty()) {
      diags_
          .report(Code::MissingFacts, Severity::Warning,
                  assumed_.first->leaf->where,
                  "this Orbax checkpoint does not record dtypes: assuming f32 "
                  "for " +
                      plural(assumed_.count(), "array"))
          .fact("all byte counts assume f32; in bf16 they would be half")
          .help("give a native manifest to set other dtypes");
    }
    if (!inferred_.names.empty()) report_inferred();
    if (!unsharded_.names.empty()) {
      diags_
          .report(
              Code::MissingFacts, Severity::Warning,
              unsharded_.first->leaf->where,
              "no `_sharding` entry for " + plural(unsharded_.count(), "array"))
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

  static std::string shapes_text(const std::vector<Shape>& shapes) {
    return joined_of(shapes, " or ",
                     [&](const Shape& shape) { return shape_text(shape); });
  }

  // A guess would be indistinguishable from a known shape.
  void report_open() {
    if (open_.names.empty()) return;
    auto report =
        diags_.error(Code::MissingFacts, open_.first->leaf->where,
                     "the shapes of " + plural(open_.count(), "array") +
                         " are ambiguous: " + some_names(open_.names));
    constexpr int kShown = 5;
    int shown = 0;
    for (const Array& array : arrays_) {
      const bool is_open = contains(open_.names, array.leaf->name);
      if (!is_open || ++shown > kShown) continue;
      report.fact(in_backticks(array.leaf->name) + " was written as " +
                  shape_text(*array.leaf->write_shape) + " by " +
                  plural(array.replicas, "replica") +
                  " of a shard: its shape is " + shapes_text(array.open));
    }
    report
        .fact(
            "replicas split the first dimension that they divide; if they "
            "divide none, one replica writes it all; no other array shows "
            "which applies")
        .help("give a native manifest instead: names, shapes and dtypes")
        .parameters(open_.names);
  }

  void report_inferred() {
    const Array& first = *inferred_.first;
    const std::string shapes = shapes_text(first.shapes);
    auto report =
        diags_.report(Code::MissingFacts, Severity::Warning, first.leaf->where,
                      "the shapes of " + plural(inferred_.count(), "array") +
                          " are inferred: " + some_names(inferred_.names));
    report.fact(in_backticks(first.leaf->name) + " was written as " +
                shape_text(*first.leaf->write_shape) + " by " +
                plural(first.replicas, "replica") +
                " of a shard, so its shape is " + shapes);
    report.fact("using " + shape_text(*shape_of(first)) +
                (first.open.empty() ? ", as if replicas split the write"
                                    : ", a size that other arrays have"));
    report.help("compare with the model's shapes, or give a native manifest")
        .parameters(inferred_.names);
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
  Group open_;            // nothing shows which of several shapes they have
  bool all_read_ = true;  // the files next to the metadata
  Group unsharded_;
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

namespace {

int64_t size_of(const std::vector<AxisRequest>& mesh, const AxisName& name) {
  for (const AxisRequest& axis : mesh) {
    if (axis.name == name) return axis.size;
  }
  return 1;
}

// Returns `part` x `counts`, where dimension `split` is also split among the
// replicas.
std::optional<Shape> whole(Shape part, const ShardCounts& counts,
                           std::optional<size_t> split) {
  for (size_t i = 0; i < part.size(); ++i) {
    auto size = checked_mul(part[i], counts.per_dim[i]);
    if (size && split == i) size = checked_mul(*size, counts.replicas);
    if (!size) return std::nullopt;
    part[i] = *size;
  }
  return part;
}

// Parses "<f4", "|b1" or "bfloat16": zarr 2 uses NumPy's names.
std::optional<DType> numpy_dtype(std::string_view text) {
  if (text.size() < 2 ||
      std::string_view("<>|=").find(text[0]) == std::string_view::npos) {
    return find_dtype(text);
  }
  const std::string_view kind = text.substr(1);
  if (kind == "b1") return DType::Bool;
  constexpr std::array<std::pair<std::string_view, DType>, 13> kKinds = {{
      {"f8", DType::F64},
      {"f4", DType::F32},
      {"f2", DType::F16},
      {"i8", DType::I64},
      {"i4", DType::I32},
      {"i2", DType::I16},
      {"i1", DType::I8},
      {"u8", DType::U64},
      {"u4", DType::U32},
      {"u2", DType::U16},
      {"u1", DType::U8},
      {"c8", DType::C64},
      {"c16", DType::C128},
  }};
  for (const auto& [name, dtype] : kKinds) {
    if (kind == name) return dtype;
  }
  return std::nullopt;
}

}  // namespace

std::optional<ShardCounts> shard_counts(const RecordedSharding& sharding,
                                        size_t rank) {
  if (sharding.spec.dims.size() > rank) return std::nullopt;
  ShardCounts counts;
  counts.per_dim.assign(rank, 1);
  int64_t devices = 1;
  for (const AxisRequest& axis : sharding.mesh) {
    const auto product = checked_mul(devices, axis.size);
    if (!product || *product < 1) return std::nullopt;
    devices = *product;
  }
  int64_t shards = 1;
  for (size_t i = 0; i < sharding.spec.dims.size(); ++i) {
    for (const AxisName& name : sharding.spec.dims[i]) {
      const int64_t size = size_of(sharding.mesh, name);
      const auto here = checked_mul(counts.per_dim[i], size);
      const auto all = checked_mul(shards, size);
      if (!here || !all) return std::nullopt;
      counts.per_dim[i] = *here;
      shards = *all;
    }
  }
  counts.replicas = std::max<int64_t>(1, devices / shards);
  return counts;
}

std::vector<Shape> possible_shapes(const Shape& write_shape,
                                   const ShardCounts& counts) {
  std::vector<Shape> shapes;
  const auto add = [&](std::optional<size_t> split) {
    auto shape = whole(write_shape, counts, split);
    if (shape) shapes.push_back(*std::move(shape));
  };
  const bool is_empty = contains(write_shape, 0);
  if (counts.replicas > 1 && !is_empty) {
    // A dimension is split only if no earlier one could be.
    for (size_t i = 0; i < write_shape.size(); ++i) {
      add(i);
      if (write_shape[i] % counts.replicas == 0) break;
    }
  }
  add(std::nullopt);
  return shapes;
}

bool is_open(const Shape& write_shape, const ShardCounts& counts) {
  return counts.replicas > 1 && !write_shape.empty() &&
         write_shape.front() % counts.replicas != 0;
}

std::vector<Shape> shared_shapes(const Shape& write_shape,
                                 const ShardCounts& counts) {
  std::vector<Shape> shapes = possible_shapes(write_shape, counts);
  const bool divides = std::ranges::any_of(
      write_shape, [&](int64_t size) { return size % counts.replicas == 0; });
  // If replicas could share the writing, one alone did not write it all.
  if (divides && shapes.size() > 1) shapes.pop_back();
  return shapes;
}

std::optional<Shape> best_supported(
    const std::vector<Shape>& shapes,
    const std::function<int(int64_t size)>& support) {
  std::optional<Shape> best;
  int most = -1;
  for (const Shape& shape : shapes) {
    int sum = 0;
    for (const int64_t size : shape) sum += support(size);
    if (sum == most) best.reset();
    if (sum <= most) continue;
    most = sum;
    best = shape;
  }
  return best;
}

const Shape& likeliest(const std::vector<Shape>& shapes,
                       const std::set<int64_t>& known_sizes) {
  for (const Shape& shape : shapes) {
    if (std::ranges::all_of(shape, [&](int64_t size) {
          return known_sizes.count(size) != 0;
        })) {
      return shape;
    }
  }
  return shapes.front();
}

std::optional<TensorType> zarr_type(const SourcePtr& file) {
  Diagnostics problems;
  const auto document = parse_document(file, problems);
  if (!document || !document->root().is_map()) return std::nullopt;
  const Node root = document->root();
  const auto shape = root.find("shape");
  auto dtype = root.find("dtype");
  if (!dtype) dtype = root.find("data_type");
  if (!shape || !shape->is_list() || !dtype || !dtype->is_string()) {
    return std::nullopt;
  }
  const auto found = numpy_dtype(dtype->text());
  if (!found) return std::nullopt;
  TensorType type{*found, {}};
  for (size_t i = 0; i < shape->size(); ++i) {
    const auto size = shape->item(i).integer();
    if (!size || *size < 0) return std::nullopt;
    type.shape.push_back(*size);
  }
  return type;
}

}  // namespace shardplan
