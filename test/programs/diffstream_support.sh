# What the tests of cusight-diffstream share, sourced with $program and $folder set: processes in the background, waiting, failures.
failures=0
started=()

finish() {
    # Each is a `timeout` whose child is the program.
    for pid in "${started[@]}"; do kill -9 $(pgrep -P "$pid") "$pid" 2> /dev/null; done
    cd /
    rm -rf "$folder"
}
# A background shell that a signal ends before it becomes its program runs the trap, too (bash 5.1).
trap '[ "$BASHPID" != $$ ] || finish' EXIT
trap 'exit 1' INT TERM
cd "$folder" || exit 1

fail() { echo "FAILED: $*"; failures=$((failures + 1)); }

# until_ SECONDS COMMAND...: waits until the command succeeds.
until_() {
    local end=$((SECONDS + $1)); shift
    until "$@"; do [ $SECONDS -lt $end ] || return 1; sleep 0.1; done
}
# says TEXT FILE: fails unless the file contains the text within ten seconds: a thread of its own writes the log.
says() { until_ 10 grep -qsF -- "$1" "$2" || { fail "$2 does not say '$1':"; sed 's/^/    /' "$2" | tail -5; }; }
lines() { [ -f "$1" ] && [ "$(wc -l < "$1")" -ge "$2" ]; }

# start_sender NAME ARGUMENTS...: in the background on a free port, $port.
start_sender() {
    local name=$1; shift
    rm -f "$name.err" # of an earlier one, which says listening too
    timeout 300 "$program" send "$@" --bind 127.0.0.1:0 > "$name.out" 2> "$name.err" &
    sender=$!
    started+=("$sender")
    until_ 120 grep -qs listening "$name.err" || { fail "$name does not listen"; cat "$name.err"; exit 1; }
    port=$(sed -n 's/^listening on 127.0.0.1:\([0-9]*\).*/\1/p' "$name.err")
}

# start_viewer NAME ARGUMENTS...: in the background, of the sender on $port; $viewer.
start_viewer() {
    local name=$1; shift
    rm -f "$name.seen"
    timeout 300 "$program" view 127.0.0.1:$port --headless --frame-checksums "$name.seen" "$@" > "$name.out" 2> "$name.err" &
    viewer=$!
    started+=("$viewer")
}

# certificates NAME...: a key and a certificate, signed by itself, for each.
certificates() {
    for who in "$@"; do
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=$who \
            -addext subjectAltName=IP:127.0.0.1 -keyout $who.key -out $who.pem 2> /dev/null
        chmod 600 $who.key
    done
}

# ends PID CODE WHAT: waits for it, and fails unless that is its exit code.
ends() { wait "$1"; local code=$?; [ $code = "$2" ] || fail "$3 ended with $code, not $2"; }
