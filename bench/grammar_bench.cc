// What constraints cost at worst: compiling them, and the slowest step of a
// stream that is held to one.
//
// usage: grammar_bench MODEL [PART OF A CONSTRAINT'S NAME]
//
// Every constraint here is meant to be as bad as its kind can be. A step is the
// mask of the whole vocabulary and the token that is then said.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "bench/must.h"
#include "worker/device/model_file.h"
#include "worker/text/code_points.h"
#include "worker/text/grammar/gbnf.h"
#include "worker/text/grammar/regex_grammar.h"
#include "worker/text/grammar/token_mask.h"
#include "worker/text/schema/schema_grammar.h"
#include "worker/text/tokenizer/tokenizer.h"

namespace plimsoll::worker {
namespace {

constexpr int kWalks = 3;
constexpr int kSteps = 60;

using Compiled = absl::StatusOr<std::shared_ptr<const Grammar>>;

struct Case {
  std::string name;
  std::function<Compiled()> compile;
};

std::string Times(int64_t n, const std::function<std::string(int64_t)>& part) {
  std::string out;
  for (int64_t i = 0; i < n; ++i)
    absl::StrAppend(&out, i > 0 ? "," : "", part(i));
  return out;
}

void AddRegexes(std::vector<Case>& cases) {
  std::string empties(60'000, '|');
  std::string classes;
  for (int i = 0; i < 30'000; ++i) classes += "\\W";
  std::string ranges = "[";
  for (uint32_t c = 0x10000; ranges.size() < 60'000; c += 2) {
    AppendUtf8(c, ranges);
  }
  for (const std::string& pattern : std::vector<std::string>{
           "(([a-z ]{1,40}[,.])|([a-z ,.]{2,80})){1,40}",
           "(([a-z ]{1,40}[,.])|([a-z ,.]{2,80})){20,40}",
           "((.{1,40}[,.])|(.{2,80})){1,40}",
           ".{0,200}foo.{0,200}bar.{0,200}",
           ".*x[^q]{1900}",
           ".*(x|y)[^q]{900}",
           "((a{1,20}b?){1,20}c?){1,20}",
           "(((.{1,9},?){1,9};?){1,9} ?){1,9}",
           "([a-z ]{1,300}|[ -~]{1,300}|.{1,300}){1,100}",
           "(a?){0,20000}b",
           "((.?){0,60}(.?){0,60}){0,60}",
           "[a-z]{0,60000}",
           "[A-Z][a-z ]{1,200}[.!?]",
           ".{0,500}",
           "\\d{4}-\\d{2}|[a-z]+@[a-z]+",
           absl::StrCat("(", empties, "a)*b"),
           "(.|..|...|....|.....){1,60}",
           classes,
           ranges + "]",
           "(" + ranges + "]{1,4})*",
           "((((((((.{1,3}){1,3}){1,3}){1,3}){1,3}){1,3}){1,3}){1,3}){1,3}"}) {
    cases.push_back({absl::StrCat("regex ", pattern.substr(0, 60)),
                     [pattern] { return CompileRegex(pattern); }});
  }
}

void AddGbnfs(std::vector<Case>& cases) {
  std::string doubling = "root ::= r0\n";
  std::string chain = "root ::= r0\n";
  std::string shared = "root ::= r0\n";
  for (int i = 0; i < 24; ++i) {
    absl::StrAppend(&doubling, "r", i, " ::= . r", i + 1, " \"b\" | . r", i + 1,
                    " \"c\"\n");
    absl::StrAppend(&shared, "r", i, " ::= r", i + 1, " r", i + 1, "\n");
  }
  doubling += "r24 ::= \"x\"";
  shared += "r24 ::= \"\" | .";
  for (int i = 0; i < 1'500; ++i) {
    absl::StrAppend(&chain, "r", i, " ::= r", i + 1, " [a-z] | [a-z]\n");
  }
  chain += "r1500 ::= .";
  std::string choices = "root ::= (";
  for (int i = 0; i < 2'500; ++i) {
    absl::StrAppend(&choices, i > 0 ? "|" : "", "[a-z]?\"", i, "\"");
  }
  for (const std::string& text : std::vector<std::string>{
           "root ::= . root \"b\" | . root \"c\" | \"x\"",
           "root ::= s\ns ::= . s s | .",
           "root ::= s\ns ::= . s s | . s s s | [a-z ] s | .",
           "root ::= s\ns ::= [a-z] s [a-z]{1,30} | . s . | . s .. | .",
           "root ::= e*\ne ::= t (\"+\" t)*\nt ::= [a-z]+ | \"(\" e \")\" | "
           "[a-z]* \"(\" e \",\" e \")\"",
           "root ::= (((((.{0,30}){0,30}){0,30}){0,30}){0,30}){0,30} \"b\"",
           doubling, shared, chain, choices + ")*"}) {
    cases.push_back({absl::StrCat("gbnf ", text.substr(0, 60)),
                     [text] { return CompileGbnf(text); }});
  }
}

// A list of `n` schemas.
std::string ListOf(const char* keyword, int64_t n,
                   const std::function<std::string(int64_t)>& part) {
  return absl::StrCat("{\"", keyword, "\":[", Times(n, part), "]}");
}

// An object of `n` properties whose names begin with `prefix`.
std::string ObjectOf(int64_t n, const std::string& prefix,
                     const std::string& value, const std::string& more) {
  const auto property = [&](int64_t i) {
    return absl::StrCat("\"", prefix, i, "\":", value);
  };
  return absl::StrCat(R"({"properties":{)", Times(n, property), "}", more, "}");
}

std::vector<std::string> LongSchemas() {
  const std::string others = R"(,"additionalProperties":{})";
  const auto n_members = static_cast<int64_t>(kMaxSchemaMembers);
  const auto word = [](int64_t i) { return absl::StrCat("\"", i, "\""); };
  const auto words = [&](int64_t i) {
    return absl::StrCat(R"({"enum":[)",
                        Times(180, [&](int64_t j) { return word(7 * i + j); }),
                        "]}");
  };
  const auto integer = [](int64_t i) {
    return absl::StrCat(R"({"type":"integer","minimum":)", 977 * i, "}");
  };
  const auto object = [&](int64_t i) {
    return ObjectOf(3, absl::StrCat("a", i), "{}", others);
  };
  std::string not_words;
  for (int i = 0; i < 15'000; ++i) not_words += "\\\\W";
  return {
      ObjectOf(n_members, "", "{}", ""),
      ObjectOf(n_members, "", "{}", others),
      ObjectOf(700, "", R"({"maxLength":9,"type":"string"})", others),
      ObjectOf(20, std::string(1'000, 'a'), "{}", others),
      ObjectOf(60, std::string(1'000, 'b'), "{}", others),
      ObjectOf(300, std::string(60, 'a'), "{}", others),
      ObjectOf(1'500, std::string(9, 'a'), "{}", others),
      ListOf("anyOf", 40, words),
      ListOf("enum", 5'000, [&](int64_t i) { return word(7'919 * i); }),
      ListOf("anyOf", n_members,
             [](int64_t) { return R"({"type":"string"})"; }),
      ListOf("anyOf", n_members,
             [](int64_t i) {
               return absl::StrCat(R"({"minLength":)", i % 30, "}");
             }),
      ListOf("prefixItems", 1'400, integer),
      ListOf("prefixItems", 700, object),
      ListOf("prefixItems", 1'200,
             [](int64_t i) {
               return absl::StrCat(R"({"pattern":"^.{0,)", i % 50, "}[^a]$\"}");
             }),
      absl::StrCat(R"({"pattern":")", not_words, "\"}"),
  };
}

void AddSchemas(std::vector<Case>& cases) {
  std::vector<std::string> schemas = LongSchemas();
  for (const char* text :
       {"{}",
        R"({"properties":{"name":{"type":"string"},"n":{"type":"integer"}}})",
        R"({"anyOf":[{"items":{"$ref":"#"}},{"items":{"anyOf":[{"$ref":"#"},
            {"$ref":"#"}]}},{"minLength":1},{"maxLength":50}]})",
        R"({"anyOf":[{"properties":{"a":{"$ref":"#"}},"additionalProperties":
            {"$ref":"#"}},{"additionalProperties":{"$ref":"#"}},
            {"type":"null"}]})",
        R"({"pattern":"(([a-z ]{1,40}[,.])|([a-z ,.]{2,80})){1,40}"})",
        R"({"pattern":"(.{1,60}|[^x]{1,90}|.{3,60}){1,60}y.{60}z"})"}) {
    schemas.push_back(text);
  }
  for (const std::string& text : schemas) {
    cases.push_back(
        {absl::StrCat("schema ", text.substr(0, 60), " (", text.size(), ")"),
         [text] { return CompileJsonSchema(text); }});
  }
}

// CPU time of this process, so that other processes do not count.
double MillisecondsSince(std::clock_t begin) {
  return static_cast<double>(std::clock() - begin) * 1e3 / CLOCKS_PER_SEC;
}

struct Slowest {
  double step_ms = 0;
  int64_t n_steps = 0;
  int64_t n_exhausted = 0;  // steps that did all the work there may be
  int64_t memory = 0;
  std::string failed;
};

void Walk(const std::shared_ptr<const Grammar>& grammar,
          const TokenIndex& index, int how, Slowest& slowest) {
  TokenMask mask(grammar, index);
  std::mt19937 random(static_cast<uint32_t>(how) + 1);
  for (int step = 0; step < kSteps; ++step) {
    const std::clock_t begin = std::clock();
    mask.BeginStep();
    const auto bits = mask.AllowedTokens();
    double took_ms = MillisecondsSince(begin);
    ++slowest.n_steps;
    slowest.n_exhausted += mask.is_exhausted() ? 1 : 0;
    if (!bits.ok()) {
      slowest.failed = std::string(bits.status().message());
      return;
    }
    std::vector<int32_t> allowed;
    for (int32_t id = 0; id < index.tokenizer().vocab_size(); ++id) {
      const auto at = static_cast<size_t>(id);
      const bool is_set = ((*bits)[at / 64] >> (at % 64) & 1) != 0;
      if (is_set && !index.tokenizer().IsEnd(id)) allowed.push_back(id);
    }
    if (allowed.empty()) return;
    int32_t id = allowed[random() % allowed.size()];
    if (how == 1) {  // letters and marks mostly
      for (int i = 0; i < 200; ++i) {
        std::string text;
        index.tokenizer().AppendBytes(id, RenderSpecial::kNo, text);
        if (text.find_first_not_of("abcdefx ,.([{\"") == std::string::npos)
          break;
        id = allowed[random() % allowed.size()];
      }
    }
    const std::clock_t accept = std::clock();
    const absl::Status accepted = mask.Accept(id);
    took_ms += MillisecondsSince(accept);
    if (!accepted.ok()) {
      slowest.failed = std::string(accepted.message());
      return;
    }
    slowest.step_ms = std::max(slowest.step_ms, took_ms);
    slowest.memory = std::max(slowest.memory, mask.MemoryBytes());
  }
}

void Run(const Case& one, const TokenIndex& index) {
  const std::clock_t begin = std::clock();
  const Compiled grammar = one.compile();
  const double compile_ms = MillisecondsSince(begin);
  Slowest slowest;
  if (grammar.ok()) {
    for (int how = 0; how < kWalks; ++how) Walk(*grammar, index, how, slowest);
  } else {
    slowest.failed = std::string(grammar.status().message());
  }
  std::string name = one.name;
  std::replace(name.begin(), name.end(), '\n', ' ');
  std::printf("%10.1f %8.2f %7lld %5lld/%-5lld  %s %.90s\n", compile_ms,
              slowest.step_ms, static_cast<long long>(slowest.memory >> 10),
              static_cast<long long>(slowest.n_exhausted),
              static_cast<long long>(slowest.n_steps), name.c_str(),
              slowest.failed.c_str());
  std::fflush(stdout);
}

int Main(const char* model, absl::string_view wanted) {
  std::vector<Case> cases;
  AddRegexes(cases);
  AddGbnfs(cases);
  AddSchemas(cases);
  const auto file = bench::Must(ModelFile::Open(model));
  const auto tokenizer = bench::Must(LoadTokenizer(file->header(), *file));
  const TokenIndex index(*tokenizer);
  std::printf(
      "%lld tokens\ncompile ms  step ms     KiB  exhausted   constraint\n",
      static_cast<long long>(index.size()));
  for (const Case& one : cases) {
    if (absl::StrContains(one.name, wanted)) Run(one, index);
  }
  return 0;
}

}  // namespace
}  // namespace plimsoll::worker

int main(int argc, char** argv) {
  if (argc == 2 || argc == 3) {
    return plimsoll::worker::Main(argv[1], argc == 3 ? argv[2] : "");
  }
  std::fprintf(stderr, "usage: grammar_bench MODEL [PART_OF_A_NAME]\n");
  return 2;
}
