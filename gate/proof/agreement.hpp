// The tiers of the truth against each other on one problem: certificates of the fast tier against the definition at 100
// digits, and correct rounding against the definition, the exact tier and what is known by construction.
//
// To add a comparison: a member of Comparison in agreement.cpp.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "reference/problem/claim.hpp"
#include "reference/problem/data.hpp"
#include "reference/problem/problem.hpp"
#include "reference/truth/tiers/correctly_rounded.hpp"

namespace normgate::proof {

// What is known of one element: on which side of a number it lies (0: it is that number), and what it rounds to.
struct Known {
  Role role = Role::y;
  std::size_t at = 0;
  double boundary = 0;
  int side = 0;
  double rounded = 0;
};

struct Trial {
  Problem problem;
  SavedUse use = SavedUse::undeclared;
  tiers::Format format = tiers::Format::float32;
  std::optional<Known> known;
};
// What `normgate prove` takes: "--problem '…' --use textbook --format bfloat16".
[[nodiscard]] std::string print(const Trial& trial);

[[nodiscard]] std::string_view name_of(tiers::Format format);
[[nodiscard]] std::optional<tiers::Format> format_named(std::string_view name);
[[nodiscard]] std::string_view name_of(SavedUse use);
[[nodiscard]] std::optional<SavedUse> use_named(std::string_view name);
inline constexpr std::array formats{tiers::Format::float32, tiers::Format::bfloat16, tiers::Format::float16};

struct Agreement {
  std::vector<std::string> disagreements;  // a sentence each
  std::vector<std::string> undecided;
  bool covered = false;  // by the fast tier
  tiers::TierCounts counts;
  std::int64_t enclosed = 0;  // values whose certificate was compared
  std::int64_t sides = 0;     // answers of the exact tier that were compared
  // Certificate over true error where it was smallest; what is no output is a group's statistic. Infinite if no error
  // was large enough for 100 digits to tell.
  double tightness;
  std::string tightest;  // "dx[3]"
};
[[nodiscard]] Agreement agreement_of(const Trial& trial, const Inputs& inputs);

}  // namespace normgate::proof
