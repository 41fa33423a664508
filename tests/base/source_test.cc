// SPDX-License-Identifier: Apache-2.0
#include "base/source.h"

#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <rapidcheck.h>

namespace shardplan {

TEST_CASE("an offset has a line and a column, both from one") {
  const SourceFile file("f", "ab\ncd\r\n\né层x");
  struct Case {
    uint64_t offset;
    int64_t line, column;
  };
  constexpr Case kCases[] = {
      {0, 1, 1}, {1, 1, 2},  {2, 1, 3},  {3, 2, 1},  {5, 2, 3},  {7, 3, 1},
      {8, 4, 1}, {10, 4, 2}, {13, 4, 3}, {14, 4, 4}, {15, 4, 4},
  };
  for (const Case& test : kCases) {
    CAPTURE(test.offset);
    CHECK(file.position(test.offset).line == test.line);
    CHECK(file.position(test.offset).column == test.column);
  }
}

TEST_CASE("a line comes without its end") {
  const SourceFile file("f", "ab\ncd\r\n\nx");
  CHECK(file.line(1) == "ab");
  CHECK(file.line(2) == "cd");
  CHECK(file.line(3).empty());
  CHECK(file.line(4) == "x");
  CHECK(file.line(0).empty());
  CHECK(file.line(5).empty());
}

TEST_CASE("an empty text has one empty line") {
  const SourceFile file("f", "");
  CHECK(file.line(1).empty());
  CHECK(file.position(0).line == 1);
  CHECK(file.position(0).column == 1);
}

TEST_CASE("a span is the text that it covers, or nothing") {
  const SourceFile file("f", "fsdp=4,tp");
  CHECK(Span{&file, 7, 9}.text() == "tp");
  CHECK(Span{&file, 9, 9}.text().empty());
  CHECK(Span{}.text().empty());
  CHECK(static_cast<bool>(Span{&file, 0, 0}));
  CHECK_FALSE(static_cast<bool>(Span{}));
}

TEST_CASE("positions agree with counting from the start") {
  CHECK(rc::check("position", [] {
    const auto text = *rc::gen::container<std::string>(
        rc::gen::element('a', '\n', '\r', '\xC3', '\xA9'));
    const SourceFile file("f", text);
    int64_t line = 1;
    int64_t column = 1;
    for (size_t at = 0; at < text.size(); ++at) {
      const Position position = file.position(at);
      const bool inside =
          (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
      RC_ASSERT(position.line == line);
      // A byte inside a character counts with the characters before it.
      RC_ASSERT(position.column == column);
      if (text[at] == '\n') {
        ++line;
        column = 1;
      } else if (!inside) {
        ++column;
      }
    }
  }));
}

TEST_CASE("columns of long lines do not depend on what was asked before") {
  // Columns were counted from the start of the line each time: a file of one
  // line with 10,000 findings took minutes. Counting goes on where it stopped.
  CHECK(rc::check("column", [] {
    std::vector<std::unique_ptr<SourceFile>> files;
    std::vector<std::string> texts;
    for (int i = 0; i < 6; ++i) {
      std::string text = *rc::gen::element<std::string>("", "a\nb\n", "é\n");
      while (text.size() < 9000) {
        text += *rc::gen::element<std::string>("abcdefg", "é", "层x",
                                               std::string(500, 'w'));
      }
      text += "\nlast";
      texts.push_back(text);
      files.push_back(std::make_unique<SourceFile>("f", text));
    }
    for (int i = 0; i < 60; ++i) {
      const auto which = *rc::gen::inRange<size_t>(0, files.size());
      const std::string& text = texts[which];
      const auto at = *rc::gen::inRange<size_t>(0, text.size());
      if (*rc::gen::inRange(0, 10) == 0) {  // another one in its place
        files[which] = std::make_unique<SourceFile>("f", text);
      }
      const size_t end = text.substr(0, at).rfind('\n');
      const size_t start = end == std::string::npos ? 0 : end + 1;
      int64_t column = 1;
      for (size_t j = start; j < at; ++j) {
        if ((static_cast<unsigned char>(text[j]) & 0xC0U) != 0x80U) ++column;
      }
      RC_ASSERT(files[which]->position(at).column == column);
    }
  }));
}

}  // namespace shardplan
