"""What may be in requests and responses of dialects without tools, where a profile restricts tools: data alone.

Sources: OpenAI's API reference and the types of its ``openai`` package for completions, embeddings and moderations;
Cohere's and Jina's API references for rerank; vLLM's ``CompletionRequest``, ``EmbeddingRequest`` and ``RerankRequest``;
the README of llama.cpp's server. Left out although vLLM documents it: ``prompt_embeds``, tensors that the server loads.
"""

from __future__ import annotations

from typing import Final

from affiant.gateway.dialects.member_lists import MemberLists, Table, free
from affiant.gateway.dialects.named_urls import DATA, MEDIA, MEDIA_MEMBERS, SCHEMA, TEXT, URLPlaces

__all__ = ["COMPLETIONS", "EMBEDDINGS", "MODERATIONS", "RERANK", "TEXT_URLS"]

_SAMPLING: Final = """
    best_of echo frequency_penalty logit_bias logprobs max_tokens model n presence_penalty seed stop stream
    stream_options suffix temperature top_p user
"""
_SERVERS: Final = """
    add_special_tokens allowed_token_ids cache_prompt cache_salt dry_allowed_length dry_base dry_multiplier
    dry_penalty_last_n dry_sequence_breakers dynatemp_exponent dynatemp_range grammar id_slot ignore_eos
    include_stop_str_in_output json_schema length_penalty min_keep min_p min_tokens mirostat mirostat_eta mirostat_tau
    n_keep n_predict n_probs post_sampling_probs priority prompt_logprobs repeat_last_n repeat_penalty
    repetition_penalty request_id response_fields response_format return_progress return_token_ids return_tokens
    return_tokens_as_token_ids samplers skip_special_tokens spaces_between_special_tokens stop_token_ids
    structured_outputs t_max_predict_ms timings_per_token top_k top_n_sigma truncate_prompt_tokens typical_p
    use_beam_search xtc_probability xtc_threshold
"""
_SHARED: Final = "encoding_format metadata model priority request_id truncate_prompt_tokens user"
_TEXTS: Final[dict[str, str]] = {}
"""A place of texts and numbers, and of lists of them: no object is listed there."""

COMPLETIONS: Final = MemberLists(
    Table(
        root="request",
        members={"request": {**free(_SAMPLING + _SERVERS), "prompt": "texts"}, "texts": _TEXTS},
        extensible=("request",),
    ),
    Table(
        root="response",
        members={
            "response": {
                **free(
                    "__verbose error kv_transfer_params metadata metrics prompt_filter_results timings usage"
                ),
                "choices": "choice",
            },
            "choice": free(
                "completion_probabilities content_filter_results logprobs prompt_logprobs prompt_token_ids token_ids"
            ),
        },
        extensible=("response", "choice"),
    ),
)
EMBEDDINGS: Final = MemberLists(
    Table(
        root="request",
        members={
            "request": {
                **free(_SHARED),
                **free(
                    "add_special_tokens dimensions embed_dtype embedding_type endianness input_type late_chunking"
                ),
                **free(
                    "normalize normalized output_dimension output_dtype pooling prompt_name task truncate truncation"
                ),
                **free("use_activation"),
                "input": "texts",
            },
            "texts": _TEXTS,
        },
        extensible=("request",),
    ),
    Table(
        root="response",
        members={
            "response": {**free("error meta metadata usage"), "data": "embedding"},
            "embedding": free("embedding embeddings"),
        },
        extensible=("response", "embedding"),
    ),
)
RERANK: Final = MemberLists(
    Table(
        root="request",
        members={
            "request": {
                **free(_SHARED),
                **free("activation max_chunks_per_doc max_tokens_per_doc rank_fields raw_scores"),
                **free("return_documents return_text softmax top_k top_n truncate truncation use_activation"),
                "documents": "document",
                "query": "texts",
            },
            "document": free("id text title"),
            "texts": _TEXTS,
        },
        extensible=("request", "document"),
    ),
    Table(
        root="response",
        members={
            "response": {**free("error meta metadata usage"), "data": "result", "results": "result"},
            "result": {"document": "document"},
            "document": {},
        },
        extensible=("response", "result", "document"),
    ),
)
MODERATIONS: Final = MemberLists(
    Table(
        root="request",
        members={
            "request": {**free("metadata model user"), "input": "part"},
            "text part": free("text type"),
            "image_url part": free("image_url type"),
        },
        kinds={"part": {"text": "text part", "image_url": "image_url part"}},
        extensible=("request", "part"),
    ),
    Table(
        root="response",
        members={
            "response": {**free("error metadata usage"), "results": "result"},
            "result": free("categories category_applied_input_types category_scores"),
        },
        extensible=("response", "result"),
    ),
)

_PART: Final = {"text": "text part"}
TEXT_URLS: Final = URLPlaces(
    members={
        "request": {
            **dict.fromkeys(("grammar", "model", "prompt", "query", "stop", "suffix", "user"), TEXT),
            **dict.fromkeys(("json_schema", "response_format", "structured_outputs"), SCHEMA),
            "documents": "document",
            "input": "input",
            "metadata": DATA,
        },
        "document": {"id": TEXT, "text": TEXT, "title": TEXT},
        "text part": {"text": TEXT},
        "untyped part": {**MEDIA_MEMBERS, "text": TEXT},
    },
    others={"untyped part": MEDIA},
    entries={},
    kinds={"input": _PART},
    untyped={"input": "untyped part"},
    unknown={"input": MEDIA},
    texts=frozenset({"document", "input"}),
)
"""Texts are text wherever a dialect takes texts; parts of an ``input`` are as those of messages."""
