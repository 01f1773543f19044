#include "base/json.h"

#include <chrono>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "support/expect_error.h"

namespace switchyard {
namespace {

TEST(Json, Parses) {
  EXPECT_EQ(parse_json(R"({"a": [1, 2.5, "x"]})", "t")["a"][1], 2.5);
  EXPECT_EQ(parse_ordered_json(R"({"b": 1, "a": 2})", "t").begin().key(), "b");
}

TEST(Json, RefusesDuplicateKeysByName) {
  expect_error([] { parse_json(R"({"k": 1, "k": 2})", "f.json"); },
               "f.json: key 'k': expected each key once in an object, got it twice");
  expect_error([] { parse_ordered_json(R"([{"k": 1, "i": 2, "k": 3}])", "f.json"); }, "f.json: key 'k'");
  EXPECT_NO_THROW(parse_json(R"([{"k": 1}, {"k": {"k": 2}}])", "f.json"));
}

TEST(Json, RefusesDeepNesting) {
  const std::string deep(100000, '[');
  expect_error([&] { parse_json(deep, "f.json"); }, "nested at most 64 deep");
}

TEST(JsonStream, TakesTheItemsOfOneContainer) {
  std::vector<std::string> taken;
  const auto take = [&taken](const std::string& key, const Json& item) {
    taken.push_back(key + item.dump());
  };
  const JsonStream streams[] = {{{"a", "map"}, Json::value_t::object, take},
                                {{"a", "list"}, Json::value_t::array, take}};
  const Json rest = parse_json(
      R"({"map": {"x": 1}, "a": {"map": {"k": [1, {"q": 2}], "i": 3}, "z": {"list": [4]}, "list": ["s", [5]]}})",
      "t", streams);
  EXPECT_THAT(taken, testing::ElementsAre("k[1,{\"q\":2}]", "i3", "\"s\"", "[5]"));
  EXPECT_EQ(rest.dump(), R"({"a":{"list":[],"map":{},"z":{"list":[4]}},"map":{"x":1}})");
}

TEST(JsonStream, LeavesValuesOfAnotherTypeAlone) {
  const auto take = [](const std::string&, const Json&) { FAIL(); };
  const JsonStream streams[] = {{{"a"}, Json::value_t::object, take}};
  for (const char* text : {R"({"a":[1]})", R"({"a":null})", R"([{"a":{"b":1}}])", "7"})
    EXPECT_EQ(parse_json(text, "t", streams).dump(), text);
}

TEST(JsonStream, KeepsTheOtherChecks) {
  const JsonStream streams[] = {{{"a"}, Json::value_t::object, [](const std::string&, const Json&) {}}};
  expect_error([&] { parse_json(R"({"a": {}, "a": {}})", "t", streams); }, "t: key 'a'");
  expect_error([&] { parse_json(R"({"a": {"k": {"i": 1, "i": 2}}})", "t", streams); }, "t: key 'i'");
  expect_error([&] { parse_json(R"({"a": {"k": )" + std::string(100, '['), "t", streams); },
               "nested at most 64 deep");
  expect_error([&] { parse_json(R"({"a": {"k": 1)", "t", streams); }, "t: byte 14: expected valid JSON");
}

TEST(Json, NamesTheByteOfASyntaxError) {
  expect_error([] { parse_json("{\"a\": }", "f.json"); }, "f.json: byte 7");
  expect_error([] { parse_json("", "f.json"); }, "f.json: byte 1");
  expect_error([] { parse_json("\"\xFF\"", "f.json"); }, "f.json: byte");
  expect_error([] { parse_json("1e999", "f.json"); }, "f.json");
}

// A parser that is quadratic in the number of objects would need minutes.
TEST(Json, ParsesManyObjectsInLinearTime) {
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i)
    text += fmt::format("{}\"{}\": {{}}", i == 0 ? "" : ", ", i);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(parse_json(text + "}", "t").size(), 200'000u);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(ReadFile, RefusesMissingLargeAndSpecialFiles) {
  expect_error([] { read_file("/no/such/file", 10); },
               "/no/such/file: expected a readable file, got No such file");
  expect_error([] { read_file("/dev", 10); }, "a regular file");
  expect_error([] { read_file(SWITCHYARD_SOURCE_DIR "/CMakeLists.txt", 10); }, "at most 10 bytes");
}

}  // namespace
}  // namespace switchyard
