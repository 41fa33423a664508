// SPDX-License-Identifier: Apache-2.0
#include "model/forward/recognise.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/text.h"
#include "core/fold.h"
#include "model/architectures.h"
#include "model/config_reader.h"
#include "model/forward/outline.h"
#include "model/forward/parameter_names.h"
#include "model/quant_scales.h"

namespace shardplan {
namespace {

// Maximum number of names in a message.
constexpr size_t kShownNames = 6;
constexpr const char* kByHand =
    "describe any other forward pass in an architecture file, `--architecture "
    "FILE`, or a graph file, `--graph FILE`";

using Names = std::vector<std::string>;  // sorted

std::string known_text() {
  return std::to_string(computing_architectures().size()) +
         " model families are supported: `shardplan list families`";
}

std::nullopt_t report_unknown(const std::string& model_type, Span where,
                              Diagnostics& diags) {
  auto problem = diags.error(
      Code::UnknownFamily, where,
      "the forward pass of " + in_backticks(model_type) + " is not supported");
  if (const auto near = nearest(model_type, computing_architectures())) {
    problem.help("did you mean `" + *near + "`?");
  }
  problem.help(known_text()).help(kByHand);
  return std::nullopt;
}

std::string text_at(const Node& map, std::string_view key) {
  const auto value = map.find(key);
  return value && value->is_string() ? std::string(value->text()) : "";
}

// Notes that only the text model of a model with other parts is simulated.
void note_text_model(const std::string& whole, const std::string& part,
                     Span where, Diagnostics& diags) {
  if (whole.empty() || whole == part) return;
  diags
      .report(Code::UnsupportedConfig, Severity::Note, where,
              "only the text model of this " + in_backticks(whole) +
                  " is simulated, as a " + in_backticks(part))
      .fact(
          "its other parts, and their inputs to the text model, are left out");
}

std::optional<ForwardDefinition> by_config(
    std::shared_ptr<const Document> config,
    std::shared_ptr<const Architecture> architecture, Diagnostics& diags) {
  ForwardDefinition model;
  model.config = std::move(config);
  model.has_config = true;
  const Node root = model.config->root();
  const auto inner = root.find("text_config");
  model.nested = inner && inner->is_map();
  const Node map = model.map();
  std::string type = text_at(map, "model_type");
  const std::string whole = text_at(root, "model_type");
  if (type.empty()) type = whole;
  ArchitectureChoice& choice = model;
  choice = architecture != nullptr ? choose_class(std::move(architecture), root)
                                   : choose_architecture(map);
  if (!choice) choice = choose_architecture(root);
  if (const ConfigSection* const part = flat_part(choice, root)) {
    model.flat = true;
    choice = {part->architecture, nullptr};
    type = choice.architecture->name;
  }
  if (!choice || !choice.architecture->computes) {
    if (type.empty() && choice) type = choice.architecture->name;
    return report_unknown(type, model.where(), diags);
  }
  if (choice.model_class == nullptr) {
    choice.model_class = &choice.architecture->classes.front();
  }
  if (model.nested || model.flat) {
    note_text_model(whole, type, model.where(), diags);
  }
  return model;
}

// Returns the names in `wanted` that are in `names` or, if not `there`, those
// that are not.
Names select(const Names& names, const Names& wanted, bool there) {
  Names some;
  for (const std::string& name : wanted) {
    if (std::binary_search(names.begin(), names.end(), name) == there) {
      some.push_back(name);
    }
  }
  return some;
}

void report_unrecognised(const Names& names, Diagnostics& diags) {
  auto problem =
      diags.error(Code::UnknownFamily, {},
                  "these parameter names match no known architecture");
  std::string near;
  ArchitectureOutline outline;
  size_t most = 0;
  for (const std::string& each : computing_architectures_general_first()) {
    ArchitectureOutline own = outline_of(find_architecture(each));
    const size_t found = select(names, own.required, true).size();
    if (!near.empty() && found <= most) continue;
    near = each;
    outline = std::move(own);
    most = found;
  }
  problem.fact("`" + near + "` is closest: " + std::to_string(most) + " of " +
               plural(std::ssize(outline.required), "expected name") +
               " found");
  const Names missing = select(names, outline.required, false);
  for (size_t i = 0; i < missing.size() && i < kShownNames; ++i) {
    problem.fact("not found: `" + missing[i] + "`");
  }
  if (missing.size() > kShownNames) problem.fact("not found: ..");
  if (most > 0) {
    const Names foreign = select(outline.known, names, false);
    for (size_t i = 0; i < foreign.size() && i < kShownNames; ++i) {
      problem.fact("a `" + near + "` has no `" + foreign[i] + "`");
    }
  }
  const auto shown =
      std::span(names).first(std::min(names.size(), kShownNames));
  problem.fact("the model has " + quoted_names(shown, ", ") +
               (names.size() > kShownNames ? ", .." : ""));
  problem
      .help(known_text() + "; a config.json next to the model names its family")
      .help(kByHand);
}

std::shared_ptr<const Document> empty_config() {
  Diagnostics quiet;
  auto document = parse_document(
      std::make_shared<const SourceFile>("", std::string("{}")), quiet);
  return std::make_shared<const Document>(*std::move(document));
}

// Returns how many of the names are parameters of a class.
size_t fitting(const std::shared_ptr<const Architecture>& architecture,
               const ArchitectureClass& model_class, const Names& names) {
  Architecture one = *architecture;
  one.classes = {model_class};
  const auto own = std::make_shared<const Architecture>(std::move(one));
  return select(outline_of(own).known, names, true).size();
}

// Returns a manifest with one tensor per class of names. Names of a class fold
// alike, whatever an architecture calls their components. Every architecture
// reads the folded names, and a model may have a million tensors.
Manifest one_of_each_class(const Manifest& manifest) {
  Manifest result;
  NameClasses seen;
  for (size_t i = 0; i < manifest.any_size(); ++i) {
    const bool buffer = i >= manifest.size();
    if (i == manifest.size()) seen = {};  // buffers represent only buffers
    const size_t before = seen.size();
    seen.add(manifest.any_name(i));
    if (seen.size() == before) continue;
    result.add(manifest.any_name(i), manifest.any_type(i), {}, buffer);
  }
  return result;
}

// Returns the folded names with the architecture's own components. `firsts` is
// one_of_each_class(). If another name of a component contains digits, one
// tensor does not represent the others, so all are read.
Names folded_names(const Manifest& manifest, const Manifest& firsts,
                   const Architecture& architecture) {
  const std::vector<OtherName>& others = architecture.other_names;
  const bool tells_numbers =
      std::ranges::any_of(others, [](const OtherName& each) {
        return std::ranges::any_of(each.other, is_digit);
      });
  return ParameterNames(tells_numbers ? manifest : firsts, others).folded();
}

std::optional<ForwardDefinition> by_names(const Manifest& manifest,
                                          Diagnostics& diags) {
  ForwardDefinition model;
  const Manifest firsts = one_of_each_class(manifest);
  size_t most = 0;
  for (const std::string& each : computing_architectures_general_first()) {
    auto architecture = find_architecture(each);
    if (!architecture->by_names) continue;
    const Names folded = folded_names(manifest, firsts, *architecture);
    const ArchitectureOutline outline = outline_of(architecture);
    if (!select(folded, outline.required, false).empty() ||
        !select(outline.known, folded, false).empty() ||
        outline.required.size() < most) {
      continue;
    }
    ForwardDefinition candidate;
    candidate.architecture = architecture;
    candidate.model_class = &architecture->classes.front();
    candidate.config = empty_config();
    if (!shapes_fit(std::move(candidate), manifest)) continue;
    if (outline.required.size() == most) {
      model.also_matching.push_back(each);
      continue;
    }
    most = outline.required.size();
    model.also_matching.clear();
    model.architecture = std::move(architecture);
  }
  if (model.architecture == nullptr) {
    report_unrecognised(ParameterNames(firsts).folded(), diags);
    return std::nullopt;
  }
  const Names folded = folded_names(manifest, firsts, *model.architecture);
  size_t best = 0;
  for (const ArchitectureClass& each : model.architecture->classes) {
    if (!is_computed(*model.architecture, each)) continue;
    const size_t fit = fitting(model.architecture, each, folded);
    if (model.model_class != nullptr && fit <= best) continue;
    best = fit;
    model.model_class = &each;
  }
  model.config = empty_config();
  return model;
}

std::nullopt_t report_missing_sizes(const ForwardDefinition& model,
                                    const Names& missing, Diagnostics& diags) {
  auto problem =
      diags.error(Code::MissingFacts, {},
                  "sizes of this " + in_backticks(model.architecture->name) +
                      " are unknown: names and shapes do not determine them");
  for (const std::string& name : missing) {
    problem.fact("missing: " + in_backticks(name));
  }
  problem.help(
      "put the model's config.json next to it, or give `facts` in the "
      "manifest: `heads`, `kv_heads` and `head_dim`");
  return std::nullopt;
}

// Returns the shortest text of a number: "1e-06", "10000".
std::string shortest(double number) {
  std::array<char, 32> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), number);
  return {text.data(), end.ptr};
}

// Returns the text of a value; "" for a list.
std::string value_text(const ConfigValue& value) {
  switch (value.kind) {
    case ConfigValue::Kind::Integer:
      return std::to_string(value.integer);
    case ConfigValue::Kind::Real:
      return shortest(value.real);
    case ConfigValue::Kind::Flag:
      return value.integer != 0 ? "true" : "false";
    default:
      return value.text;
  }
}

// Notes the values in a computation that nothing in the checkpoint determines.
void note_assumed(const ForwardDefinition& model, Diagnostics& diags) {
  Names assumed;
  for (const ValueRule& rule : model.architecture->values) {
    if (!rule.of_forward || rule.is || model.known_values.contains(rule.name) ||
        rule.kind == ValueRule::Kind::Table) {
      continue;
    }
    const auto value = model_value(model, rule.name);
    if (value && value->kind != ConfigValue::Kind::Integers) {
      assumed.push_back(rule.name + " " + value_text(*value));
    }
  }
  if (assumed.empty() && model.also_matching.empty()) return;
  auto note =
      diags.report(Code::MissingFacts, Severity::Note, {},
                   "the model has no config: assuming the defaults of " +
                       in_backticks(model.architecture->name));
  for (std::string& what : assumed) note.fact(std::move(what));
  if (!model.also_matching.empty()) {
    note.fact("its names also match " + joined(model.also_matching, ", "));
  }
  note.help("put the model's config.json next to it");
}

std::nullopt_t report_quantised(const Manifest& manifest, size_t weight,
                                const ForwardDefinition& model,
                                Diagnostics& diags) {
  return diags
      .error(
          Code::UnsupportedConfig, model.where(),
          "this " + in_backticks(model.architecture->name) +
              " is quantised, and its forward pass needs unquantised weights")
      .fact(in_backticks(manifest.name(weight)) + " is " +
            std::string(dtype_name(manifest.type(weight).dtype)))
      .help(
          "run the plan on the unquantised model: remove the quantisation from "
          "its config");
}

// Returns false, and reports SP016, if the checkpoint has adapters other than
// LoRAs of a linear layer of the architecture or of a stack of experts.
// Adapters of a part that is not computed, such as a vision tower, are left out
// with it.
bool check_adapters(const Manifest& manifest, const ForwardDefinition& model,
                    Diagnostics& diags) {
  // The first adapter of each kind, by its name in the manifest.
  std::map<std::string, std::string, std::less<>> first;
  std::set<std::string> known;
  const ParameterNames names(manifest, model.architecture->other_names);
  const auto all = names.folded_tensors();
  for (const auto& [name, tensor] : all) {
    const std::string_view part = adapter_part(name);
    if (part.empty()) continue;
    if (known.empty()) {
      for (const std::string& each : outline_of(model.architecture).known) {
        known.insert(folded_name(each));
      }
    }
    const std::string weight = std::string(adapted_module(name)) + "weight";
    const bool is_lora =
        (part == "lora_A" || part == "lora_B") && name.ends_with(".weight");
    const bool computed = is_stack_adapter(name) ||
                          known.contains(folded_name(weight)) ||
                          all.contains(weight);
    if (is_lora && computed) continue;
    first.emplace(part, manifest.any_name(tensor.index));
  }
  if (first.empty()) return true;
  Names parts;
  for (const auto& [part, name] : first) parts.push_back(part);
  auto problem = diags.error(
      Code::UnknownFamily, model.where(),
      "the forward pass supports only LoRA adapters of linear layers, not " +
          joined(parts, ", "));
  for (const auto& [part, name] : first) problem.fact(in_backticks(name));
  problem.fact(
      "supported: `lora_A` and `lora_B` next to the weight of a linear layer "
      "or to stacked experts");
  problem.help(
      "`check` and `analyze` count all adapters when run without `--batch` and "
      "`--seq`");
  return false;
}

}  // namespace

std::optional<ForwardDefinition> recognise_model(
    const Manifest& manifest, std::shared_ptr<const Document> config,
    std::shared_ptr<const Architecture> architecture, Diagnostics& diags) {
  // Messages may point into these when the model is gone.
  if (config != nullptr) diags.add_source(config->shared_source());
  if (architecture != nullptr) {
    for (const SourcePtr& source : architecture->sources) {
      diags.add_source(source);
    }
  }
  std::optional<ForwardDefinition> model;
  if (config != nullptr) {
    model = by_config(std::move(config), std::move(architecture), diags);
  } else if (architecture != nullptr) {
    model.emplace();
    model->config = empty_config();
    model->model_class = &architecture->classes.front();
    model->architecture = std::move(architecture);
    if (!model->architecture->computes) {
      return report_unknown(model->architecture->name, {}, diags);
    }
  } else {
    model = by_names(manifest, diags);
  }
  if (!model) return std::nullopt;
  if (const int64_t weight = quantised_weight(manifest); weight >= 0) {
    return report_quantised(manifest, to_size(weight), *model, diags);
  }
  if (!check_adapters(manifest, *model, diags)) return std::nullopt;
  const auto missing = read_shapes(*model, manifest);
  if (!missing) {
    return diags
        .error(Code::InvalidArchitecture, model->where(),
               "architecture " + in_backticks(model->architecture->name) +
                   " has too many steps to be read")
        .help("use fewer nested blocks");
  }
  const auto layers = model->known_values.find("layers");
  if (layers != model->known_values.end() &&
      layers->second.integer > kMaxModelLayers) {
    return diags
        .error(Code::UnsupportedConfig, {},
               "`layers` of the model is " +
                   std::to_string(layers->second.integer))
        .help("give it a size from 1 to " + count_text(kMaxModelLayers));
  }
  if (!missing->empty()) return report_missing_sizes(*model, *missing, diags);
  if (!model->has_config) note_assumed(*model, diags);
  return model;
}

std::optional<ForwardDefinition> recognise_model(const Manifest& manifest,
                                                 Diagnostics& diags) {
  if (manifest.config_unread) {
    return diags
        .error(Code::MalformedDocument, {},
               "the config next to the weights cannot be read, so the forward "
               "pass is unknown")
        .help("fix it, or move it away to use names and shapes instead");
  }
  return recognise_model(manifest, manifest.config, manifest.architecture,
                         diags);
}

}  // namespace shardplan
