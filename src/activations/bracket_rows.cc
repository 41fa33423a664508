// SPDX-License-Identifier: Apache-2.0
#include "activations/bracket_rows.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

namespace shardplan {
namespace {

struct RowName {
  std::string_view category;
  std::string_view title;
};

constexpr std::array<RowName, kRows - kCategories> kNames = {
    {{"activations", "activations"},
     {"logits", "logits"},
     {"buffers", "prefetched weights"},
     {"gradient_buckets", "gradient buckets"},
     {"pipeline_buffers", "pipeline buffers"},
     {"optimizer_temporaries", "optimizer temporaries"},
     {"workspaces", "workspaces"},
     {"dequantised_weights", "dequantised weights"},
     {"fp8_weights", "fp8 weights"}}};

RowName name_of(size_t row) {
  if (row >= kCategories) return kNames.at(row - kCategories);
  const auto category = static_cast<Category>(row);
  return {category_name(category), category_title(category)};
}

constexpr size_t kMostAlive = 16;
constexpr int64_t kOtherSlack = 4;  // the margin of logits and buffers, in
                                    // percent
// Items too small to be counted individually are at most one part in this many
// of the total: the padding of PyTorch's tensors to multiples of 512 bytes, a
// batch, tables of positions.
constexpr int64_t kSmallPart = 200;

}  // namespace

Int128 sum_of(const Parts& parts) {
  Int128 sum = 0;
  for (const Int128 part : parts) sum += part;
  return sum;
}

Parts state_of(const BudgetClass& device) {
  Parts parts{};
  std::ranges::copy(device.bytes, parts.begin());
  nth(parts, Category::GatheredLayer) = 0;
  nth(parts, Category::Gradients) = device.held(Category::Gradients);
  return parts;
}

void loosen(SavingMode figure, int64_t percent, Parts& parts) {
  const auto by = [&](StepRow row, int64_t part) {
    Int128& bytes = parts.at(row);
    if (figure == SavingMode::Least) bytes = bytes * (100 - part) / 100;
    if (figure == SavingMode::Eager) bytes = bytes * (100 + part) / 100;
  };
  by(kActivations, percent);
  by(kLogitRow, kOtherSlack);
  by(kBuffers, kOtherSlack);
  by(kBuckets, kOtherSlack);
  if (figure == SavingMode::Eager) {
    const Int128 own = sum_of(parts) - parts.at(kWorkspaces);
    parts.at(kBuffers) += own / kSmallPart;
  }
}

std::vector<Widening> widenings(const Parts& least, const Parts& most,
                                const SegmentOptions& how) {
  std::vector<Widening> found;
  const auto add = [&](std::string_view cause, Int128 bytes) {
    if (bytes > 0 && bytes * 100 >= sum_of(most)) {
      found.push_back({std::string(cause), static_cast<int64_t>(bytes)});
    }
  };
  Int128 margins = 0;
  // Returns a row's width without the margin, which is added to `margins`.
  const auto beyond = [&](StepRow row, int64_t percent) {
    const Int128 width = most.at(row) - least.at(row);
    if (!how.is_eager) return width;
    const Int128 margin =
        std::min(std::max(width, Int128{0}),
                 most.at(row) * percent / (100 + percent) +
                     least.at(row) * percent / (100 - percent));
    margins += margin;
    return width - margin;
  };
  const bool versions = how.attention_at_least || how.attention_at_most;
  const Int128 activations = beyond(kActivations, kActivationSlack);
  const Int128 logits = beyond(kLogitRow, kOtherSlack);
  const Int128 buffers = beyond(kBuffers, kOtherSlack);
  add(how.is_eager && versions ? "attention: scores kept or not, by version of "
                                 "PyTorch or transformers"
      : how.is_eager ? "activations: gradients that may be live together"
                     : "activations: kernels unknown",
      activations);
  add(how.is_eager ? "logits: a copy that the program may keep"
                   : "logits: loss implementation unknown",
      logits);
  add(how.is_eager ? "buffers: gradients and casts that may be live together"
                   : "buffers",
      buffers);
  add("margin: 8 % of activations, 4 % of logits and buffers, either way",
      margins);
  for (size_t row = 0; row < kRows; ++row) {
    if (row == kActivations || row == kLogitRow || row == kBuffers) continue;
    add(name_of(row).title, most.at(row) - least.at(row));
  }
  std::ranges::stable_sort(found, std::greater<>(), &Widening::bytes);
  return found;
}

void retain_stage(Int128 retained, const TrainedShare& share,
                  const ReductionInput& reduction, Parts& parts) {
  Int128& gathered = nth(parts, Category::GatheredLayer);
  if (gathered == 0 || retained == 0) return;
  gathered = std::max(gathered, retained);
  const int64_t unit = reduction.compute_bytes;
  parts[kBuckets] = std::max(
      parts[kBuckets], gathered * share.part / std::max<Int128>(share.of, 1) *
                           std::max(reduction.gradient_bytes, unit) / unit);
}

std::vector<AliveRow> alive_rows(const std::map<std::string, Int128>& saved,
                                 const std::map<std::string, Int128>& running) {
  std::vector<AliveRow> rows;
  for (const bool is_saved : {true, false}) {
    for (const auto& [name, bytes] : is_saved ? saved : running) {
      if (bytes <= 0) continue;
      rows.push_back({name, is_saved, static_cast<int64_t>(bytes)});
    }
  }
  std::ranges::stable_sort(rows, std::greater<>(), &AliveRow::bytes);
  if (rows.size() > kMostAlive) rows.resize(kMostAlive);
  return rows;
}

std::vector<BracketRow> bracket_rows(
    const std::array<Parts, kSavingModes>& parts, const FrameworkDef& framework,
    const SegmentOptions& how, bool dequantises, bool offloads) {
  // Buffers then include gradients, the copies of XLA's loops and arena, or
  // casts.
  const bool more_buffers = framework.buffers_gradients ||
                            framework.slices_saved.back() || how.autocast ||
                            how.is_eager;
  std::vector<BracketRow> rows;
  for (size_t row = 0; row < kRows; ++row) {
    if ((row == kWorkspaces && framework.workspaces.back() == 0) ||
        (row == kDequantised && !dequantises) ||
        (row == kFp8 && how.fp8 == nullptr)) {
      continue;
    }
    const RowName name = name_of(row);
    BracketRow each{std::string(name.category), std::string(name.title)};
    if (row == kBuffers && more_buffers) {
      each.title = "buffers";
    } else if (row == kBuffers && offloads) {
      each.title = "prefetched weights, offloads";
    }
    for (size_t k = 0; k < kSavingModes; ++k) {
      each.bytes[k] = static_cast<int64_t>(parts.at(k).at(row));
    }
    rows.push_back(std::move(each));
  }
  return rows;
}

}  // namespace shardplan
