// SPDX-License-Identifier: Apache-2.0
#include "cost/links.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/cost/measured_cards.h"
#include "tests/support/builders.h"
#include "tests/support/property.h"
#include "tests/support/shared_dir.h"

namespace shardplan {
namespace {

using testing::card_names;
using testing::measured_card;
using testing::mesh;

constexpr CollectiveKind kAllKinds[] = {
    CollectiveKind::AllGather, CollectiveKind::ReduceScatter,
    CollectiveKind::AllReduce, CollectiveKind::AllToAll,
    CollectiveKind::Permute,   CollectiveKind::Broadcast};

CollectiveKind draw_kind() {
  return kAllKinds[draw_in<size_t>(0, std::size(kAllKinds))];
}

RankPlaces placed(const std::string& card, const std::string& axes,
                  const AxisNames& names, const Slices* slices = nullptr) {
  const auto places = places_of(measured_card(card), mesh(axes), names, slices);
  REQUIRE(places);
  return *places;
}

std::string text(const std::string& card, const std::string& axes,
                 const AxisNames& names) {
  return places_text(measured_card(card), placed(card, axes, names));
}

using PerTier = std::vector<int64_t>;

TEST_CASE("fast axes lie inside nodes, slow ones between them") {
  const std::string axes = "dp=4,tp=8";
  CHECK(placed("h100-sxm", axes, {"tp"}).per_tier == PerTier{8, 1});
  CHECK(placed("h100-sxm", axes, {"dp"}).per_tier == PerTier{1, 4});
  CHECK(placed("h100-sxm", axes, {"dp", "tp"}).per_tier == PerTier{8, 4});
  CHECK(placed("h100-sxm", "dp=8,tp=4", {"dp"}).per_tier == PerTier{2, 4});
  CHECK(placed("h100-sxm", "dp=2,tp=16", {"tp"}).per_tier == PerTier{8, 2});
  // One node: nothing leaves it.
  CHECK(placed("h100-sxm", "dp=2,tp=4", {"dp"}).per_tier == PerTier{2, 1});
  CHECK(placed("gb200", "dp=2,tp=36", {"dp", "tp"}).per_tier == PerTier{72, 1});
  CHECK(text("h100-sxm", axes, {"tp"}) == "nvlink inside 8 devices");
  CHECK(text("h100-sxm", axes, {"dp"}) == "infiniband between 4 devices");
  CHECK(text("h100-sxm", "dp=8,tp=4", {"dp"}) ==
        "4 domains over infiniband, 2 ranks each over nvlink");
  CHECK(text("h100-sxm", "dp=1,tp=4", {"dp"}) == "one device");
}

TEST_CASE("racks have as many devices each, in whole trays") {
  // 256 devices are 64 in each of four racks of 72.
  CHECK(placed("gb200", "dp=4,tp=64", {"tp"}).per_tier == PerTier{64, 1});
  CHECK(placed("gb200", "dp=4,tp=64", {"dp"}).per_tier == PerTier{1, 4});
  CHECK(placed("gb200", "dp=8,tp=36", {"dp"}).per_tier == PerTier{2, 4});
  // 100 devices have no such part: the first rack is full.
  CHECK_FALSE(placed("gb200", "dp=2,tp=50", {"tp"}).even);
  // A node of eight has no smaller part.
  CHECK_FALSE(placed("h100-sxm", "dp=2,tp=6", {"tp"}).even);
}

TEST_CASE("groups that nodes cut unevenly are counted as scattered") {
  // Two groups of three in a node of eight, the third crosses.
  const RankPlaces places = placed("h100-sxm", "dp=8,tp=3", {"tp"});
  CHECK_FALSE(places.even);
  CHECK(places.per_tier == PerTier{1, 3});
  CHECK(collective_time(measured_card("h100-sxm"), CollectiveKind::AllGather,
                        places, 1e6)
            ->seconds.lower == 0);
  CHECK(placed("h100-sxm", "dp=2,tp=3", {"tp"}).even);
}

TEST_CASE("no link reaches beyond the last tier, and none a CPU") {
  CHECK_FALSE(places_of(measured_card("l40s"), mesh("tp=16"), {"tp"}));
  CHECK(places_of(measured_card("l40s"), mesh("dp=2,tp=8"), {"tp"}));
  CHECK_FALSE(places_of(measured_card("cpu"), mesh("tp=2"), {"tp"}));
  CHECK(places_of(measured_card("cpu"), mesh("tp=2,dp=1"), {"dp"}));
}

using Torus = std::vector<TorusAxis>;

TEST_CASE("axes of a torus close where its sizes say so") {
  CHECK(placed("tpu-v5e", "x=4,y=4", {"x"}).torus_axes == Torus{{4, false}});
  CHECK(placed("tpu-v5e", "x=16,y=16", {"x"}).torus_axes == Torus{{16, true}});
  // All of a v5p's axes are multiples of 4: a cube of rings.
  CHECK(placed("tpu-v5p", "fsdp=16,tp=4", {"tp"}).torus_axes ==
        Torus{{4, true}});
  CHECK(placed("tpu-v5p", "fsdp=16,tp=4", {"fsdp"}).torus_axes ==
        Torus{{4, true}, {4, true}});
  // Half of a ring is a line.
  CHECK(placed("tpu-v5p", "fsdp=32,tp=2", {"tp"}).torus_axes ==
        Torus{{2, false}});
  CHECK(text("tpu-v5p", "fsdp=16,tp=4", {"fsdp"}) ==
        "ici inside 16 devices (4 ring x 4 ring)");
  // Two devices of a chip of TPU7x need no link of the torus.
  CHECK(placed("tpu-v7x", "fsdp=64,tp=2", {"tp"}).torus_axes.empty());
}

TEST_CASE("slices are as far as the torus reaches") {
  const Slices slices{{2, 1}};
  const RankPlaces places =
      placed("tpu-v5e", "fsdp=16,tp=4", {"fsdp"}, &slices);
  CHECK(places.per_tier == PerTier{8, 2});
  CHECK(places.torus_axes == Torus{{8, false}});
  CHECK(placed("tpu-v5e", "fsdp=16,tp=4", {"fsdp"}).per_tier == PerTier{16, 1});
}

TEST_CASE("an axis of any view is placed by its strides") {
  const Mesh with_views =
      testing::mesh_with_views("dp=4,tp=8", {"experts:ep=16,edp=2"});
  const auto places = places_of(measured_card("h100-sxm"), with_views, {"ep"});
  REQUIRE(places);
  CHECK(places->per_tier == PerTier{4, 4});
}

TEST_CASE("the scaling book's measurements lie inside the bracket") {
  // v5e 4 x 4, no axis closes: shards of 8.4 MB gathered over 4 devices, 560 us
  // by the rate and 680 measured; of 32 kB, 3 us by the hops and 8 measured.
  const HardwareProfile& card = measured_card("tpu-v5e");
  const RankPlaces places = placed("tpu-v5e", "x=4,y=4", {"x"});
  const auto large =
      collective_time(card, CollectiveKind::AllGather, places, 4 * 8.4e6);
  REQUIRE(large);
  CHECK(large->seconds.lower == doctest::Approx(560e-6));
  CHECK(large->seconds.estimate == doctest::Approx(680e-6).epsilon(0.15));
  CHECK(large->seconds.upper > 680e-6);
  CHECK(large->basis == Basis::Assumed);
  const auto small =
      collective_time(card, CollectiveKind::AllGather, places, 4 * 32e3);
  CHECK(small->seconds.lower < 3e-6);
  CHECK(small->seconds.estimate > 3e-6);
  CHECK(small->seconds.upper > 8e-6);
}

TEST_CASE("a ring moves both ways, several axes at once") {
  const HardwareProfile& card = measured_card("tpu-v5p");
  const auto lower = [&](const AxisNames& axes) {
    return collective_time(card, CollectiveKind::AllGather,
                           placed("tpu-v5p", "x=4,y=4,z=4", axes), 1e9)
        ->seconds.lower;
  };
  // Two links of 90 GB/s each per axis.
  CHECK(lower({"x"}) == doctest::Approx(0.75 * 1e9 / 1.8e11));
  CHECK(lower({"x", "y"}) ==
        doctest::Approx(15.0 / 16 * 1e9 / 5.4e11).epsilon(0.5));
  CHECK(lower({"x", "y", "z"}) == doctest::Approx(63.0 / 64 * 1e9 / 5.4e11));
}

TEST_CASE("rings through many nodes start slowly, trees do not") {
  // AutoParallel's start-ups on 32 nodes of 8 against one node: 700 us more for
  // an all-gather, 47 for an all-reduce.
  const HardwareProfile& card = measured_card("h100-sxm");
  const auto seconds = [&](CollectiveKind kind) {
    return collective_time(card, kind, placed("h100-sxm", "x=256", {"x"}), 1e3)
        ->seconds;
  };
  const Seconds gather = seconds(CollectiveKind::AllGather);
  CHECK(gather.estimate == doctest::Approx(700e-6).epsilon(0.1));
  CHECK(gather.lower < 1e-6);
  CHECK(seconds(CollectiveKind::AllReduce).estimate ==
        doctest::Approx(47e-6 + 16e-6).epsilon(0.2));
}

TEST_CASE("two of eight devices have one link of a full mesh") {
  // Stas Bekman, on 8 MI300X: all-reduce of 4 GB, bus bandwidth 47.7 GB/s among
  // 2, 312.9 among 8.
  const HardwareProfile& card = measured_card("mi300x");
  const auto seconds = [&](const std::string& axes) {
    return collective_time(card, CollectiveKind::AllReduce,
                           placed("mi300x", axes, {"tp"}), 4e9)
        ->seconds;
  };
  const Seconds two = seconds("dp=4,tp=2");
  CHECK(two.lower < 4e9 / 47.7e9);
  CHECK(two.estimate == doctest::Approx(4e9 / 47.7e9).epsilon(0.1));
  const double eight = 2 * 7.0 / 8 * 4e9 / 312.9e9;
  CHECK(seconds("tp=8").lower < eight);
  CHECK(seconds("tp=8").estimate == doctest::Approx(eight).epsilon(0.1));
}

RankPlaces draw_places(const HardwareProfile& card) {
  const Mesh drawn({{"a", draw_of<int64_t>({1, 2, 3, 4, 8, 16})},
                    {"b", draw_of<int64_t>({1, 2, 3, 4, 8, 16})},
                    {"c", draw_of<int64_t>({1, 2, 4, 8})}});
  const auto axes = draw_some_of({"a", "b", "c"});
  const auto places =
      places_of(card, drawn, AxisNames(axes.begin(), axes.end()));
  ASSUME(places.has_value());
  return *places;
}

bool as_slow(const PricedTime& slow, const PricedTime& fast) {
  constexpr double kSlack = 1 + 1e-12;
  return slow.seconds.lower * kSlack >= fast.seconds.lower &&
         slow.seconds.estimate * kSlack >= fast.seconds.estimate &&
         slow.seconds.upper * kSlack >= fast.seconds.upper;
}

double draw_payload() {
  return static_cast<double>(draw_in<int64_t>(1, int64_t{1} << 40));
}

TEST_CASE("lower <= estimate <= upper, of every collective on every card") {
  CHECK(holds([] {
    const HardwareProfile& card = measured_card(draw_of(card_names()));
    const auto time =
        collective_time(card, draw_kind(), draw_places(card), draw_payload());
    ENSURE(time.has_value());
    const Seconds& seconds = time->seconds;
    ENSURE(std::isfinite(seconds.upper));
    ENSURE(0 <= seconds.lower && seconds.lower <= seconds.estimate &&
           seconds.estimate <= seconds.upper);
  }));
}

TEST_CASE("more bytes never take less time on links") {
  CHECK(holds([] {
    const HardwareProfile& card = measured_card(draw_of(card_names()));
    const RankPlaces places = draw_places(card);
    const CollectiveKind kind = draw_kind();
    const double payload = draw_payload();
    const double more = payload * (1 + draw_payload() / 1e12);
    ENSURE(as_slow(*collective_time(card, kind, places, more),
                   *collective_time(card, kind, places, payload)));
  }));
}

TEST_CASE("half the bandwidth of links makes no collective faster") {
  CHECK(holds([] {
    const HardwareProfile& card = measured_card(draw_of(card_names()));
    HardwareProfile half = card;
    for (LinkTier& link : half.links) link.bytes_per_second.value /= 2;
    const RankPlaces places = draw_places(card);
    const CollectiveKind kind = draw_kind();
    const double payload = draw_payload();
    ENSURE(as_slow(*collective_time(half, kind, places, payload),
                   *collective_time(card, kind, places, payload)));
  }));
}

TEST_CASE("more ranks on the faster link never slow the lower bound") {
  CHECK(holds([] {
    const HardwareProfile& card =
        measured_card(draw_of<std::string>({"h100-sxm", "b200", "a100-80"}));
    const CollectiveKind kind = draw_kind();
    const double payload = draw_payload();
    // 32 ranks of 256 devices, the more of them in one node the later.
    double before = 1e300;
    for (const char* axes :
         {"g=32,i=8", "o=2,g=32,i=4", "o=4,g=32,i=2", "o=8,g=32"}) {
      const auto places = places_of(card, mesh(axes), {"g"});
      ENSURE(places.has_value());
      const auto time = collective_time(card, kind, *places, payload);
      ENSURE(time->seconds.lower <= before);
      before = time->seconds.lower;
    }
  }));
}

TEST_CASE("collectives of nccl-tests lie inside the bracket") {
  const auto file = testing::shared_file("data/measured/nccl.csv");
  if (!file) return;
  const std::map<std::string, std::string> cards = {{"h100_sxm", "h100-sxm"},
                                                    {"h200_sxm", "h200"},
                                                    {"b200_sxm", "b200"},
                                                    {"a100_sxm", "a100-80"},
                                                    {"l40s", "l40s"}};
  const std::map<std::string, CollectiveKind> kinds = {
      {"all_gather", CollectiveKind::AllGather},
      {"reduce_scatter", CollectiveKind::ReduceScatter},
      {"all_reduce", CollectiveKind::AllReduce},
      {"alltoall", CollectiveKind::AllToAll}};
  size_t rows = 0;
  size_t above = 0;
  std::vector<double> errors;
  for (const auto& row : testing::csv_rows(*file)) {
    const HardwareProfile& card = measured_card(cards.at(row[0]));
    RankPlaces places;
    places.ranks = std::stoll(row[5]);
    places.per_tier = {places.ranks};
    const double seconds = std::stod(row[7]) * 1e-6;
    const auto time =
        collective_time(card, kinds.at(row[3]), places, std::stod(row[6]));
    REQUIRE(time);
    CAPTURE(row[0] + " " + row[3] + " " + row[5] + " " + row[6]);
    CHECK(time->seconds.lower < seconds);
    ++rows;
    if (seconds > time->seconds.upper) ++above;
    errors.push_back(std::abs(seconds / time->seconds.estimate - 1));
  }
  CHECK(rows > 2000);
  CHECK(above * 50 < rows);
  std::ranges::sort(errors);
  CHECK(errors[rows / 2] < 0.02);
  CHECK(errors[rows * 9 / 10] < 0.12);
}

TEST_CASE("collectives between nodes lie inside the bracket") {
  const auto file =
      testing::shared_file("data/measured/nccl_h100_multinode_fit.csv");
  if (!file) return;
  const std::map<std::string, CollectiveKind> kinds = {
      {"all_gather", CollectiveKind::AllGather},
      {"reduce_scatter", CollectiveKind::ReduceScatter},
      {"all_reduce", CollectiveKind::AllReduce},
      {"all_to_all", CollectiveKind::AllToAll}};
  const HardwareProfile& card = measured_card("h100-sxm");
  std::vector<double> errors;
  size_t above = 0;
  for (const auto& row : testing::csv_rows(*file)) {
    const int64_t nodes = std::stoll(row[1]);
    const int64_t per_node = std::stoll(row[2]);
    if (nodes == 1) continue;
    RankPlaces places;
    places.ranks = nodes * per_node;
    places.per_tier = {per_node, nodes};
    // Long enough for start-ups not to matter; what is published is the
    // bandwidth.
    const double payload = 64e9;
    const double seconds = payload / (std::stod(row[5]) * 1e9);
    const auto time = collective_time(card, kinds.at(row[0]), places, payload);
    CAPTURE(row[0] + " " + row[1] + " " + row[2]);
    CHECK(time->seconds.lower < seconds);
    if (seconds > time->seconds.upper) ++above;
    errors.push_back(std::abs(seconds / time->seconds.estimate - 1));
  }
  REQUIRE(errors.size() > 70);
  CHECK(above * 20 <= errors.size());
  std::ranges::sort(errors);
  CHECK(errors[errors.size() / 2] < 0.15);
  CHECK(errors[errors.size() * 9 / 10] < 0.3);
}

}  // namespace
}  // namespace shardplan
