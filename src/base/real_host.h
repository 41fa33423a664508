// SPDX-License-Identifier: Apache-2.0
// The machine we run on, as a Host (POSIX).
//
// Files above 16 MiB are mapped, others read, so that only the large ones can
// change under us; one of those that becomes shorter reads as zeros and is told
// (shortened_file). Pipes that the user named are read to their end, at most
// kMaxStream bytes; other pipes, and devices that may never end, are refused.
//
// A file is written beside its target under a temporary name, which goes away
// when writing fails and on every signal that ends the program and can be
// caught; it is on the disk before it gets its name. Permissions of a file that
// is replaced are kept, its owner where that is allowed. A target that is a
// pipe or a device, or the file that standard output already goes to, is
// written directly; a link is followed, also one that leads nowhere yet.
#pragma once

#include <cstdint>
#include <memory>

#include "base/host.h"

namespace shardplan {

inline constexpr int64_t kMaxStream = int64_t{4} << 30;

// Ignores SIGPIPE and SIGXFSZ for the process: a closed pipe, and a file that
// may not get so large, is a write() that is false.
std::unique_ptr<Host> make_real_host();

}  // namespace shardplan
