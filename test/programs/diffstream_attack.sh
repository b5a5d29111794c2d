#!/bin/bash
# Attacks the sender of cusight-diffstream from outside: connections that say nothing, a log that nobody reads, no file descriptors
# left, viewers with wrong certificates, pages that flood it. Arguments: build folder, source folder. Exit code 77: skipped.
# ATTACK_SECONDS: how long each flood lasts, by default 3.
build=$(cd "$1" && pwd)
source=$(cd "$2" && pwd)
program=${ATTACK_PROGRAM:-$build/bin/cusight-diffstream}
[ -x "$program" ] || { echo "no $program: built without OpenCV, Boost or OpenSSL"; exit 77; }
folder=$(mktemp -d)
export OMP_NUM_THREADS=1
seconds=${ATTACK_SECONDS:-3}
. "$(dirname "$0")/diffstream_support.sh" || exit 1

# attack NAME ARGUMENTS_OF_LIVE_ATTACK...: while a good viewer watches, which must get every frame.
attack() {
    local name=$1; shift
    python3 "$source/test/live/attack.py" "$port" --seconds "$seconds" "$@" > $name.attack || fail "$name: viewers are kept out"
    sed 's/^/   /' $name.attack
    kill -INT "$(pgrep -P $sender)"; ends $sender 130 "the sender"
    ends $good 0 "the good viewer"
    says "left out: 0 coalesced or lost, 1 key frames, 1 connections" good.out
    [ "$(wc -l < $name.err)" -le $((20 * (seconds + 5))) ] || fail "$name: $(wc -l < $name.err) lines in the log"
}

echo "-- 20 silent connections a second, plaintext"
start_sender plain synthetic:160x120@1000000 --fps 25
start_viewer good; good=$viewer
until_ 120 lines good.seen 2 || fail "the good viewer sees nothing"
attack plain --rate 20 --viewers 10

timeout 20 "$program" send synthetic:64x48@1 --bind 127.0.0.1:0 --web 0 > web.out 2> web.err
if grep -q "not available" web.err; then
    echo "   no --web: the page's endpoint is skipped"
else
    echo "-- 20 silent or half-finished connections a second at the page's endpoint"
    start_sender web synthetic:160x120@1000000 --fps 25 --web 0
    start_viewer good; good=$viewer
    until_ 120 lines good.seen 2 || fail "the good viewer sees nothing"
    until_ 120 grep -qs "in a browser" web.err
    port=$(sed -n 's/^in a browser: http:.*:\([0-9]*\)\/$/\1/p' web.err)
    attack web --rate 20 --viewers 10 --kind mixed --web

    echo "-- pages that send pings, texts and empty pieces without end; guesses of the token"
    web_sender() { # NAME ARGUMENTS...: $page is the port of its page
        local name=$1; shift
        start_sender $name synthetic:160x120@1000000 --fps 25 --web 0 "$@"
        until_ 120 grep -qs "in a browser" $name.err || fail "$name serves no page"
        page=$(sed -n 's/^in a browser: http:.*:\([0-9]*\)\/.*/\1/p' $name.err)
    }
    flood() { # KIND ARGUMENTS_OF_LIVE_FLOOD...
        python3 "$source/test/live/flood.py" "$page" "$(pgrep -P $sender)" "$@" --seconds "$seconds" > flood.out || fail "flood of $*"
        sed 's/^/   /' flood.out
    }
    web_sender flooded
    start_viewer good; good=$viewer
    until_ 120 lines good.seen 2 || fail "the good viewer sees nothing"
    for kind in pings texts empty; do flood $kind; done
    says "WebSocket: the page floods the sender with messages" flooded.err
    kill -INT "$(pgrep -P $sender)"; ends $sender 130 "the flooded sender"
    ends $good 0 "the good viewer"
    says "left out: 0 coalesced or lost, 1 key frames, 1 connections" good.out
    web_sender guessed --web-token-file made.token
    [ "$(stat -c %a made.token)" = 600 ] || fail "the token's file has mode $(stat -c %a made.token)"
    flood guesses --token "$(cat made.token)"
    says "too many wrong tokens from its address" guessed.err
    kill -INT "$(pgrep -P $sender)"; ends $sender 130 "the sender whose token was guessed"

    echo "-- the token is in no log"
    ! grep -qF "$(cat made.token)" guessed.err guessed.out || fail "the log has the token"
    says "#token=... (the token is in made.token)" guessed.err
    script -qec "timeout 20 '$program' send synthetic:64x48@1 --bind 127.0.0.1:0 --web 0 --web-token-file made.token" terminal > /dev/null < /dev/null
    says "#token=$(cat made.token)" terminal
fi

(umask 077; printf '%064d' 0 > a.key)
if ! command -v openssl > /dev/null; then
    echo "   no openssl: the tests of TLS are skipped"
else
    echo "-- 250 silent connections a second, TLS"
    certificates one other
    one=(--cert one.pem --cert-key one.key --ca one.pem)
    start_sender secret synthetic:160x120@1000000 --fps 25 "${one[@]}"
    start_viewer good "${one[@]}"; good=$viewer
    until_ 120 lines good.seen 2 || fail "the good viewer sees nothing"

    echo "-- a viewer with a certificate of another authority, one without, one with a key instead"
    for who in "other --cert other.pem --cert-key other.key --ca one.pem" "key --key a.key"; do
        set -- $who; name=$1; shift
        began=$SECONDS
        start_viewer $name "$@" --reconnect 60; ends $viewer 1 "viewer '$name'"
        says "not authenticated" $name.err
        ! grep -q "trying again" $name.err || fail "viewer '$name' tries again"
        [ $((SECONDS - began)) -le 50 ] || fail "viewer '$name' took $((SECONDS - began)) s to end"
        [ ! -s $name.seen ] || fail "viewer '$name' sees frames"
    done
    says "other end" other.err
    attack secret --rate 250 --viewers 25 "${one[@]}"

    if ! grep -q "not available" web.err; then
        echo "-- 250 silent connections a second, the page's endpoint with TLS"
        timeout 20 "$program" send synthetic:64x48@1 --bind 127.0.0.1:0 --web 0 --web-cert one.pem --web-cert-key one.key > log.out 2> log.err
        [ $? = 2 ] || fail "a token that only a log would have was not refused"
        says "expected --web-token-file too, since stderr is no terminal" log.err
        echo 0123456789abcdef > token; chmod 600 token
        start_sender page synthetic:160x120@1000000 --fps 25 --web 127.0.0.1:0 --web-cert one.pem --web-cert-key one.key --web-token-file token
        start_viewer good; good=$viewer
        until_ 120 lines good.seen 2 || fail "the good viewer sees nothing"
        until_ 120 grep -qs "in a browser" page.err
        port=$(sed -n 's/^in a browser: https:.*:\([0-9]*\)\/#token=.*/\1/p' page.err)
        attack page --rate 250 --viewers 25 --web --token 0123456789abcdef --ca one.pem
    fi

    echo "-- a key that others can read"
    chmod 640 one.key
    timeout 20 "$program" send synthetic:64x48@1 "${one[@]}" > refused.out 2> refused.err
    [ $? = 2 ] || fail "a certificate's key that others can read was not refused"
    says "--cert-key one.key is open to others (mode 0640)" refused.err
fi

echo "-- a log that nobody reads"
mkfifo log
timeout 300 "$program" send synthetic:160x120@100 --fps 25 --min-viewers 1 --bind 127.0.0.1:0 > unread.out 2> log &
sender=$!; started+=("$sender")
exec 7< log
read -r first <&7
port=${first##*:}
start_viewer good; good=$viewer
until_ 120 lines good.seen 2 || fail "the good viewer sees nothing"
python3 - "$port" << 'PYTHON' || fail "the strangers"
import os, socket, sys
log = os.open("log", os.O_WRONLY | os.O_NONBLOCK)
try:
    while True:
        os.write(log, b"." * 4096)
except BlockingIOError:
    pass
for i in range(100):  # each is worth a line
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as s:
        s.sendall(b"G" * 48)
PYTHON
ends $good 0 "the viewer of a sender whose log is full"
says "the last is number 100" good.out
says "left out: 0 coalesced or lost" good.out
until_ 5 grep -q '^stages' unread.out || fail "the sender whose log is full does not end"
ends $sender 0 "the sender whose log is full"
exec 7<&-

echo "-- no file descriptors left"
(ulimit -n 24; exec timeout 300 "$program" send synthetic:160x120@1000000 --fps 5 --bind 127.0.0.1:0 > few.out 2> few.err) &
sender=$!; started+=("$sender")
until_ 120 grep -qs listening few.err || fail "the sender with few descriptors does not listen"
port=$(sed -n 's/^listening on 127.0.0.1:\([0-9]*\).*/\1/p' few.err)
python3 - "$port" "$(pgrep -P $sender)" "$source/test/live" << 'PYTHON' || fail "a sender without descriptors keeps a core busy, or does not recover"
import os, socket, subprocess, sys, time
sys.path.insert(0, sys.argv[3])
from attack import HELLO, first_frame
port, pid = int(sys.argv[1]), sys.argv[2]
def used(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
viewers = []
for i in range(40):
    viewers.append(socket.create_connection(("127.0.0.1", port)))
    viewers[-1].sendall(HELLO)
time.sleep(1)
# On a busy machine a loop that spins gets little of a core too: compare with one.
spinning = subprocess.Popen([sys.executable, "-c", "while True: pass"])
time.sleep(0.5)
descriptors, start, before = len(os.listdir(f"/proc/{pid}/fd")), time.monotonic(), (used(pid), used(spinning.pid))
time.sleep(3)
share, spin = ((used(p) - b) / (time.monotonic() - start) for p, b in zip((pid, spinning.pid), before))
spinning.kill()
print(f"   {descriptors} descriptors in use, {100 * share:.1f} % of a core; a loop that spins takes {100 * spin:.1f} %")
for v in viewers:
    v.close()
time.sleep(0.5)
with socket.create_connection(("127.0.0.1", port), timeout=10) as s:
    first_frame(s)
sys.exit(descriptors < 24 or share > 0.05 or share > 0.3 * spin)
PYTHON
says "cannot be accepted at present: Too many open files" few.err
kill -INT "$(pgrep -P $sender)"; ends $sender 130 "the sender with few descriptors"

[ $failures = 0 ] && echo "all passed"
exit $((failures > 0))
