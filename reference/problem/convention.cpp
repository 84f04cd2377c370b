// The convention table: what each framework does, with the source of the fact, and conventions as text.
//
// To add a preset: an entry of `presets`. To add a field: the member in convention.hpp and the C ABI, and an entry of
// `fields`; printing, parsing and diagnosis follow from it.
#include "reference/problem/convention.hpp"

#include <fmt/format.h>

#include <array>
#include <type_traits>

#include "reference/problem/text.hpp"

namespace normgate {

namespace {

struct Field {
  std::string_view name;
  std::vector<std::string_view> values;  // by number
  std::vector<std::string_view> found;   // for diagnosis: what a kernel does that follows the value; empty: never tried
  std::vector<std::string_view> declared;  // … and what stands in its manifest
  std::int32_t (*get)(const Convention&);
  void (*set)(Convention&, std::int32_t);
};

template <auto member>
std::int32_t get_field(const Convention& convention) {
  return static_cast<std::int32_t>(convention.*member);
}
template <auto member>
void set_field(Convention& convention, std::int32_t value) {
  convention.*member = static_cast<std::remove_reference_t<decltype(convention.*member)>>(value);
}
template <auto member>
Field field(std::string_view name, std::vector<std::string_view> values, std::vector<std::string_view> found,
            std::vector<std::string_view> declared) {
  return {name, std::move(values), std::move(found), std::move(declared), get_field<member>, set_field<member>};
}

const std::vector<Field>& fields() {
  static const std::vector<Field> table{
      field<&Convention::normalizing>("normalizing", {"n", "n_minus_1"},
                                      {"normalizing divisor n", "normalizing divisor n-1"}, {"n", "n-1"}),
      field<&Convention::stored>("stored", {"n_minus_1", "n"}, {"stored divisor n-1", "stored divisor n"},
                                 {"n-1", "n"}),
      field<&Convention::single>("single", {"nan", "unchanged", "zero"}, {}, {}),
      field<&Convention::momentum>("momentum", {"new_weight", "old_weight", "cumulative", "accumulated_weight"},
                                   {"momentum weighs the new value", "momentum weighs the old value",
                                    "the new value is weighed by 1/step", "momentum decays an accumulated weight"},
                                   {"the new value", "the old value", "1/step", "an accumulated weight"}),
      field<&Convention::eps>("eps", {"inside", "outside", "floor"},
                              {"eps inside the root", "eps outside the root", "eps a floor below the variance"},
                              {"inside", "outside", "a floor"}),
      field<&Convention::gamma>("gamma", {"plain", "plus_one"}, {"gamma is w", "gamma is 1+w"}, {"w", "1+w"}),
      field<&Convention::saved>(
          "saved", {"rstd", "variance"},
          {"saved statistic is the reciprocal standard deviation", "saved statistic is the variance"},
          {"the reciprocal standard deviation", "the variance"}),
      field<&Convention::gradients>("gradients", {"overwrite", "accumulate"}, {}, {}),
      field<&Convention::scalars>("scalars", {"float32", "float64"}, {}, {}),
  };
  return table;
}

constexpr std::array<ConventionPreset, 10> presets{{
    {"pytorch", {}, "PyTorch, aten/src/ATen/native/Normalization.cpp: batch_norm_cpu_update_stats_template"},
    {"tensorflow",
     {.single = SingleCount::zero, .saved = SavedStatistic::variance},
     "TensorFlow, tensorflow/core/kernels/fused_batch_norm_op.cc: rest_size_minus_one, exponential_avg_factor"},
    {"keras",
     {.stored = StoredDivisor::n, .momentum = MomentumForm::old_weight},
     "Keras 3, keras/src/layers/normalization/batch_normalization.py: call"},
    {"onnx",
     {.stored = StoredDivisor::n, .momentum = MomentumForm::old_weight},
     "ONNX, docs/Operators.md: BatchNormalization-15, LayerNormalization-17 (InvStdDev)"},
    {"caffe",
     {.single = SingleCount::zero, .momentum = MomentumForm::accumulated_weight},
     "Caffe, src/caffe/layers/batch_norm_layer.cpp: bias_correction_factor, blobs_[2]"},
    {"flax",
     {.stored = StoredDivisor::n, .momentum = MomentumForm::old_weight},
     "Flax, flax/linen/normalization.py: BatchNorm.__call__"},
    {"darknet",
     {.normalizing = NormalizingDivisor::n_minus_1,
      .momentum = MomentumForm::old_weight,
      .eps = EpsPlacement::outside,
      .saved = SavedStatistic::variance},
     "Darknet, src/blas.c: variance_cpu, normalize_cpu; src/batchnorm_layer.c: rolling_variance"},
    {"paddle",
     {.stored = StoredDivisor::n, .momentum = MomentumForm::old_weight},
     "Paddle, paddle/phi/kernels/cpu/batch_norm_kernel.cc: running_var_arr, saved_variance"},
    {"cudnn", {}, "cuDNN, API reference: cudnnBatchNormalizationForwardTraining"},
    {"sample_variance",
     {.normalizing = NormalizingDivisor::n_minus_1},
     "introductory texts that take the standard deviation of a sample for both"},
}};

std::string value_name(const Field& field, std::int32_t value) {
  const auto i = static_cast<std::size_t>(value);
  return i < field.values.size() ? std::string(field.values[i]) : fmt::format("{}", value);
}

}  // namespace

std::span<const ConventionPreset> convention_table() { return presets; }

std::string print(const Convention& convention) {
  const ConventionPreset* best = nullptr;
  std::size_t fewest = fields().size() + 1;
  for (const ConventionPreset& preset : presets) {
    std::size_t differences = 0;
    for (const Field& field : fields()) differences += field.get(preset.convention) != field.get(convention) ? 1 : 0;
    if (differences < fewest) {
      fewest = differences;
      best = &preset;
    }
  }
  std::string text(best->name);
  for (const Field& field : fields())
    if (field.get(best->convention) != field.get(convention))
      text += fmt::format(",{}:{}", field.name, value_name(field, field.get(convention)));
  return text;
}

ConventionOrError parse_convention(std::string_view text) {
  const std::size_t end = text.find(',');
  const std::string_view preset_name = text.substr(0, end);
  std::vector<std::string_view> names;
  for (const ConventionPreset& preset : presets) names.push_back(preset.name);
  std::optional<Convention> convention;
  for (const ConventionPreset& preset : presets)
    if (preset.name == preset_name) convention = preset.convention;
  if (!convention)
    return {std::nullopt, fmt::format("convention: there is no preset {}; the nearest is {}, of {}.",
                                      quoted(preset_name), nearest(preset_name, names), one_of(names))};
  std::string_view rest = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  bool more = end != std::string_view::npos;
  std::vector<const Field*> seen;
  while (more) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    more = comma != std::string_view::npos;
    rest = more ? rest.substr(comma + 1) : std::string_view();
    const std::size_t colon = part.find(':');
    const std::string_view name = part.substr(0, colon);
    std::vector<std::string_view> field_names;
    const Field* found = nullptr;
    for (const Field& field : fields()) {
      field_names.push_back(field.name);
      if (field.name == name) found = &field;
    }
    if (colon == std::string_view::npos || found == nullptr)
      return {std::nullopt, fmt::format("convention: {} is no difference from a preset; right is {}:…, say, of {}.",
                                        quoted(part), nearest(name, field_names), one_of(field_names))};
    if (std::find(seen.begin(), seen.end(), found) != seen.end())
      return {std::nullopt, fmt::format("convention: {} is given twice; once is right.", found->name)};
    seen.push_back(found);
    const std::string_view value = part.substr(colon + 1);
    const auto at = std::find(found->values.begin(), found->values.end(), value);
    if (at == found->values.end())
      return {std::nullopt,
              fmt::format("convention: {} is {}; right is {}.", found->name, quoted(value), one_of(found->values))};
    found->set(*convention, static_cast<std::int32_t>(at - found->values.begin()));
  }
  return {convention, ""};
}

std::vector<NamedConvention> one_field_away(const Convention& convention) {
  std::vector<NamedConvention> result;
  for (const Field& field : fields()) {
    const std::int32_t declared = field.get(convention);
    if (static_cast<std::size_t>(declared) >= field.declared.size()) continue;
    for (std::size_t value = 0; value < field.found.size(); ++value) {
      if (static_cast<std::int32_t>(value) == declared) continue;
      NamedConvention other{convention, fmt::format("{}; declared {}", field.found[value],
                                                    field.declared[static_cast<std::size_t>(declared)])};
      field.set(other.convention, static_cast<std::int32_t>(value));
      result.push_back(std::move(other));
    }
  }
  return result;
}

}  // namespace normgate
