// SPDX-License-Identifier: Apache-2.0
// The export target `megatron`: the degrees of parallelism at which Megatron-LM
// places a model as the plan does, as arguments of its training command
// (docs/formats/export.md).
//
// Source: NVIDIA/Megatron-LM. Ranks are in the order tp-cp-ep-dp-pp, innermost
// first; for experts there is no cp (megatron/core/parallel_state.py,
// initialize_model_parallel). The sharded dimensions are those of GPT models
// with Transformer Engine (megatron/core/models/gpt/gpt_layer_specs.py and
// megatron/core/transformer).
#include "io/export.h"

#include <algorithm>
#include <compare>
#include <map>

#include "base/text.h"
#include "base/words.h"
#include "core/fold.h"
#include "model/architecture/axis_labels.h"
#include "model/tensor_name.h"
#include "model/units.h"

namespace shardplan {
namespace {

constexpr std::string_view kName = "megatron";

enum class Role : uint8_t { Pipeline, Data, Expert, Context, Tensor };

// An axis of any other name counts as tensor parallelism, which the parameters
// must then confirm.
Role role_of_axis(std::string_view axis) {
  if (is_pipeline_axis(axis)) return Role::Pipeline;
  if (is_gathered_axis(axis) || is_data_axis(axis)) return Role::Data;
  if (has_word("ep exp expert experts", axis)) return Role::Expert;
  return has_word("cp context context_parallel sp seq sequence", axis)
             ? Role::Context
             : Role::Tensor;
}

// The axes of a mesh or view by their role in Megatron. An axis without a name
// has size 1.
struct Ranks {
  std::string view;
  Axis stages;
  Axis outer;  // around `tensor`: cp, or ep for experts
  Axis tensor;
  bool stages_inside = false;  // within data parallelism

  int64_t data(int64_t devices) const {
    return devices / (stages.size * outer.size * tensor.size);
  }
};

// Returns why the axes are not in Megatron's order; "" if they are.
std::string order_problem(const Mesh& mesh, Ranks& ranks) {
  const auto apart = [&](const Axis& axis) {
    return mesh.stride(*mesh.find(axis.name));
  };
  int64_t inner = 1;
  for (const Axis& axis : {ranks.tensor, ranks.outer}) {
    if (axis.size > 1 && apart(axis) != inner) {
      return "neighbours along `" + axis.name + "` are " +
             plural(apart(axis), "device") +
             " apart, but Megatron's order needs " + count_text(inner);
    }
    inner *= axis.size;
  }
  const Axis& stages = ranks.stages;
  if (stages.size == 1) return "";
  ranks.stages_inside = apart(stages) * stages.size != mesh.devices();
  return ranks.stages_inside && apart(stages) != inner
             ? "stages are neither the outermost axis nor inside data "
               "parallelism"
             : "";
}

std::optional<Ranks> read_ranks(const Mesh& mesh, const std::string& view,
                                Role outer, Diagnostics& diags) {
  const auto role_of = [&](const Axis& axis) {
    const Role role = role_of_axis(axis.name);
    const bool is_outer = role == Role::Expert || role == Role::Context;
    return is_outer && role != outer ? Role::Data : role;
  };
  Ranks ranks{view, {}, {}, {}};
  std::vector<Axis> axes = mesh.axes_of(view);
  std::erase_if(axes, [](const Axis& axis) { return axis.size == 1; });
  std::string problem;
  for (const Axis& axis : axes) {
    const Role role = role_of(axis);
    if (role == Role::Data) continue;
    Axis& place = role == Role::Pipeline ? ranks.stages
                  : role == Role::Tensor ? ranks.tensor
                                         : ranks.outer;
    if (place.size > 1) {
      problem = "`" + place.name + "` and `" + axis.name +
                "` would set the same degree";
    }
    place = axis;
  }
  if (problem.empty()) problem = order_problem(mesh, ranks);
  if (problem.empty()) return ranks;
  std::ranges::stable_sort(axes, {}, role_of);
  diags
      .error(Code::Inexpressible, {},
             "`megatron` cannot order ranks like " +
                 (view.empty() ? "the mesh " : "view `" + view + "`, ") +
                 axes_text(mesh.axes_of(view)))
      .fact(problem)
      .help("write one axis for each degree in Megatron's order, `" +
            (view.empty() ? "--mesh " : "--view " + view + ":") +
            axes_text(axes) + "`");
  return std::nullopt;
}

// Labels of dimensions that tensor parallelism shards, and of those never
// sharded.
constexpr std::string_view kCut[] = {"vocab", kHeadsLabel,  kKvHeadsLabel,
                                     "mlp",   "expert_mlp", "shared_mlp"};
constexpr std::string_view kWhole =
    "hidden norm router vector q_rank kv_rank head_dim packed_inputs positions "
    "token_types";
// Parts of packed tensors that Megatron shards separately: each rank has a
// share of each part.
constexpr std::string_view kParts = "q k v gate up";

bool is_packed(const DimKind& dim) { return dim.axis == "packed"; }

bool is_cut_by_tensor(const DimKind& dim) {
  if (!is_packed(dim)) return contains(kCut, dim.axis);
  return std::ranges::all_of(dim.parts, [](const DimPart& part) {
    return has_word(kParts, part.name);
  });
}

bool is_never_cut(const DimKind& dim) {
  if (is_packed(dim)) return dim.parts.front().label.ends_with("_rank");
  return dim.axis.empty() || has_word(kWhole, dim.axis);
}

bool counts_experts(const DimKind& dim) { return dim.axis == kExpertsLabel; }

// Why Megatron places a parameter differently, and what to type.
struct Problem {
  std::string why;
  std::string help;

  auto operator<=>(const Problem&) const = default;
};

class Reading {
 public:
  Reading(const ExportInput& input, const Ranks& ranks)
      : input_(input), ranks_(ranks) {}

  // Returns what the architecture knows about a parameter; null if nothing.
  const ParameterKind* kind_of(size_t parameter) const {
    const Manifest& manifest = input_.manifest;
    if (manifest.kinds == nullptr) return nullptr;
    const auto found =
        manifest.kinds->find({folded_name(manifest.name(parameter)),
                              manifest.type(parameter).shape});
    return found == manifest.kinds->end() ? nullptr : &found->second;
  }

  bool is_expert(size_t parameter) const {
    const ParameterKind* kind = kind_of(parameter);
    return kind != nullptr &&
           (expert_name(input_.manifest.name(parameter)).number ||
            (kind->size() > 1 && std::ranges::any_of(*kind, counts_experts)));
  }

  // Returns false, with the reasons reported, if Megatron places parameters
  // differently.
  bool agrees(Diagnostics& diags) {
    std::map<Problem, std::vector<size_t>> found;
    for (size_t i = 0; i < input_.manifest.size(); ++i) {
      const Problem problem = problem_of(i);
      if (!problem.why.empty()) found[problem].push_back(i);
    }
    for (const auto& [problem, parameters] : found) {
      report_inexpressible(input_, parameters,
                           "`megatron` requires a different placement of",
                           problem.why, problem.help, diags);
    }
    return found.empty();
  }

  std::optional<Ranks> experts;
  int64_t vocab = 0;  // stored size; 0: no parameter has it

 private:
  Problem problem_of(size_t parameter) {
    const ParameterKind* kind = kind_of(parameter);
    const Placement& placement = input_.plan.of(parameter);
    if (kind == nullptr) {
      return {"without an architecture its dimensions are unknown",
              "give the model with its config.json"};
    }
    if (placement.requested && contains(axes_in(placement.requested_spec()),
                                        AxisName(kUnconstrained))) {
      return {"its rule leaves a dimension to the compiler (UNCONSTRAINED)",
              "name the axes, or write null"};
    }
    const bool expert = is_expert(parameter);
    const Ranks& ranks = expert ? *experts : ranks_;
    const Axis& ep = ranks.outer;
    const bool dealt = placement.dealt && placement.dealt->size > 1;
    const bool deals =
        expert && ep.size > 1 && std::ranges::none_of(*kind, counts_experts);
    if (dealt != deals || (dealt && placement.dealt->axis != ep.name)) {
      return {dealt ? "it is placed whole over `" + placement.dealt->axis + "`"
                    : "it is not placed whole over `" + ep.name + "`",
              "place all experts whole over one axis with `deal: ep`"};
    }
    if (dealt && !is_even(*placement.dealt)) {
      return {plural(placement.dealt->experts, "expert") +
                  " are distributed unevenly over `" + ep.name + "`",
              "choose a degree that divides their number"};
    }
    for (size_t i = 0; i < kind->size(); ++i) {
      const DimKind& dim = (*kind)[i];
      const std::string which =
          "dimension " +
          (dim.axis.empty() ? std::to_string(i) : "`" + dim.axis + "`");
      // Multi-token prediction has a column-parallel product of two streams.
      const bool joins =
          dim.axis == "hidden_out" && !kind->back().parts.empty();
      const bool cut = is_cut_by_tensor(dim) || joins;
      const bool blocks = expert && counts_experts(dim);
      // Labels of a vision tower, for example, start with its name and a dot.
      const bool known =
          !contains(dim.label, '.') && (cut || blocks || is_never_cut(dim));
      if (!known && ranks.tensor.size > 1) {
        return {which + " does not occur in Megatron's GPT models",
                "use no tensor parallelism, or export with `--to yaml`, which "
                "writes every plan"};
      }
      const Axis degree = cut ? ranks.tensor : blocks ? ep : Axis();
      Problem problem = problem_of_dim(placement, i, dim, degree);
      if (!problem.why.empty()) {
        problem.why = which + " " + problem.why;
        return problem;
      }
    }
    return {};
  }

  Problem problem_of_dim(const Placement& placement, size_t at,
                         const DimKind& dim, const Axis& degree) {
    AxisNames axes;
    if (at < placement.spec.dims.size()) axes = placement.spec.dims[at];
    erase_if(axes, [&](const AxisName& axis) {
      return input_.plan.mesh.size_of(axis) == 1;
    });
    const AxisNames wanted =
        degree.size == 1 ? AxisNames() : AxisNames{degree.name};
    if (axes != wanted) {
      return {(axes.empty() ? "is replicated"
                            : "is sharded over " + axes_text(axes)) +
                  ", but Megatron " +
                  (wanted.empty() ? "replicates it"
                                  : "shards it over " + degree.name),
              wanted.empty() ? "replicate it: over data parallelism Megatron "
                               "shards optimizer state, not weights"
              : dim.axis == "vocab"
                  ? "shard it over `" + degree.name +
                        "`; `--declare pad-vocab=128` makes it divisible"
                  : "shard it over `" + degree.name + "`"};
    }
    const int64_t size = stored_shape(placement)[at];
    const int64_t units = dim.count > 0 ? dim.count : size;
    const auto stored = std::ranges::find(
        placement.stored_dims, static_cast<int>(at), &StoredDim::dim);
    const bool declared = stored != placement.stored_dims.end();
    if (dim.axis == "vocab") {
      if (vocab == 0) vocab = size;
      if (vocab != size) {
        return {"is " + count_text(size) + ", but " + count_text(vocab) +
                    " elsewhere",
                "give all of them the same size with `--declare pad-vocab`"};
      }
    } else if (declared && size != placement.type.shape[at]) {
      return {"is changed by " + stored->why,
              "export without this `--declare`"};
    }
    if (size % degree.size != 0 ||
        (dim.axis != "vocab" && units % degree.size != 0)) {
      return {"consists of " + count_text(units) + " parts, not divisible by " +
                  degree.name + "=" + std::to_string(degree.size),
              "choose a degree that divides them"};
    }
    if (degree.size > 1 && is_packed(dim) && !declared) {
      return {"is sharded as one block, but Megatron shards each of its parts",
              "add `--declare interleave-gate-up` or `--declare "
              "interleave-qkv` if it is stored that way"};
    }
    return {};
  }

  const ExportInput& input_;
  const Ranks& ranks_;
};

std::vector<std::string> comments(const ExportInput& input, const Ranks& ranks,
                                  const std::optional<Ranks>& experts,
                                  bool sequence_parallel) {
  const int64_t devices = input.plan.mesh.devices();
  std::vector<std::string> lines =
      header_lines(input, "Megatron-LM arguments", kName);
  std::string sizes = plural(devices, "rank") + ": data-parallel size " +
                      count_text(ranks.data(devices));
  if (experts) {
    if (!experts->view.empty()) {
      lines.push_back("view " + experts->view + ": " +
                      axes_text(input.plan.mesh.axes_of(experts->view)));
    }
    sizes +=
        ", expert data-parallel size " + count_text(experts->data(devices));
  }
  lines.push_back(sizes);
  lines.push_back(
      "not part of a plan, so left out: batch, precision, recomputation, "
      "--use-distributed-optimizer" +
      std::string(sequence_parallel ? "" : ", --sequence-parallel"));
  const int64_t layers = input.manifest.facts.layers.value_or(0);
  if (layers % ranks.stages.size != 0) {
    lines.push_back(count_text(ranks.stages.size) + " stages do not divide " +
                    plural(layers, "layer") +
                    ": add --pipeline-model-parallel-layout");
  }
  return lines;
}

std::optional<std::string> write(const ExportInput& input, Diagnostics& diags) {
  const Mesh& mesh = input.plan.mesh;
  const auto ranks = read_ranks(mesh, "", Role::Context, diags);
  if (!ranks) return std::nullopt;
  Reading reading(input, *ranks);
  std::optional<std::string> view;
  for (size_t i = 0; i < input.manifest.size(); ++i) {
    if (reading.is_expert(i) && view.value_or("").empty()) {
      view = input.plan.of(i).view;
    }
  }
  if (view) {
    reading.experts = read_ranks(mesh, *view, Role::Expert, diags);
    if (!reading.experts) return std::nullopt;
    if (reading.experts->stages != ranks->stages) {
      return diags
          .error(Code::Inexpressible, {},
                 "view `" + *view + "` has different stages than the mesh")
          .help("start both with the pipeline axis");
    }
  }
  if (!reading.agrees(diags)) return std::nullopt;
  // Megatron requires it to train experts with both expert and tensor
  // parallelism.
  const bool sequence_parallel = reading.experts &&
                                 reading.experts->outer.size > 1 &&
                                 ranks->tensor.size > 1;
  std::string text =
      comment_text(comments(input, *ranks, reading.experts, sequence_parallel));
  const auto add = [&](std::string_view argument, int64_t value) {
    text += "--" + std::string(argument) + " " + std::to_string(value) + "\n";
  };
  add("tensor-model-parallel-size", ranks->tensor.size);
  add("pipeline-model-parallel-size", ranks->stages.size);
  add("context-parallel-size", ranks->outer.size);
  if (reading.experts) {
    add("expert-model-parallel-size", reading.experts->outer.size);
    add("expert-tensor-parallel-size", reading.experts->tensor.size);
  }
  if (sequence_parallel) text += "--sequence-parallel\n";
  if (ranks->stages_inside) text += "--use-tp-pp-dp-mapping\n";
  // The tokenizer's vocabulary is padded to a multiple of this and tp.
  if (reading.vocab > 0) {
    add("make-vocab-size-divisible-by", reading.vocab / ranks->tensor.size);
  }
  return text;
}

}  // namespace

const ExportTarget kMegatronTarget = {
    kName, "parallelism degrees, as Megatron-LM arguments", write,
    ExportViews::Deals};

}  // namespace shardplan
