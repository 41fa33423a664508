// SPDX-License-Identifier: Apache-2.0
// Pages of docs/ that are built into the program.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace shardplan {

struct Page {
  std::string_view path;  // "SP203.md", "formats/rules.md"
  std::string_view text;
};
// The pages of docs/codes, which `shardplan explain` prints.
std::span<const Page> code_pages();
// The other pages, which `shardplan help` prints.
std::span<const Page> help_pages();

namespace cli {
// Returns Markdown as plain text: headings lose their marks and become bold,
// and fences are removed and their contents indented below the title of the
// fence. Other Markdown stays as it is.
std::string plain_page(std::string_view page, bool colour);
}  // namespace cli

}  // namespace shardplan
