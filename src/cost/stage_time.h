// SPDX-License-Identifier: Apache-2.0
// StageTime: what one stage of a pipeline, or the whole model where there is
// none, takes and sends in a training step, in each of the three answers
// (cost/step_time.h): forward and backward of a micro-batch, sums of gradients,
// and the optimizer. Seconds and bytes of one device.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "activations/bracket.h"
#include "activations/options.h"
#include "activations/step_memory.h"
#include "comm/collective.h"
#include "core/hardware.h"
#include "cost/kernels.h"
#include "cost/links.h"
#include "spmd/program.h"

namespace shardplan {

// What collectives may hide behind.
enum class Hide : uint8_t {
  Nothing,
  Framework,  // weights and gradients, as frameworks do it
  Full,       // everything
};
inline constexpr std::string_view kHideNames[] = {"none", "framework", "full"};

enum class Direction : uint8_t { Forward, Backward, Update };
inline constexpr std::string_view kDirectionNames[] = {"forward", "backward",
                                                       "update"};

// Why there is no time: nobody says which axes cross slices.
inline constexpr std::string_view kSlicesUntimed =
    "axes across slices are not mapped to links";

// What every time is of: a training step, or a pass of an engine.
struct TimedRun {
  const Program& program;
  const HardwareProfile& card;
  Precision precision = Precision::BF16;  // of products
  int64_t tokens = 0;                     // of a step, over all devices
  Hide hide = Hide::Framework;
  const Slices* slices = nullptr;  // of the program's mesh; null: one
  // Who shares what the program's devices do, with every collective's ranks
  // next to one another: a bound, of which the estimate alone is made.
  std::optional<SharedWork> shared = {};
};

struct StepTimeInput : TimedRun {
  const StepInput& memory;
};

// The middle one of the three answers.
inline constexpr size_t kEstimate = 1;
double pick(const Seconds& seconds, size_t answer);

// What one direction of a stage and micro-batch takes, in one of the three
// answers, beside what it sends.
struct DirectionTime {
  PricedTime products;
  PricedTime attention;
  PricedTime memory;
  PricedTime copies;         // to host memory or back
  double starting = 0;       // a program's work to start all kernels
  double ahead = 0;          // collectives that may run beside
  double exposed_ahead = 0;  // of these, what does not hide
  double exposed_copies = 0;
  double launches = 0;  // that computing and sending do not cover
  double total = 0;
};

struct Sending {
  CollectiveKind kind = CollectiveKind::AllReduce;
  AxisNames axes;   // of the program's mesh
  AxisNames named;  // as users name them
  std::string where;
  Direction direction = Direction::Forward;
  double count = 0;  // in a micro-batch, or (Update) in a step
  double payload = 0;
  PricedTime each;
  bool ahead = false;
};

// A stage in one of the three answers.
struct StageTime {
  std::array<DirectionTime, 2> passes;
  std::vector<Sending> sends;
  double summing = 0;  // gradients, over devices that hold copies
  bool sums_ahead = false;
  double gathering = 0;  // weights that were updated in parts
  PricedTime optimizer;
  double optimizer_starting = 0;
  PricedTime state_copies;  // to host memory or back, once in a step

  double microbatch() const { return passes[0].total + passes[1].total; }
};

// Seconds between kernels that a program in Python starts, against those of
// single small kernels in a loop: modules, checks and autograd stand between
// them. Of the smallest steps of torch 2.11 (TinyLlama, one sequence of 1,024
// tokens: 22 layers in 21 and 38 ms on two hosts, forward; BERT large) it is
// 3 to 5.
inline constexpr double kModuleOverhead = 4;

// A program that was compiled as a whole starts its kernels itself.
bool is_compiled(const StepOptions& options);
// Chunks of layers that a stage has.
double chunks_of(const StepOptions& options);
// What computing of a direction takes, without launches and copies.
double computed(const DirectionTime& time, size_t answer);
// The part of the sums of gradients that does not hide behind the last
// backward; the lower end hides all that computing covers.
double unhidden_sum(const StageTime& stage, size_t answer, Hide hide);
std::string text_of(const AxisNames& axes);  // "dp, tp"

// The links that axes of a program's mesh cross, each found once.
class LinkPlaces {
 public:
  LinkPlaces(const HardwareProfile& card, const Program& program,
             const Slices* slices)
      : card_(card), mesh_(program.mesh.axes()), slices_(slices) {}
  // With the ranks of all axes next to one another, whatever the mesh.
  static LinkPlaces ideal(const HardwareProfile& card, const Program& program) {
    LinkPlaces places(card, program, nullptr);
    places.ideal_ = true;
    return places;
  }
  const std::optional<RankPlaces>& of(const AxisNames& axes);

 private:
  const HardwareProfile& card_;
  Mesh mesh_;  // of sub-axes alone, without the views that they make up
  const Slices* slices_;
  bool ideal_ = false;
  std::map<AxisNames, std::optional<RankPlaces>> known_;
};

struct StageTimes {
  std::array<std::vector<StageTime>, kKeepings> of;  // by answer, stage
  double flops =
      0;  // of the model's forward pass of a micro-batch, all devices
};
// Empty, with the reason in `why`, as step_time().
std::optional<StageTimes> stage_times(const StepTimeInput& input,
                                      const StepOptions& options,
                                      LinkPlaces& places, std::string& why);

}  // namespace shardplan
