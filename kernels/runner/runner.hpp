// The door: everything that touches a kernel. A kernel runs in a worker process, on fenced memory, and what comes back
// is data that the gate has checked. PROTOCOL.md beside this file describes the worker's side.
//
//   auto plugin = probe("libmy.so");                       // reads the manifest in a probe worker
//   Worker worker(plugin, plugin.targets[0], options);     // spawned at once, restarted after a crash
//   auto outcomes = worker.run(calls);                     // one outcome per call, in order
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "reference/problem/claim.hpp"
#include "reference/problem/convention.hpp"
#include "reference/problem/data.hpp"
#include "reference/problem/problem.hpp"

namespace normgate::runner {

// ---- what a plugin says of itself ------------------------------------------------------------------------------

struct PhaseRoles {
  std::uint64_t supported = 0;  // bits 1 << role, beyond x and y; defaults of the ABI already filled in
  std::uint64_t required = 0;
};

struct KernelInfo {
  std::int32_t index = 0;  // in the plugin
  std::string name;
  std::string source;              // "file:line" or empty
  std::optional<Variant> variant;  // nothing: custom
  std::vector<Phase> phases;
  std::array<PhaseRoles, 16> roles{};   // by phase number
  std::vector<Convention> conventions;  // at least one
  Claim claim;
  bool channels_last = false, padded = false, strided = false, mixed = false;
  bool in_place = false;           // y may be x
  bool gradient_in_place = false;  // dx may be dy
  std::int32_t alignment = 0;      // bytes; 0: natural
  std::int32_t over_read_bytes = 0;
  std::int32_t max_threads = 1;
  // Whose forward phases its backward phases are the gradient of; null: its own.
  std::shared_ptr<const KernelInfo> forward;
};

struct TargetInfo {
  std::string name;
  std::vector<std::string> environment;  // "A=1"
  std::vector<std::string> cpu_features;
  std::string unavailable;  // empty: this CPU has it; else why not ("not on this CPU: avx512f")
};

struct Plugin {
  std::string path;
  std::string name;
  std::string version;
  std::vector<KernelInfo> kernels;  // of the first available target; Worker::kernels() has those of its target
  std::vector<TargetInfo> targets;  // at least one
};

// The harness could not do its work: exit code 3.
struct HarnessError {
  std::string sentence;
};

struct Options {
  double cpu_seconds = 10;    // a call is timed out after so much of the worker's CPU time …
  double wall_seconds = 120;  // … or of wall time
  bool in_process = false;    // run the plugin in this process, for a debugger: no isolation
  std::string worker_path;    // empty: normgate-worker beside the running executable
};

[[nodiscard]] std::variant<Plugin, HarnessError> probe(const std::string& path, const Options& options);

// ---- calls ---------------------------------------------------------------------------------------------------------

// What slack, gaps and padding around the data are filled with; a second run with the other one shows stray reads.
enum class Filling : std::int32_t { nan, huge };

struct Call {
  std::int32_t kernel = 0;  // index in the plugin
  Problem problem;          // shape, layouts, fence, eps, convention, …
  Inputs inputs;            // dense; laid out by the runner
  Filling filling = Filling::nan;
  // After the run proper so many more by the clock, on the same memory: what is updated in place goes on from the last.
  std::int64_t timed_runs = 0;
  PerRole<std::int32_t> moved{};  // elements that single tensors are moved by, beside the problem's misalignment
  bool flushing_caller = false;   // the caller has set flush-to-zero and denormals-are-zero
  bool may_be_refused = false;    // one way of several to ask: a `no` of `supports` is about this call only
};

enum class Status : std::int32_t {
  ok,
  unsupported,  // `supports` said no, with a reason
  refused,      // `run` or `prepare` refused after `supports` said yes
  failed,       // the kernel reported failure or no memory
  crashed,      // a signal
  exited,       // the process ended by itself
  timed_out,
  invalid_status,  // a status that the ABI does not have
  no_memory,       // the harness could not map the tensors: the call was skipped
};

enum class FindingKind : std::int32_t {
  fault,          // a signal with an address, told as "read 4 bytes past the end of x"
  wrote_outside,  // slack, gap or red zone changed
  input_changed,
  unwritten,    // an output element still holds the poison
  late_write,   // an output changed after the call had returned
  environment,  // rounding mode, FTZ/DAZ or exception masks not restored
};

struct Finding {
  FindingKind kind{};
  Role role = Role::x;    // the tensor concerned, where one is
  std::int64_t byte = 0;  // offset from the tensor's first byte
  std::string sentence;   // complete, for people: "wrote 4 bytes past the end of y"
};

struct Outcome {
  Status status = Status::ok;
  std::string text;        // the kernel's reason, or the signal
  Inputs outputs;          // dense, of every role that the problem writes; empty unless status is ok
  double nanoseconds = 0;  // of one timed run, their mean
  std::vector<Finding> findings;
  bool may_be_refused = false;  // as the call says
};

class Worker {
 public:
  // Throws HarnessError if the worker cannot be started or the plugin cannot be loaded in it.
  Worker(const Plugin& plugin, const TargetInfo& target, std::int32_t threads, Options options);
  ~Worker();
  Worker(Worker&&) noexcept;
  Worker& operator=(Worker&&) noexcept;

  [[nodiscard]] const std::vector<KernelInfo>& kernels() const;  // as this target's manifest says
  // Runs the calls in order; after a crash, an exit or a hang the worker is started anew and goes on behind that call.
  // The outcome of a call does not depend on how calls are grouped.
  [[nodiscard]] std::vector<Outcome> run(std::span<const Call> calls);
  [[nodiscard]] std::int64_t restarts() const;
  [[nodiscard]] std::string output() const;  // what the plugin printed, at most the first 64 KiB

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace normgate::runner
