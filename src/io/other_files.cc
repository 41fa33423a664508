// SPDX-License-Identifier: Apache-2.0
#include "io/other_files.h"

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "base/words.h"
#include "io/dialects.h"
#include "io/formats.h"
#include "io/orbax/checkpoint.h"
#include "io/paths.h"
#include "io/saved_plan.h"

namespace shardplan {
namespace {

// A kind of config that describes a model without its tensors. A file is of
// this kind if it has all `keys`: JSON keys in quotes, top-level YAML keys
// after a line break, nested YAML keys without one, TOML sections in brackets.
struct OtherConfig {
  std::vector<std::string_view> keys;
  std::string_view is;
  std::string_view help;
};

constexpr std::string_view kGiveConfig =
    "give the config.json of its Hugging Face conversion, or a safetensors "
    "checkpoint";

constexpr std::string_view kGiveModel = "give the config.json of the model";

constexpr std::string_view kGiveThat = "give the config.json of that model";

constexpr std::string_view kTraining =
    "a training config that names a model but not its sizes";
constexpr std::string_view kTorchtitan =
    "a torchtitan config, which names a model but not its sizes";
constexpr std::string_view kGiveAssets =
    "give the config.json of that model (`hf_assets_path`)";

const std::vector<OtherConfig> kOtherConfigs = {
    {{"\"dim\"", "\"n_layers\"", "\"n_heads\""},
     "the `params.json` of an original release (Meta, Mistral or DeepSeek)",
     kGiveConfig},
    {{"\nmodel:", "mcore_gpt:"}, "a NeMo config", kGiveConfig},
    {{"\nmodel:", "megatron_amp_O2:"}, "a NeMo config", kGiveConfig},
    {{"\nmodel:", "\ntrainer:", "tensor_model_parallel_size:"},
     "a NeMo config",
     kGiveConfig},
    {{"\nlanguage_model:", "\nmodel_parallel:"},
     "a Megatron-LM YAML config",
     "give its arguments as one map (`num_layers: 32`, ..), with "
     "`--architecture megatron_gpt`"},
    {{"\nnum_layers:", "\nhidden_size:"},
     "a file of Megatron-LM arguments",
     "add `--architecture megatron_gpt` to read it"},
    {{"--num-layers", "--hidden-size"},
     "a Megatron-LM command line",
     "give its arguments in a YAML file (`num_layers: 32`, ..), with "
     "`--architecture megatron_gpt`"},
    {{"\n[model]", "\n[training]"}, kTorchtitan, kGiveAssets},
    {{"\n[model]", "\n[parallelism]"}, kTorchtitan, kGiveAssets},
    {{"\nmodel_name_or_path:"}, kTraining, kGiveThat},
    {{"\nbase_model:", "\ndatasets:"}, kTraining, kGiveThat},
    {{"\ndistributed_type:", "\nmixed_precision:"},
     "an accelerate config",
     kGiveModel},
    {{"\ncompute_environment:", "\ndistributed_type:"},
     "an accelerate config",
     kGiveModel},
    {{"\"peft_type\"", "\"target_modules\""},
     "a PEFT config, which describes adapters but not the model",
     "give its base model's config.json, and add adapters with `--lora "
     "r=N,targets=A+B`"},
    {{"\"tokenizer_class\""}, "a tokenizer config", kGiveModel},
    {{"\"added_tokens\"", "\"truncation\""}, "a tokenizer", kGiveModel},
    {{"\"bos_token\"", "\"eos_token\""},
     "a tokenizer's special-tokens file",
     kGiveModel},
    {{"\"bos_token_id\"", "\"eos_token_id\""},
     "a text-generation config",
     kGiveModel},
    {{"\"image_processor_type\""}, "a processor config", kGiveModel},
    {{"\"feature_extractor_type\""}, "a processor config", kGiveModel},
    {{"\"processor_class\""}, "a processor config", kGiveModel},
    {{"\"log_history\"", "\"global_step\""},
     "the state of a training run",
     kGiveModel},
    {{"\"zero_optimization\""},
     "a DeepSpeed config",
     "give the config.json of the model, and its ZeRO stage with `--zero N`"},
};

bool has_key(std::string_view text, std::string_view key) {
  return contains(text, key) ||
         (key.front() == '\n' && text.starts_with(key.substr(1)));
}

// Returns null if the text is none of them.
const OtherConfig* find_other_config(std::string_view text) {
  // A manifest, which has shapes, may use any of these keys as tensor names.
  if (has_key(text, "\"shape\"") || has_key(text, "shape:")) return nullptr;
  const auto found =
      std::ranges::find_if(kOtherConfigs, [&](const OtherConfig& config) {
        return std::ranges::all_of(config.keys, [&](std::string_view key) {
          return has_key(text, key);
        });
      });
  return found == kOtherConfigs.end() ? nullptr : &*found;
}

// Returns what a binary file with tensors is, judging by its first bytes or its
// name; "" if it is none.
std::string_view kind_of_weights(const std::string& path,
                                 std::string_view text) {
  if (text.starts_with("PK\x03\x04")) {
    return "a zip archive, as written by `torch.save`";
  }
  if (text.starts_with("\x80\x02")) {
    return "a pickle, as written by `torch.save`";
  }
  if (text.starts_with("\x89HDF")) return "an HDF5 file";
  return path.ends_with(".onnx") ? "an ONNX file" : "";
}

// Reports the error and returns true.
bool refuse(Code code, Span where, std::string message, std::string_view help,
            Diagnostics& diags) {
  diags.error(code, where, std::move(message)).help(std::string(help));
  return true;
}

}  // namespace

bool refuse_lfs_pointer(const SourceFile& file, Diagnostics& diags) {
  const Span where = {&file, 0, 0};
  const std::string start = lower_case(file.text().substr(0, 14));
  if (start == "<!doctype html" || start.starts_with("<html")) {
    return refuse(
        Code::UnreadableFile, where, "this is a web page, not the file itself",
        "download it again; a server that requires a login sends a web page",
        diags);
  }
  return file.text().starts_with("version https://git-lfs") &&
         refuse(Code::UnreadableFile, where,
                "this is a Git LFS pointer, not the file itself",
                "run `git lfs pull` to fetch the file", diags);
}

bool refuse_other_file(const std::string& path, const SourcePtr& file,
                       Diagnostics& diags) {
  const std::string_view text = file->text();
  const std::string name = in_backticks(path);
  if (const auto is = kind_of_weights(path, text); !is.empty()) {
    return refuse(
        Code::UnrecognizedFormat, {},
        name + " is " + std::string(is) + ": this format is not supported",
        "give the model's config.json, or convert the weights to safetensors",
        diags);
  }
  const bool is_map = text.starts_with('{');
  if (path.ends_with(".py") || (!is_map && kPythonRules.recognize(text))) {
    return refuse(Code::UnrecognizedFormat, {},
                  name + " is Python source, not a model",
                  "give the model's config.json, its weights or a manifest; "
                  "give Python rules with `--rules`",
                  diags);
  }
  constexpr std::string_view kKey = "\"_diffusers_version\"";
  const size_t key = is_map ? text.find(kKey) : std::string_view::npos;
  if (key == std::string_view::npos) {
    const OtherConfig* config = find_other_config(text);
    return config != nullptr && refuse(Code::UnsupportedConfig, {},
                                       name + " is " + std::string(config->is) +
                                           ": it cannot be read as a model",
                                       config->help, diags);
  }
  const bool is_pipeline = file_name_of(path) == kDiffusersPipeline;
  return refuse(Code::UnsupportedConfig, {file.get(), key, key + kKey.size()},
                is_pipeline ? "a diffusers pipeline consists of several models"
                            : "diffusers configs are not supported",
                is_pipeline ? "give the folder of one model with weights, such "
                              "as `transformer` or `unet`"
                            : "give the safetensors files next to it, which "
                              "have the names and shapes of its tensors",
                diags);
}

bool is_arguments(std::string_view head) {
  return has_key(head, "\nnum_layers:") && has_key(head, "\nhidden_size:");
}

bool refuse_other_rules(const SourceFile& file, Diagnostics& diags) {
  // A rules file may contain the keys of such configs.
  const std::string_view text = file.text();
  if (has_key(text, "rules") || has_key(text, "\n- ")) return false;
  const OtherConfig* config = find_other_config(text);
  if (config == nullptr) return false;
  diags.error(Code::UnrecognizedFormat, {},
              in_backticks(file.name()) + " is " + std::string(config->is) +
                  ", not rules");
  return true;
}

bool refuse_other_hardware(const SourceFile& file, Diagnostics& diags) {
  const std::string_view text = file.text();
  std::string_view is = other_than_rules(text);
  const OtherConfig* const config = find_other_config(text);
  if (is.empty() && config != nullptr) is = config->is;
  if (is.empty() && has_key(text, "\nrules:")) is = "a rules file";
  return !is.empty() &&
         refuse(Code::UnrecognizedFormat, {},
                in_backticks(file.name()) + " is " + std::string(is) +
                    ", not a hardware profile",
                "`shardplan list hardware` shows the shipped profiles; "
                "`--memory SIZE` sets only a memory limit",
                diags);
}

std::string_view other_than_rules(std::string_view head) {
  if (is_plan(head)) return "a saved plan";
  if (kGguf.recognize(head)) return "a GGUF file";
  if (kSafetensors.recognize(head)) return "a safetensors file";
  if (kSafetensorsIndex.recognize(head)) return "a shard index";
  if (is_orbax_metadata(head)) {
    return "an Orbax `_METADATA` (the `_sharding` next to it has rules)";
  }
  // A model's config may contain a `tp_plan`, which is a set of rules.
  if (kHfConfig.recognize(head) && !kHfTpPlan.recognize(head)) {
    return "a model's config";
  }
  return "";
}

}  // namespace shardplan
