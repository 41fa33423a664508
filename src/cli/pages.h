// SPDX-License-Identifier: Apache-2.0
// Pages of docs/, built into the program.
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
// Markdown as plain text: headings lose their marks and are bold, fences go
// and what they held is indented below its title. The rest reads well as it
// stands.
std::string plain_page(std::string_view page, bool colour);
}  // namespace cli

}  // namespace shardplan
