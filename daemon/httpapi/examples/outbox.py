# Publishes what transactions wrote to a table of SQLite, 100 rows at a time in the order of seq. They may come twice. Run one, with Python 3.10 or newer:
#   python3 outbox.py shop.db
# Make the table once. Each further column is a field of a line, such as key TEXT. By its id a repeated one is known, and of 100 that are due at once the ids say the order:
#   CREATE TABLE outbox (seq INTEGER PRIMARY KEY AUTOINCREMENT, topic TEXT, id TEXT NOT NULL, due TEXT, body TEXT CHECK (length(body) <= 262144), refused TEXT) STRICT;
# For MySQL take its driver, and %s in place of ?; for SQL Server TOP 100 in place of LIMIT 100.
import http.client, json, os, sqlite3, sys, time, urllib.request

url = os.environ.get("BELLHOP_URL", "http://127.0.0.1:8420") + "/v1/messages"
db = sqlite3.connect(sys.argv[1])
db.row_factory, db.text_factory = sqlite3.Row, lambda text: text.decode(errors="replace")
while True:
    try:
        rows = db.execute("SELECT * FROM outbox WHERE refused IS NULL ORDER BY seq LIMIT 100").fetchall()
        lines = [json.dumps({name: row[name] for name in row.keys() if name not in ("seq", "refused")} | {"if_exists": "keep"}) for row in rows]
        while len(lines) > 1 and sum(map(len, lines)) > 8 << 20:  # a call takes 16 MiB
            lines.pop()
        answers = urllib.request.urlopen(url, "\n".join(lines).encode(), timeout=60).read().splitlines() if lines else []
        done = [(seq, json.loads(answer).get("error")) for (seq, *_), answer in zip(rows[: len(lines)], answers, strict=True)]
        with db:  # what Redis does not take now stays, what it never takes is kept with the reason
            db.executemany("DELETE FROM outbox WHERE seq = ?", [(seq,) for seq, error in done if not error])
            db.executemany("UPDATE outbox SET refused = ? WHERE seq = ?", [(error["detail"], seq) for seq, error in done if error and error["status"] < 500])
        time.sleep(0 if any(not error or error["status"] < 500 for _, error in done) else 0.25)
    except (OSError, http.client.HTTPException, ValueError, sqlite3.Error) as why:
        print(f"cannot publish; retrying: {why}", file=sys.stderr, flush=True)
        time.sleep(1)
