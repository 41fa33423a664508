// SPDX-License-Identifier: Apache-2.0
#include "resolve/stored.h"

#include <doctest/doctest.h>

#include "tests/support/units.h"

namespace shardplan {
namespace {

using testing::mesh;
using testing::spec;
using testing::type;

// "1: 1024 -> 2048 why"
std::string stored(const std::string& name, const std::string& of,
                   const std::string& by, const std::string& on,
                   const std::vector<std::string>& texts,
                   ModelFacts facts = testing::attention_facts(32, 8, 128)) {
  Declarations declared;
  for (const std::string& text : texts) {
    REQUIRE(add_declaration(text, declared));
  }
  const UnitFacts known{std::move(facts), {}, {}};
  std::string result;
  for (const StoredDim& dim :
       stored_dims(name, type(of), spec(by), mesh(on), declared, known)) {
    if (!result.empty()) result += "; ";
    result += std::to_string(dim.dim) + ": " + std::to_string(dim.size) + " " +
              dim.why;
  }
  return result;
}

TEST_CASE("a vocabulary is padded to the multiple that its shards divide") {
  const std::string name = "embed_tokens.weight";
  CHECK(stored(name, "bf16[50257, 8]", "tp, None", "tp=4", {"pad-vocab=128"}) ==
        "0: 50304 pad-vocab=128: smallest multiple that 4 shards divide");
  CHECK(stored(name, "bf16[50257, 8]", "", "tp=4", {"pad-vocab=128"}) ==
        "0: 50304 pad-vocab=128: smallest multiple");
  // lcm(128, 3) = 384 x 131; all axes count, those of the batch too.
  CHECK(stored(name, "bf16[50257, 8]", "fsdp", "fsdp=3", {"pad-vocab=128"}) ==
        "0: 50304 pad-vocab=128: smallest multiple that 3 shards divide");
  CHECK(stored(name, "bf16[50257, 8]", "fsdp", "fsdp=5", {"pad-vocab=1"}) ==
        "0: 50260 pad-vocab=1: smallest multiple that 5 shards divide");
  CHECK(
      stored(name, "bf16[50304, 8]", "tp", "tp=4", {"pad-vocab=128"}).empty());
  CHECK(stored("wpe.weight", "bf16[1023, 8]", "tp", "tp=4", {"pad-vocab=128"})
            .empty());
}

TEST_CASE("axes that gather a weight do not replicate its KV heads") {
  const std::string name = "self_attn.k_proj.weight";
  const std::vector<std::string> copies = {"replicate-kv-heads"};
  const std::string why =
      "0: 2048 replicate-kv-heads: one of 8 KV heads on each of 16 shards";
  CHECK(stored(name, "bf16[1024, 64]", "tp", "tp=16", copies) == why);
  CHECK(stored(name, "bf16[1024, 64]", "(fsdp, tp)", "fsdp=2,tp=16", copies) ==
        why);
  CHECK(stored(name, "bf16[1024, 64]", "fsdp", "fsdp=16", copies).empty());
  CHECK(stored(name, "bf16[1024, 64]", "None, tp", "tp=16", copies).empty());
  CHECK(stored(name, "bf16[1024, 64]", "tp", "tp=16", {}).empty());
}

}  // namespace
}  // namespace shardplan
