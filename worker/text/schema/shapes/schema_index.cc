#include "worker/text/schema/shapes/schema_index.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace plimsoll::worker {
namespace {

// Keywords whose value is a schema, a list of schemas or both.
constexpr const char* kSchemas[] = {"additionalProperties",
                                    "items",
                                    "prefixItems",
                                    "additionalItems",
                                    "contains",
                                    "not",
                                    "if",
                                    "then",
                                    "else",
                                    "propertyNames",
                                    "unevaluatedItems",
                                    "unevaluatedProperties",
                                    "contentSchema",
                                    "allOf",
                                    "anyOf",
                                    "oneOf",
                                    "extends"};
// Keywords whose members are schemas.
constexpr const char* kMaps[] = {
    "properties",  "patternProperties", "$defs",
    "definitions", "dependentSchemas",  "dependencies"};

SchemaDraft DraftOf(const SchemaJson& root) {
  const SchemaJson* said = root.is_object() ? Member(root, "$schema") : nullptr;
  if (said == nullptr || !said->is_string()) return SchemaDraft::kUnsaid;
  const auto& text = said->get_ref<const std::string&>();
  if (absl::StrContains(text, "draft-03")) return SchemaDraft::kDraft3;
  if (absl::StrContains(text, "draft-04")) return SchemaDraft::kDraft4;
  if (absl::StrContains(text, "draft-06")) return SchemaDraft::kDraft6;
  if (absl::StrContains(text, "draft-07")) return SchemaDraft::kDraft7;
  if (absl::StrContains(text, "draft/20")) return SchemaDraft::kLater;
  return SchemaDraft::kUnsaid;
}

bool HasScheme(absl::string_view uri) {
  const size_t colon = uri.find(':');
  return colon != absl::string_view::npos && colon > 0 &&
         uri.substr(0, colon).find_first_of("/?#") == absl::string_view::npos;
}

// `reference` (without a fragment) as seen from `base`. Source: RFC 3986, 5.2,
// without the removal of dots.
std::string Resolved(absl::string_view base, absl::string_view reference) {
  if (reference.empty()) return std::string(base);
  if (HasScheme(reference)) return std::string(reference);
  const size_t authority = base.find("://");
  const size_t path = authority == absl::string_view::npos
                          ? base.find('/')
                          : base.find('/', authority + 3);
  if (absl::StartsWith(reference, "/")) {
    return absl::StrCat(base.substr(0, path), reference);
  }
  if (authority != absl::string_view::npos && path == absl::string_view::npos) {
    return absl::StrCat(base, "/", reference);
  }
  const size_t last = base.rfind('/');
  if (last == absl::string_view::npos) return std::string(reference);
  return absl::StrCat(base.substr(0, last + 1), reference);
}

std::string PercentDecoded(absl::string_view text) {
  std::string out;
  while (!text.empty()) {
    uint32_t byte = 0;
    if (text[0] == '%' && text.size() >= 3 &&
        absl::SimpleHexAtoi(text.substr(1, 2), &byte)) {
      out.push_back(static_cast<char>(byte));
      text.remove_prefix(3);
    } else {
      out.push_back(text[0]);
      text.remove_prefix(1);
    }
  }
  return out;
}

}  // namespace

absl::Status SchemaError(absl::string_view path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

absl::Status SchemaErrorAt(absl::string_view path, const absl::Status& status) {
  if (!absl::IsInvalidArgument(status)) return status;
  return SchemaError(path, status.message());
}

std::string SchemaStep(absl::string_view path, absl::string_view name) {
  return absl::StrCat(
      path, "/",
      absl::StrReplaceAll(name.substr(0, 64), {{"~", "~0"}, {"/", "~1"}}));
}

const SchemaJson* Member(const SchemaJson& schema, const std::string& name) {
  if (!schema.is_object()) return nullptr;
  const auto found = schema.find(name);
  return found == schema.end() ? nullptr : &*found;
}

SchemaIndex::SchemaIndex(const SchemaJson& root)
    : root_(root), draft_(DraftOf(root)) {
  resources_[""] = &root;
  Enter(root, {"#", "", &root});
}

void SchemaIndex::EnterNames(const SchemaJson& schema, Place& place) {
  if (RefStandsAlone() && Member(schema, "$ref") != nullptr) return;
  for (const char* keyword : {"$id", "id"}) {
    const SchemaJson* id = Member(schema, keyword);
    // Only draft 4 has the name without a dollar.
    const bool is_old = absl::string_view(keyword) == "id";
    if (id == nullptr || !id->is_string() ||
        is_old != (draft_ == SchemaDraft::kDraft4)) {
      continue;
    }
    const std::pair<std::string, std::string> parts = absl::StrSplit(
        id->get_ref<const std::string&>(), absl::MaxSplits('#', 1));
    if (!parts.first.empty()) {
      place.base = Resolved(place.base, parts.first);
      place.resource = &schema;
      resources_.try_emplace(place.base, &schema);
    }
    if (!parts.second.empty()) {
      anchors_.try_emplace(absl::StrCat(place.base, "#", parts.second),
                           &schema);
    }
  }
  for (const char* keyword : {"$anchor", "$dynamicAnchor"}) {
    const SchemaJson* name = Member(schema, keyword);
    if (name == nullptr || !name->is_string()) continue;
    const auto& text = name->get_ref<const std::string&>();
    anchors_.try_emplace(absl::StrCat(place.base, "#", text), &schema);
    if (absl::string_view(keyword) == "$dynamicAnchor") ++n_dynamic_[text];
  }
}

void SchemaIndex::Enter(const SchemaJson& schema, Place place) {
  std::vector<std::pair<const SchemaJson*, Place>> left;
  left.emplace_back(&schema, std::move(place));
  while (!left.empty()) {
    auto [at, here] = std::move(left.back());
    left.pop_back();
    if (places_.contains(at)) continue;
    if (at->is_object()) EnterNames(*at, here);
    places_[at] = here;
    if (!at->is_object()) continue;
    const auto add = [&, base = here.base, resource = here.resource](
                         const SchemaJson& one, std::string path) {
      left.push_back({&one, {std::move(path), base, resource}});
    };
    for (const char* keyword : kSchemas) {
      const SchemaJson* value = Member(*at, keyword);
      if (value == nullptr) continue;
      const std::string path = absl::StrCat(here.path, "/", keyword);
      if (value->is_array()) {
        for (size_t i = 0; i < value->size(); ++i) {
          add((*value)[i], absl::StrCat(path, "/", i));
        }
      } else {
        add(*value, path);
      }
    }
    for (const char* keyword : kMaps) {
      const SchemaJson* value = Member(*at, keyword);
      if (value == nullptr || !value->is_object()) continue;
      const std::string path = absl::StrCat(here.path, "/", keyword);
      for (const auto& [name, one] : value->items()) {
        if (!one.is_array()) add(one, SchemaStep(path, name));
      }
    }
  }
}

std::string SchemaIndex::PathOf(const SchemaJson* schema) const {
  const auto found = places_.find(schema);
  return found == places_.end() ? "#" : found->second.path;
}

std::string SchemaIndex::PathOf(const Term& term) const {
  for (const Literal& one : term) {
    if (!one.is_value) return PathOf(one.json);
  }
  return "#";
}

// Source: RFC 6901.
const SchemaJson* SchemaIndex::Follow(const SchemaJson& from,
                                      absl::string_view pointer,
                                      const Place& place) {
  const SchemaJson* at = &from;
  const std::vector<std::string> steps = absl::StrSplit(pointer, '/');
  for (size_t i = 1; i < steps.size() && at != nullptr; ++i) {
    const std::string name =
        absl::StrReplaceAll(steps[i], {{"~1", "/"}, {"~0", "~"}});
    size_t index = 0;
    if (at->is_array() && absl::SimpleAtoi(name, &index) &&
        index < at->size()) {
      at = &(*at)[index];
    } else {
      at = Member(*at, name);
    }
  }
  if (at != nullptr) {
    Enter(*at, {absl::StrCat("#", pointer), place.base, place.resource});
  }
  return at;
}

absl::StatusOr<const SchemaJson*> SchemaIndex::Resolve(const SchemaJson& from,
                                                       const SchemaJson& ref,
                                                       bool is_dynamic) {
  const std::string path = PathOf(&from);
  if (!ref.is_string()) return SchemaError(path, "$ref is not a string");
  const auto found = places_.find(&from);
  const Place place =
      found == places_.end() ? Place{"#", "", &root_} : found->second;
  const auto& text = ref.get_ref<const std::string&>();
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(text, absl::MaxSplits('#', 1));
  const std::string fragment = PercentDecoded(parts.second);
  const std::string uri = Resolved(place.base, parts.first);
  const auto resource = resources_.find(uri);
  const SchemaJson* target = nullptr;
  if (parts.first.empty()) {
    target = place.resource;
  } else if (resource != resources_.end()) {
    target = resource->second;
  } else {
    return SchemaError(
        path, absl::StrCat("the keyword '$ref' is supported for places in this "
                           "schema only, not for '",
                           text.substr(0, 128), "'"));
  }
  const SchemaJson* base = target;
  if (absl::StartsWith(fragment, "/")) {
    const Place at = places_[base];
    target = Follow(*base, fragment, at);
    if (target == nullptr && base != &root_ && parts.first.empty()) {
      target = Follow(root_, fragment, places_[&root_]);
    }
  } else if (!fragment.empty()) {
    if (is_dynamic && n_dynamic_[fragment] > 1) {
      return SchemaError(path,
                         absl::StrCat("the keyword '$dynamicRef' is supported "
                                      "where one schema has the anchor '",
                                      fragment.substr(0, 64), "'"));
    }
    const auto anchor = anchors_.find(
        absl::StrCat(parts.first.empty() ? place.base : uri, "#", fragment));
    target = anchor == anchors_.end() ? nullptr : anchor->second;
  }
  if (target == nullptr) {
    return SchemaError(path, absl::StrCat("$ref names '", text.substr(0, 128),
                                          "', which is not there"));
  }
  return target;
}

}  // namespace plimsoll::worker
