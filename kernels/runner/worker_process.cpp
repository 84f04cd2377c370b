// See worker_process.hpp.
#include "kernels/runner/worker_process.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>
#include <system_error>

#include "kernels/runner/manifest.hpp"

extern char** environ;

namespace normgate::runner {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t output_capacity = std::size_t{64} << 10U;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double cpu_seconds_of(pid_t process) {
  clockid_t clock{};
  timespec time{};
  if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void set_variable(std::vector<std::string>& environment, const std::string& assignment) {
  const std::string prefix = assignment.substr(0, assignment.find('=') + 1);
  std::erase_if(environment, [&](const std::string& item) { return item.rfind(prefix, 0) == 0; });
  environment.push_back(assignment);
}

std::vector<std::string> worker_environment(const std::vector<std::string>& target, std::int32_t threads) {
  std::vector<std::string> result;
  for (char** item = environ; item != nullptr && *item != nullptr; ++item) result.emplace_back(*item);
  set_variable(result, "OMP_NUM_THREADS=" + std::to_string(std::max(threads, 1)));
  set_variable(result, "OMP_WAIT_POLICY=passive");
  set_variable(result, "OMP_DYNAMIC=false");
#if defined(NORMGATE_SANITIZED)
  // The worker's own handlers tell where a kernel faulted; a report of the sanitizer itself ends in SIGABRT. Leaks are
  // not looked for, since a worker is ended in the middle of its life.
  const char* inherited = std::getenv("ASAN_OPTIONS");
  set_variable(result, std::string("ASAN_OPTIONS=") + (inherited != nullptr ? std::string(inherited) + ":" : "") +
                           "handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:handle_abort=0:"
                           "use_sigaltstack=0:abort_on_error=1:detect_leaks=0");
#endif
  for (const std::string& assignment : target) set_variable(result, assignment);
  return result;
}

std::string worker_path(const Options& options) {
  if (!options.worker_path.empty()) return options.worker_path;
  char self[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self);
  const std::string path(self, length > 0 ? static_cast<std::size_t>(length) : 0);
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  // Executables of the build tree that are not in bin/ (the tests) find it in the neighbouring folder.
  const std::string beside = folder + "normgate-worker";
  const std::string neighbour = folder + "../bin/normgate-worker";
  return access(beside.c_str(), X_OK) != 0 && access(neighbour.c_str(), X_OK) == 0 ? neighbour : beside;
}

// The descriptor under a number that no inherited one has.
int moved_away(int descriptor) {
  const int moved = fcntl(descriptor, F_DUPFD_CLOEXEC, 10);
  close(descriptor);
  return moved;
}

// Starts the process; 0 or an errno.
int spawn(pid_t& process, const std::string& worker, const std::string& plugin,
          const std::vector<std::string>& environment, int control, int arena, int output) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, 1);
  posix_spawn_file_actions_adddup2(&actions, output, 2);
  posix_spawn_file_actions_adddup2(&actions, control, control_descriptor);
  posix_spawn_file_actions_adddup2(&actions, arena, arena_descriptor);
  posix_spawn_file_actions_addclosefrom_np(&actions, arena_descriptor + 1);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

  const std::string parent = std::to_string(getpid());
  std::vector<char*> arguments{const_cast<char*>(worker.c_str()), const_cast<char*>(plugin.c_str()),
                               const_cast<char*>(parent.c_str()), nullptr};
  std::vector<char*> variables;
  for (const std::string& assignment : environment) variables.push_back(const_cast<char*>(assignment.c_str()));
  variables.push_back(nullptr);
  const int result = posix_spawn(&process, worker.c_str(), &actions, &attributes, arguments.data(), variables.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return result;
}

std::string last_words(const std::string& output) {
  if (output.empty()) return "";
  const std::size_t start = output.size() > 400 ? output.size() - 400 : 0;
  return "; it printed: " + harmless(std::string_view(output).substr(start), 400);
}

}  // namespace

// ---- control block
// ---------------------------------------------------------------------------------------------------

ControlBlock::ControlBlock() {
  const int created = memfd_create("normgate-control", MFD_CLOEXEC);
  if (created < 0) throw std::system_error(errno, std::generic_category(), "memfd_create");
  file_ = moved_away(created);
  if (file_ < 0 || ftruncate(file_, sizeof(Control)) != 0)
    throw std::system_error(errno, std::generic_category(), "control block");
  void* memory = mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
  control_ = new (memory) Control{};  // a new file is zeros already; this begins the lifetime
  control_->magic = control_magic;
  control_->version = protocol_version;
  control_->size = sizeof(Control);
  control_->request = 1;
}

ControlBlock::~ControlBlock() {
  munmap(control_, sizeof(Control));
  close(file_);
}

// ---- death
// -----------------------------------------------------------------------------------------------------------

std::string name_of(Stage stage) {
  switch (stage) {
    case Stage::supports:
      return "supports";
    case Stage::prepare:
      return "prepare";
    case Stage::workspace:
      return "workspace";
    case Stage::run:
      return "run";
    case Stage::release:
      return "release";
    case Stage::idle:
    case Stage::loading:
    case Stage::reading_manifest:
      break;
  }
  return "";
}

std::string describe(const Death& death) {
  if (!death.signalled) return "exit status " + std::to_string(death.number);
  switch (death.number) {
    case SIGSEGV:
      return "segmentation fault (SIGSEGV)";
    case SIGBUS:
      return "bus error (SIGBUS)";
    case SIGILL:
      return "illegal instruction (SIGILL)";
    case SIGFPE:
      return death.has_address && death.code == FPE_INTDIV ? "integer division by zero (SIGFPE)"
                                                           : "arithmetic trap (SIGFPE)";
    case SIGABRT:
      return "abort (SIGABRT)";
    case SIGKILL:
      return "killed from outside (SIGKILL; the system may be out of memory)";
    default:
      return "signal " + std::to_string(death.number);
  }
}

// ---- process
// ---------------------------------------------------------------------------------------------------------

std::variant<std::unique_ptr<WorkerProcess>, HarnessError> WorkerProcess::start(
    const std::string& plugin, const std::vector<std::string>& environment, std::int32_t threads, int arena_file,
    const Options& options) {
  const std::string worker = worker_path(options);
  if (access(plugin.c_str(), R_OK) != 0)
    return HarnessError{"plugin '" + plugin + "' cannot be opened: " + std::strerror(errno) +
                        "; the path of a shared library is needed"};
  std::unique_ptr<WorkerProcess> result(new WorkerProcess(plugin, arena_file));
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return HarnessError{std::string("no pipe for a worker: ") + std::strerror(errno)};
  const int write_end = moved_away(ends[1]);
  result->pipe_ = moved_away(ends[0]);
  (void)fcntl(result->pipe_, F_SETFL, O_NONBLOCK);
  (void)fcntl(result->pipe_, F_SETPIPE_SZ, 1 << 20);
  const int error = spawn(result->process_, worker, absolute_path(plugin), worker_environment(environment, threads),
                          result->control_.file(), arena_file, write_end);
  close(write_end);
  if (error != 0) {
    result->process_ = -1;
    return HarnessError{"the worker '" + worker + "' cannot be started: " + std::strerror(error) +
                        "; it must stand beside the executable"};
  }

  if (const auto death = result->wait(options.cpu_seconds, options.wall_seconds)) {
    const std::string when = death->stage == Stage::reading_manifest
                                 ? "while normgate_plugin_v1 and its manifest were read"
                                 : "while it was being loaded (a constructor of the library or of a static object)";
    std::string sentence = "plugin '" + plugin + "' ";
    if (death->timed_out)
      sentence += "hung: no end within the time limit " + when + "; loading must return";
    else if (death->signalled)
      sentence += "crashed: " + describe(*death) + " " + when + "; loading must succeed";
    else
      sentence += "ended the process with " + describe(*death) + " " + when + "; loading must return";
    return HarnessError{sentence + last_words(result->output())};
  }
  Control& control = result->control();
  const std::string text(control.text, strnlen(control.text, sizeof control.text));
  if (!text.empty()) return HarnessError{"plugin '" + plugin + "' " + harmless(text)};
  return result;
}

WorkerProcess::~WorkerProcess() {
  if (process_ > 0 && !reaped_) {
    if (control_->answer.load() == control_->request.load()) {
      request(Operation::quit);
      // A worker that sleeps needs some 0.1 ms to go by itself.
      for (int i = 0; i < 100 && !ended(false); ++i) usleep(100);
    }
    if (!reaped_) {
      kill_group();
      (void)ended(true);
    } else {
      kill_group();  // what it may have started
    }
  }
  if (pipe_ >= 0) close(pipe_);
}

void WorkerProcess::kill_group() const { kill(-process_, SIGKILL); }

void WorkerProcess::request(Operation operation, std::uint32_t count) {
  Control& control = *control_;
  control.operation = static_cast<std::uint32_t>(operation);
  control.count = count;
  control.completed.store(0);
  control.request.store(control.request.load() + 1);
  if (control.worker_waits.load() != 0) futex_wake(control.request);
}

std::optional<Death> WorkerProcess::ended(bool block) {
  int status = 0;
  pid_t found = 0;
  do found = waitpid(process_, &status, block ? 0 : WNOHANG);
  while (found < 0 && errno == EINTR);
  if (found == 0) return std::nullopt;
  reaped_ = true;
  const Control& control = *control_;
  Death death;
  death.stage = static_cast<Stage>(control.stage.load());
  if (found < 0) {  // somebody else has waited for it
    death.signalled = true;
    death.number = SIGKILL;
    return death;
  }
  death.signalled = WIFSIGNALED(status);
  death.number = death.signalled ? WTERMSIG(status) : WEXITSTATUS(status);
  // The worker's handler turns a signal into an exit status and leaves the particulars.
  if (!death.signalled && control.fault.recorded.load() == 2 && death.number == 128 + control.fault.signal) {
    death.signalled = true;
    death.number = control.fault.signal;
    death.code = control.fault.code;
    death.has_address = true;
    death.address = control.fault.address;
    death.other_thread = control.fault.other_thread != 0;
    const std::uint32_t access = control.fault.access;
    death.access = access <= 3 ? static_cast<Access>(access) : Access::unknown;
  }
  return death;
}

std::optional<Death> WorkerProcess::ended_soon() {
  for (int i = 0; i < 1000; ++i) {
    if (auto death = ended(false)) return death;
    usleep(100);
  }
  return std::nullopt;
}

std::optional<Death> WorkerProcess::wait(double cpu_seconds, double wall_seconds,
                                         const std::function<double(std::uint32_t)>& scale) {
  Control& control = *control_;
  const std::uint32_t wanted = control.request.load();
  const auto answered = [&] { return control.answer.load(std::memory_order_acquire) == wanted; };
  const std::uint32_t before = wanted - 1;
  if (!answered()) (void)spin_until_changed(control.answer, before);

  std::int64_t nap = 200'000;
  std::uint32_t progress = control.completed.load();
  bool measured = false;
  double cpu_start = 0;
  double factor = 1;
  Clock::time_point wall_start;
  while (!answered()) {
    const std::uint32_t seen = control.answer.load();
    control.host_waits.store(1);
    if (seen != wanted) futex_wait(control.answer, seen, nap);
    control.host_waits.store(0);
    if (answered()) break;
    drain();
    if (control.fault.recorded.load() == 2) {
      // It is on its way out; a kernel that wrote the flag by accident runs into the time limit of this loop.
      if (auto death = ended_soon()) {
        drain();
        return death;
      }
    }
    if (auto death = ended(false)) {
      drain();
      return death;
    }
    const std::uint32_t now = control.completed.load();
    if (!measured || now != progress) {
      measured = true;
      progress = now;
      cpu_start = cpu_seconds_of(process_);
      wall_start = Clock::now();
      factor = scale ? scale(now) : 1;
    } else if (cpu_seconds_of(process_) - cpu_start > cpu_seconds * factor ||
               seconds_since(wall_start) > wall_seconds * factor) {
      const auto stage = static_cast<Stage>(control.stage.load());
      kill_group();
      (void)ended(true);
      drain();
      Death death;
      death.timed_out = true;
      death.signalled = true;
      death.number = SIGKILL;
      death.stage = stage;
      return death;
    }
    nap = std::min<std::int64_t>(nap * 2, 5'000'000);
  }
  drain();
  return std::nullopt;
}

int WorkerProcess::threads_alive() const {
  struct stat information {};
  const std::string path = "/proc/" + std::to_string(process_) + "/task";
  if (stat(path.c_str(), &information) != 0 || information.st_nlink < 3) return 1;
  return static_cast<int>(information.st_nlink) - 2;
}

std::optional<Death> WorkerProcess::settle() {
  int alive = threads_alive();
  for (int i = 0; i < 200 && alive > settled_threads_; ++i) {
    usleep(500);
    alive = threads_alive();
  }
  settled_threads_ = std::max(alive, 1);
  drain();
  return control_->fault.recorded.load() == 2 ? ended_soon() : ended(false);
}

void WorkerProcess::drain() {
  char buffer[16384];
  // Bounded, so that a plugin that prints without end cannot hold the host here.
  for (int i = 0; i < 1024; ++i) {
    const ssize_t count = read(pipe_, buffer, sizeof buffer);
    if (count <= 0) return;
    const std::size_t room = output_capacity - output_.size();
    output_.append(buffer, std::min(room, static_cast<std::size_t>(count)));
  }
}

std::variant<std::string, HarnessError> WorkerProcess::manifest(const Options& options) {
  request(Operation::manifest);
  if (const auto death = wait(options.cpu_seconds, options.wall_seconds)) {
    const std::string what = death->timed_out ? "hangs" : "ends the worker (" + describe(*death) + ")";
    return HarnessError{"plugin '" + plugin_ + "' " + what +
                        " while its manifest is read; the accessors and the pointers of the manifest must be valid" +
                        last_words(output_)};
  }
  const std::uint64_t size = control_->manifest_bytes;
  if (size == 0 || size > manifest_capacity)
    return HarnessError{"plugin '" + plugin_ + "' has a manifest too large to be read (more than 64 MiB)"};
  std::string text(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    const ssize_t count = pread(arena_, text.data() + done, size - done, static_cast<off_t>(done));
    if (count <= 0) return HarnessError{"plugin '" + plugin_ + "': its manifest could not be read from the worker"};
    done += static_cast<std::size_t>(count);
  }
  return text;
}

std::string absolute_path(const std::string& path) {
  char* resolved = realpath(path.c_str(), nullptr);
  if (resolved == nullptr) return path;
  std::string result = resolved;
  std::free(resolved);
  return result;
}

}  // namespace normgate::runner
