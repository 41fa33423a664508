// SPDX-License-Identifier: Apache-2.0
#include "tests/support/one_by_one.h"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include "tests/support/generators.h"
#include "tests/support/property.h"

namespace shardplan::testing {
namespace {

std::vector<int64_t> divisors_of(int64_t number) {
  std::vector<int64_t> divisors;
  for (int64_t i = 1; i <= number; ++i) {
    if (number % i == 0) divisors.push_back(i);
  }
  return divisors;
}

// `number` as a product of one to three sizes, one of which may be 1.
std::vector<Axis> drawn_factors(int64_t number, const std::string& prefix) {
  std::vector<Axis> axes;
  const auto count = draw_in<size_t>(1, 4);
  for (size_t i = 0; i < count; ++i) {
    const int64_t size = i + 1 == count ? number : draw_of(divisors_of(number));
    axes.push_back({prefix + std::to_string(i), size});
    number /= size;
  }
  return axes;
}

int64_t number_after(std::string_view name, std::string_view mark) {
  const size_t at = name.find(mark);
  if (at == std::string_view::npos) return -1;
  int64_t number = -1;
  for (size_t i = at + mark.size(); i < name.size(); ++i) {
    if (name[i] < '0' || name[i] > '9') break;
    number = std::max<int64_t>(number, 0) * 10 + (name[i] - '0');
  }
  return number;
}

}  // namespace

int64_t ViewedAxes::devices() const {
  int64_t product = 1;
  for (const Axis& axis : own) product *= axis.size;
  return product;
}

const std::vector<Axis>& ViewedAxes::of(std::string_view view) const {
  if (view.empty()) return own;
  for (const MeshView& each : views) {
    if (each.name == view) return each.axes;
  }
  throw std::invalid_argument("no view " + std::string(view));
}

bool ViewedAxes::have_parts() const {
  std::set<int64_t> ends;
  const auto add = [&](const std::vector<Axis>& axes) {
    int64_t end = 1;
    for (const Axis& axis : axes) ends.insert(end *= axis.size);
  };
  add(own);
  for (const MeshView& view : views) add(view.axes);
  int64_t before = 1;
  for (const int64_t end : ends) {
    if (end % before != 0) return false;
    before = end;
  }
  return true;
}

ViewedAxes draw_viewed_axes(bool pipeline) {
  ViewedAxes drawn;
  const int64_t devices = draw_of<int64_t>({4, 6, 1, 2, 8, 12, 16, 18, 24});
  drawn.own = drawn_factors(devices, "m");
  const auto views = draw_in<size_t>(1, 3);
  for (size_t i = 0; i < views; ++i) {
    const std::string name = i == 0 ? "experts" : "more";
    drawn.views.push_back({name, drawn_factors(devices, i == 0 ? "e" : "o")});
  }
  if (!pipeline) return drawn;
  drawn.pipeline = "pp";
  drawn.stages = draw_in<int64_t>(1, 4);
  // The major axis of all of them, or the minor one.
  const bool major = draw_bool();
  const auto add = [&](std::vector<Axis>& axes) {
    axes.insert(major ? axes.begin() : axes.end(), {"pp", drawn.stages});
  };
  add(drawn.own);
  for (MeshView& view : drawn.views) add(view.axes);
  return drawn;
}

int64_t coordinate_of(const std::vector<Axis>& axes, std::string_view name,
                      int64_t device) {
  int64_t behind = 1;
  for (size_t i = axes.size(); i-- > 0;) {
    if (axes[i].name == name) return device / behind % axes[i].size;
    behind *= axes[i].size;
  }
  throw std::invalid_argument("no axis " + std::string(name));
}

std::vector<HeldRows> rows_on(const std::vector<Axis>& axes,
                              const PartitionSpec& spec, const Shape& shape,
                              OnIndivisible policy, int64_t device) {
  std::vector<HeldRows> result;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    HeldRows rows{0, 0, shape[dim], shape[dim]};
    int64_t shards = 1;
    for (size_t i = 0; dim < spec.dims.size() && i < spec.dims[dim].size();
         ++i) {
      const AxisName& name = spec.dims[dim][i];
      const auto axis = std::ranges::find(axes, name, &Axis::name);
      const int64_t at = coordinate_of(axes, name, device);
      shards *= axis->size;
      rows.shard = rows.shard * axis->size + at;
      if (policy != OnIndivisible::Chunk) continue;
      // torch.chunk of what the axes before have left.
      const int64_t size = rows.end - rows.begin;
      const int64_t step = (size + axis->size - 1) / axis->size;
      const int64_t end = rows.begin + std::min(size, step * (at + 1));
      rows.begin += std::min(size, step * at);
      rows.end = end;
    }
    if (policy == OnIndivisible::Chunk) {
      rows.stored = rows.end - rows.begin;
    } else {
      rows.stored = (shape[dim] + shards - 1) / shards;
      rows.begin = std::min(shape[dim], rows.stored * rows.shard);
      rows.end = std::min(shape[dim], rows.begin + rows.stored);
    }
    result.push_back(rows);
  }
  return result;
}

bool has_expert(const std::vector<Axis>& axes, std::string_view axis,
                int64_t experts, int64_t expert, int64_t device) {
  const int64_t size =
      std::ranges::find(axes, AxisName(axis), &Axis::name)->size;
  return coordinate_of(axes, axis, device) == expert * size / experts;
}

int64_t expert_in(std::string_view name) {
  return number_after(name, "experts.");
}
int64_t layer_in(std::string_view name) {
  return number_after(name, "layers.");
}

Manifest draw_experts_model(int64_t layers) {
  Manifest manifest;
  const auto size = [] { return draw_in<int64_t>(1, 13); };
  const auto dtype = [] { return draw_of({DType::BF16, DType::F32}); };
  const auto add = [&](const std::string& name, DType of, const Shape& shape) {
    ENSURE(manifest.add(name, {of, shape}, {}));
  };
  const Shape dense = {size(), size()};
  const Shape separate = {size(), size()};
  const int64_t experts = draw_in<int64_t>(1, 10);
  const DType of_experts = dtype();
  const Shape stacked = {experts, size(), size()};
  add("embed_tokens.weight", DType::BF16, {size(), size()});
  for (int64_t i = 0; i < layers; ++i) {
    const std::string layer = "layers." + std::to_string(i) + ".";
    add(layer + "attn.q.weight", DType::BF16, dense);
    add(layer + "moe.experts.gate_up", DType::F32, stacked);
    // One layer in four differs from the others.
    const bool odd = draw_in(0, 4) == 3;
    const int64_t here = odd ? draw_in<int64_t>(1, 10) : experts;
    for (int64_t e = 0; e < here; ++e) {
      const std::string expert = layer + "mlp.experts." + std::to_string(e);
      add(expert + ".up.weight", of_experts, separate);
      if (odd && draw_in(0, 3) == 2)
        add(expert + ".up.bias", dtype(), {size()});
    }
  }
  add("lm_head.weight", DType::BF16, {size(), size()});
  return manifest;
}

RuleSet draw_view_rules(const ViewedAxes& axes) {
  RuleSet rules;
  const auto add = [&](const std::string& pattern, size_t rank, bool deals) {
    std::vector<std::string> names = {""};
    for (const MeshView& view : axes.views) names.push_back(view.name);
    Rule rule;
    rule.pattern = pattern;
    rule.view = draw_of(names);
    std::vector<Axis> free = axes.of(rule.view);
    std::erase_if(free,
                  [&](const Axis& axis) { return axis.name == axes.pipeline; });
    if (deals) {
      const auto at = draw_in<size_t>(0, free.size());
      rule.deal = free[at].name;
      free.erase(free.begin() + static_cast<ptrdiff_t>(at));
    }
    if (!free.empty()) rule.spec = draw_legal_spec(Mesh(free), rank);
    rules.rules.push_back(std::move(rule));
  };
  add("attn", 2, false);
  add("gate_up", 3, false);
  // An expert whose rule is another one is not like its siblings.
  if (draw_bool()) add("experts\\.1\\.", 1, draw_bool());
  add("bias", 1, true);
  if (draw_in(0, 4) > 0) {
    add("mlp\\.experts\\.", 2, true);
  } else {
    add("mlp\\.experts\\.", 2, false);
  }
  add("embed|head", 2, false);
  return rules;
}

}  // namespace shardplan::testing
