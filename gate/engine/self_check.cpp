// Runs the museum as an ordinary plugin, and reads from the record who rejected what.
#include "gate/engine/self_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

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
  const Unit* named = nullptr;
  const Unit* any = nullptr;
  for (const Unit& unit : record.units) {
    if (unit.kernel != piece.name) continue;
    result.cases += unit.cases;
    result.seconds += unit.seconds;
    if (!rejects(unit.verdict)) continue;
    if (std::find(result.caught_by.begin(), result.caught_by.end(), unit.property) == result.caught_by.end())
      result.caught_by.push_back(unit.property);
    if (!unit.finding) continue;
    // Of several units of the property (phases, conventions) the one that says most.
    const Unit*& best = unit.property == piece.property ? named : any;
    if (best == nullptr || (best->finding->diagnosis.empty() && !unit.finding->diagnosis.empty())) best = &unit;
  }
  const Unit* shown = named != nullptr ? named : any;
  if (shown != nullptr) {
    result.diagnosis = shown->finding->diagnosis;
    result.problem = shown->finding->problem;
  }
  result.rejected =
      std::find(result.caught_by.begin(), result.caught_by.end(), result.property) != result.caught_by.end();
  return result;
}

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

bool SelfCheck::honest() const {
  const bool enough = whole ? !pieces.empty() && !sound.empty() : !pieces.empty() || !sound.empty();
  return enough && properties_without_piece.empty() && harness_errors.empty() &&
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
  museum_options.shrink = false;
  museum_options.explain = [&](const Unit& unit) {
    return std::any_of(museum.begin(), museum.end(), [&](const MuseumPiece& piece) {
      return piece.name == unit.kernel && piece.property == unit.property;
    });
  };

  SelfCheck result;
  result.whole = options.kernels.empty();
  const Gate gate = open_gate(museum_options);
  if (gate.plugins.empty()) {
    result.harness_errors = gate.harness_errors;
    return result;
  }
  const Record record = run(gate, museum_options, progress);
  result.harness_errors = record.harness_errors;
  for (const MuseumPiece& piece : museum) {
    if (!selected(options.kernels, piece.name)) continue;
    if (piece.property.empty())
      result.sound.push_back(judge_sound(piece, record));
    else
      result.pieces.push_back(judge_piece(piece, record));
  }
  for (const Property* property : property_list()) {
    const bool has_piece = std::any_of(museum.begin(), museum.end(),
                                       [&](const MuseumPiece& piece) { return piece.property == property->name; });
    if (!has_piece) result.properties_without_piece.emplace_back(property->name);
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
