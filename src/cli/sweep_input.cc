// SPDX-License-Identifier: Apache-2.0
#include "cli/sweep_input.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "base/text.h"
#include "cli/device_limit.h"
#include "cli/flag_values.h"
#include "cli/mesh_input.h"
#include "memory/sweep.h"

namespace shardplan::cli {
namespace {

// More take too long to read, let alone to compute.
constexpr size_t kMaxMeshes = 10'000;

void add_once(Mesh mesh, std::vector<Mesh>& meshes) {
  if (std::find(meshes.begin(), meshes.end(), mesh) == meshes.end()) {
    meshes.push_back(std::move(mesh));
  }
}

// The meshes of one text, for every number of devices that was given.
bool add_written(Context& context, const std::string& text,
                 std::vector<Mesh>& meshes) {
  const Options& options = context.options;
  const auto source = std::make_shared<SourceFile>(options.mesh->name(), text);
  std::vector<std::optional<int64_t>> counts(options.sweep.devices.begin(),
                                             options.sweep.devices.end());
  if (counts.empty()) counts.emplace_back();
  for (const std::optional<int64_t>& count : counts) {
    auto mesh = written_mesh(source, options, count, context.diags);
    if (!mesh) return false;
    add_once(std::move(mesh->mesh), meshes);
  }
  return true;
}

bool add_over(Context& context, std::vector<Mesh>& meshes) {
  const SweepOptions& sweep = context.options.sweep;
  if (sweep.devices.empty()) {
    context.diags
        .error(Code::Usage, {}, "`--over` needs numbers of devices to cut")
        .help("add `--devices`, e.g. `--devices 8,16,64`");
    return false;
  }
  for (const int64_t devices : sweep.devices) {
    auto made = factorizations(devices, sweep.over, kMaxMeshes);
    if (!made || meshes.size() + made->size() > kMaxMeshes) {
      context.diags
          .error(Code::Usage, {},
                 "`--over` makes more than " +
                     count_text(static_cast<int64_t>(kMaxMeshes)) + " meshes")
          .help("name fewer axes, or fewer numbers of devices");
      return false;
    }
    for (Mesh& mesh : *made) add_once(std::move(mesh), meshes);
  }
  return true;
}

bool check_over(Context& context) {
  const AxisNames& over = context.options.sweep.over;
  for (size_t i = 0; i < over.size(); ++i) {
    if (std::find(over.begin(), over.begin() + static_cast<std::ptrdiff_t>(i),
                  over[i]) == over.begin() + static_cast<std::ptrdiff_t>(i)) {
      continue;
    }
    context.diags
        .error(Code::Usage, {}, "`--over` names axis `" + over[i] + "` twice")
        .help("name each axis once");
    return false;
  }
  return true;
}

}  // namespace

std::optional<std::vector<Mesh>> sweep_meshes(Context& context,
                                              const RuleSet& rules) {
  const Options& options = context.options;
  std::vector<Mesh> meshes;
  if (!options.sweep.over.empty()) {
    if (options.mesh != nullptr) {
      return context.diags
          .error(Code::Usage, {}, "both `--mesh` and `--over` are given")
          .help("name the meshes, or the axes to make them of");
    }
    if (options.slices) {
      return context.diags
          .error(Code::Usage, {}, "both `--slices` and `--over` are given")
          .help(
              "leave `--slices` out: what devices hold does not depend on "
              "slices");
    }
    if (!check_over(context) || !add_over(context, meshes)) {
      return std::nullopt;
    }
    return meshes;
  }
  if (options.mesh != nullptr) {
    for (const std::string& text : split_list(options.mesh->text(), ';')) {
      if (!add_written(context, text, meshes)) return std::nullopt;
    }
    return meshes;
  }
  if (!rules.mesh) {
    return context.diags.error(Code::InvalidMesh, {}, "no mesh was given")
        .help(
            "add `--mesh \"fsdp=8,tp=4;fsdp=16,tp=2\"`, or `--devices 8,16 "
            "--over fsdp,tp`");
  }
  auto mesh =
      mesh_of_rules(rules, options.devices, options.slices, context.diags);
  if (!mesh) return std::nullopt;
  meshes.push_back(std::move(mesh->mesh));
  return meshes;
}

std::vector<Workload> sweep_workloads(const Options& options) {
  std::vector<Workload> workloads;
  std::vector<int64_t> batches = options.sweep.batch;
  if (batches.empty()) batches.push_back(1);
  for (const int64_t batch : batches) {
    for (const int64_t seq : options.sweep.seq)
      workloads.push_back({batch, seq});
  }
  return workloads;
}

std::optional<std::vector<SweepDevice>> sweep_devices(Context& context) {
  std::vector<SweepDevice> devices;
  std::vector<std::optional<std::string>> names(
      context.options.sweep.hardware.begin(),
      context.options.sweep.hardware.end());
  if (names.empty()) names.emplace_back();
  for (const std::optional<std::string>& name : names) {
    Options options = context.options;
    options.memory.hardware = name;
    SweepDevice device;
    device.limit = device_limit(options, context.host, context.diags);
    if (context.diags.cannot_run()) return std::nullopt;
    const auto reserve = reserve_bytes(options, device.limit, context.diags);
    if (!reserve) return std::nullopt;
    device.reserve = *reserve;
    devices.push_back(std::move(device));
  }
  return devices;
}

}  // namespace shardplan::cli
