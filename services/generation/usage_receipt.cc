#include "services/generation/usage_receipt.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/status_macros.h"

namespace plimsoll::services {
namespace {

using ReceiptJson = nlohmann::ordered_json;

constexpr char kTimeFormat[] = "%Y-%m-%dT%H:%M:%E3SZ";

struct TextField {
  absl::string_view name;
  std::string UsageReceipt::*value;
};

struct CountField {
  absl::string_view name;
  int64_t UsageReceipt::*value;
};

constexpr TextField kTexts[] = {{"request", &UsageReceipt::request_id},
                                {"tenant", &UsageReceipt::tenant},
                                {"model", &UsageReceipt::model},
                                {"status", &UsageReceipt::status}};

constexpr CountField kReceiptCounts[] = {
    {"prompt_tokens", &UsageReceipt::prompt_tokens},
    {"cached_tokens", &UsageReceipt::cached_tokens},
    {"generated_tokens", &UsageReceipt::generated_tokens},
    {"kv_bytes", &UsageReceipt::kv_bytes},
    {"refused", &UsageReceipt::refused},
    {"lost", &UsageReceipt::lost}};

absl::Status BadField(absl::string_view name) {
  return absl::InvalidArgumentError(
      absl::StrCat("no receipt: ", name, " is absent or bad"));
}

bool IsOneKind(const UsageReceipt& receipt) {
  const int n_kinds = (receipt.status.empty() ? 0 : 1) +
                      (receipt.refused > 0 ? 1 : 0) +
                      (receipt.lost > 0 ? 1 : 0);
  return n_kinds == 1;
}

}  // namespace

std::string FormatReceipt(const UsageReceipt& receipt) {
  ReceiptJson json;
  json["time"] =
      absl::FormatTime(kTimeFormat, receipt.time, absl::UTCTimeZone());
  if (receipt.lost > 0) {
    json["lost"] = receipt.lost;
  } else if (receipt.refused > 0) {
    json["tenant"] = receipt.tenant;
    json["refused"] = receipt.refused;
  } else {
    for (const TextField& field : kTexts) {
      json[std::string(field.name)] = receipt.*field.value;
    }
    for (const CountField& field : kReceiptCounts) {
      if (field.value == &UsageReceipt::refused) break;
      json[std::string(field.name)] = receipt.*field.value;
    }
    json["seconds"] = receipt.seconds;
  }
  return json.dump(-1, ' ', false, ReceiptJson::error_handler_t::replace);
}

absl::StatusOr<UsageReceipt> ParseReceipt(absl::string_view line) {
  if (line.size() > kMaxReceiptBytes) {
    return absl::InvalidArgumentError("no receipt: the line is too long");
  }
  // Values that have values of their own are left out, however deep they are.
  const auto is_flat = [](int depth, ReceiptJson::parse_event_t /*event*/,
                          ReceiptJson& /*parsed*/) { return depth <= 1; };
  const ReceiptJson json =
      ReceiptJson::parse(line.begin(), line.end(), is_flat, false);
  if (!json.is_object()) {
    return absl::InvalidArgumentError("no receipt: it is no JSON object");
  }
  UsageReceipt receipt;
  const auto time = json.find("time");
  std::string why;
  if (time == json.end() || !time->is_string() ||
      !absl::ParseTime(absl::RFC3339_full, time->get<std::string>(),
                       &receipt.time, &why)) {
    return BadField("time");
  }
  for (const TextField& field : kTexts) {
    const auto found = json.find(std::string(field.name));
    if (found == json.end()) continue;
    if (!found->is_string()) return BadField(field.name);
    receipt.*field.value = found->get<std::string>();
  }
  for (const CountField& field : kReceiptCounts) {
    const auto found = json.find(std::string(field.name));
    if (found == json.end()) continue;
    if (!found->is_number_integer() || *found < 0 ||
        *found > kMaxReceiptCount) {
      return BadField(field.name);
    }
    receipt.*field.value = found->get<int64_t>();
  }
  if (const auto found = json.find("seconds"); found != json.end()) {
    if (!found->is_number() || !(*found >= 0.0) ||
        *found > static_cast<double>(kMaxReceiptCount)) {
      return BadField("seconds");
    }
    receipt.seconds = found->get<double>();
  }
  if (!IsOneKind(receipt)) return BadField("status");
  return receipt;
}

}  // namespace plimsoll::services
