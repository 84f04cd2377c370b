// Names as people type them: patterns that select, and the nearest right names for a wrong one.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace normgate {

// Whether `name` is `pattern`, in which * stands for any characters and ? for one.
[[nodiscard]] bool matches(std::string_view pattern, std::string_view name);

// Whether any pattern matches; no patterns select everything.
[[nodiscard]] bool selected(std::span<const std::string> patterns, std::string_view name);

// At most `count` of `names`, by their distance (insertions, deletions, exchanges) from `wrong`, nearest first.
[[nodiscard]] std::vector<std::string> nearest_names(std::string_view wrong, std::span<const std::string> names,
                                                     std::size_t count = 3);

// "" if every pattern matches one of `names`; else the sentence about the first that does not:
// "no kernel is named simd/layernorm; nearest: simd/layer_norm, plain/layer_norm".
[[nodiscard]] std::string unknown_name(std::string_view kind, std::span<const std::string> patterns,
                                       std::span<const std::string> names);

// The text as one word of a POSIX shell: as it is if nothing in it is special, else in single quotes.
[[nodiscard]] std::string shell_word(std::string_view text);

}  // namespace normgate
