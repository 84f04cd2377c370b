#include "gate/proof/prover.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "gate/proof/boundaries.hpp"
#include "gate/proof/problems.hpp"

namespace normgate::proof {
namespace {

void add(tiers::TierCounts& sum, const tiers::TierCounts& counts) {
  sum.special += counts.special;
  sum.fast += counts.fast;
  sum.definition += counts.definition;
  sum.intervals += counts.intervals;
  sum.exact += counts.exact;
}

bool tighter(const Tightest& a, const Tightest& b) {
  return a.ratio < b.ratio || (a.ratio == b.ratio && a.problem >= 0 && a.problem < b.problem);
}

void merge(Proof& sum, Proof&& part) {
  sum.problems += part.problems;
  sum.built += part.built;
  sum.covered += part.covered;
  add(sum.counts, part.counts);
  sum.enclosed += part.enclosed;
  sum.sides += part.sides;
  if (tighter(part.tightest, sum.tightest)) sum.tightest = std::move(part.tightest);
  sum.disagreements += part.disagreements;
  sum.undecided += part.undecided;
  for (Finding& finding : part.findings) sum.findings.push_back(std::move(finding));
}

}  // namespace

Trial trial_of(std::uint64_t seed, std::int64_t problem) {
  Draw draw(seed, static_cast<std::uint64_t>(problem) + 1);
  if (problem % 10 == 9) return draw_boundary(draw);
  Trial trial;
  trial.problem = draw_any_problem(draw);
  trial.use = draw_use(draw, trial.problem);
  trial.format = one_of(draw, formats);
  return trial;
}

void take_in(Proof& proof, std::int64_t problem, const Trial& trial) {
  const Agreement agreement = agreement_of(trial, make_inputs(trial.problem));
  ++proof.problems;
  proof.built += trial.known ? 1 : 0;
  proof.covered += agreement.covered ? 1 : 0;
  add(proof.counts, agreement.counts);
  proof.enclosed += agreement.enclosed;
  proof.sides += agreement.sides;
  if (agreement.tightness < proof.tightest.ratio)
    proof.tightest = {agreement.tightness, problem, agreement.tightest, print(trial)};
  proof.disagreements += static_cast<std::int64_t>(agreement.disagreements.size());
  proof.undecided += static_cast<std::int64_t>(agreement.undecided.size());
  for (const auto* sentences : {&agreement.disagreements, &agreement.undecided})
    for (const std::string& sentence : *sentences)
      if (proof.findings.size() < most_findings) proof.findings.push_back({problem, sentence, print(trial)});
}

Proof prove(const ProofOptions& options, const std::function<void(std::int64_t done)>& report) {
  std::atomic<std::int64_t> next{0};
  std::vector<Proof> parts(static_cast<std::size_t>(std::max(options.threads, 1)));
  std::mutex mutex;
  std::condition_variable ended;
  std::size_t running = parts.size();
  std::exception_ptr failure;
  const auto work = [&](Proof& part) {
    try {
      // Each thread meets its problems in ascending order, so that the first findings of all are among those it keeps.
      for (std::int64_t problem = 0; (problem = next.fetch_add(1)) < options.problems;)
        take_in(part, options.from + problem, trial_of(options.seed, options.from + problem));
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
      next = options.problems;
    }
    const std::lock_guard lock(mutex);
    --running;
    ended.notify_one();
  };
  std::vector<std::thread> threads;
  for (Proof& part : parts) threads.emplace_back(work, std::ref(part));
  {
    std::unique_lock lock(mutex);
    while (!ended.wait_for(lock, std::chrono::milliseconds(100), [&] { return running == 0; })) {
      lock.unlock();
      report(std::min(next.load(), options.problems));
      lock.lock();
    }
  }
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
  Proof proof;
  for (Proof& part : parts) merge(proof, std::move(part));
  std::stable_sort(proof.findings.begin(), proof.findings.end(),
                   [](const Finding& a, const Finding& b) { return a.problem < b.problem; });
  if (proof.findings.size() > most_findings) proof.findings.resize(most_findings);
  return proof;
}

}  // namespace normgate::proof
