// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <limits>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/plain_json.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

TEST_CASE("a few names stand for many") {
  const std::vector<std::string> names = {"a", "b", "c", "d", "e", "f", "g"};
  const std::span<const std::string> all(names);
  CHECK(some_names(all.first(1)) == "`a`");
  CHECK(some_names(all.first(2)) == "`a` and `b`");
  CHECK(some_names(all.first(5)) == "`a`, `b`, `c`, `d` and `e`");
  CHECK(some_names(all) == "`a`, `b`, `c`, `d`, `e` and 2 more");
}

TEST_CASE("texts are joined, and names of strangers cannot write") {
  const std::vector<std::string> texts = {"a", "b", "c"};
  const std::span<const std::string> all(texts);
  CHECK(joined(all, ", ") == "a, b, c");
  CHECK(joined(all, ", ", " or ") == "a, b or c");
  CHECK(joined(all.first(0), ", ").empty());
  CHECK(quoted_names(all) == "`a`, `b` and `c`");
  CHECK(quoted_names(all.first(1), " or ") == "`a`");
  CHECK(some_names(all, 1) == "`a` and 2 more");
  // As they are: who shows them escapes.
  CHECK(in_backticks("a\x1b[2J") == "`a\x1b[2J`");
  CHECK(escape_pattern("a.b[0]") == "a\\.b\\[0\\]");
}

}  // namespace

TEST_CASE("bytes are shown with three or four digits") {
  struct Case {
    double bytes;
    std::string_view expected;
  };
  constexpr double kMi = 1024.0 * 1024;
  constexpr Case kCases[] = {
      {0, "0 B"},
      {1, "1 B"},
      {512, "512 B"},
      {512.4, "512 B"},
      {1023, "1023 B"},
      {1023.6, "1.00 KiB"},
      {1024, "1.00 KiB"},
      {4096, "4.00 KiB"},
      {10235, "10.0 KiB"},
      {1024 * 9.994, "9.99 KiB"},
      {1024 * 99.97, "100.0 KiB"},
      {32769024, "31.3 MiB"},
      {kMi - 1, "1.00 MiB"},
      {1023.94 * 1024, "1023.9 KiB"},
      {22 * kMi, "22.0 MiB"},
      {293.7 * kMi, "293.7 MiB"},
      {2200104960, "2.05 GiB"},
      {kMi * kMi, "1.00 TiB"},
      {kMi * kMi * 1024, "1.00 PiB"},
      {kMi * kMi * kMi, "1.00 EiB"},
      {-4096, "-4.00 KiB"},
      {-0.2, "0 B"},
  };
  for (const Case& test : kCases) {
    CAPTURE(test.bytes);
    CHECK(bytes_text(test.bytes) == test.expected);
  }
}

TEST_CASE("what is not a size is called by its name") {
  CHECK(bytes_text(std::numeric_limits<double>::quiet_NaN()) == "undefined");
  CHECK(bytes_text(std::numeric_limits<double>::infinity()) == "infinite");
  // Beyond every unit, but still whole.
  CHECK(bytes_text(std::numeric_limits<double>::max()).ends_with(".0 EiB"));
}

TEST_CASE(
    "no size is ever shown as 1024 of a unit or with more than 4 digits") {
  CHECK(holds("bytes_text", [] {
    const double bytes =
        static_cast<double>(draw_in<int64_t>(0, int64_t{1} << draw_in(1, 62)));
    const std::string text = bytes_text(bytes);
    const std::string number = text.substr(0, text.find(' '));
    ENSURE(number != "1024");
    ENSURE(number != "1024.0");
    const bool fraction = number.find('.') != std::string::npos;
    ENSURE(number.size() <= (fraction ? 6U : 4U));
  }));
}

TEST_CASE("counts get a comma between thousands") {
  CHECK(count_text(0) == "0");
  CHECK(count_text(999) == "999");
  CHECK(count_text(1000) == "1,000");
  CHECK(count_text(1100052480) == "1,100,052,480");
  CHECK(count_text(-1000) == "-1,000");
  CHECK(count_text(-999) == "-999");
  CHECK(count_text(kLeast) == "-9,223,372,036,854,775,808");
}

TEST_CASE("large counts are spoken with three digits") {
  CHECK(short_count_text(999'999) == "999,999");
  CHECK(short_count_text(1'000'000) == "1.00 million");
  CHECK(short_count_text(124'439'808) == "124 million");
  CHECK(short_count_text(8'030'261'248) == "8.03 billion");
  CHECK(short_count_text(70'553'706'496) == "70.6 billion");
  CHECK(short_count_text(999'700'000) == "1.00 billion");
  CHECK(short_count_text(1'500'000'000'000) == "1.50 trillion");
  CHECK(short_count_text(-2'000'000) == "-2.00 million");
  CHECK(short_count_text(kMost) == "9.22 quintillion");
}

TEST_CASE("a noun follows its count into the plural") {
  CHECK(plural(1, "parameter") == "1 parameter");
  CHECK(plural(0, "parameter") == "0 parameters");
  CHECK(plural(2000, "rule") == "2,000 rules");
  CHECK(plural(2, "axis") == "2 axes");
  CHECK(plural(2, "mesh axis") == "2 mesh axes");
  CHECK(plural(2, "entry") == "2 entries");
  CHECK(plural(2, "array") == "2 arrays");
  CHECK(plural(2, "class") == "2 classes");
  CHECK(plural(2, "branch") == "2 branches");
  CHECK(plural(1, "axis") == "1 axis");
}

TEST_CASE("a list of numbers ends in or, or says that it goes on") {
  const std::vector<int64_t> numbers = {1, 2, 4, 8};
  const std::span<const int64_t> all(numbers);
  CHECK(list_text(all) == "1, 2, 4 or 8");
  CHECK(list_text(all.first(1)) == "1");
  CHECK(list_text(all.first(2)) == "1 or 2");
  CHECK(list_text(all.first(0)).empty());
  CHECK(list_text(all, 2) == "1, 2, ...");
  CHECK(list_text(all, 4) == "1, 2, 4 or 8");
}

TEST_CASE("the nearest name is the one most likely meant") {
  const std::vector<std::string> commands = {"check",   "resolve", "analyze",
                                             "inspect", "explain", "list"};
  CHECK(nearest("chekc", commands) == "check");
  CHECK(nearest("RESOLVE", commands) == "resolve");
  CHECK(nearest("analyse", commands) == "analyze");
  CHECK(nearest("lsit", commands) == "list");
  CHECK_FALSE(nearest("completely", commands));
  CHECK_FALSE(nearest("", commands));
  CHECK_FALSE(nearest("check", {}));
  CHECK_FALSE(nearest("x", std::vector<std::string>{"y", "z"}));
}

TEST_CASE("equally near names are told apart by case, then by order") {
  CHECK(nearest("Tp", std::vector<std::string>{"tp", "Tp"}) == "Tp");
  CHECK(nearest("dp", std::vector<std::string>{"tp", "sp"}) == "tp");
  CHECK(nearest("dp", std::vector<std::string>{"sp", "tp"}) == "sp");
}

TEST_CASE("a huge word is nobody's typing error") {
  const std::string huge(10'000'000, 'a');
  CHECK_FALSE(nearest(huge, std::vector<std::string>{huge}));
  CHECK_FALSE(nearest("aaaa", std::vector<std::string>{huge}));
}

TEST_CASE("the width of a text counts columns, not bytes") {
  CHECK(display_width("") == 0);
  CHECK(display_width("layers") == 6);
  CHECK(display_width("×…█") == 3);
  CHECK(display_width("模型/层") == 7);
  CHECK(display_width("e\xCC\x81") == 1);  // e and a combining accent
  CHECK(display_width("\xF0\x9F\x9A\x80") == 2);
}

TEST_CASE("percents never round to nothing or to everything") {
  CHECK(percent_text(0) == "0.0 %");
  CHECK(percent_text(0.0001) == "<0.1 %");
  CHECK(percent_text(0.893) == "89.3 %");
  CHECK(percent_text(0.9999) == ">99.9 %");
  CHECK(percent_text(1) == "100.0 %");
  CHECK(percent_text(2.5) == "250.0 %");
}

TEST_CASE("a long text loses its middle") {
  CHECK(elide_middle("model/layers/0/mlp", 18, true) == "model/layers/0/mlp");
  CHECK(elide_middle("model/layers/0/mlp", 10, true) == "mod…/0/mlp");
  CHECK(elide_middle("model/layers/0/mlp", 10, false) == "mo../0/mlp");
  CHECK(elide_middle("层层层层", 7, true) == "层…层层");
  CHECK(elide_middle("abcdef", 2, true) == "…f");
  CHECK(elide_middle("abcdef", 1, true) == ".");
  CHECK(elide_middle("abcdef", 0, true).empty());
}

TEST_CASE("padding fills up on either side and never cuts") {
  CHECK(pad("ab", 4) == "ab  ");
  CHECK(pad("ab", 4, true) == "  ab");
  CHECK(pad("abcdef", 4) == "abcdef");
  CHECK(pad("层", 4, true) == "  层");
}

TEST_CASE("what is cut fits, and keeps both ends") {
  CHECK(holds("elide_middle", [] {
    std::string text;
    const auto pieces = draw_list([] {
      return draw_of<std::string>({"a", "/", "层", "e\xCC\x81", "×"});
    });
    for (const std::string& piece : pieces) text += piece;
    const int width = draw_in(0, 30);
    const bool unicode = draw_bool();
    const std::string cut = elide_middle(text, width, unicode);
    ENSURE(display_width(cut) <= width);
    ENSURE(is_valid_utf8(cut));
    if (display_width(text) <= width) {
      ENSURE(cut == text);
    } else {
      // At most one wide character's worth is given away.
      ENSURE(display_width(cut) >= width - 1);
    }
  }));
}

TEST_CASE("bytes that are not UTF-8 are replaced one by one") {
  struct Case {
    std::string_view text;
    char32_t first;
    size_t length;
  };
  constexpr Case kCases[] = {
      {"a", U'a', 1},
      {"\xC3\xA9", 0xE9, 2},
      {"\xE5\xB1\x82", 0x5C42, 3},
      {"\xF0\x9F\x9A\x80", 0x1F680, 4},
      {"\xF4\x8F\xBF\xBF", 0x10FFFF, 4},
      {"\x80", 0xFFFD, 1},              // a continuation alone
      {"\xC3", 0xFFFD, 1},              // cut short
      {"\xE5\xB1", 0xFFFD, 1},          // cut short
      {"\xC0\xAF", 0xFFFD, 1},          // overlong
      {"\xE0\x80\xAF", 0xFFFD, 1},      // overlong
      {"\xF0\x80\x80\xAF", 0xFFFD, 1},  // overlong
      {"\xED\xA0\x80", 0xFFFD, 1},      // a surrogate
      {"\xF4\x90\x80\x80", 0xFFFD, 1},  // past the last code point
      {"\xFF", 0xFFFD, 1},
      {"\xEF\xBF\xBD", 0xFFFD, 3},  // the replacement character itself
  };
  for (const Case& test : kCases) {
    CAPTURE(printable(test.text));
    size_t at = 0;
    CHECK(decode_utf8(test.text, at) == test.first);
    CHECK(at == test.length);
    const bool valid = test.first != 0xFFFD || test.length == 3;
    CHECK(is_valid_utf8(test.text) == valid);
    CHECK(is_valid_utf8("12345678" + std::string(test.text) + "12345678") ==
          valid);
  }
}

TEST_CASE("what could write to a terminal is escaped") {
  CHECK(printable("layers.0/w×层") == "layers.0/w×层");
  CHECK(printable("a\x1B[31mb") == "a\\x1b[31mb");
  CHECK(printable("a\nb\rc\td") == "a\\nb\\rc\\td");
  CHECK(printable(std::string_view("\0", 1)) == "\\x00");
  CHECK(printable("\x7F") == "\\x7f");
  CHECK(printable("\xC2\x9B"
                  "31m") == "\\x9b31m");  // CSI in one character
  CHECK(printable("\xFF\xC3") == "\\xff\\xc3");
  CHECK(printable("\xE2\x80\xAE"
                  "gpj.exe") == "\\u{202e}gpj.exe");
  CHECK(printable("\xEF\xBF\xBD") == "\xEF\xBF\xBD");
  CHECK(printable("\\d+") == "\\d+");
}

TEST_CASE("printable text of any bytes is valid and has no controls") {
  CHECK(holds("printable", [] {
    const auto text = draw_any<std::string>();
    const std::string shown = printable(text);
    ENSURE(is_valid_utf8(shown));
    ENSURE(printable(shown) == shown);
    for (const char c : shown) {
      ENSURE(static_cast<unsigned char>(c) >= 0x20);
    }
  }));
}

TEST_CASE("a sentence without its numbers keeps its names") {
  const struct {
    const char* sentence;
    const char* expected;
  } rows[] = {
      {"", ""},
      {"the plan needs 1.5 GiB per device", "the plan needs # per device"},
      {"12 % of 1,234 B, 7.", "# of #, #."},
      {"`w2` of 3 in `a 4 b` and 5", "`w2` of # in `a 4 b` and #"},
      {"bf16 and axis_2 stay, 3Bs do not", "bf16 and axis_2 stay, #Bs do not"},
      {"3 Bs", "# Bs"},
      {"1..2", "#..#"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.sentence);
    CHECK(without_numbers(row.sentence) == row.expected);
  }
}

TEST_CASE("a code point takes the columns that Unicode gives it") {
  struct Case {
    char32_t code_point;
    int width;
  };
  constexpr Case kCases[] = {
      {U'a', 1},     {U' ', 1},    {U'~', 1},    {U'\n', 0},   {0x1B, 0},
      {0x7F, 0},     {0x9F, 0},    {0xA0, 1},    {0xAD, 1},    {U'é', 1},
      {0x300, 0},    {0x36F, 0},   {0x370, 1},   {U'×', 1},    {U'…', 1},
      {U'█', 1},     {0x10FF, 1},  {0x1100, 2},  {0x1160, 0},  {0x200B, 0},
      {0x200D, 0},   {0xFE0F, 0},  {U'日', 2},   {U'가', 2},   {0xFF21, 2},
      {0xFF61, 1},   {0x1F600, 2}, {0x1F680, 2}, {0x20000, 2}, {0x2FFFD, 2},
      {0x10FFFF, 1}, {0xFFFD, 1},
  };
  for (const Case& test : kCases) {
    CAPTURE(static_cast<unsigned>(test.code_point));
    CHECK(code_point_width(test.code_point) == test.width);
  }
}

namespace {

TEST_CASE("sizes are read with decimal and binary units") {
  const struct {
    const char* text;
    std::optional<int64_t> bytes;
  } rows[] = {{"1", 1},
              {"1048576", 1'048'576},
              {"512B", 512},
              {"80GiB", 85'899'345'920},
              {"80 GiB", 85'899'345'920},
              {"80GB", 80'000'000'000},
              {"95.7GB", 95'700'000'000},
              {"81559MiB", 85'520'809'984},
              {"1.5KiB", 1536},
              {"2kB", 2000},
              {"2KB", 2000},
              {"0.5TiB", 549'755'813'888},
              {"1e9", 1'000'000'000},
              {"1e+9", 1'000'000'000},
              {"1.9B", 1},
              {"4611686018427387903", std::nullopt},  // rounds to 2^62
              {"0", std::nullopt},
              {"0.5", std::nullopt},
              {"-1GiB", std::nullopt},
              {"80gib", std::nullopt},
              {"80G", std::nullopt},
              {"GiB", std::nullopt},
              {"", std::nullopt},
              {" 80GiB", std::nullopt},
              {"80GiB ", std::nullopt},
              {"8e", std::nullopt},
              {"1e400", std::nullopt},
              {"nan", std::nullopt},
              {"inf", std::nullopt},
              {"8388608TiB", std::nullopt}};
  for (const auto& row : rows) {
    CAPTURE(row.text);
    CHECK(parse_bytes(row.text) == row.bytes);
  }
}

TEST_CASE("whole bytes are read as they are written, in any unit") {
  CHECK(holds("parse_bytes", [] {
    // Exact in double, also as multiples of every unit below.
    const auto n = draw_in<int64_t>(1, int64_t{1} << 21U);
    const std::string text = std::to_string(n);
    ENSURE(parse_bytes(text) == n);
    ENSURE(parse_bytes(text + "B") == n);
    ENSURE(parse_bytes(text + " MB") == n * 1'000'000);
    ENSURE(parse_bytes(text + "GiB") == n * (int64_t{1} << 30U));
  }));
}

std::string spelled(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

TEST_CASE("a string escapes only what JSON demands") {
  CHECK(spelled("") == R"("")");
  CHECK(spelled("a/b \u00e9") == "\"a/b \u00e9\"");
  CHECK(spelled("\"\\") == R"("\"\\")");
  CHECK(spelled("\b\t\n\f\r") == R"("\b\t\n\f\r")");
  CHECK(spelled("\v\x1b") == R"("\u000b\u001b")");
  CHECK(spelled(std::string_view("\0", 1)) == R"("\u0000")");
}

TEST_CASE("what stands for itself in JSON is found eight bytes at a time") {
  CHECK(holds([] {
    std::string text(draw_in<size_t>(0, 20), 'a');
    for (char& c : text) {
      if (draw_in(0, 9) == 0) {
        c = static_cast<char>(draw_any<uint8_t>());
      } else if (draw_in(0, 9) == 0) {
        c = draw_of("\"\\ ~!#[]\x7f\x1f\x80");
      }
    }
    size_t slow = 0;
    while (slow < text.size() && text[slow] >= ' ' && text[slow] < '\x7f' &&
           text[slow] != '"' && text[slow] != '\\' && text[slow] != '#') {
      ++slow;
    }
    ENSURE(plain_json(text) == slow);
  }));
}

TEST_CASE("another parser reads back what was written") {
  CHECK(holds("parse(spelled(x)) = x", [] {
    std::string text;
    for (const auto code : draw_any<std::vector<uint8_t>>()) {
      text += static_cast<char>(code & 0x7fU);
    }
    ENSURE(nlohmann::json::parse(spelled(text)).get<std::string>() == text);
  }));
}

}  // namespace

}  // namespace shardplan
