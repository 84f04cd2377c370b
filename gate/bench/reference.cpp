// All ways of a row take turns, so that what the machine does meanwhile meets all of them; a ratio is of one run only.
#include "gate/bench/reference.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include "gate/bench/fifty_digits.hpp"
#include "reference/truth/backward.hpp"
#include "reference/truth/tiers/fast.hpp"
#include "reference/truth/tiers/rounded_floats.hpp"

namespace normgate::bench {
namespace {

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Something to be timed: run `count` times in a row, it gives the seconds of one.
struct Way {
  std::function<double(std::int64_t count)> seconds;
  std::int64_t count = 1;
  std::vector<double> measured;
};

Way way_of(std::function<void()> work) {
  return {[work = std::move(work)](std::int64_t count) {
            return seconds_of([&] {
                     for (std::int64_t i = 0; i < count; ++i) work();
                   }) /
                   static_cast<double>(count);
          },
          1,
          {}};
}

ReferenceRow measure(const ReferenceOptions& options, Variant variant, Phase phase, std::int64_t n) {
  const Problem problem = problem_of(variant, phase, n, options.elements);
  const Inputs inputs = make_inputs(problem);
  const bool backward = is_backward(phase);
  ReferenceRow row;
  row.variant = variant;
  row.phase = phase;
  row.n = n;

  tiers::RoundedFloats rounded;
  FiftyDigitsDefinition cpp_bin_float(FiftyDigits::cpp_bin_float, problem, inputs);
  FiftyDigitsDefinition mpfr(FiftyDigits::mpfr, problem, inputs);
  Way certified = way_of([&] { tiers::correctly_rounded_floats(problem, inputs, SavedUse::undeclared, rounded); });
  Way stored = way_of([&] {
    const Truth truth =
        backward ? backward_truth(problem, inputs, SavedUse::undeclared) : forward_truth(problem, inputs);
    // The result leaves: nothing of it may be left out.
    asm volatile("" : : "r"(truth.out[in_place_output(phase)].data()) : "memory");
  });
  Way slow = way_of([&] { cpp_bin_float.run(); });
  Way slower = way_of([&] { mpfr.run(); });
  std::vector<Way*> ways{&certified, &stored, &slow, &slower};

  std::optional<runner::Worker> worker;
  runner::Call call;
  std::string refusal;
  Way kernel;
  if (options.kernel_of) {
    if (const std::optional<TimedKernel> timed = options.kernel_of(problem)) {
      worker.emplace(*timed->plugin, *timed->target, 1, options.runner);
      call.kernel = timed->index;
      call.problem = problem;
      call.inputs = inputs;
      row.kernel = timed->plugin->kernels[static_cast<std::size_t>(timed->index)].name;
      kernel.seconds = [&](std::int64_t count) {
        call.timed_runs = count;
        const runner::Outcome outcome = worker->run({&call, 1}).at(0);
        if (outcome.status == runner::Status::ok) return outcome.nanoseconds * 1e-9;
        refusal = outcome.text.empty() ? "it did not run" : outcome.text;
        return std::nan("");
      };
      ways.push_back(&kernel);
    }
  }

  // The first round warms up, and tells how often each way fits into its time.
  for (Way* way : ways) {
    const double once = way->seconds(1);
    way->count = once > 0 ? std::clamp(static_cast<std::int64_t>(options.seconds / once) + 1, std::int64_t{1},
                                       std::int64_t{10000})
                          : 1;
  }
  if (!refusal.empty()) {
    row.kernel += ": " + refusal;
    ways.pop_back();
  }
  for (int repetition = 0; repetition < options.repetitions; ++repetition)
    for (Way* way : ways) way->measured.push_back(way->seconds(way->count));

  const auto per_element = [&](const Way& way) {
    return median(way.measured) * 1e9 / static_cast<double>(element_count(problem.shape));
  };
  row.certified_ns = per_element(certified);
  row.certified_stored_ns = per_element(stored);
  row.cpp_bin_float_50_ns = per_element(slow);
  row.mpfr_50_ns = per_element(slower);
  if (ways.back() == &kernel) row.kernel_ns = per_element(kernel);
  row.counts = rounded.counts;
  row.precise_test = rounded.precise_test;
  return row;
}

template <typename T, typename All>
std::vector<T> chosen(const std::vector<T>& of_options, const All& all) {
  return of_options.empty() ? std::vector<T>(std::begin(all), std::end(all)) : of_options;
}

}  // namespace

Problem problem_of(Variant variant, Phase phase, std::int64_t n, std::int64_t elements) {
  Problem problem;
  problem.variant = variant;
  problem.phase = phase;
  const std::int64_t groups = std::max<std::int64_t>(elements / n, 1);
  const std::int64_t planes = n % 8 == 0 ? 8 : 1;
  const std::int64_t few = std::min<std::int64_t>(groups, 4);
  switch (variant) {
    case Variant::layer_norm:
    case Variant::rms_norm:
      problem.shape = {groups, 1, n, 1};
      break;
    case Variant::batch_norm:  // eight samples of a plane
      problem.shape = {planes, 1, groups, n / planes};
      break;
    case Variant::group_norm:  // eight channels of a plane
      problem.shape = {groups / few, few, planes, n / planes};
      break;
    case Variant::instance_norm:
      problem.shape = {groups / few, 1, few, n};
      break;
  }
  problem.beta = variant != Variant::rms_norm;
  if (!is_training(phase)) problem.given = variant == Variant::batch_norm ? Given::running : Given::saved;
  problem.key = 1;
  return problem;
}

void measure_reference(const ReferenceOptions& options, const std::function<void(const ReferenceRow&)>& tell) {
  std::vector<Variant> all;
  for (const VariantRow& row : variant_table()) all.push_back(row.variant);
  for (const Variant variant : chosen(options.variants, all))
    for (const Phase phase : chosen(options.phases, normalizing_phases))
      for (const std::int64_t n : chosen(options.lengths, benchmark_lengths)) tell(measure(options, variant, phase, n));
}

}  // namespace normgate::bench
