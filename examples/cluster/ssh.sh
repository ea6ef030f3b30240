#!/bin/bash
# One worker on each host of a list: ./ssh.sh train host1 host2 host3
# Every host has the project at the same place, `advisor` on the PATH of a command that ssh runs (or write its
# whole path below), the password in ~/.pgpass, and the certificate of the server's authority in
# ~/.postgresql/root.crt. So has this one, for the report.
set -euo pipefail

study=$1
shift
storage="postgresql://advisor_worker@db.lab/studies?sslmode=verify-full"
here=$(printf '%q' "$PWD")

workers=()
for host in "$@"; do
    # -tt: a worker whose connection is lost gets SIGHUP, delivers what it has and ends.
    ssh -tt "$host" "cd $here && exec advisor worker train.py --storage '$storage' --study '$study' --budget 1h --quiet" \
        </dev/null >"worker-$host.log" 2>&1 &
    workers+=("$!")
done
for worker in "${workers[@]}"; do
    wait "$worker" || echo "a worker ended with $?: its worker-HOST.log says why" >&2
done
advisor report "$study" --storage "$storage" --format md
