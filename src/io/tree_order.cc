// SPDX-License-Identifier: Apache-2.0
#include "io/tree_order.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"
#include "base/text.h"

namespace shardplan {
namespace {

// Within a part 0 is written 1 1 and 1 is written 1 2, so that the 0 that ends
// a part sorts before whatever may follow.
constexpr char kEnd = '\0';
constexpr char kEscape = '\1';
constexpr char kKey = 'k';
constexpr char kIndex = 'i';
constexpr size_t kIndexDigits = 10;
constexpr int kMaxReported = 20;

}  // namespace

void append_key(std::string& path, std::string_view key) {
  path += kKey;
  if (key.find(kEnd) == key.npos && key.find(kEscape) == key.npos) {
    path += key;
    path += kEnd;
    return;
  }
  for (const char c : key) {
    if (c == kEnd || c == kEscape) path += kEscape;
    path += c == kEnd ? '\1' : c == kEscape ? '\2' : c;
  }
  path += kEnd;
}

void append_index(std::string& path, size_t index) {
  const std::string digits = std::to_string(index);
  SHARDPLAN_CHECK(digits.size() <= kIndexDigits);
  path += kIndex;
  path.append(kIndexDigits - digits.size(), '0');
  path += digits;
  path += kEnd;
}

std::string path_name(std::string_view path) {
  std::string name;
  while (!path.empty()) {
    const size_t end = path.find(kEnd);
    std::string_view part = path.substr(1, end - 1);
    if (path.front() == kIndex) {
      part.remove_prefix(
          std::min(part.find_first_not_of('0'), part.size() - 1));
    }
    for (size_t i = 0; i < part.size(); ++i) {
      if (part[i] == kEscape) {
        name += part[++i] == '\1' ? kEnd : kEscape;
      } else {
        name += part[i];
      }
    }
    path.remove_prefix(end + 1);
    if (!path.empty()) name += '/';
  }
  return name;
}

bool sort_entries(std::vector<TreeEntry>& entries, Diagnostics& diags) {
  std::sort(entries.begin(), entries.end(),
            [](const TreeEntry& a, const TreeEntry& b) {
              return std::tie(a.path, a.where.begin) <
                     std::tie(b.path, b.where.begin);
            });
  int duplicates = 0;
  for (size_t i = 1; i < entries.size() && duplicates < kMaxReported; ++i) {
    const TreeEntry& first = entries[i - 1];
    const TreeEntry& second = entries[i];
    if (first.path != second.path) continue;
    ++duplicates;
    diags
        .error(Code::DuplicateKey, second.where,
               "`" + printable(path_name(second.path)) + "` is given twice")
        .label(first.where, "first given here");
  }
  return duplicates == 0;
}

Manifest reordered(const Manifest& manifest,
                   const std::vector<TreeEntry>& entries) {
  Manifest result;
  for (const TreeEntry& entry : entries) {
    bool fits = true;
    if (entry.kind == TreeEntry::Kind::Parameter) {
      if (const AxisLabels* axes = manifest.axes(entry.index)) {
        result.set_axes(result.size(), *axes);
      }
      fits = result.add(manifest.name(entry.index), manifest.type(entry.index),
                        manifest.where(entry.index));
    } else if (entry.kind == TreeEntry::Kind::Buffer) {
      const Manifest::Buffer& buffer = manifest.buffers()[entry.index];
      fits = result.add(buffer.name, buffer.type, buffer.where, true);
    }
    SHARDPLAN_CHECK(fits);
  }
  return result;
}

}  // namespace shardplan
