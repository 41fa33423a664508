// SPDX-License-Identifier: Apache-2.0
// Reads how much memory there is from the files of the system.
#include "cli/host_memory.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "base/allocation.h"
#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"

namespace shardplan::cli {
namespace {

// The limit that a control group reports if it has none, or nearly none.
constexpr int64_t kUnlimited = int64_t{1} << 60U;
// Longer than the part of a system file that we need.
constexpr int64_t kHeadBytes = int64_t{1} << 16U;

std::string text_of(const std::string& path, Host& host) {
  std::string why;
  const auto bytes = host.read_file(path, kHeadBytes, why);
  return bytes == nullptr ? std::string() : std::string(bytes->view());
}

// Returns the number that a text begins with.
std::optional<int64_t> leading_number(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  int64_t value = 0;
  const auto result =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || value <= 0) return std::nullopt;
  return value;
}

// Returns the rest of the first line that begins with `key`.
std::string_view rest_of_line(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::string_view line = next_line(text);
    if (line.starts_with(key)) return line.substr(key.size());
  }
  return {};
}

// Reads "MemTotal:       24586364 kB".
std::optional<int64_t> physical_memory(Host& host) {
  const std::string text = text_of("/proc/meminfo", host);
  const auto kibibytes = leading_number(rest_of_line(text, "MemTotal:"));
  return kibibytes ? checked_mul(*kibibytes, 1024) : std::nullopt;
}

// Returns the smallest limit of this process's control group and its ancestors.
std::optional<int64_t> group_limit(Host& host) {
  std::optional<int64_t> least;
  const auto look = [&](const std::string& path) {
    const auto limit = leading_number(text_of(path, host));
    if (limit && *limit < kUnlimited)
      least = std::min(*limit, least.value_or(*limit));
  };
  const std::string groups = text_of("/proc/self/cgroup", host);
  std::string group(rest_of_line(groups, "0::"));
  while (!group.empty() && group.back() == '/') group.pop_back();
  for (;;) {
    look("/sys/fs/cgroup" + group + "/memory.max");
    if (group.empty()) break;
    group.resize(std::min(group.rfind('/'), group.size()));
  }
  look("/sys/fs/cgroup/memory/memory.limit_in_bytes");  // version 1
  return least;
}

}  // namespace

std::optional<int64_t> default_max_memory(Host& host) {
  const std::optional<int64_t> physical = physical_memory(host);
  const std::optional<int64_t> group = group_limit(host);
  if (!physical && !group) return std::nullopt;
  const int64_t whole =
      std::min(physical.value_or(kUnlimited), group.value_or(kUnlimited));
  return whole / 4 * 3;
}

void report_no_memory(std::string_view command, Diagnostics& diags) {
  const Refusal refusal = last_refusal();
  const bool limited = refusal.limit > 0 && refusal.limit < kUnlimited;
  auto problem = diags.error(Code::MemoryBudget, {},
                             limited ? "this run needs more than the " +
                                           bytes_text(refusal.limit) +
                                           " of memory that shardplan may use"
                                     : "the system is out of memory");
  const std::string work(current_work());
  if (!work.empty()) problem.fact("during: " + work);
  problem.fact("it held " + bytes_text(std::max<int64_t>(0, refusal.held)) +
               " and requested " + bytes_text(refusal.requested) + " more");
  if (limited)
    problem.help(
        "`--max-memory SIZE` sets the limit (default: three quarters of the "
        "machine's memory)");
  if (command == "simulate") {
    problem.help(
        "reduce `--tokens`, `--layers` or `--dims`, or use `--shrink`");
  }
}

}  // namespace shardplan::cli
