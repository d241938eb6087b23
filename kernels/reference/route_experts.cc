// Reference: scores, choice and weights in double, by sorting.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "kernels/reference/ops.h"

namespace plimsoll::kernels::reference {
namespace {

using Scores = std::vector<double>;

void MakeSoftmax(Scores& values) {
  const double max = *std::max_element(values.begin(), values.end());
  double sum = 0;
  for (double& value : values) {
    value = std::exp(value - max);
    sum += value;
  }
  for (double& value : values) value /= sum;
}

// The numbers [0, n), those with the largest values first, equal ones in order.
std::vector<int32_t> Order(const Scores& values) {
  std::vector<int32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  // NaN counts as the smallest value, so that the order is a total one.
  const auto key = [&](int32_t i) {
    const double value = values[static_cast<size_t>(i)];
    return std::isnan(value) ? -HUGE_VAL : value;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return key(a) > key(b); });
  return order;
}

// True for the experts that are in one of the best groups.
std::vector<bool> InBestGroups(const Scores& scores, const Routing& routing) {
  const size_t size = scores.size() / static_cast<size_t>(routing.n_groups);
  Scores of_groups;
  for (size_t begin = 0; begin < scores.size(); begin += size) {
    Scores group(scores.begin() + static_cast<int64_t>(begin),
                 scores.begin() + static_cast<int64_t>(begin + size));
    std::sort(group.begin(), group.end(), std::greater<>());
    const bool has_second = size > 1 && !routing.groups_by_best;
    of_groups.push_back(group[0] + (has_second ? group[1] : 0));
  }
  std::vector<bool> is_in(scores.size());
  const std::vector<int32_t> order = Order(of_groups);
  for (int64_t g = 0; g < routing.n_groups_used; ++g) {
    const auto group = static_cast<size_t>(order[static_cast<size_t>(g)]);
    for (size_t i = 0; i < size; ++i) is_in[group * size + i] = true;
  }
  return is_in;
}

void RouteRow(const RouteExpertsArgs& args, int64_t row) {
  const ExpertRows& to = args.to;
  const Routing& routing = args.routing;
  const float* logits = args.logits + row * to.n_experts;
  Scores scores(logits, logits + to.n_experts);
  if (routing.gate == RouterGate::kSoftmax) MakeSoftmax(scores);
  if (routing.gate == RouterGate::kSigmoid) {
    for (double& score : scores) score = 1 / (1 + std::exp(-score));
  }
  Scores choice = scores;
  for (size_t e = 0; args.choice_bias != nullptr && e < choice.size(); ++e) {
    choice[e] += args.choice_bias[e];
  }
  const std::vector<bool> is_in = InBestGroups(choice, routing);
  int32_t* const experts = to.experts + row * to.n_used;
  Scores weights;
  for (const int32_t e : Order(choice)) {
    if (std::ssize(weights) == to.n_used) break;
    if (!is_in[static_cast<size_t>(e)]) continue;
    experts[weights.size()] = e;
    weights.push_back(scores[static_cast<size_t>(e)]);
  }
  if (routing.gate == RouterGate::kSoftmaxOfChosen) MakeSoftmax(weights);
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (size_t i = 0; i < weights.size(); ++i) {
    const double divisor =
        routing.is_normalized ? std::max<double>(sum, kLeastWeightSum) : 1;
    to.weights[row * to.n_used + static_cast<int64_t>(i)] =
        static_cast<float>(weights[i] / divisor * routing.scale);
  }
}

}  // namespace

void RouteExperts(const RouteExpertsArgs& args) {
  const ExpertRows& to = args.to;
  for (int64_t row = 0; row < to.n_rows; ++row) RouteRow(args, row);
  int32_t place = 0;
  for (int64_t e = 0; e < to.n_experts; ++e) {
    to.begins[e] = place;
    for (int64_t i = 0; i < to.NumPlaces(); ++i) {
      if (to.experts[i] != e) continue;
      to.places[i] = place;
      to.rows[place++] = static_cast<int32_t>(i / to.n_used);
    }
  }
  to.begins[to.n_experts] = place;
}

}  // namespace plimsoll::kernels::reference
