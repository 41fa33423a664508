// SPDX-License-Identifier: Apache-2.0
#include "io/resolved_table.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace shardplan {
namespace {

bool separates(char c) { return c == '/' || c == '.'; }

bool is_number(std::string_view part) {
  return !part.empty() && std::all_of(part.begin(), part.end(), [](char c) {
    return c >= '0' && c <= '9';
  });
}

// The name's pattern with every number in its place. Two names have the same
// one exactly if each is found by it.
std::string numbered_pattern(std::string_view name) {
  std::string pattern = "^";
  for (size_t begin = 0; begin <= name.size();) {
    size_t end = begin;
    while (end < name.size() && !separates(name[end])) ++end;
    const std::string_view part = name.substr(begin, end - begin);
    if (is_number(part)) {
      pattern += "[0-9]+";
    } else {
      const std::string exact = exact_pattern(part);
      pattern.append(exact, 1, exact.size() - 2);
    }
    if (end < name.size()) pattern += name[end] == '.' ? "\\." : "/";
    begin = end + 1;
  }
  return pattern + "$";
}

// Parameters of one pattern.
struct Likes {
  size_t first = 0;
  bool one_spec = true;
};

}  // namespace

bool is_left_out(const ExportInput& input, size_t parameter) {
  return !input.replicate_unmatched &&
         input.plan.is_unmatched(input.plan.of(parameter));
}

ResolvedTable resolved_table(const ExportInput& input) {
  const Manifest& manifest = input.manifest;
  std::unordered_map<std::string, size_t> number_of;
  std::vector<Likes> groups;
  std::vector<size_t> group_of;
  group_of.reserve(manifest.size());
  for (size_t i = 0; i < manifest.size(); ++i) {
    const auto [entry, is_new] = number_of.try_emplace(
        numbered_pattern(manifest.name(i)), groups.size());
    if (is_new) groups.push_back({i, true});
    group_of.push_back(entry->second);
    Likes& group = groups[entry->second];
    group.one_spec = group.one_spec &&
                     is_left_out(input, i) == is_left_out(input, group.first) &&
                     input.plan.of(i).spec == input.plan.of(group.first).spec;
  }
  std::vector<int64_t> members(groups.size());
  for (const size_t group : group_of) ++members[group];

  ResolvedTable table;
  for (size_t i = 0; i < manifest.size(); ++i) {
    if (is_left_out(input, i)) {
      ++table.left_out;
      continue;
    }
    const Likes& group = groups[group_of[i]];
    const bool folded = group.one_spec && members[group_of[i]] > 1;
    if (folded && group.first != i) continue;
    table.entries.push_back({folded ? numbered_pattern(manifest.name(i))
                                    : exact_pattern(manifest.name(i)),
                             input.plan.of(i).spec});
  }
  return table;
}

}  // namespace shardplan
