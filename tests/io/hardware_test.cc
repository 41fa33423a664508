// SPDX-License-Identifier: Apache-2.0
#include "io/hardware.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/shipped.h"
#include "base/words.h"
#include "io/topologies.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"

namespace shardplan {
namespace {

using testing::MemoryHost;

HardwareProfile shipped(const std::string& name) {
  MemoryHost host;
  Diagnostics diags;
  const auto profile = load_hardware(name, host, diags, Tables::Read);
  CHECK(testing::messages(diags).empty());
  REQUIRE(profile);
  return *profile;
}

// Sources that some number of the profile names.
std::set<size_t> sources_in_use(const HardwareProfile& profile) {
  std::set<size_t> used;
  const auto add = [&](const auto& number) {
    if (number) used.insert(number->source);
  };
  used.insert(profile.devices_per_chip.source);
  add(profile.devices_per_host);
  add(profile.hbm_bytes);
  add(profile.hbm_usable_bytes);
  add(profile.hbm_bytes_per_second);
  add(profile.cache_bytes);
  for (const auto& rate : profile.flops_per_second) {
    used.insert(rate.second.source);
  }
  for (const LinkTier& link : profile.links) {
    used.insert(link.bytes_per_second.source);
    add(link.latency_seconds);
    add(link.devices);
    add(link.extents);
    add(link.wrap_multiple);
  }
  const MeasuredTables& measured = profile.measured;
  for (const auto& table : measured.products) used.insert(table.rate.source);
  for (const auto& table : measured.attention) used.insert(table.rate.source);
  for (const auto& table : measured.collectives) {
    used.insert(table.seconds.source);
  }
  if (measured.memory) used.insert(measured.memory->source);
  add(measured.sustained);
  add(measured.kernel_seconds);
  add(measured.eager_launch_seconds);
  add(measured.host_bytes_per_second);
  add(measured.network_bytes_per_second);
  return used;
}

TEST_CASE("the profiles that were promised are shipped, under their names") {
  const std::vector<std::string> names = shipped_names(kHardwareFolder);
  for (const char* name : {"tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu-v7x",
                           "a100-40", "a100-80", "h100-sxm", "h200", "b200",
                           "gb200", "mi300x", "mi325x", "l40s", "cpu"}) {
    CAPTURE(name);
    CHECK(std::count(names.begin(), names.end(), name) == 1);
  }
  for (const std::string& name : names) {
    CAPTURE(name);
    CHECK(shipped(name).name == name);
  }
}

// The reader refuses numbers without a source and sources without a date, so
// this looks at what it cannot see: documents that nothing refers to, and
// numbers whose source has no address.
TEST_CASE("every source of a shipped profile is used, and has an address") {
  for (const std::string& name : shipped_names(kHardwareFolder)) {
    CAPTURE(name);
    const HardwareProfile profile = shipped(name);
    CHECK(sources_in_use(profile).size() == profile.sources.size());
    for (const Citation& source : profile.sources) {
      CAPTURE(source.id);
      CHECK(source.title.size() > 8);
      CHECK((source.url.starts_with("https://") || name == "cpu" ||
             source.id == "own-run"));
      CHECK(source.read.starts_with("20"));
    }
  }
}

TEST_CASE("shipped accelerators have memory, bandwidth, bf16 and a link") {
  for (const std::string& name : shipped_names(kHardwareFolder)) {
    if (name == "cpu") continue;
    CAPTURE(name);
    const HardwareProfile profile = shipped(name);
    REQUIRE(profile.hbm_bytes);
    REQUIRE(profile.hbm_usable_bytes);
    CHECK_FALSE(profile.hbm_usable_bytes->estimated);
    // Observations lose some percent.
    const double usable = static_cast<double>(profile.hbm_usable_bytes->value);
    const double nominal = static_cast<double>(profile.hbm_bytes->value);
    // Error correction takes a sixteenth of GDDR6, and CUDA some more. HIP
    // leaves a quarter of an MI300A's memory to its CPU cores.
    CHECK(usable / nominal > (name == "mi300a" ? 0.74 : 0.91));
    CHECK(usable / nominal <= 1.0);
    CHECK(profile.hbm_bytes_per_second);
    CHECK_FALSE(profile.links.empty());
    bool bf16 = false;
    for (const auto& rate : profile.flops_per_second) {
      bf16 = bf16 || rate.first == Precision::BF16;
    }
    CHECK(bf16);
  }
}

TEST_CASE("dense rates double as the width halves, where they are stated") {
  for (const std::string& name : shipped_names(kHardwareFolder)) {
    CAPTURE(name);
    double bf16 = 0;
    double i8 = 0;
    for (const auto& rate : shipped(name).flops_per_second) {
      if (rate.first == Precision::BF16) bf16 = rate.second.value;
      if (rate.first == Precision::I8) i8 = rate.second.value;
    }
    // A B300 has next to no units for i8.
    if (i8 == 0 || name == "gb300" || name == "b300") continue;
    // A sparse rate among dense ones would show as 4 or as 1/2. Some are as
    // fast in both, and GeForce cards are slow where they sum in float32.
    const bool is_same = name == "tpu-v4" || name == "mi250x";
    const bool is_geforce =
        name == "rtx-3090" || name == "rtx-4090" || name == "rtx-5090";
    const double expected = is_same ? 1 : is_geforce ? 4 : 2;
    CHECK(i8 / bf16 == doctest::Approx(expected).epsilon(0.05));
  }
}

TEST_CASE("known devices have the numbers that vendors and logs show") {
  const HardwareProfile h100 = shipped("h100-sxm");
  CHECK(h100.hbm_bytes->value == 85'899'345'920);         // 80 GiB
  CHECK(h100.hbm_usable_bytes->value == 84'932'978'278);  // 79.10 GiB
  const HardwareProfile v7x = shipped("tpu-v7x");
  CHECK(v7x.devices_per_chip.value == 2);
  CHECK(v7x.hbm_bytes->value == 103'079'215'104);  // half of 192 GiB
  const HardwareProfile v5e = shipped("tpu-v5e");
  REQUIRE(v5e.links.size() == 2);
  CHECK(v5e.links[0].topology == Topology::Torus);
  CHECK(v5e.links[0].extents->value == std::vector<int64_t>{16, 16});
  CHECK(v5e.links[0].wrap == Wrap::Each);
  CHECK(v5e.links[0].wrap_multiple->value == 16);
  CHECK_FALSE(shipped("cpu").hbm_bytes);
}

TEST_CASE("names that people write are the profile meant") {
  for (const auto& row : std::vector<std::pair<std::string, std::string>>{
           {"H100", "h100-sxm"},
           {"h200-sxm", "h200"},
           {"RTX4090", "rtx-4090"},
           {"h100-80gb", "h100-sxm"}}) {
    const auto& [name, meant] = row;
    CAPTURE(row.first);
    MemoryHost host;
    Diagnostics diags;
    const auto profile = load_hardware(name, host, diags);
    REQUIRE(profile);
    CHECK(profile->name == meant);
    CHECK(profile_of_accelerator(name) == meant);
  }
  // Every name is of a profile that there is.
  for (const PlainAccelerator& plain : plain_accelerators()) {
    CHECK(contains(shipped_names(kHardwareFolder), plain.hardware));
  }
}

TEST_CASE("an unknown name gets the names that are near or that go on so") {
  const struct {
    const char* name;
    const char* help;
  } rows[] = {
      {"h1", "names with this prefix: `h100-nvl`, `h100-sxm`"},
      {"a100", "names with this prefix: `a100-40`, `a100-80`"},
      {"h100-sxn", "did you mean `h100-sxm`?"},
      {"tpuv5p", "did you mean `tpu-v5p`?"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.name);
    MemoryHost host;
    Diagnostics diags;
    CHECK_FALSE(load_hardware(row.name, host, diags));
    CHECK(testing::messages(diags) ==
          "SP001 no hardware profile named `" + std::string(row.name) + "`");
    CHECK(diags.all()[0].help ==
          std::vector<std::string>{row.help,
                                   "`shardplan list hardware` shows all"});
  }
}

TEST_CASE("a file needs a dot or a slash, and one without is pointed out") {
  CHECK(is_hardware_path("own.yaml"));
  CHECK(is_hardware_path("./own"));
  CHECK_FALSE(is_hardware_path("own"));
  CHECK_FALSE(is_hardware_path(""));
  MemoryHost host;
  host.files["own"] =
      "name: own\ntitle: Own\nvendor: Us\n"
      "sources: {us: {title: Ourselves, read: 2026-01-31}}\n"
      "devices_per_chip: {value: 1, source: us}\n";
  Diagnostics diags;
  const auto read_profile = load_hardware("./own", host, diags);
  REQUIRE(read_profile);
  CHECK(read_profile->title == "Own");
  CHECK(diags.all().empty());
  CHECK_FALSE(load_hardware("own", host, diags));
  CHECK(diags.all()[0].help[0] == "`./own` is read as a file");
  CHECK_FALSE(load_hardware("none.yaml", host, diags));
  CHECK(diags.all()[1].message ==
        "cannot read `none.yaml`: no such file or directory");
}

const std::string kHead =
    "name: own\n"
    "title: Own device\n"
    "vendor: Us\n"
    "sources: {us: {title: Ourselves, read: 2026-01-31}}\n";
const std::string kBase = kHead + "devices_per_chip: {value: 2, source: us}\n";

struct ReadProfile {
  std::optional<HardwareProfile> profile;
  std::string text;
};

ReadProfile read_profile(const std::string& text) {
  Diagnostics diags;
  auto source = std::make_shared<SourceFile>("hw.yaml", text);
  diags.add_source(source);
  ReadProfile result;
  result.profile = read_hardware(source, diags, Tables::Read);
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
  const ReadProfile result = read_profile(kBase);
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
  const ReadProfile result = read_profile(
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

const std::string kRates =
    "hbm_bytes_per_second: {value: 1e12, source: us}\n"
    "flops_per_second: {bf16: {value: 1e14, source: us}}\n";

TEST_CASE("tables are read in the units of the profile, with their sources") {
  const std::string text =
      kBase + kRates +
      "measured:\n"
      "  products:\n"
      "    - precision: bf16\n"
      "      m: [1, 16]\n"
      "      n: 64\n"
      "      k: 64 256\n"
      "      teraflops: >-\n"
      "        0 10\n"
      "        20.5 30\n"
      "      source: us\n"
      "      note: all of it\n"
      "  attention:\n"
      "    - {kernel: flash, backward: true, length: [1024], head_dim: [64,"
      " 128], teraflops: [50, 60], source: us}\n"
      "    - {kernel: flash, backward: false, length: [1024], head_dim: [64],"
      " teraflops: 100, source: us}\n"
      "  memory: {bytes: [1e6, 1e9], gigabytes_per_second: [2000, 1000],"
      " source: us}\n"
      "  collectives:\n"
      "    - {kind: all-gather, ranks: [2], bytes: [512, 2048], microseconds:"
      " 5 6.5, source: us}\n"
      "  sustained: {value: 0.9, source: us}\n"
      "  kernel_seconds: {value: 2.5e-6, source: us}\n"
      "  network_bytes_per_second: {value: 4e10, source: us}\n";
  const ReadProfile result = read_profile(text);
  CHECK(result.text.empty());
  REQUIRE(result.profile);
  const MeasuredTables& measured = result.profile->measured;
  REQUIRE(measured.products.size() == 1);
  const MeasuredGrid& rate = measured.products[0].rate;
  CHECK(measured.products[0].precision == Precision::BF16);
  CHECK(rate.axes ==
        std::vector<std::vector<double>>{{1, 16}, {64}, {64, 256}});
  CHECK(rate.values == std::vector<double>{0, 1e13, 2.05e13, 3e13});
  CHECK(rate.note == "all of it");
  REQUIRE(measured.attention.size() == 2);
  CHECK(measured.attention[0].backward);
  CHECK(measured.attention[0].rate.values == std::vector<double>{5e13, 6e13});
  CHECK_FALSE(measured.attention[1].backward);
  REQUIRE(measured.memory);
  CHECK(measured.memory->values == std::vector<double>{2e12, 1e12});
  REQUIRE(measured.collectives.size() == 1);
  CHECK(measured.collectives[0].kind == "all-gather");
  CHECK(measured.collectives[0].seconds.values[1] == doctest::Approx(6.5e-6));
  CHECK(measured.sustained->value == 0.9);
  CHECK(measured.kernel_seconds->value == 2.5e-6);
  CHECK_FALSE(measured.eager_launch_seconds);
  CHECK_FALSE(measured.host_bytes_per_second);
  CHECK(measured.network_bytes_per_second->value == 4e10);

  // Who does not ask for them has none.
  Diagnostics diags;
  const auto skipped =
      read_hardware(std::make_shared<SourceFile>("hw.yaml", text), diags);
  REQUIRE(skipped);
  CHECK(skipped->measured.products.empty());
  CHECK_FALSE(skipped->measured.sustained);
}

TEST_CASE("JSON is read as YAML is") {
  const ReadProfile result = read_profile(
      R"({"name": "own", "title": "Own", "vendor": "Us", "sources":)"
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
    CHECK(read_profile(text).text == message.substr(0, 6) +
                                         "hw.yaml:" + place_of(text, row.at) +
                                         " " + message.substr(6));
  }
}

TEST_CASE("numbers without a value or a source are refused") {
  const Mistake rows[] = {
      {"hbm_bytes: 80GiB", "80GiB", "SP002 `hbm_bytes` has no source"},
      {"hbm_bytes: {value: 80GiB}", "{value: 80",
       "SP002 `hbm_bytes` has no "
       "source"},
      {"hbm_bytes: {source: us}", "{source", "SP002 `value` is missing"},
      {"hbm_bytes: {value: 1, source: su}", "su}",
       "SP002 `sources` has no `su`"},
      {"hbm_bytes: {value: 1, source: us, estimated: true}", "{value: 1, s",
       "SP002 `hbm_bytes` is estimated but has no `note` that says how"},
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
       "SP002 `hbm_bytes_per_second` must be a number, not a string"},
      {"flops_per_second: {bf16: {value: 0, source: us}}", "0, source",
       "SP002 `bf16` must be positive and finite"},
      {"hbm_usable_bytes: {value: 1, source: us}", "{value: 1",
       "SP002 `hbm_usable_bytes` needs `hbm_bytes`"},
      {"hbm_bytes: {value: 80GB, source: us}\n"
       "hbm_usable_bytes: {value: 79.1GiB, source: us}",
       "{value: 79.1", "SP002 `hbm_usable_bytes` exceeds `hbm_bytes`"},
  };
  check_mistakes(rows);
}

TEST_CASE("unknown keys and words are refused") {
  const Mistake rows[] = {
      {"hbm_byte: {value: 1, source: us}", "hbm_byte",
       "SP004 unknown key `hbm_byte`"},
      {"hbm_bytes: {value: 1, sorce: us}", "sorce",
       "SP004 unknown key `sorce`"},
      {"flops_per_second: {bf17: {value: 1, source: us}}", "bf17",
       "SP004 unknown key `bf17`"},
      {"links: [{name: a, speed: 1}]", "speed", "SP004 unknown key `speed`"},
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
       "SP002 `bytes_per_second` is missing"},
      {"links: [{name: a b, topology: ring, bytes_per_second: {value: 1, "
       "source: us}}]",
       "a b", "SP002 `a b` is not a valid name"},
      {"links: [{name: a, topology: star, bytes_per_second: {value: 1, "
       "source: us}}]",
       "star",
       "SP002 `topology` must be one of `ring`, `torus`, `full-mesh`, "
       "`switch`, not `star`"},
      {"links: [{name: a, topology: ring, bytes_per_second: {value: 1, "
       "source: us}, extents: {value: [4], source: us}}]",
       "{value: [4]", "SP002 `extents` applies only to a torus"},
      {"links: [{name: a, topology: torus, bytes_per_second: {value: 1, "
       "source: us}, extents: {value: [], source: us}}]",
       "[], ", "SP002 `extents` is empty"},
      {"links: [{name: a, topology: torus, bytes_per_second: {value: 1, "
       "source: us}, wrap: each}]",
       "{name: a", "SP002 `wrap` and `wrap_multiple` must be given together"},
  };
  check_mistakes(rows);
}

TEST_CASE("tables that do not fit together are refused") {
  const std::string product =
      "measured: {products: [{precision: bf16, m: 1, n: 64, k: 64, source: us,"
      " teraflops: ";
  const std::string long_axis = "measured: {memory: {bytes: '" + [] {
    std::string numbers;
    for (int i = 1; i <= 16385; ++i) {
      numbers += std::to_string(i) + " ";
    }
    return numbers;
  }() + "', source: us}}";
  std::string many = "measured: {collectives: [1";
  for (int i = 0; i < 64; ++i) many += ", 1";
  many += "]}";
  const struct {
    std::string line;
    const char* at;
    const char* message;
  } rows[] = {
      {"measured: 7", "7", "SP002 `measured` must be a map, not an integer"},
      {"measured: {product: []}", "product", "SP004 unknown key `product`"},
      {"measured: {products: {}}", "{}}",
       "SP002 `products` must be a list, not a map"},
      {"measured: {products: [{m: 1}]}", "{m: 1",
       "SP002 `precision` is missing"},
      {"measured: {products: [{precision: bf17}]}", "bf17",
       "SP002 `precision` must be one of `f32`, `tf32`, `f16`, `bf16`, `f8`, "
       "`i8`, `f4`, not `bf17`"},
      {product + "1 2}]}", "1 2}", "SP002 `teraflops` has 2 of 1 values"},
      {product + "fast}]}", "fast}",
       "SP002 `teraflops` has `fast`, which is not a number of at least 0"},
      {product + "[-1]}]}", "-1]",
       "SP002 `teraflops` has `-1`, which is not a number of at least 0"},
      {product + "[[1]]}]}", "[1]]}",
       "SP002 `teraflops` has `a list`, which is not a number of at least 0"},
      {product + "101}]}", "{precision",
       "SP002 this exceeds `flops_per_second.bf16`"},
      {"measured: {products: [{precision: f8, m: 1, n: 64, k: 64, source: us, "
       "teraflops: 1}]}",
       "{precision", "SP002 this needs `flops_per_second.f8`"},
      {"measured: {memory: {bytes: 1, gigabytes_per_second: 1001, source: us}}",
       "{bytes", "SP002 this exceeds `hbm_bytes_per_second`"},
      {"measured: {memory: {bytes: [2, 2], gigabytes_per_second: 1 1, source: "
       "us}}",
       "[2, 2]", "SP002 `bytes` must be positive and strictly increasing"},
      {"measured: {memory: {bytes: [], gigabytes_per_second: [], source: us}}",
       "[], g", "SP002 `bytes` must be positive and strictly increasing"},
      {"measured: {memory: {bytes: {}, gigabytes_per_second: 1, source: us}}",
       "{}, g",
       "SP002 `bytes` must be a list of numbers or a string of numbers"},
      {"measured: {memory: {bytes: 1, gigabytes_per_second: 1}}", "{bytes",
       "SP002 `gigabytes_per_second` has no source"},
      {long_axis, "'1 2", "SP002 `bytes` has more than 16,384 numbers"},
      {many, "[1, 1", "SP002 `collectives` has more than 64 tables"},
      {"measured: {collectives: [{kind: all-sum}]}", "all-sum",
       "SP002 `kind` must be one of `all-gather`, `reduce-scatter`, "
       "`all-reduce`, `all-to-all`, not `all-sum`"},
      {"measured: {attention: [{kernel: f, backward: 1}]}", "1}]",
       "SP002 `backward` must be true or false, not an integer"},
      {"measured: {collectives: [&a {kind: all-gather, ranks: 2, bytes: 2, "
       "microseconds: 1, source: us}, *a]}",
       "{kind", "SP002 an earlier table already covers this"},
      {"measured: {sustained: 0.9}", "0.9", "SP002 `sustained` has no source"},
      {"measured: {sustained: {value: 0, source: us}}", "0, source",
       "SP002 `sustained` must be positive and finite"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.line.substr(0, 200));
    const std::string text = kBase + kRates + row.line + "\n";
    const std::string message = row.message;
    CHECK(read_profile(text).text == message.substr(0, 6) +
                                         "hw.yaml:" + place_of(text, row.at) +
                                         " " + message.substr(6));
  }
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
       "SP002 hw.yaml:1:1 `vendor` is missing"},
      {"name: own\ntitle: Own\nvendor: Us\n",
       "SP002 hw.yaml:1:1 `sources` is missing"},
      {"name: own\ntitle: Own\nvendor: Us\nsources: {}\n",
       "SP002 hw.yaml:1:1 `devices_per_chip` is missing"},
      {"name: own\ntitle: Own\nvendor: Us\nsources: {us: {read: "
       "2026-01-31}}\n",
       "SP002 hw.yaml:4:15 `title` is missing"},
      {"name: own\ntitle: Own\nvendor: Us\nsources: {us: {title: T}}\n",
       "SP002 hw.yaml:4:15 `read` is missing"},
      {"name: own\ntitle: Own\nvendor: Us\nsources: {us: {title: T, read: "
       "2026-13-01}}\n",
       "SP002 hw.yaml:4:32 `read` is not a date"},
      {"name: own/x\ntitle: ''\nvendor: 7\nsources: {}\n",
       "SP002 hw.yaml:1:7 `own/x` is not a valid name\n"
       "SP002 hw.yaml:2:8 `title` is empty\n"
       "SP002 hw.yaml:3:9 `vendor` must be a string, not an integer"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.text);
    CHECK(read_profile(row.text).text == row.message);
  }
}

}  // namespace

}  // namespace shardplan
