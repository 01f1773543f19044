// Attention over a paged cache: a tile of neighbouring rows of one sequence, all query heads of one key/value
// head, so that what is read of the cache is used for all of them. One row (decode) is bound by the bandwidth
// of reading the cache, many rows by fma.
//
// Each query takes positions in spans that end at absolute multiples of kAttentionSpan, with the running
// maximum and sum of Milakov and Gimelshein (2018), and positions in a span in ascending order. So its bits
// depend on its position and the window, not on cache blocks or the other rows of the tile.
#pragma once

#include "backend/cpu/kernels/dot.h"
#include "backend/cpu/kernels/outer.h"
#include "backend/cpu/kernels/softmax.h"

namespace switchyard {
namespace {

struct AttentionTile {
  const AttentionArgs& a;
  int64_t row;  // the first
  int64_t rows;
  int64_t kv_head;
  int64_t group;  // query heads of the key/value head
  // Queries are (row, head of the group) in this order.
  float* q;       // [queries, A]
  float* out;     // [queries, B], relative to exp(maxima)
  float* scores;  // [queries, kAttentionSpan]
  float* maxima;  // [queries]
  float* sums;    // [queries]

  int64_t head_dim() const { return a.kv.head_dim; }
  int64_t value_dim() const { return a.kv.value_dim; }
  int64_t queries() const { return rows * group; }
  int64_t args_index(int64_t query) const {  // of the query in a.q, in units of heads
    return (row + query / group) * a.heads + kv_head * group + query % group;
  }
};

struct Positions {
  int64_t begin;
  int64_t end;
};

// What row `row` of the step sees of positions [begin, end); may be empty.
inline Positions visible(const AttentionArgs& a, int64_t row, Positions within) {
  const int64_t position = a.step.positions[row];
  const int64_t first = a.window == 0 ? 0 : larger(0, position - a.window + 1);
  return {larger(first, within.begin), smaller(position + 1, within.end)};
}

// Calls f(s, count, index) for the longest pieces of `positions` that lie in one cache block, with the index
// of position s among the keys and values.
template <typename F>
inline void for_each_run(const AttentionTile& tile, Positions positions, F f) {
  const KvLayer& kv = tile.a.kv;
  const StepRows& step = tile.a.step;
  const int32_t* blocks = step.block_table + step.sequences[tile.row] * step.max_blocks;
  for (int64_t s = positions.begin; s < positions.end;) {
    const int64_t in_block = s % kv.block_size;
    const int64_t count = smaller(positions.end - s, kv.block_size - in_block);
    const int64_t block = blocks[s / kv.block_size];
    f(s, count, (block * kv.kv_heads + tile.kv_head) * kv.block_size + in_block);
    s += count;
  }
}

// scores[query, s - span.begin] = q . key[s], also where a row does not see s: another one does.
inline void span_scores(const AttentionTile& tile, Positions span) {
  const int64_t A = tile.head_dim();
  const auto* keys = static_cast<const float*>(tile.a.kv.keys);
  for_each_run(tile, span, [&](int64_t s, int64_t count, int64_t index) {
    dot({.x = tile.q,
         .x_stride = A,
         .tokens = tile.queries(),
         .weight = keys + index * A,
         .weight_dtype = DType::kF32,
         .weight_stride = A,
         .weight_rows = count,
         .k = A,
         .bias = nullptr,
         .out = tile.scores + (s - span.begin),
         .out_stride = kAttentionSpan});
  });
}

// Turns a query's scores into weights relative to the largest score so far, and brings what was summed before
// to the same scale.
inline void span_weights(const AttentionTile& tile, int64_t query, Positions seen, int64_t span_begin) {
  const int64_t count = seen.end - seen.begin;
  if (count <= 0) return;
  float* scores = tile.scores + query * kAttentionSpan + (seen.begin - span_begin);
  const Vec scale = Vec::broadcast(tile.a.scale);
  for_each_vec(0, count,
               [&](int64_t i, int64_t n) { store_up_to(load_up_to(scores + i, n) * scale, scores + i, n); });
  const float before = tile.maxima[query];
  const float largest_here = largest_of(scores, count);
  const float now = largest_here > before ? largest_here : before;
  const Vec rescale = exp(Vec::broadcast(before - now));
  float* out = tile.out + query * tile.value_dim();
  for_each_vec(0, tile.value_dim(),
               [&](int64_t i, int64_t n) { store_up_to(load_up_to(out + i, n) * rescale, out + i, n); });
  const Vec sum_here = Vec::broadcast(exp_and_sum(scores, count, now, scores));
  fma(Vec::broadcast(tile.sums[query]), rescale, sum_here).store_first(tile.sums + query, 1);
  tile.maxima[query] = now;
}

// out[query] += sum_s weight[query, s] value[s], for the queries of `rows` rows from `row` of the tile on.
inline void span_values(const AttentionTile& tile, int64_t row, int64_t rows, Positions positions,
                        int64_t span_begin) {
  const int64_t B = tile.value_dim();
  const KvLayer& kv = tile.a.kv;
  const auto* values = static_cast<const float*>(kv.values == nullptr ? kv.keys : kv.values);
  const int64_t stride = kv.values == nullptr ? kv.head_dim : B;
  const int64_t query = row * tile.group;
  for_each_run(tile, positions, [&](int64_t s, int64_t count, int64_t index) {
    outer({.a = tile.scores + query * kAttentionSpan + (s - span_begin),
           .a_stride_i = kAttentionSpan,
           .a_stride_j = 1,
           .rows = rows * tile.group,
           .terms = count,
           .b = values + index * stride,
           .b_dtype = DType::kF32,
           .b_stride = stride,
           .cols = B,
           .out = tile.out + query * B,
           .out_stride = B});
  });
}

// Rows see a common stretch of the span, and each may see positions before and after it.
inline void attend_span(const AttentionTile& tile, Positions span) {
  span_scores(tile, span);
  Positions common = span;
  for (int64_t r = 0; r < tile.rows; ++r) {
    const Positions seen = visible(tile.a, tile.row + r, span);
    common = {larger(common.begin, seen.begin), smaller(common.end, seen.end)};
    for (int64_t h = 0; h < tile.group; ++h)
      span_weights(tile, r * tile.group + h, seen, span.begin);
  }
  if (common.begin >= common.end) {
    for (int64_t r = 0; r < tile.rows; ++r)
      span_values(tile, r, 1, visible(tile.a, tile.row + r, span), span.begin);
    return;
  }
  for (int64_t r = 0; r < tile.rows; ++r)
    span_values(tile, r, 1, {visible(tile.a, tile.row + r, span).begin, common.begin}, span.begin);
  span_values(tile, 0, tile.rows, common, span.begin);
  for (int64_t r = 0; r < tile.rows; ++r)
    span_values(tile, r, 1, {common.end, visible(tile.a, tile.row + r, span).end}, span.begin);
}

inline void begin_tile(const AttentionTile& tile) {
  const int64_t A = tile.head_dim();
  for (int64_t query = 0; query < tile.queries(); ++query) {
    const float* q = tile.a.q + tile.args_index(query) * A;
    for_each_vec(0, A,
                 [&](int64_t i, int64_t n) { store_up_to(load_up_to(q + i, n), tile.q + query * A + i, n); });
    float* out = tile.out + query * tile.value_dim();
    for_each_vec(0, tile.value_dim(), [&](int64_t i, int64_t n) { store_up_to(Vec::zero(), out + i, n); });
    tile.maxima[query] = -kInfinity;
    tile.sums[query] = 0;
  }
}

inline void end_tile(const AttentionTile& tile) {
  const int64_t B = tile.value_dim();
  for (int64_t query = 0; query < tile.queries(); ++query) {
    const int64_t index = tile.args_index(query);
    const Vec sums = Vec::broadcast(tile.sums[query]);
    for_each_vec(0, B, [&](int64_t i, int64_t n) {
      store_up_to(load_up_to(tile.out + query * B + i, n) / sums, tile.a.out + index * B + i, n);
    });
    if (tile.a.log_sum_exp == nullptr) continue;
    tile.a.log_sum_exp[index] = tile.maxima[query] + __builtin_logf(tile.sums[query]);
  }
}

inline void attention(const AttentionArgs& a, int64_t row, int64_t rows, int64_t kv_head, float* scratch) {
  const int64_t group = a.heads / a.kv.kv_heads;
  const int64_t queries = rows * group;
  float* q = scratch;
  float* out = q + queries * a.kv.head_dim;
  float* scores = out + queries * a.kv.value_dim;
  float* maxima = scores + queries * kAttentionSpan;
  const AttentionTile tile{a, row, rows, kv_head, group, q, out, scores, maxima, maxima + queries};
  begin_tile(tile);
  const int64_t last = row + rows - 1;  // the one with the highest position
  const int64_t end = a.step.positions[last] + 1;
  for (int64_t begin = visible(a, row, {0, end}).begin; begin < end;) {
    const int64_t span_end = smaller(end, (begin / kAttentionSpan + 1) * kAttentionSpan);
    attend_span(tile, {begin, span_end});
    begin = span_end;
  }
  end_tile(tile);
}

}  // namespace
}  // namespace switchyard
