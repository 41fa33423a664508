// SPDX-License-Identifier: Apache-2.0
#include "serve/weights.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/checked.h"
#include "base/words.h"
#include "core/plan.h"
#include "memory/divisions.h"
#include "model/tensor_name.h"

namespace shardplan {
namespace {

// Elements in a group of 4-bit elements with one scale (MXFP4).
constexpr int64_t kGroup = 32;

struct LabelRole {
  std::string_view ending;
  DimRole role;
};
// Matches the end of a label; the first match applies: `sliding_kv_heads` are
// KV heads.
constexpr std::array<LabelRole, 11> kLabels = {{
    {"index_heads", DimRole::Whole},  // every rank chooses tokens on its own
    {"kv_heads", DimRole::KvHeads},
    {"heads", DimRole::Heads},
    {"out_groups", DimRole::Heads},
    {"inner", DimRole::Heads},  // channels of a state space
    {"vocab", DimRole::Vocabulary},
    {"expert_mlp", DimRole::Width},
    {"shared_mlp", DimRole::Dense},
    {"shared_experts", DimRole::Dense},
    {"mlp", DimRole::Dense},
    {"experts", DimRole::Experts},
}};

constexpr std::string_view kLatentRank = "kv_rank";
constexpr std::string_view kExperts = "experts";

struct PartNames {
  std::string_view name;
  std::string_view title;
};
constexpr std::array<PartNames, kWeightParts> kPartNames = {{
    {"vocabulary", "embedding and head"},
    {"attention", "attention"},
    {"dense", "MLP"},
    {"experts", "experts"},
    {"whole", "replicated on every rank"},
    {"scales", "scales and buffers"},
    {"absorbed", "absorbed projections"},
    {"kernels", "kernel repacking"},
    {"slots", "adapter slots"},
}};

bool is_floating(DType dtype) {
  return dtype == DType::F64 || dtype == DType::F32 || dtype == DType::F16 ||
         dtype == DType::BF16;
}

// The part of a parameter whose first sharded dimension has a role, in the
// order of DimRole.
constexpr std::array<WeightPart, 8> kPartOfRole = {
    WeightPart::Whole,     WeightPart::Vocabulary, WeightPart::Attention,
    WeightPart::Attention, WeightPart::Attention,  WeightPart::Dense,
    WeightPart::Experts,   WeightPart::Experts};

// The bytes of one tensor of a class on a rank.
struct RankBytes {
  int64_t bytes = 0;
  int64_t vocab_padding = 0;
  int64_t kv_copies = 0;
  int64_t absorbed = 0;
  const KernelRow* kernel = nullptr;
  int64_t kernels = 0;  // bytes that it adds
  int64_t slots = 0;
  WeightPart part = WeightPart::Whole;
};

struct Local {
  Shape shape;
  DimRole role = DimRole::Whole;  // of the first sharded dimension
  int64_t copied_dim = -1;        // has KV heads that other ranks also hold
  int64_t unshared = 0;           // elements of it if sharded evenly
  int64_t padded_dim = -1;        // has a vocabulary
  int64_t unpadded = 0;           // elements of it without padding
  bool of_latent = false;         // reads a latent
  int64_t cut_dim = -1;           // the first sharded dimension
};

Local local_shape(const ServedWeights& model, const ParameterClass& c,
                  const ParameterKind& kind, const WeightsInput& in,
                  bool whole) {
  const std::string& name = model.folding->folded_names[c.folded];
  const bool expert = is_expert_name(name);
  Local local;
  local.shape = model.manifest->type(c.first).shape;
  if (whole) return local;
  const auto dims =
      served_parameter(kind, local.shape, expert, model.grouped_experts);
  for (size_t i = 0; i < kind.size(); ++i) {
    if (kind[i].axis == kLatentRank) local.of_latent = true;
    const auto at = static_cast<int64_t>(i);
    int64_t size = 0;
    int64_t shared = 0;
    int64_t plain = 0;
    for (const ServedDim& part : dims[i]) {
      const int64_t degree = degree_of(part.role, in.layout);
      if (in.whole_tower_heads && are_uneven_tower_heads(name, part, degree)) {
        size += part.size;
        shared += part.size;
        continue;
      }
      size += held_elements(part, degree, in.vocab_multiple);
      shared += part.role == DimRole::KvHeads
                    ? ceil_div(part.size, degree)
                    : held_elements(part, degree, in.vocab_multiple);
      plain +=
          part.role == DimRole::Vocabulary ? ceil_div(part.size, degree) : 0;
      if (part.role != DimRole::Whole && local.role == DimRole::Whole) {
        local.role = part.role;
        local.cut_dim = at;
      }
      if (part.role == DimRole::Vocabulary) local.padded_dim = at;
    }
    if (size != shared) {
      local.copied_dim = at;
      local.unshared = shared;
    }
    if (local.padded_dim == at) local.unpadded = plain;
    local.shape[i] = size;
  }
  return local;
}

std::optional<int64_t> bytes_of(Shape shape, int64_t dim, int64_t size,
                                DType dtype) {
  if (dim >= 0) nth(shape, dim) = size;
  const auto elements = element_count(shape);
  return elements ? byte_count(*elements, dtype) : std::nullopt;
}

// Finds the kernel for the tensor, and the bytes that its form adds.
bool add_kernel(const ServedWeights& model, const TensorType& type,
                const StoredMatrix& matrix, const Local& local,
                const WeightsInput& in, RankBytes& held) {
  // Kernels for unquantised weights are those for 16 bits.
  constexpr int64_t kNarrow = 2;
  if (matrix.packing == Packing::Plain &&
      byte_count(1, in.dtype.value_or(type.dtype)) != kNarrow) {
    return true;
  }
  const MatrixSize size = matrix_size(matrix, local.shape);
  const KernelQuestion question = {in.engine->name, in.card,
                                   model.manifest->model_type,
                                   degree_of(DimRole::Experts, in.layout) > 1};
  held.kernel = kernel_for(question, matrix, size);
  if (held.kernel == nullptr || is_refused(*held.kernel)) return true;
  const auto added = added_bytes(*held.kernel, matrix, size);
  held.kernels = added.value_or(0);
  return added.has_value();
}

// Adapters are stored in 16 bits beside weights of at most 16 bits.
int64_t slot_element(const WeightsInput& in, DType dtype) {
  constexpr int64_t kNarrow = 2;
  const DType kept = in.dtype.value_or(dtype);
  return kept == DType::F32 || kept == DType::F64 ? 2 * kNarrow : kNarrow;
}

Int128 vocabulary_bytes(const ServedWeights& model, const ParameterClass& c,
                        bool is_embedding, const WeightsInput& in) {
  const VocabularySlots which =
      vocabulary_slots(in.slots, *in.engine, model.manifest->model_type);
  const TensorType& type = model.manifest->type(c.first);
  if (type.shape.size() != 2) return 0;
  const Int128 both = Int128{type.shape[0]} + type.shape[1];
  const Int128 one =
      both * in.slots.count * in.slots.rank * slot_element(in, type.dtype);
  const bool head = which.head && (!is_embedding || !model.has_head);
  const bool embedding = which.embedding && is_embedding;
  Int128 bytes = (embedding ? one : 0) + (head ? one : 0);
  const int64_t tp = degree_of(DimRole::Vocabulary, in.layout);
  if (head && tp > 1 && in.engine->shares_loras) {
    // A table that locates each token's logit among those of all ranks.
    constexpr int64_t kPosition = 8;
    bytes += Int128{kPosition} * type.shape[0];
  }
  if (head && !in.engine->shares_loras) {
    // SGLang shards the head's rows, and with both it has all four buffers
    // twice (init_embedding_buffer).
    bytes -= one - (Int128{ceil_div(type.shape[0], tp)} + type.shape[1]) *
                       in.slots.count * in.slots.rank *
                       slot_element(in, type.dtype);
  }
  if (!in.engine->shares_loras && which.embedding && which.head) bytes *= 2;
  return bytes;
}

bool add_slots(const ServedWeights& model, const ParameterClass& c,
               const StoredMatrix* matrix, const Local& local,
               bool is_embedding, const WeightsInput& in, RankBytes& held) {
  const std::string& name = model.folding->folded_names[c.folded];
  const DType dtype = model.manifest->type(c.first).dtype;
  Int128 bytes = 0;
  if (is_embedding || local.role == DimRole::Vocabulary) {
    if (!in_other_tower(name)) {
      bytes = vocabulary_bytes(model, c, is_embedding, in);
    }
  } else if (matrix != nullptr && !matrix->bias &&
             has_slots(in.slots, *in.engine, name,
                       local.role != DimRole::Whole)) {
    const bool alone = local.role == DimRole::Experts;
    bytes =
        slot_bytes(in.slots, matrix_size(*matrix, local.shape),
                   alone ? degree_of(DimRole::Width, in.layout)
                         : degree_of(local.role, in.layout),
                   matrix->width_in_rows ||
                       local.cut_dim == static_cast<int64_t>(matrix->rows_at),
                   slot_element(in, dtype));
  }
  if (bytes > INT64_MAX) return false;
  held.slots = static_cast<int64_t>(bytes);
  return true;
}

std::optional<RankBytes> rank_bytes_of(const ServedWeights& model,
                                       size_t number, const WeightsInput& in,
                                       bool whole, bool is_embedding) {
  const ParameterClass& c = model.folding->classes[number];
  const ParameterKind& kind = *model.kinds[number];
  const TensorType& type = model.manifest->type(c.first);
  const DType dtype =
      in.dtype && is_floating(type.dtype) ? *in.dtype : type.dtype;
  const Local local = local_shape(model, c, kind, in, whole);
  const auto bytes = bytes_of(local.shape, -1, 0, dtype);
  if (!bytes) return std::nullopt;
  RankBytes held;
  held.bytes = *bytes;
  held.part = is_single_expert(model.folding->folded_names[c.folded])
                  ? WeightPart::Experts
                  : nth(kPartOfRole, local.role);
  if (whole) held.part = WeightPart::Vocabulary;
  if (local.copied_dim >= 0) {
    const auto even =
        bytes_of(local.shape, local.copied_dim, local.unshared, dtype);
    held.kv_copies = *bytes - even.value_or(*bytes);
  }
  if (local.padded_dim >= 0) {
    const auto plain =
        bytes_of(local.shape, local.padded_dim, local.unpadded, dtype);
    held.vocab_padding = *bytes - plain.value_or(*bytes);
  }
  const StoredMatrix* const matrix =
      model.matrices[number] ? &*model.matrices[number] : nullptr;
  if (in.engine != nullptr &&
      ((matrix != nullptr &&
        !add_kernel(model, type, *matrix, local, in, held)) ||
       (in.slots.count > 0 &&
        !add_slots(model, c, matrix, local, is_embedding, in, held)))) {
    return std::nullopt;
  }
  // vLLM's absorbed matrices are views of a weight that is not quantised.
  const bool is_view = in.engine != nullptr && in.engine->views_latents &&
                       is_floating(type.dtype);
  if (local.of_latent && local.shape.size() == 2 && !is_view &&
      held.part == WeightPart::Attention) {
    const auto elements = element_count(local.shape);
    if (!elements) return std::nullopt;
    held.absorbed = byte_count(*elements, DType::BF16).value_or(0);
  }
  return held;
}

// Returns "model.layers.*.mlp.up_proj" for "model.layers.*.mlp.up_proj.qzeros".
std::string_view stem_of(std::string_view name) {
  return name.substr(0, std::min(name.find_last_of("./"), name.size()));
}

std::optional<StoredMatrix> matrix_of(const ParameterClass& c,
                                      const ServedWeights& model,
                                      const std::set<std::string_view>& zeros) {
  const std::string& name = model.folding->folded_names[c.folded];
  const TensorType& type = model.manifest->type(c.first);
  const ParameterKind& kind = *model.kinds.back();
  const bool expert = is_expert_name(name);
  auto matrix =
      stored_matrix(name, type, kind, expert, zeros.contains(stem_of(name)));
  if (!matrix || !expert) return matrix;
  const auto dims =
      served_parameter(kind, type.shape, expert, model.grouped_experts);
  const auto is_width = [&](size_t at) {
    return std::ranges::any_of(dims[at], [](const ServedDim& dim) {
      return dim.role == DimRole::Width;
    });
  };
  matrix->width_in_rows = is_width(matrix->rows_at);
  matrix->width_in_columns = !matrix->bias && is_width(matrix->columns_at);
  return matrix;
}

void add_use(std::vector<RankWeights::KernelUse>& uses,
             const std::optional<StoredMatrix>& matrix, const RankBytes& held,
             int64_t count) {
  if (held.kernel == nullptr || !matrix) return;
  auto found =
      std::ranges::find(uses, held.kernel, &RankWeights::KernelUse::row);
  if (found == uses.end()) {
    uses.push_back({held.kernel, matrix->packing, matrix->expert, 0});
    found = uses.end() - 1;
  }
  found->bytes += held.kernels * count;
}

}  // namespace

std::string_view weight_part_name(WeightPart part) {
  return nth(kPartNames, part).name;
}

std::string_view weight_part_title(WeightPart part) {
  return nth(kPartNames, part).title;
}

DimRole role_of_label(std::string_view label, bool expert) {
  const std::string_view own = label.substr(label.rfind('.') + 1);
  if (own == kStateGroups) return DimRole::StateGroups;
  for (const LabelRole& row : kLabels) {
    if (!own.ends_with(row.ending)) continue;
    return row.role == DimRole::Dense && expert ? DimRole::Width : row.role;
  }
  return DimRole::Whole;
}

std::vector<ServedDim> served_dims(const DimKind& dim, int64_t size,
                                   bool expert) {
  if (dim.count == 0 && !dim.parts.empty()) {
    std::vector<ServedDim> dims;
    int64_t rest = size;
    for (const DimPart& part : dim.parts) {
      if (part.rows > rest) break;
      dims.push_back({role_of_label(part.label, expert), part.rows, part.count,
                      dim.block, part.label});
      rest -= part.rows;
    }
    if (rest == 0) return dims;
    // The parts do not explain the size: replicate it.
    return {{DimRole::Whole, size, 0, 1, dim.axis}};
  }
  return {{role_of_label(dim.axis, expert), size, dim.count, dim.block,
           dim.axis, false, dim.unit}};
}

std::vector<std::vector<ServedDim>> served_parameter(const ParameterKind& kind,
                                                     const Shape& shape,
                                                     bool expert,
                                                     bool grouped) {
  std::vector<std::vector<ServedDim>> dims;
  bool stacked = false;
  bool has_width = false;
  for (size_t i = 0; i < kind.size(); ++i) {
    dims.push_back(served_dims(kind[i], shape[i], expert));
    for (const ServedDim& dim : dims.back()) {
      stacked = stacked || dim.role == DimRole::Experts;
      has_width = has_width || dim.role == DimRole::Width;
    }
  }
  if (!stacked || !expert) return dims;
  for (size_t i = 0; grouped && i < dims.size(); ++i) {
    for (ServedDim& dim : dims[i]) {
      if (dim.role != DimRole::Width) continue;
      dim.padded = true;
      // Rows are elements; the other dimension counts groups of them.
      if (i == 1) dim.count = ceil_div(dim.size, kGroup);
    }
  }
  if (has_width) return dims;
  for (size_t i = 0; i < kind.size(); ++i) {
    ServedDim& dim = dims[i].front();
    if (dims[i].size() > 1 || !kind[i].axis.empty()) continue;
    dim.role = DimRole::Width;
    dim.padded = true;
    break;
  }
  return dims;
}

int64_t degree_of(DimRole role, const Mesh& layout) {
  static const AxisName kTp = "tp";
  static const AxisName kDenseTp = "dense_tp";
  static const AxisName kEtp = "etp";
  static const AxisName kEp = "ep";
  switch (role) {
    case DimRole::Heads:
    case DimRole::KvHeads:
    case DimRole::StateGroups:
      return layout.size_of(kTp);
    case DimRole::Vocabulary:
    case DimRole::Dense:
      return layout.size_of(layout.has_view("dense") ? kDenseTp : kTp);
    case DimRole::Width:
      return layout.size_of(kEtp);
    case DimRole::Experts:
      return layout.size_of(kEp);
    case DimRole::Whole:
      break;
  }
  return 1;
}

bool are_uneven_tower_heads(std::string_view folded, const ServedDim& dim,
                            int64_t degree) {
  if (dim.role != DimRole::Heads && dim.role != DimRole::KvHeads) return false;
  const int64_t count = dim.count > 0 ? dim.count : dim.size;
  return count % degree != 0 && in_other_tower(folded);
}

int64_t held_elements(const ServedDim& dim, int64_t degree,
                      int64_t vocab_multiple) {
  if (dim.role == DimRole::Whole || dim.size == 0) return dim.size;
  if (dim.role == DimRole::Vocabulary) {
    const int64_t padded = ceil_div(dim.size, vocab_multiple) * vocab_multiple;
    return ceil_div(padded, degree);
  }
  if (dim.count > 0 && dim.size % dim.count == 0) {
    return dim.size / dim.count * ceil_div(dim.count, degree);
  }
  // The size does not divide into heads, as for scales that several heads
  // share.
  const int64_t shares = dim.role == DimRole::KvHeads && dim.count > 0
                             ? std::min(degree, dim.count)
                             : degree;
  return ceil_div(dim.size, shares);
}

bool is_expert_name(std::string_view folded) {
  while (true) {
    const size_t end = folded.find_first_of("./");
    if (folded.substr(0, end) == kExperts) return true;
    if (end == folded.npos) return false;
    folded.remove_prefix(end + 1);
  }
}

bool kernels_may_change(const ServedWeights& model, const Engine& engine) {
  return std::ranges::any_of(model.matrices, [&](const auto& matrix) {
    return matrix && matrix->packing != Packing::Plain &&
           may_change(engine.name, matrix->packing, matrix->expert);
  });
}

bool is_single_expert(std::string_view folded) {
  return contains(folded, "experts.*.") || contains(folded, "experts/*/");
}

std::optional<ServedWeights> served_weights(const Model& of) {
  const Manifest& manifest = of.manifest;
  if (manifest.kinds == nullptr) return std::nullopt;
  ServedWeights model;
  model.manifest = &manifest;
  model.folding = &of.folding();
  std::set<std::string_view> zeros;
  for (const std::string& name : model.folding->folded_names) {
    if (contains(name, "zero")) zeros.insert(stem_of(name));
  }
  for (const ParameterClass& c : model.folding->classes) {
    const auto found = manifest.kinds->find(
        {model.folding->folded_names[c.folded], manifest.type(c.first).shape});
    if (found == manifest.kinds->end() ||
        found->second.size() != manifest.type(c.first).shape.size()) {
      return std::nullopt;
    }
    model.kinds.push_back(&found->second);
    // The shape is [experts, rows, groups, bytes of a group].
    const TensorType& type = manifest.type(c.first);
    model.grouped_experts =
        model.grouped_experts ||
        (type.dtype == DType::U8 && type.shape.size() == 4 &&
         type.shape.back() == kGroup / 2 &&
         is_expert_name(model.folding->folded_names[c.folded]));
    model.matrices.push_back(matrix_of(c, model, zeros));
  }
  for (auto& matrix : model.matrices) {
    if (matrix && matrix->bias && model.grouped_experts) {
      matrix->packing = Packing::Mxfp4;
    }
  }
  model.groups = layer_groups(manifest, model.folding->class_of);
  const std::optional<int64_t>& layers = manifest.facts.layers;
  for (const LayerGroup& group : model.groups.groups) {
    // Layers beyond those of the model predict further tokens.
    const bool further = layers && group.stack >= 0 &&
                         group.number >= *layers &&
                         nth(model.groups.stacks, group.stack).layers > *layers;
    model.loaded.push_back(!further);
    if (group.is_token_embedding) continue;
    for (const auto& member : model.groups.forms[group.form].members) {
      const ParameterKind& kind = *model.kinds[member.kind];
      model.has_head =
          model.has_head || std::ranges::any_of(kind, [](const DimKind& dim) {
            return role_of_label(dim.axis, false) == DimRole::Vocabulary;
          });
    }
  }
  return model;
}

std::optional<RankWeights> rank_weights(const ServedWeights& model,
                                        const std::vector<bool>& held,
                                        const WeightsInput& input) {
  SHARDPLAN_CHECK(held.size() == model.groups.groups.size());
  RankWeights weights;
  Int128 total = 0;
  Int128 logical = 0;
  std::map<std::tuple<uint32_t, bool, bool>, RankBytes> known;
  const auto held_by = [&](uint32_t number, bool whole,
                           bool is_embedding) -> const RankBytes* {
    const auto found = known.find({number, whole, is_embedding});
    if (found != known.end()) return &found->second;
    const auto one = rank_bytes_of(model, number, input, whole, is_embedding);
    if (!one) return nullptr;
    return &known.emplace(std::tuple(number, whole, is_embedding), *one)
                .first->second;
  };
  const bool slots_everywhere =
      input.engine != nullptr && input.engine->slots_of_all_stages;
  for (size_t g = 0; g < model.groups.groups.size(); ++g) {
    const LayerGroup& group = model.groups.groups[g];
    for (const auto& member : model.groups.forms[group.form].members) {
      const ParameterClass& c = model.folding->classes[member.kind];
      const Int128 stored =
          Int128{model.manifest->type(c.first).bytes()} * member.count;
      if (!model.loaded[g]) {
        weights.not_loaded += static_cast<int64_t>(stored);
        continue;
      }
      if (!held[g] && !slots_everywhere) continue;
      const bool whole = input.whole_embedding && group.is_token_embedding;
      const RankBytes* one =
          held_by(member.kind, whole, group.is_token_embedding);
      if (one == nullptr) return std::nullopt;
      const bool dealt =
          is_single_expert(model.folding->folded_names[c.folded]);
      const int64_t count =
          dealt ? max_on_rank({"ep", degree_of(DimRole::Experts, input.layout),
                               member.count},
                              member.count)
                : member.count;
      const auto add = [&](WeightPart part, int64_t each) {
        const auto all = checked_mul(each, count);
        int64_t& sum = nth(weights.bytes, part);
        const auto more = all ? checked_add(sum, *all) : std::nullopt;
        if (more) sum = *more;
        return more.has_value();
      };
      if (!add(WeightPart::Slots, one->slots)) return std::nullopt;
      if (!held[g]) continue;
      if (!add(WeightPart::Kernels, one->kernels)) return std::nullopt;
      add_use(weights.kernels, model.matrices[member.kind], *one, count);
      const Int128 bytes = Int128{one->bytes} * count;
      total += bytes;
      logical += stored;
      if (total > INT64_MAX || logical > INT64_MAX) return std::nullopt;
      nth(weights.bytes, one->part) += static_cast<int64_t>(bytes);
      nth(weights.bytes, WeightPart::Absorbed) += one->absorbed * count;
      weights.vocab_padding += one->vocab_padding * count;
      weights.kv_copies += one->kv_copies * count;
    }
  }
  // Buffers have no labels, so they are assumed to shard like the average
  // weight.
  if (logical > 0 && model.manifest->total_bytes() > 0) {
    const auto share = static_cast<double>(total) /
                       static_cast<double>(model.manifest->total_bytes());
    nth(weights.bytes, WeightPart::Scales) = static_cast<int64_t>(
        share * static_cast<double>(model.manifest->buffer_bytes()));
  }
  for (const int64_t bytes : weights.bytes) {
    const auto sum = checked_add(weights.total, bytes);
    if (!sum) return std::nullopt;
    weights.total = *sum;
  }
  return weights;
}

}  // namespace shardplan
