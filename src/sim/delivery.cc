// SPDX-License-Identifier: Apache-2.0
#include "sim/delivery.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/checked.h"
#include "base/parallel.h"

namespace shardplan {
namespace {

// Returns the number of terms of a sum, at most one more than `most`; 0 if a
// term is missing.
int64_t terms_in(const Delivery& delivery, int term, int64_t most) {
  std::vector<int> open = {term};
  int64_t count = 0;
  while (!open.empty() && count <= most) {
    const int name = open.back();
    open.pop_back();
    if (name == 0) return 0;
    const Term& at = delivery.terms[static_cast<size_t>(name)];
    if (at.rank >= 0) {
      ++count;
      continue;
    }
    open.push_back(at.arriving);
    open.push_back(at.own);
  }
  return count;
}

bool is_sum(const Delivery& delivery, int term) {
  const auto ranks = static_cast<int64_t>(delivery.ends.size());
  const int64_t count = terms_in(delivery, term, ranks);
  return count > 0 && count <= ranks;
}

size_t chunks_of(const Delivery& delivery) {
  return delivery.ends.empty() ? 0 : delivery.ends[0].size();
}

}  // namespace

Delivery delivery_of(const Schedule& schedule,
                     const std::function<bool(int rank, int chunk)>& begins) {
  Delivery delivery;
  delivery.terms.resize(static_cast<size_t>(schedule.ranks) + 1);
  delivery.ends.resize(static_cast<size_t>(schedule.ranks));
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    const auto r = static_cast<size_t>(rank);
    delivery.terms[r + 1].rank = rank;
    for (int chunk = 0; chunk < schedule.chunks; ++chunk) {
      delivery.ends[r].push_back(begins(rank, chunk) ? rank + 1 : 0);
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
  for (size_t chunk = 0; chunk < chunks_of(delivery); ++chunk) {
    const int owner = owner_of(static_cast<int>(chunk));
    terms.push_back(delivery.ends[static_cast<size_t>(owner)][chunk]);
    if (!is_sum(delivery, terms.back())) return std::nullopt;
  }
  return terms;
}

namespace {

// Elements of a piece: few enough that all sums of it stay in the cache.
constexpr int64_t kPiece = int64_t{1} << 12U;

// Adds up chunks, one piece after the other.
class Adder {
 public:
  Adder(const Delivery& delivery, const Combine& combine)
      : delivery_(delivery), combine_(combine) {}

  void run(int term, std::span<const Tensor> pieces, const Tensor& target) {
    pieces_ = pieces;
    const Sum sum = value_of(term);
    copy_into(target, sum.numbers);
    if (sum.ours) rooms_.push_back(sum.numbers);
  }

 private:
  struct Sum {
    Tensor numbers;
    bool ours = false;  // may be written to
  };

  Sum value_of(int term) {
    const Term& at = delivery_.terms[static_cast<size_t>(term)];
    if (at.rank >= 0) return {pieces_[static_cast<size_t>(at.rank)], false};
    const Sum arriving = value_of(at.arriving);
    Sum own = value_of(at.own);
    if (!own.ours) {
      const Tensor room = room_like(own.numbers);
      copy_into(room, own.numbers);
      own = {room, true};
    }
    combine_(own.numbers, arriving.numbers);
    if (arriving.ours) rooms_.push_back(arriving.numbers);
    return own;
  }

  Tensor room_like(const Tensor& piece) {
    while (!rooms_.empty()) {
      Tensor room = std::move(rooms_.back());
      rooms_.pop_back();
      if (room.shape == piece.shape) return room;
    }
    return make_unfilled(piece.element, piece.shape);
  }

  const Delivery& delivery_;
  const Combine& combine_;
  std::span<const Tensor> pieces_ = {};
  std::vector<Tensor> rooms_ = {};
};

}  // namespace

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
    Adder adder(delivery, combine);
    std::vector<Tensor> of_ranks(chunks.size());
    for (int64_t i = pieces * run / runs; i < pieces * (run + 1) / runs; ++i) {
      for (size_t r = 0; r < chunks.size(); ++r) {
        of_ranks[r] = piece_of(chunks[r], i);
      }
      adder.run(term, of_ranks, piece_of(target, i));
    }
  });
}

namespace {

// Returns whether each part begins where the one before it ends.
bool are_adjacent(std::span<const Tensor> parts, size_t dim) {
  const Tensor& first = parts[0];
  if (first.elements() == 0) return false;
  for (size_t r = 0; r < parts.size(); ++r) {
    const Tensor& part = parts[r];
    if (part.storage != first.storage || part.strides != first.strides ||
        part.shape != first.shape ||
        part.offset != first.offset + static_cast<int64_t>(r) *
                                          first.shape[dim] *
                                          first.strides[dim]) {
      return false;
    }
  }
  return true;
}

}  // namespace

Tensor joined(std::span<const Tensor> parts, int dim, int threads) {
  const auto d = static_cast<size_t>(dim);
  const auto count = static_cast<int64_t>(parts.size());
  const int64_t width = parts[0].shape[d];
  if (are_adjacent(parts, d)) {
    Tensor whole = parts[0];
    whole.shape[d] = width * count;
    return whole;
  }
  Shape shape = parts[0].shape;
  shape[d] = width * count;
  const Tensor whole = make_unfilled(parts[0].element, shape);
  parallel_for(count, threads, [&](int64_t r) {
    copy_into(slice(whole, dim, r * width, (r + 1) * width),
              parts[static_cast<size_t>(r)]);
  });
  return whole;
}

}  // namespace shardplan
