-- A database as the first schema made it; PRAGMA journal_mode was wal.
BEGIN TRANSACTION;
CREATE TABLE advisor_comparisons (
	id INTEGER NOT NULL, 
	study VARCHAR(200) NOT NULL, 
	trial INTEGER NOT NULL, 
	kind VARCHAR(50) NOT NULL, 
	data JSON NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(study) REFERENCES advisor_studies (name)
);
INSERT INTO "advisor_comparisons" VALUES(1,'train',1,'screen','{"ratios": [1.3, 1.2]}');
INSERT INTO "advisor_comparisons" VALUES(2,'train',2,'screen','{"ratios": [1.3, 1.2]}');
CREATE TABLE advisor_machines (
	fingerprint VARCHAR(64) NOT NULL, 
	data JSON NOT NULL, 
	PRIMARY KEY (fingerprint)
);
INSERT INTO "advisor_machines" VALUES('8d7b8430ef90651d','{"fingerprint": "8d7b8430ef90651d", "cpus_allowed": 4, "physical_cores": 4, "memory_bytes": 17179869184, "shm_bytes": 1073741824, "cpu_model": "AMD EPYC 9454P 48-Core Processor", "platform": "Linux x86_64", "python": "3.11.9", "torch": "2.13.0+cpu", "torch_default_threads": 4, "cpu_capability": "AVX512", "bf16_speedup": 5.31, "mkldnn": true, "has_compiler": true, "cuda": false, "gpus": [], "governor": null, "disturbed_by": [], "numa_nodes": null, "cpus_online": null, "swap_bytes": null, "available_bytes": null, "driver": null, "caches": []}');
CREATE TABLE advisor_profiles (
	study VARCHAR(200) NOT NULL, 
	kind VARCHAR(50) NOT NULL, 
	data JSON NOT NULL, 
	PRIMARY KEY (study, kind), 
	FOREIGN KEY(study) REFERENCES advisor_studies (name)
);
INSERT INTO "advisor_profiles" VALUES('train','baseline','{"step_ms": 2.0}');
CREATE TABLE advisor_results (
	study VARCHAR(200) NOT NULL, 
	verdict VARCHAR(20) NOT NULL, 
	data JSON NOT NULL, 
	PRIMARY KEY (study), 
	FOREIGN KEY(study) REFERENCES advisor_studies (name)
);
INSERT INTO "advisor_results" VALUES('train','change','{"schema_version": 1, "advisor_version": "0.1.0", "command": ["tune", "train.py", "--budget", "10m", "--", "--epochs", "1"], "created": "2026-11-20T11:12:00+00:00", "target": {"path": "train.py", "kind": "script", "args": ["--epochs", "1"], "digest": "sha256:9b1c", "launches": 31}, "machine": {"fingerprint": "5f0d2a77c1be9e04", "cpus_allowed": 4, "physical_cores": 4, "memory_bytes": 17179869184, "shm_bytes": 1073741824, "cpu_model": "AMD EPYC 9454P 48-Core Processor", "platform": "Linux x86_64", "python": "3.11.9", "torch": "2.13.0+cpu", "torch_default_threads": 4, "cpu_capability": "AVX512", "bf16_speedup": 5.31, "mkldnn": true, "has_compiler": true, "cuda": false, "gpus": [], "governor": null, "disturbed_by": []}, "seed": 0, "profile": {"phases_ms": {"input_wait": 16.2, "transfer": 0.31, "forward": 7.93, "backward": 11.4, "optimizer": 1.62, "communication": 0.0, "sync": 0.42, "other": 0.52}, "periodic_s": {"evaluation": 3.7, "save": 0.41}, "epoch_s": 36.4, "overhead": 0.004, "steps": 0, "summary": "", "phases_after_ms": null, "ranks": [], "recording": null, "operators": [], "memory_bytes": {}, "replays": {}, "replays_refused": {}, "replays_after": {}, "rates": {}, "roofline": {}, "notes": []}, "findings": [], "warnings": ["the program wrote 2 files in its working folder: runs/events.1, last.pt"], "budget": {"seconds": 412.6, "trials": 13, "stopped_by": "converged"}, "study": "train", "objective": "goodput", "min_gain": 0.02, "noise": {"aa_ratio": {"estimate": 1.003, "low": 0.991, "high": 1.015, "quads": 24, "instances": 1, "confidence": 0.99}, "smallest_detectable": 0.018, "contended": false, "thread_collapse": false, "never_stable": 0, "excluded_slots": {"other_load": 3}}, "baseline": {"config": {"num_workers": 0, "prefetch_factor": 2, "persistent_workers": "off", "amp": "off", "execution": "eager", "channels_last": "off", "batch_size": 64}, "step_ms": {"estimate": 38.4, "low": 37.632, "high": 39.168}, "throughput": {"estimate": 1666.7, "low": 1633.366, "high": 1700.034, "unit": "samples/s"}, "peak_bytes": 957349888, "loss": {"first": 2.3041, "last": 1.874, "steps": 20}, "losses": []}, "trials": [{"number": 0, "config": {"num_workers": 0, "prefetch_factor": 2, "persistent_workers": "off", "amp": "off", "execution": "eager", "channels_last": "off", "batch_size": 64}, "process": "own", "stage": "baseline", "state": "complete", "cause": null, "message": "", "marks": [], "applied": [], "refused": {}, "step_ms": {"estimate": 38.4, "low": 37.632, "high": 39.168}, "throughput": {"estimate": 1666.7, "low": 1633.366, "high": 1700.034, "unit": "samples/s"}, "goodput": null, "peak_bytes": 957349888, "loss": null, "losses": [], "ranks": null, "against_baseline": null, "startup_s": null, "compile_s": null, "log": ".advisor/logs/0.log"}, {"number": 1, "config": {"num_workers": 1, "prefetch_factor": 2, "persistent_workers": "off", "amp": "off", "execution": "eager", "channels_last": "off", "batch_size": 64}, "process": "own", "stage": "screen", "state": "complete", "cause": null, "message": "", "marks": [], "applied": [], "refused": {}, "step_ms": {"estimate": 29.31297709923664, "low": 28.726717557251906, "high": 29.899236641221375}, "throughput": {"estimate": 2183.3333333333335, "low": 2139.666666666667, "high": 2227.0, "unit": "samples/s"}, "goodput": null, "peak_bytes": 957349888, "loss": null, "losses": [], "ranks": null, "against_baseline": {"estimate": 1.31, "low": 1.24, "high": 1.38, "quads": 24, "instances": 1, "confidence": 0.99}, "startup_s": null, "compile_s": null, "log": ".advisor/logs/1.log"}, {"number": 2, "config": {"num_workers": 2, "prefetch_factor": 2, "persistent_workers": "off", "amp": "off", "execution": "eager", "channels_last": "off", "batch_size": 64}, "process": "own", "stage": "screen", "state": "complete", "cause": null, "message": "", "marks": [], "applied": [], "refused": {}, "step_ms": {"estimate": 22.068965517241377, "low": 21.62758620689655, "high": 22.510344827586206}, "throughput": {"estimate": 2900.0, "low": 2842.0, "high": 2958.0, "unit": "samples/s"}, "goodput": null, "peak_bytes": 957349888, "loss": null, "losses": [], "ranks": null, "against_baseline": {"estimate": 1.74, "low": 1.66, "high": 1.83, "quads": 24, "instances": 1, "confidence": 0.99}, "startup_s": null, "compile_s": null, "log": ".advisor/logs/2.log"}, {"number": 3, "config": {"num_workers": 4, "prefetch_factor": 2, "persistent_workers": "off", "amp": "off", "execution": "eager", "channels_last": "off", "batch_size": 64}, "process": "own", "stage": "screen", "state": "complete", "cause": null, "message": "", "marks": [], "applied": [], "refused": {}, "step_ms": {"estimate": 22.45614035087719, "low": 22.007017543859646, "high": 22.905263157894737}, "throughput": {"estimate": 2850.0, "low": 2793.0, "high": 2907.0, "unit": "samples/s"}, "goodput": null, "peak_bytes": 957349888, "loss": null, "losses": [], "ranks": null, "against_baseline": {"estimate": 1.71, "low": 1.61, "high": 1.82, "quads": 24, "instances": 1, "confidence": 0.99}, "startup_s": null, "compile_s": null, "log": ".advisor/logs/3.log"}, {"number": 4, "config": {"num_workers": 0, "prefetch_factor": 2, "persistent_workers": "off", "amp": "bf16", "execution": "eager", "channels_last": "off", "batch_size": 64}, "process": "shared", "stage": "screen", "state": "complete", "cause": null, "message": "", "marks": [], "applied": [], "refused": {}, "step_ms": {"estimate": 30.0, "low": 29.4, "high": 30.6}, "throughput": {"estimate": 2133.3333333333335, "low": 2090.666666666667, "high": 2176.0, "unit": "samples/s"}, "goodput": null, "peak_bytes": 957349888, "loss": null, "losses": [], "ranks": null, "against_baseline": {"estimate": 1.28, "low": 1.25, "high": 1.31, "quads": 32, "instances": 1, "confidence": 0.99}, "startup_s": null, "compile_s": null, "log": ".advisor/logs/4.log"}, {"number": 5, "config": {"num_workers": 0, "prefetch_factor": 2, "persistent_workers": "off", "amp": "fp16", "execution": "eager", "channels_last": "off", "batch_size": 64}, "process": "shared", "stage": "screen", "state": "pruned", "cause": null, "message": "", "marks": [], "applied": [], "refused": {}, "step_ms": {"estimate": 54.08450704225352, "low": 53.00281690140845, "high": 55.16619718309859}, "throughput": {"estimate": 1183.3333333333333, "low": 1159.6666666666665, "high": 1207.0, "unit": "samples/s"}, "goodput": null, "peak_bytes": 957349888, "loss": null, "losses": [], "ranks": null, "against_baseline": {"estimate": 0.71, "low": 0.68, "high": 0.74, "quads": 8, "instances": 1, "confidence": 0.99}, "startup_s": null, "compile_s": null, "log": ".advisor/logs/5.log"}, {"number": 6, "config": {"num_workers": 0, "prefetch_factor": 2, "persistent_workers": "off", "amp": "off", "execution": "eager", "channels_last": "on", "batch_size": 64}, "process": "own", "stage": "screen", "state": "complete", "cause": null, "message": "", "marks": [], "applied": [], "refused": {}, "step_ms": {"estimate": 38.32335329341317, "low": 37.55688622754491, "high": 39.08982035928143}, "throughput": {"estimate": 1670.0, "low": 1636.6, "high": 1703.4, "unit": "samples/s"}, "goodput": null, "peak_bytes": 957349888, "loss": null, "losses": [], "ranks": null, "against_baseline": {"estimate": 1.002, "low": 0.987, "high": 1.018, "quads": 16, "instances": 1, "confidence": 0.99}, "startup_s": null, "compile_s": null, "log": ".advisor/logs/6.log"}, {"number": 7, "config": {"num_workers": 0, "prefetch_factor": 2, "persistent_workers": "off", "amp": "off", "execution": "compile", "channels_last": "off", "batch_size": 64}, "process": "own", "stage": "screen", "state": "failed", "cause": "compile_failed", "message": "BackendCompilerFailed: no C++ compiler named ''g++-13'' was found", "marks": [], "applied": [], "refused": {}, "step_ms": null, "throughput": null, "goodput": null, "peak_bytes": null, "loss": null, "losses": [], "ranks": null, "against_baseline": null, "startup_s": null, "compile_s": null, "log": ".advisor/logs/7.log"}, {"number": 8, "config": {"num_workers": 0, "prefetch_factor": 2, "persistent_workers": "off", "amp": "off", "execution": "eager", "channels_last": "off", "batch_size": 1024}, "process": "own", "stage": "screen", "state": "failed", "cause": "oom_host", "message": "cgroup memory limit reached at batch 1024", "marks": [], "applied": [], "refused": {}, "step_ms": null, "throughput": null, "goodput": null, "peak_bytes": 17179869184, "loss": null, "losses": [], "ranks": null, "against_baseline": null, "startup_s": null, "compile_s": null, "log": ".advisor/logs/8.log"}, {"number": 9, "config": {"num_workers": 2, "prefetch_factor": 2, "persistent_workers": "off", "amp": "bf16", "execution": "eager", "channels_last": "off", "batch_size": 64}, "process": "own", "stage": "search", "state": "complete", "cause": null, "message": "", "marks": [], "applied": [], "refused": {}, "step_ms": {"estimate": 17.614678899082566, "low": 17.262385321100915, "high": 17.966972477064218}, "throughput": {"estimate": 3633.333333333334, "low": 3560.666666666667, "high": 3706.000000000001, "unit": "samples/s"}, "goodput": null, "peak_bytes": 957349888, "loss": null, "losses": [], "ranks": null, "against_baseline": {"estimate": 2.18, "low": 2.05, "high": 2.31, "quads": 24, "instances": 1, "confidence": 0.99}, "startup_s": null, "compile_s": null, "log": ".advisor/logs/9.log"}, {"number": 10, "config": {"num_workers": 2, "prefetch_factor": 2, "persistent_workers": "off", "amp": "bf16", "execution": "eager", "channels_last": "off", "batch_size": 64}, "process": "own", "stage": "confirm", "state": "complete", "cause": null, "message": "", "marks": [], "applied": [], "refused": {}, "step_ms": {"estimate": 18.373205741626794, "low": 18.005741626794258, "high": 18.74066985645933}, "throughput": {"estimate": 3483.333333333333, "low": 3413.6666666666665, "high": 3552.9999999999995, "unit": "samples/s"}, "goodput": null, "peak_bytes": 1017118720, "loss": null, "losses": [], "ranks": null, "against_baseline": {"estimate": 2.09, "low": 2.01, "high": 2.17, "quads": 40, "instances": 6, "confidence": 0.99}, "startup_s": null, "compile_s": null, "log": ".advisor/logs/10.log"}, {"number": 11, "config": {"num_workers": 0, "prefetch_factor": 2, "persistent_workers": "off", "amp": "bf16", "execution": "eager", "channels_last": "off", "batch_size": 64}, "process": "own", "stage": "ablate", "state": "complete", "cause": null, "message": "", "marks": [], "applied": [], "refused": {}, "step_ms": {"estimate": 30.236220472440944, "low": 29.631496062992124, "high": 30.840944881889765}, "throughput": {"estimate": 2116.666666666667, "low": 2074.3333333333335, "high": 2159.0000000000005, "unit": "samples/s"}, "goodput": null, "peak_bytes": 957349888, "loss": null, "losses": [], "ranks": null, "against_baseline": {"estimate": 1.27, "low": 1.22, "high": 1.33, "quads": 20, "instances": 6, "confidence": 0.99}, "startup_s": null, "compile_s": null, "log": ".advisor/logs/11.log"}, {"number": 12, "config": {"num_workers": 2, "prefetch_factor": 2, "persistent_workers": "off", "amp": "off", "execution": "eager", "channels_last": "off", "batch_size": 64}, "process": "own", "stage": "ablate", "state": "complete", "cause": null, "message": "", "marks": [], "applied": [], "refused": {}, "step_ms": {"estimate": 22.72189349112426, "low": 22.267455621301774, "high": 23.176331360946744}, "throughput": {"estimate": 2816.6666666666665, "low": 2760.333333333333, "high": 2873.0, "unit": "samples/s"}, "goodput": null, "peak_bytes": 957349888, "loss": null, "losses": [], "ranks": null, "against_baseline": {"estimate": 1.69, "low": 1.62, "high": 1.77, "quads": 20, "instances": 6, "confidence": 0.99}, "startup_s": null, "compile_s": null, "log": ".advisor/logs/12.log"}], "recommendation": {"verdict": "change", "config": {"num_workers": 2, "prefetch_factor": 2, "persistent_workers": "off", "amp": "bf16", "execution": "eager", "channels_last": "off", "batch_size": 64}, "speedup": {"estimate": 2.09, "low": 2.01, "high": 2.17, "quads": 40, "instances": 6, "confidence": 0.99}, "memory_ratio": {"estimate": 1.062, "low": 1.051, "high": 1.073}, "numerics": "within_noise", "numerics_reason": "", "break_even_steps": null, "compile_cold_s": null, "compile_warm_s": null, "cpu_speedup": null, "reason": "", "changes": [{"knob": "num_workers", "from": 0, "to": 2, "semantics": "exact", "contribution": {"estimate": 1.65, "low": 1.55, "high": 1.75, "quads": 20, "instances": 6, "confidence": 0.99}, "numerics": "identical", "snippet": "DataLoader(..., num_workers=2)", "environment": {}}, {"knob": "amp", "from": "off", "to": "bf16", "semantics": "precision", "contribution": {"estimate": 1.24, "low": 1.18, "high": 1.3, "quads": 20, "instances": 6, "confidence": 0.99}, "numerics": "within_noise", "snippet": "with torch.autocast(''cpu'', dtype=torch.bfloat16):\n    loss = criterion(model(x), y)", "environment": {"ONEDNN_DEFAULT_FPMATH_MODE": "BF16"}}], "proposals": [{"knob": "batch_size", "to": 256, "reason": "throughput only, convergence unverified", "measured": {"estimate": 1.46, "low": 1.39, "high": 1.54, "quads": 16, "instances": 2, "confidence": 0.99}, "snippet": "DataLoader(..., batch_size=256)"}]}, "planned": null, "batch": null, "not_tried": [{"knob": "pin_memory", "value": null, "reason": "no accelerator"}, {"knob": "num_workers", "value": 16, "reason": "4 CPUs are allowed; at most four workers for each"}]}');
CREATE TABLE advisor_studies (
	name VARCHAR(200) NOT NULL, 
	created VARCHAR(32) NOT NULL, 
	target TEXT NOT NULL, 
	contract JSON NOT NULL, 
	status VARCHAR(20) NOT NULL, 
	worker JSON, 
	PRIMARY KEY (name)
);
INSERT INTO "advisor_studies" VALUES('train','2026-11-21T23:06:55+00:00','train.py','{"objective": "goodput", "direction": "maximize", "space": [["num_workers", [0, 2]], ["amp", ["off", "bf16"]]], "target": "train.py", "files": {"train.py": "sha256:0000000000000000000000000000000000000000000000000000000000000000"}, "args": [], "fix": {}, "machine": "AMD EPYC 9454P 48-Core Processor, Linux x86_64, 4 CPUs, 16 GiB, no GPU", "machine_fingerprint": "8d7b8430ef90651d", "torch": "2.13.0+cpu", "advisor": "0.1.0", "strategy": "single", "ranks": [1], "seed": 0}','interrupted',NULL);
CREATE TABLE advisor_trials (
	study VARCHAR(200) NOT NULL, 
	number INTEGER NOT NULL, 
	"key" TEXT NOT NULL, 
	finished BOOLEAN NOT NULL, 
	asked INTEGER, 
	value DOUBLE, 
	data JSON NOT NULL, 
	PRIMARY KEY (study, number), 
	FOREIGN KEY(study) REFERENCES advisor_studies (name)
);
INSERT INTO "advisor_trials" VALUES('train',1,'{"num_workers":0}',1,0,0.0,'{"number": 1, "config": {"num_workers": 0}, "process": "own", "stage": "screen", "state": "complete", "cause": null, "message": "", "marks": [], "applied": [], "refused": {}, "step_ms": null, "throughput": null, "goodput": null, "peak_bytes": null, "loss": null, "losses": [], "ranks": null, "against_baseline": {"estimate": 1.3, "low": 1.2, "high": 1.4, "quads": 8, "instances": 2, "confidence": 0.99}, "startup_s": null, "compile_s": null, "log": null}');
INSERT INTO "advisor_trials" VALUES('train',2,'{"num_workers":2}',1,1,0.3,'{"number": 2, "config": {"num_workers": 2}, "process": "own", "stage": "screen", "state": "complete", "cause": null, "message": "", "marks": [], "applied": [], "refused": {}, "step_ms": null, "throughput": null, "goodput": null, "peak_bytes": null, "loss": null, "losses": [], "ranks": null, "against_baseline": {"estimate": 1.3, "low": 1.2, "high": 1.4, "quads": 8, "instances": 2, "confidence": 0.99}, "startup_s": null, "compile_s": null, "log": null}');
INSERT INTO "advisor_trials" VALUES('train',3,'k',0,NULL,NULL,'{"number": 3, "config": {"num_workers": 2, "amp": "bf16"}, "process": "own", "stage": "screen", "state": "failed", "cause": "killed", "message": "the tuner ended during this trial", "marks": [], "applied": [], "refused": {}, "step_ms": null, "throughput": null, "goodput": null, "peak_bytes": null, "loss": null, "losses": [], "ranks": null, "against_baseline": null, "startup_s": null, "compile_s": null, "log": null}');
CREATE TABLE advisor_version (
	schema INTEGER NOT NULL, 
	advisor VARCHAR(50) NOT NULL, 
	PRIMARY KEY (schema)
);
INSERT INTO "advisor_version" VALUES(1,'0.1.0');
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('v3.2.0.a');
CREATE TABLE studies (
	study_id INTEGER NOT NULL, 
	study_name VARCHAR(512) NOT NULL, 
	PRIMARY KEY (study_id)
);
INSERT INTO "studies" VALUES(1,'train');
CREATE TABLE study_directions (
	study_direction_id INTEGER NOT NULL, 
	direction VARCHAR(8) NOT NULL, 
	study_id INTEGER NOT NULL, 
	objective INTEGER NOT NULL, 
	PRIMARY KEY (study_direction_id), 
	UNIQUE (study_id, objective), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
INSERT INTO "study_directions" VALUES(1,'MAXIMIZE',1,0);
CREATE TABLE study_system_attributes (
	study_system_attribute_id INTEGER NOT NULL, 
	study_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (study_system_attribute_id), 
	UNIQUE (study_id, "key"), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
CREATE TABLE study_user_attributes (
	study_user_attribute_id INTEGER NOT NULL, 
	study_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (study_user_attribute_id), 
	UNIQUE (study_id, "key"), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
CREATE TABLE trial_heartbeats (
	trial_heartbeat_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	heartbeat DATETIME NOT NULL, 
	PRIMARY KEY (trial_heartbeat_id), 
	UNIQUE (trial_id), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
CREATE TABLE trial_intermediate_values (
	trial_intermediate_value_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	step INTEGER NOT NULL, 
	intermediate_value FLOAT, 
	intermediate_value_type VARCHAR(7) NOT NULL, 
	PRIMARY KEY (trial_intermediate_value_id), 
	UNIQUE (trial_id, step), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
CREATE TABLE trial_params (
	param_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	param_name VARCHAR(512), 
	param_value FLOAT, 
	distribution_json TEXT, 
	PRIMARY KEY (param_id), 
	UNIQUE (trial_id, param_name), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_params" VALUES(1,1,'num_workers',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": [0, 2]}}');
INSERT INTO "trial_params" VALUES(2,2,'num_workers',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": [0, 2]}}');
CREATE TABLE trial_system_attributes (
	trial_system_attribute_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (trial_system_attribute_id), 
	UNIQUE (trial_id, "key"), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
CREATE TABLE trial_user_attributes (
	trial_user_attribute_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (trial_user_attribute_id), 
	UNIQUE (trial_id, "key"), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
CREATE TABLE trial_values (
	trial_value_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	objective INTEGER NOT NULL, 
	value FLOAT, 
	value_type VARCHAR(7) NOT NULL, 
	PRIMARY KEY (trial_value_id), 
	UNIQUE (trial_id, objective), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_values" VALUES(1,1,0,0.0,'FINITE');
INSERT INTO "trial_values" VALUES(2,2,0,0.3,'FINITE');
CREATE TABLE trials (
	trial_id INTEGER NOT NULL, 
	number INTEGER, 
	study_id INTEGER, 
	state VARCHAR(8) NOT NULL, 
	datetime_start DATETIME, 
	datetime_complete DATETIME, 
	PRIMARY KEY (trial_id), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
INSERT INTO "trials" VALUES(1,0,1,'COMPLETE','2026-11-21 23:06:57.498111','2026-11-21 23:06:57.683500');
INSERT INTO "trials" VALUES(2,1,1,'COMPLETE','2026-11-21 23:06:57.719936','2026-11-21 23:06:57.778998');
CREATE TABLE version_info (
	version_info_id INTEGER NOT NULL, 
	schema_version INTEGER, 
	library_version VARCHAR(256), 
	PRIMARY KEY (version_info_id), 
	CHECK (version_info_id=1)
);
INSERT INTO "version_info" VALUES(1,12,'5.0.0');
CREATE INDEX advisor_comparisons_of_trial ON advisor_comparisons (study, trial);
CREATE UNIQUE INDEX ix_studies_study_name ON studies (study_name);
CREATE INDEX ix_trials_study_id ON trials (study_id);
COMMIT;
