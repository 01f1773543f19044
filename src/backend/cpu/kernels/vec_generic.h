// Vec for any processor: four lanes of the compilers' own vector type, which becomes one SSE or NEON register
// where there is one, and plain scalar code elsewhere.
//
// Every vec_*.h defines the same names; see vec.h.
#pragma once

#include "backend/cpu/kernels/vec.h"

namespace switchyard {
namespace {

struct Vec {
  static constexpr int kLanes = 4;
  static constexpr int kAccumulators = 12;  // of 16 registers, or more
  static constexpr int kDotTokens = 4;
  static constexpr int kPanelTokens = 2;
  static constexpr int kOuterRows = 4;
  static constexpr int kOuterVecs = 2;

  typedef float Lanes __attribute__((vector_size(16)));
  Lanes v;

  static Vec broadcast(float value) { return {Lanes{value, value, value, value}}; }
  static Vec zero() { return broadcast(0); }

  static Vec load(const float* p) {
    Vec out;
    __builtin_memcpy(&out.v, p, sizeof out.v);
    return out;
  }
  static Vec load(const Bf16* p) { return {Lanes{to_f32(p[0]), to_f32(p[1]), to_f32(p[2]), to_f32(p[3])}}; }
  static Vec load(const F16* p) { return {Lanes{to_f32(p[0]), to_f32(p[1]), to_f32(p[2]), to_f32(p[3])}}; }

  template <typename T>
  static Vec load_first(const T* p, int64_t n) {
    Vec out = zero();
    for (int i = 0; i < n; ++i)
      out.v[i] = to_f32(p[i]);
    return out;
  }

  void store(float* p) const { __builtin_memcpy(p, &v, sizeof v); }
  void store_first(float* p, int64_t n) const {
    for (int i = 0; i < n; ++i)
      p[i] = v[i];
  }
};

inline Vec operator+(Vec a, Vec b) {
  return {a.v + b.v};
}
inline Vec operator-(Vec a, Vec b) {
  return {a.v - b.v};
}
inline Vec operator*(Vec a, Vec b) {
  return {a.v * b.v};
}
inline Vec operator/(Vec a, Vec b) {
  return {a.v / b.v};
}
inline Vec fma(Vec a, Vec b, Vec c) {
  return {a.v * b.v + c.v};
}
inline Vec max(Vec a, Vec b) {
  return {a.v > b.v ? a.v : b.v};
}
inline Vec min(Vec a, Vec b) {
  return {a.v < b.v ? a.v : b.v};
}

inline Vec keep_first(Vec a, int64_t n, Vec other) {
  for (int64_t i = n; i < Vec::kLanes; ++i)
    a.v[i] = other.v[i];
  return a;
}

inline Vec swap_neighbours(Vec a) {
  return {Vec::Lanes{a.v[1], a.v[0], a.v[3], a.v[2]}};
}

inline Vec round_to_integer(Vec a) {
  // Adding and taking away 1.5 * 2^23 leaves no bits for a fraction.
  const Vec magic = Vec::broadcast(12582912.0f);
  return (a + magic) - magic;
}

inline Vec scale_by_power_of_two(Vec a, Vec power) {
  for (int i = 0; i < Vec::kLanes; ++i) {
    // NaN has no integer; a itself is NaN then.
    const int n = power.v[i] == power.v[i] ? static_cast<int>(power.v[i]) : 0;
    const int half = n >> 1;
    a.v[i] = a.v[i] * power_of_two(half) * power_of_two(n - half);
  }
  return a;
}

inline float sum(Vec a) {
  return (a.v[0] + a.v[2]) + (a.v[1] + a.v[3]);
}
inline float largest(Vec a) {
  const Vec halves = max(a, {Vec::Lanes{a.v[2], a.v[3], a.v[0], a.v[1]}});
  return halves.v[0] > halves.v[1] ? halves.v[0] : halves.v[1];
}

}  // namespace
}  // namespace switchyard
