// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/runner/ring.h"

#include <string>

#include "base/checked.h"
#include "base/text.h"
#include "comm/collective.h"
#include "tests/conformance/runner/vector_case.h"

namespace shardplan {
namespace {

Schedule schedule_of(const char* algorithm, CollectiveKind kind, int devices) {
  return find_algorithm(algorithm)->schedule(kind, {devices, 1});
}

const char* ring_of(Shift shift) {
  return shift == Shift::Up ? "ring" : "ring-down";
}

// Returns, per device, the chunks in the order in which they arrive from the
// neighbour at distance `offset`.
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
  // With two devices both neighbours are the same device, and nothing comes
  // down.
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

namespace shardplan::conformance {
// Conformance of xlstm_jax: the ring functions of tensor_parallel, and
// split_array_over_mesh.
//
// Devices are simulated. If a case gives no values, the elements are symbols:
// `d0k1e2` is the value that device 0 put at feature 2 of list element 1. A sum
// is written with brackets around its two operands, the one that arrived first.

namespace {

int devices_of(const Json& inputs) { return inputs.at("n").get<int>(); }

Shift shift_of(const Json& inputs) {
  return inputs.value("shift_up", true) ? Shift::Up : Shift::Down;
}

std::string symbol(size_t device, size_t element) {
  return "d" + std::to_string(device) + "k" + std::to_string(element);
}

// Adds element by element, numbers in the precision of the case.
struct Add {
  bool single = false;

  Json operator()(const Json& arriving, const Json& own) const {
    if (own.is_array()) {
      Json sums = Json::array();
      for (size_t i = 0; i < own.size(); ++i) {
        sums.push_back((*this)(arriving.at(i), own.at(i)));
      }
      return sums;
    }
    if (own.is_string()) {
      return "(" + arriving.get<std::string>() + "+" + own.get<std::string>() +
             ")";
    }
    if (single) return arriving.get<float>() + own.get<float>();
    return arriving.get<double>() + own.get<double>();
  }
};

Add add_of(const Json& inputs) {
  return {inputs.value("dtype", "float32") == "float32"};
}

// Returns [device][k]: the given values, or symbols; `symbol_of` makes one
// element.
template <typename Element, typename SymbolOf>
std::vector<std::vector<Element>> lists_of(const Json& inputs,
                                           SymbolOf symbol_of) {
  std::vector<std::vector<Element>> lists;
  if (inputs.contains("xs[d][k]")) {
    for (const Json& list : inputs.at("xs[d][k]")) {
      lists.push_back(list.get<std::vector<Element>>());
    }
    return lists;
  }
  const auto devices = inputs.at("n").get<size_t>();
  const size_t elements = inputs.value("len_xs", devices);
  for (size_t device = 0; device < devices; ++device) {
    auto& list = lists.emplace_back();
    for (size_t k = 0; k < elements; ++k) {
      list.push_back(symbol_of(symbol(device, k)));
    }
  }
  return lists;
}

Answer gather(const Json& inputs) {
  return {async_gather(devices_of(inputs), shift_of(inputs)), std::nullopt, ""};
}

Answer gather_bidirectional(const Json& inputs) {
  return {async_gather_bidirectional(devices_of(inputs), shift_of(inputs)),
          std::nullopt, ""};
}

Answer gather_split(const Json& inputs) {
  const auto features = inputs.at("feature_dim").get<int64_t>();
  Diagnostics diags;
  const auto lists = async_gather_split(devices_of(inputs), features, diags);
  if (!lists) return refusal(diags);
  Json answer = Json::array();
  for (const auto& list : *lists) {
    Json entries = Json::array();
    for (const ShardHalf& half : list) {
      Json entry = Json::array();
      for (int64_t i = 0; i < features / 2; ++i) {
        entry.push_back("d" + std::to_string(half.source) + "e" +
                        std::to_string(half.half * (features / 2) + i));
      }
      entries.push_back(entry);
    }
    answer.push_back(entries);
  }
  return {answer, std::nullopt, ""};
}

Answer scatter(const Json& inputs) {
  Diagnostics diags;
  const auto sums = async_scatter(
      lists_of<Json>(inputs, [](const std::string& name) { return name; }),
      shift_of(inputs), add_of(inputs), diags);
  if (!sums) return refusal(diags);
  return {*sums, std::nullopt, ""};
}

Answer scatter_split(const Json& inputs) {
  using Features = std::vector<Json>;
  const auto features = inputs.value("feature_dim", 0);
  Diagnostics diags;
  const auto sums = async_scatter_split(
      lists_of<Features>(inputs,
                         [&](const std::string& name) {
                           Features element;
                           for (int i = 0; i < features; ++i) {
                             element.push_back(name + "e" + std::to_string(i));
                           }
                           return element;
                         }),
      add_of(inputs), diags);
  if (!sums) return refusal(diags);
  return {*sums, std::nullopt, ""};
}

// Returns 0, 1, 2, .. in a shape, as nested lists; dimension `axis` is reduced
// to the slice.
Json arange(const Shape& shape, size_t axis, Slice slice, size_t dim,
            int64_t first) {
  if (dim == shape.size()) return first;
  int64_t stride = 1;
  for (size_t i = dim + 1; i < shape.size(); ++i) stride *= shape[i];
  const Slice all{0, shape[dim]};
  const Slice kept = dim == axis ? slice : all;
  Json list = Json::array();
  for (int64_t i = kept.begin; i < kept.end; ++i) {
    list.push_back(arange(shape, axis, slice, dim + 1, first + i * stride));
  }
  return list;
}

Answer split_array(const Json& inputs) {
  const auto shape = inputs.at("shape").get<Shape>();
  const auto rank = static_cast<int64_t>(shape.size());
  auto axis = inputs.at("split_axis").get<int64_t>();
  if (axis < 0) axis += rank;  // negative axes count from the end, as in Python
  if (axis < 0 || axis >= rank) {
    return {nullptr, Code::Usage, "no such dimension"};
  }
  const auto split = static_cast<size_t>(axis);
  Json answer = Json::array();
  for (const Slice& slice :
       split_array_over_mesh(shape[split], devices_of(inputs))) {
    answer.push_back(arange(shape, split, slice, 0, 0));
  }
  return {answer, std::nullopt, ""};
}

bool is_same_list_error(const Answer& answer, const Json& error) {
  const auto message = error.at("message").get<std::string>();
  const bool length = message.starts_with("Number of shards");
  return answer.refused == Code::Usage &&
         answer.message.starts_with(length ? "a list of" : "a shard of") &&
         error.at("type") == (length ? "AssertionError" : "ValueError");
}

bool is_same_ring_error(const Answer& answer, const Json& error) {
  return answer.refused == Code::Usage && error.at("type") == "IndexError";
}

}  // namespace

const std::vector<Function>& ring_functions() {
  static const std::vector<Function> kFunctions = {
      {"async_gather", gather, is_same_list_error},
      {"async_gather_bidirectional", gather_bidirectional, is_same_list_error},
      {"async_gather_split", gather_split, is_same_list_error},
      {"async_scatter", scatter, is_same_list_error},
      {"async_scatter_split", scatter_split, is_same_list_error},
      {"split_array_over_mesh", split_array, is_same_ring_error},
  };
  return kFunctions;
}

}  // namespace shardplan::conformance
