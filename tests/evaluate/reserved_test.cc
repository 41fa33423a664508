// SPDX-License-Identifier: Apache-2.0
#include "evaluate/reserved.h"

#include <array>
#include <cstdint>
#include <optional>

#include <doctest/doctest.h>

#include "memory/outside.h"
#include "tests/support/builders.h"

namespace shardplan {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

MemoryBracket bracket_of(int64_t lower, int64_t estimate, int64_t upper) {
  MemoryBracket bracket;
  bracket.total = {lower, estimate, upper};
  return bracket;
}

std::optional<DeviceLimit> device(const char* vendor) {
  return DeviceLimit{"x", 80 * kGiB, 79 * kGiB, false, vendor};
}

TEST_CASE("reserved: rows sum to the total, above what is allocated") {
  const MemoryBracket bracket =
      bracket_of(10 * kGiB + 1, 20 * kGiB + 1, 30 * kGiB);
  const Mesh mesh = testing::mesh("fsdp=8,tp=2,sp=1");
  for (const char* name : {"torch", "megatron"}) {
    for (const bool experts : {false, true}) {
      const auto reserved = reserved_memory(bracket, *find_framework(name),
                                            mesh, experts, device("NVIDIA"));
      REQUIRE(reserved);
      CHECK(!reserved->arena);
      // Allocated, beyond, context, two axes, and experts.
      CHECK(reserved->rows.size() == (experts ? 6 : 5));
      std::array<int64_t, kSavingModes> sums{};
      for (const ReservedRow& row : reserved->rows) {
        for (size_t k = 0; k < kSavingModes; ++k) sums[k] += row.bytes[k];
        CHECK(row.bytes[0] <= row.bytes[1]);
        CHECK(row.bytes[1] <= row.bytes[2]);
        CHECK(row.source.empty() == (row.category == "allocated"));
      }
      CHECK(sums == reserved->total);
      // Segments are whole; at most 43 % is not allocated.
      const auto& beyond = reserved->rows[1].bytes;
      CHECK((bracket.lower() + beyond[0]) % (2 << 20) == 0);
      CHECK(beyond[1] == (2 << 20) - 1);
      CHECK(static_cast<double>(bracket.upper()) /
                static_cast<double>(bracket.upper() + beyond[2]) ==
            doctest::Approx(0.57).epsilon(0.001));
    }
  }
}

TEST_CASE("reserved: JAX takes its share of a GPU at the start") {
  const MemoryBracket bracket = bracket_of(kGiB, 2 * kGiB, 3 * kGiB);
  const FrameworkDef& jax = *find_framework("jax");
  const auto reserved = reserved_memory(bracket, jax, testing::mesh("fsdp=1"),
                                        false, device("NVIDIA"));
  REQUIRE(reserved);
  CHECK(reserved->arena == 60 * kGiB);
  CHECK(reserved->rows.size() == 2);  // no other device
  CHECK(reserved->total[0] == 60 * kGiB + context_range().lower);
}

TEST_CASE("reserved: what is not known is not told") {
  const MemoryBracket bracket = bracket_of(kGiB, 2 * kGiB, 3 * kGiB);
  const Mesh mesh = testing::mesh("fsdp=2");
  const auto is_known = [&](const char* name,
                            const std::optional<DeviceLimit>& limit,
                            const MemoryBracket& of) {
    return reserved_memory(of, *find_framework(name), mesh, false, limit)
        .has_value();
  };
  CHECK(!is_known("any", device("NVIDIA"), bracket));
  CHECK(!is_known("torch", device("Google"), bracket));
  CHECK(!is_known("jax", device("Google"), bracket));
  CHECK(!is_known("jax", device(""), bracket));
  CHECK(!is_known("jax", std::nullopt, bracket));
  CHECK(is_known("jax", device("AMD"), bracket));
  CHECK(is_known("torch", std::nullopt, bracket));
  CHECK(!is_known("torch", std::nullopt, bracket_of(1, 2, INT64_MAX - 1)));
}

TEST_CASE("reserved: ranges are in order") {
  for (const int64_t devices : {2, 3, 8, 1024}) {
    for (const OutsideRange& range :
         {context_range(), connections_range(devices),
          further_connections_range(devices, false),
          further_connections_range(devices, true)}) {
      CHECK(range.lower <= range.estimate);
      CHECK(range.estimate <= range.upper);
      CHECK(!range.source.empty());
    }
  }
}

}  // namespace
}  // namespace shardplan
