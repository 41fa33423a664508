// SPDX-License-Identifier: Apache-2.0

#include "io/safetensors/file.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "io/formats.h"
#include "io/load.h"
#include "tests/support/generators.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"
#include "tests/support/property.h"
#include "tests/support/safetensors.h"

namespace shardplan {
namespace {

using testing::messages;
using testing::safetensors;
using testing::safetensors_bytes;

// "name type; name type (buffer)", or what was reported.
std::string outcome(const std::string& bytes) {
  Diagnostics diags;
  const auto file = std::make_shared<SourceFile>("m", bytes);
  Manifest manifest;
  const auto header = read_safetensors_header(
      file, static_cast<int64_t>(bytes.size()), manifest, diags);
  CHECK(header.has_value() == !diags.has_errors());
  if (!header) return messages(diags);
  std::string text = messages(diags);
  for (size_t i = 0; i < manifest.size(); ++i) {
    text += std::string(manifest.name(i)) + " " + type_text(manifest.type(i)) +
            "; ";
  }
  for (const Manifest::Buffer& buffer : manifest.buffers()) {
    text += buffer.name + " " + type_text(buffer.type) + " (buffer); ";
  }
  return text + (header->data_absent ? "no data" : "");
}

std::string tensor(const std::string& name, const std::string& dtype,
                   const std::string& shape, const std::string& offsets) {
  return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape +
         R"(,"data_offsets":)" + offsets + "}";
}

TEST_CASE("a header gives names and types in its order") {
  CHECK(outcome(safetensors({{"b", "F32", {2, 3}}, {"a", "BF16", {}}})) ==
        "b f32[2, 3]; a bf16[]; ");
  CHECK(outcome(safetensors({})).empty());
  CHECK(outcome(safetensors_bytes(R"({"__metadata__":{"format":"pt"},)" +
                                      tensor("a", "U8", "[0,5]", "[0,0]") +
                                      "}   ",
                                  0)) == "a u8[0, 5]; ");
}

// Of entries that begin alike only the first is read as a whole.
TEST_CASE("what is wrong with one of many entries that begin alike is said") {
  const std::string good = tensor("a", "F32", "[2]", "[0,8]") + "," +
                           tensor("b", "F32", "[2]", "[8,16]") + ",";
  const auto behind = [&](const std::string& entry, int64_t bytes) {
    return outcome(safetensors_bytes("{" + good + entry + "}", bytes));
  };
  const std::string first = "a f32[2]; b f32[2]; ";
  const std::string c = R"("c":{"dtype":"F32","shape":[2],"data_offsets":[)";
  CHECK(behind(c + "16,24]}", 24) == first + "c f32[2]; ");
  CHECK(behind(c + "16,  24]  }", 24) == first + "c f32[2]; ");
  CHECK(behind(c + " 16 , 24 ] }", 24) == first + "c f32[2]; ");
  CHECK(behind(c + "16,\n24]}", 24) == first + "c f32[2]; ");
  CHECK(
      behind(R"("m\u0041":{"dtype":"F32","shape":[2],"data_offsets":[16,24]})",
             24) == first + "mA f32[2]; ");
  // Buffers by their names.
  CHECK(
      behind(
          R"("q.inv_freq":{"dtype":"F32","shape":[2],"data_offsets":[16,24]})",
          24) == first + "q.inv_freq f32[2] (buffer); ");
  CHECK(
      behind(c + "16,25]}", 25) ==
      "SP002 m:1:155 `c` is f32[2] and needs 8 bytes, but its offsets span 9");
  CHECK(behind(c + "24,16]}", 24).find("`data_offsets` must be [begin, end]") !=
        std::string::npos);
  CHECK(behind(c + "017,25]}", 25).find("leading zero") != std::string::npos);
  CHECK(behind(c + "16]}", 24).find("`data_offsets` must be [begin, end]") !=
        std::string::npos);
  CHECK(behind(c + "16,24,32]}", 24)
            .find("`data_offsets` must be [begin, end]") != std::string::npos);
  CHECK(behind(c + "16,24],\"more\":1}", 24).find("\"more\" is not a key") !=
        std::string::npos);
  CHECK(behind(c + "16,24],\"shape\":[2]}", 24).find("given twice") !=
        std::string::npos);
  CHECK(behind(c + "99999999999999999999,24]}", 24).find("below 2^63") !=
        std::string::npos);
  CHECK(behind(c + "16,24]", 24).find("the text ends") != std::string::npos);
  CHECK(behind(c + "8,16]}", 16).find("overlaps that of `b`") !=
        std::string::npos);
  CHECK(behind(c + "17,25]}", 25).find("belong to no tensor") !=
        std::string::npos);
  CHECK(behind(c + "00000016,00000024]}", 24).find("leading zero") !=
        std::string::npos);
  CHECK(behind(c + "1234567:,24]}", 24).find("`:`") != std::string::npos);
  CHECK(behind(R"("__metadata__":{"dtype":"F32","shape":[2],"data_offsets":[)"
               "16,24]}",
               24)
            .find("must be a string") != std::string::npos);
}

TEST_CASE("every dtype of the format is known") {
  struct Row {
    std::string dtype;
    int bytes;  // of eight elements
  };
  for (const Row& row :
       std::vector<Row>{{"BOOL", 8},        {"U8", 8},          {"I8", 8},
                        {"F8_E5M2", 8},     {"F8_E4M3", 8},     {"F8_E8M0", 8},
                        {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
                        {"U16", 16},        {"F16", 16},        {"BF16", 16},
                        {"I32", 32},        {"U32", 32},        {"F32", 32},
                        {"C64", 64},        {"F64", 64},        {"I64", 64},
                        {"U64", 64},        {"F4", 4},          {"F6_E2M3", 6},
                        {"F6_E3M2", 6}}) {
    CAPTURE(row.dtype);
    const std::string end = std::to_string(row.bytes);
    CHECK_FALSE(
        outcome(
            safetensors_bytes(
                "{" + tensor("a", row.dtype, "[8]", "[0," + end + "]") + "}",
                row.bytes))
            .starts_with("SP"));
  }
}

TEST_CASE("bits are rounded up to whole bytes") {
  CHECK(outcome(safetensors_bytes("{" + tensor("a", "F4", "[3]", "[0,2]") + "}",
                                  2)) == "a f4_e2m1[3]; ");
}

TEST_CASE("buffers that checkpoints carry are kept apart") {
  CHECK(outcome(safetensors({{"h.0.attn.bias", "F32", {1, 1, 8, 8}},
                             {"wte.weight", "F32", {2, 2}}})) ==
        "wte.weight f32[2, 2]; h.0.attn.bias f32[1, 1, 8, 8] (buffer); ");
}

TEST_CASE("the data may be missing, wholly or in part") {
  const std::string whole = safetensors({{"a", "F32", {4}}});
  CHECK(outcome(whole) == "a f32[4]; ");
  CHECK(outcome(whole.substr(0, whole.size() - 1)) == "a f32[4]; no data");
  CHECK(outcome(whole.substr(0, whole.size() - 16)) == "a f32[4]; no data");
  CHECK(outcome(whole + "yy") ==
        "SP002 m:1:1 2 bytes after the data of the last tensor");
}

TEST_CASE("tensors may lie in any order") {
  CHECK(
      outcome(safetensors_bytes("{" + tensor("b", "U8", "[4]", "[4,8]") + "," +
                                    tensor("z", "U8", "[0]", "[4,4]") + "," +
                                    tensor("a", "U8", "[4]", "[0,4]") + "}",
                                8)) == "b u8[4]; z u8[0]; a u8[4]; ");
}

TEST_CASE("malformed headers are reported with their place") {
  struct Row {
    std::string header, expected;
  };
  for (const Row& row : std::vector<Row>{
           {"[1]", "SP002 m:1:1 a safetensors header must start with `{`"},
           {" {}", "SP002 m:1:1 a safetensors header must start with `{`"},
           {"{\"a\":1}", "SP002 m:1:6 `a` must be a map, not a number"},
           {"{\"a\":{\"dtype\":\"U8\",\"shape\":[]}}",
            "SP002 m:1:2 `a` has no `data_offsets`"},
           {"{" + tensor("a", "U8", "[-1]", "[0,1]") + "}",
            "SP002 m:1:29 an entry of `shape` must not be negative, but is -1"},
           {"{" + tensor("a", "U8", "[1.5]", "[0,1]") + "}",
            "SP002 m:1:29 an entry of `shape` must be an integer below 2^63, "
            "not `1.5`"},
           {"{" + tensor("a", "U8", "[4]", "[-4,0]") + "}",
            "SP002 m:1:48 an entry of `data_offsets` must not be negative, but "
            "is -4"},
           {"{" + tensor("a", "U8", "[4]", "[4,0]") + "}",
            "SP002 m:1:47 `data_offsets` must be [begin, end] with begin <= "
            "end"},
           {"{" + tensor("a", "U8", "[4]", "[0,4,8]") + "}",
            "SP002 m:1:47 `data_offsets` must be [begin, end] with begin <= "
            "end"},
           {"{" + tensor("a", "F32", "[4]", "[0,15]") + "}",
            "SP002 m:1:48 `a` is f32[4] and needs 16 bytes, but its offsets "
            "span 15"},
           {"{" + tensor("a", "F32", "[4611686018427387904]", "[0,16]") + "}",
            "SP002 m:1:29 with `a` the tensors exceed 2^63 bytes"},
           {"{" + tensor("a", "Q4_K", "[4]", "[0,4]") + "}",
            "SP005 m:1:15 unknown dtype `Q4_K`"},
           {"{" + tensor("a", "U8", "[4]", "[0,4]") + "," +
                tensor("b", "U8", "[4]", "[2,6]") + "}",
            "SP002 m:1:54 the data of `b` overlaps that of `a`"},
           {"{" + tensor("a", "U8", "[4]", "[0,4]") + "," +
                tensor("b", "U8", "[4]", "[6,10]") + "}",
            "SP002 m:1:54 bytes 4 to 6 before `b` belong to no tensor"},
           {"{" + tensor("a", "U8", "[4]", "[1,5]") + "}",
            "SP002 m:1:2 bytes 0 to 1 before `a` belong to no tensor"},
           {R"({"a":{"dtype":"U8","dtype":"U8"}})",
            "SP003 m:1:20 `dtype` is given twice"},
           {R"({"__metadata__":{"a":1}})",
            "SP002 m:1:22 an entry of `__metadata__` must be a string, not a "
            "number"},
           {R"({"__metadata__":{"a":"1","a":"2"}})",
            "SP003 m:1:26 `a` is given twice in `__metadata__`"},
           {R"({"__metadata__":{},"__metadata__":{}})",
            "SP003 m:1:20 `__metadata__` is given twice"},
       }) {
    CAPTURE(row.header);
    CHECK(outcome(safetensors_bytes(row.header)) == row.expected);
  }
}

TEST_CASE("an overlap says with what, even past tensors inside it") {
  Diagnostics diags;
  const auto file = std::make_shared<SourceFile>(
      "m", safetensors_bytes("{" + tensor("a", "U8", "[9]", "[0,9]") + "," +
                             tensor("b", "U8", "[1]", "[2,3]") + "," +
                             tensor("c", "U8", "[1]", "[8,9]") + "}"));
  Manifest manifest;
  CHECK_FALSE(read_safetensors_header(file, 1000, manifest, diags));
  CHECK(messages(diags) ==
        "SP002 m:1:54 the data of `b` overlaps that of `a`\n"
        "SP002 m:1:106 the data of `c` overlaps that of `a`");
}

TEST_CASE("one run reports several tensors, but not thousands") {
  std::string header = "{";
  for (int i = 0; i < 1000; ++i) {
    if (i > 0) header += ",";
    header += tensor(std::to_string(i), "Q4", "[4]", "[0,4]");
  }
  Diagnostics diags;
  const auto file =
      std::make_shared<SourceFile>("m", safetensors_bytes(header + "}"));
  Manifest manifest;
  CHECK_FALSE(read_safetensors_header(file, 1000, manifest, diags));
  CHECK(diags.all().size() == 20);
}

TEST_CASE("unknown keys of tensors are passed over with a note") {
  CHECK(outcome(safetensors_bytes(
            R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0,1],"x":[{}]}})",
            1)) ==
        "SP004 note m:1:52 \"x\" is not a key of a safetensors "
        "headera u8[]; ");
}

TEST_CASE("a length that cannot be is refused before anything is read") {
  CHECK(outcome("") ==
        "SP002 m:1:1 a safetensors file starts with an 8-byte header length, "
        "but the file size is 0");
  CHECK(outcome(std::string("\x10\0\0\0\0\0\0\0{}", 10)) ==
        "SP002 m:1:1 the file ends inside its header: it has 10 bytes, and "
        "the header ends at 24");
  CHECK(outcome(std::string("\x01\xe1\xf5\x05\0\0\0\0{}", 10)) ==
        "SP002 m:1:1 the first 8 bytes give a header length of 100,000,001 "
        "bytes; "
        "safetensors allows 100,000,000");
  CHECK(
      outcome(std::string(8, '\xff') + "{}")
          .starts_with("SP002 m:1:1 the first 8 bytes give a header length of "
                       "9,223,372,036,854,775,807 "
                       "bytes"));
  CHECK(safetensors_bytes_needed(std::string(8, '\xff')) == 8);
  CHECK(safetensors_bytes_needed(std::string("\x10\0\0\0\0\0\0\0", 8)) == 24);
  CHECK(outcome(std::string(8, '\0')) ==
        "SP002 m:1:1 a safetensors header must start with `{`");
}

TEST_CASE("a Git LFS pointer is called what it is") {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n";
  CHECK(outcome(pointer) ==
        "SP001 m:1:1 this is a Git LFS pointer, not the file itself");
  CHECK(safetensors_bytes_needed(pointer.substr(0, 8)) > 8);
}

TEST_CASE("content tells a safetensors file from text") {
  CHECK(is_safetensors(safetensors({})));
  CHECK_FALSE(is_safetensors(R"({"parameters": {}})"));
  CHECK_FALSE(is_safetensors("short"));
}

TEST_CASE("no more than the header of a file is read") {
  testing::MemoryHost host;
  host.files["m.safetensors"] = safetensors({{"a", "F32", {1 << 20}}});
  const size_t data = size_t{4} << 20U;
  Diagnostics diags;
  Manifest manifest;
  const auto header = open_safetensors("m.safetensors", host, manifest, diags);
  REQUIRE(header.has_value());
  CHECK(manifest.total_bytes() == static_cast<int64_t>(data));
  CHECK_FALSE(header->data_absent);
  const size_t header_bytes = host.files["m.safetensors"].size() - data;
  CHECK(host.bytes_read <= static_cast<int64_t>(header_bytes) + 8);
  CHECK_FALSE(open_safetensors("n.safetensors", host, manifest, diags));
  CHECK(messages(diags).starts_with("SP001 cannot read `n.safetensors`: "));
}

TEST_CASE("what was written is read") {
  CHECK(holds("read(safetensors(m)) = m", [] {
    const Manifest drawn = testing::draw_manifest();
    const std::vector<std::string> dtypes = {"F64", "BF16", "I8", "F8_E4M3"};
    std::vector<testing::StoredTensor> tensors;
    for (size_t i = 0; i < drawn.size(); ++i) {
      tensors.push_back(
          {std::string(drawn.name(i)), dtypes[i % 4], drawn.type(i).shape});
    }
    const std::string bytes = safetensors(tensors, draw_bool());
    Diagnostics diags;
    Manifest manifest;
    const auto header = read_safetensors_header(
        std::make_shared<SourceFile>("m", bytes),
        static_cast<int64_t>(bytes.size()), manifest, diags);
    ENSURE(header.has_value());
    ENSURE(manifest.size() == tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      ENSURE(manifest.name(i) == tensors[i].name);
      ENSURE(manifest.type(i).shape == tensors[i].shape);
      ENSURE(manifest.where(i).text() == "\"" + tensors[i].name + "\"");
    }
  }));
}

TEST_CASE("damaged files never do more than report") {
  const std::string whole =
      safetensors({{"a", "F32", {2, 3}}, {"b", "BF16", {4}}});
  CHECK(holds("any bytes changed", [&] {
    std::string bytes = whole;
    const auto changes = draw_in(1, 4);
    for (int i = 0; i < changes; ++i) {
      bytes[draw_in<size_t>(0, bytes.size())] =
          static_cast<char>(draw_any<uint8_t>());
    }
    bytes.resize(draw_in<size_t>(0, bytes.size() + 1));
    Diagnostics diags;
    Manifest manifest;
    const auto header = read_safetensors_header(
        std::make_shared<SourceFile>("m", bytes),
        static_cast<int64_t>(bytes.size()), manifest, diags);
    ENSURE(header.has_value() != diags.has_errors());
  }));
}

std::string names(const Manifest& manifest) {
  std::string text;
  for (size_t i = 0; i < manifest.size(); ++i) {
    text += std::string(manifest.name(i)) + " ";
  }
  return text;
}

TEST_CASE("a safetensors file is read through its table entry") {
  testing::MemoryHost host;
  const std::string bytes =
      safetensors({{"b", "F32", {4}}, {"a", "F32", {4}}}, false);
  CHECK(kSafetensors.recognize(bytes));
  CHECK(kSafetensors.is_weights);
  host.files["dir/m.safetensors"] = bytes;
  const auto file = std::make_shared<SourceFile>("dir/m.safetensors", bytes);
  Diagnostics diags;
  const auto manifest =
      kSafetensors.read({"dir/m.safetensors", file}, host, diags);
  REQUIRE(manifest.has_value());
  CHECK(names(*manifest) == "b a ");
  REQUIRE(manifest->remarks.size() == 1);
  CHECK(manifest->remarks[0] ==
        "the data of `dir/m.safetensors` is missing (header only)");
}

TEST_CASE("the size of the whole file counts, not what was read of it") {
  testing::MemoryHost host;
  const std::string bytes = safetensors({{"a", "F32", {4}}});
  host.files["m"] = bytes;
  const auto head =
      std::make_shared<SourceFile>("m", bytes.substr(0, bytes.size() - 16));
  Diagnostics diags;
  const auto manifest = kSafetensors.read({"m", head}, host, diags);
  REQUIRE(manifest.has_value());
  CHECK(manifest->remarks.empty());
}

TEST_CASE("standard input is not a file named `-`") {
  testing::MemoryHost host;
  host.files["-"] = std::string(1000, ' ');
  const auto file =
      std::make_shared<SourceFile>("<stdin>", safetensors({{"a", "F32", {4}}}));
  Diagnostics diags;
  CHECK(kSafetensors.read({"-", file}, host, diags).has_value());
  CHECK(messages(diags).empty());
}

TEST_CASE("places of any number of digits are read, in known entries too") {
  CHECK(holds("three of one type", [] {
    const auto digits = draw_in(1, 18);
    int64_t most = 1;
    for (int i = 0; i < digits; ++i) most *= 10;
    const auto bytes = draw_in<int64_t>(0, most);
    const std::string size = "[" + std::to_string(bytes) + "]";
    std::string header = "{";
    for (int64_t i = 0; i < 3; ++i) {
      header += (i == 0 ? "" : ",") +
                tensor(std::string(1, static_cast<char>('a' + i)), "U8", size,
                       "[" + std::to_string(i * bytes) + "," +
                           std::to_string((i + 1) * bytes) + "]");
    }
    const std::string type = " u8" + size + "; ";
    ENSURE(outcome(safetensors_bytes(header + "}")) ==
           "a" + type + "b" + type + "c" + type + (bytes > 0 ? "no data" : ""));
  }));
}

TEST_CASE("the same tensor twice does not overlap itself") {
  CHECK(outcome(safetensors_bytes("{" + tensor("a", "U8", "[4]", "[0,4]") +
                                  "," + tensor("a", "U8", "[4]", "[0,4]") +
                                  "}")) == "SP003 m:1:54 `a` is given twice");
}

TEST_CASE("a name that is given twice is refused, in known entries too") {
  testing::MemoryHost host;
  host.files["m.safetensors"] =
      safetensors_bytes("{" + tensor("a", "U8", "[1]", "[0,1]") + "," +
                            tensor("b", "U8", "[1]", "[1,2]") + "," +
                            tensor("a", "U8", "[1]", "[2,3]") + "}",
                        3);
  Diagnostics diags;
  CHECK_FALSE(load_manifest("m.safetensors", host, diags));
  CHECK(messages(diags) == "SP003 m.safetensors:1:106 `a` is given twice");
}

TEST_CASE("a directory's files are one model, in the order of their names") {
  testing::MemoryHost host;
  host.files["d/2.safetensors"] = safetensors({{"a", "F32", {4}}});
  host.files["d/1.safetensors"] = safetensors({{"b", "F32", {4}}});
  host.files["d/readme.md"] = "no weights";
  Diagnostics diags;
  const auto manifest = kSafetensors.read({"d", nullptr}, host, diags);
  REQUIRE(manifest.has_value());
  CHECK(names(*manifest) == "b a ");
  CHECK(manifest->where(1).file->name() == "d/2.safetensors");
  CHECK(manifest->remarks.empty());

  host.files["d/3.safetensors"] = safetensors({{"a", "F32", {4}}});
  CHECK_FALSE(load_manifest("d", host, diags));
  CHECK(messages(diags) ==
        "SP008 d/3.safetensors:1:2 1 tensor in more than one shard: `a`");
}

using testing::MemoryHost;
using testing::messages;
using testing::safetensors;
using testing::safetensors_bytes;

// A file of bytes a, b, c, ... behind its header.
std::string lettered(const std::vector<testing::StoredTensor>& tensors) {
  std::string file = safetensors(tensors);
  const size_t header = safetensors(tensors, false).size();
  for (size_t i = header; i < file.size(); ++i) {
    file[i] = static_cast<char>('a' + (i - header) % 26);
  }
  return file;
}

// "name=bytes", each on its own; or what was reported.
std::string weights(const std::string& path, Host& host) {
  Diagnostics diags;
  const auto manifest = load_manifest(path, host, diags);
  if (!manifest) return messages(diags);
  const auto tensors = open_weights(path, *manifest, host, diags);
  CHECK(tensors.has_value() == !diags.has_errors());
  CHECK(tensors.has_value() == find_weights(path, *manifest, host).has_value());
  if (!tensors) return testing::problems(diags);
  CHECK(tensors->size() == manifest->any_size());
  std::string text;
  for (size_t i = 0; i < tensors->size(); ++i) {
    const StoredTensor& tensor = (*tensors)[i];
    CHECK(tensor.dtype == manifest->any_type(i).dtype);
    CHECK(tensor.shape == manifest->any_type(i).shape);
    text += std::string(manifest->any_name(i)) + "=" +
            std::string(reinterpret_cast<const char*>(tensor.data),
                        static_cast<size_t>(manifest->any_type(i).bytes())) +
            ";";
  }
  return text;
}

TEST_CASE("tensors lie where the header says") {
  MemoryHost host;
  host.files["m.safetensors"] =
      lettered({{"b", "U8", {2, 3}}, {"a", "BF16", {}}, {"c", "U8", {0}}});
  CHECK(weights("m.safetensors", host) == "b=abcdef;a=gh;c=;");
  // The data may be in another order than the names.
  host.files["m.safetensors"] = safetensors_bytes(
      R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[3,5]},)"
      R"("b":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})");
  host.files["m.safetensors"] += "vwxyz";
  CHECK(weights("m.safetensors", host) == "a=yz;b=vwx;");
}

TEST_CASE("buffers come behind the parameters") {
  MemoryHost host;
  host.files["m.safetensors"] = lettered(
      {{"h.0.attn.bias", "U8", {1, 1, 2, 2}}, {"wte.weight", "U8", {2, 2}}});
  CHECK(weights("m.safetensors", host) ==
        "wte.weight=efgh;h.0.attn.bias=abcd;");
}

TEST_CASE("all files of a directory or an index") {
  MemoryHost host;
  host.files["m/x-1.safetensors"] = lettered({{"a", "U8", {2}}});
  host.files["m/x-2.safetensors"] =
      lettered({{"b", "U8", {3}}, {"c", "U8", {1}}});
  CHECK(weights("m", host) == "a=ab;b=abc;c=d;");
  host.files["m/model.safetensors.index.json"] =
      R"({"weight_map":{"c":"x-2.safetensors","a":"x-1.safetensors",)"
      R"("b":"x-2.safetensors"}})";
  CHECK(weights("m", host) == "c=d;a=ab;b=abc;");
  CHECK(weights("m/model.safetensors.index.json", host) == "c=d;a=ab;b=abc;");
}

TEST_CASE("a header without its data has no weight values") {
  MemoryHost host;
  const std::vector<testing::StoredTensor> tensors = {{"a", "U8", {2}},
                                                      {"b", "F32", {3}}};
  host.files["m.safetensors"] = safetensors(tensors, false);
  CHECK(weights("m.safetensors", host) ==
        "SP008 m.safetensors:1:2 the file ends before the data of `a` and `b`");
  host.files["m.safetensors"] += "abcdefg";
  CHECK(weights("m.safetensors", host) ==
        "SP008 m.safetensors:1:54 the file ends before the data of `b`");
}

TEST_CASE("models that are no safetensors hold no numbers") {
  MemoryHost host;
  host.files["model.json"] = R"({"tensors":{"a":{"shape":[2],"dtype":"f32"}}})";
  CHECK(weights("model.json", host) ==
        "SP008 `model.json` has no weight values");
  host.files["m/model.safetensors.index.json"] =
      R"({"weight_map":{"a":"x-1.safetensors"}})";
  const Manifest none;
  CHECK_FALSE(find_weights("m", none, host));
  CHECK_FALSE(find_weights("nothing", none, host));
  CHECK_FALSE(find_weights("-", none, host));
  host.files["empty"] = "";
  CHECK_FALSE(find_weights("empty", none, host));
}

TEST_CASE("a file that has changed since its header was read") {
  MemoryHost host;
  host.files["m.safetensors"] = lettered({{"a", "U8", {2}}, {"b", "U8", {2}}});
  Diagnostics diags;
  const auto manifest = load_manifest("m.safetensors", host, diags);
  REQUIRE(manifest);
  host.files["m.safetensors"] = lettered({{"a", "U8", {2}}, {"b", "U8", {1}}});
  CHECK_FALSE(open_weights("m.safetensors", *manifest, host, diags));
  CHECK(
      messages(diags) ==
      "SP008 m.safetensors:1:54 the file changed while it was being read: `b`");
  Diagnostics gone;
  host.files.clear();
  CHECK_FALSE(open_weights("m.safetensors", *manifest, host, gone));
  CHECK(messages(gone) ==
        "SP001 cannot read `m.safetensors`: no such file or directory");
}

TEST_CASE("damaged files are refused, or their tensors lie within them") {
  const std::string good =
      lettered({{"a", "F32", {2, 2}}, {"b", "BF16", {3}}, {"c", "F4", {3}}});
  CHECK(holds([&] {
    std::string bytes = good;
    for (size_t left = draw_size(); left > 0; --left) {
      const auto at = draw_in<size_t>(0, bytes.size());
      bytes[at] = draw_any<char>();
    }
    bytes.resize(draw_in<size_t>(0, bytes.size() + 1));
    MemoryHost host;
    host.files["m.safetensors"] = bytes;
    weights("m.safetensors", host);  // reads every byte: sanitizers see
  }));
}

}  // namespace

}  // namespace shardplan
