"""Situations that people have reported in public: a program for each, what must be told, what must not."""

import sys
from pathlib import Path

from programs import LIMIT_S
from situation import PROGRAMS, Situation

RECORDED = Path(__file__).parent / "recorded"
OPTIONS = ("--quiet", "--format", "json", "--budget", "40s", "--steps-planned")
TORCHRUN = ("torchrun", "--standalone", "--nproc-per-node", "2")
REPAIRED = "--repaired"

__all__ = ["LIMIT_S", "PROGRAMS", "SITUATIONS", "Situation", "command", "recording_of"]

SITUATIONS = (
    Situation(
        "averaged_by_hand",
        ("small_collectives",),
        says=(r"20\d exchanges", r"DistributedDataParallel", r"barrier"),
        place="all_reduce(parameter.grad)",
        never=(r"bucket_cap_mb", r"gradient_as_bucket_view", r"no_sync", r"static_graph"),
        ranks=True,
    ),
    Situation(
        "bound_on_import",
        ("narrowed_affinity",),
        says=(r"Undo the binding",),
        place="os.sched_setaffinity(0, {min(ALLOWED)})",
        never=(r"set_num_threads\(1\)", r"fewer workers"),
    ),
    Situation(
        "loop_over_rows",
        ("piecewise_calls",),
        says=(r"\d calls at",),
        place="self.head(features[row])",
        never=(r"fused=True",),
    ),
    Situation(
        "parametrized_cell",
        ("repeated_work",),
        says=(r"parametrized weight", r"parametrize\.cached\(\)"),
        place="self.turn(state)",
        never=(r"torch\.compile", r"nn\.RNN"),
    ),
    Situation(
        "bursts_of_workers",
        ("input_bound", "slow_item"),
        says=(r"waits for (data|items)",),
    ),
    Situation(
        "counted_calls",
        ("compile_fell_back", "recompiles"),
        says=(r"\.count` .*buffer",),
        place="self.count += 1",
        never=(r"dynamic",),
    ),
    Situation(
        "denormal_weights",
        ("denormal_numbers",),
        says=(r"set_flush_denormal\(True\)",),
        harmless=r"add nothing, and cost nothing here",
    ),
    Situation(
        "group_per_parameter",
        ("needless_groups",),
        says=(r"\d+ groups", r"one group"),
        place="AdamW",
        never=(r"fused=True",),
    ),
    Situation(
        "reading_thread",
        ("busy_thread",),
        says=(r"`reader`", r"take turns"),
        among=2,
    ),
    Situation(
        "rollout",
        ("rollout_bound",),
        says=(r"plays without gradients", r"one forward"),
        place="Categorical",
        never=(r"[Ee]valuate (less|every)",),
    ),
    Situation(
        "hooks_pile_up",
        ("piling_hooks",),
        says=(r"hooks more hang on the modules after each step", r"remove\(\)"),
        place="register_forward_hook",
        never=(r"[Oo]ther programs on", r"torch\.compile\("),
    ),
    Situation(
        "growing_history",
        ("rising_step_time",),
        says=(r"more in each step than in the last", r"`history`"),
        place="history.append",
    ),
    Situation(
        "archive_kept_open",
        ("shared_handles",),
        says=(r"share one open zipfile\.ZipFile, `dataset\.archive`", r"[Oo]pen it in each worker"),
        place="self.archive = None if",
        never=(r"num_workers=[2-9]",),
    ),
    Situation(
        "generator_in_dataset",
        ("copied_generators",),
        says=(r"draw the same numbers, .* `dataset\.transform\.rng`", r"initial_seed"),
        place="self.rng = None if",
    ),
    Situation(
        "weighted_draws",
        ("slow_sampler",),
        says=(r"numbers of items",),
        place="choice",
        never=(r"more than \d workers", r"num_workers=[1-9]", r"prefetch_factor", r"[Mm]ake items cheaper"),
    ),
    Situation(
        "averaged_weights",
        ("tensor_loop",),
        says=(r"_foreach",),
        place="value.mul_(DECAY)",
        never=(r"fused=True", r"torch\.compile"),
    ),
    Situation(
        "predictions_joined",
        ("rising_step_time",),
        says=(r"more in each step than in the last", r"answers"),
        place="torch.cat",
    ),
    Situation(
        "state_with_history",
        ("rising_step_time", "retained_graph"),
        says=(r"detach\(\)",),
        never=(r"[Oo]ther programs on", r"torch\.compile"),
    ),
    Situation(
        "graph_scaled_anew",
        ("repeated_work",),
        says=(r"`unique|`torch\.unique", r"keep the result"),
        place="torch.unique",
    ),
    Situation(
        "batch_of_lists",
        ("tensors_from_lists",),
        says=(r"numbers, one by one", r"stack"),
        place="list(each) for each in",
        never=(r"fused=True",),
    ),
    Situation(
        "copied_memory",
        ("rising_step_time", "hot_line", "unattributed_time"),
        place=".copy()",
    ),
    Situation(
        "generator_of_module",
        ("copied_generators",),
        says=(r"draw the same numbers, .* `RNG`",),
        place="RNG = np.random",
    ),
    Situation(
        "database_kept_open",
        ("shared_handles",),
        says=(r"share one open sqlite3\.Connection, `dataset\.base`", r"[Oo]pen it in each worker"),
        place="self.base = None if",
        never=(r"num_workers=[2-9]",),
    ),
    Situation(
        "cache_in_workers",
        ("lost_state",),
        says=(r"`dataset\.decoded`", r"persistent_workers=True"),
    ),
    Situation(
        "handlers_pile_up",
        ("rising_step_time", "piling_hooks"),
        says=(r"more in each step than in the last", r"handler"),
        place="addHandler",
        never=(r"[Oo]ther programs on",),
    ),
    Situation(
        "loss_over_samples",
        ("piecewise_calls",),
        says=(r"computes for one piece after the other", r"over a dimension of the whole tensor"),
        never=(r"loader's workers", r"fused=True"),
    ),
    Situation(
        "gradients_checked",
        ("tensor_loop",),
        says=(r"tensors one after the other", r"clip_grad_norm_"),
        place="torch.isnan(parameter.grad)",
        never=(r"fused=True", r"AveragedModel"),
    ),
    Situation(
        "matched_in_python",
        ("hot_line",),
        says=(r"matched_in_python\.py:\d+",),
        place="sum((a - b) ** 2",
        never=(r"fused=True",),
    ),
    Situation(
        "labels_of_workers",
        ("limit_ahead",),
        says=(r"the limit of 4,096 is met at step", r"`labels`.*\.clone\(\)"),
        place="labels.append",
        planned=5000,
    ),
    Situation(
        "averaged_by_copies",
        ("copied_weights",),
        says=(r"copies tensors one after the other", r"AveragedModel"),
        place="copy.deepcopy(student)",
        never=(r"fused=True",),
    ),
    Situation(
        "losses_kept_short",
        ("retained_graph",),
        says=(r"held by `(curve|answers)`", r"\.detach\(\)"),
        place=".append(",
    ),
    Situation(
        "loader_each_epoch",
        ("loader_recreated",),
        says=(r"builds a new loader", r"persistent_workers=True"),
        place="return DataLoader",
    ),
    Situation(
        "scoring_thread",
        ("busy_thread",),
        says=(r"`counting`", r"take turns"),
    ),
    Situation(
        "unrolled_gates",
        ("unrolled_recurrence",),
        says=(r"moment by moment", r"torch\.nn\.LSTM"),
        never=(r"fused=True", r"batch_size"),
    ),
    Situation(
        "looked_at_in_training",
        ("evaluation_bound",),
        says=(r"Evaluate every",),
        place="law(places[-1]",
        never=(r"environments", r"plays"),
    ),
    Situation(
        "rows_of_tensors",
        ("slow_item", "slow_collate"),
        says=(r"with one index", r"BatchSampler"),
        never=(r"Let workers wait", r"offline"),
    ),
    Situation(
        "filter_each_item",
        ("slow_item",),
        says=(r"`bank`.* once",),
        never=(r"wait and do not compute",),
    ),
    Situation(
        "losses_apart",
        ("separate_backwards",),
        says=(r"backwards before each update", r"sum\(losses\)\.backward\(\)"),
        place="retain_graph=True",
    ),
    Situation(
        "fake_with_graph",
        ("unused_gradients",),
        says=(r"no update uses", r"detach\(\)"),
        place="loss.backward()",
    ),
    Situation(
        "collected_each_step",
        ("garbage_collection",),
        says=(r"gc\.collect\(\).* asks for", r"out of the step"),
        place="gc.collect()",
        never=(r"gc\.freeze",),
    ),
    Situation(
        "shared_through_manager",
        ("piped_items",),
        says=(r"through a pipe", r"share_memory_\(\)"),
        never=(r"more than \d workers", r"num_workers=[2-9]"),
    ),
    Situation(
        "evaluator_beside",
        ("busy_child",),
        says=(r"`scorer`", r"fewer threads"),
        threads=True,
    ),
    Situation(
        "weights_described",
        ("unattributed_time", "hot_line", "tensor_loop"),
        says=(r"every few steps|every 50 steps|out of the (loop|step)",),
        place="weight",
        never=(r"fused=True", r"loader's workers"),
    ),
    Situation(
        "counted_one_by_one",
        ("tensor_loop", "indexing_loop"),
        says=(r"bincount|one operator over the whole tensor",),
        place="] += 1",
        never=(r"fused=True", r"AveragedModel"),
    ),
    Situation(
        "tensors_as_text",
        ("hot_line", "unattributed_time"),
        says=(r"an f-string", r"pass them to the logger"),
        place="LOG.debug(f",
        never=(r"fused=True", r"batch_size"),
    ),
    Situation(
        "lstm_by_moments",
        ("unrolled_recurrence",),
        says=(r"moment by moment", r"torch\.nn\.LSTM"),
        place="self.memory(series[moment",
        never=(r"model\(row\)",),
    ),
    Situation(
        "features_frozen",
        ("frozen_features",),
        says=(r"learn nothing", r"compute once"),
        place="backbone(batch)",
        never=(r"loader's workers",),
        among=2,
    ),
    Situation(
        "optimizer_each_step",
        ("optimizer_recreated",),
        says=(r"no momenta", r"once, before the first step"),
        place="torch.optim.AdamW(",
    ),
    Situation(
        "scores_at_all_places",
        ("unread_results",),
        says=(r"`linear`", r"Take that part of what goes into"),
        place="self.head(states)",
    ),
    Situation(
        "experts_for_all_rows",
        ("unread_results",),
        says=(r"zeros erase the rest", r"index_add"),
        place="weight * expert(x)",
        never=(r"torch\.compile",),
    ),
    Situation(
        "centres_by_differences",
        ("broadcast_pairs",),
        says=(r"squared distances at", r"torch\.cdist\(a, b\)\.square\(\)"),
        place="x[:, None, :] - self.places",
        never=(r"fused=True",),
    ),
    Situation(
        "factors_multiplied_first",
        ("contraction_order",),
        says=(r"elements in between", r"\(x @ a\) @ b"),
        place='torch.einsum("nr,rm->nm"',
        never=(r"fused=True",),
    ),
    Situation(
        "permutation_in_list",
        ("slow_sampler",),
        says=(r"before the first batch", r"a batch at a time"),
        place="def __iter__",
        never=(r"more than \d workers", r"prefetch_factor"),
    ),
    Situation(
        "fields_of_one_number",
        ("slow_collate", "slow_item"),
        says=(r"one tensor in place of 20\d fields",),
        never=(r"offline", r"__getitems__"),
    ),
)


def command(situation: Situation, *arguments: str) -> list[str]:
    """Arguments of ``advisor`` that profile the program of a situation.

    Args:
        arguments: Of the program.
    """
    path, options = str(situation.path), (*OPTIONS, str(situation.planned))
    if situation.ranks:
        return ["profile", *options, "--exec", "--", *TORCHRUN, path, *arguments]
    return ["profile", path, *options, *(("--", *arguments) if arguments else ())]


def recording_of(situation: Situation, *arguments: str) -> Path:
    """The file that holds the profile of one run of the program."""
    return RECORDED / f"{situation.program}{'__repaired' if REPAIRED in arguments else ''}.json"


def advisor(*arguments: str) -> list[str]:
    """A command that runs ``advisor`` of this interpreter."""
    return [sys.executable, "-m", "advisor", *arguments]
