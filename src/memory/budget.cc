// SPDX-License-Identifier: Apache-2.0
#include "memory/budget.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "memory/kv_cache.h"
#include "memory/zero.h"
#include "model/units.h"
#include "resolve/device_memory.h"

namespace shardplan {
namespace {

// In the order of Category.
constexpr std::array<std::string_view, kCategories> kCategoryNames = {
    "parameters",      "gradients",      "master_weights",
    "optimizer_state", "gathered_layer", "kv_cache",
    "recurrent_state", "fragmentation",  "reserve"};

// More classes of devices than this take seconds; sensible plans have far
// fewer.
constexpr int64_t kMaxClasses = int64_t{1} << 20;

using Totals = std::array<Int128, kCategories>;
using Counts = std::vector<int64_t>;  // per kind

Int128 sum_of_leaves(const Totals& totals) {
  return std::accumulate(totals.begin(), totals.end(), Int128{0});
}

class Maker {
 public:
  Maker(const Manifest& manifest, const Plan& plan, const LayerGroups& groups,
        const BudgetOptions& options, Diagnostics& diags)
      : manifest_(manifest),
        plan_(plan),
        mesh_(plan.mesh),
        groups_(groups),
        options_(options),
        diags_(diags) {}

  std::optional<Budget> make() {
    if (!check_state_options(options_.state, mesh_, diags_) || !check_sizes() ||
        !check_views() || !check_stages()) {
      return std::nullopt;
    }
    held_ = hold_state(plan_, options_.state, options_.state_specs);
    budget_.leaves = held_.sums;
    if (!split_stages() || !check_stage_limits()) return std::nullopt;
    count_kinds();
    count_trained();
    gather();
    if (!cache() || !find_places() || !sum_classes()) return std::nullopt;
    sum_leaves();
    finish_totals();
    budget_.limit = options_.limit;
    if (budget_.limit) {
      budget_.headroom = budget_.limit->usable - budget_.classes.front().total;
    }
    return std::move(budget_);
  }

 private:
  bool too_large(const std::string& what) {
    diags_.error(Code::InvalidMesh, {}, what + " exceed 63 bits");
    return false;
  }

  // No leaf has more than 16 bytes per element.
  bool check_sizes() {
    for (const Placement& placement : plan_.placements) {
      const auto elements = element_count(stored_shape(placement));
      if (!elements || *elements > INT64_MAX / 16) {
        return too_large("the bytes of the training state");
      }
    }
    return true;
  }

  // Checks that each view that a parameter uses has the pipeline's axis and, if
  // ZeRO is on and its parameters are replicated, at least one of ZeRO's axes.
  bool check_views() {
    for (const MeshView& view : mesh_.views()) {
      const auto is_of_view = [&](const Placement& placement) {
        return placement.view == view.name;
      };
      if (std::ranges::none_of(plan_.placements, is_of_view)) continue;
      if (options_.stages && !mesh_.has(view.name, options_.stages->axis)) {
        const AxisName& axis = options_.stages->axis;
        diags_
            .error(Code::Usage, {},
                   "view `" + view.name + "` does not have axis `" + axis +
                       "`, which `--stages` names")
            .fact("the view is " + axes_text(view.axes) + ", the mesh " +
                  mesh_text(mesh_))
            .help(
                "give every view the axis in the same place as in the mesh: a "
                "stage has the same devices in all of them");
        return false;
      }
      if (options_.state.zero == 0 || !zero_lacks(view)) continue;
      AxisNames free;
      for (const Axis& axis : view.axes) {
        const bool is_used =
            (options_.stages && axis.name == options_.stages->axis) ||
            std::ranges::any_of(plan_.placements, [&](const Placement& p) {
              return contains(axes_in(p.spec), axis.name) ||
                     (p.dealt && p.dealt->axis == axis.name);
            });
        if (axis.size > 1 && !is_used) free.push_back(axis.name);
      }
      AxisNames wanted = options_.state.zero_axes;
      wanted.insert(wanted.end(), free.begin(), free.end());
      auto problem = diags_.error(
          Code::Usage, {},
          "`--zero-axes` names no axis of view `" + view.name +
              "`, so the state of its parameters would not be sharded");
      problem.fact("the view is " + axes_text(view.axes));
      if (!free.empty()) {
        problem.help("write `--zero-axes " + joined(texts_of(wanted), ",") +
                     "`");
      }
      return false;
    }
    return true;
  }

  // Returns whether parameters of a view have copies that no ZeRO axis shards.
  bool zero_lacks(const MeshView& view) const {
    if (std::ranges::any_of(options_.state.zero_axes, [&](const auto& axis) {
          return mesh_.has(view.name, axis);
        })) {
      return false;
    }
    // Devices of different stages hold different layers, not copies.
    const int64_t stages =
        options_.stages ? mesh_.size_of(options_.stages->axis) : 1;
    return std::ranges::any_of(plan_.placements, [&](const Placement& p) {
      return p.view == view.name && p.replicas > stages;
    });
  }

  bool check_stages() {
    if (!options_.stages) return true;
    const AxisName& axis = options_.stages->axis;
    if (!contains(options_.state.zero_axes, axis)) return true;
    diags_
        .error(Code::Usage, {},
               "axis `" + axis + "` is given to `--stages` and `--zero-axes`")
        .help("shard over another axis: stages hold different layers");
    return false;
  }

  size_t kinds() const { return kind_count(plan_, options_.state_specs); }
  const Placement& placement_of(size_t kind) const {
    return kind_placement(plan_, options_.state_specs, kind);
  }

  bool split_stages() {
    for (size_t kind = 0; kind < kinds(); ++kind) {
      cut_by_axis_.push_back(
          options_.stages &&
          contains(axes_in(placement_of(kind).spec), options_.stages->axis));
    }
    if (!options_.stages) return true;
    budget_.stages = plan_stages(manifest_, mesh_, groups_, cut_by_axis_,
                                 *options_.stages, diags_);
    if (!budget_.stages) return false;
    for (int64_t i = 0; i < budget_.stages->stages; ++i) {
      budget_.stage_labels.push_back(stage_label(*budget_.stages, groups_, i));
    }
    return true;
  }

  bool check_stage_limits() {
    if (!options_.limit || options_.limit->of_stages.empty()) return true;
    const int64_t given = std::ssize(options_.limit->of_stages);
    const auto stages = static_cast<int64_t>(stage_count());
    if (given == stages) return true;
    diags_
        .error(Code::Usage, {},
               "`--memory` is given for " + plural(given, "stage") +
                   ", but the model has " + count_text(stages))
        .help("give each stage a size: `--memory 0=SIZE,1=SIZE,..`");
    return false;
  }

  size_t stage_count() const {
    return budget_.stages ? to_size(budget_.stages->stages) : 1;
  }

  // Counts the parameters of each kind, per stage and in total.
  void count_kinds() {
    counts_.assign(stage_count(), Counts(kinds()));
    all_counts_.assign(kinds(), 0);
    for (size_t i = 0; i < groups_.groups.size(); ++i) {
      for (const GroupForm::Member& member :
           groups_.forms[groups_.groups[i].form].members) {
        all_counts_[member.kind] += member.count;
        if (!budget_.stages || cut_by_axis_[member.kind]) {
          for (Counts& counts : counts_) counts[member.kind] += member.count;
          continue;
        }
        for (const int64_t stage : budget_.stages->stages_of[i]) {
          nth(counts_, stage)[member.kind] += member.count;
        }
      }
    }
  }

  void count_trained() {
    budget_.groups.resize(options_.state.groups.size() + 1);
    for (size_t kind = 0; kind < kinds(); ++kind) {
      const TensorType& type = placement_of(kind).type;
      const bool trained = is_kind_trained(options_.state_specs, kind);
      if (!trained || is_trainable(type.dtype)) {
        // These are sums over the manifest, so they fit 63 bits.
        Budget::Part& part = trained ? budget_.trained : budget_.frozen;
        part.parameters += all_counts_[kind];
        part.elements += all_counts_[kind] * type.elements();
        part.bytes += all_counts_[kind] * type.bytes();
      }
      if (!trained) continue;
      if (!is_trainable(type.dtype)) {
        budget_.untrained += all_counts_[kind];
        budget_.untrained_bytes += all_counts_[kind] * type.bytes();
        continue;
      }
      Budget::TrainedGroup& group =
          budget_.groups[group_of_kind(options_.state_specs, kind)];
      (type.shape.size() == 2 ? group.matrices : group.others) +=
          all_counts_[kind];
      group.elements += all_counts_[kind] * type.elements();
    }
    count_updated();
    count_replicated();
    counters_.resize(budget_.groups.size());
    for (size_t group = 0; group < budget_.groups.size(); ++group) {
      if (budget_.groups[group].matrices + budget_.groups[group].others == 0) {
        continue;
      }
      counters_[group] =
          optimizer_counters(mesh_, options_of_group(options_.state, group));
    }
  }

  // Experts with different placements are taken to be spread evenly.
  void count_updated() {
    for (const Counts& counts : counts_) {
      int64_t& updated = budget_.updated.emplace_back();
      std::map<int64_t, int64_t> apart;  // by number of ranks
      for (const KindLeaf& entry : held_.leaves) {
        if (entry.leaf.kind != StateKind::Gradient) continue;
        const auto& dealt = entry.leaf.dealt;
        const int64_t count = counts[entry.kind];
        if (dealt && dealt->rank >= 0) {
          apart[dealt->size] += count;
        } else {
          updated += most_held(dealt, count);
        }
      }
      for (const auto& [ranks, count] : apart) {
        updated += ceil_div(count, ranks);
      }
    }
  }

  // Sums the gradients that data-parallel replicas reduce among themselves.
  void count_replicated() {
    const auto cuts_batch = [&](const AxisName& axis) {
      return is_gathered_for_use(axis, options_.state) &&
             mesh_.size_of(axis) > 1;
    };
    const bool any =
        std::ranges::any_of(mesh_.all_axes(), [&](const Axis& axis) {
          return cuts_batch(axis.name) &&
                 !(options_.stages && options_.stages->axis == axis.name);
        });
    for (const KindLeaf& entry : held_.leaves) {
      if (entry.leaf.kind != StateKind::Gradient) continue;
      const PartitionSpec& spec = placement_of(entry.kind).spec;
      // If ZeRO shards them, no device holds them whole.
      const bool cut = entry.leaf.zero_ranks > 1 || entry.leaf.spec != spec ||
                       std::ranges::any_of(axes_in(spec), cuts_batch);
      const Int128 bytes = static_cast<Int128>(all_counts_[entry.kind]) *
                           entry.leaf.bytes_per_device;
      budget_.all_gradients += bytes;
      if (any && !cut) budget_.replicated_gradients += bytes;
    }
  }

  // Computes the gathered bytes of each layer group, and the most that each
  // stage has gathered at a time.
  void gather() {
    std::vector<const StateLeaf*> parameter(kinds());
    for (const KindLeaf& entry : held_.leaves) {
      if (entry.leaf.kind == StateKind::Parameter) {
        parameter[entry.kind] = &entry.leaf;
      }
    }
    std::vector<GatheredGroup> of_form;
    for (const GroupForm& form : groups_.forms) {
      Int128 gathered = 0;
      Int128 sharded = 0;
      for (const GroupForm::Member& member : form.members) {
        const StateLeaf& leaf = *parameter[member.kind];
        const Int128 held = most_held(leaf.dealt, member.count);
        gathered += held * gathered_bytes(placement_of(member.kind), leaf,
                                          mesh_, plan_.on_indivisible,
                                          options_.state, form.stacked_dim);
        sharded += held * leaf.bytes_per_device;
      }
      const int64_t layers = form.layers;
      of_form.push_back({static_cast<int64_t>(gathered), layers});
      budget_.gathered.push_back(
          {form.label, form.groups * layers,
           ceil_div(static_cast<int64_t>(sharded), layers),
           static_cast<int64_t>(gathered)});
    }
    for (size_t stage = 0; stage < stage_count(); ++stage) {
      gathered_.push_back(
          largest_gathered(units_on(stage, of_form), options_.live_layers));
    }
  }

  std::vector<GatheredGroup> units_on(size_t stage,
                                      std::vector<GatheredGroup> forms) const {
    Counts present(forms.size());
    for (size_t i = 0; i < groups_.groups.size(); ++i) {
      const uint32_t form = groups_.groups[i].form;
      if (!budget_.stages || groups_.forms[form].is_stacked()) {
        ++present[form];
        continue;
      }
      for (const int64_t on : budget_.stages->stages_of[i]) {
        present[form] += on == static_cast<int64_t>(stage);
      }
    }
    for (size_t i = 0; i < forms.size(); ++i) forms[i].groups *= present[i];
    return forms;
  }

  // Computes what the layers of every stage cache: KV and recurrent states.
  bool cache() {
    cache_.assign(stage_count(), 0);
    states_.assign(stage_count(), 0);
    if (!options_.kv) return true;
    const auto layers = kv_layers(manifest_, diags_);
    if (!layers || !check_source(*layers)) return false;
    for (size_t stage = 0; stage < stage_count(); ++stage) {
      std::vector<KvLayer> own = *layers;
      if (budget_.stages) {
        // Layers beyond the last, such as a decoder's after its encoder, are on
        // the last stage.
        const auto [begin, end] = budget_.stages->ranges[stage];
        const bool last = stage + 1 == stage_count();
        own = *kv_layers(manifest_.facts, begin, last ? INT64_MAX : end);
      }
      const auto states = std::stable_partition(
          own.begin(), own.end(),
          [](const KvLayer& layer) { return !layer.recurrent; });
      if (!count_kept({states, own.end()}, stage, Category::RecurrentState,
                      states_)) {
        return false;
      }
      own.erase(states, own.end());
      if (!count_kept(own, stage, Category::KvCache, cache_)) return false;
    }
    return true;
  }

  bool check_source(const std::vector<KvLayer>& layers) {
    if (options_.kv->source > 0 || !needs_source(layers)) return true;
    diags_
        .error(Code::Usage, {},
               "the decoder caches keys and values of the encoder, whose "
               "sequence length is not given")
        .help("add `--source-seq`, e.g. `--source-seq 512`");
    return false;
  }

  bool count_kept(const std::vector<KvLayer>& own, size_t stage,
                  Category category, std::vector<int64_t>& into) {
    const auto bytes =
        kv_bytes_per_device(own, options_.kv_sharding, *options_.kv);
    const auto with_replicas = kv_bytes_with_replicas(
        own, options_.kv_sharding, *options_.kv,
        mesh_.devices() / static_cast<int64_t>(stage_count()));
    if (!bytes || !with_replicas) {
      return too_large(category == Category::KvCache
                           ? "the bytes of the KV cache"
                           : "the bytes of recurrent states");
    }
    into[stage] = *bytes;
    nth(budget_.totals, category).with_replicas += *with_replicas;
    return true;
  }

  // Finds the classes of devices: they differ by uneven shards and by stage.
  bool find_places() {
    Breakpoints breakpoints = held_.breakpoints;
    if (budget_.stages) {
      std::set<int64_t>& points = breakpoints[options_.stages->axis];
      for (int64_t i = 1; i < budget_.stages->stages; ++i) points.insert(i);
    }
    const auto grid = grid_of(mesh_, breakpoints);
    auto places =
        grid ? coordinate_classes(mesh_, *grid, breakpoints, kMaxClasses)
             : std::nullopt;
    if (places) {
      places_ = *std::move(places);
      HeldCounts counts{counts_, std::nullopt};
      if (budget_.stages) counts.axis = budget_.stages->axis;
      by_class_ = held_by_class(held_, mesh_, options_.state, counts,
                                ClassSums(mesh_, *grid, breakpoints), places_);
      return true;
    }
    diags_
        .error(Code::InvalidMesh, {}, "too many devices hold different shards")
        .help("use another `--on-indivisible` policy, or sizes that divide");
    return false;
  }

  size_t stage_at(const std::vector<int64_t>& coordinates) const {
    return budget_.stages ? to_size(coordinates[budget_.stages->axis]) : 0;
  }

  // Adds the categories other than those of sharded state.
  void add_rest(size_t stage, Totals& bytes) const {
    for (const std::vector<StateLeaf>& of_group : counters_) {
      for (const StateLeaf& counter : of_group) {
        nth(bytes, Category::OptimizerState) += counter.bytes_per_device;
      }
    }
    nth(bytes, Category::GatheredLayer) = gathered_[stage];
    nth(bytes, Category::KvCache) = cache_[stage];
    nth(bytes, Category::RecurrentState) = states_[stage];
    constexpr int64_t kMillion = 1'000'000;
    const Int128 lost = std::llround(options_.fragmentation * kMillion);
    nth(bytes, Category::Fragmentation) =
        (sum_of_leaves(on_device(bytes)) * lost + kMillion - 1) / kMillion;
    nth(bytes, Category::Reserve) = options_.reserve;
    if (options_.limit && !options_.limit->of_stages.empty()) {
      nth(bytes, Category::Reserve) +=
          options_.limit->usable - options_.limit->of_stages[stage];
    }
  }

  bool is_on_host(size_t category) const {
    const Offload& offload = options_.state.offload;
    switch (static_cast<Category>(category)) {
      case Category::Parameters:
        return offload.weights;
      case Category::Gradients:
        return offload.gradients;
      case Category::MasterWeights:
        return offload.optimizer && !offload.pages;
      case Category::OptimizerState:
        return offload.optimizer;
      default:
        return false;
    }
  }
  Totals on_device(Totals totals) const {
    for (size_t i = 0; i < totals.size(); ++i) {
      if (is_on_host(i)) totals[i] = 0;
    }
    return totals;
  }

  bool sum_classes() {
    // Bytes by category -> stage -> number of devices.
    std::map<CategoryBytes, std::map<int64_t, int64_t>> alike;
    for (size_t c = 0; c < places_.size(); ++c) {
      const CoordinateClass& place = places_[c];
      Totals totals{};
      for (size_t kind = 0; kind < by_class_.bytes.size(); ++kind) {
        totals[kind] = by_class_.bytes[kind][c];
      }
      const size_t stage = stage_at(place.coordinates);
      add_rest(stage, totals);
      if (sum_of_leaves(totals) > INT64_MAX) {
        return too_large("the bytes of one device");
      }
      CategoryBytes bytes{};
      for (size_t i = 0; i < kCategories; ++i) {
        bytes[i] = static_cast<int64_t>(totals[i]);
        budget_.totals[i].on_devices += totals[i] * place.devices;
      }
      alike[bytes][static_cast<int64_t>(stage)] += place.devices;
      std::vector<int64_t>& first =
          first_of_.try_emplace(bytes, place.coordinates).first->second;
      if (stage < stage_at(first)) first = place.coordinates;
    }
    for (const auto& [bytes, stages] : alike) add_class(bytes, stages);
    std::ranges::stable_sort(
        budget_.classes, [](const BudgetClass& a, const BudgetClass& b) {
          return a.total != b.total ? a.total > b.total : a.stage < b.stage;
        });
    return true;
  }

  void add_class(const CategoryBytes& bytes,
                 const std::map<int64_t, int64_t>& stages) {
    BudgetClass entry;
    for (size_t i = 0; i < kCategories; ++i) {
      (is_on_host(i) ? entry.on_host : entry.bytes)[i] = bytes[i];
      (is_on_host(i) ? entry.host : entry.total) += bytes[i];
    }
    for (const auto& [stage, devices] : stages) {
      entry.devices += devices;
      if (budget_.stages) entry.stages.push_back(stage);
    }
    entry.stage = stages.begin()->first;
    if (budget_.stages) entry.label = class_label(stages);
    budget_.classes.push_back(std::move(entry));
  }

  // Returns "stage 0: embedding, layers 0-9" or "stages 1-6: 10 layers each".
  std::string class_label(const std::map<int64_t, int64_t>& stages) const {
    const int64_t first = stages.begin()->first;
    const int64_t last = stages.rbegin()->first;
    if (first == last) return nth(budget_.stage_labels, first);
    std::string text = "stages ";
    if (last - first + 1 == std::ssize(stages)) {
      text += std::to_string(first) + "-" + std::to_string(last);
    } else {
      for (const auto& [stage, devices] : stages) {
        text += (stage == first ? "" : ", ") + std::to_string(stage);
      }
    }
    const auto [begin, end] = nth(budget_.stages->ranges, first);
    return text + ": " + std::to_string(end - begin) +
           (end - begin == 1 ? " layer each" : " layers each");
  }

  // Returns the number of devices that hold each part of a kind's leaf, summed
  // over its parameters.
  Int128 copies_of(const KindLeaf& entry) const {
    const Int128 replicas = entry.leaf.replicas;
    if (!budget_.stages || cut_by_axis_[entry.kind]) {
      return replicas * all_counts_[entry.kind];
    }
    Int128 held = 0;
    for (const Counts& counts : counts_) held += counts[entry.kind];
    return replicas / budget_.stages->stages * held;
  }

  // Computes the bytes per role on the fullest device and over all devices.
  void sum_leaves() {
    for (size_t sum = 0; sum < by_class_.of_sum.size(); ++sum) {
      budget_.leaves[sum].padding += by_class_.of_sum[sum];
    }
    CategoryBytes bytes_of_fullest{};
    for (size_t i = 0; i < kCategories; ++i) {
      bytes_of_fullest[i] =
          budget_.classes.front().held(static_cast<Category>(i));
    }
    const std::vector<int64_t>& fullest = first_of_.at(bytes_of_fullest);
    const size_t stage = stage_at(fullest);
    visit_held(held_, mesh_, options_.state, counts_[stage], fullest,
               [&](size_t sum, StateKind, Int128 bytes) {
                 budget_.leaves[sum].bytes_per_device +=
                     static_cast<int64_t>(bytes);
               });
    for (const KindLeaf& entry : held_.leaves) {
      LeafSum& sum = budget_.leaves[entry.sum];
      const Int128 bytes = entry.leaf.logical_bytes;
      sum.tensors += all_counts_[entry.kind];
      sum.logical += bytes * all_counts_[entry.kind];
      if (entry.leaf.zero_failed) {
        sum.unsharded +=
            most_held(entry.leaf.dealt, counts_[stage][entry.kind]) *
            entry.leaf.bytes_per_device;
      }
      const Int128 copies = bytes * copies_of(entry);
      sum.padding -= copies;
      // The first four categories are the kinds of state, in the same order.
      nth(budget_.totals, entry.leaf.kind).with_replicas += copies;
    }
  }

  void finish_totals() {
    for (size_t group = 0; group < counters_.size(); ++group) {
      for (const StateLeaf& counter : counters_[group]) {
        budget_.leaves.push_back(
            {.kind = counter.kind,
             .role = counter.role,
             .dtype = counter.type.dtype,
             .group = group,
             .tensors = 1,
             .logical = counter.bytes_per_device,
             .bytes_per_device = counter.bytes_per_device});
        nth(budget_.totals, Category::OptimizerState).with_replicas +=
            static_cast<Int128>(counter.bytes_per_device) * mesh_.devices();
      }
    }
    // Frozen parameters come after the groups.
    std::ranges::stable_sort(
        budget_.leaves, [](const LeafSum& a, const LeafSum& b) {
          return a.group.value_or(SIZE_MAX) < b.group.value_or(SIZE_MAX);
        });
    for (size_t i = 0; i < kCategories; ++i) {
      CategoryTotal& total = budget_.totals[i];
      const bool is_data = i <= to_size(Category::OptimizerState) ||
                           i == to_size(Category::KvCache);
      if (!is_data) total.with_replicas = total.on_devices;
      total.padding = total.on_devices - total.with_replicas;
    }
  }

  const Manifest& manifest_;
  const Plan& plan_;
  const Mesh& mesh_;
  const LayerGroups& groups_;
  const BudgetOptions& options_;
  Diagnostics& diags_;

  Budget budget_;
  HeldState held_;
  std::vector<std::vector<StateLeaf>> counters_;  // by group
  std::vector<bool> cut_by_axis_;                 // per kind
  std::vector<Counts> counts_;                    // per stage
  Counts all_counts_;
  std::vector<Int128> gathered_;  // per stage
  std::vector<int64_t> cache_;    // per stage
  std::vector<int64_t> states_;   // per stage, recurrent
  std::vector<CoordinateClass> places_;
  HeldByClass by_class_;
  // For the devices with these bytes per category, the coordinates of one on
  // the lowest stage.
  std::map<CategoryBytes, std::vector<int64_t>> first_of_;
};

}  // namespace

std::string stage_limits_text(const DeviceLimit& limit) {
  std::string text;
  for (size_t i = 0; i < limit.of_stages.size(); ++i) {
    text += (i == 0 ? "" : ", ") + ("stage " + std::to_string(i)) + " has " +
            bytes_text(limit.of_stages[i]);
  }
  if (text.empty()) return text;
  return text + ": any shortfall from " + bytes_text(limit.usable) +
         " counts as reserve";
}

std::string_view category_name(Category category) {
  return nth(kCategoryNames, category);
}

std::string_view category_title(Category category) {
  constexpr std::array<std::string_view, kCategories> kTitles = {
      "parameters",      "gradients",      "master weights",
      "optimizer state", "gathered layer", "KV cache",
      "recurrent state", "fragmentation",  "reserve"};
  return nth(kTitles, category);
}

std::optional<Budget> make_budget(const Manifest& manifest, const Plan& plan,
                                  const LayerGroups& groups,
                                  const BudgetOptions& options,
                                  Diagnostics& diags) {
  return Maker(manifest, plan, groups, options, diags).make();
}

std::optional<Budget> make_budget(const Manifest& manifest, const Plan& plan,
                                  const BudgetOptions& options,
                                  Diagnostics& diags) {
  const auto& kind_of = options.state_specs != nullptr
                            ? options.state_specs->kind_of
                            : plan.placement_of;
  return make_budget(manifest, plan, layer_groups(manifest, kind_of), options,
                     diags);
}

}  // namespace shardplan
