// Templates that are wrong, endless or greedy end in one clear line.
#include <thread>

#include <gtest/gtest.h>

#include "jinja/jinja.h"
#include "support/expect_error.h"

namespace switchyard::jinja {
namespace {

std::string render(const std::string& source, const RenderOptions& options = {}) {
  return Template::parse(source, "f.jinja").render(OrderedJson::object(), options).text;
}

void expect_refused(const std::string& source, const std::string& part, int64_t max_steps = 1'000'000) {
  SCOPED_TRACE(source.substr(0, 200));
  RenderOptions options;
  options.max_steps = max_steps;
  expect_error([&] { render(source, options); }, part);
}

std::string repeat(const std::string& part, int times) {
  std::string out;
  for (int i = 0; i < times; ++i)
    out += part;
  return out;
}

TEST(Errors, NameTheLine) {
  expect_refused("a\n\n{{ x.y }}", "f.jinja: line 3: 'x' is undefined");
  expect_refused("a\n{% nosuch %}", "f.jinja: line 2: unknown or unsupported tag 'nosuch'");
  expect_refused("{{ 1\n|nosuch }}", "f.jinja: line 2: unknown filter 'nosuch'");
  expect_refused("\n{{ 1 is nosuch }}", "f.jinja: line 2: unknown test 'nosuch'");
  expect_refused("x\n{% if 1 %}\n\n", "line 2: the block that begins here has no 'endif'");
  expect_refused("\n{{ 'a", "line 2: the string that begins here has no end");
  expect_refused("\n{# a", "line 2: the comment that begins here has no end");
  expect_refused("\n{{ 1 ", "line 2: the tag that begins here has no end");
  expect_refused("\n{% raw %}\n", "line 2: the raw block that begins here has no end");
  expect_refused("{{ raise_exception('no\nway') }}", "f.jinja: line 1: template refused: no\\nway");
  expect_refused("{{ [1].append(2) }}", "line 1: method 'append' changes its list");
  expect_refused("{{ 'a'.encode() }}", "attribute 'encode' of a str is not supported");
  expect_refused("{{ 1 + 'a' }}", "unsupported operands of +: int and str");
  expect_refused("{{ 1\n+ ({}.x + 1) }}", "line 2: a dict has no 'x'");
  expect_refused("{{ 1 + 1 }", "line 1: ");
  expect_refused("a\xFF", "f.jinja: byte 1: expected valid UTF-8");
  expect_refused("{{ '\xC0\x80' }}", "expected valid UTF-8");
}

TEST(Errors, TheContextIsChecked) {
  const Template t = Template::parse("{{ x }}", "f");
  expect_error([&] { t.render(OrderedJson::array()); }, "the context must be an object");
  expect_error([&] { t.render({{"x", "\xFF"}}); }, "invalid UTF-8");
  expect_error([&] { t.render({{"x", UINT64_MAX}}); }, "does not fit 64 bits");
  OrderedJson deep = 1;
  for (int i = 0; i < 300; ++i)
    deep = OrderedJson::array({deep});
  expect_error([&] { t.render({{"x", deep}}); }, "nested more than 100 deep");
}

TEST(Limits, EndlessWork) {
  expect_refused("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
                 "more than 1000000 steps");
  expect_refused("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "nested more than 400 deep");
  expect_refused("{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
                 "nested more than 400 deep");
  expect_refused("{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(40) }}",
                 "more than 1000000 steps");
  expect_refused("{{ range(1000000000000) }}", "range of more than 100000 values");
  expect_refused("{{ range(-9223372036854775807, 9223372036854775807, 1) }}", "range of more than");
  EXPECT_EQ(render("{{ range(-9223372036854775807, 9223372036854775807, 9223372036854775807)|list|length }}"),
            "2");
}

TEST(Limits, Memory) {
  expect_refused("{{ 'x' * 10**12 }}", "a string of more than 16777216 bytes");
  expect_refused("{{ 'xy' * 9223372036854775807 }}", "64 bits");
  expect_refused("{{ [1] * 10**12 }}", "steps");
  expect_refused("{{ 'a'.center(10**12) }}", "a string of more than");
  expect_refused("{{ '5'.zfill(10**12) }}", "a string of more than");
  expect_refused("{{ '%999999999d' % 1 }}", "a width above 1000");
  expect_refused("{{ [1]|tojson(indent=10**12) }}", "a string of more than");
  expect_refused("{{ [1]|batch(10**12, 0)|list }}", "steps");
  expect_refused(
      "{% set ns = namespace(l=[1]) %}{% for i in range(100) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
      "steps");
  expect_refused(
      "{% set ns = namespace(s='x') %}{% for i in range(100) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
      "a string of more than", 100'000'000);
  // A small list that prints as 2^60 items.
  expect_refused(
      "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ "
      "ns.l }}",
      "steps");
  expect_refused(
      "{% set ns = namespace(l=[1], k=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}"
      "{% set ns.k = [ns.k, ns.k] %}{% endfor %}{{ ns.l == ns.k }}",
      "steps");
  expect_refused("{% set ns = namespace(l=[]) %}{% for i in range(200) %}{% set ns.l = [ns.l] %}{% endfor %}",
                 "lists nested more than 100 deep");
  expect_refused(
      "{% set ns = namespace(l=[]) %}{% for i in range(200) %}{% set ns.l = {'a': ns.l} %}{% endfor %}",
      "dicts nested more than 100 deep");
  expect_refused("{% set ns = namespace() %}{% set ns.self = ns %}", "a namespace cannot be stored");
  expect_refused("{% set x = 'y' * 10**7 %}{{ x }}{{ x }}", "more than 16777216 bytes of output",
                 100'000'000);
  expect_refused("{% set x = 'y' * 10**7 %}{{ x|replace('y', x) }}", "a string of more than", 100'000'000);
}

TEST(Limits, AreOptions) {
  RenderOptions options;
  options.max_output_bytes = 3;
  EXPECT_EQ(render("abc", options), "abc");
  expect_error([&] { render("abcd", options); }, "more than 3 bytes of output");
  options = {};
  options.max_steps = 50;
  expect_error([&] { render("{% for i in range(100) %}{% endfor %}", options); }, "more than 50 steps");
  options = {};
  options.max_range = 2;
  EXPECT_EQ(render("{{ range(2)|list }}", options), "[0, 1]");
  expect_error([&] { render("{{ range(3) }}", options); }, "range of more than 2 values");
  options = {};
  options.max_string_bytes = 4;
  expect_error([&] { render("{{ 'abc' ~ 'de' }}", options); }, "a string of more than 4 bytes");
}

TEST(Limits, DeepNestingInTheSource) {
  const int n = 100000;
  const std::string deep = "nested more than";
  expect_refused("{{ " + repeat("(", n) + "1" + repeat(")", n) + " }}", deep);
  expect_refused("{{ " + repeat("[", n) + repeat("]", n) + " }}", deep);
  expect_refused("{{ " + repeat("{1:", n) + repeat("}", n) + " }}", deep);
  expect_refused("{{ " + repeat("not ", n) + "1 }}", deep);
  expect_refused("{{ " + repeat("-", n) + "1 }}", deep);
  expect_refused("{{ 1" + repeat(" + 1", n) + " }}", deep);
  expect_refused("{{ 1" + repeat(" and 1", n) + " }}", deep);
  expect_refused("{{ x" + repeat(".y", n) + " }}", deep);
  expect_refused("{{ x" + repeat("()", n) + " }}", deep);
  expect_refused("{{ x" + repeat("[0]", n) + " }}", deep);
  expect_refused("{{ x" + repeat("|e", n) + " }}", "filter 'e' is supported only");
  expect_refused("{{ x" + repeat("|trim", n) + " }}", deep);
  expect_refused("{{ 1" + repeat(" if 1 else 1", n) + " }}", deep);
  expect_refused("{{ 1" + repeat(" if 1", n) + " }}", deep);
  expect_refused("{{ x" + repeat(" is defined", n) + " }}", "line 1");
  expect_refused(repeat("{% if 1 %}", n), "blocks nested more than 50 deep");
  expect_refused(repeat("{% for x in y %}", n), "blocks nested more than 50 deep");
  EXPECT_EQ(render("{% if 0 %}" + repeat("{% elif 0 %}", 10000) + "{% else %}x{% endif %}"), "x");
  EXPECT_EQ(render("{{ 'a'" + repeat(" ~ 'a'", 1000) + " }}"), repeat("a", 1001));
}

TEST(Template, RendersFromSeveralThreads) {
  const Template t = Template::parse("{% for x in l %}{{ 'a' ~ x }}{% endfor %}", "t");
  const OrderedJson context = {{"l", {1, 2, 3}}};
  std::vector<std::string> results(4);
  std::vector<std::thread> threads;
  for (std::string& result : results) {
    threads.emplace_back([&t, &context, &result] {
      for (int i = 0; i < 50; ++i)
        result = t.render(context).text;
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  for (const std::string& result : results)
    EXPECT_EQ(result, "a1a2a3");
}

}  // namespace
}  // namespace switchyard::jinja
