// Manifests: valid ones with their defaults, and every way of not being one.
#include <gtest/gtest.h>

#include "kernels/runner/runner.hpp"

namespace normgate::runner {
namespace {

constexpr std::uint64_t gamma_and_beta = (1U << index_of(Role::gamma)) | (1U << index_of(Role::beta));

std::string plugin_path(const std::string& name) { return std::string(TEST_PLUGINS) + "/" + name + ".so"; }

std::string error_of(const std::string& path, Options options = {}) {
  const auto result = probe(path, options);
  const auto* error = std::get_if<HarnessError>(&result);
  return error != nullptr ? error->sentence : "no error";
}

Plugin plugin_of(const std::string& name) {
  auto result = probe(plugin_path(name), {});
  if (const auto* error = std::get_if<HarnessError>(&result)) {
    ADD_FAILURE() << error->sentence;
    return {};
  }
  return std::get<Plugin>(std::move(result));
}

struct Fault {
  const char* plugin;
  const char* what;   // part of the sentence: what is wrong
  const char* right;  // … and what would be right
};

class InvalidPlugin : public testing::TestWithParam<Fault> {};

TEST_P(InvalidPlugin, GivesASentence) {
  const Fault& fault = GetParam();
  const std::string path = plugin_path(std::string("loading_") + fault.plugin);
  Options options;
  options.cpu_seconds = 0.3;
  const std::string sentence = error_of(path, options);
  EXPECT_NE(sentence.find(path), std::string::npos) << sentence;
  EXPECT_NE(sentence.find(fault.what), std::string::npos) << sentence;
  EXPECT_NE(sentence.find(fault.right), std::string::npos) << sentence;
  for (const char c : sentence) EXPECT_TRUE(c >= ' ' && c <= '~') << sentence;
}

INSTANTIATE_TEST_SUITE_P(
    Probe, InvalidPlugin,
    testing::Values(
        Fault{"constructor_crash", "segmentation fault (SIGSEGV) while it was being loaded", "must succeed"},
        Fault{"constructor_exit", "exit status 0 while it was being loaded", "must return"},
        Fault{"constructor_hang", "hung", "must return"}, Fault{"entry_null", "returned NULL", "must return"},
        Fault{"entry_crash", "abort (SIGABRT) while normgate_plugin_v1", "must succeed"},
        Fault{"wrong_version", "abi_version 2", "version 1"},
        Fault{"no_symbol", "does not export normgate_plugin_v1", "must define"},
        Fault{"kernels_negative", "kernel_count -1", "1 to 4096"},
        Fault{"kernels_many", "kernel_count 2147483647", "1 to 4096"},
        Fault{"kernel_null", "kernel 0 is NULL", "must point to an ng_kernel"},
        Fault{"struct_size_zero", "struct_size 0", "sizeof(ng_kernel)"}, Fault{"name_null", "name is NULL", "letters"},
        Fault{"name_endless", "longer than 200", "NUL"}, Fault{"name_charset", "kernel 0's name is \"Bad", "letters"},
        Fault{"name_twice", "\"only\" of an earlier one", "unique"},
        Fault{"run_null", "kernel 0 (only)'s run is NULL", "must be the function"},
        Fault{"variant_unknown", "variant is 42", "ng_variant"},
        Fault{"alignment_odd", "alignment is 3", "power of two"},
        Fault{"layouts_unknown", "layouts is 0x40", "ng_layout_claim"},
        Fault{"ulp_not_finite", "rsqrt_ulp is not finite", "0 to 2^24"},
        Fault{"conventions_negative", "convention_count -7", "0 to 4096"},
        Fault{"convention_range", "momentum_form is 9", "0 to 3"},
        Fault{"wild_pointer", "segmentation fault (SIGSEGV)", "must be valid"},
        Fault{"target_environment", "NOT AN ASSIGNMENT", "A=1;B=2"}),
    [](const auto& information) { return std::string(information.param.plugin); });

TEST(Probe, MissingFileAndWrongKindOfFile) {
  const std::string missing = error_of("/nowhere/plugin.so");
  EXPECT_NE(missing.find("plugin '/nowhere/plugin.so' cannot be opened: No such file"), std::string::npos) << missing;
  const std::string text = error_of(std::string(TEST_PLUGINS) + "/../CTestTestfile.cmake");
  EXPECT_NE(text.find("cannot be opened as a shared library"), std::string::npos) << text;
}

TEST(Probe, MissingWorkerIsNamed) {
  Options options;
  options.worker_path = "/nowhere/normgate-worker";
  const std::string sentence = error_of(plugin_path("loading_zeros"), options);
  EXPECT_NE(sentence.find("'/nowhere/normgate-worker' cannot be started"), std::string::npos) << sentence;
}

TEST(Probe, ManifestOfZerosHasTheDefaults) {
  const Plugin plugin = plugin_of("loading_zeros");
  EXPECT_EQ(plugin.name, "loading_zeros");
  ASSERT_EQ(plugin.targets.size(), 1U);
  EXPECT_EQ(plugin.targets[0].name, "default");
  EXPECT_EQ(plugin.targets[0].unavailable, "");
  ASSERT_EQ(plugin.kernels.size(), 1U);
  const KernelInfo& kernel = plugin.kernels[0];
  EXPECT_EQ(kernel.name, "only");
  EXPECT_EQ(kernel.variant, Variant::rms_norm);
  EXPECT_EQ(kernel.phases, std::vector<Phase>{Phase::forward_training});
  EXPECT_EQ(kernel.roles[1].supported, gamma_and_beta);
  EXPECT_EQ(kernel.roles[1].required, 0U);
  EXPECT_EQ(kernel.conventions, std::vector<Convention>{Convention{}});
  EXPECT_EQ(kernel.claim, Claim{});
  EXPECT_FALSE(kernel.in_place || kernel.padded || kernel.strided || kernel.mixed || kernel.channels_last);
  EXPECT_EQ(kernel.max_threads, 1);
}

TEST(Probe, RolesOfInferenceRequireGivenStatistics) {
  const Plugin plugin = plugin_of("behaviours");
  const KernelInfo& kernel = plugin.kernels.at(0);
  const std::uint64_t given = (1U << index_of(Role::mean)) | (1U << index_of(Role::stat));
  EXPECT_EQ(kernel.roles[2].required, given);
  EXPECT_EQ(kernel.roles[2].supported, given | gamma_and_beta);
  EXPECT_EQ(kernel.conventions.size(), 2U);
  EXPECT_EQ(kernel.conventions[1].eps, EpsPlacement::outside);
  EXPECT_EQ(kernel.source, "behaviours.cpp:1");
}

TEST(Probe, TargetsThatThisCpuLacksAreTold) {
  const Plugin plugin = plugin_of("behaviours");
  ASSERT_EQ(plugin.targets.size(), 2U);
  EXPECT_EQ(plugin.targets[0].unavailable, "");
  EXPECT_EQ(plugin.targets[1].unavailable, "not on this CPU: avx99, fpu_of_the_future");
  EXPECT_THROW(Worker(plugin, plugin.targets[1], 1, {}), HarnessError);
}

TEST(Probe, KernelsAreThoseOfTheFirstAvailableTargetsEnvironment) {
  const Plugin plugin = plugin_of("loading_targets");
  ASSERT_EQ(plugin.targets.size(), 2U);
  EXPECT_NE(plugin.targets[0].unavailable, "");
  EXPECT_EQ(plugin.targets[1].environment, (std::vector<std::string>{"RUNNER_TEST_LANES=16", "OTHER=a=b"}));
  EXPECT_EQ(plugin.kernels.at(0).claim.group_sum.lanes, 16);
  Worker worker(plugin, plugin.targets[1], 1, {});
  EXPECT_EQ(worker.kernels().at(0).claim.group_sum.lanes, 16);
}

TEST(Probe, OlderAndNewerStructsAreRead) {
  EXPECT_EQ(plugin_of("loading_older_struct").kernels.at(0).name, "only");
  EXPECT_EQ(plugin_of("loading_older_struct").targets.size(), 1U);
  EXPECT_EQ(plugin_of("loading_newer_struct").kernels.at(0).name, "only");
}

}  // namespace
}  // namespace normgate::runner
