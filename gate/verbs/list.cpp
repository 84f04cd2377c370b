// normgate list: the names that the other verbs take.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "gate/verbs/museum.hpp"
#include "gate/verbs/options.hpp"
#include "reference/problem/convention.hpp"

namespace normgate::verbs {
namespace {

void list_kernels(const Gate& gate) {
  for (const auto& plugin : gate.plugins) {
    fmt::print("{}{}{}  {}\n", plugin->name, plugin->version.empty() ? "" : " ", plugin->version, plugin->path);
    for (const runner::KernelInfo& kernel : plugin->kernels) {
      std::vector<std::string_view> phases;
      for (const Phase phase : kernel.phases) phases.push_back(name_of(phase));
      std::vector<std::string> conventions;
      for (const Convention& convention : kernel.conventions) conventions.push_back(print(convention));
      fmt::print("  {}  {}  {}  {}{}{}\n", kernel.name, kernel.variant ? row_of(*kernel.variant).name : "custom",
                 fmt::join(phases, " "), fmt::join(conventions, " "), kernel.source.empty() ? "" : "  ", kernel.source);
    }
  }
}

void list_targets(const Gate& gate) {
  for (const auto& plugin : gate.plugins)
    for (const runner::TargetInfo& target : plugin->targets)
      fmt::print("{}  {}  {}\n", target.name, plugin->name,
                 target.unavailable.empty() ? "available" : target.unavailable);
}

void list_properties() {
  for (const Property* property : property_list()) fmt::print("{}  {}\n", property->name, property->sentence);
}

// Each sentence with the broken kernels that show that the gate holds kernels to it.
void list_catalogue() {
  for (const Property* property : property_list()) {
    fmt::print("{}\n  {}\n", property->name, property->sentence);
    for (const MuseumPiece& piece : museum())
      if (piece.property == property->name)
        fmt::print("    {}{}{}\n", piece.name, piece.diagnosis.empty() ? "" : "  looks like ", piece.diagnosis);
  }
}

void list_conventions() {
  for (const ConventionPreset& preset : convention_table()) fmt::print("{}  {}\n", preset.name, preset.source);
}

void list_profiles() {
  for (const Profile profile : {Profile::conditioned, Profile::exact, Profile::exact_sum, Profile::needle,
                                Profile::special, Profile::near_constant, Profile::constant, Profile::outlier_channels,
                                Profile::parameter_rounding, Profile::drift})
    fmt::print("{}\n", name_of(profile));
}

void list_cotangents() {
  for (const Cotangent cotangent : {Cotangent::random, Cotangent::ones, Cotangent::pooled, Cotangent::normalized,
                                    Cotangent::mixed, Cotangent::unit})
    fmt::print("{}\n", name_of(cotangent));
}

int list(CommonOptions& common, const std::vector<std::string>& subjects, bool catalogue) {
  if (catalogue) {
    if (!subjects.empty()) return usage_error("--properties prints the catalogue of properties and nothing else");
    list_catalogue();
    return exit_passed;
  }
  if (auto sentence = complete(common)) return usage_error(*sentence);
  const auto wanted = [&](std::string_view subject) {
    return subjects.empty() || std::find(subjects.begin(), subjects.end(), subject) != subjects.end();
  };
  const auto title = [&](std::string_view subject) {
    if (subjects.size() != 1) fmt::print("{}:\n", subject);
  };
  int exit_code = exit_passed;
  if (wanted("kernels") || wanted("targets")) {
    const Gate gate = open_gate(common.run);
    for (const std::string& error : gate.harness_errors) {
      fmt::print(stderr, "normgate: {}\n", error);
      exit_code = exit_harness;
    }
    if (wanted("kernels")) {
      title("kernels");
      list_kernels(gate);
    }
    if (wanted("targets")) {
      title("targets");
      list_targets(gate);
    }
  }
  if (wanted("properties")) {
    title("properties");
    list_properties();
  }
  if (wanted("conventions")) {
    title("conventions");
    list_conventions();
  }
  if (wanted("profiles")) {
    title("profiles");
    list_profiles();
  }
  if (wanted("cotangents")) {
    title("cotangents");
    list_cotangents();
  }
  return exit_code;
}

}  // namespace

void add_list(CLI::App& command, int& exit_code) {
  auto options = std::make_shared<CommonOptions>();
  auto subjects = std::make_shared<std::vector<std::string>>();
  CLI::App* verb = command.add_subcommand("list", "kernels, targets, properties, conventions, profiles, cotangents");
  verb->add_option("subjects", *subjects,
                   "kernels, targets, properties, conventions, profiles, cotangents; default: all")
      ->check(CLI::IsMember({"kernels", "targets", "properties", "conventions", "profiles", "cotangents"}));
  verb->add_option("--plugin", options->run.plugins, "a plugin to load (repeatable); default: the built-in ones")
      ->type_name("FILE")
      ->allow_extra_args(false);
  auto catalogue = std::make_shared<bool>(false);
  verb->add_flag("--properties", *catalogue, "the properties as sentences, each with the broken kernels it must catch");
  add_runner_options(*verb, *options);
  verb->callback([options, subjects, catalogue, &exit_code] { exit_code = list(*options, *subjects, *catalogue); });
}

}  // namespace normgate::verbs
