// SPDX-License-Identifier: Apache-2.0
// The deliberate differences between shardplan and the originals;
// docs/parity.md explains the reasons at length.
#include <algorithm>
#include <memory>
#include <set>

#include "io/pattern_rules.h"
#include "resolve/python_regex.h"
#include "tests/conformance/runner/runner.h"
#include "tests/conformance/runner/vector_case.h"

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

// Returns whether shardplan refuses a pattern, whatever Python would do with it
// once it is reached.
bool has_unusable_pattern(const Json& inputs) {
  return any_pattern(inputs, [](const std::string& pattern) {
    return std::holds_alternative<PatternProblem>(
        translate_pattern(pattern, true));
  });
}

// Returns whether a pattern is like `(bad`: the translation leaves such errors
// to RE2.
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
    // An element has 4 bytes, as in the manifest of decode_tree.
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

// eformer treats a mesh with an axis of size 0 as empty, and as no mesh.
bool lacks_mesh(const Json& inputs) {
  const Json& mesh = inputs.at("mesh");
  if (!mesh.is_object()) return mesh.is_null();
  const Json& sizes = mesh.at("shape");
  return sizes.empty() ||
         std::find(sizes.begin(), sizes.end(), 0) != sizes.end();
}

bool is_invalid_mesh(const Json&, const Answer& answer) {
  return answer.refused == Code::InvalidMesh;
}

bool repeats_axis_in_tree(const Json& inputs) {
  if (!inputs.contains("tree")) return false;
  std::set<AxisName> seen;
  for (const AxisNames& axes : decode_spec(inputs.at("spec")).dims) {
    for (const AxisName& axis : axes) {
      if (!seen.insert(axis).second) return true;
    }
  }
  return false;
}

bool is_repeated_axis(const Json&, const Answer& answer) {
  return answer.refused == Code::RepeatedAxis;
}

// Returns the rules of a pattern text, in the form of match_partition_rules'
// inputs.
Json rules_of_pattern(const Json& inputs) {
  Diagnostics ignored;
  RuleSet rules;
  const auto text = inputs.at("pattern").get<std::string>();
  read_pattern(std::make_shared<SourceFile>("--pattern", text),
               PatternReading::Original, rules, ignored);
  Json list = Json::array();
  for (const Rule& rule : rules.rules) {
    list.push_back({rule.pattern, encode_spec(rule.spec)});
  }
  return {{"rules", list}};
}

bool has_unusable_rule(const Json& inputs) {
  return is_unusable(rules_of_pattern(inputs));
}

// Returns whether names that reach the unusable rule are refused and all others
// have the spec of an earlier rule.
bool is_refused_when_reached(const Json& inputs, const Answer& answer) {
  if (answer.refused) return false;
  const Json rules = rules_of_pattern(inputs).at("rules");
  std::set<Json> before;
  for (const Json& rule : rules) {
    if (is_unusable({{"rules", Json::array({rule})}})) break;
    before.insert(rule.at(1));
  }
  const Json& result = answer.value.at("result");
  return std::all_of(result.begin(), result.end(), [&](const Json& spec) {
    return spec.is_object() ? spec.contains("error") : before.count(spec) == 1;
  });
}

bool has_overlapping_names(const Json& inputs) {
  std::set<AxisName> seen;
  for (const AxisNames& axes : decode_spec(inputs.at("names")).dims) {
    for (const AxisName& axis : axes) {
      if (!seen.insert(axis).second) return true;
    }
  }
  return false;
}

bool names_axes_once(const Json&, const Answer& answer) {
  std::set<AxisName> seen;
  if (answer.refused) return false;
  for (const AxisNames& axes : decode_spec(answer.value).dims) {
    for (const AxisName& axis : axes) {
      if (!seen.insert(axis).second) return false;
    }
  }
  return true;
}

// Calls visit(number of entry, number of item) for each "_" within a list.
template <typename Visit>
void each_blank_in_list(const Json& inputs, Visit visit) {
  const Json axes = plain_lists(inputs.value("axes", Json()));
  for (size_t i = 0; i < axes.size(); ++i) {
    for (size_t j = 0; axes[i].is_array() && j < axes[i].size(); ++j) {
      if (axes[i][j] == "_") visit(i, j);
    }
  }
}

bool has_blank_in_list(const Json& inputs) {
  bool found = false;
  each_blank_in_list(inputs, [&](size_t, size_t) { found = true; });
  return found;
}

// Returns whether each None within a tuple is the name "", and each None alone
// is None.
bool is_none_there(const Json& inputs, const Answer& answer) {
  bool good = !answer.refused.has_value();
  each_blank_in_list(inputs, [&](size_t i, size_t j) {
    if (!good) return;
    const Json& entry = answer.value.at(i);
    good = entry.is_array() ? entry.at(j) == "" : entry.is_null();
  });
  return good;
}

constexpr const char* kRepeatedReason =
    "the original swallows the error and leaves the whole tree alone: SP202";
constexpr const char* kBlank =
    "later versions of eformer take it for an axis of that name; it is None, "
    "as it is outside of lists";

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
    {"get_corrected_named_sharding",
     "no mesh, or an axis of size 0, with raise_mesh_error=False",
     "nothing is replicated for want of a mesh: SP007", lacks_mesh,
     is_invalid_mesh},
    {"with_sharding_constraint", "no mesh, or an axis of size 0",
     "the original leaves the array alone; shardplan needs a mesh: SP007",
     lacks_mesh, is_invalid_mesh},
    {"with_sharding_constraint", "a repeated axis in the spec of a tree",
     kRepeatedReason, repeats_axis_in_tree, is_repeated_axis},
    {"create_pattern_based_partition_spec",
     "a pattern that RE2 or Python cannot compile",
     "RE2 has no look-around, back-references or possessive repetition: SP105 "
     "for the names that reach it",
     has_unusable_rule, is_refused_when_reached},
    {"auto_partition_spec", "names that overlap",
     "the original gives an axis to two dimensions, which no sharding can do",
     has_overlapping_names, names_axes_once},
    {"PartitionAxis.resolve_axis", "`_` within a list", kBlank,
     has_blank_in_list, is_none_there},
    {"PartitionAxis.resolve_spec", "`_` within a list", kBlank,
     has_blank_in_list, is_none_there},
    {"PartitionManager.resolve", "`_` within a list", kBlank, has_blank_in_list,
     is_none_there},
};

}  // namespace

std::span<const Deviation> deviations() { return kDeviations; }

}  // namespace shardplan::conformance
