// The opcodes of pickles (Python's Lib/pickletools.py), by the names that it gives them.
#pragma once

#include <cstdint>
#include <string>

namespace switchyard {

// Those that io/pickle.h understands.
enum class PickleOpcode : uint8_t {
  kMark = '(',
  kStop = '.',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinPersId = 'Q',
  kReduce = 'R',
  kBinUnicode = 'X',
  kBuild = 'b',
  kGlobal = 'c',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyTuple = ')',
  kEmptyDict = '}',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8A,
};

// "REDUCE"; "byte 0x07" for what is no opcode of any protocol.
std::string pickle_opcode_name(uint8_t opcode);

}  // namespace switchyard
