// SPDX-License-Identifier: Apache-2.0
// Files that are written on the machine we run on; see Host::create_file.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/host.h"

namespace shardplan {

// False, with errno, when not all of it could be written.
bool write_all(int fd, std::string_view text);

// Null, with the reason in `why`, when nothing can be written there.
std::unique_ptr<OutputFile> create_real_file(const std::string& path,
                                             std::string& why);
std::unique_ptr<OutputFile> edit_real_file(const std::string& path,
                                           std::string& why);

}  // namespace shardplan
