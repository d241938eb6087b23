#include "services/convert/tokenizer_tables.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "planner/gguf/gguf_stream.h"
#include "services/convert/input.h"
#include "services/convert/merge_scores.h"
#include "services/convert/text_cutting.h"
#include "worker/text/tokenizer/pretokenizer_names.h"
#include "worker/text/tokenizer/pretokenizer_rule.h"
#include "worker/text/tokenizer/space_mark.h"
#include "worker/text/tokenizer/vocab_table.h"

namespace plimsoll::services {
namespace {

using worker::TokenType;

constexpr int kMaxTokenizerDepth = 32;

absl::Status BadTokenizer(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("tokenizer.json: ", what));
}

int32_t Number(TokenType type) { return static_cast<int32_t>(type); }

// Text that a user writes must not become such a token, whatever the file says
// of it: templates are made of them.
bool LooksLikeControl(absl::string_view text) {
  return (absl::StartsWith(text, "<|") && absl::EndsWith(text, "|>")) ||
         (absl::StartsWith(text, "<unused") && absl::EndsWith(text, ">"));
}

// A merge is two texts, or one with a space between them.
absl::StatusOr<Merge> ParseMerge(const Json& value) {
  if (value.is_array() && value.size() == 2 && value[0].is_string() &&
      value[1].is_string()) {
    return Merge(value[0].get<std::string>(), value[1].get<std::string>());
  }
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    const size_t space = text.find(' ', 1);
    if (space != std::string::npos) {
      return Merge(text.substr(0, space), text.substr(space + 1));
    }
  }
  return BadTokenizer("a merge is not two texts");
}

// The text of a token in tokenizer_config.json, which may be an object.
std::string TokenText(const Json& config, const char* name) {
  const Json& token = MemberOf(config, name);
  return token.is_object() ? TextMember(token, "content")
                           : TextMember(config, name);
}

// True if a step of the post-processor puts the token `bos` in front.
bool PutsInFront(const Json& step, const std::string& bos) {
  const Json& steps = MemberOf(step, "processors");
  for (const Json& one : steps) {
    // Sequences are not nested.
    if (MemberOf(one, "processors").is_null() && PutsInFront(one, bos)) {
      return true;
    }
  }
  const Json& single = MemberOf(step, "single");
  if (!single.is_array() || single.empty()) return false;
  return !bos.empty() &&
         TextMember(MemberOf(single.front(), "SpecialToken"), "id") == bos;
}

// The template in tokenizer_config.json: a text, or a list of named ones.
std::string TemplateOf(const Json& config) {
  const Json& list = MemberOf(config, "chat_template");
  if (list.is_array()) {
    for (const Json& one : list) {
      if (TextMember(one, "name") == "default") {
        return TextMember(one, "template");
      }
    }
  }
  return TextMember(config, "chat_template");
}

class TablesReader {
 public:
  TablesReader(const TokenizerFiles& files, int64_t n_rows)
      : files_(files), n_rows_(static_cast<size_t>(n_rows)) {}

  absl::StatusOr<TokenizerTables> Run(const std::string& pre) {
    ASSIGN_OR_RETURN(tokenizer_, Parse("tokenizer.json", files_.tokenizer));
    ASSIGN_OR_RETURN(config_, Parse("tokenizer_config.json", files_.config));
    ASSIGN_OR_RETURN(generation_,
                     Parse("generation_config.json", files_.generation));
    RETURN_IF_ERROR(CheckKind());
    RETURN_IF_ERROR(ReadTokens());
    if (IsByteLevel(tokenizer_)) {
      RETURN_IF_ERROR(ReadByteLevel(pre));
    } else {
      RETURN_IF_ERROR(ReadSentencePiece());
    }
    RETURN_IF_ERROR(ReadRoles());
    return std::move(out_);
  }

 private:
  static absl::StatusOr<Json> Parse(absl::string_view name,
                                    const std::string& text) {
    if (text.empty()) return Json::object();
    return ParseObject(name, text, kMaxTokenizerDepth);
  }

  const Json& Model() const { return MemberOf(tokenizer_, "model"); }

  absl::Status CheckKind() const {
    const std::string kind = TextMember(Model(), "type");
    if (kind == "BPE" || MemberOf(Model(), "merges").is_array()) {
      return absl::OkStatus();
    }
    return absl::UnimplementedError(absl::StrCat(
        "tokenizer.json has a model of the type ", planner::Quoted(kind),
        ", and only BPE can be converted: look for a GGUF file of the model"));
  }

  absl::Status SetToken(const Json& id, absl::string_view text,
                        TokenType type) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= n_rows_) {
      return BadTokenizer(absl::StrCat(
          "token ", planner::Quoted(text), " has the id ", id.dump(),
          ", outside the ", n_rows_, " rows of the embedding"));
    }
    const size_t at = id.get<size_t>();
    out_.tokens[at] = std::string(text);
    out_.types[at] = Number(type);
    return absl::OkStatus();
  }

  absl::Status ReadTokens() {
    out_.tokens.resize(n_rows_);
    out_.types.assign(n_rows_, Number(TokenType::kUnused));
    const Json& vocab = MemberOf(Model(), "vocab");
    if (!vocab.is_object()) return BadTokenizer("the model has no vocab");
    for (const auto& [text, id] : vocab.items()) {
      if (id.is_number_unsigned() && id.get<uint64_t>() < n_rows_ &&
          !out_.tokens[id.get<size_t>()].empty()) {
        return BadTokenizer(absl::StrCat("two tokens have the id ", id.dump()));
      }
      RETURN_IF_ERROR(SetToken(id, text, TokenType::kNormal));
    }
    for (const Json& added : MemberOf(tokenizer_, "added_tokens")) {
      const std::string text = TextMember(added, "content");
      const bool is_control =
          IsTrue(added, "special") || LooksLikeControl(text);
      RETURN_IF_ERROR(
          SetToken(MemberOf(added, "id"), text,
                   is_control ? TokenType::kControl : TokenType::kUserDefined));
    }
    for (size_t id = 0; id < n_rows_; ++id) {
      if (out_.tokens[id].empty()) {
        out_.tokens[id] = absl::StrCat("[PAD", id, "]");
      }
      ids_.emplace(out_.tokens[id], static_cast<uint32_t>(id));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<Merge>> ReadMerges() const {
    std::vector<Merge> merges;
    for (const Json& value : MemberOf(Model(), "merges")) {
      ASSIGN_OR_RETURN(merges.emplace_back(), ParseMerge(value));
    }
    return merges;
  }

  absl::Status ReadByteLevel(const std::string& pre) {
    out_.model = "gpt2";
    ASSIGN_OR_RETURN(const auto merges, ReadMerges());
    for (const Merge& merge : merges) {
      if (absl::StrContains(merge.first, ' ') ||
          absl::StrContains(merge.second, ' ')) {
        return BadTokenizer("a merge of byte-level BPE has a space");
      }
      out_.merges.push_back(absl::StrCat(merge.first, " ", merge.second));
    }
    if (!pre.empty()) {
      out_.pre = pre;
      return worker::FindPreTokenizer(pre).status();
    }
    ASSIGN_OR_RETURN(const auto expressions, ReadExpressions(tokenizer_));
    const auto name = worker::NameOfPreTokenizer(
        expressions, IsTrue(Model(), "ignore_merges"));
    if (!name.ok()) {
      return absl::Status(
          name.status().code(),
          absl::StrCat("tokenizer.json: ", name.status().message(),
                       ". If you know that one does, name it by --pre"));
    }
    out_.pre = std::string(*name);
    return absl::OkStatus();
  }

  absl::Status ReadSentencePiece() {
    out_.model = "llama";
    out_.pre = "default";
    if (!IsTrue(Model(), "byte_fallback")) {
      return absl::UnimplementedError(
          "tokenizer.json has neither byte-level BPE nor a token for each "
          "byte: look for a GGUF file of the model");
    }
    ASSIGN_OR_RETURN(out_.space_prefix, ReadSpacePrefix(tokenizer_));
    const std::string unknown = TextMember(Model(), "unk_token");
    std::vector<bool> is_cut_out(n_rows_);
    for (size_t id = 0; id < n_rows_; ++id) {
      if (worker::ParseByteToken(out_.tokens[id]) >= 0) {
        out_.types[id] = Number(TokenType::kByte);
      }
      if (out_.tokens[id] == unknown) {
        out_.types[id] = Number(TokenType::kUnknown);
      }
      is_cut_out[id] = out_.types[id] != Number(TokenType::kNormal);
    }
    ASSIGN_OR_RETURN(const auto merges, ReadMerges());
    ASSIGN_OR_RETURN(out_.scores,
                     ScoresOfMerges(out_.tokens, is_cut_out, merges));
    // Readers look for such tokens before they mark spaces.
    for (size_t id = 0; id < n_rows_; ++id) {
      if (out_.types[id] != Number(TokenType::kUserDefined)) continue;
      out_.tokens[id] =
          absl::StrReplaceAll(out_.tokens[id], {{worker::kSpaceMark, " "}});
    }
    return absl::OkStatus();
  }

  std::optional<uint32_t> IdOf(const std::string& text) const {
    const auto it = ids_.find(text);
    if (text.empty() || it == ids_.end()) return std::nullopt;
    return it->second;
  }

  // Adds an id of generation_config.json.
  absl::Status AddEnd(const Json& id) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= n_rows_) {
      return absl::InvalidArgumentError(
          absl::StrCat("generation_config.json: \"eos_token_id\" has ",
                       id.dump(), ", which is no token"));
    }
    const auto end = id.get<uint32_t>();
    if (std::count(out_.ends.begin(), out_.ends.end(), end) == 0) {
      out_.ends.push_back(end);
    }
    return absl::OkStatus();
  }

  absl::Status ReadRoles() {
    const std::string bos = TokenText(config_, "bos_token");
    std::string unknown = TokenText(config_, "unk_token");
    if (unknown.empty()) unknown = TextMember(Model(), "unk_token");
    out_.bos = IdOf(bos);
    out_.unknown = IdOf(unknown);
    out_.padding = IdOf(TokenText(config_, "pad_token"));
    if (const auto eos = IdOf(TokenText(config_, "eos_token"))) {
      out_.ends.push_back(*eos);
    }
    const Json& ends = MemberOf(generation_, "eos_token_id");
    if (ends.is_array()) {
      for (const Json& id : ends) RETURN_IF_ERROR(AddEnd(id));
    } else if (!ends.is_null()) {
      RETURN_IF_ERROR(AddEnd(ends));
    }
    const Json& adds = MemberOf(config_, "add_bos_token");
    out_.adds_bos =
        adds.is_boolean()
            ? adds.get<bool>()
            : PutsInFront(MemberOf(tokenizer_, "post_processor"), bos);
    out_.chat_template =
        files_.chat.empty() ? TemplateOf(config_) : files_.chat;
    return absl::OkStatus();
  }

  const TokenizerFiles& files_;
  const size_t n_rows_;
  Json tokenizer_;
  Json config_;
  Json generation_;
  TokenizerTables out_;
  absl::flat_hash_map<std::string, uint32_t> ids_;
};

}  // namespace

absl::StatusOr<TokenizerTables> ReadTokenizerTables(const TokenizerFiles& files,
                                                    int64_t n_rows,
                                                    const std::string& pre) {
  return TablesReader(files, n_rows).Run(pre);
}

void WriteTokenizer(const TokenizerTables& tables, planner::GgufWriter& out) {
  using planner::GgufType;
  const auto key = [](absl::string_view name) {
    return absl::StrCat("tokenizer.ggml.", name);
  };
  const auto boolean = [&](absl::string_view name, bool value) {
    out.Add(key(name), {GgufType::kBool, uint64_t{value}});
  };
  const auto id = [&](absl::string_view name, std::optional<uint32_t> value) {
    if (value) out.Add(key(name), {GgufType::kU32, uint64_t{*value}});
  };
  out.Add(key("model"), {GgufType::kString, tables.model});
  out.Add(key("pre"), {GgufType::kString, tables.pre});
  out.AddStrings(key("tokens"), tables.tokens);
  if (!tables.scores.empty()) out.AddFloats(key("scores"), tables.scores);
  out.AddInt32s(key("token_type"), tables.types);
  if (tables.model == "gpt2") out.AddStrings(key("merges"), tables.merges);
  id("bos_token_id", tables.bos);
  id("unknown_token_id", tables.unknown);
  id("padding_token_id", tables.padding);
  constexpr absl::string_view kEnds[] = {"eos_token_id", "eot_token_id",
                                         "eom_token_id"};
  for (size_t i = 0; i < std::min(std::size(kEnds), tables.ends.size()); ++i) {
    id(kEnds[i], tables.ends[i]);
  }
  boolean("add_bos_token", tables.adds_bos);
  if (tables.space_prefix) boolean("add_space_prefix", *tables.space_prefix);
  if (!tables.chat_template.empty()) {
    out.Add("tokenizer.chat_template",
            {GgufType::kString, tables.chat_template});
  }
}

}  // namespace plimsoll::services
