// The formats that a record is written in, each to a file that an option names. The command reads its options here.
//
// To add one: a file in this folder with a function `write_NAME(const Record&)`, and a line in list.cpp.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "reports/record.hpp"

namespace normgate {

struct Format {
  std::string_view name;    // "json"
  std::string_view option;  // "--json"
  std::string_view help;
  std::string (*write)(const Record&);
};

[[nodiscard]] std::span<const Format> format_list();

}  // namespace normgate
