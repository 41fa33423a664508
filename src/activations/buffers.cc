// SPDX-License-Identifier: Apache-2.0
#include "activations/buffers.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/checked.h"
#include "base/words.h"
#include "core/fold.h"
#include "memory/zero.h"

namespace shardplan {
namespace {

// DeepSpeed's defaults, in elements.
constexpr Int128 kReduceBucket = 500'000'000;
constexpr Int128 kMostLive = 1'000'000'000;
constexpr Int128 kPrefetchBucket = 50'000'000;

constexpr int64_t kUpdateBytes = 4;   // per element of an update
constexpr int64_t kScalarBytes = 64;  // steps, rates and norms

// Float32 copies of one parameter that transformers' Adafactor makes, if it is
// stored in a narrower type and if it is not.
constexpr int64_t kNarrowCopies = 5;
constexpr int64_t kFloatCopies = 3;

bool is_deepspeed(const ReductionInput& input) {
  return input.style == ZeroStyle::DeepSpeed && input.zero > 0;
}

// Returns whether the optimizer updates each element independently.
bool is_elementwise(Optimizer optimizer) {
  return optimizer != Optimizer::Adafactor && optimizer != Optimizer::Muon;
}

// Returns what depends on the trained parameters: their number, elements,
// largest parameter and largest matrix; the rest is not filled. `frozen` is per
// parameter; empty: none is.
OptimizerInput largest_trained(const Manifest& manifest, const Plan& plan,
                               const std::vector<bool>& frozen) {
  OptimizerInput result;
  Int128 most = 0;
  for (size_t i = 0; i < manifest.size(); ++i) {
    const TensorType& type = manifest.type(i);
    const Shape& shape = type.shape;
    if ((!frozen.empty() && frozen[i]) || !is_trainable(type.dtype)) continue;
    ++result.parameters;
    result.elements += type.elements();
    const int64_t unit =
        std::max<int64_t>(byte_count(1, type.dtype).value_or(1), 1);
    result.largest =
        std::max<Int128>(result.largest, plan.of(i).bytes_per_device / unit);
    if (shape.size() != 2) continue;
    const Int128 numbers = Int128{shape[0]} * shape[1];
    if (numbers <= most) continue;
    most = numbers;
    result.rows = shape[0];
    result.columns = shape[1];
  }
  return result;
}

// How many copies of the elements that they update PyTorch's optimizers make:
// of all parameters in one list (by the estimate and at most), and of the
// largest parameter.
struct TorchUpdate {
  Optimizer optimizer;
  bool of_moments;  // in the moments' type rather than the gradients'
  std::array<int64_t, 2> list;
  std::array<int64_t, 2> one;
};
constexpr std::array<TorchUpdate, 9> kTorchUpdates = {
    {{Optimizer::AdamW, true, {1, 1}, {2, 3}},
     {Optimizer::AdamW8bit, true, {0, 0}, {0, 0}},  // one kernel per parameter
     // One compiled step per parameter, whose moments are in float32 before
     // their blocks are quantised. Not measured.
     {Optimizer::TorchaoAdamW8bit, true, {2, 4}, {2, 4}},
     {Optimizer::TorchaoAdamW4bit, true, {2, 4}, {2, 4}},
     {Optimizer::TorchaoAdamWFp8, true, {2, 4}, {2, 4}},
     {Optimizer::Lion, true, {2, 2}, {2, 2}},
     {Optimizer::Sgd, false, {0, 1}, {0, 2}},
     {Optimizer::SgdMomentum, false, {0, 1}, {0, 2}},
     {Optimizer::Adafactor, false, {1, 1}, {1, 2}}}};
Int128 torch_temporaries(const OptimizerInput& input,
                         std::optional<Update> requested, SavingMode figure) {
  if (input.optimizer == Optimizer::None) return 0;
  if (input.optimizer == Optimizer::Muon) {
    return optimizer_temporaries(input, SavingMode::Fused);
  }
  const TorchUpdate& of = *std::ranges::find(kTorchUpdates, input.optimizer,
                                             &TorchUpdate::optimizer);
  const bool is_adafactor = input.optimizer == Optimizer::Adafactor;
  const bool is_lion = input.optimizer == Optimizer::Lion;
  Update update =
      requested.value_or(is_adafactor ? Update::Loop : Update::Foreach);
  // Adafactor has no fused version, and Lion has none over lists.
  const Update missing = is_adafactor ? Update::Fused : Update::Foreach;
  if ((is_adafactor || is_lion) && update == missing) update = Update::Loop;
  const bool of_torchao = has_block_moments(input.optimizer) &&
                          input.optimizer != Optimizer::AdamW8bit;
  if (of_torchao) update = Update::Loop;
  const bool most = figure == SavingMode::Eager;
  // Counters of steps, the norms of what is clipped, and a list of these norms.
  Int128 small = most ? 2 * kUpdateBytes * input.parameters + kScalarBytes : 0;
  if (update == Update::Fused) return small;
  if (most && is_adafactor) small += input.state;
  const int64_t unit =
      of.of_moments ? input.moment_bytes : input.gradient_bytes;
  if (update == Update::Foreach) {
    return small + input.numbers * unit * of.list.at(most ? 1 : 0);
  }
  const Int128 own = input.largest * unit * of.one.at(most ? 1 : 0);
  if (!most || !is_adafactor) return small + own;
  const int64_t copies = unit < kUpdateBytes ? kNarrowCopies : kFloatCopies;
  return small + std::max(own, input.largest * kUpdateBytes * copies);
}

// Returns the architecture's name of the first dimension; "" if none is known.
std::string_view first_axis(const Manifest& manifest, size_t i) {
  if (manifest.kinds == nullptr) return {};
  const auto found = manifest.kinds->find(
      {folded_name(manifest.name(i)), manifest.type(i).shape});
  if (found == manifest.kinds->end() || found->second.empty()) return {};
  return found->second.front().axis;
}

bool is_multiplied(const Manifest& manifest, const Plan& plan,
                   size_t parameter) {
  constexpr std::array<std::string_view, 3> kOthers = {
      "positions", "token_types", "experts"};
  const size_t rank = plan.of(parameter).local_shape.size();
  return rank > 2 ||
         (rank == 2 && !contains(kOthers, first_axis(manifest, parameter)));
}

Int128 head_gradient(const LoopGradients& of, SavingMode figure) {
  if (figure == SavingMode::Least) return 0;
  const int64_t unit = figure == SavingMode::Eager
                           ? of.stored
                           : std::min(of.stored, of.computed);
  return std::min(of.all - of.layers, of.head * unit);
}

}  // namespace

GatheredSizes gathered_sizes(const Budget& budget) {
  GatheredSizes sizes;
  for (const GatheredClass& of : budget.gathered) {
    if (of.gathered == 0) continue;
    sizes.most_sharded = std::max<Int128>(sizes.most_sharded, of.sharded);
    // Layers that are stored in stacks have names without their number.
    const bool is_layer = of.groups > 1 || contains(of.label, '*');
    (is_layer ? sizes.layers : sizes.others) += Int128{of.gathered} * of.groups;
    Int128& most = is_layer ? sizes.most_of_layer : sizes.most_of_others;
    most = std::max<Int128>(most, of.gathered);
    if (!is_layer) continue;
    Int128& least = sizes.least_of_layer;
    least = least == 0 ? of.gathered : std::min<Int128>(least, of.gathered);
  }
  return sizes;
}

ReductionInput reduction_input(const GatheredSizes& gathered,
                               const TrainedShare& share, const Budget& budget,
                               const StateOptions& state,
                               const FrameworkDef& framework,
                               int64_t element_bytes) {
  ReductionInput input;
  input.style = state.zero_style;
  input.zero = state.zero;
  if (framework.runs_fsdp2 && state.zero_style == ZeroStyle::Jax) {
    input.style = ZeroStyle::Fsdp2;
    input.zero = 3;
  }
  input.ahead = framework.gathers_ahead;
  input.all_gathered = gathered.layers + gathered.others;
  // The largest part is among what is gathered as planned.
  if (framework.gathers_outside) {
    input.outside = gathered.others - gathered.most_of_others;
  }
  input.trained = budget.trained.elements;
  input.compute_bytes = element_bytes;
  input.gradient_bytes = gradient_bytes(budget, element_bytes);
  input.layer.gathered = gathered.most_of_layer;
  if (share.of > 0) {
    input.layer.gradients =
        (gathered.most_of_layer * share.part + share.of - 1) / share.of;
  }
  // With stacks of gradients, it goes into a shard of a stack.
  if (!framework.stacks_gradients) {
    input.layer.reduced = input.layer.gradients *
                          std::max(input.gradient_bytes, element_bytes) /
                          element_bytes;
  }
  return input;
}

Int128 gathered_ahead(const ReductionInput& input, SavingMode figure) {
  const Int128 layer = input.layer.gathered;
  if (layer == 0 || figure == SavingMode::Least) return 0;
  const bool live = is_deepspeed(input) && input.zero == 3;
  if (figure == SavingMode::Fused) {
    return live ? std::min(layer, kPrefetchBucket * input.compute_bytes)
                : layer;
  }
  // The next layer, the flat buffer that this one was copied out of (FSDP2),
  // and the root.
  const Int128 ahead = input.ahead * layer + input.outside;
  if (!live) return ahead;
  const Int128 most = std::min(
      input.all_gathered, (kMostLive + kPrefetchBucket) * input.compute_bytes);
  return std::max(ahead, most - input.planned);
}

Int128 gradient_buckets(const ReductionInput& input, SavingMode figure) {
  if (figure == SavingMode::Least) return 0;
  const bool most = figure == SavingMode::Eager;
  if (is_deepspeed(input)) {
    return input.gradient_bytes *
           (most ? 2 * kReduceBucket : std::min(kReduceBucket, input.trained));
  }
  const Int128 sharded = input.layer.gradients + input.layer.reduced;
  if (!most) {
    return input.style == ZeroStyle::Fsdp2 && input.zero > 0 ? sharded
                                                             : Int128{0};
  }
  if (input.style == ZeroStyle::Megatron && input.zero > 0) return sharded;
  return sharded + input.replicated;
}

OutsideGradients outside_gradients(std::span<const OutsideWeight> weights,
                                   size_t step, Int128 freed) {
  OutsideGradients result;
  for (const OutsideWeight& last : weights) {
    if (step > last.step) continue;
    size_t first = last.step;
    bool is_last = true;
    bool reads = false;
    for (const OutsideWeight& other : weights) {
      if (other.weight != last.weight) continue;
      first = std::min(first, other.step);
      is_last = is_last && other.step <= last.step;
      reads = reads || other.step == step;
    }
    if (!is_last) continue;
    if (step == last.step) {
      result.moving += std::max(last.bytes - freed, Int128{0});
    } else if (step < first || first == last.step) {
      result.done += last.bytes;
    } else {
      result.moving += (reads ? 3 : 1) * last.bytes;
    }
  }
  return result;
}

Int128 freed_before_head(const SegmentOptions& options, SavingMode figure,
                         Int128 logits) {
  const LossCopies& copies = nth(options.loss, figure);
  const int64_t unit = options.element_bytes;
  const int64_t each =
      copies.own * unit + copies.floats * std::max(unit, kFloatBytes);
  return each > 0 ? logits * (each - unit) / each : Int128{0};
}

Flights in_flight(const StepOptions& options, int64_t stages, int64_t stage) {
  const int64_t all = options.microbatches;
  if (stages == 0) return {};
  const int64_t later_stages = stages - stage - 1;
  if (options.schedule == PipelineSchedule::AllForward) return {all, 1, all};
  if (options.schedule == PipelineSchedule::OneForwardOneBackward) {
    return {std::min(all, later_stages + 1), 1, all};
  }
  const int64_t chunks = std::max<int64_t>(options.chunks, 1);
  const int64_t group = options.group_with(stages);
  const int64_t warm = 2 * later_stages + (chunks - 1) * group + 1;
  return {std::min(all * chunks, warm), chunks, std::min(group, all)};
}

int64_t more_in_flight(const Flights& flights, int64_t chunk) {
  const int64_t round = flights.chunks * flights.group;
  const int64_t rest =
      flights.flying % round - chunk * flights.group;  // of the last round
  const int64_t own = flights.flying / round * flights.group +
                      std::clamp<int64_t>(rest, 0, flights.group);
  return std::max<int64_t>(own - 1, 0);
}

Int128 pipeline_buffers(const PipelineInput& input, SavingMode figure) {
  // A stage of several chunks of layers receives for each of them except the
  // model's first, and sends from each except the model's last.
  const Int128 receives = input.chunks - (input.first ? 1 : 0);
  const Int128 sends = input.chunks - (input.last ? 1 : 0);
  const Int128 received =
      input.saves_input ? input.stream * input.flying * receives / input.chunks
                        : Int128{0};
  if (figure == SavingMode::Eager) {
    const Int128 all = input.stream * input.microbatches;
    return std::max(all * receives, received) + all * sends + input.stream;
  }
  // Outputs of the micro-batch that runs are not counted yet.
  const int64_t others = std::max<int64_t>(input.flying - input.chunks, 0);
  const Int128 sent = input.counts_output
                          ? input.stream * others * sends / input.chunks
                          : Int128{0};
  if (figure == SavingMode::Least) return received - sent;
  // One tensor is on its way in each direction.
  const int directions = (receives > 0 ? 1 : 0) + (sends > 0 ? 1 : 0);
  return received - sent + input.stream * directions;
}

Int128 state_of_one(const std::vector<OptimizerInput>& groups) {
  Int128 most = 0;
  for (const OptimizerInput& group : groups) {
    if (group.numbers == 0) continue;
    most = std::max(most, (group.state * group.largest + group.numbers - 1) /
                              group.numbers);
  }
  return most;
}

Int128 optimizer_temporaries(const OptimizerInput& input, SavingMode figure) {
  if (figure == SavingMode::Least || input.optimizer == Optimizer::None) {
    return 0;
  }
  const bool most = figure == SavingMode::Eager;
  // Updates are computed in float32, or in a moment's type, which is no wider.
  // PyTorch counts the steps of every parameter.
  const Int128 tree =
      kUpdateBytes *
          (std::max(input.numbers, 3 * input.largest) + input.parameters) +
      kScalarBytes;
  if (is_elementwise(input.optimizer)) return most ? tree : Int128{0};
  if (input.optimizer == Optimizer::Adafactor) {
    const Int128 largest = kUpdateBytes * input.largest;
    return most ? std::max(tree, kNarrowCopies * largest) + input.state
                : largest;
  }
  const Int128 matrix = input.rows * input.columns;
  const Int128 side = std::min(input.rows, input.columns);
  const Int128 numbers = 2 * matrix + 2 * side * side;
  const int64_t unit = most ? kUpdateBytes : kUpdateBytes / 2;
  const Int128 own =
      (most ? kUpdateBytes : input.gradient_bytes) * matrix + unit * numbers;
  return most ? std::max(own, tree) : own;
}

std::vector<OptimizerInput> group_optimizers(const Manifest& manifest,
                                             const Plan& plan,
                                             const std::vector<bool>& frozen,
                                             const BudgetOptions& options) {
  std::vector<OptimizerInput> groups;
  const StateSpecs* specs = options.state_specs;
  for (size_t group = 0; group <= options.state.groups.size(); ++group) {
    std::vector<bool> others = frozen;
    if (!options.state.groups.empty() && specs != nullptr) {
      others.resize(manifest.size());
      for (size_t i = 0; i < others.size(); ++i) {
        others[i] = others[i] || specs->kinds[specs->kind_of[i]].group != group;
      }
    }
    groups.push_back(largest_trained(manifest, plan, others));
    groups.back().optimizer = optimizer_of(options.state, group);
    if (options.state.moment_dtype) {
      groups.back().moment_bytes =
          byte_count(1, *options.state.moment_dtype).value_or(4);
    }
  }
  return groups;
}

Int128 update_temporaries(std::span<const OptimizerInput> groups,
                          const FrameworkDef& framework,
                          std::optional<Update> update, Int128 state,
                          Int128 numbers, int64_t gradient_bytes,
                          SavingMode figure) {
  Int128 elements = 0;
  for (const OptimizerInput& each : groups) elements += each.elements;
  Int128 most = 0;
  for (OptimizerInput each : groups) {
    if (framework.updates_in_place ||
        (framework.fuses_updates && is_elementwise(each.optimizer))) {
      continue;
    }
    each.state = state;
    each.numbers = numbers;
    // Gradients of master weights are as wide as the moments.
    each.gradient_bytes = std::max(gradient_bytes, each.moment_bytes);
    if (figure != SavingMode::Eager && elements > 0) {
      each.numbers = numbers * each.elements / elements;
    }
    most = std::max(most, update || framework.update
                              ? torch_temporaries(each, update, figure)
                              : optimizer_temporaries(each, figure));
  }
  return most;
}

std::vector<bool> find_multiplied(const Manifest& manifest, const Plan& plan) {
  // Layers and experts agree in all that the result depends on.
  std::unordered_map<uint64_t, bool> known;
  std::vector<bool> result;
  result.reserve(manifest.size());
  for (size_t i = 0; i < manifest.size(); ++i) {
    const uint64_t key =
        (uint64_t{manifest.name_class(i)} << 32U) | plan.placement_of[i];
    const auto [entry, is_new] = known.try_emplace(key, false);
    if (is_new) entry->second = is_multiplied(manifest, plan, i);
    result.push_back(entry->second);
  }
  return result;
}

Int128 local_numbers(const Plan& plan, size_t parameter) {
  return Int128{element_count(plan.of(parameter).local_shape).value_or(0)};
}

WeightShapes weight_shapes(const Manifest& manifest, const Plan& plan,
                           const std::vector<int64_t>& layer_of,
                           const std::vector<bool>& frozen) {
  using Matrix = std::pair<int64_t, int64_t>;
  std::set<Matrix> in_layers;
  std::set<Matrix> outside;
  const std::vector<bool> multiplied = find_multiplied(manifest, plan);
  for (size_t i = 0; i < manifest.size(); ++i) {
    if (!multiplied[i] || (!frozen.empty() && frozen[i])) continue;
    const Shape& shape = plan.of(i).local_shape;
    (layer_of[i] >= 0 ? in_layers : outside)
        .insert({shape[shape.size() - 2], shape.back()});
  }
  WeightShapes shapes;
  for (const auto& [rows, columns] : in_layers) {
    shapes.in_layers += Int128{rows} * columns;
  }
  for (const Matrix& each : outside) {
    if (in_layers.contains(each)) continue;
    shapes.outside += Int128{each.first} * each.second;
  }
  return shapes;
}

LayerWeights layer_weights(const Manifest& manifest, const Plan& plan,
                           const std::vector<int64_t>& layer_of,
                           const std::vector<bool>& frozen) {
  LayerWeights weights;
  LayerWeight others;
  bool trains_layers = false;
  const std::vector<bool> multiplied = find_multiplied(manifest, plan);
  for (size_t i = 0; i < manifest.size(); ++i) {
    const bool in_layer = layer_of[i] >= 0;
    LayerWeight& of = in_layer ? weights.layers[layer_of[i]] : others;
    const auto& dealt = plan.of(i).dealt;
    const Int128 bytes = plan.of(i).bytes_per_device;
    of.all += part_on_rank(dealt, bytes);
    if (in_layer && multiplied[i]) {
      const Int128 numbers = local_numbers(plan, i);
      of.matrices += part_on_rank(dealt, numbers);
      weights.largest_matrix = std::max(weights.largest_matrix, numbers);
    }
    if (!frozen.empty() && frozen[i]) continue;  // it has no gradient
    of.trained += part_on_rank(dealt, bytes);
    trains_layers = trains_layers || in_layer;
    weights.largest = std::max(weights.largest, bytes);
  }
  weights.others = others.trained;
  if (!trains_layers) weights.share = {others.trained, others.all};
  for (const auto& [layer, of] : weights.layers) {
    if (of.trained * weights.share.of > weights.share.part * of.all) {
      weights.share = {of.trained, of.all};
    }
  }
  return weights;
}

int64_t gradient_bytes(const Budget& budget, int64_t unit) {
  Int128 most = -1;
  for (const LeafSum& leaf : budget.leaves) {
    if (leaf.kind != StateKind::Gradient || leaf.logical <= most) continue;
    most = leaf.logical;
    unit = byte_count(1, leaf.dtype).value_or(unit);
  }
  return unit;
}

WeightCasts weight_casts(const Manifest& manifest, const Plan& plan,
                         const StateOptions& state,
                         const std::vector<bool>& frozen,
                         int64_t element_bytes) {
  WeightCasts casts;
  for (size_t i = 0; i < manifest.size(); ++i) {
    const bool trained = frozen.empty() || !frozen[i];
    const TensorType type = stored_type(manifest.type(i), state, trained);
    const Int128 numbers =
        part_on_rank(plan.of(i).dealt, local_numbers(plan, i));
    const int64_t unit = byte_count(1, type.dtype).value_or(0);
    casts.stored += numbers * unit;
    if (!is_trainable(type.dtype)) continue;
    if (unit != element_bytes) casts.cast += numbers * element_bytes;
    if (std::min(unit, element_bytes) < kFloatBytes) {
      casts.in_float32 += numbers * kFloatBytes;
    }
  }
  return casts;
}

Int128 gradients_in_loop(const LoopGradients& of, SavingMode figure) {
  return of.layers + head_gradient(of, figure);
}

Int128 gradients_at_loss(const LoopGradients& of, SavingMode figure) {
  const auto copies = static_cast<int64_t>(figure);
  return of.layers * (of.sends ? copies : copies / 2) +
         head_gradient(of, figure);
}

Int128 gradients_at_end(const LoopGradients& of, SavingMode figure) {
  const Int128 head = std::min(of.all - of.layers, of.head * of.stored);
  return of.all - head + head_gradient(of, figure);
}

Int128 scores_copied(const FrameworkDef& framework, const Facts& facts,
                     Int128 scores, int64_t stacked, Int128 gradients,
                     SavingMode figure) {
  const bool moves = nth(framework.moves_scores, figure) && facts.kv_heads &&
                     facts.heads > facts.kv_heads;
  return std::max(moves ? scores * stacked - gradients : Int128{0},
                  scores * nth(framework.score_copies, figure));
}

bool pads_heads(const Mesh& mesh, const Facts& facts,
                const StateOptions& state) {
  Int128 degree = 1;
  for (const Axis& axis : mesh.axes()) {
    degree *= is_gathered_for_use(axis.name, state) ? 1 : axis.size;
  }
  const int64_t heads = facts.kv_heads.value_or(facts.heads.value_or(0));
  return degree > 1 && (heads == 0 || heads % degree != 0);
}

}  // namespace shardplan
