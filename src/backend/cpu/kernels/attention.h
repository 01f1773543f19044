// Attention of one row over a paged cache, all query heads of one key/value head together, so that the cache
// is read once: bound by its bandwidth in decode.
//
// Positions are taken in spans that begin at absolute multiples of kAttentionSpan, with the running maximum
// and sum of Milakov and Gimelshein (2018): the order of every sum depends on the row's position and window
// alone, not on the size of cache blocks or on other rows.
#pragma once

#include "backend/cpu/kernels/dot.h"
#include "backend/cpu/kernels/outer.h"
#include "backend/cpu/kernels/softmax.h"

namespace switchyard {
namespace {

struct AttentionRow {
  const AttentionArgs& a;
  int64_t row;
  int64_t kv_head;
  int64_t group;   // query heads of this key/value head
  const float* q;  // [group, A]
  float* out;      // [group, A]
  float* scores;   // [group, kAttentionSpan]
  float* maxima;   // [group]
  float* sums;     // [group]
};

// Calls f(s, count, offset) for the longest pieces of [begin, end) that lie in one cache block, with the
// offset of position s in the keys and values.
template <typename F>
inline void for_each_run(const AttentionRow& r, int64_t begin, int64_t end, F f) {
  const KvLayer& kv = r.a.kv;
  const StepRows& step = r.a.step;
  const int32_t* blocks = step.block_table + step.sequences[r.row] * step.max_blocks;
  for (int64_t s = begin; s < end;) {
    const int64_t in_block = s % kv.block_size;
    const int64_t count = smaller(end - s, kv.block_size - in_block);
    const int64_t block = blocks[s / kv.block_size];
    f(s, count, ((block * kv.kv_heads + r.kv_head) * kv.block_size + in_block) * kv.head_dim);
    s += count;
  }
}

// scores[h, s - begin] = q[h] . key[s]
inline void span_scores(const AttentionRow& r, int64_t begin, int64_t end) {
  const int64_t A = r.a.kv.head_dim;
  for_each_run(r, begin, end, [&](int64_t s, int64_t count, int64_t offset) {
    dot({r.q, A, r.group, static_cast<const float*>(r.a.kv.keys) + offset, DType::kF32, A, count, A, nullptr,
         false, r.scores + (s - begin), kAttentionSpan});
  });
}

// Turns the scores of a head into weights relative to the largest score so far, and brings what was summed
// before to the same scale.
inline void span_weights(const AttentionRow& r, int64_t head, int64_t count) {
  float* scores = r.scores + head * kAttentionSpan;
  const Vec scale = Vec::broadcast(r.a.scale);
  for_each_vec(0, count,
               [&](int64_t i, int64_t n) { store_up_to(load_up_to(scores + i, n) * scale, scores + i, n); });
  const float before = r.maxima[head];
  const float in_span = largest_of(scores, count);
  const float now = in_span > before ? in_span : before;
  const float span_sum = exp_and_sum(scores, count, now, scores);
  const Vec rescale = exp(Vec::broadcast(before - now));
  float* out = r.out + head * r.a.kv.head_dim;
  for_each_vec(0, r.a.kv.head_dim,
               [&](int64_t i, int64_t n) { store_up_to(load_up_to(out + i, n) * rescale, out + i, n); });
  r.maxima[head] = now;
  Vec old_sum = Vec::broadcast(r.sums[head]) * rescale;
  old_sum.store_first(&r.sums[head], 1);
  r.sums[head] += span_sum;
}

// out[h] += sum_s weights[h, s] value[s]
inline void span_values(const AttentionRow& r, int64_t begin, int64_t end) {
  const int64_t A = r.a.kv.head_dim;
  for_each_run(r, begin, end, [&](int64_t s, int64_t count, int64_t offset) {
    outer({r.scores + (s - begin), kAttentionSpan, 1, r.group, count,
           static_cast<const float*>(r.a.kv.values) + offset, DType::kF32, A, A, r.out, A});
  });
}

inline void attention(const AttentionArgs& a, int64_t row, int64_t kv_head, float* scratch) {
  const int64_t A = a.kv.head_dim;
  const int64_t group = a.heads / a.kv.kv_heads;
  const int64_t first_head = row * a.heads + kv_head * group;
  float* maxima = scratch + group * kAttentionSpan;
  const AttentionRow r{a,       row,    kv_head,       group, a.q + first_head * A, a.out + first_head * A,
                       scratch, maxima, maxima + group};
  for (int64_t h = 0; h < group; ++h) {
    maxima[h] = -kInfinity;
    r.sums[h] = 0;
  }
  for (int64_t i = 0; i < group * A; ++i)
    r.out[i] = 0;

  const int64_t position = a.step.positions[row];
  const int64_t first = a.window == 0 ? 0 : larger(0, position - a.window + 1);
  for (int64_t begin = first; begin <= position;) {
    const int64_t end = smaller(position + 1, (begin / kAttentionSpan + 1) * kAttentionSpan);
    span_scores(r, begin, end);
    for (int64_t h = 0; h < group; ++h)
      span_weights(r, h, end - begin);
    span_values(r, begin, end);
    begin = end;
  }

  for (int64_t h = 0; h < group; ++h) {
    const Vec sums = Vec::broadcast(r.sums[h]);
    for_each_vec(h * A, (h + 1) * A,
                 [&](int64_t i, int64_t n) { store_up_to(load_up_to(r.out + i, n) / sums, r.out + i, n); });
    if (a.log_sum_exp != nullptr) a.log_sum_exp[first_head + h] = maxima[h] + __builtin_logf(r.sums[h]);
  }
}

}  // namespace
}  // namespace switchyard
