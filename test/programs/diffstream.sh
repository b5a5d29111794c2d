#!/bin/bash
# Runs cusight-diffstream over 127.0.0.1. Arguments: build folder, source folder. Exit code 77: skipped.
# CUSIGHT_TEST_DATA: folder of vtest.avi; without it a synthetic clip is used.
build=$(cd "$1" && pwd)
program=$build/bin/cusight-diffstream
[ -x "$program" ] || { echo "no $program: built without OpenCV, Boost or OpenSSL"; exit 77; }
folder=$(mktemp -d)
export OMP_NUM_THREADS=1 # many processes share the cores here
. "$(dirname "$0")/diffstream_support.sh" || exit 1

# Every frame that NAME saw is the reference of its number, and its last one is the last frame.
saw_the_truth() {
    local wrong
    [ -s "$1.seen" ] || { fail "$1 saw nothing"; return; }
    wrong=$(sort "$1.seen" | comm -23 - truth.sorted | wc -l)
    [ "$wrong" = 0 ] || fail "$1 saw $wrong frames that were not sent"
    [ "$(tail -1 "$1.seen")" = "$(tail -1 truth)" ] || fail "$1 ended with frame $(tail -1 "$1.seen"), not $(tail -1 truth)"
}

echo "-- refusals"
for address in 0.0.0.0:0 "[::]:0"; do
    timeout 20 "$program" send synthetic:64x48@5 --bind $address > refused.out 2> refused.err
    [ $? = 2 ] || fail "$address was not refused"
    says "is beyond loopback: that needs TLS" refused.err
done
timeout 20 "$program" view 192.0.2.1:7878 --headless > refused.out 2> refused.err
[ $? = 2 ] || fail "a viewer goes beyond loopback without TLS"
timeout 20 "$program" view 127.0.0.1:1 --headless --reconnect 0.5 > refused.out 2> refused.err
[ $? = 3 ] || fail "a viewer without a sender did not end with 3"
says "Connection refused" refused.err

echo "-- eight viewers, a late one, one that stops for 5 s, one that is killed and comes back"
clip=$CUSIGHT_TEST_DATA/vtest.avi
[ -f "$clip" ] || clip=synthetic:768x576@500
start_sender crowd "$clip" --fps 40 --min-viewers 10 --frame-checksums truth
first_port=$port
viewers=()
for i in 1 2 3 4 5 6 7 8; do start_viewer crowd$i; viewers+=("$viewer"); done
start_viewer stopped; stopped=$viewer
start_viewer killed; killed=$viewer
timeout 20 "$program" send synthetic:64x48@5 --bind 127.0.0.1:$first_port > taken.out 2> taken.err
[ $? = 1 ] || fail "a port in use was not refused"
says "Address already in use" taken.err
# Strangers: another protocol, another version, one that never sends anything. None may disturb the others.
until_ 120 lines truth 50 || fail "the sender does not get to frame 50"
(exec 3<> /dev/tcp/127.0.0.1/$port; printf 'GET / HTTP/1.1\r\nHost: example.org\r\nUser-Agent: stranger/1.0\r\n\r\n' >&3; cat <&3 > /dev/null) &
(exec 3<> /dev/tcp/127.0.0.1/$port; { printf 'CUSD\002\000\001'; head -c 41 /dev/zero; } >&3; cat <&3 > /dev/null) &
(exec 3<> /dev/tcp/127.0.0.1/$port; timeout 12 cat <&3 > /dev/null) &
until_ 120 lines truth 120 || fail "the sender does not get to frame 120"
# Stop the program itself, not only its parent, the `timeout`.
stopped_program=$(pgrep -P $stopped) killed_program=$(pgrep -P $killed)
kill -STOP $stopped_program; kill -9 $killed_program
sleep 5
kill -CONT $stopped_program
until_ 120 lines truth 300 || fail "the sender does not get to frame 300"
start_viewer late; late=$viewer
start_viewer back; back=$viewer
for i in 1 2 3 4 5 6 7 8; do ends ${viewers[$((i - 1))]} 0 "viewer $i"; done
ends $stopped 0 "the stopped viewer"; ends $late 0 "the late viewer"; ends $back 0 "the viewer that came back"
ends $sender 0 "the sender"
sort truth > truth.sorted
for name in crowd1 crowd2 crowd3 crowd4 crowd5 crowd6 crowd7 crowd8 stopped late back; do saw_the_truth $name; done
frames=$(wc -l < truth)
for i in 1 2 3 4 5 6 7 8; do
    [ "$(wc -l < crowd$i.seen)" -ge $((frames * 9 / 10)) ] || fail "viewer $i saw $(wc -l < crowd$i.seen) of $frames frames"
done
head -1 late.seen | awk '{ exit !($1 > 300) }' || fail "the late viewer began with frame $(head -1 late.seen)"
says "speaks another protocol" crowd.err
says "speaks version 2 of the format, this program version 1" crowd.err
says "did not say hello within 5 s" crowd.err
sed -n 's/^/   /; /frames sent\|bytes a frame\|stages/p' crowd.out
cat stopped.out | sed -n 's/^left out/   stopped: left out/p'

echo "-- files beside the stream that cannot be written: the viewers get all, the sender says so once and ends with 4"
# goes_on NAME WHY ARGUMENTS...: of a sender; its viewer gets all frames. With program=, the sender's own.
goes_on() {
    local name=$1 why=$2; shift 2
    start_sender $name synthetic:320x240@400 --fps 200 --min-viewers 1 "$@"
    program=$whole start_viewer $name.viewer; ends $viewer 0 "the viewer of $name"; ends $sender 4 "$name"
    says "the last is number 400" $name.viewer.out
    says "$1: $why; the stream goes on without it" $name.err
    says "cusight-diffstream: $1: $why" $name.err
    [ "$(grep -c "cannot be written" $name.err)" = 2 ] || fail "$name does not say it once, and why it ends: $(cat $name.err)"
}
whole=$program
printf '#!/bin/bash\nulimit -f 4\nexec "%s" "$@"\n' "$program" > limited
chmod +x limited
program=$folder/limited goes_on wire "w.cusd cannot be written: File too large" --save-wire w.cusd
program=$folder/limited goes_on checksums "c.txt cannot be written: File too large" --frame-checksums c.txt
for i in 1 2 3; do # nobody watches
    {
        timeout 60 ./limited send synthetic:320x240@50 --unpaced --bind 127.0.0.1:0 --save-wire w.cusd 2>&1 > /dev/null
        echo "ended with $?"
    } | cat > unpaced.err
    says "ended with 4" unpaced.err
    says "w.cusd cannot be written: File too large" unpaced.err
done
[ -z "$(find . -name '*.cusd*')" ] || fail "a session that could not be written is there: $(find . -name '*.cusd*')"

echo "-- sessions that are none"
"$program" send synthetic:64x48@30 --unpaced --bind 127.0.0.1:0 --save-wire good.cusd > good.out 2> good.err || fail "--save-wire: $(cat good.err)"
if "$program" page good.cusd page > page.out 2> page.err; then
    [ -s page/index.html ] && [ -s page/recording.js ] || fail "page writes no page"
    mkfifo pipe.cusd
    : > empty.cusd
    head -c 5000 good.cusd > cut.cusd
    head -c -48 good.cusd > without_bye.cusd
    cat good.cusd good.cusd > twice.cusd
    tail -c +49 good.cusd > headless.cusd
    seq 60000 | gzip -9n | tail -c +20 | head -c 100000 > noise.cusd # the same in each run
    { head -c 6000 good.cusd; printf x; tail -c +6002 good.cusd; } > damaged.cusd
    truncate -s 300M large.cusd
    most=2000000
    ! grep -q '^CUSIGHT_SANITIZE:[A-Z]*=.' "$build/CMakeCache.txt" || most=unlimited # a sanitizer reserves terabytes
    rejected() { # SESSION TEXT
        (ulimit -v $most; exec timeout 20 "$program" page "$1" rejected.page) > rejected.out 2> rejected.err
        local code=$?
        [ $code = 3 ] || fail "page $1 ended with $code: $(cat rejected.err)"
        says "$2" rejected.err
        [ ! -e rejected.page ] || fail "page $1 wrote $(ls -A rejected.page)"
    }
    for session in pipe.cusd /dev/zero /dev/stdin page; do rejected $session "$session: expected a regular file"; done
    for session in cut without_bye; do
        rejected $session.cusd "$session.cusd: expected a session that cusight-diffstream send --save-wire has written; it is not complete"
    done
    rejected empty.cusd "it is not complete, 0 bytes"
    rejected twice.cusd "it goes on after its end"
    for session in headless noise damaged; do rejected $session.cusd "expected a session"; done
    rejected large.cusd "expected at most 268435456 bytes, which browsers can load as a page; it has 314572800"
    rejected nothing.cusd "nothing.cusd: No such file or directory"
else
    says "page is not available" page.err
fi

echo "-- TLS with a shared key"
umask 077 # keys that others can read are refused
od -An -tx1 -N32 /dev/urandom | tr -d ' \n' > right.key
od -An -tx1 -N32 /dev/urandom | tr -d ' \n' > wrong.key
start_sender secret synthetic:160x120@100000 --fps 100 --key right.key --frame-checksums truth
start_viewer stranger --key wrong.key; ends $viewer 1 "a viewer with a wrong key"
says "not authenticated" stranger.err
[ ! -s stranger.seen ] || fail "a wrong key shows frames"
start_viewer plain --reconnect 0.5; ends $viewer 3 "a viewer without TLS"
[ ! -s plain.seen ] || fail "a viewer without a key shows frames"
# An aborted handshake, and data that is not TLS.
(exec 3<> /dev/tcp/127.0.0.1/$port; printf '\026\003\001\002\000\001\000\001\374\003\003' >&3)
(exec 3<> /dev/tcp/127.0.0.1/$port; printf 'CUSD\001\000\001%041d' 0 >&3; timeout 2 cat <&3 > /dev/null)
start_viewer friend --key right.key --frames 50; ends $viewer 0 "a viewer with the key"
lines friend.seen 50 || fail "the key does not show 50 frames"
kill -0 $sender || fail "the sender is gone"
says "not authenticated" secret.err
! grep -q "protocol" secret.err || fail "a message was parsed before authentication"
echo "-- Ctrl-C"
start_viewer watching --key right.key
until_ 120 lines watching.seen 5 || fail "nothing to watch"
kill -INT "$(pgrep -P $sender)"; ends $sender 130 "an interrupted sender"
ends $viewer 0 "the viewer of an interrupted sender"
sort truth > truth.sorted; saw_the_truth watching

if command -v openssl > /dev/null; then
    echo "-- TLS with certificates"
    certificates one other
    start_sender certified synthetic:160x120@100000 --fps 100 --cert one.pem --cert-key one.key --ca one.pem
    start_viewer good --cert one.pem --cert-key one.key --ca one.pem --frames 20; ends $viewer 0 "a certified viewer"
    lines good.seen 20 || fail "certificates do not show 20 frames"
    start_viewer doubtful --cert one.pem --cert-key one.key --ca other.pem --frames 20; ends $viewer 1 "a viewer that does not trust the sender"
    kill -INT "$(pgrep -P $sender)"; ends $sender 130 "the certified sender"
fi

echo "-- a source that changes its size, a sender that comes back, recording"
mkdir sizes
if "$program" demo synthetic:64x48@3 --headless --output sizes/a_%d.png > sizes.out 2>&1 &&
    "$program" demo synthetic:80x48@2 --headless --output sizes/b_%d.png > sizes.out 2>&1; then
    start_sender changing sizes --fps 20 --min-viewers 1
    start_viewer steady; ends $viewer 0 "the viewer of a source that changes its size"
    ends $sender 3 "the sender of a source that changes its size"
    says "frame 4 is 80 x 48" changing.err
    lines steady.seen 3 || fail "the frames before the change were not shown"
else
    fail "the demo does not record: $(cat sizes.out)"
fi
start_sender first synthetic:160x120@100000 --fps 50
start_viewer faithful --reconnect 20
until_ 120 lines faithful.seen 10 || fail "nothing seen of the first sender"
kill -9 "$(pgrep -P $sender)"; wait $sender
timeout 60 "$program" send synthetic:160x120@100 --fps 50 --min-viewers 1 --bind 127.0.0.1:$port --frame-checksums truth > second.out 2> second.err &
sender=$!; started+=("$sender")
ends $viewer 0 "the viewer of a sender that came back"
ends $sender 0 "the second sender"
says "trying again" faithful.err
[ "$(tail -1 faithful.seen)" = "$(tail -1 truth)" ] || fail "the viewer does not follow the second sender"
if [ "$(id -u)" = 0 ] && mkdir small && mount -t tmpfs -o size=300k none small 2> /dev/null; then
    start_sender full synthetic:320x240@150 --fps 100 --min-viewers 2 --frame-checksums truth
    start_viewer unaffected; unaffected=$viewer
    start_viewer full_disk --output small/%04d.png; ends $viewer 4 "a recording on a full disk"
    says "cannot be written" full_disk.err
    ends $unaffected 0 "the other viewer"; ends $sender 0 "the sender"
    sort truth > truth.sorted; saw_the_truth unaffected
    goes_on wire_full_disk "small/w.cusd cannot be written: No space left on device" --save-wire small/w.cusd
    [ -z "$(find small -name '*.cusd')" ] || fail "on the full disk there is still $(find small -name '*.cusd')"
    umount small
else
    echo "   no small file system to fill here: skipped"
fi

[ $failures = 0 ] && echo "all passed"
exit $((failures > 0))
