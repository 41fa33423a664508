// SPDX-License-Identifier: Apache-2.0
// SourceFile: a text from the user. Span: a range of bytes in it.
//
// A SourceFile is a file, standard input, or the value of a flag: `--mesh
// fsdp=4,tp` is a SourceFile named `--mesh`, so flags get the same carets as
// files. A Span is valid as long as its SourceFile. Everything read from a
// SourceFile (manifest, rules, plan) owns it through a shared_ptr, so a
// Diagnostic may keep spans for a whole run.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardplan {

// Bytes and their owner: a string, or a mapped file.
class Bytes {
 public:
  virtual ~Bytes() = default;
  virtual std::string_view view() const = 0;
  // A hint that bytes before `offset` will hardly be read again, so a mapped
  // file may release their pages. Reading them loads them again.
  virtual void release_before(uint64_t /*offset*/) const {}
};

// Bytes that own a text (std::string) or refer to one (std::string_view).
template <typename Text>
class TextBytes : public Bytes {
 public:
  explicit TextBytes(Text text) : text_(std::move(text)) {}
  std::string_view view() const override { return text_; }

 private:
  Text text_;
};

std::shared_ptr<const Bytes> bytes_of(std::string text);

// 1-based; columns count code points, as in editors.
struct Position {
  int64_t line = 1;
  int64_t column = 1;
};

class SourceFile {
 public:
  SourceFile(std::string name, std::string text);
  SourceFile(std::string name, std::shared_ptr<const Bytes> bytes);

  const std::string& name() const { return name_; }
  std::string_view text() const { return bytes_->view(); }
  void release_before(uint64_t offset) const { bytes_->release_before(offset); }

  // Returns the position of a byte offset; offsets past the end give the
  // position after the last character. Scans the text for line starts up to the
  // offset, once.
  Position position(uint64_t offset) const;
  // Returns the text of a 1-based line, without its end-of-line characters.
  std::string_view line(int64_t number) const;

 private:
  std::string name_;
  std::shared_ptr<const Bytes> bytes_;
  mutable std::vector<uint64_t> line_starts_;
};

using SourcePtr = std::shared_ptr<const SourceFile>;

// Counts the lines of sources that threads will share. A source otherwise
// counts its lines when first asked, which is not thread-safe.
void count_lines(std::span<const SourcePtr> sources);

// Bytes [begin, end) of a file; a null file means "no location".
struct Span {
  const SourceFile* file = nullptr;
  uint64_t begin = 0;
  uint64_t end = 0;

  explicit operator bool() const { return file != nullptr; }
  std::string_view text() const;
};

}  // namespace shardplan
