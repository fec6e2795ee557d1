package subscribers_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// programs are what a user of the library runs, with no option set.
var programs = map[string]func(*testing.T, *notify.Store) func(context.Context) error{
	"subscriber": func(t *testing.T, store *notify.Store) func(context.Context) error {
		s := subscriberstest.Subscriber(t, store)
		storetest.Must(t, s.Handle(topic, succeeds))
		return s.Run
	},
	"claimer": func(t *testing.T, store *notify.Store) func(context.Context) error {
		p := subscriberstest.Claimer(t, store)
		return p.Run
	},
	"listener":       func(t *testing.T, store *notify.Store) func(context.Context) error { return listening(t, store, "") },
	"named listener": func(t *testing.T, store *notify.Store) func(context.Context) error { return listening(t, store, "n") },
	"carrier": func(t *testing.T, store *notify.Store) func(context.Context) error {
		c, err := carrier.New(store, carrier.Options{})
		storetest.Must(t, err)
		return c.Run
	},
}

func listening(t *testing.T, store *notify.Store, name string) func(context.Context) error {
	l := subscriberstest.Listener(t, store)
	return func(ctx context.Context) error {
		return l.Listen(ctx, ">", hears, subscribers.ListenOptions{Name: name})
	}
}

// started runs the programs of some names, each on a store and with a default logger of its own.
func started(t *testing.T, url string, names ...string) map[string]*journal {
	t.Helper()
	logs := make(map[string]*journal)
	for _, name := range names {
		log, before := new(journal), slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
		run := programs[name](t, storetest.At(t, url, ""))
		slog.SetDefault(before)
		logs[name] = log
		storetest.Run(t, run)
	}
	return logs
}

// says waits until each program has logged, as the last of both, that a condition begins (which over leaves out), or that it is over.
// The words are those of the program, or all programs' (under an empty name). Each time that it begins, and is over, is logged once.
func says(t *testing.T, logs map[string]*journal, begun, over map[string]string, isOver bool) {
	t.Helper()
	of := func(words map[string]string, name string) string {
		if own, ok := words[name]; ok {
			return own
		}
		return words[""]
	}
	for name, log := range logs {
		begins, ends := of(begun, name), of(over, name)
		storetest.Eventually(t, fmt.Sprintf("the %s logs %q, and over: %v", name, begins, isOver), func() bool {
			n, m := log.count(begins), log.count(ends)
			return n > 0 && (n == m) == isOver
		})
		again := false
		for line := range strings.Lines(log.String()) {
			switch {
			case strings.Contains(line, begins) && again, strings.Contains(line, ends) && !again:
				t.Errorf("the %s logs one twice:\n%s", name, log)
			case strings.Contains(line, begins), strings.Contains(line, ends):
				again = !again
			}
		}
	}
}

// What no call to Redis, or nobody who carries, is waited for is logged by programs without a logger of their own: once
// when it begins, and once when it is over.
func TestWaitingIsLogged(t *testing.T) {
	storetest.OneShard(t, "what several shards log is summed up")
	away := map[string]string{"": "level=ERROR msg=\"cannot subscribe to redis; retrying\"", "carrier": "level=ERROR msg=\"cannot stand for election; retrying\""}
	back := map[string]string{"": "level=INFO msg=\"subscribed to redis again\"", "carrier": "level=INFO msg=\"standing for election again\""}
	all := slices.Sorted(maps.Keys(programs))
	for fault, test := range map[string]struct {
		programs    []string
		args        []string // of redis-server
		fail, heal  func(*testing.T, *redisserver.Server)
		begun, over map[string]string
		says        []string // beside it, one of these
	}{
		"no redis": {
			programs: all, begun: away, over: back, says: []string{"connection refused"},
			fail: func(_ *testing.T, s *redisserver.Server) { s.Kill() },
			heal: func(t *testing.T, s *redisserver.Server) {
				again, err := s.Restart(t.Context())
				storetest.Must(t, err)
				t.Cleanup(again.Stop)
			},
		},
		"a redis that hangs": {
			programs: all, begun: away, over: back, says: []string{"no answer within 2.5s", "i/o timeout"},
			fail: func(t *testing.T, s *redisserver.Server) { send(t, s, syscall.SIGSTOP) },
			heal: func(t *testing.T, s *redisserver.Server) { send(t, s, syscall.SIGCONT) },
		},
		"a wrong password": {
			programs: []string{"subscriber", "claimer", "carrier"}, begun: away, over: back, says: []string{"WRONGPASS"},
			args: []string{"--requirepass", "another"},
			heal: func(t *testing.T, s *redisserver.Server) {
				client := redis.NewClient(&redis.Options{Addr: s.Addr(), Password: "another"})
				defer client.Close()
				storetest.Must(t, client.ConfigSet(t.Context(), "requirepass", "secret").Err())
			},
		},
		"no carrier": {
			programs: []string{"subscriber", "claimer", "listener", "named listener"},
			begun:    map[string]string{"": "level=WARN msg=\"no carrier is heard"}, over: map[string]string{"": "level=INFO msg=\"a carrier is heard again\""},
			says: []string{"for=2.5s", "for=3s"},
			heal: func(t *testing.T, s *redisserver.Server) { carry(t, storetest.At(t, s.URL(), "")) },
		},
	} {
		t.Run(fault, func(t *testing.T) {
			server := storetest.Server(t, test.args...)
			url := server.URL()
			if test.args != nil {
				url = strings.Replace(url, "//", "//:secret@", 1)
			}
			if test.fail != nil {
				test.fail(t, server)
			}
			logs := started(t, url, test.programs...)
			t.Parallel() // what waits begins together, behind what changes the default logger
			says(t, logs, test.begun, test.over, false)
			for name, log := range logs {
				if !slices.ContainsFunc(test.says, func(why string) bool { return log.count(why) > 0 }) {
					t.Errorf("the %s does not say why, one of %q:\n%s", name, test.says, log)
				}
			}
			test.heal(t, server)
			says(t, logs, test.begun, test.over, true)
		})
	}
}

// A Redis that hangs is not told as a carrier that is missing.
func TestRedisHangs(t *testing.T) {
	storetest.OneShard(t, "what several shards log is summed up")
	server := storetest.Server(t)
	db := storetest.At(t, server.URL(), "")
	logs := started(t, server.URL(), "carrier", "subscriber", "listener")
	beats := storetest.Subscribe(t, db, db.KeysOf(topic).Beat())
	storetest.Eventually(t, "all are subscribed", func() bool {
		n, err := db.Client().PubSubNumSub(t.Context(), db.KeysOf(topic).Beat()).Result()
		return err == nil && n[db.KeysOf(topic).Beat()] == 1+int64(len(logs))
	})
	for range 2 {
		storetest.Receive(t, "a beat", beats.Channel())
	}
	send(t, server, syscall.SIGSTOP)
	for name, log := range logs {
		storetest.Eventually(t, name+" logs that redis hangs", func() bool { return log.count("level=ERROR") > 0 })
		if log.count("no carrier is heard") > 0 {
			t.Errorf("the %s logs:\n%s", name, log)
		}
	}
	send(t, server, syscall.SIGCONT)
}

// A master that becomes a replica lets subscribe, and refuses the claim behind it: a subscription that is up in vain is logged once, and
// renewed ever more rarely.
func TestMasterBecomesAReplica(t *testing.T) {
	storetest.OneShard(t, "what several shards log is summed up")
	server := storetest.Server(t)
	log := started(t, server.URL(), "subscriber")["subscriber"]
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	connections := func() (n int) {
		info, err := client.Info(t.Context(), "stats").Result()
		storetest.Must(t, err)
		_, after, _ := strings.Cut(info, "total_connections_received:")
		storetest.Must(t, storetest.ErrOf(fmt.Sscan(after, &n)))
		return n
	}
	storetest.Eventually(t, "it is subscribed", func() bool {
		channels, err := client.PubSubChannels(t.Context(), "*").Result()
		return err == nil && len(channels) > 1
	})
	storetest.Must(t, server.Follow(t.Context(), "127.0.0.1", "1"))
	began, before := time.Now(), connections()
	storetest.Eventually(t, "it has connected 40 times", func() bool { return connections() >= before+40 })
	if took := time.Since(began); took < 2*time.Second {
		t.Errorf("it connected 40 times in %v", took)
	}
	if n := log.count("cannot subscribe to redis"); n > 3 {
		t.Errorf("it logged %d times that it cannot subscribe:\n%s", n, log)
	}
	storetest.Must(t, server.Follow(t.Context(), "NO", "ONE"))
	carry(t, storetest.At(t, server.URL(), ""))
	storetest.Eventually(t, "it is subscribed again", func() bool {
		return log.count("cannot subscribe to redis") == log.count("subscribed to redis again")
	})
}

// Who begins to listen with a wrong password is told by the error.
func TestListenWithWrongPassword(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t, "--requirepass", "another")
	for _, name := range []string{"", "n"} {
		store := storetest.At(t, strings.Replace(server.URL(), "//", "//:secret@", 1), "")
		if err := listening(t, store, name)(t.Context()); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
			t.Errorf("listening as %q ended with %v", name, err)
		}
	}
}

// standstill returns what returns for how long this machine, or Redis, stood still since it was asked last.
func standstill(t *testing.T, db *notify.Store) (stood func() time.Duration) {
	var mu sync.Mutex
	longest, last := time.Duration(0), time.Now()
	storetest.Run(t, func(ctx context.Context) error {
		every := time.NewTicker(10 * time.Millisecond)
		defer every.Stop()
		for ctx.Err() == nil {
			<-every.C
			if err := db.Client().Ping(ctx).Err(); err != nil && ctx.Err() == nil {
				return err
			}
			mu.Lock()
			longest, last = max(longest, time.Since(last)), time.Now()
			mu.Unlock()
		}
		return nil
	})
	return func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		stood := max(longest, time.Since(last)) // until now, if it goes on
		longest, last = 0, time.Now()
		return stood
	}
}

// A stop by a deadline is a stop that was asked for, at whatever point it comes: nothing is logged, but that Redis left the last call
// of a carrier unanswered, which it gives up after a second.
func TestDeadlineIsNoFault(t *testing.T) {
	for name, program := range programs {
		t.Run(name, func(t *testing.T) {
			log, before := new(journal), slog.Default()
			slog.SetDefault(slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn})))
			defer slog.SetDefault(before)
			db, unanswered := storetest.Open(t), new(atomic.Int64)
			db.Observe(func(script string, took time.Duration, err error) {
				if script == "resign" && err != nil && took >= time.Second {
					unanswered.Add(1)
				}
			})
			lines := func() int { return strings.Count(log.String(), "\n") }
			stood := standstill(t, db)
			excused := 0 // where the machine stood still, nobody did answer
			for n := range 40 {
				before := lines()
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n)*time.Millisecond)
				storetest.Should(t, program(t, db)(ctx))
				cancel()
				if stood() >= time.Second {
					excused += lines() - before
				}
			}
			if n := lines() - excused; n > log.count("cannot give up the lease") || int64(n) > unanswered.Load() {
				t.Errorf("it logged, with %d last calls unanswered:\n%s", unanswered.Load(), log)
			}
		})
	}
}
