// SPDX-License-Identifier: Apache-2.0
// The style sheet and the script of HTML reports, which the build embeds.
#pragma once

#include <span>
#include <string_view>

namespace shardplan {

struct PageFile {
  std::string_view path;  // "page.css", "page.js"
  std::string_view text;
};
std::span<const PageFile> page_files();

}  // namespace shardplan
