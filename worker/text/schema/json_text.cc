#include "worker/text/schema/json_text.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "worker/text/code_points.h"

namespace plimsoll::worker {
namespace {

// Source: RFC 8259.
class Reader {
 public:
  explicit Reader(absl::string_view text) : text_(text) {}

  JsonText Read() {
    JsonText out;
    SkipSpace();
    out.is_valid = ReadValue(out.root, 0);
    if (out.is_valid) {
      SkipSpace();
      out.is_valid = at_ == text_.size();
    }
    out.error_at = at_;
    return out;
  }

 private:
  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool Take(absl::string_view token) {
    if (!absl::StartsWith(text_.substr(at_), token)) return false;
    at_ += token.size();
    return true;
  }
  void SkipSpace() {
    while (at_ < text_.size() && absl::StrContains(" \t\r\n", text_[at_])) {
      ++at_;
    }
  }

  // The recursion is at most kMaxJsonTextDepth deep.
  bool ReadValue(JsonNode& node, int depth) {
    node.begin = at_;
    if (depth > kMaxJsonTextDepth) return false;
    if (Peek() == '{') return ReadObject(node, depth);
    if (Peek() == '[') return ReadArray(node, depth);
    if (Peek() == '"') {
      node.type = JsonType::kString;
      return ReadString(node.text);
    }
    if (Take("null")) return true;
    node.type = JsonType::kBoolean;
    node.is_true = Take("true");
    if (node.is_true || Take("false")) return true;
    node.type = JsonType::kNumber;
    return ReadNumber(node);
  }

  bool ReadNumber(JsonNode& node) {
    size_t end = at_;
    while (end < text_.size() &&
           absl::StrContains("+-.0123456789eE", text_[end])) {
      ++end;
    }
    const auto parsed = ParseDecimal(text_.substr(at_, end - at_));
    if (!parsed) return false;
    node.number = *parsed;
    node.is_plain = text_.substr(at_, end - at_).find_first_of(".eE") ==
                    absl::string_view::npos;
    at_ = end;
    return true;
  }

  bool ReadArray(JsonNode& node, int depth) {
    node.type = JsonType::kArray;
    ++at_;
    SkipSpace();
    if (Take("]")) return true;
    while (true) {
      node.parts.emplace_back();
      if (!ReadValue(node.parts.back(), depth + 1)) return false;
      SkipSpace();
      if (Take("]")) return true;
      if (!Take(",")) return false;
      SkipSpace();
    }
  }

  bool ReadObject(JsonNode& node, int depth) {
    node.type = JsonType::kObject;
    ++at_;
    SkipSpace();
    if (Take("}")) return true;
    while (true) {
      const size_t begin = at_;
      std::string name;
      if (Peek() != '"' || !ReadString(name)) return false;
      if (std::find(node.names.begin(), node.names.end(), name) !=
          node.names.end()) {
        at_ = begin;
        return false;
      }
      node.names.push_back(std::move(name));
      node.name_begins.push_back(begin);
      SkipSpace();
      if (!Take(":")) return false;
      SkipSpace();
      node.parts.emplace_back();
      if (!ReadValue(node.parts.back(), depth + 1)) return false;
      SkipSpace();
      if (Take("}")) return true;
      if (!Take(",")) return false;
      SkipSpace();
    }
  }

  bool ReadString(std::string& out) {
    ++at_;
    while (at_ < text_.size()) {
      const auto c = static_cast<unsigned char>(text_[at_]);
      if (c == '"') {
        ++at_;
        return true;
      }
      if (c == '\\') {
        if (!ReadEscape(out)) return false;
        continue;
      }
      if (c < 0x20) return false;
      absl::string_view rest = text_.substr(at_);
      const auto code_point = TakeCodePoint(rest);
      if (!code_point) return false;
      AppendUtf8(*code_point, out);
      at_ = text_.size() - rest.size();
    }
    return false;
  }

  bool ReadEscape(std::string& out) {
    constexpr absl::string_view kLetters = "\"\\/bfnrt";
    constexpr absl::string_view kMeanings = "\"\\/\b\f\n\r\t";
    if (at_ + 1 >= text_.size()) return false;
    const size_t letter = kLetters.find(text_[at_ + 1]);
    if (letter != absl::string_view::npos) {
      out.push_back(kMeanings[letter]);
      at_ += 2;
      return true;
    }
    std::optional<uint32_t> c = UnitAt(at_);
    size_t n = 6;
    if (c && *c >= 0xD800 && *c <= 0xDBFF) {
      const std::optional<uint32_t> low = UnitAt(at_ + 6);
      if (!low || *low < 0xDC00 || *low > 0xDFFF) return false;
      c = 0x10000 + ((*c - 0xD800) << 10) + (*low - 0xDC00);
      n = 12;
    }
    if (!c || (*c >= 0xDC00 && *c <= 0xDFFF)) return false;
    AppendUtf8(*c, out);
    at_ += n;
    return true;
  }

  // The number that \uHHHH at byte `at` has.
  std::optional<uint32_t> UnitAt(size_t at) const {
    const absl::string_view unit =
        text_.substr(std::min(at, text_.size())).substr(0, 6);
    if (unit.size() < 6 || !absl::StartsWith(unit, "\\u")) return std::nullopt;
    const absl::string_view digits = unit.substr(2);
    uint32_t value = 0;
    const bool are_digits =
        std::all_of(digits.begin(), digits.end(), [](char c) {
          return absl::ascii_isxdigit(static_cast<unsigned char>(c));
        });
    if (!are_digits || !absl::SimpleHexAtoi(digits, &value)) {
      return std::nullopt;
    }
    return value;
  }

  absl::string_view text_;
  size_t at_ = 0;
};

}  // namespace

JsonText ReadJsonText(absl::string_view text) { return Reader(text).Read(); }

}  // namespace plimsoll::worker
