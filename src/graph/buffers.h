// SPDX-License-Identifier: Apache-2.0
// Buffers: memory for the numbers of tensors, which is counted
// (base/allocation.h) and, on request, cached for reuse.
//
// A simulation frees a buffer and allocates another of the same size some
// thousand times. If each buffer went back to the system, its pages would be
// mapped and cleared every time, which costs a tenth of the run in system time.
#pragma once

#include <cstdint>
#include <memory>

namespace shardplan {

// Both throw std::bad_alloc if memory runs out or a limit forbids the
// allocation.
std::shared_ptr<void> zeroed_buffer(int64_t bytes);
// Returns a buffer with undefined contents. REQUIRES: they are written before
// they are read.
std::shared_ptr<void> unfilled_buffer(int64_t bytes);

// While a BufferCache exists, large buffers that are freed are cached for the
// next request of the same size. Cached and used bytes together never exceed
// the most that was used at once before, so the peak of a run is the same as
// without the cache. Cached buffers count as allocated. They are freed before
// an allocation is refused for a limit, and when the last BufferCache is
// destroyed.
class BufferCache {
 public:
  BufferCache();
  ~BufferCache();
  BufferCache(const BufferCache&) = delete;
  BufferCache& operator=(const BufferCache&) = delete;
};

// Bytes of buffers, and so of tensors, in the whole process; mapped files do
// not count.
struct BufferMemory {
  int64_t held = 0;    // in use
  int64_t peak = 0;    // the most in use since the last restart
  int64_t cached = 0;  // free, for reuse
};
BufferMemory buffer_memory();
void restart_buffer_peak();  // sets the peak to what is held now

}  // namespace shardplan
