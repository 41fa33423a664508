// SPDX-License-Identifier: Apache-2.0
// Pairs the collectives of the two sides, and groups those with the same trend.
#include "gate/collective_changes.h"

#include <algorithm>
#include <functional>
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

// The use on a side that lacks it.
const CollectiveUse kNoUse;

// The same use on both sides; one of them may lack it.
struct UsePair {
  const CollectiveUse* before = &kNoUse;
  const CollectiveUse* after = &kNoUse;

  const CollectiveUse& any() const {
    return after != &kNoUse ? *after : *before;
  }
  int64_t grown() const {
    return after->bytes_per_device - before->bytes_per_device;
  }
};

// Returns the trend; empty if nothing changes.
std::optional<Trend> trend_of(const UsePair& pair) {
  if (pair.before == &kNoUse) return Trend::New;
  if (pair.after == &kNoUse) return Trend::Gone;
  if (pair.before->count != pair.after->count) {
    return pair.after->count > pair.before->count ? Trend::More : Trend::Fewer;
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
  std::ranges::stable_sort(
      pairs, std::ranges::greater(),
      [](const UsePair& pair) { return std::abs(pair.grown()); });
  GateChange change = {.kind = GateKind::Collective,
                       .target = target,
                       .what = title_of_uses(pairs)};
  CollectiveUse was;
  CollectiveUse is;
  std::vector<std::string> names;
  for (const UsePair& pair : pairs) {
    was.count += pair.before->count;
    was.bytes_per_device += pair.before->bytes_per_device;
    is.count += pair.after->count;
    is.bytes_per_device += pair.after->bytes_per_device;
    names.push_back(pair.any().what);
  }
  const bool as_often = trend == Trend::Larger || trend == Trend::Smaller;
  if (as_often) {
    change.before = ChangeBytes{was.bytes_per_device};
    change.after = ChangeBytes{is.bytes_per_device};
  } else {
    change.before = was.count;
    change.after = is.count;
  }
  change.bytes_per_device = is.bytes_per_device - was.bytes_per_device;
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
  using PairKey =
      std::tuple<CollectiveKind, AxisNames, Cause, bool, std::string>;
  std::map<PairKey, UsePair> all_pairs;
  const auto of = [&](const CollectiveUse& use) -> UsePair& {
    return all_pairs[{use.kind, use.axes, use.cause, use.after_product,
                      use.what}];
  };
  for (const CollectiveUse& use : before.uses) of(use).before = &use;
  for (const CollectiveUse& use : after.uses) of(use).after = &use;
  using Key = std::tuple<CollectiveKind, AxisNames, Cause, bool, Trend>;
  std::map<Key, std::vector<UsePair>> groups;
  for (const auto& [pair_key, pair] : all_pairs) {
    const auto trend = trend_of(pair);
    if (!trend) continue;
    const CollectiveUse& use = pair.any();
    groups[Key(use.kind, use.axes, use.cause, use.after_product, *trend)]
        .push_back(pair);
  }
  std::vector<GateChange> changes;
  for (auto& [key, pairs] : groups) {
    changes.push_back(change_of_uses(target, std::move(pairs),
                                     std::get<Trend>(key), before, after));
  }
  sort_largest_first(changes);
  return changes;
}

}  // namespace shardplan
