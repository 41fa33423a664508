// SPDX-License-Identifier: Apache-2.0
#include "io/recorded_sharding.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace shardplan {
namespace {

bool is_parameter(const RecordedSharding& sharding) {
  return state_part(sharding.name) == StatePart::Parameter;
}

}  // namespace

bool same_axes(const std::vector<AxisRequest>& a,
               const std::vector<AxisRequest>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const AxisRequest& x, const AxisRequest& y) {
                      return x.name == y.name && x.size == y.size;
                    });
}

std::string axes_text(const std::vector<AxisRequest>& mesh) {
  std::string text;
  for (const AxisRequest& axis : mesh) {
    if (!text.empty()) text += ",";
    text += axis.name + "=" + std::to_string(axis.size);
  }
  return text;
}

RecordedMesh common_mesh(const std::vector<RecordedSharding>& shardings,
                         Diagnostics& diags) {
  RecordedMesh mesh;
  const RecordedSharding* other = nullptr;
  int64_t others = 0;
  for (const RecordedSharding& sharding : shardings) {
    if (sharding.mesh.empty()) continue;
    if (mesh.axes.empty()) {
      mesh = {sharding.mesh, sharding.mesh_where};
    } else if (!same_axes(sharding.mesh, mesh.axes) && others++ == 0) {
      other = &sharding;
    }
  }
  if (other == nullptr) return mesh;
  diags
      .report(
          Code::InvalidMesh, Severity::Warning, other->mesh_where,
          plural(others, "array") + " recorded on another mesh than the first")
      .label(mesh.where, "the mesh that is used")
      .fact(in_backticks(other->name) + " is on " + axes_text(other->mesh))
      .fact("the first array is on " + axes_text(mesh.axes));
  return mesh;
}

std::string recorded_pattern(std::string_view name) {
  constexpr std::string_view kBox = "value";
  bool boxed = false;
  if (name.size() > kBox.size() + 1 && name.ends_with(kBox)) {
    const char before = name[name.size() - kBox.size() - 1];
    boxed = before == '/' || before == '.';
    if (boxed) name.remove_suffix(kBox.size() + 1);
  }
  std::string pattern;
  const std::string exact = exact_pattern(name);
  for (size_t i = 0; i < exact.size(); ++i) {
    const bool dot = exact[i] == '\\' && exact[i + 1] == '.';
    if (dot || exact[i] == '/') {
      pattern += "[./]";
      i += dot ? 1 : 0;
      continue;
    }
    // An escape keeps its character, which may be a backslash itself.
    if (exact[i] == '\\') pattern += exact[i++];
    pattern += exact[i];
  }
  if (boxed) pattern.insert(pattern.size() - 1, "([./]value)?");
  return pattern;
}

void add_recorded_rules(const std::vector<RecordedSharding>& shardings,
                        RuleSet& rules, Diagnostics& diags) {
  const bool any =
      std::any_of(shardings.begin(), shardings.end(), is_parameter);
  int64_t left_out = 0;
  Span first;
  for (const RecordedSharding& sharding : shardings) {
    if (any && !is_parameter(sharding)) {
      if (left_out++ == 0) first = sharding.where;
      continue;
    }
    Rule rule;
    rule.pattern = recorded_pattern(sharding.name);
    rule.spec = sharding.spec;
    rule.where = sharding.where;
    rule.spec_where = sharding.spec_where;
    rule.dim_where.assign(rule.spec.dims.size(), sharding.spec_where);
    rules.rules.push_back(std::move(rule));
  }
  if (left_out == 0) return;
  diags
      .report(Code::UnsupportedKey, Severity::Note, first,
              plural(left_out, "sharding") +
                  " of the optimizer's state and of counters left out")
      .fact("rules place parameters; moments are placed as these are");
}

StatePart state_part(std::string_view name) {
  const size_t end = std::min(name.find_first_of("./"), name.size());
  const std::string_view first = name.substr(0, end);
  if (first == "opt_state" || first == "opt_states" || first == "optimizer") {
    return StatePart::Optimizer;
  }
  if (first == "step" || first == "rng") return StatePart::Counter;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t cut = std::min(name.find_first_of("./", begin), name.size());
    if (name.substr(begin, cut - begin) == "rngs") return StatePart::Counter;
    begin = cut + 1;
  }
  return StatePart::Parameter;
}

}  // namespace shardplan
