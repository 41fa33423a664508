// SPDX-License-Identifier: Apache-2.0
// Schedules as short texts: "0>1:3 1>0:0-2+ | 2>0:1" is two steps; in the
// first, rank 0 sends chunk 3 to rank 1, which sends 0 to 2 to be added.
#pragma once

#include <string>

#include "comm/collective.h"

namespace shardplan::testing {

inline std::string transfer_text(const Transfer& t) {
  std::string text = std::to_string(t.source) + ">" + std::to_string(t.target) +
                     ":" + std::to_string(t.first_chunk);
  if (t.chunk_count > 1) {
    text += "-" + std::to_string(t.first_chunk + t.chunk_count - 1);
  }
  return text + (t.reduce ? "+" : "");
}

inline std::string schedule_text(const Schedule& schedule) {
  std::string text;
  for (const Step& step : schedule.steps) {
    if (!text.empty()) text += " | ";
    std::string transfers;
    for (const Transfer& t : step) {
      transfers += (transfers.empty() ? "" : " ") + transfer_text(t);
    }
    text += transfers;
  }
  return text;
}

inline std::string schedule_text(const char* algorithm, CollectiveKind kind,
                                 int count, int inner = 1) {
  return schedule_text(
      find_algorithm(algorithm)->schedule(kind, {count, inner}));
}

inline size_t steps(const char* algorithm, CollectiveKind kind, int count,
                    int inner = 1) {
  return find_algorithm(algorithm)->schedule(kind, {count, inner}).steps.size();
}

}  // namespace shardplan::testing
