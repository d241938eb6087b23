#include "services/cli/doctor/report.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "services/cli/terminal/bytes.h"
#include "services/cli/terminal/table.h"

namespace plimsoll::cli {
namespace {

constexpr int64_t kIndent = 2;
constexpr int64_t kGap = 2;
constexpr int64_t kStateColumns = 7;  // "warning", "skipped"

absl::string_view StateOf(Health health) {
  switch (health) {
    case Health::kOk:
      return "ok";
    case Health::kSkipped:
      return "skipped";
    case Health::kWarning:
      return "warning";
    case Health::kError:
      return "error";
  }
  return "";
}

Color ColorOf(Health health) {
  switch (health) {
    case Health::kOk:
      return Color::kGreen;
    case Health::kSkipped:
      return Color::kDim;
    case Health::kWarning:
      return Color::kYellow;
    case Health::kError:
      return Color::kRed;
  }
  return Color::kDim;
}

int64_t CountOf(const std::vector<Diagnosis>& diagnoses, Health health) {
  return std::ranges::count(diagnoses, health, &Diagnosis::health);
}

// Text from a file or a server in one line that a terminal can show.
std::string Shown(const std::string& text) {
  std::string line = Printable(text);
  std::ranges::replace(line, '\n', ' ');
  return line;
}

std::string Blanks(int64_t n) {
  return std::string(static_cast<size_t>(std::max<int64_t>(n, 0)), ' ');
}

// `text` in lines of at most `width` columns, all but the first behind `indent`
// blanks.
std::string Paragraph(const std::string& text, int64_t indent, int64_t width) {
  std::string out;
  for (const std::string& line : Wrap(Shown(text), width)) {
    if (!out.empty()) absl::StrAppend(&out, Blanks(indent));
    absl::StrAppend(&out, line, "\n");
  }
  return out;
}

}  // namespace

bool HasError(const std::vector<Diagnosis>& diagnoses) {
  return CountOf(diagnoses, Health::kError) > 0;
}

std::string RenderReport(const std::vector<Diagnosis>& diagnoses,
                         const Style& style) {
  int64_t name_columns = 0;
  for (const Diagnosis& diagnosis : diagnoses) {
    name_columns = std::max(name_columns, Columns(diagnosis.name));
  }
  const int64_t indent = kIndent + kStateColumns + kGap + name_columns + kGap;
  const int64_t width =
      std::max<int64_t>(style.width - indent, Table::kMinLastColumn);
  std::string out;
  for (const Diagnosis& diagnosis : diagnoses) {
    const absl::string_view state = StateOf(diagnosis.health);
    absl::StrAppend(
        &out, Blanks(kIndent), Paint(style, ColorOf(diagnosis.health), state),
        Blanks(kStateColumns - Columns(state) + kGap), diagnosis.name,
        Blanks(name_columns - Columns(diagnosis.name) + kGap),
        Paragraph(diagnosis.found, indent, width));
    if (diagnosis.fix.empty()) continue;
    absl::StrAppend(
        &out, Blanks(indent),
        Paragraph(absl::StrCat("fix: ", diagnosis.fix), indent, width));
  }
  absl::StrAppend(
      &out, Blanks(kIndent),
      FormatCounted(CountOf(diagnoses, Health::kError), "error"), ", ",
      FormatCounted(CountOf(diagnoses, Health::kWarning), "warning"), "\n");
  return out;
}

google::protobuf::Struct ReportObject(const std::vector<Diagnosis>& diagnoses) {
  google::protobuf::Struct object;
  auto& fields = *object.mutable_fields();
  const auto n_errors = CountOf(diagnoses, Health::kError);
  fields["ok"].set_bool_value(n_errors == 0);
  fields["errors"].set_number_value(static_cast<double>(n_errors));
  fields["warnings"].set_number_value(
      static_cast<double>(CountOf(diagnoses, Health::kWarning)));
  auto& checks = *fields["checks"].mutable_list_value();
  for (const Diagnosis& diagnosis : diagnoses) {
    auto& check =
        *checks.add_values()->mutable_struct_value()->mutable_fields();
    check["name"].set_string_value(diagnosis.name);
    check["state"].set_string_value(std::string(StateOf(diagnosis.health)));
    check["found"].set_string_value(Shown(diagnosis.found));
    if (!diagnosis.fix.empty()) {
      check["fix"].set_string_value(Shown(diagnosis.fix));
    }
  }
  return object;
}

}  // namespace plimsoll::cli
