// SPDX-License-Identifier: Apache-2.0
#include "graph/gemm.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/checked.h"
#include "graph/elementwise.h"
#include "graph/packed_gemm.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

// A matrix in storage of its own, all of which is `fill` elsewhere.
template <typename T>
struct Stored {
  std::vector<T> storage;
  int64_t rows;
  int64_t columns;
  int64_t row_stride;
  int64_t column_stride;

  T& at(int64_t i, int64_t j) {
    return storage[static_cast<size_t>(i * row_stride + j * column_stride)];
  }
  template <typename U = T>
  Matrix<U> matrix() {
    return {storage.data(), row_stride, column_stride};
  }
};

enum class Order {
  Rows,
  Columns,
  Spread,
  RepeatedRows,
  RepeatedColumns,
  OneNumber
};

template <typename T>
Stored<T> stored_as(int64_t rows, int64_t columns, Order order, T fill = 0) {
  Stored<T> result{{}, rows, columns, columns + 3, 1};
  if (order == Order::Columns) {
    result.row_stride = 1;
    result.column_stride = rows + 1;
  } else if (order == Order::Spread) {
    result.row_stride = 2 * columns + 1;
    result.column_stride = 2;
  } else if (order == Order::RepeatedRows) {
    result.row_stride = 0;
  } else if (order == Order::RepeatedColumns) {
    result.row_stride = 1;
    result.column_stride = 0;
  } else if (order == Order::OneNumber) {
    result.row_stride = 0;
    result.column_stride = 0;
  }
  result.storage.assign(static_cast<size_t>(rows * result.row_stride +
                                            columns * result.column_stride + 1),
                        fill);
  return result;
}

template <typename T, typename Next>
void fill(Stored<T>& matrix, Next next) {
  for (int64_t i = 0; i < matrix.rows; ++i) {
    for (int64_t j = 0; j < matrix.columns; ++j) matrix.at(i, j) = next();
  }
}

// Cheap numbers where a property would take long to make them.
struct Mixer {
  uint64_t state = 1;
  int64_t next(int64_t below) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<int64_t>((state >> 33) % static_cast<uint64_t>(below));
  }
};

// One product, of reals unless in the field.
template <typename T>
void multiply(int64_t m, int64_t n, int64_t k, const MatrixProduct<T>& product,
              int threads = 1, Kernels kernels = Kernels::BySize,
              bool in_field = false) {
  const Arithmetic arithmetic = in_field         ? Arithmetic::Field
                                : sizeof(T) == 4 ? Arithmetic::F32
                                                 : Arithmetic::F64;
  gemm(m, n, k, std::span(&product, 1), arithmetic, threads, kernels);
}

// Whether C is the sums, of small integers, and what lies between its elements
// stays.
template <typename T>
bool is_product(Stored<T> a, Stored<T> b, Order order, Kernels kernels) {
  const int64_t m = a.rows;
  const int64_t n = b.columns;
  const int64_t k = a.columns;
  constexpr T kUntouched = 0.5;
  Stored<T> c = stored_as<T>(m, n, order, kUntouched);
  multiply<T>(
      m, n, k,
      {a.template matrix<const T>(), b.template matrix<const T>(), c.matrix()},
      1, kernels);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      T sum = 0;
      for (int64_t l = 0; l < k; ++l) sum += a.at(i, l) * b.at(l, j);
      if (c.at(i, j) != sum) return false;
      c.at(i, j) = kUntouched;
    }
  }
  return std::count(c.storage.begin(), c.storage.end(), kUntouched) ==
         static_cast<std::ptrdiff_t>(c.storage.size());
}

template <typename T>
void check_any_product(int64_t largest) {
  const auto size = [&] { return draw_in<int64_t>(0, largest); };
  const auto order = [&](bool repeated) {
    return repeated ? draw_of({Order::Rows, Order::Columns, Order::Spread,
                               Order::RepeatedRows, Order::RepeatedColumns,
                               Order::OneNumber})
                    : draw_of({Order::Rows, Order::Columns, Order::Spread});
  };
  const int64_t k = size();
  Stored<T> a = stored_as<T>(size(), k, order(true));
  Stored<T> b = stored_as<T>(k, size(), order(true));
  Mixer mixer{draw_any<uint64_t>()};
  const auto next = [&] { return static_cast<T>(mixer.next(17) - 8); };
  fill(a, next);
  fill(b, next);
  const Order order_of_c = order(false);
  ENSURE(is_product(a, b, order_of_c, Kernels::BySize));
  for (const Kernels kernels : usable_kernels()) {
    ENSURE(is_product(a, b, order_of_c, kernels));
  }
}

TEST_CASE("gemm: any strides, on every kernel, write the product and only it") {
  CHECK(holds([] { check_any_product<float>(20); }));
  CHECK(holds([] { check_any_product<double>(20); }));
}

TEST_CASE("gemm: larger products have edges too") {
  for (const int64_t m : {96, 101, 250}) {
    Mixer mixer;
    const auto next = [&] { return static_cast<float>(mixer.next(17) - 8); };
    Stored<float> a = stored_as<float>(m, 300, Order::Rows);
    Stored<float> b = stored_as<float>(300, 97, Order::Columns);
    fill(a, next);
    fill(b, next);
    CHECK(is_product(a, b, Order::Rows, Kernels::BySize));
  }
}

TEST_CASE("gemm: tiles together are the whole product") {
  Mixer mixer;
  const auto next = [&] { return static_cast<double>(mixer.next(17) - 8); };
  Stored<double> a = stored_as<double>(1100, 3, Order::Columns);
  Stored<double> b = stored_as<double>(3, 1030, Order::Rows);
  fill(a, next);
  fill(b, next);
  CHECK(is_product(a, b, Order::Columns, Kernels::BySize));
}

TEST_CASE("gemm: an empty contraction is zero, not what was there") {
  float c[] = {std::nanf(""), 1, 2};
  multiply<float>(1, 2, 0, {{nullptr, 0, 1}, {nullptr, 2, 1}, {c, 2, 1}});
  CHECK(c[0] == 0);
  CHECK(c[1] == 0);
  CHECK(c[2] == 2);
  multiply<float>(0, 2, 5, {{nullptr, 5, 1}, {nullptr, 2, 1}, {c, 2, 1}});
  CHECK(c[2] == 2);
}

// The product modulo p, by integers.
bool is_product_in_field(Stored<double> a, Stored<double> b, int threads) {
  const int64_t n = b.columns;
  Stored<double> c = stored_as<double>(a.rows, n, Order::Spread, 0.5);
  multiply<double>(
      a.rows, n, a.columns,
      {a.matrix<const double>(), b.matrix<const double>(), c.matrix()}, threads,
      Kernels::BySize, true);
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      int64_t sum = 0;
      for (int64_t l = 0; l < a.columns; ++l) {
        sum = (sum + static_cast<int64_t>(a.at(i, l)) *
                         static_cast<int64_t>(b.at(l, j))) %
              field::kPrime;
      }
      if (c.at(i, j) != static_cast<double>(sum)) return false;
    }
  }
  return true;
}

TEST_CASE("gemm: products in the field are exact for any contraction") {
  Mixer mixer;
  const auto any = [&] {
    return static_cast<double>(mixer.next(field::kPrime));
  };
  const auto largest = [] { return static_cast<double>(field::kPrime - 1); };
  for (const int64_t k : {0, 1, 8191, 8192, 8193, 16385, 20000}) {
    CAPTURE(k);
    Stored<double> a = stored_as<double>(5, k, Order::Rows);
    Stored<double> b = stored_as<double>(k, 3, Order::Columns);
    fill(a, any);
    fill(b, any);
    CHECK(is_product_in_field(a, b, 1));
    fill(a, largest);
    fill(b, largest);
    CHECK(is_product_in_field(a, b, 2));
  }
}

TEST_CASE("gemm: the result is the same for any number of threads") {
  Mixer mixer;
  const auto next = [&] {
    return static_cast<float>(mixer.next(1 << 20)) * 0x1p-19F - 1;
  };
  Stored<float> a = stored_as<float>(1100, 50, Order::Rows);
  Stored<float> b = stored_as<float>(50, 2100, Order::Rows);
  fill(a, next);
  fill(b, next);
  const auto run = [&](int threads) {
    Stored<float> c = stored_as<float>(1100, 2100, Order::Rows);
    multiply<float>(
        1100, 2100, 50,
        {a.matrix<const float>(), b.matrix<const float>(), c.matrix()},
        threads);
    return c.storage;
  };
  const std::vector<float> alone = run(1);
  CHECK(alone.front() != 0);
  CHECK(run(2) == alone);
  CHECK(run(7) == alone);
}

TEST_CASE("gemm: the best kernels that the processor can run are named") {
  const std::span<const Kernels> usable = usable_kernels();
  const std::string name = gemm_kernels();
  CHECK(usable.front() == Kernels::Generic);
  CHECK(name == (usable.size() == 1   ? "generic"
                 : usable.size() == 2 ? "haswell"
                                      : "skx"));
  if (usable.size() < 3) {
    float c = 0;
    CHECK_THROWS_AS(
        multiply<float>(1, 1, 1, {{&c, 1, 1}, {&c, 1, 1}, {&c, 1, 1}}, 1,
                        Kernels::Skx),
        InternalError);
  }
}

// Any numbers that a float holds, few of them strange.
template <typename T>
T strange_or_not(Mixer& mixer, bool strange) {
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  const int64_t kind = strange ? mixer.next(400) : 10;
  if (kind == 0) return kInfinity;
  if (kind == 1) return -kInfinity;
  if (kind == 2) return std::numeric_limits<T>::quiet_NaN();
  if (kind == 3) return std::numeric_limits<T>::denorm_min();
  if (kind == 4) return T{-0.0};
  return static_cast<T>(mixer.next(int64_t{1} << 24) - (1 << 23)) /
         static_cast<T>(1 << 20);
}

// Bit by bit, but for which NaN it is: that follows from the order of a
// multiplication's operands, which nothing else does.
template <typename T>
bool same_bits(const Stored<T>& a, const Stored<T>& b) {
  return std::equal(a.storage.begin(), a.storage.end(), b.storage.begin(),
                    [](T x, T y) {
                      return std::memcmp(&x, &y, sizeof(T)) == 0 ||
                             (std::isnan(x) && std::isnan(y));
                    });
}

template <typename T>
void multiply_all(const ProductSize& size,
                  const std::vector<MatrixProduct<T>>& products,
                  Arithmetic arithmetic, int threads, Kernels kernels) {
  gemm(size.m, size.n, size.k, std::span(products), arithmetic, threads,
       kernels);
}

// Several products at once, some of which read the same matrices, against each
// by itself in BLIS's own loops.
template <typename T>
void check_together(Mixer& mixer, Arithmetic arithmetic, Kernels kernels,
                    int64_t least, int64_t most) {
  const auto size = [&] { return least + mixer.next(most - least + 1); };
  const auto order = [&](int64_t kinds) {
    return static_cast<Order>(mixer.next(kinds));
  };
  const ProductSize of{size(), size(), size()};
  const bool strange = arithmetic != Arithmetic::Field && mixer.next(2) == 0;
  const auto next = [&] {
    return arithmetic == Arithmetic::Field
               ? static_cast<T>(mixer.next(field::kPrime))
               : strange_or_not<T>(mixer, strange);
  };
  std::vector<Stored<T>> lefts;
  std::vector<Stored<T>> rights;
  for (int i = 0; i < 2; ++i) {
    lefts.push_back(stored_as<T>(of.m, of.k, order(6)));
    rights.push_back(stored_as<T>(of.k, of.n, order(6)));
    fill(lefts.back(), next);
    fill(rights.back(), next);
  }
  // What is there before plays no part.
  const Order order_of_c = order(3);
  const Stored<T> empty =
      stored_as<T>(of.m, of.n, order_of_c, std::numeric_limits<T>::quiet_NaN());
  constexpr size_t kProducts = 5;
  std::vector<Stored<T>> together(kProducts, empty);
  std::vector<Stored<T>> alone(kProducts, empty);
  std::vector<MatrixProduct<T>> products;
  for (size_t i = 0; i < kProducts; ++i) {
    const auto a = static_cast<size_t>(mixer.next(2));
    const auto b = static_cast<size_t>(mixer.next(2));
    products.push_back({lefts[a].template matrix<const T>(),
                        rights[b].template matrix<const T>(),
                        together[i].matrix()});
    MatrixProduct<T> one = products.back();
    one.c = alone[i].matrix();
    gemm_by_blis(of.m, of.n, of.k, one, arithmetic, kernels);
  }
  const auto threads = static_cast<int>(1 + mixer.next(3));
  multiply_all(of, products, arithmetic, threads, kernels);
  for (size_t i = 0; i < kProducts; ++i) {
    CAPTURE(of.m);
    CAPTURE(of.n);
    CAPTURE(of.k);
    CHECK(same_bits(together[i], alone[i]));
  }
}

TEST_CASE("gemm: products together have the bits of each in BLIS's own loops") {
  Mixer mixer{5};
  for (const Kernels kernels : usable_kernels()) {
    CAPTURE(static_cast<int>(kernels));
    for (int trial = 0; trial < 40; ++trial) {
      // Edges of the kernels' tiles, and nothing but edges.
      check_together<float>(mixer, Arithmetic::F32, kernels, 1, 70);
      check_together<double>(mixer, Arithmetic::F64, kernels, 1, 70);
    }
    for (int trial = 0; trial < 3; ++trial) {
      // Beyond what Haswell's kernels leave unpacked, in several blocks.
      check_together<float>(mixer, Arithmetic::F32, kernels, 201, 520);
      check_together<double>(mixer, Arithmetic::F64, kernels, 201, 520);
      check_together<double>(mixer, Arithmetic::Field, kernels, 201, 300);
    }
  }
}

template <typename T>
void check_kernels_alone(Mixer& mixer, int64_t m) {
  constexpr int64_t kColumns = 65;
  constexpr int64_t kDepth = 257;
  Stored<T> a = stored_as<T>(m, kDepth, Order::Rows);
  Stored<T> by_rows = stored_as<T>(kDepth, kColumns, Order::Rows);
  Stored<T> by_columns = stored_as<T>(kDepth, kColumns, Order::Columns);
  for (Stored<T>* each : {&a, &by_rows, &by_columns}) {
    fill(*each, [&] { return strange_or_not<T>(mixer, false); });
  }
  std::vector<Stored<T>> together(4, stored_as<T>(m, kColumns, Order::Rows));
  std::vector<Stored<T>> alone = together;
  std::vector<MatrixProduct<T>> products;
  const Arithmetic arithmetic =
      sizeof(T) == sizeof(float) ? Arithmetic::F32 : Arithmetic::F64;
  for (size_t i = 0; i < together.size(); ++i) {
    products.push_back(
        {a.template matrix<const T>(),
         (i % 2 == 0 ? by_rows : by_columns).template matrix<const T>(),
         together[i].matrix()});
    MatrixProduct<T> one = products.back();
    one.c = alone[i].matrix();
    multiply_all({m, kColumns, kDepth}, std::vector<MatrixProduct<T>>{one},
                 arithmetic, 1, Kernels::BySize);
  }
  multiply_all({m, kColumns, kDepth}, products, arithmetic, 2, Kernels::BySize);
  for (size_t i = 0; i < together.size(); ++i) {
    CAPTURE(m);
    CAPTURE(i);
    CHECK(same_bits(together[i], alone[i]));
  }
}

TEST_CASE("gemm: kernels by size do not depend on the products beside") {
  Mixer mixer{7};
  for (const int64_t m : {31, 32, 63, 64, 96}) {
    check_kernels_alone<float>(mixer, m);
    check_kernels_alone<double>(mixer, m);
  }
}

TEST_CASE("gemm: a contraction in several rounds, and in the field as well") {
  Mixer mixer{6};
  for (const Kernels kernels : usable_kernels()) {
    for (const int64_t k : {480, 481, 865, 2000}) {
      Stored<float> a = stored_as<float>(33, k, Order::Columns);
      Stored<float> b = stored_as<float>(k, 210, Order::Rows);
      fill(a, [&] { return strange_or_not<float>(mixer, false); });
      fill(b, [&] { return strange_or_not<float>(mixer, false); });
      Stored<float> c = stored_as<float>(33, 210, Order::Rows);
      Stored<float> d = c;
      MatrixProduct<float> product{a.matrix<const float>(),
                                   b.matrix<const float>(), c.matrix()};
      multiply(33, 210, k, product, 2, kernels);
      product.c = d.matrix();
      gemm_by_blis(33, 210, k, product, Arithmetic::F32, kernels);
      CHECK(same_bits(c, d));
    }
    Stored<double> a = stored_as<double>(3, 20'000, Order::Rows);
    Stored<double> b = stored_as<double>(20'000, 2, Order::Columns);
    fill(a, [] { return static_cast<double>(field::kPrime - 1); });
    fill(b, [] { return static_cast<double>(field::kPrime - 1); });
    Stored<double> c = stored_as<double>(3, 2, Order::Rows);
    multiply<double>(
        3, 2, 20'000,
        {a.matrix<const double>(), b.matrix<const double>(), c.matrix()}, 2,
        kernels, true);
    CHECK(c.at(2, 1) == 20'000);  // (-1) (-1), so often
  }
}

// BLIS would abort for this architecture, and write its choice to stderr.
TEST_CASE("gemm: BLIS's environment variables have no effect") {
  const std::string self = std::filesystem::canonical("/proc/self/exe");
  const std::string command =
      "BLIS_ARCH_TYPE=99 BLIS_ARCH_DEBUG=1 BLIS_NUM_THREADS=x BLIS_PACK_A=1 '" +
      self + "' -tc='gemm: products in the field*' 2>&1 >/dev/null";
  FILE* run = popen(command.c_str(), "r");
  REQUIRE(run != nullptr);
  std::string errors;
  for (int c = fgetc(run); c != EOF; c = fgetc(run)) {
    errors += static_cast<char>(c);
  }
  CHECK(pclose(run) == 0);
  CHECK(errors == "");
}

}  // namespace
}  // namespace shardplan
