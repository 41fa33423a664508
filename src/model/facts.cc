// SPDX-License-Identifier: Apache-2.0
#include "model/facts.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "model/tensor_name.h"

namespace shardplan {
namespace {

// A value that all tensors that determine it must agree on.
class Agreed {
 public:
  void see(int64_t value) {
    if (value < 1 || (value_ && *value_ != value)) conflict_ = true;
    value_ = value;
  }
  std::optional<int64_t> get() const {
    return conflict_ ? std::nullopt : value_;
  }

 private:
  std::optional<int64_t> value_;
  bool conflict_ = false;
};

struct Evidence {
  Agreed query_rows, key_rows, hidden;      // of flat q and k
  Agreed split_heads, split_kv, split_dim;  // of kernels [in, heads, dim]
  Agreed norm, sinks, stacked;
  bool latent = false;
  int64_t largest_expert = -1;
};

// Kernels named `query` and `key` come from code with a separate dimension for
// heads; a q_proj of three dimensions may instead be a stack of layers.
void note_split(const TensorName& tail, const Shape& shape, Evidence& seen) {
  const bool query = tail.module == "query";
  if (!query && tail.module != "key") return;
  if (shape.size() > 4) return;
  (query ? seen.split_heads : seen.split_kv).see(shape[shape.size() - 2]);
  seen.split_dim.see(shape.back());
}

void note_attention(const TensorName& tail, const Shape& shape,
                    Evidence& seen) {
  const std::optional<Role> role = role_of(tail);
  if (role == Role::LatentUp) seen.latent = true;
  if ((role == Role::Query || role == Role::Key) && tail.leaf != "bias") {
    const std::optional<TensorKind> layout = tensor_kind(tail);
    if (!layout) return;
    if (shape.size() > 2) return note_split(tail, shape, seen);
    if (shape.size() < 2) return;
    const size_t rows = *layout == TensorKind::Weight ? 0 : 1;
    (role == Role::Query ? seen.query_rows : seen.key_rows).see(shape[rows]);
    if (role == Role::Query) seen.hidden.see(shape[1 - rows]);
  }
  if (shape.size() != 1 || tail.leaf == "bias") return;
  const std::string_view module = tail.module;
  if (module == "q_norm" || module == "k_norm" || module == "query_norm" ||
      module == "key_norm") {
    seen.norm.see(shape[0]);
  }
  if (module == "sinks") seen.sinks.see(shape[0]);
}

// The place of an expert's number in the names of a class: the number of
// characters after it.
constexpr uint32_t kNoNumber = UINT32_MAX;
constexpr uint32_t kVaries = UINT32_MAX - 1;  // another number follows
uint32_t number_place(std::string_view name, const ExpertName& expert) {
  if (expert.digits.empty()) return kNoNumber;
  const char* end = expert.digits.data() + expert.digits.size();
  const std::string_view suffix = name.substr(to_size(end - name.data()));
  if (has_number(suffix) || suffix.size() >= kVaries) return kVaries;
  return static_cast<uint32_t>(suffix.size());
}

std::optional<int64_t> number_at(std::string_view name, uint32_t place) {
  if (place == kVaries) return expert_name(name).number;
  const std::string_view before = name.substr(0, name.size() - place);
  // If there is no such character, npos + 1 is 0.
  return parse_integer(
      before.substr(before.find_last_not_of("0123456789") + 1));
}

void note_stacked_experts(std::string_view name, const ExpertName& expert,
                          const Shape& shape, Evidence& seen) {
  // Shapes that may begin with layers are ignored: rank 4, unless packed, and
  // biases of rank 3.
  const bool matrices = shape.size() == 3 && !name.ends_with("bias");
  const bool packed = shape.size() == 4 && name.ends_with("_blocks");
  if (expert.stacked && (matrices || packed)) seen.stacked.see(shape[0]);
}

Evidence collect(const Manifest& manifest, const Folding& folding) {
  Evidence seen;
  std::vector<uint32_t> places(folding.classes.size(), kNoNumber);
  bool any_number = false;
  for (size_t number = 0; number < folding.classes.size(); ++number) {
    const size_t first = folding.classes[number].first;
    const std::string_view name = manifest.name(first);
    const TensorName tail = split_name(name);
    const Shape& shape = manifest.type(first).shape;
    if (is_attention(tail.parent)) {
      if (!in_other_tower(name)) note_attention(tail, shape, seen);
    } else if (contains(name, "expert") || contains(name, "MoeBlock") ||
               contains(name, "moe_block")) {
      const ExpertName expert = expert_name(name);
      note_stacked_experts(name, expert, shape, seen);
      places[number] = number_place(name, expert);
      any_number = any_number || places[number] != kNoNumber;
    }
  }
  if (!any_number) return seen;
  for (size_t i = 0; i < manifest.size(); ++i) {
    const uint32_t place = places[folding.class_of[i]];
    if (place == kNoNumber) continue;
    const std::optional<int64_t> number = number_at(manifest.name(i), place);
    if (number) seen.largest_expert = std::max(seen.largest_expert, *number);
  }
  return seen;
}

// Returns the size of a head for flat projections with `rows` query rows, and
// records how it was found.
std::optional<int64_t> flat_head_dim(const Evidence& seen, int64_t rows,
                                     InferredFacts& result) {
  const std::optional<int64_t> sinks = seen.sinks.get();
  if (sinks && rows % *sinks == 0) {
    result.why.push_back(std::to_string(*sinks) +
                         " heads from attention sinks");
    return rows / *sinks;
  }
  // A norm as wide as all heads together is not a norm per head.
  const std::optional<int64_t> norm = seen.norm.get();
  if (norm && *norm < rows && rows % *norm == 0) {
    result.why.push_back("head_dim " + std::to_string(*norm) +
                         " from the norms of queries and keys");
    return norm;
  }
  // Toy models have heads of any size, so nothing is guessed for them.
  constexpr int64_t kSmallestHidden = 512;
  const std::optional<int64_t> hidden = seen.hidden.get();
  if (!hidden || *hidden < kSmallestHidden) return std::nullopt;
  const int64_t guess = *hidden <= 2048 ? 64 : 128;
  if (rows % guess != 0) return std::nullopt;
  result.why.push_back("head_dim " + std::to_string(guess) +
                       " guessed from the hidden size " +
                       std::to_string(*hidden));
  return guess;
}

void infer_flat_heads(const Evidence& seen, InferredFacts& result) {
  const std::optional<int64_t> rows = seen.query_rows.get();
  if (!rows) return;
  const std::optional<int64_t> dim = flat_head_dim(seen, *rows, result);
  if (!dim) return;
  Facts& facts = result.facts;
  facts.head_dim = dim;
  facts.heads = *rows / *dim;
  std::string why = plural(*facts.heads, "head");
  const std::optional<int64_t> key_rows = seen.key_rows.get();
  if (key_rows && *key_rows % *dim == 0 &&
      *facts.heads % (*key_rows / *dim) == 0) {
    facts.kv_heads = *key_rows / *dim;
    why += " and " + plural(*facts.kv_heads, "KV head");
  }
  result.why.push_back(why + " from the rows of the query and key projections");
}

void infer_experts(const Evidence& seen, InferredFacts& result) {
  if (const std::optional<int64_t> stacked = seen.stacked.get()) {
    result.facts.experts = stacked;
    result.why.push_back(std::to_string(*stacked) +
                         " experts from the first dimension of their tensors");
  } else if (seen.largest_expert >= 0) {
    result.facts.experts = checked_add(seen.largest_expert, 1);
    if (!result.facts.experts) return;
    result.why.push_back(std::to_string(*result.facts.experts) +
                         " experts from the numbers in their names");
  }
}

}  // namespace

InferredFacts infer_facts(const Manifest& manifest, const Folding& folding) {
  const Evidence seen = collect(manifest, folding);
  InferredFacts result;
  Facts& facts = result.facts;
  const std::optional<int64_t> heads = seen.split_heads.get();
  const std::optional<int64_t> dim = seen.split_dim.get();
  if (heads && dim) {
    facts.heads = heads;
    facts.kv_heads = seen.split_kv.get();
    facts.head_dim = dim;
    result.why.push_back(std::to_string(*heads) + " heads of " +
                         std::to_string(*dim) +
                         " from kernels with a dimension of heads");
  } else if (!seen.latent) {
    infer_flat_heads(seen, result);
  }
  infer_experts(seen, result);
  if (facts.heads || facts.experts) facts.from = FactsFrom::Inferred;
  return result;
}

}  // namespace shardplan
