// SPDX-License-Identifier: Apache-2.0
#include "report/snippet.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace shardplan {
namespace {

constexpr std::string_view kColon = "\\x3a";
constexpr std::string_view kHash = "\\x23";

// As .NET trims them.
bool is_blank(char32_t c) {
  return c == ' ' || (c >= 0x09 && c <= 0x0D) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

// Behind blanks and the terminal's escapes for colours.
size_t begin_of_words(std::string_view line) {
  size_t at = 0;
  while (at < line.size()) {
    if (line.substr(at).starts_with("\x1b[")) {
      const size_t end = line.find('m', at);
      if (end == std::string_view::npos) return at;
      at = end + 1;
      continue;
    }
    size_t next = at;
    if (!is_blank(decode_utf8(line, next))) return at;
    at = next;
  }
  return at;
}

// One line, with or without its end.
void append_line(std::string& out, std::string_view line) {
  size_t copied = 0;
  const size_t begin = begin_of_words(line);
  if (line.substr(begin).starts_with("::")) {
    out.append(line.substr(0, begin)).append(kColon);
    copied = begin + 1;
  }
  for (size_t open = line.find('['); open != std::string_view::npos;
       open = line.find('[', open + 1)) {
    size_t name = open;
    while (name > copied && is_letter(line[name - 1])) --name;
    if (name < copied + 2 || line[name - 1] != '#' || line[name - 2] != '#') {
      continue;
    }
    out.append(line.substr(copied, name - 1 - copied)).append(kHash);
    copied = name;
  }
  out.append(line.substr(copied));
}

void append_lines(std::string& out, std::string_view lines) {
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size() - 1) + 1;
    append_line(out, lines.substr(0, end));
    lines.remove_prefix(end);
  }
}

}  // namespace

std::string without_commands(std::string_view lines) {
  std::string out;
  out.reserve(lines.size());
  append_lines(out, lines);
  return out;
}

bool LineGuard::write(std::string_view piece) {
  if (refused_) return false;
  const size_t last = piece.rfind('\n');
  if (last == std::string_view::npos) {
    rest_ += piece;
    return true;
  }
  rest_ += piece.substr(0, last + 1);
  refused_ = !sink_(without_commands(rest_));
  rest_ = piece.substr(last + 1);
  return !refused_;
}

bool LineGuard::finish() {
  if (!refused_ && !rest_.empty()) refused_ = !sink_(without_commands(rest_));
  rest_.clear();
  return !refused_;
}

namespace {

// How the character at `at` is shown; `at` moves behind it.
std::string shown_character(std::string_view line, size_t& at) {
  const size_t start = at;
  decode_utf8(line, at);
  return line[start] == '\t' ? std::string(4, ' ')
                             : printable(line.substr(start, at - start));
}

// The start of the character before `at`. REQUIRES: at > 0.
size_t previous(std::string_view line, size_t at) {
  // Longest first: the last byte of a character alone is invalid, so it would
  // pass for a character of one byte.
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

// The window being found: bytes [begin, end), with the columns still free.
struct Window {
  size_t begin = 0;
  size_t end = 0;
  int room = 0;

  // Takes characters in while they fit. Moves `end` up to `limit`.
  void grow_right(std::string_view line, size_t limit) {
    while (end < limit) {
      const int width = width_at(line, end);
      if (width > room) return;
      room -= width;
      shown_character(line, end);
    }
  }
  // Moves `begin` back by at most `most` columns.
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

// The whole line when it fits, else what fits around [begin, end).
Window window_around(std::string_view line, size_t begin, size_t end, int width,
                     const Style& style) {
  Window whole{0, 0, width};
  whole.grow_right(line, line.size());
  if (whole.end == line.size()) return whole;
  const int inner = std::max(1, width - 2 * mark_width(style));
  // A quarter of the room goes to what stands before, or half of what [begin,
  // end) leaves free; what is not needed there goes behind, and back again.
  Window window{begin, begin, inner - inner / 4};
  window.grow_right(line, end);
  const bool all_of_it = window.end >= end;
  window.room += inner / 4;
  window.grow_left(line, all_of_it ? window.room / 2 : inner / 4);
  window.grow_right(line, line.size());
  window.grow_left(line, window.room);
  // Where nothing is left out there is no sign to keep room for.
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

// A window as it is printed, and where the marks are in it.
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
    if (columns.begin < 0) columns.begin = view.width;  // behind the last one
    columns.end = std::max(columns.end, columns.begin + 1);
  }
  if (window.end < line.size()) view.text += glyphs(style).ellipsis;
  return view;
}

// A line of pieces at given columns, left to right.
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

  // The row of carets and dashes. The rightmost text follows it if no other
  // mark reaches that far; the others hang below, from right to left.
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
    return std::all_of(view_.columns.begin(), view_.columns.end(),
                       [&](const Columns& columns) {
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

  // What ties hanging texts to their marks, left of column `before`.
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

}  // namespace shardplan
