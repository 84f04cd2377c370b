// The host's side of a worker: lays batches of calls, wakes the worker, judges what it left in memory.
//
// Two batches are in flight: while the worker executes one, the host lays the next and judges the last. The slots of a
// batch are looked at once more, for late writes, before they are used again.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <system_error>

#include "kernels/abi/normgate.h"
#include "kernels/runner/execute.hpp"
#include "kernels/runner/fenced_memory.hpp"
#include "kernels/runner/manifest.hpp"
#include "kernels/runner/runner.hpp"
#include "kernels/runner/worker_process.hpp"

namespace normgate::runner {
namespace {

constexpr std::uint64_t batch_bytes = std::uint64_t{8} << 20U;

// Words that no computation on the data gives: quiet NaNs with a payload of their own, or finite numbers near the
// largest, so that a second run with the other filling shows whether anything was read that should not have been.
struct Words32 {
  std::uint32_t filling;
  std::uint32_t poison;
};
Words32 words_of(Filling filling) {
  if (filling == Filling::nan) return {0x7FE5A5A5U, 0xFFD00DADU};
  return {0x7F61B1E7U, 0x7F5EADBFU};  // about 3.0e38 and 2.96e38
}

struct LaidCall {
  std::size_t index = 0;  // among the calls of run()
  std::int64_t elements = 0;
  std::vector<LaidTensor> tensors;
  std::vector<std::int64_t> disturbed;  // words, at the first look
  CallRecord record;
};

struct Batch {
  std::vector<LaidCall> calls;
  std::vector<CallResult> results;  // copies: the worker's own may change under our eyes
};

std::string element_name(std::string_view tensor, const Shape& at) {
  return fmt::format("{}[{},{},{},{}]", tensor, at[0], at[1], at[2], at[3]);
}

// "y", or "x (y in place)", or "dy (dx in place)".
std::string tensor_name(const LaidTensor& tensor) {
  std::string name(normgate::name_of(tensor.role));
  if (tensor.result != tensor.role) name += fmt::format(" ({} in place)", normgate::name_of(tensor.result));
  return name;
}

std::int64_t up_to_word(std::int64_t bytes) { return (bytes + 3) / 4 * 4; }

std::string many_words(const Disturbance& found, std::int64_t reach) {
  if (found.words * 4 == reach) return "";
  return fmt::format(" ({} changed)", found.words == 1 ? "1 word" : fmt::format("{} words", found.words));
}

std::int64_t total_words(const Disturbances& found) {
  return (found.before ? found.before->words : 0) + (found.between ? found.between->words : 0) +
         (found.behind ? found.behind->words : 0);
}

void add_disturbances(std::vector<Finding>& findings, const LaidTensor& tensor, const Disturbances& found,
                      FindingKind kind, const std::string& when) {
  const std::string name = tensor_name(tensor);
  if (found.before) {
    const std::int64_t reach = -found.before->first;
    findings.push_back({kind, tensor.role, found.before->first,
                        fmt::format("wrote {} bytes before the start of {}{}{}", reach, name,
                                    many_words(*found.before, reach), when)});
  }
  if (found.between)
    findings.push_back(
        {kind, tensor.role, found.between->first,
         fmt::format("wrote into the gaps between the elements of {}: {} words changed, the first {} bytes from its "
                     "start{}",
                     name, found.between->words, found.between->first, when)});
  if (found.behind) {
    const std::int64_t reach = found.behind->last - tensor.bytes + 4;
    findings.push_back(
        {kind, tensor.role, found.behind->first,
         fmt::format("wrote {} bytes past the end of {}{}{}", reach, name, many_words(*found.behind, reach), when)});
  }
}

std::string environment_text(std::uint32_t bits) {
  std::string text;
  const auto add = [&](std::uint32_t bit, std::string_view name) {
    if ((bits & bit) != 0) text += (text.empty() ? "" : ", ") + std::string(name);
  };
  add(environment_rounding, "rounding mode");
  add(environment_flush_to_zero, "flush-to-zero (FTZ)");
  add(environment_denormals_are_zero, "denormals-are-zero (DAZ)");
  add(environment_exception_masks, "exception masks");
  add(environment_x87, "x87 control word");
  return "changed and did not restore: " + (text.empty() ? "unknown state" : text);
}

// The signal of a call as a finding: which tensor, how far outside, read or written.
Finding fault_finding(const Death& death, const LaidCall& laid, std::uint64_t region, std::uint64_t workspace,
                      std::uint64_t workspace_bytes, std::uint64_t text_buffer) {
  Finding finding;
  finding.kind = FindingKind::fault;
  const std::string_view verb = death.access == Access::write  ? "wrote"
                                : death.access == Access::read ? "read"
                                : death.access == Access::jump ? "jumped"
                                                               : "accessed";
  const bool memory = death.has_address && (death.number == SIGSEGV || death.number == SIGBUS);
  if (!memory) {
    finding.sentence = describe(death);
    return finding;
  }
  if (death.number == SIGSEGV && death.code == SI_KERNEL) {
    finding.sentence =
        "misaligned access: an instruction that needs alignment met an address without it (or one that "
        "is not canonical)";
    return finding;
  }
  if (death.code == BUS_ADRALN && death.number == SIGBUS) {
    finding.sentence = "misaligned access";
    return finding;
  }
  if (death.address < 65536) {
    finding.sentence = fmt::format("{} through a null pointer (address {:#x})", verb, death.address);
    return finding;
  }
  // Offsets from the first byte of something of `bytes`; nothing if it is not near.
  const auto near = [&](std::uint64_t start, std::int64_t bytes, std::int64_t slack_before,
                        std::int64_t slack_behind) -> std::optional<std::int64_t> {
    const auto offset = static_cast<std::int64_t>(death.address - start);
    constexpr auto reach = static_cast<std::int64_t>(guard_bytes / 2);
    if (offset < -slack_before - reach || offset >= bytes + slack_behind + reach) return std::nullopt;
    return offset;
  };
  const auto outside = [&](std::int64_t offset, std::int64_t bytes, std::string_view name) {
    return offset < 0 ? fmt::format("{} {} bytes before the start of {}", verb, up_to_word(-offset), name)
                      : fmt::format("{} {} bytes past the end of {}", verb, (offset - bytes) / 4 * 4 + 4, name);
  };
  for (const LaidTensor& tensor : laid.tensors) {
    const auto behind = static_cast<std::int64_t>(tensor.slot->bytes) - tensor.offset - tensor.bytes;
    const auto offset = near(region + tensor.slot->address + static_cast<std::uint64_t>(tensor.offset), tensor.bytes,
                             tensor.offset, behind);
    if (!offset) continue;
    finding.role = tensor.role;
    finding.byte = *offset;
    const std::string name = tensor_name(tensor);
    if (*offset < 0 || *offset >= tensor.bytes)
      finding.sentence = outside(*offset, tensor.bytes, name);
    else if (const auto at = element_at(tensor, *offset))
      finding.sentence =
          death.access == Access::write && !tensor.write
              ? "wrote to the input " + element_name(name, *at)
              : fmt::format("{} {}, whose memory the system could not provide", verb, element_name(name, *at));
    else
      finding.sentence = fmt::format("{} between the elements of the input {}", verb, name);
    return finding;
  }
  if (const auto bytes = static_cast<std::int64_t>(workspace_bytes); workspace != 0 && bytes > 0) {
    if (const auto offset = near(workspace, bytes, static_cast<std::int64_t>(page_bytes()), 0)) {
      finding.byte = *offset;
      finding.sentence = outside(*offset, bytes, "the workspace");
      return finding;
    }
  }
  if (text_buffer != 0) {
    if (const auto offset = near(text_buffer, text_capacity, static_cast<std::int64_t>(page_bytes()), 0)) {
      finding.byte = *offset;
      finding.sentence = outside(*offset, text_capacity, "the text buffer");
      return finding;
    }
  }
  finding.sentence = fmt::format("{} at an address far from every tensor", verb);
  return finding;
}

std::array<std::int32_t, 9> fields_of(const Convention& convention) {
  const auto number = [](auto value) { return static_cast<std::int32_t>(value); };
  return {number(convention.normalizing), number(convention.stored),    number(convention.single),
          number(convention.momentum),    number(convention.eps),       number(convention.gamma),
          number(convention.saved),       number(convention.gradients), number(convention.scalars)};
}

bool is_dense(const Shape& shape, const Strides& strides) {
  std::int64_t expected = 1;
  for (std::size_t axis = axis_count; axis-- > 0;) {
    if (shape[axis] > 1 && strides.stride[axis] != expected) return false;
    expected *= shape[axis];
  }
  return true;
}

// Whether elements that share their memory have one value; `values` are dense over the role's axes of the shape.
bool is_constant_along(AxisSet broadcast, const Shape& shape, AxisSet axes, std::span<const float> values) {
  if (broadcast.empty()) return true;
  const Shape kept = restricted(shape, axes);
  std::size_t next = 0;
  Shape at{};
  for (at[0] = 0; at[0] < kept[0]; ++at[0])
    for (at[1] = 0; at[1] < kept[1]; ++at[1])
      for (at[2] = 0; at[2] < kept[2]; ++at[2])
        for (at[3] = 0; at[3] < kept[3]; ++at[3]) {
          Shape shared = at;
          for (std::size_t axis = 0; axis < axis_count; ++axis)
            if (broadcast.has(axis)) shared[axis] = 0;
          const float first = values[static_cast<std::size_t>(dense_index(shape, axes, shared))];
          if (std::bit_cast<std::uint32_t>(values[next++]) != std::bit_cast<std::uint32_t>(first)) return false;
        }
  return true;
}

}  // namespace

struct Worker::Implementation {
  Plugin plugin;
  TargetInfo target;
  std::int32_t threads = 1;
  Options options;
  std::vector<KernelInfo> kernels;
  Arena arena;
  std::unique_ptr<WorkerProcess> process;
  std::unique_ptr<ControlBlock> local_control;  // in process only
  std::unique_ptr<Executor> local;
  std::uint64_t region = 0;
  std::int64_t restarts = 0;
  std::string former_output;

  Implementation(Plugin given, TargetInfo of, std::int32_t thread_count, Options chosen)
      : plugin(std::move(given)), target(std::move(of)), threads(thread_count), options(std::move(chosen)) {
    std::string manifest;
    if (options.in_process) {
      // As near to a worker as one process allows: the environment comes late for what is loaded already.
      for (const std::string& assignment : target.environment) {
        const std::size_t equals = assignment.find('=');
        setenv(assignment.substr(0, equals).c_str(), assignment.substr(equals + 1).c_str(), 1);
      }
      local_control = std::make_unique<ControlBlock>();
      local = std::make_unique<Executor>(**local_control);
      if (const std::string error = local->load(absolute_path(plugin.path), arena.file()); !error.empty())
        throw HarnessError{"plugin '" + plugin.path + "' " + harmless(error)};
      region = (*local_control)->region;
      manifest = local->manifest();
    } else {
      start();
      auto text = process->manifest(options);
      if (auto* error = std::get_if<HarnessError>(&text)) throw std::move(*error);
      manifest = std::get<std::string>(std::move(text));
    }
    auto read = checked_manifest(manifest, plugin.path);
    if (auto* error = std::get_if<HarnessError>(&read)) throw std::move(*error);
    kernels = std::get<Plugin>(std::move(read)).kernels;
    const bool same = std::equal(kernels.begin(), kernels.end(), plugin.kernels.begin(), plugin.kernels.end(),
                                 [](const KernelInfo& a, const KernelInfo& b) { return a.name == b.name; });
    if (!same)
      throw HarnessError{"plugin '" + plugin.path + "' lists other kernels for target " + target.name +
                         " than for the first one; the names and their order must be the same for every target"};
  }

  [[nodiscard]] Control& control() const { return local ? **local_control : process->control(); }

  void start() {
    if (process) {
      former_output += process->output();
      process.reset();
      ++restarts;
    }
    auto started = WorkerProcess::start(plugin.path, target.environment, threads, arena.file(), options);
    if (auto* error = std::get_if<HarnessError>(&started)) throw std::move(*error);
    process = std::get<std::unique_ptr<WorkerProcess>>(std::move(started));
    region = process->control().region;
  }

  // ---- laying ------------------------------------------------------------------------------------------------------

  void give_back(LaidCall& laid) {
    for (const LaidTensor& tensor : laid.tensors) arena.release(tensor.slot);
    laid.tensors.clear();
  }
  void give_back(Batch& batch) {
    for (LaidCall& laid : batch.calls) give_back(laid);
  }

  const KernelInfo& kernel_of(const Call& call) const {
    if (call.kernel < 0 || static_cast<std::size_t>(call.kernel) >= kernels.size())
      throw HarnessError{fmt::format("a call asks for kernel {} of plugin '{}', which has {}", call.kernel, plugin.path,
                                     kernels.size())};
    return kernels[static_cast<std::size_t>(call.kernel)];
  }

  // False if there is no memory; then nothing is held.
  bool lay_call(const Call& call, std::size_t index, LaidCall& laid) {
    const Problem& problem = call.problem;
    const KernelInfo& kernel = kernel_of(call);
    const VariantRow& row = row_of(problem.variant);
    const Words32 words = words_of(call.filling);
    laid.index = index;
    laid.elements = element_count(problem.shape);

    CallRecord& record = laid.record;
    record.kernel = call.kernel;
    record.variant = kernel.variant ? static_cast<std::int32_t>(problem.variant) : NG_CUSTOM;
    record.phase = static_cast<std::int32_t>(problem.phase);
    record.threads = problem.threads;
    record.eps = problem.eps;
    record.momentum = problem.momentum;
    record.step = problem.step;
    record.accumulate = is_backward(problem.phase) && problem.convention.gradients == Gradients::accumulate ? 1 : 0;
    std::copy(problem.shape.begin(), problem.shape.end(), record.extent);
    const auto convention = fields_of(problem.convention);
    std::copy(convention.begin(), convention.end(), record.convention);
    record.workspace_poison = words.poison;
    record.workspace_filling = words.filling;
    record.timed_runs = call.timed_runs;
    if (call.flushing_caller) record.caller_state = environment_flush_to_zero | environment_denormals_are_zero;

    const Role shared = in_place_input(problem.phase);
    const Role over = in_place_output(problem.phase);
    for (std::size_t r = 0; r < role_count; ++r) {
      const auto role = static_cast<Role>(r);
      const RoleUse use = use_of(problem, role);
      if (!use.present() || (problem.in_place && role == over)) continue;
      LaidTensor tensor;
      tensor.role = role;
      tensor.read = use.read;
      tensor.result = problem.in_place && role == shared ? over : role;
      tensor.write = use.write || tensor.result != role;
      const AxisSet axes = axes_of(role, row);
      tensor.shape = restricted(problem.shape, axes);
      tensor.count = element_count(tensor.shape);
      tensor.strides = strides_of(problem.layout[role], problem.shape, axes);
      tensor.bytes = tensor.strides.span * 4;
      tensor.dense = is_dense(tensor.shape, tensor.strides);
      tensor.filling = words.filling;
      tensor.poison = words.poison;
      const std::vector<float>& values = call.inputs[role];
      const std::int64_t misalign =
          problem.misalign + problem.skew * static_cast<std::int64_t>(index_of(role)) + call.moved[role];
      const Placement placement{problem.fence, misalign, kernel.alignment, kernel.over_read_bytes};
      tensor.slot = arena.acquire(bytes_needed(tensor.bytes, placement), tensor.write);
      if (tensor.slot == nullptr) {
        give_back(laid);
        return false;
      }
      tensor.offset = place(tensor.bytes, tensor.slot->bytes, placement);
      lay(tensor, values);

      TensorRecord& out = record.tensor[r];
      out.present = 1;
      out.writable = tensor.write ? 1 : 0;
      out.address = tensor.slot->address + static_cast<std::uint64_t>(tensor.offset);
      out.slot_address = tensor.slot->address;
      out.slot_file = tensor.slot->file;
      out.slot_bytes = tensor.slot->bytes;
      std::copy(tensor.strides.stride.begin(), tensor.strides.stride.end(), out.stride);
      laid.tensors.push_back(tensor);
    }
    if (problem.in_place) record.tensor[index_of(over)] = record.tensor[index_of(shared)];
    laid.disturbed.assign(laid.tensors.size(), 0);
    return true;
  }

  // Lays calls from `next` on. `others` says that other batches hold memory: then a call that finds none waits for it.
  Batch lay_batch(std::span<const Call> calls, std::size_t& next, bool others, std::vector<Outcome>& outcomes) {
    Batch batch;
    std::uint64_t bytes = 0;
    while (next < calls.size() && batch.calls.size() < batch_capacity && bytes < batch_bytes) {
      LaidCall laid;
      if (!lay_call(calls[next], next, laid)) {
        if (others || !batch.calls.empty()) break;
        outcomes[next].status = Status::no_memory;
        outcomes[next].text = "no memory for the tensors; the call was skipped";
        ++next;
        continue;
      }
      for (const LaidTensor& tensor : laid.tensors) bytes += tensor.slot->bytes;
      batch.calls.push_back(std::move(laid));
      ++next;
    }
    return batch;
  }

  // ---- asking ------------------------------------------------------------------------------------------------------

  void send(const Batch& batch) {
    Control& shared = control();
    for (std::size_t i = 0; i < batch.calls.size(); ++i) {
      shared.calls[i] = batch.calls[i].record;
      shared.results[i].ending = static_cast<std::int32_t>(Ending::none);
    }
    const auto count = static_cast<std::uint32_t>(batch.calls.size());
    if (local) {
      shared.count = count;
      local->run_batch();
    } else {
      process->request(Operation::batch, count);
    }
  }

  // Calls that were completed; how the worker died if it did.
  std::size_t receive(Batch& batch, std::optional<Death>& death) {
    if (!local)
      death = process->wait(options.cpu_seconds, options.wall_seconds, [&](std::uint32_t completed) {
        // Room for a kernel that is slow because its problem is large; CPU time runs on every thread.
        constexpr double ordinary = 1 << 22;
        const std::size_t at = std::min<std::size_t>(completed, batch.calls.size() - 1);
        return std::max(1.0, static_cast<double>(batch.calls[at].elements) / ordinary) * std::max(threads, 1);
      });
    const std::size_t completed =
        death ? std::min<std::size_t>(control().completed.load(std::memory_order_acquire), batch.calls.size())
              : batch.calls.size();
    batch.results.assign(control().results, control().results + completed);
    return completed;
  }

  // ---- judging -----------------------------------------------------------------------------------------------------

  static void judge(LaidCall& laid, const Call& call, const CallResult& result, Outcome& outcome) {
    outcome.text = harmless(std::string_view(result.text, strnlen(result.text, sizeof result.text)));
    switch (static_cast<Ending>(result.ending)) {
      case Ending::ok:
        outcome.status = Status::ok;
        break;
      case Ending::unsupported:
        outcome.status = Status::unsupported;
        break;
      case Ending::refused:
        outcome.status = Status::refused;
        break;
      case Ending::failed:
        outcome.status = Status::failed;
        break;
      case Ending::out_of_memory:
        outcome.status = Status::failed;
        outcome.text = "out of memory" + (outcome.text.empty() ? "" : ": " + outcome.text);
        break;
      case Ending::invalid_status:
        outcome.status = Status::invalid_status;
        break;
      case Ending::no_memory:
        outcome.status = Status::no_memory;
        break;
      case Ending::none:
      default:
        outcome.status = Status::invalid_status;
        outcome.text = "the worker's record of the call is damaged: something wrote over its memory";
        break;
    }
    if (outcome.status == Status::no_memory) return;
    if (outcome.status == Status::ok && call.timed_runs > 0)
      outcome.nanoseconds = static_cast<double>(result.nanoseconds) / static_cast<double>(call.timed_runs);

    for (std::size_t i = 0; i < laid.tensors.size(); ++i) {
      const LaidTensor& tensor = laid.tensors[i];
      const Disturbances found = disturbances(tensor);
      laid.disturbed[i] = total_words(found);
      add_disturbances(outcome.findings, tensor, found, FindingKind::wrote_outside, "");
      if (!tensor.write) {
        if (const auto at = first_difference(tensor, call.inputs[tensor.role]))
          outcome.findings.push_back(
              {FindingKind::input_changed, tensor.role, 0,
               "changed the input " + element_name(tensor_name(tensor), coordinates(tensor.shape, *at))});
        continue;
      }
      if (outcome.status != Status::ok) continue;
      std::vector<float> values = gather(tensor);
      if (!tensor.read) {
        std::int64_t missing = 0;
        std::int64_t first = 0;
        for (std::size_t e = 0; e < values.size(); ++e) {
          if (std::bit_cast<std::uint32_t>(values[e]) != tensor.poison) continue;
          if (missing == 0) first = static_cast<std::int64_t>(e);
          ++missing;
        }
        if (missing > 0) {
          const Shape at = coordinates(tensor.shape, first);
          std::int64_t byte = 0;
          for (std::size_t axis = 0; axis < axis_count; ++axis) byte += at[axis] * tensor.strides.stride[axis] * 4;
          const std::string name = tensor_name(tensor);
          outcome.findings.push_back({FindingKind::unwritten, tensor.role, byte,
                                      fmt::format("left {} of {} elements of {} unwritten, the first {}", missing,
                                                  tensor.count, name, element_name(name, at))});
        }
      }
      outcome.outputs[tensor.result] = std::move(values);
    }
    const auto workspace = [&](std::int64_t bytes, std::string_view where) {
      if (bytes > 0)
        outcome.findings.push_back(
            {FindingKind::wrote_outside, Role::x, 0, fmt::format("wrote {} bytes {} of the workspace", bytes, where)});
    };
    workspace(result.workspace_before, "before the start");
    workspace(result.workspace_behind, "past the end");
    if (result.environment != 0)
      outcome.findings.push_back({FindingKind::environment, Role::x, 0, environment_text(result.environment)});
  }

  static void look_again(const LaidCall& laid, Outcome& outcome) {
    constexpr std::string_view when = " after the call had returned";
    for (std::size_t i = 0; i < laid.tensors.size(); ++i) {
      const LaidTensor& tensor = laid.tensors[i];
      if (!tensor.write) continue;
      const Disturbances found = disturbances(tensor);
      if (total_words(found) != laid.disturbed[i])
        add_disturbances(outcome.findings, tensor, found, FindingKind::late_write, std::string(when));
      if (outcome.status != Status::ok) continue;
      const Role role = tensor.result;
      if (const auto at = first_difference(tensor, outcome.outputs[role]))
        outcome.findings.push_back(
            {FindingKind::late_write, role, 0,
             "wrote " + element_name(normgate::name_of(role), coordinates(tensor.shape, *at)) + std::string(when)});
    }
  }

  void judge(Batch& batch, std::size_t completed, std::span<const Call> calls, std::vector<Outcome>& outcomes) {
    for (std::size_t i = 0; i < completed; ++i) {
      LaidCall& laid = batch.calls[i];
      judge(laid, calls[laid.index], batch.results[i], outcomes[laid.index]);
    }
  }
  void look_again(Batch& batch, std::size_t completed, std::vector<Outcome>& outcomes) {
    for (std::size_t i = 0; i < completed; ++i) look_again(batch.calls[i], outcomes[batch.calls[i].index]);
    give_back(batch);
    batch.calls.clear();
  }

  void tell_death(const Death& death, const LaidCall& laid, Outcome& outcome) const {
    const std::string stage = name_of(death.stage);
    const std::string where = stage.empty() ? "" : " in " + stage;
    if (death.timed_out) {
      outcome.status = Status::timed_out;
      outcome.text = fmt::format("no end{} within {:g} s of CPU time or {:g} s in all", where, options.cpu_seconds,
                                 options.wall_seconds);
      if (laid.elements > (1 << 22) || threads > 1) outcome.text += " (times a factor for size and threads)";
      return;
    }
    if (!death.signalled) {
      outcome.status = Status::exited;
      outcome.text = "the kernel ended the process with " + describe(death) + where;
      return;
    }
    outcome.status = Status::crashed;
    outcome.text = describe(death) + where;
    const Control& shared = process->control();
    Finding finding = fault_finding(death, laid, region, shared.workspace, shared.workspace_bytes, shared.text_buffer);
    if (finding.sentence != describe(death)) outcome.text += ": " + finding.sentence;
    if (death.has_address) outcome.findings.push_back(std::move(finding));
  }

  static void tell_late_death(const Death& death, Outcome& outcome) {
    outcome.findings.push_back(
        {FindingKind::fault, Role::x, 0,
         "the process died after the call had returned, in a thread that this call or an earlier one left running: " +
             describe(death)});
  }

  // Calls that cannot be laid are the caller's mistake; they are told before anything runs.
  void check_calls(std::span<const Call> calls) const {
    for (const Call& call : calls) {
      (void)kernel_of(call);
      for (std::size_t r = 0; r < role_count; ++r) {
        const auto role = static_cast<Role>(r);
        if (!use_of(call.problem, role).read) continue;
        const AxisSet axes = axes_of(role, row_of(call.problem.variant));
        const std::int64_t count = element_count(restricted(call.problem.shape, axes));
        if (call.inputs[role].size() != static_cast<std::size_t>(count))
          throw HarnessError{fmt::format("a call gives {} values for {}, which has {} elements",
                                         call.inputs[role].size(), normgate::name_of(role), count)};
        if (!is_constant_along(call.problem.layout[role].broadcast, call.problem.shape, axes, call.inputs[role]))
          throw HarnessError{fmt::format("a call gives different values for elements of {} that are one in memory",
                                         normgate::name_of(role))};
      }
    }
  }

  // The worker died while `batch` was with it. Judges what was completed, tells whose death it was, starts another
  // worker; returns the call to go on with.
  std::size_t bury(const Death& death, Batch& batch, std::size_t completed, std::span<const Call> calls,
                   std::vector<Outcome>& outcomes, std::map<std::size_t, Death>& suspicions) {
    judge(batch, completed, calls, outcomes);
    std::size_t next = batch.calls.back().index + 1;
    if (completed == batch.calls.size()) {
      tell_late_death(death, outcomes[next - 1]);
    } else {
      const LaidCall& at_work = batch.calls[completed];
      next = at_work.index;
      // In no function of the plugin, or in another thread: perhaps a thread that an earlier call left running did it.
      // The call is run again; if the worker dies again, it is this call's own doing.
      const bool suspicious = (death.stage == Stage::idle || death.other_thread) && !death.timed_out;
      if (!suspicious || !suspicions.emplace(next, death).second) {
        suspicions.erase(next);
        tell_death(death, at_work, outcomes[next]);
        ++next;
      }
    }
    look_again(batch, completed, outcomes);
    start();
    return next;
  }

  std::vector<Outcome> run(std::span<const Call> calls) {
    check_calls(calls);
    if (!local && !process) start();
    std::vector<Outcome> outcomes(calls.size());
    for (std::size_t i = 0; i < calls.size(); ++i) outcomes[i].may_be_refused = calls[i].may_be_refused;
    std::size_t next = 0;
    std::map<std::size_t, Death> suspicions;  // by the call before which the worker died
    Batch running;                            // with the worker; no calls: none
    Batch judged;                             // to be looked at once more
    while (next < calls.size() || !running.calls.empty()) {
      Batch laid = lay_batch(calls, next, !running.calls.empty() || !judged.calls.empty(), outcomes);
      if (!running.calls.empty()) {
        std::optional<Death> death;
        const std::size_t completed = receive(running, death);
        if (death) {
          give_back(laid);  // laid anew behind the call that failed, which may have written over it
          look_again(judged, judged.calls.size(), outcomes);
          next = bury(*death, running, completed, calls, outcomes, suspicions);
          continue;
        }
      }
      if (!laid.calls.empty()) send(laid);
      judge(running, running.calls.size(), calls, outcomes);
      look_again(judged, judged.calls.size(), outcomes);
      judged = std::move(running);
      running = std::move(laid);
    }
    if (process && !calls.empty()) {
      if (const auto death = process->settle()) {
        tell_late_death(*death, outcomes.back());
        start();
      }
    }
    look_again(judged, judged.calls.size(), outcomes);
    for (const auto& [index, death] : suspicions)
      if (index > 0) tell_late_death(death, outcomes[index - 1]);
    return outcomes;
  }
};

namespace {

const TargetInfo& available(const Plugin& plugin, const TargetInfo& target) {
  if (!target.unavailable.empty())
    throw HarnessError{"target " + target.name + " of plugin '" + plugin.path + "' cannot run: " + target.unavailable};
  return target;
}

}  // namespace

Worker::Worker(const Plugin& plugin, const TargetInfo& target, std::int32_t threads, Options options) try
    : implementation_(
          std::make_unique<Implementation>(plugin, available(plugin, target), threads, std::move(options))) {
} catch (const std::system_error& error) {
  throw HarnessError{std::string("no memory for a worker: ") + error.what()};
}

Worker::~Worker() = default;
Worker::Worker(Worker&&) noexcept = default;
Worker& Worker::operator=(Worker&&) noexcept = default;

const std::vector<KernelInfo>& Worker::kernels() const { return implementation_->kernels; }
std::vector<Outcome> Worker::run(std::span<const Call> calls) { return implementation_->run(calls); }
std::int64_t Worker::restarts() const { return implementation_->restarts; }
std::string Worker::output() const {
  std::string text = implementation_->former_output;
  if (implementation_->process) text += implementation_->process->output();
  return text.substr(0, std::size_t{64} << 10U);
}

}  // namespace normgate::runner
