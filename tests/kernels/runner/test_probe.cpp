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
        Fault{"in_place_unknown", "kernel 0 (only)'s in_place is 0x4", "a set of ng_in_place bits"},
        Fault{"in_place_negative", "in_place is 0xff", "a set of ng_in_place bits"},
        Fault{"forward_of_nobody", "forward is \"other\"", "name a kernel of the plugin with the same variant"},
        Fault{"forward_without_backward", "forward is \"only\"", "goes with a backward phase"},
        Fault{"gamma_without_dgamma", "kernel 0 (only) supports gamma without dgamma in backward_training",
              "both or neither"},
        Fault{"dbeta_without_beta", "kernel 0 (only) supports dbeta without beta in backward_inference",
              "both or neither"},
        Fault{"from_output_without_stat", "NG_USE_FROM_OUTPUT but it does not support stat in backward_training",
              "y alone does not tell the deviation"},
        Fault{"from_output_with_mean", "requires mean in backward_training", "y stands in place of x and mean"},
        Fault{"inference_without_statistics", "kernel 0 (only) supports no given statistics in backward_inference",
              "it must support running_mean and running_var, or mean and stat"},
        Fault{"saved_use_unknown", "saved_use is 5", "0 to 4"},
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

TEST(Probe, RolesOfBackwardComeInPairs) {
  const auto set = [](std::initializer_list<Role> roles) {
    std::uint64_t bits = 0;
    for (const Role role : roles) bits |= std::uint64_t{1} << index_of(role);
    return bits;
  };
  const std::uint64_t parameters = set({Role::gamma, Role::beta, Role::dgamma, Role::dbeta});
  const KernelInfo backward = plugin_of("loading_backward").kernels.at(0);
  EXPECT_EQ(backward.phases, (std::vector{Phase::backward_training, Phase::backward_inference}));
  EXPECT_EQ(backward.roles[3].required, set({Role::mean, Role::stat}));
  EXPECT_EQ(backward.roles[3].supported, parameters | set({Role::mean, Role::stat}));
  EXPECT_EQ(backward.roles[4].required, set({Role::running_mean, Role::running_var}));
  EXPECT_EQ(backward.roles[4].supported, parameters | set({Role::running_mean, Role::running_var}));
  EXPECT_EQ(backward.roles[1].supported, 0U);
  EXPECT_TRUE(backward.gradient_in_place);
  EXPECT_FALSE(backward.in_place);
  // From y no mean is needed.
  const KernelInfo from_output = plugin_of("loading_backward_from_output").kernels.at(0);
  EXPECT_EQ(from_output.roles[3].required, set({Role::stat}));
  EXPECT_EQ(from_output.roles[3].supported, parameters | set({Role::stat}));
  EXPECT_EQ(from_output.claim.saved_use, SavedUse::from_output);
  // Roles that are understood declare that there are no others.
  const KernelInfo alone = plugin_of("loading_backward_of_dy_alone").kernels.at(0);
  for (const std::size_t phase : {1U, 3U}) {
    EXPECT_EQ(alone.roles[phase].supported, 0U);
    EXPECT_EQ(alone.roles[phase].required, 0U);
  }
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
