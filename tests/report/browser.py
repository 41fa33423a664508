# SPDX-License-Identifier: Apache-2.0
"""Drives Chromium without a window, over the pipe of its DevTools protocol.

Only Python's own library is needed. Every page notes what it asks of the
network and what it complains about, so that a test can demand that there is
neither.
"""
import base64
import json
import os
import subprocess
import tempfile
import time

kStart = 60  # seconds for Chromium to start on a busy machine
kLongest = 120  # seconds for one answer


class Browser:
    def __init__(self, program="chromium"):
        self.folder = tempfile.TemporaryDirectory()
        to_read, self.to = os.pipe()
        self.answers, from_write = os.pipe()
        # Chromium reads from descriptor 3 and writes to descriptor 4.
        def pipes():
            ours = [os.dup(to_read), os.dup(from_write)]
            ours = [os.dup2(fd, number) for fd, number in zip(
                [os.dup2(ours[0], 30), os.dup2(ours[1], 31)], [3, 4])]
            for fd in ours:
                os.set_inheritable(fd, True)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu",
             "--disable-dev-shm-usage",
             "--remote-debugging-pipe", "--hide-scrollbars",
             "--force-color-profile=srgb", "--no-first-run",
             "--user-data-dir=" + self.folder.name, "about:blank"],
            preexec_fn=pipes, close_fds=False, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(from_write)
        self.buffer = b""
        self.number = 0
        self.pages = {}

    def close(self):
        self.process.terminate()
        self.process.wait()
        os.close(self.to)
        os.close(self.answers)
        try:
            self.folder.cleanup()
        except OSError:
            pass  # Chromium's helpers may still be writing

    def message(self, deadline):
        import select
        while b"\0" not in self.buffer:
            left = deadline - time.monotonic()
            ready = select.select([self.answers], [], [], max(left, 0))[0]
            if not ready:
                raise TimeoutError("Chromium does not answer")
            piece = os.read(self.answers, 1 << 20)
            if not piece:
                raise RuntimeError("Chromium ended")
            self.buffer += piece
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, session=None, **parameters):
        self.number += 1
        number = self.number
        request = {"id": number, "method": method, "params": parameters}
        if session:
            request["sessionId"] = session
        data = json.dumps(request).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        deadline = time.monotonic() + kLongest
        while True:
            message = self.message(deadline)
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(method + ": " + str(message["error"]))
                return message["result"]
            page = self.pages.get(message.get("sessionId"))
            if page is not None:
                page.note(message)

    def open(self, path, width=800, height=900, dark=False):
        return Page(self, path, width, height, dark)


class Page:
    """A page that was opened, and has loaded."""

    def __init__(self, browser, path, width, height, dark):
        self.browser = browser
        self.requests = []
        self.complaints = []
        self.loaded = False
        self.url = "file://" + os.path.abspath(path)
        target = browser.call("Target.createTarget", url="about:blank")
        self.target = target["targetId"]
        self.session = browser.call("Target.attachToTarget",
                                    targetId=self.target,
                                    flatten=True)["sessionId"]
        browser.pages[self.session] = self
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")
        self.resize(width, height)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme",
             "value": "dark" if dark else "light"}])
        self.started = time.monotonic()
        self.call("Page.navigate", url=self.url)
        while not self.evaluate(
                "document.readyState === 'complete' && "
                "location.href !== 'about:blank'"):
            time.sleep(0.01)

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def note(self, message):
        method = message["method"]
        parameters = message["params"]
        if method == "Network.requestWillBeSent":
            url = parameters["request"]["url"]
            if url != self.url and not url.startswith(("blob:", "data:")):
                self.requests.append(url)
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(str(parameters["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append(str(parameters["args"]))
        elif method == "Log.entryAdded":
            self.complaints.append(parameters["entry"]["text"])

    def resize(self, width, height=900):
        self.call("Emulation.setDeviceMetricsOverride", width=width,
                  height=height, deviceScaleFactor=1, mobile=False)

    def evaluate(self, script):
        result = self.call("Runtime.evaluate", expression=script,
                           awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(str(result["exceptionDetails"]))
        return result["result"].get("value")

    def wait_for(self, script):
        deadline = time.monotonic() + kStart
        while not self.evaluate(script):
            if time.monotonic() > deadline:
                raise TimeoutError(script)
            time.sleep(0.01)
        return time.monotonic() - self.started

    def click(self, selector):
        box = self.evaluate(
            "(() => { const e = document.querySelector(%s);"
            "e.scrollIntoView({block: 'center'});"
            "const b = e.getBoundingClientRect();"
            "return [b.x + b.width / 2, b.y + b.height / 2]; })()"
            % json.dumps(selector))
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0],
                      y=box[1], button="left", clickCount=1)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def key(self, name):
        code = {"Enter": 13, "Tab": 9, "ArrowDown": 40, "ArrowUp": 38,
                "End": 35, "Home": 36, " ": 32}[name]
        text = {"Enter": "\r", " ": " "}.get(name)
        more = {"text": text} if text else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=name, code=name,
                  windowsVirtualKeyCode=code, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=name, code=name,
                  windowsVirtualKeyCode=code)

    def screenshot(self, path, whole=True):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"],
                "height": min(size["height"], 12000), "scale": 1}
        more = {"clip": clip, "captureBeyondViewport": True} if whole else {}
        data = self.call("Page.captureScreenshot", format="png", **more)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def pdf(self, path):
        data = self.call("Page.printToPDF", preferCSSPageSize=True,
                         printBackground=True)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def close(self):
        del self.browser.pages[self.session]
        self.browser.call("Target.closeTarget", targetId=self.target)
