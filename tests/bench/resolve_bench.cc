// SPDX-License-Identifier: Apache-2.0
// The program as a whole: `resolve` of 100,000 and 1,000,000 tensors, as text
// and as JSON, with CPU time and peak memory as the system accounts them.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "tests/bench/bench.h"
#include "tests/bench/model.h"

namespace shardplan::bench {
namespace {

struct Usage {
  double seconds = 0;  // CPU time, all threads
  double peak_bytes = 0;
};

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) +
         static_cast<double>(time.tv_usec) * 1e-6;
}

Usage run(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null",
                                   O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null",
                                   O_WRONLY, 0);
  pid_t pid = 0;
  int status = 0;
  rusage child{};
  if (posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ) ==
      0) {
    wait4(pid, &status, 0, &child);
  } else {
    std::printf("  %s cannot be run\n", argv[0]);
  }
  posix_spawn_file_actions_destroy(&actions);
  return {seconds_of(child.ru_utime) + seconds_of(child.ru_stime),
          static_cast<double>(child.ru_maxrss) * 1024};
}

// In a process of its own: a child's peak counts what its parent held when it
// was started, so this process must stay small.
void write_model(const std::string& path, size_t tensors) {
  const pid_t pid = fork();
  if (pid == 0) {
    std::ofstream(path) << manifest_text(model_names(tensors));
    _exit(0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
}

}  // namespace

void bench_resolve(const std::string& program) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() /
                          ("shardplan-bench-" + std::to_string(getpid()));
  fs::create_directory(folder);
  const std::string rules = (folder / "rules.yaml").string();
  std::ofstream(rules) << rules_text(patterns(20));
  std::printf(
      "### whole\n"
      "| tensors | form | CPU time | peak memory | per tensor |\n"
      "|---:|---|---:|---:|---:|\n");
  for (const size_t count : {100000U, 1000000U}) {
    const std::string model = (folder / "model.json").string();
    write_model(model, count);
    for (const std::string form : {"text", "JSON"}) {
      std::vector<double> seconds;
      std::vector<double> peaks;
      for (int round = 0; round < 3; ++round) {
        const Usage usage =
            run({program, "resolve", model, "--rules", rules, "--mesh",
                 "fsdp=16,tp=8", "--format", form == "JSON" ? "json" : "text",
                 "--isolated"});
        seconds.push_back(usage.seconds);
        peaks.push_back(usage.peak_bytes);
      }
      std::printf("| %s | %s | %.2f s | %.0f MB | %.0f bytes |\n",
                  count_text(static_cast<int64_t>(count)).c_str(), form.c_str(),
                  median(seconds), median(peaks) / 1e6,
                  median(peaks) / static_cast<double>(count));
    }
  }
  fs::remove_all(folder);
}

}  // namespace shardplan::bench
