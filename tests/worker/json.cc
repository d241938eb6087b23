#include "tests/worker/json.h"

#include <cstdlib>

#include "absl/strings/numbers.h"

namespace plimsoll::testing {
namespace {

constexpr int kMaxDepth = 64;

void AppendUtf8(uint32_t code, std::string& out) {
  const auto push = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    push(code);
  } else if (code < 0x800) {
    push(0xc0 | code >> 6);
    push(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    push(0xe0 | code >> 12);
    push(0x80 | (code >> 6 & 0x3f));
    push(0x80 | (code & 0x3f));
  } else {
    push(0xf0 | code >> 18);
    push(0x80 | (code >> 12 & 0x3f));
    push(0x80 | (code >> 6 & 0x3f));
    push(0x80 | (code & 0x3f));
  }
}

}  // namespace

class JsonParser {
 public:
  explicit JsonParser(absl::string_view text) : rest_(text) {}

  bool Parse(Json& out) { return Value(out, 0) && Peek() == '\0'; }

 private:
  // The next byte that is no white space, or 0 at the end.
  char Peek() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n' ||
                              rest_[0] == '\t' || rest_[0] == '\r')) {
      rest_.remove_prefix(1);
    }
    return rest_.empty() ? '\0' : rest_[0];
  }

  bool Take(absl::string_view token) {
    Peek();
    if (rest_.substr(0, token.size()) != token) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  bool Value(Json& out, int depth) {
    if (depth > kMaxDepth) return false;
    switch (Peek()) {
      case '{':
        return Object(out, depth);
      case '[':
        return Array(out, depth);
      case '"':
        return String(out.text_);
      case 't':
        out.number_ = 1;
        return Take("true");
      case 'f':
        return Take("false");
      case 'n':
        return Take("null");
      default:
        return Number(out.number_);
    }
  }

  bool Object(Json& out, int depth) {
    Take("{");
    if (Take("}")) return true;
    do {
      std::string key;
      if (Peek() != '"' || !String(key) || !Take(":") ||
          !Value(out.members_[key], depth + 1)) {
        return false;
      }
    } while (Take(","));
    return Take("}");
  }

  bool Array(Json& out, int depth) {
    Take("[");
    if (Take("]")) return true;
    do {
      if (!Value(out.items_.emplace_back(), depth + 1)) return false;
    } while (Take(","));
    return Take("]");
  }

  bool Number(double& out) {
    const size_t n = rest_.find_first_not_of("+-0123456789.eE");
    const absl::string_view digits = rest_.substr(0, n);
    rest_.remove_prefix(digits.size());
    return absl::SimpleAtod(digits, &out);
  }

  bool Hex(uint32_t& code) {
    const std::string digits(rest_.substr(0, 4));
    if (digits.size() < 4) return false;
    rest_.remove_prefix(4);
    code = static_cast<uint32_t>(std::strtoul(digits.c_str(), nullptr, 16));
    return true;
  }

  bool Escape(std::string& out) {
    const char c = rest_.empty() ? '\0' : rest_[0];
    if (!rest_.empty()) rest_.remove_prefix(1);
    constexpr absl::string_view kFrom = "\"\\/bfnrt";
    constexpr absl::string_view kTo = "\"\\/\b\f\n\r\t";
    if (const size_t at = kFrom.find(c); at != absl::string_view::npos) {
      out += kTo[at];
      return true;
    }
    uint32_t code = 0;
    if (c != 'u' || !Hex(code)) return false;
    uint32_t low = 0;
    if (code >= 0xd800 && code < 0xdc00 && rest_.substr(0, 2) == "\\u") {
      rest_.remove_prefix(2);
      if (!Hex(low)) return false;
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    AppendUtf8(code, out);
    return true;
  }

  bool String(std::string& out) {
    rest_.remove_prefix(1);
    while (!rest_.empty() && rest_[0] != '"') {
      const char c = rest_[0];
      rest_.remove_prefix(1);
      if (c != '\\') {
        out += c;
      } else if (!Escape(out)) {
        return false;
      }
    }
    return Take("\"");
  }

  absl::string_view rest_;
};

std::optional<Json> Json::Parse(absl::string_view text) {
  Json json;
  if (!JsonParser(text).Parse(json)) return std::nullopt;
  return json;
}

const Json& Json::operator[](const std::string& key) const {
  static const Json kNone;
  const auto it = members_.find(key);
  return it == members_.end() ? kNone : it->second;
}

const Json& Json::operator[](size_t index) const {
  static const Json kNone;
  return index < items_.size() ? items_[index] : kNone;
}

std::vector<int32_t> Json::Ints() const {
  std::vector<int32_t> ints;
  for (const Json& item : items_) {
    ints.push_back(static_cast<int32_t>(item.Number()));
  }
  return ints;
}

}  // namespace plimsoll::testing
