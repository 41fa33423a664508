// SPDX-License-Identifier: Apache-2.0
#include "tests/support/recorded_programs.h"

#include <algorithm>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <utility>

#include <nlohmann/json.hpp>

#include "io/graph/graph_file.h"
#include "tests/support/json_axes.h"
#include "tests/support/messages.h"
#include "tests/support/source_dir.h"

namespace shardplan::testing {
namespace {

// The order of keys is that of the file: a graph's values are numbered by it.
using Json = nlohmann::ordered_json;

const std::map<std::string, CollectiveKind> kKinds = {
    {"all-gather", CollectiveKind::AllGather},
    {"all-reduce", CollectiveKind::AllReduce},
    {"reduce-scatter", CollectiveKind::ReduceScatter},
    {"all-to-all", CollectiveKind::AllToAll},
    {"collective-permute", CollectiveKind::Permute},
};

PartitionSpec spec_of(const Json& entries) {
  PartitionSpec spec;
  for (const Json& entry : entries) {
    AxisNames& axes = spec.dims.emplace_back();
    if (entry.is_string()) axes = {entry.get<std::string>()};
    if (entry.is_array()) axes = entry.get<AxisNames>();
  }
  return spec;
}

// "dp=4,tp=2"
Mesh mesh_of(const std::string& text) {
  std::vector<Axis> axes;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const size_t equals = text.find('=', begin);
    axes.push_back({text.substr(begin, equals - begin),
                    std::stoi(text.substr(equals + 1, end - equals - 1))});
    begin = end + 1;
  }
  return Mesh(std::move(axes));
}

RecordedCollective collective_of(const Json& row) {
  const std::string element = row.at("element");
  if (element != "f32" && element != "s32") {
    throw std::runtime_error("no element of 4 bytes: " + element);
  }
  return {kKinds.at(row.at("kind")),
          row.at("axes").get<AxisNames>(),
          row.at("ranks"),
          row.at("operand").get<Shape>(),
          row.at("result").get<Shape>(),
          row.at("bytes"),
          row.value("sliced", false)};
}

}  // namespace

std::vector<RecordedProgram> recorded_programs() {
  std::ifstream stream(source_dir() / "tests/data/jax/programs.json");
  if (!stream) throw std::runtime_error("cannot read programs.json");
  const Json file = Json::parse(stream);
  std::vector<RecordedProgram> programs;
  for (const Json& row : file.at("programs")) {
    RecordedProgram& program = programs.emplace_back();
    program.name = row.at("name");
    program.group = row.at("group");
    program.mesh = mesh_of(row.at("mesh"));
    program.graph = row.at("graph").dump();
    for (const auto& [name, spec] : row.at("specs").items()) {
      program.specs[name] = spec_of(spec);
    }
    for (const Json& result : row.at("results")) {
      program.results.push_back({result.at("shape").get<Shape>(),
                                 spec_of(result.at("spec")),
                                 result.at("values")});
    }
    for (const Json& collective : row.at("collectives")) {
      program.collectives.push_back(collective_of(collective));
    }
  }
  return programs;
}

DescribedProgram described(const RecordedProgram& program) {
  Diagnostics diags;
  auto graph = read_graph(
      std::make_shared<const SourceFile>(program.name, program.graph), {},
      diags);
  if (!graph) throw std::runtime_error(messages(diags));
  auto parameters = graph_manifest(*graph, diags);
  if (!parameters) throw std::runtime_error(messages(diags));
  return {std::move(*graph), std::move(*parameters)};
}

// FNV-1a of the name starts the count, MurmurHash3's finaliser mixes it.
std::vector<double> recorded_numbers(std::string_view name, const Shape& shape,
                                     int64_t below) {
  uint32_t start = 2166136261U;
  for (const char c : name) {
    start = (start ^ static_cast<unsigned char>(c)) * 16777619U;
  }
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  std::vector<double> numbers;
  for (int64_t i = 0; i < count; ++i) {
    uint32_t h = start + static_cast<uint32_t>(i);
    h = (h ^ (h >> 16)) * 0x85EBCA6BU;
    h = (h ^ (h >> 13)) * 0xC2B2AE35U;
    h ^= h >> 16;
    numbers.push_back(below != 0 ? static_cast<double>(h % below)
                                 : (static_cast<double>(h % 17) - 8) / 8);
  }
  return numbers;
}

}  // namespace shardplan::testing
