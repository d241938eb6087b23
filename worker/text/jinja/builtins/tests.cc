#include "worker/text/jinja/builtins/tests.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/jinja/arguments.h"
#include "worker/text/jinja/builtins/filters.h"
#include "worker/text/jinja/iteration.h"
#include "worker/text/jinja/operations.h"
#include "worker/text/jinja/printing.h"
#include "worker/text/jinja/string_methods.h"

namespace plimsoll::worker::jinja {
namespace {

using TestResult = absl::StatusOr<bool>;

// Tests of the value alone.
template <bool (*holds)(const Value&)>
TestResult Plain(Evaluator&, const Value& self, Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("a test", arguments, 0, 0));
  return holds(self);
}

bool IsDefined(const Value& value) { return !value.is_undefined(); }
bool IsUndefined(const Value& value) { return value.is_undefined(); }
bool IsNone(const Value& value) { return value.is_none(); }
bool IsBoolean(const Value& value) { return value.is_bool(); }
bool IsTrue(const Value& value) { return value.is_bool() && value.boolean(); }
bool IsFalse(const Value& value) { return value.is_bool() && !value.boolean(); }
bool IsInteger(const Value& value) {
  return value.is_integer() && !value.is_bool();
}
bool IsFloat(const Value& value) { return value.is_float(); }
bool IsNumber(const Value& value) { return value.is_number(); }
bool IsString(const Value& value) { return value.is_string(); }
bool IsMapping(const Value& value) { return value.is_dict(); }
bool IsSequence(const Value& value) {
  return value.is_string() || value.is_list() || value.is_dict() ||
         value.is_range() || value.is_undefined();
}
bool IsEscaped(const Value& value) {
  return value.is_string() && value.text().is_markup();
}
bool IsCallable(const Value& value) {
  return value.is_undefined() ||
         (value.is_object() && value.object().IsCallable());
}

// Tests of two values by an operator.
template <const absl::string_view& sign>
TestResult Compared(Evaluator& evaluator, const Value& self,
                    Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("a test", arguments, 1, 1));
  return Compare(evaluator, sign, self, arguments.positional[0]);
}
constexpr absl::string_view kEqual = "==";
constexpr absl::string_view kUnequal = "!=";
constexpr absl::string_view kLess = "<";
constexpr absl::string_view kLessOrEqual = "<=";
constexpr absl::string_view kGreater = ">";
constexpr absl::string_view kGreaterOrEqual = ">=";

TestResult In(Evaluator& evaluator, const Value& self, Arguments&& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   Bind("in", {"seq"}, 1, std::move(arguments)));
  return Contains(evaluator, *bound[0], self);
}

TestResult SameAs(Evaluator&, const Value& self, Arguments&& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   Bind("sameas", {"other"}, 1, std::move(arguments)));
  return self.IsSame(*bound[0]);
}

// The rest of a division by `divisor` is `rest`.
TestResult HasRest(Evaluator& evaluator, const Value& self,
                   const Value& divisor, int64_t rest) {
  ASSIGN_OR_RETURN(const Value found, Binary(evaluator, "%", self, divisor));
  return Equal(evaluator, found, Value(rest));
}

template <int rest>
TestResult Parity(Evaluator& evaluator, const Value& self,
                  Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("odd", arguments, 0, 0));
  return HasRest(evaluator, self, Value(int64_t{2}), rest);
}

TestResult DivisibleBy(Evaluator& evaluator, const Value& self,
                       Arguments&& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   Bind("divisibleby", {"num"}, 1, std::move(arguments)));
  return HasRest(evaluator, self, *bound[0], 0);
}

template <bool is_upper>
TestResult TestCase(Evaluator& evaluator, const Value& self,
                    Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("lower", arguments, 0, 0));
  ASSIGN_OR_RETURN(const Text text, Str(evaluator, self));
  return IsAllOfCase(text, is_upper);
}

TestResult Iterable(Evaluator&, const Value& self, Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("iterable", arguments, 0, 0));
  return IsIterable(self) ||
         (self.is_object() && self.object().TypeName() == "LoopContext");
}

TestResult FilterExists(Evaluator&, const Value& self, Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("filter", arguments, 0, 0));
  if (!IsHashable(self)) return Unhashable(self);
  return self.is_string() && FindFilter(self.bytes()) != nullptr;
}

TestResult TestExists(Evaluator&, const Value& self, Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("test", arguments, 0, 0));
  if (!IsHashable(self)) return Unhashable(self);
  return self.is_string() && FindTest(self.bytes()) != nullptr;
}

struct NamedTest {
  absl::string_view name;
  TestFunction function;
};
constexpr NamedTest kTests[] = {
    {"defined", Plain<IsDefined>},
    {"string", Plain<IsString>},
    {"none", Plain<IsNone>},
    {"mapping", Plain<IsMapping>},
    {"iterable", Iterable},
    {"undefined", Plain<IsUndefined>},
    {"sequence", Plain<IsSequence>},
    {"boolean", Plain<IsBoolean>},
    {"true", Plain<IsTrue>},
    {"false", Plain<IsFalse>},
    {"number", Plain<IsNumber>},
    {"integer", Plain<IsInteger>},
    {"float", Plain<IsFloat>},
    {"callable", Plain<IsCallable>},
    {"escaped", Plain<IsEscaped>},
    {"in", In},
    {"eq", Compared<kEqual>},
    {"equalto", Compared<kEqual>},
    {"==", Compared<kEqual>},
    {"ne", Compared<kUnequal>},
    {"!=", Compared<kUnequal>},
    {"lt", Compared<kLess>},
    {"lessthan", Compared<kLess>},
    {"<", Compared<kLess>},
    {"le", Compared<kLessOrEqual>},
    {"<=", Compared<kLessOrEqual>},
    {"gt", Compared<kGreater>},
    {"greaterthan", Compared<kGreater>},
    {">", Compared<kGreater>},
    {"ge", Compared<kGreaterOrEqual>},
    {">=", Compared<kGreaterOrEqual>},
    {"odd", Parity<1>},
    {"even", Parity<0>},
    {"divisibleby", DivisibleBy},
    {"sameas", SameAs},
    {"lower", TestCase<false>},
    {"upper", TestCase<true>},
    {"filter", FilterExists},
    {"test", TestExists},
};

}  // namespace

TestFunction FindTest(absl::string_view name) {
  for (const NamedTest& test : kTests) {
    if (test.name == name) return test.function;
  }
  return nullptr;
}

}  // namespace plimsoll::worker::jinja
