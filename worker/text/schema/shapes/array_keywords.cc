#include "worker/text/schema/shapes/array_keywords.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/schema/shapes/expander.h"

namespace plimsoll::worker {
namespace {

FormulaResult PrefixOf(const Keyword& keyword, const SchemaJson& list) {
  if (!list.is_array()) {
    return keyword.Error(absl::StrCat(keyword.name, " is not a list"));
  }
  if (list.size() > kMaxSchemaMembers) {
    return keyword.Error(absl::StrCat(keyword.name, " has ", list.size(),
                                      " members; at most ", kMaxSchemaMembers,
                                      " are allowed"));
  }
  std::vector<FormulaPtr> cases;
  std::vector<Term> items;
  for (size_t i = 0; i < list.size(); ++i) {
    items.push_back({FitsSchema(list[i], keyword.is_positive)});
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

FormulaResult RestOf(const Keyword& keyword, const SchemaJson& schema,
                     size_t from) {
  const Term term = {FitsSchema(schema, keyword.is_positive)};
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

FormulaResult PrefixKeyword(const Keyword& keyword, Expander&) {
  return PrefixOf(keyword, keyword.value);
}

FormulaResult ItemsKeyword(const Keyword& keyword, Expander&) {
  // Up to 2019, a list of items was what prefixItems is now.
  if (keyword.value.is_array()) return PrefixOf(keyword, keyword.value);
  const SchemaJson* prefix = Member(keyword.schema, "prefixItems");
  const bool has_prefix = prefix != nullptr && prefix->is_array();
  return RestOf(keyword, keyword.value, has_prefix ? prefix->size() : 0);
}

FormulaResult AdditionalItemsKeyword(const Keyword& keyword, Expander&) {
  const SchemaJson* items = Member(keyword.schema, "items");
  // Beside a single schema, or without items, it says nothing.
  if (items == nullptr || !items->is_array()) {
    return Either(keyword.is_positive);
  }
  return RestOf(keyword, keyword.value, items->size());
}

FormulaResult UnevaluatedItemsKeyword(const Keyword& keyword, Expander&) {
  if (keyword.value == true) return Either(keyword.is_positive);
  for (const char* other :
       {"$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "if",
        "dependentSchemas", "contains"}) {
    if (Member(keyword.schema, other) != nullptr) {
      return keyword.Unsupported(absl::StrCat("without '", other, "' only"));
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

FormulaResult ContainsKeyword(const Keyword& keyword, Expander&) {
  const auto count = [&](const char* name,
                         int64_t if_absent) -> absl::StatusOr<int64_t> {
    const SchemaJson* value = Member(keyword.schema, name);
    if (value == nullptr) return if_absent;
    return Keyword{keyword.index, keyword.schema, *value,
                   name,          keyword.type,   /*is_positive=*/true}
        .Count();
  };
  constexpr int64_t kUnlimited = GrammarBuilder::kUnlimited;
  ASSIGN_OR_RETURN(const int64_t min, count("minContains", 1));
  ASSIGN_OR_RETURN(const int64_t max, count("maxContains", kUnlimited));
  const Term term = {FitsSchema(keyword.value, /*is_positive=*/true)};
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

FormulaResult ItemCountKeyword(const Keyword& keyword, Expander&) {
  ASSIGN_OR_RETURN(const int64_t n, keyword.Count());
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

FormulaResult UniqueKeyword(const Keyword& keyword, Expander&) {
  if (!keyword.value.is_boolean()) {
    return keyword.Error("uniqueItems is not true or false");
  }
  if (keyword.value == false) return Either(keyword.is_positive);
  if (!keyword.is_positive) {
    return keyword.Error("the keyword 'uniqueItems' is not supported in 'not'");
  }
  return Atom([](Shape& shape) {
    shape.array.is_unique = true;
    return true;
  });
}

constexpr KeywordRule kArrayKeywords[] = {
    {"items", JsonType::kArray, ItemsKeyword},
    {"prefixItems", JsonType::kArray, PrefixKeyword},
    {"additionalItems", JsonType::kArray, AdditionalItemsKeyword},
    {"unevaluatedItems", JsonType::kArray, UnevaluatedItemsKeyword},
    {"contains", JsonType::kArray, ContainsKeyword},
    {"minItems", JsonType::kArray, ItemCountKeyword},
    {"maxItems", JsonType::kArray, ItemCountKeyword},
    {"uniqueItems", JsonType::kArray, UniqueKeyword},
};

}  // namespace

const KeywordRule* FindArrayKeyword(absl::string_view name) {
  return FindRule(kArrayKeywords, name);
}

}  // namespace plimsoll::worker
