"""The members, parts and items of chat completions that pass where a profile restricts tools: data, and nothing else.

Sources: OpenAI's API reference; vLLM's ``ChatCompletionRequest``; the README of llama.cpp's server; ``transformers
serve``. For responses also what widely used servers add (Azure, Gemini, Groq, LiteLLM, Mistral, Ollama, OpenRouter).

Left out although a server documents them, because a request could make that server load code or connect elsewhere:
``logits_processors``, ``kv_transfer_params`` and ``ec_transfer_params`` of vLLM, which ``vllm_xargs`` must not hold
either: vLLM documents only texts, numbers and lists of them there. A profile alone allows tools that a provider runs by
itself (``web_search_options``).
"""

from __future__ import annotations

from typing import Final

from affiant.gateway.dialects.member_lists import MemberLists, Table
from affiant.gateway.dialects.member_lists import free as _free

__all__ = ["CHAT_LISTS"]

_OPENAI: Final = """
    audio frequency_penalty logit_bias logprobs max_completion_tokens max_tokens metadata modalities model moderation
    n parallel_tool_calls presence_penalty prompt_cache_key prompt_cache_options prompt_cache_retention
    reasoning_effort response_format safety_identifier seed service_tier stop store stream stream_options temperature
    top_logprobs top_p user verbosity
"""
_VLLM: Final = """
    add_generation_prompt add_special_tokens allowed_token_ids bad_words best_of cache_salt chat_template
    chat_template_kwargs continue_final_message documents early_stopping echo guided_choice guided_decoding_backend
    guided_grammar guided_json guided_regex guided_whitespace_pattern ignore_eos include_reasoning
    include_stop_str_in_output length_penalty media_io_kwargs min_p min_tokens mm_processor_kwargs priority
    prompt_logprobs repetition_detection repetition_penalty request_id return_assistant_tokens_mask return_prompt_text
    return_token_ids return_token_offsets return_tokens_as_token_ids skip_special_tokens spaces_between_special_tokens
    stop_token_ids structural_tag structured_outputs thinking_token_budget top_k truncate_prompt_tokens
    truncation_side use_beam_search
"""
_LLAMA_CPP: Final = """
    adaptive_decay adaptive_target backend_sampling cache_prompt dry_allowed_length dry_base dry_multiplier
    dry_penalty_last_n dry_sequence_breakers dynatemp_exponent dynatemp_range grammar grammar_lazy grammar_triggers
    id_slot json_schema lora min_keep mirostat mirostat_eta mirostat_tau n_cache_reuse n_cmpl n_discard n_indent
    n_keep n_predict n_probs parse_tool_calls post_sampling_probs preserved_tokens reasoning_format repeat_last_n
    repeat_penalty response_fields return_progress return_tokens samplers speculative.n_max speculative.n_min
    speculative.p_min t_max_predict_ms t_max_prompt_ms thinking_forced_open timings_per_token top_n_sigma typical_p
    xtc_probability xtc_threshold
"""
_TRANSFORMERS: Final = "generation_config"

_REQUEST: Final = Table(
    root="request",
    members={
        "request": {
            **_free(_OPENAI + _VLLM + _LLAMA_CPP + _TRANSFORMERS),
            "messages": "message",
            "prediction": "prediction",
            "tools": "tool",
            "tool_choice": "tool_choice",
            "functions": "function",
            "function_call": "function_call",
            "vllm_xargs": "vllm_xargs",
        },
        "message": {
            **_free("audio cache_control name reasoning reasoning_content refusal role task tool_call_id"),
            **_free("annotations extra_content provider_specific_fields reasoning_details thinking_blocks"),
            "content": "part",
            "function_call": "called",
            "tool_calls": "call",
        },
        "prediction": {**_free("type"), "content": "part"},
        "function tool": {**_free("cache_control defer_loading type"), "function": "function"},
        "custom tool": {**_free("type"), "custom": "custom"},
        "function": _free("defer_loading description name parameters strict"),
        "custom": _free("description format name"),
        "function choice": {**_free("type"), "function": "function_call"},
        "custom choice": {**_free("type"), "custom": "function_call"},
        "allowed tools": {**_free("type"), "allowed_tools": "tool list"},
        "tool list": {**_free("mode"), "tools": "listed tool"},
        "function_call": _free("name"),
        "function call": {
            **_free("extra_content id index provider_specific_fields type"),
            "function": "called",
        },
        "custom call": {**_free("extra_content id index provider_specific_fields type"), "custom": "called"},
        "called": _free("arguments input name"),
        "text part": _free("cache_control prompt_cache_breakpoint text type"),
        "refusal part": _free("refusal type"),
        "thinking part": _free("closed signature thinking type"),
        "image_url part": _free("cache_control image_url prompt_cache_breakpoint type uuid"),
        "audio_url part": _free("audio_url type uuid"),
        "video_url part": _free("type uuid video_url"),
        "input_audio part": _free("input_audio prompt_cache_breakpoint type uuid"),
        "input_image part": _free("detail image_url type uuid"),
        "file part": _free("cache_control file prompt_cache_breakpoint type"),
        "file_url part": _free("file_url type uuid"),
        "embeds part": _free("audio_embeds image_embeds type uuid video_embeds"),
    },
    kinds={
        "part": {
            **dict.fromkeys(("text", "input_text", "output_text"), "text part"),
            **dict.fromkeys(("audio_embeds", "image_embeds", "video_embeds"), "embeds part"),
            "refusal": "refusal part",
            "thinking": "thinking part",
            "image_url": "image_url part",
            "audio_url": "audio_url part",
            "video_url": "video_url part",
            "input_audio": "input_audio part",
            "input_image": "input_image part",
            "file": "file part",
            "file_url": "file_url part",
        },
        "tool": {"function": "function tool", "custom": "custom tool"},
        "listed tool": {"function": "function choice", "custom": "custom choice"},
        "tool_choice": {
            "function": "function choice",
            "custom": "custom choice",
            "allowed_tools": "allowed tools",
        },
        "call": {"function": "function call", "custom": "custom call"},
    },
    untyped=dict.fromkeys(("tool", "listed tool", "tool_choice", "call"), "function"),
    words={"tool_choice": ("auto", "none", "required"), "function_call": ("auto", "none")},
    scalars={"vllm_xargs": ("ectransferparams", "kvtransferparams", "logitsprocessors")},
    providers=dict.fromkeys(("enable_search", "search_parameters", "web_search_options"), "web_search"),
    provider_places=frozenset({"tool", "listed tool", "tool_choice"}),
    extensible=("request", "message", "part", "function"),
)

_RESPONSE: Final = Table(
    root="response",
    members={
        "response": {
            **_free(
                "__verbose citations error metadata metrics moderation prompt_filter_results prompt_logprobs"
            ),
            **_free("ec_transfer_params kv_transfer_params prompt_token_ids timings usage x_groq"),
            "choices": "choice",
        },
        "choice": {
            **_free("content_filter_offsets content_filter_result content_filter_results logprobs token_ids"),
            "delta": "response_message",
            "message": "response_message",
        },
        "response_message": {
            **_free("audio extra_content provider_specific_fields"),
            "annotations": "annotation",
            "content": "response_part",
            "function_call": "called",
            "images": "response_part",
            "reasoning_details": "reasoning",
            "thinking_blocks": "reasoning",
            "tool_calls": "call",
        },
        "call of a tool": {
            **_free("extra_content provider_specific_fields"),
            "custom": "called",
            "function": "called",
        },
        "called": {},
        "item": {"annotations": "annotation", "thinking": "response_part"},
        "cited": _free("container_file_citation file file_citation file_path image_url url_citation"),
    },
    kinds={
        "response_part": {
            **dict.fromkeys(
                ("output_text", "reasoning", "redacted_thinking", "refusal", "text", "thinking"), "item"
            ),
            **dict.fromkeys(("image_url", "reference"), "cited"),
        },
        "annotation": dict.fromkeys(
            ("container_file_citation", "file", "file_citation", "file_path", "url_citation"), "cited"
        ),
        "reasoning": dict.fromkeys(
            ("reasoning.encrypted", "reasoning.summary", "reasoning.text", "redacted_thinking", "thinking"),
            "item",
        ),
        "call": {"function": "call of a tool", "custom": "call of a tool"},
    },
    untyped={"call": "function"},
    extensible=("response", "choice", "response_message", "response_part", "annotation", "reasoning"),
)
"""Of responses, members are listed that hold objects: a call is one. What else a member holds passes, except an object
that is like a call (:mod:`.unlisted`): below :data:`FREE` too."""

CHAT_LISTS: Final = MemberLists(_REQUEST, _RESPONSE)
