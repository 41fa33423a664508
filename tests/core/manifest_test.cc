// SPDX-License-Identifier: Apache-2.0
#include "core/manifest.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "core/mesh.h"
#include "core/spec.h"
#include "core/types.h"
#include "tests/support/builders.h"
#include "tests/support/generators.h"
#include "tests/support/property.h"
#include "tests/support/resolved.h"

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
  CHECK(holds([] {
    const TensorType type = testing::draw_tensor_type();
    const DTypeBlock block = dtype_block(type.dtype);
    const int64_t bits = type.elements() * block.bits;  // of as many blocks
    const int64_t bytes = type.bytes() * block.elements;
    ENSURE(bytes * 8 >= bits);
    ENSURE(bytes * 8 < bits + (block.bits * block.elements) + 8);
  }));
}

TEST_CASE("types print as dtype and shape") {
  CHECK(type_text({DType::BF16, {2048, 256}}) == "bf16[2048, 256]");
  CHECK(type_text({DType::F32, {}}) == "f32[]");
}

// The policy `chunk` held against PyTorch: tests/data/torch/dtensor.json has
// the shape and the offset of DTensor's shard on every rank
// (tests/data/record_torch_padding.py).

using nlohmann::json;

// Mesh axes a0, a1, ..; axis i shards tensor dimension dims[i]. Axes that
// share a dimension cut it in mesh order, as DTensor does.
PartitionSpec spec_over(const json& dims, size_t rank) {
  PartitionSpec spec;
  spec.dims.resize(rank);
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis].is_null()) continue;
    spec.dims[dims[axis].get<size_t>()].push_back("a" + std::to_string(axis));
  }
  return spec;
}

TEST_CASE("chunked shards lie where DTensor has them, on every rank") {
  const json record =
      testing::read_json(testing::data_path("torch/dtensor.json"));
  for (const json& row : record.at("rows")) {
    CAPTURE(row.dump());
    std::vector<Axis> axes;
    for (const json& size : row.at("mesh")) {
      axes.push_back({"a" + std::to_string(axes.size()), size});
    }
    const Mesh mesh(axes);
    const auto shape = row.at("shape").get<Shape>();
    const PartitionSpec spec = spec_over(row.at("dims"), shape.size());
    REQUIRE(row.at("ranks").size() == static_cast<size_t>(mesh.devices()));
    for (int64_t device = 0; device < mesh.devices(); ++device) {
      CAPTURE(device);
      const json& found = row.at("ranks")[static_cast<size_t>(device)];
      for (size_t d = 0; d < shape.size(); ++d) {
        CAPTURE(d);
        const Slice slice = dimension_slice(mesh, spec.dims[d], Cut::Chunked,
                                            shape[d], mesh.coordinates(device));
        const int64_t rows = found[0][d];
        CHECK(slice.end - slice.begin == rows);
        // Where an empty shard begins means nothing.
        if (rows > 0) CHECK(slice.begin == found[1][d].get<int64_t>());
      }
    }
  }
}

using testing::type;

TEST_CASE("a manifest gives back what was added, in order") {
  const SourceFile first("a.json", "wq wk");
  const SourceFile second("b.json", "wv");
  Manifest manifest;
  REQUIRE(manifest.add("wq", type("bf16[2, 3]"), {&first, 0, 2}));
  REQUIRE(manifest.add("wk", type("i4[3]"), {&first, 3, 5}));
  REQUIRE(manifest.add("", type("bf16[2, 3]"), {&second, 0, 2}));
  REQUIRE(manifest.add("mask", type("bool[7]"), {&second, 0, 2}, true));
  REQUIRE(manifest.size() == 3);
  CHECK(manifest.name(0) == "wq");
  CHECK(manifest.name(1) == "wk");
  CHECK(manifest.name(2).empty());
  CHECK(manifest.type(1) == type("i4[3]"));
  CHECK(manifest.type_number(0) == manifest.type_number(2));
  CHECK(manifest.types().size() == 2);
  CHECK(manifest.where(1).text() == "wk");
  CHECK(manifest.where(2).text() == "wv");
  CHECK(manifest.total_elements() == 15);
  CHECK(manifest.total_bytes() == 26);
  CHECK(manifest.buffer_elements() == 7);
  CHECK(manifest.buffer_bytes() == 7);
  CHECK(manifest.any_name(3) == "mask");
}

TEST_CASE("types that differ in anything get numbers of their own") {
  const Manifest manifest = testing::manifest({{"a", "f32[2, 3]"},
                                               {"b", "f32[3, 2]"},
                                               {"c", "f32[2, 3, 1]"},
                                               {"d", "bf16[2, 3]"},
                                               {"e", "f32[]"},
                                               {"f", "f32[1]"}});
  CHECK(manifest.types().size() == 6);
}

TEST_CASE("nothing is added when a type or a total exceeds 63 bits") {
  Manifest manifest;
  CHECK_FALSE(manifest.add("a", {DType::U8, {INT64_MAX, 2}}, {}));
  CHECK_FALSE(manifest.add("a", {DType::BF16, {INT64_MAX}}, {}));
  CHECK(manifest.add("a", {DType::U8, {INT64_MAX}}, {}));
  CHECK_FALSE(manifest.add("b", {DType::U8, {1}}, {}));
  CHECK(manifest.add("c", {DType::U8, {0}}, {}));
  CHECK(manifest.size() == 2);
  CHECK(manifest.total_bytes() == INT64_MAX);
  // Buffers have totals of their own.
  CHECK(manifest.add("d", {DType::U8, {INT64_MAX}}, {}, true));
}

TEST_CASE("names are plain as long as all are printable ASCII") {
  CHECK(testing::manifest({{"a b~", "f32[]"}}).names_are_plain());
  CHECK_FALSE(testing::manifest({{"a\n", "f32[]"}}).names_are_plain());
  CHECK_FALSE(
      testing::manifest({{"a", "f32[]"}, {"é", "f32[]"}}).names_are_plain());
}

TEST_CASE("a duplicate is found among parameters and buffers") {
  Manifest manifest = testing::manifest({{"a", "f32[]"}, {"b", "f32[]"}});
  CHECK_FALSE(manifest.find_duplicate().has_value());
  REQUIRE(manifest.add("b", type("f32[]"), {}, true));
  const auto duplicate = manifest.find_duplicate();
  REQUIRE(duplicate.has_value());
  CHECK(duplicate->first == 1);
  CHECK(duplicate->second == 2);
}

// The slow twin: a set of all names.
TEST_CASE("duplicates are found in any order of the names") {
  CHECK(holds([] {
    std::vector<std::string> names;
    const auto count = draw_in(0, 30);
    for (int i = 0; i < count; ++i) {
      names.push_back(draw_of<std::string>({"a.", "a.7.", "b/", "b1/"}) +
                      draw_of<std::string>({"", "0"}) +
                      std::to_string(draw_in(0, 150)) +
                      draw_of<std::string>({"", ".w", ".1"}));
    }
    const auto order = draw_in(0, 2);
    if (order == 1) std::sort(names.begin(), names.end());
    if (order == 2) {
      std::stable_sort(names.begin(), names.end(),
                       [](const std::string& a, const std::string& b) {
                         return a.size() < b.size();
                       });
    }
    Manifest manifest;
    std::set<std::string> known;
    std::optional<std::string> twice;
    for (const std::string& name : names) {
      ENSURE(manifest.add(name, type("f32[]"), {}));
      if (!known.insert(name).second && !twice) twice = name;
    }
    const auto found = manifest.find_duplicate();
    ENSURE(found.has_value() == twice.has_value());
    if (found) ENSURE(manifest.name(found->second) == *twice);
  }));
}

// The slow twin: one that is built anew from what is kept.
TEST_CASE("what is kept is as if nothing else had been added") {
  CHECK(holds([] {
    const SourceFile one("a.json", "abcdefghij");
    const SourceFile two("b.json", "abcdefghij");
    Manifest manifest;
    manifest.title = "m";
    const auto count = draw_in(0, 20);
    for (int i = 0; i < count; ++i) {
      const auto place = draw_in<uint64_t>(0, 9);
      const Span where{draw_in(0, 1) == 0 ? &one : &two, place, place + 1};
      const bool buffer = draw_in(0, 3) == 0;
      const auto name = draw_of<std::string>({"a.", "b.", "é."}) +
                        std::to_string(draw_in(0, 150)) +
                        draw_of<std::string>({"", ".w"});
      ENSURE(manifest.add(
          name, type(draw_of<std::string>({"f32[2]", "bf16[3]", "f32[]"})),
          where, buffer));
      if (!buffer && draw_in(0, 3) == 0) {
        manifest.set_axes(manifest.size() - 1, {std::to_string(i)});
      }
    }
    std::vector<Manifest::Selected> selected;
    for (size_t i = 0; i < manifest.any_size(); ++i) {
      if (draw_in(0, 3) == 0) continue;
      selected.insert(
          selected.begin() +
              draw_in<int64_t>(0, static_cast<int64_t>(selected.size())),
          {i, draw_in(0, 3) == 0});
    }
    Manifest twin;
    for (const auto& [index, buffer] : selected) {
      ENSURE(twin.add(manifest.any_name(index), manifest.any_type(index),
                      manifest.any_where(index), buffer));
      const AxisLabels* const labels = manifest.axes(index);
      if (labels != nullptr && !buffer) twin.set_axes(twin.size() - 1, *labels);
    }
    ENSURE(manifest.select(selected));
    ENSURE(manifest.title == "m");
    ENSURE(manifest.size() == twin.size());
    ENSURE(manifest.any_size() == twin.any_size());
    for (size_t i = 0; i < twin.any_size(); ++i) {
      ENSURE(manifest.any_name(i) == twin.any_name(i));
      ENSURE(manifest.any_type(i) == twin.any_type(i));
      ENSURE(manifest.any_where(i).file == twin.any_where(i).file);
      ENSURE(manifest.any_where(i).begin == twin.any_where(i).begin);
      if (i >= twin.size()) continue;
      ENSURE(manifest.type_number(i) == twin.type_number(i));
      ENSURE(manifest.name_class(i) == twin.name_class(i));
      ENSURE((manifest.axes(i) == nullptr) == (twin.axes(i) == nullptr));
      if (twin.axes(i) != nullptr) ENSURE(*manifest.axes(i) == *twin.axes(i));
    }
    ENSURE(manifest.types().size() == twin.types().size());
    ENSURE(manifest.name_classes().size() == twin.name_classes().size());
    ENSURE(manifest.names_are_plain() == twin.names_are_plain());
    ENSURE(manifest.total_elements() == twin.total_elements());
    ENSURE(manifest.total_bytes() == twin.total_bytes());
    ENSURE(manifest.buffer_elements() == twin.buffer_elements());
    ENSURE(manifest.buffer_bytes() == twin.buffer_bytes());
  }));
}

TEST_CASE("what becomes a buffer must fit beside the others") {
  Manifest manifest;
  REQUIRE(manifest.add("a", {DType::U8, {INT64_MAX}}, {}));
  REQUIRE(manifest.add("b", {DType::U8, {INT64_MAX}}, {}, true));
  const Manifest::Selected both[] = {{0, true}, {1, true}};
  CHECK_FALSE(manifest.select(both));
  CHECK(manifest.size() == 1);
  CHECK(manifest.buffers().size() == 1);
}

TEST_CASE("axes are kept for the parameters that have them") {
  Manifest manifest = testing::manifest({{"a", "f32[2, 2]"}, {"b", "f32[]"}});
  manifest.set_axes(0, {"embed", std::nullopt});
  REQUIRE(manifest.axes(0) != nullptr);
  CHECK(manifest.axes(0)->at(0) == "embed");
  CHECK_FALSE(manifest.axes(0)->at(1).has_value());
  CHECK(manifest.axes(1) == nullptr);
}

}  // namespace

}  // namespace shardplan
