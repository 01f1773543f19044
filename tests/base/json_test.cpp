#include "base/json.h"

#include <chrono>
#include <string>

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
  EXPECT_NO_THROW(parse_json(R"([{"k": 1}, {"k": {"k": 2}}])", "f.json"));
}

TEST(Json, RefusesDeepNesting) {
  const std::string deep(100000, '[');
  expect_error([&] { parse_json(deep, "f.json"); }, "nested at most 64 deep");
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
