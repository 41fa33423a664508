// SPDX-License-Identifier: Apache-2.0
// fuzz_replay TARGET PATH..: runs a fuzz target once over every file of the
// folders or files given. fuzz_replay --folders CORPUS: every target has a
// folder there, and every folder a target. With SHARDPLAN_FUZZ_TARGET: that
// target alone, for libFuzzer.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz.h"

namespace shardplan::fuzz {
namespace {

namespace fs = std::filesystem;

std::map<std::string, Target>& targets() {
  static std::map<std::string, Target> all;
  return all;
}

#ifndef SHARDPLAN_FUZZ_TARGET

bool has_folders(const fs::path& corpus) {
  std::map<std::string, Target> missing = targets();
  bool good = true;
  for (const auto& entry : fs::directory_iterator(corpus)) {
    if (missing.erase(entry.path().filename()) == 1) continue;
    std::cerr << entry.path() << ": is of no target\n";
    good = false;
  }
  for (const auto& [name, run] : missing) {
    std::cerr << name << ": has no corpus\n";
    good = false;
  }
  return good;
}

std::vector<fs::path> files_of(int argc, char** argv) {
  std::vector<fs::path> inputs;
  for (int i = 2; i < argc; ++i) {
    if (!fs::is_directory(argv[i])) {
      inputs.emplace_back(argv[i]);
      continue;
    }
    for (const auto& entry : fs::directory_iterator(argv[i])) {
      inputs.push_back(entry.path());
    }
  }
  std::sort(inputs.begin(), inputs.end());
  return inputs;
}

int replay(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--folders") {
    return has_folders(argv[2]) ? 0 : 1;
  }
  const auto target = targets().find(argc > 1 ? argv[1] : "");
  if (target == targets().end()) {
    std::cerr << "the targets are";
    for (const auto& [name, run] : targets()) std::cerr << " " << name;
    std::cerr << "\n";
    return 2;
  }
  const std::vector<fs::path> inputs = files_of(argc, argv);
  for (const fs::path& path : inputs) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
      std::cerr << path << ": cannot be read\n";
      return 1;
    }
    const std::string bytes((std::istreambuf_iterator<char>(file)), {});
    target->second(reinterpret_cast<const uint8_t*>(bytes.data()),
                   bytes.size());
  }
  std::cout << inputs.size() << " inputs replayed\n";
  return inputs.empty() ? 1 : 0;
}

#endif

}  // namespace

bool add_target(const char* name, Target target) {
  return targets().emplace(name, target).second;
}

#ifdef SHARDPLAN_FUZZ_TARGET
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Target kTarget = targets().at(SHARDPLAN_FUZZ_TARGET);
  return kTarget(data, size);
}
#endif

}  // namespace shardplan::fuzz

#ifndef SHARDPLAN_FUZZ_TARGET
int main(int argc, char** argv) { return shardplan::fuzz::replay(argc, argv); }
#endif
