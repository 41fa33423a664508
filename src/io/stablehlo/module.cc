// SPDX-License-Identifier: Apache-2.0
#include "io/stablehlo/module.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/text.h"
#include "base/words.h"
#include "io/formats.h"
#include "io/spec_node.h"
#include "syntax/mlir.h"
#include "syntax/tokens.h"

namespace shardplan {
namespace {

class Reader {
 public:
  Reader(const SourceFile& source, Diagnostics& diags)
      : source_(source), errors_(diags, "the module") {}

  std::optional<StableHloModule> read() {
    scan();
    if (errors_.errors() > 0) return std::nullopt;
    const auto function = choose();
    if (!function) return std::nullopt;
    read_arguments(*function);
    if (errors_.errors() > 0) return std::nullopt;
    return std::move(module_);
  }

 private:
  struct Function {
    std::string name;
    uint64_t arguments = 0;  // position after the opening bracket
  };

  // Runs a parser and forwards its reports to `errors_`. What it reports of a
  // text within an attribute is reported at the attribute, `inside`.
  template <typename Parse>
  auto reported(Parse parse, std::optional<Span> inside = {}) {
    Diagnostics found;
    auto result = parse(found);
    for (const Diagnostic& problem : found.all()) {
      Span where = inside.value_or(Span());
      if (!inside && !problem.labels.empty()) {
        where = problem.labels.front().where;
      }
      auto report = errors_.error(problem.code, where, problem.message);
      if (!inside) {
        for (const std::string& fact : problem.facts) report.fact(fact);
      }
      for (const std::string& help : problem.help) report.help(help);
    }
    return result;
  }

  // Parses a text within an attribute.
  template <typename Parse>
  auto parsed_inside(std::string_view text, Span where, Parse parse) {
    const SourceFile inner(source_.name(), unescaped(text));
    MlirCursor cursor(inner);
    return reported([&](Diagnostics& diags) { return parse(cursor, diags); },
                    where);
  }

  // Reads the string that is the value of an attribute.
  std::optional<std::string> text_value(MlirCursor& cursor,
                                        const std::string& key, Span& where) {
    const uint64_t begin = cursor.at();
    auto text = cursor.string();
    where = cursor.span_from(begin);
    if (!text) {
      errors_.malformed(cursor.here(), in_backticks(key) + " is not a string");
    }
    return text;
  }

  bool fail(Span where, std::string message) {
    errors_.malformed(where, std::move(message));
    return false;
  }

  // XLA escapes the quotes in such texts a second time.
  static std::string unescaped(std::string_view text) {
    std::string plain;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\\' && i + 1 < text.size()) ++i;
      plain += text[i];
    }
    return plain;
  }

  static void place(ShardyMesh& mesh, Span where) {
    mesh.where = where;
    for (AxisRequest& axis : mesh.axes) {
      axis.where = axis.name_where = axis.size_where = where;
    }
  }

  // Meshes, public functions and names of locations may be anywhere.
  void scan() {
    for (MlirCursor cursor(source_); !cursor.done() && !errors_.stopped();) {
      const char c = cursor.peek();
      if (c == '#') {
        location_alias(cursor);
      } else if (c == 's' && cursor.accept("sdy.mesh")) {
        mesh(cursor);
      } else if (c == 'f' && cursor.accept("func.func")) {
        function(cursor);
      } else if (c == 'm' && cursor.accept("mhlo.num_partitions")) {
        if (cursor.accept("=")) module_.partitions = cursor.integer();
      } else if (c == 'x' && cursor.accept("xla.sdy.meshes")) {
        if (cursor.accept("=")) exported_meshes(cursor);
      } else if (cursor.word().empty()) {
        if (c == '"') {
          generic_form(cursor);
        } else {
          cursor.skip_one();
        }
      }
    }
  }

  // Reads `#loc3 = loc("params['w']")`. File locations have a colon after the
  // text.
  void location_alias(MlirCursor& cursor) {
    cursor.skip_one();
    const std::string name(cursor.word());
    if (!cursor.accept("=") || !cursor.accept("loc") || !cursor.accept("(")) {
      return;
    }
    auto text = cursor.string();
    if (text && (cursor.peek() == ')' || cursor.peek() == '(')) {
      locations_[name] = *std::move(text);
    }
  }

  void mesh(MlirCursor& cursor) {
    const uint64_t begin = cursor.at();
    const auto name = cursor.symbol();
    if (!name || !cursor.accept("=")) {
      errors_.malformed(cursor.here(), "a mesh has no name")
          .help("write it like `sdy.mesh @mesh = <[\"a\"=2]>`");
      return;
    }
    cursor.accept("#sdy.mesh");
    auto mesh = reported(
        [&](Diagnostics& diags) { return parse_shardy_mesh(cursor, diags); });
    if (mesh) add_mesh(*name, *std::move(mesh), cursor.span_from(begin));
  }

  // Reads `xla.sdy.meshes = "{mesh = #sdy.mesh<[..]>}"`, which JAX exported
  // before Shardy had a stable form.
  void exported_meshes(MlirCursor& cursor) {
    Span where;
    const auto text = text_value(cursor, "xla.sdy.meshes", where);
    if (!text) return;
    using Meshes = std::vector<std::pair<std::string, ShardyMesh>>;
    auto meshes =
        parsed_inside(*text, where, [](MlirCursor& inner, Diagnostics& diags) {
          Meshes all;
          inner.accept("{");
          while (!inner.done() && !inner.accept("}")) {
            std::string name(inner.word());
            if (!inner.accept("=")) {
              diags.error(Code::MalformedDocument, inner.here(),
                          "a mesh has no name");
              return all;
            }
            inner.accept("#sdy.mesh");
            auto mesh = parse_shardy_mesh(inner, diags);
            if (!mesh) return all;
            all.emplace_back(std::move(name), *std::move(mesh));
            inner.accept(",");
          }
          return all;
        });
    for (auto& [name, mesh] : meshes) {
      place(mesh, where);
      add_mesh(name, std::move(mesh), where);
    }
  }

  void add_mesh(const std::string& name, ShardyMesh mesh, Span all) {
    const Span where = mesh.where;
    const auto [known, is_new] =
        module_.meshes.try_emplace(name, std::move(mesh));
    if (is_new) return;
    errors_
        .error(Code::DuplicateKey, all,
               "mesh " + in_backticks(name) + " is given twice")
        .label(known->second.where, "first given here")
        .label(where, "then here");
  }

  void function(MlirCursor& cursor) {
    if (cursor.accept("private")) return;
    if (!cursor.accept("public")) cursor.accept("nested");
    auto name = cursor.symbol();
    if (name && cursor.accept("(")) {
      functions_.push_back({*std::move(name), cursor.at()});
    }
  }

  void generic_form(MlirCursor& cursor) {
    const Span where = cursor.here();
    const auto text = cursor.string();
    if (!text) {
      cursor.skip_one();
    } else if (*text == "func.func" && cursor.peek() == '(') {
      errors_.malformed(where, "the module is printed in generic form")
          .help("print it without `--mlir-print-op-generic`");
    }
  }

  std::optional<Function> choose() {
    if (const Function* main = find_named(functions_, "main")) return *main;
    if (functions_.size() == 1) return functions_.front();
    auto report = errors_.malformed(
        {&source_, 0, 0},
        functions_.empty()
            ? "the module has no public function"
            : "the module has " +
                  plural(std::ssize(functions_), "public function") +
                  ", none of which is `@main`");
    constexpr size_t kShown = 5;
    for (size_t i = 0; i < std::min(functions_.size(), kShown); ++i) {
      report.fact("public function: " + in_backticks(functions_[i].name));
    }
    report.help("rename the function that takes the parameters to `@main`");
    return std::nullopt;
  }

  void read_arguments(const Function& function) {
    MlirCursor cursor(source_, function.arguments);
    while (!errors_.stopped() && !cursor.accept(")")) {
      if (!argument(cursor)) return;
      if (cursor.peek() != ')' && !cursor.accept(",")) {
        errors_.malformed(cursor.here(), "expected `,` or `)` here");
        return;
      }
    }
  }

  // Returns false if the next argument cannot be found.
  bool argument(MlirCursor& cursor) {
    StableHloArgument argument;
    const uint64_t begin = cursor.at();
    if (!cursor.accept("%")) {
      errors_.malformed(cursor.here(), "expected an argument here")
          .help("arguments are `%NAME: TYPE {ATTRIBUTES} loc(..)`");
      return false;
    }
    argument.name = cursor.word();
    argument.where = cursor.span_from(begin);
    if (!cursor.accept(":")) {
      return fail(cursor.here(), "an argument has no type");
    }
    const auto type = tensor_type(cursor);
    if (!type && cursor.done()) return false;
    const size_t before = errors_.errors();
    given_name_.reset();
    if (cursor.accept("{") && !attributes(cursor, argument)) return false;
    if (cursor.accept("loc") && !location(cursor, argument)) return false;
    if (given_name_) argument.name = *given_name_;
    if (!type || errors_.errors() > before) return true;
    argument.type = *type;
    // An exported module has both; only Shardy's sharding names its axes.
    if (argument.sharding) argument.hlo_sharding.reset();
    check_rank(argument);
    module_.arguments.push_back(std::move(argument));
    return true;
  }

  void check_rank(const StableHloArgument& argument) {
    const size_t rank = argument.type.shape.size();
    size_t dims = rank;
    Span where;
    if (argument.sharding) {
      dims = argument.sharding->spec.dims.size();
      where = argument.sharding->where;
    } else if (argument.hlo_sharding && !argument.hlo_sharding->tiles.empty()) {
      dims = argument.hlo_sharding->rank();
      where = argument.hlo_sharding->where;
    }
    if (dims == rank) return;
    errors_.malformed(
        where, "the sharding of " + in_backticks(argument.name) + " has " +
                   plural(static_cast<int64_t>(dims), "dimension") +
                   ", but its type has " + std::to_string(rank));
  }

  std::optional<TensorType> tensor_type(MlirCursor& cursor) {
    const uint64_t begin = cursor.at();
    const bool is_tensor = cursor.accept("tensor") && cursor.accept("<");
    if (!is_tensor) {
      cursor.skip_to(",){");
      return errors_
          .malformed(cursor.span_from(begin), "an argument is not a tensor")
          .help("only functions with tensor arguments are supported");
    }
    const uint64_t inside = cursor.at();
    cursor.skip_to(">");
    const Span where = cursor.span_from(inside);
    if (!cursor.accept(">")) {
      return errors_.malformed(where, "a type is not closed");
    }
    return parse_type(where);
  }

  // Parses `8x16xf32`, which an encoding may follow after a comma.
  std::optional<TensorType> parse_type(Span where) {
    std::string_view text = where.text();
    TensorType type;
    while (!text.empty() && is_digit(text.front())) {
      int64_t size = 0;
      const auto [end, error] =
          std::from_chars(text.data(), text.data() + text.size(), size);
      const auto digits = static_cast<size_t>(end - text.data());
      if (error != std::errc() || text.substr(digits, 1) != "x") {
        return errors_.malformed(
            where, in_backticks(where.text()) + " is not a shape");
      }
      type.shape.push_back(size);
      text.remove_prefix(digits + 1);
    }
    if (text.starts_with('?') || text.starts_with('*')) {
      return errors_
          .malformed(where,
                     "the shape " + in_backticks(where.text()) + " is dynamic")
          .help("lower the program with static shapes");
    }
    std::string_view element = text.substr(0, text.find(','));
    while (element.ends_with(' ')) element.remove_suffix(1);
    if (const auto dtype = find_mlir_type(element)) {
      type.dtype = *dtype;
      return type;
    }
    return errors_.error(
        Code::UnknownDtype, where,
        in_backticks(element) + " is not a supported element type");
  }

  bool attributes(MlirCursor& cursor, StableHloArgument& argument) {
    while (!cursor.accept("}")) {
      const uint64_t begin = cursor.at();
      auto quoted = cursor.string();
      const std::string key =
          quoted ? *std::move(quoted) : std::string(cursor.word());
      if (key.empty()) {
        return fail(cursor.here(), "expected an attribute here");
      }
      if (cursor.accept("=") && !attribute(cursor, key, begin, argument)) {
        return false;
      }
      if (cursor.peek() != '}' && !cursor.accept(",")) {
        return fail(cursor.here(), "expected `,` or `}` here");
      }
    }
    return true;
  }

  bool attribute(MlirCursor& cursor, const std::string& key, uint64_t begin,
                 StableHloArgument& argument) {
    if (key == "sdy.sharding") {
      const uint64_t at = cursor.at();
      argument.sharding = reported([&](Diagnostics& diags) {
        return parse_shardy_sharding(cursor, diags);
      });
      if (argument.sharding) return true;
      cursor = MlirCursor(source_, at);  // to skip the whole value
    } else if (key == "mhlo.frontend_attributes" && cursor.accept("{")) {
      // The value is a map: {xla.sdy.sharding = "#sdy.sharding<..>"}.
      return attributes(cursor, argument);
    } else if (key == "xla.sdy.sharding") {
      exported_sharding(cursor, argument);
    } else if (has_word("mhlo.sharding jax.arg_info mhlo.arg_name", key)) {
      Span where;
      const auto text = text_value(cursor, key, where);
      if (text && key == "mhlo.sharding") {
        argument.hlo_sharding = reported([&](Diagnostics& diags) {
          return parse_hlo_sharding(*text, where, diags);
        });
      } else if (text) {
        given_name_ = name_of_location(*text);
      }
    }
    return cursor.skip_to(",}") ||
           fail(cursor.span_from(begin), "an attribute is not closed");
  }

  void exported_sharding(MlirCursor& cursor, StableHloArgument& argument) {
    Span where;
    const auto text = text_value(cursor, "xla.sdy.sharding", where);
    if (!text) return;
    argument.sharding =
        parsed_inside(*text, where, [](MlirCursor& inner, Diagnostics& diags) {
          return parse_shardy_sharding(inner, diags);
        });
    if (!argument.sharding) return;
    argument.sharding->where = where;
    for (Span& dim : argument.sharding->dim_where) dim = where;
    if (argument.sharding->inlined) place(*argument.sharding->inlined, where);
  }

  // Reads `loc("name")`, `loc("name"(..))` or `loc(#loc3)`.
  bool location(MlirCursor& cursor, StableHloArgument& argument) {
    const uint64_t begin = cursor.at();
    if (!cursor.accept("(")) return true;
    if (auto text = cursor.string()) {
      if (cursor.peek() == ')' || cursor.peek() == '(') {
        argument.name = name_of_location(*text);
      }
    } else if (cursor.accept("#")) {
      const auto known = locations_.find(cursor.word());
      if (known != locations_.end()) {
        argument.name = name_of_location(known->second);
      }
    }
    return (cursor.skip_to(")") && cursor.accept(")")) ||
           fail(cursor.span_from(begin), "a location is not closed");
  }

  const SourceFile& source_;
  ErrorLimit errors_;
  StableHloModule module_;
  std::vector<Function> functions_;
  std::map<std::string, std::string, std::less<>> locations_;
  std::optional<std::string> given_name_;  // an attribute of the argument
};

constexpr std::string_view kHloText = "HloModule ";
constexpr std::string_view kBytecode = "ML\xEFR";

// The format `stablehlo`: the arguments of a lowered program, as JAX prints it.

std::optional<Manifest> read(const ManifestSource& model, Host& /*host*/,
                             Diagnostics& diags) {
  diags.add_source(model.file);
  const auto module = read_stablehlo(*model.file, diags);
  if (!module) return std::nullopt;
  Manifest manifest;
  for (const StableHloArgument& argument : module->arguments) {
    if (argument.name.empty() || !is_valid_utf8(argument.name)) {
      return diags.error(Code::MalformedDocument, argument.where,
                         argument.name.empty()
                             ? "an argument has an empty name"
                             : "an argument name is not UTF-8");
    }
    if (!manifest.add(argument.name, argument.type, argument.where)) {
      return diags
          .error(Code::MalformedDocument, argument.where,
                 in_backticks(argument.name) + " exceeds 2^63 bytes")
          .fact("its shape is " + shape_text(argument.type.shape));
    }
  }
  const ShardyMesh* mesh = nullptr;
  // Errors in shardings do not affect names and shapes.
  Diagnostics ignored;
  if (find_mesh(*module, mesh, ignored) && mesh != nullptr) {
    manifest.mesh = mesh->axes;
  }
  manifest.title = model.path;
  manifest.sources.push_back(model.file);
  return manifest;
}

}  // namespace

bool looks_like_stablehlo(std::string_view head) {
  if (head.starts_with(kHloText) || head.starts_with(kBytecode)) return true;
  if (contains(head, '\0')) return false;
  const bool has_function = contains(head, "func.func");
  const size_t module = head.find("module @");
  return (has_function && contains(head, "tensor<")) ||
         (module != std::string_view::npos &&
          contains(head, "mhlo.num_partitions")) ||
         contains(head, "sdy.mesh @");
}

std::optional<StableHloModule> read_stablehlo(const SourceFile& source,
                                              Diagnostics& diags) {
  for (const auto& [begins, what] :
       {std::pair(kHloText, "the text of an HLO module"),
        std::pair(kBytecode, "the bytecode of an MLIR module")}) {
    if (!source.text().starts_with(begins)) continue;
    return diags
        .error(Code::UnrecognizedFormat, {},
               in_backticks(source.name()) + " is " + what +
                   ", which is not supported")
        .help(
            "print StableHLO instead: `jax.jit(f).lower(..).as_text()`, or "
            "`mlir_module()` of a `jax.export` result");
  }
  return Reader(source, diags).read();
}

bool find_mesh(const StableHloModule& module, const ShardyMesh*& mesh,
               Diagnostics& diags) {
  mesh = nullptr;
  const ShardySharding* on_none = nullptr;
  bool good = true;
  const auto refuse = [&](Code code, Span where, std::string message) {
    good = false;
    return diags.error(code, where, std::move(message));
  };
  for (const StableHloArgument& argument : module.arguments) {
    if (!argument.sharding) continue;
    const ShardySharding& sharding = *argument.sharding;
    const ShardyMesh* own = nullptr;
    if (sharding.inlined) {
      own = &*sharding.inlined;
    } else if (const auto found = module.meshes.find(sharding.mesh_name);
               found != module.meshes.end()) {
      own = &found->second;
    } else {
      refuse(Code::MalformedDocument, sharding.where,
             "the module has no mesh " + in_backticks(sharding.mesh_name));
      continue;
    }
    // This argument is replicated over the mesh of the others.
    if (own->axes.empty() && !own->has_device_ids) {
      if (on_none == nullptr) on_none = &sharding;
      continue;
    }
    if (own->axes.empty()) {
      refuse(Code::Inexpressible, sharding.where,
             in_backticks(argument.name) + " is on one device only")
          .fact("its mesh has no axes and names a device")
          .help("shard or replicate it over a mesh");
      continue;
    }
    if (mesh != nullptr && !same_axes(mesh->axes, own->axes)) {
      refuse(Code::Inexpressible, sharding.where,
             "arguments are on different meshes")
          .label(mesh->where, "earlier arguments use this mesh")
          .help("put all arguments on one mesh");
      return false;
    }
    if (mesh == nullptr) mesh = own;
    const auto check = [&](const AxisName& axis, Span where) {
      if (axis == kUnconstrained || find_named(own->axes, axis) != nullptr) {
        return;
      }
      refuse(Code::MalformedDocument, where,
             "the mesh has no axis " + in_backticks(axis));
    };
    for (size_t dim = 0; dim < sharding.spec.dims.size(); ++dim) {
      for (const AxisName& axis : sharding.spec.dims[dim]) {
        check(axis, dim < sharding.dim_where.size() ? sharding.dim_where[dim]
                                                    : sharding.where);
      }
    }
    for (const AxisName& axis : sharding.replicated) {
      check(axis, sharding.where);
    }
  }
  if (good && mesh == nullptr && on_none != nullptr) {
    refuse(Code::Inexpressible, on_none->where,
           "no argument is on a mesh with axes")
        .fact("the program is for one device, or replicates everything")
        .help("shard or replicate the arguments over a mesh before lowering");
  }
  return good;
}

std::string name_of_location(std::string_view text) {
  const size_t first = text.find_first_of("[.");
  if (first == 0 || !contains(text, '[')) return std::string(text);
  std::string name(text.substr(0, first));
  for (std::string_view rest = text.substr(first); !rest.empty();) {
    const bool attribute = rest.starts_with('.');
    const bool quoted = rest.starts_with("['");
    const size_t begin = quoted ? 2 : 1;
    const size_t end = attribute
                           ? std::min(rest.find_first_of("[.", 1), rest.size())
                           : rest.find(quoted ? "']" : "]", 1);
    if (!(attribute || rest.starts_with('[')) ||
        end == std::string_view::npos || end < begin) {
      return std::string(text);
    }
    std::string_view part = rest.substr(begin, end - begin);
    constexpr std::string_view kFlat = "<flat index ";
    if (!attribute && part.starts_with(kFlat) && part.ends_with('>')) {
      part = part.substr(kFlat.size(), part.size() - kFlat.size() - 1);
    }
    if (part.empty()) return std::string(text);
    name += "/" + std::string(part);
    rest.remove_prefix(attribute ? end : end + begin);
  }
  return name;
}

const ManifestFormat kStableHlo = {
    "stablehlo", "the arguments of a lowered program, in MLIR text",
    looks_like_stablehlo, read};

}  // namespace shardplan
