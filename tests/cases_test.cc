// SPDX-License-Identifier: Apache-2.0
// Runs every Markdown page of the project; see tests/support/markdown_case.h.
// SHARDPLAN_UPDATE=1 writes what the program really says into the pages.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/real_host.h"
#include "cli/commands.h"
#include "tests/support/markdown_case.h"
#include "tests/support/memory_host.h"
#include "tests/support/source_dir.h"
#include "tests/support/thinned.h"

namespace shardplan::testing {
namespace {

namespace fs = std::filesystem;

const fs::path kProject = source_dir();

// Paths from the project's root, sorted; sanitizers read every second one.
std::vector<std::string> pages_below(const std::string& folder) {
  std::vector<std::string> pages;
  if (!fs::exists(kProject / folder)) return pages;
  for (const auto& entry :
       fs::recursive_directory_iterator(kProject / folder)) {
    if (entry.path().extension() == ".md") {
      pages.push_back(fs::relative(entry.path(), kProject).string());
    }
  }
  std::sort(pages.begin(), pages.end());
  Thinned rows{3};
  std::erase_if(pages, [&](const std::string&) { return rows.skips(); });
  return pages;
}

MarkdownRun run_page(const std::string& page) {
  std::ifstream file(kProject / page);
  REQUIRE_MESSAGE(file.good(), page);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const auto real = make_real_host();
  MemoryHost host;
  host.below = real.get();
  host.below_root = kProject;
  MarkdownRun result = run_markdown(text, host, cli::run);
  for (const MarkdownFailure& failure : result.failures) {
    FAIL_CHECK(page << ":" << failure.line << ": " << failure.what);
  }
  if (std::getenv("SHARDPLAN_UPDATE") != nullptr && result.corrected != text) {
    std::ofstream(kProject / page) << result.corrected;
  }
  return result;
}

// Pages that are there to be run: one that runs nothing shows nothing.
void run_examples(const std::vector<std::string>& pages) {
  REQUIRE_FALSE(pages.empty());
  for (const std::string& page : pages) {
    SUBCASE(page.c_str()) {
      CHECK_MESSAGE(run_page(page).commands > 0, page << " runs nothing");
    }
  }
}

TEST_CASE("the README shows what happens") { run_examples({"README.md"}); }

TEST_CASE("the documents show what happens") {
  std::vector<std::string> pages = pages_below("docs");
  std::erase_if(pages, [](const std::string& page) {
    return page.rfind("docs/codes/", 0) == 0;  // below
  });
  REQUIRE_FALSE(pages.empty());
  for (const std::string& page : pages) {
    SUBCASE(page.c_str()) { run_page(page); }
  }
}

TEST_CASE("the cases show what happens") {
  run_examples(pages_below("tests/cases"));
}

TEST_CASE("the regressions stay fixed") {
  run_examples(pages_below("tests/regressions"));
}

TEST_CASE("the example of a code's page yields that code") {
  const std::vector<std::string> pages = pages_below("docs/codes");
  REQUIRE_FALSE(pages.empty());
  for (const std::string& page : pages) {
    SUBCASE(page.c_str()) {
      const std::string code = fs::path(page).stem();
      const std::string output = run_page(page).output;
      // No input that we know of leads to a bug in shardplan.
      if (code == "SP900") continue;
      CHECK_MESSAGE(output.find(code) != std::string::npos,
                    page << " does not show " << code);
    }
  }
}

}  // namespace
}  // namespace shardplan::testing
