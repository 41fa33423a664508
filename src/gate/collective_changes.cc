// SPDX-License-Identifier: Apache-2.0
#include "gate/collective_changes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "core/manifest.h"
#include "core/plan.h"

namespace shardplan {
namespace {

enum class Trend : uint8_t { New, Gone, More, Fewer, Larger, Smaller };

// The same use on both sides; one of them may lack it.
struct UsePair {
  const CollectiveUse* before = nullptr;
  const CollectiveUse* after = nullptr;

  const CollectiveUse& any() const { return after ? *after : *before; }
  int64_t count(bool of_before) const {
    const CollectiveUse* use = of_before ? before : after;
    return use == nullptr ? 0 : use->count;
  }
  int64_t bytes(bool of_before) const {
    const CollectiveUse* use = of_before ? before : after;
    return use == nullptr ? 0 : use->bytes_per_device;
  }
  int64_t grown() const { return bytes(false) - bytes(true); }
};

std::vector<UsePair> pairs_of_uses(const std::vector<CollectiveUse>& before,
                                   const std::vector<CollectiveUse>& after) {
  using Key = std::tuple<CollectiveKind, AxisNames, Cause, bool, std::string>;
  std::map<Key, UsePair> pairs;
  const auto of = [&](const CollectiveUse& use) -> UsePair& {
    return pairs[Key(use.kind, use.axes, use.cause, use.after_product,
                     use.what)];
  };
  for (const CollectiveUse& use : before) of(use).before = &use;
  for (const CollectiveUse& use : after) of(use).after = &use;
  std::vector<UsePair> all;
  all.reserve(pairs.size());
  for (const auto& [key, pair] : pairs) all.push_back(pair);
  return all;
}

// Returns the trend; empty if nothing changes.
std::optional<Trend> trend_of(const UsePair& pair) {
  if (pair.before == nullptr) return Trend::New;
  if (pair.after == nullptr) return Trend::Gone;
  if (pair.count(true) != pair.count(false)) {
    return pair.count(false) > pair.count(true) ? Trend::More : Trend::Fewer;
  }
  if (pair.grown() == 0) return std::nullopt;
  return pair.grown() > 0 ? Trend::Larger : Trend::Smaller;
}

const Placement* placement_named(const Session& session,
                                 const std::string& name) {
  for (size_t i = 0; i < session.model.manifest.size(); ++i) {
    if (session.model.manifest.name(i) == name) return &session.plan.of(i);
  }
  return nullptr;
}

// Returns the line that decides one of the use's parameters, preferably one
// that is placed differently now.
ChangeLine line_of_use(const CollectiveUse& use, const SideCollectives& before,
                       const SideCollectives& after, bool of_before) {
  const Placement* chosen = nullptr;
  for (const std::string& name : use.parameters) {
    const Placement* was = placement_named(before.session, name);
    const Placement* is = placement_named(after.session, name);
    const Placement* own = of_before ? was : is;
    if (own == nullptr) continue;
    const bool moved = was == nullptr || is == nullptr || was->spec != is->spec;
    if (chosen == nullptr || moved) chosen = own;
    if (moved) break;
  }
  if (chosen == nullptr) return {};
  return deciding_line(of_before ? before.session : after.session, *chosen,
                       use.axes, of_before);
}

const char* cause_words(const CollectiveUse& use) {
  switch (use.cause) {
    case Cause::PartialSum:
      return "reduces partial sums of ";
    case Cause::WeightUse:
      return "gathers before use: ";
    case Cause::Experts:
      return "exchanges tokens with experts: ";
    case Cause::Declared:
      return "reshards to the requested layout: ";
    case Cause::Implicit:
      break;
  }
  return "reshards because operands disagree: ";
}

// Returns "all-gather over fsdp of layers.*.mlp.up_proj.weight and 2 more".
std::string title_of_uses(const std::vector<UsePair>& pairs) {
  const CollectiveUse& first = pairs.front().any();
  std::string text(collective_name(first.kind));
  text += " over " + joined(texts_of(first.axes), ",");
  text += (first.after_product ? " after " : " of ") + first.what;
  if (pairs.size() > 1) {
    text += " and " + std::to_string(pairs.size() - 1) + " more";
  }
  return text;
}

GateChange change_of_uses(const std::string& target, std::vector<UsePair> pairs,
                          Trend trend, const SideCollectives& before,
                          const SideCollectives& after) {
  std::ranges::stable_sort(pairs, [](const UsePair& a, const UsePair& b) {
    return std::abs(a.grown()) > std::abs(b.grown());
  });
  GateChange change;
  change.kind = GateKind::Collective;
  change.target = target;
  change.what = title_of_uses(pairs);
  int64_t counts[2] = {0, 0};
  int64_t bytes[2] = {0, 0};
  std::vector<std::string> names;
  for (const UsePair& pair : pairs) {
    for (const bool is_after : {false, true}) {
      counts[is_after ? 1 : 0] += pair.count(!is_after);
      bytes[is_after ? 1 : 0] += pair.bytes(!is_after);
    }
    names.push_back(pair.any().what);
  }
  const bool as_often = trend == Trend::Larger || trend == Trend::Smaller;
  if (as_often) {
    change.before = ChangeBytes{bytes[0]};
    change.after = ChangeBytes{bytes[1]};
  } else {
    change.before = counts[0];
    change.after = counts[1];
  }
  change.bytes_per_device = bytes[1] - bytes[0];
  const CollectiveUse& first = pairs.front().any();
  change.text = cause_words(first) +
                std::string(first.after_product ? "matmuls with " : "") +
                quoted_names(names);
  change.line = line_of_use(first, before, after, trend == Trend::Gone);
  return change;
}

}  // namespace

std::vector<GateChange> collective_changes(const std::string& target,
                                           const SideCollectives& before,
                                           const SideCollectives& after) {
  using Key = std::tuple<CollectiveKind, AxisNames, Cause, bool, Trend>;
  std::map<Key, std::vector<UsePair>> groups;
  for (const UsePair& pair : pairs_of_uses(before.uses, after.uses)) {
    const auto trend = trend_of(pair);
    if (!trend) continue;
    const CollectiveUse& use = pair.any();
    groups[Key(use.kind, use.axes, use.cause, use.after_product, *trend)]
        .push_back(pair);
  }
  std::vector<GateChange> changes;
  changes.reserve(groups.size());
  for (auto& [key, pairs] : groups) {
    changes.push_back(change_of_uses(target, std::move(pairs),
                                     std::get<Trend>(key), before, after));
  }
  std::ranges::stable_sort(
      changes, [](const GateChange& a, const GateChange& b) {
        return std::abs(a.bytes_per_device) > std::abs(b.bytes_per_device);
      });
  return changes;
}

}  // namespace shardplan
