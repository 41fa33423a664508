// SPDX-License-Identifier: Apache-2.0
// Conformance vectors: inputs, and the answers of the original code.
//
// A function under test is one row of a table: it computes our answer to a
// case's inputs with the same library functions that the program uses. The
// answer is a JSON value to compare with `expected`, or a refusal with the kind
// of mistake that our diagnostic names.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/diagnostic.h"
#include "core/mesh.h"
#include "core/spec.h"

namespace shardplan::conformance {

using Json = nlohmann::json;

struct Answer {
  Json value;                   // if not refused
  std::optional<Code> refused;  // the code of the first error
  std::string message;          // of that error
};

// A deliberate difference from the original. `applies` depends only on the
// inputs; `agrees` compares our answer with the one that this deviation
// defines, so that deviations are tested as well.
struct Deviation {
  std::string_view function;
  std::string_view condition;
  std::string_view reason;
  bool (*applies)(const Json& inputs);
  bool (*agrees)(const Json& inputs, const Answer& answer);
};

struct Function {
  std::string_view name;
  Answer (*answer)(const Json& inputs);
  // Returns whether our refusal is of the kind that the original's error
  // describes.
  bool (*same_kind)(const Answer& answer, const Json& error);
  // Returns our answer in the compatibility mode, for functions with such a
  // mode: in a case with `expected_head`, `expected` is the answer of that
  // mode.
  Answer (*compatible)(const Json& inputs) = nullptr;
  // Converts an expectation to the form of our answers, where originals of
  // different years write a spec differently.
  Json (*canonical)(const Json& expected) = nullptr;
  // Compares an answer with the expectation, for functions where equality is
  // too strict.
  bool (*agree)(const Json& answer, const Json& expected) = nullptr;
};

// Returns whether the values are equal, except that numbers with a fraction or
// above 2^24 may differ by 4 units in the last place of a float.
bool agree_within_4_ulps(const Json& answer, const Json& expected);

std::span<const Function> functions();
std::span<const Deviation> deviations();

// The rows that each file defines.
const std::vector<Function>& auto_spec_functions();
const std::vector<Function>& logical_axes_functions();
const std::vector<Function>& matmul_functions();
const std::vector<Function>& parallel_linear_functions();
const std::vector<Function>& tp_dense_functions();
const std::vector<Function>& mesh_functions();
const std::vector<Function>& partition_axis_functions();
const std::vector<Function>& pattern_functions();
const std::vector<Function>& random_functions();
const std::vector<Function>& ring_functions();

Answer match_partition_rules(const Json& inputs);
bool is_same_match_error(const Answer& answer, const Json& error);
Answer get_corrected_named_sharding(const Json& inputs);
Answer with_sharding_constraint(const Json& inputs);
bool is_same_correction_error(const Answer& answer, const Json& error);
Answer shard_layout(const Json& inputs);
bool is_same_layout_error(const Answer& answer, const Json& error);

// Encodings. Specs are canonicalised in the way of jax >= 0.5.3: null, "", ()
// and [] are None; a tuple of one is its element. None within a tuple is the
// name "".
PartitionSpec decode_spec(const Json& spec);
// Returns a spec in canonical form; a value that is not a list is unchanged.
Json canonical_spec(const Json& spec);
// Replaces {"$list": [..]} and {"$tuple": [..]} by plain lists, at any depth.
Json plain_lists(const Json& value);
Json encode_spec(const PartitionSpec& spec);
// Decodes {"axis_names": [..], "shape": [..]}, in which `shape` may be an
// object, or a text such as "tp=4". Returns empty, with the reason reported, if
// it is not a mesh.
std::optional<Mesh> decode_mesh(const Json& mesh, Diagnostics& diags);
// Returns a refusal with the first error of `diags`.
Answer refusal(const Diagnostics& diags);

}  // namespace shardplan::conformance
