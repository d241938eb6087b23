#include "services/tracing/tracer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

#include "tests/services/tracing/collected_spans.h"

namespace plimsoll::services {
namespace {

TraceContext Parent(bool is_sampled) {
  const std::string ids =
      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-";
  return *ParseTrace(ids + (is_sampled ? "01" : "00"), "a=1");
}

// The id whose 56 random bits are the 8 highest ones that are given, and 0.
TraceId IdWith(uint8_t highest) {
  TraceId id = {};
  id[0] = 1;
  id[9] = highest;
  return id;
}

TEST(TracerTest, ShareDecidesByTheIdAlone) {
  EXPECT_FALSE(IsSampled(IdWith(0), 0.0));
  EXPECT_TRUE(IsSampled(IdWith(0x3f), 0.25));
  EXPECT_FALSE(IsSampled(IdWith(0x40), 0.25));
  TraceId highest;
  highest.fill(0xff);
  EXPECT_TRUE(IsSampled(highest, 1.0));
  EXPECT_FALSE(IsSampled(highest, 0.999));
}

TEST(TracerTest, WithoutAnEndpointThereIsNone) {
  const auto tracer = Tracer::Start({}, "test");
  ASSERT_TRUE(tracer.ok());
  EXPECT_EQ(*tracer, nullptr);
  EXPECT_EQ(Tracer::Active(), nullptr);
}

TEST(TracerTest, AuthoritiesWithoutAnEndpointAreAnError) {
  const absl::Status status =
      Tracer::Start({.endpoint = "", .ca_file = "ca.pem"}, "test").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("--otlp-endpoint"));
}

TEST(TracerTest, ABadEndpointIsAnError) {
  EXPECT_EQ(Tracer::Start({.endpoint = "localhost"}, "test").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(TracerTest, WithoutATracerASpanPassesItsParentOn) {
  OpenSpan span("a", SpanKind::kServer, Parent(true));
  EXPECT_FALSE(span.is_recorded());
  EXPECT_EQ(TraceParentOf(*span.context()), TraceParentOf(Parent(true)));
  span.End(absl::StatusCode::kOk);
  EXPECT_FALSE(
      OpenSpan("a", SpanKind::kServer, std::nullopt).context().has_value());
}

TEST(TracerTest, TheParentDecidesWhetherThereAreSpans) {
  for (const bool is_sampled : {false, true}) {
    CollectedSpans spans;
    {
      Tracer tracer(NewExporter(spans), is_sampled ? 0.0 : 1.0);
      OpenSpan span("a", SpanKind::kServer, Parent(is_sampled));
      EXPECT_EQ(span.context()->is_sampled, is_sampled);
      EXPECT_EQ(span.context()->trace_id, Parent(true).trace_id);
      EXPECT_NE(span.context()->span_id, Parent(true).span_id);
      EXPECT_EQ(span.context()->state, "a=1");
      span.AddChild("part", absl::UnixEpoch(), absl::UnixEpoch());
      span.End(absl::StatusCode::kNotFound);
      span.End(absl::StatusCode::kOk);  // it has ended
    }
    const auto all = spans.All();
    ASSERT_EQ(all.size(), is_sampled ? 2u : 0u);
    if (!is_sampled) continue;
    EXPECT_EQ(all[0].name, "part");
    EXPECT_EQ(all[0].parent_id, all[1].context.span_id);
    EXPECT_EQ(all[1].parent_id, Parent(true).span_id);
    EXPECT_EQ(all[1].code, absl::StatusCode::kNotFound);
    EXPECT_LE(all[1].begin, all[1].end);
  }
}

TEST(TracerTest, ATraceThatBeginsHereHasItsShare) {
  CollectedSpans spans;
  for (const double share : {0.0, 1.0}) {
    Tracer tracer(NewExporter(spans), share);
    EXPECT_EQ(tracer.NewContext(std::nullopt).is_sampled, share == 1.0);
    EXPECT_NE(tracer.NewContext(std::nullopt).trace_id,
              tracer.NewContext(std::nullopt).trace_id);
  }
}

TEST(TracerTest, AThreadHasTheInnermostTrace) {
  EXPECT_FALSE(CurrentTrace::Get().has_value());
  {
    const CurrentTrace outer(Parent(true));
    {
      const CurrentTrace inner(std::nullopt);
      EXPECT_FALSE(CurrentTrace::Get().has_value());
    }
    EXPECT_EQ(TraceParentOf(*CurrentTrace::Get()), TraceParentOf(Parent(true)));
  }
  EXPECT_FALSE(CurrentTrace::Get().has_value());
}

}  // namespace
}  // namespace plimsoll::services
