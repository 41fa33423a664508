// SPDX-License-Identifier: Apache-2.0
// docs/codes/*.md, built into the program for `shardplan explain`.
#pragma once

#include <span>
#include <string_view>

namespace shardplan {

struct CodePage {
  std::string_view path;  // "SP203.md"
  std::string_view text;
};
std::span<const CodePage> code_pages();

}  // namespace shardplan
