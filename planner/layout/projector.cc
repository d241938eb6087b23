#include "planner/layout/projector.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "base/status_macros.h"
#include "planner/model/hyperparameters.h"
#include "planner/model/model_shape.h"

namespace plimsoll::planner {
namespace {

constexpr char kArchitecture[] = "clip";
constexpr int64_t kMaxImageSize = 1 << 16;
constexpr int64_t kSoundTokens = 1'500;

absl::StatusOr<int64_t> EncoderBytes(const GgufHeader& header,
                                     const std::string& prefix, int64_t n) {
  const Hyperparameters numbers(header, prefix);
  constexpr int64_t kMaxDim = ModelShape::kMaxDim;
  ASSIGN_OR_RETURN(const int64_t d,
                   numbers.Int("embedding_length", 1, kMaxDim));
  ASSIGN_OR_RETURN(const int64_t f,
                   numbers.Int("feed_forward_length", 1, kMaxDim));
  ASSIGN_OR_RETURN(const int64_t h,
                   numbers.Int("attention.head_count", 1, kMaxDim));
  // At most 2^20, 2^20 and 2^20 x 2^32: no overflow before the last product.
  const int64_t widest = std::max(3 * d + h * n, f);
  const auto bytes = (Checked(kFloatBytes) * n * (2 * d + widest)).Get();
  if (bytes) return *bytes;
  return absl::OutOfRangeError(
      absl::StrCat(prefix, ": the workspace does not fit in int64 bytes"));
}

absl::StatusOr<int64_t> ImageBytes(const GgufHeader& header) {
  const std::string prefix = absl::StrCat(kArchitecture, ".vision");
  const Hyperparameters numbers(header, prefix);
  ASSIGN_OR_RETURN(const int64_t image,
                   numbers.Int("image_size", 1, kMaxImageSize));
  ASSIGN_OR_RETURN(const int64_t patch, numbers.Int("patch_size", 1, image));
  const int64_t side = image / patch;
  return EncoderBytes(header, prefix, side * side);
}

// True if the file says that it has this encoder. Older files say nothing of
// sound and mean images.
absl::StatusOr<bool> Has(const GgufHeader& header, absl::string_view encoder,
                         bool fallback) {
  ASSIGN_OR_RETURN(const auto value,
                   header.Bool(absl::StrCat(kArchitecture, ".has_", encoder)));
  return value.value_or(fallback);
}

}  // namespace

bool IsProjector(const GgufHeader& header) {
  const auto architecture = header.String("general.architecture");
  return architecture.ok() && *architecture == kArchitecture;
}

absl::StatusOr<ProjectorBytes> ProjectorFromGguf(const GgufHeader& header) {
  if (!IsProjector(header)) {
    return absl::InvalidArgumentError(
        "general.architecture is not \"clip\": the file is no projector");
  }
  ProjectorBytes bytes = {};
  Checked weights = 0;
  for (const GgufTensor& tensor : header.tensors) weights += tensor.bytes;
  const auto weight_bytes = weights.Get();
  if (!weight_bytes || *weight_bytes == 0) {
    return absl::InvalidArgumentError("the projector has no tensors");
  }
  bytes.weights = *weight_bytes;
  ASSIGN_OR_RETURN(const bool sees,
                   Has(header, "vision_encoder", /*fallback=*/true));
  ASSIGN_OR_RETURN(const bool hears,
                   Has(header, "audio_encoder", /*fallback=*/false));
  if (sees) {
    ASSIGN_OR_RETURN(bytes.workspace, ImageBytes(header));
  }
  if (hears) {
    ASSIGN_OR_RETURN(const int64_t sound,
                     EncoderBytes(header, absl::StrCat(kArchitecture, ".audio"),
                                  kSoundTokens));
    bytes.workspace = std::max(bytes.workspace, sound);
  }
  return bytes;
}

}  // namespace plimsoll::planner
