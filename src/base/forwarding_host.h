// SPDX-License-Identifier: Apache-2.0
// ForwardingHost: a Host that forwards everything to another one. Subclasses
// override what differs; two of them are here.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/host.h"

namespace shardplan {

class ForwardingHost : public Host {
 public:
  // `below` must outlive this host.
  explicit ForwardingHost(Host& below) : below_(below) {}

  std::optional<FileInfo> file_info(const std::string& path) override {
    return below_.file_info(path);
  }
  std::vector<std::string> list_directory(const std::string& path) override {
    return below_.list_directory(path);
  }
  std::optional<std::string> real_path(const std::string& path) override {
    return below_.real_path(path);
  }
  int64_t user() override { return below_.user(); }
  void leads_to(const std::string& from, const std::string& path) override {
    below_.leads_to(from, path);
  }
  void may_wait_for(const std::string& path) override {
    below_.may_wait_for(path);
  }
  std::shared_ptr<const Bytes> read_file(const std::string& path, int64_t limit,
                                         std::string& why) override {
    return below_.read_file(path, limit, why);
  }
  std::shared_ptr<const Bytes> read_stdin(std::string& why) override {
    return below_.read_stdin(why);
  }
  bool was_read(const std::string& path) override {
    return below_.was_read(path);
  }
  std::string shortened_file() override { return below_.shortened_file(); }
  std::unique_ptr<OutputFile> create_file(const std::string& path,
                                          std::string& why) override {
    return below_.create_file(path, why);
  }
  std::unique_ptr<OutputFile> edit_file(const std::string& path,
                                        const std::string& before,
                                        std::string& why) override {
    return below_.edit_file(path, before, why);
  }
  bool append_file(const std::string& path, std::string_view text,
                   std::string& why) override {
    return below_.append_file(path, text, why);
  }
  std::unique_ptr<ChildProcess> start(
      const std::vector<std::string>& command,
      const std::vector<std::pair<std::string, std::string>>& environment,
      std::string& why) override {
    return below_.start(command, environment, why);
  }
  bool write(Stream stream, std::string_view text) override {
    return below_.write(stream, text);
  }
  std::string write_problem(Stream stream) override {
    return below_.write_problem(stream);
  }
  bool is_terminal(Stream stream) override {
    return below_.is_terminal(stream);
  }
  std::optional<int> terminal_width() override {
    return below_.terminal_width();
  }
  std::optional<std::string> environment(const std::string& name) override {
    return below_.environment(name);
  }
  std::string working_directory() override {
    return below_.working_directory();
  }
  double now() override { return below_.now(); }
  int processors() override { return below_.processors(); }

 protected:
  Host& below() { return below_; }

 private:
  Host& below_;
};

// A Host for several threads that reads each file once. All SharedHosts over
// the same host share a mutex.
class SharedHost : public ForwardingHost {
 public:
  SharedHost(Host& host, std::shared_ptr<std::mutex> mutex)
      : ForwardingHost(host), mutex_(std::move(mutex)) {}

  std::optional<FileInfo> file_info(const std::string& path) override {
    const std::lock_guard lock(*mutex_);
    return below().file_info(path);
  }
  std::vector<std::string> list_directory(const std::string& path) override {
    const std::lock_guard lock(*mutex_);
    return below().list_directory(path);
  }
  std::optional<std::string> real_path(const std::string& path) override {
    const std::lock_guard lock(*mutex_);
    return below().real_path(path);
  }
  std::shared_ptr<const Bytes> read_file(const std::string& path, int64_t limit,
                                         std::string& why) override {
    const std::lock_guard lock(*mutex_);
    const auto [entry, is_new] = read_.try_emplace({path, limit});
    Read& read = entry->second;
    if (is_new) read.bytes = below().read_file(path, limit, read.why);
    if (read.bytes == nullptr) why = read.why;
    return read.bytes;
  }

 private:
  struct Read {
    std::shared_ptr<const Bytes> bytes;
    std::string why;
  };
  std::shared_ptr<std::mutex> mutex_;
  std::map<std::pair<std::string, int64_t>, Read> read_;
};

// A host with one additional file, which exists only in memory.
class HostWithFile : public ForwardingHost {
 public:
  HostWithFile(Host& below, std::string path, std::string text)
      : ForwardingHost(below), path_(std::move(path)), text_(std::move(text)) {}

  std::optional<FileInfo> file_info(const std::string& path) override {
    if (path != path_) return below().file_info(path);
    return FileInfo{.size = std::ssize(text_)};
  }
  std::shared_ptr<const Bytes> read_file(const std::string& path, int64_t limit,
                                         std::string& why) override {
    if (path != path_) return below().read_file(path, limit, why);
    return bytes_of(text_);
  }

 private:
  std::string path_;
  std::string text_;
};

}  // namespace shardplan
