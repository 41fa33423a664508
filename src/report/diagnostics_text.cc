// SPDX-License-Identifier: Apache-2.0
#include "report/diagnostics_text.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "report/output.h"
#include "report/snippet.h"

namespace shardplan {
namespace {

// Number of parameters of a grouped finding that are named.
constexpr size_t kNamed = 3;
constexpr int kLeastSource = 20;  // columns, however narrow the terminal

Paint paint_of(Severity severity) {
  constexpr Paint kPaints[] = {Paint::Help, Paint::Help, Paint::Warning,
                               Paint::Error};
  return nth(kPaints, severity);
}

// The labels of a diagnostic in one file.
struct Block {
  const SourceFile* file = nullptr;
  Place place;  // of its first label
  std::map<int64_t, std::vector<Mark>> lines = {};
};

std::vector<Block> blocks_of(const Diagnostic& diagnostic) {
  std::vector<Block> blocks;
  const Label* main = main_label(diagnostic);
  for (const Label& label : diagnostic.labels) {
    if (!label.where) continue;
    const SourceFile* file = label.where.file;
    auto block = std::ranges::find(blocks, file, &Block::file);
    const Place place = place_of(label.where);
    if (block == blocks.end()) {
      block = blocks.insert(block, {file, place});
    }
    const auto start = static_cast<uint64_t>(file->line(place.line).data() -
                                             file->text().data());
    block->lines[place.line].push_back({label.where.begin - start,
                                        label.where.end - start, label.text,
                                        &label == main});
  }
  for (Block& block : blocks) {
    for (auto& [line, marks] : block.lines) {
      std::ranges::stable_sort(marks, {}, &Mark::begin);
    }
  }
  return blocks;
}

// Returns "`a`, `b`, `c` and 19 more parameters"; empty if the diagnostic is
// about one parameter, or already names the first one.
std::string parameters_text(const Diagnostic& diagnostic) {
  const std::span<const std::string> names = diagnostic.parameters;
  if (names.size() < 2) return {};
  // Compares the displayed form: readers do not recognise an escaped name
  // either.
  const auto names_first = [&](const std::string& text) {
    return contains(printable(text), names.front());
  };
  if (names_first(diagnostic.message) ||
      std::ranges::any_of(diagnostic.facts, names_first)) {
    return {};
  }
  if (names.size() <= kNamed + 1) return "in " + quoted_names(names);
  return "in " + quoted_names(names.first(kNamed), ", ") + " and " +
         plural(static_cast<int64_t>(names.size() - kNamed), "more parameter");
}

// Returns "error[SP101]".
std::string name_of(const Diagnostic& diagnostic) {
  return std::string(severity_name(diagnostic.severity)) + "[" +
         code_id(diagnostic.code) + "]";
}

void append_title(std::string& out, const Diagnostic& diagnostic,
                  const std::string& title, const Style& style) {
  out += painted(name_of(diagnostic), paint_of(diagnostic.severity), style) +
         painted(": " + title, Paint::Bold, style) + "\n";
}

// Writes one diagnostic.
struct Writer {
  const Style& style;
  std::string& out;
  Paint paint = Paint::Plain;
  int gutter = 1;

  void write(const Diagnostic& diagnostic) {
    paint = paint_of(diagnostic.severity);
    const std::vector<Block> blocks = blocks_of(diagnostic);
    gutter = gutter_width(blocks);
    append_title(out, diagnostic, shown(diagnostic.message, style), style);
    write_blocks(blocks);
    const std::vector<std::string> facts = facts_of(diagnostic);
    if (!blocks.empty() && !(facts.empty() && diagnostic.help.empty())) {
      gutter_line("", "");
    }
    for (const std::string& fact : facts) {
      out += pad("", gutter + 1) + painted("=", Paint::Dim, style) + " " +
             shown(fact, style) + "\n";
    }
    for (const std::string& help : diagnostic.help) {
      out += painted("help", Paint::Help, style) + ": " + shown(help, style) +
             "\n";
    }
  }

  void write_blocks(const std::vector<Block>& blocks) {
    for (size_t i = 0; i < blocks.size(); ++i) write_block(blocks[i], i > 0);
  }

  static int gutter_width(const std::vector<Block>& blocks) {
    int64_t last = 1;
    for (const Block& block : blocks) {
      if (is_flag(*block.file)) continue;
      last = std::max(last, block.lines.rbegin()->first);
    }
    return display_width(std::to_string(last));
  }

  // Writes "12 | text".
  void gutter_line(std::string_view number, std::string_view text) {
    out += painted(pad(number, gutter, true) + " |", Paint::Dim, style);
    if (!text.empty()) out += ' ';
    out += text;
    out += '\n';
  }

  void write_block(const Block& block, bool follows) {
    if (follows) gutter_line("", "");
    if (!is_flag(*block.file)) {
      // This is not the `:::` of compilers: the runner of a CI job may execute
      // a line that begins with it.
      out += pad("", gutter) + painted("--> ", Paint::Dim, style) +
             shown(block.file->name(), style) + ":" +
             std::to_string(block.place.line) + ":" +
             std::to_string(block.place.column) + "\n";
    }
    gutter_line("", "");
    int64_t before = 0;
    for (const auto& [line, marks] : block.lines) {
      for (std::span<const Mark> rest = marks; !rest.empty();) {
        const size_t count = marks_in_one_window(block.file->line(line), rest);
        if (before > 0) write_between(*block.file, before, line);
        write_marked_line(*block.file, line, rest.first(count));
        before = line;
        rest = rest.subspan(count);
      }
    }
  }

  // Writes what is between two marked lines: the only line between them, or
  // dots.
  void write_between(const SourceFile& file, int64_t before, int64_t line) {
    if (line == before + 2) {
      gutter_line(std::to_string(before + 1),
                  draw_line(file.line(before + 1), source_width(), style));
    } else if (line != before + 1) {
      out += painted("...", Paint::Dim, style) + "\n";
    }
  }

  int source_width() const {
    return std::max(kLeastSource, style.width - gutter - 3);
  }

  // Returns how many of the first marks are near enough to share a window.
  size_t marks_in_one_window(std::string_view line,
                             std::span<const Mark> marks) const {
    if (fits_window(line, 0, line.size(), source_width())) return marks.size();
    // Leaves room for an ellipsis on both sides.
    const int width = source_width() - 4;
    const auto end =
        std::find_if(marks.begin() + 1, marks.end(), [&](const Mark& next) {
          return !fits_window(line, marks.front().begin, next.end, width);
        });
    return to_size(end - marks.begin());
  }

  void write_marked_line(const SourceFile& file, int64_t number,
                         std::span<const Mark> marks) {
    const std::vector<std::string> lines =
        draw_snippet(file.line(number), marks, source_width(), paint, style);
    gutter_line(is_flag(file) ? "" : std::to_string(number), lines.front());
    for (size_t i = 1; i < lines.size(); ++i) gutter_line("", lines[i]);
  }
};

// The first kInFull of consecutive findings with the same code and severity are
// shown in full. The others have one line each if there are at least kFewest.
constexpr std::ptrdiff_t kInFull = 3;
constexpr std::ptrdiff_t kFewest = 3;

using Finding = std::deque<Diagnostic>::const_iterator;

Finding end_of_group(Finding first, Finding end) {
  return std::find_if(first, end, [&](const Diagnostic& each) {
    return each.code != first->code || each.severity != first->severity;
  });
}

// Returns "dimension 1 of `w` is not divisible by axis `tp`: 32.0 MiB
// (rules.yaml:3)".
std::string one_line(const Diagnostic& diagnostic) {
  std::string text = diagnostic.message;
  if (diagnostic.bytes > 0) text += ": " + bytes_text(diagnostic.bytes);
  const Label* label = main_label(diagnostic);
  if (label != nullptr && !is_flag(*label->where.file)) {
    text += " (" + label->where.file->name() + ":" +
            std::to_string(place_of(label->where).line) + ")";
  }
  return text;
}

void write_rest(Finding first, Finding end, const Style& style,
                std::string& out) {
  append_title(out, *first,
               count_text(end - first) +
                   " more like these, shortened (--expand shows them in full)",
               style);
  for (; first != end; ++first) {
    out += "  " + painted("=", Paint::Dim, style) + " " +
           shown(one_line(*first), style) + "\n";
  }
}

}  // namespace

bool write_diagnostics(const Diagnostics& diags, const Style& style,
                       const TextSink& sink) {
  Output out(sink);
  const Finding end = diags.all().end();
  Finding at = diags.all().begin();
  bool is_first = true;
  while (at != end && !out.refused()) {
    const Finding group = end_of_group(at, end);
    const bool shortens = !style.expand && !prevents_running(at->code) &&
                          group - at >= kInFull + kFewest;
    const Finding full = shortens ? at + kInFull : group;
    for (; at != full && !out.refused(); ++at) {
      if (!is_first) out.buffer() += '\n';
      is_first = false;
      Writer{style, out.buffer()}.write(*at);
      out.drain();
    }
    if (!shortens) continue;
    out.buffer() += '\n';
    write_rest(full, group, style, out.buffer());
    out.drain();
    at = group;
  }
  return out.finish();
}

std::vector<std::string> facts_of(const Diagnostic& diagnostic) {
  std::vector<std::string> facts = diagnostic.facts;
  for (const Label& label : diagnostic.labels) {
    if (!label.where && !label.text.empty()) facts.push_back(label.text);
  }
  if (std::string text = parameters_text(diagnostic); !text.empty()) {
    facts.push_back(std::move(text));
  }
  return facts;
}

std::string places_text(const Diagnostic& diagnostic, const Style& style) {
  std::string text;
  const std::vector<Block> blocks = blocks_of(diagnostic);
  Writer writer{style, text};
  writer.gutter = Writer::gutter_width(blocks);
  if (!blocks.empty()) writer.write_blocks(blocks);
  return text;
}

std::string message_text(const Diagnostic& diagnostic) {
  std::string text = printable(diagnostic.message);
  for (const std::string& fact : diagnostic.facts) {
    text += "\n= " + printable(fact);
  }
  for (const std::string& help : diagnostic.help) {
    text += "\nhelp: " + printable(help);
  }
  return text;
}

bool write_concise(const Diagnostics& diags, const TextSink& sink) {
  Output out(sink);
  for (const Diagnostic& diagnostic : diags.all()) {
    if (out.refused()) break;
    std::string& text = out.buffer();
    if (const Label* label = main_label(diagnostic)) {
      const Place place = place_of(label->where);
      text += printable(label->where.file->name()) + ":" +
              std::to_string(place.line) + ":" + std::to_string(place.column);
    } else {
      text += "shardplan";
    }
    text +=
        ": " + name_of(diagnostic) + " " + printable(diagnostic.message) + "\n";
    out.drain();
  }
  return out.finish();
}

}  // namespace shardplan
