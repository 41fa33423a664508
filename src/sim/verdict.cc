// SPDX-License-Identifier: Apache-2.0
#include "sim/verdict.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace shardplan {
namespace {

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

double difference(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double d = a - b;
  return std::isfinite(d) ? d : kInfinity;
}

// The 2-norm, scaled by the largest, since squares may underflow or overflow.
double norm(const std::vector<double>& numbers) {
  double largest = 0;
  for (const double x : numbers) largest = std::max(largest, std::abs(x));
  if (largest == 0 || !std::isfinite(largest)) return largest;
  double sum = 0;
  for (const double x : numbers) sum += (x / largest) * (x / largest);
  return largest * std::sqrt(sum);
}

double median(std::vector<double> numbers) {
  if (numbers.empty()) return 0;
  std::sort(numbers.begin(), numbers.end());
  const size_t middle = numbers.size() / 2;
  return numbers.size() % 2 == 1 ? numbers[middle]
                                 : (numbers[middle - 1] + numbers[middle]) / 2;
}

size_t row_width(const Tensor& tensor) {
  return tensor.shape.empty() ? size_t{1}
                              : static_cast<size_t>(tensor.shape.back());
}

std::vector<double> scales_of_rows(const std::vector<double>& y, size_t width) {
  std::vector<double> scales;
  if (y.empty()) return scales;
  for (size_t row = 0; row < y.size(); row += width) {
    std::vector<double> numbers;
    for (size_t i = row; i < row + width; ++i) {
      if (std::isfinite(y[i])) numbers.push_back(y[i]);
    }
    scales.push_back(norm(numbers));
  }
  const double typical = median(scales);
  for (double& scale : scales) scale = std::max(scale, typical);
  return scales;
}

bool all_finite(const std::vector<double>& numbers) {
  return std::all_of(numbers.begin(), numbers.end(),
                     [](double x) { return std::isfinite(x); });
}

}  // namespace

std::vector<double> row_scales(const Tensor& y64) {
  return scales_of_rows(values_of(y64), row_width(y64));
}

double structural_error(const Tensor& y64, const Tensor& s64) {
  const std::vector<double> y = values_of(y64);
  const std::vector<double> s = values_of(s64);
  const size_t width = row_width(y64);
  const std::vector<double> scales = scales_of_rows(y, width);
  double worst = 0;
  for (size_t r = 0; r < scales.size(); ++r) {
    std::vector<double> differences;
    for (size_t i = r * width; i < (r + 1) * width; ++i) {
      differences.push_back(difference(s[i], y[i]));
    }
    const double error = norm(differences);
    if (error == 0) continue;
    worst = std::max(worst, scales[r] > 0 ? error / scales[r] : kInfinity);
  }
  return worst;
}

double structural_error(std::span<const Tensor> y64,
                        std::span<const Tensor> s64) {
  double worst = 0;
  for (size_t i = 0; i < y64.size(); ++i) {
    worst = std::max(worst, structural_error(y64[i], s64[i]));
  }
  return worst;
}

double error_amplification(std::span<const Tensor> y64,
                           std::span<const Tensor> u,
                           std::span<const Tensor> s) {
  double sharded = 0;
  double unsharded = 0;
  for (size_t i = 0; i < y64.size(); ++i) {
    const std::vector<double> exact = values_of(y64[i]);
    const std::vector<double> plain = values_of(u[i]);
    const std::vector<double> parts = values_of(s[i]);
    if (!all_finite(exact) || !all_finite(plain) || !all_finite(parts)) {
      return kNoNumber;
    }
    for (size_t k = 0; k < exact.size(); ++k) {
      const double ds = difference(parts[k], exact[k]);
      const double du = difference(plain[k], exact[k]);
      sharded += ds * ds;
      unsharded += du * du;
    }
  }
  if (sharded == unsharded) return 1;
  return std::sqrt(sharded / unsharded);
}

double relative_error(const Tensor& y64, const Tensor& x) {
  const std::vector<double> exact = values_of(y64);
  std::vector<double> differences = values_of(x);
  if (!all_finite(exact) || !all_finite(differences)) return kNoNumber;
  for (size_t i = 0; i < exact.size(); ++i) {
    differences[i] = difference(differences[i], exact[i]);
  }
  const double error = norm(differences);
  return error == 0 ? 0 : error / norm(exact);
}

std::optional<double> gamma(int64_t n, double unit_roundoff) {
  const double nu = static_cast<double>(n) * unit_roundoff;
  if (nu >= 1) return std::nullopt;
  return nu / (1 - nu);
}

std::optional<double> bound_ratio(const Tensor& y64, const Tensor& s,
                                  const Tensor& products,
                                  const Tensor& partials, int64_t length,
                                  int64_t shards, Storage reduce,
                                  Storage storage) {
  const std::optional<double> in_product =
      gamma(length, unit_roundoff(Storage::F32));
  const std::optional<double> in_sum = gamma(shards, unit_roundoff(reduce));
  if (!in_product || !in_sum) return std::nullopt;
  const std::vector<double> exact = values_of(y64);
  const std::vector<double> got = values_of(s);
  const std::vector<double> ab = values_of(products);
  const std::vector<double> p = values_of(partials);
  if (!all_finite(exact) || !all_finite(got) || !all_finite(ab) ||
      !all_finite(p)) {
    return std::nullopt;
  }
  // Sums of numbers of one type do not underflow: terms do, and the result.
  const double underflow =
      static_cast<double>(length) * underflow_unit(Storage::F32) +
      static_cast<double>(shards) * underflow_unit(reduce) +
      underflow_unit(storage);
  double worst = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    const double error = std::abs(difference(got[i], exact[i]));
    if (error == 0) continue;
    double bound = *in_product * ab[i] + *in_sum * p[i] +
                   unit_roundoff(storage) * std::abs(exact[i]);
    if (ab[i] > 0) bound += underflow;
    worst = std::max(worst, bound > 0 ? error / bound : kInfinity);
  }
  return worst;
}

}  // namespace shardplan
