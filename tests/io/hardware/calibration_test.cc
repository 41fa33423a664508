// SPDX-License-Identifier: Apache-2.0
// What users measured: nccl-tests' output and CSV, as tables of a profile.
#include <cmath>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "cost/kernels.h"
#include "cost/links.h"
#include "io/hardware.h"
#include "tests/cost/measured_cards.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"

namespace shardplan {
namespace {

using testing::measured_card;
using testing::MemoryHost;

constexpr std::string_view kHeader = "kind,dtype,m,n,k,bytes,seconds\n";

struct Calibrated {
  HardwareProfile card;
  Diagnostics diags;
  bool fine = false;
};

Calibrated calibrated(
    const std::vector<std::pair<std::string, std::string>>& files,
    const std::string& card = "h100-sxm") {
  MemoryHost host;
  std::vector<std::string> paths;
  for (const auto& [path, text] : files) {
    host.files[path] = text;
    paths.push_back(path);
  }
  Calibrated result;
  result.card = measured_card(card);
  result.fine = calibrate(paths, result.card, host, result.diags);
  return result;
}

// A run of nccl-tests: `hosts` machines with as many ranks each.
std::string nccl_run(const std::string& program, int ranks, int hosts,
                     const std::vector<std::pair<int64_t, double>>& rows,
                     const std::string& redop = "sum") {
  std::ostringstream text;
  if (!program.empty()) {
    text << "# Collective test starting: " << program << "_perf\n";
  }
  text << "# nThread 1 nGpus 1 minBytes 8 maxBytes 134217728 step: 2(factor) "
          "warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n"
          "#\n# Using devices\n";
  for (int rank = 0; rank < ranks; ++rank) {
    text << "#  Rank " << rank << " Group  0 Pid   18" << rank << " on node-"
         << rank / (ranks / hosts) << " device  " << rank
         << " [0x8d] NVIDIA H100 80GB HBM3\n";
  }
  text
      << "#\n"
         "#                                        out-of-place      in-place\n"
         "#       size         count      type   redop    root     time   algbw"
         "   busbw #wrong     time   algbw   busbw #wrong\n"
         "#        (B)    (elements)                               (us)  (GB/s)"
         "  (GB/s)            (us)  (GB/s)  (GB/s)\n";
  const double share = (ranks - 1.0) / ranks;
  for (const auto& [bytes, microseconds] : rows) {
    const double rate = static_cast<double>(bytes) / microseconds / 1e3;
    text << bytes << " " << bytes / 4 << " float " << redop << " -1 "
         << microseconds << " " << rate << " "
         << rate * share * (program == "all_reduce" ? 2 : 1)
         << " 0 1.0 1.0 1.0 "
         << "N/A\n";
  }
  text << "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 91.2\n";
  return text.str();
}

std::string grid_csv(double rate) {
  std::string text(kHeader);
  for (const int m : {1024, 4096}) {
    for (const int n : {1024, 4096}) {
      for (const int k : {1024, 4096}) {
        const double seconds = 2.0 * m * n * k / rate;
        text += "product,bf16," + std::to_string(m) + "," + std::to_string(n) +
                "," + std::to_string(k) + ",," + std::to_string(seconds) + "\n";
      }
    }
  }
  return text;
}

TEST_CASE("products that were measured replace a table within their grid") {
  // Six digits of seconds: shapes are large enough for a slow card.
  Calibrated result = calibrated({{"mine.csv", grid_csv(1e13)}});
  REQUIRE_MESSAGE(result.fine, testing::messages(result.diags));
  const HardwareProfile& card = result.card;
  const HardwareProfile& shipped = measured_card("h100-sxm");
  REQUIRE(card.measured.products.size() ==
          shipped.measured.products.size() + 1);
  const MeasuredProducts& table = card.measured.products.front();
  CHECK(table.calibrated);
  CHECK(table.rate.axes[2] == std::vector<double>{1024, 4096});
  CHECK(card.sources[table.rate.source].title == "mine.csv (--calibrate)");

  ProductShape inside;
  inside.m = 4096;
  inside.n = inside.k = 1024;
  const auto own = product_time(card, Precision::BF16, inside);
  REQUIRE(own);
  // What torch itself was measured to do is not made slower once more.
  CHECK(own->seconds.estimate ==
        doctest::Approx(inside.flops() / 1e13).epsilon(0.01));
  CHECK(own->basis == Basis::Measured);
  CHECK(own->source == table.rate.source);
  // A bound that no run beats does not rest on a slow program.
  CHECK(own->seconds.lower ==
        product_time(shipped, Precision::BF16, inside)->seconds.lower);

  inside.k = 2048;
  CHECK(product_time(card, Precision::BF16, inside)->basis ==
        Basis::Interpolated);
  ProductShape beyond = inside;
  beyond.n = 16384;
  const auto other = product_time(card, Precision::BF16, beyond);
  const auto before = product_time(shipped, Precision::BF16, beyond);
  CHECK(other->seconds == before->seconds);
  CHECK(other->source == before->source);
}

TEST_CASE("a faster program lowers the bound with it") {
  const HardwareProfile& shipped = measured_card("h100-sxm");
  ProductShape shape;
  shape.m = shape.n = shape.k = 4096;
  const double before =
      product_time(shipped, Precision::BF16, shape)->seconds.lower;
  const double fast = shape.flops() / (before * 0.99);
  std::string text(kHeader);
  text += "product,bf16,4096,4096,4096,," +
          std::to_string(shape.flops() / std::min(fast, 9.8e14)) + "\n";
  Calibrated result = calibrated({{"mine.csv", text}});
  REQUIRE_MESSAGE(result.fine, testing::messages(result.diags));
  const auto own = product_time(result.card, Precision::BF16, shape);
  CHECK(own->seconds.lower <= own->seconds.estimate);
  CHECK(own->seconds.lower <= before);
}

TEST_CASE("copies, host copies and starts replace those of the profile") {
  const std::string text = std::string(kHeader) +
                           "# a comment\n"
                           "kernel-start,,,,,,3e-06\n"
                           "launch,,,,,,8e-06\n"
                           "launch,,,,,,9e-06\n"
                           "launch,,,,,,1.5e-05\n"
                           "copy,,,,,1000000,1e-06\n"
                           "copy,,,,,2000000000,0.001003\n"
                           "to-host,,,,,1073741824,0.025\n"
                           "from-host,,,,,1073741824,0.02\n";
  Calibrated result = calibrated({{"mine.csv", text}});
  REQUIRE_MESSAGE(result.fine, testing::messages(result.diags));
  const MeasuredTables& measured = result.card.measured;
  CHECK(measured.kernel_seconds->value == 3e-6);
  CHECK(measured.eager_launch_seconds->value == 9e-6);  // the median
  CHECK(measured.host_bytes_per_second->value ==
        doctest::Approx(1073741824 / 0.025));
  REQUIRE(measured.memory);
  CHECK(measured.memory->axes[0] == std::vector<double>{2e9});
  // Without the start of the kernel.
  CHECK(measured.memory->values[0] == doctest::Approx(2e12));
  CHECK(
      testing::messages(result.diags).find("1 size of copies below 95.4 MiB") !=
      std::string::npos);
}

TEST_CASE("collectives inside a machine become a table by ranks and bytes") {
  Calibrated result = calibrated(
      {{"two.txt",
        nccl_run("all_reduce", 2, 1, {{1024, 8}, {4096, 6}, {16384, 16}})},
       {"eight.txt",
        nccl_run("all_reduce", 8, 1, {{2048, 20}, {8192, 40}, {65536, 80}})}});
  REQUIRE_MESSAGE(result.fine, testing::messages(result.diags));
  const auto& tables = result.card.measured.collectives;
  REQUIRE(tables.size() == 5);
  const MeasuredGrid& grid = tables[0].seconds;
  CHECK(tables[0].kind == "all-reduce");
  CHECK(grid.axes[0] == std::vector<double>{2, 8});
  // What both were run with, or lies between.
  CHECK(grid.axes[1] == std::vector<double>{2048, 4096, 8192, 16384});
  const double fallen = std::sqrt(8e-6 * 6e-6);  // a series that falls is noise
  const std::vector<double> expected = {
      fallen,
      fallen,
      std::sqrt(fallen * 16e-6),
      16e-6,
      20e-6,
      std::sqrt(20e-6 * 40e-6),
      40e-6,
      40e-6 * std::pow(2, std::log(2) / std::log(8))};
  REQUIRE(grid.values.size() == expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    CHECK(grid.values[i] == doctest::Approx(expected[i]));
  }
  CHECK(result.card.sources[grid.source].title ==
        "eight.txt, two.txt (--calibrate)");

  // Ranks that were run have their own times, others those of the profile.
  const auto time_of = [](const HardwareProfile& card, int64_t ranks) {
    RankPlaces places;
    places.ranks = ranks;
    places.per_tier = {ranks};
    return *collective_time(card, CollectiveKind::AllReduce, places, 8192);
  };
  CHECK(time_of(result.card, 8).seconds.estimate == doctest::Approx(40e-6));
  CHECK(time_of(result.card, 8).basis == Basis::Measured);
  CHECK(time_of(result.card, 4).seconds ==
        time_of(measured_card("h100-sxm"), 4).seconds);
}

TEST_CASE("collectives between machines say what the network gives a device") {
  constexpr int64_t kBytes = int64_t{1} << 30;
  const auto rate_of = [&](const std::string& program, double seconds) {
    Calibrated result = calibrated(
        {{"x.txt", nccl_run(program, 16, 2, {{kBytes, seconds * 1e6}})}});
    REQUIRE_MESSAGE(result.fine, testing::messages(result.diags));
    return result.card.measured.network_bytes_per_second->value;
  };
  // Half of the bytes leave a machine of eight ranks, which share them.
  const double half = static_cast<double>(kBytes) / 2 / 8;
  CHECK(rate_of("all_gather", 0.01) == doctest::Approx(half / 0.01));
  CHECK(rate_of("reduce_scatter", 0.01) == doctest::Approx(half / 0.01));
  CHECK(rate_of("all_reduce", 0.01) == doctest::Approx(2 * half / 0.01));
  CHECK(rate_of("alltoall", 0.01) == doctest::Approx(8 * half / 0.01));
  // It prices a collective as it was measured.
  Calibrated result =
      calibrated({{"x.txt", nccl_run("all_gather", 16, 2, {{kBytes, 40000}})}});
  RankPlaces places;
  places.ranks = 16;
  places.per_tier = {8, 2};
  const auto time = collective_time(result.card, CollectiveKind::AllGather,
                                    places, static_cast<double>(kBytes));
  CHECK(time->seconds.estimate == doctest::Approx(0.04).epsilon(0.05));
}

TEST_CASE("older programs are known by what they print") {
  // No name: a sum with twice the bytes on the bus is an all-reduce.
  std::string text = nccl_run("all_reduce", 8, 1, {{33554432, 180}});
  text.erase(0, text.find('\n') + 1);
  Calibrated result = calibrated({{"run.txt", text}});
  REQUIRE_MESSAGE(result.fine, testing::messages(result.diags));
  CHECK(result.card.measured.collectives.front().kind == "all-reduce");
  text = nccl_run("", 8, 1, {{33554432, 120}});
  result = calibrated({{"run.txt", text}});
  CHECK(result.card.measured.collectives.front().kind == "reduce-scatter");
  // Gathering and exchanging look alike: the file's name says it.
  text = nccl_run("", 8, 1, {{33554432, 120}}, "none");
  result = calibrated({{"runs/alltoall_perf.log", text}});
  CHECK(result.card.measured.collectives.front().kind == "all-to-all");
  CHECK_FALSE(calibrated({{"run.txt", text}}).fine);
}

TEST_CASE("several runs in one file are several runs") {
  Calibrated result = calibrated(
      {{"all.txt", nccl_run("all_gather", 2, 1, {{1048576, 10}}, "none") +
                       nccl_run("all_gather", 4, 1, {{1048576, 12}}, "none") +
                       nccl_run("broadcast", 4, 1, {{1048576, 9}}, "none") +
                       nccl_run("alltoall", 4, 1, {{1048576, 14}}, "none")}});
  REQUIRE_MESSAGE(result.fine, testing::messages(result.diags));
  const auto& tables = result.card.measured.collectives;
  CHECK(tables[0].kind == "all-gather");
  CHECK(tables[0].seconds.axes[0] == std::vector<double>{2, 4});
  CHECK(tables[1].kind == "all-to-all");
  CHECK(testing::messages(result.diags).find("broadcast_perf") !=
        std::string::npos);
}

TEST_CASE("what cannot be right is refused, at its place") {
  const std::string csv(kHeader);
  std::string twice = nccl_run("all_reduce", 2, 1, {{1024, 8}});
  twice.insert(twice.find("#\n#  "),
               "#  Rank  0 Group  0 Pid 9 on node-1 device  0\n");
  std::string wrong = nccl_run("all_reduce", 2, 1, {{1024, 8}});
  wrong.replace(wrong.find(" 0 1.0 1.0"), 2, " 7");
  std::string nobody = nccl_run("all_reduce", 2, 1, {{1024, 8}});
  while (nobody.find("Rank") != std::string::npos) {
    const size_t begin = nobody.rfind('\n', nobody.find("Rank")) + 1;
    nobody.erase(begin, nobody.find('\n', begin) + 1 - begin);
  }
  struct Case {
    std::string text;
    std::string message;
    int64_t line;
    int64_t column;
  };
  const std::vector<Case> cases = {
      {"a,b\n1,2\n", "not a file of measurements", 1, 1},
      {csv + "product,bf16,1,2\n", "a row has 4 fields, not 7", 2, 1},
      {csv + "product,bf15,1,2,3,,1\n", "unknown dtype `bf15`", 2, 9},
      {csv + "product,bf16,0,2,3,,1\n", "`m` is `0`", 2, 14},
      {csv + "product,bf16,1,-2,3,,1\n", "`n` is `-2`", 2, 16},
      {csv + "product,bf16,1,2,9999999999999,,1\n", "`k` is", 2, 18},
      {csv + "product,bf16,1,2,3,,nan\n", "`seconds` is `nan`", 2, 21},
      {csv + "product,bf16,1,2,3,,-1\n", "`seconds` is `-1`", 2, 21},
      {csv + "product,bf16,1,2,3,4,1\n",
       "a row of `product` must leave `bytes` empty", 2, 20},
      {csv + "copy,,,,,,1\n", "`bytes` is ``", 2, 10},
      {csv + "copies,,,,,1,1\n", "unknown kind `copies`", 2, 1},
      {csv + "product,bf16,4096,4096,4096,,1e-7\n",
       "exceeds `flops_per_second.bf16`", 2, 30},
      {csv + "copy,,,,,1000000000,1e-5\n", "exceeds `hbm_bytes_per_second`", 2,
       21},
      {csv + "product,bf16,1,2,3,,1\nproduct,bf16,2,3,4,,1\n",
       "the products in bf16 do not form a grid", 2, 21},
      {nccl_run("all_reduce", 2, 1, {}), "no nccl-tests measurement", 1, 1},
      {twice, "rank 0 appears twice", 7, 10},
      {wrong, "wrong values in this run", 11, 0},
      {nobody, "the number of ranks", 9, 0},
      {nccl_run("all_reduce", 2, 1, {{1024, 8}}) +
           nccl_run("all_reduce", 4, 1, {{4096, 8}}),
       "no sizes in common", 11, 0},
  };
  for (const Case& each : cases) {
    CAPTURE(each.text);
    const Calibrated result = calibrated({{"x.txt", each.text}});
    CHECK_FALSE(result.fine);
    REQUIRE_FALSE(result.diags.all().empty());
    const Diagnostic& first = result.diags.all().front();
    CHECK_MESSAGE(first.message.find(each.message) != std::string::npos,
                  first.message);
    CHECK(result.diags.cannot_run());
    const Label* label = main_label(first);
    REQUIRE(label != nullptr);
    const Position at = label->where.file->position(label->where.begin);
    CHECK(at.line == each.line);
    if (each.column > 0) CHECK(at.column == each.column);
  }
  // Errors end: a long file of nonsense is not reported line by line.
  std::string many = csv;
  for (int i = 0; i < 1000; ++i) many += "x\n";
  CHECK(std::ssize(calibrated({{"x.csv", many}}).diags.all()) == kMaxErrors);
}

TEST_CASE("what is of no use is said") {
  const auto remark = [](const std::string& text, const std::string& card,
                         const std::string& wanted) {
    const Calibrated result = calibrated({{"x.txt", text}}, card);
    CHECK(result.fine);
    CHECK_MESSAGE(
        testing::messages(result.diags).find(wanted) != std::string::npos,
        testing::messages(result.diags));
  };
  remark(nccl_run("all_reduce", 1, 1, {{1024, 8}}), "h100-sxm", "on one rank");
  remark(nccl_run("all_reduce", 16, 2, {{1024, 8}}), "h100-sxm",
         "do not show the network rate");
  remark(nccl_run("all_reduce", 16, 2, {{int64_t{1} << 30, 80000}}), "l40s",
         "has no link between machines");
  remark(std::string(kHeader) + "product,f4,64,64,64,,1\n", "tpu-v4",
         "has no `flops_per_second.f4`");
  // All of a rack are within one domain of the fastest link.
  const Calibrated rack = calibrated(
      {{"x.txt", nccl_run("all_reduce", 8, 2, {{1048576, 30}})}}, "gb200");
  CHECK(rack.fine);
  CHECK(rack.card.measured.collectives.size() == 1);
}

}  // namespace
}  // namespace shardplan
