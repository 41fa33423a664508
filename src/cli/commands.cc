// SPDX-License-Identifier: Apache-2.0
// The rows of the table of commands, and how most of them begin.
#include "cli/commands.h"

#include "base/words.h"
#include "cli/args.h"
#include "cli/flag_values.h"
#include "cli/options.h"
#include "session/session.h"

namespace shardplan::cli {
namespace {

constexpr std::string_view kCouldNotRun =
    "could not run: wrong usage, or an input that cannot be read or understood";

const Argument kModel = {
    "MODEL",
    "a manifest (JSON, YAML), a safetensors file or index, a folder with "
    "either, a Hugging Face config.json, or - for standard input"};

}  // namespace

// In the order of the overview.
std::span<const Command> commands() {
  static const std::vector<Command> kCommands = {
      {"check",
       "From rules",
       "report problems in partition rules",
       {{"[MODEL]",
         "the model to check; without it, every target of shardplan.yaml",
         true}},
       {"shardplan check config.json --rules @llama --mesh fsdp=4,tp=2",
        "shardplan check model/ --rules rules.yaml --mesh tp=8 --format "
        "github"},
       {"no errors", "at least one error", kCouldNotRun},
       "rules mesh devices plan hardware topology mode optimizer "
       "batch seq microbatches remat framework engine format output "
       "fix deny allow expand config",
       "guide.md",
       run_check,
       validate_check},
      {"resolve",
       "From rules",
       "print the partition spec of every parameter",
       {kModel},
       {"shardplan resolve config.json --rules @llama --mesh fsdp=4,tp=2",
        "shardplan resolve config.json -r rules.yaml -m tp=8 -o tp8.plan.json",
        "shardplan resolve config.json -r rules.yaml -m tp=8 --why "
        "lm_head.weight"},
       {"no errors", "at least one error; the result is still printed",
        kCouldNotRun},
       "rules mesh devices plan why on-indivisible unmatched format "
       "output expand",
       "guide.md",
       run_resolve,
       validate_resolve},
      {"analyze",
       "From rules",
       "report memory, communication and time per device",
       {kModel},
       {"shardplan analyze config.json --rules @llama --mesh fsdp=4,tp=2",
        "shardplan analyze config.json --plan tp8.plan.json --json"},
       {"no errors", "at least one error; the result is still printed",
        kCouldNotRun},
       "rules mesh devices plan hardware topology mode optimizer "
       "batch seq microbatches remat stages sequence-axes zero "
       "framework engine format output expand",
       "guide.md",
       run_analyze},
      {"sweep",
       "From rules",
       "compare many meshes and workloads: what fits, how fast",
       {kModel},
       {"shardplan sweep config.json -r @llama --devices 8,16 --over fsdp,tp",
        "shardplan sweep config.json -r @llama -m \"tp=4;tp=8\" --memory 80GB"},
       {"at least one point fits",
        "nothing fits, or at least one error in the rules", kCouldNotRun},
       "rules mesh devices over hardware topology memory optimizer "
       "batch seq microbatches remat mode engine objective format "
       "output expand",
       "guide.md",
       run_sweep},
      {"simulate",
       "From rules",
       "run the model sharded and unsharded, and compare",
       {kModel},
       {"shardplan simulate checkpoint/ --rules @llama --mesh fsdp=2,tp=4",
        "shardplan simulate config.json -r @llama -m fsdp=16,tp=8",
        "shardplan simulate checkpoint/ -r @llama -m tp=8 --dtype bf16 --vary "
        "tp",
        "shardplan simulate model.json --graph block.yaml -r @llama -m tp=8"},
       {"results match, and no errors", "results differ, or at least one error",
        kCouldNotRun},
       "rules mesh devices plan graph layers tokens shrink full "
       "dtype vary as seed format output plot",
       "simulate.md",
       run_simulate,
       validate_simulate},
      {"plan",
       "By search",
       "find the fastest mesh and settings to train or serve",
       {kModel},
       {"shardplan plan config.json --devices 64 --hardware h100-sxm",
        "shardplan plan config.json --topology 8xH100 --batch 64 --seq 4k",
        "shardplan plan config.json --topology 8xH100 --mode decode --engine "
        "vllm"},
       {"a plan fits", "nothing fits", kCouldNotRun},
       "devices hardware topology rules batch seq optimizer "
       "framework fix-mesh why-not top verify mode engine "
       "write-rules write-config "
       "format output",
       "planner.md",
       run_plan},
      {"inspect",
       "Without rules",
       "show a model's parameters, dtypes and sizes",
       {kModel},
       {"shardplan inspect model.safetensors.index.json",
        "shardplan inspect config.json --json",
        "shardplan inspect config.json -r @llama -m tp=8 --shard "
        "lm_head.weight"},
       {"the model was read",
        "with --shard: at least one error; the result is still printed",
        kCouldNotRun},
       "rules mesh architecture scheme lora shard format output "
       "expand",
       "guide.md",
       run_inspect,
       validate_inspect},
      {"gate",
       "With targets",
       "judge a change to rules, models or settings in CI",
       {{"BASE[..HEAD]",
         "two revisions of the git repository, or two folders: OLD/ NEW/; a "
         "single BASE means its merge base with HEAD"},
        {"[NEW/]", "the folder after the change", true}},
       {"shardplan gate origin/main",
        "shardplan gate v1.2..HEAD --fail-on \"lost-axes,memory>1%\"",
        "shardplan gate old/ new/ --format markdown"},
       {"the change passes", "the change fails --fail-on", kCouldNotRun},
       "",
       "ci.md",
       run_gate},
      {"diff",
       "With plans",
       "compare two plans, two rules files, or two readings of rules",
       {{"BEFORE", "a saved plan, or rules: a file or @name"},
        {"AFTER", "the same after the change"}},
       {"shardplan diff before.plan.json after.plan.json --exit-code",
        "shardplan diff old/base.yml new/base.yml --fail-on lost-axes",
        "shardplan diff old.yaml new.yaml --names model/ --json",
        "shardplan diff config.json --before old.yaml --after new.yaml -m "
        "fsdp=8,tp=4",
        "shardplan diff --semantics eformer,flax config.json -r @llama -m "
        "tp=8"},
       {"the comparison was printed",
        "they differ (with --exit-code), or --fail-on applies", kCouldNotRun},
       "rules mesh semantics names before after hardware optimizer "
       "batch seq fail-on exit-code format output expand",
       "guide.md",
       run_diff,
       validate_diff,
       {"semantics", "before", "after"},
       {kModel}},
      {"export",
       "With plans",
       "write rules or a plan for another tool",
       {kModel},
       {"shardplan export config.json -r @llama -m fsdp=4,tp=2 --to jax",
        "shardplan export config.json --plan tp8.plan.json --to python -o "
        "rules.py"},
       {"the text was written", "at least one error; the text is still written",
        "could not run, or the target cannot express the plan (SP014): nothing "
        "is written"},
       "rules mesh devices plan to output",
       "formats/export.md",
       run_export},
      {"explain",
       "Reference",
       "explain a diagnostic code, a matrix product or a collective",
       {{"[CODE]",
         "a code or its name, unless --matmul or --algorithm is given", true,
         code_words}},
       {"shardplan explain SP203", "shardplan explain split-unit",
        "shardplan explain --matmul \"P(dp, tp) @ P(tp, None)\"",
        "shardplan explain --algorithm ring --ranks 4"},
       {"the explanation was printed", "with --matmul, an invalid operand",
        kCouldNotRun},
       "",
       "guide.md",
       run_explain,
       validate_explain},
      {"list",
       "Reference",
       "formats, dialects, rules, hardware, algorithms, codes, commands",
       {{"[TOPIC]",
         "formats, dialects, rules, hardware, algorithms, codes or commands; "
         "without it, the topics",
         true, topic_names},
        {"[NAME]",
         "a hardware profile, a profile file or a topology: its numbers and "
         "their sources",
         true}},
       {"shardplan list rules", "shardplan list hardware h100-sxm",
        "shardplan list topologies v5p-128", "shardplan list codes --json"},
       {"the list was printed", "", kCouldNotRun},
       "",
       "guide.md",
       run_list},
      {"completion",
       "Reference",
       "print a completion script for bash, zsh or fish",
       {{"SHELL", "bash, zsh or fish", false, shell_names}},
       {"source <(shardplan completion bash)",
        "shardplan completion fish > "
        "~/.config/fish/completions/shardplan.fish"},
       {"the script was printed", "", kCouldNotRun},
       "",
       "guide.md",
       run_completion},
  };
  return kCommands;
}

std::optional<Session> open_session(Context& context) {
  return open_session(context.options.planning, context.options.memory,
                      context.host, context.diags, context.progress);
}

const Command* find_command(std::string_view name) {
  return find_named(commands(), name);
}

}  // namespace shardplan::cli
