// SPDX-License-Identifier: Apache-2.0
// What every use of the system's calls needs: descriptors that are closed,
// calls that are tried again, errors as words.
#pragma once

#include <cctype>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace shardplan {

// "no such file or directory"
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
  // False when what was written could not be kept after all.
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

}  // namespace shardplan
