"""Headless Chromium and Firefox, driven by WebDriver BiDi. For browser.py; needs python3-websockets."""
import asyncio
import base64
import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import websockets

patience = 1.0  # factor of all time-outs


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


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
            await self.call("session.new", capabilities={"alwaysMatch": {"acceptInsecureCerts": True}})
        await self.call("session.subscribe", events=["network.beforeRequestSent"])

    def new_chromium(self, port, profile):
        # Few processes for the tabs, as a browser of little memory does: 30 processes take longer to start than to decode.
        flags = ["--headless=new", "--renderer-process-limit=2", "--hide-scrollbars", "--no-sandbox", "--disable-dev-shm-usage",
                 f"--user-data-dir={profile}", "--no-first-run",
                 f"--blink-settings=preferredColorScheme={0 if self.dark else 1}"]
        body = {"capabilities": {"alwaysMatch": {"webSocketUrl": True, "acceptInsecureCerts": True, "goog:chromeOptions": {"args": flags}}}}
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
        """The value of a JavaScript expression, or of its promise, through JSON."""
        result = await self.browser.call("script.evaluate", expression=f"(async () => JSON.stringify(await ({expression})))()",
                                         target={"context": self.context}, awaitPromise=True)
        if result["type"] != "success":
            raise RuntimeError(f"{self.browser.name}: {expression}: {result['exceptionDetails']['text']}")
        return json.loads(result["result"]["value"]) if "value" in result["result"] else None

    async def text(self, element):
        return await self.run(f"document.getElementById('{element}').textContent")

    async def key(self, value):
        """Presses and releases a key."""
        await self.browser.call("input.performActions", context=self.context, actions=[
            {"type": "key", "id": "keyboard", "actions": [{"type": "keyDown", "value": value}, {"type": "keyUp", "value": value}]}])

    async def frames(self):
        return await self.run("window.viewer.frames")

    async def screenshot(self, path, width, height):
        await self.browser.call("browsingContext.setViewport", context=self.context, viewport={"width": width, "height": height})
        await asyncio.sleep(0.7)
        data = await self.browser.call("browsingContext.captureScreenshot", context=self.context, origin="document")
        Path(path).write_bytes(base64.b64decode(data["data"]))

    async def close(self):
        await self.browser.call("browsingContext.close", context=self.context)
