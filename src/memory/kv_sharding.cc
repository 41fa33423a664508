// SPDX-License-Identifier: Apache-2.0
#include "memory/kv_sharding.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "core/spec.h"
#include "resolve/gathered_axes.h"
#include "resolve/tensor_name.h"
#include "resolve/units.h"

namespace shardplan {
namespace {

bool contains(const AxisNames& axes, const AxisName& axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

void remove_all(AxisNames& axes, const AxisNames& gone) {
  std::erase_if(axes, [&](const AxisName& a) { return contains(gone, a); });
}

void report_unknown(const AxisName& axis, std::string_view flag,
                    const Mesh& mesh, Diagnostics& diags) {
  std::vector<std::string> known;
  for (const Axis& a : mesh.axes()) known.push_back(a.name);
  auto report = diags.error(Code::Usage, {},
                            "the mesh has no axis `" + printable(axis) +
                                "`, which " + std::string(flag) + " names");
  report.fact("mesh: " + mesh_text(mesh));
  if (const auto near = nearest(axis, known)) {
    report.help("name an axis of the mesh, perhaps `" + *near + "`");
  } else {
    report.help("name axes of the mesh, separated by commas");
  }
}

// Whether the axes asked for exist, each asked for once; reports all that is
// wrong.
bool check_asked(const Plan& plan, const KvAxesAsked& asked,
                 Diagnostics& diags) {
  const std::array<std::pair<std::string_view, const AxisNames*>, 3> lists = {
      {{"`--kv-axes`", &asked.heads},
       {"`--batch-axes`", &asked.batch},
       {"`--sequence-axes`", &asked.sequence}}};
  bool good = true;
  std::vector<std::pair<AxisName, std::string_view>> seen;
  for (const auto& [flag, axes] : lists) {
    for (const AxisName& axis : *axes) {
      if (!plan.mesh.find(axis) && !contains(plan.declared_axes, axis)) {
        report_unknown(axis, flag, plan.mesh, diags);
        good = false;
      }
      for (const auto& [other, first] : seen) {
        if (other != axis) continue;
        diags
            .error(Code::Usage, {},
                   "axis `" + axis + "` is asked to cut the KV cache twice")
            .fact("in " + std::string(first) + " and in " + std::string(flag))
            .help(
                "name each axis once: it cuts heads, the batch or the "
                "context");
        good = false;
      }
      seen.emplace_back(axis, flag);
    }
  }
  return good;
}

// The axes of the key projections, of the one that is cut least where they
// differ: too large a cache rather than too small a one.
AxisNames axes_of_keys(const Manifest& manifest,
                       const std::vector<KeyProjection>& projections,
                       const Plan& plan, std::string& from) {
  if (manifest.facts.kv_latent) {
    from = "a latent has no heads to cut";
    return {};
  }
  if (projections.empty()) {
    from = "no key projection is known by name";
    return {};
  }
  AxisNames least;
  size_t parameter = 0;
  int64_t shards = 0;
  bool differ = false;
  for (const KeyProjection& projection : projections) {
    const auto& dims = plan.of(projection.parameter).spec.dims;
    const auto dim = static_cast<size_t>(projection.dim);
    AxisNames axes = dim < dims.size() ? dims[dim] : AxisNames();
    std::erase_if(axes, is_gathered_axis);
    const int64_t count = shard_count(plan.mesh, axes);
    differ = differ || (shards != 0 && axes != least);
    if (shards != 0 && count >= shards) continue;
    shards = count;
    least = std::move(axes);
    parameter = projection.parameter;
  }
  from = "as `" + printable(manifest.name(parameter)) +
         (shards > 1 ? "` is sharded" : "` is whole");
  if (differ) from += ", the least of all key projections";
  return least;
}

}  // namespace

std::vector<KeyProjection> key_projections(const Manifest& manifest) {
  std::vector<KeyProjection> found;
  for (size_t i = 0; i < manifest.size(); ++i) {
    const std::string_view name = manifest.name(i);
    const TensorName tail = split_name(name);
    if (role_of(tail) != Role::Key || tensor_kind(tail) == TensorKind::Bias)
      continue;
    for (const Unit& unit : units_of(name, manifest.type(i), manifest.facts)) {
      if (unit.kind != UnitKind::KvHead) continue;
      found.push_back({i, unit.dim});
      break;  // a dimension within a head follows
    }
  }
  return found;
}

std::optional<KvAxes> kv_axes(const Manifest& manifest,
                              const std::vector<KeyProjection>& projections,
                              const Plan& plan, const KvAxesAsked& asked,
                              Diagnostics& diags) {
  if (!check_asked(plan, asked, diags)) return std::nullopt;
  KvAxes axes{asked.heads, asked.batch, asked.sequence, "as `--kv-axes` says"};
  if (asked.heads.empty()) {
    axes.heads = axes_of_keys(manifest, projections, plan, axes.heads_from);
    const size_t before = axes.heads.size();
    remove_all(axes.heads, asked.batch);
    remove_all(axes.heads, asked.sequence);
    if (axes.heads.size() < before) {
      axes.heads_from += ", without what batch and context were given";
    }
  }
  if (asked.batch.empty()) {
    axes.batch.assign(kGatheredAxes.begin(), kGatheredAxes.end());
    remove_all(axes.batch, axes.heads);
    remove_all(axes.batch, asked.sequence);
  }
  for (AxisNames* names : {&axes.heads, &axes.batch, &axes.sequence}) {
    std::erase_if(*names, [&](const AxisName& axis) {
      return plan.mesh.size_of(axis) == 1;
    });
  }
  return axes;
}

KvSharding kv_sharding(const Mesh& mesh, const KvAxes& axes) {
  return {shard_count(mesh, axes.heads), shard_count(mesh, axes.batch),
          shard_count(mesh, axes.sequence)};
}

std::optional<KvSharding> kv_sharding(const Manifest& manifest,
                                      const Plan& plan,
                                      const AxisNames& kv_axes,
                                      const AxisNames& batch_axes,
                                      const AxisNames& sequence_axes,
                                      Diagnostics& diags) {
  const auto axes =
      shardplan::kv_axes(manifest, key_projections(manifest), plan,
                         {kv_axes, batch_axes, sequence_axes}, diags);
  if (!axes) return std::nullopt;
  return kv_sharding(plan.mesh, *axes);
}

std::optional<std::vector<KvLayer>> kv_layers(const Manifest& manifest,
                                              Diagnostics& diags) {
  const std::string missing = kv_missing(manifest.facts);
  if (missing.empty()) return kv_layers(manifest.facts);
  return diags
      .error(Code::MissingFacts, {},
             "the facts of the model do not tell its KV cache")
      .fact("missing: " + missing)
      .help(
          "put the model's config.json beside it, or give `facts` in the "
          "manifest: `layers`, `kv_heads` and `head_dim`, or `layers` and "
          "`kv_latent`");
}

}  // namespace shardplan
