// SPDX-License-Identifier: Apache-2.0
// A model's rules exported: the text, or what could not be said.
#pragma once

#include <string>

#include "io/export.h"
#include "resolve/resolve.h"
#include "tests/support/builders.h"
#include "tests/support/messages.h"

namespace shardplan::testing {

struct Exporting {
  Manifest model;
  RuleSet rules;
  Mesh mesh;
  ResolveOptions how = {};
  bool saved = false;  // without its rules
};

// The text, then diagnostics, a line each.
inline std::string exported(const char* target, const Exporting& what) {
  Diagnostics diags;
  const auto plan = resolve(what.model, what.rules, what.mesh, what.how, diags);
  if (!plan) return messages(diags);
  ExportInput input{what.model, *plan};
  if (what.saved) {
    input.no_rules = "a saved plan has no rules";
  } else {
    input.rules = &what.rules;
  }
  input.origin = {"model: m.json"};
  const auto text = export_text(*find_export_target(target), input, diags);
  return text.value_or("") + messages(diags);
}

}  // namespace shardplan::testing
