// SPDX-License-Identifier: Apache-2.0
#include "cli/simulate_flags.h"

#include <string>

#include <doctest/doctest.h>

#include "tests/support/messages.h"

namespace shardplan::cli {
namespace {

Options applied(const std::string& name, const std::string& value,
                Diagnostics& diags) {
  const Flag* flag = find_flag(name);
  REQUIRE(flag != nullptr);
  const std::vector<Setting> settings = {{flag, value, {}, "dir"}};
  Options options;
  options.command = "simulate";
  apply_settings(settings, options, diags);
  return options;
}

TEST_CASE("simulate's flags become options") {
  Diagnostics diags;
  CHECK(applied("graph", "g.yaml", diags).simulation.graph == "dir/g.yaml");
  CHECK(applied("graph", "@mlp", diags).simulation.graph == "@mlp");
  const DimSizes dims = {{"batch", 2}, {"length", 0}};
  CHECK(applied("dims", "batch=2,length=0", diags).simulation.dims == dims);
  CHECK(applied("overlap", "ring", diags).simulation.overlap == Overlap::Ring);
  CHECK(applied("overlap", "split", diags).simulation.overlap ==
        Overlap::Split);
  CHECK(applied("values", "field", diags).simulation.values ==
        ValueSource::Field);
  CHECK(applied("seed", "-3", diags).simulation.seed == -3);
  CHECK(applied("algorithm", "direct", diags).algorithm == "direct");
  CHECK(applied("layers", "2", diags).simulation.layers == 2);
  const auto tokens = applied("tokens", "4x32", diags).simulation;
  CHECK(tokens.batch == 4);
  CHECK(tokens.length == 32);
  CHECK(applied("dtype", "bf16", diags).simulation.storage == Storage::BF16);
  CHECK(applied("reduce-dtype", "f32", diags).simulation.reduce ==
        Storage::F32);
  CHECK(applied("shrink", "", diags).simulation.shrink);
  CHECK(applied("capacity", "3", diags).simulation.capacity == 3);
  CHECK(applied("input-ids", "1,2", diags).simulation.input_ids == "1,2");
  CHECK(applied("expect", "e.safetensors", diags).simulation.expect ==
        "dir/e.safetensors");
  CHECK(applied("plot", "e.svg", diags).simulation.plot == "dir/e.svg");
  CHECK(applied("vary", "tp", diags).simulation.vary ==
        std::vector<std::string>{"tp"});
  CHECK(diags.all().empty());
}

TEST_CASE("simulate's flags refuse what they do not understand") {
  for (const auto& row :
       std::vector<std::pair<std::string, std::string>>{{"dims", "batch"},
                                                        {"dims", "2=3"},
                                                        {"dims", "a=b"},
                                                        {"dims", "a=-1"},
                                                        {"overlap", "sideways"},
                                                        {"values", "ones"},
                                                        {"layers", "0"},
                                                        {"tokens", "2"},
                                                        {"tokens", "2x"},
                                                        {"tokens", "2x3x4"},
                                                        {"dtype", "f8"},
                                                        {"capacity", "-1"},
                                                        {"seed", "x"}}) {
    CAPTURE(row.first);
    CAPTURE(row.second);
    Diagnostics diags;
    applied(row.first, row.second, diags);
    REQUIRE(diags.all().size() == 1);
    CHECK(diags.all()[0].code == Code::Usage);
  }
}

}  // namespace
}  // namespace shardplan::cli
