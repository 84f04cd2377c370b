#include "reports/formats/audit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "reports/clean_text.hpp"
#include "reports/formats/text.hpp"
#include "reports/grouping.hpp"

namespace normgate {
namespace {

// Rows of equal length, columns separated by two blanks; the last one is not padded.
std::string aligned(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> width;
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (c == width.size()) width.push_back(0);
      width[c] = std::max(width[c], row[c].size());
    }
  std::string result;
  for (const auto& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c)
      result += c + 1 < row.size() ? fmt::format("{:<{}}  ", row[c], width[c]) : row[c] + "\n";
  }
  return result + "\n";
}

// One output of one kernel in one phase, over all targets and conventions.
struct OutputRow {
  std::string kernel;
  std::string phase;
  std::string output;
  const WorstOfOutput* mathematical = nullptr;
  std::string target{};  // of it
  const WorstOfOutput* own = nullptr;
  std::int64_t judged = 0;
  std::int64_t not_judged = 0;
};

std::vector<OutputRow> output_rows(const Record& record) {
  std::vector<OutputRow> rows;
  for (const Unit& unit : record.units) {
    const std::string kernel = clean_line(display_name(record, unit.plugin, unit.kernel));
    for (const WorstOfOutput& worst : unit.worst_of_outputs) {
      auto row = std::find_if(rows.begin(), rows.end(), [&](const OutputRow& other) {
        return other.kernel == kernel && other.phase == unit.phase && other.output == worst.output;
      });
      if (row == rows.end()) row = rows.insert(rows.end(), OutputRow{kernel, unit.phase, worst.output});
      const bool own = unit.property == self_consistency_name;
      const WorstOfOutput*& place = own ? row->own : row->mathematical;
      if (place != nullptr && !(worst.share_of_bound > place->share_of_bound)) continue;
      place = &worst;
      if (!own) row->target = unit.target;
    }
    if (unit.property != self_consistency_name) continue;
    for (OutputRow& row : rows) {
      if (row.kernel != kernel || row.phase != unit.phase) continue;
      row.judged += unit.elements;
      row.not_judged += unit.not_judged;
    }
  }
  return rows;
}

std::string outputs(const Record& record) {
  std::vector<std::vector<std::string>> table{
      {"kernel", "phase", "output", "of the bound", "target", "cotangent", "of its own forward's", "judged", "where"}};
  for (const OutputRow& row : output_rows(record)) {
    const auto total = static_cast<double>(row.judged + row.not_judged);
    const WorstOfOutput* where = row.mathematical != nullptr ? row.mathematical : row.own;
    table.push_back(
        {row.kernel, row.phase, row.output,
         row.mathematical == nullptr ? "-" : share_text(row.mathematical->share_of_bound),
         row.mathematical == nullptr ? "-" : clean_line(row.target),
         row.mathematical == nullptr ? "-" : clean_line(row.mathematical->cotangent),
         row.own == nullptr ? "-" : share_text(row.own->share_of_bound),
         total > 0 ? fmt::format("{:.1f} %", std::floor(1000 * static_cast<double>(row.judged) / total) / 10) : "-",
         clean_line(fmt::format("{} of {}", where->at, where->problem))});
  }
  if (table.size() == 1) return "";
  return "gradients: the largest share of the bound around the certified ones, and of the tolerance around differences "
         "of the\nkernel's own forward\n" +
         aligned(table);
}

std::string witness(const Audit& audit) {
  std::vector<std::vector<std::string>> table{{"variant"}};
  for (const Audit::Witness& one : audit.witness) {
    const std::string head = fmt::format("{} ({})", one.method, one.order);
    if (std::find(table[0].begin(), table[0].end(), head) == table[0].end()) table[0].push_back(head);
    auto row = std::find_if(table.begin() + 1, table.end(), [&](const auto& other) { return other[0] == one.variant; });
    if (row == table.end()) row = table.insert(table.end(), {one.variant});
    row->push_back(fmt::format("{:.3f}", one.observed));
  }
  if (table.size() == 1) return "";
  return "the definition: observed orders at which differences of its forward come near its closed gradient\n" +
         aligned(table);
}

std::string sight(const Audit& audit) {
  const std::string training = "backward_training";
  std::vector<std::string> variants;
  std::vector<std::vector<std::string>> table{{"cotangent", "along 1", "along xhat"}};
  for (const Audit::Sight& one : audit.sight) {
    if (one.phase != training) continue;
    // One with a mean and one without are all there are; the first row of the table has the shares of the first.
    const bool uncentred = one.variant == "rms_norm";
    const auto known = std::find_if(variants.begin(), variants.end(),
                                    [&](const std::string& variant) { return (variant == "rms_norm") == uncentred; });
    if (known == variants.end()) {
      variants.push_back(one.variant);
      table[0].push_back("seen by dx of " + one.variant);
    } else if (*known != one.variant) {
      continue;
    }
    const auto percent = [](double share) { return fmt::format("{:.2f} %", 100 * share); };
    auto row = std::find_if(table.begin() + 1, table.end(), [&](const auto& r) { return r[0] == one.cotangent; });
    if (row == table.end())
      row = table.insert(table.end(), {one.cotangent, percent(one.along_one), percent(one.along_xhat)});
    row->push_back(percent(one.seen));
  }
  if (table.size() == 1) return "";
  return "upstream gradients: how much of them lies in the null space of the backward, and how much dx shows\n" +
         aligned(table);
}

std::string curve(const Audit& audit) {
  const auto share = [](const Audit::Curve& one) {
    const auto& point = one.points[static_cast<std::size_t>(one.chosen)];
    return std::isnan(point.fourth_order) ? 1e300 : std::fabs(point.fourth_order) / point.tolerance;
  };
  const Audit::Curve* worst = nullptr;
  for (const Audit::Curve& one : audit.curves)
    if (one.chosen >= 0 && (worst == nullptr || share(one) > share(*worst))) worst = &one;
  if (worst == nullptr) return "";
  std::vector<std::vector<std::string>> table{
      {"step", "error, order 2", "error, order 4", "noise", "truncation", "tolerance", ""}};
  for (std::size_t i = 0; i < worst->points.size(); ++i) {
    const Audit::Curve::Point& point = worst->points[i];
    table.push_back({fmt::format("{:.4g}", point.step), fmt::format("{:.2g}", point.second_order),
                     fmt::format("{:.2g}", point.fourth_order), fmt::format("{:.2g}", point.noise),
                     fmt::format("{:.2g}", point.truncation), fmt::format("{:.2g}", point.tolerance),
                     static_cast<std::int64_t>(i) == worst->chosen ? "chosen by the model" : ""});
  }
  return clean_line(fmt::format("error against step (in deviations) where it is nearest to its tolerance: {} on {}, {} "
                                "of {}",
                                worst->kernel, worst->target, worst->at, worst->problem)) +
         fmt::format("\nscale {:.4g}; bounds are {}\n", worst->scale, worst->estimated ? "estimated" : "proved") +
         aligned(table);
}

}  // namespace

std::string audit_tables(const Record& record) {
  if (!record.audit) return "";
  return outputs(record) + witness(*record.audit) + sight(*record.audit) + curve(*record.audit);
}

}  // namespace normgate
