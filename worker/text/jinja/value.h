// The values that templates compute with: Python's, as far as templates see
// them.
#ifndef PLIMSOLL_WORKER_TEXT_JINJA_VALUE_H_
#define PLIMSOLL_WORKER_TEXT_JINJA_VALUE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
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

// Values may be nested this deep: lists in lists, generators of generators.
inline constexpr int kMaxNesting = 200;

// What a missing name or member is. Most uses of it are errors.
struct Undefined {
  std::string why;
};
struct None {};
// A list, or a tuple. A group of the filter `groupby` is a tuple with names.
struct List {
  std::vector<Value> items;
  bool is_tuple;
  int depth;
  bool is_group = false;
};
// What keys(), values() and items() of a dict return.
struct View {
  enum class Kind { kKeys, kValues, kItems };
  std::shared_ptr<const Dict> dict;
  Kind kind;
};
struct Range {
  int64_t start;
  int64_t stop;  // as it was given
  int64_t step;
  int64_t n;

  int64_t At(int64_t i) const { return start + i * step; }
};

// Cheap to copy: what is long is shared and never changes, except for objects
// and iterators.
class Value {
 public:
  Value() : payload_(std::shared_ptr<const Undefined>()) {}
  // NOLINTBEGIN(google-explicit-constructor): a value is any of these.
  Value(None none) : payload_(none) {}
  Value(bool value) : payload_(value) {}
  Value(int64_t value) : payload_(value) {}
  Value(double value) : payload_(value) {}
  Value(Text text) : payload_(std::make_shared<const Text>(std::move(text))) {}
  Value(std::shared_ptr<const Text> text) : payload_(std::move(text)) {}
  Value(std::shared_ptr<const Dict> dict) : payload_(std::move(dict)) {}
  Value(std::shared_ptr<Iterator> it) : payload_(std::move(it)) {}
  Value(std::shared_ptr<Object> object) : payload_(std::move(object)) {}
  Value(View view) : payload_(std::make_shared<const View>(std::move(view))) {}
  Value(Range range) : payload_(std::make_shared<const Range>(range)) {}
  // NOLINTEND(google-explicit-constructor)
  Value(const char*) = delete;

  // Clean text.
  static Value String(absl::string_view bytes) {
    return Value(Text(std::string(bytes)));
  }
  static Value MakeUndefined(std::string why);
  // Errors: kInvalidArgument if it were nested deeper than kMaxNesting.
  static absl::StatusOr<Value> MakeList(std::vector<Value> items,
                                        bool is_tuple = false);
  static absl::StatusOr<Value> MakeTuple(std::vector<Value> items) {
    return MakeList(std::move(items), /*is_tuple=*/true);
  }
  // The tuple (grouper, list).
  static absl::StatusOr<Value> MakeGroup(Value grouper, Value list);

  bool is_undefined() const {
    return Holds<std::shared_ptr<const Undefined>>();
  }
  bool is_none() const { return Holds<None>(); }
  bool is_bool() const { return Holds<bool>(); }
  // A bool is an integer too, as in Python.
  bool is_integer() const { return Holds<int64_t>() || is_bool(); }
  bool is_float() const { return Holds<double>(); }
  bool is_number() const { return is_integer() || is_float(); }
  bool is_string() const { return Holds<std::shared_ptr<const Text>>(); }
  // A list or a tuple.
  bool is_list() const { return Holds<std::shared_ptr<const List>>(); }
  bool is_dict() const { return Holds<std::shared_ptr<const Dict>>(); }
  bool is_view() const { return Holds<std::shared_ptr<const View>>(); }
  bool is_range() const { return Holds<std::shared_ptr<const Range>>(); }
  bool is_iterator() const { return Holds<std::shared_ptr<Iterator>>(); }
  bool is_object() const { return Holds<std::shared_ptr<Object>>(); }

  // Each needs the kind of its name.
  absl::string_view why_undefined() const;
  bool boolean() const { return std::get<bool>(payload_); }
  int64_t integer() const;
  double number() const;
  const Text& text() const {
    return *std::get<std::shared_ptr<const Text>>(payload_);
  }
  absl::string_view bytes() const { return text().bytes(); }
  const List& list() const {
    return *std::get<std::shared_ptr<const List>>(payload_);
  }
  const std::vector<Value>& items() const { return list().items; }
  const std::shared_ptr<const Dict>& dict() const {
    return std::get<std::shared_ptr<const Dict>>(payload_);
  }
  const View& view() const {
    return *std::get<std::shared_ptr<const View>>(payload_);
  }
  const Range& range() const {
    return *std::get<std::shared_ptr<const Range>>(payload_);
  }
  const std::shared_ptr<Iterator>& iterator() const {
    return std::get<std::shared_ptr<Iterator>>(payload_);
  }
  const std::shared_ptr<Object>& object() const {
    return std::get<std::shared_ptr<Object>>(payload_);
  }

  // The name of the type in Python, for messages.
  absl::string_view TypeName() const;
  // The truth of the value in Python.
  bool Truth() const;
  int Depth() const;
  // True if both are one and the same: Python's `is`.
  bool IsSame(const Value& other) const;

 private:
  explicit Value(std::shared_ptr<const Undefined> undefined)
      : payload_(std::move(undefined)) {}
  explicit Value(std::shared_ptr<const List> list)
      : payload_(std::move(list)) {}
  template <typename T>
  bool Holds() const {
    return std::holds_alternative<T>(payload_);
  }

  std::variant<std::shared_ptr<const Undefined>, None, bool, int64_t, double,
               std::shared_ptr<const Text>, std::shared_ptr<const List>,
               std::shared_ptr<const Dict>, std::shared_ptr<const View>,
               std::shared_ptr<const Range>, std::shared_ptr<Iterator>,
               std::shared_ptr<Object>>
      payload_;
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
  static constexpr size_t kFew = 8;  // pairs that are found without an index

  std::optional<size_t> Place(const Value& key) const;
  std::optional<size_t> Place(absl::string_view key) const;

  std::vector<Pair> pairs_;
  // Places of keys that are strings, if there are more than kFew pairs.
  absl::flat_hash_map<std::string, size_t> places_;
  int depth_ = 1;
};

// True if the value may be a key: strings, numbers, none, objects, what
// values() returns, and tuples of them.
bool IsHashable(const Value& value);
absl::Status Unhashable(const Value& value);

// Something that gives one value after another, once.
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

// What a call passes. A callee may take values out of it.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  // Removes and returns the argument `name`, if there is one.
  std::optional<Value> Take(absl::string_view name);
};

// Everything with members or that can be called: functions, methods, macros,
// namespaces, `loop`.
class Object {
 public:
  virtual ~Object() = default;
  virtual absl::string_view TypeName() const = 0;
  // The member `name`; nothing if there is none.
  virtual absl::StatusOr<std::optional<Value>> Member(Evaluator&,
                                                      absl::string_view) {
    return std::nullopt;
  }
  virtual bool IsCallable() const { return true; }
  virtual absl::StatusOr<Value> Call(Evaluator& evaluator,
                                     Arguments&& arguments);
  virtual std::string Repr() const;
  virtual int depth() const { return 1; }
  // Lets go of other values, so that no circle of them stays.
  virtual void Release() {}
};

absl::Status CheckNesting(int depth);

}  // namespace plimsoll::worker::jinja

#endif  // PLIMSOLL_WORKER_TEXT_JINJA_VALUE_H_
