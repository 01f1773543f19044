// The tensors of a GGUF file under the names, and in the order of rows, of a checkpoint of Hugging Face.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>

#include "io/gguf_file.h"
#include "io/gguf_names.h"
#include "models/weights.h"

namespace switchyard {

// Read in place from the mapped file, but for two cases that need copies: rows of q and k in another order
// (gguf_permutes_rows), and kv_b_proj where the file keeps its halves apart, which is put together in
// float32.
class GgufWeights final : public WeightSource {
 public:
  // Throws Error for metadata that gguf_config refuses.
  explicit GgufWeights(std::shared_ptr<const GgufFile> file);

  Tensor weight(const std::string& name, const Shape& shape) override;
  Weight matrix(const std::string& name, int64_t rows, int64_t cols) override;
  bool has(const std::string& name) const override;
  std::string place_of(const std::string&) const override { return file_->path(); }
  void finish() override;

 private:
  // A tensor, or one expert's slice of it, as rows of bytes.
  struct Rows {
    const GgufTensor* tensor;
    const std::byte* data;
    int64_t count;
    std::shared_ptr<const void> keep_alive;
  };

  Rows find(const std::string& name, const Shape& shape);
  void check_shape(const GgufTensor& tensor, std::span<const int64_t> dims, const Shape& shape) const;
  Rows in_order(const std::string& name, Rows rows) const;
  bool is_split_kv_b(const GgufName& name) const;
  Tensor join_kv_b(const GgufName& name, const Shape& shape);

  std::shared_ptr<const GgufFile> file_;
  bool permuted_;
  int64_t heads_;
  int64_t kv_heads_;
  std::map<const GgufTensor*, int64_t> used_;  // how many of its slices; whole tensors count as one
};

}  // namespace switchyard
