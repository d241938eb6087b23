// What Prometheus reads of a planner.
#include "services/metrics/planner_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "services/metrics/planner_metric_list.h"
#include "services/metrics/span_metric.h"
#include "services/wire/to_proto.h"
#include "tests/services/metrics/scrape_text.h"

namespace plimsoll::services {
namespace {

using ::testing::Optional;

class PlannerMetricsTest : public ::testing::Test {
 protected:
  static constexpr int64_t kTotal = 1 << 30;

  PlannerMetricsTest() {
    planner::DeviceProfile profile = planner::CommittedCpuProfile();
    profile.id = "cpu";
    profile.total_bytes = kTotal;
    profile.free_bytes = kTotal - 4'096;
    v1::RegisterDeviceRequest request;
    *request.mutable_profile() = ToProto(profile);
    v1::RegisterDeviceResponse response;
    EXPECT_TRUE(ledger_.RegisterDevice(request, response).ok());
  }

  absl::StatusOr<v1::Lease> Reserve(const std::string& device, int64_t bytes) {
    v1::ReserveRequest request;
    request.set_request_id(std::to_string(++n_requests_));
    request.set_device_id(device);
    request.set_holder("worker");
    request.set_purpose("secret");
    request.set_bytes(ToUint64(bytes));
    v1::ReserveResponse response;
    const absl::Status status = ledger_.Reserve(request, response);
    if (!status.ok()) return status;
    return response.lease();
  }
  void Confirm(const v1::Lease& lease, int64_t measured) {
    v1::ConfirmRequest request;
    request.set_lease_id(lease.id());
    request.set_epoch(lease.epoch());
    request.set_measured_bytes(ToUint64(measured));
    v1::ConfirmResponse response;
    ASSERT_TRUE(ledger_.Confirm(request, response).ok());
  }
  std::string Text() { return metrics_.Text(ledger_, true); }
  std::optional<double> Value(const std::string& series) {
    return ValueOf(Text(), series);
  }

  int n_requests_ = 0;
  absl::Time now_ = absl::UnixEpoch();
  PlannerMetrics metrics_;
  Ledger ledger_{
      LedgerOptions{.clock = [this] { return now_; }, .observer = &metrics_}};
};

TEST_F(PlannerMetricsTest, SumsTheLeasesOfADevice) {
  const auto first = Reserve("cpu", 1'000);
  const auto second = Reserve("cpu", 3'000);
  ASSERT_TRUE(first.ok() && second.ok());
  Confirm(*first, 900);
  const std::string reserved = R"({device="cpu",state="reserved"})";
  const std::string confirmed = R"({device="cpu",state="confirmed"})";
  EXPECT_THAT(Value("plimsoll_leases" + reserved), Optional(1.0));
  EXPECT_THAT(Value("plimsoll_lease_bytes" + reserved), Optional(3'000.0));
  EXPECT_THAT(Value("plimsoll_lease_bytes" + confirmed), Optional(1'000.0));
  EXPECT_THAT(Value(R"(plimsoll_lease_measured_bytes{device="cpu"})"),
              Optional(900.0));
  EXPECT_THAT(Value(R"(plimsoll_lease_error_ratio{device="cpu"})"),
              Optional(::testing::DoubleNear(-0.1, 1e-9)));
  EXPECT_THAT(Value(R"(plimsoll_device_capacity_bytes{device="cpu"})"),
              Optional(static_cast<double>(kTotal)));
  EXPECT_THAT(Value(R"(plimsoll_device_free_bytes{device="cpu"})"),
              Optional(static_cast<double>(kTotal - 4'096)));
  EXPECT_THAT(Value(R"(plimsoll_device_healthy{device="cpu"})"), Optional(1.0));
}

TEST_F(PlannerMetricsTest, LeasesThatAreNotRenewedAreSuspect) {
  const auto lease = Reserve("cpu", 1'000);
  ASSERT_TRUE(lease.ok());
  Confirm(*lease, 1'000);
  now_ += absl::Minutes(1);
  EXPECT_THAT(Value(R"(plimsoll_leases{device="cpu",state="suspect"})"),
              Optional(1.0));
  EXPECT_THAT(Value(R"(plimsoll_leases{device="cpu",state="confirmed"})"),
              Optional(0.0));
}

TEST_F(PlannerMetricsTest, CountsGrantsAndRefusalsByReason) {
  EXPECT_TRUE(Reserve("cpu", 1'000).ok());
  EXPECT_FALSE(Reserve("cpu", 2 * kTotal).ok());
  EXPECT_FALSE(Reserve("none", 1'000).ok());
  EXPECT_THAT(Value(R"(plimsoll_reserves_total{decision="granted",reason=""})"),
              Optional(1.0));
  EXPECT_THAT(Value("plimsoll_reserves_total"
                    R"({decision="refused",reason="memory_budget_exceeded"})"),
              Optional(1.0));
  EXPECT_THAT(Value("plimsoll_reserves_total"
                    R"({decision="refused",reason="device_not_found"})"),
              Optional(1.0));
}

TEST_F(PlannerMetricsTest, ErrorsWithoutAKnownReasonCountToo) {
  metrics_.OnReserve(absl::UnknownError("what"));
  double n = 0;
  const std::string text = Text();
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::StrContains(line, "decision=\"refused\"")) continue;
    n += *ValueOf(line, line.substr(0, line.rfind(' ')));
  }
  EXPECT_EQ(n, 1.0);
}

TEST_F(PlannerMetricsTest, CountsForcedReleases) {
  const auto lease = Reserve("cpu", 1'000);
  ASSERT_TRUE(lease.ok());
  EXPECT_THAT(Value("plimsoll_forced_releases_total"), Optional(0.0));
  v1::ForceReleaseRequest request;
  request.set_lease_id(lease->id());
  request.set_reason("a test");
  v1::ForceReleaseResponse response;
  EXPECT_FALSE(ledger_.ForceRelease(request, response, "me").ok());
  EXPECT_THAT(Value("plimsoll_forced_releases_total"), Optional(0.0));
  now_ += absl::Minutes(1);
  EXPECT_TRUE(ledger_.ForceRelease(request, response, "me").ok());
  EXPECT_THAT(Value("plimsoll_forced_releases_total"), Optional(1.0));
}

TEST_F(PlannerMetricsTest, ADeviceWithoutLeasesHasZeros) {
  EXPECT_THAT(Value(R"(plimsoll_leases{device="cpu",state="suspect"})"),
              Optional(0.0));
  EXPECT_EQ(Value(R"(plimsoll_lease_error_ratio{device="cpu"})"), std::nullopt);
  EXPECT_EQ(Value("plimsoll_planner_journal_good"), std::nullopt);
}

// What Prometheus is told is what the list says: names, types and labels.
TEST_F(PlannerMetricsTest, AScrapeHasTheMetricsOfTheList) {
  const auto lease = Reserve("cpu", 1'000);
  ASSERT_TRUE(lease.ok());
  Confirm(*lease, 1'000);
  const std::string text = Text();
  const auto types = TypesIn(text);
  EXPECT_EQ(types.size(), PlannerMetricList().size());
  for (const Metric* metric : PlannerMetricList()) {
    ASSERT_EQ(types.count(metric->name), 1u) << metric->name;
    if (metric == &kSpans) continue;  // it has no values without a tracer
    std::set<std::string> labels;
    if (*metric->labels != '\0') labels = absl::StrSplit(metric->labels, ", ");
    EXPECT_EQ(LabelsIn(text, metric->name), labels) << metric->name;
  }
  EXPECT_EQ(text.find("secret"), std::string::npos);
}

TEST_F(PlannerMetricsTest, ItIsReadyUntilItDrains) {
  EXPECT_THAT(Value("plimsoll_planner_ready"), Optional(1.0));
  EXPECT_THAT(ValueOf(metrics_.Text(ledger_, false), "plimsoll_planner_ready"),
              Optional(0.0));
}

}  // namespace
}  // namespace plimsoll::services
