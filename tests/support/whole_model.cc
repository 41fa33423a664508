// SPDX-License-Identifier: Apache-2.0
#include "tests/support/whole_model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>
#include <utility>

#include "graph/build.h"
#include "graph/graph.h"
#include "model/forward/recognise.h"
#include "resolve/resolve.h"
#include "sim/activations.h"
#include "tests/support/builders.h"
#include "tests/support/hf_config.h"
#include "tests/support/loaded_rules.h"
#include "tests/support/messages.h"
#include "tests/support/small_graph.h"
#include "tests/support/whole_values.h"

namespace shardplan::testing {
namespace {

void add(Manifest& manifest, const std::string& name, const Shape& shape) {
  if (!manifest.add(name, {DType::F32, shape}, {})) {
    throw std::invalid_argument("too large: " + name);
  }
}

Json config_of(std::string_view family, std::string_view variant) {
  if (family == "gpt2") {
    return {{"model_type", "gpt2"}, {"vocab_size", 32}, {"n_embd", 16},
            {"n_layer", 2},         {"n_head", 4},      {"n_positions", 12}};
  }
  if (family == "bert") {
    const char* kind = variant == "head" ? "BertForMaskedLM" : "BertModel";
    return {{"model_type", "bert"},     {"architectures", {kind}},
            {"vocab_size", 32},         {"hidden_size", 16},
            {"intermediate_size", 24},  {"num_hidden_layers", 2},
            {"num_attention_heads", 4}, {"max_position_embeddings", 12}};
  }
  Json config = {{"model_type", std::string(family)},
                 {"vocab_size", 32},
                 {"hidden_size", 16},
                 {"intermediate_size", 24},
                 {"num_hidden_layers", 2},
                 {"num_attention_heads", 4},
                 {"num_key_value_heads", 2}};
  // Heads wider together than the residual stream.
  if (family == "qwen3" || family == "qwen3_moe") config["head_dim"] = 8;
  if (family == "mixtral") config["num_local_experts"] = 4;
  if (family == "qwen3_moe") {
    config["num_experts"] = 4;
    config["moe_intermediate_size"] = 12;
    if (variant == "some-dense") config["mlp_only_layers"] = {0};
  }
  if (family == "mixtral" || family == "qwen3_moe") {
    config["num_experts_per_tok"] = 2;
  }
  if (variant == "biased") config["attention_bias"] = true;
  if (variant == "window") {
    config["use_sliding_window"] = true;
    config["sliding_window"] = 3;
    config["layer_types"] = {"sliding_attention", "full_attention"};
  }
  if (variant == "tied") config["tie_word_embeddings"] = true;
  return config;
}

// transformers 5: the experts of a layer in two tensors.
Manifest fused_experts(const Manifest& manifest) {
  Manifest fused;
  for (size_t i = 0; i < manifest.size(); ++i) {
    const std::string name(manifest.name(i));
    const size_t at = name.find(".experts.");
    if (at == std::string::npos) {
      add(fused, name, manifest.type(i).shape);
    } else if (name.find(".experts.0.up_proj") != std::string::npos) {
      const std::string stem = name.substr(0, at + 9);
      const Shape up = manifest.type(i).shape;
      add(fused, stem + "gate_up_proj", {4, 2 * up[0], up[1]});
      add(fused, stem + "down_proj", {4, up[1], up[0]});
    }
  }
  fused.facts = manifest.facts;
  return fused;
}

// A name under Flax: its last part, and whether a matrix is turned.
std::pair<std::string, bool> flax_name(const std::string& name, size_t rank) {
  const size_t dot = name.rfind('.');
  std::string stem = name.substr(0, dot);
  std::string last = name.substr(dot + 1);
  const std::string module = stem.substr(stem.rfind('.') + 1);
  const bool table = module == "wte" || module == "wpe" ||
                     module.find("embed") != std::string::npos;
  bool turned = false;
  if (last == "weight") {
    turned = rank == 2 && !table;
    last = table ? "embedding" : (rank == 1 ? "scale" : "kernel");
  }
  std::replace(stem.begin(), stem.end(), '.', '/');
  return {stem + "/" + last, turned};
}

// Takes the number behind `list` out of a name, as {name, number}.
std::optional<int64_t> take_number(std::string& name, const std::string& list) {
  const size_t at = name.find("/" + list + "/");
  if (at == std::string::npos) return std::nullopt;
  const size_t begin = at + list.size() + 2;
  const size_t end = name.find('/', begin);
  const std::string part = name.substr(begin, end - begin);
  if (part.find_first_not_of("0123456789") != std::string::npos) {
    return std::nullopt;
  }
  name.erase(begin, end + 1 - begin);
  return std::stoll(part);
}

}  // namespace

TinyModel tiny_model(std::string_view architecture, std::string_view variant) {
  TinyModel tiny;
  tiny.config = config_of(architecture, variant);
  tiny.manifest = synthesize(tiny.config)->good();
  if (variant == "fused") tiny.manifest = fused_experts(tiny.manifest);
  return tiny;
}

FlaxNames flax_names(const Manifest& manifest, Stacking stacking) {
  struct Made {
    Shape shape;
    std::vector<size_t> parts;
    std::vector<int64_t> numbers;  // along each stacked dimension, the largest
    bool transposed = false;
  };
  std::vector<std::string> order;
  std::map<std::string, Made> made;
  const bool layers =
      stacking == Stacking::Layers || stacking == Stacking::LayersAndExperts;
  const bool experts =
      stacking == Stacking::Experts || stacking == Stacking::LayersAndExperts;
  for (size_t i = 0; i < manifest.size(); ++i) {
    Shape shape = manifest.type(i).shape;
    auto [name, transposed] =
        flax_name(std::string(manifest.name(i)), shape.size());
    if (transposed) std::swap(shape[0], shape[1]);
    std::vector<int64_t> numbers;
    for (const char* list : {"layers", "h", "layer"}) {
      const auto number = layers ? take_number(name, list) : std::nullopt;
      if (number) numbers.push_back(*number);
    }
    if (const auto e = experts ? take_number(name, "experts") : std::nullopt) {
      numbers.push_back(*e);
    }
    const auto [each, added] = made.emplace(name, Made());
    if (added) order.push_back(name);
    each->second.shape = shape;
    each->second.transposed = transposed;
    each->second.parts.push_back(i);
    each->second.numbers.resize(numbers.size());
    for (size_t k = 0; k < numbers.size(); ++k) {
      each->second.numbers[k] = std::max(each->second.numbers[k], numbers[k]);
    }
  }
  FlaxNames result;
  for (const std::string& name : order) {
    const Made& each = made.at(name);
    Shape shape;
    for (const int64_t last : each.numbers) shape.push_back(last + 1);
    shape.insert(shape.end(), each.shape.begin(), each.shape.end());
    add(result.manifest, "params/" + name, shape);
    result.parts.push_back(each.parts);
    result.transposed.push_back(each.transposed);
  }
  result.manifest.facts = manifest.facts;
  return result;
}

ValueId WholeModel::value(std::string_view name) const {
  for (const ValueId i : graph->values.ids()) {
    if (graph->values[i].name == name) return i;
  }
  return {};
}

std::string WholeModel::ops() const {
  std::string text;
  for (const GraphNode& node : graph->nodes) {
    text += (text.empty() ? "" : " ") + std::string(node.op->name);
  }
  return text;
}

std::shared_ptr<const Document> parsed_config(const Json& config) {
  if (config.is_null()) return nullptr;
  Diagnostics diags;
  auto document = parse_document(
      std::make_shared<const SourceFile>("config.json", config.dump()), diags);
  if (!document) throw std::invalid_argument(messages(diags));
  return std::make_shared<const Document>(*std::move(document));
}

namespace {

void describe(WholeModel& model) {
  if (model.model) {
    model.description =
        write_forward(*model.model, {model.manifest, model.pass}, model.diags);
  }
  if (model.description) {
    model.graph = build_graph(*model.description, model.manifest, model.diags);
  }
  model.messages = messages(model.diags);
}

}  // namespace

std::unique_ptr<WholeModel> whole_model(Manifest manifest, Json config,
                                        ForwardPass pass) {
  auto model = std::make_unique<WholeModel>();
  model->manifest = std::move(manifest);
  model->config = std::move(config);
  model->pass = pass;
  model->model = recognise_model(model->manifest, parsed_config(model->config),
                                 nullptr, model->diags);
  describe(*model);
  return model;
}

std::unique_ptr<WholeModel> whole_model_of(Manifest manifest,
                                           ForwardDefinition model,
                                           ForwardPass pass) {
  auto result = std::make_unique<WholeModel>();
  result->manifest = std::move(manifest);
  result->pass = pass;
  result->model = std::move(model);
  describe(*result);
  return result;
}

std::vector<Tensor> random_parameters(const Manifest& manifest) {
  std::vector<Tensor> parameters;
  for (size_t i = 0; i < manifest.size(); ++i) {
    Value value;
    value.kind = Value::Kind::Parameter;
    value.shape = manifest.type(i).shape;
    parameters.push_back(
        random_value(value, ValueSource::Random, 5, static_cast<uint32_t>(i)));
  }
  return parameters;
}

std::vector<Tensor> renamed_parameters(const FlaxNames& names,
                                       const std::vector<Tensor>& parameters) {
  std::vector<Tensor> renamed;
  for (size_t i = 0; i < names.manifest.size(); ++i) {
    std::vector<double> numbers;
    for (const size_t part : names.parts[i]) {
      Tensor from = parameters[part];
      if (names.transposed[i]) {
        from = permuted(from, std::vector<int>{1, 0});
      }
      const std::vector<double> own = values_of(from);
      numbers.insert(numbers.end(), own.begin(), own.end());
    }
    renamed.push_back(
        make_tensor(Element::F32, names.manifest.type(i).shape, numbers));
  }
  return renamed;
}

std::vector<double> outputs_of(const WholeModel& model,
                               const std::vector<Tensor>& parameters) {
  std::map<std::string_view, size_t> places;
  for (size_t i = 0; i < model.manifest.size(); ++i) {
    places.emplace(model.manifest.name(i), i);
  }
  PerValue<Tensor> given(model.graph->values.size());
  for (const ValueId v : given.ids()) {
    const Value& value = model.graph->values[v];
    if (value.kind == Value::Kind::Parameter) {
      given[v] = parameters[places.at(value.parameter)];
    } else if (value.kind == Value::Kind::Input) {
      given[v] = random_value(value, ValueSource::Random, 5, 0);
    }
  }
  const PerValue<Tensor> all = evaluate(*model.graph, given, Arithmetic::F32);
  return values_of(all[model.graph->outputs.front()]);
}

SimulatedModel simulated(const WholeModel& model, const std::string& rules,
                         std::string_view mesh_text, ValueSource source,
                         const ReadValue& given) {
  SimulatedModel result;
  Diagnostics diags;
  MemoryHost host;
  host.files["rules.yaml"] = rules;
  const bool shipped = rules.front() == '@';
  const auto loaded =
      loaded_rules(host, shipped ? rules.c_str() : "rules.yaml");
  if (!loaded->rules) throw std::invalid_argument(messages(loaded->diags));
  const Mesh devices = mesh(mesh_text);
  const auto plan = resolve(model.manifest, *loaded->rules, devices, {}, diags);
  const auto placed = plan ? place_values(*model.graph, model.manifest, *plan,
                                          *loaded->rules, {}, diags)
                           : std::nullopt;
  result.messages = messages(diags);
  if (!placed) return result;
  const Program program = partition(*model.graph, devices, placed->wanted, {});
  result.moves = moves(program);
  const auto values = given ? std::optional(given)
                            : draw_values(*model.graph, source, 3, diags);
  if (!values) return result;
  SimulateOptions options;
  options.values = source;
  result.simulation = simulate(program, *values, options);
  return result;
}

std::string disagreements(const WholeModel& model, const std::string& rules) {
  std::string text;
  for (const std::string mesh : {"dp=2,fsdp=2", "fsdp=2,tp=2", "tp=4",
                                 "fsdp=2,sp=2", "sp=2,tp=2", "ep=2,tp=2"}) {
    for (const ValueSource source : {ValueSource::Field, ValueSource::Random}) {
      const SimulatedModel run = simulated(model, rules, mesh, source);
      if (run.simulation && !run.simulation->mismatch) continue;
      text += mesh + (source == ValueSource::Field ? " in the field" : "");
      text +=
          run.simulation
              ? " at " +
                    model.graph->values[run.simulation->mismatch->value].name
              : " is not placed: " + run.messages;
      text += "\n";
    }
  }
  return text;
}

double largest_difference(const WholeModel& model, const FlaxNames& names) {
  const auto other = whole_model(names.manifest, model.config, model.pass);
  if (!other->graph) throw std::invalid_argument(other->messages);
  const std::vector<Tensor> parameters = random_parameters(model.manifest);
  const std::vector<double> wanted = outputs_of(model, parameters);
  const std::vector<double> found =
      outputs_of(*other, renamed_parameters(names, parameters));
  double largest = 0;
  double difference = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    largest = std::max(largest, std::abs(wanted[i]));
    difference = std::max(difference, std::abs(found.at(i) - wanted[i]));
  }
  return difference / largest;
}

}  // namespace shardplan::testing
