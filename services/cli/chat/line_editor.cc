#include "services/cli/chat/line_editor.h"

#include <histedit.h>
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cwchar>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "services/cli/chat/history_file.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/interrupt.h"
#include "services/cli/terminal/terminal.h"

namespace plimsoll::cli {
namespace {

// libedit reads characters of the process's locale. Text here is UTF-8.
void UseUtf8() {
  const char* locale = std::setlocale(LC_CTYPE, "");
  if (locale == nullptr || !LocaleIsUtf8(locale)) {
    std::setlocale(LC_CTYPE, "C.UTF-8");
  }
}

class LineEditor final : public LineReader {
 public:
  LineEditor(const std::string& history_path, const Style& style)
      : style_(style),
        file_(history_path.empty()
                  ? nullptr
                  : std::make_unique<HistoryFile>(history_path)),
        history_(history_init()),
        edit_(el_init("plimsoll", stdin, stderr, stderr)) {
    if (!IsUsable()) return;
    HistEvent event;
    history(history_, &event, H_SETSIZE,
            static_cast<int>(HistoryFile::kMaxLines));
    history(history_, &event, H_SETUNIQUE, 1);
    el_set(edit_, EL_CLIENTDATA, this);
    el_set(edit_, EL_PROMPT_ESC, &LineEditor::Prompt, kEscapeMark);
    el_set(edit_, EL_EDITOR, "emacs");
    el_set(edit_, EL_HIST, history, history_);
    // Its handlers are for programs of one thread, so signals are handled here.
    el_set(edit_, EL_SIGNAL, 0);
    el_set(edit_, EL_ADDFN, "suspend", "Stop until the shell goes on",
           &LineEditor::Suspend);
    el_set(edit_, EL_BIND, "^Z", "suspend", nullptr);
    el_set(edit_, EL_GETCFN, &LineEditor::ReadCharacter);
    el_set(edit_, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    ReadHistory();
  }
  ~LineEditor() override {
    if (edit_ != nullptr) el_end(edit_);
    if (history_ != nullptr) history_end(history_);
  }
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  bool IsUsable() const { return history_ != nullptr && edit_ != nullptr; }

  absl::StatusOr<std::optional<std::string>> Read(
      const std::string& prompt) override {
    prompt_ = Escaped(prompt);
    // libedit sets the terminal's modes anew, and its width may be another.
    has_keys_ = false;
    columns_ = 0;
    const InterruptScope interrupts;
    int n_bytes = 0;
    errno = 0;
    const char* typed = el_gets(edit_, &n_bytes);
    if (typed == nullptr || n_bytes <= 0) {
      const bool is_interrupted = n_bytes < 0 && errno == EINTR;
      std::fputs(is_interrupted ? "^C\n" : "\n", stderr);
      if (is_interrupted) return InterruptedError();
      return std::nullopt;
    }
    std::string line(
        absl::StripSuffix({typed, static_cast<size_t>(n_bytes)}, "\n"));
    Keep(line);
    return line;
  }

 private:
  // Around bytes of the prompt that take no columns.
  static constexpr char kEscapeMark = '\1';

  // The prompt in bold. libedit drops bytes of no columns at its end, so the
  // blank that it ends with comes last.
  std::string Escaped(absl::string_view prompt) const {
    if (!style_.color) return std::string(prompt);
    const absl::string_view shown = absl::StripSuffix(prompt, " ");
    const std::string painted = Paint(style_, Color::kBold, shown);
    const absl::string_view all = painted;
    const size_t at = all.find(shown);
    const std::string mark(1, kEscapeMark);
    return absl::StrCat(mark, all.substr(0, at), mark, shown, mark,
                        all.substr(at + shown.size()), mark,
                        prompt.substr(shown.size()));
  }

  // Reads a character of standard input for libedit: 1, 0 at the end, or -1
  // with errno, which is EINTR once Interrupted.
  static int ReadCharacter(EditLine* edit, wchar_t* character) {
    LineEditor* self = nullptr;
    el_get(edit, EL_CLIENTDATA, &self);
    std::mbstate_t state = {};
    while (true) {
      if (Interrupted()) {
        errno = EINTR;
        return -1;
      }
      self->TakeKeys();
      self->FollowWindow();
      pollfd input = {STDIN_FILENO, POLLIN, 0};
      const auto wait =
          static_cast<int>(absl::ToInt64Milliseconds(kInterruptPoll));
      if (poll(&input, 1, wait) <= 0) continue;
      char byte = 0;
      const ssize_t n = read(STDIN_FILENO, &byte, 1);
      if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (n <= 0) return static_cast<int>(n);
      const size_t result = std::mbrtowc(character, &byte, 1, &state);
      if (result <= 1) return 1;
      // The character is not whole yet, or there is none that begins so.
      if (result != static_cast<size_t>(-2)) state = {};
    }
  }

  // Makes Ctrl-Z and Ctrl-\\ keys that libedit reads; the terminal would stop
  // or end the process and leave the shell without line feeds and echo.
  void TakeKeys() {
    termios mode = {};
    if (std::exchange(has_keys_, true)) return;
    if (tcgetattr(STDIN_FILENO, &mode) != 0) return;
    mode.c_cc[VSUSP] = _POSIX_VDISABLE;
    mode.c_cc[VQUIT] = _POSIX_VDISABLE;
    tcsetattr(STDIN_FILENO, TCSANOW, &mode);
  }

  // Ctrl-Z. The shell gets the terminal as it was.
  static unsigned char Suspend(EditLine* edit, int /*key*/) {
    LineEditor* self = nullptr;
    el_get(edit, EL_CLIENTDATA, &self);
    el_set(edit, EL_PREP_TERM, 0);
    std::raise(SIGTSTP);
    el_set(edit, EL_PREP_TERM, 1);
    self->has_keys_ = false;
    return CC_REDISPLAY;
  }

  // Tells libedit if the window's width has changed.
  void FollowWindow() {
    const int64_t columns = WindowColumns(STDERR_FILENO).value_or(columns_);
    if (std::exchange(columns_, columns) != columns) el_resize(edit_);
  }

  static char* Prompt(EditLine* edit) {
    LineEditor* self = nullptr;
    el_get(edit, EL_CLIENTDATA, &self);
    return self->prompt_.data();
  }

  void ReadHistory() {
    if (file_ == nullptr) return;
    const auto lines = file_->Read();
    if (!lines.ok()) return NoHistory(lines.status());
    HistEvent event;
    for (const std::string& line : *lines) {
      history(history_, &event, H_ENTER, line.c_str());
    }
  }

  void Keep(const std::string& line) {
    if (line.empty()) return;
    HistEvent event;
    history(history_, &event, H_ENTER, line.c_str());
    if (file_ == nullptr) return;
    const absl::Status status = file_->Append(line);
    if (!status.ok()) NoHistory(status);
  }

  // Says once that lines are not kept.
  void NoHistory(const absl::Status& status) {
    std::fputs(absl::StrCat("note: the history is not kept: ",
                            Printable(status.message()), "\n")
                   .c_str(),
               stderr);
    file_ = nullptr;
  }

  const Style style_;
  std::string prompt_;
  bool has_keys_ = false;
  int64_t columns_ = 0;
  std::unique_ptr<HistoryFile> file_;
  History* const history_;
  EditLine* const edit_;
};

}  // namespace

std::unique_ptr<LineReader> NewLineEditor(const std::string& history_path,
                                          const Style& style) {
  UseUtf8();
  auto editor = std::make_unique<LineEditor>(history_path, style);
  if (!editor->IsUsable()) return nullptr;
  return editor;
}

}  // namespace plimsoll::cli
