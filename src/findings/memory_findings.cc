// SPDX-License-Identifier: Apache-2.0
// Findings about memory: a plan that does not fit, with what would help, and
// uneven stages.
#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "findings/checks.h"
#include "memory/budget.h"
#include "memory/fit.h"
#include "memory/stages.h"

namespace shardplan {
namespace {

// Returns the bytes that are left for state that devices can divide: without
// the reserve, and without what does not shrink with more devices.
int64_t room_for_state(const Budget& budget, const BudgetOptions& options) {
  const CategoryBytes& bytes = budget.classes.front().bytes;
  const auto room = static_cast<double>(budget.limit->usable - options.reserve);
  return static_cast<int64_t>(room / (1 + options.fragmentation)) -
         nth(bytes, Category::GatheredLayer) - nth(bytes, Category::KvCache) -
         nth(bytes, Category::RecurrentState);
}

void help_devices(const Plan& plan, const Budget& budget,
                  const BudgetOptions& options, Diagnostics::Builder& report) {
  Int128 state = 0;
  for (const LeafSum& sum : budget.leaves) state += sum.logical;
  const int64_t room = room_for_state(budget, options);
  const std::string what = options.state.optimizer == Optimizer::None
                               ? "the parameters"
                               : "parameters and training state";
  const std::string all = what + " are " + bytes_text(state) + " in total: ";
  if (room <= 0) {
    report.fact(all + "no device has room for them");
    return;
  }
  const auto least = static_cast<int64_t>(
      std::min<Int128>((state + room - 1) / room, INT64_MAX));
  const int64_t devices = plan.mesh.devices();
  if (least <= devices) {
    report.help(
        all + count_text(devices) + " devices could hold them at " +
        bytes_text(static_cast<double>(state) / static_cast<double>(devices)) +
        " each, without replication");
    return;
  }
  report.help(all + "at least " + count_text(least) +
              " devices of this kind are needed (" +
              count_text(ceil_div(least, devices)) + " times as many)");
}

void help_cache(const Manifest& manifest, const Budget& budget,
                const BudgetOptions& options, Diagnostics::Builder& report) {
  if (!options.kv || options.stages) return;
  const auto layers = kv_layers(manifest.facts);
  if (!layers) return;
  const CategoryBytes& bytes = budget.classes.front().bytes;
  const int64_t room =
      room_for_state(budget, options) + nth(bytes, Category::KvCache) +
      nth(bytes, Category::RecurrentState) - nth(bytes, Category::Parameters);
  if (room <= 0) return;
  const auto batch = largest_that_fits(&KvRequest::batch, *layers,
                                       options.kv_sharding, *options.kv, room);
  const auto seq = largest_that_fits(&KvRequest::seq, *layers,
                                     options.kv_sharding, *options.kv, room);
  if (batch && *batch > 0) {
    report.help("`--batch " + std::to_string(*batch) + "` would fit at " +
                count_text(options.kv->seq) + " tokens");
  }
  if (seq && *seq > 0) {
    report.help("`--seq " + std::to_string(*seq) + "` would fit at batch " +
                count_text(options.kv->batch));
  }
}

// Returns "gradients 1.00 GiB, optimizer state 2.00 GiB", the largest first.
std::string categories_text(const CategoryBytes& bytes) {
  using Sized = std::pair<int64_t, Category>;
  std::vector<Sized> sorted;
  for (size_t i = 0; i < kCategories; ++i) {
    if (bytes[i] > 0) sorted.emplace_back(bytes[i], static_cast<Category>(i));
  }
  std::ranges::stable_sort(sorted, std::ranges::greater(), &Sized::first);
  return joined_of(sorted, ", ", [](const Sized& each) {
    return std::string(category_title(each.second)) + " " +
           bytes_text(each.first);
  });
}

std::string limit_text(const DeviceLimit& limit, int64_t reserve) {
  std::string text = limit.name + ": " + bytes_text(limit.usable);
  if (limit.usable != limit.nominal) {
    text += " usable of " + bytes_text(limit.nominal);
  }
  if (reserve > 0) text += ", " + bytes_text(reserve) + " reserved";
  return text;
}

}  // namespace

std::string tried_text(const TriedChange& tried) {
  const int64_t headroom = *tried.fit.headroom;
  return "`" + tried.flags + "` would need " + bytes_text(tried.fit.needed) +
         " per device: " +
         (headroom >= 0 ? "it fits, with " + bytes_text(headroom) + " to spare"
                        : bytes_text(-headroom) + " over capacity");
}

void check_over_memory(const MemoryInput& input, Diagnostics& diags) {
  const auto& [manifest, plan, groups, options, budget, tried] = input;
  if (budget.fits()) return;
  const BudgetClass& fullest = budget.classes.front();
  auto report = diags.report(
      Code::OverMemory, {},
      "the plan needs " + bytes_text(fullest.total) + " per device, " +
          bytes_text(-budget.headroom) + " over capacity");
  report.bytes(static_cast<double>(fullest.total));
  report.fact(categories_text(fullest.bytes));
  report.fact(limit_text(*budget.limit, options.reserve));
  if (const std::string each = stage_limits_text(*budget.limit);
      !each.empty()) {
    report.fact(each);
  }
  if (!fullest.label.empty()) {
    report.fact("the fullest devices are in " + fullest.label);
  }
  if (tried != nullptr) {
    for (const TriedChange& each : *tried) report.help(tried_text(each));
  }
  help_cache(manifest, budget, options, report);
  help_devices(plan, budget, options, report);
}

// Reports stages that do not divide the layers and were not named by the user.
void check_stages(const LintInput& input, Diagnostics& diags) {
  const ParameterStages* const stages = input.options.stages.get();
  if (stages == nullptr || !stages->uneven) return;
  const std::vector<int64_t>& held = stages->layers;
  const int64_t least = held.back();
  const int64_t more = std::ranges::count(held, least + 1);
  auto report = diags.report(
      Code::UnevenStages, {},
      plural(std::accumulate(held.begin(), held.end(), int64_t{0}), "layer") +
          " do not divide evenly into " + plural(stages->stages, "stage"));
  report.fact(
      (more == 1 ? "stage 0 has "
                 : "stages 0 to " + std::to_string(more - 1) + " have ") +
      plural(least + 1, "layer") + ", the others " + std::to_string(least));
  report.help("set the layers of each stage, e.g. `--stages " + stages->axis +
              ":" +
              joined_of(held, ",",
                        [](int64_t layers) { return std::to_string(layers); }) +
              "`, the split assumed here");
}

}  // namespace shardplan
