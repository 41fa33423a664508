// SPDX-License-Identifier: Apache-2.0
// The header of a safetensors file: the names, types and positions of its
// tensors.
//
// A file is a length N (8 bytes, little endian), N bytes of JSON,
//
//   {"__metadata__": {"format": "pt"},
//    "wte.weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}
//
// and the data. Offsets count from the start of the data. The data is never
// read here (open_weights() in io/load.h reads it) and may be absent. As in the
// format's reference implementation, tensors fill the data without holes or
// overlaps, in any order, and nothing follows it. Source:
// github.com/huggingface/safetensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/host.h"
#include "base/source.h"
#include "core/manifest.h"

namespace shardplan {

inline constexpr int64_t kMaxSafetensorsHeader = 100'000'000;  // bytes

// A repository has this in place of a large file that was not fetched.
inline constexpr std::string_view kLfsPointer = "version https://git-lfs";

// Returns whether a file starts with a length and the `{` of a header.
bool is_safetensors(std::string_view head);

// Returns the bytes of the length and the header, as given by the file's first
// 8 bytes; 8 when the header is too long to be read.
int64_t safetensors_bytes_needed(std::string_view head);

// The facts in a header besides the names and types of tensors.
struct SafetensorsHeader {
  bool data_absent = false;
  int64_t data_begin = 0;  // offset in the file
  // Per parameter, then per buffer: where its data begins, counted from
  // data_begin. The end of the data is within 63 bits, but may be beyond the
  // end of the file.
  std::vector<int64_t> begins;
};

// Reads a header from a file's first bytes; `file_size` is the size of the
// whole file. Appends the tensors to `into` in the file's order, known buffers
// as buffers; on failure some may have been added. Does not check that names
// are unique (check_distinct() does). Spans count from the header's first
// character.
std::optional<SafetensorsHeader> read_safetensors_header(const SourcePtr& file,
                                                         int64_t file_size,
                                                         Manifest& into,
                                                         Diagnostics& diags);

// Reads no more than the header of the file at `path`.
std::optional<SafetensorsHeader> open_safetensors(const std::string& path,
                                                  Host& host, Manifest& into,
                                                  Diagnostics& diags);

}  // namespace shardplan
