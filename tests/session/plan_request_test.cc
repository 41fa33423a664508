// SPDX-License-Identifier: Apache-2.0
// Degrees of expert parallelism as Megatron and torchtitan take them.
#include "session/plan_request.h"

#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/builders.h"
#include "tests/support/messages.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

struct Degrees {
  std::optional<int64_t> ep;
  std::optional<int64_t> etp;
};

PlanRequest request_of(const Degrees& megatron, const Degrees& torchtitan) {
  PlanRequest request;
  request.megatron = {megatron.ep, megatron.etp};
  request.torchtitan = {torchtitan.ep, torchtitan.etp};
  return request;
}

// "pp=2,edp=2,ep=2,etp=2", or what is wrong.
std::string view_text(const Mesh& mesh, std::optional<int64_t> experts,
                      const PlanRequest& request) {
  Diagnostics diags;
  const auto view = expert_view(request, mesh, experts, diags);
  if (!view) return testing::messages(diags);
  CHECK(diags.all().empty());
  CHECK(view->name == "experts");
  std::string text;
  for (const AxisRequest& axis : view->axes) {
    text += (text.empty() ? "" : ",") + std::string(axis.name) + "=" +
            std::to_string(axis.size);
  }
  return text;
}

bool is_legal(const Mesh& mesh, std::optional<int64_t> experts,
              const PlanRequest& request) {
  Diagnostics diags;
  const auto view = expert_view(request, mesh, experts, diags);
  if (!view) {
    CHECK(diags.all().size() == 1);
    CHECK(diags.all().front().code == Code::Usage);
    CHECK_FALSE(diags.all().front().help.empty());
  }
  return view.has_value();
}

}  // namespace

TEST_CASE("degrees of Megatron and torchtitan are views") {
  struct Row {
    const char* mesh;
    Degrees megatron;
    Degrees torchtitan;
    const char* view;
  };
  const Row rows[] = {
      {"dp=4,tp=2", {}, {}, ""},
      // Experts have the tensor parallelism of the mesh, unless it is given.
      {"dp=4,tp=2", {4, {}}, {}, "edp=1,ep=4,etp=2"},
      {"dp=4,tp=2", {4, 1}, {}, "edp=2,ep=4,etp=1"},
      {"dp=4,tp=2", {{}, 1}, {}, "edp=8,ep=1,etp=1"},
      {"pp=3,dp=4,cp=2,tp=2", {8, {}}, {}, "pp=3,edp=1,ep=8,etp=2"},
      {"stage=2,data=4,model=4", {2, {}}, {}, "stage=2,edp=2,ep=2,etp=4"},
      // torchtitan shards experts over efsdp, and does not cut them.
      {"fsdp=4,tp=2", {}, {4, {}}, "efsdp=2,ep=4"},
      {"dp_replicate=3,dp_shard=4,cp=2,tp=2",
       {},
       {8, {}},
       "dp_replicate=3,efsdp=2,ep=8"},
      {"pp=2,dp=2,fsdp=4,tp=2", {}, {2, 2}, "pp=2,dp=2,efsdp=2,ep=2,etp=2"},
      {"fsdp=4,tp=2", {}, {4, 1}, "efsdp=2,ep=4"},
      // An ep of 1 turns it off.
      {"fsdp=4,tp=2", {}, {1, {}}, ""},
      {"fsdp=4,tp=2", {}, {1, 1}, ""},
      // Where that is all there is of the mesh, one device is a mesh, too.
      {"tp=1", {1, {}}, {}, "edp=1,ep=1,etp=1"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.mesh);
    CAPTURE(row.view);
    const PlanRequest request = request_of(row.megatron, row.torchtitan);
    CHECK(view_text(testing::mesh(row.mesh), 128, request) == row.view);
    const bool any = std::string_view(row.view) != "";
    CHECK(asked_views(request) == (any ? std::vector<std::string>{"experts"}
                                       : std::vector<std::string>()));
  }
}

TEST_CASE("degrees that a framework refuses, why, and which it takes") {
  struct Row {
    const char* mesh;
    int64_t experts;  // 0: not known
    Degrees megatron;
    Degrees torchtitan;
    std::vector<const char*> says;
  };
  const Row rows[] = {
      {"dp=4,tp=2",
       128,
       {3, {}},
       {},
       {"Megatron rejects `--expert-model-parallel-size 3`: 8 devices of a "
        "stage are not divisible by 3 x 2 (ep x etp)",
        "128 experts are not divisible by 3", "the mesh is dp=4,tp=2",
        "may be 1, 2 or 4 (divisors of 8 / 2 devices and of 128 experts)"}},
      {"pp=2,dp=4,tp=2",
       128,
       {8, {}},
       {},
       {"8 devices of a stage are not divisible by 8 x 2 (ep x etp)",
        "or add `--expert-tensor-parallel-size 1`: without it"}},
      {"dp=3,tp=2", 0, {4, {}}, {}, {"may be 1 or 3"}},
      {"dp=4,tp=2",
       128,
       {5, 3},
       {},
       {"`--expert-model-parallel-size 5` and `--expert-tensor-parallel-size "
        "3`: 8 devices of a stage are not divisible by 3",
        "8 devices of a stage are not divisible by 5",
        "128 experts are not divisible by 5",
        "`--expert-tensor-parallel-size` may be 1, 2, 4 or 8"}},
      {"dp=3,tp=2", 128, {3, {}}, {}, {"128 experts are not divisible by 3"}},
      {"dp=3,pp=2,tp=2",
       128,
       {2, {}},
       {},
       {"Megatron orders devices by pp, dp, cp and tp, but the mesh is "
        "dp=3,pp=2,tp=2",
        "write `--mesh pp=2,dp=3,tp=2`"}},
      {"ep=2,tp=2", 128, {2, {}}, {}, {"Megatron has no axis `ep`"}},
      {"fsdp=6,tp=2",
       128,
       {},
       {8, {}},
       {"torchtitan rejects `--expert-parallel-degree 8`: 12 devices along "
        "dp_shard x cp x tp are not divisible by 8",
        "may be 1, 2 or 4 (divisors of 12 devices and of 128 experts)"}},
      {"dp=8,tp=2",
       128,
       {},
       {8, {}},
       {"2 devices along dp_shard x cp x tp are not divisible by 8",
        "`dp` counts as dp_replicate"}},
      {"fsdp=6,tp=4",
       128,
       {},
       {3, 2},
       {"experts are sharded over 1 device or over `tp` (4), not over 2",
        "128 experts are not divisible by 3",
        "`--expert-tensor-parallel-degree` may be 1 or 4"}},
      {"tp=2,fsdp=4",
       128,
       {},
       {4, {}},
       {"torchtitan orders devices by pp, dp_replicate, dp_shard, cp and tp",
        "write `--mesh fsdp=4,tp=2`"}},
      {"fsdp=4,tp=2",
       128,
       {},
       {{}, 2},
       {"torchtitan ignores `--expert-tensor-parallel-degree 2` without "
        "expert parallelism",
        "give `--expert-parallel-degree`"}},
      {"fsdp=4,tp=2",
       128,
       {2, {}},
       {4, {}},
       {"flags of both Megatron and torchtitan",
        "`--expert-model-parallel-size 2`", "`--expert-parallel-degree 4`"}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.mesh);
    const PlanRequest request = request_of(row.megatron, row.torchtitan);
    const Mesh mesh = testing::mesh(row.mesh);
    std::optional<int64_t> experts;
    if (row.experts > 0) experts = row.experts;
    CHECK_FALSE(is_legal(mesh, experts, request));
    Diagnostics diags;
    CHECK_FALSE(expert_view(request, mesh, experts, diags));
    std::string all = testing::messages(diags);
    for (const std::string& text : diags.all().front().facts)
      all += text + "\n";
    for (const std::string& text : diags.all().front().help) all += text + "\n";
    for (const char* text : row.says) {
      CAPTURE(all);
      CHECK(all.find(text) != std::string::npos);
    }
  }
}

// parallel_state.py and arguments.py of Megatron-LM; parallel_dims.py and
// models/common/decoder.py of torchtitan.
TEST_CASE("degrees are legal where the frameworks' own conditions hold") {
  CHECK(holds("as the frameworks say", [] {
    const int64_t pp = draw_of<int64_t>({1, 2});
    const int64_t replicas = draw_of<int64_t>({1, 2, 3});
    const int64_t shards = draw_of<int64_t>({1, 2, 3, 4, 6});
    const int64_t cp = draw_of<int64_t>({1, 2});
    const int64_t tp = draw_of<int64_t>({1, 2, 4});
    const int64_t ep = draw_of<int64_t>({1, 2, 3, 4, 6, 8, 12});
    const int64_t etp = draw_of<int64_t>({1, 2, 3, 4});
    const int64_t experts = draw_of<int64_t>({6, 8, 12, 64});
    const Mesh mesh({{"pp", pp},
                     {"dp_replicate", replicas},
                     {"dp_shard", shards},
                     {"cp", cp},
                     {"tp", tp}});
    const int64_t world = mesh.devices();
    const bool megatron = world % (etp * ep * pp) == 0 && experts % ep == 0;
    ENSURE(is_legal(mesh, experts, request_of({ep, etp}, {})) == megatron);
    const int64_t region = shards * cp * tp;
    const bool titan = ep == 1
                           ? etp == 1
                           : (etp == 1 || etp == tp) &&
                                 region % (ep * etp) == 0 && experts % ep == 0;
    ENSURE(is_legal(mesh, experts, request_of({}, {ep, etp})) == titan);
  }));
}

}  // namespace shardplan
