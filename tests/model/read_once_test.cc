// SPDX-License-Identifier: Apache-2.0
#include "model/read_once.h"

#include <stdexcept>

#include <doctest/doctest.h>

namespace shardplan {
namespace {

TEST_CASE("what is read once is kept, and what failed is read anew") {
  ReadOnce<int> kept;
  int reads = 0;
  const auto seven = [&] {
    ++reads;
    return std::make_shared<const int>(7);
  };
  const auto first = kept.get("seven", seven);
  REQUIRE(first != nullptr);
  CHECK(*first == 7);
  CHECK(kept.get("seven", seven) == first);
  CHECK(reads == 1);

  const auto broken = [&]() -> std::shared_ptr<const int> {
    ++reads;
    throw std::runtime_error("broken");
  };
  CHECK_THROWS_AS(kept.get("broken", broken), std::runtime_error);
  // No null in its place: who asks again is told again.
  CHECK_THROWS_AS(kept.get("broken", broken), std::runtime_error);
  CHECK(reads == 3);
  CHECK(kept.get("broken", seven) != nullptr);

  const auto nothing = [] { return std::shared_ptr<const int>(); };
  CHECK(kept.get("nothing", nothing) == nullptr);
  CHECK(kept.get("nothing", seven) != nullptr);
}

TEST_CASE("what builds on something broken is read anew too") {
  ReadOnce<int> kept;
  bool good = false;
  const auto base = [&]() -> std::shared_ptr<const int> {
    if (!good) throw std::runtime_error("broken");
    return std::make_shared<const int>(1);
  };
  const auto derived = [&] { return kept.get("base", base); };
  CHECK_THROWS_AS(kept.get("derived", derived), std::runtime_error);
  CHECK_THROWS_AS(kept.get("derived", derived), std::runtime_error);
  good = true;
  CHECK(kept.get("derived", derived) != nullptr);
  // One that builds on itself finds nothing.
  bool asked = false;
  const auto itself = [&] {
    asked = true;
    CHECK(kept.get("itself", base) == nullptr);
    return std::make_shared<const int>(2);
  };
  CHECK(kept.get("itself", itself) != nullptr);
  CHECK(asked);
}

}  // namespace
}  // namespace shardplan
