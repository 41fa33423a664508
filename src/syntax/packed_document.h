// SPDX-License-Identifier: Apache-2.0
// Packed documents: Documents serialised as bytes, so that loading them needs
// no parsing.
//
// The files of rules/ are part of the program, and parsing their YAML was three
// quarters of the time of `check` for a model given by its config. So they are
// parsed when the program is built (src/shipped/main.cc), and parse_document()
// unpacks the document of a shipped text instead of parsing it. Locations refer
// to the text, and texts are views of it, as after parsing.
//
// Nodes are stored in the order of the text. Numbers are LEB128; a location is
// the distance from the beginning of the previous one.
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

// The packed documents of shipped_files() (base/shipped.h), in the same order;
// empty for files that are not YAML. All are empty in the program that creates
// them.
std::span<const std::string_view> packed_shipped_files();

}  // namespace shardplan
