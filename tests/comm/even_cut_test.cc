// SPDX-License-Identifier: Apache-2.0
#include "comm/even_cut.h"

#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>
#include <rapidcheck.h>

namespace shardplan {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

TEST_CASE("parts differ by one at most, and are the total together") {
  std::vector<int64_t> sizes;
  for (int64_t part = 0; part < 4; ++part) {
    sizes.push_back(EvenCut{10, 4}.size(part));
  }
  CHECK(sizes == std::vector<int64_t>{2, 3, 2, 3});
  CHECK(EvenCut{kMost, 3}.begin(3) == kMost);
  CHECK(EvenCut{0, 5}.size(4) == 0);
  CHECK(rc::check("parts of an even cut", [] {
    const EvenCut cut{*rc::gen::inRange<int64_t>(0, 1000),
                      *rc::gen::inRange<int64_t>(1, 50)};
    int64_t sum = 0;
    for (int64_t part = 0; part < cut.parts; ++part) {
      RC_ASSERT(cut.begin(part) == sum);
      const int64_t rest = cut.size(part) - cut.total / cut.parts;
      RC_ASSERT(rest == 0 || rest == 1);
      sum += cut.size(part);
    }
    RC_ASSERT(sum == cut.total);
  }));
}

TEST_CASE("runs of parts go round") {
  CHECK(rc::check("runs are sums of parts", [] {
    const EvenCut cut{*rc::gen::inRange<int64_t>(0, 1000),
                      *rc::gen::inRange<int64_t>(1, 20)};
    const auto first = *rc::gen::inRange<int64_t>(-40, 40);
    const auto count = *rc::gen::inRange<int64_t>(0, cut.parts + 1);
    int64_t sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += cut.size(first + i);
    RC_ASSERT(cut.run(first, count) == sum);
  }));
}

TEST_CASE("indices wrap, and products saturate") {
  CHECK(wrap(-1, 4) == 3);
  CHECK(wrap(-8, 4) == 0);
  CHECK(wrap(9, 4) == 1);
  CHECK(saturated_product(3, 5) == 15);
  CHECK(saturated_product(kMost / 2, 3) == kMost);
}

}  // namespace
}  // namespace shardplan
