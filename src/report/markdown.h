// SPDX-License-Identifier: Apache-2.0
// Text inside Markdown, so that it reads as it is: a name from a file can make
// neither emphasis nor a link, a table cell or HTML. Escapes are not enough
// where a site looks for links in what a page says: `www.`, `https://`, `GH-1`,
// `#1`, `@name`, `:name:`, ids of commits.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardplan {

// `text` as a code span; inside a table a pipe needs its escape even there.
std::string markdown_code(std::string_view text, bool in_table);
// Code in HTML, with everything that means something as an entity.
std::string html_code(std::string_view text);
// Everything that could be Markdown is escaped, and words that a site would
// make a link, a mention or an emoji of are spans of code.
std::string markdown_plain(std::string_view text, bool in_table = false);

// A text in pieces: those that are shown as code, and the rest.
struct MarkdownWord {
  std::string text;
  bool code = false;
};
std::vector<MarkdownWord> markdown_words(std::string_view text);
// As markdown_plain, but what stands between backticks is a code span, as the
// messages of diagnostics have it.
std::string markdown_prose(std::string_view text, bool in_table = false);

}  // namespace shardplan
