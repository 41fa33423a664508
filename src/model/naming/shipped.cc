// SPDX-License-Identifier: Apache-2.0
// The shipped name schemes of other programs.
#include "base/shipped.h"

#include <algorithm>
#include <mutex>

#include "base/checked.h"
#include "model/naming/name_scheme.h"

namespace shardplan {
namespace {

constexpr std::string_view kSchemesFolder = "schemes";

// Reads each file once, when it is first requested.
class SchemeLibrary {
 public:
  std::shared_ptr<const NameScheme> find(std::string_view name) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto known = read_.find(name);
    if (known != read_.end()) return known->second;
    Diagnostics diags;
    const SourcePtr source = find_shipped(kSchemesFolder, name, diags);
    if (source == nullptr) return nullptr;
    auto result = read_name_scheme(source, diags);
    if (result == nullptr) {
      const Diagnostic& first = diags.all().front();
      throw InternalError(std::string(name) + ": " + first.message);
    }
    return read_.emplace(std::string(name), std::move(result)).first->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const NameScheme>, std::less<>> read_;
};

}  // namespace

std::shared_ptr<const NameScheme> find_name_scheme(std::string_view name) {
  static SchemeLibrary library;
  return library.find(name);
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
