// The self-check checks something: with any property left out of the list it fails, and so it does when a property has
// no piece, when a piece is let through, and when too few diagnoses are right.
#include "gate/engine/self_check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace normgate {
namespace {

constexpr MuseumPiece museum[] = {
#include "museum.inc"
};

RunOptions museum_options() {
  RunOptions options;
  options.plugins = {NORMGATE_PLUGINS "/normgate_broken.so", NORMGATE_PLUGINS "/normgate_broken_on_a_target.so"};
  options.runner.worker_path = NORMGATE_WORKER;
  return options;
}

std::string_view piece_for(std::string_view property) {
  const auto piece = std::find_if(std::begin(museum), std::end(museum),
                                  [&](const MuseumPiece& one) { return one.property == property; });
  return piece == std::end(museum) ? std::string_view() : piece->name;
}

bool has(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

TEST(SelfCheckOfTheGate, APieceOfEachPropertyIsRejectedByIt) {
  RunOptions options = museum_options();
  options.jobs = 2;
  for (const Property* property : property_list()) {
    ASSERT_NE(piece_for(property->name), "") << property->name;
    options.kernels.emplace_back(piece_for(property->name));
  }
  NoProgress progress;
  const SelfCheck check = self_check(options, museum, {}, progress);
  EXPECT_TRUE(check.honest());
  EXPECT_EQ(check.unknown_properties, std::vector<std::string>{});
  std::set<std::string> properties;
  for (const PieceResult& piece : check.pieces) {
    EXPECT_TRUE(piece.rejected) << piece.name;
    EXPECT_GT(piece.cases, 0) << piece.name;
    EXPECT_GT(piece.seconds, 0) << piece.name;
    EXPECT_FALSE(piece.problem.empty()) << piece.name;
    properties.insert(piece.property);
  }
  EXPECT_EQ(properties.size(), property_list().size());
}

// With the pieces that the test above has shown to be rejected.
TEST(SelfCheckOfTheGate, FailsWithoutAnyOfTheProperties) {
  NoProgress progress;
  for (const Property* left_out : property_list()) {
    std::vector<const Property*> rest(property_list().begin(), property_list().end());
    std::erase(rest, left_out);
    RunOptions options = museum_options();
    options.all_properties = rest;
    options.kernels = {std::string(piece_for(left_out->name))};
    const SelfCheck check = self_check(options, museum, {}, progress);
    EXPECT_FALSE(check.honest()) << left_out->name;
    EXPECT_TRUE(check.harness_errors.empty()) << left_out->name;
    EXPECT_EQ(check.unknown_properties, std::vector<std::string>{std::string(left_out->name)});
    ASSERT_EQ(check.pieces.size(), 1U) << left_out->name;
    EXPECT_FALSE(check.pieces.front().rejected) << left_out->name;
    EXPECT_EQ(check.pieces.front().cases, 0) << left_out->name;
    // Each of the two alone is enough.
    SelfCheck known = check;
    known.unknown_properties.clear();
    EXPECT_FALSE(known.honest()) << left_out->name;
    SelfCheck rejected = check;
    rejected.pieces.front().rejected = true;
    EXPECT_FALSE(rejected.honest()) << left_out->name;
  }
}

TEST(SelfCheckOfTheGate, APropertyWithoutPieceIsDecoration) {
  NoProgress progress;
  const Property* bare = property_list().front();
  std::vector<MuseumPiece> rest(std::begin(museum), std::end(museum));
  std::erase_if(rest, [&](const MuseumPiece& piece) { return piece.property == bare->name; });
  RunOptions options = museum_options();
  options.kernels = {std::string(piece_for(property_list().back()->name))};
  const SelfCheck check = self_check(options, rest, {}, progress);
  EXPECT_EQ(check.properties_without_piece, std::vector<std::string>{std::string(bare->name)});
  EXPECT_FALSE(check.honest());
}

// A piece that is made for the wrong property is told with those that reject it.
TEST(SelfCheckOfTheGate, APieceThatItsPropertyLetsThroughIsMissedAndToldByWhomItIsCaught) {
  constexpr std::string_view name = "broken/momentum_reversed";
  const auto piece =
      std::find_if(std::begin(museum), std::end(museum), [&](const MuseumPiece& one) { return one.name == name; });
  ASSERT_NE(piece, std::end(museum));
  std::vector<MuseumPiece> other(std::begin(museum), std::end(museum));
  for (MuseumPiece& one : other)
    if (one.name == name) one.property = "saved_statistics";
  RunOptions options = museum_options();
  options.kernels = {std::string(name)};
  NoProgress progress;
  const SelfCheck check = self_check(options, other, {}, progress);
  EXPECT_FALSE(check.honest());
  ASSERT_EQ(check.pieces.size(), 1U);
  EXPECT_FALSE(check.pieces.front().rejected);
  EXPECT_FALSE(check.pieces.front().diagnosed());
  EXPECT_GT(check.pieces.front().cases, 0);
  EXPECT_TRUE(has(check.pieces.front().caught_by, piece->property));
}

SelfCheck made_up(int pieces, int with_expectation, int diagnosed) {
  SelfCheck check;
  for (int i = 0; i < pieces; ++i) {
    PieceResult piece;
    piece.name = "broken/" + std::to_string(i);
    piece.rejected = true;
    piece.cases = i + 1;
    piece.seconds = 0.5 * i;
    if (i < with_expectation) piece.expected_diagnosis = "one-pass variance";
    piece.diagnosis = i < diagnosed ? "one-pass variance" : "one pass variance";
    check.pieces.push_back(piece);
  }
  check.sound.push_back({"sound/one", true, ""});
  return check;
}

TEST(SelfCheckOfTheGate, FourOfFiveDiagnosesMustBeRightWordForWord) {
  EXPECT_TRUE(made_up(12, 10, 10).honest());
  EXPECT_TRUE(made_up(12, 10, 8).honest());
  EXPECT_FALSE(made_up(12, 10, 7).honest());
  // Pieces without an expected diagnosis count for neither side.
  EXPECT_FALSE(made_up(100, 10, 7).honest());
  EXPECT_TRUE(made_up(12, 0, 0).honest());
  SelfCheck part = made_up(1, 1, 0);
  EXPECT_FALSE(part.honest());
  part.whole = false;
  EXPECT_TRUE(part.honest());
}

TEST(SelfCheckOfTheGate, TotalsAreOfAllPieces) {
  SelfCheck check = made_up(5, 4, 3);
  check.pieces[1].rejected = false;
  const SelfCheckTotals totals = check.totals();
  EXPECT_EQ(totals.pieces, 5);
  EXPECT_EQ(totals.caught, 4);
  EXPECT_EQ(totals.expected, 4);
  EXPECT_EQ(totals.diagnosed, 2);  // what is not caught has no diagnosis
  EXPECT_EQ(totals.median_seconds, 1);
  EXPECT_EQ(totals.largest_seconds, 2);
  EXPECT_EQ(totals.slowest, "broken/4");
  EXPECT_EQ(totals.median_cases, 3);
  EXPECT_EQ(totals.largest_cases, 5);
  EXPECT_FALSE(check.honest());
}

TEST(SelfCheckOfTheGate, NothingTriedIsNotHonest) {
  EXPECT_FALSE(SelfCheck{}.honest());
  SelfCheck only_pieces = made_up(3, 0, 0);
  only_pieces.sound.clear();
  EXPECT_FALSE(only_pieces.honest());
}

}  // namespace
}  // namespace normgate
