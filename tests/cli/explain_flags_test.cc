// SPDX-License-Identifier: Apache-2.0
#include "cli/explain_flags.h"

#include <doctest/doctest.h>

#include "comm/collective.h"

namespace shardplan::cli {
namespace {

TEST_CASE("the flags of explain are in the table; simulate has one of them") {
  for (const cli::Flag& row : explain_flags()) {
    CAPTURE(row.name);
    const cli::Flag* flag = find_flag(row.name);
    REQUIRE(flag != nullptr);
    const bool shared = row.name == "algorithm";
    CHECK(flag->commands == (shared ? "explain simulate" : "explain"));
    CHECK(flag->configurable == shared);
  }
}

TEST_CASE("choices are the algorithms and the kinds of collectives") {
  CHECK(find_flag("algorithm")->choices().size() == algorithms().size());
  CHECK(find_flag("kind")->choices().size() ==
        static_cast<size_t>(kCollectiveKinds));
}

TEST_CASE("values end in their options") {
  std::vector<Setting> settings;
  for (const char* name : {"ranks", "inner"}) {
    settings.push_back({find_flag(name), "8", {}, ""});
  }
  settings.push_back({find_flag("kind"), "permute", {}, ""});
  settings.push_back({find_flag("algorithm"), "ring", {}, ""});
  settings.push_back({find_flag("matmul"), "P() @ P()", {}, ""});
  Options options;
  Diagnostics diags;
  apply_settings(settings, options, diags);
  CHECK(options.ranks == 8);
  CHECK(options.inner == 8);
  CHECK(options.kind == "permute");
  CHECK(options.algorithm == "ring");
  CHECK(options.matmul->text() == "P() @ P()");
  settings = {{find_flag("inner"), "0", {}, ""}};
  apply_settings(settings, options, diags);
  CHECK(diags.all().size() == 1);
}

}  // namespace
}  // namespace shardplan::cli
