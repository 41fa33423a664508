// SPDX-License-Identifier: Apache-2.0
// The targets of `export`, one file each, as io/export.cc lists them.
#pragma once

#include "io/export.h"

namespace shardplan {

// Our own rules format; docs/formats/rules.md.
extern const ExportTarget kYamlTarget;
extern const ExportTarget kJsonTarget;
// A table of (pattern, PartitionSpec), as EasyLM, EasyDeL and eFormer have it.
extern const ExportTarget kPythonTarget;
// A module with a PartitionSpec per parameter and a function that makes the
// mesh.
extern const ExportTarget kJaxTarget;
// Logical axis rules: of flax as Python, of MaxText as YAML.
extern const ExportTarget kFlaxTarget;
extern const ExportTarget kMaxTextTarget;
// Of Hugging Face, of PyTorch, and of StableHLO.
extern const ExportTarget kHfTpPlanTarget;
extern const ExportTarget kDtensorTarget;
extern const ExportTarget kShardyTarget;

}  // namespace shardplan
