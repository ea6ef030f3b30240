#!/bin/bash
# Ray over machines that only ssh reaches: `./ssh.sh node1 node2`, run on the machine that shall be the first bench.
# Untried as it stands; tried without ssh: two `ray start` with a token in one network namespace, and `advisor doctor`.
# The same Python and the same paths are needed on each machine (a shared file system, or one container image).
set -e
here=$(hostname --ip-address | cut -d ' ' -f 1)
export RAY_AUTH_MODE=token RAY_worker_niceness=0
RAY_AUTH_TOKEN=$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')
export RAY_AUTH_TOKEN
ray=$(command -v ray)

ray start --head --node-ip-address="$here" --port=6379 --include-dashboard=false
trap 'for node in "$@"; do ssh "$node" "$ray" stop; done; ray stop' EXIT
for node in "$@"; do # the token goes through ssh's input: arguments are for all to see
    ssh "$node" "read -r RAY_AUTH_TOKEN; export RAY_AUTH_TOKEN RAY_AUTH_MODE=token RAY_worker_niceness=0
        $ray start --address=$here:6379" <<< "$RAY_AUTH_TOKEN"
done

advisor doctor --on ray
advisor tune train.py --on ray --budget 1h
