// SPDX-License-Identifier: Apache-2.0
#include "io/export.h"

#include <array>

#include "io/exporters/exporters.h"

namespace shardplan {

std::span<const ExportTarget> export_targets() {
  static const std::array<ExportTarget, 9> kTargets = {
      kYamlTarget,     kJsonTarget,    kPythonTarget,
      kJaxTarget,      kFlaxTarget,    kMaxTextTarget,
      kHfTpPlanTarget, kDtensorTarget, kShardyTarget,
  };
  return kTargets;
}

const ExportTarget* find_export_target(std::string_view name) {
  for (const ExportTarget& target : export_targets()) {
    if (target.name == name) return &target;
  }
  return nullptr;
}

}  // namespace shardplan
