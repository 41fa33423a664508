// SPDX-License-Identifier: Apache-2.0
// The export target `hf-tp-plan`: the resolved table as a tensor-parallel plan
// of Hugging Face. Digits of names are folded to `*`. One style is chosen for
// all parameters of a module, or else one per parameter. transformers
// replicates parameters without an entry.
//
// Styles depend on the kind of a module, which its name shows: embeddings,
// heads, experts and norms of heads have their own styles. The caller, who
// knows the forward pass, checks whether the model runs with them.
//
// Names are folded as in transformers before 5.2. If that merges different
// layouts, or a style is from a later version, the text requires that version.
#include "io/export.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "core/fold.h"
#include "io/hf_tp_plan/python_file.h"
#include "io/hf_tp_plan/styles.h"
#include "syntax/python.h"

namespace shardplan {
namespace {

// A set of TpCut, as bits.
using Cuts = uint8_t;
constexpr Cuts bit(TpCut cut) {
  return static_cast<Cuts>(1U << static_cast<unsigned>(cut));
}
constexpr bool has(Cuts cuts, TpCut cut) { return (cuts & bit(cut)) != 0; }

// The styles of a kind of module. Each embedding style shards a weight like the
// head style at the same index.
using Styles = std::array<std::string_view, 3>;
constexpr Styles kLinear = {"colwise", "rowwise", "grouped_gemm"};
constexpr Styles kHead = {"colwise_gather_output", "rowwise_split_input"};
constexpr Styles kEmbedding = {"embedding_rowwise", "embedding_colwise"};
// The styles of a module of experts. transformers stacks the experts' weights
// (gate and up together, and down) even if a checkpoint stores each separately.
constexpr std::string_view kWholeExperts = "ep_dispatch_experts";
constexpr std::string_view kPartsOfExperts = "moe_tp_experts";
constexpr std::string_view kExperts = ".experts.";
// The style of a module with submodules that reads shards of its own
// parameters.
constexpr std::string_view kOwnShards = "local_params";

struct Wanted {
  Cuts cuts = 0;
  std::string problem;  // why there are no cuts
};

Wanted wanted(const Placement& placement, const Plan& plan) {
  if (!placement.stored_dims.empty()) {
    return {0, "`--declare` changes how it is stored"};
  }
  if (placement.requested && names_unconstrained(placement.requested_spec())) {
    return {0, "a dimension is UNCONSTRAINED, which a plan cannot express"};
  }
  if (placement.dealt) {
    if (placement.dealt->axis == kTpAxis && names_no_axis(placement.spec)) {
      return {bit(TpCut::First), ""};
    }
    return {0, "its experts are placed whole over `" +
                   placement.dealt->axis.text() +
                   "`; a plan has only the axis `tp`"};
  }
  if (names_no_axis(placement.spec)) return {bit(TpCut::Whole), ""};
  Wanted result;
  const size_t rank = placement.type.shape.size();
  for (size_t dim = 0; dim < placement.spec.dims.size(); ++dim) {
    const AxisNames& axes = placement.spec.dims[dim];
    if (axes.empty()) continue;
    if (axes != AxisNames{std::string(kTpAxis)}) {
      return {0, "it is sharded as " + spec_text(placement.spec) +
                     "; a plan has only the axis `tp`"};
    }
    const int64_t shards = shard_count(plan.mesh, axes);
    if (plan.on_indivisible == OnIndivisible::Pad &&
        placement.type.shape[dim] % shards != 0) {
      return {0, "dimension " + std::to_string(dim) +
                     " is padded; transformers stores shorter shards instead"};
    }
    if (dim == 0) result.cuts |= bit(TpCut::First);
    if (dim + 1 == rank) result.cuts |= bit(TpCut::Last);
    if (dim + 2 == rank) result.cuts |= bit(TpCut::SecondLast);
    if (result.cuts == 0) {
      result.problem =
          "dimension " + std::to_string(dim) + " of " + std::to_string(rank) +
          " is sharded; styles shard only the first or one of the last two";
    }
  }
  return result;
}

std::string_view parent(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? "" : name.substr(0, dot);
}

TpCut cut_by(const TpStyle& style, std::string_view name) {
  return last_word(name) == "bias" ? style.bias : style.weight;
}

// The parameters that one folded name stands for.
struct Folded {
  std::string name;
  Cuts cuts = 0;
  std::string problem;
  size_t first = 0;  // a parameter
};

class Writer {
 public:
  Writer(const ExportInput& input, DigitFolding folding)
      : input_(input), folding_(folding) {}

  // Returns false if there are problems or a style is later than the folding.
  // Problems are not reported yet, since the other folding may have none.
  bool run() {
    fold_names();
    if (problems_.empty()) choose_styles();
    if (problems_.empty()) check();
    return problems_.empty() &&
           (folding_ == DigitFolding::WholeParts || since_.major < 5);
  }

  std::string text() const {
    std::string result = "{\n";
    if (folding_ == DigitFolding::WholeParts) {
      result += "  \"transformers_version\": \"" +
                version_text(std::max(since_, kWholePartsSince)) + ".0" +
                "\",\n";
    }
    result += "  \"tp_plan\": {";
    for (size_t i = 0; i < order_.size(); ++i) {
      result += i == 0 ? "\n    " : ",\n    ";
      append_printable_json(result, order_[i]);
      result += ": \"" + std::string(entries_.at(order_[i])->name) + "\"";
    }
    return result + (order_.empty() ? "}\n}\n" : "\n  }\n}\n");
  }

  void report(Diagnostics& diags) const {
    for (const auto& [parameter, problem] : problems_) {
      const std::string name(input_.manifest.name(parameter));
      diags
          .error(Code::Inexpressible, {},
                 in_backticks(name) +
                     " cannot be expressed in a tensor-parallel plan")
          .fact(problem)
          .help("shard it over `tp` only, or export to another target")
          .parameters({name});
    }
  }

 private:
  void fold_names() {
    std::map<std::string, size_t, std::less<>> numbers;
    std::vector<Wanted> by_placement;
    for (const Placement& placement : input_.plan.placements) {
      by_placement.push_back(wanted(placement, input_.plan));
    }
    for (size_t i = 0; i < input_.manifest.size(); ++i) {
      const std::string_view name = input_.manifest.name(i);
      const Wanted& asked = by_placement[input_.plan.placement_of[i]];
      const auto [known, is_new] =
          numbers.try_emplace(fold_digits(name, folding_), folded_.size());
      if (is_new) folded_.push_back({known->first, asked.cuts, "", i});
      Folded& folded = folded_[known->second];
      if (!folded.problem.empty()) continue;
      if (contains(name, '*')) {
        folded.problem = "its name has a `*`, which matches digits in a plan";
      } else if (asked.cuts == 0) {
        folded.problem = asked.problem;
      } else if ((folded.cuts & asked.cuts) == 0) {
        folded.problem = in_backticks(folded.name) + " would also match " +
                         in_backticks(input_.manifest.name(folded.first)) +
                         ", which is sharded differently";
      }
      folded.cuts &= asked.cuts;
      if (!folded.problem.empty()) problems_.emplace_back(i, folded.problem);
    }
  }

  void choose_styles() {
    std::map<std::string_view, std::vector<const Folded*>> members;
    std::vector<std::string_view> modules;
    for (const Folded& folded : folded_) {
      const std::string_view module = parent(folded.name);
      auto& list = members[module];
      if (list.empty()) modules.push_back(module);
      list.push_back(&folded);
    }
    for (const std::string_view module : modules) {
      const auto& list = members[module];
      const bool whole = std::ranges::all_of(list, [](const Folded* folded) {
        return has(folded->cuts, TpCut::Whole);
      });
      if (whole) {
        // A norm of each head's queries or keys gets an entry at the end.
        const std::string_view last = last_word(module);
        if (last == "q_norm" || last == "k_norm") norms_.push_back(module);
        continue;
      }
      if (choose_experts(module, list)) continue;
      const Styles& styles = styles_of(module);
      // A module with submodules has other inputs and outputs than a layer.
      const bool is_layer =
          !module.empty() &&
          std::ranges::none_of(folded_, [&](const auto& each) {
            return parent(each.name).starts_with(std::string(module) + ".");
          });
      const TpStyle* style = is_layer ? style_of(list, styles) : nullptr;
      if (style != nullptr) {
        add(module, style);
        continue;
      }
      if (!is_layer && !module.empty()) add(module, find_tp_style(kOwnShards));
      for (const Folded* folded : list) {
        if (has(folded->cuts, TpCut::Whole)) continue;
        const TpStyle* own = style_of({folded}, kLinear);
        if (own != nullptr) {
          add(folded->name, own);
        } else {
          problems_.emplace_back(folded->first,
                                 "no style shards a bias this way");
        }
      }
    }
    for (const std::string_view norm : norms_) add_norm(norm);
    if (!members.contains(head())) add_tied_head();
  }

  // Returns the head of the model type, or the usual one.
  std::string_view head() const {
    const TpModules* model = find_tp_modules(input_.manifest.model_type);
    return model != nullptr && !model->head.empty() ? model->head
                                                    : kUsualTpModules.head;
  }

  const Styles& styles_of(std::string_view module) const {
    if (module == head()) return kHead;
    const std::string_view last = last_word(module);
    const bool embeds =
        contains(last, "embed_tokens") || last == "wte" || last == "wpe";
    return embeds ? kEmbedding : kLinear;
  }

  static const TpStyle* style_of(const std::vector<const Folded*>& list,
                                 const Styles& styles) {
    for (const std::string_view name : styles) {
      const TpStyle* style = find_tp_style(name);
      const auto suits = [&](const Folded* each) {
        return has(each->cuts, cut_by(*style, each->name));
      };
      if (style != nullptr && std::ranges::all_of(list, suits)) return style;
    }
    return nullptr;
  }

  // Adds entries for the parameters of experts, stored one by one or stacked.
  // Returns whether the module has experts.
  bool choose_experts(std::string_view module,
                      const std::vector<const Folded*>& list) {
    const std::string inner = std::string(module) + ".";
    const size_t at = inner.find(kExperts);
    if (at == std::string::npos) return false;
    std::string experts = inner.substr(0, at + kExperts.size() - 1);
    const bool one_by_one = experts.size() < module.size();
    if (const size_t old = experts.find("block_sparse_moe");
        old != std::string::npos) {
      experts.replace(old, 16, "mlp");
    }
    for (const Folded* folded : list) {
      of_experts_.insert(folded->name);
      if (has(folded->cuts, TpCut::Whole)) continue;
      const std::string_view own =
          last_word(one_by_one ? module : folded->name);
      const bool is_down = own == "down_proj" || own == "w2";
      std::string stack = experts + ".";
      stack += !one_by_one ? own : is_down ? "down_proj" : "gate_up_proj";
      // The first dimension of a single expert's matrix is always its rows.
      const bool is_dealt = input_.plan.of(folded->first).dealt.has_value();
      const bool whole_experts =
          one_by_one ? is_dealt : has(folded->cuts, TpCut::First);
      const bool by_rows = has(folded->cuts, TpCut::SecondLast);
      std::string_view style = "rowwise";
      if (whole_experts) {
        style = "grouped_gemm";
      } else if (by_rows) {
        style = is_packed(*folded) || one_by_one ? "packed_colwise" : "colwise";
      }
      const auto [known, is_new] = stacks_.try_emplace(stack, style);
      if (!is_new && known->second != style) {
        problems_.emplace_back(
            folded->first,
            "experts of " + in_backticks(stack) + " are sharded in two ways");
      }
      add(stack, find_tp_style(style));
      add(experts,
          find_tp_style(whole_experts ? kWholeExperts : kPartsOfExperts));
    }
    return true;
  }
  bool is_packed(const Folded& folded) const {
    const int rule = input_.plan.of(folded.first).rule;
    return rule > 0 && rule <= std::ssize(input_.plan.rules) &&
           nth(input_.plan.rules, rule - 1).shards_parts;
  }

  // If heads are sharded, each device has a part of the norm's gradient.
  void add_norm(std::string_view module) {
    const std::string projection =
        std::string(parent(module)) + "." + last_word(module)[0] + "_proj";
    const auto found = entries_.find(projection);
    if (found == entries_.end() || found->second->name != "colwise") return;
    add(module, find_tp_style("replicated_with_grad_allreduce"));
  }

  // A head without parameters multiplies with the embedding. Without an entry
  // of its own it would treat a shard of the embedding as the whole weight.
  void add_tied_head() {
    for (const auto& [module, style] : entries_) {
      for (size_t i = 0; i < kEmbedding.size(); ++i) {
        if (style->name != kEmbedding[i]) continue;
        return add(head(), find_tp_style(kHead[i]));
      }
    }
  }

  // A parameter may have the same name as another one's module. The first entry
  // wins, and check() finds out whether it suits both.
  void add(std::string_view key, const TpStyle* style) {
    if (!entries_.emplace(key, style).second) return;
    order_.emplace_back(key);
    since_ = std::max(since_, in_all_since(*style));
  }

  // Looks up every name as transformers does, and finds entries that do not
  // fit.
  void check() {
    for (const Folded& folded : folded_) {
      if (of_experts_.contains(folded.name)) continue;
      auto found = entries_.find(folded.name);
      if (found == entries_.end()) found = entries_.find(parent(folded.name));
      const TpCut cut = found == entries_.end()
                            ? TpCut::Whole
                            : cut_by(*found->second, folded.name);
      if (has(folded.cuts, cut)) continue;
      problems_.emplace_back(folded.first,
                             "the entry " + in_backticks(found->first) +
                                 " of another parameter also matches it");
    }
  }

  const ExportInput& input_;
  DigitFolding folding_;
  std::vector<Folded> folded_;
  std::vector<std::string> order_;
  std::map<std::string, const TpStyle*, std::less<>> entries_;
  std::vector<std::string_view> norms_;
  std::set<std::string_view> of_experts_;  // names
  std::map<std::string, std::string_view> stacks_;
  TransformersVersion since_;  // the first version that has all styles
  std::vector<std::pair<size_t, std::string>> problems_;
};

std::optional<std::string> write(const ExportInput& input, Diagnostics& diags) {
  Writer before(input, DigitFolding::EveryRun);
  if (before.run()) return before.text();
  Writer since(input, DigitFolding::WholeParts);
  if (since.run()) return since.text();
  since.report(diags);
  return std::nullopt;
}

}  // namespace

const ExportTarget kHfTpPlanTarget = {
    "hf-tp-plan", "a Hugging Face tensor-parallel plan, in JSON", write,
    ExportViews::DealsOnly};

}  // namespace shardplan
