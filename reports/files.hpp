// Files that a run leaves behind: written beside their place and renamed into it, so that a reader sees the old file or
// the whole new one.
#pragma once

#include <optional>
#include <string>

namespace normgate {

// Nothing, or a sentence that says why `path` cannot be written. Asked before a run: an hour of work should not end
// with a missing folder. An existing file is left as it is.
[[nodiscard]] std::optional<std::string> check_writable(const std::string& path);

// Writes the whole of `content`; nothing, or a sentence that says what went wrong. Devices and pipes (/dev/stdout) are
// written in place.
[[nodiscard]] std::optional<std::string> write_file(const std::string& path, const std::string& content);

}  // namespace normgate
