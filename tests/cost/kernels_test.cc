// SPDX-License-Identifier: Apache-2.0
#include "cost/kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/cost/measured_cards.h"
#include "tests/support/property.h"
#include "tests/support/shared_dir.h"
#include "tests/support/source_dir.h"

namespace shardplan {
namespace {

using testing::card_names;
using testing::measured_card;

bool is_bracket(const Seconds& seconds) {
  return std::isfinite(seconds.upper) && 0 <= seconds.lower &&
         seconds.lower <= seconds.estimate && seconds.estimate <= seconds.upper;
}

bool no_faster(const PricedTime& slow, const PricedTime& fast) {
  // Sums are rounded.
  constexpr double kSlack = 1 + 1e-12;
  return slow.seconds.lower * kSlack >= fast.seconds.lower &&
         slow.seconds.estimate * kSlack >= fast.seconds.estimate &&
         slow.seconds.upper * kSlack >= fast.seconds.upper;
}

double draw_size_to(int bits) {
  return static_cast<double>(draw_in<int64_t>(1, (int64_t{1} << bits) + 1));
}

ProductShape draw_product() {
  return {draw_of<double>({1, 1, 8, 64}), draw_size_to(17), draw_size_to(17),
          draw_size_to(17)};
}

AttentionShape draw_attention() {
  AttentionShape shape;
  shape.batch = draw_size_to(6);
  shape.heads = draw_size_to(6);
  shape.queries = draw_of<double>({1, 64, 1000, 4096, 100000});
  shape.keys = draw_of<double>({64, 1000, 4096, 100000});
  shape.head_dim = draw_of<double>({16, 64, 96, 128, 256});
  shape.value_dim = draw_of<double>({64, 128});
  shape.causal = draw_bool();
  shape.kv_heads = draw_of<double>({0, 1, 2});
  return shape;
}

const MeasuredGrid& products_of(const HardwareProfile& card) {
  REQUIRE(card.measured.products.size() == 1);
  return card.measured.products[0].rate;
}

size_t index_on(const std::vector<double>& axis, double value) {
  const auto found = std::ranges::find(axis, value);
  REQUIRE(found != axis.end());
  return static_cast<size_t>(found - axis.begin());
}

TEST_CASE("a product on the grid takes what was measured, sustained") {
  const HardwareProfile& card = measured_card("h100-sxm");
  const MeasuredGrid& grid = products_of(card);
  const size_t n = grid.axes[1].size();
  const size_t k = grid.axes[2].size();
  const double rate = grid.values[(index_on(grid.axes[0], 4096) * n +
                                   index_on(grid.axes[1], 4096)) *
                                      k +
                                  index_on(grid.axes[2], 4096)];
  // An H100 reaches 70 to 85 % of its 989 TFLOP/s on this shape.
  CHECK(rate > 0.7 * 989e12);
  CHECK(rate < 0.85 * 989e12);
  const ProductShape shape{1, 4096, 4096, 4096};
  const auto time = product_time(card, Precision::BF16, shape);
  REQUIRE(time);
  CHECK(time->basis == Basis::Measured);
  CHECK(card.sources[*time->source].id == "aiconfigurator");
  CHECK(time->seconds.estimate ==
        doctest::Approx(shape.flops() / rate / card.measured.sustained->value));
  CHECK(time->seconds.lower == doctest::Approx(shape.flops() / 989e12));
}

TEST_CASE("the basis weakens off the grid, beyond it and without a table") {
  const HardwareProfile& h100 = measured_card("h100-sxm");
  const auto basis = [](const HardwareProfile& card, Precision precision,
                        const ProductShape& shape) {
    return product_time(card, precision, shape)->basis;
  };
  CHECK(basis(h100, Precision::BF16, {1, 8192, 8192, 1024}) == Basis::Measured);
  CHECK(basis(h100, Precision::F16, {1, 8192, 8192, 1024}) == Basis::Measured);
  CHECK(basis(h100, Precision::BF16, {1, 8192, 5120, 5120}) ==
        Basis::Interpolated);
  CHECK(basis(h100, Precision::BF16, {1, 8192, 5120, 131072}) ==
        Basis::Extrapolated);
  CHECK(basis(h100, Precision::F8, {1, 8192, 8192, 1024}) ==
        Basis::Extrapolated);
  CHECK(basis(measured_card("mi300x"), Precision::BF16,
              {1, 8192, 8192, 1024}) == Basis::Assumed);
  CHECK_FALSE(product_time(measured_card("tpu-v5e"), Precision::F8, {}));
}

TEST_CASE("rows that are not multiples of 16 bytes are slower, and unsure") {
  const HardwareProfile& card = measured_card("h100-sxm");
  const auto odd = product_time(card, Precision::BF16, {1, 8192, 50257, 768});
  const auto even = product_time(card, Precision::BF16, {1, 8192, 50264, 768});
  CHECK(odd->basis == Basis::Extrapolated);
  CHECK(even->basis == Basis::Interpolated);
  CHECK(odd->seconds.estimate > 1.4 * even->seconds.estimate);
  CHECK(odd->seconds.upper > 2.8 * even->seconds.upper);
  CHECK(odd->seconds.lower < even->seconds.lower);
  // Numbers of rows need no alignment.
  CHECK(product_time(card, Precision::BF16, {1, 8191, 4096, 4096})->basis ==
        Basis::Interpolated);
}

TEST_CASE("between points of a grid values lie between those of its corners") {
  CHECK(holds([] {
    const HardwareProfile& card = measured_card(
        draw_of<std::string>({"h100-sxm", "b200", "l40s", "a100-80"}));
    const MeasuredGrid& grid = products_of(card);
    std::array<double, 3> point{};
    std::array<size_t, 3> below{};
    for (size_t i = 0; i < point.size(); ++i) {
      const std::vector<double>& axis = grid.axes[i];
      below[i] = draw_in<size_t>(0, axis.size() - 1);
      point[i] = axis[below[i]] + (axis[below[i] + 1] - axis[below[i]]) *
                                      static_cast<double>(draw_in(1, 100)) /
                                      100;
    }
    double least = 1e30;
    double most = 0;
    for (size_t corner = 0; corner < 8; ++corner) {
      size_t index = 0;
      for (size_t i = 0; i < point.size(); ++i) {
        index = index * grid.axes[i].size() + below[i] + (corner >> i & 1U);
      }
      if (grid.values[index] <= 0) continue;
      least = std::min(least, grid.values[index]);
      most = std::max(most, grid.values[index]);
    }
    Basis basis = Basis::Measured;
    const auto value = at_point(grid, point, basis);
    ENSURE(value.has_value());
    ENSURE(basis == Basis::Interpolated);
    ENSURE(*value >= least * (1 - 1e-12));
    ENSURE(*value <= most * (1 + 1e-12));
  }));
}

TEST_CASE("a grid without values around a point has none there") {
  const MeasuredGrid grid{{{1, 2, 4}}, {0, 0, 8}, 0, ""};
  Basis basis = Basis::Measured;
  const auto at = [&](double x) {
    const std::array<double, 1> point = {x};
    return at_point(grid, point, basis);
  };
  CHECK_FALSE(at(1));
  CHECK_FALSE(at(1.5));
  CHECK(basis == Basis::Measured);
  CHECK(at(4) == doctest::Approx(8));
  CHECK(basis == Basis::Measured);
  CHECK(at(3) == doctest::Approx(8));
  CHECK(basis == Basis::Interpolated);
  CHECK(at(8) == doctest::Approx(8));
  CHECK(basis == Basis::Extrapolated);
}

TEST_CASE("lower <= estimate <= upper, of every kernel on every card") {
  CHECK(holds([] {
    const HardwareProfile& card = measured_card(draw_of(card_names()));
    const auto precision = draw_of<Precision>(
        {Precision::F32, Precision::TF32, Precision::F16, Precision::BF16,
         Precision::F8, Precision::I8, Precision::F4});
    if (const auto time = product_time(card, precision, draw_product())) {
      ENSURE(is_bracket(time->seconds));
    }
    const auto attention =
        attention_time(card, precision, draw_attention(), draw_bool(),
                       draw_of<std::string>({"", "flash", "cudnn", "none"}));
    if (attention) ENSURE(is_bracket(attention->seconds));
    const double bytes = draw_size_to(40);
    ENSURE(is_bracket(memory_time(card, bytes)->seconds));
    ENSURE(is_bracket(host_copy_time(card, bytes)->seconds));
    ENSURE(least_read_seconds(card, bytes) <=
           memory_time(card, bytes)->seconds.estimate);
  }));
  for (const std::string& name : card_names()) {
    CAPTURE(name);
    CHECK(is_bracket(kernel_start(measured_card(name)).seconds));
    CHECK(is_bracket(eager_launch(measured_card(name)).seconds));
  }
}

TEST_CASE("more bytes never take less time") {
  CHECK(holds([] {
    const HardwareProfile& card = measured_card(draw_of(card_names()));
    const double bytes = draw_size_to(36);
    const double more = bytes * (1 + draw_size_to(8) / 256);
    ENSURE(no_faster(*memory_time(card, more), *memory_time(card, bytes)));
    ENSURE(
        no_faster(*host_copy_time(card, more), *host_copy_time(card, bytes)));
  }));
}

// Half the bandwidth of memory, in tables too.
HardwareProfile with_half_the_bandwidth(HardwareProfile card) {
  card.hbm_bytes_per_second->value /= 2;
  if (card.measured.memory) {
    for (double& rate : card.measured.memory->values) rate /= 2;
  }
  return card;
}

TEST_CASE("half the bandwidth of the memory makes no kernel faster") {
  CHECK(holds([] {
    const HardwareProfile& card = measured_card(draw_of(card_names()));
    const HardwareProfile half = with_half_the_bandwidth(card);
    const double bytes = draw_size_to(36);
    ENSURE(no_faster(*memory_time(half, bytes), *memory_time(card, bytes)));
    const ProductShape product = draw_product();
    ENSURE(no_faster(*product_time(half, Precision::BF16, product),
                     *product_time(card, Precision::BF16, product)));
    const AttentionShape attention = draw_attention();
    const bool backward = draw_bool();
    ENSURE(no_faster(
        *attention_time(half, Precision::BF16, attention, backward, ""),
        *attention_time(card, Precision::BF16, attention, backward, "")));
  }));
}

TEST_CASE("a product of few rows takes as long as reading its weight") {
  const HardwareProfile& card = measured_card("h100-sxm");
  const auto time = product_time(card, Precision::BF16, {1, 1, 28672, 4096});
  REQUIRE(time);
  const double read = 2 * 28672.0 * 4096 / 3.0e12;
  CHECK(time->seconds.estimate > read);
  CHECK(time->seconds.estimate < 1.3 * read);
}

TEST_CASE("grouped products reach what batched ones were measured to") {
  // Our own run on an H100: 64 of [256, 2048] x [2048, 1408] in 172 us, 32 of
  // [512, 7168] x [7168, 2048] in 641.
  const HardwareProfile& card = measured_card("h100-sxm");
  const auto many = product_time(card, Precision::BF16, {64, 256, 1408, 2048});
  CHECK(many->seconds.lower < 172e-6);
  CHECK(many->seconds.estimate == doctest::Approx(172e-6).epsilon(0.15));
  const auto few = product_time(card, Precision::BF16, {32, 512, 2048, 7168});
  CHECK(few->seconds.estimate == doctest::Approx(641e-6).epsilon(0.15));
}

TEST_CASE("attention takes what was measured, the hidden half left out") {
  // Flash on an H100, 32 heads of 128, two sequences of 4,096: 903 us forward,
  // 2,844 backward; cuDNN 478 and 1,515.
  const HardwareProfile& card = measured_card("h100-sxm");
  AttentionShape shape;
  shape.batch = 2;
  shape.heads = 32;
  shape.kv_heads = 8;
  shape.queries = shape.keys = 4096;
  shape.head_dim = shape.value_dim = 128;
  shape.causal = true;
  const struct {
    const char* kernel;
    bool backward;
    double seconds;
  } rows[] = {{"flash", false, 903e-6},
              {"flash", true, 2844e-6},
              {"cudnn", false, 478e-6},
              {"cudnn", true, 1515e-6}};
  for (const auto& row : rows) {
    CAPTURE(row.kernel);
    CAPTURE(row.backward);
    const auto time =
        attention_time(card, Precision::BF16, shape, row.backward, row.kernel);
    REQUIRE(time);
    CHECK(time->basis == Basis::Measured);
    CHECK(time->seconds.lower < row.seconds);
    CHECK(time->seconds.upper > row.seconds);
    CHECK(time->seconds.estimate == doctest::Approx(row.seconds).epsilon(0.15));
  }
  // Without a name the best is taken.
  CHECK(attention_time(card, Precision::BF16, shape, false, "")->seconds ==
        attention_time(card, Precision::BF16, shape, false, "cudnn")->seconds);
  // Eager attention has no table here.
  CHECK(attention_time(card, Precision::BF16, shape, false, "eager")->basis ==
        Basis::Assumed);
}

TEST_CASE("decoding reads the cache of keys and values") {
  // Our own run on an H100: 32 sequences of 32,768 tokens, 32 heads with 8 KV
  // heads of 128: 1,387 us.
  const HardwareProfile& card = measured_card("h100-sxm");
  AttentionShape shape;
  shape.batch = 32;
  shape.heads = 32;
  shape.kv_heads = 8;
  shape.queries = 1;
  shape.keys = 32768;
  shape.head_dim = shape.value_dim = 128;
  const auto time =
      attention_time(card, Precision::BF16, shape, false, "flash");
  REQUIRE(time);
  CHECK(time->seconds.lower < 1387e-6);
  CHECK(time->seconds.estimate == doctest::Approx(1387e-6).epsilon(0.1));
}

TEST_CASE("what fits into the cache moves at its rate at best") {
  const HardwareProfile& card = measured_card("h100-sxm");
  CHECK(memory_time(card, 40e6)->seconds.lower ==
        doctest::Approx(40e6 / (4 * 3.35e12)));
  CHECK(least_read_seconds(card, 50e6) == 0);
  CHECK(least_read_seconds(card, 3.35e12) == doctest::Approx(1).epsilon(0.001));
  // Our own run: 4.3 GB read and as much written in 2.84 ms.
  const auto copy = memory_time(card, 2 * 4294967296.0);
  CHECK(copy->seconds.lower < 2.84e-3);
  CHECK(copy->seconds.estimate == doctest::Approx(2.84e-3).epsilon(0.03));
}

TEST_CASE("the tables of the profiles are what scripts/measured-tables makes") {
  const auto file = testing::shared_file("data/measured/nccl.csv");
  if (!file) return;
  const std::string shared =
      file->parent_path().parent_path().parent_path().string();
  const std::string command =
      "python3 '" + (source_dir() / "scripts/measured-tables").string() +
      "' '" + shared + "' --check";
  CHECK(std::system(command.c_str()) == 0);  // NOLINT
}

// A row of our own runs: `"key": number`.
double number_in(const std::string& line, const std::string& key) {
  const std::string head = "\"" + key + "\": ";
  const size_t at = line.find(head);
  REQUIRE(at != std::string::npos);
  return std::strtod(line.c_str() + at + head.size(), nullptr);
}

bool has_text(const std::string& line, std::string_view text) {
  return line.find(text) != std::string::npos;
}

TEST_CASE("no product of our own runs is faster than the lower end") {
  const auto file = testing::shared_file("data/measured/one_gpu.jsonl");
  if (!file) return;
  std::ifstream stream(*file);
  size_t rows = 0;
  size_t large = 0;
  size_t above = 0;
  std::vector<double> errors;
  for (std::string line; std::getline(stream, line);) {
    if (!has_text(line, R"("kind": "gemm")") &&
        !has_text(line, R"("kind": "batched_gemm")")) {
      continue;
    }
    const HardwareProfile& card = measured_card(
        has_text(line, R"("gpu": "h100-sxm")") ? "h100-sxm" : "h200");
    Precision precision = Precision::BF16;
    if (has_text(line, R"("dtype": "f8)")) precision = Precision::F8;
    if (has_text(line, R"("dtype": "f32")")) precision = Precision::F32;
    if (has_text(line, R"("dtype": "tf32")")) precision = Precision::TF32;
    ProductShape shape;
    shape.m = number_in(line, "m");
    shape.n = number_in(line, "n");
    shape.k = number_in(line, "k");
    if (has_text(line, "batched")) shape.groups = number_in(line, "groups");
    const double seconds = number_in(line, "seconds");
    const auto time = product_time(card, precision, shape);
    CAPTURE(line);
    REQUIRE(time);
    CHECK(time->seconds.lower < seconds);
    ++rows;
    // Smaller ones waited for the host that starts them.
    if (shape.flops() < 3e10) continue;
    ++large;
    if (seconds > time->seconds.upper) ++above;
    errors.push_back(std::abs(seconds / time->seconds.estimate - 1));
  }
  CHECK(rows > 700);
  CHECK(large > 300);
  CHECK(above * 20 <= large);
  std::ranges::sort(errors);
  CAPTURE(errors[errors.size() / 2]);
  CAPTURE(errors[errors.size() * 9 / 10]);
  CHECK(errors[errors.size() / 2] < 0.08);
  CHECK(errors[errors.size() * 9 / 10] < 0.2);
}

}  // namespace
}  // namespace shardplan
