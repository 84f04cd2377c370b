#include "reports/formats/json.hpp"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "reports/clean_text.hpp"
#include "reports/grouping.hpp"

namespace normgate {
namespace {

using Json = nlohmann::ordered_json;  // in the order written here, so that two records can be read side by side

Json number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

Json texts(const std::vector<std::string>& list) {
  Json result = Json::array();
  for (const std::string& text : list) result.push_back(clean_text(text));
  return result;
}

// Rows without meaning are left out, as in the text.
Json rows_json(const FindingRows& rows) {
  Json result = Json::object();
  const auto add = [&](const char* name, const std::string& text) {
    if (!text.empty()) result[name] = clean_text(text);
  };
  add("says", rows.says);
  add("case", rows.problem);
  add("in", rows.in);
  add("at", rows.at);
  add("got", rows.got);
  add("want", rows.want);
  add("error", rows.error);
  add("looks_like", rows.looks_like);
  add("diagnosis", rows.diagnosis);
  add("again", rows.again);
  return result;
}

Json unit_json(const Unit& unit) {
  Json result = {{"kernel", clean_text(unit.kernel)},
                 {"plugin", clean_text(unit.plugin)},
                 {"source", clean_text(unit.source)},
                 {"variant", clean_text(unit.variant)},
                 {"target", clean_text(unit.target)},
                 {"phase", clean_text(unit.phase)},
                 {"convention", clean_text(unit.convention)},
                 {"dtype", clean_text(unit.dtype)},
                 {"property", clean_text(unit.property)},
                 {"verdict", name_of(verdict_of(unit))},
                 {"cases", unit.cases},
                 {"refused_cases", unit.refused_cases},
                 {"failed_cases", unit.failed_cases},
                 {"elements", unit.elements},
                 {"not_judged", unit.not_judged},
                 {"worst",
                  {{"share_of_bound", number(unit.worst.share_of_bound)},
                   {"row_ulp", number(unit.worst.row_ulp)},
                   {"problem", clean_text(unit.worst.problem)},
                   {"output", clean_text(unit.worst.output)}}},
                 {"seconds", number(unit.seconds)}};
  if (!unit.worst_of_outputs.empty()) {
    Json outputs = Json::array();
    for (const WorstOfOutput& worst : unit.worst_of_outputs)
      outputs.push_back({{"output", worst.output},
                         {"cotangent", worst.cotangent},
                         {"share_of_bound", number(worst.share_of_bound)},
                         {"at", clean_text(worst.at)},
                         {"problem", clean_text(worst.problem)}});
    result["worst_of_outputs"] = std::move(outputs);
  }
  if (unit.fitting_uses >= 0) result["fitting_uses"] = unit.fitting_uses;
  if (!unit.reason.empty()) result["reason"] = clean_text(unit.reason);
  if (unit.finding) {
    result["finding"] = rows_json(*unit.finding);
    result["finding"]["index"] = unit.finding_index;
  }
  return result;
}

Json numbers(const std::vector<double>& list) {
  Json result = Json::array();
  for (const double value : list) result.push_back(number(value));
  return result;
}

Json audit_json(const Audit& audit) {
  Json result = {
      {"witness", Json::array()}, {"sight", Json::array()}, {"curves", Json::array()}, {"jacobians", Json::array()}};
  for (const Audit::Witness& one : audit.witness)
    result["witness"].push_back({{"variant", one.variant},
                                 {"method", one.method},
                                 {"order", one.order},
                                 {"observed", number(one.observed)},
                                 {"problem", one.problem},
                                 {"steps", numbers(one.steps)},
                                 {"errors", numbers(one.errors)}});
  for (const Audit::Sight& one : audit.sight)
    result["sight"].push_back({{"variant", one.variant},
                               {"phase", one.phase},
                               {"cotangent", one.cotangent},
                               {"along_one", number(one.along_one)},
                               {"along_xhat", number(one.along_xhat)},
                               {"seen", number(one.seen)}});
  for (const Audit::Curve& one : audit.curves) {
    Json points = Json::array();
    for (const Audit::Curve::Point& point : one.points)
      points.push_back({{"step", number(point.step)},
                        {"second_order", number(point.second_order)},
                        {"fourth_order", number(point.fourth_order)},
                        {"noise", number(point.noise)},
                        {"truncation", number(point.truncation)},
                        {"tolerance", number(point.tolerance)}});
    result["curves"].push_back({{"kernel", clean_text(one.kernel)},
                                {"target", clean_text(one.target)},
                                {"phase", one.phase},
                                {"problem", clean_text(one.problem)},
                                {"at", clean_text(one.at)},
                                {"scale", number(one.scale)},
                                {"estimated", one.estimated},
                                {"chosen", one.chosen},
                                {"points", std::move(points)}});
  }
  for (const Audit::Jacobian& one : audit.jacobians)
    result["jacobians"].push_back({{"kernel", clean_text(one.kernel)},
                                   {"target", clean_text(one.target)},
                                   {"phase", one.phase},
                                   {"problem", clean_text(one.problem)},
                                   {"size", one.size},
                                   {"truth", numbers(one.truth)},
                                   {"error", numbers(one.error)},
                                   {"bound", numbers(one.bound)}});
  return result;
}

Json findings_json(const Record& record) {
  Json result = Json::array();
  for (const FindingBlocks& blocks : group_findings(record, std::numeric_limits<std::size_t>::max())) {
    for (const FindingBlock& block : blocks.shown) {
      Json entry = {{"kernel", clean_text(block.kernel)}, {"plugin", clean_text(block.plugin)},
                    {"targets", texts(block.targets)},    {"property", clean_text(block.property)},
                    {"phase", clean_text(block.phase)},   {"convention", clean_text(block.convention)},
                    {"verdict", name_of(block.verdict)}};
      entry.update(rows_json(block.rows));
      entry["also_fails"] = texts(block.also_fails);
      result.push_back(std::move(entry));
    }
  }
  return result;
}

}  // namespace

std::string write_json(const Record& record) {
  const Summary summary = summarize(record);
  Json counts = Json::object();
  for (std::size_t index = 0; index < verdict_count; ++index) {
    counts[std::string(name_of(static_cast<Verdict>(index)))] = summary.counts[index];
  }
  Json skipped = Json::array();
  for (const SkippedTarget& target : record.skipped_targets) {
    skipped.push_back({{"plugin", clean_text(target.plugin)},
                       {"target", clean_text(target.target)},
                       {"reason", clean_text(target.reason)}});
  }
  std::int64_t cases = 0;
  std::int64_t refused = 0;
  Json units = Json::array();
  for (const Unit& unit : record.units) {
    cases += unit.cases;
    refused += unit.refused_cases;
    units.push_back(unit_json(unit));
  }
  Json document = {
      {"schema", record.schema},
      {"version", clean_text(record.version)},
      {"cpu", clean_text(record.cpu)},
      {"seed", record.seed},
      {"effort", clean_text(record.effort)},
      {"jobs", record.jobs},
      {"verdict", summary.verdict},
      {"exit_code", summary.exit_code},
      {"counts", std::move(counts)},
      {"refused_share", cases > 0 ? static_cast<double>(refused) / static_cast<double>(cases) : 0.0},
      {"targets", texts(record.targets)},
      {"skipped_targets", std::move(skipped)},
      {"required_missing", texts(record.required_missing)},
      {"not_claimed", texts(record.not_claimed)},
      {"harness_errors", texts(record.harness_errors)},
      {"findings", findings_json(record)},
      {"units", std::move(units)},
      {"seconds", number(record.seconds)},
  };
  if (record.audit) document["audit"] = audit_json(*record.audit);
  // Text is clean already; `replace` keeps a slip from ending the run in an exception.
  return document.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace normgate
