// SPDX-License-Identifier: Apache-2.0
// Folding: parameters that differ only in a layer or expert number and are
// placed alike count as one class, shown as `model/layers/*/mlp/up_proj ×32`.
//
// A number is a whole path component of digits (`/` and `.` separate), so
// Mixtral's `w1`, `w2`, `w3` stay apart.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardplan {

// "model.layers.12.mlp.w1" -> "model.layers.*.mlp.w1"
std::string folded_name(std::string_view name);

struct ParameterClass {
  std::string name;  // folded; see label() for showing it
  uint32_t kind = 0;
  size_t first = 0;  // its first parameter
  int64_t count = 0;
};

struct Folding {
  std::vector<ParameterClass> classes;  // in order of their first parameter
  std::vector<uint32_t> class_of;       // per parameter
};

// `kinds[i]` says what must be equal for two parameters to fold together: a
// plan's placement numbers, or a manifest's type numbers.
// `name_of(i)` gives the name of parameter i.
template <typename NameOf>
Folding fold(const std::vector<uint32_t>& kinds, NameOf name_of);

// What to call each class. Where several classes share a folded name the
// numbers that each stands for are given: `layers/{0-2}/mlp/...`; a class of
// one keeps its full name.
template <typename NameOf>
std::vector<std::string> class_labels(const Folding& folding, NameOf name_of);

}  // namespace shardplan
