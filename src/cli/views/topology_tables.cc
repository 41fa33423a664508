// SPDX-License-Identifier: Apache-2.0
#include "cli/views/topology_tables.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/checked.h"
#include "base/text.h"

namespace shardplan::cli {
namespace {

std::string words_of(const std::vector<std::string_view>& names) {
  return joined(std::vector<std::string>(names.begin(), names.end()), ", ");
}

Names names_cell(const std::vector<std::string_view>& names) {
  return {{names.begin(), names.end()}};
}

Cell word_or_nothing(std::string_view word) {
  return word.empty() ? Cell() : Cell(std::string(word));
}

std::string unit_name(TpuUnit unit) {
  return unit == TpuUnit::Cores ? "cores" : "chips";
}

// REQUIRES: the tables contain the name.
NamedTopology known_topology_named(const std::string& name) {
  Diagnostics diags;
  auto topology = read_topology(name, {}, diags);
  SHARDPLAN_CHECK(topology.has_value());
  return *std::move(topology);
}

const TopologySource& source_of(const TopologyNumber& number) {
  const auto sources = topology_sources();
  const auto found = std::ranges::find_if(
      sources,
      [&](const TopologySource& source) { return source.id == number.source; });
  SHARDPLAN_CHECK(found != sources.end());
  return *found;
}

Table families_table() {
  std::vector<Row> rows;
  for (const TpuFamily& family : tpu_families()) {
    const NamedTopology example =
        known_topology_named(std::string(family.names.front()) + "-" +
                             std::to_string(family.example));
    rows.push_back({words_of(family.names), unit_name(family.unit),
                    sizes_text(family), example.name, Count{example.devices},
                    word_or_nothing(family.hardware)});
  }
  return {"tpu_families_shown",
          "TPU slices, NAME-N; 2xNAME-N is two of them",
          {left("names", "name"), left("unit", "N counts"), left("sizes", "N"),
           left("example", "for example"), right("devices"), left("hardware")},
          rows_of(std::move(rows)),
          Audience::People};
}

// Returns the families of TPUs, with the source of each number.
Table families_for_programs() {
  std::vector<Row> rows;
  for (const TpuFamily& family : tpu_families()) {
    rows.push_back({names_cell(family.names), std::string(family.title),
                    unit_name(family.unit), Count{family.cores_per_chip.value},
                    Count{family.devices_per_chip.value},
                    Count{family.chips_per_host.value}, Numbers{family.sizes},
                    family.step > 0 ? Cell(Count{family.step}) : Cell(),
                    Count{family.most.value}, word_or_nothing(family.hardware),
                    Names{{std::string(family.unit_source),
                           std::string(family.cores_per_chip.source),
                           std::string(family.devices_per_chip.source),
                           std::string(family.chips_per_host.source),
                           std::string(family.most.source)}}});
  }
  return {"tpu_families",
          "",
          {left("names"), left("title"), left("unit"),
           left("cores_per_chip", "cores_per_chip"),
           left("devices_per_chip", "devices_per_chip"),
           left("chips_per_host", "chips_per_host"), left("sizes"),
           left("step"), left("most"), left("hardware"), left("sources")},
          rows_of(std::move(rows)),
          Audience::Programs};
}

Table machines_table(Audience audience) {
  std::vector<Row> rows;
  for (const GpuMachine& machine : gpu_machines()) {
    if (audience == Audience::People) {
      rows.push_back({words_of(machine.names), std::string(machine.title),
                      Count{machine.devices.value},
                      std::string(machine.hardware)});
      continue;
    }
    rows.push_back({names_cell(machine.names), std::string(machine.title),
                    Count{machine.devices.value}, std::string(machine.hardware),
                    std::string(machine.devices.source)});
  }
  Table table = {audience == Audience::People ? "machines_shown" : "machines",
                 "Machines; 4xNAME is four of them",
                 {left("names", "name"), left("title"), right("devices"),
                  left("hardware")}};
  if (audience == Audience::Programs) table.columns.push_back(left("source"));
  table.rows = rows_of(std::move(rows));
  table.audience = audience;
  return table;
}

Table accelerators_table(Audience audience) {
  std::vector<Row> rows;
  for (const PlainAccelerator& plain : plain_accelerators()) {
    rows.push_back({audience == Audience::People
                        ? Cell(words_of(plain.names))
                        : Cell(names_cell(plain.names)),
                    std::string(plain.hardware)});
  }
  Table table;
  table.id =
      audience == Audience::People ? "accelerators_shown" : "accelerators";
  table.title = "Accelerators with any interconnect; 8xNAME is eight of them";
  table.columns = {left("names", "name"), left("hardware")};
  table.rows = rows_of(std::move(rows));
  table.audience = audience;
  return table;
}

Table sources_table() {
  std::vector<Row> rows;
  for (const TopologySource& source : topology_sources()) {
    rows.push_back({std::string(source.id), std::string(source.title),
                    std::string(source.url), std::string(source.read)});
  }
  return {"sources",
          "",
          {left("id"), left("title"), left("url"), left("read")},
          rows_of(std::move(rows)),
          Audience::Programs};
}

}  // namespace

std::vector<Table> topology_overview() {
  return {families_table(),
          machines_table(Audience::People),
          accelerators_table(Audience::People),
          families_for_programs(),
          machines_table(Audience::Programs),
          accelerators_table(Audience::Programs),
          sources_table()};
}

std::vector<Table> topology_details(const NamedTopology& topology) {
  const auto count_or_nothing = [](const std::optional<int64_t>& count) {
    return count ? Cell(Count{*count}) : Cell();
  };
  Table said = {"topology",
                "",
                {left("name"), right("devices"), right("slices"),
                 right("hosts"), left("hardware")}};
  said.rows = rows_of(
      {{topology.name, Count{topology.devices},
        count_or_nothing(topology.slices), count_or_nothing(topology.hosts),
        word_or_nothing(topology.hardware)}});
  std::vector<Row> rows;
  for (const auto& [quantity, number] : topology.numbers) {
    const TopologySource& source = source_of(number);
    rows.push_back({quantity, Count{number.value}, std::string(source.read),
                    std::string(source.title), std::string(source.url)});
  }
  Table numbers;
  numbers.id = "numbers";
  numbers.title = "Sources of the numbers";
  numbers.columns = {left("quantity"), right("value"), left("read"),
                     left("source"), left("url")};
  numbers.rows = rows_of(std::move(rows));
  if (topology.numbers.empty()) return {said};
  return {said, numbers};
}

}  // namespace shardplan::cli
