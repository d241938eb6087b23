// Keywords about arrays.
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/schema/expander.h"

namespace plimsoll::worker {

Expander::Result Expander::PrefixOf(const Keyword& keyword,
                                    const SchemaJson& list) {
  if (!list.is_array()) {
    return Error(keyword, absl::StrCat(keyword.name, " is not a list"));
  }
  if (list.size() > kMaxSchemaMembers) {
    return Error(keyword, absl::StrCat(keyword.name, " has ", list.size(),
                                       " members; at most ", kMaxSchemaMembers,
                                       " are allowed"));
  }
  std::vector<FormulaPtr> cases;
  std::vector<Term> items;
  for (size_t i = 0; i < list.size(); ++i) {
    items.push_back({Of(list[i], keyword.is_positive)});
    if (keyword.is_positive) continue;
    std::vector<Term> one(i + 1);
    one[i] = items[i];
    const auto n = static_cast<int64_t>(i) + 1;
    cases.push_back(Atom([one, n](Shape& shape) {
      AddItems(shape, one, {});
      return RestrictItemCount(shape, n, GrammarBuilder::kUnlimited);
    }));
  }
  if (!keyword.is_positive) return Or(std::move(cases));
  return Atom([items](Shape& shape) {
    AddItems(shape, items, {});
    return true;
  });
}

Expander::Result Expander::RestOf(const Keyword& keyword,
                                  const SchemaJson& schema, size_t from) {
  const Term term = {Of(schema, keyword.is_positive)};
  if (keyword.is_positive) {
    return Atom([term, from](Shape& shape) {
      AddItems(shape, std::vector<Term>(from), term);
      return true;
    });
  }
  return Atom([term, from](Shape& shape) {
    shape.array.contains.push_back(
        {static_cast<int64_t>(from), term, 1, GrammarBuilder::kUnlimited});
    return true;
  });
}

Expander::Result Expander::PrefixKeyword(const Keyword& keyword) {
  return PrefixOf(keyword, keyword.value);
}

Expander::Result Expander::ItemsKeyword(const Keyword& keyword) {
  // Up to 2019, a list of items was what prefixItems is now.
  if (keyword.value.is_array()) return PrefixOf(keyword, keyword.value);
  const SchemaJson* prefix = Member(keyword.schema, "prefixItems");
  const bool has_prefix = prefix != nullptr && prefix->is_array();
  return RestOf(keyword, keyword.value, has_prefix ? prefix->size() : 0);
}

Expander::Result Expander::AdditionalItemsKeyword(const Keyword& keyword) {
  const SchemaJson* items = Member(keyword.schema, "items");
  // Beside a single schema, or without items, it says nothing.
  if (items == nullptr || !items->is_array()) {
    return Either(keyword.is_positive);
  }
  return RestOf(keyword, keyword.value, items->size());
}

Expander::Result Expander::UnevaluatedItemsKeyword(const Keyword& keyword) {
  if (keyword.value == true) return Either(keyword.is_positive);
  for (const char* other :
       {"$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "if",
        "dependentSchemas", "contains"}) {
    if (Member(keyword.schema, other) != nullptr) {
      return Unsupported(keyword, absl::StrCat("without '", other, "' only"));
    }
  }
  const SchemaJson* items = Member(keyword.schema, "items");
  if (items != nullptr && !items->is_array()) {
    return Either(keyword.is_positive);
  }
  if (Member(keyword.schema, "additionalItems") != nullptr &&
      items != nullptr) {
    return Either(keyword.is_positive);
  }
  const SchemaJson* prefix =
      items != nullptr ? items : Member(keyword.schema, "prefixItems");
  const bool has_prefix = prefix != nullptr && prefix->is_array();
  return RestOf(keyword, keyword.value, has_prefix ? prefix->size() : 0);
}

Expander::Result Expander::ContainsKeyword(const Keyword& keyword) {
  const auto count = [&](const char* name,
                         int64_t if_absent) -> absl::StatusOr<int64_t> {
    const SchemaJson* value = Member(keyword.schema, name);
    if (value == nullptr) return if_absent;
    return CountOf({keyword.schema, *value, name, keyword.type,
                    /*is_positive=*/true});
  };
  constexpr int64_t kUnlimited = GrammarBuilder::kUnlimited;
  ASSIGN_OR_RETURN(const int64_t min, count("minContains", 1));
  ASSIGN_OR_RETURN(const int64_t max, count("maxContains", kUnlimited));
  const Term term = {Of(keyword.value, /*is_positive=*/true)};
  const auto within = [&term](int64_t least, int64_t most) {
    if (least > most) return Never();
    if (least == 0 && most == kUnlimited) return Always();
    return Atom([term, least, most](Shape& shape) {
      shape.array.contains.push_back({0, term, least, most});
      return true;
    });
  };
  if (keyword.is_positive) return within(min, max);
  return Or({min > 0 ? within(0, min - 1) : Never(),
             max < kUnlimited ? within(max + 1, kUnlimited) : Never()});
}

Expander::Result Expander::ItemCountKeyword(const Keyword& keyword) {
  ASSIGN_OR_RETURN(const int64_t n, CountOf(keyword));
  const bool is_most = keyword.name == "maxItems";
  if (!is_most && !keyword.is_positive && n == 0) return Never();
  const bool is_upper = is_most == keyword.is_positive;
  const int64_t opposite = is_most ? 1 : -1;
  const int64_t shift = keyword.is_positive ? 0 : opposite;
  return Atom([n, is_upper, shift](Shape& shape) {
    return is_upper ? RestrictItemCount(shape, 0, n + shift)
                    : RestrictItemCount(shape, n + shift,
                                        GrammarBuilder::kUnlimited);
  });
}

Expander::Result Expander::UniqueKeyword(const Keyword& keyword) {
  if (!keyword.value.is_boolean()) {
    return Error(keyword, "uniqueItems is not true or false");
  }
  if (keyword.value == false) return Either(keyword.is_positive);
  if (!keyword.is_positive) {
    return Error(keyword,
                 "the keyword 'uniqueItems' is not supported in 'not'");
  }
  return Atom([](Shape& shape) {
    shape.array.is_unique = true;
    return true;
  });
}

}  // namespace plimsoll::worker
