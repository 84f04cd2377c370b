// Patterns, nearest names and shell quoting.
#include "gate/engine/names.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace normgate {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t exchanged = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, exchanged});
    }
  }
  return row[b.size()];
}

}  // namespace

bool matches(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern.front() == '*') {
    for (std::size_t skip = 0; skip <= name.size(); ++skip)
      if (matches(pattern.substr(1), name.substr(skip))) return true;
    return false;
  }
  if (name.empty() || (pattern.front() != '?' && pattern.front() != name.front())) return false;
  return matches(pattern.substr(1), name.substr(1));
}

bool selected(std::span<const std::string> patterns, std::string_view name) {
  if (patterns.empty()) return true;
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& p) { return matches(p, name); });
}

std::vector<std::string> nearest_names(std::string_view wrong, std::span<const std::string> names, std::size_t count) {
  std::vector<std::string> result(names.begin(), names.end());
  std::sort(result.begin(), result.end(), [&](const std::string& a, const std::string& b) {
    return std::pair(edit_distance(wrong, a), a) < std::pair(edit_distance(wrong, b), b);
  });
  result.erase(std::unique(result.begin(), result.end()), result.end());
  if (result.size() > count) result.resize(count);
  return result;
}

std::string unknown_name(std::string_view kind, std::span<const std::string> patterns,
                         std::span<const std::string> names) {
  for (const std::string& pattern : patterns) {
    const bool known =
        std::any_of(names.begin(), names.end(), [&](const auto& name) { return matches(pattern, name); });
    if (known) continue;
    if (names.empty()) return fmt::format("no {} is named {}; there is none at all", kind, pattern);
    return fmt::format("no {} is named {}; nearest: {}", kind, pattern, fmt::join(nearest_names(pattern, names), ", "));
  }
  return {};
}

std::string shell_word(std::string_view text) {
  constexpr std::string_view harmless = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=+:,@%";
  if (!text.empty() && text.find_first_not_of(harmless) == std::string_view::npos) return std::string(text);
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'')
      result += "'\\''";
    else
      result += c;
  }
  return result + "'";
}

}  // namespace normgate
