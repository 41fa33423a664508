// SPDX-License-Identifier: Apache-2.0
#include "core/types.h"

#include <cstdint>
#include <string>

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "tests/support/generators.h"

namespace shardplan {
namespace {

TEST_CASE("find_dtype takes every spelling in any case") {
  struct Row {
    const char* text;
    const char* name;
  };
  for (const Row& row : {Row{"bf16", "bf16"},
                         {"BF16", "bf16"},
                         {"bfloat16", "bf16"},
                         {"float32", "f32"},
                         {"Float64", "f64"},
                         {"int4", "i4"},
                         {"uint4", "u4"},
                         {"U8", "u8"},
                         {"BOOL", "bool"},
                         {"complex64", "c64"},
                         {"C128", "c128"},
                         {"Q4_K", "q4_k"},
                         {"F8_E4M3", "f8_e4m3"},
                         {"float8_e4m3fn", "f8_e4m3fn"},
                         {"float8_e8m0fnu", "f8_e8m0"},
                         {"float6_e2m3fn", "f6_e2m3"},
                         {"float4_e2m1fn", "f4_e2m1"}}) {
    CAPTURE(row.text);
    const auto dtype = find_dtype(row.text);
    REQUIRE(dtype.has_value());
    CHECK(dtype_name(*dtype) == row.name);
  }
  for (const char* text : {"", "f", "float", "f33", "bf16 ", "int", "q4_9"}) {
    CAPTURE(text);
    CHECK_FALSE(find_dtype(text).has_value());
  }
  CHECK(nearest_dtype("bf61") == "bf16");
}

TEST_CASE("a printed dtype reads as itself") {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    CAPTURE(dtype_name(dtype));
    CHECK(find_dtype(dtype_name(dtype)) == dtype);
  }
}

TEST_CASE("element_count multiplies, and says when it does not fit") {
  CHECK(element_count({}) == 1);
  CHECK(element_count({3, 4}) == 12);
  CHECK(element_count({INT64_MAX}) == INT64_MAX);
  CHECK_FALSE(element_count({INT64_MAX, 2}).has_value());
  CHECK_FALSE(element_count({1LL << 32, 1LL << 32}).has_value());
  CHECK(element_count({INT64_MAX, INT64_MAX, 0}) == 0);
}

TEST_CASE("byte_count rounds bits up to whole bytes") {
  CHECK(byte_count(3, DType::I4) == 2);
  CHECK(byte_count(5, DType::F6E3M2) == 4);
  CHECK(byte_count(3, DType::Bool) == 3);
  CHECK(byte_count(0, DType::C128) == 0);
  CHECK(byte_count(INT64_MAX, DType::U8) == INT64_MAX);
  CHECK(byte_count(INT64_MAX, DType::U4) == (INT64_MAX / 2) + 1);
  CHECK_FALSE(byte_count(INT64_MAX, DType::BF16).has_value());
}

TEST_CASE("byte_count rounds elements up to whole blocks") {
  CHECK(byte_count(64, DType::Q4_0) == 36);
  CHECK(byte_count(65, DType::Q4_0) == 54);
  CHECK(byte_count(256, DType::Q6_K) == 210);
  CHECK(byte_count(0, DType::MXFP4) == 0);
  CHECK(byte_count(INT64_MAX, DType::Q8_1).has_value() == false);
  CHECK(byte_count(INT64_MAX, DType::Q4_K) ==
        static_cast<int64_t>((static_cast<Int128>(1) << 55U) * 144));
}

TEST_CASE("is_narrower compares the bits of an element") {
  CHECK(is_narrower(DType::Q4_0, DType::F16));
  CHECK(is_narrower(DType::Q4_0, DType::Q4_1));
  CHECK_FALSE(is_narrower(DType::Q8_0, DType::I8));
  CHECK_FALSE(is_narrower(DType::F32, DType::F32));
}

TEST_CASE("bytes are the elements' bits rounded up once") {
  CHECK(rc::check([] {
    const TensorType type = *testing::gen::tensor_type();
    const DTypeBlock block = dtype_block(type.dtype);
    const int64_t bits = type.elements() * block.bits;  // of as many blocks
    const int64_t bytes = type.bytes() * block.elements;
    RC_ASSERT(bytes * 8 >= bits);
    RC_ASSERT(bytes * 8 < bits + (block.bits * block.elements) + 8);
  }));
}

TEST_CASE("types print as dtype and shape") {
  CHECK(type_text({DType::BF16, {2048, 256}}) == "bf16[2048, 256]");
  CHECK(type_text({DType::F32, {}}) == "f32[]");
}

}  // namespace
}  // namespace shardplan
