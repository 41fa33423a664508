// SPDX-License-Identifier: Apache-2.0
// Other meshes to suggest when the requested one runs out of memory, and the
// plan and budget on each of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "base/passing_host.h"
#include "core/mesh.h"
#include "evaluate/evaluate.h"
#include "session/budget.h"
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
                                    const MemoryRequest& memory,
                                    const Session& session, int64_t most);
// The limit on meshes of either kind, lower for models with more parameters.
int64_t most_meshes(const Session& session);

// "--mesh fsdp=4,tp=2"
std::string mesh_flags(const PlanRequest& planning, const Mesh& mesh);

struct Replanned {
  Plan plan;
  BudgetInput input;
  Budget budget;
};

// Plans the request on other meshes, and rejects a mesh that adds errors. Safe
// to call from several threads.
class Replanner {
 public:
  // All of it must outlive the replanner.
  Replanner(const PlanRequest& planning, const MemoryRequest& memory,
            const Session& session, Host& host);

  std::optional<Replanned> on(const Mesh& mesh);
  int threads() const;

 private:
  // State that a thread reuses from one mesh to the next.
  struct Worker {
    Evaluator evaluator;
    NamesRead names;
  };
  class Borrowed {
   public:
    explicit Borrowed(Replanner& from);
    ~Borrowed();
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;
    Worker* operator->() const { return worker_.get(); }

   private:
    Replanner& from_;
    std::unique_ptr<Worker> worker_;
  };
  bool leaves_idle(const Plan& plan) const;

  const PlanRequest& planning_;
  const MemoryRequest& memory_;
  const Session& session_;
  SharedHost host_;
  const Groundwork ground_;
  int64_t errors_ = 0;  // on the mesh that was asked for
  std::mutex mutex_;
  std::vector<std::unique_ptr<Worker>> idle_;
};

template <typename Tried>
struct Answer {
  std::optional<Tried> tried;
  int64_t needed = 0;  // by a device at the most
};

// Evaluates one(mesh) on demand, and with several threads also for the meshes
// that follow. The results do not depend on the number of threads.
template <typename Tried, typename Try>
class Answers {
 public:
  Answers(const std::vector<OtherMesh>& meshes, int threads, Try one)
      : meshes_(meshes), threads_(threads), one_(one), read_(meshes.size()) {}

  Answer<Tried> take(size_t i) {
    if (!read_[i]) ask_from(i);
    return *std::move(read_[i]);
  }

 private:
  // Only meshes of the same factor: larger factors are often not needed.
  void ask_from(size_t i) {
    std::vector<size_t> asked;
    for (size_t k = i; k < meshes_.size(); ++k) {
      if (asked.size() == static_cast<size_t>(threads_)) break;
      const bool alike = meshes_[k].more_devices == meshes_[i].more_devices &&
                         meshes_[k].factor == meshes_[i].factor;
      if (alike && !read_[k]) asked.push_back(k);
    }
    parallel_for(static_cast<int64_t>(asked.size()), threads_, [&](int64_t a) {
      const size_t k = asked[static_cast<size_t>(a)];
      read_[k] = one_(meshes_[k].mesh);
    });
  }

  const std::vector<OtherMesh>& meshes_;
  int threads_;
  Try one_;
  std::vector<std::optional<Answer<Tried>>> read_;
};

// For each kind, the mesh with the smallest factor that fits and needs least
// memory. If none fits, the mesh that needs least.
template <typename Tried, typename Try>
std::vector<Tried> smallest_meshes(const std::vector<OtherMesh>& meshes,
                                   int64_t usable, int threads, Try one) {
  Answers<Tried, Try> answers(meshes, threads, one);
  std::vector<Tried> kept;
  for (const bool more_devices : {false, true}) {
    std::optional<Tried> best;
    int64_t least = 0;
    int64_t factor = 0;
    for (size_t i = 0; i < meshes.size(); ++i) {
      const OtherMesh& other = meshes[i];
      if (other.more_devices != more_devices) continue;
      if (best && least <= usable && other.factor > factor) break;
      // An axis that is there already is the smaller change.
      if (best && least <= usable && other.adds_axis) continue;
      Answer<Tried> answer = answers.take(i);
      if (!answer.tried || (best && answer.needed >= least)) continue;
      best = std::move(answer.tried);
      least = answer.needed;
      factor = other.factor;
    }
    if (best) kept.push_back(*std::move(best));
  }
  return kept;
}

}  // namespace shardplan
