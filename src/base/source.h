// SPDX-License-Identifier: Apache-2.0
// A text that a user gave us, and places in it.
//
// SourceFile is a file, standard input, or the value of a flag: `--mesh
// fsdp=4,tp` is a SourceFile named `--mesh`, so flags get the same carets as
// files. A Span is a range of its bytes. Spans stay valid as long as their
// SourceFile; SourceFiles are held by shared_ptr from whatever was read out of
// them (manifest, rules, plan), so a Diagnostic may keep spans for a whole run.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardplan {

// Bytes that somebody keeps alive: a string, or a mapped file.
class Bytes {
 public:
  virtual ~Bytes() = default;
  virtual std::string_view view() const = 0;
  // A hint: bytes before `offset` are hardly looked at again, so a mapped file
  // need not keep them in memory. They come back when they are.
  virtual void let_go(uint64_t /*offset*/) const {}
};

std::shared_ptr<const Bytes> bytes_of(std::string text);

// 1-based; columns count code points, as editors do.
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
  void let_go(uint64_t offset) const { bytes_->let_go(offset); }

  // Offsets past the end give the place behind the last character. The first
  // call scans the whole text for line starts.
  Position position(uint64_t offset) const;
  // The text of a 1-based line, without its end-of-line characters.
  std::string_view line(int64_t number) const;

 private:
  const std::vector<uint64_t>& line_starts() const;

  std::string name_;
  std::shared_ptr<const Bytes> bytes_;
  mutable std::vector<uint64_t> line_starts_;
};

using SourcePtr = std::shared_ptr<const SourceFile>;

// Lines of a text are counted when somebody first asks for one, which two
// threads must not do at once: what threads share has them counted before.
void count_lines(std::span<const SourcePtr> sources);

// Bytes [begin, end) of a file; a null file means "no place".
struct Span {
  const SourceFile* file = nullptr;
  uint64_t begin = 0;
  uint64_t end = 0;

  explicit operator bool() const { return file != nullptr; }
  std::string_view text() const;
};

}  // namespace shardplan
