// SPDX-License-Identifier: Apache-2.0
// What is read when it is first asked for, and kept.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace shardplan {

// std::call_once for what may throw, as where no memory is left: nothing may be
// thrown through libc's frame under that one, whose unwinder is not the one of
// a statically linked program. What threw is run again by the next caller.
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

// Kept by name. Invariant: null stands only for what is being read; what could
// not be read, by a throw or by null, is read anew when it is asked for again.
template <typename T>
class ReadOnce {
 public:
  // `read` gives the shared pointer, and may ask for others; one that asks for
  // itself is given null.
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

  // Takes the name out again unless it was read.
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
