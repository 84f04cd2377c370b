// What the parsers of this folder share: quoting text of unknown origin, and finding the name that was meant.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace normgate {

// 'text', cut to 48 characters, what is not printable ASCII as \xNN: safe in a report and a terminal.
[[nodiscard]] inline std::string quoted(std::string_view text) {
  constexpr std::size_t longest = 48;
  constexpr std::string_view digits = "0123456789abcdef";
  std::string result = "'";
  for (const char c : text.substr(0, longest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      result += c;
    } else {
      result += "\\x";
      result += digits[byte >> 4U];
      result += digits[byte & 15U];
    }
  }
  result += "'";
  if (text.size() > longest) result += "…";
  return result;
}

// Insertions, deletions and replacements between two short texts.
[[nodiscard]] inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

// The first of the names (a range of texts) with the smallest distance to `text`, of which 64 characters are looked at.
template <typename Names>
[[nodiscard]] std::string nearest(std::string_view text, const Names& names) {
  std::string best;
  std::size_t best_distance = static_cast<std::size_t>(-1);
  for (const auto& name : names) {
    const std::size_t distance = edit_distance(text.substr(0, 64), name);
    if (distance < best_distance) {
      best_distance = distance;
      best = std::string(name);
    }
  }
  return best;
}

// "a, b or c"
template <typename Names>
[[nodiscard]] std::string one_of(const Names& names) {
  std::string result;
  std::size_t i = 0;
  for (const auto& name : names) {
    if (i > 0) result += i + 1 == names.size() ? " or " : ", ";
    result += name;
    ++i;
  }
  return result;
}

}  // namespace normgate
