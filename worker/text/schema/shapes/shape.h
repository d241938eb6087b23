// The conditions that a JSON schema sets for a value of one type. Conditions
// that depend on each other are in one place.
#ifndef PLIMSOLL_WORKER_TEXT_SCHEMA_SHAPES_SHAPE_H_
#define PLIMSOLL_WORKER_TEXT_SCHEMA_SHAPES_SHAPE_H_

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "worker/text/grammar/grammar_builder.h"
#include "worker/text/schema/shapes/decimal.h"
#include "worker/text/schema/shapes/pattern_pool.h"
#include "worker/text/schema_reader.h"

namespace plimsoll::worker {

// The types of JSON's values.
enum class JsonType { kNull, kBoolean, kNumber, kString, kArray, kObject };
inline constexpr JsonType kJsonTypes[] = {JsonType::kNull,   JsonType::kBoolean,
                                          JsonType::kNumber, JsonType::kString,
                                          JsonType::kArray,  JsonType::kObject};

// A condition: a value is valid by a schema, or equals another value. If it is
// not positive, it holds for all other values.
struct Literal {
  const SchemaJson* json;
  bool is_value;  // `json` is a value, not a schema
  bool is_positive;
  friend auto operator<=>(const Literal&, const Literal&) = default;
};
// A condition: all of its literals hold. They are sorted, without repetitions.
// An empty term allows any value.
using Term = std::vector<Literal>;

void AddTo(Term& term, const Literal& literal);
void AddTo(Term& term, const Term& other);

struct StringShape {
  std::optional<std::vector<std::string>> values = {};  // sorted
  std::vector<std::string> excluded = {};               // sorted
  std::vector<PatternUse> patterns = {};                // sorted
  int64_t min = 0;
  int64_t max = GrammarBuilder::kUnlimited;

  friend bool operator==(const StringShape&, const StringShape&) = default;
  bool is_any() const { return *this == StringShape(); }
};

struct NumberBound {
  Decimal value = {};
  bool is_open;  // without the value itself
  friend bool operator==(const NumberBound&, const NumberBound&) = default;
};

struct NumberShape {
  struct Multiple {
    Decimal of = {};
    bool is_negated;
    friend bool operator==(const Multiple&, const Multiple&) = default;
  };
  std::optional<std::vector<Decimal>> values = {};
  std::vector<Decimal> excluded = {};
  std::optional<NumberBound> least = {};
  std::optional<NumberBound> greatest = {};
  std::optional<bool> is_integer = {};
  std::vector<Multiple> multiples = {};

  friend bool operator==(const NumberShape&, const NumberShape&) = default;
};
// Whether a number is allowed.
bool Allows(const NumberShape& shape, const Decimal& number);

struct ArrayShape {
  // At least `min` and at most `max` items, from place `from` on, fit `term`.
  struct Contains {
    int64_t from;
    Term term = {};
    int64_t min;
    int64_t max;
    friend bool operator==(const Contains&, const Contains&) = default;
  };
  std::vector<Term> prefix = {};
  Term rest = {};
  int64_t min = 0;
  int64_t max = GrammarBuilder::kUnlimited;
  bool is_unique = false;
  std::vector<Contains> contains = {};

  friend bool operator==(const ArrayShape&, const ArrayShape&) = default;
};

struct ObjectShape {
  struct Named {
    std::string name = {};
    Term term = {};
    bool is_required = false;
    bool is_forbidden = false;
    friend bool operator==(const Named&, const Named&) = default;
  };
  // A rule for names that match one of `patterns` or, with `is_rest`, for names
  // that are not among `names` and match no pattern.
  struct Rule {
    bool is_rest;
    std::vector<std::string> names = {};
    std::vector<std::vector<PatternUse>> patterns = {};
    Term term = {};
    friend bool operator==(const Rule&, const Rule&) = default;
  };
  // A condition: there is a property to whose name the rule applies, or whose
  // name fits `name`, and whose value fits the rule's term.
  struct Witness {
    Rule rule = {};
    Term name = {};
    friend bool operator==(const Witness&, const Witness&) = default;
  };
  std::vector<Named> named = {};
  std::map<std::string, size_t, std::less<>> numbers =
      {};  // indices in `named`
  std::vector<Rule> rules = {};
  std::vector<Witness> witnesses = {};
  Term names = {};  // every name fits this term
  int64_t min = 0;
  int64_t max = GrammarBuilder::kUnlimited;

  Named& At(const std::string& name);
  friend bool operator==(const ObjectShape&, const ObjectShape&) = default;
};

// The conditions for one type; only that type's part is used.
struct Shape {
  bool may_be_true = true;
  bool may_be_false = true;
  StringShape string = {};
  NumberShape number = {};
  ArrayShape array = {};
  ObjectShape object = {};

  friend bool operator==(const Shape&, const Shape&) = default;
};

// Each of these narrows a shape. Returns false if nothing is left.
bool RestrictStrings(Shape& shape, const std::vector<std::string>& values);
bool ExcludeString(Shape& shape, const std::string& value);
bool RestrictLength(Shape& shape, int64_t min, int64_t max);
bool RestrictNumbers(Shape& shape, const std::vector<Decimal>& values);
bool RestrictLeast(Shape& shape, const NumberBound& bound);
bool RestrictGreatest(Shape& shape, const NumberBound& bound);
bool RestrictInteger(Shape& shape, bool is_integer);
bool RestrictItemCount(Shape& shape, int64_t min, int64_t max);
bool RestrictMemberCount(Shape& shape, int64_t min, int64_t max);
bool RequireMember(Shape& shape, const std::string& name, const Term& term);
bool ForbidMember(Shape& shape, const std::string& name);
// Item `i` fits `prefix[i]` or, beyond them, `rest`.
void AddItems(Shape& shape, const std::vector<Term>& prefix, const Term& rest);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_SCHEMA_SHAPES_SHAPE_H_
