// SPDX-License-Identifier: Apache-2.0
#include "io/hardware_reader.h"

#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "io/hardware.h"
#include "tests/support/messages.h"

namespace shardplan {
namespace {

const std::string kHead =
    "name: own\n"
    "title: Own device\n"
    "vendor: Us\n"
    "sources: {us: {title: Ourselves, read: 2026-01-31}}\n";
const std::string kBase = kHead + "devices_per_chip: {value: 2, source: us}\n";

struct Read {
  std::optional<HardwareProfile> profile;
  std::string text;
};

Read read(const std::string& text) {
  Diagnostics diags;
  auto source = std::make_shared<SourceFile>("hw.yaml", text);
  diags.keep(source);
  Read result;
  result.profile = read_hardware(source, diags);
  result.text = testing::messages(diags);
  CHECK(result.profile.has_value() == diags.all().empty());
  return result;
}

// "6:12" for what stands first at `part`.
std::string place_of(const std::string& text, const std::string& part) {
  const size_t at = text.find(part);
  REQUIRE(at != std::string::npos);
  size_t line = 1;
  size_t column = 1;
  for (size_t i = 0; i < at; ++i) {
    ++column;
    if (text[i] != '\n') continue;
    ++line;
    column = 1;
  }
  return std::to_string(line) + ":" + std::to_string(column);
}

TEST_CASE("the least profile has a name, its sources and its devices") {
  const Read result = read(kBase);
  CHECK(result.text.empty());
  REQUIRE(result.profile);
  CHECK(result.profile->name == "own");
  CHECK(result.profile->title == "Own device");
  CHECK(result.profile->vendor == "Us");
  REQUIRE(result.profile->sources.size() == 1);
  CHECK(result.profile->sources[0].id == "us");
  CHECK(result.profile->sources[0].title == "Ourselves");
  CHECK(result.profile->sources[0].url.empty());
  CHECK(result.profile->sources[0].read == "2026-01-31");
  CHECK(result.profile->devices_per_chip.value == 2);
  CHECK_FALSE(result.profile->hbm_bytes);
  CHECK(result.profile->links.empty());
}

TEST_CASE("every number is read with its source and its remark") {
  const Read result = read(
      kHead +
      "links:\n"
      "  - name: ici\n"
      "    topology: torus\n"
      "    bytes_per_second: {value: 9e10, source: us}\n"
      "    latency_seconds: {value: 1e-6, source: us}\n"
      "    devices: {value: 64, source: us}\n"
      "    extents: {value: [4, 16], source: us}\n"
      "    wrap: together\n"
      "    wrap_multiple: {value: 4, source: us}\n"
      "  - {name: net, topology: switch, bytes_per_second: {value: 1, source: "
      "us}}\n"
      "devices_per_chip: {value: 1, source: us}\n"
      "devices_per_host: {value: 8, source: us}\n"
      "hbm_bytes: {value: 16GiB, source: us}\n"
      "hbm_usable_bytes:\n"
      "  {value: 16000000000, source: us, estimated: true, note: as v4}\n"
      "hbm_bytes_per_second: {value: 8.1e+11, source: us}\n"
      "flops_per_second: {i8: {value: 4e14, source: us}, bf16: {value: "
      "2.0e+14, source: us}}\n");
  CHECK(result.text.empty());
  REQUIRE(result.profile);
  const HardwareProfile& own = *result.profile;
  CHECK(own.devices_per_host->value == 8);
  CHECK(own.hbm_bytes->value == 17'179'869'184);
  CHECK_FALSE(own.hbm_bytes->estimated);
  CHECK(own.hbm_usable_bytes->value == 16'000'000'000);
  CHECK(own.hbm_usable_bytes->estimated);
  CHECK(own.hbm_usable_bytes->note == "as v4");
  CHECK(own.hbm_bytes_per_second->value == 8.1e11);
  REQUIRE(own.flops_per_second.size() == 2);
  CHECK(own.flops_per_second[0].first == Precision::BF16);
  CHECK(own.flops_per_second[0].second.value == 2e14);
  CHECK(own.flops_per_second[1].first == Precision::I8);
  REQUIRE(own.links.size() == 2);
  CHECK(own.links[0].name == "ici");
  CHECK(own.links[0].topology == Topology::Torus);
  CHECK(own.links[0].bytes_per_second.value == 9e10);
  CHECK(own.links[0].latency_seconds->value == 1e-6);
  CHECK(own.links[0].devices->value == 64);
  CHECK(own.links[0].extents->value == std::vector<int64_t>{4, 16});
  CHECK(own.links[0].wrap == Wrap::Together);
  CHECK(own.links[0].wrap_multiple->value == 4);
  CHECK(own.links[1].topology == Topology::Switch);
  CHECK_FALSE(own.links[1].wrap_multiple);
}

TEST_CASE("JSON is read as YAML is") {
  const Read result =
      read(R"({"name": "own", "title": "Own", "vendor": "Us", "sources":)"
           R"( {"us": {"title": "Ourselves", "read": "2026-01-31"}},)"
           R"( "devices_per_chip": {"value": 1, "source": "us"},)"
           R"( "hbm_bytes": {"value": "16GiB", "source": "us"}})");
  REQUIRE(result.profile);
  CHECK(result.profile->hbm_bytes->value == 17'179'869'184);
}

struct Mistake {
  const char* line;     // behind the least profile
  const char* at;       // where the mistake is
  const char* message;  // with its code
};

void check_mistakes(std::span<const Mistake> rows) {
  for (const Mistake& row : rows) {
    CAPTURE(row.line);
    const std::string text = kBase + row.line + "\n";
    const std::string message = row.message;
    CHECK(read(text).text == message.substr(0, 6) +
                                 "hw.yaml:" + place_of(text, row.at) + " " +
                                 message.substr(6));
  }
}

TEST_CASE("numbers without a value or a source are refused") {
  const Mistake rows[] = {
      {"hbm_bytes: 80GiB", "80GiB", "SP002 `hbm_bytes` has no source"},
      {"hbm_bytes: {value: 80GiB}", "{value: 80",
       "SP002 `hbm_bytes` has no "
       "source"},
      {"hbm_bytes: {source: us}", "{source", "SP002 there is no `value`"},
      {"hbm_bytes: {value: 1, source: su}", "su}",
       "SP002 `sources` has no `su`"},
      {"hbm_bytes: {value: 1, source: us, estimated: true}", "{value: 1, s",
       "SP002 `hbm_bytes` is estimated without a `note` that says how"},
      {"hbm_bytes: {value: 1, source: us, estimated: 17}", "17}",
       "SP002 `estimated` must be true or false, not an integer"},
      {"hbm_bytes: {value: 1, source: us, note: ''}", "''",
       "SP002 `note` is empty"},
  };
  check_mistakes(rows);
}

TEST_CASE("numbers of the wrong form or size are refused") {
  const Mistake rows[] = {
      {"hbm_bytes: {value: 80gb, source: us}", "80gb",
       "SP002 `hbm_bytes` must be a positive size"},
      {"hbm_bytes: {value: [80], source: us}", "[80]",
       "SP002 `hbm_bytes` must be a positive size"},
      {"devices_per_host: {value: 0, source: us}", "0, source",
       "SP002 `devices_per_host` must be from 1 to 1,099,511,627,776"},
      {"devices_per_host: {value: 1.5, source: us}", "1.5",
       "SP002 `devices_per_host` must be an integer, not a number"},
      {"hbm_bytes_per_second: {value: 1TB, source: us}", "1TB",
       "SP002 `hbm_bytes_per_second` must be a number, not text"},
      {"flops_per_second: {bf16: {value: 0, source: us}}", "0, source",
       "SP002 `bf16` must be above 0 and finite"},
      {"hbm_usable_bytes: {value: 1, source: us}", "{value: 1",
       "SP002 `hbm_usable_bytes` needs `hbm_bytes`"},
      {"hbm_bytes: {value: 80GB, source: us}\n"
       "hbm_usable_bytes: {value: 79.1GiB, source: us}",
       "{value: 79.1", "SP002 more is usable than there is"},
  };
  check_mistakes(rows);
}

TEST_CASE("unknown keys and words are refused") {
  const Mistake rows[] = {
      {"hbm_byte: {value: 1, source: us}", "hbm_byte",
       "SP004 key `hbm_byte` means nothing here"},
      {"hbm_bytes: {value: 1, sorce: us}", "sorce",
       "SP004 key `sorce` means nothing here"},
      {"flops_per_second: {bf17: {value: 1, source: us}}", "bf17",
       "SP004 key `bf17` means nothing here"},
      {"links: [{name: a, speed: 1}]", "speed",
       "SP004 key `speed` means nothing here"},
      {"hbm_bytes: {value: 1, source: us}\nhbm_bytes: 2", "hbm_bytes: 2",
       "SP003 key `hbm_bytes` is given twice"},
  };
  check_mistakes(rows);
}

TEST_CASE("links need a name, a topology and a bandwidth") {
  const Mistake rows[] = {
      {"links: {}", "{}", "SP002 `links` must be a list, not a map"},
      {"links: [1]", "1]", "SP002 `a link` must be a map, not an integer"},
      {"links: [{name: a, topology: ring}]", "{name: a",
       "SP002 there is no `bytes_per_second`"},
      {"links: [{name: a b, topology: ring, bytes_per_second: {value: 1, "
       "source: us}}]",
       "a b", "SP002 `a b` is no name"},
      {"links: [{name: a, topology: star, bytes_per_second: {value: 1, "
       "source: us}}]",
       "star",
       "SP002 `topology` must be one of `ring`, `torus`, `full-mesh`, "
       "`switch`, not `star`"},
      {"links: [{name: a, topology: ring, bytes_per_second: {value: 1, "
       "source: us}, extents: {value: [4], source: us}}]",
       "{value: [4]", "SP002 `extents` is for a torus"},
      {"links: [{name: a, topology: torus, bytes_per_second: {value: 1, "
       "source: us}, extents: {value: [], source: us}}]",
       "[], ", "SP002 `extents` is empty"},
      {"links: [{name: a, topology: torus, bytes_per_second: {value: 1, "
       "source: us}, wrap: each}]",
       "{name: a", "SP002 `wrap` and `wrap_multiple` go together"},
  };
  check_mistakes(rows);
}

TEST_CASE("what a profile must have is asked for") {
  const struct {
    const char* text;
    const char* message;
  } rows[] = {
      {"[]",
       "SP002 hw.yaml:1:1 `a hardware profile` must be a map, not a "
       "list"},
      {"name: own\ntitle: Own\nsources: {}\ndevices_per_chip: 1\n",
       "SP002 hw.yaml:1:1 there is no `vendor`"},
      {"name: own\ntitle: Own\nvendor: Us\n",
       "SP002 hw.yaml:1:1 there is no `sources`"},
      {"name: own\ntitle: Own\nvendor: Us\nsources: {}\n",
       "SP002 hw.yaml:1:1 there is no `devices_per_chip`"},
      {"name: own\ntitle: Own\nvendor: Us\nsources: {us: {read: "
       "2026-01-31}}\n",
       "SP002 hw.yaml:4:15 there is no `title`"},
      {"name: own\ntitle: Own\nvendor: Us\nsources: {us: {title: T}}\n",
       "SP002 hw.yaml:4:15 there is no `read`"},
      {"name: own\ntitle: Own\nvendor: Us\nsources: {us: {title: T, read: "
       "2026-13-01}}\n",
       "SP002 hw.yaml:4:32 `read` is no date"},
      {"name: own/x\ntitle: ''\nvendor: 7\nsources: {}\n",
       "SP002 hw.yaml:1:7 `own/x` is no name\n"
       "SP002 hw.yaml:2:8 `title` is empty\n"
       "SP002 hw.yaml:3:9 `vendor` must be text, not an integer"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.text);
    CHECK(read(row.text).text == row.message);
  }
}

}  // namespace
}  // namespace shardplan
