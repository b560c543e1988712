"""Chromium without a window, driven by its DevTools protocol. Needs nothing but the standard library.

`Browser` starts Chromium with a profile of its own and connects to it; `Page` is one tab with its events: what it requested, what
failed, and what it wrote to its console.
"""

import base64
import hashlib
import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import time
import urllib.request

START_S = 60
ANSWER_S = 60


class Trouble(Exception):
    """The browser does not do what it should; the text says what."""


class WebSocket:
    """A client's side of RFC 6455, for whole text messages."""

    def __init__(self, port, path):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=START_S)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        self.bytes = b""
        while b"\r\n\r\n" not in self.bytes:
            self.bytes += self._receive()
        head, self.bytes = self.bytes.split(b"\r\n\r\n", 1)
        wanted = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest())
        if b" 101 " not in head.split(b"\r\n")[0] or wanted not in head:
            raise Trouble(f"no websocket: {head!r}")
        self.socket.settimeout(None)
        self.writing = threading.Lock()

    def _receive(self):
        got = self.socket.recv(1 << 16)
        if not got:
            raise EOFError
        return got

    def _take(self, length):
        while len(self.bytes) < length:
            self.bytes += self._receive()
        taken, self.bytes = self.bytes[:length], self.bytes[length:]
        return taken

    def send(self, text, opcode=1):
        payload = text.encode() if isinstance(text, str) else text
        mask = os.urandom(4)
        length = len(payload)
        if length < 126:
            head = struct.pack("!BB", 0x80 | opcode, 0x80 | length)
        elif length < 1 << 16:
            head = struct.pack("!BBH", 0x80 | opcode, 0x80 | 126, length)
        else:
            head = struct.pack("!BBQ", 0x80 | opcode, 0x80 | 127, length)
        masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))
        with self.writing:
            self.socket.sendall(head + mask + masked)

    def receive(self):
        """The next whole message."""
        message = b""
        while True:
            first, second = self._take(2)
            length = second & 0x7F
            if length == 126:
                (length,) = struct.unpack("!H", self._take(2))
            elif length == 127:
                (length,) = struct.unpack("!Q", self._take(8))
            payload = self._take(length)
            opcode = first & 0x0F
            if opcode == 8:
                raise EOFError
            if opcode == 9:
                self.send(payload, 10)
            elif opcode in (0, 1, 2):
                message += payload
                if first & 0x80:
                    return message.decode()

    def close(self):
        self.socket.close()


def find_chromium():
    """The path of Chromium or Chrome."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    raise Trouble("there is no chromium; Debian: apt-get install chromium")


class Browser:
    """A running Chromium; a context manager, which ends it."""

    def __enter__(self):
        self.profile = tempfile.mkdtemp(prefix="page-chromium-")
        self.log = open(os.path.join(self.profile, "log"), "wb")
        arguments = [find_chromium(), "--headless=new", "--remote-debugging-port=0", f"--user-data-dir={self.profile}",
                     "--no-first-run", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                     "--disable-background-networking", "--disable-component-update", "--disable-features=LocalNetworkAccessChecks", "--no-proxy-server", "about:blank"]
        self.process = subprocess.Popen(arguments, stdout=self.log, stderr=self.log)
        try:
            self.port = self._port()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _port(self):
        path = os.path.join(self.profile, "DevToolsActivePort")
        end = time.monotonic() + START_S
        while time.monotonic() < end and self.process.poll() is None:
            if os.path.exists(path):
                with open(path, encoding="ascii") as file:
                    lines = file.read().split()
                if lines:
                    return int(lines[0])
            time.sleep(0.1)
        with open(self.log.name, encoding="utf-8", errors="replace") as file:
            raise Trouble(f"chromium has not started: {file.read()[-2000:]}")

    def page(self):
        """A new tab."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/json/new?about:blank", method="PUT")
        with urllib.request.urlopen(request, timeout=START_S) as answer:
            target = json.load(answer)
        return Page(self.port, target["id"])

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        shutil.rmtree(self.profile, ignore_errors=True)


class Page:
    """A tab."""

    def __init__(self, port, target):
        self.socket = WebSocket(port, f"/devtools/page/{target}")
        self.changed = threading.Condition()
        self.answers = {}
        self.number = 0
        self.is_closed = False
        self.requests = []  # (URL, method)
        self.failures = []  # texts
        self.url_of = {}
        threading.Thread(target=self._read, daemon=True).start()
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def _read(self):
        try:
            while True:
                message = json.loads(self.socket.receive())
                with self.changed:
                    if "id" in message:
                        self.answers[message["id"]] = message
                    else:
                        self._event(message["method"], message["params"])
                    self.changed.notify_all()
        except (EOFError, OSError):
            with self.changed:
                self.is_closed = True
                self.changed.notify_all()

    def _event(self, method, params):
        if method == "Network.requestWillBeSent":
            self.url_of[params["requestId"]] = params["request"]["url"]
            self.requests.append((params["request"]["url"], params["request"]["method"]))
        elif method == "Network.responseReceived" and params["response"]["status"] >= 400:
            self.failures.append(f"{params['response']['url']}: {params['response']['status']}")
        elif method == "Network.loadingFailed" and not params.get("canceled"):
            self.failures.append(f"{self.url_of.get(params['requestId'])}: {params['errorText']}")
        elif method == "Runtime.exceptionThrown":
            self.failures.append(f"exception: {json.dumps(params['exceptionDetails'])[:1000]}")
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.failures.append(f"console.{params['type']}: {json.dumps(params['args'])[:1000]}")
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.failures.append(f"log: {params['entry']['text']} {params['entry'].get('url', '')}")

    def call(self, method, **params):
        """Sends a command and returns its result."""
        with self.changed:
            self.number += 1
            number = self.number
        self.socket.send(json.dumps({"id": number, "method": method, "params": params}))
        with self.changed:
            if not self.changed.wait_for(lambda: number in self.answers or self.is_closed, ANSWER_S) or self.is_closed:
                raise Trouble(f"{method}: no answer of the browser")
            answer = self.answers.pop(number)
        if "error" in answer:
            raise Trouble(f"{method}: {answer['error']}")
        return answer["result"]

    def run(self, script):
        """The value of a script, after its promise."""
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise Trouble(f"{script[:200]}: {json.dumps(result['exceptionDetails'])[:800]}")
        return result["result"].get("value")

    def wait(self, script, seconds=30):
        """Waits until the script's value is true, and returns it."""
        end = time.monotonic() + seconds
        while True:
            value = self.run(script)
            if value:
                return value
            if time.monotonic() > end:
                raise Trouble(f"not within {seconds} s: {script}")
            time.sleep(0.1)

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def size(self, width, height, is_dark):
        """Size of the window in CSS pixels, and the scheme that the user prefers."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        scheme = "dark" if is_dark else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def key(self, key, text=None, modifiers=0):
        """Presses and releases a key."""
        code = {"Enter": 13, "Tab": 9}.get(key) or ord(key.upper())
        common = {"key": key, "modifiers": modifiers, "windowsVirtualKeyCode": code}
        text = {"Enter": "\r", "Tab": None}.get(key, key) if text is None else text
        down = {"type": "keyDown", "text": text} if text and not modifiers else {"type": "rawKeyDown"}
        self.call("Input.dispatchKeyEvent", **common, **down)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def screenshot(self, path, whole=True):
        """The whole page as PNG, at most 3000 pixels high."""
        options = {}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            options = {"captureBeyondViewport": True, "clip": {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 3000), "scale": 1}}
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png", **options)["data"]))
