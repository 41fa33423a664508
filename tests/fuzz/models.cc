// SPDX-License-Identifier: Apache-2.0
// Readers of models: whatever the bytes, a manifest that keeps its invariants,
// or a reason why there is none.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/text.h"
#include "graph/build.h"
#include "io/dialects.h"
#include "io/formats.h"
#include "io/load.h"
#include "model/forward/recognise.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/memory_host.h"

namespace shardplan::fuzz {

// Loads `path`; either there is a manifest that keeps its invariants or there
// is a reason why not.
inline void load_and_check(const std::string& path, testing::MemoryHost& host,
                           const LoadOptions& reading = {}) {
  Diagnostics diags;
  const std::optional<Manifest> manifest =
      load_manifest(path, reading, host, diags);
  require(manifest.has_value() || diags.has_errors(), "a refusal has a reason");
  if (!manifest) return;
  require(!diags.cannot_run(), "what cannot be used is not returned");
  require(!manifest->find_duplicate(), "names are unique");
  Int128 elements = 0;
  Int128 bytes = 0;
  for (size_t i = 0; i < manifest->size(); ++i) {
    elements += manifest->type(i).elements();
    bytes += manifest->type(i).bytes();
    require(is_valid_utf8(manifest->name(i)), "names are UTF-8");
  }
  require(elements == manifest->total_elements(), "elements add up");
  require(bytes == manifest->total_bytes(), "bytes add up");
}

}  // namespace shardplan::fuzz

// Native manifests, JSON and YAML.
FUZZ_TARGET(native) {
  using namespace shardplan;
  testing::MemoryHost host;
  host.files["model"] = std::string(fuzz::text_of(data, size));
  fuzz::load_and_check("model", host);
  return 0;
}

// Safetensors files. The header's length is put in front when the first bit of
// the input says so: the fuzzer need not learn to count.
FUZZ_TARGET(safetensors) {
  using namespace shardplan;
  if (size == 0) return 0;
  std::string file;
  const std::string_view rest = fuzz::text_of(data + 1, size - 1);
  if ((data[0] & 1U) != 0) {
    for (uint64_t length = rest.size(), i = 0; i < 8; ++i, length >>= 8U) {
      file += static_cast<char>(length & 0xffU);
    }
  }
  file += rest;
  testing::MemoryHost host;
  host.files["model.safetensors"] = std::move(file);
  fuzz::load_and_check("model.safetensors", host);
  return 0;
}

// model.safetensors.index.json beside one shard (named `a`), and, by the first
// bit, a config.
FUZZ_TARGET(index) {
  using namespace shardplan;
  if (size == 0) return 0;
  const std::string header =
      R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  std::string shard(8, '\0');
  shard[0] = static_cast<char>(header.size());
  testing::MemoryHost host;
  host.files["a"] = shard + header;
  if ((data[0] & 1U) != 0) {
    host.files["config.json"] =
        R"({"model_type":"llama","hidden_size":8,"num_hidden_layers":1,)"
        R"("num_attention_heads":2,"intermediate_size":4,"vocab_size":5})";
  }
  host.files["model.safetensors.index.json"] =
      std::string(fuzz::text_of(data + 1, size - 1));
  fuzz::load_and_check("model.safetensors.index.json", host);
  return 0;
}

// Architecture files, which read one config.
FUZZ_TARGET(architecture) {
  using namespace shardplan;
  testing::MemoryHost host;
  host.files["a.yaml"] = std::string(fuzz::text_of(data, size));
  host.files["config.json"] =
      R"({"model_type": "llama", "hidden_size": 8, "intermediate_size": 6,
"num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 10,
"layer_types": ["full_attention", "sliding_attention", "full_attention"],
"text_config": {"hidden_size": 8}, "d": 4, "n": 2, "list": [0, 2], "t": true})";
  fuzz::load_and_check("config.json", host, {.architecture = "a.yaml"});
  // The same with what can be run.
  host.files["config.json"] =
      R"({"hidden_size": 8, "intermediate_size": 6, "num_hidden_layers": 3,
"num_attention_heads": 4, "vocab_size": 10})";
  Diagnostics diags;
  const auto manifest =
      load_manifest("config.json", {.architecture = "a.yaml"}, host, diags);
  if (!manifest) return 0;
  const auto model = recognise_model(*manifest, diags);
  if (!model) return 0;
  const auto written = write_forward(*model, {*manifest, {}}, diags);
  if (written) build_graph(*written, *manifest, diags);
  // Whatever cannot be run is said.
  fuzz::require(written || diags.has_errors(), "a refusal has a reason");
  return 0;
}

// Names of other programs, for one model.
FUZZ_TARGET(scheme) {
  using namespace shardplan;
  testing::MemoryHost host;
  host.files["names.yaml"] = std::string(fuzz::text_of(data, size));
  host.files["config.json"] =
      R"({"model_type": "mixtral", "hidden_size": 8, "intermediate_size": 6,
"num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
"vocab_size": 10, "num_local_experts": 2, "num_experts_per_tok": 1,
"rope_scaling": {"rope_type": "llama3"}, "d": 4, "t": true})";
  fuzz::load_and_check("config.json", host, {.scheme = "names.yaml"});
  return 0;
}

// Hugging Face configs.
FUZZ_TARGET(config) {
  using namespace shardplan;
  testing::MemoryHost host;
  host.files["config.json"] = std::string(fuzz::text_of(data, size));
  fuzz::load_and_check("config.json", host);
  return 0;
}

// GGUF files. The magic and version are put in front when the first bit of the
// input says so.
FUZZ_TARGET(gguf) {
  using namespace shardplan;
  if (size == 0) return 0;
  std::string file;
  if ((data[0] & 1U) != 0) file = std::string("GGUF\3\0\0\0", 8);
  file += fuzz::text_of(data + 1, size - 1);
  testing::MemoryHost host;
  host.files["m-00001-of-00002.gguf"] = file;
  host.files["m-00002-of-00002.gguf"] = file;
  fuzz::load_and_check("m-00001-of-00002.gguf", host);
  return 0;
}

// Orbax checkpoints: `_METADATA`, a byte 0xff, `_sharding`, and so on for the
// `.zarray` of the array `w`. The shardings are read as rules too.
FUZZ_TARGET(orbax) {
  using namespace shardplan;
  std::string_view rest = fuzz::text_of(data, size);
  testing::MemoryHost host;
  for (const char* name : {"c/_METADATA", "c/_sharding", "c/w/.zarray"}) {
    const size_t end = std::min(rest.find('\xff'), rest.size());
    host.files[name] = std::string(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  fuzz::load_and_check("c", host);
  Diagnostics diags;
  const std::vector<std::string> paths = {"c"};
  const auto rules = load_rules(paths, "orbax", {}, host, diags);
  fuzz::require(rules.has_value() || diags.has_errors(),
                "a refusal has a reason");
  return 0;
}

// MaxText's model files; the same bytes are the file that `model_name: m`
// names.
FUZZ_TARGET(maxtext_model) {
  using namespace shardplan;
  testing::MemoryHost host;
  host.files["run.yml"] = std::string(fuzz::text_of(data, size));
  host.files["models/m.yml"] = host.files["run.yml"];
  fuzz::load_and_check("run.yml", host);
  return 0;
}

// MaxText's dumps: the named one, a byte 0xff, the logical one. The named one
// is read as rules too.
FUZZ_TARGET(maxtext_dump) {
  using namespace shardplan;
  const std::string_view text = fuzz::text_of(data, size);
  const size_t end = std::min(text.find('\xff'), text.size());
  testing::MemoryHost host;
  host.files["d/named_shardings.json"] = std::string(text.substr(0, end));
  host.files["d/logical_shardings.json"] =
      std::string(text.substr(std::min(end + 1, text.size())));
  fuzz::load_and_check("d", host);
  Diagnostics diags;
  const std::vector<std::string> paths = {"d"};
  const auto rules = load_rules(paths, "maxtext-dump", {}, host, diags);
  fuzz::require(rules.has_value() || diags.has_errors(),
                "a refusal has a reason");
  return 0;
}

// StableHLO modules, as a model and as rules.
FUZZ_TARGET(stablehlo) {
  using namespace shardplan;
  const auto source = std::make_shared<SourceFile>(
      "module", std::string(fuzz::text_of(data, size)));
  testing::MemoryHost host;
  Diagnostics diags;
  const auto manifest = kStableHlo.read({"module", source}, host, diags);
  fuzz::require(manifest.has_value() || diags.has_errors(),
                "a refusal has a reason");
  diags = {};
  RuleSet rules;
  const bool good =
      kShardy.read(source, {std::nullopt, {"a", "b"}}, rules, diags);
  fuzz::require(good || diags.has_errors(), "a refusal has a reason");
  if (good && manifest) {
    fuzz::require(rules.rules.size() <= manifest->size(),
                  "a rule belongs to an argument");
  }
  return 0;
}
