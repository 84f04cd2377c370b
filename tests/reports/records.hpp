// Small records to report on.
#pragma once

#include <string>

#include "reports/record.hpp"

namespace normgate {

inline Unit unit_of(std::string kernel, std::string target, std::string property, Verdict verdict = Verdict::passed) {
  Unit unit;
  unit.kernel = std::move(kernel);
  unit.plugin = "plugins/normgate_simd.so";
  unit.source = "kernels/simd/rows.cpp:12";
  unit.variant = "layer_norm";
  unit.target = std::move(target);
  unit.phase = "forward_training";
  unit.convention = "pytorch";
  unit.property = std::move(property);
  unit.verdict = verdict;
  unit.cases = 10;
  unit.elements = 1000;
  unit.seconds = 0.25;
  unit.worst = {.share_of_bound = 0.25, .row_ulp = 1.5, .problem = "layer_norm n=2 g=1 k=8", .output = "y"};
  if (verdict == Verdict::failed || verdict == Verdict::crashed) {
    unit.failed_cases = 1;
    unit.finding_index = 3;
    unit.finding = FindingRows{.says = "Every output element lies within its bound.",
                               .problem = "layer_norm n=1 g=1 k=3 key=7",
                               .in = "float x[] = {1, 2, 4};",
                               .at = "y[n=0 g=0 k=2 s=0]",
                               .got = "0x1p+0  1",
                               .want = "0x1.8p+0  1.5",
                               .error = "4e6 row ulp, 1e6 of the bound",
                               .looks_like = "",
                               .again = "normgate replay 'layer_norm n=1 g=1 k=3 key=7' --kernel layer_norm",
                               .diagnosis = ""};
  }
  return unit;
}

// Two kernels on two targets, all fine.
inline Record sound_record() {
  Record record;
  record.version = "0.1.0";
  record.cpu = "a CPU";
  record.seed = 1;
  record.effort = "quick";
  record.targets = {"avx2", "sse4"};
  record.seconds = 2.5;
  for (const char* kernel : {"layer_norm", "rms_norm"}) {
    for (const char* target : {"avx2", "sse4"}) {
      for (const char* property : {"accuracy", "scaling"}) record.units.push_back(unit_of(kernel, target, property));
    }
  }
  return record;
}

}  // namespace normgate
