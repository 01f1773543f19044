#include "io/pickle.h"

#include <array>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/pytorch_bytes.h"

namespace switchyard {
namespace {

using Kind = PickleValue::Kind;
using pickled::kProto;
using pickled::text;

constexpr std::array<std::string_view, 1> kGlobals = {"torch.FloatStorage"};
const std::string kFloatStorage = "ctorch\nFloatStorage\n";

// `bytes` must outlive the result.
Pickle parse(std::string_view bytes) {
  return Pickle::parse(std::as_bytes(std::span(bytes)), kGlobals, "data.pkl");
}

void expect_refused(std::string_view bytes, const std::string& message) {
  SCOPED_TRACE(testing::PrintToString(bytes.substr(0, 80)));
  expect_error([&] { parse(bytes); }, "data.pkl: ");
  expect_error([&] { parse(bytes); }, message);
}

TEST(Pickle, ReadsIntegers) {
  const auto number = [](const std::string& bytes) {
    const std::string pickle = kProto + bytes + ".";
    const Pickle tree = parse(pickle);
    EXPECT_EQ(tree.root().kind, Kind::kInt);
    return tree.root().number;
  };
  EXPECT_EQ(number("K\xFF"), 255);
  EXPECT_EQ(number("M\xFE\xFF"), 65534);
  EXPECT_EQ(number("J\xFF\xFF\xFF\x7F"), 2147483647);
  EXPECT_EQ(number("J\xFE\xFF\xFF\xFF"), -2);
  EXPECT_EQ(number(std::string("\x8A\0", 2)), 0);
  EXPECT_EQ(number("\x8A\x01\xFF"), -1);
  EXPECT_EQ(number("\x8A\x02\xFF\x7F"), 32767);
  EXPECT_EQ(number(std::string("\x8A\x05\0\0\0\0\x01", 7)), int64_t{1} << 32);
  EXPECT_EQ(number(pickled::integer(INT64_MIN)), INT64_MIN);
}

TEST(Pickle, ReadsTheTree) {
  // {'a': (True, False, None), 'b': OrderedDict(), 'c': torch.FloatStorage((('a',),)), 'd': persistent 'a'}
  const std::string pickle = kProto + "}(" + text("a") + "q\x05" + "\x88\x89N\x87" + text("b") +
                             pickled::kOrderedDict + text("c") + kFloatStorage + "h\x05\x85\x85R" +
                             text("d") + std::string("j\x05\0\0\0", 5) + "Qu.";
  const Pickle tree = parse(pickle);
  const PickleValue& root = tree.root();
  ASSERT_EQ(root.kind, Kind::kDict);
  ASSERT_EQ(root.items.size(), 8u);
  EXPECT_EQ(tree[root.items[0]].text, "a");
  const PickleValue& tuple = tree[root.items[1]];
  ASSERT_EQ(describe(tuple), "a tuple of 3");
  EXPECT_EQ(describe(tree[tuple.items[0]]), "True");
  EXPECT_EQ(describe(tree[tuple.items[1]]), "False");
  EXPECT_EQ(describe(tree[tuple.items[2]]), "None");
  EXPECT_EQ(describe(tree[root.items[3]]), "a dictionary of 0");
  const PickleValue& call = tree[root.items[5]];
  ASSERT_EQ(describe(call), "a call of torch.FloatStorage");
  ASSERT_EQ(describe(tree[call.items[0]]), "a tuple of 1");
  const PickleValue& persistent = tree[root.items[7]];
  ASSERT_EQ(persistent.kind, Kind::kPersistent);
  EXPECT_EQ(describe(tree[persistent.items[0]]), "'a'");
}

TEST(Pickle, SetsOneItemAndIgnoresTheMetadataOfModules) {
  const std::string metadata = std::string("}") + text("_metadata") + "}" + text("") + "}ss";
  const std::string pickle = kProto + pickled::kOrderedDict + text("a") + "Ns" + metadata + "b.";
  const Pickle tree = parse(pickle);
  EXPECT_EQ(describe(tree.root()), "a dictionary of 1");
  expect_refused(kProto + pickled::kOrderedDict + "}" + text("_other") + "Nsb.",
                 "byte 43, BUILD: expected only the attribute _metadata, got '_other'");
  expect_refused(kProto + pickled::kOrderedDict + "}K\x01Nsb.",
                 "byte 34, BUILD: expected only the attribute");
  expect_refused(kProto + pickled::kOrderedDict + "Nb.",
                 "byte 30, BUILD: expected attributes as a dictionary");
  expect_refused(kProto + "N}b.", "byte 4, BUILD: expected a dictionary on the stack, got None");
}

TEST(Pickle, ExecutesNothingAndNamesWhatItRefuses) {
  const std::string message =
      ", GLOBAL: expected only what a dictionary of tensors needs (nothing is executed), got ";
  expect_refused(kProto + "cos\nsystem\n" + text("ls") + "\x85R.", "byte 2" + message + "os.system");
  expect_refused(kProto + "cbuiltins\neval\n.", "byte 2" + message + "builtins.eval");
  expect_refused(kProto + "ctorch\nFloatStorage.x\n.", "byte 2" + message + "torch.FloatStorage.x");
  expect_refused(kProto + "c\x1B[2J\nx\n.", "byte 2" + message + "\\x1b[2J.x");
  expect_refused(kProto + kFloatStorage + ")R)R.",
                 "byte 25, REDUCE: expected a global to call, got a call of torch.F");
  expect_refused(kProto + "N)R.", "byte 4, REDUCE: expected a global to call, got None");
  expect_refused(kProto + kFloatStorage + "NR.", "byte 23, REDUCE: expected a tuple of arguments, got None");
  expect_refused(kProto + "ccollections\nOrderedDict\nN\x85R.",
                 "byte 29, REDUCE: expected OrderedDict without arguments, got a tuple of 1");
  expect_refused(kProto + "c" + std::string(300, 'm'),
                 "byte 2, GLOBAL: expected a line of at most 256 bytes");
}

// Every byte is an opcode that is understood, or is refused by its name.
TEST(Pickle, RefusesOtherOpcodesByName) {
  const std::string known = "(.JKMNQRXbchjqrstu)}\x80\x85\x86\x87\x88\x89\x8A";
  for (int opcode = 0; opcode < 256; ++opcode) {
    const char byte = static_cast<char>(opcode);
    if (known.find(byte) != std::string::npos) continue;
    expect_refused(kProto + byte + std::string(20, '\0'), "byte 2, ");
    expect_refused(kProto + byte, ": expected an opcode that a dictionary of tensors needs, got another one");
  }
  const std::string end = ": expected an opcode that a dictionary of tensors needs";
  expect_refused(kProto + "\x93", "byte 2, STACK_GLOBAL" + end);
  expect_refused(kProto + "ios\nsystem\n", "byte 2, INST" + end);
  expect_refused(kProto + "o", "byte 2, OBJ" + end);
  expect_refused(kProto + "\x81", "byte 2, NEWOBJ" + end);
  expect_refused(kProto + "\x82", "byte 2, EXT1" + end);
  expect_refused(kProto + "\x07", "byte 2, byte 0x07" + end);
}

TEST(Pickle, RefusesMissingOperands) {
  for (const char* opcode : {"Q", "R", "b", "s", "q\x01", "\x85", "\x86", "\x87"})
    expect_refused(kProto + opcode + ".", "byte 2, ");
  for (const char* opcode : {"NR", "Nb", "Ns", "NNs", "N\x86", "NN\x87", "N(R", "N(Q", "NN(s"})
    expect_refused(kProto + opcode + ".", ": expected a value on the stack, got an empty stack");
  for (const char* opcode : {"t", "u"})
    expect_refused(kProto + opcode + ".", "expected a mark on the stack, got none");
  expect_refused(kProto + "(u.", "byte 3, SETITEMS: expected a value on the stack, got an empty stack");
  expect_refused(kProto + "}(Nu.",
                 "byte 5, SETITEMS: expected pairs of key and value, got a key without a value");
  expect_refused(kProto + "N(NNu.", "byte 6, SETITEMS: expected a dictionary on the stack, got None");
}

TEST(Pickle, RefusesUnfilledPlacesOfTheMemo) {
  expect_refused(kProto + "h\x03.",
                 "byte 2, BINGET: expected a place of the memo that was filled, got place 3");
  expect_refused(kProto + "Nq\x07h\x03.", "got place 3");
  expect_refused(kProto + "j\xFF\xFF\xFF\xFF.", "got place 4294967295");
  expect_refused(kProto + "Nr\xFF\xFF\xFF\xFF.",
                 "expected a place of the memo below 5000000, got 4294967295");
}

TEST(Pickle, RefusesOtherProtocols) {
  for (const char version : {'\0', '\1', '\3', '\4', '\5', '\x7F'}) {
    expect_refused(std::string("\x80") + version + "N.",
                   "byte 0, PROTO: expected protocol 2, which torch.save writes by default, got ");
  }
}

TEST(Pickle, RefusesLongTextsAndIntegers) {
  expect_refused(kProto + "X" + little_endian(0xFFFFFFFF, 4) + "a",
                 "byte 2, BINUNICODE: expected a text of at most 65536 bytes, got 4294967295 bytes");
  expect_refused(kProto + "X" + little_endian(10, 4) + "abc.",
                 "byte 2, BINUNICODE: expected 10 more bytes, got 4: the pickle is cut");
  expect_refused(kProto + text("\xC3") + ".", "byte 2, BINUNICODE: expected valid UTF-8, got '\\xc3'");
  expect_refused(kProto + "\x8A\x09" + std::string(9, 'x') + ".",
                 "byte 2, LONG1: expected an integer of at most 8 bytes, got 9 bytes");
}

TEST(Pickle, RefusesAWrongEnd) {
  expect_refused("", "expected a pickle that ends with STOP, got its end before");
  expect_refused(kProto, "expected a pickle that ends with STOP");
  expect_refused(kProto + ".", "byte 2, STOP: expected one value on the stack, got 0 and 0 marks");
  expect_refused(kProto + "NN.", "got 2 and 0 marks");
  expect_refused(kProto + "N(.", "got 1 and 1 marks");
  expect_refused(kProto + "N.x", "byte 3, STOP: expected the end of the pickle, got 1 more bytes");
}

TEST(Pickle, RefusesEveryCut) {
  const std::string pickle =
      pickled_dictionary({{"a", PickledTensor{.shape = {2}, .strides = {1}}.pickle()}});
  for (size_t length = 0; length < pickle.size(); ++length) {
    SCOPED_TRACE(length);
    expect_refused(pickle.substr(0, length), "");
  }
}

TEST(Pickle, BoundsWork) {
  std::string many;
  for (int64_t i = 0; i < kMaxPickleOpcodes; ++i)
    many += kProto;
  expect_refused(many + "N.", "PROTO: expected at most 5000000 opcodes, got more");
  const std::string large(static_cast<size_t>(kMaxPickleBytes) + 1, '.');
  expect_refused(large, "expected a pickle of at most 100000000 bytes, got 100000001 bytes");
}

TEST(Pickle, NestsWithoutRecursion) {
  const std::string nested = kProto + ")" + std::string(1'000'000, '\x85') + ".";
  EXPECT_EQ(describe(parse(nested).root()), "a tuple of 1");
  EXPECT_EQ(parse(kProto + "}q\x01" + text("self") + "h\x01s.").root().kind, Kind::kDict);
}

// A tuple of many items that is used as arguments many times: copies of it would take 10^10 places.
TEST(Pickle, DoesNotCopyArguments) {
  std::string pickle = kProto + kFloatStorage + "q\x01(" + std::string(100'000, 'N') + "tq\x02(";
  for (int i = 0; i < 100'000; ++i)
    pickle += "h\x01h\x02R";
  pickle += "t\x87.";
  EXPECT_EQ(describe(parse(pickle).root()), "a tuple of 3");
}

}  // namespace
}  // namespace switchyard
