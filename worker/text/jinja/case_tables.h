// Unicode's upper, lower and title case beyond ASCII.
#ifndef PLIMSOLL_WORKER_TEXT_JINJA_CASE_TABLES_H_
#define PLIMSOLL_WORKER_TEXT_JINJA_CASE_TABLES_H_

#include <cstdint>
#include <span>

namespace plimsoll::worker::jinja {

// Every `step`-th code point of [first, last] becomes itself plus `delta`.
struct CaseRange {
  uint32_t first;
  uint32_t last;
  uint32_t step;
  int32_t delta;
};
// A code point that becomes a text, in UTF-8.
struct CaseText {
  uint32_t code_point;
  const char* text;
};
// Both lists are in ascending order.
struct CaseTable {
  std::span<const CaseRange> ranges;
  std::span<const CaseText> texts;
};

extern const CaseTable lower_case_table;
extern const CaseTable upper_case_table;
extern const CaseTable title_case_table;  // where title case is not upper case

}  // namespace plimsoll::worker::jinja

#endif  // PLIMSOLL_WORKER_TEXT_JINJA_CASE_TABLES_H_
