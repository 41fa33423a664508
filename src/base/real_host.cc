// SPDX-License-Identifier: Apache-2.0
#include "base/real_host.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace shardplan {
namespace {

constexpr int64_t kMapAbove = int64_t{64} * 1024;
constexpr size_t kReadPiece = 1 << 20;

// "no such file or directory"
std::string reason(int error) {
  std::string text = std::generic_category().message(error);
  if (text.size() > 1 && std::islower(text[1]) != 0) {
    text[0] = static_cast<char>(std::tolower(text[0]));
  }
  return text;
}

template <typename Call>
auto retry(Call call) {
  auto result = call();
  while (result == -1 && errno == EINTR) result = call();
  return result;
}

// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() { close(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  // False when what was written could not be kept after all.
  bool close() {
    const int fd = std::exchange(fd_, -1);
    return fd < 0 || ::close(fd) == 0 || errno == EINTR;
  }

 private:
  int fd_;
};

Descriptor open_file(const std::string& path, int flags, mode_t mode = 0) {
  return Descriptor(
      retry([&] { return ::open(path.c_str(), flags | O_CLOEXEC, mode); }));
}

class MappedBytes : public Bytes {
 public:
  MappedBytes(void* data, size_t size) : data_(data), size_(size) {}
  MappedBytes(const MappedBytes&) = delete;
  MappedBytes& operator=(const MappedBytes&) = delete;
  ~MappedBytes() override { ::munmap(data_, size_); }
  std::string_view view() const override {
    return {static_cast<const char*>(data_), size_};
  }

 private:
  void* data_;
  size_t size_;
};

// Null when the file cannot be mapped; it is read then.
std::shared_ptr<const Bytes> map_file(int fd, size_t size) {
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) return nullptr;
  return std::make_shared<MappedBytes>(data, size);
}

// Up to `limit` bytes, to the end of the stream.
std::shared_ptr<const Bytes> read_stream(int fd, int64_t limit,
                                         std::string& why) {
  const bool capped = limit == kWholeFile;
  const auto most = static_cast<size_t>(capped ? kMaxStream + 1 : limit);
  std::string text;
  size_t used = 0;
  while (used < most) {
    if (used == text.size()) {
      text.resize(std::min(most, std::max(kReadPiece / 16, used * 2)));
    }
    const ssize_t got = retry(
        [&] { return ::read(fd, text.data() + used, text.size() - used); });
    if (got < 0) {
      why = reason(errno);
      return nullptr;
    }
    if (got == 0) break;
    used += static_cast<size_t>(got);
  }
  if (capped && used == most) {
    why = "more than 4 GiB through a pipe";
    return nullptr;
  }
  text.resize(used);
  text.shrink_to_fit();
  return bytes_of(std::move(text));
}

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t done =
        retry([&] { return ::write(fd, text.data(), text.size()); });
    if (done >= 0) {
      text.remove_prefix(static_cast<size_t>(done));
    } else if (errno == EAGAIN) {
      // Somebody made our standard output non-blocking.
      pollfd wait{fd, POLLOUT, 0};
      retry([&] { return ::poll(&wait, 1, -1); });
    } else {
      return false;
    }
  }
  return true;
}

// What to leave behind clean when a signal ends the program: a temporary file,
// a status line on the terminal. A signal handler can reach nothing but globals.
std::atomic<const char*> g_unfinished{nullptr};
std::atomic<bool> g_status_line{false};
static_assert(std::atomic<const char*>::is_always_lock_free);
static_assert(std::atomic<bool>::is_always_lock_free);

constexpr std::string_view kEraseLine = "\r\x1b[K";

void clean_up(int signal) {
  if (const char* path = g_unfinished.load()) ::unlink(path);
  if (g_status_line.load()) {
    // Nothing can be done where it fails: the program ends either way.
    [[maybe_unused]] const ssize_t done =
        ::write(STDERR_FILENO, kEraseLine.data(), kEraseLine.size());
  }
  ::raise(signal);  // SA_RESETHAND: now with its default effect
}

void install_cleanup() {
  struct sigaction ours {};
  ours.sa_handler = clean_up;
  ours.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    // One that is ignored (nohup) stays so.
    if (::sigaction(signal, nullptr, &before) == 0 &&
        before.sa_handler == SIG_DFL) {
      ::sigaction(signal, &ours, nullptr);
    }
  }
}

// Written as it stands: a pipe, a device, or where stdout or stderr goes.
class DirectFile : public OutputFile {
 public:
  explicit DirectFile(Descriptor file) : file_(std::move(file)) {}
  bool write(std::string_view text) override {
    return write_all(file_.get(), text);
  }
  bool commit() override { return file_.close(); }

 private:
  Descriptor file_;
};

class ReplacingFile : public OutputFile {
 public:
  ReplacingFile(Descriptor file, std::string temporary, std::string target)
      : file_(std::move(file)),
        temporary_(std::move(temporary)),
        target_(std::move(target)) {
    install_cleanup();
    g_unfinished = temporary_.c_str();
  }
  ReplacingFile(const ReplacingFile&) = delete;
  ReplacingFile& operator=(const ReplacingFile&) = delete;
  ~ReplacingFile() override {
    if (!committed_) ::unlink(temporary_.c_str());
    const char* ours = temporary_.c_str();
    g_unfinished.compare_exchange_strong(ours, nullptr);
  }
  bool write(std::string_view text) override {
    return write_all(file_.get(), text);
  }
  bool commit() override {
    if (!file_.close()) return false;
    committed_ = ::rename(temporary_.c_str(), target_.c_str()) == 0;
    return committed_;
  }

 private:
  Descriptor file_;
  std::string temporary_;
  std::string target_;
  bool committed_ = false;
};

// 1 or 2 when `info` is the file that this stream already goes to.
std::optional<int> stream_of(const struct stat& info) {
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat stream {};
    if (::fstat(fd, &stream) == 0 && stream.st_dev == info.st_dev &&
        stream.st_ino == info.st_ino) {
      return fd;
    }
  }
  return std::nullopt;
}

// 0666 as the umask leaves it.
mode_t new_file_mode() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

std::unique_ptr<OutputFile> replace_file(const std::string& target, mode_t mode,
                                         std::string& why) {
  const std::filesystem::path path(target);
  std::random_device random;
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::array<char, 16> suffix{};
    std::snprintf(suffix.data(), suffix.size(), ".%08x.tmp", random());
    const std::string name = "." + path.filename().string() + suffix.data();
    const std::string temporary = path.parent_path() / name;
    Descriptor file = open_file(temporary, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (!file && errno == EEXIST) continue;
    if (!file || ::fchmod(file.get(), mode) != 0) {
      why = reason(errno);
      if (file) ::unlink(temporary.c_str());
      return nullptr;
    }
    return std::make_unique<ReplacingFile>(std::move(file), temporary, target);
  }
  why = "no free name for a temporary file";
  return nullptr;
}

class RealHost : public Host {
 public:
  RealHost() { std::signal(SIGPIPE, SIG_IGN); }

  std::optional<FileInfo> file_info(const std::string& path) override {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) return std::nullopt;
    const bool regular = S_ISREG(info.st_mode);
    return FileInfo{S_ISDIR(info.st_mode), regular ? info.st_size : 0};
  }

  std::vector<std::string> list_directory(const std::string& path) override {
    std::vector<std::string> names;
    std::error_code error;
    std::filesystem::directory_iterator at(path, error), end;
    for (; !error && at != end; at.increment(error)) {
      names.push_back(at->path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  std::shared_ptr<const Bytes> read_file(const std::string& path, int64_t limit,
                                         std::string& why) override {
    const Descriptor file = open_file(path, O_RDONLY | O_NOCTTY);
    struct stat info {};
    if (!file || ::fstat(file.get(), &info) != 0) {
      why = reason(errno);
      return nullptr;
    }
    if (S_ISDIR(info.st_mode)) {
      why = reason(EISDIR);
      return nullptr;
    }
    if (S_ISREG(info.st_mode)) {
      const int64_t size =
          limit < 0 ? info.st_size : std::min<int64_t>(limit, info.st_size);
      if (size > kMapAbove) {
        auto mapped = map_file(file.get(), static_cast<size_t>(size));
        if (mapped) return mapped;
      }
    }
    // Also files of size 0: those under /proc are not really empty.
    return read_stream(file.get(), limit, why);
  }

  std::shared_ptr<const Bytes> read_stdin(std::string& why) override {
    return read_stream(STDIN_FILENO, kWholeFile, why);
  }

  std::unique_ptr<OutputFile> create_file(const std::string& path,
                                          std::string& why) override {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) {
      if (errno == ENOENT) return replace_file(path, new_file_mode(), why);
      why = reason(errno);
      return nullptr;
    }
    if (const auto stream = stream_of(info)) {
      return direct(Descriptor(::dup(*stream)), why);
    }
    if (!S_ISREG(info.st_mode)) {
      return direct(open_file(path, O_WRONLY | O_NOCTTY), why);
    }
    if (::access(path.c_str(), W_OK) != 0) {
      why = reason(errno);
      return nullptr;
    }
    // The file that a link names is replaced, not the link.
    std::error_code error;
    const auto target = std::filesystem::canonical(path, error);
    return replace_file(error ? path : target.string(), info.st_mode & 07777,
                        why);
  }

  bool append_file(const std::string& path, std::string_view text,
                   std::string& why) override {
    Descriptor file =
        open_file(path, O_WRONLY | O_APPEND | O_CREAT | O_NOCTTY, 0666);
    const bool ok = file && write_all(file.get(), text) && file.close();
    if (!ok) why = reason(errno);
    return ok;
  }

  bool write(Stream stream, std::string_view text) override {
    if (stream == Stream::Err && !text.empty()) note_status(text);
    if (write_all(number(stream), text)) return true;
    if (errno != EPIPE) problems_[number(stream)] = reason(errno);
    return false;
  }
  std::string write_problem(Stream stream) override {
    const auto found = problems_.find(number(stream));
    return found == problems_.end() ? "" : found->second;
  }
  bool is_terminal(Stream stream) override {
    return ::isatty(number(stream)) == 1;
  }
  std::optional<int> terminal_width() override {
    for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
      winsize size{};
      if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        return size.ws_col;
      }
    }
    return std::nullopt;
  }
  std::optional<std::string> environment(const std::string& name) override {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  }
  std::string working_directory() override {
    std::error_code error;
    return std::filesystem::current_path(error).string();
  }
  double now() override {
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double>(since).count();
  }
  int processors() override {
    cpu_set_t allowed;
    if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
    return std::max(1, CPU_COUNT(&allowed));
  }

 private:
  // A text on the terminal that does not end its line is a status line, until
  // it is erased.
  void note_status(std::string_view text) {
    const bool open =
        text.back() != '\n' && text != kEraseLine && is_terminal(Stream::Err);
    if (open && !g_status_line) install_cleanup();
    g_status_line = open;
  }
  static int number(Stream stream) {
    return stream == Stream::Out ? STDOUT_FILENO : STDERR_FILENO;
  }
  static std::unique_ptr<OutputFile> direct(Descriptor file, std::string& why) {
    if (!file) {
      why = reason(errno);
      return nullptr;
    }
    return std::make_unique<DirectFile>(std::move(file));
  }

  std::map<int, std::string> problems_;  // by descriptor
};

}  // namespace

std::unique_ptr<Host> make_real_host() { return std::make_unique<RealHost>(); }

}  // namespace shardplan
