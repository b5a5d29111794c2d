#!/usr/bin/env python3
"""Watches `cusight-diffstream send --web` in headless Chromium and Firefox, by WebDriver BiDi.

    test/live/browser.py PROGRAM [--screenshots FOLDER] [--only chromium|firefox] [--tests WORDS] [--patience 1]

Chromium is driven by chromedriver, Firefox by its own remote agent; needs python3-websockets. Prints what is checked and what was
measured; exits with 1 if anything failed, with 77 if there is no browser.
"""
import argparse
import asyncio
import base64
import contextlib
import http.server
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

try:
    import websockets
except ImportError:
    print("python3-websockets is missing: skipped")
    sys.exit(77)

FILES = {"/", "/style.css", "/icon.svg", "/player.js", "/page.js", "/worker.js", "/decoder.wasm", "/live"}
failures = []
patience = 1.0  # factor of all time-outs


def expect(holds, what):
    if not holds:
        failures.append(what)
        print("FAILED:", what)
    return holds


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def checksums(file):
    """The lines of --frame-checksums; the last may not be complete."""
    return {int(number): int(crc, 16) for number, crc in re.findall(r"^(\d+) ([0-9a-f]{8})$", file.read_text(), re.MULTILINE)}


def stop(process):
    """Ends a process that this test has started, with its children."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


async def until(seconds, condition):
    end = time.monotonic() + patience * seconds
    while time.monotonic() < end:
        value = condition()
        if asyncio.iscoroutine(value):
            value = await value
        if value:
            return value
        await asyncio.sleep(0.1)
    return None


# ---- Browsers ----------------------------------------------------------------------------------------------------------------

class Browser:
    """A headless browser; commands are those of WebDriver BiDi."""

    def __init__(self, name, folder, dark=False):
        self.name, self.folder, self.dark = name, Path(folder), dark
        self.number, self.waiting, self.requests = 0, {}, []

    async def start(self):
        port = free_port()
        profile = self.folder / f"profile-{self.name}-{port}"
        profile.mkdir()
        if self.name == "chromium":
            command = ["chromedriver", f"--port={port}"]
        else:
            (profile / "user.js").write_text('user_pref("ui.systemUsesDarkTheme", %d);\n' % self.dark)
            command = ["firefox-esr", "--headless", f"--remote-debugging-port={port}", "--profile", str(profile)]
        log = open(self.folder / f"{self.name}.log", "w")
        self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        address = f"ws://127.0.0.1:{port}/session"
        if self.name == "chromium":
            address = await until(30, lambda: self.new_chromium(port, profile))
        self.socket = None
        end = time.monotonic() + 60 * patience
        while self.socket is None and time.monotonic() < end:
            with contextlib.suppress(OSError, websockets.WebSocketException):
                self.socket = await websockets.connect(address, max_size=None, ping_interval=None)
            await asyncio.sleep(0.1)
        self.listener = asyncio.create_task(self.listen())
        if self.name == "firefox":
            await self.call("session.new", capabilities={})
        await self.call("session.subscribe", events=["network.beforeRequestSent"])

    def new_chromium(self, port, profile):
        flags = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", f"--user-data-dir={profile}", "--no-first-run",
                 f"--blink-settings=preferredColorScheme={0 if self.dark else 1}"]
        body = {"capabilities": {"alwaysMatch": {"webSocketUrl": True, "goog:chromeOptions": {"args": flags}}}}
        request = urllib.request.Request(f"http://127.0.0.1:{port}/session", json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60 * patience) as answer:
                return json.load(answer)["value"]["capabilities"]["webSocketUrl"]
        except OSError:
            return None

    async def listen(self):
        async for text in self.socket:
            message = json.loads(text)
            if message.get("method") == "network.beforeRequestSent":
                self.requests.append(message["params"]["request"]["url"])
            elif message.get("id") in self.waiting:
                self.waiting.pop(message["id"]).set_result(message)

    async def call(self, method, **params):
        self.number += 1
        future = self.waiting[self.number] = asyncio.get_running_loop().create_future()
        await self.socket.send(json.dumps({"id": self.number, "method": method, "params": params}))
        answer = await asyncio.wait_for(future, 60 * patience)
        if answer.get("type") == "error":
            raise RuntimeError(f"{self.name}: {method}: {answer.get('error')}: {answer.get('message')}")
        return answer["result"]

    async def open(self, address):
        tab = Tab(self, (await self.call("browsingContext.create", type="tab"))["context"])
        await tab.go(address)
        return tab

    async def close(self):
        self.listener.cancel()
        with contextlib.suppress(Exception):
            await self.socket.close()
        stop(self.process)


class Tab:
    def __init__(self, browser, context):
        self.browser, self.context = browser, context

    async def go(self, address):
        await self.browser.call("browsingContext.navigate", context=self.context, url=address, wait="complete")

    async def run(self, expression):
        """The value of a JavaScript expression, through JSON."""
        result = await self.browser.call("script.evaluate", expression=f"JSON.stringify({expression})", target={"context": self.context},
                                         awaitPromise=True)
        if result["type"] != "success":
            raise RuntimeError(f"{self.browser.name}: {expression}: {result['exceptionDetails']['text']}")
        return json.loads(result["result"]["value"]) if "value" in result["result"] else None

    async def text(self, element):
        return await self.run(f"document.getElementById('{element}').textContent")

    async def frames(self):
        return await self.run("window.viewer.frames")

    async def screenshot(self, path, width, height):
        await self.browser.call("browsingContext.setViewport", context=self.context, viewport={"width": width, "height": height})
        await asyncio.sleep(0.7)
        data = await self.browser.call("browsingContext.captureScreenshot", context=self.context, origin="document")
        Path(path).write_bytes(base64.b64decode(data["data"]))

    async def close(self):
        await self.browser.call("browsingContext.close", context=self.context)


# ---- Senders -----------------------------------------------------------------------------------------------------------------

class Page:
    """A program that serves a page."""

    def __init__(self, folder, name, *command):
        self.log = Path(folder) / f"{name}.err"
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=open(self.log, "w"), start_new_session=True)
        end = time.monotonic() + 30 * patience
        while "in a browser" not in self.said() and self.process.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        found = re.search(r"in a browser: (\S+)", self.said())
        if not found:
            raise RuntimeError(f"{name} does not listen: {self.said()}")
        self.page = found[1]
        self.port = int(re.search(r":(\d+)/", self.page)[1])

    def said(self):
        return self.log.read_text() if self.log.exists() else ""

    def stop(self):
        stop(self.process)


class Sender(Page):
    """`cusight-diffstream send --web`."""

    def __init__(self, program, folder, name, *arguments, port=0):
        self.truth_file = Path(folder) / f"{name}.truth"
        super().__init__(folder, name, program, "send", *arguments, "--bind", "127.0.0.1:0", "--web", str(port), "--frame-checksums",
                         str(self.truth_file))

    def interrupt(self):
        """Ctrl-C, which lets the viewers have what is on its way."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60 * patience)

    def truth(self):
        if not self.truth_file.exists():
            return {}
        return checksums(self.truth_file)


def check_frames(frames, truth, who, least):
    wrong = [number for number, crc in frames if truth.get(number) != crc]
    expect(not wrong, f"{who}: {len(wrong)} of {len(frames)} pictures are not the sender's, the first {wrong[:3]}")
    expect(len(frames) >= least, f"{who}: {len(frames)} pictures, expected at least {least}")
    expect(frames and frames[-1][0] == max(truth), f"{who}: the last picture is {frames[-1:]}, expected {max(truth)}")


# ---- What is tested ----------------------------------------------------------------------------------------------------------

async def exact_and_late(program, folder, browsers):
    """300 pictures bit for bit, a late viewer, requests for nothing but the page's files."""
    sender = Sender(program, folder, "exact", "synthetic:320x240@100000", "--fps", "50", "--min-viewers", str(len(browsers)))
    tabs = [await browser.open(sender.page + "#checksums") for browser in browsers]
    await until(30, lambda: len(sender.truth()) > 100)
    late = [await browser.open(sender.page + "#checksums") for browser in browsers]
    for tab, least in [(tab, 320) for tab in tabs] + [(tab, 60) for tab in late]:
        await until(30, lambda: tab.run(f"window.viewer.frames.length > {least} && window.viewer.exact > 0"))
    sender.interrupt()
    truth = sender.truth()
    for tab in tabs + late:
        await until(10, lambda: tab.run(f"window.viewer.frames.some(f => f[0] === {max(truth)})"))
    for tab in tabs:
        frames = await tab.frames()
        check_frames(frames, truth, tab.browser.name, 300)
        expect((await tab.text("badge")).startswith("exact"), f"{tab.browser.name}: the badge says '{await tab.text('badge')}'")
        expect(await tab.run("window.viewer.painted") > 10, f"{tab.browser.name} paints nothing")
        print(f"   {tab.browser.name}: {len(frames)} pictures equal, '{await tab.text('badge')}'")
    for tab in late:
        frames = await tab.frames()
        check_frames(frames, truth, f"{tab.browser.name}, late", 50)
        expect(frames and frames[0][0] > 100, f"{tab.browser.name}: the late viewer begins with {frames[:1]}")
    own = f"127.0.0.1:{sender.port}"
    for browser in browsers:
        foreign = [url for url in browser.requests if not url.startswith(("about:", "data:", "blob:", "chrome"))
                   and (url.split("/")[2] != own or "/" + url.split("/")[3].split("?")[0].split("#")[0] not in FILES)]
        expect(not foreign, f"{browser.name} requests {foreign[:3]}")
        expect(any(url.endswith("/decoder.wasm") for url in browser.requests), f"{browser.name}: no requests were seen")
    for tab in tabs + late:
        await tab.close()


async def slow_tab(program, folder, browser):
    """1080p: what a picture costs, and a tab that is too busy for 80 frames while another is not."""
    sender = Sender(program, folder, "slow", "synthetic:1920x1080@100000", "--fps", "30", "--min-viewers", "2", "--threshold", "0")
    quick, slow = [await browser.open(sender.page + "#checksums") for _ in range(2)]
    await until(20, lambda: len(sender.truth()) > 10)
    before, start = len(sender.truth()), time.monotonic()
    await asyncio.sleep(1)
    seconds = 80 * (time.monotonic() - start) / max(1, len(sender.truth()) - before)  # of 80 frames, on this machine
    await slow.run(f"post({{kind: 'stall', milliseconds: {1000 * seconds}}}) ?? 0")
    await asyncio.sleep(1.2 * seconds)
    decode, paint = await quick.run("[window.viewer.decodeMs, window.viewer.paintMs]")
    sender.interrupt()
    truth = sender.truth()
    for tab in (quick, slow):
        await until(10, lambda: tab.run(f"window.viewer.frames.some(f => f[0] === {max(truth)})"))
    seen, slow_seen = await quick.frames(), await slow.frames()
    check_frames(seen, truth, f"{browser.name}, quick tab", 60)
    check_frames(slow_seen, truth, f"{browser.name}, slow tab", 10)
    expect(len(slow_seen) < len(seen), f"{browser.name}: the slow tab saw {len(slow_seen)} pictures, the quick one {len(seen)}")
    print(f"   {browser.name}, 1920 x 1080: {decode:.2f} ms to decode a frame with its checksum, {paint:.2f} ms to paint it; "
          f"of {len(truth)} frames the quick tab saw {len(seen)}, the slow one {len(slow_seen)}")
    for tab in (quick, slow):
        await tab.close()


async def lost_connection(program, folder, browser):
    sender = Sender(program, folder, "first", "synthetic:160x120@100000", "--fps", "30")
    tab = await browser.open(sender.page + "#checksums")
    await until(10, lambda: tab.run("window.viewer.frames.length > 10"))
    sender.stop()
    expect(await until(10, lambda: tab.run("document.getElementById('state').textContent.includes('ying again')")), f"{browser.name} does not notice that the sender has gone")
    second = Sender(program, folder, "second", "synthetic:160x120@100000", "--fps", "30", port=sender.port)
    before = len(await tab.frames())
    expect(await until(15, lambda: tab.run(f"window.viewer.frames.length > {before + 10}")), f"{browser.name} does not come back")
    frames, truth = (await tab.frames())[before + 2:], second.truth()
    expect(all(truth.get(number, crc) == crc for number, crc in frames), f"{browser.name}: wrong pictures after a lost connection")
    second.stop()
    await tab.close()


async def many_tabs(program, folder, browser):
    """30 tabs, or 4 for each processor if those are fewer: a browser starts processes for each."""
    count = min(30, 4 * os.cpu_count())
    sender = Sender(program, folder, "many", "synthetic:160x120@100000", "--fps", "20")
    tabs = [await browser.open(sender.page) for _ in range(count)]
    exact = 0
    for tab in tabs:
        exact += bool(await until(20, lambda: tab.run("window.viewer.exact > 0 && window.viewer.broken === null")))
    expect(exact == count, f"{browser.name}: {exact} of {count} tabs are exact")
    for tab in tabs:
        await tab.close()
    sender.stop()
    print(f"   {browser.name}: {count} tabs, {exact} exact")


class Empty(http.server.BaseHTTPRequestHandler):
    """Another site: empty pages."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


async def refusals(program, folder, browser):
    """A wrong token and a wrong origin, from a browser."""
    token = Path(folder) / "token"
    token.write_text("0123456789abcdef0123")
    token.chmod(0o600)
    sender = Sender(program, folder, "secret", "synthetic:64x48@100000", "--fps", "20", "--web-token", str(token))
    plain = sender.page.split("#")[0]
    wrong = await browser.open(plain + "#token=0123456789abcdef0124")
    expect(await until(10, lambda: wrong.run("document.getElementById('state').textContent.includes('refuses')")),
           f"{browser.name}: a wrong token is not refused: {await wrong.text('state')}")
    expect("wrong token" in sender.said(), "the log does not say that a token was wrong")
    right = await browser.open(sender.page)
    expect(await until(10, lambda: right.run("window.viewer.painted > 0")), f"{browser.name}: the right token shows nothing")
    site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Empty)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    stranger = await browser.open(f"http://127.0.0.1:{site.server_port}/")
    opened = await browser.call("script.evaluate", target={"context": stranger.context}, awaitPromise=True, expression=(
        f"new Promise(done => {{ const s = new WebSocket('ws://127.0.0.1:{sender.port}/live?token=0123456789abcdef0123');"
        "s.onopen = () => done(true); s.onerror = () => done(false); })"))
    expect(opened["result"].get("value") is False, f"{browser.name}: another origin may watch")
    expect("the page's origin is" in sender.said(), "the log does not say that an origin was wrong")
    site.shutdown()
    for tab in (wrong, right, stranger):
        await tab.close()
    sender.stop()


async def recorded(program, folder, browser):
    """A session is played without a server."""
    session, page = Path(folder) / "session.cusd", Path(folder) / f"session-{browser.name}"
    truth_file = Path(folder) / "session.truth"
    subprocess.run([program, "send", "synthetic:160x120@120", "--fps", "60", "--bind", "127.0.0.1:0", "--save-wire", session,
                    "--frame-checksums", truth_file], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    subprocess.run([program, "page", session, page], check=True)
    truth = checksums(truth_file)
    tab = await browser.open(f"file://{page}/index.html#checksums")
    expect(await until(20, lambda: tab.run("window.viewer.frames.length >= 120")), f"{browser.name}: the session is not played to its end")
    check_frames(await tab.frames(), truth, f"{browser.name}, recorded", 120)
    expect((await tab.text("badge")) == "exact, checked at frame 100", f"{browser.name}: recorded: '{await tab.text('badge')}'")
    await tab.close()


async def events(program, folder, browser):
    """cusight-events shows frames of events."""
    page = Page(folder, "events-" + browser.name, Path(program).with_name("cusight-events"), "synthetic:160x120@200", "--web", "0",
                "--us-per-frame", "33000")
    tab = await browser.open(page.page)
    expect(await until(20, lambda: tab.run("window.viewer.exact > 0 && window.viewer.painted > 5")), f"{browser.name}: cusight-events shows nothing exact")
    await tab.close()
    page.stop()


async def take_screenshots(program, folder, browser, target):
    clip = Path(os.environ.get("CUSIGHT_TEST_DATA", "")) / "vtest.avi"
    sender = Sender(program, folder, "pictures-" + browser.name + str(browser.dark), str(clip) if clip.is_file() else "synthetic:768x576@100000", "--loop", "--fps", "25")
    tab = await browser.open(sender.page)
    await until(20, lambda: tab.run("window.viewer.exact > 1"))
    theme = "dark" if browser.dark else "light"
    for view in ("picture", "both", "heatmap"):
        await tab.run(f"setView('{view}') ?? 0")
        for size, (width, height) in {"desktop": (1280, 900), "phone": (360, 1150)}.items():
            await tab.screenshot(Path(target) / f"{browser.name}-{theme}-{size}-{view}.png", width, height)
            overflow = await tab.run("document.documentElement.scrollWidth - window.innerWidth")
            expect(overflow <= 0, f"{browser.name}: {view} is {overflow} pixels too wide at {width}")
    sender.stop()
    await tab.close()


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--screenshots")
    parser.add_argument("--only", choices=["chromium", "firefox"])
    parser.add_argument("--tests", default="", help="only those whose names contain this")
    parser.add_argument("--patience", type=float, default=1, help="factor of all time-outs, for a busy machine")
    options = parser.parse_args()
    global patience
    patience = options.patience
    names = [name for name, command in (("chromium", "chromedriver"), ("firefox", "firefox-esr"))
             if shutil.which(command) and options.only in (None, name)]
    if not names:
        print("neither chromedriver nor firefox-esr is here: skipped")
        return 77
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browsers = [Browser(name, folder) for name in names]
        for browser in browsers:
            await browser.start()
        try:
            tests = [("300 pictures, bit for bit, and a late viewer", exact_and_late, [browsers])]
            for browser in browsers:
                tests += [("a session without a server", recorded, [browser]), ("a lost connection", lost_connection, [browser]),
                          ("wrong token, wrong origin", refusals, [browser])]
            tests += [("frames of events", events, browsers[:1]), ("a slow tab at 1080p", slow_tab, browsers[:1]), ("many tabs", many_tabs, browsers[:1])]
            for name, test, arguments in (t for t in tests if options.tests in t[0]):
                start = time.monotonic()
                print("--", name, flush=True)
                try:
                    await test(options.program, folder, *arguments)
                except (RuntimeError, OSError, asyncio.TimeoutError, subprocess.SubprocessError) as error:
                    expect(False, f"{name}: {error!r}")
                print(f"   {time.monotonic() - start:.1f} s", flush=True)
            for browser in browsers if options.screenshots else []:
                await take_screenshots(options.program, folder, browser, options.screenshots)
        finally:
            for browser in browsers:
                await browser.close()
        for name in names if options.screenshots else []:
            browser = Browser(name, folder, dark=True)
            await browser.start()
            try:
                await take_screenshots(options.program, folder, browser, options.screenshots)
            finally:
                await browser.close()
    print("all passed" if not failures else f"{len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
