// Tells which bytes of a JSON text belong to strings.
#ifndef PLIMSOLL_WORKER_TEXT_JSON_STRINGS_H_
#define PLIMSOLL_WORKER_TEXT_JSON_STRINGS_H_

namespace plimsoll::worker {

// Takes a text byte by byte, in pieces of any size.
class JsonStrings {
 public:
  // Takes the next byte. Returns true if it belongs to a string or is one of
  // its quotes.
  bool Take(char byte) {
    if (!is_inside_) return is_inside_ = byte == '"';
    is_inside_ = byte != '"' || is_escaped_;
    is_escaped_ = byte == '\\' && !is_escaped_;
    return true;
  }

  // True between the quotes of a string.
  bool is_inside() const { return is_inside_; }

 private:
  bool is_inside_ = false;
  bool is_escaped_ = false;  // a backslash stands before the next byte
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_JSON_STRINGS_H_
