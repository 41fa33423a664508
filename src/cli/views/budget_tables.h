// SPDX-License-Identifier: Apache-2.0
// The parts of reports about budgets.
//
// Tables refer to the session and the answer: both must outlive the report.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "core/manifest.h"
#include "core/mesh.h"
#include "memory/kv_cache.h"
#include "memory/sweep.h"
#include "report/report.h"
#include "session/memory_answer.h"
#include "session/session.h"

namespace shardplan::cli {

// "Memory per device" for people: category, bytes, share; the total against
// the limit, and what is left. `whole`: nothing else is asked for, such as a
// training step, whose own table says whether it fits.
Table breakdown_table(const Session& session, const Budget& budget, bool whole);
// Classes of devices with stacked bars, for people, when there are several.
Table device_class_table(const Budget& budget);

// For programs: one row per class and category; what all devices store by
// category; leaves by role; what is gathered; stages.
Table memory_rows(const Budget& budget);
Table memory_totals(const Budget& budget);
// Of each group of parameters by itself, where there are several.
Table state_table(const Budget& budget, const StateOptions& state,
                  bool for_people);
Table gathered_table(const Budget& budget, bool for_people);
Table stages_table(const Budget& budget);
// What `--trainable` trains, and what it freezes: "224 of 515 parameters are
// trained: 6,815,744 of 8,037,076,992 elements, 13.0 MiB of 15.0 GiB; the
// others are frozen, without gradient and state".
std::string training_note(const Budget::Part& trained,
                          const Budget::Part& frozen);
Table training_table(const Budget& budget);

// `memory_needed`, `memory_limit`, `headroom`, `fits`; the last three null
// without a limit, and `fits` where it may fit.
std::vector<std::pair<std::string, Cell>> fit_summary(const Fit& fit);
Cell headroom_cell(const Fit& fit);
Cell fits_cell(const Fit& fit);
// "fits 79.1 GiB: at least 18.9 GiB free". REQUIRES: a limit.
std::string fit_text(const Fit& fit, const DeviceLimit& limit);
// The same of what is held outside a step: training state, or weights and
// cache, with what is not counted. REQUIRES: a limit.
std::string state_fit_text(const MemoryAnswer& answer, Mode mode);

// What the numbers leave out or assume, as lines.
std::vector<std::string> budget_notes(const Context& context,
                                      const MemoryAnswer& answer);

// The parts of reports about the KV cache.

// One row per kind of layer, and what prefill holds on top: layers, heads,
// tokens, copies, bytes on the fullest device, whatever stages there are.
// REQUIRES: kv_bytes_per_device() of these is not empty.
Table kv_table(const Mesh& mesh, const std::vector<KvLayer>& layers,
               const KvAxes& axes, const KvRequest& request);

// "KV cache in bf16: heads over tp=8 (as `..k_proj.weight` is sharded), batch
// over fsdp=4, context whole", and what else a reader must know.
std::vector<std::string> kv_notes(const Mesh& mesh,
                                  const std::vector<KvLayer>& layers,
                                  const KvAxes& axes, const KvRequest& request);

// One row per state: layers, elements, bytes of a sequence and on the fullest
// device. REQUIRES: as of kv_table.
Table recurrent_table(const Mesh& mesh, const Facts& facts, const KvAxes& axes,
                      const KvRequest& request);
// "recurrent states, one per sequence: their parts over tp=8 (as `..` is
// sharded), batch whole".
std::string recurrent_note(const Mesh& mesh, const KvAxes& axes);

// "fits up to batch 226 at context 8,192, and up to context 1,858,185 at batch
// 1". REQUIRES: a limit.
std::string kv_fit_note(const WorkloadHeadroom& workload_headroom,
                        const KvRequest& request);

}  // namespace shardplan::cli
