// SPDX-License-Identifier: Apache-2.0
// Tests of the real machine: a folder that goes away, and a child process.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace shardplan::testing {

// Nothing else in the tests touches the disk.
class Folder {
 public:
  Folder() {
    // mkdtemp replaces the six letters at the end.
    std::string pattern = std::filesystem::temp_directory_path() /
                          ("shardplan-" + std::string(6, 'X'));
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const {
    return path_ + "/" + name;
  }
  const std::string& path() const { return path_; }
  void put(const std::string& name, const std::string& text) const {
    std::ofstream(*this / name) << text;
  }
  std::string get(const std::string& name) const {
    std::ifstream file(*this / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::string path_;
};

inline mode_t mode_of(const std::string& path) {
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  return info.st_mode & 07777;
}

// Runs `work` in a child whose standard output is `out`; its wait status.
template <typename Work>
int in_child(int out, Work work) {
  // What is still buffered would be written twice: a sanitizer's _exit flushes.
  std::cout.flush();
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(out, STDOUT_FILENO);
    ::_exit(work());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

}  // namespace shardplan::testing
