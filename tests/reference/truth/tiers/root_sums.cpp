// The exact tier's arithmetic: fixed-point sums against rational ones, and sums of roots that are known to be 0 or not.
#include <map>

#include "reference/truth/tiers/root_sums-inl.h"
#include "tests/reference/truth/support.hpp"

namespace normgate {
namespace {

using tiers::Dyadic;
using tiers::Sign;
using tiers::Term;

mpq_class rational(const Dyadic& value) {
  mpq_class result(value.m);
  if (value.e >= 0) {
    mpq_mul_2exp(result.get_mpq_t(), result.get_mpq_t(), static_cast<mp_bitcnt_t>(value.e));
  } else {
    mpq_div_2exp(result.get_mpq_t(), result.get_mpq_t(), static_cast<mp_bitcnt_t>(-value.e));
  }
  return result;
}

TEST(FixedPoint, SumsAreThoseOfRationalNumbers) {
  Draw draw(0xF1D);
  for (int i = 0; i < 200; ++i) {
    tiers::FixedPoint sum;
    mpq_class wanted = 0;
    for (int j = 0; j < 50; ++j) {
      mpq_class product = 1;
      tiers::Factor term{1, 0, false};
      for (std::uint32_t k = 1 + draw.below(3); k > 0; --k) {
        const float value = draw.any_float();
        product *= static_cast<double>(value);
        term = term * tiers::factor(value);
      }
      if (draw.coin()) {
        sum.add(term);
        wanted += product;
      } else {
        sum.subtract(term);
        wanted -= product;
      }
    }
    ASSERT_TRUE(rational(sum.value()) == wanted) << i;
  }
  // The ends of the range, and both signs in one sum.
  tiers::FixedPoint ends;
  const tiers::Factor large = tiers::factor(std::numeric_limits<float>::max());
  const tiers::Factor small = tiers::factor(-0x1p-149F);
  for (int i = 0; i < 1000; ++i) ends.add(large * large * large);
  ends.add(small * small * small);
  for (int i = 0; i < 1000; ++i) ends.subtract(large * large * large);
  EXPECT_TRUE(ends.value() == Dyadic(-1, -447));
}

TEST(Surds, InversesMultiplyToOne) {
  Draw draw(0x5D);
  for (int i = 0; i < 300; ++i) {
    const Dyadic w(static_cast<std::int64_t>(draw.below(50)));
    const tiers::Surd s{static_cast<std::int64_t>(draw.below(9)) - 4, static_cast<std::int64_t>(draw.below(9)) - 4,
                        1 + static_cast<std::int64_t>(draw.below(5))};
    const std::vector<Term> itself{{s.a, s.b, s.c, w}};
    if (tiers::sign_of_sum(itself, 0, 1).sign == 0) continue;
    const tiers::Surd one = tiers::times(s, tiers::inverse(s, w), w);
    ASSERT_GT(one.c.sign(), 0);
    ASSERT_EQ(tiers::sign_of_sum({{one.a, one.b, one.c, w}}, 1, 1).sign, 0);
  }
}

// Sums of b sqrt(w) / c, where the roots of one class add up to 0 or do not: whether the whole is 0 is then known, and
// its sign is that of the same sum at 53 bits where that is far from 0.
TEST(RootSums, ZerosAndSigns) {
  constexpr std::array<std::int64_t, 10> squarefree{1, 2, 3, 5, 6, 7, 10, 2147483659, 15, 30};
  Draw draw(0x2007);
  int zeros = 0;
  int others = 0;
  for (int i = 0; i < 400; ++i) {
    std::vector<Term> terms;
    std::map<std::int64_t, mpq_class> by_class;
    const auto add = [&](std::int64_t w, const mpz_class& b, std::int64_t s, std::int64_t c, int power) {
      // b sqrt(w s² 4^power) / c
      terms.push_back({{}, Dyadic(b, 0), c, Dyadic(mpz_class(w) * s * s, 2 * power)});
      const mpq_class factor = rational(Dyadic(1, power));
      by_class[w] += mpq_class(b * s) * factor / mpq_class(c);
    };
    for (std::uint32_t j = 0; j < 1 + draw.below(12); ++j)
      add(squarefree[draw.below(10)], static_cast<long>(draw.below(2001)) - 1000, 1 + draw.below(1000),
          1 + draw.below(50), static_cast<int>(draw.below(40)) - 20);
    // What is left of every class, or of all but one, is taken away by a root that looks otherwise.
    std::vector<std::pair<std::int64_t, mpq_class>> rests(by_class.begin(), by_class.end());
    const bool zero = draw.coin();
    for (std::size_t j = zero ? 0 : 1; j < rests.size(); ++j) {
      const std::int64_t s = 1 + draw.below(1000);
      const mpq_class& rest = rests[j].second;
      terms.push_back({{},
                       Dyadic(-rest.get_num(), 0),
                       Dyadic(rest.get_den() * s, 0),
                       Dyadic(mpz_class(rests[j].first) * s * s, 0)});
    }
    const int wanted = zero ? 0 : sgn(rests.front().second);
    (wanted == 0 ? zeros : others) += 1;
    const Sign plain = tiers::sign_of_sum(terms, 0, 1);
    ASSERT_EQ(plain.sign, wanted) << i;
    ASSERT_EQ(plain.by_intervals, terms.size() > 1 && wanted != 0);
    tiers::collect(terms);
    ASSERT_EQ(tiers::sign_of_sum(terms, 0, 1).sign, wanted) << i;
    if (wanted != 0) continue;
    // Beside it by 2^-2000.
    ASSERT_EQ(tiers::sign_of_sum(terms, Dyadic(1, -2000), 1).sign, -1) << i;
    ASSERT_EQ(tiers::sign_of_sum(terms, Dyadic(-1, -2000), 3).sign, 1) << i;
  }
  EXPECT_GT(zeros, 100);
  EXPECT_GT(others, 100);
}

// As many classes as rows, each twice, with fractions of different divisors.
TEST(RootSums, ManyClasses) {
  Draw draw(0xC1A55);
  std::vector<Term> terms;
  for (int i = 0; i < 1500; ++i) {
    const mpz_class w = mpz_class(draw.word()) * draw.word() + 1;
    const std::int64_t s = 3 + draw.below(1000);
    const std::int64_t c = 1 + draw.below(1U << 20U);
    terms.push_back({{}, Dyadic(s), c, Dyadic(w, 1)});
    terms.push_back({{}, Dyadic(-1), c, Dyadic(w * s * s, 1)});
  }
  tiers::collect(terms);
  EXPECT_EQ(tiers::sign_of_sum(terms, 0, 1).sign, 0);
  terms[17].b = terms[17].b * Dyadic((mpz_class(1) << 700U) + 1, -700);
  EXPECT_NE(tiers::sign_of_sum(terms, 0, 1).sign, 0);
}

}  // namespace
}  // namespace normgate
