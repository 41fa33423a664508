// SPDX-License-Identifier: Apache-2.0
#include "base/real_output.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <random>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/real_host.h"
#include "base/words.h"

namespace shardplan {
namespace {

std::array<std::atomic<const char*>, kMostUnfinished> g_unfinished{};
std::array<std::atomic<int>, kMostChildren> g_children{};
std::atomic<bool> g_status_line{false};
static_assert(std::atomic<const char*>::is_always_lock_free);
static_assert(std::atomic<bool>::is_always_lock_free);
static_assert(std::atomic<int>::is_always_lock_free);
static_assert(std::atomic<uintptr_t>::is_always_lock_free);

// A mapped file. `begin` is 0 if the entry is free, and 1 while it is filled
// in.
struct Mapping {
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};
  std::atomic<std::atomic<bool>*> shortened{nullptr};
};
std::array<Mapping, 4096> g_mappings{};

uintptr_t page_size() {
  static const auto size = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

void leave_nothing() {
  for (const std::atomic<const char*>& file : g_unfinished) {
    if (const char* path = file.load()) ::unlink(path);
  }
  for (const std::atomic<int>& child : g_children) {
    if (const int leader = child.load()) ::kill(-leader, SIGKILL);
  }
  if (g_status_line.load()) {
    // A failure cannot be handled; the program ends either way.
    [[maybe_unused]] const ssize_t done =
        ::write(STDERR_FILENO, kEraseLine.data(), kEraseLine.size());
  }
}

void clean_up(int signal) {
  leave_nothing();
  ::raise(signal);  // SA_RESETHAND: now has its default effect
}

// Maps pages of zeros from `address` to the end of its file. Returns false if
// the address is not in a mapped file.
bool fill_with_zeros(uintptr_t address) {
  for (Mapping& mapping : g_mappings) {
    const uintptr_t begin = mapping.begin.load();
    const uintptr_t end = mapping.end.load();
    if (begin <= 1 || address < begin || address >= end) continue;
    const uintptr_t page = address - address % page_size();
    void* filled = ::mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (filled == MAP_FAILED) return false;
    std::atomic<bool>* shortened = mapping.shortened.load();
    if (shortened != nullptr) shortened->store(true);
    return true;
  }
  return false;
}

struct sigaction g_bus_before {};

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const bool sent = info->si_code <= 0;  // by a process, without address
  if (!sent && fill_with_zeros(reinterpret_cast<uintptr_t>(info->si_addr))) {
    errno = error;
    return;
  }
  if ((g_bus_before.sa_flags & SA_SIGINFO) != 0) {
    g_bus_before.sa_sigaction(signal, info, context);
    return;
  }
  // On return the failed access is repeated, and then ends the program.
  leave_nothing();
  ::signal(signal, SIG_DFL);
  if (sent) ::raise(signal);
}

bool ends_the_program(int signal) {
  constexpr std::array<int, 9> kOthers = {SIGKILL, SIGSTOP, SIGTSTP,
                                          SIGTTIN, SIGTTOU, SIGCHLD,
                                          SIGCONT, SIGURG,  SIGWINCH};
  return !contains(kOthers, signal);
}

// The handler needs its own stack: one that overflowed has no room for it.
void make_stack() {
  static std::array<char, 64 * 1024> room{};
  stack_t before{};
  if (::sigaltstack(nullptr, &before) != 0) return;
  if ((before.ss_flags & SS_DISABLE) == 0) return;
  stack_t ours{};
  ours.ss_sp = room.data();
  ours.ss_size = room.size();
  ::sigaltstack(&ours, nullptr);
}

void install_clean_up() {
  make_stack();
  struct sigaction ours {};
  ours.sa_handler = clean_up;
  ours.sa_flags = static_cast<int>(SA_RESETHAND) | SA_ONSTACK;
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    struct sigaction before {};
    // Leaves ignored signals (nohup) and handlers of others unchanged.
    if (ends_the_program(signal) &&
        ::sigaction(signal, nullptr, &before) == 0 &&
        (before.sa_flags & SA_SIGINFO) == 0 && before.sa_handler == SIG_DFL) {
      ::sigaction(signal, &ours, nullptr);
    }
  }
}

void install_bus_handler() {
  struct sigaction before {};
  if (::sigaction(SIGBUS, nullptr, &before) != 0) return;
  if ((before.sa_flags & SA_SIGINFO) != 0 &&
      before.sa_sigaction == on_bus_error) {
    return;
  }
  g_bus_before = before;
  struct sigaction ours {};
  ours.sa_sigaction = on_bus_error;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigaction(SIGBUS, &ours, nullptr);
}

// Replaces one of the places that has the value `from`. Returns false if none
// has. Signal handlers read the places at any time.
template <typename Value, typename Places>
bool exchange_first(Places& places, Value from, Value to) {
  return std::ranges::any_of(places, [&](auto& place) {
    Value expected = from;
    return place.compare_exchange_strong(expected, to);
  });
}

// Per thread: the signal mask before the first hold, and the number of holds.
thread_local sigset_t t_before{};
thread_local int t_holds = 0;

// A target that is written in place: a pipe, a device, or the destination of
// stdout or stderr.
class DirectFile : public OutputFile {
 public:
  explicit DirectFile(Descriptor file) : file_(std::move(file)) {}
  bool write(std::string_view text) override {
    return noted(write_all(file_.get(), text));
  }
  bool commit() override { return noted(file_.close()); }
  std::string problem() const override { return problem_; }

 private:
  bool noted(bool fine) {
    if (!fine) problem_ = reason(errno);
    return fine;
  }

  Descriptor file_;
  std::string problem_;
};

constexpr const char* kHardLinks =
    "it has other hard links, which would keep the old content";

// Returns false if written data did not reach the disk. File systems that do
// not support fsync count as success.
bool synchronise(int fd) {
  return retry([&] { return ::fsync(fd); }) == 0 || errno == EINVAL ||
         errno == ENOSYS || errno == EROFS;
}

// Returns whether the text is the whole content of the file.
bool holds(int fd, std::string_view text) {
  struct stat info {};
  if (::fstat(fd, &info) != 0 ||
      info.st_size != static_cast<off_t>(text.size())) {
    return false;
  }
  std::array<char, 64 * 1024> piece{};
  for (size_t at = 0; at < text.size();) {
    const ssize_t got = retry([&] {
      return ::pread(fd, piece.data(), piece.size(), static_cast<off_t>(at));
    });
    if (got <= 0) return false;
    const std::string_view read(piece.data(), to_size(got));
    if (text.substr(at, read.size()) != read) return false;
    at += read.size();
  }
  return true;
}

// Holds a lease on a file: while it is held, a process that opens the file for
// writing blocks and is detected. Not all file systems support leases, and the
// file must belong to our user.
class WriteWatch {
 public:
  explicit WriteWatch(int fd) : fd_(fd) {
    // The kernel also sends a signal, which would end this process.
    ignored_.sa_handler = SIG_IGN;
    ::sigaction(SIGIO, &ignored_, &before_);
    held_ = ::fcntl(fd_, F_SETLEASE, F_RDLCK) == 0;
    written_ = !held_ && errno == EAGAIN;
  }
  WriteWatch(const WriteWatch&) = delete;
  WriteWatch& operator=(const WriteWatch&) = delete;
  ~WriteWatch() {
    if (held_) ::fcntl(fd_, F_SETLEASE, F_UNLCK);
    // Discards a signal that is pending because signals were held.
    ::sigaction(SIGIO, &ignored_, nullptr);
    ::sigaction(SIGIO, &before_, nullptr);
  }
  // Returns whether a process has the file open for writing or waits to open
  // it.
  bool sees_a_writer() const {
    return written_ || (held_ && ::fcntl(fd_, F_GETLEASE) == F_UNLCK);
  }

 private:
  int fd_;
  bool held_ = false;
  bool written_ = false;
  struct sigaction ignored_ {};
  struct sigaction before_ {};
};

// Exchanges two names atomically. Returns false, with errno, on failure.
bool swap_names(const std::string& a, const std::string& b) {
  return ::syscall(SYS_renameat2, AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(),
                   RENAME_EXCHANGE) == 0;
}

// A temporary file that replaces its target on commit().
class ReplacingFile : public OutputFile {
 public:
  // With `before`, it only replaces a file that has that text.
  ReplacingFile(std::string temporary, std::string target,
                std::optional<std::string> before)
      : temporary_(std::move(temporary)),
        target_(std::move(target)),
        before_(std::move(before)) {}
  ReplacingFile(const ReplacingFile&) = delete;
  ReplacingFile& operator=(const ReplacingFile&) = delete;
  ~ReplacingFile() override {
    if (made_ && !committed_) ::unlink(temporary_.c_str());
    unregister_unfinished(temporary_.c_str());
  }
  // Creates and registers the temporary file. Returns false, with errno, if it
  // exists already or cannot be created.
  bool make() {
    const SignalHold hold;
    file_ = open_file(temporary_, O_WRONLY | O_CREAT | O_EXCL, 0600);
    made_ = static_cast<bool>(file_);
    if (made_ && !register_unfinished(temporary_.c_str())) {
      errno = EMFILE;
      return false;
    }
    return made_;
  }
  int descriptor() const { return file_.get(); }

  bool write(std::string_view text) override {
    size_ += static_cast<off_t>(text.size());
    return noted(write_all(file_.get(), text));
  }
  bool commit() override {
    if (!noted(synchronise(file_.get()) && file_.close())) return false;
    if (before_) {
      committed_ = replace_unchanged();
    } else {
      committed_ = noted(::rename(temporary_.c_str(), target_.c_str()) == 0);
    }
    if (!committed_) return false;
    // Also flushes the new name; the file is complete whether or not that
    // works.
    const std::string folder = std::filesystem::path(target_).parent_path();
    const Descriptor opened =
        open_file(folder.empty() ? "." : folder, O_RDONLY | O_DIRECTORY);
    if (opened) synchronise(opened.get());
    return true;
  }
  std::string problem() const override { return problem_; }

 private:
  bool noted(bool fine) {
    if (!fine) problem_ = reason(errno);
    return fine;
  }

  bool has_changed() {
    problem_ = "it has changed since it was read";
    return false;
  }

  // Replaces the target without losing what others wrote since it was read. The
  // two files exchange names, so the old one is checked when nobody can open it
  // by name any more; if it has changed, the names are exchanged back. The
  // remaining risk is a process that opened the old file before and writes
  // after the last check. On file systems with leases it is detected, except
  // while it is between looking up the name and opening the file.
  bool replace_unchanged() {
    const SignalHold hold;
    const Descriptor old = open_file(target_, O_RDONLY | O_NOCTTY | O_NONBLOCK);
    struct stat info {};
    if (!noted(old && ::fstat(old.get(), &info) == 0)) return false;
    const WriteWatch watch(old.get());
    if (watch.sees_a_writer()) {
      problem_ = "another program has it open for writing";
      return false;
    }
    if (!holds(old.get(), *before_)) return has_changed();
    if (info.st_nlink > 1) {
      problem_ = kHardLinks;
      return false;
    }
    if (!swap_names(temporary_, target_)) {
      const bool unknown =
          errno == EINVAL || errno == ENOSYS || errno == ENOTSUP;
      return noted(unknown &&
                   ::rename(temporary_.c_str(), target_.c_str()) == 0);
    }
    struct stat there {};
    const bool is_it = ::stat(temporary_.c_str(), &there) == 0 &&
                       there.st_dev == info.st_dev &&
                       there.st_ino == info.st_ino;
    if (is_it && !watch.sees_a_writer() && holds(old.get(), *before_)) {
      ::unlink(temporary_.c_str());
      return true;
    }
    if (!noted(swap_names(temporary_, target_))) {
      // The file now under the temporary name belongs to someone else; it must
      // stay.
      made_ = false;
      problem_ += "; its old content is in `" + temporary_ + "`";
      return false;
    }
    if (::stat(temporary_.c_str(), &there) == 0 && there.st_size != size_) {
      // Another process wrote to the new file in between.
      made_ = false;
      has_changed();
      problem_ += "; what was written meanwhile is in `" + temporary_ + "`";
      return false;
    }
    return has_changed();
  }

  Descriptor file_{-1};
  std::string temporary_;
  std::string target_;
  std::optional<std::string> before_;
  off_t size_ = 0;  // bytes written
  std::string problem_;
  bool made_ = false;
  bool committed_ = false;
};

// Returns the stream, 1 or 2, that already goes to the file `info`.
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

// Returns 0666 as restricted by the umask.
mode_t new_file_mode() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

// Returns the final target of a link, even if it does not exist yet.
std::string end_of_links(std::string path) {
  std::error_code error;
  for (int links = 0; links < 40; ++links) {
    const auto target = std::filesystem::read_symlink(path, error);
    if (error) return path;
    path = std::filesystem::path(path).parent_path() / target;
  }
  return path;
}

// The attributes that a replacement inherits from the old file.
struct FileAttributes {
  mode_t mode = 0;
  struct stat before {};  // attributes of the old file
  std::string path = {};  // the old file; "" for none
  bool required = false;  // failure is an error; else best effort
};

// The access list also determines who may read the file.
bool copy_access_list(const std::string& from, int to) {
  constexpr const char* kName = "system.posix_acl_access";
  std::array<char, 4096> list{};
  const ssize_t size =
      ::getxattr(from.c_str(), kName, list.data(), list.size());
  if (size < 0) return errno == ENODATA || errno == ENOTSUP;
  return ::fsetxattr(to, kName, list.data(), to_size(size), 0) == 0;
}

// Returns false, with errno, if a required attribute cannot be set.
bool copy_attributes(const FileAttributes& attributes, int fd) {
  struct stat now {};
  if (attributes.path.empty()) return ::fchmod(fd, attributes.mode) == 0;
  if (::fstat(fd, &now) != 0) return false;
  if ((now.st_uid != attributes.before.st_uid ||
       now.st_gid != attributes.before.st_gid) &&
      ::fchown(fd, attributes.before.st_uid, attributes.before.st_gid) != 0 &&
      attributes.required) {
    return false;
  }
  // The mode is set after the owner, because changing the owner clears bits.
  if (::fchmod(fd, attributes.mode) != 0) return false;
  return copy_access_list(attributes.path, fd) || !attributes.required;
}

std::unique_ptr<OutputFile> replace_file(
    const std::string& target, const FileAttributes& attributes,
    const std::optional<std::string>& before, std::string& why) {
  const std::filesystem::path path(target);
  std::random_device random;
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::array<char, 16> suffix{};
    std::snprintf(suffix.data(), suffix.size(), ".%08x.tmp", random());
    const std::string name = "." + path.filename().string() + suffix.data();
    auto file = std::make_unique<ReplacingFile>(path.parent_path() / name,
                                                target, before);
    if (!file->make()) {
      if (errno == EEXIST) continue;
      why = reason(errno);
      return nullptr;
    }
    if (!copy_attributes(attributes, file->descriptor())) {
      why = (attributes.required ? "its owner and mode cannot be preserved: "
                                 : "") +
            reason(errno);
      return nullptr;
    }
    return file;
  }
  why = "no free name for a temporary file";
  return nullptr;
}

std::unique_ptr<OutputFile> direct(Descriptor file, std::string& why) {
  if (!file) {
    why = reason(errno);
    return nullptr;
  }
  return std::make_unique<DirectFile>(std::move(file));
}

// Follows a link whose target does not exist yet, and creates the target.
std::unique_ptr<OutputFile> new_file(const std::string& path,
                                     std::string& why) {
  const std::string target = end_of_links(path);
  auto file = replace_file(target, FileAttributes{new_file_mode()}, {}, why);
  if (!file && target != path) why += " (it is a link to `" + target + "`)";
  return file;
}

// With `before` the file is edited, and all its attributes are preserved.
std::unique_ptr<OutputFile> replace_existing(
    const std::string& path, const struct stat& info,
    const std::optional<std::string>& before, std::string& why) {
  if (info.st_nlink > 1) {
    why = kHardLinks;
    return nullptr;
  }
  if (::access(path.c_str(), W_OK) != 0) {
    why = reason(errno);
    return nullptr;
  }
  // Replaces the file that a link points to, not the link.
  std::error_code error;
  const auto real = std::filesystem::canonical(path, error);
  const std::string target = error ? path : real.string();
  return replace_file(
      target,
      FileAttributes{info.st_mode & 07777, info, target, before.has_value()},
      before, why);
}

}  // namespace

SignalHold::SignalHold() {
  if (t_holds++ > 0) return;
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &t_before);
}

SignalHold::~SignalHold() {
  if (--t_holds == 0) ::pthread_sigmask(SIG_SETMASK, &t_before, nullptr);
}

bool register_unfinished(const char* path) {
  install_clean_up();
  return exchange_first<const char*>(g_unfinished, nullptr, path);
}

void unregister_unfinished(const char* path) {
  exchange_first<const char*>(g_unfinished, path, nullptr);
}

bool register_child(int child) {
  install_clean_up();
  return exchange_first(g_children, 0, child);
}

void unregister_child(int child) { exchange_first(g_children, child, 0); }

void set_status_line(bool open) {
  if (open && !g_status_line) install_clean_up();
  g_status_line = open;
}

bool register_mapping(const void* data, size_t size,
                      std::atomic<bool>* shortened) {
  install_bus_handler();
  const auto begin = reinterpret_cast<uintptr_t>(data);
  const uintptr_t pages = (size + page_size() - 1) / page_size();
  for (Mapping& mapping : g_mappings) {
    uintptr_t none = 0;
    if (!mapping.begin.compare_exchange_strong(none, 1)) continue;
    mapping.shortened = shortened;
    mapping.end = begin + pages * page_size();
    mapping.begin = begin;
    return true;
  }
  return false;
}

void unregister_mapping(const void* data) {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  for (Mapping& mapping : g_mappings) {
    if (mapping.begin.load() != begin) continue;
    mapping.end = 0;
    mapping.shortened = nullptr;
    mapping.begin = 0;
    return;
  }
}

void ignore_write_signals() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t done =
        retry([&] { return ::write(fd, text.data(), text.size()); });
    if (done >= 0) {
      text.remove_prefix(to_size(done));
    } else if (errno == EAGAIN) {
      // Another process made our standard output non-blocking.
      pollfd wait{fd, POLLOUT, 0};
      retry([&] { return ::poll(&wait, 1, -1); });
    } else {
      return false;
    }
  }
  return true;
}

std::unique_ptr<OutputFile> create_real_file(const std::string& path,
                                             std::string& why) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return new_file(path, why);
    why = reason(errno);
    return nullptr;
  }
  if (const auto stream = stream_of(info)) {
    return direct(Descriptor(::fcntl(*stream, F_DUPFD_CLOEXEC, 0)), why);
  }
  if (!S_ISREG(info.st_mode)) {
    return direct(open_file(path, O_WRONLY | O_NOCTTY), why);
  }
  return replace_existing(path, info, {}, why);
}

std::unique_ptr<OutputFile> edit_real_file(const std::string& path,
                                           const std::string& before,
                                           std::string& why) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    why = reason(errno);
    return nullptr;
  }
  if (!S_ISREG(info.st_mode)) {
    why = "is not a file";
    return nullptr;
  }
  return replace_existing(path, info, before, why);
}

}  // namespace shardplan
