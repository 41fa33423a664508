// SPDX-License-Identifier: Apache-2.0
// A git repository on the disk, for tests of what reads one.
#pragma once

#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "base/forwarding_host.h"
#include "tests/support/real_folder.h"

namespace shardplan::testing {

// Whatever this user and this machine have configured for git does not count.
inline std::vector<std::pair<std::string, std::string>> no_git_settings() {
  return {{"GIT_CONFIG_GLOBAL", "/dev/null"}, {"GIT_CONFIG_NOSYSTEM", "1"},
          {"HOME", "/nonexistent"},           {"GIT_AUTHOR_NAME", "a"},
          {"GIT_AUTHOR_EMAIL", "a@b.c"},      {"GIT_COMMITTER_NAME", "a"},
          {"GIT_COMMITTER_EMAIL", "a@b.c"}};
}

// A host that stands in `folder`, and whose programs get `variables` too.
class HostAt : public ForwardingHost {
 public:
  HostAt(Host& below, std::string path) : ForwardingHost(below) {
    folder = std::move(path);
  }

  std::string working_directory() override { return folder; }
  std::unique_ptr<ChildProcess> start(
      const std::vector<std::string>& command,
      const std::vector<std::pair<std::string, std::string>>& environment,
      std::string& why) override {
    commands.push_back(command);
    auto all = environment;
    all.insert(all.end(), variables.begin(), variables.end());
    return ForwardingHost::start(command, all, why);
  }

  std::string folder;
  std::vector<std::pair<std::string, std::string>> variables =
      no_git_settings();
  std::vector<std::vector<std::string>> commands;  // that were started
};

// Runs a shell command in a folder, as git's tests do; what it prints, without
// the last line break.
inline std::string shell(const std::string& folder,
                         const std::string& command) {
  std::string line = "cd '" + folder + "' && export LC_ALL=C";
  for (const auto& [name, value] : no_git_settings()) {
    line += " " + name + "=" + value;
  }
  line += " && { " + command + "; } 2>&1";
  FILE* pipe = ::popen(line.c_str(), "re");
  REQUIRE(pipe != nullptr);
  std::string text;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) {
    text += static_cast<char>(c);
  }
  const int status = ::pclose(pipe);
  INFO(command << ": " << text);
  REQUIRE(status == 0);
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

// A repository without commits, whose branch is `main`.
class GitFolder {
 public:
  explicit GitFolder(const std::string& how = "") {
    shell(folder_.path(),
          "git init -q " + how + " . && git symbolic-ref HEAD refs/heads/main");
  }
  const std::string& path() const { return path_; }
  std::string run(const std::string& command) const {
    return shell(path_, command);
  }
  void put(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(
        std::filesystem::path(folder_ / name).parent_path());
    folder_.put(name, text);
  }
  // Commits all that is there; its id.
  std::string commit() const {
    return run(
        "git add -A && git commit -q --allow-empty -m x && "
        "git rev-parse HEAD");
  }

 private:
  Folder folder_;
  std::string path_ = std::filesystem::canonical(folder_.path());
};

}  // namespace shardplan::testing
