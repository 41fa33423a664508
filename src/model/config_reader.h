// SPDX-License-Identifier: Apache-2.0
// ConfigReader: values of a config.json, each checked and, when it is wrong,
// reported with its place.
//
// Every getter gives back something usable, so that all that is needed can be
// read in a row and ok() asked once. Invariant: whatever a getter gives while
// ok() holds is within its limits, so the product of two sizes, or twice that,
// fits 63 bits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "syntax/document.h"

namespace shardplan {

// Larger than any dimension of a real model.
inline constexpr int64_t kMaxSize = int64_t{1} << 30;
// Layers, experts.
inline constexpr int64_t kMaxCount = 100'000;

// What to take where a key is absent, or null. Without one that is an error.
struct Fallback {
  std::optional<int64_t> absent = std::nullopt;
  std::optional<int64_t> null = std::nullopt;
};

// The value of a key, null or not. `attn_config.kv_n_heads` is a key of a map
// within, unless there is a key that is called so, and `time_step_limit.1` the
// second of a list. A number that JSON does not have is the text "Infinity",
// which transformers 5 writes as {"__float__": "Infinity"}.
std::optional<Node> value_at(const Node& map, std::string_view key);

class ConfigReader {
 public:
  // `path` is what leads to `map` in the file: "" or "text_config.".
  // REQUIRES: `map` is a map, and its document and `diags` outlive the reader.
  ConfigReader(const Node& map, std::string path, Diagnostics& diags);

  // 1 to kMaxSize.
  int64_t size(std::string_view key, const Fallback& fallback = {});
  // `least` to kMaxCount.
  int64_t count(std::string_view key, int64_t least,
                const Fallback& fallback = {});
  bool flag(std::string_view key, bool absent);
  // A number that is finite; `absent` also where it is null. SP009 when it is
  // not positive.
  double positive(std::string_view key, double absent);
  // "" when absent or null.
  std::string text(std::string_view key);
  // A list of integers; nothing when absent or null.
  std::vector<int64_t> integers(std::string_view key);
  // The value, when there is one that is not null.
  std::optional<Node> find(std::string_view key) const;
  const Node& map() const { return map_; }
  // "text_config"; "" of the whole.
  std::string path() const { return path_.substr(0, path_.rfind('.')); }
  // The value, null or not (value_at).
  std::optional<Node> at(std::string_view key) const;
  // An integer from `least` to `most`; else it is reported.
  int64_t bounded(std::string_view key, int64_t least, int64_t most,
                  const Fallback& fallback);
  // A map within this one, by key.
  std::optional<ConfigReader> section(std::string_view key);
  // A map without any key, in place of one that is not there.
  ConfigReader empty_section(std::string_view key) const;

  // Reports SP009 at the value of `key`, or at the map when it has none.
  Diagnostics::Builder refuse(std::string_view key, std::string message);
  // The same as a warning.
  Diagnostics::Builder warn(std::string_view key, std::string message);
  // Reports SP002: "`key` must be a list, not text".
  Diagnostics::Builder ill_typed(std::string_view key, const Node& value,
                                 std::string_view wanted);
  // "`text_config.hidden_size`"
  std::string shown(std::string_view key) const {
    return "`" + path_ + std::string(key) + "`";
  }
  // How many errors there are so far, whoever reported them.
  int64_t errors() const { return diags_.count(Severity::Error); }
  // False once anything has been reported, here or in a section.
  bool ok() const;

 private:
  Span place(std::string_view key) const;

  Node map_;
  std::string path_;
  Diagnostics& diags_;
  int64_t errors_before_;
};

}  // namespace shardplan
