// normgate bench: what things cost on this machine. To add a benchmark: a subcommand.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "gate/bench/reference.hpp"
#include "gate/engine/names.hpp"
#include "gate/verbs/options.hpp"
#include "reports/files.hpp"

namespace normgate::verbs {
namespace {

struct BenchOptions {
  CommonOptions common;
  std::vector<std::string> variants;
  std::vector<std::string> phases;
  std::vector<std::int64_t> lengths;
  bool quick = false;
  std::string json;
};

// The first selected kernel of the problem's variant and phase, on the plugin's first available target: targets are
// listed from the widest one down.
std::optional<bench::TimedKernel> kernel_of(const Gate& gate, const RunOptions& run, const Problem& problem) {
  for (const auto& plugin : gate.plugins) {
    const auto target = std::find_if(plugin->targets.begin(), plugin->targets.end(), [&](const auto& candidate) {
      return candidate.unavailable.empty() && selected(run.targets, candidate.name);
    });
    if (target == plugin->targets.end()) continue;
    for (const runner::KernelInfo& kernel : plugin->kernels)
      if (kernel.variant == problem.variant && selected(run.kernels, kernel.name) &&
          std::find(kernel.phases.begin(), kernel.phases.end(), problem.phase) != kernel.phases.end())
        return bench::TimedKernel{plugin.get(), &*target, kernel.index};
  }
  return std::nullopt;
}

// "100 %", "99.9992 %", "0.00076 %": never rounded up to all.
std::string share(std::int64_t part, std::int64_t whole) {
  if (part == 0 || part == whole) return part == 0 ? "0" : "100 %";
  const double percent = 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  return percent > 1 ? fmt::format("{:.4f} %", std::min(percent, 99.9999)) : fmt::format("{:.2g} %", percent);
}

void print_header() {
  fmt::print(
      "Nanoseconds per element, one thread, {}. certified: every output as a float32, correctly rounded and decided;\n"
      "stored: as a pair of doubles with its bound, in memory. The ratios are those of certified.\n\n"
      "{:<19} {:<13} {:>6} {:>9} {:>7}  {:>14} {:>6}  {:>8} {:>6}  {:>7}  decided by certificate, precise test, "
      "intervals, exactly\n",
      cpu_name(), "phase", "variant", "n", "certified", "stored", "cpp_bin_float", "ratio", "mpfr", "ratio", "kernel");
}

void print_row(const bench::ReferenceRow& row) {
  const tiers::TierCounts& counts = row.counts;
  const std::int64_t all = counts.special + counts.fast + counts.definition + counts.intervals + counts.exact;
  fmt::print("{:<19} {:<13} {:>6} {:>9.2f} {:>7.2f}  {:>14.1f} {:>6.1f}  {:>8.1f} {:>6.1f}  {:>7}  {}, {}, {}, {}{}\n",
             name_of(row.phase), row_of(row.variant).name, row.n, row.certified_ns, row.certified_stored_ns,
             row.cpp_bin_float_50_ns, row.cpp_bin_float_50_ns / row.certified_ns, row.mpfr_50_ns,
             row.mpfr_50_ns / row.certified_ns, row.kernel_ns ? fmt::format("{:.2f}", *row.kernel_ns) : "-",
             share(counts.fast - row.precise_test, all), share(row.precise_test, all), share(counts.intervals, all),
             share(counts.exact, all),
             counts.definition == 0 ? "" : fmt::format("; {} by 100 digits", share(counts.definition, all)));
  std::fflush(stdout);
}

nlohmann::ordered_json json_of(const bench::ReferenceRow& row) {
  nlohmann::ordered_json json;
  json["variant"] = row_of(row.variant).name;
  json["phase"] = name_of(row.phase);
  json["n"] = row.n;
  json["certified_ns"] = row.certified_ns;
  json["certified_stored_ns"] = row.certified_stored_ns;
  json["cpp_bin_float_50_ns"] = row.cpp_bin_float_50_ns;
  json["mpfr_50_ns"] = row.mpfr_50_ns;
  json["kernel_ns"] = row.kernel_ns ? nlohmann::ordered_json(*row.kernel_ns) : nlohmann::ordered_json();
  json["kernel"] = row.kernel;
  json["decided"] = {{"certificate", row.counts.fast - row.precise_test},
                     {"precise_test", row.precise_test},
                     {"definition", row.counts.definition},
                     {"intervals", row.counts.intervals},
                     {"exact", row.counts.exact},
                     {"special", row.counts.special}};
  return json;
}

int bench_reference(BenchOptions& options) {
  RunOptions& run = options.common.run;
  if (auto sentence = complete(options.common)) return usage_error(*sentence);
  if (run.kernels.empty()) {
    run.kernels = {"simd/*"};
    if (run.plugins != run.built_in_plugins) run.kernels = {"*"};
  }
  if (!options.json.empty())
    if (auto sentence = check_writable(options.json)) return usage_error(*sentence);
  const Gate gate = open_gate(run);
  for (const std::string& error : gate.harness_errors) fmt::print(stderr, "normgate: {}\n", error);
  if (!gate.harness_errors.empty()) return exit_harness;
  if (std::string sentence = wrong_names(gate, run); !sentence.empty()) return usage_error(sentence);

  bench::ReferenceOptions reference;
  for (const std::string& name : options.variants) reference.variants.push_back(*variant_named(name));
  for (const std::string& name : options.phases) reference.phases.push_back(*phase_named(name));
  reference.lengths = options.lengths;
  if (options.quick) {
    reference.elements = std::int64_t{1} << 14;
    reference.seconds = 0.001;
  }
  reference.kernel_of = [&](const Problem& problem) { return kernel_of(gate, run, problem); };
  reference.runner = run.runner;

  nlohmann::ordered_json json;
  json["version"] = version();
  json["cpu"] = cpu_name();
  json["rows"] = nlohmann::ordered_json::array();
  print_header();
  bench::measure_reference(reference, [&](const bench::ReferenceRow& row) {
    print_row(row);
    json["rows"].push_back(json_of(row));
  });
  if (options.json.empty()) return exit_passed;
  if (const auto error = write_file(options.json, json.dump(2) + "\n")) {
    fmt::print(stderr, "normgate: {}\n", *error);
    return exit_harness;
  }
  return exit_passed;
}

template <typename Names>
CLI::Option* names_option(CLI::App& verb, const char* name, std::vector<std::string>& chosen, const Names& names,
                          const char* help) {
  return verb.add_option(name, chosen, help)->type_name("NAME")->check(CLI::IsMember(names))->allow_extra_args(false);
}

}  // namespace

void add_bench(CLI::App& command, int& exit_code) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* verb = command.add_subcommand("bench", "what things cost on this machine");
  verb->require_subcommand(1);
  CLI::App* reference = verb->add_subcommand(
      "reference", "correctly rounded outputs beside the definition with types of 50 digits, and a kernel");
  std::vector<std::string> variants;
  for (const VariantRow& row : variant_table()) variants.emplace_back(row.name);
  std::vector<std::string> phases;
  for (const Phase phase : normalizing_phases) phases.emplace_back(name_of(phase));
  names_option(*reference, "--variant", options->variants, variants, "only these variants (repeatable)");
  names_option(*reference, "--phase", options->phases, phases, "only these phases (repeatable)");
  reference->add_option("--length", options->lengths, "elements of a group (repeatable); default: 64 768 4096 65536")
      ->type_name("NUMBER")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24))
      ->allow_extra_args(false);
  reference->add_flag("--quick", options->quick, "small problems and short measurements: for a look, not for a record");
  reference->add_option("--json", options->json, "the rows as JSON")->type_name("FILE");
  RunOptions& run = options->common.run;
  reference->add_option("--plugin", run.plugins, "a plugin to load (repeatable); default: the built-in ones")
      ->type_name("FILE")
      ->allow_extra_args(false);
  reference->add_option("--kernel", run.kernels, "the kernel beside it: the first of these with the variant and phase")
      ->type_name("NAME")
      ->allow_extra_args(false);
  reference->add_option("--target", run.targets, "the kernel's target")->type_name("NAME")->allow_extra_args(false);
  add_runner_options(*reference, options->common);
  reference->callback([options, &exit_code] { exit_code = bench_reference(*options); });
}

}  // namespace normgate::verbs
