// Opens a plugin and executes calls that lie in slots: the same code in the worker and, for a debugger, in the gate.
#pragma once

#include <csignal>
#include <map>
#include <memory>
#include <string>

#include "kernels/runner/fenced_memory.hpp"
#include "kernels/runner/manifest.hpp"
#include "kernels/runner/protocol.hpp"

namespace normgate::runner {

class Executor {
 public:
  explicit Executor(Control& control) : control_(control) {}
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // "" or a predicate, to stand behind "plugin 'path' ".
  [[nodiscard]] std::string load(const std::string& path, int arena_file);
  [[nodiscard]] std::string manifest() const { return manifest_json(table_); }
  // Writes the manifest to the start of the arena file and its size to the control block.
  [[nodiscard]] bool send_manifest(int arena_file);
  // Executes control.calls in order and writes control.results.
  void run_batch();

 private:
  // The floating-point state that every call must find and leave: rounding mode, FTZ, DAZ, exception masks.
  struct FloatingPoint {
    std::uint32_t vector_control = 0;
    std::uint16_t scalar_control = 0;
    static FloatingPoint current();
    // With the bits of CallRecord::caller_state set.
    [[nodiscard]] FloatingPoint as_set_by(std::uint32_t caller_state) const;
    void restore() const;
    [[nodiscard]] std::uint32_t difference(const FloatingPoint& other) const;
  };

  // `keep_plan`: the next call has the same description, so that it runs on this call's plan.
  void execute(const CallRecord& record, CallResult& result, bool keep_plan);
  void enter(Stage stage) { control_.stage.store(static_cast<std::uint32_t>(stage), std::memory_order_relaxed); }
  std::byte* workspace(std::uint64_t bytes, std::uint64_t alignment, const CallRecord& record);

  Control& control_;
  Region region_;
  void* library_ = nullptr;
  PluginTable table_;
  FloatingPoint normal_;
  FencedBuffer text_;
  std::map<std::uint64_t, FencedBuffer> workspaces_;  // by size class, so that a call meets the same fences always
  FencedBuffer* workspace_ = nullptr;                 // of the call at work
  void* plan_ = nullptr;                              // kept from the call before, if plan_kept_
  bool plan_kept_ = false;
};

}  // namespace normgate::runner
