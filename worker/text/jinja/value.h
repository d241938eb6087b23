// The values that templates compute with: Python's values, as far as templates
// can see them.
#ifndef PLIMSOLL_WORKER_TEXT_JINJA_VALUE_H_
#define PLIMSOLL_WORKER_TEXT_JINJA_VALUE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/text/jinja/text.h"

namespace plimsoll::worker::jinja {

class Dict;
class Evaluator;
class Iterator;
class Object;
class Value;

// Values, such as lists in lists or generators of generators, may be nested
// this deep.
inline constexpr int kMaxNesting = 200;

// The value of a missing name or member. Most uses of it are errors.
struct Undefined {
  std::string why;                   // empty for a missing member
  absl::string_view type_name = {};  // type of the value that lacks the member
  std::string member = {};           // the missing member
};
struct None {};
// A list, or a tuple. A group of the filter `groupby` is a tuple with names.
struct List {
  std::vector<Value> items;
  bool is_tuple;
  int depth;
  bool is_group = false;
};
// The result of keys(), values() and items() of a dict.
struct View {
  enum class Kind { kKeys, kValues, kItems };
  std::shared_ptr<const Dict> dict;
  Kind kind;
};
struct Range {
  int64_t start;
  int64_t stop;  // the given end
  int64_t step;
  int64_t n;

  int64_t At(int64_t i) const { return start + i * step; }
};

// Cheap to copy: long values are shared and never change, except for objects
// and iterators.
class Value {
 public:
  Value() = default;  // undefined
  // NOLINTBEGIN(google-explicit-constructor): a value is any of these.
  Value(None) : kind_(Kind::kNone) {}
  Value(bool value) : kind_(Kind::kBool), integer_(value ? 1 : 0) {}
  Value(int64_t value) : kind_(Kind::kInteger), integer_(value) {}
  Value(double value) : kind_(Kind::kFloat), float_(value) {}
  Value(Text text)
      : kind_(Kind::kText), shared_(std::make_shared<Text>(std::move(text))) {}
  Value(std::shared_ptr<const Dict> dict)
      : Value(Kind::kDict, std::move(dict)) {}
  Value(std::shared_ptr<Iterator> it)
      : kind_(Kind::kIterator), shared_(std::move(it)) {}
  Value(std::shared_ptr<Object> object)
      : kind_(Kind::kObject), shared_(std::move(object)) {}
  Value(View view)
      : kind_(Kind::kView), shared_(std::make_shared<View>(std::move(view))) {}
  Value(Range range)
      : kind_(Kind::kRange), shared_(std::make_shared<Range>(range)) {}
  // NOLINTEND(google-explicit-constructor)
  Value(const char*) = delete;

  // Clean text.
  static Value String(absl::string_view bytes) {
    return Value(Text(std::string(bytes)));
  }
  static Value MakeUndefined(std::string why);
  // The value of a member that does not exist. `type_name` must live until the
  // process ends.
  static Value MissingMember(absl::string_view type_name,
                             absl::string_view member);
  // Errors: kInvalidArgument if it were nested deeper than kMaxNesting.
  static absl::StatusOr<Value> MakeList(std::vector<Value> items,
                                        bool is_tuple = false);
  static absl::StatusOr<Value> MakeTuple(std::vector<Value> items) {
    return MakeList(std::move(items), /*is_tuple=*/true);
  }
  // The tuple (grouper, list).
  static absl::StatusOr<Value> MakeGroup(Value grouper, Value list);

  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_bool() const { return kind_ == Kind::kBool; }
  // A bool is an integer too, as in Python.
  bool is_integer() const { return kind_ == Kind::kInteger || is_bool(); }
  bool is_float() const { return kind_ == Kind::kFloat; }
  bool is_number() const { return is_integer() || is_float(); }
  bool is_string() const { return kind_ == Kind::kText; }
  // A list or a tuple.
  bool is_list() const { return kind_ == Kind::kList; }
  bool is_dict() const { return kind_ == Kind::kDict; }
  bool is_view() const { return kind_ == Kind::kView; }
  bool is_range() const { return kind_ == Kind::kRange; }
  bool is_iterator() const { return kind_ == Kind::kIterator; }
  bool is_object() const { return kind_ == Kind::kObject; }

  // Each function needs a value of the kind in its name.
  std::string why_undefined() const;
  bool boolean() const { return integer_ != 0; }
  int64_t integer() const { return integer_; }
  double number() const {
    return is_float() ? float_ : static_cast<double>(integer_);
  }
  const Text& text() const { return As<Text>(); }
  absl::string_view bytes() const { return text().bytes(); }
  const List& list() const { return As<List>(); }
  const std::vector<Value>& items() const { return list().items; }
  const Dict& dict() const { return As<Dict>(); }
  const View& view() const { return As<View>(); }
  const Range& range() const { return As<Range>(); }
  Iterator& iterator() const { return As<Iterator>(); }
  Object& object() const { return As<Object>(); }
  // The next two functions share ownership of the results of dict() and
  // iterator().
  std::shared_ptr<const Dict> shared_dict() const {
    return std::static_pointer_cast<const Dict>(shared_);
  }
  std::shared_ptr<Iterator> shared_iterator() const {
    return std::static_pointer_cast<Iterator>(shared_);
  }

  // The text, if no other value shares it, so that it may be changed; else
  // null.
  Text* SoleText() {
    return is_string() && shared_.use_count() == 1 ? &As<Text>() : nullptr;
  }

  // The name of the type in Python, for messages.
  absl::string_view TypeName() const;
  // The truth of the value in Python.
  bool Truth() const;
  int Depth() const;
  // True if both are the same object: Python's `is`.
  bool IsSame(const Value& other) const;

 private:
  enum class Kind : uint8_t {
    kUndefined,
    kNone,
    kBool,
    kInteger,
    kFloat,
    kText,
    kList,
    kDict,
    kView,
    kRange,
    kIterator,
    kObject
  };

  template <typename T>
  Value(Kind kind, std::shared_ptr<const T> shared)
      : kind_(kind), shared_(std::const_pointer_cast<T>(std::move(shared))) {}
  template <typename T>
  T& As() const {
    return *static_cast<T*>(shared_.get());
  }

  Kind kind_ = Kind::kUndefined;
  union {
    int64_t integer_ = 0;  // or a bool
    double float_;
  };
  // The Undefined, Text, List ... of the kind; null for other kinds, and for an
  // undefined value without a reason.
  std::shared_ptr<void> shared_;
};

// Pairs in the order in which they were added.
class Dict {
 public:
  using Pair = std::pair<Value, Value>;

  // The value of a key, or null. The key must be hashable.
  const Value* Find(const Value& key) const;
  const Value* Find(absl::string_view key) const;
  // Adds a pair, or replaces the value of an equal key.
  // Errors: kInvalidArgument for a key that cannot be one, or if values were
  // nested deeper than kMaxNesting.
  absl::Status Set(Value key, Value value);
  const std::vector<Pair>& pairs() const { return pairs_; }
  int64_t size() const { return static_cast<int64_t>(pairs_.size()); }
  int depth() const { return depth_; }

 private:
  // Most pairs that are searched without an index.
  static constexpr size_t kFew = 8;

  std::optional<size_t> Place(const Value& key) const;
  std::optional<size_t> Place(absl::string_view key) const;

  std::vector<Pair> pairs_;
  // Places of keys that are strings, if there are more than kFew pairs.
  std::map<std::string, size_t, std::less<>> places_;
  int depth_ = 1;
};

// True if the value may be a key: strings, numbers, none, objects, what
// values() returns, and tuples of them.
bool IsHashable(const Value& value);
absl::Status Unhashable(const Value& value);

// Gives one value after another, once.
class Iterator {
 public:
  // Errors: kInvalidArgument if `source_depth` is kMaxNesting.
  explicit Iterator(int source_depth) : depth_(source_depth + 1) {}
  virtual ~Iterator() = default;
  // The next value, or nothing at the end.
  virtual absl::StatusOr<std::optional<Value>> Next(Evaluator& evaluator) = 0;
  int depth() const { return depth_; }

 private:
  const int depth_;
};

// The arguments of a call. A callee may take values out of it.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  // Removes and returns the argument `name`, if there is one.
  std::optional<Value> Take(absl::string_view name);
};

// A function of this interpreter. `self` is the value that a method belongs to.
using NativeFunction = absl::StatusOr<Value> (*)(Evaluator& evaluator,
                                                 const Value& self,
                                                 Arguments&& arguments);

// A test: the function behind the operator `is`.
using TestFunction = absl::StatusOr<bool> (*)(Evaluator& evaluator,
                                              const Value& self,
                                              Arguments&& arguments);

// A value with members, or one that can be called: functions, methods, macros,
// namespaces, `loop`.
class Object {
 public:
  virtual ~Object() = default;
  virtual absl::string_view TypeName() const = 0;
  // The member `name` if the object stores it; null if it is computed or
  // missing. The pointer is valid until another value is computed.
  virtual const Value* HeldMember(absl::string_view) const { return nullptr; }
  // The member `name`; nothing if there is none.
  virtual absl::StatusOr<std::optional<Value>> Member(Evaluator&,
                                                      absl::string_view) {
    return std::nullopt;
  }
  virtual bool IsCallable() const { return true; }
  virtual absl::StatusOr<Value> Call(Evaluator& evaluator,
                                     Arguments&& arguments);
  // Calls the object and writes the result.
  virtual absl::Status CallAndWrite(Evaluator& evaluator,
                                    Arguments&& arguments);
  virtual std::string Repr() const;
  virtual int depth() const { return 1; }
  // Drops references to other values, so that no circle of references stays.
  virtual void Release() {}
};

absl::Status CheckNesting(int depth);

}  // namespace plimsoll::worker::jinja

#endif  // PLIMSOLL_WORKER_TEXT_JINJA_VALUE_H_
