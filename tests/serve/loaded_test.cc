// SPDX-License-Identifier: Apache-2.0
// What engines loaded, against what they said of it: `Model loading took ..
// GiB` in public logs (tests/data/loaded_weights.jsonl, each with its link).
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "io/hardware.h"
#include "serve/weights.h"
#include "tests/serve/models.h"
#include "tests/support/memory_host.h"
#include "tests/support/source_dir.h"

namespace shardplan {
namespace {

using testing::Json;

Json config_of(const Json& row) {
  std::ifstream file(source_dir() / row["config"].get<std::string>());
  REQUIRE(file.good());
  Json config = Json::parse(file);
  if (row.contains("with")) config.update(row["with"]);
  return config;
}

RankWeights loaded(const Json& row) {
  const auto made = testing::synthesize(config_of(row));
  const Model of(made->good());
  const auto model = served_weights(of);
  REQUIRE(model);
  Diagnostics diags;
  testing::MemoryHost host;
  const auto card = load_hardware(row["card"].get<std::string>(), host, diags);
  REQUIRE(card);
  EngineMesh mesh;
  mesh.tp = row["tp"].get<int64_t>();
  WeightsInput input;
  input.engine = find_engine(row["engine"].get<std::string>());
  REQUIRE(input.engine != nullptr);
  input.layout = layout_of(*input.engine, mesh);
  input.vocab_multiple = input.engine->vocab_multiple;
  input.card = card->generation;
  if (row.contains("lora")) {
    input.slots.count = row["lora"]["max_loras"].get<int64_t>();
    input.slots.rank = row["lora"]["max_lora_rank"].get<int64_t>();
  }
  const std::vector<bool> all(model->groups.groups.size(), true);
  const auto weights = rank_weights(*model, all, input);
  REQUIRE(weights);
  return *weights;
}

TEST_CASE("weights as loaded are what logs of vLLM say") {
  constexpr double kGib = 1 << 30;
  std::ifstream lines(source_dir() / "tests/data/loaded_weights.jsonl");
  REQUIRE(lines.good());
  int rows = 0;
  for (std::string line; std::getline(lines, line);) {
    const Json row = Json::parse(line);
    CAPTURE(row["model"].get<std::string>());
    CAPTURE(row["card"].get<std::string>());
    const RankWeights weights = loaded(row);
    double ours = static_cast<double>(weights.total);
    if (row.contains("note") &&
        row["note"].get<std::string>().starts_with("it keeps the scales")) {
      // A byte for each 32 numbers of 4 bits.
      ours += static_cast<double>(
                  weights.bytes[static_cast<size_t>(WeightPart::Experts)]) /
              17.1;
    }
    const double said = row["gib"].get<double>() * kGib;
    // What programs allocate beside the weights: tables of angles, workspaces,
    // the ends of blocks. AMD's builds keep more, and it is not known what.
    const bool amd = row["card"] == "mi300x";
    CHECK(said >= ours * 0.999);
    CHECK(said <= ours * (amd ? 1.03 : 1.01));
    ++rows;
  }
  CHECK(rows == 21);
}

}  // namespace
}  // namespace shardplan
