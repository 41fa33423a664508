// SPDX-License-Identifier: Apache-2.0
#include "memory/state_rules.h"

#include <map>
#include <string>
#include <utility>

namespace shardplan {
namespace {

struct LeafOf {
  size_t parameter = 0;
  std::string_view role;
};

// Every leaf that rules may place, in order of parameters.
bool add_leaves(const Manifest& manifest, const Plan& plan,
                const StateOptions& options, Manifest& leaves,
                std::vector<LeafOf>& of) {
  for (size_t i = 0; i < manifest.size(); ++i) {
    const TensorType stored = stored_type(
        {manifest.type(i).dtype, stored_shape(plan.of(i))}, options);
    for (const RoleType& role : optimizer_roles(stored, options)) {
      if (role.placeholder) continue;
      const std::string name =
          std::string(role.role) + "/" + std::string(manifest.name(i));
      if (!leaves.add(name, role.type, manifest.where(i))) return false;
      of.push_back({i, role.role});
    }
  }
  return true;
}

}  // namespace

std::optional<StateSpecs> resolve_state_rules(
    const Manifest& manifest, const Plan& plan, const StateOptions& options,
    const RuleSet& rules, const ResolveOptions& how, Diagnostics& diags) {
  Manifest leaves;
  leaves.title = manifest.title;
  leaves.sources = manifest.sources;
  std::vector<LeafOf> of;
  if (!add_leaves(manifest, plan, options, leaves, of)) {
    return diags.error(Code::InvalidMesh, {},
                       "the bytes of the optimizer state exceed 63 bits");
  }
  std::optional<Plan> placed = resolve(leaves, rules, plan.mesh, how, diags);
  if (!placed) return std::nullopt;

  // A parameter's placement, then those of its leaves by role.
  using Key = std::pair<uint32_t, std::map<std::string_view, uint32_t>>;
  std::vector<Key> keys(manifest.size());
  for (size_t i = 0; i < manifest.size(); ++i) {
    keys[i].first = plan.placement_of[i];
  }
  for (size_t i = 0; i < of.size(); ++i) {
    keys[of[i].parameter].second[of[i].role] = placed->placement_of[i];
  }
  StateSpecs result{{}, {}, std::move(leaves), *std::move(placed)};
  std::map<Key, uint32_t> known;
  for (const Key& key : keys) {
    const auto [entry, is_new] =
        known.try_emplace(key, static_cast<uint32_t>(result.kinds.size()));
    if (is_new) {
      StateSpecs::Kind kind{key.first, {}};
      for (const auto& [role, number] : key.second) {
        kind.specs[role] = result.plan.placements[number].spec;
      }
      result.kinds.push_back(std::move(kind));
    }
    result.kind_of.push_back(entry->second);
  }
  return result;
}

}  // namespace shardplan
