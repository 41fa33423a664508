// SPDX-License-Identifier: Apache-2.0
#include "model/naming/lora.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "base/words.h"

namespace shardplan {
namespace {

// More than the number of inputs of any layer.
constexpr int64_t kMostRank = 1 << 20;
constexpr std::array kDtypes = {DType::F32, DType::F16, DType::BF16};
constexpr std::string_view kAllLinear = "all-linear";
constexpr std::string_view kHelp =
    "give `r=16,targets=q_proj+v_proj` or `r=16,targets=all-linear`; add "
    "`,dtype=bf16` for adapters in a dtype other than float32";

}  // namespace

bool Lora::names_layers() const {
  return std::ranges::any_of(
      targets, [](const std::string& target) { return contains(target, '.'); });
}

std::optional<Lora> read_lora(std::string_view text, Span where,
                              Diagnostics& diags) {
  const auto refuse = [&](std::string why) {
    return diags.error(Code::Usage, where, std::move(why))
        .help(std::string(kHelp));
  };
  Lora lora;
  bool has_rank = false;
  bool has_targets = false;
  while (!text.empty()) {
    const std::string_view part = next_part(text, ',');
    std::string_view value = part;
    const std::string_view key = next_part(value, '=');
    if ((key == "r" && has_rank) || (key == "targets" && has_targets)) {
      return refuse("`--lora` gives " + in_backticks(key) + " twice");
    }
    if (key == "r") {
      has_rank = true;
      lora.rank = parse_integer(value).value_or(0);
      if (lora.rank < 1 || lora.rank > kMostRank) {
        return refuse("the rank of `--lora` must be a number from 1 to " +
                      count_text(kMostRank) + ", not " + in_backticks(value));
      }
    } else if (key == "targets") {
      has_targets = true;
      if (value == kAllLinear) continue;
      const bool is_open = value.empty() || value.back() == '+';
      while (!value.empty()) lora.targets.emplace_back(next_part(value, '+'));
      if (is_open || contains(lora.targets, "") ||
          contains(lora.targets, kAllLinear)) {
        return refuse(
            "give the layers of `--lora` as `q_proj+v_proj`, or `all-linear`");
      }
    } else if (key == "dtype") {
      const auto dtype = find_dtype(value);
      if (!dtype || !contains(kDtypes, *dtype)) {
        return refuse("adapters cannot be trained in dtype " +
                      in_backticks(value));
      }
      lora.dtype = *dtype;
    } else {
      return refuse("`--lora` has no setting " + in_backticks(part));
    }
  }
  if (!has_rank) return refuse("`--lora` needs a rank");
  if (!has_targets) return refuse("`--lora` needs the layers to adapt");
  return lora;
}

bool is_named_by(std::string_view module, std::string_view target) {
  if (!module.ends_with(target)) return false;
  const size_t before = module.size() - target.size();
  return before == 0 || module[before - 1] == '.';
}

}  // namespace shardplan
