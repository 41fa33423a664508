// SPDX-License-Identifier: Apache-2.0
// Reads the values that a saved plan is made of, one by one.
//
// Each function starts and ends as JsonReader's functions do; false means that
// the reason has been reported.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/plan.h"
#include "syntax/json.h"

namespace shardplan {

// Sets `value` to the one with that name; `names` are in the order of the
// values. Returns false, with nothing reported, if there is none.
template <typename Names, typename Value>
bool choose(const Names& names, std::string_view name, Value& value) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return false;
  value = static_cast<Value>(found - names.begin());
  return true;
}

// Reads a name, which need not be a mesh axis.
bool read_name(JsonReader& json, std::string_view what, AxisName& name);
// Reads the name of an axis, or the name that stands for UNCONSTRAINED, which a
// requested spec may contain.
bool read_axis_name(JsonReader& json, std::string_view what, AxisName& axis);
// These read names with one of the functions above.
using ReadName = bool (*)(JsonReader&, std::string_view, AxisName&);
bool read_names(JsonReader& json, std::string_view what, ReadName read,
                AxisNames& names);
bool read_spec(JsonReader& json, std::string_view what, ReadName read,
               PartitionSpec& spec);
// Reads an integer from 0 to `limit`.
bool read_int(JsonReader& json, std::string_view what, int64_t limit,
              int& value);
bool read_view_name(JsonReader& json, std::string& name);
// Reads everything but the size of the axis.
bool read_dealt(JsonReader& json, ExpertPlacement& dealt);
bool read_rule(JsonReader& json, PlanRule& rule);
// Appends a correction.
bool read_correction(JsonReader& json, std::vector<Correction>& corrections);
// Appends a dimension that is stored as declared.
bool read_stored_dim(JsonReader& json, std::vector<StoredDim>& stored);
// Adds a declaration in the syntax of the flag.
bool read_declaration(JsonReader& json, Declarations& declarations);
// Reads the value of key `dtype` or `shape` (SP005 for an unknown dtype).
bool read_type_key(JsonReader& json, const std::string& key, TensorType& type,
                   Diagnostics& diags);

}  // namespace shardplan
