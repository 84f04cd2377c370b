// normgate replay: one problem line again, with the concrete values of a small problem.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "gate/verbs/options.hpp"
#include "reference/problem/data.hpp"
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

// The tensors that the kernel reads, and what the definition gives for those it writes; dense, N G K S.
std::string values_of(const Problem& problem, bool exact) {
  const Inputs inputs = make_inputs(problem);
  const Truth truth = forward_truth(problem, inputs);
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
  if (!options.dump.empty()) {
    const std::string text = fmt::format("{}\n{}", print(*parsed.problem), values_of(*parsed.problem, true));
    if (const auto error = write_file(options.dump, text)) {
      fmt::print(stderr, "normgate: {}\n", *error);
      return exit_harness;
    }
  }
  const Record record = replay(gate, common.run, *parsed.problem, options.repeat);
  if (record.units.empty() && record.harness_errors.empty()) {
    return usage_error(fmt::format(
        "no selected kernel takes this line: it needs variant {}, phase {}, convention {} and a property that applies",
        row_of(parsed.problem->variant).name, name_of(parsed.problem->phase), print(parsed.problem->convention)));
  }
  if (!common.quiet && element_count(parsed.problem->shape) <= elements_to_print)
    fmt::print("{}\n", values_of(*parsed.problem, false));
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
