// SPDX-License-Identifier: Apache-2.0
#include "io/shards.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/shipped.h"
#include "io/spec_node.h"
#include "resolve/match.h"
#include "tests/support/builders.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"
#include "tests/support/safetensors.h"
#include "tests/support/source_dir.h"

namespace shardplan {
namespace {

using testing::messages;
using testing::safetensors;

const std::vector<std::string> kPaths = {"a", "b", "c"};

testing::MemoryHost host_with_shards(bool with_data = true) {
  testing::MemoryHost host;
  host.files["a"] = safetensors({{"x", "F32", {4}}}, with_data);
  host.files["b"] = safetensors({{"y", "F32", {4}}}, with_data);
  host.files["c"] = safetensors({{"z", "F32", {4}}}, with_data);
  return host;
}

TEST_CASE("shards are read in the order asked for") {
  auto host = host_with_shards();
  Diagnostics diags;
  Manifest manifest;
  const auto shards = read_shards(kPaths, host, manifest, diags);
  REQUIRE(shards.has_value());
  REQUIRE(shards->size() == 3);
  CHECK(manifest.name(1) == "y");
  CHECK(check_distinct(manifest, diags));
  CHECK(diags.all().empty());
}

TEST_CASE("every shard that cannot be read is reported") {
  auto host = host_with_shards();
  host.files["a"] = "not a shard";
  host.unreadable.insert("c");
  Diagnostics diags;
  Manifest manifest;
  CHECK_FALSE(read_shards(kPaths, host, manifest, diags));
  CHECK(diags.all().size() == 2);
}

TEST_CASE("absent data is remarked on once for all shards") {
  for (const int absent : {0, 1, 3}) {
    CAPTURE(absent);
    auto host = host_with_shards();
    auto headers = host_with_shards(false);
    for (int i = 0; i < absent; ++i) {
      const std::string& path = kPaths[static_cast<size_t>(i)];
      host.files[path] = headers.files[path];
    }
    Diagnostics diags;
    Manifest manifest;
    const auto shards = read_shards(kPaths, host, manifest, diags);
    REQUIRE(shards.has_value());
    remark_absent(*shards, manifest);
    CHECK(manifest.sources.size() == 3);
    std::string remark;
    for (const std::string& text : manifest.remarks) remark += text;
    CHECK(remark ==
          (absent == 0 ? ""
           : absent == 1
               ? "the data of `a` is missing (header only)"
               : "the data of 3 of 3 shards is missing (headers only)"));
  }
}

TEST_CASE("a shard knows which tensors it has brought") {
  auto host = host_with_shards();
  host.files["b"] =
      safetensors({{"h.0.attn.bias", "F32", {1, 1, 2, 2}}, {"x", "BF16", {3}}});
  Diagnostics diags;
  Manifest manifest;
  const auto shards = read_shards(kPaths, host, manifest, diags);
  REQUIRE(shards.has_value());
  CHECK(tensor_bytes(manifest) == 54);
  const Shard& shard = shards->at(1);
  CHECK(shard.parameters == 1);
  CHECK(shard.buffers == 1);
  CHECK(manifest.where(shard.first_parameter).text() == "\"x\"");
  CHECK(manifest.buffers()[shard.first_buffer].where.text() ==
        "\"h.0.attn.bias\"");
  CHECK(shards->at(2).first_parameter == 2);
  CHECK(shards->at(2).first_buffer == 1);
}

TEST_CASE("shards that together exceed 63 bits are refused") {
  auto host = host_with_shards();
  const Shape huge = {int64_t{1} << 62U};
  host.files["a"] = safetensors({{"x", "U8", huge}}, false);
  host.files["b"] = safetensors({{"y", "U8", huge}}, false);
  Diagnostics diags;
  Manifest manifest;
  CHECK_FALSE(read_shards(kPaths, host, manifest, diags));
  CHECK(messages(diags) ==
        "SP002 b:1:28 with `y` the tensors exceed 2^63 bytes");
}

TEST_CASE("tensors in two shards are reported together") {
  auto host = host_with_shards();
  host.files["c"] =
      safetensors({{"z", "F32", {1}}, {"x", "F32", {1}}, {"y", "F32", {1}}});
  Diagnostics diags;
  Manifest manifest;
  REQUIRE(read_shards(kPaths, host, manifest, diags).has_value());
  CHECK_FALSE(check_distinct(manifest, diags));
  CHECK(messages(diags).starts_with("SP008 c:1:"));
  CHECK(messages(diags).ends_with(
      "2 tensors in more than one shard: `x` and `y`"));
  CHECK(testing::place_text(diags.all().front().labels.at(1).where) == "a:1:2");
  CHECK(diags.count(Severity::Error) == 2);
}

TEST_CASE("a name that one shard has twice is told from one of two shards") {
  auto host = host_with_shards();
  host.files["b"] = safetensors({{"y", "U8", {0}}, {"y", "U8", {0}}});
  Diagnostics diags;
  Manifest manifest;
  REQUIRE(read_shards(kPaths, host, manifest, diags).has_value());
  CHECK_FALSE(check_distinct(manifest, diags));
  CHECK(messages(diags).starts_with("SP003 b:1:"));
  CHECK(messages(diags).ends_with("`y` is given twice"));
}

namespace fs = std::filesystem;

TEST_CASE("every file below rules is shipped as it stands there") {
  const fs::path root = fs::path(source_dir()) / "rules";
  size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file()) continue;
    const std::string path = fs::relative(entry.path(), root);
    CAPTURE(path);
    ++files;
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    const auto all = shipped_files();
    const auto found = std::find_if(
        all.begin(), all.end(),
        [&](const ShippedFile& file) { return file.path == path; });
    REQUIRE(found != all.end());
    CHECK(found->text == text.str());
  }
  CHECK(shipped_files().size() == files);
}

TEST_CASE("a folder's files are told from those of another") {
  Diagnostics diags;
  CHECK(shipped_name({"models/llama.yaml", ""}) == "llama");
  CHECK(shipped_name({"hardware/a.b.yaml", ""}) == "a.b");
  CHECK(shipped_files("models").size() + shipped_files("hardware").size() +
            shipped_files("any").size() + shipped_files("logical").size() +
            shipped_files("graphs").size() +
            shipped_files("architectures").size() +
            shipped_files("schemes").size() ==
        shipped_files().size());
  CHECK(shipped_files("model").empty());
  const SourcePtr llama = find_shipped("models", "llama", diags);
  REQUIRE(llama != nullptr);
  CHECK(llama->name() == "rules/models/llama.yaml");
  CHECK(find_shipped("hardware", "llama", diags) == nullptr);
  CHECK(find_shipped("models", "models/llama", diags) == nullptr);
  CHECK(find_shipped("models", "", diags) == nullptr);
  CHECK(diags.all().empty());
}

RecordedSharding recorded(const std::string& name, const std::string& mesh,
                          const std::string& spec) {
  RecordedSharding sharding;
  sharding.name = name;
  if (!mesh.empty()) {
    const Mesh parsed = testing::mesh(mesh);
    for (const Axis& axis : parsed.axes()) {
      sharding.mesh.push_back({axis.name, axis.size, {}, {}, {}});
    }
  }
  sharding.spec = testing::spec(spec);
  return sharding;
}

// Whether the pattern of a recorded name is found in another.
bool finds(const std::string& recorded_name, const std::string& name) {
  RuleSet rules;
  Rule rule;
  rule.pattern = recorded_pattern(recorded_name);
  rules.rules.push_back(rule);
  Diagnostics diags;
  const auto matcher = Matcher::compile(rules, true, diags);
  REQUIRE(matcher.has_value());
  std::vector<int> found;
  matcher->find(name, found);
  return !found.empty();
}

TEST_CASE("a recorded name is found with either separator, and alone") {
  CHECK(recorded_pattern("params.w") == "^params[./]w$");
  CHECK(finds("params.params.w", "params/params/w"));
  CHECK(finds("params/params/w", "params.params.w"));
  CHECK_FALSE(finds("params.w", "params/params/w"));
  CHECK_FALSE(finds("params.w", "params/w2"));
  CHECK_FALSE(finds("params.w", "paramsxw"));
  CHECK(finds("a+b[0]\\.c", "a+b[0]\\/c"));
}

TEST_CASE("the box that NNX puts last may be there or not") {
  CHECK(recorded_pattern("model.w.value") == "^model[./]w([./]value)?$");
  CHECK(finds("model.w.value", "model/w"));
  CHECK(finds("model.w.value", "model/w/value"));
  CHECK_FALSE(finds("model.w", "model/w/value"));
  CHECK(recorded_pattern("value") == "^value$");
  CHECK(recorded_pattern("xvalue") == "^xvalue$");
}

TEST_CASE(
    "the mesh is that of the first, and others are not dropped silently") {
  Diagnostics diags;
  CHECK(common_mesh({}, diags).axes.empty());
  const auto mesh = common_mesh(
      {recorded("step", "", ""), recorded("a", "fsdp=4,tp=2", "fsdp"),
       recorded("b", "fsdp=4,tp=2", "")},
      diags);
  CHECK(axes_text(mesh.axes) == "fsdp=4,tp=2");
  CHECK(diags.all().empty());
  const auto other =
      common_mesh({recorded("a", "fsdp=4", ""), recorded("b", "fsdp=8", ""),
                   recorded("c", "tp=4", "")},
                  diags);
  CHECK(axes_text(other.axes) == "fsdp=4");
  CHECK(testing::messages(diags) ==
        "SP007 warning 2 arrays recorded on a different mesh than the first");
}

TEST_CASE("each parameter gives a rule, the optimizer's state a note") {
  RuleSet rules;
  Diagnostics diags;
  add_recorded_rules({recorded("params.w", "fsdp=4", "None, fsdp"),
                      recorded("opt_state.0.mu.w", "fsdp=4", "fsdp"),
                      recorded("step", "", "")},
                     rules, diags);
  REQUIRE(rules.rules.size() == 1);
  CHECK(spec_text(rules.rules[0].spec) == "P(None, fsdp)");
  CHECK(rules.rules[0].dim_where.size() == 2);
  CHECK(testing::messages(diags) ==
        "SP012 note 2 shardings of optimizer state and counters left out");
}

TEST_CASE("a state that is all optimizer gives rules too") {
  RuleSet rules;
  Diagnostics diags;
  add_recorded_rules({recorded("opt_state.0.mu.w", "fsdp=4", "fsdp")}, rules,
                     diags);
  CHECK(rules.rules.size() == 1);
  CHECK(diags.all().empty());
}

TEST_CASE("the names of a training state say what is a parameter") {
  for (const char* name :
       {"params/params/decoder/w", "params.w", "model/decoder/scale", "w",
        "stepper/w", "decoder/optimizer/w", "", "a//b"}) {
    CAPTURE(name);
    CHECK(state_part(name) == StatePart::Parameter);
  }
  for (const char* name : {"opt_state/0/mu/params/w", "opt_state.0.count",
                           "optimizer/opt_state/0/nu/w"}) {
    CAPTURE(name);
    CHECK(state_part(name) == StatePart::Optimizer);
  }
  for (const char* name :
       {"step", "rng", "model/decoder/rngs/params/key", "a.rngs"}) {
    CAPTURE(name);
    CHECK(state_part(name) == StatePart::Counter);
  }
}

}  // namespace

}  // namespace shardplan
