package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// answers sits between a store and its Redis, and can answer scripts in Redis's place.
type answers struct {
	mu     sync.Mutex
	last   any  // what Redis answered to the last script
	answer any  // the answer instead
	forge  bool // use answer
}

func (a *answers) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a *answers) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (a *answers) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		call, ok := cmd.(*redis.Cmd)
		if !ok || cmd.Name() != "fcall" {
			return next(ctx, cmd)
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.forge {
			call.SetVal(a.answer)
			return nil
		}
		err := next(ctx, cmd)
		a.last = call.Val()
		return err
	}
}

// forged calls f while every script gets an answer.
func (a *answers) forged(answer any, f func() error) (err error) {
	a.mu.Lock()
	a.answer, a.forge = answer, true
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		a.forge = false
		a.mu.Unlock()
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f()
}

// A wrong reply is one in which a value is of another kind or missing, or there is one too many.
type wrong struct {
	what  string
	reply []any
}

// wrongs returns a reply made wrong in each possible way, down to the lists in it.
func wrongs(right []any) (all []wrong) {
	all = append(all, wrong{"one too many", append(append([]any{}, right...), any(int64(7)))})
	for i, value := range right {
		with := func(what string, v any) {
			reply := append([]any{}, right...)
			reply[i] = v
			all = append(all, wrong{fmt.Sprintf("value %d is %s", i+1, what), reply})
		}
		if i == len(right)-1 {
			all = append(all, wrong{"the last is missing", right[:i]})
		}
		switch v := value.(type) {
		case int64:
			with("a string", "x")
			with("a list", []any{"x"})
		case string:
			with("a list", []any{"x"})
			with("a number", int64(7))
		case []any:
			with("a string", "x")
			with("a number", int64(7))
			for _, inner := range wrongs(v) {
				with("a list in which "+inner.what, inner.reply)
			}
		}
	}
	return all
}

// An asking is a call of one transition, which shows its right reply.
type asking struct {
	name string
	call func(ctx context.Context, s store.Shard) error
	// right is a reply that holds more than that of an empty store; nil: that of the store.
	right []any
	// takes reports whether a wrong reply may be accepted: a list may hold fewer, and foreign values in Redis are no fault of the reply.
	takes func(what string) bool
}

// If a script gets an answer that it never gives, its transition returns an error, and never panics.
func TestWrongRepliesByThirds(t *testing.T) {
	s := storetest.Open(t)
	shard := s.Of("t")
	a := &answers{}
	s.Client().AddHook(a)
	for i, one := range askings() {
		if err := one.call(t.Context(), shard); err != nil {
			t.Errorf("%s: %v", one.name, err)
			continue
		}
		right, _ := a.last.([]any)
		if one.right != nil {
			right = one.right
			storetest.Is(t, fmt.Sprintf("%s, of a right reply", one.name), a.forged(right, func() error { return one.call(t.Context(), shard) }), nil)
		}
		if right == nil {
			t.Errorf("%s: no script ran", one.name)
			continue
		}
		if !storetest.InThird(i) {
			continue
		}
		for _, w := range wrongs(right) {
			err := a.forged(w.reply, func() error { return one.call(t.Context(), shard) })
			var wrongReply *script.ReplyError
			if errors.As(err, &wrongReply) || err == nil && one.takes != nil && one.takes(w.what) {
				continue
			}
			t.Errorf("%s, where %s: %v; right is %v", one.name, w.what, err, right)
		}
	}
}

// fewer accepts a reply that ends earlier.
func fewer(what string) bool { return what == "the last is missing" }

// fewerFindings accepts a repair that finds less.
func fewerFindings(what string) bool { return what == "value 4 is a list in which the last is missing" }

// strayLease makes something for a repair to find.
func strayLease(ctx context.Context, s store.Shard) {
	s.Store().Client().ZAdd(ctx, s.Store().KeysOf("t").Leased(), redis.Z{Score: 1, Member: "t:stray"})
}

// askings returns a call of each transition.
func askings() []asking {
	return []asking{
		{name: "elect", right: []any{int64(1), "7 1 3000 me", int64(7), int64(5)}, call: electOnce},
		{name: "elect, where another carries", right: []any{int64(0), "7 1 3000 other", int64(2999)}, call: electOnce},
		{name: "elected", right: []any{"7 1 3000 me", int64(2999), "1763676000123", ""}, call: func(ctx context.Context, s store.Shard) error { return storetest.ErrOf(s.Carrier(ctx)) }},
		{name: "resign", call: func(ctx context.Context, s store.Shard) error {
			return storetest.ErrOf(s.Resign(ctx, "7 1 3000 other", "", 0))
		}},
		{name: "carry", call: carryOnce, right: []any{
			int64(1), int64(-1), int64(1763676000123456), "took", int64(900), "moved", int64(3), "earliest", "1763676000123",
			"runs",
			[]any{"1763676000123", int64(2), "-inf", int64(1)},
			"handed", int64(1),
			"buried",
			[]any{"t:1", "expired", int64(0), "foreign", "member without a topic", int64(1)},
			"dropped",
			[]any{"t:1", "expired", int64(0)},
			"lapsed", int64(2),
			"cursor", "0", "kept", int64(12), "repeated", int64(1), "evicts", "allkeys-lru", "taker",
			[]any{"other", int64(3)},
			"fill", int64(1), "settle", int64(1),
		}},
		{name: "withdraw", call: func(ctx context.Context, s store.Shard) error { return s.Withdraw(ctx, "me") }},
		{name: "carry, with a history", takes: fewerWithin, right: []any{
			int64(1), int64(-1), int64(1763676000123456), "cursor", "0", "totals", []any{"5", "4", "3", "H", "2"},
		}, call: func(ctx context.Context, s store.Shard) error {
			m, err := s.Carry(ctx, store.Carry{Token: "no", Lease: time.Second, Batch: 1, Beat: true, History: true, Ready: "0"})
			if err == nil && m.Totals != nil && m.Totals.Claimed != 2 {
				return errors.New("other totals")
			}
			return unlessDeposed(err)
		}},
		{name: "carry, where another does", right: []any{int64(0), "8 1 3000 other"}, call: carryOnce},
		{name: "sweep", call: sweepOnce, right: []any{int64(1), int64(200), int64(20), int64(1), int64(0), int64(0), int64(3), int64(2), int64(5), []any{"t", int64(4), "_", int64(1)}, int64(50), int64(6), "0 0 0", "0 0 0"}},
		{name: "open_archive", call: func(ctx context.Context, s store.Shard) error { return s.OpenArchive(ctx, 10) }},
		{name: "endings", takes: func(what string) bool { return fewer(what) || fewerWithin(what) }, right: []any{[]any{"1-0", "member", "t:1", "record", "1\n"}}, call: func(ctx context.Context, s store.Shard) error { return storetest.ErrOf(s.Endings(ctx, 10)) }},
		{name: "archived", call: func(ctx context.Context, s store.Shard) error { return s.Archived(ctx, "1-0") }},
		{name: "backlog", right: []any{int64(2), "1000-0", "7", int64(1000), int64(10)}, call: func(ctx context.Context, s store.Shard) error { return storetest.ErrOf(s.Backlog(ctx)) }},
		{name: "close_archive", call: func(ctx context.Context, s store.Shard) error { return storetest.ErrOf(s.CloseArchive(ctx)) }},
		{name: "bridge", call: func(ctx context.Context, s store.Shard) error { return storetest.ErrOf(s.BridgeTo(ctx, 7)) }},
		{name: "secret", right: []any{strings.Repeat("x", 64), []any{"id", "1000"}}, call: func(ctx context.Context, s store.Shard) error {
			_, _, err := s.Secret(ctx)
			return err
		}},
		{name: "logout", call: func(ctx context.Context, s store.Shard) error { return s.Logout(ctx, "id", time.Now()) }},
		{name: "pushes", right: []any{int64(1000), "crm", `{"topics":["t"],"url":"https://x","secrets":["whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"]}`, "*", "1"}, call: func(ctx context.Context, s store.Shard) error { return storetest.ErrOf(s.Pushes(ctx)) }},
		{name: "tried", call: func(ctx context.Context, s store.Shard) error { return s.PushTried(ctx, "crm", time.Second, "EOF") }},
		{name: "put_schedule", call: putOnce},
		{name: "change_schedule", right: []any{"changed", int64(7)}, call: func(ctx context.Context, s store.Shard) error {
			return s.PauseSchedule(ctx, "t", "daily", store.AnyRevision)
		}},
		{name: "schedule", right: []any{scheduleText, scheduleState, "1763676000123"}, call: func(ctx context.Context, s store.Shard) error {
			_, _, _, err := s.Schedule(ctx, "t", "daily")
			return unlessNoSchedule(err)
		}},
		{name: "schedules", right: []any{"7", "t", "daily", scheduleText, scheduleState}, call: func(ctx context.Context, s store.Shard) error {
			_, _, err := s.Schedules(ctx, "t", "")
			return err
		}},
		{name: "schedules, without messages", right: []any{"7", "t", "daily", scheduleText, scheduleState}, call: func(ctx context.Context, s store.Shard) error {
			_, _, err := s.BareSchedules(ctx, "t", "")
			return err
		}},
		{name: "schedule_sums", right: []any{int64(1), int64(1000), "4", "3", "2", "1", "5"}, call: func(ctx context.Context, s store.Shard) error { return storetest.ErrOf(s.ScheduleSums(ctx)) }},
		{name: "all_schedules", right: []any{int64(1000), int64(1), "2025c", "1763676000123", "t:daily", "t", "daily", scheduleText, scheduleState, "1763676000123"}, call: func(ctx context.Context, s store.Shard) error {
			return storetest.ErrOf(s.AllSchedules(ctx, 10, store.Mark{}))
		}},
		{name: "stuck_groups", right: []any{int64(1000), "", "0", int64(1), int64(2), int64(3), int64(4), int64(5), "t", "g", "held", "t:x", int64(1), int64(1), int64(1000)}, call: func(ctx context.Context, s store.Shard) error {
			return storetest.ErrOf(s.StuckGroups(ctx, 10, store.StuckAfter{}, store.StuckPage{}))
		}},
		{name: "export_schedules", right: []any{"7", "2026a", "t", "daily", scheduleText, scheduleState}, call: func(ctx context.Context, s store.Shard) error { return storetest.ErrOf(s.ExportSchedules(ctx, "0")) }},
		{name: "restore_schedule", right: []any{"created"}, call: func(ctx context.Context, s store.Shard) error {
			restore := &store.ScheduleRestore{ScheduleState: store.ScheduleState{Cursor: time.Now()}}
			_, err := s.RestoreSchedule(ctx, &store.Schedule{Topic: "t", Name: "daily", Spec: calendar.Spec{Every: time.Hour}}, restore)
			return err
		}},
		{name: "export_groups", call: func(ctx context.Context, s store.Shard) error {
			return s.ExportGroups(ctx, func(*store.ExportedGroup) error { return nil })
		}},
		{name: "restore_group", right: []any{int64(1)}, call: func(ctx context.Context, s store.Shard) error {
			return storetest.ErrOf(s.RestoreGroup(ctx, &store.ExportedGroup{Topic: "t", Name: "g"}))
		}},
		{name: "fill", takes: func(what string) bool {
			return fewerWithin(what) || strings.HasSuffix(what, "value 5 is a list in which one too many")
		}, right: []any{int64(1), int64(1000), []any{"made"}, []any{[]any{"t", "daily", scheduleText, scheduleState, []any{int64(1)}}}}, call: fillOnce},
		{name: "fill, where another does", right: []any{int64(0), "8 1 3000 other"}, call: fillOnce},
		{name: "renew_zones", right: []any{int64(1), "0"}, call: func(ctx context.Context, s store.Shard) error {
			_, err := s.RenewZones(ctx, "no", "2025c", "")
			return unlessDeposed(err)
		}},
		{name: "rotate", call: func(ctx context.Context, s store.Shard) error { return s.RotateSecret(ctx) }},
		{name: "sweep, where another does", right: []any{int64(0), ""}, call: sweepOnce},
		{name: "ack", takes: fewer, call: func(ctx context.Context, s store.Shard) error {
			return storetest.ErrOf(s.Ack(ctx, "t", []store.Lease{{Member: "t:1", Receipt: 1}}))
		}},
		{
			name: "claim",
			right: []any{
				int64(0), int64(1), "on_the_way", int64(1), "ripe", int64(20), "attempts",
				[]any{"1", "12"},
				"claimed", int64(1000), int64(1000),
				[]any{"t:1", "t:2"},
				[]any{"1", int64(2)},
				[]any{"1\n", "1\n"},
				"buried",
				[]any{"t:3", "expired"},
			},
			call: func(ctx context.Context, s store.Shard) error {
				return storetest.ErrOf(s.Claim(ctx, store.Claim{Topic: "t", Max: 3, Lease: time.Second}))
			},
		},
		{
			name: "share_out", right: []any{int64(1000), int64(-1), []any{int64(1)}, int64(2), int64(500)}, takes: fewerWithin,
			call: func(ctx context.Context, s store.Shard) error {
				return storetest.ErrOf(s.ShareOut(ctx, store.ShareOut{Topics: []string{"t", "u"}, Max: 500, Inbox: reach.NewInbox("i", true)}))
			},
		},
		{name: "forecast", call: func(ctx context.Context, s store.Shard) error {
			return storetest.ErrOf(s.Forecast(ctx, []int64{1, 2, 3}, []string{"t"}))
		}},
		{name: "forecast, of deaths", call: func(ctx context.Context, s store.Shard) error {
			return storetest.ErrOf(s.Deaths(ctx, []int64{1, 2, 3}, []string{"t"}))
		}},
		{name: "leave", call: func(ctx context.Context, s store.Shard) error {
			return s.Leave(ctx, reach.NewInbox("i", true), []string{"t", "u"}, []int64{0, 0})
		}},
		{
			name: "claim of messages that ask for something",
			right: []any{
				int64(0), int64(1), "claimed", int64(1000), int64(1000),
				[]any{"t:1", "t:2"},
				[]any{"1", int64(2)},
				[]any{"1\n", "1\n"},
				"own",
				[]any{int64(2), int64(500)},
				"dropped",
				[]any{"t:3", "late"},
			},
			call: func(ctx context.Context, s store.Shard) error {
				return storetest.ErrOf(s.Claim(ctx, store.Claim{Topic: "t", Max: 3, Lease: time.Second}))
			},
		},
		{name: "nack of a lease that is lost", call: nackOne},
		{name: "nack that is refused past the time to live", call: refusedNack, right: []any{"expires", int64(1000)}},
		{name: "nack that is refused as too many", call: refusedNack, right: []any{"often", int64(1000)}},
		{name: "nack", call: nackOne, right: []any{"scheduled", int64(1), int64(2), int64(0)}},
		{
			name: "extend", right: []any{int64(1000), []any{int64(1)}, int64(1), int64(2000)}, takes: fewerWithin,
			call: func(ctx context.Context, s store.Shard) error {
				return storetest.ErrOf(s.Extend(ctx, "t", "w", []store.Lease{{Member: "t:1", Receipt: 1}}, time.Second))
			},
		},
		{name: "release", takes: fewer, call: func(ctx context.Context, s store.Shard) error {
			return storetest.ErrOf(s.Release(ctx, "t", reach.Inbox{}, 0, []store.Return{{Lease: store.Lease{Member: "t:1", Receipt: 1}}}))
		}},
		{name: "grown", right: []any{"2 id", "1000", "2000", "t", "1000"}, call: func(ctx context.Context, s store.Shard) error { return storetest.ErrOf(s.Grown(ctx, 0, 10)) }},
		{
			name: "read",
			right: []any{
				"2 id", "1000", int64(1000), int64(0),
				[]any{"u"},
				[]any{int64(1), "900", []any{[]any{"1-0", []any{"id", "1", "due", "0"}}}},
			},
			takes: fewerWithin,
			call: func(ctx context.Context, s store.Shard) error {
				return storetest.ErrOf(s.Read(ctx, store.Read{Topics: []string{"t"}, Each: 10, Others: 10, Bytes: 1000}))
			},
		},
		{name: "lag", right: []any{[]any{"900", int64(1), int64(0)}}, call: func(ctx context.Context, s store.Shard) error {
			return storetest.ErrOf(s.Lag(ctx, []store.LogPlace{{Topic: "t", Place: 1, From: 1}}))
		}},
		{name: "sent", right: []any{"", "900", "1000"}, call: func(ctx context.Context, s store.Shard) error {
			_, _, err := s.Sent(ctx, "t", "a")
			return err
		}},
		{name: "register", right: []any{"t now 1 0 id", "1000"}, call: func(ctx context.Context, s store.Shard) error {
			_, _, err := s.Register(ctx, "n", store.Registration{Pattern: "t", From: "now"})
			return err
		}},
		{name: "take of a name that is gone", call: take},
		{
			name: "take",
			right: []any{
				int64(1000),
				[]any{[]any{"t", int64(1), []any{"1-0", []any{"id", "1", "due", "0"}}}},
				[]any{[]any{"t", int64(1), "900", "1000"}},
				[]any{"t"},
			},
			takes: fewerWithin, call: take,
		},
		{
			name: "hold", right: []any{int64(1000), int64(1)}, takes: fewer,
			call: func(ctx context.Context, s store.Shard) error {
				_, _, err := s.Hold(ctx, "n", "w", []store.Lease{{Member: "1 t", Receipt: 1}}, time.Second)
				return err
			},
		},
		{
			name: "owners", right: []any{int64(3), "w", int64(2), "1000 t"},
			call: func(ctx context.Context, s store.Shard) error { return storetest.ErrOf(s.Progress(ctx, "n")) },
		},
		{name: "unregister", call: func(ctx context.Context, s store.Shard) error { return storetest.ErrOf(s.Unregister(ctx, "n")) }},
		{name: "requeue", call: func(ctx context.Context, s store.Shard) error {
			return storetest.ErrOf(s.Requeue(ctx, "t", store.Letters{Members: []string{"t:1"}}))
		}},
		{name: "purge", call: func(ctx context.Context, s store.Shard) error {
			return storetest.ErrOf(s.Purge(ctx, "t", store.Letters{Members: []string{"t:1"}}))
		}},
		{name: "repair places", takes: fewerFindings, call: func(ctx context.Context, s store.Shard) error {
			strayLease(ctx, s)
			_, err := s.RepairPlace(ctx, script.PlaceLeased, "", store.RepairStep{Size: 10})
			return err
		}},
		{name: "repair records", call: func(ctx context.Context, s store.Shard) error {
			return storetest.ErrOf(s.RepairRecords(ctx, store.RepairStep{Size: 10}))
		}},
		{name: "repair leftovers", call: func(ctx context.Context, s store.Shard) error {
			return storetest.ErrOf(s.RepairExpiries(ctx, store.RepairStep{Size: 10}))
		}},
		{name: "repair topics", call: func(ctx context.Context, s store.Shard) error {
			return storetest.ErrOf(s.RepairTopics(ctx, false, []string{"t"}))
		}},
		{name: "repair listeners", call: func(ctx context.Context, s store.Shard) error {
			return storetest.ErrOf(s.RepairListeners(ctx, false, []string{"n"}))
		}},
		{name: "repair schedules", takes: fewerFindings, right: []any{"0", int64(1), int64(20), []any{[]any{"index", "t:daily", "schedules-due", "added"}}}, call: func(ctx context.Context, s store.Shard) error {
			return storetest.ErrOf(s.RepairSchedules(ctx, script.Keys.SchedulesOf, "t", store.RepairStep{Size: 10}))
		}},
		{name: "repair hooks", takes: fewerFindings, call: func(ctx context.Context, s store.Shard) error {
			s.Store().Client().HSet(ctx, s.Store().KeysOf("t").Hooks(), "$dead.ghost", 1)
			_, err := s.RepairHooks(ctx, store.RepairStep{Size: 10})
			return err
		}},
		{name: "repair counters", takes: fewerFindings, call: func(ctx context.Context, s store.Shard) error {
			strayLease(ctx, s)
			_, err := s.RepairCounters(ctx, script.PlaceLeased, store.RepairStep{Size: 10})
			return err
		}},
		{name: "publish", call: func(ctx context.Context, s store.Shard) error {
			_, err := s.Publish(ctx, []store.Publish{
				{Topic: "t", Member: "t:1", Tail: "}\nx"}, {Topic: "t", Member: "t:2", Tail: "}\nx", When: store.In(time.Hour)},
			})
			return err
		}},
		{
			name:  "publish_as",
			right: []any{int64(1000), "created", int64(2000), int64(0), "scheduled", "refused", int64(-7), int64(0), "", "kept", int64(0), int64(0), "done"},
			call: func(ctx context.Context, s store.Shard) error {
				one := store.Publish{Topic: "t", Member: "t:1", Tail: "\nx", As: &store.As{IfExists: store.Keep}}
				_, err := s.PublishAs(ctx, []store.Publish{one, one, one})
				return err
			},
		},
		{name: "reschedule", call: func(ctx context.Context, s store.Shard) error {
			_, _, err := s.Reschedule(ctx, "t", "t:2", store.In(time.Minute), time.Time{})
			return err
		}},
		{name: "cancel", call: func(ctx context.Context, s store.Shard) error { return storetest.ErrOf(s.Cancel(ctx, "t", "t:2")) }},
		{name: "cancel of a leased one", right: []any{"leased", "w"}, call: func(ctx context.Context, s store.Shard) error { return storetest.ErrOf(s.Stop(ctx, "t", "t:2")) }},
		{name: "nack of what is to be cancelled", call: nackOne, right: []any{"cancelled", int64(0), int64(2), int64(0)}},
		{
			name: "extend what is to be cancelled", right: []any{int64(1000), []any{}, int64(1), int64(0)}, takes: fewerWithin,
			call: func(ctx context.Context, s store.Shard) error {
				return storetest.ErrOf(s.Extend(ctx, "t", "w", []store.Lease{{Member: "t:1", Receipt: 1}}, time.Second))
			},
		},
		{name: "ack with a result, of a lease that is lost", call: ackWithOne},
		{name: "ack with a result", call: ackWithOne, right: []any{int64(0), int64(1)}},
		{name: "await", call: func(ctx context.Context, s store.Shard) error {
			return storetest.ErrOf(s.Await(ctx, "t", []string{"t:1"}, time.Second))
		}},
		{name: "ended", takes: fewer, right: []any{int64(1), int64(2)}, call: func(ctx context.Context, s store.Shard) error {
			return storetest.ErrOf(s.Ended(ctx, []string{"t:1", "t:2"}))
		}},
		{name: "arrive", call: func(ctx context.Context, s store.Shard) error {
			_, _, err := s.Arrive(ctx, store.Worker{ID: "1"})
			return err
		}},
		{name: "depart", call: func(ctx context.Context, s store.Shard) error { return s.Depart(ctx, "1") }},
		{
			name: "workers", right: []any{"0", "1", `{"name":"w"}`}, takes: fewer,
			call: func(ctx context.Context, s store.Shard) error { return storetest.ErrOf(s.Workers(ctx)) },
		},
		{
			name: "in_hand", right: []any{"", int64(0), "t", "me", int64(2), int64(0), ""}, takes: fewer,
			call: func(ctx context.Context, s store.Shard) error { return storetest.ErrOf(s.InHand(ctx)) },
		},
		{name: "failing", right: []any{int64(1000), "t", int64(2), "1", int64(3), int64(900), "w", "why"}, takes: fewer, call: func(ctx context.Context, s store.Shard) error {
			_, _, err := s.Failing(ctx)
			return err
		}},
		{name: "inspect", call: inspectOne},
		{name: "inspect a message that is kept", right: []any{[]any{"t:1", "done", "1000", "2", nil, nil, `=1000,{"published":1,"ended":2}` + "\nx", ""}}, call: inspectOne},
		{name: "inspect a message that is leased", right: []any{[]any{"t:1", "leased", "1000", "1", "2000", nil, "1\nx", " snoozed=1\n2\ny"}}, call: inspectOne},
		{name: "inspect a message that a worker has", right: []any{[]any{"t:1", "leased", "1000", "1\n7 8 w x y", "2000", nil, "1\nx", "", "w", "7"}}, call: inspectOne},
		{name: "inspect an id that stays taken", right: []any{[]any{"t:1", "done", "1000", nil, nil, nil, nil, ""}}, call: inspectOne},
		{name: "list", takes: emptier, call: func(ctx context.Context, s store.Shard) error {
			_, _, err := s.List(ctx, "t", script.PlaceReady, false, 10, store.Mark{})
			return err
		}},
		{
			name: "export", right: []any{"0", int64(1), int64(3), []any{"t:1", "ready", "1", nil, nil, nil, "1\nx", ""}, []any{"t:2"}, []any{"x", ""}},
			takes: func(what string) bool { return fewer(what) || what == "value 6 is a list in which the last is missing" },
			call:  func(ctx context.Context, s store.Shard) error { return storetest.ErrOf(s.Export(ctx, "0", 10)) },
		},
		{
			name: "keys", right: []any{int64(1), "k", int64(2), "1000"}, takes: func(what string) bool { return what == "nothing behind 1 values" },
			call: func(ctx context.Context, s store.Shard) error {
				_, _, err := s.BlockedKeys(ctx, "t", 0, 10)
				return err
			},
		},
		{name: "seats", right: []any{[]any{"1", "leased", "me", "1000"}}, call: func(ctx context.Context, s store.Shard) error {
			return s.ReadSeats(ctx, "t", make([]store.Key, 1))
		}},
		{name: "topics", call: func(ctx context.Context, s store.Shard) error { return storetest.ErrOf(s.Topics(ctx, []string{"t"})) }},
		{name: "names", takes: fewer, call: func(ctx context.Context, s store.Shard) error {
			return storetest.ErrOf(s.TopicNames(ctx, 10, []record.Names{{To: "\xff"}}))
		}},
		{name: "occupied", right: []any{"", "t", "1"}, call: func(ctx context.Context, s store.Shard) error {
			return storetest.ErrOf(s.Occupied(ctx, new(store.Sought), []script.Place{script.PlaceReady}, true, 10, []record.Names{{To: "\xff"}}))
		}},
		{name: "look up", right: []any{int64(1), int64(1000), []any{"t:1", "ready", "1", nil, nil, nil, "1\nx", ""}}, takes: fewer, call: func(ctx context.Context, s store.Shard) error {
			return storetest.ErrOf(s.LookUp(ctx, "1", store.Slice{Topics: []string{"t"}, Work: 10, Most: 10}))
		}},
		{name: "survey", call: func(ctx context.Context, s store.Shard) error { return storetest.ErrOf(s.Survey(ctx, 10)) }},
		{name: "notable", call: func(ctx context.Context, s store.Shard) error { return storetest.ErrOf(s.Notable(ctx, false, 0, 10)) }},
		{name: "settings", call: func(ctx context.Context, s store.Shard) error { return storetest.ErrOf(s.Settings(ctx, "t")) }},
		{name: "set", call: func(ctx context.Context, s store.Shard) error {
			return storetest.ErrOf(s.Set(ctx, "t", store.SettingsChange{Paused: new(true)}, false))
		}},
		{name: "set what cannot be", right: []any{int64(0), int64(2), int64(1)}, call: func(ctx context.Context, s store.Shard) error {
			_, err := s.Set(ctx, "t", store.SettingsChange{Paused: new(true)}, false)
			var fault *fault.Fault
			if errors.As(err, &fault) {
				return nil
			}
			return err
		}},
		{name: "pause until what cannot be", right: []any{int64(0), int64(0), int64(1)}, call: func(ctx context.Context, s store.Shard) error {
			_, err := s.Set(ctx, "t", store.SettingsChange{Paused: new(true)}, false)
			var fault *fault.Fault
			if errors.As(err, &fault) {
				return nil
			}
			return err
		}},
	}
}

// emptier accepts a list in a reply that holds less.
func emptier(what string) bool { return strings.HasSuffix(what, "in which the last is missing") }

func ackWithOne(ctx context.Context, s store.Shard) error {
	_, _, err := s.AckWith(ctx, "t", store.Lease{Member: "t:1", Receipt: 1}, store.Result{Body: []byte("x"), Keep: time.Second})
	return err
}

func inspectOne(ctx context.Context, s store.Shard) error {
	_, err := s.Inspect(ctx, "t", []string{"t:1"})
	return err
}

// refusedNack returns what is wrong, but for a Fault.
func refusedNack(ctx context.Context, s store.Shard) error {
	var fault *fault.Fault
	if err := nackOne(ctx, s); !errors.As(err, &fault) {
		return err
	}
	return nil
}

func nackOne(ctx context.Context, s store.Shard) error {
	_, err := s.Nack(ctx, "t", store.Nack{Lease: store.Lease{Member: "t:1", Receipt: 1}, Delay: time.Second})
	return err
}

func electOnce(ctx context.Context, s store.Shard) error {
	_, err := s.Elect(ctx, "me", time.Second, 0)
	return err
}

// A schedule as Redis holds it.
const (
	scheduleText  = "{\"every\":3600}\n0\nx"
	scheduleState = " revision=7 cursor=8\n 9,9000,5"
)

func putOnce(ctx context.Context, s store.Shard) error {
	_, _, err := s.PutSchedule(ctx, &store.Schedule{Topic: "t", Name: "daily", Spec: calendar.Spec{Every: time.Hour}}, store.AnyRevision)
	return err
}

func fillOnce(ctx context.Context, s store.Shard) error {
	of := store.DueSchedule{Listed: store.Listed{Schedule: store.Schedule{Topic: "t", Name: "daily"}}}
	_, err := s.FillSchedules(ctx, "no", true, []store.Fill{{Of: of}})
	return unlessDeposed(err)
}

// unlessNoSchedule returns no error where the schedule is missing.
func unlessNoSchedule(err error) error {
	if errors.Is(err, store.ErrNoSchedule) {
		return nil
	}
	return err
}

func carryOnce(ctx context.Context, s store.Shard) error {
	_, err := s.Carry(ctx, store.Carry{Token: "no", Lease: time.Second, Batch: 1, Ready: "0"})
	return unlessDeposed(err)
}

func sweepOnce(ctx context.Context, s store.Shard) error {
	_, err := s.Sweep(ctx, store.Sweep{Token: "no", KeepDeadAge: time.Second, KeepTopics: time.Second})
	return unlessDeposed(err)
}

// unlessDeposed returns err, or nil if it is a DeposedError.
func unlessDeposed(err error) error {
	var deposed *store.DeposedError
	if errors.As(err, &deposed) {
		return nil
	}
	return err
}

// fewerWithin accepts a list within a reply that ends earlier.
func fewerWithin(what string) bool {
	return strings.HasSuffix(what, "is a list in which the last is missing")
}

func take(ctx context.Context, s store.Shard) error {
	_, err := s.Take(ctx, store.Take{Name: "m", Registration: "t now 1 0 id", Lease: time.Second, Max: 1, Topics: []string{"t"}})
	return err
}

// Each transition runs in each shard of a store of several.
func TestTransitionsInEachShard(t *testing.T) {
	t.Parallel()
	s := storetest.With(t, notify.Config{URL: storetest.URL(), Prefix: "test-" + record.NewID(), Shards: 8})
	shards, err := s.Shards(t.Context())
	storetest.Must(t, err)
	for _, shard := range shards {
		for _, one := range askings() {
			storetest.Is(t, fmt.Sprintf("%s in shard %d", one.name, shard.Number()), one.call(t.Context(), shard), nil)
		}
	}
}
