// SPDX-License-Identifier: Apache-2.0
// The parts of reports about the KV cache.
#pragma once

#include <string>
#include <vector>

#include "core/manifest.h"
#include "core/mesh.h"
#include "memory/kv_cache.h"
#include "memory/kv_sharding.h"
#include "memory/margins.h"
#include "report/report.h"

namespace shardplan::cli {

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

// "fits up to batch 226 at context 8,192, and up to context 1,858,185 at batch
// 1". REQUIRES: a limit.
std::string kv_fit_note(const Margins& margins, const KvRequest& request);

}  // namespace shardplan::cli
