// Checks a manifest that came from a worker, field by field; every refusal names the kernel and says what would be
// right.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "kernels/runner/manifest.hpp"
#include "kernels/runner/protocol.hpp"

namespace normgate::runner {
namespace {

using nlohmann::json;

// Inside this file a refusal is thrown; it leaves check_manifest as a value.
struct Refusal {
  std::string predicate;
};
[[noreturn]] void refuse(const std::string& predicate) { throw Refusal{"has an invalid manifest: " + predicate}; }

std::int64_t integer(const json& object, const char* field, const std::string& where, std::int64_t low,
                     std::int64_t high, const std::string& meaning) {
  const json& value = object.at(field);
  const bool huge = value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{INT64_MAX};
  if (!value.is_number_integer() || huge || value.get<std::int64_t>() < low || value.get<std::int64_t>() > high)
    refuse(where + "'s " + field + " is " + harmless(value.dump(), 40) + "; it must be " + meaning);
  return value.get<std::int64_t>();
}

template <typename Enum>
Enum enumeration(const json& object, const char* field, const std::string& where, std::int64_t last) {
  return static_cast<Enum>(
      integer(object, field, where, 0, last, "0 to " + std::to_string(last) + ", as normgate.h numbers them"));
}

std::uint64_t bits(const json& value, const char* field, const std::string& where, std::uint64_t known,
                   const std::string& meaning) {
  const auto set = value.get<std::uint64_t>();
  if ((set & ~known) != 0) {
    std::ostringstream hexadecimal;
    hexadecimal << std::hex << set;
    refuse(where + "'s " + field + " is 0x" + hexadecimal.str() + "; it must be " + meaning);
  }
  return set;
}

bool consists_of(const std::string& text, std::string_view others) {
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || others.find(c) != std::string_view::npos;
  });
}

// A text that may be absent: then empty.
std::string text(const json& object, const char* field, const std::string& where, std::size_t limit) {
  const json& value = object.at(field);
  if (value.is_null()) return "";
  auto result = value.get<std::string>();
  if (result.size() > limit)
    refuse(where + "'s " + field + " is longer than " + std::to_string(limit) +
           " characters; it must be shorter and end with a NUL");
  if (!std::all_of(result.begin(), result.end(), [](char c) { return c >= ' ' && c <= '~'; }))
    refuse(where + "'s " + field + " is \"" + harmless(result, 40) + "\"; it must be printable ASCII");
  return result;
}

std::string name_of_entry(const json& object, const std::string& where, std::string_view others,
                          const std::string& pattern) {
  if (object.at("name").is_null()) refuse(where + "'s name is NULL; it must be " + pattern);
  const auto name = object.at("name").get<std::string>();
  if (name.size() > 200) refuse(where + "'s name is longer than 200 characters; it must end with a NUL before");
  if (name.empty() || !consists_of(name, others))
    refuse(where + "'s name is \"" + harmless(name, 40) + "\"; it must be " + pattern);
  return name;
}

Sum sum_of(const json& claim, const char* field, const std::string& where) {
  Sum sum;
  const auto found = claim.find(field);
  if (found == claim.end()) return sum;
  const std::string name = where + "'s " + field;
  constexpr std::int64_t limit = std::int64_t{1} << 20U;
  sum.order = enumeration<SumOrder>(*found, "order", name, 3);
  sum.lanes = integer(*found, "lanes", name, 0, limit, "1 to 2^20 partial sums (0: 1)");
  sum.block = integer(*found, "block", name, 0, limit, "1 to 2^20 terms (0: 1)");
  sum.lanes = std::max<std::int64_t>(sum.lanes, 1);
  sum.block = std::max<std::int64_t>(sum.block, 1);
  return sum;
}

Claim claim_of(const json& kernel, const std::string& where) {
  Claim result;
  const auto found = kernel.find("claim");
  if (found == kernel.end()) return result;
  const json& claim = *found;
  result.accumulator = enumeration<ScalarType>(claim, "accumulator", where, 1);
  result.statistics = enumeration<ScalarType>(claim, "statistics", where, 1);
  result.variance = enumeration<VarianceAlgorithm>(claim, "variance", where, 2);
  result.form = enumeration<AffineForm>(claim, "form", where, 1);
  result.subnormals = enumeration<Subnormals>(claim, "subnormals", where, 1);
  result.saved_use = enumeration<SavedUse>(claim, "saved_use", where, 4);
  result.group_sum = sum_of(claim, "group_sum", where);
  result.across_groups = sum_of(claim, "across_groups", where);
  const json& ulp = claim.at("rsqrt_ulp");  // JSON has no NaN and no infinity: they arrive as null
  if (!ulp.is_number() || !(ulp.get<double>() >= 0) || ulp.get<double>() > 0x1p24)
    refuse(where + "'s rsqrt_ulp is " + (ulp.is_number() ? harmless(ulp.dump(), 40) : "not finite") +
           "; it must be a number of ulp from 0 to 2^24");
  result.rsqrt_ulp = ulp.get<double>();
  const std::uint64_t promises =
      bits(claim.at("promises"), "promises", where, 0x3FF, "a set of ng_promise bits, of which the highest is 512");
  result.constant_exact = (promises & NG_CONSTANT_EXACT) != 0;
  result.scale_covariant = (promises & NG_SCALE_COVARIANT) != 0;
  result.row_independent = (promises & NG_ROW_INDEPENDENT) != 0;
  result.batch_invariant = (promises & NG_BATCH_INVARIANT) != 0;
  result.ieee_specials = (promises & NG_IEEE_SPECIALS) != 0;
  result.divides_by_n = (promises & NG_DIVIDES_BY_N) != 0;
  result.deterministic = (promises & NG_NOT_DETERMINISTIC) == 0;
  result.layout_invariant = (promises & NG_LAYOUT_INVARIANT) != 0;
  result.thread_invariant = (promises & NG_THREAD_INVARIANT) != 0;
  result.caller_state_invariant = (promises & NG_CALLER_STATE_INVARIANT) != 0;
  return result;
}

std::vector<Convention> conventions_of(const json& kernel, const std::string& where) {
  struct Field {
    const char* name;
    std::int64_t last;
  };
  static constexpr Field fields[] = {{"normalizing_divisor", 1}, {"stored_divisor", 1}, {"single_count", 2},
                                     {"momentum_form", 3},       {"eps_placement", 2},  {"gamma_offset", 1},
                                     {"saved_statistic", 1},     {"gradients", 1},      {"scalars", 1}};
  std::vector<Convention> result;
  const json& list = kernel.at("conventions");
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string name = where + "'s convention " + std::to_string(i);
    json named = json::object();
    for (std::size_t f = 0; f < std::size(fields); ++f) {
      named[fields[f].name] = list[i].at(f);
      (void)enumeration<std::int32_t>(named, fields[f].name, name, fields[f].last);
    }
    const auto number = [&](std::size_t f) { return list[i][f].get<std::int32_t>(); };
    Convention convention;
    convention.normalizing = static_cast<NormalizingDivisor>(number(0));
    convention.stored = static_cast<StoredDivisor>(number(1));
    convention.single = static_cast<SingleCount>(number(2));
    convention.momentum = static_cast<MomentumForm>(number(3));
    convention.eps = static_cast<EpsPlacement>(number(4));
    convention.gamma = static_cast<GammaOffset>(number(5));
    convention.saved = static_cast<SavedStatistic>(number(6));
    convention.gradients = static_cast<Gradients>(number(7));
    convention.scalars = static_cast<Scalars>(number(8));
    if (std::find(result.begin(), result.end(), convention) != result.end())
      refuse(name + " repeats an earlier one; each must be listed once");
    result.push_back(convention);
  }
  if (result.empty()) result.emplace_back();
  return result;
}

std::uint64_t bit(Role role) { return std::uint64_t{1} << index_of(role); }

// What the ABI means when a phase declares no roles: gamma and beta may be there or not, given and saved statistics
// are. A backward that works from y is handed no mean.
PhaseRoles default_roles(std::optional<Variant> variant, Phase phase, SavedUse use) {
  PhaseRoles roles{bit(Role::gamma) | bit(Role::beta), 0};
  if (phase == Phase::forward_inference || phase == Phase::backward_inference) {
    if (variant == Variant::batch_norm || variant == Variant::instance_norm)
      roles.required = bit(Role::running_mean) | bit(Role::running_var);
    else if (variant == Variant::rms_norm)
      roles.required = bit(Role::stat);
    else if (variant)
      roles.required = bit(Role::mean) | bit(Role::stat);
  }
  if (phase == Phase::backward_training) {
    roles.required |= bit(Role::stat);
    if (variant != Variant::rms_norm && use != SavedUse::from_output) roles.required |= bit(Role::mean);
  }
  if (is_backward(phase)) roles.supported |= bit(Role::dgamma) | bit(Role::dbeta);
  roles.supported |= roles.required;
  return roles;
}

// The phases of statistics have the same roles always.
PhaseRoles roles_of_statistics(const VariantRow& row, Phase phase) {
  const bool merges = phase == Phase::merge_statistics;
  std::uint64_t roles = bit(Role::stat) | (merges ? bit(Role::part_stat) | bit(Role::part_count) : 0);
  if (row.centred) roles |= bit(Role::mean) | (merges ? bit(Role::part_mean) : 0);
  return {roles, roles};
}

// gamma and beta may be declared; the others have no choice or come with them.
PhaseRoles roles_of_double_backward(std::uint64_t supported, std::uint64_t required) {
  const std::uint64_t optional = bit(Role::gamma) | bit(Role::beta);
  const bool undeclared = (supported | required) == 0;
  PhaseRoles roles{(undeclared ? optional : (supported | required) & optional), required & optional};
  const auto with = [](std::uint64_t& set) {
    if ((set & bit(Role::gamma)) != 0) set |= bit(Role::ddgamma) | bit(Role::dgamma);
    if ((set & bit(Role::beta)) != 0) set |= bit(Role::ddbeta);
    set |= bit(Role::ddx) | bit(Role::ddy);
  };
  with(roles.supported);
  with(roles.required);
  return roles;
}

// Inference is about statistics that are given: a kernel that could be handed none could not be tried.
void check_given_statistics(const PhaseRoles& roles, const VariantRow& row, Phase phase, const std::string& where) {
  const auto supports = [&](Role role) { return (roles.supported & bit(role)) != 0; };
  const bool saved = supports(Role::stat) && (!row.centred || supports(Role::mean));
  const bool running =
      !row.running.empty() && supports(Role::running_var) && (!row.centred || supports(Role::running_mean));
  if (saved || running) return;
  refuse(where + " supports no given statistics in " + std::string(normgate::name_of(phase)) + "; it must support " +
         (row.running.empty() ? "" : "running_mean and running_var, or ") + (row.centred ? "mean and stat" : "stat"));
}

// What a backward kernel may not combine.
void check_backward_roles(const PhaseRoles& roles, Phase phase, SavedUse use, const std::string& where) {
  const std::string in_phase = " in " + std::string(normgate::name_of(phase));
  const auto both = [&](Role parameter, Role gradient) {
    const bool one = (roles.supported & bit(parameter)) != 0;
    if (one != ((roles.supported & bit(gradient)) != 0))
      refuse(where + " supports " + std::string(normgate::name_of(one ? parameter : gradient)) + " without " +
             std::string(normgate::name_of(one ? gradient : parameter)) + in_phase +
             "; it must support both or neither");
  };
  both(Role::gamma, Role::dgamma);
  both(Role::beta, Role::dbeta);
  if (phase != Phase::backward_training || use != SavedUse::from_output) return;
  if ((roles.supported & bit(Role::stat)) == 0)
    refuse(where + "'s saved_use is NG_USE_FROM_OUTPUT but it does not support stat" + in_phase +
           "; it must: y alone does not tell the deviation");
  if ((roles.required & bit(Role::mean)) != 0)
    refuse(where + " requires mean" + in_phase +
           " and its saved_use is NG_USE_FROM_OUTPUT; it must do without: y stands in place of x and mean");
}

KernelInfo kernel_of(const json& kernel, std::int32_t index) {
  KernelInfo result;
  result.index = index;
  std::string where = "kernel " + std::to_string(index);
  result.name = name_of_entry(kernel, where, "_./-", "of the letters a-z, digits and _ . / -");
  where += " (" + result.name + ")";
  result.source = text(kernel, "source", where, 500);
  const json& variant = kernel.at("variant");
  const auto number = variant.get<std::int64_t>();
  if (number != NG_CUSTOM) {
    if (number < 1 || number > 5)
      refuse(where + "'s variant is " + std::to_string(number) + "; it must be an ng_variant: 1 to 5, or 100");
    result.variant = static_cast<Variant>(number);
  }
  if (!kernel.at("runs").get<bool>()) refuse(where + "'s run is NULL; it must be the function that computes");

  result.claim = claim_of(kernel, where);
  auto phases = bits(kernel.at("phases"), "phases", where, 0x17E,
                     "a set of bits 1 << ng_phase of the phases 1 to 6 and 8 (7 and 9 to 15 are reserved)");
  if (phases == 0) phases = 1U << NG_FORWARD_TRAINING;
  constexpr std::uint64_t all_roles = (std::uint64_t{1} << role_count) - 1;
  const std::string role_meaning = "a set of NG_ROLE_BIT(role) of the roles 0 to 24";
  for (const Phase judged : judged_phases) {
    const auto phase = static_cast<std::size_t>(judged);
    if (((phases >> phase) & 1U) == 0) continue;
    result.phases.push_back(static_cast<Phase>(phase));
    const bool of_a_row =
        is_statistics(static_cast<Phase>(phase)) || static_cast<Phase>(phase) == Phase::double_backward;
    if (of_a_row && !result.variant)
      refuse(where + " is custom and has phase " + std::string(normgate::name_of(static_cast<Phase>(phase))) +
             "; it must have phases 1 to 4 only: which axes are reduced is not known");
    if (is_statistics(static_cast<Phase>(phase))) {
      result.roles[phase] = roles_of_statistics(row_of(*result.variant), static_cast<Phase>(phase));
      continue;
    }
    PhaseRoles roles;
    roles.supported = bits(kernel.at("supported").at(phase), "supported_roles", where, all_roles, role_meaning);
    roles.required = bits(kernel.at("required").at(phase), "required_roles", where, all_roles, role_meaning);
    const std::uint64_t understood = bit(Role::x) | bit(Role::y) | bit(Role::dy) | bit(Role::dx);
    if (judged == Phase::double_backward) {
      result.roles[phase] = roles_of_double_backward(roles.supported, roles.required);
      continue;
    }
    const bool undeclared = (roles.supported | roles.required) == 0;
    roles.supported &= ~understood;
    roles.required &= ~understood;
    roles.supported |= roles.required;
    const auto number_of = static_cast<Phase>(phase);
    if (undeclared) roles = default_roles(result.variant, number_of, result.claim.saved_use);
    if (result.variant && !is_training(number_of))
      check_given_statistics(roles, row_of(*result.variant), number_of, where);
    if (is_backward(number_of)) check_backward_roles(roles, number_of, result.claim.saved_use, where);
    result.roles[phase] = roles;
  }

  result.conventions = conventions_of(kernel, where);
  const auto layouts = bits(kernel.at("layouts"), "layouts", where, 0xF, "a set of ng_layout_claim bits");
  result.channels_last = (layouts & NG_LAYOUT_CHANNELS_LAST) != 0;
  result.padded = (layouts & NG_LAYOUT_PADDED) != 0;
  result.strided = (layouts & NG_LAYOUT_STRIDED) != 0;
  result.mixed = (layouts & NG_LAYOUT_MIXED) != 0;
  const auto in_place =
      bits(kernel.at("in_place"), "in_place", where, 0x3, "a set of ng_in_place bits, of which the highest is 2");
  result.in_place = (in_place & NG_IN_PLACE_Y) != 0;
  result.gradient_in_place = (in_place & NG_IN_PLACE_DX) != 0;
  const std::string alignment_meaning = "0 (natural) or a power of two up to 4096, in bytes";
  result.alignment = static_cast<std::int32_t>(integer(kernel, "alignment", where, 0, 4096, alignment_meaning));
  if ((result.alignment & (result.alignment - 1)) != 0)
    refuse(where + "'s alignment is " + std::to_string(result.alignment) + "; it must be " + alignment_meaning);
  result.over_read_bytes =
      static_cast<std::int32_t>(integer(kernel, "over_read_bytes", where, 0, 4096, "0 to 4096 bytes"));
  result.max_threads =
      static_cast<std::int32_t>(integer(kernel, "max_threads", where, 0, 4096, "1 to 4096 threads (0: 1)"));
  result.max_threads = std::max(result.max_threads, 1);
  return result;
}

const std::set<std::string>& cpu_flags() {
  static const std::set<std::string> flags = [] {
    std::set<std::string> result;
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
      if (line.rfind("flags", 0) != 0 && line.rfind("Features", 0) != 0) continue;
      std::istringstream words(line.substr(line.find(':') + 1));
      for (std::string word; words >> word;) result.insert(word);
      break;
    }
    return result;
  }();
  return flags;
}

bool is_assignment(const std::string& item) {
  const std::size_t equals = item.find('=');
  if (equals == std::string::npos || equals == 0) return false;
  return std::all_of(item.begin(), item.begin() + static_cast<std::ptrdiff_t>(equals), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

TargetInfo target_of(const json& target, std::int32_t index) {
  TargetInfo result;
  std::string where = "target " + std::to_string(index);
  result.name = name_of_entry(target, where, "_.-", "of the letters a-z, digits and _ . -");
  where += " (" + result.name + ")";
  std::istringstream environment(text(target, "environment", where, 1900));
  for (std::string item; std::getline(environment, item, ';');) {
    if (item.empty()) continue;
    if (!is_assignment(item))
      refuse(where + "'s environment has \"" + harmless(item, 40) + "\"; it must be assignments like \"A=1;B=2\"");
    result.environment.push_back(item);
  }
  std::istringstream features(text(target, "cpu_features", where, 1900));
  for (std::string feature; features >> feature;) {
    if (!consists_of(feature, "_"))
      refuse(where + "'s cpu_features has \"" + harmless(feature, 40) + "\"; it must be flags of /proc/cpuinfo");
    result.cpu_features.push_back(feature);
    if (!cpu_flags().contains(feature))
      result.unavailable += (result.unavailable.empty() ? "not on this CPU: " : ", ") + feature;
  }
  return result;
}

// Once all kernels are known.
void find_forwards(const json& kernels, std::vector<KernelInfo>& infos) {
  for (std::size_t i = 0; i < infos.size(); ++i) {
    const std::string where = "kernel " + std::to_string(i) + " (" + infos[i].name + ")";
    const std::string name = text(kernels.at(i), "forward", where, 500);
    if (name.empty()) continue;
    const auto has_phase = [](const KernelInfo& kernel, auto is_wanted) {
      return std::any_of(kernel.phases.begin(), kernel.phases.end(), is_wanted);
    };
    const auto found =
        std::find_if(infos.begin(), infos.end(), [&](const KernelInfo& kernel) { return kernel.name == name; });
    const bool fits = found != infos.end() && found->variant == infos[i].variant && has_phase(*found, is_forward) &&
                      has_phase(infos[i], is_backward);
    if (!fits)
      refuse(where + "'s forward is \"" + harmless(name, 40) +
             "\"; it must name a kernel of the plugin with the same variant and a forward phase, and goes with a "
             "backward phase");
    infos[i].forward = std::make_shared<const KernelInfo>(*found);
  }
}

Plugin plugin_of(const json& manifest, const std::string& file_name) {
  if (const auto error = manifest.find("error"); error != manifest.end())
    refuse(harmless(error->get<std::string>(), 500));
  Plugin result;
  result.name = text(manifest, "name", "the plugin", 200);
  if (result.name.empty()) result.name = file_name;
  result.version = text(manifest, "version", "the plugin", 200);
  const json& kernels = manifest.at("kernels");
  if (kernels.empty() || kernels.size() > static_cast<std::size_t>(list_capacity))
    refuse("it lists " + std::to_string(kernels.size()) + " kernels; it must list 1 to 4096");
  std::set<std::string> names;
  for (const json& kernel : kernels) {
    result.kernels.push_back(kernel_of(kernel, static_cast<std::int32_t>(result.kernels.size())));
    const KernelInfo& last = result.kernels.back();
    if (!names.insert(last.name).second)
      refuse("kernel " + std::to_string(last.index) + " has the name \"" + last.name +
             "\" of an earlier one; names must be unique in a plugin");
  }
  find_forwards(kernels, result.kernels);
  names.clear();
  for (const json& target : manifest.at("targets")) {
    result.targets.push_back(target_of(target, static_cast<std::int32_t>(result.targets.size())));
    if (!names.insert(result.targets.back().name).second)
      refuse("two targets have the name \"" + result.targets.back().name + "\"; names must be unique in a plugin");
  }
  if (result.targets.empty()) result.targets.push_back(TargetInfo{"default", {}, {}, ""});
  return result;
}

}  // namespace

std::variant<Plugin, std::string> check_manifest(const std::string& text_of_manifest, const std::string& file_name) {
  try {
    return plugin_of(json::parse(text_of_manifest), file_name);
  } catch (const Refusal& refusal) {
    return refusal.predicate;
  } catch (const json::exception& error) {
    return "has a manifest that arrived damaged (the plugin wrote over the worker's memory?): " +
           harmless(error.what(), 200);
  }
}

std::string harmless(std::string_view text, std::size_t limit) {
  std::string result;
  for (const char c : text.substr(0, limit))
    result += (c >= ' ' && c <= '~') ? c : (c == '\n' || c == '\t' ? ' ' : '?');
  if (text.size() > limit) result += "...";
  return result;
}

}  // namespace normgate::runner
