// What the properties share: comparing outputs with the truth under bounds, comparing two outputs, and describing what
// is wrong in numbers that people can read.
#pragma once

#include <span>
#include <string>

#include "properties/property.hpp"

namespace normgate {

// "y[n=0 g=0 k=3 s=0] (neighbours …)": where element `index` of a role's dense tensor is, with its neighbours' values.
[[nodiscard]] std::string place(const Problem& problem, Role role, std::size_t index, std::span<const float> values);
[[nodiscard]] std::string place(const Problem& problem, Role role, std::size_t index);
// "0x1.8p+1  3".
[[nodiscard]] std::string both_ways(double value);
// "float32 sums of depth 767, two-pass float32 statistics, centred; n = 768, |mean|/sigma = 1000": what a bound rests
// on. Of parameter gradients "float32 sums of depth 0 in each of 64 groups and 63 over them", of a backward that is
// handed statistics their use.
[[nodiscard]] std::string bound_in_words(const Case& c, const Claim& claim, std::size_t element, Role role);
// The group that an element of a role belongs to; -1 for roles that have no group (running statistics).
[[nodiscard]] std::int64_t group_of(const Problem& problem, Role role, std::size_t index);

// What a kernel's outputs are held to in this case, forward or backward: the truth, and the bounds around it that
// follow from its claim. A backward kernel that declares how it uses handed statistics is held to that function of its
// inputs; one that does not, to the derivative of the forward, within the bounds of every use it may make of them (MATH
// §7).
struct Demand {
  const Truth* truth = nullptr;
  SharedBounds bounds;
};
[[nodiscard]] Demand demand_of(const Case& c, const Subject& subject);
// The same as a demand on the derivative of the forward (not from_output, which has no x to derive by): a kernel that
// declares its use of handed statistics is within its bound of that function, and so within the bound plus
// |function - derivative| of the derivative.
[[nodiscard]] Demand demand_around_derivative(const Case& c, const Subject& subject);

// Bounds around the function that one use of handed statistics computes, as bounds around the derivative.
[[nodiscard]] Bounds around_derivative(Bounds bounds, const Truth& function, const Truth& derivative);

// Which uses of handed statistics the outputs would pass as, had the kernel declared them: bits 1 << SavedUse of
// short_form, textbook and recomputes; -1 where nothing is handed, or a use is declared.
[[nodiscard]] std::int32_t fitting_uses(const Case& c, const Subject& subject, const Inputs& outputs);

// Judges every element of `roles` within its bound, adding to `judgement`; the first violation in logical order stays.
void judge_within_bounds(const Case& c, const Claim& claim, const Demand& demand, const Inputs& outputs,
                         std::span<const Role> roles, Judgement& judgement);

// Demands equal bits (−0 = +0, NaN = NaN) of two results of the same problem, or, if `bounds` is given, a difference of
// at most twice the tolerance. `what` completes "got: the result …".
void judge_equal(const Case& c, const Inputs& first, const Inputs& second, std::span<const Role> roles,
                 const Bounds* bounds, std::string_view what, Judgement& judgement);

[[nodiscard]] inline bool same_value(float a, float b) { return a == b || (a != a && b != b); }

// The roles that a problem writes, of these.
[[nodiscard]] std::vector<Role> written(const Problem& problem, std::span<const Role> roles);

// The kernel's reason for declining all variations of the first call, "" if it tried one or there are none.
[[nodiscard]] std::string declined_variations(std::span<const runner::Outcome> outcomes);

// One plain call, the usual first stage.
[[nodiscard]] std::vector<runner::Call> one_call(const Case& c, const Subject& subject);
[[nodiscard]] runner::Call call_of(const Problem& problem, const Inputs& inputs, const Subject& subject,
                                   runner::Filling filling = runner::Filling::nan);

// Whether a phase's roles include one.
[[nodiscard]] bool supports(const Subject& subject, Role role);
// The kernel's first listed convention: behaviour that no convention changes is tried with that one only.
[[nodiscard]] bool is_primary(const Subject& subject);
// Whether the convention says something of gradients that none listed before it does: what a running variance is
// divided by, and most of what momentum weighs, is nothing to them.
[[nodiscard]] bool is_new_to_backward(const Subject& subject);

// What either kind of phase may write; written() says which of them a problem does.
inline constexpr Role output_roles[] = {
    Role::y,  Role::mean,   Role::stat,  Role::running_mean, Role::running_var, Role::running_weight,
    Role::dx, Role::dgamma, Role::dbeta, Role::ddy};
inline constexpr Role gradient_roles[] = {Role::dx, Role::dgamma, Role::dbeta};

}  // namespace normgate
