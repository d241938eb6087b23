#include "worker/device/model_file.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/gguf/split_files.h"

namespace plimsoll::worker {
namespace {

// The error with the name of the file that it is about.
absl::Status Named(const std::string& name, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(name, ": ", status.message()));
}

// The names of all files of a model whose first one says that it lies in
// `n_files`.
absl::StatusOr<std::vector<std::string>> NamesOf(
    const std::filesystem::path& path, int64_t n_files) {
  std::vector<std::string> names =
      planner::SplitNames(path.filename().string());
  if (std::ssize(names) == n_files) return names;
  return absl::InvalidArgumentError(
      absl::StrCat("the model lies in ", n_files,
                   " files; name the first one, which must end with -00001-of-",
                   absl::Dec(n_files, absl::kZeroPad5), ".gguf"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ModelFile>> ModelFile::Open(
    const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<ModelFile> file, OpenHeader(path));
  ASSIGN_OR_RETURN(file->shape_, planner::ShapeFromGguf(file->header_));
  return file;
}

absl::StatusOr<planner::GgufHeader> ModelFile::ReadHeader(
    const std::string& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> file, OpenHeader(path));
  return std::move(file->header_);
}

absl::StatusOr<std::unique_ptr<ModelFile>> ModelFile::OpenHeader(
    const std::string& path) {
  std::unique_ptr<ModelFile> file(new ModelFile);
  ASSIGN_OR_RETURN(std::unique_ptr<OpenFile> first, OpenFile::Open(path));
  ASSIGN_OR_RETURN(file->header_, planner::ReadGgufHeader(*first));
  file->offsets_ = {0, first->Size()};
  file->files_.push_back(std::move(first));
  RETURN_IF_ERROR(file->OpenSplits(path));
  return file;
}

absl::Status ModelFile::OpenSplits(const std::string& path) {
  ASSIGN_OR_RETURN(const auto n_files, header_.Int("split.count"));
  if (n_files.value_or(1) <= 1) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<std::string> names,
                   NamesOf(path, *n_files));
  const std::filesystem::path folder =
      std::filesystem::path(path).parent_path();
  std::vector<planner::GgufHeader> parts = {std::move(header_)};
  for (size_t i = 1; i < names.size(); ++i) {
    auto file = OpenFile::Open((folder / names[i]).string());
    if (!file.ok()) return Named(names[i], file.status());
    auto header = planner::ReadGgufHeader(**file);
    if (!header.ok()) return Named(names[i], header.status());
    files_.push_back(*std::move(file));
    parts.push_back(*std::move(header));
  }
  ASSIGN_OR_RETURN(header_, planner::MergeSplits(parts));
  ASSIGN_OR_RETURN(offsets_, planner::SplitOffsets(parts));
  return absl::OkStatus();
}

absl::Status ModelFile::Read(int64_t offset, std::span<std::byte> out) {
  // The file that begins last at or before the offset.
  const auto next = std::ranges::upper_bound(offsets_, offset);
  const auto index = std::clamp<std::ptrdiff_t>(next - offsets_.begin() - 1, 0,
                                                std::ssize(files_) - 1);
  const auto i = static_cast<size_t>(index);
  return files_[i]->Read(offset - offsets_[i], out);
}

int64_t ModelFile::AllBytes() const {
  int64_t bytes = 0;
  for (const std::shared_ptr<OpenFile>& file : files_) bytes += file->Size();
  return bytes;
}

absl::Status ModelFile::ReadAll(
    absl::FunctionRef<absl::Status(std::span<const std::byte>)> take) const {
  std::vector<std::byte> buffer(static_cast<size_t>(kReadBytes));
  for (const std::shared_ptr<OpenFile>& file : files_) {
    for (int64_t offset = 0; offset < file->Size(); offset += kReadBytes) {
      const int64_t bytes = std::min(kReadBytes, file->Size() - offset);
      const std::span<std::byte> piece =
          std::span(buffer).first(static_cast<size_t>(bytes));
      RETURN_IF_ERROR(file->Read(offset, piece));
      RETURN_IF_ERROR(take(piece));
    }
  }
  return absl::OkStatus();
}

absl::Status ModelFile::CheckUnchanged() const {
  for (const std::shared_ptr<OpenFile>& file : files_) {
    RETURN_IF_ERROR(file->CheckUnchanged());
  }
  return absl::OkStatus();
}

absl::StatusOr<ModelMapping> ModelFile::Map() const {
  ModelMapping mapping;
  for (size_t i = 0; i < files_.size(); ++i) {
    RETURN_IF_ERROR(mapping.Add(files_[i], offsets_[i]));
  }
  return mapping;
}

}  // namespace plimsoll::worker
