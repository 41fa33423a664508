// SPDX-License-Identifier: Apache-2.0
// HTML reports by their structure; tests/report/page_test.py opens them in a
// browser.
#include <array>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <zlib.h>

#include "cli/commands.h"
#include "report/html/headline.h"
#include "report/html/packed.h"
#include "report/html/page_files.h"
#include "report/report.h"
#include "tests/support/memory_host.h"
#include "tests/support/tiny_llama.h"

namespace shardplan {
namespace {

using nlohmann::json;
using testing::MemoryHost;

std::string unpacked(const std::string& text, size_t most) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6U | static_cast<uint32_t>(kLetters.find(c));
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> static_cast<unsigned>(count) & 255U);
  }
  std::string out(most, '\0');
  uLongf size = most;
  REQUIRE(uncompress(reinterpret_cast<Bytef*>(out.data()), &size,
                     reinterpret_cast<const Bytef*>(bytes.data()),
                     bytes.size()) == Z_OK);
  out.resize(size);
  return out;
}

TEST_CASE("html: what is packed can be opened") {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "layers." + std::to_string(i) + "\n";
  for (const std::string& each : {std::string(), std::string("a"), text}) {
    CHECK(unpacked(packed(each), 100'000) == each);
  }
  CHECK(packed(text).size() < text.size() / 2);
  CHECK(script_hash("") ==
        "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
}

std::string between(const std::string& text, const std::string& before,
                    const std::string& after) {
  const size_t begin = text.find(before);
  REQUIRE(begin != std::string::npos);
  const size_t at = begin + before.size();
  const size_t end = text.find(after, at);
  REQUIRE(end != std::string::npos);
  return text.substr(at, end - at);
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

std::string page_of(const std::vector<std::string>& words,
                    const std::string& rules = "rules: [['.*', [fsdp]]]\n") {
  MemoryHost host;
  host.files["config.json"] = testing::tiny_llama().dump();
  host.files["r.yaml"] = rules;
  std::vector<std::string> all = words;
  all.insert(all.end(), {"config.json", "-r", "r.yaml", "--format", "html"});
  cli::run(all, host);
  return host.out;
}

TEST_CASE("html: one page, with one script that its policy names") {
  const std::string page = page_of({"analyze", "-m", "fsdp=2"});
  CHECK(page.starts_with("<!doctype html>\n<html lang=\"en\">"));
  CHECK(page.ends_with("</html>\n"));
  const std::string script = between(page, "<script>", "</script>");
  CHECK(page.find("script-src '" + script_hash(script) + "'") !=
        std::string::npos);
  CHECK(count_of(page, "<h1>") == 1);
  CHECK(count_of(page, "<main") == 1);
  CHECK(count_of(page, "<script") == 2);
  for (const char* outside : {"src=\"", "href=\"http", "url(", "@import"}) {
    CHECK(page.find(outside) == std::string::npos);
  }
  for (const char* figure : {"memory", "parameters", "mesh"}) {
    CHECK(page.find("id=\"figure-" + std::string(figure) + "\"") !=
          std::string::npos);
  }
}

TEST_CASE("html: the data of the page are the rows of the JSON report") {
  const std::string rules =
      "rules: [['down', [tq]], ['q_proj', [[fsdp], tp]], ['.*', [fsdp]]]\n";
  const std::string page = page_of({"check", "-m", "fsdp=2,tp=3"}, rules);
  const json data = json::parse(
      unpacked(between(page, "id=\"data\">", "</script>"), 1'000'000));
  MemoryHost host;
  host.files["config.json"] = testing::tiny_llama().dump();
  host.files["r.yaml"] = rules;
  cli::run(
      {"check", "config.json", "-r", "r.yaml", "-m", "fsdp=2,tp=3", "--json"},
      host);
  const json tables = json::parse(host.out).at("tables");
  const json& rows = tables.at("placements");
  std::string names;
  REQUIRE(data.at("rest").size() == rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    names += rows[i].at("parameter").get<std::string>() + "\n";
    const json& rest = data.at("rests").at(data.at("rest")[i].get<size_t>());
    CHECK(rest.at("spec") == rows[i].at("spec"));
    CHECK(rest.at("shape") == rows[i].at("shape"));
    CHECK(rest.at("numbers").at(7) == rows[i].at("bytes_per_device"));
  }
  CHECK(data.at("names") == names);
  CHECK(data.at("rules").size() == 3);
  CHECK(data.at("rules")[0].at("place") == "r.yaml:1");
  CHECK(data.at("mesh") == json::parse(R"([["fsdp", 2], ["tp", 3]])"));
  size_t corrected = 0;
  for (const json& row : rows) {
    for (const json& correction : tables.at("corrections")) {
      if (correction.at("parameter") != row.at("parameter")) continue;
      ++corrected;
      break;
    }
  }
  size_t explained = 0;
  for (const json& rest : data.at("rest")) {
    explained +=
        data.at("corrections").contains(std::to_string(rest.get<int>()));
  }
  CHECK(corrected > 0);
  CHECK(explained == corrected);
  CHECK(data.at("findings").size() > 1);
}

TEST_CASE("html: the headline is what the summary says") {
  Report report;
  const auto first = [&] { return answers_of(report).at(0).text; };
  report.summary = {{"fits", YesNo{true}},
                    {"memory_needed", ByteSize{int64_t{1} << 30}},
                    {"memory_limit", ByteSize{int64_t{2} << 30}}};
  CHECK(first() == "Fits: a device needs 1.00 GiB and has 2.00 GiB.");
  report.summary.emplace_back(
      "memory_bracket", ByteBracket{int64_t{1} << 30, 2, int64_t{4} << 30});
  report.summary[0].second = YesNo{false};
  CHECK(first() ==
        "Does not fit: a device needs 1.00 GiB to 4.00 GiB and has 2.00 GiB.");
  CHECK(answers_of(report)[0].tone == Tone::Bad);
  report.summary[0].second = Cell();
  CHECK(first().starts_with("May not fit"));
  report.summary = {{"verdict", "mismatch"}};
  CHECK(answers_of(report).at(0).tone == Tone::Bad);
  report.summary = {{"targets", Count{3}}, {"failed", Count{1}}};
  CHECK(first() == "1 of 3 targets fails.");
  report.summary = {{"fitting", Count{0}}, {"points", Count{7}}};
  CHECK(first() == "0 of 7 configurations fit.");
  report.summary = {{"changes", Count{2}}, {"lost_axes", Count{1}}};
  CHECK(first() == "2 changes, 1 of which loses axes.");
  report.summary = {{"changed", Count{1}},
                    {"memory_per_device_before", ByteSize{1024}},
                    {"memory_per_device_after", ByteSize{2048}}};
  CHECK(first() ==
        "1 parameter differs: a device holds 1.00 KiB before and 2.00 KiB "
        "after.");
  const Diagnostics none;
  report.diagnostics = &none;
  CHECK(answers_of(report).size() == 1);
  report.summary = {{"errors", Count{0}}};
  CHECK(first() == "No problems found.");
  report.diagnostics = nullptr;
  report.summary = {{"step_time", DurationBracket{1, 2, 3}},
                    {"mfu", Ratio{0.4}}};
  CHECK(first() == "A step takes 2.00 s (1.00 s to 3.00 s).");
  const std::vector<KeyNumber> numbers = key_numbers_of(report, {});
  REQUIRE(numbers.size() == 2);
  CHECK(numbers[0].range == "1.00 s to 3.00 s");
  CHECK(numbers[1].value == "40.0 %");
}

TEST_CASE("html: an engine ignores the rules, and so does its page") {
  const std::string page =
      page_of({"analyze", "-m", "tp=2", "--engine", "vllm", "--mode", "decode",
               "--memory", "8GiB", "--seq", "512"});
  CHECK(page.find("id=\"figure-memory\"") != std::string::npos);
  CHECK(page.find("id=\"explorer\"") == std::string::npos);
  CHECK(page.find("id=\"figure-parameters\"") == std::string::npos);
}

// Returns the colours between braces, without blanks.
std::string colours_after(const std::string& css, const std::string& selector) {
  const std::string block = between(css, selector + " {", "}");
  std::string colours = block.substr(block.find("--paper"));
  std::erase_if(colours, [](char c) { return c == ' ' || c == '\n'; });
  return colours;
}

TEST_CASE("html: dark is the same by the system and by the button") {
  for (const PageFile& file : page_files()) {
    if (file.path != "page.css") continue;
    const std::string css(file.text);
    const std::string dark = colours_after(css, ":root[data-theme=\"dark\"]");
    CHECK(dark.size() > 300);
    CHECK(colours_after(css, ":root:not([data-theme=\"light\"])") == dark);
  }
}

TEST_CASE("html: the files of the page are built in") {
  REQUIRE(page_files().size() == 2);
  for (const PageFile& file : page_files()) CHECK(file.text.size() > 1000);
}

}  // namespace
}  // namespace shardplan
