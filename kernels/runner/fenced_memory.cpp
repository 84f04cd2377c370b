// Slots, guards, fillings: see fenced_memory.hpp.
#include "kernels/runner/fenced_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "kernels/runner/protocol.hpp"

namespace normgate::runner {
namespace {

constexpr std::int64_t word = 4;
// Slots above this give their memory back when they are released.
constexpr std::uint64_t kept_bytes = std::uint64_t{16} << 20U;

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; }

void fill_words(std::byte* begin, const std::byte* end, std::uint32_t pattern) {
  auto* at = reinterpret_cast<std::uint32_t*>(begin);
  const auto* last = reinterpret_cast<const std::uint32_t*>(end);
  const std::uint64_t twice = (std::uint64_t{pattern} << 32U) | pattern;
  for (; at + 2 <= last; at += 2) std::memcpy(at, &twice, sizeof twice);
  if (at < last) *at = pattern;
}

// Whether [begin, end) holds the pattern throughout. Without an early exit inside a block, for speed: this runs over
// whole pages for every tensor of every call.
bool holds(const std::byte* begin, const std::byte* end, std::uint32_t pattern) {
  const std::uint64_t twice = (std::uint64_t{pattern} << 32U) | pattern;
  const std::byte* at = begin;
  for (; end - at >= 64; at += 64) {
    std::uint64_t block[8];
    std::memcpy(block, at, sizeof block);
    std::uint64_t difference = 0;
    for (const std::uint64_t value : block) difference |= value ^ twice;
    if (difference != 0) return false;
  }
  for (; end - at >= word; at += word) {
    std::uint32_t value = 0;
    std::memcpy(&value, at, sizeof value);
    if (value != pattern) return false;
  }
  return true;
}

// Offsets are told from `origin`.
std::optional<Disturbance> changed(const std::byte* begin, const std::byte* end, std::uint32_t pattern,
                                   std::int64_t origin) {
  if (holds(begin, end, pattern)) return std::nullopt;
  Disturbance result;
  for (const std::byte* at = begin; end - at >= word; at += word) {
    std::uint32_t value = 0;
    std::memcpy(&value, at, sizeof value);
    if (value == pattern) continue;
    const std::int64_t offset = (at - begin) + origin;
    if (result.words == 0) result.first = offset;
    result.last = offset;
    ++result.words;
  }
  // The words may have changed back between the two looks (a thread left running): then nothing is told.
  if (result.words == 0) return std::nullopt;
  return result;
}

// Calls visit(offset in elements) for each element in logical order; stops when it returns false.
template <typename Visit>
void for_each_element(const Shape& shape, const Strides& strides, Visit&& visit) {
  const auto& stride = strides.stride;
  for (std::int64_t n = 0; n < shape[0]; ++n)
    for (std::int64_t g = 0; g < shape[1]; ++g)
      for (std::int64_t k = 0; k < shape[2]; ++k) {
        std::int64_t at = n * stride[0] + g * stride[1] + k * stride[2];
        for (std::int64_t s = 0; s < shape[3]; ++s, at += stride[3])
          if (!visit(at)) return;
      }
}

std::uint32_t word_at(const std::byte* start, std::int64_t element) {
  std::uint32_t value = 0;
  std::memcpy(&value, start + element * word, sizeof value);
  return value;
}

bool enough_memory(std::uint64_t bytes) {
  if (bytes < (std::uint64_t{64} << 20U)) return true;
  // A memory file has no limit of its own: who asks for too much is killed later. So the system is asked first.
  std::uint64_t available = 0;
  if (std::FILE* file = std::fopen("/proc/meminfo", "re")) {
    char line[256];
    unsigned long long kilobytes = 0;
    while (std::fgets(line, sizeof line, file) != nullptr)
      if (std::sscanf(line, "MemAvailable: %llu kB", &kilobytes) == 1) available = kilobytes * 1024;
    std::fclose(file);
  }
  return available == 0 || bytes < available / 10 * 8;
}

}  // namespace

std::uint64_t page_bytes() {
  static const auto bytes = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

std::uint64_t class_bytes(std::uint64_t bytes) {
  const std::uint64_t pages = std::max<std::uint64_t>(1, round_up(bytes, page_bytes()) / page_bytes());
  std::uint64_t power = 1;
  while (power < pages) power *= 2;
  const std::uint64_t between = power / 4 * 3;
  return (between >= pages ? between : power) * page_bytes();
}

// ---- arena
// -----------------------------------------------------------------------------------------------------------

Arena::Arena() : file_end_(round_up(manifest_capacity, page_bytes())) {
  const int created = memfd_create("normgate-tensors", MFD_CLOEXEC);
  if (created < 0) throw std::system_error(errno, std::generic_category(), "memfd_create");
  // Away from the numbers under which the worker inherits it.
  file_ = fcntl(created, F_DUPFD_CLOEXEC, 10);
  close(created);
  if (file_ < 0) throw std::system_error(errno, std::generic_category(), "fcntl");
  if (ftruncate(file_, static_cast<off_t>(file_end_)) != 0) {
    const int reason = errno;
    close(file_);
    throw std::system_error(reason, std::generic_category(), "ftruncate");
  }
}

Arena::~Arena() {
  for (const auto& slot : slots_) munmap(slot->memory, slot->bytes);
  close(file_);
}

Slot* Arena::acquire(std::uint64_t bytes, bool writable) {
  const std::uint64_t size = class_bytes(bytes);
  if (size > region_bytes / 4 || !enough_memory(size)) return nullptr;
  auto& free = free_[{size, writable}];
  if (!free.empty()) {
    Slot* slot = free.back();
    free.pop_back();
    return slot;
  }
  if (address_end_ + size + guard_bytes > region_bytes) return nullptr;
  if (ftruncate(file_, static_cast<off_t>(file_end_ + size)) != 0) return nullptr;
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file_, static_cast<off_t>(file_end_));
  if (memory == MAP_FAILED) return nullptr;
  auto slot = std::make_unique<Slot>();
  slot->address = address_end_;
  slot->file = file_end_;
  slot->bytes = size;
  slot->writable = writable;
  slot->memory = static_cast<std::byte*>(memory);
  file_end_ += size;
  address_end_ = round_up(address_end_ + size + guard_bytes, page_bytes());
  slots_.push_back(std::move(slot));
  return slots_.back().get();
}

void Arena::release(Slot* slot) {
  if (slot->bytes > kept_bytes)
    (void)fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(slot->file),
                    static_cast<off_t>(slot->bytes));
  free_[{slot->bytes, slot->writable}].push_back(slot);
}

// ---- tensors
// ---------------------------------------------------------------------------------------------------------

std::uint64_t bytes_needed(std::int64_t bytes, const Placement& placement) {
  const std::int64_t slack = std::max<std::int64_t>(placement.alignment, word) - word;
  return static_cast<std::uint64_t>(bytes + placement.misalign * word + (placement.over_read + word - 1) / word * word +
                                    slack);
}

std::int64_t place(std::int64_t bytes, std::uint64_t slot_bytes, const Placement& placement) {
  // Slots begin at a page boundary, so that an offset is as well aligned as the address.
  const std::int64_t unit = std::max<std::int64_t>(placement.alignment, word);
  const std::int64_t moved = placement.misalign * word;
  std::int64_t offset = 0;
  if (placement.fence == Fence::right) {
    const std::int64_t readable = (placement.over_read + word - 1) / word * word;
    offset = (static_cast<std::int64_t>(slot_bytes) - readable - moved - bytes) / unit * unit;
  } else {
    offset = (moved + unit - 1) / unit * unit;
  }
  assert(offset >= 0 && offset + bytes <= static_cast<std::int64_t>(slot_bytes));
  return offset;
}

void lay(const LaidTensor& tensor, std::span<const float> values) {
  std::byte* memory = tensor.slot->memory;
  std::byte* start = memory + tensor.offset;
  const std::byte* end = memory + tensor.slot->bytes;
  if (tensor.dense) {
    fill_words(memory, start, tensor.filling);
    if (tensor.read && tensor.bytes > 0)  // no elements: no values to copy from
      std::memcpy(start, values.data(), static_cast<std::size_t>(tensor.bytes));
    else
      fill_words(start, start + tensor.bytes, tensor.poison);
    fill_words(start + tensor.bytes, end, tensor.filling);
    return;
  }
  fill_words(memory, end, tensor.filling);
  std::size_t next = 0;
  for_each_element(tensor.shape, tensor.strides, [&](std::int64_t at) {
    std::memcpy(start + at * word, tensor.read ? static_cast<const void*>(&values[next]) : &tensor.poison, word);
    ++next;
    return true;
  });
}

std::vector<float> gather(const LaidTensor& tensor) {
  const std::byte* start = tensor.slot->memory + tensor.offset;
  std::vector<float> values(static_cast<std::size_t>(tensor.count));
  if (values.empty()) return values;
  if (tensor.dense) {
    std::memcpy(values.data(), start, values.size() * sizeof(float));
    return values;
  }
  std::size_t next = 0;
  for_each_element(tensor.shape, tensor.strides, [&](std::int64_t at) {
    std::memcpy(&values[next++], start + at * word, word);
    return true;
  });
  return values;
}

std::optional<std::int64_t> first_difference(const LaidTensor& tensor, std::span<const float> values) {
  if (tensor.count == 0) return std::nullopt;
  const std::byte* start = tensor.slot->memory + tensor.offset;
  if (tensor.dense && std::memcmp(start, values.data(), values.size_bytes()) == 0) return std::nullopt;
  std::optional<std::int64_t> result;
  std::int64_t next = 0;
  for_each_element(tensor.shape, tensor.strides, [&](std::int64_t at) {
    std::uint32_t expected = 0;
    std::memcpy(&expected, &values[static_cast<std::size_t>(next)], sizeof expected);
    if (word_at(start, at) != expected) result = next;
    ++next;
    return !result.has_value();
  });
  return result;
}

Disturbances disturbances(const LaidTensor& tensor) {
  const std::byte* memory = tensor.slot->memory;
  const std::byte* start = memory + tensor.offset;
  Disturbances result;
  result.before = changed(memory, start, tensor.filling, -tensor.offset);
  result.behind = changed(start + tensor.bytes, memory + tensor.slot->bytes, tensor.filling, tensor.bytes);
  if (tensor.dense || tensor.bytes == 0) return result;
  // A copy in which the elements are painted over shows the gaps alone.
  std::vector<std::byte> copy(start, start + tensor.bytes);
  for_each_element(tensor.shape, tensor.strides, [&](std::int64_t at) {
    std::memcpy(copy.data() + at * word, &tensor.filling, word);
    return true;
  });
  result.between = changed(copy.data(), copy.data() + copy.size(), tensor.filling, 0);
  return result;
}

std::optional<Shape> element_at(const LaidTensor& tensor, std::int64_t byte) {
  if (byte < 0 || byte >= tensor.bytes) return std::nullopt;
  const std::int64_t wanted = byte / word;
  std::optional<std::int64_t> index;
  std::int64_t next = 0;
  for_each_element(tensor.shape, tensor.strides, [&](std::int64_t at) {
    if (at == wanted) index = next;
    ++next;
    return !index.has_value();
  });
  if (!index) return std::nullopt;
  return coordinates(tensor.shape, *index);
}

Shape coordinates(const Shape& shape, std::int64_t index) {
  Shape at{};
  for (std::size_t axis = axis_count; axis-- > 0;) {
    at[axis] = index % shape[axis];
    index /= shape[axis];
  }
  return at;
}

// ---- the worker's side
// -----------------------------------------------------------------------------------------------

Region::~Region() {
  if (base_ != nullptr) munmap(base_, region_bytes);
}

std::string Region::reserve(int arena_file) {
  void* memory = mmap(nullptr, region_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return "cannot be tried: the worker could not reserve 1 TiB of address space (a limit on virtual memory, ulimit "
           "-v, must not be set)";
  base_ = static_cast<std::byte*>(memory);
  file_ = arena_file;
  return "";
}

bool Region::map(std::uint64_t address, std::uint64_t file, std::uint64_t bytes, bool writable) {
  if (mapped_.contains(address)) return true;
  if (bytes == 0 || bytes > region_bytes || address > region_bytes - bytes || address % page_bytes() != 0) return false;
  void* memory = mmap(base_ + address, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED | MAP_FIXED,
                      file_, static_cast<off_t>(file));
  if (memory == MAP_FAILED) return false;
  mapped_.insert(address);
  return true;
}

FencedBuffer::~FencedBuffer() {
  if (mapping_ != nullptr) munmap(mapping_, capacity_ + 2 * guard_bytes);
}

std::byte* FencedBuffer::prepare(std::uint64_t bytes, std::uint64_t alignment, std::uint32_t poison,
                                 std::uint32_t filling) {
  if (bytes > region_bytes / 4) return nullptr;
  const std::uint64_t unit = std::max<std::uint64_t>(alignment, static_cast<std::uint64_t>(word));
  const std::uint64_t size = class_bytes(bytes);
  if (size != capacity_) {
    if (!enough_memory(size)) return nullptr;
    void* memory = mmap(nullptr, size + 2 * guard_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    auto* mapping = static_cast<std::byte*>(memory);
    if (mprotect(mapping + guard_bytes, size, PROT_READ | PROT_WRITE) != 0) {
      munmap(memory, size + 2 * guard_bytes);
      return nullptr;
    }
    if (mapping_ != nullptr) munmap(mapping_, capacity_ + 2 * guard_bytes);
    mapping_ = mapping;
    capacity_ = size;
  }
  offset_ = (capacity_ - bytes) / unit * unit;
  bytes_ = bytes;
  filling_ = filling;
  std::byte* memory = mapping_ + guard_bytes;
  // The last word may be a part of one: the buffer is laid over the filling.
  fill_words(memory, memory + capacity_, filling);
  for (std::uint64_t at = 0; at < bytes; at += 4)
    std::memcpy(memory + offset_ + at, &poison, std::min<std::uint64_t>(4, bytes - at));
  return memory + offset_;
}

std::int64_t FencedBuffer::reached_before() const {
  const std::byte* memory = mapping_ + guard_bytes;
  const auto found = changed(memory, memory + offset_, filling_, -static_cast<std::int64_t>(offset_));
  return found ? -found->first : 0;
}

std::int64_t FencedBuffer::reached_behind() const {
  // Byte by byte up to the next whole word, then by words.
  const std::byte* memory = mapping_ + guard_bytes;
  const std::uint64_t end = offset_ + bytes_;
  const std::uint64_t whole = std::min(round_up(end, 4), capacity_);
  const auto found = changed(memory + whole, memory + capacity_, filling_, static_cast<std::int64_t>(whole - end));
  if (found) return found->last + word;
  std::byte pattern[4];
  std::memcpy(pattern, &filling_, sizeof pattern);
  std::int64_t reach = 0;
  for (std::uint64_t at = end; at < whole; ++at)
    if (memory[at] != pattern[at % 4]) reach = static_cast<std::int64_t>(at - end) + 1;
  return reach;
}

}  // namespace normgate::runner
