// SPDX-License-Identifier: Apache-2.0
#include "activations/bracket_rows.h"

#include <algorithm>
#include <cstdint>
#include <string>
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
     {"buffers", "gathered ahead"},
     {"gradient_buckets", "gradient buckets"},
     {"pipeline_buffers", "pipeline buffers"},
     {"optimizer_temporaries", "optimizer temporaries"},
     {"workspaces", "workspaces"},
     {"dequantised_weights", "dequantised weights"},
     {"fp8_weights", "weights in fp8"}}};

constexpr size_t kMostAlive = 16;
constexpr int64_t kOtherSlack = 4;  // the same of logits and buffers

std::string title_of(size_t row, const ShownRows& shown) {
  if (row < kCategories) {
    return std::string(category_title(static_cast<Category>(row)));
  }
  if (row == kBuffers && shown.more_buffers) return "buffers";
  if (row == kBuffers && shown.offloads) return "gathered, fetched ahead";
  return std::string(kNames.at(row - kCategories).title);
}

}  // namespace

Int128 sum_of(const Parts& parts) {
  Int128 sum = 0;
  for (const Int128 part : parts) sum += part;
  return sum;
}

void loosen(Keeping answer, int64_t percent, Parts& parts) {
  const auto by = [&](StepRow row, int64_t part) {
    Int128& bytes = parts.at(row);
    if (answer == Keeping::Least) bytes = bytes * (100 - part) / 100;
    if (answer == Keeping::Eager) bytes = bytes * (100 + part) / 100;
  };
  by(kActivations, percent);
  by(kLogitRow, kOtherSlack);
  by(kBuffers, kOtherSlack);
}

void keep_stage(Int128 kept, const LayerWeights::Share& share,
                const ReductionInput& reduction, Parts& parts) {
  Int128& gathered = parts[static_cast<size_t>(Category::GatheredLayer)];
  if (gathered == 0 || kept == 0) return;
  gathered = std::max(gathered, kept);
  const int64_t unit = reduction.compute_bytes;
  parts[kBuckets] = std::max(
      parts[kBuckets], gathered * share.part / std::max<Int128>(share.of, 1) *
                           std::max(reduction.gradient_bytes, unit) / unit);
}

std::vector<AliveRow> alive_rows(const std::map<std::string, Int128>& saved,
                                 const std::map<std::string, Int128>& running) {
  std::vector<AliveRow> rows;
  const auto add = [&](const std::map<std::string, Int128>& of, bool is_saved) {
    for (const auto& [name, bytes] : of) {
      if (bytes <= 0) continue;
      rows.push_back({name, is_saved, static_cast<int64_t>(bytes)});
    }
  };
  add(saved, true);
  add(running, false);
  std::stable_sort(
      rows.begin(), rows.end(),
      [](const AliveRow& a, const AliveRow& b) { return a.bytes > b.bytes; });
  if (rows.size() > kMostAlive) rows.resize(kMostAlive);
  return rows;
}

std::vector<BracketRow> bracket_rows(const std::array<Parts, kKeepings>& parts,
                                     const ShownRows& shown) {
  std::vector<BracketRow> rows;
  for (size_t row = 0; row < kRows; ++row) {
    if ((row == kWorkspaces && !shown.workspaces) ||
        (row == kDequantised && !shown.dequantised) ||
        (row == kFp8 && !shown.fp8)) {
      continue;
    }
    BracketRow each;
    each.category = row < kCategories
                        ? std::string(category_name(static_cast<Category>(row)))
                        : std::string(kNames.at(row - kCategories).category);
    each.title = title_of(row, shown);
    for (size_t k = 0; k < kKeepings; ++k) {
      each.bytes[k] = static_cast<int64_t>(parts.at(k).at(row));
    }
    rows.push_back(std::move(each));
  }
  return rows;
}

}  // namespace shardplan
