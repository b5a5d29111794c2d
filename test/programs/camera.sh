# The bytes of an event camera on the stdin of cusight-events: frames while they come, latency, damage, interrupts; triggers.
# camera.sh BUILD SOURCE
set -u
# shellcheck source=test/programs/support.sh
. "$2/test/programs/support.sh"
need_programs
program=$bin/cusight-events
expect() { runs "$1" "$2" "$program" --device cpu --headless "${@:3}"; } # CODE TEXT ARGUMENT...
run() { "$program" --device cpu --headless "$@" >out.txt 2>err.txt || fail "$* exited with $?: $(cat err.txt)"; }

# 40,000 events of EVT2, EVT2.1 and DAT, with a trigger after each 1000.
python3 - <<'END'
import random, struct
random.seed(7)
events, t = [], 1000
for i in range(40000):
    t += random.randrange(12)
    events.append((t, random.randrange(320), random.randrange(240), random.randrange(2)))
evt2, evt21, dat, table, high = [], [], [], ["t,id,value"], -1
for i, (t, x, y, p) in enumerate(events):
    if t >> 6 != high:
        high = t >> 6
        evt2.append(8 << 28 | high)
        evt21.append((8 << 28 | high) << 32)
    word = (t & 63) << 22
    evt2.append(p << 28 | word | x << 11 | y)
    evt21.append((p << 28 | word | x << 11 | y) << 32 | 1)
    dat.append(t | (p << 28 | y << 14 | x) << 32)
    if i % 1000 == 999:
        evt2.append(10 << 28 | word | 3 << 8 | i // 1000 % 2)
        evt21.append((10 << 28 | word | 3 << 8 | i // 1000 % 2) << 32)
        table.append("%d,3,%d" % (t, i // 1000 % 2))
swapped = [w >> 32 | (w & 0xffffffff) << 32 for w in evt21]
for name, header, code, words in (("evt2", "% evt 2.0\n% geometry 320x240\n% end\n", "I", evt2),
                                  ("evt21", "% evt 2.1\n% geometry 320x240\n", "Q", evt21),
                                  ("legacy", "% format EVT21;endianness=legacy;height=240;width=320\n", "Q", swapped),
                                  ("guessed", "% evt 2.1\n% geometry 320x240\n% end\n", "Q", swapped),
                                  ("dat", "% Data file containing CD events.\n% Version 2\n% Height 240\n% Width 320\n\x0c\x08", "Q", dat),
                                  ("unsized", "% evt 2.0\n% end\n", "I", evt2)):
    open(name + ".raw", "wb").write(header.encode() + struct.pack("<%d%s" % (len(words), code), *words))
open("expected.csv", "w").write("\n".join(table) + "\n")
END

# A pipe gives the frames of the file, also in the smallest pieces and if they are fewer than one; only a pipe has a latency.
for name in evt2 evt21 legacy guessed dat unsized; do
    for how in "--events-per-frame 3000" "--us-per-frame 20000 --keep-incomplete" "--events-per-frame 50000" \
        "--us-per-frame 10000 --range 0.05:0.1" "--events-per-frame 3000 --shard 2/3"; do
        rm -f file.raw pipe.raw
        run $name.raw $how --output file.raw
        ! grep -q "^latency: " out.txt || fail "$name $how: a file has a latency"
        cat $name.raw | run - $how --output pipe.raw
        cmp -s file.raw pipe.raw || fail "$name $how: a pipe gives other frames"
    done
done
for name in evt2 dat; do
    dd if=$name.raw bs=7 2>dd.txt | run - --events-per-frame 3000 --output pipe.raw --json
    "$program" --device cpu --headless $name.raw --events-per-frame 3000 --output file.raw >/dev/null 2>&1
    cmp -s file.raw pipe.raw || fail "$name: small pieces give other frames"
    python3 -c 'import json, sys
o = json.load(open("out.txt"))
l = o["latency_ms"]
sys.exit(not (o["frames"] == 14 and 0 < l["median"] <= l["p99"] <= l["largest"] < 60000))' || fail "$name: $(cat out.txt)"
done
cat evt2.raw | "$program" info - >info.txt 2>&1
grep -q "^input: stdin, EVT2$" info.txt && grep -q "^triggers: 40 (20 rising, 20 falling)$" info.txt || fail "info of a pipe: $(cat info.txt)"

# Triggers, of files and pipes, alone and beside frames.
for name in evt2 evt21 legacy; do
    for input in "$name.raw" -; do
        for how in "" "--events-per-frame 50000 --checksum"; do
            rm -f t.csv events.mp4
            cat $name.raw | run $input $how --triggers t.csv
            cmp -s t.csv expected.csv || fail "--triggers of $input, $name $how: $(head -n 3 t.csv)"
            grep -q "^triggers: 40 in t.csv$" out.txt && [ ! -e events.mp4 ] || fail "--triggers $how says: $(cat out.txt)"
        done
    done
done
run dat.raw --triggers t.csv
[ "$(cat t.csv)" = t,id,value ] || fail "triggers of DAT: $(cat t.csv)"
expect 2 "\-\-triggers is 't.txt'" evt2.raw --triggers t.txt

# Damage: frames before it are made, and the message is that of a file.
size=$(wc -c <evt2.raw)
{ head -c $((size / 8 * 4 + 35)) evt2.raw; printf '\x00\x00\x00\x50'; tail -c 4000 evt2.raw; } >bad.raw
head -c $((size - 2)) evt2.raw >cut.raw
head -c 20 evt2.raw >short.raw
for name in bad cut short; do
    expect 3 "cusight-events: " $name.raw --events-per-frame 3000 --output file.raw
    sed "s/$name.raw/stdin/; s/the file ends/the recording ends/; s/an event of/a word of/" err.txt >file.txt
    cat $name.raw | expect 3 "stdin: " - --events-per-frame 3000 --output pipe.raw
    sed "s/the file ends/the recording ends/; s/an event of/a word of/" err.txt | cmp -s - file.txt || fail "$name: $(cat err.txt) instead of $(cat file.txt)"
    [ $name = short ] || cmp -s file.raw pipe.raw || fail "$name: a damaged pipe gives other frames"
done
cat bad.raw | run - --skip-bad --events-per-frame 3000 --checksum
seq 5000 | gzip -9n | tail -c +20 | head -c 5000 | expect 3 "cusight-events: " - --checksum
printf '%% evt 9.9\n%% end\nabcdefgh' | expect 3 "stdin: encoding is EVT 9.9" - --checksum

# While the pipe is open: frames come as they are complete, also from a GPU if there is one, and Ctrl-C ends it within a second, with what is complete.
cat >live.py <<'END'
import os, signal, subprocess, sys, threading, time
program, stop, device = sys.argv[1], sys.argv[2] == "stop", sys.argv[3]
data = open("evt2.raw", "rb").read()
words = (len(data) - 35) // 4 # after the header
size = 64 * 48 * 2
p = subprocess.Popen([program, "-", "--device", device, "--headless", "--events-per-frame", "2000", "--resize", "64x48", "--output", "-.raw"],
                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=open("live.txt", "w"))
got = bytearray()
def drain():
    while piece := os.read(p.stdout.fileno(), 65536):
        got.extend(piece)
reader = threading.Thread(target=drain)
reader.start()
for percent in range(10, 80, 10):
    p.stdin.write(data[words * (percent - 10) // 100 * 4 + (35 if percent > 10 else 0) : words * percent // 100 * 4 + 35])
    p.stdin.flush()
    expected, end = (40000 * percent // 100 - 100) // 2000, time.monotonic() + 30
    while len(got) < expected * size and time.monotonic() < end:
        time.sleep(0.01)
    assert len(got) >= expected * size, f"at {percent} %: {len(got) / size} frames, expected {expected}"
start = time.monotonic()
if stop:
    p.send_signal(signal.SIGINT)
else:
    p.stdin.close()
p.wait()
reader.join()
took = time.monotonic() - start
assert p.returncode == (130 if stop else 0), p.returncode
assert took < (10 if stop else 30), took # a second, and what a busy machine adds
assert len(got) % size == 0, len(got)
END
for how in stop end; do
    for device in cpu auto; do
        python3 live.py "$program" $how $device >py.txt 2>&1 || fail "live, $how, $device: $(cat py.txt live.txt)"
    done
done

# A still scene: the camera sends only its time, and frames of equal time keep their rate.
cat >still.py <<'END'
import os, struct, subprocess, sys, time
size = 320 * 240 * 2
p = subprocess.Popen([sys.argv[1], "-", "--device", "cpu", "--headless", "--us-per-frame", "10000", "--output", "-.raw", "--json"],
                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=open("still.txt", "w"))
words = [8 << 28 | 10, 1 << 28 | 5 << 11 | 7] # an event at 640 us
words += [8 << 28 | 10 + high for high in range(1, 1600)] # 102 ms
p.stdin.write(b"% evt 2.0\n% geometry 320x240\n% end\n" + struct.pack("<%dI" % len(words), *words))
p.stdin.flush()
got, end = 0, time.monotonic() + 30
os.set_blocking(p.stdout.fileno(), False)
while got < 10 * size and time.monotonic() < end:
    got += len(p.stdout.read() or b"")
    time.sleep(0.01)
assert got == 10 * size, f"{got / size} frames of a still scene, expected 10"
p.stdin.write(struct.pack("<I", 1 << 28 | 63 << 22 | 9 << 11 | 9)) # and moves again
p.stdin.close()
os.set_blocking(p.stdout.fileno(), True)
got += len(p.stdout.read())
assert p.wait() == 0 and got == 11 * size, (p.returncode, got / size)
END
python3 still.py "$program" >py.txt 2>&1 || fail "still: $(cat py.txt still.txt)"
python3 -c 'import json; o = json.loads(open("still.txt").read().splitlines()[-1]); assert o["events"] == 2 and o["frames"] == 11, o' ||
    fail "still: $(cat still.txt)"
finish
