// SPDX-License-Identifier: Apache-2.0
#include "sim/held_values.h"

#include <map>

#include <doctest/doctest.h>

#include "tests/support/small_graph.h"

namespace shardplan {
namespace {

using testing::SmallGraph;

// w is used by nodes 0 and 1, then by the last; the ids by the first alone.
struct Three {
  explicit Three(int between) : g("tp=1") {
    ids = g.input({4}, "", 300);
    x = g.input({8, 8}, "");
    w = g.parameter({8, 8}, "");
    int y = g.einsum("bd,df->bf", x, w);
    y = g.einsum("bd,df->bf", y, w);
    for (int i = 0; i < between; ++i) y = g.node("relu", {y});
    last = g.einsum("bd,df->bf", y, w);
    g.node("embedding", {last, ids});
    program.emplace(g.plan());
    lives = lifetimes_of(*program);
    given = g.values();
  }
  HeldValues held(Storage storage = Storage::F32) {
    return {&g.graph, &lives,
            [this](int value, Element element) {
              ++reads[value];
              CHECK(element == Element::F32);
              return given[static_cast<size_t>(value)];
            },
            false, storage};
  }
  SmallGraph g;
  int ids = 0, x = 0, w = 0, last = 0;
  std::optional<Program> program;
  Lifetimes lives;
  std::vector<Tensor> given;
  std::map<int, int> reads;
};

TEST_CASE("held values: all runs read the same, once") {
  Three t(0);
  HeldValues held = t.held();
  const Tensor single = held_value(held, t.w, Element::F32);
  const Tensor wide = held_value(held, t.w, Element::F64);
  CHECK(values_of(single) == values_of(wide));
  CHECK(wide.element == Element::F64);
  CHECK(held_value(held, t.w, Element::F64).storage == wide.storage);
  CHECK(t.reads[t.w] == 1);
}

TEST_CASE("held values: a weight is let go of, and read again far on") {
  for (const int between : {0, 20}) {
    CAPTURE(between);
    Three t(between);
    HeldValues held = t.held();
    held_value(held, t.w, Element::F64);
    held_value(held, t.x, Element::F64);
    release_values(held, 0);
    held_value(held, t.w, Element::F64);
    CHECK(t.reads[t.w] == 1);
    release_values(held, 1);
    const auto w = static_cast<size_t>(t.w);
    CHECK((held.doubles[w].storage == nullptr) == (between == 20));
    // The input was read for the last time.
    CHECK(held.doubles[static_cast<size_t>(t.x)].storage == nullptr);
    held_value(held, t.w, Element::F64);
    CHECK(t.reads[t.w] == (between == 20 ? 2 : 1));
  }
}

TEST_CASE("held values: doubles go first, unless they are needed again") {
  for (const int between : {0, 20}) {
    CAPTURE(between);
    Three t(between);
    HeldValues held = t.held();
    for (const int value : {t.w, t.ids}) held_value(held, value, Element::F64);
    release_doubles(held, 1);
    const auto w = static_cast<size_t>(t.w);
    CHECK((held.doubles[w].storage == nullptr) == (between == 20));
    CHECK(held.singles[w].storage != nullptr);
    CHECK(held.doubles[static_cast<size_t>(t.ids)].storage != nullptr);
  }
}

TEST_CASE("held values: inputs are kept for as long as anyone reads them") {
  Three t(20);
  HeldValues held = t.held();
  held_value(held, t.ids, Element::F32);
  release_values(held, 0);
  held_value(held, t.ids, Element::F32);
  CHECK(t.reads[t.ids] == 1);
}

TEST_CASE("held values: every run computes with what is stored") {
  Three t(0);
  HeldValues held = t.held(Storage::BF16);
  const std::vector<double> before =
      values_of(t.given[static_cast<size_t>(t.w)]);
  const std::vector<double> single =
      values_of(held_value(held, t.w, Element::F32));
  CHECK(values_of(held_value(held, t.w, Element::F64)) == single);
  CHECK(single != before);
  for (size_t i = 0; i < single.size(); ++i) {
    CHECK(single[i] == rounded(static_cast<float>(before[i]), Storage::BF16));
  }
  // What was given is not written to; integers are no measurements.
  CHECK(values_of(t.given[static_cast<size_t>(t.w)]) == before);
  CHECK(values_of(held_value(held, t.ids, Element::F32)) ==
        values_of(t.given[static_cast<size_t>(t.ids)]));
}

}  // namespace
}  // namespace shardplan
