// SPDX-License-Identifier: Apache-2.0
#include "serve/kernels.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>

#include "base/checked.h"
#include "base/words.h"

namespace shardplan {

// Multiples to which sizes are padded. In a matrix of an expert, `width`
// applies to the dimension that is the expert's width, in place of `rows` or
// `columns`.
struct TileMultiples {
  int64_t rows = 1;
  int64_t columns = 1;
  int64_t width = 1;
};

enum class ScaleForm : uint8_t {
  Stored,
  Rows16,   // FP8 blocks: 16 bits per row and 128 columns
  Words32,  // FP8 blocks: a byte per row and 128 columns, 4 in a word
};

// The form in which a kernel stores weights.
struct KernelForm {
  TileMultiples weights = {};
  TileMultiples scales = {};
  TileMultiples biases = {};
  bool wide_biases = false;  // f32 instead of 16 bits
  ScaleForm form = ScaleForm::Stored;
  // A second copy of the scales, padded so, which is never freed.
  std::optional<TileMultiples> second_scales = std::nullopt;
  bool width_by_group = false;  // the width also fits whole groups
  bool wide_zeros = false;      // zero points have 16 bits
  bool frees_zeros = false;     // frees unused zero points
  int64_t row_gap = 0;          // bytes after each row whose length is a
                                // multiple of 512
  bool as_bf16 = false;
};

enum class Dealing : uint8_t { Any, Cut, Dealt };

// The weights that a kernel is chosen for, and the form that it gives them.
struct KernelRow {
  Packing packing;
  bool experts;
  uint32_t cards;         // bits of CardGeneration
  std::string_view name;  // "": the engine has none for these cards
  KernelForm form;
  // Sizes must be multiples of these, or this row of the table does not apply.
  int64_t whole_rows = 1;
  int64_t whole_columns = 1;
  Dealing dealing = Dealing::Any;
  std::string_view models = "";  // only these model types; "": any
};

namespace {

constexpr uint32_t bit(CardGeneration card) {
  return uint32_t{1} << static_cast<uint32_t>(card);
}
constexpr uint32_t kAmpere = bit(CardGeneration::Ampere);
constexpr uint32_t kAda = bit(CardGeneration::Ada);
constexpr uint32_t kHopper = bit(CardGeneration::Hopper);
constexpr uint32_t kBlackwell = bit(CardGeneration::Blackwell);
constexpr uint32_t kRtx = bit(CardGeneration::BlackwellRtx);
constexpr uint32_t kCdna3 = bit(CardGeneration::Cdna3);
constexpr uint32_t kCdna4 = bit(CardGeneration::Cdna4);
constexpr uint32_t kNvidia = kAmpere | kAda | kHopper | kBlackwell | kRtx;

constexpr TileMultiples kTo256 = {256, 256, 128};
constexpr TileMultiples kTo256x128 = {256, 128, 128};
constexpr TileMultiples kWidth64 = {1, 1, 64};
constexpr TileMultiples kSwizzled = {128, 64, 64};

constexpr KernelForm kStored = {};
constexpr KernelForm kTiles256 = {kTo256, kTo256, kTo256};
constexpr KernelForm kTiles256Wide = {kTo256, kTo256, kTo256, true};
constexpr KernelForm kRocmTiles = {
    {256, 256, 256}, {256, 256, 256}, {256, 256, 256}, true};
constexpr KernelForm kWidthOf64 = {kWidth64, kWidth64, kWidth64};
constexpr KernelForm kWidthOf64Wide = {kWidth64, kWidth64, kWidth64, true};
constexpr KernelForm kWidthOfGroups = {
    .weights = kWidth64, .scales = kWidth64, .width_by_group = true};
constexpr KernelForm kWidthOf128 = {{1, 1, 128}};
constexpr KernelForm kSwizzledByTriton = {kWidth64, kTo256x128, kWidth64, true};
// The loaded scales stay in memory beside the rearranged ones.
constexpr KernelForm kScalesTwice = {.weights = kTo256x128,
                                     .scales = kTo256x128,
                                     .biases = kWidth64,
                                     .wide_biases = true,
                                     .second_scales = kWidth64};
constexpr KernelForm kInBf16 = {.as_bf16 = true};
constexpr KernelForm kTiles64x128 = {
    .weights = {64, 128}, .scales = {64, 128}, .frees_zeros = true};
constexpr KernelForm kTiles128x64 = {
    .weights = {128, 64}, .scales = {128, 64}, .frees_zeros = true};
constexpr KernelForm kTiles256x128 = {
    .weights = kTo256x128, .scales = kTo256x128, .frees_zeros = true};
constexpr KernelForm kTiles256x64 = {{256, 256, 64}, {256, 256, 64}};
constexpr KernelForm kWideZeros = {.wide_zeros = true};
constexpr KernelForm kFreesZeros = {.frees_zeros = true};
constexpr KernelForm kRowScales = {.form = ScaleForm::Rows16};
constexpr KernelForm kRowScalesOfTiles = {.weights = {64, 128, 128},
                                          .form = ScaleForm::Rows16};
constexpr KernelForm kWordScales = {.form = ScaleForm::Words32};
constexpr KernelForm kRowGaps = {.row_gap = 256};
constexpr KernelForm kSwizzledScales = {.scales = kSwizzled};
constexpr KernelForm kSwizzledBeside = {.second_scales = kSwizzled};
constexpr KernelForm kTiles32 = {.weights = {32, 32}};
constexpr KernelForm kTiles32Swizzled = {.weights = {32, 32},
                                         .scales = kSwizzled};
constexpr KernelForm kTiles32Beside = {.weights = {32, 32},
                                       .second_scales = kSwizzled};

using P = Packing;
constexpr bool kOfExperts = true;
constexpr bool kOfLinear = false;

// The first matching row applies.
constexpr KernelRow kVllm[] = {
    {P::Mxfp4, kOfExperts, kAmpere | kAda | kRtx, "Marlin", kTiles256},
    {P::Mxfp4, kOfExperts, kHopper, "Triton", kSwizzledByTriton},
    {P::Mxfp4, kOfExperts, kBlackwell, "TensorRT-LLM", kTiles256Wide},
    {P::Mxfp4, kOfExperts, kCdna3 | kCdna4, "Triton", kRocmTiles},
    {P::Fp8Blocks, kOfLinear, kAmpere | kAda, "Marlin", kRowScalesOfTiles},
    {P::Fp8Blocks, kOfLinear, kBlackwell | kRtx, "DeepGEMM", kWordScales, 64,
     128},
    {P::Fp8Blocks, kOfLinear, kCdna3 | kCdna4, "Triton", kRowGaps},
    {P::Fp8Blocks, kOfExperts, kAmpere, "Marlin", kRowScales},
    {P::Fp8Blocks, kOfExperts, kRtx, "DeepGEMM", kWordScales},
    {P::Ints, kOfLinear, kHopper, "Machete", kWideZeros, 128, 64},
    {P::Ints, kOfLinear, kHopper, "Humming", kTiles256x128},
    {P::Ints, kOfLinear, kNvidia, "Marlin", kTiles64x128, 1, 128},
    {P::Ints, kOfLinear, kNvidia, "Marlin", kTiles128x64},
    {P::Ints, kOfExperts, kHopper, "Humming", kTiles256x128},
    {P::Ints, kOfExperts, kNvidia, "Marlin", kWidthOfGroups},
    {P::Nvfp4, kOfLinear, kBlackwell | kRtx, "FlashInfer", kTiles32Swizzled},
    {P::Nvfp4, kOfLinear, kHopper, "Humming", kTiles256x128},
    {P::Nvfp4, kOfLinear, kAmpere | kAda, "Marlin", kTiles64x128, 1, 128},
    {P::Nvfp4, kOfLinear, kAmpere | kAda, "Marlin", kTiles128x64},
    {P::Nvfp4, kOfExperts, kBlackwell, "TensorRT-LLM", kTiles256x64},
    {P::Nvfp4, kOfExperts, kRtx, "CUTLASS", kSwizzledScales},
    {P::Nvfp4, kOfExperts, kHopper, "Humming", kTiles256x128},
    {P::Nvfp4, kOfExperts, kAmpere | kAda, "Marlin", kWidthOf64},
    {P::Plain, kOfExperts, kBlackwell, "TensorRT-LLM", kWidthOf128},
};
constexpr KernelRow kSglang[] = {
    {P::Mxfp4, kOfExperts, kCdna3, "", kStored},
    {P::Mxfp4, kOfExperts, kAmpere | kAda | kHopper, "BF16", kInBf16, 1, 1,
     Dealing::Dealt},
    {P::Mxfp4, kOfExperts, kAmpere | kAda, "Triton", kWidthOf64Wide},
    {P::Mxfp4, kOfExperts, kHopper, "Triton", kScalesTwice},
    {P::Mxfp4, kOfExperts, kBlackwell, "TensorRT-LLM", kTiles256Wide},
    {P::Mxfp4, kOfExperts, kRtx, "CUTLASS", kTiles256},
    {P::Mxfp4, kOfExperts, kCdna4, "AITER", kRocmTiles},
    {P::Fp8Blocks, kOfLinear, kAmpere, "Marlin", kRowScales},
    {P::Fp8Blocks, kOfLinear, kBlackwell, "DeepGEMM", kWordScales, 64, 128},
    {P::Ints, kOfLinear, kNvidia, "Marlin", kFreesZeros},
    {P::Nvfp4, kOfLinear, kBlackwell | kRtx, "FlashInfer", kTiles32, 128, 64},
    {P::Nvfp4, kOfLinear, kBlackwell | kRtx, "FlashInfer", kTiles32Beside},
    {P::Nvfp4, kOfLinear, kNvidia, "Marlin", kTiles64x128, 1, 128},
    {P::Nvfp4, kOfLinear, kNvidia, "Marlin", kTiles128x64},
    {P::Nvfp4, kOfExperts, kBlackwell, "TensorRT-LLM", kWidthOf64},
    {P::Nvfp4, kOfExperts, kRtx, "CUTLASS", kSwizzledScales},
    {P::Nvfp4, kOfExperts, kNvidia, "Marlin", kSwizzledBeside},
    {P::Plain, kOfExperts, kBlackwell, "TensorRT-LLM", kWidthOf128, 1, 1,
     Dealing::Any, "deepseek_v3 deepseek_v32 glm4_moe qwen3_moe"},
};

std::span<const KernelRow> rows_of(std::string_view engine) {
  if (engine == "vllm") return kVllm;
  if (engine == "sglang") return kSglang;
  return {};
}

constexpr int64_t kByteBits = 8;
constexpr int64_t kFp8Block = 128;
constexpr int64_t kNvfp4Group = 16;
constexpr int64_t kMxfp4Group = 32;

Int128 rounded(int64_t size, int64_t multiple) {
  return Int128{ceil_div(size, multiple)} * multiple;
}

struct Padded {
  Int128 rows;
  Int128 columns;
};

Padded padded(const StoredMatrix& of, const MatrixSize& size,
              TileMultiples to) {
  Padded result = {rounded(size.rows, to.rows),
                   rounded(size.columns, to.columns)};
  if (of.width_in_rows) {
    result.rows = of.halves * rounded(ceil_div(size.rows, of.halves), to.width);
  }
  if (of.width_in_columns) result.columns = rounded(size.columns, to.width);
  return result;
}

Int128 per(Int128 numbers, int64_t group) {
  return (numbers + group - 1) / group;
}

// Returns the scales of a row, or its zero points.
Int128 groups_of(const StoredMatrix& of, const Padded& size) {
  return of.group == 0 ? 1 : per(size.columns, of.group);
}

Int128 scale_bytes(const StoredMatrix& of, const Padded& size, ScaleForm form) {
  switch (of.packing) {
    case Packing::Plain:
      return 0;
    case Packing::Mxfp4:
      return size.rows * per(size.columns, kMxfp4Group);
    case Packing::Nvfp4:
      return size.rows * per(size.columns, kNvfp4Group);
    case Packing::Ints:
      return 2 * size.rows * groups_of(of, size);
    case Packing::Fp8Blocks:
      break;
  }
  const Int128 along = per(size.columns, kFp8Block);
  switch (form) {
    case ScaleForm::Rows16:
      return 2 * size.rows * along;
    case ScaleForm::Words32:
      return 4 * (4 * per(size.rows, 4)) * per(along, 4);
    case ScaleForm::Stored:
      break;
  }
  return 4 * per(size.rows, kFp8Block) * along;
}

Int128 added_to_one(const KernelRow& row, const StoredMatrix& of,
                    const MatrixSize& size) {
  const KernelForm& form = row.form;
  if (of.bias) {
    constexpr int64_t kNarrow = 2;
    const int64_t bytes = form.wide_biases ? 2 * kNarrow : kNarrow;
    return padded(of, size, form.biases).rows * bytes -
           Int128{size.rows} * kNarrow;
  }
  const Padded plain = {size.rows, size.columns};
  const Int128 stored = plain.rows * plain.columns * of.bits / kByteBits +
                        scale_bytes(of, plain, ScaleForm::Stored);
  if (form.as_bf16) return 2 * plain.rows * plain.columns - stored;
  TileMultiples weights = form.weights;
  TileMultiples scales =
      of.packing == Packing::Fp8Blocks ? form.weights : form.scales;
  if (form.width_by_group && of.group > 0) {
    weights.width = std::lcm(weights.width, of.group);
    scales.width = weights.width;
  }
  const Padded kept = padded(of, size, weights);
  Int128 bytes = kept.rows * kept.columns * of.bits / kByteBits +
                 scale_bytes(of, padded(of, size, scales), form.form);
  constexpr int64_t kGapMultiple = 512;
  if (kept.columns % kGapMultiple == 0) bytes += kept.rows * form.row_gap;
  if (form.second_scales) {
    bytes += scale_bytes(of, padded(of, size, *form.second_scales),
                         ScaleForm::Stored);
  }
  if (of.zeros == ZeroPoints::Unused && form.frees_zeros) {
    bytes -= plain.rows * groups_of(of, plain) * of.bits / kByteBits;
  }
  if (of.zeros == ZeroPoints::Used) {
    constexpr int64_t kWide = 16;
    bytes +=
        (kept.rows * groups_of(of, kept) * (form.wide_zeros ? kWide : of.bits) -
         plain.rows * groups_of(of, plain) * of.bits) /
        kByteBits;
  }
  return bytes - stored;
}

}  // namespace

std::optional<StoredMatrix> stored_matrix(std::string_view folded,
                                          const TensorType& type,
                                          const ParameterKind& kind,
                                          bool expert, bool has_zeros) {
  const std::string_view leaf = folded.substr(folded.find_last_of("./") + 1);
  const size_t rank = type.shape.size();
  StoredMatrix of;
  of.expert = expert;
  of.halves = contains(folded, "gate_up") ? 2 : 1;
  if (rank < 2 || contains(folded, "conv")) return std::nullopt;
  if (of.expert && leaf.ends_with("_bias") && rank == 2) {
    of.bias = true;
    of.rows_at = 1;
    return of;
  }
  const bool stacked = of.expert && rank >= 3;
  const bool named = leaf == "weight" || leaf == "qweight" ||
                     leaf == "weight_packed" || leaf.ends_with("_blocks");
  if (!named && (!stacked || contains(leaf, "scale") ||
                 contains(leaf, "zero") || contains(leaf, "bias"))) {
    return std::nullopt;
  }
  of.rows_at = rank - 2;
  of.columns_at = rank - 1;
  constexpr int64_t kMxfp4Bytes = 16;
  if (leaf.ends_with("_blocks")) {
    if (rank != 4 || type.shape.back() != kMxfp4Bytes) return std::nullopt;
    of.rows_at = 1;
    of.columns_at = 2;
  }
  // AWQ and GPTQ store the inputs first.
  if (leaf == "qweight") std::swap(of.rows_at, of.columns_at);
  of.rows_unit = kind[of.rows_at].unit;
  of.columns_unit = kind[of.columns_at].unit;
  const int64_t block = kind[of.columns_at].block;
  if (block > 1) of.group = block * of.columns_unit;
  constexpr int64_t kWordBits = 32;
  switch (type.dtype) {
    case DType::F64:
    case DType::F32:
    case DType::F16:
    case DType::BF16:
      return of;
    case DType::F8E4M3:
    case DType::F8E5M2:
      if (of.group != kFp8Block || kind[of.rows_at].block != kFp8Block) {
        return std::nullopt;
      }
      of.packing = Packing::Fp8Blocks;
      of.bits = kByteBits;
      return of;
    case DType::I32:
    case DType::U32: {
      const int64_t packed = std::max(of.rows_unit, of.columns_unit);
      if (packed <= 1) return std::nullopt;
      of.packing = Packing::Ints;
      of.bits = kWordBits / packed;
      // Only AWQ packs outputs; GPTQ is nearly always symmetric.
      if (has_zeros) {
        of.zeros = leaf == "qweight" && of.rows_unit == 1 ? ZeroPoints::Unused
                                                          : ZeroPoints::Used;
      }
      return of;
    }
    case DType::U8:
      of.bits = 4;
      if (leaf.ends_with("_blocks")) {
        of.packing = Packing::Mxfp4;
        return of;
      }
      if (of.columns_unit != 2 || of.group != kNvfp4Group) return std::nullopt;
      of.packing = Packing::Nvfp4;
      return of;
    default:
      return std::nullopt;
  }
}

MatrixSize matrix_size(const StoredMatrix& matrix, const Shape& local) {
  MatrixSize size;
  size.rows = local[matrix.rows_at] * matrix.rows_unit;
  size.columns =
      matrix.bias ? 1 : local[matrix.columns_at] * matrix.columns_unit;
  const size_t first = std::min(
      matrix.rows_at, matrix.bias ? matrix.rows_at : matrix.columns_at);
  for (size_t i = 0; i < first; ++i) size.matrices *= local[i];
  return size;
}

std::string_view packing_title(Packing packing) {
  constexpr std::array<std::string_view, 5> kTitles = {
      "unquantised", "FP8", "integer", "NVFP4", "MXFP4"};
  return nth(kTitles, packing);
}

std::optional<int64_t> added_bytes(const KernelRow& row,
                                   const StoredMatrix& matrix,
                                   const MatrixSize& size) {
  // Beyond this, products of padded sizes might exceed 127 bits.
  constexpr int64_t kLargest = int64_t{1} << 40;
  if (size.rows > kLargest || size.columns > kLargest) return std::nullopt;
  const Int128 one = added_to_one(row, matrix, size);
  if (one > INT64_MAX / 4 || one < INT64_MIN / 4) return std::nullopt;
  const Int128 all = one * size.matrices;
  if (all > INT64_MAX || all < INT64_MIN) return std::nullopt;
  return static_cast<int64_t>(all);
}

const KernelRow* kernel_for(const KernelQuestion& question,
                            const StoredMatrix& matrix,
                            const MatrixSize& size) {
  if (question.card == CardGeneration::Unknown) return nullptr;
  const auto applies = [&](const KernelRow& row) {
    const Dealing dealing = question.dealt ? Dealing::Dealt : Dealing::Cut;
    return row.packing == matrix.packing && row.experts == matrix.expert &&
           (row.cards & bit(question.card)) != 0 &&
           (row.dealing == Dealing::Any || row.dealing == dealing) &&
           size.rows % row.whole_rows == 0 &&
           size.columns % row.whole_columns == 0 &&
           (row.models.empty() || has_word(row.models, question.model_type));
  };
  const auto rows = rows_of(question.engine);
  const auto found = std::ranges::find_if(rows, applies);
  return found == rows.end() ? nullptr : &*found;
}

std::string_view kernel_name(const KernelRow& row) { return row.name; }

bool is_refused(const KernelRow& row) { return row.name.empty(); }

bool may_change(std::string_view engine, Packing packing, bool expert) {
  return std::ranges::any_of(rows_of(engine), [&](const KernelRow& row) {
    return row.packing == packing && row.experts == expert;
  });
}

}  // namespace shardplan
