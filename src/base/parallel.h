// SPDX-License-Identifier: Apache-2.0
// Our own threads, over pieces of work that are fixed beforehand.
//
// What a piece computes may not depend on which thread takes it or when, so
// that results are the same for any number of threads.
#pragma once

#include <cstdint>
#include <functional>

namespace shardplan {

// Threads to use for `--jobs N`: N, or one per processor for 0.
int thread_count(int jobs);

// Calls work(0) .. work(count - 1), each once, on up to `threads` threads, the
// caller's among them. REQUIRES: `work` throws nothing.
void parallel_for(int64_t count, int threads,
                  const std::function<void(int64_t)>& work);

}  // namespace shardplan
