// What a tokenizer.json may not contain, and how the errors name it.
#include <gtest/gtest.h>

#include "io/tokenizer/tokenizer.h"
#include "support/expect_error.h"
#include "tokenizer/test_tokenizers.h"

namespace switchyard {
namespace {

void expect_refusal(const char* parts, const std::string& part) {
  SCOPED_TRACE(parts);
  expect_error([&] { small_tokenizer(Json::parse(parts)); }, part);
}

TEST(Refusals, TheSmallDocumentItselfIsFine) {
  EXPECT_NO_THROW(small_tokenizer());
  EXPECT_NO_THROW(
      small_tokenizer(Json::parse(R"({"truncation": {"max_length": 512}, "padding": {"length": 8}})")));
}

TEST(Refusals, Documents) {
  expect_error([] { Tokenizer::load("/no/such/folder"); },
               "/no/such/folder/tokenizer.json: expected a readable file");
  expect_error([] { Tokenizer::parse("[1]", "t"); }, "expected an object, got [1]");
  expect_error([] { Tokenizer::parse("{", "t"); }, "t: byte 2: expected valid JSON");
  expect_error([] { Tokenizer::parse("{}", "t"); }, "t: model: expected a value, got none");
  expect_refusal(R"({"version": "2.0"})", "t: version: expected 1.0, got \"2.0\"");
  expect_refusal(R"({"extra": 1})", "t: extra: expected no such key, got 1");
}

TEST(Refusals, Models) {
  expect_refusal(R"({"model": {"type": "WordPiece"}})", "t: model.type: expected BPE, got WordPiece");
  expect_refusal(R"({"model": {"type": "Unigram"}})", "got Unigram");
  expect_refusal(R"({"model": {"type": "WordLevel"}})", "got WordLevel");
  expect_refusal(R"({"model": {"type": null}})", "t: model.type: expected a value, got none");
  expect_refusal(R"({"model": {"dropout": 0.1}})", "t: model.dropout: expected null or 0, got 0.1");
  expect_refusal(R"({"model": {"continuing_subword_prefix": "##"}})", "t: model.continuing_subword_prefix");
  expect_refusal(R"({"model": {"end_of_word_suffix": "</w>"}})", "t: model.end_of_word_suffix");
  expect_refusal(R"({"model": {"unk_token": "<unk>"}})",
                 "t: model.unk_token: expected a token of the vocabulary");
  expect_refusal(R"({"model": {"fuse_unk": 1}})", "t: model.fuse_unk: expected true or false, got 1");
  expect_refusal(R"({"model": {"surprise": true}})", "t: model.surprise: expected no such key, got true");
  EXPECT_NO_THROW(small_tokenizer(Json::parse(
      R"({"model": {"dropout": 0.0, "continuing_subword_prefix": "", "end_of_word_suffix": ""}})")));
}

TEST(Refusals, Vocabularies) {
  expect_refusal(R"({"model": {"vocab": null}})", "t: model.vocab: expected a value, got none");
  expect_refusal(R"({"model": {"vocab": [1]}})", "t: model.vocab: expected an object of tokens and ids");
  expect_refusal(R"({"model": {"vocab": {"d": 2}}})",
                 "t: model.vocab.d: expected an id of its own, got 2, which 'c' has too");
  for (const char* id : {"-1", "4194304", "1e3", "\"7\"", "18446744073709551615", "1.5"}) {
    expect_refusal(fmt::format(R"({{"model": {{"vocab": {{"d": {}}}}}}})", id).c_str(),
                   "t: model.vocab.d: expected an integer from 0 to 4194303, got ");
  }
}

TEST(Refusals, TokensThatStandTwice) {
  for (const char* id : {"0", "1"}) {
    const std::string vocab = fmt::format(R"({{"a": 0, "b": 7, "a": {}}})", id);
    expect_error(
        [&] { Tokenizer::parse(R"({"model": {"type": "BPE", "merges": [], "vocab": )" + vocab + "}}", "t"); },
        "t: key 'a': expected each key once in an object, got it twice");
  }
}

TEST(Refusals, Merges) {
  expect_refusal(R"({"model": {"merges": ["a x"]}})",
                 "t: model.merges[0]: expected tokens of the vocabulary, got 'x'");
  expect_refusal(R"({"model": {"merges": ["a b", ["x", "b"]]}})",
                 "t: model.merges[1]: expected tokens of the vocabulary, got 'x'");
  expect_refusal(R"({"model": {"merges": ["b a"]}})", "got 'ba'");
  for (const char* merge : {R"("ab")", R"("a b c")", R"(["a"])", R"(["a", 1])", R"(["a", "b", "c"])", "7"}) {
    expect_refusal(fmt::format(R"({{"model": {{"merges": [{}]}}}})", merge).c_str(),
                   "t: model.merges[0]: expected two tokens");
  }
  expect_refusal(R"({"model": {"merges": {}}})", "t: model.merges: expected an array");
}

TEST(Refusals, MissingBytes) {
  expect_refusal(R"({"model": {"byte_fallback": true}})",
                 "t: model.vocab: expected a token for every byte, as byte_fallback needs, got no '<0x00>'");
  // Published byte-level vocabularies lack rare control characters: only a text that has one is refused.
  const Tokenizer byte_level =
      small_tokenizer(Json::parse(R"({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}})"));
  expect_error([&] { byte_level.encode("\x04"); },
               "t: model: expected a token for every character of the text, or an unk_token, got none for");
}

const char* const kFlags =
    R"("single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true)";

std::string added(const std::string& entries) {
  return R"({"added_tokens": [)" + entries + "]}";
}
std::string entry(const std::string& content, int id) {
  return fmt::format(R"({{"content": "{}", "id": {}, {}}})", content, id, kFlags);
}

TEST(Refusals, AddedTokens) {
  EXPECT_NO_THROW(small_tokenizer(Json::parse(added(entry("abc", 5) + "," + entry("<x>", 6)))));
  expect_refusal(added(entry("abc", 6)).c_str(),
                 "t: added_tokens[0].id: expected 5 (as in the vocabulary), got 6 for 'abc'");
  expect_refusal(added(entry("<x>", 5)).c_str(),
                 "t: added_tokens[0].id: expected 6 (the next free id), got 5 for '<x>'");
  expect_refusal(added(entry("<x>", 6) + "," + entry("<y>", 6)).c_str(), "t: added_tokens[1].id: expected 7");
  expect_refusal(added(entry("<x>", 6) + "," + entry("<x>", 6)).c_str(),
                 "t: added_tokens[1].content: expected a token that is not in the list yet");
  expect_refusal(added(entry("", 6)).c_str(),
                 "t: added_tokens[0].content: expected 1 to 4096 bytes, got 0 bytes");
  expect_refusal(added(entry(std::string(5000, 'x'), 6)).c_str(), "got 5000 bytes");
  expect_refusal(added(entry("<x>", 4194304)).c_str(),
                 "t: added_tokens[0].id: expected an integer from 0 to 4194303");
  expect_refusal(added(R"({"content": "<x>", "id": 6})").c_str(),
                 "t: added_tokens[0].single_word: expected a value, got none");
  expect_refusal(added("7").c_str(), "t: added_tokens[0]: expected an object, got 7");
  // With a hole in the vocabulary the library's numbering runs into an id that is in use.
  expect_refusal((R"({"model": {"vocab": {"d": 7}}, )" + added(entry("<x>", 7)).substr(1)).c_str(),
                 "t: added_tokens[0].id: expected an id of its own, got 7");
}

TEST(Refusals, Components) {
  expect_refusal(R"({"normalizer": {"type": "Precompiled"}})", "t: normalizer.type: expected Sequence, NFC");
  expect_refusal(R"({"normalizer": {"type": "BertNormalizer"}})", "got BertNormalizer");
  expect_refusal(R"({"normalizer": {"type": "NFC", "form": 1}})", "t: normalizer.form: expected no such key");
  expect_refusal(R"({"normalizer": {"type": "Replace", "pattern": {"Glob": "*"}, "content": ""}})",
                 "t: normalizer.pattern.Glob: expected no such key");
  expect_refusal(R"({"normalizer": {"type": "Replace", "pattern": {"String": ""}, "content": ""}})",
                 "expected a non-empty string");
  expect_refusal(R"({"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Nmt"}]}})",
                 "t: normalizer.normalizers[1].type");
  expect_refusal(R"({"normalizer": {}})", "t: normalizer.type: expected a value, got none");
  expect_refusal(R"({"pre_tokenizer": {"type": "BertPreTokenizer"}})",
                 "t: pre_tokenizer.type: expected Sequence, Split");
  expect_refusal(
      R"({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "("}, "behavior": "Removed", "invert": false}})",
      "t: pre_tokenizer.pattern.Regex: expected a regular expression");
  expect_refusal(
      R"({"pre_tokenizer": {"type": "Split", "pattern": {"String": "a"}, "behavior": "Gone", "invert": false}})",
      "t: pre_tokenizer.behavior: expected Removed, Isolated");
  expect_refusal(R"({"pre_tokenizer": {"type": "Metaspace", "replacement": "__"}})",
                 "t: pre_tokenizer.replacement: expected one character");
  expect_refusal(R"({"pre_tokenizer": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "last"}})",
                 "expected always, first or never, got last");
  expect_refusal(
      R"({"pre_tokenizer": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first", "add_prefix_space": false}})",
      "t: pre_tokenizer.add_prefix_space: expected no contradiction");
  expect_refusal(R"({"decoder": {"type": "WordPiece"}})", "t: decoder.type: expected Sequence, ByteLevel");
  expect_refusal(R"({"decoder": {"type": "Strip", "content": " ", "start": -1, "stop": 0}})",
                 "t: decoder.start: expected an integer from 0");
}

TEST(Refusals, PostProcessors) {
  expect_refusal(R"({"post_processor": {"type": "RobertaProcessing"}})",
                 "t: post_processor.type: expected Sequence, ByteLevel or TemplateProcessing");
  const auto single = [](const std::string& pieces, const std::string& ids) {
    return R"({"post_processor": {"type": "TemplateProcessing", "single": [)" + pieces +
           R"(], "pair": [], "special_tokens": {"a": {"id": "a", "ids": [)" + ids +
           R"(], "tokens": ["a"]}}}})";
  };
  const std::string text = R"({"Sequence": {"id": "A", "type_id": 0}})";
  const std::string token = R"({"SpecialToken": {"id": "a", "type_id": 0}})";
  EXPECT_NO_THROW(small_tokenizer(Json::parse(single(token + "," + text, "0"))));
  expect_refusal(single(token, "0").c_str(),
                 "t: post_processor.single: expected the text A, once, got no text");
  expect_refusal(single(text + "," + text, "0").c_str(),
                 "t: post_processor.single[1]: expected the text A, once");
  expect_refusal(single(text + "," + token, "9").c_str(),
                 "t: post_processor.special_tokens.a.ids: expected ids of known tokens, got 9");
  expect_refusal(single(text + R"(,{"SpecialToken": {"id": "b", "type_id": 0}})", "0").c_str(),
                 "t: post_processor.special_tokens.b: expected a value, got none");
}

}  // namespace
}  // namespace switchyard
