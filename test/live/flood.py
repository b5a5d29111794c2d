#!/usr/bin/env python3
"""Floods the page's endpoint of a running `cusight-diffstream send --web`.

    test/live/flood.py PORT PID pings|texts|empty [--seconds 3]     from pages, which come back when they are dropped
    test/live/flood.py PORT PID guesses --token T [--seconds 3]     wrong tokens; the right one from here and from another address

The first three exit with 1 if the sender, process PID, then takes more than 10 % of a core, or 0.3 of what a loop that spins gets. The last
exits with 1 if more tokens are looked at than a burst of 10 and one a second, or if the right token does not get in: at once from another
address, within 20 s from the same one while somebody guesses twice a second.
"""
import argparse
import os
import socket
import subprocess
import sys
import threading
import time

from attack import WebConnection


def used(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def connect(port, token=None, source="127.0.0.1"):
    return WebConnection(socket.create_connection(("127.0.0.1", port), timeout=5, source_address=(source, 0)), port, token)


FRAMES = {"pings": b"\x89\x84" + WebConnection.MASK + b"ping", "texts": b"\x81\x81" + WebConnection.MASK + bytes([ord("0") ^ WebConnection.MASK[0]]),
          "empty": b"\x00\x80" + WebConnection.MASK}


def flood(port, kind, end, counts):
    while time.monotonic() < end:
        try:
            page = connect(port)
            counts["connections"] += 1
            if kind == "empty":
                page.socket.sendall(b"\x02\x81" + WebConnection.MASK + b"a")  # a message whose pieces follow
            while time.monotonic() < end:
                page.socket.sendall(FRAMES[kind] * 500)
                counts["frames"] += 500
                page.socket.setblocking(False)
                try:
                    while page.socket.recv(1 << 16):
                        pass
                    break
                except BlockingIOError:
                    page.socket.setblocking(True)
        except OSError:
            time.sleep(0.1)


def measure_flood(options):
    # On a busy machine a loop that spins gets little of a core too: compare with one.
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as spinning:
        processes = options.pid, spinning.pid

        def share(seconds):
            start, before = time.monotonic(), [used(p) for p in processes]
            time.sleep(seconds)
            return [(used(p) - b) / (time.monotonic() - start) for p, b in zip(processes, before)]
        idle, _ = share(1)
        counts = {"connections": 0, "frames": 0}
        thread = threading.Thread(target=flood, args=(options.port, options.kind, time.monotonic() + options.seconds, counts))
        thread.start()
        busy, spin = share(options.seconds - 0.2)
        thread.join()
        spinning.kill()
    print(f"{options.kind}: {counts['frames']} in {counts['connections']} connections; the sender takes {100 * busy:.0f} % of a core, "
          f"{100 * idle:.0f} % without; a loop that spins gets {100 * spin:.0f} %")
    return counts["connections"] > 0 and busy - idle < min(0.1, 0.3 * spin)


def answer(port, token, source="127.0.0.1"):
    try:
        connect(port, token, source).close()
        return "101"
    except ConnectionError as error:
        return (str(error).split() + [""])[1]


def guess(options):
    start, answers = time.monotonic(), []
    while time.monotonic() - start < options.seconds:
        answers.append(answer(options.port, "0123456789abcdef" + str(len(answers))))
    took = time.monotonic() - start
    looked_at, ignored = answers.count("403"), answers.count("429")
    other = answer(options.port, options.token, "127.0.0.2")
    attempts = 0
    while attempts < 40 and answer(options.port, options.token) != "101":
        attempts += 1
        answer(options.port, "0123456789abcdef")
        time.sleep(0.5)
    print(f"guesses: {looked_at} of {len(answers)} were looked at in {took:.1f} s, {ignored} not; the right token gets {other} from another "
          f"address, and in after {attempts} more guesses from the same one")
    return ignored > 0 and looked_at <= 11 + took and looked_at + ignored == len(answers) and other == "101" and attempts < 40


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("pid", type=int)
    parser.add_argument("kind", choices=[*FRAMES, "guesses"])
    parser.add_argument("--token")
    parser.add_argument("--seconds", type=float, default=3)
    options = parser.parse_args()
    return 0 if (guess if options.kind == "guesses" else measure_flood)(options) else 1


if __name__ == "__main__":
    sys.exit(main())
