// SPDX-License-Identifier: Apache-2.0
// Matching 100,000 names against 20, 100 and 1,000 rules, on one thread: ours
// (all rules found, winners, who shadows whom), bare RE2::Set, rule by rule.
#include <cstdio>
#include <memory>

#include <re2/re2.h>
#include <re2/set.h>

#include "base/text.h"
#include "core/manifest.h"
#include "resolve/match.h"
#include "tests/bench/bench.h"
#include "tests/bench/model.h"

namespace shardplan::bench {
namespace {

void bench_rules(const Manifest& manifest, size_t count) {
  RuleSet rules;
  RE2::Options options;
  options.set_max_mem(int64_t{64} << 20);
  RE2::Set set(options, RE2::UNANCHORED);
  std::vector<std::unique_ptr<RE2>> single;
  for (const std::string& pattern : patterns(count)) {
    Rule rule;
    rule.pattern = pattern;
    rules.rules.push_back(std::move(rule));
    set.Add(pattern, nullptr);
    single.push_back(std::make_unique<RE2>(pattern));
  }
  set.Compile();
  Diagnostics diags;
  const auto matcher = Matcher::compile(rules, true, diags);
  const auto yes = [](size_t) { return true; };
  int64_t seen = 0;
  std::vector<int> found;

  // Rule by rule takes seconds with many rules: a sample stands for all.
  const size_t sample = manifest.size() / std::max<size_t>(1, count / 20);
  const std::vector<Contestant> contestants = {
      {"shardplan",
       [&] { seen += match(*matcher, manifest, yes, 1).winner.back(); }},
      {"bare RE2::Set",
       [&] {
         for (size_t i = 0; i < manifest.size(); ++i) {
           found.clear();
           seen += set.Match(manifest.name(i), &found) ? found.front() : 0;
         }
       }},
      {"rule by rule, first hit",
       [&] {
         for (size_t i = 0; i < sample; ++i) {
           for (const auto& rule : single) {
             ++seen;
             if (RE2::PartialMatch(manifest.name(i), *rule)) break;
           }
         }
       }},
  };
  const std::vector<double> taken = compare(contestants, 5);
  const auto nanoseconds = [&](size_t i) {
    const size_t names = i == 2 ? sample : manifest.size();
    return taken[i] / static_cast<double>(names) * 1e9;
  };
  const double bare = nanoseconds(1);
  std::printf("| %s | %.0f ns, %.2fx | %.0f ns | %s ns, %.1fx |\n",
              count_text(static_cast<int64_t>(count)).c_str(), nanoseconds(0),
              nanoseconds(0) / bare, bare,
              count_text(static_cast<int64_t>(nanoseconds(2))).c_str(),
              nanoseconds(2) / bare);
  if (seen == 0) std::printf("nothing was found\n");
}

}  // namespace

void bench_match() {
  Manifest manifest;
  for (const std::string& name : model_names(100000)) {
    manifest.add(name, {DType::BF16, {2048, 7168}}, {});
  }
  std::printf(
      "### matching\n"
      "| rules | shardplan | bare `RE2::Set` | rule by rule, first hit |\n"
      "|---:|---:|---:|---:|\n");
  for (const size_t count : {20U, 100U, 1000U}) bench_rules(manifest, count);
}

}  // namespace shardplan::bench
