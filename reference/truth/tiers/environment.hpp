// The floating-point environment that every proof of the tiers assumes:
// rounding to nearest, subnormals kept. A kernel that runs in the same process,
// or a caller, may have left another.
#pragma once

#include <cfenv>

namespace normgate::tiers {

class DefaultEnvironment {
 public:
  DefaultEnvironment() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultEnvironment() { std::fesetenv(&saved_); }
  DefaultEnvironment(const DefaultEnvironment&) = delete;
  DefaultEnvironment& operator=(const DefaultEnvironment&) = delete;

 private:
  std::fenv_t saved_{};
};

}  // namespace normgate::tiers
