#include "services/fetch/download.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "services/fetch/fields.h"
#include "services/fetch/source.h"

namespace plimsoll::fetch {
namespace {

constexpr absl::string_view kMagic = "GGUF";
constexpr absl::Duration kLongestPause = absl::Seconds(8);
constexpr absl::Duration kPausePoll = absl::Milliseconds(50);

absl::Status BadReply(const RemoteFile& file, absl::string_view why) {
  return absl::DataLossError(
      absl::StrCat("'", file.name, "': the server ", why));
}

// Sizes of a file before a request for it.
struct BytesBefore {
  // A list says it of the file; else -1. What an earlier reply said may have
  // changed.
  int64_t listed;
  int64_t fetched;
};

// Takes the reply to one request for a file, or for the rest of it.
class PartialSink final : public ReplySink {
 public:
  PartialSink(RemoteFile& file, PartialFile& partial, const FetchHooks& hooks,
              const BytesBefore& before)
      : file_(file), partial_(partial), hooks_(hooks), before_(before) {}

  // Hubs say in a redirect what the file behind it is.
  absl::Status OnRedirect(const ReplyHead& head) override {
    const std::string digest(absl::StripSuffix(
        absl::StripPrefix(head.Field("X-Linked-ETag"), "\""), "\""));
    if (!IsSha256(digest)) return absl::OkStatus();
    if (!file_.sha256.empty() && file_.sha256 != digest) {
      return absl::DataLossError(
          absl::StrCat("'", file_.name, "' should have the SHA-256 ",
                       file_.sha256, ", but the server has one with ", digest));
    }
    file_.sha256 = digest;
    return absl::OkStatus();
  }

  absl::Status OnHead(const ReplyHead& head) override;
  absl::Status OnBody(absl::string_view bytes) override;

  // True if the reply said that the partial file is the whole file already.
  bool is_whole() const { return is_whole_; }
  // True if the reply has the file, or a partial file of it.
  bool is_file() const { return is_file_; }

 private:
  absl::Status TakeWhole(const ReplyHead& head);
  absl::Status TakeRest(const ReplyHead& head);
  absl::Status TakeLength(std::optional<int64_t> bytes);

  RemoteFile& file_;
  PartialFile& partial_;
  const FetchHooks& hooks_;
  BytesBefore before_;
  bool is_whole_ = false;
  bool is_file_ = false;
};

absl::Status PartialSink::TakeLength(std::optional<int64_t> bytes) {
  if (!bytes.has_value()) return absl::OkStatus();
  if (*bytes > kMaxRemoteFileBytes) {
    return BadReply(file_, absl::StrCat("says that it has ", *bytes,
                                        " bytes, which is too many"));
  }
  if (file_.bytes >= 0 && file_.bytes != *bytes) {
    return BadReply(file_,
                    absl::StrCat("says that it has ", *bytes,
                                 " bytes, but it should have ", file_.bytes));
  }
  file_.bytes = *bytes;
  return partial_.Reserve(*bytes);
}

absl::Status PartialSink::TakeWhole(const ReplyHead& head) {
  if (partial_.size() > 0) {
    hooks_.note(
        absl::StrCat(file_.name, ": the server sends it from the beginning"));
    RETURN_IF_ERROR(partial_.Restart());
    before_.fetched = 0;
  }
  file_.bytes = before_.listed;
  RETURN_IF_ERROR(TakeLength(head.Length()));
  return partial_.SetOrigin({.url = file_.url.Place(),
                             .etag = StrongETag(head.Field("ETag")),
                             .sha256 = file_.sha256,
                             .bytes = file_.bytes});
}

absl::Status PartialSink::TakeRest(const ReplyHead& head) {
  const std::optional<ContentRange> range =
      ParseContentRange(head.Field("Content-Range"));
  const bool is_range = range.has_value() && range->first == partial_.size();
  // With a digest, other servers of one file may name it in other ways.
  const bool is_same = !file_.sha256.empty() ||
                       StrongETag(head.Field("ETag")) == partial_.origin().etag;
  if (!is_range || !is_same) {
    RETURN_IF_ERROR(partial_.Restart());
    return absl::UnavailableError(
        absl::StrCat("'", file_.name, "': the server sends ",
                     is_range ? "the rest of another file"
                              : "another range than the one asked for"));
  }
  return TakeLength(range->total);
}

absl::Status PartialSink::OnHead(const ReplyHead& head) {
  if (const absl::string_view coding = head.Field("Content-Encoding");
      !coding.empty() && coding != "identity") {
    return BadReply(file_, absl::StrCat("encodes it (", coding.substr(0, 40),
                                        "), which was not asked for"));
  }
  if (head.status == 200) {
    is_file_ = true;
    return TakeWhole(head);
  }
  if (head.status == 206 && partial_.size() > 0) {
    is_file_ = true;
    return TakeRest(head);
  }
  if (head.status == 416 && partial_.size() > 0) {
    const std::optional<ContentRange> range =
        ParseContentRange(head.Field("Content-Range"));
    is_whole_ = range.has_value() && range->total == partial_.size();
    if (is_whole_) return TakeLength(range->total);
    // What is there is no beginning of the file.
    return partial_.Restart();
  }
  return StatusOfReply(head, absl::StrCat("'", file_.name, "'"));
}

absl::Status PartialSink::OnBody(absl::string_view bytes) {
  if (!is_file_) return absl::OkStatus();
  const int64_t most = file_.bytes >= 0 ? file_.bytes : kMaxRemoteFileBytes;
  if (static_cast<int64_t>(bytes.size()) > most - partial_.size()) {
    return BadReply(file_,
                    absl::StrCat("sends more than the ", most, " bytes of it"));
  }
  if (partial_.size() == 0 && bytes.size() >= kMagic.size() &&
      !absl::StartsWith(bytes, kMagic)) {
    return absl::DataLossError(
        absl::StrCat("'", file_.name, "' is no GGUF file: it begins with \"",
                     absl::CHexEscape(bytes.substr(0, 16)), "\""));
  }
  RETURN_IF_ERROR(partial_.Append(bytes));
  hooks_.progress(file_.name, partial_.size(), file_.bytes, before_.fetched);
  return absl::OkStatus();
}

// Decides whether the partial file's bytes may be the beginning of the file,
// and says what to ask for.
absl::StatusOr<std::vector<std::string>> RangeFields(const RemoteFile& file,
                                                     PartialFile& partial,
                                                     const FetchHooks& hooks) {
  std::vector<std::string> fields = {"Accept-Encoding: identity"};
  if (partial.size() == 0) return fields;
  const PartialOrigin& origin = partial.origin();
  const bool has_digest = !file.sha256.empty() && origin.sha256 == file.sha256;
  const bool is_longer = file.bytes >= 0 && partial.size() > file.bytes;
  const bool has_validator =
      !origin.etag.empty() && origin.url == file.url.Place();
  if (is_longer || (!has_digest && !has_validator)) {
    hooks.note(
        absl::StrCat(file.name,
                     ": nothing tells whether the part is of the same file; it "
                     "is fetched from the beginning"));
    RETURN_IF_ERROR(partial.Restart());
    return fields;
  }
  fields.push_back(absl::StrCat("Range: bytes=", partial.size(), "-"));
  if (has_validator) {
    fields.push_back(absl::StrCat("If-Range: ", origin.etag));
  }
  return fields;
}

absl::Status Pause(absl::Duration time, const FetchHooks& hooks) {
  for (; time > absl::ZeroDuration(); time -= kPausePoll) {
    RETURN_IF_ERROR(hooks.check());
    absl::SleepFor(std::min(time, kPausePoll));
  }
  return absl::OkStatus();
}

bool IsComplete(const RemoteFile& file, const PartialFile& partial) {
  return file.bytes >= 0 && partial.size() == file.bytes;
}

}  // namespace

absl::Status Download(FetchSession& session, RemoteFile& file,
                      PartialFile& partial, const FetchHooks& hooks) {
  absl::Duration pause = hooks.first_pause;
  const int64_t listed_bytes = file.bytes;
  const int64_t bytes_before = partial.size();
  bool was_reached = false;
  int n_idle = 0;
  // A partial file that is whole is checked, not asked for.
  while (!(IsComplete(file, partial) && !file.sha256.empty() &&
           partial.origin().sha256 == file.sha256)) {
    ASSIGN_OR_RETURN(const std::vector<std::string> fields,
                     RangeFields(file, partial, hooks));
    const int64_t size = partial.size();
    PartialSink sink(
        file, partial, hooks,
        {.listed = listed_bytes, .fetched = std::min(size, bytes_before)});
    absl::Status status =
        session.Get(file.url, fields, absl::InfiniteDuration(), sink);
    if (status.ok() && sink.is_whole()) break;
    if (status.ok() && sink.is_file()) {
      if (file.bytes < 0 || IsComplete(file, partial)) break;
    } else if (!status.ok() && !absl::IsUnavailable(status)) {
      return status;
    }
    was_reached = was_reached || sink.is_file();
    if (!was_reached && !status.ok()) return status;
    const bool is_idle = partial.size() <= size;
    n_idle = is_idle ? n_idle + 1 : 0;
    pause = is_idle ? std::min(pause * 2, kLongestPause) : hooks.first_pause;
    if (n_idle >= kMaxIdleAttempts) {
      return status.ok() ? BadReply(file, "never sends all of it") : status;
    }
    hooks.note(absl::StrCat(file.name, ": broke off at ", partial.size(),
                            " bytes, going on"));
    RETURN_IF_ERROR(Pause(pause, hooks));
  }
  file.bytes = partial.size();
  return absl::OkStatus();
}

absl::Status CheckDigest(RemoteFile& file, PartialFile& partial,
                         const FetchHooks& hooks) {
  ASSIGN_OR_RETURN(const std::string digest, partial.Digest(hooks.check));
  if (!file.sha256.empty() && digest != file.sha256) {
    partial.Discard();
    return absl::DataLossError(absl::StrCat(
        "'", file.name, "' came with the SHA-256 ", digest,
        ", but should have ", file.sha256, "; what came was deleted"));
  }
  file.sha256 = digest;
  return absl::OkStatus();
}

}  // namespace plimsoll::fetch
