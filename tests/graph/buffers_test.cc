// SPDX-License-Identifier: Apache-2.0
#include "graph/buffers.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include <doctest/doctest.h>

#include "base/allocation.h"
#include "base/parallel.h"

namespace shardplan {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20U;

bool all_are(const std::shared_ptr<void>& buffer, int64_t bytes, int value) {
  const auto* first = static_cast<const unsigned char*>(buffer.get());
  return std::all_of(first, first + bytes,
                     [value](unsigned char c) { return c == value; });
}

TEST_CASE("buffers: the next of the same size is the one that was let go of") {
  const BufferCache cache;
  std::shared_ptr<void> one = unfilled_buffer(kMiB);
  void* const place = one.get();
  std::memset(place, 7, kMiB);
  // But for the counts of who holds it.
  const auto is_allocated = [allocated = allocated_bytes()] {
    return std::abs(allocated_bytes() - allocated) < 1000;
  };
  one.reset();
  CHECK(buffer_memory().cached == kMiB);
  CHECK(is_allocated());
  const std::shared_ptr<void> zeroed = zeroed_buffer(kMiB);
  CHECK(zeroed.get() == place);
  CHECK(all_are(zeroed, kMiB, 0));
  CHECK(buffer_memory().cached == 0);
  CHECK(is_allocated());
}

TEST_CASE("buffers: nothing is kept unless it is asked for") {
  unfilled_buffer(kMiB);
  CHECK(buffer_memory().cached == 0);
  const int64_t allocated = allocated_bytes();
  {
    const BufferCache outer;
    {
      const BufferCache inner;
      unfilled_buffer(kMiB);
    }
    CHECK(buffer_memory().cached == kMiB);
  }
  CHECK(buffer_memory().cached == 0);
  CHECK(allocated_bytes() == allocated);
}

TEST_CASE("buffers: held and kept together are never more than was held") {
  const BufferCache cache;
  const int64_t before = buffer_memory().held;
  int64_t most = before;
  std::vector<std::shared_ptr<void>> held;
  uint64_t state = 1;
  const auto draw = [&](uint64_t below) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<int64_t>((state >> 33U) % below);
  };
  for (int i = 0; i < 2000; ++i) {
    if (!held.empty() && draw(2) == 0) {
      const auto which = static_cast<size_t>(draw(held.size()));
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
    } else {
      const int64_t bytes = (draw(6) + 1) * 60'000;
      held.push_back(draw(2) == 0 ? unfilled_buffer(bytes)
                                  : zeroed_buffer(bytes));
    }
    const BufferMemory now = buffer_memory();
    most = std::max(most, now.held);
    CHECK(now.held + now.cached <= most);
  }
}

TEST_CASE("buffers: what is kept goes back before anything is refused") {
  AllocationLimit limit;
  limit.set(4 * kMiB);
  const BufferCache cache;
  unfilled_buffer(3 * kMiB);
  CHECK(buffer_memory().cached == 3 * kMiB);
  claim_memory(2 * kMiB);
  CHECK(buffer_memory().cached == 0);
  release_memory(2 * kMiB);
  unfilled_buffer(3 * kMiB);
  if (kCountsAllocations) {
    CHECK(std::vector<char>(2 * kMiB).size() == 2 * kMiB);
    CHECK(buffer_memory().cached == 0);
  }
  // What is held does not.
  const std::shared_ptr<void> held = unfilled_buffer(3 * kMiB);
  CHECK_THROWS_AS(claim_memory(2 * kMiB), std::bad_alloc);
  CHECK(last_refusal().requested == 2 * kMiB);
  clear_refusal();
  CHECK_THROWS_AS(unfilled_buffer(2 * kMiB), std::bad_alloc);
  CHECK(buffer_memory().held == 3 * kMiB);
  clear_refusal();
}

TEST_CASE("buffers: threads take and let go at once") {
  const int64_t held = buffer_memory().held;
  {
    const BufferCache cache;
    std::vector<char> wrong(64);
    parallel_for(64, 4, [&](int64_t i) {
      for (int64_t j = 0; j < 20; ++j) {
        const int64_t bytes = 70'000 + 1000 * ((i + j) % 5);
        const std::shared_ptr<void> mine = unfilled_buffer(bytes);
        const auto mark = static_cast<int>(i);
        std::memset(mine.get(), mark, static_cast<size_t>(bytes));
        if (!all_are(mine, bytes, mark)) wrong[static_cast<size_t>(i)] = 1;
      }
    });
    CHECK(std::count(wrong.begin(), wrong.end(), char{1}) == 0);
  }
  CHECK(buffer_memory().held == held);
  CHECK(buffer_memory().cached == 0);
}

}  // namespace
}  // namespace shardplan
