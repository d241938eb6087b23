// A model's numbers under `A.*` of a GGUF header (A is the architecture), each
// checked for type and range.
#ifndef PLIMSOLL_PLANNER_MODEL_HYPERPARAMETERS_H_
#define PLIMSOLL_PLANNER_MODEL_HYPERPARAMETERS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/gguf/gguf_reader.h"

namespace plimsoll::planner {

// Refers to a header, which must outlive it. Every error is kInvalidArgument
// and names the whole key.
class Hyperparameters {
 public:
  Hyperparameters(const GgufHeader& header, const std::string& architecture)
      : header_(header), architecture_(architecture) {}

  std::string Key(absl::string_view suffix) const;
  const GgufHeader& header() const { return header_; }
  const std::string& architecture() const { return architecture_; }

  // The integer at A.suffix, in [min, max]; `fallback` if the key is absent. It
  // is an error if the key is absent without a fallback, has another type or is
  // out of range.
  absl::StatusOr<int64_t> Int(
      absl::string_view suffix, int64_t min, int64_t max,
      std::optional<int64_t> fallback = std::nullopt) const;

  // The integers from `min` to `max`.
  struct Range {
    int64_t min;
    int64_t max;
  };

  // Integers of all layers, [n_layers], each in the range. The file has one
  // number for all of them or an array of at least `n_layers`.
  absl::StatusOr<std::vector<int64_t>> PerLayer(
      absl::string_view suffix, int64_t n_layers, Range range,
      const std::vector<int64_t>& fallback = {}) const;

  // Flags of all layers, [n_layers], or nothing if the file has no array of
  // them.
  absl::StatusOr<std::optional<std::vector<bool>>> Flags(
      absl::string_view suffix, int64_t n_layers) const;

  // The number at A.suffix, finite and above 0.
  absl::StatusOr<double> PositiveFloat(
      absl::string_view suffix,
      std::optional<double> fallback = std::nullopt) const;

 private:
  const GgufHeader& header_;
  std::string architecture_;
};

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_MODEL_HYPERPARAMETERS_H_
