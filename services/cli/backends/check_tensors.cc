#include "services/cli/backends/check_tensors.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/quant/dequantize.h"
#include "services/cli/terminal/bytes.h"
#include "worker/device/tensor_values.h"

namespace plimsoll::cli {
namespace {

using planner::GgufTensor;
using worker::TensorValues;

// Factors divide a rotation's angle. One of 1e30 means that a pair does not
// rotate.
bool IsRotationFactor(const GgufTensor& tensor) {
  return absl::StrContains(tensor.name, "rope_");
}

bool IsBias(const GgufTensor& tensor) {
  return absl::EndsWith(tensor.name, ".bias");
}

// Names a value: its expert where there are several, its row where there are
// several, and its column.
std::string PlaceOf(const GgufTensor& tensor, int64_t index) {
  const int64_t cols = tensor.ne[0];
  const int64_t rows = tensor.ne[1];
  std::string place;
  if (tensor.n_dims > 2) {
    absl::StrAppend(&place, "matrix ", index / (cols * rows), ", ");
  }
  if (tensor.n_dims > 1) {
    absl::StrAppend(&place, "row ", index / cols % rows, ", ");
  }
  absl::StrAppend(&place, "column ", index % cols);
  return place;
}

// The findings of one file.
class TensorFindings {
 public:
  void Add(const GgufTensor& tensor, const TensorValues& values) {
    const auto of = [&](int64_t n) {
      return absl::StrCat(FormatCount(n), " of ", FormatCount(values.n_values),
                          " values ");
    };
    if (values.n_not_finite > 0) {
      Find(CheckState::kFailed, tensor,
           absl::StrCat(of(values.n_not_finite), "are not finite, first in ",
                        PlaceOf(tensor, values.first_not_finite)));
    }
    if (values.n_too_large > 0 && !IsRotationFactor(tensor)) {
      Find(CheckState::kFailed, tensor,
           absl::StrCat(
               of(values.n_too_large), "are larger than ",
               FormatCount(static_cast<int64_t>(worker::kLargestWeight)),
               " (infinite in F16), first in ",
               PlaceOf(tensor, values.first_too_large)));
    }
    AddZeros(tensor, values);
    n_values_ += values.n_values;
    if (IsRotationFactor(tensor)) return;
    largest_ = std::max(largest_, values.largest);
  }

  void AddUnread(const GgufTensor& tensor) {
    Find(CheckState::kNote, tensor,
         absl::StrCat("type ", DTypeName(tensor.dtype),
                      " cannot be read by this build; not checked"));
  }

  Check Finish(size_t n_tensors) && {
    const size_t n_findings = failures_.size() + notes_.size();
    // What fails comes first.
    check_.findings = std::move(failures_);
    std::move(notes_.begin(), notes_.end(),
              std::back_inserter(check_.findings));
    if (n_findings > kMaxFindings) {
      check_.findings.resize(kMaxFindings);
      check_.findings.push_back(
          absl::StrCat("and ", n_findings - kMaxFindings, " more"));
    }
    check_.name = "tensors";
    check_.text =
        absl::StrCat(FormatCount(static_cast<int64_t>(n_tensors)), " tensors, ",
                     FormatCount(n_values_), " values, largest ",
                     absl::StrFormat("%.4g", largest_), Verdict());
    check_.figures = {{"tensors", static_cast<double>(n_tensors)},
                      {"values", static_cast<double>(n_values_)},
                      {"largest", static_cast<double>(largest_)},
                      {"findings_count", static_cast<double>(n_findings)}};
    return std::move(check_);
  }

 private:
  void AddZeros(const GgufTensor& tensor, const TensorValues& values) {
    if (values.n_zero_matrices == 0) return;
    if (values.n_zero_matrices < values.n_matrices) {
      Find(CheckState::kNote, tensor,
           absl::StrCat(values.n_zero_matrices, " of ", values.n_matrices,
                        " matrices are all zero, first matrix ",
                        values.first_zero_matrix));
      return;
    }
    // A bias may well be zero. No training leaves a matrix or a norm of zeros,
    // but a download that broke off does.
    Find(IsBias(tensor) ? CheckState::kNote : CheckState::kFailed, tensor,
         "all values are zero");
  }

  void Find(CheckState state, const GgufTensor& tensor,
            absl::string_view what) {
    check_.Worsen(state);
    (state == CheckState::kFailed ? failures_ : notes_)
        .push_back(absl::StrCat(tensor.name, ": ", what));
  }

  std::string Verdict() const {
    switch (check_.state) {
      case CheckState::kOk:
        return "; all finite";
      case CheckState::kNote:
        return "; see below";
      case CheckState::kFailed:
        return "; damaged: fetch the file again, or compare its checksum";
    }
    return "";
  }

  Check check_;
  int64_t n_values_ = 0;
  std::vector<std::string> failures_;
  std::vector<std::string> notes_;
  float largest_ = 0;
};

}  // namespace

absl::StatusOr<Check> CheckTensors(worker::ModelFile& file, int n_threads,
                                   const ByteFence& fence) {
  const std::vector<GgufTensor>& tensors = file.header().tensors;
  int64_t total = 0;
  for (const GgufTensor& tensor : tensors) total += tensor.bytes;
  kernels::ThreadPool pool(n_threads, kernels::WorkerCpus::kAny);
  TensorFindings findings;
  int64_t done = 0;
  for (const GgufTensor& tensor : tensors) {
    if (kernels::IsWeightType(tensor.dtype)) {
      ASSIGN_OR_RETURN(
          const TensorValues values,
          worker::ReadTensorValues(file, tensor, pool, [&](int64_t bytes_done) {
            return fence(done + bytes_done, total);
          }));
      findings.Add(tensor, values);
    } else {
      findings.AddUnread(tensor);
    }
    done += tensor.bytes;
  }
  RETURN_IF_ERROR(fence(total, total));
  RETURN_IF_ERROR(file.CheckUnchanged());
  return std::move(findings).Finish(tensors.size());
}

}  // namespace plimsoll::cli
