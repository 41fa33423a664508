// SPDX-License-Identifier: Apache-2.0
// Signal handling of the process: when a signal ends it, unfinished files are
// removed and the programs that it started are killed; a mapped file that
// becomes shorter reads as zeros instead of ending the process.
//
// A signal handler can access only globals that need no lock, so this is the
// only state that hosts share.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/host.h"

namespace shardplan {

inline constexpr size_t kMostUnfinished = 256;

// Blocks all signals during its lifetime, so that creating a file and
// registering it are atomic.
class SignalHold {
 public:
  SignalHold();
  ~SignalHold();
  SignalHold(const SignalHold&) = delete;
  SignalHold& operator=(const SignalHold&) = delete;
};

// Registers a file that every catchable signal that ends the program removes.
// The characters of `path` must stay valid until unregister_unfinished().
// Returns false if kMostUnfinished files are registered already.
bool register_unfinished(const char* path);
void unregister_unfinished(const char* path);

inline constexpr size_t kMostChildren = 64;

// Registers a child program. Every catchable signal that ends this process also
// kills the child and the rest of its session. Returns false if kMostChildren
// are registered already.
bool register_child(int child);
void unregister_child(int child);

inline constexpr std::string_view kEraseLine = "\r\x1b[K";

// Registers a status line on the terminal, which the same signals erase.
void set_status_line(bool open);

// Makes reading [data, data + size), a mapped file, safe: if the file no longer
// has a page, or its disk fails, that page and everything after it read as
// zeros, and `shortened` becomes true. Returns false, and protects nothing, if
// too many mappings are registered. `shortened` must live until
// unregister_mapping().
bool register_mapping(const void* data, size_t size,
                      std::atomic<bool>* shortened);
void unregister_mapping(const void* data);

// Makes writes fail with an error instead of SIGPIPE and SIGXFSZ.
void ignore_write_signals();

// Files written on the real machine; see Host::create_file.

// Returns false, with errno, if not everything could be written.
bool write_all(int fd, std::string_view text);

// Returns null, with the reason in `why`, if nothing can be written there.
std::unique_ptr<OutputFile> create_real_file(const std::string& path,
                                             std::string& why);
std::unique_ptr<OutputFile> edit_real_file(const std::string& path,
                                           const std::string& before,
                                           std::string& why);

}  // namespace shardplan
