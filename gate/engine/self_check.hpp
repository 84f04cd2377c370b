// The honesty of the gate: wrong kernels must be rejected by the property that they are made for, sound ones by none,
// and plugins that cannot be loaded must be harness errors.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gate/engine/run.hpp"

namespace normgate {

// A kernel of the museum; `property` is empty for a sound one.
struct MuseumPiece {
  std::string_view name;
  std::string_view property;
  std::string_view diagnosis;  // expected; may be empty
};

struct PieceResult {
  std::string name;
  std::string property;
  std::vector<std::string> caught_by;  // all properties that reject it
  std::string diagnosis;               // of its property's finding, else of the first that has one
  std::string expected_diagnosis;
  std::string problem;  // the finding's
  std::int64_t cases = 0;
  double seconds = 0;
  bool rejected = false;  // by its property
};
struct SoundResult {
  std::string name;
  bool passed = false;
  std::string complaint;  // what rejected it
};
struct LoadingResult {
  std::string name;
  bool rejected = false;
  std::string sentence;
};

struct SelfCheck {
  bool whole = true;  // false: --kernel selected a part of the museum, so that one side of it may be empty
  std::vector<PieceResult> pieces;
  std::vector<SoundResult> sound;
  std::vector<LoadingResult> loading;
  std::vector<std::string> properties_without_piece;
  std::vector<std::string> harness_errors;
  double seconds = 0;
  [[nodiscard]] bool honest() const;
};

// `options.plugins` is the plugin of the museum, `loading` are those that must not load; deadlines are set here.
[[nodiscard]] SelfCheck self_check(const RunOptions& options, std::span<const MuseumPiece> museum,
                                   std::span<const std::string> loading, Progress& progress);

}  // namespace normgate
