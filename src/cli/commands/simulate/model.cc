// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/simulate/model.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "base/text.h"
#include "base/words.h"
#include "cli/flag_values.h"
#include "cli/options.h"
#include "core/plan.h"
#include "evaluate/stacked_experts.h"
#include "graph/shrink.h"
#include "io/load.h"
#include "model/forward/inputs.h"
#include "sim/activations.h"
#include "spmd/hooked_plan.h"
#include "syntax/document.h"

namespace shardplan::cli {
namespace {

InputIds from_text(const std::string& text, Diagnostics& diags) {
  InputIds ids;
  for (const std::string& sequence : split_list(text, ';')) {
    std::vector<int64_t>& row = ids.emplace_back();
    for (const std::string& entry : split_list(sequence)) {
      const auto number = parse_integer(entry);
      if (!number) {
        diags
            .error(Code::Usage, {},
                   in_backticks(entry) + " in --input-ids is not a token")
            .help("for example `--input-ids 1,2,3;4,5,6`, without spaces");
        return {};
      }
      row.push_back(*number);
    }
  }
  return ids;
}

std::optional<std::vector<int64_t>> sequence_of(const Node& list,
                                                Diagnostics& diags) {
  std::vector<int64_t> row;
  for (size_t i = 0; i < list.size(); ++i) {
    const auto number = list.item(i).integer();
    if (!number) {
      return diags.error(Code::MalformedDocument, list.item(i).span(),
                         "a token must be an integer");
    }
    row.push_back(*number);
  }
  return row;
}

InputIds from_file(const std::string& path, Host& host, Diagnostics& diags) {
  SourcePtr source =
      read_source(path, static_cast<int64_t>(kMaxDocumentBytes), host, diags);
  if (source == nullptr) return {};
  const auto document = parse_document(std::move(source), diags);
  if (!document) return {};
  const Node root = document->root();
  const bool flat = root.size() > 0 && !root.item(0).is_list();
  InputIds ids;
  for (size_t i = 0; i < (flat ? 1 : root.size()); ++i) {
    const Node list = flat ? root : root.item(i);
    if (!list.is_list()) {
      diags
          .error(Code::MalformedDocument, list.span(),
                 "input ids must be a list of sequences")
          .help("for example [[1, 2, 3], [4, 5, 6]]");
      return {};
    }
    const auto row = sequence_of(list, diags);
    if (!row) return {};
    ids.push_back(*row);
  }
  return ids;
}

constexpr int64_t kDefaultBatch = 2;
constexpr int64_t kDefaultLength = 16;

// Returns the number of shards along a semantic axis such as __BATCH__.
int64_t shards_of(std::string_view token, const RuleSet* rules,
                  const Mesh& mesh, Mode mode) {
  Diagnostics quiet;
  const auto axis =
      with_assumed_axes(rules != nullptr ? *rules : RuleSet{}, mesh, {})
          .partition_axis;
  const SemanticEntry entry = {{std::string(token)}};
  const auto spec = resolve_semantic_spec(*axis, std::span(&entry, 1), mode,
                                          EformerVersion::Current, quiet);
  int64_t shards = 1;
  if (!spec || spec->dims.empty()) return shards;
  for (const Axis& each : mesh.axes()) {
    if (contains(spec->dims.front(), each.name)) shards *= each.size;
  }
  return shards;
}

// Returns the smallest multiple of `unit` that is at least `least`.
int64_t multiple(int64_t unit, int64_t least) {
  return (least + unit - 1) / unit * unit;
}

// Returns the sizes of the run; empty if the flags contradict one another.
// Default sizes give every device a part of the batch.
std::optional<ForwardPass> forward_pass(const Options& options,
                                        const Architecture& architecture,
                                        const InputShapes& given,
                                        const RuleSet* rules, const Mesh& mesh,
                                        Diagnostics& diags) {
  const SimulateRequest& flags = options.simulate;
  ForwardPass pass = default_pass(options.planning.mode, rules, mesh);
  pass.layers = flags.layers;
  pass.capacity = flags.capacity;
  if (flags.batch) {
    pass.batch = *flags.batch;
    pass.length = flags.length.value_or(kDefaultLength);
  }
  const ForwardPass asked = pass;
  set_pass_sizes(architecture, given, pass);
  if (flags.batch &&
      (pass.batch != asked.batch || pass.length != asked.length)) {
    return diags.error(Code::Usage, {}, "--tokens and the input ids disagree")
        .fact("--tokens " + std::to_string(asked.batch) + "x" +
              std::to_string(asked.length) + ", but the ids are " +
              std::to_string(pass.batch) + "x" + std::to_string(pass.length))
        .help("leave out --tokens: the ids determine it");
  }
  return pass;
}

// A session, and how much of its model is run.
struct Opened {
  Session session;
  ForwardPass pass;
  std::optional<StoredTensors> weights;
  bool shrunk = false;
  bool by_default = false;  // shrunk without --shrink
};

// The largest number of multiplications of weights and tokens, over all
// devices, with which a model without weights runs unshrunk: about a second.
constexpr double kQuickProducts = 4e9;

// Returns whether a run of the real sizes takes long.
bool is_large(const Manifest& manifest, const ForwardPass& pass,
              const Mesh& mesh) {
  return static_cast<double>(manifest.total_elements()) *
             static_cast<double>(pass.batch) *
             static_cast<double>(pass.length) *
             static_cast<double>(mesh.devices()) >
         kQuickProducts;
}

// Returns the placement of a tensor that was shrunk.
Placement made_smaller(Placement placement, const TensorType& type,
                       const Plan& plan) {
  placement.type = type;
  for (StoredDim& stored : placement.stored_dims) {
    const auto dim = static_cast<size_t>(stored.dim);
    const int64_t shards =
        dim < placement.spec.dims.size()
            ? shard_count(plan.mesh, placement.spec.dims[dim])
            : 1;
    stored.size = (type.shape[dim] + shards - 1) / shards * shards;
  }
  measure(placement, plan.mesh, plan.on_indivisible);
  return placement;
}

// Returns the plan of a shrunk model: the placements of the original model,
// which graph/shrink.h keeps legal.
Plan plan_of_smaller(const Session& large, const Manifest& small) {
  std::unordered_map<std::string_view, size_t> numbers;
  for (size_t i = 0; i < large.model.manifest.size(); ++i) {
    numbers.emplace(large.model.manifest.name(i), i);
  }
  Plan plan = large.plan;
  plan.placements.clear();
  plan.placement_of.clear();
  std::map<std::tuple<uint32_t, DType, Shape>, uint32_t> known;
  for (size_t i = 0; i < small.size(); ++i) {
    const uint32_t before = large.plan.placement_of[numbers.at(small.name(i))];
    const auto [entry, is_new] = known.emplace(
        std::tuple(before, small.type(i).dtype, small.type(i).shape),
        static_cast<uint32_t>(plan.placements.size()));
    if (is_new) {
      plan.placements.push_back(made_smaller(large.plan.placements[before],
                                             small.type(i), large.plan));
    }
    plan.placement_of.push_back(entry->second);
  }
  return plan;
}

// Replaces the model that was read and placed by a smaller one.
bool make_smaller(Opened& opened, const SimulateRequest& flags,
                  Diagnostics& diags) {
  Session& session = opened.session;
  const Manifest& manifest = session.model.manifest;
  const ForwardDefinition& large = *session.model.forward();
  ForwardPass& pass = opened.pass;
  const Mesh& mesh = flags.shrink_mesh.value_or(session.plan.mesh);
  if (!pass.layers) {
    pass.layers = shrunk_layers(large, manifest, mesh);
    // A style may match only one layer, so all named layers are run.
    if (session.plan.run_as == RunAs::Hooks) {
      pass.layers = std::max(*pass.layers,
                             std::min(last_number_named(session.plan) + 1,
                                      model_size(large, "layers").value_or(0)));
    }
  }
  auto smaller = shrink(large, {manifest, pass}, mesh, diags);
  if (!smaller) return false;
  session.plan = plan_of_smaller(session, smaller->manifest);
  session.model = *std::move(smaller);
  return true;
}

// Runs experts that are placed whole on ranks as one stack that is sharded over
// the ranks, because every device runs the same operations. Each expert's place
// and the data sent are the same. If they cannot be stacked, place_values
// reports it.
void stack_dealt(Opened& opened) {
  Session& session = opened.session;
  if (std::ranges::none_of(session.plan.placements, [](const Placement& p) {
        return p.dealt.has_value();
      })) {
    return;
  }
  auto stacked = stacked_experts(session.model.manifest, {}, 1);
  if (!stacked) return;
  auto plan = stacked_plan(*stacked, session.plan);
  if (!plan) return;
  session.plan = *std::move(plan);
  session.model = Model(std::move(stacked->manifest), *session.model.forward());
  opened.weights.reset();
}

std::optional<Opened> open(Context& context, Model model,
                           const InputShapes& given) {
  const Options& options = context.options;
  auto session =
      open_session(options.planning, options.memory, {std::move(model), {}, {}},
                   context.host, context.diags, context.progress);
  if (!session) return std::nullopt;
  const auto pass =
      forward_pass(options, *session->model.forward()->architecture, given,
                   session->rules ? &*session->rules : nullptr,
                   session->plan.mesh, context.diags);
  if (!pass) return std::nullopt;
  Opened opened{*std::move(session), *pass, {}, false, false};
  const SimulateRequest& flags = options.simulate;
  const bool large =
      is_large(opened.session.model.manifest, *pass, opened.session.plan.mesh);
  if (!flags.shrink) {
    opened.weights = weights_of(context, opened.session.model.manifest);
  }
  opened.by_default = !flags.shrink && !flags.full && large && !opened.weights;
  opened.shrunk = flags.shrink || opened.by_default;
  if (opened.shrunk && !make_smaller(opened, flags, context.diags)) {
    return std::nullopt;
  }
  stack_dealt(opened);
  return opened;
}

}  // namespace

bool is_written_out(const std::string& text) {
  return text.find_first_not_of("0123456789,; -") == std::string::npos;
}

InputIds read_input_ids(const std::string& written, Host& host,
                        Diagnostics& diags) {
  const int64_t errors = diags.count(Severity::Error);
  InputIds ids = is_written_out(written) ? from_text(written, diags)
                                         : from_file(written, host, diags);
  if (diags.count(Severity::Error) > errors) return {};
  if (ids.empty() || ids.front().empty()) {
    diags.error(Code::Usage, {}, "--input-ids gives no tokens");
    return {};
  }
  for (const std::vector<int64_t>& row : ids) {
    if (row.size() == ids.front().size()) continue;
    diags.error(Code::Usage, {}, "sequences of --input-ids differ in length")
        .fact("the first has " + plural(std::ssize(ids.front()), "token") +
              ", another " + plural(std::ssize(row), "token"))
        .help("a batch is rectangular: truncate or pad the sequences");
    return {};
  }
  return ids;
}

ForwardPass default_pass(Mode mode, const RuleSet* rules, const Mesh& mesh) {
  ForwardPass pass;
  pass.batch =
      multiple(shards_of("__BATCH__", rules, mesh, mode), kDefaultBatch);
  const int64_t parts = shards_of("__LENGTH__", rules, mesh, mode);
  pass.length = multiple(parts, kDefaultLength);
  if (!mesh.views().empty()) pass.token_groups = parts;
  return pass;
}

std::optional<StoredTensors> weights_of(const Context& context,
                                        const Manifest& manifest) {
  const auto& values = context.options.simulate.values;
  if (values && *values != ValueSource::Checkpoint) return std::nullopt;
  return find_weights(context.options.planning.model, manifest, context.host);
}

std::optional<PlacedPass> read_whole_model(Context& context,
                                           const SourcePtr& file,
                                           const InputIds& ids,
                                           const InputShapes& given) {
  PlanRequest request = context.options.planning;
  request.reading.file = file;
  auto read =
      read_model(request, context.host, context.diags, context.progress);
  if (!read) return std::nullopt;
  read->report_recognised(context.diags);
  const ForwardDefinition* const whole = read->forward();
  if (whole == nullptr) return std::nullopt;
  RunSummary run;
  run.family = whole->architecture->name;
  if (const auto tied = model_value(*whole, "tied")) {
    run.tied = tied->integer != 0;
  }
  run.all_layers = model_size(*whole, "layers").value_or(0);
  InputShapes shapes = given;
  if (!ids.empty()) {
    shapes.emplace_back("input_ids",
                        Shape{std::ssize(ids), std::ssize(ids.front())});
  }
  auto opened = open(context, *std::move(read), shapes);
  if (!opened) return std::nullopt;
  run.shrunk = opened->shrunk;
  run.shrunk_by_default = opened->by_default;
  const ForwardPass& pass = opened->pass;
  run.only_layers = pass.layers;
  const Model& model = opened->session.model;
  auto description =
      write_forward(*model.forward(), {model.manifest, pass}, context.diags);
  if (!description) return std::nullopt;
  run.batch = pass.batch;
  if (reads_tokens(*model.forward())) run.length = pass.length;
  run.target_length = pass.target_length.value_or(0);
  if (opened->shrunk) opened->weights.reset();
  return PlacedPass{std::move(opened->session), *std::move(description),
                    std::move(run), std::move(opened->weights)};
}

}  // namespace shardplan::cli
