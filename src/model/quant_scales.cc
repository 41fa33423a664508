// SPDX-License-Identifier: Apache-2.0
#include "model/quant_scales.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/checked.h"

namespace shardplan {
namespace {

constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();

// The range of possible block sizes.
struct Sizes {
  int64_t least = 1;
  int64_t most = kUnbounded;
};

// Returns the likeliest size: all known formats use powers of two.
int64_t likeliest(const Sizes& sizes) {
  int64_t power = 1;
  while (power < sizes.least && power <= kUnbounded / 2) power *= 2;
  return power >= sizes.least && power <= sizes.most ? power : sizes.least;
}

// Returns whether quantised numbers are stored in the type, one or several per
// element.
bool holds_quantised(DType dtype) {
  return is_quantised(dtype) || dtype == DType::U8 || dtype == DType::I32 ||
         dtype == DType::U32;
}

bool may_be_scales(std::string_view name) {
  return name.ends_with("scale_inv") || name.ends_with("scale") ||
         name.ends_with("scales");
}

// The names that AWQ and GPTQ use for the tensors of one weight.
constexpr std::string_view kPacked = "qweight";
constexpr std::string_view kZeros = "qzeros";
constexpr std::string_view kOrder = "g_idx";
constexpr std::string_view kScales = "scales";

// Returns the last component of a name.
std::string_view leaf_of(std::string_view name) {
  size_t cut = name.size();
  while (cut > 0 && name[cut - 1] != '.' && name[cut - 1] != '/') --cut;
  return name.substr(cut);
}

// The name of another tensor: remove the last `cut` characters, append `added`.
struct OtherName {
  size_t cut = 0;
  std::string_view added;
};

// The meaning of a weight's name, which is the same for all of its class.
struct ReadName {
  bool quantised = false;  // according to its type
  bool scales = false;     // it may be the scales of a packed weight
  bool packed = false;
  bool order = false;  // order of groups: one entry per row of the weight
  std::vector<OtherName> names_of_scales;
};

ReadName read_name(std::string_view name, DType dtype) {
  const std::string_view leaf = leaf_of(name);
  ReadName read{holds_quantised(dtype),
                leaf == kScales,
                leaf == kPacked,
                leaf == kOrder,
                {}};
  std::vector<OtherName>& names = read.names_of_scales;
  if (read.packed || read.order) {
    names = {{leaf.size(), kScales}};
    return read;
  }
  names = {{0, "_scale_inv"}, {0, "_scale"}};
  if (leaf == "weight") {
    names.push_back({leaf.size(), kScales});  // MLX
    names.push_back({leaf.size(), "scale"});
  }
  if (leaf == "weight_packed") names.push_back({leaf.size(), "weight_scale"});
  if (leaf == "_weight_qdata") names.push_back({leaf.size(), "_weight_scale"});
  return read;
}

// A dimension of a weight and its scales.
struct Pair {
  size_t weight = 0;
  size_t scales = 0;
  size_t dim = 0;
};

// Identifies a dimension across layers: the tensors' last component and dtype,
// and the distance from the last dimension.
using Kind = std::tuple<std::string_view, DType, size_t>;

class Reader {
 public:
  Reader(const Manifest& manifest, const Folding& folding)
      : manifest_(manifest), folding_(folding) {}

  QuantBlocksByName read() {
    // Scales are parameters in some formats and buffers in others.
    for (size_t i = 0; i < manifest_.any_size(); ++i) {
      const std::string_view name = manifest_.any_name(i);
      const std::string_view leaf = leaf_of(name);
      if (may_be_scales(name) || leaf == kZeros || leaf == kPacked) {
        known_.emplace(name, i);
      }
    }
    if (known_.empty()) return {};
    for (const ParameterClass& c : folding_.classes) {
      names_.push_back(
          read_name(manifest_.name(c.first), manifest_.type(c.first).dtype));
    }
    seen_.resize(names_.size());
    for (size_t i = 0; i < manifest_.size(); ++i) pair(i);
    for (const Pair& each : pairs_) {
      Sizes& sizes = of_kind_[kind_of(each)];
      const Sizes own = own_sizes(each);
      sizes = {std::max(sizes.least, own.least),
               std::min(sizes.most, own.most)};
    }
    for (const Pair& each : pairs_) {
      add(each.weight, each.scales, each.dim, block_of(each));
    }
    return std::move(result_);
  }

 private:
  const Shape& shape(size_t i) const { return manifest_.any_type(i).shape; }

  // Returns the tensor whose name is derived from `name`.
  std::optional<size_t> find(std::string_view name, const OtherName& other) {
    wanted_.assign(name, 0, name.size() - other.cut);
    wanted_ += other.added;
    const auto found = known_.find(wanted_);
    if (found == known_.end()) return std::nullopt;
    return found->second;
  }

  // Returns whether the class already has scales of that shape under that name,
  // and records it: layers are alike.
  bool is_known(uint32_t number, size_t which, size_t tensor) {
    std::vector<std::pair<size_t, Shape>>& seen = seen_[number];
    const Shape& met = shape(tensor);
    for (const auto& [at, known] : seen) {
      if (at == which && known == met) return true;
    }
    seen.emplace_back(which, met);
    return false;
  }

  void pair(size_t i) {
    const uint32_t number = folding_.class_of[i];
    const ReadName& read = names_[number];
    const std::string_view name = manifest_.name(i);
    if (read.scales) pair_packed_scales(i);
    if (!read.quantised) return;
    for (size_t which = 0; which < read.names_of_scales.size(); ++which) {
      const auto found = find(name, read.names_of_scales[which]);
      if (!found) continue;
      const Shape& mine = shape(i);
      const Shape& scales = shape(*found);
      const size_t rank = read.order ? 1 : mine.size();
      if (mine.size() != rank || mine.empty() ||
          (read.order ? scales.empty() : scales.size() != rank)) {
        continue;
      }
      if (is_known(number, which, *found)) return;
      for (size_t dim = 0; dim < rank; ++dim) {
        // Each column of `qweight` has its own scales, however it is packed.
        if (read.packed && dim + 1 == rank) continue;
        if (scales[dim] < 1 || scales[dim] > mine[dim]) continue;
        pairs_.push_back({i, *found, dim});
      }
      return;
    }
  }

  // Adds the number of columns of `scales` that share an element of `qweight`
  // (AWQ) or of `qzeros` (GPTQ).
  void pair_packed_scales(size_t i) {
    const Shape& mine = shape(i);
    if (mine.empty()) return;
    for (const std::string_view leaf : {kZeros, kPacked}) {
      const auto found = find(manifest_.name(i), {kScales.size(), leaf});
      if (!found) continue;
      const Shape& packed = shape(*found);
      if (packed.size() != mine.size() || packed.back() < 1) continue;
      if (mine.back() % packed.back() != 0) continue;
      const int64_t together = mine.back() / packed.back();
      if (together > 1) add(i, *found, mine.size() - 1, together);
      return;
    }
  }

  Kind kind_of(const Pair& pair) const {
    return {leaf_of(manifest_.any_name(pair.scales)),
            manifest_.type(pair.weight).dtype,
            shape(pair.weight).size() - pair.dim};
  }

  // Returns the sizes b for which the blocks cover the dimension: (blocks - 1)
  // b < size <= blocks b.
  Sizes own_sizes(const Pair& pair) const {
    const int64_t size = shape(pair.weight)[pair.dim];
    const int64_t blocks = shape(pair.scales)[pair.dim];
    return {ceil_div(size, blocks),
            blocks == 1 ? kUnbounded : ceil_div(size, blocks - 1) - 1};
  }

  // Returns a block size that agrees with all weights of the kind, else with
  // this one alone. A single scale for a whole dimension does not determine a
  // block size unless other weights do.
  int64_t block_of(const Pair& pair) const {
    const Sizes& all = of_kind_.at(kind_of(pair));
    if (all.most == kUnbounded) return 1;
    if (all.least <= all.most) return likeliest(all);
    const Sizes own = own_sizes(pair);
    return own.most == kUnbounded ? 1 : likeliest(own);
  }

  void add(size_t weight, size_t scales, size_t dim, int64_t block) {
    const auto [entry, is_new] = result_.try_emplace(
        {folded_name(manifest_.name(weight)), shape(weight)});
    QuantBlocks& blocks = entry->second;
    if (is_new) {
      blocks.blocks.assign(shape(weight).size(), 1);
      blocks.scales = manifest_.any_name(scales);
      blocks.placed = scales < manifest_.size();
      blocks.scales_shape = shape(scales);
    }
    // If layers differ, the largest block applies to all.
    blocks.blocks[dim] = std::max(blocks.blocks[dim], block);
  }

  const Manifest& manifest_;
  const Folding& folding_;
  std::unordered_map<std::string_view, size_t> known_;
  std::vector<ReadName> names_;  // by class
  // Per class: which name of scales led to which shapes.
  std::vector<std::vector<std::pair<size_t, Shape>>> seen_;
  std::string wanted_;
  std::vector<Pair> pairs_;
  std::map<Kind, Sizes> of_kind_;
  QuantBlocksByName result_;
};

}  // namespace

std::string_view quantisation_by_names(const Manifest& manifest) {
  struct Method {
    std::string_view name;
    std::vector<std::string_view> ends;  // some name must have each of them
    // A dtype that some tensor must have, if names alone are ambiguous.
    std::optional<DType> dtype = std::nullopt;
  };
  static const std::vector<Method> kMethods = {
      {"gptq", {".qweight", ".g_idx"}},
      {"awq", {".qweight", ".qzeros"}},
      {"compressed-tensors", {".weight_packed"}},
      // DeepSeek V4, of which ModelOpt wrote only the experts.
      {"fp8 and modelopt", {".weight_scale_2", ".scale"}, DType::F8E4M3},
      {"modelopt", {".weight_scale_2"}},
      {"fp8", {"weight_scale_inv"}},
      {"fp8", {".scale"}, DType::F8E4M3},
      {"bitsandbytes", {".SCB"}},
      {"torchao", {"._weight_qdata", "._weight_scale"}},
      {"bitsandbytes", {".weight.absmax"}},
      {"mxfp4", {"_proj_blocks", "_proj_scales"}},
      {"mlx", {".scales", ".biases"}},
      {"compressed-tensors or modelopt", {".weight_scale"}},
  };
  const auto& types = manifest.types();
  const bool some = std::ranges::any_of(types, [](const TensorType& type) {
    return holds_quantised(type.dtype);
  });
  if (!some) return "";
  std::map<std::string_view, bool> found;
  for (const Method& method : kMethods) {
    for (const std::string_view end : method.ends) found[end] = false;
  }
  for (size_t i = 0; i < manifest.any_size(); ++i) {
    const std::string_view name = manifest.any_name(i);
    for (auto& [end, seen] : found) seen = seen || name.ends_with(end);
  }
  for (const Method& method : kMethods) {
    const bool named = std::ranges::all_of(
        method.ends, [&](std::string_view end) { return found.at(end); });
    const bool typed =
        !method.dtype || std::ranges::find(types, *method.dtype,
                                           &TensorType::dtype) != types.end();
    if (named && typed) return method.name;
  }
  return "";
}

bool is_quantised(DType dtype) {
  switch (dtype) {
    case DType::F8E4M3:
    case DType::F8E5M2:
    case DType::F8E4M3FN:
    case DType::F8E4M3FNUZ:
    case DType::F8E5M2FNUZ:
    case DType::F6E2M3:
    case DType::F6E3M2:
    case DType::F4E2M1:
    case DType::I8:
    case DType::I4:
    case DType::U4:
      return true;
    default:
      return false;
  }
}

int64_t quantised_weight(const Manifest& manifest) {
  for (size_t i = 0; i < manifest.size(); ++i) {
    const DType dtype = manifest.type(i).dtype;
    const bool plain = dtype == DType::F64 || dtype == DType::F32 ||
                       dtype == DType::F16 || dtype == DType::BF16 ||
                       dtype == DType::I64 || dtype == DType::Bool;
    if (!plain && !manifest.name(i).ends_with("bias")) {
      return static_cast<int64_t>(i);
    }
  }
  return -1;
}

QuantBlocksByName quant_blocks(const Manifest& manifest,
                               const Folding& folding) {
  const bool quantised =
      std::ranges::any_of(folding.classes, [&](const ParameterClass& c) {
        return holds_quantised(manifest.type(c.first).dtype);
      });
  return quantised ? Reader(manifest, folding).read() : QuantBlocksByName();
}

const QuantBlocks* find_blocks(const QuantBlocksByName& known,
                               std::string_view name, const Shape& shape) {
  if (known.empty()) return nullptr;
  const auto found = known.find({folded_name(name), shape});
  return found == known.end() ? nullptr : &found->second;
}

}  // namespace shardplan
