// SPDX-License-Identifier: Apache-2.0
// Where shardplan answers otherwise than the originals, on purpose;
// docs/parity.md gives the reasons at length.
#include <set>

#include "conformance/tree.h"
#include "conformance/vector_case.h"
#include "resolve/python_regex.h"

namespace shardplan::conformance {
namespace {

bool any_pattern(const Json& inputs, bool (*has)(const std::string&)) {
  for (const Json& rule : inputs.at("rules")) {
    if (has(rule.at(0).get<std::string>())) return true;
  }
  return false;
}

// Calls leaf(shape, path) for every leaf of a tree.
template <typename OnLeaf>
void each_leaf(const Json& tree, const std::string& path, OnLeaf leaf) {
  const auto join = [&](const std::string& part) {
    return path.empty() ? part : path + "/" + part;
  };
  if (tree.is_null()) return;
  if (tree.is_object() && tree.contains("$shape")) {
    leaf(tree.at("$shape"), path);
  } else if (tree.is_object()) {
    for (const auto& [key, value] : tree.items()) {
      if (key == "$list" || key == "$tuple") {
        each_leaf(value, path, leaf);
      } else {
        each_leaf(value, join(key), leaf);
      }
    }
  } else if (tree.is_array()) {
    for (size_t i = 0; i < tree.size(); ++i) {
      each_leaf(tree[i], join(std::to_string(i)), leaf);
    }
  }
}

bool has_plain_names(const Json& inputs) {
  bool plain = true;
  each_leaf(inputs.at("tree"), "", [&](const Json&, const std::string& path) {
    for (const char c : path) plain = plain && c >= ' ' && c <= '~';
  });
  return plain;
}

// Refused here, whatever Python would do with it once it were reached.
bool has_unusable_pattern(const Json& inputs) {
  return any_pattern(inputs, [](const std::string& pattern) {
    return std::holds_alternative<PatternProblem>(
        translate_pattern(pattern, true));
  });
}

// `(bad` and the like: RE2 finds what the translation leaves to it.
bool has_unbalanced_pattern(const Json& inputs) {
  return any_pattern(inputs, [](const std::string& pattern) {
    int depth = 0;
    for (size_t i = 0; i < pattern.size() && depth >= 0; ++i) {
      if (pattern[i] == '\\') {
        ++i;
      } else if (pattern[i] == '(') {
        ++depth;
      } else if (pattern[i] == ')') {
        --depth;
      }
    }
    return depth != 0;
  });
}

bool is_possessive(const Json& inputs) {
  return any_pattern(inputs, [](const std::string& pattern) {
    for (const char* operation : {"*+", "++", "?+", "}+"}) {
      const size_t at = pattern.find(operation);
      if (at != std::string::npos && at > 0 && pattern[at - 1] != '\\') {
        return true;
      }
    }
    return false;
  });
}

bool is_unusable(const Json& inputs) {
  return has_unusable_pattern(inputs) || has_unbalanced_pattern(inputs) ||
         is_possessive(inputs);
}

bool is_refused_pattern(const Json&, const Answer& answer) {
  return answer.refused == Code::UnsupportedPattern;
}

bool is_read_as_ascii(const Json& inputs) {
  if (has_plain_names(inputs)) return false;
  return any_pattern(inputs, [](const std::string& pattern) {
    const auto translated = translate_pattern(pattern, false);
    const auto* usable = std::get_if<TranslatedPattern>(&translated);
    return usable != nullptr && !usable->ascii_only.empty();
  });
}

bool says_so(const Json&, const Answer& answer) {
  return answer.message == code_id(Code::PatternDiffersFromPython);
}

bool has_huge_shape(const Json& inputs) {
  bool huge = false;
  each_leaf(inputs.at("tree"), "", [&](const Json& shape, const std::string&) {
    // 4 bytes an element, as decode_tree declares.
    const auto count = element_count(shape.get<Shape>());
    huge = huge || !count || !byte_count(*count, DType::F32);
  });
  return huge;
}

bool is_malformed(const Json&, const Answer& answer) {
  return answer.refused == Code::MalformedDocument;
}

bool has_ambiguous_names(const Json& inputs) {
  std::set<std::string> names;
  bool ambiguous = false;
  each_leaf(inputs.at("tree"), "", [&](const Json&, const std::string& path) {
    ambiguous = ambiguous || !names.insert(path).second;
  });
  return ambiguous;
}

bool is_duplicate(const Json&, const Answer& answer) {
  return answer.refused == Code::DuplicateKey;
}

bool has_null_spec(const Json& inputs) {
  for (const Json& rule : inputs.at("rules")) {
    if (rule.at(1).is_null()) return true;
  }
  return false;
}

bool lacks_mesh(const Json& inputs) { return inputs.at("mesh").is_null(); }

bool is_invalid_mesh(const Json&, const Answer& answer) {
  return answer.refused == Code::InvalidMesh;
}

constexpr Deviation kDeviations[] = {
    {"match_partition_rules", "a pattern that RE2 or Python cannot compile",
     "all rules are compiled before anything runs, and RE2 has no look-around, "
     "back-references or possessive repetition: SP105",
     is_unusable, is_refused_pattern},
    {"match_partition_rules",
     "`\\b`, `\\B` or a class with `\\W`, on names that are not ASCII",
     "RE2 knows these over ASCII only: answered so, with warning SP108",
     is_read_as_ascii, says_so},
    {"match_partition_rules", "a shape whose bytes exceed 63 bits",
     "numpy's product wraps; shardplan refuses the tensor: SP002",
     has_huge_shape, is_malformed},
    {"match_partition_rules", "two leaves whose paths join to one name",
     "a name must say which tensor is meant: SP003", has_ambiguous_names,
     is_duplicate},
    {"match_partition_rules", "a rule without a spec (None)",
     "eformer crashes or passes None on, by mode; a rules file must give a "
     "spec: SP002",
     has_null_spec, is_malformed},
    {"get_corrected_named_sharding", "no mesh, raise_mesh_error=False",
     "nothing is replicated for want of a mesh: SP007", lacks_mesh,
     is_invalid_mesh},
    {"with_sharding_constraint", "no mesh",
     "the original leaves the array alone; shardplan needs a mesh: SP007",
     lacks_mesh, is_invalid_mesh},
};

}  // namespace

std::span<const Deviation> deviations() { return kDeviations; }

}  // namespace shardplan::conformance
