#include "services/planner/request_shapes.h"

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace plimsoll::services {
namespace {

TEST(RequestShapesTest, EqualSourcesAreMadeOnceAndTheirLayersCount) {
  int n_made = 0;
  RequestShapes shapes(
      [&](const v1::ModelSource&) -> absl::StatusOr<RequestShapes::Shape> {
        ++n_made;
        planner::ModelShape shape = {};
        shape.n_layers = 5;
        return std::make_shared<const planner::ModelShape>(std::move(shape));
      });
  v1::ModelSource given;
  given.set_config_json("a");
  const auto first = shapes.Get(given);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(*first, *shapes.Get(given));
  EXPECT_EQ(n_made, 1);
  EXPECT_EQ(shapes.n_made_layers(), 5);
  v1::ModelSource configured;
  configured.set_model("m");
  ASSERT_TRUE(shapes.Get(configured).ok());
  EXPECT_EQ(shapes.n_made_layers(), 5) << "that shape was there already";
  given.set_config_json("b");
  ASSERT_TRUE(shapes.Get(given).ok());
  EXPECT_EQ(shapes.n_made_layers(), 10);
}

TEST(RequestShapesTest, AnErrorIsReturnedAgain) {
  int n_made = 0;
  RequestShapes shapes(
      [&](const v1::ModelSource&) -> absl::StatusOr<RequestShapes::Shape> {
        ++n_made;
        return absl::NotFoundError("bad");
      });
  const v1::ModelSource source;
  EXPECT_EQ(shapes.Get(source).status(), absl::NotFoundError("bad"));
  EXPECT_EQ(shapes.Get(source).status(), absl::NotFoundError("bad"));
  EXPECT_EQ(n_made, 1);
  EXPECT_EQ(shapes.n_made_layers(), 0);
}

}  // namespace
}  // namespace plimsoll::services
