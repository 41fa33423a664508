// SPDX-License-Identifier: Apache-2.0
#include "base/parallel.h"

#include <vector>

#include <doctest/doctest.h>

namespace shardplan {
namespace {

TEST_CASE(
    "parallel: every piece is worked on once, for any number of threads") {
  for (const int threads : {1, 2, 3, 8}) {
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

}  // namespace
}  // namespace shardplan
