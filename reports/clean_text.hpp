// Text that other people's code wrote (reasons, names, output of kernels), made safe to print and to store.
#pragma once

#include <string>
#include <string_view>

namespace normgate {

// Valid UTF-8 that XML 1.0 allows: every malformed sequence, surrogate, U+FFFE and U+FFFF becomes U+FFFD, and so does
// every control character except tab, line feed and carriage return.
[[nodiscard]] std::string clean_text(std::string_view text);

// The same for a terminal or a CI log: line breaks stay, each further line is indented by `indent` blanks, tabs become
// blanks, and a line that a CI system would take for a command ("::error …", "##[…]") is told apart by a bar.
[[nodiscard]] std::string clean_lines(std::string_view text, std::size_t indent);

// The same on one line: line breaks become blanks.
[[nodiscard]] std::string clean_line(std::string_view text);

}  // namespace normgate
