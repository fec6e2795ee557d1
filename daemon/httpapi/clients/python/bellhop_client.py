"""A client of Bellhop, delayed and broadcast notifications: README.md tells how to use it."""

from __future__ import annotations

import base64
import calendar
import http.client
import json
import logging
import os
import queue
import random
import re
import signal
import socket
import ssl
import threading
import time
from collections.abc import Awaitable
from typing import Any, Callable, Iterator, Mapping, Sequence
from urllib.parse import quote, urlencode, urlsplit

_log = logging.getLogger("bellhop_client")
_forever = float("inf")
_units = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600, "d": 86400}


def _seconds(name: str, duration: str) -> float:
    if not isinstance(duration, str) or not re.fullmatch(r"((\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h|d))+", duration, re.ASCII):
        raise ValueError(f'{name} {duration!r}: write a duration, such as "30s" or "1h30m"')
    return sum(float(n) * _units[unit] for n, unit in re.findall(r"([\d.]+)([a-zµ]+)", duration))


class Later(Exception):
    """Raised by a handler: hand the message out again after a delay, which uses up no attempt."""

    def __init__(self, delay: str):
        _seconds("delay", delay)
        super().__init__(f"again in {delay}")
        self.delay = delay


class Bury(Exception):
    """Raised by a handler: never hand the message out again, and keep it among the dead letters."""


class Timeout(Exception):
    """Raised by wait: the message has not ended yet."""


class Unanswered(Exception):
    """There was no answer: whether the call did something is unknown."""

    def __init__(self, message: str, kept: bool = False):
        super().__init__(message)
        self._kept = kept  # the connection was, and the daemon may have closed it before


class Died(Exception):
    """Raised by wait: the message is dead. info is what inspect returns."""

    def __init__(self, info: dict):
        super().__init__(info.get("reason") or "it is dead")
        self.info = info


class Problem(Exception):
    """What the daemon answered in place of what was asked for: status, type, detail, and errors, each wrong field."""

    def __init__(self, response: http.client.HTTPResponse, data: bytes):
        try:
            problem = dict(json.loads(data))
        except (TypeError, ValueError):  # it comes from a proxy, say
            problem = {}
        super().__init__(problem.get("detail") or f"{response.status} {response.reason}")
        self.status, self.type, self.detail = response.status, str(problem.get("type", "about:blank")), str(self)
        self.errors: list[dict[str, str]] = problem.get("errors") or []
        after = response.getheader("Retry-After", "")
        self._after = float(after) if after.isdecimal() else 0.0


class Message:
    """A message or a broadcast, with the fields of the wire."""

    topic: str
    id: str
    attempt: int
    due: str
    first_due: str | None = None
    published: str
    late_ms: int
    receipt: int
    key: str | None = None
    group: str | None = None
    fence: int | None = None
    content_type: str | None = None
    body: str | None = None
    body_base64: str | None = None
    bookmark: str | None = None

    def __init__(self, fields: Mapping[str, Any]):
        self.headers: dict[str, str] = {}
        self.history: list[dict[str, Any]] = []
        self.stopped = threading.Event()  # set where the handler's work is not wanted any more
        self.__dict__.update(fields)

    @property
    def bytes(self) -> bytes:
        return base64.b64decode(self.body_base64) if self.body_base64 is not None else (self.body or "").encode()

    @property
    def text(self) -> str:
        return self.bytes.decode(errors="replace")

    def json(self) -> Any:
        return json.loads(self.text)


class Gap:
    """What a listener missed: broadcasts of a topic that were removed before they were read."""

    topic: str
    bookmark: str

    def __init__(self, fields: Mapping[str, Any]):
        self.__dict__.update(fields)


def _again(err: Exception) -> bool:
    return isinstance(err, Unanswered) or (isinstance(err, Problem) and (err.status >= 500 or err.status in (408, 429)))


def _is(err: Exception, *types: str) -> bool:
    return isinstance(err, Problem) and err.type.removeprefix("urn:bellhop:") in types


def _backoff(n: int) -> float:
    return min(5, 0.1 * 2 ** min(n, 9)) * random.uniform(0.5, 1)


def _query(fields: Mapping[str, Any]) -> str:
    return urlencode({k: str(v).lower() if isinstance(v, bool) else v for k, v in fields.items() if v is not None})


def _topic(topic: str) -> str:
    return f"/v1/topics/{quote(topic, safe='')}"


def _path(topic: str, id: str) -> str:
    return f"{_topic(topic)}/messages/{quote(id, safe='')}"


def _encode(body: Any) -> tuple[bytes, str | None]:
    """The bytes of a body or a result, and their content type: text and bytes as they are, all else as JSON."""
    if body is None or isinstance(body, str):
        return (body or "").encode(), None
    if isinstance(body, (bytes, bytearray, memoryview)):
        return bytes(body), None
    return json.dumps(body, ensure_ascii=False).encode(), "application/json"


class Bellhop:
    """Calls a daemon of Bellhop. All threads may share one."""

    def __init__(self, url: str | None = None, token: str | None = None, name: str | None = None, context: ssl.SSLContext | None = None):
        self.url = (url or os.environ.get("BELLHOP_URL") or "http://127.0.0.1:8420").rstrip("/")
        token = token or os.environ.get("BELLHOP_TOKEN")
        if not re.fullmatch(r"https?://[^/@]+(/[^@]*)?", self.url):
            raise ValueError("url: write http:// or https:// and a host, and give the token apart")
        if token and not re.fullmatch(r"[\x21-\x7e]+", token):
            raise ValueError("token: it holds a space, a line break, or what is not ASCII")
        self.name = name or f"{socket.gethostname()}-{os.getpid()}"[-64:]
        self._at, self._context = urlsplit(self.url), context
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._kept: list[http.client.HTTPConnection] = []
        self._pid = os.getpid()

    def __del__(self) -> None:
        for conn in getattr(self, "_kept", []):
            conn.close()

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        if self._at.scheme == "https":
            return http.client.HTTPSConnection(self._at.netloc, timeout=timeout, context=self._context)
        return http.client.HTTPConnection(self._at.netloc, timeout=timeout)

    def _once(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], timeout: float, fresh: bool, worker: Worker | None) -> Any:
        if self._pid != os.getpid():  # a fork has its own connections
            self._pid, self._kept = os.getpid(), []
        try:
            kept = None if fresh else self._kept.pop()
        except IndexError:
            kept = None
        conn = kept or self._connect(timeout)
        try:
            if kept:
                conn.sock.settimeout(timeout)
            else:
                conn.connect()
            if worker:
                worker._claims_on(conn)
            conn.request(method, self._at.path + path, body=body, headers={**self._headers, **headers})
            response = conn.getresponse()
            if worker:
                worker._claims_on(None)  # what is handed out from here on is in hand
            data = response.read()
        except (OSError, http.client.HTTPException) as err:
            conn.close()
            raise Unanswered(f"{method} {self.url}{path}: {err or type(err).__name__}", kept is not None) from err
        if not response.will_close and len(self._kept) < 64:
            self._kept.append(conn)
        else:
            conn.close()
        if response.status < 300:
            return json.loads(data) if data else None
        raise Problem(response, data)

    def _ask(self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] = {}, *, timeout: float = 10, repeat: float = 0,
             fresh: bool = False, arrived: str | None = None, worker: Worker | None = None) -> Any:
        """Makes a call, for a worker that claims, and again for repeat seconds where it may be.

        fresh: on no connection that was kept. arrived: the problem that shows that a call before, which had no answer, arrived.
        """
        until, unanswered, n = time.monotonic() + repeat, False, 0
        while True:
            try:
                return self._once(method, path, body, headers, timeout, fresh, worker)
            except (Unanswered, Problem) as err:
                if unanswered and arrived and _is(err, arrived):
                    return None
                unanswered = unanswered or isinstance(err, Unanswered)
                if isinstance(err, Unanswered) and err._kept:
                    fresh = True
                    continue
                pause = max(getattr(err, "_after", 0), _backoff(n))
                if (worker and worker._stopping.is_set()) or not _again(err) or time.monotonic() + pause > until:
                    raise
                if worker:
                    worker._tell(err)
            worker._stopping.wait(pause) if worker else time.sleep(pause)
            n += 1

    def call(self, method: str, path: str, query: Mapping[str, Any] = {}, body: Any = None, headers: Mapping[str, str] = {}) -> Any:
        """Makes any call of /v1/openapi.json, once, and returns what it answers."""
        data, type = (None, None) if body is None else _encode(body)
        return self._ask(method, f"{path}?{_query(query)}", data, {**({"Content-Type": type} if type else {}), **headers}, fresh=True)

    def _send(self, kind: str, topic: str, body: Any, headers: Mapping[str, str] | None, content_type: str | None, options: Mapping[str, Any]) -> dict:
        data, type = _encode(body)
        all = {f"Bellhop-Header-{name}": value.encode().decode("latin-1") for name, value in (headers or {}).items()}  # a byte a letter
        if content_type or type:
            all["Content-Type"] = content_type or type or ""
        named = bool(options.get("id"))
        answer = self._ask("POST", f"{_topic(topic)}/{kind}?{_query(options)}", data, all, repeat=30 if named else 0, fresh=not named, arrived="exists")
        return answer or {"topic": topic, "id": options["id"], "outcome": "created"}

    def publish(self, topic: str, body: Any = None, *, headers: Mapping[str, str] | None = None, content_type: str | None = None, id: str | None = None,
                key: str | None = None, if_busy: str | None = None, delay: str | None = None, due: str | None = None, zone: str | None = None, spread: str | None = None,
                ttl: str | None = None, attempts: int | None = None, lease: str | None = None, try_timeout: str | None = None, fail: str | None = None,
                late_after: str | None = None, late: str | None = None, if_exists: str | None = None, max_wait: str | None = None, then: str | None = None,
                unique_for: str | None = None, group: str | None = None, after_group: str | None = None, on_dead: str | None = None, **newer: Any) -> dict:
        """Publishes a message for one worker. newer are options that this version does not name."""
        options = {name: value for name, value in locals().items() if name not in ("self", "topic", "body", "headers", "content_type", "newer")}
        return self._send("messages", topic, body, headers, content_type, {**options, **newer})

    def broadcast(self, topic: str, body: Any = None, *, headers: Mapping[str, str] | None = None, content_type: str | None = None, **options: Any) -> dict:
        """Publishes a broadcast for all who listen."""
        return self._send("broadcasts", topic, body, headers, content_type, options)

    def inspect(self, topic: str, id: str) -> dict:
        return self._ask("GET", _path(topic, id), repeat=30)

    def cancel(self, topic: str, id: str, **options: Any) -> dict:
        return self._ask("DELETE", f"{_path(topic, id)}?{_query(options)}", repeat=30)

    def reschedule(self, topic: str, id: str, **options: Any) -> dict:
        return self._ask("PATCH", f"{_path(topic, id)}?{_query(options)}", repeat=30)

    def wait(self, topic: str, id: str, timeout: str | None = None) -> str | bytes | None:
        """Waits for the end of a message, and returns the result that its handler left: text, or bytes that are not UTF-8."""
        until = time.monotonic() + (_seconds("timeout", timeout) if timeout else _forever)
        while True:
            wait = min(240, max(0, until - time.monotonic()))
            info = self._ask("GET", f"{_path(topic, id)}?wait={wait:.3f}s", timeout=wait + 10, repeat=max(0.001, until - time.monotonic()))
            if info["state"] == "dead":
                raise Died(info)
            if info["state"] == "done":
                return base64.b64decode(info["result_base64"]) if "result_base64" in info else info.get("result")
            if time.monotonic() >= until:
                raise Timeout(f"{topic}:{id} is {info['state']} after {timeout}")

    def work(self, topic: str | Sequence[str], handler: Callable[[Message], Any], *, concurrency: int = 1, lease: str = "30s", keep: str | None = None,
             order: str | None = None, min_age: str | None = None, grace: str = "10s", on_error: Callable[[BaseException, Message | None], Any] | None = None) -> Worker:
        """Handles the messages of a topic, or of up to 32, in threads, concurrency at a time, until stop.

        lease: how long a message stays with a worker that is gone. keep: how long what the handler returns is kept as the result.
        order: of several topics, "oldest" or "listed". min_age: only messages that nobody claimed for so long.
        grace: how long stop waits for handlers. on_error: called with an exception, and the message or None; else they are logged.
        """
        topics = [topic] if isinstance(topic, str) else list(topic)
        if not 1 <= len(topics) <= 32:
            raise ValueError(f"topic: {len(topics)} topics; give 1 to 32")
        if not callable(handler):
            raise TypeError("handler: give a function of a message")
        if not isinstance(concurrency, int) or concurrency < 1:
            raise ValueError(f"concurrency {concurrency!r}: give a whole number, 1 or more")
        if _seconds("lease", lease) < 0.1:
            raise ValueError(f"lease {lease}: give 100ms or more")
        if keep is not None:
            _seconds("keep", keep)
        several = ",".join(topics) if len(topics) > 1 else None
        fields = {"topics": several, "order": order, "min_age": min_age, "lease": lease, "worker": self.name, "wait": "30s"}
        claim = f"{'/v1/claim' if several else _topic(topics[0]) + '/claim'}?{_query(fields)}"
        return Worker(self, claim, handler, concurrency, lease, keep, _seconds("grace", grace), on_error or _logged)

    def listen(self, pattern: str, since: str | None = None) -> Listening:
        """Iterates over broadcasts of the topics that a pattern names, and gaps, and resumes where it was after a lost connection."""
        return Listening(self, pattern, since)

    def advance(self, duration: str) -> dict:
        """Moves the clock of bellhop dev --clock manual, until all that becomes due meanwhile is handled."""
        return self._ask("POST", f"/v1/clock?{_query({'advance': duration})}", timeout=600)


class Listening:
    """Broadcasts and gaps, until close, which any thread may call."""

    def __init__(self, bell: Bellhop, pattern: str, since: str | None):
        self._bell, self._path = bell, f"{_topic(pattern)}/broadcasts?{_query({'since': since})}"
        self._conn: http.client.HTTPConnection | None = None
        self._closed = threading.Event()

    def __enter__(self) -> Listening:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        self._closed.set()
        _hang_up(self._conn)

    def __iter__(self) -> Iterator[Message | Gap]:
        last, n = None, 0
        while not self._closed.is_set():
            try:
                for event in self._read(last):
                    last, n = event.get("id", last), 0
                    if event.get("data"):
                        fields = {**json.loads(event["data"]), "bookmark": last}
                        yield Gap(fields) if event.get("event") == "gap" else Message(fields)
            except Problem as err:
                if not _again(err):
                    raise
            except (OSError, http.client.HTTPException, ValueError, AttributeError):  # a connection that close or the daemon ended
                pass
            self._closed.wait(_backoff(n))
            n += 1

    def _read(self, last: str | None) -> Iterator[dict[str, str]]:
        """The fields of server-sent events. The daemon sends something each 15 s: silence for 45 is a connection that is gone."""
        self._conn = conn = self._bell._connect(45)
        try:
            conn.request("GET", self._bell._at.path + self._path, headers={**self._bell._headers, **({"Last-Event-ID": last} if last else {})})
            response = conn.getresponse()
            if response.status != 200:
                raise Problem(response, response.read())
            event: dict[str, str] = {}
            for line in response:
                name, _, value = line.decode().rstrip("\n").partition(":")
                if name:
                    event[name] = value.removeprefix(" ")
                elif line == b"\n":
                    yield event
                    event = {}
        finally:
            conn.close()


def _hang_up(conn: http.client.HTTPConnection | None) -> None:
    """Ends what another thread waits for."""
    try:
        conn.sock.shutdown(socket.SHUT_RDWR)  # type: ignore[union-attr]
    except (OSError, AttributeError):
        pass  # it has ended, or has not begun


class Worker:
    """Handles messages in threads. Made by Bellhop.work."""

    def __init__(self, bell: Bellhop, claim: str, handler: Callable[[Message], Any], concurrency: int, lease: str, keep: str | None, grace: float,
                 on_error: Callable[[BaseException, Message | None], Any]):
        self._bell, self._claim, self._handler, self._on_error = bell, claim, handler, on_error
        self._asked, self._lease, self._keep, self._grace = lease, _seconds("lease", lease), keep, grace
        self._pid, self._most, self._lock = os.getpid(), concurrency, threading.RLock()
        self._busy = 0  # hands that are not free; guarded by the lock, as the next
        self._hands: dict[Message, float] = {}  # whose leases are kept, and when each is to be extended
        self._freed, self._sooner = threading.Condition(self._lock), threading.Condition(self._lock)  # a hand; one is to be extended sooner
        self._stopping, self._ended = threading.Event(), threading.Event()
        self._waiting: http.client.HTTPConnection | None = None  # on which a claim waits
        self._error: Exception | None = None
        self._todo: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        for target in (self._run, self._extend, *[self._work] * concurrency):
            threading.Thread(target=target, daemon=True, name="bellhop worker").start()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()
        self.join()

    def _check(self) -> None:
        if self._pid != os.getpid():
            raise RuntimeError("this worker was made before a fork, and its threads are in the other process; make one in each process")

    def stop(self) -> None:
        """Claims nothing more. Handlers go on for the grace; what they have not done then is given back."""
        self._check()
        self._stopping.set()
        with self._lock:
            self._freed.notify_all()
        _hang_up(self._waiting)

    def join(self, timeout: float | None = None) -> bool:
        """Waits until the worker has stopped, and reports whether it has. Raises what the daemon refused to let it claim for."""
        self._check()
        ended = self._ended.wait(timeout)
        if self._error:
            raise self._error
        return ended

    def until_signal(self) -> None:
        """Stops at the first SIGTERM or Ctrl-C, and waits for the end; a second one does what it did before. For the main thread."""
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

        def restore() -> None:
            for number, handler in before.items():
                signal.signal(number, handler)

        def end(*_: Any) -> None:
            restore()
            self.stop()

        for number in before:
            signal.signal(number, end)
        try:
            while not self.join(1):  # where another thread got the signal, this one has to run to handle it
                pass
        finally:
            restore()

    def _tell(self, err: BaseException, m: Message | None = None) -> None:
        try:
            self._on_error(err, m)
        except Exception:
            _log.exception("on_error failed")

    def _claims_on(self, conn: http.client.HTTPConnection | None) -> None:
        self._waiting = conn
        if conn and self._stopping.is_set():
            raise http.client.HTTPException("the worker stops")

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                with self._lock:
                    self._freed.wait_for(lambda: self._stopping.is_set() or self._busy < self._most)
                    free = min(500, self._most - self._busy)
                if free > 0:
                    for fields in self._bell._ask("POST", f"{self._claim}&max={free}", timeout=40, repeat=_forever, worker=self)["messages"]:
                        self._take(Message(fields))
        except Exception as err:
            if not self._stopping.is_set():
                self._error = err
                self._tell(err)
        finally:
            self._finish()

    def _take(self, m: Message) -> None:
        came = m.receipt / 1e6 - _epoch(m.due) - m.late_ms / 1000  # its lease, which may be the message's own
        at = time.monotonic() + min(self._lease, max(0.1, came)) / 3
        with self._lock:
            if at < min(self._hands.values(), default=_forever):
                self._sooner.notify()
            self._busy += 1
            self._hands[m] = at
        self._todo.put(m)

    def _finish(self) -> None:
        with self._lock:
            self._freed.wait_for(lambda: self._busy == 0, self._grace)
            late = list(self._hands)
            self._hands.clear()
        for m in late:
            m.stopped.set()
            self._settle(m, "nack", {"attempt": "keep", "delay": "0s"})
        for _ in range(self._most):
            self._todo.put(None)
        with self._lock:
            self._ended.set()
            self._sooner.notify()

    def _work(self) -> None:
        while (m := self._todo.get()) is not None:
            how = self._attend(m)
            with self._lock:
                mine = self._hands.pop(m, None) is not None
            if mine:
                self._settle(m, *how)
            with self._lock:
                self._busy -= 1
                self._freed.notify_all()

    def _attend(self, m: Message) -> tuple[Any, ...]:
        """Returns what settles a message, once its handler has ended."""
        try:
            result = self._handler(m)
            if isinstance(result, Awaitable):
                import asyncio  # half of the time that an import of all takes

                result = asyncio.run(_awaited(result))
            return ("ack", {}) if self._keep is None or result is None else ("ack", {"keep": self._keep}, *_encode(result))
        except Later as err:
            return "nack", {"attempt": "keep", "delay": err.delay}
        except Bury as err:
            return "nack", {"dead": True, "reason": str(err)[:1000] or "buried"}
        except BaseException as err:
            self._tell(err, m)
            return "nack", {"reason": f"{type(err).__name__}: {err}"[:1000]}

    def _extend(self) -> None:
        while True:
            with self._lock:
                if self._ended.is_set():
                    return
                now, first = time.monotonic(), min(self._hands.values(), default=_forever)
                if first > now:
                    self._sooner.wait(min(first - now, threading.TIMEOUT_MAX))
                    continue
                due = [m for m, at in self._hands.items() if at <= now]
                self._hands.update((m, now + self._lease / 3) for m in due)
            if now - first > self._lease / 3:
                self._tell(RuntimeError(f"the process stood still for {now - first:.1f} s; messages may come twice"))
            for m in due:
                self._keep_lease(m)

    def _keep_lease(self, m: Message) -> None:
        try:
            self._ask_of(m, "extend", {"lease": self._asked}, timeout=max(1, self._lease / 3))
        except (Unanswered, Problem) as err:
            if not _is(err, "stop", "lease-lost"):
                return self._tell(err, m)
            with self._lock:
                if m in self._hands and _is(err, "stop"):
                    self._hands[m] = _forever  # it is settled, and not extended any more
                else:
                    self._hands.pop(m, None)
            m.stopped.set()

    def _settle(self, m: Message, how: str, fields: dict, body: bytes | None = None, type: str | None = None) -> None:
        headers = {"Content-Type": type} if type else {}
        try:
            self._ask_of(m, how, fields, body=body, headers=headers, repeat=self._lease, arrived="lease-lost")
        except Exception as err:
            self._tell(err, m)

    def _ask_of(self, m: Message, how: str, fields: dict, **more: Any) -> None:
        self._bell._ask("POST", f"{_path(m.topic, m.id)}/{how}?{_query({'receipt': m.receipt, **fields})}", **more)


async def _awaited(result: Any) -> Any:
    return await result


def _epoch(text: str) -> float:
    whole, _, fraction = text.rstrip("Z").partition(".")
    return calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) + float(f"0.{fraction or 0}")


def _logged(err: BaseException, m: Message | None) -> None:
    _log.error("%s%s", f"{m.topic}:{m.id}: " if m else "", err, exc_info=err if m and not isinstance(err, (Unanswered, Problem)) else None)
