package notify_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/script"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// account is a user of a Redis of the test's own, and a client that changes the user's
// rights.
type account struct {
	t     *testing.T
	url   string
	root  *notify.Store
	store *notify.Store // of the user
}

// newAccount starts a Redis with a user that has all rights but some.
func newAccount(t *testing.T, without ...string) *account {
	t.Helper()
	server := storetest.Server(t)
	a := &account{t: t, root: storetest.Unhurried(storetest.At(t, server.URL(), "")), url: strings.Replace(server.URL(), "redis://", "redis://bellhop:secret@", 1)}
	a.set("on", ">secret")
	a.set(strings.Fields(reach.Rights(script.DefaultPrefix, storetest.Shards()))...)
	a.set(without...)
	a.store = storetest.Unhurried(storetest.At(t, a.url, ""))
	return a
}

// set gives rights, as +zadd, and takes them away, as -zadd.
func (a *account) set(rights ...string) {
	a.t.Helper()
	rule := []any{"ACL", "SETUSER", "bellhop"}
	for _, right := range rights {
		rule = append(rule, right)
	}
	storetest.Must(a.t, a.root.Client().Do(a.t.Context(), rule...).Err())
}

// called returns how often Redis got a command, from clients and scripts.
func (a *account) called(command string) int {
	a.t.Helper()
	stats, err := a.root.Home().Info(a.t.Context(), "commandstats")
	storetest.Must(a.t, err)
	calls, _, _ := strings.Cut(strings.TrimPrefix(stats["cmdstat_"+command], "calls="), ",")
	n, _ := strconv.Atoi(calls) // zero: it was not
	return n
}

// give gives all rights.
func (a *account) give() {
	a.t.Helper()
	a.set(strings.Fields(reach.Rights(script.DefaultPrefix, storetest.Shards()))...)
}

// wantRefused checks that an error names the missing right and the remedy, and that
// nothing was sent.
func wantRefused(t *testing.T, err error, fault, remedy string) {
	t.Helper()
	var missing *reach.RightsError
	if !errors.As(err, &missing) || !reach.Refused(err) || !notify.Retryable(err) || reach.NotExecuted(err) {
		t.Fatalf("%v; want a RightsError", err)
	}
	if !strings.HasPrefix(missing.Fault, fault) || !strings.HasPrefix(missing.Remedy, remedy) || !strings.HasSuffix(err.Error(), missing.Remedy) {
		t.Errorf("got %v, want %q and %q", err, fault, remedy)
	}
}

// refusals makes calls of each kind on a store, also with a delivery that another store
// claimed, and returns their errors.
func refusals(t *testing.T, s *notify.Store, d subscribers.Delivery) []error {
	t.Helper()
	pub, claimer := clientOf(t, s), subscriberstest.Claimer(t, s)
	own := claimer.Delivery(topic, d.ID, d.Receipt)
	return []error{
		storetest.ErrOf(pub.Publish(t.Context(), message("b", past))),
		storetest.ErrOf(pub.Broadcast(t.Context(), announcement("c", past))),
		storetest.ErrOf(pub.Cancel(t.Context(), topic, d.ID)),
		storetest.ErrOf(pub.Inspect(t.Context(), topic, d.ID)),
		storetest.ErrOf(claimer.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 1, Lease: time.Minute})),
		storetest.ErrOf(own.Nack(t.Context(), 0, "")),
		own.Ack(t.Context()),
		s.Check(t.Context()),
	}
}

const theRights = "run ACL SETUSER NAME resetkeys ~bellhop:* resetchannels &bellhop:* "

// Without a right every call is refused as a whole, and the error says how to grant it;
// all calls work once it is granted.
func TestMissingRight(t *testing.T) {
	t.Parallel()
	tells, others := "its user may not call PUBLISH bellhop:{0}:nudge, PUBLISH bellhop:wake:topic, ", "its user may not call PUBLISH bellhop:wake:topic, PUBLISH bellhop:broadcast:topic, "
	if storetest.Shards() > 1 {
		tells, others = "its user may not call SPUBLISH bellhop:{", "its user may not call SPUBLISH bellhop:{"
	}
	for _, test := range []struct{ without, fault string }{
		{"-zadd", "its user may not call ZADD"},
		{"-hdel", "its user may not call HDEL"},
		{"-zadd -zrem", "its user may not call ZADD, ZREM"},
		{"-eval", ""}, // whose words Redis finds
		{"-xinfo|stream", "its user may not call XINFO stream"},
		{"-publish -spublish", tells},
		{"resetchannels &bellhop:{0}:*", others},
		{"resetkeys ~mine:*", ""},
		{"-evalsha", "its user may not call EVALSHA"},
	} {
		t.Run(test.without, func(t *testing.T) {
			t.Parallel()
			a := newAccount(t, strings.Fields(test.without)...)
			publish(t, clientOf(t, a.root), message("a", past))
			d := claim(t, a.root, 1)[0]
			unchanged(t, a.root, func() {
				for _, err := range refusals(t, a.store, d) {
					wantRefused(t, err, test.fault, theRights)
				}
			})
			a.give()
			own := subscriberstest.Claimer(t, a.store).Delivery(topic, d.ID, d.Receipt)
			storetest.Eventually(t, "it is acknowledged", func() bool { return own.Ack(t.Context()) == nil })
			publish(t, clientOf(t, a.store), message("b", past))
		})
	}
}

// The right to wait for replicas is required only with WaitReplicas.
func TestMissingWait(t *testing.T) {
	t.Parallel()
	a := newAccount(t, "-wait")
	publish(t, clientOf(t, a.store), message("a", past))
	s := confirmed(t, a.url)
	unchanged(t, a.root, func() {
		wantRefused(t, storetest.ErrOf(clientOf(t, s).Publish(t.Context(), message("b", past))), "its user may not call WAIT", theRights)
	})
}

// A command that was renamed or removed in Redis counts as a missing right.
func TestRenamedCommand(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "other"} {
		server := storetest.Server(t, "--rename-command", "zadd", name)
		s := storetest.Unhurried(storetest.At(t, server.URL(), ""))
		for _, err := range refusals(t, s, subscribers.Delivery{Topic: topic, ID: "a", Receipt: 1}) {
			wantRefused(t, err, "it does not know ZADD", "take rename-command")
		}
		if keys := dump(t, s); len(keys) > 0 {
			t.Errorf("there is %v", keys)
		}
	}
}

// A right that is taken away during use fails the calls under way. Later ones are
// refused before they change anything.
func TestRightTakenAway(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	pub := clientOf(t, a.store)
	publish(t, pub, message("a", past))
	d := claim(t, a.store, 1)[0]
	a.set("-hdel")
	wantRefused(t, d.Ack(t.Context()), "", theRights) // it met it
	unchanged(t, a.root, func() {
		for _, err := range refusals(t, a.store, d) {
			wantRefused(t, err, "its user may not call HDEL", theRights)
		}
	})
	a.give()
	storetest.Eventually(t, "it is published", func() bool { return storetest.ErrOf(pub.Publish(t.Context(), message("b", past))) == nil })
}

// A message whose end needs more than to be forgotten stays where it is if the right is
// missing that its end needs, since without that it could not be put back.
func TestMissingRightAtTheEnd(t *testing.T) {
	t.Parallel()
	next := message("a", future)
	next.Then = notify.After
	for name, test := range map[string]struct {
		m    notify.Message
		next bool
		end  func(context.Context, *subscribers.Delivery) error
	}{
		"acknowledged, its id stays taken": {notify.Message{UniqueFor: anHour}, false, func(ctx context.Context, d *subscribers.Delivery) error { return d.Ack(ctx) }},
		"acknowledged, and kept": {notify.Message{}, false, func(ctx context.Context, d *subscribers.Delivery) error {
			return storetest.ErrOf(d.AckWith(ctx, notify.AckResult{Keep: time.Hour}))
		}},
		"acknowledged, and followed": {notify.Message{}, true, func(ctx context.Context, d *subscribers.Delivery) error { return d.Ack(ctx) }},
		"dropped, its id stays taken": {notify.Message{UniqueFor: anHour, MaxAttempts: 1, Fail: notify.FailDrop}, false, func(ctx context.Context, d *subscribers.Delivery) error {
			return storetest.ErrOf(d.Nack(ctx, 0, "no"))
		}},
		"buried, and followed": {notify.Message{}, true, func(ctx context.Context, d *subscribers.Delivery) error { return storetest.ErrOf(d.Bury(ctx, "no")) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAccount(t)
			test.m.Topic, test.m.ID, test.m.Body = topic, "a", []byte("x")
			publish(t, clientOf(t, a.store), test.m)
			d := claim(t, a.store, 1)[0]
			if test.next {
				publish(t, clientOf(t, a.store), next)
			}
			a.set("-zadd")
			unchanged(t, a.root, func() { wantRefused(t, test.end(t.Context(), &d), "", theRights) })
			a.give()
			storetest.Eventually(t, "it ends", func() bool { return test.end(t.Context(), &d) == nil })
		})
	}
}

// A call without a script names the right that it misses as scripts do.
func TestRightTakenAwayFromWhatRunsNoScript(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	if err := a.store.Check(t.Context()); err != nil {
		t.Fatal(err) // its connection stands before its user has fewer rights
	}
	ask := func() error {
		_, _, err := a.store.Of(topic).Reasons(t.Context(), 0, 10)
		return err
	}
	a.set("-hscan")
	wantRefused(t, ask(), "NOPERM", theRights)
	a.give()
	storetest.Must(t, ask())
}

// If the policy was changed as well, the check refuses publishes, and nothing else.
func TestRightTakenAwayWhileRedisEvicts(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	pub := clientOf(t, a.store)
	publish(t, pub, message("a", past))
	d := claim(t, a.store, 1)[0]
	do(t, a.root, []any{"CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru"})
	a.set("-hdel")
	wantRefused(t, d.Ack(t.Context()), "", theRights)
	a.give()
	var err error
	storetest.Eventually(t, "the right is there again", func() bool {
		err = d.Ack(t.Context())
		return !reach.Refused(err)
	})
	if err != nil {
		t.Errorf("acknowledge: %v", err)
	}
	storetest.Eventually(t, "publishes are refused", func() bool {
		return errors.Is(storetest.ErrOf(pub.Publish(t.Context(), message(notify.NewID(), future))), notify.ErrUnfit)
	})
}

// The rights may differ when a connection is made anew: that is reported before a call
// is sent on it.
func TestRightGoneWithTheConnection(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	pub := clientOf(t, a.store)
	publish(t, pub, message("a", past))
	d := claim(t, a.store, 1)[0]
	a.set("-hdel", "-zadd")
	storetest.Must(t, a.root.Client().ClientKillByFilter(t.Context(), "USER", "bellhop").Err())
	unchanged(t, a.root, func() {
		for _, err := range refusals(t, a.store, d) {
			wantRefused(t, err, "its user may not call HDEL, ZADD", theRights)
		}
	})
	a.give()
	storetest.Eventually(t, "it is published", func() bool { return storetest.ErrOf(pub.Publish(t.Context(), message("b", past))) == nil })
}

// However many calls come, one at a time asks Redis about rights, and about missing ones
// some ten times a second.
func TestRightsAreRarelyRead(t *testing.T) {
	t.Parallel()
	a := newAccount(t, "-zadd")
	began, asked := time.Now(), a.called("info")
	storeSends := func() error {
		return storetest.ErrOf(subscriberstest.Claimer(t, a.store).Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 1, Lease: time.Minute}))
	}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			for range 20 {
				if err := storeSends(); !reach.Refused(err) {
					t.Errorf("%v; want a RightsError", err)
				}
			}
		})
	}
	all.Wait()
	most := 1 + int(time.Since(began)/(100*time.Millisecond))
	if looked := a.called("info") - asked - 1; looked > most { // one is that of the test
		t.Errorf("it looked %d times in %v, want %d at the most", looked, time.Since(began), most)
	}
}

// Workers and listeners without a right retry, and work as soon as it is granted.
func TestMissingRightStopsNobody(t *testing.T) {
	t.Parallel()
	for _, right := range []string{"-zadd", "-hdel", "-eval"} {
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			a := newAccount(t, right)
			handled, heard, named := make(chan string, 9), make(chan string, 9), make(chan string, 9)
			sub, err := subscribers.NewSubscriber(a.store)
			storetest.Must(t, err)
			err = sub.Handle(topic, func(_ context.Context, d *subscribers.Delivery) error { handled <- d.ID; return nil }, subscribers.HandleOptions{})
			storetest.Must(t, err)
			l := subscriberstest.Listener(t, a.store)
			listen := func(to chan<- string, o subscribers.ListenOptions) {
				storetest.Run(t, func(ctx context.Context) error {
					return l.Listen(ctx, topic, func(_ context.Context, b *subscribers.Broadcast) error { to <- b.ID; return nil }, o)
				})
			}
			carry(t, a.store)
			storetest.Run(t, sub.Run)
			listen(heard, subscribers.ListenOptions{From: subscribers.FromBeginning()})
			listen(named, subscribers.ListenOptions{Name: "n", From: subscribers.FromBeginning()})
			own := 0
			storetest.Eventually(t, "they were refused for a while", func() bool {
				own++
				return a.called("info") > own+5
			})
			a.give()
			publish(t, clientOf(t, a.root), notify.Message{Topic: topic, ID: "a", Body: []byte("x"), Delay: time.Millisecond})
			publish(t, clientOf(t, a.root), announcement("b", time.Time{}))
			for what, from := range map[string]chan string{"the message": handled, "the broadcast": heard, "the broadcast, by name": named} {
				storetest.Receive(t, what, from)
			}
		})
	}
}

// refusal is a reply of Redis.
type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}

// Each version of Redis refuses a user in its own words.
func TestRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"NOPERM this user has no permissions to run the 'hdel' command":                                                                               true, // Redis 7.0
		"NOPERM User u has no permissions to run the 'hdel' command":                                                                                  true, // and newer
		"NOPERM No permissions to access a key":                                                                                                       true,
		"ERR The user executing the script can't run this command or subcommand script: 7592411a, on @user_script:2.":                                 true, // Redis 7.0
		"ERR ERR The user executing the script can't run this command or subcommand script: 7592411a, on @user_script:2.":                             true, // passed on by a script
		"ERR The user executing the script can't access at least one of the keys mentioned in the command arguments script: ee53, on @user_script:2.": true,
		"ERR The user executing the script can't publish to the channel mentioned in the command script: 96c5, on @user_script:2.":                    true,
		"ERR ACL failure in script: User u has no permissions to run the 'hdel' command script: 7592411a, on @user_script:2.":                         true, // Redis 7.2 and Valkey
		"ERR ERR ACL failure in script: No permissions to access a key script: b4e4413c, on @user_script:1.":                                          true,
		"ERR Unknown Redis command called from script script: 3eefe3e6, on @user_script:2.":                                                           true,
		"ERR ERR Unknown command called from script script: 9d735959, on @user_script:2.":                                                             true, // Valkey 8
		"NOAUTH Authentication required.":                                         false,
		"WRONGPASS invalid username-password pair or user is disabled.":           false,
		"LOADING Redis is loading the dataset in memory":                          false,
		"ERR a member says: The user executing the script can't run this command": false,
	} {
		if err := fmt.Errorf("x: %w", refusal(text)); reach.Refused(err) != want || notify.Retryable(err) != (want || strings.HasPrefix(text, "LOADING")) {
			t.Errorf("%s: refused %v, away %v", text, reach.Refused(err), notify.Retryable(err))
		}
		if reach.Refused(errors.New(text)) {
			t.Errorf("%s: it is not Redis who says that", text)
		}
	}
}
