// Package natsgate is the gateway to NATS: programs in any language publish,
// claim and settle messages, are woken, and listen to broadcasts with nothing but
// a NATS client:
//
//	gate, err := natsgate.New(store, natsgate.Options{URL: "nats://127.0.0.1:4222"})
//	...
//	carry, err := carrier.New(store, carrier.Options{OnTerm: gate.Term})
//	...
//	err = gate.Run(ctx) // until ctx ends; carry.Run beside it
//
// # What is sent
//
// Of many daemons only the one whose carrier is elected sends. The prefix, here bellhop, may be changed.
//
//	bellhop.wake.TOPIC           how many messages were made ready. A hint, at most once; in a queue group one client is woken
//	bellhop.broadcast.TOPIC      a broadcast: its body, with the headers of CloudEvents' binary mode, Nats-Msg-Id and Bellhop-Position
//	bellhop.beat                 {"carrier","epoch","time"} with each heartbeat
//	bellhop.event.carrier        the same, when a carrier is elected
//	bellhop.event.dead.TOPIC     {"topic","id","reason","attempts"} of a message that died
//
// In a store of several shards each shard has a carrier, which sends what concerns its
// topics. An event.carrier comes for each, with {"shard":3,"shards":8} beside; beats come
// from that of the shard 0 alone. A broadcast has the header Bellhop-Shard: 3/8, and its
// Bellhop-Position holds within the shard. Those of one topic come in their order.
//
// Broadcasts are read from the log in Redis, which also keeps the position of the
// last one passed on. The position advances when NATS has confirmed a broadcast: with
// Options.JetStream by the acknowledgement of the stream, else by the answer to a
// ping sent behind it. So none is lost while NATS is away, nor when the carrier
// changes, as long as the log keeps it. Unconfirmed broadcasts are sent again. A stream
// stores such a broadcast once, by its Nats-Msg-Id, within its window of duplicates,
// which is two minutes if the gateway made the stream. A listener without a stream may
// get it twice, and misses broadcasts that were sent while it was disconnected. A
// broadcast that expires before NATS takes it is left out. A stream that discards new ones
// when it is full gets one at a time, so that none overtakes a refused one; that is slower.
// The gateway reads this when it connects, and after a refusal: so change it while no
// broadcasts are under way.
//
// Messages of pushes to nats:SUBJECT (package push) are requests on that subject, from
// every daemon. A message is claimed first. The client that gets it, best one of a queue
// group, answers as to the reply subject of a claimed message, below. No answer within the
// time of the push, 30 s, uses up an attempt; +WPI restarts that time. While no client
// listens messages stay as they are, and no attempt is used up: each subject is tried once a
// second, and where there are many ten in all. So it is where a stream stores the subject, whose
// answer comes first and is passed over, and no client answers in time. Choose how many messages are in flight, 32 of
// a topic for each daemon, so that the clients handle them in that time.
//
// # Requests
//
// Every daemon answers: the subjects are those of one NATS micro service named
// bellhop, in a queue group of that name.
//
//	bellhop.publish.TOPIC            the data is the body, which may be empty
//	bellhop.publish-broadcast.TOPIC  the same for a broadcast
//	bellhop.claim.TOPIC              {"wait":"30s","max":10,"lease":"30s","min_age":"5m","worker":"shop-1"}, or "ack":"now" and no lease,
//	                                 or nothing for one message that is there
//	bellhop.settle.GATE.TOKEN        the reply subject of a claimed message
//	bellhop.cancel.TOPIC             {"id":"order-4711"}, and "next":true for what follows it, or "stop":true to stop its worker, too
//	bellhop.reschedule.TOPIC         {"id":"order-4711","delay":"1h"}, or "due", or neither for now
//	bellhop.inspect.TOPIC            {"id":"order-4711"}, and "wait":"30s" for its end
//	bellhop.list.TOPIC               {"state":"ready"}, or nothing for what is scheduled
//	bellhop.list-topics              nothing, to count the messages of all topics
//	bellhop.count-topic.TOPIC        nothing, to count those of one
//	bellhop.list-keys.TOPIC          {"sort":"oldest"}, to list the keys of which messages are blocked
//	bellhop.list-groups.TOPIC        nothing, to list its groups
//	bellhop.get-group.TOPIC          {"name":"import-7"}, for what it waits for
//	bellhop.forget-group.TOPIC       the same, to cancel what waits for it
//	bellhop.settings.TOPIC           {"attempts":5,"lease":"1m","backoff_max":null}, or nothing to read them
//	bellhop.defaults                 the same for all topics that have no settings of their own
//	bellhop.pause.TOPIC              nothing, or {"until":"60s"}, or a time, when the topic is resumed by itself
//	bellhop.resume.TOPIC             nothing
//	bellhop.list-dead.TOPIC          nothing, to list dead letters
//	bellhop.carrier                  nothing
//	bellhop.clock                    nothing, for the time of bellhop dev --clock manual
//	bellhop.advance                  {"advance":"30m"}, or "to" or "next", to move it; give the request time for what falls due
//	bellhop.workers                  nothing, to list the daemons, workers and listeners that are there
//	bellhop.listeners                {"topic":"prices.gold"}, or nothing, to list the named listeners
//	bellhop.receivers.TOPIC          {"id":"sale-7"}, to list how far each of these is with a broadcast
//	bellhop.list-schedules.TOPIC     nothing, to list its schedules
//	bellhop.list-all-schedules       the same of all topics
//	bellhop.show-schedule.TOPIC      {"name":"daily"}
//	bellhop.next-of-schedule.TOPIC   the same, and {"n":12}, or with a rule: {"name":"try","cron":"30 2 * * *"}
//	bellhop.apply-schedules.TOPIC    {"schedules":[{"name":"daily","every":"24h","body":""}],"prune":true}
//	bellhop.run-schedule.TOPIC       {"name":"daily"}
//	bellhop.backfill-schedule.TOPIC  {"name":"daily","from":"2026-11-20T00:00:00Z","to":"2026-11-22T00:00:00Z"}
//	bellhop.pause-schedule.TOPIC     {"name":"daily"}
//	bellhop.resume-schedule.TOPIC    the same
//	bellhop.delete-schedule.TOPIC    the same
//	bellhop.list-pushes              nothing, to list the pushes
//	bellhop.show-push                {"name":"crm"}
//	bellhop.test-push                the same, to send a test
//	bellhop.pause-push               the same
//	bellhop.resume-push              the same
//	bellhop.delete-push              the same
//	bellhop.get-outbox               nothing, for what waits in the outboxes, and who relays it
//	bellhop.list-refused             nothing, to list what they hold that cannot be published
//	bellhop.retry-refused            {"ids":"17,18"}, or {"all":true}, to publish it behind all others
//	bellhop.purge-refused            the same, or {"waiting":true,"before":"2030-01-02T00:00:00Z"} for what waits
//	bellhop.forecast                 {"bucket":"1h","count":24}, or nothing, to count what falls due
//	bellhop.history                  {"step":"1m"}, or nothing, for what happened in the past
//	bellhop.find.TOPIC               {"q":"state:dead reason~timeout"}, to find messages by what they hold
//	bellhop.find-all                 the same in all topics
//	bellhop.act.TOPIC                {"act":"requeue","q":"state:dead","all":true}, to act on all that it finds
//	bellhop.act-all                  the same in all topics
//
// From cancel on, what a request may say and its answer are those of HTTP (GET
// /v1/openapi.json): its parameters are members of one JSON object, in which durations are
// strings. A list takes a limit and, for the next page, the cursor of the answer before. An
// answer that would be larger than max_payload has fewer elements, and a cursor.
//
// A request to publish has the headers Bellhop-Id, Bellhop-Key, Bellhop-If-Busy,
// Bellhop-Delay, Bellhop-Due, Bellhop-Zone, Bellhop-Spread, Bellhop-Ttl, Bellhop-Attempts,
// Bellhop-Lease, Bellhop-Try-Timeout, Bellhop-Fail, Bellhop-Late-After, Bellhop-Late,
// Bellhop-If-Exists, Bellhop-Max-Wait, Bellhop-Then and Bellhop-Unique-For, all optional;
// Content-Type or ce-datacontenttype; and Bellhop-Header-NAME for each header NAME that is kept with the
// message. They are the fields of notify.Message; their names are read without regard to
// case. The reply has the outcome: created; with Bellhop-If-Exists kept, replaced or moved,
// and previous_due; with Bellhop-If-Busy dropped. A refusal with 409 has the outcome refused.
//
// A request to inspect that has a wait, of up to 5m, is answered when the message is dead,
// or done and kept, or as it is when the wait is over: give the request a longer timeout.
// It is answered with 410 if the message ended and nothing is kept of it, and with 404 at
// once if it is unknown. 10,000 requests wait at a time, claims among them; further ones get a 503.
//
// A request to find is answered with a page of messages when it is full, and
// after a second in any case: go on with its cursor,
// and the same question. Package find describes questions. Searches of bodies are logged,
// and two are under way at a time; further ones get a 429.
//
// A request to change settings names the ones to change: attempts, lease, backoff_min,
// backoff_max, archive_acked, history, key_concurrency, on_retry, on_dead, and
// paused, concurrency, rate and burst, which only single topics have. Null restores the
// default. Settings apply to every way to claim, not to NATS alone.
//
// The reply is JSON (packages daemon/calls and daemon/api). An error has the headers
// Nats-Service-Error and Nats-Service-Error-Code, a status of HTTP, and an RFC 9457
// problem as its data. A refused request has changed nothing.
//
// The reply subject is the requester's own, usually an inbox. The gateway refuses a
// reply subject that begins with $ or with the prefix and a dot, or is that of a push,
// or no literal subject: it answers with its own rights, so the answer could do what the requester
// may not. The requester cannot be told: the request is counted as
// Stats.RefusedReplies, and logged.
//
// The worker that a claim names is listed while it claims, and for a minute after that, or
// as long as the lease that it got.
//
// The answer to a claim is one message for each claimed message, and at the end an empty
// one with the header Status: 204. A claim that has a wait, of up to 5m, is answered when
// there is a message, or with the end alone when the wait is over or the daemon stops: give
// the request a longer timeout, and an inbox of its own. So NATS notices if nobody receives
// a message, since the client went away or gave up: it is released at once, and no attempt is
// used up. Where the connection of the daemon to NATS breaks its claims that wait end, and
// claim nothing: their clients claim again after their timeouts.
//
// A claimed message has the body as its data, the headers of CloudEvents' binary mode, Bellhop-Key
// and Bellhop-Fence if it has a key, Bellhop-Attempt, Bellhop-First-Due, which is the ce-time of
// its first attempt, Bellhop-Late-Ms, how late it was claimed, and Bellhop-Lease-Until. An answer to its reply subject settles it: +ACK
// when it is done, +ACK {"keep":"24h","result":"done"} to keep it with a result for so long, which
// may be any JSON and is up to 64 KiB, -NAK to get it again after a backoff, -NAK
// {"delay":"5s","reason":"busy"} to choose when, or to say why, which is kept with the attempt,
// +TERM or +TERM REASON to bury it. A -NAK {"attempt":"keep"}, with a delay or without, puts it off
// and uses up no attempt; it is refused if the delay ends past the time to live, and without one
// for the 1,001st time. +WPI extends the lease by the time of the claim, from now, at most to the
// end of its try timeout; the reply subject stays the same however often. +WPI
// {"progress":40,"note":"page 2 of 5"} also says how far the work is, in percent, with a note of
// up to 200 bytes or none, which inspect tells until the lease ends. A settlement that is sent
// as a request is answered +OK, with the header Bellhop-Left-Out where a part of it is not kept, as
// Redis is short of memory: result, so that the message is gone, or history, which then lacks the
// attempt. Otherwise an error is counted, and logged at most once a minute: the message stays
// leased, and comes again. Of a message that is cancelled with stop each +WPI is answered 409, of the
// type urn:bellhop:stop, and its lease goes on as it is: end the work, and send -NAK, which cancels it;
// so does the end of the lease. A +ACK stands.
//
// What is claimed with {"ack":"now"} is acknowledged in the same step: it has neither
// Bellhop-Lease-Until nor a reply subject, and comes at most once. A message that gets
// lost on its way, or whose handler fails, does not come again.
//
// # Guarantees
//
// The reply acknowledges a publish: a requester that got none repeats the request
// with the same Bellhop-Id. A claimed message is leased as any other: if it gets lost
// between the gateway and its handler, it is handed out again when the lease expires. Any
// daemon can carry out a settlement, also for a message that another daemon claimed
// which is gone by now. After bellhop rotate what was claimed before, or within a
// second after it, cannot be settled, and is handed out again when its lease expires.
//
// A message that exceeds the server's max_payload, headers included, is buried with
// that reason when it is claimed: it is kept among the dead letters. With {"ack":"now"}
// it is lost; the log names it.
//
// Up to 256 requests are handled at the same time, so that one that waits for
// Redis does not hold up others; fewer large ones, 8 claims, 8 inspections, 4 that list
// or find messages, and 2 lists of schedules, so that they fit into memory. More wait in this process: up to 65,536 of an endpoint, and 64 MiB of
// requests to publish or 8 MiB of others. Requests beyond that are lost and counted as
// Stats.Floods; their requesters time out. Requests that wait when the connection
// breaks are lost, too.
//
// # Connection
//
// NATS may be away when a gateway starts, or go away, or refuse the credentials:
// each change is logged once, all failures are counted, and the gateway reconnects within
// about a second after NATS is back. It reads the files of credentials and certificates
// again each time. Nothing is buffered meanwhile: messages that cannot be sent are
// counted as lost. No password or token is logged.
//
// # Rights
//
// A gateway answers to the reply subject that a requester names, within the rights of its
// own NATS user. So give that user no more than these, here with a stream called NAME.
// To subscribe to:
//
//	bellhop.>  $SRV.>  _INBOX.>
//
// A call on a subject that it may not subscribe to is not answered, which is logged.
//
// To publish to:
//
//	bellhop.wake.>  bellhop.broadcast.>  bellhop.beat  bellhop.event.>, and the subjects of pushes
//	_INBOX.>, and wherever else its clients have their inboxes
//	$JS.API.STREAM.INFO.NAME  $JS.API.STREAM.CREATE.NAME  to find the stream, or make it
//	$JS.API.STREAM.NAMES                                  to report which stream has its subjects
//
// Nothing signs what the gateway sends, so no other user should have the right to publish
// there. With it, a user can forge:
//
//	the subject of a push    a message that Bellhop never had, for a client to handle
//	bellhop.broadcast.TOPIC  a broadcast that was never sent; a stream stores it, and drops a true one with the same
//	                         Nats-Msg-Id as a duplicate
//	bellhop.wake.TOPIC       wake-ups: workers claim for nothing
//	bellhop.beat             heartbeats: they hide that no carrier runs
//	bellhop.event.>          elections and deaths
//
// A user may make the calls to whose subjects it may publish. bellhop.find-all reads the
// messages of all topics, and bellhop.workers shows the hosts of all workers. Keep these to
// operators: settings, defaults, pause, act, act-all and those of pushes, which stop a topic,
// or have its messages die, be gone or go elsewhere.
//
// A user who may publish to _INBOX.> can answer for others whose inboxes are known, and
// settle messages that were delivered to them: a client that gets deliveries needs only
// allow_responses, with a max above 1 if it sends +WPI. A user who may subscribe to
// _INBOX.> reads messages that others claim, and can settle them: best give each user an
// inbox prefix of its own. A user who may subscribe to the subjects of requests reads
// them and, in the queue group bellhop, takes them away.
package natsgate
