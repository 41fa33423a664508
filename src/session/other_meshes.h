// SPDX-License-Identifier: Apache-2.0
// Other meshes to suggest when the requested one runs out of memory, and the
// plan and budget on each of them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/host.h"
#include "core/mesh.h"
#include "evaluate/evaluate.h"
#include "memory/fit.h"
#include "session/session.h"

namespace shardplan {

struct OtherMesh {
  bool more_devices = false;  // else as many, otherwise cut
  int64_t factor = 2;
  Mesh mesh;
  bool adds_axis = false;
};

// As many devices with a factor moved from one axis to another, and 2, 4 and 8
// times as many with an axis as much longer; the smallest factor first, at
// most so many of either kind.
std::vector<OtherMesh> other_meshes(const PlanRequest& planning,
                                    const AskedMemory& asked,
                                    const Session& session, int64_t most);
// The limit on meshes of either kind, lower for models with more parameters.
int64_t most_meshes(const Session& session);

// "--mesh fsdp=4,tp=2 --view experts:ep=4,edp=2": what differs from the mesh
// that was asked for.
std::string mesh_flags(const PlanRequest& planning, const Mesh& asked,
                       const Mesh& mesh);

// Judges the request on other meshes, and rejects a mesh that adds errors or
// has an axis that saves nothing. Safe to call from several threads.
class MeshTrials {
 public:
  // All of it must outlive the trials.
  MeshTrials(const PlanRequest& planning, const Session& session,
             const Asked& asked, Host& host);

  // Calls `use` with the judge of the plan there, unless it is rejected.
  void on(const Mesh& mesh, const std::function<void(PlanJudge&)>& use);
  int threads() const;

 private:
  bool leaves_idle(const Plan& plan) const;

  const PlanRequest& planning_;
  const Session& session_;
  const Asked& asked_;
  const Groundwork ground_;
  int64_t errors_ = 0;  // on the mesh that was asked for
  std::mutex mutex_;
  std::vector<std::unique_ptr<Evaluator>> idle_;  // one for each thread
};

// For each kind, the mesh with the smallest factor that fits and needs least
// memory. If none fits, the mesh that needs least. `one` judges a mesh; with
// several threads it is called ahead for meshes that follow, and the result
// does not depend on their number.
std::vector<TriedChange> smallest_meshes(
    const std::vector<OtherMesh>& meshes, int64_t usable, int threads,
    const std::function<std::optional<TriedChange>(const Mesh&)>& one);

}  // namespace shardplan
