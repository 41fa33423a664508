// SPDX-License-Identifier: Apache-2.0
#include "resolve/name_groups.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/name_classes.h"

namespace shardplan {
namespace {

// The numbers that a pattern distinguishes behind one text, one bit per code.
class ToldBehind {
 public:
  ToldBehind(std::string_view text, const std::vector<uint32_t>& codes)
      : text_(text) {
    const uint32_t most = *std::ranges::max_element(codes);
    told_.resize(most + size_t{1});
    for (const uint32_t code : codes) told_[code] = true;
  }

  // Returns whether the text may stand before a number. `before` is the name's
  // text between the previous number and this one; `whole` means that it
  // reaches back to the beginning of the name instead.
  bool fits(std::string_view before, bool whole) const {
    return before.ends_with(text_) || (!whole && text_.ends_with(before));
  }
  bool tells(uint32_t code) const { return code < told_.size() && told_[code]; }

 private:
  std::string_view text_;
  std::vector<bool> told_;
};

// For each number of a class, the texts behind which it may be distinguished.
using Tellers = std::vector<std::vector<const ToldBehind*>>;

class NameGrouper {
 public:
  NameGrouper(const Manifest& manifest, const std::vector<ToldBehind>& behind)
      : manifest_(manifest),
        behind_(behind),
        group_of_state_(manifest.name_classes().size(), kNone) {
    const NameClasses& names = manifest.name_classes();
    tellers_.reserve(names.size());
    for (uint32_t i = 0; i < names.size(); ++i) {
      tellers_.push_back(tellers_of(i));
    }
  }

  NameGroups run() {
    NameGroups groups;
    groups.of.reserve(manifest_.size());
    for (size_t i = 0; i < manifest_.size(); ++i) {
      uint32_t& group = group_of_state_[state_of(i)];
      if (group == kNone) {
        group = static_cast<uint32_t>(groups.first.size());
        groups.first.push_back(static_cast<uint32_t>(i));
      }
      groups.of.push_back(group);
    }
    return groups;
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  Tellers tellers_of(uint32_t number) const {
    const NameClasses& names = manifest_.name_classes();
    Tellers tellers;
    bool any = false;
    for (size_t i = 0; i < names.numbers(number); ++i) {
      std::string before(names.text(number, i));
      if (i == 0) before.insert(before.begin(), kNameBegin);
      auto& here = tellers.emplace_back();
      for (const ToldBehind& some : behind_) {
        if (some.fits(before, i == 0)) here.push_back(&some);
      }
      any = any || !here.empty();
    }
    if (!any) tellers.clear();
    return tellers;
  }

  // Starts at the class and moves to another state with each distinguished
  // number.
  uint32_t state_of(size_t parameter) {
    const uint32_t number = manifest_.name_class(parameter);
    uint32_t state = number;
    const Tellers& tellers = tellers_[number];
    if (tellers.empty()) return state;
    manifest_.name_classes().each_number(
        number, manifest_.name(parameter),
        [&](size_t index, std::string_view digits) {
          const uint32_t code = number_code(digits);
          const auto& here = tellers[index];
          const bool told =
              code != 0 && std::ranges::any_of(here, [&](const ToldBehind* t) {
                return t->tells(code);
              });
          if (told) state = further(state, index, code);
        });
    return state;
  }

  uint32_t further(uint32_t state, size_t index, uint32_t code) {
    const Step step{state, static_cast<uint32_t>(index), code};
    const auto [found, is_new] =
        steps_.try_emplace(step, static_cast<uint32_t>(group_of_state_.size()));
    if (is_new) group_of_state_.push_back(kNone);
    return found->second;
  }

  struct Step {
    uint32_t state = 0;
    uint32_t index = 0;
    uint32_t code = 0;
    bool operator==(const Step&) const = default;
  };
  struct HashStep {
    size_t operator()(const Step& step) const {
      uint64_t hash = (uint64_t{step.state} << 32U) ^
                      (uint64_t{step.index} << 20U) ^ step.code;
      hash *= 0x9e3779b97f4a7c15U;
      return hash ^ (hash >> 32U);
    }
  };

  const Manifest& manifest_;
  const std::vector<ToldBehind>& behind_;
  std::vector<Tellers> tellers_;  // per class; empty: no number is
                                  // distinguished
  std::vector<uint32_t> group_of_state_;
  std::unordered_map<Step, uint32_t, HashStep> steps_;
};

}  // namespace

bool may_be_grouped(const Manifest& manifest) {
  return 2 * manifest.name_classes().size() <= manifest.size();
}

NameGroups group_names(const Manifest& manifest, const ToldNumbers& told) {
  const size_t classes = manifest.name_classes().size();
  // Each text is compared with each class. If that is too much work, one empty
  // text has all codes, which can only split groups further.
  const bool is_one = told.behind.size() * classes > 4 * manifest.size();
  std::vector<ToldBehind> behind;
  if (is_one) {
    std::vector<uint32_t> all;
    for (const auto& [text, codes] : told.behind) {
      all.insert(all.end(), codes.begin(), codes.end());
    }
    behind.emplace_back("", all);
  } else {
    for (const auto& [text, codes] : told.behind) {
      behind.emplace_back(text, codes);
    }
  }
  return NameGrouper(manifest, behind).run();
}

}  // namespace shardplan
