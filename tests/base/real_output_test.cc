// SPDX-License-Identifier: Apache-2.0
#include "base/real_output.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/real_host.h"
#include "tests/support/real_folder.h"
#include "tests/support/skip.h"

namespace shardplan {
namespace {

using testing::Folder;
using testing::in_child;

constexpr std::array<int, 16> kEnding = {
    SIGHUP,  SIGINT,  SIGQUIT, SIGILL, SIGABRT, SIGFPE,  SIGSEGV,   SIGTERM,
    SIGALRM, SIGUSR1, SIGUSR2, SIGBUS, SIGXCPU, SIGTRAP, SIGVTALRM, SIGPROF};

// As a program starts: a test runner has handlers of its own.
void reset_handlers() {
  for (const int signal : kEnding) std::signal(signal, SIG_DFL);
}

// Only SIGINT, SIGTERM and SIGHUP removed a temporary file, and of several
// files only the last one.
TEST_CASE("whichever signal ends a run, no temporary file is left") {
  for (const int signal : kEnding) {
    CAPTURE(signal);
    const Folder folder;
    const int status = in_child(STDOUT_FILENO, [&] {
      reset_handlers();
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
    reset_handlers();
    folder.put("noted", "");
    folder.put("forgotten", "");
    const std::string noted = folder / "noted";
    const std::string unregistered = folder / "forgotten";
    register_unfinished(noted.c_str());
    register_unfinished(unregistered.c_str());
    unregister_unfinished(unregistered.c_str());
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
    reset_handlers();
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
      if (noted && !register_mapping(data, 100'000, &shortened)) return 1;
      if (::truncate((folder / "f").c_str(), 10) != 0) return 2;
      const volatile char* text = static_cast<const char*>(data);
      if (text[0] != 'x' || text[99'999] != 0 || text[50'000] != 0) return 3;
      if (!shortened) return 4;
      unregister_mapping(data);
      return 0;
    });
    CHECK(WIFSIGNALED(status) != noted);
    if (noted) CHECK(WEXITSTATUS(status) == 0);
    if (!noted) CHECK(WTERMSIG(status) == SIGBUS);
  }
}

using testing::mode_of;

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

TEST_CASE("writing to where standard output goes does not replace that file") {
  if (!std::filesystem::exists("/dev/stdout")) {
    return testing::skip("there is no /dev/stdout (is /proc mounted?)");
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

// A dangling link was replaced by the file, without a word.
TEST_CASE("a link that leads nowhere yet is followed") {
  const Folder folder;
  std::filesystem::create_directory(folder / "real");
  std::filesystem::create_symlink("real/target", folder / "link");
  std::filesystem::create_symlink("link", folder / "chain");
  std::filesystem::create_symlink("missing/target", folder / "lost");
  const auto host = make_real_host();
  std::string why;
  const auto file = host->create_file(folder / "chain", why);
  REQUIRE(file != nullptr);
  CHECK(file->write("text"));
  CHECK(file->commit());
  CHECK(folder.get("real/target") == "text");
  CHECK(std::filesystem::is_symlink(folder / "link"));
  CHECK(std::filesystem::is_symlink(folder / "chain"));
  CHECK(host->create_file(folder / "lost", why) == nullptr);
  CHECK(why == "no such file or directory (it is a link to `" +
                   (folder / "missing/target") + "`)");
  std::filesystem::create_symlink("loop", folder / "loop");
  CHECK(host->create_file(folder / "loop", why) == nullptr);
}

// `check --fix` gave the rules of another user to whoever ran it.
TEST_CASE("an edited file keeps owner, group and mode") {
  if (::geteuid() != 0) {
    return testing::skip("only root can give files away");
  }
  const Folder folder;
  folder.put("rules", "before");
  REQUIRE(::chown((folder / "rules").c_str(), 1234, 4321) == 0);
  REQUIRE(::chmod((folder / "rules").c_str(), 02640) == 0);
  const auto host = make_real_host();
  std::string why;
  for (const bool edits : {true, false}) {
    const auto file = edits ? host->edit_file(folder / "rules", "before", why)
                            : host->create_file(folder / "rules", why);
    REQUIRE(file != nullptr);
    CHECK(file->write("after"));
    CHECK(file->commit());
    CHECK(host->file_info(folder / "rules")->owner == 1234);
    CHECK(mode_of(folder / "rules") == 02640);
  }
  struct stat info {};
  REQUIRE(::stat((folder / "rules").c_str(), &info) == 0);
  CHECK(info.st_gid == 4321);
}

TEST_CASE("a file whose owner cannot be kept is not edited") {
  if (::geteuid() != 0) {
    return testing::skip("only root makes files of two users");
  }
  const Folder folder;
  folder.put("rules", "before");
  REQUIRE(::chmod((folder / "rules").c_str(), 0666) == 0);
  REQUIRE(::chmod(folder.path().c_str(), 0777) == 0);
  const int status = in_child(STDOUT_FILENO, [&] {
    if (::setgid(4321) != 0 || ::setuid(1234) != 0) return 9;
    const auto host = make_real_host();
    std::string why;
    if (host->edit_file(folder / "rules", "before", why) != nullptr) return 1;
    if (why !=
        "its owner and mode cannot be preserved: operation not permitted") {
      return 2;
    }
    // An answer may replace it, as before.
    const auto file = host->create_file(folder / "rules", why);
    return file && file->write("answer") && file->commit() ? 0 : 3;
  });
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(folder.get("rules") == "answer");
  CHECK(make_real_host()->list_directory(folder.path()).size() == 1);
}

TEST_CASE("an edited file keeps its access list") {
  const Folder folder;
  folder.put("rules", "before");
  // Version 2; owner rw, user 1234 r, group r, mask r, others nothing.
  const std::string none = "\xff\xff\xff\xff";
  const std::string list =
      std::string("\2\0\0\0", 4) + std::string("\1\0\6\0", 4) + none +
      std::string("\2\0\4\0\xd2\4\0\0", 8) + std::string("\4\0\4\0", 4) + none +
      std::string("\x10\0\4\0", 4) + none + std::string("\x20\0\0\0", 4) + none;
  constexpr const char* kName = "system.posix_acl_access";
  if (::setxattr((folder / "rules").c_str(), kName, list.data(), list.size(),
                 0) != 0) {
    return testing::skip("this file system has no access lists");
  }
  std::string why;
  CHECK(make_real_host()->edit_file(folder / "rules", "before", why)->commit());
  std::string after(200, ' ');
  const ssize_t size =
      ::getxattr((folder / "rules").c_str(), kName, after.data(), after.size());
  REQUIRE(size > 0);
  CHECK((after.substr(0, static_cast<size_t>(size)) == list));
}

TEST_CASE("only files that are there are edited") {
  const Folder folder;
  const auto host = make_real_host();
  std::string why;
  CHECK(host->edit_file(folder / "none", "", why) == nullptr);
  CHECK(why == "no such file or directory");
  CHECK(host->edit_file("/dev/null", "", why) == nullptr);
  CHECK(why == "is not a file");
}

std::unique_ptr<OutputFile> edit_of(Host& host, const std::string& path) {
  std::string why;
  auto file = host.edit_file(path, "before", why);
  REQUIRE(file != nullptr);
  CHECK(file->write("after"));
  return file;
}

void append_to(const std::string& path, std::string_view text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  REQUIRE(fd >= 0);
  CHECK(write_all(fd, text));
  ::close(fd);
}

// What another program appended while `--fix` ran was lost.
TEST_CASE("an edit does not replace what was changed meanwhile") {
  const Folder folder;
  folder.put("rules", "before");
  const auto host = make_real_host();
  auto file = edit_of(*host, folder / "rules");
  append_to(folder / "rules", " and more");
  CHECK_FALSE(file->commit());
  CHECK(file->problem() == "it has changed since it was read");
  file.reset();
  CHECK(folder.get("rules") == "before and more");
  // Another file of that name, of the same size, and none.
  folder.put("rules", "before");
  file = edit_of(*host, folder / "rules");
  folder.put("rules", "BEFORE");
  CHECK_FALSE(file->commit());
  file.reset();
  CHECK(folder.get("rules") == "BEFORE");
  folder.put("rules", "before");
  file = edit_of(*host, folder / "rules");
  std::filesystem::remove(folder / "rules");
  CHECK_FALSE(file->commit());
  file.reset();
  CHECK(host->list_directory(folder.path()).empty());
}

TEST_CASE("an edit does not take a file from who writes to it") {
  const Folder folder;
  folder.put("rules", "before");
  const auto host = make_real_host();
  const int reader = ::open((folder / "rules").c_str(), O_RDONLY | O_CLOEXEC);
  if (::fcntl(reader, F_SETLEASE, F_RDLCK) != 0) {
    ::close(reader);
    return testing::skip("this file system has no leases");
  }
  ::fcntl(reader, F_SETLEASE, F_UNLCK);
  const int writer =
      ::open((folder / "rules").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  auto file = edit_of(*host, folder / "rules");
  CHECK_FALSE(file->commit());
  CHECK(file->problem() == "another program has it open for writing");
  file.reset();
  CHECK(write_all(writer, " and more"));
  ::close(writer);
  CHECK(folder.get("rules") == "before and more");
  // Readers are no matter.
  folder.put("rules", "before");
  file = edit_of(*host, folder / "rules");
  CHECK(file->commit());
  file.reset();
  CHECK(folder.get("rules") == "after");
  ::close(reader);
  CHECK(host->list_directory(folder.path()).size() == 1);
}

// Another program appends lines all the time: each stands in the file at last,
// or the edit says that it was not made.
TEST_CASE("no line that is appended beside edits is lost") {
  const Folder folder;
  const std::string path = folder / "rules";
  folder.put("rules", "");
  int pipe[2] = {};
  REQUIRE(::pipe(pipe) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::close(pipe[0]);
    // `echo line >> rules`, until there are enough.
    for (int i = 0; i < 400; ++i) {
      const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
      if (fd < 0 || !write_all(fd, "line\n")) ::_exit(1);
      ::close(fd);
      ::usleep(500);
    }
    ::_exit(write_all(pipe[1], "x") ? 0 : 1);
  }
  ::close(pipe[1]);
  ::fcntl(pipe[0], F_SETFL, O_NONBLOCK);
  const auto host = make_real_host();
  int edits = 0;
  for (char done = 0; done == 0 && ::read(pipe[0], &done, 1) != 0;) {
    const std::string before = folder.get("rules");
    std::string why;
    const auto file = host->edit_file(path, before, why);
    REQUIRE(file != nullptr);
    CHECK(file->write(before + "edit\n"));
    if (file->commit()) ++edits;
  }
  ::close(pipe[0]);
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 0);
  const std::string text = folder.get("rules");
  const auto lines = std::count(text.begin(), text.end(), '\n');
  CHECK(lines == 400 + edits);
  CHECK(host->list_directory(folder.path()).size() == 1);
}

// A hard link was parted from the file that it names.
TEST_CASE("a file with other names is not replaced") {
  const Folder folder;
  folder.put("rules", "before");
  std::filesystem::create_hard_link(folder / "rules", folder / "twin");
  const auto host = make_real_host();
  std::string why;
  CHECK(host->edit_file(folder / "rules", "before", why) == nullptr);
  CHECK(why == "it has other hard links, which would keep the old content");
  why.clear();
  CHECK(host->create_file(folder / "twin", why) == nullptr);
  CHECK(why == "it has other hard links, which would keep the old content");
  std::filesystem::remove(folder / "twin");
  auto file = edit_of(*host, folder / "rules");
  std::filesystem::create_hard_link(folder / "rules", folder / "twin");
  CHECK_FALSE(file->commit());
  file.reset();
  CHECK(folder.get("rules") == "before");
  CHECK(folder.get("twin") == "before");
}

TEST_CASE("what could not be written says why") {
  const auto host = make_real_host();
  std::string why;
  const auto full = host->create_file("/dev/full", why);
  REQUIRE(full != nullptr);
  CHECK_FALSE(full->write("text"));
  CHECK(full->problem() == "no space left on device");
}

// The limit on a file's size ended the program with SIGXFSZ and left its
// temporary file.
TEST_CASE("a file that may not get so large is a failed write") {
  const Folder folder;
  const int status = in_child(STDOUT_FILENO, [&] {
    std::signal(SIGXFSZ, SIG_DFL);
    const auto host = make_real_host();
    const rlimit limit{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    std::string why;
    const auto file = host->create_file(folder / "f", why);
    if (!file || file->write(std::string(5000, 'x'))) return 1;
    return file->problem() == "file too large" ? 0 : 2;
  });
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(std::filesystem::is_empty(folder.path()));
}

}  // namespace

}  // namespace shardplan
