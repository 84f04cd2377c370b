// Wrong formulas of dx: terms that are missing or too much, other divisors, gamma and 1/D in other places, sums over
// other elements.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "gate/engine/diagnosis/backward.hpp"

namespace normgate::diagnosis {
namespace {

double power(double base, int exponent) {
  double result = 1;
  for (int i = 0; i < std::abs(exponent); ++i) result *= base;
  return exponent < 0 ? 1 / result : result;
}

std::string_view letter(std::size_t axis) {
  constexpr std::array<std::string_view, axis_count> letters{"N", "G", "K", "S"};
  return letters[axis];
}

}  // namespace

// What is right for this phase.
BackwardDiagnosis::Formula BackwardDiagnosis::formula() const {
  const bool training = problem_.phase == Phase::backward_training;
  const auto n = static_cast<double>(groups_.size());
  Formula formula;
  formula.mean_weight = training && subject_.row.centred ? 1 : 0;
  formula.xhat_weight = training ? 1 : 0;
  formula.mean_divisor = n;
  formula.xhat_divisor = divisor(n);
  formula.summed = groups_.size();
  return formula;
}

BackwardDiagnosis::GradientOfGroup BackwardDiagnosis::gradient(const Model& model, const Formula& formula) const {
  return [this, &model, formula](std::int64_t group, std::vector<double>& dx) {
    const auto g = static_cast<std::size_t>(group);
    const auto n = static_cast<std::size_t>(groups_.size());
    const std::size_t* elements = order_.data() + g * n;
    const double rstd = model.rstd[g];
    double sum = 0;
    double products = 0;
    const bool sums = formula.mean_weight != 0 || formula.xhat_weight != 0;
    for (std::size_t p = 0; sums && p < static_cast<std::size_t>(formula.summed); ++p) {
      const std::size_t i = elements[p];
      const double weighted = model.dy[i] * power(model.gamma[channel_[i]], formula.gamma_in_sums);
      sum += weighted;
      products += weighted * (formula.x_in_sum ? model.x[i] * rstd : model.xhat[i]);
    }
    // A factor of 0 (the floor, at constant groups) takes the term away, whatever it is.
    const double shift = formula.mean_weight == 0 ? 0 : formula.mean_weight * sum / formula.mean_divisor;
    const double slope = formula.xhat_weight == 0 || model.response[g] == 0
                             ? 0
                             : formula.xhat_weight * products / formula.xhat_divisor *
                                   power(rstd, formula.rstd_of_xhat) *
                                   (formula.means_not_divided ? 1 : model.response[g]);
    const double of_mean = (formula.means_not_divided ? 1 : rstd) * shift;
    dx.resize(n);
    double scale = 0;
    for (std::size_t p = 0; p < n; ++p) {
      const std::size_t i = elements[p];
      const double gamma = model.gamma[channel_[i]];
      const double outside = power(gamma, formula.gamma_outside) * power(rstd, formula.rstd);
      const double of_dy = rstd * model.dy[i] * power(gamma, formula.gamma);
      const double of_xhat = slope == 0 ? 0 : slope * model.direction[i];
      dx[p] = (of_dy - of_mean - of_xhat) * outside;
      scale = std::max(scale, (std::fabs(of_dy) + std::fabs(of_mean) + std::fabs(of_xhat)) * std::fabs(outside));
    }
    return scale;
  };
}

void BackwardDiagnosis::other_formulas(const Visit& visit) const {
  if (!asks_for_dx()) return;
  const bool training = problem_.phase == Phase::backward_training;
  const bool centred = subject_.row.centred;
  const Formula right = formula();
  const auto with = [&](const std::string& diagnosis, const std::string& sentence, const auto& change) {
    if (!asked(diagnosis)) return;
    Formula formula = right;
    change(formula);
    Prediction prediction;
    prediction.dx = gradient(model_, formula);
    prediction.in_parts = true;
    visit(diagnosis, sentence, "", compare(prediction));
  };
  if (asked("dx is dy"))
    visit("dx is dy", "dx is dy: the upstream gradient is handed through", "", compare([&] {
            Prediction prediction;
            prediction.dx = [&](std::int64_t group, std::vector<double>& dx) {
              dx.resize(static_cast<std::size_t>(groups_.size()));
              double scale = 0;
              for (std::size_t p = 0; p < dx.size(); ++p) {
                dx[p] = model_.dy[order_[static_cast<std::size_t>(group) * dx.size() + p]];
                scale = std::max(scale, std::fabs(dx[p]));
              }
              return scale;
            };
            return prediction;
          }()));
  with("dx lacks 1/D", "dx is not divided by D", [](Formula& f) { f.rstd = -1; });
  with("dx divided by D twice", "dx is divided by D twice", [](Formula& f) { f.rstd = 1; });
  if (!inputs_[Role::gamma].empty()) {
    with("gamma not applied in dx", "dx without gamma, as if y were xhat",
         [](Formula& f) { f.gamma = f.gamma_in_sums = 0; });
    with("gamma applied twice in dx", "dx of dy*gamma*gamma: gamma is applied twice",
         [](Formula& f) { f.gamma = f.gamma_in_sums = 2; });
    with("gamma applied once more outside the sums", "gamma times dx: it is applied within the sums and outside again",
         [](Formula& f) { f.gamma_outside = 1; });
    if (training) {
      with("gamma missing in the sums of dx", "the means in dx are of dy and dy*xhat, without gamma",
           [](Formula& f) { f.gamma_in_sums = 0; });
      with("gamma applied after the sums", "gamma times the dx of dy: gamma is applied after the sums", [](Formula& f) {
        f.gamma = f.gamma_in_sums = 0;
        f.gamma_outside = 1;
      });
      with("gamma in the sums of dx only", "dy stands without gamma beside means of dy*gamma",
           [](Formula& f) { f.gamma = 0; });
      with("gamma twice in the sums of dx", "the means in dx are of dy*gamma*gamma",
           [](Formula& f) { f.gamma_in_sums = 2; });
      with("gamma twice beside the sums of dx", "dy*gamma*gamma beside means of dy*gamma",
           [](Formula& f) { f.gamma = 2; });
    }
  }
  if (!training) {
    with("training formula in inference", "dx loses its means as in training; the given statistics are constants",
         [&](Formula& f) {
           f.xhat_weight = 1;
           f.mean_weight = centred ? 1 : 0;
         });
    return;
  }
  with("inference formula in training", "dx is dy*gamma/D, as if the statistics were constants",
       [](Formula& f) { f.mean_weight = f.xhat_weight = 0; });
  if (centred) {
    with("xhat term of dx missing", "dx without the term xhat*mean(dy*gamma*xhat)",
         [](Formula& f) { f.xhat_weight = 0; });
    with("mean term of dx missing", "dx without the term mean(dy*gamma)", [](Formula& f) { f.mean_weight = 0; });
    with("mean term of dx subtracted twice", "dx less mean(dy*gamma) twice", [](Formula& f) { f.mean_weight = 2; });
    with("mean term of dx added", "mean(dy*gamma) is added instead of subtracted",
         [](Formula& f) { f.mean_weight = -1; });
  } else {
    with("mean term in dx", "dx less mean(dy*gamma), which this variant does not have",
         [](Formula& f) { f.mean_weight = 1; });
  }
  with("xhat term of dx subtracted twice", "dx less xhat*mean(dy*gamma*xhat) twice",
       [](Formula& f) { f.xhat_weight = 2; });
  with("xhat term of dx halved", "dx less half of xhat*mean(dy*gamma*xhat)", [](Formula& f) { f.xhat_weight = 0.5; });
  with("xhat term of dx added", "xhat*mean(dy*gamma*xhat) is added instead of subtracted",
       [](Formula& f) { f.xhat_weight = -1; });
  with("xhat term of dx lacks 1/D", "the xhat term of dx lacks a factor 1/D", [](Formula& f) { f.rstd_of_xhat = -1; });
  with("xhat term of dx has no 1/D in xhat", "the xhat term of dx is of x - mean twice: two factors 1/D are missing",
       [](Formula& f) { f.rstd_of_xhat = -2; });
  with("xhat term of dx has 1/D too often", "the xhat term of dx has a factor 1/D too much",
       [](Formula& f) { f.rstd_of_xhat = 1; });
  with("means of dx not divided by D", "dy*gamma/D less the means, which are not divided by D",
       [](Formula& f) { f.means_not_divided = true; });
  if (from_x() && centred)
    with("x instead of xhat in the sums of dx", "the xhat term of dx sums dy*gamma*x/D: the mean is not subtracted",
         [](Formula& f) { f.x_in_sum = true; });
  // From a handed reciprocal nothing else follows from eps: then the convention says the same.
  const bool reciprocal = handed() && problem_.convention.saved == SavedStatistic::rstd;
  if (problem_.convention.eps != EpsPlacement::inside && !reciprocal &&
      asked("xhat term of dx as with eps inside the root")) {
    Model model = model_;
    model.response = model.rstd;
    Prediction prediction;
    prediction.dx = gradient(model, right);
    visit("xhat term of dx as with eps inside the root",
          "the derivative of the root is that of sqrt(variance + eps), not of the declared one", "",
          compare(prediction));
  }
  if (groups_.count() < 2) return;
  if (asked("sums of dx go on from group to group")) {
    // Cumulative sums, by group.
    std::vector<double> sums, products;
    double sum = 0, product = 0;
    const auto n = static_cast<std::size_t>(groups_.size());
    for (std::size_t p = 0; p < order_.size(); ++p) {
      const std::size_t i = order_[p];
      const double weighted = model_.dy[i] * model_.gamma[channel_[i]];
      sum += weighted;
      product += weighted * model_.xhat[i];
      if (p % n + 1 < n) continue;
      sums.push_back(sum);
      products.push_back(product);
    }
    Prediction prediction;
    prediction.dx = [&](std::int64_t group, std::vector<double>& dx) {
      const auto g = static_cast<std::size_t>(group);
      dx.resize(n);
      double scale = 0;
      for (std::size_t p = 0; p < n; ++p) {
        const std::size_t i = order_[g * n + p];
        const double of_dy = model_.rstd[g] * model_.dy[i] * model_.gamma[channel_[i]];
        const double of_mean = model_.rstd[g] * right.mean_weight * sums[g] / right.mean_divisor;
        const double of_xhat = model_.response[g] * products[g] / right.xhat_divisor * model_.direction[i];
        dx[p] = of_dy - of_mean - of_xhat;
        scale = std::max(scale, std::fabs(of_dy) + std::fabs(of_mean) + std::fabs(of_xhat));
      }
      return scale;
    };
    visit("sums of dx go on from group to group", "the means of dx are of the sums of all groups up to their own", "",
          compare(prediction));
  }
  for (const std::int64_t step : {-1, 1}) {
    if (!asked("sums of the neighbouring group in dx")) break;
    Prediction prediction;
    prediction.in_parts = true;
    prediction.dx = [&, step](std::int64_t group, std::vector<double>& dx) {
      const std::int64_t there = group + step;
      const auto n = static_cast<std::size_t>(groups_.size());
      const auto g = static_cast<std::size_t>(group);
      const auto other = static_cast<std::size_t>(there >= 0 && there < groups_.count() ? there : group - step);
      double sum = 0;
      double products = 0;
      for (std::size_t p = 0; p < n; ++p) {
        const std::size_t i = order_[other * n + p];
        const double weighted = model_.dy[i] * model_.gamma[channel_[i]];
        sum += weighted;
        products += weighted * model_.xhat[i];
      }
      double scale = 0;
      dx.resize(n);
      for (std::size_t p = 0; p < n; ++p) {
        const std::size_t i = order_[g * n + p];
        const double of_dy = model_.rstd[g] * model_.dy[i] * model_.gamma[channel_[i]];
        const double of_mean = model_.rstd[g] * right.mean_weight * sum / right.mean_divisor;
        const double of_xhat = model_.response[g] * products / right.xhat_divisor * model_.direction[i];
        dx[p] = of_dy - of_mean - of_xhat;
        scale = std::max(scale, std::fabs(of_dy) + std::fabs(of_mean) + std::fabs(of_xhat));
      }
      return scale;
    };
    visit("sums of the neighbouring group in dx", "dx with the means of the neighbouring group", "",
          compare(prediction));
  }
}

// Means over another number, or of some elements only.
void BackwardDiagnosis::other_means(const Visit& visit) const {
  if (!asks_for_dx() || problem_.phase != Phase::backward_training) return;
  const Formula right = formula();
  const std::int64_t n = groups_.size();
  const auto with = [&](const std::string& diagnosis, const std::string& sentence, const auto& change) {
    if (!asked(diagnosis)) return;
    Formula formula = right;
    change(formula);
    Prediction prediction;
    prediction.dx = gradient(model_, formula);
    prediction.in_parts = true;
    visit(diagnosis, sentence, "", compare(prediction));
  };
  struct Divisor {
    std::string name;
    std::int64_t value;
  };
  std::vector<Divisor> divisors;
  // Numbers that coincide in one case do not in others.
  const auto propose = [&](const std::string& name, std::int64_t value) {
    if (value > 0 && (value != n || name == "n")) divisors.push_back({name, value});
  };
  propose("n", n);
  propose("n-1", n - 1);
  propose("n+1", n + 1);
  // An extent of 1 divides nothing, which is proposed below.
  if (problem_.shape[0] > 1) propose("N", problem_.shape[0]);
  if (problem_.shape[3] > 1) propose("S", problem_.shape[3]);
  propose("G*K", problem_.shape[1] * problem_.shape[2]);
  if (problem_.shape[0] > 1 && problem_.shape[3] > 1) propose("N*S", problem_.shape[0] * problem_.shape[3]);
  if (problem_.shape[1] > 1 && problem_.shape[2] > 1) {
    propose("G", problem_.shape[1]);
    propose("K", problem_.shape[2]);
  }
  for (const std::int64_t width : {4, 8, 16, 32, 64})
    propose(fmt::format("n, rounded up to a multiple of {}", width), (n + width - 1) / width * width);
  propose("1", 1);
  propose("2n", 2 * n);
  for (const auto& [name, value] : divisors) {
    const auto count = static_cast<double>(value);
    const std::string number = name == "1" ? "1: they are not divided" : fmt::format("{} = {}", name, value);
    const bool of_mean = right.mean_weight != 0 && count != right.mean_divisor;
    const bool of_xhat = count != right.xhat_divisor;
    if (of_mean && of_xhat)
      with(fmt::format("means of dx over {}", name), fmt::format("the means of dx are over {}", number),
           [count](Formula& f) { f.mean_divisor = f.xhat_divisor = count; });
    if (of_mean)
      with(fmt::format("mean term of dx over {}", name), fmt::format("the mean(dy*gamma) of dx is over {}", number),
           [count](Formula& f) { f.mean_divisor = count; });
    if (of_xhat)
      with(right.mean_weight == 0 ? fmt::format("means of dx over {}", name)
                                  : fmt::format("xhat term of dx over {}", name),
           fmt::format("the mean(dy*gamma*xhat) of dx is over {}", number),
           [count](Formula& f) { f.xhat_divisor = count; });
  }
  std::vector<std::int64_t> kept;
  const auto keep = [&](std::int64_t count) {
    if (count > 0 && count < n && std::find(kept.begin(), kept.end(), count) == kept.end()) kept.push_back(count);
  };
  for (const std::int64_t width : {1, 4, 8, 16, 32, 64}) keep(width == 1 ? n - 1 : n - n % width);
  for (std::int64_t count = 32; count < n; count *= 2) keep(count);
  for (std::int64_t count = 768; count < std::min<std::int64_t>(n, 4096); count += 256) keep(count);
  for (const std::int64_t count : kept) {
    with("elements left out of the sums of dx",
         n - count == 1      ? fmt::format("the sums of dx lack the last element (of {})", n)
         : n - count < count ? fmt::format("the sums of dx lack the last {} elements (of {})", n - count, n)
                             : fmt::format("the sums of dx are of the first {} elements (of {})", count, n),
         [count](Formula& f) { f.summed = count; });
  }
}

// Means over other axes than the reduced ones.
void BackwardDiagnosis::other_axes(const Visit& visit) const {
  if (!asks_for_dx() || problem_.phase != Phase::backward_training) return;
  const auto effective = [&](AxisSet axes) {
    AxisSet result;
    for (std::size_t a = 0; a < axis_count; ++a)
      if (axes.has(a) && problem_.shape[a] > 1) result.insert(static_cast<Axis>(a));
    return result;
  };
  const auto letters = [&](AxisSet axes) {
    std::string text;
    for (std::size_t a = 0; a < axis_count; ++a)
      if (axes.has(a)) text += fmt::format("{}{}", text.empty() ? "" : " ", letter(a));
    return text.empty() ? std::string("nothing") : text;
  };
  const Formula right = formula();
  const AxisSet reduced = effective(subject_.row.reduced);
  const std::string name = "means of dx over other axes";
  if (!asked(name)) return;
  for (unsigned bits = 1; bits < 16; ++bits) {
    AxisSet axes;
    for (std::size_t a = 0; a < axis_count; ++a)
      if (((bits >> a) & 1U) != 0) axes.insert(static_cast<Axis>(a));
    if (effective(axes) != axes || axes == reduced) continue;
    const AxisSet kept = axes.complement();
    const auto places = static_cast<std::size_t>(element_count(restricted(problem_.shape, kept)));
    std::vector<std::size_t> place(order_.size());
    std::vector<double> sum(places);
    std::vector<double> products(places);
    for (std::int64_t group = 0; group < groups_.count(); ++group)
      groups_.for_each(group, [&](std::int64_t e, const Shape& at) {
        const auto i = static_cast<std::size_t>(e);
        place[i] = static_cast<std::size_t>(dense_index(problem_.shape, kept, at));
        const double weighted = model_.dy[i] * model_.gamma[channel_[i]];
        sum[place[i]] += weighted;
        products[place[i]] += weighted * model_.xhat[i];
      });
    const auto count = static_cast<double>(order_.size() / places);
    for (const bool over_n : {false, true}) {
      const double mean_divisor = over_n ? right.mean_divisor : count;
      const double xhat_divisor = over_n ? right.xhat_divisor : count;
      if (over_n && mean_divisor == count) continue;
      Prediction prediction;
      prediction.in_parts = false;
      prediction.dx = [&](std::int64_t group, std::vector<double>& dx) {
        const auto g = static_cast<std::size_t>(group);
        dx.resize(static_cast<std::size_t>(groups_.size()));
        double scale = 0;
        for (std::size_t p = 0; p < dx.size(); ++p) {
          const std::size_t i = order_[g * dx.size() + p];
          const double of_dy = model_.rstd[g] * model_.dy[i] * model_.gamma[channel_[i]];
          const double of_mean = model_.rstd[g] * right.mean_weight * sum[place[i]] / mean_divisor;
          const double of_xhat = model_.response[g] * products[place[i]] / xhat_divisor * model_.direction[i];
          dx[p] = of_dy - of_mean - of_xhat;
          scale = std::max(scale, std::fabs(of_dy) + std::fabs(of_mean) + std::fabs(of_xhat));
        }
        return scale;
      };
      visit(name, fmt::format("the means of dx are over {} instead of {}", letters(axes), letters(reduced)), "",
            compare(prediction));
    }
  }
}

void BackwardDiagnosis::error_of_a_term() {
  struct Term {
    std::string_view diagnosis;
    std::string_view sentence;
    TermOf value;
  };
  const std::array<Term, 3> terms{
      {{"error of dx constant in each group", "an error of dx that is constant in each group: mean(dy*gamma) is wrong",
        [](std::size_t) { return 1.0; }},
       {"error of dx along xhat",
        "an error of dx that is a multiple of xhat in each group: mean(dy*gamma*xhat) is wrong",
        [&](std::size_t i) { return model_.xhat[i]; }},
       {"error of dx along dy*gamma",
        "an error of dx that is a multiple of dy*gamma in each group: its factor is wrong",
        [&](std::size_t i) { return model_.dy[i] * model_.gamma[channel_[i]]; }}}};
  for (const Term& term : terms) {
    if (!asked(term.diagnosis)) continue;
    const std::int64_t matched = multiple_of(term.value);
    if (matched > 0) add(3, term.diagnosis, std::string(term.sentence), "", matched);
  }
}

std::int64_t BackwardDiagnosis::multiple_of(const TermOf& term) const {
  if (!asks_for_dx() || problem_.phase != Phase::backward_training || groups_.size() < 2 * matched_at_least) return 0;
  const auto n = static_cast<std::size_t>(groups_.size());
  const auto error = [&](std::size_t i) {
    const Exact& truth = truth_.out[Role::dx][i];
    return (got(Role::dx, i) - truth.hi) - truth.lo;
  };
  std::int64_t matched = 0;
  for (std::int64_t group = 0; group < groups_.count(); ++group) {
    if (!group_suspected_[static_cast<std::size_t>(group)]) continue;
    const std::size_t* elements = order_.data() + static_cast<std::size_t>(group) * n;
    double along = 0;
    double norm = 0;
    double largest = 0;
    for (std::size_t p = 0; p < n; ++p) {
      const std::size_t i = elements[p];
      if (!std::isfinite(error(i)) || !std::isfinite(bounds_.tolerance[Role::dx][i])) return 0;
      along += error(i) * term(i);
      norm += term(i) * term(i);
      largest = std::max(largest, std::fabs(error(i)));
    }
    if (!(norm > 0)) return 0;
    std::int64_t moved = 0;
    for (std::size_t p = 0; p < n; ++p) {
      const double expected = along / norm * term(elements[p]);
      moved += std::fabs(expected) > bounds_.tolerance[Role::dx][elements[p]] / 4 ? 1 : 0;
      if (!(std::fabs(error(elements[p]) - expected) <= largest / 8)) return 0;
    }
    // An error of few elements is a multiple of anything.
    if (moved < 2 * matched_at_least) return 0;
    matched += moved;
  }
  return matched;
}

}  // namespace normgate::diagnosis
