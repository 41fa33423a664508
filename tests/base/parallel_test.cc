// SPDX-License-Identifier: Apache-2.0
#include "base/parallel.h"

#include <atomic>
#include <new>
#include <stdexcept>
#include <vector>

#include <doctest/doctest.h>

#include "base/allocation.h"

namespace shardplan {
namespace {

TEST_CASE(
    "parallel: every piece is worked on once, for any number of threads") {
  for (const int threads : {1, 2, 3, 8, 1'000'000}) {
    for (const int64_t count : {0, 1, 2, 7, 1000}) {
      std::vector<int> done(static_cast<size_t>(count));
      parallel_for(count, threads,
                   [&](int64_t i) { ++done[static_cast<size_t>(i)]; });
      CHECK(done == std::vector<int>(static_cast<size_t>(count), 1));
    }
  }
}

TEST_CASE("parallel: --jobs N is N threads, and 0 as many as processors") {
  CHECK(thread_count(3) == 3);
  CHECK(thread_count(0) >= 1);
}

// Threads that cannot start ended the program: by std::terminate where some had
// started before, else as a bug in shardplan.
TEST_CASE("parallel: where threads cannot start, fewer do the work") {
  for (const int64_t startable : {0, 1, 2, 7}) {
    CAPTURE(startable);
    std::vector<int> done(1000);
    parallel_for(
        1000, 8, [&](int64_t i) { ++done[static_cast<size_t>(i)]; }, startable);
    CHECK(done == std::vector<int>(1000, 1));
  }
}

// What a piece of work threw on a thread of its own ended the program.
TEST_CASE("parallel: what a piece throws reaches the caller, once all ended") {
  for (const int threads : {1, 2, 8}) {
    for (const int64_t bad : {0, 1, 99}) {
      CAPTURE(threads);
      CAPTURE(bad);
      std::atomic<int> running{0};
      const auto work = [&](int64_t i) {
        ++running;
        if (i == bad) {
          --running;
          throw std::bad_alloc();
        }
        --running;
      };
      CHECK_THROWS_AS(parallel_for(100, threads, work), std::bad_alloc);
      CHECK(running == 0);
    }
  }
  CHECK_THROWS_AS(
      parallel_for(4, 4,
                   [](int64_t) { throw std::runtime_error("every piece"); }),
      std::runtime_error);
}

TEST_CASE("parallel: without memory for a thread, fewer do the work") {
  if (!kCountsAllocations) return;
  for (int64_t n = 0; n < 12; ++n) {
    CAPTURE(n);
    std::vector<int> done(100);
    fail_allocation(n);
    parallel_for(100, 4, [&](int64_t i) { ++done[static_cast<size_t>(i)]; });
    fail_allocation(-1);
    CHECK(done == std::vector<int>(100, 1));
  }
}

TEST_CASE("parallel: threads leave nothing in the count of what is held") {
  const auto work = [](int64_t) { std::vector<int> some(1000, 1); };
  parallel_for(64, 4, work);
  const int64_t before = allocated_bytes();
  for (int round = 0; round < 200; ++round) parallel_for(64, 4, work);
  CHECK(allocated_bytes() == before);
}

}  // namespace
}  // namespace shardplan
