#!/bin/bash
# Eight workers of one study, one per node: sbatch slurm.sh
# Begin the study first, so that its tables are made by a role that may: see docs/cluster.md.
#SBATCH --job-name=advisor
#SBATCH --array=0-7
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --exclusive
#SBATCH --time=01:30:00
#SBATCH --signal=B:TERM@120
set -euo pipefail

# The password is in ~/.pgpass (0600), the certificate of the server's authority in ~/.postgresql/root.crt; all
# nodes share them with the home directory.
export ADVISOR_STORAGE="postgresql://advisor_worker@db.cluster/studies?sslmode=verify-full"

cd "$SLURM_SUBMIT_DIR"
# exec: the signal of --signal goes to advisor itself, which delivers what it has and ends with 143.
exec advisor worker train.py --study train --budget 80m --quiet -- --data /scratch/data
