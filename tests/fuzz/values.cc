// SPDX-License-Identifier: Apache-2.0
// Documents, meshes, equations, graphs, plans, hardware profiles and what was
// measured.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/mesh.h"
#include "cost/kernels.h"
#include "findings/program_findings.h"
#include "graph/build.h"
#include "graph/op.h"
#include "graph/ops/einsum.h"
#include "io/graph/graph_file.h"
#include "io/hardware.h"
#include "io/plan/plan_file.h"
#include "syntax/document.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/memory_host.h"

// JSON and YAML documents: every node reached has its place inside the text.

namespace shardplan::fuzz {
namespace {

// Aliases share nodes, so a small file may stand for many: look at some.
void visit(const Node& node, size_t length, int& budget) {
  if (--budget < 0) return;
  require(node.span().begin <= node.span().end, "a span runs forwards");
  require(node.span().end <= length, "a span ends within the text");
  for (size_t i = 0; i < node.size(); ++i) visit(node.item(i), length, budget);
}

}  // namespace
}  // namespace shardplan::fuzz

FUZZ_TARGET(document) {
  using namespace shardplan;
  Diagnostics diags;
  auto source = std::make_shared<SourceFile>(
      "document", std::string(fuzz::text_of(data, size)));
  const std::optional<Document> document = parse_document(source, diags);
  fuzz::require(document.has_value() != diags.has_errors(),
                "no document without a reason, and none with one");
  int budget = 10000;
  if (document) fuzz::visit(document->root(), size, budget);
  return 0;
}

// Meshes on the command line, by name and by sizes, and their slices: what is
// accepted prints back to itself, and slices are equal parts.

namespace {

std::optional<shardplan::Mesh> parse(std::string text,
                                     std::optional<int64_t> devices,
                                     shardplan::Diagnostics& diags) {
  const shardplan::SourceFile source("--mesh", std::move(text));
  const auto axes = shardplan::parse_mesh_text(source, diags);
  if (!axes) return std::nullopt;
  return shardplan::make_mesh(*axes, devices, {}, diags);
}

// The same sizes within slices and over them, or of the whole mesh.
void check_slices(std::string text, int64_t devices, int64_t slices,
                  bool both) {
  using namespace shardplan;
  const SourceFile source("--mesh", std::move(text));
  Diagnostics diags;
  auto axes = parse_mesh_text(source, diags);
  if (!axes) axes = parse_mesh_dims(source, {"dp", "tp"}, diags);
  if (!axes) return;
  const std::vector<AxisRequest> dcn =
      both ? *axes : std::vector<AxisRequest>();
  const size_t before = diags.all().size();
  const auto mesh = make_sliced_mesh(*axes, dcn, devices, slices, {}, diags);
  fuzz::require(mesh.has_value() || diags.all().size() > before,
                "a refusal has a reason");
  if (!mesh) return;
  fuzz::require(mesh->slices.has_value(), "slices were asked for");
  fuzz::require(mesh->slices->count() == slices, "as many as were asked for");
  for (size_t i = 0; i < mesh->mesh.axes().size(); ++i) {
    fuzz::require(mesh->mesh.axes()[i].size % mesh->slices->crossed[i] == 0,
                  "slices are equal parts");
  }
}

}  // namespace

FUZZ_TARGET(mesh) {
  using namespace shardplan;
  if (size == 0) return 0;
  std::optional<int64_t> devices;
  if (data[0] < 128) devices = int64_t{1} << (data[0] % 48U);
  check_slices(std::string(fuzz::text_of(data + 1, size - 1)),
               devices.value_or(64), 1 + data[0] % 5, data[0] % 2 == 0);
  Diagnostics diags;
  const auto mesh =
      parse(std::string(fuzz::text_of(data + 1, size - 1)), devices, diags);
  fuzz::require(mesh.has_value() || diags.has_errors(),
                "a refusal has a reason");
  if (!mesh) return 0;
  fuzz::require(mesh->devices() <= kMaxDevices, "a mesh is not too large");
  fuzz::require(parse(mesh_text(*mesh), std::nullopt, diags) == mesh,
                "a mesh prints as it is read");
  return 0;
}

// Equations of einsum: what is accepted prints back to itself, and fits shapes
// of its own ranks with every letter as a factor.
FUZZ_TARGET(einsum) {
  using namespace shardplan;
  const std::string_view text = fuzz::text_of(data, size);
  Diagnostics diags;
  const auto equation = parse_equation(text, {}, diags);
  fuzz::require(equation.has_value() || diags.has_errors(),
                "a refusal has a reason");
  if (!equation) return 0;
  fuzz::require(parse_equation(equation_text(*equation), {}, diags) == equation,
                "an equation prints as it is read");
  const OpDef& einsum = *find_op("einsum");
  const Attributes attributes = {{"equation", std::string(text)}};
  std::vector<Shape> shapes;
  for (const std::string& letters : equation->operands) {
    Shape& shape = shapes.emplace_back();
    for (const char letter : letters) shape.push_back(letter % 3);
  }
  const auto result = einsum.infer(shapes, attributes, {}, diags);
  fuzz::require(result.has_value(), "sizes that agree fit");
  fuzz::require(result->size() == equation->result.size(),
                "the result has the rank that is written");
  const ShardingRule rule = einsum.rule(shapes, attributes);
  fuzz::require(rule.factors.size() == letters_of(*equation).size(),
                "every letter is a factor");
  fuzz::require(einsum.flops(shapes, *result, attributes) >= 0,
                "a count is not negative");
  return 0;
}

// Graph files: what is read and built keeps what the headers promise.

namespace {

using shardplan::Graph;
using shardplan::Value;

void check_graph(const Graph& graph) {
  using shardplan::fuzz::require;
  shardplan::PerValue<bool> known(graph.values.size());
  for (const shardplan::ValueId i : graph.values.ids()) {
    const Value& value = graph.values[i];
    known[i] = value.kind != Value::Kind::Result;
    require(shardplan::element_count(value.shape).has_value(),
            "elements of every value fit 63 bits");
    require(value.axes.empty() || value.axes.size() == value.shape.size(),
            "labels are of dimensions");
    require(!value.spec || value.spec->dims.size() <= value.shape.size(),
            "specs are no longer than shapes");
  }
  for (const auto& node : graph.nodes) {
    require(node.rule.operands.size() == node.operands.size(),
            "every operand has factors");
    for (const shardplan::ValueId operand : node.operands) {
      require(known[operand], "operands are made before they are read");
    }
    known[node.result] = true;
  }
  require(!graph.outputs.empty(), "a graph computes something");
}

}  // namespace

FUZZ_TARGET(graph) {
  using namespace shardplan;
  Diagnostics diags;
  auto source = std::make_shared<SourceFile>(
      "g.yaml", std::string(fuzz::text_of(data, size)));
  const auto described = read_graph(source, {}, diags);
  fuzz::require(described.has_value() == !diags.has_errors(),
                "a refusal has a reason, and only a refusal");
  if (!described) return 0;
  Diagnostics of_model;
  const auto manifest = graph_manifest(*described, of_model);
  fuzz::require(manifest.has_value() == !of_model.has_errors(),
                "a model that is none has a reason");
  const auto graph = build_graph(*described, {}, diags);
  fuzz::require(graph.has_value() == !diags.has_errors(),
                "a graph that is none has a reason");
  if (!graph) return 0;
  check_graph(*graph);
  repeated_biases(*graph);
  return 0;
}

// Saved plans: what is read, written and read again is the same plan.

namespace {

std::string written(const shardplan::SavedPlan& saved) {
  std::string text;
  shardplan::write_plan(saved.manifest, saved.plan, [&](std::string_view part) {
    text += part;
    return true;
  });
  return text;
}

}  // namespace

FUZZ_TARGET(plan) {
  using namespace shardplan;
  Diagnostics diags;
  const auto saved =
      read_plan(std::make_shared<SourceFile>(
                    "plan", std::string(fuzz::text_of(data, size))),
                diags);
  fuzz::require(saved.has_value() || diags.has_errors(),
                "a refusal has a reason");
  if (!saved) return 0;
  const std::string text = written(*saved);
  const auto again =
      read_plan(std::make_shared<SourceFile>("again", text), diags);
  fuzz::require(again.has_value(), "a plan that was written can be read");
  fuzz::require(written(*again) == text, "and is the same plan");
  return 0;
}

// Hardware profiles: what is read keeps what the header promises.

namespace {

using shardplan::HardwareProfile;
using shardplan::LinkTier;
using shardplan::Sourced;

template <typename T>
void check(const HardwareProfile& profile, const Sourced<T>& number) {
  shardplan::fuzz::require(number.source < profile.sources.size(),
                           "every number has a source");
  shardplan::fuzz::require(!number.estimated || !number.note.empty(),
                           "every estimate says how");
}

void check_rate(const HardwareProfile& profile, const Sourced<double>& rate) {
  check(profile, rate);
  shardplan::fuzz::require(std::isfinite(rate.value) && rate.value > 0,
                           "rates are positive and finite");
}

// One value per point, none of which is a nonsense.
void check_grid(const HardwareProfile& profile,
                const shardplan::MeasuredGrid& grid) {
  using shardplan::fuzz::require;
  require(grid.source < profile.sources.size(), "every table has its source");
  size_t points = 1;
  for (const std::vector<double>& axis : grid.axes) {
    require(!axis.empty() && axis.front() > 0, "axes begin above 0");
    for (size_t i = 1; i < axis.size(); ++i) {
      require(axis[i - 1] < axis[i], "axes ascend");
    }
    points *= axis.size();
  }
  require(grid.values.size() == points, "every point has a value");
  for (const double value : grid.values) {
    require(std::isfinite(value) && value >= 0, "values are finite");
  }
}

void check_measured(const HardwareProfile& profile) {
  const shardplan::MeasuredTables& measured = profile.measured;
  for (const auto& table : measured.products) check_grid(profile, table.rate);
  for (const auto& table : measured.attention) check_grid(profile, table.rate);
  for (const auto& table : measured.collectives) {
    check_grid(profile, table.seconds);
  }
  if (measured.memory) check_grid(profile, *measured.memory);
  for (const auto& number :
       {measured.sustained, measured.kernel_seconds,
        measured.eager_launch_seconds, measured.host_bytes_per_second,
        measured.network_bytes_per_second}) {
    if (number) check_rate(profile, *number);
  }
}

void check_profile(const HardwareProfile& profile) {
  using shardplan::fuzz::require;
  check(profile, profile.devices_per_chip);
  require(profile.devices_per_chip.value >= 1, "a chip has a device");
  for (const auto& source : profile.sources) {
    require(!source.title.empty() && source.read.size() == 10,
            "every source has a title and a date");
  }
  if (const auto& usable = profile.hbm_usable_bytes) {
    check(profile, *usable);
    require(profile.hbm_bytes && usable->value >= 1 &&
                usable->value <= profile.hbm_bytes->value,
            "no more is usable than there is");
  }
  for (const auto& rate : profile.flops_per_second) {
    check_rate(profile, rate.second);
  }
  for (const LinkTier& link : profile.links) {
    check_rate(profile, link.bytes_per_second);
    require(link.topology == shardplan::Topology::Torus || !link.extents,
            "only a torus has extents");
  }
  check_measured(profile);
}

}  // namespace

FUZZ_TARGET(hardware) {
  using namespace shardplan;
  Diagnostics diags;
  auto source = std::make_shared<SourceFile>(
      "hw.yaml", std::string(fuzz::text_of(data, size)));
  diags.add_source(source);
  const auto profile = read_hardware(source, diags, Tables::Read);
  fuzz::require(profile.has_value() == !diags.has_errors(),
                "a refusal has a reason, and only a refusal");
  if (profile) check_profile(*profile);
  return 0;
}

// What users measured: nccl-tests' output and CSV. A card that is calibrated by
// it still gives brackets.
FUZZ_TARGET(calibration) {
  using namespace shardplan;
  testing::MemoryHost host;
  Diagnostics diags;
  static const std::optional<HardwareProfile> kCard = [] {
    testing::MemoryHost none;
    Diagnostics unused;
    return load_hardware("h100-sxm", none, unused, Tables::Read);
  }();
  HardwareProfile card = *kCard;
  host.files["measured"] = std::string(fuzz::text_of(data, size));
  const std::string paths[] = {"measured"};
  const bool fine = calibrate(paths, card, host, diags);
  fuzz::require(fine == !diags.cannot_run(),
                "a refusal has a reason, and only a refusal");
  if (!fine) return 0;
  check_measured(card);
  for (const double rows : {1.0, 300.0, 1e5}) {
    ProductShape shape;
    shape.m = rows;
    shape.n = shape.k = 1000;
    const auto time = product_time(card, Precision::BF16, shape);
    fuzz::require(time && time->seconds.lower <= time->seconds.estimate &&
                      time->seconds.estimate <= time->seconds.upper,
                  "a product has a bracket");
  }
  return 0;
}
