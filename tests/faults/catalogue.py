"""Every fault that was thought of, with the tests that inject it, or the reason why none does."""

from dataclasses import dataclass

SWEEP = "faults/test_fault_sweep.py::"
SIGNALS = "faults/test_fault_signals.py::"
DISKS = "faults/test_fault_disks.py::"
STUDIES = "faults/test_fault_studies.py::"
TRIALS = "faults/test_fault_trials.py::test_what_befalls_a_program_has_its_cause"
ONE = "faults/test_fault_trials.py::"
SUPERVISE = "tuners/supervision/test_supervise.py::"
LAUNCH = "tuners/launching/test_launch.py::"
KILLED = "tuners/launching/test_killed_launch.py::"
GROUP = "tuners/launching/test_group.py::"
LIMITS = "faults/test_fault_limits.py::"
NETWORK = "faults/test_fault_network.py::"
SERVER = "storage/test_store_postgresql.py::"
STORED = "storage/test_studies_faults.py::"


@dataclass(frozen=True)
class Case:
    """One fault.

    Attributes:
        name: ``F00`` to ``F72``.
        injection: What is done.
        expected: What must come of it.
        tests: Below ``tests/``; all of them must pass.
        reason: Why it, or a part of it, is not injected.
    """

    name: str
    injection: str
    expected: str
    tests: tuple[str, ...] = ()
    reason: str = ""


CASES = (
    Case(
        "F00", "SIGKILL at every fault point, and at 25 random moments", "same configurations and verdict",
        (
            f"{SWEEP}test_the_points_are_those_that_the_promises_name",
            f"{SWEEP}test_a_study_killed_at_a_point_is_resumed_to_the_same_end",
            f"{SWEEP}test_a_study_killed_at_any_point_of_a_kind_is_resumed_to_the_same_end",
            f"{SWEEP}test_a_study_killed_at_random_moments_loses_nothing_that_was_acknowledged",
            f"{SWEEP}test_wherever_a_patch_is_killed_the_file_is_whole_and_can_be_taken_back",
            f"{SWEEP}test_a_program_killed_beside_its_trace_leaves_it_whole_or_not_at_all",
        ),
    ),
    Case(
        "F01", "SIGKILL of the tuner in a trial", "tree gone; `killed`, run once more",
        (f"{SIGNALS}test_a_tuner_killed_during_a_trial_leaves_it_to_be_run_once_more",
         f"{KILLED}test_a_killed_tuner_leaves_no_process"),
    ),
    Case(
        "F02", "SIGKILL of a launcher's command or its supervisor", "workers gone",
        ("tuners/launching/test_exec_launch.py::test_a_session_that_is_killed_ends_the_whole_command",
         f"{SIGNALS}test_a_killed_supervisor_costs_its_trial_alone",
         f"{KILLED}test_what_a_killed_supervisor_leaves_is_ended_while_other_trials_live_on"),
    ),
    Case(
        "F03", "a rank SIGKILLs itself", "the rank is named",
        (f"{GROUP}test_the_rank_at_fault_is_named",
         "tuners/launching/test_exec_launch.py::test_a_rank_that_is_killed_ends_the_others"),
        reason="nobody can tell who sent it: `oom_host`, the likeliest sender, not `killed`",
    ),
    Case("F04", "a rank sleeps outside the collective", "`hang_collective`, stacks",
         (f"{GROUP}test_a_rank_that_hangs_is_named_with_its_place",)),
    Case("F05", "SIGTERM ignored, double fork, setsid", "all gone after grace and SIGKILL",
         (f"{SUPERVISE}test_a_child_that_ignores_sigterm_forks_twice_and_leaves_its_session_is_ended",
          "tuners/supervision/test_processes.py::test_a_killed_tuner_leaves_nothing")),
    Case("F06", "exits 0, leaves a daemon", "killed and counted, trial valid",
         (f"{SUPERVISE}test_what_a_finished_trial_leaves_is_killed_and_counted",)),
    Case("F07", "a thread sleeps after the result", "accepted",
         (f"{ONE}test_a_thread_that_goes_on_does_not_delay_the_end",)),
    Case("F08", "Ctrl-C in a terminal", "`killed`, summary, exit 130, how to go on",
         (f"{SIGNALS}test_a_ctrl_c_in_a_terminal_ends_the_study_with_a_summary",
          f"{SIGNALS}test_a_tuner_asked_to_stop_says_how_to_go_on_and_leaves_nothing_running")),
    Case("F09", "Ctrl-C twice in 0.2 s", "tree killed at once, database ok",
         (f"{SIGNALS}test_two_ctrl_c_end_everything_at_once",)),
    Case("F10", "SIGTERM, later SIGKILL", "exit 143, nothing RUNNING",
         (f"{SIGNALS}test_a_tuner_asked_to_stop_says_how_to_go_on_and_leaves_nothing_running",
          f"{SIGNALS}test_sigterm_and_then_sigkill_lose_nothing")),
    Case("F11", "the terminal is closed", "as F10",
         (f"{SIGNALS}test_a_closed_terminal_ends_the_study_in_order",)),
    Case("F12", "SIGSTOP, later SIGCONT", "the tuner goes on",
         (f"{SIGNALS}test_a_stopped_tuner_goes_on_where_it_was",)),
    Case("F13", "SIGSTOP of the trial", "ended at the deadline",
         (f"{ONE}test_a_stopped_program_is_ended_at_its_deadline",
          f"{SUPERVISE}test_a_stopped_trial_still_writes_its_stacks_at_the_deadline")),
    Case("F14", "cgroup memory limit", "`oom_host` by the kernel's counter",
         (f"{LIMITS}test_what_the_kernel_kills_for_lack_of_memory_is_told_by_its_counter",
          "tuners/supervision/test_failures.py::test_an_end_without_an_outcome_has_a_cause")),
    Case("F15", "RLIMIT_AS", "`oom_host` by the allocator's text", (TRIALS,)),
    Case("F16", "torch.OutOfMemoryError", "`oom_device`, the bound is learned",
         (TRIALS,
          "tuners/search/test_search.py::test_a_larger_value_of_what_ran_out_of_memory_is_not_tried")),
    Case("F17", "a leak that ends memory late", "the winner is run longer and refused with the cause",
         (f"{STUDIES}test_a_winner_whose_memory_ends_later_is_not_recommended",
          "stages/confirming/test_longer_run.py::test_memory_that_ends_after_the_usual_steps_is_found_out")),
    Case("F18", "CUDA error: device-side assert", "`device_error`", (TRIALS,)),
    Case("F19", "SIGSEGV, SIGBUS, SIGILL", "`crash_signal`, named",
         (TRIALS, f"{LAUNCH}test_a_crash_is_named_by_its_signal")),
    Case("F20", "os._exit(0)", "`user_error`: ended without a result", (TRIALS,)),
    Case("F21", "ValueError in the baseline", "exit 3, the user's traceback",
         ("runs/test_whole_run_ends.py::test_a_target_that_fails_by_itself_is_told_in_its_own_words",)),
    Case("F22", "a third of the runs fails", "at most one retry, what is valid is kept",
         (f"{STUDIES}test_a_program_that_fails_now_and_then_ends_with_what_is_valid",
          "tuners/search/test_search.py::test_failures_in_a_row_end_the_search_with_what_is_valid")),
    Case("F23", "all candidates lack memory", "exit 4, causes, no false best",
         (f"{STUDIES}test_where_every_candidate_lacks_memory_nothing_is_recommended",)),
    Case("F24", "4 MB as /dev/shm, workers", "`shm_full`",
         (f"{ONE}test_shared_memory_that_is_full_is_told",)),
    Case("F25", "a disk that fills up", "exit 5; resuming works",
         (f"{DISKS}test_a_study_whose_disk_fills_up_is_resumed_with_all_that_was_acknowledged",)),
    Case("F26", "a disk of 16 kB", "exit 5, nothing half made",
         (f"{DISKS}test_a_disk_too_small_for_a_study_is_told_and_nothing_half_made_stays",
          "storage/test_opening.py::test_a_file_that_could_not_be_finished_is_removed")),
    Case("F27", "full disk, trace export", "trial valid, the trace is missing and said to be",
         (f"{ONE}test_a_trace_that_was_not_written_is_noticed",)),
    Case("F28", "full disk, report", "the old report stays, exit 5",
         (f"{DISKS}test_a_report_that_cannot_be_written_leaves_the_old_one",)),
    Case("F29", "fsync fails with EIO (strace)", "no acknowledgement, told",
         (f"{DISKS}test_a_call_that_fails_on_the_disk_is_told_and_acknowledges_nothing",)),
    Case("F30", "the n-th write fails with ENOSPC (strace)", "as F25",
         (f"{DISKS}test_a_call_that_fails_on_the_disk_is_told_and_acknowledges_nothing",)),
    Case("F31", "read-only mount", "exit 5, another place is named",
         (f"{STORED}test_a_read_only_mount_is_read_and_another_place_is_named_to_who_writes",)),
    Case("F32", "another writer for a while", "waits and says so",
         (f"{STORED}test_a_writer_that_takes_its_time_is_told_about_and_waited_for",
          "storage/test_database.py::test_a_writer_waits_for_another_and_says_so_once")),
    Case("F33", "another writer for ever", "exit 5, the holder is named",
         (f"{STORED}test_a_writer_that_never_ends_is_named_with_exit_code_5",
          "storage/test_database.py::test_a_lock_that_is_never_given_back_ends_the_wait")),
    Case("F34", "no database, a truncated, a newer one", "a sentence each, left untouched",
         ("storage/test_opening.py::test_a_file_that_is_not_ours_is_refused_and_left_untouched",)),
    Case("F35", "the database is deleted in use", "noticed, exit 5",
         (f"{STORED}test_a_database_that_is_deleted_in_use_is_noticed",)),
    Case("F36", "a log of another user", "plain message, exit 5",
         (f"{STORED}test_a_log_that_another_user_left_is_named",)),
    Case("F37", "statfs says NFS", "refused",
         ("storage/test_storage_url.py::test_sqlite_on_a_network_is_refused_with_the_alternative",)),
    Case("F38", "8 processes at once on nothing", "all start",
         ("storage/test_store.py::test_many_processes_start_at_once_on_nothing",)),
    Case("F39", "PostgreSQL restarts", "goes on with a new connection",
         (f"{SERVER}test_a_server_that_restarts_is_written_to_again",)),
    Case("F40", "PostgreSQL is away", "exit 5",
         (f"{SERVER}test_a_server_that_went_away_is_told",)),
    Case("F41", "pg_terminate_backend", "one writer still: who lost the study is told",
         (f"{SERVER}test_who_lost_its_lock_and_then_the_study_writes_no_more",)),
    Case("F43", "network cut", "exit 5 after the deadline",
         (f"{NETWORK}test_a_tuner_that_is_cut_off_is_told_within_its_deadline",)),
    Case("F44", "CONNECTION LIMIT", "exit 5, hint",
         (f"{NETWORK}test_a_server_that_never_takes_another_connection_ends_the_command",)),
    Case("F45", "wrong password, database, TLS", "one line, no secret, exit 5",
         ("storage/test_database.py::test_what_a_server_says_is_one_line_without_the_password",
          "storage/test_store_tls.py::test_a_server_that_cannot_be_verified_is_refused_with_the_reason",
          "storage/test_store_tls.py::test_a_server_without_tls_is_refused_where_tls_is_required",
          f"{SERVER}test_a_database_that_does_not_exist_is_named_without_traceback")),
    Case("F46", "another version on one study", "the older one refuses, both are named",
         ("storage/test_migrations.py::test_a_program_refuses_what_a_later_one_brought_up_to_date",
          "storage/test_contract.py::test_each_change_is_named_with_what_was_and_what_is")),
    Case("F48", "the wall clock steps back", "durations as ever",
         (f"{STUDIES}test_a_wall_clock_that_runs_backwards_changes_no_duration",)),
    Case("F49", "a second tuner, same device", "waits or exit 5, the holder is named",
         ("stages/test_device_lock.py::test_who_waits_too_long_is_told_who_measures",
          "stages/test_device_lock.py::test_a_command_that_measures_waits_for_the_device_and_says_for_whom")),
    Case("F50", "the holder of the lock is killed, its trial lives", "waits",
         ("stages/test_device_lock.py::test_what_a_killed_tuner_left_running_keeps_the_device",)),
    Case("F51", "load beside a trial", "repeated, else marked `interference`",
         ("tuners/comparing/test_disturbed.py::test_load_beside_one_arm_alone_is_a_disturbance",
          "tuners/comparing/test_marks.py::test_a_trial_that_stays_disturbed_is_kept_and_marked")),
    Case("F52", "NVML says that clocks are held down", "marked `throttled`",
         ("tuners/comparing/test_marks.py::test_clocks_that_are_held_down_are_read_from_the_driver",)),
    Case("F53", "no NVML, or a device that is lost", "left out, said",
         ("tuners/comparing/test_marks.py::test_without_a_driver_nothing_is_said_of_clocks",)),
    Case("F54", "CXX=/bin/false", "`compile_failed`",
         (f"{ONE}test_a_compiler_that_fails_fails_the_compilation",)),
    Case("F55", "the same, errors suppressed", "`compile_fell_back`, not ranked",
         (f"{ONE}test_a_failure_to_compile_that_is_suppressed_is_not_ranked",)),
    Case("F56", "a cache folder that cannot be", "own cache, said",
         (f"{LIMITS}test_a_cache_that_cannot_be_is_replaced_by_one_of_the_study",)),
    Case("F57", "a backend that never ends", "deadline of compiling",
         (f"{ONE}test_a_backend_that_never_ends_is_ended_at_the_deadline_of_compiling",)),
    Case("F58", "graph breaks, recompiles", "told with counts",
         ("profiles/hooks/model/test_compilation.py::test_a_break_is_told_with_its_line_and_reason",
          "profiles/hooks/model/test_compilation.py::test_compilations_after_the_first_steps_are_recompilations")),
    Case("F59", "wrong loss", "`drifts`, never best",
         ("tuners/comparing/test_gate.py::test_a_loss_that_is_one_percent_too_large_is_caught_in_every_class",)),
    Case("F60", "a loss that is no number", "`non_finite`, never told",
         (f"{STUDIES}test_a_loss_that_is_no_number_is_a_failure_and_optuna_is_told_no_value",
          "storage/test_store.py::test_only_finite_values_are_kept_for_optuna")),
    Case("F61", "the target is edited before resuming", "refused, digests",
         (f"{STUDIES}test_a_changed_target_or_space_is_no_continuation",)),
    Case("F62", "space or objective changed", "refused, listed",
         (f"{STUDIES}test_a_changed_target_or_space_is_no_continuation",
          "storage/test_contract.py::test_each_change_is_named_with_what_was_and_what_is")),
    Case("F63", "machine or torch changed", "refused",
         ("storage/test_contract.py::test_each_change_is_named_with_what_was_and_what_is",)),
    Case("F64", "200 MB of output, a line of 50 MB", "capped, no memory",
         ("tuners/supervision/test_logs.py::test_two_hundred_megabytes_with_a_line_of_fifty_need_no_memory",)),
    Case("F65", "outcome truncated, garbage, 1 GB", "bounded, `internal`",
         (f"{STUDIES}test_an_outcome_that_cannot_be_read_is_told_as_our_fault",
          f"{STUDIES}test_an_outcome_that_is_none_is_not_read_as_one",
          f"{STUDIES}test_of_an_outcome_of_a_gigabyte_little_is_read")),
    Case("F66", "RLIMIT_NOFILE=16, RLIMIT_NPROC=1", "the limit and ulimit are named",
         (f"{STUDIES}test_too_few_open_files_are_named_with_the_command_that_allows_more",
          f"{LIMITS}test_too_few_processes_are_named_with_the_command_that_allows_more")),
    Case("F67", "fork bomb in a cgroup of 60 processes", "trial killed, tuner alive",
         (f"{LIMITS}test_a_fork_bomb_ends_with_its_trial_and_the_next_one_runs",)),
    Case("F68", "a process that no signal ends", "bounded wait, told; the run ends, the rest is kept",
         (f"{ONE}test_what_no_signal_ends_is_waited_for_within_bounds",
          f"{STUDIES}test_where_a_trial_cannot_be_ended_nothing_more_is_measured_and_the_rest_is_kept")),
    Case("F69", "the port is taken", "several machines: another one, at most three tries; else cannot be",
         ("tuners/launching/test_exec_launch.py::test_a_port_that_is_taken_is_another_one_at_the_next_try",),
         reason="ranks of one machine meet in a file, no port is opened"),
    Case("F71", "no network", "no request is made",
         ("report/test_report_page.py::test_nothing_is_requested_from_elsewhere",)),
    Case("F72", "a rule raises", "state `error`, report whole",
         ("advice/test_advise.py::test_a_rule_that_fails_costs_its_own_finding_alone",),
         reason="rules of third parties are not loaded, and ours do not wait"),
)  # fmt: skip
