// The placement queries: where models go in a fleet, which devices are large
// enough, and how much a device allows at most.
#ifndef PLIMSOLL_SERVICES_PLANNER_PLACEMENT_QUERIES_H_
#define PLIMSOLL_SERVICES_PLANNER_PLACEMENT_QUERIES_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/stop_check.h"
#include "planner/fleet/device_catalogue.h"
#include "planner/model/model_shape.h"
#include "plimsoll/v1/planner.pb.h"

namespace plimsoll::services {

// The functions with which queries read models and devices.
struct PlacementSources {
  std::function<absl::StatusOr<std::shared_ptr<const planner::ModelShape>>(
      const v1::ModelSource&)>
      shape_of;
  // Fills in the registered devices.
  std::function<absl::Status(v1::ListDevicesResponse&)> list_devices;
};

// Thread-safe if its sources are. Every method answers one call of
// PlannerService; planner.proto says what each does, and errors carry their
// ErrorDetails. Long work returns the error of `stop` as soon as there is one.
class PlacementQueries {
 public:
  // The context of a model that is placed without n_ctx, unless its trained
  // context is shorter.
  static constexpr int64_t kDefaultContext = 4'096;
  static constexpr size_t kMaxNameBytes = 256;
  // One PlaceModels may take this many plans: its models times the kinds of its
  // devices.
  static constexpr int64_t kMaxPlans = 16'384;
  // The layers of all plans of one PlaceModels together, with those of its
  // shapes, are at most this many.
  static constexpr int64_t kMaxLayerPlans = int64_t{1} << 20;
  // The cost per layer of making a source's shape, in layers of plans
  // (measured: 12 us and 0.3 us). Models with an equal source share a shape; a
  // configured model has its own.
  static constexpr int64_t kShapeLayerPlans = 32;

  PlacementQueries(PlacementSources sources, planner::DeviceCatalogue catalogue)
      : sources_(std::move(sources)), catalogue_(std::move(catalogue)) {}

  absl::Status PlaceModels(const v1::PlaceModelsRequest& request,
                           v1::PlaceModelsResponse& response,
                           StopCheck stop = NeverStop) const;
  absl::Status ListCatalogue(v1::ListCatalogueResponse& response) const;
  absl::Status FindDevices(const v1::FindDevicesRequest& request,
                           v1::FindDevicesResponse& response,
                           StopCheck stop = NeverStop) const;
  absl::Status GetBounds(const v1::GetBoundsRequest& request,
                         v1::GetBoundsResponse& response) const;

 private:
  using Shape = std::shared_ptr<const planner::ModelShape>;

  // Returns the shapes of the request's models, in their order.
  absl::StatusOr<std::vector<Shape>> ShapesOf(
      const v1::PlaceModelsRequest& request, int64_t n_classes,
      StopCheck stop) const;

  const PlacementSources sources_;
  const planner::DeviceCatalogue catalogue_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_PLANNER_PLACEMENT_QUERIES_H_
