// SPDX-License-Identifier: Apache-2.0
// What is found wrong with an engine that serves a model.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "findings/findings.h"
#include "serve/serving.h"
#include "tests/serve/models.h"

namespace shardplan {
namespace {

// "SP307 error vLLM does not start ..", of every finding.
std::vector<std::string> found_of(const char* engine, int64_t mebibytes,
                                  int64_t tp, double share, int64_t seq) {
  const auto made = testing::synthesize(testing::served_llama());
  ServingInput input;
  input.engine = find_engine(engine);
  input.mesh.tp = tp;
  const int64_t bytes = mebibytes << 20;
  input.device = {"--memory", bytes, bytes, false};
  input.share = share;
  input.seq = seq;
  Diagnostics diags;
  const auto serving = testing::served_once(made->good(), input, diags);
  REQUIRE(serving);
  lint(ServeInput{*serving}, diags);
  std::vector<std::string> found;
  for (const Diagnostic& each : diags.all()) {
    found.push_back(code_id(each.code) + " " +
                    std::string(severity_name(each.severity)) + " " +
                    each.message);
  }
  return found;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("nothing is found where all is well") {
  CHECK(found_of("vllm", 40960, 2, 0.9, 1024).empty());
  CHECK(found_of("sglang", 40960, 2, 0.8, 1024).empty());
}

TEST_CASE(
    "degrees that an engine does not start at, and a share that is not "
    "free") {
  CHECK(found_of("vllm", 40960, 16, 0.8, 1024) ==
        Texts{"SP307 error vLLM does not start at tp=16: 8 heads are not "
              "divisible by 16"});
  CHECK(
      found_of("vllm", 40960, 2, 1.0, 1024) ==
      Texts{"SP307 error vLLM asks for more memory than is free at start-up"});
  CHECK(found_of("sglang", 40960, 2, 1.0, 1024) ==
        Texts{"SP307 warning out of memory outside SGLang's share"});
}

TEST_CASE("a cache that holds no sequence, surely or perhaps") {
  // 512 MiB, of a share of 205.
  CHECK(found_of("vllm", 1024, 1, 0.2, 1048576) ==
        Texts{"SP308 error a sequence of 1,048,576 tokens does not fit in "
              "vLLM's KV cache"});
  // 512 bytes a token: a sequence is 2 GiB, and 1 to 5 GiB are left.
  CHECK(found_of("vllm", 6144, 1, 0.9, 4194304) ==
        Texts{"SP308 warning a sequence of 4,194,304 tokens may not fit in "
              "vLLM's KV cache"});
}

}  // namespace shardplan
