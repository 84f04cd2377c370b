// The audit of gradients: is this backward the derivative of this forward? Two answers, kept apart:
//
//   mathematical      dx, dgamma and dbeta against the certified gradient, element by element within the derived bound
//   self-consistency  against differences of the kernel's own forward
//
// and beside them the witness of the certified gradient, what each family of upstream gradients can see, and the data
// of the plots.
#pragma once

#include "gate/engine/run.hpp"

namespace normgate {

// "" or a sentence: a named phase or property is not about gradients.
[[nodiscard]] std::string nothing_to_audit(const RunOptions& options);

// A run over the backward phases (of `options.phases`, if it names any) and the properties that are about gradients (of
// `options.properties`), with Record::audit. An observed order that is off the expected one by more than a twentieth is
// a harness error: then the truth itself is in doubt.
[[nodiscard]] Record audit(const Gate& gate, const RunOptions& options, Progress& progress);

}  // namespace normgate
