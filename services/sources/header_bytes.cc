#include "services/sources/header_bytes.h"

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/gguf/gguf_writer.h"
#include "planner/gguf/prefix_source.h"

namespace plimsoll::services {
namespace {

using planner::GgufArray;
using planner::GgufType;
using planner::GgufValue;

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 60;

// True if the value is sent.
bool Keep(absl::string_view key, const GgufValue& value) {
  if (absl::StartsWith(key, "tokenizer.") ||
      absl::StartsWith(key, "plimsoll.vocab.")) {
    return false;
  }
  if (const auto* text = std::get_if<std::string>(&value.value)) {
    return static_cast<int64_t>(text->size()) <= kMaxHeaderStringBytes;
  }
  if (const auto* array = std::get_if<GgufArray>(&value.value)) {
    return !array->numbers.empty();
  }
  return true;
}

}  // namespace

std::string HeaderBytes(const planner::GgufHeader& header,
                        const planner::VocabShape& vocab) {
  planner::GgufWriter writer;
  for (const auto& [key, value] : header.metadata) {
    if (Keep(key, value)) writer.Add(key, value);
  }
  writer.Add("plimsoll.vocab.model", {GgufType::kString, vocab.model});
  const std::pair<absl::string_view, int64_t> counts[] = {
      {"plimsoll.vocab.n_tokens", vocab.n_tokens},
      {"plimsoll.vocab.token_bytes", vocab.token_bytes},
      {"plimsoll.vocab.n_merges", vocab.n_merges},
      {"plimsoll.vocab.merge_bytes", vocab.merge_bytes}};
  for (const auto& [key, count] : counts) {
    writer.Add(key, {GgufType::kU64, static_cast<uint64_t>(count)});
  }
  for (const planner::GgufTensor& tensor : header.tensors) {
    writer.AddTensor(tensor);
  }
  return writer.Finish();
}

absl::StatusOr<planner::ModelShape> ShapeFromHeaderBytes(
    absl::string_view bytes, uint64_t file_bytes) {
  const auto size = static_cast<int64_t>(bytes.size());
  if (size > kMaxHeaderBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("header.gguf has ", size, " bytes, at most ",
                     kMaxHeaderBytes, " are accepted"));
  }
  if (file_bytes < bytes.size() || file_bytes > kMaxFileBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "header.file_bytes ", file_bytes,
        " cannot be the size of a file with this header of ", size, " bytes"));
  }
  // The header with the counts of a small vocabulary may be longer than the
  // file's.
  planner::PrefixSource source(
      std::as_bytes(std::span(bytes.data(), bytes.size())),
      static_cast<int64_t>(file_bytes) + size);
  const auto header = planner::ReadGgufHeader(source);
  if (!header.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("header.gguf: ", header.status().message()));
  }
  return planner::ShapeFromGguf(*header);
}

}  // namespace plimsoll::services
