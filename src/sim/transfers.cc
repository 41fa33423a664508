// SPDX-License-Identifier: Apache-2.0
// Chunks of a schedule are views: of the result of an all-gather, or of a copy
// of what a rank contributes to a sum. Only all-to-all needs separate memory
// for chunks that are passed on.

#include "sim/transfers.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "base/parallel.h"
#include "graph/elementwise.h"
#include "graph/graph.h"
#include "sim/delivery.h"
#include "spmd/layout.h"

namespace shardplan {
namespace {

using Slots = std::vector<std::vector<Tensor>>;  // per rank, per chunk

// The number of bytes above which copying takes longer than starting a thread.
constexpr int64_t kWorthThreads = int64_t{1} << 20U;

Combine combiner(Reduction reduction, const TransferTypes& types) {
  if (reduction == Reduction::Max && types.arithmetic == Arithmetic::Field) {
    return [](const Tensor& own, const Tensor& arriving) {
      map_binary<double>(own, arriving, own, 1, field::maximum);
    };
  }
  if (reduction == Reduction::Max) return max_into;
  return [types](const Tensor& own, const Tensor& arriving) {
    add_into(own, arriving, types.arithmetic);
    round_in_place(own, types.arithmetic, types.sent);
  };
}

// Carries out one transfer of a step; an empty slot becomes a copy.
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

// Counts the bytes of all transfers. `chunks` are those of any rank: the chunks
// of all ranks have the same sizes.
void count_sent(const Schedule& schedule, const std::vector<Tensor>& chunks,
                Storage type, std::vector<int64_t>& sent) {
  std::vector<int64_t> elements;
  for (const Tensor& chunk : chunks) elements.push_back(chunk.elements());
  for (const Step& step : schedule.steps) {
    for (const Transfer& t : step) {
      int64_t carried = 0;
      for (int c = t.first_chunk; c < t.first_chunk + t.chunk_count; ++c) {
        carried += elements[static_cast<size_t>(c)];
      }
      sent[static_cast<size_t>(t.source)] += carried * storage_bytes(type);
    }
  }
}

// Executes a schedule on slots that are views. Within a step, no rank sends
// what it receives, so targets may be served in parallel; what one target
// receives stays in order.
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

// Returns views of the pieces of `tensor` along `dim`: piece p of part r is
// chunk r * pieces + p.
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

// Returns, per tensor, whether no one else holds its numbers, so that it may be
// written to. Must be called before any thread releases its part.
std::vector<char> owned_of(const std::vector<Tensor>& tensors) {
  std::vector<char> owned;
  for (const Tensor& tensor : tensors)
    owned.push_back(is_owned(tensor) ? 1 : 0);
  return owned;
}

// The terms that devices add up, and which of them may be written to.
struct Terms {
  std::vector<Tensor> tensors;
  std::vector<char> owned;
};

bool rounds(Reduction reduction, const TransferTypes& types) {
  return reduction == Reduction::Sum && types.arithmetic == Arithmetic::F32 &&
         types.sent != Storage::F32;
}

// Makes terms row-major and rounds them to the type that is sent. Copies a term
// that is not row-major, or that others hold and that is rounded or `writable`.
void make_ready(Terms& terms, Reduction reduction, const TransferTypes& types,
                bool writable, int threads) {
  const bool rounded = rounds(reduction, types);
  parallel_for(
      static_cast<int64_t>(terms.tensors.size()), threads, [&](int64_t i) {
        const auto r = static_cast<size_t>(i);
        Tensor& term = terms.tensors[r];
        const bool as_it_is = terms.owned[r] != 0 ||
                              (!rounded && !writable && is_row_major(term));
        if (!as_it_is) {
          term = copy(term);
          terms.owned[r] = 1;
        }
        if (rounded) round_in_place(term, types.arithmetic, types.sent);
      });
}

Tensor flat(const Tensor& tensor) {
  return reshaped(tensor, {tensor.elements()});
}

// Returns the one sum that all ranks end with, made in one of the terms if that
// may be written to, otherwise in new memory.
std::vector<Tensor> shared_sum(const Delivery& delivery,
                               const std::vector<int>& ends, Terms terms,
                               const Combine& combine, int threads) {
  const auto mine = std::find(terms.owned.begin(), terms.owned.end(), char{1});
  const Tensor& first = terms.tensors[0];
  const Tensor sum =
      mine == terms.owned.end()
          ? make_unfilled(first.element, first.shape)
          : terms.tensors[static_cast<size_t>(mine - terms.owned.begin())];
  const auto count = static_cast<int64_t>(ends.size());
  std::vector<std::vector<Tensor>> chunks;
  for (const Tensor& term : terms.tensors) {
    chunks.push_back(chunks_along(flat(term), 0, count, 1));
  }
  const std::vector<Tensor> targets = chunks_along(flat(sum), 0, count, 1);
  for (size_t c = 0; c < ends.size(); ++c) {
    std::vector<Tensor> of_ranks;
    for (const std::vector<Tensor>& of : chunks) of_ranks.push_back(of[c]);
    add_up(delivery, ends[c], of_ranks, combine, targets[c], threads);
  }
  return std::vector<Tensor>(terms.tensors.size(), sum);
}

std::vector<Tensor> sum_everywhere(const Algorithm& algorithm,
                                   const Ranks& ranks, Terms terms,
                                   Reduction reduction,
                                   const TransferTypes& types, int threads,
                                   std::vector<int64_t>& sent) {
  const Schedule schedule =
      algorithm.schedule(CollectiveKind::AllReduce, ranks);
  const Delivery delivery =
      delivery_of(schedule, [](int, int) { return true; });
  const auto ends = delivered_to_all(delivery);
  const Combine combine = combiner(reduction, types);
  make_ready(terms, reduction, types, !ends, threads);
  if (ends) {
    count_sent(schedule,
               chunks_along(flat(terms.tensors[0]), 0, schedule.chunks, 1),
               types.sent, sent);
    std::vector<Tensor> results =
        shared_sum(delivery, *ends, std::move(terms), combine, threads);
    round_in_place(results[0], types.arithmetic, types.result, threads);
    return results;
  }
  Slots slots;
  for (const Tensor& term : terms.tensors) {
    slots.push_back(chunks_along(flat(term), 0, schedule.chunks, 1));
  }
  transfer(schedule, slots, combine, types.sent, threads, sent);
  for (const Tensor& sum : terms.tensors) {
    round_in_place(sum, types.arithmetic, types.result, threads);
  }
  return std::move(terms.tensors);
}

std::vector<Tensor> scatter_terms(const Algorithm& algorithm,
                                  const Ranks& ranks, int dim, Terms terms,
                                  Reduction reduction,
                                  const TransferTypes& types, int threads,
                                  std::vector<int64_t>& sent) {
  const Schedule schedule =
      algorithm.schedule(CollectiveKind::ReduceScatter, ranks);
  const int64_t n = ranks.count;
  const auto pieces = static_cast<int>(schedule.chunks / n);
  const Delivery delivery =
      delivery_of(schedule, [](int, int) { return true; });
  const auto ends =
      delivered_to(delivery, [&](int chunk) { return chunk / pieces; });
  const Combine combine = combiner(reduction, types);
  make_ready(terms, reduction, types, !ends, threads);
  Slots slots;
  for (const Tensor& term : terms.tensors) {
    slots.push_back(chunks_along(term, dim, n, pieces));
  }
  if (ends) {
    count_sent(schedule, slots[0], types.sent, sent);
  } else {
    transfer(schedule, slots, combine, types.sent, threads, sent);
  }
  std::vector<Tensor> results;
  for (int64_t r = 0; r < n; ++r) {
    const Tensor& whole = terms.tensors[static_cast<size_t>(r)];
    const Slice rows = part_of(whole.shape[static_cast<size_t>(dim)], r, n);
    const Tensor part = slice(whole, dim, rows.begin, rows.end);
    results.push_back(make_unfilled(part.element, part.shape));
    const std::vector<Tensor> targets =
        chunks_along(results.back(), dim, 1, pieces);
    for (int p = 0; p < pieces; ++p) {
      const auto c = static_cast<size_t>(r * pieces + p);
      const Tensor& target = targets[static_cast<size_t>(p)];
      if (!ends) {
        copy_into(target, slots[static_cast<size_t>(r)][c]);
        continue;
      }
      std::vector<Tensor> of_ranks;
      for (const std::vector<Tensor>& of : slots) of_ranks.push_back(of[c]);
      add_up(delivery, (*ends)[c], of_ranks, combine, target, threads);
    }
    round_in_place(results.back(), types.arithmetic, types.result, threads);
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
  const auto rank_of = [&](int chunk) {
    return static_cast<int>(chunk / pieces);
  };
  const Delivery delivery = delivery_of(
      schedule, [&](int rank, int chunk) { return rank_of(chunk) == rank; });
  // Check whether every rank ends with every part in its place.
  const auto ends = delivered_to_all(delivery);
  bool in_place = ends.has_value();
  for (int c = 0; in_place && c < schedule.chunks; ++c) {
    in_place = (*ends)[static_cast<size_t>(c)] == rank_of(c) + 1;
  }
  if (in_place) {
    std::vector<Tensor> chunks;
    for (const Tensor& part : parts) {
      for (Tensor& chunk : chunks_along(part, dim, 1, pieces)) {
        chunks.push_back(std::move(chunk));
      }
    }
    count_sent(schedule, chunks, types.sent, sent);
    return std::vector<Tensor>(parts.size(), joined(parts, dim, threads));
  }
  std::vector<Tensor> results;
  Slots slots;
  for (int64_t r = 0; r < n; ++r) {
    const Tensor& part = parts[static_cast<size_t>(r)];
    Shape shape = part.shape;
    const int64_t width = shape[static_cast<size_t>(dim)];
    shape[static_cast<size_t>(dim)] *= n;
    // Zeros fill the gaps that a wrong schedule leaves.
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
  std::vector<char> owned = owned_of(terms);
  return scatter_terms(algorithm, ranks, dim,
                       {std::move(terms), std::move(owned)}, reduction, types,
                       threads, sent);
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

DeviceTensors run_collective(const Mesh& mesh, const Instruction& instruction,
                             DeviceTensors operand, const TransferTypes& types,
                             int threads, std::vector<int64_t>& sent) {
  const std::vector<char> owned = owned_of(operand);
  const Algorithm& algorithm = *instruction.algorithm;
  const Ranks ranks = ranks_along(mesh, instruction.axes);
  const auto groups = device_groups(mesh, instruction.axes);
  DeviceTensors result(operand.size());
  const int inner = groups.size() >= static_cast<size_t>(threads) ? 1 : threads;
  parallel_for(static_cast<int64_t>(groups.size()), threads, [&](int64_t g) {
    const std::vector<int>& group = groups[static_cast<size_t>(g)];
    std::vector<Tensor> parts;
    std::vector<char> own;
    for (const int device : group) {
      parts.push_back(std::move(operand[static_cast<size_t>(device)]));
      own.push_back(owned[static_cast<size_t>(device)]);
    }
    std::vector<int64_t> bytes(group.size());
    std::vector<Tensor> out;
    switch (instruction.collective) {
      case CollectiveKind::AllGather:
        out = gather(algorithm, ranks, instruction.dim, parts, types, inner,
                     bytes);
        break;
      case CollectiveKind::ReduceScatter:
        out = scatter_terms(algorithm, ranks, instruction.dim,
                            {std::move(parts), std::move(own)},
                            instruction.reduction, types, inner, bytes);
        break;
      case CollectiveKind::AllReduce:
        out =
            sum_everywhere(algorithm, ranks, {std::move(parts), std::move(own)},
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

PerRegister<Storage> register_types(const Program& program,
                                    const StorageTypes& precision) {
  PerRegister<Storage> types;
  for (const Register& one : program.registers) {
    const bool parts =
        !one.layout.partial.empty() && one.layout.reduction == Reduction::Sum;
    const Storage type = parts ? precision.reduce : precision.storage;
    const bool integers = program.graph->values[one.value].is_integer();
    types.push_back(integers ? Storage::F32 : type);
  }
  return types;
}

void round_in_place(const Tensor& tensor, Arithmetic arithmetic, Storage as,
                    int threads) {
  if (arithmetic == Arithmetic::F32) round_to(tensor, as, threads);
}

Tensor stored_result(const Tensor& tensor, std::span<const Tensor> operands,
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
                             const PerRegister<Storage>& registers,
                             const StorageTypes& precision) {
  // A joined reduce-scatter sends the partial sums of its product.
  TransferTypes types{precision.arithmetic, precision.reduce,
                      registers[at.result]};
  if (at.kind != Instruction::Kind::Compute) {
    types.sent = registers[at.operands[0]];
  } else if (at.overlapped) {
    types.sent = registers[at.operands[*at.overlapped]];
  }
  return types;
}

namespace {

Int128 bytes_of(const Shape& shape, Storage type) {
  const std::optional<int64_t> elements = element_count(shape);
  SHARDPLAN_CHECK(elements.has_value());
  return Int128{*elements} * storage_bytes(type);
}

// Returns the payload as comm/collective.h defines it.
Int128 payload_of(const Program& program, const Instruction& at, Storage type) {
  const bool joined = at.kind == Instruction::Kind::Compute;
  const RegisterId operand =
      at.operands[joined ? at.overlapped.value_or(0) : 0];
  const int64_t n = shard_count(program.mesh, at.axes);
  switch (at.collective) {
    case CollectiveKind::AllGather:
      return bytes_of(program.registers[operand].local_shape, type) * n;
    case CollectiveKind::ReduceScatter:
      return bytes_of(program.registers[at.result].local_shape, type) * n;
    default:
      return bytes_of(program.registers[operand].local_shape, type);
  }
}

Int128 permuted_bytes(const Program& program, const Instruction& at,
                      Storage type) {
  const std::vector<int> sources = permute_sources(program, at);
  int64_t moved = 0;
  for (size_t device = 0; device < sources.size(); ++device) {
    moved += sources[device] != static_cast<int>(device);
  }
  return moved * bytes_of(program.registers[at.operands[0]].local_shape, type);
}

}  // namespace

std::vector<CollectivePrice> price(const Program& program, Storage storage,
                                   Storage reduce) {
  const StorageTypes precision{Arithmetic::F32, storage, reduce};
  const PerRegister<Storage> registers = register_types(program, precision);
  std::vector<CollectivePrice> prices;
  for (const InstructionId i : program.instructions.ids()) {
    const Instruction& at = program.instructions[i];
    const bool joined =
        at.kind == Instruction::Kind::Compute && at.overlap != Overlap::Off;
    if (at.kind != Instruction::Kind::Collective && !joined) continue;
    CollectivePrice one{
        i,
        at.collective,
        reported_axes(program, at.axes, at.node),
        at.algorithm ? std::string(at.algorithm->name) : "direct",
        0,
        at.cause};
    const Storage type = transfer_types(at, registers, precision).sent;
    if (at.collective == CollectiveKind::Permute) {
      one.bytes = permuted_bytes(program, at, type);
    } else {
      const Ranks ranks = ranks_along(program.mesh, at.axes);
      // Prices one byte, since every byte of the payload is sent alike.
      const std::optional<int64_t> copies =
          priced_bytes(*at.algorithm, at.collective, ranks, 1);
      SHARDPLAN_CHECK(copies.has_value());
      one.bytes = payload_of(program, at, type) * *copies *
                  (program.mesh.devices() / ranks.count);
    }
    prices.push_back(std::move(one));
  }
  return prices;
}

}  // namespace shardplan
