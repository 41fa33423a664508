// SPDX-License-Identifier: Apache-2.0
// parallel_for: runs pieces of work that are fixed in advance on several
// threads.
//
// The result of a piece may not depend on the thread that runs it or on the
// time, so that results are the same for any number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>

namespace shardplan {

// The number of threads for `--jobs N`: N, or one per processor for 0.
int thread_count(int jobs);

// Calls work(0) .. work(count - 1), each once, on up to `threads` threads
// including the caller's. If the system cannot start more threads, fewer are
// used, down to the caller's alone. Rethrows an exception of `work` in the
// caller when all threads have ended; pieces not begun by then are skipped. For
// tests: at most `startable` threads besides the caller's can be started.
void parallel_for(int64_t count, int threads,
                  const std::function<void(int64_t)>& work,
                  int64_t startable = std::numeric_limits<int64_t>::max());

}  // namespace shardplan
