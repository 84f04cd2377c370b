// The command. To add a verb: a file beside this one with a function `add_VERB`, its declaration in options.hpp, and a
// line here.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <new>

#include "gate/verbs/options.hpp"

int main(int argc, char** argv) {
  using namespace normgate;
  // A reader that goes away (`| head`) is no reason to die silently in the middle of writing a file.
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App command("normgate proves or refutes that a normalization kernel computes what it claims.", "normgate");
  command.set_version_flag("--version", "normgate " + version());
  command.require_subcommand(1);
  command.footer(
      "Exit codes: 0 passed; 1 the gate failed; 2 usage; 3 the harness, or a self-check that failed;\n"
      "4 nothing was tested; 5 incomplete.");
  int exit_code = verbs::exit_passed;
  verbs::add_check(command, exit_code);
  verbs::add_audit(command, exit_code);
  verbs::add_list(command, exit_code);
  verbs::add_replay(command, exit_code);
  verbs::add_self_check(command, exit_code);
  verbs::add_prove(command, exit_code);
  verbs::add_doctor(command, exit_code);
  verbs::add_bench(command, exit_code);
  // CLI11 would only say that a verb is missing.
  const auto verbs_known = command.get_subcommands([](CLI::App*) { return true; });
  const bool known = argc < 2 || argv[1][0] == '-' ||
                     std::any_of(verbs_known.begin(), verbs_known.end(),
                                 [&](const CLI::App* verb) { return verb->get_name() == argv[1]; });
  if (!known) {
    fmt::print(stderr,
               "normgate: there is no verb '{}'; right is check, list, replay, self-check, prove, doctor or bench\n",
               argv[1]);
    return verbs::exit_usage;
  }
  try {
    command.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // CLI11 has exit codes of its own; help and version are no errors.
    return command.exit(error) == 0 ? verbs::exit_passed : verbs::exit_usage;
  } catch (const runner::HarnessError& error) {
    fmt::print(stderr, "normgate: {}\n", error.sentence);
    return verbs::exit_harness;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "normgate: out of memory\n");
    return verbs::exit_harness;
  } catch (const std::exception& error) {
    fmt::print(stderr, "normgate: {}\n", error.what());
    return verbs::exit_harness;
  }
  return exit_code;
}
