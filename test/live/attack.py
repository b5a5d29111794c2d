#!/usr/bin/env python3
"""Attacks a running `cusight-diffstream send` with connections that say nothing, while viewers come in.

    test/live/attack.py PORT [--rate 250] [--viewers 25] [--seconds 10] [--kind silent] [--cert C --cert-key K --ca A]

For `--seconds` it opens `--rate` connections per second and holds each until the sender closes it. Meanwhile `--viewers` viewers
arrive, evenly spread; each connects (with TLS if --cert is given), says hello and waits for its first frame, tries again as
`cusight-diffstream view` does, and stays. Prints how many got in and exits with 1 unless all did.

--kind   silent: sends nothing. partial: sends the first bytes of a valid beginning and stops. mixed: both.
"""
import argparse
import resource
import selectors
import socket
import ssl
import struct
import sys
import threading
import time

HEADER = struct.Struct("<4sHBBIIQQIIB3sI")
KEY_FRAME = 2


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def message(kind):
    body = HEADER.pack(b"CUSD", 1, kind, 0, 0, 0, 0, 0, 0, 0, 0, b"\0\0\0", 0)[:44]
    return body + struct.pack("<I", crc32c(body))


HELLO = message(1)


def read_exactly(connection, size):
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionError("closed")
        data += piece
    return data


def first_frame(connection):
    """Says hello and returns once the key frame is here."""
    connection.sendall(HELLO)
    while True:
        fields = HEADER.unpack(read_exactly(connection, HEADER.size))
        read_exactly(connection, fields[4])
        if fields[2] == KEY_FRAME:
            return


class Viewer(threading.Thread):
    def __init__(self, options, context):
        super().__init__(daemon=True)
        self.options, self.context = options, context
        self.attempts, self.took, self.why, self.connection = 0, None, "", None

    def attempt(self):
        connection = socket.create_connection(("127.0.0.1", self.options.port), timeout=5,
                                              source_address=(self.options.viewers_from, 0))
        if self.context:
            connection = self.context.wrap_socket(connection)
        first_frame(connection)
        self.connection = connection

    def run(self):
        start, pause = time.monotonic(), 0.1
        while time.monotonic() - start < self.options.patience:
            self.attempts += 1
            try:
                self.attempt()
                self.took = time.monotonic() - start
                break
            except OSError as error:
                self.why = str(error)
                time.sleep(pause)
                pause = min(2 * pause, 2)
        while self.connection:  # stays, and reads what comes
            try:
                if not self.connection.recv(1 << 16):
                    break
            except OSError:
                break


class Flood(threading.Thread):
    def __init__(self, options):
        super().__init__(daemon=True)
        self.options, self.opened, self.closed, self.most = options, 0, 0, 0
        self.stop = False

    def run(self):
        beginning = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" if self.options.cert else HELLO[:20]
        held = selectors.DefaultSelector()
        due = time.monotonic()
        while not self.stop:
            now = time.monotonic()
            while due <= now:
                due += 1 / self.options.rate
                s = socket.socket()
                s.setblocking(False)
                try:
                    s.bind((self.options.flood_from, 0))
                    s.connect_ex(("127.0.0.1", self.options.port))
                except OSError:
                    s.close()
                    continue
                self.opened += 1
                talks = self.options.kind == "partial" or (self.options.kind == "mixed" and self.opened % 2)
                held.register(s, selectors.EVENT_READ | (selectors.EVENT_WRITE if talks else 0))
            for key, events in held.select(max(0, min(due - time.monotonic(), 0.05))):
                try:
                    if events & selectors.EVENT_WRITE:
                        key.fileobj.send(beginning)
                        held.modify(key.fileobj, selectors.EVENT_READ)
                        continue
                    if key.fileobj.recv(4096):
                        continue
                except BlockingIOError:
                    continue
                except OSError:
                    pass
                held.unregister(key.fileobj)
                key.fileobj.close()
                self.closed += 1
            self.most = max(self.most, len(held.get_map()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int)
    parser.add_argument("--rate", type=float, default=250)
    parser.add_argument("--viewers", type=int, default=25)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--patience", type=float, default=10, help="seconds that a viewer keeps trying")
    parser.add_argument("--kind", choices=("silent", "partial", "mixed"), default="silent")
    parser.add_argument("--flood-from", default="127.0.0.1", help="address of the attacker")
    parser.add_argument("--viewers-from", default="127.0.0.1", help="address of the viewers")
    parser.add_argument("--cert")
    parser.add_argument("--cert-key")
    parser.add_argument("--ca")
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    context = None
    if options.cert:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.load_cert_chain(options.cert, options.cert_key)
        context.load_verify_locations(options.ca)

    flood = Flood(options)
    if options.rate > 0:
        flood.start()
    time.sleep(min(1, options.seconds / 4))  # the attack is under way when the first viewer comes
    viewers = [Viewer(options, context) for _ in range(options.viewers)]
    start = time.monotonic()
    for i, viewer in enumerate(viewers):
        time.sleep(max(0, start + i * options.seconds * 0.5 / options.viewers - time.monotonic()))
        viewer.start()
    end = start + max(options.seconds * 0.75, options.patience)
    while time.monotonic() < end and any(v.took is None and v.is_alive() for v in viewers):
        time.sleep(0.05)
    while time.monotonic() < start + options.seconds * 0.75:
        time.sleep(0.05)
    flood.stop = True
    took = sorted(v.took for v in viewers if v.took is not None)
    attempts = sum(v.attempts for v in viewers if v.took is not None)
    print(f"{flood.opened} connections opened against the sender, {flood.closed} closed by it, at most {flood.most} at once")
    print(f"{len(took)} of {len(viewers)} viewers got in, in {attempts} attempts"
          + (f"; median {took[len(took) // 2]:.3f} s, slowest {took[-1]:.3f} s" if took else ""))
    for why in sorted({v.why for v in viewers if v.took is None}):
        print(f"kept out: {why}")
    return len(took) != len(viewers)


if __name__ == "__main__":
    sys.exit(main())
