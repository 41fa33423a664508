// SPDX-License-Identifier: Apache-2.0
// Graphs against what PyTorch computed (tests/data/record_graph_checks.py), and
// what is refused.
#include "cli/commands/simulate/given_inputs.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/real_host.h"
#include "tests/support/memory_host.h"
#include "tests/support/safetensors.h"
#include "tests/support/source_dir.h"

namespace shardplan::cli {
namespace {

using nlohmann::json;

// A file of one float32 tensor.
std::string floats(const std::string& name, const Shape& shape,
                   const std::vector<float>& numbers) {
  std::string file = testing::safetensors({{name, "F32", shape}});
  const size_t data = file.size() - numbers.size() * sizeof(float);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto bits = std::bit_cast<uint32_t>(numbers[i]);
    for (size_t b = 0; b < 4; ++b) {
      file[data + i * 4 + b] = static_cast<char>(bits >> (8 * b) & 0xffU);
    }
  }
  return file;
}

std::string floats(const std::string& name, const std::vector<float>& numbers) {
  return floats(name, {static_cast<int64_t>(numbers.size())}, numbers);
}
// Numbers that are not all alike.
std::string floats(const std::string& name, const Shape& shape) {
  std::vector<float> numbers;
  for (int64_t i = 0; i < *element_count(shape); ++i) {
    numbers.push_back(static_cast<float>(i % 7) * 0.25F);
  }
  return floats(name, shape, numbers);
}

// A file of int64 zeros.
std::string zeros(const std::string& name, const Shape& shape) {
  std::string file = testing::safetensors({{name, "I64", shape}});
  const auto bytes = static_cast<size_t>(*element_count(shape)) * 8;
  std::fill(file.end() - static_cast<ptrdiff_t>(bytes), file.end(), '\0');
  return file;
}

struct GivenRun {
  int code = 0;
  std::string out;
};

GivenRun run_given(std::vector<std::string> words) {
  testing::MemoryHost host;
  const auto disk = make_real_host();
  host.below = disk.get();
  host.below_root = source_dir();
  host.files["double.yaml"] = R"(graph: double
inputs:
  x: {shape: [4], spec: [tp]}
ops: [{op: scale, in: x, out: y, by: 2}]
)";
  host.files["two.yaml"] = R"(graph: two
inputs: {a: {shape: [2, 3], below: 9}, b: {shape: [3], below: 9}}
parameters: {table: {shape: [9, 4], spec: []}}
ops:
  - {op: embedding, in: [table, a], out: y}
  - {op: embedding, in: [table, b], out: z}
)";
  const float nan = std::numeric_limits<float>::quiet_NaN();
  host.files["x"] = floats("x", std::vector<float>{1, 2, 3, 4});
  host.files["y"] = floats("y", std::vector<float>{2, 4, 6, 8});
  host.files["wrong"] = floats("y", std::vector<float>{2, 4, 6, 9});
  host.files["nan"] = floats("y", std::vector<float>{2, 4, nan, 8});
  host.files["nan_x"] = floats("x", std::vector<float>{1, nan, 3, 4});
  host.files["long"] = floats("x", std::vector<float>{1, 2, 3, 4, 5});
  host.files["ids"] = testing::safetensors({{"x", "I64", {4}}});
  host.files["empty"] = floats("y", std::vector<float>{});
  host.files["none"] = testing::safetensors({});
  host.files["several"] =
      testing::safetensors({{"a", "F32", {4}}, {"b", "F32", {4}}});
  host.files["image.json"] = R"({"model_type": "vit", "hidden_size": 8,
      "architectures": ["ViTModel"], "num_hidden_layers": 1, "image_size": 4,
      "num_attention_heads": 2, "intermediate_size": 8, "patch_size": 2,
      "num_channels": 1})";
  host.files["pixels"] = floats("pixel_values", Shape{6, 1, 4, 4});
  host.files["large"] = floats("pixel_values", Shape{6, 1, 5, 5});
  host.files["translator.json"] = R"({"model_type": "t5", "d_model": 8,
      "architectures": ["T5Model"], "num_layers": 1, "num_heads": 2,
      "d_kv": 4, "d_ff": 8, "vocab_size": 16})";
  host.files["targets"] = zeros("ids", {2, 5});
  words.insert(words.begin(), {"simulate"});
  words.insert(words.end(), {"--allow", "SP204"});
  const int code = run(words, host);
  return {code, host.out + host.err};
}

bool says(const GivenRun& run, const std::string& text) {
  return run.out.find(text) != std::string::npos;
}

std::vector<std::string> recorded(const std::string& name,
                                  std::vector<std::string> more) {
  const std::string folder = "tests/data/graphs/";
  std::vector<std::string> words = {folder + name + ".safetensors", "--graph",
                                    folder + name + ".yaml"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST_CASE("graphs compute what PyTorch recorded, sharded or not") {
  const std::string folder = "tests/data/graphs/";
  for (const char* mesh : {"fsdp=1,tp=1", "fsdp=2,tp=2", "fsdp=1,tp=4"}) {
    CAPTURE(mesh);
    const GivenRun decoder = run_given(recorded(
        "decoder",
        {"--rules", folder + "decoder.rules.yaml", "--mesh", mesh, "--expect",
         folder + "decoder.checks.safetensors", "--json"}));
    CHECK_MESSAGE(decoder.code == 0, decoder.out);
    const json report = json::parse(decoder.out);
    CHECK(report["summary"]["values"] == "checkpoint");
    REQUIRE(report["tables"]["expected"].size() == 2);
    CHECK(report["tables"]["expected"][0]["value"] == "x");
    for (const json& row : report["tables"]["expected"]) {
      CHECK(row["unsharded"].get<double>() < 1e-5);
      CHECK(row["sharded"].get<double>() < 1e-5);
    }
    CHECK(report["tables"]["inputs"] == json::parse(R"([{"value": "ids", "from":
              "tests/data/graphs/decoder.checks.safetensors"}])"));
  }
  for (const char* mesh : {"dp=1,tp=1", "dp=2,tp=4", "dp=3,tp=2"}) {
    CAPTURE(mesh);
    const GivenRun residual = run_given(
        recorded("residual",
                 {"--mesh", mesh, "--input", "x=" + folder + "x.safetensors",
                  "--input", "gate=" + folder + "residual.checks.safetensors",
                  "--expect", folder + "y.safetensors"}));
    CHECK_MESSAGE(residual.code == 0, residual.out);
    CHECK(says(residual, "`y` is within 1e-5 of"));
  }
}

TEST_CASE("given inputs: other numbers are not what was recorded") {
  const std::string folder = "tests/data/graphs/";
  // The inputs are the recording's unless they are given.
  const auto words =
      recorded("residual", {"--mesh", "dp=2,tp=2", "--expect",
                            folder + "residual.checks.safetensors"});
  CHECK(run_given(words).code == 0);
  const std::string rows = "1,2,3,4,5,6,7,8;1,2,3,4,5,6,7,8";
  const auto decoder = recorded(
      "decoder",
      {"--rules", folder + "decoder.rules.yaml", "--mesh", "fsdp=2,tp=2",
       "--expect", folder + "decoder.checks.safetensors", "--input-ids", rows});
  const GivenRun other = run_given(decoder);
  CHECK(other.code == 1);
  CHECK(says(other, "SP511"));
  CHECK(says(other, "inputs: `ids` from `--input-ids`"));
}

TEST_CASE("given inputs: variants run on the same") {
  const std::string folder = "tests/data/graphs/";
  const GivenRun varied = run_given(recorded(
      "decoder", {"--rules", folder + "decoder.rules.yaml", "--mesh",
                  "fsdp=2,tp=2", "--vary", "tp", "--vary", "fsdp", "--expect",
                  folder + "decoder.checks.safetensors", "--json"}));
  CHECK_MESSAGE(varied.code == 0, varied.out);
  const json report = json::parse(varied.out);
  const json& rows = report["tables"]["precision"];
  REQUIRE(rows.size() == 3);
  for (const json& row : rows) CHECK(row["unsharded"] == rows[0]["unsharded"]);
}

GivenRun doubled_run(std::vector<std::string> more) {
  std::vector<std::string> words = {"double.yaml", "--mesh", "tp=2"};
  words.insert(words.end(), more.begin(), more.end());
  return run_given(words);
}

TEST_CASE("given inputs: an output is compared with what is expected") {
  CHECK(doubled_run({"--input", "x=x", "--expect", "y"}).code == 0);
  CHECK(doubled_run({"--input", "x=x"}).code == 0);
  const GivenRun wrong = doubled_run({"--input", "x=x", "--expect", "wrong"});
  CHECK(wrong.code == 1);
  CHECK(says(wrong, "SP511"));
  const GivenRun nan = doubled_run({"--input", "x=x", "--expect", "nan"});
  CHECK(nan.code == 1);
  CHECK(says(nan, "`y` cannot be compared with `nan`"));
  const GivenRun odd = doubled_run({"--input", "x=nan_x", "--expect", "nan"});
  CHECK(odd.code == 1);
  CHECK(says(odd, "they are in `nan_x`"));
  CHECK_FALSE(says(odd, "ok:"));
  for (const char* file : {"empty", "long", "none", "several", "ids"}) {
    CAPTURE(file);
    const GivenRun refused = doubled_run({"--input", "x=x", "--expect", file});
    CHECK(refused.code == 2);
    CHECK(says(refused, "SP0"));
  }
}

TEST_CASE("given inputs: a choice of an input's numbers is refused by name") {
  const auto refused = [](std::vector<std::string> more,
                          const std::string& message) {
    const GivenRun result = doubled_run(std::move(more));
    CAPTURE(message);
    CHECK_MESSAGE(result.code == 2, result.out);
    CHECK_MESSAGE(says(result, message), result.out);
  };
  refused({"--input", "z=x"}, "the graph has no input named `z`");
  refused({"--input", "y=x"}, "its inputs are `x`");
  refused({"--input", "x=x", "--input", "x=x"}, "--input gives `x` twice");
  refused({"--input", "x=missing"}, "SP001");
  refused({"--input", "x"}, "takes an input and a file, not `x`");
  refused({"--input", "x="}, "takes an input and a file, not `x=`");
  refused({"--input", "x=long"}, "input `x` is [4], but `long` gives [5]");
  refused({"--input", "x=ids"},
          "input `x` takes floating-point numbers, but `ids` gives i64");
  refused({"--input", "x=several"}, "`several` has no tensor named `x`");
  refused({"--input", "x=x", "--values", "field"},
          "`--values field` computes in integers");
  refused({"--input-ids", "1,2,3,4"},
          "--input-ids needs a graph with exactly one integer input");
  refused({"--expect", "y", "--values", "field"},
          "--expect compares floating-point numbers");
  refused({"--expect", "y"}, "--expect needs the inputs of the recording");
}

TEST_CASE("given inputs: integers go to the input that takes them") {
  const auto two = [](std::vector<std::string> more) {
    std::vector<std::string> words = {"two.yaml", "--mesh", "tp=2"};
    words.insert(words.end(), more.begin(), more.end());
    return run_given(words);
  };
  const GivenRun ambiguous = two({"--input-ids", "1,2,3;4,5,6"});
  CHECK(ambiguous.code == 2);
  CHECK(says(ambiguous, "its integer inputs are `a`, `b`"));
  const GivenRun drawn = two({"--expect", "y"});
  CHECK(drawn.code == 2);
  CHECK(says(drawn, "--expect needs the weights of a checkpoint"));
  CHECK(says(drawn, "random values would be used for `table`"));
  const GivenRun parameter = two({"--input", "table=x"});
  CHECK(parameter.code == 2);
  CHECK(says(parameter, "`table` is a parameter"));
  const GivenRun real = two({"--input", "b=x"});
  CHECK(real.code == 2);
  CHECK(says(real, "input `b` is [3], but `x` gives [4]"));
  const std::string folder = "tests/data/graphs/";
  const GivenRun beyond = run_given(recorded(
      "decoder", {"--rules", folder + "decoder.rules.yaml", "--mesh", "tp=2",
                  "--input-ids", "1,2,3,4,5,6,7,48;1,2,3,4,5,6,7,8"}));
  CHECK(beyond.code == 2);
  CHECK(says(beyond, "`--input-ids` gives 48 for input `ids`"));
  const GivenRun shape = run_given(
      recorded("decoder", {"--rules", folder + "decoder.rules.yaml", "--mesh",
                           "tp=2", "--input-ids", "1,2,3"}));
  CHECK(shape.code == 2);
  CHECK(says(shape, "input `ids` is [2, 8], but `--input-ids` gives [1, 3]"));
}

TEST_CASE("given inputs: a whole model has as many as it is given") {
  const auto image = [](std::vector<std::string> more) {
    std::vector<std::string> words = {"image.json", "--rules", "@all_models",
                                      "--mesh", "fsdp=2,tp=1"};
    words.insert(words.end(), more.begin(), more.end());
    return run_given(words);
  };
  const GivenRun run = image({"--input", "pixel_values=pixels", "--json"});
  CHECK_MESSAGE(run.code == 0, run.out);
  const json report = json::parse(run.out);
  CHECK(report["summary"]["batch"] == 6);
  CHECK_FALSE(report["summary"].contains("length"));
  CHECK(report["tables"]["inputs"] ==
        json::parse(R"([{"value": "pixel_values", "from": "pixels"}])"));
  CHECK(says(image({"--input", "pixel_values=pixels"}), "a batch of 6"));
  CHECK(says(image({"--input", "pixel_values=large"}),
             "input `pixel_values` is [6, 1, 4, 4], but `large` gives [6, 1, "
             "5, 5]"));
  CHECK(says(image({"--input", "input_ids=targets"}),
             "the graph has no input named `input_ids`"));
}

TEST_CASE("given inputs: a decoder's tokens are counted beside an encoder's") {
  const std::vector<std::string> words = {"translator.json",
                                          "--rules",
                                          "@all_models",
                                          "--mesh",
                                          "tp=1",
                                          "--input",
                                          "decoder_input_ids=targets",
                                          "--tokens",
                                          "2x7"};
  const GivenRun run = run_given(words);
  CHECK_MESSAGE(run.code == 0, run.out);
  CHECK(says(run, "2 x 7 and 5 tokens"));
  std::vector<std::string> other = words;
  other.back() = "3x7";
  CHECK(says(run_given(other), "--tokens and the input ids disagree"));
}

TEST_CASE("given inputs: a whole model's tokens are given once") {
  const auto gpt2 = [](std::vector<std::string> more) {
    std::vector<std::string> words = {"tests/data/checkpoints/gpt2", "--rules",
                                      "@gpt2", "--mesh", "tp=2"};
    words.insert(words.end(), more.begin(), more.end());
    return run_given(words);
  };
  const GivenRun unknown = gpt2({"--input", "x=x"});
  CHECK(unknown.code == 2);
  CHECK(says(unknown, "the graph has no input named `x`"));
  CHECK(says(gpt2({"--input", "input_ids=targets"}), "2 x 5 tokens"));
  const GivenRun twice =
      gpt2({"--input", "input_ids=targets", "--input-ids", "1,2;3,4"});
  CHECK(twice.code == 2);
  CHECK(says(twice, "`input_ids` is given by both --input and --input-ids"));
}

}  // namespace
}  // namespace shardplan::cli
