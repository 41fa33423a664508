// SPDX-License-Identifier: Apache-2.0
// Inputs of less than a megabyte that asked for hours, for all memory or for
// more stack than there is: each is answered, or refused with what is too much.
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/source.h"
#include "cli/commands.h"
#include "core/work.h"
#include "tests/support/memory_host.h"
#include "tests/support/thinned.h"
#include "tests/support/words.h"

namespace shardplan::cli {
namespace {

using testing::has_text;
using testing::MemoryHost;
using testing::Words;

using Text = std::string;

// `each` of 0, 1, .. n - 1.
Text all_of(int n, const std::function<Text(int)>& each) {
  Text text;
  for (int i = 0; i < n; ++i) text += each(i);
  return text;
}

Text number(int i) { return std::to_string(i); }

Text nested(const Text& open, int depth, const Text& inner, const Text& close) {
  return all_of(depth, [&](int) { return open; }) + inner +
         all_of(depth, [&](int) { return close; });
}

constexpr const char* kManyLayers =
    R"({"model_type": "tiny", "architectures": ["T"], "n": 100000})";
constexpr const char* kFewLayers =
    R"({"model_type": "tiny", "architectures": ["T"], "n": 4})";

// An architecture with such values, and such steps of every layer.
Text architecture(const Text& values, const Text& steps,
                  const Text& blocks = "") {
  return "architecture: tiny\nsummary: x\nmodel_types: [tiny]\n"
         "counts: {layers: n}\n" +
         values + "blocks:\n" + blocks +
         "  body:\n    - repeat: layers\n      name: b.{i}\n      steps:\n" +
         steps + "classes:\n  T: [{body: m}]\n";
}
Text step(const Text& rest) { return "        - {" + rest + "}\n"; }

struct Attack {
  const char* what;
  Text config;
  Text architecture;
  Text scheme;       // "" for none
  const char* says;  // of the error
};

constexpr const char* kTooMuch = "the model takes too much work to compute";
constexpr const char* kTooDeep = "nest deeper than 1,000";

// Values that refer to one another, each of which nests.
Text chain(const Text& kind, int count, const Text& open, int depth,
           const Text& close, const Text& last) {
  return kind + ":\n" + all_of(count, [&](int i) {
           return "  v" + number(i) + ": {is: \"" +
                  nested(open, depth,
                         i + 1 < count ? "v" + number(i + 1) : last, close) +
                  "\"}\n";
         });
}

std::vector<Attack> attacks() {
  const Text list =
      "[" +
      all_of(20'000, [](int i) { return i == 0 ? Text("1") : Text(",1"); }) +
      "]";
  const Text with_list =
      R"({"model_type": "tiny", "architectures": ["T"], "n": 100000, "l": )" +
      list + "}";
  const Text plain = architecture("", step("parameter: w, shape: [2]"));
  return {
      {"values that nest", kFewLayers,
       architecture(chain("sizes", 250, "floor(", 45, ")", "3"),
                    step("parameter: w, shape: [v0]")),
       "", kTooDeep},
      {"flags that nest", kFewLayers,
       architecture(chain("flags", 250, "not ", 45, "", "true"),
                    step("parameter: w, shape: [2], when: v0")),
       "", kTooDeep},
      {"tables that nest", kFewLayers,
       architecture(chain("tables", 250, "max(i, ", 45, ")", "3"),
                    step("parameter: w, shape: [v0]")),
       "", kTooDeep},
      {"long sums that refer to one another", kFewLayers,
       architecture(
           "sizes:\n" +
               all_of(200,
                      [](int i) {
                        return "  v" + number(i) + ": {is: \"" +
                               (i + 1 < 200 ? "v" + number(i + 1) : Text("1")) +
                               all_of(200, [](int) { return Text(" + 1"); }) +
                               "\"}\n";
                      }),
           step("parameter: w, shape: [v0]")),
       "", kTooDeep},
      {"a list that every layer looks through", with_list,
       architecture(
           "lists: {l: {key: l}}\n",
           step("parameter: w, shape: [2], when: '" +
                all_of(100, [](int) { return Text("0 in l or "); }) + "true'")),
       "", nullptr},
      {"lists that every layer counts in", with_list,
       architecture("lists: {l: {key: l}}\ntables: {t: {is: 'count(l, 1, "
                    "20000) + count(l, 1, 20000 - i % 2)'}}\n",
                    step("parameter: w, shape: [t]")),
       "", kTooMuch},
      {"steps that no layer has", with_list,
       architecture("lists: {l: {key: l}}\n",
                    all_of(300,
                           [](int i) {
                             return step("parameter: w" + number(i) +
                                         ", shape: [2], when: 'i < 0 or "
                                         "count(l, 7, 20000) == 9'");
                           }) +
                        step("parameter: w, shape: [2]")),
       "", kTooMuch},
      {"arguments that every layer hands on", kManyLayers,
       architecture("", step("inner: x, a0: i"),
                    "  inner:\n    takes: {a0: 0" +
                        all_of(99,
                               [](int i) {
                                 return ", a" + number(i + 1) + ": a" +
                                        number(i);
                               }) +
                        "}\n    steps: [{parameter: w, shape: ['a99 + 1']}]\n"),
       "", nullptr},
      {"more tensors than any model has", kManyLayers,
       architecture("", all_of(30,
                               [](int i) {
                                 return step("parameter: w" + number(i) +
                                             ", shape: [2]");
                               })),
       "", "the model has too many tensors"},
      {"rules that match every tensor and do not apply", with_list,
       architecture("lists: {l: {key: l}}\n", step("parameter: w, shape: [2]")),
       "scheme: s\nnames:\n" +
           all_of(600,
                  [](int) {
                    return Text(
                        "  - {from: 'm.b.{i}.w', to: 'x.{i}', when: 'i < 0 or "
                        "count(l, 7, 20000) == 9'}\n");
                  }) +
           "  - {from: 'm.b.{i}.w', to: 'y.{i}'}\narchitectures: {tiny: []}\n",
       kTooMuch},
      {"tensors that a scheme adds", kManyLayers, plain,
       "scheme: s\nnames:\n  - {from: 'm.b.{i}.w', to: 'y.{i}'}\nadds:\n" +
           all_of(40,
                  [](int i) {
                    return "  - {name: 'a" + number(i) +
                           ".{i}', shape: [2], repeat: {i: layers}}\n";
                  }) +
           "architectures: {tiny: []}\n",
       "give too many tensors"},
      {"a text of a megabyte in every layer", kManyLayers,
       architecture("", step("parameter: w, shape: [2], when: \"i < 0 or '" +
                             Text(100'000, 'x') + "' == 'y' or true\"")),
       "", "a string is longer than 4,096 bytes"},
  };
}

TEST_CASE("input limits: what a small file multiplies is bounded") {
  testing::Thinned rows{3};
  for (const Attack& attack : attacks()) {
    if (rows.skips()) continue;
    CAPTURE(attack.what);
    MemoryHost host;
    host.files["config.json"] = attack.config;
    host.files["a.yaml"] = attack.architecture;
    Words words = {"inspect", "config.json", "--architecture", "a.yaml"};
    if (!attack.scheme.empty()) {
      host.files["s.yaml"] = attack.scheme;
      words.insert(words.end(), {"--scheme", "s.yaml"});
    }
    const int exit = run(words, host);
    CAPTURE(host.err);
    if (attack.says == nullptr) {
      // Bounded either way; which of the two is no promise.
      CHECK((exit == 0 || (exit == 2 && has_text(host.err, kTooMuch))));
      continue;
    }
    CHECK(exit == 2);
    CHECK(has_text(host.err, attack.says));
    // Said once.
    CHECK(host.err.find("error[") == host.err.rfind("error["));
  }
}

TEST_CASE("input limits: references that are not nested deeper are followed") {
  MemoryHost host;
  host.files["config.json"] = kFewLayers;
  host.files["a.yaml"] =
      architecture(chain("sizes", 250, "floor(", 2, ")", "3"),
                   step("parameter: w, shape: [v0]"));
  CHECK(run({"inspect", "config.json", "--architecture", "a.yaml"}, host) == 0);
}

TEST_CASE("input limits: architectures that name one another are read once") {
  MemoryHost host;
  host.files["config.json"] = kFewLayers;
  // Ten sections in each of twelve files, each of the next file.
  for (int i = 0; i < 12; ++i) {
    Text sections = i == 11 ? "" : "sections:\n";
    for (int k = 0; i < 11 && k < 10; ++k) {
      sections += "  s" + number(k) + ": {key: k" + number(k) +
                  ", architecture: a" + number(i + 1) + ", defaults: true}\n";
    }
    host.files["a" + number(i) + ".yaml"] =
        "architecture: a" + number(i) +
        "\nmodel_types: [tiny]\ncounts: {layers: {key: n, else: 1}}\n" +
        sections +
        "blocks:\n  body:\n    - {parameter: w, shape: [layers]}\n"
        "classes:\n  T: [{body: m}]\n";
  }
  const int exit =
      run({"inspect", "config.json", "--architecture", "a0.yaml"}, host);
  CAPTURE(host.err);
  CHECK(exit == 2);
  CHECK(has_text(host.err, kTooMuch));
}

TEST_CASE("work: a budget is spent once and reported once") {
  Work work(10);
  CHECK(work.spend(10));
  CHECK_FALSE(work.is_spent());
  CHECK_FALSE(work.spend());
  CHECK_FALSE(work.spend(INT64_MAX));
  CHECK(work.is_spent());
  CHECK(work.report_once());
  CHECK_FALSE(work.report_once());
}

TEST_CASE("work: levels of all kinds are counted together, and go back") {
  const std::function<int(int)> down = [&](int levels) {
    const Nested level;
    if (level.is_too_deep()) return levels;
    return down(levels + 1);
  };
  CHECK(down(0) == Nested::kMost);
  {
    const Nested outer;
    CHECK(down(0) == Nested::kMost - 1);
  }
  CHECK(down(0) == Nested::kMost);
}

TEST_CASE("source: lines are counted as far as they are asked for") {
  const SourceFile file("f", "one\ntwo\r\n\nfour");
  CHECK(file.line(1) == "one");
  CHECK(file.line(0) == "");
  const Position end = file.position(100);
  CHECK(end.line == 4);
  CHECK(end.column == 5);
  CHECK(file.position(4).line == 2);
  CHECK(file.position(4).column == 1);
  CHECK(file.position(3).line == 1);
  CHECK(file.line(2) == "two");
  CHECK(file.line(3) == "");
  CHECK(file.line(4) == "four");
  CHECK(file.line(5) == "");
  const SourceFile other("g", "a\nb");
  CHECK(other.position(2).line == 2);
  CHECK(other.line(2) == "b");
}

}  // namespace
}  // namespace shardplan::cli
