#!/usr/bin/env python3
"""Renders templates with Jinja2 set up as `transformers` does and stores what they give.

Writes tests/data/jinja/cases.json: a list of {template, expected | error | refused} that share a context, and
tests/data/jinja/families.json: whole chats, each with its own context. `refused` is a part of the engine's message
for what Jinja2 renders and the engine does not. Needs Python 3 with jinja2 3.1.
"""
import json
import pathlib
from datetime import datetime

import jinja2
from jinja2.ext import loopcontrols
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2 import nodes

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "tests" / "data" / "jinja"
NOW = datetime(2024, 7, 26, 9, 5, 3)  # a Friday


class Generation(Extension):
    """Renders the body of a generation block as it is."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda fmt: NOW.strftime(fmt)
    return env


ENV = environment()

CONTEXT = {
    "s": "Hello, World", "e": "", "u": "héllo wörld 🙂 你好", "ws": " \t padded \n", "lines": "one\ntwo\r\nthree\n\nfive",
    "i": 7, "n": -3, "z": 0, "f": 2.5, "big": 9223372036854775807, "t": True, "no": False, "nil": None,
    "l": [3, 1, 2], "ls": ["b", "A", "c", "a"], "el": [], "nest": [[1, 2], [3, [4, None]]],
    "d": {"b": 1, "a": "x", "C": None, "n": {"k": [1, 2]}}, "ed": {},
    "items_key": {"items": {"type": "string"}, "keys": 3},
    "q": "it's", "qq": "say \"hi\"", "qqq": "'\"", "ctl": "a\u0001b\u007f\u00a0\u00ad\u2028é", "html": "<a href='x'>&\"",
    "users": [{"name": "Ann", "age": 30, "on": True, "tag": {"k": "z"}}, {"name": "bob", "age": 25, "on": False, "tag": {"k": "y"}},
              {"name": "Cid", "age": 30, "on": True, "tag": {"k": "x"}}, {"name": "dan"}],
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
                 {"role": "assistant", "content": "Hello!"}],
}

# One template a line here: expressions, printed on their own.
EXPRESSIONS = r"""
1 + 2 * 3
7 // 2, -7 // 2, 7 // -2, 7 % 3, -7 % 3, 7 % -3
7 / 2, 6 / 3
7.5 // 2, -7.5 // 2, 7.5 % -2, -7.5 % 2, 4.0 // 0.1
2 ** 10, 2 ** -1, 2 ** 3 ** 2, 2.0 ** 0.5, (-2) ** 2, -2 ** 2
+5, -i, - -i, -f, +t
1 / 0
1 // 0
1 % 0
1.0 / 0
1.0 % 0
0 ** -1
true + true, true * 3, -true
i + nil
"a" + 1
1 + "a"
"a" ~ 1 ~ 2.0 ~ none ~ true ~ undefined_x ~ [1]
"ab" * 3, 3 * "ab", [1, 2] * 2, "ab" * 0, "ab" * -1, (1,) * 2
[1] + [2, 3], (1,) + (2,)
[1] + (2,)
"%s is %d and %.2f%%" % ("x", 3, 2.345)
"%s" % "x", "%5s|%-5s|" % ("a", "b"), "%05d|%+d|%x|%X|%o" % (42, 42, 255, 255, 8)
"%s" % [1, "a"], "%r" % "a", "%s" % none, "%(a)s-%(b)d" % {"a": 1, "b": 2}
"%e|%g" % (12345.678, 0.0001)
"%d" % 3.99, "%d" % -3.99, "%i" % true
"%s %s" % "x"
"%s" % (1, 2)
"x" % 1
"%d" % "x"
"%y" % 1
"%.2s|%5.1f" % ("abc", 2.25)
1 == 1.0, 1 == true, "a" == "a", "1" == 1, none == none, [1] == [1.0], (1,) == [1], {"a": 1} == {"a": 1.0}
1 != 2, "a" != "b", none != false
1 < 2 < 3, 1 < 3 < 2, 3 > 2 >= 2, 1 <= 1.0
"a" < "b", "B" < "a", [1, 2] < [1, 3], [1] < [1, 0], (1, 2) > (1,)
"é" > "z"
1 < "a"
none < 1
[1] < (2,)
9007199254740993 == 9007199254740992.0, 9007199254740993 > 9007199254740992.0
1 in [1, 2], 3 not in [1, 2], "a" in "abc", "" in "abc", "k" in {"k": 1}, 1 in {1: 2}, none in [none]
1 in "abc"
1 in 5
none in "a"
1 in none
"x" in d, "b" in d, "b" not in d
true and 0, 1 and 2, 0 or "x", "" or none, not 1, not "", not not 1
0 and 1 / 0, 1 or 1 / 0
not 1 == 2, not 1 in [1]
1 if true else 2, 1 if false else 2, (1 if false) is undefined
"x" if false
1 if false else 2 if false else 3
[1, 2, 3][0], [1, 2, 3][-1], [1, 2, 3][5] is undefined, "abc"[1], "abc"[-1], "abc"[9] is undefined
[1, 2, 3][true], {1: 2}[true], {"a": 1}["b"] is undefined
l.0, l.1, users.0.name, users[0]["name"]
[0, 1, 2, 3, 4][1:3], [0, 1, 2, 3, 4][::-1], [0, 1, 2, 3, 4][::2], [0, 1, 2, 3, 4][-2:], [0, 1, 2, 3, 4][:-2]
[0, 1, 2, 3, 4][4:1:-2], [0, 1, 2, 3, 4][10:], [0, 1, 2, 3, 4][-10:2], [0, 1, 2, 3, 4][none:none:none]
[1, 2][::0]
[1, 2]["a":]
{"a": 1}[0:1]
u[0:2], u[1], u[::-1], u[-2:], u[12], u|length
s[:5], s[-5:], s[::3], s[7:], s[20:], s[3:1], s[-3:-1], s[10:2:-3]
(1, 2, 3)[1:], range(5)[1] , range(10)[2:8:3]|list
(), (1,), (1, 2), [], [[]], {}, {"a": (1,)}
1, "two", 3.0, [4]
[1, 2,], (1, 2,), {"a": 1,}
"a" "b" 'c'
'it\'s', "say \"x\"", 'tab\there', "nl\nx", "\x41\u00e9\U0001F642", "\101\0"|length, "\q", "\\n"
"\N{BULLET}"
0x1F, 0o17, 0b101, 1_000_000, 1e3, 1.5e-3, 1E5, 0.1, 00, 1_0.0_1
012
99999999999999999999
9223372036854775807, -9223372036854775807 - 1
9223372036854775807 + 1
9223372036854775807 * 2
-9223372036854775807 - 2
3037000500 ** 2
10 ** 18
1.0, 1e16, 1e15, 123456789012345680.0, 1e-4, 1e-5, 0.1 + 0.2, 1e100, 1.5e300 * 1e10, -0.0, 3.14159, 1e22, 5e-324, 100000.0
1e308 * 10, -1e308 * 10, 1e308 * 10 - 1e308 * 10
true, false, none, True, False, None
s, e, u, i, n, z, f, big, t, no, nil
l, ls, el, nest, d, ed
q, qq, qqq, ctl
[q, qq, qqq, ctl, "\\", "\t\r\n"]
undefined_x
undefined_x.y
undefined_x["y"]
undefined_x[0]
undefined_x[1:]
undefined_x()
undefined_x + 1
1 - undefined_x
-undefined_x
undefined_x < 1
undefined_x == undefined_y, undefined_x != 1, undefined_x == none
undefined_x in [1], 1 in undefined_x, undefined_x in d
undefined_x in "abc"
undefined_x|length, undefined_x|list, undefined_x|join, undefined_x|upper, undefined_x ~ "a", undefined_x|default("d")
undefined_x is iterable, undefined_x is sequence, undefined_x is mapping, undefined_x is string, undefined_x is none
not undefined_x, undefined_x or "x", undefined_x and "x"
[undefined_x]
undefined_x|tojson
undefined_x|int
undefined_x|float
undefined_x|abs
undefined_x|round
undefined_x|first is undefined, undefined_x|last is undefined, undefined_x|sum, undefined_x|trim
d.b, d["a"], d.C, d.n.k[1], d.zz is defined, d.zz, d["n"]["k"]
d.zz.y
nil.x is undefined, nil.x, i.x, s.x, l.x
nil["x"] is undefined, i[0] is undefined, nil[0]
items_key.items is mapping, items_key["items"]["type"], items_key["keys"], items_key.items()|length, items_key.values()|list
d.items(), d.keys(), d.values()
d.items()|list, d.keys()|list, d.values()|length, d.items()|length
d.get("b"), d.get("zz"), d.get("zz", 5), d.get(1)
d.get()
d.items()[0]
d.copy() == d, l.copy()
d.pop("a")
d.update({})
d.clear()
d.setdefault("a", 1)
l.append(1)
l.pop()
l.sort()
l.extend([1])
l.index(2), l.count(1), (1, 2, 1).count(1), (1, 2).index(2)
l.index(99)
s.upper(), s.lower(), s.title(), "hELLO wORLD".capitalize(), "they're bill's".title(), "aB".swapcase()
ws.strip(), ws.lstrip(), ws.rstrip(), "xxaxx".strip("x"), "abcba".lstrip("ab"), "abcba".rstrip("ab"), u.strip("h好")
" \u3000\u00a0x\u2003".strip(), "\x1cx".strip()|length, "x".strip(none)
"a,b,,c".split(","), "a,b,,c".split(",", 1), "a,b,,c".split(",", maxsplit=2), "".split(","), "a".split(","), ",".split(",")
" a  b \n c ".split(), "".split(), " a  b  c ".split(none, 1), "a b c ".split(" "), " a b  c  ".split(maxsplit=2)
"a,b,,c".rsplit(","), "a,b,,c".rsplit(",", 1), " a  b  c ".rsplit(none, 1), "aXXbXXXc".rsplit("XX", 2), " a b".rsplit()
"a".split("")
"x</think>y</think>z".split("</think>")[-1], "x</think>y".split("</think>")[0]
lines.splitlines(), lines.splitlines(true), "".splitlines(), "a\n".splitlines(), "a\x0bb\u2028c".splitlines()
s.startswith("Hell"), s.endswith("ld"), s.startswith(("x", "H")), s.endswith(("x",)), s.startswith(""), e.startswith("a")
s.startswith(1)
s.replace("l", "L"), s.replace("l", "L", 2), s.replace("", "-"), "".replace("", "x"), "aaa".replace("aa", "b"), u.replace("", "|")
"abc".replace("", "-", 2), "abc".replace("b", ""), "abc".replace("b", "", 0)
s.find("o"), s.find("zz"), s.rfind("o"), u.find("w"), u.find("你"), s.index("W"), s.rindex("l"), s.count("l"), s.count("")
s.index("zz")
", ".join(["a", "b"]), "".join([]), "-".join("abc"), ",".join(d)
",".join([1])
"{} and {}".format(1, "b"), "{0}{1}{0}".format("a", "b"), "{x}-{{}}".format(x=3), "a".format()
"{}".format()
"{".format(1)
"a-b-c".partition("-"), "a-b-c".rpartition("-"), "abc".partition("-"), "abc".rpartition("-")
"12".isdigit(), "".isdigit(), "1a".isdigit(), "ab".isalpha(), "a1".isalnum(), " \n".isspace(), "".isspace(), "AB1".isupper(), "ab".islower(), "aB".islower()
"5".zfill(3), "-5".zfill(4), "abc".center(8, "*"), "abcd".center(7, "*"), "a".ljust(3) ~ "|", "a".rjust(3)
"prefix-x".removeprefix("prefix-"), "x.txt".removesuffix(".txt"), "x".removeprefix("y"), "x".removesuffix("")
s.nosuch is undefined
s.nosuch()
s()
i()
s.upper(1)
s.strip(1)
s|upper, s|lower, "foo-bar baz's (qux) [z]"|title, "HELLO wORLD"|capitalize, "a_b c"|title
ws|trim, "xxaxx"|trim("x"), i|trim, "xyaxy"|trim(chars="yx")
s|length, l|length, d|length, e|length, l|count, range(4)|length
i|length
nil|length
s|replace("l", "L"), s|replace("l", "L", 1), i|replace("7", "8"), "aaa"|replace("a", "b", count=2)
l|join, l|join(","), l|join(", ")|upper, users[:3]|join("/", attribute="name"), "abc"|join("-"), [1, none, true, 2.5]|join("|"), d|join(",")
nil|join
l|first, l|last, s|first, s|last, el|first is undefined, el|last is undefined, d|first, d|last
l|list, s|list, d|list, (1, 2)|list, range(3)|list
nil|list
i|list
l|map("string")|list, ls|map("upper")|list, users|map(attribute="name")|join(","), users|map(attribute="age", default=0)|list, users|map(attribute="tag.k", default="?")|first
ls|map("replace", "a", "X")|list, nest|map("first")|list, [1.5, 2.5]|map("int")|list, users|map(attribute="age")|list|length
l|map("nosuch")|list
l|map
l|map(1)|list
[0, 1, "", "a", none]|select|list, [0, 1, "", "a", none]|reject|list
l|select("odd")|list, l|reject("odd")|list, l|select("gt", 1)|list, l|select(">", 1)|list, l|select("in", [1, 2])|list, l|select("equalto", 3)|list
l|select("divisibleby", 3)|list, l|select("nosuch")|list
users|selectattr("on")|map(attribute="name")|list, users|rejectattr("on")|map(attribute="name")|list
users|selectattr("age", "defined")|list|length, users|selectattr("age", "==", 30)|map(attribute="name")|list, users|rejectattr("age", "undefined")|list|length
users[:3]|selectattr("tag.k", "equalto", "y")|map(attribute="name")|first
messages|selectattr("role", "equalto", "system")|list|length > 0
messages|selectattr("role", "eq", "user")|map(attribute="content")|first
messages|rejectattr("role", "in", ["system", "user"])|list
users|selectattr("age", "gt", 26)|list
d|tojson, l|tojson, nest|tojson, s|tojson, u|tojson, ctl|tojson, qq|tojson, nil|tojson, t|tojson, f|tojson, (1, "a")|tojson, ed|tojson, el|tojson
html|tojson, "\b\f\n\r\t\x1f/\\"|tojson, 1e16|tojson, 1e308 * 10|tojson, -(1e308 * 10)|tojson
u|tojson(ensure_ascii=true), "🙂"|tojson(true), d|tojson(sort_keys=true), {1: 2, none: 3, true: 4, 1.5: 5}|tojson
d|tojson(indent=2)
nest|tojson(indent=1)
d|tojson(indent=0)
d|tojson(indent="--")
{"a": [], "b": {}}|tojson(indent=4)
d|tojson(separators=(",", ":")), d|tojson(separators=(", ", " = "), indent=none)
d|tojson(nosuch=1)
d.items()|tojson
range(2)|tojson
l|string, i|string, nil|string ~ "", d|string, f|string, t|string
"42"|int, " 42 "|int, "4_2"|int, "x"|int, "x"|int(5), "3.9"|int, 3.9|int, -3.9|int, true|int, none|int, "1e3"|int, "-7"|int, "+7"|int, "0x1f"|int, ""|int, "٣"|int(-1) is integer
"3.5"|float, "x"|float, "x"|float(1.5), 3|float, true|float, none|float, "1e5"|float, "inf"|float, "-.5"|float, " 2 "|float
1e30|int
[1]|int, [1]|float, {}|int(3)
2.5|round, 3.5|round, 2.567|round(2), 2.675|round(2), 42|round, 42.4|round(method="ceil"), 42.6|round(0, "floor"), 1.25|round(1), -2.5|round, 1234.5|round(-2), 1e20|round, 2.345|round(2, "ceil")
"a"|round
2.5|round(method="x")
-3|abs, 3.5|abs, -3.5|abs, n|abs, -1|abs
"a"|abs
d|items|list, ed|items|list, undefined_x|items|list
l|items|list
d|dictsort, {"b": 1, "A": 2, "a": 3}|dictsort, {"b": 1, "A": 2}|dictsort(true), {"b": 1, "A": 2}|dictsort(by="value"), {"b": 1, "A": 2}|dictsort(reverse=true), {"b": 1, "a": 2}|dictsort(false, "value", true)
d|dictsort(by="x")
l|sort, ls|sort, ls|sort(case_sensitive=true), l|sort(reverse=true), ls|sort(true), users[:3]|sort(attribute="age")|map(attribute="name")|list, users[:3]|sort(attribute="tag.k")|map(attribute="name")|list, "hello"|sort
users[:3]|sort(attribute="age", reverse=true)|map(attribute="name")|list
[1, "a"]|sort
[none, 1]|sort
[1, 2, 1, 3]|unique|list, ls|unique|list, ["a", "A"]|unique(true)|list, users[:3]|unique(attribute="age")|map(attribute="name")|list
s|reverse, l|reverse|list, u|reverse, (1, 2)|reverse|list, d|reverse|list
i|reverse
lines|indent, lines|indent(2), lines|indent(2, true), lines|indent(2, blank=true), "a\nb"|indent("> "), "a\n"|indent, ""|indent ~ "|", ""|indent(first=true) ~ "|"
html|safe
html|escape
html|e
i|escape
l|min, l|max, ls|min, ls|max, ls|max(true), el|max is undefined, users[:3]|max(attribute="age"), users[:3]|min(attribute="age")|string|length, [1, 2.5, true]|max
l|sum, [1.5, 2]|sum, users[:3]|sum(attribute="age"), l|sum(start=10), el|sum, [[1], [2]]|sum(start=[])
ls|sum
["a"]|sum(start="")
[1, 2, 3, 4, 5]|batch(2)|list, [1, 2, 3]|batch(2, "x")|list, []|batch(2)|list, range(4)|batch(4)|list
e|default("d"), e|default("d", true), nil|default("d"), nil|default("d", true), zz|default, zz|d(1), zz.y|default("q") if zz is defined else "no", no|default("x", boolean=true)
"%s-%s"|format("a", 1), "%d"|format(3)
l|nosuch
nil|upper, i|upper, t|lower, 1.5|string|length
s is defined, zz is defined, zz is undefined, s is undefined, zz is not defined, d.zz is defined, d.b is defined
nil is none, i is none, nil is not none, zz is none
s is string, i is string, i is number, f is number, t is number, i is integer, t is integer, f is integer, f is float, i is float, t is boolean, i is boolean
d is mapping, l is mapping, l is sequence, s is sequence, d is sequence, i is sequence, l is iterable, s is iterable, i is iterable, nil is iterable, range(2) is sequence, d.items() is sequence, d.items() is iterable
t is true, no is false, 1 is true, nil is false, t is sameas true, no is sameas t, nil is sameas none
i is odd, i is even, z is even, i is divisibleby 7, i is divisibleby(2), n is odd, n is even
s is lower, "abc" is lower, "ABC" is upper, "123" is lower, i is lower
i is eq 7, i is equalto(7), i is == 7 if false else 1, i is ne 7, i is lt 8, i is gt 8, i is le 7, i is ge 8, i is lessthan 8, i is greaterthan 6
i is in [7], i is not in [7], "a" is in "abc", "b" is in d
raise_exception is callable, s is callable, range is callable
i is nosuch
1 is divisibleby 0
"a" is odd
i is string is true
not i is string, not s is defined and true, s is defined and i is number
s is string or zz, (s is string) if i is number else 2
range(3)|list, range(1, 4)|list, range(5, 0, -2)|list, range(0)|list, range(3, 1)|list, range(-2, 3)|list
range(1, 2, 0)
range("a")
range(100001)|length
range(100000)|length
range()
dict(a=1, b="x"), dict({"a": 1}, b=2), dict([("a", 1), ("b", 2)]), dict()
namespace(a=1).a, namespace({"b": 2}).b, namespace().zz is defined
raise_exception("boom")
raise_exception()
strftime_now("%d %b %Y"), strftime_now("%Y-%m-%d %H:%M:%S"), strftime_now("%A, %B %d, %j, 100%%"), strftime_now("%-d/%-m %I %p %y"), strftime_now("plain é")
i|string|length|string ~ "x"
-1|abs, 1 + 2|abs, "a" ~ "b"|upper, (1 + -2)|abs, -f|abs, 2 ** 3|string
users[0].name.upper()[:2], d["n"].k[-1] + 1, (s ~ "x").split(",")[0], "a b".split()[1].upper()
[s, i][1], {"a": {"b": 3}}.a.b, {"a": 1}.get("a"), (1, 2)[0], "abc".upper().lower()
{"a": 1, "a": 2}, {1: "x", 1.0: "y", true: "z"}
{[1]: 2}
{"k" ~ i: i}
l|length - 1, (l|length) * 2, l|length == 3, messages|length - 1
messages[-1].role, messages[0]["role"] == "system", messages[1:][0].content, messages[::-1][0].role, messages|last
d == {"C": none, "b": 1.0, "a": "x", "n": {"k": [1, 2]}}, nest == [[1, 2], [3, [4, none]]]
[1, [2]] < [1, [3]], [[1], 2] == [[1], 2]
html ~ html|length
1.5 is integer, 10 // 3 * 3 + 10 % 3, 1 - 1 - 1, 2 * 3 / 4
nil ~ "", "" ~ nil, [nil]|string, [t, no]|string
"x" in ["x"] and "y" not in ["x"], "a" == "a" and 1 != 2
loop
self is defined
varargs is defined
messages is not string and messages is iterable
(messages[0].content if messages[0].content is string else "") ~ "|"
users|map(attribute="name")|map("lower")|map("length")|sum
users|groupby("age")
s|wordcount
s|truncate(5)
s|center(20)
d|xmlattr
l|random
i.__class__
s.__len__
"".__class__.__mro__
l|map("upper")
d|items
"a"|reverse|first, "abc"|list|reverse|join
1 if 2
true is defined, none is defined, 1 is number
users.0.nosuch is defined, users.9 is defined
9223372036854775807|float, 9223372036854775807 / 2
1e400
"abc"|first|upper, ["a"]|first|upper
{"a": 1}|length, {"a": 1} is mapping, {}|length
[1,2,3]|last, [1, 2, 3][l|length - 1]
i if i is defined and i is not none else "z"
"\u2028" in ctl, "é" in u, "好" in u, u.split(" ")
u|list|length, u.find("🙂"), u[12:13]|length, u|tojson|length
"<|im_end|>" ~ s
"a".join(["1", "2"]) + "b"
none|default("x"), false|default("x", true), 0|default("x", true), ""|d("x", true)
" a "|trim|length, (" a "|trim)|length
not (1 in [2]), 1 not in [2], (not 1) in [false]
1 is eq(1), 1 is not eq(2), "a" is eq "a"
3 is divisibleby 3 and 4 is even
"a" if 1 is odd else "b"
"%s" % undefined_x, "%s" % (none,)
[1, 2, 3]|select("even")|list == [2]
"x" * 3 ~ "y"
10 == 10.0 and "10" != 10
[x for x in l]
lambda: 1
a = 1
1 +
(1
[1, 2
{"a" 1}
"unterminated
f(*l)
f(**d)
l[1,2]
s|
s is
s.
1 2
a b
)
]
}
@
$
é
and
not
if
1 ! 2
&
s[
s[]
range(3)
"a"|safe + "b"
lipsum()
cycler(1, 2)
joiner(",")
"É"|upper
"É".lower()
u|upper, u|lower, u|title, u|capitalize, u.upper(), u.title(), u.capitalize(), u.swapcase()
"straße ﬁn ŉ ΐ"|upper, "straße ﬁn".title(), "ßa ﬁn ŉx"|title, "ﬁN ß"|capitalize, "ﬁß".swapcase(), "İI ı".lower(), "İI ıi"|upper, "İ".swapcase()|length
"ΟΔΥΣΣΕΥΣ ΑΣ. ΑΣ'Α Σ"|lower, "ΟΔΥΣΣΕΥΣ ΑΣ"|title, "ΟΔΥΣΣΕΥΣ ΑΣ".title(), "ΑΣ ΣΑΣ"|title, "ΑΣ ΣΑΣ".title(), "ΣΑΣ ΑΣ"|capitalize, "ΑΣ σς".swapcase()
"ǆ ǅ Ǆ"|upper, "ǆ ǅ Ǆ"|lower, "ǆx ǅX ǄX".title(), "ǆx ǅX ǄX"|title, "ǆX"|capitalize, "ǆ ǅ Ǆ".swapcase(), "ᾳ ᾼ"|upper, "ᾳx ᾼx".title(), "ᾼ"|lower
"l'été-ÉCOLE (ÉA) [éb] {éc <éd"|title, "l'été-ÉCOLE (ÉA) x²y 3É ªb ʰc".title(), "a\u2003é\u00a0ü\u3000ж"|title, "你好 ÄB 世界"|title, "e\u0301A e\u0301"|capitalize, "ЖУК жук".swapcase()
"𐐀𐐨 Ꭰꭰ ⓐⅣ"|upper, "𐐀𐐨 Ꭰꭰ ⓐⅣ"|lower, "𐐨𐐨 ꭰꭰ ⓐⅣ".title(), "𐐀𐐨 ⓐⅣ".swapcase(), "ნა"|upper, "ნა".title(), "և"|upper, "և".title()
["Ö", "z", "ä", "Ä", "o", "É", "e"]|sort, ["Ö", "z", "ä", "Ä", "o", "É", "e"]|sort(reverse=true), ["É", "é", "e"]|sort(case_sensitive=true)
{"数": 1, "Ö": 2, "ö": 3, "a": 4, "名": 5}|dictsort, {"b": "Ä", "a": "ä", "c": "A"}|dictsort(by="value")
["É", "é", "E", "ß", "ẞ", "SS", "你"]|unique|list, ["É", "é"]|unique(true)|list, ["Б", "а", "В"]|min, ["б", "А", "В"]|max, ["Б", "а"]|min(true)
"É".isupper()
"É" is upper
"É".isalpha()
""|upper ~ "é"
""".strip("\n").split("\n")

# Whole templates, as Python strings.
TEMPLATES = [
    "{{ 'a\\\nb' }}", "", "plain", "a\n", "a\n\n", "a\r\nb\rc\n", "{# c #}", "a{# c #}b", "a {#- c -#} b", "a\n{# c #}\nb", "  {# c #}\nb", "a {# c #}\n b",
    "{#", "{# x", "{{", "{{ 1", "{% if", "{% if 1 %}", "{% endif %}", "{% for x in l %}", "{% set", "{%", "%}", "}}", "#}", "a } b { c", "{ { 1 } }", "{ % x % }",
    "{{1}}{{2}}", "{{- 1 -}}", " {{- 1 -}} x", " {{ 1 }} x", "a\n{{ 1 }}\nb", "a\n  {{ 1 }}\nb", "a\n  {{- 1 }}\nb", "a\n  {{ 1 -}}\n  b",
    "a\n  {%- if 1 %}\n  x\n  {%- endif %}\nb", "a\n  {% if 1 %}\n  x\n  {% endif %}\nb", "a\n  {%+ if 1 %}\n  x\n  {%+ endif %}\nb",
    "a\n  {% if 1 +%}\n  x\n  {% endif +%}\nb", "a\n  {% if 1 -%}\n  x\n  {% endif -%}\nb", "a {% if 1 %} b {% endif %} c", "  {% if 1 %}x{% endif %}",
    "x  {% if 1 %}y{% endif %}", "{% if 1 %}\n\n\nx{% endif %}\n\n\ny", "\t {% if 1 %}x{% endif %}\n \t{% if 1 %}y{% endif %}",
    "{% if 1 %}  {% if 1 %}x{% endif %}{% endif %}", "{% if 1 %}\n  {% if 1 %}\nx{% endif %}{% endif %}", "{{ 1 }}  {% if 1 %}x{% endif %}", "{{ 1 }}\n  {% if 1 %}x{% endif %}",
    "a\u3000{%- if 1 %}x{% endif %}", "\u3000{% if 1 %}x{% endif %}", "a\n \x0b{% if 1 %}x{% endif %}", "a{{ 1 -}}\n\n {{- 2 }}", "{{ 1 +}}", "{{+ 1 }}", "{%- if 1 -%} x {%- endif -%} y",
    "  {#- x #}\n y", "  {# x -#}\n y", "  {#+ x #}\n y", "  {# x +#}\n y", "a\n  {# x #}  \nb", "{# a #}\n{# b #}\nc", "{# {{ 1 }} {% x %} #}z", "{# a {# b #} c #}",
    "{% raw %}{{ x }}{% if %}{% endraw %}", "a\n  {% raw %}\n  {{ x }}\n  {% endraw %}\nb", "a {%- raw -%}  {{ x }}  {%- endraw -%} b", "{% raw %}x", "{%raw%}{%x%}{%endraw%}", "{% raw %}\n{# c #}{% endraw %}\nz",
    "  {% raw %}a{% endraw %}  {% if 1 %}x{% endif %}", "{% raw %}a\n  {%+ endraw %}b", "{% raw +%}",
    "{{ {'a': {'b': 1}}['a']['b'] }}", "{{ {'a': {'b': 1}}}}", "{{ '}}' }}", "{% if '%}' %}x{% endif %}", "{{ \"{{\" }}", "{{ [1, (2, {'a': 3})] }}", "{{ (1] }}", "{{ 1 }", "{{ 1 %}", "{% if 1 }}x{% endif %}",
    "{% if i == 7 %}a{% elif i == 8 %}b{% else %}c{% endif %}", "{% if i == 8 %}a{% elif i == 7 %}b{% else %}c{% endif %}", "{% if zz %}a{% elif zz %}b{% else %}c{% endif %}", "{% if zz %}a{% endif %}b",
    "{% if 1 %}a{% else %}b{% else %}c{% endif %}", "{% if 1 %}a{% else %}b{% elif 1 %}c{% endif %}", "{% elif 1 %}", "{% else %}", "{% if %}x{% endif %}", "{% if 1 if 0 else 1 %}x{% endif %}", "{% if (1 if 0 else 1) %}x{% endif %}", "{% if 1, 0 %}x{% endif %}",
    "{% if not zz is defined %}a{% endif %}{% if zz is defined and zz %}b{% endif %}",
    "{% for x in l %}{{ x }},{% endfor %}", "{% for x in el %}{{ x }}{% else %}none{% endfor %}", "{% for x in l %}{{ x }}{% else %}none{% endfor %}", "{% for x in zz %}a{% else %}b{% endfor %}", "{% for x in nil %}a{% endfor %}", "{% for x in 5 %}a{% endfor %}",
    "{% for c in 'héy' %}[{{ c }}]{% endfor %}", "{% for k in d %}{{ k }};{% endfor %}", "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k, v in d|items %}{{ k }}={{ v }};{% endfor %}", "{% for k, v in d|dictsort %}{{ k }}={{ v }};{% endfor %}", "{% for (k, v) in d.items() %}{{ k }}{% endfor %}",
    "{% for a, b in [[1, 2], (3, 4), 'xy'] %}{{ a }}-{{ b }} {% endfor %}", "{% for a, b in [[1]] %}x{% endfor %}", "{% for a, b in [[1, 2, 3]] %}x{% endfor %}", "{% for a, b in [1] %}x{% endfor %}", "{% for a, in [[1], [2]] %}{{ a }}{% endfor %}", "{% for x in 1, 2, 3 %}{{ x }}{% endfor %}", "{% for x in (1, 2) %}{{ x }}{% endfor %}",
    "{% for x in l %}{{ loop.index }}/{{ loop.index0 }}/{{ loop.revindex }}/{{ loop.revindex0 }}/{{ loop.first }}/{{ loop.last }}/{{ loop.length }}/{{ loop.depth }}/{{ loop.depth0 }} {% endfor %}",
    "{% for x in l %}{{ loop.previtem }}<{{ x }}<{{ loop.nextitem }} {% endfor %}", "{% for x in l %}{{ loop.previtem is defined }} {{ loop.nextitem is defined }} {% endfor %}", "{% for x in l %}{{ loop.cycle('a', 'b') }}{% endfor %}", "{% for x in l %}{{ loop.cycle() }}{% endfor %}",
    "{% for x in range(6) if x is odd %}{{ x }}:{{ loop.index }}/{{ loop.length }} {% endfor %}", "{% for x in range(3) if x > 5 %}a{% else %}b{% endfor %}", "{% for x in l if loop.index %}a{% endfor %}", "{% for x in l if x if x %}a{% endfor %}", "{% for x in l if x > 1 and x < 3 %}{{ x }}{% endfor %}",
    "{% for a, b in d.items() if b %}{{ a }}{% endfor %}", "{% for x in (l if t else el) %}{{ x }}{% endfor %}", "{% for x in l if t else el %}{{ x }}{% endfor %}",
    "{% for x in [[1, 2], [3]] %}{% for y in x %}{{ y }}{{ loop.last }}{% endfor %}|{{ loop.index }}{% endfor %}", "{% for x in l %}{% for x in ls %}{{ x }}{% endfor %}{{ x }}{% endfor %}", "{% for x in l %}{% set o = loop %}{% for y in ls %}{{ o.index }}{{ loop.index }} {% endfor %}{% endfor %}",
    "{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}", "{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}", "{% for x in l %}{% for y in l %}{% if y == 1 %}{% break %}{% endif %}{{ y }}{% endfor %}{{ x }}{% endfor %}", "{% for x in l %}{% break %}{% else %}e{% endfor %}", "{% break %}", "{% continue %}",
    "{% for x in l|reverse %}{{ x }}{{ loop.last }}{% endfor %}", "{% for x in l|map('string') %}{{ x }}{{ loop.length }}{% endfor %}", "{% for i in range(2) %}{{ i }}{% endfor %}{{ i }}", "{% for x in l recursive %}{{ x }}{% endfor %}", "{% for x in l %}{{ loop.nosuch is defined }}{% endfor %}", "{% for x in l %}{{ loop }}{% endfor %}", "{% for true in l %}{% endfor %}", "{% for loop in l %}{% endfor %}", "{% for x of l %}{% endfor %}", "{% for x.y in l %}{% endfor %}", "{% for in l %}{% endfor %}", "{% for x in l %}{{ loop.changed(x) }}{% endfor %}",
    "{% for m in messages if m.role != 'system' %}{{ loop.index0 }}{{ m.role }} {% endfor %}", "{% for x in l %}{{ loop.index is divisibleby 2 }}{% endfor %}", "{{ loop is defined }}", "{% for x in l %}{% endfor %}{{ x is defined }}{{ loop is defined }}", "{% for x in d.items() %}{{ x }}{{ x[0] }}{% endfor %}", "{% for x in l %}x{% endfor %}{% for x in el %}y{% endfor %}",
    "{% set x = 1 %}{{ x }}", "{% set x = 1 %}{% set x = x + 1 %}{{ x }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a, b = [1, 2] %}{{ b }}{{ a }}", "{% set a, b = 1 %}", "{% set (a, b) = 'xy' %}{{ a }}{{ b }}", "{% set x = 1, 2 %}{{ x }}", "{% set x %}a{{ i }}b{% endset %}{{ x }}|{{ x|length }}", "{% set x | upper %}a{{ i }}b{% endset %}{{ x }}", "{% set x | trim | replace('a', 'c') %} a {% endset %}[{{ x }}]", "{% set x %}{% set y = 1 %}{{ y }}{% endset %}{{ x }}{{ y is defined }}",
    "{% set x = 1 %}{% for y in l %}{% set x = y %}{% endfor %}{{ x }}", "{% set x = 1 %}{% if t %}{% set x = 2 %}{% endif %}{{ x }}", "{% set x = 0 %}{% for y in l %}{{ x }}{% set x = y %}{{ x }} {% endfor %}", "{% if no %}{% set x = 2 %}{% endif %}{{ x is defined }}", "{% for y in l %}{% if loop.first %}{% set q9 = 1 %}{% endif %}{{ q9 is defined }}{% endfor %}", "{% set s = s ~ '!' %}{{ s }}", "{% set none = 1 %}", "{% set x.y = 1 %}", "{% set d.y = 1 %}", "{% set x = %}", "{% set x == 1 %}", "{% set 1 = 2 %}", "{% set x = 1 if no %}{{ x is defined }}",
    "{% set ns = namespace(x=1, y='a') %}{% set ns.x = ns.x + 1 %}{{ ns.x }}{{ ns.y }}{{ ns.z }}", "{% set ns = namespace() %}{% for x in l %}{% set ns.sum = (ns.sum or 0) + x %}{% endfor %}{{ ns.sum }}", "{% set ns = namespace(found=false) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.found = true %}{% endif %}{% endfor %}{{ ns.found }}", "{% set ns = namespace(x=[]) %}{% for i in l %}{% set ns.x = ns.x + [i * 2] %}{% endfor %}{{ ns.x }}", "{% set ns = namespace(a=1) %}{{ ns['a'] }}{{ ns['b'] is defined }}", "{% set ns = namespace() %}{% set ns.x %}blk{{ i }}{% endset %}{{ ns.x }}",
    "{% macro m() %}x{% endmacro %}{{ m() }}{{ m() }}", "{% macro m(a, b=2, c='z') %}{{ a }}{{ b }}{{ c }};{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(1, c=4) }}{{ m(b=5, a=6) }}", "{% macro m(a) %}[{{ a }}]{% endmacro %}{{ m() }}", "{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m() }}{{ m(1) }}{{ m(zz) }}", "{% macro m(a) %}x{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}x{% endmacro %}{{ m(b=2) }}", "{% macro m(a) %}x{% endmacro %}{{ m(1, a=2) }}", "{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(3) }}", "{% macro m(a=1, b) %}{% endmacro %}", "{% macro m(a, a) %}{% endmacro %}",
    "{% macro m(n) %}{{ n }}{% if n > 0 %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(3) }}", "{% macro m() %}{{ i }}{% endmacro %}{% set i = 5 %}{{ m() }}", "{% set v = 1 %}{% macro m() %}{{ v }}{% endmacro %}{% set v = 2 %}{{ m() }}", "{% macro m() %}{% set w = 1 %}{{ w }}{% endmacro %}{{ m() }}{{ w is defined }}", "{% macro m(x) %}{{ x }}{% endmacro %}{% for y in l %}{{ m(y) }}{% endfor %}", "{% for y in l %}{{ m(y) }}{% endfor %}{% macro m(x) %}{{ x }}{% endmacro %}", "{% macro m() %} a\n{% endmacro %}[{{ m()|trim }}][{{ m()|length }}]", "{% macro a(x) %}<{{ x }}>{% endmacro %}{% macro b(x) %}{{ a(x) ~ a(x|upper) }}{% endmacro %}{{ b('q') }}", "{% macro m(x) %}{% for k in x %}{{ k }}{% if not loop.last %},{% endif %}{% endfor %}{% endmacro %}{{ m([1, 2]) }}", "{% if t %}{% macro m() %}x{% endmacro %}{% endif %}{{ m() }}", "{% macro m %}x{% endmacro %}", "{% macro %}x{% endmacro %}", "{% macro m() %}x", "{{ m is defined }}{% macro m() %}{% endmacro %}{{ m is defined }}{{ m is callable }}", "{% macro m() %}{% break %}{% endmacro %}", "{% macro m(y) %}{{ y }}{% endmacro %}{% set y = 3 %}{{ m() }}|{{ m(y) }}", "{% macro m() %}{{ x }}{% endmacro %}{% for x in l %}{{ m() }}{% endfor %}",
    "{% macro r(s, depth=0) %}{% for k, v in s.items() %}{{ '  ' * depth }}{{ k }}:{% if v is mapping %}\n{{ r(v, depth + 1) }}{% else %}{{ v }}\n{% endif %}{% endfor %}{% endmacro %}{{ r(d) }}",
    "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}", "{% with %}{% set x = 1 %}{{ x }}{% endwith %}{{ x is defined }}", "{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}",
    "{% generation %}x{{ i }}{% endgeneration %}", "a\n  {% generation %}\n  x\n  {% endgeneration %}\nb", "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}{% endif %}{% endfor %}", "{% generation %}{% set x = 1 %}{% endgeneration %}{{ x is defined }}",
    "{% nosuch %}", "{% include 'x' %}", "{% extends 'x' %}", "{% import 'x' as y %}", "{% block x %}{% endblock %}", "{% do l %}", "{% call m() %}{% endcall %}", "{% filter upper %}a{% endfilter %}", "{% autoescape true %}{% endautoescape %}", "{% print 1 %}", "{% 1 %}", "{% endfor %}", "{% if 1 %}{% endfor %}", "{% for x in l %}{% endif %}", "{% if 1 %}{% for x in l %}{% endif %}{% endfor %}",
    "{{ raise_exception('a' ~ i) }}", "{% if i != 7 %}{{ raise_exception('no') }}{% endif %}ok", "{{ 1 }}{{ raise_exception('x\ny') }}", "{{ '' }}{{ none }}{{ zz }}", "{{ }}", "{{ , }}", "{{ 1, }}", "{{ () }}",
    "{% set x = l|map('string') %}{{ x|join(',') }}", "{% set x = users|selectattr('on') %}{% for y in x %}{{ y.name }}{% endfor %}", "{% set range = 5 %}{{ range }}", "{{ namespace }}", "{% set x = namespace(y=namespace(z=1)) %}{{ x.y.z }}",
    "line1\n{{ undefined_x.y }}", "{{\n\n1\n+\n2\n}}", "{% if\n1\n%}x{% endif %}", "{{ 'a\nb' }}", "{{ 'a\r\nb'|length }}", "a\n\n\n{% if 1 %}\n\n\nb\n\n\n{% endif %}\n\n\nc\n\n", "{% if 1 %}\r\nx\r\n{% endif %}\r\n", "{%if 1%}x{%endif%}", "{%-if 1-%}x{%-endif-%}", "{{1}}\n", "{{1}}\n\n", "{% if 1 %}x{% endif %}\n", "\n{% if 1 %}\n{% endif %}\n", "é{{ u }}é", "{{ 1 -}}", "{{ 1 - }}", "{{ 1 --1 }}", "{{ i-1 }}", "{{ i -1 }}", "{{ -1 }}", "{{ 1.real is defined }}", "{{ 1.5.x }}", "{{ 1..x }}", "{{ 1.e }}", "{{ .5 }}", "{{ 5. }}", "{{ 1e }}", "{{ l.0.1 }}", "{{ nest.0.1 }}",
    "{{ messages[0].content|upper }}{{ messages | map(attribute='role') | join(', ') }}", "{% for m in messages %}{{ (m['role'] == 'user') != (loop.index0 % 2 == 0) }}{% endfor %}", "{% set loop_messages = messages[1:] if messages[0]['role'] == 'system' else messages %}{{ loop_messages|length }}", "{% set tools = none %}{{ 'a' if tools else 'b' }}", "{%- set x = 'a' -%}\n\n {{- x -}} \n", "{{ 'a' 'b' ~ 'c' }}", "{%- for m in messages -%}\n  {{ m.role }}\n{%- endfor -%}", "{% for x in l -%}\n {{ x }}\n{%- endfor %}\n", "{{ s if s is string and not s.startswith('x') else '' }}",
]


def render(template, context):
    if template in REFUSED:
        return {"refused": REFUSED[template]}
    try:
        return {"expected": ENV.from_string(template).render(**context)}
    except Exception as e:  # whatever it is, the engine has to report an error too
        return {"error": f"{type(e).__name__}: {e}"}


# What Jinja2 renders and the engine refuses by design, with a part of its message.
REFUSED = {
    '{{ [1, 2]["a":] }}': "a slice bound must be int or None",
    '{{ {"a": 1}[0:1] }}': "a dict cannot be sliced",
    '{{ "\\N{BULLET}" }}': "the escape \\N{...} is not supported",
    "{{ 99999999999999999999 }}": "does not fit 64 bits",
    "{{ 9223372036854775807 + 1 }}": "does not fit 64 bits",
    "{{ 9223372036854775807 * 2 }}": "does not fit 64 bits",
    "{{ -9223372036854775807 - 2 }}": "does not fit 64 bits",
    "{{ 3037000500 ** 2 }}": "does not fit 64 bits",
    "{{ 1e30|int }}": "does not fit 64 bits",
    "{{ 1e400 }}": "outside the range of a double",
    "{{ l|map }}": "map: the name of a filter or attribute= is missing",
    "{{ self is defined }}": "the global 'self' is not supported",
    "{{ s|wordcount }}": "unknown filter 'wordcount'",
    "{{ s|truncate(5) }}": "unknown filter 'truncate'",
    "{{ s|center(20) }}": "unknown filter 'center'",
    "{{ d|xmlattr }}": "unknown filter 'xmlattr'",
    "{{ l|random }}": "unknown filter 'random'",
    "{{ i.__class__ }}": "access to '__class__' of a int is not safe",
    "{{ s.__len__ }}": "access to '__len__' of a str is not safe",
    '{{ l|map("upper") }}': "printing an iterator is not supported",
    "{{ d|items }}": "printing an iterator is not supported",
    "{{ l[1,2] }}": "a subscript of several values is not supported",
    "{{ é }}": "unexpected character",
    "{{ and }}": "expected an expression, got 'and'",
    "{{ if }}": "expected an expression, got 'if'",
    "{{ s[] }}": "expected an index between '[' and ']'",
    "{{ range(3) }}": "printing a range is not supported",
    '{{ "a"|safe + "b" }}': "filter 'safe' is supported only as the last of a printed value",
    "{{ lipsum() }}": "the global 'lipsum' is not supported",
    "{{ cycler(1, 2) }}": "the global 'cycler' is not supported",
    '{{ joiner(",") }}': "the global 'joiner' is not supported",
    '{{ "É".isupper() }}': "the case of non-ASCII text is not supported",
    '{{ "É" is upper }}': "the case of non-ASCII text is not supported",
    '{{ "É".isalpha() }}': "classes of non-ASCII characters are not supported",
    "{#": "the comment that begins here has no end",
    "{% for x in l recursive %}{{ x }}{% endfor %}": "recursive loops are not supported",
    "{% for x in l %}{{ loop }}{% endfor %}": "printing a loop is not supported",
    "{% for x in l %}{{ loop.changed(x) }}{% endfor %}": "'loop.changed' is not supported",
    "{% block x %}{% endblock %}": "unsupported tag 'block'",
    "{% filter upper %}a{% endfilter %}": "unsupported tag 'filter'",
    "{% autoescape true %}{% endautoescape %}": "unsupported tag 'autoescape'",
    "{% print 1 %}": "unsupported tag 'print'",
    "{{ 1.real is defined }}": "attribute 'real' of a int is not supported",
    "{{ namespace }}": "printing a function is not supported",
    "{% set x = namespace(y=namespace(z=1)) %}{{ x.y.z }}": "a namespace cannot be stored",
}

USER = {"role": "user", "content": "What is <|im_end|> for? 你好"}
SYSTEM = {"role": "system", "content": "Be brief.\nAnswer in rhymes."}
ANSWER = {"role": "assistant", "content": "<think>\nHm, a \"token\".\n</think>\n\nIt ends a turn."}
THANKS = {"role": "user", "content": "  Thanks!  "}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather", "description": "Weather of a place.",
        "parameters": {"type": "object", "required": ["city"], "properties": {
            "city": {"type": "string", "description": "Name, e.g. \"Köln\""},
            "days": {"type": "integer", "enum": [1, 3, 7], "minimum": 1}}}}}
CLOCK = {"type": "function", "function": {"name": "clock", "description": "The time.", "parameters": {"type": "object", "properties": {}}}}


def call(name, arguments, ident="abcdefghi"):
    return {"id": ident, "type": "function", "function": {"name": name, "arguments": arguments}}


ONE_CALL = {"role": "assistant", "content": "", "tool_calls": [call("get_weather", {"city": "Köln", "days": 3})]}
TEXT_CALL = {"role": "assistant", "content": None, "tool_calls": [call("get_weather", "{\"city\": \"Köln\"}"), call("clock", "{}")]}
TWO_CALLS = {"role": "assistant", "content": "Let me see.", "tool_calls": [call("get_weather", {"city": "Rom", "opts": {"unit": ["C"]}}), call("clock", {}, "bcdefghij")]}
RESULT = {"role": "tool", "name": "get_weather", "content": "{\"sky\": \"blue\"}"}
FINAL = {"role": "assistant", "content": "Blue."}

CHATS = {
    "user": [USER],
    "system": [SYSTEM, USER],
    "turns": [SYSTEM, USER, ANSWER, THANKS],
    "no_system_turns": [USER, ANSWER, THANKS, FINAL],
    "call": [USER, ONE_CALL],
    "call_result": [SYSTEM, USER, ONE_CALL, RESULT],
    "call_answer": [USER, ONE_CALL, RESULT, FINAL, THANKS],
    "two_calls": [SYSTEM, USER, TWO_CALLS, RESULT, RESULT, FINAL],
    "text_calls": [USER, TEXT_CALL, RESULT, RESULT, FINAL],
    "reasoning": [USER, {"role": "assistant", "reasoning_content": "Hm.\n", "content": "Yes."}, THANKS,
                  {"role": "assistant", "reasoning_content": "Fine.", "content": "Bye."}],
    "two_users": [USER, THANKS],
    "odd_role": [{"role": "narrator", "content": "x"}],
    "late_system": [USER, ANSWER, SYSTEM, THANKS],
}
VARIANTS = {
    "": {"add_generation_prompt": True, "tools": None},
    "no_prompt": {"add_generation_prompt": False, "tools": None},
    "tools": {"add_generation_prompt": True, "tools": [WEATHER, CLOCK]},
    "no_thinking": {"add_generation_prompt": True, "tools": None, "enable_thinking": False},
    "builtin_tools": {"add_generation_prompt": True, "tools": None, "builtin_tools": ["brave", "code_interpreter", "get_weather"]},
    "tools_in_system": {"add_generation_prompt": True, "tools": [WEATHER], "tools_in_user_message": False},
}
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


def family_cases():
    sources = {p.stem: (str(p.relative_to(ROOT)), p.read_text()) for p in sorted((OUT / "templates").glob("*.jinja"))}
    for name in ["qwen3", "deepseek_v3"]:
        path = ROOT / "tests" / "data" / "tokenizers" / name / "tokenizer_config.json"
        sources[name] = (str(path.relative_to(ROOT)), json.loads(path.read_text())["chat_template"])
    for family, (file, template) in sources.items():
        for chat, messages in CHATS.items():
            for variant, options in VARIANTS.items():
                context = {"messages": messages, **TOKENS, **options}
                yield {"name": f"{family}/{chat}/{variant}", "template_file": file, "context": context,
                       **render(template, context)}


def main():
    cases = []
    for expression in EXPRESSIONS:
        template = "{{ " + expression + " }}"
        cases.append({"template": template, **render(template, CONTEXT)})
    cases += [{"template": t, **render(t, CONTEXT)} for t in TEMPLATES]
    families = list(family_cases())
    (OUT / "cases.json").write_text(json.dumps({"context": CONTEXT, "cases": cases}, ensure_ascii=False, indent=0) + "\n")
    (OUT / "families.json").write_text(json.dumps(families, ensure_ascii=False, separators=(",", ":")) + "\n")
    errors = sum("error" in c for c in cases + families)
    print(f"{len(cases)} small cases, {len(families)} full renderings, {errors} errors")


if __name__ == "__main__":
    main()
