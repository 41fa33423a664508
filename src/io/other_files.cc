// SPDX-License-Identifier: Apache-2.0
#include "io/other_files.h"

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "io/dialects.h"
#include "io/formats.h"
#include "io/orbax/checkpoint.h"
#include "io/paths.h"
#include "io/plan/plan_file.h"

namespace shardplan {

bool refuse_lfs_pointer(const SourceFile& file, Diagnostics& diags) {
  constexpr std::string_view kPointer = "version https://git-lfs";
  if (!file.text().starts_with(kPointer)) return false;
  diags
      .error(Code::UnreadableFile, {&file, 0, 0},
             "this is a Git LFS pointer, not the file itself")
      .help("`git lfs pull` fetches the file");
  return true;
}

namespace {

// Configs of training programs that describe a model without its tensors, by
// keys that all of them have. A key of JSON stands in quotes, one of YAML at
// the beginning of a line or below another, a section of TOML in brackets.
struct OtherConfig {
  std::vector<std::string_view> keys;
  std::string_view is;
  std::string_view help;
};

constexpr std::string_view kGiveConfig =
    "give the config.json that its conversion to Hugging Face writes, or a "
    "checkpoint as safetensors";

const std::vector<OtherConfig>& other_configs() {
  static const std::vector<OtherConfig> kConfigs = {
      {{"\"dim\"", "\"n_layers\"", "\"n_heads\""},
       "the `params.json` of an original release (of Meta, Mistral or "
       "DeepSeek)",
       kGiveConfig},
      {{"\nmodel:", "mcore_gpt:"}, "a config of NeMo", kGiveConfig},
      {{"\nmodel:", "megatron_amp_O2:"}, "a config of NeMo", kGiveConfig},
      {{"\nlanguage_model:", "\nmodel_parallel:"},
       "a YAML config of Megatron-LM",
       "give its arguments by their names (`num_layers: 32`, ..) as one map, "
       "with `--architecture megatron_gpt`"},
      {{"\nnum_layers:", "\nhidden_size:"},
       "arguments of Megatron-LM",
       "`--architecture megatron_gpt` reads these"},
      {{"--num-layers", "--hidden-size"},
       "a command line of Megatron-LM",
       "give its arguments by their names (`num_layers: 32`, ..) as a YAML "
       "file, with `--architecture megatron_gpt`"},
      {{"\n[model]", "\n[training]"},
       "a config of torchtitan, which names a model but not its sizes",
       "give the config.json of that model (`hf_assets_path`)"},
      {{"\nmodel_name_or_path:"},
       "a training config that names a model but not its sizes",
       "give the config.json of that model"},
      {{"\nbase_model:", "\ndatasets:"},
       "a training config that names a model but not its sizes",
       "give the config.json of that model"},
      {{"\ndistributed_type:", "\nmixed_precision:"},
       "a config of accelerate, which describes no model",
       "give the config.json of the model"},
      {{"\"zero_optimization\""},
       "a config of DeepSpeed, which describes no model",
       "give the config.json of the model; `--zero N` shards its state so"},
  };
  return kConfigs;
}

bool has_key(std::string_view text, std::string_view key) {
  if (key.front() == '\n' && text.starts_with(key.substr(1))) return true;
  return text.find(key) != std::string_view::npos;
}

bool refuse_other_config(const std::string& path, const SourcePtr& file,
                         Diagnostics& diags) {
  const std::string_view text = file->text();
  for (const OtherConfig& each : other_configs()) {
    const bool all =
        std::all_of(each.keys.begin(), each.keys.end(),
                    [&](std::string_view key) { return has_key(text, key); });
    // A tensor may be called anything.
    if (!all || has_key(text, "\"shape\"") || has_key(text, "shape:")) continue;
    diags
        .error(Code::UnsupportedConfig, {},
               in_backticks(path) + " is " + std::string(each.is) +
                   ", which is not read as a model")
        .help(std::string(each.help));
    return true;
  }
  return false;
}

}  // namespace

bool refuse_other_file(const std::string& path, const SourcePtr& file,
                       Diagnostics& diags) {
  const std::string_view text = file->text();
  const bool is_map = text.starts_with('{');
  if (path.ends_with(".py") || (!is_map && kPythonRules.recognize(text))) {
    diags
        .error(Code::UnrecognizedFormat, {},
               in_backticks(path) + " is Python source, not a model")
        .help(
            "give the model's config.json, its weights or a manifest; "
            "`--rules` reads rules in Python");
    return true;
  }
  constexpr std::string_view kKey = "\"_diffusers_version\"";
  const size_t key = is_map ? text.find(kKey) : std::string_view::npos;
  if (key == std::string_view::npos) {
    return refuse_other_config(path, file, diags);
  }
  const bool is_pipeline = file_name_of(path) == kDiffusersPipeline;
  diags
      .error(Code::UnsupportedConfig, {file.get(), key, key + kKey.size()},
             is_pipeline ? "a pipeline of diffusers consists of several models"
                         : "configs of diffusers are not read")
      .help(is_pipeline
                ? "give the folder of one of them that has weights, such as "
                  "`transformer` or `unet`"
                : "give the safetensors files beside it, which have the names "
                  "and shapes of its tensors");
  return true;
}

bool is_arguments(std::string_view head) {
  return has_key(head, "\nnum_layers:") && has_key(head, "\nhidden_size:");
}

std::string_view other_than_rules(std::string_view head) {
  if (is_plan(head)) return "a saved plan";
  if (kGguf.recognize(head)) return "a GGUF file";
  if (kSafetensors.recognize(head)) return "a safetensors file";
  if (kSafetensorsIndex.recognize(head)) return "an index of shards";
  if (is_orbax_metadata(head)) {
    return "an Orbax `_METADATA` (the `_sharding` beside it has rules)";
  }
  // A config may hold a plan.
  if (kHfConfig.recognize(head) && !kHfTpPlan.recognize(head)) {
    return "a model's config";
  }
  return "";
}

}  // namespace shardplan
