// A worker process as the host sees it: started, asked, waited for, ended.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "kernels/runner/protocol.hpp"
#include "kernels/runner/runner.hpp"

namespace normgate::runner {

// Memory that both sides map for one worker.
class ControlBlock {
 public:
  ControlBlock();  // throws std::system_error
  ~ControlBlock();
  ControlBlock(const ControlBlock&) = delete;
  ControlBlock& operator=(const ControlBlock&) = delete;
  [[nodiscard]] Control& operator*() const { return *control_; }
  [[nodiscard]] Control* operator->() const { return control_; }
  [[nodiscard]] int file() const { return file_; }

 private:
  int file_ = -1;
  Control* control_ = nullptr;
};

// How a process ended.
struct Death {
  bool timed_out = false;  // the host killed it
  bool signalled = false;
  int number = 0;  // signal or exit status
  int code = 0;    // si_code, if the worker's handler saw the signal
  bool has_address = false;
  std::uint64_t address = 0;
  Access access = Access::unknown;
  bool other_thread = false;  // not the thread that makes the calls
  Stage stage = Stage::idle;
};
// "segmentation fault (SIGSEGV)", "exit status 0", …
[[nodiscard]] std::string describe(const Death& death);
// "run", "prepare", … ; "" when the worker was in no function of the plugin.
[[nodiscard]] std::string name_of(Stage stage);

class WorkerProcess {
 public:
  // Starts the worker and waits until the plugin is loaded. `environment`: assignments of the target.
  [[nodiscard]] static std::variant<std::unique_ptr<WorkerProcess>, HarnessError> start(
      const std::string& plugin, const std::vector<std::string>& environment, std::int32_t threads, int arena_file,
      const Options& options);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  void request(Operation operation, std::uint32_t count = 0);
  // Waits for the answer; nothing if it came, else how the process ended. A call, or a load, is given `cpu_seconds` of
  // the worker's CPU time and `wall_seconds`, counted anew at every call that is completed; `scale` of a call's
  // number in the batch multiplies both.
  [[nodiscard]] std::optional<Death> wait(double cpu_seconds, double wall_seconds,
                                          const std::function<double(std::uint32_t)>& scale = nullptr);
  [[nodiscard]] Control& control() const { return *control_; }
  // Gives threads that the plugin left running a moment to do what they should not: until they end, or 0.1 s. Threads
  // that outlast it (a pool) are not waited for again. How the process ended, if it did.
  [[nodiscard]] std::optional<Death> settle();
  // Reads what the plugin has printed; keeps the first 64 KiB of a worker's life.
  void drain();
  [[nodiscard]] const std::string& output() const { return output_; }
  // The manifest that the worker sends, unchecked.
  [[nodiscard]] std::variant<std::string, HarnessError> manifest(const Options& options);

 private:
  explicit WorkerProcess(std::string plugin, int arena_file) : plugin_(std::move(plugin)), arena_(arena_file) {}
  [[nodiscard]] std::optional<Death> ended(bool block);
  [[nodiscard]] std::optional<Death> ended_soon();  // of one that is on its way out, within 0.1 s
  void kill_group() const;
  [[nodiscard]] int threads_alive() const;

  std::string plugin_;
  int arena_;
  ControlBlock control_;
  pid_t process_ = -1;
  bool reaped_ = false;
  int settled_threads_ = 1;
  int pipe_ = -1;
  std::string output_;
};

// An absolute path for the loader; the same text if there is no such file.
[[nodiscard]] std::string absolute_path(const std::string& path);

// The plugin that a manifest describes, or why it is not valid.
[[nodiscard]] std::variant<Plugin, HarnessError> checked_manifest(const std::string& text, const std::string& path);

}  // namespace normgate::runner
