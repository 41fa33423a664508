// SPDX-License-Identifier: Apache-2.0
#include "base/signals.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

namespace shardplan {
namespace {

std::array<std::atomic<const char*>, kMostUnfinished> g_unfinished{};
std::atomic<bool> g_status_line{false};
static_assert(std::atomic<const char*>::is_always_lock_free);
static_assert(std::atomic<bool>::is_always_lock_free);
static_assert(std::atomic<uintptr_t>::is_always_lock_free);

// A mapped file: free where `begin` is 0, being filled in where it is 1.
struct Mapping {
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};
  std::atomic<std::atomic<bool>*> shortened{nullptr};
};
std::array<Mapping, 4096> g_mappings{};

uintptr_t page_size() {
  static const auto size = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

void leave_nothing() {
  for (const std::atomic<const char*>& file : g_unfinished) {
    if (const char* path = file.load()) ::unlink(path);
  }
  if (g_status_line.load()) {
    // Nothing can be done where it fails: the program ends either way.
    [[maybe_unused]] const ssize_t done =
        ::write(STDERR_FILENO, kEraseLine.data(), kEraseLine.size());
  }
}

void clean_up(int signal) {
  leave_nothing();
  ::raise(signal);  // SA_RESETHAND: now with its default effect
}

// True when `address` is of a mapped file: its page is then one of zeros.
bool fill_with_zeros(uintptr_t address) {
  for (Mapping& mapping : g_mappings) {
    const uintptr_t begin = mapping.begin.load();
    const uintptr_t end = mapping.end.load();
    if (begin <= 1 || address < begin || address >= end) continue;
    const uintptr_t page = address - address % page_size();
    void* filled = ::mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (filled == MAP_FAILED) return false;
    std::atomic<bool>* shortened = mapping.shortened.load();
    if (shortened != nullptr) shortened->store(true);
    return true;
  }
  return false;
}

struct sigaction g_bus_before {};

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const bool sent = info->si_code <= 0;  // by a process; there is no address
  if (!sent && fill_with_zeros(reinterpret_cast<uintptr_t>(info->si_addr))) {
    errno = error;
    return;
  }
  if ((g_bus_before.sa_flags & SA_SIGINFO) != 0) {
    g_bus_before.sa_sigaction(signal, info, context);
    return;
  }
  // What failed is tried again on return, and then ends the program.
  leave_nothing();
  ::signal(signal, SIG_DFL);
  if (sent) ::raise(signal);
}

bool ends_the_program(int signal) {
  constexpr std::array<int, 9> kOthers = {SIGKILL, SIGSTOP, SIGTSTP,
                                          SIGTTIN, SIGTTOU, SIGCHLD,
                                          SIGCONT, SIGURG,  SIGWINCH};
  return std::find(kOthers.begin(), kOthers.end(), signal) == kOthers.end();
}

// A stack that overflowed has no room for a handler.
void make_stack() {
  static std::array<char, 64 * 1024> room{};
  stack_t before{};
  if (::sigaltstack(nullptr, &before) != 0) return;
  if ((before.ss_flags & SS_DISABLE) == 0) return;
  stack_t ours{};
  ours.ss_sp = room.data();
  ours.ss_size = room.size();
  ::sigaltstack(&ours, nullptr);
}

void install_clean_up() {
  make_stack();
  struct sigaction ours {};
  ours.sa_handler = clean_up;
  ours.sa_flags = static_cast<int>(SA_RESETHAND) | SA_ONSTACK;
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    struct sigaction before {};
    // One that is ignored (nohup), or somebody else's, stays so.
    if (ends_the_program(signal) &&
        ::sigaction(signal, nullptr, &before) == 0 &&
        (before.sa_flags & SA_SIGINFO) == 0 && before.sa_handler == SIG_DFL) {
      ::sigaction(signal, &ours, nullptr);
    }
  }
}

void install_bus_handler() {
  struct sigaction before {};
  if (::sigaction(SIGBUS, nullptr, &before) != 0) return;
  if ((before.sa_flags & SA_SIGINFO) != 0 &&
      before.sa_sigaction == on_bus_error) {
    return;
  }
  g_bus_before = before;
  struct sigaction ours {};
  ours.sa_sigaction = on_bus_error;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigaction(SIGBUS, &ours, nullptr);
}

// Of the thread that holds signals back.
thread_local sigset_t t_before{};
thread_local int t_holds = 0;

}  // namespace

SignalHold::SignalHold() {
  if (t_holds++ > 0) return;
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &t_before);
}

SignalHold::~SignalHold() {
  if (--t_holds == 0) ::pthread_sigmask(SIG_SETMASK, &t_before, nullptr);
}

bool note_unfinished(const char* path) {
  install_clean_up();
  for (std::atomic<const char*>& file : g_unfinished) {
    const char* none = nullptr;
    if (file.compare_exchange_strong(none, path)) return true;
  }
  return false;
}

void forget_unfinished(const char* path) {
  for (std::atomic<const char*>& file : g_unfinished) {
    const char* ours = path;
    if (file.compare_exchange_strong(ours, nullptr)) return;
  }
}

void note_status_line(bool open) {
  if (open && !g_status_line) install_clean_up();
  g_status_line = open;
}

bool note_mapping(const void* data, size_t size, std::atomic<bool>* shortened) {
  install_bus_handler();
  const auto begin = reinterpret_cast<uintptr_t>(data);
  const uintptr_t pages = (size + page_size() - 1) / page_size();
  for (Mapping& mapping : g_mappings) {
    uintptr_t none = 0;
    if (!mapping.begin.compare_exchange_strong(none, 1)) continue;
    mapping.shortened = shortened;
    mapping.end = begin + pages * page_size();
    mapping.begin = begin;
    return true;
  }
  return false;
}

void forget_mapping(const void* data) {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  for (Mapping& mapping : g_mappings) {
    if (mapping.begin.load() != begin) continue;
    mapping.end = 0;
    mapping.shortened = nullptr;
    mapping.begin = 0;
    return;
  }
}

void ignore_write_signals() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace shardplan
