// SPDX-License-Identifier: Apache-2.0
#include "model/forward/tensor_view.h"

#include <algorithm>
#include <cstddef>

#include "base/checked.h"
#include "core/types.h"
#include "model/forward/writer.h"

namespace shardplan {
namespace {

class ViewReader {
 public:
  explicit ViewReader(const TensorView& view) : view_(view) {
    experts_ = std::ranges::any_of(
        view.stacked, [](const auto& each) { return each.index < 0; });
  }

  std::optional<ViewReading> run(Shape shape) {
    if (shape.size() != view_.shape.size() ||
        (view_.joined && shape != view_.shape)) {
      return std::nullopt;
    }
    if (experts_) shape.erase(shape.begin());
    std::vector<ViewReading::Step> back;  // in reverse order
    for (const TensorView::Move& move : view_.moves) {
      if (!move.order.empty()) {
        if (move.order.size() != shape.size()) return std::nullopt;
        back.push_back(turned_back(move.order));
        shape = in_order(shape, move.order);
        continue;
      }
      back.push_back(reshaped(shape));
      std::optional<Shape> moved = moved_shape(move.shape, shape);
      if (!moved) return std::nullopt;
      shape = *std::move(moved);
    }
    if (view_.joined) {
      const TensorView::Joined& joined = *view_.joined;
      back.push_back(sliced(joined.at + (experts_ ? 1 : 0), joined.begin,
                            joined.begin + shape[joined.at]));
      shape[joined.at] = joined.size;
    }
    unstack(std::move(shape), back);
    std::ranges::reverse(back);
    result_.steps = std::move(back);
    return std::move(result_);
  }

 private:
  static Shape in_order(const Shape& shape, const std::vector<size_t>& order) {
    Shape result;
    for (const size_t at : order) result.push_back(shape[at]);
    return result;
  }

  static std::optional<Shape> moved_shape(
      const std::vector<TensorView::Dim>& dims, const Shape& before) {
    Shape result;
    for (const TensorView::Dim& dim : dims) {
      if (dim.from < 0) {
        result.push_back(dim.number);
        continue;
      }
      const int64_t size = nth(before, dim.from);
      if (size % dim.number != 0) return std::nullopt;
      result.push_back(size / dim.number);
    }
    if (element_count(result) != element_count(before)) return std::nullopt;
    return result;
  }

  ViewReading::Step turned_back(const std::vector<size_t>& order) const {
    const size_t first = experts_ ? 1 : 0;
    std::vector<int64_t> back(order.size() + first, 0);
    for (size_t i = 0; i < order.size(); ++i) {
      back[order[i] + first] = static_cast<int64_t>(i + first);
    }
    return {"transpose", {{"order", std::move(back)}}};
  }
  ViewReading::Step reshaped(Shape shape) const {
    if (experts_) shape.insert(shape.begin(), view_.shape.front());
    return {"reshape", {{"shape", std::move(shape)}}};
  }
  static ViewReading::Step sliced(size_t at, int64_t begin, int64_t end) {
    return {"slice",
            {{"dim", static_cast<double>(at)},
             {"begin", number(begin)},
             {"end", number(end)}}};
  }

  // Selects the tensor in every stack and moves the dimension of experts to the
  // front.
  void unstack(Shape shape, std::vector<ViewReading::Step>& back) {
    // For each dimension, the index of the stack that it counts, or -1.
    std::vector<int> what(shape.size(), -1);
    for (size_t i = 0; i < view_.stacked.size(); ++i) {
      const auto at = static_cast<std::ptrdiff_t>(view_.stacked[i].at);
      shape.insert(shape.begin() + at, view_.stacked[i].count);
      what.insert(what.begin() + at, static_cast<int>(i));
    }
    result_.stored = shape;
    std::vector<ViewReading::Step> steps;
    Shape left;
    size_t experts_at = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      const bool counts = what[d] >= 0;
      const int64_t index = counts ? nth(view_.stacked, what[d]).index : -1;
      if (index >= 0) {
        steps.push_back(sliced(d, index, index + 1));
        continue;
      }
      if (counts) experts_at = left.size();
      left.push_back(shape[d]);
    }
    if (!steps.empty()) steps.push_back({"reshape", {{"shape", left}}});
    if (experts_at > 0) {
      std::vector<int64_t> order = {static_cast<int64_t>(experts_at)};
      for (size_t d = 0; d < left.size(); ++d) {
        if (d != experts_at) order.push_back(static_cast<int64_t>(d));
      }
      steps.push_back({"transpose", {{"order", std::move(order)}}});
    }
    back.insert(back.end(), steps.rbegin(), steps.rend());
  }

  const TensorView& view_;
  bool experts_ = false;
  ViewReading result_;
};

}  // namespace

std::optional<ViewReading> read_view(const TensorView& view,
                                     const Shape& shape) {
  return ViewReader(view).run(shape);
}

}  // namespace shardplan
