// SPDX-License-Identifier: Apache-2.0
#include "graph/attention.h"

#include <cmath>
#include <string>

#include <doctest/doctest.h>

#include "graph/build.h"
#include "graph/evaluate.h"
#include "sim/values.h"
#include "tests/support/messages.h"

namespace shardplan {
namespace {

// Attention over parameters q [2, 3, heads * dim], k and v.
struct Attending {
  Attending(HeadSizes head_sizes, bool causal, int64_t window)
      : sizes(head_sizes) {
    const int64_t width = sizes.heads * sizes.head_dim;
    const int64_t kv_width = sizes.kv_heads * sizes.head_dim;
    for (const auto& [name, last] :
         {std::pair{"q", width}, {"k", kv_width}, {"v", kv_width}}) {
      REQUIRE(manifest.add(name, {DType::F32, {2, 3, last}}, {}));
    }
    const ParameterNames names(manifest);
    const FamilyInput input{manifest, names, config, {2, 3, {}, {}}};
    ModelWriter out(input, config, "attention", diags);
    const auto query =
        query_heads(out, sizes, out.parameter("q", {2, 3, width}), "query",
                    query_labels(sizes));
    const auto key = key_heads(out, sizes, out.parameter("k", {2, 3, kv_width}),
                               "key", key_labels(sizes));
    const auto value =
        key_heads(out, sizes, out.parameter("v", {2, 3, kv_width}), "value");
    out.output(attend(out, sizes, {"attn", query, key, value, causal, window}));
    const auto description = out.finish();
    REQUIRE(description);
    graph = build_graph(*description, manifest, diags);
    REQUIRE_MESSAGE(graph, testing::messages(diags));
    given = *make_values(*graph, ValueSource::Random, 1, diags);
  }

  std::vector<double> run() const {
    const auto all = evaluate(*graph, given, Arithmetic::F32);
    return values_of(all[static_cast<size_t>(graph->outputs.front())]);
  }

  // The same, number by number.
  std::vector<double> definition(bool causal, int64_t window) const {
    const auto q = values_of(given[0]);
    const auto k = values_of(given[1]);
    const auto v = values_of(given[2]);
    const int64_t dim = sizes.head_dim;
    const auto at = [&](const std::vector<double>& x, int64_t heads, int64_t b,
                        int64_t s, int64_t h, int64_t d) {
      return x[static_cast<size_t>(((b * 3 + s) * heads + h) * dim + d)];
    };
    std::vector<double> result;
    for (int64_t b = 0; b < 2; ++b) {
      for (int64_t s = 0; s < 3; ++s) {
        for (int64_t h = 0; h < sizes.heads; ++h) {
          const int64_t kv = h / sizes.groups();
          std::vector<double> weights(3);
          double total = 0;
          for (int64_t t = 0; t < 3; ++t) {
            if (causal && (t > s || (window > 0 && s - t >= window))) continue;
            double dot = 0;
            for (int64_t d = 0; d < dim; ++d) {
              dot += at(q, sizes.heads, b, s, h, d) *
                     at(k, sizes.kv_heads, b, t, kv, d);
            }
            weights[static_cast<size_t>(t)] =
                std::exp(dot / std::sqrt(static_cast<double>(dim)));
            total += weights[static_cast<size_t>(t)];
          }
          for (int64_t d = 0; d < dim; ++d) {
            double sum = 0;
            for (int64_t t = 0; t < 3; ++t) {
              sum += weights[static_cast<size_t>(t)] *
                     at(v, sizes.kv_heads, b, t, kv, d);
            }
            result.push_back(sum / total);
          }
        }
      }
    }
    return result;
  }

  HeadSizes sizes;
  Manifest manifest;
  ModelConfig config;
  Diagnostics diags;
  std::optional<Graph> graph;
  std::vector<Tensor> given;
};

TEST_CASE("attention: is its definition, grouped or not, masked or not") {
  for (const HeadSizes sizes :
       {HeadSizes{4, 4, 2}, HeadSizes{4, 2, 2}, HeadSizes{6, 1, 2}}) {
    for (const auto& [causal, window] :
         {std::pair{false, 0}, {true, 0}, {true, 2}}) {
      const Attending attending(sizes, causal, window);
      const auto wanted = attending.definition(causal, window);
      const auto found = attending.run();
      REQUIRE(found.size() == wanted.size());
      for (size_t i = 0; i < wanted.size(); ++i) {
        CHECK(found[i] == doctest::Approx(wanted[i]).epsilon(1e-5));
      }
    }
  }
}

TEST_CASE("attention: labels of heads, which one KV head does not share out") {
  CHECK(query_labels({4, 4, 2}) ==
        Labels{"BATCH", "QUERY_LENGTH", "HEAD", "HEAD_DIM"});
  CHECK(query_labels({4, 2, 2}) ==
        Labels{"BATCH", "QUERY_LENGTH", "KV_HEAD", "", "HEAD_DIM"});
  CHECK(query_labels({4, 1, 2}) ==
        Labels{"BATCH", "QUERY_LENGTH", "", "HEAD", "HEAD_DIM"});
  CHECK(key_labels({4, 1, 2}) ==
        Labels{"BATCH", "KV_LENGTH", "", "KV_HEAD_DIM"});
}

}  // namespace
}  // namespace shardplan
