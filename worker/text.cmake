# Text in and out of a model: tokenizers, chat formats, UTF-8, and grammars
# that constrain what a model says.
find_package(PkgConfig REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
find_package(nlohmann_json REQUIRED)

add_library(plimsoll_text STATIC
  char_classes.cc
  chat_choice.cc
  chat_function_gemma.cc
  chat_segments.cc
  chat_template.cc
  code_points.cc
  gbnf.cc
  grammar_builder.cc
  grammar_exits.cc
  grammar_spread.cc
  grammar_state.cc
  json_grammar.cc
  pretokenizer.cc
  regex_grammar.cc
  schema_grammar.cc
  schema_keywords.cc
  schema_reader.cc
  special_tokens.cc
  token_index.cc
  token_mask.cc
  tokenizer.cc
  tokenizer_bpe.cc
  tokenizer_spm.cc
  tool_call.cc
  tool_reader.cc
  tool_text.cc
  utf8.cc
  vocab_table.cc)
target_link_libraries(plimsoll_text
  PUBLIC plimsoll_base plimsoll_planner
  PUBLIC absl::flat_hash_map absl::flat_hash_set
  PRIVATE absl::hash nlohmann_json::nlohmann_json PkgConfig::PCRE2)
