// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/words.h"
#include "cli/commands/sweep/sweep.h"
#include "cli/flag_values.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "core/views.h"
#include "memory/sweep.h"
#include "session/session.h"

namespace shardplan::cli {
namespace {

// More would take too long to read, let alone to compute.
constexpr size_t kMaxMeshes = 10'000;

void add_once(SlicedMesh mesh, std::vector<SlicedMesh>& meshes) {
  if (std::ranges::find(meshes, mesh.mesh, &SlicedMesh::mesh) == meshes.end()) {
    meshes.push_back(std::move(mesh));
  }
}

// Expands `tp=1,2,4` into tp=1, tp=2 and tp=4: a part that is only a size is
// another size of the axis before it. The meshes are in the order written; the
// last list varies fastest.
std::vector<std::string> listed_meshes(const std::string& text) {
  std::vector<std::vector<std::string>> axes;  // spellings per axis
  for (const std::string& part : split_list(text)) {
    const bool is_size =
        !part.empty() && part.find_first_not_of("0123456789") == part.npos;
    const size_t sign = axes.empty() ? std::string::npos
                                     : axes.back().front().find_first_of("=:");
    if (is_size && sign != std::string::npos) {
      axes.back().push_back(axes.back().front().substr(0, sign + 1) + part);
    } else {
      axes.push_back({part});
    }
  }
  std::vector<std::string> meshes = {""};
  for (const std::vector<std::string>& spellings : axes) {
    std::vector<std::string> more;
    for (const std::string& mesh : meshes) {
      for (const std::string& axis : spellings) {
        if (more.size() == kMaxMeshes + 1) break;
        more.push_back(mesh + (mesh.empty() ? "" : ",") + axis);
      }
    }
    meshes = std::move(more);
  }
  return meshes;
}

// Adds the meshes of one text, for every number of devices given.
bool add_written(const SweepRequest& sweep, const PlanRequest& planning,
                 const std::string& text, std::vector<SlicedMesh>& meshes,
                 Diagnostics& diags) {
  const auto source = std::make_shared<SourceFile>(planning.mesh->name(), text);
  std::vector<std::optional<int64_t>> counts(sweep.devices.begin(),
                                             sweep.devices.end());
  if (counts.empty()) counts.emplace_back();
  for (const std::optional<int64_t>& count : counts) {
    auto mesh = written_mesh(source, planning, count, diags);
    if (!mesh) return false;
    add_once(*std::move(mesh), meshes);
  }
  return true;
}

bool add_over(const SweepRequest& sweep, std::vector<SlicedMesh>& meshes,
              Diagnostics& diags) {
  if (sweep.devices.empty()) {
    diags.error(Code::Usage, {}, "`--over` needs device counts to split")
        .help("add `--devices`, e.g. `--devices 8,16,64`, or `--topology`");
    return false;
  }
  for (const int64_t devices : sweep.devices) {
    auto made = factorizations(devices, sweep.over, kMaxMeshes);
    if (!made || meshes.size() + made->size() > kMaxMeshes) {
      diags
          .error(Code::Usage, {},
                 "`--over` expands to more than " +
                     count_text(static_cast<int64_t>(kMaxMeshes)) + " meshes")
          .help("name fewer axes or fewer device counts");
      return false;
    }
    for (Mesh& mesh : *made) add_once({std::move(mesh), {}}, meshes);
  }
  return true;
}

bool check_over(const AxisNames& over, Diagnostics& diags) {
  for (size_t i = 0; i < over.size(); ++i) {
    if (std::find(over.begin(), over.begin() + static_cast<std::ptrdiff_t>(i),
                  over[i]) == over.begin() + static_cast<std::ptrdiff_t>(i)) {
      continue;
    }
    diags.error(Code::Usage, {}, "`--over` names axis `" + over[i] + "` twice")
        .help("name each axis once");
    return false;
  }
  return true;
}

// One view's name, and the texts of its sizes.
struct ListedView {
  std::string name;
  std::vector<SourcePtr> choices;
};

// Returns the requested views in the order in which their names first appear.
std::optional<std::vector<ListedView>> listed_views(const PlanRequest& planning,
                                                    Diagnostics& diags) {
  std::vector<ListedView> views;
  for (const SourcePtr& given : planning.views) {
    const std::string_view text = given->text();
    const size_t colon = text.find(':');
    std::vector<std::string> spellings;
    if (colon != std::string_view::npos) {
      const std::string name(text.substr(0, colon + 1));
      for (const std::string& part : split_list(text.substr(colon + 1), ';')) {
        for (const std::string& axes : listed_meshes(part)) {
          spellings.push_back(name + axes);
        }
      }
    }
    // Parsing the text reports the error.
    if (spellings.empty()) spellings.emplace_back(text);
    for (std::string& spelling : spellings) {
      auto choice =
          std::make_shared<SourceFile>(given->name(), std::move(spelling));
      diags.add_source(choice);
      const auto parsed = parse_view_text(*choice, diags);
      if (!parsed) return std::nullopt;
      auto view = std::ranges::find(views, parsed->name, &ListedView::name);
      if (view == views.end()) {
        view = views.insert(views.end(), {parsed->name, {}});
      }
      view->choices.push_back(std::move(choice));
    }
  }
  return views;
}

// Returns all combinations of their sizes; the last view's vary fastest.
std::vector<std::vector<SourcePtr>> view_combinations(
    const std::vector<ListedView>& views) {
  std::vector<std::vector<SourcePtr>> all = {{}};
  for (const ListedView& view : views) {
    std::vector<std::vector<SourcePtr>> more;
    for (const std::vector<SourcePtr>& before : all) {
      for (const SourcePtr& choice : view.choices) {
        if (more.size() == kMaxMeshes + 1) break;
        more.push_back(before);
        more.back().push_back(choice);
      }
    }
    all = std::move(more);
  }
  return all;
}

}  // namespace

std::optional<std::vector<SlicedMesh>> sweep_meshes(const SweepRequest& sweep,
                                                    const PlanRequest& planning,
                                                    const RuleSet& rules,
                                                    Diagnostics& diags) {
  std::vector<SlicedMesh> meshes;
  if (!sweep.over.empty()) {
    if (planning.mesh != nullptr) {
      return diags
          .error(Code::Usage, {}, "both `--mesh` and `--over` are given")
          .help("give either the meshes or the axes to build them from");
    }
    // Memory per device does not depend on the slices that a topology names.
    if (planning.slices && !planning.topology) {
      return diags
          .error(Code::Usage, {}, "both `--slices` and `--over` are given")
          .help(
              "leave `--slices` out: memory per device does not depend on "
              "slices");
    }
    if (!check_over(sweep.over, diags) || !add_over(sweep, meshes, diags)) {
      return std::nullopt;
    }
    return meshes;
  }
  if (planning.mesh != nullptr) {
    for (const std::string& text : split_list(planning.mesh->text(), ';')) {
      for (const std::string& mesh : listed_meshes(text)) {
        if (!add_written(sweep, planning, mesh, meshes, diags)) {
          return std::nullopt;
        }
        if (meshes.size() <= kMaxMeshes) continue;
        return diags.error(Code::Usage, {},
                           "`--mesh` expands to more than " +
                               count_text(static_cast<int64_t>(kMaxMeshes)) +
                               " meshes");
      }
    }
    return meshes;
  }
  if (!rules.mesh) {
    return diags.error(Code::InvalidMesh, {}, "no mesh was given")
        .help(
            "add `--mesh \"fsdp=8,tp=4;fsdp=16,tp=2\"`, or `--devices 8,16 "
            "--over fsdp,tp`");
  }
  auto mesh = mesh_of_rules(rules, planning, diags);
  if (!mesh) return std::nullopt;
  meshes.push_back(*std::move(mesh));
  return meshes;
}

std::optional<ViewedMeshes> with_views(const std::vector<SlicedMesh>& meshes,
                                       const PlanRequest& planning,
                                       const RuleSet& rules, const Model& model,
                                       Diagnostics& diags) {
  const auto views = listed_views(planning, diags);
  if (!views) return std::nullopt;
  const auto combinations = view_combinations(*views);
  if (combinations.size() > kMaxMeshes / std::max<size_t>(1, meshes.size())) {
    return diags
        .error(Code::Usage, {},
               "meshes and views form more than " +
                   count_text(static_cast<int64_t>(kMaxMeshes)) +
                   " combinations")
        .help("give shorter lists of sizes");
  }
  ViewedMeshes result;
  PlanRequest request = planning;
  std::optional<Diagnostics> first;
  for (const auto& [mesh, slices] : meshes) {
    for (const std::vector<SourcePtr>& combination : combinations) {
      request.views = combination;
      Mesh viewed = mesh;
      Diagnostics found = diags.fresh();
      if (add_views(request, rules, model, viewed, found)) {
        if (!contains(result.meshes, viewed)) {
          result.meshes.push_back(std::move(viewed));
        }
        continue;
      }
      if (result.left_out++ == 0) {
        result.why =
            "on mesh " + mesh_text(mesh) + " " + found.all().front().message;
        first = std::move(found);
      }
    }
  }
  if (!result.meshes.empty() || !first) return result;
  if (result.left_out > 1) {
    first->all().front().facts.push_back(
        "the same holds for all " + plural(result.left_out, "combination") +
        " of mesh and views");
  }
  diags.add_all(*first);
  return std::nullopt;
}

std::vector<Workload> sweep_workloads(const SweepRequest& sweep) {
  std::vector<Workload> workloads;
  std::vector<int64_t> batches = sweep.batch;
  if (batches.empty()) batches.push_back(1);
  for (const int64_t batch : batches) {
    for (const int64_t seq : sweep.seq) workloads.push_back({batch, seq});
  }
  return workloads;
}

std::vector<StepOptions> sweep_steps(const SweepRequest& sweep,
                                     const StepOptions& step) {
  std::vector<StepOptions> steps;
  std::vector<int64_t> parts = sweep.microbatches;
  std::vector<Remat> policies = sweep.remat;
  if (parts.empty()) parts.push_back(step.microbatches);
  if (policies.empty()) policies.push_back(step.remat);
  for (const int64_t microbatches : parts) {
    for (const Remat& remat : policies) {
      steps.push_back(step);
      steps.back().microbatches = microbatches;
      steps.back().remat = remat;
    }
  }
  return steps;
}

std::optional<std::vector<Device>> sweep_devices(const SweepRequest& sweep,
                                                 const MemoryRequest& memory,
                                                 Host& host,
                                                 Diagnostics& diags) {
  std::vector<Device> devices;
  std::vector<std::optional<std::string>> names(sweep.hardware.begin(),
                                                sweep.hardware.end());
  if (names.empty()) names.emplace_back();
  if (names.size() > 1 && !memory.calibrate.empty()) {
    return diags
        .error(Code::Usage, {},
               "`--calibrate` applies to one kind of device, but `--hardware` "
               "names several")
        .help("run one sweep per device, each with its own files");
  }
  for (const std::optional<std::string>& name : names) {
    MemoryRequest own = memory;
    own.hardware = name;
    Device device;
    device.limit = device_limit(own, host, diags);
    if (diags.cannot_run()) return std::nullopt;
    const auto reserve = reserve_bytes(own, device.limit, diags);
    if (!reserve) return std::nullopt;
    device.reserve = *reserve;
    device.hardware = name;
    if (memory.seq) {
      device.card = measured_card(own, host, diags);
      if (diags.cannot_run()) return std::nullopt;
    }
    devices.push_back(std::move(device));
  }
  return devices;
}

std::vector<Flag> sweep_flags() {
  return {
      {"over", Takes::Text, "A,B", "Inputs",
       "split --devices over these axes in every way", "sweep plan",
       [](auto& s, auto& o, auto& d) { o.sweep.over = axes_of(s, d); }},
      {"objective", Takes::Choice, "WHAT", "Memory",
       "sort order (default memory; step-time for `plan`)", "sweep plan",
       [](auto& s, auto& o, auto&) {
         const auto at = std::ranges::find(kObjectiveNames, s.value);
         o.sweep.objective =
             static_cast<Objective>(at - kObjectiveNames.begin());
       },
       false, true,
       [] {
         return std::vector<std::string>(kObjectiveNames.begin(),
                                         kObjectiveNames.end());
       }},
  };
}

}  // namespace shardplan::cli
