// The report as text and as JSON.
#include "services/cli/doctor/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_split.h"

namespace plimsoll::cli {
namespace {

using ::testing::HasSubstr;

std::vector<Diagnosis> Mixed() {
  return {{.name = "clock", .found = "right"},
          {.name = "planner", .health = Health::kSkipped, .found = "left out"},
          {.name = "swap",
           .health = Health::kWarning,
           .found = "8.0 GiB",
           .fix = "swapoff -a"},
          {.name = "model",
           .health = Health::kError,
           .found = "cut\x1b[31m\nshort",
           .fix = "get it again"}};
}

TEST(ReportTest, EachCheckHasALineAndWhatIsWrongAFix) {
  EXPECT_EQ(RenderReport(Mixed(), Style()),
            "  ok       clock    right\n"
            "  skipped  planner  left out\n"
            "  warning  swap     8.0 GiB\n"
            "                    fix: swapoff -a\n"
            "  error    model    cut?[31m short\n"
            "                    fix: get it again\n"
            "  1 error, 1 warning\n");
}

TEST(ReportTest, ColoursChangeNoColumn) {
  Style style;
  style.color = true;
  EXPECT_THAT(RenderReport(Mixed(), style),
              HasSubstr("  \033[33mwarning\033[0m  swap     8.0 GiB\n"));
  EXPECT_THAT(RenderReport(Mixed(), style),
              HasSubstr("  \033[32mok\033[0m       clock    right\n"));
}

TEST(ReportTest, LongTextsAreWrapped) {
  std::vector<Diagnosis> one = {{.name = "swap",
                                 .health = Health::kWarning,
                                 .found = std::string(58, 'a') + " b c d",
                                 .fix = std::string(57, 'e') + " f"}};
  const std::string text = RenderReport(one, Style());
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    EXPECT_LE(Columns(line), kDefaultWidth) << line;
  }
  EXPECT_THAT(text, HasSubstr("\n                 d\n"));
  EXPECT_THAT(text, HasSubstr("\n                 f\n"));
}

TEST(ReportTest, OnlyErrorsMakeItFail) {
  std::vector<Diagnosis> diagnoses = Mixed();
  EXPECT_TRUE(HasError(diagnoses));
  diagnoses.pop_back();
  EXPECT_FALSE(HasError(diagnoses));
  EXPECT_THAT(RenderReport(diagnoses, Style()),
              HasSubstr("  0 errors, 1 warning\n"));
}

TEST(ReportTest, JsonHasTheSameContent) {
  const google::protobuf::Struct object = ReportObject(Mixed());
  EXPECT_FALSE(object.fields().at("ok").bool_value());
  EXPECT_EQ(object.fields().at("errors").number_value(), 1);
  EXPECT_EQ(object.fields().at("warnings").number_value(), 1);
  const auto& checks = object.fields().at("checks").list_value();
  ASSERT_EQ(checks.values_size(), 4);
  const auto& clock = checks.values(0).struct_value().fields();
  EXPECT_EQ(clock.at("name").string_value(), "clock");
  EXPECT_EQ(clock.at("state").string_value(), "ok");
  EXPECT_EQ(clock.at("found").string_value(), "right");
  EXPECT_EQ(clock.count("fix"), 0u);
  const auto& model = checks.values(3).struct_value().fields();
  EXPECT_EQ(model.at("state").string_value(), "error");
  EXPECT_EQ(model.at("found").string_value(), "cut?[31m short");
  EXPECT_EQ(model.at("fix").string_value(), "get it again");
}

}  // namespace
}  // namespace plimsoll::cli
