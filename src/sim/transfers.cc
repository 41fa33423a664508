// SPDX-License-Identifier: Apache-2.0
// Chunks of a schedule are views: of the result of an all-gather, or of a copy
// of what a rank contributes to a sum. Only all-to-all needs room of its own
// for chunks that are passed on.

#include "sim/transfers.h"

#include <functional>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "base/parallel.h"
#include "graph/elementwise.h"
#include "graph/graph.h"
#include "spmd/layout.h"

namespace shardplan {
namespace {

using Slots = std::vector<std::vector<Tensor>>;  // per rank, per chunk

// Bytes that take longer to copy than a thread to start.
constexpr int64_t kWorthThreads = int64_t{1} << 20U;

// How an arriving chunk is added to one's own.
using Combine = std::function<void(const Tensor& own, const Tensor& arriving)>;

Combine combiner(Reduction reduction, const TransferTypes& types) {
  if (reduction == Reduction::Max && types.arithmetic == Arithmetic::Field) {
    return [](const Tensor& own, const Tensor& arriving) {
      map_binary<double>(own, arriving, own, 1, field::maximum);
    };
  }
  if (reduction == Reduction::Max) return max_into;
  return [types](const Tensor& own, const Tensor& arriving) {
    add_into(own, arriving, types.arithmetic);
    keep(own, types.arithmetic, types.sent);
  };
}

// One transfer of a step; an empty slot becomes a copy.
void carry(const Transfer& t, Slots& slots, const Combine& combine) {
  for (int c = t.first_chunk; c < t.first_chunk + t.chunk_count; ++c) {
    const auto chunk = static_cast<size_t>(c);
    const Tensor& arriving = slots[static_cast<size_t>(t.source)][chunk];
    Tensor& own = slots[static_cast<size_t>(t.target)][chunk];
    if (own.storage == nullptr) {
      own = copy(arriving);
    } else if (t.reduce) {
      combine(own, arriving);
    } else {
      copy_into(own, arriving);
    }
  }
}

int64_t elements_of(const Transfer& t, const Slots& slots) {
  int64_t elements = 0;
  for (int c = t.first_chunk; c < t.first_chunk + t.chunk_count; ++c) {
    elements +=
        slots[static_cast<size_t>(t.source)][static_cast<size_t>(c)].elements();
  }
  return elements;
}

// Executes a schedule on slots that are views. Within a step nobody sends what
// it receives, so targets may be served at once; what one target gets is in
// order.
void transfer(const Schedule& schedule, Slots& slots, const Combine& combine,
              Storage type, int threads, std::vector<int64_t>& sent) {
  for (const Step& step : schedule.steps) {
    std::vector<std::vector<const Transfer*>> arriving(slots.size());
    int64_t bytes = 0;
    for (const Transfer& t : step) {
      const int64_t mine = elements_of(t, slots) * storage_bytes(type);
      sent[static_cast<size_t>(t.source)] += mine;
      bytes += mine;
      arriving[static_cast<size_t>(t.target)].push_back(&t);
    }
    parallel_for(
        static_cast<int64_t>(arriving.size()),
        bytes < kWorthThreads ? 1 : threads, [&](int64_t target) {
          for (const Transfer* t : arriving[static_cast<size_t>(target)]) {
            carry(*t, slots, combine);
          }
        });
  }
}

// Views of the pieces of `tensor` along `dim`: piece p of part r is chunk
// r * pieces + p.
std::vector<Tensor> chunks_along(const Tensor& tensor, int dim, int64_t parts,
                                 int64_t pieces) {
  std::vector<Tensor> chunks;
  const int64_t size = tensor.shape[static_cast<size_t>(dim)];
  for (int64_t r = 0; r < parts; ++r) {
    const Slice part = part_of(size, r, parts);
    for (int64_t p = 0; p < pieces; ++p) {
      const Slice piece = part_of(part.end - part.begin, p, pieces);
      chunks.push_back(
          slice(tensor, dim, part.begin + piece.begin, part.begin + piece.end));
    }
  }
  return chunks;
}

bool is_owned(const Tensor& tensor) {
  return tensor.storage.use_count() == 1 && is_row_major(tensor);
}

// Room to sum in: the term itself where nobody else holds its numbers. It holds
// what is sent.
Tensor room_for(Tensor term, Reduction reduction, const TransferTypes& types) {
  Tensor room = is_owned(term) ? std::move(term) : copy(term);
  if (reduction == Reduction::Sum) keep(room, types.arithmetic, types.sent);
  return room;
}

// Copies what somebody else holds, too. Who holds what is asked before any
// thread lets go of its part.
void own_all(DeviceTensors& tensors, int threads) {
  std::vector<size_t> shared;
  for (size_t device = 0; device < tensors.size(); ++device) {
    if (!is_owned(tensors[device])) shared.push_back(device);
  }
  parallel_for(static_cast<int64_t>(shared.size()), threads, [&](int64_t i) {
    Tensor& tensor = tensors[shared[static_cast<size_t>(i)]];
    tensor = copy(tensor);
  });
}

std::vector<Tensor> sum_everywhere(const Algorithm& algorithm,
                                   const Ranks& ranks,
                                   std::vector<Tensor> terms,
                                   Reduction reduction,
                                   const TransferTypes& types, int threads,
                                   std::vector<int64_t>& sent) {
  const Schedule schedule =
      algorithm.schedule(CollectiveKind::AllReduce, ranks);
  std::vector<Tensor> results;
  Slots slots;
  for (Tensor& term : terms) {
    results.push_back(room_for(std::move(term), reduction, types));
    const Tensor flat = reshaped(results.back(), {results.back().elements()});
    slots.push_back(chunks_along(flat, 0, schedule.chunks, 1));
  }
  transfer(schedule, slots, combiner(reduction, types), types.sent, threads,
           sent);
  for (const Tensor& sum : results) {
    keep(sum, types.arithmetic, types.result, threads);
  }
  return results;
}

std::vector<Tensor> exchange(const Algorithm& algorithm, const Ranks& ranks,
                             int cut, int grown,
                             const std::vector<Tensor>& parts,
                             const TransferTypes& types, int threads,
                             std::vector<int64_t>& sent) {
  const Schedule schedule = algorithm.schedule(CollectiveKind::AllToAll, ranks);
  const int64_t n = ranks.count;
  const int64_t pieces = schedule.chunks / (n * n);
  Slots slots(parts.size(),
              std::vector<Tensor>(static_cast<size_t>(schedule.chunks)));
  for (int64_t s = 0; s < n; ++s) {
    std::vector<Tensor> mine =
        chunks_along(parts[static_cast<size_t>(s)], cut, n, pieces);
    for (size_t c = 0; c < mine.size(); ++c) {
      slots[static_cast<size_t>(s)][static_cast<size_t>(s * n * pieces) + c] =
          std::move(mine[c]);
    }
  }
  transfer(schedule, slots, {}, types.sent, threads, sent);
  std::vector<Tensor> results;
  for (int64_t t = 0; t < n; ++t) {
    Shape shape = parts[static_cast<size_t>(t)].shape;
    const int64_t width = shape[static_cast<size_t>(grown)];
    shape[static_cast<size_t>(cut)] /= n;
    shape[static_cast<size_t>(grown)] *= n;
    Tensor result = make_tensor(parts[0].element, shape);
    for (int64_t s = 0; s < n; ++s) {
      const Tensor from_s = slice(result, grown, s * width, (s + 1) * width);
      const std::vector<Tensor> places = chunks_along(from_s, cut, 1, pieces);
      for (int64_t p = 0; p < pieces; ++p) {
        copy_into(places[static_cast<size_t>(p)],
                  slots[static_cast<size_t>(t)]
                       [static_cast<size_t>((s * n + t) * pieces + p)]);
      }
    }
    results.push_back(std::move(result));
  }
  return results;
}

DeviceTensors permute(const std::vector<int>& sources,
                      const DeviceTensors& operand, Storage type,
                      std::vector<int64_t>& sent) {
  DeviceTensors result(operand.size());
  for (size_t device = 0; device < operand.size(); ++device) {
    const auto source = static_cast<size_t>(sources[device]);
    if (source == device) {
      result[device] = operand[device];
      continue;
    }
    result[device] = copy(operand[source]);
    sent[source] += operand[source].elements() * storage_bytes(type);
  }
  return result;
}

}  // namespace

Slice part_of(int64_t size, int64_t index, int64_t count) {
  return {size * index / count, size * (index + 1) / count};
}

std::vector<Tensor> gather(const Algorithm& algorithm, const Ranks& ranks,
                           int dim, const std::vector<Tensor>& parts,
                           const TransferTypes& types, int threads,
                           std::vector<int64_t>& sent) {
  const Schedule schedule =
      algorithm.schedule(CollectiveKind::AllGather, ranks);
  const int64_t n = ranks.count;
  const int64_t pieces = schedule.chunks / n;
  std::vector<Tensor> results;
  Slots slots;
  for (int64_t r = 0; r < n; ++r) {
    const Tensor& part = parts[static_cast<size_t>(r)];
    Shape shape = part.shape;
    const int64_t width = shape[static_cast<size_t>(dim)];
    shape[static_cast<size_t>(dim)] *= n;
    results.push_back(make_tensor(part.element, shape));
    copy_into(slice(results.back(), dim, r * width, (r + 1) * width), part);
    slots.push_back(chunks_along(results.back(), dim, n, pieces));
  }
  transfer(schedule, slots, {}, types.sent, threads, sent);
  return results;
}

std::vector<Tensor> scatter(const Algorithm& algorithm, const Ranks& ranks,
                            int dim, std::vector<Tensor> terms,
                            Reduction reduction, const TransferTypes& types,
                            int threads, std::vector<int64_t>& sent) {
  const Schedule schedule =
      algorithm.schedule(CollectiveKind::ReduceScatter, ranks);
  const int64_t n = ranks.count;
  std::vector<Tensor> work;
  Slots slots;
  for (Tensor& term : terms) {
    work.push_back(room_for(std::move(term), reduction, types));
    slots.push_back(chunks_along(work.back(), dim, n, schedule.chunks / n));
  }
  transfer(schedule, slots, combiner(reduction, types), types.sent, threads,
           sent);
  std::vector<Tensor> results;
  for (int64_t r = 0; r < n; ++r) {
    const Tensor& whole = work[static_cast<size_t>(r)];
    const Slice part = part_of(whole.shape[static_cast<size_t>(dim)], r, n);
    results.push_back(copy(slice(whole, dim, part.begin, part.end)));
    keep(results.back(), types.arithmetic, types.result, threads);
  }
  return results;
}

DeviceTensors run_collective(const Mesh& mesh, const Instruction& instruction,
                             DeviceTensors operand, const TransferTypes& types,
                             int threads, std::vector<int64_t>& sent) {
  if (instruction.collective == CollectiveKind::Permute) {
    return permute(instruction.sources, operand, types.sent, sent);
  }
  if (instruction.collective == CollectiveKind::AllReduce ||
      instruction.collective == CollectiveKind::ReduceScatter) {
    own_all(operand, threads);
  }
  const Algorithm& algorithm = *instruction.algorithm;
  const Ranks ranks = ranks_along(mesh, instruction.axes);
  const auto groups = device_groups(mesh, instruction.axes);
  DeviceTensors result(operand.size());
  const int inner = groups.size() >= static_cast<size_t>(threads) ? 1 : threads;
  parallel_for(static_cast<int64_t>(groups.size()), threads, [&](int64_t g) {
    const std::vector<int>& group = groups[static_cast<size_t>(g)];
    std::vector<Tensor> parts;
    for (const int device : group) {
      parts.push_back(std::move(operand[static_cast<size_t>(device)]));
    }
    std::vector<int64_t> bytes(group.size());
    std::vector<Tensor> out;
    switch (instruction.collective) {
      case CollectiveKind::AllGather:
        out = gather(algorithm, ranks, instruction.dim, parts, types, inner,
                     bytes);
        break;
      case CollectiveKind::ReduceScatter:
        out = scatter(algorithm, ranks, instruction.dim, std::move(parts),
                      instruction.reduction, types, inner, bytes);
        break;
      case CollectiveKind::AllReduce:
        out = sum_everywhere(algorithm, ranks, std::move(parts),
                             instruction.reduction, types, inner, bytes);
        break;
      default:
        out = exchange(algorithm, ranks, instruction.dim, instruction.grown,
                       parts, types, inner, bytes);
    }
    for (size_t r = 0; r < group.size(); ++r) {
      const auto device = static_cast<size_t>(group[r]);
      result[device] = std::move(out[r]);
      sent[device] += bytes[r];
    }
  });
  return result;
}

std::vector<Storage> register_types(const Program& program,
                                    const KeptTypes& precision) {
  const std::vector<bool> integers = integer_values(*program.graph);
  std::vector<Storage> types;
  for (const Register& one : program.registers) {
    const bool parts =
        !one.layout.partial.empty() && one.layout.reduction == Reduction::Sum;
    const Storage type = parts ? precision.reduce : precision.storage;
    types.push_back(integers[static_cast<size_t>(one.value)] ? Storage::F32
                                                             : type);
  }
  return types;
}

void keep(const Tensor& tensor, Arithmetic arithmetic, Storage as,
          int threads) {
  if (arithmetic == Arithmetic::F32) round_to(tensor, as, threads);
}

Tensor kept(const Tensor& tensor, std::span<const Tensor> operands,
            Arithmetic arithmetic, Storage as, int threads) {
  if (arithmetic != Arithmetic::F32 || as == Storage::F32) return tensor;
  for (const Tensor& operand : operands) {
    if (operand.storage == tensor.storage) return tensor;
  }
  const Tensor own = tensor.storage.use_count() == 1 ? tensor : copy(tensor);
  round_to(own, as, threads);
  return own;
}

TransferTypes transfer_types(const Instruction& at,
                             std::span<const Storage> registers,
                             const KeptTypes& precision) {
  const auto type_of = [&](int number) {
    return registers[static_cast<size_t>(number)];
  };
  // Of a joined reduce-scatter: its product is sent as partial sums.
  TransferTypes types{precision.arithmetic, precision.reduce,
                      type_of(at.result)};
  if (at.kind != Instruction::Kind::Compute) {
    types.sent = type_of(at.operands[0]);
  } else if (at.overlapped >= 0) {
    types.sent = type_of(at.operands[static_cast<size_t>(at.overlapped)]);
  }
  return types;
}

namespace {

int64_t bytes_of(const Shape& shape, Storage type) {
  const std::optional<int64_t> elements = element_count(shape);
  SHARDPLAN_CHECK(elements.has_value());
  return *elements * storage_bytes(type);
}

const Register& register_of(const Program& program, int number) {
  return program.registers[static_cast<size_t>(number)];
}

// What comm/collective.h calls the payload.
int64_t payload_of(const Program& program, const Instruction& at,
                   Storage type) {
  const bool joined = at.kind == Instruction::Kind::Compute;
  const int operand = joined && at.overlapped >= 0
                          ? at.operands[static_cast<size_t>(at.overlapped)]
                          : at.operands[0];
  const int64_t n = shard_count(program.mesh, at.axes);
  switch (at.collective) {
    case CollectiveKind::AllGather:
      return bytes_of(register_of(program, operand).local_shape, type) * n;
    case CollectiveKind::ReduceScatter:
      return bytes_of(register_of(program, at.result).local_shape, type) * n;
    default:
      return bytes_of(register_of(program, operand).local_shape, type);
  }
}

int64_t permuted_bytes(const Program& program, const Instruction& at,
                       Storage type) {
  int64_t moved = 0;
  for (size_t device = 0; device < at.sources.size(); ++device) {
    moved += at.sources[device] != static_cast<int>(device);
  }
  return moved *
         bytes_of(register_of(program, at.operands[0]).local_shape, type);
}

}  // namespace

std::vector<CollectivePrice> price(const Program& program, Storage storage,
                                   Storage reduce) {
  const KeptTypes precision{Arithmetic::F32, storage, reduce};
  const std::vector<Storage> registers = register_types(program, precision);
  std::vector<CollectivePrice> prices;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& at = program.instructions[i];
    const bool joined =
        at.kind == Instruction::Kind::Compute && at.overlap != Overlap::Off;
    if (at.kind != Instruction::Kind::Collective && !joined) continue;
    CollectivePrice one{
        static_cast<int>(i),
        at.collective,
        at.axes,
        at.algorithm ? std::string(at.algorithm->name) : "direct",
        0,
        at.cause};
    const Storage type = transfer_types(at, registers, precision).sent;
    if (at.collective == CollectiveKind::Permute) {
      one.bytes = permuted_bytes(program, at, type);
    } else {
      const Ranks ranks = ranks_along(program.mesh, at.axes);
      const std::optional<int64_t> bytes = priced_bytes(
          *at.algorithm, at.collective, ranks, payload_of(program, at, type));
      SHARDPLAN_CHECK(bytes.has_value());
      one.bytes = *bytes * (program.mesh.devices() / ranks.count);
    }
    prices.push_back(std::move(one));
  }
  return prices;
}

}  // namespace shardplan
