// SPDX-License-Identifier: Apache-2.0
// Axes of specs in recordings.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "core/axis_name.h"

namespace shardplan {

// nlohmann's `get` finds it.
inline void from_json(const nlohmann::json& json, AxisName& name) {
  name = json.get_ref<const std::string&>();
}

}  // namespace shardplan
