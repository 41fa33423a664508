// SPDX-License-Identifier: Apache-2.0
// StageTime: the time and the collectives of one stage of a pipeline (or of the
// whole model, if there is none) in a training step, in each of the three
// figures (cost/step_time.h): forward and backward of a micro-batch, sums of
// gradients, and the optimizer. Seconds and bytes are those of one device.
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

// The collectives that may hide behind computing.
enum class Hide : uint8_t {
  Nothing,
  Framework,  // those of weights and gradients, as in frameworks
  Full,       // all
};
inline constexpr std::string_view kHideNames[] = {"none", "framework", "full"};

enum class Direction : uint8_t { Forward, Backward, Update };
inline constexpr std::string_view kDirectionNames[] = {"forward", "backward",
                                                       "update"};

// Why there is no time: it is unknown which axes cross slices.
inline constexpr std::string_view kSlicesUntimed =
    "axes across slices are not mapped to links";

// The run that is timed: a training step, or a pass of an engine.
struct TimedRun {
  const Program& program;
  const HardwareProfile& card;
  Precision precision = Precision::BF16;  // for products
  int64_t tokens = 0;                     // per step, over all devices
  Hide hide = Hide::Framework;
  const Slices* slices = nullptr;  // in the program's mesh; null: one slice
  // If set, devices that share the work of each of the program's devices, with
  // the ranks of every collective next to one another. This is a bound, for
  // which only the estimate is computed.
  std::optional<SharedWork> shared = {};
};

struct StepTimeInput : TimedRun {
  const StepInput& memory;
};

// The index of the estimate among the three figures.
inline constexpr size_t kEstimate = 1;
double pick(const Seconds& seconds, size_t figure);

// The time of one direction of a stage and micro-batch, in one of the three
// figures, without the collectives themselves.
struct DirectionTime {
  PricedTime products;
  PricedTime attention;
  PricedTime memory;
  PricedTime copies;         // to host memory or back
  double starting = 0;       // the host program's time to start all kernels
  double ahead = 0;          // collectives that may run beside computing
  double exposed_ahead = 0;  // the part of `ahead` that does not hide
  double exposed_copies = 0;
  double launches = 0;  // starting time that computing and sending do not cover
  double total = 0;
};

// Adds a pass's products, attention and memory, `times` times.
template <typename Pass>
void add_computing(DirectionTime& sum, const Pass& pass, double times) {
  add(sum.products, pass.products, times);
  add(sum.attention, pass.attention, times);
  add(sum.memory, pass.memory, times);
}

struct Sending {
  CollectiveKind kind = CollectiveKind::AllReduce;
  AxisNames axes;   // in the program's mesh
  AxisNames named;  // as users name them
  std::string where;
  Direction direction = Direction::Forward;
  double count = 1;  // per micro-batch, or (Update) per step
  double payload = 0;
  PricedTime each = {};
  bool ahead = false;
};

// A stage in one of the three figures.
struct StageTime {
  std::array<DirectionTime, 2> passes;
  std::vector<Sending> sends;
  double summing = 0;  // sums of gradients, over devices that hold copies
  bool sums_ahead = false;
  double gathering = 0;  // gathers of weights that were updated in parts
  PricedTime optimizer;
  double optimizer_starting = 0;
  PricedTime state_copies;  // to host memory or back, once per step

  double microbatch() const { return passes[0].total + passes[1].total; }
};

// Seconds between kernels that a Python program starts, as a multiple of those
// between single small kernels in a loop: modules, checks and autograd come in
// between. In the smallest steps of torch 2.11 (TinyLlama, one sequence of
// 1,024 tokens: 22 layers in 21 and 38 ms on two hosts, forward; BERT large) it
// is 3 to 5.
inline constexpr double kModuleOverhead = 4;

// Returns whether a program was compiled as a whole and starts its own kernels.
bool is_compiled(const StepOptions& options);
// Returns how many chunks of layers a stage has.
double chunks_of(const StepOptions& options);
// Returns the seconds of a direction's computing, without launches and copies.
double computed(const DirectionTime& time, size_t figure);
// Returns, by the estimate, the part of `ahead` seconds of collectives that
// computing beside them does not hide. Their sum with `computing` grows with
// either.
double exposed_ahead(double ahead, double computing);
// Returns the seconds in which a host program starts the optimizer's step for
// so many parameters of a device; 0 if it is compiled.
double update_starting(const HardwareProfile& card, const StepOptions& options,
                       size_t figure, double parameters);
// Returns the part of the sums of gradients that does not hide behind the last
// backward. The lower end hides all that computing covers.
double unhidden_sum(const StageTime& stage, size_t figure, Hide hide);
std::string text_of(const AxisNames& axes);  // "dp, tp"

// LinkPlaces: finds the links that axes of a program's mesh cross, each once.
class LinkPlaces {
 public:
  LinkPlaces(const HardwareProfile& card, const Program& program,
             const Slices* slices)
      : card_(card), mesh_(program.mesh.axes()), slices_(slices) {}
  // Returns places where the ranks of all axes are next to one another,
  // whatever the mesh.
  static LinkPlaces ideal(const HardwareProfile& card, const Program& program) {
    LinkPlaces places(card, program, nullptr);
    places.ideal_ = true;
    return places;
  }
  const std::optional<RankPlaces>& of(const AxisNames& axes);
  // Returns the time of a collective over the axes. Returns nothing, with the
  // reason in `why`, if no link reaches as far.
  std::optional<PricedTime> price(CollectiveKind kind, const AxisNames& axes,
                                  double payload, std::string& why);

 private:
  const HardwareProfile& card_;
  Mesh mesh_;  // has sub-axes alone, without the views that they make up
  const Slices* slices_;
  bool ideal_ = false;
  std::map<AxisNames, std::optional<RankPlaces>> known_;
};

struct StageTimes {
  std::array<std::vector<StageTime>, kSavingModes> of;  // by figure, then stage
  double flops =
      0;  // of the model's forward pass of a micro-batch, all devices
};
// Returns nothing, with the reason in `why`, when step_time() does.
std::optional<StageTimes> stage_times(const StepTimeInput& input,
                                      const StepOptions& options,
                                      LinkPlaces& places, std::string& why);

}  // namespace shardplan
