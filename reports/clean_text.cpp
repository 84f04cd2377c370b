#include "reports/clean_text.hpp"

#include <array>
#include <cstdint>

namespace normgate {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";  // U+FFFD in UTF-8

// The length of the well-formed UTF-8 sequence at the start of `text` (The Unicode Standard, table 3-7), or 0.
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t index) { return static_cast<std::uint8_t>(text[index]); };
  const auto continues = [&](std::size_t index) { return index < text.size() && (byte(index) & 0xC0U) == 0x80U; };
  const std::uint8_t first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return continues(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if (!continues(1) || !continues(2)) return 0;
    if (first == 0xE0 && byte(1) < 0xA0) return 0;  // overlong
    if (first == 0xED && byte(1) > 0x9F) return 0;  // surrogate
    return 3;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (!continues(1) || !continues(2) || !continues(3)) return 0;
    if (first == 0xF0 && byte(1) < 0x90) return 0;  // overlong
    if (first == 0xF4 && byte(1) > 0x8F) return 0;  // beyond U+10FFFF
    return 4;
  }
  return 0;
}

bool is_forbidden(std::string_view sequence) {
  if (sequence.size() == 1) {
    const char c = sequence[0];
    return (static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F;
  }
  if (sequence.size() == 2) return sequence[0] == '\xC2' && static_cast<std::uint8_t>(sequence[1]) < 0xA0;  // C1
  return sequence == "\xEF\xBF\xBE" || sequence == "\xEF\xBF\xBF";
}

// GitHub's and Azure's runners skip leading blanks before they look for a command.
bool looks_like_command(std::string_view line) {
  const std::size_t start = line.find_first_not_of(' ');
  if (start == std::string_view::npos) return false;
  line.remove_prefix(start);
  return line.starts_with("::") || line.starts_with("##");
}

}  // namespace

std::string clean_text(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    const std::string_view sequence = text.substr(0, length == 0 ? 1 : length);
    result += length == 0 || is_forbidden(sequence) ? replacement : sequence;
    text.remove_prefix(sequence.size());
  }
  return result;
}

std::string clean_lines(std::string_view text, std::size_t indent) {
  const std::string clean = clean_text(text);
  std::string result;
  std::string line;
  bool first = true;
  const auto finish = [&] {
    while (!line.empty() && line.back() == ' ') line.pop_back();
    if (!first) result += '\n' + (line.empty() ? std::string() : std::string(indent, ' '));
    result += (looks_like_command(line) ? "| " : "") + line;
    line.clear();
    first = false;
  };
  for (const char c : clean) {
    if (c == '\n') {
      finish();
    } else if (c == '\t') {
      line += "  ";
    } else if (c != '\r') {
      line += c;
    }
  }
  finish();
  while (result.ends_with('\n')) result.pop_back();
  return result;
}

std::string clean_line(std::string_view text) {
  std::string result;
  for (const char c : clean_lines(text, 0)) result += c == '\n' ? ' ' : c;
  return result;
}

}  // namespace normgate
