// Where tensors stand in memory. The host writes them into slots of a memory file; the worker maps the same slots
// between guard pages, inputs read-only. A slot is mapped once per worker and used again by later calls of its size
// class.
//
//   slot, right fence:  [ filling ........ | tensor ][guard]      left fence:  [guard][ tensor | ........ filling ]
//
// To add a way of placing data: place() computes the position, everything else follows from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "reference/problem/problem.hpp"

namespace normgate::runner {

[[nodiscard]] std::uint64_t page_bytes();
// Guards are wide, so that an index that is wrong by a row still hits one; they cost address space only.
inline constexpr std::uint64_t guard_bytes = std::uint64_t{1} << 20U;
inline constexpr std::uint64_t region_bytes = std::uint64_t{1} << 40U;

// Sizes of slots: 1, 2, 3, 4, 6, 8, 12, … pages.
[[nodiscard]] std::uint64_t class_bytes(std::uint64_t bytes);

// ---- the host's side
// -------------------------------------------------------------------------------------------------

struct Slot {
  std::uint64_t address = 0;  // from the first byte of the worker's region
  std::uint64_t file = 0;
  std::uint64_t bytes = 0;
  bool writable = false;        // by the worker
  std::byte* memory = nullptr;  // the host's own mapping
};

// The memory file and its slots.
class Arena {
 public:
  Arena();  // throws std::system_error
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // A slot of at least so many bytes; nullptr if there is no memory for it.
  [[nodiscard]] Slot* acquire(std::uint64_t bytes, bool writable);
  void release(Slot* slot);
  [[nodiscard]] int file() const { return file_; }

 private:
  int file_ = -1;
  std::uint64_t file_end_;  // the start of the file is where manifests travel
  std::uint64_t address_end_ = guard_bytes;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::map<std::pair<std::uint64_t, bool>, std::vector<Slot*>> free_;
};

// A tensor in a slot.
struct LaidTensor {
  Slot* slot = nullptr;
  Role role = Role::x;
  Role result = Role::x;  // what is read back of it: another role where that one is written in place
  bool read = false;
  bool write = false;
  std::int64_t offset = 0;  // bytes from the slot's start to the tensor's
  std::int64_t bytes = 0;   // of the tensor, gaps included
  std::int64_t count = 0;   // elements
  Shape shape{};            // restricted to the role's axes
  Strides strides;
  bool dense = false;         // memory is the logical order without gaps
  std::uint32_t filling = 0;  // the word around and between the elements
  std::uint32_t poison = 0;   // the word in elements that are only written
};

struct Placement {
  Fence fence = Fence::right;
  std::int64_t misalign = 0;   // elements
  std::int64_t alignment = 0;  // bytes that the kernel needs; 0: that of an element
  std::int64_t over_read = 0;  // bytes behind the end that it may read
};
// Bytes that a slot must have for a tensor of `bytes`, and the tensor's offset in a slot. The alignment that a kernel
// declares goes before the misalignment that a problem asks for.
[[nodiscard]] std::uint64_t bytes_needed(std::int64_t bytes, const Placement& placement);
[[nodiscard]] std::int64_t place(std::int64_t bytes, std::uint64_t slot_bytes, const Placement& placement);

// Writes the filling and the elements: `values` (dense, row-major), or the poison if the tensor is only written.
void lay(const LaidTensor& tensor, std::span<const float> values);
// Reads the elements, dense and row-major.
[[nodiscard]] std::vector<float> gather(const LaidTensor& tensor);
// Whether the elements are, bit for bit, these; the first that is not.
[[nodiscard]] std::optional<std::int64_t> first_difference(const LaidTensor& tensor, std::span<const float> values);

// Bytes of the slot outside the elements that no longer hold the filling.
struct Disturbance {
  std::int64_t first = 0;  // the first changed word's offset from the tensor's first byte …
  std::int64_t last = 0;   // … and the last one's
  std::int64_t words = 0;
};
struct Disturbances {
  std::optional<Disturbance> before, between, behind;
};
[[nodiscard]] Disturbances disturbances(const LaidTensor& tensor);

// The element that a byte of the tensor belongs to.
[[nodiscard]] std::optional<Shape> element_at(const LaidTensor& tensor, std::int64_t byte);
// Coordinates of the element with a dense index.
[[nodiscard]] Shape coordinates(const Shape& shape, std::int64_t index);

// ---- the worker's side
// -----------------------------------------------------------------------------------------------

// The address range in which slots are mapped; everything between them is a guard.
class Region {
 public:
  Region() = default;
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  [[nodiscard]] std::string reserve(int arena_file);  // "" or what went wrong
  [[nodiscard]] bool map(std::uint64_t address, std::uint64_t file, std::uint64_t bytes, bool writable);
  [[nodiscard]] std::byte* base() const { return base_; }

 private:
  std::byte* base_ = nullptr;
  int file_ = -1;
  std::unordered_set<std::uint64_t> mapped_;
};

// Private memory between guards, flush against the right one, for workspaces and text buffers.
class FencedBuffer {
 public:
  FencedBuffer() = default;
  ~FencedBuffer();
  FencedBuffer(const FencedBuffer&) = delete;
  FencedBuffer& operator=(const FencedBuffer&) = delete;

  // The buffer, filled with `poison`, with `filling` around it; nullptr if there is no memory. The former one is gone.
  [[nodiscard]] std::byte* prepare(std::uint64_t bytes, std::uint64_t alignment, std::uint32_t poison,
                                   std::uint32_t filling);
  // How far before the start and past the end the filling has been written over, in bytes.
  [[nodiscard]] std::int64_t reached_before() const;
  [[nodiscard]] std::int64_t reached_behind() const;

 private:
  std::byte* mapping_ = nullptr;  // guard, memory, guard
  std::uint64_t capacity_ = 0;
  std::uint64_t offset_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint32_t filling_ = 0;
};

}  // namespace normgate::runner
