// SPDX-License-Identifier: Apache-2.0
// The header of a GGUF file (versions 2 and 3): metadata, and the names, types
// and positions of its tensors.
//
//   "GGUF"  version:u32  tensors:u64  pairs:u64
//   pairs of metadata (GgufMetadata)
//   tensors: name:text  n:u32  sizes:u64[n]  type:u32  offset:u64
//   zeros up to general.alignment (32), then the data
//
// A file lists sizes fastest first; they are read in reverse, which is the
// usual order. Offsets count from the start of the data and are multiples of
// the alignment. The data is never read and may be absent. A row, which is the
// last dimension, consists of whole blocks. Source: github.com/ggml-org/ggml,
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

// Returns whether a file starts with `GGUF`.
bool is_gguf(std::string_view head);

// Returns the bytes up to the end of the header; the largest integer if `head`
// ends before it.
int64_t gguf_bytes_needed(std::string_view head);

// The facts in a header besides the names and types of tensors.
struct GgufHeader {
  GgufMetadata metadata;
  bool data_absent = false;
};

// Reads a header from a file's first bytes; `file_size` is the size of the
// whole file. Appends the tensors to `into` in the file's order; on failure
// some may have been added. Facts and the model's name come from the first
// header. Does not check that names are unique (check_distinct() in io/shards.h
// does). Spans point into a listing of the tensors, one per line, because the
// file is not text.
std::optional<GgufHeader> read_gguf_header(const SourcePtr& file,
                                           int64_t file_size, Manifest& into,
                                           Diagnostics& diags);

// The numbers that ggml uses for element types.

// Returns nullopt for a number that ggml does not define, has removed, or that
// this version does not read.
std::optional<DType> ggml_dtype(uint32_t number);

// The name of such a type and the reason: "Q4_0_4_4", "which ggml has removed".
// refused_ggml_type() returns nullopt if the number is unknown.
struct RefusedType {
  std::string_view name;
  std::string_view why;
};
std::optional<RefusedType> refused_ggml_type(uint32_t number);

}  // namespace shardplan
