// SPDX-License-Identifier: Apache-2.0
// AxisName: the name of an axis, kept once for the whole program.
//
// Specs, layouts and programs are searched for axes far more often than axes
// are named, so that a name is a pointer to the one copy of its text: names are
// copied and compared without reading it. They are ordered by their text, since
// the addresses differ from run to run.
//
// Names are never given back; there are as many as the input has axes. Safe on
// threads.
#pragma once

#include <algorithm>
#include <compare>
#include <concepts>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <absl/container/inlined_vector.h>

namespace shardplan {

class AxisName {
 public:
  AxisName();  // the empty text
  // Text becomes a name wherever one is asked for.
  AxisName(std::string_view text);
  AxisName(const std::string& text) : AxisName(std::string_view(text)) {}
  AxisName(const char* text) : AxisName(std::string_view(text)) {}

  const std::string& text() const { return *text_; }
  bool empty() const { return text_->empty(); }
  operator const std::string&() const { return *text_; }
  operator std::string_view() const { return *text_; }

  friend bool operator==(const AxisName& a, const AxisName& b) {
    return a.text_ == b.text_;
  }
  friend std::strong_ordering operator<=>(const AxisName& a,
                                          const AxisName& b) {
    return a.text_ == b.text_ ? std::strong_ordering::equal
                              : *a.text_ <=> *b.text_;
  }
  template <typename Text>
  requires std::convertible_to<const Text&, std::string_view> &&
      (!std::same_as<Text, AxisName>)friend bool
      operator==(const AxisName& name, const Text& text) {
    return *name.text_ == std::string_view(text);
  }

  friend std::string operator+(std::string a, const AxisName& b) {
    return std::move(a) + *b.text_;
  }
  friend std::string operator+(const AxisName& a, std::string_view b) {
    return *a.text_ + std::string(b);
  }

 private:
  const std::string* text_;
};

// Most dimensions are cut over one axis or two, which take no allocation.
using AxisNames = absl::InlinedVector<AxisName, 2>;

template <typename Predicate>
void erase_if(AxisNames& names, Predicate is) {
  names.erase(std::remove_if(names.begin(), names.end(), is), names.end());
}
inline void erase(AxisNames& names, const AxisName& name) {
  names.erase(std::remove(names.begin(), names.end(), name), names.end());
}

// Their texts, for messages and reports.
std::vector<std::string> texts_of(const AxisNames& names);

}  // namespace shardplan

template <>
struct std::hash<shardplan::AxisName> {
  size_t operator()(const shardplan::AxisName& name) const {
    return std::hash<std::string>()(name.text());
  }
};
