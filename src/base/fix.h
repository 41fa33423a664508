// SPDX-License-Identifier: Apache-2.0
// Fix: a change that was tried and found to remove a finding, as data.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/source.h"

namespace shardplan {

// Bytes [where.begin, where.end) of a user's file become `text`.
struct TextEdit {
  Span where;
  std::string text;
};

enum class FixKind : uint8_t {
  AxisSize,      // give mesh axis `axis` the size `size`
  PadDimension,  // pad dimension `dim` of the parameters to `size`
  Declare,       // `--declare` what `declaration` says
  RuleEdit,      // change the rules as `edits` say
};
inline std::string_view fix_kind_name(FixKind kind) {
  constexpr std::array<std::string_view, 4> kNames = {
      "axis-size", "pad-dimension", "declare", "rule-edit"};
  return kNames.at(static_cast<size_t>(kind));
}

struct Fix {
  FixKind kind = FixKind::RuleEdit;
  std::string text;  // one line, as a statement without full stop
  // Bytes per device after it minus before: of the fullest device, and of the
  // finding's parameters alone.
  int64_t bytes_per_device = 0;
  int64_t finding_bytes_per_device = 0;
  std::string axis;
  int64_t size = 0;
  int dim = -1;
  std::string declaration;  // "replicate-kv-heads"
  // PadDimension: whose dimension, where the finding does not name them.
  std::vector<std::string> parameters;
  // Of one file, ascending and apart from one another. Empty for a rule edit
  // that has to be made by hand: in a shipped set, or where the layout of the
  // file does not allow it.
  std::vector<TextEdit> edits;
};

}  // namespace shardplan
