// Makes the shapes of one request's models.
#ifndef PLIMSOLL_SERVICES_PLANNER_REQUEST_SHAPES_H_
#define PLIMSOLL_SERVICES_PLANNER_REQUEST_SHAPES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "planner/model/model_shape.h"
#include "plimsoll/v1/planner.pb.h"

namespace plimsoll::services {

// Makes one shape for all models with an equal source, because a shape costs
// far more than a plan. Not thread-safe.
class RequestShapes {
 public:
  using Shape = std::shared_ptr<const planner::ModelShape>;
  using Make = std::function<absl::StatusOr<Shape>(const v1::ModelSource&)>;

  explicit RequestShapes(Make make) : make_(std::move(make)) {}

  // Errors: those of `make`, returned again for each equal source.
  absl::StatusOr<Shape> Get(const v1::ModelSource& source) {
    const auto [found, is_new] =
        shapes_.try_emplace(source.SerializeAsString(), nullptr);
    if (!is_new) return found->second;
    found->second = make_(source);
    // The shape of a configured model exists already.
    if (found->second.ok() && !source.has_model()) {
      n_made_layers_ += (*found->second)->n_layers;
    }
    return found->second;
  }

  // Layers of all shapes that were made.
  int64_t n_made_layers() const { return n_made_layers_; }

 private:
  const Make make_;
  std::map<std::string, absl::StatusOr<Shape>> shapes_;
  int64_t n_made_layers_ = 0;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_PLANNER_REQUEST_SHAPES_H_
