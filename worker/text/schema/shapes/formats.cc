#include "worker/text/schema/shapes/formats.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"

namespace plimsoll::worker {
namespace {

// Source: RFC 3339. A 29th of February is in leap years only.
constexpr absl::string_view kDate =
    "(\\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|"
    "(0[469]|11)-(0[1-9]|[12]\\d|30)|02-(0[1-9]|1\\d|2[0-8]))|"
    "(\\d\\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)"
    "-02-29)";
constexpr absl::string_view kOffset = "([Zz]|[+\\-]([01]\\d|2[0-3]):[0-5]\\d)";
// A leap second is known by its time in UTC.
constexpr absl::string_view kTimeOfDay =
    "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,9})?";
constexpr absl::string_view kLeapSecond =
    "23:59:60(\\.\\d{1,9})?([Zz]|[+\\-]00:00)";
constexpr absl::string_view kUuid =
    "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-"
    "[0-9a-fA-F]{12}";
constexpr absl::string_view kIpv4 =
    "((25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)\\.){3}"
    "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
// Source: RFC 5321. An address in brackets is added below.
constexpr absl::string_view kEmailName =
    "([a-zA-Z0-9!#$%&'*+/=?^_`{|}~\\-]+"
    "(\\.[a-zA-Z0-9!#$%&'*+/=?^_`{|}~\\-]+)*|"
    "\"([ !#-\\[\\]-~]|\\\\[ -~])*\")";
// Source: ISO 8601 as RFC 3339 has it, appendix A.
constexpr absl::string_view kDuration =
    "P(\\d+W|T(\\d+H(\\d+M(\\d+S)?)?|\\d+M(\\d+S)?|\\d+S)|"
    "(\\d+Y(\\d+M(\\d+D)?)?|\\d+M(\\d+D)?|\\d+D)"
    "(T(\\d+H(\\d+M(\\d+S)?)?|\\d+M(\\d+S)?|\\d+S))?)";

// Source: RFC 6901.
constexpr absl::string_view kJsonPointer = "(/([^~/]|~[01])*)*";

// A label of at most `most` characters, 5 or more. Source: RFC 1123. Names in
// other scripts have hyphens in the third and fourth place; they are left out.
std::string Label(int most) {
  return absl::StrCat(
      "[a-zA-Z0-9]([a-zA-Z0-9\\-]{0,2}[a-zA-Z0-9]|[a-zA-Z0-9\\-]"
      "([a-zA-Z0-9\\-][a-zA-Z0-9]|[a-zA-Z0-9]-)[a-zA-Z0-9\\-]{0,",
      most - 5, "}[a-zA-Z0-9])?");
}

// A name has at most 253 characters: few long labels, or more short ones.
std::string Host() {
  const std::string longest = Label(63);
  const std::string shorter = Label(24);
  return absl::StrCat("((", longest, "\\.){0,2}", longest, "|(", shorter,
                      "\\.){3,9}", shorter, ")");
}

// Source: RFC 3986, 3.2.2: groups of hexadecimal digits, of which :: leaves out
// one or more.
std::string Ipv6() {
  const std::string h = "[0-9a-fA-F]{1,4}";
  const std::string last = absl::StrCat("(", h, ":", h, "|", kIpv4, ")");
  std::string all = absl::StrCat("(", h, ":){6}", last);
  for (int before = 0; before <= 7; ++before) {
    // `before` groups, ::, and at most 7 - before others.
    std::string front;
    if (before == 1) front = h;
    if (before > 1) front = absl::StrCat("(", h, ":){", before - 1, "}", h);
    const int most = 7 - before;
    std::string back;
    if (most >= 1) {
      back = absl::StrCat("(", h, "(:", h, "){0,", most - 1, "})?");
    }
    if (most >= 2) {
      back =
          absl::StrCat("(", back, "|(", h, ":){0,", most - 2, "}", kIpv4, ")");
    }
    absl::StrAppend(&all, "|", front, "::", back);
  }
  return absl::StrCat("(", all, ")");
}

// Source: RFC 3986, appendix A.
std::string Uri(bool is_relative_too) {
  const std::string plain = "[a-zA-Z0-9\\-._~!$&'()*+,;=:@]|%[0-9a-fA-F]{2}";
  const std::string pchar = absl::StrCat("(", plain, ")");
  const std::string user = "([a-zA-Z0-9\\-._~!$&'()*+,;=:]|%[0-9a-fA-F]{2})*@";
  const std::string host = absl::StrCat(
      "(\\[", Ipv6(), "\\]|([a-zA-Z0-9\\-._~!$&'()*+,;=]|%[0-9a-fA-F]{2})*)");
  const std::string authority =
      absl::StrCat("//(", user, ")?", host, "(:\\d*)?(/", pchar, "*)*");
  const std::string absolute = absl::StrCat("/(", pchar, "+(/", pchar, "*)*)?");
  const std::string rootless = absl::StrCat(pchar, "+(/", pchar, "*)*");
  const std::string ends =
      absl::StrCat("(\\?(", plain, "|[/?])*)?(#(", plain, "|[/?])*)?");
  std::string full = absl::StrCat("[a-zA-Z][a-zA-Z0-9+\\-.]*:(", authority, "|",
                                  absolute, "|", rootless, "|)", ends);
  if (!is_relative_too) return full;
  const std::string first = "([a-zA-Z0-9\\-._~!$&'()*+,;=@]|%[0-9a-fA-F]{2})+";
  return absl::StrCat("(", full, "|(", authority, "|", absolute, "|", first,
                      "(/", pchar, "*)*|)", ends, ")");
}

}  // namespace

std::optional<std::string> FormatPattern(absl::string_view name) {
  const std::string time =
      absl::StrCat("(", kTimeOfDay, kOffset, "|", kLeapSecond, ")");
  if (name == "date") return std::string(kDate);
  if (name == "time") return time;
  if (name == "date-time") return absl::StrCat(kDate, "[Tt]", time);
  if (name == "duration") return std::string(kDuration);
  if (name == "uuid") return std::string(kUuid);
  if (name == "ipv4") return std::string(kIpv4);
  if (name == "ipv6") return Ipv6();
  if (name == "hostname") return Host();
  if (name == "email") {
    return absl::StrCat(kEmailName, "@(", Host(), "|\\[(", kIpv4,
                        "|IPv6:", Ipv6(), ")\\])");
  }
  if (name == "json-pointer") return std::string(kJsonPointer);
  if (name == "relative-json-pointer") {
    return absl::StrCat("(0|[1-9]\\d*)(#|", kJsonPointer, ")");
  }
  if (name == "uri") return Uri(/*is_relative_too=*/false);
  if (name == "uri-reference") return Uri(/*is_relative_too=*/true);
  return std::nullopt;
}

}  // namespace plimsoll::worker
