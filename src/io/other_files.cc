// SPDX-License-Identifier: Apache-2.0
#include "io/other_files.h"

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
  if (key == std::string_view::npos) return false;
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
