// SPDX-License-Identifier: Apache-2.0
// Equations of einsum: what is accepted prints back to itself, and fits shapes
// of its own ranks with every letter as a factor.
#include <map>
#include <vector>

#include "graph/op.h"
#include "graph/ops/einsum.h"
#include "tests/fuzz/fuzz.h"

FUZZ_TARGET(einsum) {
  using namespace shardplan;
  const std::string_view text = fuzz::text_of(data, size);
  Diagnostics diags;
  const auto equation = parse_equation(text, {}, diags);
  fuzz::require(equation.has_value() || diags.has_errors(),
                "a refusal has a reason");
  if (!equation) return 0;
  fuzz::require(parse_equation(equation_text(*equation), {}, diags) == equation,
                "an equation prints as it is read");
  const OpDef& einsum = *find_op("einsum");
  const Attributes attributes = {{"equation", std::string(text)}};
  std::vector<Shape> shapes;
  for (const std::string& letters : equation->operands) {
    Shape& shape = shapes.emplace_back();
    for (const char letter : letters) shape.push_back(letter % 3);
  }
  const auto result = einsum.infer(shapes, attributes, {}, diags);
  fuzz::require(result.has_value(), "sizes that agree fit");
  fuzz::require(result->size() == equation->result.size(),
                "the result has the rank that is written");
  const ShardingRule rule = einsum.rule(shapes, attributes);
  fuzz::require(rule.factors.size() == letters_of(*equation).size(),
                "every letter is a factor");
  fuzz::require(einsum.flops(shapes, *result, attributes) >= 0,
                "a count is not negative");
  return 0;
}
