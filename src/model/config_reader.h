// SPDX-License-Identifier: Apache-2.0
// ConfigReader: reads values of a config.json. Each value is checked and, if it
// is wrong, reported with its place.
//
// Every getter returns a usable value even after an error, so a caller can read
// everything it needs and then call ok() once. Invariant: values that getters
// return while ok() is true are within their limits, so the product of two
// sizes, or twice that, fits 63 bits.
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
// Limit for numbers of layers or experts.
inline constexpr int64_t kMaxCount = 100'000;

// The values to use if a key is absent or null. Without a value, that case is
// an error.
struct Fallback {
  std::optional<int64_t> absent = std::nullopt;
  std::optional<int64_t> null = std::nullopt;
};

// Returns the value of a key, which may be null. `attn_config.kv_n_heads` is a
// key of an inner map, unless the whole text is itself a key, and
// `time_step_limit.1` is the second item of a list. A number that JSON cannot
// represent is returned as the text "Infinity", which transformers 5 writes as
// {"__float__": "Infinity"}.
std::optional<Node> value_at(const Node& map, std::string_view key);

class ConfigReader {
 public:
  // `path` is the path to `map` in the file: "" or "text_config.".
  //
  // REQUIRES: `map` is a map, and its document and `diags` outlive the reader.
  ConfigReader(const Node& map, std::string path, Diagnostics& diags);

  // Returns an integer from 1 to kMaxSize.
  int64_t size(std::string_view key, const Fallback& fallback = {});
  // Returns an integer from `least` to kMaxCount.
  int64_t count(std::string_view key, int64_t least,
                const Fallback& fallback = {});
  bool flag(std::string_view key, bool absent);
  // Returns a finite number, or `absent` if the key is absent or null. Reports
  // SP009 if the number is not positive.
  double positive(std::string_view key, double absent);
  // Returns "" if the key is absent or null.
  std::string text(std::string_view key);
  // Returns a list of integers; an empty one if the key is absent or null.
  std::vector<int64_t> integers(std::string_view key);
  // Returns the value, unless it is absent or null.
  std::optional<Node> find(std::string_view key) const;
  const Node& map() const { return map_; }
  // Returns "text_config"; "" for the whole config.
  std::string path() const { return path_.substr(0, path_.rfind('.')); }
  // Returns the value, which may be null (see value_at).
  std::optional<Node> at(std::string_view key) const;
  // Returns an integer from `least` to `most`; reports any other value.
  int64_t bounded(std::string_view key, int64_t least, int64_t most,
                  const Fallback& fallback);
  // Returns a reader of an inner map, by its key.
  std::optional<ConfigReader> section(std::string_view key);
  // Returns a reader of an empty map, to replace one that is absent.
  ConfigReader empty_section(std::string_view key) const;

  // Reports SP009 at the value of `key`, or at the map if it has no such key.
  Diagnostics::Builder refuse(std::string_view key, std::string message);
  // Reports the same as a warning.
  Diagnostics::Builder warn(std::string_view key, std::string message);
  // Reports SP002: "`key` must be a list, not text".
  Diagnostics::Builder ill_typed(std::string_view key, const Node& value,
                                 std::string_view wanted);
  // Returns "`text_config.hidden_size`".
  std::string shown(std::string_view key) const {
    return "`" + path_ + std::string(key) + "`";
  }
  // Returns how many errors there are so far, also from other code.
  int64_t errors() const { return diags_.count(Severity::Error); }
  // Returns false once anything has been reported, here or in a section.
  bool ok() const { return errors() == errors_before_; }

 private:
  Span place(std::string_view key) const;

  Node map_;
  std::string path_;
  Diagnostics& diags_;
  int64_t errors_before_;
};

}  // namespace shardplan
