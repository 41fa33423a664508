// SPDX-License-Identifier: Apache-2.0
// Reading a manifest of 100,000 tensors, beside simdjson over the same text:
// into the same table, and its bare pass (which checks and indexes the text,
// but keeps nothing).
#include <cstdio>
#include <filesystem>
#include <fstream>

#include <simdjson.h>
#include <unistd.h>

#include "base/real_host.h"
#include "io/load.h"
#include "tests/bench/bench.h"
#include "tests/bench/model.h"

namespace shardplan::bench {

void bench_manifest() {
  const std::string text = manifest_text(model_names(100000));
  const double megabytes = static_cast<double>(text.size()) / 1e6;
  namespace fs = std::filesystem;
  const fs::path path =
      fs::temp_directory_path() /
      ("shardplan-bench-" + std::to_string(getpid()) + ".json");
  std::ofstream(path) << text;
  const std::unique_ptr<Host> host = make_real_host();
  const simdjson::padded_string padded(text);
  simdjson::dom::parser dom;
  simdjson::ondemand::parser ondemand;
  size_t seen = 0;

  const std::vector<Contestant> contestants = {
      {"shardplan: checked, into columns, names unique",
       [&] {
         Diagnostics diags;
         seen += load_manifest(path.string(), *host, diags)->size();
       }},
      {"simdjson: DOM into the same manifest, names unique",
       [&] {
         Manifest manifest;
         TensorType type;
         for (const auto field : simdjson::dom::object(dom.parse(padded))) {
           type.shape.clear();
           for (const auto size : field.value["shape"].get_array()) {
             type.shape.push_back(int64_t(size));
           }
           type.dtype = *find_dtype(std::string_view(field.value["dtype"]));
           manifest.add(field.key, type, {});
         }
         if (!manifest.find_duplicate()) seen += manifest.size();
       }},
      {"simdjson: DOM, parsed and thrown away",
       [&] { seen += simdjson::dom::object(dom.parse(padded)).size(); }},
      {"simdjson: on demand, visiting names, shapes and dtypes",
       [&] {
         simdjson::ondemand::document document = ondemand.iterate(padded);
         for (auto field : document.get_object()) {
           seen += std::string_view(field.unescaped_key()).size();
           simdjson::ondemand::object tensor = field.value().get_object();
           for (auto size : tensor["shape"].get_array()) {
             seen += static_cast<size_t>(int64_t(size));
           }
           seen += std::string_view(tensor["dtype"]).size();
         }
       }},
  };
  const std::vector<double> taken = compare(contestants, 9);
  std::printf(
      "### reading\n%.1f MB of JSON, 100,000 tensors.\n\n"
      "| reader | MB/s | ours takes |\n|---|---:|---:|\n",
      megabytes);
  for (size_t i = 0; i < contestants.size(); ++i) {
    std::printf("| %s | %.0f | %.2fx |\n", contestants[i].name.c_str(),
                megabytes / taken[i], taken[0] / taken[i]);
  }
  fs::remove(path);
  if (seen == 0) std::printf("nothing was read\n");
}

}  // namespace shardplan::bench
