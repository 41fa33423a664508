// SPDX-License-Identifier: Apache-2.0
// Tiny checkpoints of every family against what transformers computes from them
// (tests/data/record_checkpoints.py).
#include <algorithm>
#include <cstring>
#include <filesystem>
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
using testing::simulated;
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

// A checkpoint as a graph with its numbers, and what must come out.
struct Checkpoint {
  Numbers weights;
  Numbers expected;
  Tensor tokens;
  std::unique_ptr<WholeModel> model;

  const Graph& graph() const { return *model->graph; }
  Tensor read(int number, Element element) const {
    const Value& value = graph().values[static_cast<size_t>(number)];
    if (value.integers_below > 0) return converted(tokens, element);
    return load(weights.at(value.parameter), element);
  }
};

Checkpoint read_checkpoint(const std::string& name) {
  const auto host = make_real_host();
  Checkpoint result;
  result.weights = open(checkpoints() / name, *host);
  result.expected = open(expected_path(name), *host);
  result.tokens = tokens_of(result.expected.at("input_ids"));
  Diagnostics diags;
  const auto config = find_model_config(checkpoints() / name, *host, diags);
  CAPTURE(messages(diags));
  REQUIRE(config);
  ForwardPass pass;
  pass.batch = result.tokens.shape[0];
  pass.length = result.tokens.shape[1];
  result.model = whole_model(result.weights.manifest, *config, pass);
  CAPTURE(result.model->messages);
  REQUIRE(result.model->graph);
  return result;
}

void check_agreement(const Checkpoint& checkpoint,
                     const std::vector<Tensor>& unsharded,
                     const std::vector<Tensor>& sharded) {
  Diagnostics diags;
  const auto errors = compare_expected(checkpoint.graph(), unsharded, sharded,
                                       checkpoint.expected.manifest,
                                       checkpoint.expected.tensors, diags);
  CAPTURE(messages(diags));
  REQUIRE(errors);
  CHECK(errors->size() == checkpoint.graph().outputs.size());
  for (const ExpectedError& error : *errors) {
    CAPTURE(error.unsharded);
    CAPTURE(error.sharded);
    CHECK(error.agrees());
  }
}

TEST_CASE("every tiny checkpoint gives the logits of its framework") {
  const std::vector<std::string> names = checkpoint_names();
  CHECK(names.size() >= 14);
  std::set<std::string_view> families;
  for (const std::string& name : names) {
    CAPTURE(name);
    const Checkpoint checkpoint = read_checkpoint(name);
    const Graph& graph = checkpoint.graph();
    families.insert(checkpoint.model->family->name);
    std::vector<Tensor> given(graph.values.size());
    std::set<std::string> read;
    for (size_t v = 0; v < given.size(); ++v) {
      const Value& value = graph.values[v];
      if (value.kind == Value::Kind::Result) continue;
      given[v] = checkpoint.read(static_cast<int>(v), Element::F32);
      if (!value.parameter.empty()) read.insert(value.parameter);
    }
    // No weight is left unread.
    CHECK(read.size() == checkpoint.weights.manifest.size());
    const std::vector<Tensor> values = evaluate(graph, given, Arithmetic::F32);
    std::vector<Tensor> outputs;
    for (const int output : graph.outputs) {
      outputs.push_back(values[static_cast<size_t>(output)]);
    }
    check_agreement(checkpoint, outputs, outputs);
  }
  for (const Family& family : model_families()) {
    CAPTURE(family.name);
    CHECK(families.count(family.name) == 1);
  }
}

TEST_CASE("so does every one of them sharded with its family's rules") {
  for (const std::string& name : checkpoint_names()) {
    CAPTURE(name);
    const Checkpoint checkpoint = read_checkpoint(name);
    const std::string rules = "@" + std::string(checkpoint.model->family->name);
    const auto run =
        simulated(*checkpoint.model, rules, "fsdp=2,tp=2",
                  ValueSource::Checkpoint, [&](int value, Element element) {
                    return checkpoint.read(value, element);
                  });
    CAPTURE(run.messages);
    REQUIRE(run.simulation);
    CHECK_FALSE(run.simulation->mismatch);
    CHECK_FALSE(run.moves.empty());
    check_agreement(checkpoint, run.simulation->unsharded,
                    run.simulation->sharded);
  }
}

TEST_CASE("a wrong weight is noticed") {
  Checkpoint checkpoint = read_checkpoint("llama");
  const auto run = simulated(
      *checkpoint.model, "@llama", "tp=2", ValueSource::Checkpoint,
      [&](int number, Element element) {
        const Value& value =
            checkpoint.graph().values[static_cast<size_t>(number)];
        Tensor tensor = checkpoint.read(number, element);
        if (value.parameter == "model.layers.0.self_attn.k_proj.weight") {
          tensor = copy(tensor);
          tensor.data<float>()[0] += 0.1F;
        }
        return tensor;
      });
  REQUIRE(run.simulation);
  Diagnostics diags;
  const auto errors = compare_expected(
      checkpoint.graph(), run.simulation->unsharded, run.simulation->sharded,
      checkpoint.expected.manifest, checkpoint.expected.tensors, diags);
  REQUIRE(errors);
  CHECK_FALSE(errors->front().agrees());
}

}  // namespace
}  // namespace shardplan
