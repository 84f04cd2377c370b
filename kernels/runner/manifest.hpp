// The manifest of a plugin: read in the worker, from structs that may be older, newer or nonsense; sent as JSON;
// checked by the host, which believes nothing before.
//
// To add a field: a line in manifest.cpp where the struct is read, one in manifest_check.cpp where it is checked.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "kernels/abi/normgate.h"
#include "kernels/runner/runner.hpp"

namespace normgate::runner {

// ---- the worker's side (manifest.cpp)
// --------------------------------------------------------------------------------

// What a worker keeps of a plugin: copies in our size, fields that the plugin does not know are 0.
struct PluginTable {
  ng_plugin plugin{};
  std::vector<ng_kernel> kernels;
};
// Errors in manifests are predicates, to stand behind "plugin 'path' ".
[[nodiscard]] std::variant<PluginTable, std::string> read_table(const ng_plugin* plugin);
// The whole manifest. Numbers are not judged; texts are cut at a bound.
[[nodiscard]] std::string manifest_json(const PluginTable& table);

// ---- the host's side (manifest_check.cpp)
// ----------------------------------------------------------------------------

// `file_name` names a plugin that has no name of its own.
[[nodiscard]] std::variant<Plugin, std::string> check_manifest(const std::string& json, const std::string& file_name);

// A text from outside as one harmless line: what is not printable ASCII becomes '?', a long one is cut.
[[nodiscard]] std::string harmless(std::string_view text, std::size_t limit = 1000);

}  // namespace normgate::runner
