"""Studies in a database: ours and Optuna's tables, one writer a study."""
