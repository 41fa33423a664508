// SPDX-License-Identifier: Apache-2.0
// What kernels make of weights, counted by hand from the rules that the
// engines' code has.
#include "serve/kernels.h"

#include <doctest/doctest.h>

#include "serve/engine.h"
#include "serve/weights.h"
#include "tests/serve/models.h"

namespace shardplan {
namespace {

using testing::Json;

constexpr CardGeneration kAll[] = {
    CardGeneration::Ampere,       CardGeneration::Ada,
    CardGeneration::Hopper,       CardGeneration::Blackwell,
    CardGeneration::BlackwellRtx, CardGeneration::Cdna2,
    CardGeneration::Cdna3,        CardGeneration::Cdna4};

// Of a matrix whose sizes are as the rank has them.
int64_t added(std::string_view engine, CardGeneration card,
              const StoredMatrix& matrix, const MatrixSize& size,
              bool dealt = false) {
  const KernelRow* row =
      kernel_for({engine, card, "llama", dealt}, matrix, size);
  if (row == nullptr) return 0;
  return added_bytes(*row, matrix, size).value();
}

StoredMatrix of(Packing packing, int64_t bits, int64_t group) {
  StoredMatrix matrix;
  matrix.packing = packing;
  matrix.bits = bits;
  matrix.group = group;
  return matrix;
}

StoredMatrix up_of_experts(Packing packing, int64_t bits, int64_t group) {
  StoredMatrix matrix = of(packing, bits, group);
  matrix.expert = true;
  matrix.width_in_rows = true;
  return matrix;
}

TEST_CASE("kernels: scales of FP8 blocks") {
  const StoredMatrix matrix = of(Packing::Fp8Blocks, 8, 128);
  const MatrixSize size = {1, 4096, 2048};
  const int64_t stored = 4 * 32 * 16;
  // 16 bits for each row and 128 columns.
  CHECK(added("vllm", CardGeneration::Ampere, matrix, size) ==
        2 * 4096 * 16 - stored);
  CHECK(added("vllm", CardGeneration::Ada, matrix, size) ==
        2 * 4096 * 16 - stored);
  CHECK(added("sglang", CardGeneration::Ada, matrix, size) == 0);
  CHECK(added("vllm", CardGeneration::Hopper, matrix, size) == 0);
  // A byte for each, four in a word.
  CHECK(added("vllm", CardGeneration::Blackwell, matrix, size) ==
        4096 * 16 - stored);
  // Rows of a multiple of 512 bytes have 256 behind them.
  CHECK(added("vllm", CardGeneration::Cdna3, matrix, size) == 4096 * 256);
  CHECK(added("vllm", CardGeneration::Cdna3, matrix, {1, 4096, 2176}) == 0);
  // DeepGEMM takes whole blocks alone.
  CHECK(added("vllm", CardGeneration::Blackwell, matrix, {1, 4096, 1984}) == 0);
}

TEST_CASE("kernels: whole numbers of 4 bits") {
  StoredMatrix matrix = of(Packing::Ints, 4, 128);
  const MatrixSize even = {1, 4096, 2048};
  for (const CardGeneration card : kAll) {
    CHECK(added("vllm", card, matrix, even) == 0);
    CHECK(added("sglang", card, matrix, even) == 0);
  }
  // Zero points that are used have 16 bits under Machete, on Hopper alone.
  matrix.zeros = ZeroPoints::Used;
  CHECK(added("vllm", CardGeneration::Hopper, matrix, even) ==
        4096 * 16 * (16 - 4) / 8);
  CHECK(added("vllm", CardGeneration::Ada, matrix, even) == 0);
  // Those of a symmetric GPTQ are freed by Marlin.
  matrix.zeros = ZeroPoints::Unused;
  CHECK(added("vllm", CardGeneration::Ada, matrix, even) == -4096 * 16 * 4 / 8);
  CHECK(added("vllm", CardGeneration::Hopper, matrix, even) == 0);
  // Of what divides by neither tile the columns are padded to 64, rows to 128.
  matrix.zeros = ZeroPoints::None;
  CHECK(added("vllm", CardGeneration::Ada, matrix, {1, 64, 192}) ==
        64 * 192 / 2 + 2 * 64 * 2);
  CHECK(added("sglang", CardGeneration::Ada, matrix, {1, 64, 192}) == 0);
}

TEST_CASE("kernels: widths of experts are padded to tiles") {
  // A quarter of 768, gate or up of 128 experts.
  const MatrixSize quarter = {128, 192, 2048};
  const StoredMatrix plain = up_of_experts(Packing::Plain, 16, 0);
  CHECK(added("vllm", CardGeneration::Hopper, plain, quarter) == 0);
  CHECK(added("vllm", CardGeneration::Blackwell, plain, quarter) ==
        128 * 64 * 2048 * 2);
  CHECK(added("sglang", CardGeneration::Blackwell, plain, quarter) == 0);
  const KernelRow* row =
      kernel_for({"sglang", CardGeneration::Blackwell, "qwen3_moe", false},
                 plain, quarter);
  REQUIRE(row != nullptr);
  CHECK(added_bytes(*row, plain, quarter) == 128 * 64 * 2048 * 2);

  const StoredMatrix four = up_of_experts(Packing::Ints, 4, 128);
  const int64_t more = int64_t{128} * 64 * (2048 / 2 + 2 * 16);
  CHECK(added("vllm", CardGeneration::Hopper, four, quarter) == more);
  // Marlin's tiles are 64 wide, and hold whole groups.
  CHECK(added("vllm", CardGeneration::Ada, four, quarter) == more);
  const StoredMatrix fine = up_of_experts(Packing::Ints, 4, 32);
  CHECK(added("vllm", CardGeneration::Ada, fine, quarter) == 0);

  const StoredMatrix nvfp4 = up_of_experts(Packing::Nvfp4, 4, 16);
  CHECK(added("sglang", CardGeneration::Hopper, nvfp4, {128, 192, 2048}) ==
        int64_t{128} * 192 * 128);
}

TEST_CASE("kernels: experts of MXFP4 by card") {
  StoredMatrix up = up_of_experts(Packing::Mxfp4, 4, 32);
  up.halves = 2;
  const MatrixSize size = {32, 2 * 2880, 2880};
  const int64_t stored = int64_t{32} * 5760 * (1440 + 90);
  CHECK(added("vllm", CardGeneration::Ampere, up, size) ==
        int64_t{32} * 2 * 2944 * (3072 / 2 + 3072 / 32) - stored);
  CHECK(added("vllm", CardGeneration::Hopper, up, size) ==
        int64_t{32} * (5760 * 1440 + 5888 * 92) - stored);
  CHECK(added("vllm", CardGeneration::Cdna3, up, size) ==
        int64_t{32} * 2 * 3072 * (3072 / 2 + 3072 / 32) - stored);
  // Rearranged scales beside those that were loaded.
  CHECK(added("sglang", CardGeneration::Hopper, up, size) ==
        int64_t{32} * (5888 * (2944 / 2 + 2944 / 32) + 5760 * 90) - stored);
  // Dealt out, SGLang computes with them in 16 bits.
  CHECK(added("sglang", CardGeneration::Ada, up, size, true) ==
        int64_t{32} * 5760 * 2880 * 2 - stored);
  const KernelRow* none =
      kernel_for({"sglang", CardGeneration::Cdna3, "gpt_oss", false}, up, size);
  REQUIRE(none != nullptr);
  CHECK(is_refused(*none));

  StoredMatrix bias = up;
  bias.bias = true;
  CHECK(added("vllm", CardGeneration::Hopper, bias, {32, 5760, 1}) ==
        32 * 5760 * 2);
  CHECK(added("vllm", CardGeneration::Ampere, bias, {32, 5760, 1}) ==
        32 * (5888 - 5760) * 2);
}

TEST_CASE("kernels: of an unknown card nothing is said") {
  const StoredMatrix up = up_of_experts(Packing::Mxfp4, 4, 32);
  CHECK(kernel_for({"vllm", CardGeneration::Unknown, "gpt_oss", false}, up,
                   {32, 2880, 2880}) == nullptr);
  CHECK(may_change("vllm", Packing::Mxfp4, true));
  CHECK_FALSE(may_change("vllm", Packing::Plain, false));
}

TEST_CASE("kernels: matrices are told by name, type and shape") {
  const ParameterKind plain = {{}, {}};
  const auto matrix = [&](const char* name, const TensorType& type,
                          const ParameterKind& kind) {
    return stored_matrix(name, type, kind, false, true);
  };
  CHECK(matrix("layers.*.mlp.up_proj.weight", {DType::BF16, {8, 4}}, plain));
  CHECK_FALSE(matrix("layers.*.norm.weight", {DType::BF16, {8}}, {{}}));
  CHECK_FALSE(matrix("layers.*.conv1d.weight", {DType::BF16, {8, 4}}, plain));
  CHECK_FALSE(
      matrix("layers.*.mlp.up_proj.scales", {DType::F16, {8, 4}}, plain));
  ParameterKind in_words = plain;
  in_words[1].unit = 8;
  const auto awq =
      matrix("layers.*.mlp.up_proj.qweight", {DType::I32, {256, 64}}, in_words);
  REQUIRE(awq);
  CHECK(awq->packing == Packing::Ints);
  CHECK(awq->bits == 4);
  CHECK(awq->rows_at == 1);
  CHECK(awq->rows_unit == 8);
  CHECK(awq->zeros == ZeroPoints::Used);
  const MatrixSize size = matrix_size(*awq, {256, 64});
  CHECK(size.rows == 512);
  CHECK(size.columns == 256);
}

TEST_CASE("kernels: experts in 32 bits are not padded") {
  const auto made = testing::synthesize(testing::served_mixtral());
  const Model model(made->good());
  const auto served = served_weights(model);
  REQUIRE(served);
  const auto more = [&](std::optional<DType> dtype) {
    WeightsInput input;
    input.engine = find_engine("vllm");
    input.layout = layout_of(*input.engine, {.tp = 8});
    input.card = CardGeneration::Blackwell;
    input.dtype = dtype;
    const auto weights = rank_weights(
        *served, std::vector<bool>(served->groups.groups.size(), true), input);
    REQUIRE(weights);
    return weights->bytes[static_cast<size_t>(WeightPart::Kernels)];
  };
  // An eighth of 512 is padded to 128: gate, up and down of four experts.
  CHECK(more(std::nullopt) == 2 * 4 * 3 * 64 * 256 * 2);
  CHECK(more(DType::F32) == 0);
}

// MLA: vLLM's absorbed matrices are views of weights in 16 bits.
TEST_CASE("kernels: latents that are views take nothing") {
  const Json config = testing::served_deepseek();
  const auto absorbed = [](const Json& of_config, std::string_view engine) {
    const auto made = testing::synthesize(of_config);
    const Model model(made->good());
    const auto served = served_weights(model);
    REQUIRE(served);
    WeightsInput input;
    input.engine = find_engine(engine);
    input.layout = layout_of(*input.engine, {.tp = 4});
    const auto weights = rank_weights(
        *served, std::vector<bool>(served->groups.groups.size(), true), input);
    REQUIRE(weights);
    return weights->bytes[static_cast<size_t>(WeightPart::Absorbed)];
  };
  CHECK(absorbed(config, "vllm") == 0);
  CHECK(absorbed(config, "sglang") == 3 * 2 * 64 * 128 * 2);
  const Json quantised = testing::changed(
      config, {{"quantization_config",
                {{"quant_method", "fp8"}, {"weight_block_size", {32, 32}}}}});
  CHECK(absorbed(quantised, "vllm") == 3 * 2 * 64 * 128 * 2);
}

}  // namespace
}  // namespace shardplan
