// SPDX-License-Identifier: Apache-2.0
#include "base/real_host.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <vector>

#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/checked.h"
#include "base/child_process.h"
#include "base/real_output.h"

namespace shardplan {
namespace {

// Rules, configs and headers are read, so that nobody can change them during
// the run. Weights are mapped, since they may be larger than memory.
constexpr int64_t kMapAbove = int64_t{16} << 20;
constexpr size_t kReadPiece = size_t{64} * 1024;

class MappedBytes : public Bytes {
 public:
  MappedBytes(void* data, size_t size,
              std::shared_ptr<std::atomic<bool>> shortened)
      : data_(data), size_(size), shortened_(std::move(shortened)) {}
  MappedBytes(const MappedBytes&) = delete;
  MappedBytes& operator=(const MappedBytes&) = delete;
  ~MappedBytes() override {
    unregister_mapping(data_);
    ::munmap(data_, size_);
  }
  std::string_view view() const override {
    return {static_cast<const char*>(data_), size_};
  }
  void release_before(uint64_t offset) const override {
    // Rounds down to whole pages of the largest page size.
    constexpr uint64_t kPages = uint64_t{1} << 21U;
    const uint64_t bytes = std::min<uint64_t>(offset, size_) / kPages * kPages;
    if (bytes > 0) ::madvise(data_, bytes, MADV_DONTNEED);
  }

 private:
  void* data_;
  size_t size_;
  std::shared_ptr<std::atomic<bool>> shortened_;
};

// Returns null if the file cannot be mapped; it is then read.
std::shared_ptr<const Bytes> map_file(
    int fd, size_t size, const std::shared_ptr<std::atomic<bool>>& shortened) {
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) return nullptr;
  if (register_mapping(data, size, shortened.get())) {
    return std::make_shared<MappedBytes>(data, size, shortened);
  }
  ::munmap(data, size);
  return nullptr;
}

// Whether reading may block on a stream that has no data yet.
enum class Waiting : uint8_t { Refused, Allowed };

// Reads up to `limit` bytes, or to the end of the stream; `size` is the
// expected number.
std::shared_ptr<const Bytes> read_stream(int fd, int64_t limit, int64_t size,
                                         Waiting waiting, std::string& why) {
  const bool capped = limit == kWholeFile;
  const size_t most = to_size(capped ? kMaxStream + 1 : limit);
  // One more byte detects the end of the file.
  std::string bytes(std::min(most, to_size(size) + 1), '\0');
  size_t used = 0;
  while (used < most) {
    if (used == bytes.size()) {
      bytes.resize(std::min(most, std::max(kReadPiece, used * 2)));
    }
    const ssize_t got = retry(
        [&] { return ::read(fd, bytes.data() + used, bytes.size() - used); });
    if (got < 0 && errno == EAGAIN && waiting == Waiting::Allowed) {
      // Another process made our standard input non-blocking.
      pollfd wait{fd, POLLIN, 0};
      retry([&] { return ::poll(&wait, 1, -1); });
      continue;
    }
    if (got < 0) {
      why = errno == EAGAIN ? "has nothing to read and may never have"
                            : reason(errno);
      return nullptr;
    }
    if (got == 0) break;
    used += to_size(got);
  }
  if (capped && used == most) {
    why = "more than 4 GiB through a pipe";
    return nullptr;
  }
  bytes.resize(used);
  if (bytes.capacity() - used > kReadPiece) bytes.shrink_to_fit();
  return bytes_of(std::move(bytes));
}

// Returns "" if the open file has an end, else why not.
std::string endless_reason(int fd, const struct stat& info, Waiting waiting) {
  if (S_ISFIFO(info.st_mode) && waiting == Waiting::Refused) {
    return "is a pipe; only pipes named on the command line are read";
  }
  const bool device = S_ISCHR(info.st_mode) || S_ISBLK(info.st_mode);
  const bool null = S_ISCHR(info.st_mode) && major(info.st_rdev) == 1 &&
                    minor(info.st_rdev) == 3;
  const bool typed = waiting == Waiting::Allowed && ::isatty(fd) == 1;
  return device && !null && !typed ? "is a device, which may never end" : "";
}

// Prevents a file that we open from becoming a standard stream. A stream that
// was closed stays unusable: reading and writing fail.
void occupy_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    // Opens the lowest free number, which is `fd`.
    ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

class RealHost : public Host {
 public:
  RealHost() {
    occupy_standard_streams();
    ignore_write_signals();
  }

  std::optional<FileInfo> file_info(const std::string& path) override {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) return std::nullopt;
    const bool regular = S_ISREG(info.st_mode);
    return FileInfo{S_ISDIR(info.st_mode), regular ? info.st_size : 0,
                    info.st_uid, static_cast<int64_t>(info.st_dev)};
  }

  std::vector<std::string> list_directory(const std::string& path) override {
    std::vector<std::string> names;
    std::error_code error;
    std::filesystem::directory_iterator at(path, error), end;
    for (; !error && at != end; at.increment(error)) {
      names.push_back(at->path().filename().string());
    }
    std::ranges::sort(names);
    return names;
  }

  std::optional<std::string> real_path(const std::string& path) override {
    std::error_code error;
    const auto real = std::filesystem::canonical(path, error);
    if (error) return std::nullopt;
    return real.string();
  }

  int64_t user() override { return ::geteuid(); }

  void may_wait_for(const std::string& path) override {
    waited_for_.insert(path);
  }

  std::shared_ptr<const Bytes> read_file(const std::string& path, int64_t limit,
                                         std::string& why) override {
    const Waiting waiting =
        waited_for_.contains(path) ? Waiting::Allowed : Waiting::Refused;
    // Neither open() nor read() may block on a path that the user did not name.
    const int wait = waiting == Waiting::Allowed ? 0 : O_NONBLOCK;
    const Descriptor file = open_file(path, O_RDONLY | O_NOCTTY | wait);
    struct stat info {};
    if (!file || ::fstat(file.get(), &info) != 0) {
      why = reason(errno);
      return nullptr;
    }
    if (S_ISDIR(info.st_mode)) {
      why = reason(EISDIR);
      return nullptr;
    }
    why = endless_reason(file.get(), info, waiting);
    if (!why.empty()) return nullptr;
    int64_t size = 0;
    if (S_ISREG(info.st_mode)) {
      read_.emplace(info.st_dev, info.st_ino);
      size = limit < 0 ? info.st_size : std::min<int64_t>(limit, info.st_size);
      if (auto mapped = map_large(path, file.get(), size)) return mapped;
    }
    // Also reads files of size 0: those under /proc are not really empty.
    return read_stream(file.get(), limit, size, waiting, why);
  }

  std::shared_ptr<const Bytes> read_stdin(std::string& why) override {
    struct stat info {};
    if (::fstat(STDIN_FILENO, &info) != 0) {
      why = reason(errno);
      return nullptr;
    }
    why = endless_reason(STDIN_FILENO, info, Waiting::Allowed);
    if (!why.empty()) return nullptr;
    if (S_ISREG(info.st_mode)) read_.emplace(info.st_dev, info.st_ino);
    return read_stream(STDIN_FILENO, kWholeFile, 0, Waiting::Allowed, why);
  }

  bool was_read(const std::string& path) override {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0 &&
           read_.contains({info.st_dev, info.st_ino});
  }

  std::string shortened_file() override {
    for (const auto& [path, shortened] : mapped_) {
      if (*shortened) return path;
    }
    return "";
  }

  std::unique_ptr<OutputFile> create_file(const std::string& path,
                                          std::string& why) override {
    return create_real_file(path, why);
  }
  std::unique_ptr<OutputFile> edit_file(const std::string& path,
                                        const std::string& before,
                                        std::string& why) override {
    return edit_real_file(path, before, why);
  }

  bool append_file(const std::string& path, std::string_view text,
                   std::string& why) override {
    Descriptor file =
        open_file(path, O_WRONLY | O_APPEND | O_CREAT | O_NOCTTY, 0666);
    const bool ok = file && write_all(file.get(), text) && file.close();
    if (!ok) why = reason(errno);
    return ok;
  }

  std::unique_ptr<ChildProcess> start(
      const std::vector<std::string>& command,
      const std::vector<std::pair<std::string, std::string>>& environment,
      std::string& why) override {
    return start_real_program(command, environment, why);
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
  // Returns null if the file is small or cannot be mapped.
  std::shared_ptr<const Bytes> map_large(const std::string& path, int fd,
                                         int64_t size) {
    if (size <= kMapAbove) return nullptr;
    auto shortened = std::make_shared<std::atomic<bool>>(false);
    auto mapped = map_file(fd, to_size(size), shortened);
    if (mapped) mapped_.emplace_back(path, std::move(shortened));
    return mapped;
  }

  // A text on the terminal without a line break at its end is a status line,
  // until it is erased.
  void note_status(std::string_view text) {
    set_status_line(text.back() != '\n' && text != kEraseLine &&
                    is_terminal(Stream::Err));
  }
  static int number(Stream stream) {
    return stream == Stream::Out ? STDOUT_FILENO : STDERR_FILENO;
  }
  std::map<int, std::string> problems_;  // by descriptor
  std::set<std::string> waited_for_;
  std::set<std::pair<dev_t, ino_t>> read_;
  std::vector<std::pair<std::string, std::shared_ptr<std::atomic<bool>>>>
      mapped_;
};

}  // namespace

std::unique_ptr<Host> make_real_host() { return std::make_unique<RealHost>(); }

}  // namespace shardplan
