// SPDX-License-Identifier: Apache-2.0
// Documents as strings of bytes, from which they are there at once.
//
// The files of rules/ are part of the program, and reading one parses YAML: of
// `check` of a model by its config that was three quarters. So they are parsed
// when the program is built (src/shipped/main.cc), and parse_document() takes
// the packed document of a shipped text in place of the text's syntax. Places
// are those of the text, and texts are views of it, as if it had been parsed.
//
// Nodes follow each other as in the text. Numbers are LEB128, a place is the
// distance from where the last one began.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/source.h"
#include "syntax/document.h"

namespace shardplan {

std::string pack_document(const Document& document);

// REQUIRES: `packed` is pack_document() of a document of this text.
Document unpack_document(std::string_view packed, SourcePtr source);

// Of shipped_files() (base/shipped.h), in their order; empty for what is not
// YAML. All are empty in the program that makes them.
std::span<const std::string_view> packed_shipped_files();

}  // namespace shardplan
