// Reads the structs of a plugin. The only place that does; it runs in the worker, where a wild pointer kills nobody
// else.
#include "kernels/runner/manifest.hpp"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "kernels/runner/protocol.hpp"

namespace normgate::runner {
namespace {

using nlohmann::json;

constexpr std::size_t text_limit = 2000;  // longer texts are cut here and refused by the host
constexpr std::size_t struct_limit = std::size_t{1} << 20U;

// A struct of the plugin in our size. Shorter ones are older: what they lack is 0. `error` is a predicate.
template <typename Struct>
bool copy_struct(Struct& ours, const Struct* theirs, const char* type, const std::string& where, std::string& error) {
  if (theirs == nullptr) {
    error = where + " is NULL; it must point to an " + type;
    return false;
  }
  std::size_t size = 0;
  std::memcpy(&size, theirs, sizeof size);
  if (size <= sizeof size || size > struct_limit) {
    error = where + " has struct_size " + std::to_string(size) + "; it must be sizeof(" + type + "), set by the plugin";
    return false;
  }
  std::memset(&ours, 0, sizeof ours);
  std::memcpy(&ours, theirs, std::min(size, sizeof ours));
  ours.struct_size = sizeof ours;
  return true;
}

json text_of(const char* text) {
  if (text == nullptr) return nullptr;
  return std::string(text, strnlen(text, text_limit));
}

json convention_of(const ng_convention& convention) {
  return json::array({convention.normalizing_divisor, convention.stored_divisor, convention.single_count,
                      convention.momentum_form, convention.eps_placement, convention.gamma_offset,
                      convention.saved_statistic, convention.gradients, convention.scalars});
}

bool add_sum(json& claim, const char* name, const ng_sum* theirs, const std::string& where, std::string& error) {
  if (theirs == nullptr) return true;
  ng_sum sum;
  if (!copy_struct(sum, theirs, "ng_sum", where + "'s " + name, error)) return false;
  claim[name] = {{"order", sum.order}, {"lanes", sum.lanes}, {"block", sum.block}};
  return true;
}

bool add_claim(json& kernel, const ng_claim* theirs, const std::string& where, std::string& error) {
  if (theirs == nullptr) return true;
  ng_claim claim;
  if (!copy_struct(claim, theirs, "ng_claim", where + "'s claim", error)) return false;
  json& result = kernel["claim"];
  result = {{"accumulator", claim.accumulator}, {"statistics", claim.statistics},
            {"variance", claim.variance},       {"form", claim.form},
            {"rsqrt_ulp", claim.rsqrt_ulp},     {"subnormals", claim.subnormals},
            {"saved_use", claim.saved_use},     {"promises", claim.promises}};
  return add_sum(result, "group_sum", claim.group_sum, where, error) &&
         add_sum(result, "across_groups", claim.across_groups, where, error);
}

bool add_kernel(json& list, const ng_kernel& kernel, std::int32_t index, std::string& error) {
  const std::string where = "kernel " + std::to_string(index);
  json entry = {{"name", text_of(kernel.name)},        {"source", text_of(kernel.source)},
                {"variant", kernel.variant},           {"phases", kernel.phases},
                {"supported", kernel.supported_roles}, {"required", kernel.required_roles},
                {"layouts", kernel.layouts},           {"in_place", kernel.in_place},
                {"alignment", kernel.alignment},       {"over_read_bytes", kernel.over_read_bytes},
                {"max_threads", kernel.max_threads},   {"runs", kernel.run != nullptr},
                {"forward", text_of(kernel.forward)}};
  json& conventions = entry["conventions"];
  conventions = json::array();
  if (kernel.convention_count < 0 || kernel.convention_count > list_capacity) {
    error = where + " has convention_count " + std::to_string(kernel.convention_count) + "; it must be 0 to " +
            std::to_string(list_capacity);
    return false;
  }
  if (kernel.convention_count > 0 && kernel.convention == nullptr) {
    error = where + " counts " + std::to_string(kernel.convention_count) +
            " conventions but its `convention` is NULL; it must be the function that returns them";
    return false;
  }
  for (std::int32_t i = 0; i < kernel.convention_count; ++i) {
    ng_convention convention;
    const std::string name = where + "'s convention " + std::to_string(i);
    if (!copy_struct(convention, kernel.convention(i), "ng_convention", name, error)) return false;
    conventions.push_back(convention_of(convention));
  }
  if (!add_claim(entry, kernel.claim, where, error)) return false;
  list.push_back(std::move(entry));
  return true;
}

}  // namespace

std::variant<PluginTable, std::string> read_table(const ng_plugin* plugin) {
  PluginTable table;
  std::string error;
  if (plugin == nullptr)
    return std::string(
        "returned NULL from normgate_plugin_v1; it must return its ng_plugin, whatever size the host has");
  if (!copy_struct(table.plugin, plugin, "ng_plugin", "its ng_plugin", error)) return "is not usable: " + error;
  if (table.plugin.abi_version != NG_ABI_VERSION)
    return "has abi_version " + std::to_string(table.plugin.abi_version) + "; this gate speaks version " +
           std::to_string(NG_ABI_VERSION) + " (NG_ABI_VERSION of normgate.h)";
  const std::int32_t count = table.plugin.kernel_count;
  if (count < 1 || count > list_capacity)
    return "has kernel_count " + std::to_string(count) + "; it must be 1 to " + std::to_string(list_capacity);
  if (table.plugin.kernel == nullptr)
    return std::string("has no `kernel` function (NULL); it must return the kernel of an index");
  table.kernels.resize(static_cast<std::size_t>(count));
  for (std::int32_t i = 0; i < count; ++i)
    if (!copy_struct(table.kernels[static_cast<std::size_t>(i)], table.plugin.kernel(i), "ng_kernel",
                     "kernel " + std::to_string(i), error))
      return "has an invalid manifest: " + error;
  return table;
}

std::string manifest_json(const PluginTable& table) {
  json result = {{"name", text_of(table.plugin.name)}, {"version", text_of(table.plugin.version)}};
  std::string error;
  json& kernels = result["kernels"];
  kernels = json::array();
  for (std::size_t i = 0; i < table.kernels.size() && error.empty(); ++i)
    add_kernel(kernels, table.kernels[i], static_cast<std::int32_t>(i), error);

  json& targets = result["targets"];
  targets = json::array();
  const std::int32_t count = table.plugin.target_count;
  if (error.empty() && (count < 0 || count > list_capacity))
    error =
        "target_count is " + std::to_string(count) + "; it must be 0 (one target) to " + std::to_string(list_capacity);
  if (error.empty() && count > 0 && table.plugin.target == nullptr)
    error = "target_count is " + std::to_string(count) +
            " but `target` is NULL; it must be the function that returns the targets";
  for (std::int32_t i = 0; i < count && error.empty(); ++i) {
    ng_target target;
    if (copy_struct(target, table.plugin.target(i), "ng_target", "target " + std::to_string(i), error))
      targets.push_back({{"name", text_of(target.name)},
                         {"environment", text_of(target.environment)},
                         {"cpu_features", text_of(target.cpu_features)}});
  }
  if (!error.empty()) result = {{"error", error}};
  // Texts of a plugin need not be UTF-8; the host refuses them by their characters.
  return result.dump(-1, ' ', true, json::error_handler_t::replace);
}

}  // namespace normgate::runner
