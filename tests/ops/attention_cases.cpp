// Attention over a paged cache, and what fills it.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "ops/op_case.h"

namespace switchyard {
namespace {

struct AttentionShape {
  int64_t rows, kv_heads, group, head_dim, block_size, window, longest;
  bool contiguous = false;  // the last rows of each sequence, else scattered ones
  int64_t value_dim = 0;    // 0: as head_dim; below 0: that many first elements of each key

  std::string name(const char* op) const {
    return fmt::format("{}_{}rows_{}x{}heads_{}wide_block{}_window{}_upto{}_values{}", op, rows, kv_heads,
                       group, head_dim, block_size, window, longest, values());
  }
  bool in_keys() const { return value_dim < 0; }
  int64_t values() const { return value_dim == 0 ? head_dim : std::abs(value_dim); }
  int64_t max_blocks() const { return (longest + block_size - 1) / block_size; }
  int64_t cached() const { return kSequences * max_blocks() * kv_heads * block_size; }  // keys

  static constexpr int64_t kSequences = 2;
};

// The blocks of the sequences, interleaved and in falling order.
std::vector<int32_t> block_table(const AttentionShape& s) {
  std::vector<int32_t> table;
  for (int64_t sequence = 0; sequence < s.kSequences; ++sequence) {
    for (int64_t b = 0; b < s.max_blocks(); ++b)
      table.push_back(static_cast<int32_t>((s.max_blocks() - 1 - b) * s.kSequences + sequence));
  }
  return table;
}

// Scattered: row t in sequence t % 2, at positions spread from 0 to `longest` - 1. Contiguous: the first half
// of the rows in one sequence, the second in the other, at positions up to `longest` - 1.
std::vector<int32_t> sequences(const AttentionShape& s) {
  std::vector<int32_t> out;
  for (int64_t t = 0; t < s.rows; ++t)
    out.push_back(static_cast<int32_t>(s.contiguous ? (t < s.rows / 2 ? 0 : 1) : t % s.kSequences));
  return out;
}

std::vector<int32_t> positions(const AttentionShape& s) {
  std::vector<int32_t> out;
  for (int64_t t = 0; t < s.rows; ++t) {
    const int64_t spread = (s.longest - 1) * (t / 2 * 2 + 2) / (s.rows / 2 * 2 + 2);
    const int64_t end_of_sequence = t < s.rows / 2 ? s.rows / 2 : s.rows;
    out.push_back(static_cast<int32_t>(s.contiguous ? s.longest - end_of_sequence + t : spread));
  }
  return out;
}

StepRows step_rows(Device& d, const AttentionShape& s, Rows r) {
  return {d.ints(row_slice(positions(s), r.begin, r.end, 1)),
          d.ints(row_slice(sequences(s), r.begin, r.end, 1)), d.ints(block_table(s)), r.count(),
          s.max_blocks()};
}

OpCase attention_case(AttentionShape s) {
  return {s.name("attention"), s.rows, true, [=](Device& d, Rows r) -> std::vector<Output> {
            const int64_t heads = s.kv_heads * s.group;
            const int64_t width = heads * s.head_dim;
            const int64_t out_width = heads * s.values();
            const KvLayer kv{d.floats(uniform(41, s.cached() * s.head_dim, -3, 3)),
                             s.in_keys() ? nullptr : d.floats(uniform(42, s.cached() * s.values())),
                             DType::kF32,
                             s.block_size,
                             s.kv_heads,
                             s.head_dim,
                             s.values()};
            const float* q = d.floats(row_slice(uniform(43, s.rows * width, -3, 3), r.begin, r.end, width));
            float* out = d.float_output(r.count() * out_width);
            float* lse = d.float_output(r.count() * heads);
            const float scale = 1 / std::sqrt(static_cast<float>(s.head_dim));
            d.backend().attention({q, kv, step_rows(d, s, r), heads, scale, s.window, out, lse});
            // A score is a sum of head_dim terms of up to 9, scaled by 1 / sqrt(head_dim); its error goes
            // through exp into the weights of values up to 1, or up to 3 where they are keys.
            const double tolerance = sum_tolerance(s.head_dim) * 9 / std::sqrt(s.head_dim) + kExpTolerance;
            return {{"out", d.read(out, r.count() * out_width), tolerance * (s.in_keys() ? 3 : 1)},
                    {"log_sum_exp", d.read(lse, r.count() * heads), tolerance}};
          }};
}

OpCase kv_write_case(AttentionShape s) {
  return {s.name("kv_write"), s.rows, false, [=](Device& d, Rows r) -> std::vector<Output> {
            float* keys = d.floats(uniform(44, s.cached() * s.head_dim));
            float* values = d.floats(uniform(45, s.cached() * s.values()));
            const KvLayer kv{
                keys,      s.in_keys() ? nullptr : values, DType::kF32, s.block_size, s.kv_heads, s.head_dim,
                s.values()};
            d.backend().kv_write(
                {kv, step_rows(d, s, r), d.floats(uniform(46, s.rows * s.kv_heads * s.head_dim)),
                 s.in_keys() ? nullptr : d.floats(uniform(47, s.rows * s.kv_heads * s.values()))});
            return {{"keys", d.read(keys, s.cached() * s.head_dim), 0},
                    {"values", d.read(values, s.cached() * s.values()), 0}};
          }};
}

struct RopeCase {
  int64_t rows, heads, head_dim;
  float direction;
  bool interleaved;
  int64_t sets;  // of frequencies; 1: without an index

  std::string name() const {
    return fmt::format("rope_{}x{}x{}_{}sets{}{}", rows, heads, head_dim, sets,
                       interleaved ? "_interleaved" : "", direction < 0 ? "_backward" : "");
  }
};

OpCase rope_case(RopeCase s) {
  return {s.name(), s.rows, true, [=](Device& d, Rows r) -> std::vector<Output> {
            const int64_t width = s.heads * s.head_dim;
            std::vector<float> inverse_frequencies;
            for (int64_t i = 0; i < s.sets * s.head_dim / 2; ++i) {
              const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(s.head_dim);
              inverse_frequencies.push_back(static_cast<float>(std::pow(10000.0, exponent)));
            }
            std::vector<int32_t> positions, set_of_row;
            for (int64_t t = 0; t < s.rows; ++t) {
              positions.push_back(static_cast<int32_t>(t * t * 31));
              set_of_row.push_back(static_cast<int32_t>((t * 2 + 1) % s.sets));
            }
            float* x = d.floats(row_slice(uniform(48, s.rows * width), r.begin, r.end, width));
            float* out = d.float_output(r.count() * width);
            RopeArgs args{x,
                          d.ints(row_slice(positions, r.begin, r.end, 1)),
                          d.floats(inverse_frequencies),
                          s.sets > 1 ? d.ints(row_slice(set_of_row, r.begin, r.end, 1)) : nullptr,
                          1.25f,
                          s.direction,
                          s.interleaved,
                          r.count(),
                          s.heads,
                          s.head_dim,
                          out};
            d.backend().rope(args);
            args.out = x;  // in place
            d.backend().rope(args);
            return {{"out", d.read(out, r.count() * width), 8 * 0x1p-24},
                    {"in place", d.read(x, r.count() * width), 8 * 0x1p-24}};
          }};
}

struct BackwardShape {
  int64_t rows, kv_heads, group, head_dim, value_dim, window;
};

OpCase attention_backward_case(BackwardShape s) {
  const std::string name = fmt::format("attention_backward_{}rows_{}x{}heads_{}wide_values{}_window{}",
                                       s.rows, s.kv_heads, s.group, s.head_dim, s.value_dim, s.window);
  return {name, s.rows, false, [=](Device& d, Rows) -> std::vector<Output> {
            const int64_t heads = s.kv_heads * s.group;
            const int64_t q_count = s.rows * heads * s.head_dim;
            const int64_t k_count = s.rows * s.kv_heads * s.head_dim;
            const int64_t v_count = s.rows * s.kv_heads * s.value_dim;
            const int64_t out_count = s.rows * heads * s.value_dim;
            std::vector<int32_t> row_positions;  // two sequences
            for (int64_t t = 0; t < s.rows; ++t)
              row_positions.push_back(static_cast<int32_t>(t < s.rows / 2 ? t : t - s.rows / 2));
            float* d_q = d.floats(uniform(60, q_count));
            float* d_k = d.floats(uniform(61, k_count));
            float* d_v = d.floats(uniform(62, v_count));
            // Any log-sum-exp and out will do: the formulas only need weights exp(score - lse) of about 1 /
            // rows.
            d.backend().attention_backward({.q = d.floats(uniform(63, q_count)),
                                            .k = d.floats(uniform(64, k_count)),
                                            .v = d.floats(uniform(65, v_count)),
                                            .out = d.floats(uniform(66, out_count)),
                                            .log_sum_exp = d.floats(uniform(67, s.rows * heads, 3, 4)),
                                            .positions = d.ints(row_positions),
                                            .rows = s.rows,
                                            .heads = heads,
                                            .kv_heads = s.kv_heads,
                                            .head_dim = s.head_dim,
                                            .value_dim = s.value_dim,
                                            .scale = 0.2f,
                                            .window = s.window,
                                            .d_out = d.floats(uniform(68, out_count)),
                                            .d_q = d_q,
                                            .d_k = d_k,
                                            .d_v = d_v});
            const double tolerance =
                sum_tolerance(s.head_dim + s.value_dim) + sum_tolerance(s.rows * s.group) + kExpTolerance;
            return {{"d_q", d.read(d_q, q_count), tolerance},
                    {"d_k", d.read(d_k, k_count), tolerance},
                    {"d_v", d.read(d_v, v_count), tolerance}};
          }};
}

}  // namespace

std::vector<OpCase> attention_cases() {
  std::vector<OpCase> cases;
  for (const int64_t rows : {0, 1, 5, 33}) {
    for (const int64_t block_size : {1, 16}) {
      for (const int64_t window : {0, 1, 9}) {
        cases.push_back(attention_case({rows, 2, 1, 20, block_size, window, 40}));
        cases.push_back(attention_case({rows, 1, 7, 64, block_size, window, 40}));
      }
      cases.push_back(kv_write_case({rows, 3, 1, 20, block_size, 0, 40}));
    }
  }
  for (const int64_t window : {0, 1, 9, 300}) {
    for (const int64_t group : {1, 4, 7, 30}) {
      cases.push_back(attention_case({61, 2, group, 20, 16, window, 300, true}));
      cases.push_back(attention_case({13, 1, group, 36, 1, window, 40, true}));
    }
  }
  for (const int64_t rows : {0, 1, 5, 33}) {
    for (const int64_t window : {0, 4}) {
      cases.push_back(attention_backward_case({rows, 2, 1, 20, 20, window}));
      cases.push_back(attention_backward_case({rows, 1, 7, 36, 36, window}));
      cases.push_back(attention_backward_case({rows, 3, 1, 20, 14, window}));
      cases.push_back(attention_backward_case({rows, 3, 1, 7, 33, window}));
    }
  }
  cases.push_back(attention_backward_case({90, 3, 2, 64, 64, 0}));  // enough work for several threads
  for (const int64_t rows : {0, 1, 5, 33}) {
    for (const int64_t value_dim : {9, 33, -1, -17, -20}) {  // wider and narrower than keys, and in them
      for (const int64_t block_size : {1, 16}) {
        cases.push_back(attention_case({rows, 2, 3, 20, block_size, 0, 40, false, value_dim}));
        cases.push_back(kv_write_case({rows, 2, 1, 20, block_size, 0, 40, false, value_dim}));
      }
    }
  }
  for (const int64_t group : {1, 5, 16})  // a latent that all heads share
    cases.push_back(attention_case({61, 1, group, 576, 16, 0, 300, true, -512}));
  // Across several spans of positions; enough work for several threads.
  for (const int64_t window : {0, 300}) {
    cases.push_back(attention_case({5, 2, 4, 36, 16, window, 700}));
    cases.push_back(attention_case({2, 1, 3, 72, 1, window, 515}));
  }
  cases.push_back(kv_write_case({33, 4, 1, 128, 16, 0, 1000}));
  for (const int64_t rows : {0, 1, 5, 33}) {
    for (const int64_t head_dim : {2, 20, 64, 72, 128}) {
      for (const float direction : {1.0f, -1.0f}) {
        for (const bool interleaved : {false, true})
          cases.push_back(rope_case({rows, 3, head_dim, direction, interleaved, 1}));
        cases.push_back(rope_case({rows, 3, head_dim, direction, head_dim % 4 == 0, 3}));
      }
    }
  }
  return cases;
}

}  // namespace switchyard
