// SPDX-License-Identifier: Apache-2.0
#include "cli/views/hardware_tables.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "cli/views/columns.h"

namespace shardplan::cli {
namespace {

constexpr std::string_view kFlops = "FLOP/s";
constexpr std::string_view kRate = "B/s";

// A number of a profile, in the form for programs and the form for people.
struct NumberRow {
  std::string quantity;  // the keys that lead to it: "links.ici.devices"
  Cell value;
  std::string unit = {};             // "B/s"; empty for counts and words
  std::string text = {};             // "540 GB/s"
  const Citation* source = nullptr;  // null for words such as a topology
  bool estimated = false;
  std::string note = {};
};

// Collects the numbers of a profile that it has.
struct ProfileNumbers {
  const HardwareProfile& profile;
  std::vector<NumberRow> rows = {};

  void word(std::string quantity, std::string_view word) {
    rows.push_back({.quantity = std::move(quantity),
                    .value = std::string(word),
                    .text = std::string(word)});
  }

  void count(std::string quantity,
             const std::optional<Sourced<int64_t>>& number) {
    if (!number) return;
    add(std::move(quantity), *number, Count{number->value}, "",
        count_text(number->value));
  }

  void bytes(std::string quantity,
             const std::optional<Sourced<int64_t>>& number) {
    if (!number) return;
    add(std::move(quantity), *number, ByteSize{number->value}, "B",
        bytes_text(number->value));
  }

  void rate(std::string quantity, const std::optional<Sourced<double>>& number,
            std::string_view unit) {
    if (!number) return;
    // A share has neither a unit nor a prefix.
    add(std::move(quantity), *number, Ratio{number->value}, unit,
        unit.empty() ? fmt::format("{:g}", number->value)
                     : si_text(number->value, unit));
  }

  // Adds the number of points of a grid and the range of its measured values.
  void grid(std::string quantity, const MeasuredGrid& grid,
            std::string_view unit) {
    std::vector<double> measured = grid.values;
    std::erase_if(measured, [](double value) { return value <= 0; });
    const auto points = std::ssize(measured);
    const auto [least, most] = points == 0
                                   ? std::ranges::minmax_result<double>{}
                                   : std::ranges::minmax(measured);
    rows.push_back({std::move(quantity), Count{points}, "points",
                    count_text(points) + " points, " + si_text(least, unit) +
                        " to " + si_text(most, unit),
                    &profile.sources[grid.source], false, grid.note});
  }

  template <typename T>
  void add(std::string quantity, const Sourced<T>& number, Cell value,
           std::string_view unit, std::string text) {
    rows.push_back({std::move(quantity), std::move(value), std::string(unit),
                    std::move(text), &profile.sources[number.source],
                    number.estimated, number.note});
  }
};

void add_link(const LinkTier& link, ProfileNumbers& numbers) {
  const std::string head = "links." + link.name + ".";
  numbers.word(head + "topology", nth(kTopologyNames, link.topology));
  numbers.rate(head + "bytes_per_second", link.bytes_per_second, kRate);
  numbers.rate(head + "latency_seconds", link.latency_seconds, "s");
  numbers.count(head + "devices", link.devices);
  if (link.extents) {
    const std::vector<int64_t>& sizes = link.extents->value;
    numbers.add(head + "extents", *link.extents, Numbers{sizes}, "",
                joined_of(sizes, " x ",
                          [](int64_t size) { return std::to_string(size); }));
  }
  if (link.wrap_multiple) {
    numbers.word(head + "wrap", nth(kWrapNames, link.wrap));
    numbers.count(head + "wrap_multiple", link.wrap_multiple);
  }
}

void add_measured(const MeasuredTables& measured, ProfileNumbers& numbers) {
  const std::string head = "measured.";
  for (const MeasuredProducts& table : measured.products) {
    numbers.grid(
        head + "products." + std::string(nth(kPrecisionNames, table.precision)),
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
  numbers.rate(head + "sustained", measured.sustained, "");
  numbers.rate(head + "kernel_seconds", measured.kernel_seconds, "s");
  numbers.rate(head + "eager_launch_seconds", measured.eager_launch_seconds,
               "s");
  numbers.rate(head + "host_bytes_per_second", measured.host_bytes_per_second,
               kRate);
  numbers.rate(head + "network_bytes_per_second",
               measured.network_bytes_per_second, kRate);
}

std::vector<NumberRow> numbers_of(const HardwareProfile& profile) {
  ProfileNumbers numbers{profile};
  numbers.count("devices_per_chip", profile.devices_per_chip);
  numbers.count("devices_per_host", profile.devices_per_host);
  numbers.bytes("hbm_bytes", profile.hbm_bytes);
  numbers.bytes("hbm_usable_bytes", profile.hbm_usable_bytes);
  numbers.rate("hbm_bytes_per_second", profile.hbm_bytes_per_second, kRate);
  numbers.bytes("cache_bytes", profile.cache_bytes);
  for (const auto& [precision, rate] : profile.flops_per_second) {
    numbers.rate(
        "flops_per_second." + std::string(nth(kPrecisionNames, precision)),
        rate, kFlops);
  }
  for (const LinkTier& link : profile.links) add_link(link, numbers);
  add_measured(profile.measured, numbers);
  return std::move(numbers.rows);
}

Cell bytes_cell(const std::optional<Sourced<int64_t>>& bytes) {
  return bytes ? Cell(ByteSize{bytes->value}) : Cell();
}

const Sourced<double>* rate_of(const HardwareProfile& profile,
                               Precision precision) {
  for (const auto& rate : profile.flops_per_second) {
    if (rate.first == precision) return &rate.second;
  }
  return nullptr;
}

const LinkTier* fastest_link(const HardwareProfile& profile) {
  const auto fastest = std::ranges::max_element(
      profile.links, {},
      [](const LinkTier& link) { return link.bytes_per_second.value; });
  return fastest == profile.links.end() ? nullptr : &*fastest;
}

// Returns the usual numbers that the profile does not have.
Names lacks(const HardwareProfile& profile) {
  Names missing;
  const auto add_if = [&](bool is_missing, const char* name) {
    if (is_missing) missing.values.emplace_back(name);
  };
  const bool has_rates = !profile.flops_per_second.empty();
  add_if(!has_rates, "rates");
  add_if(has_rates && !rate_of(profile, Precision::BF16), "BF16");
  add_if(has_rates && !rate_of(profile, Precision::F8), "FP8");
  add_if(profile.vendor == "NVIDIA" && !find_named(profile.links, "nvlink"),
         "NVLink");
  return missing;
}

Table overview_table(const std::vector<HardwareProfile>& profiles,
                     bool for_people) {
  const auto of_rate = [](auto cell) {
    return [cell](const HardwareProfile& profile) {
      const auto* rate = rate_of(profile, Precision::BF16);
      return rate != nullptr ? Cell(cell(rate->value)) : Cell();
    };
  };
  const auto of_link = [](auto cell) {
    return [cell](const HardwareProfile& profile) {
      const LinkTier* link = fastest_link(profile);
      return link != nullptr ? Cell(cell(*link)) : Cell();
    };
  };
  return table_of(
      for_people ? "hardware_overview" : "hardware", "", profiles,
      {{left("name"), &HardwareProfile::name},
       {left("title", ""), &HardwareProfile::title},
       {left("vendor"), &HardwareProfile::vendor, !for_people},
       {right("hbm_bytes", "HBM"),
        [](auto& p) { return bytes_cell(p.hbm_bytes); }},
       {right("hbm_usable_bytes", "usable"),
        [](auto& p) { return bytes_cell(p.hbm_usable_bytes); }},
       {right("bf16"),
        of_rate([](double rate) { return si_text(rate, kFlops); }), for_people},
       {right("bf16_flops_per_second"),
        of_rate([](double rate) { return Ratio{rate}; }), !for_people},
       {left("fastest_link"), of_link([](const LinkTier& link) {
          return link.name + " " + si_text(link.bytes_per_second.value, kRate);
        }),
        for_people},
       {left("fastest_link"), of_link([](auto& link) { return link.name; }),
        !for_people},
       {left("fastest_link_bytes_per_second"),
        of_link([](auto& link) { return Ratio{link.bytes_per_second.value}; }),
        !for_people},
       {left("lacks", "missing"), lacks}},
      audience_of(for_people));
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
  return {overview_table(profiles, true), overview_table(profiles, false)};
}

Table hardware_numbers_table(const std::vector<HardwareProfile>& profiles) {
  std::vector<Row> rows;
  for (const HardwareProfile& profile : profiles) {
    for (NumberRow& row : numbers_of(profile)) {
      const Citation source = row.source != nullptr ? *row.source : Citation{};
      rows.push_back({profile.name, row.quantity, row.value,
                      text_cell(row.unit), YesNo{row.estimated},
                      text_cell(row.note), text_cell(source.title),
                      text_cell(source.url), text_cell(source.read)});
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
  const ColumnsOf<NumberRow> of_number = {
      {left("quantity"), &NumberRow::quantity},
      {right("value"),
       [=](auto& row) { return exact ? row.value : Cell(row.text); }},
      {left("source"),
       [](auto& row) { return row.source != nullptr ? row.source->id : ""; }},
      {left("note", ""), [](auto& row) {
         return (row.estimated ? "estimated: " : "") + row.note;
       }}};
  const ColumnsOf<Citation> of_source = {
      {left("source"), &Citation::id},
      {left("read"), &Citation::read},
      {left("title", ""),
       [](auto& c) { return c.title + (c.url.empty() ? "" : ", ") + c.url; }}};
  return {
      table_of("numbers", "", numbers_of(profile), of_number, Audience::People),
      table_of("sources", "Sources", profile.sources, of_source,
               Audience::People)};
}

}  // namespace shardplan::cli
