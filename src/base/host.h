// SPDX-License-Identifier: Apache-2.0
// Everything outside the process: files, standard streams, other programs,
// environment, clock.
//
// The program touches the world only through a Host, so tests and fuzzers run
// all of it in memory (tests/support/memory_host.h) and main.cc hands in the
// real one (base/real_host.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/source.h"

namespace shardplan {

enum class Stream : uint8_t { Out, Err };

struct FileInfo {
  bool directory = false;
  int64_t size = 0;    // bytes; of a regular file
  int64_t owner = 0;   // the number of a user
  int64_t device = 0;  // which file system it is on
};

// A file being written under a temporary name; without commit() it vanishes.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  // False when the text could not be written (disk full, closed pipe).
  virtual bool write(std::string_view text) = 0;
  // Renames to the final name, with all of it on the disk; false, with the file
  // removed, on failure.
  virtual bool commit() = 0;
  // Why write() or commit() was false: "no space left on device".
  virtual std::string problem() const = 0;
};

// A program that runs beside us, over pipes; its standard input is never ours.
// It is ended when this goes away, and by every signal that ends us and can be
// caught; what it has started ends with it. While one of its streams is waited
// for the others are emptied, so neither side waits for the other.
class ChildProcess {
 public:
  virtual ~ChildProcess() = default;
  // To its standard input. False when it reads no more, or once it has written
  // 16 MiB that we have not read.
  virtual bool write(std::string_view text) = 0;
  // Of its standard output, without the line break. Empty at the end, and for a
  // line of more than `limit` bytes.
  virtual std::optional<std::string> read_line(size_t limit) = 0;
  // The next `size` bytes; false, with those that came, when it ends before.
  virtual bool read_exactly(std::string& bytes, size_t size) = 0;
  // The next `limit` bytes, or all up to the end.
  virtual std::string read_all(size_t limit) = 0;
  // Ends its input, passes over what it still writes and waits for its end. Its
  // exit code, or 128 and the signal that ended it.
  virtual int wait() = 0;
  // The beginning of what it has written to standard error, of which 64 KiB are
  // kept; complete after wait().
  virtual std::string errors(size_t limit) = 0;
};

class Host {
 public:
  virtual ~Host() = default;

  // Empty when nothing exists there (or it cannot be looked at).
  virtual std::optional<FileInfo> file_info(const std::string& path) = 0;
  // Names of a directory's entries, sorted; no `.` and `..`.
  virtual std::vector<std::string> list_directory(const std::string& path) = 0;
  // Absolute, without links, `.` and `..`. Empty when nothing exists there.
  virtual std::optional<std::string> real_path(const std::string& path) = 0;
  // The user as whom files are opened; FileInfo::owner of what it makes.
  virtual int64_t user() = 0;
  // The user named `path`: read_file() may wait for it, as for a pipe. All
  // other paths must be files, so that none found in a folder can stop a run.
  virtual void may_wait_for(const std::string& path) = 0;
  // The first `limit` bytes of a file, or all. A large file is mapped, not
  // read. Null on failure, with the reason in `why`.
  virtual std::shared_ptr<const Bytes> read_file(const std::string& path,
                                                 int64_t limit,
                                                 std::string& why) = 0;
  // Standard input, to its end. Null on failure.
  virtual std::shared_ptr<const Bytes> read_stdin(std::string& why) = 0;
  // Whether read_file() has given bytes of this file, by whichever name.
  virtual bool was_read(const std::string& path) = 0;
  // A file that became shorter while it was mapped; "" is none. What is missing
  // of it reads as zeros, so nothing that was reported of it holds.
  virtual std::string shortened_file() = 0;
  // Null, with the reason in `why`, when the file cannot be created. A file
  // that it replaces keeps its mode, and its owner where that is allowed.
  virtual std::unique_ptr<OutputFile> create_file(const std::string& path,
                                                  std::string& why) = 0;
  // As create_file(), for a file that is there and is only changed: owner,
  // group and mode are kept, or nothing is written.
  virtual std::unique_ptr<OutputFile> edit_file(const std::string& path,
                                                std::string& why) = 0;
  // Adds to the end of a file, which is made when it is missing. False on
  // failure, with the reason in `why`.
  virtual bool append_file(const std::string& path, std::string_view text,
                           std::string& why) = 0;

  // Starts a program: a path, or a name to be looked for in the folders of PATH
  // whose paths are absolute. No shell reads the words. It gets our environment
  // and, over it, `environment` (of two of one name the later). Null when it
  // cannot be started, with the reason in `why`.
  virtual std::unique_ptr<ChildProcess> start(
      const std::vector<std::string>& command,
      const std::vector<std::pair<std::string, std::string>>& environment,
      std::string& why) = 0;

  // False once the stream is closed (`shardplan ... | head`) or broken.
  virtual bool write(Stream stream, std::string_view text) = 0;
  // Why a write() was false: "no space left on device". Empty when none was, or
  // when the reader has only closed its end.
  virtual std::string write_problem(Stream stream) = 0;
  virtual bool is_terminal(Stream stream) = 0;
  // Columns of the terminal; empty when unknown.
  virtual std::optional<int> terminal_width() = 0;
  virtual std::optional<std::string> environment(const std::string& name) = 0;
  virtual std::string working_directory() = 0;
  // Seconds on a clock that never goes back.
  virtual double now() = 0;
  virtual int processors() = 0;
};

// No limit for read_file.
inline constexpr int64_t kWholeFile = -1;

}  // namespace shardplan
