// SPDX-License-Identifier: Apache-2.0
#include "resolve/group.h"

#include <algorithm>
#include <unordered_map>

namespace shardplan {
namespace {

template <typename KeyOf>
std::vector<Group> group(const Plan& plan, const Folding& folding,
                         KeyOf key_of) {
  std::vector<Group> groups;
  std::unordered_map<std::string, size_t> numbers;
  for (const ParameterClass& c : folding.classes) {
    const Placement& placement = plan.placements[c.kind];
    const std::string key = key_of(c, placement);
    const auto [entry, is_new] = numbers.try_emplace(key, groups.size());
    if (is_new) groups.push_back({key, 0, 0, 0, 0});
    Group& sums = groups[entry->second];
    sums.tensors += c.count;
    sums.elements += c.count * placement.type.elements();
    sums.bytes += c.count * placement.type.bytes();
    sums.bytes_per_device += c.count * placement.bytes_per_device;
  }
  return groups;
}

}  // namespace

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

std::vector<Group> by_dtype(const Plan& plan, const Folding& folding) {
  return group(plan, folding,
               [](const ParameterClass&, const Placement& placement) {
                 return std::string(dtype_name(placement.type.dtype));
               });
}

std::vector<Group> by_module(const Plan& plan, const Folding& folding) {
  return group(plan, folding, [&](const ParameterClass& c, const Placement&) {
    return module_of(folding.folded_names[c.folded]);
  });
}

std::vector<Group> by_rule(const Plan& plan, const Folding& folding) {
  std::vector<Group> groups =
      group(plan, folding, [](const ParameterClass&, const Placement& p) {
        if (p.rule == 0) return std::string(p.requested ? "axes" : "none");
        return std::to_string(p.rule);
      });
  const auto number = [](const Group& g) {
    if (g.name == "none") return INT32_MAX;
    return g.name == "axes" ? INT32_MAX - 1 : std::stoi(g.name);
  };
  std::stable_sort(
      groups.begin(), groups.end(),
      [&](const Group& a, const Group& b) { return number(a) < number(b); });
  return groups;
}

}  // namespace shardplan
