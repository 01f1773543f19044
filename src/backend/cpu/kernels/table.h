// The table of all kernels. Included once by each instruction set's file, after its vec_*.h.
#pragma once

#include "backend/cpu/kernels/attention.h"
#include "backend/cpu/kernels/dot.h"
#include "backend/cpu/kernels/elementwise.h"
#include "backend/cpu/kernels/outer.h"
#include "backend/cpu/kernels/panel_dot.h"
#include "backend/cpu/kernels/round_rows.h"
#include "backend/cpu/kernels/route.h"

namespace switchyard {
namespace {

constexpr Kernels make_kernels(Isa isa) {
  return {.isa = isa,
          .embedding = embedding,
          .rms_norm = rms_norm,
          .add = add,
          .swiglu = swiglu,
          .swiglu_backward = swiglu_backward,
          .gated_add = gated_add,
          .combine = combine,
          .dot = dot,
          .outer = outer,
          .round_rows = round_rows,
          .panel_dot = panel_dot,
          .dot_bf16 = nullptr,
          .round_bf16 = nullptr,
          .rotate_halves = rotate_halves,
          .rotate_interleaved = rotate_interleaved,
          .attention = attention,
          .attention_slopes = attention_slopes,
          .route = route,
          .softmax_parts = softmax_parts,
          .add_scaled_exp = add_scaled_exp,
          .exponentials = exponentials};
}

}  // namespace
}  // namespace switchyard
