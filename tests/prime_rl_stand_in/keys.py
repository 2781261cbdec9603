"""The keys that prime-rl's configuration has at the run guide's release, by name and type.

A type says what a value must be, a tuple which words there are; `dict` takes any table, `ANY` any value.
"""

from typing import Any

ANY = object
Keys = dict[str, Any]

TOKENIZER: Keys = {"name": str, "trust_remote_code": bool, "chat_template": str}
LOG: Keys = {"level": str, "vf_level": str, "json_logging": bool, "log_data": bool}
WANDB: Keys = {"project": str, "entity": str, "name": str, "group": str, "tags": list, "offline": bool}
SLURM: Keys = {
    "job_name": str, "project_dir": str, "template_path": str, "partition": str, "nodelist": str, "exclude": str,
    "account": str, "time": str, "pre_run_command": str,
}  # fmt: skip
CKPT: Keys = {"output_dir": str, "interval": int, "resume_step": int, "keep_last": int, "keep_interval": int}
NO_KEYS: Keys = {}

TRAINER: Keys = {
    "model": {
        "name": str, "trust_remote_code": bool, "vlm": dict, "seq_len": int,
        "attn": ("eager", "sdpa", "flash_attention_2", "flash_attention_3", "fa4"),
        "compile": {"fullgraph": bool}, "ac": {"mode": ("full", "selective"), "freq": int, "targets": list},
        "ac_offloading": {"pin_memory": bool, "max_inflight_activations": int}, "fsdp_cpu_offload": bool,
        "optim_cpu_offload": bool, "reshard_after_forward": bool, "dp_replicate": int, "ep": int,
        "ep_comm_backend": ("torch", "deepep"), "deepep_num_sms": int, "deepep_token_chunk_size": int, "cp": int,
        "cp_style": ("ring", "ulysses"), "impl": ("hf", "custom", "auto"),
        "optimization_dtype": ("bfloat16", "float32"), "reduce_dtype": ("bfloat16", "float32"),
        "moe_use_grouped_mm": bool, "fp8": bool, "freeze_moe_router": bool, "lora": dict, "debug": dict,
        "fused_lm_head_token_chunk_size": ANY,
    },
    "tokenizer": TOKENIZER, "data": {"fake": dict}, "loss": dict, "optim": {"lr": float, "*": ANY}, "scheduler": dict,
    "ckpt": {
        **CKPT, "weights": dict, "skip_gather_master_weights": bool, "weights_only": bool, "skip_progress": bool,
        "skip_scheduler": bool, "skip_dataloader": bool, "skip_optimizer": bool,
    },
    "weight_broadcast": dict, "rollout_transport": dict, "log": {**LOG, "ranks_filter": list}, "wandb": WANDB,
    "output_dir": str, "matmul_precision": ("highest", "high", "medium"), "max_steps": int, "max_async_level": int,
    "enable_router_replay": bool, "memory_profiler_path": str, "bench": dict, "gc": {"interval": int},
    "trace_path": str, "dist_timeout_seconds": int, "heartbeat": {"url": str},
    "metrics_server": {"port": int, "host": str}, "max_concurrent_runs": int, "experimental": NO_KEYS,
}  # fmt: skip

SAMPLING: Keys = {
    "temperature": float, "repetition_penalty": float, "max_completion_tokens": int, "max_tokens": int,
    "min_tokens": int, "seed": int, "extra_body": dict,
}  # fmt: skip
ENV: Keys = {
    "id": str, "name": str, "args": dict, "extra_env_kwargs": dict, "address": str, "num_workers": ANY, "ratio": float,
    "max_retries": int, "max_total_completion_tokens": int, "timeout": float, "sampling": SAMPLING,
}  # fmt: skip
ORCHESTRATOR: Keys = {
    "train": {"env": [ENV], "sampling": SAMPLING, "num_workers": ANY, "max_retries": int},
    "client": {
        "timeout": int, "connect_timeout": float, "wait_for_ready_timeout": int, "base_url": list, "api_key_var": str,
        "headers": dict, "extra_headers_from_state": dict, "skip_model_check": bool, "dp_rank_count": int,
        "admin_base_url": list, "elastic": dict, "router_url": str,
    },
    "model": {"name": str, "trust_remote_code": bool, "vlm": dict, "lora": dict}, "tokenizer": TOKENIZER,
    "renderer": {"name": str, "tool_parser": str, "reasoning_parser": str, "pool_size": int}, "optim": {"lr": float},
    "teacher_model": dict, "teacher_rollout_model": dict, "use_sft_loss": bool, "eval": dict,
    "buffer": {
        "seed": int, "easy_threshold": float, "hard_threshold": float, "easy_fraction": float, "hard_fraction": float,
        "online_difficulty_filtering": bool, "hash_keys": list,
    },
    "advantage": dict, "filters": list, "log": LOG, "wandb": {**WANDB, "log_extras": dict}, "prime_monitor": dict,
    "collect_inference_metrics": bool,
    "ckpt": {
        **{name: CKPT[name] for name in CKPT if name != "output_dir"}, "wait_for_weights_timeout": int,
        "skip_progress": bool, "skip_buffer": bool,
    },
    "weight_broadcast": dict, "rollout_transport": dict, "output_dir": str, "tasks_per_minute": int,
    "batch_size": int, "token_batch_size": int, "oversampling_factor": float, "max_inflight_rollouts": int,
    "rollouts_per_example": int, "seq_len": int, "num_train_workers": int, "max_steps": int,
    "max_off_policy_steps": int, "max_async_level": int, "strict_async_level": bool, "bench": bool, "seed": int,
    "heartbeat": {"url": str}, "use_token_client": bool, "use_renderer": bool, "env_install_prerelease": bool,
    "experimental": NO_KEYS,
}  # fmt: skip

INFERENCE: Keys = {
    "server": {"host": str, "port": int, "liveness_timeout_seconds": float},
    "model": {
        "name": str, "trust_remote_code": bool, "vlm": dict, "dtype": ("auto", "float16", "bfloat16", "float32"),
        "max_model_len": int, "enforce_eager": bool, "chat_template": str, "tool_call_parser": str,
        "reasoning_parser": str, "rope_scaling": ANY,
    },
    "parallel": {"tp": int, "dp": int}, "enable_lora": bool, "max_loras": int, "max_cpu_loras": int,
    "max_lora_rank": int, "lora_target_modules": list, "enable_prefix_caching": bool, "gpu_memory_utilization": float,
    "api_server_count": int, "data_parallel_size_local": int, "data_parallel_rpc_port": int, "seed": int,
    "enable_expert_parallel": bool, "all2all_backend": str, "enable_eplb": bool, "enable_dbo": bool,
    "use_deep_gemm": bool, "weight_broadcast": {"type": ("nccl", "filesystem")}, "kv_cache_offload": {"cpu_bytes": int},
    "enable_return_routed_experts": bool, "enable_fp32_lm_head": bool, "vllm_extra": dict, "deployment": dict,
    "slurm": SLURM, "output_dir": str, "dry_run": bool, "experimental": NO_KEYS,
}  # fmt: skip

RL: Keys = {
    "trainer": TRAINER, "orchestrator": ORCHESTRATOR, "inference": INFERENCE, "teacher_inference": INFERENCE,
    "output_dir": str, "clean_output_dir": bool, "log": {"level": str, "json_logging": bool}, "ckpt": CKPT,
    "wandb": {**WANDB, "shared": bool}, "model": {"name": str, "vlm": dict}, "tokenizer": TOKENIZER, "max_steps": int,
    "max_model_len": int, "seq_len": int, "max_async_level": int,
    "weight_broadcast": {
        "type": ("nccl", "filesystem"), "port": int, "timeout": int, "quantize_in_weight_transfer": bool,
    },
    "bench": bool,
    "deployment": {
        "type": ("single_node", "multi_node"), "gpus_per_node": int, "num_train_gpus": int, "num_infer_gpus": int,
        "num_teacher_gpus": int, "num_train_nodes": int, "num_infer_nodes": int, "num_infer_replicas": int,
        "num_teacher_nodes": int, "nodes_per_fsdp_group": int,
    },
    "slurm": SLURM, "dry_run": bool, "experimental": NO_KEYS,
}  # fmt: skip
REQUIRED = ("trainer", "orchestrator")
"""Tables without which a whole run is refused."""

LEAST = {
    "trainer.optim.lr": 0, "orchestrator.train.sampling.temperature": 0, "ckpt.resume_step": -1,
    "orchestrator.rollouts_per_example": 1, "orchestrator.batch_size": 1,
}  # fmt: skip
