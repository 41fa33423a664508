// SPDX-License-Identifier: Apache-2.0
// Lists the tensors that replace the weight [out, in] of a linear layer.
// DimKind::block of each dimension is the number of elements that share a scale
// or are packed into one word, so that no shard may separate them.
//
//   Fp8           weight [out, in], weight_scale_inv (or `scale`) per block
//   Scaled        weight [out, in], weight_scale, weight_zero_point; torchao's
//                 _weight_qdata, _weight_scale, _weight_zero_point
//   PackedInts    weight_packed i32 [out, in / n], n inputs in a word;
//                 weight_scale; weight_zero_point i32 [out / n, groups];
//                 weight_shape
//   PackedFloats  weight or weight_packed u8 or i8 [out, in / 2],
//                 weight_scale or `scale`
//   Awq           qweight i32 [in, out / n], qzeros i32 [groups, out / n],
//                 scales [groups, out]
//   Gptq          qweight i32 [in / n, out], qzeros i32 [groups, out / n],
//                 scales [groups, out], g_idx i32 [in]
//   Bits8         weight i8 [out, in], SCB f32 [out], weight_format u8 []
//   Bits4         weight u8 [out x in / 2, 1], row after row; an `absmax` per
//                 64 values; quant_map; quant_state, which is JSON; if the
//                 statistics are also quantised, nested_absmax per 256 of them
//   Blocks        NAME_blocks u8 [E, out, in / 32, 16], NAME_scales
//   Mlx           weight u32 [out, in x bits / 32], scales and biases
//                 [out, groups]
#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <numeric>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "model/architecture/quantisation.h"

namespace shardplan {
namespace {

using Scales = WeightScheme::Scales;

constexpr int64_t kWordBits = 32;
constexpr int64_t kMxfp4Block = 32;
constexpr int64_t kMxfp4Bytes = 16;
constexpr int64_t kBits4Block = 64;
constexpr int64_t kBits4Values = 16;
// bitsandbytes quantises 256 statistics together, each to one of 256 values.
constexpr int64_t kNestedBlock = 256;
constexpr int64_t kNestedValues = 256;

// Returns the kind of a dimension after `factor` elements became one. No shard
// may separate `block` of the resulting elements.
DimKind scaled(DimKind kind, int64_t size, int64_t factor, int64_t block) {
  kind.block = block;
  if (factor == 1) return kind;
  kind.unit = factor;
  const int64_t stored = ceil_div(size, factor);
  const bool side_by_side = kind.count == 0 && !kind.parts.empty();
  if (side_by_side) {
    for (DimPart& part : kind.parts) {
      if (part.rows % factor != 0) return {"", 0, {}, stored};
      part.rows /= factor;
      if (part.count > 0) part.count = std::gcd(part.count, part.rows);
    }
    return kind;
  }
  // Shards consist of whole heads and whole words, so their number divides
  // both.
  if (kind.count > 0) kind.count = std::gcd(kind.count, stored);
  return kind;
}

class Writer {
 public:
  Writer(const LinearWeight& linear, const WeightScheme& scheme,
         const LinearPlace& place, const Quantisation& quantisation)
      : linear_(linear),
        scheme_(scheme),
        place_(place),
        section_(*quantisation.section),
        group_(scheme.group == 0 ? linear.in : scheme.group) {}

  std::optional<std::vector<CheckpointTensor>> write() {
    // In the order of WeightFormat.
    constexpr bool (Writer::*kFormats[])() = {
        &Writer::fp8,         &Writer::scaled_weight,
        &Writer::packed_ints, &Writer::packed_floats,
        &Writer::awq,         &Writer::gptq,
        &Writer::bits8,       &Writer::bits4,
        &Writer::blocks,      &Writer::mlx};
    if (!(this->*nth(kFormats, scheme_.format))()) return std::nullopt;
    // A dimension without a block can be split anywhere: 0. (1 means that this
    // is unknown.)
    for (CheckpointTensor& tensor : tensors_) {
      for (DimKind& dim : tensor.kind) {
        if (dim.block == 1) dim.block = 0;
      }
    }
    return std::move(tensors_);
  }

 private:
  CheckpointTensor& add(const std::string& name, DType dtype, Shape shape,
                        ParameterKind kind) {
    tensors_.push_back({linear_.name + "." + name,
                        {dtype, std::move(shape)},
                        std::move(kind)});
    return tensors_.back();
  }
  void add_buffer(const std::string& name, DType dtype, Shape shape) {
    add(name, dtype, std::move(shape), {}).buffer = true;
  }
  void add_scalars() {
    for (const auto& [name, dtype] : scheme_.scalars) {
      add_buffer(name, dtype.value_or(linear_.dtype), scheme_.scalar);
    }
  }

  bool refuse(const std::string& what) {
    section_
        .refuse("", "the weight of " + in_backticks(place_.path) + " " + what)
        .fact("it is [" + count_text(linear_.out) + ", " +
              count_text(linear_.in) + "]");
    return false;
  }
  bool divides(int64_t unit, int64_t size, const std::string& what) {
    if (size % unit == 0) return true;
    return refuse("does not consist of whole " + what + " of " +
                  std::to_string(unit));
  }

  DimKind out(int64_t factor = 1, int64_t block = 1) const {
    return scaled(linear_.out_kind, linear_.out, factor, block);
  }
  DimKind in(int64_t factor = 1, int64_t block = 1) const {
    return scaled(linear_.in_kind, linear_.in, factor, block);
  }

  // Returns the number of stored elements whose inputs must not be separated;
  // each stored element is `factor` inputs.
  int64_t group_block(int64_t factor) const {
    if (group_ >= linear_.in) return 1;
    return std::lcm(group_, factor) / factor;
  }

  Shape scale_shape() const {
    switch (scheme_.scales) {
      case Scales::Tensor:
        return scheme_.scalar;
      case Scales::Channel:
        return {linear_.out, 1};
      case Scales::Group:
        return {linear_.out, ceil_div(linear_.in, group_)};
      case Scales::Block:
        return {ceil_div(linear_.out, scheme_.block_rows),
                ceil_div(linear_.in, scheme_.block_columns)};
    }
    return {};
  }
  // Returns the dimensions of a weight that is not packed.
  ParameterKind plain_kind() const {
    switch (scheme_.scales) {
      case Scales::Group:
        return {out(), in(1, group_block(1))};
      case Scales::Block:
        return {out(1, scheme_.block_rows), in(1, scheme_.block_columns)};
      default:
        return {out(), in()};
    }
  }
  // Adds scales. One-byte scales are half of a weight's encoding and are
  // sharded with it. Other scales are few and replicated.
  void add_scale(const std::string& name, DType dtype) {
    if (dtype == DType::F8E4M3 || dtype == DType::F8E8M0 ||
        dtype == DType::U8) {
      add(name, dtype, scale_shape(), {out(), in(group_)});
    } else {
      add_buffer(name, dtype, scale_shape());
    }
  }

  // Adds stacked experts as transformers 5 stores models that it quantises
  // itself: in the same shape, with a scale per block of each expert.
  bool stacked_fp8() {
    const bool blocks = scheme_.scales == Scales::Block;
    Shape shape = linear_.stack;
    ParameterKind kinds = linear_.stack_kind;
    Shape scales = linear_.stack;
    ParameterKind scale_kinds = linear_.stack_kind;
    const auto add_side = [&](int64_t size, DimKind kind, int64_t block) {
      scales.push_back(blocks ? ceil_div(size, block) : 1);
      scale_kinds.push_back(blocks ? scaled(kind, size, block, 1) : DimKind());
      kind.block = block;
      shape.push_back(size);
      kinds.push_back(std::move(kind));
    };
    const auto add_out = [&] {
      add_side(linear_.out, linear_.out_kind, scheme_.block_rows);
    };
    if (!linear_.inputs_first) add_out();
    add_side(linear_.in, linear_.in_kind, scheme_.block_columns);
    if (linear_.inputs_first) add_out();
    const std::string name = linear_.name + linear_.weight;
    tensors_.push_back({name, {scheme_.weight_dtype, shape}, kinds});
    tensors_.push_back({name + "_scale_inv",
                        {scheme_.scale_dtype.value_or(DType::F32), scales},
                        scale_kinds});
    return true;
  }

  bool fp8() {
    if (!linear_.stack.empty()) return stacked_fp8();
    add("weight", scheme_.weight_dtype, {linear_.out, linear_.in},
        plain_kind());
    add_buffer(scheme_.scale_name, scheme_.scale_dtype.value_or(DType::F32),
               scale_shape());
    add_scalars();
    return true;
  }

  bool scaled_weight() {
    if (scheme_.scales == Scales::Group &&
        !divides(group_, linear_.in, "groups")) {
      return false;
    }
    if (scheme_.scales == Scales::Block &&
        !divides(scheme_.block_columns, linear_.in, "blocks")) {
      return false;
    }
    add(scheme_.weight_name, scheme_.weight_dtype, {linear_.out, linear_.in},
        plain_kind());
    add_scale(scheme_.scale_name, scheme_.scale_dtype.value_or(linear_.dtype));
    if (scheme_.zero_points) {
      std::string points = scheme_.scale_name;
      points.replace(points.rfind("scale"), std::string::npos, "zero_point");
      add(points, scheme_.weight_dtype, scale_shape(),
          ParameterKind(scale_shape().size()));
    }
    add_scalars();
    return true;
  }

  bool packed_ints() {
    const int64_t values = kWordBits / scheme_.bits;
    const bool grouped = scheme_.scales == Scales::Group;
    if (grouped && !divides(group_, linear_.in, "groups")) return false;
    add("weight_packed", DType::I32,
        {linear_.out, ceil_div(linear_.in, values)},
        {out(), in(values, grouped ? group_block(values) : 1)});
    add_scale("weight_scale", linear_.dtype);
    add_buffer("weight_shape", DType::I64, {2});
    if (scheme_.zero_points) {
      if (scheme_.scales == Scales::Tensor) {
        return refuse("has one zero point, whose packing is not supported");
      }
      add("weight_zero_point", DType::I32,
          {ceil_div(linear_.out, values), scale_shape()[1]},
          {out(values), grouped ? in(group_) : DimKind()});
    }
    add_scalars();
    return true;
  }

  bool packed_floats() {
    if (!divides(group_, linear_.in, "groups")) return false;
    add(scheme_.weight_name, scheme_.weight_dtype,
        {linear_.out, linear_.in / 2}, {out(), in(2, group_block(2))});
    add_scale(scheme_.scale_name, *scheme_.scale_dtype);
    add_scalars();
    return true;
  }

  bool awq() {
    const int64_t values = kWordBits / scheme_.bits;
    if (!divides(group_, linear_.in, "groups") ||
        !divides(values, linear_.out, "words")) {
      return false;
    }
    const int64_t groups = linear_.in / group_;
    add("qweight", DType::I32, {linear_.in, linear_.out / values},
        {in(1, group_block(1)), out(values)});
    if (scheme_.zero_points) {
      add("qzeros", DType::I32, {groups, linear_.out / values},
          {in(group_), out(values)});
    }
    add("scales", DType::F16, {groups, linear_.out},
        {in(group_), out(1, values)});
    return true;
  }

  bool gptq() {
    const int64_t values = kWordBits / scheme_.bits;
    if (!divides(kWordBits, linear_.in, "words") ||
        !divides(kWordBits, linear_.out, "words")) {
      return false;
    }
    const int64_t groups = ceil_div(linear_.in, group_);
    // With desc_act the inputs of a group may be anywhere, so a device with
    // sharded inputs needs the scales of every group. The scales then have no
    // label and are replicated unless a rule names them. The residual stream is
    // gathered, so its scales retain their label.
    DimKind scaled_groups = in(group_, scheme_.reordered ? groups : 1);
    if (scheme_.reordered && scaled_groups.axis != "hidden") {
      scaled_groups.axis.clear();
    }
    const int64_t together = scheme_.reordered ? 1 : group_block(values);
    add("qweight", DType::I32, {linear_.in / values, linear_.out},
        {in(values, together), out()});
    add("qzeros", DType::I32, {groups, linear_.out / values},
        {scaled_groups, out(values)});
    add("scales", DType::F16, {groups, linear_.out},
        {scaled_groups, out(1, values)});
    add("g_idx", DType::I32, {linear_.in},
        {in(1, scheme_.reordered ? 1 : group_block(1))});
    return true;
  }

  bool bits8() {
    add("weight", DType::I8, {linear_.out, linear_.in}, {out(), in()});
    add("SCB", DType::F32, {linear_.out}, {out()});
    add_buffer("weight_format", DType::U8, {});
    return true;
  }

  bool bits4() {
    const auto values = checked_mul(linear_.out, linear_.in);
    if (!values) return refuse("has too many elements");
    // Shards consist of whole rows and whole blocks. These are the bytes of the
    // fewest rows that do.
    const int64_t rows = std::lcm(linear_.in, kBits4Block) / linear_.in;
    const bool whole = linear_.out % rows == 0;
    const int64_t together = whole ? rows * linear_.in : *values;
    DimKind bytes;
    bytes.block = ceil_div(together, 2);
    DimKind maxima;
    maxima.block = ceil_div(together, kBits4Block);
    const int64_t blocks = ceil_div(*values, kBits4Block);
    add("weight", DType::U8, {ceil_div(*values, 2), 1}, {bytes, {}});
    add("weight.absmax", scheme_.nested ? DType::U8 : DType::F32, {blocks},
        {maxima});
    if (scheme_.nested) {
      // These are few, and their blocks do not end with rows, so they are
      // replicated.
      add("weight.nested_absmax", DType::F32, {ceil_div(blocks, kNestedBlock)},
          {DimKind()});
      add_buffer("weight.nested_quant_map", DType::F32, {kNestedValues});
    }
    add_buffer("weight.quant_map", DType::F32, {kBits4Values});
    const char* const dtype = linear_.dtype == DType::BF16  ? "bfloat16"
                              : linear_.dtype == DType::F16 ? "float16"
                                                            : "float32";
    std::string state = R"({"quant_type": ")" + scheme_.quant_type +
                        R"(", "blocksize": )" + std::to_string(kBits4Block) +
                        R"(, "dtype": ")" + dtype + R"(", "shape": [)" +
                        std::to_string(linear_.out) + ", " +
                        std::to_string(linear_.in) + "]";
    // The offset depends on the weights; it usually has as many digits as this
    // one.
    if (scheme_.nested) {
      state += R"(, "nested_blocksize": 256, "nested_dtype": "float32", )"
               R"("nested_offset": 0.04358131065964699)";
    }
    state += "}";
    add_buffer("weight.quant_state.bitsandbytes__" + scheme_.quant_type,
               DType::U8, {std::ssize(state)});
    return true;
  }

  static Shape with(const Shape& front, std::initializer_list<int64_t> rest) {
    Shape shape = front;
    shape.insert(shape.end(), rest);
    return shape;
  }
  ParameterKind stacked(std::initializer_list<DimKind> rest) const {
    ParameterKind kind = linear_.stack_kind;
    kind.insert(kind.end(), rest.begin(), rest.end());
    return kind;
  }

  // OCP Microscaling Formats v1.0, 5.3: 32 values of 4 bits share an exponent
  // byte. Blocks run along the contracted dimension, which is therefore stored
  // last. Scales are half of a weight's encoding, so they are parameters.
  bool blocks() {
    if (!divides(kMxfp4Block, linear_.in, "MXFP4 blocks")) return false;
    const int64_t count = linear_.in / kMxfp4Block;
    const std::string name = linear_.name + linear_.weight;
    tensors_.push_back(
        {name + "_blocks",
         {DType::U8, with(linear_.stack, {linear_.out, count, kMxfp4Bytes})},
         stacked({out(), in(kMxfp4Block), {"", 0, {}, kMxfp4Bytes}})});
    tensors_.push_back({name + "_scales",
                        {DType::U8, with(linear_.stack, {linear_.out, count})},
                        stacked({out(), in(kMxfp4Block)})});
    return true;
  }

  bool mlx() {
    if (!divides(group_, linear_.in, "groups")) return false;
    // Values of 3, 5 or 6 bits can span two words.
    const int64_t bits = linear_.in * scheme_.bits;
    if (bits % kWordBits != 0) return refuse("does not fill its last word");
    const int64_t together = std::lcm(group_ * scheme_.bits, kWordBits);
    DimKind words = in();
    words.block = together / kWordBits;
    if (words.count > 0) words.count = std::gcd(words.count, bits / kWordBits);
    if (words.count == 0) words.parts.clear();
    add("weight", DType::U32, {linear_.out, bits / kWordBits}, {out(), words});
    const ParameterKind scales = {out(), in(group_)};
    const int64_t groups = linear_.in / group_;
    add("scales", linear_.dtype, {linear_.out, groups}, scales);
    add("biases", linear_.dtype, {linear_.out, groups}, scales);
    return true;
  }

  const LinearWeight& linear_;
  const WeightScheme& scheme_;
  const LinearPlace& place_;
  ConfigReader& section_;
  int64_t group_;
  std::vector<CheckpointTensor> tensors_;
};

// Splits stacked experts into layers of one expert each, as stored by programs
// that quantise only linear layers: gate_up_proj becomes gate_proj and up_proj
// of each expert.
std::vector<LinearWeight> unstacked(const LinearWeight& linear) {
  std::vector<LinearWeight> parts;
  const std::vector<DimPart>& rows = linear.out_kind.parts;
  if (rows.empty()) parts.push_back(linear);
  for (const DimPart& part : rows) {
    LinearWeight& one = parts.emplace_back(linear);
    one.weight = "." + part.name + "_proj";
    one.out = linear.out / std::ssize(rows);
    one.out_kind = {part.label, 0, {}, 0, part.label};
    one.in_kind.axis = one.in_kind.label;
  }
  int64_t experts = 1;
  for (const int64_t size : linear.stack) experts *= size;
  std::vector<LinearWeight> all;
  for (int64_t e = 0; e < experts; ++e) {
    for (const LinearWeight& part : parts) {
      LinearWeight& one = all.emplace_back(part);
      one.name += "." + std::to_string(e) + part.weight;
      one.weight = ".weight";
      one.stack.clear();
      one.stack_kind.clear();
      one.inputs_first = false;
    }
  }
  return all;
}

}  // namespace

std::optional<std::vector<CheckpointTensor>> store_weight(
    const LinearWeight& linear, const WeightScheme* scheme,
    const LinearPlace& place, const Quantisation& quantisation) {
  if (scheme != nullptr) {
    const bool whole = linear.stack.empty() ||
                       scheme->format == WeightFormat::Blocks ||
                       scheme->format == WeightFormat::Fp8;
    if (whole) return Writer(linear, *scheme, place, quantisation).write();
    std::vector<CheckpointTensor> tensors;
    for (const LinearWeight& one : unstacked(linear)) {
      auto written = Writer(one, *scheme, place, quantisation).write();
      if (!written) return std::nullopt;
      std::move(written->begin(), written->end(), std::back_inserter(tensors));
    }
    return tensors;
  }
  CheckpointTensor plain{linear.name + linear.weight,
                         {linear.dtype, linear.stack},
                         linear.stack_kind};
  Shape& shape = plain.type.shape;
  if (linear.inputs_first) {
    shape.insert(shape.end(), {linear.in, linear.out});
    plain.kind.insert(plain.kind.end(), {linear.in_kind, linear.out_kind});
  } else {
    shape.insert(shape.end(), {linear.out, linear.in});
    plain.kind.insert(plain.kind.end(), {linear.out_kind, linear.in_kind});
  }
  return std::vector<CheckpointTensor>{std::move(plain)};
}

std::optional<DType> bias_dtype(const WeightScheme* scheme) {
  const bool half = scheme != nullptr && (scheme->format == WeightFormat::Awq ||
                                          scheme->format == WeightFormat::Gptq);
  return half ? std::optional(DType::F16) : std::nullopt;
}

}  // namespace shardplan
