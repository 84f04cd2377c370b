// JSON between the processes of one run. It is not the public record (reports/formats/json): both ends are this file.
#include "gate/engine/record_transfer.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

namespace normgate {
namespace {

using Json = nlohmann::json;

std::string number(double value) { return fmt::format("{:a}", value); }
double number(const Json& json) { return std::strtod(json.get_ref<const std::string&>().c_str(), nullptr); }

Json to_json(const Violation& violation) {
  return {{"at", violation.at},
          {"got", violation.got},
          {"want", violation.want},
          {"error", violation.error},
          {"looks_like", violation.looks_like},
          {"diagnosis", violation.diagnosis}};
}

Violation violation_from(const Json& json) {
  return {json.at("at"),    json.at("got"),        json.at("want"),
          json.at("error"), json.at("looks_like"), json.at("diagnosis")};
}

Json to_json(const UnitTally& tally) {
  const Unit& unit = tally.unit;
  Json outputs = Json::array();
  for (const WorstOfOutput& worst : unit.worst_of_outputs)
    outputs.push_back(
        {worst.output, worst.cotangent, number(worst.share_of_bound), worst.at, worst.problem, worst.index});
  Json json = {{"kernel", unit.kernel},
               {"plugin", unit.plugin},
               {"source", unit.source},
               {"variant", unit.variant},
               {"target", unit.target},
               {"phase", unit.phase},
               {"convention", unit.convention},
               {"dtype", unit.dtype},
               {"property", unit.property},
               {"cases", unit.cases},
               {"refused_cases", unit.refused_cases},
               {"failed_cases", unit.failed_cases},
               {"elements", unit.elements},
               {"not_judged", unit.not_judged},
               {"fitting_uses", unit.fitting_uses},
               {"seconds", number(unit.seconds)},
               {"worst",
                {{"share", number(unit.worst.share_of_bound)},
                 {"row_ulp", number(unit.worst.row_ulp)},
                 {"problem", unit.worst.problem},
                 {"output", unit.worst.output}}},
               {"outputs", std::move(outputs)},
               {"discarded", tally.discarded},
               {"skipped", tally.skipped},
               {"grave", tally.grave},
               {"stopped", tally.stopped},
               {"given_up", tally.given_up},
               {"worst_index", tally.worst_index},
               {"refusal_index", tally.refusal_index},
               {"refusal", tally.refusal}};
  if (tally.failure)
    json["failure"] = {{"verdict", static_cast<std::int32_t>(tally.failure->verdict)},
                       {"index", tally.failure->index},
                       {"problem", tally.failure->problem},
                       {"violation", to_json(tally.failure->violation)}};
  return json;
}

UnitTally tally_from(const Json& json) {
  UnitTally tally;
  Unit& unit = tally.unit;
  unit.kernel = json.at("kernel");
  unit.plugin = json.at("plugin");
  unit.source = json.at("source");
  unit.variant = json.at("variant");
  unit.target = json.at("target");
  unit.phase = json.at("phase");
  unit.convention = json.at("convention");
  unit.dtype = json.at("dtype");
  unit.property = json.at("property");
  unit.cases = json.at("cases");
  unit.refused_cases = json.at("refused_cases");
  unit.failed_cases = json.at("failed_cases");
  unit.elements = json.at("elements");
  unit.not_judged = json.at("not_judged");
  unit.fitting_uses = json.at("fitting_uses");
  unit.seconds = number(json.at("seconds"));
  const Json& worst = json.at("worst");
  unit.worst = {number(worst.at("share")), number(worst.at("row_ulp")), worst.at("problem"), worst.at("output")};
  for (const Json& output : json.at("outputs"))
    unit.worst_of_outputs.push_back(
        {output.at(0), output.at(1), number(output.at(2)), output.at(3), output.at(4), output.at(5)});
  tally.discarded = json.at("discarded");
  tally.skipped = json.at("skipped");
  tally.grave = json.at("grave");
  tally.stopped = json.at("stopped");
  tally.given_up = json.at("given_up");
  tally.worst_index = json.at("worst_index");
  tally.refusal_index = json.at("refusal_index");
  tally.refusal = json.at("refusal");
  if (const auto failure = json.find("failure"); failure != json.end())
    tally.failure = Failure{static_cast<Verdict>(failure->at("verdict").get<std::int32_t>()), failure->at("index"),
                            failure->at("problem"), violation_from(failure->at("violation"))};
  return tally;
}

}  // namespace

std::string print_shard(const ShardResult& result) {
  Json json = {{"harness_errors", result.harness_errors}, {"units", Json::array()}};
  for (const UnitTally& tally : result.tallies) json["units"].push_back(to_json(tally));
  // A kernel's text may be anything; bytes that are not UTF-8 are replaced.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

ShardOrError parse_shard(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    ShardResult result;
    result.harness_errors = json.at("harness_errors").get<std::vector<std::string>>();
    for (const Json& unit : json.at("units")) result.tallies.push_back(tally_from(unit));
    return {std::move(result), {}};
  } catch (const Json::exception& error) {
    return {std::nullopt, fmt::format("the result of a gate process cannot be read: {}", error.what())};
  }
}

}  // namespace normgate
