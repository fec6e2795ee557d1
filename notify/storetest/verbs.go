package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fields"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// A verbOf is what a step does, and its reply where the step says none.
type verbOf struct {
	reply string
	do    func(*Player, step) string
}

// Past is a due time long over, and Future one that does not come while a test runs; steps write them due=past and due=future.
var (
	Past   = time.Date(2001, 2, 3, 4, 5, 6, 789e6, time.UTC)
	Future = time.Date(2199, 1, 2, 3, 4, 5, 678e6, time.UTC)
)

// verbs are all verbs, and what their words mean. An id with a ' behind it stands for the lease before the last of that message. What is
// refused replies refused:leased, refused:exists, refused:dead, complete or taken, none where there is no such message, lost where the lease is,
// else the error. A reply that begins with ~ is a part of the real one.
var verbs = map[string]verbOf{
	// publish ID... OPTIONS of a message, mode=broadcast, body=; in one call. The reply has of each its state if it was created, else OUTCOME:STATE.
	"publish": {"ok", (*Player).publish},
	// cancel ID: the state that it had. cancel ID next: what follows it. stop ID: as cancel, but what is leased is cancelled at the end of its lease.
	"cancel": {"", (*Player).cancel},
	"stop": {"leased", func(p *Player, s step) string {
		state, err := p.Store.Of(p.of(s)).Stop(p.Context(), p.of(s), p.member(s, 0))
		return p.said(stateWord(state), err)
	}},
	// reschedule ID delay= or due=: the state that it has now.
	"reschedule": {"", (*Player).reschedule},
	// claim MOST lease= inbox= min_age= name=; ack acknowledges at once. The reply has the ids, each with :USED if it used up attempts;
	// dead:ID and dropped:ID of what ended instead; nothing, if there is nothing.
	"claim": {"", (*Player).claim},
	// ack ID...; keep= and result= of one. forgotten: nothing is kept.
	"ack": {"ok", (*Player).ack},
	// nack ID delay= reason=; without a delay it waits by the backoff. defer uses up no attempt; bury does not wait. The state that it has then.
	"nack":  {"scheduled", func(p *Player, s step) string { return p.nack(s, store.Nack{}) }},
	"defer": {"scheduled", func(p *Player, s step) string { return p.nack(s, store.Nack{Keep: true}) }},
	"bury":  {"dead", func(p *Player, s step) string { return p.nack(s, store.Nack{Bury: true}) }},
	// release ID... inbox=.
	"release": {"ok", (*Player).release},
	// extend ID... lease= progress= note=; by=claim: by the receipt of the claim.
	"extend": {"ok", (*Player).extend},
	// lapse ID...: its lease is over. expire ID...: its time to live is. hasten BY: what is scheduled is due so much earlier. Nobody knows before a carry.
	"lapse": {"ok", func(p *Player, s step) string {
		return p.each(s, func(member string) error {
			return p.Store.Client().ZAdd(p.Context(), p.Shard.Keys().Leased(), redis.Z{Score: float64(p.Now().Add(-time.Second).UnixMicro()), Member: member}).Err()
		})
	}},
	"expire": {"ok", func(p *Player, s step) string {
		return p.each(s, func(member string) error {
			return p.Store.Client().ZAdd(p.Context(), p.Shard.Keys().Expiries(), redis.Z{Score: 1, Member: member}).Err()
		})
	}},
	"hasten": {"ok", func(p *Player, s step) string {
		by, err := time.ParseDuration(s.words[0])
		Hasten(p, p.Store, by, p.of(s))
		return p.said("ok", err)
	}},
	// pass TIME: Redis's clock has gone on by that.
	"pass": {"ok", func(p *Player, s step) string {
		d, err := time.ParseDuration(s.words[0])
		end := p.Now().Add(d)
		Eventually(p, "redis's clock goes on", func() bool { return p.Now().After(end) })
		return p.said("ok", err)
	}},
	// carry: a call of the carrier; beat: with a beat. The reply has dead:ID and dropped:ID, and repeated:N topics that a beat rang for again.
	"carry": {"ok", (*Player).carry},
	// requeue ID... and purge ID...: how many there were.
	"requeue": {"ok", func(p *Player, s step) string { return p.deal(s, p.Inspector.Requeue) }},
	"purge":   {"ok", func(p *Player, s step) string { return p.deal(s, p.Inspector.Purge) }},
	// set SETTING=VALUE..., VALUE may be default; topic=* for all topics. pause and resume.
	"set":    {"ok", (*Player).set},
	"pause":  {"ok", func(p *Player, s step) string { return p.said("ok", p.Inspector.Pause(p.Context(), p.of(s))) }},
	"resume": {"ok", func(p *Player, s step) string { return p.said("ok", p.Inspector.Resume(p.Context(), p.of(s))) }},
	// is ID=STATE...; none: there is no such message.
	"is": {"ok", (*Player).is},
	// has ID FIELD=VALUE...: what Inspect says of it; a time may be that of another field, what it was at note ID, or now, the time of the last step that did something, each with a duration behind it: expires=due+1h.
	"has":  {"ok", (*Player).has},
	"note": {"ok", func(p *Player, s step) string { p.noted[s.words[0]] = p.inspect(s); return "ok" }},
	// counts COUNT=N...: those of the topic, all others are 0.
	"counts": {"ok", (*Player).counts},
	// list STATE: the ids of that state, in the order of List.
	"list": {"", (*Player).list},
	// wait NAME...: these inboxes wait for messages. rung: which of desk-0 to desk-4 were since the last look; nobody, if none was.
	"wait": {"ok", (*Player).wait},
	"rung": {"", (*Player).rung},
	// redis COMMAND KEY ARGUMENT...: KEY is the name of the table of keys, such as ready:orders.
	"redis": {"ok", (*Player).redis},
	// empty: Redis holds nothing of messages any more.
	"empty": {"ok", func(p *Player, _ step) string { Empty(p, p.Store); return "ok" }},
}

// of returns the topic of a step.
func (p *Player) of(s step) string { return cmp.Or(s.topic, p.Topic) }

// member returns the name of the message of a word in Redis.
func (p *Player) member(s step, word int) string {
	return record.Member(p.of(s), strings.TrimRight(s.words[word], "'"))
}

// Now returns the time by Redis's clock.
func (p *Player) Now() time.Time {
	p.Helper()
	now, err := p.Store.Client().Time(p.Context()).Result()
	Must(p, err)
	return now
}

// Leases returns the leases that a message had, the latest last.
func (p *Player) Leases(topic, id string) []store.Lease { return p.leases[record.Member(topic, id)] }

// lease returns the lease of the message of a word.
func (p *Player) lease(s step, word int) store.Lease {
	p.Helper()
	name := s.words[word]
	all := p.leases[p.member(s, word)]
	back := 1 + strings.Count(name, "'")
	if len(all) < back {
		p.Fatalf("%s: %s was not claimed so often", s.at, name)
	}
	return all[len(all)-back]
}

// said returns a reply, or the error.
func (p *Player) said(reply string, err error) string {
	if err != nil && p.isPart {
		return err.Error()
	}
	for word, is := range map[string]error{
		"refused:exists": notify.ErrExists, "refused:leased": notify.ErrLeased, "refused:dead": notify.ErrDead, "none": notify.ErrNotFound, "lost": notify.ErrLeaseLost,
		"complete": store.ErrGroupComplete, "taken": store.ErrGroupTaken,
	} {
		if errors.Is(err, is) {
			return word
		}
	}
	if err != nil {
		return err.Error()
	}
	return reply
}

// Said returns the reply of a verb that only has to succeed.
func Said(err error) string {
	if err != nil {
		return err.Error()
	}
	return "ok"
}

func stateWord(state record.State) string {
	if state == 0 {
		return "none"
	}
	return state.String()
}

// each calls do with each message of a step.
func (p *Player) each(s step, do func(member string) error) string {
	for i := range s.words {
		if err := do(p.member(s, i)); err != nil {
			return err.Error()
		}
	}
	return "ok"
}

// message returns a message with the options of a step.
func (p *Player) message(s step, id string) notify.Message {
	p.Helper()
	m := notify.Message{Topic: p.of(s), ID: id, Body: []byte("body of " + id)}
	for _, one := range s.options {
		name, value := one[0], one[1]
		switch {
		case name == "body":
			m.Body = []byte(value)
		case name == "mode":
			m.Broadcast = value == "broadcast"
		case name == "due" && value == "past":
			m.Due = Past
		case name == "due" && value == "future":
			m.Due = Future
		default:
			setField(p, s, &m, name, value)
		}
	}
	return m
}

// setField sets a field of a message or a change of settings.
func setField[T any](p *Player, s step, of *T, name, value string) {
	p.Helper()
	all := fields.In[T]()
	i := slices.IndexFunc(all, func(f fields.Field) bool { return f.Name == name })
	if i < 0 {
		p.Fatalf("%s: there is no option %s", s.at, name)
	}
	if err := all[i].Lenient().Set(reflect.ValueOf(of).Elem(), value); err != nil {
		p.Fatalf("%s: %v", s.at, err)
	}
}

func (p *Player) publish(s step) string {
	p.Helper()
	var all []notify.Message
	for _, id := range s.words {
		all = append(all, p.message(s, id))
	}
	results := make([]notify.Result, 1)
	if len(all) == 1 {
		results[0].Publication, results[0].Err = p.Publisher.Publish(p.Context(), all[0])
	} else {
		results = p.Publisher.PublishMany(p.Context(), all)
	}
	var replies []string
	for _, r := range results {
		reply := stateWord(r.State)
		if r.Err == nil && r.Outcome != notify.Created {
			reply = fmt.Sprintf("%s:%s", r.Outcome, reply)
		} else if r.Err == nil && !s.says {
			reply = "ok"
		}
		replies = append(replies, p.said(reply, r.Err))
	}
	if !s.says {
		replies = slices.Compact(replies)
	}
	return strings.Join(replies, " ")
}

func (p *Player) cancel(s step) string {
	if len(s.words) > 1 {
		return p.said("ok", p.Publisher.CancelNext(p.Context(), p.of(s), s.words[0]))
	}
	was, err := p.Publisher.Cancel(p.Context(), p.of(s), s.words[0])
	return p.said(stateWord(was), err)
}

func (p *Player) reschedule(s step) string {
	m := p.message(s, s.words[0])
	to, err := p.Publisher.RescheduleIn(p.Context(), m.Topic, m.ID, m.Delay)
	if !m.Due.IsZero() {
		to, err = p.Publisher.RescheduleAt(p.Context(), m.Topic, m.ID, m.Due)
	}
	return p.said(stateWord(to.State), err)
}

func (p *Player) claim(s step) string {
	p.Helper()
	c := store.Claim{Topic: p.of(s), Max: 1, Lease: p.duration(s, "lease", time.Hour), MinAge: p.duration(s, "min_age", 0), Name: s.option("name"), Inbox: inbox(s)}
	for _, word := range s.words {
		if c.AckNow = c.AckNow || word == "ack"; word != "ack" {
			c.Max, _ = strconv.Atoi(word)
		}
	}
	got, err := p.Store.Of(c.Topic).Claim(p.Context(), c)
	var replies []string
	for _, m := range got.Messages {
		p.leases[m.Member] = append(p.leases[m.Member], m.Lease)
		reply := p.id(m.Member)
		if m.Used > 0 {
			reply = fmt.Sprintf("%s:%d", reply, m.Used)
		}
		replies = append(replies, reply)
	}
	replies = append(replies, p.ended(got.Buried, got.Dropped)...)
	return p.said(cmp.Or(strings.Join(replies, " "), "nothing"), err)
}

// inbox returns the inbox that a step names; the zero one if it names none.
func inbox(s step) (inbox reach.Inbox) {
	if name := s.option("inbox"); name != "" {
		inbox = reach.NewInbox(name, false)
	}
	return inbox
}

// id returns the id in the name of a message.
func (p *Player) id(member string) string { return member[strings.IndexByte(member, ':')+1:] }

// ended returns dead:ID and dropped:ID.
func (p *Player) ended(buried, dropped []store.Buried) (all []string) {
	for _, one := range buried {
		all = append(all, "dead:"+p.id(one.Member))
	}
	for _, one := range dropped {
		all = append(all, "dropped:"+p.id(one.Member))
	}
	return all
}

// leasesOf returns the leases of the messages of a step.
func (p *Player) leasesOf(s step) (all []store.Lease) {
	p.Helper()
	for i := range s.words {
		all = append(all, p.lease(s, i))
	}
	return all
}

// lost returns ok, or lost and which ids, if there are several.
func lost(s step, which []int, err error) string {
	if err != nil {
		return err.Error()
	}
	var ids []string
	for _, i := range which {
		ids = append(ids, s.words[i])
	}
	switch {
	case len(which) == 0:
		return "ok"
	case len(s.words) == 1:
		return "lost"
	}
	return "lost " + strings.Join(ids, " ")
}

func (p *Player) ack(s step) string {
	p.Helper()
	leases, shard := p.leasesOf(s), p.Store.Of(p.of(s))
	if len(s.options) == 0 {
		which, err := shard.Ack(p.Context(), p.of(s), leases)
		return lost(s, which, err)
	}
	r := store.Result{Keep: p.duration(s, "keep", 0)}
	if body := s.option("result"); body != "" {
		r.Body = []byte(body)
	}
	isLost, forgotten, err := shard.AckWith(p.Context(), p.of(s), leases[0], r)
	switch {
	case isLost:
		return "lost"
	case forgotten:
		return "forgotten"
	}
	return p.said("ok", err)
}

func (p *Player) nack(s step, n store.Nack) string {
	p.Helper()
	n.Lease, n.Delay, n.Reason = p.lease(s, 0), p.duration(s, "delay", -1), s.option("reason")
	out, err := p.Store.Of(p.of(s)).Nack(p.Context(), p.of(s), n)
	switch {
	case err != nil:
		return err.Error()
	case out.Lost:
		return "lost"
	case out.Dead:
		return "dead"
	case out.Dropped:
		return "dropped"
	case out.Cancelled:
		return "cancelled"
	}
	return "scheduled"
}

func (p *Player) release(s step) string {
	p.Helper()
	var back []store.Return
	for _, lease := range p.leasesOf(s) {
		back = append(back, store.Return{Lease: lease})
	}
	which, err := p.Store.Of(p.of(s)).Release(p.Context(), p.of(s), inbox(s), 0, back)
	return lost(s, which, err)
}

func (p *Player) extend(s step) string {
	p.Helper()
	ctx := p.Context()
	if text := s.option("progress"); text != "" {
		percent, _ := strconv.Atoi(text)
		ctx = store.WithProgress(ctx, store.Progress{Percent: percent, Note: s.option("note")})
	}
	extend := p.Store.Of(p.of(s)).Extend
	if s.option("by") == "claim" {
		extend = p.Store.Of(p.of(s)).ExtendByClaim
	}
	e, err := extend(ctx, p.of(s), "", p.leasesOf(s), p.duration(s, "lease", time.Hour))
	if err != nil {
		return err.Error()
	}
	for i, receipt := range e.Receipts {
		if all := p.leases[p.member(s, i)]; receipt != 0 && !strings.HasSuffix(s.words[i], "'") {
			all[len(all)-1].Receipt = receipt
		}
	}
	if len(e.Stopped) > 0 {
		return strings.Replace(lost(s, e.Stopped, nil), "lost", "stopped", 1)
	}
	return lost(s, e.Lost, nil)
}

// Token returns the token of the carrier of the topic's shard, which the scenario is.
func (p *Player) Token() string {
	p.Helper()
	if p.carrier == "" {
		e, err := p.Shard.Elect(p.Context(), "me", time.Minute, 0)
		if err != nil || !e.Won {
			p.Fatal(e, err)
		}
		p.carrier = e.Token
	}
	return p.carrier
}

// Carry makes a call of the carrier.
func (p *Player) Carry(beat bool) store.Carried {
	p.Helper()
	m, err := p.Shard.Carry(p.Context(), store.Carry{Token: p.Token(), Lease: time.Minute, Batch: 100, KeepCount: 100, KeepAge: time.Hour, Ready: "0", Beat: beat})
	Must(p, err)
	return m
}

// Sweep does a step of the housekeeping.
func (p *Player) Sweep(w store.Sweep) store.Swept {
	p.Helper()
	w.Token, w.KeepDeadCount, w.KeepDeadAge = p.Token(), cmp.Or(w.KeepDeadCount, 1000), cmp.Or(w.KeepDeadAge, time.Hour)
	w.KeepTopics, w.KeepAge, w.KeepDoneAge = cmp.Or(w.KeepTopics, time.Hour), cmp.Or(w.KeepAge, time.Hour), cmp.Or(w.KeepDoneAge, time.Hour)
	swept, err := p.Shard.Sweep(p.Context(), w)
	Must(p, err)
	return swept
}

func (p *Player) carry(s step) string {
	p.Helper()
	m := p.Carry(slices.Contains(s.words, "beat"))
	replies := p.ended(m.Buried, m.Dropped)
	if m.Repeated > 0 {
		replies = append(replies, fmt.Sprint("repeated:", m.Repeated))
	}
	return cmp.Or(strings.Join(replies, " "), "ok")
}

func (p *Player) deal(s step, deal func(ctx context.Context, topic string, ids ...string) (int, error)) string {
	n, err := deal(p.Context(), p.of(s), s.words...)
	reply := strconv.Itoa(n)
	if !s.says && n == len(s.words) {
		reply = "ok"
	}
	return p.said(reply, err)
}

func (p *Player) set(s step) string {
	p.Helper()
	var c notify.SettingsChange
	for _, one := range s.options {
		if one[1] == "default" {
			c.Default = append(c.Default, one[0])
		} else {
			setField(p, s, &c, one[0], one[1])
		}
	}
	_, err := p.Inspector.Set(p.Context(), p.of(s), c)
	return p.said("ok", err)
}

func (p *Player) is(s step) string {
	for _, one := range s.options {
		info, err := p.Inspector.Inspect(p.Context(), p.of(s), one[0])
		if is := p.said(stateWord(info.State), err); is != one[1] {
			return one[0] + " is " + is
		}
	}
	return "ok"
}

// inspect inspects the message that is the first word of a step.
func (p *Player) inspect(s step) notify.Info {
	p.Helper()
	info, err := p.Inspector.Inspect(p.Context(), p.of(s), s.words[0])
	if err != nil {
		p.Fatalf("%s: %s: %v", s.at, s.words[0], err)
	}
	return info
}

// times are the times of a message, by the words for them.
func times(i notify.Info) map[string]time.Time {
	return map[string]time.Time{
		"due": i.Due, "published": i.Published, "first_due": i.FirstDue, "expires": i.Expires, "until": i.Until, "ended": i.Ended, "moved": i.Moved, "stop": i.Stop,
		"none": {}, "future": Future, "past": Past,
	}
}

// texts are what else a message has.
func texts(i notify.Info) map[string]string {
	all := map[string]string{
		"state": stateWord(i.State), "body": string(i.Body), "result": string(i.Result), "attempts": strconv.Itoa(i.Attempts), "reason": i.Reason, "history": strconv.Itoa(len(i.History)),
		"limit": strconv.Itoa(i.MaxAttempts), "fault": "", "next": "", "progress": "", "left": "none", "group": i.Group,
		"acked": i.Headers[store.HeaderAfterAcked], "died": i.Headers[store.HeaderAfterDead], "dropped": i.Headers[store.HeaderAfterDropped],
		"cancelled": i.Headers[store.HeaderAfterCancelled],
	}
	if i.Left != nil {
		all["left"] = strconv.FormatInt(*i.Left, 10)
	}
	if i.Next != nil {
		all["next"] = string(i.Next.Body)
	}
	if i.Progress != nil {
		all["progress"] = i.Progress.String()
	}
	if i.Fault != nil {
		all["fault"] = i.Fault.Error()
	}
	return all
}

func (p *Player) has(s step) string {
	p.Helper()
	info := p.inspect(s)
	texts, times, noted := texts(info), times(info), times(p.noted[s.words[0]])
	for _, one := range s.options {
		name, value := one[0], one[1]
		if got, is := texts[name]; is {
			if part, isPart := strings.CutPrefix(value, "~"); got != value && !(isPart && strings.Contains(got, part)) {
				return name + " is " + got
			}
			continue
		}
		got, is := times[name]
		if !is {
			return "a message has no " + name
		}
		from, behind, _ := strings.Cut(value, "+")
		d, err := time.ParseDuration(cmp.Or(behind, "0s"))
		earliest, known := times[from]
		latest := earliest
		switch from {
		case "noted":
			earliest, latest = noted[name], noted[name]
		case "now":
			earliest, latest = p.began.Truncate(time.Millisecond), p.Now().Add(2*time.Millisecond)
		default:
			if !known || err != nil {
				return fmt.Sprintf("there is no time %s, %v", value, err)
			}
		}
		if got.Before(earliest.Add(d)) || got.After(latest.Add(d)) {
			return fmt.Sprintf("%s is %v, want %v to %v", name, got, earliest.Add(d), latest.Add(d))
		}
	}
	return "ok"
}

func (p *Player) counts(s step) string {
	all, err := p.Inspector.Count(p.Context(), p.of(s))
	if err != nil {
		return err.Error()
	}
	var got, want []string
	value := reflect.ValueOf(all[0])
	for i := range value.NumField() {
		switch name, is := strings.ToLower(value.Type().Field(i).Name), value.Field(i); {
		case slices.Contains([]string{"topic", "overdue", "lateness", "behind", "oldestblocked"}, name) || is.IsZero(): // no test can predict these
		default:
			got = append(got, fmt.Sprint(name, "=", is))
		}
	}
	for _, one := range s.options {
		want = append(want, one[0]+"="+one[1])
	}
	slices.Sort(got)
	if slices.Sort(want); !slices.Equal(got, want) {
		return cmp.Or(strings.Join(got, " "), "all are 0")
	}
	return "ok"
}

func (p *Player) list(s step) string {
	var ids []string
	var state record.State
	if err := state.UnmarshalText([]byte(s.words[0])); err != nil {
		return err.Error()
	}
	for info, err := range p.Inspector.Messages(p.Context(), p.of(s), state) {
		if err != nil {
			return err.Error()
		}
		ids = append(ids, info.ID)
	}
	return cmp.Or(strings.Join(ids, " "), "nothing")
}

func (p *Player) wait(s step) string {
	for i, name := range s.words {
		keys := p.Store.KeysOf(p.of(s))
		z := redis.Z{Score: float64(1000 + i), Member: keys.Inbox(name)}
		if err := p.Store.Client().ZAdd(p.Context(), keys.Waiting(p.of(s)), z).Err(); err != nil {
			return err.Error()
		}
	}
	return "ok"
}

// desks are the inboxes whose rings are heard.
var desks = []string{"desk-0", "desk-1", "desk-2", "desk-3", "desk-4"}

// hearRings subscribes to the inboxes.
func (p *Player) hearRings() {
	p.Helper()
	var inboxes []string
	for _, desk := range desks {
		inboxes = append(inboxes, p.Store.KeysOf(p.Topic).Inbox(desk))
	}
	p.rings = Subscribe(p, p.Store, inboxes...)
}

func (p *Player) rung(step) string {
	p.Helper()
	keys := p.Store.KeysOf(p.Topic)
	Must(p, ErrOf(Tell(p.Context(), p.Store, keys.Inbox(desks[0]), "end"))) // it comes behind all rings
	var got []string
	for {
		m, err := p.rings.ReceiveTimeout(p.Context(), Deadline)
		Must(p, err)
		if ring, is := m.(*redis.Message); is && ring.Payload == "end" {
			slices.Sort(got)
			return cmp.Or(strings.Join(got, " "), "nobody")
		} else if is {
			got = append(got, ring.Channel[len(keys.Inbox("")):])
		}
	}
}

func (p *Player) redis(s step) string {
	args := []any{s.words[0], p.Store.KeysOf(p.of(s)).Base() + s.words[1]}
	for _, word := range s.words[2:] {
		args = append(args, word)
	}
	for _, one := range s.options { // a word with an =
		args = append(args, one[0]+"="+one[1])
	}
	reply, err := p.Store.Client().Do(p.Context(), args...).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return "none"
	case err != nil:
		return err.Error()
	case !s.says:
		return "ok"
	}
	return strings.Trim(fmt.Sprint(reply), "[]")
}
