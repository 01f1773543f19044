// Ints and Bytes for any processor; see panel_dot.h for what they are for.
#pragma once

#include "backend/cpu/kernels/vec_generic.h"

namespace switchyard {
namespace {

struct Bytes {
  uint8_t b[4 * Vec::kLanes];

  static Bytes load(const uint8_t* p) {
    Bytes out;
    __builtin_memcpy(out.b, p, sizeof out.b);
    return out;
  }
};

inline Bytes low_halves(Bytes a) {
  for (uint8_t& byte : a.b)
    byte &= 15;
  return a;
}
inline Bytes high_halves(Bytes a) {
  for (uint8_t& byte : a.b)
    byte = static_cast<uint8_t>(byte >> 4);
  return a;
}

struct Ints {
  typedef int32_t Lanes __attribute__((vector_size(16)));
  Lanes v;
};

inline Ints operator+(Ints a, Ints b) {
  return {a.v + b.v};
}

template <int kZero>
inline Ints start_products(int32_t x_sum) {
  const int32_t start = -kZero * x_sum;
  return {Ints::Lanes{start, start, start, start}};
}

template <int kZero>
inline Ints add_products(Ints sums, Bytes codes, const int8_t* x) {
  for (int i = 0; i < 4 * Vec::kLanes; ++i)
    sums.v[i / 4] += codes.b[i] * x[i % 4];
  return sums;
}

inline Vec to_vec(Ints a) {
  return {__builtin_convertvector(a.v, Vec::Lanes)};
}

// Whole numbers that fit into a byte.
inline void store_bytes(Vec a, int8_t* p) {
  for (int i = 0; i < Vec::kLanes; ++i)
    p[i] = static_cast<int8_t>(a.v[i]);
}

}  // namespace
}  // namespace switchyard
