// SPDX-License-Identifier: Apache-2.0
#include "activations/remat.h"

#include <utility>

#include "base/text.h"
#include "base/words.h"

namespace shardplan {
namespace {

constexpr int64_t kMostLayers = 100'000;

// Policies named by what they save, with the names that frameworks have for
// them. JAX: jax.checkpoint_policies. MaxText: `remat_policy` (decoders.py).
// Megatron-LM: --recompute-granularity. torchtitan: activation_checkpoint.
std::vector<RematPolicy> make_policies() {
  RematPolicy none{"none", "everything that backward reads"};
  none.everything = true;
  RematPolicy dots{"dots", "matmuls with weights, not attention scores"};
  dots.weight_products = true;
  RematPolicy block{"block", "layer inputs and attention outputs"};
  block.attention = true;
  const RematPolicy full{"full", "layer inputs"};
  RematPolicy all_dots{"dots_saveable", "all matmuls, including attention's"};
  all_dots.weight_products = true;
  all_dots.other_products = true;
  RematPolicy context{"minimal_with_context",
                      "matmuls with weights, and attention outputs"};
  context.weight_products = true;
  context.attention = true;
  RematPolicy scores{"selective", "all but attention scores (Megatron-LM)"};
  scores.scores_only = true;
  RematPolicy operations{
      "selective:op",
      "attention outputs and every second matmul with weights (torchtitan)"};
  operations.weight_products = true;
  operations.attention = true;
  operations.every_second_product = true;
  RematPolicy no_mlp{"save_dot_except_mlp", "attention's matmuls with weights"};
  no_mlp.saved = {"attn.query", "attn.key", "attn.value", "attn.qkv",
                  "attn.output"};
  RematPolicy no_mlpwi = no_mlp;
  no_mlpwi.name = "save_dot_except_mlpwi";
  no_mlpwi.summary = "attention's matmuls with weights and the MLP's last";
  no_mlpwi.saved.push_back("mlp.output");
  RematPolicy qkv{"save_qkv_proj", "queries, keys and values"};
  qkv.saved = {"attn.query", "attn.key", "attn.value", "attn.qkv"};
  RematPolicy out{"save_out_proj", "attention's output projection"};
  out.saved = {"attn.output"};
  RematPolicy offloaded = qkv;
  offloaded.name = "qkv_proj_offloaded";
  offloaded.summary = "queries, keys and values, in host memory";
  offloaded.offloaded = qkv.saved;
  RematPolicy all_offloaded = dots;
  all_offloaded.name = "minimal_offloaded";
  all_offloaded.summary = "matmuls with weights, in host memory (MaxText)";
  all_offloaded.offloads_products = true;
  // torchtune and TRL: OffloadActivations; parameters are not moved.
  RematPolicy activations = none;
  activations.name = "offload_activations";
  activations.summary =
      "all saved activations, in host memory (torchtune, TRL)";
  activations.offloads_everything = true;

  std::vector<RematPolicy> all = {none,      dots,          block,      full,
                                  scores,    operations,    all_dots,   context,
                                  no_mlp,    no_mlpwi,      qkv,        out,
                                  offloaded, all_offloaded, activations};
  const auto also = [&](const RematPolicy& of, std::string_view name,
                        std::string_view summary) {
    RematPolicy same = of;
    same.name = name;
    same.summary = summary;
    all.push_back(std::move(same));
  };
  also(none, "everything_saveable", "same as none (JAX)");
  also(full, "nothing_saveable", "same as full (JAX)");
  also(all_dots, "checkpoint_dots", "same as dots_saveable (JAX)");
  also(dots, "dots_with_no_batch_dims_saveable", "same as dots (JAX)");
  also(dots, "checkpoint_dots_with_no_batch_dims", "same as dots (JAX)");
  also(dots, "minimal", "same as dots (MaxText)");
  also(all_offloaded, "offload_dot_with_no_batch_dims",
       "same as minimal_offloaded (JAX)");
  return all;
}

std::optional<int64_t> count_in(std::string_view text) {
  const auto number = parse_integer(text);
  return number && *number >= 1 && *number <= kMostLayers ? number
                                                          : std::nullopt;
}

std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> parts = {""};
  for (const char c : text) {
    if (c == by) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// Reports that `name` is none of the known names. `problem` is the message
// without the name, and `others` lists forms that are not names.
void report_unknown(const std::string& problem, const std::string& name,
                    const std::vector<std::string>& known, Diagnostics& diags,
                    const std::string& others = "") {
  suggest(diags.error(Code::Usage, {}, problem + in_backticks(name)), name,
          known)
      .help("one of " + joined(known, ", ") + others);
}

const CheckpointName* find_checkpoint_name(const std::string& name,
                                           Diagnostics& diags) {
  const CheckpointName* const found = find_named(checkpoint_names(), name);
  if (found == nullptr) {
    report_unknown("`--remat` has no layer value ", name,
                   all_names(checkpoint_names()), diags);
  }
  return found;
}

enum class Place : uint8_t { Device, Host, Nowhere };

void put(const CheckpointName& name, Place place, RematPolicy& policy) {
  if (place == Place::Nowhere) return;
  policy.saved.insert(policy.saved.end(), name.parts.begin(), name.parts.end());
  policy.attention = policy.attention || name.attention;
  if (place != Place::Host) return;
  policy.offloaded.insert(policy.offloaded.end(), name.parts.begin(),
                          name.parts.end());
  policy.offloads_attention = policy.offloads_attention || name.attention;
  policy.offloads_input = policy.offloads_input || name.input;
}

bool put_all(const std::string& names, Place place, RematPolicy& policy,
             Diagnostics& diags) {
  if (names.empty()) return true;
  for (const std::string& each : split(names, ',')) {
    const CheckpointName* const name = find_checkpoint_name(each, diags);
    if (name == nullptr) return false;
    put(*name, place, policy);
  }
  return true;
}

bool put_placed(const std::string& text, RematPolicy& policy,
                Diagnostics& diags) {
  for (const std::string& each : split(text, ',')) {
    const std::vector<std::string> sides = split(each, '=');
    const std::string where = sides.size() == 2 ? sides[1] : std::string();
    if (where != "device" && where != "offload" && where != "remat") {
      diags
          .error(Code::Usage, {},
                 "`--remat custom` does not say where " + in_backticks(each) +
                     " is kept")
          .help(
              "NAME=device, NAME=offload or NAME=remat, e.g. "
              "`custom:query_proj=device,mlpwo=offload`");
      return false;
    }
    const CheckpointName* const name = find_checkpoint_name(sides[0], diags);
    if (name == nullptr) return false;
    put(*name,
        where == "device"    ? Place::Device
        : where == "offload" ? Place::Host
                             : Place::Nowhere,
        policy);
  }
  return true;
}

constexpr std::string_view kScoresModule = "core_attn";

// Reads `selective:moe_act,layernorm`. Returns null, with the reason reported,
// if a module is unknown.
std::shared_ptr<const NamedPolicy> read_modules(const std::string& text,
                                                const std::string& modules,
                                                Diagnostics& diags) {
  auto named = std::make_shared<NamedPolicy>();
  named->text = text;
  RematPolicy& policy = named->policy;
  policy.name = named->text;
  policy.summary = "all but these modules";
  std::vector<std::string> known = {std::string(kScoresModule)};
  for (const RecomputedModule& each : recomputed_modules()) {
    if (!contains(known, each.name)) known.emplace_back(each.name);
  }
  for (const std::string& each : split(modules, ',')) {
    if (!contains(known, each)) {
      report_unknown("`--remat selective` has no module ", each, known, diags);
      return nullptr;
    }
    policy.scores_only = policy.scores_only || each == kScoresModule;
    for (const RecomputedModule& module : recomputed_modules()) {
      if (module.name == each) policy.modules.push_back(&module);
    }
  }
  return named;
}

// Reads a policy of names. Returns null, with the reason reported, if it is
// wrong.
std::shared_ptr<const NamedPolicy> read_names(
    const std::string& text, const std::vector<std::string>& parts,
    Diagnostics& diags) {
  auto named = std::make_shared<NamedPolicy>();
  named->text = text;
  RematPolicy& policy = named->policy;
  policy.name = named->text;
  policy.summary = "these names";
  const bool two = parts[0] == "save_and_offload_only_these_names";
  if (parts.size() != (two ? 3 : 2)) {
    diags
        .error(Code::Usage, {},
               "`--remat " + parts[0] + "` takes " +
                   (two ? "two lists of names" : "one list of names"))
        .help(two ? "`" + parts[0] +
                        ":KEPT:OFFLOADED`, either of which may be empty"
                  : "`" + parts[0] + ":NAME,..`");
    return nullptr;
  }
  const bool good =
      parts[0] == "custom"
          ? put_placed(parts[1], policy, diags)
          : put_all(parts[1], Place::Device, policy, diags) &&
                (!two || put_all(parts[2], Place::Host, policy, diags));
  return good ? named : nullptr;
}

}  // namespace

std::span<const CheckpointName> checkpoint_names() {
  static const std::vector<CheckpointName> kAll = {
      {"decoder_layer_input", {}, true, false},
      {"query_proj", {"attn.query"}, false, false},
      {"key_proj", {"attn.key"}, false, false},
      {"value_proj", {"attn.value"}, false, false},
      {"qkv_proj", {"attn.qkv"}, false, false},
      {"context", {}, false, true},
      {"out_proj", {"attn.output"}, false, false},
      {"mlpwi_0", {"mlp.gate"}, false, false},
      {"mlpwi_1", {"mlp.up"}, false, false},
      {"mlpwi", {"mlp.up"}, false, false},
      {"mlpwo", {"mlp.output"}, false, false},
  };
  return kAll;
}

std::span<const RecomputedModule> recomputed_modules() {
  using Of = RecomputedModule::Of;
  static const std::vector<RecomputedModule> kAll = {
      {"layernorm", Of::Experts, {"mlp.input"}},
      {"layernorm", Of::Latent, {"attn.input"}},
      // The results of the first products are saved. Those of keys and values
      // are as wide as the latents, which are saved in their place.
      {"mla_up_proj",
       Of::Latent,
       {"attn.query", "attn.key", "attn.value", "attn.kv"},
       {"attn.query:latent"}},
      // This includes its norm.
      {"mlp", Of::Dense, {"mlp."}, {"mlp.output"}},
      {"moe", Of::Experts, {"mlp."}, {"mlp.input", "mlp.output"}},
      {"moe_act",
       Of::Experts,
       {"mlp.active", "mlp.hidden", "mlp.experts.*.active",
        "mlp.experts.*.hidden"}},
      {"shared_experts", Of::Experts, {"mlp.shared."}, {"mlp.shared.output"}},
  };
  return kAll;
}

std::span<const RematPolicy> remat_policies() {
  static const std::vector<RematPolicy> kAll = make_policies();
  return kAll;
}

const RematPolicy* find_remat_policy(std::string_view name) {
  return find_named(remat_policies(), name);
}

std::optional<Remat> read_remat(const std::string& text, Diagnostics& diags) {
  Remat remat;
  remat.policy = find_remat_policy(text);
  if (remat.policy != nullptr) return remat;
  const std::vector<std::string> parts = split(text, ':');
  const bool has_names = parts[0] == "save_only_these_names" ||
                         parts[0] == "save_and_offload_only_these_names" ||
                         parts[0] == "custom";
  const bool has_modules = parts.size() == 2 && parts[0] == "selective" &&
                           !parts[1].empty() && !is_digit(parts[1][0]);
  if (has_names || has_modules) {
    remat.named = has_names ? read_names(text, parts, diags)
                            : read_modules(text, parts[1], diags);
    if (remat.named == nullptr) return std::nullopt;
    remat.policy = &remat.named->policy;
    return remat;
  }
  const auto number =
      parts.size() > 1 ? count_in(parts.back()) : std::optional<int64_t>();
  if (number && parts.size() == 2 && parts[0] == "selective") {
    remat.policy = find_remat_policy("full");
    remat.every = *number;
    return remat;
  }
  if (number && parts.size() == 3 && parts[0] == "full" &&
      (parts[1] == "uniform" || parts[1] == "block")) {
    remat.policy = find_remat_policy("full");
    if (parts[1] == "uniform") {
      remat.together = *number;
    } else {
      remat.first = *number;
    }
    return remat;
  }
  report_unknown("`--remat` has no policy ", text, all_names(remat_policies()),
                 diags,
                 ", full:uniform:N, full:block:N, selective:N, "
                 "selective:MODULES, save_only_these_names:NAMES, "
                 "save_and_offload_only_these_names:NAMES:NAMES, "
                 "custom:NAME=PLACE,..");
  return std::nullopt;
}

std::string remat_text(const Remat& remat) {
  if (remat.policy == nullptr) return "none";
  const std::string name(remat.policy->name);
  if (remat.every > 1) return "selective:" + std::to_string(remat.every);
  if (remat.first) return name + ":block:" + std::to_string(*remat.first);
  if (remat.together > 1) {
    return name + ":uniform:" + std::to_string(remat.together);
  }
  return name;
}

}  // namespace shardplan
