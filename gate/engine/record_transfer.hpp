// A shard's result as text and back, without loss: doubles are hexfloats, infinities and NaN included.
#pragma once

#include <string>
#include <variant>

#include "gate/engine/run.hpp"

namespace normgate {

[[nodiscard]] std::string print_shard(const ShardResult& result);
struct ShardOrError {
  std::optional<ShardResult> result;
  std::string error;
};
[[nodiscard]] ShardOrError parse_shard(const std::string& text);

}  // namespace normgate
