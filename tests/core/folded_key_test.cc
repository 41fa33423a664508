// SPDX-License-Identifier: Apache-2.0
#include "core/folded_key.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <rapidcheck.h>

#include "core/rules.h"
#include "tests/support/resolved.h"

namespace shardplan {
namespace {

TEST_CASE("every run of digits is folded, or only parts that are numbers") {
  struct Case {
    std::string name;
    std::string every;
    std::string parts;
  };
  const Case kCases[] = {
      {"layers.10.w1", "layers.*.w*", "layers.*.w1"},
      {"0.layers.2", "*.layers.*", "0.layers.*"},
      {"a.0.1.2.b", "a.*.*.*.b", "a.*.1.*.b"},
      {"conv1d.3x", "conv*d.*x", "conv1d.3x"},
      {"a..1", "a..*", "a..*"},
      {"", "", ""},
  };
  for (const Case& c : kCases) {
    CAPTURE(c.name);
    CHECK(fold_digits(c.name, DigitFolding::EveryRun) == c.every);
    CHECK(fold_digits(c.name, DigitFolding::WholeParts) == c.parts);
  }
}

TEST_CASE("names are folded as transformers 5.23 folds them") {
  const auto record = testing::read_json(testing::data_path("hf_tp_plan.json"));
  for (const auto& row : record.at("rows")) {
    const auto name = row.at("name").get<std::string>();
    CAPTURE(name);
    CHECK(fold_digits(name, DigitFolding::WholeParts) ==
          row.at("folded").get<std::string>());
  }
}

TEST_CASE("a key that no name folds to is known") {
  CHECK(can_be_folded_name("l.*.w*", DigitFolding::EveryRun));
  CHECK_FALSE(can_be_folded_name("l.*.w1", DigitFolding::EveryRun));
  CHECK_FALSE(can_be_folded_name("l.**", DigitFolding::EveryRun));
  CHECK(can_be_folded_name("l.*.w1", DigitFolding::WholeParts));
  CHECK_FALSE(can_be_folded_name("l.*.w*", DigitFolding::WholeParts));
  CHECK_FALSE(can_be_folded_name("l.*.*.w", DigitFolding::WholeParts));
}

TEST_CASE("a pattern tells its key, and no other pattern has one") {
  CHECK(key_pattern("l.*.q", KeyPart::Module, false) ==
        "^l\\.\\d+\\.q(?:\\.[^.]+)?$");
  CHECK(
      key_pattern("l.*.q", KeyPart::Bias, true) ==
      "^(?:(?:model|transformer|language_model)\\.)*l\\.\\d+\\.q(?:\\.bias)$");
  CHECK_FALSE(key_of_pattern(exact_pattern("l.0.q.bias")));
  CHECK_FALSE(key_of_pattern("^l.q(?:\\.bias)$"));
  CHECK_FALSE(key_of_pattern("(?:\\.bias)$"));
  CHECK_FALSE(key_of_pattern("^\\"));
  CHECK(rc::check("key_of_pattern undoes key_pattern", [] {
    const auto key = *rc::gen::container<std::string>(
        rc::gen::element('a', '1', '*', '.', '\\', '[', '^', '$'));
    const auto part = *rc::gen::element(KeyPart::Module, KeyPart::Bias);
    const bool below = *rc::gen::arbitrary<bool>();
    RC_ASSERT(key_of_pattern(key_pattern(key, part, below)) == key);
  }));
}

}  // namespace
}  // namespace shardplan
