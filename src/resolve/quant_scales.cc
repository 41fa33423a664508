// SPDX-License-Identifier: Apache-2.0
#include "resolve/quant_scales.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/checked.h"

namespace shardplan {
namespace {

constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();

// The sizes that a block may have.
struct Sizes {
  int64_t least = 1;
  int64_t most = kUnbounded;
};

// `count` blocks of b cover `size`: (count - 1) b < size <= count b.
Sizes sizes_of(int64_t size, int64_t count) {
  return {ceil_div(size, count),
          count == 1 ? kUnbounded : ceil_div(size, count - 1) - 1};
}

Sizes both(const Sizes& a, const Sizes& b) {
  return {std::max(a.least, b.least), std::min(a.most, b.most)};
}

// Blocks are powers of two wherever anybody has made some.
int64_t likeliest(const Sizes& sizes) {
  int64_t power = 1;
  while (power < sizes.least && power <= kUnbounded / 2) power *= 2;
  return power >= sizes.least && power <= sizes.most ? power : sizes.least;
}

// Types in which quantised numbers are stored, alone or several in one.
bool holds_quantised(DType dtype) {
  return is_quantised(dtype) || dtype == DType::U8 || dtype == DType::I32 ||
         dtype == DType::U32;
}

bool may_be_scales(std::string_view name) {
  return name.ends_with("scale_inv") || name.ends_with("scale") ||
         name.ends_with("scales");
}

// How AWQ and GPTQ call what belongs to one weight.
constexpr std::string_view kPacked = "qweight";
constexpr std::string_view kZeros = "qzeros";
constexpr std::string_view kOrder = "g_idx";
constexpr std::string_view kScales = "scales";

// The last component of a name; `stem` is what stands before it.
std::string_view leaf_of(std::string_view name, std::string_view& stem) {
  const size_t cut = name.find_last_of("./");
  stem = cut == name.npos ? "" : name.substr(0, cut + 1);
  return cut == name.npos ? name : name.substr(cut + 1);
}

// The names that the scales of a weight may have.
std::vector<std::string> names_of_scales(std::string_view name) {
  std::string_view stem;
  const std::string_view leaf = leaf_of(name, stem);
  const std::string before(stem);
  if (leaf == kPacked || leaf == kOrder) return {before + "scales"};
  std::vector<std::string> names = {std::string(name) + "_scale_inv",
                                    std::string(name) + "_scale"};
  if (leaf == "weight") {
    names.push_back(before + "scales");  // MLX
    names.push_back(before + "scale");
  }
  if (leaf == "weight_packed") names.push_back(before + "weight_scale");
  return names;
}

// A dimension of a weight and the number of scales along it.
struct Pair {
  size_t weight = 0;
  size_t scales = 0;
  size_t dim = 0;
};

// The dimensions that mean the same in all layers: of tensors called alike, and
// as far from the last one.
using Kind = std::tuple<std::string_view, DType, size_t>;

class Reader {
 public:
  explicit Reader(const Manifest& manifest) : manifest_(manifest) {}

  QuantBlocksByName read() {
    // Scales are parameters in some formats and buffers in others.
    for (size_t i = 0; i < manifest_.size() + manifest_.buffers().size(); ++i) {
      const std::string_view name = manifest_.any_name(i);
      std::string_view stem;
      const std::string_view leaf = leaf_of(name, stem);
      if (may_be_scales(name) || leaf == kZeros || leaf == kPacked) {
        known_.emplace(name, i);
      }
    }
    if (known_.empty()) return {};
    for (size_t i = 0; i < manifest_.size(); ++i) pair(i);
    for (const Pair& each : pairs_) {
      Sizes& sizes = of_kind_[kind_of(each)];
      sizes = both(sizes, own_sizes(each));
    }
    for (const Pair& each : pairs_) {
      add(each.weight, each.scales, each.dim, block_of(each));
    }
    return std::move(result_);
  }

 private:
  const Shape& shape(size_t i) const {
    return i < manifest_.size()
               ? manifest_.type(i).shape
               : manifest_.buffers()[i - manifest_.size()].type.shape;
  }

  void pair(size_t i) {
    const DType dtype = manifest_.type(i).dtype;
    const std::string_view name = manifest_.name(i);
    std::string_view stem;
    if (leaf_of(name, stem) == kScales) pair_packed_scales(i, stem);
    if (!holds_quantised(dtype)) return;
    for (const std::string& wanted : names_of_scales(name)) {
      const auto found = known_.find(wanted);
      if (found == known_.end()) continue;
      const Shape& mine = shape(i);
      const Shape& scales = shape(found->second);
      // The order of groups has one entry per row of the weight.
      const bool order = leaf_of(name, stem) == kOrder;
      const size_t rank = order ? 1 : mine.size();
      if (mine.size() != rank || mine.empty() ||
          (order ? scales.size() < 1 : scales.size() != rank)) {
        continue;
      }
      const bool packed = leaf_of(name, stem) == kPacked;
      for (size_t dim = 0; dim < rank; ++dim) {
        // Columns of `qweight` have a scale each, however packed.
        if (packed && dim + 1 == rank) continue;
        if (scales[dim] < 1 || scales[dim] > mine[dim]) continue;
        pairs_.push_back({i, found->second, dim});
      }
      return;
    }
  }

  // Columns of `scales` that share an element of `qweight` (AWQ) or of `qzeros`
  // (GPTQ).
  void pair_packed_scales(size_t i, std::string_view stem) {
    const Shape& mine = shape(i);
    if (mine.empty()) return;
    for (const std::string_view leaf : {kZeros, kPacked}) {
      const auto found = known_.find(std::string(stem) + std::string(leaf));
      if (found == known_.end()) continue;
      const Shape& packed = shape(found->second);
      if (packed.size() != mine.size() || packed.back() < 1) continue;
      if (mine.back() % packed.back() != 0) continue;
      const int64_t together = mine.back() / packed.back();
      if (together > 1) add(i, found->second, mine.size() - 1, together);
      return;
    }
  }

  Kind kind_of(const Pair& pair) const {
    std::string_view stem;
    const std::string_view leaf =
        leaf_of(manifest_.any_name(pair.scales), stem);
    return {leaf, manifest_.type(pair.weight).dtype,
            shape(pair.weight).size() - pair.dim};
  }

  Sizes own_sizes(const Pair& pair) const {
    return sizes_of(shape(pair.weight)[pair.dim], shape(pair.scales)[pair.dim]);
  }

  // What agrees with all weights of the kind, or with this one alone. One scale
  // for a whole dimension says nothing of blocks, where no other does.
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
    // Where layers differ, what is whole in all of them.
    blocks.blocks[dim] = std::max(blocks.blocks[dim], block);
  }

  const Manifest& manifest_;
  std::unordered_map<std::string_view, size_t> known_;
  std::vector<Pair> pairs_;
  std::map<Kind, Sizes> of_kind_;
  QuantBlocksByName result_;
};

}  // namespace

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

QuantBlocksByName quant_blocks(const Manifest& manifest,
                               const Folding& folding) {
  const bool quantised =
      std::any_of(folding.classes.begin(), folding.classes.end(),
                  [&](const ParameterClass& c) {
                    return holds_quantised(manifest.type(c.first).dtype);
                  });
  return quantised ? Reader(manifest).read() : QuantBlocksByName();
}

const QuantBlocks* find_blocks(const QuantBlocksByName& known,
                               std::string_view name, const Shape& shape) {
  if (known.empty()) return nullptr;
  const auto found = known.find({folded_name(name), shape});
  return found == known.end() ? nullptr : &found->second;
}

}  // namespace shardplan
