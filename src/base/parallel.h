// SPDX-License-Identifier: Apache-2.0
// Our own threads, over pieces of work that are fixed beforehand.
//
// What a piece computes may not depend on which thread takes it or when, so
// that results are the same for any number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>

namespace shardplan {

// Threads to use for `--jobs N`: N, or one per processor for 0.
int thread_count(int jobs);

// Calls work(0) .. work(count - 1), each once, on up to `threads` threads, the
// caller's among them; on fewer where the system starts no more, down to the
// caller's alone. What `work` throws is thrown to the caller when all threads
// have ended; pieces that nobody has begun by then are left out.
// For tests: `startable` threads besides the caller's start, and then no more.
void parallel_for(int64_t count, int threads,
                  const std::function<void(int64_t)>& work,
                  int64_t startable = std::numeric_limits<int64_t>::max());

}  // namespace shardplan
