// SPDX-License-Identifier: Apache-2.0
#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace shardplan {

int thread_count(int jobs) {
  if (jobs > 0) return jobs;
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

void parallel_for(int64_t count, int threads,
                  const std::function<void(int64_t)>& work) {
  std::atomic<int64_t> next{0};
  const auto take = [&] {
    for (int64_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::thread> others;
  for (int64_t t = 1; t < std::min<int64_t>(threads, count); ++t) {
    others.emplace_back(take);
  }
  take();
  for (std::thread& other : others) other.join();
}

}  // namespace shardplan
