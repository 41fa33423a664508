// SPDX-License-Identifier: Apache-2.0
// Writes text into Markdown so that it is shown unchanged: a name from a file
// cannot become emphasis, a link, a table cell or HTML. Escapes are not enough
// where a site turns words of a page into links: `www.`, `https://`, `GH-1`,
// `#1`, `@name`, `:name:`, ids of commits.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardplan {

// Returns `text` as a code span. Inside a table, a pipe is escaped even there.
std::string markdown_code(std::string_view text, bool in_table);
// Returns code in HTML, with every special character as an entity.
std::string html_code(std::string_view text);
// Escapes everything that could be Markdown. Words that a site would turn into
// a link, a mention or an emoji become code spans.
std::string markdown_plain(std::string_view text, bool in_table = false);

// A piece of a text that is shown either as code or as plain text.
struct MarkdownWord {
  std::string text;
  bool code = false;
};
std::vector<MarkdownWord> markdown_words(std::string_view text);
// Does the same as markdown_plain, but text between backticks, as in the
// messages of diagnostics, becomes a code span.
std::string markdown_prose(std::string_view text, bool in_table = false);

}  // namespace shardplan
