#include "reports/formats/list.hpp"

#include <array>

#include "reports/formats/json.hpp"
#include "reports/formats/junit.hpp"

namespace normgate {

// Text for people (text.hpp) goes to stdout and has no option.
std::span<const Format> format_list() {
  static constexpr std::array formats{
      Format{"json", "--json", "write the record as JSON, schema 1", write_json},
      Format{"junit", "--junit", "write the record as JUnit XML", write_junit},
  };
  return formats;
}

}  // namespace normgate
