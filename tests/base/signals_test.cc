// SPDX-License-Identifier: Apache-2.0
#include "base/signals.h"

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/real_host.h"
#include "tests/support/real_folder.h"

namespace shardplan {
namespace {

using testing::Folder;
using testing::in_child;

constexpr std::array<int, 16> kEnding = {
    SIGHUP,  SIGINT,  SIGQUIT, SIGILL, SIGABRT, SIGFPE,  SIGSEGV,   SIGTERM,
    SIGALRM, SIGUSR1, SIGUSR2, SIGBUS, SIGXCPU, SIGTRAP, SIGVTALRM, SIGPROF};

// As a program starts: a test runner has handlers of its own.
void forget_handlers() {
  for (const int signal : kEnding) std::signal(signal, SIG_DFL);
}

// Only SIGINT, SIGTERM and SIGHUP removed a temporary file, and of several
// files only the last one.
TEST_CASE("whichever signal ends a run, no temporary file is left") {
  for (const int signal : kEnding) {
    CAPTURE(signal);
    const Folder folder;
    const int status = in_child(STDOUT_FILENO, [&] {
      forget_handlers();
      const auto host = make_real_host();
      std::string why;
      const auto first = host->create_file(folder / "first", why);
      const auto second = host->create_file(folder / "second", why);
      if (!first->write("half") || !second->write("half")) return 1;
      ::raise(signal);
      return 2;
    });
    REQUIRE(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == signal);
    CHECK(std::filesystem::is_empty(folder.path()));
  }
}

// The mutation: a file that nobody noted stays.
TEST_CASE("a file that is not noted is left") {
  const Folder folder;
  const int status = in_child(STDOUT_FILENO, [&] {
    forget_handlers();
    folder.put("noted", "");
    folder.put("forgotten", "");
    const std::string noted = folder / "noted";
    const std::string forgotten = folder / "forgotten";
    note_unfinished(noted.c_str());
    note_unfinished(forgotten.c_str());
    forget_unfinished(forgotten.c_str());
    ::raise(SIGQUIT);
    return 2;
  });
  CHECK(WTERMSIG(status) == SIGQUIT);
  CHECK(make_real_host()->list_directory(folder.path()) ==
        std::vector<std::string>{"forgotten"});
}

TEST_CASE("a signal that was ignored stays so") {
  const Folder folder;
  const int status = in_child(STDOUT_FILENO, [&] {
    std::signal(SIGHUP, SIG_IGN);  // nohup
    const auto host = make_real_host();
    std::string why;
    const auto file = host->create_file(folder / "f", why);
    ::raise(SIGHUP);
    return file->write("all") && file->commit() ? 0 : 1;
  });
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(folder.get("f") == "all");
}

// Deeper than any stack; each call uses what the deeper one gave.
int deeper(int depth) {
  std::array<volatile char, 4096> room{};
  room[0] = static_cast<char>(depth);
  return depth > 100'000'000 ? room[0] : deeper(depth + 1) + room[0];
}

TEST_CASE("a stack that overflows leaves no temporary file") {
  const Folder folder;
  const int status = in_child(STDOUT_FILENO, [&] {
    forget_handlers();
    const auto host = make_real_host();
    std::string why;
    const auto file = host->create_file(folder / "f", why);
    return deeper(0) == 0 ? 2 : 3;
  });
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGSEGV);
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("more unfinished files than can be noted are refused") {
  const Folder folder;
  const int status = in_child(STDOUT_FILENO, [&] {
    const auto host = make_real_host();
    std::string why;
    std::vector<std::unique_ptr<OutputFile>> files;
    for (size_t i = 0; i < kMostUnfinished; ++i) {
      files.push_back(host->create_file(folder / std::to_string(i), why));
      if (files.back() == nullptr) return 1;
    }
    if (host->create_file(folder / "more", why) != nullptr) return 2;
    if (why != "too many open files") return 3;
    files.pop_back();
    return host->create_file(folder / "more", why) != nullptr ? 0 : 4;
  });
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("signals are held back, and then come") {
  const int status = in_child(STDOUT_FILENO, [] {
    std::signal(SIGUSR1, SIG_DFL);
    {
      const SignalHold hold;
      const SignalHold again;
      ::raise(SIGUSR1);
    }
    return 0;
  });
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGUSR1);
}

// Without the note a page that is gone ends the program: the mutation.
TEST_CASE("mapped pages that are gone read as zeros where they were noted") {
  for (const bool noted : {true, false}) {
    CAPTURE(noted);
    const Folder folder;
    folder.put("f", std::string(100'000, 'x'));
    const int status = in_child(STDOUT_FILENO, [&] {
      std::signal(SIGBUS, SIG_DFL);
      const int file = ::open((folder / "f").c_str(), O_RDONLY);
      void* data = ::mmap(nullptr, 100'000, PROT_READ, MAP_PRIVATE, file, 0);
      std::atomic<bool> shortened{false};
      if (noted && !note_mapping(data, 100'000, &shortened)) return 1;
      if (::truncate((folder / "f").c_str(), 10) != 0) return 2;
      const volatile char* text = static_cast<const char*>(data);
      if (text[0] != 'x' || text[99'999] != 0 || text[50'000] != 0) return 3;
      if (!shortened) return 4;
      forget_mapping(data);
      return 0;
    });
    CHECK(WIFSIGNALED(status) != noted);
    if (noted) CHECK(WEXITSTATUS(status) == 0);
    if (!noted) CHECK(WTERMSIG(status) == SIGBUS);
  }
}

}  // namespace
}  // namespace shardplan
