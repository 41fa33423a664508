// SPDX-License-Identifier: Apache-2.0
#include "graph/ids.h"

#include <concepts>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include "spmd/program.h"

namespace shardplan {
namespace {

template <typename List, typename Key>
concept IndexedBy = requires(List list, Key key) {
  list[key];
};

// Neither kind of id becomes the other or a number, and a number becomes none
// without being asked.
template <typename A, typename B>
constexpr bool kApart =
    !std::is_convertible_v<A, B> && !std::is_constructible_v<A, B> &&
    !std::is_constructible_v<B, A> && !std::is_convertible_v<A, int> &&
    !std::is_convertible_v<int, A> && !std::equality_comparable_with<A, B>;
static_assert(kApart<ValueId, NodeId>);
static_assert(kApart<ValueId, RegisterId>);
static_assert(kApart<NodeId, InstructionId>);
static_assert(kApart<RegisterId, InstructionId>);

static_assert(IndexedBy<PerValue<int>, ValueId>);
static_assert(!IndexedBy<PerValue<int>, NodeId>);
static_assert(!IndexedBy<PerValue<bool>, RegisterId>);
static_assert(!IndexedBy<PerRegister<int>, size_t>);
static_assert(!IndexedBy<PerNode<int>, int>);
static_assert(!std::is_convertible_v<PerValue<int>&, std::vector<int>&>);

TEST_CASE("ids: none is before all and names nothing") {
  const ValueId none;
  CHECK_FALSE(none);
  CHECK(ValueId(0));
  CHECK(none < ValueId(0));
  CHECK(ValueId(1) > ValueId(0));
  CHECK_FALSE(PerValue<int>(3).has(none));
}

TEST_CASE("ids: a list gives the ids of its items") {
  PerValue<std::string> list;
  const ValueId a = list.push_back("a");
  const ValueId b = list.push_back("b");
  CHECK(list[a] == "a");
  CHECK(list.id_of(list[b]) == b);
  CHECK(list.has(b));
  CHECK_FALSE(list.has(ValueId(2)));
  std::string all;
  for (const ValueId id : list.ids()) all += list[id];
  CHECK(all == "ab");
  for (const ValueId id : list.ids(b)) CHECK(list[id] == "b");
}

}  // namespace
}  // namespace shardplan
