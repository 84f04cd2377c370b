// normgate-worker: the process in which a plugin is loaded and its kernels run. Started by the host with the control
// block and the arena as inherited descriptors; PROTOCOL.md describes both.
//
//   normgate-worker PLUGIN PARENT_PROCESS_ID
#include <sys/mman.h>
#include <sys/prctl.h>
#include <ucontext.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "kernels/runner/execute.hpp"
#include "kernels/runner/protocol.hpp"

namespace {

using namespace normgate::runner;

Control* control = nullptr;

Access access_of([[maybe_unused]] int signal, [[maybe_unused]] const void* context) {
#if defined(__x86_64__)
  if (signal == SIGSEGV && context != nullptr) {
    // The page-fault error code: bit 1 a write, bit 4 an instruction fetch.
    const auto code = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR];
    if ((code & 16) != 0) return Access::jump;
    return (code & 2) != 0 ? Access::write : Access::read;
  }
#endif
  return Access::unknown;
}

// Only what is safe in a signal handler: plain stores, a futex wake, _exit.
void on_signal(int signal, siginfo_t* information, void* context) {
  FaultRecord& fault = control->fault;
  if (fault.recorded.exchange(1) != 0) {
    usleep(200'000);  // another thread is on its way out
    _exit(128 + signal);
  }
  fault.signal = signal;
  fault.code = information->si_code;
  fault.access = static_cast<std::uint32_t>(access_of(signal, context));
  fault.address = reinterpret_cast<std::uint64_t>(information->si_addr);
  fault.other_thread = gettid() != getpid() ? 1 : 0;
  fault.recorded.store(2);
  futex_wake(control->answer);
  _exit(128 + signal);
}

void install_handlers() {
  struct sigaction action {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigfillset(&action.sa_mask);
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) sigaction(signal, &action, nullptr);
}

void install_stack() {
  constexpr std::size_t bytes = std::size_t{64} << 10U;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  stack_t stack{};
  stack.ss_sp = memory;
  stack.ss_size = bytes;
  sigaltstack(&stack, nullptr);
}

void answer(std::uint32_t request) {
  control->answer.store(request);
  if (control->host_waits.load() != 0) futex_wake(control->answer);
}

// The next request after the one with this number.
std::uint32_t next_request(std::uint32_t done) {
  while (!spin_until_changed(control->request, done)) {
    control->worker_waits.store(1);
    if (control->request.load() == done) futex_wait(control->request, done, -1);
    control->worker_waits.store(0);
  }
  return control->request.load();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("normgate-worker is started by normgate: normgate-worker PLUGIN PARENT_PROCESS_ID\n", stderr);
    return 2;
  }
  // The worker dies with the gate; if that has died already the signal never comes.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != static_cast<pid_t>(std::strtol(argv[2], nullptr, 10))) return 3;

  void* memory = mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED, control_descriptor, 0);
  if (memory == MAP_FAILED) return 4;
  control = static_cast<Control*>(memory);
  if (control->magic != control_magic || control->version != protocol_version || control->size != sizeof(Control)) {
    std::fputs("normgate-worker: the gate speaks another protocol version; install both from one build\n", stderr);
    return 5;
  }

  install_stack();
  install_handlers();
  control->stage.store(static_cast<std::uint32_t>(Stage::loading));
  Executor executor(*control);
  const std::string error = executor.load(argv[1], arena_descriptor);
  std::snprintf(control->text, sizeof control->text, "%s", error.c_str());
  std::uint32_t request = control->request.load();
  answer(request);

  for (;;) {
    request = next_request(request);
    install_handlers();  // a plugin may have put its own in place
    switch (static_cast<Operation>(control->operation)) {
      case Operation::manifest:
        if (!executor.send_manifest(arena_descriptor)) control->manifest_bytes = 0;
        break;
      case Operation::batch:
        executor.run_batch();
        break;
      case Operation::load:
      case Operation::quit:
        std::fflush(nullptr);
        _exit(0);
    }
    // What was printed belongs to the call that printed it: the host drains the pipe with the answer.
    std::fflush(stdout);
    answer(request);
  }
}
