// The honesty of the gate: wrong kernels must be rejected by the property that they are made for, and named by the
// diagnosis that they are made for; sound ones are rejected by none; plugins that cannot be loaded are harness errors.
//
// A wrong kernel is tried alone, on the units of its property only and on each until it fails: what is told of it, its
// time included, is what `normgate check --kernel K --property P` shows. Other properties are tried on those only that
// theirs lets through, to tell by whom they would have been caught.
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
  std::string_view diagnosis;  // expected, word for word; may be empty
};

// Of the pieces with an expected diagnosis, how many must get it.
inline constexpr double diagnosed_share_demanded = 0.8;

struct PieceResult {
  std::string name;
  std::string property;
  std::vector<std::string> caught_by;  // its property, or if that let it through all that do not
  std::string diagnosis;               // of its property's finding, else of the first that has one
  std::string expected_diagnosis;
  std::string problem;     // the finding's
  std::int64_t cases = 0;  // of its property, until caught; all of them if it was not
  double seconds = 0;      // by the clock, from the start of its worker to the diagnosis
  bool rejected = false;   // by its property
  [[nodiscard]] bool diagnosed() const { return rejected && diagnosis == expected_diagnosis; }
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

struct SelfCheckTotals {
  std::int64_t pieces = 0;
  std::int64_t caught = 0;
  std::int64_t expected = 0;   // pieces with an expected diagnosis
  std::int64_t diagnosed = 0;  // … that got it
  double median_seconds = 0;
  double largest_seconds = 0;
  std::string slowest;  // the piece that took them
  std::int64_t median_cases = 0;
  std::int64_t largest_cases = 0;
  [[nodiscard]] bool diagnosed_enough() const {
    return static_cast<double>(diagnosed) >= diagnosed_share_demanded * static_cast<double>(expected);
  }
};

struct SelfCheck {
  bool whole = true;  // false: --kernel selected a part of the museum, so that one side of it may be empty
  std::vector<PieceResult> pieces;
  std::vector<SoundResult> sound;
  std::vector<LoadingResult> loading;
  std::vector<std::string> properties_without_piece;
  std::vector<std::string> unknown_properties;  // that a piece of the museum names, and nobody has
  std::vector<std::string> harness_errors;
  double seconds = 0;
  [[nodiscard]] SelfCheckTotals totals() const;
  // A part of the museum says nothing about shares of it: diagnoses are counted over the whole only.
  [[nodiscard]] bool honest() const;
};

// `options.plugins` is the plugin of the museum, `loading` are those that must not load; deadlines are set here. With
// several jobs as many pieces are tried at the same time, each with workers of its own.
[[nodiscard]] SelfCheck self_check(const RunOptions& options, std::span<const MuseumPiece> museum,
                                   std::span<const std::string> loading, Progress& progress);

}  // namespace normgate
