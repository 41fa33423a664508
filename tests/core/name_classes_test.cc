// SPDX-License-Identifier: Apache-2.0
#include "core/name_classes.h"

#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/fold.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

using Texts = std::vector<std::string>;

Texts numbers_of(const NameClasses& names, uint32_t number,
                 std::string_view name) {
  Texts numbers;
  names.each_number(number, name, [&](size_t index, std::string_view digits) {
    CHECK(index == numbers.size());
    numbers.emplace_back(digits);
  });
  return numbers;
}

TEST_CASE("names that differ in numbers only are of one class") {
  NameClasses names;
  CHECK(names.add("l.0.w1") == 0);
  CHECK(names.add("l.0.w2") == 1);
  CHECK(names.add("l.17.w1") == 0);
  CHECK(names.add("l.17.w2") == 1);
  CHECK(names.add("l.x.w1") == 2);
  CHECK(names.add("l.17/w1") == 3);
  CHECK(names.add("3") == 4);
  CHECK(names.add("") == 5);
  CHECK(names.add("l.*.w1") == 6);
  CHECK(names.size() == 7);
  CHECK(names.folded_name(0) == "l.*.w1");
  CHECK(names.folded_name(4) == "*");
  CHECK(names.text(0, 0) == "l.");
  CHECK(names.text(0, 1) == ".w1");
  CHECK(numbers_of(names, 0, "l.007.w1") == Texts{"007"});
  CHECK(numbers_of(names, 2, "l.x.w1").empty());
}

std::string drawn_name() {
  std::string name;
  const auto parts = draw_in(0, 4);
  for (int i = 0; i < parts; ++i) {
    if (i > 0) name += draw_of("./");
    name += draw_of<std::string>(
        {"", "0", "1", "10", "01", "w", "w1", "1w", "*", "é"});
  }
  return name;
}

// The slow twin: the folded names, each in a map.
TEST_CASE("classes are those of folded names") {
  CHECK(holds([] {
    NameClasses names;
    std::map<std::string, uint32_t> known;
    const auto count = draw_in(0, 60);
    for (int i = 0; i < count; ++i) {
      const std::string name = drawn_name();
      const auto slow =
          known.try_emplace(marked_name(name, '\n'), known.size()).first;
      const uint32_t number = names.add(name);
      ENSURE(number == slow->second);
      ENSURE(names.folded_name(number) == folded_name(name));
      std::string again(names.text(number, 0));
      names.each_number(number, name,
                        [&](size_t index, std::string_view digits) {
                          again += digits;
                          again += names.text(number, index + 1);
                        });
      ENSURE(again == name);
    }
    ENSURE(names.size() == known.size());
  }));
}

}  // namespace

}  // namespace shardplan
