// SPDX-License-Identifier: Apache-2.0
#include "io/gguf_types.h"

#include <set>

#include <doctest/doctest.h>

namespace shardplan {
namespace {

TEST_CASE("ggml's numbers mean its types") {
  struct Row {
    uint32_t number;
    DType dtype;
  };
  for (const Row& row :
       {Row{0, DType::F32}, Row{1, DType::F16}, Row{2, DType::Q4_0},
        Row{8, DType::Q8_0}, Row{12, DType::Q4_K}, Row{14, DType::Q6_K},
        Row{20, DType::IQ4_NL}, Row{23, DType::IQ4_XS}, Row{30, DType::BF16},
        Row{39, DType::MXFP4}}) {
    CAPTURE(row.number);
    CHECK(ggml_dtype(row.number) == row.dtype);
  }
}

TEST_CASE("no number is both read and refused, and no type has two") {
  std::set<DType> seen;
  for (uint32_t number = 0; number < 100; ++number) {
    CAPTURE(number);
    const auto dtype = ggml_dtype(number);
    CHECK_FALSE((dtype && refused_ggml_type(number)));
    if (dtype) CHECK(seen.insert(*dtype).second);
  }
  CHECK(seen.size() == 32);
}

TEST_CASE("removed and later types are refused by name") {
  CHECK(refused_ggml_type(31)->name == "Q4_0_4_4");
  CHECK(refused_ggml_type(4)->why == "which ggml has removed");
  CHECK(refused_ggml_type(40)->why == "which this version does not read");
  CHECK_FALSE(refused_ggml_type(0));
  CHECK_FALSE(refused_ggml_type(1000));
}

}  // namespace
}  // namespace shardplan
