#include "worker/text/jinja/json_value.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/status_macros.h"
#include "worker/text/json_check.h"

namespace plimsoll::worker::jinja {
namespace {

using Json = nlohmann::ordered_json;

absl::StatusOr<Value> Converted(const Json& json, bool is_tainted) {
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value(json.get<bool>());
    case Json::value_t::number_integer:
      return Value(json.get<int64_t>());
    case Json::value_t::number_unsigned:
      if (json.get<uint64_t>() >
          static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        return absl::InvalidArgumentError(
            "an integer is beyond the limit of 64 bits");
      }
      return Value(static_cast<int64_t>(json.get<uint64_t>()));
    case Json::value_t::number_float:
      return Value(json.get<double>());
    case Json::value_t::string:
      return Value(Text(json.get<std::string>(), is_tainted));
    case Json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const Json& element : json) {
        ASSIGN_OR_RETURN(Value item, Converted(element, is_tainted));
        items.push_back(std::move(item));
      }
      return Value::MakeList(std::move(items));
    }
    case Json::value_t::object: {
      auto dict = std::make_shared<Dict>();
      for (const auto& [name, element] : json.items()) {
        ASSIGN_OR_RETURN(Value value, Converted(element, is_tainted));
        RETURN_IF_ERROR(
            dict->Set(Value(Text(name, is_tainted)), std::move(value)));
      }
      return Value(std::shared_ptr<const Dict>(std::move(dict)));
    }
    default:
      return Value(None());
  }
}

}  // namespace

absl::StatusOr<Value> FromJson(absl::string_view json, bool is_tainted) {
  RETURN_IF_ERROR(CheckJson(json, kMaxJsonDepth));
  const Json tree = Json::parse(json.data(), json.data() + json.size(),
                                /*cb=*/nullptr, /*allow_exceptions=*/false);
  if (tree.is_discarded()) return absl::InvalidArgumentError("it is not JSON");
  return Converted(tree, is_tainted);
}

}  // namespace plimsoll::worker::jinja
