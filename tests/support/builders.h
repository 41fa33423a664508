// SPDX-License-Identifier: Apache-2.0
// The nouns from their short text forms, for tests:
//
//   mesh("fsdp=4,tp=2")    spec("(fsdp, sp), None")    type("bf16[2048, 256]")
//   manifest({{"wq/kernel", "bf16[64, 64]"}})
//   rules({{"kernel", "fsdp, tp"}, {"bias", ""}})
//
// A text that cannot be read throws, so that the test fails where it is
// written.
#pragma once

#include <charconv>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/diagnostic.h"
#include "base/source.h"
#include "core/manifest.h"
#include "core/mesh.h"
#include "core/rules.h"
#include "core/spec.h"
#include "core/types.h"

namespace shardplan::testing {

[[noreturn]] inline void bad_text(std::string_view what,
                                  std::string_view text) {
  throw std::invalid_argument(std::string(what) + ": " + std::string(text));
}

inline std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  if (begin == text.npos) return text.substr(text.size());
  return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

// Splits at commas that are not inside parentheses; views into `text`.
inline std::vector<std::string_view> split_list(std::string_view text) {
  std::vector<std::string_view> items;
  if (trimmed(text).empty()) return items;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      items.push_back(trimmed(text.substr(begin, i - begin)));
      begin = i + 1;
    } else if (text[i] == '(') {
      ++depth;
    } else if (text[i] == ')') {
      --depth;
    }
  }
  return items;
}

inline Mesh mesh(std::string_view text) {
  Diagnostics diags;
  const SourceFile source("mesh", std::string(text));
  const auto axes = parse_mesh_text(source, diags);
  if (!axes) bad_text("not a mesh", text);
  auto made = make_mesh(*axes, std::nullopt, {}, diags);
  if (!made) bad_text("not a mesh", text);
  return *std::move(made);
}

// mesh_with_views("fsdp=4,tp=8", {"experts:ep=8,edp=4"})
inline Mesh mesh_with_views(std::string_view text,
                            const std::vector<std::string>& views) {
  Mesh made = mesh(text);
  Diagnostics diags;
  for (const std::string& view : views) {
    const SourceFile source("view", view);
    const auto request = parse_view_text(source, diags);
    auto with_view = request ? add_view(made, *request, diags) : std::nullopt;
    if (!with_view) bad_text("not a view", view);
    made = *std::move(with_view);
  }
  return made;
}

inline PartitionSpec spec(std::string_view text) {
  PartitionSpec result;
  for (std::string_view item : split_list(text)) {
    AxisNames names;
    if (item.size() > 1 && item.front() == '(' && item.back() == ')') {
      item = item.substr(1, item.size() - 2);
      for (const std::string_view name : split_list(item)) {
        names.emplace_back(name);
      }
    } else if (item != "None") {
      names.emplace_back(item);
    }
    result.dims.push_back(std::move(names));
  }
  return result;
}

inline TensorType type(std::string_view text) {
  const size_t bracket = text.find('[');
  if (bracket == text.npos || text.back() != ']') bad_text("no type", text);
  const auto dtype = find_dtype(text.substr(0, bracket));
  if (!dtype) bad_text("no dtype", text);
  TensorType result{*dtype, {}};
  const auto sizes = text.substr(bracket + 1, text.size() - bracket - 2);
  for (const std::string_view size : split_list(sizes)) {
    int64_t value = 0;
    const char* end = size.data() + size.size();
    if (std::from_chars(size.data(), end, value).ptr != end) {
      bad_text("no size", text);
    }
    result.shape.push_back(value);
  }
  return result;
}

struct NamedType {
  std::string name;
  std::string type;
};

inline Manifest manifest(const std::vector<NamedType>& tensors) {
  Manifest result;
  result.title = "test";
  result.format = "native";
  for (const NamedType& tensor : tensors) {
    if (!result.add(tensor.name, type(tensor.type), {})) {
      bad_text("too large", tensor.type);
    }
  }
  return result;
}

struct PatternAndSpec {
  std::string pattern;
  std::string spec;
};

// Places are real: line n of a file `rules` is "PATTERN -> SPEC" of rule n.
inline RuleSet rules(const std::vector<PatternAndSpec>& entries,
                     AxisNames declared = {}) {
  std::string text;
  for (const PatternAndSpec& entry : entries) {
    text += entry.pattern + " -> " + entry.spec + "\n";
  }
  const auto source = std::make_shared<SourceFile>("rules", text);
  RuleSet result;
  result.declared_axes = std::move(declared);
  uint64_t at = 0;
  for (const PatternAndSpec& entry : entries) {
    const auto span = [&](uint64_t begin, size_t size) {
      return Span{source.get(), begin, begin + size};
    };
    Rule rule;
    rule.pattern = entry.pattern;
    rule.spec = spec(entry.spec);
    rule.where = span(at, entry.pattern.size());
    const uint64_t spec_at = at + entry.pattern.size() + 4;
    rule.spec_where = span(spec_at, entry.spec.size());
    for (const std::string_view dim : split_list(entry.spec)) {
      const auto offset = static_cast<uint64_t>(dim.data() - entry.spec.data());
      rule.dim_where.push_back(span(spec_at + offset, dim.size()));
    }
    at = spec_at + entry.spec.size() + 1;
    result.rules.push_back(std::move(rule));
  }
  result.sources.push_back(source);
  return result;
}

}  // namespace shardplan::testing
