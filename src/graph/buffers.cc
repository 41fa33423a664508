// SPDX-License-Identifier: Apache-2.0
// Counts buffers, and caches free ones in a list from the newest to the oldest.
#include "graph/buffers.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#include "base/allocation.h"
#include "base/checked.h"

#if defined(__SANITIZE_ADDRESS__)
#define SHARDPLAN_POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SHARDPLAN_POISONS 1
#endif
#endif
#ifdef SHARDPLAN_POISONS
#include <sanitizer/asan_interface.h>
#endif

namespace shardplan {
namespace {

// The C library itself caches smaller buffers.
constexpr int64_t kLeast = int64_t{1} << 16U;

// The header of a cached buffer, stored at its start. It needs no allocation of
// its own, because buffers are also freed in the middle of an allocation.
struct CachedBuffer {
  int64_t bytes = 0;
  CachedBuffer* newer = nullptr;
  CachedBuffer* older = nullptr;
};

// Makes AddressSanitizer report any access to a cached buffer.
void close([[maybe_unused]] CachedBuffer* buffer) {
#ifdef SHARDPLAN_POISONS
  ASAN_POISON_MEMORY_REGION(buffer + 1,
                            to_size(buffer->bytes) - sizeof(CachedBuffer));
#endif
}
void open([[maybe_unused]] CachedBuffer* buffer) {
#ifdef SHARDPLAN_POISONS
  ASAN_UNPOISON_MEMORY_REGION(buffer, to_size(buffer->bytes));
#endif
}

class Store {
 public:
  // Returns a cached buffer, or null if there is none of this size.
  void* take(int64_t bytes) {
    if (bytes < kLeast) return nullptr;
    const std::lock_guard lock(mutex_);
    CachedBuffer* found = newest_;
    while (found != nullptr && found->bytes != bytes) found = found->older;
    if (found == nullptr) return nullptr;
    unlink(found);
    open(found);
    count(bytes);
    return found;
  }

  // Counts a buffer that is to be allocated, and frees cached ones to make
  // room.
  void make_room(int64_t bytes) {
    CachedBuffer* unlinked = nullptr;
    {
      const std::lock_guard lock(mutex_);
      count(bytes);
      while (oldest_ != nullptr &&
             memory_.held + memory_.cached > peak_in_use_) {
        unlinked = unlink_oldest(unlinked);
      }
    }
    free_all(unlinked);
  }

  // Subtracts a buffer that could not be allocated from the count.
  void uncount(int64_t bytes) {
    const std::lock_guard lock(mutex_);
    memory_.held -= bytes;
  }

  void release(void* memory, int64_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      memory_.held -= bytes;
      if (users_ > 0 && bytes >= kLeast) {
        auto* const buffer = new (memory) CachedBuffer{bytes, nullptr, newest_};
        (newest_ != nullptr ? newest_->newer : oldest_) = buffer;
        newest_ = buffer;
        memory_.cached += bytes;
        close(buffer);
        return;
      }
    }
    std::free(memory);
    release_memory(bytes);
  }

  bool empty() {
    CachedBuffer* unlinked = nullptr;
    {
      const std::lock_guard lock(mutex_);
      while (oldest_ != nullptr) unlinked = unlink_oldest(unlinked);
    }
    return free_all(unlinked);
  }

  void add_user() {
    const std::lock_guard lock(mutex_);
    if (users_++ == 0) peak_in_use_ = memory_.held;
  }
  void remove_user() {
    {
      const std::lock_guard lock(mutex_);
      if (--users_ > 0) return;
    }
    empty();
  }

  BufferMemory memory() {
    const std::lock_guard lock(mutex_);
    return memory_;
  }
  void restart_peak() {
    const std::lock_guard lock(mutex_);
    memory_.peak = memory_.held;
  }

 private:
  void count(int64_t bytes) {
    memory_.held += bytes;
    memory_.peak = std::max(memory_.peak, memory_.held);
    peak_in_use_ = std::max(peak_in_use_, memory_.held);
  }

  void unlink(CachedBuffer* buffer) {
    (buffer->newer != nullptr ? buffer->newer->older : newest_) = buffer->older;
    (buffer->older != nullptr ? buffer->older->newer : oldest_) = buffer->newer;
    memory_.cached -= buffer->bytes;
  }
  // Puts the oldest buffer before those in `unlinked`, and returns that list.
  CachedBuffer* unlink_oldest(CachedBuffer* unlinked) {
    CachedBuffer* const buffer = oldest_;
    unlink(buffer);
    buffer->older = unlinked;
    return buffer;
  }
  static bool free_all(CachedBuffer* unlinked) {
    const bool any = unlinked != nullptr;
    while (unlinked != nullptr) {
      CachedBuffer* const next = unlinked->older;
      const int64_t bytes = unlinked->bytes;
      open(unlinked);
      std::free(unlinked);
      release_memory(bytes);
      unlinked = next;
    }
    return any;
  }

  std::mutex mutex_;
  int users_ = 0;
  int64_t peak_in_use_ = 0;  // since the first BufferCache
  CachedBuffer* newest_ = nullptr;
  CachedBuffer* oldest_ = nullptr;
  BufferMemory memory_;
};

// Never destroyed, because buffers may be freed when the program ends.
Store& store() {
  static Store& the = *new Store;
  return the;
}

std::shared_ptr<void> owned(void* memory, int64_t bytes) {
  // If this throws, the deleter has run already.
  return {memory, [bytes](void* given) { store().release(given, bytes); }};
}

void* allocate(int64_t bytes, bool zeroed) {
  store().make_room(bytes);
  void* memory = nullptr;
  try {
    claim_memory(bytes);
    // The system provides zero pages, which use no memory until they are
    // written.
    memory =
        zeroed ? std::calloc(to_size(bytes), 1) : std::malloc(to_size(bytes));
    if (memory == nullptr) {
      release_memory(bytes);
      throw std::bad_alloc();
    }
  } catch (...) {
    store().uncount(bytes);
    throw;
  }
  return memory;
}

}  // namespace

std::shared_ptr<void> zeroed_buffer(int64_t bytes) {
  void* const cached = store().take(bytes);
  if (cached == nullptr) return owned(allocate(bytes, true), bytes);
  return owned(std::memset(cached, 0, to_size(bytes)), bytes);
}

std::shared_ptr<void> unfilled_buffer(int64_t bytes) {
  void* memory = store().take(bytes);
  if (memory == nullptr) memory = allocate(bytes, false);
#if !defined(NDEBUG) || !SHARDPLAN_OWN_NEW
  // The bytes are those of a NaN, so that reading before writing is noticed.
  std::memset(memory, 0xff, to_size(bytes));
#endif
  return owned(memory, bytes);
}

BufferCache::BufferCache() {
  // In this order: the store must exist before it can be asked to free memory.
  store().add_user();
  set_release_callback([]() noexcept { return store().empty(); });
}
BufferCache::~BufferCache() { store().remove_user(); }

BufferMemory buffer_memory() { return store().memory(); }
void restart_buffer_peak() { store().restart_peak(); }

}  // namespace shardplan
