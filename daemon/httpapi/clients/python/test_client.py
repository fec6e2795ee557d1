"""Each test has a twin of its name in ../node/client.test.mjs. BELLHOP_URL, BELLHOP_TOKENS_URL and BELLHOP_CLOCK_URL are daemons of their own."""

import faulthandler
import http.client
import http.server
import itertools
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
import unittest
from urllib.parse import urlsplit

import bellhop_client
from bellhop_client import Bellhop, Bury, Died, Later, Message, Problem, Timeout, Unanswered

bell = Bellhop()
topics = itertools.count(1)


def fresh():
    return f"python.{os.getpid()}.t{next(topics)}"


def until(what):
    end = time.monotonic() + 60
    while not (found := what()):
        if time.monotonic() > end:
            raise AssertionError("waited a minute")
        time.sleep(0.02)
    return found


def catches(process, number):
    with open(f"/proc/{process.pid}/status") as status:
        return int(re.search(r"SigCgt:\s*(\w+)", status.read())[1], 16) >> (number - 1) & 1


def state(topic, id):
    try:
        return bell.inspect(topic, id)["state"]
    except Problem as err:
        if err.status != 404:
            raise
        return "gone"


def gone(topic, id):
    until(lambda: state(topic, id) == "gone")


class Proxy(http.server.ThreadingHTTPServer):
    """In front of the daemon. It treats each request in turn as one of treatments says, and those behind them well: lost has its answer
    lost, refused is not passed on, busy is answered with 503. It notes what it got."""

    daemon_threads = True

    def __init__(self, *treatments):
        super().__init__(("127.0.0.1", 0), Handler)
        self.treatments, self.got = list(treatments), []
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def treat(self):
        how = self.server.treatments.pop(0) if self.server.treatments else "fine"
        self.server.got.append(f"{self.command} {self.path}")
        self.close_connection = how != "fine"
        if how == "refused":
            return
        if how == "busy":
            self.wfile.write(b"HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 2\r\n\r\n{}")
            return
        conn = http.client.HTTPConnection(urlsplit(bell.url).netloc)
        conn.request(self.command, self.path, self.rfile.read(int(self.headers.get("Content-Length", 0))), dict(self.headers))
        answer = conn.getresponse()
        data = answer.read()
        conn.close()
        if how == "lost":
            return
        self.send_response(answer.status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_DELETE = do_PATCH = treat

    def log_message(self, *_):
        pass


class Cases(unittest.TestCase):
    def setUp(self):  # a case that hangs says where
        faulthandler.dump_traceback_later(90, exit=True)
        self.addCleanup(faulthandler.cancel_dump_traceback_later)

    def work(self, topic, handler, bell=bell, **options):
        told = []
        worker = bell.work(topic, handler, on_error=lambda err, m: told.append((err, m)), **options)
        self.addCleanup(worker.join)
        self.addCleanup(worker.stop)
        worker.told = told
        return worker

    def proxy(self, *treatments):
        server = Proxy(*treatments)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server

    def test_publish_text_and_bytes_as_they_are_and_all_else_as_json(self):
        topic = fresh()
        for id, body, data, type in [
            ("text", "ü€", "ü€".encode(), None),
            ("bytes", b"\x00\xff\n", b"\x00\xff\n", None),
            ("object", {"a": [1, "ü"]}, '{"a": [1, "ü"]}'.encode(), "application/json"),
            ("number", 12, b"12", "application/json"),
            ("zero", 0, b"0", "application/json"),
            ("nothing", None, b"", None),
        ]:
            bell.publish(topic, body, id=id, delay="1h")
            m = Message(bell.inspect(topic, id))
            self.assertEqual((m.bytes, m.content_type), (data, type), id)
        id = bell.publish(topic, {"a": 1}, headers={"Tenant": "ü€ 1"}, content_type="application/x", key="acct-7", attempts=3)["id"]
        m = Message(bell.inspect(topic, id))
        self.assertEqual((m.headers, m.content_type, m.key, m.attempts, m.json()), ({"Tenant": "ü€ 1"}, "application/x", "acct-7", 3, {"a": 1}))

    def test_publish_answers_what_became_of_it(self):
        topic = fresh()
        first = bell.publish(topic, "a", id="x", delay="1h")
        self.assertEqual((first["outcome"], first["state"]), ("created", "scheduled"))
        with self.assertRaises(Problem) as refused:
            bell.publish(topic, "b", id="x")
        self.assertEqual((refused.exception.status, refused.exception.type), (409, "urn:bellhop:exists"))
        self.assertEqual(bell.publish(topic, "b", id="x", if_exists="keep")["outcome"], "kept")

    def test_a_refusal_names_all_faults_at_once(self):
        with self.assertRaisesRegex(Problem, 'delay "soon"') as refused:
            bell.publish(fresh(), "x", delay="soon", ttl="1", newer=1)
        err = refused.exception
        self.assertEqual((err.status, err.type, sorted(fault["name"] for fault in err.errors)), (422, "urn:bellhop:invalid", ["delay", "newer", "ttl"]))

    def test_inspect_cancel_and_reschedule(self):
        topic = fresh()
        first = bell.publish(topic, "x", delay="1h")
        self.assertGreater(bell.reschedule(topic, first["id"], delay="2h")["due"], first["due"])
        self.assertTrue(bell.cancel(topic, first["id"])["cancelled"])
        with self.assertRaises(Problem) as missing:
            bell.inspect(topic, first["id"])
        self.assertEqual(missing.exception.status, 404)

    def test_wait_returns_the_result(self):
        topic = fresh()
        self.work(topic, lambda m: {"text": "done", "object": {"ü": 1}, "bytes": b"\xff"}[m.text], keep="1h")
        for body, want in ("text", "done"), ("object", '{"ü": 1}'), ("bytes", b"\xff"):
            self.assertEqual(bell.wait(topic, bell.publish(topic, body, delay="50ms")["id"]), want)

    def test_wait_raises_what_a_message_died_of(self):
        topic = fresh()

        def handle(m):
            raise Bury("no such order")

        self.work(topic, handle)
        with self.assertRaisesRegex(Died, "^no such order$") as died:
            bell.wait(topic, bell.publish(topic, "x", delay="50ms")["id"], timeout="1m")
        self.assertEqual(died.exception.info["state"], "dead")

    def test_wait_ends_after_its_timeout(self):
        topic = fresh()
        id = bell.publish(topic, "x", delay="1h")["id"]
        with self.assertRaisesRegex(Timeout, "is scheduled after 50ms"):
            bell.wait(topic, id, timeout="50ms")
        with self.assertRaises(Problem) as missing:
            bell.wait(topic, "other", timeout="1m")
        self.assertEqual(missing.exception.status, 404)

    def test_listen_resumes_where_it_was(self):
        topic, heard = fresh(), []
        for n in 1, 2:
            bell.broadcast(topic, n, id=str(n))
        with bell.listen(topic, since="beginning") as listening:
            for m in listening:
                heard.append(m.json())
                if len(heard) == 2:
                    bellhop_client._hang_up(listening._conn)
                    bell.broadcast(topic, {"ü": 3})
                if len(heard) == 3:
                    listening.close()
        self.assertEqual(heard, [1, 2, {"ü": 3}])

    def test_call_makes_any_other_call(self):
        topic = fresh()
        bell.call("PATCH", f"/v1/topics/{topic}/settings", body={"attempts": 7})
        self.assertEqual(bell.call("GET", f"/v1/topics/{topic}/settings")["attempts"], 7)
        self.assertIsInstance(bell.call("GET", "/v1/workers")["workers"], list)

    def test_a_handler_that_returns_acknowledges(self):
        topic, seen = fresh(), []
        self.work(topic, seen.append, concurrency=2)
        bell.publish(topic, {"total": 12}, id="a", key="k", headers={"Tenant": "7"})
        gone(topic, "a")
        (m,) = seen
        self.assertEqual((m.topic, m.id, m.attempt, m.key, m.headers, m.history, m.json()), (topic, "a", 1, "k", {"Tenant": "7"}, [], {"total": 12}))
        self.assertTrue(m.fence > 0 and m.late_ms >= 0 and m.due)

    def test_a_handler_that_fails_leaves_its_reason_and_its_worker(self):
        topic = fresh()

        def handle(m):
            raise KeyError("no ü\nsuch customer " + "x" * 3000)

        told = self.work(topic, handle).told
        bell.publish(topic, "x", id="a", attempts=1)
        until(lambda: state(topic, "a") == "dead")
        info = bell.inspect(topic, "a")
        self.assertRegex(info["reason"], r"KeyError: 'no ü\\nsuch customer xxx")
        self.assertEqual(info["history"][0]["worker"], bell.name)
        self.assertEqual([(type(err), m.id) for err, m in told], [(KeyError, "a")])

    def test_a_handler_of_the_other_kind_may_stand_there(self):
        topic = fresh()

        async def handle(m):
            return m.text + "!"

        self.work(topic, handle, keep="1h")
        self.assertEqual(bell.wait(topic, bell.publish(topic, "x", delay="50ms")["id"]), "x!")

    def test_later_uses_up_no_attempt(self):
        topic, seen = fresh(), []

        def handle(m):
            seen.append(m.attempt)
            if len(seen) < 3:
                raise Later("10ms")

        self.work(topic, handle)
        bell.publish(topic, "x", id="a")
        gone(topic, "a")
        self.assertEqual(seen, [1, 1, 1])

    def test_bury_keeps_a_dead_letter(self):
        topic = fresh()

        def handle(m):
            raise Bury("ü is no order")

        told = self.work(topic, handle).told
        bell.publish(topic, "x", id="a")
        until(lambda: state(topic, "a") == "dead")
        self.assertEqual((bell.inspect(topic, "a")["reason"], told), ("ü is no order", []))

    def test_a_lease_is_kept_while_a_handler_runs(self):
        topic, seen, end = fresh(), [], threading.Event()
        self.work(topic, lambda m: (seen.append(m.attempt), end.wait(60)) and None, lease="3s")
        bell.publish(topic, "x", id="a")
        first = until(lambda: bell.inspect(topic, "a").get("until"))
        until(lambda: bellhop_client._epoch(bell.inspect(topic, "a")["until"]) > bellhop_client._epoch(first) + 3)
        end.set()
        gone(topic, "a")
        self.assertEqual(seen, [1])

    def test_a_message_with_a_shorter_lease_is_kept_too(self):
        topic, seen, end = fresh(), [], threading.Event()
        self.work(topic, lambda m: (seen.append(m.attempt), end.wait(60)) and None, lease="5m")
        bell.publish(topic, "x", id="a", lease="3s")
        until(lambda: bellhop_client._epoch(bell.inspect(topic, "a").get("until", "1970-01-01T00:00:00Z")) > time.time() + 60)
        end.set()
        gone(topic, "a")
        self.assertEqual(seen, [1])

    def test_cancel_with_stop_ends_a_handler(self):
        topic = fresh()

        def handle(m):
            m.stopped.wait(60)
            raise RuntimeError("stopped")

        self.work(topic, handle, lease="3s")
        bell.publish(topic, "x", id="a")
        until(lambda: state(topic, "a") == "leased")
        self.assertTrue(bell.cancel(topic, "a", stop=True)["stopping"])
        gone(topic, "a")

    def test_nothing_is_settled_that_another_has(self):
        topic, seen = fresh(), []

        def handle(m):
            seen.append(m.attempt)
            if m.attempt == 1:
                seen.append(m.stopped.wait(60))

        told = self.work(topic, handle, lease="900ms").told
        bell.publish(topic, "x", id="a", try_timeout="1s")
        gone(topic, "a")
        self.assertEqual((seen, told), ([1, True, 2], []))

    def test_as_many_are_handled_at_a_time_as_there_are_hands(self):
        topic, ends = fresh(), []

        def handle(m):
            end = threading.Event()
            ends.append(end)
            end.wait(60)

        self.work(topic, handle, concurrency=3)
        for _ in range(7):
            bell.publish(topic, "x")
        for left, handled in (4, 3), (1, 3), (0, 1):
            until(lambda: len(ends) == handled and bell.call("GET", f"/v1/topics/{topic}")["ready"] == left)
            some, ends[:] = ends[:], []
            for end in some:
                end.set()

    def test_a_worker_of_several_topics(self):
        a, b, seen = fresh(), fresh(), []
        bell.publish(b, "x", id="1")
        bell.publish(a, "x", id="2", delay="10ms")
        until(lambda: state(a, "2") == "ready")
        self.work([a, b], lambda m: seen.append(m.id), order="oldest")
        until(lambda: len(seen) == 2)
        self.assertEqual(seen, ["1", "2"])

    def test_stop_ends_a_claim_that_waits(self):
        topic = fresh()
        with bell.work(topic, print):
            until(lambda: bell.call("GET", f"/v1/topics/{topic}")["waiting"] == 1)
        until(lambda: bell.call("GET", f"/v1/topics/{topic}")["waiting"] == 0)

    def test_a_signal_stops_all_workers_of_a_process(self):
        topic = fresh()
        program = f"""
            from bellhop_client import Bellhop
            from contextlib import ExitStack
            with ExitStack() as workers:
                [workers.enter_context(Bellhop().work({topic!r}, print)) for _ in range(11)][0].until_signal()
        """
        with subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stderr=subprocess.PIPE, text=True) as process:
            self.addCleanup(process.kill)
            until(lambda: catches(process, signal.SIGTERM))
            process.send_signal(signal.SIGTERM)
            self.assertEqual((process.stderr.read(), process.wait()), ("", 0))

    def test_stop_gives_back_what_is_not_done_within_the_grace(self):
        topic, aborted = fresh(), threading.Event()

        def handle(m):
            m.stopped.wait(60)
            aborted.set()

        worker = bell.work(topic, handle, grace="50ms")
        bell.publish(topic, "x", id="a")
        until(lambda: state(topic, "a") == "leased")
        worker.stop()
        self.assertTrue(worker.join() and aborted.wait(60))
        info = bell.inspect(topic, "a")
        self.assertEqual((info["state"] in ("ready", "scheduled"), info.get("attempts_used", 0), info["snoozed"]), (True, 0, 1))

    def test_a_claim_is_repeated_for_ever(self):
        topic, server = fresh(), self.proxy("refused", "busy", "refused")
        told = self.work(topic, lambda m: None, bell=Bellhop(server.url)).told
        bell.publish(topic, "x", id="a")
        gone(topic, "a")
        self.assertEqual([type(err) for err, _ in told], [Unanswered, Problem, Unanswered])

    def test_a_publish_with_an_id_is_repeated_and_one_without_is_not(self):
        topic, server = fresh(), self.proxy("lost", "lost", "refused")
        first = Bellhop(server.url).publish(topic, "x", id="a", delay="1h")
        self.assertEqual((first["id"], first["outcome"], len(server.got), state(topic, "a")), ("a", "created", 4, "scheduled"))
        alone = self.proxy("lost")
        with self.assertRaises(Unanswered):
            Bellhop(alone.url).publish(topic, "x")
        self.assertEqual(len(alone.got), 1)

    def test_an_acknowledgement_whose_answer_is_lost_counts(self):
        topic, server = fresh(), self.proxy("fine", "lost")
        bell.publish(topic, "x", id="a")
        worker = self.work(topic, lambda m: None, bell=Bellhop(server.url))
        gone(topic, "a")
        until(lambda: sum("/ack?" in line for line in server.got) == 2)
        self.assertEqual(worker.told, [])

    def test_a_wrong_token_ends_a_worker(self):
        told = []
        worker = Bellhop(os.environ["BELLHOP_TOKENS_URL"], token="wrong").work("a", print, on_error=lambda err, m: told.append(err.status))
        with self.assertRaises(Problem) as refused:
            worker.join()
        self.assertEqual((refused.exception.status, told), (401, [401]))
        shop = Bellhop(os.environ["BELLHOP_TOKENS_URL"], token="8f14e45fceea167a5a36dedd4bea2543")
        self.assertEqual(shop.publish("mail", "x")["outcome"], "created")

    def test_bad_input_is_refused_before_a_call(self):
        nothing = Bellhop("http://127.0.0.1:1")
        for call, message in [
            (lambda: Bellhop("127.0.0.1:8420"), "^url: "),
            (lambda: Bellhop("http://user:secret@host"), "^url: "),
            (lambda: Bellhop(token="a\nb"), "^token: "),
            (lambda: nothing.work("a", print, lease="10ms"), "^lease 10ms: give 100ms or more"),
            (lambda: nothing.work("a", print, lease="soon"), "^lease 'soon': write a duration"),
            (lambda: nothing.work("a", print, keep="1"), "^keep '1': write a duration"),
            (lambda: nothing.work("a", print, concurrency=0), "^concurrency 0: "),
            (lambda: nothing.work("a", "b"), "^handler: "),
            (lambda: nothing.work([f"a{n}" for n in range(33)], print), "^topic: 33 topics; give 1 to 32"),
            (lambda: nothing.work([], print), "^topic: 0 topics"),
            (lambda: Later("soon"), "^delay 'soon': write a duration"),
            (lambda: nothing.publish("a", print), "JSON"),
        ]:
            with self.assertRaisesRegex((TypeError, ValueError), message):
                call()
        worker = bell.work(fresh(), print)
        child = os.fork()
        if child == 0:
            try:
                worker.stop()
            except RuntimeError as err:
                os._exit(7 if "made before a fork" in str(err) else 1)
            os._exit(1)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7)
        worker.stop()
        self.assertTrue(worker.join())

    def test_a_stall_is_told(self):
        topic = fresh()
        program = f"""
            from bellhop_client import Bellhop
            def handle(m):
                print("begun", m.attempt, flush=True)
                m.stopped.wait(60)
            with Bellhop().work({topic!r}, handle, lease="300ms", on_error=lambda err, m: print(err, flush=True)) as worker:
                worker.until_signal()
        """
        with subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True) as process:
            self.addCleanup(process.kill)
            bell.publish(topic, "x", id="a")
            self.assertEqual(process.stdout.readline(), "begun 1\n")
            process.send_signal(signal.SIGSTOP)
            until(lambda: state(topic, "a") != "leased")
            process.send_signal(signal.SIGCONT)
            told = r"^the process stood still for \d+\.\d s; messages may come twice$"
            self.assertTrue(any(re.search(told, line) for line in process.stdout))  # others may come before
            until(lambda: catches(process, signal.SIGTERM))  # its main thread may have stood still on its way to that
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(), 0)

    def test_advance_moves_a_manual_clock(self):
        topic, seen = fresh(), []
        slow = Bellhop(os.environ["BELLHOP_CLOCK_URL"])
        with slow.work(topic, lambda m: seen.append(m.id)):
            slow.publish(topic, "x", id="a", delay="30m")
            self.assertEqual(slow.advance("29m")["delivered"], 0)
            self.assertEqual(slow.advance("1m")["delivered"], 1)
        self.assertEqual(seen, ["a"])


if __name__ == "__main__":
    unittest.main()
