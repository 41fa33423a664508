// SPDX-License-Identifier: Apache-2.0
#include "cli/views/hardware_tables.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "base/words.h"

namespace shardplan::cli {
namespace {

constexpr std::string_view kFlops = "FLOP/s";
constexpr std::string_view kRate = "B/s";

// A number of a profile, in the form for programs and the form for people.
struct NumberRow {
  std::string quantity;  // the keys that lead to it: "links.ici.devices"
  Cell value;
  std::string unit;                  // "B/s"; empty for counts and words
  std::string text;                  // "540 GB/s"
  const Citation* source = nullptr;  // null for words such as a topology
  bool estimated = false;
  std::string note;
};

class ProfileNumbers {
 public:
  explicit ProfileNumbers(const HardwareProfile& profile) : profile_(profile) {}

  void word(std::string quantity, std::string_view word) {
    rows_.push_back({std::move(quantity), std::string(word), "",
                     std::string(word), nullptr, false, ""});
  }

  void count(std::string quantity, const Sourced<int64_t>& number) {
    add(std::move(quantity), number, Count{number.value}, "",
        count_text(number.value));
  }

  void bytes(std::string quantity, const Sourced<int64_t>& number) {
    add(std::move(quantity), number, ByteSize{number.value}, "B",
        bytes_text(number.value));
  }

  void rate(std::string quantity, const Sourced<double>& number,
            std::string_view unit) {
    // A share has neither a unit nor a prefix.
    add(std::move(quantity), number, Ratio{number.value}, unit,
        unit.empty() ? fmt::format("{:g}", number.value)
                     : si_text(number.value, unit));
  }

  void sizes(std::string quantity,
             const Sourced<std::vector<int64_t>>& number) {
    std::string text = joined_of(
        number.value, " x ", [](int64_t size) { return std::to_string(size); });
    add(std::move(quantity), number, shardplan::Numbers{number.value}, "",
        std::move(text));
  }

  // Adds the number of points of a grid and the range of its measured values.
  void grid(std::string quantity, const MeasuredGrid& grid,
            std::string_view unit) {
    int64_t points = 0;
    double least = 0;
    double most = 0;
    for (const double value : grid.values) {
      if (value <= 0) continue;
      least = points == 0 ? value : std::min(least, value);
      most = std::max(most, value);
      ++points;
    }
    rows_.push_back({std::move(quantity), Count{points}, "points",
                     count_text(points) + " points, " + si_text(least, unit) +
                         " to " + si_text(most, unit),
                     &profile_.sources[grid.source], false, grid.note});
  }

  std::vector<NumberRow> take() && { return std::move(rows_); }

 private:
  template <typename T>
  void add(std::string quantity, const Sourced<T>& number, Cell value,
           std::string_view unit, std::string text) {
    rows_.push_back({std::move(quantity), std::move(value), std::string(unit),
                     std::move(text), &profile_.sources[number.source],
                     number.estimated, number.note});
  }

  const HardwareProfile& profile_;
  std::vector<NumberRow> rows_;
};

void add_link(const LinkTier& link, ProfileNumbers& numbers) {
  const std::string head = "links." + link.name + ".";
  numbers.word(head + "topology",
               kTopologyNames[static_cast<size_t>(link.topology)]);
  numbers.rate(head + "bytes_per_second", link.bytes_per_second, kRate);
  if (link.latency_seconds) {
    numbers.rate(head + "latency_seconds", *link.latency_seconds, "s");
  }
  if (link.devices) numbers.count(head + "devices", *link.devices);
  if (link.extents) numbers.sizes(head + "extents", *link.extents);
  if (link.wrap_multiple) {
    numbers.word(head + "wrap", kWrapNames[static_cast<size_t>(link.wrap)]);
    numbers.count(head + "wrap_multiple", *link.wrap_multiple);
  }
}

void add_measured(const MeasuredTables& measured, ProfileNumbers& numbers) {
  const std::string head = "measured.";
  for (const MeasuredProducts& table : measured.products) {
    numbers.grid(
        head + "products." +
            std::string(kPrecisionNames[static_cast<size_t>(table.precision)]),
        table.rate, kFlops);
  }
  for (const MeasuredAttention& table : measured.attention) {
    numbers.grid(head + "attention." + table.kernel +
                     (table.backward ? ".backward" : ".forward"),
                 table.rate, kFlops);
  }
  if (measured.memory) {
    numbers.grid(head + "memory", *measured.memory, kRate);
  }
  for (const MeasuredCollective& table : measured.collectives) {
    numbers.grid(head + "collectives." + table.kind, table.seconds, "s");
  }
  const auto add = [&](const char* key,
                       const std::optional<Sourced<double>>& number,
                       std::string_view unit) {
    if (number) numbers.rate(head + key, *number, unit);
  };
  add("sustained", measured.sustained, "");
  add("kernel_seconds", measured.kernel_seconds, "s");
  add("eager_launch_seconds", measured.eager_launch_seconds, "s");
  add("host_bytes_per_second", measured.host_bytes_per_second, kRate);
  add("network_bytes_per_second", measured.network_bytes_per_second, kRate);
}

std::vector<NumberRow> numbers_of(const HardwareProfile& profile) {
  ProfileNumbers numbers(profile);
  numbers.count("devices_per_chip", profile.devices_per_chip);
  if (profile.devices_per_host) {
    numbers.count("devices_per_host", *profile.devices_per_host);
  }
  if (profile.hbm_bytes) numbers.bytes("hbm_bytes", *profile.hbm_bytes);
  if (profile.hbm_usable_bytes) {
    numbers.bytes("hbm_usable_bytes", *profile.hbm_usable_bytes);
  }
  if (profile.hbm_bytes_per_second) {
    numbers.rate("hbm_bytes_per_second", *profile.hbm_bytes_per_second, kRate);
  }
  if (profile.cache_bytes) numbers.bytes("cache_bytes", *profile.cache_bytes);
  for (const auto& rate : profile.flops_per_second) {
    numbers.rate(
        "flops_per_second." +
            std::string(kPrecisionNames[static_cast<size_t>(rate.first)]),
        rate.second, kFlops);
  }
  for (const LinkTier& link : profile.links) add_link(link, numbers);
  add_measured(profile.measured, numbers);
  return std::move(numbers).take();
}

Cell bytes_cell(const std::optional<Sourced<int64_t>>& bytes) {
  if (!bytes) return {};
  return ByteSize{bytes->value};
}

const Sourced<double>* bf16_rate(const HardwareProfile& profile) {
  for (const auto& rate : profile.flops_per_second) {
    if (rate.first == Precision::BF16) return &rate.second;
  }
  return nullptr;
}

const LinkTier* fastest_link(const HardwareProfile& profile) {
  const auto fastest = std::ranges::max_element(
      profile.links, [](const LinkTier& a, const LinkTier& b) {
        return a.bytes_per_second.value < b.bytes_per_second.value;
      });
  return fastest == profile.links.end() ? nullptr : &*fastest;
}

// Returns the usual numbers that the profile does not have.
Names lacks(const HardwareProfile& profile) {
  Names missing;
  const auto has_rate = [&](Precision precision) {
    return std::ranges::any_of(profile.flops_per_second, [&](const auto& rate) {
      return rate.first == precision;
    });
  };
  if (profile.flops_per_second.empty()) {
    missing.values.emplace_back("rates");
  } else {
    if (!has_rate(Precision::BF16)) missing.values.emplace_back("BF16");
    if (!has_rate(Precision::F8)) missing.values.emplace_back("FP8");
  }
  const bool has_nvlink = std::ranges::any_of(
      profile.links,
      [](const LinkTier& link) { return link.name == "nvlink"; });
  if (profile.vendor == "NVIDIA" && !has_nvlink) {
    missing.values.emplace_back("NVLink");
  }
  return missing;
}

Row row_for_people(const HardwareProfile& profile) {
  Row row = {profile.name,
             profile.title,
             bytes_cell(profile.hbm_bytes),
             bytes_cell(profile.hbm_usable_bytes),
             {},
             {},
             lacks(profile)};
  if (const auto* rate = bf16_rate(profile)) {
    row[4] = si_text(rate->value, kFlops);
  }
  if (const auto* link = fastest_link(profile)) {
    row[5] = link->name + " " + si_text(link->bytes_per_second.value, kRate);
  }
  return row;
}

Row row_for_programs(const HardwareProfile& profile) {
  Row row = {profile.name,
             profile.title,
             profile.vendor,
             bytes_cell(profile.hbm_bytes),
             bytes_cell(profile.hbm_usable_bytes),
             {},
             {},
             {},
             lacks(profile)};
  if (const auto* rate = bf16_rate(profile)) row[5] = Ratio{rate->value};
  if (const auto* link = fastest_link(profile)) {
    row[6] = link->name;
    row[7] = Ratio{link->bytes_per_second.value};
  }
  return row;
}

Cell text_or_nothing(std::string text) {
  if (text.empty()) return {};
  return text;
}

}  // namespace

std::string si_text(double value, std::string_view unit) {
  constexpr std::array<std::pair<double, std::string_view>, 9> kPrefixes = {
      {{1e15, "P"},
       {1e12, "T"},
       {1e9, "G"},
       {1e6, "M"},
       {1e3, "k"},
       {1, ""},
       {1e-3, "m"},
       {1e-6, "u"},
       {1e-9, "n"}}};
  const auto* chosen = std::ranges::find_if(
      kPrefixes,
      // Rounding to four digits must not reach the next prefix.
      [&](const auto& prefix) { return value >= prefix.first * 0.99995; });
  if (chosen == kPrefixes.end()) --chosen;
  return fmt::format("{:.4g} {}{}", value / chosen->first, chosen->second,
                     unit);
}

std::vector<Table> hardware_overview(
    const std::vector<HardwareProfile>& profiles) {
  std::vector<Row> people;
  std::vector<Row> programs;
  for (const HardwareProfile& profile : profiles) {
    people.push_back(row_for_people(profile));
    programs.push_back(row_for_programs(profile));
  }
  Table shown;
  shown.id = "hardware_overview";
  shown.columns = {left("name"),
                   left("title", ""),
                   right("hbm_bytes", "HBM"),
                   right("hbm_usable_bytes", "usable"),
                   right("bf16"),
                   left("fastest_link"),
                   left("lacks", "missing")};
  shown.rows = rows_of(std::move(people));
  shown.audience = Audience::People;
  Table written;
  written.id = "hardware";
  written.columns = {
      left("name"),
      left("title"),
      left("vendor"),
      left("hbm_bytes", "hbm_bytes"),
      left("hbm_usable_bytes", "hbm_usable_bytes"),
      left("bf16_flops_per_second", "bf16_flops_per_second"),
      left("fastest_link", "fastest_link"),
      left("fastest_link_bytes_per_second", "fastest_link_bytes_per_second"),
      left("lacks", "lacks")};
  written.rows = rows_of(std::move(programs));
  written.audience = Audience::Programs;
  return {shown, written};
}

Table hardware_numbers_table(const std::vector<HardwareProfile>& profiles) {
  std::vector<Row> rows;
  for (const HardwareProfile& profile : profiles) {
    for (NumberRow& row : numbers_of(profile)) {
      const Citation* source = row.source;
      rows.push_back({profile.name, row.quantity, row.value,
                      text_or_nothing(row.unit), YesNo{row.estimated},
                      text_or_nothing(row.note),
                      source != nullptr ? Cell(source->title) : Cell(),
                      source != nullptr ? text_or_nothing(source->url) : Cell(),
                      source != nullptr ? Cell(source->read) : Cell()});
    }
  }
  return {"hardware_numbers",
          "",
          {left("profile"), left("quantity"), left("value"), left("unit"),
           left("estimated"), left("note"), left("source"), left("url"),
           left("read")},
          rows_of(std::move(rows)),
          Audience::Programs};
}

std::vector<Table> hardware_details(const HardwareProfile& profile,
                                    bool exact) {
  std::vector<Row> rows;
  for (NumberRow& row : numbers_of(profile)) {
    std::string note = row.estimated ? "estimated: " : "";
    note += row.note;
    rows.push_back({row.quantity, exact ? row.value : Cell(row.text),
                    row.source != nullptr ? Cell(row.source->id) : Cell(""),
                    note});
  }
  Table numbers;
  numbers.id = "numbers";
  numbers.columns = {left("quantity"), right("value"), left("source"),
                     left("note", "")};
  numbers.rows = rows_of(std::move(rows));
  numbers.audience = Audience::People;

  std::vector<Row> cited;
  for (const Citation& source : profile.sources) {
    cited.push_back(
        {source.id, source.read,
         source.title + (source.url.empty() ? "" : ", ") + source.url});
  }
  Table sources;
  sources.id = "sources";
  sources.title = "Sources";
  sources.columns = {left("source"), left("read"), left("title", "")};
  sources.rows = rows_of(std::move(cited));
  sources.audience = Audience::People;
  return {numbers, sources};
}

}  // namespace shardplan::cli
