// SPDX-License-Identifier: Apache-2.0
#include "search/plan_space.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

#include "base/checked.h"
#include "base/words.h"
#include "core/views.h"

namespace shardplan {
namespace {

using enum PlanAxis;

// The largest number of chunks per stage to try: each chunk adds a round of
// sends between stages to every micro-batch.
constexpr int64_t kMostChunks = 8;

std::vector<int64_t> divisors(int64_t number) {
  std::set<int64_t> all;
  for (int64_t d = 1; d <= number / d; ++d) {
    if (number % d == 0) all.insert({d, number / d});
  }
  return {all.begin(), all.end()};
}

bool may_cut(const PlanSpace& space, PlanAxis axis) {
  return contains(space.over, axis);
}

// Returns whether all axes of the point that are longer than 1 may be.
bool may_have(const PlanSpace& space, const PlanPoint& point) {
  for (int i = 0; i < kPlanAxes; ++i) {
    if (point.sizes[i] > 1 && !may_cut(space, static_cast<PlanAxis>(i))) {
      return false;
    }
  }
  return true;
}

// Returns whether the requested mesh has this shape.
bool allows(const PlanSpace& space, const PlanPoint& shape) {
  if (!space.fixed) return true;
  const PlanPoint& fixed = *space.fixed;
  return may_have(space, fixed) && fixed.of(Stages) == shape.of(Stages) &&
         fixed.of(Sequence) == shape.of(Sequence) &&
         fixed.of(Tensor) == shape.of(Tensor) && fixed.data() == shape.data();
}

// Adds the shape with every degree of expert parallelism that divides the
// experts and the devices of a stage.
void add_with_experts(const PlanSpace& space, const PlanPoint& shape,
                      std::vector<PlanPoint>& shapes) {
  shapes.push_back(shape);
  if (space.experts < 2) return;
  const int64_t inside = space.devices / shape.of(Stages);
  for (const int64_t experts : divisors(space.experts)) {
    if (experts == 1) continue;
    for (const int64_t cut : std::set<int64_t>{1, shape.of(Tensor)}) {
      if (inside % (experts * cut) != 0) continue;
      PlanPoint with = shape;
      with.experts = experts;
      with.expert_tensor = cut;
      shapes.push_back(with);
    }
  }
}

// Splits layers evenly; the first stages get the remainder.
std::vector<int64_t> even_layers(int64_t layers, int64_t stages) {
  std::vector<int64_t> all(to_size(stages), layers / stages);
  std::fill_n(all.begin(), layers % stages, layers / stages + 1);
  return all;
}

// Returns the most work of a stage, in layers; the last stage also has the
// head.
double most_work(const PlanSpace& space, const std::vector<int64_t>& layers) {
  const auto longest = static_cast<double>(std::ranges::max(layers));
  return std::max(longest, static_cast<double>(layers.back()) + space.head);
}

// Chunks have equal length, counting the embedding and the head as layers.
bool divides(const PlanPoint& point, int64_t layers) {
  return point.chunks == 1 || layers % (point.of(Stages) * point.chunks) == 0;
}

// Returns the balanced layers; empty if no such stages are better than even
// ones.
std::vector<int64_t> balanced_layers(const PlanSpace& space,
                                     const PlanPoint& point) {
  const int64_t stages = point.of(Stages);
  std::vector<int64_t> best;
  double least = std::numeric_limits<double>::infinity();
  if (divides(point, space.layers)) {
    least = most_work(space, even_layers(space.layers, stages));
  }
  const auto most_at_head = static_cast<int64_t>(std::ceil(space.head)) + 1;
  for (int64_t at_head = 1; at_head <= most_at_head; ++at_head) {
    for (const int64_t at_embedding : {0, 1}) {
      const int64_t counted = space.layers + at_embedding + at_head;
      // The head must fit into one chunk, the last.
      if (!divides(point, counted) ||
          (point.chunks > 1 && at_head * stages * point.chunks > counted)) {
        continue;
      }
      std::vector<int64_t> layers = even_layers(counted, stages);
      layers.front() -= at_embedding;
      layers.back() -= at_head;
      if (std::ranges::min(layers) < 1) continue;
      const double work = most_work(space, layers);
      if (work >= least) continue;
      least = work;
      best = std::move(layers);
    }
  }
  return best;
}

int64_t smallest_factor(int64_t number) {
  return number > 1 ? divisors(number)[1] : number;
}

// Returns whether the space contains the pass.
bool is_in(const PlanSpace& space, const PlanPoint& pass) {
  const int64_t stages = pass.of(Stages);
  return stages <= space.layers && space.batch % pass.data() == 0 &&
         may_have(space, pass) && allows(space, pass) &&
         space.devices / stages % (pass.experts * pass.expert_tensor) == 0 &&
         contains(plan_passes(space, pass), pass);
}

}  // namespace

std::vector<Axis> expert_axes(const PlanPoint& point) {
  if (point.experts == 1) return {};
  std::vector<Axis> axes;
  const auto add = [&](const char* name, int64_t size) {
    if (size > 1) axes.push_back({name, size});
  };
  const int64_t inside = point.data() * point.of(Sequence) * point.of(Tensor);
  const int64_t rest = inside / (point.experts * point.expert_tensor);
  // Expert weights are sharded (FSDP) if all other weights are.
  const bool shards = point.of(Shards) > 1;
  const int64_t copies = shards && rest % point.of(Replicas) == 0
                             ? point.of(Replicas)
                         : shards ? 1
                                  : rest;
  add("pp", point.of(Stages));
  add("edp", copies);
  add("efsdp", rest / copies);
  axes.push_back({"ep", point.experts});
  add("etp", point.expert_tensor);
  return axes;
}

Mesh mesh_of(const PlanPoint& point) {
  std::vector<Axis> axes;
  const auto add = [&](size_t axis) {
    if (point.sizes[axis] > 1) {
      axes.push_back({std::string(kPlanAxisNames[axis]), point.sizes[axis]});
    }
  };
  for (size_t i = 0; i < kPlanAxes; ++i) {
    if (i != to_size(point.innermost)) add(i);
  }
  add(to_size(point.innermost));
  if (axes.empty()) axes.push_back({"fsdp", 1});  // a mesh needs an axis
  Mesh mesh(std::move(axes));
  const std::vector<Axis> experts = expert_axes(point);
  if (experts.empty()) return mesh;
  ViewRequest request;
  request.name = std::string(kExpertView);
  for (const Axis& axis : experts) {
    request.axes.push_back({axis.name, axis.size, {}, {}, {}});
  }
  Diagnostics quiet;
  auto viewed = add_view(mesh, request, quiet);
  return viewed ? *std::move(viewed) : mesh;
}

const FrameworkFeatures& framework_features(std::string_view name) {
  static const std::array<FrameworkFeatures, 4> kFrameworkFeatures = {{
      {.name = "any"},
      {.name = "megatron",
       .shards = false,
       .moves_axes = false,
       .written_as = "megatron",
       .remats = {"none", "selective", "full"}},
      {.name = "torch",
       .zero_one = false,
       .written_as = "hf-tp-plan",
       .remats = {"none", "selective:op", "full"}},
      {.name = "jax", .stages = false, .zero_one = false, .interleaves = false},
  }};
  const FrameworkFeatures* const found = find_named(kFrameworkFeatures, name);
  return found != nullptr ? *found : kFrameworkFeatures.front();
}

std::vector<int64_t> stage_layers(const PlanSpace& space,
                                  const PlanPoint& point) {
  return point.balanced ? balanced_layers(space, point)
                        : std::vector<int64_t>();
}

std::vector<PlanPoint> plan_shapes(const PlanSpace& space) {
  std::vector<PlanPoint> shapes;
  for (const int64_t stages : divisors(space.devices)) {
    const bool staged = stages > 1;
    if (staged && (!may_cut(space, Stages) || stages > space.layers)) continue;
    const int64_t of_stage = space.devices / stages;
    for (const int64_t tensor : divisors(of_stage)) {
      if (tensor > 1 && !may_cut(space, Tensor)) continue;
      for (const int64_t sequence : divisors(of_stage / tensor)) {
        if (sequence > 1 && !may_cut(space, Sequence)) continue;
        const int64_t data = of_stage / tensor / sequence;
        const PlanAxis held = may_cut(space, Shards) ? Shards : Replicas;
        if (data > 1 && !may_cut(space, held)) continue;
        PlanPoint shape;
        shape.of(Stages) = stages;
        shape.of(Tensor) = tensor;
        shape.of(Sequence) = sequence;
        shape.of(held) = data;
        if (held == Replicas && data > 1 && space.features.zero_one) {
          shape.zero = 1;
        }
        if (!allows(space, shape)) continue;
        if (tensor > 1 && space.features.tokens_over_tensor) {
          shape.tokens_over_tensor = true;
          add_with_experts(space, shape, shapes);
          shape.tokens_over_tensor = false;
        }
        add_with_experts(space, shape, shapes);
      }
    }
  }
  return shapes;
}

std::vector<PlanPoint> plan_passes(const PlanSpace& space,
                                   const PlanPoint& shape) {
  std::vector<PlanPoint> passes;
  if (space.batch % shape.data() != 0) return passes;
  const int64_t sequences = space.batch / shape.data();
  for (const int64_t parts : divisors(sequences)) {
    if (!space.microbatches.empty() && !contains(space.microbatches, parts)) {
      continue;
    }
    PlanPoint pass = shape;
    pass.microbatches = parts;
    const auto add = [&] {
      for (pass.remat = 0; pass.remat < space.remats.size(); ++pass.remat) {
        passes.push_back(pass);
      }
    };
    const int64_t stages = shape.of(Stages);
    const bool interleaves =
        space.features.interleaves && stages > 1 && parts % stages == 0;
    const int64_t most_chunks =
        interleaves ? std::min(kMostChunks, space.layers / stages + 1) : 1;
    for (pass.chunks = 1; pass.chunks <= most_chunks; ++pass.chunks) {
      pass.balanced = false;
      if (divides(pass, space.layers)) add();
      pass.balanced = true;
      if (!balanced_layers(space, pass).empty()) add();
    }
  }
  return passes;
}

std::vector<PlanPoint> plan_points(const PlanSpace& space,
                                   const PlanPoint& pass) {
  std::vector<PlanPoint> points;
  const int64_t data = pass.data();
  for (const int64_t replicas : divisors(data)) {
    PlanPoint split = pass;
    split.of(Replicas) = replicas;
    split.of(Shards) = data / replicas;
    if (split.of(Shards) > 1 && !may_cut(space, Shards)) continue;
    if (replicas > 1 && !may_cut(space, Replicas)) continue;
    if (space.fixed && space.fixed->of(Replicas) != replicas) continue;
    std::vector<int> zeros = {0};
    if (replicas > 1 && space.features.zero_one) zeros.insert(zeros.begin(), 1);
    for (const int zero : zeros) {
      split.zero = zero;
      split.innermost = space.fixed ? space.fixed->innermost : Tensor;
      points.push_back(split);
      // Views of experts have only one order.
      if (space.fixed || space.devices <= space.domain || split.experts > 1) {
        continue;
      }
      int last = kPlanAxes - 1;
      while (last > 0 && split.sizes[last] == 1) --last;
      for (int axis = 0; axis < last; ++axis) {
        if (split.sizes[axis] == 1) continue;
        split.innermost = static_cast<PlanAxis>(axis);
        const bool is_whole = split.of(Tensor) == 1 && split.of(Sequence) == 1;
        if (space.features.moves_axes ||
            (split.innermost == Stages && is_whole)) {
          points.push_back(split);
        }
      }
    }
  }
  return points;
}

std::vector<PlanPoint> plan_neighbours(const PlanSpace& space,
                                       const PlanPoint& pass) {
  std::vector<PlanPoint> all;
  const auto add = [&](PlanPoint next) {
    if (next.of(Tensor) == 1) next.tokens_over_tensor = false;
    if (next.experts == 1) next.expert_tensor = 1;
    if (next.of(Stages) == 1) next.balanced = false;
    if (next.expert_tensor > 1) next.expert_tensor = next.of(Tensor);
    if (next != pass && !contains(all, next) && is_in(space, next)) {
      all.push_back(next);
    }
  };
  const PlanAxis data = may_cut(space, Shards) ? Shards : Replicas;
  const auto add_moved = [&](PlanAxis from, PlanAxis to, int64_t factor) {
    PlanPoint next = pass;
    next.of(from) /= factor;
    next.of(to) *= factor;
    if (data == Replicas && space.features.zero_one) {
      next.zero = next.of(data) > 1 ? 1 : 0;
    }
    for (const int64_t chunks : {pass.chunks, int64_t{1}}) {
      next.chunks = chunks;
      if (chunks == 1) next.balanced = false;
      add(next);
      // Also try it with as many sequences at once as before.
      PlanPoint as_many = next;
      if (next.data() > pass.data() && pass.microbatches % factor == 0) {
        as_many.microbatches /= factor;
      } else if (next.data() < pass.data()) {
        as_many.microbatches *= factor;
      }
      add(as_many);
    }
  };
  for (const PlanAxis from : {Stages, data, Sequence, Tensor}) {
    const int64_t least = smallest_factor(pass.of(from));
    if (least == 1) continue;
    for (const PlanAxis to : {Stages, data, Sequence, Tensor}) {
      if (to == from) continue;
      add_moved(from, to, least);
      add_moved(from, to, pass.of(from));
    }
  }
  const auto change = [&](auto&& what) {
    PlanPoint next = pass;
    what(next);
    add(next);
  };
  const int64_t sequences = space.batch / pass.data() / pass.microbatches;
  const int64_t more = smallest_factor(sequences);
  const int64_t fewer = smallest_factor(pass.microbatches);
  change([&](PlanPoint& p) { p.microbatches *= more; });
  change([&](PlanPoint& p) { p.microbatches /= fewer; });
  change([&](PlanPoint& p) {
    p.microbatches /= fewer;
    p.chunks = 1;
    p.balanced = false;
  });
  for (size_t remat = 0; remat < space.remats.size(); ++remat) {
    change([&](PlanPoint& p) { p.remat = remat; });
  }
  change([](PlanPoint& p) { p.tokens_over_tensor = !p.tokens_over_tensor; });
  for (int64_t chunks = 1; chunks <= kMostChunks; ++chunks) {
    for (const bool balanced : {false, true}) {
      change([&](PlanPoint& p) {
        p.chunks = chunks;
        p.balanced = balanced;
      });
    }
  }
  if (space.experts > 1) {
    for (const int64_t experts : divisors(space.experts)) {
      change([&](PlanPoint& p) { p.experts = experts; });
    }
    change([](PlanPoint& p) {
      p.expert_tensor = p.expert_tensor == 1 ? p.of(Tensor) : 1;
    });
  }
  return all;
}

}  // namespace shardplan
