// SPDX-License-Identifier: Apache-2.0
// Names that are commands to the runners of CI jobs, in every format: what is
// printed is read as these runners read it.
//
//   GitHub      a line that begins with `::name` behind what .NET's TrimStart
//               takes (ActionCommand.TryParseV2), and `##[name` anywhere in one
//               (TryParse); lines end where .NET's ReadLine ends them, and
//               texts are compared as cultures do, without what is ignorable
//   Azure       `##vso[` and `##[` anywhere in a line; TeamCity `##teamcity[`
//   GitLab      `section_start:TIME:NAME\r\e[0K`, which needs both controls
#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/commands.h"
#include "io/export.h"
#include "report/markdown.h"
#include "report/report.h"
#include "tests/support/memory_host.h"
#include "tests/support/property.h"
#include "tests/support/words.h"

namespace shardplan::cli {
namespace {

using testing::command_line;
using testing::draw_in;
using testing::draw_of;
using testing::holds;
using testing::MemoryHost;
using testing::Words;
using OrderedJson = nlohmann::ordered_json;

const std::vector<std::string>& names() {
  static const std::vector<std::string> kNames = {
      "##[set-output name=verdict;]pass",
      "a\n::add-mask::x",
      "a\r::add-mask::x",
      "a\r\n::add-mask::x",
      "\u00a0::stop-commands::t",
      "\u3000\t ::error::t",
      "::warning::t",
      "\u200b::error::t",
      ":\u200b:error::t",
      "###[x]",
      "####[x]",
      "a ##vso[task.setvariable variable=x]y",
      "##teamcity[x]",
      "#\u00ad#[error]x",
      "#\ufe0f#[error]x",
      "##\u034f[error]x",
      "section_start:1560896352:a\r\x1b[0Kb",
      "\u202efdp\u2066\u2069\u200f\u061c",
      "\U000e0041\U000e007f",
      "\u2028::error::x",
      "\xC2\x85::error::x",
      "\ufe0f::error::x",
      ":\ufe0f:error::x",
      "\"::error::x",
      "a\",\n\"::error::x",
      "\\u0023#[x]",
      "plain",
  };
  return kNames;
}

// .NET's String.TrimStart, and what comparisons of cultures do not see.
bool is_trimmed(char32_t c) {
  return c == ' ' || (c >= 0x09 && c <= 0x0D) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

std::string seen(std::string_view line) {
  std::string text;
  for (size_t at = 0; at < line.size();) {
    const size_t begin = at;
    const char32_t c = decode_utf8(line, at);
    const bool ignored = c < 0x20 ? c != '\t' : code_point_width(c) == 0;
    if (!ignored || is_trimmed(c)) text += line.substr(begin, at - begin);
  }
  return text;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines(1);
  for (const char c : text) {
    if (c == '\n' || c == '\r') {
      lines.emplace_back();
    } else {
      lines.back() += c;
    }
  }
  return lines;
}

// "" where no runner obeys the line, else which does.
std::string obeyed(std::string_view raw, bool annotations) {
  const std::string line = seen(raw);
  for (const char* sign : {"##[", "##vso[", "##teamcity["}) {
    if (line.find(sign) != std::string::npos) return sign;
  }
  size_t at = 0;
  while (at < line.size()) {
    size_t next = at;
    if (!is_trimmed(decode_utf8(line, next))) break;
    at = next;
  }
  const std::string_view words = std::string_view(line).substr(at);
  if (!words.starts_with("::")) return "";
  // Our own, of which a line has one.
  for (const char* ours : {"::error ", "::warning ", "::notice "}) {
    if (annotations && line.starts_with(ours)) return "";
  }
  return "::";
}

void check_obeyed_by_none(const std::string& text, const std::string& format) {
  for (const std::string& line : lines_of(text)) {
    CAPTURE(line);
    CHECK(obeyed(line, format == "github") == "");
    for (size_t at = 0; at < line.size();) {
      const char32_t c = decode_utf8(line, at);
      CHECK((is_printable(c) || (c == '\t' && format == "csv")));
    }
  }
}

MemoryHost host_with_names() {
  OrderedJson model = OrderedJson::object();
  std::string rules = "rules:\n";
  for (const std::string& name : names()) {
    model[name] = {{"shape", {8, 6}}, {"dtype", "f32"}};
  }
  MemoryHost host;
  host.files["m.json"] = model.dump();
  for (const std::string& name : names()) {
    const OrderedJson entry = {escape_pattern(name), {"tp"}};
    rules += "  - " + entry.dump() + "\n";
  }
  host.files["r.yaml"] = rules + "  - [\".\", [tp]]\n";
  host.files["shardplan.yaml"] =
      "targets:\n  \"\\n::error::y##[x]\": {model: m.json, rules: r.yaml, "
      "mesh: [tp=5, tp=2]}\n";
  return host;
}

const std::vector<Words>& runner_command_lines() {
  static const std::vector<Words> kAll = {
      {"inspect", "m.json"},
      {"check", "m.json", "-r", "r.yaml", "-m", "tp=5"},
      {"check"},
      {"resolve", "m.json", "-r", "r.yaml", "-m", "tp=5", "--expand"},
      {"resolve", "m.json", "-r", "r.yaml", "-m", "tp=5", "--why",
       "::warning::t"},
      {"analyze", "m.json", "-r", "r.yaml", "-m", "tp=5", "--expand"},
      {"check", "m.json", "-r", "r.yaml", "-m", "##[x]=2"},
      {"check", "##[error]x", "-r", "::error::r", "-m", "tp=2"},
      {"::error::x"},
  };
  return kAll;
}

TEST_CASE("runners: no name is a command, in any format") {
  for (const Renderer& renderer : renderers()) {
    const std::string format(renderer.name);
    CAPTURE(format);
    for (Words words : runner_command_lines()) {
      if (words.size() > 1 || words[0] == "check") {
        words.insert(words.begin() + 1, {"--format", format, "--isolated"});
        if (words.size() == 4) words.erase(words.begin() + 3);
      }
      CAPTURE(printable(command_line(words)));
      MemoryHost host = host_with_names();
      CHECK(run(words, host) <= 2);
      check_obeyed_by_none(host.out, format);
      check_obeyed_by_none(host.err, "text");
    }
  }
}

TEST_CASE("runners: JSON has the same names") {
  MemoryHost host = host_with_names();
  run(Words{"resolve", "m.json", "-r", "r.yaml", "-m", "tp=2", "--json"}, host);
  const OrderedJson report = OrderedJson::parse(host.out);
  std::vector<std::string> read;
  for (const OrderedJson& row : report.at("tables").at("placements")) {
    read.push_back(row.at("parameter"));
  }
  CHECK(read == names());
}

TEST_CASE("runners: what is written for programs reads back the same") {
  MemoryHost host = host_with_names();
  REQUIRE(run(Words{"resolve", "m.json", "-r", "r.yaml", "-m", "tp=2", "-o",
                    "x.plan.json"},
              host) <= 1);
  check_obeyed_by_none(host.files.at("x.plan.json"), "json");
  MemoryHost again = host_with_names();
  again.files["x.plan.json"] = host.files.at("x.plan.json");
  CHECK(run(Words{"check", "m.json", "--plan", "x.plan.json", "--json"},
            again) <= 1);
  CHECK(OrderedJson::parse(again.out).at("tables").at("placements").size() ==
        names().size());
}

TEST_CASE("runners: what is exported holds no command") {
  int written = 0;
  for (const ExportTarget& target : export_targets()) {
    CAPTURE(std::string(target.name));
    MemoryHost host = host_with_names();
    const int exit = run(Words{"export", "m.json", "-r", "r.yaml", "-m", "tp=2",
                               "--to", std::string(target.name)},
                         host);
    CHECK(exit <= 2);
    if (exit < 2) ++written;
    check_obeyed_by_none(host.out, "text");
    check_obeyed_by_none(host.err, "text");
  }
  CHECK(written > 3);
}

TEST_CASE("runners: strings of JSON hold no command, and read back the same") {
  CHECK(holds("append_printable_json", [] {
    std::string text;
    const int parts = draw_in(0, 12);
    for (int i = 0; i < parts; ++i) {
      text += draw_of<std::string>({"#", "##", "[", "::", "\n", "\\", "\"", "x",
                                    "vso", "\u00ad", "\ufe0f", "\u202e",
                                    "\U000e0041", "\u00a0", "]"});
    }
    std::string out;
    append_printable_json(out, text);
    ENSURE(OrderedJson::parse(out).get<std::string>() == text);
    ENSURE(obeyed(out, false).empty());
    for (size_t at = 0; at < out.size();) {
      ENSURE(is_printable(decode_utf8(out, at)));
    }
    const std::string shown = printable(text);
    ENSURE(seen(shown).find("##") == std::string::npos);
    ENSURE(printable(shown) == shown);
  }));
}

TEST_CASE("runners: words that sites make links of are code in Markdown") {
  for (const char* word :
       {"www.example.com", "https://example.com", "GH-1", "#1", "a/b#12",
        "@user", "me@example.com", ":smile:", "a:100:b", "deadbee",
        "1a2b3c4d5e6f", "$x$", "mailto:x", "!12", "gh-7"}) {
    CAPTURE(std::string(word));
    const std::string code = "`" + std::string(word) + "`";
    CHECK(markdown_plain(word) == code);
    CHECK(markdown_plain("a " + std::string(word) + " b") ==
          "a " + code + " b");
    CHECK(markdown_prose("`x`" + std::string(word)) == "`x`<!-- -->" + code);
    const std::string html = html_code(word);
    for (const char* raw : {"@", "#1", "://", "www."}) {
      const bool entity = html.find("&#") != std::string::npos;
      CHECK((!entity || html.find(raw) == std::string::npos ||
             std::string_view(raw) == "#1"));
    }
  }
  for (const char* plain : {"model.layers.0", "high-bandwidth", "1234567",
                            "tp=8,fsdp=4", "a:b", "57.0 %"}) {
    CAPTURE(std::string(plain));
    CHECK(markdown_plain(plain).find('`') == std::string::npos);
  }
}

}  // namespace
}  // namespace shardplan::cli
