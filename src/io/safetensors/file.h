// SPDX-License-Identifier: Apache-2.0
// The header of a safetensors file: names, types and places of its tensors.
//
// A file is a length N (8 bytes, little endian), N bytes of JSON,
//
//   {"__metadata__": {"format": "pt"},
//    "wte.weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}
//
// and the data that the offsets, counted from its start, point into. The data
// is never read here (open_weights does, io/load.h) and may be absent. As
// in the format's reference implementation, tensors fill the data without holes
// or overlaps, in any order, and nothing follows it. Facts:
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

// Whether a file starts with a length and the `{` of a header.
bool is_safetensors(std::string_view head);

// Bytes of length and header, as the file's first 8 bytes tell; 8 when the
// header would be too long to be read.
int64_t safetensors_bytes_needed(std::string_view head);

// What a header says beside names and types of tensors.
struct SafetensorsHeader {
  bool data_absent = false;
  int64_t data_begin = 0;  // in the file
  // Per parameter, then per buffer, where its data begins, counted from
  // data_begin; its end is within 63 bits, but may lie behind the end of the
  // file.
  std::vector<int64_t> begins;
};

// Reads a header out of a file's first bytes; `file_size` is that of the whole
// file. Its tensors go behind those of `into`, in its order, known buffers as
// buffers; where it is refused some may be there. That names are unique is not
// checked (check_distinct). Places count from the header's first character.
std::optional<SafetensorsHeader> read_safetensors_header(const SourcePtr& file,
                                                         int64_t file_size,
                                                         Manifest& into,
                                                         Diagnostics& diags);

// Reads no more than the header of the file at `path`.
std::optional<SafetensorsHeader> open_safetensors(const std::string& path,
                                                  Host& host, Manifest& into,
                                                  Diagnostics& diags);

}  // namespace shardplan
