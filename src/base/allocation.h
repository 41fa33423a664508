// SPDX-License-Identifier: Apache-2.0
// Allocation accounting: how much memory this process uses, and a limit on it.
//
// Input files determine how much is allocated, so everything is counted:
// operator new and delete are replaced (allocation.cc), and memory from other
// sources is claimed. Beyond the limit operator new throws std::bad_alloc, as
// it does when the system is out of memory; cli::run reports both as SP017.
// Mapped memory (weights) is not counted, since the system can page it out.
// Under a sanitizer, which has its own operator new, only claims are counted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shardplan {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SHARDPLAN_OWN_NEW 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define SHARDPLAN_OWN_NEW 0
#endif
#endif
#ifndef SHARDPLAN_OWN_NEW
#define SHARDPLAN_OWN_NEW 1
#endif

inline constexpr bool kCountsAllocations = SHARDPLAN_OWN_NEW != 0;

// Bytes in use. Approximate, since other threads may be allocating.
int64_t allocated_bytes();
// Bytes allocated minus bytes freed by this thread. The difference between two
// calls is what the work in between added, regardless of other threads.
int64_t allocated_by_thread();

// Accounts for memory that operator new does not provide. Throws
// std::bad_alloc, and claims nothing, beyond the limit.
void claim_memory(int64_t bytes);
void release_memory(int64_t bytes) noexcept;

// Registers a function that frees cached memory before an allocation is
// refused. Any thread may call it. It returns whether it freed anything, and
// must not allocate. It stays registered.
using ReleaseCaches = bool (*)() noexcept;
void set_release_callback(ReleaseCaches what);

// Limits the memory that is allocated during its lifetime, beyond what is in
// use at its construction. Its destructor restores the previous limit. Only one
// may exist at a time.
class AllocationLimit {
 public:
  AllocationLimit();  // without a limit until set()
  ~AllocationLimit();
  AllocationLimit(const AllocationLimit&) = delete;
  AllocationLimit& operator=(const AllocationLimit&) = delete;

  void set(int64_t bytes);
  // Raises the limit enough for an error message after the limit was reached.
  void make_room();

 private:
  int64_t base_;
  int64_t before_;
};

// During its lifetime, allocations of this thread are counted but never
// refused. For third-party code that no exception may pass through: RE2
// allocates within std::call_once, a frame of libc whose unwinder differs from
// the one that a statically linked program throws with; it has its own budget.
// If RE2 exceeds the limit, the next allocation outside is refused.
class UnrefusedAllocations {
 public:
  UnrefusedAllocations() noexcept;
  ~UnrefusedAllocations();
  UnrefusedAllocations(const UnrefusedAllocations&) = delete;
  UnrefusedAllocations& operator=(const UnrefusedAllocations&) = delete;
};

// The last allocation that failed. `limit` is the most that could be in use,
// counted from where the limit was set; 0 if the system was out of memory.
struct Refusal {
  int64_t requested = 0;  // bytes, in one piece
  int64_t held = 0;       // bytes in use at that time
  int64_t limit = 0;
};
Refusal last_refusal();
void clear_refusal();
// Bytes that may still be allocated.
int64_t memory_left();

// Records the current work, for the message of a run that is out of memory:
// "reading model.json". The last call of any thread counts. Allocates nothing,
// and stores only the first 255 bytes. `name`, if any, follows in backticks.
void set_current_work(std::string_view work, std::string_view name = {});
std::string current_work();

// Returns the memory budget that this thread has reserved. Call it at the end
// of every thread that shardplan starts.
void flush_thread_allocations() noexcept;

// For tests: makes the n-th allocation from now on fail, once. 0 is the next
// allocation; a negative number makes none fail. Returns whether an allocation
// has failed this way since the previous call.
bool fail_allocation(int64_t n);

}  // namespace shardplan
