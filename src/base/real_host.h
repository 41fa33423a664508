// SPDX-License-Identifier: Apache-2.0
// The machine we run on, as a Host (POSIX).
//
// Files above 64 KiB are mapped; a mapped file must not shrink while the
// program runs. Pipes are read to their end, at most kMaxStream bytes. A file
// is written beside its target under a temporary name that goes away when
// writing fails and on SIGINT, SIGTERM and SIGHUP; permissions of a file that
// is replaced are kept. A target that is a pipe or a device, or the file that
// standard output already goes to, is written directly.
#pragma once

#include <cstdint>
#include <memory>

#include "base/host.h"

namespace shardplan {

inline constexpr int64_t kMaxStream = int64_t{4} << 30;

// Ignores SIGPIPE for the process: a closed pipe is a write() that is false.
std::unique_ptr<Host> make_real_host();

}  // namespace shardplan
