// SPDX-License-Identifier: Apache-2.0
#include "io/plan/plan_values.h"

#include <climits>
#include <optional>

#include "base/text.h"
#include "base/words.h"
#include "io/plan/plan_file.h"

namespace shardplan {

bool read_name(JsonReader& json, std::string_view what, AxisName& name) {
  std::string text;
  if (!json.string(what, text)) return false;
  name = text;
  return true;
}

bool read_axis_name(JsonReader& json, std::string_view what, AxisName& axis) {
  if (!read_name(json, what, axis)) return false;
  return is_axis_name(axis) || axis == kUnconstrained ||
         json.malformed(json.span(), "`" + axis + "` is not a valid axis name");
}

bool read_names(JsonReader& json, std::string_view what, ReadName read,
                AxisNames& names) {
  return json.list(
      what, [&] { return read(json, "an axis name", names.emplace_back()); });
}

bool read_spec(JsonReader& json, std::string_view what, ReadName read,
               PartitionSpec& spec) {
  return json.list(what, [&] {
    AxisNames& axes = spec.dims.emplace_back();
    if (json.token() == JsonReader::Token::Null) return true;
    const std::string entry = "an entry of " + std::string(what);
    if (json.token() == JsonReader::Token::BeginArray) {
      return read_names(json, entry, read, axes);
    }
    return read(json, entry, axes.emplace_back());
  });
}

bool read_int(JsonReader& json, std::string_view what, int64_t limit,
              int& value) {
  int64_t read = 0;
  if (!json.size(what, read)) return false;
  if (read > limit) {
    return json.malformed(json.span(),
                          std::string(what) + " is " + std::to_string(read) +
                              ", but must be at most " + std::to_string(limit));
  }
  value = static_cast<int>(read);
  return true;
}

bool read_view_name(JsonReader& json, std::string& name) {
  if (!json.string("a view name", name)) return false;
  return is_axis_name(name) ||
         json.malformed(json.span(), "`" + name + "` is not a valid view name");
}

bool read_dealt(JsonReader& json, ExpertPlacement& dealt) {
  const Span where = json.span();
  dealt.experts = 0;
  const bool good = json.map("`dealt`", [&](const std::string& key, Span) {
    if (key == "axis") return read_axis_name(json, "`axis`", dealt.axis);
    if (key == "experts") return json.size("`experts`", dealt.experts);
    if (key == "rank") return json.size("`rank`", dealt.rank);
    return json.skip();
  });
  return good &&
         ((!dealt.axis.empty() && dealt.experts > 0) ||
          json.malformed(where,
                         "`dealt` must give an axis and a number of experts"));
}

bool read_hook(JsonReader& json, ModuleHook& hook) {
  const auto choice = [&](auto names, auto& value) {
    std::string name;
    if (!json.string("`hook`", name)) return false;
    return choose(names, name, value) ||
           json.malformed(json.span(),
                          in_backticks(name) + " is not a known hook value");
  };
  return json.map("`hook`", [&](const std::string& key, Span) {
    if (key == "takes") return choice(kHookLayoutNames, hook.input_layout);
    if (key == "reads")
      return choice(kHookLayoutNames, hook.desired_input_layout);
    if (key == "gives") return choice(kHookLayoutNames, hook.output_layout);
    if (key == "task") return choice(kHookTaskNames, hook.task);
    if (key == "gives_dtensor") {
      return json.boolean("`gives_dtensor`", hook.output_is_dtensor);
    }
    return json.skip();
  });
}

bool read_rule(JsonReader& json, PlanRule& rule) {
  return json.map("a rule", [&](const std::string& key, Span) {
    if (key == "pattern") return json.string("`pattern`", rule.pattern);
    if (key == "spec") return read_spec(json, "`spec`", read_name, rule.spec);
    if (key == "file") return json.string("`file`", rule.file);
    if (key == "line") return json.size("`line`", rule.line);
    if (key == "shipped") return json.boolean("`shipped`", rule.shipped);
    if (key == "shards_parts") {
      return json.boolean("`shards_parts`", rule.shards_parts);
    }
    if (key == "hook") return read_hook(json, rule.hook);
    if (key == "view") return read_view_name(json, rule.view);
    if (key == "deal") return read_name(json, "`deal`", rule.deal);
    if (key == "found") return json.size("`found`", rule.matched);
    if (key == "won") return json.size("`won`", rule.decided);
    if (key != "shadowed_by") return json.skip();
    return json.list("`shadowed_by`", [&] {
      return read_int(json, "an entry of `shadowed_by`", INT_MAX,
                      rule.shadowed_by.emplace_back());
    });
  });
}

bool read_correction(JsonReader& json, std::vector<Correction>& corrections) {
  Correction& correction = corrections.emplace_back();
  return json.map("a correction", [&](const std::string& key, Span) {
    if (key == "dim") return read_int(json, "`dim`", INT_MAX, correction.dim);
    if (key == "code") {
      std::string text;
      if (!json.string("`code`", text)) return false;
      const std::optional<Code> found = find_code(text);
      correction.code = found.value_or(correction.code);
      return found ||
             json.malformed(json.span(), "unknown code `" + text + "`");
    }
    if (key == "dropped") {
      return read_names(json, "`dropped`", read_name, correction.dropped);
    }
    if (key == "reason") return json.string("`reason`", correction.reason);
    return json.skip();
  });
}

bool read_stored_dim(JsonReader& json, std::vector<StoredDim>& stored) {
  StoredDim& dim = stored.emplace_back();
  dim.dim = -1;
  return json.map("a stored dimension", [&](const std::string& key, Span) {
    if (key == "dim") return read_int(json, "`dim`", INT_MAX, dim.dim);
    if (key == "size") return json.size("`size`", dim.size);
    if (key == "why") return json.string("`why`", dim.why);
    return json.skip();
  });
}

bool read_declaration(JsonReader& json, Declarations& declarations) {
  std::string text;
  if (!json.string("a declaration", text)) return false;
  return add_declaration(text, declarations) ||
         json.malformed(json.span(), "unknown declaration `" + text + "`");
}

bool read_type_key(JsonReader& json, const std::string& key, TensorType& type,
                   Diagnostics& diags) {
  if (key == "shape") {
    return json.list("`shape`", [&] {
      return json.size("an entry of `shape`", type.shape.emplace_back());
    });
  }
  std::string name;
  if (!json.string("`dtype`", name)) return false;
  const std::optional<DType> dtype = find_dtype(name);
  if (!dtype) {
    diags.error(Code::UnknownDtype, json.span(),
                "unknown dtype `" + name + "`");
    return false;
  }
  type.dtype = *dtype;
  return true;
}

}  // namespace shardplan
