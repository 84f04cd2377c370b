// normgate doctor: whether this machine and this installation can run the gate, a line for each thing it needs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cfenv>
#include <filesystem>
#include <limits>
#include <memory>

#include "gate/verbs/options.hpp"
#include "properties/generators/plan.hpp"

namespace normgate::verbs {
namespace {

class Examination {
 public:
  void tell(bool fine, std::string_view what, const std::string& found, std::string_view advice = {}) {
    fmt::print("{:<4} {:<12} {}{}{}\n", fine ? "ok" : "not", what, found, fine || advice.empty() ? "" : "; ",
               fine ? "" : advice);
    healthy_ = healthy_ && fine;
  }
  [[nodiscard]] bool healthy() const { return healthy_; }

 private:
  bool healthy_ = true;
};

// One small call of a kernel, in the first phase that it has and within what it claims.
runner::Call small_call(const runner::KernelInfo& kernel) {
  const VariantRow& row = row_of(*kernel.variant);
  runner::Call call;
  call.kernel = kernel.index;
  call.problem.shape = row.reduced.has(Axis::s) ? Shape{2, 1, 1, 7} : Shape{2, 1, 7, 1};
  call.problem.saved = call.problem.running = true;
  call.problem = inside_claim(call.problem, Subject{row, kernel.phases.front(), kernel, kernel.conventions.front()});
  call.inputs = make_inputs(call.problem);
  return call;
}

// One call of the kernel with this name; without a name of the first layer norm that the plugin has, or of its first
// kernel with a reference.
std::optional<runner::Outcome> one_call(Station& station, std::string_view kernel_name) {
  const runner::KernelInfo* chosen = nullptr;
  for (const runner::KernelInfo& kernel : station.kernels()) {
    if (!kernel.variant || (!kernel_name.empty() && kernel.name != kernel_name)) continue;
    const bool better =
        kernel.variant == Variant::layer_norm && chosen != nullptr && chosen->variant != Variant::layer_norm;
    if (chosen == nullptr || better) chosen = &kernel;
  }
  if (chosen == nullptr) return std::nullopt;
  const runner::Call call = small_call(*chosen);
  return station.run(std::span(&call, 1)).front();
}

// Starts a worker and makes one call in it.
void examine_worker(Examination& examination, const runner::Plugin& plugin, const runner::Options& options) {
  for (const runner::TargetInfo& target : plugin.targets) {
    const std::string what = "worker";
    const std::string where = fmt::format("{} on {}", plugin.name, target.name);
    if (!target.unavailable.empty()) {
      examination.tell(true, what, fmt::format("{}: {}", where, target.unavailable));
      continue;
    }
    try {
      Station station(plugin, target, options);
      const auto outcome = one_call(station, "");
      const bool fine = !outcome || outcome->status == runner::Status::ok;
      examination.tell(fine, what, fine ? where : fmt::format("{}: {}", where, outcome->text),
                       "run `normgate check --target` on it for the whole story");
    } catch (const runner::HarnessError& error) {
      examination.tell(false, what, error.sentence, "is normgate-worker beside normgate, and may it be executed?");
    }
  }
}

// A kernel that writes past the end must be seen doing so.
void examine_fences(Examination& examination, const runner::Options& options) {
  const std::string path = (std::filesystem::path(plugin_folder()) / "normgate_broken.so").string();
  const auto probed = runner::probe(path, options);
  const auto* plugin = std::get_if<runner::Plugin>(&probed);
  if (plugin == nullptr) {
    examination.tell(false, "fences", "the plugin of broken kernels cannot be opened",
                     "build the target normgate_broken");
    return;
  }
  try {
    Station station(*plugin, plugin->targets.front(), options);
    const auto outcome = one_call(station, "broken/write_past_the_end");
    const bool seen = outcome && !outcome->findings.empty();
    examination.tell(seen, "fences", seen ? outcome->findings.front().sentence : "a write past the end went unseen",
                     "memfd_create and mprotect must be allowed in this container");
  } catch (const runner::HarnessError& error) {
    examination.tell(false, "fences", error.sentence, "see worker");
  }
}

int doctor(CommonOptions& common) {
  Examination examination;
  examination.tell(true, "version", version());
  examination.tell(true, "cpu", fmt::format("{}, {} jobs by default", cpu_name(), default_jobs()));
  examination.tell(std::fegetround() == FE_TONEAREST, "rounding", "to nearest",
                   "something set another rounding mode in this process");
  volatile double tiny = std::numeric_limits<double>::min();
  examination.tell(tiny / 2 != 0, "subnormals", "kept", "this process was started or built with flush-to-zero");
  const std::vector<std::string> built_in = built_in_plugins();
  examination.tell(built_in.size() == 2, "plugins",
                   built_in.empty() ? "none in " + plugin_folder() : fmt::format("{}", fmt::join(built_in, " ")),
                   "build the targets normgate_plain and normgate_simd");
  if (common.run.plugins.empty()) common.run.plugins = built_in;
  const Gate gate = open_gate(common.run);
  for (const std::string& error : gate.harness_errors) examination.tell(false, "plugin", error, "see its manifest");
  for (const auto& plugin : gate.plugins) examine_worker(examination, *plugin, common.run.runner);
  examine_fences(examination, common.run.runner);
  return examination.healthy() ? exit_passed : exit_harness;
}

}  // namespace

void add_doctor(CLI::App& command, int& exit_code) {
  auto options = std::make_shared<CommonOptions>();
  CLI::App* verb = command.add_subcommand("doctor", "whether this machine can run the gate");
  verb->add_option("--plugin", options->run.plugins, "a plugin to examine (repeatable); default: the built-in ones")
      ->type_name("FILE")
      ->allow_extra_args(false);
  add_runner_options(*verb, *options);
  verb->callback([options, &exit_code] { exit_code = doctor(*options); });
}

}  // namespace normgate::verbs
