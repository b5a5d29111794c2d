#!/usr/bin/env python3
"""Loads `cusight-diffstream send` with many viewers for a long time and watches its memory and descriptors.

    test/live/load.py PROGRAM [--viewers 30] [--slow 10] [--seconds 3600] [--size 1280x720] [--fps 30] [--web]

Starts a sender of a generated clip. Of `--viewers` viewers, `--slow` read only a few hundred kilobytes a second, in bursts; one of
them leaves every `--swap` seconds and another comes in its place. Every fast viewer must get every frame: the sequence numbers of its
differences follow each other. Memory and descriptors of the sender are read every second and must not grow after the first
quarter of the run. Prints a summary and exits with 1 if anything is wrong.
"""
import argparse
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import time

from attack import HEADER, HELLO, WebConnection

HELLO_TYPE, KEY_FRAME, DIFFERENCE = 1, 2, 3


class Viewer:
    """Reads messages without decoding them."""

    def __init__(self, port, slow, web):
        self.slow, self.header, self.skip = slow, b"", 0
        self.sequence, self.frames, self.missed, self.bytes, self.key_frames = 0, 0, 0, 0, 0
        self.next_read = 0.0
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        if slow:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        if web:
            self.socket = WebConnection(self.socket, port)
        self.socket.sendall(HELLO)
        self.socket.setblocking(False)

    def read(self, most):
        try:
            data = self.socket.recv(most)
        except BlockingIOError:
            return
        if not data:
            raise ConnectionError("the sender closed a connection")
        self.bytes += len(data)
        at = 0
        while at < len(data):
            if self.skip:
                n = min(self.skip, len(data) - at)
                self.skip -= n
                at += n
                continue
            n = min(HEADER.size - len(self.header), len(data) - at)
            self.header += data[at:at + n]
            at += n
            if len(self.header) == HEADER.size:
                self.message(HEADER.unpack(self.header))
                self.header = b""

    def message(self, fields):
        magic, version, kind, self.skip, sequence, base = fields[0], fields[1], fields[2], fields[4], fields[6], fields[7]
        if magic != b"CUSD" or version != 1:
            raise ConnectionError("not a message")
        if kind not in (KEY_FRAME, DIFFERENCE):
            return
        if kind == DIFFERENCE and base != self.sequence:
            raise ConnectionError(f"a difference from frame {base} follows frame {self.sequence}")
        if self.sequence:
            self.missed += sequence - self.sequence - 1
        self.key_frames += kind == KEY_FRAME
        self.frames += 1
        self.sequence = sequence


def resident(pid):
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--viewers", type=int, default=30)
    parser.add_argument("--slow", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--size", default="1280x720")
    parser.add_argument("--fps", type=float, default=30)
    parser.add_argument("--web", action="store_true", help="viewers come as browsers do")
    parser.add_argument("--swap", type=float, default=10, help="seconds between slow viewers that leave")
    options = parser.parse_args()

    sender = subprocess.Popen(
        [options.program, "send", f"synthetic:{options.size}@1000000", "--fps", str(options.fps), "--bind", "127.0.0.1:0"]
        + ["--web", "0"] * options.web, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    port = int(re.match(r"listening on 127\.0\.0\.1:(\d+)", sender.stderr.readline()).group(1))
    if options.web:
        port = int(re.match(r"in a browser: http://127\.0\.0\.1:(\d+)/", sender.stderr.readline()).group(1))
    selector = selectors.DefaultSelector()

    def join(slow):
        viewer = Viewer(port, slow, options.web)
        if not slow:
            selector.register(viewer.socket, selectors.EVENT_READ, viewer)
        return viewer

    fast = [join(False) for _ in range(options.viewers - options.slow)]
    slow = [join(True) for _ in range(options.slow)]
    start = time.monotonic()
    due, swap, samples, joined = start + 1, start + options.swap, [], len(fast) + len(slow)
    missed_by_slow = frames_of_slow = total_bytes = 0
    while time.monotonic() < start + options.seconds:
        for key, _ in selector.select(0.02):
            key.data.read(1 << 20)
        now = time.monotonic()
        for i, viewer in enumerate(slow):
            if now >= viewer.next_read:
                viewer.read(100000)
                viewer.next_read = now + (0.3 if i % 2 else 2.5)
        if now >= swap:
            swap = now + options.swap
            gone = slow.pop(0)
            missed_by_slow, frames_of_slow = missed_by_slow + gone.missed, frames_of_slow + gone.frames
            total_bytes += gone.bytes
            gone.socket.close()
            slow.append(join(True))
            joined += 1
        if now >= due:
            due = now + 1
            samples.append((now - start, resident(sender.pid), descriptors(sender.pid)))
            if sender.poll() is not None:
                break
    sender_usage = open(f"/proc/{sender.pid}/stat").read().rsplit(")", 1)[1].split()
    cpu = (int(sender_usage[11]) + int(sender_usage[12])) / os.sysconf("SC_CLK_TCK")
    sender.send_signal(signal.SIGINT)
    elapsed = time.monotonic() - start
    for viewer in fast + slow:
        viewer.socket.close()
    out, said = sender.communicate(timeout=60)

    problems = []
    if sender.returncode != 130:  # a sanitizer ends it with a code of its own
        problems.append(f"the sender ended with {sender.returncode}: {said[-2000:]}")
    frames = [v.frames for v in fast]
    missed = sum(v.missed for v in fast)
    missed_by_slow += sum(v.missed for v in slow)
    frames_of_slow += sum(v.frames for v in slow)
    total_bytes += sum(v.bytes for v in fast + slow)
    later = [s for s in samples if s[0] > elapsed / 4]
    half = len(later) // 2
    peak = [max(s[1] for s in part) for part in (later[:half], later[half:])]
    # The least: a viewer that comes can be there before the one that left is noticed.
    files = [min(s[2] for s in part) for part in (later[:half], later[half:])]
    if missed:
        problems.append(f"fast viewers missed {missed} frames")
    sent = int(re.search(r"^frames sent: (\d+)", out, re.M).group(1))
    if min(frames) < sent - 2 * options.fps:  # the first ones wait for a key frame, the last are on their way
        problems.append(f"of {sent} frames, fast viewers got {min(frames)} to {max(frames)}")
    if not missed_by_slow or not frames_of_slow:
        problems.append("the slow viewers were not slow")
    if peak[1] > 1.02 * peak[0] + 4:
        problems.append("the sender's memory grows")
    if files[1] > files[0]:
        problems.append("the sender's descriptors grow")
    print(f"{elapsed:.0f} s, {options.size} at {options.fps:g} frames/s, {len(fast)} fast and {len(slow)} slow viewers, {joined} connections")
    print(f"fast: {min(frames)} to {max(frames)} frames each, {missed} missed; slow: {frames_of_slow} frames, {missed_by_slow} coalesced")
    print(f"sent: {total_bytes / 1e6 / elapsed:.1f} MB/s; sender: {100 * cpu / elapsed:.0f} % of a core")
    print(f"sender's memory: at most {peak[0]:.1f} MB in the second, {peak[1]:.1f} MB in the last part; descriptors: {files[0]}, {files[1]}")
    print("".join("   " + line + "\n" for line in out.splitlines() if re.match("frames sent|stages", line)), end="")
    print("over time:", ", ".join(f"{samples[i * (len(samples) - 1) // 10][1]:.0f}" for i in range(11)), "MB")
    for problem in problems:
        print("FAILED:", problem)
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
