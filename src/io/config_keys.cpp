#include "io/config_keys.h"

namespace switchyard {
namespace {

constexpr std::string_view kDescriptive = "describes where the file comes from";
constexpr std::string_view kTraining = "used in training only";
constexpr std::string_view kOutputs = "selects what a Python call returns, not what is computed";
constexpr std::string_view kImplementation = "chooses between implementations of the same computation";
constexpr std::string_view kTokens = "read from generation_config.json and the tokenizer";
constexpr std::string_view kDtype = "each tensor states its own type";
constexpr std::string_view kTasks = "belongs to heads of other tasks, e.g. classification";
constexpr std::string_view kGeneration = "sampling: transformers takes it from generation_config.json";
constexpr std::string_view kTools = "written by fine-tuning and conversion tools for themselves";

constexpr HarmlessKey kHarmless[] = {
    {"_commit_hash", kDescriptive},
    {"_name_or_path", kDescriptive},
    {"auto_map", kDescriptive},
    {"name_or_path", kDescriptive},
    {"transformers_version", kDescriptive},

    {"attention_dropout", kTraining},
    {"attn_pdrop", kTraining},
    {"aux_loss_alpha", kTraining},
    {"classifier_dropout", kTraining},
    {"embd_pdrop", kTraining},
    {"embedding_dropout", kTraining},
    {"ffn_dropout", kTraining},
    {"gradient_checkpointing", kTraining},
    {"hidden_dropout", kTraining},
    {"hidden_dropout_prob", kTraining},
    {"initializer_range", kTraining},
    {"resid_pdrop", kTraining},
    {"router_aux_loss_coef", kTraining},
    {"router_jitter_noise", kTraining},
    {"router_z_loss_coef", kTraining},
    {"seq_aux", kTraining},

    {"output_attentions", kOutputs},
    {"output_hidden_states", kOutputs},
    {"output_router_logits", kOutputs},
    {"return_dict", kOutputs},
    {"use_return_dict", kOutputs},

    {"_attn_implementation", kImplementation},
    {"_attn_implementation_autoset", kImplementation},
    {"_experts_implementation", kImplementation},
    {"attn_implementation", kImplementation},
    {"cache_implementation", kImplementation},
    {"chunk_size_feed_forward", kImplementation},
    {"experts_implementation", kImplementation},
    {"pretraining_tp", kImplementation},
    {"torchscript", kImplementation},
    {"use_cache", kImplementation},

    {"bos_token_id", kTokens},
    {"decoder_start_token_id", kTokens},
    {"eos_token_id", kTokens},
    {"pad_token_id", kTokens},
    {"sep_token_id", kTokens},
    {"tokenizer_class", kTokens},

    {"dtype", kDtype},
    {"torch_dtype", kDtype},

    {"finetuning_task", kTasks},
    {"id2label", kTasks},
    {"label2id", kTasks},
    {"num_labels", kTasks},
    {"problem_type", kTasks},
    {"task_specific_params", kTasks},

    {"bad_words_ids", kGeneration},
    {"begin_suppress_tokens", kGeneration},
    {"diversity_penalty", kGeneration},
    {"do_sample", kGeneration},
    {"early_stopping", kGeneration},
    {"encoder_no_repeat_ngram_size", kGeneration},
    {"epsilon_cutoff", kGeneration},
    {"eta_cutoff", kGeneration},
    {"exponential_decay_length_penalty", kGeneration},
    {"forced_bos_token_id", kGeneration},
    {"forced_eos_token_id", kGeneration},
    {"length_penalty", kGeneration},
    {"max_length", kGeneration},
    {"max_new_tokens", kGeneration},
    {"min_length", kGeneration},
    {"no_repeat_ngram_size", kGeneration},
    {"num_beam_groups", kGeneration},
    {"num_beams", kGeneration},
    {"num_return_sequences", kGeneration},
    {"output_scores", kGeneration},
    {"remove_invalid_values", kGeneration},
    {"repetition_penalty", kGeneration},
    {"return_dict_in_generate", kGeneration},
    {"suppress_tokens", kGeneration},
    {"temperature", kGeneration},
    {"top_k", kGeneration},
    {"top_p", kGeneration},
    {"typical_p", kGeneration},

    {"model_name", kTools},
    {"unsloth_fixed", kTools},
    {"unsloth_version", kTools},
};

constexpr NeutralKey kNeutral[] = {
    {"add_cross_attention", "false"}, {"cross_attention_hidden_size", "null"},
    {"is_decoder", "false"},          {"is_encoder_decoder", "false"},
    {"per_layer_config", "{}"},       {"pruned_heads", "{}"},
    {"tf_legacy_loss", "false"},      {"tie_encoder_decoder", "false"},
    {"use_bfloat16", "false"},
};

}  // namespace

std::span<const HarmlessKey> harmless_config_keys() {
  return kHarmless;
}

std::span<const NeutralKey> neutral_config_keys() {
  return kNeutral;
}

}  // namespace switchyard
