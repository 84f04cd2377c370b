// Reads a plugin's manifest in a worker that is started for this alone.
#include <system_error>

#include "kernels/runner/execute.hpp"
#include "kernels/runner/fenced_memory.hpp"
#include "kernels/runner/manifest.hpp"
#include "kernels/runner/worker_process.hpp"

namespace normgate::runner {
namespace {

std::string file_stem(const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  return name.substr(0, name.find('.'));
}

std::variant<std::string, HarnessError> manifest_text(const std::string& path,
                                                      const std::vector<std::string>& environment,
                                                      const Options& options) {
  Arena arena;
  if (options.in_process) {
    ControlBlock control;
    Executor executor(*control);
    if (const std::string error = executor.load(absolute_path(path), arena.file()); !error.empty())
      return HarnessError{"plugin '" + path + "' " + harmless(error)};
    return executor.manifest();
  }
  auto started = WorkerProcess::start(path, environment, 1, arena.file(), options);
  if (auto* error = std::get_if<HarnessError>(&started)) return *error;
  return std::get<std::unique_ptr<WorkerProcess>>(started)->manifest(options);
}

std::variant<Plugin, HarnessError> read_manifest(const std::string& path, const std::vector<std::string>& environment,
                                                 const Options& options) try {
  auto text = manifest_text(path, environment, options);
  if (auto* error = std::get_if<HarnessError>(&text)) return *error;
  return checked_manifest(std::get<std::string>(text), path);
} catch (const std::system_error& error) {
  return HarnessError{std::string("no memory for a worker: ") + error.what()};
}

}  // namespace

std::variant<Plugin, HarnessError> checked_manifest(const std::string& text, const std::string& path) {
  auto plugin = check_manifest(text, file_stem(path));
  if (auto* predicate = std::get_if<std::string>(&plugin)) return HarnessError{"plugin '" + path + "' " + *predicate};
  auto& result = std::get<Plugin>(plugin);
  result.path = path;
  return std::move(result);
}

std::variant<Plugin, HarnessError> probe(const std::string& path, const Options& options) {
  auto plain = read_manifest(path, {}, options);
  auto* plugin = std::get_if<Plugin>(&plain);
  if (plugin == nullptr) return plain;
  // The kernels are those of the first target that this CPU has; a target without an environment has been read already.
  for (const TargetInfo& target : plugin->targets) {
    if (!target.unavailable.empty()) continue;
    if (target.environment.empty()) break;
    auto read = read_manifest(path, target.environment, options);
    auto* again = std::get_if<Plugin>(&read);
    if (again == nullptr) return read;
    plugin->kernels = std::move(again->kernels);
    break;
  }
  return plain;
}

}  // namespace normgate::runner
