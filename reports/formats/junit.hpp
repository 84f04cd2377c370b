// The record as JUnit XML, for CI systems that read it.
#pragma once

#include <string>

#include "reports/record.hpp"

namespace normgate {

// One testcase per kernel × property × phase × convention × dtype × target, its name unique in the file: readers drop
// duplicates. Never one per case. `failure` is a verdict on a kernel, `error` the gate's own trouble (and a run that
// tested nothing or less than was required); refused and skipped units are `skipped`. The message is the element's
// text, since not every reader shows the attribute. Passing testcases carry no output.
[[nodiscard]] std::string write_junit(const Record& record);

}  // namespace normgate
