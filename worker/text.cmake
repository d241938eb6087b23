# Text in and out of a model: tokenizers, chat formats and UTF-8.
find_package(PkgConfig REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)

add_library(plimsoll_text STATIC
  chat_choice.cc
  chat_template.cc
  pretokenizer.cc
  special_tokens.cc
  tokenizer.cc
  tokenizer_bpe.cc
  tokenizer_spm.cc
  utf8.cc
  vocab_table.cc)
target_link_libraries(plimsoll_text
  PUBLIC plimsoll_base plimsoll_planner
  PRIVATE absl::hash PkgConfig::PCRE2)
