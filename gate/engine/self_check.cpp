// Runs the museum as an ordinary plugin, and reads from the records who rejected what.
#include "gate/engine/self_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <thread>

#include "gate/engine/names.hpp"

namespace normgate {
namespace {

bool rejects(Verdict verdict) {
  return verdict == Verdict::failed || verdict == Verdict::crashed || verdict == Verdict::timed_out;
}

PieceResult judge_piece(const MuseumPiece& piece, const Record& record) {
  PieceResult result;
  result.name = std::string(piece.name);
  result.property = std::string(piece.property);
  result.expected_diagnosis = std::string(piece.diagnosis);
  const Unit* shown = nullptr;
  for (const Unit& unit : record.units) {
    if (unit.property != piece.property) continue;
    const bool rejected = rejects(unit.verdict);
    // Units are tried in their order: those before the first that fails have been tried to their end.
    if (!result.rejected) result.cases += rejected && unit.finding_index >= 0 ? unit.finding_index + 1 : unit.cases;
    result.rejected = result.rejected || rejected;
    if (!rejected || !unit.finding) continue;
    // Of several units (phases, conventions, targets) the one that says most.
    if (shown == nullptr || (shown->finding->diagnosis.empty() && !unit.finding->diagnosis.empty())) shown = &unit;
  }
  if (shown != nullptr) {
    result.diagnosis = shown->finding->diagnosis;
    result.problem = shown->finding->problem;
  }
  if (result.rejected) result.caught_by.push_back(result.property);
  result.seconds = record.seconds;
  return result;
}

void tell_who_else(PieceResult& piece, const Record& record) {
  for (const Unit& unit : record.units) {
    if (!rejects(unit.verdict)) continue;
    if (std::find(piece.caught_by.begin(), piece.caught_by.end(), unit.property) == piece.caught_by.end())
      piece.caught_by.push_back(unit.property);
    if (piece.diagnosis.empty() && unit.finding) {
      piece.diagnosis = unit.finding->diagnosis;
      piece.problem = unit.finding->problem;
    }
  }
}

// Tries wrong kernels one after the other, several at a time.
class Hunt {
 public:
  Hunt(const Gate& gate, const RunOptions& options, std::span<const MuseumPiece> pieces, Progress& progress)
      : gate_(gate), options_(options), pieces_(pieces), progress_(progress) {
    state_.total = static_cast<std::int64_t>(pieces.size());
  }

  std::vector<PieceResult> run(SelfCheck& check) {
    std::vector<PieceResult> results(pieces_.size());
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
      for (std::size_t i = 0; (i = next++) < pieces_.size();) results[i] = try_piece(pieces_[i]);
    };
    const auto helpers = static_cast<std::size_t>(std::max(options_.jobs, 1)) - 1;
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < std::min(helpers, pieces_.size()); ++i) threads.emplace_back(work);
    work();
    for (std::thread& thread : threads) thread.join();
    progress_.finish();
    check.harness_errors.insert(check.harness_errors.end(), errors_.begin(), errors_.end());
    return results;
  }

 private:
  PieceResult try_piece(const MuseumPiece& piece) {
    RunOptions options = options_;
    options.kernels = {std::string(piece.name)};
    options.properties = {std::string(piece.property)};
    options.jobs = 1;
    options.shrink = false;
    options.first_failure_only = true;
    options.explain = [](const Unit&) { return true; };
    NoProgress no_progress;
    Record record = normgate::run(gate_, options, no_progress);
    tell(piece, record);
    PieceResult result = judge_piece(piece, record);
    const bool known = std::any_of(options.all_properties.begin(), options.all_properties.end(),
                                   [&](const Property* property) { return property->name == piece.property; });
    if (!result.rejected && known) {
      options.properties.clear();
      record = normgate::run(gate_, options, no_progress);
      tell_who_else(result, record);
    }
    const std::lock_guard lock(mutex_);
    ++state_.done;
    state_.cases += result.cases;
    state_.failed_units += result.rejected ? 1 : 0;
    state_.now = result.name;
    progress_.update(state_);
    return result;
  }
  void tell(const MuseumPiece& piece, const Record& record) {
    const std::lock_guard lock(mutex_);
    for (const std::string& error : record.harness_errors) errors_.push_back(fmt::format("{}: {}", piece.name, error));
  }

  const Gate& gate_;
  const RunOptions& options_;
  std::span<const MuseumPiece> pieces_;
  Progress& progress_;
  std::mutex mutex_;
  ProgressState state_;
  std::vector<std::string> errors_;
};

SoundResult judge_sound(const MuseumPiece& piece, const Record& record) {
  SoundResult result{std::string(piece.name), false, "nothing was tested"};
  bool any_passed = false;
  for (const Unit& unit : record.units) {
    if (unit.kernel != piece.name) continue;
    any_passed = any_passed || unit.verdict == Verdict::passed;
    if (rejects(unit.verdict) || unit.verdict == Verdict::mistrusted) {
      result.complaint = fmt::format("{} {} in {}{}", unit.property, name_of(unit.verdict), unit.phase,
                                     unit.finding ? ": " + unit.finding->problem : ": " + unit.reason);
      return result;
    }
  }
  result.passed = any_passed;
  if (any_passed) result.complaint.clear();
  return result;
}

}  // namespace

SelfCheckTotals SelfCheck::totals() const {
  SelfCheckTotals totals;
  totals.pieces = static_cast<std::int64_t>(pieces.size());
  std::vector<double> seconds;
  std::vector<std::int64_t> cases;
  for (const PieceResult& piece : pieces) {
    totals.caught += piece.rejected ? 1 : 0;
    totals.expected += piece.expected_diagnosis.empty() ? 0 : 1;
    totals.diagnosed += !piece.expected_diagnosis.empty() && piece.diagnosed() ? 1 : 0;
    seconds.push_back(piece.seconds);
    cases.push_back(piece.cases);
    totals.largest_cases = std::max(totals.largest_cases, piece.cases);
    if (piece.seconds <= totals.largest_seconds) continue;
    totals.largest_seconds = piece.seconds;
    totals.slowest = piece.name;
  }
  // Of an even number the upper one.
  const auto middle = static_cast<std::ptrdiff_t>(pieces.size() / 2);
  if (!pieces.empty()) {
    std::nth_element(seconds.begin(), seconds.begin() + middle, seconds.end());
    std::nth_element(cases.begin(), cases.begin() + middle, cases.end());
    totals.median_seconds = seconds[pieces.size() / 2];
    totals.median_cases = cases[pieces.size() / 2];
  }
  return totals;
}

bool SelfCheck::honest() const {
  const bool enough = whole ? !pieces.empty() && !sound.empty() : !pieces.empty() || !sound.empty();
  return enough && properties_without_piece.empty() && unknown_properties.empty() && harness_errors.empty() &&
         (!whole || totals().diagnosed_enough()) &&
         std::all_of(pieces.begin(), pieces.end(), [](const PieceResult& piece) { return piece.rejected; }) &&
         std::all_of(sound.begin(), sound.end(), [](const SoundResult& one) { return one.passed; }) &&
         std::all_of(loading.begin(), loading.end(), [](const LoadingResult& one) { return one.rejected; });
}

SelfCheck self_check(const RunOptions& options, std::span<const MuseumPiece> museum,
                     std::span<const std::string> loading, Progress& progress) {
  const auto start = std::chrono::steady_clock::now();
  RunOptions museum_options = options;
  // Some pieces hang or crash on purpose, and nothing is learned from waiting long or from the second time.
  museum_options.runner.cpu_seconds = 0.25;
  museum_options.runner.wall_seconds = 10;
  museum_options.grave_cases_per_unit = 1;
  museum_options.hangs_per_kernel = 1 << 20;

  SelfCheck result;
  result.whole = options.kernels.empty();
  for (const Property* property : options.all_properties) {
    const bool has_piece = std::any_of(museum.begin(), museum.end(),
                                       [&](const MuseumPiece& piece) { return piece.property == property->name; });
    if (!has_piece) result.properties_without_piece.emplace_back(property->name);
  }
  for (const MuseumPiece& piece : museum) {
    const bool known = std::any_of(options.all_properties.begin(), options.all_properties.end(),
                                   [&](const Property* property) { return property->name == piece.property; });
    auto& unknown = result.unknown_properties;
    if (!known && !piece.property.empty() && std::find(unknown.begin(), unknown.end(), piece.property) == unknown.end())
      unknown.emplace_back(piece.property);
  }

  const Gate gate = open_gate(museum_options);
  if (gate.plugins.empty()) {
    result.harness_errors = gate.harness_errors;
    return result;
  }
  std::vector<MuseumPiece> broken;
  std::vector<MuseumPiece> sound;
  for (const MuseumPiece& piece : museum)
    if (selected(options.kernels, piece.name)) (piece.property.empty() ? sound : broken).push_back(piece);
  result.pieces = Hunt(gate, museum_options, broken, progress).run(result);

  if (!sound.empty()) {
    RunOptions sound_options = museum_options;
    sound_options.shrink = false;
    sound_options.kernels.clear();
    for (const MuseumPiece& piece : sound) sound_options.kernels.emplace_back(piece.name);
    const Record record = run(gate, sound_options, progress);
    result.harness_errors.insert(result.harness_errors.end(), record.harness_errors.begin(),
                                 record.harness_errors.end());
    for (const MuseumPiece& piece : sound) result.sound.push_back(judge_sound(piece, record));
  }
  for (const std::string& path : loading) {
    LoadingResult one;
    one.name = std::filesystem::path(path).stem().string();
    const auto probed = runner::probe(path, museum_options.runner);
    if (const auto* error = std::get_if<runner::HarnessError>(&probed)) {
      one.rejected = !error->sentence.empty();
      one.sentence = error->sentence;
    }
    result.loading.push_back(std::move(one));
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace normgate
