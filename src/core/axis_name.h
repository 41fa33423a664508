// SPDX-License-Identifier: Apache-2.0
// AxisName: the name of an axis, stored once for the whole program.
//
// Specs, layouts and programs are searched for axes far more often than axes
// are named, so a name is a pointer to the only copy of its text: copying and
// comparing names never reads the text. Names are ordered by their text,
// because addresses differ from run to run.
//
// Names are never freed; there are only as many as the input has axes.
// Thread-safe.
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
  // Implicit, so that text can be passed wherever a name is expected.
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

// Most dimensions are sharded over one or two axes, which need no allocation.
using AxisNames = absl::InlinedVector<AxisName, 2>;

template <typename Predicate>
void erase_if(AxisNames& names, Predicate is) {
  names.erase(std::remove_if(names.begin(), names.end(), is), names.end());
}
inline void erase(AxisNames& names, const AxisName& name) {
  names.erase(std::remove(names.begin(), names.end(), name), names.end());
}

// Returns the texts of the names, for messages and reports.
std::vector<std::string> texts_of(const AxisNames& names);

}  // namespace shardplan

template <>
struct std::hash<shardplan::AxisName> {
  size_t operator()(const shardplan::AxisName& name) const {
    return std::hash<std::string>()(name.text());
  }
};
