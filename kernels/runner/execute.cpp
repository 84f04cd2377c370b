// See execute.hpp. Every function of the plugin is called from here (the accessors of the manifest apart).
#include "kernels/runner/execute.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cfenv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iterator>
#include <utility>

namespace normgate::runner {
namespace {

constexpr std::uint64_t largest_alignment = 4096;

void set_text(CallResult& result, const std::string& text) {
  std::snprintf(result.text, sizeof result.text, "%s", text.c_str());
}

// A function of the plugin, with what C++ may throw out of it told as a text.
template <typename Function>
bool guarded(CallResult& result, const std::string& name, Function&& function) {
  try {
    function();
    return true;
  } catch (const std::exception& error) {
    result.ending = static_cast<std::int32_t>(Ending::invalid_status);
    set_text(result, name + " let an exception out: " + error.what());
  } catch (...) {
    result.ending = static_cast<std::int32_t>(Ending::invalid_status);
    set_text(result, name + " let an exception out");
  }
  return false;
}

Ending ending_of(std::int32_t status) {
  switch (status) {
    case NG_OK:
      return Ending::ok;
    case NG_REFUSED:
      return Ending::refused;
    case NG_OUT_OF_MEMORY:
      return Ending::out_of_memory;
    case NG_FAILED:
      return Ending::failed;
    default:
      return Ending::invalid_status;
  }
}

// Whether one plan serves both calls: everything that `prepare` may rely on is equal. Data, step, alignment and the
// caller's floating-point state may differ.
bool same_description(const CallRecord& a, const CallRecord& b) {
  const auto in_place = [](const CallRecord& record) {
    const auto phase = static_cast<Phase>(record.phase);
    const TensorRecord& in = record.tensor[index_of(in_place_input(phase))];
    const TensorRecord& out = record.tensor[index_of(in_place_output(phase))];
    return in.present != 0 && out.present != 0 && in.address == out.address;
  };
  const auto same_tensor = [](const TensorRecord& p, const TensorRecord& q) {
    return p.present == q.present && std::equal(p.stride, p.stride + axis_count, q.stride);
  };
  return a.kernel == b.kernel && a.variant == b.variant && a.phase == b.phase && a.threads == b.threads &&
         std::equal(a.extent, a.extent + axis_count, b.extent) && a.eps == b.eps && a.momentum == b.momentum &&
         a.accumulate == b.accumulate && std::equal(std::begin(a.convention), std::end(a.convention), b.convention) &&
         in_place(a) == in_place(b) && std::equal(std::begin(a.tensor), std::end(a.tensor), b.tensor, same_tensor);
}

}  // namespace

#if defined(__x86_64__)
Executor::FloatingPoint Executor::FloatingPoint::current() {
  FloatingPoint result;
  std::uint32_t vector = 0;
  std::uint16_t scalar = 0;
  asm volatile("stmxcsr %0" : "=m"(vector));
  asm volatile("fnstcw %0" : "=m"(scalar));
  result.vector_control = vector & 0xFFC0U;  // the lower bits are flags: they may change
  result.scalar_control = scalar;
  return result;
}
void Executor::FloatingPoint::restore() const {
  asm volatile("ldmxcsr %0" : : "m"(vector_control));
  asm volatile("fldcw %0" : : "m"(scalar_control));
}
Executor::FloatingPoint Executor::FloatingPoint::as_set_by(std::uint32_t caller_state) const {
  FloatingPoint result = *this;
  if ((caller_state & environment_flush_to_zero) != 0) result.vector_control |= 0x8000U;
  if ((caller_state & environment_denormals_are_zero) != 0) result.vector_control |= 0x0040U;
  return result;
}
std::uint32_t Executor::FloatingPoint::difference(const FloatingPoint& other) const {
  const std::uint32_t changed = vector_control ^ other.vector_control;
  std::uint32_t result = 0;
  if ((changed & 0x6000U) != 0) result |= environment_rounding;
  if ((changed & 0x8000U) != 0) result |= environment_flush_to_zero;
  if ((changed & 0x0040U) != 0) result |= environment_denormals_are_zero;
  if ((changed & 0x1F80U) != 0) result |= environment_exception_masks;
  if (scalar_control != other.scalar_control) result |= environment_x87;
  return result;
}
#else
// Elsewhere only what C can see: the rounding mode.
Executor::FloatingPoint Executor::FloatingPoint::current() {
  FloatingPoint result;
  result.vector_control = static_cast<std::uint32_t>(std::fegetround());
  return result;
}
void Executor::FloatingPoint::restore() const { std::fesetround(static_cast<int>(vector_control)); }
Executor::FloatingPoint Executor::FloatingPoint::as_set_by(std::uint32_t) const { return *this; }
std::uint32_t Executor::FloatingPoint::difference(const FloatingPoint& other) const {
  return vector_control != other.vector_control ? environment_rounding : 0;
}
#endif

std::string Executor::load(const std::string& path, int arena_file) {
  // A plugin built with -ffast-math turns on FTZ and DAZ when it is loaded; calls are made in the state before that.
  normal_ = FloatingPoint::current();
  enter(Stage::loading);
  if (std::string error = region_.reserve(arena_file); !error.empty()) return error;
  control_.region = reinterpret_cast<std::uint64_t>(region_.base());
  // Never closed: threads that a plugin left running must keep their code.
  library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) {
    const char* reason = dlerror();
    return std::string("cannot be opened as a shared library: ") + (reason != nullptr ? reason : "no reason given");
  }
  void* symbol = dlsym(library_, "normgate_plugin_v1");
  if (symbol == nullptr)
    return "does not export normgate_plugin_v1; a plugin must define `NG_EXPORT const ng_plugin* "
           "normgate_plugin_v1(size_t)` of normgate.h with C linkage";
  enter(Stage::reading_manifest);
  const auto entry = reinterpret_cast<const ng_plugin* (*)(std::size_t)>(symbol);
  auto table = read_table(entry(sizeof(ng_plugin)));
  if (const auto* error = std::get_if<std::string>(&table)) return *error;
  table_ = std::get<PluginTable>(std::move(table));
  normal_.restore();
  enter(Stage::idle);
  return "";
}

bool Executor::send_manifest(int arena_file) {
  enter(Stage::reading_manifest);
  const std::string text = manifest_json(table_);
  enter(Stage::idle);
  control_.manifest_bytes = text.size();
  if (text.size() > manifest_capacity) return false;
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = pwrite(arena_file, text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (written <= 0) return false;
    done += static_cast<std::size_t>(written);
  }
  return true;
}

std::byte* Executor::workspace(std::uint64_t bytes, std::uint64_t alignment, const CallRecord& record) {
  workspace_ = &workspaces_[class_bytes(bytes)];
  std::byte* memory = workspace_->prepare(bytes, alignment, record.workspace_poison, record.workspace_filling);
  if (memory == nullptr) workspace_ = nullptr;
  return memory;
}

void Executor::execute(const CallRecord& record, CallResult& result, bool keep_plan) {
  const bool plan_is_kept = std::exchange(plan_kept_, false);
  result.ending = static_cast<std::int32_t>(Ending::failed);
  result.environment = 0;
  result.workspace_before = result.workspace_behind = 0;
  result.nanoseconds = 0;
  result.status = 0;
  result.text[0] = '\0';
  workspace_ = nullptr;
  control_.workspace = control_.workspace_bytes = 0;
  if (record.kernel < 0 || static_cast<std::size_t>(record.kernel) >= table_.kernels.size()) {
    set_text(result, "the plugin has no kernel of this number");
    return;
  }
  const ng_kernel& kernel = table_.kernels[static_cast<std::size_t>(record.kernel)];

  ng_convention convention{};
  convention.struct_size = sizeof convention;
  convention.normalizing_divisor = record.convention[0];
  convention.stored_divisor = record.convention[1];
  convention.single_count = record.convention[2];
  convention.momentum_form = record.convention[3];
  convention.eps_placement = record.convention[4];
  convention.gamma_offset = record.convention[5];
  convention.saved_statistic = record.convention[6];
  convention.gradients = record.convention[7];
  convention.scalars = record.convention[8];

  ng_tensor tensors[role_count] = {};
  ng_call call{};
  call.struct_size = sizeof call;
  call.variant = record.variant;
  call.phase = record.phase;
  call.eps = record.eps;
  call.momentum = record.momentum;
  call.step = record.step;
  call.threads = record.threads;
  call.accumulate = record.accumulate;
  call.convention = &convention;
  for (std::size_t axis = 0; axis < axis_count; ++axis) call.extent[axis] = record.extent[axis];
  for (std::size_t role = 0; role < role_count; ++role) {
    const TensorRecord& laid = record.tensor[role];
    if (laid.present == 0) continue;
    if (!region_.map(laid.slot_address, laid.slot_file, laid.slot_bytes, laid.writable != 0)) {
      result.ending = static_cast<std::int32_t>(Ending::no_memory);
      set_text(result, "the worker could not map the tensors");
      return;
    }
    ng_tensor& tensor = tensors[role];
    tensor.struct_size = sizeof tensor;
    tensor.data = region_.base() + laid.address;
    tensor.dtype = NG_FLOAT32;
    for (std::size_t axis = 0; axis < axis_count; ++axis) tensor.stride[axis] = laid.stride[axis];
    call.tensor[role] = &tensor;
  }
  std::byte* text = text_.prepare(text_capacity, 1, 0, 0);
  if (text == nullptr) {
    result.ending = static_cast<std::int32_t>(Ending::no_memory);
    return;
  }
  call.text = reinterpret_cast<char*>(text);
  call.text_size = text_capacity;
  control_.text_buffer = reinterpret_cast<std::uint64_t>(text);

  // Each step says whether the next one follows.
  const auto step = [&](Stage stage, const char* name, auto&& function) {
    result.stage = static_cast<std::uint32_t>(stage);
    enter(stage);
    std::int32_t status = NG_OK;
    if (!guarded(result, name, [&] { status = function(); })) return false;
    result.status = status;
    const Ending ending = ending_of(status);
    result.ending = static_cast<std::int32_t>(ending);
    if (ending == Ending::invalid_status)
      set_text(result, std::string(name) + " returned " + std::to_string(status) + "; an ng_status is 0 to 3");
    return ending == Ending::ok;
  };

  bool go_on = true;
  if (kernel.supports != nullptr) {
    result.stage = static_cast<std::uint32_t>(Stage::supports);
    enter(Stage::supports);
    std::int32_t answer = 1;
    go_on = guarded(result, "supports", [&] { answer = kernel.supports(&call); });
    if (go_on && answer != 1) {
      go_on = false;
      result.status = answer;
      result.ending = static_cast<std::int32_t>(answer == 0 ? Ending::unsupported : Ending::invalid_status);
      if (answer != 0)
        set_text(result, "supports returned " + std::to_string(answer) + "; it must be 1 (yes) or 0 (no)");
    }
  }
  // A plan that is not needed any more is released whatever happened, in the call that ran on it last.
  if (go_on || plan_is_kept) {
    void* plan = plan_is_kept ? plan_ : nullptr;
    bool prepared = true;
    if (go_on && !plan_is_kept && kernel.prepare != nullptr)
      prepared = go_on = step(Stage::prepare, "prepare", [&] { return kernel.prepare(&call, &plan); });
    std::byte* workspace_memory = nullptr;
    if (go_on && kernel.workspace != nullptr) {
      std::size_t bytes = 0;
      std::size_t alignment = 0;
      go_on = step(Stage::workspace, "workspace", [&] { return kernel.workspace(plan, &call, &bytes, &alignment); });
      if (go_on && (alignment > largest_alignment || (alignment & (alignment - 1)) != 0)) {
        go_on = false;
        result.ending = static_cast<std::int32_t>(Ending::invalid_status);
        set_text(result, "workspace asks for an alignment of " + std::to_string(alignment) +
                             "; it must be 0 or a power of two up to 4096");
      }
      if (go_on && bytes > 0) {
        workspace_memory = workspace(bytes, alignment == 0 ? alignof(std::max_align_t) : alignment, record);
        if (workspace_memory == nullptr) {
          go_on = false;
          result.ending = static_cast<std::int32_t>(Ending::no_memory);
          set_text(result, "no memory for a workspace of " + std::to_string(bytes) + " bytes");
        }
        control_.workspace = reinterpret_cast<std::uint64_t>(workspace_memory);
        control_.workspace_bytes = bytes;
      }
    }
    const auto run = [&] { return step(Stage::run, "run", [&] { return kernel.run(plan, &call, workspace_memory); }); };
    if (go_on && run() && record.timed_runs > 0) {
      const auto start = std::chrono::steady_clock::now();
      for (std::int64_t i = 0; i < record.timed_runs && run(); ++i) {
      }
      const auto passed = std::chrono::steady_clock::now() - start;
      result.nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(passed).count();
    }
    if (go_on && keep_plan && kernel.prepare != nullptr) {
      plan_ = plan;
      plan_kept_ = true;
    } else if (prepared && kernel.prepare != nullptr && kernel.release != nullptr) {
      enter(Stage::release);
      CallResult ignored;
      if (!guarded(ignored, "release", [&] { kernel.release(plan); })) {
        result.stage = static_cast<std::uint32_t>(Stage::release);
        result.ending = ignored.ending;
        std::memcpy(result.text, ignored.text, sizeof result.text);
      }
    }
  }
  if (result.text[0] == '\0') {
    std::memcpy(result.text, text, sizeof result.text);
    result.text[sizeof result.text - 1] = '\0';
  }
  if (workspace_ != nullptr) {
    result.workspace_before = workspace_->reached_before();
    result.workspace_behind = workspace_->reached_behind();
  }
}

void Executor::run_batch() {
  const std::size_t count = control_.count;
  for (std::size_t i = 0; i < count && i < batch_capacity; ++i) {
    const FloatingPoint found = normal_.as_set_by(control_.calls[i].caller_state);
    found.restore();
    const bool more = i + 1 < count && i + 1 < batch_capacity;
    execute(control_.calls[i], control_.results[i], more && same_description(control_.calls[i], control_.calls[i + 1]));
    control_.results[i].environment = FloatingPoint::current().difference(found);
    enter(Stage::idle);
    control_.completed.store(static_cast<std::uint32_t>(i) + 1, std::memory_order_release);
  }
  normal_.restore();
}

}  // namespace normgate::runner
