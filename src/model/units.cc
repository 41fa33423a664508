// SPDX-License-Identifier: Apache-2.0

#include "model/units.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "model/adapter_units.h"
#include "model/facts.h"
#include "model/quant_scales.h"

namespace shardplan {
namespace {

// Axes whose devices each store some of the layers: MaxText's `stage`, and its
// names elsewhere.
constexpr std::array<std::string_view, 5> kPipelineAxes = {
    "stage", "stages", "pp", "pipe", "pipeline"};

// Axes whose devices process other experts or tokens.
constexpr std::array<std::string_view, 3> kTokenAxes = {"ep", "sp", "cp"};

bool is_one_of(std::span<const std::string_view> names, const AxisName& axis) {
  return contains(names, axis);
}

// Returns whether there are exactly enough shards for whole copies of each KV
// head.
bool replicates(const Unit& unit, int64_t heads, int64_t shards,
                const Declarations& declared) {
  return declared.replicate_kv_heads && shards > heads && shards % heads == 0 &&
         (unit.queries == 0 || unit.queries % shards == 0);
}

bool is_interleaved(const Unit& unit, const Declarations& declared) {
  return unit.kind == UnitKind::FusedQkv ? declared.interleave_qkv
                                         : declared.interleave_gate_up;
}

bool cuts_parts(const Unit& unit, int64_t shards,
                const Declarations& declared) {
  if (!is_interleaved(unit, declared)) return true;
  return std::ranges::any_of(unit.parts, [&](const Part& part) {
    return part.count % shards != 0 &&
           !(part.kv && replicates(unit, part.count, shards, declared));
  });
}

std::string replication_text(int64_t shards, int64_t heads) {
  return "replicate-kv-heads: one of " + plural(heads, "KV head") +
         " on each of " + std::to_string(shards) + " shards";
}

std::string interleaving_text(UnitKind kind, int64_t shards) {
  return (kind == UnitKind::FusedQkv
              ? "interleave-qkv: its part of q, k and v on each of "
              : "interleave-gate-up: its part of gate and up on each of ") +
         std::to_string(shards) + " shards";
}

StoredSize stored_parts(const Unit& unit, int64_t size, int64_t shards,
                        const Declarations& declared) {
  StoredSize stored{0, interleaving_text(unit.kind, shards)};
  int64_t replicated = 0;
  for (const Part& part : unit.parts) {
    const bool copies =
        part.kv && replicates(unit, part.count, shards, declared);
    const auto rows =
        checked_mul(part.rows / part.count, copies ? shards : part.count);
    const auto sum = rows ? checked_add(stored.size, *rows) : std::nullopt;
    if (!sum) return {size, ""};
    stored.size = *sum;
    if (copies) replicated = part.count;
  }
  if (replicated > 0) stored.why += "; " + replication_text(shards, replicated);
  return stored;
}

}  // namespace

std::string_view unit_name(UnitKind kind) {
  static constexpr std::array<std::string_view, 10> kNames = {
      "head",
      "KV head",
      "head group",
      "fused q, k, v",
      "packed gate and up",
      "gate/up pair",
      "expert",
      "expert group",
      "quantisation block",
      "stacked layer"};
  return kNames.at(static_cast<size_t>(kind));
}

std::vector<Unit> units_of(std::string_view name, const TensorType& type,
                           const Facts& facts, const LayoutHints& hints) {
  if (auto units = adapter_units(name, type, facts, hints)) return *units;
  const NamedTensor tensor{name, split_name(name), type};
  std::vector<Unit> units;
  const ParameterKind* const kind = find_kind(name, type, hints);
  if (kind != nullptr) {
    units = units_of_kind(*kind, type, facts);
  } else {
    units = in_attention(tensor.tail) ? attention_units(tensor, facts)
                                      : expert_units(tensor, facts);
    if (const auto packed = gate_up_unit(tensor, hints)) {
      units.push_back(*packed);
    }
  }
  // The block declared for this tensor takes precedence over the config's
  // general block size, since a checkpoint may store some layers with other
  // blocks, or none.
  const bool is_said =
      kind != nullptr && std::ranges::any_of(*kind, [](const DimKind& dim) {
        return dim.block != 1;
      });
  const std::vector<Unit> blocks = is_said ? blocks_of_kind(*kind, tensor)
                                           : block_units(tensor, facts, hints);
  units.insert(units.end(), blocks.begin(), blocks.end());
  if (const auto layer = layer_unit(tensor, facts, hints)) {
    units.push_back(*layer);
  }
  return units;
}

bool is_pipeline_axis(std::string_view axis) {
  return contains(kPipelineAxes, axis);
}

AxisNames cutting_axes(const Unit& unit, AxisNames axes) {
  if (unit.atomic) return axes;
  erase_if(axes, [&](const AxisName& axis) {
    if (unit.kind == UnitKind::Layer) return is_pipeline_axis(axis);
    return is_gathered_axis(axis) ||
           (unit.kind == UnitKind::QuantBlock && is_one_of(kTokenAxes, axis));
  });
  return axes;
}

bool is_cut(const Unit& unit, int64_t shards, const Declarations& declared) {
  if (shards == 1) return false;
  if (unit.kind == UnitKind::Layer) return true;
  if (!unit.parts.empty()) return cuts_parts(unit, shards, declared);
  if (unit.count % shards == 0) return false;
  const bool may_replicate = !unit.inside && (unit.kind == UnitKind::KvHead ||
                                              unit.kind == UnitKind::HeadGroup);
  return !may_replicate || !replicates(unit, unit.count, shards, declared);
}

StoredSize stored_size(const Unit& unit, int64_t size, int64_t shards,
                       const Declarations& declared) {
  StoredSize none{size, ""};
  if (shards == 1 || unit.inside || is_cut(unit, shards, declared)) return none;
  if (!unit.parts.empty()) return stored_parts(unit, size, shards, declared);
  if (unit.count % shards == 0) return none;
  // The shards do not divide the units and yet split none: units are
  // replicated.
  std::optional<int64_t> stored;
  if (unit.kind == UnitKind::KvHead) {
    stored = checked_mul(size, shards / unit.count);
  } else {
    const int64_t head = size / (unit.queries + 2 * unit.count);
    stored = checked_mul(unit.queries + 2 * shards, head);
  }
  if (!stored) return none;
  return {*stored, replication_text(shards, unit.count)};
}

UnitFacts unit_facts(const Manifest& manifest, const Folding& folding) {
  UnitFacts known{manifest.facts, layout_hints(manifest, folding), {}};
  if (known.are_trusted()) return known;
  InferredFacts inferred = infer_facts(manifest, folding);
  known.facts = std::move(inferred.facts);
  known.why = std::move(inferred.why);
  return known;
}

UnitFacts unit_facts(const Manifest& manifest) {
  return unit_facts(manifest, fold_by_type(manifest));
}

// The name determines which projection a tensor is; the shape must then agree
// with the facts. The position of the heads depends on the layout:
//
//                     q, k, v               output projection
//   weight            [rows, in]            [out, rows]
//   kernel            [in, rows]            [rows, out]
//   kernel, split     [in, heads, dim]      [heads, dim, out]
//   bias              [rows], [heads, dim]  (not sharded)
//
// where rows = heads x dim. Kernels of scanned layers have one more dimension,
// the layers, in first or second place.
//
// llama.cpp permutes the rows of q and k, but only within a head.
//
// Fused projections have the rows of q, k and v, (heads + 2 kv_heads) x dim:
//
//   side by side   all of q, all of k, all of v (GPT-2, Phi-3, DBRX, ChatGLM,
//                  GGUF)
//   in groups      per KV head: its query heads, its key, its value (Falcon,
//                  InternLM2, Megatron; NeoX and BLOOM, whose groups have one
//                  query head)

namespace {

// The heads of one kind in a projection.
struct Heads {
  UnitKind kind = UnitKind::Head;
  int64_t count = 0;
  int64_t dim = 0;      // size of a head; 0: unknown
  int64_t queries = 0;  // query heads if these are KV heads; 0: unknown

  // Returns whether `rows` are all heads side by side.
  bool fill(int64_t rows) const {
    if (rows < 1 || rows % count != 0) return false;
    return dim == 0 || rows / count == dim;
  }
  Unit at(size_t index) const {
    return {static_cast<int>(index), kind, count, false, {}, queries};
  }
  // Returns the unit of a dimension within a head: any shard splits it.
  Unit within(size_t index) const {
    return {static_cast<int>(index), kind, 1, true};
  }
};

// Returns the units of q, k, v and their biases: heads are the last dimensions
// of a kernel or bias, possibly after a dimension of layers.
std::vector<Unit> input_units(const Shape& shape, TensorKind layout,
                              const Heads& heads) {
  const size_t rank = shape.size();
  if (layout == TensorKind::Weight) {
    if (rank != 2 || !heads.fill(shape[0])) return {};
    return {heads.at(0)};
  }
  const size_t flat_rank = layout == TensorKind::Bias ? 1 : 2;
  if (rank < flat_rank) return {};
  if (rank == flat_rank) {
    if (!heads.fill(shape[rank - 1])) return {};
    return {heads.at(rank - 1)};
  }
  if (heads.dim == 0 || rank > flat_rank + 2) return {};
  if (shape[rank - 2] == heads.count && shape[rank - 1] == heads.dim) {
    return {heads.at(rank - 2), heads.within(rank - 1)};
  }
  if (rank == flat_rank + 1 && heads.fill(shape[rank - 1])) {
    return {heads.at(rank - 1)};
  }
  return {};
}

// Returns the units of the output projection's kernel: heads are the first
// dimensions, or follow that of layers.
std::vector<Unit> output_kernel_units(const Shape& shape, const Heads& heads) {
  const size_t rank = shape.size();
  if (rank == 2 && heads.fill(shape[0])) return {heads.at(0)};
  if (heads.dim == 0) return {};
  if (rank == 3) {
    if (shape[0] == heads.count && shape[1] == heads.dim) {
      return {heads.at(0), heads.within(1)};
    }
    const bool first = heads.fill(shape[0]);
    if (first == heads.fill(shape[1])) return {};  // neither, or ambiguous
    return {heads.at(first ? 0 : 1)};
  }
  if (rank == 4 && shape[2] == heads.dim) {
    const bool first = shape[0] == heads.count;
    if (first == (shape[1] == heads.count)) return {};
    return {heads.at(first ? 0 : 1), heads.within(2)};
  }
  return {};
}

std::vector<Unit> output_units(const Shape& shape, TensorKind layout, bool conv,
                               const Heads& heads) {
  if (layout == TensorKind::Bias) return {};  // hidden-sized: it has no heads
  if (!conv && layout == TensorKind::Kernel) {
    return output_kernel_units(shape, heads);
  }
  const size_t dim = conv == (layout == TensorKind::Weight) ? 0 : 1;
  if (shape.size() != 2 || !heads.fill(shape[dim])) return {};
  return {heads.at(dim)};
}

std::vector<Unit> projection_units(Role role, TensorKind layout,
                                   const Shape& shape, const Facts& facts) {
  const bool kv = role == Role::Key || role == Role::Value;
  Heads heads{kv ? UnitKind::KvHead : UnitKind::Head,
              (kv ? facts.kv_heads : facts.heads).value_or(0)};
  if (heads.count < 1 || facts.head_dim.value_or(1) < 1 ||
      facts.value_dim.value_or(1) < 1) {
    return {};
  }
  if (role == Role::Query || role == Role::Key) {
    heads.dim = facts.head_dim.value_or(0);
  } else if (role != Role::LatentUp) {
    heads.dim = facts.value_dim ? *facts.value_dim : facts.head_dim.value_or(0);
  }
  if (kv) heads.queries = facts.heads.value_or(0);
  if (role == Role::Output || role == Role::ConvOutput) {
    // GPTBigCode's `c_proj` is an ordinary linear layer; it has one KV head.
    const bool conv = role == Role::ConvOutput;
    if (conv && facts.kv_heads.value_or(heads.count) != heads.count) return {};
    return output_units(shape, layout, conv, heads);
  }
  return input_units(shape, layout, heads);
}

enum class Fusion : uint8_t { SideBySide, Grouped };

std::optional<Fusion> fusion_of(const NamedTensor& tensor) {
  static constexpr std::array<std::pair<std::string_view, Fusion>, 9> kNames = {
      {{"c_attn", Fusion::SideBySide},
       {"qkv_proj", Fusion::SideBySide},
       {"Wqkv", Fusion::SideBySide},
       {"W_pack", Fusion::SideBySide},
       {"wqkv", Fusion::SideBySide},
       {"query_key_value", Fusion::Grouped},
       {"linear_qkv", Fusion::Grouped},
       {"attn_qkv", Fusion::SideBySide},  // llama.cpp reorders all others
       {"qkv", Fusion::SideBySide}}};
  const std::string_view module = tensor.tail.module;
  const auto has = [&](std::string_view part) {
    return contains(tensor.name, part);
  };
  // ChatGLM2 and later use Falcon's name for another layout; InternLM2 uses
  // that of the original Llama code.
  if (module == "query_key_value" && has("transformer.encoder.layers")) {
    return Fusion::SideBySide;
  }
  if (module == "wqkv" && has("model.layers")) return Fusion::Grouped;
  for (const auto& [name, fusion] : kNames) {
    if (name == module) return fusion;
  }
  return std::nullopt;
}

// Returns the dimension of a fused projection that contains the rows.
std::optional<size_t> fused_dim(const NamedTensor& tensor, TensorKind layout,
                                int64_t rows) {
  const Shape& shape = tensor.type.shape;
  const size_t rank = shape.size();
  if (tensor.tail.module == "c_attn" && layout != TensorKind::Bias) {
    // [in, out] in GPT-2, [out, in] in Qwen, GPTBigCode and Flax.
    if (rank != 2 || (shape[0] == rows) == (shape[1] == rows)) {
      return std::nullopt;
    }
    return shape[0] == rows ? 0 : 1;
  }
  const size_t flat_rank = layout == TensorKind::Bias ? 1 : 2;
  if (rank < flat_rank || rank > flat_rank + 1) return std::nullopt;
  const size_t dim = layout == TensorKind::Weight ? rank - 2 : rank - 1;
  if (shape[dim] != rows) return std::nullopt;
  return dim;
}

std::vector<Unit> fused_units(const NamedTensor& tensor, Fusion fusion,
                              TensorKind layout, const Facts& facts) {
  const int64_t heads = facts.heads.value_or(0);
  const int64_t kv_heads = facts.kv_heads.value_or(heads);
  const int64_t dim = facts.head_dim.value_or(0);
  // Far above any model, and no product of these overflows.
  constexpr int64_t kMost = int64_t{1} << 20;
  if (heads < 1 || kv_heads < 1 || dim < 1 || heads > kMost || dim > kMost ||
      kv_heads > heads || heads % kv_heads != 0 ||
      facts.value_dim.value_or(dim) != dim) {
    return {};
  }
  const auto at = fused_dim(tensor, layout, (heads + 2 * kv_heads) * dim);
  if (!at) return {};
  Unit unit;
  unit.dim = static_cast<int>(*at);
  unit.queries = heads;
  // With a single KV head, the only group is q, k and v side by side.
  if (fusion == Fusion::Grouped && kv_heads > 1) {
    unit.kind = UnitKind::HeadGroup;
    unit.count = kv_heads;
  } else {
    unit.kind = UnitKind::FusedQkv;
    unit.parts = {{"q", heads * dim, heads, false},
                  {"k", kv_heads * dim, kv_heads, true},
                  {"v", kv_heads * dim, kv_heads, true}};
  }
  return {unit};
}

}  // namespace

std::vector<Unit> attention_units(const NamedTensor& tensor,
                                  const Facts& facts) {
  if (in_other_tower(tensor.name)) return {};
  const Shape& shape = tensor.type.shape;
  if (tensor.tail.module == "sinks" && facts.heads && *facts.heads > 0 &&
      shape == Shape{*facts.heads}) {
    return {{0, UnitKind::Head, *facts.heads}};
  }
  const std::optional<TensorKind> layout = tensor_kind(tensor.tail);
  if (!layout) return {};
  if (const std::optional<Role> role = role_of(tensor.tail)) {
    return projection_units(*role, *layout, shape, facts);
  }
  const std::optional<Fusion> fusion = fusion_of(tensor);
  if (!fusion) return {};
  return fused_units(tensor, *fusion, *layout, facts);
}

// Quantisation blocks: elements that share a scale.
//
// The facts give the rows and columns of a block, in the last two dimensions of
// every quantised matrix (FP8: 128 x 128; formats that quantise along a row: 1
// x 32 or 1 x 256). A shard must begin where a block begins. MXFP4 checkpoints
// store a block as 16 bytes in a separate dimension, the last of `_blocks`.
// Without such facts, or if a weight has another number of scales than they
// imply, the shapes of its scales determine its blocks (quant_scales.h).
//
// The types of GGUF are blocks: 32 or 256 elements of a row are packed with
// their scales, so no part of a block can be stored at all.

namespace {

std::optional<Unit> block_unit(size_t dim, int64_t size,
                               std::optional<int64_t> block) {
  if (!block || *block < 2 || size < 1) return std::nullopt;
  // If the last block is smaller, equal shards cannot all begin at blocks.
  const int64_t count = size % *block == 0 ? size / *block : 1;
  return Unit{static_cast<int>(dim), UnitKind::QuantBlock, count};
}

// Returns whether the tensor is itself a scale: scales are not quantised,
// though they may have a quantised type.
bool is_scale(std::string_view leaf) {
  return leaf.ends_with("scale") || leaf.ends_with("scales") ||
         leaf.ends_with("scale_inv") || leaf.ends_with("zero_point");
}

// Returns whether a weight has as many scales as blocks of the given size: a
// checkpoint may store some weights with a method of other blocks.
bool has_blocks(const QuantBlocks& tensor_blocks, const Shape& shape,
                const Facts& facts) {
  const size_t rank = shape.size();
  return tensor_blocks.scales_shape.size() == rank &&
         tensor_blocks.scales_shape[rank - 2] ==
             ceil_div(shape[rank - 2], facts.quant_rows.value_or(1)) &&
         tensor_blocks.scales_shape[rank - 1] ==
             ceil_div(shape[rank - 1], facts.quant_columns.value_or(1));
}

// Returns whether the last dimension is the bytes of MXFP4 blocks, of which no
// part can be stored.
bool has_bytes_of_blocks(const NamedTensor& tensor) {
  return tensor.tail.module.ends_with("_blocks") &&
         tensor.type.shape.size() == 4 && tensor.type.dtype == DType::U8;
}

}  // namespace

std::vector<Unit> blocks_of_kind(const ParameterKind& kind,
                                 const NamedTensor& tensor) {
  std::vector<Unit> units;
  const DType dtype = tensor.type.dtype;
  const bool plain = dtype == DType::F32 || dtype == DType::BF16 ||
                     dtype == DType::F16 || dtype == DType::F64;
  // The layer of this weight is not quantised, though others are.
  if (plain && tensor.tail.leaf == "weight") return units;
  for (size_t dim = 0; dim < kind.size(); ++dim) {
    auto unit = block_unit(dim, tensor.type.shape[dim], kind[dim].block);
    if (!unit) continue;
    unit->atomic = dim == 3 && has_bytes_of_blocks(tensor);
    units.push_back(*std::move(unit));
  }
  return units;
}

std::vector<Unit> block_units(const NamedTensor& tensor, const Facts& facts,
                              const LayoutHints& hints) {
  const Shape& shape = tensor.type.shape;
  const size_t rank = shape.size();
  std::vector<Unit> units;
  const int64_t packed = dtype_block(tensor.type.dtype).elements;
  if (packed > 1) {
    if (rank == 0) return units;
    if (auto unit = block_unit(rank - 1, shape[rank - 1], packed)) {
      unit->atomic = true;
      units.push_back(*std::move(unit));
    }
    return units;
  }
  if (has_bytes_of_blocks(tensor)) {
    units.push_back({3, UnitKind::QuantBlock, 1, true});
    return units;
  }
  const QuantBlocks* const tensor_blocks =
      find_blocks(hints.blocks, tensor.name, shape);
  const bool given = facts.quant_rows || facts.quant_columns;
  if (rank < 2 || !is_quantised(tensor.type.dtype) || !given ||
      is_scale(tensor.tail.leaf) ||
      (tensor_blocks != nullptr && !has_blocks(*tensor_blocks, shape, facts))) {
    for (size_t dim = 0; tensor_blocks != nullptr && dim < rank; ++dim) {
      const auto unit = block_unit(dim, shape[dim], tensor_blocks->blocks[dim]);
      if (unit) units.push_back(*unit);
    }
    return units;
  }
  for (const auto& unit :
       {block_unit(rank - 2, shape[rank - 2], facts.quant_rows),
        block_unit(rank - 1, shape[rank - 1], facts.quant_columns)}) {
    if (unit) units.push_back(*unit);
  }
  return units;
}

// Stacked experts: [E, ..] with layers in first or second place or, in DBRX,
// the rows of all experts in one matrix [E x inner, hidden].

namespace {

// Returns the dimension of stacked experts that is the experts.
std::optional<int> expert_dim(const NamedTensor& tensor, int64_t experts) {
  const Shape& shape = tensor.type.shape;
  const TensorName& tail = tensor.tail;
  // DBRX: `ffn.experts.mlp.w1`, `v1` and `w2`.
  if (shape.size() == 2 && tail.parent == "mlp" &&
      (tail.module == "w1" || tail.module == "v1" || tail.module == "w2")) {
    const bool whole = shape[0] >= experts && shape[0] % experts == 0;
    return whole ? std::optional<int>(0) : std::nullopt;
  }
  const size_t least = tail.leaf.ends_with("bias") ? 2 : 3;
  if (shape.size() < least) return std::nullopt;
  const bool first = shape[0] == experts;
  const bool second = shape[1] == experts && shape.size() > least;
  if (first == second) return std::nullopt;
  return first ? 0 : 1;
}

}  // namespace

std::vector<Unit> expert_units(const NamedTensor& tensor, const Facts& facts) {
  const int64_t experts = facts.experts.value_or(0);
  if (experts < 1 || !expert_name(tensor.name).stacked) return {};
  const auto dim = expert_dim(tensor, experts);
  if (!dim) return {};
  std::vector<Unit> units = {{*dim, UnitKind::Expert, experts}};
  const int64_t groups = facts.expert_groups.value_or(1);
  if (groups > 1 && experts % groups == 0) {
    units.push_back({*dim, UnitKind::ExpertGroup, groups});
  }
  return units;
}

// Scanned layers: one tensor stores all layers, along its first dimension or
// its second (MaxText). A loop processes one layer at a time, so layers must
// not be sharded over devices, except over the stages of a pipeline. Rules that
// were written for separate layers apply to the wrong dimension here.

std::optional<Unit> layer_unit(const NamedTensor& tensor, const Facts& facts,
                               const LayoutHints& hints) {
  const std::string_view stack = stack_of(tensor.name);
  const auto evidence = hints.stacks.find(stack);
  if (stack.empty() || evidence == hints.stacks.end()) return std::nullopt;
  const auto stacked = stacked_layers(evidence->second, facts.layers);
  if (!stacked || stacked->dim >= tensor.type.shape.size()) return std::nullopt;
  return Unit{static_cast<int>(stacked->dim), UnitKind::Layer, stacked->layers};
}

// Packed gate and up of a gated feed-forward layer: one tensor, because one
// product is faster than two.
//
//   [gate; up]         two halves (Phi-3, ChatGLM, Llama 4, Megatron, vLLM);
//                      the first of two shards would be all gates
//   gate, up, gate, .. alternating (gpt-oss): any even number of rows is pairs
//
// A tensor is known to be packed by its name, or by its sibling that reads half
// as many inputs as it has outputs. The position of its rows depends on the
// layout; for stacked experts [E, a, b] only the sibling determines it.

namespace {

bool is_named_packed(std::string_view module) {
  static constexpr std::array<std::string_view, 7> kNames = {
      "gate_up_proj",
      "gate_up_proj_bias",
      "gate_up_proj_blocks",
      "gate_up_proj_scales",
      "w13",
      "w13_weight",
      "w13_bias"};
  return contains(kNames, module);
}

// Only gpt-oss has biases and MXFP4 blocks of that name.
bool alternates(std::string_view module, const LayoutHints& hints) {
  return hints.alternating_experts ||
         (module.starts_with("gate_up_proj_") && is_named_packed(module));
}

// Returns the packed dimension of [E, a, b], from the sibling [E, b or a / 2, a
// or b].
std::optional<size_t> packed_expert_dim(const Shape& shape,
                                        const LayoutHints& hints) {
  const auto is_down = [&](int64_t a, int64_t b) {
    return hints.expert_downs.contains({a, b});
  };
  // [E, in, 2 x inner] with [E, inner, in], or the transpose of both.
  const bool last = shape[2] % 2 == 0 && is_down(shape[2] / 2, shape[1]);
  const bool second = shape[1] % 2 == 0 && is_down(shape[2], shape[1] / 2);
  if (last == second) return std::nullopt;
  return last ? 2 : 1;
}

std::optional<size_t> stacked_experts_dim(const NamedTensor& tensor,
                                          const LayoutHints& hints) {
  const Shape& shape = tensor.type.shape;
  const std::string_view module = tensor.tail.module;
  if (module.ends_with("_bias") || tensor.tail.leaf == "bias") {
    if (shape.size() != 2) return std::nullopt;
    return 1;
  }
  // MXFP4: rows [E, out, blocks, bytes], scales [E, out, blocks].
  if (module.ends_with("_blocks") || module.ends_with("_scales")) {
    if (shape.size() < 3) return std::nullopt;
    return 1;
  }
  if (shape.size() != 3) return std::nullopt;
  // The sizes of gpt-oss 20B are square: its layout is known by its biases.
  if (hints.alternating_experts) return 2;
  return packed_expert_dim(shape, hints);
}

std::optional<size_t> dense_dim(const NamedTensor& tensor,
                                const LayoutHints& hints) {
  const Shape& shape = tensor.type.shape;
  const std::optional<TensorKind> layout = tensor_kind(tensor.tail);
  const size_t rank = layout == TensorKind::Bias ? 1 : 2;
  if (!layout || shape.size() < rank || shape.size() > rank + 1) {
    return std::nullopt;
  }
  const size_t dim =
      *layout == TensorKind::Weight ? shape.size() - 2 : shape.size() - 1;
  if (is_named_packed(tensor.tail.module)) return dim;
  const auto known = hints.down_inputs.find(down_module(tensor.tail.module));
  if (known == hints.down_inputs.end() || shape[dim] % 2 != 0 ||
      !known->second.contains(shape[dim] / 2) ||
      known->second.contains(shape[dim])) {
    return std::nullopt;
  }
  return dim;
}

}  // namespace

std::optional<Unit> gate_up_unit(const NamedTensor& tensor,
                                 const LayoutHints& hints) {
  const std::string_view module = tensor.tail.module;
  if (!is_named_packed(module) && down_module(module).empty()) {
    return std::nullopt;
  }
  const bool stacked = expert_name(tensor.name).stacked;
  const auto dim =
      stacked ? stacked_experts_dim(tensor, hints) : dense_dim(tensor, hints);
  if (!dim) return std::nullopt;
  const int64_t rows = tensor.type.shape[*dim];
  if (rows < 2 || rows % 2 != 0) return std::nullopt;
  Unit unit;
  unit.dim = static_cast<int>(*dim);
  if (stacked && alternates(module, hints)) {
    unit.kind = UnitKind::GateUpPair;
    unit.count = rows / 2;
  } else {
    unit.kind = UnitKind::PackedGateUp;
    unit.parts = {{"gate", rows / 2, rows / 2, false},
                  {"up", rows / 2, rows / 2, false}};
  }
  return unit;
}

}  // namespace shardplan
