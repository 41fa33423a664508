// SPDX-License-Identifier: Apache-2.0
// OtherMesh: a mesh to suggest when the requested one runs out of memory, and
// MeshTrials, which judges the request on such meshes.
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
  bool more_devices = false;  // else as many, arranged differently
  int64_t factor = 2;
  Mesh mesh;
  bool adds_axis = false;
};

// Returns meshes of as many devices, with a factor moved from one axis to
// another, and meshes of 2, 4 and 8 times as many devices, with one axis longer
// by that factor. The smallest factors come first, with at most `most` meshes
// of each kind.
std::vector<OtherMesh> other_meshes(const PlanRequest& planning,
                                    const AskedMemory& asked,
                                    const Session& session, int64_t most);
// Returns the limit on meshes of each kind, lower for models with more
// parameters.
int64_t most_meshes(const Session& session);

// Returns the flags that differ from the requested mesh: "--mesh fsdp=4,tp=2
// --view experts:ep=4,edp=2".
std::string mesh_flags(const PlanRequest& planning, const Mesh& asked,
                       const Mesh& mesh);

// Judges the request on other meshes. Rejects a mesh that adds errors, or that
// lengthens an axis without saving anything. Safe to call from several threads.
class MeshTrials {
 public:
  // The arguments must outlive the trials.
  MeshTrials(const PlanRequest& planning, const Session& session,
             const Asked& asked, Host& host);

  // Calls `use` with the judge of the plan on `mesh`, unless the mesh is
  // rejected.
  void on(const Mesh& mesh, const std::function<void(PlanJudge&)>& use);
  int threads() const;

 private:
  bool has_idle_axis(const Plan& plan) const;

  const PlanRequest& planning_;
  const Session& session_;
  const Asked& asked_;
  const Groundwork ground_;
  int64_t errors_ = 0;  // on the requested mesh
  std::mutex mutex_;
  std::vector<std::unique_ptr<Evaluator>> idle_;  // one per thread
};

using TryMesh = std::function<std::optional<TriedChange>(const Mesh&)>;

// Returns, for each kind, the mesh with the smallest factor that fits and the
// least memory; if none fits, the mesh with the least memory. `one` judges a
// mesh. Several threads judge the following meshes ahead of need; the result
// does not depend on the number of threads.
std::vector<TriedChange> smallest_meshes(const std::vector<OtherMesh>& meshes,
                                         int64_t usable, int threads,
                                         const TryMesh& one);

}  // namespace shardplan
