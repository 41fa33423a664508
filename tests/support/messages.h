// SPDX-License-Identifier: Apache-2.0
// Diagnostics as short texts, for comparing:
//
//   messages(diags) == "SP002 a.json:1:5 `shape` must be a list, not a string"
//
// One line each, with the severity where it is not an error: "SP008 warning".
#pragma once

#include <string>

#include "base/diagnostic.h"

namespace shardplan::testing {

inline std::string place_text(Span where) {
  const Position at = where.file->position(where.begin);
  return where.file->name() + ":" + std::to_string(at.line) + ":" +
         std::to_string(at.column);
}

inline std::string message(const Diagnostic& diagnostic) {
  std::string text = code_id(diagnostic.code) + " ";
  if (diagnostic.severity != Severity::Error) {
    text += std::string(severity_name(diagnostic.severity)) + " ";
  }
  if (!diagnostic.labels.empty() && diagnostic.labels.front().where) {
    text += place_text(diagnostic.labels.front().where) + " ";
  }
  return text + diagnostic.message;
}

inline std::string messages(const Diagnostics& diags) {
  std::string text;
  for (const Diagnostic& diagnostic : diags.all()) {
    if (!text.empty()) text += "\n";
    text += message(diagnostic);
  }
  return text;
}

// The same without the remarks on a model (SP019), for tests of what is wrong.
inline std::string problems(const Diagnostics& diags) {
  std::string text;
  for (const Diagnostic& diagnostic : diags.all()) {
    if (diagnostic.code == Code::Remark) continue;
    if (!text.empty()) text += "\n";
    text += message(diagnostic);
  }
  return text;
}

}  // namespace shardplan::testing
