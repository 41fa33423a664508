// SPDX-License-Identifier: Apache-2.0
// ForwardingHost: a Host that forwards everything to another one. Subclasses
// override what differs.
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

  std::optional<FileInfo> file_info(const std::string& path) override;
  std::vector<std::string> list_directory(const std::string& path) override;
  std::optional<std::string> real_path(const std::string& path) override;
  int64_t user() override;
  void leads_to(const std::string& from, const std::string& path) override;
  void may_wait_for(const std::string& path) override;
  std::shared_ptr<const Bytes> read_file(const std::string& path, int64_t limit,
                                         std::string& why) override;
  std::shared_ptr<const Bytes> read_stdin(std::string& why) override;
  bool was_read(const std::string& path) override;
  std::string shortened_file() override;
  std::unique_ptr<OutputFile> create_file(const std::string& path,
                                          std::string& why) override;
  std::unique_ptr<OutputFile> edit_file(const std::string& path,
                                        const std::string& before,
                                        std::string& why) override;
  bool append_file(const std::string& path, std::string_view text,
                   std::string& why) override;
  std::unique_ptr<ChildProcess> start(
      const std::vector<std::string>& command,
      const std::vector<std::pair<std::string, std::string>>& environment,
      std::string& why) override;
  bool write(Stream stream, std::string_view text) override;
  std::string write_problem(Stream stream) override;
  bool is_terminal(Stream stream) override;
  std::optional<int> terminal_width() override;
  std::optional<std::string> environment(const std::string& name) override;
  std::string working_directory() override;
  double now() override;
  int processors() override;

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

  std::optional<FileInfo> file_info(const std::string& path) override;
  std::vector<std::string> list_directory(const std::string& path) override;
  std::optional<std::string> real_path(const std::string& path) override;
  std::shared_ptr<const Bytes> read_file(const std::string& path, int64_t limit,
                                         std::string& why) override;

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

  std::optional<FileInfo> file_info(const std::string& path) override;
  std::shared_ptr<const Bytes> read_file(const std::string& path, int64_t limit,
                                         std::string& why) override;

 private:
  std::string path_;
  std::string text_;
};

}  // namespace shardplan
