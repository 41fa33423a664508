// SPDX-License-Identifier: Apache-2.0
#include "base/source.h"

#include <algorithm>
#include <array>
#include <utility>

namespace shardplan {
namespace {

class StringBytes : public Bytes {
 public:
  explicit StringBytes(std::string text) : text_(std::move(text)) {}
  std::string_view view() const override { return text_; }

 private:
  std::string text_;
};

bool starts_code_point(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
}

// Columns are counted from the start of a line, and a file may be one line with
// as many findings as it has bytes: so counting goes on where it last stopped.
struct Counted {
  std::weak_ptr<const Bytes> bytes;
  uint64_t start = 0;   // of the line
  uint64_t offset = 0;  // up to which code points were counted
  int64_t points = 0;
};

bool is_same(const std::weak_ptr<const Bytes>& a,
             const std::shared_ptr<const Bytes>& b) {
  return !a.owner_before(b) && !b.owner_before(a);
}

// Code points of [start, offset) of a line.
int64_t points_before(const std::shared_ptr<const Bytes>& bytes, uint64_t start,
                      uint64_t offset) {
  constexpr uint64_t kLong = 4096;  // shorter lines are counted at once
  const std::string_view all = bytes->view();
  const auto count = [&](uint64_t from) {
    const std::string_view some = all.substr(from, offset - from);
    return static_cast<int64_t>(
        std::count_if(some.begin(), some.end(), starts_code_point));
  };
  if (offset - start < kLong) return count(start);
  // Findings name places in a few files in turn.
  thread_local std::array<Counted, 4> recent;
  thread_local size_t next = 0;
  auto known =
      std::find_if(recent.begin(), recent.end(), [&](const Counted& c) {
        return c.start == start && c.offset <= offset &&
               is_same(c.bytes, bytes);
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

}  // namespace

std::shared_ptr<const Bytes> bytes_of(std::string text) {
  return std::make_shared<StringBytes>(std::move(text));
}

SourceFile::SourceFile(std::string name, std::string text)
    : SourceFile(std::move(name), bytes_of(std::move(text))) {}

SourceFile::SourceFile(std::string name, std::shared_ptr<const Bytes> bytes)
    : name_(std::move(name)), bytes_(std::move(bytes)) {}

// Files may be larger than anybody would read: lines are counted as far as
// somebody asks.
const std::vector<uint64_t>& SourceFile::line_starts(uint64_t up_to) const {
  if (line_starts_.empty()) line_starts_.push_back(0);
  const std::string_view wanted = text().substr(0, up_to);
  if (wanted.size() <= counted_) return line_starts_;
  for (size_t at = wanted.find('\n', counted_); at != std::string_view::npos;
       at = wanted.find('\n', at + 1)) {
    line_starts_.push_back(at + 1);
  }
  counted_ = wanted.size();
  return line_starts_;
}

Position SourceFile::position(uint64_t offset) const {
  const std::string_view all = text();
  offset = std::min<uint64_t>(offset, all.size());
  const std::vector<uint64_t>& starts = line_starts(offset);
  const auto after = std::upper_bound(starts.begin(), starts.end(), offset);
  const uint64_t start = *(after - 1);
  return {after - starts.begin(), 1 + points_before(bytes_, start, offset)};
}

std::string_view SourceFile::line(int64_t number) const {
  // What is drawn of a line is near to a place that was asked for.
  constexpr uint64_t kFurther = uint64_t{64} << 20U;
  const std::string_view all = text();
  const auto index = static_cast<size_t>(number - 1);
  const auto knows = [&] { return index < line_starts_.size(); };
  const auto has_end = [&] { return index + 1 < line_starts_.size(); };
  while (!has_end() && counted_ < all.size()) {
    const uint64_t before = counted_;
    line_starts(before + kFurther);
    if (knows()) break;
  }
  if (number < 1 || !knows()) return {};
  // A file may be one long line, and asked for it thousands of times.
  const uint64_t end = has_end() ? line_starts_[index + 1] - 1 : counted_;
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
