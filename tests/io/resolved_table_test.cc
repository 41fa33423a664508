// SPDX-License-Identifier: Apache-2.0
#include "io/resolved_table.h"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <rapidcheck.h>
#include <re2/re2.h>

#include "resolve/resolve.h"
#include "tests/support/builders.h"
#include "tests/support/generators.h"

namespace shardplan {
namespace {

using testing::manifest;
using testing::mesh;
using testing::rules;

std::string table_text(const Manifest& model, const RuleSet& given,
                       bool replicate_unmatched = false) {
  Diagnostics diags;
  const auto plan = resolve(model, given, mesh("fsdp=2,tp=2"), {}, diags);
  REQUIRE(plan);
  ExportInput input{model, *plan};
  input.replicate_unmatched = replicate_unmatched;
  const ResolvedTable table = resolved_table(input);
  std::string text;
  for (const TableEntry& entry : table.entries) {
    text += entry.pattern + " " + spec_text(entry.spec) + "\n";
  }
  if (table.left_out > 0) text += std::to_string(table.left_out) + " left out";
  return text;
}

TEST_CASE("parameters fold where all with such names have one spec") {
  const Manifest model = manifest({{"layers/0/w", "f32[8, 8]"},
                                   {"layers/1/w", "f32[8, 8]"},
                                   {"layers/0/v", "f32[8, 8]"},
                                   {"layers/1/v", "f32[8, 7]"},
                                   {"h.0.w1", "f32[4]"},
                                   {"h.1.w1", "f32[4]"},
                                   {"head[0]", "f32[8]"}});
  CHECK(table_text(model, rules({{"/", "fsdp, tp"}, {".*", "tp"}})) ==
        "^layers/[0-9]+/w$ P(fsdp, tp)\n"
        "^layers/0/v$ P(fsdp, tp)\n"
        "^layers/1/v$ P(fsdp, None)\n"
        "^h\\.[0-9]+\\.w1$ P(tp)\n"
        "^head\\[0\\]$ P(tp)\n");
}

TEST_CASE("parameters without a rule are left out, unless they are meant to") {
  const Manifest model = manifest({{"layers/0/w", "f32[8, 8]"},
                                   {"layers/1/w", "f32[8, 8]"},
                                   {"b", "f32[8]"},
                                   {"step", "i32[]"}});
  const RuleSet given = rules({{"layers/0", ""}});
  CHECK(table_text(model, given) == "^layers/0/w$ P()\n^step$ P()\n2 left out");
  CHECK(table_text(model, given, true) ==
        "^layers/[0-9]+/w$ P()\n^b$ P()\n^step$ P()\n");
}

TEST_CASE("every parameter is found by one pattern, which has its spec") {
  CHECK(rc::check("resolved_table", [] {
    Manifest model;
    auto names = *rc::gen::container<std::vector<std::string>>(
        rc::gen::map(rc::gen::container<std::vector<std::string>>(
                         rc::gen::element<std::string>("a", "0", "1", "12",
                                                       "w1", "[0-9]+", "")),
                     [](const std::vector<std::string>& parts) {
                       std::string name;
                       for (const std::string& part : parts) {
                         name += (part == "a" ? "." : "/") + part;
                       }
                       return name;
                     }));
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    for (const std::string& name : names) {
      RC_ASSERT(model.add(name, {DType::F32, {4, 4}}, {}));
    }
    const RuleSet given = rules({{"^/0", "tp"}, {"1$", "None, fsdp"}});
    Diagnostics diags;
    const auto plan = resolve(model, given, mesh("fsdp=2,tp=2"), {}, diags);
    RC_ASSERT(plan.has_value());
    const ExportInput input{model, *plan};
    const ResolvedTable table = resolved_table(input);
    for (size_t i = 0; i < model.size(); ++i) {
      int found = 0;
      for (const TableEntry& entry : table.entries) {
        if (!RE2::PartialMatch(std::string(model.name(i)), entry.pattern)) {
          continue;
        }
        ++found;
        RC_ASSERT(entry.spec == plan->of(i).spec);
      }
      RC_ASSERT(found == (is_left_out(input, i) ? 0 : 1));
    }
  }));
}

}  // namespace
}  // namespace shardplan
