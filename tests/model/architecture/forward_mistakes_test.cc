// SPDX-License-Identifier: Apache-2.0
// Mistakes in the forward passes of architecture files.
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "tests/support/read_architecture.h"

namespace shardplan {
namespace {

using testing::architecture_problems;

// What is wrong with the forward pass of a block that has a linear layer `q`.
std::string forward_problems(
    const std::string& steps,
    const std::string& inputs = "{x: {shape: [batch, 2 * length]}}") {
  return architecture_problems(
      "architecture: a\ncomputes: true\nblocks:\n  b:\n    steps:\n"
      "      - {linear: q, to: 1, from: 1}\n"
      "      - {rms_norm: n, size: 1}\n"
      "      - {repeat: 2, name: \"l.{i}\", steps: [{linear: r, to: 1, from: "
      "1}]}\n"
      "    forward:\n      takes: x\n      gives: y\n"
      "      steps:\n" +
      steps + "classes:\n  A: [{b: \"\"}]\n" + "forward: {inputs: " + inputs +
      "}\n");
}

TEST_CASE("mistakes of a forward pass are reported with their places") {
  const std::pair<const char*, const char*> rows[] = {
      {"        - y = q(x)\n", ""},
      {"        - y = q(-(x / 2 + 1) * 3 - x) as [BATCH, null, LENGTH] if 1 > "
       "0\n",
       ""},
      // As it was written before there were statements.
      {"        - {apply: q, in: \"x:y\", out: y, when: 2 > 1}\n",
       "SP018 a.yaml:13:12 `{apply: ..}` is no longer a step: steps are "
       "written as statements"},
      {"        - {aply: q, in: x, out: y}\n",
       "SP004 a.yaml:13:12 unknown key `aply`"},
      {"        - y q(x)\n",
       "SP018 a.yaml:13:11 `y q(x)` is not a valid statement: `=` is missing "
       "after the "
       "results"},
      {"        - y = q(x\n",
       "SP018 a.yaml:13:11 `y = q(x` is not a valid statement: a `)` is "
       "missing"},
      {"        - y = q(x) x\n",
       "SP018 a.yaml:13:11 `y = q(x) x` is not a valid statement: unexpected "
       "`x`"},
      {"        - y = 2 * length\n",
       "SP018 a.yaml:13:15 `2 * length` is not a value that an earlier step "
       "makes"},
      {"        - y = 1 / x\n",
       "SP018 a.yaml:13:15 a number cannot be divided by a value"},
      {"        - y = x % 2\n",
       "SP018 a.yaml:13:15 `//` and `%` are for sizes, not for values"},
      {"        - y = p(x)\n",
       "SP018 a.yaml:13:15 `p` is no module of the block, no block without "
       "modules and no operation"},
      {"        - y = q(z)\n",
       "SP018 a.yaml:13:17 `z` is not a value that an earlier step makes"},
      {"        - y = q(x, x)\n",
       "SP018 a.yaml:13:15 a module reads and returns exactly one value"},
      {"        - y = q()\n", "SP018 a.yaml:13:15 `q` reads no value"},
      {"        - y, z = exp(x)\n",
       "SP018 a.yaml:13:18 this gives exactly one value"},
      {"        - y = attend(x)\n",
       "SP018 a.yaml:13:15 `attend` reads 3 values and gives 1\n"
       "SP018 a.yaml:13:15 `heads` is not defined here\n"
       "SP018 a.yaml:13:15 `kv_heads` is not defined here\n"
       "SP018 a.yaml:13:15 `head_dim` is not defined here"},
      // A statement with a mistake leaves no mistake to those that read it.
      {"        - z = q(w)\n        - y = exp(z)\n",
       "SP018 a.yaml:13:17 `w` is not a value that an earlier step makes"},
      {"        - y = x + weight(q, p)\n",
       "SP018 a.yaml:13:19 the block has no module `p`"},
      {"        - y = x * (1 / sise)\n",
       "SP018 a.yaml:13:19 `sise` is not defined here"},
      {"        - y = q(x) as [BATCH, 2 + 3]\n",
       "SP018 a.yaml:13:31 an axis must be a name, or null"},
      {"        - y = q(x) as tokns\n",
       "SP018 a.yaml:13:23 there is no layout `tokns`"},
      {"        - y = gelu(x, approximate = none)\n",
       "SP018 a.yaml:13:37 `approximate` must be a text in quotes"},
      {"        - y = reshape(x, [batch, , 2])\n",
       "SP018 a.yaml:13:11 `y = reshape(x, [batch, , 2])` is not a valid "
       "statement: "
       "unexpected `,`"},
      {"        - y, z = split(x, 1)\n",
       "SP018 a.yaml:13:18 `split(x, a, b)` needs a size for each of the names "
       "before `=`"},
      {"        - y = exp(split(x, 1))\n",
       "SP018 a.yaml:13:19 `split` must be the whole right side of a "
       "statement"},
      {"        - y = query_heads(x)\n",
       "SP018 a.yaml:13:15 `heads` is not defined here\n"
       "SP018 a.yaml:13:15 `head_dim` is not defined here"},
      {"        - y = experts(x, x, x, of = e, count = 2, size = 2, activation "
       "= "
       "'silu')\n",
       "SP018 a.yaml:13:15 `hidden` is not defined here"},
      {"        - y = experts(x, x, x, of = e, count = 2, size = 2, mix = m)\n",
       "SP018 a.yaml:13:15 `hidden` is not defined here\n"
       "SP018 a.yaml:13:15 there is no block `m` without modules"},
      {"        - y = experts(x, x, x, of = e, count = 2, size = 2, mix = "
       "attend)\n",
       "SP018 a.yaml:13:15 `hidden` is not defined here\n"
       "SP018 a.yaml:13:15 `attend` reads 3 values and gives 1\n"
       "SP018 a.yaml:13:15 `heads` is not defined here\n"
       "SP018 a.yaml:13:15 `kv_heads` is not defined here\n"
       "SP018 a.yaml:13:15 `head_dim` is not defined here"},
      {"        - y = experts(x, x, x, of = e, count = 2, size = 2)\n",
       "SP018 a.yaml:13:15 `experts` needs `activation`"},
      {"        - y = experts(x, of = e, count = 2, size = 2)\n",
       "SP018 a.yaml:13:15 `experts` reads 3 values, not 1"},
      {"        - {require: true}\n        - y = x\n",
       "SP018 a.yaml:13:12 `require` has no `else`"},
      {"        - {repeat: m, carry: x = x, steps: [y = x]}\n",
       "SP018 a.yaml:13:12 the block has no repeated module `m`\nSP018 "
       "a.yaml:10:7 `y` is not defined here"},
      {"        - {repeat: \"l.{i}\", carry: x, steps: [y = x]}\n",
       "SP018 a.yaml:13:12 `repeat` needs `carry: NAME = FIRST` and `steps`"},
      {"        - {repeat: \"l.{i}\", carry: x = x, steps: []}\n",
       "SP018 a.yaml:13:50 the last step of `repeat` must make the value that "
       "the next layer reads"},
      // Made in one of two cases, it may not be there.
      {"        - switch:\n"
       "            - {when: length > 2, steps: [y = q(x)]}\n"
       "            - {steps: []}\n",
       "SP018 a.yaml:10:7 `y` is not defined here"},
  };
  for (const auto& row : rows) {
    const std::string steps = row.first;
    CAPTURE(steps);
    CHECK(forward_problems(steps) == row.second);
  }
  const std::pair<const char*, const char*> inputs[] = {
      {"{x: {shape: [batch, 2, 3], axes: [BATCH, null, null], below: 9}}", ""},
      {"{y: {shape: [batch]}}", "SP018 a.yaml:10:7 `x` is not a model input"},
      {"{x: {axes: []}}", "SP018 a.yaml:16:20 an input needs a list `shape`"},
      {"{x: {shape: [batch], axes: [BATCH, null]}}",
       "SP018 a.yaml:16:20 an input needs one entry of `axes` per dimension"},
      {"{x: {shape: [bach]}}", "SP018 a.yaml:16:32 `bach` is not defined here"},
      {"{x: {shape: [batch], blow: 3}}",
       "SP004 a.yaml:16:40 unknown key `blow`"},
      {"[x]", "SP002 a.yaml:16:19 `inputs` must be a map, not a list"},
  };
  for (const auto& row : inputs) {
    const auto& text = row.first;
    CAPTURE(text);
    CHECK(forward_problems("        - y = q(x)\n", text) == row.second);
  }
  // An architecture that does not say `computes` is not held to it.
  CHECK(architecture_problems(
            "architecture: a\nblocks:\n  b:\n    steps: []\n    forward: "
            "{takes: x, gives: z, steps: []}\nclasses:\n  A: []\n") == "");
}

}  // namespace
}  // namespace shardplan
