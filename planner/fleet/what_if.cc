#include "planner/fleet/what_if.h"

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "base/status_macros.h"
#include "planner/layout/plan_regions.h"
#include "planner/model/weight_type.h"

namespace plimsoll::planner {
namespace {

constexpr int64_t kTooBig = std::numeric_limits<int64_t>::max();

absl::Status Bad(absl::string_view axis, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(axis, " ", what));
}

// 256 times the bits of one element. This is exact: blocks have at most 256
// elements.
int64_t Precision(DType dtype) {
  const DTypeInfo& info = InfoOf(dtype);
  return info.block_bytes * 8 * 256 / info.block_elems;
}

// The precision of all matrices together. It saturates: it is only compared.
int64_t Precision(const ModelShape& shape) {
  Checked sum = 0;
  for (const WeightTensor& tensor : shape.weights) {
    if (tensor.is_vector) continue;
    sum += Checked(tensor.rows) * tensor.cols * tensor.n_matrices *
           Precision(tensor.dtype);
  }
  return sum.Get().value_or(kTooBig);
}

bool CanRun(const ModelShape& shape, const DeviceProfile& profile) {
  return std::all_of(shape.weights.begin(), shape.weights.end(),
                     [&](const WeightTensor& tensor) {
                       return tensor.is_vector ||
                              FindStorageRule(profile, tensor.dtype) != nullptr;
                     });
}

// Least values over a grid of three ranks. A query asks for the least value of
// all cells that are at least as large in all three: a Fenwick tree in three
// dimensions.
class LeastAbove {
 public:
  using Ranks = std::array<size_t, 3>;

  explicit LeastAbove(const Ranks& sizes)
      : sizes_(sizes),
        least_(sizes[0] * sizes[1] * sizes[2],
               std::numeric_limits<int64_t>::max()) {}

  void Insert(const Ranks& ranks, int64_t value) {
    Visit(ranks, Below,
          [value](int64_t& cell) { cell = std::min(cell, value); });
  }
  int64_t Find(const Ranks& ranks) {
    int64_t least = std::numeric_limits<int64_t>::max();
    Visit(ranks, Above,
          [&least](int64_t& cell) { least = std::min(least, cell); });
    return least;
  }

 private:
  static size_t LowestBit(size_t i) { return i & (~i + 1); }
  static size_t Below(size_t i, size_t) { return i - LowestBit(i); }
  static size_t Above(size_t i, size_t n) {
    const size_t next = i + LowestBit(i);
    return next <= n ? next : 0;
  }

  // The tree's indices count from 1; `next` returns 0 at its end.
  template <typename Next, typename Use>
  void Visit(const Ranks& ranks, const Next& next, const Use& use) {
    for (size_t a = ranks[0] + 1; a > 0; a = next(a, sizes_[0])) {
      for (size_t b = ranks[1] + 1; b > 0; b = next(b, sizes_[1])) {
        for (size_t c = ranks[2] + 1; c > 0; c = next(c, sizes_[2])) {
          use(least_[((a - 1) * sizes_[1] + b - 1) * sizes_[2] + c - 1]);
        }
      }
    }
  }

  Ranks sizes_;
  std::vector<int64_t> least_;
};

// For each value, the number of different smaller values; and the number of
// different values.
std::pair<std::vector<size_t>, size_t> RanksOf(
    const std::vector<int64_t>& values) {
  std::vector<int64_t> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  std::vector<size_t> ranks;
  ranks.reserve(values.size());
  for (int64_t value : values) {
    ranks.push_back(static_cast<size_t>(
        std::lower_bound(sorted.begin(), sorted.end(), value) -
        sorted.begin()));
  }
  return {std::move(ranks), sorted.size()};
}

}  // namespace

absl::StatusOr<WhatIf> WhatIf::Create(ModelShape shape, const PlanOptions& base,
                                      WhatIfAxes axes, StopCheck stop) {
  WhatIf what_if(std::move(shape), base, std::move(axes));
  const WhatIfAxes& a = what_if.axes_;
  constexpr int64_t kAny = WhatIfAxes::kMaxPoints;
  struct Axis {
    absl::string_view name;
    size_t n;
    int64_t max;
  };
  Checked n_points = 1;
  for (const Axis& axis :
       {Axis{"devices", a.devices.size(), WhatIfAxes::kMaxDevices},
        Axis{"weights", a.weights.size(), WhatIfAxes::kMaxTypes},
        Axis{"kv", a.kv.size(), WhatIfAxes::kMaxTypes},
        Axis{"n_ubatch", a.n_ubatch.size(), kAny},
        Axis{"n_slots", a.n_slots.size(), kAny},
        Axis{"n_ctx", a.n_ctx.size(), kAny}}) {
    const auto n = static_cast<int64_t>(axis.n);
    if (n < 1 || n > axis.max) {
      return Bad(axis.name,
                 absl::StrCat("has ", n, " values, not 1 to ", axis.max));
    }
    n_points *= n;
  }
  what_if.n_points_ = n_points.Get().value_or(kTooBig);
  if (what_if.n_points_ > WhatIfAxes::kMaxPoints) {
    return Bad("the grid", absl::StrCat("has ", what_if.n_points_,
                                        " points, at most ", kAny));
  }
  const int64_t most = WhatIfAxes::kMaxLayerPoints /
                       std::max<int64_t>(what_if.shape_.n_layers, 1);
  if (what_if.n_points_ > most) {
    return Bad("the grid",
               absl::StrCat("has ", what_if.n_points_, " points, at most ",
                            most, " of a model with ", what_if.shape_.n_layers,
                            " layers; ask for a part of it at a time"));
  }
  RETURN_IF_ERROR(what_if.CheckAxes(stop));
  RETURN_IF_ERROR(what_if.LayoutAllWeights(stop));
  return what_if;
}

// Checks every value by itself, so that later a point can only fail by
// overflow.
absl::Status WhatIf::CheckAxes(StopCheck stop) const {
  PlanOptions options = base_;
  options.n_ctx = 1;
  for (int64_t n_ubatch : axes_.n_ubatch) {
    options.n_ubatch = n_ubatch;
    RETURN_IF_ERROR(ValidateOptions(options));
  }
  for (int64_t n_slots : axes_.n_slots) {
    options.n_slots = n_slots;
    RETURN_IF_ERROR(ValidateOptions(options));
  }
  for (const std::optional<int64_t>& n_ctx : axes_.n_ctx) {
    options.n_ctx = n_ctx.value_or(1);
    RETURN_IF_ERROR(ValidateOptions(options));
  }
  if (!base_.n_cpu_experts) {
    return absl::InvalidArgumentError(
        "a what-if takes a number of n_cpu_experts, and chooses none");
  }
  options = base_;
  options.n_ctx = 1;
  const auto check = [&](const WhatIfAxes::Device& device,
                         const WhatIfAxes::KvType& kv) -> absl::Status {
    RETURN_IF_ERROR(stop());
    options.k_type = kv.k;
    options.v_type = kv.v;
    const absl::Status status =
        Layout(shape_, options, device.profile, device.budget_bytes).status();
    return absl::IsOutOfRange(status) ? absl::OkStatus() : status;
  };
  for (const WhatIfAxes::Device& device : axes_.devices) {
    RETURN_IF_ERROR(check(device, axes_.kv.front()));
  }
  for (const WhatIfAxes::KvType& kv : axes_.kv) {
    RETURN_IF_ERROR(check(axes_.devices.front(), kv));
  }
  return absl::OkStatus();
}

absl::Status WhatIf::LayoutAllWeights(StopCheck stop) {
  std::vector<ModelShape> shapes;
  for (const std::optional<DType>& type : axes_.weights) {
    RETURN_IF_ERROR(stop());
    ASSIGN_OR_RETURN(
        StoredShape shape,
        StoredShape::Create(shape_, type ? type : base_.engine.weight_type));
    shapes.push_back(shape.get());
    weight_precision_.push_back(Precision(shapes.back()));
  }
  for (const WhatIfAxes::Device& device : axes_.devices) {
    RETURN_IF_ERROR(stop());
    for (const ModelShape& shape : shapes) {
      ASSIGN_OR_RETURN(
          const WeightLayout layout,
          LayoutWeights(shape, device.profile, HomesOf(shape, base_)));
      weights_.push_back({layout.bytes, CanRun(shape, device.profile)});
    }
  }
  return absl::OkStatus();
}

WhatIf::Place WhatIf::PlaceOf(int64_t index) const {
  auto rest = static_cast<size_t>(index);
  const auto take = [&rest](size_t n) {
    const size_t at = rest % n;
    rest /= n;
    return at;
  };
  Place place = {};
  place.n_ctx = take(axes_.n_ctx.size());
  place.n_slots = take(axes_.n_slots.size());
  place.n_ubatch = take(axes_.n_ubatch.size());
  place.kv = take(axes_.kv.size());
  place.weights = take(axes_.weights.size());
  place.device = rest;
  return place;
}

absl::StatusOr<WhatIfPoint> WhatIf::PointAt(int64_t index) const {
  const Place at = PlaceOf(index);
  const WhatIfAxes::Device& device = axes_.devices[at.device];
  const Weights& weights =
      weights_[at.device * axes_.weights.size() + at.weights];
  WhatIfPoint point = {
      .index = index,
      .device = static_cast<int64_t>(at.device),
      .weights = axes_.weights[at.weights],
      .kv = axes_.kv[at.kv],
      .n_ubatch = axes_.n_ubatch[at.n_ubatch],
      .n_slots = axes_.n_slots[at.n_slots],
      .wanted_ctx = axes_.n_ctx[at.n_ctx],
      .n_ctx = 0,
      .fits = false,
      .budget_bytes = device.budget_bytes,
      .total_bytes = kTooBig,
      .arena_bytes = 0,
      .kv_bytes = 0,
      .missing_bytes = kTooBig - device.budget_bytes,
      .kv_bytes_per_token = 0,
      .can_run = weights.can_run &&
                 HasKvType(device.profile, axes_.kv[at.kv].k) &&
                 HasKvType(device.profile, axes_.kv[at.kv].v)};
  PlanOptions options = base_;
  options.n_ctx = point.wanted_ctx;
  options.n_slots = point.n_slots;
  options.n_ubatch = point.n_ubatch;
  options.k_type = point.kv.k;
  options.v_type = point.kv.v;
  ASSIGN_OR_RETURN(
      const PlanInputs inputs,
      PlanInputs::Create({shape_, options, device.profile, device.budget_bytes},
                         weights.bytes));
  const auto plan = LayoutNumbers(inputs);
  if (absl::IsOutOfRange(plan.status())) return point;
  RETURN_IF_ERROR(plan.status());
  point.n_ctx = plan->n_ctx;
  point.fits = plan->fits;
  point.total_bytes = plan->total_bytes;
  point.arena_bytes = plan->arena_bytes;
  point.kv_bytes =
      plan->kv.full_bytes + plan->kv.window_bytes + plan->kv.all_state_bytes;
  point.missing_bytes = plan->missing_bytes;
  point.kv_bytes_per_token = plan->kv.bytes_per_token;
  return point;
}

absl::StatusOr<std::vector<WhatIfPoint>> WhatIf::Next(int64_t max_points,
                                                      StopCheck stop) {
  std::vector<WhatIfPoint> points;
  const int64_t n = std::clamp<int64_t>(max_points, 0, n_points_ - next_);
  points.reserve(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    RETURN_IF_ERROR(stop());
    ASSIGN_OR_RETURN(points.emplace_back(), PointAt(next_));
    ++next_;
    const WhatIfPoint& point = points.back();
    if (point.fits) {
      candidates_.push_back({point.index, point.n_ctx, point.total_bytes});
    }
  }
  return points;
}

absl::StatusOr<std::vector<int64_t>> WhatIf::Frontier(StopCheck stop) const {
  std::vector<int64_t> frontier;
  const auto per_device =
      n_points_ / static_cast<int64_t>(axes_.devices.size());
  auto begin = candidates_.begin();
  while (begin != candidates_.end()) {
    const int64_t device = begin->index / per_device;
    const auto end = std::find_if(
        begin, candidates_.end(),
        [&](const Candidate& c) { return c.index / per_device != device; });
    RETURN_IF_ERROR(MarkFrontierOf({begin, end}, stop, frontier));
    begin = end;
  }
  std::sort(frontier.begin(), frontier.end());
  return frontier;
}

// Points are taken from the longest context down, and equal contexts by the
// other measures, so that every better point comes before a point. The tree
// then gives the fewest bytes of the points that are at least as good in the
// other three. Equal points are queried together: none of them beats another.
absl::Status WhatIf::MarkFrontierOf(const std::vector<Candidate>& candidates,
                                    StopCheck stop,
                                    std::vector<int64_t>& frontier) const {
  const auto [slot_ranks, n_slot_ranks] = RanksOf(axes_.n_slots);
  std::vector<int64_t> kv_precision;
  for (const WhatIfAxes::KvType& kv : axes_.kv) {
    kv_precision.push_back(Precision(kv.k) + Precision(kv.v));
  }
  const auto [kv_ranks, n_kv_ranks] = RanksOf(kv_precision);
  const auto [weight_ranks, n_weight_ranks] = RanksOf(weight_precision_);

  struct Ranked {
    int64_t n_ctx;
    LeastAbove::Ranks ranks;
    int64_t total_bytes;
    int64_t index;
    auto Key() const { return std::tie(n_ctx, ranks, total_bytes); }
  };
  std::vector<Ranked> order;
  order.reserve(candidates.size());
  for (const Candidate& candidate : candidates) {
    const Place at = PlaceOf(candidate.index);
    order.push_back(
        {candidate.n_ctx,
         {slot_ranks[at.n_slots], kv_ranks[at.kv], weight_ranks[at.weights]},
         candidate.total_bytes,
         candidate.index});
  }
  std::sort(order.begin(), order.end(), [](const Ranked& a, const Ranked& b) {
    return std::tie(b.n_ctx, b.ranks, a.total_bytes) <
           std::tie(a.n_ctx, a.ranks, b.total_bytes);
  });
  LeastAbove seen({n_slot_ranks, n_kv_ranks, n_weight_ranks});
  for (size_t i = 0; i < order.size();) {
    RETURN_IF_ERROR(stop());
    const Ranked& first = order[i];
    const bool is_best = seen.Find(first.ranks) > first.total_bytes;
    for (; i < order.size() && order[i].Key() == first.Key(); ++i) {
      if (is_best) frontier.push_back(order[i].index);
    }
    seen.Insert(first.ranks, first.total_bytes);
  }
  return absl::OkStatus();
}

}  // namespace plimsoll::planner
