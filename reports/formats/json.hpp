// The record as JSON, schema 1: fields are only added. What later commands read (compare, report, merge).
#pragma once

#include <string>

#include "reports/record.hpp"

namespace normgate {

// `verdict` is the sentence, `exit_code` what the command returned. Numbers that JSON cannot hold are the strings
// "inf", "-inf" and "nan"; malformed UTF-8 becomes U+FFFD.
[[nodiscard]] std::string write_json(const Record& record);

}  // namespace normgate
