// SPDX-License-Identifier: Apache-2.0
#include "graph/attributes.h"

#include "base/check.h"

namespace shardplan {
namespace {

template <typename T>
const T* find(const Attributes& attributes, std::string_view name) {
  const auto found = attributes.find(name);
  if (found == attributes.end()) return nullptr;
  const T* value = std::get_if<T>(&found->second);
  SHARDPLAN_CHECK(value != nullptr);
  return value;
}

}  // namespace

double number_of(const Attributes& attributes, std::string_view name,
                 double otherwise) {
  const auto* value = find<double>(attributes, name);
  return value != nullptr ? *value : otherwise;
}

std::string_view text_of(const Attributes& attributes, std::string_view name,
                         std::string_view otherwise) {
  const auto* value = find<std::string>(attributes, name);
  return value != nullptr ? std::string_view(*value) : otherwise;
}

std::span<const int64_t> integers_of(const Attributes& attributes,
                                     std::string_view name) {
  const auto* value = find<std::vector<int64_t>>(attributes, name);
  return value != nullptr ? std::span<const int64_t>(*value)
                          : std::span<const int64_t>();
}

}  // namespace shardplan
