// SPDX-License-Identifier: Apache-2.0
#include "base/child_process.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/real_host.h"
#include "tests/support/real_folder.h"

namespace shardplan {
namespace {

using testing::Folder;

std::unique_ptr<ChildProcess> started(
    const std::vector<std::string>& command,
    const std::vector<std::pair<std::string, std::string>>& environment = {}) {
  static const auto host = make_real_host();
  std::string why;
  auto child = host->start(command, environment, why);
  CHECK_MESSAGE(child != nullptr, why);
  REQUIRE(child != nullptr);
  return child;
}

std::unique_ptr<ChildProcess> script(const std::string& text) {
  return started({"sh", "-c", text});
}

// Whether there is such a process, once it had time to end.
bool lives(int process) {
  for (int i = 0; i < 100; ++i) {
    if (::kill(process, 0) != 0) return false;
    // One that nobody has waited for, where process 1 waits for nobody.
    std::ifstream file("/proc/" + std::to_string(process) + "/stat");
    std::string text;
    std::getline(file, text);
    const size_t name_end = text.rfind(')');
    if (name_end != std::string::npos && text.size() > name_end + 2 &&
        text[name_end + 2] == 'Z') {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

TEST_CASE("a program reads what we write, and we read what it writes") {
  const auto cat = started({"cat"});
  CHECK(cat->write("one\ntwo\n\nfour"));
  CHECK(cat->read_line(3) == "one");
  CHECK(cat->read_line(100) == "two");
  CHECK(cat->read_line(100) == "");
  std::string bytes;
  CHECK(cat->read_exactly(bytes, 2));
  CHECK(bytes == "fo");
  CHECK(cat->wait() == 0);
  CHECK(cat->wait() == 0);
  CHECK(cat->errors(100) == "");
  CHECK_FALSE(cat->write("more"));
  CHECK_FALSE(cat->read_line(100));
}

TEST_CASE("reading takes no more than its limit") {
  const auto child = script("printf 'a long line\\nshort\\nlast'");
  CHECK_FALSE(child->read_line(10));
  CHECK(child->read_line(11) == "a long line");
  CHECK(child->read_all(3) == "sho");
  CHECK(child->read_line(100) == "rt");
  CHECK(child->read_line(100) == "last");
  CHECK_FALSE(child->read_line(100));
  CHECK(child->read_all(100) == "");

  const auto endless = script("yes x");
  CHECK(endless->read_all(100001).size() == 100001);
  CHECK_FALSE(script("yes x | tr -d '\\n' | head -c 3000000")->read_line(1000));

  const auto short_of = script("printf abc");
  std::string bytes = "before";
  CHECK_FALSE(short_of->read_exactly(bytes, 4));
  CHECK(bytes == "abc");
}

TEST_CASE("large texts go through whole, both ways") {
  std::string text(3000000, 'x');
  for (size_t i = 0; i < text.size(); ++i) {
    text[i] = static_cast<char>('a' + i % 23);
  }
  const auto cat = started({"cat"});
  REQUIRE(cat->write(text));
  std::string bytes;
  REQUIRE(cat->read_exactly(bytes, text.size()));
  CHECK((bytes == text));

  // More than we keep for a reader that does not read.
  const auto unread = started({"cat"});
  bool fine = true;
  for (int i = 0; fine && i < 20; ++i) fine = unread->write(text);
  CHECK_FALSE(fine);
}

TEST_CASE("a program that complains at length is read all the same") {
  const auto child = script(
      "echo first >&2; head -c 10000000 /dev/zero >&2; echo out; exit 3");
  CHECK(child->read_line(100) == "out");
  CHECK(child->wait() == 3);
  CHECK(child->errors(5) == "first");
  CHECK(child->errors(1 << 30).size() == 65536);

  const auto silent = script("head -c 10000000 /dev/zero >&2; exit 4");
  CHECK(silent->read_all(100) == "");
  CHECK(silent->wait() == 4);

  // Nobody reads what it writes.
  CHECK(script("head -c 10000000 /dev/zero; exit 5")->wait() == 5);
}

TEST_CASE("exit codes are those of a shell") {
  CHECK(started({"true"})->wait() == 0);
  CHECK(script("exit 77")->wait() == 77);
  CHECK(script("kill -TERM $$")->wait() == 128 + SIGTERM);
  // It does not wait for what we might write.
  const auto ended = started({"true"});
  CHECK_FALSE(ended->read_line(100));
  CHECK(ended->wait() == 0);
}

TEST_CASE("what cannot be started says why") {
  const auto host = make_real_host();
  const Folder folder;
  folder.put("text", "not a program");
  std::string why;
  CHECK(host->start({"shardplan-no-such-program"}, {}, why) == nullptr);
  CHECK(why == "no such program in PATH");
  CHECK(host->start({}, {}, why) == nullptr);
  CHECK(why == "no such program in PATH");
  CHECK(host->start({folder / "missing"}, {}, why) == nullptr);
  CHECK(why == "no such file or directory");
  CHECK(host->start({folder / "text"}, {}, why) == nullptr);
  CHECK(why == "permission denied");
}

TEST_CASE("programs are looked for in absolute folders alone") {
  const Folder folder;
  folder.put("hello", "#!/bin/sh\necho hello\n");
  std::filesystem::permissions(folder / "hello",
                               std::filesystem::perms::owner_all);
  const auto host = make_real_host();
  std::string why;
  const auto with_path = [&](const std::string& path) {
    return host->start({"hello"}, {{"PATH", path}}, why);
  };
  REQUIRE(with_path("/nonexistent::" + folder.path()) != nullptr);
  CHECK(with_path("/nonexistent::" + folder.path())->read_line(9) == "hello");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  for (const std::string path : {".", "", ":", "::.", "./", "../."}) {
    CAPTURE(path);
    CHECK(with_path(path) == nullptr);
  }
  std::filesystem::current_path(before);
}

TEST_CASE("words reach a program as they are, and variables over ours") {
  const std::string word = "$HOME `id` 'x' \"y\" \n * \\";
  CHECK(started({"printf", "%s", word})->read_all(100) == word);
  const auto child = started({"sh", "-c", "echo $SHARDPLAN_A; echo $PATH"},
                             {{"SHARDPLAN_A", "1"}, {"SHARDPLAN_A", "2"}});
  CHECK(child->read_line(100) == "2");
  CHECK(child->read_line(10000) == std::getenv("PATH"));
}

TEST_CASE("a program has none of our descriptors, and no terminal") {
  const Folder folder;
  folder.put("mine", "secret");
  const int kept = ::open((folder / "mine").c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(kept >= 0);
  const auto other = started({"cat"});
  // What whoever started us left open for all programs is not ours.
  size_t expected = 3;
  for (int number = 3; number < 1024; ++number) {
    const int flags = ::fcntl(number, F_GETFD);
    if (flags >= 0 && (flags & FD_CLOEXEC) == 0) ++expected;
  }
  const auto child = script("ls -l /proc/$$/fd");
  size_t descriptors = 0;
  while (const auto line = child->read_line(10000)) {
    CAPTURE(*line);
    CHECK(line->find("mine") == std::string::npos);
    if (line->find(" 0 -> ") != std::string::npos) {
      CHECK(line->find("pipe:") != std::string::npos);
    }
    if (line->find(" -> ") != std::string::npos) ++descriptors;
  }
  CHECK(descriptors == expected);
  CHECK(script("true < /dev/tty")->wait() != 0);
  ::close(kept);

  // Its input ends although another program was started in between.
  const auto later = started({"cat"});
  CHECK(other->wait() == 0);
  CHECK(later->wait() == 0);
}

TEST_CASE("signals that we ignore have their effect on a program") {
  CHECK(script("kill -PIPE $$; echo alive")->wait() == 128 + SIGPIPE);
  CHECK(script("kill -XFSZ $$; echo alive")->wait() == 128 + SIGXFSZ);
  // With SIGCHLD ignored the system would forget exit codes.
  std::signal(SIGCHLD, SIG_IGN);
  CHECK(script("exit 9")->wait() == 9);
}

TEST_CASE("a program that never ends is ended with what it has started") {
  int shell = 0;
  int below = 0;
  {
    const auto child = script("sleep 1000 & echo $$ $!; wait");
    const auto line = child->read_line(100);
    REQUIRE(line);
    shell = std::stoi(*line);
    below = std::stoi(line->substr(line->find(' ')));
    CHECK(::kill(shell, 0) == 0);
    CHECK(::kill(below, 0) == 0);
  }
  CHECK(::kill(shell, 0) != 0);  // waited for
  CHECK_FALSE(lives(below));
  // One that does not let itself be asked.
  {
    const auto child = script("trap '' TERM INT HUP; echo $$; sleep 1000");
    shell = std::stoi(child->read_line(100).value_or("0"));
  }
  CHECK(::kill(shell, 0) != 0);
}

// As git does where a file of a repository is a pipe that nobody writes to.
TEST_CASE("a program that waits for what does not come is ended") {
  const Folder folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  const auto child = started({"cat", folder / "pipe"});
  CHECK(child->read_all(100).empty());
  CHECK(child->wait() == 128 + SIGKILL);
  CHECK(is_stalled(child->errors(1000)));
}

TEST_CASE("a program that works in silence is waited for") {
  const auto child = script(
      "end=$(($(date +%s) + 7)); while [ $(date +%s) -lt $end ]; do :; done; "
      "echo done");
  CHECK(child->read_line(100) == "done");
  CHECK(child->wait() == 0);
  CHECK_FALSE(is_stalled(child->errors(1000)));
}

TEST_CASE("a program that leaves its pipes to another one has ended") {
  const auto child =
      script("echo out; echo err >&2; sleep 1000 & echo $!; exit 6");
  CHECK(child->read_line(100) == "out");
  const int below = std::stoi(child->read_line(100).value_or("0"));
  REQUIRE(below > 0);
  CHECK_FALSE(child->read_line(100));
  CHECK(::kill(below, 0) == 0);
  CHECK(child->wait() == 6);
  CHECK(child->errors(100) == "err\n");
  CHECK_FALSE(lives(below));
}

TEST_CASE("a signal that ends us ends the programs that we have started") {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    CAPTURE(signal);
    int ends[2] = {-1, -1};
    REQUIRE(::pipe(ends) == 0);
    const int status = testing::in_child(ends[1], [&] {
      std::signal(signal, SIG_DFL);  // a test runner has handlers of its own
      const auto child = script("echo $$; exec sleep 1000");
      const std::string line = child->read_line(100).value_or("0") + "\n";
      if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) return 1;
      ::raise(signal);
      return 2;
    });
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == signal);
    char text[32] = {};
    REQUIRE(::read(ends[0], text, sizeof text - 1) > 0);
    CHECK_FALSE(lives(std::stoi(text)));
    ::close(ends[0]);
    ::close(ends[1]);
  }
}

TEST_CASE("many programs run at once, and too many are refused") {
  const auto host = make_real_host();
  std::vector<std::unique_ptr<ChildProcess>> children;
  std::string why;
  for (int i = 0; i < 64; ++i) {
    auto child = host->start({"cat"}, {}, why);
    if (child == nullptr) break;
    children.push_back(std::move(child));
  }
  // A few may run in tests of other files.
  CHECK(children.size() > 50);
  std::vector<std::unique_ptr<ChildProcess>> more;
  for (int i = 0; i < 64; ++i) {
    more.push_back(host->start({"cat"}, {}, why));
    if (more.back() == nullptr) break;
  }
  CHECK(more.back() == nullptr);
  CHECK(why == "too many programs are running");
  for (const auto& child : children) {
    CHECK(child->write("x\n"));
    CHECK(child->read_line(9) == "x");
  }
  children.clear();
  more.clear();
  CHECK(host->start({"true"}, {}, why) != nullptr);
}

}  // namespace
}  // namespace shardplan
