#include "worker/text/jinja/objects.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "worker/text/jinja/arguments.h"
#include "worker/text/jinja/iteration.h"
#include "worker/text/jinja/operations.h"
#include "worker/text/jinja/printing.h"

namespace plimsoll::worker::jinja {
namespace {

using MaybeValue = std::optional<Value>;

constexpr int64_t kMaxRange = 100'000;  // jinja2's sandbox has this limit

// The result of `cycler()`.
class Cycler final : public Object {
 public:
  explicit Cycler(Value items) : items_(std::move(items)) {}
  absl::string_view TypeName() const override { return "Cycler"; }
  bool IsCallable() const override { return false; }
  int depth() const override { return items_.Depth() + 1; }
  absl::StatusOr<MaybeValue> Member(Evaluator& evaluator,
                                    absl::string_view name) override;
  const Value& current() const { return items_.items()[at_]; }
  void Next() { at_ = (at_ + 1) % items_.items().size(); }
  void Reset() { at_ = 0; }

 private:
  const Value items_;  // a tuple, not empty
  size_t at_ = 0;
};

absl::StatusOr<Value> CyclerNext(Evaluator&, const Value& self,
                                 Arguments&& arguments) {
  RETURN_IF_ERROR(Bind("next", {}, 0, std::move(arguments)).status());
  auto& cycler = static_cast<Cycler&>(self.object());
  Value value = cycler.current();
  cycler.Next();
  return value;
}

absl::StatusOr<Value> CyclerReset(Evaluator&, const Value& self,
                                  Arguments&& arguments) {
  RETURN_IF_ERROR(Bind("reset", {}, 0, std::move(arguments)).status());
  static_cast<Cycler&>(self.object()).Reset();
  return Value(None());
}

absl::StatusOr<MaybeValue> Cycler::Member(Evaluator&, absl::string_view name) {
  if (name == "current") return current();
  return std::nullopt;
}

// The result of `joiner()`: a call returns an empty text at first, and its text
// from then on.
class Joiner final : public Object {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}
  absl::string_view TypeName() const override { return "Joiner"; }
  int depth() const override { return separator_.Depth() + 1; }
  absl::StatusOr<Value> Call(Evaluator&, Arguments&& arguments) override {
    RETURN_IF_ERROR(Bind("joiner", {}, 0, std::move(arguments)).status());
    if (std::exchange(is_used_, true)) return separator_;
    return Value::String("");
  }

 private:
  const Value separator_;
  bool is_used_ = false;
};

absl::StatusOr<Value> MakeRange(Evaluator&, const Value&,
                                Arguments&& arguments) {
  const size_t n = arguments.positional.size();
  if (!arguments.named.empty() || n < 1 || n > 3) {
    return TypeError("range expected 1 to 3 arguments");
  }
  int64_t numbers[3] = {0, 0, 1};
  for (size_t i = 0; i < n; ++i) {
    const Value& argument = arguments.positional[i];
    if (!argument.is_integer()) {
      return TypeError(absl::StrCat("'", argument.TypeName(),
                                    "' object cannot be interpreted as an "
                                    "integer"));
    }
    numbers[n == 1 ? 1 : i] = argument.integer();
  }
  const auto [start, stop, step] = numbers;
  if (step == 0) return TypeError("range() arg 3 must not be zero");
  const auto span = static_cast<long double>(stop) - start;
  const long double count = span / static_cast<long double>(step);
  if (count > kMaxRange) {
    return TypeError(absl::StrCat(
        "Range too big. The sandbox blocks ranges larger than ", kMaxRange));
  }
  if (count <= 0) return Value(Range{start, stop, step, 0});
  const int64_t whole = (stop - start) / step;
  return Value(Range{start, stop, step, whole + ((stop - start) % step != 0)});
}

absl::Status AddPairs(Evaluator& evaluator, const Value& source, Dict& dict) {
  if (source.is_dict()) {
    for (const Dict::Pair& pair : source.dict().pairs()) {
      RETURN_IF_ERROR(dict.Set(pair.first, pair.second));
    }
    return evaluator.Spend(source.dict().size());
  }
  ASSIGN_OR_RETURN(const std::vector<Value> items, ToVector(evaluator, source));
  for (const Value& item : items) {
    ASSIGN_OR_RETURN(std::vector<Value> pair, ToVector(evaluator, item));
    if (pair.size() != 2) {
      return TypeError("an element of dict()'s argument is no pair");
    }
    RETURN_IF_ERROR(dict.Set(std::move(pair[0]), std::move(pair[1])));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Dict>> DictOf(Evaluator& evaluator,
                                                   Arguments&& arguments) {
  auto dict = std::make_shared<Dict>();
  if (arguments.positional.size() > 1) {
    return TypeError("dict expected at most 1 argument");
  }
  for (const Value& source : arguments.positional) {
    RETURN_IF_ERROR(AddPairs(evaluator, source, *dict));
  }
  for (auto& [name, value] : arguments.named) {
    RETURN_IF_ERROR(dict->Set(Value::String(name), std::move(value)));
  }
  return std::shared_ptr<const Dict>(std::move(dict));
}

absl::StatusOr<Value> MakeDict(Evaluator& evaluator, const Value&,
                               Arguments&& arguments) {
  ASSIGN_OR_RETURN(auto dict, DictOf(evaluator, std::move(arguments)));
  return Value(std::move(dict));
}

absl::StatusOr<Value> MakeNamespace(Evaluator& evaluator, const Value&,
                                    Arguments&& arguments) {
  ASSIGN_OR_RETURN(const auto dict, DictOf(evaluator, std::move(arguments)));
  auto made = std::make_shared<Namespace>();
  for (const Dict::Pair& pair : dict->pairs()) {
    if (!pair.first.is_string()) continue;  // no name: it is out of reach
    RETURN_IF_ERROR(made->Set(pair.first.bytes(), pair.second));
  }
  evaluator.Own(std::shared_ptr<Object>(made));
  return Value(std::shared_ptr<Object>(std::move(made)));
}

absl::StatusOr<Value> MakeCycler(Evaluator&, const Value&,
                                 Arguments&& arguments) {
  if (!arguments.named.empty() || arguments.positional.empty()) {
    return TypeError("at least one item has to be provided");
  }
  ASSIGN_OR_RETURN(Value items,
                   Value::MakeTuple(std::move(arguments.positional)));
  RETURN_IF_ERROR(CheckNesting(items.Depth() + 1));
  return Value(
      std::shared_ptr<Object>(std::make_shared<Cycler>(std::move(items))));
}

absl::StatusOr<Value> MakeJoiner(Evaluator&, const Value&,
                                 Arguments&& arguments) {
  ASSIGN_OR_RETURN(auto bound,
                   Bind("joiner", {"sep"}, 0, std::move(arguments)));
  Value separator = bound[0].value_or(Value::String(", "));
  RETURN_IF_ERROR(CheckNesting(separator.Depth() + 1));
  return Value(
      std::shared_ptr<Object>(std::make_shared<Joiner>(std::move(separator))));
}

absl::StatusOr<Value> RaiseException(Evaluator& evaluator, const Value&,
                                     Arguments&& arguments) {
  ASSIGN_OR_RETURN(const auto bound, Bind("raise_exception", {"message"}, 1,
                                          std::move(arguments)));
  ASSIGN_OR_RETURN(const Text message, Str(evaluator, *bound[0]));
  return absl::InvalidArgumentError(
      absl::StrCat("the template refuses this: ", message.bytes()));
}

absl::StatusOr<Value> StrftimeNow(Evaluator& evaluator, const Value&,
                                  Arguments&& arguments) {
  ASSIGN_OR_RETURN(const auto bound,
                   Bind("strftime_now", {"format"}, 1, std::move(arguments)));
  if (!bound[0]->is_string()) {
    return TypeError("strftime() argument 1 must be str");
  }
  const Surroundings& world = evaluator.surroundings();
  return evaluator.MakeText(Text(absl::FormatTime(
      std::string(bound[0]->bytes()), world.now, world.time_zone)));
}

absl::StatusOr<Value> LoopCycle(Evaluator&, const Value& self,
                                Arguments&& arguments) {
  if (arguments.positional.empty() || !arguments.named.empty()) {
    return TypeError("no items for cycling given");
  }
  const auto& loop = static_cast<const Loop&>(self.object());
  const auto n = static_cast<int64_t>(arguments.positional.size());
  return arguments.positional[static_cast<size_t>(loop.index0() % n)];
}

absl::StatusOr<Value> LoopChanged(Evaluator& evaluator, const Value& self,
                                  Arguments&& arguments) {
  if (!arguments.named.empty()) {
    return TypeError("changed() takes no keyword arguments");
  }
  ASSIGN_OR_RETURN(Value values,
                   Value::MakeTuple(std::move(arguments.positional)));
  ASSIGN_OR_RETURN(const bool has_changed,
                   static_cast<Loop&>(self.object())
                       .HasChanged(evaluator, std::move(values)));
  return Value(has_changed);
}

}  // namespace

NativeFunction FindGlobal(absl::string_view name) {
  constexpr std::pair<absl::string_view, NativeFunction> kGlobals[] = {
      {"range", MakeRange},         {"dict", MakeDict},
      {"namespace", MakeNamespace}, {"cycler", MakeCycler},
      {"joiner", MakeJoiner},       {"raise_exception", RaiseException},
      {"strftime_now", StrftimeNow}};
  for (const auto& [known, function] : kGlobals) {
    if (known == name) return function;
  }
  return nullptr;
}

NativeFunction FindObjectMethod(const Object& object, absl::string_view name) {
  if (object.TypeName() == "LoopContext") {
    if (name == "cycle") return LoopCycle;
    if (name == "changed") return LoopChanged;
  }
  if (object.TypeName() == "Cycler") {
    if (name == "next") return CyclerNext;
    if (name == "reset") return CyclerReset;
  }
  return nullptr;
}

absl::Status Object::CallAndWrite(Evaluator& evaluator, Arguments&& arguments) {
  ASSIGN_OR_RETURN(const Value value, Call(evaluator, std::move(arguments)));
  return evaluator.Write(value);
}

absl::StatusOr<MaybeValue> Macro::Member(Evaluator&, absl::string_view name) {
  if (name == "name") return Value::String(syntax_.name);
  if (name == "caller") return Value(syntax_.uses_caller);
  if (name == "catch_kwargs") return Value(syntax_.uses_kwargs);
  if (name == "catch_varargs") return Value(syntax_.uses_varargs);
  if (name != "arguments") return std::nullopt;
  std::vector<Value> names;
  for (const int id : syntax_.parameters) {
    names.push_back(Value::String(program_.names[static_cast<size_t>(id)]));
  }
  ASSIGN_OR_RETURN(Value tuple, Value::MakeTuple(std::move(names)));
  return tuple;
}

std::string Macro::Repr() const {
  if (syntax_.name.empty()) return "<Macro anonymous>";
  return absl::StrCat("<Macro '", syntax_.name, "'>");
}

absl::StatusOr<MaybeValue> Namespace::Member(Evaluator&,
                                             absl::string_view name) {
  const Value* member = HeldMember(name);
  if (member == nullptr) return std::nullopt;
  return *member;
}

const Value* Namespace::HeldMember(absl::string_view name) const {
  for (const auto& [known, value] : members_) {
    if (known == name) return &value;
  }
  return nullptr;
}

Value* Namespace::Find(absl::string_view name) {
  for (auto& [known, value] : members_) {
    if (known == name) return &value;
  }
  return nullptr;
}

absl::Status Namespace::Set(absl::string_view name, Value value) {
  RETURN_IF_ERROR(CheckNesting(value.Depth() + 1));
  depth_ = std::max(depth_, value.Depth() + 1);
  if (Value* old = Find(name)) {
    *old = std::move(value);
  } else {
    members_.emplace_back(name, std::move(value));
  }
  return absl::OkStatus();
}

absl::StatusOr<MaybeValue> Loop::Advance(Evaluator& evaluator) {
  MaybeValue next;
  if (after_) {
    next = *std::exchange(after_, std::nullopt);
  } else {
    ASSIGN_OR_RETURN(next, items_.iterator->Next(evaluator));
  }
  if (!next) return std::nullopt;
  ++index0_;
  before_ = std::move(current_);
  current_ = next;
  return next;
}

absl::StatusOr<const MaybeValue*> Loop::PeekNext(Evaluator& evaluator) {
  if (!after_) {
    ASSIGN_OR_RETURN(after_, items_.iterator->Next(evaluator));
  }
  return &*after_;
}

absl::StatusOr<int64_t> Loop::Length(Evaluator& evaluator) {
  if (items_.length) return *items_.length;
  ASSIGN_OR_RETURN(std::vector<Value> rest,
                   ToVector(evaluator, Value(items_.iterator)));
  items_.length = static_cast<int64_t>(rest.size()) + index0_ + 1 +
                  (after_ && after_->has_value() ? 1 : 0);
  ASSIGN_OR_RETURN(const Value list, Value::MakeList(std::move(rest)));
  ASSIGN_OR_RETURN(items_.iterator, Iterate(list));
  return *items_.length;
}

absl::StatusOr<MaybeValue> Loop::Member(Evaluator& evaluator,
                                        absl::string_view name) {
  if (name == "index0") return Value(index0_);
  if (name == "index") return Value(index0_ + 1);
  if (name == "first") return Value(index0_ == 0);
  if (name == "depth0") return Value(depth0_);
  if (name == "depth") return Value(depth0_ + 1);
  if (name == "length" || name == "revindex" || name == "revindex0") {
    ASSIGN_OR_RETURN(const int64_t length, Length(evaluator));
    if (name == "length") return Value(length);
    return Value(length - index0_ - (name == "revindex" ? 0 : 1));
  }
  if (name == "last" || name == "nextitem") {
    ASSIGN_OR_RETURN(const MaybeValue* next, PeekNext(evaluator));
    if (name == "last") return Value(!next->has_value());
    return next->value_or(Value::MakeUndefined("there is no next item"));
  }
  if (name == "previtem") {
    if (before_) return before_;
    return Value::MakeUndefined("there is no previous item");
  }
  return std::nullopt;
}

absl::StatusOr<Value> Loop::Call(Evaluator& evaluator, Arguments&& arguments) {
  if (!syntax_.is_recursive) {
    return TypeError(
        "The loop must have the 'recursive' marker to be called recursively.");
  }
  ASSIGN_OR_RETURN(const auto bound,
                   Bind("loop", {"iterable"}, 1, std::move(arguments)));
  return evaluator.RunLoop(syntax_, *bound[0], scope_, depth0_ + 1);
}

absl::StatusOr<bool> Loop::HasChanged(Evaluator& evaluator, Value values) {
  if (last_changed_) {
    ASSIGN_OR_RETURN(const bool is_equal,
                     Equal(evaluator, *last_changed_, values));
    if (is_equal) return false;
  }
  last_changed_ = std::move(values);
  return true;
}

void Loop::Release() {
  scope_ = nullptr;
  before_.reset();
  current_.reset();
  last_changed_.reset();
  after_.reset();
}

}  // namespace plimsoll::worker::jinja
