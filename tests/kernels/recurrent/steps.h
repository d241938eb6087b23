// What the tests of operations with states share: steps over the rows of one
// set of inputs, and the promises that hold for all such operations.
#ifndef PLIMSOLL_TESTS_KERNELS_RECURRENT_STEPS_H_
#define PLIMSOLL_TESTS_KERNELS_RECURRENT_STEPS_H_

#include <algorithm>
#include <vector>

#include "kernels/recurrent.h"
#include "tests/kernels/backend_fixture.h"

namespace plimsoll::kernels {

inline absl::Status Run(Backend& backend, const CausalConvArgs& args) {
  return backend.CausalConv(args);
}
inline absl::Status Run(Backend& backend, const StateScanArgs& args) {
  return backend.StateScan(args);
}

// An operation's arguments, whose `out` and `states` are of no account, the
// floats of a row of its output, and the states that it works on.
template <class Args>
class Steps {
 public:
  // The states are random. They lie apart from each other.
  Steps(const Args& args, int64_t out_floats, int64_t n_states)
      : args_(args),
        out_(static_cast<size_t>(args.n_rows * out_floats), kUntouched),
        out_floats_(out_floats),
        n_states_(n_states),
        stride_(std::max<int64_t>(args.StateFloats(), 0) + 3),
        destinations_(static_cast<size_t>(args.n_rows), kNoState) {
    states_ = RandomData(99).Floats(n_states * stride_);
  }

  static constexpr float kUntouched = -77;

  void Keep(int64_t row, int32_t to) {
    destinations_[static_cast<size_t>(row)] = to;
  }
  absl::Status Run(Backend& backend,
                   const std::vector<StateSegment>& segments) {
    Args args = args_;
    args.out = out_.data();
    args.states = {.data = states_.data(),
                   .stride = stride_,
                   .n_states = n_states_,
                   .segments = segments.data(),
                   .n_segments = static_cast<int64_t>(segments.size()),
                   .destinations = destinations_.data()};
    const absl::Status status = kernels::Run(backend, args);
    std::ranges::fill(destinations_, kNoState);
    return status;
  }
  // Takes rows [begin, end) as one segment, whose last row is kept.
  void Take(Backend& backend, int64_t begin, int64_t end, int32_t source,
            int32_t to) {
    Keep(end - 1, to);
    EXPECT_TRUE(Run(backend, {{begin, end - begin, source}}).ok());
  }

  const std::vector<float>& out() const { return out_; }
  std::vector<float> StateAt(int32_t i) const {
    const auto begin = states_.begin() + i * stride_;
    return {begin, begin + args_.StateFloats()};
  }
  std::vector<float> OutAt(int64_t begin, int64_t end) const {
    return {out_.begin() + begin * out_floats_,
            out_.begin() + end * out_floats_};
  }

 private:
  Args args_;
  std::vector<float> out_;
  int64_t out_floats_;
  int64_t n_states_;
  int64_t stride_;
  std::vector<float> states_;
  std::vector<int32_t> destinations_;
};

// The rows and the last state have the same bits however a prompt is cut, and
// where a state is changed in its place.
template <class Args>
void ExpectCutsChangeNothing(Backend& backend, const Args& args,
                             int64_t out_floats) {
  const int64_t n = args.n_rows;
  Steps<Args> whole(args, out_floats, 2);
  whole.Take(backend, 0, n, 0, 1);
  for (const std::vector<int64_t>& ends :
       {std::vector<int64_t>{1, n}, {n - 1, n}, {7, 16, 19, n}}) {
    Steps<Args> cut(args, out_floats, 2);
    int64_t begin = 0;
    for (const int64_t end : ends) {
      cut.Take(backend, begin, end, 0, 0);
      begin = end;
    }
    EXPECT_EQ(Bits(cut.out()), Bits(whole.out())) << ends.size() << " parts";
    EXPECT_EQ(Bits(cut.StateAt(0)), Bits(whole.StateAt(1)));
  }
  Steps<Args> single(args, out_floats, 2);
  for (int64_t r = 0; r < n; ++r) single.Take(backend, r, r + 1, 0, 0);
  EXPECT_EQ(Bits(single.out()), Bits(whole.out()));
  EXPECT_EQ(Bits(single.StateAt(0)), Bits(whole.StateAt(1)));
}

// A sequence has the same bits alone and beside others, on any number of
// threads. Two of the sequences begin with the same state.
template <class Args>
void ExpectSequencesAreIndependent(Backend& backend, Backend& other,
                                   const Args& args, int64_t out_floats) {
  const int64_t n = args.n_rows;
  const std::vector<StateSegment> segments = {
      {0, 3, 0}, {3, 1, 0}, {4, n - 5, kNoState}, {n - 1, 1, 1}};
  const std::vector<int32_t> kept = {2, 3, 4, 1};
  Steps<Args> together(args, out_floats, 5);
  for (size_t s = 0; s < segments.size(); ++s) {
    together.Keep(segments[s].first_row + segments[s].n_rows - 1, kept[s]);
  }
  ASSERT_TRUE(together.Run(other, segments).ok());
  for (size_t s = 0; s < segments.size(); ++s) {
    const StateSegment& segment = segments[s];
    const int64_t end = segment.first_row + segment.n_rows;
    Steps<Args> alone(args, out_floats, 5);
    alone.Take(backend, segment.first_row, end, segment.source, kept[s]);
    EXPECT_EQ(Bits(together.OutAt(segment.first_row, end)),
              Bits(alone.OutAt(segment.first_row, end)));
    EXPECT_EQ(Bits(together.StateAt(kept[s])), Bits(alone.StateAt(kept[s])));
  }
  // Nobody wrote the state with which two of them begin.
  EXPECT_EQ(Bits(together.StateAt(0)),
            Bits(Steps<Args>(args, out_floats, 5).StateAt(0)));
}

// A state that is kept after any row is the one that a sequence has which ends
// there, so that a sequence can be taken back to it.
template <class Args>
void ExpectEveryRowCanBeKept(Backend& backend, const Args& args,
                             int64_t out_floats) {
  constexpr int32_t kRows = 6;
  Steps<Args> drafts(args, out_floats, kRows + 1);
  for (int32_t r = 0; r < kRows; ++r) drafts.Keep(r, r + 1);
  ASSERT_TRUE(drafts.Run(backend, {{0, kRows, 0}}).ok());
  for (int32_t r = 0; r < kRows; ++r) {
    Steps<Args> ends(args, out_floats, 2);
    ends.Take(backend, 0, r + 1, 0, 1);
    EXPECT_EQ(Bits(ends.StateAt(1)), Bits(drafts.StateAt(r + 1))) << r;
  }
}

// Steps that a backend holds back have the same bits. What they read on the
// host is free as soon as they are called.
template <class Args>
void ExpectStepsMayBeHeld(Backend& backend, const Args& args,
                          int64_t out_floats) {
  constexpr int64_t kRows = 3;
  Steps<Args> whole(args, out_floats, 1);
  whole.Take(backend, 0, kRows, 0, 0);
  Steps<Args> held(args, out_floats, 1);
  for (int64_t r = 0; r < kRows; ++r) {
    ASSERT_TRUE(backend.BeginStep(1).ok());
    held.Take(backend, r, r + 1, 0, 0);
    ASSERT_TRUE(backend.Synchronize().ok());
    ASSERT_TRUE(backend.EndStep().ok());
  }
  EXPECT_EQ(Bits(held.out()), Bits(whole.out()));
  EXPECT_EQ(Bits(held.StateAt(0)), Bits(whole.StateAt(0)));
}

template <class Args>
void ExpectRowsOfNoSegmentStay(Backend& backend, const Args& args,
                               int64_t out_floats) {
  Steps<Args> steps(args, out_floats, 1);
  const std::vector<float> state = steps.StateAt(0);
  // The second one has no rows.
  ASSERT_TRUE(steps.Run(backend, {{2, 3, 0}, {5, 0, 0}}).ok());
  EXPECT_EQ(Bits(steps.StateAt(0)), Bits(state));
  for (const auto& [begin, end] :
       {std::pair<int64_t, int64_t>{0, 2}, {5, args.n_rows}}) {
    EXPECT_THAT(steps.OutAt(begin, end),
                ::testing::Each(Steps<Args>::kUntouched));
  }
}

// States and rows that are not there are refused, those at the end are not.
template <class Args>
void ExpectBadStepsAreRefused(Backend& backend, const Args& args,
                              int64_t out_floats) {
  const auto code = [&](const StateSegment& segment, int32_t to) {
    Steps<Args> steps(args, out_floats, 2);
    steps.Keep(0, to);
    return steps.Run(backend, {segment}).code();
  };
  constexpr auto kBad = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(code({0, args.n_rows, 1}, 1), absl::StatusCode::kOk);
  EXPECT_EQ(code({0, args.n_rows, 2}, 1), kBad);
  EXPECT_EQ(code({0, args.n_rows, -2}, 1), kBad);
  EXPECT_EQ(code({0, args.n_rows, 1}, 2), kBad);
  EXPECT_EQ(code({0, args.n_rows, 1}, -2), kBad);
  EXPECT_EQ(code({1, args.n_rows, 1}, 1), kBad);
  EXPECT_EQ(code({-1, 1, 1}, 1), kBad);
  EXPECT_EQ(code({0, -1, 1}, 1), kBad);
}

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_TESTS_KERNELS_RECURRENT_STEPS_H_
