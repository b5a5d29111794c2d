#!/usr/bin/env python3
"""Attacks a running `cusight-diffstream send` with connections that say nothing, while viewers come in.

    test/live/attack.py PORT [--rate 250] [--viewers 25] [--seconds 10] [--kind silent] [--cert C --cert-key K --ca A]
                        [--web [--token T]]

For `--seconds` it opens `--rate` connections per second and holds each until the sender closes it. Meanwhile `--viewers` viewers
arrive, evenly spread; each connects (with TLS if --ca is given, as a browser's page does with --web), says hello and waits for its first frame, tries again as
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


class WebConnection:
    """A viewer in a browser, as a socket: the stream in a WebSocket (RFC 6455)."""
    MASK = b"\x11\x22\x33\x44"
    ACKNOWLEDGE = 32768  # bytes

    def __init__(self, connection, port, token=None, tls=False):
        self.socket, self.raw, self.left = connection, b"", 0  # received; bytes of the message that are still to come
        self.received = self.acknowledged = 0
        origin = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        connection.sendall((f"GET /live{'?token=' + token if token else ''} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: {origin}\r\n"
                            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                            "Sec-WebSocket-Version: 13\r\n\r\n").encode())
        while b"\r\n\r\n" not in self.raw:
            piece = connection.recv(4096)
            if not piece:
                raise ConnectionError("closed")
            self.raw += piece
        head, self.raw = self.raw.split(b"\r\n\r\n", 1)
        if not head.startswith(b"HTTP/1.1 101 "):
            raise ConnectionError(head.split(b"\r\n")[0].decode())

    def send(self, first, data):
        assert len(data) < 126
        self.socket.sendall(bytes([first, 0x80 | len(data)]) + self.MASK + bytes(b ^ self.MASK[i % 4] for i, b in enumerate(data)))

    def sendall(self, data):
        self.send(0x82, data)

    def payload(self, most):
        """What has come of the stream, up to `most` bytes."""
        if self.left == 0 and len(self.raw) >= 2:
            length = self.raw[1]
            head = {126: 4, 127: 10}.get(length, 2)
            if self.raw[0] != 0x82 or length > 127:
                raise ConnectionError("the sender closed a connection")
            if len(self.raw) >= head:
                self.left = int.from_bytes(self.raw[2:head], "big") if head > 2 else length
                self.raw = self.raw[head:]
        n = min(self.left, len(self.raw), most)
        data, self.raw = self.raw[:n], self.raw[n:]
        self.left -= n
        self.received += n
        if self.received - self.acknowledged >= self.ACKNOWLEDGE:
            self.acknowledged = self.received
            self.send(0x81, str(self.received).encode())
        return data

    def recv(self, most):
        while True:
            data = self.payload(most)
            if data:
                return data
            piece = self.socket.recv(65536)
            if not piece:
                return b""
            self.raw += piece

    def setblocking(self, blocking):
        self.socket.setblocking(blocking)

    def fileno(self):
        return self.socket.fileno()

    def close(self):
        self.socket.close()


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
        if self.options.web:
            connection = WebConnection(connection, self.options.port, self.options.token, self.context is not None)
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
        beginning = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" if self.options.ca else \
            b"GET /live HTTP/1.1\r\nHost: a\r\n" if self.options.web else HELLO[:20]
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
    parser.add_argument("--web", action="store_true", help="viewers come as browsers do")
    parser.add_argument("--token", help="of the page")
    parser.add_argument("--cert")
    parser.add_argument("--cert-key")
    parser.add_argument("--ca")
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    context = None
    if options.ca:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        if options.cert:
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
