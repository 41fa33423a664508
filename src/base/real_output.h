// SPDX-License-Identifier: Apache-2.0
// What signals do to the process: when one ends it, unfinished files vanish and
// programs that it has started end; a mapped file that becomes shorter reads as
// zeros instead of ending it.
//
// A handler can reach nothing but globals that need no lock, so this is the one
// state that hosts share.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/host.h"

namespace shardplan {

inline constexpr size_t kMostUnfinished = 256;

// While one exists no signal is handled, so that making a file and noting it
// are one step.
class SignalHold {
 public:
  SignalHold();
  ~SignalHold();
  SignalHold(const SignalHold&) = delete;
  SignalHold& operator=(const SignalHold&) = delete;
};

// From now on any signal that ends the program and can be caught removes the
// file. `path` must stay where it is until forget_unfinished(). False when
// kMostUnfinished are noted already.
bool note_unfinished(const char* path);
void forget_unfinished(const char* path);

inline constexpr size_t kMostChildren = 64;

// The same for the program `child` and all of its session, which is ended.
// False when kMostChildren are noted already.
bool note_child(int child);
void forget_child(int child);

inline constexpr std::string_view kEraseLine = "\r\x1b[K";

// The same for a status line on the terminal: it is erased.
void note_status_line(bool open);

// Makes reading [data, data + size), a mapped file, safe: where the file no
// longer has a page, or its disk fails, that and what follows reads as zeros,
// and `shortened` becomes true. False, and nothing is safe, when very many are
// noted already. `shortened` must live until forget_mapping().
bool note_mapping(const void* data, size_t size, std::atomic<bool>* shortened);
void forget_mapping(const void* data);

// SIGPIPE and SIGXFSZ become errors of the write.
void ignore_write_signals();

// Files that are written on the machine we run on; see Host::create_file.

// False, with errno, when not all of it could be written.
bool write_all(int fd, std::string_view text);

// Null, with the reason in `why`, when nothing can be written there.
std::unique_ptr<OutputFile> create_real_file(const std::string& path,
                                             std::string& why);
std::unique_ptr<OutputFile> edit_real_file(const std::string& path,
                                           const std::string& before,
                                           std::string& why);

}  // namespace shardplan
