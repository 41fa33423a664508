// SPDX-License-Identifier: Apache-2.0
// The resolved table as a tensor-parallel plan of Hugging Face: digits of names
// are folded to `*`, and one style is sought for all parameters of a module,
// else one per parameter. Parameters without an entry stay whole there.
//
// Names are folded as transformers before 5.2 does, and only where that merges
// different layouts as later versions do, which the text then says.
#include "io/export.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/words.h"
#include "core/fold.h"
#include "io/hf_tp_plan/rules.h"

namespace shardplan {
namespace {

// Sets of TpCut, as bits.
using Cuts = uint8_t;
constexpr Cuts bit(TpCut cut) {
  return static_cast<Cuts>(1U << static_cast<unsigned>(cut));
}

// What styles can be asked for; the others cut alike or are for packed tensors.
constexpr std::array<std::string_view, 3> kWrittenStyles = {
    "colwise", "rowwise", "grouped_gemm"};

struct Wanted {
  Cuts cuts = 0;
  std::string problem;  // where there are none
};

Wanted wanted(const Placement& placement, const Plan& plan) {
  if (!placement.stored_dims.empty()) {
    return {0, "it is stored differently, as declared"};
  }
  if (placement.requested) {
    for (const AxisNames& axes : placement.asked().dims) {
      if (contains(axes, kUnconstrained)) {
        return {0, "a dimension is UNCONSTRAINED, and a plan leaves none open"};
      }
    }
  }
  if (names_no_axis(placement.spec)) return {bit(TpCut::Whole), ""};
  Wanted result;
  const size_t rank = placement.type.shape.size();
  for (size_t dim = 0; dim < placement.spec.dims.size(); ++dim) {
    const AxisNames& axes = placement.spec.dims[dim];
    if (axes.empty()) continue;
    if (axes != AxisNames{std::string(kTpAxis)}) {
      return {0, "it is cut as " + spec_text(placement.spec) +
                     "; a plan has the axis `tp` alone"};
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
      result.problem = "dimension " + std::to_string(dim) + " of " +
                       std::to_string(rank) +
                       " is cut; styles cut the first or one of the last two";
    }
  }
  return result;
}

bool is_bias(std::string_view name) {
  return name == "bias" || name.ends_with(".bias");
}

std::string_view parent(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? "" : name.substr(0, dot);
}

TpCut cut_by(const TpStyle& style, std::string_view name) {
  return is_bias(name) ? style.bias : style.weight;
}

// All parameters that one folded name stands for.
struct Folded {
  std::string name;
  Cuts cuts = 0;
  std::string problem;
  size_t first = 0;  // parameter
};

class Writer {
 public:
  Writer(const ExportInput& input, DigitFolding folding)
      : input_(input), folding_(folding) {}

  // Problems are kept, since another folding may have none.
  bool run() {
    fold_names();
    if (problems_.empty()) choose_styles();
    if (problems_.empty()) check();
    return problems_.empty();
  }

  std::string text() const {
    std::string result = "{\n";
    if (folding_ == DigitFolding::WholeParts) {
      result += "  \"transformers_version\": \"5.2.0\",\n";
    }
    result += "  \"tp_plan\": {";
    for (size_t i = 0; i < order_.size(); ++i) {
      result += i == 0 ? "\n    " : ",\n    ";
      append_printable_json(result, order_[i]);
      result += ": \"";
      result += entries_.find(order_[i])->second->name;
      result += '"';
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
          .help("cut it over `tp` alone, or export to another target")
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
        folded.problem = "its name has a `*`, which stands for digits there";
      } else if (asked.cuts == 0) {
        folded.problem = asked.problem;
      } else if ((folded.cuts & asked.cuts) == 0) {
        folded.problem = in_backticks(folded.name) + " would also stand for " +
                         in_backticks(input_.manifest.name(folded.first)) +
                         ", which is cut differently";
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
        return (folded->cuts & bit(TpCut::Whole)) != 0;
      });
      if (whole) continue;
      const TpStyle* style = module.empty() ? nullptr : style_of(list);
      if (style != nullptr) {
        add(module, style);
        continue;
      }
      for (const Folded* folded : list) {
        if ((folded->cuts & bit(TpCut::Whole)) != 0) continue;
        const TpStyle* own = style_of({folded});
        if (own != nullptr) {
          add(folded->name, own);
        } else {
          problems_.emplace_back(folded->first, "no style cuts a bias so");
        }
      }
    }
  }

  static const TpStyle* style_of(const std::vector<const Folded*>& list) {
    for (const std::string_view name : kWrittenStyles) {
      const TpStyle* style = find_tp_style(name);
      const bool suits = std::ranges::all_of(list, [&](const Folded* folded) {
        return (folded->cuts & bit(cut_by(*style, folded->name))) != 0;
      });
      if (suits) return style;
    }
    return nullptr;
  }

  // A parameter may be called as another one's module: the first entry stays,
  // and check() finds whether it suits both.
  void add(std::string_view key, const TpStyle* style) {
    if (entries_.emplace(key, style).second) order_.emplace_back(key);
  }

  // Looks every name up as transformers does.
  void check() {
    for (const Folded& folded : folded_) {
      auto found = entries_.find(folded.name);
      if (found == entries_.end()) found = entries_.find(parent(folded.name));
      const TpCut cut = found == entries_.end()
                            ? TpCut::Whole
                            : cut_by(*found->second, folded.name);
      if ((folded.cuts & bit(cut)) != 0) continue;
      problems_.emplace_back(folded.first,
                             "the entry " + in_backticks(found->first) +
                                 " of another parameter stands for it too");
    }
  }

  const ExportInput& input_;
  DigitFolding folding_;
  std::vector<Folded> folded_;
  std::vector<std::string> order_;
  std::map<std::string, const TpStyle*, std::less<>> entries_;
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
    "hf-tp-plan", "a tensor-parallel plan of Hugging Face, in JSON", write};

}  // namespace shardplan
