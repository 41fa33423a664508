// SPDX-License-Identifier: Apache-2.0

#include "report/diagnostics_text.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "report/output.h"

namespace shardplan {
namespace {

// Returns the displayed form of the character at `at`, and moves `at` past it.
std::string shown_character(std::string_view line, size_t& at) {
  const size_t start = at;
  decode_utf8(line, at);
  return line[start] == '\t' ? std::string(4, ' ')
                             : printable(line.substr(start, at - start));
}

// Returns the start of the character before `at`.
//
// REQUIRES: at > 0.
size_t previous(std::string_view line, size_t at) {
  // The longest length is tried first: the last byte of a character alone is
  // invalid and would count as a character of one byte.
  for (size_t length = std::min<size_t>(4, at); length > 1; --length) {
    size_t next = at - length;
    decode_utf8(line, next);
    if (next == at) return at - length;
  }
  return at - 1;
}

int width_at(std::string_view line, size_t at) {
  return display_width(shown_character(line, at));
}

// The window as it grows: bytes [begin, end), and the columns still free.
struct Window {
  size_t begin = 0;
  size_t end = 0;
  int room = 0;

  // Moves `end` right over characters that fit, at most to `limit`.
  void grow_right(std::string_view line, size_t limit) {
    while (end < limit) {
      const int width = width_at(line, end);
      if (width > room) return;
      room -= width;
      shown_character(line, end);
    }
  }
  // Moves `begin` left by at most `most` columns.
  void grow_left(std::string_view line, int most) {
    most = std::min(most, room);
    while (begin > 0) {
      const size_t before = previous(line, begin);
      const int width = width_at(line, before);
      if (width > most) return;
      most -= width;
      room -= width;
      begin = before;
    }
  }
};

int mark_width(const Style& style) {
  return display_width(glyphs(style).ellipsis);
}

// Returns the whole line if it fits, else the part that fits around [begin,
// end).
Window window_around(std::string_view line, size_t begin, size_t end, int width,
                     const Style& style) {
  Window whole{0, 0, width};
  whole.grow_right(line, line.size());
  if (whole.end == line.size()) return whole;
  const int inner = std::max(1, width - 2 * mark_width(style));
  // A quarter of the room, or half of what [begin, end) leaves free, is for the
  // text before it. Room that one side does not need goes to the other.
  Window window{begin, begin, inner - inner / 4};
  window.grow_right(line, end);
  const bool all_of_it = window.end >= end;
  window.room += inner / 4;
  window.grow_left(line, all_of_it ? window.room / 2 : inner / 4);
  window.grow_right(line, line.size());
  window.grow_left(line, window.room);
  // A side where nothing is omitted needs no room for an ellipsis.
  if (window.begin == 0 || window.end == line.size()) {
    window.room += mark_width(style);
  }
  window.grow_right(line, line.size());
  window.grow_left(line, window.room);
  return window;
}

struct Columns {
  int begin = -1;
  int end = -1;
};

// A window as it is printed, and the columns of the marks in it.
struct View {
  std::string text;
  int width = 0;
  std::vector<Columns> columns;  // per mark
};

View view_of(std::string_view line, const Window& window,
             std::span<const Mark> marks, const Style& style) {
  View view;
  view.columns.resize(marks.size());
  if (window.begin > 0) {
    view.text += glyphs(style).ellipsis;
    view.width += mark_width(style);
  }
  for (size_t at = window.begin; at < window.end;) {
    size_t next = at;
    const std::string character = shown_character(line, next);
    const int after = view.width + display_width(character);
    for (size_t i = 0; i < marks.size(); ++i) {
      Columns& columns = view.columns[i];
      if (marks[i].begin < next && columns.begin < 0)
        columns.begin = view.width;
      if (marks[i].end > at) columns.end = after;
    }
    view.text += character;
    view.width = after;
    at = next;
  }
  for (Columns& columns : view.columns) {
    if (columns.begin < 0) columns.begin = view.width;  // after the end
    columns.end = std::max(columns.end, columns.begin + 1);
  }
  if (window.end < line.size()) view.text += glyphs(style).ellipsis;
  return view;
}

// A line of pieces at given columns, written from left to right.
class Canvas {
 public:
  explicit Canvas(const Style& style) : style_(style) {}
  void put(int column, std::string_view text, Paint paint) {
    if (text.empty()) return;
    text_.append(static_cast<size_t>(std::max(0, column - at_)), ' ');
    text_ += painted(text, paint, style_);
    at_ = std::max(at_, column) + display_width(text);
  }
  const std::string& text() const { return text_; }

 private:
  const Style& style_;
  std::string text_;
  int at_ = 0;
};

class Underlines {
 public:
  Underlines(const View& view, std::span<const Mark> marks, Paint paint,
             const Style& style)
      : view_(view), marks_(marks), paint_(paint), style_(style) {}

  // Returns the row of carets and dashes, and the lines under it. The rightmost
  // text follows the row if no other mark reaches that far; the other texts
  // hang below, from right to left.
  std::vector<std::string> draw() const {
    std::vector<size_t> hanging;
    for (size_t i = 0; i < marks_.size(); ++i) {
      if (!marks_[i].text.empty()) hanging.push_back(i);
    }
    Canvas first(style_);
    put_signs(first);
    const size_t last = marks_.size() - 1;
    if (!hanging.empty() && hanging.back() == last && reaches_furthest(last)) {
      first.put(view_.columns[last].end + 1, text_of(last), paint_of(last));
      hanging.pop_back();
    }
    std::vector<std::string> lines = {first.text()};
    if (!hanging.empty()) lines.push_back(bars(hanging).text());
    while (!hanging.empty()) {
      const size_t mark = hanging.back();
      hanging.pop_back();
      Canvas line = bars(hanging, view_.columns[mark].begin);
      line.put(view_.columns[mark].begin, text_of(mark), paint_of(mark));
      lines.push_back(line.text());
    }
    return lines;
  }

 private:
  Paint paint_of(size_t mark) const {
    return marks_[mark].primary ? paint_ : Paint::Help;
  }
  std::string text_of(size_t mark) const {
    return shown(marks_[mark].text, style_);
  }
  bool reaches_furthest(size_t mark) const {
    return std::ranges::all_of(view_.columns, [&](const Columns& columns) {
      return columns.end <= view_.columns[mark].end;
    });
  }

  void put_signs(Canvas& canvas) const {
    int width = 0;
    for (const Columns& columns : view_.columns) {
      width = std::max(width, columns.end);
    }
    std::string signs(static_cast<size_t>(width), ' ');
    for (const bool primary : {false, true}) {
      for (size_t i = 0; i < marks_.size(); ++i) {
        const auto begin = static_cast<size_t>(view_.columns[i].begin);
        const auto end = static_cast<size_t>(view_.columns[i].end);
        if (marks_[i].primary != primary) continue;
        signs.replace(begin, end - begin, end - begin, primary ? '^' : '-');
      }
    }
    for (size_t at = signs.find_first_not_of(' '); at < signs.size();) {
      const size_t end =
          std::min(signs.find_first_not_of(signs[at], at), signs.size());
      if (signs[at] != ' ') {
        canvas.put(static_cast<int>(at), signs.substr(at, end - at),
                   signs[at] == '^' ? paint_ : Paint::Help);
      }
      at = end;
    }
  }

  // Draws the bars that connect hanging texts to their marks, left of column
  // `before`.
  Canvas bars(const std::vector<size_t>& hanging, int before = 1 << 30) const {
    Canvas line(style_);
    int last = -1;
    for (const size_t mark : hanging) {
      const int column = view_.columns[mark].begin;
      if (column != last && column < before) {
        line.put(column, "|", paint_of(mark));
      }
      last = column;
    }
    return line;
  }

  const View& view_;
  std::span<const Mark> marks_;
  Paint paint_;
  const Style& style_;
};

std::string without_trailing_blanks(std::string text) {
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

}  // namespace

bool fits_window(std::string_view line, size_t begin, size_t end, int width) {
  Window window{begin, begin, width};
  window.grow_right(line, std::min(end, line.size()));
  return window.end >= std::min(end, line.size());
}

std::vector<std::string> draw_snippet(std::string_view line,
                                      std::span<const Mark> marks, int width,
                                      Paint paint, const Style& style) {
  std::vector<Mark> inside(marks.begin(), marks.end());
  size_t end = 0;
  for (Mark& mark : inside) {
    mark.begin = std::min(mark.begin, line.size());
    mark.end = std::clamp(mark.end, mark.begin, line.size());
    end = std::max(end, mark.end);
  }
  const Window window =
      window_around(line, inside.front().begin, end, width, style);
  const View view = view_of(line, window, inside, style);
  std::vector<std::string> lines = {without_trailing_blanks(view.text)};
  for (std::string& under : Underlines(view, inside, paint, style).draw()) {
    lines.push_back(std::move(under));
  }
  return lines;
}

std::string draw_line(std::string_view line, int width, const Style& style) {
  const Window window = window_around(line, 0, 0, width, style);
  return without_trailing_blanks(view_of(line, window, {}, style).text);
}

namespace {

// Number of parameters of a grouped finding that are named.
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

// A label, as a line and bytes of that line.
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
    auto block = std::ranges::find(blocks, file, &Block::file);
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
    std::ranges::stable_sort(block.labels, [](const Placed& a,
                                              const Placed& b) {
      return std::pair(a.line, a.mark.begin) < std::pair(b.line, b.mark.begin);
    });
  }
  return blocks;
}

// Returns "`a`, `b`, `c` and 19 more parameters"; empty if the diagnostic is
// about one parameter, or already names the first one.
std::string parameters_text(const Diagnostic& diagnostic) {
  const std::vector<std::string>& names = diagnostic.parameters;
  if (names.size() < 2) return {};
  // Compares the displayed form: readers do not recognise an escaped name
  // either.
  const auto names_first = [&](const std::string& text) {
    return printable(text).find(names.front()) != std::string::npos;
  };
  if (names_first(diagnostic.message) ||
      std::ranges::any_of(diagnostic.facts, names_first)) {
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

  // Writes "12 | text".
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
      // This is not the `:::` of compilers: the runner of a CI job may execute
      // a line that begins with it.
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

  // Writes what is between two marked lines: the only line between them, or
  // dots.
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

  // Returns how many labels from `first` on are on the same line and near
  // enough to share a window.
  size_t labels_in_one_window(const Block& block, size_t first) const {
    const std::string_view line = block.file->line(block.labels[first].line);
    const bool whole = fits_window(line, 0, line.size(), source_width());
    // Leaves room for an ellipsis on both sides.
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

namespace {

// The first kInFull of consecutive findings with the same code and severity are
// shown in full. The others have one line each if there are at least kFewest.
constexpr size_t kInFull = 3;
constexpr size_t kFewest = 3;

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
  const std::string title = std::string(severity_name(first->severity)) + "[" +
                            code_id(first->code) + "]";
  out += painted(title, paint_of(first->severity), style);
  out +=
      painted(": " + count_text(end - first) +
                  " more like these, shortened (--expand shows them in full)",
              Paint::Bold, style) +
      "\n";
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
    const auto count = static_cast<size_t>(group - at);
    const bool shortens = !style.expand && !prevents_running(at->code) &&
                          count >= kInFull + kFewest;
    const Finding full =
        shortens ? at + static_cast<std::ptrdiff_t>(kInFull) : group;
    for (; at != full && !out.refused(); ++at) {
      if (!is_first) out.buffer() += '\n';
      is_first = false;
      Writer(style, out.buffer()).write(*at);
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
    text += ": " + std::string(severity_name(diagnostic.severity)) + "[" +
            code_id(diagnostic.code) + "] " + printable(diagnostic.message) +
            "\n";
    out.drain();
  }
  return out.finish();
}

}  // namespace shardplan
