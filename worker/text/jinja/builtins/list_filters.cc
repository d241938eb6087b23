#include "worker/text/jinja/builtins/list_filters.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/jinja/arguments.h"
#include "worker/text/jinja/builtins/attribute_path.h"
#include "worker/text/jinja/builtins/named_filter.h"
#include "worker/text/jinja/iteration.h"
#include "worker/text/jinja/methods.h"
#include "worker/text/jinja/operations.h"
#include "worker/text/jinja/string_methods.h"

namespace plimsoll::worker::jinja {
namespace {

using Result = absl::StatusOr<Value>;
using MaybeValue = std::optional<Value>;

Result First(Evaluator& evaluator, const Value& self, Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("first", arguments, 0, 0));
  ASSIGN_OR_RETURN(const auto items, Iterate(self));
  ASSIGN_OR_RETURN(MaybeValue first, items->Next(evaluator));
  if (first) return *std::move(first);
  return Value::MakeUndefined("No first item, sequence was empty.");
}

// An iterator from the last element to the first.
absl::StatusOr<std::vector<Value>> Backwards(Evaluator& evaluator,
                                             const Value& value) {
  ASSIGN_OR_RETURN(std::vector<Value> items, ToVector(evaluator, value));
  std::reverse(items.begin(), items.end());
  return items;
}

Result Last(Evaluator& evaluator, const Value& self, Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("last", arguments, 0, 0));
  if (self.is_iterator()) {
    return TypeError("'generator' object is not reversible");
  }
  if (self.is_list() && !self.items().empty()) return self.items().back();
  ASSIGN_OR_RETURN(const std::vector<Value> items, Backwards(evaluator, self));
  if (items.empty()) {
    return Value::MakeUndefined("No last item, sequence was empty.");
  }
  if (!self.is_string()) return items[0];
  Text last = items[0].text();
  last.set_markup(self.text().is_markup());  // as it is found by its index
  return Value(std::move(last));
}

Result ListFilter(Evaluator& evaluator, const Value& self,
                  Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("list", arguments, 0, 0));
  ASSIGN_OR_RETURN(std::vector<Value> items, ToVector(evaluator, self));
  return Value::MakeList(std::move(items));
}

Result Reverse(Evaluator& evaluator, const Value& self, Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("reverse", arguments, 0, 0));
  if (self.is_string()) {
    return Slice(evaluator, self, {.step = Value(int64_t{-1})});
  }
  ASSIGN_OR_RETURN(std::vector<Value> items, Backwards(evaluator, self));
  ASSIGN_OR_RETURN(Value list, Value::MakeList(std::move(items)));
  if (self.is_iterator()) return list;
  ASSIGN_OR_RETURN(auto iterator, Iterate(list));
  return Value(std::move(iterator));
}

// Each item with its key.
absl::StatusOr<std::vector<Dict::Pair>> Keyed(Evaluator& evaluator,
                                              const Value& value,
                                              const AttributePath& path) {
  ASSIGN_OR_RETURN(std::vector<Value> items, ToVector(evaluator, value));
  std::vector<Dict::Pair> keyed;
  keyed.reserve(items.size());
  for (Value& item : items) {
    ASSIGN_OR_RETURN(Value key, path.Find(evaluator, item));
    keyed.emplace_back(std::move(key), std::move(item));
  }
  return keyed;
}

Result Sort(Evaluator& evaluator, const Value& self, Arguments&& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   Bind("sort", {"reverse", "case_sensitive", "attribute"}, 0,
                        std::move(arguments)));
  const bool ignores_case = !TruthArgument(bound[1]);
  // Several attributes, with commas between them, are a list of keys.
  std::vector<AttributePath> paths;
  if (bound[2] && bound[2]->is_string()) {
    Arguments comma;
    comma.positional = {Value::String(",")};
    ASSIGN_OR_RETURN(
        const Value parts,
        FindStringMethod("split")(evaluator, *bound[2], std::move(comma)));
    for (const Value& part : parts.items()) {
      paths.emplace_back(part, std::nullopt, ignores_case);
    }
  } else {
    paths.emplace_back(bound[2], std::nullopt, ignores_case);
  }
  ASSIGN_OR_RETURN(const std::vector<Value> items, ToVector(evaluator, self));
  std::vector<Dict::Pair> keyed;
  for (const Value& item : items) {
    std::vector<Value> keys;
    for (const AttributePath& path : paths) {
      ASSIGN_OR_RETURN(Value key, path.Find(evaluator, item));
      keys.push_back(std::move(key));
    }
    ASSIGN_OR_RETURN(Value key, Value::MakeList(std::move(keys)));
    keyed.emplace_back(std::move(key), item);
  }
  RETURN_IF_ERROR(SortByKey(evaluator, keyed, TruthArgument(bound[0])));
  std::vector<Value> sorted;
  sorted.reserve(keyed.size());
  for (Dict::Pair& pair : keyed) sorted.push_back(std::move(pair.second));
  return Value::MakeList(std::move(sorted));
}

Result DictSort(Evaluator& evaluator, const Value& self,
                Arguments&& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   Bind("dictsort", {"case_sensitive", "by", "reverse"}, 0,
                        std::move(arguments)));
  ASSIGN_OR_RETURN(const Text by, TextArgument(bound[1], "key"));
  if (by.bytes() != "key" && by.bytes() != "value") {
    return TypeError("You can only sort by either \"key\" or \"value\"");
  }
  if (self.is_undefined()) return UndefinedError(self);
  if (!self.is_dict()) {
    return TypeError(absl::StrCat("'", self.TypeName(),
                                  "' object has no attribute 'items'"));
  }
  const bool is_by_key = by.bytes() == "key";
  std::vector<Dict::Pair> keyed;
  for (const Dict::Pair& pair : self.dict().pairs()) {
    Value key = is_by_key ? pair.first : pair.second;
    if (!TruthArgument(bound[0])) {
      ASSIGN_OR_RETURN(key, IgnoreCase(evaluator, key));
    }
    ASSIGN_OR_RETURN(Value item, Value::MakeTuple({pair.first, pair.second}));
    keyed.emplace_back(std::move(key), std::move(item));
  }
  RETURN_IF_ERROR(evaluator.Spend(self.dict().size()));
  RETURN_IF_ERROR(SortByKey(evaluator, keyed, TruthArgument(bound[2])));
  std::vector<Value> sorted;
  sorted.reserve(keyed.size());
  for (Dict::Pair& pair : keyed) sorted.push_back(std::move(pair.second));
  return Value::MakeList(std::move(sorted));
}

Result Unique(Evaluator&, const Value& self, Arguments&& arguments) {
  ASSIGN_OR_RETURN(
      const BoundArguments bound,
      Bind("unique", {"case_sensitive", "attribute"}, 0, std::move(arguments)));
  const AttributePath path(bound[1], std::nullopt, !TruthArgument(bound[0]));
  auto seen = std::make_shared<Dict>();
  return MakeGenerator(
      self.Depth(),
      [self, path, seen, items = std::shared_ptr<Iterator>()](
          Evaluator& evaluator) mutable -> absl::StatusOr<MaybeValue> {
        if (items == nullptr) {
          ASSIGN_OR_RETURN(items, Iterate(self));
        }
        while (true) {
          ASSIGN_OR_RETURN(MaybeValue item, items->Next(evaluator));
          if (!item) return std::nullopt;
          ASSIGN_OR_RETURN(Value key, path.Find(evaluator, *item));
          if (!IsHashable(key)) return Unhashable(key);
          if (!key.is_string()) RETURN_IF_ERROR(evaluator.Spend(seen->size()));
          if (seen->Find(key) != nullptr) continue;
          RETURN_IF_ERROR(seen->Set(std::move(key), None()));
          return item;
        }
      });
}

template <bool is_max>
Result Extreme(Evaluator& evaluator, const Value& self, Arguments&& arguments) {
  ASSIGN_OR_RETURN(
      const BoundArguments bound,
      Bind("min", {"case_sensitive", "attribute"}, 0, std::move(arguments)));
  const AttributePath path(bound[1], std::nullopt, !TruthArgument(bound[0]));
  ASSIGN_OR_RETURN(std::vector<Dict::Pair> keyed, Keyed(evaluator, self, path));
  if (keyed.empty()) {
    return Value::MakeUndefined("No aggregated item, sequence was empty.");
  }
  size_t best = 0;
  for (size_t i = 1; i < keyed.size(); ++i) {
    ASSIGN_OR_RETURN(
        const bool is_better,
        is_max ? IsLess(evaluator, keyed[best].first, keyed[i].first)
               : IsLess(evaluator, keyed[i].first, keyed[best].first));
    if (is_better) best = i;
  }
  return keyed[best].second;
}

Result Sum(Evaluator& evaluator, const Value& self, Arguments&& arguments) {
  ASSIGN_OR_RETURN(
      const BoundArguments bound,
      Bind("sum", {"attribute", "start"}, 0, std::move(arguments)));
  const AttributePath path(bound[0]);
  Value sum = bound[1].value_or(Value(int64_t{0}));
  if (sum.is_string()) return TypeError("sum() can't sum strings");
  ASSIGN_OR_RETURN(const std::vector<Dict::Pair> keyed,
                   Keyed(evaluator, self, path));
  for (const Dict::Pair& pair : keyed) {
    ASSIGN_OR_RETURN(sum, Binary(evaluator, "+", sum, pair.first));
  }
  return sum;
}

Result Batch(Evaluator&, const Value& self, Arguments&& arguments) {
  ASSIGN_OR_RETURN(
      const BoundArguments bound,
      Bind("batch", {"linecount", "fill_with"}, 1, std::move(arguments)));
  return MakeGenerator(
      std::max(self.Depth(), bound[1].value_or(None()).Depth()) + 1,
      [self, bound, items = std::shared_ptr<Iterator>()](
          Evaluator& evaluator) mutable -> absl::StatusOr<MaybeValue> {
        if (items == nullptr) {
          ASSIGN_OR_RETURN(items, Iterate(self));
        }
        std::vector<Value> row;
        const Value& n = *bound[0];
        const bool is_whole = n.is_number();
        while (!is_whole || static_cast<double>(row.size()) != n.number() ||
               row.empty()) {
          ASSIGN_OR_RETURN(MaybeValue item, items->Next(evaluator));
          if (!item) break;
          row.push_back(*std::move(item));
        }
        if (row.empty()) return std::nullopt;
        const Value fill = bound[1].value_or(None());
        if (!fill.is_none()) {
          ASSIGN_OR_RETURN(const int64_t wanted, IntegerArgument(n, 0));
          RETURN_IF_ERROR(evaluator.Spend(std::max<int64_t>(wanted, 0)));
          while (static_cast<int64_t>(row.size()) < wanted) row.push_back(fill);
        }
        ASSIGN_OR_RETURN(Value list, Value::MakeList(std::move(row)));
        return list;
      });
}

Result SliceFilter(Evaluator&, const Value& self, Arguments&& arguments) {
  ASSIGN_OR_RETURN(
      const BoundArguments bound,
      Bind("slice", {"slices", "fill_with"}, 1, std::move(arguments)));
  return MakeGenerator(
      std::max(self.Depth(), bound[1].value_or(None()).Depth()) + 1,
      [self, bound, items = std::optional<std::vector<Value>>(),
       number = int64_t{0}, begin = size_t{0}](
          Evaluator& evaluator) mutable -> absl::StatusOr<MaybeValue> {
        if (!items) {
          ASSIGN_OR_RETURN(items, ToVector(evaluator, self));
        }
        ASSIGN_OR_RETURN(const int64_t slices, IntegerArgument(bound[0], 1));
        if (slices == 0) return TypeError("division by zero");
        if (number >= slices) return std::nullopt;
        const auto n = static_cast<int64_t>(items->size());
        const bool has_extra = number < n % slices;
        const auto size = static_cast<size_t>(n / slices + (has_extra ? 1 : 0));
        std::vector<Value> part(
            items->begin() + static_cast<ptrdiff_t>(begin),
            items->begin() + static_cast<ptrdiff_t>(begin + size));
        begin += size;
        ++number;
        const Value fill = bound[1].value_or(None());
        if (!fill.is_none() && !has_extra) part.push_back(fill);
        ASSIGN_OR_RETURN(Value list, Value::MakeList(std::move(part)));
        return list;
      });
}

Result Items(Evaluator&, const Value& self, Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("items", arguments, 0, 0));
  return MakeGenerator(
      self.Depth() + 1,
      [self, items = std::shared_ptr<Iterator>()](
          Evaluator& evaluator) mutable -> absl::StatusOr<MaybeValue> {
        if (self.is_undefined()) return std::nullopt;
        if (!self.is_dict()) {
          return TypeError("Can only get item pairs from a mapping.");
        }
        if (items == nullptr) {
          ASSIGN_OR_RETURN(
              items,
              Iterate(Value(View{self.shared_dict(), View::Kind::kItems})));
        }
        return items->Next(evaluator);
      });
}

Result GroupBy(Evaluator& evaluator, const Value& self, Arguments&& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   Bind("groupby", {"attribute", "default", "case_sensitive"},
                        1, std::move(arguments)));
  const bool ignores_case = !TruthArgument(bound[2]);
  const AttributePath path(bound[0], bound[1], ignores_case);
  const AttributePath shown(bound[0], bound[1]);
  ASSIGN_OR_RETURN(std::vector<Dict::Pair> keyed, Keyed(evaluator, self, path));
  RETURN_IF_ERROR(SortByKey(evaluator, keyed, /*is_reversed=*/false));
  std::vector<Value> groups;
  for (size_t begin = 0; begin < keyed.size();) {
    std::vector<Value> group;
    size_t end = begin;
    for (; end < keyed.size(); ++end) {
      ASSIGN_OR_RETURN(const bool is_equal,
                       Equal(evaluator, keyed[begin].first, keyed[end].first));
      if (!is_equal) break;
      group.push_back(keyed[end].second);
    }
    ASSIGN_OR_RETURN(Value key, shown.Find(evaluator, group[0]));
    ASSIGN_OR_RETURN(Value list, Value::MakeList(std::move(group)));
    ASSIGN_OR_RETURN(Value tuple,
                     Value::MakeGroup(std::move(key), std::move(list)));
    groups.push_back(std::move(tuple));
    begin = end;
  }
  return Value::MakeList(std::move(groups));
}

Result Attr(Evaluator& evaluator, const Value& self, Arguments&& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   Bind("attr", {"name"}, 1, std::move(arguments)));
  ASSIGN_OR_RETURN(const Text name, TextArgument(bound[0]));
  if (self.is_undefined()) return UndefinedError(self);
  ASSIGN_OR_RETURN(MaybeValue member,
                   FindMember(evaluator, self, name.bytes()));
  if (member) return *std::move(member);
  return Value::MakeUndefined(absl::StrCat("'", self.TypeName(),
                                           "' object has no attribute '",
                                           name.bytes().substr(0, 64), "'"));
}

constexpr NamedFilter kListFilters[] = {
    {"items", Items},       {"list", ListFilter},   {"first", First},
    {"last", Last},         {"dictsort", DictSort}, {"sort", Sort},
    {"unique", Unique},     {"reverse", Reverse},   {"min", Extreme<false>},
    {"max", Extreme<true>}, {"sum", Sum},           {"batch", Batch},
    {"slice", SliceFilter}, {"groupby", GroupBy},   {"attr", Attr},
};

}  // namespace

NativeFunction FindListFilter(absl::string_view name) {
  return FindIn(kListFilters, name);
}

}  // namespace plimsoll::worker::jinja
