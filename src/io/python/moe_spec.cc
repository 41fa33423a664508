// SPDX-License-Identifier: Apache-2.0
#include "io/python/moe_spec.h"

#include <array>
#include <map>
#include <utility>

#include "base/text.h"
#include "base/words.h"
#include "core/spec.h"

namespace shardplan {
namespace {

constexpr std::array<std::string_view, 7> kArguments = {
    "partition_manager", "direction",      "tensors_are_expert", "is_bias",
    "fsdp_is_ep_bound",  "sp_is_ep_bound", "module_view"};
using Arguments = std::map<std::string_view, const PythonValue*>;

std::optional<bool> literal_bool(const PythonValue& value) {
  if (value.kind != PythonKind::Name) return std::nullopt;
  if (value.text == "True") return true;
  if (value.text == "False") return false;
  return std::nullopt;
}

// Returns the literal value of an argument; false, the default, if absent.
std::optional<bool> literal_argument(const Arguments& all,
                                     std::string_view name) {
  const auto found = all.find(name);
  return found == all.end() ? false : literal_bool(*found->second);
}

struct MoeCall {
  bool is_column = false;
  bool is_bias = false;
  bool is_view = false;
};

// Returns the spec that EasyDeL 0.2 returns; its axes are those of eformer's
// PartitionAxis.
PartitionSpec moe_axes(const MoeCall& call, bool tensors, bool fsdp, bool sp,
                       bool in_short) {
  const auto axis = [&](const char* brief_name, const char* semantic) {
    return AxisName(in_short ? brief_name : semantic);
  };
  const AxisName tp = axis("tp", "__TENSOR_PARALLEL__");
  if (tensors && call.is_bias) return {{{tp}, {}}};
  if (tensors) return {{{tp}, {}, {}}};
  AxisNames experts = {axis("ep", "__EXPERT_PARALLEL__")};
  if (call.is_view && sp) {
    experts.push_back(axis("sp", "__SEQUENCE_PARALLEL__"));
  }
  if (call.is_view && fsdp) {
    experts.push_back(axis("fsdp", "__FULLY_SHARDED_DATA_PARALLEL__"));
  }
  if (call.is_bias) return {{experts, {tp}}};
  if (call.is_column) return {{experts, {}, {tp}}};
  return {{experts, {tp}, {}}};
}

PythonValue spec_value(const PartitionSpec& spec, Span where) {
  PythonValue call{PythonKind::Call, "PartitionSpec", {}, where};
  for (const AxisNames& axes : spec.dims) {
    PythonValue tuple{PythonKind::Tuple, "", {}, where};
    for (const AxisName& axis : axes) {
      tuple.items.push_back({PythonKind::String, axis, {}, where});
    }
    if (axes.empty()) tuple.kind = PythonKind::None;
    call.items.push_back(axes.size() == 1 ? tuple.items[0] : tuple);
  }
  return call;
}

}  // namespace

bool is_moe_spec_call(std::string_view callee) {
  return last_word(callee) == "get_moe_partition_spec";
}

std::optional<PythonValue> moe_partition_spec(const PythonValue& call,
                                              const PythonAnswers& answers,
                                              const AskForSpec& ask,
                                              Diagnostics& diags) {
  const auto refuse = [&](Span where, std::string message) {
    return diags.error(Code::MalformedDocument, where, std::move(message))
        .help("write the PartitionSpec that it returns");
  };
  Arguments all;
  for (size_t i = 0; i < call.items.size(); ++i) {
    const PythonValue& item = call.items[i];
    std::string_view name = item.keyword;
    if (name.empty() && i < kArguments.size()) name = kArguments.at(i);
    if (!contains(kArguments, name)) {
      return refuse(item.where, "unknown argument of `get_moe_partition_spec`");
    }
    all[name] = &item;
  }
  const PythonValue* const direction =
      all.contains("direction") ? all.at("direction") : nullptr;
  const bool is_direction = direction != nullptr &&
                            direction->kind == PythonKind::String &&
                            has_word("column row", direction->text);
  const std::optional<bool> is_bias = literal_argument(all, "is_bias");
  const std::optional<bool> is_view = literal_argument(all, "module_view");
  if (!is_direction || !is_bias || !is_view ||
      !all.contains("tensors_are_expert")) {
    return refuse(
        call.where,
        "this `get_moe_partition_spec` call cannot be evaluated: it needs "
        "`direction`, `tensors_are_expert`, and literals for `is_bias` and "
        "`module_view`");
  }
  const MoeCall moe{direction->text == "column", *is_bias, *is_view};
  const auto text = [&](bool tensors, bool fsdp, bool sp) {
    return in_backticks(python_spec(moe_axes(moe, tensors, fsdp, sp, true)));
  };
  // Returns the value of an argument; true, the default, if absent.
  const auto argument = [&](std::string_view name, const std::string& if_true,
                            const std::string& if_false) {
    if (!all.contains(name)) return true;
    const PythonValue& value = *all.at(name);
    if (const auto literal = literal_bool(value)) return *literal;
    const auto answer = answers(std::string(last_word(value.text)));
    if (!answer) ask(value, if_true, if_false);
    return answer.value_or(true);
  };
  // These names are questions even if their values are not needed.
  for (const char* name : {"fsdp_is_ep_bound", "sp_is_ep_bound"}) {
    const PythonValue* const value =
        all.contains(name) ? all.at(name) : nullptr;
    if (value != nullptr && value->kind == PythonKind::Name &&
        !literal_bool(*value)) {
      answers(std::string(last_word(value->text)));
    }
  }
  const bool tensors = argument("tensors_are_expert", text(true, true, true),
                                text(false, true, true));
  bool fsdp = true;
  bool sp = true;
  if (!tensors && moe.is_view) {
    sp = argument("sp_is_ep_bound", text(false, true, true),
                  text(false, true, false));
    fsdp = argument("fsdp_is_ep_bound", text(false, true, sp),
                    text(false, false, sp));
  }
  return spec_value(moe_axes(moe, tensors, fsdp, sp, false), call.where);
}

}  // namespace shardplan
