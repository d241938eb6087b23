#include "worker/text/jinja/iteration.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/jinja/operations.h"

namespace plimsoll::worker::jinja {
namespace {

using MaybeValue = std::optional<Value>;

class Generator final : public Iterator {
 public:
  Generator(int source_depth, NextFunction next)
      : Iterator(source_depth), next_(std::move(next)) {}
  absl::StatusOr<MaybeValue> Next(Evaluator& evaluator) override {
    RETURN_IF_ERROR(evaluator.Spend(1));
    return next_(evaluator);
  }

 private:
  const NextFunction next_;
};

NextFunction Elements(const Value& list) {
  return
      [list, at = size_t{0}](Evaluator&) mutable -> absl::StatusOr<MaybeValue> {
        if (at == list.items().size()) return std::nullopt;
        return list.items()[at++];
      };
}

// The characters of markup are plain text, as in Python.
NextFunction Characters(const Value& text) {
  return
      [text, at = size_t{0}](Evaluator&) mutable -> absl::StatusOr<MaybeValue> {
        const size_t begin = at;
        if (begin == text.text().size()) return std::nullopt;
        do {
          ++at;
        } while (at < text.text().size() &&
                 (static_cast<unsigned char>(text.bytes()[at]) & 0xC0) == 0x80);
        Text character = text.text().Slice(begin, at);
        character.set_markup(false);
        return Value(std::move(character));
      };
}

NextFunction Pairs(const View& view) {
  return [view,
          at = size_t{0}](Evaluator&) mutable -> absl::StatusOr<MaybeValue> {
    if (at == view.dict->pairs().size()) return std::nullopt;
    const Dict::Pair& pair = view.dict->pairs()[at++];
    if (view.kind == View::Kind::kKeys) return pair.first;
    if (view.kind == View::Kind::kValues) return pair.second;
    ASSIGN_OR_RETURN(Value item, Value::MakeTuple({pair.first, pair.second}));
    return item;
  };
}

NextFunction Numbers(const Range& range) {
  return [range,
          at = int64_t{0}](Evaluator&) mutable -> absl::StatusOr<MaybeValue> {
    if (at == range.n) return std::nullopt;
    return Value(range.At(at++));
  };
}

}  // namespace

absl::StatusOr<std::shared_ptr<Iterator>> MakeIterator(int source_depth,
                                                       NextFunction next) {
  RETURN_IF_ERROR(CheckNesting(source_depth + 1));
  return std::make_shared<Generator>(source_depth, std::move(next));
}

absl::StatusOr<Value> MakeGenerator(int source_depth, NextFunction next) {
  ASSIGN_OR_RETURN(std::shared_ptr<Iterator> iterator,
                   MakeIterator(source_depth, std::move(next)));
  return Value(std::move(iterator));
}

absl::StatusOr<std::shared_ptr<Iterator>> Iterate(const Value& value) {
  const int depth = value.Depth();
  if (value.is_iterator()) return value.shared_iterator();
  if (value.is_list()) return MakeIterator(depth, Elements(value));
  if (value.is_string()) return MakeIterator(0, Characters(value));
  if (value.is_view()) return MakeIterator(depth, Pairs(value.view()));
  if (value.is_range()) return MakeIterator(0, Numbers(value.range()));
  if (value.is_dict()) {
    return MakeIterator(depth, Pairs({value.shared_dict(), View::Kind::kKeys}));
  }
  if (value.is_undefined()) {
    return MakeIterator(0, [](Evaluator&) { return std::nullopt; });
  }
  return TypeError(
      absl::StrCat("'", value.TypeName(), "' object is not iterable"));
}

absl::StatusOr<Cursor> Cursor::Over(const Value& value) {
  if (!value.is_list() && !value.is_range()) {
    ASSIGN_OR_RETURN(std::shared_ptr<Iterator> iterator, Iterate(value));
    return Cursor(Value(std::move(iterator)));
  }
  RETURN_IF_ERROR(CheckNesting(value.Depth() + 1));
  return Cursor(value);
}

absl::StatusOr<bool> Cursor::Next(Evaluator& evaluator, Value& item) {
  if (items_.is_iterator()) {
    ASSIGN_OR_RETURN(MaybeValue next, items_.iterator().Next(evaluator));
    if (!next) return false;
    item = *std::move(next);
    return true;
  }
  RETURN_IF_ERROR(evaluator.Spend(1));
  const int64_t n = items_.is_list()
                        ? static_cast<int64_t>(items_.items().size())
                        : items_.range().n;
  if (at_ == n) return false;
  item = items_.is_list() ? items_.items()[static_cast<size_t>(at_)]
                          : Value(items_.range().At(at_));
  ++at_;
  return true;
}

bool IsIterable(const Value& value) {
  return !value.is_none() && !value.is_number() && !value.is_object();
}

absl::StatusOr<std::vector<Value>> ToVector(Evaluator& evaluator,
                                            const Value& value) {
  if (value.is_list()) {
    RETURN_IF_ERROR(
        evaluator.Spend(static_cast<int64_t>(value.items().size())));
    return value.items();
  }
  ASSIGN_OR_RETURN(const auto items, Iterate(value));
  std::vector<Value> all;
  while (true) {
    ASSIGN_OR_RETURN(MaybeValue next, items->Next(evaluator));
    if (!next) return all;
    all.push_back(*std::move(next));
  }
}

std::optional<int64_t> LengthOf(const Value& value) {
  if (value.is_string()) return value.text().length();
  if (value.is_list()) return static_cast<int64_t>(value.items().size());
  if (value.is_dict()) return value.dict().size();
  if (value.is_view()) return value.view().dict->size();
  if (value.is_range()) return value.range().n;
  if (value.is_undefined()) return 0;
  return std::nullopt;
}

absl::StatusOr<int64_t> Length(const Value& value) {
  const std::optional<int64_t> length = LengthOf(value);
  if (length) return *length;
  return TypeError(
      absl::StrCat("object of type '", value.TypeName(), "' has no len()"));
}

}  // namespace plimsoll::worker::jinja
