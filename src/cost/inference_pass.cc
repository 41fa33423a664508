// SPDX-License-Identifier: Apache-2.0
#include "cost/inference_pass.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "cost/local_shapes.h"
#include "graph/op.h"
#include "graph/regions.h"

namespace shardplan {
namespace {

constexpr double kByte = 8;
// Decoding attention splits the keys over the device, then joins the parts.
constexpr double kDecodeKernels = 2;

// Returns the share of experts that at least one of `tokens` chooses, if each
// token chooses `choices` of them and all choices are equally likely.
double touched_share(double experts, double choices, double tokens) {
  return 1 - std::pow(1 - std::min(choices / experts, 1.0), tokens);
}

class InferencePricer {
 public:
  explicit InferencePricer(const InferencePass& of)
      : of_(of),
        view_(of.view),
        scale_(of.run.tokens() / of.program_tokens),
        parts_(of.view.registers.size(), 1.0),
        chain_of_(of.view.registers.size(), -1),
        result_of_(of.view.graph().nodes.size()),
        attention_of_(of.view.graph().nodes.size()),
        experts_of_(of.view.graph().nodes.size()),
        leaves_chain_(of.view.registers.size()),
        segments_(of.view.layer_of_segment.size()) {
    for (const Region& region : view_.graph().regions) {
      for (const NodeId n : region.nodes) {
        if (region.kind == Region::Kind::Attention) attention_of_[n] = &region;
        if (region.kind == Region::Kind::Experts) experts_of_[n] = &region;
      }
    }
    for (const InstructionId i : view_.instructions()) {
      if (view_.computes(i)) result_of_[view_.at(i).node] = view_.at(i).result;
      if (view_.at(i).kind == Instruction::Kind::Load) continue;
      if (is_chained(i)) continue;
      for (const RegisterId operand : view_.at(i).operands) {
        leaves_chain_[operand] = true;
      }
    }
  }

  std::vector<InferenceSegment> run(std::string& why) {
    for (const InstructionId i : view_.instructions()) {
      if (view_.at(i).kind != Instruction::Kind::Load) price(i);
    }
    for (auto& [key, product] : joined_) multiply(product, at(key.first).pass);
    for (const Chain& chain : chains_) pass_over(chain.bytes, chain.segment);
    for (const auto& [key, sum] : sums_) send_sum(key.first, sum);
    if (!problem_.empty()) {
      why = problem_;
      return {};
    }
    return std::move(segments_);
  }

 private:
  // A product, or several products of one input side by side.
  struct Product {
    ProductShape shape;
    WeightUse use;
    // For products of experts: how many experts there are, how many a token
    // chooses, and the rows of one on average. Otherwise 0.
    double experts = 0;
    double choices = 0;
    double rows = 0;
    double ranks = 1;  // ranks over which experts are dealt out whole
  };
  struct Chain {
    size_t segment = 0;
    double bytes = 0;
  };
  struct Sum {
    AxisNames axes;
    double bytes = 0;
    NodeId node;
  };

  size_t segment(InstructionId i) const {
    return to_size(std::max(view_.segment(i), 0));
  }
  InferenceSegment& at(size_t segment) { return segments_[segment]; }
  InferenceSegment& at(InstructionId i) { return at(segment(i)); }

  // Returns the numbers of a register on a device in this run.
  double numbers(RegisterId reg) const {
    return static_cast<double>(local_elements(view_, reg)) *
           view_.reg(reg).filled * scale_ / parts_[reg];
  }
  double bytes(RegisterId reg) const {
    return numbers(reg) *
           (view_.value(reg).is_integer() ? 4 : of_.element_bytes);
  }

  bool is_chained(InstructionId i) const {
    if (!view_.computes(i)) return false;
    const OpDef& op = view_.op(i);
    return op.recompute_cost == RecomputeCost::View ||
           (is_cheap(op.recompute_cost) &&
            attention_of_[view_.at(i).node] == nullptr);
  }

  void price(InstructionId i) {
    const Instruction& made = view_.at(i);
    if (made.kind == Instruction::Kind::Collective) return send(i);
    if (!view_.computes(i)) {
      parts_[made.result] = parts_[made.operands[0]];
      return;
    }
    if (view_.reg(made.result).weight || made.operands.empty()) return;
    const OpDef& op = view_.op(i);
    for (const RegisterId operand : made.operands) {
      if (view_.reg(operand).weight) continue;
      parts_[made.result] = std::max(parts_[made.result], parts_[operand]);
    }
    const Region* const attention = attention_of_[made.node];
    const bool is_view = op.recompute_cost == RecomputeCost::View;
    if (!is_view) at(i).calls += 1;
    if (attention != nullptr) {
      if (attention->nodes.back() == made.node) attend(i, *attention);
      return;
    }
    if (is_view) {
      chain_of_[made.result] = chain_of_[made.operands[0]];
      return;
    }
    if (op.is_product) return add_product(i);
    if (op.is_lookup) return look_up(i);
    if (is_cheap(op.recompute_cost)) return chain(i);
    if (op.exchange != TokenExchange::None) {
      // Tokens are sorted by expert, or their answers added up.
      const RegisterId from = made.operands[0];
      const bool grows = numbers(made.result) > numbers(from);
      pass_over(2 * bytes(grows ? made.result : from), segment(i));
      if (op.exchange == TokenExchange::FromExperts) parts_[made.result] = 1;
      return;
    }
    double moved = bytes(made.result);
    for (const RegisterId operand : made.operands) {
      if (!view_.reg(operand).weight) moved += bytes(operand);
    }
    if (op.recompute_cost == RecomputeCost::Expensive && !op.is_decision)
      recur(i);
    pass_over(moved, segment(i));
  }

  // Prices an operation that works element by element or sums over rows. It is
  // one kernel with what made its operands, if that is such an operation as
  // well.
  void chain(InstructionId i) {
    const Instruction& made = view_.at(i);
    int& own = chain_of_[made.result];
    double moved = 0;
    for (const RegisterId operand : made.operands) {
      if (view_.reg(operand).weight) continue;
      if (chain_of_[operand] >= 0) {
        own = chain_of_[operand];
      } else {
        moved += bytes(operand);
      }
    }
    if (leaves_chain_[made.result] || view_.reg(made.result).output) {
      moved += bytes(made.result);
    }
    // A chain that began in another part of the model is a new kernel here.
    if (own < 0 || nth(chains_, own).segment != segment(i)) {
      own = static_cast<int>(chains_.size());
      chains_.push_back({segment(i), 0});
    }
    nth(chains_, own).bytes += moved;
  }

  void pass_over(double moved, size_t segment) {
    if (moved <= 0) return;
    auto priced = memory_time(of_.card, moved);
    if (!priced) {
      problem_ = "the profile " + in_backticks(of_.card.name) +
                 " has no memory bandwidth";
      return;
    }
    priced->seconds.lower = 0;  // moves nothing if fused with a product
    PassTime& pass = at(segment).pass;
    add(pass.memory, *priced);
    pass.kernels += 1;
  }

  // Adds the arithmetic of a recurrence, and reading and writing its state.
  void recur(InstructionId i) {
    const double parts = parts_[view_.at(i).result];
    add(at(i).pass.memory, recurrence_time(view_, i, of_.card, of_.precision),
        scale_ / parts);
    if (!stateful_.insert(segment(i)).second) return;
    const double state = of_.state_bytes * of_.run.sequences() / parts;
    at(i).least_bytes += state;
    pass_over(2 * state, segment(i));
  }

  void look_up(InstructionId i) {
    const Instruction& made = view_.at(i);
    pass_over(2 * bytes(made.result), segment(i));
    const RegisterId table = made.operands[0];
    if (!view_.reg(table).weight) return;
    const WeightUse use = use_of(table);
    for (const WeightCut& cut : use.cuts) {
      if (cut.parts > 1) need_sum(i, cut.axes, Summed::Rows);
    }
  }

  // Attention.

  void attend(InstructionId i, const Region& region) {
    const AttentionShape whole = local_attention(view_, region, result_of_);
    const RunTokens& run = of_.run;
    double q_parts = 1;
    double kv_parts = 1;
    for (const NodeId n : region.nodes) {
      if (!multiplies_values(view_.graph(), n) || !result_of_[n]) continue;
      const auto& operands = view_.at(view_.reg(result_of_[n]).maker).operands;
      q_parts = std::max(q_parts, parts_[operands[0]]);
      kv_parts = std::max(kv_parts, parts_[operands[1]]);
    }
    parts_[view_.at(i).result] = q_parts;
    AttentionShape sharded = whole;
    sharded.heads = whole.heads / of_.program_sequences / q_parts;
    sharded.kv_heads =
        std::max(whole.kv_heads / of_.program_sequences / kv_parts, 1.0);
    InferenceSegment& own = at(i);
    if (run.decoding > 0) {
      AttentionShape shape = sharded;
      shape.batch = run.decoding;
      shape.queries = 1;
      shape.keys =
          whole.window > 0 ? std::min(run.context, whole.window) : run.context;
      shape.causal = false;
      if (of_.latent > 0) {
        // Queries are multiplied with the latent itself, which is both key and
        // value.
        shape.head_dim = shape.value_dim = of_.latent;
        shape.kv_heads = 0.5;
      }
      // The kernel is priced as if the cache had the dtype of activations.
      shape.kv_heads *= of_.kv_bits / (of_.element_bytes * kByte);
      own.least_bytes += run.decoding * shape.keys * shape.kv_heads *
                         (shape.head_dim + shape.value_dim) * of_.element_bytes;
      attend(shape, own.pass);
      add(own.pass.attention, kernel_start(of_.card), kDecodeKernels - 1);
    }
    if (run.prompts > 0) {
      AttentionShape shape = sharded;
      shape.batch = run.prompts;
      // A device that has some of the heads attends to all tokens, even if it
      // otherwise has only a part of them.
      const double gathered =
          whole.queries * of_.program_sequences / of_.program_tokens;
      shape.queries = run.length * gathered;
      shape.keys = shape.queries +
                   std::max(run.before - (shape.queries - run.length) / 2, 0.0);
      if (whole.window > 0 && whole.window < shape.keys) {
        shape.keys = whole.window;
        shape.causal = false;
      }
      attend(shape, own.pass);
    }
  }
  void attend(const AttentionShape& shape, PassTime& time) {
    const auto priced =
        attention_time(of_.card, of_.precision, shape, false, "");
    if (!priced) return;
    add(time.attention, *priced);
    time.kernels += 1;
  }

  // Products.

  WeightUse use_of(RegisterId reg) const {
    const RegisterId root = loaded(reg);
    const Value& value = view_.value(root);
    return of_.weight(value.parameter.empty() ? value.name : value.parameter);
  }
  // Returns the parameter that a weight is made of.
  RegisterId loaded(RegisterId reg) const {
    InstructionId maker = view_.reg(reg).maker;
    while (view_.at(maker).kind != Instruction::Kind::Load) {
      const auto& operands = view_.at(maker).operands;
      if (operands.empty()) break;
      maker = view_.reg(operands[0]).maker;
    }
    return view_.at(maker).result;
  }

  // Returns the dimension of a weight, as a product reads it, that corresponds
  // to a dimension of the parameter; -1 if there is none.
  static int seen_as(const Shape& parameter, size_t dim, const Shape& read) {
    if (read.size() == parameter.size() && read[dim] == parameter[dim]) {
      return static_cast<int>(dim);
    }
    // One layer or one expert of several: dimensions count from the last.
    const auto from_last = static_cast<int>(dim) -
                           static_cast<int>(parameter.size()) +
                           static_cast<int>(read.size());
    if (from_last >= 0 && nth(read, from_last) == parameter[dim]) {
      return from_last;
    }
    for (size_t d = 0; d < read.size(); ++d) {
      if (read[d] == parameter[dim]) return static_cast<int>(d);
    }
    // Heads, and the size of each, as separate dimensions.
    for (size_t d = 0; d < read.size(); ++d) {
      if (read[d] > 1 && parameter[dim] % read[d] == 0) {
        return static_cast<int>(d);
      }
    }
    return -1;
  }

  void add_product(InstructionId i) {
    const Instruction& made = view_.at(i);
    const LocalProduct local = local_product(view_, i);
    size_t w = made.operands.size();
    for (size_t o = 0; o < made.operands.size(); ++o) {
      if (view_.reg(made.operands[o]).weight) w = o;
    }
    Product product;
    product.shape = local.shape;
    if (w == made.operands.size()) {
      // Two activations: tables of positions, or an attention that was not
      // recognised, whose keys grow with the context.
      if (of_.run.decoding > 0 && of_.run.context > 0 &&
          view_.multiplies_values(i) && of_.latent == 0) {
        problem_ =
            "a matmul of two activations is not recognised as attention: " +
            in_backticks(view_.value(made.result).name);
        return;
      }
      product.shape.m = std::max(local.rows * scale_, 1.0);
      multiply(product, at(i).pass);
      return;
    }
    product.use = use_of(made.operands[w]);
    if (w == 0) std::swap(product.shape.m, product.shape.n);
    cut(i, w, product);
    const Region* const experts = experts_of_[made.node];
    double rows = local.rows * scale_;
    if (product.use.all_groups) rows *= of_.expert_groups;
    if (experts != nullptr && experts->experts > 1 &&
        view_.reg(made.result).filled < 1) {
      product.experts = static_cast<double>(experts->experts);
      product.choices = static_cast<double>(experts->choices);
      product.rows = rows;
    }
    if (view_.reg(made.result).output) {
      // Only the last token of a prompt predicts what comes next.
      rows *= of_.run.sequences() / of_.run.tokens();
    }
    product.shape.m = std::max(rows, 1.0);
    count_reads(product, segment(i));
    if (product.experts > 0) return multiply(product, at(i).pass);
    const RegisterId input = view_.reg(made.operands[1 - w]).root;
    const auto key = std::pair(
        segment(i), std::tuple(input, product.shape.groups, product.shape.k,
                               product.use.bits, product.use.precision, rows));
    const auto [found, is_new] = joined_.emplace(key, product);
    if (!is_new) found->second.shape.n += product.shape.n;
  }

  // Shards a product along the dimensions of the weight that an engine shards.
  void cut(InstructionId i, size_t w, Product& product) {
    const Instruction& made = view_.at(i);
    double& result_parts = parts_[made.result];
    if (product.use.cuts.empty()) return;
    const ShardingRule& rule = view_.node(i).rule;
    const Shape& read = view_.value(made.operands[w]).shape;
    const Shape& stored = view_.value(loaded(made.operands[w])).shape;
    const auto is_in = [](const std::vector<DimFactors>& dims, int factor) {
      return std::ranges::any_of(
          dims, [&](const DimFactors& dim) { return contains(dim, factor); });
    };
    double given = 1;  // the number of parts of the result
    for (size_t d = 0; d < product.use.cuts.size() && d < stored.size(); ++d) {
      const WeightCut& cut = product.use.cuts[d];
      if (cut.parts <= 1) continue;
      const int dim = seen_as(stored, d, read);
      if (dim < 0) continue;
      const DimFactors& factors = nth(rule.operands[w], dim);
      if (factors.empty()) continue;
      const int factor = factors.front();
      if (!is_in(rule.result, factor)) {
        product.shape.k /= cut.parts;
        need_sum(i, cut.axes,
                 product.use.attention ? Summed::Attention : Summed::Mlp);
        continue;
      }
      given *= cut.parts;
      if (is_in(rule.operands[1 - w], factor)) {
        product.shape.groups /= cut.parts;
        product.ranks = cut.parts;
        need_sum(i, cut.axes, Summed::Mlp);
      } else {
        product.shape.n /= cut.parts;
        if (view_.reg(made.result).output && product.use.vocabulary) {
          gather_answers(i, cut.axes);
        }
      }
    }
    result_parts = given;
  }

  // Adds the bytes of the product's weight that any run reads.
  void count_reads(const Product& product, size_t segment) {
    double groups = product.shape.groups;
    if (product.experts > 0 && product.rows > 0) {
      groups *= std::min(1.0, product.choices / product.experts);
    }
    at(segment).least_bytes +=
        groups * product.shape.k * product.shape.n * product.use.bits / kByte;
  }

  void multiply(Product& product, PassTime& time) {
    ProductShape& shape = product.shape;
    shape.right_bits = product.use.bits;
    auto priced = product.experts > 0
                      ? price_experts(product)
                      : product_time(of_.card, product.use.precision, shape);
    if (!priced) {
      problem_ = "the profile " + in_backticks(of_.card.name) +
                 " has no matmul rate in " +
                 std::string(nth(kPrecisionNames, product.use.precision));
      return;
    }
    if (of_.run.prompts > 0) {
      priced->seconds.estimate *= kWarmProducts;
      priced->seconds.upper *= kWarmProducts;
    }
    add(time.products, *priced);
    time.kernels += 1;
    // A separate kernel converts the input to 4 bits; to 8 bits, the kernel
    // that made the input converts it.
    if (product.use.precision == Precision::F4) {
      const double rows = product.experts > 0 ? product.rows * shape.groups
                                              : shape.m * shape.groups;
      auto cast = memory_time(of_.card, rows * shape.k * 3);
      if (!cast) return;
      cast->seconds.lower = 0;
      add(time.memory, *cast);
      time.kernels += 1;
    }
  }

  // Prices a product of experts. Experts that no token chooses are not read.
  // The estimate draws choices at random; in the lower end all tokens choose
  // the same few experts, in the upper end as many different experts as there
  // are choices.
  std::optional<PricedTime> price_experts(const Product& product) {
    const double here = product.shape.groups;
    const double rows = product.rows;
    const double tokens = rows * product.experts / product.choices;
    const double share =
        touched_share(product.experts, product.choices, tokens);
    double touched = here * share;
    if (product.ranks > 1) {
      // The slowest rank is that on which most experts are chosen.
      touched +=
          std::sqrt(here * share * (1 - share) * 2 * std::log(product.ranks));
    }
    touched = std::min(touched, here);
    const std::array<double, 3> counts = {
        here * std::min(1.0, product.choices / product.experts), touched,
        std::min(here, std::max(here * rows, touched))};
    std::array<PricedTime, 3> priced;
    for (size_t k = 0; k < counts.size(); ++k) {
      ProductShape shape = product.shape;
      // Less than one expert costs that share of one expert's product.
      const double whole = std::max(counts.at(k), 1.0);
      shape.groups = whole;
      shape.m = std::max(rows * here / whole, 1.0);
      shape.right_bits = product.use.bits;
      const auto one = product_time(of_.card, product.use.precision, shape);
      if (!one) return std::nullopt;
      priced.at(k) = *one;
      if (counts.at(k) < 1) {
        priced.at(k).seconds = priced.at(k).seconds * counts.at(k);
      }
    }
    Seconds& seconds = priced[1].seconds;
    seconds.lower = std::min(priced[0].seconds.lower, seconds.estimate);
    seconds.upper = std::max(seconds.upper, priced[2].seconds.upper);
    return priced[1];
  }

  // Collectives.

  void send(InstructionId i) {
    const Instruction& made = view_.at(i);
    if (view_.reg(made.result).weight && made.operands.empty()) return;
    const bool grows = made.collective == CollectiveKind::AllGather;
    const RegisterId whole = grows ? made.result : made.operands[0];
    const bool of_weight = view_.reg(made.result).weight;
    at(segment(i))
        .pass.sends.push_back(
            {.kind = made.collective,
             .axes = made.axes,
             .bytes = bytes(whole) * (of_weight ? 1 / scale_ : 1),
             .of_weight = of_weight,
             .node = made.node});
  }
  // Sums over ranks. A layer sums the output of attention, and that of its MLP
  // or of all its experts together. Before layers, ranks sum the rows of a
  // sharded table.
  enum class Summed : uint8_t { Attention, Mlp, Rows };
  void need_sum(InstructionId i, const AxisNames& axes, Summed what) {
    if (axes.empty()) return;
    const Instruction& made = view_.at(i);
    const auto& shape = view_.value(made.result).shape;
    sums_[{segment(i), what}] = {axes,
                                 static_cast<double>(shape.back()) *
                                     of_.run.tokens() * of_.element_bytes,
                                 made.node};
  }
  void send_sum(size_t segment, const Sum& sum) {
    PassTime& pass = at(segment).pass;
    if (of_.expert_groups == 1 || sum.axes != of_.expert_axes) {
      pass.sends.push_back(
          {.axes = sum.axes, .bytes = sum.bytes, .node = sum.node});
      return;
    }
    // Each group sends its tokens to all experts, and gets its own sums back.
    for (const CollectiveKind kind :
         {CollectiveKind::AllGather, CollectiveKind::ReduceScatter}) {
      pass.sends.push_back({.kind = kind,
                            .axes = sum.axes,
                            .bytes = sum.bytes * of_.expert_groups,
                            .node = sum.node});
    }
  }
  void gather_answers(InstructionId i, const AxisNames& axes) {
    const auto& shape = view_.value(view_.at(i).result).shape;
    at(segment(i))
        .pass.sends.push_back({.kind = CollectiveKind::AllGather,
                               .axes = axes,
                               .bytes = static_cast<double>(shape.back()) *
                                        of_.run.sequences() * of_.element_bytes,
                               .node = view_.at(i).node});
  }

  const InferencePass& of_;
  const ProgramView& view_;
  double scale_ = 1;
  PerRegister<double> parts_;  // in how many parts an engine has it
  PerRegister<int> chain_of_;
  PerNode<RegisterId> result_of_;
  PerNode<const Region*> attention_of_;
  PerNode<const Region*> experts_of_;
  PerRegister<bool> leaves_chain_;  // something other than a chain reads it
  std::vector<Chain> chains_;
  std::map<std::pair<size_t, std::tuple<RegisterId, double, double, double,
                                        Precision, double>>,
           Product>
      joined_;
  std::map<std::pair<size_t, Summed>, Sum> sums_;
  std::set<size_t> stateful_;
  std::vector<InferenceSegment> segments_;
  std::string problem_;
};

}  // namespace

std::vector<InferenceSegment> price_inference(const InferencePass& pass,
                                              std::string& why) {
  return InferencePricer(pass).run(why);
}

}  // namespace shardplan
