// SPDX-License-Identifier: Apache-2.0
#include "cli/commands.h"

#include <set>
#include <string_view>

#include <doctest/doctest.h>

namespace shardplan::cli {
namespace {

TEST_CASE("every command is found by its name and by no other") {
  std::set<std::string_view> names;
  for (const Command& command : commands()) {
    CAPTURE(command.name);
    CHECK(find_command(command.name) == &command);
    CHECK(names.insert(command.name).second);
    CHECK((command.run != nullptr));
    CHECK(command.exits.size() == 3);
    CHECK_FALSE(command.arguments.empty());
    CHECK_FALSE(command.examples.empty());
  }
  CHECK(find_command("help") == nullptr);
  CHECK(find_command("train") == nullptr);
  CHECK(find_command("") == nullptr);
}

TEST_CASE("the commands of one group stand together") {
  std::set<std::string_view> closed;
  std::string_view group;
  for (const Command& command : commands()) {
    if (command.group == group) continue;
    CHECK(closed.insert(command.group).second);
    group = command.group;
  }
}

TEST_CASE("arguments are written as they are typed") {
  CHECK(arguments_text(find_command("diff")->arguments) ==
        "A.plan.json B.plan.json");
  CHECK(arguments_text(find_command("list")->arguments) == "[TOPIC] [NAME]");
  CHECK(arguments_text(find_command("inspect")->arguments) == "MODEL");
}

}  // namespace
}  // namespace shardplan::cli
