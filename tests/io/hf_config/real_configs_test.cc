// SPDX-License-Identifier: Apache-2.0
// Configs of public repositories, which the project does not hold: all are read
// but those below, and some have as many parameters as their authors say.
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include <doctest/doctest.h>

#include "tests/support/hf_config.h"
#include "tests/support/shared_dir.h"
#include "tests/support/thinned.h"

namespace shardplan {
namespace {

// What stands in front of "--" in the name of a file.
std::string type_of_file(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  return name.substr(0, name.find("--"));
}

TEST_CASE("real configs: all are read but those whose tensors are not known") {
  const auto folder = testing::shared_file("data/real-configs");
  if (!folder) return;
  // What has no public code that says it all; and a class of
  // one type in a config of another, whose tensors have two sets of names.
  const std::set<std::string> unknown = {"deepseek_ref", "step3p7"};
  const std::set<std::string> problems = {
      "SP009 architecture `Qwen3_5MoeForConditionalGeneration` is not "
      "supported"};
  // In billions, of the model cards; of experts all.
  const std::map<std::string, double> published = {{"RefinedWeb", 41.3},
                                                   {"qwen", 7.72},
                                                   {"mimo", 7.83},
                                                   {"llama4", 401.0},
                                                   {"logics", 9.46911888}};
  size_t files = 0;
  testing::Thinned rows{4};
  std::set<std::string> seen;
  for (const auto& entry : std::filesystem::directory_iterator(*folder)) {
    if (rows.skips()) continue;
    std::ifstream stream(entry.path());
    std::ostringstream text;
    text << stream.rdbuf();
    CAPTURE(entry.path().filename().string());
    const std::string type = type_of_file(entry.path());
    const auto result = testing::synthesize_text(text.str());
    CAPTURE(result->problem());
    ++files;
    if (unknown.contains(type)) {
      CHECK_FALSE(result->manifest);
      continue;
    }
    if (!result->manifest) {
      CHECK(problems.contains(result->problem()));
      seen.insert(result->problem());
      continue;
    }
    if (const auto said = published.find(type); said != published.end()) {
      double elements = 0;
      for (size_t i = 0; i < result->manifest->size(); ++i) {
        double product = 1;
        for (const int64_t dim : result->manifest->type(i).shape) {
          product *= static_cast<double>(dim);
        }
        elements += product;
      }
      CHECK(elements / 1e9 == doctest::Approx(said->second).epsilon(0.005));
    }
  }
  CHECK(files > rows.of(60));
  // None is excused that is read by now.
  if (kCountsAllocations) CHECK(seen == problems);
}

}  // namespace
}  // namespace shardplan
