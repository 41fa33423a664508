// SPDX-License-Identifier: Apache-2.0
// The cache that engines make of their bytes, counted by hand.
#include "serve/pool.h"

#include <vector>

#include <doctest/doctest.h>

#include "tests/support/property.h"

namespace shardplan {
namespace {

using testing::draw_in;
using testing::holds;

CacheLayer tokens(int64_t bytes, int64_t window = 0) {
  CacheLayer layer;
  layer.token_bytes = bytes;
  layer.window = window;
  return layer;
}

CacheLayer state(int64_t bytes) {
  CacheLayer layer;
  layer.state_bytes = bytes;
  return layer;
}

std::vector<CacheLayer> repeated(const CacheLayer& layer, size_t count) {
  return std::vector<CacheLayer>(count, layer);
}

std::vector<CacheLayer> together(std::vector<CacheLayer> a,
                                 const std::vector<CacheLayer>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

TEST_CASE("blocks: a block is a page of every layer that is alike") {
  const auto pool = cache_pool(PoolKind::Blocks, repeated(tokens(100), 4),
                               {20, 16, 0}, 64000);
  REQUIRE(pool);
  CHECK(pool->block_bytes == 6400);
  CHECK(pool->blocks == 10);
  CHECK(pool->sequence_blocks == 2);
  CHECK(pool->sequences == doctest::Approx(5));
  CHECK(pool->tokens == 100);
}

TEST_CASE("blocks: windows take what is on its way in besides") {
  const auto layers =
      together(repeated(tokens(100), 2), repeated(tokens(100, 64), 4));
  const auto pool =
      cache_pool(PoolKind::Blocks, layers, {1000, 16, 10}, 750 * 3200);
  REQUIRE(pool);
  CHECK(pool->groups == 3);  // of two layers each
  CHECK(pool->block_bytes == 2 * 1600);
  // 63 blocks of all tokens, 5 + 1 of each group with a window.
  CHECK(pool->sequence_blocks == 63 + 2 * 6);
  CHECK(pool->sequences == doctest::Approx(10));
  // A window larger than the sequence holds it once, and a block more.
  const auto wide = cache_pool(
      PoolKind::Blocks,
      together(repeated(tokens(100), 2), repeated(tokens(100, 4096), 2)),
      {1000, 16, 10}, 64000);
  REQUIRE(wide);
  CHECK(wide->sequence_blocks == 63 + 64);
}

TEST_CASE("blocks: groups of nearly equal size are padded") {
  const auto layers =
      together(repeated(tokens(100), 12), repeated(tokens(100, 64), 13));
  const auto pool = cache_pool(PoolKind::Blocks, layers, {64, 16, 0}, 1 << 20);
  REQUIRE(pool);
  CHECK(pool->groups == 2);
  CHECK(pool->block_bytes == 13 * 1600);
}

TEST_CASE("blocks: pages of attention grow until a state fits") {
  const auto layers =
      together(repeated(tokens(100), 1), repeated(state(5000), 3));
  const auto pool = cache_pool(PoolKind::Blocks, layers, {100, 16, 0}, 64000);
  REQUIRE(pool);
  CHECK(pool->block == 64);  // 4 * 16, for 5000 bytes of 1600 a page
  CHECK(pool->groups == 4);
  CHECK(pool->sequence_blocks == 2 + 2 * 3);
  CHECK(pool->blocks == 10);
  CHECK(pool->sequences == doctest::Approx(1.25));
  CHECK(pool->sequence_padding == 8 * 6400 - (2 * 6400 + 6 * 5000));
}

TEST_CASE("blocks: smaller pages hold more tokens, or are padded") {
  const auto divides = cache_pool(
      PoolKind::Blocks,
      together(repeated(tokens(200), 2), repeated(tokens(100, 32), 2)),
      {320, 16, 0}, 1 << 20);
  REQUIRE(divides);
  CHECK(divides->block_bytes == 2 * 3200);
  // 20 blocks of 16, and of 32 tokens one and one more.
  CHECK(divides->sequence_blocks == 20 + 2);
  const auto padded = cache_pool(
      PoolKind::Blocks,
      together(repeated(tokens(200), 2), repeated(tokens(150, 32), 2)),
      {320, 16, 0}, 1 << 20);
  REQUIRE(padded);
  CHECK(padded->sequence_blocks == 20 + 3);
}

TEST_CASE("blocks: states alone") {
  const auto pool = cache_pool(PoolKind::Blocks, repeated(state(1000), 4),
                               {4096, 16, 0}, 40000);
  REQUIRE(pool);
  CHECK(pool->sequences == doctest::Approx(10));
}

TEST_CASE("tokens: windows have four tokens for five of the others") {
  const auto layers =
      together(repeated(tokens(100), 2), repeated(tokens(100, 10), 2));
  const auto pool = cache_pool(PoolKind::Tokens, layers, {50, 1, 0}, 36000);
  REQUIRE(pool);
  CHECK(pool->tokens == 100);
  CHECK(pool->sequences == doctest::Approx(2));
  // Where all have a window, it is one pool.
  const auto all = cache_pool(PoolKind::Tokens, repeated(tokens(100, 10), 2),
                              {50, 1, 0}, 20000);
  REQUIRE(all);
  CHECK(all->tokens == 100);
}

TEST_CASE("tokens: a running sequence takes three states") {
  const auto layers =
      together(repeated(tokens(100), 1), repeated(state(500), 2));
  const auto pool = cache_pool(PoolKind::Tokens, layers, {10, 1, 0}, 19000);
  REQUIRE(pool);
  CHECK(pool->states == 8);
  CHECK(pool->tokens == 100);
  CHECK(pool->sequences == doctest::Approx(2));
}

TEST_CASE("nothing fits into nothing, and nothing kept is no pool") {
  for (const PoolKind kind : {PoolKind::Blocks, PoolKind::Tokens}) {
    const auto pool =
        cache_pool(kind, repeated(tokens(100), 2), {50, 1, 0}, -5);
    REQUIRE(pool);
    CHECK(pool->tokens == 0);
    CHECK(pool->sequences == doctest::Approx(0));
    CHECK_FALSE(cache_pool(kind, repeated({}, 3), {50, 1, 0}, 1000));
  }
}

TEST_CASE("properties: more bytes never hold less, longer sequences not more") {
  CHECK(holds("pools", [] {
    const auto kind = draw_in(0, 1) == 0 ? PoolKind::Blocks : PoolKind::Tokens;
    std::vector<CacheLayer> layers;
    const int64_t count = draw_in<int64_t>(1, 6);
    const int64_t window = draw_in<int64_t>(1, 40);
    for (int64_t i = 0; i < count; ++i) {
      layers.push_back(
          tokens(draw_in<int64_t>(1, 3) * 64, draw_in(0, 1) == 0 ? 0 : window));
    }
    if (draw_in(0, 1) == 0) layers.push_back(state(draw_in<int64_t>(1, 5000)));
    const int64_t bytes = draw_in<int64_t>(0, 1 << 20);
    const int64_t more = bytes + draw_in<int64_t>(0, 1 << 16);
    const int64_t seq = draw_in<int64_t>(1, 500);
    const PoolRequest request{seq, 16, draw_in<int64_t>(0, 64)};
    const PoolRequest longer{seq + draw_in<int64_t>(0, 500), 16,
                             request.tokens_in_flight};
    const auto pool = cache_pool(kind, layers, request, bytes);
    const auto larger = cache_pool(kind, layers, request, more);
    const auto fewer = cache_pool(kind, layers, longer, bytes);
    ENSURE(pool && larger && fewer);
    ENSURE(pool->sequences <= larger->sequences);
    ENSURE(pool->sequences >= fewer->sequences);
    ENSURE(pool->sequence_padding >= 0);
  }));
}

}  // namespace shardplan
