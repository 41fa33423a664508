// SPDX-License-Identifier: Apache-2.0
#include "base/real_host.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <pty.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace shardplan {
namespace {

// The one place where tests touch the disk: a folder that goes away.
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

mode_t mode_of(const std::string& path) {
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
  for (const size_t size : {0u, 5u, 65536u, 65537u, 1000000u}) {
    std::string text(size, 'x');
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + i % 23);
    folder.put("f", text);
    CAPTURE(size);
    CHECK(host->file_info(folder / "f")->size == static_cast<int64_t>(size));
    std::string why;
    for (const int64_t limit : {int64_t{-1}, int64_t{0}, int64_t{3},
                                int64_t{70000}, int64_t{2000000}}) {
      CAPTURE(limit);
      const auto bytes = host->read_file(folder / "f", limit, why);
      REQUIRE(bytes != nullptr);
      CHECK((bytes->view() ==
             text.substr(0, static_cast<size_t>(limit < 0 ? 2000000 : limit))));
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
  const auto bytes =
      make_real_host()->read_file(folder / "pipe", kWholeFile, why);
  ::waitpid(writer, nullptr, 0);
  REQUIRE(bytes != nullptr);
  CHECK((bytes->view() == text));
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

TEST_CASE("a file appears when it is committed, and not before") {
  const Folder folder;
  const auto host = make_real_host();
  std::string why;
  {
    const auto file = host->create_file(folder / "new", why);
    REQUIRE(file != nullptr);
    CHECK(file->write("all "));
    CHECK_FALSE(host->file_info(folder / "new").has_value());
    CHECK(file->write("of it"));
    CHECK(file->commit());
  }
  CHECK(folder.get("new") == "all of it");
  CHECK(host->list_directory(folder.path()).size() == 1);
}

TEST_CASE("a file that is not committed vanishes and keeps its target") {
  const Folder folder;
  folder.put("old", "before");
  const auto host = make_real_host();
  std::string why;
  CHECK(host->create_file(folder / "old", why)->write("half of"));
  CHECK(folder.get("old") == "before");
  CHECK(host->list_directory(folder.path()).size() == 1);
}

TEST_CASE("replacing keeps permissions and links") {
  const Folder folder;
  folder.put("real", "before");
  ::chmod((folder / "real").c_str(), 0640);
  std::filesystem::create_symlink("real", folder / "link");
  const auto host = make_real_host();
  std::string why;
  const auto file = host->create_file(folder / "link", why);
  REQUIRE(file != nullptr);
  CHECK(file->write("after"));
  CHECK(file->commit());
  CHECK(folder.get("real") == "after");
  CHECK(mode_of(folder / "real") == 0640);
  CHECK(std::filesystem::is_symlink(folder / "link"));
}

TEST_CASE("a new file has the mode that the umask leaves") {
  const Folder folder;
  const mode_t before = ::umask(027);
  std::string why;
  CHECK(make_real_host()->create_file(folder / "f", why)->commit());
  ::umask(before);
  CHECK(mode_of(folder / "f") == 0640);
}

TEST_CASE("a file in a missing folder, or a folder, cannot be created") {
  const Folder folder;
  const auto host = make_real_host();
  std::string why;
  CHECK(host->create_file(folder / "no/f", why) == nullptr);
  CHECK(why == "no such file or directory");
  CHECK(host->create_file(folder.path(), why) == nullptr);
  CHECK(why == "is a directory");
}

TEST_CASE("an ended run leaves no temporary file") {
  const Folder folder;
  const int status = in_child(STDOUT_FILENO, [&] {
    std::signal(SIGTERM, SIG_DFL);
    std::string why;
    const auto file = make_real_host()->create_file(folder / "f", why);
    if (!file || !file->write("half")) return 1;
    ::raise(SIGTERM);
    return 2;
  });
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGTERM);
  CHECK(std::filesystem::is_empty(folder.path()));
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
  std::string shown(1000, ' ');
  const ssize_t got = ::read(ours, shown.data(), shown.size());
  REQUIRE(got >= 0);
  shown.resize(static_cast<size_t>(got));
  ::close(ours);
  ::close(terminal);
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

TEST_CASE("writing to where standard output goes does not replace that file") {
  if (!std::filesystem::exists("/dev/stdout")) {
    MESSAGE("skipped: this system has no /dev/stdout (is /proc mounted?)");
    return;
  }
  const Folder folder;
  folder.put("log", "first\n");
  const int out = ::open((folder / "log").c_str(), O_WRONLY | O_APPEND);
  REQUIRE(out >= 0);
  const int status = in_child(out, [] {
    std::string why;
    const auto file = make_real_host()->create_file("/dev/stdout", why);
    return file && file->write("second\n") && file->commit() ? 0 : 1;
  });
  ::close(out);
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(folder.get("log") == "first\nsecond\n");
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
