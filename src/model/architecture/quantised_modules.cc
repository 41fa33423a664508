// SPDX-License-Identifier: Apache-2.0
// Decides which linear layers a method converts.
//
// The lists of a config are read like the library that writes them. If versions
// of transformers differ, the version that wrote the config decides. If that is
// unknown and matters, the config is refused.
#include "base/text.h"
#include "base/words.h"
#include "model/architecture/quantisation.h"

namespace shardplan {
namespace {

using Choice = std::optional<const WeightScheme*>;
constexpr const WeightScheme* kPlainWeight = nullptr;

class Chooser {
 public:
  Chooser(const Quantisation& quantisation, const LinearPlace& place,
          const LinearWeight& linear, QuantisedLayers& layers)
      : all_(quantisation), place_(place), linear_(linear), layers_(layers) {}

  Choice choose() {
    if (all_.method == QuantMethod::None) return kPlainWeight;
    const auto chosen = by_method();
    if (chosen && *chosen != nullptr) {
      ++layers_.converted;
      const bool named = linear_.weight == ".weight" || is_stacked();
      if (!named) return refuse("is not called `weight`");
      note(**chosen);
    }
    return chosen;
  }

 private:
  Choice by_method() {
    if (!all_.of_part.empty() && place_.part != all_.of_part &&
        place_.role != LinearRole::Head) {
      return kPlainWeight;
    }
    if (all_.method == QuantMethod::Mlx) return mlx();
    if (place_.embedding) return kPlainWeight;
    if (all_.method == QuantMethod::Mxfp4) {
      return place_.role == LinearRole::Experts ? scheme(0) : kPlainWeight;
    }
    if (place_.role == LinearRole::Parameter) return kPlainWeight;
    if (all_.method == QuantMethod::Gptq) return gptq();
    const auto excluded = is_excluded();
    if (!excluded) return std::nullopt;
    if (*excluded) return left_out();
    if (is_stacked()) {
      // Transformers converts only linear layers, and these are not.
      if (all_.while_loading()) return kPlainWeight;
      if (layers_.stacked.empty()) layers_.stacked = place_.path;
      if (all_.method == QuantMethod::CompressedTensors) return by_targets();
      if (all_.method == QuantMethod::ModelOpt) return by_name();
      return scheme(all_.experts.value_or(0));
    }
    const auto router = is_linear();
    if (!router) return std::nullopt;
    if (!*router) return kPlainWeight;
    switch (all_.method) {
      case QuantMethod::CompressedTensors:
        return by_targets();
      case QuantMethod::ModelOpt:
        return by_name();
      default:
        return by_transformers();
    }
  }

  // Records layers that transformers 5 stores differently if it quantises the
  // model itself.
  void note(const WeightScheme& scheme) {
    if (!is_new()) return;
    const bool whole = linear_.out % scheme.block_rows == 0 &&
                       linear_.in % scheme.block_columns == 0;
    if (scheme.format == WeightFormat::Fp8 && !whole &&
        layers_.partial.empty()) {
      layers_.partial = place_.path;
    }
    if (place_.expert && layers_.expert.empty() &&
        (all_.method == QuantMethod::Fp8 ||
         all_.method == QuantMethod::CompressedTensors)) {
      layers_.expert = place_.path;
    }
  }

  Choice scheme(size_t group) const { return &all_.groups[group].scheme; }
  Choice left_out() {
    ++layers_.excluded;
    return kPlainWeight;
  }

  std::nullopt_t refuse(const std::string& what) {
    unsupported(*all_.section, "",
                "the weight of " + in_backticks(place_.path) + " " + what)
        .fact("quantised with " + in_backticks(method_name(all_.method)));
    return std::nullopt;
  }
  std::nullopt_t refuse_version(const std::string& what) {
    unsupported(
        *all_.section, "",
        "it is unknown whether " + in_backticks(place_.path) + " is quantised")
        .fact(what + ", and the config has no `transformers_version`");
    return std::nullopt;
  }

  // Returns whether the layer belongs to a part other than the text model. No
  // list names such layers, and the programs of these methods do not convert
  // them.
  bool is_outside_text() {
    if (!place_.in_section || place_.part == "text_config") return false;
    if (layers_.outside_text.empty()) layers_.outside_text = place_.path;
    return true;
  }

  bool is_stacked() const {
    return !linear_.stack.empty() || place_.role == LinearRole::Experts;
  }
  bool is_new() const { return all_.saved_by >= 5; }
  bool is_old() const { return all_.saved_by > 0 && all_.saved_by < 5; }

  // Returns whether a list names the layer by its name in memory or by its
  // saved name, which was its name in memory in earlier versions of the same
  // program.
  bool is_named(const ModulePatterns& list, PatternStyle style) const {
    return list.matches(place_.in_memory, style) ||
           (place_.path != place_.in_memory &&
            list.matches(place_.path, style));
  }

  // Returns the path of the module that contains all experts, if the layer is
  // an expert: experts are one module since transformers 5, and stacked ones
  // were before.
  std::string_view around_experts(std::string_view path) const {
    const bool one = place_.expert || is_stacked();
    const size_t experts = one ? path.rfind(".experts.") : path.npos;
    return experts == path.npos ? path : path.substr(0, experts + 8);
  }

  // Returns the name that transformers 5 matches lists against. For torchao it
  // is the name of the parameter, so `o_proj` does not match as a suffix.
  std::string name_in_list(std::string_view module) const {
    std::string name(around_experts(module));
    return all_.method == QuantMethod::Torchao ? name + ".weight" : name;
  }

  // Returns whether a list excludes the module from the conversion.
  std::optional<bool> is_excluded() {
    if (!all_.excluded) return false;
    const ModulePatterns& excluded = *all_.excluded;
    // Since transformers 5, heads of other names are also called `lm_head`.
    if (place_.role == LinearRole::Head && excluded.has("lm_head")) return true;
    switch (all_.method) {
      case QuantMethod::CompressedTensors:
        return is_named(excluded, PatternStyle::Names) ||
               excluded.has("Linear");
      case QuantMethod::ModelOpt:
        return is_named(excluded, PatternStyle::Globs);
      default:
        break;
    }
    const bool before =
        is_named(excluded, all_.method == QuantMethod::Bitsandbytes
                               ? PatternStyle::Prefix
                               : PatternStyle::Substring);
    if (is_old()) return before;
    const auto now = is_excluded_in_memory();
    if (!now) return std::nullopt;
    if (is_new() || before == *now) return now;
    return refuse_version("transformers 4 and 5 read " +
                          in_backticks(all_.excluded_key) + " differently");
  }

  // Returns whether transformers 5 excludes the module from the conversion.
  std::optional<bool> is_excluded_in_memory() {
    const ModulePatterns& excluded = *all_.excluded;
    const std::string_view bad = is_new() ? excluded.unreadable() : "";
    if (!bad.empty()) {
      return refuse_entry(
          in_backticks(bad) +
          " is not a valid regular expression, as transformers 5 reads it");
    }
    const std::string& all = place_.in_memory;
    const size_t last = !contains(all, '|') ? all.npos : all.rfind('.');
    int64_t named = 0;
    int64_t parts = 0;
    for (size_t at = 0; at <= all.size(); ++parts) {
      const size_t end = last == all.npos
                             ? all.size()
                             : std::min(all.find('|', at), all.size());
      const std::string around =
          last == all.npos ? "" : all.substr(0, last + 1);
      const std::string part =
          at == 0 ? all.substr(0, end) : around + all.substr(at, end - at);
      if (excluded.matches(name_in_list(part), PatternStyle::Modules)) ++named;
      at = end + 1;
    }
    if (named == parts) return true;
    if (named > 0) {
      return refuse_entry("it names only some of the modules that " +
                          in_backticks(place_.path) + " becomes in memory, " +
                          in_backticks(all));
    }
    if (all_.method != QuantMethod::Fp8 || place_.path == all) return false;
    // FP8 renames the entries of its list like saved tensors. That is certain
    // only for entries that are the name of a module, not the end of a name.
    const std::string_view path = around_experts(place_.path);
    for (size_t end = 0; end < path.size();) {
      end = std::min(path.find('.', end + 1), path.size());
      const std::string_view outer = path.substr(0, end);
      // The saved tensors of stacked experts are parts of their module.
      const bool is_part = is_stacked() && end == place_.path.size();
      if (!is_part && excluded.is_all_of(outer) &&
          is_around(name_in_memory(*place_.renames, outer),
                    around_experts(all))) {
        return true;
      }
    }
    if (!excluded.matches(path, PatternStyle::Modules)) return false;
    if (!is_new()) return true;
    return refuse_entry(
        "it names part of " + in_backticks(place_.path) +
        " as saved, but transformers 5 matches the name in memory, " +
        in_backticks(all));
  }
  std::nullopt_t refuse_entry(const std::string& why) {
    all_.section
        ->refuse(all_.excluded_key, "what " + in_backticks(all_.excluded_key) +
                                        " excludes is unclear: " + why)
        .help("give full module names as in memory")
        .help(std::string(kUseTensors));
    return std::nullopt;
  }

  // Returns whether the layer is a linear layer to the library.
  std::optional<bool> is_linear() {
    // The layers of GPT-2 are modules of another class.
    if (linear_.inputs_first && all_.method == QuantMethod::Torchao) {
      return false;
    }
    if (linear_.inputs_first && all_.method != QuantMethod::Bitsandbytes) {
      return refuse(
          "is stored [in, out], whose quantised form is not supported");
    }
    if (place_.role == LinearRole::Grouped) return !all_.while_loading();
    if (place_.role != LinearRole::Router || is_old()) return true;
    if (is_new()) return false;
    return refuse_version(
        "routers are linear layers in transformers 4, not in 5");
  }

  // Chooses for FP8, AWQ, bitsandbytes and torchao.
  Choice by_transformers() {
    const bool awq = all_.method == QuantMethod::Awq;
    const bool fp8 = all_.method == QuantMethod::Fp8;
    if (!all_.excluded || awq) {
      if (place_.role == LinearRole::Head) return kPlainWeight;
      if (place_.role == LinearRole::Last) {
        // Version 5 excludes the last parameter by its name, which is then that
        // of the bias.
        if (!place_.bias || is_old()) return kPlainWeight;
        if (!is_new()) {
          return refuse_version(
              "transformers 4 leaves the last layer unquantised, 5 does not if "
              "it has a bias");
        }
      }
    }
    if (place_.expert && !fp8 && !is_old()) {
      if (all_.while_loading()) {
        if (is_new()) return kPlainWeight;  // stacked, so not linear layers
        return refuse_version(
            "experts are linear layers in transformers 4, not in 5");
      }
      if (layers_.expert.empty()) layers_.expert = place_.path;
    }
    if (all_.experts && place_.expert) {
      return scheme(entry().value_or(*all_.experts));
    }
    return scheme(0);
  }

  Choice gptq() {
    if (is_outside_text()) return kPlainWeight;
    const bool inside =
        place_.in_layer &&
        (all_.block.empty() || place_.path.starts_with(all_.block + "."));
    if (!inside) return kPlainWeight;
    if (is_stacked() && layers_.stacked.empty()) layers_.stacked = place_.path;
    if (all_.excluded && is_named(*all_.excluded, PatternStyle::Names)) {
      return left_out();
    }
    if (all_.only) {
      return is_named(*all_.only, PatternStyle::Suffix) ? scheme(0)
                                                        : left_out();
    }
    // The config has no list for these, and quantising programs skip layers
    // that are so small.
    if (place_.role == LinearRole::Gate || place_.role == LinearRole::Router) {
      if (layers_.router.empty()) layers_.router = place_.path;
      return kPlainWeight;
    }
    if (place_.expert && is_new() && layers_.expert.empty()) {
      layers_.expert = place_.path;
    }
    return scheme(0);
  }

  // Targets that are names or patterns precede the class `Linear`.
  Choice by_targets() {
    std::optional<size_t> chosen;
    for (const bool by_class : {false, true}) {
      for (size_t i = 0; i < all_.groups.size(); ++i) {
        const ModulePatterns& targets = *all_.groups[i].targets;
        const bool meant = by_class ? targets.has("Linear")
                                    : is_named(targets, PatternStyle::Names);
        if (!meant) continue;
        if (chosen) return refuse("is a target of several groups");
        chosen = i;
      }
      if (chosen) return scheme(*chosen);
    }
    return left_out();
  }

  // Returns the entry of the module or of the innermost enclosing module that
  // has one.
  std::optional<size_t> entry() const {
    for (std::string_view name :
         {std::string_view(place_.in_memory), std::string_view(place_.path)}) {
      while (!all_.named.empty()) {
        const auto found = all_.named.find(name);
        if (found != all_.named.end()) return found->second;
        const size_t dot = name.rfind('.');
        if (dot == name.npos) break;
        name = name.substr(0, dot);
      }
    }
    return std::nullopt;
  }
  Choice by_name() {
    if (const auto found = entry()) return named(*found);
    return all_.named_only ? Choice(kPlainWeight) : scheme(0);
  }
  Choice named(size_t group) {
    return group != Quantisation::kPlain ? scheme(group) : left_out();
  }

  // mlx-lm has its own model classes; those without experts have the same
  // modules.
  Choice mlx() {
    if (is_outside_text()) return kPlainWeight;
    if (place_.expert || is_stacked() || linear_.inputs_first ||
        place_.role == LinearRole::Parameter ||
        place_.role == LinearRole::Router || place_.role == LinearRole::Gate) {
      return refuse("is one that MLX stores in a way of its own");
    }
    // mlx-vlm moves the whole text model into `language_model`.
    for (const std::string& name :
         {place_.path, place_.in_memory, "language_model." + place_.path}) {
      const auto found = all_.named.find(name);
      if (found != all_.named.end()) return named(found->second);
    }
    // Layers that do not consist of whole groups are not converted.
    if (linear_.in % all_.groups.front().scheme.group != 0) return kPlainWeight;
    return scheme(0);
  }

  const Quantisation& all_;
  const LinearPlace& place_;
  const LinearWeight& linear_;
  QuantisedLayers& layers_;
};

}  // namespace

Choice scheme_of(const Quantisation& quantisation, const LinearPlace& place,
                 const LinearWeight& linear, QuantisedLayers& layers) {
  return Chooser(quantisation, place, linear, layers).choose();
}

bool check_layers(const Quantisation& quantisation,
                  const QuantisedLayers& layers, DType dtype,
                  std::vector<std::string>& remarks) {
  if (quantisation.method == QuantMethod::None) return true;
  if (layers.converted == 0) {
    unsupported(*quantisation.section, "",
                "the config is quantised with " +
                    in_backticks(method_name(quantisation.method)) +
                    ", but no layer of the model is");
    return false;
  }
  remarks.insert(remarks.end(), quantisation.remarks.begin(),
                 quantisation.remarks.end());
  const auto add_if = [&](bool applies, const std::string& remark) {
    if (applies) remarks.push_back(remark);
  };
  const WeightScheme& scheme = quantisation.groups.front().scheme;
  const bool fp8 = scheme.format == WeightFormat::Fp8;
  add_if(quantisation.excluded && quantisation.excluded->has_paths() &&
             layers.excluded == 0,
         in_backticks(quantisation.excluded_key) +
             " of the quantisation matches no linear layer of the model, so it "
             "excludes none");
  add_if(!layers.stacked.empty() && fp8,
         "stacked experts such as " + in_backticks(layers.stacked) +
             " are assumed to be one FP8 tensor with per-block scales "
             "(`_scale_inv`), as transformers 5 stores models it quantises; "
             "some checkpoints store experts one by one");
  add_if(!layers.stacked.empty() && !fp8,
         "stacked experts such as " + in_backticks(layers.stacked) +
             " are assumed to be stored one by one, as by programs that "
             "quantise only linear layers");
  add_if(!layers.outside_text.empty(),
         "only the text model is assumed to be quantised, not " +
             in_backticks(layers.outside_text) + ": the config does not say");
  add_if(!layers.router.empty(),
         "routers such as " + in_backticks(layers.router) +
             " are assumed not to be quantised: the config does not say");
  add_if(!layers.partial.empty(),
         in_backticks(layers.partial) +
             " does not consist of whole blocks: it is assumed to be "
             "quantised, though transformers 5 itself would leave it "
             "unquantised");
  add_if(!layers.expert.empty(),
         "experts are assumed to be quantised one by one, such as " +
             in_backticks(layers.expert) +
             ": transformers 5 holds them in one tensor and stores models it "
             "quantises differently");
  add_if(quantisation.method == QuantMethod::Mlx,
         "all linear layers and embeddings are assumed to be quantised except "
         "those the config names: MLX does not list the ones it leaves");
  add_if(fp8 && quantisation.saved_by < 5 && !scheme.scale_dtype,
         "scales of FP8 blocks are assumed to be f32; some checkpoints store "
         "bf16");
  add_if(bias_dtype(&scheme).value_or(dtype) != dtype,
         "scales and biases of quantised layers are assumed to be f16, though "
         "the model is " +
             std::string(dtype_name(dtype)));
  return true;
}

}  // namespace shardplan
