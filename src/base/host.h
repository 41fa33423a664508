// SPDX-License-Identifier: Apache-2.0
// Host: everything outside the process, that is files, standard streams, other
// programs, environment and clock.
//
// The program accesses the outside only through a Host, so tests and fuzzers
// can run all of it in memory (tests/support/memory_host.h), and main.cc passes
// the real one (base/real_host.h).
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
  int64_t size = 0;    // bytes, for a regular file
  int64_t owner = 0;   // user number
  int64_t device = 0;  // number of the file system
};

// A file that is written under a temporary name and vanishes without commit().
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  // Returns false if the text could not be written (disk full, closed pipe).
  virtual bool write(std::string_view text) = 0;
  // Flushes the file to disk and renames it to its final name. On failure
  // removes the file and returns false.
  virtual bool commit() = 0;
  // Returns why write() or commit() failed: "no space left on device".
  virtual std::string problem() const = 0;
};

// A child program with pipes for its standard streams; its standard input is
// never ours. It is killed when this object is destroyed, and by every
// catchable signal that ends this process; the programs that it started end
// with it. While waiting for one stream the other streams are drained, so
// neither side can block the other.
class ChildProcess {
 public:
  virtual ~ChildProcess() = default;
  // Writes to the program's standard input. Returns false if the program no
  // longer reads, or if 16 MiB of its output are unread.
  virtual bool write(std::string_view text) = 0;
  // Returns a line of its standard output, without the line break. Empty at the
  // end, and for a line of more than `limit` bytes.
  virtual std::optional<std::string> read_line(size_t limit) = 0;
  // Reads the next `size` bytes. If the output ends earlier, returns false with
  // the bytes that were read.
  virtual bool read_exactly(std::string& bytes, size_t size) = 0;
  // Returns the next `limit` bytes, or all up to the end.
  virtual std::string read_all(size_t limit) = 0;
  // Closes its input, discards its remaining output and waits for its end.
  // Returns its exit code, or 128 plus the signal that ended it.
  virtual int wait() = 0;
  // Returns the beginning of its standard error, of which 64 KiB are stored;
  // complete after wait().
  virtual std::string errors(size_t limit) = 0;
};

class Host {
 public:
  virtual ~Host() = default;

  // Returns nothing if nothing exists there or it cannot be accessed.
  virtual std::optional<FileInfo> file_info(const std::string& path) = 0;
  // Returns the names of a directory's entries, sorted, without `.` and `..`.
  virtual std::vector<std::string> list_directory(const std::string& path) = 0;
  // Returns the absolute path, without links, `.` and `..`. Empty if nothing
  // exists there.
  virtual std::optional<std::string> real_path(const std::string& path) = 0;
  // The user that opens files, and the FileInfo::owner of files that it
  // creates.
  virtual int64_t user() = 0;
  // Declares that the file or folder `from` names `path`, or that `path` is
  // searched next to it. A host that does not open every file (io/fence.h)
  // opens `path` only if it may open `from`.
  virtual void leads_to(const std::string& /*from*/,
                        const std::string& /*path*/) {}
  // Declares that the user named `path`, so read_file() may block on it, for
  // example on a pipe. All other paths must be regular files, so that no file
  // in a folder can block a run.
  virtual void may_wait_for(const std::string& path) = 0;
  // Returns the first `limit` bytes of a file, or all. Maps large files instead
  // of reading them. Null on failure, with the reason in `why`.
  virtual std::shared_ptr<const Bytes> read_file(const std::string& path,
                                                 int64_t limit,
                                                 std::string& why) = 0;
  // Reads standard input to its end. Null on failure, with the reason in `why`.
  virtual std::shared_ptr<const Bytes> read_stdin(std::string& why) = 0;
  // Returns whether read_file() has returned bytes of this file, under any
  // name.
  virtual bool was_read(const std::string& path) = 0;
  // Returns a file that became shorter while it was mapped, or "". The missing
  // bytes read as zeros, so nothing reported about the file is valid.
  virtual std::string shortened_file() = 0;
  // Returns null, with the reason in `why`, if the file cannot be created. A
  // file that is replaced retains its mode and, where permitted, its owner. A
  // file with other hard links is not replaced.
  virtual std::unique_ptr<OutputFile> create_file(const std::string& path,
                                                  std::string& why) = 0;
  // Like create_file(), but edits an existing file: owner, group and mode are
  // preserved, and commit() replaces the file only if its text is still
  // `before`.
  virtual std::unique_ptr<OutputFile> edit_file(const std::string& path,
                                                const std::string& before,
                                                std::string& why) = 0;
  // Appends to a file, which is created if it is missing. Returns false on
  // failure, with the reason in `why`.
  virtual bool append_file(const std::string& path, std::string_view text,
                           std::string& why) = 0;

  // Starts a program: a path, or a name that is searched in the absolute
  // folders of PATH. No shell interprets the words. The program inherits our
  // environment with the variables of `environment` added or replaced (of equal
  // names the last counts). Null if it cannot be started, with the reason in
  // `why`.
  virtual std::unique_ptr<ChildProcess> start(
      const std::vector<std::string>& command,
      const std::vector<std::pair<std::string, std::string>>& environment,
      std::string& why) = 0;

  // Returns false once the stream is closed (`shardplan ... | head`) or broken.
  virtual bool write(Stream stream, std::string_view text) = 0;
  // Returns why a write() failed: "no space left on device". Empty if none
  // failed, or if the reader merely closed its end.
  virtual std::string write_problem(Stream stream) = 0;
  virtual bool is_terminal(Stream stream) = 0;
  // The width of the terminal in columns; empty if unknown.
  virtual std::optional<int> terminal_width() = 0;
  virtual std::optional<std::string> environment(const std::string& name) = 0;
  virtual std::string working_directory() = 0;
  // Seconds on a monotonic clock.
  virtual double now() = 0;
  virtual int processors() = 0;
};

// A `limit` of read_file that means the whole file.
inline constexpr int64_t kWholeFile = -1;

}  // namespace shardplan
