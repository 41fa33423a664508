// SPDX-License-Identifier: Apache-2.0
// Tiny checkpoints of every family against what transformers computes from them
// (tests/data/record_checkpoints.py).
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "base/real_host.h"
#include "graph/evaluate.h"
#include "graph/stored.h"
#include "io/checkpoint.h"
#include "io/load.h"
#include "io/model_config.h"
#include "sim/expected.h"
#include "tests/support/messages.h"
#include "tests/support/source_dir.h"
#include "tests/support/whole_model.h"

namespace shardplan {
namespace {

namespace fs = std::filesystem;

using testing::messages;
using testing::whole_model;
using testing::WholeModel;

fs::path checkpoints() { return source_dir() / "tests/data/checkpoints"; }

// Folders, whose names start with that of the recording: "llama-flax" holds the
// numbers of "llama".
std::vector<std::string> checkpoint_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(checkpoints())) {
    if (entry.is_directory()) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

struct Numbers {
  Manifest manifest;
  StoredTensors tensors;

  const StoredTensor& at(std::string_view name) const {
    for (size_t i = 0; i < manifest.size(); ++i) {
      if (manifest.name(i) == name) return tensors[i];
    }
    FAIL("no tensor " << name);
    return tensors.front();
  }
};

Numbers open(const fs::path& path, Host& host) {
  Diagnostics diags;
  auto manifest = load_manifest(path, host, diags);
  CAPTURE(messages(diags));
  REQUIRE(manifest);
  CHECK(has_weights(path, host));
  auto tensors = open_weights(path, *manifest, host, diags);
  REQUIRE(tensors);
  return {*std::move(manifest), *std::move(tensors)};
}

fs::path expected_path(const std::string& name) {
  fs::path own = checkpoints() / (name + ".expected.safetensors");
  if (fs::exists(own)) return own;
  const std::string origin = name.substr(0, name.find('-'));
  return checkpoints() / (origin + ".expected.safetensors");
}

// Token ids of 64 bits.
Tensor tokens_of(const StoredTensor& stored) {
  REQUIRE(stored.dtype == DType::I64);
  Tensor tokens = make_tensor(Element::F32, stored.shape);
  for (int64_t i = 0; i < tokens.elements(); ++i) {
    int64_t id = 0;
    std::memcpy(&id, stored.data + static_cast<size_t>(i) * sizeof id,
                sizeof id);
    tokens.data<float>()[i] = static_cast<float>(id);
  }
  return tokens;
}

// The largest error over the outputs, each relative to its largest number.
struct Agreement {
  size_t outputs = 0;
  double error = 0;
  std::unique_ptr<WholeModel> model;
};

Agreement agreement(const std::string& name) {
  const auto host = make_real_host();
  Numbers weights = open(checkpoints() / name, *host);
  const Numbers expected = open(expected_path(name), *host);
  const Tensor tokens = tokens_of(expected.at("input_ids"));
  Diagnostics diags;
  auto config = find_model_config(checkpoints() / name, *host, diags);
  CAPTURE(messages(diags));
  REQUIRE(config);

  Agreement result;
  ForwardPass pass;
  pass.batch = tokens.shape[0];
  pass.length = tokens.shape[1];
  result.model = whole_model(weights.manifest, *config, pass);
  const WholeModel& model = *result.model;
  CAPTURE(model.messages);
  REQUIRE(model.graph);
  const Graph& graph = *model.graph;
  std::vector<Tensor> given(graph.values.size());
  for (size_t v = 0; v < given.size(); ++v) {
    const Value& value = graph.values[v];
    if (value.kind == Value::Kind::Parameter) {
      given[v] = load(weights.at(value.parameter), Element::F32);
    } else if (value.integers_below > 0) {
      given[v] = tokens;
    }
  }
  const std::vector<Tensor> values = evaluate(graph, given, Arithmetic::F32);
  std::vector<Tensor> outputs;
  for (const int output : graph.outputs) {
    outputs.push_back(values[static_cast<size_t>(output)]);
  }
  const auto errors = compare_expected(
      graph, outputs, outputs, expected.manifest, expected.tensors, diags);
  REQUIRE(errors);
  result.outputs = errors->size();
  for (const ExpectedError& error : *errors) {
    CHECK(error.agrees());
    result.error = std::max(result.error, error.unsharded);
  }
  return result;
}

TEST_CASE("every tiny checkpoint gives the logits of its framework") {
  const std::vector<std::string> names = checkpoint_names();
  CHECK(names.size() >= 14);
  std::set<std::string_view> families;
  for (const std::string& name : names) {
    CAPTURE(name);
    const Agreement result = agreement(name);
    CAPTURE(result.error);
    families.insert(result.model->family->name);
    CHECK(result.outputs == result.model->graph->outputs.size());
    // Every weight matters: none is left unread.
    std::set<std::string> read;
    for (const Value& value : result.model->graph->values) {
      if (value.kind == Value::Kind::Parameter) read.insert(value.parameter);
    }
    CHECK(read.size() == result.model->manifest.size());
  }
  for (const Family& family : model_families()) {
    CAPTURE(family.name);
    CHECK(families.count(family.name) == 1);
  }
}

}  // namespace
}  // namespace shardplan
