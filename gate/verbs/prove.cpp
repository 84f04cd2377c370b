// normgate prove: whether the truth that kernels are judged by agrees with itself, tier by tier.
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <memory>

#include "gate/engine/progress.hpp"
#include "gate/proof/prover.hpp"
#include "gate/verbs/options.hpp"

namespace normgate::verbs {
namespace {

struct ProveOptions {
  proof::ProofOptions proof;
  std::string problem;
  std::string use = "undeclared";
  std::string format = "float32";
};

void print_text(const proof::Proof& proof) {
  for (const proof::Finding& finding : proof.findings)
    fmt::print("problem {}: {}\n  normgate prove {}\n", finding.problem, finding.sentence, finding.trial);
  const std::int64_t all = proof.disagreements + proof.undecided;
  if (all > static_cast<std::int64_t>(proof.findings.size()))
    fmt::print("… and {} more\n", all - static_cast<std::int64_t>(proof.findings.size()));
  const tiers::TierCounts& counts = proof.counts;
  const std::int64_t elements = counts.special + counts.fast + counts.definition + counts.intervals + counts.exact;
  fmt::print("roundings decided by\n");
  const auto row = [&](const char* name, std::int64_t count) {
    fmt::print("  {:<12}{:>12}  {:8.4f} %\n", name, count,
               elements == 0 ? 0.0 : 100 * static_cast<double>(count) / static_cast<double>(elements));
  };
  row("fast", counts.fast);
  row("100 digits", counts.definition);
  row("intervals", counts.intervals);
  row("exact", counts.exact);
  row("special", counts.special);
  fmt::print("certificates compared with 100 digits  {}, of {} problems that the fast tier covers\n", proof.enclosed,
             proof.covered);
  fmt::print("answers of the exact tier compared     {}\n", proof.sides);
  if (std::isfinite(proof.tightest.ratio))
    fmt::print("worst tightness (certificate / true error): {:.2f} at {} of\n  normgate prove {}\n",
               proof.tightest.ratio, proof.tightest.where, proof.tightest.trial);
  fmt::print("{}: {} problems, {} built backwards from a boundary; {} between tiers, {}\n",
             all == 0 ? "AGREE" : "DISAGREE", proof.problems, proof.built,
             proof.disagreements == 0 ? "no disagreement" : fmt::format("{} disagreements", proof.disagreements),
             proof.undecided == 0 ? "no undecided rounding" : fmt::format("{} undecided roundings", proof.undecided));
}

int prove(const ProveOptions& options) {
  proof::Proof proof;
  if (!options.problem.empty()) {
    const ProblemOrError parsed = parse_problem(options.problem);
    if (!parsed.problem) return usage_error(parsed.error);
    if (std::string sentence = normgate::check(*parsed.problem); !sentence.empty()) return usage_error(sentence);
    proof::take_in(proof, 0,
                   {*parsed.problem, *proof::use_named(options.use), *proof::format_named(options.format), {}});
  } else {
    std::unique_ptr<Progress> progress = std::make_unique<NoProgress>();
    if (::isatty(STDERR_FILENO) != 0) progress = progress_on_stderr();
    proof = proof::prove(options.proof, [&](std::int64_t done) {
      progress->update({.done = done, .total = options.proof.problems, .cases = done, .failed_units = 0, .now = ""});
    });
    progress->finish();
  }
  print_text(proof);
  return proof.disagreements + proof.undecided == 0 ? exit_passed : exit_harness;
}

}  // namespace

void add_prove(CLI::App& command, int& exit_code) {
  auto options = std::make_shared<ProveOptions>();
  CLI::App* verb = command.add_subcommand("prove", "whether the tiers of the reference agree, on random problems");
  CLI::Option* problems = verb->add_option("--problems", options->proof.problems,
                                           "how many; a tenth is built backwards from a boundary of a format")
                              ->type_name("NUMBER")
                              ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40U));
  CLI::Option* from = verb->add_option("--from", options->proof.from, "the number of the first, from 0")
                          ->type_name("NUMBER")
                          ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40U));
  CLI::Option* seed =
      verb->add_option("--seed", options->proof.seed, "another seed is another set of problems")->type_name("NUMBER");
  options->proof.threads = default_jobs();
  verb->add_option("--jobs,-j", options->proof.threads, "threads that share the work")
      ->type_name("NUMBER")
      ->check(CLI::Range(1, 256));
  CLI::Option* problem = verb->add_option("--problem", options->problem, "this problem alone, as printed")
                             ->type_name("LINE")
                             ->excludes(problems)
                             ->excludes(from)
                             ->excludes(seed);
  std::vector<std::string> uses;
  for (int use = 0; use < 5; ++use) uses.emplace_back(proof::name_of(static_cast<SavedUse>(use)));
  verb->add_option("--use", options->use, "what a gradient makes of the statistics it is handed")
      ->type_name("USE")
      ->check(CLI::IsMember(uses))
      ->needs(problem);
  std::vector<std::string> formats;
  for (const tiers::Format format : proof::formats) formats.emplace_back(proof::name_of(format));
  verb->add_option("--format", options->format, "the format that outputs are rounded to")
      ->type_name("FORMAT")
      ->check(CLI::IsMember(formats))
      ->needs(problem);
  verb->callback([options, &exit_code] { exit_code = prove(*options); });
}

}  // namespace normgate::verbs
