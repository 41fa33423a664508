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

class LoraText {
 public:
  LoraText(Span where, Diagnostics& diags) : where_(where), diags_(diags) {}

  std::optional<Lora> read(std::string_view text) {
    bool has_rank = false;
    bool has_targets = false;
    while (!text.empty()) {
      const size_t end = std::min(text.find(','), text.size());
      const std::string_view part = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      const size_t equals = std::min(part.find('='), part.size());
      const std::string_view key = part.substr(0, equals);
      const std::string_view value =
          part.substr(std::min(equals + 1, part.size()));
      if ((key == "r" && has_rank) || (key == "targets" && has_targets)) {
        return refuse("`--lora` gives " + in_backticks(key) + " twice");
      }
      if (key == "r") {
        has_rank = true;
        if (!read_rank(value)) return std::nullopt;
      } else if (key == "targets") {
        has_targets = true;
        if (!read_targets(value)) return std::nullopt;
      } else if (key == "dtype") {
        const auto dtype = find_dtype(value);
        if (!dtype || !contains(kDtypes, *dtype)) {
          return refuse("adapters cannot be trained in dtype " +
                        in_backticks(value));
        }
        lora_.dtype = *dtype;
      } else {
        return refuse("`--lora` has no setting " + in_backticks(part));
      }
    }
    if (!has_rank) return refuse("`--lora` needs a rank");
    if (!has_targets) return refuse("`--lora` needs the layers to adapt");
    return lora_;
  }

 private:
  std::nullopt_t refuse(const std::string& why) {
    diags_.error(Code::Usage, where_, why).help(std::string(kHelp));
    return std::nullopt;
  }

  bool read_rank(std::string_view value) {
    const auto rank = parse_integer(value);
    if (rank && *rank > 0 && *rank <= kMostRank) {
      lora_.rank = *rank;
      return true;
    }
    refuse("the rank of `--lora` must be a number from 1 to " +
           count_text(kMostRank) + ", not " + in_backticks(value));
    return false;
  }

  bool read_targets(std::string_view value) {
    if (value == kAllLinear) return true;
    while (true) {
      const size_t end = std::min(value.find('+'), value.size());
      const std::string_view target = value.substr(0, end);
      if (target.empty() || target == kAllLinear) {
        refuse(
            "give the layers of `--lora` as `q_proj+v_proj`, or `all-linear`");
        return false;
      }
      lora_.targets.emplace_back(target);
      if (end == value.size()) return true;
      value.remove_prefix(end + 1);
    }
  }

  Span where_;
  Diagnostics& diags_;
  Lora lora_;
};

}  // namespace

bool Lora::names_layers() const {
  return std::ranges::any_of(targets, [](const std::string& target) {
    return target.find('.') != std::string::npos;
  });
}

std::optional<Lora> read_lora(std::string_view text, Span where,
                              Diagnostics& diags) {
  return LoraText(where, diags).read(text);
}

bool is_named_by(std::string_view module, std::string_view target) {
  if (!module.ends_with(target)) return false;
  const size_t before = module.size() - target.size();
  return before == 0 || module[before - 1] == '.';
}

}  // namespace shardplan
