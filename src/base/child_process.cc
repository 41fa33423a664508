// SPDX-License-Identifier: Apache-2.0
#include "base/child_process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <map>
#include <optional>
#include <sstream>

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/real_host.h"
#include "base/real_output.h"
#include "base/text.h"
#include "base/words.h"

namespace shardplan {
namespace {

constexpr size_t kPipePiece = size_t{64} * 1024;
constexpr size_t kMostErrors = size_t{64} * 1024;
constexpr size_t kMostUnread = size_t{16} << 20;
// How often we check whether a program has ended while a program that it
// started still holds its pipes open.
constexpr int kLookEvery = 50;  // milliseconds
constexpr int kLooksPerSecond = 1000 / kLookEvery;

// Returns the first 4096 bytes of a file, which contain all of a process's
// /proc/N/stat; empty if the file cannot be read.
std::string start_of(const std::string& path) {
  const Descriptor file = open_file(path, O_RDONLY);
  std::array<char, 4096> bytes{};
  const ssize_t got =
      retry([&] { return ::read(file.get(), bytes.data(), bytes.size()); });
  return {bytes.data(), to_size(std::max<ssize_t>(got, 0))};
}

// Whether any program of a session is active: it runs, or waits for a disk, or
// has used CPU time since the previous check.
class Activity {
 public:
  // REQUIRES: /proc is the system's. If it cannot be read, returns true.
  bool is_at_work(pid_t session) {
    const std::unique_ptr<DIR, int (*)(DIR*)> all(::opendir("/proc"),
                                                  ::closedir);
    if (all == nullptr) return true;
    uint64_t used = 0;
    bool runs = false;
    while (const dirent* const each = ::readdir(all.get())) {
      const std::string name = each->d_name;
      if (!is_digit(name.front())) continue;
      const std::string text = start_of("/proc/" + name + "/stat");
      // "17 (name) S parent group session terminal .. user system"; the name
      // may contain any characters.
      const size_t end = text.rfind(')');
      if (end == std::string::npos) continue;
      std::istringstream rest(text.substr(end + 1));
      char state = 0;
      int64_t parent = 0;
      int64_t group = 0;
      int64_t of = 0;
      rest >> state >> parent >> group >> of;
      if (of != session) continue;
      std::string skipped;
      for (int i = 0; i < 7; ++i) rest >> skipped;
      uint64_t user = 0;
      uint64_t system = 0;
      rest >> user >> system;
      used += user + system;
      runs = runs || state == 'R' || state == 'D';
    }
    const bool more = used != used_;
    used_ = used;
    return runs || more;
  }

 private:
  uint64_t used_ = 0;
};

class RealChild : public ChildProcess {
 public:
  // Takes our ends of the pipes to a program that is about to be started.
  RealChild(Descriptor in, Descriptor out, Descriptor err)
      : in_(std::move(in)), out_(std::move(out)), err_(std::move(err)) {}
  RealChild(const RealChild&) = delete;
  RealChild& operator=(const RealChild&) = delete;
  ~RealChild() override {
    if (child_ == 0 || code_) return;
    ::kill(-child_, SIGKILL);
    reap();
  }

  // Records the started program. Returns false if too many are running.
  bool begin(pid_t child) {
    child_ = child;
    return register_child(child);
  }

  bool write(std::string_view text) override {
    while (!text.empty()) {
      if (!in_ || unread_.size() - consumed_ >= kMostUnread) return false;
      std::array<pollfd, 3> pipes = {{{in_.get(), POLLOUT, 0},
                                      {err_.get(), POLLIN, 0},
                                      {out_.get(), POLLIN, 0}}};
      const int ready =
          retry([&] { return ::poll(pipes.data(), pipes.size(), kLookEvery); });
      if (ready < 0 || is_idle(ready)) return false;
      if (pipes[1].revents != 0) read_errors();
      if (pipes[2].revents != 0) append_output(false);
      if (pipes[0].revents == 0) continue;
      const ssize_t done =
          retry([&] { return ::write(in_.get(), text.data(), text.size()); });
      if (done < 0 && errno != EAGAIN) return false;
      if (done > 0) text.remove_prefix(to_size(done));
    }
    return true;
  }

  std::optional<std::string> read_line(size_t limit) override {
    for (size_t looked = 0;;) {
      const std::string_view unread =
          std::string_view(unread_).substr(consumed_);
      const size_t end = unread.find('\n', looked);
      if (end != std::string_view::npos) {
        if (end > limit) return std::nullopt;
        std::string line(unread.substr(0, end));
        consumed_ += end + 1;
        return line;
      }
      if (unread.size() > limit) return std::nullopt;
      looked = unread.size();
      if (append_output(true)) continue;
      if (unread_.size() == consumed_) return std::nullopt;
      return consume_unread(limit);
    }
  }

  bool read_exactly(std::string& bytes, size_t size) override {
    bytes = consume_unread(size);
    size_t used = bytes.size();
    bytes.resize(size);
    while (used < size) {
      const size_t got = read_output(bytes.data() + used, size - used);
      if (got == 0) break;
      used += got;
    }
    bytes.resize(used);
    return used == size;
  }

  std::string read_all(size_t limit) override {
    std::string bytes = consume_unread(limit);
    for (;;) {
      const size_t used = bytes.size();
      if (used == limit) return bytes;
      bytes.resize(std::min(limit, std::max(used * 2, used + kPipePiece)));
      const size_t got = read_output(bytes.data() + used, bytes.size() - used);
      bytes.resize(used + got);
      if (got == 0) return bytes;
    }
  }

  int wait() override {
    if (code_) return *code_;
    in_.close();
    unread_.clear();
    consumed_ = 0;
    std::array<char, kPipePiece> rest{};
    int looks_left = 64;  // limits the output read from others after its end
    while (out_ || err_) {
      std::array<pollfd, 2> pipes = {
          {{out_.get(), POLLIN, 0}, {err_.get(), POLLIN, 0}}};
      const bool ended = has_ended();  // before poll(), to miss no output
      const int ready = retry([&] {
        return ::poll(pipes.data(), pipes.size(), ended ? 0 : kLookEvery);
      });
      if (pipes[0].revents != 0) read_pipe(out_, rest.data(), rest.size());
      if (pipes[1].revents != 0) read_errors();
      if (ended && (ready <= 0 || --looks_left == 0)) break;
      if (!ended) is_idle(ready);
    }
    reap();
    return *code_;
  }

  std::string errors(size_t limit) override {
    while (err_ && is_readable(err_)) read_errors();
    return errors_.substr(0, limit);
  }

 private:
  // Called after each poll of the pipes, `ready` of which had data. Kills the
  // program and returns true once it has waited in vain.
  bool is_idle(int ready) {
    if (in_vain_) return true;
    if (ready > 0) looks_ = 0;
    if (ready > 0 || ++looks_ % kLooksPerSecond != 0) return false;
    if (activity_.is_at_work(child_)) looks_ = 0;
    in_vain_ = looks_ >= kMostIdleSeconds * kLooksPerSecond;
    if (!in_vain_) return false;
    ::kill(-child_, SIGKILL);
    errors_ = kStalledMessage;
    return true;
  }

  // Returns true once the program has ended, even if its pipes are still open.
  bool has_ended() {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(child_), &info,
                    WEXITED | WNOHANG | WNOWAIT) != 0 ||
           info.si_pid == child_;
  }

  // Unregisters the child before reaping it, since its process id may be reused
  // afterwards.
  void reap() {
    siginfo_t info{};
    retry([&] {
      return ::waitid(P_PID, static_cast<id_t>(child_), &info,
                      WEXITED | WNOWAIT);
    });
    ::kill(-child_, SIGKILL);  // the programs that it started
    unregister_child(child_);
    int status = 0;
    const pid_t done = retry([&] { return ::waitpid(child_, &status, 0); });
    code_ = done != child_        ? 127
            : WIFEXITED(status)   ? WEXITSTATUS(status)
            : WIFSIGNALED(status) ? 128 + WTERMSIG(status)
                                  : 127;
  }

  static bool is_readable(const Descriptor& pipe) {
    pollfd one{pipe.get(), POLLIN, 0};
    return retry([&] { return ::poll(&one, 1, 0); }) > 0;
  }

  // Reads the available bytes. Returns 0, and closes the pipe, at the end.
  static size_t read_pipe(Descriptor& pipe, char* to, size_t most) {
    const ssize_t got = retry([&] { return ::read(pipe.get(), to, most); });
    if (got > 0) return to_size(got);
    if (got == 0 || errno != EAGAIN) pipe.close();
    return 0;
  }

  void read_errors() {
    std::array<char, 4096> piece{};
    const size_t got = read_pipe(err_, piece.data(), piece.size());
    errors_.append(piece.data(), std::min(got, kMostErrors - errors_.size()));
  }

  // Waits for output. Returns 0 at the end.
  size_t read_output(char* to, size_t most) {
    while (out_) {
      std::array<pollfd, 2> pipes = {
          {{out_.get(), POLLIN, 0}, {err_.get(), POLLIN, 0}}};
      const int ready =
          retry([&] { return ::poll(pipes.data(), pipes.size(), kLookEvery); });
      if (ready < 0 || is_idle(ready)) break;
      if (pipes[1].revents != 0) read_errors();
      if (pipes[0].revents != 0) {
        const size_t got = read_pipe(out_, to, most);
        if (got > 0) return got;
      } else if (ready == 0 && has_ended() && !is_readable(out_)) {
        break;  // another process holds its output open
      }
    }
    return 0;
  }

  // Appends to the unread output. With `waits` it waits for more, and returns
  // false at the end.
  bool append_output(bool waits) {
    unread_.erase(0, consumed_);
    consumed_ = 0;
    const size_t used = unread_.size();
    unread_.resize(used + kPipePiece);
    char* to = unread_.data() + used;
    const size_t got =
        waits ? read_output(to, kPipePiece) : read_pipe(out_, to, kPipePiece);
    unread_.resize(used + got);
    return got > 0;
  }

  std::string consume_unread(size_t most) {
    std::string bytes = unread_.substr(consumed_, most);
    consumed_ += bytes.size();
    return bytes;
  }

  pid_t child_ = 0;
  Descriptor in_;
  Descriptor out_;
  Descriptor err_;
  std::string unread_;  // its unread output begins at `consumed_`
  size_t consumed_ = 0;
  std::string errors_;
  std::optional<int> code_;
  Activity activity_;
  int looks_ = 0;  // idle checks since it last wrote or ran
  bool in_vain_ = false;
};

struct Pipe {
  Descriptor reading{-1};
  Descriptor writing{-1};
};

std::optional<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return std::nullopt;
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

// Affects only our end, since the two ends of a pipe have separate flags.
bool do_not_wait(const Descriptor& pipe) {
  const int flags = ::fcntl(pipe.get(), F_GETFL);
  return flags >= 0 && ::fcntl(pipe.get(), F_SETFL, flags | O_NONBLOCK) == 0;
}

using Variables = std::vector<std::pair<std::string, std::string>>;

std::vector<std::string> environment_with(const Variables& ours) {
  std::map<std::string, std::string> values;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    values.try_emplace(std::string(text.substr(0, equals)),
                       text.substr(equals + 1));
  }
  for (const auto& [name, value] : ours) values[name] = value;
  std::vector<std::string> all;
  all.reserve(values.size());
  for (const auto& [name, value] : values) all.push_back(name + '=' + value);
  return all;
}

bool is_program(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         ::access(path.c_str(), X_OK) == 0;
}

// Skips relative folders of PATH, which depend on the working directory and may
// belong to anyone.
std::string find_program(const std::string& name, std::string_view folders) {
  if (contains(name, '/')) return name;
  while (!folders.empty()) {
    std::string path(next_part(folders, ':'));
    if (!path.starts_with('/')) continue;
    path += '/';
    path += name;
    if (is_program(path)) return path;
  }
  return "";
}

std::string folders_of_programs(const std::vector<std::string>& environment) {
  constexpr std::string_view kName = "PATH=";
  for (const std::string& variable : environment) {
    if (variable.starts_with(kName)) return variable.substr(kName.size());
  }
  return "/usr/local/bin:/usr/bin:/bin";
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

void do_not_ignore_children() {
  struct sigaction now {};
  if (::sigaction(SIGCHLD, nullptr, &now) != 0) return;
  const bool handled = (now.sa_flags & SA_SIGINFO) != 0 ||
                       (now.sa_handler != SIG_IGN && now.sa_handler != SIG_DFL);
  const bool lost = now.sa_handler == SIG_IGN ||
                    (now.sa_flags & static_cast<int>(SA_NOCLDWAIT)) != 0;
  if (!handled && lost) std::signal(SIGCHLD, SIG_DFL);
}

// The settings of posix_spawn, which own two objects that must be destroyed.
class SpawnSettings {
 public:
  SpawnSettings() {
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
  ~SpawnSettings() {
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
  }

  // Returns 0, or an error number.
  int prepare(const std::array<int, 3>& streams) {
    int error = 0;
    for (int stream = 0; stream < 3 && error == 0; ++stream) {
      error = ::posix_spawn_file_actions_adddup2(&actions, nth(streams, stream),
                                                 stream);
    }
    sigset_t held;
    sigset_t defaults;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &held);
    ::sigemptyset(&defaults);
    for (const int signal : {SIGPIPE, SIGXFSZ, SIGCHLD}) {
      ::sigaddset(&defaults, signal);
    }
    if (error == 0) error = ::posix_spawnattr_setsigmask(&attributes, &held);
    if (error == 0) {
      error = ::posix_spawnattr_setsigdefault(&attributes, &defaults);
    }
    if (error != 0) return error;
    return ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK |
                                                       POSIX_SPAWN_SETSIGDEF |
                                                       POSIX_SPAWN_SETSID);
  }

  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};
};

}  // namespace

std::unique_ptr<ChildProcess> start_real_program(
    const std::vector<std::string>& command, const Variables& environment,
    std::string& why) {
  std::vector<std::string> variables = environment_with(environment);
  const std::string program =
      command.empty()
          ? ""
          : find_program(command.front(), folders_of_programs(variables));
  if (program.empty()) {
    why = "no such program in PATH";
    return nullptr;
  }
  auto in = make_pipe();
  auto out = make_pipe();
  auto err = make_pipe();
  if (!in || !out || !err || !do_not_wait(in->writing) ||
      !do_not_wait(out->reading) || !do_not_wait(err->reading)) {
    why = reason(errno);
    return nullptr;
  }
  do_not_ignore_children();
  SpawnSettings settings;
  int error = settings.prepare(
      {in->reading.get(), out->writing.get(), err->writing.get()});
  std::vector<std::string> words = command;
  const std::vector<char*> arguments = pointers_to(words);
  const std::vector<char*> values = pointers_to(variables);
  // Nothing may fail between starting the program and registering it.
  auto started = std::make_unique<RealChild>(
      std::move(in->writing), std::move(out->reading), std::move(err->reading));
  bool noted = false;
  if (error == 0) {
    const SignalHold hold;
    pid_t child = 0;
    error =
        ::posix_spawn(&child, program.c_str(), &settings.actions,
                      &settings.attributes, arguments.data(), values.data());
    noted = error == 0 && started->begin(child);
  }
  if (error != 0) {
    why = reason(error);
    return nullptr;
  }
  if (noted) return started;
  why = "too many programs are running";
  return nullptr;
}

}  // namespace shardplan
