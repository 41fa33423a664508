// SPDX-License-Identifier: Apache-2.0
// Declarations: how a framework stores a model otherwise than its checkpoint
// has it, as the user declares (`--declare`). What is declared is counted, and
// what it makes right is no finding.
//
//   replicate-kv-heads   where more shards than KV heads cut the heads, each
//                        shard stores one whole head
//   pad-vocab=M          the vocabulary of embedding and head is padded to the
//                        smallest multiple of M that its axes divide
//   interleave-gate-up   packed gate and up are stored so that each shard has
//                        its part of both
//   interleave-qkv       the same of fused q, k and v
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardplan {

struct Declarations {
  bool replicate_kv_heads = false;
  int64_t pad_vocab = 0;  // a multiple of that; 0: not declared
  bool interleave_gate_up = false;
  bool interleave_qkv = false;

  bool any() const { return *this != Declarations(); }
  bool operator==(const Declarations&) const = default;
};

inline constexpr int64_t kMaxPadVocab = int64_t{1} << 20;

// Adds one, written as above; false when it is none, or M is not an integer
// from 1 to kMaxPadVocab.
bool add_declaration(std::string_view text, Declarations& declarations);

// As they are written, always in one order.
std::vector<std::string> declaration_texts(const Declarations& declarations);

// The forms above, for help: "pad-vocab=M".
std::vector<std::string> declaration_forms();

}  // namespace shardplan
