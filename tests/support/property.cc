// SPDX-License-Identifier: Apache-2.0
#include "tests/support/property.h"

#include <iostream>
#include <map>
#include <memory>
#include <ostream>
#include <sstream>

#include <rapidcheck.h>
#include <rapidcheck/detail/TestListenerAdapter.h>

namespace shardplan::testing {
namespace {

// What each draw adds to a counterexample.
struct DrawnIndex {
  size_t index = 0;
  std::shared_ptr<std::map<size_t, std::string>> texts;
};
void showValue(const DrawnIndex& drawn, std::ostream& out) {  // NOLINT
  const auto text = drawn.texts->find(drawn.index);
  if (text != drawn.texts->end() && !text->second.empty()) {
    out << text->second;
  } else {
    out << "the value at " << drawn.index;
  }
}

struct DrawnElement {
  std::any value;
  std::string (*text)(const std::any& value);
};
void showValue(const DrawnElement& drawn, std::ostream& out) {  // NOLINT
  const std::string text = drawn.text(drawn.value);
  out << (text.empty() ? "a value" : text);
}

auto callable(Body body) {
  return [body] { body.call(body.body); };
}

Verdict verdict_of(const rc::detail::TestResult& result) {
  std::ostringstream out;
  rc::detail::printResultMessage(result, out);
  return {result.template is<rc::detail::SuccessResult>(), out.str()};
}

rc::detail::CaseResult case_result(rc::detail::CaseResult::Type type,
                                   const char* file, int line,
                                   const char* what) {
  return {type, std::string(file) + ":" + std::to_string(line) + ":\n" + what};
}

template <typename T>
std::string text_of(const T& value) {
  std::ostringstream out;
  rc::show(value, out);
  return out.str();
}

}  // namespace

Verdict verdict_of(Body body) {
  rc::detail::TestListenerAdapter silent;
  return verdict_of(rc::detail::checkTestable(
      callable(body), rc::detail::TestMetadata(),
      rc::detail::configuration().testParams, silent));
}

bool holds_of(const char* name, Body body) {
  rc::detail::configuration();  // says the seed first
  // Before it is tried: it might not come back.
  if (*name != '\0') std::cerr << "\n- " << name << std::endl;
  rc::detail::TestMetadata metadata;
  metadata.id = name;
  metadata.description = name;
  const Verdict verdict =
      verdict_of(rc::detail::checkTestable(callable(body), metadata));
  std::cerr << verdict.text << std::endl;
  return verdict.holds;
}

void fail_case(const char* file, int line, const char* what) {
  throw case_result(rc::detail::CaseResult::Type::Failure, file, line, what);
}

void discard_case(const char* file, int line, const char* what) {
  throw case_result(rc::detail::CaseResult::Type::Discard, file, line, what);
}

std::ostream& case_log() { return rc::detail::log(); }

void count_case(const std::string& kind) { rc::detail::tag({kind}); }

// --- Numbers

int64_t draw_whole_number(int64_t low, int64_t high) {
  return *rc::gen::inRange<int64_t>(low, high);
}

bool draw_bool() { return *rc::gen::arbitrary<bool>(); }

template <>
char draw_any<char>() {
  return *rc::gen::arbitrary<char>();
}
template <>
uint8_t draw_any<uint8_t>() {
  return *rc::gen::arbitrary<uint8_t>();
}
template <>
int16_t draw_any<int16_t>() {
  return *rc::gen::arbitrary<int16_t>();
}
template <>
int32_t draw_any<int32_t>() {
  return *rc::gen::arbitrary<int32_t>();
}
template <>
uint32_t draw_any<uint32_t>() {
  return *rc::gen::arbitrary<uint32_t>();
}
template <>
int64_t draw_any<int64_t>() {
  return *rc::gen::arbitrary<int64_t>();
}
template <>
uint64_t draw_any<uint64_t>() {
  return *rc::gen::arbitrary<uint64_t>();
}
template <>
double draw_any<double>() {
  return *rc::gen::arbitrary<double>();
}
template <>
std::string draw_any<std::string>() {
  return *rc::gen::arbitrary<std::string>();
}
template <>
std::vector<uint8_t> draw_any<std::vector<uint8_t>>() {
  return *rc::gen::arbitrary<std::vector<uint8_t>>();
}
template <>
std::vector<int64_t> draw_any<std::vector<int64_t>>() {
  return *rc::gen::arbitrary<std::vector<int64_t>>();
}

// --- How values are shown

std::string shown(const std::string& text) { return text_of(text); }
std::string shown(char character) { return shown(std::string(1, character)); }
std::string shown(bool value) { return text_of(value); }
std::string shown(int64_t number) { return text_of(number); }
std::string shown(double number) { return text_of(number); }

std::string shown_list(const std::vector<std::string>& elements) {
  std::string list = "[";
  for (const std::string& element : elements) {
    if (list.size() > 1) list += ", ";
    list += element.empty() ? "a value" : element;
  }
  return list + "]";
}

// --- One of several values

size_t draw_index(size_t count, ValueTexts texts) {
  // The values may be gone when a counterexample is printed, so the text of
  // each one that was drawn is kept.
  const auto kept = std::make_shared<std::map<size_t, std::string>>();
  // Each is as likely as any other from the first case on.
  const DrawnIndex drawn = *rc::gen::map(
      rc::gen::resize(rc::kNominalSize, rc::gen::inRange<size_t>(0, count)),
      [kept](size_t index) {
        return DrawnIndex{index, kept};
      });
  (*drawn.texts)[drawn.index] = texts.text(texts.values, drawn.index);
  return drawn.index;
}

char draw_of(std::string_view characters) {
  return characters[draw_index(characters.size(),
                               {&shown_at<char>, characters.data()})];
}

std::vector<std::string> draw_some_of(const std::vector<std::string>& values) {
  // rc::gen::unique gives up when it is asked for more than there are.
  return *rc::gen::exec([values] {
    std::vector<std::string> left = values;
    std::vector<std::string> taken;
    const auto count = *rc::gen::inRange<size_t>(0, left.size() + 1);
    while (taken.size() < count) {
      const auto pick = *rc::gen::inRange<size_t>(0, left.size());
      taken.push_back(left[pick]);
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(pick));
    }
    return taken;
  });
}

// --- Texts and lists

size_t draw_size() {
  return (*rc::gen::container<std::vector<bool>>(rc::gen::just(true))).size();
}

std::string draw_text(std::string_view characters) {
  return *rc::gen::container<std::string>(
      rc::gen::elementOf(std::string(characters)));
}

std::vector<std::any> draw_elements(ElementKind kind) {
  auto list =
      *rc::gen::container<std::vector<DrawnElement>>(rc::gen::exec([kind] {
        return DrawnElement{kind.draw(), kind.text};
      }));
  std::vector<std::any> values;
  for (DrawnElement& element : list) {
    values.push_back(std::move(element.value));
  }
  return values;
}

std::string draw_together(std::string (*draw)()) {
  return *rc::gen::exec([draw] { return draw(); });
}

}  // namespace shardplan::testing
