// SPDX-License-Identifier: Apache-2.0
// The shipped name schemes of other programs.
#include "base/shipped.h"

#include <mutex>

#include "base/checked.h"
#include "model/naming/name_scheme.h"
#include "model/read_once.h"

namespace shardplan {
namespace {

constexpr std::string_view kSchemesFolder = "schemes";

}  // namespace

std::shared_ptr<const NameScheme> find_name_scheme(std::string_view name) {
  static std::mutex mutex;
  static ReadOnce<NameScheme> known;
  const std::lock_guard<std::mutex> lock(mutex);
  return known.get(name, [&]() -> std::shared_ptr<const NameScheme> {
    Diagnostics diags;
    const SourcePtr source = find_shipped(kSchemesFolder, name, diags);
    if (source == nullptr) return nullptr;
    auto result = read_name_scheme(source, diags);
    if (result == nullptr) {
      throw InternalError(std::string(name) + ": " +
                          diags.all().front().message);
    }
    return result;
  });
}

std::vector<std::string> name_scheme_names() {
  return shipped_names(kSchemesFolder);
}

std::vector<std::string> name_schemes_of(std::string_view architecture) {
  std::vector<std::string> names;
  for (std::string& name : name_scheme_names()) {
    const auto scheme = find_name_scheme(name);
    if (scheme->architectures.contains(architecture)) {
      names.push_back(std::move(name));
    }
  }
  return names;
}

}  // namespace shardplan
