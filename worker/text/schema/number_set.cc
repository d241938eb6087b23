#include "worker/text/schema/number_set.h"

#include <algorithm>
#include <compare>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/grammar/json_grammar.h"
#include "worker/text/stop_counter.h"

namespace plimsoll::worker {
namespace {

constexpr int64_t kMaxDivisor = 100'000;
// Before states that allow the same digits are made one.
constexpr size_t kMaxNumberStates = 1 << 15;

// Negative, 0 or positive as `a` is less than, equal to or more than `b`.
int OrderOf(int64_t a, int64_t b) { return (a > b ? 1 : 0) - (a < b ? 1 : 0); }

// How a number may lie beside another one.
struct Beside {
  bool may_be_less = false;
  bool may_be_equal = false;
  bool may_be_more = false;

  Beside Mirrored() const { return {may_be_more, may_be_equal, may_be_less}; }
};

// A size beside which the digits are compared as they come.
struct Mark {
  Decimal size = {};  // not negative
  Beside beside = {};
};

// A multiple of `divisor` / 10^`fraction`.
struct Divisor {
  int64_t divisor;
  int64_t fraction;
  bool is_negated;
};

// What the digits so far are, beside the marks and divisors.
struct Progress {
  int64_t whole_left = 0;     // digits before the point that are still to come
  int64_t n_known = 0;        // digits from the first that is not 0, if counted
  int64_t n_fraction = -1;    // digits after it; -1 before the point
  bool has_fraction = false;  // one of them is not 0
  std::vector<int> order = {};      // for each mark: -1, 0 or 1
  std::vector<int64_t> rests = {};  // for each divisor
  friend auto operator<=>(const Progress&, const Progress&) = default;
};

class NumberBuilder {
 public:
  NumberBuilder(const NumberShape& shape, const CharKinds& classes,
                StopCheck stop)
      : shape_(shape), classes_(classes), stop_(stop) {
    out_.n_classes = classes.size();
    out_.AddState(/*is_accepting=*/false);
  }

  absl::StatusOr<CharAutomaton> Build() {
    RETURN_IF_ERROR(ReadDivisors());
    for (const bool is_negative : {false, true}) {
      if (!ReadMarks(is_negative)) continue;
      int32_t from = 0;
      if (is_negative) {
        from = out_.AddState(/*is_accepting=*/false);
        out_.Next(0, ClassOf('-')) = from;
      }
      RETURN_IF_ERROR(AddSizes(from));
    }
    return Reduced(out_);
  }

 private:
  size_t ClassOf(char c) const {
    return classes_.Of(static_cast<unsigned char>(c));
  }

  absl::Status ReadDivisors() {
    for (const NumberShape::Multiple& one : shape_.multiples) {
      Divisor divisor = {0, std::max<int64_t>(-one.of.exponent, 0),
                         one.is_negated};
      const int64_t places = one.of.whole_digits() + divisor.fraction;
      for (int64_t i = places - 1; i >= 0 && divisor.divisor < kMaxDivisor;
           --i) {
        divisor.divisor =
            divisor.divisor * 10 + (one.of.DigitAt(i - divisor.fraction) - '0');
      }
      if (divisor.divisor > kMaxDivisor || places > 18 ||
          divisor.fraction > TextSets::kMaxNumberDigits) {
        return absl::InvalidArgumentError(
            absl::StrCat("multipleOf is supported for numbers of up to ",
                         kMaxDivisor, " only"));
      }
      divisors_.push_back(divisor);
    }
    return absl::OkStatus();
  }

  // Reads what the bounds say of sizes. Returns false if no number of this sign
  // is within them.
  bool ReadMarks(bool is_negative) {
    marks_.clear();
    const auto add = [&](const Decimal& value, const Beside& beside) {
      Decimal size = value;
      size.is_negative = false;
      if (!value.is_zero() && value.is_negative != is_negative) {
        // The value lies beyond zero, below or above all sizes.
        return is_negative ? beside.may_be_less : beside.may_be_more;
      }
      marks_.push_back({size, is_negative ? beside.Mirrored() : beside});
      return true;
    };
    if (shape_.least &&
        !add(shape_.least->value,
             {.may_be_equal = !shape_.least->is_open, .may_be_more = true})) {
      return false;
    }
    if (shape_.greatest && !add(shape_.greatest->value,
                                {.may_be_less = true,
                                 .may_be_equal = !shape_.greatest->is_open})) {
      return false;
    }
    for (const Decimal& one : shape_.excluded) {
      if (one.is_zero() || one.is_negative == is_negative) {
        add(one, {.may_be_less = true, .may_be_more = true});
      }
    }
    // There is no -0.
    if (is_negative) marks_.push_back({Decimal(), {.may_be_more = true}});
    return true;
  }

  // Adds all numbers of one sign, which go on from the state `from`.
  absl::Status AddSizes(int32_t from) {
    // A reader rounds numbers, which may make them equal to a bound that is not
    // allowed itself. It keeps up to kMaxNumberDigits digits apart.
    is_counted_ = shape_.is_integer != true &&
                  (shape_.is_integer == false || !divisors_.empty());
    for (const Mark& mark : marks_) {
      is_counted_ |= shape_.is_integer != true && !mark.beside.may_be_equal &&
                     !mark.size.is_zero();
    }
    const int64_t most = is_counted_ ? int64_t{TextSets::kMaxNumberDigits}
                                     : JsonGrammar::kMaxDigits;
    for (int64_t n = 1; n <= most; ++n) {
      Progress begin = {.whole_left = n};
      for (const Mark& mark : marks_) {
        // A mark below 1 compares as if its whole part had one digit, 0.
        const int64_t digits = std::max<int64_t>(mark.size.whole_digits(), 1);
        begin.order.push_back(OrderOf(n, digits));
      }
      begin.rests.assign(divisors_.size(), 0);
      for (char digit = n == 1 ? '0' : '1'; digit <= '9'; ++digit) {
        // The first digit says nothing of how many follow: the automaton is not
        // deterministic there, so each length has states of its own that are
        // joined below.
        starts_[digit].push_back(After(begin, digit));
      }
    }
    return Join(from);
  }

  Progress After(const Progress& before, char digit) const {
    Progress after = before;
    const bool is_fraction = before.n_fraction >= 0;
    int64_t place = 0;
    if (is_fraction) {
      after.n_fraction = before.n_fraction + 1;
      place = -after.n_fraction;
      after.has_fraction |= digit != '0';
    } else {
      after.whole_left = before.whole_left - 1;
      place = after.whole_left;
    }
    if (is_counted_ && (after.n_known > 0 || digit != '0')) ++after.n_known;
    for (size_t i = 0; i < marks_.size(); ++i) {
      if (after.order[i] != 0) continue;
      const char other = marks_[i].size.DigitAt(place);
      after.order[i] = OrderOf(digit, other);
    }
    for (size_t i = 0; i < divisors_.size(); ++i) {
      after.rests[i] =
          (after.rests[i] * 10 + (digit - '0')) % divisors_[i].divisor;
    }
    return after;
  }

  bool Accepts(const Progress& at) const {
    if (at.whole_left > 0 || at.n_fraction == 0) return false;
    if (shape_.is_integer == false && !at.has_fraction) return false;
    for (size_t i = 0; i < marks_.size(); ++i) {
      const Mark& mark = marks_[i];
      int order = at.order[i];
      // The mark may have more digits.
      const int64_t n = std::max<int64_t>(at.n_fraction, 0);
      if (order == 0 && -mark.size.exponent > n) order = -1;
      bool may_be =
          order > 0 ? mark.beside.may_be_more : mark.beside.may_be_equal;
      if (order < 0) may_be = mark.beside.may_be_less;
      if (!may_be) return false;
    }
    for (size_t i = 0; i < divisors_.size(); ++i) {
      const Divisor& divisor = divisors_[i];
      const int64_t n = std::max<int64_t>(at.n_fraction, 0);
      int64_t rest = at.rests[i];
      for (int64_t k = n; k < divisor.fraction; ++k) {
        rest = rest * 10 % divisor.divisor;
      }
      // Digits beyond its last place make it no multiple, unless they are 0;
      // numbers that go so far are left out.
      if (n > divisor.fraction) return false;
      if ((rest == 0) == divisor.is_negated) return false;
    }
    return true;
  }

  // Where a number goes on after `at`: nothing if it may not.
  bool MayGoOn(const Progress& at, char c) const {
    const bool is_fraction = at.n_fraction >= 0;
    if (c == '.') {
      return !is_fraction && at.whole_left == 0 && shape_.is_integer != true;
    }
    if (!is_fraction) return at.whole_left > 0;
    return at.n_fraction < JsonGrammar::kMaxDigits &&
           at.n_known < TextSets::kMaxNumberDigits;
  }

  // The sets of progresses that the same digits may have made are the states.
  absl::Status Join(int32_t from) {
    using Set = std::vector<Progress>;
    std::map<Set, int32_t> numbers;
    std::vector<Set> sets;
    std::vector<int32_t> states;
    StopCounter stop(stop_);
    const auto number_of = [&](Set set) {
      std::sort(set.begin(), set.end());
      const auto [found, is_new] = numbers.try_emplace(set, 0);
      if (is_new) {
        found->second = out_.AddState(
            std::any_of(set.begin(), set.end(),
                        [this](const Progress& one) { return Accepts(one); }));
        sets.push_back(std::move(set));
        states.push_back(found->second);
      }
      return found->second;
    };
    for (auto& [digit, set] : starts_) {
      const int32_t to = number_of(std::move(set));
      out_.Next(from, ClassOf(digit)) = to;
    }
    starts_.clear();
    for (size_t i = 0; i < sets.size(); ++i) {
      RETURN_IF_ERROR(stop.Spend(static_cast<int64_t>(sets[i].size()) * 16));
      if (out_.size() > kMaxNumberStates) {
        return absl::InvalidArgumentError(
            absl::StrCat("its numbers need an automaton of more than ",
                         kMaxNumberStates, " states"));
      }
      for (const char c :
           {'.', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'}) {
        Set moved;
        for (const Progress& one : sets[i]) {
          if (!MayGoOn(one, c)) continue;
          Progress after = one;
          if (c == '.') {
            after.n_fraction = 0;
          } else {
            after = After(one, c);
          }
          moved.push_back(std::move(after));
        }
        if (moved.empty()) continue;
        const int32_t to = number_of(std::move(moved));
        out_.Next(states[i], ClassOf(c)) = to;
      }
    }
    return absl::OkStatus();
  }

  const NumberShape& shape_;
  const CharKinds& classes_;
  StopCheck stop_;
  bool is_counted_ = false;
  CharAutomaton out_;
  std::vector<Mark> marks_;
  std::vector<Divisor> divisors_;
  std::map<char, std::vector<Progress>> starts_;
};

}  // namespace

absl::StatusOr<TextSet> NumberSet(const NumberShape& shape, StopCheck stop) {
  std::vector<CodePoints> sets = {{{'-', '-'}}, {{'.', '.'}}};
  for (uint32_t c = '0'; c <= '9'; ++c) sets.push_back({{c, c}});
  TextSet set;
  set.classes = std::make_unique<const CharKinds>(sets);
  ASSIGN_OR_RETURN(set.automaton,
                   NumberBuilder(shape, *set.classes, stop).Build());
  return set;
}

}  // namespace plimsoll::worker
