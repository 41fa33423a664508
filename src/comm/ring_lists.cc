// SPDX-License-Identifier: Apache-2.0
#include "comm/ring_lists.h"

#include <string>

#include "base/check.h"
#include "base/text.h"
#include "comm/collective.h"
#include "comm/even_cut.h"

namespace shardplan {
namespace {

Schedule schedule_of(const char* algorithm, CollectiveKind kind, int devices) {
  return find_algorithm(algorithm)->schedule(kind, {devices, 1});
}

const char* ring_of(Shift shift) {
  return shift == Shift::Up ? "ring" : "ring-down";
}

// [device]: the chunks in the order in which they come from the neighbour
// `offset` away.
SourceLists arrivals(const Schedule& schedule, int offset) {
  const int n = schedule.ranks;
  SourceLists lists(static_cast<size_t>(n));
  for (const Step& step : schedule.steps) {
    for (const Transfer& t : step) {
      if (t.source != wrap(t.target + offset, n)) continue;
      lists[static_cast<size_t>(t.target)].push_back(t.first_chunk);
    }
  }
  return lists;
}

constexpr int kBelow = -1;
constexpr int kAbove = 1;

}  // namespace

SourceLists async_gather(int devices, Shift shift) {
  const Schedule schedule =
      schedule_of(ring_of(shift), CollectiveKind::AllGather, devices);
  SourceLists lists = arrivals(schedule, shift == Shift::Up ? kBelow : kAbove);
  for (int device = 0; device < devices; ++device) {
    auto& list = lists[static_cast<size_t>(device)];
    list.insert(list.begin(), device);
  }
  return lists;
}

SourceLists async_gather_bidirectional(int devices, Shift shift) {
  const Schedule schedule =
      schedule_of("bidirectional-ring", CollectiveKind::AllGather, devices);
  const SourceLists from_below = arrivals(schedule, kBelow);
  // Of two devices the one above is the one below; nothing comes down.
  const SourceLists from_above =
      devices > 2 ? arrivals(schedule, kAbove) : SourceLists(from_below.size());
  SourceLists lists;
  for (size_t device = 0; device < from_below.size(); ++device) {
    const bool up = shift == Shift::Up;
    std::vector<int> list = {static_cast<int>(device)};
    const auto& near = up ? from_below[device] : from_above[device];
    const auto& far = up ? from_above[device] : from_below[device];
    list.insert(list.end(), near.begin(), near.end());
    list.insert(list.end(), far.rbegin(), far.rend());
    lists.push_back(std::move(list));
  }
  return lists;
}

std::optional<std::vector<std::vector<ShardHalf>>> async_gather_split(
    int devices, int64_t features, Diagnostics& diags) {
  if (features % 2 != 0) {
    return diags
        .error(Code::Usage, {},
               "a shard of " + plural(features, "feature") +
                   " cannot be split in two equal halves")
        .help("the split ring needs an even number of features");
  }
  const Schedule schedule =
      schedule_of("split-ring", CollectiveKind::AllGather, devices);
  std::vector<std::vector<ShardHalf>> lists(static_cast<size_t>(devices));
  for (int half = 0; half < 2; ++half) {
    for (int device = 0; device < devices; ++device) {
      lists[static_cast<size_t>(device)].push_back({device, half});
    }
    for (const Step& step : schedule.steps) {
      for (const Transfer& t : step) {
        if (t.first_chunk % 2 != half) continue;
        lists[static_cast<size_t>(t.target)].push_back(
            {t.first_chunk / 2, half});
      }
    }
  }
  return lists;
}

int scatter_target(int devices, int device, int element, Shift shift) {
  const int away = shift == Shift::Up ? -1 - element : 1 + element;
  return static_cast<int>(wrap(int64_t{device} + away, devices));
}

bool check_lists(const std::vector<size_t>& lengths, Diagnostics& diags) {
  for (const size_t length : lengths) {
    if (length == lengths.size()) continue;
    diags
        .error(Code::Usage, {},
               "a list of " + plural(static_cast<int64_t>(length), "shard") +
                   " cannot be scattered over an axis of size " +
                   std::to_string(lengths.size()))
        .help("each device needs one shard for every device of the axis");
    return false;
  }
  return true;
}

Schedule scatter_schedule(int devices, Shift shift) {
  return schedule_of(ring_of(shift), CollectiveKind::ReduceScatter, devices);
}

Schedule split_scatter_schedule(int devices) {
  return schedule_of("split-ring", CollectiveKind::ReduceScatter, devices);
}

std::vector<Slice> split_array_over_mesh(int64_t size, int devices) {
  SHARDPLAN_CHECK(size >= 0 && devices >= 1);
  const int64_t each = size / devices;
  std::vector<Slice> slices;
  for (int64_t device = 0; device < devices; ++device) {
    slices.push_back({device * each, (device + 1) * each});
  }
  return slices;
}

}  // namespace shardplan
