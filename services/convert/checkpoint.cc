#include "services/convert/checkpoint.h"

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/gguf/gguf_stream.h"
#include "services/convert/input.h"

namespace plimsoll::services {
namespace {

constexpr char kSingle[] = "model.safetensors";
constexpr char kIndex[] = "model.safetensors.index.json";
constexpr int kMaxIndexDepth = 3;

// Puts the name of a file in front of an error about it.
absl::Status About(absl::string_view file, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(file, ": ", status.message()));
}

// The index lies in the same folder as the files that it names.
bool IsPlainName(absl::string_view name) {
  return absl::EndsWith(name, ".safetensors") &&
         !absl::StrContains(name, '/') && !absl::StrContains(name, '\0');
}

// Which file has each tensor, by the index.
using Places = std::map<std::string, std::string>;

absl::StatusOr<Places> ReadIndex(absl::string_view text) {
  ASSIGN_OR_RETURN(const Json json, ParseObject(kIndex, text, kMaxIndexDepth));
  const Json& map = MemberOf(json, "weight_map");
  if (!map.is_object() || map.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(kIndex, " has no \"weight_map\""));
  }
  Places places;
  for (const auto& [tensor, file] : map.items()) {
    if (!file.is_string() || !IsPlainName(file.get_ref<const std::string&>())) {
      return absl::InvalidArgumentError(
          absl::StrCat(kIndex, ": tensor ", planner::Quoted(tensor),
                       " is in no safetensors file of this folder"));
    }
    places[tensor] = file.get<std::string>();
  }
  return places;
}

absl::Status NoWeights(const std::string& folder) {
  std::error_code error;
  const std::filesystem::path torch =
      std::filesystem::path(folder) / "pytorch_model.bin";
  const bool has_torch = std::filesystem::exists(torch, error);
  return absl::NotFoundError(absl::StrCat(
      "'", folder, "' has neither ", kSingle, " nor ", kIndex,
      has_torch ? "; pytorch_model.bin is not read: save the model as "
                  "safetensors first"
                : ""));
}

}  // namespace

absl::StatusOr<Checkpoint> Checkpoint::Open(const std::string& folder) {
  ASSIGN_OR_RETURN(const std::optional<std::string> index,
                   ReadSmallFile(folder, kIndex, kMaxIndexBytes));
  Checkpoint checkpoint;
  if (!index) {
    const absl::Status status = checkpoint.AddFile(folder, kSingle);
    if (absl::IsNotFound(status)) return NoWeights(folder);
    RETURN_IF_ERROR(status);
    return checkpoint;
  }
  ASSIGN_OR_RETURN(Places places, ReadIndex(*index));
  std::set<std::string> names;
  for (const auto& [tensor, file] : places) names.insert(file);
  if (names.size() > kMaxShards) {
    return absl::InvalidArgumentError(absl::StrCat(
        kIndex, " names ", names.size(), " files, more than ", kMaxShards));
  }
  for (const std::string& name : names) {
    RETURN_IF_ERROR(checkpoint.AddFile(folder, name));
  }
  for (const Tensor& tensor : checkpoint.tensors_) {
    const auto it = places.find(tensor.safe.name);
    if (it == places.end() ||
        it->second != checkpoint.files_[tensor.file].name) {
      return absl::InvalidArgumentError(absl::StrCat(
          kIndex, " does not say that ", checkpoint.files_[tensor.file].name,
          " has tensor ", planner::Quoted(tensor.safe.name)));
    }
    places.erase(it);
  }
  if (places.empty()) return checkpoint;
  return absl::DataLossError(absl::StrCat(
      places.begin()->second, " lacks tensor ",
      planner::Quoted(places.begin()->first), ", which ", kIndex, " names"));
}

absl::Status Checkpoint::AddFile(const std::string& folder,
                                 const std::string& name) {
  auto source =
      worker::OpenFile::Open((std::filesystem::path(folder) / name).string());
  if (!source.ok()) return About(name, source.status());
  const auto tensors = ReadSafetensors(**source);
  if (!tensors.ok()) return About(name, tensors.status());
  for (const SafeTensor& tensor : *tensors) {
    tensors_.push_back({tensor, files_.size()});
  }
  files_.push_back({name, *std::move(source)});
  return absl::OkStatus();
}

absl::Status Checkpoint::Read(const Tensor& tensor, int64_t offset,
                              std::span<std::byte> out) const {
  const File& file = files_[tensor.file];
  const absl::Status status =
      file.source->Read(tensor.safe.offset + offset, out);
  return status.ok() ? status : About(file.name, status);
}

absl::Status Checkpoint::CheckUnchanged() const {
  for (const File& file : files_) {
    const absl::Status status = file.source->CheckUnchanged();
    if (!status.ok()) return About(file.name, status);
  }
  return absl::OkStatus();
}

}  // namespace plimsoll::services
