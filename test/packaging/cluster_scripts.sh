# The scripts of docs/cluster: checked by shellcheck, and run with stand-ins for Slurm's commands. cluster_scripts.sh BUILD SOURCE
set -u
export OMP_WAIT_POLICY=passive CUSIGHT_DEVICE=cpu
. "$(dirname "$0")/../programs/support.sh"
scripts=$source/docs/cluster
for script in "$scripts"/*; do
    bash -n "$script" || fail "$script: syntax"
done
if command -v shellcheck >/dev/null; then
    shellcheck "$scripts"/* || fail "shellcheck"
fi
[ -x "$bin/cusight-events" ] || { [ $failed = 0 ] || exit 1; echo "skipped: cusight-events was not built"; exit 77; }
mkdir bin
# Slurm's commands, at once and on this machine.
cat >bin/srun <<'END'
#!/bin/bash
while [[ $1 == --* ]]; do shift; done
exec "$@"
END
cat >bin/sbatch <<'END'
#!/bin/bash
tasks=
while [[ $1 == --* ]]; do
    [[ $1 != --array=1-* ]] || tasks=${1#--array=1-}
    shift
done
script=$1
shift
if [ -z "$tasks" ]; then
    SLURM_CPUS_PER_TASK=2 bash "$script" "$@" >>log.txt 2>&1 || exit
else
    for i in $(seq "$tasks"); do
        SLURM_CPUS_PER_TASK=2 SLURM_ARRAY_TASK_ID=$i SLURM_ARRAY_TASK_COUNT=$tasks SLURM_ARRAY_TASK_MIN=1 \
            SLURM_ARRAY_TASK_STEP=1 bash "$script" "$@" >>log.txt 2>&1 || exit
    done
fi
echo 17
END
chmod +x bin/*
export PATH=$work/bin:$bin:$PATH
awk 'BEGIN { print "160 120"; t = 0; srand(3)
    for (i = 0; i < 20000; ++i) { t += int(rand() * 12); print t, int(rand() * 160), int(rand() * 120), int(rand() * 2) } }' >r.txt
cusight-events r.txt --headless --device cpu --events-per-frame 1100 --output whole.h5 >/dev/null 2>&1
if [ -s whole.h5 ]; then
    "$scripts/submit-array" 4 r.txt frames.h5 --events-per-frame 1100 >out.txt || fail "submit-array: $(cat out.txt log.txt)"
    grep -q "array 17, then merge 17: frames.h5" out.txt || fail "submit-array says: $(cat out.txt)"
    cmp whole.h5 frames.h5 || fail "submit-array: another file"
    [ ! -e frames.h5.parts ] || fail "submit-array: parts are left"
fi
exit $failed
