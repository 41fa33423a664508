// SPDX-License-Identifier: Apache-2.0
#include "sim/delivery.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/checked.h"
#include "base/parallel.h"

namespace shardplan {
namespace {

// Returns whether no term of a sum is missing, and it has no more terms than
// there are ranks.
bool is_sum(const Delivery& delivery, int term) {
  std::vector<int> open = {term};
  size_t count = 0;
  while (!open.empty()) {
    const int name = open.back();
    open.pop_back();
    if (name == 0) return false;
    const Term& at = nth(delivery.terms, name);
    if (at.rank < 0) {
      open.push_back(at.arriving);
      open.push_back(at.own);
    } else if (++count > delivery.ends.size()) {
      return false;
    }
  }
  return true;
}

// Elements of a piece: few enough that all sums of it stay in the cache.
constexpr int64_t kPiece = int64_t{1} << 12U;

// Adds up chunks, one piece after the other.
struct Adder {
  struct Sum {
    Tensor numbers;
    bool ours = false;  // may be written to
  };

  const Delivery& delivery;
  const Combine& combine;
  std::span<const Tensor> pieces = {};  // of every rank
  std::vector<Tensor> rooms = {};

  void write(int term, const Tensor& target) {
    const Sum sum = value_of(term);
    copy_into(target, sum.numbers);
    if (sum.ours) rooms.push_back(sum.numbers);
  }

  Sum value_of(int term) {
    const Term& at = nth(delivery.terms, term);
    if (at.rank >= 0) return {nth(pieces, at.rank), false};
    const Sum arriving = value_of(at.arriving);
    Sum own = value_of(at.own);
    if (!own.ours) {
      const Tensor room = room_like(own.numbers);
      copy_into(room, own.numbers);
      own = {room, true};
    }
    combine(own.numbers, arriving.numbers);
    if (arriving.ours) rooms.push_back(arriving.numbers);
    return own;
  }

  Tensor room_like(const Tensor& piece) {
    while (!rooms.empty()) {
      Tensor room = std::move(rooms.back());
      rooms.pop_back();
      if (room.shape == piece.shape) return room;
    }
    return make_unfilled(piece.element, piece.shape);
  }
};

// Returns whether each part begins where the one before it ends.
bool are_adjacent(std::span<const Tensor> parts, int dim) {
  const Tensor& first = parts[0];
  int64_t offset = first.offset;
  for (const Tensor& part : parts) {
    if (part.storage != first.storage || part.strides != first.strides ||
        part.shape != first.shape || part.offset != offset) {
      return false;
    }
    offset += nth(first.shape, dim) * nth(first.strides, dim);
  }
  return first.elements() > 0;
}

}  // namespace

Delivery delivery_of(const Schedule& schedule,
                     const std::function<bool(int rank, int chunk)>& begins) {
  Delivery delivery;
  delivery.terms.emplace_back();  // an empty slot
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    delivery.terms.push_back({rank});
    std::vector<int>& names = delivery.ends.emplace_back();
    for (int chunk = 0; chunk < schedule.chunks; ++chunk) {
      names.push_back(begins(rank, chunk) ? rank + 1 : 0);
    }
  }
  execute(schedule, delivery.ends, [&](int arriving, int own) {
    // An empty slot stores what arrives, as in a transfer.
    if (own == 0) return arriving;
    delivery.terms.push_back({-1, arriving, own});
    return static_cast<int>(delivery.terms.size()) - 1;
  });
  return delivery;
}

std::optional<std::vector<int>> delivered_to_all(const Delivery& delivery) {
  for (const std::vector<int>& ends : delivery.ends) {
    if (ends != delivery.ends[0]) return std::nullopt;
  }
  return delivered_to(delivery, [](int) { return 0; });
}

std::optional<std::vector<int>> delivered_to(
    const Delivery& delivery, const std::function<int(int chunk)>& owner_of) {
  std::vector<int> terms;
  for (size_t chunk = 0; chunk < delivery.ends.at(0).size(); ++chunk) {
    const int owner = owner_of(static_cast<int>(chunk));
    terms.push_back(nth(delivery.ends, owner)[chunk]);
    if (!is_sum(delivery, terms.back())) return std::nullopt;
  }
  return terms;
}

void add_up(const Delivery& delivery, int term, std::span<const Tensor> chunks,
            const Combine& combine, const Tensor& target, int threads) {
  if (target.elements() == 0) return;
  const auto largest =
      std::max_element(target.shape.begin(), target.shape.end());
  const auto dim = static_cast<int>(largest - target.shape.begin());
  const int64_t size = target.shape.empty() ? 1 : *largest;
  const int64_t pieces = std::min(size, ceil_div(target.elements(), kPiece));
  const auto piece_of = [&](const Tensor& tensor, int64_t i) {
    return pieces == 1
               ? tensor
               : slice(tensor, dim, size * i / pieces, size * (i + 1) / pieces);
  };
  // A run covers many pieces, so that its buffers are allocated once.
  constexpr int64_t kRuns = 8;
  const int64_t runs = threads > 1 ? std::min(pieces, kRuns * threads) : 1;
  parallel_for(runs, threads, [&](int64_t run) {
    Adder adder{delivery, combine};
    std::vector<Tensor> of_ranks(chunks.size());
    adder.pieces = of_ranks;
    for (int64_t i = pieces * run / runs; i < pieces * (run + 1) / runs; ++i) {
      for (size_t r = 0; r < chunks.size(); ++r) {
        of_ranks[r] = piece_of(chunks[r], i);
      }
      adder.write(term, piece_of(target, i));
    }
  });
}

Tensor joined(std::span<const Tensor> parts, int dim, int threads) {
  const auto count = static_cast<int64_t>(parts.size());
  Shape shape = parts[0].shape;
  const int64_t width = nth(shape, dim);
  nth(shape, dim) *= count;
  if (are_adjacent(parts, dim)) {
    Tensor whole = parts[0];
    whole.shape = shape;
    return whole;
  }
  const Tensor whole = make_unfilled(parts[0].element, shape);
  parallel_for(count, threads, [&](int64_t r) {
    copy_into(slice(whole, dim, r * width, (r + 1) * width), nth(parts, r));
  });
  return whole;
}

}  // namespace shardplan
