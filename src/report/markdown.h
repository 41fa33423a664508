// SPDX-License-Identifier: Apache-2.0
// Text inside Markdown, so that it reads as it is: a name from a file can make
// neither emphasis nor a link, a table cell or HTML.
#pragma once

#include <string>
#include <string_view>

namespace shardplan {

// `text` as a code span; inside a table a pipe needs its escape even there.
std::string markdown_code(std::string_view text, bool in_table);
// Everything that could be Markdown is escaped.
std::string markdown_plain(std::string_view text);
// As markdown_plain, but what stands between backticks is a code span, as the
// messages of diagnostics have it.
std::string markdown_prose(std::string_view text, bool in_table = false);

}  // namespace shardplan
