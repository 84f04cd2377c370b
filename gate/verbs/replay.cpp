// normgate replay: one problem line again, with the concrete values of a small problem.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "gate/engine/names.hpp"
#include "gate/engine/shrinking.hpp"
#include "gate/verbs/options.hpp"
#include "reference/problem/data.hpp"
#include "reference/truth/backward.hpp"
#include "reference/truth/forward.hpp"
#include "reports/files.hpp"
#include "reports/formats/list.hpp"
#include "reports/formats/text.hpp"

namespace normgate::verbs {
namespace {

constexpr std::int64_t elements_to_print = 64;

struct ReplayOptions {
  CommonOptions common;
  std::string line;
  std::string dump;
  std::int64_t repeat = 1;
};

std::string whole_number_up_to_a_million(const std::string& text) {
  std::int64_t value = 0;
  if (CLI::detail::lexical_cast(text, value) && value >= 1 && value <= 1000000) return {};
  return fmt::format("'{}' is not a whole number from 1 to 1000000", text);
}

template <typename Values, typename Text>
std::string joined(const Values& values, Text text) {
  std::string result;
  for (const auto& value : values) {
    if (!result.empty()) result += ' ';
    result += text(value);
  }
  return result;
}

// The selected kernels that have the line's variant, phase and convention.
std::vector<const runner::KernelInfo*> kernels_of(const Gate& gate, const RunOptions& options, const Problem& problem) {
  const auto has = [](const auto& list, const auto& value) {
    return std::find(list.begin(), list.end(), value) != list.end();
  };
  std::vector<const runner::KernelInfo*> result;
  for (const auto& plugin : gate.plugins)
    for (const runner::KernelInfo& kernel : plugin->kernels)
      if (selected(options.kernels, kernel.name) && kernel.variant.value_or(Variant::layer_norm) == problem.variant &&
          has(kernel.phases, problem.phase) && has(kernel.conventions, problem.convention))
        result.push_back(&kernel);
  return result;
}

// Why no kernel takes the line.
std::string not_taken(const Gate& gate, const RunOptions& options, const Problem& problem) {
  const std::string start = "no selected kernel takes this line: ";
  for (const runner::KernelInfo* kernel : kernels_of(gate, options, problem))
    if (const std::string reason = tensors_amiss(*kernel, problem); !reason.empty())
      return fmt::format("{}{} {}", start, kernel->name, reason);
  return fmt::format("{}it needs variant {}, phase {}, convention {} and a property that applies", start,
                     row_of(problem.variant).name, name_of(problem.phase), print(problem.convention));
}

// Which function of handed statistics the kernels that take a line compute: what they declare, the derivative of the
// forward if they declare nothing or disagree.
SavedUse use_of_kernels(const Gate& gate, const RunOptions& options, const Problem& problem) {
  if (problem.from_output) return SavedUse::from_output;
  std::optional<SavedUse> use;
  for (const runner::KernelInfo* kernel : kernels_of(gate, options, problem)) {
    if (!tensors_amiss(*kernel, problem).empty()) continue;
    const SavedUse declared = kernel->claim.saved_use;
    if (declared == SavedUse::undeclared || use.value_or(declared) != declared) return SavedUse::recomputes;
    use = declared;
  }
  return use.value_or(SavedUse::recomputes);
}

// Where several functions have one name: which of them is wanted.
std::string_view meaning_of(SavedUse use) {
  switch (use) {
    case SavedUse::short_form:
      return "what NG_USE_SHORT makes of the handed statistics";
    case SavedUse::textbook:
      return "what NG_USE_TEXTBOOK makes of the handed statistics";
    case SavedUse::from_output:
      return "what NG_USE_FROM_OUTPUT makes of y and the handed statistics";
    case SavedUse::recomputes:
    case SavedUse::undeclared:
      break;
  }
  return "the derivative of the forward, whatever is handed";
}

// The tensors that the kernel reads, and what the definition gives for those it writes; dense, N G K S.
std::string values_of(const Problem& problem, SavedUse use, bool exact) {
  const Inputs inputs = make_inputs(problem);
  const Truth truth =
      is_backward(problem.phase) ? backward_truth(problem, inputs, use) : forward_truth(problem, inputs);
  std::string text;
  const auto in = [&](Role role) {
    if (inputs[role].empty()) return;
    text += fmt::format("in   {} {}\n", name_of(role), joined(inputs[role], [&](float value) {
                          const auto number = static_cast<double>(value);
                          return exact ? hexfloat(number) : shortest(number);
                        }));
  };
  const auto want = [&](Role role) {
    if (truth.out[role].empty()) return;
    text += fmt::format("want {} {}\n", name_of(role), joined(truth.out[role], [&](const Exact& value) {
                          return exact ? hexfloat(value.hi) : fmt::format("{:.9g}", value.hi);
                        }));
  };
  for (std::size_t role = 0; role < role_count; ++role) in(static_cast<Role>(role));
  for (std::size_t role = 0; role < role_count; ++role) want(static_cast<Role>(role));
  if (problem.phase == Phase::backward_training && problem.saved)
    text += fmt::format("note the wanted gradients are {}\n", meaning_of(use));
  return text;
}

int replay_line(ReplayOptions& options) {
  CommonOptions& common = options.common;
  if (auto sentence = complete(common)) return usage_error(*sentence);
  const ProblemOrError parsed = parse_problem(options.line);
  if (!parsed.problem) return usage_error(parsed.error);
  if (std::string sentence = check(*parsed.problem); !sentence.empty()) return usage_error(sentence);
  if (!options.dump.empty())
    if (auto sentence = check_writable(options.dump)) return usage_error(*sentence);

  const Gate gate = open_gate(common.run);
  if (std::string sentence = wrong_names(gate, common.run); !sentence.empty()) return usage_error(sentence);
  const SavedUse use = use_of_kernels(gate, common.run, *parsed.problem);
  if (!options.dump.empty()) {
    const std::string text = fmt::format("{}\n{}", print(*parsed.problem), values_of(*parsed.problem, use, true));
    if (const auto error = write_file(options.dump, text)) {
      fmt::print(stderr, "normgate: {}\n", *error);
      return exit_harness;
    }
  }
  const Record record = replay(gate, common.run, *parsed.problem, options.repeat);
  if (record.units.empty() && record.harness_errors.empty()) {
    return usage_error(not_taken(gate, common.run, *parsed.problem));
  }
  if (!common.quiet && element_count(parsed.problem->shape) <= elements_to_print)
    fmt::print("{}\n", values_of(*parsed.problem, use, false));
  fmt::print("{}", write_text(record, {.colour = colour_on_stdout(), .quiet = true}));
  return summarize(record).exit_code;
}

}  // namespace

void add_replay(CLI::App& command, int& exit_code) {
  auto options = std::make_shared<ReplayOptions>();
  CLI::App* verb = command.add_subcommand("replay", "run one problem line again");
  verb->add_option("line", options->line, "the line, in quotes")->required()->type_name("LINE");
  add_selection(*verb, options->common);
  add_runner_options(*verb, options->common);
  verb->add_flag("-q,--quiet", options->common.quiet, "without the values of small problems");
  verb->add_option("--repeat", options->repeat, "try the line so many times, or until it fails")
      ->type_name("NUMBER")
      ->check(whole_number_up_to_a_million);
  verb->add_option("--dump", options->dump, "write inputs and true outputs, as hexfloats")->type_name("FILE");
  verb->callback([options, &exit_code] { exit_code = replay_line(*options); });
}

}  // namespace normgate::verbs
