// SPDX-License-Identifier: Apache-2.0
// Compares the experts of each layer by the rest of their names.
#include "resolve/dealing.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/checked.h"
#include "model/tensor_name.h"

namespace shardplan {
namespace {

bool has_same_labels(const Manifest& manifest, size_t a, size_t b) {
  const AxisLabels* const of_a = manifest.axes(a);
  const AxisLabels* const of_b = manifest.axes(b);
  return of_a == of_b || (of_a != nullptr && of_b != nullptr && *of_a == *of_b);
}

}  // namespace

bool deals_experts(const RuleSet& rules) {
  return std::ranges::any_of(rules.rules,
                             [](const Rule& rule) {
                               return !rule.deal.empty() && !rule.inactive;
                             }) ||
         std::ranges::any_of(rules.logical_rules, [](const LogicalRule& rule) {
           return rule.deal && !rule.inactive;
         });
}

std::vector<ExpertTensor> expert_tensors(const Manifest& manifest,
                                         std::span<const uint32_t> found) {
  std::vector<ExpertTensor> result(manifest.size());
  std::unordered_map<std::string_view, int64_t> experts;  // per layer
  struct Siblings {
    std::vector<uint32_t> members;
    bool alike = true;
  };
  // Keyed by the name without its expert number.
  std::unordered_map<std::string, Siblings> siblings;
  std::vector<std::string_view> layer_of(manifest.size());
  for (size_t i = 0; i < manifest.size(); ++i) {
    const std::string_view name = manifest.name(i);
    const ExpertName of = expert_name(name);
    // INT64_MAX is not an expert number: adding 1 to it below would overflow.
    if (!of.number || *of.number == INT64_MAX) continue;
    const size_t at = to_size(of.digits.data() - name.data());
    layer_of[i] = name.substr(0, at);
    result[i].expert = *of.number;
    int64_t& most = experts[layer_of[i]];
    most = std::max(most, *of.number + 1);
    std::string key(layer_of[i]);
    key += name.substr(at + of.digits.size());
    Siblings& all = siblings[std::move(key)];
    if (!all.members.empty()) {
      const uint32_t first = all.members.front();
      all.alike = all.alike && found[first] == found[i] &&
                  manifest.type_number(first) == manifest.type_number(i) &&
                  has_same_labels(manifest, first, i);
    }
    all.members.push_back(static_cast<uint32_t>(i));
  }
  for (const auto& [key, all] : siblings) {
    const int64_t of_layer = experts.at(layer_of[all.members.front()]);
    for (const uint32_t member : all.members) {
      result[member].experts = of_layer;
      result[member].alike = all.alike && std::ssize(all.members) == of_layer;
    }
  }
  return result;
}

ExpertPlacement dealt_over(const ExpertTensor& tensor, const Mesh& mesh,
                           const AxisName& axis) {
  ExpertPlacement dealt{axis, mesh.size_of(axis), tensor.experts, -1};
  if (!tensor.alike) dealt.rank = rank_of_expert(dealt, tensor.expert);
  return dealt;
}

}  // namespace shardplan
