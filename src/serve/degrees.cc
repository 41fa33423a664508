// SPDX-License-Identifier: Apache-2.0
#include "serve/degrees.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "memory/divisions.h"
#include "model/tensor_name.h"

namespace shardplan {
namespace {

constexpr int64_t kLargestDegree = 1024;
constexpr int64_t kSmallDegrees = 8;
constexpr int64_t kCommonDegrees = 64;

// A dimension of one class of parameters.
struct Sample {
  ServedDim dim;
  std::string name;  // folded
};

std::vector<Sample> samples_of(const ServedWeights& model) {
  std::vector<bool> loaded(model.folding->classes.size(), false);
  for (size_t g = 0; g < model.groups.groups.size(); ++g) {
    if (!model.loaded[g]) continue;
    const auto& form = model.groups.forms[model.groups.groups[g].form];
    for (const auto& member : form.members) loaded[member.kind] = true;
  }
  std::vector<Sample> samples;
  for (size_t i = 0; i < model.folding->classes.size(); ++i) {
    if (!loaded[i]) continue;
    const ParameterClass& c = model.folding->classes[i];
    const std::string& name = model.folding->folded_names[c.folded];
    const ParameterKind& kind = *model.kinds[i];
    for (auto& dims :
         served_parameter(kind, model.manifest->type(c.first).shape,
                          is_expert_name(name), model.grouped_experts)) {
      for (ServedDim& dim : dims) {
        if (dim.role != DimRole::Whole) samples.push_back({dim, name});
      }
    }
  }
  return samples;
}

std::string of_ranks(int64_t degree) {
  return " not divisible by " + count_text(degree);
}

// Returns " of the vision tower"; "" for the language model.
std::string tower_of(std::string_view name) {
  if (!in_other_tower(name)) return "";
  return contains(name, "audio") ? " of the audio tower"
                                 : " of the vision tower";
}

std::string head_noun(const Sample& sample) {
  const std::string& label = sample.dim.label;
  const std::string own = label.substr(label.rfind('.') + 1);
  const std::string noun = sample.dim.role == DimRole::KvHeads ? "KV heads"
                           : own == "heads"                    ? "heads"
                                            : in_backticks(label);
  return noun + tower_of(sample.name);
}

// Returns "28 heads are not divisible by 8"; "" if there is no problem.
std::string head_problem(const Sample& sample, int64_t degree) {
  const ServedDim& dim = sample.dim;
  const int64_t count = dim.count > 0 ? dim.count : dim.size;
  if (dim.role == DimRole::KvHeads && count < degree) {
    if (degree % count == 0) return "";
    return count_text(degree) + " is not a multiple of " + count_text(count) +
           " " + head_noun(sample);
  }
  if (count % degree == 0) return "";
  return count_text(count) + " " + head_noun(sample) + " are" +
         of_ranks(degree);
}

std::string width_problem(const ServedDim& dim, int64_t degree,
                          std::string_view what) {
  const int64_t width = dim.count > 0 ? dim.count : dim.size;
  if (width % degree == 0) return "";
  if (dim.unit > 1) {
    return std::string(what) + " (" + count_text(width * dim.unit) +
           ") is stored in " + count_text(width) + " groups of " +
           count_text(dim.unit) + ", which are" + of_ranks(degree);
  }
  return std::string(what) + " (" + count_text(width) + ") is" +
         of_ranks(degree);
}

std::string problem_of(const Sample& sample, const Engine& engine,
                       int64_t degree) {
  const ServedDim& dim = sample.dim;
  if (dim.padded) return "";
  switch (dim.role) {
    case DimRole::Heads:
    case DimRole::KvHeads:
      if (engine.whole_tower_heads &&
          are_uneven_tower_heads(sample.name, dim, degree)) {
        return "";
      }
      return head_problem(sample, degree);
    case DimRole::StateGroups: {
      Divisions divisions;
      divisions.count(Divided::StateGroups) = dim.count;
      divisions.degree(Degree::Tensor) = degree;
      const auto refused = division_problems(divisions, engine.name);
      return refused.empty() ? "" : refused.front().text;
    }
    case DimRole::Vocabulary: {
      const int64_t padded =
          ceil_div(dim.size, engine.vocab_multiple) * engine.vocab_multiple;
      if (padded % degree == 0) return "";
      return "a vocabulary of " + count_text(dim.size) +
             (padded == dim.size
                  ? " is"
                  : ", padded to " + count_text(padded) + ", is") +
             of_ranks(degree);
    }
    case DimRole::Dense:
      return width_problem(dim, degree,
                           "the MLP width" + tower_of(sample.name));
    case DimRole::Width:
      return width_problem(dim, degree, "the expert width");
    default:
      return "";
  }
}

std::string block_problem(const Sample& sample, int64_t degree) {
  const ServedDim& dim = sample.dim;
  if (dim.padded || dim.block <= 1 || degree <= 1) return "";
  // These heads are replicated.
  if (are_uneven_tower_heads(sample.name, dim, degree)) return "";
  const int64_t held = held_elements(dim, degree, 1);
  if (held % dim.block == 0 || held == dim.size) return "";
  return "a rank's " + count_text(held) + " of " + count_text(dim.size) +
         " elements split quantisation blocks of " + count_text(dim.block) +
         " (`" + sample.name + "`)";
}

int64_t expert_count(const ServedWeights& model,
                     const std::vector<Sample>& samples) {
  int64_t experts = 0;
  for (const Sample& sample : samples) {
    if (sample.dim.role == DimRole::Experts) {
      experts = std::max(experts, sample.dim.size);
    }
    if (is_single_expert(sample.name)) {
      experts = std::max(experts, model.manifest->facts.experts.value_or(0));
    }
  }
  return experts;
}

std::string expert_problem(int64_t experts, const Engine& engine,
                           int64_t degree) {
  if (experts == 0 || degree == 1) return "";
  if (experts < degree) {
    return count_text(experts) + " experts are fewer than " +
           count_text(degree) + " ranks";
  }
  if (experts % degree == 0 || engine.uneven_experts) return "";
  return count_text(experts) + " experts are" + of_ranks(degree);
}

void add_once(std::vector<std::string>& texts, std::string text) {
  if (!text.empty() && !contains(texts, text)) texts.push_back(std::move(text));
}

bool keeps_latents(const Facts& facts) {
  if (facts.kv_latent) return true;
  return std::ranges::any_of(facts.state.kinds, [](const LayerState& layer) {
    return std::ranges::any_of(layer.cached, [](const CachedTensor& cached) {
      return cached.per == CachedTensor::Per::Token && cached.heads == 0;
    });
  });
}

// Returns every problem, or without `all` only the first one found.
std::vector<std::string> problems(const std::vector<Sample>& samples,
                                  int64_t experts, const Engine& engine,
                                  const Mesh& layout, bool all = true) {
  std::vector<std::string> found;
  for (const Sample& sample : samples) {
    if (!all && !found.empty()) return found;
    const int64_t degree = degree_of(sample.dim.role, layout);
    add_once(found, problem_of(sample, engine, degree));
  }
  // Check blocks only if nothing simpler is wrong.
  for (const Sample& sample : samples) {
    if (!found.empty()) break;
    add_once(found, block_problem(sample, degree_of(sample.dim.role, layout)));
  }
  add_once(found, expert_problem(experts, engine,
                                 degree_of(DimRole::Experts, layout)));
  return found;
}

std::vector<std::string> remarks(const std::vector<Sample>& samples,
                                 int64_t experts, bool latents,
                                 const Engine& engine, const Mesh& layout) {
  std::vector<std::string> found;
  const int64_t heads = degree_of(DimRole::Heads, layout);
  const int64_t ranks = degree_of(DimRole::Experts, layout);
  for (const Sample& sample : samples) {
    if (!engine.whole_tower_heads ||
        !are_uneven_tower_heads(sample.name, sample.dim, heads)) {
      continue;
    }
    const ServedDim& dim = sample.dim;
    add_once(found, count_text(dim.count > 0 ? dim.count : dim.size) + " " +
                        head_noun(sample) + " are" + of_ranks(heads) +
                        ": they are replicated on every rank");
  }
  for (const Sample& sample : samples) {
    if (sample.dim.role != DimRole::KvHeads || sample.dim.count == 0 ||
        are_uneven_tower_heads(sample.name, sample.dim, heads)) {
      continue;
    }
    const int64_t copies = heads / sample.dim.count;
    if (copies < 2) continue;
    add_once(found, count_text(sample.dim.count) +
                        " KV heads: each is replicated on " +
                        count_text(copies) + " ranks");
  }
  if (latents && heads > 1) {
    add_once(found, "the latent cache is replicated on every rank");
  }
  if (experts > 0 && ranks > 1 && experts % ranks != 0) {
    add_once(found, "the fullest rank has " +
                        count_text(ceil_div(experts, ranks)) + " of " +
                        count_text(experts) + " experts");
  }
  return found;
}

std::set<int64_t> powers_of_two() {
  std::set<int64_t> degrees;
  for (int64_t d = 1; d <= kCommonDegrees; d *= 2) degrees.insert(d);
  return degrees;
}

}  // namespace

std::string_view degree_name(DegreeOf of) {
  constexpr std::array<std::string_view, 3> kNames = {"tp", "ep", "dp"};
  return nth(kNames, of);
}

std::string others_text(const EngineMesh& mesh, DegreeOf of, bool experts) {
  if (of == DegreeOf::Experts) return "";
  std::vector<std::string> parts;
  const auto add = [&](const char* axis, int64_t degree) {
    if (degree > 1) parts.push_back(axis + count_text(degree));
  };
  if (of != DegreeOf::Tensor) add("tp=", mesh.tp);
  if (of != DegreeOf::Data) add("dp=", mesh.dp);
  add("pp=", mesh.pp);
  if (mesh.dp_attention) parts.emplace_back("`--dp-attention`");
  if (mesh.expert_parallel) parts.emplace_back("`--expert-parallel`");
  std::string text = joined(parts, ", ", " and ");
  if (experts && !mesh.expert_parallel) {
    text +=
        (text.empty() ? "" : ", ") + std::string("without `--expert-parallel`");
  }
  return text;
}

std::vector<std::string> cut_problems(const ServedWeights& model,
                                      const Engine& engine,
                                      const EngineMesh& mesh) {
  const std::vector<Sample> samples = samples_of(model);
  return problems(samples, expert_count(model, samples), engine,
                  layout_of(engine, mesh));
}

std::vector<std::string> cut_remarks(const ServedWeights& model,
                                     const Engine& engine,
                                     const EngineMesh& mesh) {
  const std::vector<Sample> samples = samples_of(model);
  return remarks(samples, expert_count(model, samples),
                 keeps_latents(model.manifest->facts), engine,
                 layout_of(engine, mesh));
}

std::vector<DegreeVerdict> degree_verdicts(const ServedWeights& model,
                                           const Engine& engine,
                                           const EngineMesh& mesh) {
  const std::vector<Sample> samples = samples_of(model);
  const int64_t experts = expert_count(model, samples);
  const bool latents = keeps_latents(model.manifest->facts);
  std::vector<DegreeVerdict> verdicts;
  const auto judge = [&](DegreeOf of, int64_t degree, const Mesh& layout,
                         bool asked, bool all = true) {
    DegreeVerdict verdict{of, degree, true, asked, {}};
    verdict.reasons = problems(samples, experts, engine, layout, all);
    verdict.legal = verdict.reasons.empty();
    if (verdict.legal) {
      verdict.reasons = remarks(samples, experts, latents, engine, layout);
    }
    return verdict;
  };
  // Returns whether a mesh may have this many devices.
  const auto is_possible = [](const EngineMesh& of) {
    return of.tp * of.dp * of.pp <= kMaxDevices;
  };

  std::set<int64_t> shown = powers_of_two();
  for (int64_t d = 1; d <= kSmallDegrees; ++d) shown.insert(d);
  shown.insert(mesh.tp);
  for (int64_t tp = 1; tp <= kLargestDegree; ++tp) {
    EngineMesh other = mesh;
    other.tp = tp;
    if (!is_possible(other)) break;
    const bool is_shown = shown.contains(tp);
    DegreeVerdict verdict =
        judge(DegreeOf::Tensor, tp, layout_of(engine, other), tp == mesh.tp,
              is_shown);
    if (verdict.legal || is_shown) verdicts.push_back(std::move(verdict));
  }
  if (experts > 0) {
    EngineMesh with = mesh;
    with.expert_parallel = true;
    const int64_t asked = degree_of(DimRole::Experts, layout_of(engine, with));
    std::set<int64_t> degrees = powers_of_two();
    degrees.insert(asked);
    for (int64_t ep = 1; ep <= std::min(experts, kLargestDegree); ++ep) {
      if (experts % ep == 0) degrees.insert(ep);
    }
    for (const int64_t ep : degrees) {
      // This layout contains only the expert degree, so nothing else is judged.
      verdicts.push_back(judge(DegreeOf::Experts, ep, Mesh({{"ep", ep}}),
                               mesh.expert_parallel && ep == asked));
    }
  }
  if (experts > 0 && (engine.experts_over_dp || mesh.dp_attention)) {
    std::set<int64_t> degrees = powers_of_two();
    degrees.insert(mesh.dp);
    for (const int64_t dp : degrees) {
      EngineMesh other = mesh;
      other.dp = dp;
      if (!is_possible(other)) break;
      verdicts.push_back(
          judge(DegreeOf::Data, dp, layout_of(engine, other), dp == mesh.dp));
    }
  }
  return verdicts;
}

void refuse_degrees(std::vector<DegreeVerdict>& verdicts, EngineMesh mesh,
                    const ProblemsAt& problems_at) {
  for (DegreeVerdict& verdict : verdicts) {
    if (verdict.of != DegreeOf::Tensor) continue;
    mesh.tp = verdict.degree;
    for (std::string& problem : problems_at(mesh)) {
      if (verdict.legal) verdict.reasons.clear();  // what it would cost
      verdict.legal = false;
      verdict.reasons.push_back(std::move(problem));
    }
  }
}

}  // namespace shardplan
