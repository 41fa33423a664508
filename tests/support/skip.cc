// SPDX-License-Identifier: Apache-2.0
#include "tests/support/skip.h"

#include <iostream>
#include <map>

#include <doctest/doctest.h>

namespace shardplan::testing {
namespace {

// Reasons by the name of the test case.
std::map<std::string, std::string>& skipped_cases() {
  static std::map<std::string, std::string> all;
  return all;
}

unsigned cases_run = 0;
std::string current_case;

// Knows the current case, and how many the filters left.
struct SkipListener : doctest::IReporter {
  explicit SkipListener(const doctest::ContextOptions& /*options*/) {}
  void report_query(const doctest::QueryData& /*data*/) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats& stats) override {
    cases_run = stats.numTestCasesPassingFilters;
  }
  void test_case_start(const doctest::TestCaseData& data) override {
    current_case = data.m_name;
  }
  void test_case_reenter(const doctest::TestCaseData& /*data*/) override {}
  void test_case_end(const doctest::CurrentTestCaseStats& /*data*/) override {}
  void test_case_exception(const doctest::TestCaseException& /*e*/) override {}
  void subcase_start(const doctest::SubcaseSignature& /*signature*/) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData& /*data*/) override {}
  void log_message(const doctest::MessageData& /*data*/) override {}
  void test_case_skipped(const doctest::TestCaseData& /*data*/) override {}
};

}  // namespace

void skip(const std::string& why) { skipped_cases()[current_case] = why; }

int exit_with_skips(int code) {
  for (const auto& [name, why] : skipped_cases()) {
    std::cout << "SKIPPED: " << name << ": " << why << "\n";
  }
  const bool only = cases_run > 0 && cases_run == skipped_cases().size();
  return code == 0 && only ? kSkippedExit : code;
}

REGISTER_LISTENER("skips", 1, SkipListener);

}  // namespace shardplan::testing
