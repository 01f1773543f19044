#include "io/pickle_opcodes.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/core.h>

namespace switchyard {
namespace {

struct Row {
  uint8_t opcode;
  std::string_view name;
};

constexpr std::array<Row, 68> kRows = {{{0x28, "MARK"},         {0x29, "EMPTY_TUPLE"},
                                        {0x2E, "STOP"},         {0x30, "POP"},
                                        {0x31, "POP_MARK"},     {0x32, "DUP"},
                                        {0x42, "BINBYTES"},     {0x43, "SHORT_BINBYTES"},
                                        {0x46, "FLOAT"},        {0x47, "BINFLOAT"},
                                        {0x49, "INT"},          {0x4A, "BININT"},
                                        {0x4B, "BININT1"},      {0x4C, "LONG"},
                                        {0x4D, "BININT2"},      {0x4E, "NONE"},
                                        {0x50, "PERSID"},       {0x51, "BINPERSID"},
                                        {0x52, "REDUCE"},       {0x53, "STRING"},
                                        {0x54, "BINSTRING"},    {0x55, "SHORT_BINSTRING"},
                                        {0x56, "UNICODE"},      {0x58, "BINUNICODE"},
                                        {0x5D, "EMPTY_LIST"},   {0x61, "APPEND"},
                                        {0x62, "BUILD"},        {0x63, "GLOBAL"},
                                        {0x64, "DICT"},         {0x65, "APPENDS"},
                                        {0x67, "GET"},          {0x68, "BINGET"},
                                        {0x69, "INST"},         {0x6A, "LONG_BINGET"},
                                        {0x6C, "LIST"},         {0x6F, "OBJ"},
                                        {0x70, "PUT"},          {0x71, "BINPUT"},
                                        {0x72, "LONG_BINPUT"},  {0x73, "SETITEM"},
                                        {0x74, "TUPLE"},        {0x75, "SETITEMS"},
                                        {0x7D, "EMPTY_DICT"},   {0x80, "PROTO"},
                                        {0x81, "NEWOBJ"},       {0x82, "EXT1"},
                                        {0x83, "EXT2"},         {0x84, "EXT4"},
                                        {0x85, "TUPLE1"},       {0x86, "TUPLE2"},
                                        {0x87, "TUPLE3"},       {0x88, "NEWTRUE"},
                                        {0x89, "NEWFALSE"},     {0x8A, "LONG1"},
                                        {0x8B, "LONG4"},        {0x8C, "SHORT_BINUNICODE"},
                                        {0x8D, "BINUNICODE8"},  {0x8E, "BINBYTES8"},
                                        {0x8F, "EMPTY_SET"},    {0x90, "ADDITEMS"},
                                        {0x91, "FROZENSET"},    {0x92, "NEWOBJ_EX"},
                                        {0x93, "STACK_GLOBAL"}, {0x94, "MEMOIZE"},
                                        {0x95, "FRAME"},        {0x96, "BYTEARRAY8"},
                                        {0x97, "NEXT_BUFFER"},  {0x98, "READONLY_BUFFER"}}};

}  // namespace

std::string pickle_opcode_name(uint8_t opcode) {
  const auto* row =
      std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) { return r.opcode == opcode; });
  return row != kRows.end() ? std::string(row->name) : fmt::format("byte {:#04x}", opcode);
}

}  // namespace switchyard
