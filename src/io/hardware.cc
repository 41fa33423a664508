// SPDX-License-Identifier: Apache-2.0
#include "io/hardware.h"

#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "io/document.h"
#include "io/hardware_reader.h"
#include "io/load.h"
#include "io/shipped.h"

namespace shardplan {
namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "`" : ", `") + name + "`";
  }
  return text;
}

void report_unknown(const std::string& name, Host& host, Diagnostics& diags) {
  const std::vector<std::string> known = shipped_names(kHardwareFolder);
  auto report =
      diags.error(Code::UnreadableFile, {},
                  "no hardware profile named `" + printable(name) + "`");
  std::vector<std::string> longer;  // "h100" for "h100-sxm"
  for (const std::string& candidate : known) {
    if (!name.empty() && candidate.starts_with(name)) {
      longer.push_back(candidate);
    }
  }
  if (!longer.empty()) {
    report.help("names that start so: " + joined(longer));
  } else if (const auto near = nearest(name, known)) {
    report.help("a profile with a similar name is `" + *near + "`");
  }
  if (host.file_info(name)) {
    report.help("`./" + printable(name) + "` is taken as a file");
  }
  report.help("`shardplan list hardware` shows all");
}

}  // namespace

std::vector<HardwareProfile> shipped_hardware() {
  std::vector<HardwareProfile> profiles;
  Diagnostics diags;
  for (const std::string& name : shipped_names(kHardwareFolder)) {
    auto profile =
        read_hardware(find_shipped(kHardwareFolder, name, diags), diags);
    SHARDPLAN_CHECK(profile.has_value());
    profiles.push_back(*std::move(profile));
  }
  return profiles;
}

bool is_hardware_path(std::string_view name_or_path) {
  return name_or_path.find_first_of("/.") != std::string_view::npos;
}

std::optional<HardwareProfile> read_hardware(SourcePtr source,
                                             Diagnostics& diags) {
  const auto document = parse_document(std::move(source), diags);
  if (!document) return std::nullopt;
  return read_hardware_node(document->root(), diags);
}

std::optional<HardwareProfile> load_hardware(const std::string& name_or_path,
                                             Host& host, Diagnostics& diags) {
  if (is_hardware_path(name_or_path)) {
    SourcePtr file = read_source(name_or_path, kWholeFile, host, diags);
    if (file == nullptr) return std::nullopt;
    return read_hardware(std::move(file), diags);
  }
  SourcePtr shipped = find_shipped(kHardwareFolder, name_or_path, diags);
  if (shipped != nullptr) return read_hardware(std::move(shipped), diags);
  report_unknown(name_or_path, host, diags);
  return std::nullopt;
}

}  // namespace shardplan
