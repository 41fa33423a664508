// SPDX-License-Identifier: Apache-2.0
#include "base/byte_size.h"

#include <string>

#include <doctest/doctest.h>
#include <rapidcheck.h>

namespace shardplan {
namespace {

TEST_CASE("sizes are read with decimal and binary units") {
  const struct {
    const char* text;
    std::optional<int64_t> bytes;
  } rows[] = {{"1", 1},
              {"1048576", 1'048'576},
              {"512B", 512},
              {"80GiB", 85'899'345'920},
              {"80 GiB", 85'899'345'920},
              {"80GB", 80'000'000'000},
              {"95.7GB", 95'700'000'000},
              {"81559MiB", 85'520'809'984},
              {"1.5KiB", 1536},
              {"2kB", 2000},
              {"2KB", 2000},
              {"0.5TiB", 549'755'813'888},
              {"1e9", 1'000'000'000},
              {"1e+9", 1'000'000'000},
              {"1.9B", 1},
              {"4611686018427387903", std::nullopt},  // rounds to 2^62
              {"0", std::nullopt},
              {"0.5", std::nullopt},
              {"-1GiB", std::nullopt},
              {"80gib", std::nullopt},
              {"80G", std::nullopt},
              {"GiB", std::nullopt},
              {"", std::nullopt},
              {" 80GiB", std::nullopt},
              {"80GiB ", std::nullopt},
              {"8e", std::nullopt},
              {"1e400", std::nullopt},
              {"nan", std::nullopt},
              {"inf", std::nullopt},
              {"8388608TiB", std::nullopt}};
  for (const auto& row : rows) {
    CAPTURE(row.text);
    CHECK(parse_bytes(row.text) == row.bytes);
  }
}

TEST_CASE("whole bytes are read as they are written, in any unit") {
  CHECK(rc::check("parse_bytes", [] {
    // Exact in double, also as multiples of every unit below.
    const auto n = *rc::gen::inRange<int64_t>(1, int64_t{1} << 21U);
    const std::string text = std::to_string(n);
    RC_ASSERT(parse_bytes(text) == n);
    RC_ASSERT(parse_bytes(text + "B") == n);
    RC_ASSERT(parse_bytes(text + " MB") == n * 1'000'000);
    RC_ASSERT(parse_bytes(text + "GiB") == n * (int64_t{1} << 30U));
  }));
}

}  // namespace
}  // namespace shardplan
