#include "worker/text/schema_reader.h"

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "worker/text/json_check.h"

namespace plimsoll::worker {

absl::StatusOr<SchemaJson> ReadSchemaJson(absl::string_view text) {
  RETURN_IF_ERROR(CheckJson(text, kMaxSchemaDepth));
  SchemaJson json =
      SchemaJson::parse(text.data(), text.data() + text.size(), /*cb=*/nullptr,
                        /*allow_exceptions=*/false);
  if (json.is_discarded()) return absl::InvalidArgumentError("it is not JSON");
  return json;
}

}  // namespace plimsoll::worker
