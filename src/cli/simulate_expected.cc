// SPDX-License-Identifier: Apache-2.0
#include "cli/simulate_expected.h"

#include <cstddef>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "io/checkpoint.h"
#include "io/load.h"

namespace shardplan::cli {
namespace {

template <typename Integer>
int64_t integer_at(const std::byte* data, size_t index) {
  Integer number{};
  std::memcpy(&number, data + index * sizeof number, sizeof number);
  return number;
}

}  // namespace

std::optional<ExpectedOutputs> read_expected(const std::string& path,
                                             Host& host, Diagnostics& diags) {
  auto manifest = load_manifest(path, host, diags);
  if (!manifest) return std::nullopt;
  auto numbers = open_weights(path, *manifest, host, diags);
  if (!numbers) return std::nullopt;
  return ExpectedOutputs{path, *std::move(manifest), *std::move(numbers)};
}

InputIds recorded_ids(const ExpectedOutputs& expected) {
  for (size_t i = 0; i < expected.manifest.size(); ++i) {
    const StoredTensor& tensor = expected.numbers[i];
    const bool wide = tensor.dtype == DType::I64;
    if (expected.manifest.name(i) != "input_ids" || tensor.shape.size() != 2 ||
        (!wide && tensor.dtype != DType::I32)) {
      continue;
    }
    InputIds ids;
    size_t next = 0;
    for (int64_t row = 0; row < tensor.shape[0]; ++row) {
      std::vector<int64_t>& sequence = ids.emplace_back();
      for (int64_t column = 0; column < tensor.shape[1]; ++column, ++next) {
        sequence.push_back(wide ? integer_at<int64_t>(tensor.data, next)
                                : integer_at<int32_t>(tensor.data, next));
      }
    }
    return ids;
  }
  return {};
}

std::optional<std::vector<ExpectedError>> check_expected(
    const ExpectedOutputs& expected, const Graph& graph,
    const Simulation& outcome, bool judge, Diagnostics& diags) {
  const auto errors =
      compare_expected(graph, outcome.unsharded, outcome.sharded,
                       expected.manifest, expected.numbers, diags);
  if (!errors || !judge) return errors;
  for (const ExpectedError& error : *errors) {
    if (error.agrees()) continue;
    const std::string& name =
        graph.values[static_cast<size_t>(error.value)].name;
    diags
        .report(Code::UnexpectedOutputs, {},
                "`" + name + "` is not what `" + printable(expected.path) +
                    "` holds")
        .fact(fmt::format("of its largest number, the unsharded run is off by "
                          "{:.2g}, the sharded one by {:.2g}",
                          error.unsharded, error.sharded))
        .fact("float32 agrees within 1e-5")
        .help(
            "weights, tokens and config must be those of the recording; with "
            "`--layers` a part of the model is run");
  }
  return errors;
}

}  // namespace shardplan::cli
