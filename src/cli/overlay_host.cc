// SPDX-License-Identifier: Apache-2.0
#include "cli/overlay_host.h"

#include <utility>

namespace shardplan::cli {

OverlayHost::OverlayHost(Host& host, std::map<std::string, std::string> files)
    : host_(host), files_(std::move(files)) {}

std::optional<FileInfo> OverlayHost::file_info(const std::string& path) {
  const auto found = files_.find(path);
  if (found == files_.end()) return host_.file_info(path);
  return FileInfo{false, static_cast<int64_t>(found->second.size())};
}

std::shared_ptr<const Bytes> OverlayHost::read_file(const std::string& path,
                                                    int64_t limit,
                                                    std::string& why) {
  const auto found = files_.find(path);
  if (found == files_.end()) return host_.read_file(path, limit, why);
  return bytes_of(limit < 0
                      ? found->second
                      : found->second.substr(0, static_cast<size_t>(limit)));
}

std::optional<std::string> OverlayHost::real_path(const std::string& path) {
  return host_.real_path(path);
}
int64_t OverlayHost::user() { return host_.user(); }
void OverlayHost::may_wait_for(const std::string& path) {
  host_.may_wait_for(path);
}
bool OverlayHost::was_read(const std::string& path) {
  return host_.was_read(path);
}
std::string OverlayHost::shortened_file() { return host_.shortened_file(); }
std::vector<std::string> OverlayHost::list_directory(const std::string& path) {
  return host_.list_directory(path);
}
std::shared_ptr<const Bytes> OverlayHost::read_stdin(std::string& why) {
  const auto found = files_.find(std::string(kStandardInput));
  return found == files_.end() ? host_.read_stdin(why)
                               : bytes_of(found->second);
}
std::unique_ptr<OutputFile> OverlayHost::create_file(const std::string& path,
                                                     std::string& why) {
  return host_.create_file(path, why);
}
std::unique_ptr<OutputFile> OverlayHost::edit_file(const std::string& path,
                                                   std::string& why) {
  return host_.edit_file(path, why);
}
bool OverlayHost::append_file(const std::string& path, std::string_view text,
                              std::string& why) {
  return host_.append_file(path, text, why);
}
bool OverlayHost::write(Stream stream, std::string_view text) {
  return host_.write(stream, text);
}
std::string OverlayHost::write_problem(Stream stream) {
  return host_.write_problem(stream);
}
bool OverlayHost::is_terminal(Stream stream) {
  return host_.is_terminal(stream);
}
std::optional<int> OverlayHost::terminal_width() {
  return host_.terminal_width();
}
std::optional<std::string> OverlayHost::environment(const std::string& name) {
  return host_.environment(name);
}
std::string OverlayHost::working_directory() {
  return host_.working_directory();
}
double OverlayHost::now() { return host_.now(); }
int OverlayHost::processors() { return host_.processors(); }

}  // namespace shardplan::cli
