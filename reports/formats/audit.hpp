// The tables of an audit, for people: part of the text of a record that has one.
#pragma once

#include <string>

#include "reports/record.hpp"

namespace normgate {

// "" if the record has no audit.
[[nodiscard]] std::string audit_tables(const Record& record);

}  // namespace normgate
