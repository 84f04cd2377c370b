// What a failing call shows, and what every hypothesis about it needs: the wrong elements, the truth and the bounds
// that they are wrong against, and how well a prediction stands against all of them.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "gate/engine/diagnosis.hpp"
#include "properties/judging.hpp"
#include "properties/property.hpp"
#include "reference/bounds/rounding.hpp"
#include "reference/problem/groups.hpp"

namespace normgate::diagnosis {

struct Place {
  Role role;
  std::size_t index;
};

// The statistics that a mistake gives a group.
struct Statistics {
  double mean = 0;
  double variance = 0;  // the normalizing variance
  double factor = 0;    // 1/D
};
using StatisticsOf = std::function<Statistics(std::int64_t group)>;

// How well a prediction stands against a result.
struct Fit {
  bool explains = false;
  bool contradicted = false;  // a judged element is clearly another than predicted
  bool in_some_groups = false;
  std::int64_t matched = 0;
  double residual = 0;  // error against the prediction, over that against the truth
};

using Visit = std::function<void(const std::string& diagnosis, const std::string& sentence, const std::string& advice,
                                 const Fit& fit)>;

// Whether predictions were made and none of them can be what the kernel did.
template <typename ForEachPrediction>
[[nodiscard]] bool all_contradicted(ForEachPrediction for_each_prediction) {
  bool any = false;
  bool all = true;
  for_each_prediction([&](const std::string&, const std::string&, const std::string&, const Fit& fit) {
    any = true;
    all = all && fit.contradicted;
  });
  return any && all;
}

[[nodiscard]] double reciprocal_root(const Convention& convention, double variance, double eps);

// Rounded to `bits` significant bits, none smaller than `smallest`.
[[nodiscard]] double rounded(double value, int bits, double smallest = 0);
struct ShortType {
  std::string_view name;
  int bits;
  double smallest;
};
inline constexpr std::array<ShortType, 2> short_types{{{"float16", 11, 0x1p-24}, {"bfloat16", 8, 0}}};

class Evidence {
 protected:
  Evidence(const Problem& problem, const Inputs& inputs, const Subject& subject, const runner::Outcome& outcome,
           std::string_view only);
  ~Evidence() = default;
  Evidence(const Evidence&) = delete;
  Evidence& operator=(const Evidence&) = delete;

  [[nodiscard]] bool asked(std::string_view diagnosis) const;

  [[nodiscard]] bool written(Role role) const;

  // The elements to explain: those beyond their bound; if there are none, those whose error is half the largest, where
  // that is clearly more than rounding (a systematic error within the bound).
  void collect();

  [[nodiscard]] double got(Role role, std::size_t i) const;
  [[nodiscard]] double error_of(Role role, std::size_t i) const;

  [[nodiscard]] std::string suspected_roles() const;

  void mark_groups();
  [[nodiscard]] bool suspected(Role role, std::size_t i) const;
  [[nodiscard]] bool only_suspected(std::initializer_list<Role> roles) const;

  [[nodiscard]] bool has_finding(runner::FindingKind kind) const;
  void seen_at_the_door();
  Fit whole(const Truth& truth, const Bounds& bounds) const;

  Fit whole(const Problem& problem, const Inputs& inputs) const;
  void conventions(const Visit& visit) const;
  [[nodiscard]] bool matters(const Convention& other) const;
  [[nodiscard]] double x(std::int64_t i) const;
  [[nodiscard]] double gamma_at(const Shape& at) const;
  [[nodiscard]] double beta_at(const Shape& at) const;
  [[nodiscard]] double divisor(double count) const;
  [[nodiscard]] double root(double variance) const;
  [[nodiscard]] Statistics truth_of(std::int64_t group) const;
  void flushed_subnormals();

  // An output of which no element has more bits than a shorter type.
  void short_output();
  [[nodiscard]] bool covered_by(const Claim& claim) const;
  void lower_precision();

  void add(int rank, std::string_view diagnosis, std::string sentence, std::string advice = {},
           std::int64_t matched = matched_at_least) {
    found_.push_back({std::string(diagnosis), std::move(sentence), std::move(advice), rank, matched});
  }

  const Problem& problem_;
  const Inputs& inputs_;
  const Subject& subject_;
  const runner::Outcome& outcome_;
  std::string_view only_;
  Groups groups_;
  AxisSet affine_;
  Role row_output_;  // y, or dx
  Case case_;
  Demand demand_;
  const Truth& truth_;
  const Bounds& bounds_;
  std::vector<Place> suspects_;
  bool beyond_bound_ = false;
  bool quick_ = false;  // contradictions are not asked for
  PerRole<std::vector<bool>> suspected_;
  PerRole<bool> any_{};
  std::vector<bool> group_suspected_;
  std::vector<Explanation> found_;
};

}  // namespace normgate::diagnosis
