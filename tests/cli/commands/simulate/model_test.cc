// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/simulate/model.h"

#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "cli/options.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"

namespace shardplan::cli {
namespace {

InputIds read(const std::string& written, Diagnostics& diags,
              const std::string& file = "") {
  testing::MemoryHost host;
  if (!file.empty()) host.files["ids.json"] = file;
  return read_input_ids(written, host, diags);
}

TEST_CASE("input ids are written out, or stand in a file") {
  Diagnostics diags;
  const InputIds two = {{1, 2, 3}, {4, 5, 6}};
  const InputIds one = {{7, 0}};
  CHECK(read("1,2,3;4,5,6", diags) == two);
  CHECK(read("7,0", diags) == one);
  CHECK(read("ids.json", diags, "[[1, 2, 3], [4, 5, 6]]") == two);
  CHECK(read("ids.json", diags, "- [1, 2, 3]\n- [4, 5, 6]\n") == two);
  CHECK(read("ids.json", diags, "[7, 0]") == one);
  CHECK(diags.all().empty());
}

TEST_CASE("input ids that are none are refused, with their place") {
  struct Row {
    std::string written;
    std::string file;
    std::string message;
  };
  for (const Row& row : std::vector<Row>{
           {"1,,3", "", "SP010 `` in --input-ids is not a token"},
           {"1, 2", "", "SP010 ` 2` in --input-ids is not a token"},
           {"1,2;3", "", "SP010 sequences of --input-ids differ in length"},
           {"ids.json", "[[1, 2], [3]]",
            "SP010 sequences of --input-ids differ in length"},
           {"ids.json", "[]", "SP010 --input-ids gives no tokens"},
           {"ids.json", "[[]]", "SP010 --input-ids gives no tokens"},
           {"ids.json", "[[1, x]]",
            "SP002 ids.json:1:6 a token must be an integer"},
           {"ids.json", "[[1], 2]",
            "SP002 ids.json:1:7 input ids must be a list of sequences"}}) {
    CAPTURE(row.written);
    CAPTURE(row.file);
    Diagnostics diags;
    CHECK(read(row.written, diags, row.file).empty());
    CHECK(testing::messages(diags) == row.message);
  }
  Diagnostics diags;
  CHECK(read("missing.json", diags).empty());
  CHECK(diags.count(Severity::Error) == 1);
}

using testing::messages;

constexpr const char* kConfig = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama",
  "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 3,
  "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 1000
})";

struct Reading {
  testing::MemoryHost host;
  Options options;
  Diagnostics diags;

  explicit Reading(const std::string& mesh) {
    host.files["config.json"] = kConfig;
    options.command = "simulate";
    options.planning.model = "config.json";
    options.planning.rules = {"@llama"};
    options.run.isolated = true;
    options.planning.mesh = std::make_shared<SourceFile>("--mesh", mesh);
  }
  std::optional<PlacedPass> read(const InputIds& ids = {}) {
    Progress progress(host, false);
    Context context{options, host, diags, progress};
    return read_whole_model(context, nullptr, ids, {});
  }
};

// Sizes of a parameter of the model that is run.
Shape shape_of(const PlacedPass& model, const std::string& name) {
  const Manifest& manifest = model.session.model.manifest;
  for (size_t i = 0; i < manifest.size(); ++i) {
    if (manifest.name(i) == name) return manifest.type(i).shape;
  }
  return {};
}

TEST_CASE("a whole model is described as far as it is to be run") {
  Reading reading("fsdp=2,tp=2");
  reading.options.simulate.layers = 2;
  const auto model = reading.read();
  REQUIRE_MESSAGE(model, messages(reading.diags));
  CHECK(model->run->family == "llama");
  CHECK(model->run->only_layers == 2);
  CHECK(model->run->all_layers == 3);
  CHECK_FALSE(model->run->shrunk);
  CHECK(model->description.probes.size() == 3);  // two layers, and logits
}

TEST_CASE("by default every device has some of the batch and of the length") {
  struct Row {
    const char* mesh;
    int64_t batch;
    int64_t length;
  };
  for (const Row& row : {Row{"tp=2", 2, 16}, Row{"fsdp=4,tp=2", 4, 16},
                         Row{"dp=3,fsdp=2", 6, 16}, Row{"dp=3", 3, 16},
                         Row{"sp=32", 2, 32}, Row{"sp=3", 2, 18}}) {
    CAPTURE(row.mesh);
    Reading reading(row.mesh);
    const auto model = reading.read();
    REQUIRE(model);
    CHECK(model->run->batch == row.batch);
    CHECK(model->run->length == row.length);
  }
}

TEST_CASE("the tokens that are given are those that are run") {
  const InputIds ids = {{1, 2, 3}, {4, 5, 6}};
  Reading reading("tp=2");
  const auto model = reading.read(ids);
  REQUIRE(model);
  CHECK(model->run->batch == 2);
  CHECK(model->run->length == 3);
  Reading contrary("fsdp=1,sp=1,tp=2");
  contrary.options.simulate.batch = 2;
  contrary.options.simulate.length = 16;
  CHECK_FALSE(contrary.read(ids));
  CHECK(messages(contrary.diags) ==
        "SP019 note the config names no dtype: f32 is assumed\n"
        "SP010 --tokens and the input ids disagree");
}

TEST_CASE("a model made smaller divides as the large one does") {
  Reading reading("fsdp=2,tp=4");
  reading.options.simulate.shrink = true;
  const auto model = reading.read();
  REQUIRE_MESSAGE(model, messages(reading.diags));
  CHECK(model->run->shrunk);
  CHECK(model->run->only_layers == 2);
  CHECK(model->run->all_layers == 3);
  const Shape table = shape_of(*model, "model.embed_tokens.weight");
  REQUIRE(table.size() == 2);
  CHECK(table[0] < 1000);
  CHECK(table[0] % 8 == 1000 % 8);
  CHECK(table[1] < 512);
  CHECK(table[1] % 8 == 0);
  CHECK(shape_of(*model, "model.layers.2.mlp.down_proj.weight").empty());
}

TEST_CASE("a model made smaller is read as often as the large one") {
  Reading large("tp=2");
  REQUIRE(large.read());
  Reading shrunk("tp=2");
  shrunk.options.simulate.shrink = true;
  REQUIRE(shrunk.read());
  CHECK(large.host.bytes_read > 0);
  CHECK(shrunk.host.bytes_read == large.host.bytes_read);
}

// Without weights; its default sizes are small enough to be run as they are.
TEST_CASE("a large model is made smaller unless its real sizes are asked for") {
  Reading small("tp=2");
  const auto as_it_is = small.read();
  REQUIRE_MESSAGE(as_it_is, messages(small.diags));
  CHECK_FALSE(as_it_is->run->shrunk);
  Reading large("tp=2");
  large.options.simulate.batch = 1024;
  large.options.simulate.length = 1024;
  const auto model = large.read();
  REQUIRE_MESSAGE(model, messages(large.diags));
  CHECK(model->run->shrunk);
  CHECK(model->run->shrunk_by_default);
  CHECK(model->run->all_layers == 3);
  Reading full("tp=2");
  full.options.simulate.batch = 1024;
  full.options.simulate.length = 1024;
  full.options.simulate.full = true;
  const auto whole = full.read();
  REQUIRE_MESSAGE(whole, messages(full.diags));
  CHECK_FALSE(whole->run->shrunk);
}

TEST_CASE("what is not a model of a family is refused") {
  Reading unknown("tp=2");
  unknown.host.files["config.json"] =
      R"({"a": {"shape": [4, 4], "dtype": "f32"}})";
  CHECK_FALSE(unknown.read());
  CHECK(messages(unknown.diags).find("SP016 ") != std::string::npos);
}

}  // namespace

}  // namespace shardplan::cli
