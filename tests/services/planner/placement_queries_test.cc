#include "services/planner/placement_queries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "planner/fleet/placement.h"
#include "planner/layout/memory_plan.h"
#include "services/planner/planner.h"
#include "services/wire/errors.h"
#include "services/wire/to_proto.h"
#include "tests/planner/tiny_models.h"
#include "tests/services/planner/deep_source.h"

namespace plimsoll::services {
namespace {

using ::testing::HasSubstr;
using Code = absl::StatusCode;

constexpr char kCatalogue[] =
    "name,title,kind,memory_bytes,memory_basis,bandwidth_bytes_per_s,year,"
    "source\n"
    "big,The Big One,gpu,8589934592,driver,100000000000,2020,a page\n"
    "speck,The Speck,board,1024,nominal,1000,2021,another page\n";

class PlacementQueriesTest : public ::testing::Test {
 protected:
  PlacementQueriesTest()
      : shape_(*planner::ShapeFromGguf(
            *planner::Parse(planner::BuilderOf(planner::TinyModel()).Build()))),
        ledger_([] { return absl::UnixEpoch(); }),
        planner_(
            {{"tiny", std::make_shared<const planner::ModelShape>(shape_)}},
            ledger_),
        queries_({[this](const v1::ModelSource& source) {
                    ++n_shapes_;
                    return planner_.ShapeOf(source);
                  },
                  [this](v1::ListDevicesResponse& devices) {
                    return ledger_.ListDevices(devices);
                  }},
                 *planner::DeviceCatalogue::Parse(kCatalogue)) {}

  // Bytes of one replica with its 256 tokens.
  int64_t TinyBytes() const {
    return TinyBytesOn(planner::CommittedCpuProfile());
  }
  int64_t TinyBytesOn(const planner::DeviceProfile& profile) const {
    planner::PlanOptions options;
    options.n_ctx = 256;
    return planner::Layout(shape_, options, profile, 0)->total_bytes;
  }

  void Register(const std::string& id, int64_t total_bytes) {
    planner::DeviceProfile profile = planner::CommittedCpuProfile();
    profile.id = id;
    profile.total_bytes = total_bytes;
    profile.free_bytes = total_bytes;
    v1::RegisterDeviceRequest request;
    *request.mutable_profile() = ToProto(profile);
    v1::RegisterDeviceResponse response;
    ASSERT_TRUE(ledger_.RegisterDevice(request, response).ok());
  }

  static v1::ModelToPlace& AddTiny(const std::string& name, uint32_t n_replicas,
                                   v1::PlaceModelsRequest& request) {
    v1::ModelToPlace& model = *request.add_models();
    model.set_name(name);
    model.mutable_source()->set_model("tiny");
    model.set_n_replicas(n_replicas);
    return model;
  }

  absl::Status Place(const v1::PlaceModelsRequest& request) {
    response_.Clear();
    return queries_.PlaceModels(request, response_);
  }

  planner::ModelShape shape_;
  Ledger ledger_;
  Planner planner_;
  int n_shapes_ = 0;  // shapes of models that were looked at
  PlacementQueries queries_;
  v1::PlaceModelsResponse response_;
};

TEST_F(PlacementQueriesTest, PlacesOnRegisteredDevicesWithinWhatTheyHave) {
  Register("cpu", 3 * TinyBytes());
  v1::PlaceModelsRequest request;
  AddTiny("a", 5, request);
  ASSERT_TRUE(Place(request).ok());
  ASSERT_EQ(response_.devices_size(), 1);
  const v1::FilledDevice& device = response_.devices(0);
  EXPECT_EQ(device.id(), "cpu");
  EXPECT_EQ(device.used_bytes(), ToUint64(3 * TinyBytes()));
  ASSERT_EQ(device.models_size(), 1);
  EXPECT_EQ(device.models(0).name(), "a");
  EXPECT_EQ(device.models(0).n_replicas(), 3u);
  EXPECT_EQ(device.models(0).bytes(), ToUint64(TinyBytes()));
  EXPECT_EQ(response_.n_wanted(), 5u);
  EXPECT_EQ(response_.n_placed(), 3u);
  EXPECT_EQ(response_.max_placed_bound(), 3u);
  EXPECT_TRUE(response_.is_optimal());
  ASSERT_EQ(response_.unplaced_size(), 1);
  const v1::UnplacedModel& unplaced = response_.unplaced(0);
  EXPECT_EQ(unplaced.n_replicas(), 2u);
  EXPECT_EQ(unplaced.n_full(), 1u);
  EXPECT_EQ(unplaced.closest_device_id(), "cpu");
  EXPECT_EQ(unplaced.missing_bytes(), ToUint64(TinyBytes()));
  EXPECT_THAT(unplaced.reason(), HasSubstr("cpu comes closest"));
}

TEST_F(PlacementQueriesTest, LeasesLeaveLessToPlaceOn) {
  Register("cpu", 3 * TinyBytes());
  v1::ReserveRequest reserve;
  reserve.set_request_id("r");
  reserve.set_device_id("cpu");
  reserve.set_holder("h");
  reserve.set_bytes(ToUint64(TinyBytes() + 1));
  v1::ReserveResponse reserved;
  ASSERT_TRUE(ledger_.Reserve(reserve, reserved).ok());
  v1::PlaceModelsRequest request;
  AddTiny("a", 3, request);
  ASSERT_TRUE(Place(request).ok());
  EXPECT_EQ(response_.n_placed(), 1u);
}

TEST_F(PlacementQueriesTest, MakesPlansUpToTheirLimitAndNotPastIt) {
  v1::PlaceModelsRequest request;
  for (int m = 0; m < planner::PlacementProblem::kMaxModels; ++m) {
    AddTiny(absl::StrCat("m", m), 1, request);
  }
  const auto add_kind = [&request](int kind) {
    planner::DeviceProfile profile = planner::CommittedCpuProfile();
    profile.runtime_bytes = kind;
    v1::DeviceToFill& device = *request.add_devices();
    device.set_id(absl::StrCat("d", kind));
    *device.mutable_profile() = ToProto(profile);
    device.set_available_bytes(1);
  };
  for (int kind = 0; kind < 16; ++kind) add_kind(kind);
  EXPECT_TRUE(Place(request).ok());
  add_kind(16);
  const absl::Status refused = Place(request);
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("need 17408 plans, at most 16384"));
}

TEST_F(PlacementQueriesTest, PlansLayersUpToTheirLimitAndNotPastIt) {
  constexpr int64_t kLayers = planner::ModelShape::kMaxLayers;
  constexpr int64_t kKinds = 2;
  constexpr int64_t kModels = (PlacementQueries::kMaxLayerPlans / kLayers -
                               PlacementQueries::kShapeLayerPlans) /
                              kKinds;
  v1::PlaceModelsRequest request;
  const auto add_model = [&] {
    v1::ModelToPlace& model = *request.add_models();
    model.set_name(absl::StrCat("m", request.models_size()));
    *model.mutable_source() = DeepSource(kLayers);
  };
  for (int64_t m = 0; m < kModels; ++m) add_model();
  for (int64_t kind = 0; kind < kKinds; ++kind) {
    v1::DeviceToFill& device = *request.add_devices();
    device.set_id(absl::StrCat("d", kind));
    *device.mutable_profile() = ToProto(planner::CommittedCpuProfile());
    device.mutable_profile()->set_runtime_bytes(ToUint64(kind));
    device.set_available_bytes(1);
  }
  absl::Status status = Place(request);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(n_shapes_, 1) << "models of one source have one shape";
  add_model();
  status = Place(request);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("1009 of the models on 2 kinds of devices need plans "
                        "of 1049600 layers, shapes included, at most 1048576"));
}

// Shapes cost more than plans, so they are not made for what is refused.
TEST_F(PlacementQueriesTest, DifferentSourcesAreMadeUpToTheLimitOnly) {
  Register("cpu", TinyBytes());
  v1::PlaceModelsRequest request;
  for (uint32_t m = 0; m < 1'024; ++m) {
    v1::ModelToPlace& model = *request.add_models();
    model.set_name(absl::StrCat("m", m));
    *model.mutable_source() = DeepSource(500);
    model.mutable_source()->mutable_hyperparameters()->set_vocab_size(1 + m);
  }
  EXPECT_EQ(Place(request).code(), Code::kInvalidArgument);
  EXPECT_LT(n_shapes_, 70);
}

TEST_F(PlacementQueriesTest, AStopIsAskedForWhileShapesAreMade) {
  Register("cpu", TinyBytes());
  v1::PlaceModelsRequest request;
  AddTiny("a", 1, request);
  AddTiny("b", 1, request);
  EXPECT_EQ(queries_
                .PlaceModels(request, response_,
                             [] { return absl::CancelledError("enough"); })
                .code(),
            Code::kCancelled);
  EXPECT_EQ(n_shapes_, 0);
}

TEST_F(PlacementQueriesTest, WhatIsRefusedIsRefusedBeforeAnyPlanIsMade) {
  Register("cpu", TinyBytes());
  constexpr auto kMax =
      static_cast<uint32_t>(planner::PlacementProblem::kMaxReplicas);
  v1::PlaceModelsRequest too_many;
  AddTiny("a", kMax, too_many);
  EXPECT_TRUE(Place(too_many).ok());
  EXPECT_EQ(std::exchange(n_shapes_, 0), 1);
  AddTiny("b", 1, too_many);
  EXPECT_EQ(Place(too_many).code(), Code::kInvalidArgument);

  v1::PlaceModelsRequest twice;
  AddTiny("a", 1, twice);
  AddTiny("a", 1, twice);
  EXPECT_EQ(Place(twice).code(), Code::kInvalidArgument);
  EXPECT_EQ(n_shapes_, 0);
}

TEST_F(PlacementQueriesTest, MixesRegisteredNamedAndImaginedDevices) {
  Register("cpu", TinyBytes());
  v1::PlaceModelsRequest request;
  AddTiny("a", 3, request);
  request.set_max_replicas_per_device(1);
  request.add_devices()->set_device_id("cpu");
  v1::DeviceToFill& named = *request.add_devices();
  named.set_id("named");
  named.set_catalogue_name("BIG");
  v1::DeviceToFill& imagined = *request.add_devices();
  imagined.set_id("imagined");
  *imagined.mutable_profile() = ToProto(planner::CommittedCpuProfile());
  imagined.set_available_bytes(ToUint64(TinyBytes()));
  ASSERT_TRUE(Place(request).ok());
  ASSERT_EQ(response_.devices_size(), 3);
  for (const v1::FilledDevice& device : response_.devices()) {
    EXPECT_EQ(device.models_size(), 1) << device.id();
  }
  EXPECT_EQ(response_.devices(1).name(), "The Big One");
  EXPECT_EQ(response_.devices(1).available_bytes(), 8'589'934'592u);
}

TEST_F(PlacementQueriesTest, DevicesOfTheCatalogueArePlannedByTheirKind) {
  for (const auto& [name, profile] :
       {std::pair{"big", planner::CommittedGpuProfile()},
        std::pair{"speck", planner::CommittedCpuProfile()}}) {
    v1::PlaceModelsRequest request;
    AddTiny("a", 1, request);
    v1::DeviceToFill& target = *request.add_devices();
    target.set_id(name);
    target.set_catalogue_name(name);
    target.set_available_bytes(uint64_t{1} << 30);
    ASSERT_TRUE(Place(request).ok());
    ASSERT_EQ(response_.devices_size(), 1);
    EXPECT_EQ(response_.devices(0).used_bytes(),
              ToUint64(TinyBytesOn(profile)));
  }
}

TEST_F(PlacementQueriesTest, ADeviceWithoutTheElementTypeCannotRunTheModel) {
  v1::PlaceModelsRequest request;
  AddTiny("a", 1, request);
  v1::DeviceToFill& device = *request.add_devices();
  device.set_id("floats");
  *device.mutable_profile() = ToProto(planner::CommittedCpuProfile());
  device.mutable_profile()->clear_storage();
  v1::StorageRule& rule = *device.mutable_profile()->add_storage();
  rule.set_type(v1::ELEMENT_TYPE_F32);
  rule.set_row_multiple(1);
  device.set_available_bytes(1 << 30);
  ASSERT_TRUE(Place(request).ok());
  EXPECT_EQ(response_.unplaced(0).n_cannot_run(), 1u);
  EXPECT_FALSE(response_.unplaced(0).has_missing_bytes());
}

TEST_F(PlacementQueriesTest, AHigherPriorityGoesFirst) {
  Register("cpu", TinyBytes());
  v1::PlaceModelsRequest request;
  AddTiny("a", 1, request);
  AddTiny("b", 1, request).set_priority(1);
  ASSERT_TRUE(Place(request).ok());
  EXPECT_EQ(response_.devices(0).models(0).name(), "b");
}

TEST_F(PlacementQueriesTest, PlaceModelsRefusesWhatMakesNoSense) {
  Register("cpu", TinyBytes());
  const auto error = [&](auto change) {
    v1::PlaceModelsRequest request;
    AddTiny("a", 1, request);
    change(request);
    return Place(request);
  };
  const auto expect = [&](auto change, Code code, const char* what) {
    const absl::Status status = error(change);
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
  };
  expect([](auto& r) { r.clear_models(); }, Code::kInvalidArgument, "models");
  expect([](auto& r) { r.mutable_models(0)->set_name(""); },
         Code::kInvalidArgument, "models.name");
  expect([](auto& r) { r.mutable_models(0)->set_name(std::string(257, 'n')); },
         Code::kInvalidArgument, "1 to 256 bytes");
  EXPECT_TRUE(error([](auto& r) {
                r.mutable_models(0)->set_name(std::string(256, 'n'));
              }).ok());
  expect([](auto& r) { r.mutable_models(0)->set_n_replicas(0); },
         Code::kInvalidArgument, "replicas of model a is 0");
  expect([](auto& r) { r.mutable_models(0)->clear_source(); },
         Code::kInvalidArgument, "source");
  expect([](auto& r) { r.mutable_models(0)->mutable_source()->set_model("x"); },
         Code::kNotFound, "no model");
  expect(
      [](auto& r) { r.mutable_models(0)->mutable_options()->set_n_slots(0); },
      Code::kInvalidArgument, "slots");
  expect([](auto& r) { r.add_devices(); }, Code::kInvalidArgument,
         "a device_id, a catalogue_name or a profile");
  expect([](auto& r) { r.add_devices()->set_device_id("gpu"); },
         Code::kNotFound, "no such device");
  expect([](auto& r) { r.add_devices()->set_catalogue_name("bi"); },
         Code::kNotFound, "did you mean big");
  expect([](auto& r) { r.add_devices()->set_catalogue_name("big"); },
         Code::kInvalidArgument, "devices.id");
  expect(
      [](auto& r) {
        r.add_devices()->set_device_id("cpu");
        r.mutable_devices(0)->set_available_bytes(~uint64_t{0});
      },
      Code::kInvalidArgument, "63 bits");
  expect([](auto& r) { r.set_max_replicas_per_device(0); },
         Code::kInvalidArgument, "max_replicas_per_device");
  expect(
      [](auto& r) {
        for (int64_t i = 0; i <= planner::PlacementProblem::kMaxModels; ++i) {
          r.add_models();
        }
      },
      Code::kInvalidArgument, "models: more than 1024");
  expect(
      [](auto& r) {
        for (int64_t i = 0; i <= planner::PlacementProblem::kMaxDevices; ++i) {
          r.add_devices();
        }
      },
      Code::kInvalidArgument, "devices: more than 4096");
}

TEST_F(PlacementQueriesTest, AnUnknownDeviceIsToldApartByItsReason) {
  v1::PlaceModelsRequest request;
  AddTiny("a", 1, request);
  request.add_devices()->set_device_id("gpu");
  EXPECT_EQ(DetailsOf(Place(request)).reason,
            v1::ERROR_REASON_DEVICE_NOT_FOUND);
}

TEST_F(PlacementQueriesTest, KindsOfDevicesHaveALimit) {
  const auto place = [&](int64_t n_kinds) {
    v1::PlaceModelsRequest request;
    AddTiny("a", 1, request);
    for (int64_t i = 0; i < n_kinds; ++i) {
      v1::DeviceToFill& device = *request.add_devices();
      device.set_id(absl::StrCat("d", i));
      *device.mutable_profile() = ToProto(planner::CommittedCpuProfile());
      device.mutable_profile()->set_runtime_bytes(ToUint64(i));
    }
    return Place(request);
  };
  EXPECT_TRUE(place(planner::PlacementProblem::kMaxClasses).ok());
  EXPECT_THAT(
      std::string(place(planner::PlacementProblem::kMaxClasses + 1).message()),
      HasSubstr("more than 64 different kinds"));
}

TEST_F(PlacementQueriesTest, ListsTheCatalogueByMemory) {
  v1::ListCatalogueResponse response;
  ASSERT_TRUE(queries_.ListCatalogue(response).ok());
  ASSERT_EQ(response.devices_size(), 2);
  const v1::CatalogueDevice& device = response.devices(0);
  EXPECT_EQ(device.name(), "speck");
  EXPECT_EQ(device.title(), "The Speck");
  EXPECT_EQ(device.kind(), "board");
  EXPECT_EQ(device.memory_bytes(), 1'024u);
  EXPECT_EQ(device.memory_basis(), v1::MEMORY_BASIS_NOMINAL);
  EXPECT_EQ(device.bandwidth_bytes_per_s(), 1'000u);
  EXPECT_EQ(device.year(), 2021u);
  EXPECT_EQ(device.source(), "another page");
  EXPECT_EQ(response.devices(1).memory_basis(), v1::MEMORY_BASIS_DRIVER);
}

TEST_F(PlacementQueriesTest, FindsTheDevicesThatAreLargeEnough) {
  v1::FindDevicesRequest request;
  request.mutable_source()->set_model("tiny");
  request.mutable_options()->set_n_slots(2);
  v1::FindDevicesResponse response;
  ASSERT_TRUE(queries_.FindDevices(request, response).ok());
  ASSERT_EQ(response.devices_size(), 1);
  EXPECT_EQ(response.devices(0).device().name(), "big");
  const v1::DeviceBounds& bounds = response.devices(0).bounds();
  EXPECT_EQ(bounds.n_ctx(), 256u);
  EXPECT_EQ(bounds.n_ctx_limit(), v1::CONTEXT_LIMIT_TRAINED_CONTEXT);
  EXPECT_GT(bounds.total_bytes(), 0u);
  EXPECT_EQ(bounds.max_sessions(), 4'096u);
  EXPECT_GT(bounds.tokens_per_gib(), 0u);
  const v1::DecodeBound& decode = bounds.decode();
  EXPECT_EQ(decode.basis(), v1::BASIS_ESTIMATED);
  EXPECT_DOUBLE_EQ(
      decode.tokens_per_s(),
      2 * 1e11 /
          static_cast<double>(decode.weight_bytes() + 2 * decode.kv_bytes()));
  request.mutable_source()->set_model("x");
  EXPECT_EQ(queries_.FindDevices(request, response).code(), Code::kNotFound);
}

TEST_F(PlacementQueriesTest, BoundsOfADeviceWithAndWithoutABandwidth) {
  Register("cpu", 3 * TinyBytes());
  v1::GetBoundsRequest request;
  request.mutable_source()->set_model("tiny");
  request.set_device_id("cpu");
  v1::GetBoundsResponse response;
  ASSERT_TRUE(queries_.GetBounds(request, response).ok());
  EXPECT_FALSE(response.bounds().has_decode());
  EXPECT_GE(response.bounds().max_sessions(), 3u);
  request.set_bandwidth_bytes_per_s(1'000);
  ASSERT_TRUE(queries_.GetBounds(request, response).ok());
  EXPECT_TRUE(response.bounds().has_decode());
  request.clear_bandwidth_bytes_per_s();
  request.set_catalogue_name("big");
  ASSERT_TRUE(queries_.GetBounds(request, response).ok());
  EXPECT_TRUE(response.bounds().has_decode());
}

TEST_F(PlacementQueriesTest, BoundsWithoutRoomAreRefusedWithTheBytes) {
  v1::GetBoundsRequest request;
  request.mutable_source()->set_model("tiny");
  request.mutable_options()->set_n_ctx(256);
  request.set_catalogue_name("big");
  request.set_budget_bytes(1'000);
  v1::GetBoundsResponse response;
  const absl::Status status = queries_.GetBounds(request, response);
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  const ErrorDetails details = DetailsOf(status);
  EXPECT_EQ(details.reason, v1::ERROR_REASON_MEMORY_BUDGET_EXCEEDED);
  EXPECT_EQ(details.metadata.at("missing_bytes"),
            absl::StrCat(TinyBytesOn(planner::CommittedGpuProfile()) - 1'000));
  request.set_budget_bytes(~uint64_t{0});
  EXPECT_EQ(queries_.GetBounds(request, response).code(),
            Code::kInvalidArgument);
}

}  // namespace
}  // namespace plimsoll::services
