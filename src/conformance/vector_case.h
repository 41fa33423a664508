// SPDX-License-Identifier: Apache-2.0
// Conformance vectors: inputs, and what the original code answered.
//
// A function under test is one row of a table: it turns a case's inputs into
// our answer through the same library functions that the program uses. The
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
  Json value;                   // when not refused
  std::optional<Code> refused;  // the code of the first error
  std::string message;          // of that error
};

// Where we answer otherwise than the original, on purpose. `applies` looks at
// the inputs alone; `agrees` holds our answer against what is written down
// here, so that a deviation is tested too.
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
  // Whether our refusal is of the kind that the original's error describes.
  bool (*same_kind)(const Answer& answer, const Json& error);
  // Our answer in the compatibility mode, for functions that have one: what a
  // case with `expected_head` expects of it is `expected`.
  Answer (*compatible)(const Json& inputs) = nullptr;
  // Puts an expectation into the form of our answers, where the originals of
  // several years write a spec differently.
  Json (*canonical)(const Json& expected) = nullptr;
  // Whether an answer is what is expected, where equality asks too much.
  bool (*agree)(const Json& answer, const Json& expected) = nullptr;
};

// Equal but for numbers with a fraction, or above 2^24, which may be 4 units in
// the last place of a float apart.
bool agree_within_4_ulps(const Json& answer, const Json& expected);

std::span<const Function> functions();
std::span<const Deviation> deviations();

// The rows of each file.
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

// Encodings. Specs are canonicalised as jax >= 0.5.3 does: null, "", () and []
// are None; a tuple of one is its element. None within a tuple is the name "".
PartitionSpec decode_spec(const Json& spec);
// A spec in canonical form; what is not a list stays as it is.
Json canonical_spec(const Json& spec);
// {"$list": [..]} and {"$tuple": [..]} as plain lists, at any depth.
Json plain_lists(const Json& value);
Json encode_spec(const PartitionSpec& spec);
// {"axis_names": [..], "shape": [..]}, with `shape` possibly an object, or text
// such as "tp=4". Empty, with the reason reported, when it is not a mesh.
std::optional<Mesh> decode_mesh(const Json& mesh, Diagnostics& diags);
// Refusal with the first error of `diags`.
Answer refusal(const Diagnostics& diags);

}  // namespace shardplan::conformance
