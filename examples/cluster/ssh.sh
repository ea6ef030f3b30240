#!/bin/bash
# One worker on each host of a list: ./ssh.sh train host1 host2 host3
# Every host has the project at the same place and advisor in its environment; the password is in its ~/.pgpass.
set -euo pipefail

study=$1
shift
storage="postgresql://advisor_worker@db.lab/studies?sslmode=verify-full"
here=$(printf '%q' "$PWD")

for host in "$@"; do
    # -tt: a worker whose connection is lost gets SIGHUP, delivers what it has and ends.
    ssh -tt "$host" "cd $here && exec advisor worker train.py --storage '$storage' --study '$study' --budget 1h" \
        </dev/null >"worker-$host.log" 2>&1 &
done
wait
advisor report "$study" --storage "$storage" --format md
