// SPDX-License-Identifier: Apache-2.0
// That a property can fail, and what it says then.
#include "tests/support/property.h"

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/generators.h"

namespace shardplan::testing {
namespace {

bool says(const Verdict& verdict, const std::string& text) {
  return verdict.text.find(text) != std::string::npos;
}

// The value of the only draw of a property that fails: its type, its text, and
// then where it failed.
std::string counterexample(const Verdict& verdict) {
  const size_t type = verdict.text.find(":\n");
  if (verdict.holds || type == std::string::npos) return "none";
  const size_t begin = type + 2;
  return verdict.text.substr(begin, verdict.text.find('\n', begin) - begin);
}

TEST_CASE("property: what is true holds, what is false does not") {
  CHECK(holds("true", [] { ENSURE(draw_in(0, 10) < 10); }));
  int runs = 0;
  CHECK(holds([&] { ++runs; }));
  CHECK(runs == 100);
  CHECK_FALSE(verdict([] { ENSURE(false); }).holds);
  CHECK_FALSE(verdict([] { throw std::runtime_error("thrown"); }).holds);
  // Of a property that fails, RapidCheck would speak at the end of the run.
  CHECK_FALSE(holds("gives up, as it must", [] { ASSUME(false); }));
}

TEST_CASE("property: a counterexample is the smallest, with its values") {
  const Verdict number = verdict([] {
    const int x = draw_in(0, 1000);
    ENSURE(x < 10);
  });
  CHECK_FALSE(number.holds);
  INFO(number.text);
  CHECK(counterexample(number) == "10");
  CHECK(says(number, "ENSURE(x < 10)"));
  CHECK(says(number, "property_test.cc:"));

  const auto shown_of = [](const auto& body) {
    return counterexample(verdict(body));
  };
  CHECK(shown_of([] { ENSURE(!draw_bool()); }) == "true");
  CHECK(shown_of([] { ENSURE(draw_any<int64_t>() > -7); }) == "-7");
  CHECK(shown_of([] { ENSURE(draw_any<uint8_t>() < 9); }) == "9");
  CHECK(shown_of([] {
          ENSURE(draw_of<std::string>({"a", "b", "c"}) < "b");
        }) == "\"b\"");
  CHECK(shown_of([] { ENSURE(draw_of("abc") != 'c'); }) == "\"c\"");
  CHECK(shown_of([] {
          ENSURE(draw_of(std::vector<int>{1, 2, 3}) < 2);
        }) == "2");
  CHECK(shown_of([] { ENSURE(draw_of({0.5, 1.5}) < 1); }) == "1.5");
  CHECK(shown_of([] {
          ENSURE(draw_text("abc").find('c') == std::string::npos);
        }) == "\"c\"");
  CHECK(shown_of([] {
          ENSURE(draw_list([] { return draw_in(0, 100); }).size() < 2);
        }) == "[0, 0]");
  CHECK(shown_of([] {
          for (const int x : draw_list([] { return draw_in(0, 100); })) {
            ENSURE(x < 4);
          }
        }) == "[4]");
  CHECK(shown_of([] {
          ENSURE(draw_some_of({"a", "b"}).empty());
        }) == "[\"a\"]");
  CHECK(shown_of([] {
          ENSURE(draw_together([] {
                   return "<" + std::to_string(draw_in(0, 100)) + ">";
                 }).size() < 4);
        }) == "\"<10>\"");
}

TEST_CASE("property: nouns are shown as they are written") {
  const Verdict mesh = verdict([] { ENSURE(draw_mesh().axes().size() < 2); });
  CHECK(counterexample(mesh) == "dp=1,fsdp=1");
  const Verdict spec = verdict([] {
    ENSURE(draw_legal_spec(Mesh({{"dp", 2}, {"tp", 2}}), 2).dims.size() < 2);
  });
  CHECK(counterexample(spec) == "P((dp, tp), None)");
  const Verdict type = verdict([] { ENSURE(draw_tensor_type().bytes() < 3); });
  CHECK(says(type, type_text({DType::F64, {}})));
  const Verdict manifest = verdict([] { ENSURE(draw_manifest().size() < 1); });
  CHECK(says(manifest, "layers/0/q_proj/kernel: "));
}

TEST_CASE("property: cases can be discarded, counted and logged") {
  const Verdict never = verdict([] { ASSUME(false); });
  CHECK_FALSE(never.holds);  // it says nothing of any value
  CHECK(says(never, "ASSUME(false)"));
  const Verdict kinds = verdict([] {
    const bool even = draw_of({0, 1}) == 0;
    ASSUME(even);
    count_case("even");
  });
  CHECK(kinds.holds);
  CHECK(says(kinds, "100.00% - \"even\""));
  const Verdict logged = verdict([] {
    case_log() << "said on the way";
    ENSURE(false);
  });
  CHECK(says(logged, "said on the way"));
}

TEST_CASE("property: every value of a choice is drawn from the start") {
  std::set<int> drawn;
  int runs = 0;
  CHECK(holds([&] {
    if (++runs <= 20) drawn.insert(draw_of({1, 2, 3}));
  }));
  CHECK(drawn.size() == 3);
}

TEST_CASE("property: lists and ranges grow while it is tried") {
  size_t longest = 0;
  int64_t largest = 0;
  CHECK(holds([&] {
    longest = std::max(longest, draw_list([] { return draw_bool(); }).size());
    longest = std::max(longest, draw_size());
    largest = std::max(largest, draw_in<int64_t>(0, int64_t{1} << 40));
  }));
  CHECK(longest > 30);
  CHECK(longest < 1000);
  CHECK(largest > int64_t{1} << 35);
}

}  // namespace
}  // namespace shardplan::testing
