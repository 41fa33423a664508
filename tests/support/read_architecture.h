// SPDX-License-Identifier: Apache-2.0
// An architecture file from a text, with what was reported.
#pragma once

#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "base/diagnostic.h"
#include "model/architectures.h"
#include "tests/support/messages.h"

namespace shardplan::testing {

struct ReadArchitecture {
  Diagnostics diags;
  std::shared_ptr<const Architecture> architecture;  // null: problems
};

// On the heap: the diagnostics hold places in what they keep.
inline std::unique_ptr<ReadArchitecture> read_architecture_text(
    const std::string& text) {
  auto result = std::make_unique<ReadArchitecture>();
  const auto source = std::make_shared<const SourceFile>("a.yaml", text);
  result->diags.add_source(source);
  result->architecture = read_user_architecture(
      source, [](std::string_view name) { return find_architecture(name); },
      result->diags);
  return result;
}

inline std::string architecture_problems(const std::string& text) {
  const auto result = read_architecture_text(text);
  CHECK((result->architecture == nullptr) == result->diags.has_errors());
  return messages(result->diags);
}

}  // namespace shardplan::testing
