// SPDX-License-Identifier: Apache-2.0
#include "base/source.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/checked.h"

namespace shardplan {
namespace {

bool starts_code_point(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
}

// The position that was counted last. Columns are counted from the start of a
// line, and a file may be one line with as many findings as bytes, so counting
// resumes there.
struct Counted {
  std::weak_ptr<const Bytes> bytes;
  uint64_t start = 0;   // start of the line
  uint64_t offset = 0;  // end of the counted code points
  int64_t points = 0;
};

bool is_same(const std::weak_ptr<const Bytes>& a,
             const std::shared_ptr<const Bytes>& b) {
  return !a.owner_before(b) && !b.owner_before(a);
}

// Returns the number of code points in [start, offset) of a line.
int64_t points_before(const std::shared_ptr<const Bytes>& bytes, uint64_t start,
                      uint64_t offset) {
  constexpr uint64_t kLong = 4096;  // shorter lines are counted directly
  const std::string_view all = bytes->view();
  const auto count = [&](uint64_t from) {
    const std::string_view some = all.substr(from, offset - from);
    return static_cast<int64_t>(std::ranges::count_if(some, starts_code_point));
  };
  if (offset - start < kLong) return count(start);
  // Findings alternate between locations in a few files.
  thread_local std::array<Counted, 4> recent;
  thread_local size_t next = 0;
  auto known = std::ranges::find_if(recent, [&](const Counted& c) {
    return c.start == start && c.offset <= offset && is_same(c.bytes, bytes);
  });
  if (known == recent.end()) {
    known = recent.begin() + static_cast<std::ptrdiff_t>(next);
    next = (next + 1) % recent.size();
    *known = {bytes, start, start, 0};
  }
  known->points += count(known->offset);
  known->offset = offset;
  return known->points;
}

// Adds the line starts up to an offset. The last element is the end of the
// counted text: a file may be larger than anyone would read, and lines are
// counted only as far as necessary.
void count_lines_up_to(std::vector<uint64_t>& starts, std::string_view text,
                       uint64_t offset) {
  if (starts.empty()) starts = {0, 0};
  const std::string_view wanted = text.substr(0, offset);
  const uint64_t counted = starts.back();
  if (wanted.size() <= counted) return;
  starts.pop_back();
  for (size_t at = wanted.find('\n', counted); at != std::string_view::npos;
       at = wanted.find('\n', at + 1)) {
    starts.push_back(at + 1);
  }
  starts.push_back(wanted.size());
}

}  // namespace

std::shared_ptr<const Bytes> bytes_of(std::string text) {
  return std::make_shared<TextBytes<std::string>>(std::move(text));
}

SourceFile::SourceFile(std::string name, std::string text)
    : SourceFile(std::move(name), bytes_of(std::move(text))) {}

SourceFile::SourceFile(std::string name, std::shared_ptr<const Bytes> bytes)
    : name_(std::move(name)), bytes_(std::move(bytes)) {}

Position SourceFile::position(uint64_t offset) const {
  const std::string_view all = text();
  offset = std::min<uint64_t>(offset, all.size());
  count_lines_up_to(line_starts_, all, offset);
  const auto after =
      std::upper_bound(line_starts_.begin(), line_starts_.end() - 1, offset);
  const uint64_t start = *(after - 1);
  return {after - line_starts_.begin(),
          1 + points_before(bytes_, start, offset)};
}

std::string_view SourceFile::line(int64_t number) const {
  // Excerpts are drawn near a position that was requested before. For a line
  // that ends much later, its beginning suffices.
  constexpr uint64_t kFurther = uint64_t{64} << 20U;
  const std::string_view all = text();
  if (number < 1) return {};
  const size_t index = to_size(number - 1);
  count_lines_up_to(line_starts_, all, 0);
  const auto known = [&] { return line_starts_.size() - 1; };
  while (index + 1 >= known() && line_starts_.back() < all.size()) {
    const bool has_begun = index < known();
    count_lines_up_to(line_starts_, all, line_starts_.back() + kFurther);
    if (has_begun) break;
  }
  if (index >= known()) return {};
  // Must not scan the line: a file may be one long line that is requested
  // thousands of times.
  const uint64_t end =
      index + 1 < known() ? line_starts_[index + 1] - 1 : line_starts_.back();
  std::string_view rest =
      all.substr(line_starts_[index], end - line_starts_[index]);
  if (!rest.empty() && rest.back() == '\r') rest.remove_suffix(1);
  return rest;
}

std::string_view Span::text() const {
  return file == nullptr ? std::string_view()
                         : file->text().substr(begin, end - begin);
}

void count_lines(std::span<const SourcePtr> sources) {
  for (const SourcePtr& source : sources) {
    source->position(source->text().size());
  }
}

}  // namespace shardplan
