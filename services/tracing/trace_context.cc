#include "services/tracing/trace_context.h"

#include <algorithm>
#include <set>
#include <span>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/decode_hex.h"

namespace plimsoll::services {
namespace {

// Version, trace id, parent id and flags, with '-' between them.
constexpr size_t kParentBytes = 2 + 1 + 32 + 1 + 16 + 1 + 2;
constexpr size_t kMaxKeyBytes = 256;
constexpr size_t kMaxValueBytes = 256;
// A key may have an "@": the tenant stands before it, the system behind it.
constexpr size_t kMaxTenantBytes = 241;
constexpr size_t kMaxSystemBytes = 14;

bool IsLowerHexDigit(char c) {
  return absl::ascii_isdigit(static_cast<unsigned char>(c)) ||
         (c >= 'a' && c <= 'f');
}

bool IsLower(char c) { return c >= 'a' && c <= 'z'; }

bool IsKeyCharacter(char c) {
  return IsLower(c) || absl::ascii_isdigit(static_cast<unsigned char>(c)) ||
         c == '_' || c == '-' || c == '*' || c == '/';
}

// Fills `bytes` from twice as many digits. Returns false if all are 0.
bool ReadId(absl::string_view digits, std::span<uint8_t> bytes) {
  const std::string read = DecodeHex(digits);
  std::copy(read.begin(), read.end(), bytes.begin());
  return std::any_of(bytes.begin(), bytes.end(),
                     [](uint8_t byte) { return byte != 0; });
}

bool IsGoodKey(absl::string_view key, size_t max_bytes) {
  return !key.empty() && key.size() <= max_bytes &&
         std::all_of(key.begin(), key.end(), IsKeyCharacter);
}

bool BeginsWithLower(absl::string_view key) {
  return !key.empty() && IsLower(key.front());
}

bool BeginsWithDigit(absl::string_view key) {
  return !key.empty() &&
         absl::ascii_isdigit(static_cast<unsigned char>(key.front()));
}

bool IsGoodKey(absl::string_view key) {
  const size_t at = key.find('@');
  if (at == key.npos) {
    return BeginsWithLower(key) && IsGoodKey(key, kMaxKeyBytes);
  }
  const absl::string_view tenant = key.substr(0, at);
  const absl::string_view system = key.substr(at + 1);
  return (BeginsWithLower(tenant) || BeginsWithDigit(tenant)) &&
         IsGoodKey(tenant, kMaxTenantBytes) && BeginsWithLower(system) &&
         IsGoodKey(system, kMaxSystemBytes);
}

bool IsGoodValue(absl::string_view value) {
  return !value.empty() && value.size() <= kMaxValueBytes &&
         value.back() != ' ' &&
         std::all_of(value.begin(), value.end(), [](char c) {
           return c >= ' ' && c <= '~' && c != ',' && c != '=';
         });
}

// Returns the members of a tracestate with nothing but ',' between them, or
// nothing at all if it is bad. Tabs must not stay: gRPC ends the process that
// sends one in metadata.
std::string ReadState(absl::string_view state) {
  if (state.size() > kMaxTraceStateBytes) return "";
  std::set<absl::string_view> keys;
  std::string read;
  int n_members = 0;
  for (absl::string_view member : absl::StrSplit(state, ',')) {
    if (++n_members > kMaxTraceStateMembers) return "";
    const auto is_space = [](char c) { return c == ' ' || c == '\t'; };
    while (!member.empty() && is_space(member.front())) member.remove_prefix(1);
    while (!member.empty() && is_space(member.back())) member.remove_suffix(1);
    if (member.empty()) continue;  // W3C allows them
    const size_t equals = member.find('=');
    if (equals == member.npos) return "";
    const absl::string_view key = member.substr(0, equals);
    if (!IsGoodKey(key) || !IsGoodValue(member.substr(equals + 1))) return "";
    if (!keys.insert(key).second) return "";
    absl::StrAppend(&read, read.empty() ? "" : ",", member);
  }
  return read;
}

}  // namespace

std::optional<TraceContext> ParseTrace(absl::string_view parent,
                                       absl::string_view state) {
  if (parent.size() < kParentBytes || parent.size() > kMaxTraceParentBytes) {
    return std::nullopt;
  }
  for (size_t i = 0; i < kParentBytes; ++i) {
    const bool is_dash = i == 2 || i == 35 || i == 52;
    if (is_dash ? parent[i] != '-' : !IsLowerHexDigit(parent[i])) {
      return std::nullopt;
    }
  }
  const absl::string_view version = parent.substr(0, 2);
  if (version == "ff") return std::nullopt;
  // A later version may have more behind another '-'.
  const bool is_longer = parent.size() > kParentBytes;
  if (is_longer && (version == "00" || parent[kParentBytes] != '-')) {
    return std::nullopt;
  }
  TraceContext context;
  if (!ReadId(parent.substr(3, 32), context.trace_id)) return std::nullopt;
  if (!ReadId(parent.substr(36, 16), context.span_id)) return std::nullopt;
  const std::string flags = DecodeHex(parent.substr(53, 2));
  context.is_sampled = (static_cast<uint8_t>(flags[0]) & 1) != 0;
  context.state = ReadState(state);
  return context;
}

std::string ToHex(const TraceId& id) {
  return absl::BytesToHexString(
      {reinterpret_cast<const char*>(id.data()), id.size()});
}

std::string TraceParentOf(const TraceContext& context) {
  const SpanId& id = context.span_id;
  return absl::StrCat(
      "00-", ToHex(context.trace_id), "-",
      absl::BytesToHexString(
          {reinterpret_cast<const char*>(id.data()), id.size()}),
      context.is_sampled ? "-01" : "-00");
}

}  // namespace plimsoll::services
