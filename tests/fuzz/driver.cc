// SPDX-License-Identifier: Apache-2.0
// fuzz_replay TARGET PATH..: runs a fuzz target once over every file of the
// folders or files given.
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

}  // namespace

bool add_target(const char* name, Target target) {
  return targets().emplace(name, target).second;
}

}  // namespace shardplan::fuzz

int main(int argc, char** argv) { return shardplan::fuzz::replay(argc, argv); }
