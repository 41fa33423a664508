// SPDX-License-Identifier: Apache-2.0
// Properties: what holds for all values. A body draws values and says what must
// be so of them; it is run a hundred times, from small values to larger ones.
// When it fails, the values are made smaller for as long as it still fails, and
// those that are left are printed.
//
//   CHECK(holds("sums do not depend on the order", [] {
//     const int a = draw_in(0, 100);
//     const auto b = draw_of<int>({1, 2, 4});
//     ENSURE(a + b == b + a);
//   }));
//
// What draws (draw_..) draws only inside a body. RapidCheck stands behind this,
// in property.cc and generators.cc alone: it is templates, which each lambda
// and each type would make anew.
#pragma once

#include <any>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

// In a body: fails it unless this is so.
#define ENSURE(...)                                                \
  do {                                                             \
    if (!(__VA_ARGS__)) {                                          \
      ::shardplan::testing::fail_case(__FILE__, __LINE__,          \
                                      "ENSURE(" #__VA_ARGS__ ")"); \
    }                                                              \
  } while (false)

// In a body: the values drawn are none of those that the property is about.
#define ASSUME(...)                                                   \
  do {                                                                \
    if (!(__VA_ARGS__)) {                                             \
      ::shardplan::testing::discard_case(__FILE__, __LINE__,          \
                                         "ASSUME(" #__VA_ARGS__ ")"); \
    }                                                                 \
  } while (false)

namespace shardplan::testing {

// --- Properties

struct Verdict {
  bool holds;
  std::string text;  // of a property that fails, its smallest values
};

// A body that is only called while it is tried.
struct Body {
  void (*call)(const void* body);
  const void* body;
};
Verdict verdict_of(Body body);
bool holds_of(const char* name, Body body);

template <typename F>
Body body_of(const F& body) {
  return {[](const void* it) { (*static_cast<const F*>(it))(); }, &body};
}

template <typename F>
[[nodiscard]] bool holds(const char* name, const F& body) {
  return holds_of(name, body_of(body));
}
template <typename F>
[[nodiscard]] bool holds(const F& body) {
  return holds_of("", body_of(body));
}

// As `holds`, but prints nothing, and how to reproduce it is not told.
template <typename F>
[[nodiscard]] Verdict verdict(const F& body) {
  return verdict_of(body_of(body));
}

[[noreturn]] void fail_case(const char* file, int line, const char* what);
[[noreturn]] void discard_case(const char* file, int line, const char* what);

// Printed when the body fails.
std::ostream& case_log();
// Counts the cases of each kind; the shares are printed.
void count_case(const std::string& kind);

// --- Numbers

int64_t draw_whole_number(int64_t low, int64_t high);

// At least `low`, less than `high`; the range grows from `low` while the body
// is run again and again.
template <typename T>
T draw_in(T low, T high) {
  static_assert(std::is_integral_v<T>);
  return static_cast<T>(
      draw_whole_number(static_cast<int64_t>(low), static_cast<int64_t>(high)));
}

bool draw_bool();

// Any value of these types: small numbers and short texts first.
template <typename T>
T draw_any() = delete;
template <>
char draw_any<char>();
template <>
uint8_t draw_any<uint8_t>();
template <>
int16_t draw_any<int16_t>();
template <>
int32_t draw_any<int32_t>();
template <>
uint32_t draw_any<uint32_t>();
template <>
int64_t draw_any<int64_t>();
template <>
uint64_t draw_any<uint64_t>();
template <>
double draw_any<double>();
template <>
std::string draw_any<std::string>();
template <>
std::vector<uint8_t> draw_any<std::vector<uint8_t>>();
template <>
std::vector<int64_t> draw_any<std::vector<int64_t>>();

// --- How values are shown

std::string shown(const std::string& text);
std::string shown(char character);
std::string shown(bool value);
std::string shown(int64_t number);
std::string shown(double number);
std::string shown_list(const std::vector<std::string>& elements);

template <typename T>
std::string shown_value(const T& value);

template <typename T>
std::string shown_elements(const std::vector<T>& values) {
  std::vector<std::string> texts;
  for (const T& value : values) texts.push_back(shown_value(value));
  return shown_list(texts);
}

template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};

// Empty for what has no text.
template <typename T>
std::string shown_value(const T& value) {
  if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, char> ||
                std::is_same_v<T, std::string>) {
    return shown(value);
  } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
    return shown(static_cast<int64_t>(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    return shown(static_cast<double>(value));
  } else if constexpr (IsVector<T>::value) {
    return shown_elements(value);
  } else {
    return {};
  }
}

// --- One of several values

// `text` is asked for the value that is drawn, at once.
struct ValueTexts {
  std::string (*text)(const void* values, size_t index);
  const void* values;
};
size_t draw_index(size_t count, ValueTexts texts);

template <typename T>
std::string shown_at(const void* values, size_t index) {
  return shown_value(static_cast<const T*>(values)[index]);
}

// One of these, each as likely; the first is the simplest.
template <typename T>
T draw_of(std::initializer_list<T> values) {
  return values
      .begin()[draw_index(values.size(), {&shown_at<T>, values.begin()})];
}
template <typename T>
T draw_of(const std::vector<T>& values) {
  return values[draw_index(values.size(), {&shown_at<T>, values.data()})];
}

char draw_of(std::string_view characters);

// Some of these, each at most once, in any order.
std::vector<std::string> draw_some_of(const std::vector<std::string>& values);

// --- Texts and lists, mostly short

size_t draw_size();  // of a list

// Made of these characters.
std::string draw_text(std::string_view characters);

struct ElementKind {
  std::any (*draw)();
  std::string (*text)(const std::any& value);
};
std::vector<std::any> draw_elements(ElementKind kind);

// Each element is what `draw` draws. Elements are drawn again when the body has
// returned, so `draw` captures nothing; what must capture draws its size and
// then elements.
template <typename F>
auto draw_list(F draw) {
  static_assert(std::is_empty_v<F>);
  (void)draw;
  using T = decltype(draw());
  std::vector<T> list;
  for (std::any& element :
       draw_elements({[] { return std::any(F{}()); },
                      [](const std::any& value) {
                        return shown_value(*std::any_cast<T>(&value));
                      }})) {
    list.push_back(std::move(*std::any_cast<T>(&element)));
  }
  return list;
}

// Several draws that are shown as the text they make.
std::string draw_together(std::string (*draw)());

}  // namespace shardplan::testing

// The words of a property, which tests say as they say CHECK.
namespace shardplan {
using testing::draw_any;
using testing::draw_bool;
using testing::draw_in;
using testing::draw_list;
using testing::draw_of;
using testing::draw_size;
using testing::draw_some_of;
using testing::draw_text;
using testing::draw_together;
using testing::holds;
}  // namespace shardplan
