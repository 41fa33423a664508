// SPDX-License-Identifier: Apache-2.0
// Reads the model, rules and mesh of a request, and makes and checks the plan.
#include "session/session.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "advise/advise.h"
#include "base/checked.h"
#include "base/forwarding_host.h"
#include "base/shipped.h"
#include "base/text.h"
#include "base/words.h"
#include "core/mesh.h"
#include "evaluate/evaluate.h"
#include "findings/findings.h"
#include "io/load.h"
#include "io/pattern_rules.h"
#include "io/saved_plan.h"
#include "memory/stages.h"
#include "model/units.h"
#include "resolve/resolve.h"
#include "session/default_rules.h"

namespace shardplan {
namespace {

constexpr const char* kReading = "reading the model";

// A large file that reports how much of it has been read. Reports nothing once
// the host that opened it is destroyed.
class ReportedBytes : public Bytes {
 public:
  ReportedBytes(std::shared_ptr<const Bytes> bytes,
                std::shared_ptr<ProgressListener*> progress)
      : bytes_(std::move(bytes)), progress_(std::move(progress)) {}

  std::string_view view() const override { return bytes_->view(); }
  void release_before(uint64_t offset) const override {
    if (*progress_ != nullptr) {
      (*progress_)
          ->step(kReading, kReading,
                 static_cast<double>(offset) /
                     static_cast<double>(bytes_->view().size()));
    }
    bytes_->release_before(offset);
  }

 private:
  std::shared_ptr<const Bytes> bytes_;
  std::shared_ptr<ProgressListener*> progress_;
};

class ReportingHost : public ForwardingHost {
 public:
  ReportingHost(Host& below, ProgressListener& progress)
      : ForwardingHost(below),
        progress_(std::make_shared<ProgressListener*>(&progress)) {}
  ReportingHost(const ReportingHost&) = delete;
  ReportingHost& operator=(const ReportingHost&) = delete;
  ~ReportingHost() override { *progress_ = nullptr; }

  std::shared_ptr<const Bytes> read_file(const std::string& path, int64_t limit,
                                         std::string& why) override {
    return reported(ForwardingHost::read_file(path, limit, why));
  }
  std::shared_ptr<const Bytes> read_stdin(std::string& why) override {
    return reported(ForwardingHost::read_stdin(why));
  }

 private:
  std::shared_ptr<const Bytes> reported(std::shared_ptr<const Bytes> bytes) {
    constexpr size_t kLarge = size_t{1} << 20U;
    if (bytes == nullptr || bytes->view().size() < kLarge) return bytes;
    return std::make_shared<ReportedBytes>(std::move(bytes), progress_);
  }

  std::shared_ptr<ProgressListener*> progress_;
};

bool reads_stdin_twice(const PlanRequest& request) {
  const auto is_stdin = [](const std::string& path) { return path == "-"; };
  return is_stdin(request.model) +
             std::ranges::count_if(request.rules, is_stdin) +
             (request.saved_plan && is_stdin(*request.saved_plan)) >
         1;
}

// Drops shipped rules for views if no view is requested. Reports a user's rules
// for views that the mesh lacks, once per view.
void settle_asked_views(const PlanRequest& request, RuleSet& rules,
                        Diagnostics& diags) {
  std::set<std::string> asked = {""};
  for (std::string& view : asked_views(request)) asked.insert(std::move(view));
  for (const ViewRequest& view : rules.views) asked.insert(view.name);
  if (asked.size() == 1) drop_shipped_views(rules);
  const auto report = [&](const auto& rule, Span where) {
    if (rule.shipped || !asked.insert(rule.view).second) return;
    diags
        .report(Code::Remark, where,
                "the mesh has no view `" + rule.view +
                    "`, so the rules for it do not apply")
        .help("add `--view " + rule.view +
              ":AXIS=N,..` with sizes that multiply to the mesh's devices");
  };
  for (const Rule& rule : rules.rules) report(rule, rule.where);
  for (const LogicalRule& rule : rules.logical_rules) report(rule, rule.where);
}

// Reads the rules. If none are given, reads the shipped set for the model's
// type, else the set for any architecture, and notes it.
std::optional<RuleSet> read_rules(const PlanRequest& request,
                                  Manifest& manifest, Host& host,
                                  Diagnostics& diags) {
  std::vector<std::string> files = request.rules;
  if (files.empty() && request.pattern == nullptr) {
    const DefaultSet set = default_set(manifest, request, host);
    if (set.name.empty()) {
      auto report = diags.error(Code::Usage, {}, "no rules were given");
      const auto other = find_unexplained(manifest);
      if (manifest.kinds != nullptr && other) {
        report.fact("`" + std::string(kEveryModel) +
                    "` places parameters that follow from the config, but " +
                    in_backticks(manifest.name(*other)) + " of " +
                    type_text(manifest.type(*other)) + " does not");
      } else if (!manifest.model_type.empty()) {
        report.fact("there is no shipped set for model type " +
                    in_backticks(manifest.model_type));
      }
      return report
          .help(
              "add `--rules FILE`, or a shipped set such as `--rules @llama`; "
              "`shardplan list rules` shows all")
          .help("or give the rules in one line with `--pattern`");
    }
    files.push_back(set.name);
    diags.report(Code::Remark, {},
                 "no rules given; using the shipped set " +
                     in_backticks(set.name) + " for " + set.why);
  }
  std::optional<RuleSet> rules =
      load_rules(files, request.dialect, rule_reading(request), host, diags);
  if (!rules) return std::nullopt;
  settle_asked_views(request, *rules, diags);
  if (request.pattern != nullptr &&
      !read_pattern(
          request.pattern,
          request.parity ? PatternReading::Original : PatternReading::Strict,
          *rules, diags)) {
    return std::nullopt;
  }
  const bool labelled =
      rules->architecture_labels && label_parameters(manifest);
  if (const auto other = labelled ? find_unexplained(manifest) : std::nullopt) {
    int64_t others = 0;
    for (size_t i = *other; i < manifest.size(); ++i) {
      if (manifest.axes(i) == nullptr) ++others;
    }
    diags.report(Code::Remark, {},
                 plural(others, "parameter") + (others == 1 ? " does" : " do") +
                     " not follow from the model's config, such as " +
                     in_backticks(manifest.name(*other)) + " " +
                     shape_text(manifest.type(*other).shape) +
                     ": rules for architecture labels do not place " +
                     (others == 1 ? "it" : "them"));
  }
  if (rules->architecture_labels && manifest.size() > 0 && !labelled) {
    auto problem =
        diags.error(Code::Usage, rules->architecture_labels_where,
                    "these rules use architecture labels, but those of " +
                        in_backticks(manifest.title) + " are unknown");
    if (manifest.kinds == nullptr) {
      problem.fact(
          "labels are known for tensors that follow from a config.json");
    } else {
      const size_t other = *find_unexplained(manifest);
      problem.fact(in_backticks(manifest.name(other)) + " " +
                   shape_text(manifest.type(other).shape) +
                   " does not follow from its config.json");
    }
    return problem.help("give the model's config.json, or rules with patterns");
  }
  if (!manifest.earlier_labels.empty() && !rules->logical_rules.empty()) {
    std::set<std::string, std::less<>> known;
    for (const LogicalRule& rule : rules->logical_rules) {
      if (rule.name) known.insert(*rule.name);
    }
    for (const auto& [label, name] : replace_old_labels(known, manifest)) {
      diags.report(Code::Remark, {},
                   "the rules have no label " + in_backticks(label) +
                       "; using its older name " + in_backticks(name));
    }
  }
  return rules;
}

// Findings about the number of devices name `--devices`, or no flag. If the
// number comes from a topology, makes them name that instead.
void name_topology(const NamedTopology& topology, Diagnostic& problem) {
  const std::string says = "`--topology " + topology.name + "` has " +
                           plural(topology.devices, "device");
  if (problem.code == Code::DeviceCountMismatch) {
    for (std::string& fact : problem.facts) {
      if (fact.starts_with("`--devices` is ")) fact = says;
    }
  } else if (problem.message.starts_with("no size of axis")) {
    problem.facts.push_back(says);
  }
}

// Returns the axes of a recorded mesh for another number of devices: the
// largest axis absorbs the difference.
std::string example_mesh(const std::vector<AxisRequest>& axes,
                         std::optional<int64_t> devices) {
  const AxisRequest& largest =
      *std::ranges::max_element(axes, {}, &AxisRequest::size);
  int64_t others = 1;
  for (const AxisRequest& axis : axes) {
    if (&axis != &largest) others *= axis.size;
  }
  const bool divides = devices && others > 0 && *devices % others == 0;
  std::vector<Axis> sized;
  for (const AxisRequest& axis : axes) {
    const int64_t size =
        &axis == &largest ? (divides ? *devices / others : devices.value_or(1))
                          : (divides ? axis.size : 1);
    sized.push_back({axis.name, size});
  }
  return axes_text(sized);
}

std::optional<SlicedMesh> made_mesh(const std::vector<AxisRequest>& axes,
                                    const std::vector<AxisRequest>& dcn,
                                    std::optional<int64_t> devices,
                                    const PlanRequest& request, Span where,
                                    Diagnostics& diags) {
  const size_t first = diags.all().size();
  auto mesh =
      make_sliced_mesh(axes, dcn, devices, request.slices, where, diags);
  for (size_t i = first; request.topology && i < diags.all().size(); ++i) {
    name_topology(*request.topology, diags.all()[i]);
  }
  return mesh;
}

// Adds `--axes` to the axes that the rules declare.
void declare_axes(const PlanRequest& request, RuleSet& rules) {
  for (const std::string& axis : request.axes) {
    AxisNames& declared = rules.declared_axes;
    if (!contains(declared, axis)) declared.push_back(axis);
  }
}

// Returns the mesh that a dump or checkpoint was made on, for lack of another.
std::optional<SlicedMesh> recorded_mesh(const PlanRequest& request,
                                        Manifest& manifest,
                                        Diagnostics& diags) {
  RuleSet recorded;
  recorded.mesh = manifest.mesh;
  recorded.mesh_recorded = true;
  recorded.mesh_where = manifest.mesh.front().where;
  auto mesh = mesh_of_rules(recorded, request, diags);
  if (mesh) {
    diags.report(Code::Remark, {},
                 "using the mesh " + mesh_text(mesh->mesh) + " of " +
                     in_backticks(manifest.title));
  }
  return mesh;
}

std::optional<SlicedMesh> read_mesh(const PlanRequest& request,
                                    const RuleSet& rules, Manifest& manifest,
                                    Diagnostics& diags) {
  if (request.mesh != nullptr) {
    return written_mesh(request.mesh, request, request.devices, diags);
  }
  if (rules.mesh) return mesh_of_rules(rules, request, diags);
  if (!manifest.mesh.empty()) return recorded_mesh(request, manifest, diags);
  return diags.error(Code::InvalidMesh, {}, "no mesh was given")
      .help(
          "add `--mesh`, e.g. `--mesh fsdp=4,tp=2`, or a `mesh:` key to "
          "the rules");
}

// Puts a saved plan's placements into the model's order (SP011 if they are for
// other tensors).
std::optional<Plan> plan_for(const Manifest& manifest, SavedPlan saved,
                             const std::string& path, Diagnostics& diags) {
  std::unordered_map<std::string_view, size_t> planned;
  planned.reserve(saved.manifest.size());
  for (size_t i = 0; i < saved.manifest.size(); ++i) {
    planned.emplace(saved.manifest.name(i), i);
  }
  std::vector<std::string> missing;
  std::vector<std::string> different;
  std::vector<uint32_t> placement_of;
  placement_of.reserve(manifest.size());
  for (size_t i = 0; i < manifest.size(); ++i) {
    const auto found = planned.find(manifest.name(i));
    if (found == planned.end()) {
      missing.emplace_back(manifest.name(i));
      continue;
    }
    if (saved.manifest.type(found->second) != manifest.type(i)) {
      different.emplace_back(manifest.name(i));
    }
    placement_of.push_back(saved.plan.placement_of[found->second]);
    planned.erase(found);
  }
  if (missing.empty() && different.empty() && planned.empty()) {
    saved.plan.placement_of = std::move(placement_of);
    return std::move(saved.plan);
  }
  auto report =
      diags.error(Code::PlanMismatch, {},
                  "the plan " + in_backticks(path) + " is for another model");
  std::vector<std::string> extra;
  for (size_t i = 0; i < saved.manifest.size(); ++i) {
    const std::string_view name = saved.manifest.name(i);
    if (planned.contains(name)) extra.emplace_back(name);
  }
  for (const auto& [what, names] :
       {std::pair("not in the plan: ", &missing),
        {"of another type in the plan: ", &different},
        {"only in the plan: ", &extra}}) {
    if (!names->empty()) report.fact(what + some_names(*names, 3));
  }
  report.help("resolve this model again with `-o FILE.plan.json`");
  return report;
}

// A plan, and the slices of its mesh if they are known.
struct Made {
  Plan plan;
  std::optional<Slices> slices;
  FoundSets found = {};  // if there are rules
};

std::vector<AxisRequest> as_requested(const std::vector<Axis>& axes) {
  std::vector<AxisRequest> requested;
  for (const Axis& axis : axes) {
    requested.push_back({axis.name, axis.size, {}, {}, {}});
  }
  return requested;
}

// Returns the slices of a saved plan's mesh, if a topology gives them. Empty,
// with the reason reported, if the topology does not fit the mesh.
std::optional<std::optional<Slices>> slices_of_saved(const PlanRequest& request,
                                                     const Mesh& mesh,
                                                     Diagnostics& diags) {
  if (!request.topology) return std::optional<Slices>();
  auto sliced = made_mesh(as_requested(mesh.axes()), {}, request.devices,
                          request, {}, diags);
  if (!sliced) return std::nullopt;
  return std::move(sliced->slices);
}

// Returns the views of a saved plan in the form in which rules request them.
RuleSet views_of_saved(const Mesh& mesh) {
  RuleSet rules;
  for (const MeshView& view : mesh.views()) {
    ViewRequest& request = rules.views.emplace_back();
    request.name = view.name;
    request.axes = as_requested(view.axes);
  }
  return rules;
}

// Reads the saved plan. With --mesh or --view, resolves its requested specs on
// the new mesh, and keeps the views that are not replaced.
std::optional<Made> read_saved_plan(const PlanRequest& request,
                                    const Model& model, Host& host,
                                    Diagnostics& diags) {
  const Manifest& manifest = model.manifest;
  const std::string& path = *request.saved_plan;
  SourcePtr source = read_source(path, kWholeFile, host, diags);
  if (source == nullptr) return std::nullopt;
  std::optional<SavedPlan> saved = read_plan(source, diags);
  if (!saved) return std::nullopt;
  auto plan = plan_for(manifest, std::move(*saved), path, diags);
  if (!plan) return std::nullopt;
  if (request.mesh == nullptr && asked_views(request).empty()) {
    auto slices = slices_of_saved(request, plan->mesh, diags);
    if (!slices) return std::nullopt;
    return Made{*std::move(plan), *std::move(slices)};
  }
  std::optional<SlicedMesh> mesh;
  if (request.mesh != nullptr) {
    mesh = written_mesh(request.mesh, request, request.devices, diags);
  } else if (auto slices = slices_of_saved(request, plan->mesh, diags)) {
    mesh = SlicedMesh{Mesh(plan->mesh.axes()), *std::move(slices)};
  }
  if (!mesh || !add_views(request, views_of_saved(plan->mesh), model,
                          mesh->mesh, diags)) {
    return std::nullopt;
  }
  auto converted = convert_plan(
      manifest, *plan, mesh->mesh,
      {request.axes, request.unmatched == Unmatched::Auto, request.parity},
      diags);
  if (!converted) return std::nullopt;
  return Made{*std::move(converted), std::move(mesh->slices)};
}

// Returns the shipped set for the model's type if the rules do not include it.
std::string other_set(const PlanRequest& request, const Manifest& manifest) {
  const std::string set = fitting_set(manifest);
  const bool is_given = request.rules.empty() || contains(request.rules, set);
  return is_given ? "" : set;
}

std::optional<Made> make_plan(const PlanRequest& request, ReadInputs& inputs,
                              Host& host, Diagnostics& diags) {
  std::optional<RuleSet>& rules = inputs.rules;
  if (!rules) rules = read_rules(request, inputs.model.manifest, host, diags);
  if (!rules) return std::nullopt;
  declare_axes(request, *rules);
  auto mesh = read_mesh(request, *rules, inputs.model.manifest, diags);
  if (!mesh || !add_views(request, *rules, inputs.model, mesh->mesh, diags)) {
    return std::nullopt;
  }
  mark_inactive_views(*rules, mesh->mesh);
  const Manifest& manifest = inputs.model.manifest;
  const ResolveOptions how = resolve_options(request, host);
  auto found = find_rules(manifest, *rules, how, diags);
  if (!found) return std::nullopt;
  // Only declarations depend on the units.
  const UnitFacts known =
      how.declarations.any() ? inputs.model.units() : UnitFacts();
  auto plan =
      resolve(manifest, *rules, matches_of(*found, manifest, *rules, how),
              mesh->mesh, how, diags, &known);
  if (!plan) return std::nullopt;
  return Made{*std::move(plan), std::move(mesh->slices), *std::move(found)};
}

// Returns whether the text has no names and begins with a number.
bool is_sizes(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  return first != text.npos && contains("-0123456789", text[first]) &&
         text.find_first_of("=:") == text.npos;
}

// Returns the span of the whole text.
Span whole(const SourceFile& source) {
  return {&source, 0, source.text().size()};
}

std::optional<std::vector<AxisRequest>> read_sizes(const SourceFile& source,
                                                   const AxisNames& names,
                                                   Diagnostics& diags) {
  const std::string_view text = source.text();
  const int64_t sizes = std::ranges::count(text, ',') + 1;
  if (sizes == std::ssize(names)) return parse_mesh_dims(source, names, diags);
  const std::string count = plural(sizes, "size");
  if (names.empty()) {
    return diags
        .error(Code::InvalidMesh, whole(source), "the sizes have no names")
        .fact("there are " + count + ": " + std::string(text))
        .help(
            "name each with `--axes`, e.g. `--axes fsdp,tp`, or write "
            "`--mesh fsdp=8,tp=4`");
  }
  return diags
      .error(Code::InvalidMesh, whole(source),
             "there are " + count + " for " + plural(std::ssize(names), "name"))
      .fact("the sizes are " + std::string(text))
      .fact("`--axes` names " + quoted_names(texts_of(names)))
      .help(
          "`--axes` names one axis per size, in order; with `--mesh "
          "fsdp=8,tp=4` it may declare axes that the mesh lacks");
}

}  // namespace

LintOptions lint_options_with(const PlanRequest& request,
                              const MemoryRequest& memory,
                              AxisNames named_axes) {
  LintOptions how = lint_options(request);
  if (memory.stages) how.pipeline_axis = memory.stages->axis;
  if (memory.state.zero == 3) how.zero_axes = memory.state.zero_axes;
  how.raise_unplaced = request.fallback == RulesFallback::RaiseError;
  how.named_axes = std::move(named_axes);
  how.batch_axes = memory.batch_axes;
  for (const AxisNames* axes :
       {&memory.state.zero_axes, &memory.kv_axes, &memory.batch_axes,
        &memory.sequence_axes, &memory.ulysses_axes}) {
    how.named_axes.insert(how.named_axes.end(), axes->begin(), axes->end());
  }
  return how;
}

std::optional<Model> read_model(const PlanRequest& request, Host& host,
                                Diagnostics& diags,
                                ProgressListener& progress) {
  if (reads_stdin_twice(request)) {
    return diags.error(Code::Usage, {}, "standard input can be read only once")
        .help("give the model, the rules or the plan as a file");
  }
  progress.stage(kReading);
  ReportingHost reporting(host, progress);
  auto manifest =
      load_manifest(request.model, request.reading, reporting, diags);
  if (!manifest) return std::nullopt;
  return Model(*std::move(manifest));
}

std::optional<RuleSet> read_given_rules(const PlanRequest& request,
                                        Manifest& manifest, Host& host,
                                        Diagnostics& diags) {
  std::optional<RuleSet> rules = read_rules(request, manifest, host, diags);
  if (rules) declare_axes(request, *rules);
  return rules;
}

std::optional<Inputs> read_inputs(const PlanRequest& request, Host& host,
                                  Diagnostics& diags,
                                  ProgressListener& progress) {
  std::optional<Model> model = read_model(request, host, diags, progress);
  if (!model) return std::nullopt;
  std::optional<RuleSet> rules =
      read_given_rules(request, model->manifest, host, diags);
  if (!rules) return std::nullopt;
  return Inputs{*std::move(model), *std::move(rules),
                resolve_options(request, host)};
}

std::optional<Mesh> planned_mesh(const PlanRequest& request, Inputs& inputs,
                                 Diagnostics& diags) {
  const auto mesh =
      read_mesh(request, inputs.rules, inputs.model.manifest, diags);
  if (!mesh) return std::nullopt;
  return mesh->mesh;
}

std::optional<Session> open_session(const PlanRequest& request,
                                    const MemoryRequest& memory, Host& host,
                                    Diagnostics& diags,
                                    ProgressListener& progress) {
  std::optional<Model> model = read_model(request, host, diags, progress);
  if (!model) return std::nullopt;
  return open_session(request, memory, {*std::move(model), {}, {}}, host, diags,
                      progress);
}

std::optional<Session> open_session(const PlanRequest& request,
                                    const MemoryRequest& memory,
                                    ReadInputs inputs, Host& host,
                                    Diagnostics& diags,
                                    ProgressListener& progress) {
  Manifest& manifest = inputs.model.manifest;
  std::optional<RuleSet>& rules = inputs.rules;
  progress.stage("matching rules");
  std::optional<Made> made =
      request.saved_plan ? read_saved_plan(request, inputs.model, host, diags)
                         : make_plan(request, inputs, host, diags);
  if (!made) return std::nullopt;
  Plan& plan = made->plan;

  LintOptions lint_how =
      lint_options_with(request, memory, std::move(inputs.named_axes));
  if (memory.stages) {
    lint_how.stages = parameter_stages(
        manifest, plan, layer_groups(manifest, plan.placement_of),
        *memory.stages);
  }
  lint_how.other_set = other_set(request, manifest);
  progress.stage("checking the plan");
  const size_t first = diags.all().size();
  auto judged = judge_plan(inputs.model, rules ? &*rules : nullptr, plan,
                           lint_how, kPlanSides, diags);
  if (!judged || diags.cannot_run()) return std::nullopt;
  const Balance ratios =
      balance(plan, judged->counts, manifest.total_bytes(), judged->memory);
  Session session = {std::move(inputs.model),
                     std::move(rules),
                     std::move(made->found),
                     std::move(plan),
                     std::move(judged->folding),
                     std::move(judged->memory),
                     ratios,
                     std::move(made->slices),
                     std::move(lint_how),
                     first,
                     diags.all().size()};
  if (request.find_fixes) {
    progress.stage("looking for fixes");
    find_fixes(session, request, host, nullptr, diags);
  }
  return session;
}

void find_fixes(const Session& session, const PlanRequest& request, Host& host,
                const std::function<bool(const Diagnostic&)>& is_asked,
                Diagnostics& diags) {
  if (!session.rules) return;
  for (size_t i = session.first_finding; i < session.end_finding; ++i) {
    // If the rules are for other names, no single change of them helps.
    if (diags.all()[i].code == Code::RulesForOtherNames) return;
  }
  advise({session.model.manifest, *session.rules, session.plan, session.folding,
          session.memory, resolve_options(request, host), session.lint_how,
          &session.found, &session.model},
         {session.first_finding, session.end_finding, is_asked,
          request.fixes_together},
         diags);
}

std::optional<SlicedMesh> written_mesh(const SourcePtr& text,
                                       const PlanRequest& request,
                                       std::optional<int64_t> devices,
                                       Diagnostics& diags) {
  diags.add_source(text);
  const auto axes = is_sizes(text->text())
                        ? read_sizes(*text, request.axes, diags)
                        : parse_mesh_text(*text, diags);
  if (!axes) return std::nullopt;
  return made_mesh(*axes, {}, devices, request, whole(*text), diags);
}

bool add_views(const PlanRequest& request, const RuleSet& rules,
               const Model& model, Mesh& mesh, Diagnostics& diags) {
  std::vector<ViewRequest> views;
  for (const SourcePtr& text : request.views) {
    diags.add_source(text);
    auto view = parse_view_text(*text, diags);
    if (!view) return false;
    views.push_back(*std::move(view));
  }
  auto experts = expert_view(
      request, mesh,
      request.asks_experts() ? model.units().facts.experts : std::nullopt,
      diags);
  if (!experts) return false;
  if (!experts->axes.empty()) views.push_back(*std::move(experts));
  const std::vector<std::string> asked = all_names(views);
  for (const ViewRequest& view : rules.views) {
    if (!contains(asked, view.name)) views.push_back(view);
  }
  for (const ViewRequest& view : views) {
    auto with_view = add_view(mesh, view, diags);
    if (!with_view) return false;
    mesh = *std::move(with_view);
  }
  return true;
}

std::optional<SlicedMesh> mesh_of_rules(const RuleSet& rules,
                                        const PlanRequest& request,
                                        Diagnostics& diags) {
  SHARDPLAN_CHECK(rules.mesh.has_value());
  const size_t first = diags.all().size();
  auto mesh = made_mesh(*rules.mesh, rules.dcn_mesh, request.devices, request,
                        rules.mesh_where, diags);
  for (size_t i = first; rules.mesh_recorded && i < diags.all().size(); ++i) {
    Diagnostic& problem = diags.all()[i];
    if (problem.code != Code::DeviceCountMismatch) continue;
    problem.facts.insert(problem.facts.begin(),
                         "these shardings were recorded on that mesh");
    problem.help = {"`--mesh " + example_mesh(*rules.mesh, request.devices) +
                    "` is a mesh of that many devices; without `--devices` "
                    "the recorded one is used"};
  }
  return mesh;
}

}  // namespace shardplan
