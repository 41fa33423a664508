// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/runner/tp_dense.h"

#include <algorithm>
#include <string>

#include "base/checked.h"
#include "base/text.h"
#include "tests/conformance/runner/graph_run.h"

namespace shardplan {
namespace {

int64_t modulo(int64_t number, int64_t n) { return ((number % n) + n) % n; }

// Some columns of a piece, and the device whose part of the result they belong
// to.
struct Columns {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t device = 0;
};

std::vector<Columns> columns_of(AsyncLayout layout, int64_t device,
                                int64_t piece, int64_t n, int64_t width) {
  const int64_t up = modulo(device - 1 - piece, n);
  switch (layout) {
    case AsyncLayout::Gather:
      return {{0, width, device}};
    case AsyncLayout::Scatter:
      return {{0, width, up}};
    case AsyncLayout::SplitScatter:
      return {{0, width / 2, up},
              {width / 2, width, modulo(device + 1 + piece, n)}};
  }
  return {};
}

Tensor block(const Tensor& whole, int dim, int64_t begin, int64_t size) {
  return slice(whole, dim, begin, begin + size);
}

}  // namespace

std::optional<TensorParallelMode> tensor_parallel_mode(std::string_view name,
                                                       int64_t devices,
                                                       Diagnostics& diags) {
  if (devices <= 1 || name == "none") return TensorParallelMode::None;
  if (name == "gather") return TensorParallelMode::Gather;
  if (name == "scatter") return TensorParallelMode::Scatter;
  return diags
      .error(Code::InvalidGraph, {},
             "unknown tensor parallel mode " + in_backticks(name))
      .help("it is `none`, `gather` or `scatter`");
}

Tensor dense_kernel(AsyncLayout layout,
                    std::span<const std::vector<Tensor>> pieces) {
  const auto n = static_cast<int64_t>(pieces.size());
  const Tensor& first = pieces.front().front();
  const int64_t rows = first.shape[0];
  const int64_t width = first.shape[1];
  Tensor kernel = make_tensor(first.element, {n * rows, n * width});
  for (int64_t device = 0; device < n; ++device) {
    for (int64_t i = 0; i < n; ++i) {
      const Tensor& piece =
          pieces[static_cast<size_t>(device)][static_cast<size_t>(i)];
      const int64_t source =
          layout == AsyncLayout::Gather ? modulo(device - i, n) : device;
      const Tensor of_source = block(kernel, 0, source * rows, rows);
      for (const Columns& part : columns_of(layout, device, i, n, width)) {
        const int64_t size = part.end - part.begin;
        copy_into(block(of_source, 1, part.device * width + part.begin, size),
                  block(piece, 1, part.begin, size));
      }
    }
  }
  return kernel;
}

Tensor dense_bias(AsyncLayout layout, std::span<const Tensor> biases) {
  const auto n = static_cast<int64_t>(biases.size());
  const int64_t width = biases.front().shape[0];
  Tensor dense = make_tensor(biases.front().element, {n * width});
  for (int64_t device = 0; device < n; ++device) {
    // A bias is sent with the product of `shard_0`.
    for (const Columns& part : columns_of(layout, device, 0, n, width)) {
      const int64_t size = part.end - part.begin;
      copy_into(
          block(dense, 0, part.device * width + part.begin, size),
          block(biases[static_cast<size_t>(device)], 0, part.begin, size));
    }
  }
  return dense;
}

}  // namespace shardplan

namespace shardplan::conformance {
// Conformance of xlstm-jax: TPDense, TPAsyncDense and ModelParallelismWrapper,
// with the shipped graphs of these layers. A layer without a bias runs with a
// zero bias.

namespace {

using Mode = TensorParallelMode;

// One layer of a vector, and the sizes of what its devices hold.
struct Layer {
  const Json& inputs;
  int64_t devices = 1;
  int64_t features = 0;  // of one dense layer
  bool async = false;
  Mode mode = Mode::None;
  bool bias = true;
  Shape x_shape = {};  // per device

  // Returns the rows of x, all leading dimensions merged.
  int64_t rows() const {
    int64_t count = 1;
    for (size_t i = 0; i + 1 < x_shape.size(); ++i) count *= x_shape[i];
    return count;
  }
  int64_t in() const { return x_shape.back(); }
};

// Returns a parameter of device `device`: a plain one, or one boxed with a
// leading dimension of size 1 that is named after the axis.
Tensor parameter(const Layer& layer, int64_t device, const std::string& scope,
                 const std::string& name) {
  const Json& held =
      layer.inputs.at("params[d]").at(static_cast<size_t>(device));
  const Json& found = held.at(scope + "/" + name);
  if (!found.is_object()) return decode_tensor(found);
  const Json& names = found.at("names");
  if (names.empty() || names.front() != "tp") {
    throw InternalError("a parameter that is not stacked along its axis");
  }
  const Tensor boxed = decode_tensor(found.at("value"));
  return reshaped(boxed, Shape(boxed.shape.begin() + 1, boxed.shape.end()));
}

Tensor bias_of(const Layer& layer, int64_t device, const std::string& scope) {
  if (layer.bias) return parameter(layer, device, scope, "bias");
  return make_tensor(Element::F32, {layer.features});
}

// Adds the kernels and biases of scope `scope`, stacked by device.
void give_stacked(const Layer& layer, const std::string& scope,
                  std::map<std::string, Tensor>& given) {
  std::vector<Tensor> kernels;
  std::vector<Tensor> biases;
  for (int64_t device = 0; device < layer.devices; ++device) {
    kernels.push_back(parameter(layer, device, scope, "kernel"));
    biases.push_back(bias_of(layer, device, scope));
  }
  given["kernel"] = stacked(kernels);
  given["bias"] = stacked(biases);
}

// Returns how the original overlaps its products with their transfers.
Overlap overlap_of(const Layer& layer) {
  if (!layer.async || layer.mode == Mode::None) return Overlap::Off;
  const Json& kwargs = layer.inputs.at("kwargs");
  if (layer.mode == Mode::Gather) {
    return kwargs.value("use_bidirectional_gather", true)
               ? Overlap::Bidirectional
               : Overlap::Ring;
  }
  return kwargs.value("use_bidirectional_scatter", false) ? Overlap::Split
                                                          : Overlap::Ring;
}

// Adds a plain dense layer, which is the same on every device.
void give_plain(const Layer& layer, const std::string& scope,
                std::map<std::string, Tensor>& given) {
  const auto count = static_cast<size_t>(layer.devices);
  const Tensor kernel = parameter(layer, 0, scope, "kernel");
  given["kernel"] = stacked(std::vector<Tensor>(count, kernel));
  given["bias"] = stacked(std::vector<Tensor>(count, bias_of(layer, 0, scope)));
}

AsyncLayout layout_of(const Layer& layer) {
  if (layer.mode == Mode::Gather) return AsyncLayout::Gather;
  const Json& kwargs = layer.inputs.at("kwargs");
  return kwargs.value("use_bidirectional_scatter", false)
             ? AsyncLayout::SplitScatter
             : AsyncLayout::Scatter;
}

void give_pieces(const Layer& layer, std::map<std::string, Tensor>& given) {
  std::vector<std::vector<Tensor>> pieces;
  std::vector<Tensor> biases;
  for (int64_t device = 0; device < layer.devices; ++device) {
    std::vector<Tensor> held;
    for (int64_t i = 0; i < layer.devices; ++i) {
      held.push_back(parameter(layer, device,
                               "layer/shard_" + std::to_string(i) + "/sharded",
                               "kernel"));
    }
    pieces.push_back(std::move(held));
    biases.push_back(bias_of(layer, device, "layer/shard_0/sharded"));
  }
  given["kernel"] = dense_kernel(layout_of(layer), pieces);
  given["bias"] = dense_bias(layout_of(layer), biases);
}

// Returns the devices' inputs: each device's own, or the columns of one input.
Tensor whole_input(const Layer& layer, bool own) {
  std::vector<Tensor> parts;
  for (const Json& x : layer.inputs.at("x[d]")) {
    parts.push_back(
        reshaped(decode_tensor(x, layer.x_shape), {layer.rows(), layer.in()}));
  }
  const Tensor whole = stacked(parts);
  if (own) return whole;
  const std::vector<int> rows_first = {1, 0, 2};
  return contiguous(reshaped(permuted(whole, rows_first),
                             {layer.rows(), layer.devices * layer.in()}));
}

std::string graph_of(const Layer& layer, bool own) {
  if (own) return "tp_dense_local";
  return std::string(layer.async ? "tp_async_dense_" : "tp_dense_") +
         (layer.mode == Mode::Gather ? "gather" : "scatter");
}

Answer encode_parts(const Layer& layer, const char* key,
                    const std::vector<Tensor>& parts) {
  Json encoded = Json::array();
  for (const Tensor& part : parts) {
    Shape shape = layer.x_shape;
    shape.back() = part.shape.back();
    encoded.push_back(encode_tensor(reshaped(part, shape)));
  }
  return {{{key, encoded}}, std::nullopt, ""};
}

Answer run_layer(const Layer& layer) {
  const Json& kwargs = layer.inputs.at("kwargs");
  const bool skip = !layer.async && kwargs.value("skip_communication", false);
  const bool own = skip || layer.mode == Mode::None;
  Diagnostics diags;
  auto graph = shipped_graph(graph_of(layer, own),
                             {{"batch", layer.rows()},
                              {"shards", layer.devices},
                              {"in", layer.in()},
                              {"features", layer.features}},
                             diags);
  if (!graph) return refusal(diags);
  std::map<std::string, Tensor> given = {{"x", whole_input(layer, own)}};
  if (layer.mode == Mode::None) {
    give_plain(layer, layer.async ? "layer/shard_0" : "layer/Dense_0", given);
  } else if (layer.async) {
    give_pieces(layer, given);
  } else {
    const auto name = kwargs.value("dense_name", std::string("module"));
    give_stacked(layer, "layer/" + name + "/sharded", given);
  }
  const auto parts =
      run_on_devices(*graph, given, layer.devices, diags, overlap_of(layer));
  if (!parts) return refusal(diags);
  return encode_parts(layer, "y[d]", *parts);
}

Answer dense(const Json& inputs, bool async) {
  Layer layer{inputs};
  layer.devices = inputs.at("tp_size").get<int64_t>();
  layer.features = inputs.at("dense_features_per_call").get<int64_t>();
  layer.async = async;
  layer.bias = inputs.at("kwargs").value("use_bias", true);
  layer.x_shape = inputs.at("x_per_device_shape").get<Shape>();
  Diagnostics diags;
  const auto mode = tensor_parallel_mode(
      inputs.at("tp_mode").get<std::string>(), layer.devices, diags);
  if (!mode) return refusal(diags);
  layer.mode = *mode;
  return run_layer(layer);
}

Answer tp_dense(const Json& inputs) { return dense(inputs, false); }
Answer tp_async_dense(const Json& inputs) { return dense(inputs, true); }

// Runs a wrapped Dense: devices have their own parameters, which are equal if
// the random numbers are not split, and zeros except on one device if masked.
Answer wrapper(const Json& inputs) {
  const Json& kwargs = inputs.at("kwargs");
  const Json arguments = kwargs.value("module_kwargs", Json::object());
  const Json mask = kwargs.value("mask_except_model_idx", Json());
  Layer layer{inputs};
  layer.devices = inputs.at("n").get<int64_t>();
  layer.bias = arguments.value("use_bias", true);
  const Tensor x = decode_tensor(inputs.at("x"));
  layer.x_shape = x.shape;
  const std::string scope = "w/sharded";
  layer.features = parameter(layer, 0, scope, "kernel").shape.back();
  std::map<std::string, Tensor> given;
  if (kwargs.value("split_rngs", true)) {
    give_stacked(layer, scope, given);
  } else {
    give_plain(layer, scope, given);
  }
  for (int64_t device = 0; device < layer.devices && !mask.is_null();
       ++device) {
    if (mask == device) continue;
    for (const char* name : {"kernel", "bias"}) {
      const Tensor held = slice(given[name], 0, device, device + 1);
      copy_into(held, make_tensor(held.element, held.shape));
    }
  }
  given["x"] =
      stacked(std::vector<Tensor>(static_cast<size_t>(layer.devices),
                                  reshaped(x, {layer.rows(), layer.in()})));
  Diagnostics diags;
  const auto graph = shipped_graph("tp_dense_local",
                                   {{"batch", layer.rows()},
                                    {"shards", layer.devices},
                                    {"in", layer.in()},
                                    {"features", layer.features}},
                                   diags);
  if (!graph) return refusal(diags);
  const auto parts = run_on_devices(*graph, given, layer.devices, diags);
  if (!parts) return refusal(diags);
  return encode_parts(layer, "y_apply[d]", *parts);
}

// Returns whether the error is of the same kind: an unknown mode and features
// that tp does not divide are both ValueErrors.
bool is_same_layer_error(const Answer& answer, const Json& error) {
  const auto says = [&](const char* words, const char* ours) {
    return error.at("message").get<std::string>().find(words) !=
               std::string::npos &&
           answer.message.find(ours) != std::string::npos;
  };
  return answer.refused == Code::InvalidGraph &&
         (says("Unknown Tensor Parallel mode", "tensor parallel mode") ||
          says("divisible", "divisible"));
}

}  // namespace

const std::vector<Function>& tp_dense_functions() {
  static const std::vector<Function> kFunctions = {
      {"TPDense", tp_dense, is_same_layer_error, nullptr, nullptr,
       agree_within_4_ulps},
      {"TPAsyncDense", tp_async_dense, is_same_layer_error, nullptr, nullptr,
       agree_within_4_ulps},
      {"ModelParallelismWrapper", wrapper, is_same_layer_error, nullptr,
       nullptr, agree_within_4_ulps},
  };
  return kFunctions;
}

}  // namespace shardplan::conformance
