// SPDX-License-Identifier: Apache-2.0
// Dimensions that do not suit their axes: another size of an axis, padding,
// another dimension for the axes.
#include <algorithm>
#include <numeric>
#include <utility>

#include "advise/candidates.h"
#include "base/checked.h"
#include "base/text.h"

namespace shardplan {
namespace {

// Sizes of an axis are looked for up to the number of devices, and this.
constexpr int64_t kLeastLimit = 64;

// The nearest smaller and the nearest larger size of each axis that divides
// the dimension. Where units are cut, sizes that cut none are among its
// divisors; which they are is for the trial to say.
void add_axis_sizes(const Found& found, int64_t size, const AxisNames& axes,
                    size_t tried, Candidates& all) {
  const Mesh& mesh = found.planned.plan.mesh;
  for (const AxisName& axis : axes) {
    const int64_t now = mesh.size_of(axis);
    const int64_t others = shard_count(mesh, axes) / now;
    if (others == 0 || size % others != 0) continue;
    const std::vector<int64_t> legal =
        common_divisors(size / others, size / others,
                        std::max<int64_t>(mesh.devices(), kLeastLimit));
    std::vector<int64_t> near;
    const auto above = std::upper_bound(legal.begin(), legal.end(), now);
    for (auto it = above; it != legal.end() && near.size() < tried; ++it) {
      near.push_back(*it);
    }
    auto below = std::lower_bound(legal.begin(), legal.end(), now);
    for (size_t i = 0; i < tried && below != legal.begin(); ++i) {
      near.push_back(*--below);
    }
    for (const int64_t other : near) {
      Candidate candidate;
      candidate.tier = 1;
      candidate.change.axis = Axis{axis, other};
      candidate.fix.kind = FixKind::AxisSize;
      candidate.fix.axis = axis;
      candidate.fix.size = other;
      candidate.fix.text =
          "use `" + printable(axis) + "=" + std::to_string(other) + "`";
      all.push_back(std::move(candidate));
    }
  }
}

void add_padding(const Found& found, std::span<const uint32_t> parameters,
                 int dim, int64_t size, std::string_view remark,
                 Candidates& all) {
  Candidate candidate;
  candidate.change.padding =
      Padding{{parameters.begin(), parameters.end()}, dim, size};
  candidate.fix.kind = FixKind::PadDimension;
  candidate.fix.dim = dim;
  candidate.fix.size = size;
  candidate.fix.text = "pad dimension " + std::to_string(dim) + " to " +
                       std::to_string(size) + std::string(remark);
  if (found.diagnostic.code == Code::ShardingLost) {
    candidate.fix.parameters = names_of(found.planned.manifest, parameters);
    candidate.fix.text = "pad dimension " + std::to_string(dim) + " of " +
                         names_text(candidate.fix.parameters) + " to " +
                         std::to_string(size) + std::string(remark);
  }
  all.push_back(std::move(candidate));
}

// The smallest size that the shards divide, and the smallest that 128 divides
// too, which matrix units like and Megatron pads vocabularies to.
void add_paddings(const Found& found, std::span<const uint32_t> parameters,
                  int dim, int64_t size, int64_t shards, Candidates& all) {
  constexpr int64_t kTile = 128;
  const auto smallest = checked_mul(ceil_div(size, shards), shards);
  if (!smallest) return;
  add_padding(found, parameters, dim, *smallest, "", all);
  const auto step = checked_mul(shards / std::gcd(shards, kTile), kTile);
  const auto tiled = step ? checked_mul(ceil_div(size, *step), *step) : step;
  if (tiled && tiled != smallest) {
    add_padding(found, parameters, dim, *tiled, " (a multiple of 128)", all);
  }
}

AxisNames known_axes(const Mesh& mesh, const PartitionSpec& spec, int dim) {
  if (static_cast<size_t>(dim) >= spec.dims.size()) return {};
  AxisNames axes = spec.dims[static_cast<size_t>(dim)];
  std::erase_if(axes, [&](const AxisName& a) { return !mesh.find(a); });
  return axes;
}

// The axes of one dimension elsewhere, and at last nowhere.
void add_other_dimensions(const Found& found,
                          std::span<const uint32_t> parameters, int dim,
                          const AxisNames& axes, Candidates& all) {
  const Placement& placement = found.planned.plan.of(parameters.front());
  if (!asks_by_axes(placement)) return;
  PartitionSpec base = *placement.requested;
  base.dims.resize(std::min(base.dims.size(), placement.type.shape.size()));
  base.dims[static_cast<size_t>(dim)].clear();
  AxisNames larger = axes;
  std::erase_if(larger, [&](const AxisName& axis) {
    return found.planned.plan.mesh.size_of(axis) == 1;
  });
  for (const PartitionSpec& spec :
       spread(found.planned, placement, base, larger)) {
    add_respec(found, placement.rule, parameters, spec, 0, all);
  }
  add_respec(found, placement.rule, parameters, base, 2, all);
}

// What a framework may do instead, if it can have to do with the finding.
void add_declarations(const Found& found, Candidates& all) {
  const bool cuts_unit = found.diagnostic.code == Code::SplitUnit;
  const Declarations& now = found.planned.resolving.declarations;
  const std::vector<std::string> texts =
      cuts_unit
          ? std::vector<std::string>{"replicate-kv-heads", "interleave-gate-up",
                                     "interleave-qkv"}
          : std::vector<std::string>{"pad-vocab=128"};
  for (const std::string& text : texts) {
    Declarations then = now;
    if ((!cuts_unit && now.pad_vocab != 0) || !add_declaration(text, then) ||
        then == now) {
      continue;
    }
    Candidate candidate;
    candidate.tier = 1;
    candidate.change.declared = then;
    candidate.fix.kind = FixKind::Declare;
    candidate.fix.declaration = text;
    candidate.fix.text = "`--declare " + text + "`";
    all.push_back(std::move(candidate));
  }
}

// Other orders of a dimension's axes: under `prefix` the first ones are kept.
void add_orders(const Found& found, std::span<const uint32_t> parameters,
                int dim, AxisNames axes, Candidates& all) {
  constexpr size_t kMaxAxes = 3;
  const Plan& plan = found.planned.plan;
  if (plan.on_indivisible != OnIndivisible::Prefix || axes.size() < 2 ||
      axes.size() > kMaxAxes) {
    return;
  }
  const Placement& placement = plan.of(parameters.front());
  if (!asks_by_axes(placement)) return;
  PartitionSpec spec = *placement.requested;
  std::sort(axes.begin(), axes.end());
  do {
    AxisNames& now = spec.dims[static_cast<size_t>(dim)];
    if (axes == now) continue;
    now = axes;
    add_respec(found, placement.rule, parameters, spec, 0, all);
  } while (std::next_permutation(axes.begin(), axes.end()));
}

}  // namespace

void add_size_candidates(const Found& found, Candidates& all) {
  if (found.parameters.empty() || !found.placement().requested) return;
  const Placement& placement = found.placement();
  const Mesh& mesh = found.planned.plan.mesh;
  const int dim = found.diagnostic.subject.dim;
  const AxisNames axes = known_axes(mesh, placement.asked(), dim);
  if (axes.empty()) return;
  const int64_t size = placement.type.shape[static_cast<size_t>(dim)];
  const bool cuts_unit = found.diagnostic.code == Code::SplitUnit;
  add_other_dimensions(found, found.parameters, dim, axes, all);
  if (!cuts_unit) {
    add_paddings(found, found.parameters, dim, size, shard_count(mesh, axes),
                 all);
  }
  add_declarations(found, all);
  // A divisor of the dimension may still cut a unit; so try a few of them.
  add_axis_sizes(found, size, axes, cuts_unit ? 3 : 1, all);
}

void add_loss_candidates(const Found& found, Candidates& all) {
  constexpr size_t kLosses = 3;
  const Planned& planned = found.planned;
  std::vector<std::pair<int64_t, uint32_t>> losses;  // bytes, placement
  found.work += static_cast<int64_t>(planned.plan.placement_of.size());
  const Members members(planned.plan.placement_of,
                        planned.plan.placements.size());
  for (uint32_t i = 0; i < planned.plan.placements.size(); ++i) {
    const Placement& placement = planned.plan.placements[i];
    const int64_t extra = (placement.bytes_per_device -
                           requested_bytes(planned.plan, placement)) *
                          static_cast<int64_t>(members.of(i).size());
    if (extra > 0) losses.emplace_back(extra, i);
  }
  std::stable_sort(
      losses.begin(), losses.end(),
      [](const auto& a, const auto& b) { return a.first > b.first; });
  for (size_t i = 0; i < std::min(kLosses, losses.size()); ++i) {
    const Placement& placement = planned.plan.placements[losses[i].second];
    for (const Correction& correction : placement.corrections) {
      if (correction.code != Code::IndivisibleDimension) continue;
      const AxisNames axes =
          known_axes(planned.plan.mesh, placement.asked(), correction.dim);
      const int64_t size =
          placement.type.shape[static_cast<size_t>(correction.dim)];
      const std::span<const uint32_t> of = members.of(losses[i].second);
      add_other_dimensions(found, of, correction.dim, axes, all);
      add_paddings(found, of, correction.dim, size,
                   shard_count(planned.plan.mesh, axes), all);
      add_orders(found, of, correction.dim, axes, all);
      add_axis_sizes(found, size, axes, 1, all);
    }
  }
}

}  // namespace shardplan
