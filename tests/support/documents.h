// SPDX-License-Identifier: Apache-2.0
// Whether two documents are the same: kinds, texts, keys and places.
#pragma once

#include <string>

#include "syntax/document.h"

namespace shardplan {

// "" where nothing differs; else where, by keys and numbers, and what.
inline std::string difference(const Node& a, const Node& b) {
  const auto place = [](const Span& where) {
    return std::to_string(where.begin) + "-" + std::to_string(where.end);
  };
  if (a.kind() != b.kind()) {
    return ": " + std::string(kind_name(a.kind())) + ", not " +
           std::string(kind_name(b.kind()));
  }
  if (place(a.span()) != place(b.span())) {
    return ": at " + place(a.span()) + ", not " + place(b.span());
  }
  if (a.size() != b.size()) return ": of another size";
  if (!a.is_list() && !a.is_map()) {
    return a.text() == b.text() ? ""
                                : ": `" + std::string(a.text()) + "`, not `" +
                                      std::string(b.text()) + "`";
  }
  for (size_t i = 0; i < a.size(); ++i) {
    std::string at = "/" + std::to_string(i);
    if (a.is_map()) {
      at = "/" + std::string(a.key(i));
      if (a.key(i) != b.key(i)) return at + ": another key";
      if (place(a.key_span(i)) != place(b.key_span(i))) {
        return at + ": a key at another place";
      }
    }
    const std::string below = difference(a.item(i), b.item(i));
    if (!below.empty()) return at + below;
  }
  return "";
}

}  // namespace shardplan
