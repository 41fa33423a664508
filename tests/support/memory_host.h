// SPDX-License-Identifier: Apache-2.0
// A Host in memory: tests and fuzzers run the whole program on it.
//
//   MemoryHost host;
//   host.files["rules.yaml"] = "rules: []";
//   cli::run({"check", "model.json", "--rules", "rules.yaml"}, host);
//   CHECK(host.out == "...");
//
// Paths are normalised (`./a`, `b/../a` and `/project/a` are `a`), parent
// directories are implied, and directories without files do not exist. Nothing
// outside is read unless `below` says so.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/host.h"

namespace shardplan::testing {

class MemoryHost : public Host {
 public:
  // What the program finds. Keys are normalised paths.
  std::map<std::string, std::string> files;
  std::set<std::string> unreadable;          // they exist, reading fails
  std::map<std::string, std::string> links;  // of files and folders, to paths
  std::set<std::string> pipes;  // of `files`; read only where they were named
  std::map<std::string, int64_t> owners;   // of files and folders; else `uid`
  std::map<std::string, int64_t> devices;  // of folders and what is below
  int64_t uid = 1000;
  std::string shortened;  // a file that became shorter while it was read
  std::string input;      // standard input
  std::map<std::string, std::string> variables;
  std::set<Stream> terminals;
  std::optional<int> width;
  std::string directory = "/project";
  double clock = 0;  // seconds; advanced by hand
  double tick = 0;   // what every look at the clock adds
  int processor_count = 1;

  // Read-only files below the ones above: `below->read_file(root + "/" +
  // path)`.
  Host* below = nullptr;
  std::string below_root;

  // What to let fail: streams and files once this many bytes are written,
  // creating a file, renaming it at the end.
  std::optional<size_t> stream_capacity;
  std::string stream_problem;  // why; "" is a closed pipe
  std::optional<size_t> file_capacity;
  std::string file_problem;  // why
  bool fail_create = false;
  bool fail_commit = false;
  bool fail_owner = false;  // edit_file() cannot keep the owner
  // What other programs do to files in the moment before one is replaced.
  std::function<void()> meanwhile;

  // Starts what the program asks for; else there are no other programs.
  std::function<std::unique_ptr<ChildProcess>(
      const std::vector<std::string>& command, std::string& why)>
      programs;

  // What the program did.
  std::string out;
  std::string err;
  std::vector<std::string> written;      // files committed, in order
  int64_t bytes_read = 0;                // of files in memory
  std::set<std::string> read;            // files, by normalised path
  std::map<std::string, int64_t> opens;  // how often each of these was
  std::set<std::string> waited_for;      // as may_wait_for() was given them

  // Relative to the working directory ("" is that directory itself) or, outside
  // of it, absolute; without `.` and `..`.
  std::string normal(std::string_view path) const {
    const bool absolute = !path.empty() && path[0] == '/';
    const std::string full =
        lexically_normal(absolute ? "" : directory, path) + "/";
    const std::string prefix = directory + "/";
    if (full.rfind(prefix, 0) != 0) {
      return full.size() == 1 ? full : full.substr(0, full.size() - 1);
    }
    if (full.size() == prefix.size()) return "";
    return full.substr(prefix.size(), full.size() - prefix.size() - 1);
  }

  // The same where links lead; a link's target is relative to its folder.
  std::string followed(std::string_view path) const {
    std::string name = normal(path);
    for (int steps = 0; steps < 40; ++steps) {
      const auto link =
          std::find_if(links.begin(), links.end(), [&](const auto& candidate) {
            return (name + "/").rfind(candidate.first + "/", 0) == 0;
          });
      if (link == links.end()) break;
      const size_t slash = link->first.rfind('/');
      const std::string folder =
          slash == std::string::npos ? "" : link->first.substr(0, slash + 1);
      const bool absolute = link->second.rfind('/', 0) == 0;
      name = normal((absolute ? "" : folder) + link->second +
                    name.substr(link->first.size()));
    }
    return name;
  }

  std::optional<FileInfo> file_info(const std::string& path) override {
    const std::string name = followed(path);
    const FileInfo folder{true, 0, owner_of(name), device_of(name)};
    if (auto file = files.find(name); file != files.end()) {
      const bool sized = pipes.count(name) == 0;
      return FileInfo{false,
                      sized ? static_cast<int64_t>(file->second.size()) : 0,
                      folder.owner, folder.device};
    }
    const auto next = files.lower_bound(name + "/");
    const bool implied =
        next != files.end() && next->first.rfind(name + "/", 0) == 0;
    if (implied || name.empty() || name == "/") return folder;
    auto info =
        visible_below(name) ? below->file_info(below_path(name)) : std::nullopt;
    if (info) info->owner = folder.owner;
    if (info) info->device = folder.device;
    return info;
  }

  std::optional<std::string> real_path(const std::string& path) override {
    if (!file_info(path)) return std::nullopt;
    const std::string name = followed(path);
    if (!name.empty() && name[0] == '/') return name;
    return name.empty() ? directory : directory + "/" + name;
  }
  int64_t user() override { return uid; }
  void may_wait_for(const std::string& path) override {
    waited_for.insert(path);
  }
  bool was_read(const std::string& path) override {
    return read.count(followed(path)) != 0;
  }
  std::string shortened_file() override { return shortened; }

  std::vector<std::string> list_directory(const std::string& path) override {
    const std::string name = normal(path);
    const std::string prefix = name.empty() ? "" : name + "/";
    std::set<std::string> entries;
    for (const auto& [file, text] : files) {
      const bool outside = file[0] == '/' && prefix.empty();
      if (file.rfind(prefix, 0) != 0 || outside) continue;
      const size_t end = file.find('/', prefix.size());
      entries.insert(file.substr(prefix.size(), end - prefix.size()));
    }
    if (visible_below(name)) {
      for (auto& entry : below->list_directory(below_path(name))) {
        entries.insert(std::move(entry));
      }
    }
    return {entries.begin(), entries.end()};
  }

  std::shared_ptr<const Bytes> read_file(const std::string& path, int64_t limit,
                                         std::string& why) override {
    const std::string name = followed(path);
    const auto info = file_info(path);
    if (info && !info->directory) {
      read.insert(name);
      ++opens[name];
    }
    if (pipes.count(name) != 0 && waited_for.count(path) == 0) {
      why = "is a pipe";
    } else if (unreadable.count(name) != 0) {
      why = "permission denied";
    } else if (!info) {
      why = "no such file or directory";
    } else if (info->directory) {
      why = "is a directory";
    } else if (auto file = files.find(name); file != files.end()) {
      const size_t size = file->second.size();
      const size_t take =
          limit < 0 ? size : std::min(size, static_cast<size_t>(limit));
      bytes_read += static_cast<int64_t>(take);
      return bytes_of(file->second.substr(0, take));
    } else {
      return below->read_file(below_path(name), limit, why);
    }
    return nullptr;
  }

  std::shared_ptr<const Bytes> read_stdin(std::string&) override {
    return bytes_of(std::exchange(input, {}));
  }

  std::unique_ptr<OutputFile> create_file(const std::string& path,
                                          std::string& why) override {
    if (fail_create) {
      why = "permission denied";
      return nullptr;
    }
    if (const auto info = file_info(path); info && info->directory) {
      why = "is a directory";
      return nullptr;
    }
    return std::make_unique<File>(*this, followed(path));
  }
  std::unique_ptr<OutputFile> edit_file(const std::string& path,
                                        const std::string& before,
                                        std::string& why) override {
    if (fail_owner) {
      why = "its owner cannot be kept";
      return nullptr;
    }
    if (fail_create || !file_info(path)) return create_file(path, why);
    return std::make_unique<File>(*this, followed(path), before);
  }

  bool append_file(const std::string& path, std::string_view text,
                   std::string& why) override {
    const auto info = file_info(path);
    if (fail_create || (info && info->directory)) {
      why = fail_create ? "permission denied" : "is a directory";
      return false;
    }
    files[normal(path)] += text;
    written.push_back(normal(path));
    return true;
  }

  std::unique_ptr<ChildProcess> start(
      const std::vector<std::string>& command,
      const std::vector<std::pair<std::string, std::string>>&,
      std::string& why) override {
    if (programs) return programs(command, why);
    why = "no programs here";
    return nullptr;
  }

  bool write(Stream stream, std::string_view text) override {
    if (stream_capacity &&
        out.size() + err.size() + text.size() > *stream_capacity) {
      return false;
    }
    (stream == Stream::Out ? out : err) += text;
    return true;
  }
  std::string write_problem(Stream) override { return stream_problem; }
  bool is_terminal(Stream stream) override {
    return terminals.count(stream) != 0;
  }
  std::optional<int> terminal_width() override { return width; }
  std::optional<std::string> environment(const std::string& name) override {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  }
  std::string working_directory() override { return directory; }
  double now() override { return std::exchange(clock, clock + tick); }
  int processors() override { return processor_count; }

 private:
  class File : public OutputFile {
   public:
    File(MemoryHost& host, std::string path,
         std::optional<std::string> before = {})
        : host_(host), path_(std::move(path)), before_(std::move(before)) {}
    bool write(std::string_view text) override {
      if (host_.file_capacity &&
          text_.size() + text.size() > *host_.file_capacity) {
        return false;
      }
      text_ += text;
      return true;
    }
    bool commit() override {
      if (host_.meanwhile) host_.meanwhile();
      if (host_.fail_commit) return false;
      if (before_ && host_.files[path_] != *before_) {
        problem_ = "it has changed since it was read";
        return false;
      }
      host_.files[path_] = std::move(text_);
      host_.written.push_back(path_);
      return true;
    }
    std::string problem() const override {
      return problem_.empty() ? host_.file_problem : problem_;
    }

   private:
    MemoryHost& host_;
    std::string path_;
    std::optional<std::string> before_;
    std::string text_;
    std::string problem_;
  };

  static std::string lexically_normal(std::string result,
                                      std::string_view path) {
    while (!path.empty()) {
      const size_t slash = std::min(path.find('/'), path.size());
      const std::string_view part = path.substr(0, slash);
      path.remove_prefix(std::min(slash + 1, path.size()));
      if (part.empty() || part == ".") continue;
      if (part == "..") {
        result.resize(std::min(result.rfind('/'), result.size()));
      } else {
        result.append("/").append(part);
      }
    }
    return result;
  }

  int64_t owner_of(const std::string& name) const {
    const auto found = owners.find(name);
    return found == owners.end() ? uid : found->second;
  }
  // That of the nearest folder upward which has one.
  int64_t device_of(std::string name) const {
    if (name.empty() || name[0] != '/') name = directory + "/" + name;
    for (;; name.resize(name.rfind('/'))) {
      const auto found = devices.find(name);
      if (found != devices.end()) return found->second;
      if (name.find('/') == std::string::npos) return 0;
    }
  }

  bool visible_below(const std::string& name) const {
    return below != nullptr && (name.empty() || name[0] != '/');
  }
  std::string below_path(const std::string& name) const {
    return name.empty() ? below_root : below_root + "/" + name;
  }
};

}  // namespace shardplan::testing
