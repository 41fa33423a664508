// SPDX-License-Identifier: Apache-2.0
// Follows each name through the numbers that patterns distinguish.
#include "resolve/name_groups.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/name_classes.h"

namespace shardplan {
namespace {

// The numbers that a pattern distinguishes after one text, one bit per code.
class NumbersAfterText {
 public:
  NumbersAfterText(std::string_view text, const std::vector<uint32_t>& codes)
      : text_(text) {
    const uint32_t most = *std::ranges::max_element(codes);
    distinguished_.resize(most + size_t{1});
    for (const uint32_t code : codes) distinguished_[code] = true;
  }

  // Returns whether the text may stand before a number. `before` is the name's
  // text between the previous number and this one; `whole` means that it
  // reaches back to the beginning of the name instead.
  bool fits(std::string_view before, bool whole) const {
    return before.ends_with(text_) || (!whole && text_.ends_with(before));
  }
  bool has(uint32_t code) const {
    return code < distinguished_.size() && distinguished_[code];
  }

 private:
  std::string_view text_;
  std::vector<bool> distinguished_;
};

// For each number of a class, the texts after which it may be distinguished.
using NumberContexts = std::vector<std::vector<const NumbersAfterText*>>;

class NameGrouper {
 public:
  NameGrouper(const Manifest& manifest,
              const std::vector<NumbersAfterText>& numbers)
      : manifest_(manifest),
        distinguished_(numbers),
        group_of_state_(manifest.name_classes().size(), kNone) {
    const NameClasses& names = manifest.name_classes();
    contexts_.reserve(names.size());
    for (uint32_t i = 0; i < names.size(); ++i) {
      contexts_.push_back(contexts_of(i));
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

  NumberContexts contexts_of(uint32_t number) const {
    const NameClasses& names = manifest_.name_classes();
    NumberContexts contexts;
    bool any = false;
    for (size_t i = 0; i < names.numbers(number); ++i) {
      std::string before(names.text(number, i));
      if (i == 0) before.insert(before.begin(), kNameBegin);
      auto& here = contexts.emplace_back();
      for (const NumbersAfterText& some : distinguished_) {
        if (some.fits(before, i == 0)) here.push_back(&some);
      }
      any = any || !here.empty();
    }
    if (!any) contexts.clear();
    return contexts;
  }

  // Starts at the class and moves to another state with each distinguished
  // number.
  uint32_t state_of(size_t parameter) {
    const uint32_t number = manifest_.name_class(parameter);
    uint32_t state = number;
    const NumberContexts& contexts = contexts_[number];
    if (contexts.empty()) return state;
    manifest_.name_classes().each_number(
        number, manifest_.name(parameter),
        [&](size_t index, std::string_view digits) {
          const uint32_t code = number_code(digits);
          const auto& here = contexts[index];
          const bool distinguished =
              code != 0 &&
              std::ranges::any_of(here, [&](const NumbersAfterText* t) {
                return t->has(code);
              });
          if (distinguished) state = further(state, index, code);
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
  const std::vector<NumbersAfterText>& distinguished_;
  std::vector<NumberContexts> contexts_;  // per class; empty: no number is
                                          // distinguished
  std::vector<uint32_t> group_of_state_;
  std::unordered_map<Step, uint32_t, HashStep> steps_;
};

}  // namespace

bool may_be_grouped(const Manifest& manifest) {
  return 2 * manifest.name_classes().size() <= manifest.size();
}

NameGroups group_names(const Manifest& manifest,
                       const DistinguishedNumbers& distinguished) {
  const size_t classes = manifest.name_classes().size();
  // Each text is compared with each class. If that is too much work, one empty
  // text has all codes, which can only split groups further.
  const bool is_one =
      distinguished.after_text.size() * classes > 4 * manifest.size();
  std::vector<NumbersAfterText> numbers;
  if (is_one) {
    std::vector<uint32_t> all;
    for (const auto& [text, codes] : distinguished.after_text) {
      all.insert(all.end(), codes.begin(), codes.end());
    }
    numbers.emplace_back("", all);
  } else {
    for (const auto& [text, codes] : distinguished.after_text) {
      numbers.emplace_back(text, codes);
    }
  }
  return NameGrouper(manifest, numbers).run();
}

}  // namespace shardplan
