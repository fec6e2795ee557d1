package dev_test

// A history is what is done with a store, step by step (see verbs), what happens then, and what is left at its end, by states. Each line
// of both begins with the time since the history began. A worker has the name of the message, and which attempt it is.
type history struct {
	name              string
	long              bool // for a clock that runs
	steps, seen, left string
}

var histories = []history{
	{
		name: "due",
		steps: `
			work
			publish now
			publish soon delay=300ms
			publish later delay=1s
			publish by-time at=3s
			publish tomorrow delay=24h
			advance 1s
			advance 2s`,
		seen: `
			0s now 1
			300ms soon 1
			1s later 1
			3s by-time 1`,
		left: `24h0m0s tomorrow scheduled, attempts 0`,
	},
	{
		name: "order",
		steps: `
			work
			publish c at=2s
			publish a at=2s
			publish b at=2s
			publish z at=1.999s
			advance 3s`,
		seen: `
			1.999s z 1
			2s a 1
			2s b 1
			2s c 1`,
	},
	{
		name: "by days", long: true,
		steps: `
			work
			publish a delay=720h
			publish b delay=8760h
			advance 719h
			advance 10000h`,
		seen: `
			720h a 1
			8760h b 1`,
	},
	{
		name: "backoff",
		steps: `
			work a=fail:500ms,fail:1s
			publish a
			advance 3s`,
		seen: `
			0s a 1
			500ms a 2
			1.5s a 3`,
	},
	{
		name: "dead letters",
		steps: `
			work a=fail:500ms,fail:500ms b=bury
			publish a attempts=2
			advance 100ms
			publish b delay=3s
			advance 4s`,
		seen: `
			0s a 1
			500ms a 2
			3.1s b 1`,
		left: `
			500ms a dead, attempts 2, reason no
			3.1s b dead, attempts 1, reason buried by the handler`,
	},
	{
		name: "a lease ends",
		steps: `
			publish a
			claim 1 lease=1s
			advance 1001ms
			claim 1
			ack a`,
		seen: `
			0s claims a 1
			1.001s claims a 2`,
	},
	{
		name: "a lease is kept", long: true,
		steps: `
			publish a
			claim 1 lease=90s
			advance 80s
			extend a 90s
			advance 80s
			extend a 100s
			advance 99s
			claim 0
			ack a`,
		seen: `0s claims a 1`,
	},
	{
		name: "times to live",
		steps: `
			publish later delay=2s ttl=1s
			publish now ttl=1s
			publish dropped ttl=1s fail=drop
			publish stays ttl=1h
			advance 4s`,
		left: `
			0s stays ready, attempts 0
			1s now dead, attempts 0, reason expired
			3s later dead, attempts 0, reason expired`,
	},
	{
		name: "keys",
		steps: `
			publish a2 key=a at=2s
			publish a1 key=a at=1s
			publish b1 key=b at=2s
			advance 2s
			claim 2
			claim 0
			ack b1
			claim 0
			ack a1
			claim 1`,
		seen: `
			2s claims a1 1
			2s claims b1 1
			2s claims a2 1`,
		left: `32s a2 leased, attempts 0`,
	},
	{
		name: "concurrency",
		steps: `
			set concurrency=2
			publish a at=1s
			publish b at=1s
			publish c at=1s
			advance 1s
			claim 2
			claim 0
			advance 500ms
			ack b
			claim 1
			ack a
			ack c`,
		seen: `
			1s claims a 1
			1s claims b 1
			1.5s claims c 1`,
	},
	{
		name: "rate",
		steps: `
			set rate=1/s
			work
			publish a at=1s
			publish b at=1s
			publish c at=1s
			advance 4s`,
		seen: `
			1s a 1
			2s b 1
			3s c 1`,
	},
	{
		name: "schedule", long: true,
		steps: `
			work
			schedule nightly cron=30_2_*_*_* zone=Europe/Berlin
			schedule rarely every=20h
			advance 50h`,
		seen: `
			1h30m nightly 1
			20h rarely 1
			25h30m nightly 1
			40h rarely 1
			49h30m nightly 1`,
		left: `
			60h rarely scheduled, attempts 0
			73h30m nightly scheduled, attempts 0
			80h rarely scheduled, attempts 0
			97h30m nightly scheduled, attempts 0`,
	},
	{
		name: "await",
		steps: `
			publish a delay=500ms
			await a
			advance 500ms
			claim 1
			advance 500ms
			ack a 42
			await a
			advance 0s`,
		seen: `
			500ms claims a 1
			1s a ended done 42
			1s a ended done 42`,
		left: `1s a done, attempts 0, result 42`,
	},
	{
		name: "broadcast",
		steps: `
			listen desk
			listen audit
			leave audit
			broadcast b1 delay=500ms
			broadcast b2 delay=1s
			advance 500ms
			advance 500ms
			listen audit
			advance 0s`,
		seen: `
			500ms desk hears b1
			1s desk hears b2
			1s audit hears b1
			1s audit hears b2`,
	},
	{
		name: "cancel",
		steps: `
			work
			publish a delay=1h
			cancel a
			publish b delay=500ms
			advance 1s`,
		seen: `
			0s a was scheduled
			500ms b 1`,
	},
	{
		name: "cancel with stop",
		steps: `
			publish a
			claim 1
			advance 500ms
			cancel a stop
			extend a 30s
			nack a 0s
			claim 0`,
		seen: `
			0s claims a 1
			500ms a was leased
			500ms extend a is refused: stop`,
	},
	{
		name: "pause until",
		steps: `
			work
			pause 1s
			publish a
			publish b delay=500ms
			publish c delay=1500ms
			advance 2s`,
		seen: `
			1s a 1
			1s b 1
			1.5s c 1`,
	},
	{
		name: "unique_for",
		steps: `
			work
			publish a unique_for=3s
			advance 500ms
			publish a
			advance 4s
			publish a
			advance 0s`,
		seen: `
			0s a 1
			500ms publish a is refused: exists
			4.5s a 1`,
	},
	{
		name: "snooze",
		steps: `
			work a=snooze:500ms,snooze:1s,fail:500ms
			publish a
			advance 3s`,
		seen: `
			0s a 1
			500ms a 1
			1.5s a 1
			2s a 2`,
	},
	{
		name: "then=after",
		steps: `
			publish a
			claim 1
			publish a
			publish a then=after delay=500ms
			advance 1s
			ack a
			claim 1
			nack a 1s
			advance 1s
			claim 1
			ack a`,
		seen: `
			0s claims a 1
			0s publish a is refused: exists
			1s claims a 1
			2s claims a 2`,
	},
	{
		name: "debounce",
		steps: `
			work
			publish a delay=4s if_exists=debounce
			publish b delay=3s if_exists=debounce max_wait=3500ms
			advance 1s
			publish a delay=4s if_exists=debounce
			publish b delay=3s if_exists=debounce max_wait=3500ms
			advance 5s`,
		seen: `
			3.5s b 1
			5s a 1`,
	},
	{
		name: "reschedule",
		steps: `
			work
			publish a delay=1h
			publish b delay=1h
			reschedule b 500ms
			reschedule a 2s
			advance 3s`,
		seen: `
			500ms b 1
			2s a 1`,
	},
	{
		name: "late_after",
		steps: `
			publish a late_after=1s
			publish b late_after=1s late=drop
			publish c late_after=1h
			advance 1500ms
			claim 1
			ack c`,
		seen: `1.5s claims c 1`,
		left: `1.5s a dead, attempts 0, reason late`,
	},
}
