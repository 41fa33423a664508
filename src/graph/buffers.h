// SPDX-License-Identifier: Apache-2.0
// Memory for numbers: counted (base/allocation.h), and kept for the next that
// needs as much while somebody asks for that.
//
// A simulation lets go of a buffer and needs another of the same size some
// thousand times. Given back to the system and asked for again, its pages are
// made and cleared anew each time: a tenth of the run, in the system's time.
#pragma once

#include <cstdint>
#include <memory>

namespace shardplan {

// Throw std::bad_alloc where there is no such memory, or a limit forbids it.
std::shared_ptr<void> zeroed_buffer(int64_t bytes);
// With any numbers in it. REQUIRES: they are written before they are read.
std::shared_ptr<void> unfilled_buffer(int64_t bytes);

// While one lives, large buffers that are let go of are kept for the next of
// their size. What is kept, with what is held, is never more than what was held
// at once before: the peak of a run is the same without. It counts as
// allocated, and goes back before anything is refused for a limit, and with the
// last one that lives.
class KeptBuffers {
 public:
  KeptBuffers();
  ~KeptBuffers();
  KeptBuffers(const KeptBuffers&) = delete;
  KeptBuffers& operator=(const KeptBuffers&) = delete;
};

// Bytes that buffers hold, in the whole process.
struct BufferMemory {
  int64_t held = 0;  // that nobody has let go of
  int64_t peak = 0;  // the most of them since the last restart
  int64_t kept = 0;  // for the next
};
BufferMemory buffer_memory();
void restart_buffer_peak();  // from what is held now

}  // namespace shardplan
