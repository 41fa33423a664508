// SPDX-License-Identifier: Apache-2.0
// Units as text, for tables of names and types.
#pragma once

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "model/units.h"
#include "tests/support/builders.h"

namespace shardplan::testing {

inline Facts attention_facts(int64_t heads, int64_t kv_heads,
                             int64_t head_dim) {
  Facts facts;
  facts.from = FactsFrom::Config;
  facts.heads = heads;
  facts.kv_heads = kv_heads;
  facts.head_dim = head_dim;
  return facts;
}

// "0: 32 head, 1: 1 KV head"; the parts of a packed one: "0: q 64 k 16 v 16".
inline std::string units_text(const std::vector<Unit>& units) {
  std::string text;
  for (const Unit& unit : units) {
    if (!text.empty()) text += ", ";
    text += std::to_string(unit.dim) + ":";
    if (unit.parts.empty()) {
      text += " " + std::to_string(unit.count) + " " +
              std::string(unit_name(unit.kind));
    }
    for (const Part& part : unit.parts) {
      text += " " + std::string(part.name) + " " + std::to_string(part.rows);
    }
  }
  return text;
}

struct UnitRow {
  std::string name;
  std::string type;
  std::string units;
};

inline void check_units(const std::vector<UnitRow>& rows, const Facts& facts,
                        const LayoutHints& hints = {}) {
  for (const UnitRow& row : rows) {
    CAPTURE(row.name);
    CAPTURE(row.type);
    CHECK(units_text(units_of(row.name, type(row.type), facts, hints)) ==
          row.units);
  }
}

}  // namespace shardplan::testing
