// SPDX-License-Identifier: Apache-2.0
#include "cost/kernels.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/checked.h"
#include "base/words.h"

namespace shardplan {
namespace {

// --- What is assumed where nothing was measured. None of these is fitted to a
// step unless its comment says so; each is wide on purpose.

// Large products reach 60 to 90 % of the dense peak on the cards that were
// measured (the medians of their tables over 100 GFLOP).
constexpr double kAssumedProductShare = 0.7;
constexpr double kAssumedProductUpper = 2.5;  // times the estimate
// The upper end of another precision's table, scaled by the peaks.
constexpr double kScaledProductUpper = 1.8;
// FP8 products over 30 GFLOP reached this share of the speed-up that the peaks
// promise over the table of bf16, on an H100 and an H200.
constexpr double kScaledEightBits = 0.89;
// The same for twelve products in F32 and TF32 on both cards: 1.03 to 1.16.
constexpr double kScaledWide = 1.08;
// Products of a few rows with a matrix in 4 bits, whose scales are stored
// apart, reach this share of the memory's rate. Fitted to servers of Llama 3.1
// 70B in NVFP4 on one to eight B200: on one, a token took 12 to 13 ms, where
// the bytes take 6.
constexpr double kFourBitsShare = 0.65;
// Rows of matrices that are not multiples of 16 bytes (a vocabulary of 50,257)
// run on kernels without wide or asynchronous copies. No table has such widths;
// people who pad them report products of up to twice the speed.
constexpr double kAlignedBytes = 16;
constexpr double kUnalignedEstimate = 1.5;
constexpr double kUnalignedUpper = 2;  // times that of an aligned one
// Such rows of the result are far slower. A head of 50,257 words made forward
// passes of GPT-2 large about 30 ms longer than its layers explain, for 8,192
// tokens on either card; one of 30,522 (a multiple of 4 bytes) made those of
// BERT large 13 ms longer for 16,384. Fitted to these (0.04 and 0.08 of the
// peak).
constexpr double kUnalignedResult = 15;
constexpr double kHalfAlignedResult = 8;
// Matrix units of 128 x 128 (TPU), tiles of 128 (GPU): smaller dimensions leave
// part of them idle.
constexpr double kAssumedTile = 128;
// FlashAttention 2 reaches 0.55 to 0.7 of an A100's peak (its paper) and 0.25
// to 0.35 of an H100's, cuDNN 0.4 to 0.65 of an H100's.
constexpr double kAssumedAttentionShare = 0.45;
constexpr double kAssumedAttentionUpper = 2.5;
// Copies of large arrays reach 0.90 to 0.93 of the data sheet on an H100 and an
// H200.
constexpr double kAssumedMemoryShare = 0.85;
constexpr double kAssumedMemoryUpper = 1.7;
// The largest cache that a device of the profiles has (MI300X: 256 MiB).
constexpr double kLargestCache = 256.0 * 1024 * 1024;
// Seconds of small kernels in a queue, alike on every card that was measured.
constexpr double kAssumedKernelSeconds = 3e-6;
constexpr double kAssumedLaunchSeconds = 8e-6;
constexpr double kAssumedStartSpread = 2;  // upper end, times the estimate
// Bytes per second of PCIe 4.0 x16 under load. The fastest is NVLink-C2C, the
// slowest half of PCIe 3.0.
constexpr double kAssumedHostRate = 2e10;
constexpr double kFastestHostRate = 4.5e11;
constexpr double kSlowestHostRate = 6e9;

// --- How far what was measured may be from what a run sees.

// torch ran 209 products over 30 GFLOP on each of two cards: 95 % take at most
// 1.12 times the estimate, the slowest 1.24.
constexpr double kProductUpper = 1.2;
// 95 % of 144 runs of attention take at most 1.18 times the median.
constexpr double kAttentionUpper = 1.2;
// Copies reach the table within 3 %; torch's AdamW takes 1.15 to 1.25 times as
// long as its bytes, its norm over rows 1.15 to 1.4 times.
constexpr double kMemoryUpper = 1.25;
constexpr double kHostUpper = 1.5;
// The best pinned copy exceeds what was measured by at most this factor: PCIe
// 5.0 x16 is 63 GB/s, of which 54 were seen.
constexpr double kHostPeak = 1.2;

// Bytes per second that an optimizer on a host reads and writes. Adam's seven
// numbers in float32 for 11.6 billion parameters took 8.2 s with CPU-Adam and
// 56 s with PyTorch's loop (DeepSpeed pull request 735), and those for 1.35
// billion took 21.8 s on a Xeon of ten cores (issue 1635).
constexpr double kAdamBytes = 28;
constexpr double kCpuAdamRate = kAdamBytes * 11.6e9 / 8.2;
constexpr double kTorchCpuRate = kAdamBytes * 11.6e9 / 56;
constexpr double kSlowestCpuRate = kAdamBytes * 1.35e9 / 21.8;
// Two sockets with twelve channels of MRDIMM at 8,800 MT/s have 1.7 TB/s.
constexpr double kFastestCpuRate = 2e12;

// --- What no run is below.

// Tables of products hold the best of three libraries, run alone; torch's own
// took at least 0.853 of their time. For attention, FlashAttention 3 is
// published with 740 TFLOP/s where cuDNN was measured at 630 to 650.
constexpr double kBestProduct = 0.85;
constexpr double kBestAttention = 0.75;
// Data that stays in a cache moves at the cache's rate, which on paper is 3 to
// 3.5 times that of the memory on an H100 and an A100.
constexpr double kCacheSpeed = 4;

// Widens the upper end per factor of two beyond the grid's end.
constexpr double kBeyondUpper = 1.15;

// A basis with a smaller share of a sum is not reported.
constexpr double kReportedShare = 0.1;

Basis weaker(Basis a, Basis b) { return std::max(a, b); }

double bytes_each(Precision precision) {
  switch (precision) {
    case Precision::F32:
    case Precision::TF32:
      return 4;
    case Precision::F16:
    case Precision::BF16:
      return 2;
    case Precision::F8:
    case Precision::I8:
      return 1;
    case Precision::F4:
      return 0.5;
  }
  return 4;
}

PricedTime priced(double lower, double estimate, double upper, Basis basis,
                  std::optional<size_t> source) {
  // Rounding errors must not break the order.
  estimate = std::max(lower, estimate);
  return {{lower, estimate, std::max(estimate, upper)}, basis, source};
}

bool is_half(Precision precision) {
  return precision == Precision::F16 || precision == Precision::BF16;
}

using ProductPoint = std::array<double, 3>;

ProductPoint point_of(const ProductShape& shape) {
  return {shape.groups * shape.m, shape.n, shape.k};
}

bool covers(const MeasuredGrid& grid, std::span<const double> point) {
  for (size_t i = 0; i < point.size(); ++i) {
    const std::vector<double>& axis = grid.axes[i];
    if (point[i] < axis.front() || point[i] > axis.back()) return false;
  }
  Basis unused = Basis::Measured;
  return at_point(grid, point, unused).has_value();
}

// Returns the first table whose grid covers the point, or the first if none
// does. A table of the precision itself comes before one of the other 16-bit
// one.
const MeasuredProducts* products_in(const HardwareProfile& card,
                                    Precision precision,
                                    const ProductPoint& point,
                                    bool shipped_only = false) {
  const auto rank_of = [&](const MeasuredProducts& table) {
    return (covers(table.rate, point) ? 0 : 2) +
           (table.precision == precision ? 0 : 1);
  };
  const MeasuredProducts* found = nullptr;
  std::optional<int> best;  // computed only if there is a choice
  for (const MeasuredProducts& table : card.measured.products) {
    const bool is_like = table.precision == precision ||
                         (is_half(table.precision) && is_half(precision));
    if (!is_like || (shipped_only && table.calibrated)) continue;
    if (found == nullptr) {
      found = &table;
      continue;
    }
    if (!best) best = rank_of(*found);
    const int rank = rank_of(table);
    if (rank >= *best) continue;
    best = rank;
    found = &table;
  }
  return found;
}

// The time in which a kernel moves bytes at the measured rate, without its
// start.
struct Streaming {
  double seconds = 0;
  double upper = 0;
  Basis basis = Basis::Assumed;
  std::optional<size_t> source = {};
};

std::optional<Streaming> streaming(const HardwareProfile& card, double bytes) {
  const auto peak = peak_memory_rate(card);
  if (!peak) return std::nullopt;
  if (card.measured.memory) {
    const MeasuredGrid& grid = *card.measured.memory;
    Basis basis = Basis::Measured;
    const std::array<double, 1> point = {std::max(bytes, 1.0)};
    if (const auto rate = at_point(grid, point, basis)) {
      const double seconds = bytes / *rate;
      return Streaming{seconds, seconds * kMemoryUpper, basis, grid.source};
    }
  }
  const double seconds = bytes / (*peak * kAssumedMemoryShare);
  return Streaming{seconds, seconds * kAssumedMemoryUpper, Basis::Assumed,
                   card.hbm_bytes_per_second->source};
}

PricedTime start_of(const std::optional<Sourced<double>>& measured,
                    double assumed) {
  const double seconds = measured ? measured->value : assumed;
  PricedTime start = {{0, seconds, seconds * kAssumedStartSpread}};
  start.basis = measured ? Basis::Measured : Basis::Assumed;
  if (measured) start.source = measured->source;
  return start;
}

// Returns by what factor a point is beyond the ends of the grid, over all axes.
double beyond(const MeasuredGrid& grid, std::span<const double> point) {
  double times = 1;
  for (size_t i = 0; i < point.size(); ++i) {
    const std::vector<double>& axis = grid.axes[i];
    times *= std::max({1.0, axis.front() / point[i], point[i] / axis.back()});
  }
  return times;
}

double widened(double upper, double times_beyond) {
  return upper * std::pow(kBeyondUpper, std::log2(times_beyond));
}

// The time of a product's arithmetic, without start-up and without memory.
struct ProductTime {
  double seconds = 0;
  double best = 0;   // by the best library that was measured, run alone
  double upper = 0;  // times `seconds`
  Basis basis = Basis::Assumed;
  std::optional<size_t> source = {};
  bool calibrated = false;  // measured by a user's own program
};

// Returns the time by a table. A product with smaller dimensions than the grid
// takes as long as one with the grid's smallest: tiles are as large.
std::optional<ProductTime> by_table(const HardwareProfile& card,
                                    const MeasuredProducts& table,
                                    const ProductShape& shape) {
  const ProductPoint point = point_of(shape);
  Basis basis = Basis::Measured;
  const auto rate = at_point(table.rate, point, basis);
  if (!rate) return std::nullopt;
  double flops = 2;
  for (size_t i = 0; i < point.size(); ++i) {
    // A table of few large products does not apply to small ones.
    flops *= std::max(point[i],
                      std::min(table.rate.axes[i].front(), kAssumedTile / 2));
  }
  if (shape.groups > 1) basis = weaker(basis, Basis::Interpolated);
  // Tables of other precisions and calibrated ones measure torch itself.
  const bool is_best = is_half(table.precision) && !table.calibrated;
  const double sustained =
      card.measured.sustained && is_best ? card.measured.sustained->value : 1;
  return ProductTime{flops / (*rate * sustained),
                     shape.flops() / *rate,
                     widened(kProductUpper, beyond(table.rate, point)),
                     basis,
                     table.rate.source,
                     table.calibrated};
}

// Returns the time by another precision's table if this one has none: shapes
// lose the same share of the peak.
std::optional<ProductTime> by_other_table(const HardwareProfile& card,
                                          Precision precision,
                                          const ProductShape& shape,
                                          double peak) {
  const MeasuredProducts* table =
      products_in(card, Precision::BF16, point_of(shape));
  if (table == nullptr) return std::nullopt;
  const auto other_peak = peak_rate(card, table->precision);
  auto time = other_peak ? by_table(card, *table, shape) : std::nullopt;
  if (!time) return std::nullopt;
  time->seconds *= *other_peak / peak;
  if (precision == Precision::F8) time->seconds /= kScaledEightBits;
  if (bytes_each(precision) == 4) time->seconds /= kScaledWide;
  time->upper = std::max(time->upper, kScaledProductUpper);
  time->basis = weaker(time->basis, Basis::Extrapolated);
  return time;
}

// Returns the time with the best library that was measured on such a card, run
// alone; 0 if that is not known. A user's own program bounds no other program.
double best_seconds(const HardwareProfile& card, Precision precision,
                    const ProductShape& shape, const ProductTime& computed) {
  if (computed.basis > Basis::Interpolated || shape.groups != 1) return 0;
  if (!computed.calibrated) return computed.best;
  const MeasuredProducts* table =
      products_in(card, precision, point_of(shape), true);
  if (table == nullptr) return 0;
  const auto best = by_table(card, *table, shape);
  if (!best || best->basis > Basis::Interpolated) return 0;
  return std::min(best->best, computed.best);
}

ProductTime by_assumption(const ProductShape& shape, double peak) {
  const auto padded = [](double size) {
    return std::ceil(size / kAssumedTile) * kAssumedTile;
  };
  const double flops =
      2 * shape.groups * shape.m * padded(shape.n) * padded(shape.k);
  return {.seconds = flops / (peak * kAssumedProductShare),
          .upper = kAssumedProductUpper};
}

void keep_faster(std::optional<PricedTime> time,
                 std::optional<PricedTime>& best) {
  if (time && (!best || time->seconds.estimate < best->seconds.estimate)) {
    best = std::move(time);
  }
}

// Returns a product with its tokens divided, and with its groups divided if
// there are enough of them.
std::vector<ProductShape> cut_tokens(const ProductShape& shape,
                                     int64_t tokens) {
  if (tokens == 1) return {shape};
  const auto by = static_cast<double>(tokens);
  std::vector<ProductShape> cuts = {shape};
  (shape.turned ? cuts[0].k : cuts[0].m) /= by;
  if (shape.groups >= by) {
    cuts.push_back(shape);
    cuts[1].groups /= by;
  }
  return cuts;
}

std::vector<double> divisors(int64_t number) {
  std::vector<double> all;
  for (int64_t d = 1; d <= number; ++d) {
    if (number % d == 0) all.push_back(static_cast<double>(d));
  }
  return all;
}

std::optional<PricedTime> shared_product_time(const HardwareProfile& card,
                                              Precision precision,
                                              const ProductShape& shape,
                                              const SharedWork& shared) {
  std::optional<PricedTime> best;
  const std::vector<double> cuts = divisors(shared.any);
  const auto any = static_cast<double>(shared.any);
  for (const ProductShape& of : cut_tokens(shape, shared.tokens)) {
    for (const double m : cuts) {
      for (const double n : cuts) {
        const double rest = any / m / n;
        if (!contains(cuts, rest)) continue;
        ProductShape cut = of;
        cut.m /= m;
        cut.n /= n;
        if (rest > 1 && cut.groups >= rest) {
          ProductShape fewer = cut;
          fewer.groups /= rest;
          keep_faster(product_time(card, precision, fewer), best);
        }
        cut.k /= rest;
        keep_faster(product_time(card, precision, cut), best);
      }
    }
  }
  return best;
}

std::optional<PricedTime> shared_attention_time(const HardwareProfile& card,
                                                Precision precision,
                                                const AttentionShape& shape,
                                                bool backward,
                                                std::string_view kernel,
                                                const SharedWork& shared) {
  std::optional<PricedTime> best;
  AttentionShape fewer = shape;
  fewer.batch /= shared.parts();
  keep_faster(attention_time(card, precision, fewer, backward, kernel), best);
  if (shared.tokens > 1) {
    AttentionShape shorter = shape;
    shorter.queries /= static_cast<double>(shared.tokens);
    shorter.batch /= static_cast<double>(shared.any);
    keep_faster(attention_time(card, precision, shorter, backward, kernel),
                best);
  }
  return best;
}

}  // namespace

std::string_view basis_name(Basis basis) {
  constexpr std::array<std::string_view, 4> kNames = {
      "measured", "interpolated", "extrapolated", "assumed"};
  return nth(kNames, basis);
}

Seconds& Seconds::operator+=(const Seconds& other) {
  lower += other.lower;
  estimate += other.estimate;
  upper += other.upper;
  return *this;
}

Seconds operator+(Seconds a, const Seconds& b) { return a += b; }

Seconds operator*(Seconds a, double times) {
  SHARDPLAN_CHECK(times >= 0);
  return {a.lower * times, a.estimate * times, a.upper * times};
}

void add(PricedTime& sum, const PricedTime& part, double times) {
  sum.seconds += part.seconds * times;
  const bool is_sum = part.by_basis != decltype(part.by_basis){};
  for (size_t b = 0; b < sum.by_basis.size(); ++b) {
    const double seconds = is_sum                     ? part.by_basis.at(b)
                           : b == to_size(part.basis) ? part.seconds.estimate
                                                      : 0;
    sum.by_basis.at(b) += seconds * times;
    if (sum.by_basis.at(b) > kReportedShare * sum.seconds.estimate) {
      sum.basis = static_cast<Basis>(b);
    }
  }
  if (part.source) sum.source = part.source;
}

std::optional<double> peak_rate(const HardwareProfile& card,
                                Precision precision) {
  std::optional<double> other;
  for (const auto& rate : card.flops_per_second) {
    if (rate.first == precision) return rate.second.value;
    if (is_half(rate.first) && is_half(precision)) other = rate.second.value;
  }
  return other;
}

std::optional<double> peak_memory_rate(const HardwareProfile& card) {
  if (!card.hbm_bytes_per_second) return std::nullopt;
  return card.hbm_bytes_per_second->value;
}

double least_read_seconds(const HardwareProfile& card, double bytes) {
  const auto peak = peak_memory_rate(card);
  if (!peak) return 0;
  const double cache = card.cache_bytes
                           ? static_cast<double>(card.cache_bytes->value)
                           : kLargestCache;
  return std::max(0.0, bytes - cache) / *peak;
}

PricedTime kernel_start(const HardwareProfile& card) {
  return start_of(card.measured.kernel_seconds, kAssumedKernelSeconds);
}

PricedTime eager_launch(const HardwareProfile& card) {
  return start_of(card.measured.eager_launch_seconds, kAssumedLaunchSeconds);
}

std::optional<PricedTime> product_time(const HardwareProfile& card,
                                       Precision precision,
                                       const ProductShape& shape,
                                       const SharedWork& shared) {
  if (shared.parts() != 1) {
    return shared_product_time(card, precision, shape, shared);
  }
  const auto peak = peak_rate(card, precision);
  if (!peak) return std::nullopt;
  const double flops = shape.flops();
  if (flops <= 0) return PricedTime{};
  const MeasuredProducts* table = products_in(card, precision, point_of(shape));
  auto computed = table != nullptr
                      ? by_table(card, *table, shape)
                      : by_other_table(card, precision, shape, *peak);
  if (!computed) computed = by_assumption(shape, *peak);
  const double lower =
      std::max(flops / *peak,
               kBestProduct * best_seconds(card, precision, shape, *computed));
  const double each = bytes_each(precision);
  const auto is_aligned = [each](double size) {
    return std::fmod(size * each, kAlignedBytes) == 0;
  };
  if (!is_aligned(shape.n) || !is_aligned(shape.k) ||
      (shape.turned && !is_aligned(shape.m))) {
    if (is_aligned(shape.n) || shape.m <= kAssumedTile) {
      computed->seconds *= kUnalignedEstimate;
    } else {
      const bool is_half_aligned = std::fmod(shape.n * each, 4) == 0;
      computed->seconds *=
          is_half_aligned ? kHalfAlignedResult : kUnalignedResult;
    }
    computed->upper *= kUnalignedUpper;
    computed->basis = weaker(computed->basis, Basis::Extrapolated);
  }
  Basis basis = computed->basis;
  const PricedTime start = kernel_start(card);
  double estimate = std::max(computed->seconds, start.seconds.estimate);
  double upper =
      std::max(computed->seconds * computed->upper, start.seconds.upper);
  // Tables repeat one product, whose operands may stay in the cache; in a step
  // they come from memory.
  const double right = shape.right_bits > 0 ? shape.right_bits / 8 : each;
  const double bytes =
      shape.groups * (shape.m * shape.k * each + shape.k * shape.n * right +
                      shape.m * shape.n * std::max(each, 2.0));
  if (auto moved = streaming(card, bytes)) {
    if (precision == Precision::F4 && shape.groups == 1) {
      moved->seconds /= kFourBitsShare;
      moved->upper /= kFourBitsShare;
    }
    if (right < each) {
      // The table's product reads more than this one, so only arithmetic
      // counts.
      const double arithmetic = flops / (*peak * kAssumedProductShare);
      estimate = std::min(estimate, std::max(arithmetic, moved->seconds));
    }
    if (moved->seconds > estimate) {
      estimate = moved->seconds;
      basis = weaker(basis, moved->basis);
    }
    upper = std::max(upper, moved->upper);
  }
  return priced(lower, estimate, upper, basis, computed->source);
}

std::optional<PricedTime> attention_time(const HardwareProfile& card,
                                         Precision precision,
                                         const AttentionShape& shape,
                                         bool backward, std::string_view kernel,
                                         const SharedWork& shared) {
  if (shared.parts() != 1) {
    return shared_attention_time(card, precision, shape, backward, kernel,
                                 shared);
  }
  const auto peak = peak_rate(card, precision);
  if (!peak) return std::nullopt;
  double pairs = shape.queries * shape.keys;
  if (shape.causal) {
    // The queries are the last ones, and each sees all keys but those after it.
    const double seen = std::min(shape.queries, shape.keys);
    pairs -= seen * (seen - 1) / 2;
  }
  const double both = shape.head_dim + shape.value_dim;
  const double one = 2 * shape.batch * shape.heads * pairs;
  const double flops =
      backward ? one * (3 * shape.head_dim + 2 * shape.value_dim) : one * both;
  if (flops <= 0) return PricedTime{};
  double lower = one * both * (backward ? 2 : 1) / *peak;

  const MeasuredGrid* best = nullptr;
  double rate = 0;
  double any_kernel = 0;  // the rate of the fastest
  Basis basis = Basis::Measured;
  const std::array<double, 2> point = {std::min(shape.queries, shape.keys),
                                       shape.head_dim};
  for (const MeasuredAttention& table : card.measured.attention) {
    if (table.backward != backward || !is_half(precision)) continue;
    Basis found = Basis::Measured;
    const auto value = at_point(table.rate, point, found);
    if (!value) continue;
    if (found <= Basis::Interpolated) any_kernel = std::max(any_kernel, *value);
    if (!kernel.empty() && table.kernel != kernel) continue;
    if (*value <= rate) continue;
    rate = *value;
    best = &table.rate;
    basis = found;
  }
  if (any_kernel > 0) {
    lower = std::max(lower, kBestAttention * flops / any_kernel);
  }
  double upper_times = kAssumedAttentionUpper;
  std::optional<size_t> source;
  if (best != nullptr) {
    upper_times = widened(kAttentionUpper, beyond(*best, point));
    source = best->source;
  } else {
    rate = *peak * kAssumedAttentionShare;
    basis = Basis::Assumed;
  }
  const PricedTime start = kernel_start(card);
  double estimate = std::max(flops / rate, start.seconds.estimate);
  double upper = std::max(flops / rate * upper_times, start.seconds.upper);
  // A few queries over many keys (decoding) read keys and values, and little
  // else.
  const double kv_heads = shape.kv_heads > 0 ? shape.kv_heads : shape.heads;
  const double bytes = bytes_each(precision) * shape.batch * both *
                       (shape.heads * shape.queries + kv_heads * shape.keys) *
                       (backward ? 2 : 1);
  if (const auto moved = streaming(card, bytes)) {
    if (moved->seconds > estimate) {
      estimate = moved->seconds;
      basis = moved->basis;
      source = moved->source;
    }
    upper = std::max(upper, moved->upper);
  }
  return priced(lower, estimate, upper, basis, source);
}

std::optional<PricedTime> memory_time(const HardwareProfile& card,
                                      double bytes) {
  const auto moved = streaming(card, bytes);
  if (!moved) return std::nullopt;
  if (bytes <= 0) return PricedTime{};
  const PricedTime start = kernel_start(card);
  // A cache can save a kernel both reading and writing.
  const double lower =
      std::max(least_read_seconds(card, bytes / 2) * 2,
               bytes / (*peak_memory_rate(card) * kCacheSpeed));
  return priced(lower, moved->seconds + start.seconds.estimate,
                moved->upper + start.seconds.upper,
                weaker(moved->basis, start.basis), moved->source);
}

PricedTime host_update_time(double bytes, bool is_deepspeed) {
  return priced(bytes / kFastestCpuRate,
                bytes / (is_deepspeed ? kCpuAdamRate : kTorchCpuRate),
                bytes / kSlowestCpuRate, Basis::Assumed, std::nullopt);
}

std::optional<PricedTime> host_copy_time(const HardwareProfile& card,
                                         double bytes) {
  if (const auto& rate = card.measured.host_bytes_per_second) {
    const double seconds = bytes / rate->value;
    return priced(seconds / kHostPeak, seconds, seconds * kHostUpper,
                  Basis::Measured, rate->source);
  }
  return priced(bytes / kFastestHostRate, bytes / kAssumedHostRate,
                bytes / kSlowestHostRate, Basis::Assumed, std::nullopt);
}

std::optional<double> at_point(const MeasuredGrid& grid,
                               std::span<const double> point, Basis& basis) {
  SHARDPLAN_CHECK(point.size() == grid.axes.size() && !point.empty());
  constexpr size_t kMaxAxes = 3;
  SHARDPLAN_CHECK(point.size() <= kMaxAxes);
  std::array<size_t, kMaxAxes> below{};
  std::array<double, kMaxAxes> share{};  // weight of the point above
  bool is_point = true;
  for (size_t i = 0; i < point.size(); ++i) {
    const std::vector<double>& axis = grid.axes[i];
    if (point[i] < axis.front() || point[i] > axis.back()) {
      basis = weaker(basis, Basis::Extrapolated);
    }
    const double at = std::clamp(point[i], axis.front(), axis.back());
    const auto above = std::ranges::upper_bound(axis, at);
    const auto first = to_size(above - axis.begin()) - 1;
    below[i] = first;
    if (axis[first] == at) continue;
    is_point = false;
    share[i] =
        std::log(at / axis[first]) / std::log(axis[first + 1] / axis[first]);
  }
  double sum = 0;
  double weights = 0;
  for (size_t corner = 0; corner < size_t{1} << point.size(); ++corner) {
    double weight = 1;
    size_t index = 0;
    for (size_t i = 0; i < point.size(); ++i) {
      const bool up = (corner >> i & 1U) != 0;
      weight *= up ? share[i] : 1 - share[i];
      if (weight == 0) break;
      index = index * grid.axes[i].size() + below[i] + (up ? 1 : 0);
    }
    if (weight == 0) continue;
    const double value = grid.values[index];
    if (value <= 0) {
      is_point = false;
      continue;
    }
    sum += weight * std::log(value);
    weights += weight;
  }
  if (weights <= 0) return std::nullopt;
  if (!is_point) basis = weaker(basis, Basis::Interpolated);
  return std::exp(sum / weights);
}

}  // namespace shardplan
