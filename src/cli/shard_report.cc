// SPDX-License-Identifier: Apache-2.0
#include "cli/shard_report.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/text.h"
#include "cli/parameter_name.h"
#include "core/shard_map.h"
#include "report/shard_grid.h"

namespace shardplan::cli {
namespace {

const AxisNames& axes_of(const PartitionSpec& spec, size_t dim) {
  static const AxisNames kNone;
  return dim < spec.dims.size() ? spec.dims[dim] : kNone;
}

// Axes larger than 1 that no dimension names: along them all hold the same.
AxisNames repeating_axes(const Mesh& mesh, const PartitionSpec& spec) {
  AxisNames axes;
  for (const Axis& axis : mesh.axes()) {
    const bool used = std::any_of(
        spec.dims.begin(), spec.dims.end(), [&](const AxisNames& names) {
          return std::find(names.begin(), names.end(), axis.name) !=
                 names.end();
        });
    if (axis.size > 1 && !used) axes.push_back(axis.name);
  }
  return axes;
}

Table dimensions_table(const Placement& p, const Mesh& mesh,
                       OnIndivisible policy) {
  const Shape shape = stored_shape(p);
  std::vector<Row> rows;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const AxisNames& axes = axes_of(p.spec, dim);
    const int64_t shards = shard_count(mesh, axes);
    int64_t stored = 0;  // over all shards
    for (const ShardSize& s :
         shard_sizes(mesh, axes, cut_of(policy), shape[dim])) {
      stored += s.rows * s.count;
    }
    rows.push_back({Count{static_cast<int64_t>(dim)}, Count{shape[dim]},
                    Names{axes}, Count{shards}, Count{p.local_shape[dim]},
                    Count{stored - shape[dim]}});
  }
  Table table;
  table.id = "dimensions";
  table.columns = {{"dim", "dimension", Align::Right},
                   {"size", "size", Align::Right},
                   {"axes", "axes"},
                   {"shards", "shards", Align::Right},
                   {"local_size", "rows of a shard", Align::Right},
                   {"padding", "padding", Align::Right}};
  table.rows = rows_of(std::move(rows));
  return table;
}

Table shards_table(const Placement& p, const Mesh& mesh, OnIndivisible policy) {
  Table table;
  table.id = "shards";
  table.columns = {{"device", "device"},
                   {"coordinates", "coordinates"},
                   {"begin", "begin"},
                   {"end", "end"},
                   {"padding", "padding"}};
  table.audience = Audience::Programs;
  table.rows = [&p, &mesh, policy](const RowSink& sink) {
    for (int64_t device = 0; device < mesh.devices(); ++device) {
      HeldSlice held = held_slice(p, mesh, policy, device);
      Numbers begin;
      Numbers end;
      for (const Slice& slice : held.slices) {
        begin.values.push_back(slice.begin);
        end.values.push_back(slice.end);
      }
      sink(Row{Count{device}, Numbers{std::move(held.coordinates)}, begin, end,
               Numbers{std::move(held.padding)}});
    }
  };
  return table;
}

// What is rows and what is columns in the drawing.
std::string drawn_text(const ShardMap& map) {
  const DrawnDims dims = drawn_dims(map);
  if (dims.column < 0) return "a scalar has one";
  std::string text = "columns are dimension " + std::to_string(dims.column);
  if (dims.row >= 0) {
    text = "rows are dimension " + std::to_string(dims.row) + ", " + text;
  }
  return text;
}

std::vector<std::string> notes_of(const Placement& p, const Plan& plan) {
  std::vector<std::string> notes;
  const AxisNames repeating = repeating_axes(plan.mesh, p.spec);
  if (!repeating.empty()) {
    std::string axes;
    for (const AxisName& axis : repeating) {
      axes += (axes.empty() ? "" : ", ") + axis;
    }
    notes.push_back("every shard lies on " + plural(p.replicas, "device") +
                    ", along " + axes);
  }
  for (const StoredDim& stored : p.stored) {
    notes.push_back("dimension " + std::to_string(stored.dim) +
                    " is stored as " + std::to_string(stored.size) +
                    " rows: " + stored.why);
  }
  return notes;
}

}  // namespace

std::optional<Report> shard_report(Context& context, const Session& session,
                                   const std::string& name) {
  const auto parameter =
      find_parameter(session.manifest, session.folding, name, context.diags);
  if (!parameter) return std::nullopt;
  const Mesh& mesh = session.plan.mesh;
  if (mesh.devices() > kMaxMappedDevices) {
    return context.diags
        .error(Code::Usage, {},
               "`--shard` lists at most " + count_text(kMaxMappedDevices) +
                   " devices")
        .fact("the mesh has " + count_text(mesh.devices()))
        .help("a smaller mesh shows the same pattern");
  }
  const Placement& p = session.plan.of(*parameter);
  const OnIndivisible policy = session.plan.on_indivisible;
  auto map = std::make_shared<const ShardMap>(shard_map(p, mesh, policy));
  const std::string title(session.manifest.name(*parameter));

  Report report;
  report.command = "inspect";
  report.diagnostics = &context.diags;
  report.summary = {{"parameter", title},
                    {"dtype", std::string(dtype_name(p.type.dtype))},
                    {"shape", Dims{p.type.shape}},
                    {"spec", p.spec},
                    {"local_shape", Dims{p.local_shape}},
                    {"bytes_per_device", ByteSize{p.bytes_per_device}},
                    {"shards", Count{p.shards}},
                    {"replicas", Count{p.replicas}},
                    {"devices", Count{mesh.devices()}},
                    {"mesh", MeshCell{mesh}}};
  report.headline = {printable(title) + "  " + type_text(p.type) + "  " +
                         spec_text(p.spec) + "    mesh " + mesh_text(mesh) +
                         ": " + plural(mesh.devices(), "device"),
                     "ids of devices in boxes; " + drawn_text(*map)};
  const bool expand = context.options.expand;
  report.drawing = [map, expand](const Style& style) {
    return draw_shards(*map, style.width, expand);
  };
  report.tables = {dimensions_table(p, mesh, policy),
                   shards_table(p, mesh, policy)};
  report.notes = notes_of(p, session.plan);
  return report;
}

}  // namespace shardplan::cli
