// How the sign of a sum of roots is found.
//
// One term, A + B sqrt(w) once the boundary is in A: by the signs of A and B, and of A² - B² w where they differ.
//
// Several: first by enclosing every term between two neighbouring multiples of 2^-k, with k such that the largest has
// 512 bits. b sqrt(w) / c = sqrt(b² w / c²), and floor(sqrt(z)) = floor(sqrt(floor(z))), so that integer division and
// integer root give the lower one; a sum of N terms is enclosed to N multiples.
//
// If the sum is so close to 0, by algebra. sqrt(v) and sqrt(w) are in one class if v w is a square of a rational
// number; then sqrt(v) = sqrt(v w) / sqrt(w). Square roots of different classes are linearly independent over the
// rational numbers (Besicovitch 1940), so the sum is 0 exactly if in every class the sum of b sqrt(v w) / c is. If it
// is not 0, longer enclosures tell the sign.
//
// If v w is a square, Jacobi's symbols of v and w modulo any odd number are equal or one of them is 0: their signature
// finds the candidates, and whether v w is a square is then tested.
#include <algorithm>
#include <cstddef>
#include <unordered_map>

#include "reference/truth/tiers/root_sums-inl.h"

namespace normgate::tiers {
namespace {

struct Fraction {
  Dyadic numerator;
  Dyadic divisor;  // > 0
};

// floor(a 2^k / c) for a >= 0, c > 0.
mpz_class floor_of(const Dyadic& a, const Dyadic& c, std::int64_t k) {
  const std::int64_t power = a.e - c.e + k;
  mpz_class result;
  if (power >= 0) {
    result = times_power(a.m, power) / c.m;
  } else {
    result = a.m / times_power(c.m, -power);
  }
  return result;
}

// The sum of numbers, each known to lie between two neighbouring multiples of 2^-k.
class Enclosure {
 public:
  explicit Enclosure(std::int64_t k) : k_(k) {}

  void add_ratio(const Dyadic& a, const Dyadic& c) {
    if (a.sign() != 0) add(floor_of(a.sign() < 0 ? -a : a, c, k_), a.sign());
  }
  void add_root(const Dyadic& b, const Dyadic& w, const Dyadic& c) {
    if (b.sign() == 0 || w.sign() == 0) return;
    mpz_class root = floor_of(b * b * w, c * c, 2 * k_);
    mpz_sqrt(root.get_mpz_t(), root.get_mpz_t());
    add(root, b.sign());
  }
  // 0 if the enclosure does not tell.
  [[nodiscard]] int sign() const {
    if (sum_ > below_) return 1;
    return sum_ < -above_ ? -1 : 0;
  }

 private:
  void add(const mpz_class& floor_of_modulus, int sign) {
    if (sign > 0) {
      sum_ += floor_of_modulus;
      ++above_;
    } else {
      sum_ -= floor_of_modulus;
      ++below_;
    }
  }

  std::int64_t k_;
  mpz_class sum_;  // the value lies between sum - below and sum + above
  long below_ = 0;
  long above_ = 0;
};

// log2 of the largest part of a term, from above and within a few.
std::int64_t magnitude(const Term& term) {
  std::int64_t result = INT64_MIN;
  const std::int64_t divisor = term.c.width() - 1;
  if (term.a.sign() != 0) result = term.a.width() - divisor;
  if (term.b.sign() != 0 && term.w.sign() != 0)
    result = std::max(result, term.b.width() + (term.w.width() + 1) / 2 - divisor);
  return result;
}

int sign_by_enclosure(const std::vector<Term>& terms, std::int64_t bits) {
  std::int64_t largest = INT64_MIN;
  for (const Term& term : terms) largest = std::max(largest, magnitude(term));
  if (largest == INT64_MIN) return 0;
  Enclosure sum(bits - largest);
  for (const Term& term : terms) {
    sum.add_ratio(term.a, term.c);
    sum.add_root(term.b, term.w, term.c);
  }
  return sum.sign();
}

// sqrt(w) if it is rational.
bool take_root(const Dyadic& w, Dyadic& root) {
  if (w.e % 2 != 0 || mpz_perfect_square_p(w.m.get_mpz_t()) == 0) return false;
  mpz_class m;
  mpz_sqrt(m.get_mpz_t(), w.m.get_mpz_t());
  root = Dyadic(m, w.e / 2);
  return true;
}

// Whether fractions add up to 0: added up by halves, so that the long numbers are few.
bool is_zero_sum(std::vector<Fraction> fractions) {
  while (fractions.size() > 1) {
    std::size_t out = 0;
    for (std::size_t i = 0; i < fractions.size(); i += 2) {
      if (i + 1 == fractions.size()) {
        fractions[out++] = fractions[i];
        continue;
      }
      const Fraction& f = fractions[i];
      const Fraction& g = fractions[i + 1];
      fractions[out++] = f.divisor == g.divisor
                             ? Fraction{f.numerator + g.numerator, f.divisor}
                             : Fraction{f.numerator * g.divisor + g.numerator * f.divisor, f.divisor * g.divisor};
    }
    fractions.resize(out);
  }
  return fractions.empty() || fractions.front().numerator.sign() == 0;
}

// The roots by class.
class Classes {
 public:
  void add(const Dyadic& b, const Dyadic& w, const Dyadic& c) {
    if (b.sign() == 0 || w.sign() == 0) return;
    Dyadic root;
    if (take_root(w, root)) {
      rational_.push_back({b * root, c});
      return;
    }
    const Signature signature = signature_of(w);
    const auto joins = [&](std::size_t index) {
      if (!take_root(w * classes_[index].w, root)) return false;
      classes_[index].sum.push_back({b * root, c});
      return true;
    };
    if (signature.whole) {
      const auto range = by_signature_.equal_range(signature.bits);
      for (auto at = range.first; at != range.second; ++at)
        if (joins(at->second)) return;
      for (const std::size_t index : without_signature_)
        if (joins(index)) return;
      by_signature_.emplace(signature.bits, classes_.size());
    } else {
      for (std::size_t index = 0; index < classes_.size(); ++index)
        if (joins(index)) return;
      without_signature_.push_back(classes_.size());
    }
    classes_.push_back({w, {{b * w, c}}});
  }
  void add_ratio(const Dyadic& a, const Dyadic& c) {
    if (a.sign() != 0) rational_.push_back({a, c});
  }
  [[nodiscard]] bool is_zero() const {
    return is_zero_sum(rational_) &&
           std::all_of(classes_.begin(), classes_.end(), [](const Class& each) { return is_zero_sum(each.sum); });
  }

 private:
  struct Class {
    Dyadic w;                   // of its first root
    std::vector<Fraction> sum;  // times 1/sqrt(w)
  };
  struct Signature {
    std::uint64_t bits = 0;
    bool whole = true;  // no symbol is 0
  };

  static const std::vector<unsigned long>& moduli() {
    static const std::vector<unsigned long> primes = [] {
      std::vector<unsigned long> result;
      mpz_class prime = mpz_class(1) << 31U;
      for (int i = 0; i < 32; ++i) {
        mpz_nextprime(prime.get_mpz_t(), prime.get_mpz_t());
        result.push_back(prime.get_ui());
      }
      return result;
    }();
    return primes;
  }
  // Of w up to squares: m 2^(e mod 2).
  static Signature signature_of(const Dyadic& w) {
    const mpz_class integer = w.e % 2 == 0 ? w.m : mpz_class(w.m * 2);
    Signature signature;
    for (const unsigned long modulus : moduli()) {
      const int symbol = mpz_kronecker_ui(integer.get_mpz_t(), modulus);
      if (symbol == 0) signature.whole = false;
      signature.bits = signature.bits * 2 + (symbol > 0 ? 1 : 0);
    }
    return signature;
  }

  std::vector<Fraction> rational_;
  std::vector<Class> classes_;
  std::unordered_multimap<std::uint64_t, std::size_t> by_signature_;
  std::vector<std::size_t> without_signature_;
};

int sign_by_squares(const Term& term) {
  const int rational = term.a.sign();
  const int root = term.w.sign() == 0 ? 0 : term.b.sign();
  if (root == 0) return rational;
  if (rational == 0 || rational == root) return root;
  return rational * order(term.a * term.a, term.b * term.b * term.w);
}

bool comes_before(const Term& s, const Term& t) {
  for (const auto& [a, b] : {std::pair{&s.w, &t.w}, std::pair{&s.c, &t.c}}) {
    if (a->e != b->e) return a->e < b->e;
    const int difference = cmp(a->m, b->m);
    if (difference != 0) return difference < 0;
  }
  return false;
}

}  // namespace

void collect(std::vector<Term>& terms) {
  for (Term& term : terms)
    if (term.b.sign() == 0) term.w = Dyadic();
  std::sort(terms.begin(), terms.end(), comes_before);
  std::size_t out = 0;
  for (std::size_t i = 0; i < terms.size();) {
    Term sum = std::move(terms[i]);
    for (++i; i < terms.size() && terms[i].w == sum.w && terms[i].c == sum.c; ++i) {
      sum.a = sum.a + terms[i].a;
      sum.b = sum.b + terms[i].b;
    }
    if (sum.a.sign() != 0 || (sum.b.sign() != 0 && sum.w.sign() != 0)) terms[out++] = std::move(sum);
  }
  terms.resize(out);
}

Sign sign_of_sum(const std::vector<Term>& terms, const Dyadic& numerator, const Dyadic& divisor) {
  if (terms.empty()) return {-numerator.sign(), false};
  if (terms.size() == 1) {
    const Term& term = terms.front();
    return {sign_by_squares({term.a * divisor - numerator * term.c, term.b * divisor, term.c * divisor, term.w}),
            false};
  }
  std::vector<Term> all = terms;
  if (numerator.sign() != 0) all.push_back({-numerator, {}, divisor, {}});
  constexpr std::int64_t first = 512;
  if (const int sign = sign_by_enclosure(all, first); sign != 0) return {sign, true};
  Classes classes;
  for (const Term& term : all) {
    classes.add_ratio(term.a, term.c);
    classes.add(term.b, term.w, term.c);
  }
  if (classes.is_zero()) return {0, false};
  for (std::int64_t bits = 2 * first;; bits *= 2)
    if (const int sign = sign_by_enclosure(all, bits); sign != 0) return {sign, false};
}

}  // namespace normgate::tiers
