// SPDX-License-Identifier: Apache-2.0
// docs/models.md and the list of models in the README: what is known of every
// architecture, and how many recordings of other programs it is held against.
// SHARDPLAN_UPDATE=1 writes them anew.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "base/text.h"
#include "model/architecture/quantisation.h"
#include "model/architectures.h"
#include "model/forward/definition.h"
#include "model/generation_state.h"
#include "model/naming/name_scheme.h"
#include "tests/support/hf_config.h"
#include "tests/support/source_dir.h"

namespace shardplan {
namespace {

using testing::Json;

// Recorded cases by model type.
using Counts = std::map<std::string, int64_t, std::less<>>;

// Of the model and of its parts.
void count_types(const Json& config, Counts& counts) {
  const auto type = config.find("model_type");
  if (type != config.end() && type->is_string()) {
    ++counts[type->get<std::string>()];
  }
  for (const Json& each : config) {
    if (each.is_object()) count_types(each, counts);
  }
}

enum class Parts { Count, Pass };

void count_lines(const char* file, Parts parts, Counts& counts) {
  std::ifstream stream(testing::data_path(file));
  for (std::string line; std::getline(stream, line);) {
    const Json config = Json::parse(line).at("config");
    if (parts == Parts::Count) {
      count_types(config, counts);
    } else {
      ++counts[config.at("model_type").get<std::string>()];
    }
  }
}

// Of whole files: `config` is the file, or a key of it.
void count_files(const char* folder, Counts& counts) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(
           testing::data_path(folder))) {
    if (entry.path().extension() != ".json") continue;
    const Json recorded = testing::read_json(entry.path());
    count_types(recorded.contains("config") ? recorded.at("config") : recorded,
                counts);
  }
}

struct Judged {
  Counts tensors;
  Counts outputs;
  Counts states;
  Counts quantised;
  Counts names;
};

Judged judged() {
  Judged all;
  count_lines("architectures.jsonl", Parts::Count, all.tensors);
  count_files("hf", all.tensors);
  count_lines("logits.jsonl", Parts::Pass, all.outputs);
  count_files("checkpoints", all.outputs);
  count_lines("states.jsonl", Parts::Pass, all.states);
  count_lines("quantised.jsonl", Parts::Pass, all.quantised);
  count_lines("schemes.jsonl", Parts::Pass, all.names);
  count_lines("schemes_jax.jsonl", Parts::Pass, all.names);
  return all;
}

// Those whose tensors nobody could record: no program that is at hand builds
// the model, so names and shapes were read from public code.
bool is_from_code(const Architecture& all) {
  constexpr std::string_view kNames[] = {"gla",
                                         "gpt_neox_reward_model",
                                         "locateanything",
                                         "logics",
                                         "mimo",
                                         "minimax_m1",
                                         "moonvit",
                                         "minimax_m3",
                                         "qwen",
                                         "refined_web"};
  return std::find(std::begin(kNames), std::end(kNames), all.name) !=
         std::end(kNames);
}

std::string count_of(const Counts& counts, const Architecture& all) {
  int64_t count = 0;
  for (const std::string& type : all.model_types) {
    const auto found = counts.find(type);
    if (found != counts.end()) count += found->second;
  }
  return count == 0 ? "" : std::to_string(count);
}

std::string in_code(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + in_backticks(name);
  }
  return text;
}

// Classes without the name that they share: `ForCausalLM`, `Model`.
std::string classes_text(const Architecture& all) {
  std::string shared = all.classes.front().class_name;
  for (const ArchitectureClass& each : all.classes) {
    const std::string& name = each.class_name;
    const auto end =
        std::mismatch(shared.begin(), shared.end(), name.begin(), name.end());
    shared.erase(end.first, shared.end());
  }
  if (all.classes.size() == 1) return in_backticks(shared);
  // Not in the middle of a word.
  const size_t word = shared.find_last_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ");
  for (const ArchitectureClass& each : all.classes) {
    if (each.class_name.size() == shared.size()) continue;
    const char next = each.class_name[shared.size()];
    if (next < 'A' || next > 'Z') {
      shared.resize(word == std::string::npos ? 0 : word);
      break;
    }
  }
  std::string text;
  for (const ArchitectureClass& each : all.classes) {
    const std::string own = each.class_name.substr(shared.size());
    text +=
        (text.empty() ? "" : " ") + (own.empty() ? in_backticks(shared) : own);
  }
  return text;
}

// The classes that are computed: "", "all", or their names.
std::string computed_text(const Architecture& all) {
  if (!all.computes) return "";
  std::vector<std::string> names;
  for (const ArchitectureClass& each : all.classes) {
    if (is_computed(all, each)) names.push_back(each.class_name);
  }
  return names.size() == all.classes.size() ? "all" : in_code(names);
}

// Kinds of model, as people ask for them: those that are parts of others have
// no type of their own.
std::vector<std::string> typed_architectures() {
  std::vector<std::string> names;
  for (const std::string& name : architecture_names()) {
    if (!find_architecture(name)->model_types.empty()) names.push_back(name);
  }
  return names;
}

// All model types, from those that are known best to those known least.
std::string models_list() {
  std::vector<std::string> computed;
  std::vector<std::string> state;
  std::vector<std::string> tensors;
  size_t types = 0;
  for (const std::string& name : typed_architectures()) {
    const auto all = find_architecture(name);
    std::vector<std::string>& of =
        all->computes                                     ? computed
        : state_names(*all, all->classes.front()).empty() ? tensors
                                                          : state;
    of.insert(of.end(), all->model_types.begin(), all->model_types.end());
    types += all->model_types.size();
  }
  std::string text = "| of " + std::to_string(types) +
                     " model types | of which |\n|---|---|\n";
  const auto add = [&](const char* what, std::vector<std::string>& names) {
    std::sort(names.begin(), names.end());
    if (names.empty()) return;
    text += std::string("| ") + what + " | " + in_code(names) + " |\n";
  };
  add("tensors, state and forward pass", computed);
  add("tensors and state", state);
  add("tensors", tensors);
  return text;
}

std::string models_page() {
  std::string known;
  std::string judgements;
  const Judged counts = judged();
  for (const std::string& name : typed_architectures()) {
    const auto all = find_architecture(name);
    const std::vector<std::string> kept =
        state_names(*all, all->classes.front());
    known += "| " + in_code(all->model_types) + " | " + all->summary + " | " +
             classes_text(*all) + " | " + computed_text(*all) + " | " +
             joined(kept, ", ") + " | " + joined(name_schemes_of(name), ", ") +
             " |\n";
    judgements +=
        "| " + in_code(all->model_types) + " | " +
        (is_from_code(*all) ? "code" : count_of(counts.tensors, *all)) + " | " +
        count_of(counts.outputs, *all) + " | " + count_of(counts.states, *all) +
        " | " + count_of(counts.quantised, *all) + " | " +
        count_of(counts.names, *all) + " |\n";
  }
  return R"(# Models

What is known of every kind of model that `shardplan list architectures` shows:
[one file each](formats/architecture.md). The tests write this page.

)" + models_list() +
         R"(
## One by one

- *classes*: which the config may name in `architectures`, without the part that they
  share.
- *computed*: classes whose forward pass [`simulate`](simulate.md) runs, sharded and
  not.
- *keeps*: what a layer [keeps while the model generates](formats/memory.md), by the names
  in its file. Encoders do not generate.
- *names of*: other programs whose names and layouts [`--scheme`](formats/scheme.md)
  gives its tensors.

Every one can be quantised by the [methods](formats/architecture.md#quantised-models)
that are known, and placed by the rules `@all_models`.

| model types | what | classes | computed | keeps | names of |
|---|---|---|---|---|---|
)" + known +
         R"(
## How they were judged

Numbers of recorded cases that the tests compare with; scripts that record them stand
beside the recordings in `tests/data`.

- *tensors*: names, shapes and dtypes of checkpoints that `save_pretrained` of
  transformers 4.57 or 5.23 writes for a config, or another program that has the model; also as a part of a
  larger one. `code` where nothing that could be run builds the model: its tensors were
  read from public code, and held against numbers of parameters at most.
- *outputs*: logits or hidden states of tiny models in float32, agreed with to 1e-5, by
  the unsharded run and by a sharded one.
- *state*: what the model keeps after some tokens.
- *quantised*: tensors that the libraries of quantisation write.
- *names*: tensors under the names of other programs.

Beside what is recorded, configs with sizes and flags changed at random were compared
with transformers ([how](contributing.md)).

| model types | tensors | outputs | state | quantised | names |
|---|---|---|---|---|---|
)" + judgements;
}

std::string read_text(const std::filesystem::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

void compare_page(const std::filesystem::path& path, const std::string& text) {
  if (std::getenv("SHARDPLAN_UPDATE") != nullptr) {  // NOLINT
    std::ofstream(path) << text;
  }
  CHECK(read_text(path) == text);
}

TEST_CASE("the page of models stays fixed") {
  compare_page(source_dir() / "docs/models.md", models_page());
}

TEST_CASE("the README counts the model types that are known") {
  size_t types = 0;
  for (const std::string& name : typed_architectures()) {
    types += find_architecture(name)->model_types.size();
  }
  CHECK(read_text(source_dir() / "README.md")
            .find(std::to_string(types) + " model types") != std::string::npos);
}

TEST_CASE("every architecture with a type is held against recorded tensors") {
  const Judged counts = judged();
  for (const std::string& name : typed_architectures()) {
    CAPTURE(name);
    const auto all = find_architecture(name);
    CHECK((count_of(counts.tensors, *all) == "") == is_from_code(*all));
    CHECK((count_of(counts.outputs, *all) != "") == all->computes);
  }
}

}  // namespace
}  // namespace shardplan
