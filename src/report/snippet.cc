// SPDX-License-Identifier: Apache-2.0
#include "report/snippet.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "base/text.h"

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
struct Canvas {
  const Style& style;
  std::string text = {};
  int at = 0;

  void put(int column, std::string_view more, Paint paint) {
    if (more.empty()) return;
    text += pad("", column - at) + painted(more, paint, style);
    at = std::max(at, column) + display_width(more);
  }
};

// The lines under a window, with carets, dashes and texts.
struct Underlines {
  const View& view;
  std::span<const Mark> marks;
  Paint paint;  // of primary marks
  const Style& style;

  // Returns the row of carets and dashes, and the lines under it. The rightmost
  // text follows the row if no other mark reaches that far; the other texts
  // hang below, from right to left.
  std::vector<std::string> draw() const {
    std::vector<size_t> hanging;
    for (size_t i = 0; i < marks.size(); ++i) {
      if (!marks[i].text.empty()) hanging.push_back(i);
    }
    Canvas first{style};
    put_signs(first);
    const size_t last = marks.size() - 1;
    if (!hanging.empty() && hanging.back() == last && reaches_furthest(last)) {
      first.put(view.columns[last].end + 1, text_of(last), paint_of(last));
      hanging.pop_back();
    }
    std::vector<std::string> lines = {first.text};
    if (!hanging.empty()) lines.push_back(bars(hanging).text);
    while (!hanging.empty()) {
      const size_t mark = hanging.back();
      hanging.pop_back();
      Canvas line = bars(hanging, view.columns[mark].begin);
      line.put(view.columns[mark].begin, text_of(mark), paint_of(mark));
      lines.push_back(std::move(line.text));
    }
    return lines;
  }

  Paint paint_of(size_t mark) const {
    return marks[mark].primary ? paint : Paint::Help;
  }
  std::string text_of(size_t mark) const {
    return shown(marks[mark].text, style);
  }
  bool reaches_furthest(size_t mark) const {
    return std::ranges::all_of(view.columns, [&](const Columns& columns) {
      return columns.end <= view.columns[mark].end;
    });
  }

  void put_signs(Canvas& canvas) const {
    std::string signs;
    for (const bool primary : {false, true}) {
      for (size_t i = 0; i < marks.size(); ++i) {
        if (marks[i].primary != primary) continue;
        const auto [begin, end] = view.columns[i];
        signs.resize(std::max(signs.size(), to_size(end)), ' ');
        std::fill(signs.begin() + begin, signs.begin() + end,
                  primary ? '^' : '-');
      }
    }
    for (size_t at = signs.find_first_not_of(' '); at < signs.size();) {
      const size_t end =
          std::min(signs.find_first_not_of(signs[at], at), signs.size());
      if (signs[at] != ' ') {
        canvas.put(static_cast<int>(at), signs.substr(at, end - at),
                   signs[at] == '^' ? paint : Paint::Help);
      }
      at = end;
    }
  }

  // Draws the bars that connect hanging texts to their marks, left of column
  // `before`.
  Canvas bars(const std::vector<size_t>& hanging, int before = 1 << 30) const {
    Canvas line{style};
    int last = -1;
    for (const size_t mark : hanging) {
      const int column = view.columns[mark].begin;
      if (column != last && column < before) {
        line.put(column, "|", paint_of(mark));
      }
      last = column;
    }
    return line;
  }
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
  for (std::string& under : Underlines{view, inside, paint, style}.draw()) {
    lines.push_back(std::move(under));
  }
  return lines;
}

std::string draw_line(std::string_view line, int width, const Style& style) {
  const Window window = window_around(line, 0, 0, width, style);
  return without_trailing_blanks(view_of(line, window, {}, style).text);
}

}  // namespace shardplan
