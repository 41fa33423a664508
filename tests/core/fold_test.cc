// SPDX-License-Identifier: Apache-2.0
#include "core/fold.h"

#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "core/manifest.h"
#include "core/rules.h"
#include "tests/support/property.h"
#include "tests/support/resolved.h"

namespace shardplan {
namespace {

std::vector<std::string> labels(const std::vector<std::string>& names,
                                const std::vector<uint32_t>& kinds) {
  const NameOf name_of = [&](size_t i) -> std::string_view { return names[i]; };
  return class_labels(fold(kinds, name_of), name_of);
}

using Texts = std::vector<std::string>;

TEST_CASE("whole components of digits fold") {
  CHECK(folded_name("model.layers.12.mlp.w1") == "model.layers.*.mlp.w1");
  CHECK(folded_name("h/0/x/31") == "h/*/x/*");
  CHECK(folded_name("12") == "*");
  CHECK(folded_name("a/b2/2b") == "a/b2/2b");
  CHECK(folded_name("a//0") == "a//*");
  CHECK(folded_name("") == "");
}

TEST_CASE("equal parameters of several layers are one class") {
  CHECK(labels({"l/0/w", "l/0/b", "l/1/w", "l/1/b"}, {0, 1, 0, 1}) ==
        Texts{"l/*/w", "l/*/b"});
  CHECK(labels({"l/7/w"}, {0}) == Texts{"l/7/w"});
}

TEST_CASE("classes of the same folded name say which numbers they are") {
  CHECK(labels({"l/0/w", "l/1/w", "l/2/w", "l/3/w", "l/5/w"},
               {0, 0, 0, 1, 1}) == Texts{"l/{0-2}/w", "l/{3,5}/w"});
  CHECK(labels({"l/9/w", "l/10/w", "l/11/w", "l/0/w"}, {0, 0, 0, 1}) ==
        Texts{"l/{9-11}/w", "l/0/w"});
  CHECK(labels({"l/0/e/0", "l/0/e/1", "l/1/e/0", "l/1/e/1"}, {0, 0, 1, 1}) ==
        Texts{"l/0/e/{0-1}", "l/1/e/{0-1}"});
}

TEST_CASE("classes that the sets do not tell apart name their first member") {
  CHECK(labels({"l/0/e/0", "l/0/e/1", "l/1/e/0", "l/1/e/1"}, {0, 1, 1, 0}) ==
        Texts{"l/{0-1}/e/{0-1} (from l/0/e/0)",
              "l/{0-1}/e/{0-1} (from l/0/e/1)"});
}

TEST_CASE("a star in a name stood for any number: it is not a number") {
  CHECK(labels({"l/0/w", "l/*/w", "l/1/w"}, {0, 0, 0}) ==
        Texts{"l/*/w (from l/0/w)", "l/*/w (from l/*/w)"});
  CHECK(labels({"l/*/w", "l/7/w"}, {0, 0}) == Texts{"l/*/w", "l/7/w"});
}

TEST_CASE("labels are unique, counts add up and members are theirs") {
  CHECK(holds([] {
    std::set<std::string> unique;
    const auto count = draw_in(0, 30);
    for (int i = 0; i < count; ++i) {
      unique.insert("l/" + std::to_string(draw_in(0, 12)) + "/e/" +
                    std::to_string(draw_in(0, 4)) + "/" +
                    draw_of<std::string>({"w", "b"}));
    }
    const std::vector<std::string> names(unique.begin(), unique.end());
    std::vector<uint32_t> kinds;
    for (size_t i = 0; i < names.size(); ++i) {
      kinds.push_back(draw_in<uint32_t>(0, 3));
    }
    const NameOf name_of = [&](size_t i) -> std::string_view {
      return names[i];
    };
    const Folding folding = fold(kinds, name_of);
    const auto all = class_labels(folding, name_of);
    ENSURE(std::set<std::string>(all.begin(), all.end()).size() == all.size());
    const Members members(folding.class_of, folding.classes.size());
    size_t total = 0;
    for (size_t c = 0; c < folding.classes.size(); ++c) {
      const auto of = members.of(c);
      ENSURE(static_cast<int64_t>(of.size()) == folding.classes[c].count);
      ENSURE(of.front() == folding.classes[c].first);
      for (const uint32_t i : of) {
        ENSURE(kinds[i] == folding.classes[c].kind);
        ENSURE(folded_name(names[i]) ==
               folding.folded_names[folding.classes[c].folded]);
      }
      total += of.size();
    }
    ENSURE(total == names.size());
  }));
}

TEST_CASE("a manifest's parameters fold as their names and kinds do") {
  CHECK(holds([] {
    Manifest manifest;
    std::vector<uint32_t> kinds;
    std::map<std::pair<std::string, uint32_t>, uint32_t> slow;
    const auto count = draw_in(0, 40);
    for (int i = 0; i < count; ++i) {
      const std::string name = draw_of<std::string>({"a", "a.1", "b"}) + "." +
                               std::to_string(draw_in(0, 4)) +
                               draw_of<std::string>({".w", "", "x"});
      ENSURE(manifest.add(name, {DType::F32, {2}}, {}));
      kinds.push_back(draw_in<uint32_t>(0, 2));
    }
    const Folding folding = fold(kinds, manifest);
    const Folding by_name =
        fold(kinds, [&](size_t i) { return manifest.name(i); });
    ENSURE(folding.class_of == by_name.class_of);
    ENSURE(folding.folded_names == by_name.folded_names);
    for (size_t i = 0; i < kinds.size(); ++i) {
      const auto number =
          slow.try_emplace({folded_name(manifest.name(i)), kinds[i]},
                           static_cast<uint32_t>(slow.size()))
              .first->second;
      ENSURE(folding.class_of[i] == number);
    }
    ENSURE(folding.classes.size() == slow.size());
  }));
}

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
  CHECK(key_pattern("l.*.q", KeyPart::Module, "") ==
        "^l\\.\\d+\\.q(?:\\.[^.]+)?$");
  CHECK(
      key_pattern("l.*.q", KeyPart::Bias, "model|transformer|language_model") ==
      "^(?:(?:model|transformer|language_model)\\.)*l\\.\\d+\\.q(?:\\.bias)$");
  CHECK(
      key_pattern("l.*.mlp.experts.down_proj", KeyPart::Module, "",
                  FusedKeys::AlsoEachExpert) ==
      "^l\\.\\d+\\.(?:mlp|block_sparse_moe)\\.experts\\.(?:down_proj|\\d+\\.(?:"
      "down_proj|w2))(?:\\.[^.]+)?$");
  CHECK_FALSE(key_of_pattern(exact_pattern("l.0.q.bias")));
  CHECK_FALSE(key_of_pattern("^l.q(?:\\.bias)$"));
  CHECK_FALSE(key_of_pattern("(?:\\.bias)$"));
  CHECK_FALSE(key_of_pattern("^\\"));
  CHECK(holds("key_of_pattern undoes key_pattern", [] {
    const auto key = draw_text("a1*.\\[^$");
    const auto part = draw_of({KeyPart::Module, KeyPart::Bias});
    const auto outer = draw_of<std::string>({"", "model", "model|lm"});
    const auto end = draw_of<std::string>(
        {"", "experts.gate_up_proj", ".experts.down_proj",
         ".mlp.experts.down_proj", "mlp.experts.gate_up_proj"});
    const auto fused =
        draw_of({FusedKeys::AsWritten, FusedKeys::AlsoEachExpert});
    ENSURE(key_of_pattern(key_pattern(key + end, part, outer, fused)) ==
           key + end);
  }));
}

}  // namespace

}  // namespace shardplan
