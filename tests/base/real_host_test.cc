// SPDX-License-Identifier: Apache-2.0
#include "base/real_host.h"

#include <csignal>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <pty.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/real_folder.h"
#include "tests/support/skip.h"

namespace shardplan {
namespace {

using testing::Folder;
using testing::in_child;
using testing::mode_of;

TEST_CASE("a file larger than memory is mapped, not read") {
  const Folder folder;
  constexpr int64_t kSize = int64_t{1} << 40;  // sparse
  folder.put("large", "");
  REQUIRE(::truncate((folder / "large").c_str(), kSize) == 0);
  const auto host = make_real_host();
  std::string why;
  const auto bytes = host->read_file(folder / "large", kWholeFile, why);
  REQUIRE(bytes);
  CHECK(bytes->view().size() == static_cast<size_t>(kSize));
  CHECK(bytes->view().back() == '\0');
}

TEST_CASE("small and mapped files read the same, whole or cut") {
  const Folder folder;
  const auto host = make_real_host();
  for (const size_t size : {0u, 5u, 65536u, 65537u, 1000000u, 20000000u}) {
    std::string text(size, 'x');
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + i % 23);
    folder.put("f", text);
    CAPTURE(size);
    CHECK(host->file_info(folder / "f")->size == static_cast<int64_t>(size));
    std::string why;
    for (const int64_t limit : {int64_t{-1}, int64_t{0}, int64_t{3},
                                int64_t{70000}, int64_t{30000000}}) {
      CAPTURE(limit);
      const auto bytes = host->read_file(folder / "f", limit, why);
      REQUIRE(bytes != nullptr);
      CHECK(
          (bytes->view() ==
           text.substr(0, static_cast<size_t>(limit < 0 ? 30000000 : limit))));
    }
  }
}

TEST_CASE("what cannot be read says why") {
  const Folder folder;
  const auto host = make_real_host();
  std::string why;
  CHECK(host->read_file(folder / "none", kWholeFile, why) == nullptr);
  CHECK(why == "no such file or directory");
  CHECK(host->read_file(folder.path(), kWholeFile, why) == nullptr);
  CHECK(why == "is a directory");
  CHECK_FALSE(host->file_info(folder / "none").has_value());
}

TEST_CASE("a named pipe is read to its end") {
  const Folder folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  const std::string text(300000, 'p');
  const pid_t writer = ::fork();
  if (writer == 0) {
    folder.put("pipe", text);
    ::_exit(0);
  }
  std::string why;
  const auto host = make_real_host();
  host->may_wait_for(folder / "pipe");
  const auto bytes = host->read_file(folder / "pipe", kWholeFile, why);
  ::waitpid(writer, nullptr, 0);
  REQUIRE(bytes != nullptr);
  CHECK((bytes->view() == text));
}

// A file that became shorter ended the program with SIGBUS: rules above 64 KiB
// and checkpoints were mapped, and a page that is no longer there cannot be
// read.
TEST_CASE(
    "a mapped file that becomes shorter reads as zeros, and is reported") {
  const Folder folder;
  const std::string text(40'000'000, 'x');
  folder.put("weights", text);
  folder.put("others", text);
  const auto host = make_real_host();
  std::string why;
  const auto others = host->read_file(folder / "others", kWholeFile, why);
  const auto bytes = host->read_file(folder / "weights", kWholeFile, why);
  REQUIRE(bytes != nullptr);
  CHECK(bytes->view()[30'000'000] == 'x');
  CHECK(host->shortened_file().empty());
  REQUIRE(::truncate((folder / "weights").c_str(), 1'000'000) == 0);
  CHECK(bytes->view()[999'999] == 'x');
  // What is missing of the last page reads as zeros anyway.
  CHECK(bytes->view()[1'000'001] == '\0');
  CHECK(host->shortened_file().empty());
  CHECK(bytes->view()[20'000'000] == '\0');
  CHECK(bytes->view().back() == '\0');
  CHECK(bytes->view().front() == 'x');
  CHECK(host->shortened_file() == folder / "weights");
  CHECK(others->view().back() == 'x');
  CHECK(make_real_host()->shortened_file().empty());
}

// The kind: what is small enough is read, so nobody can change it under us.
TEST_CASE("a small file that becomes shorter is as it was") {
  const Folder folder;
  folder.put("rules", std::string(1'000'000, 'r'));
  const auto host = make_real_host();
  std::string why;
  const auto bytes = host->read_file(folder / "rules", kWholeFile, why);
  REQUIRE(::truncate((folder / "rules").c_str(), 0) == 0);
  CHECK(bytes->view().back() == 'r');
  CHECK(host->shortened_file().empty());
}

// A bus error of another cause still ends the program: the handler takes
// nothing that is not its own.
TEST_CASE("a bus error outside of mapped files ends the program") {
  const Folder folder;
  folder.put("weights", std::string(20'000'000, 'x'));
  const int status = in_child(STDOUT_FILENO, [&] {
    std::signal(SIGBUS, SIG_DFL);
    const auto host = make_real_host();
    std::string why;
    const auto bytes = host->read_file(folder / "weights", kWholeFile, why);
    ::raise(SIGBUS);
    return 0;
  });
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGBUS);
}

// A run of a folder in which `config.json` was a pipe never ended: nobody
// wrote to it.
TEST_CASE("a pipe that nobody named is refused at once") {
  const Folder folder;
  REQUIRE(::mkfifo((folder / "config.json").c_str(), 0600) == 0);
  const auto host = make_real_host();
  std::string why;
  CHECK(host->read_file(folder / "config.json", kWholeFile, why) == nullptr);
  CHECK(why == "is a pipe; only pipes named on the command line are read");
  CHECK(host->read_file(folder / "config.json", 10, why) == nullptr);
}

// A `config.json` linked to /dev/zero took 8.4 GB.
TEST_CASE("devices are refused, named or not, but for the empty one") {
  const Folder folder;
  const auto host = make_real_host();
  std::string why;
  for (const char* device : {"/dev/zero", "/dev/urandom", "/dev/full"}) {
    CAPTURE(device);
    const std::string link = folder / "config.json";
    std::filesystem::create_symlink(device, link);
    for (const bool named : {false, true}) {
      if (named) host->may_wait_for(link);
      if (named) host->may_wait_for(device);
      CHECK(host->read_file(link, kWholeFile, why) == nullptr);
      CHECK(why == "is a device, which may never end");
      CHECK(host->read_file(device, 4096, why) == nullptr);
      CHECK(why == "is a device, which may never end");
    }
    std::filesystem::remove(link);
  }
  const auto nothing = host->read_file("/dev/null", kWholeFile, why);
  REQUIRE(nothing != nullptr);
  CHECK(nothing->view().empty());
}

TEST_CASE("an endless standard input is refused") {
  const int status = in_child(STDOUT_FILENO, [] {
    const int zero = ::open("/dev/zero", O_RDONLY);
    ::dup2(zero, STDIN_FILENO);
    std::string why;
    if (make_real_host()->read_stdin(why) != nullptr) return 1;
    return why == "is a device, which may never end" ? 0 : 2;
  });
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a standard input that is not ready yet is waited for") {
  const int status = in_child(STDOUT_FILENO, [] {
    int ends[2] = {};
    if (::pipe2(ends, O_NONBLOCK) != 0) return 9;
    if (::fork() == 0) {
      ::usleep(50'000);
      const ssize_t done = ::write(ends[1], "late", 4);
      ::_exit(done == 4 ? 0 : 1);
    }
    ::close(ends[1]);
    ::dup2(ends[0], STDIN_FILENO);
    std::string why;
    const auto bytes = make_real_host()->read_stdin(why);
    return bytes != nullptr && bytes->view() == "late" ? 0 : 1;
  });
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("files of the system that tell no size are read") {
  std::string why;
  const auto bytes =
      make_real_host()->read_file("/proc/self/status", kWholeFile, why);
  if (bytes == nullptr) {
    return testing::skip("is /proc mounted?");
  }
  CHECK(bytes->view().find("Name:") == 0);
}

TEST_CASE("what was read is known by any of its names") {
  const Folder folder;
  folder.put("model", "text");
  folder.put("other", "text");
  std::filesystem::create_symlink("model", folder / "link");
  std::filesystem::create_hard_link(folder / "model", folder / "twin");
  const auto host = make_real_host();
  CHECK_FALSE(host->was_read(folder / "model"));
  std::string why;
  CHECK(host->read_file(folder / "link", 2, why) != nullptr);
  for (const char* name : {"model", "link", "twin"}) {
    CHECK(host->was_read(folder / name));
  }
  CHECK_FALSE(host->was_read(folder / "other"));
  CHECK_FALSE(host->was_read(folder / "none"));
}

TEST_CASE(
    "a real path has no links, and a file's owner is the one who made it") {
  const Folder folder;
  folder.put("model", "text");
  std::filesystem::create_symlink("model", folder / "link");
  const auto host = make_real_host();
  CHECK(host->real_path(folder / "link") ==
        std::filesystem::canonical(folder.path()).string() + "/model");
  CHECK_FALSE(host->real_path(folder / "none"));
  CHECK(host->user() == static_cast<int64_t>(::geteuid()));
  CHECK(host->file_info(folder / "link")->owner == host->user());
  CHECK(host->file_info(folder / "link")->device ==
        host->file_info(folder.path())->device);
}

// The first file that a run opened took the number of its closed standard
// output, and the answer would have been written into it.
TEST_CASE("a closed standard output is not a file that is opened later") {
  const Folder folder;
  const int status = in_child(STDOUT_FILENO, [&] {
    ::close(STDOUT_FILENO);
    const auto host = make_real_host();
    std::string why;
    const auto file = host->create_file(folder / "f", why);
    if (!file || host->write(Stream::Out, "the answer")) return 1;
    if (host->write_problem(Stream::Out) != "bad file descriptor") return 2;
    return file->write("text") && file->commit() ? 0 : 3;
  });
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(folder.get("f") == "text");
}

TEST_CASE("a directory is listed sorted") {
  const Folder folder;
  for (const char* name : {"b", "a", "B", ".hidden"}) folder.put(name, "");
  const auto host = make_real_host();
  CHECK(host->list_directory(folder.path()) ==
        std::vector<std::string>{".hidden", "B", "a", "b"});
  CHECK(host->list_directory(folder / "none").empty());
  CHECK(host->file_info(folder.path())->directory);
}

// What a terminal shows of a run that an interrupt ends.
std::string interrupted(const std::vector<std::string>& texts) {
  int terminal = -1;
  int ours = -1;
  REQUIRE(::openpty(&ours, &terminal, nullptr, nullptr, nullptr) == 0);
  const int status = in_child(terminal, [&] {
    std::signal(SIGINT, SIG_DFL);
    ::dup2(STDOUT_FILENO, STDERR_FILENO);
    const auto host = make_real_host();
    for (const std::string& text : texts) host->write(Stream::Err, text);
    ::raise(SIGINT);
    return 2;
  });
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGINT);
  // A terminal hands on what was written to it a little later, and in parts; it
  // fails (EIO) once nobody writes to it any more and all of it was read.
  ::close(terminal);
  std::string shown;
  char part[256];
  for (ssize_t got = 0; (got = ::read(ours, part, sizeof part)) > 0;) {
    shown.append(part, static_cast<size_t>(got));
  }
  ::close(ours);
  return shown;
}

TEST_CASE("an interrupted run erases its status line") {
  const std::string erase = "\r\x1b[K";
  CHECK(interrupted({"running ..."}) == "running ..." + erase);
  CHECK(interrupted({"running ...", erase, "done\n"}) ==
        "running ..." + erase + "done\r\n");
}

TEST_CASE("writing into a closed pipe is false, not a signal") {
  int ends[2] = {};
  REQUIRE(::pipe(ends) == 0);
  ::close(ends[0]);
  const int status = in_child(ends[1], [] {
    const auto host = make_real_host();
    if (host->write(Stream::Out, "into the void")) return 1;
    return host->write_problem(Stream::Out).empty() ? 0 : 2;
  });
  ::close(ends[1]);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a full disk is told from a closed pipe") {
  const int full = ::open("/dev/full", O_WRONLY);
  REQUIRE(full >= 0);
  const int status = in_child(full, [] {
    const auto host = make_real_host();
    if (!host->write_problem(Stream::Out).empty()) return 1;
    if (host->write(Stream::Out, "too much")) return 2;
    return host->write_problem(Stream::Out) == "no space left on device" ? 0
                                                                         : 3;
  });
  ::close(full);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("appending makes the file and adds to it") {
  const Folder folder;
  const auto host = make_real_host();
  std::string why;
  CHECK(host->append_file(folder / "f", "one ", why));
  CHECK(host->append_file(folder / "f", "two", why));
  CHECK(folder.get("f") == "one two");
  CHECK_FALSE(host->append_file(folder.path(), "x", why));
  CHECK(why == "is a directory");
}

TEST_CASE("the clock does not go back and there is a processor") {
  const auto host = make_real_host();
  const double before = host->now();
  CHECK(host->now() >= before);
  CHECK(host->processors() >= 1);
  CHECK(host->working_directory() == std::filesystem::current_path());
  CHECK_FALSE(host->environment("SHARDPLAN_NO_SUCH_VARIABLE").has_value());
}

}  // namespace

}  // namespace shardplan
