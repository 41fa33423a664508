// SPDX-License-Identifier: Apache-2.0
// Helpers for system calls: descriptors that close themselves, retries, and
// errors as text.
#pragma once

#include <cctype>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "base/host.h"

namespace shardplan {

// Returns the text of an errno value: "no such file or directory".
inline std::string reason(int error) {
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
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { close(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  // Returns false if written data could not be stored after all.
  bool close() {
    const int fd = std::exchange(fd_, -1);
    return fd < 0 || ::close(fd) == 0 || errno == EINTR;
  }

 private:
  int fd_;
};

inline Descriptor open_file(const std::string& path, int flags,
                            mode_t mode = 0) {
  return Descriptor(
      retry([&] { return ::open(path.c_str(), flags | O_CLOEXEC, mode); }));
}

// RealHost: the machine that shardplan runs on, as a Host (POSIX).
//
// Files above 16 MiB are mapped and others are read, so only large files can
// change while they are used. A mapped file that becomes shorter reads as zeros
// and is reported (shortened_file). Pipes that the user named are read to their
// end, at most kMaxStream bytes; other pipes, and devices that may never end,
// are rejected.
//
// A file is written next to its target under a temporary name. The temporary
// file is removed if writing fails and on every catchable signal that ends the
// program; its data is on the disk before it gets its final name. A file that
// is replaced retains its permissions and, where permitted, its owner. A target
// that is a pipe or a device, or the file that standard output already goes to,
// is written directly. Links are followed, even if their target does not exist
// yet.

inline constexpr int64_t kMaxStream = int64_t{4} << 30;

// Ignores SIGPIPE and SIGXFSZ for the process, so that a closed pipe or a file
// size limit makes write() return false.
std::unique_ptr<Host> make_real_host();

}  // namespace shardplan
