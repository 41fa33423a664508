// SPDX-License-Identifier: Apache-2.0
// Chunks of a schedule are views: of the result of an all-gather, or of a copy
// of what a rank contributes to a sum. Only all-to-all needs separate memory
// for chunks that are passed on.

#include "sim/transfers.h"

#include <algorithm>
#include <iterator>
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

// A collective as every group of devices runs it. Tensors and bytes of a group
// are in order of rank.
struct GroupCollective {
  const Instruction& at;
  const Ranks& ranks;
  const Schedule& schedule;
  const TransferTypes& types;
  int threads;
};

void round_result(const GroupCollective& of, const Tensor& result) {
  round_in_place(result, of.types.arithmetic, of.types.result, of.threads);
}

Combine combiner(const GroupCollective& of) {
  const TransferTypes types = of.types;
  if (of.at.reduction == Reduction::Sum) {
    return [types](const Tensor& own, const Tensor& arriving) {
      add_into(own, arriving, types.arithmetic);
      round_in_place(own, types.arithmetic, types.sent);
    };
  }
  if (types.arithmetic != Arithmetic::Field) return max_into;
  return [](const Tensor& own, const Tensor& arriving) {
    map_binary<double>(own, arriving, own, 1, field::maximum);
  };
}

// Carries out one transfer of a step; an empty slot becomes a copy.
void carry(const Transfer& t, Slots& slots, const Combine& combine) {
  const std::vector<Tensor>& source = nth(slots, t.source);
  std::vector<Tensor>& target = nth(slots, t.target);
  const size_t first = to_size(t.first_chunk);
  for (size_t c = first; c < first + to_size(t.chunk_count); ++c) {
    if (target[c].storage == nullptr) {
      target[c] = copy(source[c]);
    } else if (t.reduce) {
      combine(target[c], source[c]);
    } else {
      copy_into(target[c], source[c]);
    }
  }
}

// Returns the bytes of a transfer. `chunks` are those of its source.
int64_t carried_bytes(const GroupCollective& of, const Transfer& t,
                      const std::vector<Tensor>& chunks) {
  int64_t elements = 0;
  const size_t first = to_size(t.first_chunk);
  for (size_t c = first; c < first + to_size(t.chunk_count); ++c) {
    elements += chunks[c].elements();
  }
  return elements * storage_bytes(of.types.sent);
}

// Counts the bytes of all transfers. `chunks` are those of any rank: the chunks
// of all ranks have the same sizes.
void count_sent(const GroupCollective& of, const std::vector<Tensor>& chunks,
                std::vector<int64_t>& sent) {
  for (const Step& step : of.schedule.steps) {
    for (const Transfer& t : step) {
      nth(sent, t.source) += carried_bytes(of, t, chunks);
    }
  }
}

// Executes the schedule on slots that are views. Within a step, no rank sends
// what it receives, so targets may be served in parallel; what one target
// receives stays in order.
void transfer(const GroupCollective& of, Slots& slots, const Combine& combine,
              std::vector<int64_t>& sent) {
  for (const Step& step : of.schedule.steps) {
    std::vector<std::vector<const Transfer*>> arriving(slots.size());
    int64_t bytes = 0;
    for (const Transfer& t : step) {
      const int64_t mine = carried_bytes(of, t, nth(slots, t.source));
      nth(sent, t.source) += mine;
      bytes += mine;
      nth(arriving, t.target).push_back(&t);
    }
    parallel_for(static_cast<int64_t>(arriving.size()),
                 bytes < kWorthThreads ? 1 : of.threads, [&](int64_t target) {
                   for (const Transfer* t : nth(arriving, target)) {
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
  const int64_t size = nth(tensor.shape, dim);
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

// Returns one chunk of every rank.
std::vector<Tensor> chunk_of_ranks(const Slots& slots, size_t chunk) {
  std::vector<Tensor> of_ranks;
  for (const std::vector<Tensor>& of : slots) of_ranks.push_back(of[chunk]);
  return of_ranks;
}

// The tensors of a group and whether no one else holds their numbers, so that
// they may be written to.
struct Terms {
  std::vector<Tensor> tensors;
  std::vector<char> owned;
};

// Makes terms row-major and rounds them to the type that is sent. Copies a term
// that is not row-major, or that others hold and that is rounded or `writable`.
void make_ready(const GroupCollective& of, bool writable, Terms& terms) {
  const bool rounded = of.at.reduction == Reduction::Sum &&
                       of.types.arithmetic == Arithmetic::F32 &&
                       of.types.sent != Storage::F32;
  parallel_for(
      static_cast<int64_t>(terms.tensors.size()), of.threads, [&](int64_t r) {
        Tensor& term = nth(terms.tensors, r);
        char& owned = nth(terms.owned, r);
        if (owned == 0 && (rounded || writable || !is_row_major(term))) {
          term = copy(term);
          owned = 1;
        }
        if (rounded) round_in_place(term, of.types.arithmetic, of.types.sent);
      });
}

std::vector<Tensor> sum_everywhere(const GroupCollective& of, Terms terms,
                                   std::vector<int64_t>& sent) {
  const Delivery delivery =
      delivery_of(of.schedule, [](int, int) { return true; });
  const auto ends = delivered_to_all(delivery);
  const Combine combine = combiner(of);
  make_ready(of, !ends, terms);
  const auto chunks_of = [&](const Tensor& tensor) {
    return chunks_along(reshaped(tensor, {tensor.elements()}), 0,
                        of.schedule.chunks, 1);
  };
  Slots slots;
  for (const Tensor& term : terms.tensors) slots.push_back(chunks_of(term));
  if (!ends) {
    transfer(of, slots, combine, sent);
    for (const Tensor& sum : terms.tensors) round_result(of, sum);
    return std::move(terms.tensors);
  }
  count_sent(of, slots[0], sent);
  // All ranks end with one sum. It is made in one of the terms if that may be
  // written to, otherwise in new memory.
  const auto mine = std::ranges::find(terms.owned, char{1});
  const Tensor& first = terms.tensors[0];
  const Tensor sum = mine == terms.owned.end()
                         ? make_unfilled(first.element, first.shape)
                         : nth(terms.tensors, mine - terms.owned.begin());
  const std::vector<Tensor> targets = chunks_of(sum);
  for (size_t c = 0; c < targets.size(); ++c) {
    add_up(delivery, (*ends)[c], chunk_of_ranks(slots, c), combine, targets[c],
           of.threads);
  }
  round_result(of, sum);
  return std::vector<Tensor>(terms.tensors.size(), sum);
}

// Rank r gets part r of the sum.
std::vector<Tensor> scatter(const GroupCollective& of, Terms terms,
                            std::vector<int64_t>& sent) {
  const int dim = of.at.dim;
  const int n = of.ranks.count;
  const int pieces = of.schedule.chunks / n;
  const Delivery delivery =
      delivery_of(of.schedule, [](int, int) { return true; });
  const auto ends =
      delivered_to(delivery, [&](int chunk) { return chunk / pieces; });
  const Combine combine = combiner(of);
  make_ready(of, !ends, terms);
  Slots slots;
  for (const Tensor& term : terms.tensors) {
    slots.push_back(chunks_along(term, dim, n, pieces));
  }
  if (ends) {
    count_sent(of, slots[0], sent);
  } else {
    transfer(of, slots, combine, sent);
  }
  std::vector<Tensor> results;
  for (int r = 0; r < n; ++r) {
    const Tensor& whole = nth(terms.tensors, r);
    const Slice rows = part_of(nth(whole.shape, dim), r, n);
    const Tensor part = slice(whole, dim, rows.begin, rows.end);
    results.push_back(make_unfilled(part.element, part.shape));
    size_t c = to_size(r * pieces);
    for (const Tensor& target : chunks_along(results.back(), dim, 1, pieces)) {
      if (ends) {
        add_up(delivery, (*ends)[c], chunk_of_ranks(slots, c), combine, target,
               of.threads);
      } else {
        copy_into(target, nth(slots, r)[c]);
      }
      ++c;
    }
    round_result(of, results.back());
  }
  return results;
}

std::vector<Tensor> exchange(const GroupCollective& of,
                             const std::vector<Tensor>& parts,
                             std::vector<int64_t>& sent) {
  const int cut = of.at.dim;
  const int grown = of.at.grown;
  const int64_t n = of.ranks.count;
  const int64_t pieces = of.schedule.chunks / (n * n);
  Slots slots(parts.size(), std::vector<Tensor>(to_size(of.schedule.chunks)));
  for (int64_t s = 0; s < n; ++s) {
    std::ranges::move(chunks_along(nth(parts, s), cut, n, pieces),
                      nth(slots, s).begin() + s * n * pieces);
  }
  transfer(of, slots, {}, sent);
  std::vector<Tensor> results;
  for (int64_t t = 0; t < n; ++t) {
    Shape shape = nth(parts, t).shape;
    const int64_t width = nth(shape, grown);
    nth(shape, cut) /= n;
    nth(shape, grown) *= n;
    results.push_back(make_tensor(parts[0].element, shape));
    for (int64_t s = 0; s < n; ++s) {
      const Tensor from_s =
          slice(results.back(), grown, s * width, (s + 1) * width);
      size_t c = to_size((s * n + t) * pieces);
      for (const Tensor& place : chunks_along(from_s, cut, 1, pieces)) {
        copy_into(place, nth(slots, t)[c++]);
      }
    }
  }
  return results;
}

// All parts make up the result.
std::vector<Tensor> gather(const GroupCollective& of,
                           const std::vector<Tensor>& parts,
                           std::vector<int64_t>& sent) {
  const int dim = of.at.dim;
  const int n = of.ranks.count;
  const int pieces = of.schedule.chunks / n;
  const Delivery delivery = delivery_of(
      of.schedule, [&](int rank, int chunk) { return chunk / pieces == rank; });
  // Check whether every rank ends with every part in its place.
  const auto ends = delivered_to_all(delivery);
  bool in_place = ends.has_value();
  for (int c = 0; in_place && c < of.schedule.chunks; ++c) {
    in_place = nth(*ends, c) == c / pieces + 1;
  }
  if (in_place) {
    std::vector<Tensor> chunks;
    for (const Tensor& part : parts) {
      std::ranges::move(chunks_along(part, dim, 1, pieces),
                        std::back_inserter(chunks));
    }
    count_sent(of, chunks, sent);
    return std::vector<Tensor>(parts.size(), joined(parts, dim, of.threads));
  }
  std::vector<Tensor> results;
  Slots slots;
  for (int64_t r = 0; r < n; ++r) {
    const Tensor& part = nth(parts, r);
    Shape shape = part.shape;
    const int64_t width = nth(shape, dim);
    nth(shape, dim) *= n;
    // Zeros fill the gaps that a wrong schedule leaves.
    results.push_back(make_tensor(part.element, shape));
    copy_into(slice(results.back(), dim, r * width, (r + 1) * width), part);
    slots.push_back(chunks_along(results.back(), dim, n, pieces));
  }
  transfer(of, slots, {}, sent);
  return results;
}

// Returns what every device of a group has afterwards.
std::vector<Tensor> run_in_group(const GroupCollective& of, Terms terms,
                                 std::vector<int64_t>& sent) {
  switch (of.at.collective) {
    case CollectiveKind::AllGather:
      return gather(of, terms.tensors, sent);
    case CollectiveKind::ReduceScatter:
      return scatter(of, std::move(terms), sent);
    case CollectiveKind::AllReduce:
      return sum_everywhere(of, std::move(terms), sent);
    default:
      return exchange(of, terms.tensors, sent);
  }
}

// Returns the bytes of a device's part of a register.
Int128 local_bytes(const Program& program, RegisterId number, Storage type) {
  const auto elements = element_count(program.registers[number].local_shape);
  SHARDPLAN_CHECK(elements.has_value());
  return Int128{*elements} * storage_bytes(type);
}

// Returns the payload as comm/collective.h defines it.
Int128 payload_of(const Program& program, const Instruction& at, Storage type) {
  const bool scatters = at.collective == CollectiveKind::ReduceScatter;
  const RegisterId part =
      scatters ? at.result : at.operands[at.overlapped.value_or(0)];
  const Int128 bytes = local_bytes(program, part, type);
  return scatters || at.collective == CollectiveKind::AllGather
             ? bytes * shard_count(program.mesh, at.axes)
             : bytes;
}

Int128 permuted_bytes(const Program& program, const Instruction& at,
                      Storage type) {
  const std::vector<int> sources = permute_sources(program, at);
  int64_t moved = 0;
  for (size_t device = 0; device < sources.size(); ++device) {
    moved += sources[device] != static_cast<int>(device);
  }
  return moved * local_bytes(program, at.operands[0], type);
}

}  // namespace

Slice part_of(int64_t size, int64_t index, int64_t count) {
  return {size * index / count, size * (index + 1) / count};
}

DeviceTensors permute(const std::vector<int>& sources,
                      const DeviceTensors& operand, Storage type,
                      std::vector<int64_t>& sent) {
  DeviceTensors result(operand.size());
  for (size_t device = 0; device < operand.size(); ++device) {
    const size_t source = to_size(sources[device]);
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
  // Found before any thread releases its part.
  std::vector<char> owned;
  for (const Tensor& tensor : operand) {
    owned.push_back(tensor.storage.use_count() == 1 && is_row_major(tensor));
  }
  const Ranks ranks = ranks_along(mesh, instruction.axes);
  const Schedule schedule =
      instruction.algorithm->schedule(instruction.collective, ranks);
  const auto groups = device_groups(mesh, instruction.axes);
  DeviceTensors result(operand.size());
  const int inner = groups.size() >= to_size(threads) ? 1 : threads;
  const GroupCollective of{instruction, ranks, schedule, types, inner};
  parallel_for(static_cast<int64_t>(groups.size()), threads, [&](int64_t g) {
    const std::vector<int>& group = nth(groups, g);
    Terms terms;
    for (const int device : group) {
      terms.tensors.push_back(std::move(nth(operand, device)));
      terms.owned.push_back(nth(owned, device));
    }
    std::vector<int64_t> bytes(group.size());
    std::vector<Tensor> out = run_in_group(of, std::move(terms), bytes);
    for (size_t r = 0; r < group.size(); ++r) {
      nth(result, group[r]) = std::move(out[r]);
      nth(sent, group[r]) += bytes[r];
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
  const bool sends_operand =
      at.kind != Instruction::Kind::Compute || at.overlapped;
  return {precision.arithmetic,
          sends_operand ? registers[at.operands[at.overlapped.value_or(0)]]
                        : precision.reduce,
          registers[at.result]};
}

bool reduces(const Instruction& at) {
  return at.kind == Instruction::Kind::Collective &&
         (at.collective == CollectiveKind::AllReduce ||
          at.collective == CollectiveKind::ReduceScatter);
}

std::vector<CollectivePrice> price(const Program& program, Storage storage,
                                   Storage reduce) {
  const StorageTypes precision{Arithmetic::F32, storage, reduce};
  const PerRegister<Storage> registers = register_types(program, precision);
  std::vector<CollectivePrice> prices;
  for (const InstructionId i : program.instructions.ids()) {
    const Instruction& at = program.instructions[i];
    if (at.kind != Instruction::Kind::Collective &&
        at.overlap == Overlap::Off) {
      continue;
    }
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
