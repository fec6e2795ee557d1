"""Passes only if the types fit: each line that ignores an error must have that one."""

from __future__ import annotations

from bellhop_client import Bellhop, Bury, Died, Gap, Later, Message, Problem, Timeout, Unanswered

bell = Bellhop("http://127.0.0.1:8420", token="secret", name="mailer")
sent = bell.publish("mail", {"total": 12}, id="mail-1", delay="2s", headers={"Tenant": "7"}, unique_for="1h", newer=1)
bell.publish("mail", b"\xff", due="2026-11-29T12:00:00Z", if_exists="replace", group="g", on_dead="go", attempts=3)
bell.broadcast("prices", "42")
bell.reschedule("mail", sent["id"], delay="1h")
stopping: bool = bell.cancel("mail", sent["id"], stop=True)["stopping"]
result: str | bytes | None = bell.wait("mail", sent["id"], timeout="1m")
print(stopping, result, bell.inspect("mail", sent["id"]), bell.advance("30m"))


def handle(message: Message) -> dict[str, int]:
    attempt: int = message.attempt
    key: str | None = message.key
    if message.json()["total"] > 1000 and attempt > len(message.history):
        raise Later("1m")
    if not message.bytes or message.stopped.is_set():
        raise Bury(f"{key} of {message.due} is empty: {message.text} {message.headers.get('Tenant')}")
    return {"total": 12}


async def handle_too(message: Message) -> None:
    print(message.id)


def on_error(err: BaseException, message: Message | None) -> None:
    print(err, message.id if message else "")


with bell.work(["mail", "order.timeout"], handle, concurrency=8, lease="1m", keep="1h", order="oldest", min_age="1s", grace="5s", on_error=on_error) as worker:
    worker.until_signal()
worker = bell.work("mail", handle_too)
worker.stop()
ended: bool = worker.join(timeout=1)

with bell.listen("prices.>", since="beginning") as listening:
    for heard in listening:
        print(heard.topic if isinstance(heard, Gap) else heard.text, heard.bookmark)
        listening.close()
try:
    bell.call("PATCH", "/v1/topics/mail/settings", query={"a": 1}, body={"attempts": 3}, headers={"A": "b"})
except Problem as err:
    print(err.status, err.type, err.detail, err.errors[0]["name"])
except Died as err:
    print(err.info["reason"])
except (Timeout, Unanswered) as err:
    print(err)

bell.publish("mail", "x", delay=30)  # type: ignore[arg-type]
bell.work("mail", "handler")  # type: ignore[arg-type]
bell.work("mail", handle, lease=30)  # type: ignore[arg-type]
bell.work("mail", handle, concurency=8)  # type: ignore[call-arg]
Later()  # type: ignore[call-arg]
sent.id  # type: ignore[attr-defined]
