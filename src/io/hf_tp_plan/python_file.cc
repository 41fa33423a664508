// SPDX-License-Identifier: Apache-2.0
#include "io/hf_tp_plan/python_file.h"

#include <charconv>

namespace shardplan {
namespace {

bool is_at_margin(const PythonToken& token) {
  return token.starts_line &&
         token.where.file->position(token.where.begin).column == 1;
}

// Returns the text of an assignment `name = "text"`.
const std::string* assigned_text(std::span<const PythonToken> tokens, size_t at,
                                 std::string_view name) {
  const bool is_assignment = at + 2 < tokens.size() && tokens[at].starts_line &&
                             tokens[at].is(name) && tokens[at + 1].is("=") &&
                             tokens[at + 2].kind == PythonTokenKind::String;
  return is_assignment ? &tokens[at + 2].text : nullptr;
}

}  // namespace

std::string version_text(TransformersVersion version) {
  return std::to_string(version.major) + "." + std::to_string(version.minor);
}

std::optional<TransformersVersion> parse_version(std::string_view text) {
  TransformersVersion version;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, version.major);
  bool good = first.ec == std::errc() && version.major >= 0;
  if (good && first.ptr != end) {
    good = *first.ptr == '.' &&
           std::from_chars(first.ptr + 1, end, version.minor).ec == std::errc();
  }
  if (!good) return std::nullopt;
  return version;
}

const TpClass* TpPythonFile::class_at(size_t byte) const {
  for (const TpClass& each : classes) {
    if (each.begin <= byte && byte < each.end) return &each;
  }
  return nullptr;
}

TpPythonFile look_at_tp_file(std::span<const PythonToken> tokens) {
  TpPythonFile file;
  bool inside = false;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const PythonToken& token = tokens[i];
    if (is_at_margin(token) && !token.is(")") && !token.is("]")) {
      if (inside) file.classes.back().end = token.where.begin;
      inside = token.is("class") && i + 1 < tokens.size();
      if (inside) {
        file.classes.push_back({tokens[i + 1].text, "", token.where.begin,
                                token.where.file->text().size()});
      }
    }
    if (token.starts_line && token.is("@") && i + 1 < tokens.size() &&
        tokens[i + 1].is("strict")) {
      file.has_strict_configs = true;
    }
    if (!inside) continue;
    if (const std::string* type = assigned_text(tokens, i, "model_type")) {
      file.classes.back().model_type = *type;
    }
    if (const std::string* name =
            assigned_text(tokens, i, "base_model_prefix")) {
      file.base_model_prefix = *name;
    }
  }
  return file;
}

}  // namespace shardplan
