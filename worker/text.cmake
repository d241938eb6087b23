# Text in and out of a model: tokenizers, chat formats, UTF-8, and grammars
# that constrain what a model says. A folder is a library.
find_package(PkgConfig REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
find_package(nlohmann_json REQUIRED)

add_library(plimsoll_text_base STATIC
  text/code_points.cc
  text/json_check.cc
  text/schema_reader.cc
  text/text_stream.cc
  text/utf8.cc)
target_link_libraries(plimsoll_text_base
  PUBLIC plimsoll_base
  PRIVATE nlohmann_json::nlohmann_json PkgConfig::PCRE2)
add_library(plimsoll_text_tokenizer STATIC
  text/tokenizer/char_classes.cc
  text/tokenizer/merge_table.cc
  text/tokenizer/plain_tokens.cc
  text/tokenizer/pretokenizer.cc
  text/tokenizer/pretokenizer_names.cc
  text/tokenizer/pretokenizer_rule.cc
  text/tokenizer/space_mark.cc
  text/tokenizer/special_tokens.cc
  text/tokenizer/token_index.cc
  text/tokenizer/token_list.cc
  text/tokenizer/tokenizer.cc
  text/tokenizer/tokenizer_bpe.cc
  text/tokenizer/tokenizer_char_bpe.cc
  text/tokenizer/tokenizer_spm.cc
  text/tokenizer/vocab_table.cc)
target_link_libraries(plimsoll_text_tokenizer
  PUBLIC plimsoll_text_base plimsoll_planner_model
  PRIVATE absl::base absl::hash PkgConfig::PCRE2)
add_library(plimsoll_text_jinja STATIC
  text/jinja/arguments.cc
  text/jinja/builtins/attribute_path.cc
  text/jinja/builtins/filters.cc
  text/jinja/builtins/list_filters.cc
  text/jinja/builtins/number_filters.cc
  text/jinja/builtins/select_filters.cc
  text/jinja/builtins/tests.cc
  text/jinja/builtins/text_filters.cc
  text/jinja/case_tables.cc
  text/jinja/characters.cc
  text/jinja/evaluator.cc
  text/jinja/expressions.cc
  text/jinja/format.cc
  text/jinja/format_spec.cc
  text/jinja/iteration.cc
  text/jinja/json_value.cc
  text/jinja/line_error.cc
  text/jinja/methods.cc
  text/jinja/objects.cc
  text/jinja/operations.cc
  text/jinja/printing.cc
  text/jinja/render_meter.cc
  text/jinja/string_methods.cc
  text/jinja/strings.cc
  text/jinja/syntax/checks.cc
  text/jinja/syntax/expression_parser.cc
  text/jinja/syntax/lexer.cc
  text/jinja/syntax/parser.cc
  text/jinja/syntax/template.cc
  text/jinja/text.cc
  text/jinja/value.cc)
target_link_libraries(plimsoll_text_jinja
  PUBLIC plimsoll_text_base absl::time
  PRIVATE absl::str_format nlohmann_json::nlohmann_json
    PkgConfig::PCRE2)
add_library(plimsoll_text_chat STATIC
  text/chat/call_end.cc
  text/chat/call_stream.cc
  text/chat/call_syntax.cc
  text/chat/chat_format.cc
  text/chat/chat_function_gemma.cc
  text/chat/chat_segments.cc
  text/chat/chat_template.cc
  text/chat/marked_text.cc
  text/chat/model_template.cc
  text/chat/python_calls.cc
  text/chat/reasoning_count.cc
  text/chat/reasoning_limit.cc
  text/chat/reply_format.cc
  text/chat/reply_splitter.cc
  text/chat/session_chat.cc
  text/chat/template_frame.cc
  text/chat/template_probe.cc
  text/chat/tool_call.cc
  text/chat/tool_text.cc)
target_link_libraries(plimsoll_text_chat
  PUBLIC plimsoll_text_tokenizer plimsoll_text_jinja
  PRIVATE nlohmann_json::nlohmann_json)
add_library(plimsoll_text_grammar STATIC
  text/grammar/char_automaton.cc
  text/grammar/frame_writer.cc
  text/grammar/gbnf.cc
  text/grammar/grammar_builder.cc
  text/grammar/grammar_exits.cc
  text/grammar/grammar_source.cc
  text/grammar/grammar_spread.cc
  text/grammar/grammar_state.cc
  text/grammar/json_grammar.cc
  text/grammar/mask_walk.cc
  text/grammar/plain_room.cc
  text/grammar/plain_steps.cc
  text/grammar/regex_automaton.cc
  text/grammar/regex_grammar.cc
  text/grammar/regex_tree.cc
  text/grammar/schema_frame.cc
  text/grammar/text_before.cc
  text/grammar/token_mask.cc)
target_link_libraries(plimsoll_text_grammar
  PUBLIC plimsoll_text_tokenizer)
add_library(plimsoll_text_schema STATIC
  text/schema/array_planner.cc
  text/schema/constraint.cc
  text/schema/json_text.cc
  text/schema/number_set.cc
  text/schema/object_planner.cc
  text/schema/object_writer.cc
  text/schema/term_numbering.cc
  text/schema/plan_possible.cc
  text/schema/scalar_planner.cc
  text/schema/schema_check.cc
  text/schema/schema_grammar.cc
  text/schema/schema_planner.cc
  text/schema/schema_writer.cc
  text/schema/shapes/array_keywords.cc
  text/schema/shapes/choice_keywords.cc
  text/schema/shapes/decimal.cc
  text/schema/shapes/expander.cc
  text/schema/shapes/formats.cc
  text/schema/shapes/formula.cc
  text/schema/shapes/keyword.cc
  text/schema/shapes/number_keywords.cc
  text/schema/shapes/object_keywords.cc
  text/schema/shapes/pattern_pool.cc
  text/schema/shapes/schema_index.cc
  text/schema/shapes/shape.cc
  text/schema/shapes/string_keywords.cc
  text/schema/shapes/value_keywords.cc
  text/schema/text_sets.cc)
target_link_libraries(plimsoll_text_schema
  PUBLIC plimsoll_text_grammar absl::synchronization
    nlohmann_json::nlohmann_json)
# All of it.
add_library(plimsoll_text INTERFACE)
target_link_libraries(plimsoll_text INTERFACE
  plimsoll_text_chat plimsoll_text_grammar plimsoll_text_jinja
  plimsoll_text_schema
  plimsoll_text_tokenizer
  plimsoll_text_base plimsoll_planner)

# Under sanitizers the parts named here take longer to compile with optimisation
# than their tests gain by it. Text has no threads, so with ThreadSanitizer none of
# it need be fast.
set(slow_parts)
if(PLIMSOLL_SANITIZE STREQUAL "thread")
  set(slow_parts base tokenizer jinja chat grammar schema)
elseif(PLIMSOLL_SANITIZE)
  set(slow_parts chat schema)
endif()
foreach(name IN LISTS slow_parts)
  target_compile_options(plimsoll_text_${name} PRIVATE -O0)
endforeach()
foreach(name base tokenizer jinja chat grammar schema)
  target_compile_options(plimsoll_text_${name} PRIVATE ${plimsoll_fuzz_options})
endforeach()
