// SPDX-License-Identifier: Apache-2.0
#include "base/diagnostic.h"

#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/checked.h"
#include "base/source.h"
#include "tests/support/property.h"

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
  CHECK(holds("position", [] {
    const auto text = draw_text("a\n\r\xC3\xA9");
    const SourceFile file("f", text);
    int64_t line = 1;
    int64_t column = 1;
    for (size_t at = 0; at < text.size(); ++at) {
      const Position position = file.position(at);
      const bool inside =
          (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
      ENSURE(position.line == line);
      // A byte inside a character counts with the characters before it.
      ENSURE(position.column == column);
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
  CHECK(holds("column", [] {
    std::vector<std::unique_ptr<SourceFile>> files;
    std::vector<std::string> texts;
    for (int i = 0; i < 6; ++i) {
      std::string text = draw_of<std::string>({"", "a\nb\n", "é\n"});
      while (text.size() < 9000) {
        text += draw_of<std::string>(
            {"abcdefg", "é", "层x", std::string(500, 'w')});
      }
      text += "\nlast";
      texts.push_back(text);
      files.push_back(std::make_unique<SourceFile>("f", text));
    }
    for (int i = 0; i < 60; ++i) {
      const auto which = draw_in<size_t>(0, files.size());
      const std::string& text = texts[which];
      const auto at = draw_in<size_t>(0, text.size());
      if (draw_in(0, 10) == 0) {  // another one in its place
        files[which] = std::make_unique<SourceFile>("f", text);
      }
      const size_t end = text.substr(0, at).rfind('\n');
      const size_t start = end == std::string::npos ? 0 : end + 1;
      int64_t column = 1;
      for (size_t j = start; j < at; ++j) {
        if ((static_cast<unsigned char>(text[j]) & 0xC0U) != 0x80U) ++column;
      }
      ENSURE(files[which]->position(at).column == column);
    }
  }));
}

namespace {

// As which a finding of this code would be reported.
Severity severity_in(const Diagnostics& diags, Code code) {
  Diagnostics fresh = diags.fresh();
  fresh.report(code, {}, "");
  return fresh.all().empty() ? Severity::Off : fresh.all().front().severity;
}

std::optional<int> refuse(Diagnostics& diags, Span where) {
  return diags.error(Code::InvalidMesh, where, "axis `tp` has size 0")
      .fact("a size counts devices")
      .help("give it a positive size, e.g. `tp=2`");
}

}  // namespace

TEST_CASE("reporting an error is the empty result") {
  Diagnostics diags;
  const SourceFile mesh("--mesh", "tp=0");
  CHECK_FALSE(refuse(diags, {&mesh, 3, 4}).has_value());
  REQUIRE(diags.all().size() == 1);
  const Diagnostic& found = diags.all().front();
  CHECK(found.code == Code::InvalidMesh);
  CHECK(found.severity == Severity::Error);
  CHECK(found.message == "axis `tp` has size 0");
  REQUIRE(found.labels.size() == 1);
  CHECK(found.labels[0].where.text() == "0");
  CHECK(found.facts == std::vector<std::string>{"a size counts devices"});
  CHECK(found.help.size() == 1);
  CHECK(found.findings == 1);
}

TEST_CASE("a problem without a place has no label") {
  Diagnostics diags;
  refuse(diags, {});
  CHECK(diags.all().front().labels.empty());
}

TEST_CASE("codes ascend, have unique names and are found by either") {
  int last = 0;
  for (const CodeInfo& info : all_codes()) {
    CAPTURE(info.name);
    CHECK(static_cast<int>(info.code) > last);
    last = static_cast<int>(info.code);
    CHECK(find_code(info.name) == info.code);
    CHECK(find_code(code_id(info.code)) == info.code);
    CHECK(code_info(info.code).name == info.name);
    CHECK_FALSE(info.summary.empty());
  }
  CHECK(code_id(Code::UnreadableFile) == "SP001");
  CHECK(find_code("sp203") == Code::IndivisibleDimension);
  CHECK_FALSE(find_code("SP999"));
  CHECK_FALSE(find_code("203"));
  CHECK_FALSE(find_code(""));
}

TEST_CASE("a code that the table lacks is a bug") {
  CHECK_THROWS_AS(code_info(static_cast<Code>(999)), InternalError);
}

TEST_CASE("deny raises a warning and allow silences it") {
  Diagnostics diags;
  diags.set_severity(Code::UnusedRule, Severity::Error);
  diags.set_severity(Code::ShadowedRule, Severity::Off);
  diags.report(Code::UnusedRule, {}, "rule 1 matches no parameter");
  diags.report(Code::ShadowedRule, {}, "rule 2 never applies").fact("kept out");
  CHECK(diags.all().size() == 1);
  CHECK(diags.count(Severity::Error) == 1);
  CHECK(diags.allowed() == 1);
  CHECK(severity_in(diags, Code::UnusedRule) == Severity::Error);
  CHECK(severity_in(diags, Code::ShadowedRule) == Severity::Off);
}

TEST_CASE("a code that is off by default is neither kept nor counted") {
  Diagnostics diags;
  diags.report(Code::OverlyBroadPattern, {}, "pattern `w` is unanchored");
  CHECK(diags.all().empty());
  CHECK(diags.allowed() == 0);
  diags.set_severity(Code::OverlyBroadPattern, Severity::Warning);
  diags.report(Code::OverlyBroadPattern, {}, "pattern `w` is unanchored");
  CHECK(diags.count(Severity::Warning) == 1);
}

TEST_CASE("deny warnings makes errors of warnings, not of notes") {
  Diagnostics diags;
  diags.deny_warnings();
  diags.report(Code::UnusedRule, {}, "a warning");
  diags.report(Code::SmallParameter, {}, "a note");
  CHECK(diags.count(Severity::Error) == 1);
  CHECK(diags.count(Severity::Warning) == 0);
  CHECK(diags.count(Severity::Note) == 1);
  CHECK(diags.has_errors());
}

TEST_CASE("a severity of its own still bows to allow and deny") {
  Diagnostics diags;
  diags.report(Code::SplitUnit, Severity::Warning, {}, "a head is cut");
  CHECK(diags.count(Severity::Warning) == 1);
  CHECK_FALSE(diags.has_errors());
  diags.set_severity(Code::SplitUnit, Severity::Error);
  diags.report(Code::SplitUnit, Severity::Warning, {}, "a head is cut");
  CHECK(diags.has_errors());
}

TEST_CASE("an error stays one whatever is allowed") {
  Diagnostics diags;
  diags.set_severity(Code::InvalidMesh, Severity::Off);
  refuse(diags, {});
  CHECK(diags.has_errors());
}

TEST_CASE("grouped findings count one by one") {
  Diagnostics diags;
  diags.report(Code::UnmatchedParameter, {}, "2 parameters match no rule")
      .parameters({"a", "b"});
  diags.report(Code::UnmatchedParameter, {}, "many match no rule").findings(40);
  CHECK(diags.all().size() == 2);
  CHECK(diags.count(Severity::Error) == 42);
}

TEST_CASE("only input errors and untranslatable patterns prevent an answer") {
  CHECK(prevents_running(Code::UnreadableFile));
  CHECK(prevents_running(Code::UnsupportedPattern));
  CHECK_FALSE(prevents_running(Code::UnmatchedParameter));
  CHECK_FALSE(prevents_running(Code::ShardingLost));
  Diagnostics diags;
  diags.report(Code::UnmatchedParameter, {}, "`w` matches no rule");
  CHECK_FALSE(diags.cannot_run());
  diags.report(Code::UnsupportedPattern, {}, "look-ahead");
  CHECK(diags.cannot_run());
}

}  // namespace shardplan
