#include "services/http/http_errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "services/http/json.h"
#include "services/wire/errors.h"

namespace plimsoll::services {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

Json ErrorOf(const absl::Status& status) {
  return Json::parse(ErrorBody(status)).at("error");
}

TEST(HttpErrorsTest, NamesTheParameterInHttpsWords) {
  const Json error = ErrorOf(
      absl::InvalidArgumentError("sampling.top_p: must be above 0, got 0"));
  EXPECT_EQ(error.at("param"), "top_p");
  EXPECT_EQ(error.at("message"), "top_p: must be above 0, got 0");
  EXPECT_EQ(error.at("type"), "invalid_request_error");
  EXPECT_TRUE(ErrorOf(absl::InvalidArgumentError("no field: none"))
                  .at("param")
                  .is_null());
  EXPECT_EQ(
      ErrorOf(absl::NotFoundError("response_id: there is none")).at("param"),
      "response_id");
}

TEST(HttpErrorsTest, APromptThatIsTooLongHasOpenAisCode) {
  const absl::Status status =
      WithDetails(absl::OutOfRangeError("9 tokens, 8 fit"),
                  {v1::ERROR_REASON_PROMPT_TOO_LONG, {}, std::nullopt});
  EXPECT_EQ(HttpStatusOf(status), 400);
  EXPECT_EQ(ErrorOf(status).at("code"), "context_length_exceeded");
}

TEST(HttpErrorsTest, SaysWhenToComeBack) {
  const HttpResponse full = ErrorResponse(WithDetails(
      absl::ResourceExhaustedError("full"),
      {v1::ERROR_REASON_QUEUE_FULL, {}, absl::Milliseconds(1'500)}));
  EXPECT_EQ(full.status, 429);
  EXPECT_THAT(full.headers, ElementsAre(Pair("Retry-After", "2")));
  const HttpResponse never =
      ErrorResponse(absl::ResourceExhaustedError("never fits"));
  EXPECT_EQ(never.status, 413);
  EXPECT_THAT(never.headers, IsEmpty());
}

TEST(HttpErrorsTest, TellsNoPath) {
  EXPECT_EQ(
      ErrorOf(absl::NotFoundError("/srv/model.gguf is gone")).at("message"),
      "<path> is gone");
}

TEST(HttpErrorsTest, EachCodeHasAStatus) {
  EXPECT_EQ(HttpStatusOf(absl::PermissionDeniedError("")), 403);
  EXPECT_EQ(HttpStatusOf(absl::NotFoundError("")), 404);
  EXPECT_EQ(HttpStatusOf(absl::UnimplementedError("")), 400);
  EXPECT_EQ(HttpStatusOf(absl::UnavailableError("")), 503);
  EXPECT_EQ(HttpStatusOf(absl::DeadlineExceededError("")), 504);
  EXPECT_EQ(HttpStatusOf(absl::InternalError("")), 500);
}

}  // namespace
}  // namespace plimsoll::services
