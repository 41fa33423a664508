// SPDX-License-Identifier: Apache-2.0
// Bytes per device; device_classes.cc computes the classes of devices.
#include "resolve/device_memory.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "base/words.h"

namespace shardplan {

namespace {

bool names_axis(const PartitionSpec& spec, const AxisName& axis) {
  return std::ranges::any_of(
      spec.dims, [&](const AxisNames& axes) { return contains(axes, axis); });
}

// Returns the most that one device stores of `count` parameters.
Int128 most_bytes(const Placement& placement, int64_t count) {
  return Int128{most_held(placement.dealt, count)} * placement.bytes_per_device;
}

// Returns the most that one device stores of all placements, given the number
// of parameters of each.
Int128 sum_bytes(const Plan& plan, const PlacementCounts& counts) {
  Int128 sum = 0;
  for (size_t i = 0; i < plan.placements.size(); ++i) {
    sum += most_bytes(plan.placements[i], counts[i]);
  }
  return sum;
}

// The number of devices per number of bytes, the largest first.
using DevicesByBytes = std::map<int64_t, int64_t, std::greater<>>;

// More classes than this take seconds to compute; sensible plans have far
// fewer.
constexpr int64_t kMaxClasses = int64_t{1} << 20;

// Returns whether devices store different numbers of bytes, apart from stages.
bool devices_differ(const Plan& plan) {
  if (cut_of(plan.on_indivisible) == Cut::Chunked) return true;
  return std::ranges::any_of(plan.placements, [](const Placement& placement) {
    return placement.dealt && !is_even(*placement.dealt);
  });
}

// Returns the devices of a plan on which they differ; no value if there are too
// many classes.
std::optional<DevicesByBytes> different_classes(const Plan& plan,
                                                const StagedCounts& counts,
                                                int64_t* work) {
  // Stages differ, so every coordinate of their axis gets a class of its own.
  std::set<int64_t> stages;
  for (size_t i = 1; i < counts.of_stage.size(); ++i) {
    stages.insert(static_cast<int64_t>(i));
  }
  const auto stage_axis = plan.mesh.find(counts.axis);
  const auto counts_at =
      [&](const std::vector<int64_t>& coordinates) -> const PlacementCounts& {
    return counts.of_stage.empty()
               ? counts.all
               : nth(counts.of_stage, coordinates[*stage_axis]);
  };
  const bool chunks = cut_of(plan.on_indivisible) == Cut::Chunked;
  const auto add_points = [&](const Placement& p, Breakpoints& points) {
    const bool cut =
        chunks && add_breakpoints(plan.mesh, stored_shape(p), p.spec, points);
    return add_breakpoints(p.dealt, points) || cut;
  };
  Breakpoints breakpoints;
  std::vector<size_t> even;
  std::vector<size_t> uneven;
  for (size_t i = 0; i < plan.placements.size(); ++i) {
    const bool differs = add_points(plan.placements[i], breakpoints);
    (differs ? uneven : even).push_back(i);
  }
  if (!stages.empty()) breakpoints[counts.axis].merge(std::set(stages));
  const auto grid = grid_of(plan.mesh, breakpoints);
  const auto classes =
      grid ? coordinate_classes(plan.mesh, *grid, breakpoints, kMaxClasses)
           : std::nullopt;
  if (!classes) {
    if (work != nullptr) *work += kMaxClasses;
    return std::nullopt;
  }
  const ClassSums sums(plan.mesh, *grid, breakpoints);
  std::vector<Int128> bytes(sums.classes());
  int64_t boxes = 0;
  for (const size_t i : uneven) {
    const Placement& p = plan.placements[i];
    const TensorType stored{p.type.dtype, stored_shape(p)};
    Breakpoints own;
    add_points(p, own);
    if (!stages.empty()) own[counts.axis].merge(std::set(stages));
    sums.each_box(own, [&](const ClassSums::Box& box) {
      ++boxes;
      const int64_t held = held_at(
          p.dealt, plan.mesh, counts_at(box.coordinates)[i], box.coordinates);
      sums.add(box,
               Int128{held} * (chunks ? chunk_bytes(plan.mesh, stored, p.spec,
                                                    box.coordinates)
                                      : p.bytes_per_device),
               bytes);
    });
  }
  sums.finish(bytes);
  if (work != nullptr) *work += std::ssize(*classes) + boxes;
  DevicesByBytes devices_with;
  std::map<const PlacementCounts*, Int128> even_bytes;
  for (size_t i = 0; i < classes->size(); ++i) {
    const PlacementCounts& held = counts_at((*classes)[i].coordinates);
    const auto [entry, is_new] = even_bytes.try_emplace(&held, 0);
    for (size_t k = 0; is_new && k < even.size(); ++k) {
      entry->second += most_bytes(plan.placements[even[k]], held[even[k]]);
    }
    devices_with[static_cast<int64_t>(entry->second + bytes[i])] +=
        (*classes)[i].devices;
  }
  return devices_with;
}

StagedCounts counts_of(const Plan& plan) {
  return staged_counts(plan.placement_of, plan.placements.size(), nullptr);
}

// Adds what the pipeline saves: most layers are stored on one stage, not on
// every device.
void add_pipeline(const Plan& plan, const StagedCounts& counts,
                  AxisSaving& saving) {
  Int128 all = 0;
  Int128 fullest = 0;
  std::vector<Int128> of_stage(counts.of_stage.size());
  for (size_t i = 0; i < plan.placements.size(); ++i) {
    const Placement& p = plan.placements[i];
    if (names_axis(p.spec, counts.axis)) continue;
    saving.sharded_tensors += counts.all[i];
    all += most_bytes(p, counts.all[i]);
    for (size_t stage = 0; stage < of_stage.size(); ++stage) {
      of_stage[stage] += most_bytes(p, counts.of_stage[stage][i]);
      fullest = std::max(fullest, of_stage[stage]);
    }
  }
  saving.saved_per_device += std::max<Int128>(all - fullest, 0);
}

// Sums over the groups of parameters that have equal keys.
template <typename KeyOf>
std::vector<GroupSum> group(const Plan& plan, const Folding& folding,
                            const ParameterStages* stages, KeyOf key_of) {
  std::vector<GroupSum> groups;
  std::unordered_map<std::string, size_t> numbers;
  const StagedCounts counts =
      staged_counts(folding.class_of, folding.classes.size(), stages);
  std::vector<std::vector<int64_t>> of_stage;  // per group
  for (size_t i = 0; i < folding.classes.size(); ++i) {
    const ParameterClass& c = folding.classes[i];
    const Placement& placement = plan.placements[c.kind];
    const std::string key = key_of(c, placement);
    const auto [entry, is_new] = numbers.try_emplace(key, groups.size());
    if (is_new) {
      groups.push_back({key, 0, 0, 0, 0});
      of_stage.emplace_back(counts.of_stage.size());
    }
    GroupSum& sums = groups[entry->second];
    sums.tensors += c.count;
    sums.elements += c.count * placement.type.elements();
    sums.bytes += c.count * placement.type.bytes();
    if (stages == nullptr || names_axis(placement.spec, stages->axis)) {
      sums.bytes_per_device +=
          most_held(placement.dealt, c.count) * placement.bytes_per_device;
      continue;
    }
    std::vector<int64_t>& held = of_stage[entry->second];
    for (size_t stage = 0; stage < held.size(); ++stage) {
      held[stage] += most_held(placement.dealt, counts.of_stage[stage][i]) *
                     placement.bytes_per_device;
    }
  }
  for (size_t i = 0; stages != nullptr && i < groups.size(); ++i) {
    groups[i].bytes_per_device += *std::ranges::max_element(of_stage[i]);
  }
  return groups;
}

}  // namespace

int64_t StagedCounts::most_of(size_t kind) const {
  if (of_stage.empty()) return all[kind];
  int64_t most = 0;
  for (const PlacementCounts& held : of_stage) {
    most = std::max(most, held[kind]);
  }
  return most;
}

int64_t StagedCounts::held(size_t kind) const {
  if (of_stage.empty()) return all[kind];
  int64_t sum = 0;
  for (const PlacementCounts& held : of_stage) sum += held[kind];
  return sum;
}

int64_t StagedCounts::everywhere(size_t kind) const {
  if (of_stage.size() < 2) return all[kind];
  return of_stage.size() == 2 ? held(kind) - all[kind] : 0;
}

StagedCounts staged_counts(std::span<const uint32_t> kind_of, size_t kinds,
                           const ParameterStages* stages) {
  StagedCounts counts;
  counts.all.resize(kinds);
  for (const uint32_t kind : kind_of) ++counts.all[kind];
  if (stages == nullptr) return counts;
  counts.axis = stages->axis;
  counts.of_stage.assign(to_size(stages->stages), PlacementCounts(kinds));
  for (size_t i = 0; i < kind_of.size(); ++i) {
    if (stages->is_on_all(i)) {
      for (PlacementCounts& held : counts.of_stage) ++held[kind_of[i]];
      continue;
    }
    const auto& [first, second] = stages->of[i];
    ++nth(counts.of_stage, first)[kind_of[i]];
    if (second >= 0) ++nth(counts.of_stage, second)[kind_of[i]];
  }
  return counts;
}

StagedCounts placed_counts(const Plan& plan, const StagedCounts& counts) {
  StagedCounts placed;
  placed.axis = counts.axis;
  placed.all.resize(plan.placements.size());
  placed.of_stage.assign(counts.of_stage.size(), placed.all);
  for (size_t kind = 0; kind < counts.all.size(); ++kind) {
    const uint32_t number = plan.placement_of[kind];
    placed.all[number] += counts.all[kind];
    for (size_t stage = 0; stage < counts.of_stage.size(); ++stage) {
      placed.of_stage[stage][number] += counts.of_stage[stage][kind];
    }
  }
  for (size_t i = 0; !placed.of_stage.empty() && i < placed.all.size(); ++i) {
    if (!names_axis(plan.placements[i].spec, placed.axis)) continue;
    for (PlacementCounts& held : placed.of_stage) held[i] = placed.all[i];
  }
  return placed;
}

std::optional<DeviceMemory> device_memory(const Manifest& manifest,
                                          const Plan& plan,
                                          Diagnostics& diags) {
  SHARDPLAN_CHECK(plan.placement_of.size() == manifest.size());
  return device_memory(plan, counts_of(plan), diags, nullptr);
}

std::optional<DeviceMemory> device_memory(const Plan& plan,
                                          const StagedCounts& counts,
                                          Diagnostics& diags, int64_t* work) {
  // The first device of a stage holds the first shard of every tensor, which is
  // the largest.
  std::vector<Int128> of_stage;
  for (const PlacementCounts& held : counts.of_stage) {
    of_stage.push_back(sum_bytes(plan, held));
  }
  if (of_stage.empty()) of_stage.push_back(sum_bytes(plan, counts.all));
  if (*std::ranges::max_element(of_stage) > INT64_MAX) {
    return diags.error(Code::InvalidMesh, {},
                       "one device holds more than 2^63 bytes");
  }
  std::optional<DevicesByBytes> devices_with;
  if (devices_differ(plan)) {
    // The sums above are only upper bounds: a tensor that is sharded over the
    // stages need not have its largest shard on the fullest stage, and a rank
    // that holds more of some experts may hold fewer of others.
    devices_with = different_classes(plan, counts, work);
  } else {
    devices_with.emplace();
    for (const Int128 bytes : of_stage) {
      (*devices_with)[static_cast<int64_t>(bytes)] +=
          plan.mesh.devices() / std::ssize(of_stage);
    }
  }
  if (!devices_with) {
    return diags
        .error(Code::InvalidMesh, {},
               "too many devices of this mesh hold different numbers of bytes")
        .help("use another `--on-indivisible` policy, or divisible sizes");
  }
  DeviceMemory memory;
  for (const auto& [bytes, devices] : *devices_with) {
    memory.classes.push_back({bytes, devices});
    memory.total += Int128{bytes} * devices;
  }
  memory.max = memory.classes.front().bytes;
  memory.min = memory.classes.back().bytes;
  // Divides the whole bytes and the remainder separately, so that rounding
  // keeps the mean between min and max.
  const Int128 devices = plan.mesh.devices();
  memory.mean = static_cast<double>(memory.total / devices) +
                static_cast<double>(memory.total % devices) /
                    static_cast<double>(devices);
  return memory;
}

Balance balance(const Plan& plan, const StagedCounts& counts,
                int64_t total_bytes, const DeviceMemory& memory) {
  Balance result;
  const auto stages = std::max<int64_t>(1, std::ssize(counts.of_stage));
  Int128 with_replicas = 0;
  Int128 unsharded = 0;
  for (size_t i = 0; i < plan.placements.size(); ++i) {
    const Placement& p = plan.placements[i];
    const Int128 bytes = p.type.bytes();
    const int64_t all = counts.all[i];
    const int64_t held = counts.held(i);
    // `held` counts a tensor whose spec names the stages' axis once per stage,
    // so that the product is divisible by `stages` even where `replicas` is
    // not.
    with_replicas += bytes * (Int128{p.replicas} * held / stages);
    if (p.replicas < plan.mesh.devices()) {
      result.sharded_tensors += all;
      result.sharded_elements += all * p.type.elements();
    } else {
      unsharded += bytes * counts.everywhere(i);
    }
  }
  const auto logical = static_cast<double>(total_bytes);
  if (total_bytes == 0) return result;
  const auto most = static_cast<double>(memory.max);
  result.balance_score = memory.mean / most;
  // Rounding must not raise the ratio above 1.
  result.efficiency = std::min(
      1.0, logical / (static_cast<double>(plan.mesh.devices()) * most));
  result.replication_factor = static_cast<double>(with_replicas) / logical;
  const Int128 padding = memory.total - with_replicas;
  // Only absurd meshes exceed 63 bits; their ratios are still meaningful.
  result.padding_bytes =
      static_cast<int64_t>(std::min<Int128>(padding, INT64_MAX));
  result.replicated_fraction = static_cast<double>(unsharded) / logical;
  return result;
}

Imbalance imbalance(const DeviceMemory& memory) {
  Imbalance result;
  double devices = 0;
  for (const DeviceClass& c : memory.classes) {
    devices += static_cast<double>(c.devices);
  }
  // If all devices store the same, rounding would leave values just above zero.
  if (memory.max == memory.min) return result;
  const auto total = static_cast<double>(memory.total);
  const double even = 1 / devices;
  for (const DeviceClass& c : memory.classes) {
    const double q = static_cast<double>(c.bytes) / total;
    const double gap = std::abs(q - even);
    const auto many = static_cast<double>(c.devices);
    result.total_variation = std::max(result.total_variation, gap);
    result.total_distance += many * gap;
    result.chi_square += many * gap * gap;
    if (q > 0) result.kl_divergence += many * q * std::log(devices * q);
  }
  result.total_variation /= 1 - even;
  result.total_distance /= 2 * (1 - even);
  result.chi_square *= devices / (devices - 1);
  result.kl_divergence /= std::log(devices);
  for (double* measure : {&result.total_variation, &result.total_distance,
                          &result.chi_square, &result.kl_divergence}) {
    *measure = std::clamp(*measure, 0.0, 1.0);
  }
  return result;
}

std::vector<Repetition> repetitions(const Plan& plan, const Folding& folding,
                                    const ParameterStages* stages) {
  std::vector<Repetition> result;
  const int64_t devices = plan.mesh.devices();
  const StagedCounts counts =
      staged_counts(folding.class_of, folding.classes.size(), stages);
  for (size_t i = 0; i < folding.classes.size(); ++i) {
    const ParameterClass& c = folding.classes[i];
    const Placement& p = plan.placements[c.kind];
    const bool staged = stages != nullptr && !names_axis(p.spec, stages->axis);
    // If a class is on two stages, all of its parameters are.
    const int64_t copies = staged ? counts.held(i) / counts.all[i] : 1;
    Repetition entry;
    entry.parameter_class = static_cast<uint32_t>(i);
    entry.replicas = staged ? p.replicas / stages->stages * copies : p.replicas;
    if (entry.replicas == 1 || p.type.bytes() == 0) continue;
    for (const Axis& axis : plan.mesh.axes_of(p.view)) {
      const bool shards = names_axis(p.spec, axis.name) ||
                          (p.dealt && p.dealt->axis == axis.name) ||
                          (staged && copies == 1 && axis.name == stages->axis);
      if (!shards && axis.size > 1) entry.over.push_back(axis.name);
    }
    const int64_t share = ceil_div(p.type.bytes(), devices);
    entry.extra_per_device =
        std::max<Int128>(most_bytes(p, staged ? counts.most_of(i) : c.count) -
                             Int128{c.count} * share,
                         0);
    result.push_back(std::move(entry));
  }
  std::ranges::stable_sort(result, std::ranges::greater(),
                           &Repetition::extra_per_device);
  return result;
}

std::vector<AxisSaving> axis_savings(const Plan& plan,
                                     const StagedCounts& counts) {
  std::vector<AxisSaving> result;
  for (const Axis& axis : plan.mesh.all_axes()) {
    AxisSaving saving{axis.name, axis.size, 0, 0};
    if (axis.size > 1 && axis.name == counts.axis) {
      add_pipeline(plan, counts, saving);
    }
    for (size_t i = 0; i < plan.placements.size(); ++i) {
      const Placement& placement = plan.placements[i];
      const bool is_dealt =
          placement.dealt && placement.dealt->axis == axis.name;
      if (axis.size == 1 ||
          !(is_dealt || names_axis(placement.spec, axis.name))) {
        continue;
      }
      Placement without = placement;
      for (AxisNames& axes : without.spec.dims) erase(axes, axis.name);
      if (is_dealt) without.dealt.reset();
      saving.sharded_tensors += counts.all[i];
      measure(without, plan.mesh, plan.on_indivisible);
      const int64_t count = counts.most_of(i);
      saving.saved_per_device +=
          most_bytes(without, count) - most_bytes(placement, count);
    }
    result.push_back(std::move(saving));
  }
  return result;
}

std::string module_of(std::string_view folded_name) {
  constexpr std::string_view kSeparators = "/.";
  size_t end = 0;
  for (int depth = 0; depth < 2; ++depth) {
    const size_t begin = end == 0 ? 0 : end + 1;
    const size_t stop = folded_name.find_first_of(kSeparators, begin);
    if (stop == std::string_view::npos ||
        folded_name.substr(begin, stop - begin) == "*") {
      break;
    }
    end = stop;
  }
  return std::string(end == 0 ? folded_name : folded_name.substr(0, end));
}

std::vector<GroupSum> by_dtype(const Plan& plan, const Folding& folding,
                               const ParameterStages* stages) {
  return group(plan, folding, stages,
               [](const ParameterClass&, const Placement& placement) {
                 return std::string(dtype_name(placement.type.dtype));
               });
}

std::vector<GroupSum> by_module(const Plan& plan, const Folding& folding,
                                const ParameterStages* stages) {
  return group(plan, folding, stages,
               [&](const ParameterClass& c, const Placement&) {
                 return module_of(folding.folded_names[c.folded]);
               });
}

std::vector<GroupSum> by_rule(const Plan& plan, const Folding& folding,
                              const ParameterStages* stages) {
  std::vector<GroupSum> groups = group(
      plan, folding, stages, [](const ParameterClass&, const Placement& p) {
        if (p.rule == 0) return std::string(p.requested ? "axes" : "none");
        return std::to_string(p.rule);
      });
  const auto number = [](const GroupSum& g) {
    if (g.name == "none") return INT32_MAX;
    return g.name == "axes" ? INT32_MAX - 1 : std::stoi(g.name);
  };
  std::ranges::stable_sort(groups, [&](const GroupSum& a, const GroupSum& b) {
    return number(a) < number(b);
  });
  return groups;
}

}  // namespace shardplan
