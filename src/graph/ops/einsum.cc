// SPDX-License-Identifier: Apache-2.0
// Products of two tensors, summed over indices.
//
// The letters of an equation are of five kinds. Letters of both operands and
// the result are the batch; letters of one operand and the result are rows (M)
// or columns (N) of a matrix product; letters of both operands only are
// contracted (K); letters of one operand only are summed there first, as a
// product with ones. There remains one matrix product per batch entry, on views
// wherever the dimensions of a group can be joined into one.
#include "graph/ops/einsum.h"

#include <array>
#include <deque>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/parallel.h"
#include "base/text.h"
#include "base/words.h"
#include "graph/elementwise.h"
#include "graph/gemm.h"
#include "graph/ops/ops.h"

namespace shardplan {
namespace {

using Kind = AttributeDef::Kind;

constexpr std::string_view kLetters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

// Returns the first letter that occurs twice.
std::optional<char> repeated(std::string_view letters) {
  for (size_t i = 0; i < letters.size(); ++i) {
    if (contains(letters.substr(i + 1), letters[i])) return letters[i];
  }
  return std::nullopt;
}

struct Problem {
  std::string what;
  std::string help;
};

// Returns what is wrong with an equation, if anything.
std::optional<Problem> problem_of(const Equation& equation) {
  for (const std::string& part :
       {equation.operands[0], equation.operands[1], equation.result}) {
    const size_t odd = part.find_first_not_of(kLetters);
    if (odd != part.npos) {
      // Quotes a whole character, even if it is longer than a byte.
      size_t end = odd;
      decode_utf8(part, end);
      return Problem{"has " + in_backticks(part.substr(odd, end - odd)) +
                         " where a letter belongs",
                     "name each dimension with one letter, a to z or A to Z"};
    }
    if (const auto letter = repeated(part)) {
      return Problem{
          std::string("has `") + *letter + "` twice in `" + part + "`",
          "use a different letter for each dimension of a tensor"};
    }
  }
  for (const char letter : equation.result) {
    if (contains(equation.operands[0] + equation.operands[1], letter)) continue;
    return Problem{std::string("has `") + letter + "` only in the result",
                   "use only letters of the operands in the result"};
  }
  return std::nullopt;
}

Equation equation_of(const Attributes& attributes) {
  Diagnostics none;
  return *parse_equation(text_of(attributes, "equation", ""), {}, none);
}

// The sizes of letters, or -1 if they are not known.
class LetterSizes {
 public:
  LetterSizes() { sizes_.fill(-1); }
  int64_t& operator[](char letter) {
    return sizes_[static_cast<unsigned char>(letter)];
  }

 private:
  std::array<int64_t, 256> sizes_{};
};

// Returns the sizes of letters. REQUIRES: the shapes fit the equation.
LetterSizes sizes_of(const Equation& equation, ShapeSpan shapes) {
  LetterSizes sizes;
  for (size_t i = 0; i < 2; ++i) {
    for (size_t dim = 0; dim < equation.operands[i].size(); ++dim) {
      sizes[equation.operands[i][dim]] = shapes[i][dim];
    }
  }
  return sizes;
}

std::optional<Shape> infer_einsum(ShapeSpan operands,
                                  const Attributes& attributes, Span where,
                                  Diagnostics& diags) {
  const auto equation =
      parse_equation(text_of(attributes, "equation", ""), where, diags);
  if (!equation) return std::nullopt;
  const std::string misfit = "equation `" + equation_text(*equation) +
                             "` does not fit " + shapes_text(operands) + ": ";
  LetterSizes sizes;
  for (size_t i = 0; i < 2; ++i) {
    const std::string& letters = equation->operands[i];
    if (letters.size() != operands[i].size()) {
      return refuse(diags, where,
                    misfit + "`" + letters + "` has a different rank than " +
                        shape_text(operands[i]),
                    "write one letter per dimension");
    }
    for (size_t dim = 0; dim < letters.size(); ++dim) {
      int64_t& size = sizes[letters[dim]];
      if (size < 0) size = operands[i][dim];
      if (size == operands[i][dim]) continue;
      return refuse(
          diags, where,
          misfit + "`" + letters[dim] + "` is " + std::to_string(size) +
              " and " + std::to_string(operands[i][dim]),
          "each letter must have one size: einsum does not broadcast");
    }
  }
  Shape result;
  for (const char letter : equation->result) result.push_back(sizes[letter]);
  return countable(std::move(result), where, diags);
}

ShardingRule einsum_rule(ShapeSpan operands, const Attributes& attributes) {
  const Equation equation = equation_of(attributes);
  const std::string letters = letters_of(equation);
  LetterSizes sizes = sizes_of(equation, operands);
  ShardingRule rule;
  for (const char letter : letters) {
    const bool kept = contains(equation.result, letter);
    rule.factors.push_back(
        {sizes[letter], kept ? FactorKind::Pass : FactorKind::Sum});
  }
  const auto dims_of = [&](const std::string& tensor) {
    std::vector<DimFactors> dims;
    for (const char letter : tensor) {
      dims.push_back({static_cast<int>(letters.find(letter))});
    }
    return dims;
  };
  for (const std::string& operand : equation.operands) {
    rule.operands.push_back(dims_of(operand));
  }
  rule.result = dims_of(equation.result);
  return rule;
}

// The letters of an equation by kind, each group in the order of the result, or
// else of the operands.
struct Groups {
  std::string batch;
  std::array<std::string, 2> free;  // M and N: in one operand and the result
  std::string contracted;
  std::array<std::string, 2> alone;  // in one operand only
};

Groups groups_of(const Equation& equation) {
  Groups groups;
  for (const char letter : letters_of(equation)) {
    const bool left = contains(equation.operands[0], letter);
    const bool right = contains(equation.operands[1], letter);
    const bool kept = contains(equation.result, letter);
    if (left && right) {
      (kept ? groups.batch : groups.contracted) += letter;
    } else {
      (kept ? groups.free : groups.alone)[left ? 0 : 1] += letter;
    }
  }
  return groups;
}

int64_t einsum_flops(ShapeSpan operands, const Shape&,
                     const Attributes& attributes) {
  const Equation equation = equation_of(attributes);
  const Groups groups = groups_of(equation);
  LetterSizes sizes = sizes_of(equation, operands);
  int64_t flops = 2;
  for (const char letter :
       groups.batch + groups.free[0] + groups.free[1] + groups.contracted) {
    flops = saturating_product(flops, sizes[letter]);
  }
  for (size_t i = 0; i < 2; ++i) {
    if (groups.alone[i].empty()) continue;
    flops = checked_add(flops, count_of(operands[i]))
                .value_or(std::numeric_limits<int64_t>::max());
  }
  return flops;
}

// A tensor whose dimensions have letters.
struct Lettered {
  Tensor tensor;
  std::string letters;
};

// Returns the tensor with its dimensions in this order.
Tensor ordered(const Lettered& from, const std::string& letters) {
  std::vector<int> order;
  for (const char letter : letters) {
    order.push_back(static_cast<int>(from.letters.find(letter)));
  }
  return permuted(from.tensor, order);
}

// A stack of matrices: dimensions of the batch, then rows, then columns.
struct Stack {
  Tensor tensor;
  Strides batch;
  int64_t row_stride = 0;
  int64_t column_stride = 0;
};

int64_t product_of(const Shape& shape, size_t begin, size_t end) {
  return std::accumulate(shape.data() + begin, shape.data() + end, int64_t{1},
                         std::multiplies());
}

// Returns `tensor` as a stack, which is a view if possible.
Stack stack_of(Tensor tensor, size_t batch, size_t rows) {
  const size_t rank = tensor.shape.size();
  const size_t split = batch + rows;
  auto row = joined_stride(tensor.shape, tensor.strides, batch, split);
  auto column = joined_stride(tensor.shape, tensor.strides, split, rank);
  if (!row || !column) {
    tensor = contiguous(tensor);
    row = product_of(tensor.shape, split, rank);
    column = 1;
  }
  Strides strides(tensor.strides.data(), tensor.strides.data() + batch);
  return {std::move(tensor), std::move(strides), *row, *column};
}

struct ProductSizes {
  Shape batch;
  int64_t m = 1;
  int64_t n = 1;
  int64_t k = 1;

  bool operator==(const ProductSizes&) const = default;
};

template <typename T>
Matrix<T> matrix_at(const Stack& stack, int64_t offset) {
  using Number = std::remove_const_t<T>;
  return {stack.tensor.data<Number>() + offset, stack.row_stride,
          stack.column_stride};
}

// Returns whether to multiply without gemm: products without a contraction, and
// products too small for its preparations, of which a batch may have millions.
bool is_plain(const ProductSizes& sizes) {
  constexpr int64_t kSmall = 512;
  static_assert(kSmall <= field::kBlock);
  return sizes.k == 1 ||
         (sizes.m <= kSmall && sizes.n <= kSmall && sizes.k <= kSmall &&
          sizes.m * sizes.n * sizes.k <= kSmall);
}

template <typename T>
void multiply_plainly(const ProductSizes& sizes, Matrix<const T> a,
                      Matrix<const T> b, Matrix<T> c, bool in_field) {
  for (int64_t i = 0; i < sizes.m; ++i) {
    for (int64_t j = 0; j < sizes.n; ++j) {
      const T* left = a.data + i * a.row_stride;
      const T* right = b.data + j * b.column_stride;
      T sum = 0;
      for (int64_t k = 0; k < sizes.k; ++k) {
        sum += left[k * a.column_stride] * right[k * b.row_stride];
      }
      c.data[i * c.row_stride + j * c.column_stride] =
          in_field ? static_cast<T>(field::residue(sum)) : sum;
    }
  }
}

// The number of multiply-adds below which several threads cost more than they
// gain.
constexpr int64_t kLarge = int64_t{1} << 22;

// A stack of matrix products, which an einsum is reduced to.
struct StackedProduct {
  Stack a;
  Stack b;
  Stack c;  // row-major: [batch..., rows..., columns...]
};

// Returns where the matrices of every entry of the batch begin.
std::vector<std::array<int64_t, 3>> entries_of(const ProductSizes& sizes,
                                               const StackedProduct& of) {
  std::vector<std::array<int64_t, 3>> entries;
  for_each_row<3>(sizes.batch, {of.a.batch, of.b.batch, of.c.batch},
                  [&](int64_t count, std::array<int64_t, 3> offsets,
                      const std::array<int64_t, 3>& steps) {
                    for (int64_t i = 0; i < count; ++i) {
                      entries.push_back(offsets);
                      for (size_t t = 0; t < 3; ++t) offsets[t] += steps[t];
                    }
                  });
  return entries;
}

// Returns how many threads are worth using for this many products.
int threads_for(const ProductSizes& sizes, int64_t products, int threads) {
  const int64_t work = saturating_product(
      products, saturating_product(sizes.m, sizes.n * sizes.k));
  return work < kLarge ? 1 : threads;
}

template <typename T>
void multiply_stack_plainly(const ProductSizes& sizes, const StackedProduct& of,
                            Arithmetic arithmetic, int threads) {
  const auto entries = entries_of(sizes, of);
  const auto count = static_cast<int64_t>(entries.size());
  parallel_for(count, threads_for(sizes, count, threads), [&](int64_t i) {
    const auto& [of_a, of_b, of_c] = nth(entries, i);
    multiply_plainly(sizes, matrix_at<const T>(of.a, of_a),
                     matrix_at<const T>(of.b, of_b), matrix_at<T>(of.c, of_c),
                     arithmetic == Arithmetic::Field);
  });
}

template <typename T>
void multiply_stacks(const ProductSizes& sizes,
                     std::span<const StackedProduct> stacks,
                     Arithmetic arithmetic, int threads) {
  if (is_plain(sizes)) {
    // Runs threads over the stacks of devices, or within one stack, but never
    // both.
    const auto count = static_cast<int64_t>(stacks.size());
    const bool over_stacks = count >= threads;
    parallel_for(count, over_stacks ? threads : 1, [&](int64_t i) {
      multiply_stack_plainly<T>(sizes, nth(stacks, i), arithmetic,
                                over_stacks ? 1 : threads);
    });
    return;
  }
  std::vector<MatrixProduct<T>> products;
  for (const StackedProduct& of : stacks) {
    for (const auto& [of_a, of_b, of_c] : entries_of(sizes, of)) {
      products.push_back({matrix_at<const T>(of.a, of_a),
                          matrix_at<const T>(of.b, of_b),
                          matrix_at<T>(of.c, of_c)});
    }
  }
  gemm<T>(sizes.m, sizes.n, sizes.k, products, arithmetic,
          threads_for(sizes, std::ssize(products), threads));
}

// Returns an unfilled result, row-major [batch..., rows..., columns...].
Stack room_for(const ProductSizes& sizes, const Shape& shape,
               Arithmetic arithmetic) {
  const Tensor tensor = make_unfilled(element_of(arithmetic), shape);
  const int64_t* strides = tensor.strides.data();
  return {tensor, {strides, strides + sizes.batch.size()}, sizes.n, 1};
}

// Computes products of one size.
void multiply(const ProductSizes& sizes, std::span<const StackedProduct> stacks,
              Arithmetic arithmetic, int threads) {
  if (stacks.empty() || stacks[0].c.tensor.elements() == 0) return;
  for_element_type(element_of(arithmetic),
                   [&]<typename T>(std::type_identity<T>) {
                     multiply_stacks<T>(sizes, stacks, arithmetic, threads);
                   });
}

// Returns the operand summed over the letters `alone`: a product with a column
// of ones.
Lettered summed(const Lettered& operand, const std::string& alone,
                const RunContext& context) {
  if (alone.empty()) return operand;
  std::string kept = operand.letters;
  std::erase_if(kept, [&](char letter) { return contains(alone, letter); });
  const Tensor rows = ordered(operand, kept + alone);
  const Shape shape(rows.shape.data(), rows.shape.data() + kept.size());
  ProductSizes sizes;
  sizes.m = product_of(rows.shape, 0, kept.size());
  sizes.k = product_of(rows.shape, kept.size(), rows.shape.size());
  const Element element = element_of(context.arithmetic);
  const double one = 1;
  const Tensor ones = broadcast_to(
      make_tensor(element, {1, 1}, std::span(&one, 1)), {sizes.k, 1});
  const StackedProduct product{stack_of(rows, 0, kept.size()),
                               stack_of(ones, 0, 1),
                               room_for(sizes, shape, context.arithmetic)};
  multiply(sizes, std::span(&product, 1), context.arithmetic, context.threads);
  return {product.c.tensor, kept};
}

// Stacks of tensors whose dimensions are in the required order. A tensor that
// several devices hold is one stack, so that it is copied only once if it
// cannot be a view, and is known to be the same.
class Stacks {
 public:
  const Stack& of(const Tensor& tensor, size_t batch, size_t rows) {
    for (const auto& [from, stack] : made_) {
      if (from.storage == tensor.storage && from.offset == tensor.offset &&
          from.shape == tensor.shape && from.strides == tensor.strides) {
        return stack;
      }
    }
    made_.emplace_back(tensor, stack_of(tensor, batch, rows));
    return made_.back().second;
  }

 private:
  std::deque<std::pair<Tensor, Stack>> made_;
};

// An einsum as matrix products: their sizes and their stacks.
struct Prepared {
  ProductSizes sizes;
  StackedProduct product;
  std::string letters;  // of the product's result
};

Prepared prepare(const Equation& equation, const Groups& groups,
                 const DevicePart& part, std::array<Stacks, 2>& stacks) {
  const std::string& batch = groups.batch;
  const std::string& k = groups.contracted;
  std::array<Lettered, 2> sides;
  for (size_t i = 0; i < 2; ++i) {
    sides[i] = summed({part.operands[i], equation.operands[i]}, groups.alone[i],
                      part.context);
  }
  const Tensor a = ordered(sides[0], batch + groups.free[0] + k);
  const Tensor b = ordered(sides[1], batch + k + groups.free[1]);
  const size_t of_batch = batch.size();
  const size_t of_m = of_batch + groups.free[0].size();
  const size_t of_k = of_batch + k.size();
  const ProductSizes sizes{{a.shape.data(), a.shape.data() + of_batch},
                           product_of(a.shape, of_batch, of_m),
                           product_of(b.shape, of_k, b.shape.size()),
                           product_of(a.shape, of_m, a.shape.size())};
  Shape shape(a.shape.data(), a.shape.data() + of_m);
  shape.insert(shape.end(), b.shape.data() + of_k,
               b.shape.data() + b.shape.size());
  return {sizes,
          {stacks[0].of(a, of_batch, groups.free[0].size()),
           stacks[1].of(b, of_batch, k.size()),
           room_for(sizes, shape, part.context.arithmetic)},
          batch + groups.free[0] + groups.free[1]};
}

std::vector<Tensor> run_einsums(std::span<const DevicePart> parts,
                                const Attributes& attributes, int threads) {
  const Equation equation = equation_of(attributes);
  const Groups groups = groups_of(equation);
  std::array<Stacks, 2> stacks;
  std::vector<Prepared> prepared;
  for (const DevicePart& part : parts) {
    prepared.push_back(prepare(equation, groups, part, stacks));
  }
  // Devices have parts of one size unless a dimension is sharded unevenly.
  std::vector<StackedProduct> alike;
  for (size_t i = 0; i < parts.size(); ++i) {
    alike.push_back(prepared[i].product);
    if (i + 1 < parts.size() && prepared[i].sizes == prepared[i + 1].sizes) {
      continue;
    }
    multiply(prepared[i].sizes, alike, parts[i].context.arithmetic, threads);
    alike.clear();
  }
  std::vector<Tensor> results;
  for (Prepared& each : prepared) {
    results.push_back(ordered({std::move(each.product.c.tensor), each.letters},
                              equation.result));
  }
  return results;
}

Tensor run_einsum(TensorSpan operands, const Attributes& attributes,
                  const RunContext& context) {
  const DevicePart part{{operands.begin(), operands.end()}, context};
  return run_einsums(std::span(&part, 1), attributes, context.threads)[0];
}

}  // namespace

std::optional<Equation> parse_equation(std::string_view text, Span where,
                                       Diagnostics& diags) {
  const auto refuse_it = [&](const Problem& problem) -> std::nullopt_t {
    return diags
        .error(Code::InvalidGraph, where,
               "equation " + in_backticks(text) + " " + problem.what)
        .help(problem.help);
  };
  std::string letters(text);
  std::erase(letters, ' ');
  const size_t arrow = letters.find("->");
  if (arrow == letters.npos) {
    return refuse_it({"has no `->`", "write the result's letters after `->`"});
  }
  const std::string operands = letters.substr(0, arrow);
  const size_t comma = operands.find(',');
  if (comma == operands.npos) {
    return refuse_it(
        {"has only one operand", "write two operands, as in `bse,em->bsm`"});
  }
  Equation equation{{operands.substr(0, comma), operands.substr(comma + 1)},
                    letters.substr(arrow + 2)};
  if (const auto problem = problem_of(equation)) return refuse_it(*problem);
  return equation;
}

std::string equation_text(const Equation& equation) {
  return equation.operands[0] + "," + equation.operands[1] + "->" +
         equation.result;
}

std::string letters_of(const Equation& equation) {
  std::string letters = equation.result;
  for (const std::string& operand : equation.operands) {
    for (const char letter : operand) {
      if (!contains(letters, letter)) letters += letter;
    }
  }
  return letters;
}

OpDef einsum_op() {
  return {.name = "einsum",
          .summary = "product of two tensors, summed over letters",
          .min_operands = 2,
          .linearity = Linearity::Multilinear,
          .attributes =
              {{"equation", Kind::Text, true,
                "as in `bse,em->bsm`: letters not in the result are summed"}},
          .factors = "every letter; summed letters give partial sums",
          .infer = infer_einsum,
          .rule = einsum_rule,
          .flops = einsum_flops,
          .run = run_einsum,
          .run_all = run_einsums,
          .recompute_cost = RecomputeCost::Expensive,
          .gradient = {.operands = ReadOperands::OfOthers},
          .is_product = true};
}

}  // namespace shardplan
