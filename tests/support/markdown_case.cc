// SPDX-License-Identifier: Apache-2.0
#include "tests/support/markdown_case.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/allocation.h"

namespace shardplan::testing {
namespace {

using Lines = std::vector<std::string>;

Lines split_lines(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string join_lines(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

void drop_blank_end(Lines& lines) {
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
}

bool starts_with(std::string_view text, std::string_view head) {
  return text.substr(0, head.size()) == head;
}

// "\x1b" as `␛`, so that pages stay text.
std::string visible(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\x1b') {
      result += "␛";
    } else {
      result += c;
    }
  }
  return result;
}

// What follows the backticks that open a block.
struct Block {
  std::string language;
  std::optional<std::string> title;
  std::string columns = "100";
  bool norun = false;
  bool colour = false;
  bool ascii = false;
  std::optional<std::string> unknown;
};

// A misspelt `console` would run nothing.
constexpr std::array<std::string_view, 8> kLanguages = {
    "", "console", "json", "markdown", "mlir", "python", "text", "yaml"};

bool is_language(std::string_view name) {
  return std::find(kLanguages.begin(), kLanguages.end(), name) !=
         kLanguages.end();
}

Block read_block(std::string_view info) {
  Block block;
  Lines words = shell_words(info);
  if (words.empty()) return block;
  block.language = words[0];
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (starts_with(word, "title=")) {
      block.title = word.substr(6);
    } else if (starts_with(word, "width=")) {
      block.columns = word.substr(6);
    } else if (word == "norun") {
      block.norun = true;
    } else if (word == "slow") {
      block.norun = block.norun || !kCountsAllocations;
    } else if (word == "colour") {
      block.colour = true;
    } else if (word == "ascii") {
      block.ascii = true;
    } else {
      block.unknown = word;
    }
  }
  return block;
}

class Runner {
 public:
  Runner(std::string_view page, MemoryHost& host, const ProgramRun& program)
      : lines_(split_lines(page)), host_(host), program_(program) {}

  MarkdownRun run() {
    while (at_ < lines_.size()) {
      const std::string& line = lines_[at_];
      const size_t indent = std::min(line.find_first_not_of(' '), line.size());
      const std::string_view text = std::string_view(line).substr(indent);
      if (!starts_with(text, "```")) {
        copy();
        continue;
      }
      const size_t ticks = text.find_first_not_of('`');
      const std::string fence(text.substr(0, ticks));
      if (indent > 0 && starts_with(text.substr(fence.size()), "console")) {
        fail(at_, "a console block must not be indented");
      }
      fenced_block(std::string(indent, ' ') + fence, text.substr(fence.size()));
    }
    result_.corrected = join_lines(corrected_);
    return std::move(result_);
  }

 private:
  void fail(size_t line, std::string what) {
    result_.failures.push_back({line + 1, std::move(what)});
  }
  void copy() { corrected_.push_back(lines_[at_++]); }

  void fenced_block(const std::string& fence, std::string_view info) {
    const size_t begin = at_ + 1;
    size_t end = begin;
    while (end < lines_.size() && lines_[end] != fence) ++end;
    const Block block = read_block(info);
    if (end == lines_.size()) fail(at_, "a block without an end");
    if (!is_language(block.language)) {
      fail(at_, "unknown language `" + block.language + "`");
    }
    const bool quotes_page = fence.ends_with("````");
    if (block.language != "console" && !quotes_page &&
        shows_command(begin, end)) {
      fail(at_, "commands are run in a console block only");
    }
    if (block.unknown && block.language == "console") {
      fail(at_, "unknown word `" + *block.unknown + "`");
    }
    if (block.title) {
      host_.files[*block.title] =
          join_lines({lines_.begin() + static_cast<std::ptrdiff_t>(begin),
                      lines_.begin() + static_cast<std::ptrdiff_t>(end)});
    }
    copy();  // the fence
    const bool runs = block.language == "console" && !block.norun;
    while (runs && at_ < end) command(block, end);
    while (at_ < end) copy();
    if (at_ < lines_.size()) copy();
  }

  bool shows_command(size_t begin, size_t end) const {
    return std::any_of(lines_.begin() + static_cast<std::ptrdiff_t>(begin),
                       lines_.begin() + static_cast<std::ptrdiff_t>(end),
                       [](const std::string& line) {
                         return starts_with(line, "$ shardplan");
                       });
  }

  // One command and what is expected of it; other lines are copied.
  void command(const Block& block, size_t end) {
    const size_t line = at_;
    if (!starts_with(lines_[at_], "$ ")) return copy();
    std::string text = lines_[at_].substr(2);
    copy();
    while (!text.empty() && text.back() == '\\' && at_ < end) {
      text.pop_back();
      text += lines_[at_];
      copy();
    }
    Lines expected;
    while (at_ < end && !starts_with(lines_[at_], "$ ")) {
      expected.push_back(lines_[at_++]);
    }
    const std::optional<Lines> output = execute(text, block, line);
    if (output && !lines_match(expected, *output)) {
      fail(line, "$ " + text + "\n--- expected\n" + join_lines(expected) +
                     "--- got\n" + join_lines(*output));
      const bool blank_end = !expected.empty() && expected.back().empty();
      expected = *output;
      if (blank_end) expected.emplace_back();
    }
    corrected_.insert(corrected_.end(), expected.begin(), expected.end());
  }

  // What a terminal would show; empty for commands that are not run.
  std::optional<Lines> execute(const std::string& text, const Block& block,
                               size_t line) {
    Lines words = shell_words(text);
    const auto before = host_.variables;
    host_.variables["LANG"] = block.ascii ? "C" : "C.UTF-8";
    host_.variables["COLUMNS"] = block.columns;
    if (block.colour) host_.variables["CLICOLOR_FORCE"] = "1";
    size_t first = 0;
    while (first < words.size() && words[first].find('=') != words[0].npos &&
           words[first][0] != '-') {
      const size_t equals = words[first].find('=');
      host_.variables[words[first].substr(0, equals)] =
          words[first].substr(equals + 1);
      ++first;
    }
    std::optional<Lines> output;
    if (first < words.size() && words[first] == "shardplan") {
      words.erase(words.begin(),
                  words.begin() + static_cast<std::ptrdiff_t>(first) + 1);
      output = run_program(std::move(words), line);
    }
    host_.variables = before;
    return output;
  }

  Lines run_program(Lines arguments, size_t line) {
    if (arguments.size() >= 2 && arguments[arguments.size() - 2] == "<") {
      std::string why;
      const auto input = host_.read_file(arguments.back(), kWholeFile, why);
      if (!input) fail(line, arguments.back() + ": " + why);
      if (input) host_.input = input->view();
      arguments.resize(arguments.size() - 2);
    }
    host_.out.clear();
    host_.err.clear();
    const int code = program_(arguments, host_);
    ++result_.commands;
    if (!host_.out.empty() && host_.out.back() != '\n') host_.out += '\n';
    Lines output = split_lines(visible(host_.out + host_.err));
    drop_blank_end(output);
    if (code != 0) output.push_back("[exit " + std::to_string(code) + "]");
    result_.output += join_lines(output);
    return output;
  }

  Lines lines_;
  MemoryHost& host_;
  const ProgramRun& program_;
  size_t at_ = 0;
  Lines corrected_;
  MarkdownRun result_;
};

}  // namespace

MarkdownRun run_markdown(std::string_view page, MemoryHost& host,
                         const ProgramRun& program) {
  return Runner(page, host, program).run();
}

bool lines_match(const std::vector<std::string>& expected,
                 const std::vector<std::string>& lines) {
  Lines pattern = expected;
  drop_blank_end(pattern);
  // matched[j]: the pattern so far stands for the first j lines.
  std::vector<bool> matched(lines.size() + 1, false);
  matched[0] = true;
  for (const std::string& want : pattern) {
    std::vector<bool> next(lines.size() + 1, false);
    for (size_t j = 0; j <= lines.size(); ++j) {
      if (want == "...") {
        next[j] = matched[j] || (j > 0 && next[j - 1]);
      } else {
        next[j] = j > 0 && matched[j - 1] && lines[j - 1] == want;
      }
    }
    matched = std::move(next);
  }
  return matched.back();
}

std::vector<std::string> shell_words(std::string_view command) {
  std::vector<std::string> words;
  std::optional<std::string> word;
  char quote = 0;
  for (size_t i = 0; i < command.size(); ++i) {
    const char c = command[i];
    if (quote != 0 && c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
      if (!word) word.emplace();
    } else if (quote == 0 && (c == ' ' || c == '\t')) {
      if (word) words.push_back(*std::exchange(word, std::nullopt));
    } else {
      const bool escape = c == '\\' && quote != '\'' && i + 1 < command.size();
      if (!word) word.emplace();
      *word += escape ? command[++i] : c;
    }
  }
  if (word) words.push_back(*word);
  return words;
}

}  // namespace shardplan::testing
