// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/simulate/given_inputs.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/text.h"
#include "base/words.h"
#include "cli/options.h"
#include "io/load.h"

namespace shardplan::cli {
namespace {

// Names that a message lists; the others are only counted.
constexpr size_t kMaxNames = 8;

std::string list_text(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < kMaxNames; ++i) {
    text += (i > 0 ? ", " : "") + in_backticks(names[i]);
  }
  if (names.size() <= kMaxNames) return text;
  return text + " and " +
         count_text(static_cast<int64_t>(names.size() - kMaxNames)) + " more";
}

std::vector<std::string> tensor_names(const Manifest& manifest) {
  std::vector<std::string> names;
  for (size_t i = 0; i < manifest.size(); ++i) {
    names.emplace_back(manifest.name(i));
  }
  return names;
}

template <typename Integer>
int64_t integer_from(const std::byte* data, int64_t index) {
  Integer number{};
  std::memcpy(&number, data + static_cast<size_t>(index) * sizeof number,
              sizeof number);
  // An unsigned number above INT64_MAX exceeds every limit.
  if (std::is_unsigned_v<Integer> && number > Integer{} &&
      static_cast<int64_t>(number) < 0) {
    return INT64_MAX;
  }
  return static_cast<int64_t>(number);
}

using IntegerAt = int64_t (*)(const std::byte*, int64_t);

// Returns null if the dtype is not an integer.
IntegerAt integer_reader(DType dtype) {
  switch (dtype) {
    case DType::I64:
      return integer_from<int64_t>;
    case DType::I32:
      return integer_from<int32_t>;
    case DType::I16:
      return integer_from<int16_t>;
    case DType::I8:
      return integer_from<int8_t>;
    case DType::U64:
      return integer_from<uint64_t>;
    case DType::U32:
      return integer_from<uint32_t>;
    case DType::U16:
      return integer_from<uint16_t>;
    case DType::U8:
      return integer_from<uint8_t>;
    default:
      return nullptr;
  }
}

// Returns the tensor of that name, or the only tensor of the file.
std::optional<size_t> tensor_of(const ExpectedOutputs& file,
                                const std::string& name, Diagnostics& diags) {
  for (size_t i = 0; i < file.manifest.size(); ++i) {
    if (file.manifest.name(i) == name) return i;
  }
  if (file.manifest.size() == 1) return 0;
  return diags
      .error(Code::Usage, {},
             in_backticks(file.path) + " has no tensor named " +
                 in_backticks(name))
      .fact(file.manifest.size() == 0
                ? "it has none"
                : "it has " + list_text(tensor_names(file.manifest)))
      .help("a file with a single tensor may use any name");
}

class GivenReader {
 public:
  GivenReader(Context& context, const Graph& graph, std::string given_elsewhere)
      : context_(context),
        graph_(graph),
        given_elsewhere_(std::move(given_elsewhere)) {
    for (const ValueId v : graph.values.ids()) {
      const Value& value = graph.values[v];
      if (value.kind != Value::Kind::Input) continue;
      inputs_.push_back(v);
      input_names_.push_back(value.name);
    }
  }

  bool read_flag(const InputFile& asked) {
    const auto known = std::ranges::find(input_names_, asked.name);
    if (known == input_names_.end()) return unknown(asked.name);
    const ValueId value =
        inputs_[static_cast<size_t>(known - input_names_.begin())];
    if (is_given(value)) {
      return refuse("--input gives " + in_backticks(asked.name) + " twice");
    }
    if (asked.name == given_elsewhere_) return given_twice(value);
    const auto file = read_expected(asked.path, context_.host, context_.diags);
    if (!file) return false;
    const auto tensor = tensor_of(*file, asked.name, context_.diags);
    return tensor && add(value, *file, *tensor);
  }

  bool read_ids(const InputIds& ids) {
    std::vector<std::string> names;
    ValueId value;
    for (const ValueId input : inputs_) {
      if (of(input).integers_below == 0) continue;
      names.push_back(of(input).name);
      value = input;
    }
    if (names.size() != 1) {
      auto problem = context_.diags.error(
          Code::Usage, {},
          "--input-ids needs a graph with exactly one integer input");
      problem.fact(names.empty()
                       ? in_backticks(graph_.name) + " has none"
                       : "its integer inputs are " + list_text(names));
      problem.help("`--input NAME=FILE` gives an input by its name");
      return false;
    }
    if (is_given(value)) return given_twice(value);
    const Shape given = {std::ssize(ids), std::ssize(ids.front())};
    const bool flat = ids.size() == 1 && of(value).shape == Shape{given[1]};
    if (!flat && of(value).shape != given) {
      return wrong_shape(value, "--input-ids", {}, given);
    }
    std::vector<double> numbers;
    for (const std::vector<int64_t>& row : ids) {
      for (const int64_t id : row) {
        if (!in_range(value, id, "--input-ids", {})) return false;
        numbers.push_back(static_cast<double>(id));
      }
    }
    given_.push_back({value, std::nullopt,
                      make_tensor(Element::F64, of(value).shape, numbers),
                      "--input-ids"});
    return true;
  }

  // Reads inputs that a recording of outputs also contains.
  bool read_recording(const ExpectedOutputs& recording) {
    bool fine = true;
    for (const ValueId input : inputs_) {
      if (is_given(input) || of(input).name == given_elsewhere_) continue;
      for (size_t i = 0; i < recording.manifest.size(); ++i) {
        if (recording.manifest.name(i) != of(input).name) continue;
        fine = add(input, recording, i) && fine;
      }
    }
    return fine;
  }

  std::vector<GivenInput> take() { return std::move(given_); }

 private:
  const Value& of(ValueId value) const { return graph_.values[value]; }
  bool is_given(ValueId value) const {
    return std::ranges::any_of(given_, [value](const GivenInput& each) {
      return each.value == value;
    });
  }

  bool refuse(std::string message) {
    context_.diags.error(Code::Usage, {}, std::move(message));
    return false;
  }

  bool given_twice(ValueId value) {
    return refuse(in_backticks(of(value).name) +
                  " is given by both --input and --input-ids");
  }

  bool unknown(const std::string& name) {
    auto problem = context_.diags.error(
        Code::Usage, {}, "the graph has no input named " + in_backticks(name));
    problem.fact(input_names_.empty()
                     ? in_backticks(graph_.name) + " has no inputs"
                     : "its inputs are " + list_text(input_names_));
    for (const Value& value : graph_.values) {
      if (value.name != name || value.kind != Value::Kind::Parameter) continue;
      problem.help(in_backticks(name) +
                   " is a parameter: its values come from the model, `simulate "
                   "WEIGHTS --graph FILE`");
      return false;
    }
    suggest(problem, name, input_names_);
    return false;
  }

  bool wrong_shape(ValueId value, const std::string& from, Span where,
                   const Shape& shape) {
    context_.diags
        .error(Code::Usage, where,
               "input " + in_backticks(of(value).name) + " is " +
                   shape_text(of(value).shape) + ", but " + in_backticks(from) +
                   " gives " + shape_text(shape))
        .help(
            "`--dims` sets the sizes of a graph file; a whole model takes them "
            "from its config");
    return false;
  }

  bool wrong_type(ValueId value, const std::string& from, Span where,
                  DType dtype) {
    const int64_t below = of(value).integers_below;
    auto problem = context_.diags.error(
        Code::Usage, where,
        "input " + in_backticks(of(value).name) + " takes " +
            (below > 0 ? "integers" : "floating-point numbers") + ", but " +
            in_backticks(from) + " gives " + std::string(dtype_name(dtype)));
    problem.help(below > 0 ? "save it as I64 or I32"
                           : "save it as F64, F32, BF16 or F16, or add `below: "
                             "N` to the input if it holds integers");
    return false;
  }

  bool in_range(ValueId value, int64_t number, const std::string& from,
                Span where) {
    const int64_t below = of(value).integers_below;
    if (number >= 0 && number < below) return true;
    context_.diags
        .error(Code::Usage, where,
               in_backticks(from) + " gives " + std::to_string(number) +
                   " for input " + in_backticks(of(value).name))
        .fact("valid integers are 0 to " + count_text(below - 1));
    return false;
  }

  bool add(ValueId value, const ExpectedOutputs& file, size_t i) {
    const StoredTensor& tensor = file.numbers[i];
    const Span where = file.manifest.where(i);
    if (tensor.shape != of(value).shape) {
      return wrong_shape(value, file.path, where, tensor.shape);
    }
    if (of(value).integers_below > 0) {
      return add_integers(value, file, tensor, where);
    }
    if (!is_computable(tensor.dtype)) {
      return wrong_type(value, file.path, where, tensor.dtype);
    }
    given_.push_back({value, tensor, {}, file.path});
    return true;
  }

  bool add_integers(ValueId value, const ExpectedOutputs& file,
                    const StoredTensor& tensor, Span where) {
    const IntegerAt at = integer_reader(tensor.dtype);
    if (at == nullptr) return wrong_type(value, file.path, where, tensor.dtype);
    const Tensor integers = make_tensor(Element::F64, tensor.shape);
    for (int64_t i = 0; i < integers.elements(); ++i) {
      const int64_t number = at(tensor.data, i);
      if (!in_range(value, number, file.path, where)) return false;
      integers.data<double>()[i] = static_cast<double>(number);
    }
    given_.push_back({value, std::nullopt, integers, file.path});
    return true;
  }

  Context& context_;
  const Graph& graph_;
  std::string given_elsewhere_;
  std::vector<ValueId> inputs_;
  std::vector<std::string> input_names_;
  std::vector<GivenInput> given_;
};

// Reports inputs of a run in the field that have fractions, which residues
// cannot represent; integers are the same in the field.
bool fit_the_field(const Graph& graph, const std::vector<GivenInput>& given,
                   Diagnostics& diags) {
  for (const GivenInput& input : given) {
    if (!input.stored) continue;
    diags
        .error(Code::Usage, {},
               "`--values field` computes in integers, but " +
                   in_backticks(input.from) +
                   " gives floating-point numbers for input " +
                   in_backticks(graph.values[input.value].name))
        .help("leave out `--values field`, or let it draw the input");
    return false;
  }
  return true;
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
    if (expected.manifest.name(i) != "input_ids" || tensor.shape.size() != 2 ||
        (tensor.dtype != DType::I64 && tensor.dtype != DType::I32)) {
      continue;
    }
    const IntegerAt at = integer_reader(tensor.dtype);
    InputIds ids;
    int64_t next = 0;
    for (int64_t row = 0; row < tensor.shape[0]; ++row) {
      std::vector<int64_t>& sequence = ids.emplace_back();
      for (int64_t column = 0; column < tensor.shape[1]; ++column) {
        sequence.push_back(at(tensor.data, next++));
      }
    }
    return ids;
  }
  return {};
}

Tensor load(const GivenInput& input, Element element) {
  return input.stored ? load(*input.stored, element)
                      : converted(input.integers, element);
}

std::optional<InputShapes> given_shapes(Context& context,
                                        const ExpectedOutputs* expected) {
  InputShapes shapes;
  for (const InputFile& each : context.options.simulate.inputs) {
    const auto file = read_expected(each.path, context.host, context.diags);
    const auto tensor = file ? tensor_of(*file, each.name, context.diags)
                             : std::optional<size_t>();
    if (!tensor) return std::nullopt;
    shapes.emplace_back(each.name, file->numbers[*tensor].shape);
  }
  for (size_t i = 0; expected != nullptr && i < expected->numbers.size(); ++i) {
    shapes.emplace_back(expected->manifest.name(i), expected->numbers[i].shape);
  }
  return shapes;
}

std::optional<std::vector<GivenInput>> read_given_inputs(
    Context& context, const Graph& graph, const InputIds& ids,
    const ExpectedOutputs* expected, const std::string& given_elsewhere) {
  const SimulateRequest& flags = context.options.simulate;
  GivenReader reader(context, graph, given_elsewhere);
  bool fine = true;
  for (const InputFile& each : flags.inputs) {
    fine = reader.read_flag(each) && fine;
  }
  if (!ids.empty()) fine = reader.read_ids(ids) && fine;
  if (expected != nullptr) fine = reader.read_recording(*expected) && fine;
  if (!fine) return std::nullopt;
  std::vector<GivenInput> given = reader.take();
  if (flags.values == ValueSource::Field &&
      !fit_the_field(graph, given, context.diags)) {
    return std::nullopt;
  }
  return given;
}

bool can_expect_of_graph(Context& context, const Graph& graph,
                         const Manifest& manifest, ValueSource source,
                         const std::vector<GivenInput>& given) {
  if (source == ValueSource::Field) {
    context.diags
        .error(Code::Usage, {},
               "--expect compares floating-point numbers, but `--values field` "
               "has none")
        .help("leave out `--values field`");
    return false;
  }
  std::unordered_set<std::string_view> held;
  if (source == ValueSource::Checkpoint) {
    for (size_t i = 0; i < manifest.size(); ++i) held.insert(manifest.name(i));
  }
  std::vector<std::string> parameters;
  std::vector<std::string> inputs;
  for (const ValueId v : graph.values.ids()) {
    const Value& value = graph.values[v];
    if (value.kind == Value::Kind::Parameter && !held.contains(value.parameter))
      parameters.push_back(value.parameter);
    const bool drawn = std::ranges::none_of(
        given, [v](const GivenInput& each) { return each.value == v; });
    if (value.kind == Value::Kind::Input && drawn) inputs.push_back(value.name);
  }
  if (!parameters.empty()) {
    auto problem = context.diags.error(
        Code::Usage, {}, "--expect needs the weights of a checkpoint");
    problem.fact("random values would be used for " + list_text(parameters));
    problem.help(
        "`simulate WEIGHTS --graph FILE` reads parameters from a checkpoint");
  }
  if (!inputs.empty()) {
    auto problem = context.diags.error(
        Code::Usage, {}, "--expect needs the inputs of the recording");
    problem.fact("random values would be used for " + list_text(inputs));
    problem.help(
        "`--input NAME=FILE` gives them, as do tensors with their names in the "
        "`--expect` file");
  }
  return parameters.empty() && inputs.empty();
}

}  // namespace shardplan::cli
