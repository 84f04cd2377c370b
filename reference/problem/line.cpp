// The problem line: printing and parsing, inverse to each other, and numbers as text. Independent of the locale.
//
// To add a field: an entry of `fields` that prints and parses it, with the member in problem.hpp and what is right of
// it in check() (problem.cpp). Fields are printed in the order of the table.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <functional>
#include <limits>

#include "reference/problem/problem.hpp"
#include "reference/problem/text.hpp"

namespace normgate {

// ---- numbers ------------------------------------------------------------------------------------------------------

namespace {

template <typename T>
std::string to_text(T value) {
  std::array<char, 64> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), result.ptr};
}

bool same_bits(double a, double b) {
  return a == b ? std::signbit(a) == std::signbit(b) : std::isnan(a) && std::isnan(b);
}

enum class Reading { number, no_number, out_of_range };

// The whole text as a number: decimal, nan, inf, or hexadecimal after 0x.
template <typename T>
Reading read_number(std::string_view text, T& value) {
  const bool negative = !text.empty() && text.front() == '-';
  std::string_view digits = negative ? text.substr(1) : text;
  auto format = std::chars_format::general;
  if (digits.starts_with("0x") || digits.starts_with("0X")) {
    digits.remove_prefix(2);
    format = std::chars_format::hex;
    if (digits.starts_with("i") || digits.starts_with("n")) return Reading::no_number;
  }
  if (digits.starts_with("-") || digits.find('(') != std::string_view::npos) return Reading::no_number;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value, format);
  if (result.ec == std::errc::result_out_of_range && result.ptr == digits.data() + digits.size())
    return Reading::out_of_range;
  if (result.ec != std::errc() || result.ptr != digits.data() + digits.size()) return Reading::no_number;
  // Some libraries give infinity or zero here without an error.
  if (std::isinf(value) && digits.find_first_of("iI") == std::string_view::npos) return Reading::out_of_range;
  const std::string_view mantissa =
      digits.substr(0, digits.find_first_of(format == std::chars_format::hex ? "pP" : "eE"));
  if (value == 0 && mantissa.find_first_not_of("0.") != std::string_view::npos) return Reading::out_of_range;
  if (std::isnan(value)) value = std::numeric_limits<T>::quiet_NaN();
  if (negative && !std::isnan(value)) value = -value;
  return Reading::number;
}

// Nine significant digits tell all float32 apart, so a decimal that has no more stands for the float32 nearest to it:
// eps=1e-5 means what a float32 kernel gets. Longer decimals and hexadecimal ones stand for the nearest double.
bool stands_for_float(std::string_view text) {
  if (text.find_first_of("xX") != std::string_view::npos) return false;
  std::size_t significant = 0;
  for (const char c : text) {
    if (c == 'e' || c == 'E') break;
    if (c >= '0' && c <= '9' && (significant > 0 || c != '0')) ++significant;
  }
  return significant <= 9;
}

Reading read_scalar(std::string_view text, double& value) {
  if (stands_for_float(text)) {
    float narrow = 0;
    const Reading reading = read_number(text, narrow);
    if (reading != Reading::out_of_range) {
      value = static_cast<double>(narrow);
      return reading;
    }
  }
  return read_number(text, value);
}

// The decimal where it reads back, else (a double with few digits that is no float32) the exact hexadecimal.
std::string print_scalar(double value) {
  std::string text = shortest(value);
  double back = 0;
  if (read_scalar(text, back) == Reading::number && same_bits(back, value)) return text;
  return hexfloat(value);
}

template <typename T>
bool read_integer(std::string_view text, T& value) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

}  // namespace

std::string shortest(double value) {
  if (std::isnan(value)) return "nan";
  const float narrow = static_cast<float>(value);
  return static_cast<double>(narrow) == value ? to_text(narrow) : to_text(value);
}

std::string hexfloat(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 64> buffer{};
  const auto result =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), std::abs(value), std::chars_format::hex);
  return fmt::format("{}0x{}", std::signbit(value) ? "-" : "", std::string_view(buffer.data(), result.ptr));
}

// ---- names --------------------------------------------------------------------------------------------------------

namespace {

constexpr std::array<std::string_view, 10> profile_names{
    "conditioned",        "exact", "exact_sum", "needle", "special", "near_constant", "constant", "outlier_channels",
    "parameter_rounding", "drift"};
constexpr std::array<std::string_view, 3> given_names{"none", "running", "saved"};
constexpr std::array<std::string_view, 2> handed_names{"nearest", "shifted"};
constexpr std::array<std::string_view, 6> cotangent_names{"random", "ones", "pooled", "normalized", "mixed", "unit"};
constexpr std::array<std::string_view, 2> fence_names{"right", "left"};
constexpr std::array<std::string_view, 2> bool_names{"0", "1"};

// ---- fields -------------------------------------------------------------------------------------------------------

// `print` gives the text of the value, nothing where it is the default; `parse` gives what would be right, nothing on
// success.
struct Field {
  std::string name;
  std::function<std::string(const Problem&)> print;
  std::function<std::string(std::string_view, Problem&)> parse;
};

const Problem& defaults() {
  static const Problem problem;
  return problem;
}

template <auto member, typename Names>
Field choice(std::string name, const Names& names) {
  return {std::move(name),
          [&names](const Problem& problem) {
            const auto i = static_cast<std::size_t>(problem.*member);
            if (problem.*member == defaults().*member) return std::string();
            return i < names.size() ? std::string(names[i]) : fmt::format("{}", i);
          },
          [&names](std::string_view text, Problem& problem) -> std::string {
            for (std::size_t i = 0; i < names.size(); ++i)
              if (names[i] == text) {
                problem.*member = static_cast<std::remove_reference_t<decltype(problem.*member)>>(i);
                return "";
              }
            return fmt::format("{}{}", one_of(names),
                               names.size() > 3 ? fmt::format(" (the nearest is {})", nearest(text, names)) : "");
          }};
}

template <auto member>
Field integer(std::string name) {
  return {std::move(name),
          [](const Problem& problem) {
            return problem.*member == defaults().*member ? std::string() : to_text(problem.*member);
          },
          [](std::string_view text, Problem& problem) -> std::string {
            using T = std::remove_reference_t<decltype(problem.*member)>;
            if (read_integer(text, problem.*member)) return "";
            return fmt::format("a decimal integer from {} to {}", std::numeric_limits<T>::min(),
                               std::numeric_limits<T>::max());
          }};
}

template <auto member>
Field scalar(std::string name) {
  return {std::move(name),
          [](const Problem& problem) {
            return same_bits(problem.*member, defaults().*member) ? std::string() : print_scalar(problem.*member);
          },
          [](std::string_view text, Problem& problem) -> std::string {
            if (read_scalar(text, problem.*member) == Reading::number) return "";
            return "a number in the range of a double, like 0.001, 1e-05 or 0x1p-10";
          }};
}

Field extent(std::string name, Axis axis) {
  const auto a = static_cast<std::size_t>(axis);
  return {std::move(name), [a](const Problem& problem) { return to_text(problem.shape[a]); },
          [a](std::string_view text, Problem& problem) -> std::string {
            if (read_integer(text, problem.shape[a])) return "";
            return "an extent: a decimal integer from 0 to 2^40-1";
          }};
}

// "NSGK*2+3"
bool parse_layout(std::string_view text, Layout& layout) {
  constexpr std::string_view letters = "NGKS";
  if (text.size() < axis_count) return false;
  unsigned seen = 0;
  for (std::size_t i = 0; i < axis_count; ++i) {
    std::size_t a = letters.find(text[i]);
    if (a == std::string_view::npos) {
      a = std::string_view("ngks").find(text[i]);
      if (a == std::string_view::npos) return false;
      layout.broadcast.insert(static_cast<Axis>(a));
    }
    layout.order[i] = static_cast<Axis>(a);
    seen |= 1U << a;
  }
  if (seen != 0xFU) return false;
  text.remove_prefix(axis_count);
  if (text.starts_with('*')) {
    const std::size_t plus = text.find('+');
    if (!read_integer(text.substr(1, plus == std::string_view::npos ? plus : plus - 1), layout.step)) return false;
    text = plus == std::string_view::npos ? std::string_view() : text.substr(plus);
  }
  if (text.starts_with('+')) {
    if (!read_integer(text.substr(1), layout.pad)) return false;
    text = {};
  }
  return text.empty();
}

Field layout(Role role) {
  return {fmt::format("{}.layout", name_of(role)),
          [role](const Problem& problem) {
            return problem.layout[role] == Layout{} ? std::string() : print(problem.layout[role]);
          },
          [role](std::string_view text, Problem& problem) -> std::string {
            Layout result;
            if (!parse_layout(text, result))
              return "the letters N, G, K and S from outermost to innermost, then *step and +pad if any, like NSGK*2+3 "
                     "(lower case: broadcast)";
            problem.layout[role] = result;
            return "";
          }};
}

Field convention() {
  return {"convention",
          [](const Problem& problem) {
            return problem.convention == Convention{} ? std::string() : print(problem.convention);
          },
          [](std::string_view text, Problem& problem) -> std::string {
            ConventionOrError result = parse_convention(text);
            if (!result.convention) return result.error;
            problem.convention = *result.convention;
            return "";
          }};
}

std::string print_values(const Problem& problem) {
  std::string text;
  for (std::size_t i = 0; i < role_count; ++i) {
    const Role role = static_cast<Role>(i);
    const std::vector<float>& values = problem.values[role];
    if (values.empty()) continue;
    if (!text.empty()) text += ';';
    text += name_of(role);
    text += ":[";
    for (std::size_t j = 0; j < values.size(); ++j) {
      if (j > 0) text += ',';
      text += shortest(static_cast<double>(values[j]));
    }
    text += ']';
  }
  return text;
}

std::string parse_values(std::string_view text, Problem& problem) {
  const std::string shape = "lists like x:[1,2.5,nan];gamma:[2]";
  PerRole<std::vector<float>> result;
  bool more = true;
  while (more) {
    const std::size_t colon = text.find(":[");
    const std::size_t end = text.find(']');
    if (colon == std::string_view::npos || end == std::string_view::npos || end < colon) return shape;
    const std::string_view name = text.substr(0, colon);
    const std::optional<Role> role = role_named(name);
    if (!role) return fmt::format("{}, each for a tensor of the problem, which {} is not", shape, quoted(name));
    if (!result[*role].empty()) return fmt::format("{}, each tensor once, but {} has two", shape, name);
    std::string_view list = text.substr(colon + 2, end - colon - 2);
    bool more_numbers = true;
    while (more_numbers) {
      const std::size_t comma = list.find(',');
      const std::string_view number = list.substr(0, comma);
      float value = 0;
      if (read_number(number, value) != Reading::number)
        return fmt::format("{} of numbers in the range of float32, which {} (number {} of {}) is not", shape,
                           quoted(number), result[*role].size() + 1, name);
      result[*role].push_back(value);
      more_numbers = comma != std::string_view::npos;
      if (more_numbers) list.remove_prefix(comma + 1);
    }
    text.remove_prefix(end + 1);
    more = !text.empty();
    if (more) {
      if (text.front() != ';') return shape;
      text.remove_prefix(1);
    }
  }
  problem.values = std::move(result);
  return "";
}

std::string parse_key(std::string_view text, Problem& problem) {
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  const std::string_view digits = hex ? text.substr(2) : text;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), problem.key, hex ? 16 : 10);
  if (result.ec == std::errc() && result.ptr == digits.data() + digits.size()) return "";
  return "a hexadecimal number of at most 16 digits, like 0x1f2e";
}

const std::vector<Field>& fields() {
  static const std::vector<Field> table = [] {
    std::vector<Field> list;
    list.push_back(extent("n", Axis::n));
    list.push_back(extent("g", Axis::g));
    list.push_back(extent("k", Axis::k));
    list.push_back(extent("s", Axis::s));
    for (std::size_t i = 0; i < role_count; ++i) list.push_back(layout(static_cast<Role>(i)));
    list.push_back(choice<&Problem::gamma>("gamma", bool_names));
    list.push_back(choice<&Problem::beta>("beta", bool_names));
    list.push_back(choice<&Problem::saved>("saved", bool_names));
    list.push_back(choice<&Problem::running>("running", bool_names));
    list.push_back(choice<&Problem::from_output>("from_output", bool_names));
    list.push_back(choice<&Problem::given>("given", given_names));
    list.push_back(choice<&Problem::handed>("handed", handed_names));
    list.push_back(choice<&Problem::cotangent>("cotangent", cotangent_names));
    list.push_back(choice<&Problem::in_place>("in_place", bool_names));
    list.push_back(scalar<&Problem::eps>("eps"));
    list.push_back(scalar<&Problem::momentum>("momentum"));
    list.push_back(integer<&Problem::step>("step"));
    list.push_back(convention());
    list.push_back(choice<&Problem::profile>("profile", profile_names));
    list.push_back(scalar<&Problem::kappa>("kappa"));
    list.push_back(integer<&Problem::scale>("scale"));
    list.push_back(integer<&Problem::level>("level"));
    list.push_back(choice<&Problem::fence>("fence", fence_names));
    list.push_back(integer<&Problem::misalign>("misalign"));
    list.push_back(integer<&Problem::skew>("skew"));
    list.push_back(integer<&Problem::threads>("threads"));
    list.push_back({"values", print_values, parse_values});
    list.push_back({"key", [](const Problem& problem) { return fmt::format("{:#x}", problem.key); }, parse_key});
    return list;
  }();
  return table;
}

// The next word, separated by blanks; empty at the end.
std::string_view next_word(std::string_view& text) {
  constexpr std::string_view blanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) {
    text = {};
    return {};
  }
  text.remove_prefix(begin);
  const std::string_view word = text.substr(0, text.find_first_of(blanks));
  text.remove_prefix(word.size());
  return word;
}

}  // namespace

std::string_view name_of(Profile profile) {
  const auto i = static_cast<std::size_t>(profile);
  return i < profile_names.size() ? profile_names[i] : std::string_view("unknown_profile");
}

std::string_view name_of(Cotangent cotangent) {
  const auto i = static_cast<std::size_t>(cotangent);
  return i < cotangent_names.size() ? cotangent_names[i] : std::string_view("unknown_cotangent");
}

// ---- the line -----------------------------------------------------------------------------------------------------

std::string print(const Problem& problem) {
  std::string line = fmt::format("{} {}", name_of(problem.phase), row_of(problem.variant).name);
  for (const Field& field : fields()) {
    const std::string text = field.print(problem);
    if (!text.empty()) line += fmt::format(" {}={}", field.name, text);
  }
  return line;
}

ProblemOrError parse_problem(std::string_view line) {
  Problem problem;
  const std::string_view phase_word = next_word(line);
  const std::optional<Phase> phase = phase_named(phase_word);
  if (!phase) {
    std::vector<std::string_view> names;
    for (const Phase each : judged_phases) names.push_back(name_of(each));
    return {std::nullopt, fmt::format("phase (the first word) is {}; right is {}.", quoted(phase_word), one_of(names))};
  }
  problem.phase = *phase;
  const std::string_view variant_word = next_word(line);
  const std::optional<Variant> variant = variant_named(variant_word);
  if (!variant) {
    std::vector<std::string_view> names;
    for (const VariantRow& row : variant_table()) names.push_back(row.name);
    return {std::nullopt,
            fmt::format("variant (the second word) is {}; right is {}.", quoted(variant_word), one_of(names))};
  }
  problem.variant = *variant;

  std::vector<bool> seen(fields().size());
  for (std::string_view word = next_word(line); !word.empty(); word = next_word(line)) {
    const std::size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    std::size_t i = 0;
    while (i < fields().size() && fields()[i].name != name) ++i;
    if (i == fields().size()) {
      std::vector<std::string_view> names;
      for (const Field& field : fields()) names.push_back(field.name);
      return {std::nullopt,
              fmt::format("There is no field {}; the nearest is {}.", quoted(name), nearest(name, names))};
    }
    const Field& field = fields()[i];
    if (equals == std::string_view::npos)
      return {std::nullopt, fmt::format("{} has no value; right is {}=….", field.name, field.name)};
    if (seen[i]) return {std::nullopt, fmt::format("{} is given twice; right is once.", field.name)};
    seen[i] = true;
    const std::string_view value = word.substr(equals + 1);
    std::string right = field.parse(value, problem);
    if (right.empty()) continue;
    if (field.name == "convention") return {std::nullopt, std::move(right)};  // a whole sentence already
    return {std::nullopt, fmt::format("{} is {}; right is {}.", field.name, quoted(value), right)};
  }
  return {std::move(problem), ""};
}

}  // namespace normgate
