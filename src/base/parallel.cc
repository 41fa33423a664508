// SPDX-License-Identifier: Apache-2.0
#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "base/allocation.h"
#include "base/checked.h"

namespace shardplan {

int thread_count(int jobs) {
  if (jobs > 0) return jobs;
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

void parallel_for(int64_t count, int threads,
                  const std::function<void(int64_t)>& work, int64_t startable) {
  std::atomic<int64_t> next{0};
  std::mutex mutex;
  std::exception_ptr problem;
  // Must not throw: an exception that leaves a thread's function ends the
  // program.
  const auto take = [&] {
    try {
      for (int64_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (!problem) problem = std::current_exception();
    }
  };
  // More threads are never faster, regardless of `--jobs`.
  constexpr int64_t kMostThreads = 256;
  const int64_t most = std::min({int64_t{threads}, count, kMostThreads});
  std::vector<std::thread> others;
  try {
    others.reserve(to_size(std::max<int64_t>(most, 1) - 1));
    for (int64_t t = 1; t < most; ++t) {
      if (t > startable) {
        throw std::system_error(
            std::make_error_code(std::errc::resource_unavailable_try_again));
      }
      others.emplace_back([&take] {
        take();
        flush_thread_allocations();
      });
    }
  } catch (const std::system_error&) {
    // The system cannot start more threads; the existing ones do the work.
  } catch (const std::bad_alloc&) {
    // There is no memory for another thread.
  }
  take();
  for (std::thread& other : others) other.join();
  if (problem) std::rethrow_exception(problem);
}

}  // namespace shardplan
