// SPDX-License-Identifier: Apache-2.0
// The header of a GGUF file (versions 2 and 3): metadata, and names, types and
// places of its tensors.
//
//   "GGUF"  version:u32  tensors:u64  pairs:u64
//   pairs of metadata (metadata.h)
//   tensors: name:text  n:u32  sizes:u64[n]  type:u32  offset:u64
//   zeros up to general.alignment (32), then the data
//
// Sizes are listed fastest first and read the other way round, as everybody
// else has them. Offsets count from the data's start and are multiples of the
// alignment. The data is never read and may be absent. A row, that is the last
// dimension, consists of whole blocks. Facts: github.com/ggml-org/ggml,
// docs/gguf.md; github.com/ggml-org/llama.cpp, ggml/src/gguf.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/diagnostic.h"
#include "base/source.h"
#include "core/manifest.h"
#include "core/types.h"
#include "io/gguf/metadata.h"

namespace shardplan {

// Whether a file starts with `GGUF`.
bool is_gguf(std::string_view head);

// Bytes up to the end of the header; the largest number when `head` does not
// reach it.
int64_t gguf_bytes_needed(std::string_view head);

struct GgufHeader {
  Manifest manifest;  // in the file's order, with facts and remarks
  GgufMetadata metadata;
  bool data_absent = false;
};

// Reads a header out of a file's first bytes; `file_size` is that of the whole
// file. Places are in a listing of the tensors, one a line, since the file
// itself is no text.
std::optional<GgufHeader> read_gguf_header(const SourcePtr& file,
                                           int64_t file_size,
                                           Diagnostics& diags);

// ggml's numbers for element types.

// Empty for a number that ggml does not have, has no longer, or that this
// version does not read.
std::optional<DType> ggml_dtype(uint32_t number);

// The name of such a type, and what became of it: "Q4_0_4_4", "which ggml has
// removed". Empty when the number is unknown.
struct RefusedType {
  std::string_view name;
  std::string_view why;
};
std::optional<RefusedType> refused_ggml_type(uint32_t number);

}  // namespace shardplan
