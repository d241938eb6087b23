// What Prometheus reads of a worker with tiny random models.
#include "services/metrics/worker_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "services/generation/quota_book.h"
#include "services/generation/usage_file.h"
#include "services/metrics/span_metric.h"
#include "services/metrics/worker_metric_list.h"
#include "services/worker/models/observer_list.h"
#include "tests/services/metrics/scrape_text.h"
#include "tests/services/temporary_folder.h"
#include "tests/services/worker/worker_fixture.h"

namespace plimsoll::services {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Optional;

// A second observer, which counts what it hears.
class Ears final : public WorkerObserver {
 public:
  void OnSubmit(const std::string&, const absl::Status&) override {
    ++n_submits;
  }
  void OnStep(const std::string&, const worker::StepRecord&) override {
    ++n_steps;
  }
  void OnLoadEnd(const LoadRecord&) override { ++n_loads; }

  std::atomic<int> n_submits = 0;
  std::atomic<int> n_steps = 0;
  std::atomic<int> n_loads = 0;
};

class WorkerMetricsTest : public ::testing::Test {
 protected:
  void Generate(uint32_t n) {
    grpc::ClientContext context;
    context.AddMetadata("x-tenant", "secret-tenant");
    context.AddMetadata("x-request-id", "secret-request");
    v1::GenerateResponse response;
    const grpc::Status status = worker_.generation->Generate(
        &context, GreedyRequest<v1::GenerateRequest>("hello", n), &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    n_prompt_ = response.prompt_ids_size();
  }
  std::string Text() { return metrics_->Text(*worker_.registry, true); }
  std::optional<double> Value(const std::string& series) {
    return ValueOf(Text(), series);
  }
  // The engine tells of a request after its reply, and of its admission by
  // another thread.
  void Await(const std::string& series, double value) {
    while (Value(series) != value) std::this_thread::yield();
  }

  TestPlanner planner_;
  Ears ears_;
  std::optional<WorkerMetrics> metrics_;  // these outlive the worker
  std::optional<ObserverList> both_;
  TestWorker worker_{
      {.planner = &planner_, .change = [this](WorkerOptions& options) {
         metrics_.emplace(options);
         both_.emplace(std::vector<WorkerObserver*>{&*metrics_, &ears_});
         options.observer = &*both_;
       }}};
  int n_prompt_ = 0;
};

TEST_F(WorkerMetricsTest, AScrapeAfterARequestHasItsNumbers) {
  ASSERT_TRUE(worker_.LoadWithContext("a", 256).ok());
  Generate(5);
  Await(R"(plimsoll_requests_total{model="a",result="max_tokens"})", 1.0);
  Await(R"(plimsoll_admission_total{model="a",decision="admitted",reason=""})",
        1.0);
  const std::string text = Text();
  const auto value = [&text](const std::string& series) {
    return ValueOf(text, series);
  };
  EXPECT_THAT(value("plimsoll_ready"), Optional(1.0));
  EXPECT_THAT(value(R"(plimsoll_model_state{model="a",state="ready"})"),
              Optional(1.0));
  EXPECT_THAT(value(R"(plimsoll_model_state{model="b",state="unloaded"})"),
              Optional(1.0));
  EXPECT_THAT(value(R"(plimsoll_model_state{model="b",state="ready"})"),
              Optional(0.0));
  EXPECT_THAT(value(R"(plimsoll_slots{model="a"})"), Optional(2.0));
  EXPECT_THAT(value(R"(plimsoll_requests_running{model="a"})"), Optional(0.0));
  EXPECT_THAT(value(R"(vllm:num_requests_waiting{model_name="a"})"),
              Optional(0.0));
  EXPECT_THAT(value(R"(plimsoll_requests_total{model="a",result="cancelled"})"),
              Optional(0.0));
  EXPECT_THAT(value(R"(plimsoll_generation_tokens_total{model="a"})"),
              Optional(5.0));
  EXPECT_THAT(
      value(R"(plimsoll_prompt_tokens_total{model="a",cached="false"})"),
      Optional(static_cast<double>(n_prompt_)));
  EXPECT_THAT(value(R"(plimsoll_request_generation_tokens_sum{model="a"})"),
              Optional(5.0));
  for (const char* name :
       {"plimsoll_time_to_first_token_seconds",
        "plimsoll_time_per_output_token_seconds", "plimsoll_queue_seconds",
        "plimsoll_request_seconds"}) {
    EXPECT_THAT(value(absl::StrCat(name, R"(_count{model="a"})")),
                Optional(1.0))
        << name;
  }
  // The fifth token's row is never computed.
  EXPECT_THAT(value(R"(plimsoll_inter_token_latency_seconds_count{model="a"})"),
              Optional(4.0));
  EXPECT_THAT(value("gen_ai_server_request_duration_seconds_count"
                    R"({gen_ai_request_model="a"})"),
              Optional(1.0));
  EXPECT_THAT(value(R"(plimsoll_loads_total{model="a",result="ok"})"),
              Optional(1.0));
  EXPECT_THAT(value(R"(plimsoll_load_seconds{model="b",phase="total"})"),
              std::nullopt);
}

TEST_F(WorkerMetricsTest, APromptThatIsTooLongIsRefused) {
  ASSERT_TRUE(worker_.LoadWithContext("a", 8).ok());
  grpc::ClientContext context;
  v1::GenerateRequest request;
  request.set_model("a");
  for (uint32_t i = 0; i < 9; ++i) request.mutable_tokens()->add_ids(i);
  v1::GenerateResponse response;
  EXPECT_EQ(
      worker_.generation->Generate(&context, request, &response).error_code(),
      grpc::StatusCode::OUT_OF_RANGE);
  EXPECT_THAT(Value("plimsoll_admission_total{model=\"a\","
                    R"(decision="refused",reason="prompt_too_long"})"),
              Optional(1.0));
  EXPECT_THAT(Value("vllm:admission_rejections_total{model_name=\"a\","
                    R"(reason="prompt_too_long"})"),
              Optional(1.0));
  EXPECT_THAT(Value("plimsoll_admission_total{model=\"a\","
                    R"(decision="admitted",reason=""})"),
              Optional(0.0));
}

TEST_F(WorkerMetricsTest, BytesAreThoseOfThePlan) {
  ASSERT_TRUE(worker_.LoadWithContext("a", 256).ok());
  const std::string text = Text();
  const auto total = static_cast<double>(worker_.Describe("a").total_bytes());
  double sum = 0;
  for (const char* kind : {"weights", "kv", "scratch", "overhead"}) {
    sum +=
        ValueOf(text, absl::StrCat(R"(plimsoll_memory_bytes{model="a",)",
                                   R"(device="test/cpu",kind=")", kind, "\"}"))
            .value_or(0);
  }
  EXPECT_EQ(sum, total);
  const std::string device = R"({device="test/cpu"})";
  EXPECT_THAT(ValueOf(text, "plimsoll_planned_bytes" + device),
              Optional(total));
  EXPECT_THAT(ValueOf(text, "plimsoll_worker_lease_bytes" + device),
              Optional(total));
  const auto measured = ValueOf(text, "plimsoll_measured_bytes" + device);
  ASSERT_TRUE(measured.has_value());
  EXPECT_THAT(ValueOf(text, "plimsoll_plan_error_ratio" + device),
              Optional(::testing::DoubleNear(*measured / total - 1, 1e-9)));
  const std::string pages = R"({model="a",device="test/cpu",state=")";
  EXPECT_EQ(*ValueOf(text, "plimsoll_kv_bytes" + pages + "reserved\"}"),
            *ValueOf(text, "plimsoll_kv_bytes" + pages + "used\"}") +
                *ValueOf(text, "plimsoll_kv_bytes" + pages + "free\"}"));
  EXPECT_THAT(ValueOf(text,
                      "plimsoll_lease_events_total"
                      R"({device="test/cpu",event="granted"})"),
              Optional(1.0));
}

TEST_F(WorkerMetricsTest, AnUnloadedModelKeepsItsCountsOnly) {
  ASSERT_TRUE(worker_.LoadWithContext("a", 256).ok());
  Generate(3);
  ASSERT_TRUE(worker_.Unload("a").ok());
  EXPECT_THAT(Value(R"(plimsoll_unloads_total{model="a"})"), Optional(1.0));
  EXPECT_THAT(
      Value(R"(plimsoll_requests_total{model="a",result="max_tokens"})"),
      Optional(1.0));
  EXPECT_EQ(Value(R"(plimsoll_slots{model="a"})"), std::nullopt);
  EXPECT_EQ(Value(R"(plimsoll_planned_bytes{device="test/cpu"})"),
            std::nullopt);
  EXPECT_THAT(Value("plimsoll_lease_events_total"
                    R"({device="test/cpu",event="released"})"),
              Optional(1.0));
}

// What Prometheus is told is what the list says: names, types and labels.
TEST_F(WorkerMetricsTest, AScrapeHasTheMetricsOfTheList) {
  ASSERT_TRUE(worker_.LoadWithContext("a", 256).ok());
  Generate(2);
  const std::string text = Text();
  const auto types = TypesIn(text);
  EXPECT_EQ(types.size(), WorkerMetricList().size());
  for (const Metric* metric : WorkerMetricList()) {
    ASSERT_EQ(types.count(metric->name), 1u) << metric->name;
    // These have no values without quotas, a file of receipts, a tracer, or
    // `--preemption off`.
    if (metric == &kTenantRequests || metric == &kTenantTokens ||
        metric == &kReceiptsLost || metric == &kSpans ||
        metric == &kKvPagesReserved) {
      continue;
    }
    std::set<std::string> labels;
    if (*metric->labels != '\0') labels = absl::StrSplit(metric->labels, ", ");
    if (metric->type == MetricType::kHistogram) labels.insert("le");
    EXPECT_EQ(LabelsIn(text, metric->name), labels) << metric->name;
  }
}

TEST_F(WorkerMetricsTest, TenantsAreCountedIfThereAreQuotas) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.File("quotas.json");
  std::ofstream(path) << "{}";
  const auto book = *QuotaBook::Open(path, BootTime);
  TestWorker worker(
      {.change = [&book](WorkerOptions& o) { o.quotas = book.get(); }});
  const auto hold = *book->Admit({.tenant = "team-a"});
  hold->AddGenerated(7);
  const std::string text = metrics_->Text(*worker.registry, true);
  EXPECT_THAT(ValueOf(text,
                      "plimsoll_tenant_requests_total"
                      R"({tenant="team-a",decision="admitted"})"),
              Optional(1.0));
  EXPECT_THAT(ValueOf(text,
                      "plimsoll_tenant_tokens_total"
                      R"({tenant="team-a",kind="generated"})"),
              Optional(7.0));
  EXPECT_EQ(LabelsIn(text, kTenantRequests.name),
            (std::set<std::string>{"tenant", "decision"}));
  EXPECT_EQ(LabelsIn(text, kTenantTokens.name),
            (std::set<std::string>{"tenant", "kind"}));
}

TEST_F(WorkerMetricsTest, ReceiptsThatAreLostAreCounted) {
  const testing::TemporaryFolder folder;
  const std::string logs = folder.File("logs");
  std::filesystem::create_directory(logs);
  const auto file = *UsageFile::Open(logs + "/usage.jsonl");
  const auto book = *QuotaBook::Open("", BootTime, file.get());
  TestWorker worker(
      {.change = [&book](WorkerOptions& o) { o.quotas = book.get(); }});
  const auto lost = [&] {
    return ValueOf(metrics_->Text(*worker.registry, true),
                   "plimsoll_receipts_lost_total");
  };
  EXPECT_THAT(lost(), Optional(0.0));
  EXPECT_EQ(Value("plimsoll_receipts_lost_total"), std::nullopt);
  std::filesystem::remove_all(logs);  // so none can be written
  for (size_t i = 0; i < UsageFile::kMaxWaiting + 2; ++i) {
    file->Add(UsageReceipt());
  }
  EXPECT_THAT(lost(), Optional(2.0));
  std::filesystem::create_directory(logs);
}

TEST_F(WorkerMetricsTest, SessionsReserveTheirBytes) {
  ASSERT_TRUE(worker_.LoadWithContext("a", 256).ok());
  const std::string series =
      R"(plimsoll_session_kv_bytes{model="a",device="test/cpu"})";
  EXPECT_THAT(Value(series), Optional(0.0));
  grpc::ClientContext context;
  v1::OpenSessionRequest request;
  request.set_model("a");
  v1::OpenSessionResponse response;
  ASSERT_TRUE(worker_.sessions->OpenSession(&context, request, &response).ok());
  EXPECT_GT(response.session().reserved_bytes(), 0u);
  EXPECT_THAT(
      Value(series),
      Optional(static_cast<double>(response.session().reserved_bytes())));
}

TEST_F(WorkerMetricsTest, NothingOfAClientIsInAScrape) {
  ASSERT_TRUE(worker_.LoadWithContext("a", 256).ok());
  Generate(2);
  EXPECT_THAT(Text(), Not(HasSubstr("secret")));
}

TEST_F(WorkerMetricsTest, OtherObserversHearTheSame) {
  ASSERT_TRUE(worker_.LoadWithContext("a", 256).ok());
  Generate(2);
  ASSERT_TRUE(worker_.Unload("a").ok());
  EXPECT_EQ(ears_.n_loads, 1);
  EXPECT_EQ(ears_.n_submits, 1);
  EXPECT_THAT(Value(R"(plimsoll_step_seconds_count{model="a"})"),
              Optional(static_cast<double>(ears_.n_steps)));
}

TEST_F(WorkerMetricsTest, ModelsThatAreNotConfiguredAreNotCounted) {
  metrics_->OnSubmit("c", absl::OkStatus());
  metrics_->OnStep("c", {.time = absl::Seconds(1)});
  metrics_->OnRequestEnd("c", {});
  metrics_->OnLoadEnd(
      {.model = "c", .status = absl::OkStatus(), .time = absl::Seconds(1)});
  metrics_->OnUnload("c");
  metrics_->OnLease({.event = LeaseEvent::kLost,
                     .lease_id = "c",
                     .device_id = "c",
                     .purpose = "c"});
  EXPECT_THAT(Text(), Not(HasSubstr("\"c\"")));
}

TEST_F(WorkerMetricsTest, ModelsThatWereAddedAreCounted) {
  for (const std::string name : {"c", "d", "c", "a"}) {
    metrics_->OnModelAdded(name);
  }
  metrics_->OnUnload("c");
  metrics_->OnUnload("d");
  metrics_->OnUnload("d");
  EXPECT_THAT(Value(R"(plimsoll_unloads_total{model="a"})"), Optional(0.0));
  EXPECT_THAT(Value(R"(plimsoll_unloads_total{model="c"})"), Optional(1.0));
  EXPECT_THAT(Value(R"(plimsoll_unloads_total{model="d"})"), Optional(2.0));
}

}  // namespace
}  // namespace plimsoll::services
