// SPDX-License-Identifier: Apache-2.0
#include "session/serving.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include "core/types.h"
#include "findings/findings.h"
#include "io/load.h"
#include "session/fit.h"

namespace shardplan {
namespace {

constexpr std::array<std::string_view, 3> kTensorAxes = {"tp", "tensor",
                                                         "model"};
constexpr std::array<std::string_view, 3> kEngineDataAxes = {"dp", "data",
                                                             "replica"};

template <size_t N>
bool is_one_of(const std::array<std::string_view, N>& names,
               std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool refuse(Diagnostics& diags, const std::string& message,
            const std::string& help) {
  diags.error(Code::Usage, {}, message).help(help);
  return false;
}

bool check_without_engine(const EngineRequest& engine, Diagnostics& diags) {
  struct GivenFlag {
    std::string flag;
    bool given;
  };
  const std::array<GivenFlag, 6> flags = {
      {{engine.share_flag, engine.share.has_value()},
       {"max-batched-tokens", engine.batched_tokens.has_value()},
       {"max-seqs", engine.sequences.has_value()},
       {"expert-parallel", engine.expert_parallel},
       {"dp-attention", engine.dp_attention},
       {"draft", engine.draft.has_value()}}};
  bool good = true;
  for (const GivenFlag& flag : flags) {
    if (!flag.given) continue;
    good = refuse(diags,
                  "`--" + flag.flag + "` is about an engine, and none is given",
                  "add `--engine`, e.g. `--engine vllm`");
  }
  return good;
}

}  // namespace

bool check_engine_request(const EngineRequest& engine,
                          const MemoryRequest& memory, Mode mode,
                          Diagnostics& diags) {
  if (!engine.name) return check_without_engine(engine, diags);
  const Engine& row = *find_engine(*engine.name);
  const std::string given = "`--engine " + *engine.name + "`";
  if (mode != Mode::Decode) {
    return refuse(diags, given + " serves, which is `--mode decode`",
                  "add `--mode decode`");
  }
  if (!memory.seq) {
    return refuse(diags, given + " needs `--seq`, the tokens of each sequence",
                  "add `--seq`, e.g. `--seq 8192`");
  }
  if (!memory.hardware && !memory.limit) {
    return refuse(diags,
                  given + " takes a share of a memory that nothing states",
                  "add `--hardware` or `--memory`");
  }
  bool good = true;
  if (engine.share && engine.share_flag != row.share_flag) {
    good = refuse(diags,
                  "`--" + engine.share_flag + "` is not what " +
                      std::string(row.title) + " calls it",
                  "say `--" + std::string(row.share_flag) + "`");
  }
  if (engine.dp_attention && !row.dp_attention) {
    good = refuse(
        diags,
        "`--dp-attention` is nothing that " + std::string(row.title) + " has",
        "its data-parallel groups share experts with "
        "`--expert-parallel`");
  }
  if (!memory.sequence_axes.empty() || !memory.kv_axes.empty() ||
      !memory.batch_axes.empty()) {
    good = refuse(diags, given + " shares out the cache itself",
                  "leave out `--kv-axes`, `--batch-axes` and "
                  "`--sequence-axes`");
  }
  return good;
}

void declare_for_engine(const EngineRequest& engine, PlanRequest& request) {
  if (!engine.name) return;
  const Engine& row = *find_engine(*engine.name);
  Declarations& declared = request.declarations;
  declared.replicate_kv_heads = true;
  if (declared.pad_vocab == 0) declared.pad_vocab = row.vocab_multiple;
  declared.interleave_gate_up = true;
  declared.interleave_qkv = true;
}

std::optional<EngineMesh> engine_mesh(const EngineRequest& engine,
                                      const MemoryRequest& memory,
                                      const Mesh& mesh, Diagnostics& diags) {
  const Engine& row = *find_engine(*engine.name);
  EngineMesh of;
  of.expert_parallel = engine.expert_parallel;
  of.dp_attention = engine.dp_attention;
  for (const Axis& axis : mesh.axes()) {
    if (axis.size == 1) continue;
    if (memory.stages && memory.stages->axis == axis.name) {
      of.pp *= axis.size;
    } else if (is_one_of(kTensorAxes, axis.name)) {
      of.tp *= axis.size;
    } else if (is_one_of(kEngineDataAxes, axis.name)) {
      of.dp *= axis.size;
    } else {
      refuse(diags,
             "axis `" + axis.name + "` is nothing that " +
                 std::string(row.title) + " cuts a model over",
             "it has `tp`, `dp` and, with `--stages pp`, `pp`; experts are "
             "dealt out over these with `--expert-parallel`");
      return std::nullopt;
    }
  }
  return of;
}

MemoryRequest budgeted(const EngineRequest& engine,
                       const MemoryRequest& memory) {
  MemoryRequest of = memory;
  if (!engine.name) return of;
  of.hardware.reset();
  of.limit.reset();
  of.reserve_fraction = 0;
  return of;
}

std::optional<ServedModels> served_models(const EngineRequest& engine,
                                          const Model& of, Host& host,
                                          Diagnostics& diags) {
  const Engine& row = *find_engine(*engine.name);
  auto model = known_weights(of, row, diags);
  if (!model) return std::nullopt;
  ServedModels models{*std::move(model), nullptr, std::nullopt};
  if (!engine.draft) return models;
  auto draft = load_manifest(*engine.draft, host, diags);
  if (!draft) return std::nullopt;
  models.draft_model = std::make_unique<Model>(*std::move(draft));
  models.draft = known_weights(*models.draft_model, row, diags);
  if (!models.draft) return std::nullopt;
  return models;
}

std::optional<ServingInput> serving_input(const EngineRequest& engine,
                                          const MemoryRequest& memory,
                                          const ServedModels& models,
                                          const DeviceLimit& device,
                                          const Mesh& mesh,
                                          Diagnostics& diags) {
  const auto of = engine_mesh(engine, memory, mesh, diags);
  if (!of) return std::nullopt;
  ServingInput input;
  input.engine = find_engine(*engine.name);
  input.mesh = *of;
  input.devices = &mesh;
  input.stages = memory.stages;
  input.device = device;
  input.share = engine.share;
  input.batched_tokens = engine.batched_tokens;
  input.sequences = engine.sequences;
  input.seq = memory.seq.value_or(1);
  input.batch = memory.batch.value_or(1);
  input.kv_dtype = memory.kv_dtype.value_or(DType::BF16);
  if (memory.kv_block != 1) input.block = memory.kv_block;
  input.weight_dtype = memory.state.param_dtype;
  if (models.draft) input.draft = &*models.draft;
  return input;
}

namespace {

// Changes of one thing, each computed again; of every kind the smallest that
// does, else the best.
class ServingTrial {
 public:
  ServingTrial(const ServedWeights& model, ServingInput input,
               const Serving& asked)
      : model_(model), input_(std::move(input)), asked_(asked) {
    input_.all_degrees = false;
  }

  std::vector<TriedServing> tried() {
    degrees();
    experts();
    share();
    if (asked_.starts()) {
      cache_dtype();
      steps();
      context();
    }
    return std::move(kept_);
  }

 private:
  std::optional<TriedServing> one(const ServingInput& input,
                                  std::string flags) const {
    Diagnostics quiet;
    const auto serving = serve(model_, input, quiet);
    if (!serving || serving->without_cache) return std::nullopt;
    TriedServing tried{std::move(flags)};
    for (size_t end = 0; end < tried.sequences.size(); ++end) {
      tried.sequences[end] = serving->sequences(end);
    }
    tried.group_sequences = serving->group_sequences(1);
    tried.starts = serving->starts() && serving->missing_for_steps == 0;
    tried.fit = fit_of(*serving);
    return tried;
  }

  // Keeps one that starts and holds more than what is asked for, or starts
  // where that does not.
  void keep(std::optional<TriedServing> tried) {
    if (!tried || !tried->starts) return;
    const bool started = asked_.starts() && asked_.missing_for_steps == 0;
    // What is not enough either should at least be more.
    constexpr double kWorth = 1.05;
    if (started && !tried->fit.surely() &&
        tried->group_sequences < kWorth * asked_.group_sequences(1)) {
      return;
    }
    kept_.push_back(*std::move(tried));
  }

  // The nearest legal ones: the smallest from there on that fits.
  void degrees() {
    std::optional<TriedServing> best;
    for (const DegreeVerdict& verdict : asked_.verdicts) {
      const bool more = verdict.degree > input_.mesh.tp;
      const bool usable = more || !asked_.problems.empty();
      if (verdict.of != DegreeOf::Tensor || !verdict.legal || verdict.asked ||
          !usable || verdict.degree > kMostDegree) {
        continue;
      }
      ServingInput input = input_;
      input.mesh.tp = verdict.degree;
      auto tried = one(input, mesh_flag(verdict.degree));
      if (!tried || !tried->starts) continue;
      if (!best || !best->fit.surely()) best = std::move(tried);
      // Of smaller degrees the largest that fits, next to what is asked for.
      else if (!more && tried->fit.surely())
        best = std::move(tried);
    }
    keep(std::move(best));
  }

  // Experts whole, in place of a share of each: no width of theirs is cut then.
  void experts() {
    if (input_.mesh.expert_parallel || !asked_.has_experts()) return;
    ServingInput input = input_;
    input.mesh.expert_parallel = true;
    keep(one(input, "--expert-parallel"));
  }

  std::string mesh_flag(int64_t degree) const {
    std::string text;
    bool is_there = false;
    for (const Axis& axis : input_.devices->axes()) {
      const bool tensor = is_one_of(kTensorAxes, axis.name);
      is_there = is_there || tensor;
      text += (text.empty() ? "" : ",") + axis.name + "=" +
              std::to_string(tensor ? degree : axis.size);
    }
    if (!is_there) text += ",tp=" + std::to_string(degree);
    return "--mesh " + text;
  }

  // In hundredths: the largest with which it starts.
  void share() {
    const double now = asked_.settings.share;
    std::optional<TriedServing> last;
    const bool starts = asked_.starts() && asked_.missing_for_steps == 0;
    for (int step = 1; step < kShareSteps; ++step) {
      const double by = step / 100.0;
      const double value =
          std::round((starts ? now + by : now - by) * 100) / 100;
      if (value <= 0 || value >= 1) break;
      ServingInput input = input_;
      input.share = value;
      auto tried = one(
          input, fmt::format("--{} {:.2f}", input_.engine->share_flag, value));
      if (!tried || (starts && !tried->starts)) break;
      if (tried->starts) last = std::move(tried);
      if (last && (!starts || last->fit.surely())) break;
    }
    keep(std::move(last));
  }

  void cache_dtype() {
    if (byte_count(1, input_.kv_dtype) == 1) return;
    ServingInput input = input_;
    input.kv_dtype = DType::F8E4M3;
    keep(one(input, "--kv-dtype f8_e4m3"));
  }

  void steps() {
    for (const int64_t tokens : {int64_t{2048}, int64_t{512}}) {
      if (tokens >= asked_.settings.batched_tokens) continue;
      ServingInput input = input_;
      input.batched_tokens = tokens;
      auto tried = one(input, "--max-batched-tokens " + std::to_string(tokens));
      if (!tried || (!tried->fit.surely() && tokens > 512)) continue;
      keep(std::move(tried));
      break;
    }
    for (const int64_t sequences : {int64_t{256}, int64_t{64}, int64_t{16}}) {
      // A step is one of one group.
      if (sequences >= asked_.settings.sequences ||
          sequences < ceil_div(input_.batch, input_.mesh.dp)) {
        continue;
      }
      ServingInput input = input_;
      input.sequences = sequences;
      auto tried = one(input, "--max-seqs " + std::to_string(sequences));
      if (!tried || (!tried->fit.surely() && sequences > 16)) continue;
      keep(std::move(tried));
      break;
    }
  }

  // The longest that fits at the least.
  void context() {
    const auto fits = [&](int64_t seq) {
      ServingInput input = input_;
      input.seq = seq;
      const auto tried = one(input, "");
      return tried && tried->fit.surely();
    };
    if (!fits(1)) return;
    int64_t least = 1;
    int64_t most = input_.seq;  // does not
    while (most - least > 1) {
      const int64_t middle = least + (most - least) / 2;
      (fits(middle) ? least : most) = middle;
    }
    ServingInput input = input_;
    input.seq = least;
    keep(one(input, "--seq " + std::to_string(least)));
  }

  static constexpr int64_t kMostDegree = 64;
  static constexpr int kShareSteps = 60;
  const ServedWeights& model_;
  ServingInput input_;
  const Serving& asked_;
  std::vector<TriedServing> kept_;
};

}  // namespace

std::optional<Serving> answer_serving(const EngineRequest& engine,
                                      const MemoryRequest& memory,
                                      const Model& model, const Mesh& mesh,
                                      Host& host, Diagnostics& diags) {
  const auto device = device_limit(memory, host, diags);
  if (!device) return std::nullopt;
  const auto models = served_models(engine, model, host, diags);
  if (!models) return std::nullopt;
  const auto input =
      serving_input(engine, memory, *models, *device, mesh, diags);
  if (!input) return std::nullopt;
  auto answer = serve(models->model, *input, diags);
  if (!answer) return std::nullopt;
  std::vector<TriedServing> tried;
  if (!fit_of(*answer).surely()) {
    tried = ServingTrial(models->model, *input, *answer).tried();
  }
  lint(ServeInput{*answer, &tried}, diags);
  return answer;
}

}  // namespace shardplan
