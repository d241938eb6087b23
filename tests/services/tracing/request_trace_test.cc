#include "services/tracing/request_trace.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/services/tracing/collected_spans.h"

namespace plimsoll::services {
namespace {

worker::FinishInfo Reply() {
  worker::FinishInfo info;
  info.reason = worker::FinishReason::kMaxTokens;
  info.n_prompt = 7;
  info.n_cached = 2;
  info.n_generated = 5;
  return info;
}

std::map<std::string, SpanValue> AttributesOf(const Span& span) {
  return {span.attributes.begin(), span.attributes.end()};
}

TEST(RequestTraceTest, WithoutATracerThereIsNone) {
  EXPECT_EQ(RequestTrace::Begin(std::nullopt, "id"), nullptr);
}

TEST(RequestTraceTest, ARequestSaysWhatItTook) {
  CollectedSpans spans;
  {
    Tracer tracer(NewExporter(spans), 1.0);
    const auto trace = RequestTrace::Begin(std::nullopt, "id");
    trace->SetOperation("chat");
    trace->SetModel("m");
    trace->AddReply(Reply(), absl::OkStatus());
    trace->AddReply({.n_input = 1, .n_output = 2, .finish_reason = "stop"});
    trace->End();
    trace->End();
  }
  const auto all = spans.All();
  ASSERT_EQ(all.size(), 4u);
  const Span& request = all[3];
  EXPECT_EQ(request.name, "chat m");
  EXPECT_EQ(request.kind, SpanKind::kServer);
  EXPECT_EQ(request.code, absl::StatusCode::kOk);
  const std::vector<std::string> names = {"queue", "prefill", "decode"};
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(all[i].name, names[i]);
    EXPECT_EQ(all[i].parent_id, request.context.span_id);
    EXPECT_GE(all[i].begin, i == 0 ? request.begin : all[i - 1].end);
    EXPECT_LE(all[i].end, request.end);
  }
  auto attributes = AttributesOf(request);
  EXPECT_EQ(attributes["gen_ai.operation.name"],
            SpanValue(std::string("chat")));
  EXPECT_EQ(attributes["gen_ai.request.model"], SpanValue(std::string("m")));
  EXPECT_EQ(attributes["plimsoll.request_id"], SpanValue(std::string("id")));
  EXPECT_EQ(attributes["gen_ai.usage.input_tokens"], SpanValue(int64_t{8}));
  EXPECT_EQ(attributes["gen_ai.usage.output_tokens"], SpanValue(int64_t{7}));
  EXPECT_EQ(attributes["gen_ai.usage.cache_read.input_tokens"],
            SpanValue(int64_t{2}));
  EXPECT_EQ(attributes["gen_ai.response.finish_reasons"],
            SpanValue(std::vector<std::string>{"length", "stop"}));
}

TEST(RequestTraceTest, TheFirstErrorCounts) {
  CollectedSpans spans;
  {
    Tracer tracer(NewExporter(spans), 1.0);
    const auto trace = RequestTrace::Begin(std::nullopt, "id");
    trace->AddReply({}, absl::NotFoundError("secret"));
    trace->Fail(absl::CancelledError(""));
  }  // without End
  const auto all = spans.All();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].name, "request");
  EXPECT_EQ(all[0].code, absl::StatusCode::kNotFound);
  EXPECT_EQ(AttributesOf(all[0]).count("gen_ai.usage.input_tokens"), 0u);
}

TEST(RequestTraceTest, OnlySoManyRepliesHaveSpans) {
  CollectedSpans spans;
  {
    Tracer tracer(NewExporter(spans), 1.0);
    const auto trace = RequestTrace::Begin(std::nullopt, "id");
    for (int i = 0; i < RequestTrace::kMaxReplies + 1; ++i) {
      trace->AddReply(Reply(), absl::OkStatus());
    }
  }
  const auto all = spans.All();
  EXPECT_EQ(all.size(), 3u * RequestTrace::kMaxReplies + 1u);
  auto attributes = AttributesOf(all.back());
  EXPECT_EQ(attributes["gen_ai.usage.output_tokens"],
            SpanValue(int64_t{5 * (RequestTrace::kMaxReplies + 1)}));
}

}  // namespace
}  // namespace plimsoll::services
