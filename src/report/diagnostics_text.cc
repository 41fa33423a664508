// SPDX-License-Identifier: Apache-2.0
#include "report/diagnostics_text.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "report/output.h"
#include "report/report.h"
#include "report/snippet.h"
#include "report/style.h"

namespace shardplan {
namespace {

// Of a grouped finding's parameters, those that are named.
constexpr size_t kNamed = 3;
constexpr int kLeastSource = 20;  // columns, however narrow the terminal

Paint paint_of(Severity severity) {
  switch (severity) {
    case Severity::Error:
      return Paint::Error;
    case Severity::Warning:
      return Paint::Warning;
    default:
      return Paint::Help;
  }
}

// A label with its line, as bytes of that line.
struct Placed {
  int64_t line = 1;
  Mark mark;
};

// The labels of a diagnostic in one file.
struct Block {
  const SourceFile* file = nullptr;
  Place place;  // of its first label
  std::vector<Placed> labels;
};

std::vector<Block> blocks_of(const Diagnostic& diagnostic) {
  std::vector<Block> blocks;
  const Label* main = main_label(diagnostic);
  for (const Label& label : diagnostic.labels) {
    if (!label.where) continue;
    const SourceFile* file = label.where.file;
    auto block =
        std::find_if(blocks.begin(), blocks.end(),
                     [&](const Block& other) { return other.file == file; });
    const Place place = place_of(label.where);
    if (block == blocks.end()) {
      block = blocks.insert(block, {file, place, {}});
    }
    const auto start = static_cast<uint64_t>(file->line(place.line).data() -
                                             file->text().data());
    block->labels.push_back(
        {place.line, Mark{label.where.begin - start, label.where.end - start,
                          label.text, &label == main}});
  }
  for (Block& block : blocks) {
    std::stable_sort(block.labels.begin(), block.labels.end(),
                     [](const Placed& a, const Placed& b) {
                       return std::pair(a.line, a.mark.begin) <
                              std::pair(b.line, b.mark.begin);
                     });
  }
  return blocks;
}

// "`a`, `b`, `c` and 19 more parameters"; empty when the diagnostic is about
// one parameter, or names the first one already.
std::string parameters_text(const Diagnostic& diagnostic) {
  const std::vector<std::string>& names = diagnostic.parameters;
  if (names.size() < 2) return {};
  // As shown: an escaped name in a message is not this one to a reader either.
  const auto names_first = [&](const std::string& text) {
    return printable(text).find(names.front()) != std::string::npos;
  };
  if (names_first(diagnostic.message) ||
      std::any_of(diagnostic.facts.begin(), diagnostic.facts.end(),
                  names_first)) {
    return {};
  }
  const size_t named = names.size() <= kNamed + 1 ? names.size() : kNamed;
  std::string text = "in ";
  for (size_t i = 0; i < named; ++i) {
    if (i > 0) text += i + 1 == names.size() ? " and " : ", ";
    text += "`" + names[i] + "`";
  }
  if (named < names.size()) {
    text += " and " + plural(static_cast<int64_t>(names.size() - named),
                             "more parameter");
  }
  return text;
}

class Writer {
 public:
  Writer(const Style& style, std::string& out) : style_(style), out_(out) {}

  void write(const Diagnostic& diagnostic) {
    paint_ = paint_of(diagnostic.severity);
    const std::vector<Block> blocks = blocks_of(diagnostic);
    gutter_ = gutter_width(blocks);
    write_title(diagnostic);
    for (size_t i = 0; i < blocks.size(); ++i) write_block(blocks[i], i > 0);
    std::vector<std::string> facts = diagnostic.facts;
    for (const Label& label : diagnostic.labels) {
      if (!label.where && !label.text.empty()) facts.push_back(label.text);
    }
    if (std::string text = parameters_text(diagnostic); !text.empty()) {
      facts.push_back(std::move(text));
    }
    if (!blocks.empty() && !(facts.empty() && diagnostic.help.empty())) {
      gutter_line("", "");
    }
    for (const std::string& fact : facts) {
      out_.append(gutter_ + 1, ' ');
      out_ +=
          painted("=", Paint::Dim, style_) + " " + shown(fact, style_) + "\n";
    }
    for (const std::string& help : diagnostic.help) {
      out_ += painted("help", Paint::Help, style_) + ": " +
              shown(help, style_) + "\n";
    }
  }

 private:
  static size_t gutter_width(const std::vector<Block>& blocks) {
    int64_t last = 1;
    for (const Block& block : blocks) {
      if (!is_flag(*block.file))
        last = std::max(last, block.labels.back().line);
    }
    return std::to_string(last).size();
  }

  void write_title(const Diagnostic& diagnostic) {
    out_ += painted(std::string(severity_name(diagnostic.severity)) + "[" +
                        code_id(diagnostic.code) + "]",
                    paint_, style_);
    out_ +=
        painted(": " + shown(diagnostic.message, style_), Paint::Bold, style_) +
        "\n";
  }

  // "12 | text"
  void gutter_line(std::string_view number, std::string_view text) {
    out_ += painted(pad(number, static_cast<int>(gutter_), true) + " |",
                    Paint::Dim, style_);
    if (!text.empty()) out_ += ' ';
    out_ += text;
    out_ += '\n';
  }

  void write_block(const Block& block, bool follows) {
    if (follows) gutter_line("", "");
    if (!is_flag(*block.file)) {
      out_.append(gutter_, ' ');
      // Not the `:::` of compilers: a line that begins so may be a command to
      // the runner of a CI job.
      out_ += painted("--> ", Paint::Dim, style_);
      out_ += shown(block.file->name(), style_) + ":" +
              std::to_string(block.place.line) + ":" +
              std::to_string(block.place.column) + "\n";
    }
    gutter_line("", "");
    int64_t before = 0;
    for (size_t i = 0; i < block.labels.size();) {
      const size_t count = labels_in_one_window(block, i);
      const int64_t line = block.labels[i].line;
      if (i > 0) write_between(*block.file, before, line);
      write_marked_line(block, i, count);
      before = line;
      i += count;
    }
  }

  // What stands between two marked lines: the one line between them, or dots.
  void write_between(const SourceFile& file, int64_t before, int64_t line) {
    if (line == before + 2) {
      gutter_line(std::to_string(before + 1),
                  draw_line(file.line(before + 1), source_width(), style_));
    } else if (line != before + 1) {
      out_ += painted("...", Paint::Dim, style_) + "\n";
    }
  }

  int source_width() const {
    return std::max(kLeastSource, style_.width - static_cast<int>(gutter_) - 3);
  }

  // How many labels from `first` on are on the same line and near enough.
  size_t labels_in_one_window(const Block& block, size_t first) const {
    const std::string_view line = block.file->line(block.labels[first].line);
    const bool whole = fits_window(line, 0, line.size(), source_width());
    // Room for the signs of omission on both sides.
    const int width = source_width() - 4;
    size_t count = 1;
    while (first + count < block.labels.size()) {
      const Placed& next = block.labels[first + count];
      if (next.line != block.labels[first].line) break;
      if (!whole && !fits_window(line, block.labels[first].mark.begin,
                                 next.mark.end, width)) {
        break;
      }
      ++count;
    }
    return count;
  }

  void write_marked_line(const Block& block, size_t first, size_t count) {
    std::vector<Mark> marks;
    for (size_t i = first; i < first + count; ++i) {
      marks.push_back(block.labels[i].mark);
    }
    const int64_t number = block.labels[first].line;
    const std::vector<std::string> lines = draw_snippet(
        block.file->line(number), marks, source_width(), paint_, style_);
    gutter_line(is_flag(*block.file) ? "" : std::to_string(number),
                lines.front());
    for (size_t i = 1; i < lines.size(); ++i) gutter_line("", lines[i]);
  }

  const Style& style_;
  std::string& out_;
  Paint paint_ = Paint::Plain;
  size_t gutter_ = 1;
};

}  // namespace

bool write_diagnostics(const Diagnostics& diags, const Style& style,
                       const TextSink& sink) {
  Output out(sink);
  bool first = true;
  for (const Diagnostic& diagnostic : diags.all()) {
    if (out.refused()) break;
    if (!first) out.buffer() += '\n';
    first = false;
    Writer(style, out.buffer()).write(diagnostic);
    out.drain();
  }
  return out.finish();
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
    text += ": " + std::string(severity_name(diagnostic.severity)) + "[" +
            code_id(diagnostic.code) + "] " + printable(diagnostic.message) +
            "\n";
    out.drain();
  }
  return out.finish();
}

}  // namespace shardplan
