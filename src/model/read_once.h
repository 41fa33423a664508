// SPDX-License-Identifier: Apache-2.0
// Once and ReadOnce: run a function once, and cache results by name.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace shardplan {

// Replaces std::call_once for functions that may throw, for example when memory
// runs out: an exception must not pass through the libc frame below
// std::call_once, whose unwinder differs from that of a statically linked
// program. If the function throws, the next caller runs it again.
class Once {
 public:
  template <typename Run>
  void run(const Run& run) {
    if (done_.load(std::memory_order_acquire)) return;
    const std::lock_guard lock(mutex_);
    if (done_.load(std::memory_order_relaxed)) return;
    run();
    done_.store(true, std::memory_order_release);
  }

 private:
  std::mutex mutex_;
  std::atomic<bool> done_ = false;
};

// A cache by name. Invariant: null stands only for a value that is being read;
// a failed read, whether by exception or by null, is repeated on the next
// request.
template <typename T>
class ReadOnce {
 public:
  // `read` returns the shared pointer and may request other names. If it
  // requests its own name, it gets null.
  template <typename Read>
  std::shared_ptr<const T> get(std::string_view name, const Read& read) {
    const auto [place, fresh] = read_.emplace(std::string(name), nullptr);
    if (!fresh) return place->second;
    Attempt attempt{read_, name};
    place->second = read();
    attempt.succeeded = place->second != nullptr;
    return place->second;
  }

 private:
  using Map = std::map<std::string, std::shared_ptr<const T>, std::less<>>;

  // Removes the name again unless it was read successfully.
  struct Attempt {
    Map& read;
    std::string_view name;
    bool succeeded = false;
    ~Attempt() {
      if (!succeeded) read.erase(read.find(name));
    }
  };

  Map read_;
};

}  // namespace shardplan
