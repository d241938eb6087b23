#include "services/convert/text_cutting.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/tokenizer/pretokenizer_names.h"
#include "worker/text/tokenizer/space_mark.h"

namespace plimsoll::services {
namespace {

std::string KindOf(const Json& step) { return TextMember(step, "type"); }

// The steps of a normalizer or of a pre-tokenizer, which may be a sequence of
// them under `list`, or null.
std::vector<Json> StepsOf(const Json& step, const char* list) {
  if (step.is_null()) return {};
  if (KindOf(step) != "Sequence") return {step};
  const Json& steps = MemberOf(step, list);
  return std::vector<Json>(steps.begin(), steps.end());
}

std::vector<Json> Normalizers(const Json& tokenizer) {
  return StepsOf(MemberOf(tokenizer, "normalizer"), "normalizers");
}

std::vector<Json> PreTokenizers(const Json& tokenizer) {
  return StepsOf(MemberOf(tokenizer, "pre_tokenizer"), "pretokenizers");
}

absl::Status UnknownStep(absl::string_view what, const Json& step) {
  constexpr size_t kShown = 300;
  return absl::UnimplementedError(
      absl::StrCat("tokenizer.json: the ", what, " ",
                   step.dump(-1, ' ', false, Json::error_handler_t::replace)
                       .substr(0, kShown),
                   " cannot be written into a GGUF file"));
}

// True if the step replaces spaces by marks.
bool MarksSpaces(const Json& step) {
  return KindOf(step) == "Replace" &&
         TextMember(MemberOf(step, "pattern"), "String") == " " &&
         TextMember(step, "content") == worker::kSpaceMark;
}

// Appends the expression of a step that cuts text of byte-level BPE.
absl::Status AppendExpression(const Json& step, std::vector<std::string>& out) {
  const std::string kind = KindOf(step);
  if (kind == "Digits" && IsTrue(step, "individual_digits")) {
    out.emplace_back(worker::kDigitExpression);
    return absl::OkStatus();
  }
  if (kind == "ByteLevel" && !IsTrue(step, "add_prefix_space")) {
    const Json& cuts = MemberOf(step, "use_regex");
    if (cuts.is_null() || IsTrue(step, "use_regex")) {
      out.emplace_back(worker::kGpt2Expression);
    }
    return absl::OkStatus();
  }
  const std::string regex = TextMember(MemberOf(step, "pattern"), "Regex");
  const std::string behavior = TextMember(step, "behavior");
  // The known expressions match all of a text, so what is between two matches
  // does not matter.
  const bool keeps_matches =
      (behavior == "Isolated" && !IsTrue(step, "invert")) ||
      (behavior == "Removed" && IsTrue(step, "invert"));
  if (kind != "Split" || regex.empty() || !keeps_matches) {
    return UnknownStep("pre-tokenizer", step);
  }
  out.push_back(regex);
  return absl::OkStatus();
}

}  // namespace

bool IsByteLevel(const Json& tokenizer) {
  for (const Json& step : PreTokenizers(tokenizer)) {
    if (KindOf(step) == "ByteLevel") return true;
  }
  return false;
}

absl::StatusOr<std::vector<std::string>> ReadExpressions(
    const Json& tokenizer) {
  // Files have no place for a normalizer. Composed characters are usual, so
  // text as users type it is not changed by it.
  for (const Json& step : Normalizers(tokenizer)) {
    if (KindOf(step) != "NFC") return UnknownStep("normalizer", step);
  }
  std::vector<std::string> expressions;
  for (const Json& step : PreTokenizers(tokenizer)) {
    RETURN_IF_ERROR(AppendExpression(step, expressions));
  }
  return expressions;
}

absl::StatusOr<bool> ReadSpacePrefix(const Json& tokenizer) {
  bool has_prefix = false;
  bool marks = false;
  for (const Json& step : Normalizers(tokenizer)) {
    if (MarksSpaces(step)) {
      marks = true;
    } else if (KindOf(step) == "Prepend" &&
               TextMember(step, "prepend") == worker::kSpaceMark) {
      has_prefix = true;
    } else {
      return UnknownStep("normalizer", step);
    }
  }
  for (const Json& step : PreTokenizers(tokenizer)) {
    const std::string scheme = TextMember(step, "prepend_scheme");
    const Json& split = MemberOf(step, "split");
    if (KindOf(step) == "Metaspace" && split.is_boolean() && !split &&
        TextMember(step, "replacement") == worker::kSpaceMark) {
      marks = true;
      has_prefix = scheme != "never";
    } else if (KindOf(step) != "Split" ||
               TextMember(MemberOf(step, "pattern"), "String") != " ") {
      // Nothing is left to split where spaces are marked already.
      return UnknownStep("pre-tokenizer", step);
    }
  }
  if (marks) return has_prefix;
  return UnknownStep("normalizer", MemberOf(tokenizer, "normalizer"));
}

}  // namespace plimsoll::services
