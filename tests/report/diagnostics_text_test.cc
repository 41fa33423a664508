// SPDX-License-Identifier: Apache-2.0

#include "report/diagnostics_text.h"

#include <string>

#include <doctest/doctest.h>

#include "base/text.h"
#include "report/snippet.h"
#include "tests/support/property.h"
#include "tests/support/reports.h"

namespace shardplan {
namespace {

using Lines = std::vector<std::string>;

Lines draw(std::string_view line, const std::vector<Mark>& marks,
           int width = 80, const Style& style = {}) {
  return draw_snippet(line, marks, width, Paint::Error, style);
}

}  // namespace

TEST_CASE("a mark is underlined and its text follows") {
  CHECK(draw("fsdp=4,tp", {{7, 9, "expected `tp=N`", true}}) ==
        Lines{"fsdp=4,tp",  //
              "       ^^ expected `tp=N`"});
  CHECK(draw("fsdp=4,tp", {{7, 9, "", false}}) == Lines{"fsdp=4,tp",  //
                                                        "       --"});
}

TEST_CASE("an empty mark is one caret, also behind the last character") {
  CHECK(draw("ab", {{1, 1, "here", true}}) == Lines{"ab", " ^ here"});
  CHECK(draw("ab", {{2, 2, "", true}}) == Lines{"ab", "  ^"});
  CHECK(draw("ab", {{9, 12, "", true}}) == Lines{"ab", "  ^"});
  CHECK(draw("", {{0, 0, "", true}}) == Lines{"", "^"});
}

TEST_CASE("texts that would collide hang below, right to left") {
  CHECK(draw("[tp, fsdp, sp]", {{1, 3, "first", false},
                                {5, 9, "second", true},
                                {11, 13, "third", false}}) ==
        Lines{"[tp, fsdp, sp]",       //
              " --  ^^^^  -- third",  //
              " |   |",               //
              " |   second",          //
              " first"});
}

TEST_CASE("marks that overlap keep their texts and the primary its carets") {
  CHECK(draw("[tp, fsdp]", {{0, 10, "all of it", false},
                            {5, 9, "this", true}}) == Lines{"[tp, fsdp]",  //
                                                            "-----^^^^-",  //
                                                            "|    |",      //
                                                            "|    this",   //
                                                            "all of it"});
  CHECK(draw("tp", {{0, 2, "a", true}, {0, 2, "b", false}}) == Lines{"tp",    //
                                                                     "^^ b",  //
                                                                     "|",     //
                                                                     "a"});
}

TEST_CASE("wide characters, marks and tabs keep the carets in place") {
  CHECK(draw("\t层: tp", {{6, 8, "", true}}) == Lines{"    层: tp",  //
                                                      "        ^^"});
  CHECK(draw("层层", {{3, 6, "x", true}}) == Lines{"层层", "  ^^ x"});
  CHECK(draw("e\xCC\x81 tp", {{4, 6, "", true}}) ==
        Lines{"e\xCC\x81 tp", "  ^^"});
}

TEST_CASE("what could act on the terminal is escaped, and counted as shown") {
  CHECK(draw("\x1b[m tp", {{4, 6, "", true}}) ==
        Lines{"\\x1b[m tp", "       ^^"});
  CHECK(draw("\xFF tp", {{2, 4, "x\x07", true}}) ==
        Lines{"\\xff tp", "     ^^ x\\x07"});
}

TEST_CASE("a long line is cut to a window around its mark") {
  const std::string line = std::string(100, 'a') + "tp" + std::string(100, 'b');
  CHECK(draw(line, {{100, 102, "here", true}}, 22) ==
        Lines{"…aaaaaaaaatpbbbbbbbbb…",  //
              "          ^^ here"});
  CHECK(draw(line, {{0, 2, "", true}}, 10) == Lines{"aaaaaaaaa…", "^^"});
  CHECK(draw(line, {{200, 202, "", true}}, 10) ==
        Lines{"…bbbbbbbbb", "        ^^"});
  Style ascii;
  ascii.unicode = false;
  CHECK(draw(line, {{100, 102, "", true}}, 12, ascii) ==
        Lines{"..aaatpbbb..", "     ^^"});
}

TEST_CASE("a mark that is longer than the window is cut with it") {
  const std::string line = std::string(50, 'a') + std::string(100, 'x');
  CHECK(draw(line, {{50, 150, "", true}}, 22) ==
        Lines{"…aaaaaxxxxxxxxxxxxxxx…",  //
              "      ^^^^^^^^^^^^^^^"});
}

TEST_CASE("blanks at the end of the source are not printed") {
  CHECK(draw("tp   ", {{0, 2, "", true}}) == Lines{"tp", "^^"});
  CHECK(draw_line("  x: 1   ", 80, Style{}) == "  x: 1");
  CHECK(draw_line(std::string(30, 'x'), 10, Style{}) == "xxxxxxxxx…");
}

TEST_CASE("whether a window holds a range counts columns") {
  CHECK(fits_window("层层ab", 0, 6, 4));
  CHECK_FALSE(fits_window("层层ab", 0, 7, 4));
  CHECK(fits_window("ab", 1, 99, 1));
}

TEST_CASE("colour marks carets and their texts") {
  Style style;
  style.colour = true;
  CHECK(draw("ab", {{0, 1, "x", true}, {1, 2, "y", false}}, 80, style) ==
        Lines{"ab", "\x1b[1;31m^\x1b[0m\x1b[1;36m-\x1b[0m \x1b[1;36my\x1b[0m",
              "\x1b[1;31m|\x1b[0m", "\x1b[1;31mx\x1b[0m"});
}

TEST_CASE("a line of 100 MB costs no more than a short one") {
  const std::string line(100'000'000, 'a');
  const Lines lines = draw(line, {{50'000'000, 50'000'003, "", true}}, 40);
  CHECK(display_width(lines[0]) == 40);
  CHECK(lines[1].ends_with("^^^"));
}

TEST_CASE("any bytes give printable lines that fit, with a caret for a mark") {
  CHECK(holds("draw_snippet", [] {
    std::string line;
    for (int i = draw_in(0, 60); i > 0; --i) {
      line += draw_of<std::string>(
          {"a", "层", "\t", "\x1b", "\xFF", "\xC3", "e\xCC\x81", " "});
    }
    const auto size = static_cast<int>(line.size());
    const int begin = draw_in(0, size + 2);
    const int end = draw_in(begin, size + 3);
    const int width = draw_in(20, 60);
    const Lines lines =
        draw(line,
             {{static_cast<size_t>(begin), static_cast<size_t>(end), "", true}},
             width);
    ENSURE(lines.size() == 2U);
    ENSURE(display_width(lines[0]) <= width);
    ENSURE(printable(lines[0]) == lines[0]);
    ENSURE(lines[1].find('^') != std::string::npos);
    ENSURE(display_width(lines[1]) <= width + 1);
  }));
}

namespace {

const SourceFile& rules() {
  static const SourceFile kRules("rules.yaml", R"(# Llama
rules:
  - ["embed_tokens/embedding",          [tp, fsdp]]
  - ["self_attn/(q|k|v)_proj/kernel",   [fsdp, tp]]
  - ["self_attn/o_proj/kernel",         [tp, fsdp]]
  - ["mlp/.*/kernel",                   [fsdp, tp]]
  - ["mlp/down_proj/kernel",            [tp, fsdp]]
  - ["_layernorm/kernel",               []]
  - ["lm_head/kernel",                  [fsdp, model]]
)");
  return kRules;
}

Style of_width(int width) {
  Style style;
  style.width = width;
  return style;
}

std::string written(const Diagnostics& diags, const Style& style = {}) {
  std::string text;
  CHECK(write_diagnostics(diags, style, [&](std::string_view piece) {
    text += piece;
    return true;
  }));
  return text;
}

std::string concise(const Diagnostics& diags) {
  std::string text;
  CHECK(write_concise(diags, [&](std::string_view piece) {
    text += piece;
    return true;
  }));
  return text;
}

}  // namespace

TEST_CASE("a diagnostic shows its place, the facts and what helps") {
  Diagnostics diags;
  diags
      .report(Code::IndivisibleDimension, {},
              "dimension 0 of `w` is not divisible by axis `tp`")
      .label(span_of(rules(), "tp"), "shards dimension 0")
      .fact("dimension 0 is 32001; axis `tp` is 2; 32001 mod 2 = 1")
      .help("pad the dimension to 32002");
  CHECK("\n" + written(diags) == R"(
warning[SP203]: dimension 0 of `w` is not divisible by axis `tp`
 --> rules.yaml:3:42
  |
3 |   - ["embed_tokens/embedding",          [tp, fsdp]]
  |                                          ^^ shards dimension 0
  |
  = dimension 0 is 32001; axis `tp` is 2; 32001 mod 2 = 1
help: pad the dimension to 32002
)");
}

TEST_CASE("labels of one file stand in the order of its lines") {
  Diagnostics diags;
  diags.report(Code::ShadowedRule, {}, "rule 5 never applies")
      .label(span_of(rules(), "\"mlp/down_proj/kernel\""), "found in 22")
      .label(span_of(rules(), "\"mlp/.*/kernel\""), "rule 4 comes first")
      .label(span_of(rules(), "Llama"), "far away")
      .label(span_of(rules(), "\"lm_head/kernel\""), "one line between")
      .help("move rule 5 above rule 4");
  CHECK("\n" + written(diags) == R"(
warning[SP103]: rule 5 never applies
 --> rules.yaml:7:6
  |
1 | # Llama
  |   ----- far away
...
6 |   - ["mlp/.*/kernel",                   [fsdp, tp]]
  |      --------------- rule 4 comes first
7 |   - ["mlp/down_proj/kernel",            [tp, fsdp]]
  |      ^^^^^^^^^^^^^^^^^^^^^^ found in 22
8 |   - ["_layernorm/kernel",               []]
9 |   - ["lm_head/kernel",                  [fsdp, model]]
  |      ---------------- one line between
  |
help: move rule 5 above rule 4
)");
}

TEST_CASE("places in other files have blocks of their own") {
  const SourceFile model("model.json", std::string(150, '\n') + "{\"w\": 1}");
  Diagnostics diags;
  diags
      .report(Code::UnmatchedParameter, span_of(model, "\"w\""),
              "parameter `w` matches no rule")
      .label(span_of(rules(), "rules:"), "none of these");
  diags.report(Code::UnusedAxis, {}, "axis `sp` shards nothing")
      .fact("the mesh has axes fsdp=4, sp=2");
  CHECK("\n" + written(diags) == R"(
error[SP101]: parameter `w` matches no rule
   --> model.json:151:2
    |
151 | {"w": 1}
    |  ^^^
    |
   --> rules.yaml:2:1
    |
  2 | rules:
    | ------ none of these

warning[SP204]: axis `sp` shards nothing
  = the mesh has axes fsdp=4, sp=2
)");
}

TEST_CASE(
    "a flag is shown without a place, and a label without one is a fact") {
  const SourceFile mesh("--mesh", "fsdp=4,tp");
  Diagnostics diags;
  diags.error(Code::InvalidMesh, {}, "axis `tp` has no size")
      .label({}, "sizes are counts of devices")
      .label({&mesh, 7, 9}, "expected `tp=N`");
  CHECK("\n" + written(diags) == R"(
error[SP007]: axis `tp` has no size
  |
  | fsdp=4,tp
  |        ^^ expected `tp=N`
  |
  = sizes are counts of devices
)");
}

TEST_CASE("a grouped finding names some of its parameters, unless it has") {
  const auto shown_for = [](std::string message,
                            std::vector<std::string> names) {
    Diagnostics diags;
    diags.report(Code::UnmatchedParameter, {}, std::move(message))
        .parameters(std::move(names));
    const auto lines = lines_of(written(diags));
    return lines.size() < 2 ? "" : lines[1];
  };
  CHECK(shown_for("2 match no rule", {"a.w", "b.w"}) ==
        "  = in `a.w` and `b.w`");
  CHECK(shown_for("4 match no rule", {"a.w", "b.w", "c.w", "d.w"}) ==
        "  = in `a.w`, `b.w`, `c.w` and `d.w`");
  CHECK(shown_for("5 match no rule", {"a.w", "b.w", "c.w", "d.w", "e.w"}) ==
        "  = in `a.w`, `b.w`, `c.w` and 2 more parameters");
  CHECK(shown_for("`a.w` and 1 more match no rule", {"a.w", "b.w"}).empty());
  CHECK(shown_for("one matches no rule", {"a.w"}).empty());
}

TEST_CASE("a manifest of one long line is shown around the place") {
  std::string text = "{";
  for (int i = 0; i < 1000; ++i) {
    text += "\"layers." + std::to_string(i) + ".w\":{\"shape\":[64]},";
  }
  const SourceFile model("model.json", text);
  Diagnostics diags;
  diags
      .report(Code::DuplicateKey, span_of(model, "\"layers.700.w\""),
              "`layers.700.w` is given twice")
      .label(span_of(model, "\"layers.3.w\""), "first here");
  CHECK("\n" + written(diags, of_width(60)) == R"(
error[SP003]: `layers.700.w` is given twice
 --> model.json:1:20892
  |
1 | ….2.w":{"shape":[64]},"layers.3.w":{"shape":[64]},"laye…
  |                       ------------ first here
...
1 | …9.w":{"shape":[64]},"layers.700.w":{"shape":[64]},"lay…
  |                      ^^^^^^^^^^^^^^
)");
}

TEST_CASE("colour is red for errors and yellow for warnings") {
  Style style;
  style.colour = true;
  Diagnostics diags;
  diags.report(Code::UnknownAxis, span_of(rules(), "model"), "unknown axis")
      .help("use `tp`");
  const auto lines = lines_of(written(diags, style));
  CHECK(lines[0] ==
        "\x1b[1;31merror[SP201]\x1b[0m\x1b[1m: unknown axis\x1b[0m");
  CHECK(lines[1] == " \x1b[2m--> \x1b[0mrules.yaml:9:48");
  CHECK(lines[4].ends_with("\x1b[1;31m^^^^^\x1b[0m"));
  CHECK(lines.back() == "\x1b[1;36mhelp\x1b[0m: use `tp`");
  Diagnostics others;
  others.report(Code::UnusedAxis, {}, "a warning");
  others.report(Code::SmallParameter, {}, "a note");
  const auto more = lines_of(written(others, style));
  CHECK(more[0].starts_with("\x1b[1;33mwarning[SP204]"));
  CHECK(more[2].starts_with("\x1b[1;36mnote[SP207]"));
}

TEST_CASE("concise has one line for each finding") {
  const SourceFile mesh("--mesh", "tp=0");
  Diagnostics diags;
  diags
      .report(Code::UnknownAxis, span_of(rules(), "model"),
              "unknown axis `model`")
      .fact("not printed")
      .help("not printed");
  diags.error(Code::InvalidMesh, {&mesh, 3, 4}, "axis `tp` has size 0");
  diags.report(Code::UnusedAxis, {}, "axis `s\np` shards nothing");
  CHECK("\n" + concise(diags) == R"(
rules.yaml:9:48: error[SP201] unknown axis `model`
--mesh:1:4: error[SP007] axis `tp` has size 0
shardplan: warning[SP204] axis `s\np` shards nothing
)");
}

TEST_CASE("many findings of one code are shortened to a line each") {
  Diagnostics diags;
  for (int i = 0; i < 6; ++i) {
    diags
        .report(Code::UnusedRule, span_of(rules(), "model"),
                "w" + std::to_string(i))
        .help("do " + std::to_string(i))
        .bytes(i == 4 ? 2048 : 0);
  }
  diags.report(Code::UnusedAxis, {}, "another");
  const auto text = [&](bool expand) {
    Style style;
    style.expand = expand;
    std::string out;
    write_diagnostics(diags, style, [&](std::string_view piece) {
      out += piece;
      return true;
    });
    return out;
  };
  const std::string brief = text(false);
  CHECK(brief.find("do 2") != std::string::npos);
  CHECK(brief.find("do 3") == std::string::npos);
  CHECK(
      brief.ends_with("\n"
                      "warning[SP102]: 3 more like these, shortened (--expand "
                      "shows them in full)\n"
                      "  = w3 (rules.yaml:9)\n"
                      "  = w4: 2.00 KiB (rules.yaml:9)\n"
                      "  = w5 (rules.yaml:9)\n\n"
                      "warning[SP204]: another\n"));
  CHECK(text(true).find("do 5") != std::string::npos);
}

TEST_CASE("nothing is written once the sink has refused") {
  Diagnostics diags;
  for (int i = 0; i < 10'000; ++i) {
    diags.report(Code::UnusedAxis, {}, "axis `sp` shards nothing");
  }
  int pieces = 0;
  const TextSink closed = [&](std::string_view) {
    ++pieces;
    return false;
  };
  CHECK_FALSE(write_diagnostics(diags, Style{}, closed));
  CHECK(pieces == 1);
  CHECK_FALSE(write_concise(diags, closed));
  CHECK(pieces == 2);
}

TEST_CASE("no file and no message can write to the terminal") {
  CHECK(holds("write_diagnostics", [] {
    const auto hostile = [] {
      return draw_text("a\n\r\t\x1b\x07\xC2\x9B\xFF`");
    };
    const SourceFile file("f" + hostile(), hostile());
    const auto size = static_cast<int>(file.text().size());
    Diagnostics diags;
    for (int i = draw_in(1, 3); i > 0; --i) {
      auto builder = diags.report(Code::UnknownKey, {}, hostile());
      builder.fact(hostile()).help(hostile()).parameters(
          {hostile(), hostile()});
      for (int label = draw_in(0, 4); label > 0; --label) {
        const int begin = draw_in(0, size + 1);
        const int end = draw_in(begin, size + 1);
        builder.label(
            {&file, static_cast<uint64_t>(begin), static_cast<uint64_t>(end)},
            hostile());
      }
    }
    const int width = draw_in(1, 50);
    for (const std::string& text :
         {written(diags, of_width(width)), concise(diags)}) {
      ENSURE(is_valid_utf8(text));
      for (const std::string& line : lines_of(text)) {
        ENSURE(printable(line) == line);
      }
    }
  }));
}

}  // namespace shardplan
