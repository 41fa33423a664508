// SPDX-License-Identifier: Apache-2.0
#include "cli/views/hardware_tables.h"

#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "tests/support/memory_host.h"

namespace shardplan::cli {
namespace {

using nlohmann::json;
using shardplan::testing::MemoryHost;

json tables_of(std::vector<std::string> words, MemoryHost& host) {
  words.insert(words.begin(), {"list", "hardware"});
  words.emplace_back("--json");
  CHECK(run(words, host) == 0);
  CHECK(host.err.empty());
  return json::parse(host.out).at("tables");
}

TEST_CASE("rates have a prefix and four digits") {
  const struct {
    double value;
    const char* text;
  } rows[] = {
      {4.5e11, "450 GB/s"}, {1.3074e15, "1.307 PB/s"}, {989e12, "989 TB/s"},
      {1e15, "1 PB/s"},     {1e-6, "1 uB/s"},          {0.5, "500 mB/s"},
      {1, "1 B/s"},         {999.96, "1 kB/s"},        {999.94, "999.9 B/s"},
      {1e19, "1e+04 PB/s"}, {1e-12, "0.001 nB/s"}};
  for (const auto& row : rows) {
    CAPTURE(row.text);
    CHECK(si_text(row.value, "B/s") == row.text);
  }
}

TEST_CASE("programs get every number with its unit, source and date") {
  MemoryHost host;
  host.files["own.yaml"] =
      "name: own\ntitle: Own\nvendor: Us\n"
      "sources:\n"
      "  us: {title: Ourselves, url: \"https://us\", read: 2026-01-31}\n"
      "devices_per_chip: {value: 1, source: us}\n"
      "hbm_bytes: {value: 16GiB, source: us}\n"
      "flops_per_second: {bf16: {value: 2.5e+12, source: us, estimated: true, "
      "note: a guess}}\n"
      "links:\n"
      "  - name: net\n"
      "    topology: torus\n"
      "    bytes_per_second: {value: 10, source: us}\n"
      "    latency_seconds: {value: 0.5, source: us}\n"
      "    devices: {value: 8, source: us}\n"
      "    extents: {value: [2, 4], source: us}\n"
      "    wrap: each\n"
      "    wrap_multiple: {value: 4, source: us}\n";
  const json rows = tables_of({"own.yaml"}, host).at("hardware_numbers");
  const auto row = [](const char* quantity, const json& value,
                      const json& unit) {
    return json{{"profile", "own"},      {"quantity", quantity},
                {"value", value},        {"unit", unit},
                {"estimated", false},    {"note", nullptr},
                {"source", "Ourselves"}, {"url", "https://us"},
                {"read", "2026-01-31"}};
  };
  const auto word = [&](const char* quantity, const char* value) {
    json row_of_word = row(quantity, value, nullptr);
    for (const char* key : {"source", "url", "read"}) {
      row_of_word[key] = nullptr;
    }
    return row_of_word;
  };
  json flops = row("flops_per_second.bf16", 2.5e12, "FLOP/s");
  flops["estimated"] = true;
  flops["note"] = "a guess";
  const json expected = {row("devices_per_chip", 1, nullptr),
                         row("hbm_bytes", 17'179'869'184, "B"),
                         flops,
                         word("links.net.topology", "torus"),
                         row("links.net.bytes_per_second", 10, "B/s"),
                         row("links.net.latency_seconds", 0.5, "s"),
                         row("links.net.devices", 8, nullptr),
                         row("links.net.extents", {2, 4}, nullptr),
                         word("links.net.wrap", "each"),
                         row("links.net.wrap_multiple", 4, nullptr)};
  CHECK(rows == expected);
}

TEST_CASE("the overview leaves out what a profile does not state") {
  MemoryHost host;
  const json tables = tables_of({}, host);
  CHECK_FALSE(tables.contains("hardware_overview"));
  bool cpu = false;
  bool h100 = false;
  for (const json& row : tables.at("hardware")) {
    if (row.at("name") == "cpu") {
      cpu = true;
      CHECK(row.at("hbm_bytes").is_null());
      CHECK(row.at("bf16_flops_per_second").is_null());
      CHECK(row.at("fastest_link").is_null());
      CHECK(row.at("fastest_link_bytes_per_second").is_null());
    }
    if (row.at("name") == "h100-sxm") {
      h100 = true;
      CHECK(row.at("vendor") == "NVIDIA");
      CHECK(row.at("hbm_bytes") == 85'899'345'920);
      CHECK(row.at("bf16_flops_per_second") == 9.89e14);
      CHECK(row.at("fastest_link") == "nvlink");
      CHECK(row.at("fastest_link_bytes_per_second") == 4.5e11);
    }
  }
  CHECK(cpu);
  CHECK(h100);
}

TEST_CASE("people see prefixes, or raw numbers with --exact") {
  const auto shows = [](const std::vector<std::string>& words,
                        const char* text) {
    MemoryHost host;
    CHECK(run(words, host) == 0);
    return host.out.find(text) != std::string::npos;
  };
  CHECK(shows({"list", "hardware", "tpu-v5e"}, " 180 GB/s "));
  CHECK(shows({"list", "hardware", "tpu-v5e"}, " 16 x 16 "));
  CHECK(shows({"list", "hardware", "tpu-v5e", "--exact"}, " 1.8e+11 "));
  CHECK(shows({"list", "hardware", "tpu-v5e", "--exact"}, " 17179869184 "));
}

TEST_CASE("what has no names is listed whole, and shipped rules are printed") {
  MemoryHost printed;
  CHECK(run({"list", "rules", "@llama"}, printed) == 0);
  CHECK(printed.out.find("\nrules:\n") != std::string::npos);
  MemoryHost host;
  CHECK(run({"list", "codes", "SP203"}, host) == 2);
  CHECK(host.err ==
        "error[SP010]: unexpected argument `SP203`\nhelp: `shardplan list` "
        "takes a name for `hardware` and `topologies`, and in text format for "
        "`rules`, `graphs`, `architectures` and `schemes`\n");
  MemoryHost other;
  CHECK(run({"list", "hardware", "h1"}, other) == 2);
  CHECK(other.out.empty());
  CHECK(other.err ==
        "error[SP001]: no hardware profile named `h1`\n"
        "help: names with this prefix: `h100-nvl`, `h100-sxm`\n"
        "help: `shardplan list hardware` shows all\n");
}

}  // namespace

}  // namespace shardplan::cli
