// SPDX-License-Identifier: Apache-2.0
#include "base/allocation.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <new>
#include <utility>

#include <malloc.h>

namespace shardplan {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
// Threads reserve and return memory in pieces of this size, to avoid
// contention.
constexpr int64_t kPiece = int64_t{64} << 10U;
// Reserved for the message of a run that reached its limit.
constexpr int64_t kRoom = int64_t{4} << 20U;

// Bytes that threads have reserved: those in use and their unused credit.
std::atomic<int64_t> g_reserved{0};
std::atomic<int64_t> g_limit{kNoLimit};
std::atomic<int64_t> g_limit_base{0};
// The number of allocations until one fails; negative: none fails.
std::atomic<int64_t> g_countdown{-1};
std::atomic<bool> g_failed{false};
std::atomic<int64_t> g_requested{0};
std::atomic<int64_t> g_held{0};
std::atomic<int64_t> g_refused_limit{0};
std::atomic<ReleaseCaches> g_release_caches{nullptr};

// The unused bytes that this thread has reserved, and the most it may keep.
constinit thread_local int64_t t_credit = 0;
constinit thread_local int64_t t_most = 4 * kPiece;
// Bytes allocated minus bytes freed by this thread.
constinit thread_local int64_t t_balance = 0;

constinit thread_local int t_unrefused = 0;  // live UnrefusedAllocations

void refused(uint64_t bytes, bool by_limit) {
  g_requested = static_cast<int64_t>(std::min<uint64_t>(bytes, kNoLimit));
  g_held = g_reserved - t_credit - g_limit_base;
  g_refused_limit = by_limit ? g_limit - g_limit_base : 0;
}

// Reserves `bytes` atomically. Returns false beyond the limit.
bool reserve_bytes(int64_t bytes) {
  int64_t reserved = g_reserved;
  do {
    if (bytes > g_limit - reserved) return false;
  } while (!g_reserved.compare_exchange_weak(reserved, reserved + bytes));
  return true;
}

// Returns all credit of the calling thread.
void return_credit() {
  g_reserved -= t_credit;
  t_credit = 0;
}

// Reserves `bytes`, after freeing cached memory if necessary. The memory that
// is freed must not be added to this thread's credit, which the caller is
// updating.
bool reserve_or_release(int64_t bytes) {
  if (reserve_bytes(bytes)) return true;
  const ReleaseCaches release_caches = g_release_caches;
  if (release_caches == nullptr) return false;
  const int64_t credit = std::exchange(t_credit, 0);
  const bool released = release_caches();
  return_credit();
  t_credit = credit;
  return released && reserve_bytes(bytes);
}

// Returns false if the next allocation must fail for a test.
bool count_down() {
  if (g_countdown < 0 || g_countdown-- != 0) return true;
  g_failed = true;
  return false;
}

// Refills t_credit, which an allocation of `bytes` has made negative.
bool refill(int64_t bytes) {
  const int64_t lacking = -t_credit;
  if (t_unrefused > 0) {
    g_reserved += lacking;
    t_credit = 0;
    return true;
  }
  const bool spare = t_most > 0 && reserve_bytes(lacking + kPiece);
  if (count_down() && (spare || reserve_or_release(lacking))) {
    t_credit += lacking + (spare ? kPiece : 0);
    return true;
  }
  if (spare) g_reserved -= lacking + kPiece;
  t_credit += bytes;
  refused(static_cast<uint64_t>(bytes), true);
  return false;
}

bool charge(int64_t bytes) {
  t_credit -= bytes;
  if (t_credit < 0 && !refill(bytes)) return false;
  t_balance += bytes;
  return true;
}

void refund(int64_t bytes) {
  t_balance -= bytes;
  t_credit += bytes;
  if (t_credit <= t_most) return;
  const int64_t remaining = std::min(t_most, kPiece);
  g_reserved -= t_credit - remaining;
  t_credit = remaining;
}

std::array<char, 256> g_work{};
std::mutex g_work_mutex;  // targets are evaluated in parallel

#if SHARDPLAN_OWN_NEW

// Allocations of at least this size are not even requested from the system if
// they exceed the limit.
constexpr size_t kLarge = size_t{1} << 20U;

bool is_out_of_question(size_t size) {
  if (size < kLarge || t_unrefused > 0) return false;
  const auto is_beyond = [size] {
    return std::cmp_greater(size, g_limit - g_reserved + t_credit);
  };
  if (!is_beyond()) return false;
  const ReleaseCaches release_caches = g_release_caches;
  return release_caches == nullptr || !release_caches() || is_beyond();
}

void* count(void* memory, size_t size) {
  if (memory == nullptr) {
    refused(size, false);
    return nullptr;
  }
  if (charge(static_cast<int64_t>(malloc_usable_size(memory)))) return memory;
  std::free(memory);
  return nullptr;
}

void* allocate(size_t size) {
  if (is_out_of_question(size)) {
    refused(size, true);
    return nullptr;
  }
  return count(std::malloc(std::max<size_t>(size, 1)), size);
}

void* allocate(size_t size, std::align_val_t alignment) {
  if (is_out_of_question(size)) return allocate(size);
  const size_t unit = std::max(static_cast<size_t>(alignment), sizeof(void*));
  void* memory = nullptr;
  const int error = posix_memalign(&memory, unit, std::max<size_t>(size, 1));
  return count(error == 0 ? memory : nullptr, size);
}

void* or_throw(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void release(void* memory) {
  if (memory == nullptr) return;
  refund(static_cast<int64_t>(malloc_usable_size(memory)));
  std::free(memory);
}

#endif

}  // namespace

int64_t allocated_bytes() { return g_reserved - t_credit; }

int64_t allocated_by_thread() { return t_balance; }

void claim_memory(int64_t bytes) {
  if (!charge(bytes)) throw std::bad_alloc();
}

void release_memory(int64_t bytes) noexcept { refund(bytes); }

void set_release_callback(ReleaseCaches what) { g_release_caches = what; }

AllocationLimit::AllocationLimit() : base_(0), before_(g_limit) {
  return_credit();
  base_ = g_reserved;
}

AllocationLimit::~AllocationLimit() {
  g_limit = before_;
  g_limit_base = 0;
}

void AllocationLimit::set(int64_t bytes) {
  return_credit();
  g_limit_base = base_;
  g_limit = bytes > kNoLimit - base_ ? kNoLimit : base_ + bytes;
}

void AllocationLimit::make_room() {
  const int64_t reserved = g_reserved;
  if (g_limit < reserved + kRoom) g_limit = reserved + kRoom;
}

UnrefusedAllocations::UnrefusedAllocations() noexcept { ++t_unrefused; }
UnrefusedAllocations::~UnrefusedAllocations() { --t_unrefused; }

Refusal last_refusal() { return {g_requested, g_held, g_refused_limit}; }

void clear_refusal() { g_requested = g_held = g_refused_limit = 0; }

int64_t memory_left() {
  return g_limit == kNoLimit
             ? kNoLimit
             : std::max<int64_t>(0, g_limit - g_reserved + t_credit);
}

void set_current_work(std::string_view work, std::string_view name) {
  const std::lock_guard lock(g_work_mutex);
  size_t used = 0;
  const auto append = [&](std::string_view text) {
    const size_t size = std::min(text.size(), g_work.size() - 1 - used);
    std::copy_n(text.begin(), size, g_work.begin() + used);
    used += size;
  };
  append(work);
  if (!name.empty()) {
    append(" `");
    append(name);
    append("`");
  }
  g_work.at(used) = '\0';
}

std::string current_work() {
  const std::lock_guard lock(g_work_mutex);
  return g_work.data();
}

void flush_thread_allocations() noexcept {
  return_credit();
  t_most = 0;  // memory freed later on this thread is returned at once
}

bool fail_allocation(int64_t n) {
  return_credit();
  t_most = n < 0 ? 4 * kPiece : 0;  // so that each allocation counts
  g_countdown = n;
  return g_failed.exchange(false);
}

}  // namespace shardplan

#if SHARDPLAN_OWN_NEW

// The other forms (arrays, nothrow) call these by default.
// NOLINTBEGIN(misc-new-delete-overloads)
void* operator new(size_t size) {
  return shardplan::or_throw(shardplan::allocate(size));
}
void* operator new(size_t size, std::align_val_t alignment) {
  return shardplan::or_throw(shardplan::allocate(size, alignment));
}
void operator delete(void* memory) noexcept { shardplan::release(memory); }
void operator delete(void* memory, size_t) noexcept {
  shardplan::release(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  shardplan::release(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  shardplan::release(memory);
}
// NOLINTEND(misc-new-delete-overloads)

#endif
