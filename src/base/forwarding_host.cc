// SPDX-License-Identifier: Apache-2.0
#include "base/forwarding_host.h"

#include "base/source.h"

namespace shardplan {

std::optional<FileInfo> ForwardingHost::file_info(const std::string& path) {
  return below_.file_info(path);
}
std::vector<std::string> ForwardingHost::list_directory(
    const std::string& path) {
  return below_.list_directory(path);
}
std::optional<std::string> ForwardingHost::real_path(const std::string& path) {
  return below_.real_path(path);
}
int64_t ForwardingHost::user() { return below_.user(); }
void ForwardingHost::leads_to(const std::string& from,
                              const std::string& path) {
  below_.leads_to(from, path);
}
void ForwardingHost::may_wait_for(const std::string& path) {
  below_.may_wait_for(path);
}
std::shared_ptr<const Bytes> ForwardingHost::read_file(const std::string& path,
                                                       int64_t limit,
                                                       std::string& why) {
  return below_.read_file(path, limit, why);
}
std::shared_ptr<const Bytes> ForwardingHost::read_stdin(std::string& why) {
  return below_.read_stdin(why);
}
bool ForwardingHost::was_read(const std::string& path) {
  return below_.was_read(path);
}
std::string ForwardingHost::shortened_file() { return below_.shortened_file(); }
std::unique_ptr<OutputFile> ForwardingHost::create_file(const std::string& path,
                                                        std::string& why) {
  return below_.create_file(path, why);
}
std::unique_ptr<OutputFile> ForwardingHost::edit_file(const std::string& path,
                                                      const std::string& before,
                                                      std::string& why) {
  return below_.edit_file(path, before, why);
}
bool ForwardingHost::append_file(const std::string& path, std::string_view text,
                                 std::string& why) {
  return below_.append_file(path, text, why);
}
std::unique_ptr<ChildProcess> ForwardingHost::start(
    const std::vector<std::string>& command,
    const std::vector<std::pair<std::string, std::string>>& environment,
    std::string& why) {
  return below_.start(command, environment, why);
}
bool ForwardingHost::write(Stream stream, std::string_view text) {
  return below_.write(stream, text);
}
std::string ForwardingHost::write_problem(Stream stream) {
  return below_.write_problem(stream);
}
bool ForwardingHost::is_terminal(Stream stream) {
  return below_.is_terminal(stream);
}
std::optional<int> ForwardingHost::terminal_width() {
  return below_.terminal_width();
}
std::optional<std::string> ForwardingHost::environment(
    const std::string& name) {
  return below_.environment(name);
}
std::string ForwardingHost::working_directory() {
  return below_.working_directory();
}
double ForwardingHost::now() { return below_.now(); }
int ForwardingHost::processors() { return below_.processors(); }

std::optional<FileInfo> SharedHost::file_info(const std::string& path) {
  const std::lock_guard lock(*mutex_);
  return below().file_info(path);
}

std::vector<std::string> SharedHost::list_directory(const std::string& path) {
  const std::lock_guard lock(*mutex_);
  return below().list_directory(path);
}

std::optional<std::string> SharedHost::real_path(const std::string& path) {
  const std::lock_guard lock(*mutex_);
  return below().real_path(path);
}

std::shared_ptr<const Bytes> SharedHost::read_file(const std::string& path,
                                                   int64_t limit,
                                                   std::string& why) {
  const std::lock_guard lock(*mutex_);
  const auto [entry, is_new] = read_.try_emplace({path, limit});
  Read& read = entry->second;
  if (is_new) read.bytes = below().read_file(path, limit, read.why);
  if (read.bytes == nullptr) why = read.why;
  return read.bytes;
}

std::optional<FileInfo> HostWithFile::file_info(const std::string& path) {
  if (path != path_) return ForwardingHost::file_info(path);
  FileInfo info;
  info.size = std::ssize(text_);
  return info;
}

std::shared_ptr<const Bytes> HostWithFile::read_file(const std::string& path,
                                                     int64_t limit,
                                                     std::string& why) {
  if (path != path_) return ForwardingHost::read_file(path, limit, why);
  return bytes_of(text_);
}

}  // namespace shardplan
