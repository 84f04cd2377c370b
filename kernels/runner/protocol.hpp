// What the host and a worker share: the control block, in memory that both map. PROTOCOL.md describes it for workers in
// other languages. Fields are only appended and `protocol_version` counts up; the host checks every number that it
// reads here, since a kernel may have written over any of it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "reference/problem/variant.hpp"

namespace normgate::runner {

inline constexpr std::uint64_t control_magic = 0x4c4f52544e4f434eU;  // "NCONTROL"
inline constexpr std::uint32_t protocol_version = 3;
inline constexpr int control_descriptor = 3;  // the worker inherits the control block …
inline constexpr int arena_descriptor = 4;    // … and the file that holds the tensors under these numbers
inline constexpr std::size_t batch_capacity = 64;
inline constexpr std::size_t text_capacity = 1024;  // with the final NUL
inline constexpr std::uint64_t manifest_capacity = std::uint64_t{64} << 20U;
inline constexpr std::int32_t list_capacity = 4096;  // kernels, targets, conventions of a manifest

enum class Operation : std::uint32_t { load = 0, manifest = 1, batch = 2, quit = 3 };

// Which function of the plugin the worker is in.
enum class Stage : std::uint32_t {
  idle = 0,
  loading = 1,
  reading_manifest = 2,
  supports = 3,
  prepare = 4,
  workspace = 5,
  run = 6,
  release = 7
};

enum class Access : std::uint32_t { unknown = 0, read = 1, write = 2, jump = 3 };

// How a call ended, as the worker saw it.
enum class Ending : std::int32_t {
  none = 0,
  ok = 1,
  unsupported = 2,
  refused = 3,
  failed = 4,
  out_of_memory = 5,
  invalid_status = 6,
  no_memory = 7  // the worker could not map a slot or the workspace
};

// Bits of CallResult::environment: what a kernel left changed. Of CallRecord::caller_state: what the caller has set.
inline constexpr std::uint32_t environment_rounding = 1;
inline constexpr std::uint32_t environment_flush_to_zero = 2;
inline constexpr std::uint32_t environment_denormals_are_zero = 4;
inline constexpr std::uint32_t environment_exception_masks = 8;
inline constexpr std::uint32_t environment_x87 = 16;

// One tensor: addresses count from the first byte of the worker's region.
struct TensorRecord {
  std::uint64_t address = 0;       // of the element (0, 0, 0, 0)
  std::uint64_t slot_address = 0;  // of the slot's first byte, a page boundary with a guard before and behind
  std::uint64_t slot_file = 0;     // the slot's place in the arena file
  std::uint64_t slot_bytes = 0;
  std::int64_t stride[4] = {};
  std::uint32_t present = 0;
  std::uint32_t writable = 0;
};

struct CallRecord {
  std::int32_t kernel = 0;
  std::int32_t variant = 0;
  std::int32_t phase = 0;
  std::int32_t threads = 0;
  std::int64_t extent[4] = {};
  double eps = 0;
  double momentum = 0;
  std::int64_t step = 0;
  std::int32_t accumulate = 0;
  std::int32_t convention[9] = {};      // the fields of ng_convention in their order
  std::uint32_t workspace_poison = 0;   // the workspace is filled with this word
  std::uint32_t workspace_filling = 0;  // and the memory around it with this one
  std::int64_t timed_runs = 0;          // `run` is called so many times more, by the clock
  TensorRecord tensor[role_count] = {};
  std::uint32_t caller_state =
      0;  // bits of the floating-point state that the caller has set: environment_flush_to_zero …
};

struct CallResult {
  std::int32_t ending = 0;  // Ending
  std::uint32_t stage = 0;  // Stage in which it ended
  std::int32_t status = 0;  // what the plugin's function returned
  std::uint32_t environment = 0;
  std::int64_t workspace_before = 0;  // bytes before its start that were reached by a write; 0: none
  std::int64_t workspace_behind = 0;  // the same past its end
  std::int64_t nanoseconds = 0;       // of the timed runs together
  char text[text_capacity] = {};
};

struct FaultRecord {
  std::atomic<std::uint32_t> recorded;
  std::int32_t signal;
  std::int32_t code;  // si_code
  std::uint32_t access;
  std::uint64_t address;       // absolute
  std::uint32_t other_thread;  // 1: not in the thread that makes the calls
};

struct Control {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t size;                       // of this struct
  std::atomic<std::uint32_t> request;       // the host counts up and wakes the worker
  std::atomic<std::uint32_t> answer;        // the worker makes it equal to `request` when it is done
  std::atomic<std::uint32_t> worker_waits;  // 1: asleep on `request`; who changes the word wakes
  std::atomic<std::uint32_t> host_waits;    // 1: asleep on `answer`
  std::uint32_t operation;                  // Operation
  std::uint32_t count;                      // calls of the batch
  std::atomic<std::uint32_t> completed;     // calls done: the number of the call at work
  std::atomic<std::uint32_t> stage;         // Stage
  std::uint64_t region;                     // absolute address of the worker's region
  std::uint64_t workspace;                  // absolute address and size of the workspace of the call at work
  std::uint64_t workspace_bytes;
  std::uint64_t text_buffer;     // absolute address of the text buffer that the plugin is given
  std::uint64_t manifest_bytes;  // after `manifest`: so much JSON stands at the start of the arena file
  FaultRecord fault;
  char text[text_capacity];  // after `load`: why the plugin cannot be used; empty: it is loaded
  CallRecord calls[batch_capacity];
  CallResult results[batch_capacity];
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(sizeof(std::atomic<std::uint32_t>) == 4);

// Waits on a word in shared memory and wakes who waits there.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t value, std::int64_t nanoseconds);  // < 0: for ever
void futex_wake(std::atomic<std::uint32_t>& word);

// A wait that begins with a short spin: a wake-up costs 15 to 28 µs, a spin 2 µs when the other side is quick.
[[nodiscard]] bool spin_until_changed(const std::atomic<std::uint32_t>& word, std::uint32_t value);

}  // namespace normgate::runner
