// SPDX-License-Identifier: Apache-2.0
// Partition rules as Python code has them:
//
//   (
//       ("embed_tokens/embedding", PartitionSpec("tp", ("fsdp", "sp"))),
//       (r".*norm.*", PS(None)),
//   )
//
// alone, behind a `return` or an assignment, or anywhere in a whole module.
// Nothing is executed: a table consists of literals. `PartitionSpec`, `PS` and
// `P` are read, with or without the modules in front.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/diagnostic.h"
#include "base/source.h"
#include "core/rules.h"

namespace shardplan {

// Whether a text holds such a table.
bool looks_like_python_rules(std::string_view text);

// Appends the rules of the table named `table`, or of the only one. False, with
// the reason reported, when there is none, there are several to choose from, or
// the table is not literal.
bool read_python_rules(const SourcePtr& source,
                       const std::optional<std::string>& table, RuleSet& rules,
                       Diagnostics& diags);

}  // namespace shardplan
