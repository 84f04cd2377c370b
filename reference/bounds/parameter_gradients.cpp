// dgamma is Σ dy x̂^ over the channel's groups: what the mean's error and r^ do to a group's terms is common to them, so
// that it is |Σ dy x̂| |r^-r|/r + shift |Σ dy| of the group's share; the terms' own roundings come on top. The depth of
// the whole sum is that of a group's share and of the sum over groups together; where the sum over groups is
// sequential, the terms of one group may go after those of another into the same totals. dbeta is Σ dy. Old values are
// one term more, first or last. Where all terms are multiples of a grid and their moduli below 2^24 grids (2^53), no
// order rounds.
#include "reference/bounds/parameter_gradients.hpp"

#include <algorithm>
#include <cmath>

#include "reference/bounds/judged.hpp"

namespace normgate::bounds {

ParameterGradients::ParameterGradients(const GradientModel& model) : model_(model) {
  const auto channels = static_cast<std::size_t>(element_count(restricted(model.problem.shape, model.row.affine)));
  channels_.resize(channels);
  sum_of_products_.assign(channels, 0);
  sum_of_dy_.assign(channels, 0);
}

void ParameterGradients::take_in(const Frame& frame, const std::vector<Element>& elements, bool range) {
  const GradientModel& m = model_;
  const double r = m.from_output ? 1 : frame.reciprocal.high;
  const bool nan = frame.nan && !m.from_output;  // of every x̂: so is the truth then
  bool differences = frame.delta == 0 && frame.shift == 0 && !m.from_output;
  double grid = infinity, largest = 0;
  for (const Element& e : elements) {
    differences = differences && m.difference_is_exact(frame, e);
    grid = std::min(grid, grid_of(e.d));
    largest = std::max(largest, std::fabs(e.d));
  }
  differences = differences && (grid == infinity || largest <= 0x1p24 * grid);
  // x̂'s own, r (counted with it), the product, and narrower sums; folded: x dy, m Σdy, their difference, r.
  const double theta = m.folded ? gamma_factor((m.from_output ? 7 : 4) + 2 * m.narrow, m.u)
                                : gamma_factor(m.hat_roundings(differences) + 1 + 2 * m.narrow, m.u);
  const double relative = frame.r > 0 && !m.from_output ? frame.r_error / frame.r : 0;
  const bool statistics_known = m.from_output || (frame.r_known && frame.mean_finite && !nan);
  const bool zero = m.training && frame.divisor == 0;
  for (const Element& e : elements) {
    Channel& channel = channels_[e.channel];
    const double dy = std::fabs(e.dy);
    channel.upstream_finite = channel.upstream_finite && std::isfinite(e.dy);
    channel.upstream += dy;
    channel.upstream_error += m.zeta + (m.flushed ? m.eta_a : 0);
    channel.upstream_grid = std::min(channel.upstream_grid, grid_of(e.dy));
    channel.finite = channel.finite && frame.mean_finite && e.finite && std::isfinite(e.dy);
    channel.judged = channel.judged && range && (statistics_known || nan);
    // A mean that is handed beside the one value there is: what 0/0 or a stated 0 makes of it is open.
    if (zero && e.d != 0) channel.judged = false;
    if (!channel.finite || !channel.judged || nan) continue;
    const double most = m.folded ? e.wide : e.reach;
    channel.terms += dy * std::fabs(e.hat);
    channel.computed += dy * most * (1 + theta);
    const double absolute =
        dy * e.hat_absolute + most * m.zeta +
        4 * m.eta * at_least_one(dy) * at_least_one(r) * at_least_one(e.raw) * e.divided +
        (m.flushed ? m.eta_a * at_least_one(r) * (m.folded ? 1 + std::fabs(frame.centre.hi) : 1) : 0);
    channel.error += dy * most * theta + absolute;
    sum_of_products_[e.channel] += e.dy * e.hat;
    sum_of_dy_[e.channel] += e.dy;
    const double doubt = (frame.n + 8) * 0x1p-52;
    channel.error += doubt * dy * (std::fabs(e.hat) * relative + frame.shift);
    // Exact terms are multiples of this grid.
    const bool safe = frame.power && differences && r > 0x1p-20 && r < 0x1p20 && grid_of(e.dy) > 0x1p-40 &&
                      dy < 0x1p40 && grid_of(e.d) > 0x1p-40 && e.raw < 0x1p40;
    channel.exact = channel.exact && safe;
    if (m.folded && !m.from_output) {
      const double x_grid =
          std::min(grid_of(static_cast<double>(m.inputs[Role::x][e.index])), grid_of(frame.centre.hi));
      if (x_grid < infinity && e.dy != 0)
        channel.term_grid = std::min(channel.term_grid, x_grid * grid_of(e.dy) * frame.r);
    } else if (e.d != 0 && e.dy != 0) {
      channel.term_grid = std::min(channel.term_grid, grid_of(e.d) * grid_of(e.dy) * frame.r);
    }
    channel.products += dy * (e.raw + most);
    if (channel.products >= m.top || most >= m.top || dy * r >= m.top || e.raw >= m.top) channel.judged = false;
  }
  if (nan) return;
  // What r^ and the mean's error do to all terms of a channel together.
  for (const Element& e : elements) {
    Channel& channel = channels_[e.channel];
    channel.error += std::fabs(sum_of_products_[e.channel]) * relative + frame.shift * std::fabs(sum_of_dy_[e.channel]);
    sum_of_products_[e.channel] = sum_of_dy_[e.channel] = 0;
  }
}

void ParameterGradients::judge(Bounds& bounds) const {
  const GradientModel& m = model_;
  // A channel's terms: `share` in each of `parts` groups.
  double terms = 1, parts = 1;
  for (std::size_t a = 0; a < axis_count; ++a) {
    if (m.row.affine.has(a)) continue;
    terms *= static_cast<double>(m.problem.shape[a]);
    if (!m.row.reduced.has(a)) parts *= static_cast<double>(m.problem.shape[a]);
  }
  const bool accumulates = m.problem.convention.gradients == Gradients::accumulate;
  const auto share = static_cast<std::int64_t>(parts > 0 ? terms / parts : 0);
  const auto all_parts = static_cast<std::int64_t>(parts) + (accumulates ? 1 : 0);
  const double all = terms + (accumulates ? 1 : 0);
  const auto within = static_cast<double>(depth(m.claim.group_sum, share));
  // The old value may be added last.
  double path = within + static_cast<double>(accumulates ? std::max(depth(m.claim.across_groups, all_parts),
                                                                    depth(m.claim.across_groups, all_parts - 1) + 1)
                                                         : depth(m.claim.across_groups, all_parts));
  if (m.claim.across_groups.order == SumOrder::sequential && all_parts > 1)
    path = std::min(all - 1, static_cast<double>(all_parts) * (1 + within));
  const double factor = all <= 1 ? 0 : std::min((all - 1) * m.u_a, gamma_factor(path, m.u_a));
  const bool wider = m.claim.accumulator == ScalarType::float64 || m.claim.statistics == ScalarType::float64;
  const double into_float32 = wider ? (accumulates ? gamma_factor(2, unit_float32) : unit_float32) : 0;
  const double slack = GradientModel::slack(static_cast<std::int64_t>(all));
  for (std::size_t c = 0; c < channels_.size(); ++c) {
    const Channel& channel = channels_[c];
    const auto enter_one = [&](Role role, bool finite, double scale, double modulus, double error, bool exact,
                               double grid) {
      if (m.truth.out[role].empty()) return;
      const double signed_old = accumulates ? static_cast<double>(m.inputs[role][c]) : 0;
      const double old = std::fabs(signed_old);
      const Exact& value = m.truth.out[role][c];
      const double finest = std::min(grid, grid_of(signed_old));
      const bool exactly = exact && (finest == infinity || (modulus + old < m.limit * finest && finest >= 0x1p-100));
      double total = 0;
      if (!exactly) {
        const double read = accumulates ? m.zeta + (m.flushed ? 2 * m.eta_a : 0) : 0;
        total = error * (1 + factor) + (modulus + old) * factor + read + 3 * m.eta_out + m.eta_a + m.eta_s;
      }
      // The sum may become a float32 before the old value is added.
      const bool sum_is_float32 = !accumulates || finest == infinity || modulus + old < 0x1p24 * finest;
      if (value.finite())
        total += last_rounding(value, exactly && sum_is_float32, into_float32) * (std::fabs(value.hi) + old + total);
      enter(bounds, m.truth, role, c, total * slack, scale + old,
            finite && std::isfinite(old) && modulus + old + total < 0x1p127);
    };
    enter_one(Role::dgamma, channel.finite && channel.judged, channel.terms, channel.computed, channel.error,
              channel.exact || channel.computed == 0, channel.term_grid);
    enter_one(Role::dbeta, channel.upstream_finite, channel.upstream, channel.upstream, channel.upstream_error, true,
              channel.upstream_grid);
  }
}

}  // namespace normgate::bounds
