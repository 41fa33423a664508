// SPDX-License-Identifier: Apache-2.0
// The spec of a product's result, computed here and as EasyDeL computes it.
#include "resolve/matmul_spec.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/words.h"

namespace shardplan {
namespace {

AxisNames entry(const PartitionSpec& spec, size_t dim) {
  return dim < spec.dims.size() ? spec.dims[dim] : AxisNames();
}

// Appends a dimension without the axes that earlier dimensions use, and records
// those as repeated.
void append_unused(const AxisNames& axes, AxisNames& used,
                   MatmulOutput& output) {
  AxisNames kept;
  for (const AxisName& axis : axes) {
    (contains(used, axis) ? output.repeated : kept).push_back(axis);
  }
  used.insert(used.end(), kept.begin(), kept.end());
  output.spec.dims.push_back(std::move(kept));
}

}  // namespace

MatmulOutput matmul_output(const PartitionSpec& left, int left_rank,
                           const PartitionSpec& right, int right_rank) {
  SHARDPLAN_CHECK(left_rank >= 1 && right_rank >= 1);
  const size_t m = to_size(left_rank) - 1;
  MatmulOutput output;
  AxisNames used;
  for (size_t dim = 0; dim < m; ++dim) {
    append_unused(entry(left, dim), used, output);
  }
  if (right_rank > 1) {
    append_unused(entry(right, to_size(right_rank) - 1), used, output);
  }
  const AxisNames ours = entry(left, m);
  const AxisNames theirs = entry(right, to_size(std::max(0, right_rank - 2)));
  for (const AxisName& axis : ours) {
    (contains(theirs, axis) ? output.partial : output.mismatched)
        .push_back(axis);
  }
  for (const AxisName& axis : theirs) {
    if (!contains(ours, axis)) output.mismatched.push_back(axis);
  }
  return output;
}

PartitionSpec original_matmul_output(
    const std::optional<PartitionSpec>& left,
    const std::optional<PartitionSpec>& right) {
  if (!left || !right) return {};
  std::vector<AxisNames> candidates;
  for (size_t i = 0; i + 1 < left->dims.size(); ++i) {
    candidates.push_back(left->dims[i]);
  }
  if (!right->dims.empty()) candidates.push_back(right->dims.back());
  AxisNames seen;
  PartitionSpec spec;
  for (const AxisNames& axes : candidates) {
    AxisNames kept;
    // A tuple is compared only with the entries before it, so it may contain a
    // name twice.
    std::ranges::copy_if(
        axes, std::back_inserter(kept),
        [&](const AxisName& axis) { return !contains(seen, axis); });
    seen.insert(seen.end(), axes.begin(), axes.end());
    // None is a name like any other; a name of None that remains alone is None.
    if (axes.empty()) seen.emplace_back();
    if (kept == AxisNames{""}) kept.clear();
    spec.dims.push_back(std::move(kept));
  }
  while (spec.dims.size() < left->dims.size()) spec.dims.emplace_back();
  return spec;
}

}  // namespace shardplan
