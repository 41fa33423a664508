// SPDX-License-Identifier: Apache-2.0
#include "core/axis_name.h"

#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>

namespace shardplan {
namespace {

// Pointers to the elements of a std::set stay valid.
struct AxisTexts {
  std::shared_mutex mutex;
  std::set<std::string, std::less<>> texts;
};

}  // namespace

AxisName::AxisName() {
  static const AxisName kEmpty{std::string_view()};
  text_ = kEmpty.text_;
}

AxisName::AxisName(std::string_view text) {
  // Never destroyed, since names may be read while other objects are destroyed
  // at exit.
  static AxisTexts& known = *new AxisTexts;
  {
    const std::shared_lock lock(known.mutex);
    const auto found = known.texts.find(text);
    if (found != known.texts.end()) {
      text_ = &*found;
      return;
    }
  }
  const std::unique_lock lock(known.mutex);
  text_ = &*known.texts.emplace(text).first;
}

std::vector<std::string> texts_of(const AxisNames& names) {
  return {names.begin(), names.end()};
}

}  // namespace shardplan
