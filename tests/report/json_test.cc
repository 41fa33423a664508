// SPDX-License-Identifier: Apache-2.0
#include "report/json.h"

#include <cmath>
#include <cstring>
#include <limits>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <rapidcheck.h>

#include "base/text.h"

namespace shardplan {
namespace {

std::string json_of(const Cell& cell) {
  std::string text;
  append_json(text, cell);
  return text;
}

std::string in_quotes(std::string_view text) {
  std::string out;
  append_printable_json(out, text);
  return out;
}

}  // namespace

TEST_CASE("every kind of cell has one form in JSON") {
  struct Case {
    Cell cell;
    std::string_view json;
  };
  const std::vector<Case> cases = {
      {std::monostate{}, "null"},
      {std::string("w"), "\"w\""},
      {Count{std::numeric_limits<int64_t>::min()}, "-9223372036854775808"},
      {ByteSize{std::numeric_limits<int64_t>::max()}, "9223372036854775807"},
      {MeanBytes{80.5}, "80.5"},
      {Ratio{0.1}, "0.1"},
      {Ratio{-0.0}, "0"},
      {Percent{0.893}, "0.893"},
      {Seconds{1e-7}, "1e-07"},
      {Bar{0.25}, "0.25"},
      {Ratio{std::numeric_limits<double>::infinity()}, "null"},
      {Ratio{std::numeric_limits<double>::quiet_NaN()}, "null"},
      {Flag{true}, "true"},
      {Flag{false}, "false"},
      {Names{{"a", "b"}}, "[\"a\", \"b\"]"},
      {Names{}, "[]"},
      {Numbers{{1, 2}}, "[1, 2]"},
      {Dims{{2048, 256}}, "[2048, 256]"},
      {Dims{}, "[]"},
      {PartitionSpec{}, "[]"},
      {PartitionSpec{{{}}}, "[null]"},
      {PartitionSpec{{{"tp"}, {}, {"dp", "fsdp"}}},
       "[\"tp\", null, [\"dp\", \"fsdp\"]]"},
      {MeshCell{Mesh({{"tp", 2}, {"dp", 4}})}, "{\"tp\": 2, \"dp\": 4}"},
      {MemoryRange{3, 1, 2.5}, "{\"max\": 3, \"min\": 1, \"mean\": 2.5}"},
  };
  for (const Case& test : cases) {
    CAPTURE(test.json);
    CHECK(json_of(test.cell) == test.json);
  }
}

TEST_CASE("strings are escaped, and harmless on a terminal") {
  CHECK(in_quotes("a\"b\\c") == R"("a\"b\\c")");
  CHECK(in_quotes("\n\r\t\b") == R"("\n\r\t\u0008")");
  CHECK(in_quotes(std::string_view("\0", 1)) == R"("\u0000")");
  CHECK(in_quotes("层×") == "\"层×\"");
  CHECK(in_quotes("\x1b[31m") == R"("\u001b[31m")");
  CHECK(in_quotes("\x7f\xC2\x9B") == R"("\u007f\u009b")");
  CHECK(in_quotes("\xE2\x80\xAE") == R"("\u202e")");
  CHECK(in_quotes("\xF0\x9F\x9A\x80") == "\"\xF0\x9F\x9A\x80\"");
}

TEST_CASE("bytes that are not UTF-8 are replaced") {
  CHECK(in_quotes("a\xFF") == "\"a\xEF\xBF\xBD\"");
  CHECK(in_quotes("\xC3") == "\"\xEF\xBF\xBD\"");
}

TEST_CASE("any text reads back the same, if it is UTF-8") {
  CHECK(rc::check("append_printable_json", [](const std::string& bytes) {
    const nlohmann::json parsed = nlohmann::json::parse(in_quotes(bytes));
    RC_ASSERT(is_valid_utf8(in_quotes(bytes)));
    if (is_valid_utf8(bytes)) RC_ASSERT(parsed.get<std::string>() == bytes);
  }));
  CHECK(rc::check("append_printable_json of code points", [] {
    std::string text;
    for (int i = *rc::gen::inRange(0, 20); i > 0; --i) {
      text += *rc::gen::element<std::string>("a", "\"", "\\", "\n", "\x1b", "é",
                                             "层", "\xF0\x9F\x9A\x80",
                                             "\xE2\x80\xAE");
    }
    RC_ASSERT(nlohmann::json::parse(in_quotes(text)).get<std::string>() ==
              text);
  }));
}

TEST_CASE("any double reads back the same") {
  CHECK(rc::check("append_json_double", [](double number) {
    std::string text;
    append_json_double(text, number);
    RC_ASSERT(nlohmann::json::parse(text).get<double>() == number);
  }));
  CHECK(rc::check("append_json_double of any bits", [](uint64_t bits) {
    double number = 0;
    static_assert(sizeof number == sizeof bits);
    std::memcpy(&number, &bits, sizeof bits);
    std::string text;
    append_json_double(text, number);
    const nlohmann::json parsed = nlohmann::json::parse(text);
    if (std::isfinite(number)) {
      RC_ASSERT(parsed.get<double>() == number);
    } else {
      RC_ASSERT(parsed.is_null());
    }
  }));
}

}  // namespace shardplan
