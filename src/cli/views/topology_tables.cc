// SPDX-License-Identifier: Apache-2.0
#include "cli/views/topology_tables.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "cli/views/columns.h"

namespace shardplan::cli {
namespace {

// Returns the names as a text for people, or as a list.
Cell names_cell(const std::vector<std::string_view>& names, bool for_people) {
  Names all = {{names.begin(), names.end()}};
  return for_people ? Cell(joined(all.values, ", ")) : Cell(std::move(all));
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
  const auto found =
      std::ranges::find(sources, number.source, &TopologySource::id);
  SHARDPLAN_CHECK(found != sources.end());
  return *found;
}

Table families_table() {
  std::vector<Row> rows;
  for (const TpuFamily& family : tpu_families()) {
    const NamedTopology example =
        known_topology_named(std::string(family.names.front()) + "-" +
                             std::to_string(family.example));
    rows.push_back({names_cell(family.names, true), unit_name(family.unit),
                    sizes_text(family), example.name, Count{example.devices},
                    text_cell(family.hardware)});
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
    rows.push_back({names_cell(family.names, false), text_cell(family.title),
                    unit_name(family.unit), Count{family.cores_per_chip.value},
                    Count{family.devices_per_chip.value},
                    Count{family.chips_per_host.value}, Numbers{family.sizes},
                    family.step > 0 ? Cell(Count{family.step}) : Cell(),
                    Count{family.most.value}, text_cell(family.hardware),
                    Names{{std::string(family.unit_source),
                           std::string(family.cores_per_chip.source),
                           std::string(family.devices_per_chip.source),
                           std::string(family.chips_per_host.source),
                           std::string(family.most.source)}}});
  }
  return {"tpu_families",
          "",
          {left("names"), left("title"), left("unit"), left("cores_per_chip"),
           left("devices_per_chip"), left("chips_per_host"), left("sizes"),
           left("step"), left("most"), left("hardware"), left("sources")},
          rows_of(std::move(rows)),
          Audience::Programs};
}

Table machines_table(bool for_people) {
  return table_of(
      for_people ? "machines_shown" : "machines",
      "Machines; 4xNAME is four of them", gpu_machines(),
      {{left("names", "name"),
        [=](auto& machine) { return names_cell(machine.names, for_people); }},
       {left("title"), [](auto& machine) { return text_cell(machine.title); }},
       {right("devices"),
        [](auto& machine) { return Count{machine.devices.value}; }},
       {left("hardware"),
        [](auto& machine) { return text_cell(machine.hardware); }},
       {left("source"),
        [](auto& machine) { return text_cell(machine.devices.source); },
        !for_people}},
      audience_of(for_people));
}

Table accelerators_table(bool for_people) {
  return table_of(
      for_people ? "accelerators_shown" : "accelerators",
      "Accelerators with any interconnect; 8xNAME is eight of them",
      plain_accelerators(),
      {{left("names", "name"),
        [=](auto& plain) { return names_cell(plain.names, for_people); }},
       {left("hardware"),
        [](auto& plain) { return text_cell(plain.hardware); }}},
      audience_of(for_people));
}

Table sources_table() {
  return table_of(
      "sources", "", topology_sources(),
      {{left("id"), [](auto& source) { return text_cell(source.id); }},
       {left("title"), [](auto& source) { return text_cell(source.title); }},
       {left("url"), [](auto& source) { return text_cell(source.url); }},
       {left("read"), [](auto& source) { return text_cell(source.read); }}},
      Audience::Programs);
}

}  // namespace

std::vector<Table> topology_overview() {
  return {families_table(),         machines_table(true),
          accelerators_table(true), families_for_programs(),
          machines_table(false),    accelerators_table(false),
          sources_table()};
}

std::vector<Table> topology_details(const NamedTopology& topology) {
  std::vector<Table> tables = {
      {"topology",
       "",
       {left("name"), right("devices"), right("slices"), right("hosts"),
        left("hardware")},
       rows_of({{topology.name, Count{topology.devices},
                 optional_cell<Count>(topology.slices),
                 optional_cell<Count>(topology.hosts),
                 text_cell(topology.hardware)}})}};
  if (topology.numbers.empty()) return tables;
  std::vector<Row> rows;
  for (const auto& [quantity, number] : topology.numbers) {
    const TopologySource& source = source_of(number);
    rows.push_back({quantity, Count{number.value}, text_cell(source.read),
                    text_cell(source.title), text_cell(source.url)});
  }
  tables.push_back({"numbers",
                    "Sources of the numbers",
                    {left("quantity"), right("value"), left("read"),
                     left("source"), left("url")},
                    rows_of(std::move(rows))});
  return tables;
}

}  // namespace shardplan::cli
