// SPDX-License-Identifier: Apache-2.0
// What this process may allocate: a count of what it has, and a limit to it.
//
// Files decide how much is allocated, so everything is counted: operator new
// and delete are replaced (allocation.cc), and memory from elsewhere is
// claimed. Beyond the limit operator new throws std::bad_alloc, as it does
// where the system has no more; cli::run turns both into SP017. What is mapped
// (weights) is the system's to page, and is not counted. Under a sanitizer,
// which brings an operator new of its own, only claims are counted.
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

// Bytes held now. Other threads may have a little more or less.
int64_t allocated_bytes();
// Bytes that this thread has taken more than it gave back: the difference is
// what a piece of work adds, whatever others do meanwhile.
int64_t allocated_by_thread();

// For memory that operator new does not give. Throws std::bad_alloc, with
// nothing claimed, where it is more than may be.
void claim_memory(int64_t bytes);
void return_memory(int64_t bytes) noexcept;

// What may go back where something is to be refused: called then, by any
// thread, before the refusal. True where something went back. It takes no
// memory, and is in force from then on.
using GiveBack = bool (*)() noexcept;
void give_back_before_refusing(GiveBack what);

// Limits what is allocated while it lives, on top of what is held when it is
// made; then the limit before it is in force again. One at a time.
class AllocationLimit {
 public:
  AllocationLimit();  // none, until it is set
  ~AllocationLimit();
  AllocationLimit(const AllocationLimit&) = delete;
  AllocationLimit& operator=(const AllocationLimit&) = delete;

  void set(int64_t bytes);
  // Leaves room for a message once the limit was met.
  void make_room();

 private:
  int64_t base_;
  int64_t before_;
};

// While one lives, allocations of this thread are counted and never refused:
// for code of others through which nothing may be thrown. RE2 allocates within
// std::call_once, a frame of libc whose unwinder is not the one that a
// statically linked program throws with; it keeps to a budget of its own. What
// it took is refused to whoever allocates next.
class UnrefusedAllocations {
 public:
  UnrefusedAllocations() noexcept;
  ~UnrefusedAllocations();
  UnrefusedAllocations(const UnrefusedAllocations&) = delete;
  UnrefusedAllocations& operator=(const UnrefusedAllocations&) = delete;
};

// What could not be had last. `limit` is the most that might be held, counted
// from where the limit was set; 0 where the system had no more.
struct Refusal {
  int64_t asked = 0;  // bytes, in one piece
  int64_t held = 0;   // besides
  int64_t limit = 0;
};
Refusal last_refusal();
void forget_refusal();
// How much may still be allocated.
int64_t memory_left();

// Says what is begun, for the message of a run that has no memory left for it:
// "reading model.json". Of several threads the last; allocates nothing, and
// keeps the first 255 bytes. `name`, if any, follows in backticks.
void note_work(std::string_view work, std::string_view name = {});
std::string current_work();

// To be called at the end of every thread of ours: what it has set aside for
// its allocations goes back.
void settle_allocations() noexcept;

// For tests: lets the n-th allocation from now on fail, once; 0 is the next
// one, and a negative number lets none fail. True if one has failed since the
// call before.
bool fail_allocation(int64_t n);

}  // namespace shardplan
