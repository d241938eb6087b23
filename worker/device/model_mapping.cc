#include "worker/device/model_mapping.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/sync/fault.h"

namespace plimsoll::worker {
namespace {

absl::Status MapError(int error) {
  return absl::ResourceExhaustedError(
      absl::StrCat("the model file cannot be mapped: ", std::strerror(error)));
}

}  // namespace

ModelMapping::~ModelMapping() {
  for (const MappedFile& mapped : files_) {
    munmap(const_cast<std::byte*>(mapped.bytes.data()), mapped.bytes.size());
  }
}

absl::Status ModelMapping::Add(std::shared_ptr<const OpenFile> file,
                               int64_t offset) {
  // A mapping beyond the file's end would have no pages there.
  RETURN_IF_ERROR(file->CheckUnchanged());
  const auto size = static_cast<size_t>(file->Size());
  if (PLIMSOLL_FAULT("model.map")) return MapError(ENOMEM);
  void* const data =
      mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file->descriptor(), 0);
  if (data == MAP_FAILED) return MapError(errno);
  // With huge pages, products read a mapped file faster. A file system that has
  // large folios gives them to what is read from now on; for others, this asks
  // for nothing.
  (void)madvise(data, size, MADV_HUGEPAGE);
  files_.push_back(
      {std::move(file), offset, {static_cast<const std::byte*>(data), size}});
  return absl::OkStatus();
}

std::span<const std::byte> ModelMapping::Bytes(int64_t offset,
                                               int64_t bytes) const {
  // The file that begins last at or before the offset.
  const auto next =
      std::ranges::upper_bound(files_, offset, {}, &MappedFile::offset);
  PLIMSOLL_CHECK(next != files_.begin(), "the first file begins at 0");
  const MappedFile& mapped = *(next - 1);
  const int64_t at = offset - mapped.offset;
  PLIMSOLL_CHECK(at + bytes <= std::ssize(mapped.bytes),
                 "no range that the header names ends behind its file");
  return mapped.bytes.subspan(static_cast<size_t>(at),
                              static_cast<size_t>(bytes));
}

absl::Status ModelMapping::CheckUnchanged() const {
  for (const MappedFile& mapped : files_) {
    RETURN_IF_ERROR(mapped.file->CheckUnchanged());
  }
  return absl::OkStatus();
}

}  // namespace plimsoll::worker
