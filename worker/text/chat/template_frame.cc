#include "worker/text/chat/template_frame.h"

#include <algorithm>
#include <optional>
#include <span>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace plimsoll::worker {
namespace {

// A template's text as an error shows it.
std::string Quoted(absl::string_view text) {
  constexpr size_t kShownBytes = 60;
  return absl::StrCat("\"", absl::Utf8SafeCEscape(text.substr(0, kShownBytes)),
                      text.size() > kShownBytes ? "...\"" : "\"");
}

absl::Status Uncut(absl::string_view why) {
  return absl::UnimplementedError(
      absl::StrCat("the model's template cannot be cut into turns: ", why));
}

// The error of a rendering as one of Find, unless nothing was rendered.
absl::Status Unrendered(const absl::Status& status) {
  if (!absl::IsInvalidArgument(status)) return status;
  return Uncut(absl::StrCat("it refuses a conversation: ", status.message()));
}

// Where the parts of one turn are in a rendering.
struct TurnPlace {
  size_t message;  // where the message begins
  size_t reply;    // where the reply begins
  size_t reply_end;
};

// Reads the parts of a rendering of PlainTurns from its end to its beginning.
class PlainReader {
 public:
  explicit PlainReader(const MarkedText& rendered)
      : rendered_(rendered), segments_(rendered.Segments(0, rendered.size())) {}

  // Takes the scaffold at the end, which may be empty.
  std::string TakeScaffold() {
    if (segments_.empty() || !segments_.back().is_scaffold) return "";
    std::string text = std::move(segments_.back().text);
    segments_.pop_back();
    n_taken_ += text.size();
    return text;
  }
  // Takes `content` at the end. Returns whether it is there.
  bool TakeContent(absl::string_view content) {
    if (segments_.empty() || segments_.back().is_scaffold ||
        segments_.back().text != content) {
      return false;
    }
    segments_.pop_back();
    n_taken_ += content.size();
    return true;
  }
  MarkedText Rest() const {
    return rendered_.Slice(0, rendered_.size() - n_taken_);
  }

 private:
  const MarkedText& rendered_;
  std::vector<ChatSegment> segments_;
  size_t n_taken_ = 0;
};

// Finds the parts in a rendering of `turns`.
absl::StatusOr<FrameText> FindFrame(const MarkedText& rendered,
                                    std::span<const ProbeTurn> turns) {
  PlainReader reader(rendered);
  const std::string prompt = reader.TakeScaffold();
  FrameText frame;
  for (size_t i = turns.size(); i-- > 0;) {
    if (i + 1 < turns.size()) {
      std::string after_reply = reader.TakeScaffold();
      const bool has_reply = reader.TakeContent(turns[i].reply);
      std::string after_user = reader.TakeScaffold();
      if (!has_reply) {
        return Uncut(absl::StrCat("it does not show the reply ",
                                  Quoted(turns[i].reply), " as it is"));
      }
      if (i + 2 == turns.size()) {
        frame.after_reply = std::move(after_reply);
        frame.after_user = std::move(after_user);
      } else if (after_reply != frame.after_reply ||
                 after_user != frame.after_user) {
        return Uncut(absl::StrCat(
            "it looks back: between turns it has ",
            Quoted(absl::StrCat(after_user, " ... ", after_reply)),
            " in one place and ",
            Quoted(absl::StrCat(frame.after_user, " ... ", frame.after_reply)),
            " in another"));
      }
    }
    if (!reader.TakeContent(turns[i].message)) {
      return Uncut(absl::StrCat("it does not show the message ",
                                Quoted(turns[i].message), " as it is"));
    }
  }
  if (prompt != frame.after_user) {
    return Uncut(absl::StrCat("replies begin behind ", Quoted(prompt),
                              ", but earlier ones stand behind ",
                              Quoted(frame.after_user)));
  }
  frame.opening = reader.Rest();
  return frame;
}

// Finds where turns are cut: behind control tokens, where no word goes on.
absl::Status FindBorders(const Tokenizer& tokenizer, StopCheck stop,
                         FrameText& frame) {
  ASSIGN_OR_RETURN(const std::vector<ScaffoldToken> after,
                   FindControlTokens(tokenizer, frame.after_reply, stop));
  if (after.empty() || after.front().begin != 0 ||
      !tokenizer.IsEnd(after.front().id)) {
    return Uncut(absl::StrCat("behind a reply it has ",
                              Quoted(frame.after_reply),
                              ", which does not begin with a token that ends a "
                              "reply of this model"));
  }
  frame.before_user = frame.after_reply.substr(after.back().end);
  // The opening's scaffold behind its last content.
  const std::vector<ChatSegment> segments =
      frame.opening.Segments(0, frame.opening.size());
  const bool has_scaffold = !segments.empty() && segments.back().is_scaffold;
  const std::string last = has_scaffold ? segments.back().text : "";
  ASSIGN_OR_RETURN(const std::vector<ScaffoldToken> before,
                   FindControlTokens(tokenizer, last, stop));
  // Without a control token, the text's beginning is a border.
  const bool is_whole = last.size() == frame.opening.size();
  const std::string first = last.substr(before.empty() ? 0 : before.back().end);
  if ((before.empty() && !is_whole) || first != frame.before_user) {
    return Uncut(absl::StrCat(
        "the first message stands behind ", Quoted(first),
        before.empty() && !is_whole ? " and the system message" : "",
        ", and later ones behind ", Quoted(frame.before_user)));
  }
  return absl::OkStatus();
}

// Finds the turns in a rendering. Errors: kUnimplemented if the rendering is
// not the frame's parts with the turns between them.
absl::StatusOr<std::vector<TurnPlace>> FindTurns(
    const FrameText& frame, const MarkedText& rendered,
    std::span<const ProbeTurn> turns) {
  if (!rendered.HasAt(0, frame.opening)) {
    return Uncut(
        "it looks back: what is before the first message depends on "
        "what comes later");
  }
  std::vector<TurnPlace> places;
  places.reserve(turns.size());
  size_t at = frame.opening.size();
  // Steps over one message or reply and what follows it.
  const auto take = [&](absl::string_view what, absl::string_view written,
                        absl::string_view after) -> absl::StatusOr<size_t> {
    const size_t end = rendered.ContentEnd(at);
    const bool is_shown =
        IsShownAs(written, rendered.text().substr(at, end - at));
    if (!is_shown || !rendered.HasScaffoldAt(end, after)) {
      return Uncut(absl::StrCat("it does not show the ", what, " ",
                                Quoted(written), " as it is"));
    }
    at = end + after.size();
    return end;
  };
  for (size_t i = 0; i < turns.size(); ++i) {
    TurnPlace place = {.message = at, .reply = 0, .reply_end = 0};
    RETURN_IF_ERROR(
        take("message", turns[i].message, frame.after_user).status());
    place.reply = at;
    place.reply_end = at;
    if (i + 1 < turns.size()) {
      ASSIGN_OR_RETURN(place.reply_end,
                       take("reply", turns[i].reply, frame.after_reply));
    }
    places.push_back(place);
  }
  if (at != rendered.size()) {
    return Uncut(
        "it writes more behind the last message than a reply's "
        "beginning");
  }
  return places;
}

// Some numbers of [1, n): the smallest, the largest and one between them.
std::vector<size_t> SomeOf(size_t n) {
  std::vector<size_t> some = {1, n / 2, n - 2, n - 1};
  std::sort(some.begin(), some.end());
  some.erase(std::unique(some.begin(), some.end()), some.end());
  return some;
}

// A rendering, with the places of its turns.
struct PlacedTurns {
  const MarkedText& whole;
  std::span<const TurnPlace> places;
};

// Checks that the pieces of a rendering have the tokens of the whole.
absl::Status CheckTokens(const ProbeRenderer& renderer, const FrameText& frame,
                         const PlacedTurns& placed) {
  const Tokenizer& tokenizer = renderer.tokenizer;
  const MarkedText& whole = placed.whole;
  const EncodeLimits limits = {.stop = renderer.stop};
  ASSIGN_OR_RETURN(
      std::vector<int32_t> pieces,
      EncodeTemplated(tokenizer, whole.Segments(0, frame.opening_end()),
                      limits));
  const auto append = [&](size_t begin, size_t end) -> absl::Status {
    ASSIGN_OR_RETURN(
        const std::vector<int32_t> ids,
        EncodeTemplatedText(tokenizer, whole.Segments(begin, end), limits));
    pieces.insert(pieces.end(), ids.begin(), ids.end());
    return absl::OkStatus();
  };
  size_t at = frame.opening_end();
  for (const TurnPlace& place : placed.places) {
    RETURN_IF_ERROR(append(at, place.reply_end));
    at = std::min(place.reply_end + frame.reply_end(), whole.size());
    RETURN_IF_ERROR(append(place.reply_end, at));
  }
  ASSIGN_OR_RETURN(
      const std::vector<int32_t> ids,
      EncodeTemplated(tokenizer, whole.Segments(0, whole.size()), limits));
  if (ids == pieces) return absl::OkStatus();
  return Uncut("its turns have other tokens one by one than together");
}

absl::StatusOr<MarkedText> Rendered(const ProbeRenderer& renderer,
                                    std::span<const ProbeTurn> turns) {
  auto rendered = renderer.Render(turns);
  if (!rendered.ok()) return Unrendered(rendered.status());
  return rendered;
}

// Checks that each turn is the same alone, and in front of the last one, as it
// is in the whole rendering.
absl::Status CheckEach(const ProbeRenderer& renderer, const FrameText& frame,
                       std::span<const ProbeTurn> turns,
                       const PlacedTurns& placed) {
  const auto& [whole, places] = placed;
  for (size_t i = 0; i + 1 < turns.size(); ++i) {
    MarkedText alone = frame.opening;
    alone.Append(whole.Slice(places[i].message, places[i].reply));
    MarkedText two = frame.opening;
    two.Append(whole.Slice(places[i].message, places[i + 1].message));
    two.Append(whole.Slice(places.back().message, whole.size()));
    ASSIGN_OR_RETURN(const MarkedText first,
                     Rendered(renderer, turns.subspan(i, 1)));
    const ProbeTurn both[] = {turns[i], turns.back()};
    ASSIGN_OR_RETURN(const MarkedText second, Rendered(renderer, both));
    if (first != alone || second != two) {
      return Uncut(absl::StrCat("it looks back: it renders the turn of ",
                                Quoted(turns[i].message),
                                " differently among others"));
    }
  }
  return absl::OkStatus();
}

// Checks that a conversation is what its turns are one by one: after each turn,
// and when the oldest turns have left.
absl::Status CheckTurns(const ProbeRenderer& renderer, const FrameText& frame,
                        std::span<const ProbeTurn> turns) {
  ASSIGN_OR_RETURN(const MarkedText whole, Rendered(renderer, turns));
  ASSIGN_OR_RETURN(const std::vector<TurnPlace> places,
                   FindTurns(frame, whole, turns));
  for (const size_t n : SomeOf(turns.size())) {
    ASSIGN_OR_RETURN(const MarkedText earlier,
                     Rendered(renderer, turns.first(n)));
    if (earlier != whole.Slice(0, places[n - 1].reply)) {
      return Uncut(
          "it looks back: it renders turns differently when more turns follow");
    }
    ASSIGN_OR_RETURN(const MarkedText kept,
                     Rendered(renderer, turns.subspan(n)));
    MarkedText expected = frame.opening;
    expected.Append(whole.Slice(places[n].message, whole.size()));
    if (kept != expected) {
      return Uncut(
          "it renders turns differently when the turns before them have left");
    }
  }
  const PlacedTurns placed = {whole, places};
  RETURN_IF_ERROR(CheckEach(renderer, frame, turns, placed));
  return CheckTokens(renderer, frame, placed);
}

}  // namespace

TemplateFrame::TemplateFrame(std::shared_ptr<const ModelTemplate> program,
                             const ChatBeginning& chat)
    : program_(std::move(program)),
      system_(chat.system != nullptr ? std::make_optional(*chat.system)
                                     : std::nullopt),
      now_(chat.now) {}

absl::StatusOr<std::shared_ptr<const TemplateFrame>> TemplateFrame::Find(
    const Tokenizer& tokenizer, std::shared_ptr<const ModelTemplate> program,
    const ChatBeginning& chat, const EncodeLimits& limits) {
  if (chat.system != nullptr) {
    RETURN_IF_ERROR(tokenizer.CheckFits(tokenizer.LeastBytes(*chat.system),
                                        limits.max_tokens));
  }
  const std::vector<std::string>& strings = program->strings();
  const auto n_probes =
      std::count_if(strings.begin(), strings.end(), [](absl::string_view text) {
        return !text.empty() && text.size() <= kMaxProbeBytes;
      });
  if (n_probes > static_cast<ptrdiff_t>(kMaxProbes)) {
    return Uncut(absl::StrCat("it has ", n_probes,
                              " different constants, more than ", kMaxProbes));
  }
  const std::shared_ptr<TemplateFrame> frame(
      new TemplateFrame(std::move(program), chat));
  const ProbeRenderer renderer = {.tokenizer = tokenizer,
                                  .program = *frame->program_,
                                  .system = chat.system,
                                  .now = chat.now,
                                  .stop = limits.stop};
  const std::vector<ProbeTurn> plain = PlainTurns(4);
  const auto rendered = renderer.Render(plain);
  if (!rendered.ok()) return Unrendered(rendered.status());
  ASSIGN_OR_RETURN(frame->text_, FindFrame(*rendered, plain));
  const FrameText& text = frame->text_;
  RETURN_IF_ERROR(FindBorders(tokenizer, limits.stop, frame->text_));
  RETURN_IF_ERROR(CheckTurns(renderer, text, plain));
  RETURN_IF_ERROR(CheckTurns(renderer, text,
                             TellingTurns(*frame->program_, kMaxProbeBytes)));
  ASSIGN_OR_RETURN(
      frame->ids_.opening,
      EncodeTemplated(tokenizer, text.opening.Segments(0, text.opening_end()),
                      limits));
  MarkedText after;
  after.AppendScaffold(text.after_reply);
  ASSIGN_OR_RETURN(
      frame->ids_.after_reply,
      EncodeTemplatedText(tokenizer, after.Segments(0, text.reply_end()),
                          {.stop = limits.stop}));
  return std::shared_ptr<const TemplateFrame>(frame);
}

absl::StatusOr<MarkedText> TemplateFrame::RenderTurn(const Tokenizer& tokenizer,
                                                     const ProbeTurn& turn,
                                                     bool has_reply,
                                                     StopCheck stop) const {
  const ProbeRenderer renderer = {
      .tokenizer = tokenizer,
      .program = *program_,
      .system = system_.has_value() ? &*system_ : nullptr,
      .now = now_,
      .stop = stop};
  std::vector<ProbeTurn> turns = {PlainTurns(1)[0], turn};
  MarkedText before = text_.opening;
  before.AppendContent(turns[0].message);
  before.AppendScaffold(text_.after_user);
  before.AppendContent(turns[0].reply);
  before.AppendScaffold(text_.after_reply);
  MarkedText after;
  if (has_reply) {
    turns.push_back({"the next message", ""});
    after.AppendScaffold(text_.after_reply);
    after.AppendContent(turns[2].message);
  }
  after.AppendScaffold(text_.after_user);
  const std::span<const ProbeTurn> all(turns);
  ASSIGN_OR_RETURN(const MarkedText first, renderer.Render(all.subspan(1)));
  ASSIGN_OR_RETURN(const MarkedText second, renderer.Render(all));
  const size_t begin = text_.opening.size();
  if (first.size() >= begin + after.size()) {
    const size_t end = first.size() - after.size();
    MarkedText expected = std::move(before);
    expected.Append(first.Slice(begin, first.size()));
    if (first.HasAt(0, text_.opening) && first.HasAt(end, after) &&
        second == expected) {
      return first.Slice(begin, has_reply ? end : first.size());
    }
  }
  return absl::InvalidArgumentError(
      "message: the model's template renders it differently in other turns");
}

absl::StatusOr<std::vector<int32_t>> TemplateFrame::Encode(
    const Tokenizer& tokenizer, const ProbeTurn& turn, bool has_reply,
    const EncodeLimits& limits) const {
  RETURN_IF_ERROR(tokenizer.CheckFits(
      tokenizer.LeastBytes(turn.message) + tokenizer.LeastBytes(turn.reply),
      limits.max_tokens));
  ASSIGN_OR_RETURN(const MarkedText rendered,
                   RenderTurn(tokenizer, turn, has_reply, limits.stop));
  MarkedText whole;
  whole.AppendScaffold(text_.before_user);
  whole.Append(rendered);
  return EncodeTemplatedText(tokenizer, whole.Segments(0, whole.size()),
                             limits);
}

absl::StatusOr<std::vector<int32_t>> TemplateFrame::EncodeMessage(
    const Tokenizer& tokenizer, const std::string& message,
    const EncodeLimits& limits) const {
  return Encode(tokenizer, {message, ""}, /*has_reply=*/false, limits);
}

absl::StatusOr<std::vector<int32_t>> TemplateFrame::EncodeTurn(
    const Tokenizer& tokenizer, const std::string& message,
    const std::string& reply, const EncodeLimits& limits) const {
  return Encode(tokenizer, {message, reply}, /*has_reply=*/true, limits);
}

}  // namespace plimsoll::worker
