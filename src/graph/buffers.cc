// SPDX-License-Identifier: Apache-2.0
#include "graph/buffers.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#include "base/allocation.h"

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
struct Kept {
  int64_t bytes = 0;
  Kept* newer = nullptr;
  Kept* older = nullptr;
};

// Makes AddressSanitizer report any access to a cached buffer.
void close(Kept* buffer) {
#ifdef SHARDPLAN_POISONS
  ASAN_POISON_MEMORY_REGION(buffer + 1,
                            static_cast<size_t>(buffer->bytes) - sizeof(Kept));
#else
  static_cast<void>(buffer);
#endif
}
void open(Kept* buffer) {
#ifdef SHARDPLAN_POISONS
  ASAN_UNPOISON_MEMORY_REGION(buffer, static_cast<size_t>(buffer->bytes));
#else
  static_cast<void>(buffer);
#endif
}

class Store {
 public:
  // Returns a cached buffer, or null if there is none of this size.
  void* take(int64_t bytes) {
    if (bytes < kLeast) return nullptr;
    const std::lock_guard lock(mutex_);
    Kept* found = newest_;
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
    Kept* gone = nullptr;
    {
      const std::lock_guard lock(mutex_);
      count(bytes);
      while (oldest_ != nullptr && memory_.held + memory_.kept > most_) {
        gone = unlink_oldest(gone);
      }
    }
    give_back(gone);
  }

  // Subtracts a buffer that could not be allocated from the count.
  void forget(int64_t bytes) {
    const std::lock_guard lock(mutex_);
    memory_.held -= bytes;
  }

  void let_go(void* memory, int64_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      memory_.held -= bytes;
      if (users_ > 0 && bytes >= kLeast) {
        auto* const buffer = new (memory) Kept{bytes, nullptr, newest_};
        (newest_ != nullptr ? newest_->newer : oldest_) = buffer;
        newest_ = buffer;
        memory_.kept += bytes;
        close(buffer);
        return;
      }
    }
    std::free(memory);
    return_memory(bytes);
  }

  bool empty() {
    Kept* gone = nullptr;
    {
      const std::lock_guard lock(mutex_);
      while (oldest_ != nullptr) gone = unlink_oldest(gone);
    }
    return give_back(gone);
  }

  void add_user() {
    const std::lock_guard lock(mutex_);
    if (users_++ == 0) most_ = memory_.held;
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
    most_ = std::max(most_, memory_.held);
  }

  void unlink(Kept* buffer) {
    (buffer->newer != nullptr ? buffer->newer->older : newest_) = buffer->older;
    (buffer->older != nullptr ? buffer->older->newer : oldest_) = buffer->newer;
    memory_.kept -= buffer->bytes;
  }
  // Puts the oldest buffer before those in `gone`, and returns that list.
  Kept* unlink_oldest(Kept* gone) {
    Kept* const buffer = oldest_;
    unlink(buffer);
    buffer->older = gone;
    return buffer;
  }
  static bool give_back(Kept* gone) {
    const bool any = gone != nullptr;
    while (gone != nullptr) {
      Kept* const next = gone->older;
      const int64_t bytes = gone->bytes;
      open(gone);
      std::free(gone);
      return_memory(bytes);
      gone = next;
    }
    return any;
  }

  std::mutex mutex_;
  int users_ = 0;
  int64_t most_ = 0;  // the most held at once since the first KeptBuffers
  Kept* newest_ = nullptr;
  Kept* oldest_ = nullptr;
  BufferMemory memory_;
};

// Never destroyed, because buffers may be freed when the program ends.
Store& store() {
  static Store& the = *new Store;
  return the;
}

std::shared_ptr<void> owned(void* memory, int64_t bytes) {
  // If this throws, the deleter has run already.
  return {memory, [bytes](void* given) { store().let_go(given, bytes); }};
}

void* made_anew(int64_t bytes, bool zeroed) {
  store().make_room(bytes);
  void* memory = nullptr;
  try {
    claim_memory(bytes);
    const auto size = static_cast<size_t>(bytes);
    // The system provides zero pages, which use no memory until they are
    // written.
    memory = zeroed ? std::calloc(size, 1) : std::malloc(size);
    if (memory == nullptr) {
      return_memory(bytes);
      throw std::bad_alloc();
    }
  } catch (...) {
    store().forget(bytes);
    throw;
  }
  return memory;
}

}  // namespace

std::shared_ptr<void> zeroed_buffer(int64_t bytes) {
  void* const kept = store().take(bytes);
  if (kept == nullptr) return owned(made_anew(bytes, true), bytes);
  std::memset(kept, 0, static_cast<size_t>(bytes));
  return owned(kept, bytes);
}

std::shared_ptr<void> unfilled_buffer(int64_t bytes) {
  void* memory = store().take(bytes);
  if (memory == nullptr) memory = made_anew(bytes, false);
#if !defined(NDEBUG) || !SHARDPLAN_OWN_NEW
  // The bytes are those of a NaN, so that reading before writing is noticed.
  std::memset(memory, 0xff, static_cast<size_t>(bytes));
#endif
  return owned(memory, bytes);
}

KeptBuffers::KeptBuffers() {
  // In this order: the store must exist before it can be asked to free memory.
  store().add_user();
  give_back_before_refusing([]() noexcept { return store().empty(); });
}
KeptBuffers::~KeptBuffers() { store().remove_user(); }

BufferMemory buffer_memory() { return store().memory(); }
void restart_buffer_peak() { store().restart_peak(); }

}  // namespace shardplan
