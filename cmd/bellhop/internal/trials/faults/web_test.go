package faults_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/subscribers"
)

// callTimeout is how long a client waits for an answer.
const callTimeout = 1500 * time.Millisecond

// browsing is a client that uses only HTTP.
type browsing struct {
	*actor
	*dice
	daemons []string
}

// browse publishes, claims and listens over HTTP until ctx ends.
func (a *actor) browse(ctx context.Context) error {
	b := &browsing{actor: a, dice: newDice(a.random), daemons: strings.Split(os.Getenv("FAULTS_HTTP"), ",")}
	var all sync.WaitGroup
	all.Go(func() { b.publishAll(b.publishing) })
	for range 3 {
		all.Go(func() { b.claimAll(ctx) })
	}
	all.Go(func() { b.claimInOrder(ctx) })
	listening := make(chan error, 1)
	all.Go(func() { listening <- b.listenAll(ctx) })
	say("ready")
	all.Wait()
	return <-listening
}

// do calls one of the daemons, and decodes the answer. The phase is Unknown if the call may or
// may not have happened.
func (b *browsing) do(ctx context.Context, method, path string, query url.Values, body string, into any) (history.Phase, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	address := b.daemons[b.roll(len(b.daemons))] + path + "?" + query.Encode()
	r, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		return history.No, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return history.Unknown, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return history.Unknown, err
	case answer.StatusCode >= 500:
		return history.Unknown, fmt.Errorf("%s: %s", answer.Status, text)
	case answer.StatusCode >= 400:
		return history.No, fmt.Errorf("%s: %s", answer.Status, text)
	case into == nil || len(text) == 0:
		return history.OK, nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return history.Unknown, err
	}
	return history.OK, nil
}

// publishAll publishes messages one by one.
func (b *browsing) publishAll(ctx context.Context) {
	var awaits sync.WaitGroup
	defer awaits.Wait()
	for n := 1; ctx.Err() == nil; n++ {
		m, kind := b.gatewayMessage(b.dice, n, []string{webTopic, webOrderedTopic}, broadcastTopics[0]), "messages"
		if m.Broadcast {
			kind = "broadcasts"
		}
		query := url.Values{}
		for name, value := range asksOf(m) {
			query.Set(name, value)
		}
		op := b.calls(m)
		var reply publication
		phase, err := b.do(context.WithoutCancel(ctx), "POST", "/v1/topics/"+m.Topic+"/"+kind, query, string(m.Body), &reply)
		b.answered(op, phase, reply, err)
		if m.Topic == webTopic && b.roll(4) == 0 {
			awaits.Go(func() { b.await(context.WithoutCancel(ctx), m) })
		}
		rest(ctx, time.Duration(b.roll(40))*time.Millisecond)
	}
}

// dueOf returns a time in the form of records, 0 for none.
func dueOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// claimAll claims and settles, sometimes of several topics, and sometimes so that the claim
// acknowledges.
func (b *browsing) claimAll(ctx context.Context) {
	for ctx.Err() == nil {
		call := history.Record{Op: history.Claim, Topic: webTopic, Lease: lease.Milliseconds(), Count: 3}
		query := url.Values{"max": {"3"}, "wait": {"500ms"}, "lease": {lease.String()}}
		path := "/v1/topics/" + webTopic + "/claim"
		switch b.roll(5) {
		case 0:
			call.Topic, call.Topics = "", strings.Join(sharedClaimed, ",")
			query.Set("topics", call.Topics)
			path = "/v1/claim"
		case 1:
			call.Topic, call.Now = onceTopic, true
			query = url.Values{"max": {"3"}, "wait": {"100ms"}, "ack": {"now"}}
			path = "/v1/topics/" + onceTopic + "/claim"
		}
		b.claim(ctx, call, path, query)
	}
}

// claimInOrder claims one message at a time of a topic of which nobody else does, for leases of odd lengths, so that the claim
// acknowledges, and for so short that many waits end as a message comes.
func (b *browsing) claimInOrder(ctx context.Context) {
	for ctx.Err() == nil {
		its := lease + time.Duration(b.roll(2))*time.Millisecond
		call := history.Record{Op: history.Claim, Topic: webOrderedTopic, Lease: its.Milliseconds(), Count: 1}
		query := url.Values{"wait": {(time.Duration(1+b.roll(40)) * time.Millisecond).String()}, "lease": {its.String()}}
		if b.roll(3) == 0 {
			call.Now = true
			query["lease"], query["ack"] = nil, []string{"now"}
		}
		b.claim(ctx, call, "/v1/topics/"+webOrderedTopic+"/claim", query)
	}
}

// claim makes a claim, and settles what it brings.
func (b *browsing) claim(ctx context.Context, call history.Record, path string, query url.Values) {
	op := b.Call(call)
	var got struct{ Messages []webDelivery }
	phase, err := b.do(context.WithoutCancel(ctx), "POST", path, query, "", &got)
	for _, d := range got.Messages {
		op.Took(d.taken(call, len(got.Messages) == 1))
	}
	op.End(phase, history.Record{Count: len(got.Messages), Error: text(err)})
	for _, d := range got.Messages {
		if !call.Now {
			b.settle(context.WithoutCancel(ctx), d)
		}
	}
	if err != nil {
		rest(ctx, time.Duration(b.roll(100))*time.Millisecond)
	}
}

// A webDelivery is a claimed message in an answer.
type webDelivery struct {
	api.Delivery
	LateMs int64 `json:"late_ms"`
}

// version returns the version of the message.
func (d *webDelivery) version() string { return versionOf(d.Topic, d.Bytes()) }

// taken returns the record of the message. Perhaps it was handed over: the answer does not say.
func (d *webDelivery) taken(call history.Record, handed bool) history.Record {
	r := history.Record{
		Topic: d.Topic, ID: d.ID, Due: d.Due.UnixMilli(), Attempt: d.Attempt, Version: d.version(),
		Receipt: int64(d.Receipt), Lease: call.Lease, Handed: handed,
	}
	if call.Now {
		r.Now, r.Handed, r.Lease, r.Receipt = true, false, 0, d.Due.Add(time.Duration(d.LateMs)*time.Millisecond).UnixMicro()
	}
	return r
}

// settle makes a random call on a claimed message.
func (b *browsing) settle(ctx context.Context, d webDelivery) {
	how, query := history.Ack, url.Values{"receipt": {strconv.FormatInt(int64(d.Receipt), 10)}}
	path := string(how)
	switch n := b.roll(100); {
	case n < 5:
		how, path = history.Nack, "nack"
		query.Set("delay", "100ms")
	case n < 7: // leaves it
		return
	case n < 11:
		how, path = history.Snooze, "nack"
		query.Set("delay", "70ms")
		query.Set("attempt", "keep")
	case n < 18:
		b.extend(ctx, d, query)
	}
	call := history.Record{Op: how, Topic: d.Topic, ID: d.ID, Receipt: int64(d.Receipt), Version: d.version()}
	if how == history.Ack && d.Topic == webTopic && b.roll(3) == 0 {
		call.Keep, call.Result = keep.Milliseconds(), fmt.Sprintf("%s %d", b.process, d.Receipt)
		query.Set("keep", keep.String())
	}
	op := b.Call(call)
	var reply api.LeftOut
	phase, err := b.do(ctx, "POST", "/v1/topics/"+d.Topic+"/messages/"+d.ID+"/"+path, query, call.Result, &reply)
	op.End(phase, history.Record{Forgotten: reply.LeftOut == api.LeftOutResult, Error: text(err)})
}

// await waits for the end of a message.
func (b *browsing) await(ctx context.Context, m notify.Message) {
	wait := time.Duration(1+b.roll(1000)) * time.Millisecond
	op := b.Call(history.Record{Op: history.Await, Topic: m.Topic, ID: m.ID, Wait: wait.Milliseconds()})
	var reply api.Message
	phase, err := b.do(ctx, "GET", "/v1/topics/"+m.Topic+"/messages/"+m.ID, url.Values{"wait": {wait.String()}}, "", &reply)
	if strings.HasPrefix(text(err), "410") {
		op.End(history.OK, history.Record{State: "gone"})
		return
	}
	r := history.Record{Error: text(err)}
	if err == nil {
		r.State = reply.State.String()
	}
	if reply.Result.Result != nil {
		r.Result = *reply.Result.Result
	}
	op.End(phase, r)
}

// extend extends a lease, whose receipt stays the same.
func (b *browsing) extend(ctx context.Context, d webDelivery, query url.Values) {
	op := b.Call(history.Record{Op: history.Extend, Topic: d.Topic, ID: d.ID, Was: int64(d.Receipt), Lease: lease.Milliseconds(), Version: d.version()})
	var reply api.Extended
	phase, err := b.do(ctx, "POST", "/v1/topics/"+d.Topic+"/messages/"+d.ID+"/extend", url.Values{"receipt": query["receipt"], "lease": {lease.String()}}, "", &reply)
	now := history.Record{Was: int64(d.Receipt), Error: text(err)}
	if phase == history.OK {
		now.Receipt = reply.Until.UnixMicro()
	}
	op.End(phase, now)
}

// listenAll listens to server-sent events. When a stream ends, and after a restart, it resumes
// after the last broadcast that it received.
func (b *browsing) listenAll(ctx context.Context) error {
	pattern := patterns["web"][0]
	name := b.name + "/" + pattern
	last, err := b.lastReceived(name)
	if err != nil {
		return err
	}
	start := last
	if start == "" { // from the beginning
		start = subscribers.At(1)
	}
	b.Event(standing(history.Record{Op: history.Listen, Listener: name, Pattern: pattern}, start))
	for ctx.Err() == nil {
		if last, err = b.stream(ctx, pattern, name, last); err != nil {
			logger().Warn("stream ended", "error", err)
		}
		rest(ctx, 20*time.Millisecond)
	}
	return nil
}

// stream reads one stream of events, and returns the id of the last event.
func (b *browsing) stream(ctx context.Context, pattern, name string, last subscribers.Bookmark) (subscribers.Bookmark, error) {
	r, err := http.NewRequestWithContext(ctx, "GET", b.daemons[b.roll(len(b.daemons))]+"/v1/topics/"+pattern+"/broadcasts?since=beginning", nil)
	if err != nil {
		return last, err
	}
	if last != "" {
		r.Header.Set("Last-Event-ID", string(last))
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return last, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return last, errors.New(answer.Status)
	}
	var id subscribers.Bookmark
	var event string
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		field, value, _ := bytes.Cut(lines.Bytes(), []byte(": "))
		switch string(field) {
		case "id":
			if _, err := subscribers.ParseFrom(string(value)); err != nil {
				return last, err
			}
			id = subscribers.Bookmark(value)
		case "event":
			event = string(value)
		case "data":
			if err := b.receiveEvent(name, event, id, value); err != nil {
				return last, err
			}
			last = id
		}
	}
	return last, nil
}

// receiveEvent records an event.
func (b *browsing) receiveEvent(name, event string, id subscribers.Bookmark, data []byte) error {
	if event == "gap" {
		var reply api.Gap
		err := json.Unmarshal(data, &reply)
		b.missed(name, "", subscribers.Gap{Topic: reply.Topic, After: reply.After, UpTo: reply.UpTo})
		return err
	}
	var reply api.Broadcast
	if err := json.Unmarshal(data, &reply); err != nil {
		return err
	}
	b.received(name, &subscribers.Broadcast{Topic: reply.Topic, ID: reply.ID, Due: reply.Due, Attempt: 1}, id, "a daemon")
	return nil
}
