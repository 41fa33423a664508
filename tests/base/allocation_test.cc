// SPDX-License-Identifier: Apache-2.0
#include "base/allocation.h"

#include <array>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

namespace shardplan {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20U;

TEST_CASE("allocation: what is allocated is counted, and given back") {
  if (!kCountsAllocations) return;
  const int64_t before = allocated_bytes();
  auto some = std::make_unique<std::vector<char>>(100'000);
  const int64_t held = allocated_bytes() - before;
  CHECK(held >= 100'000);
  CHECK(held < 110'000);
  some.reset();
  CHECK(allocated_bytes() == before);
}

TEST_CASE("allocation: aligned memory is counted as well") {
  if (!kCountsAllocations) return;
  struct alignas(256) Block {
    std::array<char, 4096> bytes{};
  };
  const int64_t before = allocated_bytes();
  auto block = std::make_unique<Block>();
  CHECK(reinterpret_cast<uintptr_t>(block.get()) % 256 == 0);
  CHECK(allocated_bytes() - before >= 4096);
  block.reset();
  CHECK(allocated_bytes() == before);
}

TEST_CASE("allocation: claims count, with and without an operator new") {
  const int64_t before = allocated_bytes();
  claim_memory(3 * kMiB);
  CHECK(allocated_bytes() - before == 3 * kMiB);
  release_memory(3 * kMiB);
  CHECK(allocated_bytes() == before);
}

TEST_CASE("allocation: beyond the limit nothing is given, and below it is") {
  AllocationLimit limit;
  limit.set(kMiB);
  CHECK_THROWS_AS(claim_memory(kMiB + 1), std::bad_alloc);
  CHECK(last_refusal().requested == kMiB + 1);
  CHECK(last_refusal().limit == kMiB);
  claim_memory(kMiB / 2);
  CHECK(memory_left() <= kMiB / 2);
  CHECK_THROWS_AS(claim_memory(kMiB), std::bad_alloc);
  CHECK(last_refusal().held >= kMiB / 2);
  release_memory(kMiB / 2);
  if (kCountsAllocations) {
    CHECK_THROWS_AS(std::vector<char>(2 * kMiB), std::bad_alloc);
    CHECK_THROWS_AS(std::string(size_t{1} << 40U, 'x'), std::bad_alloc);
    CHECK(std::vector<char>(kMiB / 2).size() == kMiB / 2);
  }
  limit.make_room();
  claim_memory(kMiB + 1);
  release_memory(kMiB + 1);
}

TEST_CASE("allocation: a limit ends with what set it") {
  {
    AllocationLimit limit;
    limit.set(1);
    CHECK_THROWS_AS(claim_memory(kMiB), std::bad_alloc);
  }
  claim_memory(kMiB);
  release_memory(kMiB);
  CHECK(memory_left() > int64_t{1} << 60U);
}

TEST_CASE("allocation: all threads have one limit") {
  if (!kCountsAllocations) return;
  AllocationLimit limit;
  limit.set(8 * kMiB);
  const std::vector<char> here(4 * kMiB);
  bool refused = false;
  std::thread other([&] {
    try {
      const std::vector<char> there(6 * kMiB);
    } catch (const std::bad_alloc&) {
      refused = true;
    }
    flush_thread_allocations();
  });
  other.join();
  CHECK(refused);
}

TEST_CASE("allocation: the n-th can be made to fail") {
  if (!kCountsAllocations) return;
  for (int64_t n = 0; n < 3; ++n) {
    std::vector<std::unique_ptr<int>> some;
    some.reserve(10);
    fail_allocation(n);
    bool thrown = false;
    try {
      for (int i = 0; i < 10; ++i) some.push_back(std::make_unique<int>(i));
    } catch (const std::bad_alloc&) {
      thrown = true;
    }
    CHECK(fail_allocation(-1));
    CHECK(thrown);
    CHECK(some.size() == static_cast<size_t>(n));
  }
  CHECK_FALSE(fail_allocation(-1));
}

TEST_CASE("allocation: what is being done is kept, as far as there is room") {
  set_current_work("reading", "a.json");
  CHECK(current_work() == "reading `a.json`");
  set_current_work(std::string(1000, 'x'));
  CHECK(current_work() == std::string(255, 'x'));
  set_current_work("");
  CHECK(current_work().empty());
}

}  // namespace
}  // namespace shardplan
