// SPDX-License-Identifier: Apache-2.0
// The files by which other tools find shardplan name what there is. What the
// steps of action.yml do is in tests/package_test.py.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <re2/re2.h>

#include "base/diagnostic.h"
#include "base/source.h"
#include "cli/commands.h"
#include "syntax/document.h"
#include "tests/support/source_dir.h"

namespace shardplan {
namespace {

Document document_of(const std::string& path) {
  std::ifstream file(source_dir() / path);
  REQUIRE_MESSAGE(file.good(), path);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  Diagnostics diags;
  auto document =
      parse_document(std::make_shared<const SourceFile>(path, text), diags);
  REQUIRE(document);
  CHECK(diags.all().empty());
  return *std::move(document);
}

std::string text_of(const Node& map, std::string_view key) {
  const std::optional<Node> value = map.find(key);
  REQUIRE_MESSAGE(value, key);
  CHECK_FALSE(value->text().empty());
  return std::string(value->text());
}

// The words of `${{ inputs.WORD }}` and of `inputs.WORD` in conditions.
std::set<std::string> inputs_named_in(std::string_view text) {
  static const RE2 kInput(R"(inputs\.([a-z0-9-]+))");
  std::set<std::string> names;
  re2::StringPiece rest(text.data(), text.size());
  for (std::string name; RE2::FindAndConsume(&rest, kInput, &name);) {
    names.insert(name);
  }
  return names;
}

TEST_CASE("action.yml is a composite action whose inputs are all used") {
  const Document document = document_of("action.yml");
  const Node root = document.root();
  REQUIRE(root.is_map());
  text_of(root, "name");
  text_of(root, "description");

  std::set<std::string> inputs;
  const Node all = *root.find("inputs");
  for (size_t i = 0; i < all.size(); ++i) {
    CAPTURE(all.key(i));
    inputs.emplace(all.key(i));
    text_of(all.item(i), "description");
    const std::optional<Node> required = all.item(i).find("required");
    CHECK((required && required->boolean() == true) !=
          all.item(i).find("default").has_value());
  }
  CHECK(inputs.count("file") == 1);
  CHECK(inputs.count("args") == 1);

  const Node runs = *root.find("runs");
  CHECK(text_of(runs, "using") == "composite");
  const Node steps = *runs.find("steps");
  REQUIRE(steps.is_list());
  CHECK(steps.size() > 0);
  std::set<std::string> used;
  for (size_t i = 0; i < steps.size(); ++i) {
    const Node step = steps.item(i);
    CHECK(text_of(step, "shell") == "bash");
    // Inputs come as variables: put into the script, they would be run.
    CHECK(text_of(step, "run").find("${{") == std::string::npos);
    std::vector<Node> values;
    if (const auto env = step.find("env")) {
      for (size_t v = 0; v < env->size(); ++v) values.push_back(env->item(v));
    }
    for (const std::string_view key : {"if", "working-directory"}) {
      if (const auto value = step.find(key)) values.push_back(*value);
    }
    for (const Node& value : values) used.merge(inputs_named_in(value.text()));
  }
  CHECK(used == inputs);
}

TEST_CASE("pre-commit's hooks run commands that there are") {
  const Document document = document_of(".pre-commit-hooks.yaml");
  const Node hooks = document.root();
  REQUIRE(hooks.is_list());
  CHECK(hooks.size() > 0);
  std::set<std::string> ids;
  for (size_t i = 0; i < hooks.size(); ++i) {
    const Node hook = hooks.item(i);
    REQUIRE(hook.is_map());
    CHECK(ids.insert(text_of(hook, "id")).second);
    text_of(hook, "name");
    text_of(hook, "description");
    CHECK(text_of(hook, "language") == "system");
    CHECK(RE2(text_of(hook, "files")).ok());
    // A command line has one model, and no list of files at its end.
    CHECK(hook.find("pass_filenames")->boolean() == false);
    std::istringstream words(text_of(hook, "entry"));
    std::string program;
    std::string command;
    words >> program >> command;
    CHECK(program == "shardplan");
    CHECK_MESSAGE(cli::find_command(command) != nullptr, command);
  }
}

}  // namespace
}  // namespace shardplan
