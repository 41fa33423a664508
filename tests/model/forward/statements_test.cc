// SPDX-License-Identifier: Apache-2.0
// What statements of an architecture file become: operations of a graph.
#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "graph/composites.h"
#include "graph/op.h"
#include "model/architecture/layouts.h"
#include "model/architecture/reading.h"
#include "model/architectures.h"
#include "model/forward/forward.h"
#include "model/forward/recognise.h"
#include "tests/support/builders.h"
#include "tests/support/messages.h"

namespace shardplan {
namespace {

std::string attribute_text(const DescribedAttribute& attribute) {
  std::string text = " " + attribute.name + "=";
  if (const auto* number = std::get_if<double>(&attribute.value)) {
    std::string digits = std::to_string(*number);
    digits.erase(digits.find_last_not_of('0') + 1);
    if (digits.back() == '.') digits.pop_back();
    return text + digits;
  }
  if (const auto* word = std::get_if<std::string>(&attribute.value)) {
    return text + *word;
  }
  for (const int64_t size : std::get<std::vector<int64_t>>(attribute.value)) {
    text += (text.back() == '=' ? "" : "x") + std::to_string(size);
  }
  return text;
}

// The operations of a block whose `steps` these are, one a line: a model of
// 2 sequences of 3 tokens, its embedding of width `hidden` 8 as `x`.
std::string operations(const std::string& steps, bool wide = false) {
  const std::string file =
      "architecture: a\ncomputes: true\n"
      "sizes: {vocab: vocab_size, hidden: hidden_size, heads: {is: 4}, "
      "kv_heads: {is: 2}, head_dim: {is: 2}}\n"
      "flags: {wide: wide}\nforward: {numbers: {factor: factor}}\n"
      "blocks:\n"
      "  twice: {takes: {by: null}, forward: [\"t = x * by\", y = t + t]}\n"
      "  inner:\n    steps: [{linear: up, from: hidden, to: hidden}]\n"
      "    forward: {with: {cap: null}, steps: "
      "[\"output = clamp(up(x), max = cap)\"]}\n"
      "  body:\n    steps:\n"
      "      - {embedding: words, rows: vocab, columns: hidden}\n"
      "      - {inner: mlp}\n"
      "    forward:\n      takes: input_ids\n      gives: out\n      steps:\n"
      "        - x = words(input_ids)\n" +
      steps + "classes:\n  A: [{body: \"\"}]\n";
  Diagnostics diags;
  Manifest manifest;
  REQUIRE(manifest.add("words.weight", {DType::F32, {5, 8}}, {}));
  REQUIRE(manifest.add("mlp.up.weight", {DType::F32, {8, 8}}, {}));
  auto architecture = read_user_architecture(
      std::make_shared<const SourceFile>("a.yaml", file),
      [](std::string_view) { return nullptr; }, diags);
  if (!architecture) return testing::messages(diags);
  auto model = recognise_model(manifest,
                               testing::parsed_config({{"vocab_size", 5},
                                                       {"hidden_size", 8},
                                                       {"wide", wide},
                                                       {"factor", 1.0}}),
                               std::move(architecture), diags);
  REQUIRE_MESSAGE(model, testing::messages(diags));
  const auto written = write_forward(*model, {manifest, {2, 3, {}, {}}}, diags);
  if (!written) return testing::messages(diags);
  std::string text;
  for (const DescribedOp& op : written->ops) {
    if (op.op == "embedding") continue;
    text += op.results.front() + " = " + op.op;
    for (const std::string& operand : op.operands) text += " " + operand;
    for (const DescribedAttribute& each : op.attributes) {
      text += attribute_text(each);
    }
    for (size_t i = 0; i < op.axes.size(); ++i) {
      text += (i == 0 ? " as " : ",") + op.axes[i];
    }
    text += "\n";
  }
  return text;
}

TEST_CASE("operators and calls are computed from left to right") {
  CHECK(operations("        - out = (exp(x) + 2) * tanh(-x / 4) - x\n") ==
        "out:exp = exp x\n"
        "out:shift = shift out:exp by=2\n"
        "out:negate = negate x\n"
        "out:scale = scale out:negate by=0.25\n"
        "out:tanh = tanh out:scale\n"
        "out:multiply = multiply out:shift out:tanh\n"
        "last_hidden_state = subtract out:multiply x\n");
}

TEST_CASE("a result that is assigned again has its name last") {
  const std::string steps =
      "        - h = exp(x)\n"
      "        - h = tanh(h) if wide\n"
      "        - h = sigmoid(h) as tokens\n"
      "        - out = h + x\n";
  CHECK(operations(steps, true) ==
        "h:exp = exp x\n"
        "h:tanh = tanh h:exp\n"
        "h = sigmoid h:tanh as BATCH,LENGTH,\n"
        "last_hidden_state = add h x\n");
  CHECK(operations(steps, false) ==
        "h:exp = exp x\n"
        "h = sigmoid h:exp as BATCH,LENGTH,\n"
        "last_hidden_state = add h x\n");
}

TEST_CASE("what multiplies by 1 or adds 0 is left out") {
  CHECK(operations("        - out = exp(x) * factor as tokens\n") ==
        "last_hidden_state = exp x as BATCH,LENGTH,\n");
  CHECK(operations("        - h = x * factor\n        - out = h + 0 + h\n") ==
        "last_hidden_state = add x x\n");
  CHECK(operations("        - h = exp(x)\n        - y = tanh(h)\n"
                   "        - h = h * factor as tokens\n"
                   "        - out = h + y\n") ==
        "h = exp x as BATCH,LENGTH,\n"
        "y = tanh h\n"
        "last_hidden_state = add h y\n");
  // But for a value that nothing here could give the axes.
  CHECK(operations("        - h = exp(x)\n        - out = h * 1 as tokens\n") ==
        "h = exp x\n"
        "last_hidden_state = scale h by=1 as BATCH,LENGTH,\n");
  CHECK(operations("        - h = exp(x)\n        - out = h as tokens\n") ==
        "SP018 a.yaml:21:22 a layout belongs to the statement that computes "
        "the value");
}

TEST_CASE("parts of the last dimension") {
  CHECK(operations("        - a, b, c = split(exp(x), 2, hidden - 4, 2) as "
                   "tokens\n        - out = a + c\n") ==
        "a:exp = exp x\n"
        "a = slice a:exp dim=-1 end=2 as BATCH,LENGTH,\n"
        "b = slice a:exp dim=-1 begin=2 end=6 as BATCH,LENGTH,\n"
        "c = slice a:exp dim=-1 begin=6 end=8 as BATCH,LENGTH,\n"
        "last_hidden_state = add a c\n");
}

TEST_CASE("blocks: arguments of the caller, names of their values") {
  CHECK(operations("        - h = twice(x, by = 3)\n"
                   "        - h = twice(h, by = 5)\n"
                   "        - mlp.output = mlp(h, cap = 2)\n"
                   "        - out = mlp.output\n") ==
        "t = scale x by=3\n"
        "h:twice = add t t\n"
        "h:t = scale h:twice by=5\n"
        "h = add h:t h:t\n"
        "mlp.output:up = einsum h mlp.up.weight equation=bsi,oi->bso\n"
        "mlp.output = clamp mlp.output:up max=2\n");
}

TEST_CASE("heads: grouped, one for all, or as many as queries") {
  const std::string steps =
      "        - q = query_heads(x)\n"
      "        - k = key_heads(slice(x, dim = -1, end = 4)) as keys\n"
      "        - s = attention_scores(q, k)\n"
      "        - out = attention_values(s, k)\n";
  CHECK(operations(steps) ==
        "q = reshape x shape=2x-1x2x2x2\n"
        "k:slice = slice x dim=-1 end=4\n"
        "k = reshape k:slice shape=2x-1x2x2 as "
        "BATCH,KV_LENGTH,KV_HEAD,KV_HEAD_DIM\n"
        "s = einsum q k equation=bqhgd,bkhd->bhgqk\n"
        "last_hidden_state:heads = einsum s k equation=bhgqk,bkhd->bqhgd\n"
        "last_hidden_state = reshape last_hidden_state:heads shape=2x-1x8\n");
  CHECK(
      operations("        - out = query_heads(x, kv_heads = 4) as queries\n") ==
      "last_hidden_state = reshape x shape=2x-1x4x2 as "
      "BATCH,QUERY_LENGTH,HEAD,HEAD_DIM\n");
  CHECK(
      operations("        - out = query_heads(x, kv_heads = 1) as queries\n") ==
      "last_hidden_state = reshape x shape=2x-1x1x4x2 as "
      "BATCH,QUERY_LENGTH,,HEAD,HEAD_DIM\n");
  CHECK(operations("        - out = query_heads(x, kv_heads = 3)\n") ==
        "SP009 config.json:1:1 `query_heads` needs `heads`, `kv_heads` and "
        "`head_dim`");
}

TEST_CASE("statements know the operations of graph files") {
  std::set<std::string_view> known(statement_operations().begin(),
                                   statement_operations().end());
  std::set<std::string_view> all;
  for (const OpDef& op : ops()) all.insert(op.name);
  for (const CompositeDef& each : composites()) all.insert(each.name);
  // The `split` of statements has sizes, and `constraint` a spec, which is said
  // of a value by `as`.
  all.erase("split");
  all.erase("constraint");
  CHECK(known == all);
}

TEST_CASE("a module that is called like an operation is meant") {
  Diagnostics diags;
  const auto read = read_user_architecture(
      std::make_shared<const SourceFile>(
          "a.yaml",
          "architecture: a\ncomputes: true\nsizes: {vocab: v}\nblocks:\n"
          "  b:\n    steps: [{rms_norm: exp, size: 2}]\n"
          "    forward: {takes: input_ids, gives: y, steps: [y = "
          "tanh(exp(input_ids))]}\nclasses:\n  A: [{b: \"\"}]\n"),
      [](std::string_view) { return nullptr; }, diags);
  REQUIRE_MESSAGE(read, testing::messages(diags));
  const auto& steps = read->blocks.at("b").forward->steps;
  REQUIRE(steps.size() == 2);
  CHECK(steps[0].kind == ForwardStep::Kind::Apply);
  CHECK(steps[1].kind == ForwardStep::Kind::Op);
}

TEST_CASE("no block is called like a function of statements") {
  Diagnostics diags;
  read_user_architecture(
      std::make_shared<const SourceFile>(
          "a.yaml",
          "architecture: a\nblocks:\n"
          "  softmax: {forward: {takes: x, gives: x, steps: []}}\n"
          "classes:\n  A: []\n"),
      [](std::string_view) { return nullptr; }, diags);
  CHECK(testing::messages(diags) ==
        "SP018 a.yaml:3:3 `softmax` cannot be the name of a block: statements "
        "have a function of this name");
}

TEST_CASE("layouts have names of their own, and axes of their rank") {
  std::set<std::string_view> names;
  for (const ValueLayout& each : kValueLayouts) {
    CHECK(names.insert(each.name).second);
    CHECK(layout_axes(each, each.rank, 0).size() == each.rank);
  }
  const ValueLayout& queries = *find_layout("queries");
  using Axes = std::vector<std::string>;
  CHECK(layout_axes(queries, 5, 2) ==
        Axes{"BATCH", "QUERY_LENGTH", "KV_HEAD", "", "HEAD_DIM"});
  CHECK(layout_axes(queries, 5, 1) ==
        Axes{"BATCH", "QUERY_LENGTH", "", "HEAD", "HEAD_DIM"});
  CHECK(layout_axes(*find_layout("keys"), 4, 1) ==
        Axes{"BATCH", "KV_LENGTH", "", "KV_HEAD_DIM"});
}

}  // namespace
}  // namespace shardplan
