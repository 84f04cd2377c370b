#include "reports/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <variant>

namespace normgate {
namespace {

namespace fs = std::filesystem;

struct Destination {
  fs::path path;          // links followed: a rename would replace the link, not the file
  bool in_place = false;  // a device or pipe: a rename would replace it by a file
};

std::variant<Destination, std::string> destination_of(const std::string& path) {
  if (path.empty()) return std::string("an output file needs a name");
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) return fmt::format("cannot write '{}': it is a folder", path);
  // /dev/stdout is a link to whatever the shell opened, perhaps a regular file that must keep its identity.
  const std::string absolute = fs::absolute(path, error).lexically_normal().string();
  const bool device = absolute.starts_with("/dev/") || absolute.starts_with("/proc/");
  if (fs::exists(status) && (device || !fs::is_regular_file(status))) return Destination{path, true};
  fs::path target = path;
  if (fs::exists(status)) {
    const fs::path followed = fs::canonical(path, error);
    if (!error) target = followed;
  }
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  if (!fs::is_directory(folder, error)) {
    return fmt::format("cannot write '{}': the folder '{}' does not exist", path, folder.string());
  }
  return Destination{target, false};
}

// Ctrl-C waits until a file is whole and its forerunner gone.
class SignalsWait {
 public:
  SignalsWait() {
    sigset_t signals;
    ::sigemptyset(&signals);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::sigaddset(&signals, signal);
    ::pthread_sigmask(SIG_BLOCK, &signals, &before_);
  }
  ~SignalsWait() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsWait(const SignalsWait&) = delete;
  SignalsWait& operator=(const SignalsWait&) = delete;

 private:
  sigset_t before_{};
};

std::string sentence(const std::string& path, int number) {
  return fmt::format("cannot write '{}': {}", path, std::strerror(number));
}

fs::path beside(const fs::path& path) {
  fs::path result = path;
  result += fmt::format(".part-{}", ::getpid());
  return result;
}

// 0, or errno.
int write_all(const fs::path& path, int flags, const std::string& content) {
  const int file = ::open(path.c_str(), flags | O_WRONLY | O_CLOEXEC, 0666);
  if (file < 0) return errno;
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t count = ::write(file, content.data() + done, content.size() - done);
    if (count < 0) {
      if (errno == EINTR) continue;
      const int number = errno;
      ::close(file);
      return number;
    }
    done += static_cast<std::size_t>(count);
  }
  return ::close(file) == 0 ? 0 : errno;
}

}  // namespace

std::optional<std::string> check_writable(const std::string& path) {
  const auto destination = destination_of(path);
  if (const auto* why = std::get_if<std::string>(&destination)) return *why;
  const auto& [target, in_place] = std::get<Destination>(destination);
  if (in_place) {
    return ::access(target.c_str(), W_OK) == 0 ? std::nullopt : std::optional(sentence(path, errno));
  }
  const SignalsWait wait;
  const fs::path part = beside(target);
  const int number = write_all(part, O_CREAT | O_TRUNC, "");
  if (number != 0) return sentence(path, number);
  ::unlink(part.c_str());
  return std::nullopt;
}

std::optional<std::string> write_file(const std::string& path, const std::string& content) {
  const auto destination = destination_of(path);
  if (const auto* why = std::get_if<std::string>(&destination)) return *why;
  const auto& [target, in_place] = std::get<Destination>(destination);
  if (in_place) {
    const int number = write_all(target, O_APPEND, content);
    return number == 0 ? std::nullopt : std::optional(sentence(path, number));
  }
  const SignalsWait wait;
  const fs::path part = beside(target);
  int number = write_all(part, O_CREAT | O_TRUNC, content);
  if (number == 0 && ::rename(part.c_str(), target.c_str()) != 0) number = errno;
  if (number == 0) return std::nullopt;
  ::unlink(part.c_str());
  return sentence(path, number);
}

}  // namespace normgate
