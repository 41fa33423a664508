// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/planning.h"

namespace shardplan::cli {
namespace {

using testing::MemoryHost;
using testing::planning_host;
using testing::run_on;

TEST_CASE("check prints its findings on stdout and counts them") {
  MemoryHost host = planning_host();
  CHECK(run_on(host, {"check"}, "fsdp=2,tp=4") == 1);
  CHECK(host.err.empty());
  CHECK(host.out.find("error[SP206]") != std::string::npos);
  CHECK(host.out.find("warning[SP203]") != std::string::npos);
  CHECK(host.out.find(" in 3 rules and 7 parameters\n") != std::string::npos);
}

TEST_CASE("check says when there is nothing to say") {
  MemoryHost host = planning_host();
  host.files["rules.yaml"] =
      "rules:\n  - [kernel, [fsdp, tp]]\n  - [embedding, [null, fsdp]]\n"
      "  - [scale, []]\n";
  CHECK(run_on(host, {"check"}, "fsdp=2,tp=2") == 0);
  CHECK(host.out == "No problems in 3 rules and 7 parameters.\n");
}

TEST_CASE("what --allow hides is counted, and --deny makes errors") {
  MemoryHost host = planning_host();
  CHECK(run_on(host, {"check", "--allow", "SP203,SP304"}, "fsdp=2,tp=2") == 0);
  CHECK(host.out ==
        "No problems in 3 rules and 7 parameters; 2 findings allowed.\n");
  MemoryHost denied = planning_host();
  CHECK(run_on(denied, {"check", "--tolerance", "1", "--deny", "warnings"},
               "fsdp=2,tp=2") == 1);
  CHECK(denied.out.find("error[SP203]") != std::string::npos);
}

TEST_CASE("--exit-zero turns findings into 0 but not failures") {
  MemoryHost host = planning_host();
  CHECK(run_on(host, {"check", "--exit-zero"}, "fsdp=2,tp=4") == 0);
  CHECK(run_on(host, {"check", "--exit-zero"}, "fsdp=0") == 2);
}

}  // namespace
}  // namespace shardplan::cli
