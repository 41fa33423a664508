// SPDX-License-Identifier: Apache-2.0
// Tables and notes about what layers cache during generation: keys, values and
// recurrent states.
#pragma once

#include <string>
#include <vector>

#include "core/facts.h"
#include "core/mesh.h"
#include "memory/kv_cache.h"
#include "report/report.h"

namespace shardplan::cli {

// Returns one row per kind of layer, and one for the extra memory of prefill:
// layers, heads, tokens, copies, bytes on the fullest device. Pipeline stages
// are ignored.
//
// REQUIRES: kv_bytes_per_device() of these arguments is not empty.
Table kv_table(const Mesh& mesh, const std::vector<KvLayer>& layers,
               const KvAxes& axes, const KvRequest& request);

// Returns "KV cache in bf16: heads over tp=8 (as `..k_proj.weight` is sharded),
// batch over fsdp=4, context whole", and further notes.
std::vector<std::string> kv_notes(const Mesh& mesh,
                                  const std::vector<KvLayer>& layers,
                                  const KvAxes& axes, const KvRequest& request);

// Returns one row per recurrent state: layers, elements, bytes of a sequence
// and on the fullest device.
//
// REQUIRES: as for kv_table().
Table recurrent_table(const Mesh& mesh, const Facts& facts, const KvAxes& axes,
                      const KvRequest& request);
// Returns "recurrent states, one per sequence: their parts over tp=8 (as `..`
// is sharded), batch whole".
std::string recurrent_note(const Mesh& mesh, const KvAxes& axes);

// Returns "fits up to batch 226 at context 8,192, and up to context 1,858,185
// at batch 1".
//
// REQUIRES: a limit.
std::string kv_fit_note(const WorkloadHeadroom& workload_headroom,
                        const KvRequest& request);

}  // namespace shardplan::cli
